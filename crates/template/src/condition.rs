//! Conditions: `when`, `changed_when`, `failed_when`, `until`, `that`.

use minijinja::Value;
use windlass_yaml::{Node, Value as Yaml};

use crate::classic;
use crate::compile::{self, Compiled};
use crate::context::{Context, Inner};
use crate::error::{Error, ErrorKind};
use crate::lazy::{LazyDict, LazyList};
use crate::limits;
use crate::plain::finish;
use crate::python::type_name;
use crate::scope::Variable;
use crate::syntax::{inline_templates, is_template};

use std::sync::Arc;

/// Message of ansible-core 2.19 for refusing an expression that a template produced.
const UNTRUSTED: &str = "Encountered untrusted template or expression. Templates and expressions must be defined by trusted sources such \
                         as playbooks or roles, not untrusted sources such as module results.";

/// Part of a condition that its value comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Maker {
    Expression,
    Template,
}

/// Maximum number of conditions that may refer to one another.
const INDIRECTIONS: usize = 20;

impl Context {
    /// Evaluates a condition: a boolean, an expression, or a list of conditions that must all be true.
    ///
    /// An expression must yield a boolean, unless [`crate::Compat::takes_any_truth`]. A text that is a template as a
    /// whole may also name a variable that holds the expression, if that is the project's text.
    pub fn condition(&self, node: &Node) -> Result<bool, Error> {
        limits::within(self.engine().options().limits, || self.judged(node, 0))
    }

    /// The list in the project that a node such as `{{ name }}` refers to. Its items are the project's text too.
    pub fn list_of_project(&self, node: &Node) -> Option<Vec<Node>> {
        let text = text_of(node)?.trim();
        let mut found = self.inner().indirection(text)?;
        for _ in 0..INDIRECTIONS {
            match text_of(&found).map(str::trim).filter(|text| is_wholly_template(text)) {
                Some(text) => found = self.inner().indirection(text)?,
                None => break,
            }
        }
        found.as_list().map(<[Node]>::to_vec)
    }

    /// Like [`Self::condition`], without the warning about delimiters. Up to 2.18, `assert` renders a single condition
    /// first.
    pub fn condition_with_delimiters(&self, node: &Node) -> Result<bool, Error> {
        self.judged(node, 1)
    }

