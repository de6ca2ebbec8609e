//! Common parts of subcommands that reach hosts: settings, inventory, engine, connections and printer.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, Once};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use windlass_inventory::{DirectoryFilter, Inventory, LoadOptions, Warning};
use windlass_template::{Engine, LIBRARY, Variable};
use windlass_yaml::Mapping;

use super::options::Inputs;
use crate::error::{Error, Result, did_you_mean};
use crate::executor::{Heartbeat, Limits, Lock, Pool, outlive_controller, raw_is_under_way};
use crate::foreign::{Modules, ModulesOptions, Print, PythonPlugins};
use crate::journal::State;
use crate::loader::Loader;
use crate::outcome::{Jobs, Kept};
use crate::output::{
    AtTerminal, Event, EventQueue, Events, Masker, Output, Printer, Secrets, event_queue, print_details,
};
use crate::panics;
use crate::playbook::{Files, Play};
use crate::settings::{Color, FactCaching, Settings};
use crate::shards::Shards;
use crate::signals::{self, Signals, until_signal};
use crate::strategy::{PlaybookRun, Reload, Shared};
use crate::vars::{BaseSettings, FactCache, FindPython, InventoryExpressions, Run, World, secrecy};

/// Time for hosts to close their connections after a signal.
const CLOSING: Duration = Duration::from_secs(10);
/// Time after a signal until threads that evaluate templates have to run anything else.
const WORKERS_TO_ANSWER: Duration = Duration::from_secs(5);
/// Time for threads that still work when a run has ended.
const THREADS: Duration = Duration::from_secs(2);
/// Time for a run to end in order after a panic.
const AFTER_BUG: Duration = Duration::from_secs(60);

/// Effect of the program's end on tasks whose executors end with their connection.
const STOP: &str = "hosts stop their tasks when they notice";

/// Everything that a run needs.
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) world: Arc<World>,
    /// Filters, tests and lookups in Python.
    pub(super) plugins: Arc<PythonPlugins>,
    printer: JoinHandle<()>,
}

