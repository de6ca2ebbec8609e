//! Facts of the executor's own process: its account, its ids and its environment.

use std::time::Duration;

use super::{Facts, Root, probe};
use crate::{Host, Map};

/// `user_*` facts and the executor's ids. Parses the account files, because the C library's lookups fail on some hosts
/// in a static binary; falls back to `getent` for directory services.
pub(crate) fn collect(root: &Root, host: &Host, facts: &mut Facts) {
    let uid = rustix::process::getuid().as_raw();
    let line = root.read("/etc/passwd").and_then(|text| entry(&text, uid)).or_else(|| asked(root, uid));
    let fields: Vec<&str> = line.as_deref().unwrap_or_default().split(':').collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or_default();
    let name = Some(field(0).to_owned())
        .filter(|name| !name.is_empty())
        .or_else(|| host.variable("USER"))
        .unwrap_or_else(|| uid.to_string());
    facts.set("user_id", name);
    facts.set("user_uid", uid);
    facts.set("user_gid", field(3).parse().unwrap_or(rustix::process::getgid().as_raw()));
    facts.set("user_gecos", field(4));
    facts.set("user_dir", field(5));
    facts.set("user_shell", field(6));
    facts.set("real_user_id", uid);
    facts.set("effective_user_id", rustix::process::geteuid().as_raw());
    facts.set("real_group_id", rustix::process::getgid().as_raw());
    facts.set("effective_group_id", rustix::process::getegid().as_raw());
}

fn entry(passwd: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    passwd.lines().find(|line| line.split(':').nth(2) == Some(&uid)).map(str::to_owned)
}

fn asked(root: &Root, uid: u32) -> Option<String> {
    let getent = root.program("getent")?;
    let answer = probe::ask(&getent, &["passwd", &uid.to_string()], Duration::from_secs(5))?;
    Some(answer.stdout.trim().to_owned()).filter(|line| !line.is_empty())
}

/// `env`: the executor's environment with the task's variables.
pub(crate) fn environment(host: &Host, facts: &mut Facts) {
    let mut map = Map::new();
    let mut all: std::collections::BTreeMap<String, String> = std::env::vars_os()
        .map(|(key, value)| (key.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect();
    all.extend(host.environment().clone());
    map.extend(all.into_iter().map(|(key, value)| (key, value.into())));
    facts.set("env", map);
}
