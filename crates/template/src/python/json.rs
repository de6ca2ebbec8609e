//! Python's `json.dumps` and `json.loads`.

use minijinja::Value;
use minijinja::value::ValueKind;
use windlass_yaml::python_float;

use crate::limits;

use super::{order, text, type_name};

/// Keyword arguments of `json.dumps`.
#[derive(Clone, Debug)]
pub(crate) struct DumpOptions {
    /// One level of indentation; `None` writes everything on one line.
    pub(crate) indent: Option<String>,
    pub(crate) item_separator: String,
    pub(crate) key_separator: String,
    pub(crate) sort_keys: bool,
    pub(crate) ensure_ascii: bool,
    pub(crate) skip_keys: bool,
    pub(crate) allow_nan: bool,
}

impl Default for DumpOptions {
    fn default() -> Self {
        DumpOptions {
            indent: None,
            item_separator: ", ".to_owned(),
            key_separator: ": ".to_owned(),
            sort_keys: false,
            ensure_ascii: true,
            skip_keys: false,
            allow_nan: true,
        }
    }
}

/// Formats a value as JSON. The error is a sentence without its subject.
pub(crate) fn dump(value: &Value, options: &DumpOptions) -> Result<String, String> {
    let mut out = String::new();
    write(value, options, 0, &mut out)?;
    Ok(out)
}

fn write(value: &Value, options: &DumpOptions, depth: usize, out: &mut String) -> Result<(), String> {
    limits::text(out.len()).map_err(|error| error.message().to_owned())?;
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => out.push_str(&number(value, options)?),
        ValueKind::String => quote(value.as_str().unwrap_or_default(), options.ensure_ascii, out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            let mut any = false;
            for item in value.try_iter().into_iter().flatten() {
                separate(&mut any, options, depth + 1, out);
                write(&item, options, depth + 1, out)?;
            }
            close(any, options, depth, out);
            out.push(']');
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter().into_iter().flatten().collect();
            if options.sort_keys {
                order::sort(&mut keys, |key| key).map_err(|reason| format!("keys cannot be sorted: {reason}"))?;
            }
            out.push('{');
            let mut any = false;
            for key in keys {
                let name = match key.kind() {
                    ValueKind::String => text(&key),
                    ValueKind::None => "null".to_owned(),
                    ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
                    ValueKind::Number if key.is_integer() => key.to_string(),
                    ValueKind::Number => number(&key, options)?,
                    _ if options.skip_keys => continue,
                    _ => return Err(format!("a key of type {} cannot be written as JSON", type_name(&key))),
                };
                separate(&mut any, options, depth + 1, out);
                quote(&name, options.ensure_ascii, out);
                out.push_str(&options.key_separator);
                write(&value.get_item(&key).unwrap_or_default(), options, depth + 1, out)?;
            }
            close(any, options, depth, out);
            out.push('}');
        }
        _ if super::time::is_datetime(value) => quote(&super::time::iso_format(value), options.ensure_ascii, out),
        _ => return Err(format!("a value of type {} cannot be written as JSON", type_name(value))),
    }
    Ok(())
}

fn separate(any: &mut bool, options: &DumpOptions, depth: usize, out: &mut String) {
    if *any {
        out.push_str(&options.item_separator);
    }
    *any = true;
    new_line(options, depth, out);
}

fn close(any: bool, options: &DumpOptions, depth: usize, out: &mut String) {
    if any {
        new_line(options, depth, out);
    }
}

fn new_line(options: &DumpOptions, depth: usize, out: &mut String) {
    if let Some(indent) = &options.indent {
        out.push('\n');
        // A text that is too long already ends at its next value.
        for _ in 0..depth {
            if out.len() <= limits::longest_text() {
                out.push_str(indent);
            }
        }
    }
}

fn number(value: &Value, options: &DumpOptions) -> Result<String, String> {
    let number = f64::try_from(value.clone()).unwrap_or(f64::NAN);
    if !number.is_finite() && !options.allow_nan {
        return Err(format!("the float {} has no place in JSON", python_float(number)));
    }
    Ok(match number {
        number if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        number => python_float(number),
    })
}

