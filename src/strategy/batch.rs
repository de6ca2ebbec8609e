//! `serial`: splits the hosts of a play into batches.

use std::sync::Arc;

use windlass_template::{Context, Value};
use windlass_yaml::Node;

use crate::error::{Error, Result};
use crate::vars::given;

/// Splits the hosts of a play into batches.
pub(super) fn batches(serial: Option<&Node>, hosts: &[Arc<str>], context: &Context) -> Result<Vec<Vec<Arc<str>>>> {
    let mut sizes = Vec::new();
    if let Some(node) = serial
        && let Some(value) = given(context, node).map_err(|error| Error::parse(error.to_string(), &node.span))?
    {
        let entries: Vec<Value> = match value.kind() {
            minijinja::value::ValueKind::Seq => value.try_iter().into_iter().flatten().collect(),
            _ => vec![value],
        };
        for entry in entries {
            let text = windlass_template::text(&entry);
            let size = size_of(&text, hosts.len());
            sizes.push(size.ok_or_else(|| {
                Error::parse(format!("serial must be a number or a percentage, not '{text}'"), &node.span)
            })?);
        }
    }
    let mut rest = hosts;
    let mut batches = Vec::new();
    let mut sizes = sizes.into_iter().peekable();
    let mut last = hosts.len().max(1);
    while !rest.is_empty() {
        last = sizes.next().unwrap_or(last);
        let size = if last == 0 { rest.len() } else { last.min(rest.len()) };
        let (batch, others) = rest.split_at(size);
        batches.push(batch.to_vec());
        rest = others;
    }
    Ok(batches)
}

/// A number, or a percentage of all hosts rounded down, but at least one.
fn size_of(text: &str, total: usize) -> Option<usize> {
    match text.trim().strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent.trim().parse().ok()?;
            Some(((percent / 100.0 * total as f64) as usize).max(1))
        }
        None => text.trim().parse::<i64>().ok().map(|size| usize::try_from(size).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentage_rounded_down_to_at_least_one() {
        assert_eq!(size_of("20%", 3), Some(1));
        assert_eq!(size_of("50%", 5), Some(2));
        assert_eq!(size_of("2", 5), Some(2));
        assert_eq!(size_of("two", 5), None);
    }
}
