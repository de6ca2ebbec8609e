//! Updates apt's package lists if they are older than `cache_valid_time`, with growing pauses between attempts.

use std::{
    os::unix::fs::MetadataExt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::run;
use crate::{Args, Failure, Host};

/// When and how to update the package lists.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    /// `update_cache`, if given.
    update: Option<bool>,
    /// Seconds for which the lists count as current; 0 or less updates them each time.
    valid: i64,
    /// Number of attempts, at least one.
    retries: u32,
    /// Longest pause between two attempts, in seconds.
    longest_pause: u64,
}

impl Cache {
    pub(crate) fn of(args: &Args) -> Cache {
        Cache {
            update: args.maybe_bool("update_cache"),
            valid: args.int("cache_valid_time").unwrap_or(0),
            retries: args.int("update_cache_retries").and_then(|count| u32::try_from(count).ok()).unwrap_or(5).max(1),
            longest_pause: args
                .int("update_cache_retry_max_delay")
                .and_then(|seconds| u64::try_from(seconds).ok())
                .unwrap_or(12),
        }
    }

    /// Whether to update the lists: requested, and the lists are too old.
    pub(super) fn wanted(&self) -> bool {
        let asked = self.update.unwrap_or(self.valid > 0);
        if !asked {
            return false;
        }
        let age = seconds_now().saturating_sub(updated_at());
        self.valid <= 0 || age > self.valid
    }

    /// Updates the lists, with retries if a mirror fails.
    pub(crate) fn refresh(&self, host: &Host) -> Result<(), Failure> {
        let mut attempt = 1;
        loop {
            let output = run::command().args(["update", "-q"]).live().run(host)?;
            let error = output.stderr_text();
            // If a list cannot be fetched, apt-get only warns and keeps the old one.
            let failed = !output.success()
                || error.lines().any(|line| line.starts_with("E:") || line.contains("Failed to fetch"));
            if !failed {
                return Ok(());
            }
            if attempt >= self.retries {
                let reason = error
                    .lines()
                    .filter(|line| line.starts_with("E:") || line.starts_with("W:"))
                    .collect::<Vec<_>>()
                    .join(" ");
                return Err(Failure::new(format!("Failed to update apt cache after {attempt} tries: {reason}"))
                    .with("rc", output.rc)
                    .with("stdout", output.stdout_text())
                    .with("stderr", error));
            }
            host.check_cancelled()?;
            std::thread::sleep(Duration::from_secs((1 << attempt.min(6)).min(self.longest_pause)));
            attempt += 1;
        }
    }
}

fn seconds_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0))
}

/// Time of the last update, in seconds since the epoch; 0 if there was none.
pub(super) fn updated_at() -> i64 {
    ["/var/lib/apt/periodic/update-success-stamp", "/var/lib/apt/lists"]
        .iter()
        .find_map(|path| std::fs::metadata(path).ok().map(|metadata| metadata.mtime()))
        .unwrap_or(0)
}
