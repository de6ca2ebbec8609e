//! Selects the run to resume, and compares its inputs with the present ones.

use std::collections::BTreeMap;

use super::fingerprint::changed_vars;
use super::inputs::Inputs;
use super::reader::{Journal, read_header};
use super::record::{FileRead, Header, InputKind, Record};
use super::state::{RunFile, State, project};
use crate::error::{Error, Result};

/// Finds the run with this id, or the newest unsuccessful one with the same playbooks and inventory.
pub fn unfinished(state: &State, inputs: &Inputs<'_>, wanted: Option<&str>) -> Result<(RunFile, Journal)> {
    let runs = state.runs();
    let list = "`windlass runs --all` lists all runs";
    if let Some(wanted) = wanted {
        let run = runs.into_iter().find(|run| run.run == wanted);
        let run = run.ok_or_else(|| Error::usage(format!("there is no journal of a run `{wanted}`")).hint(list))?;
        let journal = run.own_journal()?;
        resumable(&run, &journal)?;
        return Ok((run, journal));
    }
    let project = project(&inputs.playbook_names(), &inputs.sources());
    for run in runs.into_iter().rev().filter(|run| run.project == project && !run.is_fetched && !run.is_empty()) {
        let journal = run.own_journal()?;
        if journal.header.check || (did_nothing(&journal) && !run.stays_alive()) {
            continue;
        }
        resumable(&run, &journal)?;
        return Ok((run, journal));
    }
    Err(Error::usage("nothing to resume: no run of this playbook with this inventory has begun a task").hint(list))
}

/// Whether the run has neither ended nor begun a task. If it was killed, its journal may lack some of its inputs.
fn did_nothing(journal: &Journal) -> bool {
    journal.end.is_none() && !has_begun(journal)
}

/// Whether the run has begun a task itself. Before its first play, a run that resumes another one copies the outcomes
/// of that run; one that was killed meanwhile has only some of them.
pub(crate) fn has_begun(journal: &Journal) -> bool {
    let is_of_task = |record: &Record| matches!(record, Record::Sent(_) | Record::Item(_) | Record::Done(_));
    journal.records.iter().skip_while(|record| !matches!(record, Record::Play(_))).any(is_of_task)
}

/// The run and every run that resumed it, directly or through others, oldest first.
pub fn family(state: &State, run: &str) -> Vec<RunFile> {
    let mut family: Vec<RunFile> = Vec::new();
    for other in state.runs().into_iter().filter(|other| !other.is_fetched) {
        let resumes = |header: Header| header.resumes.is_some_and(|former| family.iter().any(|one| one.run == former));
        if other.run == run || read_header(&other.path).is_some_and(resumes) {
            family.push(other);
        }
    }
    family
}

/// The newest run that resumed this one, directly or through others, and began a task of its own. Resuming this one
/// again would repeat that task.
///
/// # Errors
///
/// If that run is still active.
pub fn resumed_by(state: &State, run: &RunFile) -> Result<Option<Resumed>> {
    for other in family(state, &run.run).into_iter().rev().filter(|other| other.run != run.run) {
        let journal = other.own_outline()?;
        if other.stays_alive() {
            let (run, by, process) = (&run.run, &other.run, process(&journal));
            let message = format!("the run {run} is being resumed by the run {by}, which is still active {process}");
            return Err(Error::usage(message).hint("wait for its end, or interrupt it"));
        }
        if has_begun(&journal) {
            let has_succeeded = journal.end.is_some_and(|end| end.code == 0);
            return Ok(Some(Resumed { run: run.run.clone(), by: other.run, has_succeeded }));
        }
    }
    Ok(None)
}

/// A run that was resumed.
#[derive(Debug)]
pub struct Resumed {
    run: String,
    by: String,
    has_succeeded: bool,
}

impl Resumed {
    /// Error that refuses to resume the run again.
    pub fn refusal(&self) -> Error {
        let Resumed { run, by, has_succeeded } = self;
        if *has_succeeded {
            let message = format!("nothing to resume: the run {run} was resumed by the run {by}, which succeeded");
            return Error::usage(message).hint("run the playbook without --resume");
        }
        let message = format!("the run {run} was resumed by the run {by}, which did not succeed");
        Error::usage(message).hint(format!("use `--resume {by}`"))
    }

    /// Warning about a run that is resumed again nevertheless.
    pub fn warning(&self) -> String {
        let Resumed { run, by, .. } = self;
        format!("Resuming the run {run} although the run {by} has resumed it. Tasks that ran there run again.")
    }
}

fn process(journal: &Journal) -> String {
    let Header { pid, machine, .. } = &journal.header;
    format!("(process {pid} on {machine})")
}

