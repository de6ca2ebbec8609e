//! What is being rendered on this thread: which variables a value depends on, and whether one refers to itself.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// The names of the variables a value was made from.
pub type Dependencies = HashSet<Arc<str>, foldhash::fast::RandomState>;

/// How many variables may be rendered within each other.
const DEPTH: usize = 150;

struct Frame {
    /// The variable that is being rendered and the context it is rendered in; none for an item of a container.
    variable: Option<(usize, Arc<str>)>,
    dependencies: Dependencies,
}

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a variable was asked for.
pub(crate) fn touch(name: &str) {
    FRAMES.with_borrow_mut(|frames| {
        if let Some(frame) = frames.last_mut()
            && !frame.dependencies.contains(name)
        {
            frame.dependencies.insert(Arc::from(name));
        }
    });
}

/// Notes that a value with these dependencies was used.
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

/// Does something, and tells which variables it read.
pub fn reading<T>(work: impl FnOnce() -> T) -> (T, Arc<Dependencies>) {
    collect(work)
}

/// Whether one of the names that were read so far, of what is being done within [`reading`], is one of these.
pub fn has_read(is_one: impl Fn(&str) -> bool) -> bool {
    FRAMES.with_borrow(|frames| frames.last().is_some_and(|frame| frame.dependencies.iter().any(|name| is_one(name))))
}

/// Stands among what was read for everything that is not a variable: files of this machine, output of programs, answers of the network. What is
/// read there may be another the next time.
pub const OUTSIDE: &str = "(outside)";

/// Stands for the project's own files, except those that are loaded before it runs.
pub const PROJECT: &str = "(project)";

/// Notes that something was read that is not a variable.
pub fn reads_outside() {
    touch(OUTSIDE);
}

/// Notes that a file of the project was read.
pub fn reads_project() {
    touch(PROJECT);
}

/// Does something and collects what it depends on.
pub(crate) fn collect<T>(work: impl FnOnce() -> T) -> (T, Arc<Dependencies>) {
    within(None, work)
}

/// Renders a variable, unless it is being rendered already.
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

/// Takes the frame away again, however the work ends.
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
