//! Schemas of module options.

use serde_json::{Map, Value, json};
use windlass_modules::{Kind, Opt, Spec};

use super::keywords::reference;

/// Values allowed for a module: its options, or a line with `key=value` words or free text.
pub(super) fn arguments(spec: &Spec) -> Value {
    let options = spec.options.iter().filter(|option| !option.name.starts_with('_'));
    let (mut mapping, mut needed) = object(options);
    if spec.others.is_some() {
        mapping["additionalProperties"] = true.into();
    }
    let one_of = spec.required_one_of.iter().map(|names| {
        let names = names.iter().flat_map(|name| match spec.option(name) {
            Some(option) => given(option),
            None => vec![json!({"required": [name]})],
        });
        json!({"anyOf": names.collect::<Vec<_>>()})
    });
    // Free text comes from a line, with further options in `args`.
    if spec.free_form.is_none() {
        needed.extend(one_of);
    }
    let mapping = with_all(mapping, needed);
    let line = json!({"type": ["string", "null"]});
    json!({"description": spec.description.join(" "), "anyOf": [mapping, line]})
}

/// A mapping of exactly these options, and the conditions for required ones, which may use any of their names.
fn object<'o>(options: impl Iterator<Item = &'o Opt>) -> (Value, Vec<Value>) {
    let mut properties = Map::new();
    let mut needed = Vec::new();
    for option in options {
        let shape = shape(&option.kind, option);
        let mut entry = json!({"description": option.doc, "allOf": [shape]});
        if let Some(default) = option.default.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            entry["default"] = default;
        }
        let names = std::iter::once(&option.name).chain(option.aliases);
        properties.extend(names.map(|name| ((*name).to_owned(), entry.clone())));
        if option.required {
            needed.push(json!({"anyOf": given(option)}));
        }
    }
    (json!({"type": "object", "properties": properties, "additionalProperties": false}), needed)
}

/// Adds conditions that must all hold.
fn with_all(mut schema: Value, needed: Vec<Value>) -> Value {
    if !needed.is_empty() {
        schema["allOf"] = needed.into();
    }
    schema
}

/// Conditions that an option is present under any of its names.
fn given(option: &Opt) -> Vec<Value> {
    std::iter::once(&option.name).chain(option.aliases).map(|name| json!({"required": [name]})).collect()
}

/// Values of an option: anything coerced to its type, or a template.
fn shape(kind: &Kind, option: &Opt) -> Value {
    match kind {
        Kind::Bool => reference("boolean"),
        Kind::Int | Kind::Float => reference("number"),
        Kind::Str | Kind::Path if !option.choices.is_empty() => choices(option.choices),
        Kind::Str | Kind::Path => json!({}),
        Kind::Bytes => json!({"type": ["integer", "string", "null"]}),
        Kind::List(inner) => {
            // Text is split at commas, so it may contain several choices.
            let item = json!({"anyOf": [shape(inner, option), reference("template")]});
            json!({"anyOf": [{"type": "array", "items": item}, {"type": ["string", "number", "boolean", "null"]}, shape(inner, option)]})
        }
        Kind::Dict if !option.options.is_empty() => {
            let (mapping, needed) = object(option.options.iter());
            json!({"anyOf": [with_all(mapping, needed), {"type": ["string", "null"]}]})
        }
        Kind::Dict => json!({"type": ["object", "string", "null"]}),
        Kind::Json | Kind::Raw => json!({}),
    }
}

/// These words as YAML may parse them: `yes` as a boolean, `0644` as a number.
fn choices(words: &[&str]) -> Value {
    let mut values: Vec<Value> = words.iter().map(|word| json!(word)).collect();
    for word in words {
        match *word {
            "yes" | "true" | "on" | "True" => values.push(true.into()),
            "no" | "false" | "off" | "False" => values.push(false.into()),
            _ => values.extend(word.parse::<i64>().ok().map(Value::from)),
        }
    }
    values.dedup();
    json!({"anyOf": [{"enum": values}, reference("template"), {"type": "null"}]})
}
