//! `deb822_repository`: a repository of Debian packages, in the newer format of apt's sources.

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

/// Where apt looks for sources, and where the keys of them are kept.
const SOURCES: &str = "/etc/apt/sources.list.d";
const KEYRINGS: &str = "/etc/apt/keyrings";

static SPEC: Spec = Spec {
    name: "deb822_repository",
    summary: "Manage repositories of Debian packages in the format deb822",
    description: &[
        "Writes a file `NAME.sources` in /etc/apt/sources.list.d, and the key, if `signed_by` is an address, to /etc/apt/keyrings.",
        "The lists of packages are not read anew; a following `apt` with `update_cache` does that.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "What the repository is called; the files are named after it."),
        Opt::new("state", Kind::Str, "Whether it is there.").default("\"present\"").choices(&["present", "absent"]),
        Opt::new("types", Kind::List(&Kind::Str), "Packages, their sources, or both.")
            .default("[\"deb\"]")
            .choices(&["deb", "deb-src"]),
        Opt::new("uris", Kind::List(&Kind::Str), "Addresses.").address(),
        Opt::new("suites", Kind::List(&Kind::Str), "Suites such as `bookworm`, or a path that ends with a slash."),
        Opt::new("components", Kind::List(&Kind::Str), "Components such as `main`."),
        Opt::new(
            "signed_by",
            Kind::Str,
            "The key: its address, a file of the host, a fingerprint, or the armored key itself.",
        ),
        Opt::new("architectures", Kind::List(&Kind::Str), "The only architectures to use."),
        Opt::new("languages", Kind::List(&Kind::Str), "The languages of descriptions."),
        Opt::new("targets", Kind::List(&Kind::Str), "What is downloaded."),
        Opt::new("enabled", Kind::Bool, "Use the repository."),
        Opt::new("trusted", Kind::Bool, "Whether it is trusted; the signature decides if not given."),
        Opt::new("allow_insecure", Kind::Bool, "Accept it without a signature."),
        Opt::new("allow_weak", Kind::Bool, "Accept signatures by weak algorithms."),
        Opt::new("allow_downgrade_to_insecure", Kind::Bool, "Accept that it is not signed any more."),
        Opt::new("by_hash", Kind::Bool, "Get lists by their hashes."),
        Opt::new("check_date", Kind::Bool, "Refuse lists from the future."),
        Opt::new("check_valid_until", Kind::Bool, "Refuse lists that are too old."),
        Opt::new("date_max_future", Kind::Int, "How many seconds of the future are accepted."),
        Opt::new("inrelease_path", Kind::Str, "Where the file InRelease is."),
        Opt::new("pdiffs", Kind::Bool, "Get only the differences of lists."),
        Opt::new("mode", Kind::Raw, "The permissions of the file.").default("\"0644\""),
    ],
    examples: "- name: The repository of Docker\n  ansible.builtin.deb822_repository:\n    name: docker\n    types: deb\n    \
               uris: https://download.docker.com/linux/debian\n    suites: bookworm\n    components: stable\n    \
               signed_by: https://download.docker.com/linux/debian/gpg\n",
    returns: &[
        Return { name: "repo", kind: "str", when: "always", doc: "The file's text; null when it is removed." },
        Return { name: "dest", kind: "str", when: "always", doc: "The file." },
        Return { name: "key_filename", kind: "str", when: "always", doc: "The file of the key, if there is one." },
    ],
    ..Spec::EMPTY
};

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

/// A file's name of this text.
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
    // Several in a row become one.
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
    // A prediction describes what is still there.
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

/// What the file is, if there is one.
fn about(path: &Path) -> Map {
    if path.exists() { describe(path) } else { Map::new() }
}

type SignedBy = (Option<String>, Option<PathBuf>, Plan);

/// What the field says, the file of the key, and the plan that puts it there.
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

/// The fields, in the order of the options' names.
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

/// `check_valid_until` is `Check-Valid-Until`.
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
    fn files_are_named_after_the_repository() {
        assert_eq!(slug("Docker CE_stable!"), "docker-ce-stable");
        assert_eq!(slug("a  _ b"), "a-b");
        assert_eq!(slug("../../etc"), "etc");
    }

    #[test]
    fn fields_are_written_in_order() {
        let arguments = json!({
            "name": "my repo", "uris": ["http://a", "http://b"], "suites": "stable", "components": ["main", "x"], "enabled": false,
            "by_hash": true, "date_max_future": 10, "signed_by": "-----BEGIN-----\n\nabc\n-----END-----\n",
        });
        let args = Args::validate(&SPEC, &arguments, &Host::alone(false, false)).unwrap();
        let text = document(&args, args.str("signed_by").map(str::to_owned));
        assert_eq!(
            text,
            "By-Hash: yes\nComponents: main x\nDate-Max-Future: 10\nEnabled: no\nX-Repolib-Name: my repo\nSigned-By:\n    \
             -----BEGIN-----\n    .\n    abc\n    -----END-----\nSuites: stable\nTypes: deb\nURIs: http://a http://b\n"
        );
    }
}
