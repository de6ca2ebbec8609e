//! Interface to a template engine.

use std::fmt::Debug;
use std::sync::Arc;

use windlass_yaml::{Mapping, Node};

/// Evaluates the templates of `constructed` and `generator` inventories. The caller provides the engine, because this
/// crate has none.
pub trait Expressions: Debug + Send + Sync {
    /// Renders a template with these variables; a value without templates is returned unchanged.
    fn render(&self, template: &Node, variables: &Arc<Mapping>) -> Result<Node, String>;

    /// Evaluates an expression, written without braces, with these variables.
    fn evaluate(&self, expression: &Node, variables: &Arc<Mapping>) -> Result<Node, String>;

    /// Whether a condition holds with these variables.
    fn holds(&self, condition: &Node, variables: &Arc<Mapping>) -> Result<bool, String>;
}
