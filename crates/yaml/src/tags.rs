//! Separates tags from a comma directly behind them, as in `[!!str, a]`. libyaml accepts that, but our parser panics on
//! it in a flow collection. With a blank before the comma, it reads the tag as libyaml does.

use std::collections::HashSet;

use libyaml_safer::{Encoding, Scanner, TokenData};

/// The text with a blank between every such tag and its comma; `None` if nothing changes.
pub(crate) fn apart(text: &str) -> Option<String> {
    let commas = suspects(text);
    if commas.is_empty() {
        return None;
    }
    // A blank before a comma that follows no tag only changes the content of a scalar, so the ends of tags stay
    // visible. A colon before the comma would then end a key, so a letter replaces it; a tag continues over the letter
    // too.
    let spaced = with_blanks(&with_letters(text, &commas), &commas);
    let mut bytes = spaced.as_bytes();
    let mut scanner = Scanner::new();
    scanner.set_encoding(Encoding::Utf8);
    scanner.set_input_string(&mut bytes);
    let mut ends = HashSet::new();
    for token in scanner {
        // In an invalid text, reading reports the same error.
        let Ok(token) = token else { return Some(with_blanks(text, &commas)) };
        if matches!(token.data, TokenData::Tag { .. }) {
            ends.insert(token.end_mark.index);
        }
    }
    let blanks = commas.iter().enumerate().filter(|(before, at)| ends.contains(&((*at + before) as u64)));
    let behind_tags: Vec<usize> = blanks.map(|(_, at)| *at).collect();
    (!behind_tags.is_empty()).then(|| with_blanks(text, &behind_tags))
}

/// The commas that may follow a tag: those with a `!` earlier in the same word.
fn suspects(text: &str) -> Vec<usize> {
    let mut commas = Vec::new();
    let (mut is_marked, mut skipped_until) = (false, 0);
    for (at, character) in text.char_indices() {
        match character {
            ' ' | '\t' | '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => is_marked = false,
            '!' => {
                is_marked = true;
                skipped_until = skipped_until.max(end_of_verbatim(text, at));
            }
            ',' if is_marked && at >= skipped_until => commas.push(at),
            _ => {}
        }
    }
    commas
}

/// The end of a verbatim tag such as `!<tag:yaml.org,2002:str>`, whose commas belong to it.
fn end_of_verbatim(text: &str, at: usize) -> usize {
    let inside = text.get(at..).and_then(|rest| rest.strip_prefix("!<")).unwrap_or_default();
    match inside.find(['>', '!', ' ', '\t', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
        Some(length) if inside.get(length..).is_some_and(|rest| rest.starts_with('>')) => at + 2 + length,
        _ => at,
    }
}

/// Replaces each colon directly before one of the commas with a letter.
fn with_letters(text: &str, commas: &[usize]) -> String {
    let mut letters = String::with_capacity(text.len());
    let mut from = 0;
    for at in commas {
        let before = text.get(from..*at).unwrap_or_default();
        match before.strip_suffix(':') {
            Some(rest) => letters.extend([rest, "x"]),
            None => letters += before,
        }
        from = *at;
    }
    letters + text.get(from..).unwrap_or_default()
}

fn with_blanks(text: &str, commas: &[usize]) -> String {
    let mut spaced = String::with_capacity(text.len() + commas.len());
    let mut from = 0;
    for at in commas {
        spaced += text.get(from..*at).unwrap_or_default();
        spaced.push(' ');
        from = *at;
    }
    spaced + text.get(from..).unwrap_or_default()
}
