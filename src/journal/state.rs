//! The state directory with journals and ledgers, and the ids of runs.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::reader::{Journal, read_file, read_outline};
use crate::error::{Error, Result};
use crate::settings::Settings;

/// Maximum number of directory entries to examine.
const ENTRIES: usize = 100_000;

/// Number of attempts to lock a new journal, and the pause between them.
const LOOKS: usize = 100;
const LOOK: Duration = Duration::from_millis(1);

/// Pause between [`LOOKS`] checks whether a run that seems active has ended.
const END_LOOK: Duration = Duration::from_millis(20);

/// The state directory.
#[derive(Debug, Clone)]
pub struct State {
    root: PathBuf,
}

/// Journal of a run, identified by its file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFile {
    /// Id of the run; starts with its time.
    pub run: String,
    /// Hash of its playbooks and inventory sources.
    pub project: String,
    /// Whether it was fetched from a cluster, so that others may have written it.
    pub is_fetched: bool,
    /// The file.
    pub path: PathBuf,
}

/// End of the names of journals that were fetched from a cluster.
const FETCHED: &str = ".fetched";

impl RunFile {
    /// Whether the run was killed before it wrote anything.
    pub fn is_empty(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() == 0)
    }

    /// Reads a journal that decides what this program does. Fails for one that others may have written.
    pub(crate) fn own_journal(&self) -> Result<Journal> {
        self.check_owner()?;
        read_file(&self.path)
    }

    /// The same without results of tasks that went well.
    pub(crate) fn own_outline(&self) -> Result<Journal> {
        self.check_owner()?;
        read_outline(&self.path)
    }

    fn check_owner(&self) -> Result<()> {
        let refusal = |why: &str| Error::usage(format!("the journal {} is not used: {why}", self.path.display()));
        if self.is_fetched {
            return Err(refusal("it was fetched from a cluster, so it can only be shown"));
        }
        let metadata = fs::symlink_metadata(&self.path).map_err(|error| refusal(&error.to_string()))?;
        if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0
        {
            return Err(refusal("another user may have written it"));
        }
        Ok(())
    }

    /// Whether the run is active: it holds a lock on its journal while it lives.
    pub fn is_alive(&self) -> bool {
        File::open(&self.path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Holds the journal, so that no other process resumes the run before the journal of this one names it. Fails if
    /// another process holds it for two seconds.
    pub(crate) fn claim(&self) -> Result<File> {
        let file = File::open(&self.path)
            .map_err(|error| Error::new(format!("the journal {} cannot be read: {error}", self.path.display())))?;
        for _ in 0..LOOKS {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => std::thread::sleep(END_LOOK),
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
            }
        }
        let message = format!("the run {} is being resumed by another process, which is still active", self.run);
        Err(Error::usage(message).hint("wait for its end, or interrupt it"))
    }

    /// Whether the run is active and stays so for two seconds. After a run was killed, a child that it forked last
    /// shares the lock until it executes its program.
    pub fn stays_alive(&self) -> bool {
        for _ in 0..LOOKS {
            if !self.is_alive() {
                return false;
            }
            std::thread::sleep(END_LOOK);
        }
        self.is_alive()
    }
}

impl State {
    /// The configured directory, or `windlass` in `XDG_STATE_HOME`, or in `~/.local/state`. Fails if none is known.
    pub fn of(settings: &Settings) -> Result<State> {
        if let Some(root) = &settings.journal.dir {
            return Ok(State { root: root.clone() });
        }
        let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
        let root = named.or_else(home).map(|root| root.join("windlass")).ok_or_else(|| {
            Error::new("there is no state directory for the journal: neither XDG_STATE_HOME nor HOME is set")
                .hint("set WINDLASS_JOURNAL_DIR, or use --no-journal")
        })?;
        Ok(State { root })
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// State in another root directory.
    pub fn at(root: &Path) -> State {
        State { root: root.to_owned() }
    }

    /// Directory of journals.
    pub fn runs_dir(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Directory of journals, which is created.
    pub(crate) fn runs_folder(&self) -> Result<PathBuf> {
        self.prepare()?;
        Ok(self.runs_dir())
    }

    /// Path of a journal with this name that is fetched from a cluster. Its folder is created.
    pub(crate) fn fetched_file(&self, name: &str) -> Result<PathBuf> {
        let name = name.strip_suffix(".jsonl").unwrap_or(name);
        Ok(self.runs_folder()?.join(format!("{name}{FETCHED}.jsonl")))
    }

    /// Path of the ledger of handlers with this name.
    pub(super) fn ledger_file(&self, name: &str) -> PathBuf {
        self.root.join("handlers").join(format!("{name}.jsonl"))
    }

    /// All ledgers of handlers.
    pub(super) fn ledger_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join("handlers")).into_iter().flatten().take(ENTRIES).flatten();
        let is_ledger = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
        entries.map(|entry| entry.path()).filter(is_ledger).collect()
    }

    /// Whether each of these runs is active.
    pub(super) fn alive(&self) -> impl Fn(&str) -> bool {
        let runs = self.runs();
        move |name| runs.iter().any(|run| run.run == name && run.is_alive())
    }

    /// Creates the directories with access for their owner only.
    pub(super) fn prepare(&self) -> Result<()> {
        for path in [self.root.clone(), self.runs_dir(), self.root.join("handlers")] {
            private(&path)?;
        }
        Ok(())
    }

