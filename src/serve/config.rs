//! The configuration of `windlass serve`: users, and the playbooks that they may start.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::OFlags;
use windlass_yaml::{DuplicateKeys, Mapping, Node, Options, Source};

use super::fields::{Field, Origin};
use super::users::{NAMES, Role, User, hash_of, is_name};
use crate::error::{Error, Result, did_you_mean};
use crate::output::{Printer, Secrets};
use crate::settings::Color;

const KEYS: &[&str] = &["playbooks", "runs", "users"];
const USER: &[&str] = &["name", "role", "token"];
const PLAYBOOK: &[&str] =
    &["allow", "check", "inventory", "limit", "name", "playbook", "tags", "variables", "variables_from"];

/// Maximum size of a file, in bytes.
const SIZE: usize = 1 << 20;
/// Maximum number of runs at the same time, unless the file says otherwise.
const RUNS: usize = 4;

/// Users and playbooks.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) users: Vec<User>,
    pub(super) playbooks: Vec<Startable>,
    /// Maximum number of runs at the same time.
    pub(super) runs: usize,
}

/// Whether a run is a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Never,
    Choice,
    Always,
}

/// A playbook that may be started.
#[derive(Debug)]
pub(super) struct Startable {
    pub(super) name: String,
    /// Path of the playbook in the project.
    pub(super) playbook: PathBuf,
    pub(super) cluster: String,
    roles: Vec<Role>,
    users: Vec<String>,
    /// Values of `--limit` to choose from; without any, all hosts.
    pub(super) limits: Vec<String>,
    /// Values of `--tags` to choose from; without any, all tasks.
    pub(super) tags: Vec<String>,
    pub(super) check: Check,
    pub(super) fields: Vec<Field>,
    /// Roles whose argument specifications are further fields.
    pub(super) variables_from: Vec<String>,
}

impl Startable {
    /// Whether a user may start it.
    pub(super) fn allows(&self, user: &User) -> bool {
        user.role == Role::Admin
            || (user.role >= Role::Operator && (self.roles.contains(&user.role) || self.users.contains(&user.name)))
    }
}

/// A configuration file, which is read again after it has changed.
pub(super) struct ConfigFile {
    path: PathBuf,
    clusters: Vec<String>,
    known: Mutex<Option<(Stamp, std::result::Result<Arc<Config>, String>)>>,
}

/// Identity, size and times of a file.
type Stamp = (u64, u64, Option<SystemTime>, i64, i64);

impl ConfigFile {
    /// Opens a configuration file for these clusters. Fails if it is invalid.
    pub(super) fn open(path: PathBuf, clusters: Vec<String>) -> Result<ConfigFile> {
        let file = ConfigFile { path, clusters, known: Mutex::default() };
        file.read().map(|_| file)
    }

    /// The configuration as the file has it now. Fails with a sentence. While the file is invalid, nobody has any
    /// rights.
    pub(super) fn current(&self) -> std::result::Result<Arc<Config>, String> {
        let stamp = std::fs::metadata(&self.path)
            .map(|found| (found.ino(), found.len(), found.modified().ok(), found.ctime(), found.ctime_nsec()));
        // A file that is missing is read too, so that the reason is printed, once.
        let stamp = stamp.unwrap_or_default();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = known.as_ref().filter(|(then, _)| *then == stamp) {
            return config.clone();
        }
        let config = self.read().map(Arc::new).map_err(|error| error.to_string());
        if let Err(error) = &config {
            Printer::plain(Secrets::of_process()).error_line(error, Color::Error);
        }
        *known = Some((stamp, config.clone()));
        config
    }

