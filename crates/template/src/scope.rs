//! Source of variables.

use std::fmt::Debug;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::Value;
use windlass_yaml::Node;

use crate::origin::Origin;

/// A variable as defined, not yet rendered.
#[derive(Clone, Debug)]
pub enum Variable {
    /// Data, such as facts, results and lookups. Never a template.
    Data(Value),
    /// Text of the project: its strings may be templates, which are rendered on use.
    Text(Node),
}

/// Variables of one host for one task.
pub trait Scope: Send + Sync + Debug {
    /// Looks up a variable.
    fn get(&self, name: &str) -> Option<Variable>;

    /// Looks up a variable that the project has set, where a host could choose the value of others.
    fn get_own(&self, name: &str) -> Option<Variable> {
        self.get(name)
    }

    /// Names of all variables, for the `varnames` lookup and for suggestions.
    fn names(&self) -> Vec<Arc<str>>;

    /// Origin of the texts in a data variable.
    fn origin(&self, _name: &str) -> Origin {
        Origin::Made
    }

    /// Receives the value of a variable once its text has been rendered.
    fn rendered(&self, _name: &str, _value: &Value) {}

    /// Directories that lookups and template includes search, nearest first: a role's directory, then the playbook's.
    /// Callers append `files`, `templates` or `vars` themselves.
    fn search_paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Variables of a context that apply only if nothing else sets them.
pub trait Defaults: Send + Sync + Debug {
    /// Names that may have a default.
    fn names(&self) -> &'static [&'static str];

    /// The default of one of these names.
    fn get(&self, name: &str) -> Option<Value>;
}

/// A table of variables. Lookups are frequent, so the hash is a fast one with a random seed.
pub type Variables = IndexMap<Arc<str>, Variable, foldhash::fast::RandomState>;

impl<S: BuildHasher + Send + Sync> Scope for IndexMap<Arc<str>, Variable, S> {
    fn get(&self, name: &str) -> Option<Variable> {
        self.get(name).cloned()
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.keys().cloned().collect()
    }
}
