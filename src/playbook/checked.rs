//! Rejects keyword values that no variable can make valid, before anything runs.

use windlass_yaml::{Mapping, Node, Span};

use super::keyword::{Keywords, On};
use super::model::{FrameKind, Task};
use super::short_name;
use crate::builtin;
use crate::error::{Error, Result, did_you_mean};

/// Keywords whose value is a text.
const TEXTS: &[&str] = &[
    "become_exe",
    "become_flags",
    "become_method",
    "become_user",
    "connection",
    "debugger",
    "delegate_to",
    "fact_path",
    "name",
    "order",
    "remote_user",
    "role",
    "strategy",
];

/// Boolean keywords of a play, evaluated when the play starts.
const FLAGS: &[&str] = &["force_handlers", "gather_facts"];

const OF_LOOP_CONTROL: &[&str] =
    &["break_when", "extended", "extended_allitems", "index_var", "label", "loop_var", "parallel", "pause"];

/// Largest value of `loop_control.parallel`. Each item under way costs two threads of the executor.
pub(crate) const MOST_PARALLEL: usize = 64;

/// Keys allowed in an entry of `vars_prompt`.
const OF_PROMPTS: &[&str] =
    &["name", "prompt", "default", "private", "confirm", "encrypt", "salt_size", "salt", "unsafe"];

/// Whether a text has the form of a variable's name: letters, digits and underscores, and no digit first.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Words that cannot name a variable, because expressions give them another meaning.
const RESERVED: &[&str] = &["False", "None", "True", "false", "none", "not", "true"];

/// Whether a text is a valid name of a variable.
pub(crate) fn is_variable_name(text: &str) -> bool {
    is_identifier(text) && !RESERVED.contains(&text)
}

/// Fails for values that no variable can make valid.
pub(super) fn check(keywords: &Keywords, on: On) -> Result<()> {
    for name in TEXTS {
        texts(name, keywords.get(name))?;
    }
    if let Some(vars) = keywords.get("vars").and_then(Node::as_map) {
        variable_names(vars, on)?;
    }
    if let Some(node) = keywords.get("tags") {
        tags(node)?;
    }
    if let Some(node) = keywords.get("module_defaults") {
        module_defaults(node)?;
    }
    if let Some(node) = keywords.get("loop_control") {
        loop_control(node)?;
    }
    match on {
        On::Play => play(keywords),
        On::Block => loop_of_block(keywords),
        _ => Ok(()),
    }
}

/// Fails for parts of `loop_control` that need the result of an item, which a block does not have.
fn loop_of_block(keywords: &Keywords) -> Result<()> {
    let Some(control) = keywords.get("loop_control").and_then(Node::as_map) else { return Ok(()) };
    if let Some((key, _)) = ["break_when", "parallel", "pause"].iter().find_map(|name| control.get_entry(name)) {
        let message = format!("`loop_control.{}` is not possible on a block", key.to_text());
        return Err(Error::parse(message, &key.span)
            .hint("items of a block run one after the other; leave it out, or put it on a task of the block"));
    }
    Ok(())
}

fn play(keywords: &Keywords) -> Result<()> {
    for name in FLAGS {
        let Some(node) = keywords.get(name) else { continue };
        if !is_template(node) && node.truth().is_none() {
            return Err(Error::parse(format!("`{name}` must be true or false, not {}", shown(node)), &node.span));
        }
    }
    if let Some(node) = keywords.get("max_fail_percentage") {
        let number = node.scalar_text().map(|text| text.replace('%', "").trim().parse::<f64>().is_ok());
        if !is_template(node) && number != Some(true) {
            let message = format!("`max_fail_percentage` must be a number, not {}", shown(node));
            return Err(Error::parse(message, &node.span));
        }
    }
    keywords.list("vars_prompt").iter().try_for_each(prompt)
}

