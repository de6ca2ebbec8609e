//! Findings as diagnostics and as quick fixes.

use std::collections::HashMap;
use std::ops::Range;
use std::str::FromStr as _;

use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, CodeDescription, Diagnostic, DiagnosticSeverity, NumberOrString,
    TextEdit, Uri, WorkspaceEdit,
};

use super::documents::Document;
use super::text::Lines;
use crate::lint::{Finding, Severity, is_own};

/// Maximum number of findings shown for a document.
const MOST_FINDINGS: usize = 1_000;

/// Page with all rules.
const RULES_PAGE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/reference/lint-rules.md");

/// Diagnostics of a document.
pub(super) fn of_document(document: &Document) -> Vec<Diagnostic> {
    let lines = Lines::new(&document.text);
    if document.is_too_large {
        let size = crate::lint::LARGEST >> 20;
        let message = format!("this document is not checked: it has more than {size} MiB");
        return vec![Diagnostic {
            severity: Some(DiagnosticSeverity::WARNING),
            source: Some("windlass".to_owned()),
            message,
            ..Diagnostic::default()
        }];
    }
    document.findings.iter().take(MOST_FINDINGS).map(|(finding, range)| diagnostic(&lines, finding, range)).collect()
}

fn diagnostic(lines: &Lines<'_>, finding: &Finding, range: &Range<usize>) -> Diagnostic {
    let help = finding.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
    let page = Uri::from_str(&format!("{RULES_PAGE}#{}", finding.rule.id)).ok().filter(|_| !is_own(finding.rule));
    Diagnostic {
        range: lines.range(range),
        severity: Some(match finding.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Info => DiagnosticSeverity::INFORMATION,
        }),
        code: Some(NumberOrString::String(finding.rule.id.to_owned())),
        code_description: page.map(|href| CodeDescription { href }),
        source: Some("windlass".to_owned()),
        message: format!("{}{help}", finding.message),
        ..Diagnostic::default()
    }
}

/// Corrections of findings in a range. There are none while a check of the text is pending.
pub(super) fn fixes(document: &Document, range: &lsp_types::Range) -> Vec<CodeActionOrCommand> {
    if document.checked != Some(document.version) {
        return Vec::new();
    }
    let lines = Lines::new(&document.text);
    let mut actions = Vec::new();
    for (finding, place) in &document.findings {
        let Some(edit) = &finding.edit else { continue };
        let diagnostic = diagnostic(&lines, finding, place);
        if diagnostic.range.end < range.start || range.end < diagnostic.range.start {
            continue;
        }
        let edit = TextEdit { range: lines.range(&(edit.start..edit.end)), new_text: edit.text.clone() };
        let remedy = finding.help.clone().unwrap_or_else(|| format!("replace by `{}`", edit.new_text));
        actions.push(CodeActionOrCommand::CodeAction(CodeAction {
            title: format!("{}: {remedy}", finding.rule.id),
            kind: Some(CodeActionKind::QUICKFIX),
            diagnostics: Some(vec![diagnostic]),
            edit: Some(WorkspaceEdit {
                changes: Some(HashMap::from([(document.uri.clone(), vec![edit])])),
                ..WorkspaceEdit::default()
            }),
            is_preferred: Some(true),
            ..CodeAction::default()
        }));
    }
    actions
}
