//! Declaration of filters, tests and lookups, the library that an engine gets of them, and calls by name.

use std::collections::HashMap;
use std::sync::OnceLock;

use indexmap::IndexMap;
use minijinja::value::Kwargs;
use minijinja::{State, Value};

use crate::classic;
use crate::compat::Compat;
use crate::context::Context;
use crate::error::{Error, ErrorKind};
use crate::lazy::is_lazy;
use crate::limits;
use crate::mark::{self, mark};
use crate::plain::{settled, settled_subject, undefined_within};
use crate::plugins::{self, PluginKind};
use crate::python::percent;
use crate::suggest::closest;

/// A filter or test in a registry.
///
/// It is implemented as a typed minijinja function (`Value::from_function`). Before the call, its arguments are checked
/// and made plain: an undefined or unknown argument is returned as the result, and lazy containers are rendered.
#[derive(Clone, Copy)]
pub struct Function {
    /// Names: plain for Ansible and Jinja, dotted for collections (`ansible.utils.ipaddr`).
    pub names: &'static [&'static str],
    /// Creates the callable, `|| Value::from_function(f)`.
    pub make: fn() -> Value,
    /// Whether the function handles undefined arguments itself (`default`, `defined`).
    pub takes_undefined: bool,
}

impl Function {
    /// Declares a function that is never called with an undefined argument.
    pub const fn new(names: &'static [&'static str], make: fn() -> Value) -> Function {
        Function { names, make, takes_undefined: false }
    }

    /// Declares a function that handles undefined arguments; see [`is_undefined`](crate::is_undefined).
    pub const fn with_undefined(names: &'static [&'static str], make: fn() -> Value) -> Function {
        Function { names, make, takes_undefined: true }
    }
}

/// Keyword arguments of a lookup, without `wantlist` and `errors`, which the caller handles.
pub type LookupOptions = IndexMap<String, Value>;

/// A lookup plugin, which reads data on the control machine.
pub trait Lookup: Sync {
    /// Names: plain for Ansible, dotted for collections.
    fn names(&self) -> &'static [&'static str];

    /// Runs the lookup for the terms and returns a list, as for `query()`. The results are data and never templated.
    fn run(&self, context: &Context, terms: &[Value], options: &LookupOptions) -> Result<Vec<Value>, Error>;
}

/// Filters, tests and lookups that the templates of an engine may use.
pub struct Library {
    filters: &'static [Function],
    tests: &'static [Function],
    lookups: Lookups,
    filters_by_name: OnceLock<Table>,
    tests_by_name: OnceLock<Table>,
}

/// Lookups of a library, with the properties that an engine checks before it runs one.
pub struct Lookups {
    /// All lookups.
    pub all: &'static [&'static dyn Lookup],
    /// Whether a lookup, by its full or plain name, reads anything but variables.
    pub reads_outside: fn(&str) -> bool,
    /// Whether a lookup, by its full or plain name, does more than read.
    pub is_active: fn(&str) -> bool,
}

impl Library {
    /// Creates a library. Its filters and tests are indexed on first use.
    pub const fn new(filters: &'static [Function], tests: &'static [Function], lookups: Lookups) -> Library {
        Library { filters, tests, lookups, filters_by_name: OnceLock::new(), tests_by_name: OnceLock::new() }
    }

    /// Whether a filter, test or lookup has this name.
    pub fn has(&self, kind: PluginKind, name: &str) -> bool {
        match kind {
            PluginKind::Filter => self.filters().contains_key(name),
            PluginKind::Test => self.tests().contains_key(name),
            PluginKind::Lookup => self.lookup(name).is_ok(),
        }
    }

    /// Short names of all filters or tests; none for lookups, which are found one by one.
    pub fn names(&self, kind: PluginKind) -> Vec<&str> {
        let table = match kind {
            PluginKind::Filter => self.filters(),
            PluginKind::Test => self.tests(),
            PluginKind::Lookup => return Vec::new(),
        };
        table.keys().map(String::as_str).filter(|name| !name.contains('.')).collect()
    }

    fn filters(&self) -> &Table {
        self.filters_by_name.get_or_init(|| table(self.filters))
    }

    fn tests(&self) -> &Table {
        self.tests_by_name.get_or_init(|| table(self.tests))
    }

