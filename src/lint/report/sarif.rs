//! SARIF 2.1.0, which code scanning services read.

use serde_json::{Value, json};

use super::Located;
use crate::lint::rule::{RULES, Rule, Severity};

pub(super) fn render(located: &[Located<'_>], own: &[&Rule]) -> String {
    let mut all: Vec<&Rule> = Vec::new();
    for rule in RULES.iter().map(|rule| &**rule).chain(own.iter().copied()) {
        // Identifiers must be unique, while several projects may have rules of one name.
        if all.iter().all(|known| known.id != rule.id) {
            all.push(rule);
        }
    }
    let rules: Vec<Value> = all
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "shortDescription": {"text": rule.summary},
                "fullDescription": {"text": rule.doc},
                "defaultConfiguration": {"level": level(rule.severity)},
            })
        })
        .collect();
    let results: Vec<Value> = located.iter().map(|located| result(located, &all)).collect();
    let report = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "windlass lint", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    crate::output::nice_json(&report) + "\n"
}

fn result((file, finding): &Located<'_>, all: &[&Rule]) -> Value {
    let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    let index = all.iter().position(|rule| rule.id == finding.rule.id);
    json!({
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        "level": level(finding.severity),
        "message": {"text": format!("{}{help}", finding.message)},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": uri(&file.path.to_string_lossy())},
                "region": {"startLine": finding.place.line, "startColumn": finding.place.column},
            },
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// A path as a relative reference: bytes that a URI cannot hold are escaped.
fn uri(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
