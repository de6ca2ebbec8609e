//! Limits on the size of results and the run time of templates. Without them, a mistake could exhaust the memory or
//! never end.

use std::cell::Cell;

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::error::Error;

/// Longest text of an expression, in bytes.
pub(crate) const LONGEST_TEXT: usize = 100_000_000;

/// Longest list of an expression.
pub(crate) const LONGEST_LIST: usize = 10_000_000;

/// Maximum number of values that a filter reads from a text, unless other limits are lower. A value takes some hundred
/// bytes, but may be two bytes of text.
pub(crate) const MOST_VALUES: u64 = 1_000_000;

/// Maximum number of steps of one template. The smallest loop takes about three for each item.
pub(crate) const STEPS: u64 = if cfg!(test) { 500_000 } else { 500_000_000 };

/// Deepest nesting of values in a namespace.
const DEPTH: usize = 1_000;

/// Size in bytes that [`work`] counts for a value in addition to its text.
const VALUE: usize = 32;

/// Limits on what one evaluation makes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest text of a result, in bytes.
    pub text: usize,
    /// Longest list of a result.
    pub list: usize,
    /// Sum of the sizes of all operands and results in bytes, which bounds time and memory whatever the expression;
    /// `None` for no such limit. A value that a list holds twice counts twice.
    pub work: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: LONGEST_TEXT, list: LONGEST_LIST, work: None }
    }
}

thread_local! {
    /// Limits of this thread's evaluation, with the work that is left.
    static CURRENT: Cell<Limits> = const { Cell::new(Limits { text: LONGEST_TEXT, list: LONGEST_LIST, work: None }) };
}

/// Evaluates under limits. An evaluation within another one keeps the other's, and shares its work.
pub(crate) fn within<T>(limits: Limits, evaluate: impl FnOnce() -> T) -> T {
    struct Restore(Limits);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    if limits.work.is_none() || CURRENT.get().work.is_some() {
        return evaluate();
    }
    let _restore = Restore(CURRENT.replace(limits));
    evaluate()
}

/// Subtracts the sizes of operands or results from the remaining work. Every operator, filter and method calls this.
pub(crate) fn work<'v>(values: impl IntoIterator<Item = &'v Value>) -> Result<(), Error> {
    time()?;
    if CURRENT.get().work.is_none() {
        return Ok(());
    }
    let mut pending: Vec<Value> = values.into_iter().cloned().collect();
    while let Some(value) = pending.pop() {
        let text = value.as_str().map(str::len).or_else(|| value.as_bytes().map(<[u8]>::len));
        take(VALUE + text.unwrap_or_default())?;
        let is_map = value.kind() == ValueKind::Map;
        if !is_map && !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            continue;
        }
        for item in value.try_iter().into_iter().flatten() {
            if is_map {
                pending.extend(value.get_item(&item).ok());
            }
            pending.push(item);
        }
    }
    Ok(())
}

/// Subtracts bytes that a filter is about to produce from the remaining work. Fails if too little remains.
pub(crate) fn take(amount: usize) -> Result<(), Error> {
    let limits = CURRENT.get();
    let Some(left) = limits.work else { return Ok(()) };
    let rest = left.checked_sub(amount);
    CURRENT.set(Limits { work: Some(rest.unwrap_or_default()), ..limits });
    match rest {
        Some(_) => Ok(()),
        None => Err(Error::filter("The expression works on too much data.")),
    }
}

/// Like [`take`], for a number of values.
pub(crate) fn take_values(count: usize) -> Result<(), Error> {
    take(count.saturating_mul(VALUE))
}

/// Longest text of a result, in bytes.
pub(crate) fn longest_text() -> usize {
    CURRENT.get().text
}

/// Ends a template at the deadline of its task. Every loop, operator, filter and printed value calls this.
pub(crate) fn time() -> Result<(), Error> {
    if windlass_bounds::child::is_overdue() {
        return Err(Error::filter("The template did not end within the `timeout` of its task."));
    }
    Ok(())
}

