//! Reads and writes files with sections as Python's `configparser` does.

use indexmap::IndexMap;
use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::python::container::{dict, pairs};
use crate::python::text;

/// Options for reading.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) case_sensitive: bool,
    pub(crate) allow_no_value: bool,
    /// Whether `%(name)s` in a value refers to another value.
    pub(crate) interpolate: bool,
}

/// Content of a file.
#[derive(Debug, Default)]
pub(crate) struct Ini {
    options: Options,
    defaults: IndexMap<String, Option<String>>,
    sections: IndexMap<String, IndexMap<String, Option<String>>>,
}

impl Ini {
    /// Parses a text; the error names the line and the problem.
    pub(crate) fn parse(content: &str, options: &Options) -> Result<Ini, String> {
        let mut ini = Ini { options: *options, ..Ini::default() };
        let mut section: Option<String> = None;
        let mut last: Option<(String, usize)> = None;
        for (number, line) in content.lines().enumerate() {
            let trimmed = line.trim();
            let indent = line.len() - line.trim_start().len();
            if trimmed.is_empty() || trimmed.starts_with('#') || trimmed.starts_with(';') {
                continue;
            }
            // A line indented further than the preceding key continues its value.
            if let (Some((key, depth)), Some(name)) = (&last, &section)
                && indent > *depth
            {
                let entries = if name == "DEFAULT" { Some(&mut ini.defaults) } else { ini.sections.get_mut(name) };
                if let Some(Some(value)) = entries.and_then(|entries| entries.get_mut(key)) {
                    value.push('\n');
                    value.push_str(trimmed);
                    continue;
                }
            }
            if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
                if ini.sections.contains_key(name.0) {
                    return Err(format!("Duplicate section in line {}: '{}'", number + 1, name.0));
                }
                if name.0 != "DEFAULT" {
                    ini.sections.insert(name.0.to_owned(), IndexMap::new());
                }
                section = Some(name.0.to_owned());
                last = None;
                continue;
            }
            let Some(name) = &section else {
                return Err(format!("line {} stands before the first section", number + 1));
            };
            let (key, value) = match trimmed.find(['=', ':']) {
                Some(at) => (trimmed[..at].trim_end(), Some(trimmed[at + 1..].trim_start().to_owned())),
                None if options.allow_no_value => (trimmed, None),
                None => return Err(format!("line {} has no '='", number + 1)),
            };
            let key = if options.case_sensitive { key.to_owned() } else { key.to_lowercase() };
            let entries =
                if name == "DEFAULT" { &mut ini.defaults } else { ini.sections.entry(name.clone()).or_default() };
            if entries.insert(key.clone(), value).is_some() {
                return Err(format!("Duplicate option in line {}: '{key}'", number + 1));
            }
            last = Some((key, indent));
        }
        Ok(ini)
    }

    /// Keys and values of a section, including the defaults.
    pub(crate) fn section(&self, name: &str) -> Option<Vec<(String, Option<String>)>> {
        let own = match name {
            "DEFAULT" => &self.defaults,
            name => self.sections.get(name)?,
        };
        let mut all = own.clone();
        for (key, value) in &self.defaults {
            all.entry(key.clone()).or_insert_with(|| value.clone());
        }
        let show = |(key, value): (&String, &Option<String>)| {
            (key.clone(), value.as_ref().map(|value| self.interpolated(value, &all, 0)))
        };
        Some(all.iter().map(show).collect())
    }

    fn interpolated(&self, value: &str, all: &IndexMap<String, Option<String>>, depth: usize) -> String {
        const DEEPEST: usize = 10;
        if !self.options.interpolate || depth >= DEEPEST || !value.contains('%') {
            return value.to_owned();
        }
        let mut out = String::new();
        let mut rest = value;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let reference = after.strip_prefix('(').and_then(|inner| inner.split_once(")s"));
            if let Some((name, tail)) = reference
                && let Some(Some(found)) = all.get(&name.to_lowercase())
            {
                out.push_str(&self.interpolated(found, all, depth + 1));
                rest = tail;
            } else {
                out.push('%');
                rest = after.strip_prefix('%').unwrap_or(after);
            }
        }
        out + rest
    }
}

pub(super) fn from_ini(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let options = Options { case_sensitive: true, allow_no_value: false, interpolate: true };
    let ini = Ini::parse(args.string()?, &options).map_err(|reason| args.failed(reason))?;
    let section = |name: &String| {
        let entries = ini.section(name).unwrap_or_default();
        let entries = entries.into_iter().map(|(key, value)| (Value::from(key), Value::from(value)));
        (Value::from(name.as_str()), dict(entries))
    };
    Ok(dict(ini.sections.keys().map(section)))
}

pub(super) fn to_ini(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let sections = args.pairs()?;
    if sections.is_empty() {
        return Err(args.failed("the dictionary is empty"));
    }
    let mut out = String::new();
    for (name, entries) in sections {
        let Some(entries) = pairs(&entries) else {
            return Err(args.failed(format!("the section '{}' is not a dictionary", text(&name))));
        };
        out.push_str(&format!("[{}]\n", text(&name)));
        for (key, value) in entries {
            out.push_str(&format!("{} = {}\n", text(&key), text(&value).replace('\n', "\n\t")));
        }
        out.push('\n');
    }
    // The empty line after the last section is dropped.
    out.pop();
    Ok(Value::from(out))
}
