//! `windlass galaxy collection list`.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use windlass_yaml::emit::{DumpOptions, Item, dump};

use super::Format;
use super::installed::{self, Installed};
use super::name::Name;
use crate::cli::galaxy::state::Galaxy;
use crate::error::{Error, Result};

/// Lists the collections below these directories of namespaces, or only the named one.
pub(super) fn run(name: Option<&str>, format: Format, roots: &[PathBuf], galaxy: &Galaxy) -> Result<u8> {
    let name = name.map(Name::require).transpose()?;
    let mut found: Vec<(String, Vec<Installed>)> = Vec::new();
    for root in roots {
        let collections = match &name {
            Some(name) => Installed::find(root, name, galaxy).into_iter().collect(),
            None => installed::all(root, galaxy),
        };
        if !collections.is_empty() {
            found.push((root.display().to_string(), collections));
        }
    }
    match format {
        Format::Human => table(&found, galaxy),
        Format::Json => {
            let collections = |listed: &[Installed]| -> Map<String, Value> {
                listed.iter().map(|one| (one.name.to_string(), json!({"version": one.version_text()}))).collect()
            };
            let places: Map<String, Value> =
                found.iter().map(|(root, listed)| (root.clone(), collections(listed).into())).collect();
            galaxy.say(&crate::output::python_json_as_is(&places.into()));
        }
        Format::Yaml => {
            let text = |text: &str| Item::Str(text.to_owned());
            let version = |one: &Installed| Item::Map(vec![(text("version"), text(&one.version_text()))]);
            let collections = |listed: &[Installed]| {
                Item::Map(listed.iter().map(|one| (text(&one.name.to_string()), version(one))).collect())
            };
            let places = found.iter().map(|(root, listed)| (text(root), collections(listed)));
            let options = DumpOptions { default_flow_style: Some(false), ..DumpOptions::to_yaml() };
            let written =
                dump(&Item::Map(places.collect()), &options).map_err(|error| Error::new(error.to_string()))?;
            galaxy.say(written.trim_end());
        }
    }
    Ok(0)
}

/// Prints a table for each place; all have the same widths, as with ansible-galaxy.
fn table(found: &[(String, Vec<Installed>)], galaxy: &Galaxy) {
    let header = ("Collection".to_owned(), "Version".to_owned());
    let row = |one: &Installed| (one.name.to_string(), one.version_text());
    let rows = || found.iter().flat_map(|(_, collections)| collections.iter().map(row)).chain([header.clone()]);
    let names = rows().map(|(name, _)| name.len()).max().unwrap_or(0);
    let versions = rows().map(|(_, version)| version.len()).max().unwrap_or(0);
    let rule = ("-".repeat(names), "-".repeat(versions));
    for (root, collections) in found {
        galaxy.say(&format!("\n# {root}"));
        let rows = [header.clone(), rule.clone()].into_iter().chain(collections.iter().map(row));
        rows.for_each(|(name, version)| galaxy.say(&format!("{name:names$} {version:versions$}")));
    }
}
