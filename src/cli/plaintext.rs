//! Decrypted text in a file while an editor runs. The file is private, in memory if possible, and overwritten before it
//! is removed, however editing ends.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::signals::{Signal, Signals};

/// Beginning of the names of directories.
const PREFIX: &str = "windlass-vault-";
/// Beginning of the names of directories that are not locked yet.
const NEW: &str = ".windlass-vault-";
/// Time for an editor to end after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// A directory with mode 0700 whose files are overwritten with zeros before they are removed.
struct Private {
    directory: PathBuf,
    /// Held by the process that uses the directory, so that [`sweep`] knows what a killed one left.
    _lock: std::fs::File,
}

impl Private {
    /// Creates the directory in memory, or else among the temporary files.
    fn new() -> std::io::Result<Private> {
        let in_memory =
            std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).into_iter().chain([PathBuf::from("/dev/shm")]);
        let folders =
            in_memory.filter(|folder| folder.is_absolute() && is_in_memory(folder)).chain([std::env::temp_dir()]);
        let mut refused = std::io::Error::from(std::io::ErrorKind::NotFound);
        for folder in folders {
            sweep(&folder);
            let mut builder = tempfile::Builder::new();
            builder.prefix(NEW).permissions(std::fs::Permissions::from_mode(0o700));
            match builder.tempdir_in(&folder) {
                Ok(made) => {
                    let lock = std::fs::File::open(made.path())?;
                    lock.lock()?;
                    // The directory is locked before it gets a name that [`sweep`] looks for.
                    let made = made.keep();
                    let name = made.file_name().unwrap_or_default().to_string_lossy().replacen(NEW, PREFIX, 1);
                    let directory = folder.join(name);
                    std::fs::rename(made, &directory)?;
                    return Ok(Private { directory, _lock: lock });
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // Backups and swap files of the editor contain the text too.
        overwrite(&self.directory);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Removes directories of this user whose process was killed before it could.
fn sweep(folder: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if is_ours && std::fs::File::open(entry.path()).is_ok_and(|directory| directory.try_lock().is_ok()) {
            overwrite(&entry.path());
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Overwrites all files of a directory. Files that cannot be overwritten are still removed.
fn overwrite(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => overwrite(&entry.path()),
            Ok(kind) if kind.is_file() => drop(zero(&entry.path())),
            _ => {}
        }
    }
}

fn zero(path: &Path) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    let mut left = file.metadata()?.len();
    file.seek(SeekFrom::Start(0))?;
    let zeros = [0; 8192];
    while left > 0 {
        let part = zeros.get(..usize::try_from(left).unwrap_or(zeros.len()).min(zeros.len())).unwrap_or_default();
        file.write_all(part)?;
        left -= part.len() as u64;
    }
    file.sync_data()
}

fn is_in_memory(folder: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|found| u64::try_from(found.f_type) == Ok(TMPFS))
}

/// Outcome of editing.
pub(super) enum Edited {
    /// The editor exited; the text as edited.
    Text(Zeroizing<Vec<u8>>),
    /// A signal ended it, and the text was removed.
    Ended(Signal),
}

/// Lets the user edit a text. SIGTERM, SIGHUP and SIGQUIT end the editor. SIGINT is left to the editor, as `git` does:
/// Ctrl-C reaches it directly, and the text is removed when it exits.
pub(super) fn edit(text: &[u8]) -> Result<Edited> {
    let editor = ["ANSIBLE_EDITOR", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let words = shell_words::split(&editor)
        .map_err(|error| Error::usage(format!("the editor '{editor}' cannot be run: {error}")))?;
    let Some((program, arguments)) = words.split_first() else { return Err(Error::usage("EDITOR is empty")) };
    let fail = |error: std::io::Error| Error::new(format!("the text cannot be edited: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
    runtime.block_on(async {
        // Signals are caught before a file exists that they could leave behind.
        let mut signals = Signals::listen_with_quit();
        let private = Private::new().map_err(fail)?;
        let path = private.directory.join("vault.yml");
        let mut file = std::fs::File::create_new(&path).map_err(fail)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
        file.write_all(text).map_err(fail)?;
        drop(file);
        let child = tokio::process::Command::new(program).args(arguments).arg(&path).spawn();
        let mut child = child.map_err(|error| {
            Error::new(format!("the editor {program} cannot be started: {error}; set EDITOR to another one"))
        })?;
        let mut interrupted = None;
        let status = loop {
            tokio::select! {
                biased;
                signal = signals.next() => {
                    if signal.name != "SIGINT" {
                        end(&mut child).await;
                        return Ok(Edited::Ended(signal));
                    }
                    interrupted = Some(signal);
                }
                status = child.wait() => break status.map_err(fail)?,
            }
        };
        // The signal that ended the editor may be visible only in its status.
        let ended = interrupted.filter(|_| !status.success()).or_else(|| Signal::of(status));
        if let Some(signal) = ended {
            return Ok(Edited::Ended(signal));
        }
        if !status.success() {
            return Err(Error::new(format!("the editor ended with {status}; nothing was changed")));
        }
        let edited = std::fs::read(&path).map_err(fail)?;
        drop(private);
        Ok(Edited::Text(Zeroizing::new(edited)))
    })
}

/// Ends the editor, first with SIGTERM so that it can restore the terminal.
async fn end(child: &mut tokio::process::Child) {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(id) = id {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        if tokio::time::timeout(GRACE, child.wait()).await.is_ok() {
            return;
        }
    }
    let _ = child.kill().await;
}