    fn read(&self) -> Result<Config> {
        let shown = self.path.display();
        let fail = |why: String| Error::new(format!("{shown} cannot be used: {why}")).as_parse();
        // A pipe would wait for its writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path);
        let file = file.map_err(|error| fail(error.to_string()))?;
        let metadata = file.metadata().map_err(|error| fail(error.to_string()))?;
        if !metadata.is_file() {
            return Err(fail("it is not a file".to_owned()));
        }
        let own = rustix::process::geteuid().as_raw();
        if metadata.mode() & 0o022 != 0 || ![0, own].contains(&metadata.uid()) {
            return Err(fail("other users can change it, and so who may start playbooks".to_owned())
                .hint(format!("own it, and run `chmod go-w {shown}`")));
        }
        let bytes = windlass_bounds::read_from(file, SIZE as u64).map_err(|error| fail(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| fail("it is not UTF-8".to_owned()))?;
        Config::parse(&shown.to_string(), text, &self.clusters)
    }
}

impl Config {
    fn parse(name: &str, text: String, clusters: &[String]) -> Result<Config> {
        let options = Options {
            duplicate_keys: DuplicateKeys::Error,
            trusted: false,
            max_bytes: SIZE,
            max_nodes: 100_000,
            max_depth: 40,
            ..Options::default()
        };
        let node = windlass_yaml::load_one(Source::new(name, text), &options)?;
        let map = mapping(&node, "a configuration", KEYS)?;
        let mut users: Vec<User> = Vec::new();
        for item in list(map, "users")? {
            let user = user(item)?;
            if let Some(other) = users.iter().find(|other| other.name == user.name || other.hash == user.hash) {
                let message = format!("`{}` has the name or the token of `{}`", user.name, other.name);
                return Err(Error::parse(message, &item.span));
            }
            users.push(user);
        }
        if users.is_empty() {
            let message = "the configuration has no `users`, so nobody could read the pages";
            return Err(Error::parse(message, &node.span).hint("`windlass serve token NAME` makes the line of a user"));
        }
        let mut playbooks: Vec<Startable> = Vec::new();
        for item in list(map, "playbooks")? {
            let startable = startable(item, clusters, &users)?;
            if playbooks.iter().any(|other| other.name == startable.name) {
                return Err(Error::parse(format!("two playbooks have the name `{}`", startable.name), &item.span));
            }
            playbooks.push(startable);
        }
        let runs = match map.get("runs") {
            None => RUNS,
            Some(node) => {
                let number = node.as_int().and_then(|number| usize::try_from(number).ok());
                number
                    .filter(|number| (1..=64).contains(number))
                    .ok_or_else(|| Error::parse("`runs` is a number from 1 to 64", &node.span))?
            }
        };
        Ok(Config { users, playbooks, runs })
    }
}

fn user(node: &Node) -> Result<User> {
    let map = mapping(node, "a user", USER)?;
    let (name, at) = text(node, map, "name")?;
    if !is_name(&name) {
        let message = format!("`{name}` is not a name of a user: {NAMES}");
        return Err(Error::parse(message, &at.span));
    }
    let (word, at) = text(node, map, "role")?;
    let role = Role::of(&word).ok_or_else(|| unknown_role(&word, at))?;
    let (token, at) = text(node, map, "token")?;
    let hash = hash_of(&token).ok_or_else(|| {
        Error::parse("`token` is the hash of a token, `sha256:` and 64 hexadecimal digits", &at.span)
            .hint(format!("`windlass serve token {name}` makes a token and its hash"))
    })?;
    Ok(User { name, role, hash })
}

fn unknown_role(word: &str, at: &Node) -> Error {
    Error::parse(format!("`{word}` is not a role: {}", Role::WORDS.join(", ")), &at.span)
        .maybe_hint(did_you_mean(word, Role::WORDS))
}

fn startable(node: &Node, clusters: &[String], users: &[User]) -> Result<Startable> {
    let map = mapping(node, "a playbook", PLAYBOOK)?;
    let (name, _) = text(node, map, "name")?;
    let (playbook, at) = text(node, map, "playbook")?;
    let playbook = PathBuf::from(playbook);
    if !playbook.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(Error::parse("`playbook` is a path in the project, without `..`", &at.span));
    }
    let cluster = match (map.get("inventory"), clusters) {
        (None, [only]) => only.clone(),
        (None, _) => {
            let message = format!("`{name}` has no `inventory`: {}", clusters.join(", "));
            return Err(Error::parse(message, &node.span));
        }
        (Some(_), _) => {
            let (wanted, at) = text(node, map, "inventory")?;
            if !clusters.contains(&wanted) {
                let message = format!("no inventory `{wanted}` is served: {}", clusters.join(", "));
                let hint = did_you_mean(&wanted, clusters.iter().map(String::as_str));
                return Err(Error::parse(message, &at.span).maybe_hint(hint));
            }
            wanted
        }
    };
    let (roles, allowed) = allowed(map, users)?;
    let check = match map.get("check") {
        None => Check::Choice,
        Some(node) => match node.as_str() {
            Some("never") => Check::Never,
            Some("choice") => Check::Choice,
            Some("always") => Check::Always,
            _ => return Err(Error::parse("`check` is `never`, `choice` or `always`", &node.span)),
        },
    };
    let mut fields: Vec<Field> = Vec::new();
    if let Some(node) = map.get("variables") {
        let map = node.as_map().ok_or_else(|| Error::parse("`variables` maps names to specifications", &node.span))?;
        for (key, spec) in map.iter() {
            fields.push(Field::of(&key.as_node(), spec, Origin::Configuration)?);
        }
    }
    Ok(Startable {
        name,
        playbook,
        cluster,
        roles,
        users: allowed,
        limits: words(map, "limit")?,
        tags: words(map, "tags")?,
        check,
        fields,
        variables_from: roles_of(map)?,
    })
}