    /// Finds a lookup by name.
    pub(crate) fn lookup(&self, name: &str) -> Result<&'static dyn Lookup, Error> {
        let plain =
            name.strip_prefix("ansible.builtin.").or_else(|| name.strip_prefix("ansible.legacy.")).unwrap_or(name);
        let all = self.lookups.all;
        all.iter().copied().find(|lookup| lookup.names().contains(&plain)).ok_or_else(|| {
            let known = all.iter().flat_map(|lookup| lookup.names()).copied();
            Error::lookup(format!("There is no lookup '{name}'.")).with_hint(closest(plain, known))
        })
    }

    /// The lookups.
    pub(crate) fn lookups(&self) -> &Lookups {
        &self.lookups
    }
}

/// Calls a filter by name, as `map('name')` does.
pub fn call_filter(state: &mut State<'_, '_>, name: &str, arguments: &[Value]) -> Result<Value, minijinja::Error> {
    let value = apply_filter(state, name, arguments).map_err(classic::while_running)?;
    match mark(&value) {
        Some(failed) if !mark::is_undefined(&value) => Err(failed.error().into()),
        _ => Ok(value),
    }
}

/// Applies a filter in an expression. A failure is returned as a value that fails on use.
pub(crate) fn apply_filter(
    state: &mut State<'_, '_>,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    if name == "format"
        && let Some((template, values)) = arguments.split_first()
        && let Some(text) = template.as_str()
        && compat(state).formats_undefined()
    {
        let mut arguments = percent::with_representations(text, values);
        arguments.insert(0, template.clone());
        return call(state, PluginKind::Filter, name, &arguments);
    }
    let answer = call(state, PluginKind::Filter, name, arguments)?;
    Ok(if classic::gives_text(name) && compat(state).renders_to_text() { classic::kept(answer) } else { answer })
}

/// Calls a test by name, as `select('name')` does.
pub fn call_test(state: &mut State<'_, '_>, name: &str, arguments: &[Value]) -> Result<bool, minijinja::Error> {
    let verdict = apply_test(state, name, arguments).map_err(classic::while_running)?;
    mark::check(&verdict)?;
    Ok(verdict.is_true())
}

/// Applies a test in an expression. An undefined value is returned as the result.
pub(crate) fn apply_test(
    state: &mut State<'_, '_>,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    if let Some(first) = arguments.first()
        && mark::is_undefined(first)
        && matches!(
            name,
            "mapping" | "string" | "number" | "integer" | "float" | "boolean" | "none" | "true" | "false" | "sequence"
        )
        && compat(state).tests_types_of_undefined()
    {
        return Ok(Value::from(false));
    }
    call(state, PluginKind::Test, name, arguments)
}

/// Whether templates have a built-in filter, test or lookup of this name.
pub(crate) fn is_built_in(state: &State<'_, '_>, kind: PluginKind, name: &str) -> bool {
    Context::from_state(state).is_some_and(|context| context.engine().library().has(kind, name))
}

/// Version of ansible-core that the evaluation follows.
pub(crate) fn compat(state: &State<'_, '_>) -> Compat {
    Context::from_state(state).map(|context| context.inner().compat()).unwrap_or_default()
}

type Table = HashMap<String, Callable>;

fn call(
    state: &mut State<'_, '_>,
    kind: PluginKind,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    limits::work(arguments)?;
    let Some(context) = Context::from_state(state) else {
        return Err(Error::new(ErrorKind::Syntax, "A template without an engine has no filters and tests.").into());
    };
    let library = context.engine().library();
    let table = if kind == PluginKind::Test { library.tests() } else { library.filters() };
    let native = table.get(name);
    if let Some(plugins) = &context.engine().options().plugins
        && plugins.provides(kind, name, native.is_some())?
    {
        let function = plugins::function(plugins, kind, name);
        return Callable { function, takes_undefined: false }.call(state, name, arguments);
    }
    match native {
        Some(callable) => callable.call(state, name, arguments),
        None => {
            if compat(state).words_template_errors() {
                return Err(Error::syntax(classic::not_loaded(name)).into());
            }
            let hint = closest(name, table.keys().map(String::as_str));
            let message = format!("No {} named '{name}'.", kind.word());
            Err(Error::new(ErrorKind::Syntax, message).with_hint(hint).into())
        }
    }
}

/// A registered function, ready to be called.
pub(crate) struct Callable {
    function: Value,
    takes_undefined: bool,
}

