//! Creates nodes from YAML or XML in a task, or from an expression without matches.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use uppsala::NodeId;

use super::tree::Tree;
use crate::Failure;

/// Creates the nodes that a task lists.
pub(super) fn children(tree: &mut Tree, list: &[Value], input: &str) -> Result<Vec<NodeId>, Failure> {
    list.iter().map(|child| if input == "xml" { from_xml(tree, child) } else { from_yaml(tree, child) }).collect()
}

fn from_xml(tree: &mut Tree, child: &Value) -> Result<NodeId, Failure> {
    let refuse = |why: &str| Failure::new(format!("Error while parsing child element: {why}"));
    let text = child.as_str().ok_or_else(|| refuse(&format!("{child} is not XML text.")))?;
    let parsed = uppsala::parse(text).map_err(|error| refuse(&error.to_string()))?;
    tree.import(&parsed).ok_or_else(|| refuse("there is no element in it."))
}

fn from_yaml(tree: &mut Tree, child: &Value) -> Result<NodeId, Failure> {
    let map = match child {
        Value::String(name) => return tree.element(name),
        Value::Object(map) => map,
        _ => {
            return Err(Failure::new(format!(
                "Invalid child type: {child}. Children must be either strings or hashes."
            )));
        }
    };
    let Some((name, value)) = map.iter().next().filter(|_| map.len() == 1) else {
        return Err(Failure::new("Can only create children from hashes with one key"));
    };
    let node = tree.element(name)?;
    let Value::Object(attributes) = value else {
        tree.set_text(node, text_of(value, name)?)?;
        return Ok(node);
    };
    for (attribute, value) in attributes.iter().filter(|(name, _)| !matches!(name.as_str(), "_" | "+value")) {
        let value = text_of(value, attribute)?
            .ok_or_else(|| Failure::new(format!("The attribute {attribute} of {name} must be a text.")))?;
        tree.set_attribute(node, attribute, value)?;
    }
    match attributes.get("_") {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            for child in list {
                let child = from_yaml(tree, child)?;
                tree.append(node, child);
            }
        }
        Some(other) => return Err(Failure::new(format!("Invalid children type: {other}, must be list."))),
    }
    if let Some(text) = attributes.get("+value").map(|value| text_of(value, name)).transpose()?.flatten() {
        tree.set_text(node, Some(text))?;
    }
    Ok(node)
}

/// A text or nothing. Numbers must be quoted, because their notation is ambiguous.
pub(super) fn text_of<'a>(value: &'a Value, name: &str) -> Result<Option<&'a str>, Failure> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        other => Err(Failure::new(format!("The value {other} of {name} is not text; put it in quotes."))),
    }
}

/// The node that the end of an expression describes.
#[derive(Debug, PartialEq, Eq)]
enum Last<'a> {
    /// `/name` or `/name/text()='value'`.
    Element(&'a str, Option<&'a str>),
    /// `/@name` or `/@name='value'`.
    Attribute(&'a str, Option<&'a str>),
    /// `/name[condition and condition]`.
    Described(&'a str, Vec<&'a str>),
    /// `/text()='value'`.
    Text(&'a str),
}

static FORMS: LazyLock<Option<[Regex; 6]>> = LazyLock::new(|| {
    const NAME: &str = r"[a-zA-Z-][a-zA-Z0-9_.-]*(?::[a-zA-Z-][a-zA-Z0-9_.-]*)?";
    const VALUE: &str = r#"('.*'|".*")"#;
    let form = |text: String| Regex::new(&text).ok();
    Some([
        form(format!("^(.*)/({NAME})$"))?,
        form(format!(r"^(.*)/({NAME})/text\(\)={VALUE}$"))?,
        form(format!("^(.*)/@({NAME})$"))?,
        form(format!("^(.*)/@({NAME})={VALUE}$"))?,
        form(format!(r"^(.*)/({NAME})\[(.*)\]$"))?,
        form(format!(r"^(.*)/text\(\)={VALUE}$"))?,
    ])
});

