//! Python's `str()`, `repr()`, `bool()` and `type()` for values.

use minijinja::Value;
use minijinja::value::ValueKind;
use windlass_yaml::{python_float, python_quote};

use super::class::Class;

/// Text of a value, as from Python's `str()`.
pub fn text(value: &Value) -> String {
    match value.as_str() {
        Some(string) => string.to_owned(),
        None => repr(value),
    }
}

/// Text of a value, as from Python's `repr()`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(value, &mut out);
    out
}

/// Whether the value is true in Python.
pub fn truth(value: &Value) -> bool {
    value.is_true()
}

/// Name of the value's Python class, as reported by `type_debug`.
pub fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "UndefinedMarker",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Seq if is_tuple(value) => "tuple",
        ValueKind::Seq | ValueKind::Iterable => "list",
        ValueKind::Map => "dict",
        _ if Class::is(value) => "type",
        _ if super::time::is_day(value) => "date",
        _ if super::time::is_datetime(value) => "datetime",
        _ if super::time::is_timedelta(value) => "timedelta",
        _ if crate::is_undefined(value) => "UndefinedMarker",
        _ => "object",
    }
}

/// The value's class, as from Python's `str(type(value))`.
pub(crate) fn python_class(value: &Value) -> String {
    format!("<class '{}'>", type_name(value))
}

fn is_tuple(value: &Value) -> bool {
    value.is_tuple() || value.downcast_object_ref::<super::group::Group>().is_some()
}

fn write_repr(value: &Value, out: &mut String) {
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => out.push_str(&python_float(f64::try_from(value.clone()).unwrap_or(f64::NAN))),
        ValueKind::String => python_quote(value.as_str().unwrap_or_default(), out),
        ValueKind::Bytes => write_bytes(value.as_bytes().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let tuple = is_tuple(value);
            out.push(if tuple { '(' } else { '[' });
            let mut count = 0;
            for item in value.try_iter().into_iter().flatten() {
                if count > 0 {
                    out.push_str(", ");
                }
                write_repr(&item, out);
                count += 1;
            }
            if tuple && count == 1 {
                out.push(',');
            }
            out.push(if tuple { ')' } else { ']' });
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter().into_iter().flatten().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(&key, out);
                out.push_str(": ");
                write_repr(&value.get_item(&key).unwrap_or_default(), out);
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
}

fn write_bytes(bytes: &[u8], out: &mut String) {
    out.push('b');
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
    out.push(quote);
    for &byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ if char::from(byte) == quote => {
                out.push('\\');
                out.push(quote);
            }
            0x20..=0x7e => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(quote);
}

/// `str.splitlines()`: Python breaks lines at more characters than the newline.
pub(crate) fn split_lines(value: &str) -> Vec<&str> {
    split_lines_with_ends(value).into_iter().map(|line| line.trim_end_matches(is_break)).collect()
}

/// `str.splitlines(True)`: the lines with their terminators.
pub(crate) fn split_lines_with_ends(value: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = value;
    while let Some(end) = rest.find(is_break) {
        let after = rest.get(end..).unwrap_or_default();
        let width = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(1, char::len_utf8) };
        let (line, others) = rest.split_at(end + width);
        lines.push(line);
        rest = others;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn is_break(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}' | '\u{1d}' | '\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_quoted_like_python() {
        assert_eq!(repr(&Value::from("it's")), r#""it's""#);
        assert_eq!(repr(&Value::from("'\"\n\u{7f}\u{e9}\u{a0}")), r#"'\'"\n\x7fé\xa0'"#);
    }
}
