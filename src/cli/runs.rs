//! `windlass runs`: lists, shows, compares, repeats and removes recorded runs.

mod diff;
mod prune;
mod rerun;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::session;
use crate::error::{Error, Result};
use crate::journal::{Header, Ledger, Pending, RunFile, State, read_file, read_header, read_outline};
use crate::output::{Printer, clipped, table, terminal_columns};
use crate::report::{Summary, to_second};
use crate::settings::{Color, Config, Settings};

/// List recorded runs; show, compare, repeat and remove them
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass runs                                       # runs of this directory, newest first
  windlass runs --all                                 # runs of all directories
  windlass runs show                                  # show the last run of this directory
  windlass runs show --host web1 --task nginx         # arguments and results
  windlass runs diff 20260131-235959-0a1b2c 20260201-000101-3d4e5f
  windlass runs rerun 20260131-235959-0a1b2c --failed # again, on the hosts that failed
  windlass runs prune --older-than 30d --dry-run      # what would be removed")]
pub(super) struct Arguments {
    /// List the runs of all directories
    #[arg(long)]
    all: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List runs, the newest first
    #[command(after_help = "Examples:
  windlass runs list --all    # of all directories")]
    List {
        /// List the runs of all directories
        #[arg(long)]
        all: bool,
    },
    /// Show the result, hosts and failures of one run
    Show {
        /// Id of the run [default: the last run of this directory]
        run: Option<String>,
        /// List the tasks of this host, with their arguments and results
        #[arg(long)]
        host: Option<String>,
        /// List the tasks whose name or place contains this text, with their arguments and results
        #[arg(long)]
        task: Option<String>,
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
        None => list(&state, arguments.all, &printer)?,
        Some(Verb::List { all }) => list(&state, *all || arguments.all, &printer)?,
        Some(Verb::Show { run, host, task }) => {
            let found = find(&state, run.as_deref())?;
            match host.is_some() || task.is_some() {
                true => show::tasks(&read_file(&found.path)?, host.as_deref(), task.as_deref(), &printer)?,
                false => show::show(&state, &found, &read_outline(&found.path)?, &printer),
            }
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
    let hint = "`windlass runs --all` lists all runs";
    let runs = state.runs();
    if let Some(wanted) = wanted {
        let found = runs.into_iter().find(|known| known.run == wanted);
        return found.ok_or_else(|| Error::usage(format!("there is no journal of a run `{wanted}`")).hint(hint));
    }
    let here = here()?;
    runs.into_iter().rev().find(|run| is_of(run, &here)).ok_or_else(|| {
        Error::usage(format!("no recorded run belongs to this directory ({})", here.display()))
            .hint(format!("give the id of a run; {hint}"))
    })
}

fn here() -> Result<PathBuf> {
    let here = std::env::current_dir().and_then(|path| path.canonicalize());
    here.map_err(|error| Error::new(format!("the current directory cannot be found: {error}")))
}

/// Whether a run was started in this directory, or its playbooks are below it.
fn is_of(run: &RunFile, directory: &Path) -> bool {
    read_header(&run.path).is_some_and(|header| {
        Path::new(&header.directory) == directory
            || header.playbooks.iter().any(|path| Path::new(path).starts_with(directory))
    })
}

fn list(state: &State, all: bool, printer: &Printer) -> Result<()> {
    let here = here()?;
    let runs = state.runs();
    let known: Vec<&RunFile> = runs.iter().filter(|run| !run.is_empty()).collect();
    let shown: Vec<&RunFile> = known.iter().copied().filter(|run| all || is_of(run, &here)).collect();
    let pending = Ledger::all(state);
    let rows = shown.iter().rev().map(|run| row(&pending, run, &here));
    let heading = ["RUN", "STARTED", "RESULT", "FAILED HOSTS", "PENDING", "PLAYBOOK"].map(str::to_owned);
    // A script gets whole lines.
    let width = terminal_columns().map_or(usize::MAX, |columns| columns.saturating_sub(3));
    table(heading, rows).iter().for_each(|line| printer.line(&clipped(line, width), Color::Plain));
    let others = known.len() - shown.len();
    if others > 0 {
        let text = format!("runs of other directories: {others}; `windlass runs --all` lists them");
        printer.error_line(&text, Color::Plain);
    }
    Ok(())
}

fn row(pending: &[Pending], run: &RunFile, here: &Path) -> [String; 6] {
    match Summary::read(&run.path).filter(|summary| summary.problem.is_none()) {
        Some(summary) => {
            let pending = pending.iter().filter(|one| one.run == run.run).count();
            let below = |path: &String| {
                let path = Path::new(path);
                path.strip_prefix(here).unwrap_or(path).display().to_string()
            };
            let Header { started, playbooks, check, .. } = &summary.header;
            [
                run.run.clone(),
                to_second(started),
                result(run, summary.end.as_ref().map(|(_, code)| *code), *check),
                counted(&summary.failed_hosts().into_iter().collect::<Vec<_>>()),
                if pending == 0 { String::new() } else { pending.to_string() },
                playbooks.iter().map(below).collect::<Vec<_>>().join(" "),
            ]
        }
        None => {
            let why = read_outline(&run.path).err().map(|error| error.message().to_owned()).unwrap_or_default();
            [run.run.clone(), String::new(), "unreadable".to_owned(), String::new(), String::new(), why]
        }
    }
}

/// The first host, and the number of others.
fn counted(hosts: &[&str]) -> String {
    match hosts {
        [] => String::new(),
        [host] => (*host).to_owned(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

/// Word for the result of a run with this exit code.
fn result(run: &RunFile, code: Option<u8>, check: bool) -> String {
    let is_alive = code.is_none() && run.is_alive();
    let word = match (crate::report::result_of(code, is_alive), code) {
        (word @ "failed", Some(code)) => format!("{word} ({code})"),
        (word, _) => word.to_owned(),
    };
    if check { format!("{word}, dry run") } else { word }
}
