//! Host lock: one run at a time holds it as long as its executors live.
//!
//! Each executor of a run holds a shared `flock` on the run's own file in a private directory (see [`place`]). A run
//! may proceed if no other run's file is locked. So executors of one run never wait for each other, and the kernel
//! releases the lock when the last one ends for any reason. Unlocked files belong to dead runs and are removed. A
//! second `flock`, the gate, protects checking and registering.
//!
//! A job (`async`) outlives its run, so it holds the lock by a file of its own, whose name begins with the run's. Its
//! process inherits that lock, which ends with it. The job's own run never waits for it.

pub(crate) mod file;
pub(crate) mod flight;
mod place;

use std::{
    fs::File,
    io::{self, Read, Write},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FlockOperation, flock, ftruncate, unlinkat},
};
use windlass_protocol::{Holder, LockTerms, Locking};

/// Time to wait for the gate, which is held for a few system calls only, unless its holder is stopped.
const GATE: Duration = Duration::from_secs(10);
/// Largest description of a run to read, in bytes.
const LONGEST: u64 = 4096;

/// The host lock of a run, if held.
pub(crate) struct HostLock {
    directory: OwnedFd,
    held: Option<(Locking, String, OwnedFd)>,
}

/// The host lock of a job, before its process has started.
pub(crate) struct JobLock {
    pub(crate) name: String,
    file: File,
}

impl JobLock {
    /// The descriptor that the job's process keeps open as long as it runs.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Writes who holds the lock, for runs that wait for the job.
    pub(crate) fn describe(mut self, run: &Holder, job: &str, limit: u64) -> io::Result<()> {
        let command = format!("job {job} of {}, for {limit} s at most", run.command);
        self.file.write_all(&serde_json::to_vec(&Holder { command, ..run.clone() })?)
    }
}

/// Removes the file of a job that ends. The job still holds its lock.
pub(crate) fn forget_job(name: &str) {
    if name.starts_with("run-")
        && let Ok(directory) = place::open()
    {
        let _ = unlinkat(&directory, name, AtFlags::empty());
    }
}

/// Outcome of trying to lock the host.
pub(crate) enum Attempt {
    Held,
    /// Another run holds the lock.
    Busy(Holder),
}

impl HostLock {
    pub(crate) fn new() -> Result<HostLock, String> {
        Ok(HostLock { directory: place::open()?, held: None })
    }

    #[cfg(test)]
    fn within(directory: OwnedFd) -> HostLock {
        HostLock { directory, held: None }
    }

    /// Whether this executor holds the lock in this mode or a stronger one.
    pub(crate) fn covers(&self, locking: Locking) -> bool {
        self.held.as_ref().is_some_and(|(held, ..)| *held >= locking)
    }

    /// Tries to lock without waiting for another run.
    pub(crate) fn attempt(&mut self, terms: &LockTerms, locking: Locking) -> io::Result<Attempt> {
        if self.covers(locking) {
            return Ok(Attempt::Held);
        }
        if !is_run(&terms.run) {
            return Err(io::Error::other("the controller's name of the run is not a hexadecimal number"));
        }
        let _gate = gate(&self.directory)?;
        flight::sweep(&self.directory, &terms.run);
        // Otherwise two runs that both read and want to write would wait for each other.
        self.held = None;
        if let Some(holder) = self.other_run(&terms.run, locking)? {
            return Ok(Attempt::Busy(holder));
        }
        let name = format!("run-{}.{}", terms.run, suffix(locking));
        let file = self.registered(&name)?;
        let mut written = File::from(file.try_clone()?);
        // The lock works without this description, for example if the file system is full.
        let _ = written.write_all(&serde_json::to_vec(&terms.holder)?);
        self.held = Some((locking, name, file));
        Ok(Attempt::Held)
    }

    /// Locks the host for a job of this run too, as the run does; `None` if the run holds no lock.
    pub(crate) fn share(&self, run: &str, job: &str) -> io::Result<Option<JobLock>> {
        let Some((locking, ..)) = self.held else { return Ok(None) };
        let _gate = gate(&self.directory)?;
        let name = format!("run-{run}-{job}.{}", suffix(locking));
        let file = self.registered(&name)?.into();
        Ok(Some(JobLock { name, file }))
    }

    /// Locks the file with this name and empties it. The caller holds the gate.
    fn registered(&self, name: &str) -> io::Result<OwnedFd> {
        let file = place::file(&self.directory, name)?;
        flock(&file, FlockOperation::NonBlockingLockShared)?;
        ftruncate(&file, 0)?;
        Ok(file)
    }

