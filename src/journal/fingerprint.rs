//! Fingerprints of inputs, by which a run that resumes another one knows whether they are still the same. A file of its
//! own, because a name that contains a secret has to be found again without being written.

use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use windlass_inventory::{Inventory, PluginVars};
use windlass_template::filters::crypt::ALPHABET;
use windlass_template::{Read, matching, matching_paths, to_exact};

use super::record::{FileRead, InputKind};
use crate::outcome::{Effect, InventoryChange, TaskResult};
use crate::output::{MASK, Secrets};

/// Maximum part of a file to compare, in bytes.
const BYTES: u64 = 256 << 20;
/// Size in bytes up to which a source of a task is hashed whole.
const SOURCE: u64 = 16 << 20;
/// Maximum number of entries of a directory to compare.
const ENTRIES: usize = 20_000;
/// Milliseconds after the last sign of life of a killed run in which it, or a task that its executors still stop, may
/// have changed files.
const LEEWAY: u64 = 4000;
/// Folders in which the files of a group or host lie.
const GROUP_VARS: &str = "/group_vars/";
const HOST_VARS: &str = "/host_vars/";
/// Rounds of the hash of an answer to a prompt.
const GUESS: NonZeroU32 = NonZeroU32::MIN.saturating_add(199_999);
/// Number of hexadecimal digits of the hash of a hidden name or value. Each further one would help to guess it.
const DIGITS: usize = 8;

pub(super) fn canonical(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| crate::paths::absolute(path)).display().to_string()
}

/// Whether a resumed run compares an input.
pub(super) fn is_compared(read: &Read) -> bool {
    !matches!(read, Read::Environment(name) if is_of_session(name))
}

/// Whether an input may have changed since this time.
pub(super) fn may_differ(read: &Read, since: SystemTime) -> bool {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified());
    match read {
        Read::File(path) => changed(path).map_or(true, |changed| changed >= since),
        Read::Missing(_) | Read::Search(_) | Read::Folder(_) => true,
        Read::Environment(_) | Read::Rest => false,
    }
}

/// Fingerprint of an input, as the journal records it. `salt` protects values of environment variables.
pub(super) fn fingerprint(read: Read, salt: &str) -> FileRead {
    let of = |path, sha256, kind| FileRead { path, sha256, kind, ..FileRead::default() };
    match read {
        Read::File(path) => {
            let sha256 = source_hash(&path).unwrap_or_default();
            FileRead { source: true, ..of(canonical(&path), sha256, InputKind::File) }
        }
        Read::Missing(path) => of(absolute(&path), String::new(), InputKind::Missing),
        Read::Search(pattern) => {
            let pattern = absolute(Path::new(&pattern));
            let found = matching(&pattern);
            of(pattern, hash_of(found.iter()), InputKind::Search)
        }
        Read::Folder(folder) => of(canonical(&folder), hash_of(names_in(&folder).iter()), InputKind::Folder),
        Read::Environment(name) => {
            let hash = variable_hash(&name, salt);
            of(name, hash, InputKind::Environment)
        }
        Read::Rest => of(String::new(), String::new(), InputKind::Rest),
    }
}

fn variable_hash(name: &str, salt: &str) -> String {
    let value = std::env::var(name).ok();
    value.map(|value| hash_of([salt, name, &value].into_iter())).unwrap_or_default()
}

/// Fingerprint of the answer to a prompt of a play. The answer may be a password, so a guess takes time.
pub(super) fn of_answer(play: u32, name: &str, answer: &str, salt: &str) -> FileRead {
    let path = format!("{play}/{name}");
    let salt = hash_of([salt, "prompt", &path].into_iter());
    let mut hash = [0; 32];
    ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, GUESS, salt.as_bytes(), answer.as_bytes(), &mut hash);
    let sha256 = hex::encode(hash);
    FileRead { path, sha256, kind: InputKind::Prompt, ..FileRead::default() }
}

