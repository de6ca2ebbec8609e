//! The pod's side: runs the command line on the unpacked project, and stores what it writes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};

use super::cluster::{CONFIG_MAP, Namespace};
use super::lease::Held;
use super::project::{self, PLACE};
use super::seal::Seal;
use super::segment::{PART, Segment, TOTAL};
use super::{COMMAND_LINE, LOOK, RENEW, SEAL_KEY, STOP, objects};
use crate::error::{Error, Result};
use crate::journal::{RunFile, State, has_begun, read_outline};

/// Greatest interval between two segments. Young runs store more often, so that their client sees output immediately.
const SLOWEST: Duration = Duration::from_secs(30);
/// Divisor of a run's age that gives the interval between two segments, so that a run of hours has some hundred of
/// them.
const SHARE: u32 = 100;
/// Maximum size of the output that a run stores, in bytes. The rest is for its journal, with which it can be resumed.
const OUTPUT: u64 = TOTAL / 2;
/// Last line of an output that is too long, alone or together with its journal.
const LONG_OUTPUT: &[u8] =
    b"\n[WARNING]: The run has printed more than 32 MiB. It goes on, but its output ends here.\n";
const TOO_LONG: &[u8] =
    b"\n[WARNING]: The run has written more than 64 MiB. It goes on, but its output and journal end here.\n";

/// A pod of a run.
#[derive(Debug)]
pub(crate) struct Place {
    /// Id of the run.
    pub(crate) run: String,
    /// Namespace of the run.
    pub(crate) namespace: String,
    /// Folder for everything that the run writes.
    pub(crate) work: PathBuf,
    /// Folder of the mounted project.
    pub(crate) input: PathBuf,
    /// Address at which the run awaits its workers, if it has some.
    pub(crate) listen: Option<SocketAddr>,
}

/// Reason to stop a run before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The user cancels it.
    Cancelled,
    /// Another pod may run it.
    Lost,
    /// This pod ends; another one resumes the run.
    Ended,
}

/// Runs the command line unless the run has ended already. `ended` is ready once the pod has to end.
///
/// # Errors
///
/// If the run has to be resumed in another pod, or the project cannot be unpacked.
pub(crate) async fn run(place: Place, ended: impl Future<Output = ()>) -> Result<()> {
    let mut ended = std::pin::pin!(ended);
    let namespace = Namespace::new(&place.namespace);
    let holder = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut held = taken(&namespace, &place, &holder, &mut ended).await?;
    let unpacked = Unpacked::new(&place.work, &place.input)?;
    let mut store = Store::of(namespace.clone(), &place, seal(&unpacked.inputs)?).await?;
    loop {
        let lead = held.transitions;
        let mut lease = tokio::spawn(held.keep());
        let code = match store.former()? {
            Former::Ended(code) => Some(code),
            former => {
                let child = start(&place, &unpacked, (former, lead))?;
                attend(child, &mut store, &mut lease, &mut ended).await?
            }
        };
        if let Some(code) = code {
            tokio::select! {
                () = store.finish(code) => return Ok(()),
                _ = &mut lease => {}
            }
        }
        held = taken(&namespace, &place, &holder, &mut ended).await?;
        if !held.was_ours {
            return Err(Error::new("another pod has resumed the run"));
        }
        // No other pod has held the lease, so this one goes on. It has segments that are not stored yet.
        store.all().await;
    }
}

/// The lease, once no other pod holds it.
async fn taken(
    namespace: &Namespace,
    place: &Place,
    holder: &str,
    ended: &mut (impl Future<Output = ()> + Unpin),
) -> Result<Held> {
    tokio::select! {
        held = Held::take(namespace, &place.run, holder) => Ok(held),
        () = ended => Err(Error::new("the pod has to end: another one runs the playbook")),
    }
}

/// The project in a pod.
pub(super) struct Unpacked {
    work: PathBuf,
    project: PathBuf,
    inputs: PathBuf,
}

impl Unpacked {
    /// Unpacks the mounted project.
    pub(super) fn new(work: &Path, mounted: &Path) -> Result<Unpacked> {
        let (project, inputs) = (work.join("project"), work.join("inputs"));
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_else(|| work.join("home"));
        project::unpack(mounted, &project, &inputs, &home)?;
        Ok(Unpacked { work: work.to_owned(), project, inputs })
    }

