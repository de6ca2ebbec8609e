//! Tasks of a play in their order, including dynamic includes that can be resolved before the run.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;
use windlass_yaml::Node;

use super::Entered;
use crate::playbook::{Block, Item, Task};
use crate::strategy::include_request::{self, Wanted};
use crate::vars::{TaskScope, unless_omitted};

/// Maximum nesting of includes to follow.
const DEPTH: usize = 30;
/// Maximum number of tasks to list.
const TASKS: usize = 50_000;

/// Section of a block or play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Runs in order.
    Body,
    /// Runs only after a failure in its block.
    Rescue,
    /// Runs after its block in any case.
    Always,
    /// Runs only if a task notifies it.
    Handler,
}

/// A dynamic include that leads to a task.
pub type Include = Arc<Task>;

/// A task of a play.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Task that is listed.
    pub task: Arc<Task>,
    /// Section of the play that contains it.
    pub section: Section,
    /// Includes that lead to it, outermost first.
    pub includes: Vec<Include>,
}

struct Walk<'a> {
    entered: &'a Entered,
    host: &'a Arc<str>,
    /// Includes that are being followed, by file or role and position; a file that includes itself is listed once.
    open: HashSet<String>,
    found: Vec<Listed>,
}

/// Lists the tasks of a play.
pub(super) fn listed(entered: &Entered, host: &Arc<str>) -> Vec<Listed> {
    let mut walk = Walk { entered, host, open: HashSet::new(), found: Vec::new() };
    let play = &entered.play;
    for items in [&play.pre_tasks, &play.tasks, &play.post_tasks] {
        walk.items(items, Section::Body, &[]);
    }
    walk.items(&play.handlers, Section::Handler, &[]);
    walk.found
}

impl Walk<'_> {
    fn items(&mut self, items: &[Item], section: Section, includes: &[Include]) {
        for item in items {
            match item {
                Item::Task(task) => self.task(task, section, includes),
                Item::Block(block) => self.block(block, section, includes),
            }
        }
    }

    fn block(&mut self, block: &Block, section: Section, includes: &[Include]) {
        self.items(&block.body, section, includes);
        let or = |inner| if section == Section::Body { inner } else { section };
        self.items(&block.rescue, or(Section::Rescue), includes);
        self.items(&block.always, or(Section::Always), includes);
    }

    fn task(&mut self, task: &Arc<Task>, section: Section, includes: &[Include]) {
        if self.found.len() >= TASKS {
            return;
        }
        self.found.push(Listed { task: Arc::clone(task), section, includes: includes.to_vec() });
        if includes.len() >= DEPTH {
            return;
        }
        if let Some(looped) = &task.looped {
            let includes: Vec<Include> = includes.iter().chain([task]).cloned().collect();
            self.block(&looped.block, section, &includes);
        } else if task.is_include() {
            self.include(task, section, includes);
        }
    }

    /// Follows an include whose name is known. Others are left to the run.
    fn include(&mut self, task: &Arc<Task>, section: Section, includes: &[Include]) {
        let entered = self.entered;
        let scope = TaskScope::of_task(&entered.world, self.host, task);
        let context = entered.shared.run.engine.scope(Arc::new(scope));
        let mut args = Vec::new();
        for (key, node) in task.args.iter() {
            let name = key.to_text();
            let rendered = match name.as_str() {
                "apply" => node.clone(),
                _ => match unless_omitted(&context, node) {
                    Ok(Some(value)) => Node::from_json(&windlass_template::to_json(&value), &node.span).into_literal(),
                    Ok(None) => continue,
                    Err(_) => return,
                },
            };
            args.push((name, rendered));
        }
        let wanted = Wanted { args, vars: IndexMap::new(), label: None };
        let key = format!("{} {}", task.span, wanted.target());
        if !self.open.insert(key.clone()) {
            return;
        }
        if let Ok(included) = include_request::load(&wanted, task, &entered.shared, &entered.world.playbook_dir()) {
            let mut includes = includes.to_vec();
            includes.push(Arc::clone(task));
            self.items(&included.block.body, section, &includes);
            self.items(&included.handlers, Section::Handler, &includes);
        }
        self.open.remove(&key);
    }
}
