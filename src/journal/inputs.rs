//! Inputs of a run, compared with the inputs of the run that resumes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use windlass_inventory::{Inventory, limit_files};
use windlass_template::{Compat, PluginKind};
use windlass_yaml::Mapping;

use super::fingerprint::{add_part, canonical, changed, file_hash, is_own};
use super::ledger::{Ledger, Pending, PlayKey};
use super::record::{FileRead, Header, InputKind, VERSION};
use super::state::{State, ledger_name, project};
use crate::output::Secrets;
use crate::playbook::Files;
use crate::settings::Settings;

/// Maximum number of inventory files to compare.
const FILES: usize = 20_000;
/// Maximum depth of directories to search.
const DEPTH: usize = 12;
/// Option in a header with the patterns of files that `--limit` names, and the maximum of their size in bytes.
const LIMIT_PATTERNS: &str = "patterns of --limit";
const PATTERNS: usize = 64 << 10;

/// Short options without a value, of all verbs that take `-e`.
const FLAGS: &str = "bkovCDJK";

/// Playbooks, inventory and variables of a run.
#[derive(Debug)]
pub struct Inputs<'a> {
    /// Settings of the run.
    pub settings: &'a Settings,
    /// Paths of the playbooks.
    pub playbooks: Vec<PathBuf>,
    /// Plays of the playbooks, also of imported ones.
    pub plays: Vec<PlayKey>,
    /// `-e`.
    pub extra_vars: &'a Mapping,
    /// The inventory, once it is read.
    pub inventory: Option<&'a Inventory>,
}

