//! Requests of a run of several processes, each of which runs once.
//!
//! Two kinds of files lie beside the host lock. `fence-RUN-PART` has the least token that requests of a part of the run
//! need; a process that was replaced has a lower one. `task-RUN-ID` exists from before a request starts, is locked
//! while it runs, and has its result afterwards. So a successor finds either no file (it never started), a locked file,
//! a result, or a file without one: its request may have run.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Seek, Write},
    sync::Mutex,
    time::{Duration, SystemTime},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FlockOperation, flock, ftruncate, renameat, statat, unlinkat},
};
use serde_json::Value;
use windlass_protocol::{Flight, Former, LockTerms, Shard};

use super::{gate, is_run, place};
use crate::lock::lock;

/// Largest result that is kept, in bytes.
const RESULT: usize = 1 << 20;
/// Size of all results that one executor keeps, in bytes.
const RESULTS: usize = 16 << 20;
/// Age at which files of other runs are removed.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);
/// Stands for all parts of a run, because a new lead replaces all of them.
const ALL: u32 = u32::MAX;
/// Mask of the lead's number in a token.
const LEAD: u64 = !0 << 32;

/// State of a request when it arrives.
pub(crate) enum Entry {
    /// The request is to run now.
    Runs(InFlight),
    /// The request has run, with this result.
    Done(Value),
    /// Another executor runs it.
    Busy,
    /// The request may have run, and its result is unknown for this reason.
    Unknown(&'static str),
    /// Another process has replaced the sender of the request.
    Replaced,
}

/// A request that runs.
pub(crate) struct InFlight {
    name: String,
    file: File,
}

/// Requests of one process of a run.
pub(crate) struct Flights {
    directory: OwnedFd,
    run: String,
    shard: Shard,
    own: Mutex<Own>,
}

#[derive(Default)]
struct Own {
    /// Names of files, with the sizes of their results.
    files: BTreeMap<String, usize>,
    has_begun: bool,
}

impl Flights {
    /// Requests on these terms; `None` if the run has one process.
    pub(crate) fn new(terms: &LockTerms) -> Option<Result<Flights, String>> {
        let shard = terms.shard?;
        if !is_run(&terms.run) {
            return Some(Err("the run has no valid name".to_owned()));
        }
        Some(place::open().map(|directory| Flights::within(directory, &terms.run, shard)))
    }

    fn within(directory: OwnedFd, run: &str, shard: Shard) -> Flights {
        Flights { directory, run: run.to_owned(), shard, own: Mutex::default() }
    }

    /// Lets a request begin, or returns why it does not.
    pub(crate) fn enter(&self, flight: &Flight) -> io::Result<Entry> {
        let name = self.name(&flight.id).ok_or_else(|| io::Error::other("the task has no valid id"))?;
        self.settle(&flight.settled);
        let _gate = gate(&self.directory)?;
        let mut own = lock(&self.own);
        match self.is_replaced(&mut own, flight) {
            Ok(false) => {}
            Ok(true) => return Ok(Entry::Replaced),
            // The disk may be full. A process that replaces another must run nothing before that is recorded.
            Err(_) => return Ok(Entry::Unknown("the host cannot record or read which process replaced its own")),
        }
        let (file, is_new) = match place::existing_file(&self.directory, &name) {
            Ok(file) => (file, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(reason) = flight.former.filter(|former| !former.repeats).and_then(may_have_lost) {
                    return Ok(Entry::Unknown(reason));
                }
                (place::file(&self.directory, &name)?, true)
            }
            Err(error) => return Err(error),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Entry::Busy),
            Err(error) => return Err(error.into()),
        }
        own.files.insert(name.clone(), 0);
        let mut file = File::from(file);
        if !is_new && !flight.again {
            let mut text = Vec::new();
            (&mut file).take(RESULT as u64 + 1).read_to_end(&mut text)?;
            match serde_json::from_slice(&text) {
                Ok(result) => return Ok(Entry::Done(result)),
                Err(_) if flight.former.is_some_and(|former| former.repeats) => {}
                Err(_) => return Ok(Entry::Unknown("it was stopped, or its result is too large to be kept")),
            }
        }
        ftruncate(&file, 0)?;
        Ok(Entry::Runs(InFlight { name, file }))
    }

