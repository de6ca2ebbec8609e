//! The place of a new clone. git receives a path that no other user can redirect.

use std::{
    fs::{File, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Mode, StatxFlags, XattrFlags};

use crate::{
    Failure,
    files::{
        context::{context_of, set_context},
        scratch::Scratch,
        sweep,
        way::{self, Link, Place, handle},
    },
};

/// Permission bit of directories whose group new files inherit.
const SET_GROUP: u32 = 0o2000;

/// Directory of a new clone.
///
/// `git clone` addresses every file by an absolute path. Whoever may rename a directory in this path could redirect it
/// to another repository meanwhile. So below directories of other users, git clones into a private directory on the
/// same file system, and the files move from there by open descriptors.
pub(super) struct Target {
    dest: PathBuf,
    place: Place,
    private: Option<Scratch>,
}

impl Target {
    /// Creates missing parents of the directory. A clone that is not `movable` contains its own path.
    pub(super) fn of(dest: &Path, movable: bool) -> Result<Target, Failure> {
        let parent = dest.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("/"));
        way::create_dir_all(parent).map_err(|error| {
            Failure::new(format!("{} could not be made: {}.", parent.display(), crate::process::reason(&error)))
        })?;
        let place = Place::to_write(dest, Link::Follow).map_err(|error| super::unusable(dest, &error))?;
        let private = if movable { private(place.real()) } else { None };
        Ok(Target { dest: dest.to_owned(), place, private })
    }

    /// The directory that contains the clone.
    pub(super) fn parent(&self) -> PathBuf {
        handle(&self.place.directory())
    }

    /// Path to clone to.
    pub(super) fn path(&self) -> PathBuf {
        match &self.private {
            Some(private) => private.path().join("clone"),
            None => self.place.real().to_owned(),
        }
    }

    /// Moves a finished clone to its place.
    pub(super) fn place(self, mask: Option<u32>) -> Result<(), Failure> {
        let Some(private) = &self.private else { return Ok(()) };
        let made = self.place.node().is_none();
        let moved = self.directory(mask).and_then(|directory| {
            for entry in std::fs::read_dir(private.path().join("clone"))? {
                let entry = entry?;
                rustix::fs::renameat(CWD, entry.path(), &directory, entry.file_name())?;
            }
            Ok(())
        });
        moved.map_err(|error| {
            if made {
                // Only an empty directory is removed.
                let _ = rustix::fs::unlinkat(self.place.directory(), self.place.name(), AtFlags::REMOVEDIR);
            }
            super::unusable(&self.dest, &error)
        })
    }

    /// The directory of the clone, which is created if it does not exist. It must be empty.
    fn directory(&self, mask: Option<u32>) -> io::Result<File> {
        let directory = match self.place.node() {
            Some(_) => self.place.open()?,
            None => {
                let bits = 0o777 & !mask.unwrap_or(0);
                let mode = Mode::from_raw_mode(bits);
                rustix::fs::mkdirat(self.place.directory(), self.place.name(), mode)?;
                let made = self.place.sibling(self.place.name())?.open()?;
                if made.metadata()?.uid() != rustix::process::geteuid().as_raw() {
                    return Err(io::Error::other("somebody replaced the new directory"));
                }
                if mask.is_some() {
                    let inherited = made.metadata()?.mode() & SET_GROUP;
                    std::fs::set_permissions(handle(&made), Permissions::from_mode(bits | inherited))?;
                }
                made
            }
        };
        match std::fs::read_dir(handle(&directory))?.next() {
            None => Ok(directory),
            Some(_) => Err(rustix::io::Errno::NOTEMPTY.into()),
        }
    }
}

/// A private directory on the file system of the clone, if others may rename a directory in its path and one can be
/// made.
fn private(dest: &Path) -> Option<Scratch> {
    let parent = dest.parent()?;
    let ours = |path: &Path| way::metadata(path).is_ok_and(|found| way::is_ours(&found));
    let safe = |path: &Path| path.ancestors().all(ours);
    if safe(parent) && (ours(dest) || dest.symlink_metadata().is_err()) {
        return None;
    }
    let above = parent.ancestors().find(|path| safe(path))?;
    let like = way::open(dest).or_else(|_| way::open(parent)).ok()?;
    if mount(&way::open(above).ok()?)? != mount(&like)? {
        return None;
    }
    sweep::sweep_in(above, sweep::YOUNG);
    let private = Scratch::inside(above).ok()?;
    inherit(&like, &way::open(private.path()).ok()?).ok()?;
    Some(private)
}

/// Device and mount of a directory. Files cannot move between mounts, even of one file system.
fn mount(directory: &File) -> Option<(u32, u32, u64)> {
    let asked = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let found = rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, asked).ok()?;
    Some((found.stx_dev_major, found.stx_dev_minor, found.stx_mnt_id))
}

/// Lets new files in a directory inherit what they would in another one: group, default ACL and SELinux type.
fn inherit(from: &File, to: &File) -> io::Result<()> {
    let found = from.metadata()?;
    if found.mode() & SET_GROUP != 0 {
        way::give(to, None, Some(found.gid()))?;
        std::fs::set_permissions(handle(to), Permissions::from_mode(SET_GROUP | 0o700))?;
    }
    let mut list = vec![0; 64 << 10];
    let name = "system.posix_acl_default";
    if let Ok(length) = rustix::fs::getxattr(handle(from), name, &mut list[..]) {
        let list = list.get(..length).unwrap_or_default();
        rustix::fs::setxattr(handle(to), name, list, XattrFlags::empty())?;
    }
    context_of(from).map_or(Ok(()), |context| set_context(to, &context))
}
