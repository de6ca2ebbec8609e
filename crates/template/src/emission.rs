//! Prints values in templates with blocks.

use std::cell::RefCell;

use minijinja::value::ValueKind;
use minijinja::{Error, Output, State, Value};

use crate::context::Context;
use crate::limits;
use crate::mark::{self, is_omit};
use crate::operators::shown_as;
use crate::registry::compat;

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    /// Output of the macro or block assignment that ended last.
    static ENDED: RefCell<Option<Printed>> = const { RefCell::new(None) };
}

/// Output of a template, a macro or a block assignment.
struct Frame {
    printed: Printed,
    /// Whether this is the output of a macro or block assignment, which is inspected before it is printed.
    captures: bool,
    /// Length of the text, including that of the surrounding frames.
    total: usize,
}

/// Prints a value: nothing for None and omitted values, Python's text for others.
pub(crate) fn format(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    limits::time()?;
    let value = &returned(state, value)?;
    if value.is_none() || is_omit(value) {
        return Ok(());
    }
    if mark::is_undefined(value) && !compat(state).fails_at_undefined_output() && leaves(value) {
        return Ok(());
    }
    let is_container = matches!(value.kind(), ValueKind::Seq | ValueKind::Map);
    let text = shown_as(value, is_container && compat(state).prints_tuples())?;
    let total = FRAMES.with_borrow_mut(|frames| {
        let Some(frame) = frames.last_mut() else { return text.len() };
        match frame.printed {
            Printed::Nothing => frame.printed = Printed::One(value.clone(), text.clone()),
            Printed::One(..) => frame.printed = Printed::Several,
            Printed::Several | Printed::Undefined(_) => {}
        }
        frame.total = frame.total.saturating_add(text.len());
        frame.total
    });
    // Macros and blocks print to texts of their own, which only this check bounds.
    limits::text(total)?;
    out.write_str(&text).map_err(Error::from)
}

/// Makes the current macro return an undefined value that it prints, so that its use is an error. False outside macros.
fn leaves(undefined: &Value) -> bool {
    FRAMES.with_borrow_mut(|frames| match frames.last_mut().filter(|frame| frame.captures) {
        Some(frame) => {
            frame.printed = Printed::Undefined(undefined.clone());
            true
        }
        None => false,
    })
}

/// Begins or ends a macro or a block assignment.
pub(crate) fn capture(begins: bool) -> bool {
    FRAMES.with_borrow_mut(|frames| {
        if begins {
            let total = frames.last().map_or(0, |frame| frame.total);
            frames.push(Frame { printed: Printed::Nothing, captures: true, total });
        } else if let Some(ended) = frames.pop() {
            if let Some(around) = frames.last_mut() {
                around.total = ended.total;
            }
            ENDED.set(Some(ended.printed));
        }
    });
    begins
}

/// Result of a call or block assignment. If a macro printed exactly one value, that value replaces its text.
pub(crate) fn returned(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    let (Some(ended), Some(text)) = (ENDED.take(), value.as_str()) else { return Ok(value.clone()) };
    let value = match ended {
        Printed::Undefined(undefined) => undefined,
        Printed::One(only, printed) if printed == text => only,
        Printed::Nothing if text.is_empty() => Value::from(()),
        _ => value.clone(),
    };
    match Context::from_state(state) {
        Some(context) => Ok(context.inner().printed(value)?),
        None => Ok(value),
    }
}

/// Removes the frames of a rendering, even if it failed.
struct Guard(usize);

impl Drop for Guard {
    fn drop(&mut self) {
        FRAMES.with_borrow_mut(|frames| frames.truncate(self.0));
        ENDED.take();
    }
}

/// Values printed during a rendering.
pub(crate) enum Printed {
    /// No value.
    Nothing,
    /// One value, with its text.
    One(Value, String),
    /// Several values.
    Several,
    /// An undefined value, and possibly others.
    Undefined(Value),
}

/// Renders and records what is printed.
pub(crate) fn watch<T>(render: impl FnOnce() -> T) -> (T, Printed) {
    let guard = FRAMES.with_borrow_mut(|frames| {
        frames.push(Frame { printed: Printed::Nothing, captures: false, total: 0 });
        Guard(frames.len() - 1)
    });
    let result = render();
    let printed = FRAMES
        .with_borrow_mut(|frames| frames.last_mut().map(|last| std::mem::replace(&mut last.printed, Printed::Nothing)));
    drop(guard);
    (result, printed.unwrap_or(Printed::Nothing))
}
