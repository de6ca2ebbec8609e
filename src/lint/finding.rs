//! Findings: a rule, a place, a sentence, and perhaps a correction.

use serde::Serialize;

use super::rule::{Rule, Severity};
use super::source::SourceFile;

/// Replacement of a range of bytes in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Start of the range.
    pub start: usize,
    /// End of the range.
    pub end: usize,
    /// New text.
    pub text: String,
}

/// A place in a file, counting from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Line number, from 1.
    pub line: u32,
    /// Column in characters.
    pub column: u32,
}

/// A rule broken at a place.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Rule that is broken.
    pub rule: &'static Rule,
    /// Severity, which can be lower than the rule's own.
    pub severity: Severity,
    /// Index of the file in the project.
    pub file: usize,
    /// Place in the file.
    pub place: Place,
    /// The problem in one sentence.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
    /// The correction, if it is mechanical.
    pub edit: Option<Edit>,
    /// First line of the task with the finding, where a comment can suppress it too.
    pub task_line: Option<u32>,
}

impl Finding {
    /// Creates a finding with the rule's severity.
    pub(super) fn new(rule: &'static Rule, file: &SourceFile, place: Place, message: impl Into<String>) -> Finding {
        Finding {
            rule,
            severity: rule.severity,
            file: file.index,
            place,
            message: message.into(),
            help: None,
            edit: None,
            task_line: None,
        }
    }

    /// Adds the remedy, if one is known.
    pub(super) fn help(mut self, help: impl Into<Option<String>>) -> Finding {
        self.help = help.into().or(self.help);
        self
    }

    /// Adds the correction, if one is known.
    pub(super) fn edit(mut self, edit: Option<Edit>) -> Finding {
        self.edit = edit;
        self
    }

    /// Changes the severity.
    pub(super) fn at(mut self, severity: Severity) -> Finding {
        self.severity = severity;
        self
    }

    /// Adds the first line of the task with the finding.
    pub(super) fn within(mut self, line: u32) -> Finding {
        self.task_line = Some(line);
        self
    }
}
