//! `mount_facts`: mounted and configured file systems.

use std::{collections::BTreeMap, time::Duration};

use globset::GlobBuilder;
use serde_json::{Value, json};

use super::{Root, mount_tables, probe, storage::size_of};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    process::{self, Command},
};

/// The `mount_facts` module.
pub struct MountFacts;

static SPEC: Spec = Spec {
    name: "mount_facts",
    summary: "Gather mounts as facts",
    description: &[
        "Reads the kernel's mount table and the files that configure mounts, and adds the sizes of file systems.",
        "`mount_points` contains a repeated mount point as the first source lists it; `aggregate_mounts` contains \
         all entries.",
    ],
    options: &[
        Opt::new("devices", Kind::List(&Kind::Str), "Patterns, one of which the device must match."),
        Opt::new("fstypes", Kind::List(&Kind::Str), "Patterns, one of which the file system type must match."),
        Opt::new(
            "sources",
            Kind::List(&Kind::Str),
            "Sources to read: `dynamic` for the kernel's table, `static` for files such as /etc/fstab, `all` for \
             both, `mount` for the output of `mount_binary`, or paths of files.",
        ),
        Opt::new("mount_binary", Kind::Raw, "Program to run if no table is available; null for none.")
            .default("\"mount\""),
        Opt::new("timeout", Kind::Float, "Seconds to wait for the size of one file system. Default: no limit."),
        Opt::new("on_timeout", Kind::Str, "Handling of a file system that does not answer.")
            .default("\"error\"")
            .choices(&["error", "warn", "ignore"]),
        Opt::new(
            "include_aggregate_mounts",
            Kind::Bool,
            "Fill `aggregate_mounts`. Default: not filled, and repeated mount points cause a warning.",
        ),
    ],
    examples: "- name: Network filesystems\n  ansible.builtin.mount_facts:\n    fstypes: [nfs*]\n    timeout: 10\n    on_timeout: warn\n",
    returns: &[Return {
        name: "ansible_facts",
        kind: "dict",
        when: "success",
        doc: "Facts `mount_points`, by mount point, and `aggregate_mounts`, a list.",
    }],
    ..Spec::EMPTY
}
.compiled();

const DYNAMIC: &[&str] = &["/etc/mtab", "/proc/mounts", "/etc/mnttab"];
const STATIC: &[&str] = &["/etc/fstab", "/etc/vfstab", "/etc/filesystems"];

/// An entry of a source.
struct Entry {
    source: String,
    line: String,
    fields: Map,
}

impl Entry {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

impl Module for MountFacts {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let timeout = match args.float("timeout") {
            None => Duration::MAX,
            Some(seconds) if seconds > 0.0 && seconds.is_finite() => {
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }
            Some(seconds) => {
                return Err(Failure::new(format!(
                    "argument 'timeout' must be a positive number or null, not {seconds:?}"
                )));
            }
        };
        let program = match args.value("mount_binary") {
            None => None,
            Some(Value::String(program)) => Some(program.as_str()),
            Some(other) => {
                return Err(Failure::new(format!("argument 'mount_binary' must be a string or null, not {other}")));
            }
        };
        let mut warnings = Vec::new();
        let wanted = (Patterns::of(args, "devices")?, Patterns::of(args, "fstypes")?);
        let uuids = Uuids::of(&Root::host());
        let mut mounts = Vec::new();
        for mut entry in entries(args, program, &mut warnings, host)? {
            let (device, uuid) = uuids.resolve(entry.field("device"), host)?;
            if !wanted.0.match_one(&device) || !wanted.1.match_one(entry.field("fstype")) {
                continue;
            }
            match size_of(entry.field("mount"), timeout) {
                Some(size) => entry.fields.extend(size),
                None => {
                    let sentence = format!(
                        "Timed out getting mount size for mount {} (type {})",
                        entry.field("mount"),
                        entry.field("fstype")
                    );
                    overdue(sentence, args, &mut warnings)?;
                }
            }
            let context = json!({ "source": entry.source, "source_data": entry.line });
            entry.fields.insert("ansible_context".into(), context);
            entry.fields.insert("uuid".into(), uuid.map_or(Value::Null, Value::from));
            mounts.push(entry);
        }
        let aggregate = args.maybe_bool("include_aggregate_mounts");
        if aggregate.is_none() {
            warnings.extend(repeated(&mounts));
        }
        let mut points = Map::new();
        for mount in &mounts {
            points.entry(mount.field("mount")).or_insert_with(|| mount.fields.clone().into());
        }
        let all: Vec<Value> = match aggregate {
            Some(true) => mounts.into_iter().map(|mount| mount.fields.into()).collect(),
            _ => Vec::new(),
        };
        let plan = Plan::unchanged().with("ansible_facts", json!({ "mount_points": points, "aggregate_mounts": all }));
        Ok(warnings.into_iter().fold(plan, Plan::with_warning))
    }
}

