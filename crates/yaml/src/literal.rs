//! Python literals (`ast.literal_eval`): `1`, `True`, `[1, 'a']`, `{'a': None}`. INI inventories use them for values,
//! and ansible-core 2.18 applies them to template results.

use crate::number::python_int_literal;

/// A Python literal.
#[derive(Clone, Debug, PartialEq)]
pub enum PythonLiteral {
    /// `None`
    None,
    /// `...`
    Ellipsis,
    /// `True` or `False`
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number too large for an `i64`, in decimal digits.
    BigInt(String),
    /// `1.5`, `1e3`
    Float(f64),
    /// `'a'`, `u'a'`, `r"\a"`, `'a' 'b'`
    String(String),
    /// `b'a'`
    Bytes(String),
    /// `[1, 2]`
    List(Vec<Self>),
    /// `(1, 2)`
    Tuple(Vec<Self>),
    /// `{1, 2}`, each item once.
    Set(Vec<Self>),
    /// `{'a': 1}`. A key may repeat; the last value counts.
    Dict(Vec<(Self, Self)>),
}

impl PythonLiteral {
    /// Reads a text that is a single literal, optionally with blanks and a comment.
    pub fn read(text: &str) -> Option<Self> {
        Reader::whole(text, &[])
    }

    /// Like [`Self::read`], but also accepts the JSON words `true`, `false` and `null`.
    pub fn read_with_json(text: &str) -> Option<Self> {
        Reader::whole(text, &[("true", Self::Bool(true)), ("false", Self::Bool(false)), ("null", Self::None)])
    }

    fn is_hashable(&self) -> bool {
        match self {
            Self::List(_) | Self::Set(_) | Self::Dict(_) => false,
            Self::Tuple(items) => items.iter().all(Self::is_hashable),
            _ => true,
        }
    }
}

const WORDS: [(&str, PythonLiteral); 4] = [
    ("True", PythonLiteral::Bool(true)),
    ("False", PythonLiteral::Bool(false)),
    ("None", PythonLiteral::None),
    ("...", PythonLiteral::Ellipsis),
];
const MAX_DEPTH: usize = 100;

struct Reader<'a> {
    rest: &'a str,
    /// Words accepted in addition to Python's own.
    words: &'a [(&'a str, PythonLiteral)],
    depth: usize,
}

