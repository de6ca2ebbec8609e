//! Handlers of a play: finding them by name or topic.

use std::sync::Arc;

use windlass_template::Context;

use crate::playbook::{Block, Frame, Item, Task};

/// The handlers of a play, in the order they run.
pub(super) struct Handlers {
    frame: Arc<Frame>,
    items: Vec<Item>,
    block: Arc<Block>,
    names: Vec<Named>,
}

struct Named {
    task: Arc<Task>,
    list: usize,
    name: Option<String>,
    qualified: Option<String>,
}

impl Handlers {
    /// Handlers of a play; `context` renders their names.
    pub(super) fn new(items: &[Item], frame: &Arc<Frame>, context: &Context) -> Handlers {
        let mut handlers =
            Handlers { frame: Arc::clone(frame), items: Vec::new(), block: empty(frame), names: Vec::new() };
        handlers.add(items, context);
        handlers
    }

    /// Adds the handlers of a role that was included while running.
    pub(super) fn add(&mut self, items: &[Item], context: &Context) {
        let list = self.items.len();
        self.items.extend_from_slice(items);
        self.block = Arc::new(Block { body: self.items.clone(), ..unshared(&self.frame) });
        self.name(items, list, context);
    }

    fn name(&mut self, items: &[Item], list: usize, context: &Context) {
        for item in items {
            match item {
                Item::Block(block) => {
                    for part in [&block.body, &block.rescue, &block.always] {
                        self.name(part, list, context);
                    }
                }
                Item::Task(task) => {
                    // A name that cannot be rendered with the play's variables cannot be notified.
                    let name = task.name.as_ref().and_then(|node| context.render_to_string(node).ok());
                    let qualified =
                        task.frame.role().and_then(|role| name.as_ref().map(|name| format!("{} : {name}", role.name)));
                    self.names.push(Named { task: Arc::clone(task), list: list_of(task, list), name, qualified });
                }
            }
        }
    }

    /// The block that runs the notified ones.
    pub(super) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// The handlers that a notification means: the one of that name, and all that listen to it.
    pub(super) fn find(&self, notification: &str) -> Vec<&Arc<Task>> {
        let is_named = |named: &&Named| {
            named.name.as_deref() == Some(notification) || named.qualified.as_deref() == Some(notification)
        };
        // Within one list the first of a name counts, over several lists the last list.
        let last_list = self.names.iter().filter(is_named).map(|named| named.list).max();
        let by_name = last_list.and_then(|list| self.names.iter().filter(is_named).find(|named| named.list == list));
        let listening = self.names.iter().filter(|named| {
            let topics = &named.task.listen;
            topics.iter().any(|topic| topic == notification || qualifies(&named.task, topic, notification))
        });
        let mut found: Vec<&Arc<Task>> = by_name.map(|named| &named.task).into_iter().collect();
        for named in listening {
            if !found.iter().any(|task| task.id == named.task.id) {
                found.push(&named.task);
            }
        }
        found
    }

    /// All names that can be notified, for suggestions.
    pub(super) fn known(&self) -> impl Iterator<Item = &str> {
        self.names
            .iter()
            .flat_map(|named| named.name.as_deref().into_iter().chain(named.task.listen.iter().map(String::as_str)))
    }
}

/// Handlers of one file are one list.
fn list_of(task: &Task, base: usize) -> usize {
    match task.frame.role() {
        Some(_) => base,
        None => base + 1,
    }
}

fn qualifies(task: &Arc<Task>, topic: &str, notification: &str) -> bool {
    task.frame.role().is_some_and(|role| notification == format!("{} : {topic}", role.name))
}

fn unshared(frame: &Arc<Frame>) -> Block {
    Block { frame: Arc::clone(frame), body: Vec::new(), rescue: Vec::new(), always: Vec::new(), role: None }
}

fn empty(frame: &Arc<Frame>) -> Arc<Block> {
    Arc::new(unshared(frame))
}
