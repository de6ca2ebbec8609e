//! `windlass playbook`: runs playbooks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use windlass_inventory::limit_files;

use super::engine::EngineOptions;
use super::journal::{self, JournalOptions};
use super::misspelt;
use super::options::{Inputs, TaskOptions};
use super::session::{Session, block_on};
use super::shards::{self, ShardOptions};
use crate::error::{Error, Result};
use crate::journal::limit_patterns;
use crate::output::{Event, Output, Outputs};
use crate::panics;
use crate::plan::TagFilter;
use crate::planned::{ExtraVars, Request};
use crate::playbook::{Item, Play};
use crate::settings::{Color, Config, EventsTo, OutputForm, Settings, Show};
use crate::shards::{Shards, ToLead};
use crate::strategy::PlaybookRun;
use crate::vars::Answers;

/// Tasks, hosts and connections of a run, for every subcommand that runs playbooks.
#[derive(Debug, Default, Args)]
pub(super) struct Selection {
    /// Run only tasks with these tags, separated by commas; repeatable
    #[arg(short, long, value_name = "TAGS")]
    tags: Vec<String>,
    /// Skip tasks with these tags, separated by commas; repeatable
    #[arg(long, value_name = "TAGS")]
    skip_tags: Vec<String>,
    /// Run notified handlers even on failed hosts
    #[arg(long)]
    force_handlers: bool,
    /// Start at the task with this name; wildcards are allowed
    #[arg(long, value_name = "NAME")]
    start_at_task: Option<String>,
    /// Delete cached facts before the run
    #[arg(long)]
    flush_cache: bool,
    #[command(flatten)]
    pub(super) options: TaskOptions,
    /// Extra variables of a plan file, which `-e` overrides.
    #[arg(skip)]
    pub(super) carried: Vec<ExtraVars>,
    /// Answers to `vars_prompt` that the plan before the run has asked for.
    #[arg(skip)]
    answers: Answers,
}

/// Run playbooks
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:
  windlass playbook -i hosts.yml site.yml                   # run a playbook
  windlass playbook -i hosts.yml site.yml --check --diff    # predict and show changes
  windlass playbook -i hosts.yml site.yml -l web -t config  # only some hosts and tasks
  windlass playbook -i hosts.yml site.yml --resume          # continue a failed run
  windlass playbook -i hosts.yml site.yml --engine kubernetes # run in a pod of a cluster")]
pub(super) struct Arguments {
    /// Playbooks to run in order
    #[arg(required_unless_present = "resume", value_name = "PLAYBOOK")]
    pub(super) playbooks: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Check the playbooks and exit
    #[arg(long, help_heading = "Run")]
    syntax_check: bool,
    /// List the hosts of every play and exit
    #[arg(long, help_heading = "Run")]
    list_hosts: bool,
    /// List the tasks and exit
    #[arg(long, help_heading = "Run")]
    list_tasks: bool,
    /// List the tags and exit
    #[arg(long, help_heading = "Run")]
    list_tags: bool,
    /// Confirm every task before it runs
    #[arg(long, help_heading = "Run")]
    step: bool,
    /// Results to print [default: changed at a terminal, elsewhere all]
    #[arg(long, value_name = "RESULTS", value_enum, help_heading = "Output")]
    show: Option<Show>,
    /// Form of the output [default: auto]
    #[arg(long, value_name = "FORM", value_enum, help_heading = "Output")]
    output: Option<OutputForm>,
    /// Explain each change in a few lines, instead of differences
    #[arg(long, help_heading = "Output")]
    why: bool,
    /// Print a per-task breakdown of time at the end
    #[arg(long, help_heading = "Output")]
    timings: bool,
    /// Write events as JSON lines while the run lasts, to this file or to the descriptor with this number
    #[arg(long, value_name = "FILE|FD", help_heading = "Output")]
    events: Option<String>,
    /// Write a trace of the run for Perfetto (ui.perfetto.dev) to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    trace: Option<PathBuf>,
    /// Send the trace of the run to this OpenTelemetry collector when it ends
    #[arg(long, value_name = "URL", help_heading = "Output")]
    otlp: Option<String>,
    /// Write a plan to this file instead of running, like `windlass plan -o`
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Run",
        conflicts_with_all = ["resume", "step", "syntax_check", "list_hosts", "list_tasks", "list_tags"]
    )]
    plan: Option<PathBuf>,
    /// Pass an option to SSH, like --ssh-option; repeatable
    #[arg(short = 'o', value_name = "OPTION", help_heading = "Connection")]
    ssh_options: Vec<String>,
    #[command(flatten)]
    pub(super) sharding: ShardOptions,
    /// Read variables of a form of `windlass serve` from standard input
    #[arg(long, hide = true)]
    form: bool,
    #[command(flatten)]
    journal: JournalOptions,
    #[command(flatten)]
    engine: EngineOptions,
}

