//! Evaluation context of one host and task.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use minijinja::{State, Value};
use windlass_yaml::{Node, Span, Value as Yaml};

use crate::compat::Compat;
use crate::compile::{self, Compiled, CompiledPart, Expression};
use crate::engine::{Engine, TemplateOptions};
use crate::error::{Error, ErrorKind};
use crate::header;
use crate::lazy::{LazyDict, LazyList, scalar};
use crate::limits;
use crate::mark;
use crate::operators::shown_as;
use crate::origin::Origin;
use crate::plain::{finish, is_bound, plain, settled};
use crate::root::Root;
use crate::scope::{Defaults, Scope, Variable, Variables};
use crate::suggest::closest;
use crate::syntax::is_template;
use crate::tracker::{self, Dependencies};
use crate::{classic, is_omit};

/// Evaluates templates with the variables of one host and task. Cheap to clone.
///
/// A variable is rendered on first use and then cached, so a context sees its variables at a single point in time.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

/// Variables of a context and their rendered values.
pub(crate) struct Inner {
    engine: Engine,
    variables: Arc<dyn Scope>,
    /// Variables that shadow another context's variables, and that context.
    layer: Option<Layer>,
    rendered: Mutex<RenderedMap>,
}

/// Lookups are frequent, so the hash is a fast one with a random seed.
type RenderedMap = HashMap<Arc<str>, Rendered, foldhash::fast::RandomState>;

struct Layer {
    own: Own,
    below: Arc<Inner>,
}

/// Variables of a layer.
enum Own {
    /// Variables that shadow the same names in lower layers.
    Extra(Variables),
    /// Variables that apply only to names that no lower layer has.
    Defaults(Arc<dyn Defaults>),
}

impl Layer {
    /// Whether the layer may change the value of a variable.
    fn may_change(&self, name: &str) -> bool {
        match &self.own {
            Own::Extra(extra) => extra.contains_key(name),
            Own::Defaults(defaults) => defaults.names().contains(&name),
        }
    }

    /// Whether the layer may change the value of something with these dependencies.
    fn may_change_any(&self, dependencies: &Dependencies) -> bool {
        match &self.own {
            Own::Extra(extra) => extra.keys().any(|name| dependencies.contains(name)),
            Own::Defaults(defaults) => defaults.names().iter().any(|name| dependencies.contains(*name)),
        }
    }
}

/// A rendered variable.
#[derive(Clone)]
struct Rendered {
    value: Value,
    dependencies: Arc<Dependencies>,
    /// The value is rendered further on use, so other contexts cannot share it.
    bound: bool,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<Arc<Inner>> for Context {
    fn from(inner: Arc<Inner>) -> Context {
        Context(inner)
    }
}

impl Inner {
    fn rendered(&self) -> MutexGuard<'_, RenderedMap> {
        self.rendered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn compat(&self) -> Compat {
        self.engine.options().compat
    }

    /// Whether conditions follow Python's truth, with an empty condition being true.
    pub(crate) fn takes_any_truth(&self) -> bool {
        self.compat().takes_any_truth() || self.engine.options().allow_broken_conditionals
    }

    /// A variable as defined, not yet rendered.
    pub(crate) fn raw(&self, name: &str) -> Option<Variable> {
        self.raw_of(name, |scope| scope.get(name))
    }

    /// Like [`Inner::raw`], with a function that looks into the scope.
    fn raw_of(&self, name: &str, of_scope: impl Fn(&dyn Scope) -> Option<Variable>) -> Option<Variable> {
        let mut current = self;
        while let Some(layer) = &current.layer {
            match &layer.own {
                Own::Extra(extra) => {
                    if let Some(variable) = extra.get(name) {
                        return Some(variable.clone());
                    }
                }
                Own::Defaults(defaults) if defaults.names().contains(&name) => {
                    let below = layer.below.raw_of(name, of_scope);
                    return below.or_else(|| defaults.get(name).map(Variable::Data));
                }
                Own::Defaults(_) => {}
            }
            current = &layer.below;
        }
        of_scope(&*self.variables)
    }

