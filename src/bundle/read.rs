//! Reads bundles. A bundle is hostile until its signature and its hashes have been checked.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use sha2::Digest as _;

use super::manifest::{self, Digest, Encoding, Manifest};
use super::store::failed;
use super::{LARGEST_MANIFEST, LARGEST_SBOM, LARGEST_SIGNATURE};
use crate::error::{Error, Result};

/// A bundle whose manifest has been read and obeys the rules. Its contents have not been read.
pub struct Bundle {
    path: PathBuf,
    manifest: Manifest,
    manifest_bytes: Vec<u8>,
    signature: Option<String>,
    sbom: Vec<u8>,
}

/// Receives the contents of a bundle.
pub trait Visitor {
    /// Returns the writer for a content that has not been checked yet.
    fn begin(&mut self, file: &manifest::File) -> Result<Box<dyn Write + '_>>;
    /// Reports that the content has the size and hash of the manifest.
    fn verified(&mut self, file: &manifest::File) -> Result<()>;
}

/// Checks contents without keeping them.
impl Visitor for () {
    fn begin(&mut self, _: &manifest::File) -> Result<Box<dyn Write + '_>> {
        Ok(Box::new(io::sink()))
    }

    fn verified(&mut self, _: &manifest::File) -> Result<()> {
        Ok(())
    }
}

impl Bundle {
    /// Opens a bundle, and reads everything but its contents.
    pub fn open(path: &Path) -> Result<Bundle> {
        let mut archive = archive(path)?;
        let mut entries = raw(&mut archive).map_err(|error| failed(path, "be read", &error))?;
        let mut next = |limit: u64| -> Result<Option<(String, Vec<u8>)>> {
            let Some(entry) = entries.next() else { return Ok(None) };
            let mut entry = entry.map_err(|error| broken(path, &error.to_string()))?;
            let (name, size) = named(&entry).map_err(|reason| broken(path, &reason))?;
            let limit = if name == "bundle.json.sig" { LARGEST_SIGNATURE } else { limit };
            if size > limit {
                return Err(broken(path, &format!("`{name}` has more than {limit} bytes")));
            }
            let bytes = windlass_bounds::read_from(&mut entry, limit);
            Ok(Some((name, bytes.map_err(|error| broken(path, &error.to_string()))?)))
        };
        let manifest_bytes = match next(LARGEST_MANIFEST)? {
            Some((name, bytes)) if name == "bundle.json" => bytes,
            _ => return Err(broken(path, "its first member is not `bundle.json`")),
        };
        let (mut signature, mut second) = (None, next(LARGEST_SBOM)?);
        if let Some((_, bytes)) = second.take_if(|(name, _)| name == "bundle.json.sig") {
            let text = String::from_utf8(bytes).map_err(|_| broken(path, "`bundle.json.sig` is not text"))?;
            signature = Some(text);
            second = next(LARGEST_SBOM)?;
        }
        let sbom = match second {
            Some((name, bytes)) if name == "sbom.json" => bytes,
            _ => return Err(broken(path, "`sbom.json` does not follow `bundle.json`")),
        };
        let manifest = Manifest::parse(&manifest_bytes)
            .map_err(|error| broken(path, error.message()).maybe_hint(error.advice().map(str::to_owned)))?;
        Ok(Bundle { path: path.to_owned(), manifest, manifest_bytes, signature, sbom })
    }

    /// Path of the bundle.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The bytes that the signature covers.
    pub fn manifest_bytes(&self) -> &[u8] {
        &self.manifest_bytes
    }

