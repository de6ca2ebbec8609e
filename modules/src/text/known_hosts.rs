//! `known_hosts`: SSH host keys.

use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};

use super::edit::{Edit, lines_with_ends};
use crate::{Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, files::glob::matches};

/// The `known_hosts` module.
pub struct KnownHosts;

static SPEC: Spec = Spec {
    name: "known_hosts",
    summary: "Manage host keys in a known_hosts file",
    description: &[
        "Adds the key of a host, replaces its key of the same type, or removes its keys.",
        "Edits the file directly, without programs of OpenSSH.",
    ],
    options: &[
        Opt::required(
            "name",
            Kind::Str,
            "Name of the host as used for connections; `[host]:port` for a port other than 22.",
        )
        .line()
        .aliases(&["host"]),
        Opt::new("key", Kind::Str, "Complete line for the file: host names, key type and key."),
        Opt::new("path", Kind::Path, "Path of the file.").default("\"~/.ssh/known_hosts\""),
        Opt::new("hash_host", Kind::Bool, "Hash the host name, so that it cannot be read.").default("false"),
        Opt::new(
            "state",
            Kind::Str,
            "`present` adds the key, `absent` removes it. Without `key`, `absent` removes all keys of the host.",
        )
        .choices(&["absent", "present"])
        .default("\"present\""),
    ],
    examples: "- name: The repository's host is known\n  ansible.builtin.known_hosts:\n    name: git.example.com\n    \
               key: \"git.example.com {{ git_host_key }}\"\n    path: /etc/ssh/ssh_known_hosts\n",
    returns: &[
        Return { name: "name", kind: "str", when: "always", doc: "Name of the host." },
        Return { name: "key", kind: "str", when: "always", doc: "Requested line." },
        Return { name: "path", kind: "str", when: "always", doc: "Path of the file." },
        Return { name: "hash_host", kind: "bool", when: "always", doc: "Whether host names are hashed." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for KnownHosts {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        args.str("path").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?.to_lowercase();
        if name.contains(',') {
            return Err(Failure::new(
                "Comma separated list of names is not supported. Please pass a single name to lookup in the known_hosts file.",
            ));
        }
        // The default's `~` is expanded here; an argument's already is.
        let path = crate::args::expand_path(args.required("path")?, host);
        let edit = Edit::at(path.as_str().into(), args, host)?;
        let key = args.str("key").map(str::trim).filter(|key| !key.is_empty());
        let present = args.str("state") != Some("absent");
        let entry = key.map(|key| {
            Entry::parse(key).ok_or_else(|| Failure::new(format!("The key is not a line of known hosts: {key}")))
        });
        let entry = entry.transpose()?;
        if let Some(entry) = entry.as_ref().filter(|entry| !names(entry.hosts, &name)) {
            return Err(Failure::new("Host parameter does not match hashed host field in supplied key")
                .with("hosts", entry.hosts));
        }
        let lines = lines_with_ends(&edit.before.text);
        let after = match (present, &entry) {
            (true, None) => return Err(Failure::new("No key specified when adding a host")),
            (true, Some(entry)) => with(lines, entry, key.unwrap_or_default(), &name, args.bool("hash_host"))?,
            (false, entry) => without(lines, entry.as_ref(), &name),
        };
        let (exists, nothing) = (edit.exists, !edit.exists && after.is_empty());
        // The result always contains the difference, even without `--diff`.
        let header = if edit.exists { path.as_str() } else { "/dev/null" };
        let mut diff = Diff::of(&path, edit.before.text.as_str(), after.as_str());
        diff.before_header = Some(header.to_owned());
        let mut plan = if nothing { Plan::unchanged() } else { edit.described().plan_quietly(&after, "OK", host)? };
        plan.outcome.data.shift_remove("msg");
        plan.outcome.diff = vec![diff];
        if host.check() {
            // Check mode reports only whether anything would change.
            plan.outcome.data.clear();
            return Ok(plan);
        }
        if !exists {
            plan = plan.with("state", if present { "present" } else { "absent" });
        }
        Ok(plan
            .with("name", args.required("name")?)
            .with("key", args.value("key").cloned().unwrap_or_default())
            .with("path", path)
            .with("hash_host", args.bool("hash_host")))
    }
}

/// A line of the file.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    /// `@cert-authority` or `@revoked`.
    marker: Option<&'a str>,
    hosts: &'a str,
    kind: &'a str,
    key: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Entry<'a>> {
        let mut words = line.split_whitespace().peekable();
        if words.peek()?.starts_with('#') {
            return None;
        }
        let marker = words.next_if(|word| word.starts_with('@'));
        Some(Entry { marker, hosts: words.next()?, kind: words.next()?, key: words.next()? })
    }

    /// Whether both lines mean the same key of a host. A hashed name is not hashed again.
    fn is(&self, other: &Entry<'_>) -> bool {
        let hashed = |entry: &Entry<'_>| entry.hosts.starts_with("|1|");
        let hosts = self.hosts == other.hosts || hashed(self) && hashed(other);
        hosts && self.marker == other.marker && self.kind == other.kind && self.key == other.key
    }
}