fn resumable(run: &RunFile, journal: &Journal) -> Result<()> {
    if run.stays_alive() {
        let message = format!("the run {} is still active {}", run.run, process(journal));
        return Err(Error::usage(message).hint("wait for its end, or interrupt it"));
    }
    if journal.header.check {
        return Err(Error::usage(format!("nothing to resume: the run {} was a dry run", run.run)));
    }
    if did_nothing(journal) {
        let error = Error::usage(format!("nothing to resume: the run {} was killed before its first task", run.run));
        return Err(match &journal.header.resumes {
            Some(former) => error.hint(format!("use `--resume {former}`")),
            None => error.hint("run the playbook without --resume"),
        });
    }
    if journal.end.as_ref().is_some_and(|end| end.code == 0) {
        return Err(Error::usage(format!("nothing to resume: the run {} succeeded", run.run))
            .hint("run the playbook without --resume"));
    }
    Ok(())
}

/// Error that refuses to resume a run because of these differences.
pub(crate) fn cannot_resume(run: &str, differences: &str) -> Error {
    Error::usage(format!("the run {run} cannot be resumed: {differences}"))
        .hint("run the playbook without --resume, or add --resume-anyway to ignore the differences")
}

/// Warning about a difference that `--resume-anyway` ignores.
pub(crate) fn resumed_although(run: &str, difference: &str) -> String {
    format!("Resuming the run {run} although {difference}")
}

/// Fails if a run was started with other playbooks or another inventory, so that it explains nothing about these.
pub fn is_run_of(journal: &Journal, inputs: &Inputs<'_>) -> Result<()> {
    let then = &journal.header;
    let list = |words: &[String]| match words {
        [] => "none".to_owned(),
        words => format!("`{}`", words.join("`, `")),
    };
    if let Some(other) = inputs.playbook_names().iter().find(|name| !then.playbooks.contains(name)) {
        let message = format!("the run {} is not of `{other}`: it ran {}", then.run, list(&then.playbooks));
        return Err(Error::usage(message).hint("`windlass runs` lists the runs with their playbooks"));
    }
    if then.inventory != inputs.sources() {
        let (had, now) = (list(&then.inventory), list(&inputs.sources()));
        let message = format!("the run {} had another inventory: {had}, and not {now}", then.run);
        return Err(Error::usage(message).hint("give the inventory of the run with -i"));
    }
    Ok(())
}

/// Describes each input that differs from a run's.
pub fn differences(journal: &Journal, inputs: &Inputs<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let old = &journal.header;
    let list = |words: &[String]| if words.is_empty() { "none".to_owned() } else { words.join(",") };
    let mut compare = |what: &str, then: String, now: String| {
        if then != now {
            found.push(format!("{what} was `{then}` and is `{now}`"));
        }
    };
    compare("the version of Windlass", old.windlass.clone(), env!("CARGO_PKG_VERSION").to_owned());
    compare("the list of playbooks", list(&old.playbooks), list(&inputs.playbook_names()));
    compare("the list of inventory sources", list(&old.inventory), list(&inputs.sources()));
    let none = || "none".to_owned();
    let settings = inputs.settings;
    compare("--limit", old.limit.clone().unwrap_or_else(none), settings.inventory.limit.clone().unwrap_or_else(none));
    compare("--tags", list(&old.tags), list(&settings.tags));
    compare("--skip-tags", list(&old.skip_tags), list(&settings.skip_tags));
    for (name, now) in inputs.options() {
        // Journals of earlier releases lack the names that came later.
        if let Some(then) = old.options.get(&name) {
            compare(&name, then.clone(), now);
        }
    }
    let vars = inputs.hashed_vars(&old.salt);
    for (name, hash) in &old.extra_vars {
        match vars.get(name) {
            None => found.push(format!("the extra variable `{name}` is missing")),
            Some(now) if now != hash => found.push(format!("the extra variable `{name}` has another value")),
            Some(_) => {}
        }
    }
    let new = vars.keys().filter(|name| !old.extra_vars.contains_key(*name));
    found.extend(new.map(|name| format!("the extra variable `{name}` is new")));
    if !old.hosts.is_empty() && old.hosts != inputs.hashed_hosts(&old.salt) {
        found.push("a program of the inventory reports other hosts, groups or variables".to_owned());
    }
    // If a file was read several times, the last hash counts.
    let read = journal.records.iter().filter_map(|record| match record {
        Record::File(file) => Some(file.clone()),
        _ => None,
    });
    let read: Vec<FileRead> = read.collect();
    found.extend(inputs.changed_files(&read, &old.salt, journal.killed_at()));
    let given = read.iter().filter(|read| read.kind == InputKind::Vars);
    let given: BTreeMap<_, &FileRead> = given.map(|read| ((&read.path, &read.hidden), read)).collect();
    let changed = |read: &&FileRead| changed_vars(read, &old.salt, inputs.inventory?);
    found.extend(given.values().filter_map(changed));
    found
}
