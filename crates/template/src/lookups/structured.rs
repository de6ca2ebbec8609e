//! `csvfile` and `ini`: values from files with rows or sections.

use minijinja::Value;
use windlass_yaml::boolean::is_true;

use super::call::{Answer, Call};
use super::key_value;
use crate::filters::csv;
use crate::filters::ini::{self, Ini};
use crate::python::number;
use crate::python::regex::{Anchor, Flags, compile};

/// An option within the term takes precedence over a keyword argument.
fn option(call: &Call<'_>, given: &[(String, String)], name: &str, default: &str) -> String {
    let inline = given.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    inline.unwrap_or_else(|| call.text(name, default))
}

pub(super) fn csvfile(call: &Call<'_>) -> Answer {
    const NO_KEY: &str = "needs a key. Search key is required but was not found";
    if call.terms.is_empty() {
        return Err(call.error(NO_KEY));
    }
    let mut found = Vec::new();
    for term in call.texts() {
        let (key, given) = key_value::parse(&term);
        if key.is_empty() {
            return Err(call.error(NO_KEY));
        }
        let options = ["file", "delimiter", "col", "keycol", "default", "encoding"];
        if let Some((name, _)) = given.iter().find(|(name, _)| !options.contains(&name.as_str())) {
            return Err(call.error(format!("was given '{name}', which is not a valid option")));
        }
        let delimiter = match option(call, &given, "delimiter", "TAB").as_str() {
            "TAB" | "\\t" => '\t',
            delimiter => delimiter.chars().next().unwrap_or('\t'),
        };
        let column = |name: &str, default: &str| {
            let value = option(call, &given, name, default);
            number::parse_int(&value, 10)
                .and_then(|number| usize::try_from(number).ok())
                .ok_or_else(|| call.error(format!("needs the number of a column as '{name}', not '{value}'")))
        };
        let key_column = column("keycol", "0")?;
        let file = option(call, &given, "file", "ansible.csv");
        let content = call.read_as(&call.need_file("files", &file)?, &option(call, &given, "encoding", "utf-8"))?;
        let rows = csv::rows(&content, &csv::Dialect { delimiter, ..csv::Dialect::default() })
            .map_err(|reason| call.error(format!("cannot read '{file}': {reason}")))?;
        match rows.iter().find(|row| row.get(key_column) == Some(&key)) {
            Some(row) => {
                let column = column("col", "1")?;
                let Some(value) = row.get(column) else {
                    return Err(call.error(format!("found '{key}' in '{file}', but the row has no column {column}")));
                };
                found.push(Value::from(value.as_str()));
            }
            None => {
                let inline =
                    given.iter().find(|(name, _)| name == "default").map(|(_, value)| Value::from(value.as_str()));
                found.extend(inline.or_else(|| call.option("default").cloned()));
            }
        }
    }
    Ok(found)
}

pub(super) fn ini(call: &Call<'_>) -> Answer {
    let mut found = Vec::new();
    for term in call.texts() {
        let (key, given) = key_value::parse(&term);
        let options = [
            "allow_no_value",
            "allow_none",
            "case_sensitive",
            "default",
            "encoding",
            "file",
            "interpolation",
            "re",
            "section",
            "type",
        ];
        if let Some((name, _)) = given.iter().find(|(name, _)| !options.contains(&name.as_str())) {
            return Err(call.error(format!("was given '{name}', which is not a valid option")));
        }
        if key.is_empty() {
            let problem = "No key to lookup was provided as first term with in string inline option";
            return Err(call.error(format!("failed. {problem}: {term}")));
        }
        let file = option(call, &given, "file", "ansible.ini");
        let mut section = option(call, &given, "section", "global");
        let encoding = option(call, &given, "encoding", "utf-8");
        let mut content = call.read_as(&call.need_file("files", &file)?, &encoding)?;
        if option(call, &given, "type", "ini") == "properties" {
            "java_properties".clone_into(&mut section);
            content = format!("[java_properties]\n{content}");
        }
        let options = ini::Options {
            case_sensitive: is_true(&option(call, &given, "case_sensitive", "false")),
            allow_no_value: is_true(&option(call, &given, "allow_no_value", "false"))
                || is_true(&option(call, &given, "allow_none", "false")),
            interpolate: is_true(&option(call, &given, "interpolation", "true")),
        };
        let parsed =
            Ini::parse(&content, &options).map_err(|reason| call.error(format!("cannot read '{file}': {reason}")))?;
        let entries = parsed.section(&section);
        if is_true(&option(call, &given, "re", "false")) {
            let pattern = compile(&key, Flags { anchor: Anchor::Match, ..Flags::default() })
                .map_err(|reason| call.error(format!("failed: {reason}")))?;
            for (name, value) in entries.unwrap_or_default() {
                if pattern.is_match(&name).map_err(|reason| call.error(format!("failed: {reason}")))? {
                    found.push(Value::from(value));
                }
            }
            continue;
        }
        if entries.is_none() {
            return Err(call.error(format!("failed. No section '{section}' in '{file}'")));
        }
        let wanted = if options.case_sensitive { key.clone() } else { key.to_lowercase() };
        let default = || {
            let inline = given.iter().find(|(name, _)| name == "default").map(|(_, value)| Value::from(value.as_str()));
            inline.or_else(|| call.options.get("default").cloned()).unwrap_or_else(|| Value::from(""))
        };
        let value = entries.unwrap_or_default().into_iter().find(|(name, _)| *name == wanted);
        found.push(value.map_or_else(default, |(_, value)| Value::from(value)));
    }
    Ok(found.into_iter().filter(|value| !value.is_none()).collect())
}