/// Whether the host field of a line contains a host: by name, by pattern or hashed.
fn names(hosts: &str, name: &str) -> bool {
    if hosts.starts_with("|1|") {
        return hashed(hosts, name);
    }
    let mut found = false;
    for pattern in hosts.split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if fits(pattern, name) => return false,
            Some(_) => {}
            None => found |= fits(pattern, name),
        }
    }
    found
}

/// Matches a pattern with `*` and `?`; as in SSH, brackets are literal.
fn fits(pattern: &str, name: &str) -> bool {
    matches(&pattern.to_lowercase().replace('[', "[[]"), name)
}

fn hashed(hosts: &str, name: &str) -> bool {
    let mut parts = hosts.split('|').skip(2);
    let mut part = || BASE64_STANDARD.decode(parts.next()?).ok();
    let (Some(salt), Some(hash)) = (part(), part()) else { return false };
    let Ok(mut mac) = Hmac::<sha1::Sha1>::new_from_slice(&salt) else { return false };
    mac.update(name.as_bytes());
    mac.verify_slice(&hash).is_ok()
}

fn hash(name: &str) -> Result<String, Failure> {
    let mut salt = [0; 20];
    let failed = |error: String| Failure::new(format!("The name could not be hashed: {error}."));
    getrandom::fill(&mut salt).map_err(|error| failed(error.to_string()))?;
    let mut mac = Hmac::<sha1::Sha1>::new_from_slice(&salt).map_err(|error| failed(error.to_string()))?;
    mac.update(name.as_bytes());
    Ok(format!("|1|{}|{}", BASE64_STANDARD.encode(salt), BASE64_STANDARD.encode(mac.finalize().into_bytes())))
}

/// The file with the key: already present, in place of another key of its type, or appended as the given line with its
/// comment.
fn with(mut lines: Vec<String>, entry: &Entry<'_>, line: &str, name: &str, hash_host: bool) -> Result<String, Failure> {
    let hidden = if hash_host && !entry.hosts.starts_with("|1|") { Some(hash(name)?) } else { None };
    let new = Entry { hosts: hidden.as_deref().unwrap_or(entry.hosts), ..*entry };
    let found: Vec<(usize, Entry<'_>)> = of_host(&lines, name);
    if found.iter().any(|(_, old)| new.is(old)) {
        return Ok(lines.concat());
    }
    let replaced = found.iter().find(|(_, old)| old.marker.is_none() && new.marker.is_none() && old.kind == new.kind);
    if let Some(index) = replaced.map(|(index, _)| *index) {
        lines.remove(index);
    }
    if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push('\n');
    }
    lines.push(match &hidden {
        Some(hidden) => {
            let words = line.split_whitespace().map(|word| if word == entry.hosts { hidden } else { word });
            format!("{}\n", words.collect::<Vec<_>>().join(" "))
        }
        None => format!("{line}\n"),
    });
    Ok(lines.concat())
}

/// The file without the key, or without all keys of the host.
fn without(lines: Vec<String>, entry: Option<&Entry<'_>>, name: &str) -> String {
    let goes: Vec<usize> = of_host(&lines, name)
        .into_iter()
        .filter(|(_, old)| {
            entry.is_none_or(|entry| entry.kind == old.kind && entry.key == old.key && entry.marker == old.marker)
        })
        .map(|(index, _)| index)
        .collect();
    let kept = lines.iter().enumerate().filter(|(index, _)| !goes.contains(index));
    kept.map(|(_, line)| line.as_str()).collect()
}

fn of_host<'a>(lines: &'a [String], name: &str) -> Vec<(usize, Entry<'a>)> {
    let entries = lines.iter().enumerate().filter_map(|(index, line)| Some((index, Entry::parse(line)?)));
    entries.filter(|(_, entry)| names(entry.hosts, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_field_matched_by_name_pattern_and_hash() {
        assert!(
            names("a.example,10.0.0.1", "10.0.0.1") && names("*.example", "b.example") && names("[a]:2222", "[a]:2222")
        );
        assert!(!names("*.example,!b.example", "b.example") && !names("a", "b"));
        let hidden = hash("a.example").unwrap();
        assert!(names(&hidden, "a.example") && !names(&hidden, "b.example"));
        assert!(!names("|1|nonsense", "a"));
    }
}
