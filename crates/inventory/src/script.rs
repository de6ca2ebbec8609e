//! Inventory scripts: programs that print an inventory as JSON.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexSet;
use windlass_bounds::child::{self, Limits};
use windlass_yaml::{Key, Mapping, Node, Options, Source, Span, Value};

use crate::Error;
use crate::step::{Statements, Step};

/// Runs a script and parses its output.
pub(crate) fn read(path: &Path, timeout: Option<Duration>, options: &Options) -> Result<Statements, Error> {
    let output = run(path, &["--list"], timeout)?;
    let document = parse(&output, options)?;
    if document.as_map().is_none() {
        return Err(output.fault(format!("It printed {}, but an inventory is a mapping of groups.", document.kind())));
    }
    statements(&document, &|host| {
        let output = run(path, &["--host", host], timeout)?;
        if output.text.trim().is_empty() { Ok(None) } else { parse(&output, options).map(Some) }
    })
}

/// Reads groups and hosts in the form that a script prints. `ask` returns the variables of a host if there is no
/// `_meta`.
pub(crate) fn statements(
    document: &Node,
    ask: &dyn Fn(&str) -> Result<Option<Node>, Error>,
) -> Result<Statements, Error> {
    let Some(groups) = document.as_map() else { return Ok(Statements::default()) };
    let mut statements = Statements::default();
    let mut hosts = IndexSet::new();
    for (key, data) in groups.iter().filter(|(key, _)| key.as_str() != Some("_meta")) {
        read_group(key, data, &mut statements, &mut hosts)?;
    }
    let hostvars = match groups.get("_meta") {
        Some(meta) => {
            let hostvars = meta.get("hostvars");
            let mapping = hostvars.and_then(Node::as_map);
            Some(mapping.ok_or_else(|| Error::at(&meta.span, "`_meta` must have a mapping `hostvars`."))?)
        }
        None => None,
    };
    for host in hosts {
        let variables = match hostvars {
            Some(hostvars) => match hostvars.get(&host) {
                Some(node) => host_variables(&host, node)?,
                None => continue,
            },
            None => match ask(&host)? {
                Some(node) => host_variables(&host, &node)?,
                None => continue,
            },
        };
        statements.steps.push(Step::HostVariables { host, variables });
    }
    Ok(statements)
}

fn host_variables(host: &str, node: &Node) -> Result<Arc<Mapping>, Error> {
    let node = plain(node);
    node.as_map().map(Arc::clone).ok_or_else(|| {
        let message = format!("The variables of the host `{host}` must be a mapping, but this is {}.", node.kind());
        Error::at(&node.span, message)
    })
}

fn read_group(
    key: &Key,
    data: &Node,
    statements: &mut Statements,
    hosts: &mut IndexSet<Arc<str>>,
) -> Result<(), Error> {
    let name: Arc<str> = key.as_str().unwrap_or_default().into();
    statements.steps.push(Step::Group { name: Arc::clone(&name), span: key.span.clone() });
    let whole;
    let (members, vars, children) = match &data.value {
        Value::Map(sections) => {
            if ["hosts", "vars", "children"].iter().any(|section| sections.contains_key(section)) {
                (sections.get("hosts"), sections.get("vars"), sections.get("children"))
            } else {
                // In a mapping without sections, all keys are variables and the group's only host has its name.
                whole = Node::list(vec![Node::literal(Arc::clone(&name), key.span.clone())], key.span.clone());
                (Some(&whole), Some(data), None)
            }
        }
        _ => (Some(data), None, None),
    };
    if let Some(members) = members {
        let names = names("hosts", &name, members)?;
        hosts.extend(names.iter().map(|(name, _)| Arc::clone(name)));
        statements.steps.extend(names.into_iter().map(|(host, span)| Step::Hosts {
            names: vec![host],
            group: Arc::clone(&name),
            port: None,
            variables: Arc::default(),
            span,
        }));
    }
    if let Some(vars) = vars {
        let Some(mapping) = vars.as_map() else {
            let message = format!("`vars` of the group `{name}` must be a mapping, but this is {}.", vars.kind());
            return Err(Error::at(&vars.span, message));
        };
        statements.steps.extend(mapping.iter().map(|(key, value)| Step::GroupVariable {
            group: Arc::clone(&name),
            key: key.clone(),
            value: plain(value),
        }));
    }
    if let Some(children) = children {
        for (child, span) in names("children", &name, children)? {
            statements.steps.push(Step::Group { name: Arc::clone(&child), span: span.clone() });
            statements.steps.push(Step::Child { parent: Arc::clone(&name), child, span });
        }
    }
    Ok(())
}

