//! Checks arguments of actions against their [`Spec`]. The result is remembered by the shape of the arguments, because
//! every host of a task usually repeats it.

use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::ValueKind;
use serde_json::json;
use windlass_modules::{Args, Host, Kind, Opt, Spec};
use windlass_template::Value;

use super::Failure;
use crate::memory::Memory;

/// Checks the arguments of an action against its spec and returns them under the spec's option names. `written` is the
/// action's name as the task writes it. Arguments of modules are checked on the host.
pub fn checked(
    action: &str,
    written: &str,
    args: IndexMap<Arc<str>, Value>,
) -> Result<IndexMap<Arc<str>, Value>, Failure> {
    let Some(row) = super::action(action) else { return Ok(args) };
    let spec = row.spec;
    let mut unknown = args.keys().filter(|name| spec.option(name).is_none());
    if let (true, Some(first)) = (spec.lists_unknown, unknown.next()) {
        let names = unknown.fold(first.to_string(), |names, name| format!("{names},{name}"));
        return Err(Failure::Failed(format!("Invalid options for {action}: {names}")));
    }
    (row.refuse)(&args)?;
    let shape = shape_of(spec, &args);
    if CHECKED.get(&shape).is_none() {
        check(spec, written, &args)?;
        CHECKED.keep(shape, ());
    }
    let mut named: IndexMap<Arc<str>, Value> = IndexMap::with_capacity(args.len());
    for (name, value) in args {
        let name = spec.option(&name).map_or(name, |option| Arc::from(option.name));
        if !value.is_none() || !named.contains_key(&name) {
            named.insert(name, value);
        }
    }
    Ok(named)
}

/// Shapes of arguments that passed the check, as built by `shape_of`. Shapes that differ with every host are soon
/// evicted.
static CHECKED: Memory<String, ()> = Memory::new();

/// Key of everything the check depends on. It is usually the same for all hosts of a task.
fn shape_of(spec: &Spec, args: &IndexMap<Arc<str>, Value>) -> String {
    let mut shape = spec.name.to_owned();
    for (name, value) in args {
        shape.push('\0');
        shape.push_str(name);
        let is_free = |option: &Opt| {
            value.as_str().is_some()
                && matches!(option.kind, Kind::Str | Kind::Path | Kind::Raw)
                && option.choices.is_empty()
                && !spec.decides(option.name)
        };
        if !spec.option(name).is_some_and(is_free) {
            shape.push('\0');
            shape.push_str(&windlass_template::to_json(value).to_string());
        }
    }
    shape
}

fn check(spec: &'static Spec, written: &str, args: &IndexMap<Arc<str>, Value>) -> Result<(), Failure> {
    // Raw values may be large and need no check; only their presence counts.
    let shown = args.iter().map(|(name, value)| {
        let raw = spec.option(name).is_some_and(|option| option.kind == Kind::Raw);
        let shown = if raw && !value.is_none() { json!(true) } else { windlass_template::to_json(value) };
        (name.to_string(), shown)
    });
    let shown = serde_json::Value::Object(shown.collect());
    let host = Host::alone().with_name(written);
    Args::validate(spec, &shown, &host).map_err(|failure| Failure::Failed(failure.message))?;
    // Modules accept any value as a path by its text, actions do not. The spec of `fetch` checks this itself.
    let is_path = |name: &str| spec.option(name).is_some_and(|option| option.kind == Kind::Path);
    let wrong = args.iter().filter(|(name, _)| is_path(name)).find_map(|(name, value)| match value.kind() {
        ValueKind::Seq => Some((name, "list")),
        ValueKind::Map => Some((name, "dict")),
        _ => None,
    });
    match wrong.filter(|_| spec.name != "fetch") {
        None => Ok(()),
        Some((name, class)) => Err(Failure::Failed(format!(
            "argument '{name}' is of type {class} and we were unable to convert to path: <class '{class}'> cannot be converted to a path"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked_copy(pairs: &[(&str, Value)]) -> Result<IndexMap<Arc<str>, Value>, Failure> {
        checked("copy", "copy", pairs.iter().map(|(name, value)| (Arc::from(*name), value.clone())).collect())
    }

    #[test]
    fn arguments_of_cached_shape_accepted_others_checked() {
        let text = |text: &str| Value::from(text);
        for content in ["one", "another"] {
            let args =
                checked_copy(&[("content", text(content)), ("dest", text("/x")), ("force", text("yes"))]).unwrap();
            assert_eq!(args["content"].as_str(), Some(content));
        }
        // The same names with other values have another shape.
        assert!(checked_copy(&[("content", text("one")), ("dest", text("/x")), ("force", text("perhaps"))]).is_err());
        assert!(
            checked_copy(&[("content", text("one")), ("dest", Value::from(vec![1])), ("force", text("yes"))]).is_err()
        );
        assert!(checked_copy(&[("content", text("one")), ("force", text("yes"))]).is_err());
    }
}
