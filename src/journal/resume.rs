//! Selects the run to resume, and compares its inputs with the present ones.

use super::inputs::Inputs;
use super::reader::Journal;
use super::record::Record;
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

/// Whether the run has begun a task.
pub(crate) fn has_begun(journal: &Journal) -> bool {
    let is_of_task = |record: &Record| matches!(record, Record::Sent(_) | Record::Item(_) | Record::Done(_));
    journal.records.iter().any(is_of_task)
}

fn resumable(run: &RunFile, journal: &Journal) -> Result<()> {
    if run.stays_alive() {
        let message = format!(
            "the run {} is still active (process {} on {})",
            run.run, journal.header.pid, journal.header.machine
        );
        return Err(Error::usage(message).hint("wait for its end, or interrupt it"));
    }
    if journal.header.check {
        return Err(Error::usage(format!("nothing to resume: the run {} was a dry run", run.run)));
    }
    if did_nothing(journal) {
        return Err(Error::usage(format!("nothing to resume: the run {} was killed before its first task", run.run))
            .hint("run the playbook without --resume"));
    }
    if journal.end.as_ref().is_some_and(|end| end.code == 0) {
        return Err(Error::usage(format!("nothing to resume: the run {} succeeded", run.run))
            .hint("run the playbook without --resume"));
    }
    Ok(())
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
    found.extend(inputs.changed_files(&read.collect::<Vec<_>>(), &old.salt));
    found
}
