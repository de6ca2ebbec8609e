//! [`Text`], the only type that may become a template, alone in its file so that its constructor stays its only way in.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Text of the project's own files, which may be a template.
///
/// A template can run programs on the control machine, so data must never become a `Text`. The parser creates it from
/// project files. [`Text::of_project`] is on clippy's list of disallowed methods: each call needs an `expect` with the
/// reason why its text belongs to the project.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(Arc<str>);

impl Text {
    /// Vouches that a text comes from the project or was typed by its user, with nothing mixed in from elsewhere.
    pub fn of_project(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<Text> for Arc<str> {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self)
    }
}
