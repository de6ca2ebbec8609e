//! Pages about roles, from `meta/argument_specs.yml`.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::descriptions;
use crate::error::{Error, Result};
use crate::loader::argument_specs;
use crate::playbook::Files;

/// A role with argument specs.
pub(super) struct RoleDoc {
    pub(super) name: String,
    path: PathBuf,
    entries: Map<String, Value>,
}

/// Roles in these directories, sorted. Of several with one name the first counts.
pub(super) fn all(folders: &[PathBuf], files: &Files) -> Result<Vec<RoleDoc>> {
    let mut roles: Vec<RoleDoc> = Vec::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if roles.iter().any(|role| role.name == name) {
                continue;
            }
            if let Some(Value::Object(mut entries)) = argument_specs(&path, files)?.map(|specs| specs.to_json()) {
                let options = entries.values_mut().filter_map(|entry| entry.get_mut("options")?.as_object_mut());
                options.for_each(|options| descriptions::complete(&path, options));
                roles.push(RoleDoc { name, path: crate::paths::absolute(&path), entries });
            }
        }
    }
    roles.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(roles)
}

impl RoleDoc {
    fn summary(entry: &Value) -> &str {
        entry.get("short_description").and_then(Value::as_str).unwrap_or("UNDOCUMENTED")
    }

    /// Entry points as a list.
    pub(super) fn listed(&self) -> String {
        let width = self.entries.keys().map(String::len).max().unwrap_or(0);
        let mut text = format!("{}:\n  specs:\n", self.name);
        for (name, entry) in &self.entries {
            text.push_str(&format!("    {name:<width$}: {}\n", RoleDoc::summary(entry)));
        }
        text
    }

    /// Entry points as JSON.
    pub(super) fn listed_json(&self) -> Value {
        let entries = self.entries.iter().map(|(name, entry)| (name.clone(), RoleDoc::summary(entry).into()));
        json!({"description": "UNDOCUMENTED", "entry_points": entries.collect::<Map<_, Value>>()})
    }

    /// All entry points, or only the wanted one. Fails if it does not exist.
    fn chosen(&self, wanted: Option<&str>) -> Result<Map<String, Value>> {
        match wanted {
            None => Ok(self.entries.clone()),
            Some(name) => match self.entries.get(name) {
                Some(entry) => Ok(Map::from_iter([(name.to_owned(), entry.clone())])),
                None => Err(Error::new(format!("The role {} has no entry point {name}.", self.name))),
            },
        }
    }

    /// Page of the role as text.
    pub(super) fn text(&self, wanted: Option<&str>) -> Result<String> {
        let mut text = format!("> ROLE: {} ({})\n", self.name, self.path.display());
        for (name, entry) in self.chosen(wanted)? {
            text.push_str(&format!("\nENTRY POINT: {name} - {}\n", RoleDoc::summary(&entry)));
            for paragraph in paragraphs(entry.get("description")) {
                text.push_str(&format!("\n{}\n", super::wrapped(&paragraph, 10)));
            }
            if let Some(Value::Object(options)) = entry.get("options") {
                text.push_str("\nOPTIONS (= is mandatory):\n");
                write_options(options, 0, &mut text);
            }
        }
        Ok(text + "\n")
    }

    /// Page of the role as JSON.
    pub(super) fn json(&self, wanted: Option<&str>) -> Result<Value> {
        let path = self.path.display().to_string();
        Ok(json!({"collection": null, "entry_points": self.chosen(wanted)?, "path": path}))
    }
}

fn paragraphs(description: Option<&Value>) -> Vec<String> {
    match description {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn write_options(options: &Map<String, Value>, depth: usize, text: &mut String) {
    let indent = " ".repeat(depth * 8);
    for (name, option) in options {
        let required = option.get("required").and_then(Value::as_bool).unwrap_or(false);
        text.push_str(&format!("\n{indent}{} {name}\n", if required { '=' } else { '-' }));
        for paragraph in paragraphs(option.get("description")) {
            text.push_str(&format!("{}\n", super::wrapped(&paragraph, depth * 8 + 8)));
        }
        for key in ["choices", "default", "elements", "type"] {
            if let Some(value) = option.get(key) {
                let value = windlass_template::text(&windlass_template::from_json(value));
                text.push_str(&format!("{indent}        {key}: {value}\n"));
            }
        }
        if let Some(Value::Object(inner)) = option.get("options") {
            write_options(inner, depth + 1, text);
        }
    }
}
