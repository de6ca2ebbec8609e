//! `windlass console`: runs tasks interactively.

mod command;
mod editor;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use windlass_yaml::{Mapping, Node, Span, Value};

use self::command::Command;
use self::editor::{LineEditor, Names};
use super::adhoc::{self, refuse_imports};
use super::options::{Inputs, TaskOptions, module_arguments, playbook_folder, whole};
use super::session::{Session, block_on};
use crate::error::{Error, Result};
use crate::executor::LockPolicy;
use crate::foreign::Resolution;
use crate::output::{Event, Outputs, Printer};
use crate::playbook::Keywords;
use crate::settings::{Color, Config, Settings};
use crate::strategy::{Echo, PlaybookRun, ask, print_now};

/// Run modules on hosts interactively
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass console -i hosts.yml                # start with all hosts
  windlass console -i hosts.yml web --become   # start with one group, as root
  echo 'ping' | windlass console -i hosts.yml  # read lines from a pipe")]
pub(super) struct Arguments {
    /// Initial host pattern
    #[arg(value_name = "PATTERN", default_value = "all")]
    pattern: String,
    /// Confirm every task before it runs
    #[arg(long)]
    step: bool,
    /// Time limit per task in seconds; 0 means none [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>)]
    task_timeout: Option<u64>,
    /// Directory with group_vars, host_vars and files [default: current directory]
    #[arg(long, value_name = "DIR")]
    playbook_dir: Option<PathBuf>,
    /// Pass an option to SSH, like --ssh-option; repeatable
    #[arg(short = 'o', value_name = "OPTION", help_heading = "Connection")]
    ssh_options: Vec<String>,
    #[command(flatten)]
    pub(super) options: TaskOptions,
}

/// Inputs of a console session.
struct Start {
    config: Config,
    settings: Settings,
    inputs: Inputs,
    printer: Printer,
}

/// State of the console. Values that no line has set come from the settings.
struct Console {
    start: Start,
    session: Session,
    run: PlaybookRun,
    /// Host pattern, followed by the number of hosts it matches.
    pattern: String,
    selected: usize,
    collections: Vec<String>,
}

/// Runs the subcommand.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let config = Config::find()?;
    let mut settings = Settings::from_config(&config)?;
    arguments.options.apply(&mut settings, &config)?;
    settings.connect.ssh_options.extend(arguments.ssh_options.iter().cloned());
    settings.step = arguments.step;
    settings.task_timeout = arguments.task_timeout.unwrap_or(settings.task_timeout);
    if let Some(dir) = arguments.playbook_dir {
        settings.playbook_dir = playbook_folder(&dir)?;
    }
    let inputs = arguments.options.inputs(&settings)?;
    let printer = super::session::printer(&settings);
    settings.run_name = "console".to_owned();
    // A console may stay open for days, so it locks hosts only if that is set explicitly.
    if !settings.lock.is_chosen {
        settings.lock.policy = LockPolicy::Ignore;
    }
    config.warnings.iter().for_each(|warning| printer.warning(warning));
    let start = Start { config, settings, inputs, printer };
    let pattern = arguments.pattern;
    block_on(async { Console::open(start, pattern).await?.talk().await })
}

impl Start {
    fn session(&self) -> Result<Session> {
        let stdout = if self.settings.output.adhoc_callbacks {
            self.settings.output.stdout_callback.as_str()
        } else {
            "minimal"
        };
        let enabled =
            if self.settings.output.adhoc_callbacks { self.settings.output.callbacks_enabled.as_slice() } else { &[] };
        let output = Outputs::new(stdout, enabled, &self.printer, &self.settings, &self.config)?;
        Session::start(self.settings.clone(), self.inputs.clone(), Box::new(output), &self.printer)
    }
}

