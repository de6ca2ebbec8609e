//! External filters, tests and lookups.

use std::fmt::Debug;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Rest, ValueOrKwargs};

use crate::context::Context;
use crate::error::Error;
use crate::registry::LookupOptions;
use crate::tracker;

/// Kind of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginKind {
    /// `value | name`.
    Filter,
    /// `value is name`.
    Test,
    /// `lookup('name')`.
    Lookup,
}

impl PluginKind {
    /// The kind in messages and in Ansible's directory names.
    pub fn word(self) -> &'static str {
        match self {
            PluginKind::Filter => "filter",
            PluginKind::Test => "test",
            PluginKind::Lookup => "lookup",
        }
    }
}

/// A source of plugins, which takes precedence over built-in ones.
pub trait Plugins: Debug + Send + Sync {
    /// Whether the source has the plugin; an error if it is unusable. `native` says whether a built-in one has this
    /// name.
    fn provides(&self, kind: PluginKind, name: &str, native: bool) -> Result<bool, Error>;

    /// Calls a filter or test. No argument is undefined.
    fn call(&self, kind: PluginKind, name: &str, arguments: &[Value]) -> Result<Value, Error>;

    /// Runs a lookup, which returns a list.
    fn lookup(
        &self,
        context: &Context,
        name: &str,
        terms: &[Value],
        options: &LookupOptions,
    ) -> Result<Vec<Value>, Error>;
}

/// Wraps a filter or test as a function for minijinja.
pub(crate) fn function(plugins: &Arc<dyn Plugins>, kind: PluginKind, name: &str) -> Value {
    let (plugins, name) = (Arc::clone(plugins), name.to_owned());
    Value::from_function(move |arguments: Rest<ValueOrKwargs>| -> Result<Value, minijinja::Error> {
        tracker::reads_outside();
        Ok(plugins.call(kind, &name, &arguments.into_values())?)
    })
}
