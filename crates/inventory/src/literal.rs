//! Python literals, which INI inventories use for their values: `1`, `True`, `[1, 'a']`, `{'a': None}`.

use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Span, Value, python_int_literal};

/// Reads a text as a Python literal, the way `ast.literal_eval` does; `None` when it is not one. Tuples and sets
/// become lists, strings may be templates.
pub fn python_literal(text: &str, span: &Span) -> Option<Node> {
    let text = text.trim_start_matches([' ', '\t']);
    // Most values are plain words, and those need no parser.
    let first = text.chars().next()?;
    if first.is_alphabetic() && !could_be_literal(text) {
        return None;
    }
    let mut parser = Parser { rest: text, span, depth: 0 };
    let value = parser.top()?;
    parser.blank();
    parser.rest.is_empty().then(|| Node::new(value, span.clone()))
}

fn could_be_literal(text: &str) -> bool {
    ["True", "False", "None", "set"].iter().any(|word| text.starts_with(word))
        || text.bytes().take(3).any(|byte| byte == b'"' || byte == b'\'')
}

const MAX_DEPTH: usize = 100;

struct Parser<'a> {
    rest: &'a str,
    span: &'a Span,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn take(&mut self, token: &str) -> bool {
        self.blank();
        let found = self.rest.starts_with(token);
        if found {
            self.skip(token.len());
        }
        found
    }

    /// White space and a comment to the end.
    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('#') {
            self.rest = "";
        }
    }

    fn node(&self, value: Value) -> Node {
        Node::new(value, self.span.clone())
    }

    fn list(&self, items: Vec<Value>) -> Value {
        Value::List(items.into_iter().map(|item| self.node(item)).collect())
    }

    /// A value, or several with commas between them, which are a tuple even without parentheses.
    fn top(&mut self) -> Option<Value> {
        let first = self.value()?;
        if !self.take(",") {
            return Some(first);
        }
        let mut items = vec![first];
        loop {
            self.blank();
            if self.rest.is_empty() {
                break;
            }
            items.push(self.value()?);
            if !self.take(",") {
                break;
            }
        }
        Some(self.list(items))
    }

    fn value(&mut self) -> Option<Value> {
        self.blank();
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = match self.peek()? {
            '[' => self.items("[", "]").map(|(items, _)| self.list(items)),
            '(' => self.parenthesised(),
            '{' => self.braces(),
            '\'' | '"' => self.strings(),
            '+' | '-' => self.signed(),
            '0'..='9' | '.' => self.number(false),
            _ => self.word(),
        };
        self.depth -= 1;
        value
    }

    fn word(&mut self) -> Option<Value> {
        for (word, value) in
            [("True", Value::Bool(true)), ("False", Value::Bool(false)), ("None", Value::Null), ("...", string("..."))]
        {
            if self.rest.starts_with(word) {
                self.skip(word.len());
                return self.at_word_end().then_some(value);
            }
        }
        if self.rest.starts_with("set") && !self.rest.starts_with("set'") && !self.rest.starts_with("set\"") {
            self.skip(3);
            return (self.take("(") && self.take(")")).then(|| self.list(Vec::new()));
        }
        self.strings()
    }

    fn at_word_end(&self) -> bool {
        !self.peek().is_some_and(|character| character.is_alphanumeric() || character == '_')
    }

    /// Values between brackets, and whether the last was followed by a comma.
    fn items(&mut self, open: &str, close: &str) -> Option<(Vec<Value>, bool)> {
        let mut items = Vec::new();
        self.take(open).then_some(())?;
        loop {
            if self.take(close) {
                let comma = !items.is_empty();
                return Some((items, comma));
            }
            items.push(self.value()?);
            if self.take(close) {
                return Some((items, false));
            }
            self.take(",").then_some(())?;
        }
    }

    fn parenthesised(&mut self) -> Option<Value> {
        let (mut items, comma) = self.items("(", ")")?;
        if items.len() == 1 && !comma { items.pop() } else { Some(self.list(items)) }
    }

    fn braces(&mut self) -> Option<Value> {
        self.take("{").then_some(())?;
        let mut mapping = Mapping::new();
        if self.take("}") {
            return Some(Value::Map(Arc::new(mapping)));
        }
        let first = self.value()?;
        if !self.take(":") {
            return self.set(first);
        }
        let mut key = first;
        loop {
            if matches!(key, Value::List(_) | Value::Map(_)) {
                return None;
            }
            let value = self.value()?;
            mapping.insert(Key { value: key, span: self.span.clone() }, self.node(value));
            if self.take("}") {
                break;
            }
            self.take(",").then_some(())?;
            if self.take("}") {
                break;
            }
            key = self.value()?;
            self.take(":").then_some(())?;
        }
        Some(Value::Map(Arc::new(mapping)))
    }

    fn set(&mut self, first: Value) -> Option<Value> {
        let mut items = vec![first];
        loop {
            if self.take("}") {
                return Some(self.list(items));
            }
            self.take(",").then_some(())?;
            if self.take("}") {
                return Some(self.list(items));
            }
            let item = self.value()?;
            if !items.contains(&item) {
                items.push(item);
            }
        }
    }

    fn signed(&mut self) -> Option<Value> {
        let negative = self.peek() == Some('-');
        self.skip(1);
        self.blank();
        if self.rest.starts_with("...") { None } else { self.number(negative) }
    }

    fn number(&mut self, negative: bool) -> Option<Value> {
        if self.rest.starts_with("...") {
            return self.word();
        }
        let end = number_end(self.rest);
        let text = self.rest.get(..end).filter(|text| !text.is_empty())?;
        self.skip(end);
        if !self.at_word_end() {
            return None;
        }
        if let Some(decimal) = python_int_literal(text) {
            let decimal = if negative && decimal != "0" { format!("-{decimal}") } else { decimal };
            return Some(decimal.parse().map_or(Value::BigInt(decimal), Value::Int));
        }
        let clean = float_digits(text)?;
        let value: f64 = clean.parse().ok()?;
        Some(Value::Float(if negative { -value } else { value }))
    }

    /// One or more adjacent strings.
    fn strings(&mut self) -> Option<Value> {
        let mut text = self.string()?;
        loop {
            self.blank();
            let quote_follows = self.rest.bytes().take(3).any(|byte| byte == b'"' || byte == b'\'');
            if !quote_follows || !self.peek().is_some_and(|c| c.is_alphabetic() || c == '"' || c == '\'') {
                return Some(Value::String(text.into()));
            }
            text += &self.string()?;
        }
    }

    fn string(&mut self) -> Option<String> {
        let quote_at = self.rest.find(['"', '\''])?;
        let prefix = self.rest.get(..quote_at)?.to_ascii_lowercase();
        if !matches!(prefix.as_str(), "" | "u" | "r" | "b" | "rb" | "br") {
            return None;
        }
        self.skip(quote_at);
        let quote = self.peek()?;
        let triple = quote.to_string().repeat(3);
        let end = if self.rest.starts_with(&triple) { triple } else { quote.to_string() };
        self.skip(end.len());
        let mut text = String::new();
        loop {
            if self.rest.starts_with(&end) {
                self.skip(end.len());
                return Some(text);
            }
            let character = self.peek()?;
            self.skip(character.len_utf8());
            if character == '\\' {
                self.escape(prefix.contains('r'), &mut text)?;
            } else {
                text.push(character);
            }
        }
    }

    fn escape(&mut self, raw: bool, text: &mut String) -> Option<()> {
        let character = self.peek()?;
        self.skip(character.len_utf8());
        if raw {
            text.push('\\');
            text.push(character);
            return Some(());
        }
        let decoded = match character {
            '\\' | '\'' | '"' => character,
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            '0'..='7' => {
                let mut code = character.to_digit(8)?;
                for _ in 0..2 {
                    let Some(digit) = self.peek().and_then(|character| character.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    self.skip(1);
                }
                char::from_u32(code)?
            }
            'N' => return None,
            other => {
                text.push('\\');
                other
            }
        };
        text.push(decoded);
        Some(())
    }

    fn code(&mut self, digits: usize) -> Option<char> {
        let text = self.rest.get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let character = char::from_u32(u32::from_str_radix(text, 16).ok()?)?;
        self.skip(digits);
        Some(character)
    }
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

/// Where the number at the start of a text ends.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(byte) = bytes.get(end) {
        let previous = end.checked_sub(1).and_then(|index| bytes.get(index));
        let exponent_sign = matches!(byte, b'+' | b'-')
            && matches!(previous, Some(b'e' | b'E'))
            && !text.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || exponent_sign) {
            break;
        }
        end += 1;
    }
    end
}

