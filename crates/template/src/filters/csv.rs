//! Reads comma-separated values as Python's `csv` does.

use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::python::container::{dict, list};
use crate::python::text;

/// Separator and quoting of the values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) delimiter: char,
    pub(crate) skip_initial_space: bool,
    /// Whether malformed input is an error, instead of being read leniently.
    pub(crate) strict: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Dialect { delimiter: ',', skip_initial_space: false, strict: false }
    }
}

/// Reads the rows; empty lines are skipped.
pub(crate) fn rows(content: &str, dialect: &Dialect) -> Result<Vec<Vec<String>>, String> {
    let mut rows = Vec::new();
    let mut row: Vec<String> = Vec::new();
    let mut cell = String::new();
    let mut characters = content.chars().peekable();
    let mut quoted = false;
    let mut at_start = true;
    let mut line = 1;
    while let Some(character) = characters.next() {
        line += usize::from(character == '\n');
        if quoted {
            match character {
                '"' if characters.next_if_eq(&'"').is_some() => cell.push('"'),
                '"' => {
                    quoted = false;
                    let follows = characters.peek().copied();
                    let ends = follows.is_none_or(|next| next == dialect.delimiter || next == '\n' || next == '\r');
                    if dialect.strict && !ends {
                        return Err(format!("in line {line}, a quote is followed by more text"));
                    }
                }
                other => cell.push(other),
            }
            continue;
        }
        match character {
            '"' if at_start => quoted = true,
            ' ' if at_start && dialect.skip_initial_space => continue,
            delimiter if delimiter == dialect.delimiter => {
                row.push(std::mem::take(&mut cell));
                at_start = true;
                continue;
            }
            '\r' | '\n' => {
                if character == '\r' {
                    characters.next_if_eq(&'\n');
                }
                if !(row.is_empty() && cell.is_empty() && at_start) {
                    row.push(std::mem::take(&mut cell));
                    rows.push(std::mem::take(&mut row));
                }
                at_start = true;
                continue;
            }
            other => cell.push(other),
        }
        at_start = false;
    }
    if quoted && dialect.strict {
        return Err("the last quote is not closed".to_owned());
    }
    if !(row.is_empty() && cell.is_empty() && at_start) {
        row.push(cell);
        rows.push(row);
    }
    Ok(rows)
}

pub(super) fn from_csv(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let delimiter = match (args.text_of("delimiter"), args.text_of("dialect").as_deref()) {
        (Some(delimiter), _) => delimiter.chars().next().unwrap_or(','),
        (None, None | Some("excel" | "unix")) => ',',
        (None, Some("excel-tab")) => '\t',
        (None, Some(other)) => {
            return Err(args.error(format!("knows the dialects excel, excel-tab and unix, not '{other}'")));
        }
    };
    let dialect = Dialect {
        delimiter,
        skip_initial_space: args.flag("skipinitialspace", false),
        strict: args.flag("strict", false),
    };
    let mut rows = rows(args.string()?, &dialect).map_err(|reason| args.failed(reason))?.into_iter();
    let names: Vec<Value> = match args.some("fieldnames") {
        Some(names) => names.try_iter()?.map(|name| Value::from(text(&name))).collect(),
        None => rows.next().unwrap_or_default().into_iter().map(Value::from).collect(),
    };
    let row = |cells: Vec<String>| {
        let mut cells = cells.into_iter().map(Value::from);
        let mut entries: Vec<(Value, Value)> =
            names.iter().map(|name| (name.clone(), cells.next().unwrap_or_else(|| Value::from(())))).collect();
        let more: Vec<Value> = cells.collect();
        if !more.is_empty() {
            entries.push((Value::from(()), list(more)));
        }
        dict(entries)
    };
    Ok(list(rows.map(row).collect()))
}
