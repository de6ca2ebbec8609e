//! How filters, tests and lookups are declared, and how they are found by name.

use std::collections::HashMap;
use std::sync::OnceLock;

use indexmap::IndexMap;
use minijinja::value::Kwargs;
use minijinja::{State, Value};

use crate::classic;
use crate::context::Context;
use crate::engine::Compat;
use crate::error::{Error, ErrorKind};
use crate::filters::FILTERS;
use crate::lazy::is_lazy;
use crate::limits;
use crate::lookups::LOOKUPS;
use crate::mark::{self, mark};
use crate::plain::{settled, settled_subject, undefined_within};
use crate::plugins::{self, PluginKind};
use crate::python::percent;
use crate::suggest::closest;
use crate::tests::TESTS;

/// One filter or test as the registries list it.
///
/// The function behind it is a typed minijinja function (`Value::from_function`). Before it is called, its arguments
/// are checked and made plain: an undefined or unknown argument is the answer, lazily rendered containers are rendered.
#[derive(Clone, Copy)]
pub struct Function {
    /// Its names: plain ones for what Ansible and Jinja ship, dotted ones (`ansible.utils.ipaddr`) for collections.
    pub names: &'static [&'static str],
    /// Makes the callable, `|| Value::from_function(f)`.
    pub make: fn() -> Value,
    /// The function wants to see undefined arguments itself (`default`, `defined`).
    pub takes_undefined: bool,
}

impl Function {
    /// A function that is never called with an undefined argument.
    pub const fn new(names: &'static [&'static str], make: fn() -> Value) -> Function {
        Function { names, make, takes_undefined: false }
    }

    /// A function that sees undefined arguments; see [`is_undefined`](crate::is_undefined).
    pub const fn with_undefined(names: &'static [&'static str], make: fn() -> Value) -> Function {
        Function { names, make, takes_undefined: true }
    }
}

/// The keyword arguments of a lookup, without `wantlist` and `errors`, which are handled before it is called.
pub type LookupOptions = IndexMap<String, Value>;

/// A lookup plugin: reads something on the control machine.
pub trait Lookup: Sync {
    /// Its names: plain ones for what Ansible ships, dotted ones for collections.
    fn names(&self) -> &'static [&'static str];

    /// Answers for the terms; always a list, as `query()` gives it. The results are data: they are never templated.
    fn run(&self, context: &Context, terms: &[Value], options: &LookupOptions) -> Result<Vec<Value>, Error>;
}

/// Calls a filter by name, as `map('name')` does.
pub fn call_filter(state: &mut State<'_, '_>, name: &str, arguments: &[Value]) -> Result<Value, minijinja::Error> {
    let value = apply_filter(state, name, arguments).map_err(classic::while_running)?;
    match mark(&value) {
        Some(failed) if !mark::is_undefined(&value) => Err(failed.error().into()),
        _ => Ok(value),
    }
}

/// Applies a filter in an expression; what fails is answered with a value that fails where it is used.
pub(crate) fn apply_filter(
    state: &mut State<'_, '_>,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    if name == "format"
        && let Some((template, values)) = arguments.split_first()
        && let Some(text) = template.as_str()
        && is_classic(state)
    {
        let mut arguments = percent::with_representations(text, values);
        arguments.insert(0, template.clone());
        return call(state, filters(), PluginKind::Filter, name, &arguments);
    }
    let answer = call(state, filters(), PluginKind::Filter, name, arguments)?;
    Ok(if classic::gives_text(name) && is_classic(state) { classic::kept(answer) } else { answer })
}

/// Calls a test by name, as `select('name')` does.
pub fn call_test(state: &mut State<'_, '_>, name: &str, arguments: &[Value]) -> Result<bool, minijinja::Error> {
    let verdict = apply_test(state, name, arguments).map_err(classic::while_running)?;
    mark::check(&verdict)?;
    Ok(verdict.is_true())
}

/// Applies a test in an expression; an undefined value is answered with itself.
pub(crate) fn apply_test(
    state: &mut State<'_, '_>,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    // Up to 2.18, an undefined value is merely none of these.
    if let Some(first) = arguments.first()
        && mark::is_undefined(first)
        && matches!(
            name,
            "mapping" | "string" | "number" | "integer" | "float" | "boolean" | "none" | "true" | "false" | "sequence"
        )
        && is_classic(state)
    {
        return Ok(Value::from(false));
    }
    call(state, tests(), PluginKind::Test, name, arguments)
}

