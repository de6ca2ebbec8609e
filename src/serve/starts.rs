//! Runs that pages have started: each is this program again, in a session of its own.
//!
//! A run does not need the server. It has its journal and its locks, and goes on when the server ends.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{Read, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::audit::{Audit, Event, Record};
use super::given::Given;
use super::users::{self, User};
use crate::error::{Error, Result};
use crate::journal::{State, read_header};
use crate::own_program::{SESSION, own_program};
use crate::report::{self, Summary};

/// Time between two looks at a run.
const LOOK: Duration = Duration::from_millis(200);
/// Number of records that are searched for runs without an end.
const SETTLED: usize = 2000;
/// Number of starts that are remembered.
const KEPT: usize = 200;
/// Maximum part of the errors of a run that is kept, from their end, in bytes.
const ERRORS: usize = 16 << 10;

/// The run that a user asks for, after all checks.
pub(super) struct Order {
    /// Name of the playbook in the configuration.
    pub(super) name: String,
    /// File of the playbook.
    pub(super) playbook: PathBuf,
    pub(super) cluster: String,
    pub(super) sources: Vec<String>,
    pub(super) limit: Option<String>,
    pub(super) tags: Option<String>,
    pub(super) check: bool,
    pub(super) given: Given,
}

/// Outcome of a request to start a run.
pub(super) enum Begun {
    Started(Arc<Start>),
    /// The run was not started, for this reason.
    Busy(String),
}

/// A run that was started here.
pub(super) struct Start {
    pub(super) id: String,
    pub(super) user: String,
    pub(super) name: String,
    pub(super) cluster: String,
    /// Time of the start, as ids of runs begin.
    since: String,
    state: Mutex<Running>,
}

/// State of the run.
struct Running {
    child: Child,
    run: Option<String>,
    end: Option<End>,
    errors: Vec<u8>,
    cancels: usize,
}

/// Way to stop a run.
#[derive(Clone, Copy)]
pub(super) enum Cancel {
    InOrder,
    AtOnce,
}

/// End of a run.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Exit code; `None` if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) result: &'static str,
}

impl Start {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Id of the run, once it has a journal.
    pub(super) fn run(&self) -> Option<String> {
        self.running().run.clone()
    }

    pub(super) fn end(&self) -> Option<End> {
        self.running().end
    }

    /// Number of requests to cancel it.
    pub(super) fn cancels(&self) -> usize {
        self.running().cancels
    }

    /// The last errors that the run printed.
    pub(super) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.running().errors).into_owned()
    }

    /// Stops the run and records that: the first time in order, as Ctrl-C does, and the second time immediately. A
    /// repeated request, such as a second press of the same button, does nothing. Sends SIGTERM, because a run may
    /// ignore SIGINT if a shell started the server in the background.
    pub(super) fn cancel(&self, how: Cancel, audit: &Audit, record: Record) -> Result<()> {
        let earlier = match how {
            Cancel::InOrder => 0,
            Cancel::AtOnce => 1,
        };
        let mut running = self.running();
        // The process is reaped under the same lock, so its number belongs to no other.
        if running.end.is_some() || running.cancels != earlier || !matches!(running.child.try_wait(), Ok(None)) {
            return Ok(());
        }
        audit.add(record)?;
        let _ = kill_process(Pid::from_child(&running.child), Signal::TERM);
        running.cancels += 1;
        Ok(())
    }

    /// Ends a run that has not begun, because nothing would notice its end.
    fn abandon(&self) {
        let mut running = self.running();
        let _ = running.child.kill();
        let _ = running.child.wait();
        running.end = Some(End { code: None, result: "killed" });
    }
}

/// All runs that were started here.
pub(super) struct Starts {
    starts: Mutex<Vec<Arc<Start>>>,
    audit: Arc<Audit>,
    state: State,
    /// Options of each run, such as those for passwords of vaults.
    options: Vec<OsString>,
    directory: PathBuf,
}

