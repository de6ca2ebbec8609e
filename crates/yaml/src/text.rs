use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Text of the project's own files, which may be a template.
///
/// Whoever can make one can run programs on the control machine, so data must never become one. The parser makes them from the files of
/// the project. [`Text::of_project`] is on clippy's list of disallowed methods: each call must be expected, with the reason why its text
/// is the project's own.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(Arc<str>);

impl Text {
    /// Vouches that a text is written in the project (or typed by its user) and holds nothing that came from anywhere else.
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
