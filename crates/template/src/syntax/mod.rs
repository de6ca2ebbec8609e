//! Translates templates for minijinja.
//!
//! The text is split into pieces, its expressions are parsed, and both are rewritten for minijinja. Every operator,
//! attribute and subscript becomes a filter of [`operators`](crate::operators), so that it behaves like Python and sees
//! undefined values. White space control and custom delimiters are already applied.

mod expression;
mod lines;
mod postfix;
mod scan;
mod statement;
mod template;
mod token;

use std::fmt::Write as _;

pub(crate) use scan::{Piece, scan};
pub(crate) use token::{Escapes, Kind, Token, tokenize};

use crate::engine::TemplateOptions;
use crate::error::Error;
use expression::Parser;

/// Treatment of string literals in expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Dialect {
    /// Meaning of a backslash in a string literal of `{{ }}`.
    pub(crate) escapes: Escapes,
    /// Whether string literals that are templates are rendered everywhere, not only as terms of lookups.
    pub(crate) nested_templates: bool,
}

/// A parsed text.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Nothing to evaluate.
    Text(String),
    /// Only `{{ }}` and text, as a list of parts.
    Parts(Vec<Part>),
    /// A template with blocks.
    Template(Template),
}

/// A template translated for minijinja.
#[derive(Debug)]
pub(crate) struct Template {
    /// Source for minijinja.
    pub(crate) source: String,
    /// Whether lists and dictionaries are changed in place.
    pub(crate) mutates: bool,
    /// Whether the output can be a single value, because nothing prints in a special way.
    pub(crate) transparent: bool,
}

/// A part of a text without blocks.
#[derive(Debug)]
pub(crate) enum Part {
    /// Literal text.
    Text(String),
    /// An expression.
    Expression(Expression),
}

/// An expression translated for minijinja.
#[derive(Debug)]
pub(crate) struct Expression {
    /// Source for minijinja.
    pub(crate) code: String,
    /// Text between the delimiters as written, trimmed.
    pub(crate) written: String,
    /// The name, if the expression is a single variable.
    pub(crate) name: Option<String>,
    /// Whether lists and dictionaries are changed in place.
    pub(crate) mutates: bool,
    /// Whether a string in it is a template.
    pub(crate) embeds: bool,
    /// Line in the template, counting from 1.
    pub(crate) line: usize,
}

/// Whether the text has anything but literal text, with the default delimiters.
pub(crate) fn is_template(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr_brace(bytes) || text.starts_with(crate::header::MARK)
}

fn memchr_brace(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair[0] == b'{' && matches!(pair[1], b'{' | b'%' | b'#'))
}

/// Filter that reads a template's result in a condition as the value or variable it names.
pub(crate) const REREAD: &str = "__reread";

/// Rewrites a condition with templates as one expression: the text between `{{` and `}}` is inserted as it is, instead
/// of being parsed twice. `None` if the condition has blocks.
pub(crate) fn inline_templates(text: &str) -> Result<Option<String>, Error> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut quote = None;
    for piece in scan(text, &TemplateOptions::default(), Escapes::Decoded)? {
        match piece {
            Piece::Text(text) => {
                for character in text.chars() {
                    match (character, quote) {
                        ('\'' | '"', None) => quote = Some(character),
                        (_, Some(open)) if character == open => quote = None,
                        _ => {}
                    }
                }
                out.push_str(&text);
            }
            Piece::Variable { written, .. } => {
                let _ = match quote {
                    Some(quote) => write!(out, "{quote} ~ ({written}) ~ {quote}"),
                    None => write!(out, "(({written})|{REREAD})"),
                };
            }
            Piece::Block { .. } => return Ok(None),
        }
    }
    Ok(Some(out))
}

/// Parses a single expression, such as a condition.
pub(crate) fn parse_expression(text: &str, dialect: Dialect) -> Result<Expression, Error> {
    let (tokens, _) = token::tokenize(text, 0, None, dialect.escapes)?;
    expression(text, text, &tokens, dialect)
}

fn expression(text: &str, written: &str, tokens: &[token::Token<'_>], dialect: Dialect) -> Result<Expression, Error> {
    let mutates = mutates(tokens);
    let mut parser = Parser::new(text, tokens, dialect.nested_templates, mutates);
    let code = parser.tuple()?;
    parser.end()?;
    let name = parser.single_name();
    let line = line_of(text, tokens.first().map_or(0, |token| token.start));
    Ok(Expression { code, written: written.trim().to_owned(), name, mutates, embeds: parser.embeds, line })
}

/// Whether a mutating method is called.
fn mutates(tokens: &[token::Token<'_>]) -> bool {
    tokens.windows(3).any(|window| {
        window[0].is(".")
            && window[2].is("(")
            && matches!(
                window[1].name(),
                Some(
                    "append"
                        | "extend"
                        | "insert"
                        | "remove"
                        | "pop"
                        | "clear"
                        | "sort"
                        | "reverse"
                        | "update"
                        | "setdefault"
                        | "popitem"
                        | "__setitem__"
                        | "__delitem__"
                )
            )
    })
}

/// Parses the text of a template.
pub(crate) fn parse(text: &str, options: &TemplateOptions, dialect: Dialect) -> Result<Parsed, Error> {
    let text = &*lines::rewrite(text, options);
    let pieces = scan(text, options, dialect.escapes)?;
    if pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) {
        let text = pieces.into_iter().filter_map(|piece| if let Piece::Text(text) = piece { Some(text) } else { None });
        return Ok(Parsed::Text(text.collect()));
    }
    if !pieces.iter().any(|piece| matches!(piece, Piece::Block { .. })) {
        let mut parts = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => parts.push(Part::Text(text)),
                Piece::Variable { written, tokens, .. } => {
                    parts.push(Part::Expression(expression(text, written, &tokens, dialect)?));
                }
                Piece::Block { .. } => {}
            }
        }
        return Ok(Parsed::Parts(parts));
    }
    Ok(Parsed::Template(template::write(text, pieces, dialect)?))
}

/// Parses a text that must become a template, whatever its content.
pub(crate) fn parse_template(text: &str, options: &TemplateOptions, dialect: Dialect) -> Result<Template, Error> {
    let text = &*lines::rewrite(text, options);
    template::write(text, scan(text, options, dialect.escapes)?, dialect)
}

/// Line of an offset, counting from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// Formats a string as a literal for minijinja.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

/// Creates a syntax error with its position in the text.
fn error_at(text: &str, offset: usize, message: impl Into<String>) -> Error {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message: String = message.into();
    Error::syntax(format!("Syntax error in the template at line {line}, column {column}: {message}."))
        .at_position(line, column)
}
