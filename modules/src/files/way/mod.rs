//! Paths below directories that other users may change.
//!
//! A path is text. Between its check and its use, the owner of a directory in the path can replace a directory or a
//! file with a link. Modules that run as root would then write wherever that user points. So everything that creates,
//! replaces, removes or gives away a file resolves its path here, once, to open descriptors, and works on them.
//!
//! **The rule.** Links of root and of the effective user are followed. A link of any other user, or in a directory of
//! any other user, may lead only to that user's files. Either the user owns the file at its end, or the way to it
//! enters a directory of the user and climbs no higher (`..`) afterwards. Links of two such users never continue each
//! other. So `/srv/app/current`, a link of `app` to a release of `app`, works, and `/home/bob/.ssh`, a link of bob to
//! `/root/.ssh`, is refused with an error. For reading ([`Purpose::Read`]) it is enough that everybody may read the
//! file at the end. Programs ([`Purpose::Run`]) are only reached by directories and links that no other user can
//! change.
//!
//! The resolution first asks the kernel for the whole path without links (`openat2`), which is one call and the usual
//! case. For a path with a link, or an old kernel, it walks one name at a time with `O_NOFOLLOW`. It reads the text of
//! each link from the link's own descriptor. So no step can be replaced between its check and its use.

mod fs;
mod walk;

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata, OpenOptions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, linkat, openat};

use crate::{Failure, process::reason};

pub(crate) use fs::{
    chmod, chown, create_dir, create_dir_all, create_dirs, metadata, open, read, read_text, remove_dir, remove_dir_all,
    remove_file, rename, symlink,
};

/// Intended use of a resolved file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Only read. Any link may lead to files that everybody may read.
    Read,
    /// Create, replace, remove or change.
    Write,
    /// Execute. Only root and the effective user may be able to change the file, and every directory and link on the
    /// way to it. So until it is executed, nobody else can replace it.
    Run,
}

/// Treatment of a symbolic link at the end of a path. Links on the way to the end are always followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// The path stands for the target of the link.
    Follow,
    /// The path stands for the link itself (`O_NOFOLLOW`).
    NoFollow,
}

impl Link {
    /// The treatment that an option such as `follow` requests.
    pub(crate) fn follow_if(follow: bool) -> Link {
        if follow { Link::Follow } else { Link::NoFollow }
    }
}

/// A name in an open directory, and the file it referred to when the path was resolved.
#[derive(Debug)]
pub(crate) struct Place {
    directory: OwnedFd,
    name: OsString,
    /// Opened with `O_PATH`: usable for metadata and attributes, not for reading.
    node: Option<File>,
    real: PathBuf,
}

impl Place {
    /// Resolves a path. The last name need not exist.
    pub(crate) fn of(path: &Path, link: Link, purpose: Purpose) -> io::Result<Place> {
        // The path of a program is always examined part by part.
        match (purpose != Purpose::Run).then(|| walk::without_links(path, link)).flatten() {
            Some(place) => Ok(place),
            None => walk::walk(path, link, purpose),
        }
    }

    /// Resolves a path for writing.
    pub(crate) fn to_write(path: &Path, link: Link) -> io::Result<Place> {
        Place::of(path, link, Purpose::Write)
    }

    /// Another name in the same directory.
    pub(crate) fn sibling(&self, name: &OsStr) -> io::Result<Place> {
        let directory = self.directory.try_clone()?;
        let node = node_at(&directory, name)?;
        Ok(Place { directory, name: name.to_owned(), node, real: self.real.with_file_name(name) })
    }

    /// The path without links.
    pub(crate) fn real(&self) -> &Path {
        &self.real
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Last component of the path.
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// The file that the path leads to, if it exists.
    pub(crate) fn node(&self) -> Option<&File> {
        self.node.as_ref()
    }

    /// Metadata of the file that the path leads to; an error if it does not exist.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.existing()?.metadata()
    }

    /// Closes the file at the end. An open one keeps its file system from being unmounted.
    pub(crate) fn close(&mut self) {
        self.node = None;
    }

