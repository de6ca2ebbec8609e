//! Inventories in TOML format: groups with `hosts`, `vars` and a list of `children`.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windlass_yaml::{Key, Mapping, Node, Source, Span, Text, Value};

use crate::step::{Statements, Step};
use crate::{Error, Warning, address};

/// Reads the groups of a TOML inventory.
pub(crate) fn read(source: &Arc<Source>) -> Result<Statements, Error> {
    let reader = Reader { source, lines: line_starts(&source.text) };
    let document = DeTable::parse(&source.text).map_err(|error| {
        let span = error.span().map_or_else(|| Span::new(Arc::clone(source), 1, 1), |range| reader.span(&range));
        Error::at(&span, format!("The text is not valid TOML: {}.", error.message()))
    })?;
    let groups = document.get_ref();
    if groups.is_empty() {
        return Err(Error::at(&Span::new(Arc::clone(source), 1, 1), "A TOML inventory has groups, but this is empty."));
    }
    let mut statements = Statements::default();
    for (name, group) in groups {
        reader.group(&reader.key(name), &reader.node(group), &mut statements)?;
    }
    Ok(statements)
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    /// Offset of the start of each line.
    lines: Vec<usize>,
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

impl Reader<'_> {
    fn span(&self, range: &Range<usize>) -> Span {
        let line = self.lines.partition_point(|start| *start <= range.start).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or_default();
        let column = self.source.text.get(start..range.start).map_or(0, |before| before.chars().count()) + 1;
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Span::new(Arc::clone(self.source), number(line), number(column))
    }

    fn key(&self, key: &Spanned<std::borrow::Cow<'_, str>>) -> Key {
        Key::string(key.get_ref().as_ref(), self.span(&key.span()))
    }

    #[expect(clippy::disallowed_methods, reason = "an inventory is the project's own text")]
    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let content = match value.get_ref() {
            DeValue::String(text) => Value::String(Text::of_project(text.as_ref())),
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(value) => Value::Int(value),
                Err(_) => Value::BigInt(integer.to_string()),
            },
            DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Datetime(time) => Value::Timestamp(time.to_string().into()),
            DeValue::Array(items) => Value::List(items.iter().map(|item| self.node(item)).collect()),
            DeValue::Table(table) => {
                let entries: Mapping = table.iter().map(|(key, value)| (self.key(key), self.node(value))).collect();
                Value::Map(Arc::new(entries))
            }
        };
        Node::new(content, self.span(&value.span()))
    }

    fn group(&self, key: &Key, group: &Node, statements: &mut Statements) -> Result<(), Error> {
        let name: Arc<str> = key.to_text().into();
        let Some(sections) = group.as_map() else {
            let message = format!("`{name}` is ignored, because a group is a table and this is {}.", group.kind());
            statements.warnings.push(Warning::Ignored { message, span: group.span.clone() });
            return Ok(());
        };
        statements.steps.push(Step::Group { name: Arc::clone(&name), span: key.span.clone() });
        let table = |section: &str, node: &Node| {
            let message = format!("`{section}` of the group `{name}` must be a table, but this is {}.", node.kind());
            node.as_map().map(Arc::clone).ok_or_else(|| Error::at(&node.span, message))
        };
        for (section_key, section) in sections.iter() {
            match section_key.as_str().unwrap_or_default() {
                "vars" => {
                    statements.steps.extend(table("vars", section)?.iter().map(|(key, value)| Step::GroupVariable {
                        group: Arc::clone(&name),
                        key: key.clone(),
                        value: value.clone(),
                    }));
                }
                "children" => children(&name, section, statements)?,
                "hosts" => {
                    for (pattern, variables) in table("hosts", section)?.iter() {
                        let text = pattern.to_text();
                        let (names, port) = address::expand(&text).map_err(|reason| {
                            Error::at(&pattern.span, format!("The host pattern `{text}` {reason}."))
                        })?;
                        let port = port.map(|port| Node::new(Value::Int(port.into()), pattern.span.clone()));
                        statements.steps.push(Step::Hosts {
                            names: names.into_iter().map(Arc::from).collect(),
                            group: Arc::clone(&name),
                            port,
                            variables: table(&format!("hosts.{text}"), variables)?,
                            span: pattern.span.clone(),
                        });
                    }
                }
                other => {
                    let message = format!(
                        "`{other}` in the group `{name}` is ignored; a group has only `hosts`, `vars` and `children`."
                    );
                    statements.warnings.push(Warning::Ignored { message, span: section_key.span.clone() });
                }
            }
        }
        Ok(())
    }
}

fn children(parent: &Arc<str>, section: &Node, statements: &mut Statements) -> Result<(), Error> {
    let Some(names) = section.as_list() else {
        let message = format!("`children` of the group `{parent}` must be a list, but this is {}.", section.kind());
        return Err(Error::at(&section.span, message).with_hint("Write children = [\"name\"]."));
    };
    for node in names {
        let Some(child) = node.as_str() else {
            let message = format!("The name of a group must be a string, but this is {}.", node.kind());
            return Err(Error::at(&node.span, message));
        };
        let (child, span): (Arc<str>, _) = (child.into(), node.span.clone());
        statements.steps.push(Step::Group { name: Arc::clone(&child), span: span.clone() });
        statements.steps.push(Step::Child { parent: Arc::clone(parent), child, span });
    }
    Ok(())
}
