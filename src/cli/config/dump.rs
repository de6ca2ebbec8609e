//! `windlass config dump`: shows settings with their values.

use serde_json::{Map, Value, json};
use windlass_template::Compat;

use super::{Dump, Which, default_of, to_yaml};
use crate::error::Result;
use crate::output::{Printer, Secrets};
use crate::settings::{Color, Config, GalaxyServer, Origin, ServerOption, base, galaxy_servers, value_of};

/// A setting with its value.
struct Entry {
    name: String,
    origin: String,
    value: Value,
    changed: bool,
}

impl Entry {
    fn new(name: &str, value: Value, origin: &Origin) -> Entry {
        Entry { name: name.to_owned(), value, changed: *origin != Origin::Default, origin: origin.to_string() }
    }

    fn to_json(&self) -> Value {
        json!({"name": self.name, "value": self.value, "origin": self.origin})
    }

    fn line(&self, printer: &Printer) -> String {
        let color = if self.changed { Color::Changed } else { Color::Ok };
        let value = windlass_template::text(&windlass_template::from_json(&self.value));
        printer.paint(&format!("{}({}) = {value}", self.name, self.origin), color) + "\n"
    }
}

/// Runs the subcommand.
pub(super) fn dump(which: &Which, only_changed: bool, format: Dump) -> Result<()> {
    let config = which.config()?;
    let settings = crate::settings::Settings::from_config(&config)?;
    let secrets = Secrets::default();
    settings.facts.passwords().for_each(|password| secrets.add_password(password));
    let printer = Printer::new(settings.output.color, Secrets::default()).with_palette(&settings.output.palette);
    let mut text = String::new();
    let mut document = Vec::new();
    if which.base() {
        let mut entries = Vec::new();
        for setting in base() {
            let (mut value, origin) = value_of(setting, &config)?;
            secrets.mask_json(&mut value);
            entries.push(Entry::new(setting.name, value, &origin));
        }
        let file = config.file.as_ref().map_or(Value::Null, |file| file.display().to_string().into());
        entries.push(Entry { name: "CONFIG_FILE".to_owned(), origin: String::new(), value: file, changed: true });
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries.iter().filter(|entry| entry.changed || !only_changed) {
            text.push_str(&entry.line(&printer));
            document.push(entry.to_json());
        }
        text.push_str("\nGALAXY_SERVERS:\n");
        let mut servers = Map::new();
        for server in galaxy_servers(&config)? {
            let entries = entries_of(&server, &config)?;
            text.push_str(&format!("\n\n{}\n{}", server.name, "=".repeat(server.name.len())));
            let mut shown: Vec<_> = entries.iter().filter(|entry| entry.changed || !only_changed).collect();
            shown.sort_by(|a, b| a.name.cmp(&b.name));
            shown.iter().for_each(|entry| text.push_str(&format!("\n{}", entry.line(&printer).trim_end_matches('\n'))));
            servers.insert(server.name, entries_as_json(&entries, settings.compat));
        }
        if !servers.is_empty() {
            text.push('\n');
        }
        document.push(json!({"GALAXY_SERVERS": servers}));
    }
    let callbacks = which.callbacks()?;
    if which.kind == "all" && !callbacks.is_empty() {
        text.push_str("\nCALLBACK:\n========\n");
    }
    let mut plugins = Vec::new();
    for callback in callbacks {
        let mut entries: Vec<Entry> = callback
            .all_options()
            .map(|option| match config.lookup_with_origin(option.env, option.ini) {
                Some((text, origin)) if option.kind == "bool" => {
                    Entry::new(option.name, crate::settings::is_true(&text).into(), &origin)
                }
                Some((text, origin)) => Entry::new(option.name, text.into(), &origin),
                None => Entry::new(option.name, default_of(option), &Origin::Default),
            })
            .filter(|entry| entry.changed || !only_changed)
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        if entries.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{}:\n{}\n", callback.name, "_".repeat(callback.name.len())));
        entries.iter().for_each(|entry| text.push_str(&entry.line(&printer)));
        plugins.push(json!({callback.name: entries.iter().map(Entry::to_json).collect::<Vec<_>>()}));
    }
    match which.kind.as_str() {
        "base" => {}
        "all" => document.push(json!({"CALLBACK_PLUGINS": plugins})),
        _ => document.extend(plugins),
    }
    crate::cli::stdout::print(&match format {
        Dump::Display => text,
        Dump::Json => crate::output::nice_json(&document.into()) + "\n",
        Dump::Yaml => to_yaml(&document.into()),
    })
}

/// Settings of a Galaxy server. A missing address is marked as required.
fn entries_of(server: &GalaxyServer, config: &Config) -> Result<Vec<Entry>> {
    let entry = |option: &ServerOption| {
        let (value, origin) = option.value(config)?;
        let mut entry = Entry::new(option.name, value, &origin);
        if option.is_required() && !entry.changed {
            entry.origin = "REQUIRED".to_owned();
        }
        Ok(entry)
    };
    server.options.iter().map(entry).collect()
}

/// Options of a Galaxy server as JSON.
fn entries_as_json(entries: &[Entry], compat: Compat) -> Value {
    match compat.dumps_servers_as_tuples() {
        true => {
            let entries = entries.iter().filter(|entry| entry.name != "client_secret");
            let tuple = |entry: &Entry| json!([entry.name, entry.value, entry.origin, null]);
            entries.map(|entry| (entry.name.clone(), tuple(entry))).collect::<Map<_, _>>().into()
        }
        false => {
            let whole =
                |entry: &Entry| json!({"name": entry.name, "origin": entry.origin, "type": null, "value": entry.value});
            entries.iter().map(whole).collect()
        }
    }
}
