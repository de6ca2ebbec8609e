//! Jinja's filters for text.

use minijinja::value::ValueKind;
use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::limits;
use crate::python::container::{dict, is_list};
use crate::python::{number, percent, repr, split_lines, text, truth};
use crate::registry::compat;

pub(super) fn capitalize(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.text();
    let mut rest = value.chars();
    // A letter such as `ß` becomes two, of which only the first is a capital.
    let mut first = String::new();
    for (index, character) in rest.next().into_iter().flat_map(char::to_uppercase).enumerate() {
        if index == 0 { first.push(character) } else { first.extend(character.to_lowercase()) }
    }
    Ok(Value::from(first + &rest.as_str().to_lowercase()))
}

pub(super) fn title(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut out = String::new();
    let mut at_start = true;
    for character in args.text().chars() {
        if at_start {
            out.extend(character.to_uppercase());
        } else {
            out.extend(character.to_lowercase());
        }
        at_start = character == '-' || character.is_whitespace() || "({[<".contains(character);
    }
    Ok(Value::from(out))
}

pub(super) fn lower(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(Value::from(args.text().to_lowercase()))
}

pub(super) fn upper(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(Value::from(args.text().to_uppercase()))
}

pub(super) fn string(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(Value::from(args.text()))
}

pub(super) fn trim(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.text();
    Ok(Value::from(match args.text_of("chars") {
        Some(characters) => value.trim_matches(|character| characters.contains(character)),
        None => value.trim_matches(is_space),
    }))
}

/// Whether Python's `str.strip()` removes the character: Unicode space and the four information separators.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

pub(super) fn center(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.text();
    let width = args.size("width", 80)?;
    let length = value.chars().count();
    let missing = width.saturating_sub(length);
    // Python puts the odd space to the left if the width is odd too.
    let left = missing / 2 + (missing & width & 1);
    Ok(Value::from(format!("{}{value}{}", " ".repeat(left), " ".repeat(missing - left))))
}

pub(super) fn replace(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (value, old, new) = (args.text(), args.need_text("old")?, args.need_text("new")?);
    limits::text(value.matches(&old).count().saturating_mul(new.len()))?;
    Ok(Value::from(match args.integer("count")? {
        Some(count) if count >= 0 => replace_first(&value, &old, &new, usize::try_from(count).unwrap_or(usize::MAX)),
        _ => value.replace(&old, &new),
    }))
}

fn replace_first(value: &str, old: &str, new: &str, count: usize) -> String {
    value.replacen(old, new, count)
}

