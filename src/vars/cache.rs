//! Facts that are kept between runs, one JSON file a host, as Ansible's `jsonfile` keeps them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_template::Value;

use super::World;
use crate::settings::Settings;

/// A folder of facts.
#[derive(Debug)]
pub struct FactCache<'s> {
    settings: &'s Settings,
    folder: PathBuf,
}

impl FactCache<'_> {
    /// The cache the settings name, if they name one.
    pub fn of(settings: &Settings) -> Option<FactCache<'_>> {
        Some(FactCache { settings, folder: settings.fact_cache.clone()? })
    }

    fn file(&self, host: &str) -> PathBuf {
        // A host's name may hold a slash, and must not lead out of the folder.
        self.folder.join(format!("{}{}", self.settings.fact_cache_prefix, host.replace('/', "_")))
    }

    /// What is kept of a host and not too old.
    pub fn load(&self, host: &str) -> Vec<(Arc<str>, Value)> {
        let file = self.file(host);
        let limit = Duration::from_secs(self.settings.fact_cache_timeout);
        let age = std::fs::metadata(&file).and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
        let fresh = age.is_ok_and(|age| limit.is_zero() || age.unwrap_or_default() <= limit);
        let text = if fresh { std::fs::read(&file).unwrap_or_default() } else { Vec::new() };
        let facts: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&text).unwrap_or_default();
        facts.into_iter().map(|(name, value)| (Arc::from(name), windlass_template::from_json(&value))).collect()
    }

    /// Keeps the facts of all hosts whose facts have changed; what cannot be written is told.
    pub fn update(&self, before: &World, after: &World) -> Vec<String> {
        let mut problems = Vec::new();
        for (host, state) in &after.hosts {
            let former = before.hosts.get(host).map(|former| &former.facts);
            if former.is_some_and(|former| Arc::ptr_eq(former, &state.facts)) {
                continue;
            }
            if former.is_none() && state.facts.is_empty() {
                continue;
            }
            let file = self.file(host);
            let written = if state.facts.is_empty() {
                std::fs::remove_file(&file).or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })
            } else {
                self.write(&file, &state.facts)
            };
            if let Err(error) = written {
                problems.push(format!("the facts of {host} cannot be kept in {}: {error}", file.display()));
            }
        }
        problems
    }

    fn write(&self, file: &std::path::Path, facts: &super::facts::Facts) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let entries =
            facts.names().filter_map(|name| Some((name.to_string(), windlass_template::to_json(facts.get(name)?))));
        let text = serde_json::Value::Object(entries.collect()).to_string();
        // Another run may read the file at any time.
        let staged =
            self.folder.join(format!(".{}.{}", std::process::id(), file.file_name().unwrap_or_default().display()));
        std::fs::write(&staged, text)?;
        std::fs::rename(&staged, file)
    }

    /// Forgets a host.
    pub fn forget(&self, host: &str) {
        // A file that is not there is forgotten.
        let _ = std::fs::remove_file(self.file(host));
    }
}
