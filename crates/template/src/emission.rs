//! How a template with blocks prints values.

use std::cell::RefCell;

use minijinja::value::ValueKind;
use minijinja::{Error, Output, State, Value};

use crate::context::Context;
use crate::limits;
use crate::mark::{self, is_omit};
use crate::operators::shown_as;
use crate::registry::is_classic;

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    /// What the macro or the block that ended last has printed.
    static ENDED: RefCell<Option<Printed>> = const { RefCell::new(None) };
}

/// What a template, a macro or a block that is set prints.
struct Frame {
    printed: Printed,
    /// It is not a template's, so what it gives is looked at before it is printed.
    captures: bool,
    /// The length of the text, with that of the frames around it.
    total: usize,
}

/// Prints a value: nothing for None and what is omitted, Python's text for the rest.
pub(crate) fn format(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let value = &returned(state, value)?;
    if value.is_none() || is_omit(value) {
        return Ok(());
    }
    if mark::is_undefined(value) && !is_classic(state) && leaves(value) {
        return Ok(());
    }
    let is_container = matches!(value.kind(), ValueKind::Seq | ValueKind::Map);
    let text = shown_as(value, is_container && is_classic(state))?;
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
    // What macros and blocks print goes into texts of their own, which nobody else counts.
    limits::text(total)?;
    out.write_str(&text).map_err(Error::from)
}

/// Has a macro give an undefined value that it prints, so that it is an error where it is used. False outside of macros.
fn leaves(undefined: &Value) -> bool {
    FRAMES.with_borrow_mut(|frames| match frames.last_mut().filter(|frame| frame.captures) {
        Some(frame) => {
            frame.printed = Printed::Undefined(undefined.clone());
            true
        }
        None => false,
    })
}

/// A macro or a block that is set begins or ends.
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

/// What a call or a block that is set gives: the value that a macro printed, if it was the only one, in place of its text.
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

/// Takes away the frames of a rendering, also where it broke off.
struct Guard(usize);

impl Drop for Guard {
    fn drop(&mut self) {
        FRAMES.with_borrow_mut(|frames| frames.truncate(self.0));
        ENDED.take();
    }
}

/// What was printed while something was rendered.
pub(crate) enum Printed {
    /// No value.
    Nothing,
    /// One value, and its text.
    One(Value, String),
    /// Several values.
    Several,
    /// What is undefined, and maybe more.
    Undefined(Value),
}

/// Renders and watches what is printed.
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