    /// Releases the lock, and removes the run's file if no other executor of the run uses it.
    pub(crate) fn release(&mut self) {
        let Some((_, name, file)) = self.held.take() else { return };
        if let Ok(_gate) = gate(&self.directory)
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = unlinkat(&self.directory, &name, AtFlags::empty());
        }
    }

    /// A running run that blocks the lock. Removes the files of dead runs.
    fn other_run(&self, own: &str, locking: Locking) -> io::Result<Option<Holder>> {
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let Some((run, mode)) = name.strip_prefix("run-").and_then(|rest| rest.rsplit_once('.')) else { continue };
            if run.split('-').next() == Some(own) {
                continue;
            }
            let file = match place::existing_file(&self.directory, name) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    let _ = unlinkat(&self.directory, name, AtFlags::empty());
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    if locking == Locking::Exclusive || mode == suffix(Locking::Exclusive) {
                        return Ok(Some(holder(file)));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// Whether a text can be the name of a run.
fn is_run(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Waits for the gate, and holds it.
fn gate(directory: &OwnedFd) -> io::Result<OwnedFd> {
    let gate = place::file(directory, "gate")?;
    let deadline = Instant::now() + GATE;
    loop {
        match flock(&gate, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(gate),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(io::Error::other("another executor does not let go of the lock's gate"));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn suffix(locking: Locking) -> &'static str {
    match locking {
        Locking::Shared => "shared",
        Locking::Exclusive => "exclusive",
    }
}

fn holder(file: OwnedFd) -> Holder {
    let mut text = Vec::new();
    let _ = File::from(file).take(LONGEST).read_to_end(&mut text);
    serde_json::from_slice(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(run: &str) -> LockTerms {
        let holder = Holder { user: run.into(), ..Holder::default() };
        LockTerms { run: run.into(), holder, wait: 0, shard: None, after: Vec::new() }
    }

    fn lock(directory: &tempfile::TempDir) -> HostLock {
        HostLock::within(File::open(directory.path()).unwrap().into())
    }

    fn busy(attempt: io::Result<Attempt>) -> Option<String> {
        match attempt.unwrap() {
            Attempt::Held => None,
            Attempt::Busy(holder) => Some(holder.user),
        }
    }

    #[test]
    fn second_run_finds_the_first_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (lock(&directory), lock(&directory));
        assert_eq!(busy(first.attempt(&terms("aa"), Locking::Exclusive)), None);
        assert_eq!(busy(second.attempt(&terms("bb"), Locking::Exclusive)), Some("aa".into()));
        assert_eq!(busy(second.attempt(&terms("bb"), Locking::Shared)), Some("aa".into()));
        // Dropped without release, as after SIGKILL: the file stays, and nobody holds it.
        drop(first);
        assert_eq!(busy(second.attempt(&terms("bb"), Locking::Exclusive)), None);
        second.release();
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["gate"]);
    }

    #[test]
    fn old_results_of_a_run_of_several_processes_removed_by_a_run_of_one() {
        let directory = tempfile::tempdir().unwrap();
        for (name, hours) in [("task-cd-x", 25), ("task-cd-y", 23), ("task-aa-x", 25)] {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        }
        assert_eq!(busy(lock(&directory).attempt(&terms("aa"), Locking::Shared)), None);
        let is_left = |name: &str| directory.path().join(name).exists();
        assert_eq!(["task-cd-x", "task-cd-y", "task-aa-x"].map(is_left), [false, true, true]);
    }

    #[test]
    fn executors_of_one_run_share_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let (mut one, mut two, mut other) = (lock(&directory), lock(&directory), lock(&directory));
        assert_eq!(busy(one.attempt(&terms("aa"), Locking::Exclusive)), None);
        assert_eq!(busy(two.attempt(&terms("aa"), Locking::Exclusive)), None);
        one.release();
        assert_eq!(busy(other.attempt(&terms("bb"), Locking::Exclusive)), Some("aa".into()));
        two.release();
        assert_eq!(busy(other.attempt(&terms("bb"), Locking::Exclusive)), None);
    }

    #[test]
    fn readers_share_the_host_and_keep_writers_out() {
        let directory = tempfile::tempdir().unwrap();
        let (mut one, mut two, mut writer) = (lock(&directory), lock(&directory), lock(&directory));
        assert_eq!(busy(one.attempt(&terms("aa"), Locking::Shared)), None);
        assert_eq!(busy(two.attempt(&terms("bb"), Locking::Shared)), None);
        assert!(busy(writer.attempt(&terms("cc"), Locking::Exclusive)).is_some());
        two.release();
        // A reader that wants to write releases its lock first, so that two of them do not wait for each other.
        assert_eq!(busy(one.attempt(&terms("aa"), Locking::Exclusive)), None);
        assert_eq!(busy(writer.attempt(&terms("cc"), Locking::Exclusive)), Some("aa".into()));
    }

    #[test]
    fn job_keeps_other_runs_out_but_not_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (lock(&directory), lock(&directory));
        assert!(first.share("aa", "j1").unwrap().is_none());
        assert_eq!(busy(first.attempt(&terms("aa"), Locking::Exclusive)), None);
        let job = first.share("aa", "j1").unwrap().unwrap();
        let process = job.descriptor().unwrap();
        job.describe(&Holder { command: "playbook x".into(), ..Holder::default() }, "j1.7", 60).unwrap();
        first.release();
        let attempt = second.attempt(&terms("bb"), Locking::Exclusive).unwrap();
        assert!(
            matches!(attempt, Attempt::Busy(holder) if holder.command == "job j1.7 of playbook x, for 60 s at most")
        );
        assert_eq!(busy(first.attempt(&terms("aa"), Locking::Exclusive)), None);
        first.release();
        drop(process);
        assert_eq!(busy(second.attempt(&terms("bb"), Locking::Exclusive)), None);
    }

    #[test]
    fn run_named_by_a_path_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(lock(&directory).attempt(&terms("../../etc"), Locking::Exclusive).is_err());
    }
}
