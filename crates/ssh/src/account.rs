//! The local account. `/etc/passwd` is read directly, because libc's lookups load modules and a static binary cannot.

use std::fs;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// The login name.
    pub(crate) name: String,
    /// The numeric user id.
    pub(crate) uid: u32,
    /// The home directory.
    pub(crate) home: PathBuf,
}

impl Account {
    /// The account of this process. `HOME` overrides the passwd file, for containers that run under an arbitrary user
    /// id.
    pub(crate) fn current() -> Self {
        let uid = rustix::process::getuid().as_raw();
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = passwd
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields.get(2).and_then(|field| field.parse().ok()) == Some(uid));
        let field = |index: usize| entry.as_ref().and_then(|fields| fields.get(index)).map(|text| (*text).to_owned());
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        Self {
            name: field(0)
                .or_else(|| variable("USER"))
                .or_else(|| variable("LOGNAME"))
                .unwrap_or_else(|| uid.to_string()),
            uid,
            home: variable("HOME").or_else(|| field(5)).map_or_else(|| PathBuf::from("/"), PathBuf::from),
        }
    }
}

/// The name of this machine.
pub(crate) fn local_host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