impl Arguments {
    /// An ordinary run of these playbooks.
    pub(super) fn of(playbooks: Vec<PathBuf>, selection: Selection) -> Arguments {
        Arguments { playbooks, selection, sharding: ShardOptions::one(), ..Arguments::default() }
    }
}

/// Runs the subcommand.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    if let Some(file) = arguments.plan {
        return super::plan::to_file(arguments.playbooks, arguments.selection, arguments.ssh_options, file);
    }
    arguments.engine.check()?;
    if arguments.engine.is_kubernetes() {
        let mut settings = Settings::from_config(&Config::find()?)?;
        settings.shards = arguments.sharding.shards.unwrap_or(settings.shards);
        return arguments.engine.start(&settings);
    }
    // Read first: a password program inherits standard input.
    let form = arguments.form.then(super::form::read).transpose()?;
    let config = Config::find()?;
    let mut settings = Settings::from_config(&config)?;
    let mut arguments = arguments;
    arguments.selection.apply(&mut settings, &config)?;
    let word = arguments.journal.apply(&mut settings)?;
    arguments.playbooks.splice(0..0, word);
    if arguments.playbooks.is_empty() {
        arguments.playbooks = arguments.journal.playbooks(&settings)?;
    }
    settings.connect.ssh_options.extend(arguments.ssh_options.iter().cloned());
    settings.step = arguments.step;
    settings.output.timings = arguments.timings;
    settings.output.show = arguments.show.or(settings.output.show);
    settings.output.form = arguments.output.unwrap_or(settings.output.form);
    settings.output.settle(settings.verbosity);
    settings.output.why = arguments.why;
    // Modules report what they changed only as a difference.
    settings.diff |= arguments.why;
    settings.output.footer = true;
    settings.output.events = arguments.events.as_deref().map(EventsTo::of);
    settings.output.trace.clone_from(&arguments.trace);
    settings.output.otlp_endpoint = arguments.otlp.clone().or(settings.output.otlp_endpoint);
    settings.shards = arguments.sharding.shards.unwrap_or(settings.shards);
    settings.lead = arguments.sharding.shard_lead.unwrap_or_default();
    if form.is_some() {
        // Standard input can be read by one process only.
        settings.shards = 1;
    }
    // Tasks sent ahead would not wait for the other processes.
    settings.stream &= settings.shards < 2;
    let lead = arguments.sharding.lead();
    if let Some(lead) = &lead {
        shards::quieten(&mut settings, lead)?;
    }
    find_playbooks(&mut arguments.playbooks, &mut settings)?;
    let mut inputs = arguments.selection.inputs(&settings)?;
    if let Some(form) = &form {
        super::form::add(form, &mut inputs);
    }
    settings.inventory.limit_patterns =
        arguments.journal.limit_patterns(&arguments.playbooks, &settings, &inputs.extra_vars);
    let printer = super::session::printer(&settings);
    super::session::tell_config(&settings, &printer);
    config.warnings.iter().for_each(|warning| printer.warning(warning));
    let stdout = settings.output.stdout_callback.clone();
    let enabled = settings.output.callbacks_enabled.clone();
    let output: Box<dyn Output> = match &lead {
        Some(_) => Box::new(shards::Silent),
        None => Box::new(Outputs::new(&stdout, &enabled, &printer, &settings, &config)?),
    };
    block_on(async {
        let worker = match &lead {
            Some(lead) => match shards::connect(lead).await? {
                Some(worker) => Some(worker),
                // The run has ended, or goes on without this process.
                None => return Ok(0),
            },
            None => None,
        };
        let own = worker.as_ref().map(|worker| worker.events.clone());
        let session = Session::start_with(settings, inputs, output, &printer, own)?;
        if let Some(worker) = worker {
            worker.follow(&session).await;
        }
        let outcome = panics::caught_in(drive(&arguments, &session, &printer)).await.flatten();
        session.exits(&outcome);
        session.end().await;
        outcome
    })
}

