//! Replaces hosts' outdated keys in known_hosts files, like `ssh-keygen -R` and a new pin in one.
//!
//! A line that names other hosts too loses only this host's name, so that no other key becomes unknown. Every new file
//! is written before the first known_hosts file changes, and the files that get new keys change first. So a failure
//! leaves no host without a known key.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ssh_key::PublicKey;
use tempfile::NamedTempFile;

use crate::known_hosts::{self, HostName, Marker};
use crate::pattern;

/// A host with the keys that known_hosts files are to have for it.
#[derive(Debug)]
pub(crate) struct Replacement<'a> {
    pub(crate) host: &'a HostName,
    /// Files that lose its other keys.
    pub(crate) files: &'a [PathBuf],
    /// All its keys.
    pub(crate) keys: Vec<&'a PublicKey>,
    /// Keys to add.
    pub(crate) new: Vec<&'a PublicKey>,
    /// File that the new keys are added to.
    pub(crate) user_file: &'a Path,
    /// Whether to hash the name.
    pub(crate) hash_names: bool,
}

impl Replacement<'_> {
    /// Fails if a file would not keep the new keys, or has a line that cannot be edited.
    pub(crate) fn check(&self) -> io::Result<()> {
        if !known_hosts::is_kept(self.user_file) {
            let problem = format!("{} is not a regular file and would not keep the new keys", self.user_file.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        for file in self.files.iter().filter(|file| file.is_file()) {
            let text = windlass_bounds::read(file).map_err(|error| named(file, &error))?;
            without(&text, file, self.host, &self.keys)?;
        }
        Ok(())
    }
}

/// A known_hosts file with its next content. It stays locked until this is dropped.
struct Edit {
    file: PathBuf,
    /// The file itself if `file` is a link.
    path: PathBuf,
    _former: fs::File,
    has_text: bool,
    adds_keys: bool,
    new: NamedTempFile,
}

/// Replaces the keys of hosts, each file once. Returns the changed files that had lines; each has its former content
/// beside it, under its name with `.old`.
pub(crate) fn replace(hosts: &[Replacement<'_>]) -> io::Result<Vec<PathBuf>> {
    let unchanged = |error: io::Error| io::Error::new(error.kind(), format!("{error}; no known key was changed"));
    let mut edits = prepared(hosts).map_err(unchanged)?;
    for edit in edits.iter().filter(|edit| edit.has_text) {
        back_up(&edit.path).map_err(|error| unchanged(named(&edit.file, &error)))?;
    }
    edits.sort_by_key(|edit| !edit.adds_keys);
    let mut changed: Vec<PathBuf> = Vec::new();
    let mut with_backup = Vec::new();
    for edit in edits {
        if let Err(error) = edit.new.persist(&edit.path) {
            let changed: Vec<_> = changed.iter().map(|file| file.display().to_string()).collect();
            let changed = if changed.is_empty() { "none".to_owned() } else { changed.join(", ") };
            let problem = format!("{}; files changed before: {changed}", named(&edit.file, &error.error));
            return Err(io::Error::new(error.error.kind(), problem));
        }
        if edit.has_text {
            with_backup.push(edit.file.clone());
        }
        changed.push(edit.file);
    }
    Ok(with_backup)
}

/// Writes the new content of each file that changes to a temporary file beside it.
fn prepared(hosts: &[Replacement<'_>]) -> io::Result<Vec<Edit>> {
    // The order of the paths is the order of the locks, so that two commands cannot wait for each other.
    let mut files = BTreeMap::new();
    for host in hosts {
        if !host.new.is_empty() {
            known_hosts::created(host.user_file).map_err(|error| named(host.user_file, &error))?;
        }
        for file in host.files.iter().map(PathBuf::as_path).chain([host.user_file]).filter(|file| file.is_file()) {
            // A link, for example to a folder of configuration files, must stay a link.
            let path = fs::canonicalize(file).map_err(|error| named(file, &error))?;
            files.entry(path).or_insert(file);
        }
    }
    // Names may present the same place by two routes; all the keys of a name count.
    let mut keys: BTreeMap<&str, Vec<&PublicKey>> = BTreeMap::new();
    for host in hosts {
        keys.entry(&host.host.name).or_default().extend(&host.keys);
    }
    let (mut edits, mut locked) = (Vec::new(), BTreeSet::new());
    for (path, file) in files {
        let problem = |error: io::Error| named(file, &error);
        let metadata = fs::metadata(&path).map_err(problem)?;
        // A second lock of one file, under another hard link, would never be granted.
        let mut former = if locked.insert((metadata.dev(), metadata.ino())) {
            known_hosts::locked(OpenOptions::new().read(true), &path).map_err(problem)?
        } else {
            fs::File::open(&path).map_err(problem)?
        };
        let before = windlass_bounds::read_from(&mut former, windlass_bounds::LARGEST_FILE).map_err(problem)?;
        let mut text = before.clone();
        let is_path = |other: &Path| fs::canonicalize(other).is_ok_and(|other| other == path);
        for host in hosts.iter().filter(|host| host.files.iter().any(|other| is_path(other))) {
            let keys = keys.get(host.host.name.as_str()).map_or(&[][..], Vec::as_slice);
            text = without(&text, file, host.host, keys)?.unwrap_or(text);
        }
        let mut adds_keys = false;
        for host in hosts.iter().filter(|host| is_path(host.user_file)) {
            for key in &host.new {
                let line = known_hosts::addition(file, text.clone(), &host.host.name, key, host.hash_names);
                if let Some(line) = line.map_err(problem)? {
                    text.extend_from_slice(line.as_bytes());
                    adds_keys = true;
                }
            }
        }
        if text != before {
            let new = beside(&path, &former, &text).map_err(problem)?;
            edits.push(Edit {
                file: file.to_owned(),
                path,
                _former: former,
                has_text: !before.is_empty(),
                adds_keys,
                new,
            });
        }
    }
    Ok(edits)
}

fn named(file: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

/// The text without outdated keys; `None` if it has none.
fn without(text: &[u8], file: &Path, host: &HostName, keys: &[&PublicKey]) -> io::Result<Option<Vec<u8>>> {
    let mut kept = Vec::with_capacity(text.len());
    for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let is_outdated =
            known_hosts::entry(&String::from_utf8_lossy(line), host).is_some_and(|(marker, key, exact)| {
                marker == Marker::Host && exact && !keys.iter().any(|current| current.key_data() == key.key_data())
            });
        if !is_outdated {
            kept.extend_from_slice(line);
            continue;
        }
        let line = line.trim_ascii_start();
        let (names, rest) = line.split_at(line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len()));
        if names.starts_with(b"|1|") {
            continue;
        }
        let others: Vec<&[u8]> =
            names.split(|&byte| byte == b',').filter(|name| !name.eq_ignore_ascii_case(host.name.as_bytes())).collect();
        let shown: Vec<_> = others.iter().map(|name| String::from_utf8_lossy(name)).collect();
        if pattern::list(shown.iter().map(AsRef::as_ref), &host.name) == pattern::Match::Yes {
            let names = String::from_utf8_lossy(names);
            let problem = format!("{}:{} names {} by the pattern `{names}`", file.display(), index + 1, host.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{problem}; change that line by hand")));
        }
        if others.iter().any(|name| !name.starts_with(b"!")) {
            kept.extend_from_slice(&others.join(&b','));
            kept.extend_from_slice(rest);
        }
    }
    Ok((kept != text).then_some(kept))
}

/// Writes a new file beside the former one, with its owner and mode.
fn beside(path: &Path, former: &fs::File, text: &[u8]) -> io::Result<NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::Builder::new().prefix(".known_hosts-").tempfile_in(folder)?;
    new.write_all(text)?;
    let metadata = former.metadata()?;
    let owner = new.as_file().metadata()?;
    if (owner.uid(), owner.gid()) != (metadata.uid(), metadata.gid()) {
        std::os::unix::fs::fchown(new.as_file().as_fd(), Some(metadata.uid()), Some(metadata.gid()))?;
    }
    new.as_file().set_permissions(metadata.permissions())?;
    new.as_file().sync_all()?;
    Ok(new)
}

/// Keeps a file's content under its name with `.old`.
fn back_up(path: &Path) -> io::Result<()> {
    let mut backup = OsString::from(path);
    backup.push(".old");
    match fs::remove_file(&backup) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("{}: {error}", Path::new(&backup).display())))
        }
        _ => fs::hard_link(path, &backup).or_else(|_| fs::copy(path, &backup).map(drop)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const OLD: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const NEW: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn replaced(texts: &[&str]) -> io::Result<(tempfile::TempDir, Vec<PathBuf>)> {
        let folder = tempfile::tempdir()?;
        let files: Vec<PathBuf> = (0..=texts.len()).map(|index| folder.path().join(format!("known{index}"))).collect();
        for (file, text) in files.iter().zip(texts) {
            fs::write(file, text)?;
        }
        let changed = remove_others(&files, &[&PublicKey::from_openssh(NEW).unwrap()])?;
        Ok((folder, changed))
    }

    /// Removes the other keys of `web`, and adds none.
    fn remove_others(files: &[PathBuf], keys: &[&PublicKey]) -> io::Result<Vec<PathBuf>> {
        let host = HostName::new("web", 22, None);
        replace(&[replacement(&host, files, keys, &[])])
    }

    fn replacement<'a>(
        host: &'a HostName,
        files: &'a [PathBuf],
        keys: &[&'a PublicKey],
        new: &[&'a PublicKey],
    ) -> Replacement<'a> {
        let (keys, new) = (keys.to_vec(), new.to_vec());
        Replacement { host, files, keys, new, user_file: files.first().unwrap(), hash_names: false }
    }

    #[test]
    fn two_hosts_of_one_file_keep_both_former_lines_in_one_backup() {
        let folder = tempfile::tempdir().unwrap();
        let files = [folder.path().join("known")];
        let former = format!("web {OLD}\ndb {OLD}\n");
        fs::write(&files[0], &former).unwrap();
        let key = PublicKey::from_openssh(NEW).unwrap();
        let hosts = ["web", "db"].map(|name| HostName::new(name, 22, None));
        let hosts: Vec<_> = hosts.iter().map(|host| replacement(host, &files, &[&key], &[&key])).collect();
        assert_eq!(replace(&hosts).unwrap(), files);
        assert_eq!(fs::read_to_string(folder.path().join("known.old")).unwrap(), former);
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), format!("web {NEW}\ndb {NEW}\n"));
    }

    #[test]
    fn second_file_that_cannot_be_backed_up_changes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| folder.path().join(name));
        let former = format!("web {OLD}\n");
        files.iter().for_each(|file| fs::write(file, &former).unwrap());
        fs::create_dir(folder.path().join("b.old")).unwrap();
        let key = PublicKey::from_openssh(NEW).unwrap();
        let host = HostName::new("web", 22, None);
        let error = replace(&[replacement(&host, &files, &[&key], &[&key])]).unwrap_err().to_string();
        assert!(error.contains(&format!("{}: ", files[1].display())) && error.contains("no known key"), "{error}");
        for file in &files {
            assert_eq!(fs::read_to_string(file).unwrap(), former);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "no temporary file is left");
    }

    #[test]
    fn new_key_added_to_missing_file_without_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["ssh/a", "b"].map(|name| folder.path().join(name));
        fs::write(&files[1], format!("web {OLD}\n")).unwrap();
        let key = PublicKey::from_openssh(NEW).unwrap();
        let host = HostName::new("web", 22, None);
        let changed = replace(&[replacement(&host, &files, &[&key], &[&key])]).unwrap();
        assert_eq!(changed, files[1..]);
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), format!("web {NEW}\n"));
        assert!(!folder.path().join("ssh/a.old").exists());
    }

    #[test]
    fn device_as_file_of_new_keys_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = [PathBuf::from("/dev/null"), folder.path().join("b")];
        let key = PublicKey::from_openssh(NEW).unwrap();
        let host = HostName::new("web", 22, None);
        let error = replacement(&host, &files, &[&key], &[&key]).check().unwrap_err();
        assert!(error.to_string().contains("/dev/null is not a regular file"), "{error}");
    }

    #[test]
    fn bytes_after_the_names_kept_even_if_not_utf8() {
        let key = PublicKey::from_openssh(NEW).unwrap();
        let host = HostName::new("web", 22, None);
        let line = |names: &str| [format!("{names} {OLD} caf").as_bytes(), b"\xe9 \xff\n"].concat();
        let kept = without(&line("web,10.0.0.1"), Path::new("known"), &host, &[&key]).unwrap();
        assert_eq!(kept, Some(line("10.0.0.1")));
    }

    #[test]
    fn only_outdated_keys_of_the_host_removed_and_former_files_kept() {
        let first = format!(
            "# web\nWEB {OLD}\nweb,10.0.0.1 {OLD} a comment\nweb {NEW}\n[web]:2222 {OLD}\n@revoked web {OLD}\n@cert-authority web {OLD}\ndb {OLD}"
        );
        let (folder, changed) = replaced(&[&first, &format!("db {OLD}\n"), &format!("web {OLD}\n")]).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(
            read("known0"),
            format!(
                "# web\n10.0.0.1 {OLD} a comment\nweb {NEW}\n[web]:2222 {OLD}\n@revoked web {OLD}\n@cert-authority web {OLD}\ndb {OLD}"
            )
        );
        assert_eq!((read("known0.old"), read("known2")), (first, String::new()));
        assert_eq!(changed, [folder.path().join("known0"), folder.path().join("known2")]);
        assert!(!folder.path().join("known1.old").exists());
    }

    #[test]
    fn line_with_a_pattern_refused_before_any_file_changes() {
        let first = format!("web {OLD}\n");
        let folder = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| folder.path().join(name));
        fs::write(&files[0], &first).unwrap();
        fs::write(&files[1], format!("web,w* {OLD}\n")).unwrap();
        let key = PublicKey::from_openssh(NEW).unwrap();
        let error = remove_others(&files, &[&key]).unwrap_err();
        assert!(error.to_string().contains("b:1 names web by the pattern `web,w*`"), "{error}");
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), first);
    }

    #[test]
    fn link_and_mode_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, format!("web {OLD}\n")).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let key = PublicKey::from_openssh(NEW).unwrap();
        let files = [link];
        let [link] = &files;
        assert_eq!(remove_others(&files, &[&key]).unwrap(), files);
        assert!(fs::symlink_metadata(link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o7777, 0o640);
        assert!(folder.path().join("real.old").exists());
        known_hosts::add(link, "web", &key, true).unwrap();
        assert_eq!(remove_others(&files, &[]).unwrap().len(), 1, "hashed names are found too");
        assert_eq!(fs::read_to_string(&real).unwrap(), "");
    }
}
