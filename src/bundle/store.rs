//! Writes bundles: takes contents in, compressed where that saves space, and writes the archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ruzstd::encoding::{CompressionLevel, compress};
use sha2::Digest as _;

use super::manifest::{Digest, Encoding};
use super::read::Bundle;
use crate::error::{Error, Result};

/// Beginning of the names of temporary files and folders beside a bundle.
const PREFIX: &str = ".windlass-bundle-";

/// Contents for a bundle, by hash. Temporary files hold what is fetched or compressed.
pub struct Store {
    folder: tempfile::TempDir,
    /// Held while the folder is used, so that [`sweep`] knows what a killed process left.
    _lock: File,
    contents: BTreeMap<Digest, Content>,
    /// Number of contents taken in so far, which names the next temporary file.
    count: usize,
}

struct Content {
    size: u64,
    encoding: Encoding,
    /// The encoded content.
    path: PathBuf,
}

impl Store {
    /// A store with temporary files in this folder, which should be on the bundle's file system.
    pub fn new(folder: &Path) -> Result<Store> {
        sweep(folder);
        let make = || {
            let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(folder)?;
            let lock = File::open(made.path())?;
            lock.lock()?;
            Ok((made, lock))
        };
        let (folder, lock) = make().map_err(|error| failed(folder, "hold temporary files", &error))?;
        Ok(Store { folder, _lock: lock, contents: BTreeMap::new(), count: 0 })
    }

    /// Folder for files that are fetched.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Adds the content of a file, and returns its hash and size. An uncompressed content stays in its file, which
    /// must not change before the bundle is written.
    pub fn add(&mut self, path: &Path) -> Result<(Digest, u64)> {
        let unreadable = |error: io::Error| failed(path, "be read", &error);
        let mut source = File::open(path).map_err(unreadable)?;
        if !source.metadata().map_err(unreadable)?.is_file() {
            return Err(Error::new(format!("`{}` is not a file", path.display())));
        }
        let is_dense = is_compressed(&mut source).map_err(unreadable)?;
        let mut reader = Hashing::new(BufReader::new(source));
        self.count += 1;
        let encoded = self.folder.path().join(format!("{}.zst", self.count));
        if is_dense {
            io::copy(&mut reader, &mut io::sink()).map_err(unreadable)?;
        } else {
            let target = File::create(&encoded).map_err(|error| failed(&encoded, "be written", &error))?;
            let mut writer = Caught { inner: BufWriter::new(target), error: None };
            compress(&mut reader, &mut writer, CompressionLevel::Fastest);
            writer.finish().map_err(|error| failed(&encoded, "be written", &error))?;
        }
        let (digest, size) = reader.finish().map_err(unreadable)?;
        let saved = |length: u64| length < size - size / 50;
        let content = match std::fs::metadata(&encoded) {
            Ok(found) if !is_dense && saved(found.len()) => Content { size, encoding: Encoding::Zstd, path: encoded },
            _ => Content { size, encoding: Encoding::Identity, path: path.to_owned() },
        };
        self.contents.entry(digest.clone()).or_insert(content);
        Ok((digest, size))
    }

    /// Leaves out a content that the base has.
    pub(super) fn remove(&mut self, digest: &Digest) {
        self.contents.remove(digest);
    }

    /// Encoding of a content, if the store has it.
    pub(super) fn encoding(&self, digest: &Digest) -> Option<Encoding> {
        self.contents.get(digest).map(|content| content.encoding)
    }

    /// Writes the archive. A failure leaves an existing file unchanged.
    pub fn write(&self, to: &Path, manifest: &[u8], signature: Option<&str>, sbom: &[u8]) -> Result<()> {
        replace(to, |archive| {
            head(archive, manifest, signature, sbom).map_err(|error| failed(to, "be written", &error))?;
            for (digest, content) in &self.contents {
                let unreadable = |error: io::Error| failed(&content.path, "be read", &error);
                let source = File::open(&content.path).map_err(unreadable)?;
                let length = source.metadata().map_err(unreadable)?.len();
                let mut reader = Hashing::new(BufReader::new(source).take(length));
                let (ending, is_same): (_, fn(&Digest, &Digest) -> bool) = match content.encoding {
                    Encoding::Zstd => (".zst", |_, _| true),
                    // The file is not ours and may have changed since it was hashed.
                    _ => ("", |before, after| before == after),
                };
                member(archive, &format!("blobs/sha256/{digest}{ending}"), length, &mut reader)
                    .map_err(|error| failed(to, "be written", &error))?;
                let (now, _) = reader.finish().map_err(unreadable)?;
                if !is_same(digest, &now) || (ending.is_empty() && length != content.size) {
                    let message = format!("`{}` changed while the bundle was being created", content.path.display());
                    return Err(Error::new(message).hint("create the bundle again"));
                }
            }
            Ok(())
        })
    }
}