impl Inputs<'_> {
    /// Playbooks as recorded in the header.
    pub(super) fn playbook_names(&self) -> Vec<String> {
        self.playbooks.iter().map(|path| canonical(path)).collect()
    }

    /// Inventory sources as recorded in the header.
    pub(super) fn sources(&self) -> Vec<String> {
        let mut sources = self.settings.inventory.sources.clone();
        if sources.is_empty() && Path::new("/etc/ansible/hosts").exists() {
            sources.push("/etc/ansible/hosts".to_owned());
        }
        let name = |source: &String| if source.contains(',') { source.clone() } else { canonical(Path::new(source)) };
        sources.iter().map(name).collect()
    }

    /// Handlers that earlier runs over these inputs notified and never ran.
    pub(crate) fn pending(&self, state: &State) -> Vec<Pending> {
        let is_alive = state.alive();
        let of_earlier_release = project(&self.playbook_names(), &self.sources());
        let named = self.play_files().into_iter().map(|file| (ledger_name(&file), file));
        let named = named.chain([(of_earlier_release, "".into())]);
        named.flat_map(|(name, file)| Ledger::at(&state.ledger_file(&name)).pending(&file, &is_alive)).collect()
    }

    /// Files with the plays, each once.
    pub(super) fn play_files(&self) -> BTreeSet<Arc<str>> {
        self.plays.iter().map(|play| Arc::clone(&play.file)).collect()
    }

    /// Header of a run with this id, or of one that resumes another and keeps its salt.
    pub(super) fn header(&self, run: &str, resumed: Option<&Header>, secrets: &Secrets) -> Header {
        let salt = resumed.map_or_else(new_salt, |header| header.salt.clone());
        let extra_vars = self.hashed_vars(&salt);
        let hosts = self.hashed_hosts(&salt);
        let argv = shown_arguments(std::env::args(), secrets);
        let started = jiff::Timestamp::now().to_string();
        let leads = self.leads(resumed.map_or(0, |header| header.leads));
        let since = resumed.map(|header| header.since.clone()).filter(|since| !since.is_empty());
        let since = since.or_else(|| (leads > 0).then(|| started.clone())).unwrap_or_default();
        Header {
            version: VERSION,
            windlass: env!("CARGO_PKG_VERSION").to_owned(),
            run: run.to_owned(),
            started,
            user: std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| user_name()),
            machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
            check: self.settings.check,
            // Variables of a form are not on the command line.
            whole: argv.iter().eq(std::env::args().collect::<Vec<_>>().iter())
                && !argv.iter().any(|word| word == "--form"),
            directory: std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default(),
            argv,
            playbooks: self.playbook_names(),
            inventory: self.sources(),
            limit: self.settings.inventory.limit.clone(),
            tags: self.settings.tags.clone(),
            skip_tags: self.settings.skip_tags.clone(),
            salt,
            keyed: resumed.is_none_or(|header| header.keyed),
            extra_vars,
            hosts,
            options: self.options(),
            resumes: resumed.map(|header| header.run.clone()),
            leads,
            since,
        }
    }

    /// Number of leads, after this many of earlier runs. A cluster also counts those that left no journal.
    fn leads(&self, earlier: u32) -> u32 {
        match self.settings.shards > 1 {
            true => (earlier + 1).max(self.settings.lead),
            false => earlier,
        }
    }

    /// Options and settings that change how and as whom tasks run.
    pub(super) fn options(&self) -> BTreeMap<String, String> {
        let (connect, other) = (&self.settings.connect, &self.settings.r#become);
        let none = || "none".to_owned();
        let config = self.settings.config_file.as_ref();
        let options = [
            ("-u", connect.remote_user.clone().unwrap_or_else(none)),
            ("-c", connect.transport.clone()),
            ("-b", if other.enabled { "set" } else { "not set" }.to_owned()),
            ("--become-user", other.user.clone()),
            ("--become-method", other.method.clone()),
            ("ansible.cfg", config.map_or_else(none, |path| canonical(path))),
            ("--start-at-task", self.settings.start_at_task.clone().unwrap_or_else(none)),
        ];
        let patterns = self.inventory.and_then(|inventory| limit_patterns(self.settings, inventory));
        let patterns = patterns.map(|patterns| (LIMIT_PATTERNS, patterns));
        let options = options.into_iter().chain(self.places_of_code()).chain(self.rules()).chain(patterns);
        options.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Settings that name the places of roles, modules and plugins.
    fn places_of_code(&self) -> impl Iterator<Item = (&'static str, String)> {
        let code = &self.settings.code;
        let plugins = |kind| code.plugins.get(&kind).map_or(&[][..], Vec::as_slice);
        let places = [
            ("-M", &code.module_path[..]),
            ("library", &code.library),
            ("module_utils", &code.module_utils),
            ("roles_path", &code.roles_path),
            ("collections_path", &code.collections_path),
            ("action_plugins", &code.actions),
            ("filter_plugins", plugins(PluginKind::Filter)),
            ("lookup_plugins", plugins(PluginKind::Lookup)),
            ("test_plugins", plugins(PluginKind::Test)),
            ("vars_plugins", &code.vars_plugins),
        ];
        places.into_iter().map(|(name, paths)| {
            let paths: Vec<String> = paths.iter().map(|path| canonical(path)).collect();
            (name, if paths.is_empty() { "none".to_owned() } else { paths.join(":") })
        })
    }

    /// Settings that decide which tasks run, and with which values.
    fn rules(&self) -> impl Iterator<Item = (&'static str, String)> {
        let settings = self.settings;
        let compat = match settings.compat {
            Compat::V2_18 => "2.18",
            Compat::V2_19 => "2.19",
        };
        let private = settings.private_role_vars.map_or_else(|| "none".to_owned(), |is_set| is_set.to_string());
        [
            ("--compat", compat.to_owned()),
            ("strategy", settings.strategy.clone()),
            ("hash_behaviour", if settings.merge_hashes { "merge" } else { "replace" }.to_owned()),
            ("gathering", settings.facts.gathering.clone()),
            ("force_handlers", settings.force_handlers.to_string()),
            ("any_errors_fatal", settings.any_errors_fatal.to_string()),
            ("allow_broken_conditionals", settings.allow_broken_conditionals.to_string()),
            ("jinja2_native", settings.jinja2_native.to_string()),
            ("private_role_vars", private),
        ]
        .into_iter()
    }

    /// The configuration file.
    pub(super) fn config_file(&self) -> Option<FileRead> {
        let path = self.settings.config_file.as_ref()?;
        Some(FileRead { path: canonical(path), sha256: file_hash(path)?, ..FileRead::default() })
    }

    /// Extra variables by name, hashed with the salt of a journal.
    pub(crate) fn hashed_vars(&self, salt: &str) -> BTreeMap<String, String> {
        let hashed = |text: String| {
            let mut hash = Sha256::new();
            hash.update(salt.as_bytes());
            hash.update(text.as_bytes());
            hex::encode(hash.finalize())
        };
        let vars = self.extra_vars.iter();
        vars.map(|(key, node)| (key.to_text(), hashed(format!("{}={}", key.to_text(), node.to_json())))).collect()
    }

    /// Hosts, groups and variables that programs have made for the inventory, hashed with the salt of a journal. Empty
    /// if all come from files, whose hashes the journal has.
    pub(crate) fn hashed_hosts(&self, salt: &str) -> String {
        let Some(inventory) = self.inventory.filter(|inventory| inventory.is_made_by_program()) else {
            return String::new();
        };
        let mut hash = Sha256::new();
        let mut add = |text: &str| add_part(&mut hash, text);
        add(salt);
        list_inventory(inventory, &mut add);
        hex::encode(hash.finalize())
    }

    /// Files of the inventory, of the configuration, and of the project that have been read.
    pub(crate) fn files(&self, files: &Files) -> Vec<FileRead> {
        let mut found: BTreeMap<String, FileRead> = BTreeMap::new();
        let mut add = |path: String, sha256: String, inventory: bool| {
            found.insert(path.clone(), FileRead { path, sha256, inventory, ..FileRead::default() });
        };
        for (path, sha256) in files.take_read() {
            add(canonical(&path), sha256, false);
        }
        self.config_file().into_iter().for_each(|file| add(file.path, file.sha256, false));
        self.inventory_files().into_iter().for_each(|file| add(file.path, file.sha256, true));
        found.into_values().collect()
    }

    /// Describes each input that has changed since it was read, and each new file of the inventory. `salt` is the
    /// journal's. `alive` is the last sign of life of a run that did not end by itself, in milliseconds since 1970.
    pub(crate) fn changed_files(&self, read: &[FileRead], salt: &str, alive: Option<u64>) -> Vec<String> {
        // Of an input that was read several times, the last hash counts.
        let name = |file: &FileRead, kind| (file.path.clone(), file.hidden.clone(), kind);
        let known: BTreeMap<_, &FileRead> = read.iter().map(|file| (name(file, file.kind), file)).collect();
        // A missing file that was made and read later has a hash of its own.
        let is_read_later = |file: &FileRead| {
            let is_known = |kind| known.contains_key(&name(file, kind));
            file.kind == InputKind::Missing && (is_known(InputKind::File) || is_known(InputKind::Folder))
        };
        let compared = known.values().filter(|file| !is_read_later(file));
        let differs = |file: &&FileRead| changed(file, salt).filter(|_| !is_own(file, salt, alive));
        let mut found: Vec<String> = compared.filter_map(differs).collect();
        let known: BTreeSet<&str> =
            read.iter().filter(|file| file.kind == InputKind::File).map(|file| file.path.as_str()).collect();
        let appeared = self.inventory_files().into_iter().filter(|file| !known.contains(file.path.as_str()));
        found.extend(appeared.map(|file| format!("{} is new", file.path)));
        found
    }

    /// Files of the inventory: its sources, `group_vars` and `host_vars` beside them and beside the playbooks. So are
    /// files that the limit names.
    pub(super) fn inventory_files(&self) -> Vec<FileRead> {
        let mut found = BTreeSet::new();
        let mut beside = BTreeSet::new();
        let included = self.inventory.map(Inventory::included_sources).unwrap_or_default();
        let included = included.iter().map(|source| canonical(Path::new(source)));
        for source in self.sources().into_iter().chain(included).filter(|source| !source.contains(',')) {
            let path = PathBuf::from(source);
            beside.extend(if path.is_dir() { Some(path.clone()) } else { path.parent().map(Path::to_path_buf) });
            files_below(&path, DEPTH, &mut found);
        }
        beside.extend(
            self.playbooks.iter().filter_map(|path| Path::new(&canonical(path)).parent().map(Path::to_path_buf)),
        );
        for folder in beside {
            files_below(&folder.join("group_vars"), DEPTH, &mut found);
            files_below(&folder.join("host_vars"), DEPTH, &mut found);
        }
        let limit = self.settings.inventory.limit.as_deref().unwrap_or_default();
        found.extend(limit_files(limit).iter().map(|path| PathBuf::from(canonical(path))));
        let read = |path: PathBuf| {
            let sha256 = file_hash(&path)?;
            Some(FileRead { path: path.display().to_string(), sha256, inventory: true, ..FileRead::default() })
        };
        found.into_iter().filter_map(read).collect()
    }
}

/// Patterns of a limit with files, a line each, for the journal. `None` if there are no files, or too many patterns.
pub(crate) fn limit_patterns(settings: &Settings, inventory: &Inventory) -> Option<String> {
    limit_files(settings.inventory.limit.as_ref()?).first()?;
    Some(inventory.limit_patterns().join("\n")).filter(|patterns| patterns.len() <= PATTERNS)
}

/// Patterns that the limit of a run to be resumed had, if they are recorded.
pub(crate) fn former_limit_patterns(header: &Header) -> Option<Vec<String>> {
    let patterns = header.options.get(LIMIT_PATTERNS)?;
    Some(patterns.lines().map(str::to_owned).collect())
}

/// Calls `add` with each host, group, child and variable of an inventory, in the inventory's order.
pub(crate) fn list_inventory(inventory: &Inventory, add: &mut dyn FnMut(&str)) {
    for host in inventory.hosts() {
        add(host.name());
        host.variables().iter().for_each(|(key, node)| add(&format!("{}={}", key.to_text(), node.to_json())));
    }
    for group in inventory.groups() {
        add(group.name());
        add(&group.priority().to_string());
        inventory.children_of_group(group.name()).into_iter().for_each(|child| add(child.name()));
        group.variables().iter().for_each(|(key, node)| add(&format!("{}={}", key.to_text(), node.to_json())));
        inventory.direct_hosts_of_group(group.name()).into_iter().for_each(|host| add(host.name()));
    }
}

/// Login name of this process by the local table, or its number.
fn user_name() -> String {
    let uid = rustix::process::getuid().as_raw();
    let table = windlass_bounds::read_text("/etc/passwd").unwrap_or_default();
    let named = table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("uid {uid}"))
}

