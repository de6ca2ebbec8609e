//! `windlass lint`: checks a project without running anything.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use windlass_inventory::Problem;

use crate::error::{Error, Result};
use crate::foreign::Modules;
use crate::lint::{self, Format, Inventoried, RULES, Rule, Severity};
use crate::output::{Printer, Secrets, aligned};
use crate::playbook::Files;
use crate::settings::{Color, Config, Settings};

/// Check playbooks, roles, variables and templates without running anything
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 nothing found, 2 errors found (with --strict, warnings too), 1 and others a failure.

Examples:
  windlass lint                                  # the project around this directory
  windlass lint roles/web site.yml               # these files, with the names of the rest
  windlass lint -i hosts.yml                     # the inventory and host patterns too
  windlass lint --fix                            # correct what can be corrected in place
  windlass lint --explain module-option          # one rule
  windlass lint --format sarif > lint.sarif      # for code scanning"
)]
pub(super) struct Arguments {
    /// Files and directories to check
    #[arg(value_name = "PATHS", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Inventory to check, and to compare host patterns with: a file, a directory or a list of hosts; no script is run
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
    /// List all rules, the rules of the project last
    #[arg(long)]
    list_rules: bool,
    /// Explain one rule
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    let own = lint::own_rules(&arguments.paths)?;
    if arguments.list_rules {
        return list_rules(&own);
    }
    if let Some(name) = &arguments.explain {
        return explain(lint::rule(name, &own)?);
    }
    let rules = |names: &[String]| names.iter().map(|name| lint::rule(name, &own)).collect::<Result<Vec<_>>>();
    let settings = Settings::from_config(&Config::find()?)?;
    let mut options = lint::Options {
        paths: arguments.paths.clone(),
        inventory: Inventoried::read(&arguments.inventory, &lint::Texts::default())?,
        rules: rules(&arguments.rule)?,
        skip: rules(&arguments.skip)?,
        modules: modules(&settings),
        roles_path: settings.code.roles_path.clone(),
    };
    options.inventory.warnings.iter().for_each(|warning| say(&format!("[WARNING]: {warning}")));
    // A rule that is asked for is shown, whatever its severity.
    let least = if options.rules.is_empty() { arguments.severity } else { Severity::Info };
    if arguments.fix {
        fix(&options, &settings)?;
        options.modules = modules(&settings);
    }
    let mut report = lint::check(&options)?;
    for problem in report.unplaced() {
        if problem.is_error {
            return Err(unreadable(problem));
        }
        say(&format!("[WARNING]: {}: {}", problem.span, problem.message));
    }
    report.keep_from(least);
    super::stdout::print(&report.render(arguments.format))?;
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

/// Error of an inventory outside of the project, which has no findings.
fn unreadable(problem: &Problem) -> Error {
    let error = Error::parse(problem.message.trim_end_matches('.'), &problem.span).generic();
    error.maybe_hint(problem.hint.clone())
}

/// A number with its noun.
pub(super) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Prints a line for people, in addition to the report.
fn say(line: &str) {
    Printer::plain(Secrets::default()).error_line(line, Color::Plain);
}

/// Repeats the corrections until none is left, because one correction may lie within another.
fn fix(options: &lint::Options, settings: &Settings) -> Result<()> {
    const ROUNDS: usize = 5;
    let mut total = 0;
    for _ in 0..ROUNDS {
        let again = lint::Options {
            paths: options.paths.clone(),
            inventory: Inventoried::default(),
            rules: options.rules.clone(),
            skip: options.skip.clone(),
            modules: modules(settings),
            roles_path: settings.code.roles_path.clone(),
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

fn list_rules(own: &[&'static Rule]) -> Result<u8> {
    let row = |rule: &&'static Rule| {
        let fixable = if rule.fixable { "fixable" } else { "" };
        [rule.id, rule.severity.name(), fixable, rule.summary].map(str::to_owned).to_vec()
    };
    let rows: Vec<Vec<String>> = RULES.iter().chain(own).map(row).collect();
    super::stdout::print(&(aligned(&rows, usize::MAX).join("\n") + "\n"))?;
    Ok(0)
}

fn explain(rule: &Rule) -> Result<u8> {
    let aliases = match rule.aliases {
        [] => String::new(),
        names => format!("In ansible-lint: {}\n", names.join(", ")),
    };
    let fixable = if rule.fixable { "yes, by --fix" } else { "no" };
    let (id, severity) = (rule.id, rule.severity.name());
    super::stdout::print(&format!(
        "{id}: {}\n\n{}\n\nSeverity: {severity}\nFixable: {fixable}\n{aliases}",
        rule.summary, rule.doc
    ))?;
    Ok(0)
}
