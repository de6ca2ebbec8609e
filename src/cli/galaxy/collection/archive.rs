//! Archives of collections: `NAMESPACE-NAME-VERSION.tar.gz`.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::manifest::{self, FILES, MANIFEST, Manifest};
use super::tree::{Kind, Tree};
use crate::bundle::Hashing;
use crate::cli::galaxy::server::LARGEST_ARCHIVE;
use crate::error::{Error, Result};

/// Maximum size of `MANIFEST.json` and of `FILES.json` in bytes.
const LARGEST_MANIFEST: u64 = 64 << 20;

type Archive = tar::Archive<io::Take<MultiGzDecoder<io::Take<File>>>>;

fn open(path: &Path) -> io::Result<Archive> {
    Ok(tar::Archive::new(MultiGzDecoder::new(File::open(path)?.take(LARGEST_ARCHIVE)).take(LARGEST_ARCHIVE)))
}

/// Path of an entry without a leading `./`.
fn name_of<R: Read>(entry: &tar::Entry<'_, R>) -> io::Result<PathBuf> {
    Ok(entry.path()?.components().filter(|part| !matches!(part, Component::CurDir)).collect())
}

/// Reads the manifest of an archive.
pub(super) fn read(path: &Path) -> Result<Manifest> {
    let fail = |error: io::Error| Error::new(format!("{} is not an archive of a collection: {error}", path.display()));
    let (mut manifest, mut files) = (None, None);
    let mut archive = open(path).map_err(fail)?;
    for entry in archive.entries().map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = name_of(&entry).map_err(fail)?;
        let wanted = match name.to_str() {
            Some(MANIFEST) => &mut manifest,
            Some(FILES) => &mut files,
            _ => continue,
        };
        *wanted = Some(windlass_bounds::read_from(entry, LARGEST_MANIFEST).map_err(fail)?);
        if manifest.is_some() && files.is_some() {
            break;
        }
    }
    let (Some(manifest), Some(files)) = (manifest, files) else {
        return Err(Error::new(format!("{} has no {MANIFEST} or no {FILES}", path.display()))
            .hint("an archive of a collection is made by `windlass galaxy collection build`"));
    };
    Manifest::parse(manifest, files).map_err(|error| Error::new(format!("{}: {}", path.display(), error.message())))
}

/// Unpacks the files that the manifest lists into an existing, empty directory. Fails if one is missing or has another
/// hash, or if a link leads out of the directory.
pub(super) fn unpack(path: &Path, manifest: &Manifest, to: &Path) -> Result<()> {
    let fail = |error: io::Error| Error::new(format!("{} cannot be unpacked: {error}", path.display()));
    let mut missing: HashMap<&Path, Option<&str>> =
        manifest.entries.iter().map(|entry| (entry.path.as_path(), entry.sha256.as_deref())).collect();
    // Links are made last, so that no file is written through one.
    let mut links = Vec::new();
    let mut archive = open(path).map_err(fail)?;
    for entry in archive.entries().map_err(fail)? {
        let mut entry = entry.map_err(fail)?;
        let name = name_of(&entry).map_err(fail)?;
        let Some(sha256) = missing.get(name.as_path()).copied() else { continue };
        let kind = entry.header().entry_type();
        match (kind, sha256) {
            (tar::EntryType::Symlink, _) => {
                let target = entry.link_name().map_err(fail)?.unwrap_or_default().into_owned();
                links.push((name.clone(), target, sha256.map(str::to_owned)));
            }
            (kind, Some(sha256)) if kind.is_file() => {
                let is_executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
                let found = write_file(&mut entry, &to.join(&name), is_executable).map_err(fail)?;
                compare(&name, sha256, &found)?;
            }
            _ => continue,
        }
        missing.remove(name.as_path());
    }
    for (name, sha256) in missing {
        if sha256.is_some() {
            return Err(Error::new(format!("{} lacks {}, which {FILES} lists", path.display(), name.display())));
        }
        std::fs::create_dir_all(to.join(name)).map_err(fail)?;
    }
    make_links(&links, to).map_err(fail)??;
    write_manifest(manifest, to).map_err(fail)
}

/// Makes links and then checks where they lead.
fn make_links(links: &[(PathBuf, PathBuf, Option<String>)], to: &Path) -> io::Result<Result<()>> {
    for (name, target, _) in links {
        let link = to.join(name);
        link.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::os::unix::fs::symlink(target, link)?;
    }
    let root = to.canonicalize()?;
    for (name, target, sha256) in links {
        let found = to.join(name).canonicalize()?;
        if !found.starts_with(&root) {
            return Ok(Err(Error::new(format!(
                "the link {} to {} leaves the collection",
                name.display(),
                target.display()
            ))));
        }
        let is_as_listed = match sha256 {
            Some(sha256) if found.is_file() => compare(name, sha256, &manifest::file_sha256(&found)?),
            None if found.is_dir() => Ok(()),
            _ => Err(Error::new(format!("{} is not the kind of file that {FILES} lists", name.display()))),
        };
        if is_as_listed.is_err() {
            return Ok(is_as_listed);
        }
    }
    Ok(Ok(()))
}

fn compare(name: &Path, wanted: &str, found: &str) -> Result<()> {
    if wanted == found {
        return Ok(());
    }
    Err(Error::new(format!("the content of {} has another hash than {FILES} lists", name.display())))
}

