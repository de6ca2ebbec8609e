//! `windlass engine`: runs in a Kubernetes cluster, which `windlass playbook --engine kubernetes` starts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand, ValueEnum};

use super::secrets::secret_file;
use super::session::{self, block_on};
use crate::engine::{self, Client, Follow, Followed, Input, PLACE, Place, Request};
use crate::error::{Error, Result};
use crate::journal::{State, looks_like_run, shown_arguments};
use crate::output::{Printer, Secrets, table};
use crate::settings::{Color, Config, Settings, expand_home};
use crate::signals::until_signal;

/// Maximum size of all files outside of the project, in bytes. They are one Secret.
const INPUTS: usize = 896 << 10;

/// Place where a run is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// This machine
    Local,
    /// A pod of a Kubernetes cluster
    Kubernetes,
}

/// Options of `windlass playbook` for runs in a cluster.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Engine")]
pub(super) struct EngineOptions {
    /// Where to run: on this machine, or in a pod of the cluster that the kubeconfig names [default: local]
    #[arg(long, value_name = "ENGINE", value_enum)]
    engine: Option<Kind>,
    /// Image of the pod, with `windlass` as its entry point
    #[arg(long, value_name = "IMAGE")]
    engine_image: Option<String>,
    /// Namespace of the pod [default: windlass]
    #[arg(long, value_name = "NAMESPACE")]
    engine_namespace: Option<String>,
    /// Do not wait for the end of the run in the cluster
    #[arg(long)]
    detach: bool,
}

/// Show, follow, cancel and remove runs in a Kubernetes cluster
#[derive(Debug, Args)]
#[command(after_help = "`windlass playbook --engine kubernetes` starts such runs. KUBECONFIG selects the cluster.

Examples:
  windlass engine list                            # the runs in the namespace windlass
  windlass engine attach 20260131-235959-0a1b2c   # print the output so far, then follow
  windlass engine cancel 20260131-235959-0a1b2c   # stop it as Ctrl-C does
  windlass engine delete 20260131-235959-0a1b2c   # remove it with all its objects
  windlass engine uninstall                       # remove the namespace with all runs")]
pub(super) struct Arguments {
    /// Namespace of the runs [default: windlass]
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the runs
    List,
    /// Print the output of a run, and follow it to its end
    Attach {
        /// Id of the run
        run: String,
    },
    /// Stop a run in order
    Cancel {
        /// Id of the run
        run: String,
    },
    /// Delete a run with all its objects; a pod that works stops first
    Delete {
        /// Id of the run
        run: String,
    },
    /// Delete the namespace with all runs
    Uninstall,
}

/// Runs the subcommand.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let settings = Settings::from_config(&Config::find()?)?;
    let printer = session::printer(&settings);
    let client = Client::new(arguments.namespace.as_deref().unwrap_or(&settings.engine.namespace));
    match arguments.verb {
        Verb::List => {
            let rows = client.list()?.into_iter().map(|run| [run.run, run.created, run.state, run.command]);
            let heading = ["RUN", "STARTED", "STATE", "COMMAND"].map(str::to_owned);
            table(heading, rows).iter().for_each(|line| printer.line(line, Color::Plain));
            Ok(0)
        }
        Verb::Attach { run } => {
            client.find(&run)?;
            follow(&client, run, &settings, &printer)
        }
        Verb::Cancel { run } => {
            client.find(&run)?;
            client.cancel(&run).map(|()| 0)
        }
        Verb::Delete { run } => {
            client.find(&run)?;
            client.delete(&run).map(|()| 0)
        }
        Verb::Uninstall => client.uninstall().map(|()| 0),
    }
}

impl EngineOptions {
    /// Whether the run is carried out in a cluster.
    pub(super) fn is_kubernetes(&self) -> bool {
        self.engine == Some(Kind::Kubernetes)
    }

