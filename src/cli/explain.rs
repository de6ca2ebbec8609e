//! `windlass explain`: explains variables, hosts, conditions, tasks and plays. It contacts no host and runs no task.

mod host;
mod line;
mod place;
mod play;
mod steps;
mod task;
mod value;
mod var;
mod when;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value as Json;
use windlass_yaml::{Mapping, Span};

use self::place::Places;
use super::options::{self, TaskOptions};
use super::session::{Session, block_on};
use crate::error::{Error, Result, did_you_mean};
use crate::journal::{Journal, Record, State, is_run_of, read_file};
use crate::output::{Outputs, Printer, aligned};
use crate::playbook::Task;
use crate::settings::{Color, Config, Settings};
use crate::strategy::PlaybookRun;
use crate::strategy::explain::{Entered, Listed, Until, unknown_name};
use crate::vars::World;

/// Options of runs without an effect: no host is connected to, and no task runs.
const WITHOUT_EFFECT: &[&str] = &[
    "accept_new_host_keys",
    "ask_become_pass",
    "ask_pass",
    "become_password_file",
    "connection_password_file",
    "live",
    "lock",
    "lock_timeout",
    "no_stream",
    "progress",
];

/// Explain variables, hosts, conditions, tasks and plays without running tasks
#[derive(Debug, Args)]
#[command(mut_subcommands(|one| options::hide(one, WITHOUT_EFFECT)))]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "Programs of the project that give inventories, variables and vault passwords run as for
every command. Lookups that run programs do not.

Examples:
  windlass explain var -i hosts.yml web1 http_port                   # the value and its place
  windlass explain var -i hosts.yml web1 http_port --playbook site.yml --task 'Install nginx'
  windlass explain host -i hosts.yml web1                            # groups, connection, become
  windlass explain when -i hosts.yml site.yml web1 'Install nginx'   # every part of the condition
  windlass explain when -i hosts.yml site.yml web1 site.yml:12 --run 20260131-235959-0a1b2c
  windlass explain task -i hosts.yml site.yml web1 'Install nginx'   # arguments and keywords
  windlass explain host -i hosts.yml web1 --playbook site.yml --run 20260131-235959-0a1b2c
  windlass explain play -i hosts.yml site.yml                        # hosts, roles, keywords
  windlass explain roles/web/tasks/main.yml:12                       # an import or include")]
pub(super) struct Arguments {
    /// Import or include to explain, by its file and any of its lines; needs no inventory and runs nothing
    #[arg(value_name = "FILE:LINE")]
    line: Option<String>,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(subcommand)]
    subject: Option<Subject>,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Explain the value of a variable: its place, the values it shadows, the steps of templating
    Var(Box<VarArguments>),
    /// Explain a host: its groups, its connection, its become user
    Host(Box<HostArguments>),
    /// Explain why a task would run on a host or be skipped
    When(Box<WhenArguments>),
    /// Explain a task on a host: its arguments, and its keywords with their owners
    Task(Box<TaskArguments>),
    /// Explain plays: their hosts and batches, roles, tasks and keywords
    Play(Box<PlayArguments>),
}

