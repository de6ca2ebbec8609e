//! Python's `template % values`.

use minijinja::Value;
use minijinja::formatting::{FormatStyle, format as format_values};
use minijinja::value::ValueKind;

use crate::limits;

use super::{number, repr, text};

/// Fills the values into the template: by position, or by name from one dictionary. The error is a reason.
pub(crate) fn format(template: &str, values: &[Value]) -> Result<String, String> {
    check(template)?;
    let mut values: Vec<Value> = values.iter().map(plain).collect();
    let template = adapted(template, &mut values);
    format_values(FormatStyle::Printf, &template, &values)
        .map_err(|error| error.detail().unwrap_or("the format does not fit its values").to_owned())
}

/// Refuses widths that no text could have.
pub(crate) fn check(template: &str) -> Result<(), String> {
    let specifications = template.split('%').skip(1).map(|rest| {
        let rest = if rest.starts_with('(') { rest.split_once(')').map_or("", |(_, rest)| rest) } else { rest };
        &rest[..rest.find(|kind: char| kind.is_ascii_alphabetic()).unwrap_or_default()]
    });
    limits::widths(specifications).map_err(|error| error.message().to_owned())
}

/// Containers are shown as Python shows them; numbers stay numbers for `%d` and its kin.
fn plain(value: &Value) -> Value {
    match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => value.clone(),
        ValueKind::Map => {
            let entries = crate::filters::call::pairs(value).unwrap_or_default();
            Value::from_pairs(entries.into_iter().map(|(key, value)| (key, plain(&value))))
        }
        _ => Value::from(text(value)),
    }
}

/// Rewrites what minijinja's formatting lacks: `%r`, and `%d` of a float.
fn adapted(template: &str, values: &mut [Value]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut position = 0;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..=start]);
        rest = &rest[start + 1..];
        let named = rest.starts_with('(');
        let Some(end) = rest.find(|kind: char| kind == '%' || kind.is_ascii_alphabetic() && !named).or_else(|| {
            rest.find(')')
                .and_then(|close| rest[close..].find(|kind: char| kind.is_ascii_alphabetic()).map(|kind| close + kind))
        }) else {
            break;
        };
        let (flags, kind) = (&rest[..end], &rest[end..=end]);
        position += flags.matches('*').count();
        out.push_str(flags);
        let value = if named { None } else { values.get_mut(position) };
        match (kind, value) {
            ("r", Some(value)) => {
                *value = Value::from(repr(value));
                out.push('s');
            }
            // A whole number is asked for: a float loses its fraction.
            ("d" | "i" | "u", Some(value)) if value.kind() == ValueKind::Number && !value.is_integer() => {
                if let Some(whole) = number::to_int(value) {
                    *value = number::integer(whole);
                }
                out.push('d');
            }
            _ => out.push_str(kind),
        }
        if kind != "%" {
            position += 1;
        }
        rest = &rest[end + 1..];
    }
    out + rest
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_as_python_does() {
        let values = [Value::from("it's"), Value::from(7), Value::from(vec![1, 2])];
        assert_eq!(format("%r %03d %s 100%%", &values).unwrap(), "\"it's\" 007 [1, 2] 100%");
        let named = Value::from_pairs([("a", Value::from(1.5)), ("b", Value::from("x"))]);
        assert_eq!(format("%(b)s=%(a).2f", &[named]).unwrap(), "x=1.50");
    }
}
