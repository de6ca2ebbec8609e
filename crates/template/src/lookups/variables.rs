//! Lookups of the host's variables.

use minijinja::Value;

use super::call::{Answer, Call};
use crate::filters::dicts::{ListMerge, Merging, merge};
use crate::filters::glob;
use crate::python::container::pairs;
use crate::python::regex::{Flags, compile};
use crate::python::{text, type_name};

pub(super) fn vars(call: &Call<'_>) -> Answer {
    let mut values = Vec::new();
    for term in call.terms {
        let Some(name) = term.as_str() else {
            return Err(not_a_name(call, term));
        };
        values.push(match (call.context.variable(name)?, call.options.get("default")) {
            (Some(value), default) if crate::is_undefined(&value) => default.cloned().unwrap_or(value),
            (Some(value), _) => value,
            (None, Some(default)) => default.clone(),
            (None, None) => return Err(call.error(format!("failed. No variable found with this name: {name}"))),
        });
    }
    Ok(values)
}

fn not_a_name(call: &Call<'_>, term: &Value) -> crate::Error {
    call.error(format!(
        "failed. Invalid setting identifier, \"{}\" is not a string, it is {}",
        text(term),
        type_name(term)
    ))
}

pub(super) fn varnames(call: &Call<'_>) -> Answer {
    let names = call.context.names();
    let mut found = Vec::new();
    for term in call.terms {
        let Some(term) = term.as_str() else { return Err(not_a_name(call, term)) };
        let pattern = compile(term, Flags::default())
            .map_err(|reason| call.error(format!("failed. Unable to use '{term}' as a search parameter: {reason}")))?;
        for name in &names {
            if pattern.is_match(name).map_err(|reason| call.error(format!("failed: {reason}")))? {
                found.push(Value::from(name.to_string()));
            }
        }
    }
    Ok(found)
}

/// Hosts that match a pattern such as `web:&prod:!web1`, according to the variable `groups`.
pub(super) fn inventory_hostnames(call: &Call<'_>) -> Answer {
    let groups = call.context.variable("groups")?.and_then(|groups| pairs(&groups)).unwrap_or_default();
    let groups: Vec<(String, Vec<String>)> = groups
        .into_iter()
        .map(|(name, hosts)| (text(&name), hosts.try_iter().into_iter().flatten().map(|host| text(&host)).collect()))
        .collect();
    let mut chosen: Vec<String> = Vec::new();
    let mut parts: Vec<String> = call.texts().iter().flat_map(|term| patterns(term)).collect();
    // Additions apply first, then intersections, then exclusions.
    parts.sort_by_key(|part| match part.chars().next() {
        Some('&') => 1,
        Some('!') => 2,
        _ => 0,
    });
    for part in parts {
        match (part.strip_prefix('&'), part.strip_prefix('!')) {
            (Some(part), _) => {
                let hosts = matching(call, &groups, part)?;
                chosen.retain(|host| hosts.contains(host));
            }
            (_, Some(part)) => {
                let hosts = matching(call, &groups, part)?;
                chosen.retain(|host| !hosts.contains(host));
            }
            _ => {
                for host in matching(call, &groups, &part)? {
                    if !chosen.contains(&host) {
                        chosen.push(host);
                    }
                }
            }
        }
    }
    Ok(chosen.into_iter().map(Value::from).collect())
}

/// Splits patterns at commas, or at colons outside brackets.
fn patterns(term: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut inside = false;
    for character in term.chars() {
        match character {
            ',' => parts.push(String::new()),
            ':' if !inside && !term.contains(',') => parts.push(String::new()),
            other => {
                inside = other == '[' || inside && other != ']';
                if let Some(part) = parts.last_mut() {
                    part.push(other);
                }
            }
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Hosts that match one name, glob or `~regex` of groups or hosts, optionally with an index or range.
fn matching(call: &Call<'_>, groups: &[(String, Vec<String>)], part: &str) -> Result<Vec<String>, crate::Error> {
    let (name, range) = match part.split_once('[') {
        Some((name, range)) if range.ends_with(']') && !part.starts_with('~') => {
            (name, Some(range.trim_end_matches(']')))
        }
        _ => (part, None),
    };
    let pattern = match name.strip_prefix('~') {
        Some(regex) => {
            Some(compile(regex, Flags::default()).map_err(|reason| call.error(format!("failed: {reason}")))?)
        }
        None => None,
    };
    let matcher = glob::matcher(name);
    let fits = |candidate: &str| match &pattern {
        Some(pattern) => pattern.is_match(candidate).unwrap_or(false),
        None => candidate == name || matcher.as_ref().is_some_and(|matcher| matcher.is_match(candidate)),
    };
    let mut hosts: Vec<String> = Vec::new();
    let add = |found: &[String], hosts: &mut Vec<String>| {
        for host in found {
            if !hosts.contains(host) {
                hosts.push(host.clone());
            }
        }
    };
    for (_, members) in groups.iter().filter(|(group, _)| fits(group)) {
        add(members, &mut hosts);
    }
    for (_, members) in groups {
        let named: Vec<String> = members.iter().filter(|host| fits(host)).cloned().collect();
        add(&named, &mut hosts);
    }
    let Some(range) = range else {
        return Ok(hosts);
    };
    let place = |text: &str| -> Option<usize> {
        let number: i64 = text.trim().parse().ok()?;
        usize::try_from(if number < 0 { number + i64::try_from(hosts.len()).ok()? } else { number }).ok()
    };
    Ok(match range.split_once([':', '-']).filter(|(start, _)| !start.is_empty() || range.starts_with(':')) {
        Some((start, end)) => {
            let start = place(start).unwrap_or(0);
            let end = place(end).map_or(hosts.len(), |end| end + 1);
            hosts.get(start.min(hosts.len())..end.min(hosts.len())).unwrap_or_default().to_vec()
        }
        None => place(range).and_then(|place| hosts.get(place).cloned()).into_iter().collect(),
    })
}

/// Merges the variables with matching names into one list or dictionary.
pub(super) fn merge_variables(call: &Call<'_>) -> Answer {
    let kind = call.text("pattern_type", "regex");
    let mut names = call.context.names();
    names.sort_unstable();
    names.dedup();
    let mut results = Vec::new();
    for term in call.texts() {
        let regex = compile(&term, Flags::default()).map_err(|reason| call.error(format!("failed: {reason}")))?;
        let fits = |name: &str| match kind.as_str() {
            "prefix" => name.starts_with(&term),
            "suffix" => name.ends_with(&term),
            _ => regex.is_match(name).unwrap_or(false),
        };
        let mut merged = call.option("initial_value").cloned();
        for name in names.iter().filter(|name| fits(name)) {
            let Some(value) = call.context.variable(name)? else { continue };
            merged = Some(match merged {
                None => value,
                Some(current) if pairs(&current).is_some() => {
                    merge(&current, &value, Merging { recursive: true, lists: ListMerge::Replace })
                }
                Some(current) => Value::from(
                    current
                        .try_iter()
                        .into_iter()
                        .flatten()
                        .chain(value.try_iter().into_iter().flatten())
                        .collect::<Vec<_>>(),
                ),
            });
        }
        results.extend(merged);
    }
    Ok(results)
}
