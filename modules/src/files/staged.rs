//! Writes files beside their place and moves them there atomically.
//!
//! Opens the directory once, by the rule of [`way`], and works relative to it. Owner, permissions, ACL, attributes and
//! context are set on the open file, never by name. So nobody who may rename in that directory can redirect them to
//! another file.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use super::{
    attributes::Attributes,
    checksum::Hasher,
    context::{context_of, set_context},
    sweep,
    way::{self, Link, Place},
};
use crate::{Failure, Host, process::reason};

/// Initial permission bits of a new file, before the umask.
pub const FRESH_FILE: u32 = 0o666;

/// A file that is being written beside the one to replace. Until [`Staged::commit`] nobody sees a change; without it,
/// no trace remains.
#[derive(Debug)]
pub struct Staged {
    temporary: Place,
    place: Place,
    target: PathBuf,
    file: File,
    moved: bool,
    in_place: bool,
    /// The file that was read to make this one, which inherits its attributes. Users who may rename in the directory
    /// may have replaced it meanwhile, so it stays open.
    pub(crate) edited: Option<File>,
    /// The caller flushes the whole file system later, so a new file is not flushed by itself.
    pub flushed_later: bool,
}

impl Staged {
    /// Begins a file that will replace `target`.
    pub fn beside(target: &Path, attributes: &Attributes) -> Result<Staged, Failure> {
        let directory = directory_of(target);
        match Staged::create(None, target) {
            Ok(staged) => Ok(staged),
            // The directory may be inaccessible although the file can be opened.
            Err(error) if attributes.unsafe_writes && target.exists() => {
                let elsewhere = std::env::temp_dir();
                let mut staged =
                    Staged::create(Some(&elsewhere), target).map_err(|_| unwritable(target, directory, &error))?;
                staged.in_place = true;
                Ok(staged)
            }
            Err(error) => Err(unwritable(target, directory, &error)),
        }
    }

    fn create(elsewhere: Option<&Path>, target: &Path) -> io::Result<Staged> {
        let place = Place::to_write(target, Link::NoFollow)?;
        let beside = match elsewhere {
            Some(directory) => Place::to_write(&directory.join(place.name()), Link::NoFollow)?,
            None => place.sibling(place.name())?,
        };
        let (temporary, file) = sweep::temporary_beside(&beside, 0o600)?;
        let target = target.to_owned();
        Ok(Staged { temporary, place, target, file, moved: false, in_place: false, edited: None, flushed_later: false })
    }

    /// Temporary path of the file.
    pub fn path(&self) -> &Path {
        self.temporary.real()
    }

    /// The open file for writing.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Copies a reader to the file, and returns SHA-1 checksum and size.
    pub fn fill(&mut self, reader: &mut dyn Read, host: &Host) -> Result<(String, u64), Failure> {
        let (sums, size) = self.fill_hashed(reader, vec![Hasher::sha1()], host)?;
        Ok((sums.into_iter().next().unwrap_or_default(), size))
    }