    fn judged(&self, node: &Node, depth: usize) -> Result<bool, Error> {
        if let Yaml::List(nodes) = &node.value {
            for node in nodes.iter() {
                if !self.judged(node, depth)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let written = node.scalar_text().unwrap_or_default();
        self.inner().condition(node, node, depth).map_err(|error| {
            let error = error.without_sentence();
            let error = match self.inner().compat().words_template_errors() {
                true => classic::of_template(error, &written).in_classic_words().of_condition(&written),
                false => error,
            };
            self.inner().suggest(error.with_expression(&written).with_span(&node.span))
        })
    }
}

impl Inner {
    /// Evaluates a condition. `written` is the original one if `node` was reached through a reference.
    fn condition(self: &Arc<Self>, node: &Node, written: &Node, depth: usize) -> Result<bool, Error> {
        let compat = self.compat();
        let lenient = self.takes_any_truth();
        let text = match &node.value {
            Yaml::Bool(value) => return Ok(*value),
            Yaml::String(text) => text.trim(),
            Yaml::Null => "",
            Yaml::Literal(_) => {
                return Err(Error::new(
                    ErrorKind::Conditional,
                    "The condition is marked as unsafe, so that it is never evaluated.",
                ));
            }
            _ if lenient => return Ok(finish(&self.lazy(node)?)?.is_true()),
            _ => return Err(Error::new(ErrorKind::Conditional, "A condition is a string or a boolean.")),
        };
        if text.is_empty() {
            return if lenient {
                Ok(true)
            } else {
                Err(Error::new(ErrorKind::Conditional, "The condition is empty, which is not allowed."))
            };
        }
        if compat.warns_of_delimiters_in_conditions() && depth == 0 && has_tags(text) {
            self.warn(format!(
                "conditional statements should not include jinja2 templating delimiters such as {{{{ }}}} or {{% %}}. Found: {text}"
            ));
        }
        if is_wholly_template(text) {
            if depth < INDIRECTIONS
                && let Some(inner) = self.indirection(text).filter(|inner| text_of(inner).is_some())
            {
                return self.condition(&inner, written, depth + 1);
            }
            if compat.renders_templates_in_conditions() {
                return self.condition_with_templates(text);
            }
            let value = finish(&self.text(text)?)?;
            if value.as_str().is_none() {
                let what = "Conditionals should not be surrounded by templating delimiters such as {{ }} or {% %}.";
                let end = "This feature will be removed from ansible-core version 2.23.";
                self.deprecated(format!("{what} {end}{}", place(written)));
            }
            return self.judge(&value, Maker::Template);
        }
        if compat.renders_templates_in_conditions() && is_template(text) {
            return self.condition_with_templates(text);
        }
        if is_template(text) && text.starts_with('{') {
            return Err(Error::syntax(
                "Syntax error in the condition: template delimiters are not supported in expressions.",
            ));
        }
        let expression = compile::condition(text)?;
        if expression.embeds && !compat.renders_templates_in_conditions() {
            let what = "Jinja constant strings should not contain embedded templates.";
            let end = "This feature will be disabled by default in ansible-core 2.23.";
            self.warn(format!("{what} {end}{}", place(written)));
        }
        let value = finish(&self.expression(&expression, None)?)?;
        self.judge(&value, Maker::Expression)
    }

    /// Warns the user.
    pub(crate) fn warn(&self, sentence: String) {
        if let Some(settings) = &self.engine().options().settings {
            settings.warn(sentence);
        }
    }

    fn deprecated(&self, sentence: String) {
        if let Some(settings) = &self.engine().options().settings {
            settings.deprecated(sentence);
        }
    }

    /// Evaluates a condition with embedded templates, such as `{{ a }} == {{ b }}`, which Ansible once allowed.
    fn condition_with_templates(self: &Arc<Self>, text: &str) -> Result<bool, Error> {
        let expression = match inline_templates(text)? {
            Some(expression) => expression,
            None => return self.judge(&finish(&self.text(text)?)?, Maker::Template),
        };
        let value = finish(&self.expression(&*compile::condition(&expression)?, None)?)?;
        self.judge(&value, Maker::Expression)
    }

    /// Evaluates an expression of the project.
    pub(crate) fn evaluate(self: &Arc<Self>, node: &Node) -> Result<Value, Error> {
        let text = match &node.value {
            Yaml::String(text) => text.trim(),
            Yaml::Literal(_) => {
                return Err(Error::new(ErrorKind::Conditional, UNTRUSTED));
            }
            _ => return self.lazy(node),
        };
        if !is_template(text) {
            return self.expression(&*compile::expression(text)?, None);
        }
        if is_wholly_template(text)
            && let Some(inner) = self.indirection(text)
            && let Some(inner) = text_of(&inner).filter(|inner| !is_template(inner))
        {
            return self.expression(&*compile::expression(inner)?, None);
        }
        if !self.compat().evaluates_templates_as_expressions() {
            return Err(Error::new(ErrorKind::Conditional, UNTRUSTED));
        }
        // Names may be composed, as in `ansible_{{ interface }}.mtu`, if the result is only a path.
        let made = finish(&self.text(text)?)?;
        match made.as_str().filter(|path| !text.starts_with("{{") && is_path(path)) {
            Some(path) => self.expression(&*compile::expression(path)?, None),
            None => Ok(made),
        }
    }

    /// The node in the project that a text such as `{{ name }}` or `{{ name.key }}` refers to.
    fn indirection(self: &Arc<Self>, text: &str) -> Option<Node> {
        let compiled = compile::text(text).ok()?;
        let Compiled::Single(expression) = compiled.as_ref() else { return None };
        let mut path = expression.written.split('.');
        let first = path.next()?;
        let mut node = match self.raw(first)? {
            Variable::Text(node) => node,
            Variable::Data(_) => return None,
        };
        for key in path {
            if let Yaml::String(text) = &node.value
                && is_template(text)
            {
                let value = self.text(text).ok()?;
                let inner = match (value.downcast_object_ref::<LazyDict>(), value.downcast_object_ref::<LazyList>()) {
                    (Some(dict), _) => dict.node(key),
                    (_, Some(list)) => list.node(key.parse().ok()?),
                    _ => None,
                };
                node = inner?.clone();
            } else {
                node = node.get(key)?.clone();
            }
        }
        Some(node)
    }

    fn judge(&self, value: &Value, maker: Maker) -> Result<bool, Error> {
        use minijinja::value::ValueKind;
        if value.kind() == ValueKind::Bool {
            return Ok(value.is_true());
        }
        if self.compat().takes_text_of_templates() {
            let word = value.as_str().filter(|_| maker == Maker::Template).map(str::trim);
            return Ok(match word {
                Some("False" | "false") => false,
                _ => value.is_true(),
            });
        }
        if maker == Maker::Template && value.as_str().is_some() {
            return Err(Error::new(
                ErrorKind::Conditional,
                "The condition is a template that gives text, and text made by a template is not trusted as an expression.",
            ));
        }
        if self.takes_any_truth() {
            return Ok(value.is_true());
        }
        let truth = if value.is_true() { "True" } else { "False" };
        Err(Error::new(
            ErrorKind::Conditional,
            format!(
                "Conditionals must have a boolean result, but this one gives a value of type '{}' (which would be {truth}).",
                type_name(value)
            ),
        )
        .with_hint(Some("Compare the value, or convert it with the filter `bool`.".to_owned())))
    }
}

/// Text of a node, if it is the project's text.
fn text_of(node: &Node) -> Option<&str> {
    if let Yaml::String(text) = &node.value { Some(text) } else { None }
}

/// Whether text is a variable with keys, such as `a.b[0]['c']`, and therefore calls nothing.
fn is_path(text: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let is_key = |key: &str| {
        let quoted = |quote| key.strip_prefix(quote).and_then(|key| key.strip_suffix(quote));
        match quoted('\'').or_else(|| quoted('"')) {
            Some(inner) => inner.chars().all(|c| c.is_alphanumeric() || "_.- ".contains(c)),
            None => !key.is_empty() && key.chars().all(|c| c.is_ascii_digit()),
        }
    };
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    if !is_name(name) {
        return false;
    }
    while !rest.is_empty() {
        let (fits, after) = match (rest.strip_prefix('.'), rest.strip_prefix('[').and_then(|rest| rest.split_once(']')))
        {
            (Some(attribute), _) => {
                let (name, after) = attribute.split_at(attribute.find(['.', '[']).unwrap_or(attribute.len()));
                (is_name(name), after)
            }
            (_, Some((key, after))) => (is_key(key), after),
            _ => return false,
        };
        if !fits {
            return false;
        }
        rest = after;
    }
    true
}

/// Whether text starts and ends with delimiters, which makes it a template as a whole.
fn is_wholly_template(text: &str) -> bool {
    text.starts_with(crate::header::MARK)
        || (["{{", "{%", "{#"].iter().any(|start| text.starts_with(start))
            && ["}}", "%}", "#}"].iter().any(|end| text.ends_with(end)))
}

/// Whether the text contains a complete tag. Up to 2.18, Ansible then takes it for a template.
fn has_tags(text: &str) -> bool {
    [("{{", "}}"), ("{%", "%}"), ("{#", "#}")]
        .iter()
        .any(|(start, end)| text.split_once(start).is_some_and(|(_, rest)| rest.contains(end)))
}

/// Sentence with the position of the condition.
fn place(node: &Node) -> String {
    if node.span.is_located() { format!(" It is at {}.", node.span) } else { String::new() }
}