/// Writes a new file and returns its hash.
pub(super) fn write_file(content: &mut impl Read, path: &Path, is_executable: bool) -> io::Result<String> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    let mode = if is_executable { 0o755 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let mut reader = Hashing::new(content);
    io::copy(&mut reader, &mut file)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    reader.finish().map(|(digest, _)| digest.to_string())
}

/// Writes both documents of an installed collection.
pub(super) fn write_manifest(manifest: &Manifest, to: &Path) -> io::Result<()> {
    std::fs::write(to.join(MANIFEST), &manifest.manifest)?;
    std::fs::write(to.join(FILES), &manifest.files)
}

/// Builds an archive. The same files give the same bytes: owners and times are left out.
pub(super) fn write(tree: &Tree, to: &Path) -> Result<()> {
    let fail = |error: io::Error| Error::new(format!("{} cannot be written: {error}", to.display()));
    let parent = to.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(fail)?;
    let staged = tempfile::Builder::new()
        .prefix(".building-")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(parent)
        .map_err(fail)?;
    let mut builder = tar::Builder::new(GzEncoder::new(staged, Compression::best()));
    for (name, content) in [(MANIFEST, &tree.manifest.manifest), (FILES, &tree.manifest.files)] {
        let mut header = header(tar::EntryType::Regular, 0o644, content.len() as u64);
        builder.append_data(&mut header, name, content.as_slice()).map_err(fail)?;
    }
    for (entry, kind) in tree.manifest.entries.iter().zip(&tree.kinds) {
        match kind {
            Kind::Directory => {
                let mut header = header(tar::EntryType::Directory, 0o755, 0);
                builder.append_data(&mut header, &entry.path, io::empty()).map_err(fail)?;
            }
            Kind::Link(target) => {
                let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                builder.append_link(&mut header, &entry.path, target).map_err(fail)?;
            }
            Kind::File { is_executable } => {
                let content =
                    windlass_bounds::read_up_to(tree.root.join(&entry.path), LARGEST_ARCHIVE).map_err(fail)?;
                let mode = if *is_executable { 0o755 } else { 0o644 };
                let mut header = header(tar::EntryType::Regular, mode, content.len() as u64);
                builder.append_data(&mut header, &entry.path, content.as_slice()).map_err(fail)?;
            }
        }
    }
    let staged = builder.into_inner().and_then(GzEncoder::finish).map_err(fail)?;
    staged.persist(to).map_err(|error| fail(error.error))?;
    Ok(())
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::galaxy::collection::manifest::Entry;

    /// Unpacks an archive with a file and links, all of which the manifest lists.
    fn unpacked(links: &[(&str, &str)]) -> (tempfile::TempDir, Result<()>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-b-1.0.0.tar.gz");
        let info = serde_json::from_str(r#"{"namespace": "a", "name": "b", "version": "1.0.0"}"#).unwrap();
        let sha256 = |is_file: bool| is_file.then(|| manifest::sha256(b"text"));
        let file = Entry { path: "d/e/file".into(), sha256: sha256(true) };
        let listed =
            links.iter().map(|(name, target)| Entry { path: name.into(), sha256: sha256(*target == "d/e/file") });
        let manifest = Manifest::new(info, [file].into_iter().chain(listed).collect()).unwrap();
        let mut builder = tar::Builder::new(GzEncoder::new(File::create(&path).unwrap(), Compression::fast()));
        for (name, target) in links {
            builder.append_link(&mut header(tar::EntryType::Symlink, 0o777, 0), name, target).unwrap();
        }
        for name in ["d/e/file", "unlisted"] {
            builder.append_data(&mut header(tar::EntryType::Regular, 0o755, 4), name, &b"text"[..]).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap();
        std::fs::create_dir(folder.path().join("to")).unwrap();
        let outcome = unpack(&path, &manifest, &folder.path().join("to"));
        (folder, outcome)
    }

    #[test]
    fn listed_files_are_unpacked_and_no_others() {
        let (folder, outcome) = unpacked(&[("link", "d/e/file")]);
        outcome.unwrap();
        let to = folder.path().join("to");
        assert_eq!(std::fs::read(to.join("link")).unwrap(), b"text");
        assert_eq!(std::fs::metadata(to.join("d/e/file")).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(!to.join("unlisted").exists());
    }

    #[test]
    fn directory_is_not_replaced_by_link_to_file() {
        let (_folder, outcome) = unpacked(&[("directory", "d/e/../e/file")]);
        assert!(outcome.unwrap_err().message().contains("is not the kind of file"));
    }

    #[test]
    fn chain_of_links_that_leaves_collection_is_refused() {
        // Judged by its text alone, each of the links stays inside the collection.
        let (_folder, outcome) = unpacked(&[("d/e/top", "../.."), ("out", "d/e/top/..")]);
        assert!(outcome.unwrap_err().message().contains("leaves the collection"));
    }

    #[test]
    fn file_is_not_written_through_link() {
        let (folder, outcome) = unpacked(&[("d", "/tmp")]);
        outcome.unwrap_err();
        assert!(folder.path().join("to/d/e/file").exists());
        assert!(!folder.path().join("to/d").is_symlink());
    }
}
