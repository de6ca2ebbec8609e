//! Schemas of keywords.

use serde_json::{Map, Value, json};

use super::super::plugins::summary;
use crate::playbook::keyword::{BOOLEANS, DEBUGGER, ORDER};

/// Reference to a definition.
pub(super) fn reference(definition: &str) -> Value {
    json!({"$ref": format!("#/definitions/{definition}")})
}

/// A keyword with its description.
pub(super) fn keyword(name: &str) -> Value {
    json!({"description": summary("keyword", name), "allOf": [shape(name).unwrap_or_else(|| json!({}))]})
}

/// Schema of a keyword's value; `None` for an unknown name.
pub(super) fn shape(name: &str) -> Option<Value> {
    let definition = match name {
        name if BOOLEANS.contains(&name) => "boolean",
        "async"
        | "delay"
        | "gather_timeout"
        | "max_fail_percentage"
        | "poll"
        | "port"
        | "retries"
        | "throttle"
        | "timeout" => "number",
        "become_exe" | "become_flags" | "become_method" | "become_user" | "connection" | "delegate_to"
        | "fact_path" | "name" | "register" | "remote_user" | "role" | "strategy" | "user" => "text",
        "collections" | "gather_subset" | "hosts" | "listen" | "notify" | "tags" => "words",
        "changed_when" | "failed_when" | "until" | "when" => "condition",
        "always" | "block" | "handlers" | "post_tasks" | "pre_tasks" | "rescue" | "tasks" => "tasks",
        "action" | "args" | "environment" | "local_action" | "loop" | "loop_control" | "module_defaults" | "roles"
        | "serial" | "vars" | "vars_files" | "vars_prompt" => return Some(own(name)),
        "debugger" => return Some(one_of(DEBUGGER)),
        "order" => return Some(one_of(ORDER)),
        "import_playbook" => return Some(json!({"type": "string"})),
        _ => return None,
    };
    Some(reference(definition))
}

/// Keywords with an individual schema.
fn own(name: &str) -> Value {
    let mapping = json!({"type": "object"});
    let template = reference("template");
    let nothing = json!({"type": "null"});
    match name {
        "action" | "local_action" => json!({"type": ["string", "object"]}),
        "args" => json!({"anyOf": [mapping, template, nothing]}),
        "environment" | "module_defaults" => {
            json!({"anyOf": [mapping, template, nothing, {"type": "array", "items": {"anyOf": [mapping, template]}}]})
        }
        "loop" => json!({"anyOf": [{"type": "array"}, template]}),
        "loop_control" => json!({
            "type": "object",
            "properties": {
                "break_when": reference("condition"),
                "extended": reference("boolean"),
                "extended_allitems": reference("boolean"),
                "index_var": {"type": "string"},
                "label": {},
                "loop_var": {"type": "string"},
                "parallel": reference("number"),
                "pause": reference("number"),
            },
            "additionalProperties": false,
        }),
        "roles" => json!({"type": ["array", "null"], "items": reference("role")}),
        "serial" => json!({"anyOf": [reference("share"), {"type": "array", "items": reference("share")}]}),
        "vars_files" => {
            json!({"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": reference("words")}]})
        }
        "vars_prompt" => json!({"type": ["array", "null"], "items": {
            "type": "object",
            "properties": {
                "confirm": reference("boolean"),
                "default": {},
                "encrypt": reference("text"),
                "name": reference("text"),
                "private": reference("boolean"),
                "prompt": reference("text"),
                "salt": reference("text"),
                "salt_size": reference("number"),
                "unsafe": reference("boolean"),
            },
            "required": ["name"],
            "additionalProperties": false,
        }}),
        // Older `vars` are a list of mappings.
        _ => json!({"type": ["object", "array", "null"]}),
    }
}

fn one_of(words: &[&str]) -> Value {
    json!({"anyOf": [{"enum": words}, reference("template")]})
}

/// Schemas shared by keywords and options. A template is allowed for any value.
pub(super) fn shapes() -> Map<String, Value> {
    let template = reference("template");
    let word = r"^\s*([Yy]es|[Nn]o|[Tt]rue|[Ff]alse|[Oo]n|[Oo]ff|[YyNnTtFf]|YES|NO|TRUE|FALSE|ON|OFF|[01])\s*$";
    let numeral = r"^\s*[-+]?(\d[\d_]*(\.\d*)?([eE][-+]?\d+)?|0x[0-9A-Fa-f]+|0o?[0-7]+)\s*$";
    let expression = json!({"type": ["boolean", "string", "number"]});
    let all = json!({
        "template": {"description": "An expression that is evaluated for each host.", "type": "string", "pattern": r"\{\{|\{%"},
        "boolean": {"anyOf": [{"type": "boolean"}, {"enum": [0, 1]}, {"type": "string", "pattern": word}, template, {"type": "null"}]},
        "number": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": numeral}, template, {"type": "null"}]},
        "text": {"type": ["string", "number", "boolean", "null"]},
        "words": {"anyOf": [reference("text"), {"type": "array", "items": {"anyOf": [reference("text"), reference("words")]}}]},
        "condition": {"anyOf": [expression, {"type": "null"}, {"type": "array", "items": expression}]},
        "share": {"description": "Number or percentage of hosts.",
            "anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*%?\s*$"}, template]},
    });
    match all {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
