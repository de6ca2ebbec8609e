//! Input of an action: its arguments with the module defaults, and the environment.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_template::{Context, Value};
use windlass_yaml::{Mapping, Node};

use super::execute::TaskOnHost;
use crate::action::{Failure, module_defaults};
use crate::outcome::Arguments;
use crate::vars::{given, unless_omitted};

impl TaskOnHost {
    /// Renders the arguments; those that evaluate to `omit` are left out.
    pub(super) fn arguments(&self, context: &Context) -> Result<Arguments, Failure> {
        let task = &self.task;
        let action = task.short_action();
        let mut args = Arguments::new();
        for defaults in module_defaults(task, &task.action, &self.shared.loader.modules, context)? {
            args.extend(defaults);
        }
        if let Some(node) = &task.args_template {
            let value = crate::vars::render(context, node)?;
            for key in value.try_iter().into_iter().flatten() {
                if let (Some(name), Ok(item)) = (key.as_str(), value.get_item(&key)) {
                    args.insert(name.into(), item);
                }
            }
        }
        for (key, node) in task.args.iter() {
            let name: Arc<str> = context.render_to_string(&key.as_node())?.into();
            let value = if is_expression(action, &name) && name.as_ref() != "argument_spec" {
                // The action evaluates this expression itself; here only its presence counts.
                Value::from(true)
            } else {
                match unless_omitted(context, node)? {
                    Some(value) => value,
                    None => {
                        args.shift_remove(&name);
                        continue;
                    }
                }
            };
            // `copy: "{{ mapping }}"`: a mapping given as free text supplies the arguments.
            if &*name == "_raw_params" && action != "set_fact" && value.kind() == minijinja::value::ValueKind::Map {
                for key in value.try_iter().into_iter().flatten() {
                    if let (Some(name), Ok(item)) = (key.as_str(), value.get_item(&key)) {
                        args.insert(name.into(), item);
                    }
                }
                continue;
            }
            args.insert(name, value);
        }
        Ok(args)
    }

    /// Environment of the task's processes: the play's, then that of enclosing blocks, then the task's own.
    pub(super) fn environment(&self, context: &Context) -> Result<BTreeMap<String, String>, Failure> {
        let own = self.task.keywords.get("environment").into_iter();
        let around = self.task.frame.chain().filter_map(|frame| frame.keywords.get("environment"));
        let mut nodes: Vec<&Node> = own.chain(around).collect();
        nodes.reverse();
        let mut environment = BTreeMap::new();
        for node in nodes {
            for node in node.as_list().unwrap_or(std::slice::from_ref(node)) {
                let known = self.without_unknown_facts(context, node);
                let Some(map) = given(context, known.as_ref().unwrap_or(node))? else { continue };
                if map.kind() != minijinja::value::ValueKind::Map {
                    self.warn(format!("could not parse environment value, skipping: {map} ({})", node.span));
                    continue;
                }
                for key in map.try_iter().into_iter().flatten() {
                    if let Ok(item) = map.get_item(&key) {
                        environment.insert(windlass_template::text(&key), windlass_template::text(&item));
                    }
                }
            }
        }
        Ok(environment)
    }

    /// Removes environment variables that depend on facts which are being gathered.
    fn without_unknown_facts(&self, context: &Context, node: &Node) -> Option<Node> {
        let map = node.as_map().filter(|_| self.task.gathers_facts())?;
        let is_known = |node: &Node| !given(context, node).is_err_and(|error| error.is_undefined());
        let mut known = Mapping::new();
        for (key, node) in map.iter().filter(|(_, node)| is_known(node)) {
            known.insert(key.clone(), node.clone());
        }
        Some(Node::map(known, node.span.clone()))
    }
}

/// Whether the action evaluates this argument itself, so it must not be rendered before.
fn is_expression(action: &str, argument: &str) -> bool {
    matches!((action, argument), ("debug", "var") | ("assert", "that") | ("validate_argument_spec", "argument_spec"))
}
