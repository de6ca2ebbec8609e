//! The data in tasks and plays that are encrypted as a whole.
//!
//! Such a file also has names: of modules, variables, hosts, tags, roles and other files. They are structure. Masking
//! them would hide the same words in everything else that the run prints.

use windlass_yaml::{Key, Node};

use super::leaves;
use crate::builtin;
use crate::playbook::arguments;
use crate::playbook::keyword::is_keyword_anywhere;

/// Keywords with tasks.
const TASKS: &[&str] = &["always", "block", "handlers", "post_tasks", "pre_tasks", "rescue", "tasks"];

/// Keywords with names, and with words of the language.
const NAMES: &[&str] = &[
    "become_exe",
    "become_method",
    "collections",
    "connection",
    "debugger",
    "gather_subset",
    "hosts",
    "import_playbook",
    "listen",
    "loop_control",
    "notify",
    "order",
    "register",
    "strategy",
    "tags",
    "vars_files",
];

/// Keywords and options with expressions.
const EXPRESSIONS: &[&str] = &["changed_when", "failed_when", "that", "until", "var", "when"];

/// Whether a document is a list of tasks or plays.
pub(super) fn are_in(document: &Node) -> bool {
    let is_task = |key: &Key| {
        let word = key.to_text();
        builtin::is_known(&word) || TASKS.contains(&word.as_str()) || ["action", "hosts"].contains(&word.as_str())
    };
    let mut maps = document.as_list().into_iter().flatten().map(Node::as_map);
    maps.clone().all(|map| map.is_some()) && maps.any(|map| map.is_some_and(|map| map.keys().any(is_task)))
}

/// Visits the data of a list of tasks or plays.
pub(super) fn values(list: &Node, visit: &mut dyn FnMut(&str)) {
    for (key, node) in list.as_list().into_iter().flatten().filter_map(Node::as_map).flat_map(|map| map.iter()) {
        match key.to_text().as_str() {
            word if TASKS.contains(&word) => values(node, visit),
            word if NAMES.contains(&word) => {}
            word if EXPRESSIONS.contains(&word) => expressions(node, visit),
            "roles" => roles(node, visit),
            "action" | "local_action" => match arguments::split_action(node) {
                Ok((name, rest)) => options(&name, &rest, visit),
                Err(_) => leaves(node, visit),
            },
            word if is_keyword_anywhere(word) || word.starts_with("with_") => leaves(node, visit),
            action => options(action, node, visit),
        }
    }
}

/// Visits the arguments of an action.
fn options(action: &str, node: &Node, visit: &mut dyn FnMut(&str)) {
    let short = action.rsplit('.').next().unwrap_or(action);
    let is_of_files = short == "meta" || short.starts_with("include_") || short.starts_with("import_");
    let Ok(map) = arguments::of_node(action, node) else { return leaves(node, visit) };
    for (key, node) in map.iter() {
        match key.to_text().as_str() {
            "apply" => leaves(node, visit),
            _ if is_of_files => {}
            word if EXPRESSIONS.contains(&word) => expressions(node, visit),
            _ => leaves(node, visit),
        }
    }
}

/// Visits the parameters of roles.
fn roles(list: &Node, visit: &mut dyn FnMut(&str)) {
    for (key, node) in list.as_list().into_iter().flatten().filter_map(Node::as_map).flat_map(|map| map.iter()) {
        let word = key.to_text();
        if word == "vars" || !is_keyword_anywhere(&word) {
            leaves(node, visit);
        }
    }
}

/// Visits expressions that are more than the name of a variable.
fn expressions(node: &Node, visit: &mut dyn FnMut(&str)) {
    let is_name = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "_.[]".contains(c));
    leaves(node, &mut |text| {
        if !is_name(text) {
            visit(text);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn parsed(text: &str) -> Node {
        let source = windlass_yaml::Source::new("tasks.yml", text);
        let loaded = windlass_yaml::parse(Arc::clone(&source), &windlass_yaml::Options::default()).unwrap();
        loaded.into_one(&source).unwrap()
    }

    fn found(text: &str) -> Vec<String> {
        let document = parsed(text);
        assert!(are_in(&document), "{text}");
        let mut all = Vec::new();
        values(&document, &mut |text| all.push(text.to_owned()));
        all
    }

    #[test]
    fn values_of_tasks_found_and_names_left() {
        let tasks = "\
- name: Log in
  shell: chdir=/x login hunter2
  register: login
  when: [login is defined, ready, 'token == \"x\"']
  environment: {TOKEN: abc}
  notify: Restart
- debug: msg=hunter3 verbosity=1
- debug: {var: login.stdout}
- action: copy content=hunter4 dest=/y
- local_action: {module: uri, url: example.org, headers: {X: hunter5}}
- block:
    - set_fact: {a: [hunter6, 12345678]}
      loop: '{{ all }}'
    - include_tasks: {file: more.yml, apply: {vars: {b: hunter7}}}
  rescue:
    - my.own.module: {key: hunter8}
      with_items: [hunter9]
      loop_control: {loop_var: thing}
  tags: [deploy]
";
        let expected = [
            "Log in",
            "/x",
            "login hunter2",
            "login is defined",
            "token == \"x\"",
            "abc",
            "hunter3",
            "1",
            "hunter4",
            "/y",
            "example.org",
            "hunter5",
            "hunter6",
            "12345678",
            "{{ all }}",
            "hunter7",
            "hunter8",
            "hunter9",
        ];
        assert_eq!(found(tasks), expected);
    }

    #[test]
    fn values_of_plays_found_and_names_left() {
        let plays = "\
- hosts: web
  vars: {a: hunter2}
  vars_files: [more.yml]
  roles: [common, {role: app, key: hunter3, vars: {b: hunter4}, tags: x}]
  tasks: [{ping: }]
- import_playbook: other.yml
";
        assert_eq!(found(plays), ["hunter2", "hunter3", "hunter4"]);
    }

    #[test]
    fn other_lists_are_no_tasks() {
        for text in ["[]", "[a, b]", "- {colour: red}", "- {ping: }\n- text", "a: b"] {
            assert!(!are_in(&parsed(text)), "{text}");
        }
    }
}
