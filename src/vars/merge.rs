//! `hash_behaviour = merge`: dictionaries of the same name complete each other instead of replacing each other.

use minijinja::value::ValueKind;
use windlass_template::Variable;
use windlass_yaml::{Node, Span};

/// A variable with what the lower ranks have to say about it, highest first, as long as all are dictionaries.
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

/// A variable as a dictionary that may hold templates; data never does.
fn dictionary(variable: &Variable) -> Option<Node> {
    match variable {
        Variable::Text(node) => node.as_map().is_some().then(|| node.clone()),
        Variable::Data(value) if value.kind() == ValueKind::Map => {
            Some(Node::from_json(&windlass_template::to_json(value), &Span::none()).into_literal())
        }
        Variable::Data(_) => None,
    }
}
