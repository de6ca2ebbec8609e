use std::{
    collections::HashSet,
    fs::{self, File, FileTimes, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, fchown, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{
    member::{Member, MemberKind},
    unarchive::Task,
};
use crate::{
    Failure, Host,
    files::{mode::masked, scratch::random_name},
    process::reason,
};

/// Puts members in their places, each one whole.
pub(super) struct Extraction<'a> {
    task: &'a Task,
    host: &'a Host,
    /// The destination without links on the way.
    real_dest: PathBuf,
    /// Links of the archive; nothing is written through them to the outside.
    links: &'a HashSet<PathBuf>,
    /// Directories get their permissions and times when nothing more comes into them.
    directories: Vec<Member>,
}

impl<'a> Extraction<'a> {
    pub(super) fn new(task: &'a Task, links: &'a HashSet<PathBuf>, host: &'a Host) -> Result<Extraction<'a>, Failure> {
        let real_dest = task.dest.canonicalize().map_err(|error| {
            Failure::new(format!("Destination '{}' cannot be entered: {}.", task.dest.display(), reason(&error)))
        })?;
        Ok(Extraction { task, host, real_dest, links, directories: Vec::new() })
    }

    /// Puts one member in its place.
    pub(super) fn place(&mut self, member: Member, content: &mut dyn Read) -> Result<(), Failure> {
        self.host.check_cancelled()?;
        let path = self.task.dest.join(&member.path);
        let failed =
            |error: io::Error| Failure::new(format!("{} could not be unpacked: {}.", path.display(), reason(&error)));
        self.make_parents(&member.path, &path)?;
        match &member.kind {
            MemberKind::Directory => {
                self.make_directory(&path).map_err(failed)?;
                self.directories.push(member);
                Ok(())
            }
            MemberKind::File(size) => self.file(&member, *size, &path, content).map_err(failed),
            MemberKind::Symlink(target) => self
                .by_rename(&path, |temporary| {
                    symlink(target, temporary)?;
                    if member.owner.is_some() || member.group.is_some() {
                        std::os::unix::fs::lchown(temporary, member.owner, member.group)?;
                    }
                    Ok(())
                })
                .map_err(failed),
            MemberKind::HardLink(target) => {
                let target = self.task.dest.join(target);
                self.check_way(&target)?;
                self.by_rename(&path, |temporary| fs::hard_link(&target, temporary)).map_err(failed)
            }
        }
    }

    /// What remains when all members are in their places.
    pub(super) fn finish(self) -> Result<(), Failure> {
        for member in self.directories.iter().rev() {
            let path = self.task.dest.join(&member.path);
            let set = || {
                if member.owner.is_some() || member.group.is_some() {
                    chown(&path, member.owner, member.group)?;
                }
                fs::set_permissions(&path, Permissions::from_mode(member.mode.unwrap_or_else(|| masked(0o777))))?;
                match self.time(member) {
                    Some(times) => File::open(&path)?.set_times(times),
                    None => Ok(()),
                }
            };
            set().map_err(|error| {
                Failure::new(format!("{} could not be given its permissions: {}.", path.display(), reason(&error)))
            })?;
        }
        // One wait for the disk instead of one for each file.
        let synced = File::open(&self.real_dest).and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
        synced.map_err(|error| {
            Failure::new(format!("{} could not be written: {}.", self.real_dest.display(), reason(&error)))
        })
    }

    fn make_parents(&self, inside: &Path, path: &Path) -> Result<(), Failure> {
        let Some(parent) = path.parent() else { return Ok(()) };
        if !parent.is_dir() {
            // Step by step, so that nothing is made on the other side of a link before it is looked at.
            let mut step = self.task.dest.clone();
            for part in inside.parent().into_iter().flat_map(Path::components) {
                step.push(part);
                self.check_way(&step)?;
                self.make_directory(&step).map_err(|error| {
                    Failure::new(format!("The directory {} could not be made: {}.", step.display(), reason(&error)))
                })?;
            }
        }
        self.check_way(path)
    }

    /// Refuses a path that goes through a link of the archive to somewhere else.
    fn check_way(&self, path: &Path) -> Result<(), Failure> {
        let Some(parent) = path.parent() else { return Ok(()) };
        let through = parent
            .ancestors()
            .take_while(|step| *step != self.task.dest)
            .any(|step| step.strip_prefix(&self.task.dest).is_ok_and(|inside| self.links.contains(inside)));
        if !through {
            return Ok(());
        }
        let real = parent.canonicalize().unwrap_or_default();
        if real.starts_with(&self.real_dest) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "The archive would write {} through a link of its own, out of the destination.",
            path.display()
        )))
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if path.symlink_metadata().is_ok() {
            fs::remove_file(path)?;
        }
        fs::create_dir(path)
    }

    fn file(&self, member: &Member, size: u64, path: &Path, content: &mut dyn Read) -> io::Result<()> {
        if path.is_dir() && !path.is_symlink() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "there is a directory of that name"));
        }
        self.by_rename(path, |temporary| {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(temporary)?;
            let written = self.copy(content, &mut file)?;
            if written != size {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends in the middle of it"));
            }
            if member.owner.is_some() || member.group.is_some() {
                fchown(&file, member.owner, member.group)?;
            }
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

    /// Makes something beside its place and moves it there.
    fn by_rename(&self, path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let temporary = path.with_file_name(format!(".windlass-{}.tmp", random_name()?));
        let made = make(&temporary).and_then(|()| fs::rename(&temporary, path));
        // Two names of one file are not renamed onto each other, and a failure leaves its beginning.
        let _ = fs::remove_file(&temporary);
        made
    }

    fn time(&self, member: &Member) -> Option<FileTimes> {
        let seconds = member.modified.filter(|_| !self.task.extra.touch)?;
        let since = Duration::new(seconds.unsigned_abs(), member.nanoseconds);
        let time = if seconds < 0 { SystemTime::UNIX_EPOCH - since } else { SystemTime::UNIX_EPOCH + since };
        Some(FileTimes::new().set_modified(time).set_accessed(time))
    }
}
