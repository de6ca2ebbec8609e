//! `windlass playbook --shards`: a run in several processes.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use tokio::time::{sleep, timeout};
use windlass_protocol::Shard;
use windlass_template::Value;

use super::session::Session;
use crate::connection::Secret;
use crate::error::{Error, Result};
use crate::executor::{Part, Pool};
use crate::journal::{Recorder, list_inventory, new_salt};
use crate::output::{EventQueue, Events, Masked, Output, Secrets, event_queue};
use crate::playbook::{Play, short_name};
use crate::settings::Settings;
use crate::shards::{CommandLine, Gone, Hub, Lead, Link, SentEvent, Shards, ToLead, Welcome, Workers, digest};
use crate::signals;

/// Time for a worker to stop what runs on its hosts, after the run.
const STOPPING: Duration = Duration::from_secs(5);
/// Time for a worker to do so, and to end, after the run was stopped.
const STOPPED: Duration = Duration::from_secs(15);
/// Time for all processes to stop what runs on hosts, after the second signal.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The processes of a run that this one leads, and its own connections.
static LED: OnceLock<(Arc<Hub>, Arc<Pool<Value>>)> = OnceLock::new();

/// Maximum number of processes of a run.
pub(super) const MOST: u16 = 64;

/// Options of `windlass playbook` for runs in several processes.
#[derive(Debug, Default, Args)]
pub(super) struct ShardOptions {
    /// Run in this many processes, which share the work on the hosts
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST)),
        help_heading = "Run",
        conflicts_with = "plan"
    )]
    pub(super) shards: Option<u16>,
    /// Socket of the process that leads a run of several
    #[arg(long, hide = true)]
    shard_of: Option<PathBuf>,
    /// Name and port of the pod that leads a run of several
    #[arg(long, hide = true, requires = "shard_keys")]
    shard_of_pod: Option<String>,
    /// Address at which the pod that leads a run awaits the others
    #[arg(long, hide = true, requires = "shard_keys")]
    shard_listen: Option<SocketAddr>,
    /// Number of pods that have led the run so far
    #[arg(long, hide = true, requires = "shard_listen")]
    pub(super) shard_lead: Option<u32>,
    /// Folder with the keys of this process
    #[arg(long, hide = true)]
    shard_keys: Option<PathBuf>,
}

impl ShardOptions {
    /// Options of a run in one process.
    pub(super) fn one() -> ShardOptions {
        ShardOptions { shards: Some(1), ..ShardOptions::default() }
    }

    /// The lead, if this process is a worker.
    pub(super) fn lead(&self) -> Option<Lead> {
        let pod = self.shard_of_pod.clone().zip(self.shard_keys.clone());
        let pod = pod.map(|(address, keys)| Lead::Pod { address, keys });
        pod.or_else(|| self.shard_of.clone().map(Lead::Process))
    }

    /// Where the workers are, if this process leads.
    fn workers(&self) -> Workers {
        match self.shard_listen.zip(self.shard_keys.clone()) {
            Some((listen, keys)) => Workers::Pods { listen, keys },
            None => Workers::Processes(command_line()),
        }
    }
}

/// Output of a worker: the lead prints everything.
pub(super) struct Silent;

impl Output for Silent {
    fn event(&mut self, _event: &Masked) {}
}

/// A worker whose session has not started.
pub(super) struct Worker {
    link: Arc<Link>,
    welcome: Welcome,
    /// Connections to hosts, once they exist.
    pool: Arc<OnceLock<Arc<Pool<Value>>>>,
    /// Receives what only this process knows.
    pub(super) events: Events,
}