    /// Origin of the text in a data variable.
    pub(crate) fn origin_of_data(&self, name: &str) -> Origin {
        let mut current = self;
        while let Some(layer) = &current.layer {
            let is_own = match &layer.own {
                Own::Extra(extra) => extra.contains_key(name),
                Own::Defaults(defaults) => defaults.names().contains(&name) && layer.below.raw(name).is_none(),
            };
            if is_own {
                return Origin::Made;
            }
            current = &layer.below;
        }
        self.variables.origin(name)
    }

    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        let mut names = self.variables.names();
        let mut current = self;
        while let Some(layer) = &current.layer {
            let own: Vec<Arc<str>> = match &layer.own {
                Own::Extra(extra) => extra.keys().cloned().collect(),
                Own::Defaults(defaults) => {
                    let given = defaults.names().iter().filter(|name| defaults.get(name).is_some());
                    given.map(|name| Arc::from(*name)).collect()
                }
            };
            for name in own {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            current = &layer.below;
        }
        names
    }

    /// Whether a value with these dependencies is the same in the context below.
    fn is_same_below(&self, name: &str, dependencies: &Dependencies) -> bool {
        self.layer.as_ref().is_some_and(|layer| !layer.may_change(name) && !layer.may_change_any(dependencies))
    }

    fn find_rendered(&self, name: &str) -> Option<Rendered> {
        if let Some(found) = self.rendered().get(name) {
            return Some(found.clone());
        }
        let layer = self.layer.as_ref().filter(|layer| !layer.may_change(name))?;
        let found = layer.below.find_rendered(name)?;
        (!found.bound && self.is_same_below(name, &found.dependencies)).then_some(found)
    }

    fn keep(&self, name: Arc<str>, rendered: Rendered) {
        if !rendered.bound
            && self.is_same_below(&name, &rendered.dependencies)
            && let Some(layer) = &self.layer
        {
            return layer.below.keep(name, rendered);
        }
        self.rendered().insert(name, rendered);
    }

    /// The rendered value of a variable; a mark if its template fails.
    pub(crate) fn value(self: &Arc<Self>, name: &str) -> Option<Value> {
        tracker::touch(name);
        if let Some(found) = self.find_rendered(name) {
            tracker::depends_on(&found.dependencies);
            return Some(found.value);
        }
        let node = match self.raw(name)? {
            Variable::Data(value) => return Some(value),
            Variable::Text(node) => node,
        };
        if let Some(value) = constant(&node) {
            return Some(value);
        }
        let name: Arc<str> = Arc::from(name);
        let address = Arc::as_ptr(self).addr();
        match tracker::render(address, &name, || self.lazy(&node)) {
            Ok((result, dependencies)) => {
                let value = match result.and_then(|value| mark::check_passing(&value, &node).map(|()| value)) {
                    Ok(value) => value,
                    Err(error) => {
                        let error = error.with_span(&node.span).through(&node);
                        mark::failed(error.while_rendering(&name, &node.span))
                    }
                };
                tracker::depends_on(&dependencies);
                self.variables.rendered(&name, &value);
                let bound = is_bound(&value);
                self.keep(name, Rendered { value: value.clone(), dependencies, bound });
                Some(value)
            }
            Err(error) => Some(mark::failed(error.with_span(&node.span))),
        }
    }

    /// Converts a node to a value whose containers are rendered on use.
    pub(crate) fn lazy(self: &Arc<Self>, node: &Node) -> Result<Value, Error> {
        match &node.value {
            Yaml::String(text) if is_template(text) => self.text(text),
            Yaml::Vault(ciphertext) => self.engine.decrypt(ciphertext).map(Value::from),
            Yaml::List(nodes) => Ok(LazyList::value(nodes.clone(), self)),
            Yaml::Map(mapping) => Ok(LazyDict::value(mapping.clone(), self)),
            other => Ok(scalar(other).unwrap_or_default()),
        }
    }

    /// Renders a template of the project's text.
    pub(crate) fn text(self: &Arc<Self>, text: &str) -> Result<Value, Error> {
        let compiled = match text.starts_with(header::MARK) {
            true => {
                let (body, options) =
                    header::split(text, &TemplateOptions::default(), self.compat(), &|sentence| self.warn(sentence))?;
                compile::file(body, &options)?
            }
            false => compile::text(text)?,
        };
        let value = self.render(&compiled, None)?;
        Ok(crate::file::restore_newlines(value, text, "\n"))
    }

