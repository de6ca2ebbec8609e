//! Methods of str.

use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};

use super::Arguments;
use crate::error::Error;
use crate::limits;
use crate::python::{braces, number, split_lines, split_lines_with_ends};

/// Calls a method of a text; `None` if it does not exist.
pub(super) fn call(text: &str, name: &str, arguments: &Arguments<'_>) -> Result<Option<Value>, Error> {
    let value = match name {
        "upper" => Value::from(text.to_uppercase()),
        "lower" | "casefold" => Value::from(text.to_lowercase()),
        "swapcase" => Value::from(swapcase(text)),
        "title" => Value::from(title(text)),
        "capitalize" => Value::from(capitalize(text)),
        "isupper" => Value::from(text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)),
        "islower" => Value::from(text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)),
        "istitle" => Value::from(text.chars().any(char::is_alphabetic) && title(text) == text),
        "isspace" => Value::from(!text.is_empty() && text.chars().all(char::is_whitespace)),
        "isdigit" | "isnumeric" | "isdecimal" => {
            Value::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c.is_numeric()))
        }
        "isalpha" => Value::from(!text.is_empty() && text.chars().all(char::is_alphabetic)),
        "isalnum" => Value::from(!text.is_empty() && text.chars().all(char::is_alphanumeric)),
        "isascii" => Value::from(text.is_ascii()),
        "isprintable" => Value::from(!text.chars().any(char::is_control)),
        "isidentifier" => Value::from(is_identifier(text)),
        "strip" => strip(text, arguments, &[End::Left, End::Right])?,
        "lstrip" => strip(text, arguments, &[End::Left])?,
        "rstrip" => strip(text, arguments, &[End::Right])?,
        "split" => split(text, arguments, End::Left)?,
        "rsplit" => split(text, arguments, End::Right)?,
        "splitlines" => splitlines(text, arguments)?,
        "partition" => partition(text, arguments, End::Left)?,
        "rpartition" => partition(text, arguments, End::Right)?,
        "replace" => replace(text, arguments)?,
        "startswith" => fix(text, arguments, |text, fix| text.starts_with(fix))?,
        "endswith" => fix(text, arguments, |text, fix| text.ends_with(fix))?,
        "removeprefix" => without(text, arguments, "prefix", |text, prefix| text.strip_prefix(prefix))?,
        "removesuffix" => without(text, arguments, "suffix", |text, suffix| text.strip_suffix(suffix))?,
        "find" | "rfind" | "index" | "rindex" => find(text, name, arguments)?,
        "count" => count(text, arguments)?,
        "join" => join(text, arguments)?,
        "center" => pad(text, arguments, |missing, width| missing / 2 + (missing & width & 1))?,
        "ljust" => pad(text, arguments, |_, _| 0)?,
        "rjust" => pad(text, arguments, |missing, _| missing)?,
        "zfill" => zfill(text, arguments)?,
        "expandtabs" => expandtabs(text, arguments)?,
        "encode" => Value::from_bytes(text.as_bytes().to_vec()),
        "format" => Value::from(formatted(text, &arguments.positional, &arguments.named)?),
        "format_map" => format_map(text, arguments)?,
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn is_identifier(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn swapcase(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_uppercase() {
            out.extend(character.to_lowercase())
        } else {
            out.extend(character.to_uppercase())
        }
    }
    out
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for character in text.chars() {
        if inside {
            out.extend(character.to_lowercase())
        } else {
            out.extend(character.to_uppercase())
        }
        inside = character.is_alphabetic();
    }
    out
}

fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters.as_str().to_lowercase().chars()).collect(),
        None => String::new(),
    }
}

/// End of a text at which a method begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

fn strip(text: &str, arguments: &Arguments<'_>, ends: &[End]) -> Result<Value, Error> {
    let [set] = arguments.bind(["chars"], 0)?;
    let set = match set.filter(|set| !set.is_none()) {
        Some(set) => Some(arguments.text(&set)?),
        None => None,
    };
    let stripped = |character: char| match &set {
        Some(set) => set.contains(character),
        None => character.is_whitespace(),
    };
    let mut text = text;
    if ends.contains(&End::Left) {
        text = text.trim_start_matches(stripped);
    }
    if ends.contains(&End::Right) {
        text = text.trim_end_matches(stripped);
    }
    Ok(Value::from(text))
}