    /// Copies a reader to the file, and returns its checksums and size.
    pub fn fill_hashed(
        &mut self,
        reader: &mut dyn Read,
        mut hashers: Vec<Hasher>,
        host: &Host,
    ) -> Result<(Vec<String>, u64), Failure> {
        let mut buffer = vec![0; 128 << 10];
        let mut size = 0;
        loop {
            host.check_cancelled()?;
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let target = self.target.display();
                    return Err(Failure::new(format!(
                        "The content of {target} could not be read: {}.",
                        reason(&error)
                    )));
                }
            };
            let bytes = buffer.get(..count).unwrap_or_default();
            hashers.iter_mut().for_each(|hasher| hasher.update(bytes));
            size += count as u64;
            self.file.write_all(bytes).map_err(|error| self.write_failure(&error))?;
        }
        self.file.flush().map_err(|error| self.write_failure(&error))?;
        Ok((hashers.into_iter().map(Hasher::finish).collect(), size))
    }

    /// Copies the content to a file in another directory, which has the final name.
    pub(crate) fn copy_into(&mut self, directory: &Path) -> Result<PathBuf, Failure> {
        let path = directory.join(self.place.name());
        self.file
            .rewind()
            .and_then(|()| io::copy(&mut self.file, &mut File::create(&path)?))
            .map_err(|error| Failure::new(format!("{} could not be written: {}.", path.display(), reason(&error))))?;
        Ok(path)
    }

    /// Describes a write error; for a full disk, with the free space.
    pub fn write_failure(&self, error: &io::Error) -> Failure {
        let target = self.target.display();
        let untouched = match space(error, directory_of(self.temporary.real())) {
            space if space.is_empty() => String::new(),
            space => format!("{space} The old file is untouched."),
        };
        Failure::new(format!("{target} could not be written: {}.{untouched}", reason(error)))
    }

    /// Moves the file into place with all its attributes and flushes it, so that it survives a power failure.
    pub fn commit(mut self, attributes: &Attributes) -> Result<(), Failure> {
        let target = self.target.clone();
        let refuse =
            |what: &str, error: &io::Error| Failure::new(format!("{what} {}: {}.", target.display(), reason(error)));
        let now = self.place.sibling(self.place.name()).map_err(|error| refuse("The directory was lost of", &error))?;
        let old = self.edited.take().or_else(|| self.replaced(&now));
        let metadata = old.as_ref().and_then(|old| old.metadata().ok());
        attributes
            .prepare(&self.file, metadata.as_ref(), FRESH_FILE)
            .map_err(|error| refuse("Owner and permissions could not be set for", &error))?;
        if let Some(old) = &old {
            copy_lists(old, &self.file);
        }
        if let Some(context) = old.as_ref().and_then(context_of) {
            // On failure, the policy's default remains, which `restorecon` would set too.
            let _ = set_context(&self.file, &context);
        }
        let flush = !self.flushed_later || now.node().is_some();
        if flush {
            self.file.sync_all().map_err(|error| self.write_failure(&error))?;
        }
        if self.in_place {
            return self.overwrite(attributes);
        }
        if !self.temporary.is_still(&self.file) {
            return Err(Failure::new(format!(
                "{} was not written: somebody replaced the new file in {} while it was being written. See who may \
                 write to that directory.",
                target.display(),
                directory_of(&target).display()
            )));
        }
        match self.temporary.rename_to(&self.place).map_err(|error| (Errno::from_io_error(&error), error)) {
            Ok(()) => {
                self.moved = true;
                // The content is already flushed, and some file systems cannot sync a directory.
                if flush {
                    let _ = self.place.sync_directory();
                }
                // Attributes come last, because an immutable file cannot be renamed.
                attributes.apply_to(&self.file, &target).map(drop)
            }
            Err((Some(Errno::BUSY | Errno::XDEV | Errno::ACCESS | Errno::PERM), _)) if attributes.unsafe_writes => {
                self.overwrite(attributes)
            }
            Err((Some(Errno::BUSY), _)) => Err(Failure::new(format!(
                "{} cannot be replaced because it is a mount point of its own, as in a container. Set unsafe_writes to overwrite it in place.",
                target.display()
            ))),
            Err((_, error)) => Err(refuse("The new file could not be moved to", &error)),
        }
    }

    /// The file whose attributes the new one inherits: the file with its name, or the target of a link with that name.
    fn replaced(&self, now: &Place) -> Option<File> {
        let is_link = now.metadata().ok()?.is_symlink();
        let node = match is_link {
            true => Place::to_write(&self.target, Link::Follow).ok()?.existing().ok()?.try_clone(),
            false => now.existing().ok()?.try_clone(),
        };
        node.ok().filter(|node| node.metadata().is_ok_and(|found| !found.is_dir()))
    }

    fn overwrite(mut self, attributes: &Attributes) -> Result<(), Failure> {
        let copied = (|| {
            let mut target = self.place.sibling(self.place.name())?.open_to_write()?;
            self.file.rewind()?;
            target.set_len(0)?;
            io::copy(&mut self.file, &mut target)?;
            target.sync_all()?;
            Ok(target)
        })();
        let target = copied.map_err(|error| self.write_failure(&error))?;
        attributes.apply_to(&target, &self.target).map(drop)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.moved && self.temporary.is_still(&self.file) {
            let _ = self.temporary.unlink();
        }
    }
}