/// Splits an XPath expression into its parent and the node that the last step describes.
fn split(xpath: &str) -> Option<(&str, Last<'_>)> {
    let xpath = xpath.trim();
    let (form, parts) = FORMS
        .as_ref()?
        .iter()
        .enumerate()
        .find_map(|(form, expression)| expression.captures(xpath).map(|found| (form, found)))?;
    let part = |at: usize| parts.get(at).map_or("", |part| part.as_str());
    let unquoted = |at: usize| part(at).get(1..part(at).len().saturating_sub(1)).unwrap_or_default();
    let last = match form {
        0 => Last::Element(part(2), None),
        1 => Last::Element(part(2), Some(unquoted(3))),
        2 => Last::Attribute(part(2), None),
        3 => Last::Attribute(part(2), Some(unquoted(3))),
        4 => Last::Described(part(2), part(3).split(" and ").map(str::trim).collect()),
        _ => Last::Text(unquoted(2)),
    };
    Some((part(1), last))
}

/// Converts a prefixed name to one with the namespace in braces.
fn clark(tree: &Tree, name: &str) -> Result<String, Failure> {
    let Some((prefix, local)) = name.split_once(':') else { return Ok(name.to_owned()) };
    let uri = tree.namespace(prefix).ok_or_else(|| {
        Failure::new(format!("The prefix {prefix} of {name} is not among the namespaces of the task."))
    })?;
    Ok(format!("{{{uri}}}{local}"))
}

/// Sets an attribute, whose name may have a prefix from the task's namespaces.
pub(super) fn set_attribute(tree: &mut Tree, node: NodeId, name: &str, value: &str) -> Result<(), Failure> {
    let name = clark(tree, name)?;
    tree.set_attribute(node, &name, value)
}

/// Creates the node that an expression describes, if it has no match.
pub(super) fn target(tree: &mut Tree, context: NodeId, xpath: &str) -> Result<(), Failure> {
    let Some((outer, last)) = split(xpath) else {
        return Err(Failure::new(format!("Can't process Xpath {xpath} in order to spawn nodes!")));
    };
    if outer.is_empty() {
        return Err(Failure::new(format!("Xpath {xpath} causes a failure: there is no element to put it into.")));
    }
    if tree.nodes(context, outer)?.is_empty() {
        target(tree, context, outer)?;
    }
    let places = tree.nodes(context, outer)?;
    match last {
        Last::Element(name, value) => {
            let name = clark(tree, name)?;
            let node = tree.element(&name)?;
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                tree.set_text(node, Some(value))?;
            }
            // A single new node moves through all places and stays in the last one.
            places.into_iter().for_each(|place| tree.append(place, node));
        }
        Last::Described(name, conditions) => {
            let name = clark(tree, name)?;
            let node = tree.element(&name)?;
            for place in places {
                tree.append(place, node);
                for condition in &conditions {
                    target(tree, node, &format!("./{condition}"))?;
                }
            }
        }
        Last::Text(value) => {
            for place in places {
                tree.set_text(place, Some(value))?;
            }
        }
        Last::Attribute(name, value) => {
            for place in places {
                set_attribute(tree, place, name, value.unwrap_or_default())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xpath_end_split_into_node_to_create() {
        for (xpath, expected) in [
            ("/a/b", Some(("/a", Last::Element("b", None)))),
            ("/a/x:b", Some(("/a", Last::Element("x:b", None)))),
            ("/a/b/text()='c d'", Some(("/a", Last::Element("b", Some("c d"))))),
            ("/a/@b", Some(("/a", Last::Attribute("b", None)))),
            ("/a/@b=\"c\"", Some(("/a", Last::Attribute("b", Some("c"))))),
            ("/a/b[@c='d' and e]", Some(("/a", Last::Described("b", vec!["@c='d'", "e"])))),
            ("/a[1]/text()='b'", Some(("/a[1]", Last::Text("b")))),
            ("a", None),
            ("/a[1]/*", None),
        ] {
            assert_eq!(split(xpath), expected, "{xpath}");
        }
    }
}