/// Prepares a process that does not lead: it has no terminal and writes nothing.
pub(super) fn quieten(settings: &mut Settings, lead: &Lead) -> Result<()> {
    if matches!(lead, Lead::Process(_)) {
        // In a session of its own, its programs cannot prompt. Signals of the terminal reach only the lead, which ends
        // the workers.
        rustix::process::setsid().map_err(|error| Error::new(format!("cannot leave the terminal: {error}")))?;
    }
    settings.stream = false;
    settings.journal.enabled = false;
    settings.output.retry_files = false;
    settings.output.events = None;
    settings.output.trace = None;
    settings.output.log_path = None;
    Ok(())
}

/// Connects a worker to the process that leads; `None` if its pod does not come.
pub(super) async fn connect(lead: &Lead) -> Result<Option<Worker>> {
    let pool: Arc<OnceLock<Arc<Pool<Value>>>> = Arc::default();
    let own = Arc::clone(&pool);
    // Nothing may start any more.
    let gone = move |gone| match (gone, own.get()) {
        (Gone::Ended, Some(pool)) => {
            let pool = Arc::clone(pool);
            tokio::spawn(async move {
                let _ = timeout(STOPPING, pool.stop()).await;
                std::process::exit(0);
            });
        }
        (Gone::Ended, None) => std::process::exit(0),
        (Gone::Stopped, _) => {
            // The session ends like that of the lead.
            signals::terminate();
            tokio::spawn(async {
                sleep(STOPPED).await;
                std::process::exit(1);
            });
        }
        // Tasks on hosts go on, for the next lead.
        (Gone::Lost, _) => std::process::exit(1),
    };
    let Some((link, welcome)) = Link::connect(lead, gone).await? else { return Ok(None) };
    let learnt = Arc::clone(&link);
    Secrets::of_process().observe(move |text, is_password| {
        learnt.send(ToLead::Secret { text: Secret::new(text), is_password });
    });
    let (events, queue) = event_queue();
    tokio::spawn(pass_on(queue, Arc::clone(&link)));
    Ok(Some(Worker { link, welcome, pool, events }))
}

async fn pass_on(mut queue: EventQueue, link: Arc<Link>) {
    while let Some(event) = queue.recv().await {
        SentEvent::of(event).into_iter().for_each(|event| link.send(ToLead::Said(Box::new(event))));
    }
}

impl Worker {
    /// Lets the session follow the lead.
    pub(super) async fn follow(self, session: &Session) {
        let _ = session.shared.shards.set(Shards::Worker(Arc::clone(&self.link)));
        let Welcome { run, shard, is_spread, inputs: expected, item_key } = self.welcome;
        item_key.into_iter().for_each(|key| _ = session.shared.item_key.set(key));
        session.shared.pool.divide(Part { run, shard, is_spread });
        let _ = self.pool.set(Arc::clone(&session.shared.pool));
        if inputs(session) != expected {
            self.link.stray("it has read other variables or another inventory".to_owned());
            std::future::pending().await
        }
    }
}

/// Starts or awaits the other processes of a run.
pub(super) async fn lead(session: &Session, options: &ShardOptions) -> Result<()> {
    let shared = &session.shared;
    let count = usize::from(shared.run.settings.shards);
    // Without a journal, nobody resumes the run.
    let (run, leads) = shared.journal.get().map_or_else(|| (new_salt(), 1), Recorder::of_several);
    let shard = Shard { number: 0, token: u64::from(leads) << 32 };
    let workers = options.workers();
    let is_spread = matches!(workers, Workers::Pods { .. });
    shared.pool.divide(Part { run: run.clone(), shard, is_spread });
    let item_key = shared.journal.get().and_then(Recorder::item_key).map(str::to_owned);
    let welcome = Welcome { run, shard, is_spread, inputs: inputs(session), item_key };
    let hub = Hub::start(count.saturating_sub(1), &workers, welcome, &shared.events, &shared.secrets)?;
    let _ = shared.shards.set(Shards::Lead(Arc::clone(&hub)));
    if !is_spread {
        let _ = LED.set((Arc::clone(&hub), Arc::clone(&shared.pool)));
    }
    hub.ready().await;
    Ok(())
}

