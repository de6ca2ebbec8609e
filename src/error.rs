//! Errors that end a run: a message with an optional position and remedy.

use std::path::Path;

use strsim::osa_distance;
use windlass_inventory::{Inventory, Warning};
use windlass_yaml::Span;

/// Result whose error ends a run.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Exit code after a panic, ansible-core's after an unexpected exception.
pub const BUG: u8 = 250;

/// Category of an error. It determines the exit code, which is Ansible's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anything without its own exit code; exits with 1.
    Generic,
    /// A task has notified a handler that does not exist; exits with 1.
    NoHandler,
    /// An unreadable or invalid playbook, role, task file or variable file; exits with 4.
    Parse,
    /// An invalid command line; exits with 5.
    Usage,
    /// An option with an invalid value; exits with 2.
    Argument,
    /// The user interrupted the run; exits with 99.
    Interrupted,
    /// A panic; exits with 250.
    Bug,
}

/// An error that ends a run.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.render())]
pub struct Error {
    kind: Kind,
    message: String,
    span: Option<Span>,
    hint: Option<String>,
}

impl Error {
    /// An error without its own exit code.
    pub fn new(message: impl Into<String>) -> Error {
        Error { kind: Kind::Generic, message: message.into(), span: None, hint: None }
    }

    /// An error in a file of the project, at this position.
    pub fn parse(message: impl Into<String>, span: &Span) -> Error {
        Error { kind: Kind::Parse, message: message.into(), span: Some(span.clone()), hint: None }
    }

    /// An invalid command line.
    pub fn usage(message: impl Into<String>) -> Error {
        Error { kind: Kind::Usage, message: message.into(), span: None, hint: None }
    }

    /// An option with an invalid value.
    pub fn argument(message: impl Into<String>) -> Error {
        Error { kind: Kind::Argument, message: message.into(), span: None, hint: None }
    }

    /// Error for a run that the user interrupted.
    pub fn interrupted() -> Error {
        Error { kind: Kind::Interrupted, message: "User interrupted execution".to_owned(), span: None, hint: None }
    }

    /// Error for a panic with this message.
    pub fn bug(message: &str) -> Error {
        let message = format!("a bug in Windlass ended the program; please report it: {message}");
        Error { kind: Kind::Bug, ..Error::new(message) }
    }

    /// Whether the program has a bug.
    pub fn is_bug(&self) -> bool {
        self.kind == Kind::Bug
    }

    /// Whether the error concerns a file of the project.
    pub fn is_parse(&self) -> bool {
        self.kind == Kind::Parse
    }

    /// Whether the user interrupted the run.
    pub fn is_interruption(&self) -> bool {
        self.kind == Kind::Interrupted
    }

    /// Adds a suggested remedy.
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a suggested remedy, if one is known; otherwise keeps the present one.
    pub fn maybe_hint(mut self, hint: Option<String>) -> Error {
        self.hint = hint.or(self.hint);
        self
    }

    /// Turns it into the error of a task that has notified a handler that does not exist.
    pub fn of_handler(mut self) -> Error {
        self.kind = Kind::NoHandler;
        self
    }

    /// Whether a task has notified a handler that does not exist.
    pub fn is_of_handler(&self) -> bool {
        self.kind == Kind::NoHandler
    }

    /// Turns it into a parse error, which exits with 4.
    pub fn as_parse(mut self) -> Error {
        self.kind = Kind::Parse;
        self
    }

    /// Turns it into an error of the command line, which exits with 5.
    pub fn as_usage(mut self) -> Error {
        self.kind = Kind::Usage;
        self
    }

    /// Turns it into a generic error, which exits with 1.
    pub fn generic(mut self) -> Error {
        self.kind = Kind::Generic;
        self
    }

