//! The project on its way to the pod: an archive, and files that only the command line names.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// Maximum size of a packed project in bytes: Secrets live in etcd, which has 2 GiB for everything by default.
const PACKED: usize = 8 << 20;
/// Maximum size of an unpacked project in bytes.
const UNPACKED: u64 = 256 << 20;
/// Maximum number of entries of a project.
const ENTRIES: usize = 100_000;
/// Size of a part of the archive, in bytes. The server admits 1 MiB for a Secret.
const CHUNK: usize = 768 << 10;
/// Folders of version control, which no run reads.
const LEFT_OUT: [&str; 3] = [".git", ".hg", ".svn"];

/// Placeholder in the command line for the folder of the inputs, which only the pod knows.
pub(crate) const PLACE: &str = "/windlass-engine-inputs/";
/// Name of the input that becomes `~/.ssh/known_hosts`.
pub(crate) const KNOWN_HOSTS: &str = "known_hosts";

/// A file for the pod from outside the project, such as a private key.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// A project that is ready to be sent.
#[derive(Debug)]
pub(super) struct Packed {
    /// Parts of the archive.
    pub(super) chunks: Vec<Vec<u8>>,
    pub(super) inputs: BTreeMap<String, Vec<u8>>,
}

impl Packed {
    /// Packs a folder. Owners and times are left out, so equal projects have equal archives.
    pub(super) fn of(folder: &Path, inputs: Vec<Input>) -> Result<Packed> {
        let mut files = Vec::new();
        collect(folder, Path::new(""), &mut files)?;
        files.sort();
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        let mut size = 0;
        for name in &files {
            let path = folder.join(name);
            let fail = |error: std::io::Error| Error::new(format!("{} cannot be packed: {error}", path.display()));
            let metadata = fs::symlink_metadata(&path).map_err(fail)?;
            let mut header = tar::Header::new_gnu();
            header.set_mtime(0);
            header.set_mode(if metadata.permissions().mode() & 0o111 == 0 { 0o600 } else { 0o700 });
            if metadata.is_symlink() {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                archive.append_link(&mut header, name, fs::read_link(&path).map_err(fail)?).map_err(fail)?;
                continue;
            }
            size += metadata.len();
            if size > UNPACKED {
                return Err(too_large(&format!("{} MiB of files", UNPACKED >> 20)));
            }
            let bytes = windlass_bounds::read_up_to(&path, UNPACKED).map_err(fail)?;
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, name, bytes.as_slice()).map_err(fail)?;
        }
        let fail = |error: std::io::Error| Error::new(format!("the project cannot be packed: {error}"));
        let archive = archive.into_inner().map_err(fail)?.finish().map_err(fail)?;
        if archive.len() > PACKED {
            return Err(too_large(&format!("{} MiB when packed", PACKED >> 20)));
        }
        let chunks = archive.chunks(CHUNK).map(<[u8]>::to_vec).collect();
        Ok(Packed { chunks, inputs: inputs.into_iter().map(|input| (input.name, input.bytes)).collect() })
    }

    /// SHA-256 of the archive.
    pub(super) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        self.chunks.iter().for_each(|chunk| hash.update(chunk));
        hex::encode(hash.finalize())
    }
}

fn too_large(limit: &str) -> Error {
    Error::new(format!("the project is too large for --engine kubernetes: it has more than {limit}"))
        .hint("run from a folder with the playbooks, roles and inventory alone")
}

/// Collects the files and links below a folder.
fn collect(folder: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let fail = |error: std::io::Error| Error::new(format!("{} cannot be read: {error}", folder.join(below).display()));
    for entry in fs::read_dir(folder.join(below)).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let (name, kind) = (below.join(entry.file_name()), entry.file_type().map_err(fail)?);
        if kind.is_dir() {
            if !LEFT_OUT.iter().any(|left| entry.file_name() == *left) {
                collect(folder, &name, files)?;
            }
        } else if kind.is_file() || kind.is_symlink() {
            files.push(name);
        }
        if files.len() > ENTRIES {
            return Err(too_large(&format!("{ENTRIES} files")));
        }
    }
    Ok(())
}

/// Unpacks the mounted project, and copies the inputs to where the run finds them.
pub(super) fn unpack(mounted: &Path, project: &Path, inputs: &Path, home: &Path) -> Result<()> {
    let fail = |error: std::io::Error| Error::new(format!("the project cannot be unpacked: {error}"));
    for folder in [project, inputs, &home.join(".ssh")] {
        fs::create_dir_all(folder).map_err(fail)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(fail)?;
    }
    let mut archive = Vec::new();
    for chunk in sorted(&mounted.join("project")).map_err(fail)? {
        archive.append(&mut windlass_bounds::read_up_to(chunk, CHUNK as u64).map_err(fail)?);
    }
    let unpacked = GzDecoder::new(archive.as_slice()).take(UNPACKED + (ENTRIES as u64 + 2) * 1024);
    let mut archive = tar::Archive::new(unpacked);
    archive.set_preserve_permissions(true);
    for entry in archive.entries().map_err(fail)? {
        let mut entry = entry.map_err(fail)?;
        if !entry.unpack_in(project).map_err(fail)? {
            return Err(Error::new("the project cannot be unpacked: it leads out of its folder"));
        }
    }
    for source in sorted(mounted).map_err(fail)?.into_iter().filter(|path| path.is_file()) {
        let name = source.file_name().unwrap_or_default();
        let target = if name == KNOWN_HOSTS { home.join(".ssh").join(KNOWN_HOSTS) } else { inputs.join(name) };
        let bytes = windlass_bounds::read_up_to(&source, 1 << 20).map_err(fail)?;
        // ssh refuses keys that others may read.
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(target);
        file.and_then(|mut file| file.write_all(&bytes)).map_err(fail)?;
    }
    Ok(())
}

/// Entries of a mounted volume, without those that Kubernetes keeps for itself.
fn sorted(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_own = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".."));
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    entries.retain(|path| !is_own(path));
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_arrives_with_programs_links_and_private_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["project/roles/web", "project/.git", "mounted/project"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("project/site.yml"), "- hosts: all\n").unwrap();
        fs::write(at("project/.git/config"), "x").unwrap();
        fs::write(at("project/hosts.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at("project/hosts.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("../site.yml", at("project/roles/link.yml")).unwrap();
        let input = |name: &str, bytes: &[u8]| Input { name: name.to_owned(), bytes: bytes.to_vec() };
        let packed = Packed::of(&at("project"), vec![input("0", b"key"), input(KNOWN_HOSTS, b"host key\n")]).unwrap();
        assert_eq!(packed.digest(), Packed::of(&at("project"), Vec::new()).unwrap().digest());
        for (index, chunk) in packed.chunks.iter().enumerate() {
            fs::write(at("mounted/project").join(format!("{index:03}")), chunk).unwrap();
        }
        packed.inputs.iter().for_each(|(name, bytes)| fs::write(at("mounted").join(name), bytes).unwrap());
        unpack(&at("mounted"), &at("there"), &at("inputs"), &at("home")).unwrap();
        assert_eq!(fs::read_to_string(at("there/roles/link.yml")).unwrap(), "- hosts: all\n");
        assert!(!at("there/.git").exists());
        assert_eq!(fs::metadata(at("there/hosts.sh")).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(at("inputs/0")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(at("home/.ssh/known_hosts")).unwrap(), "host key\n");
    }
}
