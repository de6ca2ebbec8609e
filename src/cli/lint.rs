//! `windlass lint`: checks a project without running anything.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use windlass_inventory::{Inventory, LoadOptions};

use crate::error::{Error, Result};
use crate::foreign::Modules;
use crate::lint::{self, Format, RULES, Rule, Severity};
use crate::output::{Color, Printer, Secrets};
use crate::playbook::Files;
use crate::settings::{Config, Settings};

/// Check playbooks, roles, variables and templates without running anything
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 nothing found, 2 errors found (with --strict, warnings too), 1 and others a failure.

Examples:
  windlass lint                                  # the project around this directory
  windlass lint roles/web site.yml               # these files; the rest of the project is read for its names
  windlass lint -i hosts.yml                     # host patterns too
  windlass lint --fix                            # correct what can be corrected in place
  windlass lint --explain module-option          # one rule
  windlass lint --format sarif > lint.sarif      # for code scanning"
)]
pub(super) struct Arguments {
    /// Files and directories to check
    #[arg(value_name = "PATHS", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Inventory to compare host patterns with: a file, a directory or a list of hosts; no script is run
    #[arg(short, long, value_name = "INVENTORY")]
    inventory: Vec<String>,
    /// Check only this rule; repeatable
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    rule: Vec<String>,
    /// Skip this rule; repeatable
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    skip: Vec<String>,
    /// Lowest severity to show
    #[arg(long, value_enum, default_value_t = Severity::Warning)]
    severity: Severity,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Exit with 2 for warnings too
    #[arg(long)]
    strict: bool,
    /// Correct findings of every severity in place where that is mechanical, and report the rest
    #[arg(long)]
    fix: bool,
    /// List all rules
    #[arg(long)]
    list_rules: bool,
    /// Explain one rule
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    if arguments.list_rules {
        return list_rules();
    }
    if let Some(name) = &arguments.explain {
        return explain(lint::rule(name)?);
    }
    let rules = |names: &[String]| names.iter().map(|name| lint::rule(name)).collect::<Result<Vec<_>>>();
    let settings = Settings::from_config(&Config::find()?)?;
    let mut options = lint::Options {
        paths: arguments.paths.clone(),
        inventory: whole_inventory(&arguments.inventory, &mut |warning| say(&format!("[WARNING]: {warning}")))?,
        rules: rules(&arguments.rule)?,
        skip: rules(&arguments.skip)?,
        modules: modules(&settings),
    };
    // A rule that is asked for is shown, whatever its severity.
    let least = if options.rules.is_empty() { arguments.severity } else { Severity::Info };
    if arguments.fix {
        fix(&options, &settings)?;
        options.modules = modules(&settings);
    }
    let mut report = lint::check(&options)?;
    report.keep_from(least);
    super::print(&report.render(arguments.format))?;
    let (errors, warnings) = (report.count(Severity::Error), report.count(Severity::Warning));
    if arguments.format == Format::Text {
        let [files, errors, warnings, infos] = [
            (report.checked(), "file"),
            (errors, "error"),
            (warnings, "warning"),
            (report.count(Severity::Info), "info"),
        ]
        .map(|(number, noun)| counted(number, noun));
        say(&format!("{files} checked: {errors}, {warnings}, {infos}"));
    }
    Ok(if errors > 0 || (arguments.strict && warnings > 0) { 2 } else { 0 })
}

/// A number with its noun.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Prints a line for people, beside the report.
fn say(line: &str) {
    Printer::plain(Secrets::default()).error_line(line, Color::Plain);
}

/// Corrects until nothing is left to correct: one correction may lie within another.
fn fix(options: &lint::Options, settings: &Settings) -> Result<()> {
    const ROUNDS: usize = 5;
    let mut total = 0;
    for _ in 0..ROUNDS {
        let again = lint::Options {
            paths: options.paths.clone(),
            inventory: None,
            rules: options.rules.clone(),
            skip: options.skip.clone(),
            modules: modules(settings),
        };
        let (corrections, _) = lint::check(&again)?.fix()?;
        total += corrections;
        if corrections == 0 {
            break;
        }
    }
    say(&format!("{} corrected", counted(total, "finding")));
    Ok(())
}