    /// Fails for options that apply only to runs in a cluster.
    pub(super) fn check(&self) -> Result<()> {
        let given = [
            ("--engine-image", self.engine_image.is_some()),
            ("--engine-namespace", self.engine_namespace.is_some()),
            ("--detach", self.detach),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) if !self.is_kubernetes() => {
                Err(Error::usage(format!("{name} needs a run in a cluster")).hint("add `--engine kubernetes`"))
            }
            _ => Ok(()),
        }
    }

    /// Starts the command line of this process in the cluster, and follows it.
    pub(super) fn start(&self, settings: &Settings) -> Result<u8> {
        super::shards::check(settings)?;
        let printer = session::printer(settings);
        let image = self.engine_image.clone().or_else(|| settings.engine.image.clone()).ok_or_else(|| {
            Error::usage("--engine kubernetes needs the image of its pod")
                .hint("give --engine-image, or set engine_image in [windlass] of ansible.cfg; `make dist` builds one")
        })?;
        let words = own_words()?;
        let shown = shown_arguments(words.iter().cloned(), &Secrets::of_process()).join(" ");
        let (sent, inputs) = with_inputs(words.clone())?;
        check_syntax(&words)?;
        warn_of_environment(settings, &printer);
        let client = Client::new(self.engine_namespace.as_deref().unwrap_or(&settings.engine.namespace));
        let folder = std::env::current_dir().map_err(|error| Error::new(format!("no current folder: {error}")))?;
        let run = client.start(&folder, Request { image, words: sent, shown, shards: settings.shards, inputs })?;
        let attach = format!("windlass engine attach {run}");
        if self.detach {
            printer.line(&run, Color::Plain);
            printer.error_line(&format!("The run was started. `{attach}` follows it."), Color::Plain);
            return Ok(0);
        }
        printer.error_line(&format!("Run {run} in the cluster. If this terminal is lost: `{attach}`."), Color::Plain);
        follow(&client, run, settings, &printer)
    }
}

/// Runs a pod of a run.
pub(super) fn run_in_pod(place: Place) -> Result<u8> {
    if !looks_like_run(&place.run) {
        return Err(Error::usage(format!("`{}` is not the id of a run", place.run)));
    }
    block_on(async {
        let handler = until_signal(std::future::pending::<()>());
        engine::run_in_pod(place, async { drop(handler.await) }).await.map(|()| 0)
    })
}

/// A terminal, or whatever standard output is.
struct Terminal(Printer);

impl Followed for Terminal {
    fn line(&mut self, text: &str) {
        self.0.line(text, Color::Plain);
    }

    fn warn(&mut self, sentence: &str) {
        self.0.warning(sentence);
    }
}

/// Prints a run to its end. The first signal cancels it, and the second ends only this program. A lost terminal leaves
/// it as it is.
fn follow(client: &Client, run: String, settings: &Settings, printer: &Printer) -> Result<u8> {
    let state = State::at(&State::of(settings)?.folder("engine")?);
    block_on(async {
        let mut follow = Follow::new(client, &run, &state, Terminal(printer.clone()));
        let code = match until_signal(follow.until_end()).await {
            Ok(code) => code?,
            Err((signal, _)) if signal.name == "SIGHUP" => return Ok(signal.code),
            Err((_, _handler)) => {
                printer
                    .error_line("Stopping the run in the cluster. Once more, and only this program ends.", Color::Warn);
                follow.cancel().await?;
                match follow.until_end().await {
                    Err(_) if follow.is_deleted() => 99,
                    code => code?,
                }
            }
        };
        let place = state.root().display();
        printer.error_line(&format!("Its journal: `WINDLASS_JOURNAL_DIR={place} windlass runs`"), Color::Verbose);
        Ok(code)
    })
}