/// Creates the printer for all output.
pub(super) fn printer(settings: &Settings) -> Printer {
    let secrets = Secrets::of_process();
    settings.facts.passwords().for_each(|password| secrets.add_password(password));
    let of_hosts = settings.connect.password.iter().chain(&settings.r#become.password);
    of_hosts.for_each(|password| secrets.add_password(password.expose()));
    let printer = Printer::new(settings.output.color, secrets)
        .with_palette(&settings.output.palette)
        .with_verbosity(settings.verbosity, settings.output.log_verbosity);
    let printer = match &settings.output.log_path {
        Some(path) => printer.with_log(path),
        None => printer,
    };
    print_details(&printer);
    printer
}

/// Prints the path of the configuration file at `-v`.
pub(super) fn tell_config(settings: &Settings, printer: &Printer) {
    if settings.verbosity > 0 {
        let line = match &settings.config_file {
            Some(file) => format!("Using {} as config file", file.display()),
            None => "No config file found; using defaults".to_owned(),
        };
        printer.line(&line, Color::Verbose);
    }
}

/// Reads the configured inventory. `engine` evaluates its expressions.
pub(super) fn inventory(
    settings: &Settings,
    engine: &Engine,
    plugins: Arc<PythonPlugins>,
    extra_vars: &Arc<Mapping>,
    warn: &mut dyn FnMut(String),
) -> Result<Inventory> {
    let options = LoadOptions { foreign_plugins: Some(plugins), ..LoadOptions::default() };
    inventory_by(settings, engine, options, extra_vars, warn)
}

/// Like [`inventory`], with options for loading that no setting has.
fn inventory_by(
    settings: &Settings,
    engine: &Engine,
    options: LoadOptions,
    extra_vars: &Arc<Mapping>,
    warn: &mut dyn FnMut(String),
) -> Result<Inventory> {
    let mut directory_filter = DirectoryFilter::default();
    if !settings.inventory.ignore_extensions.is_empty() {
        directory_filter.extensions.clone_from(&settings.inventory.ignore_extensions);
    }
    for pattern in &settings.inventory.ignore_patterns {
        let regex = regex::Regex::new(pattern)
            .map_err(|error| Error::usage(format!("ignore_patterns is not a valid regular expression: {error}")))?;
        directory_filter.patterns.push(regex);
    }
    let mut options = LoadOptions {
        directory_filter,
        unparsed_is_error: settings.inventory.any_unparsed_is_failed,
        missing_is_error: settings.inventory.is_named,
        nothing_is_error: settings.inventory.unparsed_is_failed,
        group_names: settings.inventory.group_names,
        secrets: engine.options().secrets.clone(),
        script_timeout: settings.command_timeout,
        playbook_dir: Some(settings.playbook_dir.clone()),
        duplicate_keys: settings.duplicate_keys,
        expressions: Some(Arc::new(InventoryExpressions(engine.clone()))),
        extra_vars: Arc::clone(extra_vars),
        use_extra_vars: settings.inventory.use_extra_vars,
        merge_hashes: settings.merge_hashes,
        keep_places: settings.explains,
        ..options
    };
    if !settings.inventory.plugins.is_empty() {
        options.enabled.clone_from(&settings.inventory.plugins);
    }
    let mut sources = settings.inventory.sources.clone();
    if sources.is_empty() && std::path::Path::new("/etc/ansible/hosts").exists() {
        sources.push("/etc/ansible/hosts".to_owned());
    }
    let (mut inventory, warnings) = Inventory::load(&sources, &options)?;
    for warning in &warnings {
        let hint = matches!(warning, Warning::NoInventory if sources.is_empty()).then(name_inventory);
        warn(format!("{warning}{}", hint.unwrap_or_default()));
    }
    if let Some(patterns) = settings.inventory.limit_patterns.clone() {
        inventory.set_limit_patterns(patterns);
        return Ok(inventory);
    }
    for warning in inventory.set_limit(settings.inventory.limit.as_deref())? {
        warn(crate::error::inventory_warning(&warning, &inventory));
    }
    Ok(inventory)
}

/// Plugins in Python that the settings name. `print` prints what they print.
fn python_plugins(settings: &Settings, modules: Arc<Modules>, print: Print) -> Arc<PythonPlugins> {
    let commands = windlass_bounds::child::Limits::within(settings.command_timeout);
    let code = &settings.code;
    let plugins = PythonPlugins::new(modules, settings.playbook_dir.clone(), print).with_limits(commands);
    let plugins = plugins.with_vars(code.vars_plugins.clone(), code.vars_plugins_enabled.clone());
    Arc::new(match &settings.facts.cache {
        FactCaching::Plugin { name, .. } => plugins.with_cache(name.clone(), code.cache_plugins.clone()),
        FactCaching::Memory | FactCaching::Files { .. } => plugins,
    })
}

/// Plugins for a verb that runs no tasks. `files` decrypts with the secrets of the verb.
pub(super) fn plugins_without_tasks(settings: &Settings, files: Files) -> Arc<PythonPlugins> {
    let printer = Printer::plain(Secrets::of_process());
    let print = Print::by(move |line| printer.error_line(line, Color::Plain));
    python_plugins(settings, modules(settings, Arc::new(files)), print)
}

/// Search paths for collections: those beside the playbook take precedence over installed ones.
fn collections(settings: &Settings) -> Vec<PathBuf> {
    std::iter::once(settings.playbook_dir.join("collections"))
        .chain(settings.code.collections_path.iter().cloned())
        .collect()
}

/// Finder of the modules and plugins that the settings name.
pub(super) fn modules(settings: &Settings, files: Arc<Files>) -> Arc<Modules> {
    let options = ModulesOptions {
        first: settings.code.module_path.clone(),
        library: settings.code.library.clone(),
        module_utils: settings.code.module_utils.clone(),
        plugins: settings.code.plugins.clone(),
        callbacks: settings.code.callbacks.clone(),
        actions: settings.code.actions.clone(),
        playbook_dir: settings.playbook_dir.clone(),
        collections: collections(settings),
        ansible_core: settings.code.ansible_core.clone(),
        rejected: settings.code.rejected.clone(),
    };
    Arc::new(Modules::new(options, files))
}

/// The template engine of a run.
fn engine(
    settings: &Settings,
    vault: windlass_vault::Secrets,
    plugins: Arc<PythonPlugins>,
    events: &Events,
    reads: &windlass_template::Reads,
) -> Engine {
    Engine::new(
        &LIBRARY,
        windlass_template::Options {
            compat: settings.compat,
            allow_broken_conditionals: settings.allow_broken_conditionals,
            jinja2_native: settings.jinja2_native,
            playbook_dir: settings.playbook_dir.clone(),
            secrets: vault,
            revealed: windlass_template::Revealed::default(),
            reads: reads.clone(),
            plugins: Some(plugins),
            settings: Some(Arc::new(BaseSettings::new(events.clone()))),
            commands: windlass_bounds::child::Limits::within(settings.command_timeout),
            managed: settings.ansible_managed.clone(),
            limits: windlass_template::Limits::default(),
            passive: settings.explains,
        },
    )
}

/// The connections of a run.
fn pool(settings: &Settings, events: &Events) -> Pool<windlass_template::Value> {
    let limits = Limits {
        heartbeat: Heartbeat::lost_after(settings.connect.heartbeat_timeout),
        largest_file: settings.connect.max_fetch_size,
        peer_port: settings.connect.peer_transfer.then_some(settings.connect.peer_port),
        ..Limits::default()
    };
    let lock = Lock::new(settings.lock.policy, settings.lock.timeout, settings.lock.is_chosen, &settings.run_name);
    Pool::for_user(limits, Arc::new(AtTerminal::new(events.clone()))).locking(lock)
}

/// Passes events to the output until the last one.
async fn show(mut output: Box<dyn Output>, mut queue: EventQueue, mut masker: Masker) {
    let mut beat = output.interval().map(tokio::time::interval);
    if let Some(beat) = &mut beat {
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        let event = match &mut beat {
            None => queue.recv().await,
            Some(beat) => tokio::select! {
                biased;
                event = queue.recv() => event,
                _ = beat.tick() => {
                    output.tick();
                    continue;
                }
            },
        };
        let Some(event) = event else { return };
        for event in masker.mask(event) {
            output.event(&event);
            match &*event {
                Event::End => return,
                Event::Prompt { shown: done, .. } | Event::PlaybookStart { ready: done, .. } => drop(done.send(())),
                _ => {}
            }
        }
    }
}

/// Warns of settings without an effect, and passes on the warnings of the settings.
fn warn_of(settings: &Settings, events: &Events) {
    for name in &settings.unsupported {
        let _ = events.send(Event::Warning(format!("the {name} has no effect here")));
    }
    settings.warnings.iter().for_each(|sentence| drop(events.send(Event::Warning(sentence.clone()))));
}

/// Warns of an inventory without hosts, unless a warning that no source could be read includes this.
fn warn_of_no_hosts(settings: &Settings, inventory: &Inventory, events: &Events) {
    if settings.inventory.localhost_warning && inventory.hosts().next().is_none() && inventory.was_read() {
        let sentence = "provided hosts list is empty, only localhost is available. Note that the implicit localhost does not match 'all'";
        let _ = events.send(Event::Warning(sentence.to_owned()));
    }
}

/// Reads the inventory again, past its cache.
fn reload(
    settings: &Settings,
    engine: &Engine,
    extra_vars: &Arc<Mapping>,
    plugins: &Arc<PythonPlugins>,
    events: &Events,
) -> Reload {
    let (settings, engine, extra_vars) = (settings.clone(), engine.clone(), Arc::clone(extra_vars));
    let (plugins, events) = (Arc::clone(plugins), events.clone());
    Box::new(move || {
        let plugins: Arc<PythonPlugins> = Arc::clone(&plugins);
        let options = LoadOptions { foreign_plugins: Some(plugins), use_cache: false, ..LoadOptions::default() };
        inventory_by(&settings, &engine, options, &extra_vars, &mut |sentence| {
            let _ = events.send(Event::Warning(sentence));
        })
    })
}

/// Reports variables of the inventory and of the command line with reserved names, and masks the passwords among them.
fn check_variables(loader: &Loader, world: &World) {
    let of_groups = world.inventory.groups().map(|group| group.variables());
    let of_hosts = world.inventory.hosts().map(|host| host.variables());
    for vars in of_groups.chain(of_hosts).chain([&world.run.extra_vars]) {
        loader.warn_of_reserved(vars);
        secrecy::learn(&world.run.secrets, |name| vars.get(name).cloned().map(Variable::Text));
    }
}

/// Advice for a command without an inventory, with a file of this directory that is probably one.
fn name_inventory() -> String {
    let names = ["hosts.yml", "hosts.ini", "hosts", "inventory"];
    let found = names.into_iter().find(|name| std::path::Path::new(name).exists()).unwrap_or("INVENTORY");
    format!(" Name one with `-i {found}`, or with `inventory` in ansible.cfg.")
}

/// Refuses a limit that leaves no host. An empty inventory still has the implicit localhost.
fn refuse_limit_without_hosts(settings: &Settings, inventory: &Inventory, printer: &Printer) -> Result<()> {
    let is_limited = inventory.hosts().next().is_some() && !inventory.excludes_all();
    let Some(limit) = settings.inventory.limit.as_deref().filter(|_| is_limited) else { return Ok(()) };
    let within = inventory.matching("all")?;
    if ["localhost", "127.0.0.1", "::1"].contains(&limit) || !within.hosts.is_empty() {
        return Ok(());
    }
    // Nobody waits for events any more, and these warnings name the wrong part of the limit.
    let warnings = within.warnings.iter();
    warnings.for_each(|warning| printer.warning(&crate::error::inventory_warning(warning, inventory)));
    let names = || inventory.groups().map(|group| &**group.name()).chain(inventory.hosts().map(|host| &**host.name()));
    // The warnings above have suggestions for longer names only, since short ones are near others by accident.
    let short = limit.split([',', ':']).filter(|part| part.chars().count() < 5);
    let hint = short.filter_map(|part| did_you_mean(part, names())).next();
    let error = Error::new("Specified inventory, host pattern and/or --limit leaves us with no hosts to target.");
    Err(error.maybe_hint(hint))
}

/// An error, for programs that follow the run. People read it on standard error.
fn report_of(error: &Error) -> Event {
    let place = error.span().filter(|span| span.is_located() && !span.source.is_secret());
    Event::Error { message: error.message().to_owned(), place: place.map(ToString::to_string) }
}

/// An error, once the output has ended.
fn after(error: Error, events: &Events, output: JoinHandle<()>) -> Error {
    let _ = events.send(report_of(&error));
    let _ = events.send(Event::Exit { code: error.exit_code() });
    let _ = events.send(Event::End);
    let _ = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(output));
    error
}

