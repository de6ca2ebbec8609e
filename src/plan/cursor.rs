//! A host's progress through the blocks of a play.

use std::collections::HashSet;
use std::sync::Arc;

use super::tags::TagFilter;
use crate::playbook::{Block, Item, Task};

/// Position of a cursor, comparable between hosts of one play. The smallest position is the furthest behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(Vec<(u8, u32)>);

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (depth, (part, index)) in self.0.iter().enumerate() {
            let separator = if depth == 0 { "" } else { "/" };
            write!(f, "{separator}{part}.{index}")?;
        }
        Ok(())
    }
}

/// Next step of a host.
#[derive(Debug, Clone)]
pub struct Step {
    /// Task to run next.
    pub task: Arc<Task>,
    /// Position of the step.
    pub position: Position,
}

/// A host's progress through a play.
#[derive(Debug, Clone)]
pub struct Cursor {
    stack: Vec<Level>,
    /// Roles that have completed with at least one task run on this host.
    completed_roles: HashSet<String>,
    failed: bool,
    rescued: u32,
    /// A failure ended a handler that is an include.
    handler_failed: bool,
    /// In a forecast: roles that will have ended, perhaps without completing.
    left_roles: Option<HashSet<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Body = 0,
    Rescue = 1,
    Always = 2,
}

#[derive(Debug, Clone)]
struct Level {
    block: Arc<Block>,
    part: Part,
    index: usize,
    /// A task failed at this level and was not rescued.
    failed: bool,
    /// Only notified handlers run at this level.
    handlers: bool,
    /// Handlers that run without a notification.
    notified: bool,
    /// A task of the role has run.
    ran: bool,
}

impl Level {
    fn items(&self) -> &[Item] {
        match self.part {
            Part::Body => &self.block.body,
            Part::Rescue => &self.block.rescue,
            Part::Always => &self.block.always,
        }
    }
}

/// Conditions for skipping an item.
pub struct Selection<'a> {
    /// `--tags`.
    pub tags: &'a TagFilter,
    /// Whether a handler has been notified; consumes the notification.
    pub take_notified: &'a mut dyn FnMut(&Arc<Task>) -> bool,
}

impl Cursor {
    /// A cursor at the start of a play.
    pub fn new(play: &Arc<Block>) -> Cursor {
        let mut cursor = Cursor {
            stack: Vec::new(),
            completed_roles: HashSet::new(),
            failed: false,
            rescued: 0,
            handler_failed: false,
            left_roles: None,
        };
        cursor.push(Arc::clone(play), false);
        cursor
    }

    /// Predicts the host's path if nothing fails, as far as it is certain.
    pub fn forecast(&self) -> Cursor {
        Cursor { left_roles: Some(HashSet::new()), ..self.clone() }
    }

    /// Whether the host has failed for good.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Number of failures that were rescued.
    pub fn rescued(&self) -> u32 {
        self.rescued
    }

    fn push(&mut self, block: Arc<Block>, handlers: bool) {
        self.stack.push(Level {
            block,
            part: Part::Body,
            index: 0,
            failed: false,
            handlers,
            notified: false,
            ran: false,
        });
    }

    /// Continues with the items of an include.
    pub fn enter(&mut self, block: Arc<Block>) {
        self.push(block, false);
    }

    /// Continues with the tasks of a handler that is an include; all of them run.
    pub fn enter_handler(&mut self, block: Arc<Block>) {
        self.push(block, false);
        if let Some(level) = self.stack.last_mut() {
            level.notified = true;
        }
    }

    /// Continues with the notified handlers.
    pub fn enter_handlers(&mut self, handlers: Arc<Block>) {
        self.push(handlers, true);
    }

