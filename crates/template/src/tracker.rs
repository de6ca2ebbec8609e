//! Tracks rendering on this thread: the variables that a value depends on, and variables that refer to themselves.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// Names of the variables that a value depends on.
pub type Dependencies = HashSet<Arc<str>, foldhash::fast::RandomState>;

/// Maximum depth of variables rendered within one another.
const DEPTH: usize = 150;

struct Frame {
    /// The rendered variable and its context; `None` for an item of a container.
    variable: Option<(usize, Arc<str>)>,
    dependencies: Dependencies,
}

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// Records the use of a variable.
pub(crate) fn touch(name: &str) {
    FRAMES.with_borrow_mut(|frames| {
        if let Some(frame) = frames.last_mut()
            && !frame.dependencies.contains(name)
        {
            frame.dependencies.insert(Arc::from(name));
        }
    });
}

/// Records the use of a value with these dependencies.
pub(crate) fn depends_on(dependencies: &Dependencies) {
    FRAMES.with_borrow_mut(|frames| {
        if let Some(frame) = frames.last_mut() {
            for name in dependencies {
                if !frame.dependencies.contains(name) {
                    frame.dependencies.insert(name.clone());
                }
            }
        }
    });
}

/// Runs `work` and returns the variables it read.
pub fn reading<T>(work: impl FnOnce() -> T) -> (T, Arc<Dependencies>) {
    collect(work)
}

/// Whether this [`reading`] scope has read a matching variable so far.
pub fn has_read(is_one: impl Fn(&str) -> bool) -> bool {
    FRAMES.with_borrow(|frames| frames.last().is_some_and(|frame| frame.dependencies.iter().any(|name| is_one(name))))
}

/// Dependency on anything but variables: files of this machine, output of programs, answers from the network. Its value
/// may differ the next time.
pub const OUTSIDE: &str = "(outside)";

/// Dependency on the project's files, except those loaded before the run.
pub const PROJECT: &str = "(project)";

/// Records a read of something other than a variable.
pub fn reads_outside() {
    touch(OUTSIDE);
}

/// Records a read of a file of the project.
pub fn reads_project() {
    touch(PROJECT);
}

/// Runs `work` and collects its dependencies.
pub(crate) fn collect<T>(work: impl FnOnce() -> T) -> (T, Arc<Dependencies>) {
    within(None, work)
}

/// Renders a variable; fails if it is already being rendered.
pub(crate) fn render<T>(
    context: usize,
    name: &Arc<str>,
    work: impl FnOnce() -> T,
) -> Result<(T, Arc<Dependencies>), Error> {
    let chain = FRAMES.with_borrow(|frames| {
        let variables: Vec<&(usize, Arc<str>)> = frames.iter().filter_map(|frame| frame.variable.as_ref()).collect();
        let start = variables.iter().position(|(own, other)| *own == context && other == name);
        let start = start.or_else(|| (variables.len() >= DEPTH).then(|| variables.len() - 10));
        start.map(|start| {
            let mut chain: Vec<String> = variables[start..].iter().map(|(_, name)| name.to_string()).collect();
            chain.push(name.to_string());
            chain
        })
    });
    match chain {
        Some(chain) => {
            let message = format!("Recursive loop detected: the variable refers to itself: {}.", chain.join(" -> "));
            Err(Error::new(ErrorKind::Recursion { chain }, message))
        }
        None => Ok(within(Some((context, name.clone())), work)),
    }
}

/// Removes the frame even if the work panics.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        FRAMES.with_borrow_mut(Vec::pop);
    }
}

fn within<T>(variable: Option<(usize, Arc<str>)>, work: impl FnOnce() -> T) -> (T, Arc<Dependencies>) {
    FRAMES.with_borrow_mut(|frames| frames.push(Frame { variable, dependencies: Dependencies::default() }));
    let guard = Guard;
    let result = work();
    let dependencies = FRAMES.with_borrow_mut(|frames| {
        frames.last_mut().map(|frame| std::mem::take(&mut frame.dependencies)).unwrap_or_default()
    });
    drop(guard);
    (result, Arc::new(dependencies))
}
