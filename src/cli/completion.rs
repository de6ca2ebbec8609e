//! `windlass completion`: completion in a shell, which asks this program for candidates.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, Args, Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter};
use clap_complete::env::{CompleteEnv, Shells};
use windlass_inventory::LoadOptions;

use crate::error::Result;
use crate::journal::State;
use crate::lint::{self, Workspace};
use crate::settings::{Config, Settings};

/// Variable by which a shell asks for candidates; its value is the name of the shell.
const VARIABLE: &str = "WINDLASS_COMPLETE";
/// Maximum number of candidates, and of files of a project that is searched for tags.
const MOST: usize = 5_000;

/// Set up completion in a shell
#[derive(Debug, Args)]
#[command(after_help = "Candidates come from the project in the current directory: hosts and groups of its inventory,
tags, modules, playbooks and recorded runs. No inventory script runs, and no host is connected to.

Examples:
  source <(windlass completion bash)                                   # now; or in ~/.bashrc
  windlass completion fish > ~/.config/fish/completions/windlass.fish  # for fish")]
pub(super) struct Arguments {
    /// Shell that the script is for
    #[arg(value_parser = Shells::builtins().names().collect::<Vec<_>>())]
    shell: String,
}

/// The command without hidden subcommands, which man pages would show too.
pub(super) fn visible() -> Command {
    let all = super::Cli::command();
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("windlass").version(env!("CARGO_PKG_VERSION")).propagate_version(true).subcommands(verbs)
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(&arguments.shell) {
        let written = shell.write_registration(VARIABLE, "windlass", "windlass", "windlass", &mut script);
        written.map_err(|error| crate::error::Error::new(error.to_string()))?;
    }
    super::stdout::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// Answers a shell that asks for candidates; `None` if none does. A command that is being written must never run.
pub(super) fn answer() -> Option<ExitCode> {
    let answered = CompleteEnv::with_factory(|| with_candidates(visible())).var(VARIABLE).bin("windlass");
    match answered.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(is_answered) => is_answered.then_some(ExitCode::SUCCESS),
        Err(error) => {
            let _ = error.print();
            Some(ExitCode::FAILURE)
        }
    }
}

/// Adds the candidates for values to all arguments that have some.
fn with_candidates(command: Command) -> Command {
    let verb = command.get_name().to_owned();
    let command = command.mut_args(|argument| with_candidates_of(&verb, argument));
    command.mut_subcommands(with_candidates)
}

fn with_candidates_of(verb: &str, argument: Arg) -> Arg {
    let completer = match (verb, argument.get_id().as_str()) {
        (_, "limit" | "pattern") | ("inventory" | "var" | "host" | "when", "host") => ArgValueCompleter::new(hosts),
        (_, "tags" | "skip_tags") => ArgValueCompleter::new(tags),
        (_, "module_name") | ("doc", "names") => ArgValueCompleter::new(modules),
        ("playbook" | "plan", "playbooks") => ArgValueCompleter::new(PathCompleter::file().filter(is_yaml)),
        (_, "resume" | "run") | ("diff", "old" | "new") => ArgValueCompleter::new(runs),
        _ => return argument,
    };
    argument.add(completer)
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yml" || ending == "yaml")
}

fn settings() -> Option<Settings> {
    Settings::from_config(&Config::find().ok()?).ok()
}

/// Groups and hosts, for the last term of a pattern.
fn hosts(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(settings) = settings() else { return Vec::new() };
    let given = inventories(std::env::args_os());
    let sources = if given.is_empty() { settings.inventory.sources } else { given };
    let Ok(Ok(Some((inventory, _)))) = lint::load_inventory(&sources, LoadOptions::default()) else {
        return Vec::new();
    };
    terms(current, inventory.names().map(str::to_owned))
}

/// Tags of the project's playbooks and roles.
fn tags(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(settings) = settings() else { return Vec::new() };
    let options = lint::Options {
        paths: vec![".".into()],
        inventory: lint::Inventoried::default(),
        rules: Vec::new(),
        skip: lint::RULES.to_vec(),
        modules: super::lint::modules(&settings),
        roles_path: Vec::new(),
    };
    let Ok(mut report) = lint::check_in(&mut Workspace::with_limit(MOST), &options) else { return Vec::new() };
    terms(current, report.take_indexes().into_iter().flat_map(|(_, index)| index.tags))
}

/// Modules by their short names, or by their full ones after the first dot.
fn modules(current: &OsStr) -> Vec<CompletionCandidate> {
    let has_dot = current.to_string_lossy().contains('.');
    let names = crate::builtin::specs().flat_map(|spec| {
        let names: Vec<String> = if has_dot { spec.full_names().collect() } else { vec![spec.name.to_owned()] };
        names.into_iter().map(|name| (name, spec.summary))
    });
    let fitting = names.filter(|(name, _)| name.starts_with(&*current.to_string_lossy()));
    fitting.map(|(name, summary)| CompletionCandidate::new(name).help(Some(summary.into()))).collect()
}

/// Recorded runs, newest first.
fn runs(current: &OsStr) -> Vec<CompletionCandidate> {
    let state = settings().and_then(|settings| State::of(&settings).ok());
    let runs = state.map(|state| state.runs()).unwrap_or_default().into_iter().rev().filter(|run| !run.is_empty());
    let fitting = runs.map(|run| run.run).filter(|run| run.starts_with(&*current.to_string_lossy()));
    let numbered = fitting.take(MOST).enumerate();
    numbered.map(|(index, run)| CompletionCandidate::new(run).display_order(Some(index))).collect()
}

/// Candidates for the last term of a list or pattern: `a,b`, `a:!b`.
fn terms(current: &OsStr, names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let start = current.rfind([',', ':', '!', '&']).map_or(0, |at| at + 1);
    let (before, term) = current.split_at(start);
    let fitting = names.filter(|name| name.starts_with(term)).take(MOST);
    fitting.map(|name| CompletionCandidate::new(format!("{before}{name}"))).collect()
}

/// Values of `-i` on a command line that is being written.
fn inventories(words: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-i" | "--inventory" | "--inventory-file" => found.extend(words.next()),
            _ => {
                let joined = ["--inventory=", "--inventory-file="].iter().find_map(|option| word.strip_prefix(option));
                let short = word.strip_prefix("-i").filter(|_| !word.starts_with("--"));
                found.extend(joined.or(short).map(str::to_owned));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_term_of_pattern_completed() {
        let names = || ["web", "web1", "db"].into_iter().map(str::to_owned);
        let found = |text: &str| -> Vec<_> {
            terms(OsStr::new(text), names()).iter().map(|it| it.get_value().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(found("w"), ["web", "web1"]);
        assert_eq!(found("web:!d"), ["web:!db"]);
        assert_eq!(found("db,"), ["db,web", "db,web1", "db,db"]);
    }

    #[test]
    fn inventories_found_in_all_forms() {
        let words = ["windlass", "-i", "a", "--inventory=b", "-ic", "--become", "--inventory-file", "d", "-i"];
        assert_eq!(inventories(words.iter().map(OsString::from)), ["a", "b", "c", "d"]);
    }
}
