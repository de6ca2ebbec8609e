//! `hash_behaviour = merge`: dictionaries of the same name are merged instead of replaced.

use minijinja::value::ValueKind;
use windlass_template::Variable;
use windlass_yaml::{Node, Span};

/// Merges a variable with its values of lower precedence, highest first, while all are dictionaries.
pub(crate) fn all(highest: Variable, lower: impl Iterator<Item = Variable>) -> Variable {
    let mut lower = lower.peekable();
    if lower.peek().is_none() {
        return highest;
    }
    let Some(mut merged) = dictionary(&highest) else { return highest };
    for variable in lower {
        let Some(below) = dictionary(&variable) else { break };
        merged = merged.merged_over(&below);
    }
    Variable::Text(merged)
}

/// A variable as a dictionary. Only project text may contain templates; data never does.
fn dictionary(variable: &Variable) -> Option<Node> {
    match variable {
        Variable::Text(node) => node.as_map().is_some().then(|| node.clone()),
        Variable::Data(value) if value.kind() == ValueKind::Map => {
            Some(Node::from_json(&windlass_template::to_json(value), &Span::none()).into_literal())
        }
        Variable::Data(_) => None,
    }
}
