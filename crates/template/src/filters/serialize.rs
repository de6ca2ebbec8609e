//! Filters for JSON and YAML.

use std::sync::Arc;

use minijinja::value::ValueKind;
use minijinja::{State, Value};
use windlass_yaml::emit::{DumpOptions as YamlOptions, Item, dump as dump_yaml};
use windlass_yaml::{Node, Options, Source};

use super::call::{Arguments, Outcome};
use crate::limits;
use crate::python::container::{dict, list, pairs};
use crate::python::json::{DumpOptions, dump, load};
use crate::python::{self, number, text, time};

pub(super) fn to_json(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    json(args, None, false)
}

pub(super) fn to_nice_json(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    json(args, Some(4), true)
}

fn json(args: &Arguments, indent: Option<usize>, sort_keys: bool) -> Outcome {
    let indent = match args.get("indent") {
        None => indent.map(|width| " ".repeat(width)),
        Some(value) if value.is_none() => None,
        Some(value) => match value.as_str() {
            Some(prefix) => Some(prefix.to_owned()),
            None => Some(indentation(args, 4)?),
        },
    };
    let mut options = DumpOptions {
        item_separator: if indent.is_some() { "," } else { ", " }.to_owned(),
        indent,
        sort_keys: args.flag("sort_keys", sort_keys),
        ensure_ascii: args.flag("ensure_ascii", true),
        skip_keys: args.flag("skipkeys", false),
        allow_nan: args.flag("allow_nan", true),
        ..DumpOptions::default()
    };
    if let Some(separators) = args.some("separators") {
        let parts: Vec<String> = separators.try_iter()?.map(|part| text(&part)).collect();
        let [item, key] = parts.as_slice() else {
            return Err(args.wrong("separators", "two texts", separators));
        };
        options.item_separator.clone_from(item);
        options.key_separator.clone_from(key);
    }
    dump(args.value(), &options).map(Value::from).map_err(|reason| args.failed(reason))
}

/// Indentation requested by `indent`.
fn indentation(args: &Arguments, default: usize) -> Result<String, minijinja::Error> {
    const MOST: usize = 1_000;
    match args.size("indent", default)? {
        width @ ..=MOST => Ok(" ".repeat(width)),
        width => Err(args.error(format!("indents by at most {MOST} spaces, not {width}"))),
    }
}

/// Jinja's own `tojson`: sorted keys, and safe inside HTML.
pub(super) fn tojson(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let indent = args.some("indent").map(|_| indentation(args, 0)).transpose()?;
    let options = DumpOptions {
        item_separator: if indent.is_some() { "," } else { ", " }.to_owned(),
        indent,
        sort_keys: true,
        ..DumpOptions::default()
    };
    let json = dump(args.value(), &options).map_err(|reason| args.failed(reason))?;
    let safe = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026").replace('\'', "\\u0027");
    Ok(Value::from(safe))
}

pub(super) fn from_json(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let text = args.string()?;
    load(text).map_err(|reason| args.error(format!("cannot read its value as JSON: {reason}")))
}

/// Converts a value for the YAML writer.
fn item(value: &Value) -> Result<Item, String> {
    Ok(match value.kind() {
        ValueKind::None => Item::Null,
        ValueKind::Bool => Item::Bool(value.is_true()),
        ValueKind::Number if value.is_integer() => Item::Int(value.to_string()),
        ValueKind::Number => Item::Float(number::as_float(value).unwrap_or(f64::NAN)),
        ValueKind::String => Item::Str(text(value)),
        ValueKind::Bytes => Item::Bytes(value.as_bytes().unwrap_or_default().to_vec()),
        ValueKind::Seq | ValueKind::Iterable => {
            Item::List(value.try_iter().into_iter().flatten().map(|inner| item(&inner)).collect::<Result<_, _>>()?)
        }
        ValueKind::Map => Item::Map(
            pairs(value)
                .unwrap_or_default()
                .into_iter()
                .map(|(key, inner)| Ok((item(&key)?, item(&inner)?)))
                .collect::<Result<_, String>>()?,
        ),
        _ if time::is_datetime(value) => Item::Timestamp(text(value)),
        _ => return Err(format!("a value of type {} cannot be written as YAML", python::type_name(value))),
    })
}

