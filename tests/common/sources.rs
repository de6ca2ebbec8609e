//! Finds source files of the project.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns all `.rs` files below `folders`, which are relative to the repository.
pub(crate) fn rust_files(folders: &[&str]) -> Vec<PathBuf> {
    let mut folders: Vec<_> = folders.iter().map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.extend(Some(path).filter(|path| path.extension().is_some_and(|end| end == "rs"))),
            }
        }
    }
    found
}

/// Literals of texts in a Rust source, without its tests, as they are printed.
pub(crate) fn literals(source: &str) -> Vec<String> {
    let mut rest = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut is_word = false;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        let raw = raw_start(rest).filter(|_| !is_word);
        is_word = letter.is_alphanumeric() || letter == '_';
        rest = match letter {
            '/' if after.starts_with('/') => after.find('\n').map_or("", |end| &after[end..]),
            '/' if after.starts_with('*') => after.split_once("*/").map_or("", |(_, rest)| rest),
            // A character, unless it is a lifetime.
            '\'' if after.starts_with('\\') => after[2..].split_once('\'').map_or("", |(_, rest)| rest),
            '\'' if after.chars().nth(1) == Some('\'') => after.split_once('\'').map_or("", |(_, rest)| rest),
            '"' => {
                let (text, rest) = escaped_text(after);
                found.push(text);
                rest
            }
            _ => match raw {
                Some((start, end)) => {
                    let (text, rest) = rest[start..].split_once(&*end).unwrap_or_default();
                    found.push(text.to_owned());
                    rest
                }
                None => after,
            },
        };
    }
    found
}

/// Length of the beginning of a raw text, and its end.
fn raw_start(source: &str) -> Option<(usize, String)> {
    let after = source.strip_prefix("br").or_else(|| source.strip_prefix('r'))?;
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    after[hashes..]
        .starts_with('"')
        .then(|| (source.len() - after.len() + hashes + 1, format!("\"{}", "#".repeat(hashes))))
}

/// A text up to its closing quotation mark, and the rest of the source.
fn escaped_text(source: &str) -> (String, &str) {
    let (mut text, mut letters) = (String::new(), source.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (text, &source[at + 1..]),
            '\\' => match letters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((at, '\n')) => {
                    let indent = source[at..].len() - source[at..].trim_start().len();
                    (1..indent).for_each(|_| _ = letters.next());
                }
                Some((_, other)) => text.push(other),
                None => break,
            },
            other => text.push(other),
        }
    }
    (text, "")
}