fn names(section: &str, group: &str, node: &Node) -> Result<Vec<(Arc<str>, Span)>, Error> {
    let Some(items) = node.as_list() else {
        let message = format!("`{section}` of the group `{group}` must be a list, but this is {}.", node.kind());
        return Err(Error::at(&node.span, message));
    };
    let mut names = Vec::new();
    for item in items {
        let name = item.as_str().filter(|name| !name.is_empty()).ok_or_else(|| {
            let message =
                format!("`{section}` of the group `{group}` must be a list of names, but this is {}.", item.kind());
            Error::at(&item.span, message)
        })?;
        names.push((name.into(), item.span.clone()));
    }
    Ok(names)
}

/// Unwraps encrypted and unsafe strings: `{"__ansible_vault": ...}`, `{"__ansible_unsafe": ...}`.
fn plain(node: &Node) -> Node {
    let value = match &node.value {
        Value::Map(mapping) if mapping.len() == 1 => {
            if let Some(text) = mapping.get("__ansible_vault").and_then(Node::as_str) {
                Value::Vault(text.into())
            } else if let Some(text) = mapping.get("__ansible_unsafe").and_then(Node::as_str) {
                Value::Literal(text.into())
            } else {
                plain_map(mapping)
            }
        }
        Value::Map(mapping) => plain_map(mapping),
        Value::List(items) => Value::List(items.iter().map(plain).collect()),
        _ => return node.clone(),
    };
    Node::new(value, node.span.clone())
}

fn plain_map(mapping: &Mapping) -> Value {
    Value::Map(Arc::new(mapping.iter().map(|(key, value)| (key.clone(), plain(value))).collect()))
}

struct Output {
    command: String,
    text: String,
    stderr: String,
}

impl Output {
    fn fault(&self, message: String) -> Error {
        Error::Script { command: self.command.clone(), message, stderr: self.stderr.clone() }
    }
}

fn parse(output: &Output, options: &Options) -> Result<Node, Error> {
    let source = Source::new(format!("output of {}", output.command), output.text.as_str());
    windlass_yaml::load_one(source, options).map_err(|error| output.fault(format!("It did not print JSON: {error}")))
}

fn run(path: &Path, arguments: &[&str], timeout: Option<Duration>) -> Result<Output, Error> {
    let command = format!("{} {}", path.display(), arguments.join(" "));
    let fault = |message: String, stderr: String| Error::Script { command: command.clone(), message, stderr };
    let mut program = Command::new(path);
    program.args(arguments).stdin(Stdio::null());
    let ran = child::run(&mut program, Limits::within(timeout)).map_err(|error| {
        let message = match error {
            child::Error::Io(error) => {
                format!("It cannot be run: {error}. Is its first line `#!` and an interpreter?")
            }
            child::Error::Late(deadline) => format!(
                "It was ended, because it took longer than {} seconds; `command_timeout` under [windlass] in ansible.cfg sets how long it may take.",
                deadline.as_secs()
            ),
            child::Error::TooMuch(limit) => format!("It was ended, because it printed more than {} MiB.", limit >> 20),
        };
        fault(message, String::new())
    })?;
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    if !ran.status.success() {
        return Err(fault(format!("It failed with {}.", ran.status), stderr));
    }
    let text =
        String::from_utf8(ran.stdout).map_err(|_| fault("It did not print UTF-8 text.".to_owned(), stderr.clone()))?;
    Ok(Output { command, text, stderr })
}
