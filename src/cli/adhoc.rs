//! `windlass adhoc`: runs one module on many hosts.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use windlass_yaml::{Mapping, Node, Span};

use super::options::{TaskOptions, module_arguments, playbook_folder, whole};
use super::session::{Session, block_on};
use crate::error::{Error, Result};
use crate::executor::LockPolicy;
use crate::foreign::Resolution;
use crate::output::{Event, Outputs, Printer};
use crate::playbook::{BeforeHosts, Frame, FrameKind, Item, Keywords, Play, Task, check_end_role};
use crate::settings::{Color, Config, EventsTo, Live, Settings};
use crate::strategy::PlaybookRun;

/// Run one module on hosts
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass adhoc -i hosts.yml all -m ping      # check that hosts answer
  windlass adhoc -i hosts.yml web -a 'uptime'  # run a command
  windlass adhoc -i hosts.yml web -b -m service -a 'name=nginx state=restarted'  # become root")]
pub(super) struct Arguments {
    /// Host pattern
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// Module to run
    #[arg(short, long, default_value = "command")]
    module_name: String,
    /// Module arguments: `key=value` words, JSON, or a command line
    #[arg(short, long, default_value = "", allow_hyphen_values = true)]
    args: String,
    /// Print one line per host
    #[arg(short, long)]
    one_line: bool,
    /// Write each host's result to a file in this directory
    #[arg(short, long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// List the matching hosts and exit
    #[arg(long)]
    list_hosts: bool,
    /// Run in the background for at most this many seconds; 0 runs in the foreground
    #[arg(short = 'B', long, value_name = "SECONDS", default_value_t = 0)]
    background: u64,
    /// Seconds between checks of a background job; 0 does not wait for it [default: 15]
    #[arg(short = 'P', long = "poll", value_name = "SECONDS", value_parser = whole::<u64>)]
    poll_interval: Option<u64>,
    /// Write events as JSON lines while the run lasts, to this file or to the descriptor with this number
    #[arg(long, value_name = "FILE|FD")]
    events: Option<String>,
    /// Delete cached facts before the run
    #[arg(long)]
    flush_cache: bool,
    /// Time limit of the task in seconds; 0 means none [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>)]
    task_timeout: Option<u64>,
    /// Directory with group_vars, host_vars and files [default: current directory]
    #[arg(long, value_name = "DIR")]
    playbook_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) options: TaskOptions,
}

/// Runs the subcommand.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let config = Config::find()?;
    let mut settings = settings_of(&arguments, &config)?;
    let play = play_of(&arguments)?;
    let inputs = arguments.options.inputs(&settings)?;
    let printer = super::session::printer(&settings);
    super::session::tell_config(&settings, &printer);
    config.warnings.iter().for_each(|warning| printer.warning(warning));
    let output = Box::new(outputs(&arguments, &mut settings, &printer, &config)?);
    block_on(async {
        let session = Session::start(settings, inputs, output, &printer)?;
        let modules = &session.shared.loader.modules;
        if let Some(dir) = &arguments.playbook_dir {
            modules.add_folder(dir);
        }
        let module = &arguments.module_name;
        let outcome = if let Resolution::Unknown(reason) = modules.resolve(module, &[]) {
            let error = Error::new(format!("The module {module} was not found."));
            let reason = reason.or_else(|| in_library(module)).or_else(|| modules.suggestion(module, []));
            Err(error.maybe_hint(reason))
        } else {
            if arguments.flush_cache {
                session.flush_cache();
            }
            run_play(&session, play, arguments.list_hosts.then_some(&printer)).await
        };
        session.exits(&outcome);
        session.end().await;
        outcome
    })
}

/// Hint for a module that is in `library` of this directory, which counts only for playbooks beside it.
fn in_library(module: &str) -> Option<String> {
    let mut files = std::fs::read_dir("library").ok()?.flatten();
    let is_module = |file: std::fs::DirEntry| Path::new(&file.file_name()).file_stem() == Some(OsStr::new(module));
    files.any(is_module).then(|| "this directory has it in `library`; add `-M library`".to_owned())
}

/// Runs the play, or lists its hosts on `list`, and returns the exit code.
async fn run_play(session: &Session, play: Play, list: Option<&Printer>) -> Result<u8> {
    let mut run = PlaybookRun::new(Arc::clone(&session.shared), Arc::clone(&session.world));
    let hosts = run.hosts_of(&play)?;
    // An empty inventory was already reported.
    if hosts.is_empty() && session.world.inventory.hosts().next().is_some() {
        session.shared.warn("No hosts matched, nothing to do");
    }
    if let Some(printer) = list {
        printer.line(&format!("  hosts ({}):", hosts.len()), Color::Plain);
        hosts.iter().for_each(|host| printer.line(&format!("    {host}"), Color::Plain));
        return Ok(0);
    }
    if hosts.is_empty() {
        return Ok(0);
    }
    session.begin("__adhoc_playbook__".to_owned(), vec!["Ansible Ad-Hoc".to_owned()]).await;
    if let Some(code) = session.plays(&mut run, vec![play]).await? {
        return Ok(code);
    }
    let summary = run.summary();
    let _ = session.shared.events.send(Event::Recap(summary.recap));
    Ok(summary.exit_code)
}

