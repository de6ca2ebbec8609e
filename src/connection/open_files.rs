//! Raises the limit of open files, which bounds the number of connected hosts.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files per host: a connection, or the three streams of an executor on this machine.
const PER_HOST: u64 = 3;
/// Open files for everything else.
const OTHERS: u64 = 256;

/// Raises the limit to the needs of `hosts` hosts. If that is not allowed, returns advice for the user.
pub(crate) fn allow_for(hosts: usize) -> Option<String> {
    let needed = hosts as u64 * PER_HOST + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    // `None` means unlimited.
    if limit.current.is_none_or(|current| current >= needed) {
        return None;
    }
    let allowed = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum: limit.maximum });
    if raised.is_ok() && allowed == needed {
        return None;
    }
    Some(format!(
        "{hosts} hosts need up to {needed} open files at a time, and {allowed} are allowed here; raise the limit (`ulimit -n`) or limit the hosts (`--limit`, `serial`)"
    ))
}
