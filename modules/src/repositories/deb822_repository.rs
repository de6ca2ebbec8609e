//! `deb822_repository`: Debian repositories in apt's deb822 format.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::key;
use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    files::{
        attributes::Attributes,
        directory,
        info::describe,
        mode::Mode,
        write::{Source, Wanted},
    },
    process::reason,
};

/// The `deb822_repository` module.
pub struct Deb822Repository;

/// Folders of apt's sources and of their keys.
const SOURCES: &str = "/etc/apt/sources.list.d";
const KEYRINGS: &str = "/etc/apt/keyrings";

static SPEC: Spec = Spec {
    name: "deb822_repository",
    summary: "Manage Debian repositories in deb822 format",
    description: &[
        "Writes a file `NAME.sources` in /etc/apt/sources.list.d and, if `signed_by` is a URL, the key to \
         /etc/apt/keyrings.",
        "Does not update the package lists; run `apt` with `update_cache` afterwards.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Name of the repository, which determines the file names."),
        Opt::new("state", Kind::Str, "`present` writes the file, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("types", Kind::List(&Kind::Str), "Content of the repository: binary packages, sources, or both.")
            .default("[\"deb\"]")
            .choices(&["deb", "deb-src"]),
        Opt::new("uris", Kind::List(&Kind::Str), "URLs of the repository.").address(),
        Opt::new("suites", Kind::List(&Kind::Str), "Suites such as `bookworm`, or a path that ends with a slash."),
        Opt::new("components", Kind::List(&Kind::Str), "Components such as `main`."),
        Opt::new("signed_by", Kind::Str, "Signing key: a URL, a file on the host, a fingerprint, or the armored key."),
        Opt::new("architectures", Kind::List(&Kind::Str), "Architectures to use. Default: all that the host supports."),
        Opt::new("languages", Kind::List(&Kind::Str), "Languages of package descriptions."),
        Opt::new("targets", Kind::List(&Kind::Str), "Index files to download."),
        Opt::new("enabled", Kind::Bool, "Enable the repository."),
        Opt::new(
            "trusted",
            Kind::Bool,
            "Trust the repository regardless of its signature. Default: the signature decides.",
        ),
        Opt::new("allow_insecure", Kind::Bool, "Accept an unsigned repository."),
        Opt::new("allow_weak", Kind::Bool, "Accept signatures with weak algorithms."),
        Opt::new("allow_downgrade_to_insecure", Kind::Bool, "Accept a repository that is no longer signed."),
        Opt::new("by_hash", Kind::Bool, "Download index files by their hashes."),
        Opt::new("check_date", Kind::Bool, "Reject index files dated in the future."),
        Opt::new("check_valid_until", Kind::Bool, "Reject expired index files."),
        Opt::new("date_max_future", Kind::Int, "Seconds that the date of index files may be in the future."),
        Opt::new("inrelease_path", Kind::Str, "Path of the file InRelease."),
        Opt::new("pdiffs", Kind::Bool, "Download only differences of index files."),
        Opt::new("mode", Kind::Raw, "Permissions of the file.").default("\"0644\""),
    ],
    examples: "- name: The repository of Docker\n  ansible.builtin.deb822_repository:\n    name: docker\n    types: deb\n    \
               uris: https://download.docker.com/linux/debian\n    suites: bookworm\n    components: stable\n    \
               signed_by: https://download.docker.com/linux/debian/gpg\n",
    returns: &[
        Return { name: "repo", kind: "str", when: "always", doc: "Content of the file; null after removal." },
        Return { name: "dest", kind: "str", when: "always", doc: "Path of the file." },
        Return { name: "key_filename", kind: "str", when: "always", doc: "Path of the key file, if any." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Deb822Repository {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let slug = slug(args.required("name")?);
        if slug.is_empty() {
            return Err(Failure::new("name has no letter or digit that a file could be named after."));
        }
        let path = Path::new(SOURCES).join(format!("{slug}.sources"));
        if args.str("state") == Some("absent") {
            return Ok(removal(&path, &slug, host));
        }
        let (signed_by, key_file, key_plan) = match args.str("signed_by") {
            Some(text) => signed_by(text, &slug, args, host)?,
            None => (None, None, Plan::unchanged()),
        };
        let text = document(args, signed_by);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let mut wanted = Wanted::new(&path, Source::Bytes(text.clone().into_bytes()));
        wanted.attributes = mode(args.value("mode").unwrap_or(&"0644".into()))?;
        wanted.follow = false;
        let mut plan = Plan::sequence(vec![key_plan, wanted.plan(host)?]);
        plan.outcome.diff.clear();
        if host.diff() && before != text {
            plan = plan.with_diff(Diff::of(&path.display().to_string(), before, text.as_str()));
        }
        let key_file = key_file.map_or(Value::Null, |path| path.display().to_string().into());
        let about = about(&path);
        let shown = path.clone();
        let plan = plan.with_all(about).and_then(move |_, outcome| {
            outcome.data.extend(self::about(&shown));
            Ok(())
        });
        Ok(plan.with("repo", text).with("dest", path.display().to_string()).with("key_filename", key_file))
    }
}

fn mode(value: &Value) -> Result<Attributes, Failure> {
    let mut attributes = Attributes::default();
    attributes.mode = Some(Mode::parse(value)?);
    Ok(attributes)
}

/// A file name derived from a text.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for character in name.to_lowercase().chars() {
        match character {
            'a'..='z' | '0'..='9' | '-' => slug.push(character),
            '_' => slug.push(' '),
            other if other.is_whitespace() => slug.push(' '),
            _ => {}
        }
    }
    // Joins several separators to one.
    let mut joined = String::new();
    for character in slug.chars() {
        match character {
            ' ' if joined.ends_with(' ') => {}
            other => joined.push(other),
        }
    }
    joined.replace(' ', "-")
}

