//! `windlass runs`: lists, shows, compares, repeats and removes recorded runs.

mod diff;
mod prune;
mod rerun;

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, Subcommand};

use super::session;
use crate::error::{Error, Result};
use crate::journal::{Journal, Ledger, Pending, RunFile, State, read_file, read_header};
use crate::output::{Printer, table};
use crate::report::{Kind, to_second};
use crate::settings::{Color, Config, Settings};

/// List recorded runs; show, compare, repeat and remove them
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass runs                                       # list runs, the newest first
  windlass runs show                                  # show the last run of this directory
  windlass runs diff 20260131-235959-0a1b2c 20260201-000101-3d4e5f
  windlass runs rerun 20260131-235959-0a1b2c --failed # again, on the hosts that failed
  windlass runs prune --older-than 30d --dry-run      # what would be removed")]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the result, hosts and failures of one run
    Show {
        /// Id of the run [default: the last run of this directory]
        run: Option<String>,
    },
    /// Compare two runs: inputs, and tasks with another result on a host
    Diff(diff::Arguments),
    /// Start the same command again
    Rerun(rerun::Arguments),
    /// Remove old journals
    Prune(prune::Arguments),
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let config = Config::find()?;
    let settings = Settings::from_config(&config)?;
    let printer = session::printer(&settings);
    let state = State::of(&settings)?;
    match &arguments.verb {
        None => list(&state, &printer),
        Some(Verb::Show { run }) => {
            let found = find(&state, run.as_deref())?;
            show(&state, &found, &read_file(&found.path)?, &printer);
        }
        Some(Verb::Diff(arguments)) => return diff::run(arguments, &state, &printer),
        Some(Verb::Rerun(arguments)) => return rerun::run(arguments, &state),
        Some(Verb::Prune(arguments)) => prune::run(arguments, &state, &settings, &printer)?,
    }
    Ok(0)
}

/// Finds the run with this id, or the last one of this directory: one that was started in it, or whose playbooks are
/// below it.
pub(super) fn find(state: &State, wanted: Option<&str>) -> Result<RunFile> {
    let hint = "`windlass runs` lists all runs";
    let runs = state.runs();
    if let Some(wanted) = wanted {
        let found = runs.into_iter().find(|known| known.run == wanted);
        return found.ok_or_else(|| Error::usage(format!("there is no journal of a run `{wanted}`")).hint(hint));
    }
    let here = std::env::current_dir().and_then(|path| path.canonicalize());
    let here = here.map_err(|error| Error::new(format!("the current directory cannot be found: {error}")))?;
    let is_here = |run: &RunFile| {
        read_header(&run.path).is_some_and(|header| {
            Path::new(&header.directory) == here
                || header.playbooks.iter().any(|path| Path::new(path).starts_with(&here))
        })
    };
    runs.into_iter().rev().find(is_here).ok_or_else(|| {
        Error::usage(format!("no recorded run belongs to this directory ({})", here.display()))
            .hint(format!("give the id of a run; {hint}"))
    })
}

fn list(state: &State, printer: &Printer) {
    let runs = state.runs();
    let rows = runs.iter().rev().filter(|run| !run.is_empty()).map(|run| row(state, run));
    let heading = ["RUN", "STARTED", "RESULT", "FAILED HOSTS", "PENDING", "PLAYBOOK"].map(str::to_owned);
    table(heading, rows).iter().for_each(|line| printer.line(line, Color::Plain));
}

fn row(state: &State, run: &RunFile) -> [String; 6] {
    match read_file(&run.path) {
        Ok(journal) => {
            let pending = pending_of(state, run).len();
            [
                run.run.clone(),
                journal.header.started.chars().take(19).collect(),
                result(run, &journal),
                journal.end.as_ref().map(|end| end.failed.join(",")).unwrap_or_default(),
                if pending == 0 { String::new() } else { pending.to_string() },
                journal.header.playbooks.join(" "),
            ]
        }
        Err(error) => [
            run.run.clone(),
            String::new(),
            "unreadable".to_owned(),
            String::new(),
            String::new(),
            error.message().to_owned(),
        ],
    }
}

/// Pending handlers notified by a run.
fn pending_of(state: &State, run: &RunFile) -> Vec<Pending> {
    let pending = Ledger::of_project(state, &run.project).pending(|_| false);
    pending.into_iter().filter(|one| one.run == run.run).collect()
}

fn result(run: &RunFile, journal: &Journal) -> String {
    let is_alive = journal.end.is_none() && run.is_alive();
    let word = match (crate::report::result(journal, is_alive), &journal.end) {
        (word @ "failed", Some(end)) => format!("{word} ({})", end.code),
        (word, _) => word.to_owned(),
    };
    if journal.header.check { format!("{word}, dry run") } else { word }
}

fn show(state: &State, run: &RunFile, journal: &Journal, printer: &Printer) {
    let line = |text: String| printer.line(&text, Color::Plain);
    let header = &journal.header;
    line(format!("run        {}", run.run));
    line(format!("result     {}", result(run, journal)));
    line(format!("started    {} by {} on {}", to_second(&header.started), header.user, header.machine));
    if let Some(end) = &journal.end {
        line(format!("ended      {}", to_second(&end.ended)));
    }
    if let Some(former) = &header.resumes {
        line(format!("resumes    {former}"));
    }
    line(format!("command    {}", header.argv.join(" ")));
    line(format!("playbooks  {}", header.playbooks.join(" ")));
    line(format!("journal    {}", run.path.display()));
    let mut hosts: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut failures = Vec::new();
    for done in journal.outcomes() {
        let [ok, changed, skipped, failed] = hosts.entry(&done.host).or_default();
        let kind = Kind::of(done.status, done.rescuable);
        match kind {
            Kind::Failed | Kind::Unreachable => *failed += 1,
            Kind::Skipped => *skipped += 1,
            // Counted as in the recap of a run.
            Kind::Rescued => {}
            Kind::Ignored | Kind::Changed | Kind::Ok => {
                *ok += 1;
                *changed += usize::from(done.status.changed);
            }
        }
        if kind.is_failure() || matches!(kind, Kind::Rescued | Kind::Ignored) {
            let message = done.result.get("msg").and_then(serde_json::Value::as_str).unwrap_or_default();
            let how = if kind.is_failure() { String::new() } else { format!(" ({})", kind.word()) };
            failures.push(format!("  {}: {}{how}: {message}", done.host, done.at.task));
        }
    }
    line("hosts".to_owned());
    let cells = |(host, counts): (&str, [usize; 4])| {
        let [ok, changed, skipped, failed] = counts.map(|count| count.to_string());
        [host.to_owned(), ok, changed, skipped, failed]
    };
    let heading = ["HOST", "OK", "CHANGED", "SKIPPED", "FAILED"].map(str::to_owned);
    table(heading, hosts.into_iter().map(cells)).iter().for_each(|row| line(format!("  {row}")));
    let pending = pending_of(state, run);
    for (title, lines) in [
        ("failures", failures),
        (
            "pending handlers",
            pending.iter().map(|one| format!("  {}: '{}' of play '{}'", one.host, one.handler, one.play)).collect(),
        ),
    ] {
        if !lines.is_empty() {
            line(title.to_owned());
            lines.into_iter().for_each(line);
        }
    }
}
