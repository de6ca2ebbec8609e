//! Lookups that build lists of lists, mostly used as `with_name`.

use minijinja::Value;

use super::call::{Answer, Call};
use super::key_value;
use crate::filters::sets::{MOST_RESULTS, Missing, Nulls, flatten_into, subelement_pairs};
use crate::python::container::{dict as dict_value, is_dict, is_list, list as list_value, pairs, step, tuple};
use crate::python::number;
use crate::python::random::Random;
use crate::python::{text, truth};

/// Flattens nested lists by one level.
fn flattened_once(items: &[Value]) -> Vec<Value> {
    let mut flat = Vec::new();
    for item in items {
        match is_list(item) {
            true => flat.extend(item.try_iter().into_iter().flatten()),
            false => flat.push(item.clone()),
        }
    }
    flat
}

/// The terms as lists; without terms, an error with this sentence of Ansible's.
fn lists(call: &Call<'_>, without_terms: &str) -> Result<Vec<Vec<Value>>, crate::Error> {
    if call.terms.is_empty() {
        return Err(crate::Error::lookup(without_terms));
    }
    let list = |term: &Value| match is_list(term) {
        true => term.try_iter().into_iter().flatten().collect(),
        false => vec![term.clone()],
    };
    Ok(call.terms.iter().map(list).collect())
}

pub(super) fn items(call: &Call<'_>) -> Answer {
    Ok(flattened_once(call.terms))
}

pub(super) fn list(call: &Call<'_>) -> Answer {
    Ok(call.terms.to_vec())
}

pub(super) fn indexed_items(call: &Call<'_>) -> Answer {
    if matches!(call.terms, [term] if is_dict(term)) {
        return Err(crate::Error::lookup("with_indexed_items expects a list"));
    }
    let items = flattened_once(call.terms).into_iter().enumerate();
    Ok(items.map(|(index, item)| tuple(vec![Value::from(index), item])).collect())
}

pub(super) fn flattened(call: &Call<'_>) -> Answer {
    let mut flat = Vec::new();
    flatten_into(call.terms, None, Nulls::Kept, &mut flat);
    Ok(flat)
}

pub(super) fn dict(call: &Call<'_>) -> Answer {
    let mut entries = Vec::new();
    for term in call.terms {
        let Some(pairs) = pairs(term) else {
            return Err(crate::Error::lookup(format!(
                "with_dict expects a dict, and was given {}",
                crate::filters::call::shown(term)
            )));
        };
        let entry = |(key, value)| dict_value([(Value::from("key"), key), (Value::from("value"), value)]);
        entries.extend(pairs.into_iter().map(entry));
    }
    Ok(entries)
}

/// Every combination of one item from each list; the last list varies fastest.
fn combinations(call: &Call<'_>, lists: &[Vec<Value>]) -> Result<Vec<Vec<Value>>, crate::Error> {
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for list in lists {
        if rows.len().saturating_mul(list.len()) > MOST_RESULTS {
            return Err(call.error(format!("will not make more than {MOST_RESULTS} items")));
        }
        let extended = |row: &Vec<Value>| {
            list.iter().map(|item| [row.as_slice(), std::slice::from_ref(item)].concat()).collect::<Vec<_>>()
        };
        rows = rows.iter().flat_map(extended).collect();
    }
    Ok(rows)
}

pub(super) fn nested(call: &Call<'_>) -> Answer {
    let lists = lists(call, "with_nested requires at least one element in the nested list")?;
    Ok(combinations(call, &lists)?.iter().map(|row| list_value(flattened_once(row))).collect())
}

pub(super) fn cartesian(call: &Call<'_>) -> Answer {
    let lists = lists(call, "with_cartesian requires at least one element in each list")?;
    Ok(combinations(call, &lists)?.into_iter().map(list_value).collect())
}

pub(super) fn together(call: &Call<'_>) -> Answer {
    let lists = lists(call, "with_together requires at least one element in each list")?;
    let rows = lists.iter().map(Vec::len).max().unwrap_or_default();
    let cell = |list: &Vec<Value>, row: usize| list.get(row).cloned().unwrap_or_else(|| Value::from(()));
    let row = |row| list_value(flattened_once(&lists.iter().map(|list| cell(list, row)).collect::<Vec<_>>()));
    Ok((0..rows).map(row).collect())
}

