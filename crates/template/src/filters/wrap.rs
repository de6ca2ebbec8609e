//! `wordwrap`: Python's `textwrap` as called by Jinja.

use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::error::Error;
use crate::limits;
use crate::python::split_lines;

pub(super) fn wordwrap(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let width = args.size("width", 79)?;
    if width == 0 {
        return Err(args.error("cannot wrap to a width of 0"));
    }
    let separator = args.text_of("wrapstring").unwrap_or_else(|| "\n".to_owned());
    let break_long_words = args.flag("break_long_words", true);
    let break_on_hyphens = args.flag("break_on_hyphens", true);
    let value = args.string()?;
    let paragraphs: Vec<String> = split_lines(value)
        .into_iter()
        .map(|line| {
            let lines = wrap(line, width, break_long_words, break_on_hyphens)?;
            limits::take(separator.len().saturating_mul(lines.len() + 1))?;
            Ok(lines.join(&separator))
        })
        .collect::<Result<_, minijinja::Error>>()?;
    Ok(Value::from(paragraphs.join(&separator)))
}

/// Wraps one line. Spaces within a line are kept; spaces at a break are dropped.
fn wrap(line: &str, width: usize, break_long_words: bool, break_on_hyphens: bool) -> Result<Vec<String>, Error> {
    let mut chunks: Vec<String> = chunks(line, break_on_hyphens);
    chunks.reverse();
    let count = |text: &str| text.chars().count();
    let mut lines = Vec::new();
    while !chunks.is_empty() {
        limits::time()?;
        let mut current: Vec<String> = Vec::new();
        let mut length = 0;
        if !lines.is_empty() && chunks.last().is_some_and(|chunk| chunk.trim().is_empty()) {
            chunks.pop();
        }
        while let Some(chunk) = chunks.last() {
            if length + count(chunk) > width {
                break;
            }
            length += count(chunk);
            current.extend(chunks.pop());
        }
        if let Some(chunk) = chunks.last()
            && count(chunk) > width
        {
            let space = width.saturating_sub(length).max(usize::from(width == 0));
            if break_long_words {
                let chunk = chunks.pop().unwrap_or_default();
                let mut cut = chunk.char_indices().nth(space).map_or(chunk.len(), |(index, _)| index);
                if break_on_hyphens
                    && let Some(hyphen) = chunk[..cut].rfind('-')
                    && hyphen > 0
                    && chunk[..hyphen].contains(|character| character != '-')
                {
                    cut = hyphen + 1;
                }
                current.push(chunk[..cut].to_owned());
                chunks.push(chunk[cut..].to_owned());
            } else if current.is_empty() {
                current.extend(chunks.pop());
            }
        }
        if current.last().is_some_and(|chunk| chunk.trim().is_empty()) {
            current.pop();
        }
        if !current.is_empty() {
            lines.push(current.concat());
        }
    }
    Ok(lines)
}

/// Splits into words, runs of spaces, and parts of words after hyphens.
fn chunks(line: &str, break_on_hyphens: bool) -> Vec<String> {
    let mut chunks = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_space = |character| "\t\u{b}\u{c}\r ".contains(character);
        let space = is_space(first);
        let end = rest.find(|character| is_space(character) != space).unwrap_or(rest.len());
        let (run, others) = rest.split_at(end);
        rest = others;
        if space || !break_on_hyphens {
            chunks.push(run.to_owned());
            continue;
        }
        let characters: Vec<(usize, char)> = run.char_indices().collect();
        let at = |index: Option<usize>| index.and_then(|index| characters.get(index)).map(|(_, character)| *character);
        let letter = |found: Option<char>| found.is_some_and(|found| found.is_alphabetic() || found == '_');
        let word = |found: Option<char>| letter(found) || found.is_some_and(char::is_alphanumeric);
        let mut start = 0;
        for (index, &(position, character)) in characters.iter().enumerate() {
            // A hyphen only splits a word with letters on both sides, so `-1` and `a--b` stay whole.
            let before = letter(at(index.checked_sub(1))) && word(at(index.checked_sub(2)));
            let next = at(Some(index + 2));
            let after = letter(at(Some(index + 1))) && (letter(next) || next == Some('-'));
            if character == '-' && before && after {
                chunks.push(run[start..=position].to_owned());
                start = position + 1;
            }
        }
        chunks.push(run[start..].to_owned());
    }
    chunks
}