    /// Renders a compiled text.
    pub(crate) fn render(
        self: &Arc<Self>,
        compiled: &Compiled,
        files: Option<&Arc<TemplateOptions>>,
    ) -> Result<Value, Error> {
        let value = match compiled {
            Compiled::Text(value) => return Ok(value.clone()),
            Compiled::Single(expression) => {
                let value = self.expression(expression, files)?;
                return match self.compat().renders_to_text() {
                    false => Ok(value),
                    true if classic::keeps_text(&expression.written) => Ok(classic::kept(value)),
                    true if self.is_native() => classic::native(&value),
                    true => classic::single(&value, self.is_plain_variable(expression)),
                };
            }
            Compiled::Parts(parts) => {
                let value = self.concatenate(parts, files)?;
                if let Some(CompiledPart::Expression(last)) = parts.last()
                    && self.compat().renders_to_text()
                    && classic::keeps_text(&last.written)
                {
                    return Ok(classic::kept(value));
                }
                value
            }
            Compiled::Template(template) => template.render(Root::value(self, template.mutates, files))?,
        };
        self.printed(value)
    }

    /// Converts the output of a template or macro to the types of the followed ansible-core version.
    pub(crate) fn printed(&self, value: Value) -> Result<Value, Error> {
        match self.compat().renders_to_text() {
            false => Ok(value),
            true if self.is_native() => classic::native(&value),
            true => classic::single(&value, false),
        }
    }

    /// Whether templates yield values rather than text even with ansible-core 2.18.
    fn is_native(&self) -> bool {
        self.engine.options().jinja2_native
    }

    /// Whether an expression is a lone variable that is not a template.
    fn is_plain_variable(&self, expression: &Expression) -> bool {
        match expression.name.as_ref().and_then(|name| self.raw(name)) {
            Some(Variable::Data(_)) => true,
            Some(Variable::Text(node)) => !matches!(&node.value, Yaml::String(text) if is_template(text)),
            None => false,
        }
    }

    fn concatenate(
        self: &Arc<Self>,
        parts: &[CompiledPart],
        files: Option<&Arc<TemplateOptions>>,
    ) -> Result<Value, Error> {
        let mut values: Vec<Value> = Vec::with_capacity(parts.len());
        for part in parts {
            let value = match part {
                CompiledPart::Text(text) => Value::from(text.as_str()),
                CompiledPart::Expression(expression) => {
                    let value = self.expression(expression, files)?;
                    if !matches!(mark::mark(&value), Some(mark::Mark::Nothing)) {
                        mark::check(&value).map_err(|error| expression.locate(error))?;
                    }
                    value
                }
            };
            if !value.is_none() && !is_omit(&value) {
                values.push(value);
            }
        }
        if let [single] = values.as_slice() {
            return Ok(single.clone());
        }
        if values.is_empty() {
            return Ok(Value::from(()));
        }
        let mut text = String::new();
        for value in &values {
            text.push_str(&shown_as(value, self.compat().prints_tuples())?);
            limits::text(text.len())?;
        }
        Ok(Value::from(text))
    }

    /// Evaluates a compiled expression.
    pub(crate) fn expression(
        self: &Arc<Self>,
        expression: &Expression,
        files: Option<&Arc<TemplateOptions>>,
    ) -> Result<Value, Error> {
        if let Some(name) = &expression.name
            && let Some(value) = self.value(name)
        {
            return Ok(value);
        }
        expression.evaluate(Root::value(self, expression.mutates, files))
    }

    /// Renders a template file, whose output is text with every ansible-core version.
    pub(crate) fn render_file(
        self: &Arc<Self>,
        compiled: &Compiled,
        options: &Arc<TemplateOptions>,
    ) -> Result<Value, Error> {
        match compiled {
            Compiled::Text(value) => Ok(value.clone()),
            Compiled::Single(expression) => self.expression(expression, Some(options)),
            Compiled::Parts(parts) => self.concatenate(parts, Some(options)),
            Compiled::Template(template) => Ok(template.render(Root::value(self, template.mutates, Some(options)))?),
        }
    }

