//! `windlass plan`: a check run that ends in a summary of what a run would change.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use windlass_yaml::{Key, Mapping, Node, Span};

use super::journal::inputs_of;
use super::options::Inputs;
use super::playbook::{self, Selection};
use super::session::{Session, block_on};
use crate::error::{Error, Result};
use crate::journal::{FileRead, Inputs as Sources, new_salt};
use crate::output::{Outputs, Printer, Secrets};
use crate::planned::{
    self, Collected, Collector, Document, ExtraVars, Layout, Request, SCHEMA, VERSION, carriable, fingerprints,
};
use crate::settings::{Color, Config, Settings};
use crate::signals;
use crate::strategy::PlaybookRun;

/// Exit code of `--detailed-exitcode` for changes. Terraform's 2 is Ansible's code for failed hosts.
const CHANGES: u8 = 10;

/// Words of a variable's name whose value is most likely a secret.
const SECRET_WORDS: &[&str] = &["apikey", "credential", "credentials", "key"];
/// Ends of such words: `dbpass`.
const SECRET_ENDS: &[&str] = &["pass", "passphrase", "passwd", "password", "pw", "pwd", "secret", "token"];

/// Show what a run of playbooks would change, without changing anything
#[derive(Debug, Args)]
#[command(after_help = "Exit codes with --detailed-exitcode: 0 nothing to change, 10 changes or unknown results;
failures have the codes of `windlass playbook` (1, 2, 4, 5).

Examples:
  windlass plan -i hosts.yml site.yml                       # show what would change
  windlass plan -i hosts.yml site.yml -o site.plan          # also write a plan file
  windlass apply site.plan                                  # run exactly that plan
  windlass plan -i hosts.yml site.yml --ask                 # ask, then run")]
pub(super) struct Arguments {
    /// Playbooks to plan in order
    #[arg(required = true, value_name = "PLAYBOOK")]
    playbooks: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Write the plan to this file, for `windlass apply`
    #[arg(short, long, value_name = "FILE", help_heading = "Plan")]
    out: Option<PathBuf>,
    /// Format of the plan
    #[arg(long, value_enum, default_value_t, help_heading = "Plan")]
    format: Format,
    /// Exit with 10 if something would change or is unknown
    #[arg(long, help_heading = "Plan")]
    detailed_exitcode: bool,
    /// Ask whether to apply the changes, and run the playbooks after `yes`
    #[arg(long, help_heading = "Plan")]
    ask: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for a person
    #[default]
    Text,
    /// JSON document of the schema `windlass.plan`
    Json,
}

/// Runs the subcommand.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let Arguments { playbooks, selection, out, format, detailed_exitcode, ask } = arguments;
    if ask && !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(
            Error::usage("--ask needs a terminal").hint("write a plan with -o, and run it with `windlass apply`")
        );
    }
    let Made { document, code, printer, whole, last } = make(&playbooks, &selection, None)?;
    if signals::is_signal(code) {
        tell_interrupted(last.as_deref(), out.as_deref(), &printer);
        return Ok(code);
    }
    match format {
        Format::Text => show(&document, whole, &printer),
        Format::Json => {
            let text = serde_json::to_string_pretty(&document)
                .map_err(|error| Error::new(format!("the plan cannot be printed: {error}")))?;
            super::stdout::print(&format!("{text}\n"))?;
        }
    }
    if code != 0 {
        out.iter().for_each(|file| {
            let text = format!("{} is not written, because the plan is not complete", file.display());
            printer.error_line(&text, Color::Error);
        });
        return Ok(code);
    }
    if let Some(file) = &out {
        planned::write(file, &document)?;
        if format == Format::Text {
            let text = format!("\nThe plan is in {0}. Run it with `windlass apply {0}`.", file.display());
            printer.line(&text, Color::Plain);
        }
    }
    if ask && document.has_changes() {
        if !is_confirmed("\nApply these changes? yes/no", &printer)? {
            printer.line("Nothing was changed.", Color::Plain);
            return Ok(0);
        }
        return playbook::run(playbook::Arguments::of(playbooks, selection));
    }
    Ok(if detailed_exitcode && document.has_changes() { CHANGES } else { 0 })
}

/// Reports where a signal ended a plan. Its totals would count only what came before.
pub(super) fn tell_interrupted(last: Option<&str>, out: Option<&Path>, printer: &Printer) {
    let place = last.map_or_else(|| "before the first task".to_owned(), |task| format!("at '{task}'"));
    let file = out.map(|file| format!("; {} is not written", file.display())).unwrap_or_default();
    printer.error_line(&format!("Plan incomplete: interrupted {place}{file}"), Color::Error);
}