/// Roles and users of `allow`; without it, operators.
fn allowed(map: &Mapping, users: &[User]) -> Result<(Vec<Role>, Vec<String>)> {
    let Some(node) = map.get("allow") else { return Ok((vec![Role::Operator], Vec::new())) };
    let (mut roles, mut names) = (Vec::new(), Vec::new());
    for item in node.as_list().ok_or_else(|| Error::parse("`allow` is a list of roles and users", &node.span))? {
        let word = item.as_str().unwrap_or_default();
        let user = users.iter().find(|user| user.name == word);
        match (Role::of(word), user) {
            (Some(Role::Viewer), _) | (_, Some(User { role: Role::Viewer, .. })) => {
                return Err(Error::parse(format!("`{word}` reads only, and cannot start a playbook"), &item.span));
            }
            (Some(role), _) => roles.push(role),
            (_, Some(user)) => names.push(user.name.clone()),
            (None, None) => {
                let known = users.iter().map(|user| user.name.as_str()).chain(Role::WORDS);
                return Err(Error::parse(format!("`{word}` is neither a role nor a user"), &item.span)
                    .maybe_hint(did_you_mean(word, known)));
            }
        }
    }
    Ok((roles, names))
}

/// Names of roles in `variables_from`, each a single folder.
fn roles_of(map: &Mapping) -> Result<Vec<String>> {
    let Some(node) = map.get("variables_from") else { return Ok(Vec::new()) };
    let items = node.as_list().unwrap_or(std::slice::from_ref(node));
    let name = |item: &Node| {
        let is_name = |name: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            !name.is_empty() && name.bytes().all(is_plain)
        };
        let name = item.as_str().filter(|name| is_name(name));
        name.map(str::to_owned).ok_or_else(|| {
            Error::parse("`variables_from` is the name of a role in a `roles` folder, or a list of names", &item.span)
        })
    };
    items.iter().map(name).collect()
}

/// A mapping with these keys only.
fn mapping<'a>(node: &'a Node, what: &str, keys: &[&str]) -> Result<&'a Arc<Mapping>> {
    let Some(map) = node.as_map() else {
        return Err(Error::parse(format!("{what} is a mapping, not {}", node.kind()), &node.span));
    };
    match map.keys().find(|key| !keys.contains(&key.to_text().as_str())) {
        None => Ok(map),
        Some(key) => {
            let word = key.to_text();
            let message = format!("{what} has no key `{word}`");
            Err(Error::parse(message, &key.span).maybe_hint(did_you_mean(&word, keys.iter().copied())))
        }
    }
}

fn list<'a>(map: &'a Mapping, key: &str) -> Result<&'a [Node]> {
    match map.get(key) {
        None => Ok(&[]),
        Some(node) => node.as_list().ok_or_else(|| Error::parse(format!("`{key}` is a list"), &node.span)),
    }
}

/// A text that must be given, and its node.
fn text<'a>(around: &Node, map: &'a Mapping, key: &str) -> Result<(String, &'a Node)> {
    let node = map.get(key).ok_or_else(|| Error::parse(format!("`{key}` is missing"), &around.span))?;
    let text = node.as_str().filter(|text| !text.trim().is_empty() && !text.chars().any(char::is_control));
    Ok((text.ok_or_else(|| Error::parse(format!("`{key}` is a text on one line"), &node.span))?.to_owned(), node))
}