impl Callable {
    fn call(&self, state: &mut State<'_, '_>, name: &str, arguments: &[Value]) -> Result<Value, minijinja::Error> {
        if self.takes_undefined {
            // A value that failed or is unknown is not undefined, so no default may replace it.
            if let Some(value) = arguments.first()
                && mark(value).is_some()
                && !mark::is_undefined(value)
            {
                return Ok(value.clone());
            }
            if let Some((first, rest)) = arguments.split_first()
                && is_lazy(first)
                && compat(state).is_undefined_with_any_part()
                && let Some(undefined) = undefined_within(&settled(first))
            {
                let arguments: Vec<Value> = std::iter::once(undefined).chain(rest.iter().cloned()).collect();
                return Ok(answer(self.function.call(state, &arguments)));
            }
            return Ok(answer(self.function.call(state, arguments)));
        }
        let mut settled_arguments = Vec::with_capacity(arguments.len());
        for (index, argument) in arguments.iter().enumerate() {
            if mark::is_nothing(argument) {
                settled_arguments.push(Value::from(""));
                continue;
            }
            if let Some(mark) = mark(argument) {
                match mark.error().ciphertext().filter(|_| index == 0 && name.ends_with("unvault")) {
                    // The filter has its own password.
                    Some(text) => settled_arguments.push(Value::from(text)),
                    None => return Ok(argument.clone()),
                }
                continue;
            }
            if argument.is_undefined() {
                mark::check(argument)?;
            }
            let argument = if argument.is_kwargs() {
                match keyword_arguments(argument)? {
                    Ok(kwargs) => kwargs,
                    Err(undefined) => return Ok(undefined),
                }
            } else if LOOKS_AT_NO_ITEM.contains(&name) {
                argument.clone()
            } else {
                let argument = if index == 0 { settled_subject(argument) } else { settled(argument) };
                if let Some(undefined) = undefined_within(&argument) {
                    return Ok(undefined);
                }
                argument
            };
            settled_arguments.push(argument);
        }
        Ok(answer(self.function.call(state, &settled_arguments)))
    }
}

/// Filters and tests that do not need every item of their subject. Lazy containers stay lazy, and undefined items in
/// them do not matter.
const LOOKS_AT_NO_ITEM: &[&str] = &[
    "length",
    "count",
    "first",
    "last",
    "list",
    "map",
    "select",
    "reject",
    "selectattr",
    "rejectattr",
    "reverse",
    "ternary",
    "type_debug",
    "mapping",
    "sequence",
    "iterable",
    "string",
    "number",
    "batch",
    // Tests of results look at one field.
    "changed",
    "change",
    "failed",
    "failure",
    "finished",
    "reachable",
    "skipped",
    "skip",
    "started",
    "succeeded",
    "success",
    "successful",
    "timedout",
    "unreachable",
];

/// Makes keyword arguments plain; the inner error is the first undefined one.
fn keyword_arguments(argument: &Value) -> Result<Result<Value, Value>, minijinja::Error> {
    let kwargs = Kwargs::try_from(argument.clone())?;
    let mut plain = Vec::new();
    for name in kwargs.args() {
        let value: Value = kwargs.peek(name)?;
        if mark(&value).is_some() {
            return Ok(Err(value));
        }
        plain.push((name.to_owned(), settled(&value)));
    }
    Ok(Ok(plain.into_iter().collect::<Kwargs>().into()))
}

/// Turns an error into a value that fails on use. `default` can then replace it if something was undefined, and an
/// unused result causes no error.
fn answer(outcome: Result<Value, minijinja::Error>) -> Value {
    let bounded = outcome.map_err(Error::from).and_then(limits::value);
    bounded.unwrap_or_else(mark::failed)
}

fn callable(function: &Function) -> Callable {
    Callable { function: (function.make)(), takes_undefined: function.takes_undefined }
}

fn table(functions: &[Function]) -> Table {
    let mut table = HashMap::new();
    for function in functions {
        for name in function.names {
            if !name.contains('.') {
                table.insert(format!("ansible.builtin.{name}"), callable(function));
                table.insert(format!("ansible.legacy.{name}"), callable(function));
            }
            table.insert((*name).to_owned(), callable(function));
        }
    }
    // Filters that moved to a collection keep their short names.
    for function in functions {
        for name in function.names {
            if let Some((_, short)) = name.rsplit_once('.') {
                table.entry(short.to_owned()).or_insert_with(|| callable(function));
            }
        }
    }
    table
}
