//! The limit of open files, which bounds how many hosts can be connected at a time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What one host needs: its connection, or on this machine the three streams of its executor.
const PER_HOST: u64 = 3;
/// What everything else needs.
const OTHERS: u64 = 256;

/// Raises the limit to what so many hosts need; if that is not allowed, what the user should do.
pub(crate) fn allow_for(hosts: usize) -> Option<String> {
    let needed = hosts as u64 * PER_HOST + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    // No limit at all is `None`.
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