/// Settings of the run, of the configuration and the command line.
fn settings_of(arguments: &Arguments, config: &Config) -> Result<Settings> {
    let mut settings = Settings::from_config(config)?;
    if config.get("live").is_none() {
        // The result has the whole output.
        settings.output.live = Live::None;
    }
    arguments.options.apply(&mut settings, config)?;
    settings.output.events = arguments.events.as_deref().map(EventsTo::of);
    settings.output.footer = true;
    if let Some(timeout) = arguments.task_timeout {
        settings.task_timeout = timeout;
    }
    if let Some(dir) = &arguments.playbook_dir {
        settings.playbook_dir = playbook_folder(dir)?;
    }
    let module = &arguments.module_name;
    refuse_imports(module)?;
    let needs_text = matches!(crate::playbook::short_name(module), "command" | "shell" | "script" | "raw");
    if needs_text && !arguments.list_hosts && arguments.args.trim().is_empty() {
        return Err(Error::usage(format!("No argument passed to {module} module")));
    }
    settings.run_name = format!("adhoc -m {module}");
    let reads = crate::executor::Lock::is_reading(crate::playbook::short_name(module));
    if reads && settings.lock.policy == LockPolicy::Wait {
        settings.lock.policy = LockPolicy::Shared;
    }
    // A user who names this machine expects it to be the only host.
    settings.inventory.localhost_warning &= !["localhost", "127.0.0.1", "::1"].contains(&arguments.pattern.as_str());
    Ok(settings)
}

/// Output of the run: Ansible prints ad-hoc results by a callback of its own.
fn outputs(arguments: &Arguments, settings: &mut Settings, printer: &Printer, config: &Config) -> Result<Outputs> {
    let stdout = match (arguments.one_line, settings.output.adhoc_callbacks) {
        (true, _) => "oneline".to_owned(),
        (false, true) => settings.output.stdout_callback.clone(),
        (false, false) => "minimal".to_owned(),
    };
    let mut enabled =
        if settings.output.adhoc_callbacks { settings.output.callbacks_enabled.clone() } else { Vec::new() };
    if let Some(folder) = &arguments.tree {
        enabled.push("tree".to_owned());
        settings.output.tree = Some(crate::paths::absolute(folder));
    }
    settings.output.own_callbacks = settings.output.adhoc_callbacks;
    Outputs::new(&stdout, &enabled, printer, settings, config)
}

/// Builds the play that the command line describes.
fn play_of(arguments: &Arguments) -> Result<Play> {
    let args = module_arguments(&arguments.module_name, &arguments.args)?;
    let number = |number: u64| Node::literal(number.to_string(), Span::synthetic("command line"));
    let mut keywords = Keywords::default();
    if arguments.background > 0 {
        keywords.set("async", number(arguments.background));
    }
    if let Some(seconds) = arguments.poll_interval {
        keywords.set("poll", number(seconds));
    }
    let task = (arguments.module_name.as_str(), args);
    let mut play = single_play("Ansible Ad-Hoc", &arguments.pattern, task, Keywords::default(), keywords);
    play.dir = arguments.playbook_dir.clone().unwrap_or_default();
    for item in &play.tasks {
        if let Item::Task(task) = item {
            check_end_role(task)?;
        }
    }
    Ok(play)
}

/// A play with one task that gathers no facts.
pub(super) fn single_play(
    name: &str,
    pattern: &str,
    (action, args): (&str, Mapping),
    mut keywords: Keywords,
    of_task: Keywords,
) -> Play {
    let span = Span::synthetic("command line");
    keywords.set("gather_facts", Node::literal("no", span.clone()));
    let frame = Arc::new(Frame {
        parent: None,
        keywords,
        vars: Arc::default(),
        kind: FrameKind::Play(BeforeHosts::default()),
        tags: Arc::default(),
    });
    // Imports cannot be expanded here, because nothing is loaded before the run.
    let action = match crate::playbook::short_name(action) {
        "import_role" => "include_role",
        "import_tasks" => "include_tasks",
        _ => action,
    };
    let mut task = Task::internal(action, args, &frame, &[]);
    task.keywords = of_task;
    Play {
        name: name.to_owned(),
        hosts: Node::literal(pattern, span.clone()),
        frame,
        vars_files: Vec::new(),
        pre_tasks: Vec::new(),
        tasks: vec![Item::Task(Arc::new(task))],
        post_tasks: Vec::new(),
        handlers: Vec::new(),
        roles: Vec::new(),
        dir: PathBuf::new(),
        span,
    }
}

/// Fails for actions that cannot run ad hoc.
pub(super) fn refuse_imports(action: &str) -> Result<()> {
    if crate::playbook::short_name(action) == "import_playbook" {
        return Err(Error::usage(format!("'{action}' is not a valid action for ad-hoc commands")));
    }
    Ok(())
}