/// Finder of modules that the settings name.
pub(super) fn modules(settings: &Settings) -> Arc<Modules> {
    let files = Arc::new(Files::new(windlass_vault::Secrets::new(), settings.duplicate_keys));
    super::session::modules(settings, files)
}

/// Reads an inventory with all its groups and hosts. If a program would make some of them, there is none.
pub(super) fn whole_inventory(sources: &[String], warn: &mut dyn FnMut(String)) -> Result<Option<Inventory>> {
    match sources.iter().find_map(|source| program_in(Path::new(source), 0, Named::Given)) {
        None => load_inventory(sources, warn),
        Some(program) => {
            let name = program.display();
            warn(format!("{name} is not started, so groups and hosts are unknown and names of them are not checked"));
            Ok(None)
        }
    }
}

/// Deepest directories in which inventories are looked for.
const DEEPEST: usize = 8;

/// How an inventory source is named.
#[derive(Clone, Copy, PartialEq)]
enum Named {
    Given,
    /// By a source that includes it. Then it includes no others itself.
    Included,
}

/// A script, or a file that configures an inventory plugin, among the files of a source.
fn program_in(path: &Path, depth: usize, named: Named) -> Option<PathBuf> {
    let metadata = path.metadata().ok()?;
    if metadata.is_dir() && depth < DEEPEST {
        let mut entries: Vec<PathBuf> = path.read_dir().ok()?.flatten().map(|entry| entry.path()).collect();
        entries.retain(|entry| !entry.ends_with("group_vars") && !entry.ends_with("host_vars"));
        entries.sort();
        return entries.iter().find_map(|entry| program_in(entry, depth + 1, named));
    }
    if !metadata.is_file() {
        return None;
    }
    if metadata.permissions().mode() & 0o111 != 0 {
        return Some(path.to_owned());
    }
    let text = windlass_bounds::read_text(path).unwrap_or_default();
    if let Some(included) = windlass_inventory::sources_included_by(path, &text) {
        let included = included.iter().filter(|_| named == Named::Given);
        return included.map(Path::new).find_map(|source| program_in(source, depth, Named::Included));
    }
    let is_program = text.starts_with("#!") || text.lines().any(|line| line.starts_with("plugin:"));
    is_program.then(|| path.to_owned())
}

/// Reads an inventory by the kinds of sources that start no program, and passes warnings on.
pub(super) fn load_inventory(sources: &[String], warn: &mut dyn FnMut(String)) -> Result<Option<Inventory>> {
    if sources.is_empty() {
        return Ok(None);
    }
    let missing = sources.iter().find(|source| !source.contains(',') && !std::path::Path::new(source).exists());
    if let Some(source) = missing {
        return Err(Error::argument(format!("the inventory {source} does not exist")));
    }
    let enabled = ["host_list", "windlass.group", "yaml", "ini", "toml"].map(str::to_owned).to_vec();
    let options = LoadOptions { enabled, nothing_is_error: true, ..LoadOptions::default() };
    let (inventory, warnings) = Inventory::load(sources, &options)?;
    warnings.iter().for_each(|warning| warn(warning.to_string()));
    Ok(Some(inventory))
}

fn list_rules() -> Result<u8> {
    let width = RULES.iter().map(|rule| rule.id.len()).max().unwrap_or_default();
    let lines = RULES.iter().map(|rule| {
        let fixable = if rule.fixable { "fixable" } else { "" };
        format!("{:<width$}  {:<7}  {fixable:<7}  {}\n", rule.id, rule.severity.name(), rule.summary)
    });
    super::print(&lines.collect::<String>())?;
    Ok(0)
}

fn explain(rule: &Rule) -> Result<u8> {
    let aliases = match rule.aliases {
        [] => String::new(),
        names => format!("In ansible-lint: {}\n", names.join(", ")),
    };
    let fixable = if rule.fixable { "yes, by --fix" } else { "no" };
    let (id, severity) = (rule.id, rule.severity.name());
    super::print(&format!(
        "{id}: {}\n\n{}\n\nSeverity: {severity}\nFixable: {fixable}\n{aliases}",
        rule.summary, rule.doc
    ))?;
    Ok(0)
}
