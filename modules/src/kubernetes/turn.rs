//! The wait for a lock in a cluster, which lets one change of its members or control planes happen at a time.

use std::time::{Duration, Instant};

use crate::{Failure, Host};

/// Longest wait for other changes of the same cluster, which happen one after the other.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Wait for another change after which the user is informed.
const NOTICE: Duration = Duration::from_secs(30);
/// Time in which a cluster that answered gets a leader again.
const ELECTION: Duration = Duration::from_secs(60);

/// Outcome of an attempt to take a lock.
pub(crate) enum Turn<T> {
    /// It is held now.
    Held(T),
    /// Another change is under way, on the host or node of this name.
    Busy(String),
}

/// Calls `attempt` until it takes the lock; it fails if the cluster does not answer. `what` changes under the lock,
/// which is the object `lock`.
pub(crate) fn take<T>(
    what: &str,
    lock: &str,
    host: &Host,
    mut attempt: impl FnMut() -> Result<Turn<T>, Failure>,
) -> Result<T, Failure> {
    let (begun, mut answered, mut silent) = (Instant::now(), Instant::now(), true);
    loop {
        match attempt() {
            Ok(Turn::Held(held)) => return Ok(held),
            Ok(Turn::Busy(holder)) => {
                answered = Instant::now();
                if begun.elapsed() >= PATIENCE {
                    return Err(Failure::new(format!(
                        "{holder} has kept {what} for {} seconds, so nothing was changed. Wait until its run has \
                         ended. Its lock is {lock}.",
                        PATIENCE.as_secs()
                    ))
                    .with("refused", true));
                }
                if silent && begun.elapsed() >= NOTICE {
                    silent = false;
                    host.warn(format!("Waiting until {holder} has changed {what}."));
                }
            }
            // Its majority may have been lost since it answered.
            Err(failure) if answered.elapsed() >= ELECTION => return Err(failure.with("refused", true)),
            Err(_) => {}
        }
        host.check_cancelled()?;
        std::thread::sleep(Duration::from_secs(1));
    }
}
