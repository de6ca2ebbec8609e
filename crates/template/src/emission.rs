//! How a template with blocks prints values.

use std::cell::RefCell;

use minijinja::{Error, Output, State, Value};

use crate::mark::is_omit;
use crate::operators::shown;

/// What a rendering has printed so far, as far as it can be a single value.
#[derive(Default)]
enum Emitted {
    #[default]
    Nothing,
    One(Value, String),
    Several,
}

thread_local! {
    static EMITTED: RefCell<Vec<Emitted>> = const { RefCell::new(Vec::new()) };
}

/// Prints a value: nothing for None and what is omitted, Python's text for the rest.
pub(crate) fn format(out: &mut Output<'_>, _state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.is_none() || is_omit(value) {
        return Ok(());
    }
    let text = shown(value)?;
    EMITTED.with_borrow_mut(|stack| {
        if let Some(emitted) = stack.last_mut() {
            *emitted = match emitted {
                Emitted::Nothing => Emitted::One(value.clone(), text.clone()),
                Emitted::One(..) | Emitted::Several => Emitted::Several,
            };
        }
    });
    out.write_str(&text).map_err(Error::from)
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        EMITTED.with_borrow_mut(Vec::pop);
    }
}

/// Renders and watches: the value and its text, if exactly one value was printed.
pub(crate) fn watch<T>(render: impl FnOnce() -> T) -> (T, Option<(Value, String)>) {
    EMITTED.with_borrow_mut(|stack| stack.push(Emitted::Nothing));
    let guard = Guard;
    let result = render();
    let emitted = EMITTED.with_borrow_mut(|stack| stack.last_mut().map(std::mem::take));
    drop(guard);
    match emitted {
        Some(Emitted::One(value, text)) => (result, Some((value, text))),
        _ => (result, None),
    }
}