/// Words of this command line, without the options for the engine.
fn own_words() -> Result<Vec<String>> {
    let mut words = std::env::args_os().skip(1).map(|word| {
        word.into_string().map_err(|word| Error::usage(format!("{} is not valid UTF-8", word.to_string_lossy())))
    });
    let mut kept = vec!["playbook".to_owned()];
    let mut is_first = true;
    while let Some(word) = words.next().transpose()? {
        let name = word.split('=').next().unwrap_or_default();
        match name {
            "playbook" if is_first => {}
            "--detach" => {}
            "--engine" | "--engine-image" | "--engine-namespace" => {
                if name == word {
                    words.next().transpose()?;
                }
            }
            _ => kept.push(word),
        }
        is_first = false;
    }
    Ok(kept)
}

/// Checks the command line and the project here, where an error has its place.
fn check_syntax(words: &[String]) -> Result<()> {
    let mut command = Command::new(super::child::own_program()?);
    let status = command.args(words).arg("--syntax-check").stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status.map_err(super::child::cannot_start)? {
        status if status.success() => Ok(()),
        _ => Err(Error::new("the run was not started: its command line or its project has the error above")),
    }
}

/// Options that name a file, which the pod gets as a Secret. If the file is a program, it runs here and the pod gets
/// its output.
const FILES: [&str; 8] = [
    "--private-key",
    "--key-file",
    "--vault-password-file",
    "--vault-pass-file",
    "--connection-password-file",
    "--conn-pass-file",
    "--become-password-file",
    "--become-pass-file",
];
/// Options that need a person at this terminal or a file of this machine, so a pod cannot have them.
const REFUSED: [&str; 16] = [
    "--ask-pass",
    "--ask-become-pass",
    "--ask-vault-password",
    "--ask-vault-pass",
    "--step",
    "--syntax-check",
    "--list-hosts",
    "--list-tasks",
    "--list-tags",
    "--plan",
    "--events",
    "--trace",
    "--resume",
    "--resume-anyway",
    "--no-journal",
    "--form",
];

/// Options of `windlass playbook` as clap knows them.
fn known_options() -> clap::Command {
    super::playbook::Arguments::augment_args(clap::Command::new("playbook"))
}

/// Whether a word such as `-bvK` is a group of short flags that contains a refused one.
fn is_refused_cluster(word: &str) -> bool {
    let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else { return false };
    let command = known_options();
    let flags = command.get_arguments().filter(|option| !option.get_action().takes_values());
    let flags: Vec<(char, bool)> = flags
        .filter_map(|option| {
            let is_refused = option.get_long().is_some_and(|long| REFUSED.contains(&format!("--{long}").as_str()));
            Some((option.get_short()?, is_refused))
        })
        .collect();
    let find = |letter| flags.iter().find(|(short, _)| *short == letter);
    letters.chars().all(|letter| find(letter).is_some())
        && letters.chars().any(|letter| find(letter).is_some_and(|(_, is_refused)| *is_refused))
}

/// Replaces files outside of the project by names in the pod, and reads them.
fn with_inputs(words: Vec<String>) -> Result<(Vec<String>, Vec<Input>)> {
    let mut inputs = Vec::new();
    let mut changed = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (word.clone(), None),
        };
        if REFUSED.contains(&name.as_str()) || is_refused_cluster(&name) {
            return Err(Error::usage(format!("{name} cannot be used with --engine kubernetes"))
                .hint("give passwords by --vault-password-file, --become-password-file, --connection-password-file"));
        }
        if FILES.contains(&name.as_str()) || name == "--vault-id" {
            let value = value.or_else(|| words.next()).unwrap_or_default();
            let (label, file) = match name.as_str() {
                "--vault-id" => {
                    value.split_once('@').map_or((None, value.as_str()), |(label, file)| (Some(label), file))
                }
                _ => (None, value.as_str()),
            };
            let bytes = match name.as_str() {
                "--private-key" | "--key-file" => {
                    let read = windlass_bounds::read_up_to(expand_home(file), INPUTS as u64);
                    read.map_err(|error| Error::new(format!("the key {file} cannot be read: {error}")))?
                }
                _ => secret_file(&expand_home(file), label.unwrap_or("default"))?,
            };
            let input = inputs.len().to_string();
            let at = label.map(|label| format!("{label}@")).unwrap_or_default();
            changed.extend([name, format!("{at}{PLACE}{input}")]);
            inputs.push(Input { name: input, bytes });
            continue;
        }
        refuse_outside(value.as_deref().unwrap_or(&word))?;
        changed.push(word);
    }
    if let Ok(bytes) = windlass_bounds::read_up_to(expand_home("~/.ssh/known_hosts"), INPUTS as u64) {
        inputs.push(Input { name: engine::KNOWN_HOSTS.to_owned(), bytes });
    }
    if inputs.iter().map(|input| input.bytes.len()).sum::<usize>() > INPUTS {
        return Err(Error::new(format!("keys, passwords and known_hosts have more than {} KiB", INPUTS >> 10)));
    }
    Ok((changed, inputs))
}