fn key_path(slug: &str, extension: &str) -> PathBuf {
    Path::new(KEYRINGS).join(format!("{slug}.{extension}"))
}

fn removal(path: &Path, slug: &str, host: &Host) -> Plan {
    // Check mode describes the existing file.
    let about = if host.check() { about(path) } else { Map::new() };
    let mut files = vec![path.to_owned()];
    files.extend(["asc", "gpg"].map(|extension| key_path(slug, extension)));
    files.retain(|file| file.symlink_metadata().is_ok());
    let plan = if files.is_empty() {
        Plan::unchanged()
    } else {
        Plan::change(move |_, _| {
            files.iter().try_for_each(|file| {
                std::fs::remove_file(file)
                    .map_err(|error| Failure::new(format!("{} cannot be removed: {}.", file.display(), reason(&error))))
            })
        })
    };
    let key_file = key_path(slug, "gpg").display().to_string();
    plan.with_all(about)
        .with("repo", Value::Null)
        .with("dest", path.display().to_string())
        .with("key_filename", key_file)
}

/// Result keys of the file, if it exists.
fn about(path: &Path) -> Map {
    if path.exists() { describe(path) } else { Map::new() }
}

type SignedBy = (Option<String>, Option<PathBuf>, Plan);

/// The value of the field, the key file, and the plan that writes it.
fn signed_by(text: &str, slug: &str, args: &Args, host: &Host) -> Result<SignedBy, Failure> {
    if Path::new(text).is_file() {
        return Ok((Some(text.to_owned()), Some(text.into()), Plan::unchanged()));
    }
    if !text.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
        return Ok((Some(text.to_owned()), None, Plan::unchanged()));
    }
    let bytes = crate::http::read(text, args, host)
        .map_err(|reason| Failure::new(format!("Could not fetch signed_by key: {reason}")))?;
    let path = key_path(slug, if key::is_armored(&bytes) { "asc" } else { "gpg" });
    let folder = Path::new(KEYRINGS);
    let mut plans = Vec::new();
    if !folder.is_dir() {
        plans.push(directory::plan(folder, &mode(&"0755".into())?)?);
    }
    let mut wanted = Wanted::new(&path, Source::Bytes(bytes));
    wanted.attributes = mode(&"0644".into())?;
    wanted.directory_to_come = true;
    plans.push(wanted.plan(host)?);
    Ok((Some(path.display().to_string()), Some(path), Plan::sequence(plans)))
}

/// The file's fields, sorted by option name.
fn document(args: &Args, signed_by: Option<String>) -> String {
    let mut options: Vec<&Opt> =
        SPEC.options.iter().filter(|option| !matches!(option.name, "mode" | "state")).collect();
    options.sort_by_key(|option| option.name);
    let mut document = String::new();
    for option in options {
        let text = match args.value(option.name) {
            None => continue,
            Some(_) if option.name == "signed_by" => signed_by.clone().unwrap_or_default(),
            Some(Value::Bool(value)) => (if *value { "yes" } else { "no" }).to_owned(),
            Some(Value::Array(_)) => args.list(option.name).join(" "),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        document.push_str(&field_name(option.name));
        document.push(':');
        if text.contains('\n') {
            document.push('\n');
            for line in text.trim().lines() {
                let line = line.trim();
                document.push_str(&format!("    {}\n", if line.is_empty() { "." } else { line }));
            }
        } else {
            document.push_str(&format!(" {text}\n"));
        }
    }
    document
}

/// The field name of an option, such as `Check-Valid-Until` of `check_valid_until`.
fn field_name(option: &str) -> String {
    match option {
        "name" => return "X-Repolib-Name".to_owned(),
        "uris" => return "URIs".to_owned(),
        _ => {}
    }
    let words = option.split('_').map(|word| {
        let (first, rest) = word.split_at(1.min(word.len()));
        first.to_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn file_name_derived_from_repository_name() {
        assert_eq!(slug("Docker CE_stable!"), "docker-ce-stable");
        assert_eq!(slug("a  _ b"), "a-b");
        assert_eq!(slug("../../etc"), "etc");
    }

    #[test]
    fn fields_written_sorted_by_name() {
        let arguments = json!({
            "name": "my repo", "uris": ["http://a", "http://b"], "suites": "stable", "components": ["main", "x"], "enabled": false,
            "by_hash": true, "date_max_future": 10, "signed_by": "-----BEGIN-----\n\nabc\n-----END-----\n",
        });
        let args = Args::validate(&SPEC, &arguments, &Host::alone()).unwrap();
        let text = document(&args, args.str("signed_by").map(str::to_owned));
        assert_eq!(
            text,
            "By-Hash: yes\nComponents: main x\nDate-Max-Future: 10\nEnabled: no\nX-Repolib-Name: my repo\nSigned-By:\n    \
             -----BEGIN-----\n    .\n    abc\n    -----END-----\nSuites: stable\nTypes: deb\nURIs: http://a http://b\n"
        );
    }
}