    /// Whether another process has replaced this one. Replaces the former sender of the request and, at the first
    /// request, all processes of former leads.
    fn is_replaced(&self, own: &mut Own, flight: &Flight) -> io::Result<bool> {
        if !own.has_begun {
            sweep(&self.directory, &self.run);
            self.raise(Shard { number: ALL, token: self.shard.token & LEAD })?;
            own.has_begun = true;
        }
        if let Some(shard) = flight.former.and_then(|former| former.shard) {
            self.raise(shard)?;
        }
        Ok(self.shard.token < self.least(ALL)?.max(self.least(self.shard.number)?))
    }

    /// Keeps the result of a request that has run, if there is room for it.
    pub(crate) fn land(&self, flight: InFlight, result: &Value) {
        let InFlight { name, mut file } = flight;
        let Ok(text) = serde_json::to_vec(result) else { return };
        let mut own = lock(&self.own);
        if text.len() <= RESULT && own.files.values().sum::<usize>() + text.len() <= RESULTS {
            own.files.insert(name, text.len());
            drop(own);
            // A part of a mapping is no JSON.
            let _ = file.rewind().and_then(|()| file.write_all(&text));
        }
    }

    /// Removes results that the run has recorded.
    fn settle(&self, ids: &[String]) {
        let mut own = lock(&self.own);
        for name in ids.iter().filter_map(|id| self.name(id)) {
            own.files.remove(&name);
            let _ = unlinkat(&self.directory, &name, AtFlags::empty());
        }
    }

    /// Removes all results of this process, after the run.
    pub(crate) fn end(&self) {
        for name in std::mem::take(&mut lock(&self.own).files).into_keys() {
            let _ = unlinkat(&self.directory, &name, AtFlags::empty());
        }
    }

    fn name(&self, id: &str) -> Option<String> {
        let is_valid = id.len() == Flight::ID && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_valid.then(|| format!("task-{}-{id}", self.run))
    }

    fn fence(&self, part: u32) -> String {
        format!("fence-{}-{part}", self.run)
    }

