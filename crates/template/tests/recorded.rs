//! Compares with the results of ansible-core 2.19 (2.18 in `classic.json`); `record.py` records the fixtures.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the templates are the tests' own")]

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value as Json;
use windlass_template::{
    Compat, Context, Engine, Error, LIBRARY, Options, TemplateOptions, Value, Variable, from_json, to_json, type_name,
};
use windlass_yaml::{Key, Mapping, Node, Span, Text, Value as Yaml};

fn node(json: &Json) -> Node {
    let span = Span::none();
    let value = match json {
        Json::Null => Yaml::Null,
        Json::Bool(value) => Yaml::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Yaml::Int(integer),
            None => Yaml::Float(number.as_f64().unwrap()),
        },
        Json::String(text) => Yaml::String(Text::of_project(text.as_str())),
        Json::Array(items) => Yaml::List(items.iter().map(node).collect()),
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (Key::string(key.as_str(), span.clone()), node(value)));
            Yaml::Map(Arc::new(entries.collect::<Mapping>()))
        }
    };
    Node::new(value, span)
}

fn context(fixture: &Json) -> Context {
    let mut variables: IndexMap<Arc<str>, Variable> = IndexMap::new();
    for (name, value) in fixture["vars"].as_object().into_iter().flatten() {
        variables.insert(name.as_str().into(), Variable::Text(node(value)));
    }
    for (name, value) in fixture["data"].as_object().into_iter().flatten() {
        variables.insert(name.as_str().into(), Variable::Data(from_json(value)));
    }
    let compat = if fixture["compat"] == "2.18" { Compat::V2_18 } else { Compat::V2_19 };
    Engine::new(&LIBRARY, Options { compat, ..Options::default() }).scope(Arc::new(variables))
}

fn file_options(case: &Json) -> TemplateOptions {
    let mut options = TemplateOptions::default();
    for (name, value) in case["options"].as_object().into_iter().flatten() {
        let text = || value.as_str().unwrap().to_owned();
        match name.as_str() {
            "trim_blocks" => options.trim_blocks = value.as_bool().unwrap(),
            "lstrip_blocks" => options.lstrip_blocks = value.as_bool().unwrap(),
            "newline_sequence" => options.newline_sequence = text(),
            "block_start_string" => options.block.0 = text(),
            "block_end_string" => options.block.1 = text(),
            "variable_start_string" => options.variable.0 = text(),
            "variable_end_string" => options.variable.1 = text(),
            "comment_start_string" => options.comment.0 = text(),
            "line_statement_prefix" => options.line_statement_prefix = Some(text()),
            "line_comment_prefix" => options.line_comment_prefix = Some(text()),
            "comment_end_string" => options.comment.1 = text(),
            other => panic!("unknown option {other}"),
        }
    }
    options
}

fn answer(context: &Context, case: &Json) -> Result<Value, Error> {
    if let Some(condition) = case.get("condition") {
        return context.condition(&node(condition)).map(Value::from);
    }
    if let Some(expression) = case.get("expression") {
        return context.evaluate(&node(expression));
    }
    if let Some(file) = case.get("file") {
        return context
            .template(&Text::of_project(file.as_str().unwrap()), "file.j2", &file_options(case))
            .map(Value::from);
    }
    context.render(&node(&case["template"]))
}

/// Describes the difference, if any.
fn difference(context: &Context, case: &Json) -> Option<String> {
    let result = answer(context, case);
    // For an intended difference, the fixture has our result and the reason.
    if let Some(ours) = case.get("ours") {
        let found = result.map(|value| to_json(&value)).map_err(|error| error.to_string());
        return (found.as_ref() != Ok(ours)).then(|| format!("gives {found:?}\n    wanted our own {ours}"));
    }
    match (case.get("result"), result) {
        (Some(wanted), Ok(value)) => {
            let found = to_json(&value);
            let wanted = match wanted {
                // The result of a template file is always text.
                Json::Null if case.get("file").is_some() => &Json::String(String::new()),
                wanted => wanted,
            };
            let typed = case.get("file").is_some()
                || case["type"].as_str().is_none_or(|wanted| wanted.eq_ignore_ascii_case(type_name(&value)));
            let text_of_file = case.get("file").is_some() && !wanted.is_string();
            (!text_of_file && (found != *wanted || !typed))
                .then(|| format!("gives {found} ({})\n    wanted {wanted} ({})", type_name(&value), case["type"]))
        }
        (Some(wanted), Err(error)) => Some(format!("fails: {error}\n    wanted {wanted}")),
        (None, Ok(value)) => Some(format!("gives {value:?}\n    wanted an error")),
        (None, Err(error)) => {
            let wanted = case["error"]["undefined"].as_bool().unwrap();
            (wanted != error.is_undefined())
                .then(|| format!("fails: {error:?}\n    wanted an error, undefined: {wanted}"))
        }
    }
}

fn compare(path: &Path) -> usize {
    let fixture: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let context = context(&fixture);
    let mut wrong = 0;
    for case in fixture["cases"].as_array().unwrap() {
        if let Some(difference) = difference(&context, case) {
            let asked = ["template", "condition", "expression", "file"].iter().find_map(|kind| case.get(*kind));
            println!("{}: {}\n    {difference}", path.display(), asked.unwrap());
            wrong += 1;
        }
    }
    wrong
}

#[test]
fn recorded_results_match() {
    let directory = match std::env::var_os("RECORDED") {
        Some(directory) => directory.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"),
    };
    let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let wrong: usize = paths.iter().map(|path| compare(path)).sum();
    assert_eq!(wrong, 0, "{wrong} cases differ");
}