/// Whether the evaluation follows ansible-core 2.18.
pub(crate) fn is_classic(state: &State<'_, '_>) -> bool {
    Context::from_state(state).is_some_and(|context| context.engine().options().compat == Compat::V2_18)
}

pub(crate) type Table = HashMap<String, Callable>;

fn call(
    state: &mut State<'_, '_>,
    table: &Table,
    kind: PluginKind,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    let native = table.get(name);
    if let Some(context) = Context::from_state(state)
        && let Some(plugins) = &context.engine().options().plugins
        && plugins.provides(kind, name, native.is_some())?
    {
        let function = plugins::function(plugins, kind, name);
        return Callable { function, takes_undefined: false }.call(state, name, arguments);
    }
    match native {
        Some(callable) => callable.call(state, name, arguments),
        None => {
            if is_classic(state) {
                return Err(Error::syntax(classic::not_loaded(name)).into());
            }
            let hint = closest(name, table.keys().map(String::as_str));
            let message = format!("No {} named '{name}'.", kind.word());
            Err(Error::new(ErrorKind::Syntax, message).with_hint(hint).into())
        }
    }
}

/// A function of the registry, ready to be called.
pub(crate) struct Callable {
    function: Value,
    takes_undefined: bool,
}

impl Callable {
    fn call(&self, state: &mut State<'_, '_>, name: &str, arguments: &[Value]) -> Result<Value, minijinja::Error> {
        if self.takes_undefined {
            // What failed or is not known yet is not merely undefined: no default can stand in for it.
            if let Some(value) = arguments.first()
                && mark(value).is_some()
                && !mark::is_undefined(value)
            {
                return Ok(value.clone());
            }
            if let Some((first, rest)) = arguments.split_first()
                && is_lazy(first)
                && is_classic(state)
                && let Some(undefined) = undefined_within(&settled(first))
            {
                // Up to 2.18, a variable with something undefined anywhere in it is undefined as a whole.
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
                    // The filter has a password of its own.
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

/// Filters and tests that do not need every item of what they are given: what is rendered lazily stays so, and an
/// undefined item among the others does no harm.
const LOOKS_AT_NO_ITEM: [&str; 19] = [
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
];

/// Makes the values plain; the inner error is an undefined one among them.
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

/// A function that fails answers with a value that is the error where it is used: if it ran into something undefined,
/// `default` can follow it, and a result nobody uses does no harm.
fn answer(outcome: Result<Value, minijinja::Error>) -> Value {
    let bounded = outcome.map_err(Error::from).and_then(limits::value);
    bounded.unwrap_or_else(mark::failed)
}

fn table(functions: &[Function]) -> Table {
    let mut table = HashMap::new();
    for function in functions {
        for name in function.names {
            let callable = || Callable { function: (function.make)(), takes_undefined: function.takes_undefined };
            if !name.contains('.') {
                table.insert(format!("ansible.builtin.{name}"), callable());
                table.insert(format!("ansible.legacy.{name}"), callable());
            }
            table.insert((*name).to_owned(), callable());
        }
    }
    // Filters that moved to a collection are still found by their short names.
    for function in functions {
        for name in function.names {
            if let Some((_, short)) = name.rsplit_once('.') {
                let callable = || Callable { function: (function.make)(), takes_undefined: function.takes_undefined };
                table.entry(short.to_owned()).or_insert_with(callable);
            }
        }
    }
    table
}

/// All filters by name.
pub(crate) fn filters() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| table(FILTERS))
}

/// All tests by name.
pub(crate) fn tests() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| table(TESTS))
}

/// The lookup of that name.
pub(crate) fn lookup(name: &str) -> Result<&'static dyn Lookup, Error> {
    let plain = name.strip_prefix("ansible.builtin.").or_else(|| name.strip_prefix("ansible.legacy.")).unwrap_or(name);
    LOOKUPS.iter().copied().find(|lookup| lookup.names().contains(&plain)).ok_or_else(|| {
        let known = LOOKUPS.iter().flat_map(|lookup| lookup.names()).copied();
        Error::lookup(format!("There is no lookup '{name}'.")).with_hint(closest(plain, known))
    })
}