    /// SHA-256 of the manifest, by which difference bundles name their base.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest_bytes)
    }

    /// The signature, if the bundle has one.
    pub fn signature(&self) -> Option<&str> {
        self.signature.as_deref()
    }

    /// The list of components. [`Bundle::visit`] checks its hash.
    pub fn sbom(&self) -> &[u8] {
        &self.sbom
    }

    /// Reads all contents. Each must have the size and hash of the manifest, and none may be missing or unknown.
    pub fn visit(&self, visitor: &mut dyn Visitor) -> Result<()> {
        let listed = &self.manifest.sbom;
        if self.sbom.len() as u64 != listed.size || Digest::of(&self.sbom) != listed.sha256 {
            return Err(broken(&self.path, "`sbom.json` has a different hash than the manifest lists"));
        }
        let mut expected = self.manifest.blobs().into_values();
        self.members(&mut |name, size, content| {
            let Some(file) = expected.next() else {
                return Err(broken(&self.path, &format!("`{}` is in no manifest", printable(name))));
            };
            let ending = if file.encoding == Encoding::Zstd { ".zst" } else { "" };
            if name != format!("blobs/sha256/{}{ending}", file.sha256) {
                return Err(broken(&self.path, &format!("the content of `{}` is missing or out of order", file.path)));
            }
            if file.encoding != Encoding::Zstd && size != file.size {
                return Err(broken(
                    &self.path,
                    &format!("`{}` has a different size than the manifest lists", file.path),
                ));
            }
            let found = {
                let mut writer = visitor.begin(file)?;
                match file.encoding {
                    Encoding::Zstd => decompress(content, file.size, &mut writer),
                    _ => copy(content, file.size, &mut writer),
                }
            };
            match found.map_err(|error| broken(&self.path, &format!("`{}`: {error}", file.path)))? {
                digest if digest == file.sha256 => visitor.verified(file),
                _ => Err(broken(&self.path, &format!("`{}` has a different hash than the manifest lists", file.path))),
            }
        })?;
        match expected.next() {
            Some(file) => Err(broken(&self.path, &format!("the content of `{}` is missing", file.path))),
            None => Ok(()),
        }
    }

    /// Passes the members with contents, as they are in the archive.
    pub(super) fn members(&self, visit: &mut dyn FnMut(&str, u64, &mut dyn Read) -> Result<()>) -> Result<()> {
        let mut archive = archive(&self.path)?;
        let mut is_head = true;
        for entry in raw(&mut archive).map_err(|error| failed(&self.path, "be read", &error))? {
            let mut entry = entry.map_err(|error| broken(&self.path, &error.to_string()))?;
            let (name, size) = named(&entry).map_err(|reason| broken(&self.path, &reason))?;
            if !is_head {
                visit(&name, size, &mut entry)?;
            }
            is_head &= name != "sbom.json";
        }
        Ok(())
    }
}

fn archive(path: &Path) -> Result<tar::Archive<BufReader<File>>> {
    let file = File::open(path).map_err(|error| failed(path, "be read", &error))?;
    Ok(tar::Archive::new(BufReader::with_capacity(1 << 18, file)))
}

/// Members without the extensions for long names and sparse files, whose sizes nothing bounds.
fn raw<R: Read>(archive: &mut tar::Archive<R>) -> io::Result<impl Iterator<Item = io::Result<tar::Entry<'_, R>>>> {
    Ok(archive.entries()?.raw(true))
}

/// Name and size of a member, which must be a regular file. The error is a sentence.
fn named<R: Read>(entry: &tar::Entry<'_, R>) -> Result<(String, u64), String> {
    let header = entry.header();
    let size = header.size().map_err(|error| error.to_string())?;
    let name = String::from_utf8_lossy(&header.path_bytes()).into_owned();
    match header.entry_type() {
        tar::EntryType::Regular => Ok((name, size)),
        _ => Err(format!("`{}` is not a regular file", printable(&name))),
    }
}

fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(120).collect()
}

/// Copies a content of at most `size` bytes, and returns its hash.
fn copy(content: &mut dyn Read, size: u64, writer: &mut dyn Write) -> io::Result<Digest> {
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut left = size;
    loop {
        let count = match content.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if count == 0 {
            break;
        }
        left =
            left.checked_sub(count as u64).ok_or_else(|| io::Error::other("it is larger than the manifest lists"))?;
        let bytes = buffer.get(..count).unwrap_or_default();
        hasher.update(bytes);
        writer.write_all(bytes)?;
    }
    if left > 0 {
        return Err(io::Error::other("it is smaller than the manifest lists"));
    }
    writer.flush()?;
    Ok(Digest::of_hasher(hasher))
}

/// Copies a compressed content, which is one frame.
fn decompress(mut content: &mut dyn Read, size: u64, writer: &mut dyn Write) -> io::Result<Digest> {
    let digest = {
        let mut decoder = StreamingDecoder::new(&mut content).map_err(io::Error::other)?;
        copy(&mut decoder, size, writer)?
    };
    match content.read(&mut [0])? {
        0 => Ok(digest),
        _ => Err(io::Error::other("something follows the compressed content")),
    }
}

/// The error of a damaged bundle. The reason may quote the bundle, so it is cut and cleaned.
fn broken(path: &Path, reason: &str) -> Error {
    let reason: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    Error::new(format!("`{}` is not a valid bundle: {reason}", path.display()))
}