/// A salt of this many characters, as crypt(3) has them, to encrypt the answer to a prompt of a play.
pub(super) fn crypt_salt(play: u32, name: &str, size: usize, salt: &str) -> String {
    let mut hash = Sha256::new();
    [salt, "crypt", &play.to_string(), name].into_iter().for_each(|part| add_part(&mut hash, part));
    let bytes = hash.finalize();
    bytes.iter().cycle().take(size).map(|byte| char::from(ALPHABET[usize::from(byte & 63)])).collect()
}

/// Fingerprint of variables that vars plugins gave to a group or host. A name with a secret is only hashed.
pub(super) fn of_vars(given: &PluginVars, salt: &str, secrets: &Secrets) -> FileRead {
    let folder = if given.is_group { GROUP_VARS } else { HOST_VARS };
    let path = format!("{}{folder}{}", given.directory.display(), given.name);
    let mut hash = Sha256::new();
    let mut add = |part: &str| add_part(&mut hash, part);
    [salt, "vars", &path].into_iter().for_each(&mut add);
    for (plugin, vars) in &given.given {
        add(&plugin.display().to_string());
        vars.iter().for_each(|(key, node)| add(&format!("{}={}", key.to_text(), node.to_json())));
    }
    let masked = secrets.mask(&path);
    let hidden = if masked == path { Vec::new() } else { vec![name_hash(&path, salt)] };
    FileRead {
        path: masked,
        hidden,
        sha256: hex::encode(hash.finalize()),
        kind: InputKind::Vars,
        ..FileRead::default()
    }
}

/// Describes how variables of vars plugins differ from their record; `None` if they do not.
pub(super) fn changed_vars(read: &FileRead, salt: &str, inventory: &Inventory) -> Option<String> {
    let is_group = read.path.rfind(GROUP_VARS) > read.path.rfind(HOST_VARS);
    let (folder, kind) = if is_group { (GROUP_VARS, "group") } else { (HOST_VARS, "host") };
    let (directory, name) = read.path.rsplit_once(folder)?;
    if !read.hidden.is_empty() {
        return Some(format!("variables that vars plugins gave to the {kind} `{name}` cannot be compared"));
    }
    match inventory.ask_plugins(Path::new(directory), is_group, name) {
        Ok(now) if of_vars(&now, salt, &Secrets::default()).sha256 == read.sha256 => None,
        Ok(_) => Some(format!("vars plugins give other variables to the {kind} `{name}`")),
        Err(error) => Some(error.to_string()),
    }
}

/// Hash of the variables, hosts and groups that a task gives the run with its items, each with the host that it was
/// delegated to; empty if it gives none. Facts are not among them: hosts report others at any time. Short, because
/// values may be secrets.
pub(super) fn of_effects(parts: &[(TaskResult, Option<String>)], salt: &str) -> String {
    let mut hash = Sha256::new();
    let mut is_empty = true;
    let mut add = |part: &str| {
        is_empty = false;
        add_part(&mut hash, part);
    };
    let effects = parts.iter().flat_map(|(result, host)| result.effects().iter().map(move |effect| (effect, host)));
    for (effect, host) in effects {
        match effect {
            Effect::SetFacts(set) => set.vars.iter().for_each(|(name, value)| {
                let host = host.as_deref().unwrap_or_default();
                [salt, "variable", host, name, &to_exact(value).to_string()].into_iter().for_each(&mut add);
            }),
            Effect::IncludedVars(read) => {
                [salt, "files", read.name.as_deref().unwrap_or_default()].into_iter().for_each(&mut add);
                read.files.iter().for_each(|file| add(&canonical(file)));
            }
            Effect::Inventory(InventoryChange::Host(host)) => {
                [salt, "host", &host.name].into_iter().for_each(&mut add);
                host.groups.iter().for_each(|group| add(group));
                host.vars.iter().for_each(|(key, node)| add(&format!("{}={}", key.to_text(), node.to_json())));
            }
            Effect::Inventory(InventoryChange::Group(group)) => {
                [salt, "group", &group.name].into_iter().for_each(&mut add);
                group.parents.iter().for_each(|parent| add(parent));
            }
            Effect::Facts(_) | Effect::Python { .. } | Effect::Stats(_) => {}
        }
    }
    if is_empty { String::new() } else { hex::encode(hash.finalize()).chars().take(DIGITS).collect() }
}