impl Console {
    async fn open(start: Start, pattern: String) -> Result<Console> {
        let session = start.session()?;
        let run = PlaybookRun::new(Arc::clone(&session.shared), Arc::clone(&session.world));
        let mut console = Console { start, session, run, pattern, selected: 0, collections: Vec::new() };
        let error = match console.hosts(&console.pattern) {
            Ok(hosts) if hosts.is_empty() => {
                Error::new("Specified inventory, host pattern and/or --limit leaves us with no hosts to target.")
            }
            Ok(hosts) => {
                console.selected = hosts.len();
                return Ok(console);
            }
            Err(error) => error,
        };
        console.session.end().await;
        Err(error)
    }

    /// Reads and runs lines until the end of input.
    async fn talk(mut self) -> Result<u8> {
        self.say("Welcome to the ansible console. Type help or ? to list commands.\n");
        let mut editor = LineEditor::open(self.names());
        while let Some(line) = self.line(editor.as_mut()).await? {
            let line = line.trim();
            match Command::of(line) {
                Command::Nothing => {}
                Command::Exit => break,
                Command::Task { module, args } => self.task(&module, &args, line).await,
                Command::Shell(text) => self.task("shell", text, text).await,
                command => match self.command(command).await {
                    Ok(()) => {}
                    Err(error) => self.error(error.message()).await,
                },
            }
        }
        self.say("\nAnsible-console was exited.");
        if let Some(Err(error)) = editor.map(|mut editor| editor.save()) {
            self.start.printer.warning(error.message());
        }
        self.session.end().await;
        Ok(0)
    }

    /// Reads the next line; `None` at the end of input.
    async fn line(&self, editor: Option<&mut LineEditor>) -> Result<Option<String>> {
        let Some(editor) = editor else { return ask(&self.prompt(), Echo::Shown, &self.session.shared).await };
        // The editor writes to the terminal directly, so pending output must be printed first.
        print_now("", &self.session.shared).await;
        tokio::task::block_in_place(|| editor.read(&self.prompt()))
    }

    /// Words for completing a line.
    fn names(&self) -> Names {
        let inventory = &self.session.world.inventory;
        Names {
            modules: self.session.shared.loader.modules.names(),
            hosts: self.hosts("all").unwrap_or_default().iter().map(|host| host.to_string()).collect(),
            groups: inventory.groups().map(|group| group.name().to_string()).collect(),
        }
    }

    fn say(&self, text: &str) {
        let _ = self.session.shared.events.send(Event::Notice(text.to_owned()));
    }

    /// Prints a message at `-v`.
    fn note(&self, text: String) {
        let _ = self.session.shared.events.send(Event::Verbose { level: 1, text });
    }

    /// Prints an error after all pending output.
    async fn error(&self, text: &str) {
        print_now("", &self.session.shared).await;
        self.start.printer.error_line(&format!("[ERROR]: {text}"), Color::Error);
    }

    fn prompt(&self) -> String {
        let settings = &self.start.settings;
        let user = settings.connect.remote_user.clone().unwrap_or_else(login_name);
        let sign = if settings.r#become.enabled && settings.r#become.user == "root" { '#' } else { '$' };
        format!("{user}@{} ({})[f:{}]{sign} ", self.pattern, self.selected, settings.forks)
    }

    fn hosts(&self, pattern: &str) -> Result<Vec<Arc<str>>> {
        let play = adhoc::single_play("", pattern, ("ping", Mapping::new()), Keywords::default(), Keywords::default());
        self.run.hosts_of(&play)
    }

