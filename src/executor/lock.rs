//! Locks that prevent other runs from changing this run's hosts.

use std::str::FromStr;

use windlass_protocol::{Holder, LockTerms, Locking, Request};

use super::start::random_word;
use crate::connection::{Kind, Target};

/// Policy for a host locked by another run (`--lock`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockPolicy {
    /// Wait for the other run, up to a time limit.
    Wait,
    /// Fail the host at once.
    Fail,
    /// Wait only for runs that change hosts: this one only reads.
    Shared,
    /// Lock nothing.
    Ignore,
}

impl FromStr for LockPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_lowercase().as_str() {
            "wait" => Ok(Self::Wait),
            "fail" => Ok(Self::Fail),
            "shared" => Ok(Self::Shared),
            "ignore" => Ok(Self::Ignore),
            _ => Err(format!("lock must be wait, fail, shared or ignore, not '{text}'")),
        }
    }
}

/// Locking of a run's hosts.
#[derive(Debug, Clone)]
pub struct Lock {
    pub(super) terms: LockTerms,
    shared: bool,
    local: bool,
}

/// Modules that only read a host, so that an ad-hoc run of one needs only a shared lock.
const READING: &[&str] = &[
    "ping",
    "setup",
    "gather_facts",
    "stat",
    "find",
    "slurp",
    "fetch",
    "getent",
    "service_facts",
    "package_facts",
    "mount_facts",
    "wait_for",
    "wait_for_connection",
];

impl Lock {
    /// Locking for a run of this command; `None` if hosts are not locked. `wait` is in seconds.
    ///
    /// Tasks on this machine lock it only if `local` is set, because parallel runs for different hosts often share it
    /// for delegated tasks.
    pub fn new(policy: LockPolicy, wait: u64, local: bool, command: &str) -> Option<Lock> {
        let wait = match policy {
            LockPolicy::Ignore => return None,
            LockPolicy::Fail => 0,
            LockPolicy::Wait | LockPolicy::Shared => wait,
        };
        // Without random numbers no host can be reached either, and that error is reported.
        let run = random_word().ok()?;
        let uid = rustix::process::getuid().as_raw();
        let user = windlass_modules::accounts::user_by_id(uid).map_or_else(|| uid.to_string(), |user| user.name);
        let holder = Holder {
            user,
            machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
            command: command.to_owned(),
            since: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        };
        let terms = LockTerms { run, holder, wait, shard: None, after: Vec::new() };
        Some(Lock { terms, shared: policy == LockPolicy::Shared, local })
    }

    /// Whether an ad-hoc run of this module changes nothing.
    pub fn is_reading(module: &str) -> bool {
        READING.contains(&module)
    }

    /// Type of lock that a request needs; `None` without one.
    pub(super) fn locking<V>(&self, target: &Target, request: &Request<V>) -> Option<Locking> {
        let looks_after_job = request.module.rsplit('.').next() == Some("async_status");
        // The status of a job must not wait for the job, whose run may have ended.
        if looks_after_job || (target.kind == Kind::Local && !self.local) {
            return None;
        }
        Some(if self.shared || request.check { Locking::Shared } else { Locking::Exclusive })
    }
}

/// Message shown while waiting for another run.
pub(super) fn waiting(holder: &Holder, waited: u64, left: u64) -> String {
    // The remedy is shown once, not with every report of the wait.
    let (so_far, remedy) = match waited {
        0 => (String::new(), "; `--lock fail` would not wait"),
        _ => (format!(" for {waited} s"), ""),
    };
    format!("waiting{so_far} for the lock of this host, which is held by {holder}; giving up in {left} s{remedy}")
}

/// Error for a host that stays locked.
pub(super) fn refused(host: &str, holder: &Holder, waited: u64) -> String {
    let after = if waited == 0 { String::new() } else { format!(" after {waited} s of waiting") };
    format!(
        "{host} is locked by another run{after}: {holder}. Nothing was run. Wait for its end, or pass `--lock ignore` to run beside it."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_on_this_machine_locks_it_only_on_demand() {
        let request = |check| -> Request<serde_json::Value> {
            serde_json::from_value(serde_json::json!({ "id": 1, "module": "copy", "args": {}, "check": check }))
                .unwrap()
        };
        let lock = |policy, local| Lock::new(policy, 60, local, "playbook site.yml").unwrap();
        let (here, there) = (Target::new("localhost", Kind::Local), Target::new("web1", Kind::Ssh));
        assert_eq!(lock(LockPolicy::Wait, false).locking(&here, &request(false)), None);
        assert_eq!(lock(LockPolicy::Wait, true).locking(&here, &request(false)), Some(Locking::Exclusive));
        assert_eq!(lock(LockPolicy::Wait, false).locking(&there, &request(false)), Some(Locking::Exclusive));
        assert_eq!(lock(LockPolicy::Wait, false).locking(&there, &request(true)), Some(Locking::Shared));
        assert_eq!(lock(LockPolicy::Shared, false).locking(&there, &request(false)), Some(Locking::Shared));
        assert!(Lock::new(LockPolicy::Ignore, 60, true, "").is_none());
        assert_eq!(lock(LockPolicy::Fail, false).terms.wait, 0);
    }
}