/// Checks the `hosts` of a play: a text, or a list of texts.
pub(crate) fn hosts(node: &Node) -> Result<()> {
    let items = match node.as_list() {
        Some(items) => items,
        None => std::slice::from_ref(node),
    };
    let is_empty =
        items.is_empty() || (node.as_list().is_none() && node.scalar_text().is_some_and(|text| text.is_empty()));
    if is_empty {
        return Err(Error::parse("Hosts list cannot be empty. Please check your playbook", &node.span)
            .hint("a play needs the pattern of the hosts it runs on"));
    }
    match items.iter().find(|item| item.as_str().is_none()) {
        None => Ok(()),
        Some(item) => {
            let message = match (node.as_list(), item.is_null()) {
                (None, _) => "Hosts list must be a sequence or string. Please check your playbook.".to_owned(),
                (_, true) => "Hosts list cannot contain values of 'None'. Please check your playbook".to_owned(),
                (_, false) => format!("Hosts list contains an invalid host value: '{}'", shown(item)),
            };
            Err(Error::parse(message, &item.span).hint("quote names that are numbers"))
        }
    }
}

/// Fails if the tasks, handlers or roles of a play are not lists.
pub(crate) fn sections(keywords: &Keywords) -> Result<()> {
    let malformed = |name| keywords.get(name).filter(|node: &&Node| node.as_list().is_none());
    for name in ["tasks", "pre_tasks", "post_tasks", "handlers"] {
        let Some(node) = malformed(name).filter(|node| !node.is_null()) else { continue };
        let given = node.scalar_text().unwrap_or_else(|| node.kind().to_string());
        let message =
            format!("A malformed block was encountered while loading {name}: {given} should be a list or None");
        let error = Error::parse(message, &node.span);
        return Err(if node.as_map().is_some() { error.hint("begin each task with `- `") } else { error });
    }
    match malformed("roles") {
        Some(node) => Err(Error::parse(
            format!("A malformed role declaration was encountered. `roles` is a list of roles, not {}", node.kind()),
            &node.span,
        )),
        None => Ok(()),
    }
}

fn prompt(entry: &Node) -> Result<()> {
    let Some(map) = entry.as_map() else {
        return Err(Error::parse(format!("a prompt must be a mapping, not {}", shown(entry)), &entry.span));
    };
    if !map.contains_key("name") {
        return Err(Error::parse("Invalid vars_prompt data structure, missing 'name' key", &entry.span));
    }
    if let Some(key) = map.keys().find(|key| !OF_PROMPTS.contains(&key.to_text().as_str())) {
        let word = key.to_text();
        let message = format!("Invalid vars_prompt data structure, found unsupported key '{word}'");
        return Err(Error::parse(message, &key.span).maybe_hint(did_you_mean(&word, OF_PROMPTS.iter().copied())));
    }
    Ok(())
}

fn texts(name: &str, node: Option<&Node>) -> Result<()> {
    match node {
        Some(node) if node.as_list().is_some() || node.as_map().is_some() => {
            Err(Error::parse(format!("`{name}` must be a text, not {}", shown(node)), &node.span))
        }
        _ => Ok(()),
    }
}

fn variable_names(vars: &Mapping, on: On) -> Result<()> {
    match vars.keys().find(|key| !key.as_str().is_some_and(is_variable_name)) {
        None => Ok(()),
        Some(key) => {
            let name = key.to_text();
            let message = format!("Invalid variable name in vars specified for {}: '{name}'", on.title());
            Err(Error::parse(message, &key.span)
                .hint(
                    "use letters, digits and `_`, with no digit first, and neither `not` nor a word for true, false \
                       or null",
                )
                .generic())
        }
    }
}

fn tags(node: &Node) -> Result<()> {
    if node.as_list().is_some() || node.as_str().is_some() {
        return Ok(());
    }
    Err(Error::parse(format!("tags must be specified as a list, and this is {}", shown(node)), &node.span).generic())
}

