//! Sources of values and positions within them.

use std::fmt;
use std::sync::{Arc, LazyLock};

/// A text and the name users know it by.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The path (or other name) shown to users.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// Whether the text was decrypted and must not be shown.
    is_secret: bool,
}

impl Source {
    /// Creates a source, shared by the spans of everything read from it.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), text: text.into(), is_secret: false })
    }

    /// Creates a source with decrypted text, of which no excerpt is ever shown.
    pub fn secret(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), text: text.into(), is_secret: true })
    }

    /// Whether the text was decrypted and must not be shown.
    pub fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// The text of a line, counting from 1.
    pub fn line(&self, number: u32) -> Option<&str> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.text.split('\n').nth(index).map(|line| line.trim_end_matches('\r'))
    }
}

static NOWHERE: LazyLock<Arc<Source>> = LazyLock::new(|| Source::new("<generated>", ""));

/// A position in a [`Source`]; cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Span {
    /// The source.
    pub source: Arc<Source>,
    /// The line, counting from 1; 0 if the value has no position in a text.
    pub line: u32,
    /// The column in characters, counting from 1; 0 if the value has no position in a text.
    pub column: u32,
}

impl Span {
    /// Creates a position in a text.
    pub fn new(source: Arc<Source>, line: u32, column: u32) -> Self {
        Self { source, line, column }
    }

    /// The span of a value that has no source.
    pub fn none() -> Self {
        Self { source: Arc::clone(&NOWHERE), line: 0, column: 0 }
    }

    /// The span of a value whose source has a name but no text, such as the command line.
    pub fn synthetic(name: impl Into<String>) -> Self {
        Self { source: Source::new(name, ""), line: 0, column: 0 }
    }

    /// Whether the value has a line and column.
    pub fn is_located(&self) -> bool {
        self.line > 0
    }

    /// The line with a caret under the column; empty if the line does not exist or must not be shown.
    pub fn excerpt(&self) -> String {
        if self.source.is_secret {
            return String::new();
        }
        let Some(text) = self.source.line(self.line) else { return String::new() };
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let (shown, caret) = clip(text, self.column.saturating_sub(1) as usize);
        format!("{number} | {shown}\n{margin} | {caret}^")
    }
}

/// The part of a long line around the column, and the padding before the caret. Tabs become single spaces so that the
/// caret stays in place.
fn clip(text: &str, column: usize) -> (String, String) {
    const WIDTH: usize = 140;
    let characters: Vec<char> = text.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let column = column.min(characters.len());
    if characters.len() <= WIDTH {
        return (characters.into_iter().collect(), " ".repeat(column));
    }
    let start = column.saturating_sub(WIDTH / 2);
    let shown: String = characters.iter().skip(start).take(WIDTH).collect();
    let before = if start > 0 { "..." } else { "" };
    let after = if start + WIDTH < characters.len() { "..." } else { "" };
    (format!("{before}{shown}{after}"), " ".repeat(before.len() + column - start))
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_located() {
            write!(f, "{}:{}:{}", self.source.name, self.line, self.column)
        } else {
            f.write_str(&self.source.name)
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_points_at_the_column() {
        let span = Span::new(Source::new("play.yml", "- a: 1\r\n- b: 2\n"), 2, 3);
        assert_eq!(span.to_string(), "play.yml:2:3");
        assert_eq!(span.excerpt(), "2 | - b: 2\n  |   ^");
    }

    #[test]
    fn a_long_line_is_clipped_around_the_column() {
        let span = Span::new(Source::new("f", "x".repeat(1000)), 1, 500);
        let excerpt = span.excerpt();
        let (text, caret) = excerpt.split_once('\n').unwrap();
        assert!(text.len() < 160 && caret.ends_with('^') && caret.len() < text.len());
    }

    #[test]
    fn a_decrypted_text_is_not_shown() {
        let span = Span::new(Source::secret("vault.yml", "password: hunter2\n"), 1, 11);
        assert_eq!(span.excerpt(), "");
        assert_eq!(span.to_string(), "vault.yml:1:11");
    }

    #[test]
    fn value_without_source_has_no_excerpt() {
        assert_eq!(Span::none().excerpt(), "");
        assert_eq!(Span::synthetic("command line").to_string(), "command line");
    }
}
