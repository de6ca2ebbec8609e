//! Waits with a deadline and a description, and the lock that keeps two runs apart.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Error;

const PAUSE: Duration = Duration::from_millis(100);

/// A wait with a description and a deadline.
pub(crate) struct Deadline {
    what: String,
    started: Instant,
    seconds: u64,
}

impl Deadline {
    /// Starts a wait for `what`, which completes the phrase "Waited for ...".
    pub(crate) fn new(what: impl Into<String>, seconds: u64) -> Self {
        Self { what: what.into(), started: Instant::now(), seconds }
    }

    /// Sleeps briefly, or fails after the deadline with the state that `seen` returns.
    pub(crate) fn pause(&self, seen: impl FnOnce() -> String) -> Result<(), Error> {
        if self.started.elapsed() < Duration::from_secs(self.seconds) {
            std::thread::sleep(PAUSE);
            return Ok(());
        }
        Err(Error::Deadline { what: self.what.clone(), seconds: self.seconds, detail: seen() })
    }

    /// Duration of the wait so far, in seconds.
    pub(crate) fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// Locks the file at `path` until the returned file is dropped or the process exits. Creates its directory.
pub(crate) fn lock(path: &Path, what: &str, seconds: u64) -> Result<File, Error> {
    let deadline = Deadline::new(format!("{what} to finish (it holds {})", path.display()), seconds);
    loop {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(Error::io("create", directory))?;
        }
        let file = match File::create(path) {
            // The previous holder has removed the directory with the lab.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                deadline.pause(String::new)?;
                continue;
            }
            created => created.map_err(Error::io("create the lock", path))?,
        };
        match file.try_lock() {
            Ok(()) => {
                let held = file.metadata().map_err(Error::io("look at the lock", path))?;
                // The previous holder may have removed the file with the lab; a lock on it would protect nothing.
                if std::fs::metadata(path).is_ok_and(|there| there.ino() == held.ino()) {
                    return Ok(file);
                }
            }
            Err(TryLockError::WouldBlock) => deadline.pause(String::new)?,
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_wait_names_its_subject() {
        let deadline = Deadline::new("the moon", 0);
        let error = deadline.pause(|| "It was cloudy.".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "Waited 0 s for the moon without success. It was cloudy.");
    }

    #[test]
    fn a_lock_excludes_a_second_holder_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = lock(&path, "a run", 1).unwrap();
        let refused = lock(&path, "another `windlass lab up`", 0).unwrap_err().to_string();
        assert!(refused.contains("another `windlass lab up` to finish"), "{refused}");
        drop(first);
        lock(&path, "a run", 0).unwrap();
    }
}