fn quote(text: &str, ensure_ascii: bool, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            wide if ensure_ascii && !wide.is_ascii() => {
                for unit in wide.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

/// Parses JSON as Python does: it also accepts `NaN` and `Infinity`, integers keep their size, and the last of equal
/// keys wins. The error says what was expected at which position.
pub(crate) fn load(source: &str) -> Result<Value, String> {
    let mut reader = Reader { source, position: 0, depth: 0, values: 0 };
    reader.space();
    let value = reader.value()?;
    reader.space();
    if reader.position < source.len() {
        return Err(reader.error("text follows the end of the value"));
    }
    Ok(value)
}

struct Reader<'s> {
    source: &'s str,
    position: usize,
    depth: usize,
    /// Number of values read.
    values: u64,
}

impl Reader<'_> {
    const DEEPEST: usize = 500;

    fn rest(&self) -> &str {
        &self.source[self.position..]
    }

    fn peek(&self) -> Option<u8> {
        self.source.as_bytes().get(self.position).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.position += 1;
        }
    }

    fn error(&self, what: &str) -> String {
        let before = &self.source[..self.position];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&character| character != '\n').count() + 1;
        format!("{what} at line {line} column {column}")
    }

    fn value(&mut self) -> Result<Value, String> {
        const WORDS: [(&str, fn() -> Value); 6] = [
            ("null", || Value::from(())),
            ("true", || Value::from(true)),
            ("false", || Value::from(false)),
            ("NaN", || Value::from(f64::NAN)),
            ("Infinity", || Value::from(f64::INFINITY)),
            ("-Infinity", || Value::from(f64::NEG_INFINITY)),
        ];
        self.values += 1;
        let most = limits::most_values();
        if self.values > most {
            return Err(self.error(&format!("there are more than {most} values, which is the limit,")));
        }
        if let Some((word, make)) = WORDS.iter().find(|(word, _)| self.rest().starts_with(word)) {
            self.position += word.len();
            return Ok(make());
        }
        match self.peek() {
            Some(b'"') => Ok(Value::from(self.string()?)),
            Some(b'[') => self.nested(Self::list),
            Some(b'{') => self.nested(Self::map),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.error("a value was expected")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        if self.depth >= Self::DEEPEST {
            return Err(self.error("values are nested too deeply"));
        }
        self.depth += 1;
        self.position += 1;
        self.space();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn list(&mut self) -> Result<Value, String> {
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.position += 1;
            return Ok(Value::from(items));
        }
        loop {
            self.space();
            items.push(self.value()?);
            self.space();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b']') => {
                    self.position += 1;
                    return Ok(Value::from(items));
                }
                _ => return Err(self.error("',' or ']' was expected")),
            }
        }
    }

    fn map(&mut self) -> Result<Value, String> {
        let mut entries = indexmap::IndexMap::<Value, Value>::new();
        if self.peek() == Some(b'}') {
            self.position += 1;
            return Ok(Value::from_pairs(entries));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.error("a key in double quotes was expected"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.error("':' was expected"));
            }
            self.position += 1;
            self.space();
            entries.insert(Value::from(key), self.value()?);
            self.space();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b'}') => {
                    self.position += 1;
                    return Ok(Value::from_pairs(entries));
                }
                _ => return Err(self.error("',' or '}' was expected")),
            }
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = self.rest();
        let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let sign = usize::from(rest.starts_with('-'));
        let whole = if rest[sign..].starts_with('0') { 1 } else { digits(sign) };
        if whole == 0 {
            return Err(self.error("a value was expected"));
        }
        let mut end = sign + whole;
        let mut exact = true;
        if rest[end..].starts_with('.') && digits(end + 1) > 0 {
            exact = false;
            end += 1 + digits(end + 1);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let signed = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let exponent = digits(end + 1 + signed);
            if exponent > 0 {
                exact = false;
                end += 1 + signed + exponent;
            }
        }
        let text = &rest[..end];
        let value = match exact.then(|| text.parse::<i128>()) {
            Some(Ok(number)) => super::number::integer(number),
            _ => Value::from(text.parse::<f64>().unwrap_or(f64::NAN)),
        };
        self.position += end;
        Ok(value)
    }

    fn string(&mut self) -> Result<String, String> {
        self.position += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(['"', '\\', '\n']).unwrap_or(rest.len());
            out.push_str(&rest[..plain]);
            self.position += plain;
            match self.peek() {
                None => return Err(self.error("a string is not closed")),
                Some(b'"') => {
                    self.position += 1;
                    return Ok(out);
                }
                Some(b'\\') => self.escape(&mut out)?,
                Some(_) => return Err(self.error("a line break stands inside a string")),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), String> {
        self.position += 1;
        let character = self.rest().chars().next().ok_or_else(|| self.error("a string is not closed"))?;
        let simple = match character {
            '"' | '\\' | '/' => character,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.unit(1).ok_or_else(|| self.error("'\\u' needs four hexadecimal digits"))?;
                self.position += 5;
                let pair = (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u");
                let second = pair.then(|| self.unit(2)).flatten();
                let code = match second.filter(|second| (0xdc00..0xe000).contains(second)) {
                    Some(second) => {
                        self.position += 6;
                        0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    None => first,
                };
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
            _ => return Err(self.error("a backslash is followed by a character that needs none")),
        };
        out.push(simple);
        self.position += character.len_utf8();
        Ok(())
    }

    fn unit(&self, from: usize) -> Option<u32> {
        let digits = self.rest().get(from..from + 4)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips() {
        let source =
            r#"{"a": [1, 2.5, -0.0, 1e+20, null, true], "b": {"\u00e9": "\ud83d\ude00\n"}, "c": 18446744073709551616}"#;
        assert_eq!(dump(&load(source).unwrap(), &DumpOptions::default()).unwrap(), source);
    }

    #[test]
    fn json_mistake_reported_with_position() {
        assert_eq!(load("[1,\n x]").unwrap_err(), "a value was expected at line 2 column 2");
        assert_eq!(load("{} {}").unwrap_err(), "text follows the end of the value at line 1 column 4");
    }
}