/// Carries out `windlass playbook --plan FILE`.
pub(super) fn to_file(
    playbooks: Vec<PathBuf>,
    selection: Selection,
    ssh_options: Vec<String>,
    file: PathBuf,
) -> Result<u8> {
    let mut selection = selection;
    selection.options.add_ssh_options(ssh_options);
    let format = Format::Text;
    run(Arguments { playbooks, selection, out: Some(file), format, detailed_exitcode: false, ask: false })
}

/// Prints a plan as text.
pub(super) fn show(document: &Document, whole: bool, printer: &Printer) {
    let directory = std::env::current_dir().unwrap_or_default();
    planned::print(document, &Layout { whole, directory: &directory }, printer);
}

/// Asks a question at the terminal until the answer is yes or no. The end of the input is a no.
pub(super) fn is_confirmed(question: &str, printer: &Printer) -> Result<bool> {
    loop {
        printer.line(question, Color::Plain);
        let mut line = String::new();
        let count = std::io::stdin()
            .read_line(&mut line)
            .map_err(|error| Error::new(format!("the answer cannot be read: {error}")))?;
        match line.trim().to_lowercase().as_str() {
            "yes" => return Ok(true),
            "no" => return Ok(false),
            _ if count == 0 => return Ok(false),
            _ => printer.line("Answer `yes` or `no`.", Color::Plain),
        }
    }
}

/// A plan, with everything that its caller needs to continue.
pub(super) struct Made {
    pub(super) document: Document,
    /// Exit code of the check run.
    pub(super) code: u8,
    pub(super) printer: Printer,
    /// Whether to print everything that is otherwise folded.
    pub(super) whole: bool,
    /// Name of the last task that started.
    pub(super) last: Option<String>,
}

/// Makes a plan by a check run. If an input differs from the `recorded` plan's, no host is reached.
pub(super) fn make(playbooks: &[PathBuf], selection: &Selection, recorded: Option<&Document>) -> Result<Made> {
    let config = Config::find()?;
    let mut settings = Settings::from_config(&config)?;
    selection.apply(&mut settings, &config)?;
    settings.check = true;
    settings.diff = true;
    settings.plans = true;
    settings.output.footer = true;
    settings.journal.enabled = false;
    settings.output.retry_files = false;
    // A missing inventory would make an empty plan, which looks like a good one.
    settings.inventory.any_unparsed_is_failed = true;
    let mut playbooks = playbooks.to_vec();
    playbook::find_playbooks(&mut playbooks, &mut settings)?;
    settings.run_name = settings.run_name.replacen("playbook", "plan", 1);
    let inputs = selection.inputs(&settings)?;
    let mut request = Request::default();
    if let Some(recorded) = recorded {
        let extra_vars = &inputs.extra_vars;
        let sources = Sources {
            settings: &settings,
            playbooks: playbooks.clone(),
            plays: Vec::new(),
            extra_vars,
            inventory: None,
        };
        refuse(&sources.changed_files(&recorded.inputs, "", None))?;
        // With the same salt, equal variables have equal hashes.
        request.salt.clone_from(&recorded.request.salt);
    }
    let printer = super::session::printer(&settings);
    mask_secrets(&inputs.extra_vars, printer.secrets());
    config.warnings.iter().for_each(|warning| printer.warning(warning));
    let collected = Collected::default();
    let output = Box::new(Outputs::only(Box::new(Collector::new(&collected)), &printer, &settings));
    selection.carry(&mut request);
    let whole = settings.verbosity > 0;
    let mut facts = BTreeMap::new();
    let mut read = Vec::new();
    let code = block_on(async {
        let session = Session::start(settings, inputs, output, &printer)?;
        // New files beside the sources that the inventory includes. No host has been reached.
        let included =
            recorded.map(|recorded| inputs_of(&playbooks, &session).changed_files(&recorded.inputs, "", None));
        if let Some(error) = included.and_then(|changed| refuse(&changed).err()) {
            session.end().await;
            return Err(error);
        }
        let outcome = check(&playbooks, selection, &session, &mut facts).await;
        read = files(&playbooks, &session);
        describe(&playbooks, selection, &session, &mut request);
        session.end().await;
        outcome
    })?;
    let last = collected.last_task();
    let (tasks, hosts) = collected.take();
    let document = Document {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        windlass: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        request,
        inputs: read,
        facts,
        totals: hosts.values().copied().sum(),
        hosts,
        tasks,
    };
    Ok(Made { document, code, printer, whole, last })
}

/// Fails with the differences of a plan, if there are any.
pub(super) fn refuse(differences: &[String]) -> Result<()> {
    const SHOWN: usize = 20;
    if differences.is_empty() {
        return Ok(());
    }
    let mut text = "the plan no longer holds, and nothing was changed:".to_owned();
    differences.iter().take(SHOWN).for_each(|difference| text.push_str(&format!("\n  {difference}")));
    if differences.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", differences.len() - SHOWN));
    }
    Err(Error::new(text).hint("make a new plan with `windlass plan -o FILE`"))
}

