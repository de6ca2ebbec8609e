//! Findings as text, JSON, SARIF, or commands of GitHub's workflows.

mod sarif;

use clap::ValueEnum;
use serde_json::json;

use super::finding::Finding;
use super::rule::{Rule, Severity};
use super::source::SourceFile;

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people
    Text,
    /// JSON, one object for each finding
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Commands that annotate a pull request on GitHub
    Github,
}

/// A finding with its file.
type Located<'a> = (&'a SourceFile, &'a Finding);

pub(super) fn render(format: Format, files: &[SourceFile], findings: &[Finding], own: &[&Rule]) -> String {
    let located: Vec<Located<'_>> =
        findings.iter().filter_map(|finding| Some((files.get(finding.file)?, finding))).collect();
    match format {
        Format::Text => located.iter().map(|(file, finding)| text(file, finding)).collect(),
        Format::Json => json_of(&located),
        Format::Sarif => sarif::render(&located, own),
        Format::Github => located.iter().map(|(file, finding)| github(file, finding)).collect(),
    }
}

fn text(file: &SourceFile, finding: &Finding) -> String {
    let Finding { rule, severity, place, message, help, .. } = finding;
    let head = format!(
        "{}:{}:{}: {}[{}]: {}\n",
        file.path.display(),
        place.line,
        place.column,
        severity.name(),
        rule.id,
        one_line(message)
    );
    match help {
        Some(help) => format!("{head}    help: {}\n", one_line(help)),
        None => head,
    }
}

fn json_of(located: &[Located<'_>]) -> String {
    let findings: Vec<_> = located
        .iter()
        .map(|(file, finding)| {
            json!({
                "rule": finding.rule.id,
                "severity": finding.severity,
                "file": file.path.display().to_string(),
                "line": finding.place.line,
                "column": finding.place.column,
                "message": finding.message,
                "help": finding.help,
                "fixable": finding.edit.is_some(),
            })
        })
        .collect();
    crate::output::nice_json(&json!({ "findings": findings })) + "\n"
}

fn github(file: &SourceFile, finding: &Finding) -> String {
    let word = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    // Percent signs and line breaks end a value; in properties, so do colons and commas.
    let value = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| value(text).replace(':', "%3A").replace(',', "%2C");
    let help = finding.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!(
        "::{word} file={},line={},col={},title={}::{}\n",
        property(&file.path.display().to_string()),
        finding.place.line,
        finding.place.column,
        property(finding.rule.id),
        value(&format!("{}{help}", finding.message))
    )
}

/// A message on one line, without control characters.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace(|c: char| c.is_control(), "?")
}
