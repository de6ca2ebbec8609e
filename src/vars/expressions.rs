//! Evaluates expressions of `constructed` and `generator` inventories.

use std::fmt;
use std::sync::Arc;

use windlass_inventory::Expressions;
use windlass_template::{Context, Engine, Scope, Variable, to_json};
use windlass_yaml::{Mapping, Node, Value};

/// The template engine as inventories use it.
pub struct InventoryExpressions(pub Engine);

impl fmt::Debug for InventoryExpressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the template engine")
    }
}

#[derive(Debug)]
struct Variables(Arc<Mapping>);

impl Scope for Variables {
    fn get(&self, name: &str) -> Option<Variable> {
        self.0.get(name).cloned().map(Variable::Text)
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.0.string_entries().map(|(name, _)| Arc::from(name)).collect()
    }
}

impl InventoryExpressions {
    fn over(&self, variables: &Arc<Mapping>) -> Context {
        self.0.scope(Arc::new(Variables(Arc::clone(variables))))
    }
}

/// Keeps the project's text if the expression is only a variable, an entry of one, or either with an unused default.
/// Text that is a template is not kept.
fn passed_through(expression: &str, variables: &Mapping) -> Option<Node> {
    let (name, filter) = expression.split_once('|').unwrap_or((expression, "default"));
    if !filter.trim_start().starts_with("default") || filter.contains('|') {
        return None;
    }
    let mut names = name.trim().split('.');
    let mut node = variables.get(names.next()?)?;
    for name in names {
        node = node.get(name)?;
    }
    let is_plain = |text: &str| !["{{", "{%", "{#"].iter().any(|mark| text.contains(mark));
    matches!(&node.value, Value::String(text) if is_plain(text)).then(|| node.clone())
}

/// Results of templates are data.
fn data(result: Result<windlass_template::Value, windlass_template::Error>, of: &Node) -> Result<Node, String> {
    result.map(|value| Node::from_json(&to_json(&value), &of.span)).map_err(|error| error.to_string())
}

impl Expressions for InventoryExpressions {
    fn render(&self, template: &Node, variables: &Arc<Mapping>) -> Result<Node, String> {
        let inner = template.as_str().and_then(|text| text.trim().strip_prefix("{{")?.strip_suffix("}}"));
        match inner.and_then(|name| passed_through(name, variables)) {
            Some(node) => Ok(node),
            None => data(self.over(variables).render(template), template),
        }
    }

    fn evaluate(&self, expression: &Node, variables: &Arc<Mapping>) -> Result<Node, String> {
        match expression.as_str() {
            Some(text) if let Some(node) = passed_through(text, variables) => Ok(node),
            Some(text) if self.0.options().compat.renders_inventory_expressions() => {
                let template = expression.reworded(format!("{{{{{text}}}}}"));
                data(self.over(variables).render(&template), expression)
            }
            Some(_) => data(self.over(variables).evaluate(expression), expression),
            None => Err(format!("An expression is a string, but this is {}.", expression.kind())),
        }
    }

    fn holds(&self, condition: &Node, variables: &Arc<Mapping>) -> Result<bool, String> {
        self.over(variables).condition(condition).map_err(|error| error.to_string())
    }
}