const SUBELEMENTS: &str = "expects a list of two or three items: first a dict or a list, second a string with the key of the lists inside, third options";

pub(super) fn subelements(call: &Call<'_>) -> Answer {
    let (Some(elements), Some(key), None) = (call.terms.first(), call.terms.get(1), call.terms.get(3)) else {
        return Err(call.error(SUBELEMENTS));
    };
    if key.as_str().is_none() {
        return Err(call.error(SUBELEMENTS));
    }
    if call.terms.get(2).is_some_and(|flags| !is_dict(flags)) {
        return Err(call.error("failed: the optional third item must be a dict, such as {'skip_missing': true}"));
    }
    let skip_missing = call
        .terms
        .get(2)
        .filter(|flags| is_dict(flags))
        .and_then(|flags| step(flags, &Value::from("skip_missing")))
        .is_some_and(|skip| skip.as_str().map_or_else(|| truth(&skip), windlass_yaml::boolean::is_true));
    // The registered result of a skipped loop, or of a skipped item, has no items.
    let skipped = |element: &Value| step(element, &Value::from("skipped")).is_some_and(|skipped| truth(&skipped));
    if is_dict(elements) && skipped(elements) {
        return Ok(Vec::new());
    }
    let elements: Vec<Value> = match pairs(elements) {
        Some(pairs) => pairs.into_iter().map(|(_, element)| element).collect(),
        None if is_list(elements) => elements.try_iter().into_iter().flatten().collect(),
        None => return Err(call.error(format!("expects a dictionary or a list as its first term, and {SUBELEMENTS}"))),
    };
    let elements: Vec<Value> = elements.into_iter().filter(|element| !skipped(element)).collect();
    let path: Vec<Value> = text(key).split('.').map(Value::from).collect();
    let missing = if skip_missing { Missing::Skipped } else { Missing::Error };
    let found =
        subelement_pairs(&elements, &path, missing).map_err(|reason| call.error(format!("failed: {reason}")))?;
    // The element is returned without the list that its partner comes from.
    let pair = |pair: Value| {
        let mut parts: Vec<Value> = pair.try_iter().into_iter().flatten().collect();
        if let Some(element) = parts.first_mut() {
            *element = without(element, &path);
        }
        tuple(parts)
    };
    Ok(found.into_iter().map(pair).collect())
}

/// Removes the value at a path from a dictionary.
fn without(value: &Value, path: &[Value]) -> Value {
    let Some((first, rest)) = path.split_first() else {
        return value.clone();
    };
    let entries = pairs(value).unwrap_or_default().into_iter().filter_map(|(key, inner)| {
        if key != *first {
            return Some((key, inner));
        }
        (!rest.is_empty()).then(|| (key, without(&inner, rest)))
    });
    dict_value(entries)
}

pub(super) fn random_choice(call: &Call<'_>) -> Answer {
    let mut random = Random::new(None);
    Ok(match call.terms {
        [] => Vec::new(),
        terms => vec![terms[random.index(terms.len())].clone()],
    })
}

/// Parameters of a sequence.
#[derive(Clone, Debug, Default)]
struct Sequence {
    start: Option<i128>,
    end: Option<i128>,
    count: Option<i128>,
    stride: Option<i128>,
    format: Option<String>,
}

impl Sequence {
    fn set(&mut self, name: &str, value: &Value) -> Result<(), crate::Error> {
        if name == "format" {
            self.format = Some(text(value));
            return Ok(());
        }
        let parsed = match value.as_str() {
            Some(text) => number::parse_int(text, 0).or_else(|| number::parse_int(text, 10)),
            None => number::to_int(value),
        };
        let number = parsed.ok_or_else(|| {
            let reason =
                format!("Invalid type for '{name}' of the lookup 'sequence': '{}' is not an integer", text(value));
            crate::Error::lookup(reason)
        })?;
        match name {
            "start" => self.start = Some(number),
            "end" => self.end = Some(number),
            "count" => self.count = Some(number),
            "stride" => self.stride = Some(number),
            // `set` is only called with known names.
            _ => {}
        }
        Ok(())
    }