/// New salt for hashes of extra variables.
pub(crate) fn new_salt() -> String {
    let mut salt = [0; 16];
    let _ = getrandom::fill(&mut salt);
    hex::encode(salt)
}

fn files_below(path: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) {
    if found.len() >= FILES {
        return;
    }
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => _ = found.insert(path.to_owned()),
        Ok(metadata) if metadata.is_dir() && depth > 0 => {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            // Skips hidden files, which editors and repositories create.
            let seen = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
            seen.for_each(|entry| files_below(&entry.path(), depth - 1, found));
        }
        _ => {}
    }
}

/// Command line that resumes a run; `None` if it holds a secret.
pub(super) fn resuming(arguments: impl Iterator<Item = String>, run: &str, secrets: &Secrets) -> Option<String> {
    let arguments: Vec<String> = arguments.collect();
    if is_of_plan(arguments.iter()) {
        return None;
    }
    if arguments.iter().any(|word| super::mask::text(word, secrets) != *word) {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    let mut after_resume = false;
    for word in arguments {
        let is_run = std::mem::take(&mut after_resume) && super::looks_like_run(&word);
        after_resume = word == "--resume";
        if is_run || after_resume || word.starts_with("--resume=") {
            continue;
        }
        words.push(word);
    }
    words.extend(["--resume".to_owned(), run.to_owned()]);
    Some(shell_words::join(words))
}

/// Whether a command line runs a plan, and so has no option to resume.
pub(super) fn is_of_plan(mut arguments: impl Iterator<Item: AsRef<str>>) -> bool {
    arguments.nth(1).is_some_and(|verb| matches!(verb.as_ref(), "apply" | "plan"))
}

/// A command line without the values of its variables and without secrets.
pub(crate) fn shown_arguments(arguments: impl Iterator<Item = String>, secrets: &Secrets) -> Vec<String> {
    let mut hide_next = false;
    let mut shown = Vec::new();
    for argument in arguments {
        if std::mem::take(&mut hide_next) {
            shown.push(hidden(&argument));
        } else if argument == "--extra-vars" {
            hide_next = true;
            shown.push(argument);
        } else if let Some(value) = argument.strip_prefix("--extra-vars=") {
            shown.push(format!("--extra-vars={}", hidden(value)));
        } else if let Some((option, value)) = short_extra_vars(&argument) {
            hide_next = value.is_empty();
            shown.push(if hide_next { argument } else { format!("{option}{}", hidden(value)) });
        } else {
            shown.push(super::mask::text(&argument, secrets));
        }
    }
    shown
}

/// Options before the value of `-e`, which may follow others without a value, as in `-vbe`, and that value. It is empty
/// if it is the next argument.
fn short_extra_vars(argument: &str) -> Option<(&str, &str)> {
    let letters = argument.strip_prefix('-')?;
    let end = letters
        .find(|letter| !FLAGS.contains(letter))
        .filter(|end| letters.get(*end..).is_some_and(|rest| rest.starts_with('e')))?;
    argument.split_at_checked(end + 2)
}

/// Name of a variable or variables file, without its value.
fn hidden(value: &str) -> String {
    match value.split_once('=') {
        _ if value.starts_with('@') => value.to_owned(),
        Some((name, _)) if name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') => {
            format!("{name}=...")
        }
        _ => "...".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_kept_without_values_of_extra_variables() {
        let words = [
            "windlass",
            "-e",
            "password=x y=z",
            "-epin=1",
            "--extra-vars={\"a\": 1}",
            "-vve",
            "token=x",
            "-bCesecret=x",
            "-ifile",
            "--extra-vars",
            "word=x",
            "-e",
            "@vars.yml",
            "-i",
            "hosts",
        ];
        let shown = shown_arguments(words.iter().map(|word| (*word).to_owned()), &Secrets::default());
        assert_eq!(
            shown,
            [
                "windlass",
                "-e",
                "password=...",
                "-epin=...",
                "--extra-vars=...",
                "-vve",
                "token=...",
                "-bCesecret=...",
                "-ifile",
                "--extra-vars",
                "word=...",
                "-e",
                "@vars.yml",
                "-i",
                "hosts"
            ]
        );
    }
}
