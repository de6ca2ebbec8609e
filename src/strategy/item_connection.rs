//! Connection of the items of a loop. It is resolved for the first item, and again for each other item only if it may
//! depend on them: looking up some thirty variables would take a third of the time of a `debug` item.

use std::sync::{Arc, OnceLock};

use windlass_template::{Context, Dependencies, OUTSIDE, PROJECT, reading};

use super::execute::TaskOnHost;
use super::loop_items::Loop;
use super::one_item::CONNECTION;
use super::shard::is_template;
use crate::action::{Ahead, Failure};
use crate::playbook::Task;
use crate::vars::ConnectionVariables;

/// Connection that the items of a loop share.
pub(super) struct OfItems {
    /// Variables that differ between items.
    varying: Vec<Arc<str>>,
    /// Connection of all items; `None` if it may differ between them.
    connection: OnceLock<Option<ConnectionVariables>>,
}

impl OfItems {
    /// For the items of a task's loop, if it has any. An item of `set_fact` may set any variable for the next ones.
    pub(super) fn new(opened: &Loop, task: &Task) -> Option<OfItems> {
        if opened.items.is_empty() || task.short_action() == "set_fact" {
            return None;
        }
        let of_all = ["ansible_loop", "vars", OUTSIDE, PROJECT].map(Arc::from);
        let varying = opened.variables(0).into_keys().chain(task.register.iter().cloned()).chain(of_all);
        Some(OfItems { varying: varying.collect(), connection: OnceLock::new() })
    }

    fn are_alike(&self, read: &Dependencies) -> bool {
        !self.varying.iter().any(|name| read.contains(name))
    }
}

impl TaskOnHost {
    /// Connection of the task or of one of its items.
    pub(super) fn connection(
        &self,
        context: &Context,
        delegate: Option<&str>,
        ahead: Option<&Arc<Ahead>>,
    ) -> Result<ConnectionVariables, Failure> {
        let resolve = || self.placement().connection(context, delegate);
        let Some(items) = self.items.as_ref().filter(|_| delegate.is_none()) else { return resolve() };
        match items.connection.get() {
            Some(Some(known)) => return Ok(known.clone()),
            Some(None) => return resolve(),
            // The caller that sends a task ahead records the variables read.
            None if ahead.is_some() => return resolve(),
            None => {}
        }
        let (resolved, read) = reading(resolve);
        let resolved = resolved?;
        let keywords = || CONNECTION.iter().filter_map(|name| self.placement().keyword(context, name));
        let is_fixed = items.are_alike(&read) && keywords().all(|node| !node.as_str().is_some_and(is_template));
        let _ = items.connection.set(is_fixed.then(|| resolved.clone()));
        Ok(resolved)
    }
}
