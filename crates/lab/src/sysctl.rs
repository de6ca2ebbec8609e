//! Settings of the machine's kernel that a guest can reach, because no namespace separates them. A kubelet sets three of them when it starts;
//! the lab remembers them all and sets them back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// What kubelets and preparations of Kubernetes hosts usually set.
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

/// The present values of those that this kernel has.
pub(crate) fn read() -> BTreeMap<String, String> {
    let value = |key: &&str| Some(((*key).to_owned(), fs::read_to_string(path(key)).ok()?.trim().to_owned()));
    KEYS.iter().filter_map(value).collect()
}

/// Sets values back that have changed.
pub(crate) fn restore(values: &BTreeMap<String, String>) -> Result<(), Error> {
    let now = read();
    for (key, value) in values.iter().filter(|(key, value)| now.get(*key) != Some(*value)) {
        let path = path(key);
        fs::write(&path, value).map_err(Error::io("set back the kernel's", &path))?;
    }
    Ok(())
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
