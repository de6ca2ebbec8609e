use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::json;
use windlass_modules::{Args, Host, Kind};
use windlass_template::Value;

use super::Failure;

/// The arguments of an action, checked against its spec, under the names the spec gives them. Those of modules are checked on the host.
pub fn checked(action: &str, args: IndexMap<Arc<str>, Value>) -> Result<IndexMap<Arc<str>, Value>, Failure> {
    let Some(spec) = super::action(action).map(|action| action.spec) else { return Ok(args) };
    let mut unknown = args.keys().filter(|name| spec.option(name).is_none());
    if let (true, Some(first)) = (spec.lists_unknown, unknown.next()) {
        let names = unknown.fold(first.to_string(), |names, name| format!("{names},{name}"));
        return Err(Failure::Failed(format!("Invalid options for {action}: {names}")));
    }
    // Texts may be large, and what may be anything needs no check: that it is there is enough.
    let shown = args.iter().map(|(name, value)| {
        let raw = spec.option(name).is_some_and(|option| option.kind == Kind::Raw);
        let shown = if raw && !value.is_none() { json!(true) } else { windlass_template::to_json(value) };
        (name.to_string(), shown)
    });
    let shown = serde_json::Value::Object(shown.collect());
    Args::validate(spec, &shown, &Host::alone(false, false)).map_err(|failure| Failure::Failed(failure.message))?;
    let mut named: IndexMap<Arc<str>, Value> = IndexMap::with_capacity(args.len());
    for (name, value) in args {
        let name = spec.option(&name).map_or(name, |option| Arc::from(option.name));
        if !value.is_none() || !named.contains_key(&name) {
            named.insert(name, value);
        }
    }
    Ok(named)
}
