//! Handlers of a play, looked up by name or topic.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use windlass_template::Context;

use crate::output::Secrets;
use crate::playbook::{Block, Frame, Item, Role, Task};
use crate::vars::secrecy::MASK;

/// Handlers of a play in the order they run.
#[derive(Clone)]
pub(super) struct Handlers {
    frame: Arc<Frame>,
    items: Vec<Item>,
    block: Arc<Block>,
    names: Vec<Named>,
    secrets: Secrets,
}

#[derive(Clone)]
struct Named {
    task: Arc<Task>,
    list: usize,
    name: Option<String>,
    /// Reason why nothing can notify this handler.
    problem: Option<String>,
}

impl Handlers {
    /// Collects the handlers of a play; `context` renders their names.
    pub(super) fn new(items: &[Item], frame: &Arc<Frame>, context: &Context, secrets: Secrets) -> Handlers {
        let mut handlers = Handlers {
            frame: Arc::clone(frame),
            items: Vec::new(),
            block: Arc::new(Block::plain(frame, Vec::new())),
            names: Vec::new(),
            secrets,
        };
        handlers.add(items, context);
        handlers
    }

    /// Adds the handlers of a role that was included at run time.
    pub(super) fn add(&mut self, items: &[Item], context: &Context) {
        self.items.extend_from_slice(items);
        self.block = Arc::new(Block::plain(&self.frame, self.items.clone()));
        let mut list = self.names.last().map_or(0, |named| named.list + 1);
        let mut role = None;
        self.name(items, &mut list, &mut role, context);
    }

    /// Registers names. Handlers of one role form one list, handlers of the play another.
    fn name(&mut self, items: &[Item], list: &mut usize, role: &mut Option<Arc<Role>>, context: &Context) {
        for item in items {
            match item {
                Item::Block(block) => {
                    for part in [&block.body, &block.rescue, &block.always] {
                        self.name(part, list, role, context);
                    }
                }
                Item::Task(task) => {
                    // A name that play variables cannot render can never be notified.
                    let rendered = task.name.as_ref().map(|node| context.render_to_string(node));
                    let (name, problem) = match rendered.transpose() {
                        Ok(name) => (name, None),
                        Err(error) => (None, task.listen.is_empty().then(|| error.to_string())),
                    };
                    let own = task.frame.role();
                    if own.map(Arc::as_ptr) != role.as_ref().map(Arc::as_ptr) {
                        *list += 1;
                        *role = own.cloned();
                    }
                    self.names.push(Named { task: Arc::clone(task), list: *list, name, problem });
                }
            }
        }
    }

    /// Block that runs the notified handlers.
    pub(super) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Handlers that a notification selects: the one with that name, and all that listen to it. A name that was
    /// recorded with a mask selects all handlers that it may stand for: one too many does less harm than a lost one.
    pub(super) fn find(&self, notification: &str) -> Vec<&Arc<Task>> {
        let found = self.find_written(notification);
        if !found.is_empty() || !notification.contains(MASK) {
            return found;
        }
        let of_names = |is_meant: &dyn Fn(&str) -> bool| {
            let names: IndexSet<String> = self.names.iter().flat_map(Named::notifications).collect();
            let tasks = names.iter().filter(|name| is_meant(name)).flat_map(|name| self.find_written(name));
            tasks.map(|task| (task.id, task)).collect::<IndexMap<_, _>>()
        };
        let mut meant = of_names(&|name| self.secrets.mask(name) == notification);
        if meant.is_empty() {
            // A resumed run may not have seen all secrets of the earlier one yet.
            meant = of_names(&|name| is_masked_as(name, notification));
        }
        meant.into_values().collect()
    }

    /// Whether a notification selects any handler.
    pub(super) fn has(&self, notification: &str) -> bool {
        !self.find(notification).is_empty()
    }

    /// Handlers whose name or topic is the text of a notification.
    fn find_written(&self, notification: &str) -> Vec<&Arc<Task>> {
        let is_named =
            |named: &&Named| named.name.as_deref().is_some_and(|name| means(&named.task, name, notification));
        // Within one list the first handler of a name counts; across lists, the last list.
        let last_list = self.names.iter().filter(is_named).map(|named| named.list).max();
        let by_name = last_list.and_then(|list| self.names.iter().filter(is_named).find(|named| named.list == list));
        let mut found: Vec<&Named> = by_name.into_iter().collect();
        let mut listening: Vec<&Named> = self
            .names
            .iter()
            .filter(|named| named.task.listen.iter().any(|topic| means(&named.task, topic, notification)))
            .collect();
        // A role used several times brings its handlers each time; only the last copy runs.
        listening.sort_by_key(|named| std::cmp::Reverse(named.list));
        for named in listening {
            let same =
                |known: &&Named| known.task.id == named.task.id || (named.name.is_some() && known.name == named.name);
            if !found.iter().any(same) {
                found.push(named);
            }
        }
        found.into_iter().map(|named| &named.task).collect()
    }

    /// Warnings for handlers that nothing can notify.
    pub(super) fn unusable(&self) -> impl Iterator<Item = String> {
        self.names.iter().filter_map(|named| {
            let written = named.task.name.as_ref()?.scalar_text()?;
            let problem = named.problem.as_ref()?;
            Some(format!(
                "Handler '{written}' is unusable because it has no listen topics and the name could not be templated \
                 (host-specific variables are not supported in handler names). The error: {problem}"
            ))
        })
    }

    /// All names and topics that can be notified, for suggestions.
    pub(super) fn known(&self) -> impl Iterator<Item = &str> {
        self.names
            .iter()
            .flat_map(|named| named.name.as_deref().into_iter().chain(named.task.listen.iter().map(String::as_str)))
    }
}

impl Named {
    /// Texts that notify this handler.
    fn notifications(&self) -> impl Iterator<Item = String> {
        notifications(&self.task, self.name.as_deref())
    }
}

/// Texts that notify a handler of this name: the name and its topics, also behind its role.
pub(crate) fn notifications<'a>(handler: &'a Task, name: Option<&'a str>) -> impl Iterator<Item = String> + use<'a> {
    let role = handler.frame.role();
    let words = name.into_iter().chain(handler.listen.iter().map(String::as_str));
    words.flat_map(move |word| {
        let in_role = role.map(|role| [&*role.name, role.short_name()].map(|role| format!("{role} : {word}")));
        std::iter::once(word.to_owned()).chain(in_role.into_iter().flatten())
    })
}

/// Whether masks in place of parts of a text can result in another one.
fn is_masked_as(text: &str, masked: &str) -> bool {
    let Some((first, rest)) = masked.split_once(MASK) else { return text == masked };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let Some((between, last)) = rest.rsplit_once(MASK) else { return text.ends_with(rest) };
    for part in between.split(MASK) {
        let Some((_, behind)) = text.split_once(part) else { return false };
        text = behind;
    }
    text.ends_with(last)
}

/// Whether a notification matches a handler's name or topic, optionally prefixed by its role's full or short name.
fn means(task: &Arc<Task>, word: &str, notification: &str) -> bool {
    let behind = |role: &str| notification.strip_prefix(role).and_then(|rest| rest.strip_prefix(" : ")) == Some(word);
    word == notification || task.frame.role().is_some_and(|role| behind(&role.name) || behind(role.short_name()))
}
