//! Unpacks a bundle into the folders that the roles read: `files`, `images` and `windlass`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::manifest::{self, Digest, Kind, Manifest};
use super::read::{Bundle, Visitor};
use super::store::{Hashing, failed};
use crate::error::{Error, Result};

/// Folders of an unpacked bundle, as variables of the roles.
#[derive(Debug)]
pub struct Unpacked {
    /// Whether any file was written.
    pub changed: bool,
    /// The variables `download_from`, `files_dir`, `images_dir` and `image_archives`.
    pub variables: Value,
}

/// Unpacks a bundle below a folder. Files that have their hash already are kept.
///
/// `bases` are the bundles with the contents that a difference bundle leaves out. Files that are in the folder already
/// are not read from them, so a difference unpacked over its base needs none. The caller has checked the signatures.
pub fn unpack(bundle: &Bundle, bases: &[Bundle], folder: &Path) -> Result<Unpacked> {
    let mut wanted: BTreeMap<&Digest, Vec<&manifest::File>> = BTreeMap::new();
    for file in &bundle.manifest().files {
        if !is_complete(&folder.join(&file.path), file)? {
            wanted.entry(&file.sha256).or_default().push(file);
        }
    }
    let changed = !wanted.is_empty();
    let mut target = Target { folder, wanted, writing: None };
    // The newest one first: it has most of the files, and its hash is signed.
    for source in std::iter::once(bundle).chain(bases.iter().rev()) {
        source.visit(&mut target)?;
        if target.wanted.is_empty() {
            break;
        }
    }
    if let Some(file) = target.wanted.values().flatten().next() {
        let base = bundle.manifest().base.as_ref();
        let base = base.map(|base| format!("`{}` (manifest {})", base.name, base.manifest)).unwrap_or_default();
        return Err(Error::new(format!("`{}` is only in the base of the bundle, {base}", file.path))
            .hint("name the base with --base, or unpack it into the same folder first"));
    }
    Ok(Unpacked { changed, variables: variables(bundle.manifest(), folder) })
}

/// Values for the roles, which take the files from the control machine.
fn variables(manifest: &Manifest, folder: &Path) -> Value {
    let images = manifest.files.iter().filter(|file| file.kind == Kind::Image);
    let archive = |file: &manifest::File| {
        let name = file.path.strip_prefix("images/").unwrap_or(&file.path);
        json!({"file": name, "names": file.images, "sha256": file.sha256})
    };
    json!({
        "download_from": "controller",
        "files_dir": folder.join("files"),
        "images_dir": folder.join("images"),
        "images_url": "",
        "image_archives": images.map(archive).collect::<Vec<_>>(),
    })
}

/// Whether the file has its content. Anything other than a file in its place is an error.
fn is_complete(path: &Path, file: &manifest::File) -> Result<bool> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(error) => return Err(failed(path, "be read", &error)),
    };
    if !found.is_file() {
        return Err(Error::new(format!("`{}` exists and is not a file", path.display())).hint("remove it"));
    }
    Ok(found.len() == file.size && digest(path).map_err(|error| failed(path, "be read", &error))? == file.sha256)
}

fn digest(path: &Path) -> io::Result<Digest> {
    let mut reader = Hashing::new(File::open(path)?);
    io::copy(&mut reader, &mut io::sink())?;
    reader.finish().map(|(digest, _)| digest)
}

/// Writes the wanted contents, each to a temporary file that is renamed once its hash is checked.
struct Target<'a> {
    folder: &'a Path,
    wanted: BTreeMap<&'a Digest, Vec<&'a manifest::File>>,
    writing: Option<tempfile::NamedTempFile>,
}

impl Visitor for Target<'_> {
    fn begin(&mut self, file: &manifest::File) -> Result<Box<dyn Write + '_>> {
        self.writing = None;
        if !self.wanted.contains_key(&file.sha256) {
            return Ok(Box::new(io::sink()));
        }
        let made = std::fs::create_dir_all(self.folder)
            .and_then(|()| tempfile::Builder::new().prefix(".windlass-").tempfile_in(self.folder));
        let made = made.map_err(|error| failed(self.folder, "be written", &error))?;
        Ok(Box::new(io::BufWriter::new(self.writing.insert(made).as_file_mut())))
    }

    fn verified(&mut self, file: &manifest::File) -> Result<()> {
        let (Some(written), Some(files)) = (self.writing.take(), self.wanted.remove(&file.sha256)) else {
            return Ok(());
        };
        let Some((last, others)) = files.split_last() else { return Ok(()) };
        for other in others {
            let path = self.prepare(other)?;
            let copied = tempfile::NamedTempFile::new_in(self.folder).and_then(|copy| {
                std::fs::copy(written.path(), copy.path())?;
                place(copy, &path, other.kind)
            });
            copied.map_err(|error| failed(&path, "be written", &error))?;
        }
        let path = self.prepare(last)?;
        place(written, &path, last.kind).map_err(|error| failed(&path, "be written", &error))
    }
}

impl Target<'_> {
    /// Makes the folders of a file. A link among them could lead elsewhere, so it is an error.
    fn prepare(&self, file: &manifest::File) -> Result<PathBuf> {
        let mut path = self.folder.to_owned();
        let mut parts = file.path.split('/').peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            if parts.peek().is_none() {
                break;
            }
            match path.symlink_metadata() {
                Ok(found) if found.is_dir() => {}
                Ok(_) => {
                    let message = format!("`{}` exists and is not a directory", path.display());
                    return Err(Error::new(message).hint("remove it"));
                }
                Err(_) => std::fs::create_dir(&path).map_err(|error| failed(&path, "be made", &error))?,
            }
        }
        Ok(path)
    }
}

fn place(file: tempfile::NamedTempFile, path: &Path, kind: Kind) -> io::Result<()> {
    let mode = if kind == Kind::Windlass { 0o755 } else { 0o644 };
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.persist(path).map(drop).map_err(|error| error.error)
}