impl Session {
    /// Starts a session. Must be called within the runtime.
    pub(super) fn start(
        settings: Settings,
        inputs: Inputs,
        output: Box<dyn Output>,
        printer: &Printer,
    ) -> Result<Session> {
        Session::start_with(settings, inputs, output, printer, None)
    }

    /// Like [`Session::start`]. `own` receives the messages of this process's connections, templates and plugins, which
    /// other processes of the run do not have.
    pub(super) fn start_with(
        settings: Settings,
        inputs: Inputs,
        output: Box<dyn Output>,
        printer: &Printer,
        own: Option<Events>,
    ) -> Result<Session> {
        let Inputs { vault, files, extra_vars, answers } = inputs;
        let secrets = printer.secrets().clone();
        let (events, queue) = event_queue();
        if !output.wants_live() {
            events.without_live();
        }
        warn_of(&settings, &events);
        let collections_path = collections(&settings);
        let modules = modules(&settings, Arc::clone(&files));
        let own = own.unwrap_or_else(|| events.clone());
        let print = own.clone();
        let print = Print::by(move |line| drop(print.send(Event::Printed { host: None, line: line.to_owned() })));
        let plugins = python_plugins(&settings, Arc::clone(&modules), print);
        let engine = engine(&settings, vault, Arc::clone(&plugins), &own, files.reads());
        let mut output = output;
        output.plugins(&plugins)?;
        let show = show(output, queue, Masker::new(secrets.clone()));
        // Writing blocks while nobody reads, which must not keep a thread from signals and connections.
        // A signal may end the runtime of the run before the timers of the output.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| Error::new(format!("the output cannot start: {error}")))?;
        let events_task = tokio::task::spawn_blocking(move || runtime.block_on(show));
        let inventory = inventory(&settings, &engine, Arc::clone(&plugins), &extra_vars, &mut |sentence| {
            let _ = events.send(Event::Warning(sentence));
        });
        let inventory = match inventory {
            Ok(inventory) => Arc::new(inventory),
            Err(error) => return Err(after(error, &events, events_task)),
        };
        let named = Arc::clone(&inventory);
        secrets.exempt(move |name| named.host(name).is_some() || named.group(name).is_some());
        warn_of_no_hosts(&settings, &inventory, &events);
        if let Err(error) = refuse_limit_without_hosts(&settings, &inventory, printer) {
            return Err(after(error, &events, events_task));
        }
        let forks = Arc::new(Semaphore::new(settings.forks));
        let reload = reload(&settings, &engine, &extra_vars, &plugins, &events);
        let pool = Arc::new(pool(&settings, &own));
        let start_at = settings.start_at_task.clone();
        let state = State::of(&settings).map(|state| state.root().to_owned()).map_err(|error| error.to_string());
        let kept = Kept::new(settings.results_on_disk, state);
        let python: FindPython = {
            let modules = Arc::clone(&modules);
            Box::new(move || modules.controller_python())
        };
        let python = LazyLock::new(python);
        let (settings, jobs) = (Arc::new(settings), Jobs::default());
        let run = Arc::new(Run { settings, engine, secrets: secrets.clone(), extra_vars, python, jobs, answers });
        let world = Arc::new(World::new(Arc::clone(&run), inventory));
        let loader = Loader { files: Arc::clone(&files), world: Arc::clone(&world), collections_path, modules };
        check_variables(&loader, &world);
        let shared = Arc::new(Shared {
            run,
            loader: Arc::new(loader),
            files,
            plugins: Arc::clone(&plugins),
            pool,
            events,
            secrets,
            forks,
            reload,
            start_at: Mutex::new(start_at),
            kept: Arc::new(kept),
            journal: std::sync::OnceLock::new(),
            item_key: std::sync::OnceLock::new(),
            shards: std::sync::OnceLock::new(),
        });
        Ok(Session { shared, world, plugins, printer: events_task })
    }