pub(super) fn indent(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let prefix = match args.get("width") {
        None => " ".repeat(4),
        Some(width) => match width.as_str() {
            Some(prefix) => prefix.to_owned(),
            None => " ".repeat(args.size("width", 4)?),
        },
    };
    let (first, blank) = (args.flag("first", false), args.flag("blank", false));
    let value = format!("{}\n", args.string()?);
    let lines = split_lines(&value);
    limits::text(prefix.len().saturating_mul(lines.len()))?;
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let wanted = if index == 0 { first } else { blank || !line.is_empty() };
        if wanted {
            out.push_str(&prefix);
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

pub(super) fn truncate(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    const LEEWAY: usize = 5;
    let value = args.string()?;
    let characters: Vec<char> = value.chars().collect();
    let length = args.size("length", 255)?;
    let end = args.text_of("end").unwrap_or_else(|| "...".to_owned());
    let end_length = end.chars().count();
    if length < end_length {
        return Err(args.error(format!("cannot cut to {length} characters, fewer than '{end}' has")));
    }
    if characters.len() <= length + args.size("leeway", LEEWAY)? {
        return Ok(Value::from(value));
    }
    let mut kept: String = characters.iter().take(length - end_length).collect();
    if !args.flag("killwords", false)
        && let Some(space) = kept.rfind(' ')
    {
        kept.truncate(space);
    }
    Ok(Value::from(kept + &end))
}

pub(super) fn wordcount(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.text();
    let words = value.split(|character: char| !(character.is_alphanumeric() || character == '_'));
    Ok(Value::from(words.filter(|word| !word.is_empty()).count()))
}

pub(super) fn format(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let template = args.text();
    let values: Vec<Value> = if args.extra().is_empty() {
        args.rest().to_vec()
    } else if args.rest().is_empty() {
        vec![dict(args.extra().iter().map(|(name, value)| (Value::from(name.as_str()), value.clone())))]
    } else {
        return Err(args.error("takes arguments by position or by name, not both"));
    };
    percent::format(&template, &values).map(Value::from).map_err(|reason| args.failed(reason))
}

pub(super) fn join(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut items = args.items()?;
    if let Some(attribute) = args.some("attribute") {
        items = items.iter().map(|item| super::attribute::get(item, attribute)).collect();
    }
    if let Some(missing) = items.iter().find(|item| crate::is_undefined(item)) {
        return Err(super::attribute::missing(missing));
    }
    let separator = args.text_of("d").unwrap_or_default();
    let texts: Vec<String> = items.iter().map(text).collect();
    limits::text(separator.len().saturating_mul(texts.len()) + texts.iter().map(String::len).sum::<usize>())?;
    Ok(Value::from(texts.join(&separator)))
}

pub(super) fn split(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.string()?;
    let most = match args.integer("maxsplit")? {
        Some(most) if most >= 0 => usize::try_from(most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let separator = args.some("sep").map(|sep| sep.as_str().ok_or_else(|| args.wrong("sep", "text", sep)));
    let parts: Vec<Value> = match separator.transpose()? {
        Some("") => return Err(args.error("cannot split at an empty separator")),
        Some(separator) => value.splitn(most.saturating_add(1), separator).map(Value::from).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = value.trim_start_matches(is_space);
            while !rest.is_empty() {
                if parts.len() == most {
                    parts.push(Value::from(rest));
                    break;
                }
                let end = rest.find(is_space).unwrap_or(rest.len());
                parts.push(Value::from(&rest[..end]));
                rest = rest[end..].trim_start_matches(is_space);
            }
            parts
        }
    };
    Ok(Value::from(parts))
}

/// Ansible's `bool`: words and numbers for yes are true, those for no are false. The filter has fewer words than
/// `windlass_yaml::boolean`, and takes none with blanks.
pub(super) fn boolean(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.value();
    if value.is_none() && compat(state).keeps_none_as_bool() {
        return Ok(value.clone());
    }
    if value.kind() == ValueKind::Bool {
        return Ok(value.clone());
    }
    if value.kind() == ValueKind::Number {
        return Ok(Value::from(number::as_float(value) == Some(1.0)));
    }
    let lower = value.as_str().map(str::to_lowercase);
    Ok(Value::from(matches!(lower.as_deref(), Some("yes" | "on" | "1" | "true"))))
}

pub(super) fn ternary(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (yes, no) = (args.need("true_val")?, args.need("false_val")?);
    Ok(match args.some("none_val") {
        Some(none) if args.value().is_none() => none.clone(),
        _ if truth(args.value()) => yes.clone(),
        _ => no.clone(),
    })
}

pub(super) fn type_debug(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let traces = compat(state).traces_origins();
    Ok(Value::from(if traces { crate::origin::class(args.value()) } else { crate::type_name(args.value()) }))
}

pub(super) fn default(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.value();
    let replaced = crate::is_undefined(value) || (args.flag("boolean", false) && !truth(value));
    Ok(if replaced { args.get("default_value").cloned().unwrap_or_else(|| Value::from("")) } else { value.clone() })
}

/// Error for a missing mandatory variable. It keeps the position and suggestions of an ordinary undefined variable.
fn mandatory_is_missing(value: &Value) -> crate::Error {
    let error = crate::Error::from(super::attribute::missing(value));
    let crate::ErrorKind::Undefined { name } = error.kind().clone() else { return error };
    let message = format!("Mandatory variable '{name}' not defined.");
    // Ansible writes two spaces.
    crate::Error::new(error.kind().clone(), message)
        .with_sentence(&format!("Mandatory variable '{name}'  not defined."))
}

pub(super) fn mandatory(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    if !crate::is_undefined(args.value()) {
        return Ok(args.value().clone());
    }
    match args.text_of("msg") {
        Some(message) => {
            let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
            Err(crate::Error::filter(format!("{message}{end}")).with_sentence(&message).into())
        }
        None => Err(mandatory_is_missing(args.value()).into()),
    }
}

pub(super) fn quote(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = if args.value().is_none() { String::new() } else { args.text() };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    Ok(Value::from(if !value.is_empty() && value.bytes().all(plain) {
        value
    } else {
        format!("'{}'", value.replace('\'', "'\"'\"'"))
    }))
}

/// Python's `pprint` does not break Ansible's containers into lines, so they are shown as by `repr()`.
pub(super) fn pprint(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(Value::from(repr(args.value())))
}

pub(super) fn length(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.value();
    let length = match value.as_str() {
        Some(value) => Some(value.chars().count()),
        None if is_list(value) || value.kind() == ValueKind::Map => value.len(),
        None => value.as_bytes().map(<[u8]>::len),
    };
    let length = length.or_else(|| crate::python::container::items(value).map(|items| items.len()));
    length.map(Value::from).ok_or_else(|| args.unsuitable("text, a list or a dictionary"))
}
