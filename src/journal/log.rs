//! Appends lines immediately and makes them durable in groups.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::record::{Alive, Record};
use super::{ledger, reader};

/// Maximum time before a line is fsynced if nobody waits for it. A crash of the machine repeats tasks done within it.
const INTERVAL: Duration = Duration::from_secs(1);

/// Files that a run appends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// The journal.
    Run,
    /// The ledger of handlers with this number.
    Handlers(usize),
}

/// Append-only files with one thread that fsyncs them.
///
/// Once `append` returns, the kernel holds the line, so it survives the death of this process. [`Log::durable`] waits
/// for the fsync of its group, so the line also survives a crash of the machine.
pub(super) struct Log {
    shared: Arc<Shared>,
    wake: Mutex<Option<SyncSender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Size of a journal in bytes beyond which results are left out of it, so that the rest stays below [`reader::FILE`].
const ROOM: u64 = reader::FILE / 2;

/// A state of the journal that its owner hears of once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble<'a> {
    /// [`Log::has_room`] is false from now on.
    NoRoom,
    /// Nothing more is written, for this reason.
    Failed(&'a str),
}

/// Called with each trouble.
pub(super) type OnTrouble = Box<dyn Fn(Trouble<'_>) + Send + Sync>;

struct Shared {
    run: Mutex<File>,
    /// Size of the journal in bytes, with lines that could not be written.
    size: AtomicU64,
    handlers: Vec<Ledger>,
    appended: AtomicU64,
    synced: watch::Sender<u64>,
    failure: OnceLock<String>,
    on_trouble: OnTrouble,
}

/// A ledger of handlers.
#[derive(Debug)]
struct Ledger {
    file: Mutex<File>,
    /// Whether a line was appended since the last fsync.
    has_new: AtomicBool,
}

impl Log {
    /// Starts the thread. `folder` contains the journal of the run.
    pub(super) fn start(
        run: File,
        handlers: Vec<File>,
        folder: PathBuf,
        on_trouble: OnTrouble,
    ) -> std::io::Result<Log> {
        let shared = Arc::new(Shared {
            size: AtomicU64::new(run.metadata()?.len()),
            run: Mutex::new(run),
            handlers: handlers
                .into_iter()
                .map(|file| Ledger { file: Mutex::new(file), has_new: AtomicBool::default() })
                .collect(),
            appended: AtomicU64::new(0),
            synced: watch::Sender::new(0),
            failure: OnceLock::new(),
            on_trouble,
        });
        let (wake, woken) = sync_channel(1);
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
            // Makes the file's directory entry durable too.
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
            let mut alive = Instant::now();
            loop {
                let next = woken.recv_timeout(INTERVAL);
                own.sync();
                if next == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
                if alive.elapsed() >= INTERVAL {
                    alive = Instant::now();
                    own.show_life();
                }
            }
        })?;
        Ok(Log { shared, wake: Mutex::new(Some(wake)), thread: Mutex::new(Some(thread)) })
    }

