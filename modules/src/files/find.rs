//! `find`: searches files by name, age, size, content and more.

use std::{
    collections::HashMap,
    fs::Metadata,
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use windlass_python_regex::{Anchor, Flags, Pattern, compile};

use super::{
    checksum::{self, ALGORITHMS, Hasher},
    glob::matches,
    mode::{Mode, Of},
    stat::basics,
};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, accounts,
    process::{Command, reason},
    text::Text,
};

/// The `find` module.
pub struct Find;

static SPEC: Spec = Spec {
    name: "find",
    summary: "Find files on the host",
    description: &[
        "Searches directories for files that match all given criteria, and returns them sorted by name.",
        "Changes nothing. Skips unreadable paths and lists them in `skipped_paths`.",
    ],
    options: &[
        Opt::required("paths", Kind::List(&Kind::Path), "Directories to search.").aliases(&["name", "path"]),
        Opt::new(
            "patterns",
            Kind::List(&Kind::Str),
            "Find only names that match one of these patterns: wildcards, or regular expressions with `use_regex`.",
        )
        .aliases(&["pattern"])
        .default("[]"),
        Opt::new("excludes", Kind::List(&Kind::Str), "Patterns that the name must not match.").aliases(&["exclude"]),
        Opt::new("contains", Kind::Str, "Regular expression that must match the beginning of a line in the file."),
        Opt::new("read_whole_file", Kind::Bool, "Let `contains` match anywhere in the file, also across lines.")
            .default("false"),
        Opt::new("file_type", Kind::Str, "Type of entries to find.")
            .choices(&["any", "directory", "file", "link"])
            .default("\"file\""),
        Opt::new(
            "age",
            Kind::Str,
            "Minimum age, or maximum with a minus sign; in seconds, or with the suffix `m`, `h`, `d` or `w`.",
        ),
        Opt::new("age_stamp", Kind::Str, "Time that `age` compares.")
            .choices(&["atime", "ctime", "mtime"])
            .default("\"mtime\""),
        Opt::new(
            "size",
            Kind::Str,
            "Minimum size, or maximum with a minus sign; in bytes, or with the suffix `k`, `m`, `g` or `t`.",
        ),
        Opt::new("recurse", Kind::Bool, "Search subdirectories too.").default("false"),
        Opt::new("hidden", Kind::Bool, "Include names that begin with a dot.").default("false"),
        Opt::new("follow", Kind::Bool, "Search linked directories too.").default("false"),
        Opt::new("get_checksum", Kind::Bool, "Return checksums of the files.").default("false"),
        Opt::new("checksum_algorithm", Kind::Str, "Algorithm of the checksums.")
            .aliases(&["checksum", "checksum_algo"])
            .choices(ALGORITHMS)
            .default("\"sha1\""),
        Opt::new(
            "use_regex",
            Kind::Bool,
            "Treat patterns as regular expressions that match from the beginning of the name.",
        )
        .default("false"),
        Opt::new("depth", Kind::Int, "Maximum number of directory levels to descend."),
        Opt::new("mode", Kind::Raw, "Permissions that files must have, as text, octal or symbolic."),
        Opt::new("exact_mode", Kind::Bool, "Require exactly the bits of `mode`; otherwise any common bit is enough.")
            .default("true"),
        Opt::new(
            "encoding",
            Kind::Str,
            "Encoding of the files that `contains` searches. A file with another encoding ends the search of its \
             directory with a warning.",
        ),
        Opt::new("limit", Kind::Int, "Maximum number of files to find."),
    ],
    examples: "- name: Old logs\n  ansible.builtin.find:\n    paths: /var/log/app\n    patterns: ['*.log', '*.gz']\n    age: 4w\n    \
               recurse: true\n  register: old_logs\n",
    returns: &[
        Return {
            name: "files",
            kind: "list",
            when: "success",
            doc: "Files that were found, with path, permissions, owner, size, times and more.",
        },
        Return { name: "matched", kind: "int", when: "success", doc: "Number of files that were found." },
        Return { name: "examined", kind: "int", when: "success", doc: "Number of files that were examined." },
        Return {
            name: "skipped_paths",
            kind: "dict",
            when: "success",
            doc: "Paths that could not be examined, with the reason.",
        },
        Return { name: "msg", kind: "str", when: "success", doc: "Message about skipped paths." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Find {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let mut search = Search {
            wanted: Wanted::of(args)?,
            host,
            found: Vec::new(),
            skipped: Map::new(),
            examined: 0,
            unreadable: None,
            names: Names::default(),
        };
        let mut warnings = Vec::new();
        for path in args.list("paths") {
            if search.is_full() {
                break;
            }
            if !Path::new(path).is_dir() {
                let why = format!("'{path}' is not a directory");
                warnings.push(format!("Skipped '{path}' path due to this access issue: {why}"));
                search.skipped.insert(path.to_owned(), why.into());
                continue;
            }
            search.walk(Path::new(path), 1, &mut Vec::new())?;
            if let Some(why) = search.unreadable.take() {
                warnings.push(format!("Skipped '{path}' path due to this access issue: {why}"));
                search.skipped.insert(path.to_owned(), why.into());
            }
        }
        let msg = match (warnings.is_empty(), search.is_full()) {
            (false, _) => "Not all paths examined, check warnings for details",
            (true, true) => "Limit of matches reached",
            (true, false) => "All paths examined",
        };
        let plan = Plan::unchanged()
            .with("matched", search.found.len())
            .with("files", search.found)
            .with("examined", search.examined)
            .with("skipped_paths", search.skipped)
            .with("msg", msg);
        Ok(warnings.into_iter().fold(plan, Plan::with_warning))
    }
}

/// Search criteria.
struct Wanted {
    patterns: Vec<NamePattern>,
    excludes: Vec<NamePattern>,
    contains: Option<Arc<Pattern>>,
    encoding: Option<String>,
    whole_file: bool,
    kind: String,
    age: Option<i64>,
    stamp: String,
    size: Option<i64>,
    recurse: bool,
    hidden: bool,
    follow: bool,
    checksum: Option<String>,
    depth: Option<i64>,
    mode: Option<u32>,
    exact_mode: bool,
    limit: Option<usize>,
}

enum NamePattern {
    Wildcards(String),
    Regex(Arc<Pattern>),
}

impl NamePattern {
    fn fits(&self, name: &str) -> Result<bool, Failure> {
        Ok(match self {
            NamePattern::Wildcards(pattern) => matches(pattern, name),
            NamePattern::Regex(pattern) => pattern.is_match(name)?,
        })
    }
}

impl Wanted {
    fn of(args: &Args) -> Result<Wanted, Failure> {
        let use_regex = args.bool("use_regex");
        let regex = |text: &str, anchor| {
            compile(text, Flags { anchor, ..Flags::default() }).map_err(|message| Failure::new(format!("{message}.")))
        };
        let patterns = |texts: Vec<&str>| {
            let made = texts.into_iter().map(|text| match use_regex {
                true => Ok(NamePattern::Regex(regex(text, Anchor::Match)?)),
                false => Ok(NamePattern::Wildcards(text.to_owned())),
            });
            made.collect::<Result<Vec<_>, Failure>>()
        };
        let whole_file = args.bool("read_whole_file");
        let anchor = if whole_file { Anchor::Search } else { Anchor::Match };
        let mode = match args.value("mode") {
            None => None,
            Some(Value::String(text)) if text.is_empty() => None,
            Some(value @ Value::String(_)) => Some(Mode::parse(value)?.bits(0, Of::File)?),
            Some(_) => {
                return Err(Failure::new(
                    "argument 'mode' is not a string and conversion is not allowed: put it in quotes",
                ));
            }
        };
        let quantity = |name: &str, units: &[(char, i64)]| match args.str(name) {
            None => Ok(None),
            Some(text) => match quantity(text, units) {
                Some(number) => Ok(Some(number)),
                None => Err(Failure::new(format!("failed to process {name}")).with(name, text)),
            },
        };
        let limit = match args.int("limit") {
            Some(limit) if limit <= 0 => {
                return Err(Failure::new(format!("limit cannot be {limit} (use None for unlimited)")));
            }
            limit => limit.and_then(|limit| usize::try_from(limit).ok()),
        };
        Ok(Wanted {
            patterns: patterns(args.list("patterns"))?,
            excludes: patterns(args.list("excludes"))?,
            contains: args.str("contains").map(|text| regex(text, anchor)).transpose()?,
            encoding: args.str("encoding").map(str::to_owned),
            whole_file,
            kind: args.required("file_type")?.to_owned(),
            age: quantity("age", &[('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)])?,
            stamp: args.required("age_stamp")?.to_owned(),
            size: quantity("size", &[('b', 1), ('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30), ('t', 1 << 40)])?,
            recurse: args.bool("recurse"),
            hidden: args.bool("hidden"),
            follow: args.bool("follow"),
            checksum: args.bool("get_checksum").then(|| args.str("checksum_algorithm").unwrap_or("sha1").to_owned()),
            depth: args.int("depth").filter(|depth| *depth != 0),
            exact_mode: args.bool("exact_mode"),
            mode,
            limit,
        })
    }

    /// Whether a file matches all criteria except the content.
    fn fits(&self, name: &str, found: &Metadata) -> Result<bool, Failure> {
        let kind = match self.kind.as_str() {
            "any" => true,
            "directory" => found.is_dir(),
            "link" => found.is_symlink(),
            _ => found.is_file(),
        };
        if !kind {
            return Ok(false);
        }
        let any = |patterns: &[NamePattern]| {
            for pattern in patterns {
                if pattern.fits(name)? {
                    return Ok(true);
                }
            }
            Ok::<_, Failure>(false)
        };
        if !self.patterns.is_empty() && !any(&self.patterns)? || any(&self.excludes)? {
            return Ok(false);
        }
        let stamp = match self.stamp.as_str() {
            "atime" => found.atime(),
            "ctime" => found.ctime(),
            _ => found.mtime(),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
        let beyond = |limit: Option<i64>, value: i64| {
            limit.is_none_or(|limit| if limit >= 0 { value >= limit } else { value <= limit.saturating_abs() })
        };
        let bits = found.mode() & 0o7777;
        let mode = self.mode.is_none_or(|mode| if self.exact_mode { bits == mode } else { bits & mode != 0 });
        let size = !found.is_file() || beyond(self.size, i64::try_from(found.size()).unwrap_or(i64::MAX));
        Ok(beyond(self.age, now.saturating_sub(stamp)) && mode && size)
    }

    /// Compares the content of a file with `contains`. An unreadable file does not match.
    fn fits_content(&self, path: &Path, host: &Host) -> Result<Content, Failure> {
        let Some(pattern) = self.contains.as_ref().filter(|_| self.kind == "file") else { return Ok(Content::Fits) };
        let bytes = match crate::text::read_whole(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                return Ok(Content::Unreadable(format!("The file {} was not searched: {error}", path.display())));
            }
            Err(_) => return Ok(Content::Other),
        };
        let text = match self.decoded(path, bytes, host)? {
            Ok(text) => text,
            Err(why) => return Ok(Content::Unreadable(why)),
        };
        let pieces: Vec<&str> = if self.whole_file { vec![&text] } else { text.split_inclusive('\n').collect() };
        for piece in pieces {
            if pattern.is_match(piece)? {
                return Ok(Content::Fits);
            }
        }
        Ok(Content::Other)
    }

    /// The text of a file, or why it cannot be decoded.
    fn decoded(&self, path: &Path, bytes: Vec<u8>, host: &Host) -> Result<Result<String, String>, Failure> {
        let Some(encoding) = &self.encoding else { return Ok(Ok(Text::of(bytes).text)) };
        let other = || {
            let path = path.display();
            format!("Failed to read the file {path} due to an encoding error. current encoding: {encoding}")
        };
        if matches!(encoding.to_ascii_lowercase().replace(['-', '_'], "").as_str(), "utf8" | "utf") {
            return Ok(String::from_utf8(bytes).map_err(|_| other()));
        }
        let command = Command::new("iconv").plain_locale().args(["-f", encoding, "-t", "UTF-8"]);
        let output = command.arg(path).run(host)?;
        let said = output.stderr_text();
        if said.contains("not supported") || said.contains("failed to start") {
            return Ok(Err(format!("unknown encoding: {encoding}")));
        }
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.rc == 0);
        Ok(text.ok_or_else(other))
    }
}

/// Outcome of a content comparison.
enum Content {
    Fits,
    Other,
    /// Invalid in the expected encoding, or the encoding is unknown.
    Unreadable(String),
}

/// Parses a number with a unit suffix, such as `-4w`.
fn quantity(text: &str, units: &[(char, i64)]) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let unit = text.chars().last().and_then(|last| units.iter().find(|(letter, _)| *letter == last));
    let (digits, factor) = match unit {
        Some((letter, factor)) => (text.trim_end_matches(*letter), *factor),
        None => (text.as_str(), 1),
    };
    digits.parse::<i64>().ok()?.checked_mul(factor)
}

struct Search<'a> {
    wanted: Wanted,
    host: &'a Host,
    found: Vec<Value>,
    skipped: Map,
    examined: usize,
    /// Reason that ended the search of the directory.
    unreadable: Option<String>,
    names: Names,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        self.wanted.limit.is_some_and(|limit| self.found.len() >= limit)
    }

    /// Searches a directory. `above` identifies its parents, so that a link back to one of them is not followed.
    fn walk(&mut self, directory: &Path, depth: i64, above: &mut Vec<(u64, u64)>) -> Result<(), Failure> {
        self.host.check_cancelled()?;
        let listed = std::fs::read_dir(directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let mut names: Vec<_> = match listed {
            Ok(entries) => entries.into_iter().map(|entry| entry.file_name()).collect(),
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) => {
                self.skipped.insert(directory.display().to_string(), reason(&error).into());
                return Ok(());
            }
            Err(error) => {
                return Err(Failure::new(format!("{} could not be listed: {}.", directory.display(), reason(&error))));
            }
        };
        names.sort();
        self.examined += names.len();
        let mut below: Vec<PathBuf> = Vec::new();
        if self.wanted.depth.is_some_and(|most| depth > most) {
            return Ok(());
        }
        for name in names {
            let path = directory.join(&name);
            let found = match path.symlink_metadata() {
                Ok(found) => found,
                Err(error) => {
                    self.skipped.insert(path.display().to_string(), reason(&error).into());
                    continue;
                }
            };
            if found.is_dir() || found.is_symlink() && self.wanted.follow && path.is_dir() {
                below.push(path.clone());
            }
            let name = name.to_string_lossy();
            let visible = self.wanted.hidden || !name.starts_with('.');
            if !visible || !self.wanted.fits(&name, &found)? {
                continue;
            }
            match self.wanted.fits_content(&path, self.host)? {
                Content::Fits => {
                    let about = self.describe(&path, &found)?;
                    self.found.push(about);
                    if self.is_full() {
                        return Ok(());
                    }
                }
                Content::Other => {}
                Content::Unreadable(why) => {
                    self.unreadable = Some(why);
                    return Ok(());
                }
            }
        }
        if !self.wanted.recurse {
            return Ok(());
        }
        for path in below {
            let Ok(found) = path.metadata() else { continue };
            let identity = (found.dev(), found.ino());
            if above.contains(&identity) {
                continue;
            }
            above.push(identity);
            self.walk(&path, depth + 1, above)?;
            above.pop();
            if self.is_full() || self.unreadable.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn describe(&mut self, path: &Path, found: &Metadata) -> Result<Value, Failure> {
        let mut about = basics(&path.display().to_string(), found);
        for key in ["exists", "blocks", "block_size", "device_type"] {
            about.shift_remove(key);
        }
        about.insert("gr_name".into(), self.names.group(found.gid()).into());
        about.insert("pw_name".into(), self.names.user(found.uid()).into());
        if let Some(algorithm) = self.wanted.checksum.as_ref().filter(|_| found.is_file()) {
            let hasher = Hasher::named(algorithm).unwrap_or_else(Hasher::sha1);
            let sum = checksum::of_file(hasher, path, self.host).ok();
            about.insert("checksum".into(), sum.into());
        }
        Ok(about.into())
    }
}

/// Names of accounts, cached.
#[derive(Default)]
struct Names {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Names {
    fn user(&mut self, number: u32) -> String {
        let find = || accounts::user_by_id(number).map(|user| user.name).unwrap_or_default();
        self.users.entry(number).or_insert_with(find).clone()
    }

    fn group(&mut self, number: u32) -> String {
        let find = || accounts::group_by_id(number).map(|group| group.name).unwrap_or_default();
        self.groups.entry(number).or_insert_with(find).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_with_units_parsed() {
        let units = [('s', 1), ('m', 60)];
        assert_eq!(
            (quantity("-2M", &units), quantity("7", &units), quantity("7s", &units)),
            (Some(-120), Some(7), Some(7))
        );
        assert_eq!((quantity("x", &units), quantity("m", &units), quantity("1.5m", &units)), (None, None, None));
    }
}