impl Starts {
    pub(super) fn new(audit: Arc<Audit>, state: State, options: Vec<OsString>, directory: PathBuf) -> Starts {
        Starts { starts: Mutex::default(), audit, state, options, directory }
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Arc<Start>>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Start>> {
        self.locked().iter().find(|start| start.id == id).cloned()
    }

    /// The start of the run with this id.
    pub(super) fn of_run(&self, run: &str) -> Option<Arc<Start>> {
        self.locked().iter().find(|start| start.run().as_deref() == Some(run)).cloned()
    }

    /// Runs that have not ended.
    pub(super) fn running(&self) -> Vec<Arc<Start>> {
        self.locked().iter().filter(|start| start.end().is_none()).cloned().collect()
    }

    /// Starts a run, unless its inventory has one or there are too many.
    pub(super) fn begin(&self, order: Order, user: &User, from: SocketAddr, most: usize) -> Result<Begun> {
        // Held until the run is on the list, so that two requests cannot start two runs.
        let mut starts = self.locked();
        let running: Vec<&Arc<Start>> = starts.iter().filter(|start| start.end().is_none()).collect();
        if let Some(other) = running.iter().find(|start| start.cluster == order.cluster) {
            return Ok(Begun::Busy(format!(
                "`{}` of {} is running for the inventory `{}`, which has one run at a time. Start again when that has \
                 ended.",
                other.name, other.user, order.cluster
            )));
        }
        if running.len() >= most {
            return Ok(Begun::Busy(format!(
                "{most} runs are going on, which is the limit. Start again when one has ended."
            )));
        }
        let id: String = users::random()?.chars().take(16).collect();
        self.audit.add(record(&order, &id, user, from))?;
        let since = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S-%3f").to_string();
        let child = self.spawn(&order).map_err(|error| {
            let problem = Error::new(format!("the run cannot be started: {error}"));
            let failed = Record { event: Event::Ended, start: Some(id.clone()), ..Record::default() };
            let _ = self.audit.add(failed.because(problem.to_string()));
            problem
        })?;
        let start = Arc::new(Start {
            id,
            user: user.name.clone(),
            name: order.name.clone(),
            cluster: order.cluster.clone(),
            since,
            state: Mutex::new(Running { child, run: None, end: None, errors: Vec::new(), cancels: 0 }),
        });
        while starts.len() >= KEPT {
            let Some(oldest) = starts.iter().position(|start| start.end().is_some()) else { break };
            starts.remove(oldest);
        }
        starts.push(Arc::clone(&start));
        drop(starts);
        if let Err(error) = self.follow(&start, order.given) {
            start.abandon();
            let problem = Error::new(format!("the run cannot be watched, and was ended: {error}"));
            let failed = Record { event: Event::Ended, start: Some(start.id.clone()), ..Record::default() };
            self.audit.add(failed.because(problem.to_string()))?;
            return Err(problem);
        }
        Ok(Begun::Started(start))
    }

    /// Starts the process. It gets its variables by standard input, prints no results, because its journal has them,
    /// and leaves the terminal, so that Ctrl-C reaches the server alone.
    fn spawn(&self, order: &Order) -> std::io::Result<Child> {
        let mut command = Command::new(own_program()?);
        command.args(["playbook", "--form"]).args(&self.options);
        command.args(order.sources.iter().map(|source| format!("--inventory={source}")));
        command.args(order.limit.iter().map(|limit| format!("--limit={limit}")));
        command.args(order.tags.iter().map(|tags| format!("--tags={tags}")));
        command.args(order.check.then_some("--check"));
        command.arg(&order.playbook);
        command.current_dir(&self.directory).env(SESSION, std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    }

    /// Gives a run its variables, and watches it in threads of its own until it ends.
    fn follow(&self, start: &Arc<Start>, given: Given) -> std::io::Result<()> {
        let thread = || std::thread::Builder::new().name("started run".to_owned());
        let (input, errors) = {
            let mut running = start.running();
            (running.child.stdin.take(), running.child.stderr.take())
        };
        if let Some(mut input) = input {
            // The run may end before it has read everything.
            thread().spawn(move || serde_json::to_vec(&given).map(|text| input.write_all(&text)))?;
        }
        if let Some(errors) = errors {
            let start = Arc::clone(start);
            thread().spawn(move || keep_errors(errors, &start))?;
        }
        let (start, audit, state) = (Arc::clone(start), Arc::clone(&self.audit), self.state.clone());
        thread().spawn(move || watch(&start, &audit, &state))?;
        Ok(())
    }
}

/// The record of a start, with masked variables.
fn record(order: &Order, id: &str, user: &User, from: SocketAddr) -> Record {
    let mut variables = order.given.variables.clone();
    for name in &order.given.secret {
        if let Some(value) = variables.get_mut(name) {
            *value = crate::vars::secrecy::MASK.into();
        }
    }
    Record {
        user: Some(user.name.clone()),
        role: Some(user.role.word().to_owned()),
        start: Some(id.to_owned()),
        name: Some(order.name.clone()),
        playbook: Some(order.playbook.display().to_string()),
        inventory: Some(order.cluster.clone()),
        limit: order.limit.clone(),
        tags: order.tags.clone(),
        check: Some(order.check),
        variables: Some(variables),
        ..Record::of(Event::Started, from)
    }
}

/// Reads errors to their end, and keeps the last ones.
fn keep_errors(mut errors: impl Read, start: &Start) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = errors.read(&mut buffer) {
        let kept = &mut start.running().errors;
        kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let excess = kept.len().saturating_sub(ERRORS);
        kept.drain(..excess);
    }
}

/// Notes the id and the end of a run.
fn watch(start: &Start, audit: &Audit, state: &State) {
    // If the trail cannot be written, the next start is refused.
    let add = |record: Record| drop(audit.add(record));
    let about = |event| Record { event, start: Some(start.id.clone()), run: start.run(), ..Record::default() };
    let pid = start.running().child.id();
    let mut is_recorded = false;
    loop {
        let ended = start.running().child.try_wait();
        // Asked after the process, so that a short run is not missed.
        if !is_recorded && let Some(run) = run_of(pid, &start.since, state) {
            start.running().run = Some(run);
            is_recorded = true;
            add(about(Event::Recorded));
        }
        match ended {
            Ok(None) => std::thread::sleep(LOOK),
            Ok(Some(status)) => {
                let code = status.code().and_then(|code| u8::try_from(code).ok());
                let end = End { code: status.code(), result: report::result_of_ended(code) };
                start.running().end = Some(end);
                return add(Record { code: end.code, result: Some(end.result.to_owned()), ..about(Event::Ended) });
            }
            Err(error) => {
                start.running().end = Some(End { code: None, result: "killed" });
                return add(about(Event::Ended).because(error.to_string()));
            }
        }
    }
}

/// Records the ends of runs that ended after their server.
pub(super) fn settle(audit: &Audit, state: &State) -> Result<()> {
    let (records, _) = audit.last(SETTLED)?;
    let ended = records.iter().filter(|record| record.event == Event::Ended);
    let ended: HashSet<&Option<String>> = ended.map(|record| &record.start).collect();
    let runs = state.runs();
    let open = records.iter().rev().filter(|one| one.event == Event::Recorded && !ended.contains(&one.start));
    for record in open {
        let Some(run) = runs.iter().find(|run| Some(&run.run) == record.run.as_ref()) else { continue };
        // Asked before the journal is read: a run that ends in between is then complete.
        let is_alive = run.is_alive();
        let ended = Summary::read(&run.path).filter(|summary| summary.end.is_some() || !is_alive);
        let Some(summary) = ended else { continue };
        let code = summary.end.as_ref().map(|(_, code)| *code);
        let settled = Record {
            event: Event::Ended,
            start: record.start.clone(),
            run: record.run.clone(),
            result: Some(report::result_of_ended(code).to_owned()),
            code: code.map(i32::from),
            ..Record::default()
        };
        audit.add(settled.because("it ended after its server"))?;
    }
    Ok(())
}

/// The run that a process started since `since`. Older journals are not read, because they may have the same process
/// id.
fn run_of(pid: u32, since: &str, state: &State) -> Option<String> {
    let recent = state.runs().into_iter().rev().take_while(|run| run.run.as_str() >= since);
    let mut own = recent.filter(|run| read_header(&run.path).is_some_and(|header| header.pid == pid));
    own.next().map(|run| run.run)
}
