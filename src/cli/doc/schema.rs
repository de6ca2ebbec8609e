//! `windlass doc --schema`: JSON schema of playbooks and task files for completion and checks in editors. It is
//! generated from the engine's own table of keywords and specs of modules.

mod keywords;
mod options;

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use windlass_modules::Spec;

use self::keywords::{keyword, reference};
use crate::builtin;
use crate::playbook::keyword::{KEYWORDS, On};

/// Type of file that the schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum File {
    /// A playbook
    Playbook,
    /// Tasks or handlers of a role, or an included task file
    Tasks,
}

/// Pattern for qualified names of any collection.
const OF_COLLECTIONS: &str = r"^\w+\.\w+\.\w[\w.]*$";

/// Keys that mark an import in a playbook.
const IMPORT: &[&str] = &["import_playbook", "ansible.builtin.import_playbook"];

/// Schema of a file. `others` are the names of the project's modules.
pub(super) fn schema(file: File, others: &[String]) -> Value {
    let (title, entries) = match file {
        File::Playbook => ("A playbook", reference("plays")),
        File::Tasks => ("Tasks or handlers", reference("tasks")),
    };
    let mut definitions = Map::new();
    for spec in builtin::specs() {
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

/// Names of modules in directories of the project.
pub(super) fn modules_in(folders: &[PathBuf]) -> Vec<String> {
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let stems = files.map(|entry| entry.path()).filter(|path| path.is_file()).filter_map(|path| {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        (!name.starts_with(['.', '_']) && builtin::spec(&name).is_none()).then_some(name)
    });
    let mut names: Vec<String> = stems.collect();
    names.sort();
    names.dedup();
    names
}

/// Name of a module's definition in the schema.
fn name_of(spec: &Spec) -> String {
    format!("{}.{}", spec.collection, spec.name)
}

fn list_of(definition: &str, description: &str) -> Value {
    json!({"description": description, "type": ["array", "null"], "items": reference(definition)})
}

/// Uses definition `with` for mappings with one of the keys, and `without` for others.
fn choice(keys: &[&str], with: &str, without: &str) -> Value {
    let has: Vec<Value> = keys.iter().map(|key| json!({"required": [key]})).collect();
    json!({"type": "object", "if": {"anyOf": has}, "then": reference(with), "else": reference(without)})
}

/// Keywords allowed on an object.
fn keywords_on(on: On) -> Map<String, Value> {
    let names = KEYWORDS.iter().map(|(name, _)| *name).filter(|name| crate::playbook::keyword::is_keyword(name, on));
    names.map(|name| (name.to_owned(), keyword(name))).collect()
}

/// A mapping that allows only the keywords of an object and `more`.
fn object(on: On, required: &[&str], more: Map<String, Value>) -> Value {
    let mut properties = keywords_on(on);
    properties.extend(more);
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn import() -> Value {
    let target = json!({"description": super::plugins::summary("keyword", IMPORT[0]), "type": "string"});
    object(On::Import, &[], IMPORT.iter().map(|name| ((*name).to_owned(), target.clone())).collect())
}

/// An entry of `roles`: a name, or a mapping whose unknown keys are parameters of the role.
fn role() -> Value {
    let mut mapping = object(On::Role, &[], Map::new());
    mapping["properties"]["name"] = keyword("role");
    mapping["properties"]["src"] = json!({"type": "string"});
    mapping["additionalProperties"] = true.into();
    json!({"anyOf": [{"type": "string"}, mapping]})
}

/// A task or handler: keywords and a module that is built in, of the project or of a collection.
fn task(others: &[String]) -> Value {
    let mut names = Map::new();
    for spec in builtin::specs() {
        let shown = json!({"description": spec.summary, "allOf": [reference(&name_of(spec))]});
        let short = std::iter::once(&spec.name).chain(spec.aliases).map(|name| (*name).to_owned());
        // Old name of `ansible.builtin`.
        let legacy = (spec.collection == "ansible.builtin").then(|| format!("ansible.legacy.{}", spec.name));
        names.extend(short.chain(spec.full_names()).chain(legacy).map(|name| (name, shown.clone())));
    }
    names.extend(others.iter().map(|name| (name.clone(), json!({"description": "A module of the project."}))));
    let mut task = object(On::Handler, &[], names);
    // Only handlers accept `listen`, but a role's file may contain either.
    task["patternProperties"] = json!({
        r"^with_\w+$": {"description": "Items of the loop, from this lookup."},
        OF_COLLECTIONS: {},
    });
    task
}

#[cfg(test)]
mod tests;