    /// Parses `5`, `2-8`, `2-8/2` or `4:host%02d`.
    fn shortcut(&mut self, term: &str) -> bool {
        let (numbers, format) = match term.split_once(':') {
            Some((numbers, format)) => (numbers, Some(format.to_owned())),
            None => (term, None),
        };
        let (range, stride) = match numbers.split_once('/') {
            Some((range, stride)) => (range, Some(stride)),
            None => (numbers, None),
        };
        let (start, end) = match range.split_once('-') {
            Some((start, end)) => (Some(start), end),
            None => (None, range),
        };
        let read = |text: &str| number::parse_int(text, 0).or_else(|| number::parse_int(text, 10));
        let numbers = (start.map(read), read(end), stride.map(read));
        let (None | Some(Some(_)), Some(_), None | Some(Some(_))) = numbers else {
            return false;
        };
        let (start, end, stride) = numbers;
        self.start = start.flatten().or(self.start);
        self.end = end;
        self.stride = stride.flatten().or(self.stride);
        self.format = format.or(self.format.take());
        true
    }

    fn run(&self, call: &Call<'_>) -> Answer {
        const MOST: i128 = 10_000_000;
        // Playbooks compare these messages, which are Ansible's.
        let wrong = |sentence: &str| Err(crate::Error::lookup(sentence));
        let start = self.start.unwrap_or(1);
        let format = self.format.as_deref().unwrap_or("%d");
        let stride = match (self.stride, self.end) {
            (Some(stride), _) => stride,
            (None, Some(end)) if end < start && self.count.is_none() => {
                return wrong("to count backwards make stride negative");
            }
            (None, _) => 1,
        };
        let end = match (self.count, self.end) {
            (Some(_), Some(_)) => return wrong("can't specify both count and end in with_sequence"),
            (None, None) => return wrong("must specify count or end in with_sequence"),
            (Some(0), None) => return Ok(Vec::new()),
            (Some(count), None) => start.saturating_add((count - 1).saturating_mul(stride)),
            (None, Some(end)) => end,
        };
        if stride > 0 && end < start {
            return wrong("to count backwards make stride negative");
        }
        if stride < 0 && end > start {
            return wrong("to count forward don't make stride negative");
        }
        if stride == 0 {
            return Ok(Vec::new());
        }
        if end.saturating_sub(start) / stride > MOST {
            return Err(call.error(format!("will not make more than {MOST} items")));
        }
        let unfit = || crate::Error::lookup(format!("bad formatting string: {format}"));
        if format.replace("%%", "").matches('%').count() != 1 {
            return Err(unfit());
        }
        crate::python::percent::check(format).map_err(|reason| call.error(reason))?;
        let mut numbers = Vec::new();
        let mut current = start;
        while if stride > 0 { current <= end } else { current >= end } {
            let shown = minijinja::formatting::format(
                minijinja::formatting::FormatStyle::Printf,
                format,
                &[number::integer(current)],
            );
            numbers.push(Value::from(shown.map_err(|_| unfit())?));
            current = current.saturating_add(stride);
        }
        Ok(numbers)
    }
}

/// Refuses options unknown to `sequence`.
fn known<'n>(names: impl Iterator<Item = &'n str>) -> Result<(), crate::Error> {
    let options = ["start", "end", "count", "stride", "format"];
    let others: Vec<String> = names.filter(|name| !options.contains(name)).map(|name| format!("'{name}'")).collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(crate::Error::lookup(format!("unrecognized arguments to with_sequence: [{}]", others.join(", "))))
}

pub(super) fn sequence(call: &Call<'_>) -> Answer {
    let mut given = Sequence::default();
    known(call.options.keys().map(|name| &**name))?;
    for (name, value) in call.options {
        given.set(name, value)?;
    }
    if call.terms.is_empty() {
        return given.run(call);
    }
    let mut numbers = Vec::new();
    for term in call.texts() {
        let mut sequence = given.clone();
        if !sequence.shortcut(&term) {
            let (rest, options) = key_value::parse(&term);
            if !rest.is_empty() {
                let reason = format!("Invalid type for the range of the lookup 'sequence': '{term}' is not understood");
                return Err(crate::Error::lookup(reason));
            }
            known(options.iter().map(|(name, _)| name.as_str()))?;
            for (name, value) in options {
                sequence.set(&name, &Value::from(value))?;
            }
        }
        numbers.extend(sequence.run(call)?);
    }
    Ok(numbers)
}