impl Selection {
    /// Applies the options to the settings.
    pub(super) fn apply(&self, settings: &mut Settings, config: &Config) -> Result<()> {
        self.options.apply(settings, config)?;
        settings.force_handlers |= self.force_handlers;
        settings.start_at_task.clone_from(&self.start_at_task);
        let words = |list: &[String]| {
            list.iter()
                .flat_map(|text| text.split(','))
                .map(|tag| tag.trim().to_owned())
                .filter(|tag| !tag.is_empty())
                .collect::<Vec<_>>()
        };
        if !self.tags.is_empty() {
            settings.tags = words(&self.tags);
        }
        if !self.skip_tags.is_empty() {
            settings.skip_tags = words(&self.skip_tags);
        }
        Ok(())
    }

    /// Reads vault passwords and extra variables.
    pub(super) fn inputs(&self, settings: &Settings) -> Result<Inputs> {
        let mut inputs = self.options.inputs(settings)?;
        inputs.answers = self.answers.clone();
        if !self.carried.is_empty() {
            inputs.extra_vars = super::plan::with_carried(&self.carried, &inputs)?;
        }
        Ok(inputs)
    }

    /// Adds the options that a plan file may carry.
    pub(super) fn carry(&self, request: &mut Request) {
        request.tags.clone_from(&self.tags);
        request.skip_tags.clone_from(&self.skip_tags);
        request.options.extend(self.start_at_task.clone().map(|name| ("start-at-task".to_owned(), name)));
        let flags = [("force-handlers", self.force_handlers), ("flush-cache", self.flush_cache)];
        request.flags.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (*name).to_owned()));
        self.options.carry(request);
    }

    /// Deletes cached facts, if requested.
    pub(super) fn flush(&self, session: &Session) {
        if self.flush_cache {
            session.flush_cache();
        }
    }
}

/// Finds the playbooks, also in collections, and names the run after them.
pub(super) fn find_playbooks(playbooks: &mut [PathBuf], settings: &mut Settings) -> Result<()> {
    for playbook in playbooks.iter_mut() {
        let name = playbook.display().to_string();
        if let Some(path) = crate::loader::collection_playbook(&name, &settings.code.collections_path) {
            *playbook = crate::paths::absolute(&path);
        }
        if !playbook.exists() {
            let error = Error::new(format!("the playbook: {} could not be found", playbook.display()));
            return Err(error.maybe_hint(of_clusters(&name).map(|path| format!("is `{path}` meant?"))));
        }
        if playbook.is_dir() {
            return Err(Error::new(format!("the playbook: {} does not appear to be a file", playbook.display())));
        }
    }
    settings.playbook_dir =
        crate::paths::absolute(playbooks.first().and_then(|path| path.parent()).unwrap_or(Path::new("")));
    let names: Vec<_> = playbooks.iter().map(|path| path.display().to_string()).collect();
    settings.run_name = format!("playbook {}", names.join(" "));
    Ok(())
}

/// The playbook in `playbooks/` that corresponds to one of Kubespray's top-level playbooks.
fn of_clusters(name: &str) -> Option<String> {
    let name = match name {
        "upgrade-cluster.yml" => "upgrade.yml".to_owned(),
        "recover-control-plane.yml" => "recover.yml".to_owned(),
        name => name.replace('-', "_"),
    };
    let path = format!("playbooks/{name}");
    Path::new(&path).is_file().then_some(path)
}

/// Reads all playbooks before the first one runs, so that a mistake in the last is found before hosts change.
pub(super) fn load<'a>(playbooks: &'a [PathBuf], session: &Session) -> Result<Vec<(&'a PathBuf, Vec<Play>)>> {
    let shared = &session.shared;
    let mut loaded = Vec::new();
    for path in playbooks {
        loaded.push((path, shared.loader.playbook(path)?));
    }
    for warning in shared.files.take_warnings() {
        shared.warn(warning);
    }
    for (_, plays) in &loaded {
        for sentence in crate::foreign::unusable(&session.plugins, plays) {
            shared.warn(sentence);
        }
    }
    let plays = || loaded.iter().flat_map(|(_, plays)| plays);
    let settings = &shared.run.settings;
    let misspelt = misspelt::tags(plays(), settings).into_iter().chain(misspelt::handlers(plays(), settings));
    misspelt.chain(misspelt::variables(plays(), session)).for_each(|sentence| shared.warn(sentence));
    Ok(loaded)
}

