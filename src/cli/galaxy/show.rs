//! Lists, describes and removes installed roles.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::install::{Installed, check_name};
use super::server::Servers;
use super::state::Galaxy;
use crate::error::{Error, Result};

/// Keys of a server's answer that are not printed.
const HIDDEN: &[&str] = &[
    "name",
    "description",
    "readme_html",
    "related",
    "summary_fields",
    "average_aw_composite",
    "average_aw_score",
    "url",
];

/// Metadata file of a role.
fn metadata(role: &Path) -> Option<PathBuf> {
    ["meta/main.yml", "meta/main.yaml"].iter().map(|name| role.join(name)).find(|path| path.is_file())
}

fn show(role: &Path, name: &str, galaxy: &Galaxy) {
    let version = Installed::read(role).and_then(|installed| installed.version);
    galaxy.say(&format!("- {name}, {}", version.as_deref().unwrap_or("(unknown version)")));
}

/// Lists the roles in these directories, or only the named one.
pub(super) fn list(name: Option<&str>, places: &[PathBuf], galaxy: &Galaxy) -> Result<u8> {
    let mut warnings = Vec::new();
    let mut is_place = false;
    for place in places {
        let shown = place.display();
        if !place.is_dir() {
            warnings.push(format!("- the configured path {shown} does not exist."));
            continue;
        }
        is_place = true;
        match name {
            Some(name) if place.join(name).is_dir() => {
                galaxy.say(&format!("# {shown}"));
                show(&place.join(name), name, galaxy);
                return Ok(0);
            }
            Some(name) => warnings.push(format!("- the role {name} was not found")),
            None => {
                galaxy.say(&format!("# {shown}"));
                let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
                let mut roles: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
                roles.sort();
                for role in roles.iter().filter(|role| metadata(role).is_some()) {
                    show(role, &role.file_name().unwrap_or_default().to_string_lossy(), galaxy);
                }
            }
        }
    }
    warnings.iter().for_each(|warning| galaxy.printer.warning(warning));
    if is_place {
        return Ok(0);
    }
    Err(Error::usage("- None of the provided paths were usable. Please specify a valid path with --roles-path"))
}

/// Removes roles.
pub(super) fn remove(names: &[String], places: &[PathBuf], galaxy: &Galaxy) -> Result<u8> {
    for name in names {
        check_name(name)?;
        match places.iter().map(|place| place.join(name)).find(|role| metadata(role).is_some()) {
            None => galaxy.say(&format!("- {name} is not installed, skipping.")),
            Some(role) => {
                std::fs::remove_dir_all(&role)
                    .map_err(|error| Error::new(format!("Failed to remove role {name}: {error}")))?;
                galaxy.say(&format!("- successfully removed {name}"));
            }
        }
    }
    Ok(0)
}

/// Prints details of roles from their metadata and from servers.
pub(super) fn info(names: &[String], places: &[PathBuf], servers: Option<&Servers>, galaxy: &Galaxy) -> Result<u8> {
    for name in names {
        let mut about = Map::new();
        let shown: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        about.insert("path".to_owned(), shown.join(":").into());
        let role = places.iter().map(|place| place.join(name)).find(|role| role.is_dir());
        if let Some(installed) = role.as_deref().and_then(Installed::read) {
            about.insert("installed_version".to_owned(), installed.version.unwrap_or_default().into());
            about.insert("install_date".to_owned(), installed.install_date.unwrap_or_default().into());
        }
        let remote = servers.map(|servers| servers.of_roles()?.role(name)).transpose()?.flatten();
        if remote.is_none() && (servers.is_some() || role.is_none()) {
            galaxy.say(&format!("- the role {name} was not found"));
            return Ok(0);
        }
        if let Some(Value::Object(remote)) = remote {
            about.extend(remote);
        }
        if let Some(path) = role.as_deref().and_then(metadata)
            && let Value::Object(meta) = galaxy.files.yaml(&path).map_err(Error::generic)?.to_json()
        {
            about.extend(meta);
        }
        galaxy.say(&text_of(name, &about));
    }
    Ok(0)
}

fn text_of(name: &str, about: &Map<String, Value>) -> String {
    let text = |value: &Value| windlass_template::text(&windlass_template::from_json(value));
    let inner = about.get("galaxy_info").and_then(|info| info.get("description"));
    let description = about.get("description").or(inner).map(text).unwrap_or_default();
    let mut lines = vec![String::new(), format!("Role: {name}"), format!("\tdescription: {description}")];
    for (key, value) in sorted(about) {
        match value.as_object() {
            None => lines.push(format!("\t{key}: {}", text(value))),
            Some(fields) => {
                lines.push(format!("\t{key}:"));
                lines.extend(sorted(fields).into_iter().map(|(key, value)| format!("\t\t{key}: {}", text(value))));
            }
        }
    }
    lines.join("\n")
}

fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().filter(|(key, _)| !HIDDEN.contains(&key.as_str())).collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}