/// Writes a bundle again with another signature.
pub fn rewrite(bundle: &Bundle, to: &Path, signature: &str) -> Result<()> {
    replace(to, |archive| {
        let unwritten = |error: io::Error| failed(to, "be written", &error);
        head(archive, bundle.manifest_bytes(), Some(signature), bundle.sbom()).map_err(unwritten)?;
        bundle.members(&mut |name, size, content| member(archive, name, size, content).map_err(unwritten))
    })
}

/// Removes temporary files and folders of this user whose process was killed before it could. They take the space of a
/// whole cluster's files.
fn sweep(folder: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else { continue };
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) && found.uid() == own;
        let kind = found.file_type();
        let is_temporary = is_ours && (kind.is_dir() || kind.is_file());
        if !is_temporary || !File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            continue;
        }
        // Another process may remove it at the same time.
        let _ = match kind.is_dir() {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
    }
}

type Archive<'a> = tar::Builder<BufWriter<&'a mut File>>;

/// Writes an archive beside the target, and renames it when it is complete.
fn replace(to: &Path, write: impl FnOnce(&mut Archive<'_>) -> Result<()>) -> Result<()> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unwritten = |error: io::Error| failed(to, "be written", &error);
    let mut file = tempfile::Builder::new().prefix(PREFIX).tempfile_in(folder).map_err(unwritten)?;
    file.as_file().lock().map_err(unwritten)?;
    let mut archive = tar::Builder::new(BufWriter::new(file.as_file_mut()));
    write(&mut archive)?;
    archive.into_inner().and_then(|mut writer| writer.flush()).map_err(unwritten)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode).and_then(|()| file.as_file().sync_all()).map_err(unwritten)?;
    file.persist(to).map_err(|error| unwritten(error.error))?;
    Ok(())
}

fn head(archive: &mut Archive<'_>, manifest: &[u8], signature: Option<&str>, sbom: &[u8]) -> io::Result<()> {
    member(archive, "bundle.json", manifest.len() as u64, &mut &*manifest)?;
    if let Some(signature) = signature {
        member(archive, "bundle.json.sig", signature.len() as u64, &mut signature.as_bytes())?;
    }
    member(archive, "sbom.json", sbom.len() as u64, &mut &*sbom)
}

/// A member whose header depends on its name and size only.
pub(super) fn member<W: Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    size: u64,
    content: &mut dyn Read,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    archive.append_data(&mut header, name, content)
}

/// Whether a file begins like gzip, zstd, xz or bzip2. Leaves the file at its beginning.
fn is_compressed(file: &mut File) -> io::Result<bool> {
    let mut start = Vec::new();
    Read::by_ref(file).take(6).read_to_end(&mut start)?;
    file.rewind()?;
    let beginnings: [&[u8]; 4] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"];
    Ok(beginnings.iter().any(|beginning| start.starts_with(beginning)))
}

/// Hashes and counts everything that is read. An error ends the stream, because the compressor cannot handle one.
pub(crate) struct Hashing<R> {
    inner: R,
    hasher: sha2::Sha256,
    size: u64,
    error: Option<io::Error>,
}

impl<R: Read> Hashing<R> {
    pub(crate) fn new(inner: R) -> Hashing<R> {
        Hashing { inner, hasher: sha2::Sha256::new(), size: 0, error: None }
    }

    /// Hash and size of everything that was read.
    pub(crate) fn finish(self) -> io::Result<(Digest, u64)> {
        match self.error {
            Some(error) => Err(error),
            None => Ok((Digest::of_hasher(self.hasher), self.size)),
        }
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = loop {
            match self.inner.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.error = Some(error);
                    return Ok(0);
                }
                Ok(count) => break count,
            }
        };
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        self.size += count as u64;
        Ok(count)
    }
}

/// Keeps the first error of a writer for later, because the compressor cannot handle one.
struct Caught<W> {
    inner: W,
    error: Option<io::Error>,
}

impl<W: Write> Caught<W> {
    fn finish(mut self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.inner.flush(),
        }
    }
}

impl<W: Write> Write for Caught<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.error.is_none() {
            self.error = self.inner.write_all(bytes).err();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The error of a file.
pub(super) fn failed(path: &Path, what: &str, error: &io::Error) -> Error {
    Error::new(format!("`{}` cannot {what}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_changed_is_refused_until_it_is_taken_in_again() {
        let folder = tempfile::tempdir().unwrap();
        let (source, archive) = (folder.path().join("source"), folder.path().join("bundle"));
        std::fs::write(&source, "first").unwrap();
        let mut store = Store::new(folder.path()).unwrap();
        store.add(&source).unwrap();
        std::fs::write(&source, "other").unwrap();
        let refused = store.write(&archive, b"{}", None, b"{}").unwrap_err().to_string();
        assert!(refused.contains("changed while the bundle was being created"), "{refused}");
        assert!(!archive.exists());
        let mut again = Store::new(folder.path()).unwrap();
        again.add(&source).unwrap();
        again.write(&archive, b"{}", None, b"{}").unwrap();
    }
}