/// Runs the playbooks in check mode and takes the fingerprints of facts.
async fn check(
    playbooks: &[PathBuf],
    selection: &Selection,
    session: &Session,
    facts: &mut BTreeMap<String, BTreeMap<String, String>>,
) -> Result<u8> {
    let loaded = playbook::load(playbooks, session)?;
    selection.flush(session);
    let mut run = PlaybookRun::new(Arc::clone(&session.shared), Arc::clone(&session.world));
    let code = playbook::run_all(loaded, &mut run, session).await?;
    for host in run.summary().recap.hosts.keys() {
        let found = fingerprints(&run.facts_of(host));
        if !found.is_empty() {
            facts.insert(host.to_string(), found);
        }
    }
    Ok(code)
}

/// Files that the run has read: project, inventory and configuration.
fn files(playbooks: &[PathBuf], session: &Session) -> Vec<FileRead> {
    inputs_of(playbooks, session).files(&session.shared.files)
}

/// Completes the request with playbooks and extra variables.
fn describe(playbooks: &[PathBuf], selection: &Selection, session: &Session, request: &mut Request) {
    let absolute = |path: &PathBuf| crate::paths::absolute(path).display().to_string();
    request.playbooks = playbooks.iter().map(absolute).collect();
    request.directory = std::env::current_dir().unwrap_or_default().display().to_string();
    request.extra_vars.clone_from(&selection.carried);
    let shared = &session.shared;
    for text in selection.options.extra_vars() {
        match carried(text, shared) {
            Some(vars) => request.extra_vars.push(vars),
            None if request.repeat.iter().any(|name| name == "extra-vars") => {}
            None => request.repeat.push("extra-vars".to_owned()),
        }
    }
    if request.salt.is_empty() {
        request.salt = new_salt();
    }
    request.vars = inputs_of(playbooks, session).hashed_vars(&request.salt);
}

/// Whether the value of a variable is most likely a secret.
fn has_secret_name(name: &str) -> bool {
    let is_secret = |word: &str| SECRET_WORDS.contains(&word) || SECRET_ENDS.iter().any(|end| word.ends_with(end));
    name.to_lowercase().split('_').any(is_secret)
}

/// Masks the values of extra variables whose names suggest a secret, so that no difference shows one.
fn mask_secrets(extra_vars: &Mapping, secrets: &Secrets) {
    let named = extra_vars.iter().filter(|(key, _)| has_secret_name(&key.to_text()));
    named.filter_map(|(_, node)| node.scalar_text()).for_each(|text| secrets.add(&text));
}

/// Extra variables that a plan file may carry; `None` if the operator has to repeat them.
fn carried(text: &str, shared: &crate::strategy::Shared) -> Option<ExtraVars> {
    if let Some(file) = text.trim_start().strip_prefix('@') {
        let path = crate::paths::absolute(&crate::settings::expand_home(file));
        return Some(ExtraVars::File(path.display().to_string()));
    }
    let vars = super::options::extra_vars(&[text.to_owned()], &shared.files).ok()?;
    let values: BTreeMap<_, _> = vars.iter().map(|(key, node)| (key.to_text(), node.to_json())).collect();
    let is_open = |(name, value): (&String, &serde_json::Value)| {
        let shown = value.to_string();
        !has_secret_name(name) && carriable(name, value).is_ok() && shared.secrets.mask(&shown) == shown
    };
    values.iter().all(is_open).then_some(ExtraVars::Values(values))
}

/// Extra variables of a plan file, overridden by the command line's.
pub(super) fn with_carried(carried: &[ExtraVars], inputs: &Inputs) -> Result<Arc<Mapping>> {
    let mut vars = Mapping::new();
    let mut add = |found: &Mapping| {
        found.iter().for_each(|(key, node)| drop(vars.insert(Key::clone(key), node.clone())));
    };
    for part in carried {
        match part {
            ExtraVars::File(path) => add(&*inputs.files.variables(Path::new(path))?),
            ExtraVars::Values(values) => {
                let literal = |(name, value): (&String, &serde_json::Value)| {
                    (Key::string(name.as_str(), Span::none()), Node::from_json(value, &Span::none()))
                };
                add(&values.iter().map(literal).collect::<Mapping>());
            }
        }
    }
    add(&inputs.extra_vars);
    Ok(Arc::new(vars))
}

/// Secrets of the process, for messages before a printer exists.
pub(super) fn plain_printer() -> Printer {
    Printer::plain(Secrets::of_process())
}
