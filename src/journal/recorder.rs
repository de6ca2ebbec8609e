//! Writes the journal of a run, and looks up outcomes of an earlier run.

mod handlers;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use windlass_inventory::Inventory;
use windlass_template::Read;

use super::fingerprint::{
    canonical, crypt_salt, file_hash, fingerprint, is_compared, may_differ, of_answer, of_effects, of_vars, renewed,
    without_secrets,
};
use super::former::{Former, Given};
use super::inputs::Inputs;
use super::ledger::{Event, Ledger, Pending, PlayKey};
use super::limit;
use super::line::Line;
use super::log::{Lane, Log, Trouble};
use super::mask;
use super::reader::Journal;
use super::record::{At, End, FileRead, InputKind, ItemDone, PlayStart, Record, Sent, Status, Withheld};
use super::replay::{Replay, Restored, SentBefore, Step};
use super::state::{RunFile, State, ledger_name, project};
use crate::error::{Error, Result};
use crate::outcome::{Effect, HostOutcome, TaskResult};
use crate::output::Secrets;
use crate::playbook::Files;

/// Maximum length of the name of an input or a play in the journal, in bytes.
const NAME: usize = 16 << 10;

/// Maximum size of an error report in the journal, in bytes.
const REPORT: usize = 16 << 10;

/// Inputs of a new journal.
pub(crate) struct Start<'a> {
    pub(crate) inputs: Inputs<'a>,
    pub(crate) files: &'a Files,
    pub(crate) secrets: &'a Secrets,
    /// Journal of the run to resume.
    pub(crate) resumed: Option<Journal>,
    /// Whether to resume it even if inputs have changed.
    pub(crate) anyway: bool,
    /// Takes the warning that the journal can no longer be written.
    pub(crate) warn: Box<dyn Fn(String) + Send + Sync>,
}

/// Position of a task, with its JSON text. Hosts in lockstep share it.
#[derive(Debug)]
pub(crate) struct Spot {
    at: At,
    json: String,
}

impl From<At> for Spot {
    fn from(at: At) -> Spot {
        Spot { json: serde_json::to_string(&at).unwrap_or_default(), at }
    }
}

/// A running task's position in the journal.
#[derive(Debug)]
pub(crate) struct Place {
    spot: Arc<Spot>,
    pub(crate) play: PlayKey,
    /// Address of the host; empty if no variable names it.
    pub(crate) address: Arc<str>,
    traits: Traits,
    /// Notifications that wait for this handler alone.
    settles: Vec<String>,
    /// Handlers announced with the task; `None` before the announcement.
    sent: Mutex<Option<Vec<String>>>,
    clock: Mutex<Clock>,
    /// Whether its effects are compared with the resumed run's, because it is evaluated again.
    compared: AtomicBool,
}

/// Properties of a task that a resumed run needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// Whether it runs on one host for all.
    pub(crate) once: bool,
    pub(crate) handler: bool,
    /// Whether a block rescues its failure.
    pub(crate) rescuable: bool,
}

/// Form in which an outcome is recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recording<'a> {
    /// Whether the task is a loop, whose items are recorded by themselves.
    pub(crate) looped: bool,
    /// Whether later tasks may read the result, so that a resumed run needs it.
    pub(crate) kept: bool,
    /// Whether the result is withheld.
    pub(crate) no_log: bool,
    /// Error report of a failure.
    pub(crate) report: Option<&'a str>,
}

/// A handler that an earlier run left and this one runs.
#[derive(Debug)]
pub(crate) struct Carried {
    /// Name in `notify`.
    pub(crate) handler: String,
    /// Place of its last notification among the records of the resumed run; `None` if another run made it.
    pub(crate) notified: Option<usize>,
}

/// Start of a task in its turn, and of the loop's item that runs.
#[derive(Debug, Default)]
struct Clock {
    task: Option<Instant>,
    item: Option<Instant>,
}

