//! Downloads a role into a temporary directory.

use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use windlass_bounds::child;

use super::install::INFO;
use super::server::LARGEST_ARCHIVE;
use crate::error::{Error, Result};

/// Metadata files that identify a role.
const METADATA: [&str; 2] = ["main.yml", "main.yaml"];

/// A downloaded role.
pub(super) struct Fetched {
    /// Directory of the role, deleted when this value is dropped.
    pub(super) folder: PathBuf,
    /// Commit, if it came from a repository.
    pub(super) commit: Option<String>,
    _temporary: tempfile::TempDir,
}

/// Creates a directory for downloads.
pub(super) fn temporary() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|error| Error::new(format!("a directory for the download cannot be created: {error}")))
}

/// A checkout of a git repository.
pub(super) struct Checkout {
    pub(super) temporary: tempfile::TempDir,
    /// Directory with `.git`.
    pub(super) clone: PathBuf,
    pub(super) commit: String,
}

/// Clones a git repository and checks out this version.
pub(super) fn checkout(source: &str, version: Option<&str>, check_certificates: bool) -> Result<Checkout> {
    // A leading dash would make it an option of git.
    if source.starts_with('-') || version.is_some_and(|version| version.starts_with('-')) {
        return Err(Error::new(format!("`{source}` is not a git repository, or its version is not valid")));
    }
    let temporary = temporary()?;
    let clone = temporary.path().join("clone");
    let unchecked: &[&str] = if check_certificates { &[] } else { &["-c", "http.sslVerify=false"] };
    git(temporary.path(), &[unchecked, &["clone", "--quiet", "--", source, "clone"]].concat())?;
    if let Some(version) = version {
        git(&clone, &["checkout", "--quiet", version, "--"])?;
    }
    let commit = git(&clone, &["rev-parse", "HEAD"])?;
    Ok(Checkout { temporary, clone, commit })
}

/// Clones a git repository and extracts the role in this version.
pub(super) fn repository(
    source: &str,
    version: Option<&str>,
    keep_git: bool,
    check_certificates: bool,
) -> Result<Fetched> {
    let Checkout { temporary, clone, commit } = checkout(source, version, check_certificates)?;
    let commit = Some(commit);
    if keep_git {
        return Ok(Fetched { folder: root(&clone)?, commit, _temporary: temporary });
    }
    // An archive omits files that the repository excludes from export.
    let archive = temporary.path().join("archive.tar");
    git(&clone, &["archive", "--format=tar", "--output", &archive.to_string_lossy(), "HEAD"])?;
    let folder = temporary.path().join("content");
    unpack(&archive, &folder)?;
    Ok(Fetched { folder: root(&folder)?, commit, _temporary: temporary })
}

/// Unpacks an archive.
pub(super) fn archive(path: &Path, temporary: tempfile::TempDir) -> Result<Fetched> {
    let folder = temporary.path().join("content");
    unpack(path, &folder)?;
    Ok(Fetched { folder: root(&folder)?, commit: None, _temporary: temporary })
}

