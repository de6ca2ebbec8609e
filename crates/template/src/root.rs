//! Variables as an evaluation sees them, and access from template functions to their context.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Enumerator, Object};
use minijinja::{State, Value};

use crate::classic;
use crate::compile;
use crate::context::{Context, Inner};
use crate::engine::TemplateOptions;
use crate::error::{Error, ErrorKind};
use crate::globals;
use crate::mark;
use crate::operators;
use crate::plain;
use crate::reads::Read;

/// Name under which the root finds itself; templates cannot spell it.
const SELF: &str = "\u{1}root";

/// Variables of one evaluation.
pub(crate) struct Root {
    pub(crate) context: Arc<Inner>,
    /// Copies of lists and dicts that this evaluation may change, if it changes any.
    owned: Option<Mutex<HashMap<String, Value>>>,
    /// Options and search paths of included templates.
    pub(crate) files: Option<Arc<TemplateOptions>>,
    /// Number of surrounding templates that do not see the variables.
    apart: AtomicUsize,
}

impl Root {
    /// Creates the root of an evaluation.
    pub(crate) fn value(context: &Arc<Inner>, mutates: bool, files: Option<&Arc<TemplateOptions>>) -> Value {
        Value::from_object(Root {
            context: context.clone(),
            owned: mutates.then(Mutex::default),
            files: files.cloned(),
            apart: AtomicUsize::new(0),
        })
    }

    /// The root of the evaluation that calls a function.
    pub(crate) fn of(state: &State<'_, '_>) -> Option<Arc<Root>> {
        state.lookup(SELF)?.downcast_object()
    }

    fn variable(&self, name: &str) -> Option<Value> {
        self.context.value(name)
    }

    fn owned(&self, name: &str) -> Option<Value> {
        let Some(owned) = &self.owned else { return self.variable(name) };
        if let Some(value) = owned.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Some(value.clone());
        }
        let value = plain::mutable(&self.variable(name)?);
        owned.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value.clone());
        Some(value)
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the variables of the host")
    }
}

impl Object for Root {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if key == SELF {
            return Some(Value::from_dyn_object(self.clone()));
        }
        let variable = if self.apart.load(Ordering::Relaxed) == 0 { self.owned(key) } else { None };
        Some(variable.or_else(|| globals::get(key, &self.context)).unwrap_or_else(|| mark::undefined(key)))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }
}

/// Renders a string literal that is itself a template.
pub(crate) fn nested_template(state: &mut State<'_, '_>, text: &Value) -> Result<Value, minijinja::Error> {
    let context = operators::context(state)?;
    Ok(context.inner().text(text.as_str().unwrap_or_default())?)
}

/// Reads the result of a template in a condition: text becomes the value it spells, or the variable it names. It is
/// never parsed as an expression, because data is not code.
pub(crate) fn reread(state: &mut State<'_, '_>, value: &Value) -> Result<Value, minijinja::Error> {
    let Some(text) = value.as_str() else { return Ok(value.clone()) };
    let text = text.trim();
    if let Some(value) = classic::spelled(text) {
        return Ok(value);
    }
    let mut path = text.split('.');
    let is_name = |part: &str| {
        !part.is_empty()
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    if !text.split('.').all(is_name) {
        return Ok(value.clone());
    }
    let context = operators::context(state)?;
    let first = path.next().unwrap_or_default();
    let mut found = context.inner().value(first).unwrap_or_else(|| mark::undefined(first));
    for name in path {
        found = operators::attribute(&found, name);
    }
    Ok(found)
}

/// Begins or ends a template that does not see the variables.
pub(crate) fn apart(state: &mut State<'_, '_>, begins: bool) -> Result<bool, minijinja::Error> {
    if let Some(root) = Root::of(state) {
        match begins {
            true => root.apart.fetch_add(1, Ordering::Relaxed),
            false => root.apart.fetch_sub(1, Ordering::Relaxed),
        };
    }
    Ok(begins)
}

/// Finds a template to include and returns the name that minijinja loads it by.
pub(crate) fn include(
    state: &mut State<'_, '_>,
    name: &Value,
    ignore_missing: bool,
) -> Result<Value, minijinja::Error> {
    mark::check(name)?;
    let Some(root) = Root::of(state) else { return Err(Error::filter("There is nowhere to include from.").into()) };
    let names: Vec<Value> = match name.as_str() {
        Some(_) => vec![name.clone()],
        None => name.try_iter()?.collect(),
    };
    let options = root.files.clone().unwrap_or_default();
    let mut directories = options.search_paths.clone();
    let context = Context::from(root.context.clone());
    for directory in context.search_paths() {
        directories.push(directory.join("templates"));
        directories.push(directory);
    }
    for name in &names {
        let relative = name.as_str().ok_or_else(|| Error::filter("The name of a template to include is a string."))?;
        if let Some(path) = find(relative, &directories) {
            context.engine().options().reads.note(Read::File(path.clone()));
            let text = windlass_bounds::read_text(&path).map_err(|error| {
                Error::new(ErrorKind::Lookup, format!("The template {} cannot be read: {error}.", path.display()))
            })?;
            return Ok(compile::included(&text, &options).map_err(|error| error.with_expression(relative))?);
        }
    }
    if ignore_missing {
        return Ok(Value::from("missing"));
    }
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let searched: Vec<String> = directories.iter().map(|directory| directory.display().to_string()).collect();
    Err(Error::new(
        ErrorKind::Lookup,
        format!("The template '{}' was not found in {}.", names.join("' or '"), searched.join(", ")),
    )
    .into())
}

fn find(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.is_absolute() {
        return path.is_file().then(|| path.to_owned());
    }
    directories.iter().map(|directory| directory.join(path)).find(|path| path.is_file())
}