    /// Deletes facts cached by earlier runs (`--flush-cache`).
    pub(super) fn flush_cache(&self) {
        if let Some(cache) = FactCache::of(&self.shared.run.settings, &self.plugins) {
            let problems = tokio::task::block_in_place(|| cache.flush(&self.world));
            problems.into_iter().for_each(|problem| self.shared.warn(problem));
        }
    }

    /// Reports that a playbook starts, and waits until the outputs are ready for it.
    pub(super) async fn begin(&self, path: String, plays: Vec<String>) {
        let (ready, mut is_ready) = tokio::sync::mpsc::unbounded_channel();
        if self.shared.events.send(Event::PlaybookStart { path, plays, ready }).is_ok() {
            let _ = is_ready.recv().await;
        }
    }

    /// Runs plays until they are done, or a signal or a panic stops them. Returns the exit code after a signal. The
    /// caller must call [`Session::end`] afterwards.
    pub(super) async fn plays(&self, run: &mut PlaybookRun, plays: Vec<Play>) -> Result<Option<u8>> {
        match until_signal(panics::unless(run.run(plays))).await {
            Ok(Ok(outcome)) => {
                // Ansible prints none. After such an error, hosts have changes whose handlers have not run.
                if outcome.as_ref().is_err_and(Error::is_of_handler) {
                    let _ = self.shared.events.send(Event::Recap(run.summary().recap));
                }
                outcome.map(|()| None)
            }
            Ok(Err(bug)) => {
                self.stop("a bug in Windlass", run).await;
                Err(bug)
            }
            Err((signal, _handler)) => {
                self.stop(signal.name, run).await;
                Ok(Some(signal.code))
            }
        }
    }