/// Runs git and returns its output.
fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
    let output = child::run(&mut command, child::Limits::default())
        .map_err(|error| Error::new(format!("the command git {} cannot be run: {error}", arguments.join(" "))))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(format!("the command git {} failed: {}", arguments.join(" "), said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Unpacks files, directories and links of an archive, compressed or not. Entries outside the directory are skipped,
/// and so is a repository of git: its settings can name programs, and no lock file has its hash.
fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    let fail = |error: std::io::Error| Error::new(format!("{} cannot be unpacked: {error}", archive.display()));
    let mut bytes = windlass_bounds::read_up_to(archive, LARGEST_ARCHIVE).map_err(fail)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let reader = flate2::read::MultiGzDecoder::new(bytes.as_slice());
        bytes = windlass_bounds::read_from(reader, LARGEST_ARCHIVE).map_err(fail)?;
    }
    std::fs::create_dir_all(folder).map_err(fail)?;
    let broken = |_| Error::new("the downloaded file does not appear to be a valid tar archive.");
    let role = role_in(&bytes).map_err(broken)?;
    let mut archive = tar::Archive::new(bytes.as_slice());
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        if let (true, Some(link)) = (kind.is_symlink(), entry.link_name().map_err(broken)?) {
            let name = entry.path().map_err(broken)?.into_owned();
            let top = if name.starts_with(&role) { role.as_path() } else { Path::new("") };
            if !is_inside(top, name.parent().unwrap_or(Path::new("")), &link) {
                let message = format!("the link {} to {} is not a subpath of the role", name.display(), link.display());
                return Err(Error::new(message).hint("links must stay inside of the role; nothing was installed"));
            }
        }
        let is_of_git = entry.path().map_err(broken)?.components().any(|part| part.as_os_str() == ".git");
        if !is_of_git && (kind.is_file() || kind.is_dir() || kind.is_symlink()) {
            entry.unpack_in(folder).map_err(fail)?;
        }
    }
    Ok(())
}

/// Directory of the role in an archive: the topmost one with metadata.
fn role_in(archive: &[u8]) -> std::io::Result<PathBuf> {
    let mut found: Option<PathBuf> = None;
    for entry in tar::Archive::new(archive).entries()? {
        let path = entry?.path()?.into_owned();
        let is_metadata = METADATA.iter().any(|name| path.ends_with(Path::new("meta").join(name)));
        let Some(folder) = path.parent().and_then(Path::parent).filter(|_| is_metadata) else { continue };
        if found.as_ref().is_none_or(|found| folder.components().count() < found.components().count()) {
            found = Some(folder.to_owned());
        }
    }
    Ok(found.unwrap_or_default())
}

/// Directory of the role: the topmost one with metadata.
fn root(folder: &Path) -> Result<PathBuf> {
    let mut level = vec![folder.to_owned()];
    while !level.is_empty() {
        level.sort();
        let has_metadata = |path: &&PathBuf| METADATA.iter().any(|name| path.join("meta").join(name).is_file());
        if let Some(found) = level.iter().find(has_metadata) {
            return Ok(found.clone());
        }
        let entries =
            level.iter().filter_map(|path| std::fs::read_dir(path).ok()).flat_map(|entries| entries.flatten());
        level = entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink()).collect();
    }
    Err(Error::new("this role does not appear to have a meta/main.yml file."))
}

/// Moves a complete directory to its place. Replaces an existing one in one step, where the file system can do so;
/// otherwise it is briefly at `old`.
pub(super) fn put_in_place(new: &Path, target: &Path, old: &Path) -> std::io::Result<()> {
    if target.symlink_metadata().is_err() {
        return std::fs::rename(new, target);
    }
    match rustix::fs::renameat_with(CWD, new, CWD, target, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS) => {}
        exchanged => return Ok(exchanged?),
    }
    std::fs::rename(target, old)?;
    // Puts the old directory back after a failure.
    std::fs::rename(new, target).inspect_err(|_| drop(std::fs::rename(old, target)))
}

/// SHA-256 over the names, executable bits and contents of all files of a role.
pub(super) fn tree_digest(folder: &Path) -> std::io::Result<String> {
    let mut paths = Vec::new();
    collect(folder, folder, &mut paths)?;
    paths.sort();
    let mut hasher = Sha256::new();
    for path in paths {
        let full = folder.join(&path);
        hasher.update(path.as_os_str().as_encoded_bytes());
        hasher.update([0]);
        let metadata = std::fs::symlink_metadata(&full)?;
        if metadata.is_symlink() {
            hasher.update([2]);
            hasher.update(Sha256::digest(std::fs::read_link(&full)?.as_os_str().as_encoded_bytes()));
        } else {
            use std::os::unix::fs::PermissionsExt as _;
            hasher.update([u8::from(metadata.permissions().mode() & 0o100 != 0)]);
            hasher.update(Sha256::digest(std::fs::read(&full)?));
        }
    }
    Ok(hex::encode(hasher.finalize()))
}

