//! `windlass apply`: runs a plan file, if it still holds.
//!
//! A plan file selects playbooks and options; it holds no command. Before anything changes, its inputs are compared,
//! and a new plan is made and compared with the recorded one.

use std::path::PathBuf;

use clap::{Args, Parser};

use super::options::{Given, SecretOptions, flag, given, words};
use super::{plan, playbook};
use crate::error::{Error, Result};
use crate::output::Printer;
use crate::planned::{self, Document, ExtraVars, Request};
use crate::settings::Color;

/// Options with a value that a plan file may set.
const OPTIONS: &[&str] = &[
    "become-method",
    "become-user",
    "compat",
    "connection",
    "forks",
    "limit",
    "lock-timeout",
    "private-key",
    "start-at-task",
    "timeout",
    "user",
];
/// Options without a value that a plan file may set.
const FLAGS: &[&str] = &["become", "flush-cache", "force-handlers", "no-stream"];

/// Run a plan that `windlass plan` wrote, if it still holds
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass plan -i hosts.yml site.yml -o site.plan
  windlass apply site.plan                                  # run exactly that plan
  windlass apply site.plan -K                               # the plan was made with -K")]
pub(super) struct Arguments {
    /// Plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Repeat the variables that the plan file does not carry: secrets, templates, connection variables
    #[arg(short, long, value_name = "VARS")]
    extra_vars: Vec<String>,
    /// Increase verbosity, up to -vvvv
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    repeated: Repeated,
}

/// Options that a plan file does not carry, because they choose programs and secrets.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options that the plan was made with")]
struct Repeated {
    /// SSH option in ssh_config syntax; repeatable
    #[arg(long, value_name = "OPTION")]
    ssh_option: Vec<String>,
    /// SSH options in the syntax of the ssh command
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    ssh_common_args: Option<String>,
    /// Further SSH options in the syntax of the ssh command
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    ssh_extra_args: Option<String>,
    /// Accept keys of hosts missing from known_hosts
    #[arg(long)]
    accept_new_host_keys: bool,
    /// Search path for modules
    #[arg(short = 'M', long, value_name = "PATH")]
    module_path: Vec<String>,
    /// Policy for hosts locked by another run
    #[arg(long, value_name = "POLICY")]
    lock: Option<String>,
    #[command(flatten)]
    secrets: SecretOptions,
}

/// Parses the words of a request like the arguments of `windlass playbook`.
#[derive(Debug, Parser)]
#[command(name = "windlass playbook")]
struct Words {
    #[command(flatten)]
    arguments: playbook::Arguments,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let document = planned::read(&arguments.file)?;
    let request = &document.request;
    arguments.check_repeated(request)?;
    let here = std::env::current_dir().unwrap_or_default().display().to_string();
    if here != request.directory {
        return Err(Error::new(format!(
            "the plan was made in the directory `{}`, and this is `{here}`",
            request.directory
        ))
        .hint("change to that directory: configuration and relative paths depend on it"));
    }
    let printer = plan::plain_printer();
    introduce(&document, &printer);
    let again = arguments.words(request)?;
    let made = plan::make(&again.playbooks, &again.selection, Some(&document))?;
    if crate::signals::is_signal(made.code) {
        plan::tell_interrupted(made.last.as_deref(), None, &printer);
        return Ok(made.code);
    }
    let mut differences = variables(request, &made.document);
    differences.extend(planned::differences(&document, &made.document));
    if made.code != 0 && differences.is_empty() {
        differences.push("a task failed".to_owned());
    }
    plan::refuse(&differences)?;
    printer.line("The plan holds. Running it.", Color::Plain);
    playbook::run(again)
}

