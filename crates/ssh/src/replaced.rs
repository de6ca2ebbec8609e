//! Replaces a host's outdated keys in known_hosts files, like `ssh-keygen -R` and a new pin in one.
//!
//! A line that names other hosts too loses only this host's name, so that no other key becomes unknown.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ssh_key::PublicKey;

use crate::known_hosts::{self, HostName, Marker};
use crate::pattern;

/// Removes every key of a host except `keys` from the files. Returns the files that were changed; each has its former
/// content beside it, under its name with `.old`.
pub(crate) fn remove_others(files: &[PathBuf], host: &HostName, keys: &[&PublicKey]) -> io::Result<Vec<PathBuf>> {
    // A line that cannot be edited must stop this before the first file is changed.
    for file in files.iter().filter(|file| file.is_file()) {
        without(&windlass_bounds::read(file)?, file, host, keys)?;
    }
    let mut changed = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        if edit(file, |text| without(text, file, host, keys))? {
            changed.push(file.clone());
        }
    }
    Ok(changed)
}

/// The text without outdated keys; `None` if it has none.
fn without(text: &[u8], file: &Path, host: &HostName, keys: &[&PublicKey]) -> io::Result<Option<Vec<u8>>> {
    let mut kept = Vec::with_capacity(text.len());
    for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let shown = String::from_utf8_lossy(line);
        let is_outdated = known_hosts::entry(&shown, host).is_some_and(|(marker, key, exact)| {
            marker == Marker::Host && exact && !keys.iter().any(|current| current.key_data() == key.key_data())
        });
        if !is_outdated {
            kept.extend_from_slice(line);
            continue;
        }
        let names = shown.split_whitespace().next().unwrap_or_default();
        if names.starts_with("|1|") {
            continue;
        }
        let others: Vec<&str> = names.split(',').filter(|name| !name.eq_ignore_ascii_case(&host.name)).collect();
        if pattern::list(others.iter().copied(), &host.name) == pattern::Match::Yes {
            let problem = format!("{}:{} names {} by the pattern `{names}`", file.display(), index + 1, host.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{problem}; change that line by hand")));
        }
        if others.iter().any(|name| !name.starts_with('!')) {
            kept.extend_from_slice(shown.replacen(names, &others.join(","), 1).as_bytes());
        }
    }
    Ok((kept != text).then_some(kept))
}

/// Replaces a file by its changed text at once, and keeps the former file under its name with `.old`.
fn edit(file: &Path, change: impl Fn(&[u8]) -> io::Result<Option<Vec<u8>>>) -> io::Result<bool> {
    // A link, as to a folder of configuration files, stays one.
    let path = fs::canonicalize(file)?;
    let mut former = known_hosts::locked(fs::OpenOptions::new().read(true), &path)?;
    let text = windlass_bounds::read_from(&mut former, windlass_bounds::LARGEST_FILE)?;
    let Some(text) = change(&text)? else { return Ok(false) };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::Builder::new().prefix(".known_hosts-").tempfile_in(folder)?;
    new.write_all(&text)?;
    let metadata = former.metadata()?;
    let owner = new.as_file().metadata()?;
    if (owner.uid(), owner.gid()) != (metadata.uid(), metadata.gid()) {
        std::os::unix::fs::fchown(new.as_file().as_fd(), Some(metadata.uid()), Some(metadata.gid()))?;
    }
    new.as_file().set_permissions(metadata.permissions())?;
    new.as_file().sync_all()?;
    let mut backup = OsString::from(&path);
    backup.push(".old");
    match fs::remove_file(&backup) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::hard_link(&path, &backup).or_else(|_| fs::copy(&path, &backup).map(drop))?,
    }
    new.persist(&path)?;
    Ok(true)
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
        let key = PublicKey::from_openssh(NEW).unwrap();
        let changed = remove_others(&files, &HostName::new("web", 22, None), &[&key])?;
        Ok((folder, changed))
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
        let error = remove_others(&files, &HostName::new("web", 22, None), &[&key]).unwrap_err();
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
        let host = HostName::new("web", 22, None);
        let files = [link];
        let [link] = &files;
        assert_eq!(remove_others(&files, &host, &[&key]).unwrap(), files);
        assert!(fs::symlink_metadata(link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o7777, 0o640);
        assert!(folder.path().join("real.old").exists());
        known_hosts::add(link, "web", &key, true).unwrap();
        assert_eq!(remove_others(&files, &host, &[]).unwrap().len(), 1, "hashed names are found too");
        assert_eq!(fs::read_to_string(&real).unwrap(), "");
    }
}