    /// Runs a command other than a task.
    async fn command(&mut self, command: Command<'_>) -> Result<()> {
        let settings = &mut self.start.settings;
        match command {
            Command::Nothing | Command::Exit | Command::Task { .. } | Command::Shell(_) => {}
            Command::Help(topic) => {
                let text = command::help(topic);
                self.say(&text);
            }
            Command::Say(text) => self.say(text),
            Command::Hosts(pattern) => {
                let hosts = self.hosts(pattern)?;
                if hosts.is_empty() {
                    self.say("no host matched");
                } else {
                    self.selected = hosts.len();
                    self.pattern = pattern.to_owned();
                }
            }
            Command::ListHosts => self.hosts(&self.pattern)?.iter().for_each(|host| self.say(host)),
            Command::ListGroups => {
                let mut names: Vec<&str> =
                    self.session.world.inventory.groups().map(|group| group.name().as_ref()).collect();
                names.sort_unstable();
                names.into_iter().for_each(|name| self.say(name));
            }
            Command::Become(value) => {
                settings.r#become.enabled = value;
                self.note(format!("become changed to {}", python(value)));
            }
            Command::BecomeUser(user) => user.clone_into(&mut settings.r#become.user),
            Command::BecomeMethod(method) => {
                method.clone_into(&mut settings.r#become.method);
                self.note(format!("become_method changed to {method}"));
            }
            Command::RemoteUser(user) => settings.connect.remote_user = Some(user.to_owned()),
            Command::Check(value) => {
                settings.check = value;
                self.say(&format!("check mode changed to {}", python(value)));
            }
            Command::Diff(value) => {
                settings.diff = value;
                self.say(&format!("diff mode changed to {}", python(value)));
            }
            Command::Timeout(seconds) => settings.task_timeout = seconds,
            Command::Forks(count) => {
                let forks = &self.session.shared.forks;
                forks.forget_permits(settings.forks.saturating_sub(count));
                forks.add_permits(count.saturating_sub(settings.forks));
                settings.forks = count;
            }
            Command::Verbosity(level) => {
                // Outputs are created with a fixed verbosity, so the session is replaced.
                settings.verbosity = level;
                let session = std::mem::replace(&mut self.session, self.start.session()?);
                session.end().await;
                self.run = PlaybookRun::new(Arc::clone(&self.session.shared), Arc::clone(&self.session.world));
                self.note(format!("verbosity level set to {level}"));
            }
            Command::Collections(names) => {
                self.collections = names.into_iter().map(str::to_owned).collect();
                self.note(match self.collections.is_empty() {
                    true => "Collections name search is using defaults".to_owned(),
                    false => format!("Collections name search is set to: {}", self.collections.join(", ")),
                });
            }
            Command::Wrong(text) => return Err(Error::usage(text)),
        }
        Ok(())
    }

    /// Runs a module, or a shell command if no module has that name.
    async fn task(&mut self, module: &str, args: &str, line: &str) {
        let resolved = self.session.shared.loader.modules.resolve(module, &self.collections);
        let (module, args) = match resolved {
            Resolution::Unknown(_) => ("shell", line),
            _ => (module, args),
        };
        match self.run_task(module, args).await {
            Ok(()) => {}
            Err(error) => self.error(&error.to_string()).await,
        }
    }

    async fn run_task(&mut self, module: &str, args: &str) -> Result<()> {
        refuse_imports(module)?;
        let args = module_arguments(module, args)?;
        let play =
            adhoc::single_play("Ansible Shell", &self.pattern, (module, args), self.keywords(), Keywords::default());
        self.run.run(vec![play]).await?;
        // A failure in this line must not exclude hosts from the next.
        self.run.forgive();
        Ok(())
    }

    /// Keywords of a play that represent the console's state.
    fn keywords(&self) -> Keywords {
        let settings = &self.start.settings;
        let span = Span::synthetic("command line");
        let text = |text: &str| Node::literal(text, span.clone());
        let flag = |value: bool| Node::new(Value::Bool(value), span.clone());
        let mut keywords = Keywords::default();
        if let Some(user) = &settings.connect.remote_user {
            keywords.set("remote_user", text(user));
        }
        keywords.set("become", flag(settings.r#become.enabled));
        keywords.set("become_user", text(&settings.r#become.user));
        keywords.set("become_method", text(&settings.r#become.method));
        keywords.set("check_mode", flag(settings.check));
        keywords.set("diff", flag(settings.diff));
        keywords.set("timeout", text(&settings.task_timeout.to_string()));
        if !self.collections.is_empty() {
            let names = self.collections.iter().map(|name| text(name)).collect();
            keywords.set("collections", Node::list(names, span.clone()));
        }
        keywords
    }
}

fn python(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

fn login_name() -> String {
    let named = ["LOGNAME", "USER", "LNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    named.unwrap_or_else(|| "root".to_owned())
}