    /// Next task, without moving past it.
    pub fn peek(&mut self, selection: &mut Selection<'_>) -> Option<Step> {
        loop {
            let level = self.stack.last_mut()?;
            let Some(item) = level.items().get(level.index).cloned() else {
                self.leave();
                continue;
            };
            match item {
                Item::Block(block) => {
                    let identity = block.role.as_ref().filter(|role| !role.allow_duplicates).map(|role| &role.identity);
                    let left = self.left_roles.as_ref();
                    if identity.is_some_and(|identity| left.is_some_and(|left| left.contains(identity))) {
                        return None;
                    }
                    level.index += 1;
                    let again = block
                        .role
                        .as_ref()
                        .is_some_and(|role| !role.allow_duplicates && self.completed_roles.contains(&role.identity));
                    if !again {
                        let (handlers, notified) = (level.handlers, level.notified);
                        self.push(block, handlers);
                        if let Some(level) = self.stack.last_mut() {
                            level.notified = notified;
                        }
                    }
                }
                Item::Task(task) => {
                    let selected = if level.handlers && task.handler {
                        (selection.take_notified)(&task)
                    } else if level.notified {
                        true
                    } else {
                        selection.tags.selects_task(&task)
                    };
                    if selected {
                        return Some(Step { task, position: self.position() });
                    }
                    level.index += 1;
                }
            }
        }
    }

    /// Moves past the task that [`Cursor::peek`] returned.
    pub fn advance(&mut self) {
        if let Some(level) = self.stack.last_mut() {
            level.index += 1;
        }
    }

    /// Records that a task ran, successfully or not; its roles count as having run.
    pub fn ran(&mut self) {
        for level in &mut self.stack {
            level.ran = true;
        }
    }

    /// Records a failure and moves to the nearest `rescue` or `always`. Returns true if a `rescue` will run.
    pub fn fail(&mut self) -> bool {
        let was_in_handler = self.is_in_included_handler();
        let is_rescued = self.fall();
        self.handler_failed |= was_in_handler && !self.is_in_included_handler();
        is_rescued
    }

    fn fall(&mut self) -> bool {
        loop {
            let Some(level) = self.stack.last_mut() else {
                self.failed = true;
                return false;
            };
            level.failed = true;
            match level.part {
                Part::Body if !level.block.rescue.is_empty() => {
                    level.part = Part::Rescue;
                    level.index = 0;
                    return true;
                }
                Part::Body | Part::Rescue if !level.block.always.is_empty() => {
                    level.part = Part::Always;
                    level.index = 0;
                    return false;
                }
                _ => {
                    self.stack.pop();
                }
            }
        }
    }

    /// Clears failures, so that the tasks after failed blocks run.
    pub fn clear_errors(&mut self) {
        self.failed = false;
        self.stack.iter_mut().for_each(|level| level.failed = false);
    }

    /// Whether the host has failed and is in its `rescue` or `always`.
    pub fn is_failing(&self) -> bool {
        self.failed || self.stack.iter().any(|level| level.failed)
    }

    /// Whether handlers are running.
    pub fn is_in_handlers(&self) -> bool {
        self.stack.iter().any(|level| level.handlers)
    }

    /// Whether the tasks of a handler that is an include are running.
    pub fn is_in_included_handler(&self) -> bool {
        self.stack.iter().any(|level| level.notified)
    }

    /// Whether a failure has ended a handler that is an include, since the last call.
    pub fn take_handler_failed(&mut self) -> bool {
        std::mem::take(&mut self.handler_failed)
    }

    /// Whether a failure now would be rescued.
    pub fn would_rescue(&self) -> bool {
        self.stack.iter().any(|level| level.part == Part::Body && !level.block.rescue.is_empty())
    }

    /// Ends the host's play (`end_host`, unreachable).
    pub fn stop(&mut self) {
        self.stack.clear();
    }

    /// Ends the innermost role.
    pub fn end_role(&mut self) {
        while let Some(level) = self.stack.pop() {
            if let Some(role) = &level.block.role {
                if level.ran {
                    self.completed_roles.insert(role.identity.clone());
                }
                return;
            }
        }
    }

    /// Leaves the innermost level at its end.
    fn leave(&mut self) {
        let Some(level) = self.stack.last_mut() else { return };
        match level.part {
            Part::Rescue => {
                level.failed = false;
                self.rescued += 1;
                level.part = Part::Always;
                level.index = 0;
            }
            Part::Body => {
                level.part = Part::Always;
                level.index = 0;
            }
            Part::Always => {
                let Some(level) = self.stack.pop() else { return };
                self.handler_failed |= level.failed && level.notified && !self.is_in_included_handler();
                if let (Some(left), Some(role)) = (&mut self.left_roles, &level.block.role) {
                    left.insert(role.identity.clone());
                }
                if let Some(role) = level.block.role.as_ref().filter(|_| level.ran) {
                    self.completed_roles.insert(role.identity.clone());
                }
                if level.failed {
                    self.fail();
                }
            }
        }
    }