async fn drive(arguments: &Arguments, session: &Session, printer: &crate::output::Printer) -> Result<u8> {
    let shared = &session.shared;
    let loaded = load(&arguments.playbooks, session)?;
    arguments.selection.flush(session);
    let mut run = PlaybookRun::new(Arc::clone(shared), Arc::clone(&session.world));
    if arguments.list_hosts || arguments.list_tasks || arguments.list_tags || arguments.syntax_check {
        // Prints nothing until all playbooks are known to be valid.
        let mut listed = Vec::new();
        for (path, plays) in &loaded {
            let of_play = |play| Listed::of(play, arguments.list_hosts, &run);
            listed.push((path, plays.iter().map(of_play).collect::<Result<Vec<_>>>()?));
        }
        for (path, plays) in &listed {
            list(arguments, path, plays, shared, printer);
        }
        return Ok(0);
    }
    let leads = shared.run.settings.shards > 1 && arguments.sharding.lead().is_none();
    if leads {
        shards::refuse(loaded.iter().flat_map(|(_, plays)| plays), session)?;
    }
    journal::begin(&arguments.journal, &loaded, session).await?;
    if leads {
        shards::lead(session, &arguments.sharding).await?;
    }
    if let Some(Shards::Worker(link)) = shared.shards.get() {
        link.send(ToLead::Reached(1));
    }
    let outcome = run_all(loaded, &mut run, session).await;
    if let Some(Shards::Worker(link)) = shared.shards.get() {
        if outcome.as_ref().is_err_and(Error::is_bug) {
            // The lead learns it from the end of the connection.
            return outcome;
        }
        link.end().await;
        // The lead has the same error, and prints it. After a signal, another process may take this one's place.
        return Ok(outcome.ok().filter(|code| crate::signals::is_signal(*code)).unwrap_or(0));
    }
    let code = outcome.as_ref().map_or_else(Error::exit_code, |code| *code);
    journal::end(code, &run.failed_hosts(), shared);
    super::otlp::send(shared).await;
    outcome
}

/// Runs the playbooks in order until one fails. Returns the exit code.
pub(super) async fn run_all(
    loaded: Vec<(&PathBuf, Vec<Play>)>,
    run: &mut PlaybookRun,
    session: &Session,
) -> Result<u8> {
    let shared = &session.shared;
    for (path, plays) in loaded {
        let names = plays.iter().map(|play| play.name.clone()).collect();
        session.begin(path.display().to_string(), names).await;
        let text = format!("{} plays in {}", plays.len(), path.display());
        let _ = shared.events.send(Event::Verbose { level: 2, text });
        if let Some(code) = session.plays(run, plays).await? {
            return Ok(code);
        }
        if shared.run.settings.output.retry_files {
            write_retry_file(path, &run.failed_hosts(), session);
        }
        let summary = run.summary();
        let _ = shared.events.send(Event::Recap(summary.recap));
        if summary.exit_code != 0 {
            return Ok(summary.exit_code);
        }
    }
    Ok(0)
}

/// Writes the names of failed hosts to a file for `--limit @FILE`.
fn write_retry_file(playbook: &Path, hosts: &[&str], session: &Session) {
    let shared = &session.shared;
    if hosts.is_empty() {
        return;
    }
    let folder = shared.run.settings.output.retry_folder.clone();
    let folder = folder.unwrap_or_else(|| crate::paths::absolute(playbook.parent().unwrap_or(Path::new(""))));
    let file = folder.join(playbook.with_extension("retry").file_name().unwrap_or_default());
    let lines: String = hosts.iter().map(|host| format!("{host}\n")).collect();
    match std::fs::create_dir_all(&folder).and_then(|()| crate::replace::write(&file, &lines)) {
        Ok(()) => {
            note_replaced_limit(&file, session);
            let text = format!("\tto retry, use: --limit @{}", file.display());
            let _ = shared.events.send(Event::Notice(text));
        }
        Err(error) => shared.warn(format!("Could not create retry file '{}': {error}", file.display())),
    }
}