pub(super) fn to_yaml(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    yaml(args, YamlOptions::to_yaml())
}

pub(super) fn to_nice_yaml(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    yaml(args, YamlOptions::to_nice_yaml())
}

fn yaml(args: &Arguments, mut options: YamlOptions) -> Outcome {
    let number = |name: &str, default: i32| -> Result<i32, minijinja::Error> {
        Ok(args.integer(name)?.map_or(default, |number| i32::try_from(number).unwrap_or(i32::MAX)))
    };
    options.indent = number("indent", options.indent)?;
    options.width = match args.get("width") {
        // Users write a float such as `inf` or `1e9` for "never".
        Some(width) if number::as_float(width).is_some_and(|width| width > f64::from(i32::MAX)) => i32::MAX,
        Some(width) if width.kind() == ValueKind::Number && !width.is_integer() => {
            number::as_float(width).map_or(options.width, |width| width as i32)
        }
        _ => number("width", options.width)?,
    };
    options.sort_keys = args.flag("sort_keys", options.sort_keys);
    options.allow_unicode = args.flag("allow_unicode", options.allow_unicode);
    options.explicit_start = args.flag("explicit_start", options.explicit_start);
    options.explicit_end = args.flag("explicit_end", options.explicit_end);
    options.canonical = args.flag("canonical", options.canonical);
    if let Some(flow) = args.get("default_flow_style") {
        options.default_flow_style = if flow.is_none() { None } else { Some(crate::truth(flow)) };
    }
    if let Some(style) = args.text_of("default_style") {
        options.default_style = style.chars().next();
    }
    let item = item(args.value()).map_err(|reason| args.failed(reason))?;
    dump_yaml(&item, &options).map(Value::from).map_err(|error| args.failed(error.to_string()))
}

fn parse_yaml(args: &Arguments, text: &str) -> Result<Vec<Node>, minijinja::Error> {
    let max_nodes = limits::yaml_values(text.len());
    let options = Options { trusted: false, json: false, max_nodes, ..Options::default() };
    // An excerpt of the value could be a part of a secret, which no output would recognize.
    let source = Source::secret("the filter's value", text);
    let loaded = windlass_yaml::parse(source, &options)
        .map_err(|error| args.error(format!("cannot read its value as YAML: {error}")))?;
    Ok(loaded.documents)
}

pub(super) fn from_yaml(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let Some(text) = args.value().as_str() else {
        return Ok(args.value().clone());
    };
    let documents = parse_yaml(args, text)?;
    match documents.as_slice() {
        [] => Ok(Value::from(())),
        [document] => Ok(value_of(document)),
        _ => Err(args.error("expects one YAML document, but there are several; use from_yaml_all")),
    }
}

pub(super) fn from_yaml_all(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    match args.value().as_str() {
        Some(text) => Ok(list(parse_yaml(args, text)?.iter().map(value_of).collect())),
        None if args.value().is_none() => Ok(list(Vec::new())),
        None => Ok(args.value().clone()),
    }
}

/// Converts a parsed node to data.
pub(crate) fn value_of(node: &Node) -> Value {
    use windlass_yaml::Value as Yaml;
    match &node.value {
        Yaml::Null => Value::from(()),
        Yaml::Bool(value) => Value::from(*value),
        Yaml::Int(value) => Value::from(*value),
        Yaml::BigInt(value) => value.parse::<i128>().map_or_else(|_| Value::from(value.as_str()), Value::from),
        Yaml::Float(value) => Value::from(*value),
        Yaml::Timestamp(value) => time::parse_yaml(value).unwrap_or_else(|| Value::from(Arc::clone(value))),
        Yaml::String(value) => Value::from(Arc::<str>::from(value.clone())),
        Yaml::Literal(value) | Yaml::Vault(value) => Value::from(Arc::clone(value)),
        Yaml::Binary(bytes) => Value::from_bytes(bytes.to_vec()),
        Yaml::List(items) => list(items.iter().map(value_of).collect()),
        Yaml::Map(mapping) => dict(mapping.iter().map(|(key, value)| (value_of(&key.as_node()), value_of(value)))),
    }
}