    /// Appends a line and returns its number for [`Log::durable`]. After a failure nothing more is written, because a
    /// line after a partial one would be damaged.
    pub(super) fn append(&self, lane: Lane, line: &[u8]) -> u64 {
        let (ledger, most) = match lane {
            Lane::Run => (None, reader::LINE),
            Lane::Handlers(number) => match self.shared.handlers.get(number) {
                None => return 0,
                found => (found, ledger::LINE),
            },
        };
        // No reader would accept it.
        if line.len() > most + 1 {
            self.shared.fail(&format!("a record is longer than {most} bytes"));
        }
        match ledger {
            None => self.shared.write_run(line),
            Some(ledger) => {
                self.shared.write(&ledger.file, line);
                ledger.has_new.store(true, Ordering::Release);
            }
        }
        self.shared.appended.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Starts the next fsync now.
    pub(super) fn wake(&self) {
        if let Some(wake) = &*self.wake.lock().unwrap_or_else(PoisonError::into_inner) {
            // If it was already woken, that fsync is still to come.
            let _ = wake.try_send(());
        }
    }

    /// Waits until a line and all lines before it are on disk.
    pub(super) async fn durable(&self, line: u64) {
        let mut synced = self.shared.synced.subscribe();
        if *synced.borrow() < line {
            self.wake();
        }
        let _ = synced.wait_for(|done| *done >= line).await;
    }

    /// Whether the journal has room for results; the records of tasks themselves need the rest.
    pub(super) fn has_room(&self) -> bool {
        self.shared.size.load(Ordering::Relaxed) <= ROOM
    }

    /// The first error of writing, if any.
    pub(super) fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// Fsyncs the remaining lines and ends the thread.
    pub(super) fn close(&self) {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn write_run(&self, line: &[u8]) {
        let size = self.size.fetch_add(line.len() as u64, Ordering::Relaxed);
        let after = size.saturating_add(line.len() as u64);
        if after > reader::FILE {
            self.fail(&format!("it would have more than {} bytes", reader::FILE));
        } else if size <= ROOM && after > ROOM {
            (self.on_trouble)(Trouble::NoRoom);
        }
        self.write(&self.run, line);
    }

    fn write(&self, file: &Mutex<File>, line: &[u8]) {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if self.failure.get().is_none()
            && let Err(error) = file.write_all(line)
        {
            self.fail(&error.to_string());
        }
    }

    /// Appends a sign of life, which nobody waits for.
    fn show_life(&self) {
        // The header comes first.
        if self.appended.load(Ordering::Acquire) == 0 {
            return;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let record = Record::Alive(Alive { at: u64::try_from(at).unwrap_or(u64::MAX) });
        let Ok(line) = serde_json::to_string(&record) else { return };
        self.write_run((line + "\n").as_bytes());
    }

    fn sync(&self) {
        let target = self.appended.load(Ordering::Acquire);
        if target == *self.synced.borrow() {
            return;
        }
        let changed = self.handlers.iter().filter(|ledger| ledger.has_new.swap(false, Ordering::AcqRel));
        for file in [&self.run].into_iter().chain(changed.map(|ledger| &ledger.file)) {
            // The lock is released first, so that lines can be appended during the fsync.
            let file = file.lock().unwrap_or_else(PoisonError::into_inner).try_clone();
            if let Err(error) = file.and_then(|file| file.sync_data()) {
                self.fail(&error.to_string());
            }
        }
        self.synced.send_replace(target);
    }

    fn fail(&self, why: &str) {
        if self.failure.set(why.to_owned()).is_ok() {
            (self.on_trouble)(Trouble::Failed(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn appended_line_is_on_disk_once_durable_returns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log =
            Log::start(File::create(&path).unwrap(), Vec::new(), folder.path().to_owned(), Box::new(|_| {})).unwrap();
        let line = log.append(Lane::Run, b"one\n");
        log.durable(line).await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        assert_eq!(log.failure(), None);
    }

    #[test]
    fn line_that_no_reader_accepts_stops_the_log_and_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let told = Arc::new(Mutex::new(String::new()));
        let why = Arc::clone(&told);
        let tell = Box::new(move |trouble: Trouble<'_>| {
            let Trouble::Failed(text) = trouble else { unreachable!() };
            why.lock().unwrap().push_str(text);
        });
        let log = Log::start(File::create(&path).unwrap(), Vec::new(), folder.path().to_owned(), tell).unwrap();
        log.append(Lane::Run, &vec![b'x'; reader::LINE + 1]);
        assert_eq!(log.failure(), None);
        log.append(Lane::Run, &vec![b'x'; reader::LINE + 2]);
        log.append(Lane::Run, b"one\n");
        log.close();
        assert_eq!(*told.lock().unwrap(), format!("a record is longer than {} bytes", reader::LINE));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), reader::LINE as u64 + 1);
    }

    #[test]
    fn journal_that_readers_would_refuse_loses_results_first_and_stops_within_their_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(ROOM - 4).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&told);
        let tell = Box::new(move |trouble: Trouble<'_>| list.lock().unwrap().push(format!("{trouble:?}")));
        let start = |tell| {
            let file = File::options().append(true).open(file.path()).unwrap();
            Log::start(file, Vec::new(), std::env::temp_dir(), tell).unwrap()
        };
        let log = start(tell);
        log.append(Lane::Run, b"one\n");
        assert!(log.has_room());
        log.append(Lane::Run, b"two\n");
        assert!(!log.has_room());
        assert_eq!(*told.lock().unwrap(), ["NoRoom"]);
        log.close();
        file.as_file().set_len(reader::FILE - 4).unwrap();
        let list = Arc::clone(&told);
        let log = start(Box::new(move |trouble| list.lock().unwrap().push(format!("{trouble:?}"))));
        log.append(Lane::Run, b"one\n");
        assert_eq!(log.failure(), None);
        log.append(Lane::Run, b"two\n");
        assert_eq!(log.failure(), Some("it would have more than 1073741824 bytes"));
        log.close();
        assert_eq!(file.as_file().metadata().unwrap().len(), reader::FILE);
    }

    #[test]
    fn full_disk_stops_the_log_and_is_reported() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let told = Arc::new(Mutex::new(0));
        let count = Arc::clone(&told);
        let tell = Box::new(move |_: Trouble<'_>| *count.lock().unwrap() += 1);
        let log = Log::start(full, Vec::new(), PathBuf::from("/dev"), tell).unwrap();
        log.append(Lane::Run, b"one\n");
        log.append(Lane::Run, b"two\n");
        assert!(log.failure().is_some());
        assert_eq!(*told.lock().unwrap(), 1);
        log.close();
    }
}
