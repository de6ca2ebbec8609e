//! Where variables come from.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::Value;
use windlass_yaml::Node;

use crate::origin::Origin;

/// A variable before it is used.
#[derive(Clone, Debug)]
pub enum Variable {
    /// Data: facts, results, lookups. Never a template.
    Data(Value),
    /// Text of the project: its strings may be templates, rendered when the variable is used.
    Text(Node),
}

/// The variables one host sees for one task.
pub trait Scope: Send + Sync + Debug {
    /// The variable of that name.
    fn get(&self, name: &str) -> Option<Variable>;

    /// The names of all variables, for the `varnames` lookup and for suggestions.
    fn names(&self) -> Vec<Arc<str>>;

    /// Where the texts in a variable that is data come from.
    fn origin(&self, _name: &str) -> Origin {
        Origin::Made
    }

    /// The directories in which lookups and template includes search, nearest first (a role's directory, then the
    /// playbook's). Callers append `files`, `templates` or `vars` themselves.
    fn search_paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// A plain table of variables.
impl Scope for IndexMap<Arc<str>, Variable> {
    fn get(&self, name: &str) -> Option<Variable> {
        self.get(name).cloned()
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.keys().cloned().collect()
    }
}
