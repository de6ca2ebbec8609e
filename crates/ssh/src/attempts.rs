//! How often a connection is attempted, and the pauses between the attempts.

use std::time::Duration;

use crate::Error;

/// Retries of a failure if no setting limits them.
const DEFAULT_RETRIES: u32 = 2;
/// Attempts at a server that refuses connections under load. A jump host or shared sshd refuses more than half of fifty
/// simultaneous connections.
const THROTTLED_ATTEMPTS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(400);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Attempts that are allowed, the first one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempts {
    most: u32,
    /// Whether an attempt that exceeded its deadline is retried too. By default, it is not, so that a host that is down
    /// costs only one deadline.
    repeats_deadlines: bool,
}

impl Attempts {
    /// Takes the larger of the number of retries and ConnectionAttempts of ssh_config.
    pub(crate) fn new(retries: Option<u32>, connection_attempts: Option<u32>) -> Self {
        let wished = retries.map(|retries| retries.saturating_add(1)).max(connection_attempts);
        Self { most: wished.unwrap_or(DEFAULT_RETRIES + 1), repeats_deadlines: wished.is_some() }
    }

    /// Whether the connection may be attempted again after `made` attempts, the last of which failed with this error.
    pub(crate) fn allow_another(self, made: u32, error: &Error) -> bool {
        let most = match error {
            // Connecting to a jump host has its own retries.
            Error::Jump { .. } => return false,
            Error::Timeout { .. } if !self.repeats_deadlines => return false,
            Error::ClosedBeforeBanner { .. } | Error::KeyExchange { transient: true, .. } => {
                self.most.max(THROTTLED_ATTEMPTS)
            }
            _ => self.most,
        };
        made < most && error.is_transient()
    }
}

/// A pause that doubles with every attempt; half of it is random, so that a thousand connections do not retry at the
/// same time.
pub(crate) fn pause(attempt: u32) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << attempt.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
    let chance = getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX));
    longest.mul_f64(0.5 + chance / 2.0)
}
