//! `windlass doc --schema`: the JSON schema of playbooks and of files of tasks, by which editors complete and check them. It is made
//! of what the engine itself reads: the table of keywords and the specs of actions and modules.

mod keywords;
mod options;

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use windlass_modules::Spec;

use self::keywords::{keyword, reference};
use crate::action;
use crate::playbook::keyword::{KEYWORDS, On};

/// The file that is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum File {
    /// A playbook
    Playbook,
    /// Tasks or handlers of a role, or a file of tasks that is included
    Tasks,
}

/// Names a file may use although they are not ours: those of any collection.
const OF_COLLECTIONS: &str = r"^\w+\.\w+\.\w[\w.]*$";

/// What stands in an entry of a playbook for a playbook to import.
const IMPORT: &[&str] = &["import_playbook", "ansible.builtin.import_playbook"];

/// The schema of a file. `others` are the names of modules of the project.
pub(super) fn schema(file: File, others: &[String]) -> Value {
    let (title, entries) = match file {
        File::Playbook => ("A playbook", reference("plays")),
        File::Tasks => ("Tasks or handlers", reference("tasks")),
    };
    let mut definitions = Map::new();
    for spec in action::specs() {
        definitions.insert(name_of(spec), options::arguments(spec));
    }
    definitions.extend(keywords::shapes());
    definitions.insert("tasks".into(), list_of("item", "Tasks, handlers and blocks."));
    definitions.insert("plays".into(), list_of("entry", "Plays and playbooks to import."));
    definitions.insert("item".into(), choice(&["block"], "block", "task"));
    definitions.insert("entry".into(), choice(IMPORT, "import", "play"));
    definitions.insert("block".into(), object(On::Block, &["block"], Map::new()));
    definitions.insert("play".into(), object(On::Play, &["hosts"], Map::new()));
    definitions.insert("import".into(), import());
    definitions.insert("role".into(), role());
    definitions.insert("task".into(), task(others));
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        "description": format!("{title} as Windlass {} reads it.", env!("CARGO_PKG_VERSION")),
        "$ref": entries["$ref"],
        "definitions": definitions,
    })
}

/// The names of modules in folders of the project: beside playbooks, in roles, and where the settings say.
pub(super) fn modules_in(folders: &[PathBuf]) -> Vec<String> {
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let stems = files.map(|entry| entry.path()).filter(|path| path.is_file()).filter_map(|path| {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        (!name.starts_with(['.', '_']) && action::spec(&name).is_none()).then_some(name)
    });
    let mut names: Vec<String> = stems.collect();
    names.sort();
    names.dedup();
    names
}

/// What a module's arguments are called among the definitions.
fn name_of(spec: &Spec) -> String {
    format!("{}.{}", spec.collection, spec.name)
}

fn list_of(definition: &str, description: &str) -> Value {
    json!({"description": description, "type": ["array", "null"], "items": reference(definition)})
}

/// One definition for what has one of these keys, another for the rest.
fn choice(keys: &[&str], with: &str, without: &str) -> Value {
    let has: Vec<Value> = keys.iter().map(|key| json!({"required": [key]})).collect();
    json!({"type": "object", "if": {"anyOf": has}, "then": reference(with), "else": reference(without)})
}

/// The keywords that may stand there.
fn keywords_on(on: On) -> Map<String, Value> {
    let names = KEYWORDS.iter().map(|(name, _)| *name).filter(|name| crate::playbook::keyword::is_keyword(name, on));
    names.map(|name| (name.to_owned(), keyword(name))).collect()
}

/// A mapping of the keywords of that place and `more`, and of nothing else.
fn object(on: On, required: &[&str], more: Map<String, Value>) -> Value {
    let mut properties = keywords_on(on);
    properties.extend(more);
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn import() -> Value {
    let target = json!({"description": super::plugins::summary("keyword", IMPORT[0]), "type": "string"});
    object(On::Import, &[], IMPORT.iter().map(|name| ((*name).to_owned(), target.clone())).collect())
}

/// An entry of `roles`: its name alone, or a mapping, in which what is no keyword is a parameter of the role.
fn role() -> Value {
    let mut mapping = object(On::Role, &[], Map::new());
    mapping["properties"]["name"] = keyword("role");
    mapping["properties"]["src"] = json!({"type": "string"});
    mapping["additionalProperties"] = true.into();
    json!({"anyOf": [{"type": "string"}, mapping]})
}

/// A task or handler: keywords, and a module of ours, of the project or of a collection.
fn task(others: &[String]) -> Value {
    let mut names = Map::new();
    for spec in action::specs() {
        let shown = json!({"description": spec.summary, "allOf": [reference(&name_of(spec))]});
        let short = std::iter::once(&spec.name).chain(spec.aliases).map(|name| (*name).to_owned());
        // The old name of `ansible.builtin`.
        let legacy = (spec.collection == "ansible.builtin").then(|| format!("ansible.legacy.{}", spec.name));
        names.extend(short.chain(spec.full_names()).chain(legacy).map(|name| (name, shown.clone())));
    }
    names.extend(others.iter().map(|name| (name.clone(), json!({"description": "A module of the project."}))));
    let mut task = object(On::Handler, &[], names);
    // What a handler may have and a task may not is `listen`; a file of a role may hold either.
    task["patternProperties"] = json!({
        r"^with_\w+$": {"description": "The items the task is done for, of this lookup."},
        OF_COLLECTIONS: {},
    });
    task
}

#[cfg(test)]
mod tests;
