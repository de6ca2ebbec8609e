//! Statements of a source, in their order. A source is parsed completely before any statement changes the inventory.

use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Span};

use crate::Warning;

/// One statement of a source.
#[derive(Debug)]
pub(crate) enum Step {
    /// Declares a group.
    Group { name: Arc<str>, span: Span },
    /// Adds hosts with common variables to a group.
    Hosts { names: Vec<Arc<str>>, group: Arc<str>, port: Option<Node>, variables: Arc<Mapping>, span: Span },
    /// Declares a host.
    Host { name: Arc<str>, span: Span },
    /// Adds a host that was declared earlier to a group.
    Member { group: Arc<str>, host: Arc<str>, span: Span },
    /// Sets variables of a host that was declared earlier.
    HostVariables { host: Arc<str>, variables: Arc<Mapping> },
    /// Sets a variable of a group.
    GroupVariable { group: Arc<str>, key: Key, value: Node },
    /// Makes a group contain another.
    Child { parent: Arc<str>, child: Arc<str>, span: Span },
}

/// All statements of a source, and its warnings.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    pub(crate) steps: Vec<Step>,
    pub(crate) warnings: Vec<Warning>,
}