/// Copies ACL and extended attributes of the old file, as far as the file system supports them. Another owner's file
/// gives nobody rights to this one.
fn copy_lists(from: &File, to: &File) {
    let (Ok(old), Ok(new)) = (from.metadata(), to.metadata()) else { return };
    if old.uid() != new.uid() {
        return;
    }
    let from = way::handle(from);
    let mut names = vec![0; 4096];
    let Ok(length) = rustix::fs::listxattr(&from, &mut names[..]) else { return };
    let names = names.get(..length).unwrap_or_default();
    for name in names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        if !name.starts_with("user.") && name != "system.posix_acl_access" {
            continue;
        }
        let mut value = vec![0; 64 << 10];
        if let Ok(length) = rustix::fs::getxattr(&from, name, &mut value[..]) {
            let value = value.get_mut(..length).unwrap_or_default();
            if !name.starts_with("user.") {
                limit_list(value, new.mode());
            }
            let _ = rustix::fs::fsetxattr(to, name, value, rustix::fs::XattrFlags::empty());
        }
    }
}

/// Sets the entries of an ACL that correspond to permission bits to the values of `bits`, so that the ACL never grants
/// more. The list has the form of the extended attribute (acl(5)).
fn limit_list(list: &mut [u8], bits: u32) {
    const OWNER: u8 = 0x01;
    const MASK: u8 = 0x10;
    const OTHERS: u8 = 0x20;
    // A version of four bytes; then tag, permissions and id of each entry.
    for entry in list.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
        if let [tag @ (OWNER | MASK | OTHERS), 0, permissions, ..] = entry {
            let shift = match *tag {
                OWNER => 6,
                MASK => 3,
                _ => 0,
            };
            *permissions = (bits >> shift & 0o7) as u8;
        }
    }
}

/// The parent directory of a file.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}

/// Sentence about a full file system: its free bytes, or that no file can be added to it. Empty for other errors.
fn space(error: &io::Error, directory: &Path) -> String {
    if !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return String::new();
    }
    let Ok(found) = rustix::fs::statvfs(directory) else { return String::new() };
    let left = match found.f_files > 0 && found.f_favail == 0 {
        true => "no inodes left: it has room for data, but for no further file".to_owned(),
        false => format!("{} bytes free", found.f_bavail.saturating_mul(found.f_frsize)),
    };
    format!(" The filesystem of {} has {left}.", directory.display())
}

fn unwritable(target: &Path, directory: &Path, error: &io::Error) -> Failure {
    let text = if directory.is_dir() {
        format!(
            "Destination {} not writable: no file can be made in {}: {}.{}",
            target.display(),
            directory.display(),
            reason(error),
            space(error, directory)
        )
    } else {
        format!("Destination directory {} does not exist", directory.display())
    };
    Failure::new(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn staged_file_dropped_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a");
        std::fs::write(&target, "old").unwrap();
        let mut staged = Staged::beside(&target, &Attributes::default()).unwrap();
        staged.file().write_all(b"new").unwrap();
        drop(staged);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn replaced_file_keeps_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a");
        std::fs::write(&target, "old").unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o751)).unwrap();
        let mut staged = Staged::beside(&target, &Attributes::default()).unwrap();
        let (sum, size) = staged.fill(&mut &b"abc"[..], &Host::alone()).unwrap();
        assert_eq!((sum.as_str(), size), ("a9993e364706816aba3e25717850c26c9cd0d89d", 3));
        staged.commit(&Attributes::default()).unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "abc");
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o7777, 0o751);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn missing_directory_named_in_failure() {
        let failure = Staged::beside(Path::new("/no/such/place/a"), &Attributes::default()).unwrap_err();
        assert_eq!(failure.message, "Destination directory /no/such/place does not exist");
    }
}