fn split(text: &str, arguments: &Arguments<'_>, from: End) -> Result<Value, Error> {
    let [separator, most] = arguments.bind(["sep", "maxsplit"], 0)?;
    let most = usize::try_from(arguments.integer_or(most.as_ref(), -1)?).unwrap_or(usize::MAX);
    let separator = match separator.filter(|separator| !separator.is_none()) {
        Some(separator) => Some(arguments.text(&separator)?),
        None => None,
    };
    let mut parts: Vec<&str> = match &separator {
        Some(separator) if separator.is_empty() => return Err(arguments.error("cannot split at an empty separator")),
        Some(separator) if from == End::Right => text.rsplitn(most.saturating_add(1), separator.as_str()).collect(),
        Some(separator) => text.splitn(most.saturating_add(1), separator.as_str()).collect(),
        None => split_space(text, most, from),
    };
    if from == End::Right {
        parts.reverse();
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

fn split_space(text: &str, most: usize, from: End) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if parts.len() == most {
            parts.push(rest);
            break;
        }
        if from == End::Right {
            let start = rest
                .rfind(char::is_whitespace)
                .map_or(0, |space| space + rest[space..].chars().next().map_or(1, char::len_utf8));
            parts.push(&rest[start..]);
            rest = rest[..start].trim_end();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            parts.push(&rest[..end]);
            rest = rest[end..].trim_start();
        }
    }
    parts
}

fn splitlines(text: &str, arguments: &Arguments<'_>) -> Result<Value, Error> {
    let [keep] = arguments.bind(["keepends"], 0)?;
    let keep = keep.is_some_and(|keep| keep.is_true());
    let lines = if keep { split_lines_with_ends(text) } else { split_lines(text) };
    Ok(lines.into_iter().map(Value::from).collect())
}

fn partition(text: &str, arguments: &Arguments<'_>, from: End) -> Result<Value, Error> {
    let [separator] = arguments.bind(["sep"], 1)?;
    let separator = arguments.text_or(separator.as_ref(), "")?;
    if separator.is_empty() {
        return Err(arguments.error("cannot split at an empty separator"));
    }
    let found = if from == End::Right { text.rfind(&separator) } else { text.find(&separator) };
    let parts: [&str; 3] = match found {
        Some(position) => [&text[..position], &separator, &text[position + separator.len()..]],
        None if from == End::Right => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

fn replace(text: &str, arguments: &Arguments<'_>) -> Result<Value, Error> {
    let [old, new, count] = arguments.bind(["old", "new", "count"], 2)?;
    let (old, new) = (arguments.text_or(old.as_ref(), "")?, arguments.text_or(new.as_ref(), "")?);
    let count = arguments.integer_or(count.as_ref(), -1)?;
    limits::text(text.matches(&old).count().saturating_mul(new.len()))?;
    Ok(Value::from(match usize::try_from(count) {
        Ok(count) => text.replacen(&old, &new, count),
        Err(_) => text.replace(&old, &new),
    }))
}

/// The text without the part that `strip` removes; `name` is the argument that holds it.
fn without(
    text: &str,
    arguments: &Arguments<'_>,
    name: &str,
    strip: for<'a> fn(&'a str, &str) -> Option<&'a str>,
) -> Result<Value, Error> {
    let [part] = arguments.bind([name], 1)?;
    let part = arguments.text_or(part.as_ref(), "")?;
    Ok(Value::from(strip(text, &part).unwrap_or(text)))
}

fn join(separator: &str, arguments: &Arguments<'_>) -> Result<Value, Error> {
    let [items] = arguments.bind(["iterable"], 1)?;
    let mut parts = Vec::new();
    for item in items.unwrap_or_default().try_iter()? {
        parts.push(arguments.text(&item)?);
    }
    limits::text(separator.len().saturating_mul(parts.len()) + parts.iter().map(String::len).sum::<usize>())?;
    Ok(Value::from(parts.join(separator)))
}

/// The text to find, the part of the text to search, and the start of that part in characters.
fn within(text: &str, arguments: &Arguments<'_>) -> Result<(String, String, usize), Error> {
    let [part, start, end] = arguments.bind(["sub", "start", "end"], 1)?;
    let part = arguments.text_or(part.as_ref(), "")?;
    let length = text.chars().count();
    let place = |bound: i128| {
        let bound = if bound < 0 { bound + length as i128 } else { bound };
        usize::try_from(bound.max(0)).unwrap_or_default().min(length)
    };
    let start = place(arguments.integer_or(start.as_ref(), 0)?);
    let end = place(arguments.integer_or(end.as_ref(), length as i128)?);
    Ok((part, text.chars().skip(start).take(end.saturating_sub(start)).collect(), start))
}

fn count(text: &str, arguments: &Arguments<'_>) -> Result<Value, Error> {
    let (part, inside, _) = within(text, arguments)?;
    Ok(Value::from(if part.is_empty() { inside.chars().count() + 1 } else { inside.matches(part.as_str()).count() }))
}

fn find(text: &str, name: &str, arguments: &Arguments<'_>) -> Result<Value, Error> {
    let (part, inside, start) = within(text, arguments)?;
    let found = if name.starts_with('r') { inside.rfind(&part) } else { inside.find(&part) };
    match found {
        Some(position) => Ok(number::integer((start + inside[..position].chars().count()) as i128)),
        None if name.ends_with("find") => Ok(Value::from(-1)),
        None => Err(arguments.error(&format!("does not find '{part}' in the string"))),
    }
}

fn fix(text: &str, arguments: &Arguments<'_>, judge: fn(&str, &str) -> bool) -> Result<Value, Error> {
    let [wanted, start, end] = arguments.bind(["prefix", "start", "end"], 1)?;
    let wanted = wanted.unwrap_or_default();
    let bounds = Value::from(text);
    let text = if start.is_some() || end.is_some() {
        let (start, end) = (start.unwrap_or(Value::from(())), end.unwrap_or(Value::from(())));
        crate::operators::slice(&bounds, &start, &end)?
    } else {
        bounds
    };
    let text = text.as_str().unwrap_or_default();
    if matches!(wanted.kind(), ValueKind::Seq | ValueKind::Iterable) {
        for item in wanted.try_iter()? {
            if judge(text, &arguments.text(&item)?) {
                return Ok(Value::from(true));
            }
        }
        return Ok(Value::from(false));
    }
    Ok(Value::from(judge(text, &arguments.text(&wanted)?)))
}

/// Pads to a width. `left` computes the share of the padding on the left.
fn pad(text: &str, arguments: &Arguments<'_>, left: fn(usize, usize) -> usize) -> Result<Value, Error> {
    let [width, fill] = arguments.bind(["width", "fillchar"], 1)?;
    let width = usize::try_from(arguments.integer_or(width.as_ref(), 0)?).unwrap_or_default();
    let fill = arguments.text_or(fill.as_ref(), " ")?;
    limits::text(width.saturating_mul(fill.len().max(1)))?;
    let missing = width.saturating_sub(text.chars().count());
    let left = left(missing, width);
    Ok(Value::from(format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left))))
}

