//! `windlass runs rerun`: starts the command of a recorded run again.
//!
//! Only what the controller itself recorded in the first line is run: its arguments and its directory. Of the rest,
//! which hosts may have influenced, only names of failed hosts are used, and only those that cannot be patterns.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use clap::Args;

use super::find;
use crate::cli::secrets;
use crate::error::{Error, Result};
use crate::journal::{Header, Journal, State};
use crate::output::{Printer, Secrets};
use crate::report::to_second;
use crate::settings::Color;

/// Maximum size of `--limit`, in bytes. Linux allows 128 KiB for an argument.
const LIMIT: usize = 100 << 10;

/// Start the same command again
///
/// The command runs in its old directory, with the present playbooks, inventory and environment. Passwords are asked
/// for again. Without an id, a terminal is asked first. A run that stopped half-way is continued by `windlass playbook
/// --resume`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass runs rerun 20260131-235959-0a1b2c            # the same command
  windlass runs rerun 20260131-235959-0a1b2c --failed   # only on failed hosts")]
pub(super) struct Arguments {
    /// Id of the run [default: the last run of this directory]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Limit the run to hosts that failed or were unreachable
    #[arg(long)]
    failed: bool,
    /// Print the command, and run nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs the subcommand. Does not return if the command starts.
pub(super) fn run(arguments: &Arguments, state: &State) -> Result<u8> {
    let found = find(state, arguments.run.as_deref())?;
    let journal = found.own_outline()?;
    let mut words = words(&journal)?;
    if arguments.failed {
        let limit = ["--limit".to_owned(), failed_hosts(&journal, &words)?.join(",")];
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.splice(end..end, limit);
    }
    let directory = Path::new(&journal.header.directory);
    if !directory.is_dir() {
        return Err(refusal(&journal, &format!("its directory {} is missing", directory.display())));
    }
    let shown = command(words.iter().map(String::as_str));
    if arguments.dry_run {
        super::super::stdout::print(&format!("{}\n", crate::output::printable(&shown)))?;
        return Ok(0);
    }
    let printer = Printer::plain(Secrets::of_process());
    let Header { run, started, .. } = &journal.header;
    printer.error_line(
        &format!("run {run} of {}, in {}:\n{shown}", to_second(started), directory.display()),
        Color::Plain,
    );
    // The last run may be another one than the user has in mind.
    if arguments.run.is_none() && secrets::has_terminal() {
        let answer = secrets::line("Repeat this run? (y/N) ");
        let answer = answer.map_err(|error| Error::new(format!("the answer cannot be read: {error}")))?;
        if !matches!(answer.unwrap_or_default().trim().to_lowercase().as_str(), "y" | "yes") {
            return Err(Error::new("nothing was run"));
        }
    }
    let error = Command::new(super::super::child::own_program()?).args(words).current_dir(directory).exec();
    Err(Error::new(format!("the command cannot be started: {error}")))
}

/// The command line with these arguments, for a shell.
fn command<'a>(words: impl Iterator<Item = &'a str>) -> String {
    shell_words::join(std::iter::once("windlass").chain(words))
}

/// Command that continues a run, or advice if its journal does not hold the whole command line.
pub(super) fn resuming(journal: &Journal) -> String {
    let run = journal.header.run.as_str();
    match words(journal) {
        Ok(words) => command(words.iter().map(String::as_str).chain(["--resume", run])),
        Err(_) => format!("repeat the command with --resume {run}"),
    }
}

fn refusal(journal: &Journal, why: &str) -> Error {
    Error::usage(format!("the run {} cannot be repeated: {why}", journal.header.run))
}