impl<'a> Reader<'a> {
    fn whole(text: &'a str, words: &'a [(&'a str, PythonLiteral)]) -> Option<PythonLiteral> {
        let mut reader = Reader { rest: text.trim_start_matches([' ', '\t']), words, depth: 0 };
        let value = reader.top()?;
        reader.blank();
        reader.rest.is_empty().then_some(value)
    }

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

    /// Skips white space and a comment to the end.
    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('#') {
            self.rest = "";
        }
    }

    /// A value, or several separated by commas. The latter form a tuple even without parentheses.
    fn top(&mut self) -> Option<PythonLiteral> {
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
        Some(PythonLiteral::Tuple(items))
    }

    fn value(&mut self) -> Option<PythonLiteral> {
        self.blank();
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = match self.peek()? {
            '[' => self.items("[", "]").map(|(items, _)| PythonLiteral::List(items)),
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

    fn word(&mut self) -> Option<PythonLiteral> {
        for (word, value) in WORDS.iter().chain(self.words) {
            if self.rest.starts_with(word) {
                self.skip(word.len());
                return self.at_word_end().then(|| value.clone());
            }
        }
        if self.rest.starts_with("set") && !self.rest.starts_with("set'") && !self.rest.starts_with("set\"") {
            self.skip(3);
            return (self.take("(") && self.take(")")).then(|| PythonLiteral::Set(Vec::new()));
        }
        self.strings()
    }

    fn at_word_end(&self) -> bool {
        !self.peek().is_some_and(|character| character.is_alphanumeric() || character == '_')
    }

    /// Values between brackets, and whether a comma followed the last one.
    fn items(&mut self, open: &str, close: &str) -> Option<(Vec<PythonLiteral>, bool)> {
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

    fn parenthesised(&mut self) -> Option<PythonLiteral> {
        let (mut items, comma) = self.items("(", ")")?;
        if items.len() == 1 && !comma { items.pop() } else { Some(PythonLiteral::Tuple(items)) }
    }

    fn braces(&mut self) -> Option<PythonLiteral> {
        self.take("{").then_some(())?;
        if self.take("}") {
            return Some(PythonLiteral::Dict(Vec::new()));
        }
        let mut key = self.value().filter(PythonLiteral::is_hashable)?;
        if !self.take(":") {
            return self.set(key);
        }
        let mut entries = Vec::new();
        loop {
            entries.push((key, self.value()?));
            if self.take("}") {
                break;
            }
            self.take(",").then_some(())?;
            if self.take("}") {
                break;
            }
            key = self.value().filter(PythonLiteral::is_hashable)?;
            self.take(":").then_some(())?;
        }
        Some(PythonLiteral::Dict(entries))
    }

    fn set(&mut self, first: PythonLiteral) -> Option<PythonLiteral> {
        let mut items = vec![first];
        loop {
            if self.take("}") {
                return Some(PythonLiteral::Set(items));
            }
            self.take(",").then_some(())?;
            if self.take("}") {
                return Some(PythonLiteral::Set(items));
            }
            let item = self.value().filter(PythonLiteral::is_hashable)?;
            if !items.contains(&item) {
                items.push(item);
            }
        }
    }

    fn signed(&mut self) -> Option<PythonLiteral> {
        let negative = self.peek() == Some('-');
        self.skip(1);
        self.blank();
        if self.rest.starts_with("...") { None } else { self.number(negative) }
    }

    fn number(&mut self, negative: bool) -> Option<PythonLiteral> {
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
            return Some(decimal.parse().map_or(PythonLiteral::BigInt(decimal), PythonLiteral::Int));
        }
        let value: f64 = float_digits(text)?.parse().ok()?;
        Some(PythonLiteral::Float(if negative { -value } else { value }))
    }

    /// One or more strings; adjacent strings are concatenated.
    fn strings(&mut self) -> Option<PythonLiteral> {
        let (is_bytes, mut text) = self.string()?;
        loop {
            self.blank();
            let quote_follows = self.rest.bytes().take(3).any(|byte| byte == b'"' || byte == b'\'');
            if !quote_follows || !self.peek().is_some_and(|c| c.is_alphabetic() || c == '"' || c == '\'') {
                return Some(if is_bytes { PythonLiteral::Bytes(text) } else { PythonLiteral::String(text) });
            }
            let (_, more) = self.string().filter(|next| next.0 == is_bytes)?;
            text += &more;
        }
    }

    /// The text of a string, and whether it is a bytes literal.
    fn string(&mut self) -> Option<(bool, String)> {
        let quote_at = self.rest.find(['"', '\''])?;
        let prefix = self.rest.get(..quote_at)?.to_ascii_lowercase();
        if !matches!(prefix.as_str(), "" | "u" | "r" | "b" | "rb" | "br") {
            return None;
        }
        self.skip(quote_at);
        let quote = self.peek()?;
        let triple = quote.to_string().repeat(3);
        let is_triple = self.rest.starts_with(&triple);
        let end = if is_triple { triple } else { quote.to_string() };
        self.skip(end.len());
        let mut text = String::new();
        loop {
            if self.rest.starts_with(&end) {
                self.skip(end.len());
                return Some((prefix.contains('b'), text));
            }
            let character = self.peek()?;
            self.skip(character.len_utf8());
            match character {
                '\\' => self.escape(prefix.contains('r'), &mut text)?,
                '\n' if !is_triple => return None,
                _ => text.push(character),
            }
        }
    }

    fn escape(&mut self, is_raw: bool, text: &mut String) -> Option<()> {
        let character = self.peek()?;
        self.skip(character.len_utf8());
        if is_raw {
            text.push('\\');
            text.push(character);
            return Some(());
        }
        let decoded = match character {
            // The string continues on the next line.
            '\n' => return Some(()),
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

/// End of the number at the start of a text.
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

/// The digits of a float literal without underscores; `None` if it is not one.
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

    #[test]
    fn strings_parsed_like_python() {
        for (written, text) in [
            (r"'\r\n'", Some("\r\n")),
            (r#"u"\x5b[""#, Some("[[")),
            (r"r'\d'", Some(r"\d")),
            (r"'[' '['", Some("[[")),
            ("'''['''", Some("[")),
            ("\"\"\"a\n'b'\"\"\"", Some("a\n'b'")),
            (r"'it\'s'", Some("it's")),
            ("'a\\\nb'", Some("ab")),
            ("''", Some("")),
            ("'a\nb'", None),
            ("'a' b'c'", None),
            ("'open", None),
            ("'a' b", None),
            ("word", None),
        ] {
            let read = PythonLiteral::read(written);
            assert_eq!(read, text.map(|text| PythonLiteral::String(text.to_owned())), "{written}");
        }
    }

    #[test]
    fn json_words_accepted_only_on_request() {
        assert_eq!(PythonLiteral::read("[true]"), None);
        let list = PythonLiteral::List(vec![PythonLiteral::Bool(true), PythonLiteral::None]);
        assert_eq!(PythonLiteral::read_with_json("[true, null]"), Some(list));
        assert_eq!(PythonLiteral::read_with_json("[truely]"), None);
    }

    #[test]
    fn unhashable_value_refused_as_key_and_set_item() {
        for text in ["{[1]: 2}", "{([1],): 2}", "{1, [2]}", "{{1}, 2}"] {
            assert_eq!(PythonLiteral::read(text), None, "{text}");
        }
        assert!(PythonLiteral::read("{(1, 2): 3}").is_some());
    }
}
