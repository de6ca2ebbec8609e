//! Functions and values available to every template.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use indexmap::IndexMap;
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, ValueKind, ValueOrKwargs};
use minijinja::{State, Value};

use crate::context::{Context, Inner};
use crate::error::{Error, ErrorKind};
use crate::mark::{self, mark};
use crate::operators;
use crate::plain::{plain, settled};
use crate::plugins::PluginKind;
use crate::python::time::{self, Clock};
use crate::scope::Variable;
use crate::syntax::is_template;
use crate::{registry, tracker};

type Outcome = Result<Value, minijinja::Error>;

static FUNCTIONS: LazyLock<HashMap<&'static str, Value>> = LazyLock::new(|| {
    HashMap::from([
        ("omit", mark::omit()),
        ("undef", Value::from_function(undef)),
        ("lookup", Value::from_function(lookup)),
        ("query", Value::from_function(query)),
        ("q", Value::from_function(query)),
        ("now", Value::from_function(now)),
        ("range", Value::from_function(range)),
        ("dict", Value::from_function(dict)),
        ("namespace", Value::from_function(minijinja::functions::namespace)),
        ("cycler", Value::from_function(cycler)),
        ("joiner", Value::from_function(joiner)),
    ])
});

/// Looks up a global.
pub(crate) fn get(name: &str, context: &Arc<Inner>) -> Option<Value> {
    if name == "vars" {
        return Some(Value::from_object(Variables(Arc::downgrade(context))));
    }
    FUNCTIONS.get(name).cloned()
}

/// Whether a global has this name.
pub(crate) fn is_global(name: &str) -> bool {
    name == "vars" || FUNCTIONS.contains_key(name)
}

/// `vars`: every variable by name.
#[derive(Debug)]
struct Variables(Weak<Inner>);

impl Object for Variables {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let (context, name) = (self.0.upgrade()?, key.as_str()?);
        if context.compat().keeps_templates_in_vars()
            && let Some(Variable::Text(node)) = context.raw(name)
            && let Some(text) = node.as_str().filter(|text| is_template(text))
        {
            tracker::touch(name);
            return Some(Value::from(text));
        }
        context.value(name)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = self.0.upgrade().map(|context| context.names()).unwrap_or_default();
        Enumerator::Values(names.into_iter().map(Value::from).collect())
    }
}

/// Whether the value is `vars`, which is tied to one context.
pub(crate) fn is_variables(value: &Value) -> bool {
    value.downcast_object_ref::<Variables>().is_some()
}

fn undef(hint: Option<&Value>, options: Kwargs) -> Outcome {
    let named: Option<Value> = options.get("hint")?;
    Ok(match hint.or(named.as_ref()).filter(|hint| !hint.is_none()) {
        Some(hint) => mark::missing("", operators::shown(hint)?, None),
        None => mark::missing("", "Mandatory variable has not been overridden.".to_owned(), None),
    })
}

fn query(state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>) -> Outcome {
    run_lookup(state, arguments.into_values(), Answer::List)
}

fn lookup(state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>) -> Outcome {
    run_lookup(state, arguments.into_values(), Answer::Joined)
}

/// Form of a lookup's answer, unless `wantlist` asks for a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    List,
    Joined,
}

fn run_lookup(state: &mut State<'_, '_>, arguments: Vec<Value>, answer: Answer) -> Outcome {
    let context = operators::context(state)?;
    let mut terms = Vec::new();
    let mut options = IndexMap::new();
    for argument in arguments {
        if mark(&argument).is_some() {
            return Ok(argument);
        }
        if argument.is_kwargs() {
            let kwargs = Kwargs::try_from(argument)?;
            for name in kwargs.args() {
                let value: Value = kwargs.peek(name)?;
                if mark(&value).is_some() {
                    return Ok(value);
                }
                options.insert(name.to_owned(), settled(&value));
            }
        } else {
            terms.push(plain(&argument)?);
        }
    }
    if terms.is_empty() {
        return Err(Error::lookup("A lookup needs the name of the lookup.").into());
    }
    let name = operators::shown(&terms.remove(0))?;
    let want_list = options.shift_remove("wantlist").is_some_and(|value| value.is_true()) || answer == Answer::List;
    let errors = options.shift_remove("errors");
    let errors = errors.as_ref().and_then(Value::as_str).unwrap_or("strict");
    options.shift_remove("allow_unsafe");
    match context.lookup(&name, &terms, &options) {
        Ok(found) if want_list => Ok(Value::from(found)),
        Ok(found) => Ok(join(found)),
        Err(_) if matches!(errors, "warn" | "ignore") => {
            Ok(if want_list { Value::from(Vec::<Value>::new()) } else { Value::from(()) })
        }
        Err(error) if error.is_undefined() => Ok(mark::failed(error)),
        Err(error) => Err(error.into()),
    }
}

/// Result of `lookup()` for a list: its only item, its texts joined by commas, or the list itself.
fn join(found: Vec<Value>) -> Value {
    if let [single] = found.as_slice() {
        return single.clone();
    }
    let texts: Option<Vec<&str>> = found.iter().map(Value::as_str).collect();
    match texts {
        Some(texts) if !texts.is_empty() => Value::from(texts.join(",")),
        _ => Value::from(found),
    }
}