/// Like [`time`], for loops that report errors as sentences.
pub(crate) fn in_time() -> Result<(), String> {
    time().map_err(|error| error.to_string())
}

/// Maximum number of values that a filter reads from a text.
pub(crate) fn most_values() -> u64 {
    CURRENT.get().work.map_or(MOST_VALUES, |left| MOST_VALUES.min((left / VALUE) as u64))
}

/// Maximum number of values in a YAML text of this length, where an alias counts as all that it stands for.
pub(crate) fn yaml_values(length: usize) -> u64 {
    most_values().min(1_000 + 16 * length as u64)
}

/// Refuses texts over the limit, in bytes.
pub(crate) fn text(length: usize) -> Result<(), Error> {
    let most = longest_text();
    if length <= most {
        return Ok(());
    }
    Err(Error::filter(format!("The result is too large: a text of {length} bytes, where at most {most} are possible.")))
}

/// Refuses lists over the limit.
pub(crate) fn list(length: usize) -> Result<(), Error> {
    let most = CURRENT.get().list;
    if length <= most {
        return Ok(());
    }
    Err(Error::filter(format!("The result is too large: a list of {length} items, where at most {most} are possible.")))
}

/// Passes a result on if its size is within the limits, which also bounds repeated operations.
pub(crate) fn value(value: Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(made) => text(made.len())?,
        None if value.kind() == ValueKind::Seq => list(value.len().unwrap_or_default())?,
        None => {}
    }
    work([&value])?;
    Ok(value)
}

/// Refuses widths and precisions beyond any possible text. `specifications` come from formats such as `%5d` or `{:>5}`.
pub(crate) fn widths<'f>(specifications: impl Iterator<Item = &'f str>) -> Result<(), Error> {
    let mut total = 0usize;
    for specification in specifications {
        for (index, digits) in specification.split(|character: char| !character.is_ascii_digit()).enumerate() {
            let width: usize = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(usize::MAX) };
            // The number after the point is a precision, which has a smaller range.
            if index > 0 && specification.contains('.') && width > usize::from(u16::MAX) {
                return Err(Error::filter(format!("The precision {digits} of the format is too large.")));
            }
            total = total.saturating_add(width);
        }
    }
    text(total)
}

/// Refuses values that nest too deeply for any further processing.
pub(crate) fn nesting(value: &Value) -> Result<(), Error> {
    // Enough to find a value that a loop wraps repeatedly, yet cheap for large data.
    const VISITS: usize = 5_000;
    let mut pending = vec![(value.clone(), 0)];
    for _ in 0..VISITS {
        let Some((value, depth)) = pending.pop() else { break };
        if depth > DEPTH {
            return Err(Error::filter(format!("The value nests deeper than {DEPTH} levels.")));
        }
        if let Some(items) = value.downcast_object_ref::<Vec<Value>>() {
            pending.extend(items.iter().take(VISITS).map(|item| (item.clone(), depth + 1)));
        } else if let Some(entries) = value.downcast_object_ref::<indexmap::IndexMap<Value, Value>>() {
            pending.extend(entries.values().take(VISITS).map(|item| (item.clone(), depth + 1)));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use indexmap::IndexMap;
    use windlass_yaml::{Node, Span};

    use crate::{Engine, LIBRARY, Options, Variable};

    #[expect(clippy::disallowed_methods, reason = "the template is the test's own")]
    fn rendered(template: &str) -> Result<String, String> {
        let variables: IndexMap<Arc<str>, Variable> = IndexMap::new();
        let context = Engine::new(&LIBRARY, Options::default()).scope(Arc::new(variables));
        context.render_to_string(&Node::of_project(template, Span::none())).map_err(|error| error.to_string())
    }

    #[test]
    fn nested_loops_beyond_limit_end() {
        assert_eq!(rendered("{% for a in range(100000) %}{% endfor %}x").unwrap(), "x");
        let error =
            rendered("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}").unwrap_err();
        assert!(error.contains("did not end within 500000 steps"), "{error}");
    }
}