impl Place {
    /// A position for which nothing has been sent.
    pub(crate) fn new(spot: Arc<Spot>, play: PlayKey, address: Arc<str>, traits: Traits) -> Place {
        let (settles, sent, clock, compared) = Default::default();
        Place { spot, play, address, traits, settles, sent, clock, compared }
    }

    /// A position of a handler for which alone these notifications wait.
    pub(crate) fn settling(self, settles: Vec<String>) -> Place {
        Place { settles, ..self }
    }

    fn at(&self) -> &At {
        &self.spot.at
    }

    /// Begins a record of the task on a host.
    fn line(&self, kind: &str, host: &str, room: usize) -> Line {
        Line::new(kind, &self.spot.json, host, room)
    }

    /// Notes that the task starts in its turn.
    pub(crate) fn begin(&self) {
        let now = Some(Instant::now());
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Clock { task: now, item: now };
    }

    /// Notes the start of an item that ran beside others, before its result is recorded.
    pub(crate) fn begin_item(&self, began: Instant) {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).item = Some(began);
    }

    /// Start and duration in milliseconds of an item that ends now. The next item starts then.
    fn item_times(&self) -> Option<(u64, u64)> {
        let now = Instant::now();
        let start = self.clock.lock().unwrap_or_else(PoisonError::into_inner).item.replace(now)?;
        Some(times(start, now))
    }

    /// Start and duration in milliseconds of the task, which ends now.
    fn task_times(&self) -> Option<(u64, u64)> {
        Some(times(self.clock.lock().unwrap_or_else(PoisonError::into_inner).task?, Instant::now()))
    }
}

/// Start in milliseconds since 1970, and duration in milliseconds.
fn times(start: Instant, end: Instant) -> (u64, u64) {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (millis(since.saturating_sub(start.elapsed())), millis(end.saturating_duration_since(start)))
}

/// Origins of the texts that a task has set; `None` if they are not traced.
fn origins(result: &TaskResult) -> Option<BTreeMap<&str, &'static str>> {
    let set = result.effects().iter().find_map(|effect| match effect {
        Effect::SetFacts(set) => Some(&set.origins),
        _ => None,
    })?;
    (!set.is_empty()).then(|| set.iter().map(|(name, origin)| (&**name, origin.word())).collect())
}

/// A record or event as a line.
fn line(value: &impl Serialize) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(value).ok()?;
    line.push(b'\n');
    Some(line)
}

fn status(result: &TaskResult, ignored: bool) -> Status {
    Status {
        changed: result.changed(),
        failed: result.failed(),
        skipped: result.is_skipped(),
        unreachable: result.is_unreachable(),
        ignored,
    }
}

/// An input whose name, which templates may produce, is too long for the journal counts as one of those that are not
/// recorded.
fn within(input: FileRead) -> FileRead {
    match input.path.len() > NAME {
        true => FileRead { kind: InputKind::Rest, ..FileRead::default() },
        false => input,
    }
}

/// Bytes that a record's line reserves for a result: as many as its texts have, with some for escapes and other values.
/// Few results are larger than the most.
fn room(result: &TaskResult) -> usize {
    const MOST: usize = 64 << 10;
    let texts: usize = result.iter().map(|(key, value)| key.len() + value.as_str().map_or(8, str::len)).sum();
    (texts + texts / 8).min(MOST)
}

/// Journal of the current run.
pub(crate) struct Recorder {
    run: RunFile,
    /// Salt for the hashes of environment variables.
    salt: String,
    /// Key for the hashes of secret items in places; `None` if a journal of an earlier release is resumed.
    item_key: Option<String>,
    /// Number of runs of several processes, this one and those that it resumes.
    leads: u32,
    /// Whether this run has one process and resumes one of several.
    alone: bool,
    started: SystemTime,
    log: Log,
    secrets: Secrets,
    /// Dry runs neither run nor forget handlers.
    check: bool,
    plays: AtomicU32,
    replay: Option<Replay>,
    former: Option<Former>,
    /// Variables of vars plugins that are recorded.
    given: Mutex<Given>,
    /// Results of tasks that were evaluated again and differ from the resumed run's.
    differences: Mutex<Vec<String>>,
    /// Numbers of the ledgers by the files of their plays.
    ledgers: HashMap<Arc<str>, usize>,
    /// Handlers of earlier runs that this one runs, by host and play.
    carried: Mutex<HashMap<(String, PlayKey), Vec<Carried>>>,
    /// Handlers recorded as notified but not yet as run, by host, play and name, with the address of the host.
    notified: Mutex<HashMap<(String, PlayKey, String), Arc<str>>>,
    /// Handlers recorded as run that the batch has not settled yet, by host, play and name.
    settled: Mutex<HashSet<(String, PlayKey, String)>>,
}

