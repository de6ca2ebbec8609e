//! Python's `template % values`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::formatting::{FormatStyle, format as format_values};
use minijinja::value::{Object, ObjectRepr, ValueKind};

use crate::{limits, mark};

use super::{number, repr, text};

/// Formats the values, by position or by name from a single dictionary. The error is a reason.
pub(crate) fn format(template: &str, values: &[Value]) -> Result<String, String> {
    check(template)?;
    let is_named = starts(template).iter().any(|start| template[*start..].starts_with('('));
    if !is_named && values.len() > wanted(template) && !matches!(values, [value] if is_mapping(value)) {
        return Err("not all arguments converted during string formatting".to_owned());
    }
    let mut values: Vec<Value> =
        values.iter().map(|value| if is_named { entries(value) } else { plain(value) }).collect();
    let count = starts(template).len();
    let longest = values.iter().map(longest_text).max().unwrap_or_default();
    limits::take(count.saturating_mul(longest)).map_err(|error| error.message().to_owned())?;
    let template = renamed(template, &mut values)?;
    let template = adapted(&template, &mut values);
    format_values(FormatStyle::Printf, &template, &values)
        .map_err(|error| error.detail().unwrap_or("the format does not fit its values").to_owned())
}

/// Length of the longest text that a format can insert: the value itself, or an entry of a dictionary.
fn longest_text(value: &Value) -> usize {
    let entries = super::container::pairs(value).unwrap_or_default();
    let texts = entries.iter().map(|(_, value)| value).chain([value]);
    texts.filter_map(Value::as_str).map(str::len).max().unwrap_or_default()
}

/// Replaces undefined values that the template formats with `%r`: up to ansible-core 2.18, that shows the undefined
/// value's representation.
pub(crate) fn with_representations(template: &str, values: &[Value]) -> Vec<Value> {
    let kinds = starts(template).into_iter().map(|start| template[start..].chars().find(char::is_ascii_alphabetic));
    let mut values = values.to_vec();
    for (kind, value) in kinds.zip(&mut values) {
        if kind == Some('r')
            && let Some(name) = mark::name(value)
        {
            *value = Value::from_object(Representation(format!(
                "AnsibleUndefined(hint=None, obj=missing, name={})",
                repr(&Value::from(name))
            )));
        }
    }
    values
}

/// Representation of an undefined value.
#[derive(Debug)]
struct Representation(String);

impl Object for Representation {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Starts of the formats, after their `%`.
fn starts(template: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut position = 0;
    while let Some(found) = template[position..].find('%') {
        position += found + 1;
        match template[position..].starts_with('%') {
            true => position += 1,
            false => starts.push(position),
        }
    }
    starts
}

/// Refuses widths beyond any possible text, and formats that minijinja cannot parse.
pub(crate) fn check(template: &str) -> Result<(), String> {
    let mut specifications = Vec::new();
    for start in starts(template) {
        let rest = &template[start..];
        let rest = match rest.strip_prefix('(') {
            Some(name) => name.split_once(')').ok_or("incomplete format key")?.1,
            None => rest,
        };
        let kind = rest.chars().find(|&character| !"#0- +.*123456789hlL".contains(character));
        if let Some(kind) = kind.filter(|kind| !kind.is_ascii()) {
            return Err(format!("unsupported format character '{kind}' (0x{:x})", u32::from(kind)));
        }
        specifications.push(&rest[..rest.find(|kind: char| kind.is_ascii_alphabetic()).unwrap_or_default()]);
    }
    limits::widths(specifications.into_iter()).map_err(|error| error.message().to_owned())
}

/// Converts containers to Python's representation; numbers stay numbers for `%d` and similar formats.
fn plain(value: &Value) -> Value {
    match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => value.clone(),
        _ if value.downcast_object_ref::<Representation>().is_some() => value.clone(),
        _ => Value::from(text(value)),
    }
}

/// The dictionary for a template with names, with plain values.
fn entries(value: &Value) -> Value {
    match super::container::pairs(value) {
        Some(entries) => Value::from_pairs(entries.into_iter().map(|(key, value)| (key, plain(&value)))),
        None => plain(value),
    }
}

/// Number of values that a template without names takes.
fn wanted(template: &str) -> usize {
    let stars = |start: &usize| {
        template[*start..]
            .find(|kind: char| kind.is_ascii_alphabetic())
            .map_or(0, |end| template[*start..*start + end].matches('*').count())
    };
    starts(template).iter().map(|start| 1 + stars(start)).sum()
}

/// Whether Python accepts the value as an unused argument, because names could be looked up in it.
fn is_mapping(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Map | ValueKind::Seq) && !value.is_tuple()
}

/// Replaces names outside ASCII, because minijinja parses formats byte by byte.
fn renamed<'t>(template: &'t str, values: &mut [Value]) -> Result<Cow<'t, str>, String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut entries = Vec::new();
    for start in starts(template) {
        let name = template[start..].strip_prefix('(').and_then(|rest| Some(rest.split_once(')')?.0));
        let Some(name) = name.filter(|name| !name.is_ascii()) else { continue };
        let [dictionary] = &*values else { return Err("format requires a mapping".to_owned()) };
        let found = dictionary.get_item(&Value::from(name)).ok().filter(|value| !value.is_undefined());
        let ascii = format!("#{start}");
        out += &template[copied..=start];
        out += &ascii;
        copied = start + 1 + name.len();
        entries.push((Value::from(ascii), found.ok_or_else(|| format!("there is no key '{name}'"))?));
    }
    if let ([dictionary], false) = (values, entries.is_empty()) {
        entries.extend(super::container::pairs(dictionary).unwrap_or_default());
        *dictionary = Value::from_pairs(entries);
        out += &template[copied..];
        return Ok(out.into());
    }
    Ok(template.into())
}

/// Rewrites formats that minijinja lacks: `%r`, and `%d` of a float.
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
            // An integer format truncates a float.
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
    fn invalid_format_refused() {
        // minijinja splits the second one within a character.
        assert_eq!(format("%-\u{9f}s", &[Value::from(1)]).unwrap_err(), "unsupported format character '\u{9f}' (0x9f)");
        assert_eq!(format("%(.f|%-p\u{9f}L*1s", &[Value::from(1)]).unwrap_err(), "incomplete format key");
        let named = Value::from_pairs([("größe", Value::from(1.5))]);
        assert_eq!(format("%(größe)s ü", std::slice::from_ref(&named)).unwrap(), "1.5 ü");
        assert_eq!(format("%% ü %%(ö) %(größe).2f", std::slice::from_ref(&named)).unwrap(), "% ü %(ö) 1.50");
        assert_eq!(format("%(länge)s", &[named]).unwrap_err(), "there is no key 'länge'");
    }

    #[test]
    fn values_formatted_like_python() {
        let values = [Value::from("it's"), Value::from(7), Value::from(vec![1, 2])];
        assert_eq!(format("%r %03d %s 100%%", &values).unwrap(), "\"it's\" 007 [1, 2] 100%");
        let named = Value::from_pairs([("a", Value::from(1.5)), ("b", Value::from("x"))]);
        assert_eq!(format("%(b)s=%(a).2f", &[named]).unwrap(), "x=1.50");
    }
}
