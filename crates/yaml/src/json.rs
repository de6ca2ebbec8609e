//! JSON with positions. Every file is parsed as JSON before YAML, because YAML 1.1 reads some JSON differently: `1e3`,
//! tabs as indentation, surrogate pairs.

use std::sync::Arc;

use crate::{DuplicateKeys, Key, Mapping, Node, Options, Source, Span, Text, Value, number};

/// Reads a text as JSON; `None` if it is not JSON, which is not an error here.
pub(crate) fn parse(source: &Arc<Source>, options: &Options) -> Option<Node> {
    let bytes = source.text.as_bytes();
    let start = bytes.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))?;
    // Scalars other than numbers mean the same in both. Trying JSON for every scalar would be wasted on nearly every
    // text.
    if !matches!(bytes.get(start)?, b'{' | b'[') || options.duplicate_keys == DuplicateKeys::Error {
        return None;
    }
    let mut reader = Reader { source, options, rest: &source.text, line: 1, column: 1 };
    reader.blank();
    let node = reader.value(0)?;
    reader.blank();
    reader.rest.is_empty().then_some(node)
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    options: &'a Options,
    rest: &'a str,
    line: u32,
    column: u32,
}

impl<'a> Reader<'a> {
    fn span(&self) -> Span {
        Span::new(Arc::clone(self.source), self.line, self.column)
    }

    fn advance(&mut self, bytes: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        match taken.rfind('\n') {
            None => self.column += taken.chars().count() as u32,
            Some(last) => {
                self.line += taken.matches('\n').count() as u32;
                self.column = taken.get(last + 1..)?.chars().count() as u32 + 1;
            }
        }
        self.rest = rest;
        Some(taken)
    }

    fn blank(&mut self) {
        let length = self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.advance(length);
    }

    fn take(&mut self, token: &str) -> bool {
        self.rest.starts_with(token) && self.advance(token.len()).is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Node> {
        if depth > self.options.max_depth {
            return None;
        }
        let span = self.span();
        let value = match self.rest.as_bytes().first()? {
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => {
                let text = Arc::from(self.string()?);
                if self.options.trusted { of_file(text) } else { Value::Literal(text) }
            }
            _ => self.word()?,
        };
        Some(Node::new(value, span))
    }

    fn word(&mut self) -> Option<Value> {
        let words = [
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("null", Value::Null),
            ("NaN", Value::Float(f64::NAN)),
            ("Infinity", Value::Float(f64::INFINITY)),
            ("-Infinity", Value::Float(f64::NEG_INFINITY)),
        ];
        for (word, value) in words {
            if self.take(word) {
                return Some(value);
            }
        }
        self.number()
    }

    fn number(&mut self) -> Option<Value> {
        let bytes = self.rest.as_bytes();
        let digits = |from: usize| {
            let count = bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
            from + count
        };
        let negative = bytes.first() == Some(&b'-');
        let whole_start = usize::from(negative);
        let whole_end = digits(whole_start);
        let leading_zero = whole_end > whole_start + 1 && bytes.get(whole_start) == Some(&b'0');
        if whole_end == whole_start || leading_zero {
            return None;
        }
        let mut end = whole_end;
        if bytes.get(end) == Some(&b'.') && digits(end + 1) > end + 1 {
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let start = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if digits(start) > start {
                end = digits(start);
            }
        }
        let text = self.advance(end)?;
        if end > whole_end {
            return text.parse().ok().map(Value::Float);
        }
        Some(match number::whole(negative, text.get(whole_start..)?, 10)? {
            number::Whole::Small(value) => Value::Int(value),
            number::Whole::Big(text) => Value::BigInt(text),
        })
    }

    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        self.advance(1)?;
        loop {
            let plain = self.rest.find(['"', '\\', '\n', '\r', '\t'])?;
            text += self.advance(plain)?;
            match self.rest.as_bytes().first()? {
                b'"' => {
                    self.advance(1)?;
                    return Some(text);
                }
                b'\\' => text.push(self.escape()?),
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let character = match self.rest.as_bytes().get(1)? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return None,
        };
        self.advance(2)?;
        Some(character)
    }

    fn unit(&mut self) -> Option<u32> {
        let digits =
            self.rest.strip_prefix("\\u")?.get(..4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let unit = u32::from_str_radix(digits, 16).ok()?;
        self.advance(6)?;
        Some(unit)
    }

    fn unicode(&mut self) -> Option<char> {
        let first = self.unit()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after_first = (self.rest, self.line, self.column);
        match self.unit() {
            Some(second) if (0xdc00..0xe000).contains(&second) => {
                char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            }
            _ => {
                (self.rest, self.line, self.column) = after_first;
                Some(char::REPLACEMENT_CHARACTER)
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        self.advance(1)?;
        self.blank();
        if self.take("]") {
            return Some(Value::List(items.into()));
        }
        loop {
            self.blank();
            items.push(self.value(depth + 1)?);
            self.blank();
            if self.take("]") {
                return Some(Value::List(items.into()));
            }
            if !self.take(",") {
                return None;
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        let mut mapping = Mapping::new();
        self.advance(1)?;
        self.blank();
        if self.take("}") {
            return Some(Value::Map(Arc::new(mapping)));
        }
        loop {
            self.blank();
            let span = self.span();
            if !self.rest.starts_with('"') {
                return None;
            }
            let key = Key::string(self.string()?, span);
            self.blank();
            if !self.take(":") {
                return None;
            }
            self.blank();
            mapping.insert(key, self.value(depth + 1)?);
            self.blank();
            if self.take("}") {
                return Some(Value::Map(Arc::new(mapping)));
            }
            if !self.take(",") {
                return None;
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the parser reads the project's files")]
fn of_file(text: Arc<str>) -> Value {
    Value::String(Text::of_project(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Node> {
        parse(&Source::new("data.json", text), &Options::default())
    }

    #[test]
    fn json_read_by_json_rules() {
        let node = read("{\n\t\"a\": [1e3, -2, 0.5, \"\\ud83d\\ude00\\/\\n\"],\n\t\"b\": {}\n}\n").unwrap();
        let items = node.get("a").and_then(Node::as_list).unwrap();
        assert_eq!(items[0].value, Value::Float(1000.0));
        assert_eq!(items[1].value, Value::Int(-2));
        assert_eq!(items[3].as_str(), Some("\u{1f600}/\n"));
        assert_eq!(node.get("b").unwrap().span.to_string(), "data.json:3:7");
    }

    #[test]
    fn text_that_is_not_json_read_as_yaml() {
        for text in ["{a: 1}", "[yes]", "{\"a\": 1,}", "[01]", "", "a: b", "[1] x"] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
