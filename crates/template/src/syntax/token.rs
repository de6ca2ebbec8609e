//! Tokens of expressions.

use std::borrow::Cow;

use super::error_at;
use crate::error::Error;

/// Meaning of a backslash in a string literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Escapes {
    /// A backslash starts an escape sequence, as in Python.
    Decoded,
    /// A backslash is literal, because YAML has already decoded escape sequences.
    Literal,
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind<'a> {
    Name(&'a str),
    /// An integer in decimal.
    Integer(String),
    Float(f64),
    String(String),
    Operator(&'static str),
}

impl<'a> Token<'a> {
    /// Whether the token is this operator.
    pub(crate) fn is(&self, operator: &str) -> bool {
        matches!(self.kind, Kind::Operator(own) if own == operator)
    }

    /// The token's name, if it is one.
    pub(crate) fn name(&self) -> Option<&'a str> {
        if let Kind::Name(name) = self.kind { Some(name) } else { None }
    }
}

/// End of a tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Position after the delimiter.
    pub(crate) position: usize,
    /// Position before the delimiter and its sign.
    pub(crate) inner: usize,
    /// `-`, `+` or nothing before the delimiter.
    pub(crate) sign: Option<char>,
}

/// Sorted by length, longest first.
const OPERATORS: [&str; 29] = [
    "**", "//", "==", "!=", "<=", ">=", "<", ">", "=", "+", "-", "*", "/", "%", "~", "|", ".", ",", ":", ";", "(", ")",
    "[", "]", "{", "}", "&", "^", "!",
];

/// Reads tokens from `start` to the delimiter, or to the end of the text if there is none.
pub(crate) fn tokenize<'a>(
    text: &'a str,
    start: usize,
    delimiter: Option<&str>,
    escapes: Escapes,
) -> Result<(Vec<Token<'a>>, Option<End>), Error> {
    let mut tokens: Vec<Token<'a>> = Vec::new();
    let mut open: Vec<char> = Vec::new();
    let mut position = start;
    loop {
        position += text[position..].len() - text[position..].trim_start().len();
        let rest = &text[position..];
        if open.is_empty()
            && let Some(delimiter) = delimiter
        {
            let sign = rest.chars().next().filter(|sign| matches!(sign, '-' | '+'));
            let signed = sign.map_or(0, char::len_utf8);
            if rest[signed..].starts_with(delimiter) {
                let end = End { position: position + signed + delimiter.len(), inner: position, sign };
                return Ok((tokens, Some(end)));
            }
            if rest.starts_with(delimiter) {
                let end = End { position: position + delimiter.len(), inner: position, sign: None };
                return Ok((tokens, Some(end)));
            }
        }
        let Some(first) = rest.chars().next() else {
            return match (open.pop(), delimiter) {
                (Some(bracket), _) => Err(error_at(text, start, format!("`{bracket}` is never closed"))),
                (None, Some(delimiter)) => {
                    Err(error_at(text, start, format!("the tag is never closed with `{delimiter}`")))
                }
                (None, None) => Ok((tokens, None)),
            };
        };
        let (kind, length) = if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Kind::Name(&rest[..length]), length)
        } else if first.is_ascii_digit() {
            let after_dot = tokens.last().is_some_and(|token| token.is(".") && token.end == position);
            number(text, position, after_dot)?
        } else if first == '"' || first == '\'' {
            string(text, position, first, escapes)?
        } else {
            let Some(operator) = OPERATORS.into_iter().find(|operator| rest.starts_with(operator)) else {
                return Err(error_at(text, position, format!("`{first}` has no meaning here")));
            };
            match operator {
                "(" | "[" | "{" => open.push(first),
                ")" | "]" | "}" => {
                    let wanted = match operator {
                        ")" => '(',
                        "]" => '[',
                        _ => '{',
                    };
                    if open.pop() != Some(wanted) {
                        return Err(error_at(text, position, format!("`{operator}` closes nothing")));
                    }
                }
                _ => {}
            }
            (Kind::Operator(operator), operator.len())
        };
        tokens.push(Token { kind, start: position, end: position + length });
        position += length;
    }
}

