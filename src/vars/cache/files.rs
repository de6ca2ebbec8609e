//! Files in the format of Ansible's `jsonfile`: one JSON file per host, interchangeable with Ansible.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use windlass_template::Compat;

use crate::output::{ascii, nice_json, python_json};

/// A directory of cached facts.
#[derive(Debug)]
pub(super) struct Files<'a> {
    folder: &'a Path,
    prefix: &'a str,
    /// Time after which facts expire; zero means never.
    timeout: Duration,
    /// Whether the facts are JSON text inside a JSON document and the file name has a version prefix.
    is_wrapped: bool,
}

impl<'a> Files<'a> {
    pub(super) fn new(folder: &'a Path, prefix: &'a str, timeout: u64, compat: Compat) -> Files<'a> {
        Files { folder, prefix, timeout: Duration::from_secs(timeout), is_wrapped: !compat.caches_plain_facts() }
    }

    fn file(&self, host: &str) -> PathBuf {
        // Slashes in a host's name must not lead out of the directory.
        let version = if self.is_wrapped { "s1_" } else { "" };
        self.folder.join(format!("{}{version}{}", self.prefix, host.replace('/', "_")))
    }

    /// Passes the facts of hosts to `found`. A file that cannot be read counts as missing. Returns warnings about files
    /// that must not be used.
    pub(super) fn read(&self, hosts: &[Arc<str>], found: &mut dyn FnMut(&Arc<str>, Json)) -> Vec<String> {
        let mut problems = Vec::new();
        if let Ok(found) = std::fs::metadata(self.folder)
            && let Err(error) = windlass_bounds::own(&found)
        {
            problems.push(format!("the facts cached in {} are not used: {error}", self.folder.display()));
            return problems;
        }
        for host in hosts {
            let file = self.file(host);
            let age = std::fs::metadata(&file).and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
            let fresh = age.is_ok_and(|age| self.timeout.is_zero() || age.unwrap_or_default() <= self.timeout);
            let text = if fresh { windlass_bounds::read_own(&file) } else { Ok(Vec::new()) };
            let text = text.unwrap_or_else(|error| {
                use std::io::ErrorKind::{InvalidInput, PermissionDenied};
                if matches!(error.kind(), InvalidInput | PermissionDenied) {
                    problems.push(format!("the facts of {host} are not read from {}: {error}", file.display()));
                }
                Vec::new()
            });
            let kept: Json = serde_json::from_slice(&text).unwrap_or_default();
            let payload = kept.get("__payload__").and_then(Json::as_str).filter(|_| self.is_wrapped);
            match payload.map(|payload| serde_json::from_str(payload).unwrap_or_default()) {
                Some(facts) => found(host, facts),
                None => found(host, kept),
            }
        }
        problems
    }

    /// Writes the facts of hosts, and removes the files of hosts without any.
    pub(super) fn write(&self, entries: &mut dyn Iterator<Item = (Arc<str>, Option<Json>)>) -> Vec<String> {
        let mut problems = Vec::new();
        for (host, facts) in entries {
            let file = self.file(&host);
            let written = match facts {
                Some(facts) => self.write_file(&file, &facts),
                None => std::fs::remove_file(&file).or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                }),
            };
            if let Err(error) = written {
                problems.push(format!("the facts of {host} cannot be cached in {}: {error}", file.display()));
            }
        }
        problems
    }

    fn write_file(&self, file: &Path, facts: &Json) -> std::io::Result<()> {
        std::fs::create_dir_all(self.folder)?;
        let text = match self.is_wrapped {
            true => python_json(&serde_json::json!({"__payload__": ascii(&python_json(facts))})),
            false => ascii(&nice_json(facts)),
        };
        // Another run may read the file at any time.
        crate::replace::write(file, &text)
    }
}