    /// The command line of the run with more options.
    pub(super) fn command(&self, options: Vec<String>) -> Result<std::process::Command> {
        let text = windlass_bounds::read_up_to(self.inputs.join(COMMAND_LINE), 1 << 20).unwrap_or_default();
        let words: Vec<String> = serde_json::from_slice(&text)
            .map_err(|error| Error::new(format!("the command line of the run cannot be read: {error}")))?;
        let mut words = words.iter().map(|word| word.replace(PLACE, &format!("{}/", self.inputs.display())));
        let program = crate::own_program::own_program()
            .map_err(|error| Error::new(format!("the run cannot be started: {error}")))?;
        let mut command = std::process::Command::new(program);
        // The first word is that of the subcommand.
        command.args(words.next()).args(options).args(words).current_dir(&self.project).stdin(Stdio::null());
        command.env("WINDLASS_JOURNAL_DIR", self.work.join("state"));
        // Nobody can answer here.
        command.env("WINDLASS_PENDING_HANDLERS", "run").env("NO_COLOR", "1");
        Ok(command)
    }
}

/// The key of the run.
fn seal(inputs: &Path) -> Result<Seal> {
    Seal::of(&windlass_bounds::read_up_to(inputs.join(SEAL_KEY), 1 << 10).unwrap_or_default())
}

/// Starts the command line, in the pod with this number among those that have led the run.
fn start(place: &Place, unpacked: &Unpacked, (former, lead): (Former, u32)) -> Result<Child> {
    let fail = |error: std::io::Error| Error::new(format!("the run cannot be started: {error}"));
    let mut options = Vec::new();
    if let Former::Begun(run) = former {
        options.push(format!("--resume={run}"));
        options.push("--resume-elsewhere".to_owned());
    }
    if let Some(address) = place.listen {
        options.push(format!("--shard-listen={address}"));
        options.push(format!("--shard-lead={lead}"));
        options.push(format!("--shard-keys={}", unpacked.inputs.display()));
    }
    let output = File::options().create(true).append(true).open(place.work.join("output")).map_err(fail)?;
    let mut command = Command::from(unpacked.command(options)?);
    command.stdout(output.try_clone().map_err(fail)?).stderr(output).kill_on_drop(true);
    command.spawn().map_err(fail)
}

/// Stores what the run writes until it ends, and returns its exit code; `None` if the lease was lost.
async fn attend(
    mut child: Child,
    store: &mut Store,
    lease: &mut tokio::task::JoinHandle<()>,
    ended: &mut (impl Future<Output = ()> + Unpin),
) -> Result<Option<u8>> {
    let stop = loop {
        tokio::select! {
            status = child.wait() => return code_of(status).map(Some),
            _ = &mut *lease => break Stop::Lost,
            () = &mut *ended => break Stop::Ended,
            is_cancelled = store.look() => if is_cancelled { break Stop::Cancelled },
        }
    };
    let signal = if stop == Stop::Cancelled { Signal::INT } else { Signal::TERM };
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        let _ = kill_process(pid, signal);
    }
    let status = match tokio::time::timeout(STOP, child.wait()).await {
        Ok(status) => status,
        Err(_) => {
            let _ = child.start_kill();
            child.wait().await
        }
    };
    match stop {
        Stop::Cancelled => code_of(status).map(Some),
        Stop::Lost => Ok(None),
        Stop::Ended => {
            store.all().await;
            Err(Error::new("the pod has to end: another one resumes the run"))
        }
    }
}

fn code_of(status: std::io::Result<ExitStatus>) -> Result<u8> {
    let status = status.map_err(|error| Error::new(format!("the end of the run is unknown: {error}")))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    // A run that the system killed, for example for lack of memory, does not prove that anything is wrong with the
    // hosts.
    code.ok_or_else(|| Error::new(format!("the run was killed ({status}): another pod resumes it")))
}

