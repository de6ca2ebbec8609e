//! What can be wrong with a text.

use crate::Span;

/// A text that could not be read, with the place, the line and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.render())]
pub struct Error(Box<Details>);

#[derive(Debug)]
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
    /// The text is YAML, but says something that has no meaning: an unknown tag, a list as a key.
    Meaning,
    /// The text is too large, too deep or expands too far.
    Limit,
    /// A mapping has the same key twice and the options forbid it.
    DuplicateKey,
    /// A value could not be written.
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

    /// What is wrong, one sentence without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where.
    pub fn span(&self) -> &Span {
        &self.0.span
    }

    /// What to do about it, when that is known.
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

/// Something about a text that is not wrong but surely not meant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A key stands twice in one mapping; the later value is used.
    #[error("{second}: found a duplicate dict key ({key}): it is at line {} already; the value here is used.", .first.line)]
    DuplicateKey {
        /// The key as text.
        key: String,
        /// Where it stands first.
        first: Span,
        /// Where it stands again.
        second: Span,
    },
    /// A tag that Ansible is about to drop.
    #[error("{span}: The tag `{tag}` is deprecated; use {instead} instead.")]
    DeprecatedTag {
        /// The tag as written.
        tag: &'static str,
        /// What to write instead.
        instead: &'static str,
        /// Where it stands.
        span: Span,
    },
}

impl Warning {
    /// Where it is.
    pub fn span(&self) -> &Span {
        match self {
            Self::DuplicateKey { second, .. } => second,
            Self::DeprecatedTag { span, .. } => span,
        }
    }
}