    /// Words an error like the followed ansible-core version, and suggests the nearest name for an undefined variable.
    pub(crate) fn suggest(&self, error: Error) -> Error {
        let error = if self.compat().words_template_errors() { error.in_classic_words() } else { error };
        let ErrorKind::Undefined { name } = error.kind() else { return error };
        if name.is_empty() || name.contains(['.', '[']) || error.hint().is_some() || self.raw(name).is_some() {
            return error;
        }
        let names = self.names();
        let hint = closest(name, names.iter().map(AsRef::as_ref));
        error.with_hint(hint)
    }
}

/// Value of a number, a boolean, or a short text that is not a template. Creating it is as fast as finding it among the
/// rendered values, and every task reads some twenty of them for its connection.
fn constant(node: &Node) -> Option<Value> {
    match &node.value {
        Yaml::String(text) if text.len() > 256 || is_template(text) => None,
        Yaml::Timestamp(_) | Yaml::Binary(_) => None,
        other => scalar(other),
    }
}

impl Context {
    pub(crate) fn new(engine: Engine, variables: Arc<dyn Scope>) -> Context {
        Context(Arc::new(Inner { engine, variables, layer: None, rendered: Mutex::default() }))
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// The context of a running filter, test or function.
    pub fn from_state(state: &State<'_, '_>) -> Option<Context> {
        Root::of(state).map(|root| Context(root.context.clone()))
    }

    /// Identifies the context as long as it lives.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The engine of this run.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Names of all variables.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.0.names()
    }

    /// A variable as defined, not yet rendered.
    pub fn definition(&self, name: &str) -> Option<Variable> {
        self.0.raw(name)
    }

    /// Directories in which lookups search; see [`Scope::search_paths`].
    pub fn search_paths(&self) -> Vec<PathBuf> {
        self.0.variables.search_paths()
    }

    /// Creates a context with additional variables. Rendered values are reused unless they depend on these.
    pub fn with(&self, extra: Variables) -> Context {
        self.layered(Own::Extra(extra))
    }

    /// Adds variables that apply only if nothing else sets them. Each is computed on first use.
    pub fn with_defaults(&self, defaults: Arc<dyn Defaults>) -> Context {
        self.layered(Own::Defaults(defaults))
    }

    fn layered(&self, own: Own) -> Context {
        Context(Arc::new(Inner {
            engine: self.0.engine.clone(),
            variables: self.0.variables.clone(),
            layer: Some(Layer { own, below: self.0.clone() }),
            rendered: Mutex::default(),
        }))
    }

    /// Finishes an evaluation: returns plain data, or an error with all known details.
    fn complete(&self, result: Result<Value, Error>, text: Option<&str>, span: &Span) -> Result<Value, Error> {
        result.and_then(|value| finish(&value)).map_err(|error| {
            let error = match text {
                Some(text) if self.0.compat().words_template_errors() => {
                    classic::of_template(error, text).with_expression(text)
                }
                Some(text) => error.with_expression(text),
                None => error,
            };
            self.0.suggest(error.with_span(span))
        })
    }

