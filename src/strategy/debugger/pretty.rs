//! Formats values like Python's `pprint`.

use minijinja::value::ValueKind;
use windlass_template::{Value, repr};

const WIDTH: usize = 80;

/// Formats a value over as many lines as it needs, keys sorted.
pub(super) fn format(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, 0, &mut text);
    text
}

/// Writes a value. `indent` is its starting column; `after` is the number of characters that follow on its last line.
fn write(value: &Value, indent: usize, after: usize, text: &mut String) {
    let line = one_line(value);
    if line.chars().count() + indent + after <= WIDTH {
        text.push_str(&line);
        return;
    }
    let separator = format!(",\n{}", " ".repeat(indent + 1));
    match value.kind() {
        ValueKind::Map => {
            text.push('{');
            let entries = sorted(value);
            let last = entries.len().saturating_sub(1);
            for (index, (key, item)) in entries.iter().enumerate() {
                if index > 0 {
                    text.push_str(&separator);
                }
                text.push_str(key);
                text.push_str(": ");
                let begin = indent + key.chars().count() + 3;
                write(item, begin, if index == last { after + 1 } else { 1 }, text);
            }
            text.push('}');
        }
        ValueKind::Seq => {
            text.push('[');
            let items: Vec<Value> = value.try_iter().into_iter().flatten().collect();
            let last = items.len().saturating_sub(1);
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push_str(&separator);
                }
                write(item, indent + 1, if index == last { after + 1 } else { 1 }, text);
            }
            text.push(']');
        }
        _ => text.push_str(&line),
    }
}

fn one_line(value: &Value) -> String {
    match value.kind() {
        ValueKind::Map => {
            let entries = sorted(value);
            let shown: Vec<String> = entries.iter().map(|(key, item)| format!("{key}: {}", one_line(item))).collect();
            format!("{{{}}}", shown.join(", "))
        }
        ValueKind::Seq => {
            let shown: Vec<String> = value.try_iter().into_iter().flatten().map(|item| one_line(&item)).collect();
            format!("[{}]", shown.join(", "))
        }
        _ => repr(value),
    }
}

fn sorted(value: &Value) -> Vec<(String, Value)> {
    let keys = value.try_iter().into_iter().flatten();
    let mut entries: Vec<(String, Value)> =
        keys.filter_map(|key| Some((repr(&key), value.get_item(&key).ok()?))).collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_value_gets_one_line_per_entry() {
        let short = Value::from_pairs([("b", Value::from(1)), ("a", Value::from("x"))]);
        assert_eq!(format(&short), "{'a': 'x', 'b': 1}");
        let long = Value::from_pairs([("key", Value::from("x".repeat(40))), ("other", Value::from("y".repeat(40)))]);
        let expected = format!("{{'key': '{}',\n 'other': '{}'}}", "x".repeat(40), "y".repeat(40));
        assert_eq!(format(&long), expected);
    }
}
