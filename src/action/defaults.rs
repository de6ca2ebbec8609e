//! `module_defaults`, for the module a task names and for modules that its action selects.

use std::sync::Arc;

use indexmap::IndexMap;
use windlass_template::{Context, Value};
use windlass_yaml::Node;

use super::context::Outgoing;
use super::{ActionContext, Failure};
use crate::foreign::Modules;
use crate::outcome::Arguments;
use crate::playbook::{Task, short_name};

/// Rendered defaults that apply to a module.
pub fn module_defaults(
    task: &Task,
    action: &str,
    modules: &Modules,
    context: &Context,
) -> Result<Vec<Arguments>, Failure> {
    let rendered = |node: Node| {
        let value = crate::vars::render(context, &node)?;
        let keys = value.try_iter().into_iter().flatten();
        Ok(keys.filter_map(|key| Some((Arc::from(key.as_str()?), value.get_item(&key).ok()?))).collect())
    };
    written(task, action, modules).into_iter().map(rendered).collect()
}

/// Defaults of the module's groups, then its own. Among entries for one name the innermost counts.
fn written(task: &Task, action: &str, modules: &Modules) -> Vec<Node> {
    let mut nodes: Vec<&Node> = task.keyword_values("module_defaults").collect();
    if nodes.is_empty() {
        return Vec::new();
    }
    nodes.reverse();
    let collections = task.collections();
    let full = modules.full_name(action, &collections);
    let (mut groups, mut specific) = (IndexMap::new(), None);
    for node in nodes {
        let maps: Vec<Node> = node.as_list().map(<[Node]>::to_vec).unwrap_or_else(|| vec![node.clone()]);
        for map in maps.iter().filter_map(Node::as_map) {
            for (key, defaults) in map.iter() {
                let key_text = key.to_text();
                let Some(group) = key_text.strip_prefix("group/") else {
                    if short_name(&key_text) == short_name(action) || modules.full_name(&key_text, &collections) == full
                    {
                        specific = Some(defaults.clone());
                    }
                    continue;
                };
                // Unknown groups were refused when the playbook was read.
                if modules.group(group).is_some_and(|members| members.contains(&full)) {
                    groups.insert(group.to_owned(), defaults.clone());
                }
            }
        }
    }
    groups.into_values().chain(specific).collect()
}

impl ActionContext {
    /// Adds a module's defaults for arguments that are not set.
    pub(super) fn with_defaults_of(&self, module: &str, args: &Arguments) -> Result<Arguments, Failure> {
        let mut completed = Arguments::new();
        for defaults in module_defaults(&self.task, module, &self.modules, &self.context)? {
            completed.extend(defaults);
        }
        completed.extend(args.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(completed)
    }

    /// Of `modules`, returns the one that `use` or a fact of the host names, with its defaults. Returns `None` if it
    /// has no defaults; the host can then choose without an extra round trip.
    pub(super) async fn chosen(
        &self,
        modules: &[&str],
        args: &Arguments,
        fact: &str,
    ) -> Result<Option<(String, Arguments)>, Failure> {
        let has_defaults = |module: &str| !written(&self.task, module, &self.modules).is_empty();
        let candidates: Vec<&str> = modules.iter().copied().filter(|module| has_defaults(module)).collect();
        if candidates.is_empty() {
            return Ok(None);
        }
        let chosen = args.get("use").map(windlass_template::text).unwrap_or_default();
        let name = if matches!(chosen.as_str(), "" | "auto") { self.fact(fact).await? } else { chosen };
        let Some(module) = candidates.into_iter().find(|module| *module == short_name(&name)) else { return Ok(None) };
        let mut completed = self.with_defaults_of(module, args)?;
        completed.shift_remove("use");
        Ok(Some((format!("ansible.legacy.{module}"), completed)))
    }

    /// Value of a fact, gathered from the host if it is not known.
    async fn fact(&self, name: &str) -> Result<String, Failure> {
        let text = |facts: Option<Value>, name: &str| {
            let fact = facts.and_then(|facts| facts.get_attr(name).ok());
            fact.and_then(|fact| fact.as_str().map(str::to_owned))
        };
        // Known facts belong to the task's host, which may not be the one it is delegated to.
        if self.task.keyword("delegate_to").is_none()
            && let Some(known) = text(self.context.variable("ansible_facts")?, name)
        {
            return Ok(known);
        }
        if let Some(ahead) = self.ahead.as_ref().filter(|ahead| ahead.is_undecided()) {
            ahead.refuse();
            return Err(Failure::Postponed);
        }
        let name = format!("ansible_{name}");
        let args = Value::from_pairs([("gather_subset", "!all"), ("filter", name.as_str())]);
        let (answer, _) = self.send("ansible.builtin.setup", args, Outgoing::default()).await?;
        Ok(text(answer.get("ansible_facts").cloned(), &name).unwrap_or_default())
    }
}
