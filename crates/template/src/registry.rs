//! How filters, tests and lookups are declared, and how they are found by name.

use std::collections::HashMap;
use std::sync::OnceLock;

use indexmap::IndexMap;
use minijinja::State;
use minijinja::value::Value;

use crate::context::Context;
use crate::error::{Error, ErrorKind};
use crate::filters::FILTERS;
use crate::lookups::LOOKUPS;
use crate::tests::TESTS;

/// One filter or test as the registries list it.
///
/// The function behind it is a typed minijinja function (`Value::from_function`). Before it is called, its arguments
/// are checked and made plain: an undefined or unknown argument is an error, lazily rendered containers are rendered.
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
    call(state, filters(), "filter", name, arguments)
}

/// Calls a test by name, as `select('name')` does.
pub fn call_test(state: &mut State<'_, '_>, name: &str, arguments: &[Value]) -> Result<bool, minijinja::Error> {
    call(state, tests(), "test", name, arguments).map(|value| value.is_true())
}

fn call(
    state: &mut State<'_, '_>,
    table: &HashMap<String, Callable>,
    what: &str,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    match table.get(name) {
        Some(callable) => callable.call(state, arguments),
        None => Err(Error::new(ErrorKind::Filter, format!("There is no {what} `{name}`.")).into()),
    }
}

/// A function of the registry, ready to be called.
pub(crate) struct Callable {
    function: Value,
    #[expect(dead_code)]
    takes_undefined: bool,
}

impl Callable {
    fn call(&self, state: &mut State<'_, '_>, arguments: &[Value]) -> Result<Value, minijinja::Error> {
        self.function.call(state, arguments)
    }
}

fn table(functions: &[Function]) -> HashMap<String, Callable> {
    let mut table = HashMap::new();
    for function in functions {
        for name in function.names {
            let callable = || Callable { function: (function.make)(), takes_undefined: function.takes_undefined };
            if !name.contains('.') {
                table.insert(format!("ansible.builtin.{name}"), callable());
            }
            table.insert((*name).to_owned(), callable());
        }
    }
    table
}

pub(crate) fn filters() -> &'static HashMap<String, Callable> {
    static TABLE: OnceLock<HashMap<String, Callable>> = OnceLock::new();
    TABLE.get_or_init(|| table(FILTERS))
}

pub(crate) fn tests() -> &'static HashMap<String, Callable> {
    static TABLE: OnceLock<HashMap<String, Callable>> = OnceLock::new();
    TABLE.get_or_init(|| table(TESTS))
}

/// The lookup of that name.
#[expect(dead_code)]
pub(crate) fn lookup(name: &str) -> Option<&'static dyn Lookup> {
    let plain = name.strip_prefix("ansible.builtin.").or_else(|| name.strip_prefix("ansible.legacy.")).unwrap_or(name);
    LOOKUPS.iter().copied().find(|lookup| lookup.names().contains(&plain))
}
