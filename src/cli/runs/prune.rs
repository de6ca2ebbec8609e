//! `windlass runs prune`: removes old journals.

use std::time::Duration;

use clap::Args;

use crate::cli::options::whole;
use crate::error::{Error, Result};
use crate::journal::{State, expired};
use crate::output::Printer;
use crate::settings::{Color, Settings};

/// Remove old journals
///
/// Without --keep and --older-than, the limits of the settings apply, as they do at the start of every run. Journals of
/// active runs stay, and so do pending handlers, which are kept elsewhere.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass runs prune --keep 20                     # keep the newest 20 of each playbook
  windlass runs prune --older-than 30d --dry-run    # list what is older than 30 days")]
pub(super) struct Arguments {
    /// Number of newest runs to keep, of each playbook with its inventory
    #[arg(long, value_name = "COUNT", value_parser = whole::<usize>)]
    keep: Option<usize>,
    /// Remove runs older than this: a number with `s`, `m`, `h`, `d` or `w`
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
    /// List the journals that would be removed, and remove none
    #[arg(long)]
    dry_run: bool,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments, state: &State, settings: &Settings, printer: &Printer) -> Result<()> {
    let Arguments { mut keep, mut older_than, dry_run } = *arguments;
    if keep.is_none() && older_than.is_none() {
        keep = (settings.journal.runs > 0).then_some(settings.journal.runs);
        let seconds = settings.journal.days.saturating_mul(86_400);
        older_than = (seconds > 0).then(|| Duration::from_secs(seconds));
    }
    let found = expired(state, keep, older_than);
    for run in &found {
        if !dry_run {
            match std::fs::remove_file(&run.path) {
                // Another process may have removed it at the same time.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::new(format!("the journal {} cannot be removed: {error}", run.path.display())));
                }
                Ok(()) | Err(_) => {}
            }
        }
        printer.line(&run.run, Color::Plain);
    }
    let runs = if found.len() == 1 { "run" } else { "runs" };
    let what = if dry_run { "would be removed" } else { "removed" };
    printer.line(&format!("{} {runs} {what}", found.len()), Color::Plain);
    Ok(())
}

/// Reads an age such as `30d`.
fn age(text: &str) -> std::result::Result<Duration, String> {
    let fail = || format!("`{text}` is not an age: write a number and `s`, `m`, `h`, `d` or `w`, such as `30d`");
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(fail)?);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(fail()),
    };
    let number: u64 = number.parse().map_err(|_| fail())?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_needs_number_and_unit() {
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(age("2w"), Ok(Duration::from_secs(14 * 86_400)));
        for text in ["", "d", "30", "30y", "-1d", "1.5h"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
