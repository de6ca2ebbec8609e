//! Reads and writes plan files. Everything that is read counts as hostile data.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::document::{Document, ExtraVars, SCHEMA, VERSION};
use crate::error::{Error, Result};

/// Maximum size of a plan file, in bytes.
const SIZE: u64 = 128 << 20;
/// Maximum number of texts that a list of the request may have.
const WORDS: usize = 10_000;

/// Writes a plan for its owner only, replacing an earlier one.
pub fn write(path: &Path, document: &Document) -> Result<()> {
    write_up_to(SIZE, path, document)
}

fn write_up_to(size: u64, path: &Path, document: &Document) -> Result<()> {
    let fail = |why: String| Error::new(format!("the plan cannot be written to {}: {why}", path.display()));
    let mut text = serde_json::to_string_pretty(document).map_err(|error| fail(error.to_string()))?;
    text.push('\n');
    if text.len() as u64 > size {
        return Err(fail(format!("it is larger than {size} bytes")).hint("plan fewer hosts at once, with --limit"));
    }
    crate::replace::replace(path, &text, 0o600).map_err(|error| fail(error.to_string()))
}

/// Reads a plan. Refuses links, files of other users, and anything that does not follow the schema.
pub fn read(path: &Path) -> Result<Document> {
    let fail = |why: String| {
        Error::new(format!("{} cannot be applied: {why}", path.display()))
            .hint("write a new plan with `windlass plan -o FILE`")
    };
    let file = open(path).map_err(&fail)?;
    let mut bytes = Vec::new();
    file.take(SIZE + 1).read_to_end(&mut bytes).map_err(|error| fail(error.to_string()))?;
    if bytes.len() as u64 > SIZE {
        return Err(fail(format!("it is larger than {SIZE} bytes")));
    }
    if bytes.first() != Some(&b'{') {
        return Err(fail("it is not a plan of this version".to_owned()));
    }
    let document: Document =
        serde_json::from_slice(&bytes).map_err(|error| fail(format!("it is not a plan of this version: {error}")))?;
    check(&document).map_err(fail)?;
    Ok(document)
}

fn open(path: &Path) -> Result<File, String> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file =
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).map_err(|error| {
            match error.raw_os_error() {
                Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => "it is a symbolic link".to_owned(),
                _ => error.to_string(),
            }
        })?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own && metadata.uid() != 0 {
        return Err(format!("it belongs to the user {}, who could have written anything into it", metadata.uid()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("other users can write to it; its mode must be 0600".to_owned());
    }
    if metadata.len() > SIZE {
        return Err(format!("it is larger than {SIZE} bytes"));
    }
    Ok(file)
}

/// Checks everything that the types do not.
fn check(document: &Document) -> Result<(), String> {
    if document.schema != SCHEMA || document.version != VERSION {
        let Document { schema, version, .. } = document;
        return Err(format!("it has the schema `{schema}` {version}, and this release reads `{SCHEMA}` {VERSION}"));
    }
    if document.windlass != env!("CARGO_PKG_VERSION") {
        let version = env!("CARGO_PKG_VERSION");
        return Err(format!("windlass {} made it, and this is windlass {version}", document.windlass));
    }
    if document.totals.failed > 0 {
        return Err("it has failed tasks".to_owned());
    }
    let request = &document.request;
    if request.playbooks.is_empty() {
        return Err("it names no playbook".to_owned());
    }
    let lists = [&request.playbooks, &request.inventory, &request.flags, &request.tags, &request.skip_tags];
    if lists.iter().any(|list| list.len() > WORDS) || request.extra_vars.len() > WORDS {
        return Err(format!("a list of its request has more than {WORDS} entries"));
    }
    let texts = lists.into_iter().flatten().chain(request.options.values());
    if let Some(text) = texts.into_iter().find(|text| text.chars().any(char::is_control)) {
        return Err(format!("an option holds control characters: {text:?}"));
    }
    for vars in &request.extra_vars {
        if let ExtraVars::Values(values) = vars {
            values.iter().try_for_each(|(name, value)| carriable(name, value))?;
        }
    }
    Ok(())
}

/// Whether a plan file may carry an extra variable: data that neither holds a template nor says how hosts are reached.
pub(crate) fn carriable(name: &str, value: &serde_json::Value) -> Result<(), String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) || name.starts_with("ansible_") {
        return Err(format!("a plan file cannot carry the extra variable `{name}`"));
    }
    if has_template(value) {
        return Err(format!("a plan file cannot carry the extra variable `{name}`, because it is a template"));
    }
    Ok(())
}

fn has_template(value: &serde_json::Value) -> bool {
    let is_template = |text: &str| ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark));
    match value {
        serde_json::Value::String(text) => is_template(text),
        serde_json::Value::Array(items) => items.iter().any(has_template),
        serde_json::Value::Object(map) => map.iter().any(|(key, item)| is_template(key) || has_template(item)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn plan_too_large_for_all_hosts_is_written_for_some() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        let facts = |host: &str| (host.to_owned(), BTreeMap::from([("fact".to_owned(), "x".repeat(2000))]));
        let plan_of = |hosts: &[&str]| Document {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            windlass: "0.1.0".to_owned(),
            created: "2026-01-31T23:59:59Z".to_owned(),
            request: crate::planned::document::Request::default(),
            inputs: Vec::new(),
            facts: hosts.iter().map(|host| facts(host)).collect(),
            totals: crate::planned::document::Counts::default(),
            hosts: BTreeMap::new(),
            tasks: Vec::new(),
        };
        let refused = write_up_to(4000, &path, &plan_of(&["a", "b"])).unwrap_err().to_string();
        assert!(refused.contains("it is larger than 4000 bytes"), "{refused}");
        assert!(!path.exists());
        write_up_to(4000, &path, &plan_of(&["a"])).unwrap();
        assert!(path.exists());
    }
}