/// The entries of all sources, each source once.
fn entries(args: &Args, program: Option<&str>, warnings: &mut Vec<String>, host: &Host) -> Result<Vec<Entry>, Failure> {
    let mut sources: Vec<&str> = Vec::new();
    let given = args.list("sources");
    for source in if given.is_empty() { vec!["all"] } else { given } {
        match source {
            "" => return Err(Failure::new("sources contains an empty string")),
            "dynamic" => sources.extend(DYNAMIC),
            "static" => sources.extend(STATIC),
            "all" => sources.extend(DYNAMIC.iter().chain(STATIC)),
            other => sources.push(other),
        }
    }
    if sources.iter().enumerate().any(|(index, source)| sources.iter().take(index).any(|earlier| earlier == source)) {
        warnings.push(format!(
            "mount_facts option 'sources' contains duplicate entries, repeat sources will be ignored: {}",
            sources.join(", ")
        ));
    }
    let mut found = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    let mut ask = sources.iter().any(|source| DYNAMIC.contains(source));
    for source in sources {
        let real = std::fs::canonicalize(source).map_or_else(|_| source.to_owned(), |path| path.display().to_string());
        if seen.contains(&real) || seen.iter().any(|known| known == source) {
            continue;
        }
        seen.push(real);
        let lines = if source == "mount" {
            match program {
                Some(program) => from_program(program, args, warnings, host)?,
                None => Vec::new(),
            }
        } else {
            let text = std::fs::read(source).unwrap_or_default();
            table(source, &String::from_utf8_lossy(&text))
        };
        ask &= lines.is_empty() || !(source == "mount" || DYNAMIC.contains(&source));
        found.extend(lines);
    }
    if let (true, Some(program)) = (ask, program) {
        found.extend(from_program(program, args, warnings, host)?);
    }
    Ok(found)
}

/// The output of the program, within the time limit.
fn from_program(program: &str, args: &Args, warnings: &mut Vec<String>, host: &Host) -> Result<Vec<Entry>, Failure> {
    let path = process::find(host, program)
        .ok_or_else(|| Failure::new(format!("Failed to find required executable \"{program}\"")))?;
    let seconds = args.float("timeout");
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(Duration::MAX);
    let path = path.to_string_lossy();
    let Some(answer) = probe::ask(&*path, &[], limit) else {
        let sentence = format!("Command '{path}' timed out after {} seconds", seconds.unwrap_or_default());
        overdue(sentence, args, warnings)?;
        return Ok(Vec::new());
    };
    if answer.rc != 0 {
        return Err(Failure::new(format!("Failed to execute {path}: exit status {}.", answer.rc)));
    }
    let made = |(line, fields)| Entry { source: "mount".into(), line, fields };
    Ok(mount_tables::of_program(&answer.stdout).into_iter().map(made).collect())
}

/// Applies `on_timeout`.
fn overdue(sentence: String, args: &Args, warnings: &mut Vec<String>) -> Result<(), Failure> {
    match args.str("on_timeout") {
        Some("warn") => warnings.push(sentence),
        Some("ignore") => {}
        _ => return Err(Failure::new(sentence)),
    }
    Ok(())
}

