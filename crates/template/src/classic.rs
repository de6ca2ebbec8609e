//! The types of ansible-core 2.18: everything is text first, and text that looks like data becomes data.

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};

use crate::error::Error;
use crate::mark::{Mark, check, is_omit, mark};
use crate::plain::plain;
use crate::python::{number, text, time};

/// What a template evaluates to. Only the value of a variable that stands alone keeps its type.
pub(crate) fn single(value: &Value, variable: bool) -> Result<Value, Error> {
    if is_omit(value) {
        return Ok(value.clone());
    }
    if matches!(mark(value), Some(Mark::Nothing)) {
        return Ok(Value::from(""));
    }
    check(value)?;
    Ok(match value.kind() {
        ValueKind::None if !variable => Value::from(""),
        ValueKind::None | ValueKind::Bool | ValueKind::Bytes => value.clone(),
        ValueKind::Number if variable => value.clone(),
        ValueKind::Number => Value::from(text(value)),
        ValueKind::String if value.is_safe() => value.clone(),
        ValueKind::String => {
            let string = value.as_str().unwrap_or_default();
            literal(string).unwrap_or_else(|| value.clone())
        }
        _ if time::is_datetime(value) || time::is_timedelta(value) => Value::from(text(value)),
        _ if value.is_tuple() => Value::from(text(&plain(value)?)),
        _ => value.clone(),
    })
}

/// Whether an expression ends with a filter whose text stays text, whatever it looks like.
pub(crate) fn keeps_text(expression: &str) -> bool {
    let Some(last) = last_filter(expression) else { return false };
    let name = last.split('(').next().unwrap_or_default().trim();
    matches!(name, "string" | "to_json" | "to_nice_json" | "to_yaml" | "to_nice_yaml" | "ppretty" | "json")
}

/// What follows the last `|` that stands neither in parentheses nor in quotes.
fn last_filter(expression: &str) -> Option<&str> {
    let (mut found, mut depth, mut quote, mut escaped) = (None, 0i32, None, false);
    for (index, character) in expression.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, '|') if depth == 0 => found = expression.get(index + 1..),
            (None, _) => {}
        }
    }
    found
}

/// Text that stays text wherever it goes, through variables and loops. Templates escape nothing, so the mark is free for that.
pub(crate) fn kept(value: Value) -> Value {
    value.as_str().map(|text| Value::from_safe_string(text.to_owned())).unwrap_or(value)
}

/// The data that text is, if it looks like a list, a dict or a boolean of Python or JSON.
fn literal(text: &str) -> Option<Value> {
    match text {
        "True" => return Some(Value::from(true)),
        "False" => return Some(Value::from(false)),
        _ => {}
    }
    if !text.starts_with(['[', '{']) || text.starts_with("{{") {
        return None;
    }
    let mut reader = Reader { rest: text, depth: 0 };
    let value = reader.value()?;
    reader.space();
    reader.rest.is_empty().then_some(value)
}

/// The value that text spells out: a number, a boolean, a list or a dict.
pub(crate) fn spelled(text: &str) -> Option<Value> {
    match text {
        "True" | "true" => return Some(Value::from(true)),
        "False" | "false" => return Some(Value::from(false)),
        "None" | "none" => return Some(Value::from(())),
        _ => {}
    }
    if text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '.')) {
        let mut reader = Reader { rest: text, depth: 0 };
        return reader.number().filter(|_| reader.rest.is_empty());
    }
    literal(text)
}

/// Reads literals of Python, with JSON's `true`, `false` and `null`.
struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn accept(&mut self, token: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > 100 {
            return None;
        }
        self.space();
        let value = match self.rest.chars().next()? {
            '[' => Value::from(self.items("[", "]")?.0),
            '(' => {
                let (mut items, comma) = self.items("(", ")")?;
                if items.len() == 1 && !comma { items.remove(0) } else { Value::from(Tuple::from(items)) }
            }
            '{' => self.entries()?,
            '\'' | '"' => self.string()?,
            'u' | 'b' if self.rest[1..].starts_with(['\'', '"']) => {
                self.rest = &self.rest[1..];
                self.string()?
            }
            '-' | '+' | '.' | '0'..='9' => self.number()?,
            _ => self.word()?,
        };
        self.depth -= 1;
        Some(value)
    }

    fn items(&mut self, open: &str, close: &str) -> Option<(Vec<Value>, bool)> {
        self.accept(open);
        let mut items = Vec::new();
        let mut comma = false;
        while !self.accept(close) {
            if !items.is_empty() && !comma {
                return None;
            }
            items.push(self.value()?);
            comma = self.accept(",");
        }
        Some((items, comma))
    }

    fn entries(&mut self) -> Option<Value> {
        self.accept("{");
        let mut entries: IndexMap<Value, Value> = IndexMap::new();
        let mut comma = true;
        while !self.accept("}") {
            if !comma {
                return None;
            }
            let key = self.value()?;
            if !self.accept(":") {
                return None;
            }
            entries.insert(key, self.value()?);
            comma = self.accept(",");
        }
        Some(Value::from_object(entries))
    }

    fn string(&mut self) -> Option<Value> {
        let mut out = String::new();
        loop {
            let quote = self.rest.chars().next()?;
            let mut characters = self.rest[1..].char_indices();
            let end = loop {
                let (index, character) = characters.next()?;
                if character == '\\' {
                    characters.next();
                } else if character == quote {
                    break index;
                }
            };
            out.push_str(&crate::syntax::unescape(&self.rest[1..=end]));
            self.rest = &self.rest[end + 2..];
            // Strings one after the other are one.
            self.space();
            if !self.rest.starts_with(['\'', '"']) {
                return Some(Value::from(out));
            }
        }
    }

    fn number(&mut self) -> Option<Value> {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.' | '_'))
            .unwrap_or(self.rest.len());
        let digits = &self.rest[..end];
        // Python does not read `0644`.
        let unsigned = digits.trim_start_matches(['+', '-']);
        if unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let value = match digits.parse::<i128>() {
            Ok(integer) => number::integer(integer),
            Err(_) => Value::from(digits.parse::<f64>().ok()?),
        };
        self.rest = &self.rest[end..];
        Some(value)
    }

    fn word(&mut self) -> Option<Value> {
        for (word, value) in [
            ("True", Value::from(true)),
            ("true", Value::from(true)),
            ("False", Value::from(false)),
            ("false", Value::from(false)),
            ("None", Value::from(())),
            ("null", Value::from(())),
        ] {
            if self.accept(word) {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_that_keeps_text_is_the_last_one_outside_of_parentheses() {
        assert!(keeps_text("d | to_nice_json(indent=(width | int))"));
        assert!(keeps_text("d | to_json"));
        assert!(keeps_text("'|' ~ d | string"));
        assert!(!keeps_text("d | default('|to_json')"));
        assert!(!keeps_text("(d | to_json)"));
        assert!(!keeps_text("d | to_json | from_json"));
    }
}
