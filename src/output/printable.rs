//! Texts that cannot drive a terminal.

use std::borrow::Cow;

/// A text whose control characters are visible: those of C0 and C1, and those that turn the direction of writing.
///
/// Line feeds, tabs, and carriage returns right before a line feed stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    // Plain text, which is the usual case, is found without decoding it.
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'));
    if is_plain || !text.contains(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut harmless = String::with_capacity(text.len() + 16);
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        if is_dangerous(c) && !(c == '\r' && letters.peek().is_none_or(|next| *next == '\n')) {
            harmless.extend(c.escape_default());
        } else {
            harmless.push(c);
        }
    }
    Cow::Owned(harmless)
}

/// A character that a terminal obeys instead of showing it.
pub(super) fn is_dangerous(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t')) || is_directional(c)
}

/// A character that changes the direction of the text around it.
pub(super) fn is_directional(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_drive_a_terminal_are_visible() {
        assert_eq!(printable("a\u{1b}[2J\rb\u{202e}c\u{9b}d\u{7f}"), "a\\u{1b}[2J\\rb\\u{202e}c\\u{9b}d\\u{7f}");
        assert_eq!(printable("a\r\n\tb é\r"), "a\r\n\tb é\r");
    }
}
