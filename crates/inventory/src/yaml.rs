//! Inventories in YAML or JSON format.

use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Span, Value};

use crate::step::{Statements, Step};
use crate::{Error, Warning, address};

/// Reads the groups of a YAML inventory.
pub(crate) fn read(document: &Node) -> Result<Statements, Error> {
    let Some(groups) = document.as_map() else {
        let message = format!("A YAML inventory is a mapping of groups, but this is {}.", document.kind());
        return Err(Error::at(&document.span, message).with_hint("It usually begins with `all:`."));
    };
    if let Some((key, plugin)) = groups.get_entry("plugin")
        && let Some(name) = plugin.as_str()
    {
        let message = format!("This file configures the inventory plugin `{name}`, so it is not a YAML inventory.");
        return Err(Error::at(&key.span, message).with_hint("Add `auto` to `enable_plugins`."));
    }
    let mut statements = Statements::default();
    for (name, group) in groups.iter() {
        read_group(name, group, &mut statements, 0)?;
    }
    Ok(statements)
}

/// Maximum nesting of groups; more is surely a mistake.
pub(crate) const MAX_DEPTH: usize = 100;

fn read_group(key: &Key, group: &Node, statements: &mut Statements, depth: usize) -> Result<Option<Arc<str>>, Error> {
    let Some(name) = key.as_str().filter(|name| !name.is_empty()) else {
        return Err(Error::at(
            &key.span,
            format!("The name of a group must be a string, but this is {}.", key.value.kind()),
        )
        .with_hint(format!("Put it in quotes: \"{}\".", key.to_text())));
    };
    if depth > MAX_DEPTH {
        return Err(Error::at(&key.span, format!("The group `{name}` is nested deeper than {MAX_DEPTH} levels.")));
    }
    let name: Arc<str> = name.into();
    let ignored = |message: String, span: &Span| Warning::Ignored { message, span: span.clone() };
    if !matches!(group.value, Value::Map(_) | Value::Null) {
        let message = format!("`{name}` is ignored, because a group is a mapping and this is {}.", group.kind());
        statements.warnings.push(ignored(message, &group.span));
        return Ok(None);
    }
    statements.steps.push(Step::Group { name: Arc::clone(&name), span: key.span.clone() });
    let Some(sections) = group.as_map() else { return Ok(Some(name)) };
    for (section_key, section) in sections.iter() {
        let section_name = section_key.as_str().unwrap_or_default();
        let entries = match section_name {
            "vars" | "children" | "hosts" => entries(section_name, &name, section)?,
            _ => {
                let message = format!(
                    "`{}` in the group `{name}` is ignored; a group has only `hosts`, `vars` and `children`.",
                    section_key.to_text()
                );
                statements.warnings.push(ignored(message, &section_key.span));
                continue;
            }
        };
        match section_name {
            "vars" => statements.steps.extend(entries.iter().map(|(key, value)| Step::GroupVariable {
                group: Arc::clone(&name),
                key: key.clone(),
                value: value.clone(),
            })),
            "children" => {
                for (child_key, child) in entries.iter() {
                    if let Some(child) = read_group(child_key, child, statements, depth + 1)? {
                        let parent = Arc::clone(&name);
                        statements.steps.push(Step::Child { parent, child, span: child_key.span.clone() });
                    }
                }
            }
            _ => {
                for (pattern, variables) in entries.iter() {
                    statements.steps.push(read_hosts(pattern, variables, &name)?);
                }
            }
        }
    }
    Ok(Some(name))
}

/// Entries of `hosts`, `vars` or `children`; a lone string is a key without a value.
fn entries(section: &str, group: &str, node: &Node) -> Result<Arc<Mapping>, Error> {
    match &node.value {
        Value::Map(entries) => Ok(Arc::clone(entries)),
        Value::Null => Ok(Arc::default()),
        Value::String(_) => {
            let key = Key { value: node.value.clone(), span: node.span.clone() };
            Ok(Arc::new(Mapping::from(vec![(key, Node::null(node.span.clone()))])))
        }
        _ => {
            let message = format!("`{section}` of the group `{group}` must be a mapping, but this is {}.", node.kind());
            let advice = match section {
                "vars" => "Write `name: value` in each line, without dashes.",
                _ => "Write each name with a colon behind it, `name:`, without dashes.",
            };
            Err(Error::at(&node.span, message).with_hint(advice))
        }
    }
}

fn read_hosts(pattern: &Key, variables: &Node, group: &Arc<str>) -> Result<Step, Error> {
    let span = pattern.span.clone();
    let Some(text) = pattern.as_str().filter(|text| !text.is_empty()) else {
        let message =
            format!("Host pattern {} must be a string, but this is {}.", pattern.to_text(), pattern.value.kind());
        return Err(Error::at(&span, message).with_hint(format!("Put it in quotes: \"{}\".", pattern.to_text())));
    };
    let (names, port) =
        address::expand(text).map_err(|reason| Error::at(&span, format!("The host pattern `{text}` {reason}.")))?;
    let variables = match &variables.value {
        Value::Map(mapping) => Arc::clone(mapping),
        Value::Null => Arc::default(),
        _ => {
            let message =
                format!("The variables of the host `{text}` must be a mapping, but this is {}.", variables.kind());
            return Err(Error::at(&variables.span, message));
        }
    };
    let port = port.map(|port| Node::new(Value::Int(port.into()), span.clone()));
    let names = names.into_iter().map(Arc::from).collect();
    Ok(Step::Hosts { names, group: Arc::clone(group), port, variables, span })
}