/// State in which earlier pods have left the run.
enum Former {
    /// No task has begun.
    Nothing,
    /// The run with this id has begun a task, and can be resumed.
    Begun(String),
    /// The run has ended, but its exit code was not stored.
    Ended(u8),
}

/// The segments of a run.
struct Store {
    namespace: Namespace,
    run: String,
    seal: Seal,
    work: PathBuf,
    /// Number of the last segment.
    number: u32,
    /// Bytes of all segments.
    total: u64,
    /// Bytes of all output.
    outputs: u64,
    /// Bytes of this pod's output, and of each journal, that are stored.
    output: u64,
    journals: BTreeMap<String, u64>,
    begun: Instant,
    last: Instant,
    /// Time of the last check whether the run is cancelled.
    looked: Instant,
    /// A segment that the server has not confirmed. It is sent again as it was, since it may have arrived.
    pending: Option<Segment>,
}

impl Store {
    /// Reads the segments of earlier pods, and restores the journals from them.
    async fn of(namespace: Namespace, place: &Place, seal: Seal) -> Result<Store> {
        let state = State::at(&place.work.join("state"));
        let folder = state.runs_folder()?;
        let fail = |error: std::io::Error| Error::new(format!("the journal cannot be restored: {error}"));
        let now = Instant::now();
        let mut store = Store {
            namespace,
            run: place.run.clone(),
            seal,
            work: place.work.clone(),
            number: 0,
            total: 0,
            outputs: 0,
            output: 0,
            journals: BTreeMap::new(),
            begun: now,
            last: now,
            looked: now,
            pending: None,
        };
        while let Some(object) = store.read(Segment::name(&place.run, store.number + 1)).await {
            store.number += 1;
            // Objects that the run has not written are not trusted.
            let Some(segment) = Segment::of(&object, &place.run, store.number, &store.seal) else { continue };
            store.total += segment.size();
            store.outputs += segment.output.len() as u64;
            if let Some((file, bytes)) = segment.journal {
                let mut options = File::options();
                let mut journal = options.create(true).append(true).open(folder.join(&file)).map_err(fail)?;
                journal.write_all(&bytes).map_err(fail)?;
                *store.journals.entry(file).or_default() += bytes.len() as u64;
            }
        }
        Ok(store)
    }