fn zfill(text: &str, arguments: &Arguments<'_>) -> Result<Value, Error> {
    let [width] = arguments.bind(["width"], 1)?;
    let width = usize::try_from(arguments.integer_or(width.as_ref(), 0)?).unwrap_or_default();
    limits::text(width)?;
    let missing = width.saturating_sub(text.chars().count());
    let digits = text.trim_start_matches(['+', '-']);
    let sign = if text.len() - digits.len() <= 1 { &text[..text.len() - digits.len()] } else { "" };
    Ok(Value::from(format!("{sign}{}{}", "0".repeat(missing), &text[sign.len()..])))
}

fn format_map(text: &str, arguments: &Arguments<'_>) -> Result<Value, Error> {
    let [mapping] = arguments.bind(["mapping"], 1)?;
    let mapping = mapping.unwrap_or_default();
    let mut named = Vec::new();
    for key in mapping.try_iter()? {
        named.push((arguments.text(&key)?, mapping.get_item(&key)?));
    }
    Ok(Value::from(formatted(text, &[], &named)?))
}

fn formatted(text: &str, positional: &[Value], named: &[(String, Value)]) -> Result<String, Error> {
    braces::format(text, positional, named).map_err(Error::filter)
}

fn expandtabs(text: &str, arguments: &Arguments<'_>) -> Result<Value, Error> {
    let [size] = arguments.bind(["tabsize"], 0)?;
    let size = usize::try_from(arguments.integer_or(size.as_ref(), 8)?).unwrap_or_default();
    limits::text(text.matches('\t').count().saturating_mul(size))?;
    let mut out = String::new();
    let mut column = 0;
    for character in text.chars() {
        match character {
            '\t' => {
                let width = if size == 0 { 0 } else { size - column % size };
                out.push_str(&" ".repeat(width));
                column += width;
            }
            '\n' | '\r' => {
                out.push(character);
                column = 0;
            }
            _ => {
                out.push(character);
                column += 1;
            }
        }
    }
    Ok(Value::from(out))
}
