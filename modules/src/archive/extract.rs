//! Writes the members of an archive to the host. Neither a link of the archive nor another user's can redirect a write.

use std::{
    collections::HashMap,
    fs::{File, FileTimes, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{PermissionsExt, fchown},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{AtFlags, linkat, mkdirat, symlinkat};

use super::{
    links,
    member::{Member, MemberKind},
    unarchive::Task,
};
use crate::{
    Failure, Host,
    files::{
        mode::masked,
        scratch::random_name,
        way::{self, Link, Place},
    },
    process::reason,
};

/// Writes members to their places, each one atomically.
///
/// Resolves every path by the rule of [`way`] and works relative to the opened directory. Neither a link in the archive
/// nor one planted by another user meanwhile can redirect a member.
pub(super) struct Extraction<'a> {
    task: &'a Task,
    host: &'a Host,
    /// The destination with all links resolved.
    real_dest: PathBuf,
    /// Checked links of the archive; writes through them never leave the destination.
    links: &'a HashMap<PathBuf, PathBuf>,
    /// Directories, whose owners, permissions and times are set last.
    directories: Vec<Member>,
}

impl<'a> Extraction<'a> {
    /// Begins the extraction of an archive whose links were checked.
    pub(super) fn new(
        task: &'a Task,
        links: &'a HashMap<PathBuf, PathBuf>,
        host: &'a Host,
    ) -> Result<Extraction<'a>, Failure> {
        let real_dest = links::real(&task.dest)?;
        Ok(Extraction { task, host, real_dest, links, directories: Vec::new() })
    }

    /// Writes one member to its place.
    pub(super) fn place(&mut self, member: Member, content: &mut dyn Read) -> Result<(), Failure> {
        self.host.check_cancelled()?;
        let shown = self.task.dest.join(&member.path);
        let failed =
            |error: io::Error| Failure::new(format!("{} could not be unpacked: {}.", shown.display(), reason(&error)));
        self.make_parents(&member.path)?;
        match &member.kind {
            MemberKind::Directory => {
                self.make_directory(&member.path)?;
                self.directories.push(member);
                Ok(())
            }
            MemberKind::File(size) => self.file(&member, *size, content),
            MemberKind::Symlink(target) => {
                if self.links.get(&member.path) != Some(target) {
                    return Err(failed(io::Error::other("the archive was changed while it was unpacked")));
                }
                self.by_rename(&member.path, |temporary| {
                    symlinkat(target, temporary.directory(), temporary.name())?;
                    match way::node_at(&temporary.directory(), temporary.name())? {
                        Some(link) if link.metadata()?.is_symlink() => own(&member, &link),
                        _ => Ok(()),
                    }
                })
            }
            MemberKind::HardLink(target) => {
                let source = self.resolve(target, Link::NoFollow)?;
                self.by_rename(&member.path, |temporary| {
                    let (from, to) = (source.directory(), temporary.directory());
                    Ok(linkat(from, source.name(), to, temporary.name(), AtFlags::empty())?)
                })
            }
        }
    }

    /// Applies the deferred attributes of directories, and syncs to disk.
    pub(super) fn finish(self) -> Result<(), Failure> {
        for member in self.directories.iter().rev() {
            let place = self.resolve(&member.path, Link::Follow)?;
            let set = || {
                let directory = place.open()?;
                own(member, &directory)?;
                let bits = member.mode.unwrap_or_else(|| masked(0o777));
                directory.set_permissions(Permissions::from_mode(bits))?;
                self.time(member).map_or(Ok(()), |times| directory.set_times(times))
            };
            set().map_err(|error: io::Error| {
                let path = self.task.dest.join(&member.path);
                Failure::new(format!("{} could not be given its permissions: {}.", path.display(), reason(&error)))
            })?;
        }
        // Waits for the disk once instead of once per file.
        let synced = way::open(&self.real_dest).and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
        synced.map_err(|error| {
            Failure::new(format!("{} could not be written: {}.", self.real_dest.display(), reason(&error)))
        })
    }

    /// Resolves a path of the archive. Fails if a link of the archive leads it out of the destination.
    fn resolve(&self, inside: &Path, link: Link) -> Result<Place, Failure> {
        let path = self.real_dest.join(inside);
        let shown = || self.task.dest.join(inside).display().to_string();
        let place = Place::to_write(&path, link)
            .map_err(|error| Failure::new(format!("{} could not be unpacked: {}.", shown(), reason(&error))))?;
        let mut way = inside.ancestors().skip(usize::from(link == Link::NoFollow));
        if way.any(|step| self.links.contains_key(step)) && !place.real().starts_with(&self.real_dest) {
            return Err(Failure::new(format!(
                "The archive would write {} through a link of its own, out of the destination.",
                shown()
            )));
        }
        Ok(place)
    }

    fn make_parents(&self, inside: &Path) -> Result<(), Failure> {
        let parent = inside.parent().unwrap_or(Path::new(""));
        if self.real_dest.join(parent).is_dir() {
            return Ok(());
        }
        // Resolves each component, so that nothing is created behind an unchecked link.
        let mut step = PathBuf::new();
        for part in parent.components() {
            step.push(part);
            self.make_directory(&step)?;
        }
        Ok(())
    }

    fn make_directory(&self, inside: &Path) -> Result<(), Failure> {
        let make = |place: Place| {
            if place.node().is_some() {
                place.unlink()?;
            }
            Ok(mkdirat(place.directory(), place.name(), rustix::fs::Mode::from_raw_mode(0o777))?)
        };
        if self.real_dest.join(inside).is_dir() {
            return self.resolve(inside, Link::Follow).map(drop);
        }
        make(self.resolve(inside, Link::NoFollow)?).map_err(|error: io::Error| {
            let shown = self.task.dest.join(inside);
            Failure::new(format!("The directory {} could not be made: {}.", shown.display(), reason(&error)))
        })
    }

    fn file(&self, member: &Member, size: u64, content: &mut dyn Read) -> Result<(), Failure> {
        self.by_rename(&member.path, |temporary| {
            let mut file = temporary.create_new(0o600)?;
            let written = self.copy(content, &mut file)?;
            if written != size {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends in the middle of it"));
            }
            own(member, &file)?;
            file.set_permissions(Permissions::from_mode(member.mode.unwrap_or_else(|| masked(0o666))))?;
            self.time(member).map_or(Ok(()), |times| file.set_times(times))
        })
    }

    fn copy(&self, content: &mut dyn Read, file: &mut File) -> io::Result<u64> {
        let mut buffer = vec![0; 128 << 10];
        let mut written = 0;
        loop {
            if self.host.cancelled() {
                return Err(io::Error::other("the run was cancelled"));
            }
            match content.read(&mut buffer)? {
                0 => return Ok(written),
                count => {
                    file.write_all(buffer.get(..count).unwrap_or_default())?;
                    written += count as u64;
                }
            }
        }
    }

    /// Creates a temporary entry and renames it into place.
    fn by_rename(&self, inside: &Path, make: impl FnOnce(&Place) -> io::Result<()>) -> Result<(), Failure> {
        let place = self.resolve(inside, Link::NoFollow)?;
        let moved = || {
            if place.node().map(File::metadata).transpose()?.is_some_and(|found| found.is_dir()) {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "there is a directory of that name"));
            }
            let temporary = place.sibling(format!(".windlass-{}.tmp", random_name()?).as_ref())?;
            let made = make(&temporary).and_then(|()| temporary.rename_to(&place));
            // `rename` keeps the temporary name if both names are the same file; a failure keeps it too.
            let _ = temporary.unlink();
            made
        };
        moved().map_err(|error| {
            let shown = self.task.dest.join(inside);
            Failure::new(format!("{} could not be unpacked: {}.", shown.display(), reason(&error)))
        })
    }

    fn time(&self, member: &Member) -> Option<FileTimes> {
        let seconds = member.modified.filter(|_| !self.task.extra.touch)?;
        let since = Duration::new(seconds.unsigned_abs(), member.nanoseconds);
        let time = if seconds < 0 { SystemTime::UNIX_EPOCH - since } else { SystemTime::UNIX_EPOCH + since };
        Some(FileTimes::new().set_modified(time).set_accessed(time))
    }
}

/// Changes the owner of an open file to the accounts in the archive.
fn own(member: &Member, node: &File) -> io::Result<()> {
    if member.owner.is_none() && member.group.is_none() {
        return Ok(());
    }
    match node.metadata()?.is_symlink() {
        true => way::give(node, member.owner, member.group),
        false => fchown(node, member.owner, member.group),
    }
}
