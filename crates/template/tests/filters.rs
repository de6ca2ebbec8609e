//! Compares filters, tests and lookups with the results of ansible-core 2.19, which `filters/record.py` records.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the templates are the tests' own")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value as Json;
use windlass_template::{Context, Engine, LIBRARY, Options, Variable, from_json, text, to_json};
use windlass_yaml::{Node, Span};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filters")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(directory().join(name)).unwrap()
}

fn context() -> Context {
    let variables: Json = serde_json::from_str(&read("context.json")).unwrap();
    let variables: IndexMap<Arc<str>, Variable> = variables
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.as_str().into(), Variable::Data(from_json(value))))
        .collect();
    Engine::new(&LIBRARY, Options { playbook_dir: directory(), ..Options::default() }).scope(Arc::new(variables))
}

/// Describes the difference, if any.
fn difference(context: &Context, case: &Json) -> Option<String> {
    let expression = case["e"].as_str().unwrap();
    // Rendered like text of a playbook, in which a backslash needs no escaping.
    let render = |expression: &str| context.render(&Node::of_project(format!("{{{{ {expression} }}}}"), Span::none()));
    let result = render(expression);
    if let Some(failure) = case.get("fails") {
        return result.ok().map(|value| format!("gives {}\n    wanted an error: {failure}", text(&value)));
    }
    let found = match result {
        Ok(value) => to_json(&value),
        Err(error) => return Some(format!("fails: {error}\n    wanted {}", case["v"])),
    };
    if found != case["v"] {
        return Some(format!("gives {found}\n    wanted {}", case["v"]));
    }
    // JSON does not distinguish tuples from lists, or 1 from 1.0, but the text does.
    let shown = render(&format!("({expression}) | string")).map(|value| text(&value));
    (shown.as_deref().ok() != case["t"].as_str()).then(|| format!("shows {shown:?}\n    wanted {}", case["t"]))
}

fn compare(name: &str) {
    let context = context();
    let mut wrong = 0;
    for line in read(name).lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        if let Some(difference) = difference(&context, &case) {
            println!("{}\n    {difference}", case["e"].as_str().unwrap());
            wrong += 1;
        }
    }
    assert_eq!(wrong, 0, "{wrong} cases of {name} differ");
}

/// `RECORDED_FILTERS` names another file of results, for experiments.
#[test]
fn selected_expressions_match_ansible() {
    if let Ok(path) = std::env::var("RECORDED_FILTERS") {
        compare(&path);
    }
}

#[test]
fn ansible_filters_match_ansible() {
    compare("builtin.jsonl");
}

#[test]
fn jinja_filters_match_ansible() {
    compare("jinja.jsonl");
}

#[test]
fn chained_filters_match_ansible() {
    compare("composed.jsonl");
}

#[test]
fn tests_match_ansible() {
    compare("tests.jsonl");
}

#[test]
fn ansible_utils_filters_and_tests_match_ansible() {
    compare("utils.jsonl");
}

#[test]
fn lookups_match_ansible() {
    compare("lookups.jsonl");
}

#[test]
fn community_general_filters_match_ansible() {
    compare("general.jsonl");
}