    /// Least token that requests of a part need, while the gate is held.
    fn least(&self, part: u32) -> io::Result<u64> {
        let file = match place::existing_file(&self.directory, &self.fence(part)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut bytes = [0; 8];
        // The disk may have been full; then nothing is known, and nothing runs.
        File::from(file).read_exact(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Raises the least token of a part. The caller holds the gate. The first lead replaces nobody, so it writes no
    /// file.
    fn raise(&self, shard: Shard) -> io::Result<()> {
        if shard.token <= self.least(shard.number)?.max(1 << 32) {
            return Ok(());
        }
        let fence = self.fence(shard.number);
        // If the token cannot be written, the former process is not replaced, and this one runs nothing.
        let new = format!("{fence}.new");
        File::from(place::file(&self.directory, &new)?).write_all(&shard.token.to_be_bytes())?;
        Ok(renameat(&self.directory, &new, &self.directory, &fence)?)
    }
}

/// Removes old files of other runs that no executor uses.
pub(super) fn sweep(directory: &OwnedFd, own: &str) {
    let Ok(entries) = Dir::read_from(directory) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        let run = name.strip_prefix("task-").or_else(|| name.strip_prefix("fence-"));
        if run.is_none_or(|run| run.split('-').next() == Some(own)) {
            continue;
        }
        let Ok(found) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(found.st_mtime.try_into().unwrap_or_default());
        let is_old = written.elapsed().is_ok_and(|age| age >= OLD);
        let is_free = |file: OwnedFd| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_old && place::existing_file(directory, name).is_ok_and(is_free) {
            let _ = unlinkat(directory, name, AtFlags::empty());
        }
    }
}

/// Reason why a missing file does not prove that a request of a lost process never began; `None` if it does.
fn may_have_lost(former: Former) -> Option<&'static str> {
    if former.age >= OLD.as_secs() {
        return Some("hosts keep results for a day");
    }
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let running = running_for(&read("/proc/uptime"), &read("/proc/1/stat"));
    running.is_none_or(|running| running < former.age as f64).then_some("the host was restarted since")
}

/// Seconds since the start of the host, or of its container: a machine's time since its start (/proc/uptime), less that
/// of the first process (field 22 of proc_pid_stat(5), in hundredths of a second).
fn running_for(uptime: &str, first: &str) -> Option<f64> {
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    let (_, fields) = first.rsplit_once(") ")?;
    Some(uptime - fields.split(' ').nth(19)?.parse::<u64>().ok()? as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RUN: &str = "ab";

    fn flights(directory: &tempfile::TempDir, number: u32, token: u64) -> Flights {
        let directory = File::open(directory.path()).unwrap().into();
        Flights::within(directory, RUN, Shard { number, token: (1 << 32) + token })
    }

    fn flight(id: char, former: Option<Former>) -> Flight {
        Flight { id: id.to_string().repeat(Flight::ID), settled: Vec::new(), again: false, former }
    }

    /// Process 1 of the run was lost.
    fn after(token: u64) -> Option<Former> {
        let shard = Some(Shard { number: 1, token: (1 << 32) + token });
        Some(Former { shard, age: 0, repeats: false })
    }

    fn runs(entry: io::Result<Entry>) -> InFlight {
        match entry.unwrap() {
            Entry::Runs(flight) => flight,
            _ => panic!("it is to run"),
        }
    }

    #[test]
    fn result_of_lost_process_taken_over_and_its_later_requests_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (lost, lead) = (flights(&directory, 1, 1), flights(&directory, 0, 0));
        let begun = runs(lost.enter(&flight('a', None)));
        assert!(matches!(lead.enter(&flight('a', after(2))).unwrap(), Entry::Busy));
        lost.land(begun, &json!({ "rc": 0 }));
        assert!(matches!(lead.enter(&flight('a', after(2))).unwrap(), Entry::Done(result) if result["rc"] == 0));
        assert!(matches!(lost.enter(&flight('b', None)).unwrap(), Entry::Replaced));
        runs(lead.enter(&Flight { again: true, ..flight('a', None) }));
        runs(lead.enter(&flight('b', after(2))));
        // The process after the lost one has the next token, and others have their own.
        runs(flights(&directory, 1, 2).enter(&flight('c', None)));
        runs(flights(&directory, 2, 1).enter(&flight('d', None)));
    }

    #[test]
    fn request_without_result_never_repeated_unless_the_user_wants_it() {
        let directory = tempfile::tempdir().unwrap();
        let (lost, lead) = (flights(&directory, 1, 1), flights(&directory, 0, 0));
        drop(runs(lost.enter(&flight('a', None))));
        assert!(matches!(lead.enter(&flight('a', after(2))).unwrap(), Entry::Unknown(_)));
        let large = runs(lost_again(&directory).enter(&flight('b', None)));
        lost.land(large, &json!("x".repeat(RESULT)));
        assert!(matches!(lead.enter(&flight('b', after(3))).unwrap(), Entry::Unknown(_)));
        assert!(matches!(lead.enter(&flight('a', None)).unwrap(), Entry::Unknown(_)));
        let wanted = after(3).map(|former| Former { repeats: true, ..former });
        runs(lead.enter(&flight('a', wanted)));
        // A part of a result, as after a full disk.
        fs::write(directory.path().join(format!("task-{RUN}-{}", "e".repeat(32))), "{\"rc\": 0").unwrap();
        assert!(matches!(lead.enter(&flight('e', after(3))).unwrap(), Entry::Unknown(_)));
        let restarted = after(3).map(|former| Former { age: u64::MAX, ..former });
        assert!(matches!(lead.enter(&flight('f', restarted)).unwrap(), Entry::Unknown(_)));
    }

    fn lost_again(directory: &tempfile::TempDir) -> Flights {
        flights(directory, 1, 2)
    }

    #[test]
    fn new_lead_replaces_all_processes() {
        let directory = tempfile::tempdir().unwrap();
        let (former, other) = (flights(&directory, 0, 0), flights(&directory, 5, 9));
        runs(former.enter(&flight('a', None)));
        runs(flights(&directory, 3, 1 << 32).enter(&flight('b', None)));
        assert!(matches!(former.enter(&flight('c', None)).unwrap(), Entry::Replaced));
        assert!(matches!(other.enter(&flight('c', None)).unwrap(), Entry::Replaced));
    }

    #[test]
    fn recorded_results_and_old_files_removed() {
        let directory = tempfile::tempdir().unwrap();
        let process = flights(&directory, 0, 0);
        for id in ['a', 'b', 'c'] {
            let begun = runs(process.enter(&flight(id, None)));
            process.land(begun, &json!({}));
        }
        let settled = vec!["a".repeat(32), "../gate".to_owned(), "b".repeat(32)];
        runs(process.enter(&Flight { settled, ..flight('d', None) }));
        let left = || fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left(), 3, "the gate and two tasks");
        process.end();
        age(&directory, "task-cd-x");
        runs(flights(&directory, 0, 0).enter(&flight('e', None)));
        assert_eq!(left(), 2);
    }

