//! Ansible's tests of values.

use std::collections::HashSet;

use minijinja::value::ValueKind;
use minijinja::{State, Value};
use windlass_yaml::boolean;

use super::jinja;
use crate::Context;
use crate::filters::call::{Arguments, Verdict};
use crate::filters::urls::Parts;
use crate::python::container::{is_list, items};
use crate::python::regex::{Anchor, Flags, compile};
use crate::python::{number, order, text, truth};

pub(super) fn matches(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    find(args, Anchor::Match)
}

pub(super) fn search(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    find(args, Anchor::Search)
}

pub(super) fn regex(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let anchor = match args.text_of("match_type").as_deref() {
        None | Some("search" | "findall") => Anchor::Search,
        Some("match") => Anchor::Match,
        Some("fullmatch") => Anchor::Full,
        Some(other) => return Err(args.error(format!("matches by 'search', 'match' or 'fullmatch', not by '{other}'"))),
    };
    find(args, anchor)
}

fn find(args: &Arguments, anchor: Anchor) -> Verdict {
    let flags =
        Flags { ignore_case: args.flag("ignorecase", false), multi_line: args.flag("multiline", false), anchor };
    let pattern = args.expression("pattern")?;
    let subject = args.text();
    compile(pattern, flags).and_then(|pattern| pattern.is_match(&subject)).map_err(|reason| args.failed(reason))
}

pub(super) fn all(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.items()?.iter().all(truth))
}

pub(super) fn any(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(args.items()?.iter().any(truth))
}

/// Whether the value is true; optionally, words such as `yes` and `no` count too.
fn is_truthy(args: &Arguments) -> bool {
    let value = args.value();
    let word = value.as_str().filter(|_| args.flag("convert_bool", false)).and_then(boolean::word);
    word.unwrap_or_else(|| truth(value))
}

pub(super) fn truthy(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(is_truthy(args))
}

pub(super) fn falsy(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(!is_truthy(args))
}

pub(super) fn contains(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    jinja::contains(args.value(), args.need("value")?).ok_or_else(|| args.unsuitable("text, a list or a dictionary"))
}

pub(super) fn nan(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let value = args.value();
    Ok(value.kind() == ValueKind::Number && number::as_float(value).is_some_and(f64::is_nan))
}

pub(super) fn subset(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let (one, other) = both(args)?;
    Ok(contained(&one, &other))
}

pub(super) fn superset(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let (one, other) = both(args)?;
    Ok(contained(&other, &one))
}

fn contained(items: &[Value], others: &[Value]) -> bool {
    let others: HashSet<Value> = others.iter().map(order::hash_key).collect();
    items.iter().all(|item| others.contains(&order::hash_key(item)))
}

fn both(args: &Arguments) -> Result<(Vec<Value>, Vec<Value>), minijinja::Error> {
    let other = args.need("other")?;
    let other = items(other).ok_or_else(|| args.wrong("other", "a list", other))?;
    Ok((args.items()?, other))
}

fn schemes(args: &Arguments) -> Option<Vec<String>> {
    let schemes = args.some("schemes").filter(|schemes| truth(schemes))?;
    Some(if is_list(schemes) {
        schemes.try_iter().ok()?.map(|scheme| text(&scheme)).collect()
    } else {
        vec![text(schemes)]
    })
}

pub(super) fn uri(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let Some(text) = args.value().as_str() else {
        return Ok(false);
    };
    let parts = Parts::split(text);
    Ok(schemes(args).is_none_or(|schemes| schemes.contains(&parts.scheme)))
}

pub(super) fn url(state: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let parts = Parts::split(&args.text());
    Ok(uri(state, args)? && !parts.scheme.is_empty() && !parts.netloc.is_empty())
}

pub(super) fn urn(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    Ok(Parts::split(&args.text()).scheme == "urn")
}

/// Values are decrypted before a template sees them, so this tests whether a value came from a vault.
pub(super) fn vault_encrypted(state: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let Some(text) = args.value().as_str() else { return Ok(false) };
    Ok(Context::from_state(state).is_some_and(|context| context.engine().revealed().contains(text)))
}