    /// Path of another directory here, which is created with access for its owner only.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        private(&self.root)?;
        private(&path)?;
        Ok(path)
    }

    /// Creates the journal of a new run, locked while it is open.
    pub(super) fn create(&self, project: &str) -> Result<(RunFile, File)> {
        self.prepare()?;
        let run = new_run();
        let path = self.runs_dir().join(format!("{run}.{project}.jsonl"));
        let fail =
            |error: std::io::Error| Error::new(format!("the journal {} cannot be created: {error}", path.display()));
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).map_err(fail)?;
        // A new file has no other holders, except for a program that looks at that instant whether this run lives.
        for _ in 0..LOOKS {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
                Ok(()) | Err(TryLockError::Error(_)) => break,
            }
        }
        Ok((RunFile { run, project: project.to_owned(), is_fetched: false, path }, file))
    }

    /// All journals, oldest first.
    pub fn runs(&self) -> Vec<RunFile> {
        let entries = fs::read_dir(self.runs_dir()).into_iter().flatten().take(ENTRIES).flatten();
        let mut runs: Vec<RunFile> = entries.filter_map(|entry| run_file(entry.path())).collect();
        runs.sort_by(|a, b| a.path.cmp(&b.path));
        runs
    }
}

/// Id of a new run: UTC with milliseconds, so that ids sort in the order of runs.
pub(crate) fn new_run() -> String {
    let mut bytes = [0; 2];
    let _ = getrandom::fill(&mut bytes);
    let random: String = hex::encode(bytes).chars().take(3).collect();
    format!("{}{random}", jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S-%3f"))
}

/// Creates a directory with access for its owner only. Fails if it is not this user's.
fn private(path: &Path) -> Result<()> {
    let new: Vec<&Path> = path.ancestors().take_while(|place| !place.exists()).collect();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    let fail = |why: String| {
        Error::new(format!("the state directory {} cannot be used: {why}", path.display()))
            .hint("set WINDLASS_JOURNAL_DIR to a directory of yours, or use --no-journal")
    };
    made.map_err(|error| fail(error.to_string()))?;
    // A directory above may be closed to this user's reading.
    new.into_iter().for_each(|place| drop(sync_folder(place)));
    let metadata = fs::symlink_metadata(path).map_err(|error| fail(error.to_string()))?;
    let own = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() || metadata.uid() != own {
        return Err(fail("it is not a directory of this user".to_owned()));
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(|error| fail(error.to_string()))?;
    }
    Ok(())
}

/// Makes the directory entry of a file durable, after it was created, renamed or removed.
pub(super) fn sync_folder(path: &Path) -> std::io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    match File::open(folder)?.sync_all() {
        // Some file systems have no such operation.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

fn run_file(path: PathBuf) -> Option<RunFile> {
    let name = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    let (name, is_fetched) = name.strip_suffix(FETCHED).map_or((name, false), |name| (name, true));
    let (run, project) = name.split_once('.')?;
    let (run, project) = (run.to_owned(), project.to_owned());
    looks_like_run(&run).then_some(RunFile { run, project, is_fetched, path })
}

/// Whether a word has the form of a run's id, such as `20260131-235959-0a1b2c`.
pub fn looks_like_run(word: &str) -> bool {
    let form = "00000000-000000-xxxxxx";
    word.len() == form.len()
        && word.bytes().zip(form.bytes()).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            b'x' => byte.is_ascii_hexdigit(),
            other => byte == other,
        })
}

/// Name of the ledger of a file with plays.
pub(super) fn ledger_name(file: &str) -> String {
    hex::encode(Sha256::digest(format!("play\0{file}"))).chars().take(16).collect()
}

/// Hash of playbooks and inventory sources; equal for runs over the same ones.
pub(super) fn project(playbooks: &[String], inventory: &[String]) -> String {
    let mut hash = Sha256::new();
    for text in playbooks.iter().chain([&"\n".to_owned()]).chain(inventory) {
        hash.update(text.len().to_le_bytes());
        hash.update(text.as_bytes());
    }
    hex::encode(hash.finalize()).chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_files_are_readable_by_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("state");
        let state = State::at(&root);
        let (run, _file) = state.create("p").unwrap();
        assert!(looks_like_run(&run.run), "{}", run.run);
        assert_eq!(fs::metadata(&run.path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&root).unwrap().mode() & 0o777, 0o700);
        assert!(run.is_alive());
        assert_eq!(state.runs(), [run]);
    }

    #[test]
    fn lock_that_a_child_of_a_killed_run_holds_for_a_moment_does_not_make_the_run_active() {
        let folder = tempfile::tempdir().unwrap();
        let (run, file) = State::at(&folder.path().join("state")).create("p").unwrap();
        let child = std::thread::spawn(move || {
            std::thread::sleep(5 * END_LOOK);
            drop(file);
        });
        assert!(!run.stays_alive());
        child.join().unwrap();
    }

    #[test]
    fn playbook_name_does_not_look_like_run() {
        assert!(!looks_like_run("site.yml"));
        assert!(!looks_like_run("20260131-235959-0a1b2g"));
        assert!(looks_like_run("20260131-235959-0a1b2c"));
    }
}