fn module_defaults(node: &Node) -> Result<()> {
    let items = match node.as_list() {
        Some(items) => items,
        None => std::slice::from_ref(node),
    };
    match items.iter().find(|item| item.as_map().is_none()) {
        None => Ok(()),
        Some(item) => {
            let message =
                format!("`module_defaults` must be a mapping of modules and groups to arguments, not {}", shown(item));
            Err(Error::parse(message, &item.span).hint("only the arguments may be templates"))
        }
    }
}

fn loop_control(node: &Node) -> Result<()> {
    let Some(map) = node.as_map() else {
        let message = format!("`loop_control` must be a mapping, not {}", shown(node));
        return Err(Error::parse(message, &node.span).hint("only its values may be templates"));
    };
    if let Some(key) = map.keys().find(|key| !OF_LOOP_CONTROL.contains(&key.to_text().as_str())) {
        let word = key.to_text();
        return Err(Error::parse(format!("'{word}' is not a valid attribute for a LoopControl"), &key.span)
            .maybe_hint(did_you_mean(&word, OF_LOOP_CONTROL.iter().copied())));
    }
    ["index_var", "label", "loop_var"].iter().try_for_each(|name| texts(name, map.get(name)))?;
    match map.get_entry("parallel") {
        Some((key, node)) => parallel(map, &key.span, node),
        None => Ok(()),
    }
}

/// Fails if `parallel` is not a number in its range, or is combined with keys that need items one after the other.
fn parallel(control: &Mapping, span: &Span, node: &Node) -> Result<()> {
    let number = node.scalar_text().and_then(|text| text.trim().parse::<usize>().ok());
    if !is_template(node) && !number.is_some_and(is_parallel) {
        let message =
            format!("`loop_control.parallel` must be a whole number from 1 to {MOST_PARALLEL}, not {}", shown(node));
        return Err(Error::parse(message, &node.span));
    }
    match ["pause", "break_when"].iter().find(|name| control.contains_key(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("`loop_control` has `parallel` and `{name}`, which needs items one after the other");
            Err(Error::parse(message, span).hint("leave out one of the two"))
        }
    }
}

/// Whether a loop may run this many items in parallel.
pub(crate) fn is_parallel(number: usize) -> bool {
    (1..=MOST_PARALLEL).contains(&number)
}

/// Fails if items of the action cannot run in parallel, because it runs on the control machine in order, or changes
/// variables, hosts or the tasks of the play. `control` is the task's `loop_control`.
pub(crate) fn parallel_action(action: &str, control: &Node) -> Result<()> {
    let Some((key, _)) = control.as_map().and_then(|map| map.get_entry("parallel")) else { return Ok(()) };
    let name = short_name(action);
    let why = match action.contains("{{") {
        true => "it is known only when the task runs",
        false if builtin::is_engine(name) || builtin::is_here(name) => {
            "its items run one after the other on the control machine"
        }
        false => return Ok(()),
    };
    let message = format!("`loop_control.parallel` is not possible with the action `{action}`: {why}");
    Err(Error::parse(message, &key.span).hint("`parallel` is for actions that work on a host; leave it out here"))
}

fn is_template(node: &Node) -> bool {
    node.as_str().is_some_and(|text| text.contains("{{") || text.contains("{%"))
}

/// A value for an error message: a text as written, or else its type.
fn shown(node: &Node) -> String {
    match node.scalar_text() {
        Some(text) => format!("'{text}'"),
        None => node.kind().to_owned(),
    }
}

/// Fails for `meta: end_role` outside of a role.
pub(crate) fn end_role(task: &Task) -> Result<()> {
    let is_meta = task.short_action() == "meta";
    if !is_meta || task.args.get("_raw_params").and_then(Node::as_str) != Some("end_role") {
        return Ok(());
    }
    let within = task.frame.chain().any(|frame| matches!(frame.kind, FrameKind::Role(_)));
    let place = match (task.handler, within) {
        (true, _) => "a handler",
        (false, false) => "outside of a role",
        (false, true) => return Ok(()),
    };
    Err(Error::parse(format!("Cannot execute 'end_role' from {place}"), &task.span))
}