impl Recorder {
    /// Starts a journal. Returns it with pending handlers of earlier runs and warnings about the ledger.
    pub(crate) fn start(state: &State, start: Start<'_>) -> Result<(Recorder, Vec<Pending>, Vec<String>)> {
        let Start { inputs, files, secrets, resumed, anyway, warn } = start;
        let project = project(&inputs.playbook_names(), &inputs.sources());
        let (run, file) = state.create(&project)?;
        let check = inputs.settings.check;
        let former = resumed.as_ref().map(|journal| &*journal.header.run);
        Ledger::adopt(state, &project, &inputs.plays)?;
        let (mut ledgers, mut handlers) = (HashMap::new(), Vec::new());
        let (mut pending, mut damaged) = (Vec::new(), Vec::new());
        let is_alive = state.alive();
        for file in inputs.play_files() {
            let (ledger, opened) = Ledger::open(state, &file)?;
            let path = state.ledger_file(&ledger_name(&file));
            damaged.extend(ledger.complaint(&path));
            // This process holds the journal of the run that it resumes.
            let is_other = |name: &str| name != run.run && Some(name) != former;
            pending.extend(ledger.pending(&file, |name| is_other(name) && is_alive(name)));
            ledgers.insert(file, handlers.len());
            handlers.push(opened);
        }
        if check {
            handlers.clear();
        }
        let path = run.path.display().to_string();
        let on_trouble = Box::new(move |trouble: Trouble<'_>| match trouble {
            Trouble::NoRoom => warn(format!(
                "the journal {path} is too large for more results. From here on it records only what each task did; \
                 `--resume` repeats tasks whose results are needed"
            )),
            Trouble::Failed(why) => {
                let lost = if check { "" } else { ", and handlers that it notifies are not remembered" };
                warn(format!(
                    "the journal {path} cannot be written: {why}. From here on its report is incomplete, it cannot be \
                     resumed{lost}"
                ));
            }
        });
        let log = Log::start(file, handlers, state.runs_dir(), on_trouble)
            .map_err(|error| Error::new(format!("the journal cannot start its thread: {error}")))?;
        let header = inputs.header(&run.run, resumed.as_ref().map(|journal| &journal.header), secrets);
        let recorder = Recorder {
            run,
            salt: header.salt.clone(),
            item_key: header.keyed.then(|| hex::encode(Sha256::digest(format!("items\n{}", header.salt)))),
            leads: if inputs.settings.shards > 1 { header.leads } else { 0 },
            alone: inputs.settings.shards <= 1 && header.leads > 0,
            started: SystemTime::now(),
            log,
            secrets: secrets.clone(),
            check,
            plays: AtomicU32::new(0),
            replay: resumed.as_ref().map(Replay::new),
            former: resumed.as_ref().map(|journal| Former::new(journal, anyway)),
            given: Mutex::new(Given::of(resumed.as_ref())),
            differences: Mutex::default(),
            ledgers,
            carried: Mutex::default(),
            notified: Mutex::default(),
            settled: Mutex::default(),
        };
        recorder.append(&Record::Run(Box::new(header)));
        // Restored tasks read nothing again.
        if let Some(journal) = &resumed {
            let inputs = journal.records.iter().filter_map(|record| match record {
                Record::File(file) if !file.inventory => Some(file.clone()),
                _ => None,
            });
            let inputs = inputs.map(|input| renewed(input, &recorder.salt, journal.killed_at()));
            inputs.for_each(|input| _ = recorder.append(&Record::File(input)));
        }
        let read = inputs.inventory_files().into_iter().chain(inputs.config_file());
        read.for_each(|file| _ = recorder.append(&Record::File(file)));
        recorder.files(files);
        // A resuming run copies the records, because it may be killed before it has caught up.
        let was_alone = recorder.leads > 0 && resumed.as_ref().is_some_and(|journal| journal.header.leads == 0);
        for record in resumed.iter().flat_map(|journal| &journal.records) {
            match record {
                Record::Sent(sent) if was_alone => {
                    recorder.append(&Record::Sent(Sent { alone: true, ..sent.clone() }));
                }
                Record::Done(_) | Record::Item(_) | Record::Sent(_) => _ = recorder.append(record),
                _ => {}
            }
        }
        Ok((recorder, pending, damaged))
    }

    /// Id of the run.
    pub(crate) fn run(&self) -> &str {
        &self.run.run
    }

    /// The file of the journal.
    pub(crate) fn path(&self) -> &Path {
        &self.run.path
    }

    /// Advice on how to resume after a failure or interruption, for the person who typed the command.
    pub(crate) fn advice(&self) -> Option<String> {
        self.advice_with(super::inputs::resuming(std::env::args(), self.run(), &self.secrets))
    }

    /// The same for a log, which others may read: without values of variables.
    pub(crate) fn advice_for_log(&self) -> Option<String> {
        let is_open = super::shown_arguments(std::env::args(), &self.secrets).into_iter().eq(std::env::args());
        let command = is_open.then(|| super::inputs::resuming(std::env::args(), self.run(), &self.secrets));
        self.advice_with(command.flatten())
    }

    /// `command` is `None` if it would show a secret.
    fn advice_with(&self, command: Option<String>) -> Option<String> {
        (!self.check && self.log.failure().is_none()).then(|| {
            if super::inputs::is_of_plan(std::env::args()) {
                return format!(
                    "This is run {}. Continue where it stopped with `windlass playbook --resume {}` and the options of \
                     the plan.",
                    self.run(),
                    self.run()
                );
            }
            match command {
                Some(command) => format!("This is run {}. To continue where it stopped:\n  {command}", self.run()),
                None => format!(
                    "This is run {}. Repeat the command with `--resume {}` to continue where it stopped.",
                    self.run(),
                    self.run()
                ),
            }
        })
    }

    /// Error of writing the journal, if there was one.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.log.failure()
    }

    fn append(&self, record: &Record) -> u64 {
        line(record).map_or(0, |line| self.log.append(Lane::Run, &line))
    }

    fn masked(&self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| mask::text(text, &self.secrets)).collect()
    }

    /// Records the start of a play and returns its number.
    pub(crate) fn play(&self, name: &str, order: Vec<String>) -> u32 {
        let play = self.plays.fetch_add(1, Ordering::Relaxed);
        self.append(&Record::Play(PlayStart { play, name: self.excerpt(name, NAME), order }));
        play
    }

    /// Records the answer to a prompt of the next play. If the resumed run had another one, fails or returns a warning.
    pub(crate) fn answered(&self, name: &str, answer: &str) -> Result<Option<String>> {
        let read = of_answer(self.plays.load(Ordering::Relaxed), name, answer, &self.salt);
        let known = self.former.as_ref().and_then(|former| Some((former, former.answers.get(&read.path)?)));
        let warning = match known {
            Some((_, hash)) if *hash == read.sha256 => return Ok(None),
            Some((former, _)) => Some(former.differs(&format!("the answer for `{name}` is another one"))?),
            None => None,
        };
        self.append(&Record::File(read));
        Ok(warning)
    }

    /// A salt of this many characters to encrypt the answer to a prompt of the next play. Runs that resume each other
    /// have the same.
    pub(crate) fn salt(&self, name: &str, size: usize) -> String {
        crypt_salt(self.plays.load(Ordering::Relaxed), name, size, &self.salt)
    }

    /// Order of the next play's hosts in the resumed run, if it was random.
    pub(crate) fn next_order(&self) -> Option<&[String]> {
        self.replay.as_ref()?.order(self.plays.load(Ordering::Relaxed))
    }

    /// Records the files and other inputs read since the last call.
    pub(crate) fn files(&self, files: &Files) {
        for (path, sha256) in files.take_read() {
            let path = path.canonicalize().unwrap_or(path).display().to_string();
            self.input(FileRead { path, sha256, ..FileRead::default() });
        }
        files.reads().take().into_iter().filter(is_compared).for_each(|read| self.input(fingerprint(read, &self.salt)));
    }

    /// Records variables that vars plugins have given since the last call.
    pub(crate) fn vars_of_plugins(&self, inventory: &Inventory) {
        let mut known = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let given = inventory.given_by_plugins(known.count);
        known.count += given.len();
        for given in given {
            let read = of_vars(&given, &self.salt, &self.secrets);
            // A run that resumes another has its records.
            if known.hashes.insert(read.path.clone(), read.sha256.clone()).as_ref() != Some(&read.sha256) {
                self.append(&Record::File(read));
            }
        }
    }

    /// Records inputs again that may have changed during the run, which is about to end: tasks make files that they or
    /// others read, and their last state is the one to resume from.
    pub(crate) fn files_at_end(&self, files: &Files) {
        self.files(files);
        for read in files.reads().all().into_iter().filter(|read| may_differ(read, self.started)) {
            let read = match read {
                Read::Missing(path) if path.is_dir() => Read::Folder(path),
                Read::Missing(path) if path.exists() => Read::File(path),
                read => read,
            };
            self.input(fingerprint(read, &self.salt));
        }
    }

    /// Records a file of `--limit` again, which the run itself has replaced by one with its failed hosts.
    pub(crate) fn replaced_limit(&self, path: &Path) {
        if let Some(sha256) = file_hash(path) {
            self.input(FileRead { path: canonical(path), sha256, inventory: true, ..FileRead::default() });
        }
    }

    fn input(&self, input: FileRead) {
        // Neither a directory nor a device has a hash.
        if input.kind != InputKind::File || !input.sha256.is_empty() {
            let inputs = without_secrets(input, &self.salt, &self.secrets);
            inputs.into_iter().for_each(|input| _ = self.append(&Record::File(within(input))));
        }
    }

    /// Records that a task is about to be sent, the first time with its arguments. If it may notify handlers that are
    /// not certain to run, returns the number of the line that must be durable before a change counts.
    pub(crate) fn sent<'a>(
        &self,
        place: &Place,
        host: &str,
        notify: Vec<String>,
        args: impl FnOnce() -> Option<mask::Given<'a>>,
    ) -> Option<u64> {
        let mut last = 0;
        let new = {
            let mut sent = place.sent.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = sent.is_none();
            let known = sent.get_or_insert_default();
            let is_new = |name: &String| !known.contains(name) && !self.is_notified(place, host, name);
            let new: Vec<String> = notify.into_iter().filter(is_new).collect();
            known.extend(new.iter().cloned());
            if is_first || !new.is_empty() {
                let mut line = place.line("sent", host, 0);
                line.list("notify", &self.masked(&new));
                line.flags(&[("alone", self.alone)]);
                if let Some(args) = if is_first && self.log.has_room() { args() } else { None } {
                    let text = mask::arguments(args, &self.secrets);
                    line.text("args", &text.unwrap_or_default());
                }
                last = self.log.append(Lane::Run, &line.end());
            }
            new
        };
        for handler in &new {
            last = self.note(&place.play, &Event::Maybe(self.entry(place, host, handler)));
        }
        if new.is_empty() {
            return None;
        }
        self.log.wake();
        Some(last)
    }

    /// Waits until a line is on disk.
    pub(crate) async fn durable(&self, line: u64) {
        self.log.durable(line).await;
    }

    /// Records the result of a loop's item.
    pub(crate) fn item(
        &self,
        place: &Place,
        host: &str,
        action: &str,
        index: usize,
        part: &(TaskResult, Option<String>),
        no_log: bool,
    ) {
        let (delegate, lost) = self.delegate(part);
        let (start, took) = place.item_times().unzip();
        let mut line = place.line("item", host, room(&part.0));
        line.field("index", &u32::try_from(index).unwrap_or(u32::MAX));
        line.field("action", &*self.action(action));
        line.field("status", &status(&part.0, false));
        let withheld = self.result(&mut line, action, &part.0, (false, no_log));
        line.option("delegate", delegate);
        line.option("withheld", withheld.or(lost));
        line.text("effect", &self.effect(action, &part.0, no_log));
        line.option("start", start);
        line.option("took", took);
        self.log.append(Lane::Run, &line.end());
    }

    /// Records the result of a task on a host. Its notifications count from now on.
    pub(crate) fn done(&self, place: &Place, outcome: &HostOutcome, recorded: Recording<'_>) {
        let Recording { looped, kept, no_log, report } = recorded;
        let status = status(&outcome.result, outcome.ignored);
        let (delegate, lost) =
            outcome.parts.first().filter(|_| !looped).map(|part| self.delegate(part)).unwrap_or_default();
        for handler in &outcome.notify {
            if self.remember_notification(place, &outcome.host, handler) {
                self.note(&place.play, &Event::Notified(self.entry(place, &outcome.host, handler)));
            }
        }
        // Without an answer (broken connection, killed module) it is unknown whether anything changed.
        let is_interrupted = outcome.parts.iter().any(|(part, _)| part.is_interrupted());
        if !status.unreachable && !is_interrupted {
            let sent = place.sent.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
            for handler in sent.iter().filter(|handler| !outcome.notify.contains(handler)) {
                self.note(&place.play, &Event::Not(self.entry(place, &outcome.host, handler)));
            }
        }
        let (start, took) = place.task_times().unzip();
        let rescued = status.failed && !status.ignored && place.traits.rescuable;
        let Traits { once, handler, rescuable } = place.traits;
        let mut line = place.line("done", &outcome.host, room(&outcome.result));
        line.field("action", &*self.action(&outcome.action));
        line.field("status", &status);
        line.flags(&[("once", once), ("handler", handler), ("rescuable", rescuable), ("kept", kept || rescued)]);
        line.option("items", looped.then(|| u32::try_from(outcome.parts.len()).unwrap_or(u32::MAX)));
        line.list("notify", &self.masked(&outcome.notify));
        let withheld = self.result(&mut line, &outcome.action, &outcome.result, (looped, no_log));
        line.option("delegate", delegate);
        line.flags(&[("delegate_facts", outcome.delegate_facts)]);
        line.option("withheld", withheld.or(lost));
        line.option("digest", self.digest(place, outcome, withheld.or(lost).is_some() || looped));
        line.text("effect", &self.effect(&outcome.action, &outcome.result, no_log));
        line.option("start", start);
        line.option("took", took);
        line.option("report", report.map(|report| self.excerpt(report, REPORT)));
        self.log.append(Lane::Run, &line.end());
        // The handler may run on other hosts for long.
        if (!status.failed && !status.unreachable) || status.ignored {
            let settled = place.settles.iter().filter(|name| !self.is_notified_later(&outcome.host, name));
            settled.for_each(|name| self.ran_early(place, &outcome.host, name));
        }
    }

    /// Hash of what a task gave the run, if a resumed run may evaluate that again. Keeps the difference if this run did
    /// so, and the resumed one was given something else.
    fn digest(&self, place: &Place, outcome: &HostOutcome, is_recorded: bool) -> Option<String> {
        let replay = self.replay.as_ref().filter(|_| place.compared.load(Ordering::Relaxed));
        let mut digest = (is_recorded || replay.is_some()).then(|| of_effects(&outcome.parts, &self.salt))?;
        let before = replay.and_then(|replay| replay.outcome(place.at(), &outcome.host)).map(|done| &done.digest);
        if let Some(before) = before.filter(|before| **before != digest) {
            let task = &place.at().task;
            let what = format!("{task} on {} gives other variables, hosts or groups than before", outcome.host);
            self.differences.lock().unwrap_or_else(PoisonError::into_inner).push(what);
            // A run that is refused can be resumed once it is given the same again.
            if self.former.as_ref().is_some_and(|former| !former.anyway) {
                before.clone_into(&mut digest);
            }
        }
        (is_recorded && !digest.is_empty()).then_some(digest)
    }

    /// Refuses to go on if tasks gave other variables, hosts or groups than in the resumed run. Returns a warning if
    /// that is ignored.
    pub(crate) fn compare(&self) -> Result<Option<String>> {
        let mut found = std::mem::take(&mut *self.differences.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(former) = self.former.as_ref().filter(|_| !found.is_empty()) else { return Ok(None) };
        found.sort_unstable();
        former.differs(&found.join("; ")).map(Some)
    }

    /// Masked name of the host that a part was delegated to, and why its facts cannot be restored there.
    fn delegate(&self, (result, name): &(TaskResult, Option<String>)) -> (Option<String>, Option<Withheld>) {
        let masked = name.as_ref().map(|name| self.secrets.mask_name(name));
        let is_lost = masked != *name && !result.effects().is_empty();
        (masked, is_lost.then_some(Withheld::Masked))
    }

    /// Name of an action. A template may have produced that of a module of the project.
    fn action<'a>(&self, action: &'a str) -> Cow<'a, str> {
        if crate::builtin::is_known(action) { Cow::Borrowed(action) } else { self.secrets.masked(action) }
    }

    /// A masked text, cut at a limit.
    fn excerpt(&self, text: &str, most: usize) -> String {
        // Masked first: a cut secret would not be found.
        let mut text = mask::text(text, &self.secrets);
        if text.len() > most {
            text.truncate(text.floor_char_boundary(most));
        }
        text
    }

    /// JSON text of groups, hosts or facts that a task added to the run, for explanations; empty if there are none.
    fn effect(&self, action: &str, result: &TaskResult, no_log: bool) -> String {
        let has_effect = matches!(action, "add_host" | "gather_facts" | "group_by" | "setup");
        if no_log || result.is_secret() || !has_effect || !self.log.has_room() {
            return String::new();
        }
        mask::effect(result, &self.secrets)
    }

    /// Adds a masked result to a record, unless it is withheld. Returns the reason if it is incomplete.
    fn result(
        &self,
        line: &mut Line,
        action: &str,
        result: &TaskResult,
        (looped, no_log): (bool, bool),
    ) -> Option<Withheld> {
        if crate::builtin::is_repeated_on_resume(action) || result.is_predicted() {
            return Some(Withheld::Again);
        }
        if no_log || result.is_secret() {
            return Some(Withheld::NoLog);
        }
        if !self.log.has_room() {
            return Some(Withheld::Full);
        }
        // Texts alone may show that it is too large, before they are searched for secrets.
        let size: usize = result.iter().filter_map(|(_, value)| value.as_str()).map(str::len).sum();
        if size > limit::RESULT {
            return Some(Withheld::Size);
        }
        if action == "set_fact" && !result.get("ansible_facts").is_none_or(windlass_template::is_exact) {
            return Some(Withheld::Again);
        }
        let exact = match mask::exact(result, looped) {
            Ok(exact) => exact,
            Err(reason) => return Some(reason),
        };
        let fields = mask::Fields::new(result, looped, &self.secrets);
        if let Err(reason) = line.limited("result", &fields, limit::RESULT) {
            return Some(reason);
        }
        if fields.is_masked() {
            return Some(Withheld::Masked);
        }
        line.text("exact", &exact);
        line.option("origins", origins(result));
        None
    }

    /// Outcome of a task on a host in the resumed run. `notified` has the place of the outcome that notified a handler,
    /// if that is the resumed run's too.
    pub(crate) fn restored(
        &self,
        place: &Place,
        host: &str,
        notified: Option<usize>,
        tell: &mut dyn FnMut(String),
    ) -> Restored {
        let Some(replay) = &self.replay else { return Restored::Run };
        let step = replay.step(place.at(), host, place.traits.once, notified);
        place.compared.store(matches!(step, Step::Again(_)), Ordering::Relaxed);
        match step {
            // Of its handlers, the ledger has the ones that did not run: this run took them over at its start.
            Step::Done(done, items, at) => return Restored::Done(done, items, at),
            Step::Again(Withheld::Again) | Step::Run(false) => {}
            Step::Again(reason) => {
                tell(format!("{} on {host} runs again: {}", place.at().task, reason.reason()));
            }
            Step::Run(true) if self.leads > 0 && replay.is_unknown(place.at(), host) => {
                tell(format!(
                    "{} on {host} was sent before the run stopped. If its host has the result, it counts; if not, the \
                     task runs where it cannot have begun, and the host is unreachable otherwise.",
                    place.at().task
                ));
            }
            Step::Run(true) => {
                let from = match replay.items_done(place.at(), host) {
                    (0, 0) => String::new(),
                    (first, all) if first == all => format!(" from item {} of its loop on", first + 1),
                    (_, all) => format!(" without the {all} items of its loop that have an outcome"),
                };
                tell(format!(
                    "{} on {host} was sent before the run stopped, and may have run already. It runs again{from}.",
                    place.at().task
                ));
            }
        }
        Restored::Run
    }

    /// A fact that a task, which is evaluated again, reported in the resumed run.
    pub(crate) fn fact_before(&self, place: &Place, host: &str, name: &str) -> Option<Json> {
        let replay = self.replay.as_ref().filter(|_| place.compared.load(Ordering::Relaxed))?;
        replay.outcome(place.at(), host)?.effect.get("ansible_facts")?.as_object_mut()?.shift_remove(name)
    }

    /// Whether a resumed run of several processes sent a task, and had its result.
    pub(crate) fn sent_before(&self, at: &At, host: &str) -> Option<SentBefore> {
        self.replay.as_ref()?.sent_before(at, host)
    }

    /// Name of the run on its hosts, which its resumed runs share, and the number of leads so far.
    pub(crate) fn of_several(&self) -> (String, u32) {
        let mut name = hex::encode(Sha256::digest(&self.salt));
        name.truncate(32);
        (name, self.leads)
    }

    /// Key for the hashes of secret items in places of tasks.
    pub(crate) fn item_key(&self) -> Option<&str> {
        self.item_key.as_deref()
    }

    /// Outcome of an item whose loop the resumed run started.
    pub(crate) fn restored_item(&self, place: &Place, host: &str, index: usize) -> Option<&ItemDone> {
        self.replay.as_ref()?.item(place.at(), host, u32::try_from(index).ok()?)
    }

    /// Whether the resumed run completed an item of a loop.
    pub(crate) fn has_restored_items(&self, place: &Place, host: &str) -> bool {
        self.replay.as_ref().is_some_and(|replay| replay.items_done(place.at(), host).1 > 0)
    }

    /// Whether more tasks of a host may be restored from the resumed run.
    pub(crate) fn is_replaying(&self, host: &str) -> bool {
        self.replay.as_ref().is_some_and(|replay| replay.is_replaying(host))
    }

    /// Number of outcomes restored since the last call.
    pub(crate) fn take_count(&self) -> usize {
        self.replay.as_ref().map_or(0, Replay::take_count)
    }

    /// Records the end of the run and closes the journal.
    pub(crate) fn end(&self, code: u8, failed: &[&str]) {
        let failed = failed.iter().map(ToString::to_string).collect();
        self.append(&Record::End(End { ended: jiff::Timestamp::now().to_string(), code, failed }));
        self.log.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_whose_name_is_too_long_counts_as_not_recorded() {
        let search = |length: usize| FileRead {
            path: "x".repeat(length),
            sha256: "hash".to_owned(),
            kind: InputKind::Search,
            ..FileRead::default()
        };
        assert_eq!(within(search(NAME)), search(NAME));
        assert_eq!(within(search(NAME + 1)), FileRead { kind: InputKind::Rest, ..FileRead::default() });
    }
}
