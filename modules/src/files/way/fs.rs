//! Counterparts of `std::fs` that follow the rule of [`way`](super).

use std::{
    fs::{File, Metadata, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, mkdirat, openat, symlinkat, unlinkat},
    io::Errno,
};

use super::{Link, Place, Purpose, give, handle};

/// Metadata of a file, following links that are permitted for reading.
pub(crate) fn metadata(path: &Path) -> io::Result<Metadata> {
    Place::of(path, Link::Follow, Purpose::Read)?.metadata()
}

/// Opens a file or directory for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    Place::of(path, Link::Follow, Purpose::Read)?.open()
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a text file.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

pub(crate) fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    let place = Place::to_write(path, Link::NoFollow)?;
    Ok(mkdirat(place.directory(), place.name(), Mode::from_raw_mode(mode))?)
}

/// Creates a directory and its parents.
pub(crate) fn create_dir_all(path: &Path) -> io::Result<()> {
    create_dirs(path, 0o777)
}

/// Creates a directory and its parents with these permissions, before the umask.
pub(crate) fn create_dirs(path: &Path, mode: u32) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.is_dir()).collect();
    for part in missing.into_iter().rev() {
        match create_dir(part, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && part.is_dir() => {}
            done => done?,
        }
    }
    Ok(())
}

/// Removes a file or a link.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    Place::to_write(path, Link::NoFollow)?.unlink()
}

/// Removes an empty directory.
pub(crate) fn remove_dir(path: &Path) -> io::Result<()> {
    let place = Place::to_write(path, Link::NoFollow)?;
    Ok(unlinkat(place.directory(), place.name(), AtFlags::REMOVEDIR)?)
}

/// Removes a directory with its content. Links in it are removed, never followed.
pub(crate) fn remove_dir_all(path: &Path) -> io::Result<()> {
    let place = Place::to_write(path, Link::NoFollow)?;
    empty(&place)?;
    Ok(unlinkat(place.directory(), place.name(), AtFlags::REMOVEDIR)?)
}

/// Removes the content of a directory. Keeps open parents in `above`, so depth costs descriptors instead of stack.
fn empty(place: &Place) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let list = |directory: &File| -> io::Result<std::fs::ReadDir> { std::fs::read_dir(handle(directory)) };
    let top = File::from(openat(place.directory(), place.name(), flags, Mode::empty())?);
    let entries = list(&top)?;
    let mut above = vec![(top, entries, None)];
    while let Some((directory, entries, _)) = above.last_mut() {
        let Some(entry) = entries.next() else {
            let Some((_, _, name)) = above.pop() else { break };
            if let (Some((parent, ..)), Some(name)) = (above.last(), name) {
                let name: std::ffi::OsString = name;
                unlinkat(parent, &name, AtFlags::REMOVEDIR)?;
            }
            continue;
        };
        let name = entry?.file_name();
        match unlinkat(&*directory, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            // Linux reports EISDIR, POSIX EPERM.
            Err(error @ (Errno::ISDIR | Errno::PERM)) => match openat(&*directory, &name, flags, Mode::empty()) {
                Ok(child) => {
                    let child = File::from(child);
                    let entries = list(&child)?;
                    above.push((child, entries, Some(name)));
                }
                Err(Errno::NOTDIR | Errno::LOOP) => return Err(error.into()),
                Err(other) => return Err(other.into()),
            },
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Renames a file within its file system.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    Place::to_write(from, Link::NoFollow)?.rename_to(&Place::to_write(to, Link::NoFollow)?)
}

/// Creates a symbolic link with this text.
pub(crate) fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    let place = Place::to_write(path, Link::NoFollow)?;
    Ok(symlinkat(target, place.directory(), place.name())?)
}

/// Changes the owner of a file.
pub(crate) fn chown(path: &Path, uid: Option<u32>, gid: Option<u32>, link: Link) -> io::Result<()> {
    give(Place::to_write(path, link)?.existing()?, uid, gid)
}

/// Changes the permissions of a file or of a link's target.
pub(crate) fn chmod(path: &Path, bits: u32) -> io::Result<()> {
    let place = Place::to_write(path, Link::Follow)?;
    std::fs::set_permissions(handle(place.existing()?), Permissions::from_mode(bits))
}