    /// Position of the cursor. Outer levels have already advanced past the item they are in, hence the subtraction.
    fn position(&self) -> Position {
        let inner = self.stack.len().saturating_sub(1);
        let entry = |(depth, level): (usize, &Level)| {
            let index = if depth < inner { level.index.saturating_sub(1) } else { level.index };
            (level.part as u8, index as u32)
        };
        Position(self.stack.iter().enumerate().map(entry).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playbook::{BeforeHosts, Frame, FrameKind, Keywords};
    use windlass_yaml::Mapping;

    fn frame() -> Arc<Frame> {
        Arc::new(Frame {
            parent: None,
            keywords: Keywords::default(),
            vars: Arc::default(),
            kind: FrameKind::Play(BeforeHosts::default()),
            tags: Arc::default(),
        })
    }

    fn task(name: &str) -> Item {
        Item::Task(Arc::new(Task::internal(name, Mapping::new(), &frame(), &[])))
    }

    fn block(body: Vec<Item>, rescue: Vec<Item>, always: Vec<Item>) -> Arc<Block> {
        Arc::new(Block { frame: frame(), body, rescue, always, role: None })
    }

    /// Runs a play to its end; tasks whose names start with `bad` fail.
    fn run(play: Arc<Block>) -> (Vec<String>, bool) {
        let filter = TagFilter::new(&["all".to_owned()], &[]);
        let mut cursor = Cursor::new(&play);
        let mut seen = Vec::new();
        loop {
            let mut never = |_: &Arc<Task>| false;
            let Some(step) = cursor.peek(&mut Selection { tags: &filter, take_notified: &mut never }) else { break };
            seen.push(step.task.action.clone());
            cursor.advance();
            cursor.ran();
            if step.task.action.starts_with("bad") {
                cursor.fail();
            }
        }
        (seen, cursor.failed())
    }

    #[test]
    fn host_inside_include_behind_host_that_skipped_it() {
        let filter = TagFilter::new(&["all".to_owned()], &[]);
        let play = block(vec![task("include"), task("after")], vec![], vec![]);
        let mut never = |_: &Arc<Task>| false;
        let mut next =
            |cursor: &mut Cursor| cursor.peek(&mut Selection { tags: &filter, take_notified: &mut never }).unwrap();
        let (mut inside, mut past) = (Cursor::new(&play), Cursor::new(&play));
        for cursor in [&mut inside, &mut past] {
            next(cursor);
            cursor.advance();
        }
        inside.enter(block(vec![task("included")], vec![], vec![]));
        assert!(next(&mut inside).position < next(&mut past).position);
        inside.advance();
        assert_eq!(next(&mut inside).position, next(&mut past).position);
    }

    #[test]
    fn rescue_clears_failure_and_always_runs() {
        let inner = block(vec![task("bad"), task("skipped")], vec![task("rescue")], vec![task("always")]);
        let (seen, failed) = run(block(vec![Item::Block(inner), task("after")], vec![], vec![]));
        assert_eq!((seen.join(" ").as_str(), failed), ("bad rescue always after", false));
    }

    #[test]
    fn failure_without_rescue_runs_always_and_fails_host() {
        let inner = block(vec![task("bad")], vec![], vec![task("always")]);
        let (seen, failed) = run(block(vec![Item::Block(inner), task("after")], vec![], vec![]));
        assert_eq!((seen.join(" ").as_str(), failed), ("bad always", true));
    }

    #[test]
    fn failing_rescue_runs_always_then_outer_rescue() {
        let inner = block(vec![task("bad1")], vec![task("bad2")], vec![task("always")]);
        let outer = block(vec![Item::Block(inner)], vec![task("outer_rescue")], vec![]);
        let (seen, failed) = run(block(vec![Item::Block(outer), task("after")], vec![], vec![]));
        assert_eq!((seen.join(" ").as_str(), failed), ("bad1 bad2 always outer_rescue after", false));
    }
}