    /// Reports the tasks that are stopped, and the recap.
    async fn stop(&self, reason: &'static str, run: &PlaybookRun) {
        let _ = self.shared.events.send(Event::Interrupted { signal: reason });
        // Pods follow the end of the run.
        if let Some(Shards::Lead(hub)) = self.shared.shards.get().filter(|shards| !shards.are_spread()) {
            hub.stop();
        }
        let _ = self.shared.events.send(Event::Recap(run.summary().recap));
        // Closing the connections stops everything on the hosts; unresponsive hosts are abandoned.
        let _ = tokio::time::timeout(CLOSING, self.shared.pool.close()).await;
    }

    /// Reports the exit code.
    pub(super) fn exits(&self, outcome: &Result<u8>) {
        let code = match outcome {
            // Lost output is not a success.
            Ok(0) if crate::output::has_failed() => 1,
            Ok(code) => *code,
            Err(error) => error.exit_code(),
        };
        if let Err(error) = outcome {
            let _ = self.shared.events.send(report_of(error));
        }
        let _ = self.shared.events.send(Event::Exit { code });
    }

    /// Closes every connection and prints pending output.
    pub(super) async fn end(self) {
        let shards = self.shared.shards.get();
        if let Some(Shards::Lead(hub)) = shards {
            hub.end().await;
        }
        if let Err(problem) = tokio::task::block_in_place(|| self.plugins.end_cache()) {
            self.shared.warn(problem);
        }
        let statistics = self.shared.pool.statistics().await;
        self.shared.pool.end_in_order().await;
        self.shared.pool.close().await;
        let of_lead = |_: &std::ffi::OsString| !matches!(shards, Some(Shards::Worker(_)));
        if let Some(path) = std::env::var_os("WINDLASS_STATISTICS").filter(of_lead) {
            let _ = std::fs::write(path, format!("{statistics:?}\n"));
        }
        // A remaining sender must not keep the printer waiting.
        let _ = self.shared.events.send(Event::End);
        let _ = self.printer.await;
    }
}

