//! Files that are written beside their place and moved there whole.

use std::{
    fs::{File, Metadata},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use super::{
    attributes::{Attributes, context, set_context},
    checksum::Hasher,
    scratch::random_name,
};
use crate::{Failure, Host, process::reason};

/// The permission bits a new file starts from, before the mask.
pub const FRESH_FILE: u32 = 0o666;

/// A file that is being written beside the one it will replace. Until [`Staged::commit`] nobody sees a change, and without it none remains.
#[derive(Debug)]
pub struct Staged {
    path: PathBuf,
    target: PathBuf,
    file: File,
    moved: bool,
    in_place: bool,
    /// Whoever writes it flushes the whole file system afterwards, so a file that replaces nothing is not flushed by itself.
    pub flushed_later: bool,
}

impl Staged {
    /// Begins a file that will be `target`.
    pub fn beside(target: &Path, attributes: &Attributes) -> Result<Staged, Failure> {
        let directory = directory_of(target);
        match Staged::create(directory, target) {
            Ok(staged) => Ok(staged),
            // The directory may be closed although the file is open to us.
            Err(error) if attributes.unsafe_writes && target.exists() => {
                let elsewhere = std::env::temp_dir();
                let mut staged =
                    Staged::create(&elsewhere, target).map_err(|_| unwritable(target, directory, &error))?;
                staged.in_place = true;
                Ok(staged)
            }
            Err(error) => Err(unwritable(target, directory, &error)),
        }
    }

    fn create(directory: &Path, target: &Path) -> io::Result<Staged> {
        let path = directory.join(format!(".windlass-{}.tmp", random_name()?));
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Staged { path, target: target.to_owned(), file, moved: false, in_place: false, flushed_later: false })
    }

    /// Where the file is for now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for writing.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Writes all that a reader yields, and returns its SHA-1 and size.
    pub fn fill(&mut self, reader: &mut dyn Read, host: &Host) -> Result<(String, u64), Failure> {
        let (sums, size) = self.fill_hashed(reader, vec![Hasher::sha1()], host)?;
        Ok((sums.into_iter().next().unwrap_or_default(), size))
    }

    /// Writes all that a reader yields, and returns its checksums and size.
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

    /// What went wrong while writing; of a full disk, how full.
    fn write_failure(&self, error: &io::Error) -> Failure {
        let directory = directory_of(&self.path);
        let target = self.target.display();
        let free = rustix::fs::statvfs(directory).map(|found| found.f_bavail.saturating_mul(found.f_frsize));
        match (error.kind(), free) {
            (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, Ok(free)) => Failure::new(format!(
                "{target} could not be written: {}. The filesystem of {} has {free} bytes free. The old file is untouched.",
                reason(error),
                directory.display()
            )),
            _ => Failure::new(format!("{target} could not be written: {}.", reason(error))),
        }
    }

    /// Puts the file in its place, with owner and permissions, so that it survives a loss of power.
    pub fn commit(mut self, attributes: &Attributes) -> Result<(), Failure> {
        let target = self.target.clone();
        let old: Option<Metadata> = target.metadata().ok().filter(|old| !old.is_dir());
        let old_context = if old.is_some() { context(&target) } else { None };
        let refuse =
            |what: &str, error: &io::Error| Failure::new(format!("{what} {}: {}.", target.display(), reason(error)));
        if old.is_some() {
            copy_lists(&target, &self.path);
        }
        attributes
            .prepare(&self.file, old.as_ref(), FRESH_FILE)
            .map_err(|error| refuse("Owner and permissions could not be set for", &error))?;
        if let Some(context) = &old_context {
            // Without it the policy's default remains, which `restorecon` would give too.
            let _ = set_context(&self.path, context);
        }
        let flush = !self.flushed_later || old.is_some() || target.is_symlink();
        if flush {
            self.file.sync_all().map_err(|error| self.write_failure(&error))?;
        }
        if self.in_place {
            return self.overwrite();
        }
        match rustix::fs::rename(&self.path, &target) {
            Ok(()) => {
                self.moved = true;
                // The content is safe already; some filesystems cannot sync a directory.
                if flush {
                    let _ = File::open(directory_of(&target)).and_then(|directory| directory.sync_all());
                }
                Ok(())
            }
            Err(Errno::BUSY | Errno::XDEV | Errno::ACCESS | Errno::PERM) if attributes.unsafe_writes => {
                self.overwrite()
            }
            Err(Errno::BUSY) => Err(Failure::new(format!(
                "{} cannot be replaced because it is a mount point of its own, as in a container. Set unsafe_writes to overwrite it in place.",
                target.display()
            ))),
            Err(error) => Err(refuse("The new file could not be moved to", &error.into())),
        }
    }

    fn overwrite(mut self) -> Result<(), Failure> {
        let copied = (|| {
            let mut source = File::open(&self.path)?;
            let mut target = File::options().write(true).truncate(true).open(&self.target)?;
            io::copy(&mut source, &mut target)?;
            target.sync_all()
        })();
        copied.map_err(|error| self.write_failure(&error))?;
        self.file.flush().map_err(|error| self.write_failure(&error))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.moved {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Gives the new file the access control list of the old one, and what users have noted about it. Not every filesystem knows them.
fn copy_lists(from: &Path, to: &Path) {
    let mut names = vec![0; 4096];
    let Ok(length) = rustix::fs::listxattr(from, &mut names[..]) else { return };
    let names = names.get(..length).unwrap_or_default();
    for name in names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        if !name.starts_with("user.") && name != "system.posix_acl_access" {
            continue;
        }
        let mut value = vec![0; 64 << 10];
        if let Ok(length) = rustix::fs::getxattr(from, name, &mut value[..]) {
            let value = value.get(..length).unwrap_or_default();
            let _ = rustix::fs::setxattr(to, name, value, rustix::fs::XattrFlags::empty());
        }
    }
}

/// The directory a file is in.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}

fn unwritable(target: &Path, directory: &Path, error: &io::Error) -> Failure {
    let text = if directory.is_dir() {
        format!(
            "Destination {} not writable: no file can be made in {}: {}.",
            target.display(),
            directory.display(),
            reason(error)
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
    fn an_abandoned_file_leaves_nothing() {
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
    fn a_replaced_file_keeps_its_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a");
        std::fs::write(&target, "old").unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o751)).unwrap();
        let mut staged = Staged::beside(&target, &Attributes::default()).unwrap();
        let (sum, size) = staged.fill(&mut &b"abc"[..], &Host::alone(false, false)).unwrap();
        assert_eq!((sum.as_str(), size), ("a9993e364706816aba3e25717850c26c9cd0d89d", 3));
        staged.commit(&Attributes::default()).unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "abc");
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o7777, 0o751);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let failure = Staged::beside(Path::new("/no/such/place/a"), &Attributes::default()).unwrap_err();
        assert_eq!(failure.message, "Destination directory /no/such/place does not exist");
    }
}