/// Prints what is going to run, so that an operator sees what the file has chosen.
fn introduce(document: &Document, printer: &Printer) {
    let request = &document.request;
    let say = |name: &str, words: &[String]| {
        if !words.is_empty() {
            printer.line(&format!("  {name}: {}", words.join(", ")), Color::Plain);
        }
    };
    printer.line(&format!("Applying the plan of {}:", document.created), Color::Plain);
    say("playbooks", &request.playbooks);
    say("inventory", &request.inventory);
    say("tags", &request.tags);
    say("skip-tags", &request.skip_tags);
    request.options.iter().for_each(|(name, value)| say(name, std::slice::from_ref(value)));
    say("flags", &request.flags);
    let vars = request.extra_vars.iter().flat_map(|vars| match vars {
        ExtraVars::File(path) => vec![format!("@{path}")],
        // A value may be a secret under an ordinary name.
        ExtraVars::Values(values) => values.keys().cloned().collect(),
    });
    say("extra-vars", &vars.collect::<Vec<_>>());
    let document = &document.totals;
    let text = format!("  planned: {} to change, {} unknown", document.change, document.unknown);
    printer.line(&text, Color::Plain);
}

/// Extra variables whose values differ from the plan's.
fn variables(request: &Request, new: &Document) -> Vec<String> {
    let names = request.vars.keys().chain(new.request.vars.keys().filter(|name| !request.vars.contains_key(*name)));
    let differing = names.filter(|name| request.vars.get(*name) != new.request.vars.get(*name));
    differing.map(|name| format!("the extra variable `{name}` differs")).collect()
}

impl Arguments {
    /// Fails unless exactly those options are repeated that the plan was made with.
    fn check_repeated(&self, request: &Request) -> Result<()> {
        let given = self.repeated();
        if let Some(missing) = request.repeat.iter().find(|name| !given.iter().any(|(given, _)| given == name)) {
            let missing: String = missing.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            return Err(Error::usage(format!("the plan was made with --{missing}, which a plan file does not carry"))
                .hint(format!("repeat it: windlass apply {} --{missing} ...", self.file.display())));
        }
        if let Some((other, _)) = given.iter().find(|(name, _)| !request.repeat.iter().any(|known| known == name)) {
            return Err(Error::usage(format!("the plan was made without --{other}"))
                .hint("make a new plan with `windlass plan -o FILE`"));
        }
        Ok(())
    }

    /// The repeated options.
    fn repeated(&self) -> Vec<Given> {
        let Repeated { ssh_option, ssh_common_args, ssh_extra_args, accept_new_host_keys, module_path, lock, secrets } =
            &self.repeated;
        let mut all = [
            given("extra-vars", &self.extra_vars),
            given("ssh-option", ssh_option),
            given("ssh-common-args", ssh_common_args),
            given("ssh-extra-args", ssh_extra_args),
            given("module-path", module_path),
            given("lock", lock),
            secrets.given(),
        ]
        .concat();
        all.extend(flag("accept-new-host-keys", *accept_new_host_keys));
        all
    }

    /// Arguments of the run. Only known options are taken from the plan file, each with its value in one word.
    fn words(&self, request: &Request) -> Result<playbook::Arguments> {
        let mut line = vec!["windlass".to_owned()];
        let unknown = |name: &str| Error::usage(format!("a plan file cannot carry the option {name:?}"));
        for (name, value) in &request.options {
            let known = OPTIONS.iter().find(|known| *known == name).ok_or_else(|| unknown(name))?;
            line.push(format!("--{known}={value}"));
        }
        for name in &request.flags {
            let known = FLAGS.iter().find(|known| *known == name).ok_or_else(|| unknown(name))?;
            line.push(format!("--{known}"));
        }
        line.extend(request.inventory.iter().map(|source| format!("--inventory={source}")));
        line.extend(request.tags.iter().map(|tags| format!("--tags={tags}")));
        line.extend(request.skip_tags.iter().map(|tags| format!("--skip-tags={tags}")));
        line.extend(words(self.repeated()));
        line.extend((0..self.verbose).map(|_| "--verbose".to_owned()));
        line.push("--".to_owned());
        line.extend(request.playbooks.iter().cloned());
        let parsed = Words::try_parse_from(line)
            .map_err(|error| Error::usage(format!("the plan's options are not valid: {}", error.kind())))?;
        let mut arguments = parsed.arguments;
        arguments.selection.carried.clone_from(&request.extra_vars);
        // Other processes would repeat this command line, and not know its plan.
        arguments.sharding.shards = Some(1);
        Ok(arguments)
    }
}