/// Runs a future to its end and returns its exit code; fails if it panics. A signal that the future does not handle
/// ends the program, and so does a second signal.
pub(super) fn block_on(work: impl Future<Output = Result<u8>>) -> Result<u8> {
    // Templates are evaluated on these threads and may nest deeply.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(16 << 20)
        .enable_all()
        .build()
        .map_err(no_threads)?;
    heed_signals(runtime.handle().clone())?;
    let outcome = runtime.block_on(async {
        signals::hide_footer_while_stopped();
        let unhandled = async {
            let first = signals::arrived().await;
            if signals::is_handled() { std::future::pending().await } else { first }
        };
        let (signal, outcome) = tokio::select! {
            outcome = panics::caught_in(work) => match signals::missed() {
                // A signal may have ended a program that the work needed. Without this, work cut short that way would
                // look complete.
                Some(signal) => (signal, outcome.flatten()),
                None => return outcome.flatten(),
            },
            signal = unhandled => (signal, Ok(signal.code)),
        };
        let sentence = format!("[ERROR]: {}: ended before a task was running.", signal.name);
        Printer::plain(Secrets::of_process()).error_line(&sentence, Color::Error);
        match outcome {
            // This error only means that the signal ended a wait for a pipe.
            Err(_) if windlass_bounds::was_interrupted() => Ok(signal.code),
            outcome => outcome.map(|_| signal.code),
        }
    });
    // The work may have stopped before it removed the footer.
    crate::output::end_footer();
    runtime.shutdown_timeout(THREADS);
    outcome
}