/// Notes in the journal that a file of `--limit` has changed, if the journal has the patterns that it had.
fn note_replaced_limit(file: &Path, session: &Session) {
    let settings = &session.shared.run.settings;
    let Some(recorder) = session.shared.journal.get() else { return };
    let is_file =
        |named: &PathBuf| named.canonicalize().is_ok_and(|named| file.canonicalize().is_ok_and(|file| file == named));
    let limit = settings.inventory.limit.as_deref().unwrap_or_default();
    if limit_files(limit).iter().any(is_file) && limit_patterns(settings, &session.world.inventory).is_some() {
        recorder.replaced_limit(file);
    }
}

/// A play with the hosts to list.
struct Listed<'a> {
    play: &'a Play,
    name: String,
    patterns: Vec<String>,
    hosts: Option<Vec<Arc<str>>>,
}

impl<'a> Listed<'a> {
    fn of(play: &'a Play, with_hosts: bool, run: &PlaybookRun) -> Result<Self> {
        let patterns = run.patterns_of(play)?;
        // Patterns that match nothing are reported in any case.
        let hosts = run.matching(play, &patterns)?;
        Ok(Listed { play, name: run.name_of(play), patterns, hosts: with_hosts.then_some(hosts) })
    }
}

/// Carries out `--list-hosts`, `--list-tasks`, `--list-tags` and `--syntax-check`.
fn list(
    arguments: &Arguments,
    path: &Path,
    plays: &[Listed<'_>],
    shared: &crate::strategy::Shared,
    printer: &crate::output::Printer,
) {
    printer.line(&format!("\nplaybook: {}", path.display()), Color::Plain);
    if arguments.syntax_check {
        return;
    }
    let mut tags = shared.run.settings.tags.clone();
    if arguments.list_tags && arguments.selection.tags.is_empty() && arguments.selection.skip_tags.is_empty() {
        // The list of tags includes the tags of tasks tagged `never`.
        tags.push("never".to_owned());
    }
    let filter = TagFilter::new(&tags, &shared.run.settings.skip_tags);
    for (index, Listed { play, name, patterns, hosts: matched }) in plays.iter().enumerate() {
        let hosts = patterns.join(",");
        printer.line(
            &format!("\n  play #{} ({hosts}): {name}\tTAGS: [{}]", index + 1, play.frame.tags.join(",")),
            Color::Plain,
        );
        if let Some(matched) = matched {
            let patterns = match patterns.is_empty() {
                true => "None".to_owned(),
                false => windlass_template::repr(&patterns.iter().map(String::as_str).collect()),
            };
            printer.line(&format!("    pattern: {patterns}\n    hosts ({}):", matched.len()), Color::Plain);
            matched.iter().for_each(|host| printer.line(&format!("      {host}"), Color::Plain));
        }
        if arguments.list_tasks {
            printer.line("    tasks:", Color::Plain);
        }
        let mut tags = Vec::new();
        for items in [&play.pre_tasks, &play.tasks, &play.post_tasks] {
            list_items(items, arguments, &filter, printer, &mut tags);
        }
        if arguments.list_tags {
            tags.sort();
            tags.dedup();
            printer.line(&format!("      TASK TAGS: [{}]", tags.join(", ")), Color::Plain);
        }
    }
}

fn list_items(
    items: &[Item],
    arguments: &Arguments,
    filter: &TagFilter,
    printer: &crate::output::Printer,
    tags: &mut Vec<String>,
) {
    for item in items {
        match item {
            Item::Block(block) => {
                // Ansible lists only tasks that run without a failure.
                list_items(&block.body, arguments, filter, printer, tags);
            }
            Item::Task(task) => {
                if let Some(looped) = &task.looped {
                    list_items(&looped.block.body, arguments, filter, printer, tags);
                    continue;
                }
                if !filter.selects(&task.tags) {
                    continue;
                }
                tags.extend(task.tags.iter().cloned());
                if arguments.list_tasks {
                    let mut shown: Vec<&str> = task.tags.iter().map(String::as_str).collect();
                    shown.sort_unstable();
                    let label = match task.name {
                        Some(_) => crate::playbook::label::of_task(task, None),
                        None => task.action.clone(),
                    };
                    printer.line(&format!("      {label}\tTAGS: [{}]", shown.join(", ")), Color::Plain);
                }
            }
        }
    }
}
