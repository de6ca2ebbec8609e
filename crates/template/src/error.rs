//! What can go wrong when a template is evaluated.

/// What kind of mistake it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not a template that can be parsed.
    Syntax,
    /// A variable, key or attribute does not exist.
    Undefined {
        /// Its name as written.
        name: String,
    },
    /// A value is not known yet, in check mode.
    Unknown {
        /// Why it is not known.
        reason: String,
    },
    /// A condition did not give a boolean.
    Conditional,
    /// A filter, test, method or operator refused its arguments.
    Filter,
    /// A variable refers to itself.
    Recursion {
        /// The variables from the first to the one that closes the circle.
        chain: Vec<String>,
    },
    /// A lookup failed.
    Lookup,
    /// A vaulted value could not be decrypted.
    Vault,
}

/// A template could not be evaluated.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of that kind; the message is a whole sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// A filter, test, method or operator refused its arguments.
    pub fn filter(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Filter, message)
    }

    /// A lookup failed.
    pub fn lookup(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Lookup, message)
    }

    /// What kind of mistake it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The sentence, without where it happened.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Lets filters and functions use `?` on our errors; the kind survives the way through minijinja.
impl From<Error> for minijinja::Error {
    fn from(error: Error) -> minijinja::Error {
        minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, error.message.clone()).with_source(error)
    }
}