    /// Adds a position, unless it has one.
    pub fn or_at(mut self, span: &Span) -> Error {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    /// The message without position and remedy.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Position in a file of the project, if known.
    pub fn span(&self) -> Option<&Span> {
        self.span.as_ref()
    }

    /// The suggested remedy.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Generic | Kind::NoHandler => 1,
            Kind::Argument => 2,
            Kind::Parse => 4,
            Kind::Usage => 5,
            Kind::Interrupted => 99,
            Kind::Bug => BUG,
        }
    }

    /// The message with its position and an excerpt of the line, without the remedy.
    pub fn what_and_where(&self) -> String {
        let mut text = self.message.clone();
        if let Some(span) = self.span.as_ref().filter(|span| span.is_located()) {
            text = format!("{text}\n  at {span}");
            let excerpt = span.excerpt();
            if !excerpt.is_empty() {
                text.push_str("\n\n");
                text.push_str(&excerpt);
            }
        }
        text
    }

    /// The message with its position in the layout of ansible-core 2.18.
    pub fn classic(&self) -> String {
        let mut text = self.message.clone();
        if let Some(span) = self.span.as_ref().filter(|span| span.is_located() && !span.source.is_secret()) {
            let file = crate::paths::absolute(Path::new(&span.source.name));
            text.push_str(&format!(
                "\n\nThe error appears to be in '{}': line {}, column {}, but may\nbe elsewhere in the file depending on the exact syntax problem.\n\n\
                 The offending line appears to be:\n\n",
                file.display(),
                span.line,
                span.column
            ));
            let lines = [span.line.checked_sub(1), Some(span.line)].into_iter().flatten();
            for line in lines.filter(|line| *line > 0) {
                text.push_str(span.source.line(line).unwrap_or_default());
                text.push('\n');
            }
            text.push_str(&" ".repeat(span.column.saturating_sub(1) as usize));
            text.push_str("^ here\n");
        }
        self.with_advice(text)
    }

    fn render(&self) -> String {
        self.with_advice(self.what_and_where())
    }

    fn with_advice(&self, mut text: String) -> String {
        if let Some(hint) = &self.hint {
            text.push_str("\n\nhint: ");
            text.push_str(hint);
        }
        text
    }
}

impl From<windlass_yaml::Error> for Error {
    fn from(error: windlass_yaml::Error) -> Error {
        Error {
            kind: Kind::Parse,
            message: error.message().to_owned(),
            span: Some(error.span().clone()),
            hint: error.hint().map(str::to_owned),
        }
    }
}

impl From<windlass_template::Error> for Error {
    fn from(error: windlass_template::Error) -> Error {
        Error::new(error.to_string())
    }
}

impl From<windlass_inventory::Error> for Error {
    fn from(error: windlass_inventory::Error) -> Error {
        Error::new(error.to_string())
    }
}

/// A warning of the inventory as text. A pattern that matches nothing gets the nearest host or group as a suggestion.
pub fn inventory_warning(warning: &Warning, inventory: &Inventory) -> String {
    let text = warning.to_string();
    let Warning::NoMatch { pattern } = warning else { return text };
    // Short names are near others by accident.
    if pattern.chars().count() < 5 {
        return text;
    }
    match did_you_mean(pattern, inventory.names()) {
        Some(suggestion) => format!("{text} ({suggestion})"),
        None => text,
    }
}

/// Suggests the candidate most similar to a misspelt word; `None` if more than a third of the word differs from each.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    similar(word, candidates).map(question)
}

/// The candidate most similar to a misspelt word, as for [`did_you_mean`].
pub(crate) fn similar<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_name(word, word.chars().count() / 3, candidates)
}

fn question(candidate: &str) -> String {
    format!("did you mean `{candidate}`?")
}

/// Like [`did_you_mean`], with at most this number of edits.
pub fn nearest<'a>(word: &str, limit: usize, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest_name(word, limit, candidates).map(question)
}

/// The candidate that at most this number of edits makes from a misspelt word.
fn nearest_name<'a>(word: &str, limit: usize, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        // A character has at most four bytes.
        .filter(|candidate| {
            let is_ascii = candidate.is_ascii() && word.is_ascii();
            candidate.len().abs_diff(word.len()) <= if is_ascii { limit } else { limit * 4 }
        })
        .map(|candidate| (osa_distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The nearest variable, as a suggestion. Names that differ only by a number are not misspellings.
pub fn misspelling<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let without_digits = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let stem = without_digits(name);
    let limit = (name.chars().count() / 6).clamp(1, 3);
    nearest(name, limit, candidates.filter(|candidate| without_digits(candidate) != stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_word_gets_nearest_suggestion() {
        assert_eq!(
            did_you_mean("deletgate_to", ["delegate_to", "name"]).as_deref(),
            Some("did you mean `delegate_to`?")
        );
        assert_eq!(did_you_mean("zzzzzz", ["delegate_to", "name"]), None);
    }

    #[test]
    fn suggestion_differs_in_a_third_of_the_word_at_most() {
        let near = |word: &str, candidate: &str| did_you_mean(word, [candidate]).is_some();
        let misspelt = [
            ("pign", "ping"),
            ("hots", "hosts"),
            ("froks", "forks"),
            ("becom", "become"),
            ("servce", "service"),
            ("templat", "template"),
            ("kube_pod_subnet", "kube_pods_subnet"),
            ("ignore_erors", "ignore_errors"),
        ];
        for (word, candidate) in misspelt {
            assert!(near(word, candidate), "{word} -> {candidate}");
        }
        let others = [
            ("marker", "parted"),
            ("bar", "raw"),
            ("w1", "w2"),
            ("ls", "slurp"),
            ("wget", "pip"),
            ("greet", "replace"),
            ("nginx", "find"),
            ("backup", "setup"),
        ];
        for (word, other) in others {
            assert!(!near(word, other), "{word} -> {other}");
        }
    }
}
