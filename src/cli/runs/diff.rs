//! `windlass runs diff`: compares two recorded runs.

use clap::{Args, ValueEnum};

use super::find;
use crate::error::Result;
use crate::journal::{State, read_file};
use crate::output::{Printer, nice_json, table};
use crate::report::{Comparison, Kind, compare};
use crate::settings::Color;

/// Compare two runs: inputs, and tasks with another result on a host
///
/// Tasks are found again by host, play and name, so a task that was renamed is in one run only. Values of extra
/// variables cannot be compared, because journals hold only salted hashes.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 if the runs are equal, 1 if they differ

Examples:
  windlass runs diff 20260131-235959-0a1b2c 20260201-000101-3d4e5f
  windlass runs diff 20260131-235959-0a1b2c 20260201-000101-3d4e5f --format json")]
pub(super) struct Arguments {
    /// Id of the first run
    #[arg(value_name = "A")]
    a: String,
    /// Id of the second run
    #[arg(value_name = "B")]
    b: String,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for people
    Text,
    /// JSON for programs
    Json,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments, state: &State, printer: &Printer) -> Result<u8> {
    let read = |run: &str| read_file(&find(state, Some(run))?.path);
    let comparison = compare(&read(&arguments.a)?, &read(&arguments.b)?);
    match arguments.format {
        Format::Text => print(&comparison, printer),
        Format::Json => {
            let json = serde_json::to_value(&comparison).unwrap_or_default();
            super::super::stdout::print(&(nice_json(&json) + "\n"))?;
        }
    }
    Ok(u8::from(!comparison.is_empty()))
}

fn print(comparison: &Comparison, printer: &Printer) {
    let line = |text: &str| printer.line(text, Color::Plain);
    if !comparison.inputs.is_empty() {
        line("inputs");
        comparison.inputs.iter().for_each(|sentence| line(&format!("  {sentence}")));
    }
    if !comparison.tasks.is_empty() {
        line("tasks");
        let word = |kind: Option<Kind>| kind.map_or("-", Kind::word).to_owned();
        let rows = comparison.tasks.iter().map(|task| {
            let place = task.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
            [task.host.clone(), word(task.a), word(task.b), format!("{}{place}", task.task)]
        });
        let heading = ["HOST", "FIRST", "SECOND", "TASK"].map(str::to_owned);
        table(heading, rows).iter().for_each(|row| line(&format!("  {row}")));
    }
    if comparison.left_out > 0 {
        line(&format!("and {} more differences", comparison.left_out));
    }
    line(&format!("{} tasks have the same result", comparison.same));
}
