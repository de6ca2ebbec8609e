//! Errors and warnings about a text.

use crate::Span;

/// An unreadable text, with position, line and remedy.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.render())]
pub struct Error(Box<Details>);

#[derive(Clone, Debug)]
struct Details {
    kind: ErrorKind,
    message: String,
    span: Span,
    hint: Option<String>,
}

/// The sort of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is not YAML.
    Syntax,
    /// The text is YAML but has no meaning, such as an unknown tag or a list as a key.
    Meaning,
    /// The text is too large, nests too deep or expands too far.
    Limit,
    /// A mapping repeats a key and the options forbid it.
    DuplicateKey,
    /// A value cannot be written.
    Emit,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>, span: Span) -> Self {
        Self(Box::new(Details { kind, message: message.into(), span, hint: None }))
    }

    pub(crate) fn with_hint(mut self, hint: Option<String>) -> Self {
        self.0.hint = hint;
        self
    }

    /// The sort of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The problem in one sentence, without the position.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Position of the problem.
    pub fn span(&self) -> &Span {
        &self.0.span
    }

    /// Suggested remedy, if known.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    fn render(&self) -> String {
        let mut text = format!("{}: {}", self.0.span, self.0.message);
        let excerpt = self.0.span.excerpt();
        if !excerpt.is_empty() {
            text.push('\n');
            text += &excerpt;
        }
        if let Some(hint) = &self.0.hint {
            text.push('\n');
            text += hint;
        }
        text
    }
}

/// A valid text that was probably meant differently.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A mapping repeats a key; the later value is used.
    #[error("{second}: found a duplicate dict key ({key}): it is at line {} already; the value here is used.", .first.line)]
    DuplicateKey {
        /// The key as text.
        key: String,
        /// First position.
        first: Span,
        /// Second position.
        second: Span,
    },
    /// A tag that Ansible has deprecated.
    #[error("{span}: The tag `{tag}` is deprecated; use {instead} instead.")]
    DeprecatedTag {
        /// The tag as written.
        tag: &'static str,
        /// Text to write instead.
        instead: &'static str,
        /// Position of the tag.
        span: Span,
    },
}

impl Warning {
    /// Position of the problem.
    pub fn span(&self) -> &Span {
        match self {
            Self::DuplicateKey { second, .. } => second,
            Self::DeprecatedTag { span, .. } => span,
        }
    }
}