fn number(text: &str, position: usize, after_dot: bool) -> Result<(Kind<'_>, usize), Error> {
    let rest = &text[position..];
    let bytes = rest.as_bytes();
    let radix = match bytes.get(..2) {
        Some(b"0x" | b"0X") => 16,
        Some(b"0o" | b"0O") => 8,
        Some(b"0b" | b"0B") => 2,
        _ => 10,
    };
    let run = |from: usize, radix: u32| {
        let length = rest[from..].find(|c: char| !c.is_digit(radix) && c != '_').unwrap_or(rest.len() - from);
        from + length
    };
    if radix != 10 {
        let end = run(2, radix);
        let digits = rest[2..end].replace('_', "");
        let value = u128::from_str_radix(&digits, radix)
            .map_err(|_| error_at(text, position, format!("`{}` is not a number", &rest[..end])))?;
        return Ok((Kind::Integer(value.to_string()), end));
    }
    let mut end = run(0, 10);
    let mut float = false;
    if !after_dot {
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            end = run(end + 1, 10);
            float = true;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
                end = run(end + 1 + sign, 10);
                float = true;
            }
        }
    }
    let digits = rest[..end].replace('_', "");
    if float {
        let value =
            digits.parse().map_err(|_| error_at(text, position, format!("`{}` is not a number", &rest[..end])))?;
        return Ok((Kind::Float(value), end));
    }
    let trimmed = digits.trim_start_matches('0');
    if trimmed.len() > 38 {
        return Err(error_at(text, position, format!("`{}...` has too many digits", &trimmed[..20])));
    }
    Ok((Kind::Integer(if trimmed.is_empty() { "0" } else { trimmed }.to_owned()), end))
}

/// Normalizes every newline to `\n`, as Jinja does.
pub(crate) fn newlines(text: &str) -> Cow<'_, str> {
    match text.contains('\r') {
        true => text.replace("\r\n", "\n").replace('\r', "\n").into(),
        false => text.into(),
    }
}

fn string(text: &str, position: usize, quote: char, escapes: Escapes) -> Result<(Kind<'_>, usize), Error> {
    let rest = &text[position + 1..];
    let mut characters = rest.char_indices();
    while let Some((index, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if character == quote {
            let inner = newlines(&rest[..index]);
            let value = match escapes {
                Escapes::Literal => inner.into_owned(),
                Escapes::Decoded => unescape(&inner),
            };
            return Ok((Kind::String(value), index + 2));
        }
    }
    Err(error_at(text, position, format!("the string that starts with {quote} is never closed")))
}

/// Decodes Python's escape sequences; unknown ones are kept.
fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('\\') {
        out.push_str(&rest[..position]);
        rest = &rest[position + 1..];
        let Some(escape) = rest.chars().next() else {
            out.push('\\');
            break;
        };
        let after = &rest[escape.len_utf8()..];
        let code = |length: usize, radix: u32| -> Option<(char, usize)> {
            let digits = after.get(..length)?;
            let value = u32::from_str_radix(digits, radix).ok()?;
            Some((char::from_u32(value)?, length))
        };
        let decoded = match escape {
            'n' => Some(('\n', 0)),
            't' => Some(('\t', 0)),
            'r' => Some(('\r', 0)),
            'a' => Some(('\x07', 0)),
            'b' => Some(('\x08', 0)),
            'f' => Some(('\x0c', 0)),
            'v' => Some(('\x0b', 0)),
            '\\' | '\'' | '"' => Some((escape, 0)),
            'x' => code(2, 16),
            'u' => code(4, 16),
            'U' => code(8, 16),
            '0'..='7' => {
                let length = rest.bytes().take(3).take_while(|digit| (b'0'..=b'7').contains(digit)).count();
                u32::from_str_radix(&rest[..length], 8).ok().and_then(char::from_u32).map(|c| (c, length - 1))
            }
            '\n' => {
                rest = after;
                continue;
            }
            _ => None,
        };
        match decoded {
            Some((character, length)) => {
                out.push(character);
                rest = &after[length..];
            }
            None => {
                out.push('\\');
                out.push(escape);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