    /// Renders a node with all its content: lists, mappings including their keys, and templates with their resulting
    /// types. Omitted parts are dropped; if the whole value is omitted, the error is [`ErrorKind::Omitted`].
    pub fn render(&self, node: &Node) -> Result<Value, Error> {
        match &node.value {
            Yaml::List(nodes) => {
                let mut items = Vec::with_capacity(nodes.len());
                for node in nodes.iter() {
                    match self.render(node) {
                        Ok(value) => items.push(value),
                        Err(error) if *error.kind() == ErrorKind::Omitted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(Value::from(items))
            }
            Yaml::Map(mapping) => {
                let mut entries: IndexMap<Value, Value> = IndexMap::with_capacity(mapping.len());
                for (key, node) in mapping.iter() {
                    // Keys are never templates.
                    match self.render(node) {
                        Ok(value) => {
                            entries.insert(crate::lazy::key_value(key), value);
                        }
                        Err(error) if *error.kind() == ErrorKind::Omitted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(Value::from_object(entries))
            }
            Yaml::String(text) if is_template(text) => self.complete(self.0.text(text), Some(text), &node.span),
            _ => self.complete(self.0.lazy(node), None, &node.span),
        }
    }

    /// Renders a node and drops undefined values at any depth.
    pub fn render_defined(&self, node: &Node) -> Result<Value, Error> {
        match self.0.lazy(node) {
            Ok(value) => finish(&crate::plain::defined(&settled(&value))),
            Err(error) if error.is_undefined() => Ok(Value::from(Vec::<Value>::new())),
            Err(error) => Err(error.with_span(&node.span)),
        }
    }

    /// Renders a node to text, for names and paths.
    pub fn render_to_string(&self, node: &Node) -> Result<String, Error> {
        let value = self.render(node)?;
        Ok(if value.is_none() && node.as_str().is_some() { String::new() } else { crate::text(&value) })
    }

    /// Renders a node to text for the name of a task; expressions that fail stay as written.
    pub fn render_tolerant(&self, node: &Node) -> String {
        let Some(text) = node.as_str() else {
            return self.render_to_string(node).unwrap_or_else(|_| node.scalar_text().unwrap_or_default());
        };
        if matches!(node.value, Yaml::Literal(_)) || !is_template(text) {
            return text.to_owned();
        }
        if self.0.compat().keeps_failing_names_whole() {
            return self.render_to_string(node).unwrap_or_else(|_| text.to_owned());
        }
        let shown_or = |value: Result<Value, Error>, written: String| {
            value.and_then(|value| plain(&value)).map_or(written, |value| {
                if value.is_none() || is_omit(&value) { String::new() } else { crate::text(&value) }
            })
        };
        match compile::text(text).as_deref() {
            Ok(Compiled::Parts(parts)) => {
                let mut out = String::new();
                for part in parts {
                    match part {
                        CompiledPart::Text(text) => out.push_str(text),
                        CompiledPart::Expression(expression) => {
                            let written = format!("{{{{ {} }}}}", expression.written);
                            out.push_str(&shown_or(self.0.expression(expression, None), written));
                        }
                    }
                }
                out
            }
            Ok(compiled) => shown_or(self.0.render(compiled, None), text.to_owned()),
            Err(_) => text.to_owned(),
        }
    }

    /// Evaluates an expression of the project, as if written between `{{` and `}}`. If it is a template of one variable
    /// with the project's text, that text is the expression. A template's result is data and is refused as an
    /// expression, unless [`Compat::evaluates_templates_as_expressions`].
    pub fn evaluate(&self, expression: &Node) -> Result<Value, Error> {
        let written = expression.scalar_text().unwrap_or_default();
        self.complete(self.0.evaluate(expression), Some(&written), &expression.span)
    }

    /// The value of a variable as another host sees it with [`Compat::keeps_undefined_in_hostvars`]: a text that needs
    /// something undefined stays as written.
    pub fn variable_as_far_as_defined(&self, name: &str) -> Result<Option<Value>, Error> {
        let value = self.variable(name);
        let is_defined = match &value {
            Ok(Some(value)) => plain(value).is_ok(),
            Ok(None) => true,
            Err(error) => !error.is_undefined(),
        };
        match self.0.raw(name) {
            Some(Variable::Text(node)) if !is_defined => self.as_far_as_defined(&node).map(Some),
            _ => value,
        }
    }

    fn as_far_as_defined(&self, node: &Node) -> Result<Value, Error> {
        match &node.value {
            Yaml::List(nodes) => nodes.iter().map(|node| self.as_far_as_defined(node)).collect(),
            Yaml::Map(mapping) => {
                let entry = |(key, node): (&windlass_yaml::Key, &Node)| {
                    Ok((scalar(&key.value).unwrap_or_default(), self.as_far_as_defined(node)?))
                };
                let entries = mapping.iter().map(entry).collect::<Result<Vec<_>, Error>>()?;
                Ok(Value::from_pairs(entries))
            }
            Yaml::String(text) => match self.render(node) {
                Err(error) if error.is_undefined() => Ok(Value::from(&**text)),
                rendered => rendered,
            },
            _ => self.render(node),
        }
    }

    /// The rendered value of a variable that the project has set, which excludes facts.
    pub fn own_variable(&self, name: &str) -> Result<Option<Value>, Error> {
        match self.0.raw_of(name, |scope| scope.get_own(name)) {
            Some(Variable::Text(node)) => self.render(&node).map(Some),
            Some(Variable::Data(value)) => Ok(Some(value)),
            None => Ok(None),
        }
    }

    /// The rendered value of a variable, if it exists.
    pub fn variable(&self, name: &str) -> Result<Option<Value>, Error> {
        match self.0.value(name) {
            Some(value) if value.as_object().is_none() => self.complete(Ok(value), None, &Span::none()).map(Some),
            Some(value) => {
                crate::plain::variable(self, name, || self.complete(Ok(value), None, &Span::none())).map(Some)
            }
            None => Ok(None),
        }
    }
}