/// The digits of a float literal without underscores; `None` when it is not one.
fn float_digits(text: &str) -> Option<String> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?)),
        None => (text, None),
    };
    let digits = |part: &str| {
        let fits = !part.starts_with('_') && !part.ends_with('_') && !part.contains("__");
        fits && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !(whole.is_empty() && fraction.is_empty());
    let is_float = mantissa.contains('.') || exponent.is_some();
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    (has_digits && is_float && digits(whole) && digits(fraction) && exponent_fits).then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Option<String> {
        python_literal(text, &Span::none()).map(|node| node.to_json().to_string())
    }

    #[test]
    fn literals_have_their_types() {
        for (text, expected) in [
            ("1", "1"),
            ("-5", "-5"),
            ("+ 5", "5"),
            ("0x1f", "31"),
            ("1_000", "1000"),
            ("1.5", "1.5"),
            (".5", "0.5"),
            ("1e3", "1000.0"),
            ("1_0.5e-1", "1.05"),
            ("True", "true"),
            ("None", "null"),
            ("'a b'", "\"a b\""),
            ("u'a' \"b\"", "\"ab\""),
            (r"'\x41\n\q'", "\"A\\n\\\\q\""),
            (r"r'\n'", "\"\\\\n\""),
            ("[1, 'a', [True],]", "[1,\"a\",[true]]"),
            ("(1)", "1"),
            ("(1,)", "[1]"),
            ("()", "[]"),
            ("1,2", "[1,2]"),
            ("{'a': 1, 'b': {2, 2}}", "{\"a\":1,\"b\":[2]}"),
            ("{1: 2}", "{\"1\":2}"),
            ("5 # five", "5"),
            ("set()", "[]"),
            ("...", "\"...\""),
            ("123456789012345678901234567890", "1.2345678901234568e+29"),
        ] {
            assert_eq!(json(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_literals() {
        for text in [
            "",
            "yes",
            "true",
            "0644",
            "08",
            "a b",
            "1.2.3.4",
            "--5",
            "1+2",
            "f'x'",
            "[a]",
            "{'a'}b",
            "1a",
            "Truely",
            "~",
            "/etc",
            "{{ x }}",
            "'open",
            "10.0.0.0/8",
            "1__0",
            "-True",
            "settings",
            "http://x",
            "a,b",
            "1 2",
            "[1",
            "{[1]: 2}",
            "1_",
        ] {
            assert_eq!(json(text), None, "{text}");
        }
    }
}