/// Refuses a file outside of the current folder, which is all that the pod gets.
fn refuse_outside(word: &str) -> Result<()> {
    let path = word.trim_start_matches('@');
    let leads_out = path.starts_with(['/', '~']) || Path::new(path).components().any(|part| part.as_os_str() == "..");
    let expanded: PathBuf = expand_home(path);
    match leads_out && expanded.exists() {
        true => Err(Error::usage(format!("`{path}` is not in the current folder, which is all that the pod gets"))
            .hint("start from the folder of the project, and name its files by relative paths")),
        false => Ok(()),
    }
}

/// Warns about settings that the pod does not get.
fn warn_of_environment(settings: &Settings, printer: &Printer) {
    let here = std::env::current_dir().unwrap_or_default();
    if let Some(file) = settings.config_file.as_ref().filter(|file| !crate::paths::absolute(file).starts_with(&here)) {
        printer.warning(&format!("{} has no effect in the cluster: it is not in the project", file.display()));
    }
    // Variables of the client itself, and of the lab.
    let own = [
        "ANSIBLE_CONFIG",
        "WINDLASS_CACHE",
        "WINDLASS_ENGINE_IMAGE",
        "WINDLASS_ENGINE_NAMESPACE",
        "WINDLASS_JOURNAL_DIR",
        "WINDLASS_LAB_DIR",
    ];
    let is_setting = |name: &String| {
        (name.starts_with("ANSIBLE_") || name.starts_with("WINDLASS_")) && !own.contains(&name.as_str())
    };
    let mut names: Vec<String> =
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(is_setting).collect();
    names.sort();
    if !names.is_empty() {
        printer.warning(&format!(
            "environment variables have no effect in the cluster: {}. Set them in ansible.cfg.",
            names.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_files_and_prompts_are_sent_or_refused() {
        let command = known_options();
        let names_file = |option: &clap::Arg| {
            let names = option.get_value_names().unwrap_or_default();
            names.iter().any(|name| name.as_str().split('|').any(|name| matches!(name, "FILE" | "DIR")))
        };
        let asks = |option: &clap::Arg| option.get_id().as_str().starts_with("ask_");
        let mut seen = 0;
        for option in command.get_arguments().filter(|option| names_file(option) || asks(option)) {
            let names = option.get_long().into_iter().chain(option.get_all_aliases().unwrap_or_default());
            for name in names.map(|name| format!("--{name}")) {
                let is_known = FILES.contains(&name.as_str()) || REFUSED.contains(&name.as_str());
                assert!(is_known, "{name} is neither sent to the pod nor refused");
                seen += 1;
            }
        }
        assert!(seen > 10, "only {seen} options were found");
    }

    #[test]
    fn letters_of_prompts_are_refused_in_clusters_of_flags() {
        for word in ["-K", "-bvK", "-kC", "-DJ"] {
            assert!(is_refused_cluster(word), "{word}");
        }
        // `-ek=1` and `-tK` have values.
        for word in ["-b", "-vvv", "-tK", "-ek", "-", "--", "--check", "K"] {
            assert!(!is_refused_cluster(word), "{word}");
        }
    }
}
