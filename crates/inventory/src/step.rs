//! What a source says, in the order it says it. A source is read wholly before anything of it enters the inventory.

use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Span};

use crate::Warning;

/// One statement of a source.
#[derive(Debug)]
pub(crate) enum Step {
    /// There is a group.
    Group { name: Arc<str>, span: Span },
    /// There are hosts in a group, all with the same variables.
    Hosts { names: Vec<Arc<str>>, group: Arc<str>, port: Option<Node>, variables: Arc<Mapping>, span: Span },
    /// There is a host.
    Host { name: Arc<str>, span: Span },
    /// A host that was named before is in a group.
    Member { group: Arc<str>, host: Arc<str>, span: Span },
    /// A host that was named before has variables.
    HostVariables { host: Arc<str>, variables: Arc<Mapping> },
    /// A group has a variable.
    GroupVariable { group: Arc<str>, key: Key, value: Node },
    /// A group contains another.
    Child { parent: Arc<str>, child: Arc<str>, span: Span },
}

/// Everything a source says.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    pub(crate) steps: Vec<Step>,
    pub(crate) warnings: Vec<Warning>,
}
