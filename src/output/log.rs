//! The log file (`log_path`): all output with time and user.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// An open log file.
#[derive(Debug)]
pub(super) struct Log {
    file: Mutex<File>,
    user: String,
}

impl Log {
    /// Opens the file for appending. A new file is readable only by its owner.
    pub(super) fn open(path: &Path) -> std::io::Result<Log> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let user = ["LOGNAME", "USER"].iter().find_map(|name| std::env::var(name).ok());
        Ok(Log { file: Mutex::new(file), user: user.unwrap_or_else(|| "root".to_owned()) })
    }

    /// Appends a line. Warnings and errors have their own levels.
    pub(super) fn write(&self, text: &str) {
        let time = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S,%3f");
        let (process, user) = (std::process::id(), &self.user);
        let text = text.trim_start_matches('\n').trim_end_matches('\n');
        let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
        let level = match text {
            _ if begins(&["[WARNING]", "[DEPRECATION WARNING]"]) => "WARNING",
            _ if begins(&["[ERROR]", "ERROR!"]) => "ERROR",
            _ => "INFO",
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not stop a run half-way.
        let outcome = writeln!(file, "{time} p={process} u={user} n=ansible {level}| {text}");
        super::printer::written("the log file", outcome);
    }
}