/// Replaces the parts of an input's name that contain a secret by hashes. A search becomes the directories that were
/// searched, since a pattern cannot be found again by its hash.
pub(super) fn without_secrets(input: FileRead, salt: &str, secrets: &Secrets) -> Vec<FileRead> {
    if secrets.mask(&input.path) == input.path {
        return vec![input];
    }
    if input.kind == InputKind::Search {
        let folders = searched(&input.path).into_iter();
        let folders = folders.map(|folder| fingerprint(Read::Folder(folder), salt));
        return folders.flat_map(|folder| without_secrets(folder, salt, secrets)).collect();
    }
    let hide = |all: bool| {
        let mut hidden = Vec::new();
        let parts = input.path.split('/').map(|part| {
            if part.is_empty() || !(all || part == MASK || secrets.mask(part) != part) {
                return part;
            }
            hidden.push(name_hash(part, salt));
            MASK
        });
        let path = parts.collect::<Vec<_>>().join("/");
        (path, hidden)
    };
    let (mut path, mut hidden) = hide(false);
    // A secret may contain a slash.
    if secrets.mask(&path) != path {
        (path, hidden) = hide(true);
    }
    vec![FileRead { path, hidden, ..input }]
}

/// Directories whose entries decide which files match a pattern.
fn searched(pattern: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut parent = Path::new(pattern).parent();
    while let Some(folder) = parent {
        let text = folder.to_string_lossy();
        if !text.contains(['*', '?', '[']) {
            found.push(folder.to_owned());
            break;
        }
        found.extend(matching_paths(&text).into_iter().map(PathBuf::from).filter(|path| path.is_dir()));
        parent = folder.parent();
    }
    found
}

fn name_hash(name: &str, salt: &str) -> String {
    hash_of([salt, "name", name].into_iter()).chars().take(DIGITS).collect()
}

/// Files and directories that an input may mean: one, unless a part of its name is hidden.
fn places(input: &FileRead, salt: &str) -> Vec<PathBuf> {
    if input.hidden.is_empty() {
        return vec![PathBuf::from(&input.path)];
    }
    let mut hashes = input.hidden.iter();
    let mut places = vec![PathBuf::from("/")];
    for part in input.path.split('/').filter(|part| !part.is_empty()) {
        if part != MASK {
            places.iter_mut().for_each(|place| place.push(part));
            continue;
        }
        let Some(hash) = hashes.next() else { return Vec::new() };
        let below = |place: &PathBuf| {
            let names = names_in(place).into_iter().filter(|name| name_hash(name, salt) == *hash);
            names.map(|name| place.join(name)).collect::<Vec<_>>()
        };
        places = places.iter().flat_map(below).collect();
    }
    places
}

/// Environment variables that an input may mean.
fn variables(input: &FileRead, salt: &str) -> Vec<String> {
    let Some(hash) = input.hidden.first() else { return vec![input.path.clone()] };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name_hash(name, salt) == *hash).collect()
}