fn now(utc: Option<&Value>, format: Option<&Value>, kwargs: Kwargs) -> Outcome {
    let utc = match utc {
        Some(utc) => utc.is_true(),
        None => kwargs.get::<Option<bool>>("utc")?.unwrap_or(false),
    };
    let format = match format {
        Some(format) => Some(format.clone()),
        None => kwargs.get::<Option<Value>>("fmt")?,
    };
    kwargs.assert_all_used()?;
    let now = time::now(Clock::of_flag(utc));
    match format.filter(|format| format.is_true()) {
        Some(format) => {
            let environment = minijinja::Environment::empty();
            now.call_method(&mut environment.empty_state(), "strftime", &[format])
        }
        None => Ok(now),
    }
}

/// `range(...)`: generates its numbers on demand.
#[derive(Debug)]
struct Range {
    start: i64,
    step: i64,
    length: usize,
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let index = key.as_usize().filter(|index| *index < self.length)?;
        Some(Value::from(self.start + i64::try_from(index).ok()? * self.step))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.length)
    }
}

/// Limit of Jinja's sandbox.
const LONGEST_RANGE: usize = 100_000;

fn range(first: i64, second: Option<i64>, step: Option<i64>) -> Outcome {
    let (start, stop) = match second {
        Some(stop) => (first, stop),
        None => (0, first),
    };
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::filter("The step of a range cannot be zero.").into());
    }
    let distance = if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
    let width = i128::from(step).abs();
    let length = if distance <= 0 { 0 } else { (distance + width - 1) / width };
    let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST_RANGE).ok_or_else(|| {
        Error::filter(format!("Range too big: it has {length} numbers, and at most {LONGEST_RANGE} are possible."))
    })?;
    Ok(Value::from_object(Range { start, step, length }))
}

fn dict(entries: Option<ValueOrKwargs>, named: Kwargs) -> Outcome {
    let mut map: IndexMap<Value, Value> = IndexMap::new();
    let mut add = |value: &Value| -> Result<(), minijinja::Error> {
        let keyed = value.kind() == ValueKind::Map;
        for item in value.try_iter()? {
            if keyed {
                let entry = value.get_item(&item)?;
                map.insert(item, entry);
                continue;
            }
            let pair: Vec<Value> = item.try_iter()?.collect();
            let [key, entry] = pair.as_slice() else {
                return Err(Error::filter("`dict` takes a dict or a list of pairs.").into());
            };
            map.insert(key.clone(), entry.clone());
        }
        Ok(())
    };
    if let Some(entries) = entries {
        let entries = entries.into_value();
        if mark(&entries).is_some() {
            return Ok(entries);
        }
        add(&plain(&entries)?)?;
    }
    for name in named.args() {
        map.insert(Value::from(name), named.peek(name)?);
    }
    Ok(Value::from_object(map))
}

/// `cycler(...)`: returns its items in turn, repeatedly.
#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    position: Mutex<usize>,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let position = *self.position.lock().unwrap_or_else(PoisonError::into_inner);
        if key.as_str() == Some("current") { self.items.get(position).cloned() } else { None }
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, _: &[Value]) -> Outcome {
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        match method {
            "next" => {
                let item = self.items.get(*position).cloned();
                *position = (*position + 1) % self.items.len().max(1);
                Ok(item.unwrap_or_default())
            }
            "reset" => {
                *position = 0;
                Ok(Value::from(()))
            }
            _ => Err(minijinja::Error::from(minijinja::ErrorKind::UnknownMethod)),
        }
    }
}

fn cycler(items: Rest<Value>) -> Outcome {
    if items.is_empty() {
        return Err(Error::filter("`cycler` needs at least one item.").into());
    }
    Ok(Value::from_object(Cycler { items: items.to_vec(), position: Mutex::new(0) }))
}

/// `joiner(separator)`: returns an empty text on its first call, then the separator.
#[derive(Debug)]
struct Joiner {
    separator: Value,
    used: Mutex<bool>,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, _: &[Value]) -> Outcome {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let first = !std::mem::replace(&mut *used, true);
        Ok(if first { Value::from("") } else { self.separator.clone() })
    }
}

fn joiner(separator: Option<&Value>) -> Value {
    let separator = separator.cloned().unwrap_or_else(|| Value::from(", "));
    Value::from_object(Joiner { separator, used: Mutex::new(false) })
}

impl Context {
    /// Runs a lookup as `query()` does, for `with_NAME` loops. The result is always a list.
    pub fn lookup(&self, name: &str, terms: &[Value], options: &registry::LookupOptions) -> Result<Vec<Value>, Error> {
        let library = self.engine().library();
        let lookup = library.lookup(name);
        let is_passive = self.engine().options().passive;
        let refused = || {
            let reason = format!("the lookup '{name}', which is not run here");
            crate::mark::check(&crate::unknown(reason)).err().unwrap_or_else(|| Error::lookup(String::new()))
        };
        if let Some(plugins) = &self.engine().options().plugins
            && plugins.provides(PluginKind::Lookup, name, lookup.is_ok())?
        {
            if is_passive {
                return Err(refused());
            }
            tracker::reads_outside();
            return plugins.lookup(self, name, terms, options);
        }
        if is_passive && (library.lookups().is_active)(name) {
            return Err(refused());
        }
        if (library.lookups().reads_outside)(name) {
            tracker::reads_outside();
        }
        let lookup = lookup?;
        lookup.run(self, terms, options).map_err(|error| match error.kind() {
            ErrorKind::Filter | ErrorKind::Division => Error::lookup(format!("The lookup '{name}' failed. {error}")),
            _ => error,
        })
    }
}
