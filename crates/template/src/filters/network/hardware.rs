//! `hwaddr` and `macaddr`.

use minijinja::{State, Value};

use crate::filters::call::{Arguments, Outcome};
use crate::python::number::integer;

/// Parses a hardware address of six or eight bytes in one of its usual notations.
pub(crate) fn parse(text: &str) -> Option<Vec<u8>> {
    let part = |text: &str, width: usize| (text.len() <= width && !text.is_empty()).then(|| format!("{text:0>width$}"));
    let split = |separator: char, count: usize, width: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        (parts.len() == count).then(|| parts.iter().map(|text| part(text, width)).collect::<Option<String>>()).flatten()
    };
    let digits = split(':', 6, 2)
        .or_else(|| split('-', 6, 2))
        .or_else(|| split(':', 8, 2))
        .or_else(|| split('-', 8, 2))
        .or_else(|| split('.', 3, 4))
        .or_else(|| split('.', 4, 4))
        .or_else(|| split(':', 3, 4))
        .or_else(|| split(':', 2, 6))
        .or_else(|| split('-', 2, 6))
        .or_else(|| matches!(text.len(), 12 | 16).then(|| text.to_owned()))?;
    hex::decode(digits).ok()
}

fn joined(bytes: &[u8], separator: &str, show: fn(&u8) -> String) -> Value {
    Value::from(bytes.iter().map(show).collect::<Vec<_>>().join(separator))
}

fn grouped(bytes: &[u8], width: usize, separator: &str) -> Value {
    Value::from(bytes.chunks(width).map(hex::encode).collect::<Vec<_>>().join(separator))
}

pub(in crate::filters) fn hwaddr(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (given, query) = (args.text(), args.text_of("query").unwrap_or_default());
    let Some(bytes) = parse(&given) else {
        return match query.as_str() {
            "" => Ok(Value::from(())),
            "bool" => Ok(Value::from(false)),
            _ => Err(args.failed(format!("'{given}' is not a hardware address"))),
        };
    };
    Ok(match query.as_str() {
        "" => args.value().clone(),
        "bool" => Value::from(true),
        "bare" => grouped(&bytes, bytes.len(), ""),
        "int" => integer(bytes.iter().fold(0, |number, byte| (number << 8) | i128::from(*byte))),
        "cisco" => grouped(&bytes, 2, "."),
        "linux" => grouped(&bytes, 1, ":"),
        "pgsql" | "postgresql" | "psql" => grouped(&bytes, 3, ":"),
        "unix" => joined(&bytes, ":", |byte| format!("{byte:x}")),
        "win" | "eui48" => joined(&bytes, "-", |byte| format!("{byte:02X}")),
        other => return Err(args.error(format!("knows no query '{other}'"))),
    })
}