/// Describes how an input differs from its record; `None` if it does not.
pub(super) fn changed(input: &FileRead, salt: &str) -> Option<String> {
    let FileRead { path, sha256, kind, .. } = input;
    let differs = |now: Vec<String>| !now.contains(sha256);
    let or_nothing = |now: Vec<String>, nothing: String| if now.is_empty() { vec![nothing] } else { now };
    match kind {
        InputKind::Missing => places(input, salt).iter().any(|path| path.exists()).then(|| format!("{path} is new")),
        InputKind::Search => {
            let now = fingerprint(Read::Search(path.clone()), salt).sha256;
            (now != *sha256).then(|| format!("other files match {path} than before"))
        }
        InputKind::Folder => {
            let now = places(input, salt).iter().map(|folder| hash_of(names_in(folder).iter())).collect();
            let nothing = hash_of(std::iter::empty::<&str>());
            differs(or_nothing(now, nothing)).then(|| format!("the directory {path} has other entries than before"))
        }
        InputKind::Environment => {
            let now = variables(input, salt).iter().map(|name| variable_hash(name, salt)).collect();
            let now = or_nothing(now, String::new());
            differs(now).then(|| format!("the environment variable {path} has another value"))
        }
        InputKind::File => {
            let hash = |path: &PathBuf| match sha256.contains('-') {
                true => source_hash(path),
                false => file_hash(path),
            };
            let now: Vec<String> = places(input, salt).iter().filter_map(hash).collect();
            match now.is_empty() {
                true => Some(format!("{path} was read and is missing")),
                false => differs(now).then(|| format!("{path} has changed")),
            }
        }
        // An answer is compared once the play asks, and variables with their inventory.
        InputKind::Prompt | InputKind::Vars => None,
        InputKind::Rest => Some("more inputs were read than are compared".to_owned()),
    }
}

/// Whether an input has had its present state since before the last sign of life of a run that was killed. Tasks make
/// files that they or others read, and such a run could not record their last state.
pub(super) fn is_own(input: &FileRead, salt: &str, alive: Option<u64>) -> bool {
    let Some(alive) = alive else { return false };
    let end = i128::from(alive.saturating_add(LEEWAY));
    let is_old = |path: &Path| {
        let changed = std::fs::metadata(path).map(|found| (i128::from(found.ctime()), i128::from(found.ctime_nsec())));
        changed.is_ok_and(|(seconds, nanos)| seconds * 1000 + nanos / 1_000_000 <= end)
    };
    match input.kind {
        InputKind::File if !input.source => false,
        InputKind::File | InputKind::Missing | InputKind::Folder => {
            let places = places(input, salt);
            // Of a file that was removed, its directory shows when.
            let is_old = |path: &PathBuf| if path.exists() { is_old(path) } else { path.parent().is_some_and(&is_old) };
            !places.is_empty() && places.iter().all(is_old)
        }
        InputKind::Search => {
            let found = matching_paths(&input.path).into_iter().map(PathBuf::from);
            found.chain(searched(&input.path)).all(|path| is_old(&path))
        }
        InputKind::Environment | InputKind::Prompt | InputKind::Vars | InputKind::Rest => false,
    }
}

/// An input of a run that is resumed, with its present fingerprint if that run made it so.
pub(super) fn renewed(input: FileRead, salt: &str, alive: Option<u64>) -> FileRead {
    if !is_own(&input, salt, alive) || changed(&input, salt).is_none() {
        return input;
    }
    let now = |place: PathBuf| match input.kind {
        InputKind::Search => fingerprint(Read::Search(input.path.clone()), salt),
        InputKind::Folder | InputKind::Missing if place.is_dir() => fingerprint(Read::Folder(place), salt),
        _ => fingerprint(Read::File(place), salt),
    };
    match places(&input, salt).into_iter().next().map(now) {
        Some(now) if !now.sha256.is_empty() => FileRead { path: input.path, hidden: input.hidden, ..now },
        _ => input,
    }
}

/// Whether a variable of the environment belongs to the login or the terminal, and differs between runs by itself.
fn is_of_session(name: &str) -> bool {
    const NAMES: &[&str] = &["COLUMNS", "DISPLAY", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM", "TTY", "WINDOWID", "_"];
    NAMES.contains(&name) || ["DBUS_", "SSH_", "XDG_"].iter().any(|beginning| name.starts_with(beginning))
}

/// Names of the entries of a directory, sorted.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES);
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

fn absolute(path: &Path) -> String {
    crate::paths::absolute(path).display().to_string()
}

fn hash_of(parts: impl Iterator<Item: AsRef<str>>) -> String {
    let mut hash = Sha256::new();
    parts.for_each(|part| add_part(&mut hash, part.as_ref()));
    hex::encode(hash.finalize())
}

/// Adds a text with its length, so that other divisions of the same bytes have other hashes.
pub(super) fn add_part(hash: &mut Sha256, part: &str) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part.as_bytes());
}

