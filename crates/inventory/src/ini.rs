//! Inventories in INI format.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Source, Span, Value};

use crate::step::{Statements, Step};
use crate::{Error, address, python_literal, words};

/// Kind of lines in a section.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Hosts,
    Children,
    Variables,
}

/// A group that is used before its declaration.
struct Pending {
    name: Arc<str>,
    span: Span,
    /// Parents of the group; empty if only its variables are set.
    parents: Vec<(Arc<str>, Span)>,
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    statements: Statements,
    declared: HashSet<Arc<str>>,
    pending: Vec<Pending>,
    group: Arc<str>,
    kind: Kind,
}

/// Reads an INI inventory. `existing` returns whether an earlier source declared a group.
pub(crate) fn read(source: &Arc<Source>, existing: impl Fn(&str) -> bool) -> Result<Statements, Error> {
    let mut reader = Reader {
        source,
        statements: Statements::default(),
        declared: HashSet::from(["all".into(), "ungrouped".into()]),
        pending: Vec::new(),
        group: "ungrouped".into(),
        kind: Kind::Hosts,
    };
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
    for (number, line) in text.lines().enumerate() {
        let number = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
        reader.line(number, line, &existing)?;
    }
    reader.finish()
}

impl Reader<'_> {
    fn span(&self, line: u32, column: usize) -> Span {
        let column = u32::try_from(column).unwrap_or(u32::MAX).saturating_add(1);
        Span::new(Arc::clone(self.source), line, column)
    }

    fn line(&mut self, number: u32, whole: &str, existing: &impl Fn(&str) -> bool) -> Result<(), Error> {
        let line = whole.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return Ok(());
        }
        let start = whole.chars().take_while(|character| character.is_whitespace()).count();
        let span = self.span(number, start);
        if line.starts_with('[') {
            if let Some((name, kind)) = section(line) {
                return self.section(name, kind, span, existing);
            }
            if line.ends_with(']') {
                return Err(Error::at(&span, format!("`{line}` is not a valid section."))
                    .with_hint("A section is [group], [group:vars] or [group:children], without spaces."));
            }
        }
        match self.kind {
            Kind::Hosts => self.hosts(line, number, start),
            Kind::Variables => self.variable(line, number, start),
            Kind::Children => self.child(line, span, existing),
        }
    }

    fn section(
        &mut self,
        name: &str,
        kind: Option<&str>,
        span: Span,
        existing: &impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let kind = match kind {
            None | Some("hosts") => Kind::Hosts,
            Some("children") => Kind::Children,
            Some("vars") => Kind::Variables,
            Some(other) => {
                return Err(Error::at(&span, format!("The section [{name}:{other}] is of an unknown kind."))
                    .with_hint("The kinds are [group], [group:vars] and [group:children]."));
            }
        };
        let name: Arc<str> = name.into();
        let is_known = self.declared.contains(&name) || existing(&name);
        if kind == Kind::Variables && !is_known {
            if !self.pending.iter().any(|pending| pending.name == name) {
                self.pending.push(Pending { name: Arc::clone(&name), span: span.clone(), parents: Vec::new() });
            }
        } else if kind != Kind::Variables {
            self.declared.insert(Arc::clone(&name));
        }
        self.statements.steps.push(Step::Group { name: Arc::clone(&name), span });
        if kind != Kind::Variables {
            self.resolve(&name);
        }
        self.group = name;
        self.kind = kind;
        Ok(())
    }

    /// Adds a newly declared group to the parents that named it earlier.
    fn resolve(&mut self, name: &Arc<str>) {
        let Some(index) = self.pending.iter().position(|pending| pending.name == *name) else { return };
        for (parent, span) in self.pending.remove(index).parents {
            self.statements.steps.push(Step::Child { parent, child: Arc::clone(name), span });
        }
    }

    fn child(&mut self, line: &str, span: Span, existing: &impl Fn(&str) -> bool) -> Result<(), Error> {
        let name = line.split('#').next().unwrap_or_default().trim_end();
        if name.is_empty() || name.contains([':', ']']) || name.contains(char::is_whitespace) {
            return Err(Error::at(&span, format!("`{line}` is not the name of a group."))
                .with_hint(format!("The section [{}:children] has one name of a group in each line.", self.group)));
        }
        let child: Arc<str> = name.into();
        let parent = Arc::clone(&self.group);
        if self.declared.contains(&child) || existing(&child) {
            self.statements.steps.push(Step::Child { parent, child, span });
        } else if let Some(pending) = self.pending.iter_mut().find(|pending| pending.name == child) {
            pending.parents.push((parent, span));
        } else {
            self.pending.push(Pending { name: child, span: span.clone(), parents: vec![(parent, span)] });
        }
        Ok(())
    }

    fn variable(&mut self, line: &str, number: u32, start: usize) -> Result<(), Error> {
        let Some((name, value)) = line.split_once('=') else {
            return Err(Error::at(&self.span(number, start), format!("`{line}` is not of the form name = value."))
                .with_hint(format!("The section [{}:vars] has one variable in each line.", self.group)));
        };
        let blanks = value.chars().take_while(|character| character.is_whitespace()).count();
        let column = start + name.chars().count() + 1 + blanks;
        let key = Key::string(name.trim_end(), self.span(number, start));
        let value = value_of(value.trim(), self.span(number, column));
        self.statements.steps.push(Step::GroupVariable { group: Arc::clone(&self.group), key, value });
        Ok(())
    }

    fn hosts(&mut self, line: &str, number: u32, start: usize) -> Result<(), Error> {
        let words = words::split(line).map_err(|unfinished| {
            Error::at(&self.span(number, start + unfinished.column), format!("In this line {}.", unfinished.message))
                .with_hint("Values with spaces go in quotes; a quote that is part of a value goes in the other quotes.")
        })?;
        let mut words = words.into_iter();
        let Some(pattern) = words.next() else { return Ok(()) };
        let span = self.span(number, start + pattern.column);
        let (names, port) = address::expand(&pattern.text)
            .map_err(|reason| Error::at(&span, format!("The host pattern `{}` {reason}.", pattern.text)))?;
        if pattern.text.ends_with(':') && port.is_none() {
            return Err(Error::at(&span, format!("The host `{}` ends with a colon.", pattern.text)).with_hint(
                "A colon stands before a port. If this is a YAML file, its name must end with .yml or .yaml.",
            ));
        }
        if names.iter().any(|name| name == "---") {
            return Err(Error::at(&span, "`---` begins a YAML file, but this file is read as INI.")
                .with_hint("Let the name of a YAML inventory end with .yml or .yaml."));
        }
        let mut variables = Mapping::new();
        for word in words {
            let at = self.span(number, start + word.column);
            let Some((name, value)) = word.text.split_once('=') else {
                return Err(Error::at(&at, format!("`{}` is not of the form name=value.", word.text))
                    .with_hint("After the host come its variables; a value with spaces goes in quotes."));
            };
            let offset = name.chars().count() + 1;
            let column = word.columns.get(offset).copied().unwrap_or(word.column + offset);
            let value = value_of(value, self.span(number, start + column));
            variables.insert(Key::string(name, at), value);
        }
        let port = port.map(|port| Node::new(Value::Int(port.into()), span.clone()));
        let names = names.into_iter().map(Arc::from).collect();
        let group = Arc::clone(&self.group);
        self.statements.steps.push(Step::Hosts { names, group, port, variables: Arc::new(variables), span });
        Ok(())
    }

    fn finish(self) -> Result<Statements, Error> {
        let Some(pending) = self.pending.into_iter().next() else { return Ok(self.statements) };
        Err(match pending.parents.last() {
            None => Error::at(
                &pending.span,
                format!("Variables are given for the group `{}`, but there is no such group.", pending.name),
            )
            .with_hint(format!("Declare it with a section [{}].", pending.name)),
            Some((parent, span)) => Error::at(
                span,
                format!("The group `{}` should be a child of `{parent}`, but there is no such group.", pending.name),
            )
            .with_hint(format!(
                "Declare it with a section [{}]; a section [...:children] lists groups, not hosts.",
                pending.name
            )),
        })
    }
}

/// Name and kind in a section line, which may end with a comment.
fn section(line: &str) -> Option<(&str, Option<&str>)> {
    let (inner, after) = line.strip_prefix('[')?.split_once(']')?;
    let after = after.trim_start();
    if !(after.is_empty() || after.starts_with('#')) {
        return None;
    }
    let (name, kind) = match inner.split_once(':') {
        Some((name, kind)) => (name, Some(kind)),
        None => (inner, None),
    };
    let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    let fits = !name.is_empty() && !name.contains(char::is_whitespace) && kind.is_none_or(is_word);
    fits.then_some((name, kind))
}

#[expect(clippy::disallowed_methods, reason = "an inventory is the project's own text")]
fn value_of(text: &str, span: Span) -> Node {
    python_literal(text, &span).unwrap_or_else(|| Node::of_project(text, span))
}
