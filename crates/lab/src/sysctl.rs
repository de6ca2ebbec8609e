//! Kernel settings that guests can change, because no namespace separates them. A kubelet sets three of them at its
//! start; the last lab of the machine restores them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::state::ignore_missing;

/// Settings that kubelets and the preparation of Kubernetes hosts usually change.
const KEYS: &[&str] = &[
    "fs.file-max",
    "fs.inotify.max_user_instances",
    "fs.inotify.max_user_watches",
    "kernel.panic",
    "kernel.panic_on_oops",
    "kernel.pid_max",
    "vm.max_map_count",
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "vm.swappiness",
];

/// File with the original values while any lab is up. Like the changes, it does not survive a reboot.
const RECORD: &str = "/run/windlass-lab-sysctl.json";

/// Records the current values, unless an earlier lab has: only its record has the original values.
pub(crate) fn remember() -> Result<(), Error> {
    let path = Path::new(RECORD);
    if path.exists() {
        return Ok(());
    }
    let text = serde_json::to_string(&read()).map_err(|error| Error::io("write", path)(error.into()))?;
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    fs::write(&temporary, text).map_err(Error::io("write", &temporary))?;
    fs::rename(&temporary, path).map_err(Error::io("write", path))
}

/// Restores changed values. Only the last lab of the machine may call it.
pub(crate) fn restore() -> Result<(), Error> {
    let record = Path::new(RECORD);
    let Ok(text) = fs::read_to_string(record) else { return Ok(()) };
    let values: BTreeMap<String, String> = serde_json::from_str(&text).unwrap_or_default();
    let now = read();
    for (key, value) in values.iter().filter(|(key, value)| now.get(*key) != Some(*value)) {
        let path = path(key);
        fs::write(&path, value).map_err(Error::io("set back the kernel's", &path))?;
    }
    ignore_missing(fs::remove_file(record)).map_err(Error::io("remove", record))
}

/// Current values of the settings that this kernel has.
fn read() -> BTreeMap<String, String> {
    let value = |key: &&str| Some(((*key).to_owned(), fs::read_to_string(path(key)).ok()?.trim().to_owned()));
    KEYS.iter().filter_map(value).collect()
}

fn path(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_can_be_read_by_its_name() {
        let values = read();
        assert!(values.contains_key("vm.swappiness"));
        assert!(values.values().all(|value| value.parse::<i64>().is_ok()), "{values:?}");
    }
}