/// The entries of a table.
fn table(source: &str, text: &str) -> Vec<Entry> {
    let made = |(line, fields)| Entry { source: source.to_owned(), line, fields };
    mount_tables::of_file(text).into_iter().map(made).collect()
}

/// Warning about sources that repeat a mount point.
fn repeated(mounts: &[Entry]) -> Option<String> {
    let mut by_source: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for mount in mounts {
        by_source.entry(&mount.source).or_default().push(mount.field("mount"));
    }
    by_source.retain(|_, points| {
        let count = points.len();
        let mut unique = points.clone();
        unique.sort_unstable();
        unique.dedup();
        unique.len() != count
    });
    let shown: Vec<String> =
        by_source.iter().map(|(source, points)| format!("{source} ({})", points.join(", "))).collect();
    (!shown.is_empty()).then(|| {
        format!(
            "mount_facts: ignoring repeat mounts in the following sources: {}. You can disable this warning by configuring the \
             'include_aggregate_mounts' option as True or False.",
            shown.join(", ")
        )
    })
}

/// Patterns, at least one of which must match.
struct Patterns(Vec<globset::GlobMatcher>);

impl Patterns {
    fn of(args: &Args, option: &str) -> Result<Patterns, Failure> {
        let made = args.list(option).into_iter().map(|pattern| {
            // As in Python's fnmatch, a star also matches slashes.
            let glob = GlobBuilder::new(pattern).literal_separator(false).build();
            glob.map(|glob| glob.compile_matcher())
                .map_err(|error| Failure::new(format!("{option} has a pattern that cannot be read: {error}.")))
        });
        Ok(Patterns(made.collect::<Result<_, _>>()?))
    }

    fn match_one(&self, text: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.is_match(text))
    }
}

/// UUIDs of file systems, by device.
struct Uuids(BTreeMap<String, String>);

impl Uuids {
    fn of(root: &Root) -> Uuids {
        let folder = "/dev/disk/by-uuid";
        let named = root.names(folder).into_iter();
        let found = named.filter_map(|uuid| Some((root.real_path(&format!("{folder}/{uuid}"))?, uuid)));
        Uuids(found.collect())
    }

    /// The device, resolved if it is given by its UUID, and the UUID.
    fn resolve(&self, device: &str, host: &Host) -> Result<(String, Option<String>), Failure> {
        let Some(uuid) = device.strip_prefix("UUID=") else {
            let found = self.0.get(device).cloned();
            return Ok((device.to_owned(), found.or_else(|| asked(device, host))));
        };
        let known = self.0.iter().find(|(_, known)| *known == uuid).map(|(device, _)| device.clone());
        Ok((known.unwrap_or_else(|| device.to_owned()), Some(uuid.to_owned())))
    }
}

/// The UUID from `lsblk`, where udev provides no links.
fn asked(device: &str, host: &Host) -> Option<String> {
    if !device.starts_with("/dev/") {
        return None;
    }
    let output =
        Command::new("lsblk").plain_locale().args(["--noheadings", "--nodeps", "--output", "UUID", device]).run(host);
    let text = output.ok().filter(|output| output.success())?.stdout_text();
    Some(text.trim().to_owned()).filter(|uuid| !uuid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_file_system_listed_with_size() {
        let result = crate::run(&MountFacts, &json!({"fstypes": "*"}), &Host::alone());
        let root = &result["ansible_facts"]["mount_points"]["/"];
        assert!(root["size_total"].as_u64().is_some(), "{result}");
        assert_eq!(
            root["ansible_context"]["source"],
            if std::path::Path::new("/etc/mtab").exists() { "/etc/mtab" } else { "/proc/mounts" }
        );
        for arguments in [json!({"timeout": 0}), json!({"mount_binary": ["x"]}), json!({"sources": [""]})] {
            assert_eq!(crate::run(&MountFacts, &arguments, &Host::alone())["failed"], true);
        }
    }
}