/// The arguments of a run, without those that resumed another one.
fn words(journal: &Journal) -> Result<Vec<String>> {
    let header = &journal.header;
    if header.directory.is_empty() {
        return Err(refusal(journal, "its journal lacks its directory, because an earlier release wrote it"));
    }
    if !header.whole {
        return Err(refusal(journal, "its command line has secrets or extra variables, which journals do not hold")
            .hint("repeat the command with its values"));
    }
    let mut words = header.argv.iter().map(String::as_str);
    let program = words.next().map(|name| name.rsplit('/').next().unwrap_or(name)).unwrap_or_default();
    if program != "ansible-playbook" && words.next() != Some("playbook") {
        return Err(refusal(journal, "only runs of `windlass playbook` can be repeated"));
    }
    let mut kept = vec!["playbook".to_owned()];
    let mut after_resume = false;
    let mut has_playbook = false;
    for word in words {
        let is_run = std::mem::take(&mut after_resume) && crate::journal::looks_like_run(word);
        after_resume = word == "--resume";
        if is_run || after_resume || word.starts_with("--resume=") || word == "--resume-anyway" {
            continue;
        }
        has_playbook |= header.playbooks.iter().any(|path| path.ends_with(word.trim_start_matches("./")));
        kept.push(word.to_owned());
    }
    // `--resume RUN` alone takes the playbooks from the journal.
    if !has_playbook && header.resumes.is_some() {
        kept.extend(header.playbooks.iter().cloned());
    }
    Ok(kept)
}

/// Names of hosts that failed or were unreachable in the run with these arguments.
fn failed_hosts<'a>(journal: &'a Journal, words: &[String]) -> Result<&'a [String]> {
    let Some(end) = &journal.end else {
        let resume = ["--resume", &journal.header.run];
        return Err(refusal(journal, "it did not end, so its journal has no list of failed hosts")
            .hint(format!("continue it with `{}`", command(words.iter().map(String::as_str).chain(resume)))));
    };
    if end.failed.is_empty() {
        return Err(refusal(journal, "none of its hosts failed"));
    }
    if let Some(name) = end.failed.iter().find(|name| !is_plain(name)) {
        return Err(refusal(journal, &format!("`{name}` is not a name that a limit takes as it is"))
            .hint("repeat the command with a --limit of your own"));
    }
    if end.failed.iter().map(|name| name.len() + 1).sum::<usize>() > LIMIT {
        return Err(refusal(journal, &format!("{} failed hosts are too many for --limit", end.failed.len()))
            .hint("write their names to a file, and repeat the command with `--limit @FILE`"));
    }
    Ok(&end.failed)
}

/// Whether a name can only mean itself in a host pattern. A host may have chosen it, by facts that `add_host` used.
fn is_plain(name: &str) -> bool {
    let is_special = matches!(name, "all" | "ungrouped");
    let starts_well = name.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
    starts_well
        && !is_special
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{End, Header};

    fn journal(argv: &[&str]) -> Journal {
        let header = Header {
            directory: "/".to_owned(),
            whole: true,
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            playbooks: vec!["/p/site.yml".to_owned()],
            ..Header::default()
        };
        Journal { header, records: Vec::new(), end: None, alive: None }
    }

    #[test]
    fn arguments_that_resumed_are_left_out() {
        let run = "20260131-235959-0a1b2c";
        let arguments = ["windlass", "playbook", "site.yml", "--resume", run, "-C", "--resume-anyway"];
        assert_eq!(words(&journal(&arguments)).unwrap(), ["playbook", "site.yml", "-C"]);
        let mut alone = journal(&["/usr/bin/ansible-playbook", "--resume", run]);
        alone.header.resumes = Some(run.to_owned());
        assert_eq!(words(&alone).unwrap(), ["playbook", "/p/site.yml"]);
    }

    #[test]
    fn incomplete_or_foreign_command_refused() {
        assert!(words(&journal(&["windlass", "lab", "down"])).is_err());
        let mut hidden = journal(&["windlass", "playbook", "site.yml"]);
        hidden.header.whole = false;
        assert!(words(&hidden).is_err());
    }

    #[test]
    fn hosts_whose_names_are_patterns_refused() {
        for name in ["all", "@/etc/passwd", "~.*", "web*", "!a", "a,b", "-x", "a b", "a:b", ""] {
            let mut run = journal(&[]);
            run.end = Some(End { failed: vec!["web1".to_owned(), name.to_owned()], ..End::default() });
            assert!(failed_hosts(&run, &[]).is_err(), "{name}");
        }
    }
}