/// Stops what all processes of the run run on hosts, within [`AT_ONCE`]. Returns the numbers of the processes that do
/// not answer; `None` if this process does not lead others of this machine.
pub(super) async fn stop_at_once() -> Option<Vec<usize>> {
    let (hub, pool) = LED.get()?;
    hub.stop();
    // An executor may need longer to end, but by then it has been asked to.
    let (late, _) = tokio::join!(hub.stopped(AT_ONCE), timeout(AT_ONCE, pool.stop()));
    Some(late)
}

/// Digest of the variables and hosts that the run begins with. Some can be read only once, or change between two
/// readings.
fn inputs(session: &Session) -> u64 {
    let vars = session.shared.run.extra_vars.iter();
    let mut lines: Vec<String> = vars.map(|(key, node)| format!("{}={}", key.to_text(), node.to_json())).collect();
    list_inventory(&session.world.inventory, &mut |line| lines.push(line.to_owned()));
    digest(lines.iter().map(String::as_str))
}

/// The command line of this process.
fn command_line() -> CommandLine {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let mut options: Vec<OsString> = words.collect();
    let end = options.iter().position(|word| word == "--").unwrap_or(options.len());
    let rest = options.split_off(end);
    CommandLine { program, options, rest }
}

/// Fails if a run would have too many processes.
pub(super) fn check(settings: &Settings) -> Result<()> {
    match settings.shards > MOST {
        true => Err(Error::usage(format!("the setting shards must be at most {MOST}, not {}", settings.shards))),
        false => Ok(()),
    }
}

/// Refuses what would have another meaning in several processes.
pub(super) fn refuse<'a>(plays: impl Iterator<Item = &'a Play>, session: &Session) -> Result<()> {
    let settings = &session.shared.run.settings;
    let refused = |what: &str, why: &str, place: Option<&windlass_yaml::Span>| {
        let message = format!("--shards cannot be used with {what}: {why}");
        let error = match place {
            Some(span) => Error::parse(message, span),
            None => Error::usage(message),
        };
        Err(error.hint("run in one process with `--shards 1`"))
    };
    check(settings)?;
    const FREE: &str = "only the order of tasks under `linear` is the same in all processes";
    const ASKS: &str = "only the first process has the terminal";
    if settings.step {
        return refused("--step", ASKS, None);
    }
    let asked = super::secrets::asked();
    if !asked.is_empty() {
        return refused("passwords that are typed", ASKS, None)
            .map_err(|error| error.hint(format!("give it in a file: {}", asked.join(", "))));
    }
    if settings.task_debugger {
        return refused("the debugger", ASKS, None);
    }
    if short_name(&settings.strategy) != "linear" {
        return refused(&format!("the strategy {}", settings.strategy), FREE, None);
    }
    for play in plays {
        let keyword = |name: &str| play.frame.keywords.get(name);
        if let Some(node) = keyword("strategy").filter(|node| node.as_str().map(short_name) != Some("linear")) {
            return refused("this strategy", FREE, Some(&node.span));
        }
        let is_random = |text: &str| text == "shuffle" || text.contains("{{");
        if let Some(node) = keyword("order").filter(|node| node.as_str().is_some_and(is_random)) {
            return refused("a random order of hosts", "each process would have its own", Some(&node.span));
        }
        for entry in play.frame.keywords.list("vars_prompt") {
            let name = entry.get("name").and_then(windlass_yaml::Node::as_str).unwrap_or_default();
            if !session.shared.run.extra_vars.contains_key(name) {
                return refused("vars_prompt", ASKS, Some(&entry.span))
                    .map_err(|error| error.hint(format!("give the answer with `-e {name}=...`")));
            }
        }
        if let Some(task) = play.all_tasks().into_iter().find(|task| task.keyword("debugger").is_some()) {
            return refused("the debugger", ASKS, Some(&task.span));
        }
    }
    Ok(())
}