fn collect(base: &Path, folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let relative = path.strip_prefix(base).unwrap_or(&path).to_owned();
        // Files kept by git or the installation are not content of the role.
        if relative.starts_with(".git") || relative == Path::new(INFO) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            collect(base, &path, paths)?;
        } else {
            paths.push(relative);
        }
    }
    Ok(())
}

/// Copies a role. Fails for a link that leaves the role, because its target is not part of it.
pub(super) fn copy_tree(root: &Path, from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_symlink() {
            let link = std::fs::read_link(&path)?;
            if !is_inside(root, from, &link) {
                let (name, link) = (path.strip_prefix(root).unwrap_or(&path).display(), link.display());
                return Err(std::io::Error::other(format!("its link {name} leaves the role, to {link}")));
            }
            std::os::unix::fs::symlink(link, &target)?;
        } else if path.is_dir() {
            copy_tree(root, &path, &target)?;
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Fails if a link leads out of a directory. Links that stay inside by their text may lead out through one another.
pub(super) fn check_links(root: &Path) -> std::io::Result<()> {
    fn check(root: &Path, folder: &Path) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if !path.is_symlink() {
                if path.is_dir() {
                    check(root, &path)?;
                }
            } else if let Some(found) = path.canonicalize().ok().filter(|found| !found.starts_with(root)) {
                let (name, found) = (path.strip_prefix(root).unwrap_or(&path).display(), found.display());
                return Err(std::io::Error::other(format!("its link {name} leads out, to {found}")));
            }
        }
        Ok(())
    }
    let root = root.canonicalize()?;
    check(&root, &root)
}

fn is_inside(root: &Path, folder: &Path, link: &Path) -> bool {
    let mut depth = folder.strip_prefix(root).map_or(0, |below| below.components().count());
    link.components().all(|part| match part {
        Component::ParentDir => depth.checked_sub(1).map(|above| depth = above).is_some(),
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::CurDir => true,
        Component::RootDir | Component::Prefix(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(name: &str, link: &str) -> Result<tempfile::TempDir> {
        let mut builder = tar::Builder::new(Vec::new());
        let header = |kind, size| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(size);
            header.set_mode(0o644);
            header
        };
        let (mut file, mut symlink) = (header(tar::EntryType::Regular, 2), header(tar::EntryType::Symlink, 0));
        builder.append_data(&mut file, "top/role/meta/main.yml", &b"{}"[..]).unwrap();
        builder.append_data(&mut file, "top/role/.git/config", &b"{}"[..]).unwrap();
        builder.append_link(&mut symlink, name, link).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        std::fs::write(&archive, builder.into_inner().unwrap()).unwrap();
        unpack(&archive, &folder.path().join("content")).map(|()| folder)
    }

    #[test]
    fn repository_in_an_archive_is_left_out() {
        let role = unpacked("top/role/tasks/main.yml", "../files/main.yml").unwrap().path().join("content/top/role");
        assert!(!role.join(".git").exists());
    }

    #[test]
    fn links_that_only_together_leave_role_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir_all(from.join("a/b")).unwrap();
        std::os::unix::fs::symlink("../..", from.join("a/b/top")).unwrap();
        copy_tree(&from, &from, &to).unwrap();
        check_links(&to).unwrap();
        std::os::unix::fs::symlink("a/b/top/..", from.join("out")).unwrap();
        std::fs::remove_dir_all(&to).unwrap();
        copy_tree(&from, &from, &to).unwrap();
        assert!(check_links(&to).unwrap_err().to_string().contains("link out leads out"));
    }

    #[test]
    fn links_outside_of_role_refused_even_within_archive() {
        assert!(unpacked("top/role/tasks/main.yml", "../files/main.yml").is_ok());
        assert!(unpacked("top/role/tasks/main.yml", "../../other").is_err());
        assert!(unpacked("top/role/link", "/etc/passwd").is_err());
    }
}
