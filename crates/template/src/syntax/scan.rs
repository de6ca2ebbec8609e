//! Splits a template into literal text and tags, and applies white space control.

use crate::engine::TemplateOptions;
use crate::error::Error;

use super::error_at;
use super::token::{Escapes, Token, newlines, tokenize};

/// A piece of a template.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// Literal text.
    Text(String),
    /// `{{ }}`.
    Variable {
        /// Text between the delimiters.
        written: &'a str,
        /// Tokens between the delimiters.
        tokens: Vec<Token<'a>>,
    },
    /// `{% %}`.
    Block {
        /// Text between the delimiters.
        written: &'a str,
        /// Tokens between the delimiters.
        tokens: Vec<Token<'a>>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    Block,
    Variable,
    Comment,
}

/// Splits the text.
pub(crate) fn scan<'a>(text: &'a str, options: &TemplateOptions, escapes: Escapes) -> Result<Vec<Piece<'a>>, Error> {
    let mut pieces = Vec::new();
    let mut position = 0;
    // Whether the following text is at the start of a line.
    let mut line_start = true;
    let mut tags = Tags::new(text, options);
    while let Some((start, tag, length)) = tags.next(position) {
        let mut literal = &text[position..start];
        let sign = text[start + length..].chars().next();
        match sign {
            Some('-') => literal = literal.trim_end(),
            Some('+') if tag != Tag::Variable => {}
            _ if options.lstrip_blocks && tag != Tag::Variable => {
                let line = literal.rfind('\n').map_or(0, |newline| newline + 1);
                if (line > 0 || line_start) && literal[line..].chars().all(char::is_whitespace) {
                    literal = &literal[..line];
                }
            }
            _ => {}
        }
        push_text(literal, options, &mut pieces);
        let signed = match sign {
            Some('-') => 1,
            Some('+') if tag != Tag::Variable => 1,
            _ => 0,
        };
        let inner = start + length + signed;
        let end_sign;
        match tag {
            Tag::Comment => {
                let end = &options.comment.1;
                let Some(found) = text[inner..].find(end.as_str()) else {
                    return Err(error_at(text, start, format!("the comment is never closed with `{end}`")));
                };
                end_sign = text[inner..inner + found].chars().next_back().filter(|sign| matches!(sign, '-' | '+'));
                position = inner + found + end.len();
            }
            Tag::Variable => {
                let (tokens, end) = tokenize(text, inner, Some(&options.variable.1), escapes)?;
                let Some(end) = end else { return Err(error_at(text, start, "the tag is never closed")) };
                pieces.push(Piece::Variable { written: &text[inner..end.inner], tokens });
                // Only a minus sign has a meaning here.
                end_sign = end.sign.filter(|sign| *sign == '-');
                position = end.position;
            }
            Tag::Block => {
                if let Some(raw) = raw_block(text, inner, options)? {
                    push_text(raw.content, options, &mut pieces);
                    position = raw.end;
                    line_start = text[..position].ends_with('\n');
                    continue;
                }
                let (tokens, end) = tokenize(text, inner, Some(&options.block.1), Escapes::Decoded)?;
                let Some(end) = end else { return Err(error_at(text, start, "the tag is never closed")) };
                pieces.push(Piece::Block { written: &text[inner..end.inner], tokens });
                end_sign = end.sign;
                position = end.position;
            }
        }
        position = after_tag(text, position, end_sign, options.trim_blocks && tag != Tag::Variable);
        line_start = text[..position].ends_with('\n');
    }
    push_text(&text[position..], options, &mut pieces);
    Ok(pieces)
}

/// Start of the text after a tag, with white space control applied.
fn after_tag(text: &str, position: usize, sign: Option<char>, trim: bool) -> usize {
    let rest = &text[position..];
    match sign {
        Some('-') => text.len() - rest.trim_start().len(),
        Some('+') => position,
        _ if trim && rest.starts_with('\n') => position + 1,
        _ if trim && rest.starts_with("\r\n") => position + 2,
        _ => position,
    }
}

fn push_text(literal: &str, options: &TemplateOptions, pieces: &mut Vec<Piece<'_>>) {
    if literal.is_empty() {
        return;
    }
    let text = newlines(literal);
    let text = match options.newline_sequence.as_str() {
        "\n" => text.into_owned(),
        newline => text.replace('\n', newline),
    };
    pieces.push(Piece::Text(text));
}

/// Finds tags in order.
struct Tags<'a> {
    text: &'a str,
    /// Each delimiter with its next position, so that a long text is searched once for each.
    delimiters: [(&'a str, Tag, usize); 3],
}

impl<'a> Tags<'a> {
    fn new(text: &'a str, options: &'a TemplateOptions) -> Self {
        let delimiters = [
            (options.block.0.as_str(), Tag::Block),
            (options.variable.0.as_str(), Tag::Variable),
            (options.comment.0.as_str(), Tag::Comment),
        ];
        Tags {
            text,
            delimiters: delimiters.map(|(delimiter, tag)| (delimiter, tag, text.find(delimiter).unwrap_or(usize::MAX))),
        }
    }

    /// The next tag from `position`, which must not decrease. If several delimiters match, the longest wins.
    fn next(&mut self, position: usize) -> Option<(usize, Tag, usize)> {
        for (delimiter, _, next) in &mut self.delimiters {
            if *next < position {
                *next = self.text[position..].find(*delimiter).map_or(usize::MAX, |found| position + found);
            }
        }
        let found = self.delimiters.iter().filter(|(.., next)| *next < usize::MAX);
        let first = found.min_by_key(|(delimiter, _, next)| (*next, usize::MAX - delimiter.len()));
        first.map(|(delimiter, tag, next)| (*next, *tag, delimiter.len()))
    }
}

struct Raw<'a> {
    content: &'a str,
    end: usize,
}

/// Parses `{% raw %}` to `{% endraw %}`, if such a block starts here.
fn raw_block<'a>(text: &'a str, inner: usize, options: &TemplateOptions) -> Result<Option<Raw<'a>>, Error> {
    let (block_start, block_end) = (options.block.0.as_str(), options.block.1.as_str());
    let Some(after) = text[inner..].trim_start().strip_prefix("raw") else { return Ok(None) };
    let after = after.trim_start();
    let (sign, after) = match after.strip_prefix('-') {
        Some(after) => (Some('-'), after),
        None => (None, after),
    };
    let Some(after) = after.strip_prefix(block_end) else { return Ok(None) };
    let start = after_tag(text, text.len() - after.len(), sign, false);
    let mut search = start;
    while let Some(found) = text[search..].find(block_start) {
        let tag = search + found;
        let rest = &text[tag + block_start.len()..];
        let (strip, rest) = match rest.chars().next() {
            Some('-') => (true, &rest[1..]),
            Some('+') => (false, &rest[1..]),
            _ => (false, rest),
        };
        if let Some(rest) = rest.trim_start().strip_prefix("endraw") {
            let rest = rest.trim_start();
            let (sign, rest) = match rest.chars().next().filter(|sign| matches!(sign, '-' | '+')) {
                Some(sign) => (Some(sign), &rest[1..]),
                None => (None, rest),
            };
            if let Some(rest) = rest.strip_prefix(block_end) {
                let content = &text[start..tag];
                return Ok(Some(Raw {
                    content: if strip { content.trim_end() } else { content },
                    end: after_tag(text, text.len() - rest.len(), sign, options.trim_blocks),
                }));
            }
        }
        search = tag + block_start.len();
    }
    Err(error_at(text, inner, "the raw block is never closed with `endraw`"))
}
