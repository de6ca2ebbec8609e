//! Escapes text so that it cannot control a terminal, and shortens it.

use std::borrow::Cow;

/// A text of at most this many characters; of a longer one, its beginning and three dots.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Makes control characters visible: C0, C1 and those that change the writing direction.
///
/// Line feeds, tabs, and carriage returns directly before a line feed stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    // Recognises ASCII text, the usual case, without decoding it.
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

/// Whether a terminal interprets a character instead of displaying it.
pub(super) fn is_dangerous(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t')) || is_directional(c)
}

/// Whether a character changes the direction of surrounding text.
pub(super) fn is_directional(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_escaped() {
        assert_eq!(printable("a\u{1b}[2J\rb\u{202e}c\u{9b}d\u{7f}"), "a\\u{1b}[2J\\rb\\u{202e}c\\u{9b}d\\u{7f}");
        assert_eq!(printable("a\r\n\tb é\r"), "a\r\n\tb é\r");
    }
}