/// Listens to signals in a separate thread, because templates may block all others. Ends the program at the second
/// signal, at the first one if `workers` are too busy to handle it, and [`AFTER_BUG`] after a panic.
fn heed_signals(workers: Handle) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_threads)?;
    let mut signals = {
        let _within = runtime.enter();
        Signals::listen()
    };
    let heed = async move {
        let first = signals.first().await;
        let answer = workers.spawn(std::future::ready(()));
        let are_busy = async {
            if tokio::time::timeout(WORKERS_TO_ANSWER, answer).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        let last = tokio::select! {
            second = signals.next() => second,
            () = are_busy => first,
        };
        let but = if raw_is_under_way() { ", but `raw` commands over SSH may go on" } else { "" };
        let on_hosts = match super::shards::stop_at_once().await {
            Some(late) => on_hosts_of_several(&late),
            None if outlive_controller() => "tasks on hosts go on to their end, for 30 minutes at most".to_owned(),
            None => STOP.to_owned(),
        };
        end_at_once(&format!("{}: ended at once; {on_hosts}{but}.", last.name), last.code);
    };
    let heed_bugs = async {
        let bug = panics::happened().await;
        tokio::time::sleep(AFTER_BUG).await;
        end_at_once(bug.message(), bug.exit_code());
    };
    let heed = async { tokio::join!(heed, heed_bugs) };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(heed)).map_err(no_threads)?;
    Ok(())
}

fn no_threads(error: std::io::Error) -> Error {
    Error::new(format!("the program cannot start its threads: {error}"))
}

/// Tasks on hosts of a run that ends at once, of which these processes do not answer.
fn on_hosts_of_several(late: &[usize]) -> String {
    match late {
        [] => STOP.to_owned(),
        [number] => {
            format!("{STOP}, but process {number} of the run does not answer, and its tasks go on until it does")
        }
        several => {
            let numbers: Vec<_> = several.iter().map(ToString::to_string).collect();
            let numbers = numbers.join(", ");
            format!("{STOP}, but processes {numbers} of the run do not answer, and their tasks go on until they do")
        }
    }
}

/// Ends the program. The guard stops its programs.
fn end_at_once(sentence: &str, code: u8) {
    static END: Once = Once::new();
    END.call_once(|| {
        crate::output::end_footer();
        Printer::plain(Secrets::of_process()).error_line(&format!("[ERROR]: {sentence}"), Color::Error);
        windlass_guard::end();
        std::process::exit(code.into());
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "a panic is what happens")]

    use std::future::pending;
    use std::process::Command;
    use std::time::Instant;

    use super::*;

    const WAY: &str = "WINDLASS_TEST_OF_A_PANIC";

    /// Ends by a panic, if the test below starts it.
    #[test]
    fn program_with_a_bug() {
        let Ok(way) = std::env::var(WAY) else { return };
        panics::install();
        let outcome = block_on(async {
            // Waits like the printer, and its sender is in a cycle of references.
            let (sender, mut events) = tokio::sync::mpsc::unbounded_channel::<()>();
            std::mem::forget(sender);
            let handle = Handle::current();
            tokio::task::spawn_blocking(move || handle.block_on(events.recv()));
            match way.as_str() {
                "outside" => panic!("made up"),
                "first" => panics::unless(async { panic!("made up") }).await,
                "task" => {
                    let work = async {
                        tokio::spawn(async { panic!("made up") });
                        pending().await
                    };
                    panics::unless(work).await
                }
                _ => {
                    let work = async {
                        std::thread::spawn(|| panic!("made up"));
                        pending().await
                    };
                    panics::unless(work).await
                }
            }
        });
        let error = outcome.unwrap_err();
        assert_eq!(error.exit_code(), 250);
        assert!(error.message().contains("made up (src/cli/session.rs:"), "{}", error.message());
    }

    #[test]
    fn panic_on_any_thread_ends_the_program() {
        for way in ["outside", "first", "task", "thread"] {
            let words = ["--exact", "cli::session::tests::program_with_a_bug"];
            let mut child = Command::new(std::env::current_exe().unwrap()).args(words).env(WAY, way).spawn().unwrap();
            let start = Instant::now();
            let status = loop {
                if let Some(status) = child.try_wait().unwrap() {
                    break status;
                }
                if start.elapsed() > AFTER_BUG {
                    child.kill().unwrap();
                    panic!("a panic ({way}) hangs the program");
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            assert!(status.success(), "{way}: {status}");
        }
    }
}
