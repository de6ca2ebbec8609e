//! How a template with blocks prints values.

use std::cell::RefCell;

use minijinja::value::ValueKind;
use minijinja::{Error, Output, State, Value};

use crate::limits;
use crate::mark::is_omit;
use crate::operators::shown_as;
use crate::registry::is_classic;

thread_local! {
    static PRINTED: RefCell<Vec<(Printed, usize)>> = const { RefCell::new(Vec::new()) };
}

/// Prints a value: nothing for None and what is omitted, Python's text for the rest.
pub(crate) fn format(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.is_none() || is_omit(value) {
        return Ok(());
    }
    let is_container = matches!(value.kind(), ValueKind::Seq | ValueKind::Map);
    let text = shown_as(value, is_container && is_classic(state))?;
    let total = PRINTED.with_borrow_mut(|stack| {
        let Some((printed, total)) = stack.last_mut() else { return text.len() };
        *printed = match printed {
            Printed::Nothing => Printed::One(value.clone(), text.clone()),
            Printed::One(..) | Printed::Several => Printed::Several,
        };
        *total = total.saturating_add(text.len());
        *total
    });
    // What macros and blocks print goes into texts of their own, which nobody else counts.
    limits::text(total)?;
    out.write_str(&text).map_err(Error::from)
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        PRINTED.with_borrow_mut(Vec::pop);
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
}

/// Renders and watches what is printed.
pub(crate) fn watch<T>(render: impl FnOnce() -> T) -> (T, Printed) {
    PRINTED.with_borrow_mut(|stack| stack.push((Printed::Nothing, 0)));
    let guard = Guard;
    let result = render();
    let printed =
        PRINTED.with_borrow_mut(|stack| stack.last_mut().map(|(last, _)| std::mem::replace(last, Printed::Nothing)));
    drop(guard);
    (result, printed.unwrap_or(Printed::Nothing))
}
