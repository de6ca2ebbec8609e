//! Filters, tests and lookups that are not ours.

use std::fmt::Debug;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Rest, ValueOrKwargs};

use crate::context::Context;
use crate::error::Error;
use crate::registry::LookupOptions;
use crate::tracker;

/// What a plugin is.
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
    /// Its word in messages and in Ansible's names of folders.
    pub fn word(self) -> &'static str {
        match self {
            PluginKind::Filter => "filter",
            PluginKind::Test => "test",
            PluginKind::Lookup => "lookup",
        }
    }
}

/// A source of plugins, asked for every name before ours are looked at.
pub trait Plugins: Debug + Send + Sync {
    /// Whether it has the plugin; `native` says whether there is one of ours of that name. An error if it has one that cannot be used.
    fn provides(&self, kind: PluginKind, name: &str, native: bool) -> Result<bool, Error>;

    /// Calls a filter or a test. Nothing among the arguments is undefined.
    fn call(&self, kind: PluginKind, name: &str, arguments: &[Value]) -> Result<Value, Error>;

    /// Answers a lookup, as a list.
    fn lookup(
        &self,
        context: &Context,
        name: &str,
        terms: &[Value],
        options: &LookupOptions,
    ) -> Result<Vec<Value>, Error>;
}

/// A filter or test as a function of minijinja.
pub(crate) fn function(plugins: &Arc<dyn Plugins>, kind: PluginKind, name: &str) -> Value {
    let (plugins, name) = (Arc::clone(plugins), name.to_owned());
    Value::from_function(move |arguments: Rest<ValueOrKwargs>| -> Result<Value, minijinja::Error> {
        tracker::reads_outside();
        Ok(plugins.call(kind, &name, &arguments.into_values())?)
    })
}