/// A list of texts, or a single one.
fn words(map: &Mapping, key: &str) -> Result<Vec<String>> {
    let Some(node) = map.get(key) else { return Ok(Vec::new()) };
    let items = node.as_list().unwrap_or(std::slice::from_ref(node));
    let word = |item: &Node| {
        let text = item.as_str().filter(|text| !text.trim().is_empty() && !text.chars().any(char::is_control));
        text.map(str::to_owned).ok_or_else(|| Error::parse(format!("`{key}` is a list of texts"), &item.span))
    };
    items.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "users: [{name: ana, role: operator, token: 'sha256:HASH'}, \
                         {name: vic, role: viewer, token: 'sha256:OTHER'}]\n";

    fn parse(text: &str) -> Result<Config> {
        let text = text.replace("USERS\n", USERS).replace("HASH", &"a1".repeat(32)).replace("OTHER", &"b2".repeat(32));
        Config::parse("serve.yml", text, &["eu".to_owned(), "us".to_owned()])
    }

    #[test]
    fn users_and_playbooks_are_read() {
        let text = "USERS\nruns: 2\nplaybooks:\n- name: Deploy\n  playbook: deploy.yml\n  inventory: eu\n  \
                    limit: [web, all]\n  tags: config\n  check: always\n  variables_from: shop\n  variables:\n    \
                    size: {type: int, default: 3, choices: [1, 3]}\n";
        let config = parse(text).unwrap();
        assert_eq!((config.users.len(), config.runs), (2, 2));
        let one = &config.playbooks[0];
        assert_eq!((one.limits.len(), one.tags.as_slice(), one.check), (2, &["config".to_owned()][..], Check::Always));
        assert!(one.allows(&config.users[0]) && !one.allows(&config.users[1]));
        assert_eq!(one.variables_from, ["shop"]);
    }

    #[test]
    fn mistake_is_an_error_with_its_place() {
        let of = |line: &str| format!("USERS\nplaybooks:\n- {{name: x, playbook: x.yml, inventory: eu, {line}}}\n");
        let cases = [
            ("runs: 1\n".to_owned(), "has no `users`"),
            ("USERS\nuser: []\n".to_owned(), "a configuration has no key `user`"),
            ("USERS\nruns: 0\n".to_owned(), "a number from 1 to 64"),
            ("USERS\nruns: 1\nruns: 2\n".to_owned(), "uplicate"),
            ("users: [{name: admin, role: admin, token: x}]".to_owned(), "is not a name of a user"),
            ("users: [{name: ana, role: operater, token: x}]".to_owned(), "`operater` is not a role"),
            ("users: [{name: ana, role: admin, token: hunter2}]".to_owned(), "is the hash of a token"),
            (of("inventory: eu"), "uplicate"),
            (of("allow: [vic]"), "`vic` reads only"),
            (of("allow: [viewer]"), "`viewer` reads only"),
            (of("allow: [anna]"), "neither a role nor a user"),
            (of("check: yes"), "`check` is"),
            (of("limit: [[]]"), "a list of texts"),
            (of("variables_from: ../x"), "name of a role"),
            (of("variables: {x: {typ: int}}"), "a variable has no key `typ`"),
            (of("variables: {x: {type: integer}}"), "`integer` is not a type"),
            (of("variables: {x-y: {}}"), "not a name of a variable"),
            (of("variables: {ansible_connection: {}}"), "cannot be set by a form"),
            (of("variables: {x: {default: '{{ y }}'}}"), "no template is evaluated"),
            (of("variables: {x: {type: int, default: y}}"), "the default does not fit"),
            (of("variables: {x: {no_log: true, default: y}}"), "a secret variable has no default"),
            ("USERS\nplaybooks: [{name: x, playbook: ../x.yml, inventory: eu}]".to_owned(), "without `..`"),
            ("USERS\nplaybooks: [{name: x, playbook: /x.yml, inventory: eu}]".to_owned(), "a path in the project"),
            ("USERS\nplaybooks: [{name: x, playbook: x.yml, inventory: eus}]".to_owned(), "no inventory `eus`"),
            ("USERS\nplaybooks: [{name: x, playbook: x.yml}]".to_owned(), "has no `inventory`"),
        ];
        for (text, message) in cases {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("serve.yml:"), "{text}: {error}");
        }
    }
}
