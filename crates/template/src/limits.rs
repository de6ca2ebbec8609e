//! Limits on the size of results and the run time of templates. Without them, a mistake could exhaust the memory or
//! never end.

use crate::error::Error;

/// Longest text of an expression, in bytes.
pub(crate) const LONGEST_TEXT: usize = 100_000_000;

/// Longest list of an expression.
pub(crate) const LONGEST_LIST: usize = 10_000_000;

/// Maximum number of values that a filter reads from a text. A value takes some hundred bytes, but may be two bytes of
/// text.
pub(crate) const MOST_VALUES: u64 = 1_000_000;

/// Maximum number of steps of one template. The smallest loop takes about three for each item.
pub(crate) const STEPS: u64 = if cfg!(test) { 500_000 } else { 500_000_000 };

/// Deepest nesting of values in a namespace.
const DEPTH: usize = 1_000;

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

/// Maximum number of values in a YAML text of this length, where an alias counts as all that it stands for.
pub(crate) fn yaml_values(length: usize) -> u64 {
    MOST_VALUES.min(1_000 + 16 * length as u64)
}

/// Refuses texts over the limit, in bytes.
pub(crate) fn text(length: usize) -> Result<(), Error> {
    if length <= LONGEST_TEXT {
        return Ok(());
    }
    Err(Error::filter(format!(
        "The result is too large: a text of {length} bytes, where at most {LONGEST_TEXT} are possible."
    )))
}

/// Refuses lists over the limit.
pub(crate) fn list(length: usize) -> Result<(), Error> {
    if length <= LONGEST_LIST {
        return Ok(());
    }
    Err(Error::filter(format!(
        "The result is too large: a list of {length} items, where at most {LONGEST_LIST} are possible."
    )))
}

/// Passes a result on if its size is within the limits, which also bounds repeated operations.
pub(crate) fn value(value: minijinja::Value) -> Result<minijinja::Value, Error> {
    match value.as_str() {
        Some(made) => text(made.len())?,
        None if value.kind() == minijinja::value::ValueKind::Seq => list(value.len().unwrap_or_default())?,
        None => {}
    }
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
pub(crate) fn nesting(value: &minijinja::Value) -> Result<(), Error> {
    // Enough to find a value that a loop wraps repeatedly, yet cheap for large data.
    const VISITS: usize = 5_000;
    let mut pending = vec![(value.clone(), 0)];
    for _ in 0..VISITS {
        let Some((value, depth)) = pending.pop() else { break };
        if depth > DEPTH {
            return Err(Error::filter(format!("The value nests deeper than {DEPTH} levels.")));
        }
        if let Some(items) = value.downcast_object_ref::<Vec<minijinja::Value>>() {
            pending.extend(items.iter().take(VISITS).map(|item| (item.clone(), depth + 1)));
        } else if let Some(entries) =
            value.downcast_object_ref::<indexmap::IndexMap<minijinja::Value, minijinja::Value>>()
        {
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