/// Hash of a source that tasks send; of a large one, the hash of its start with its size and its time of change.
fn source_hash(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() <= SOURCE {
        return file_hash(path);
    }
    let mut start = vec![0; usize::try_from(SOURCE).ok()?];
    std::fs::File::open(path).ok()?.read_exact(&mut start).ok()?;
    let hash = hex::encode(Sha256::digest(&start));
    Some(format!("{hash}-{}-{}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// SHA-256 of a file's content; `None` if it is unreadable.
pub(super) fn file_hash(path: &Path) -> Option<String> {
    use std::io::Read as _;
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = std::fs::File::open(path).ok()?;
    let mut hash = Sha256::new();
    let mut reader = file.take(BYTES);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match reader.read(&mut buffer).ok()? {
            0 => return Some(hex::encode(hash.finalize())),
            count => hash.update(buffer.get(..count)?),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "a test fails by panicking")]

    use super::*;

    const SALT: &str = "salt";

    /// Fingerprint of an input with this secret in its name.
    fn hidden(read: Read, secret: &str) -> Vec<FileRead> {
        let secrets = Secrets::default();
        secrets.add(secret);
        let found = without_secrets(fingerprint(read, SALT), SALT, &secrets);
        assert!(found.iter().all(|input| !input.path.contains(secret)), "{found:?}");
        found
    }

    #[test]
    fn input_whose_name_is_hidden_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = root.join("hunter2-secret/notes.txt");
        std::fs::create_dir(root.join("hunter2-secret")).unwrap();
        std::fs::write(&file, "1").unwrap();
        let missing = hidden(Read::Missing(root.join("a-hunter2-secret")), "hunter2-secret");
        let slash = hidden(Read::File(file.clone()), "secret/notes");
        let [input] = &hidden(Read::File(file.clone()), "hunter2-secret")[..] else { panic!("one input") };
        assert_eq!((input.path.as_str(), input.hidden.len()), (&*format!("{}/********/notes.txt", root.display()), 1));
        let all = || missing.iter().chain(&slash).chain([input]);
        assert!(all().all(|input| changed(input, SALT).is_none()));
        std::fs::write(&file, "2").unwrap();
        std::fs::write(root.join("a-hunter2-secret"), "").unwrap();
        assert!(all().all(|input| changed(input, SALT).is_some()));
        std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
        assert!(changed(input, SALT).unwrap().ends_with("was read and is missing"));
        assert!(!is_own(input, SALT, Some(u64::MAX)), "nothing shows when it was removed");
    }

    #[test]
    fn search_for_a_hidden_name_compares_the_directories() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("one/hunter2-secret")).unwrap();
        let found = hidden(Read::Search(format!("{}/*/hunter2-secret*/x*", root.display())), "hunter2-secret");
        let is_same = || found.iter().all(|input| changed(input, SALT).is_none());
        for new in ["two", "one/hunter2-secret-2", "one/hunter2-secret/x"] {
            assert!(is_same());
            std::fs::create_dir(root.join(new)).unwrap();
            assert!(!is_same(), "{new}");
            std::fs::remove_dir(root.join(new)).unwrap();
        }
    }

    #[test]
    fn state_from_before_the_end_of_a_killed_run_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made");
        std::fs::write(&file, "1").unwrap();
        let input = fingerprint(Read::File(file.clone()), SALT);
        std::fs::write(&file, "2").unwrap();
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap();
        assert!(is_own(&input, SALT, Some(now)));
        assert!(!is_own(&input, SALT, Some(now - LEEWAY - 1000)), "it was changed after the end");
        assert!(!is_own(&input, SALT, None), "the run recorded its inputs at its end");
        assert!(!is_own(&FileRead { source: false, ..input.clone() }, SALT, Some(now)), "no task makes playbooks");
        assert_eq!(changed(&renewed(input, SALT, Some(now)), SALT), None);
    }
}