#[derive(Debug, Args)]
struct VarArguments {
    /// Host; the other order works too, if only one of the two words is a host
    #[arg(value_name = "HOST")]
    host: String,
    /// Name of the variable
    #[arg(value_name = "NAME")]
    name: String,
    /// Playbook whose variables count too
    #[arg(long, value_name = "FILE")]
    playbook: Option<PathBuf>,
    /// Task that sees the variable: its name, or FILE:LINE [default: a task at the end of the play]
    #[arg(long, value_name = "TASK", requires = "playbook")]
    task: Option<String>,
    /// Recorded run of the playbook with the groups, facts and results that it made; `windlass runs` lists them
    #[arg(long, value_name = "RUN", requires = "playbook")]
    run: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct HostArguments {
    /// Host
    #[arg(value_name = "HOST")]
    host: String,
    /// Playbook whose keywords and variables count too
    #[arg(long, value_name = "FILE")]
    playbook: Option<PathBuf>,
    /// Recorded run of the playbook with the groups, facts and results that it made; `windlass runs` lists them
    #[arg(long, value_name = "RUN", requires = "playbook")]
    run: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct WhenArguments {
    /// Playbook with the task
    #[arg(value_name = "PLAYBOOK")]
    playbook: PathBuf,
    /// Host
    #[arg(value_name = "HOST")]
    host: String,
    /// Task: its name, or FILE:LINE with any of its lines
    #[arg(value_name = "TASK")]
    task: String,
    /// Recorded run of the playbook with the results of earlier tasks; `windlass runs` lists them
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Explain as if only tasks with these tags were selected, separated by commas; repeatable
    #[arg(short, long, value_name = "TAGS", value_delimiter = ',')]
    tags: Vec<String>,
    /// Explain as if tasks with these tags were skipped, separated by commas; repeatable
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    skip_tags: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct TaskArguments {
    /// Playbook with the task
    #[arg(value_name = "PLAYBOOK")]
    playbook: PathBuf,
    /// Host
    #[arg(value_name = "HOST")]
    host: String,
    /// Task: its name, or FILE:LINE with any of its lines
    #[arg(value_name = "TASK")]
    task: String,
    /// Recorded run of the playbook with the results of earlier tasks; `windlass runs` lists them
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct PlayArguments {
    /// Playbook
    #[arg(value_name = "PLAYBOOK")]
    playbook: PathBuf,
    /// Number or name of a play [default: all plays]
    #[arg(value_name = "PLAY")]
    play: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    options: TaskOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for people
    Text,
    /// JSON for programs
    Json,
}

impl Subject {
    fn common(&self) -> &Common {
        match self {
            Subject::Var(arguments) => &arguments.common,
            Subject::Host(arguments) => &arguments.common,
            Subject::When(arguments) => &arguments.common,
            Subject::Task(arguments) => &arguments.common,
            Subject::Play(arguments) => &arguments.common,
        }
    }

    fn playbook(&self) -> Option<&Path> {
        match self {
            Subject::Var(arguments) => arguments.playbook.as_deref(),
            Subject::Host(arguments) => arguments.playbook.as_deref(),
            Subject::When(arguments) => Some(&arguments.playbook),
            Subject::Task(arguments) => Some(&arguments.playbook),
            Subject::Play(arguments) => Some(&arguments.playbook),
        }
    }

    /// Id of a recorded run.
    fn run(&self) -> Option<&str> {
        match self {
            Subject::Var(arguments) => arguments.run.as_deref(),
            Subject::When(arguments) => arguments.run.as_deref(),
            Subject::Host(arguments) => arguments.run.as_deref(),
            Subject::Task(arguments) => arguments.run.as_deref(),
            Subject::Play(_) => None,
        }
    }

    /// Name of the host; plays have none.
    fn host(&self) -> Option<&str> {
        match self {
            Subject::Var(arguments) => Some(&arguments.host),
            Subject::Host(arguments) => Some(&arguments.host),
            Subject::When(arguments) => Some(&arguments.host),
            Subject::Task(arguments) => Some(&arguments.host),
            Subject::Play(_) => None,
        }
    }
}

/// Everything an explanation is made from.
struct Explainer<'a> {
    session: &'a Session,
    run: PlaybookRun,
    config: &'a Config,
    /// Settings without the options of the command line.
    configured: &'a Settings,
    host: Arc<str>,
    places: Places,
    /// Variables of each `-e`.
    extra_vars: Vec<Arc<Mapping>>,
    /// Recorded run.
    recorded: Option<Recorded>,
}

/// A recorded run of the playbook.
struct Recorded {
    journal: Journal,
    /// Number of the playbook's first play in the run.
    first: u32,
}

/// An explanation as lines and as JSON.
struct Explanation {
    lines: Vec<String>,
    json: Json,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let Some(subject) = &arguments.subject else {
        let settings = Settings::from_config(&Config::find()?)?;
        let explanation = line::about(arguments.line.as_deref().unwrap_or_default())?;
        return print(&explanation, arguments.format, &super::session::printer(&settings));
    };
    let common = subject.common();
    let config = Config::find()?;
    let configured = Settings::from_config(&config)?;
    let mut settings = configured.clone();
    common.options.apply(&mut settings, &config)?;
    settings.explains = true;
    let journal = subject.run().map(|run| journal(run, &settings)).transpose()?;
    if let Subject::When(arguments) = subject {
        let recorded = journal.as_ref().map(|journal| &journal.header);
        let choose = |given: &[String], recorded: Option<&Vec<String>>, configured: &mut Vec<String>| match recorded {
            _ if !given.is_empty() => *configured = given.to_vec(),
            Some(recorded) => configured.clone_from(recorded),
            None => {}
        };
        choose(&arguments.tags, recorded.map(|header| &header.tags), &mut settings.tags);
        choose(&arguments.skip_tags, recorded.map(|header| &header.skip_tags), &mut settings.skip_tags);
    }
    let playbook = subject.playbook().map(|path| existing(path, &settings)).transpose().map_err(|error| {
        let is_swapped = subject.host().is_some_and(|host| Path::new(host).is_file());
        error.maybe_hint(is_swapped.then(|| "name the playbook before the host".to_owned()))
    })?;
    if let Some(path) = &playbook {
        settings.playbook_dir = crate::paths::absolute(path.parent().unwrap_or(Path::new("")));
    }
    let inputs = common.options.inputs(&settings)?;
    let printer = super::session::printer(&settings);
    config.warnings.iter().for_each(|warning| printer.warning(warning));
    let output = Box::new(Outputs::minimal(&printer, &settings, &config)?);
    block_on(async {
        let session = Session::start(settings, inputs, output, &printer)?;
        let sources = Sources { config: &config, configured: &configured, journal };
        let explained = explain(subject, playbook.as_deref(), &session, sources);
        session.end().await;
        print(&explained?, common.format, &printer)
    })
}

/// Path of a playbook file, which may be in a collection.
fn existing(path: &Path, settings: &Settings) -> Result<PathBuf> {
    let found = crate::loader::collection_playbook(&path.display().to_string(), &settings.code.collections_path);
    let path = found.map_or_else(|| path.to_owned(), |path| crate::paths::absolute(&path));
    if !path.is_file() {
        return Err(Error::new(format!("the playbook: {} could not be found", path.display())));
    }
    Ok(path)
}

/// Reads the journal of a run.
fn journal(run: &str, settings: &Settings) -> Result<Journal> {
    read_file(&super::runs::find(&State::of(settings)?, Some(run))?.path)
}

/// Sources of an explanation other than the session.
struct Sources<'a> {
    config: &'a Config,
    configured: &'a Settings,
    journal: Option<Journal>,
}

fn explain(subject: &Subject, playbook: Option<&Path>, session: &Session, sources: Sources<'_>) -> Result<Explanation> {
    let Sources { config, configured, journal } = sources;
    let world = &session.world;
    if let (Subject::Play(arguments), Some(playbook)) = (subject, playbook) {
        return play::about_plays(session, playbook, arguments.play.as_deref());
    }
    let name = subject.host().unwrap_or_default();
    let recorded = match (journal, playbook) {
        (Some(journal), Some(playbook)) => Some(Recorded::new(journal, session, playbook)?),
        _ => None,
    };
    // A run may have added the host.
    let after = recorded.as_ref().map(|recorded| recorded.world_after(session)).transpose()?;
    let inventory = &after.as_ref().unwrap_or(world).inventory;
    let is_host = |name: &str| inventory.host(name).is_some();
    // In the other order, only the second word of `var` is a host.
    let (name, variable) = match subject {
        Subject::Var(given) if !is_host(&given.host) && is_host(&given.name) => (given.name.as_str(), &*given.host),
        Subject::Var(given) => (name, given.name.as_str()),
        _ => (name, ""),
    };
    let Some(found) = inventory.host(name) else {
        let hosts = || inventory.hosts().map(|host| &**host.name());
        let is_misspelt = |name: &str| did_you_mean(name, hosts()).is_some();
        let named = if !is_misspelt(name) && is_misspelt(variable) { variable } else { name };
        let error = unknown_name("host", named, hosts());
        return Err(match inventory.group(name) {
            Some(_) => Error::usage(format!("`{name}` is a group, not a host")),
            None => error,
        });
    };
    inventory.layers(found).map_err(|error| Error::from(error).as_parse())?;
    let extra_vars = subject.common().options.each_extra_vars(&session.shared.files)?;
    let run = PlaybookRun::new(Arc::clone(&session.shared), Arc::clone(world));
    let host = Arc::clone(found.name());
    let places = Places::new();
    let mut explainer = Explainer { session, run, config, configured, host, places, extra_vars, recorded };
    let plays = match playbook {
        Some(path) => explainer.plays(path)?,
        None => Vec::new(),
    };
    match subject {
        Subject::Var(arguments) => explainer.var(variable, plays, playbook, arguments.task.as_deref()),
        Subject::Host(_) => explainer.about_host(plays, playbook),
        Subject::When(arguments) => explainer.when(plays, &arguments.task),
        Subject::Task(arguments) => explainer.about_task(plays, &arguments.task),
        Subject::Play(_) => Err(Error::usage("plays are explained for all hosts")),
    }
}

fn print(explanation: &Explanation, format: Format, printer: &Printer) -> Result<u8> {
    match format {
        Format::Text => explanation.lines.iter().for_each(|line| printer.line(line, Color::Plain)),
        Format::Json => {
            let mut json = explanation.json.clone();
            printer.secrets().mask_json(&mut json);
            super::stdout::print(&(crate::output::nice_json(&json) + "\n"))?;
        }
    }
    Ok(0)
}

impl Recorded {
    /// Checks that the run is of a playbook and of the session's inventory.
    fn new(journal: Journal, session: &Session, playbook: &Path) -> Result<Recorded> {
        let inputs = super::journal::inputs_of(&[playbook.to_owned()], session);
        is_run_of(&journal, &inputs)?;
        let this = playbook.canonicalize().unwrap_or_else(|_| playbook.to_owned());
        let mut first = 0;
        for earlier in journal.header.playbooks.iter().map(Path::new).take_while(|path| *path != this) {
            first += session.shared.loader.playbook(earlier)?.len();
        }
        Ok(Recorded { journal, first: u32::try_from(first).unwrap_or(u32::MAX) })
    }

    /// World after the run, with the groups and hosts that it added.
    fn world_after(&self, session: &Session) -> Result<Arc<World>> {
        let mut run = PlaybookRun::new(Arc::clone(&session.shared), Arc::clone(&session.world));
        for record in &self.journal.records {
            if let Record::Play(play) = record {
                run.remember(&self.journal, play.play)?;
            }
        }
        Ok(Arc::clone(run.world()))
    }

    /// Number in the run of a play of the playbook, given by its index.
    fn number(&self, index: usize) -> u32 {
        self.first.saturating_add(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

/// Maximum number of tasks to explain at once.
const MATCHES: usize = 20;
/// Maximum number of tasks to suggest.
const SIMILAR: usize = 3;

/// A play with its number in the playbook, from 1.
type Numbered = (usize, Entered);

impl Explainer<'_> {
    /// The plays of a playbook, entered for the host.
    fn plays(&mut self, playbook: &Path) -> Result<Vec<Numbered>> {
        let plays = self.session.shared.loader.playbook(playbook)?;
        let mut entered = Vec::new();
        for (index, play) in plays.into_iter().enumerate() {
            let mut one = self.run.entered(&Arc::new(play))?;
            one.for_host(&self.host)?;
            entered.push((index + 1, one));
            // Hosts of later plays may depend on groups that this play created.
            if let Some(recorded) = &self.recorded {
                self.run.remember(&recorded.journal, recorded.number(index))?;
            }
        }
        Ok(entered)
    }

    /// Describes a task that adds groups or hosts during a run.
    fn grouping(&self, task: &Arc<Task>) -> String {
        let label = crate::playbook::label::of_task(task, None);
        format!("{} at {}, task '{label}'", task.short_action(), self.places.span(&task.span))
    }

    /// Tasks of a play and of earlier plays that run on the host before the task at an index.
    fn earlier(&self, plays: &[Numbered], play: usize, before: &[Listed]) -> Vec<Listed> {
        let others = plays.iter().take(play).filter(|(_, other)| other.has(&self.host));
        let mut earlier: Vec<Listed> = others.flat_map(|(_, other)| other.tasks(&self.host)).collect();
        earlier.extend(before.iter().cloned());
        earlier
    }

    /// Applies the groups, facts and variables that a recorded run knew on the host at the end of the play with this
    /// index. Without a run, does nothing.
    fn at_end(&self, plays: &[Numbered], index: usize, entered: &mut Entered) -> Result<()> {
        let Some(recorded) = &self.recorded else { return Ok(()) };
        let before = self.earlier(plays, index, &entered.tasks(&self.host));
        entered.assume(&self.host, &before, Until::Play(recorded.number(index)), Some(&recorded.journal))
    }

    /// Tasks with a name or position. Fails if no task has it.
    fn tasks_named(&self, plays: &[Numbered], wanted: &str) -> Result<Vec<(usize, usize, Vec<Listed>)>> {
        let listed: Vec<Vec<Listed>> = plays.iter().map(|(_, play)| play.tasks(&self.host)).collect();
        type Matches<'m> = &'m dyn Fn(&Listed) -> bool;
        let position = wanted.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)));
        let is_at = |listed: &Listed| {
            let span = &listed.task.span;
            position.is_some_and(|(file, line)| Path::new(&span.source.name).ends_with(file) && has_line(span, line))
        };
        let is_named = |listed: &Listed| names_of(listed).iter().any(|name| name == wanted);
        let lower = wanted.to_lowercase();
        let is_similar = |listed: &Listed| names_of(listed).iter().any(|name| name.to_lowercase() == lower);
        let contains = |listed: &Listed| names_of(listed).iter().any(|name| name.to_lowercase().contains(&lower));
        let searches: [Matches<'_>; 4] = [&is_at, &is_named, &is_similar, &contains];
        for matches in searches {
            let mut found = Vec::new();
            for (index, tasks) in listed.iter().enumerate() {
                let hits = tasks.iter().enumerate().filter(|(_, task)| matches(task));
                found.extend(hits.map(|(at, _)| (index, at, tasks.clone())));
            }
            if found.len() > MATCHES {
                return Err(Error::usage(format!("`{wanted}` matches {} tasks", found.len()))
                    .hint("give the whole name of the task, or FILE:LINE"));
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let all: Vec<String> = listed.iter().flatten().flat_map(names_of).collect();
        let hint = did_you_mean(wanted, all.iter().map(String::as_str)).unwrap_or_else(|| similar_tasks(wanted, &all));
        Err(unknown_name("task", wanted, []).hint(hint))
    }
}

/// Names the tasks that share words with a name that no task has, or the command that lists all.
fn similar_tasks(wanted: &str, all: &[String]) -> String {
    let words = |name: &str| -> BTreeSet<String> {
        let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
        words.map(str::to_lowercase).collect()
    };
    let wanted = words(wanted);
    let shared = |name: &String| words(name).intersection(&wanted).count();
    let mut similar: Vec<(usize, &String)> = Vec::new();
    for name in all {
        if shared(name) > 0 && !similar.iter().any(|(_, other)| *other == name) {
            similar.push((shared(name), name));
        }
    }
    similar.sort_by_key(|(count, _)| Reverse(*count));
    let shown: Vec<String> = similar.iter().take(SIMILAR).map(|(_, name)| format!("`{name}`")).collect();
    match shown.is_empty() {
        true => "`windlass playbook PLAYBOOK --list-tasks` lists the tasks".to_owned(),
        false => format!("tasks with similar names: {}", shown.join(", ")),
    }
}

/// Whether the task that starts at this position has a line: all lines from its first one on are indented below it.
fn has_line(start: &Span, line: u32) -> bool {
    let indent = |text: &str| text.len() - text.trim_start().len();
    let Some(first) = start.source.line(start.line).filter(|_| start.is_located() && start.line <= line) else {
        return false;
    };
    // Without its dash on the same line, the task is a mapping whose keys are indented alike.
    let least = if first.trim_start().starts_with('-') { indent(first) + 1 } else { indent(first) };
    (start.line + 1..=line).all(|number| {
        let text = start.source.line(number);
        text.is_some_and(|text| text.trim().is_empty() || indent(text) >= least)
    })
}

/// Names of a task: as written, and with its role.
fn names_of(listed: &Listed) -> Vec<String> {
    let label = crate::playbook::label::of_task(&listed.task, None);
    let own = listed.task.name.as_ref().and_then(windlass_yaml::Node::scalar_text);
    own.into_iter().chain([label]).collect()
}

/// Aligns rows of cells; the last column keeps its length.
fn table(rows: &[Vec<String>], indent: usize) -> Vec<String> {
    let indented = |line: &String| format!("{}{line}", " ".repeat(indent)).trim_end().to_owned();
    aligned(rows, 60).iter().map(indented).collect()
}
