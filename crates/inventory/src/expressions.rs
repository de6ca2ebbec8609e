//! What inventories leave to a template engine.

use std::fmt::Debug;
use std::sync::Arc;

use windlass_yaml::{Mapping, Node};

/// Evaluates the templates of `constructed` and `generator` inventories. The engine is the caller's: an inventory knows
/// no templates itself.
pub trait Expressions: Debug + Send + Sync {
    /// What a template gives over these variables; a value without templates stays as it is.
    fn render(&self, template: &Node, variables: &Arc<Mapping>) -> Result<Node, String>;

    /// What an expression, written without braces, gives over these variables.
    fn evaluate(&self, expression: &Node, variables: &Arc<Mapping>) -> Result<Node, String>;

    /// Whether a condition holds over these variables.
    fn holds(&self, condition: &Node, variables: &Arc<Mapping>) -> Result<bool, String>;
}