    /// Makes a file of the directory as old as those that are removed.
    fn age(directory: &tempfile::TempDir, name: &str) {
        let file = File::options().create(true).append(true).open(directory.path().join(name)).unwrap();
        file.set_modified(SystemTime::now() - OLD).unwrap();
    }

    #[test]
    fn old_result_of_the_resumed_run_taken_over_and_a_missing_one_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let process = flights(&directory, 1, 1);
        let begun = runs(process.enter(&flight('a', None)));
        process.land(begun, &json!({ "rc": 0 }));
        age(&directory, &format!("task-{RUN}-{}", "a".repeat(32)));
        let resumed = flights(&directory, 0, 1 << 32);
        let former = Some(Former { shard: None, age: OLD.as_secs() + 1, repeats: false });
        assert!(matches!(resumed.enter(&flight('a', former)).unwrap(), Entry::Done(_)));
        // The next run may have removed it.
        assert!(matches!(resumed.enter(&flight('b', former)).unwrap(), Entry::Unknown(_)));
        runs(resumed.enter(&flight('b', former.map(|former| Former { repeats: true, ..former }))));
    }

    #[test]
    fn nothing_runs_where_the_least_token_cannot_be_read() {
        let directory = tempfile::tempdir().unwrap();
        File::create(directory.path().join(format!("fence-{RUN}-1"))).unwrap();
        assert!(matches!(flights(&directory, 1, 1).enter(&flight('a', None)).unwrap(), Entry::Unknown(_)));
        runs(flights(&directory, 2, 1).enter(&flight('a', None)));
        // Prevents the new file from being written, as a full disk does.
        fs::create_dir(directory.path().join(format!("fence-{RUN}-{ALL}.new"))).unwrap();
        let resumed = flights(&directory, 2, 1 << 32);
        assert!(matches!(resumed.enter(&flight('b', None)).unwrap(), Entry::Unknown(_)));
        fs::remove_dir(directory.path().join(format!("fence-{RUN}-{ALL}.new"))).unwrap();
        runs(resumed.enter(&flight('b', None)));
    }

    #[test]
    fn start_of_container_known_on_a_machine_that_runs_for_years() {
        let stat = |start: u64| format!("1 (init (x) y) S 0 {}{start} 0\n", "1 ".repeat(17));
        assert_eq!(running_for("60000000.00 1.0\n", &stat(5_999_900_000)), Some(1000.0));
        assert_eq!(running_for("60.00 1.0\n", &stat(100)), Some(59.0));
        assert_eq!(running_for("60.00 1.0\n", ""), None, "hidden");
    }

    #[test]
    fn id_that_is_a_path_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = Flight { id: format!("../{}", "a".repeat(29)), ..flight('a', None) };
        assert!(flights(&directory, 0, 0).enter(&path).is_err());
    }
}