    pub(crate) fn existing(&self) -> io::Result<&File> {
        self.node.as_ref().ok_or_else(|| rustix::io::Errno::NOENT.into())
    }

    /// Opens the resolved file for reading. Refuses pipes and devices, because opening them may block.
    pub(crate) fn open(&self) -> io::Result<File> {
        self.open_with(File::options().read(true))
    }

    /// Like [`Place::open`], for reading and writing.
    pub(crate) fn open_to_write(&self) -> io::Result<File> {
        self.open_with(File::options().read(true).write(true))
    }

    fn open_with(&self, options: &mut OpenOptions) -> io::Result<File> {
        let node = self.existing()?;
        let kind = node.metadata()?.file_type();
        if kind.is_symlink() {
            return Err(rustix::io::Errno::LOOP.into());
        }
        if !kind.is_file() && !kind.is_dir() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a file nor a directory"));
        }
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(handle(node))
    }

    /// Creates the file; fails if the name exists, even as a link.
    pub(crate) fn create_new(&self, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.directory, &self.name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Creates the file with a lock (`flock`), taken before the name becomes visible. Some file systems do not support
    /// that.
    pub(crate) fn create_locked(&self, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file: File = openat(&self.directory, ".", flags, Mode::from_raw_mode(mode))?.into();
        flock(&file, FlockOperation::NonBlockingLockShared)?;
        linkat(CWD, handle(&file), &self.directory, &self.name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(file)
    }

    /// Whether the name still refers to this open file.
    pub(crate) fn is_still(&self, file: &File) -> bool {
        let named = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(named), Ok(open)) = (named, fstat(file)) else { return false };
        (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)
    }

    /// Removes the name, which must not be a directory.
    pub(crate) fn unlink(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty())?)
    }

    /// Renames the entry to another place.
    pub(crate) fn rename_to(&self, other: &Place) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.directory, &self.name, &other.directory, &other.name)?)
    }

    /// Flushes the directory, if the file system supports it.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        File::from(openat(&self.directory, ".", flags, Mode::empty())?).sync_all()
    }
}

/// The path without links, for a program that resolves it once more and writes there.
pub(crate) fn checked(path: &Path) -> Result<PathBuf, Failure> {
    Place::to_write(path, Link::Follow)
        .map(|place| place.real().to_owned())
        .map_err(|error| Failure::new(format!("{} cannot be written: {}.", path.display(), reason(&error))))
}

/// Refuses a folder whose path another user can redirect with a link. A program is about to write below the folder, and
/// may create it.
pub(crate) fn check_below(path: &Path) -> Result<(), Failure> {
    path.ancestors().find(|part| part.symlink_metadata().is_ok()).map_or(Ok(()), |part| checked(part).map(drop))
}

/// Path of an open descriptor, which stays valid if the file is renamed.
pub(crate) fn handle(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// Opens an entry of a directory with `O_PATH`, without following a link; `None` if it does not exist.
pub(crate) fn node_at(directory: &impl AsFd, name: &OsStr) -> io::Result<Option<File>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(directory, name, flags, Mode::empty()) {
        Ok(node) => Ok(Some(node.into())),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Changes the owner of an open file, directory or link.
pub(crate) fn give(node: &impl AsFd, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let (uid, gid) = (uid.map(rustix::fs::Uid::from_raw), gid.map(rustix::fs::Gid::from_raw));
    Ok(rustix::fs::chownat(node, c"", uid, gid, AtFlags::EMPTY_PATH)?)
}

/// Whether root or the effective user is the owner.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Whether only root, the effective user and their groups can change a file or the content of a directory.
pub(crate) fn is_ours(found: &Metadata) -> bool {
    let own_group = found.gid() == 0 || found.gid() == rustix::process::getegid().as_raw();
    let writable = if own_group { 0o002 } else { 0o022 };
    is_trusted(found.uid()) && (found.mode() & writable == 0 || found.is_dir() && found.mode() & 0o1000 != 0)
}

#[cfg(test)]
mod tests;
