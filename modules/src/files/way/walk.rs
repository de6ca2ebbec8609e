//! Resolves a path one name at a time.

use std::{
    collections::VecDeque,
    ffi::{CString, OsStr, OsString},
    fs::{File, Metadata},
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat},
    io::Errno,
};

use super::{Link, Place, Purpose, is_ours, is_trusted, node_at};
use crate::files::info::owner_name;

/// Maximum number of links to follow, like the kernel.
const MAX_LINKS: usize = 40;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The place, if the kernel resolves the path without links.
pub(super) fn without_links(path: &Path, link: Link) -> Option<Place> {
    let name = path.file_name()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let directory = openat2(CWD, parent, DIRECTORY, Mode::empty(), resolve).ok()?;
    let node = node_at(&directory, name).ok()?;
    let is_link = node.as_ref().is_some_and(|node| node.metadata().map_or(true, |found| found.is_symlink()));
    (!is_link || link == Link::NoFollow).then(|| Place {
        directory,
        name: name.to_owned(),
        node,
        real: path.to_owned(),
    })
}

/// A name that remains to be resolved.
enum Step {
    Up,
    Name(OsString),
}

/// A link that another user controls, and that the path depends on.
struct Taint {
    link: PathBuf,
    uid: u32,
    /// The path entered a directory that not everybody may enter.
    hidden: bool,
}

struct Walk {
    directory: OwnedFd,
    found: Metadata,
    real: PathBuf,
    pending: VecDeque<Step>,
    taint: Option<Taint>,
    /// The last link of another user, even if it led to its owner's directory.
    last: Option<(PathBuf, u32)>,
}

/// Resolves a path by the rule of this module.
pub(super) fn walk(path: &Path, link: Link, purpose: Purpose) -> io::Result<Place> {
    let path = std::path::absolute(path)?;
    let (directory, found) = root()?;
    let mut walk =
        Walk { directory, found, real: PathBuf::from("/"), pending: VecDeque::new(), taint: None, last: None };
    let run = purpose == Purpose::Run;
    walk.push(&path);
    let mut links = 0;
    loop {
        if run {
            require_ours(&walk.real, &walk.found)?;
        }
        let name = match walk.pending.pop_front() {
            None => return walk.end(OsString::from("."), None, purpose),
            Some(Step::Up) => {
                walk.climb()?;
                continue;
            }
            Some(Step::Name(name)) => name,
        };
        let last = walk.pending.is_empty();
        // Opened as a directory first, because only that triggers an automount.
        let entered = openat(&walk.directory, &name, DIRECTORY, Mode::empty());
        let node: File = match entered {
            Ok(node) => node.into(),
            Err(Errno::NOTDIR | Errno::LOOP) => match node_at(&walk.directory, &name)? {
                Some(node) => node,
                None => return Err(Errno::NOENT.into()),
            },
            Err(Errno::NOENT) if last => return walk.end(name, None, purpose),
            Err(error) => return Err(error.into()),
        };
        let found = node.metadata()?;
        if found.is_symlink() && (!last || link == Link::Follow) {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            if run && !is_trusted(found.uid()) {
                return Err(changeable(&walk.real.join(&name), &found));
            }
            walk.follow(&node, &found, &name)?;
        } else if last {
            if run {
                require_ours(&walk.real.join(&name), &found)?;
            }
            return walk.end(name, Some(node), purpose);
        } else if found.is_dir() {
            walk.real.push(&name);
            walk.enter(node.into(), found);
        } else {
            return Err(Errno::NOTDIR.into());
        }
    }
}

fn root() -> io::Result<(OwnedFd, Metadata)> {
    let root = File::from(openat(CWD, "/", DIRECTORY, Mode::empty())?);
    let found = root.metadata()?;
    Ok((root.into(), found))
}

impl Walk {
    /// Prepends the names of a path to the remaining ones.
    fn push(&mut self, path: &Path) {
        for part in path.components().rev() {
            match part {
                Component::Normal(name) => self.pending.push_front(Step::Name(name.to_owned())),
                Component::ParentDir => self.pending.push_front(Step::Up),
                _ => {}
            }
        }
    }

    fn enter(&mut self, directory: OwnedFd, found: Metadata) {
        if self.taint.as_ref().is_some_and(|taint| taint.uid == found.uid()) {
            self.taint = None;
        } else if let Some(taint) = &mut self.taint {
            taint.hidden |= found.mode() & 0o001 == 0;
        }
        (self.directory, self.found) = (directory, found);
    }

    fn climb(&mut self) -> io::Result<()> {
        let parent = File::from(openat(&self.directory, "..", DIRECTORY, Mode::empty())?);
        let found = parent.metadata()?;
        self.real.pop();
        if self.taint.is_none()
            && let Some((link, uid)) = self.last.clone()
        {
            self.taint = Some(Taint { link, uid, hidden: false });
        }
        self.enter(parent.into(), found);
        Ok(())
    }

    fn follow(&mut self, node: &File, found: &Metadata, name: &OsStr) -> io::Result<()> {
        let text: CString = readlinkat(node, c"", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(text.as_bytes())).to_owned();
        if target.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let link = self.real.join(name);
        // The owner of a directory can have moved a link of root there.
        let uid = if is_trusted(found.uid()) { self.found.uid() } else { found.uid() };
        if !is_trusted(uid) {
            if let Some(taint) = self.taint.as_ref().filter(|taint| taint.uid != uid) {
                return Err(refused(taint, &link, Some(uid)));
            }
            // A name in a directory of its owner still belongs to that owner.
            let stays = !target.is_absolute() && self.found.uid() == uid;
            if !stays && self.taint.is_none() {
                self.taint = Some(Taint { link: link.clone(), uid, hidden: false });
            }
            self.last = Some((link, uid));
        }
        if target.is_absolute() {
            let (directory, found) = root()?;
            self.real = PathBuf::from("/");
            self.enter(directory, found);
        }
        self.push(&target);
        Ok(())
    }

    fn end(self, name: OsString, node: Option<File>, purpose: Purpose) -> io::Result<Place> {
        let here = name == ".";
        let real = if here { self.real } else { self.real.join(&name) };
        let found = node.as_ref().map(File::metadata).transpose()?.or_else(|| here.then_some(self.found));
        if let Some(taint) = &self.taint {
            let owner = found.as_ref().map(MetadataExt::uid);
            let public = found.is_some_and(|found| found.mode() & 0o004 != 0) && !taint.hidden;
            if owner != Some(taint.uid) && !(purpose == Purpose::Read && public) {
                return Err(refused(taint, &real, owner));
            }
        }
        let node = match node {
            None if here => Some(File::from(self.directory.try_clone()?)),
            node => node,
        };
        Ok(Place { directory: self.directory, name, node, real })
    }
}

fn require_ours(path: &Path, found: &Metadata) -> io::Result<()> {
    if is_ours(found) { Ok(()) } else { Err(changeable(path, found)) }
}

fn changeable(path: &Path, found: &Metadata) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{} belongs to {} and has the mode {:04o}, so other users than root and the task's may change it",
            path.display(),
            owner_name(found.uid()),
            found.mode() & 0o7777
        ),
    )
}

fn refused(taint: &Taint, end: &Path, owner: Option<u32>) -> io::Error {
    let (link, from) = (taint.link.display(), owner_name(taint.uid));
    let whose = owner.map_or_else(String::new, |uid| format!(" of {}", owner_name(uid)));
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{from} controls the link {link}, which leads to {}{whose}, so it is not followed. Name the real path, or remove the link",
            end.display()
        ),
    )
}
