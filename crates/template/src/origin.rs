//! Origin of texts, which `type_debug` reports up to ansible-core 2.18: text of the project, of a template, or from
//! outside.
//!
//! Texts do not carry their origin. It is traced back from the expression before `type_debug` to its first variable,
//! and on through templates that consist of a single variable.

use std::sync::Arc;

use minijinja::value::ValueKind;
use minijinja::{State, Value};
use windlass_yaml::{Node, Value as Yaml};

use crate::compile::{self, Compiled, CompiledPart, Expression};
use crate::context::{Context, Inner};
use crate::mark;
use crate::plain::Wrapped;
use crate::python::class::Class;
use crate::python::type_name;
use crate::registry;
use crate::scope::Variable;
use crate::syntax::is_template;

/// Maximum number of variables that may refer to one another.
const INDIRECTIONS: usize = 20;

/// Origin of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A file of the project.
    Written,
    /// Outside the project: a result, a fact, a lookup, or text marked as unsafe.
    Outside,
    /// An encrypted text of the project.
    Vault,
    /// The result of a template, or a text made by Ansible itself.
    #[default]
    Made,
}

impl Origin {
    /// Keyword for the origin.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Written => "written",
            Origin::Outside => "outside",
            Origin::Vault => "vault",
            Origin::Made => "made",
        }
    }

    /// Origin for a keyword.
    pub fn of_word(word: &str) -> Origin {
        let all = [Origin::Written, Origin::Outside, Origin::Vault];
        all.into_iter().find(|origin| origin.word() == word).unwrap_or_default()
    }
}

impl Context {
    /// Origin of the text that a node evaluates to.
    pub fn origin(&self, node: &Node) -> Origin {
        of_node(self.inner(), node, "", 0)
    }
}

/// `path | type_debug`.
pub(crate) fn type_debug(state: &mut State<'_, '_>, value: &Value, path: &Value) -> Result<Value, minijinja::Error> {
    match Context::from_state(state).filter(|context| context.inner().compat().traces_origins()) {
        Some(context) if value.kind() == ValueKind::String => Ok(Value::from(class_at(&context, value, path))),
        _ => registry::apply_filter(state, "type_debug", std::slice::from_ref(value)),
    }
}

/// `path.__class__`, which Jinja's sandbox refuses.
pub(crate) fn class_attribute(
    state: &mut State<'_, '_>,
    value: &Value,
    path: &Value,
) -> Result<Value, minijinja::Error> {
    match Context::from_state(state).filter(|context| context.inner().compat().has_class_attribute()) {
        Some(context) => Ok(Value::from_object(Class(class_at(&context, value, path)))),
        None => {
            mark::check(value)?;
            let class = type_name(value);
            let message = format!("access to attribute '__class__' of '{class}' object is unsafe.");
            Ok(mark::missing("__class__", message, None))
        }
    }
}

fn class_at(context: &Context, value: &Value, path: &Value) -> &'static str {
    match value.kind() {
        ValueKind::String => class_of_text(value, of_path(context.inner(), path.as_str().unwrap_or_default(), 0)),
        _ => class(value),
    }
}

/// Class name of a value up to 2.18, for text whose origin was not traced.
pub(crate) fn class(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::String => class_of_text(value, Origin::Made),
        _ if crate::is_undefined(value) => "AnsibleUndefined",
        _ if value.downcast_object_ref::<Wrapped>().is_some() => "AnsibleVaultEncryptedUnicode",
        _ => type_name(value),
    }
}

fn class_of_text(value: &Value, origin: Origin) -> &'static str {
    match (value.is_safe(), origin) {
        (true, Origin::Outside) => "NativeJinjaUnsafeText",
        (true, _) => "NativeJinjaText",
        (false, Origin::Written) => "AnsibleUnicode",
        (false, Origin::Outside) => "AnsibleUnsafeText",
        (false, Origin::Vault) => "AnsibleVaultEncryptedUnicode",
        (false, Origin::Made) => "str",
    }
}

/// Origin of the text at `name.key[0]`.
fn of_path(context: &Arc<Inner>, path: &str, depth: usize) -> Origin {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (name, keys) = path.split_at(end);
    let (name, keys) = match first_key(keys) {
        Some(first) if name == "vars" => first,
        _ => (name, keys),
    };
    match context.raw(name) {
        Some(Variable::Text(node)) => of_node(context, &node, keys, depth + 1),
        Some(Variable::Data(_)) => context.origin_of_data(name),
        None => Origin::Made,
    }
}

fn of_node(context: &Arc<Inner>, node: &Node, keys: &str, depth: usize) -> Origin {
    match (&node.value, first_key(keys)) {
        _ if depth > INDIRECTIONS => Origin::Made,
        (Yaml::String(text), None) if is_template(text) => of_template(context, text, depth),
        // Answers to prompts and command line values are plain Python strings.
        (Yaml::String(text), None) if !is_template(text) && is_in_file(node) => Origin::Written,
        (Yaml::Literal(_), _) => Origin::Outside,
        (Yaml::Vault(_), None) => Origin::Vault,
        (Yaml::Map(_) | Yaml::List(_), None) => Origin::Written,
        (Yaml::Map(_), Some((key, rest))) => {
            node.get(key).map_or(Origin::Made, |node| of_node(context, node, rest, depth))
        }
        (Yaml::List(nodes), Some((key, rest))) => key
            .parse::<usize>()
            .ok()
            .and_then(|index| nodes.get(index))
            .map_or(Origin::Made, |node| of_node(context, node, rest, depth)),
        _ => Origin::Made,
    }
}

fn is_in_file(node: &Node) -> bool {
    node.span.is_located() && node.span.source.name != "command line"
}

/// The first key in `.a[0]['b']`, and the remaining keys.
pub(crate) fn first_key(keys: &str) -> Option<(&str, &str)> {
    if let Some(rest) = keys.strip_prefix('.') {
        return Some(rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())));
    }
    let (key, rest) = keys.strip_prefix('[')?.split_once(']')?;
    Some((key.trim_matches(['\'', '"']), rest))
}

fn of_template(context: &Arc<Inner>, text: &str, depth: usize) -> Origin {
    let Ok(compiled) = compile::text(text) else { return Origin::Made };
    let outside = |expression: &Expression| is_from_outside(context, &expression.written, depth);
    match compiled.as_ref() {
        Compiled::Single(expression) if is_path(&expression.written) => of_path(context, &expression.written, depth),
        Compiled::Single(expression) if outside(expression) => Origin::Outside,
        Compiled::Parts(parts) => {
            let mut expressions = parts.iter().filter_map(|part| match part {
                CompiledPart::Expression(expression) => Some(expression),
                CompiledPart::Text(_) => None,
            });
            if expressions.any(outside) { Origin::Outside } else { Origin::Made }
        }
        _ => Origin::Made,
    }
}

fn is_path(expression: &str) -> bool {
    expression.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && expression.chars().all(|c| c.is_alphanumeric() || "_.[]'\"".contains(c))
}

/// Whether an expression calls a lookup or uses a variable from outside; its result is then from outside too.
fn is_from_outside(context: &Arc<Inner>, expression: &str, depth: usize) -> bool {
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_alphabetic() || c == '_') {
        let word = &rest[start..];
        let end = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        let is_lookup = matches!(name, "lookup" | "query" | "q") && after.starts_with('(');
        if is_lookup || of_path(context, name, depth) == Origin::Outside {
            return true;
        }
        rest = after;
    }
    false
}