    /// An object, once the server answers.
    async fn read(&self, name: String) -> Option<Value> {
        loop {
            let name = name.clone();
            if let Ok(found) = self.namespace.request(move |namespace| namespace.get(CONFIG_MAP, &name)).await {
                return found;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn state(&self) -> State {
        State::at(&self.work.join("state"))
    }

    /// How earlier pods have left the run.
    fn former(&self) -> Result<Former> {
        if self.total >= TOTAL {
            return Err(Error::new("the journal is incomplete, so the run cannot be resumed"));
        }
        for file in self.state().runs().into_iter().rev().filter(|file| !file.is_empty()) {
            let journal = read_outline(&file.path)?;
            match &journal.end {
                Some(end) if !crate::signals::is_signal(end.code) => return Ok(Former::Ended(end.code)),
                _ if has_begun(&journal) => return Ok(Former::Begun(file.run)),
                _ => {}
            }
        }
        Ok(Former::Nothing)
    }

    async fn is_cancelled(&self) -> bool {
        let name = objects::cancel_name(&self.run);
        let found = self.namespace.request(move |namespace| namespace.get(CONFIG_MAP, &name)).await;
        matches!(found, Ok(Some(object)) if objects::is_cancel(&object, &self.run, &self.seal))
    }

    /// Waits for [`LOOK`], and stores a segment if one is due. Returns whether the run is cancelled. May be dropped: a
    /// segment that was being sent is sent again.
    async fn look(&mut self) -> bool {
        tokio::time::sleep(LOOK).await;
        let interval = (self.begun.elapsed() / SHARE).clamp(LOOK, SLOWEST);
        if self.last.elapsed() >= interval {
            let _ = self.one().await;
        }
        if self.looked.elapsed() < RENEW {
            return false;
        }
        self.looked = Instant::now();
        self.is_cancelled().await
    }

    /// Stores everything, for as long as the server takes.
    async fn all(&mut self) {
        loop {
            match self.one().await {
                Ok(false) => return,
                Ok(true) => {}
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Stores the next segment. Returns whether there was one; an error if the server did not confirm it.
    async fn one(&mut self) -> Result<bool> {
        self.last = Instant::now();
        if self.pending.is_none() {
            self.pending = self.next();
        }
        let Some(segment) = &self.pending else { return Ok(false) };
        let (segment, run, number, seal) = (segment.clone(), self.run.clone(), self.number + 1, self.seal.clone());
        let is_stored = self.namespace.request(move |namespace| {
            match namespace.put(&segment.object(namespace, &run, number, &seal)) {
                Ok(_) => Ok(true),
                // The name is taken: by this segment, sent earlier and stored late, by one of a lost pod, or by a
                // foreign object.
                Err(error) => match namespace.get(CONFIG_MAP, &Segment::name(&run, number))? {
                    Some(other) => Ok(Segment::of(&other, &run, number, &seal).as_ref() == Some(&segment)),
                    None => Err(error),
                },
            }
        });
        let is_stored = is_stored.await?;
        self.number += 1;
        if is_stored {
            self.pending = None;
        }
        Ok(true)
    }

    /// Reads the next piece of the output and of one journal.
    fn next(&mut self) -> Option<Segment> {
        if self.total >= TOTAL {
            return None;
        }
        let mut output = Vec::new();
        if self.outputs < OUTPUT {
            output = piece(&self.work.join("output"), self.output);
            self.output += output.len() as u64;
            self.outputs += output.len() as u64;
            if self.outputs >= OUTPUT {
                output.truncate(PART - LONG_OUTPUT.len());
                output.extend_from_slice(LONG_OUTPUT);
            }
        }
        let mut journal = None;
        for RunFile { path, .. } in self.state().runs() {
            let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { continue };
            let stored = self.journals.entry(name.clone()).or_default();
            let bytes = piece(&path, *stored);
            if !bytes.is_empty() && !is_idle(&bytes) {
                *stored += bytes.len() as u64;
                journal = Some((name, bytes));
                break;
            }
        }
        let mut segment = Segment { output, journal, end: None };
        if segment.size() == 0 {
            return None;
        }
        self.total += segment.size();
        if self.total >= TOTAL {
            segment.output.truncate(PART - TOO_LONG.len());
            segment.output.extend_from_slice(TOO_LONG);
        }
        Some(segment)
    }

    /// Stores the rest, and the exit code, for as long as the server takes.
    async fn finish(&mut self, code: u8) {
        self.all().await;
        // The end is a numbered segment too, so that nobody can block it by creating an object of a fixed name.
        self.pending = Some(Segment { end: Some(code), ..Segment::default() });
        self.all().await;
        let end = objects::end(&self.namespace, &self.run, (code, self.number), &self.seal);
        loop {
            let (end, name) = (end.clone(), objects::end_name(&self.run));
            let is_stored = self.namespace.request(move |namespace| {
                namespace.put(&end).map(drop).or_else(|error| match namespace.get(CONFIG_MAP, &name)? {
                    Some(_) => Ok(()),
                    None => Err(error),
                })
            });
            if is_stored.await.is_ok() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether lines of a journal show that nothing but time has passed. They are stored with the next other line, because
/// each segment is an object of the cluster.
fn is_idle(lines: &[u8]) -> bool {
    let is_alive = |line: &[u8]| line.starts_with(b"{\"t\":\"alive\"");
    lines.len() < PART && lines.split_inclusive(|byte| *byte == b'\n').all(is_alive)
}

/// Bytes of a file from this offset on, as many as a segment takes. A file that is missing has none.
fn piece(path: &Path, from: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path)
        && file.seek(SeekFrom::Start(from)).is_ok()
    {
        let _ = file.take(PART as u64).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_alone_are_not_stored() {
        let alive = "{\"t\":\"alive\",\"at\":1}\n";
        assert!(is_idle(alive.repeat(30).as_bytes()));
        assert!(!is_idle(format!("{alive}{{\"t\":\"end\"}}\n").as_bytes()));
        assert!(!is_idle(alive.repeat(PART / alive.len() + 1).get(..PART).unwrap().as_bytes()), "too many to wait");
    }
}
