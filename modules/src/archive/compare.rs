//! Compares a member of an archive with the file at its place. `unarchive` reports a change only if one differs.

use std::{
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use super::{
    member::{Member, MemberKind},
    unarchive::Task,
};
use crate::{Failure, Host, files::way, process::reason};

/// The first difference between a member and the host, in words; `None` if they match.
pub(super) fn difference(
    member: &Member,
    content: &mut dyn Read,
    task: &Task,
    host: &Host,
) -> Result<Option<&'static str>, Failure> {
    let path = task.dest.join(&member.path);
    let Ok(found) = path.symlink_metadata() else { return Ok(Some("missing")) };
    if task.extra.keep_old && !found.is_dir() {
        return Ok(None);
    }
    let other_kind = Some("of another kind");
    Ok(match &member.kind {
        MemberKind::Directory => match path.metadata() {
            // An existing link to a directory counts as that directory.
            Ok(real) if real.is_dir() => attributes(member, &real, task),
            _ => other_kind,
        },
        MemberKind::Symlink(_) if !found.is_symlink() => other_kind,
        MemberKind::Symlink(target) => match std::fs::read_link(&path) {
            Ok(is) if is == *target => None,
            _ => Some("a link to something else"),
        },
        MemberKind::HardLink(target) => match task.dest.join(target).symlink_metadata() {
            Ok(other) if (other.dev(), other.ino()) == (found.dev(), found.ino()) => None,
            _ => Some("not a link to the same file"),
        },
        MemberKind::File(_) if !found.is_file() => other_kind,
        MemberKind::File(_) if task.keep_newer && member.modified.is_some_and(|modified| found.mtime() > modified) => {
            None
        }
        MemberKind::File(size) if *size != found.len() => Some("of another size"),
        MemberKind::File(_)
            if !task.extra.touch && member.modified.is_some_and(|modified| found.mtime() != modified) =>
        {
            Some("of another time")
        }
        MemberKind::File(_) => match attributes(member, &found, task) {
            None if !same_content(content, &path, host)? => Some("of other content"),
            other => other,
        },
    })
}

/// Compares attributes that the task does not set itself.
fn attributes(member: &Member, found: &Metadata, task: &Task) -> Option<&'static str> {
    if task.attributes.mode.is_none() && member.mode.is_some_and(|mode| mode != found.mode() & 0o7777) {
        return Some("of other permissions");
    }
    if !task.owner_given && member.owner.is_some_and(|owner| owner != found.uid()) {
        return Some("of another owner");
    }
    (!task.group_given && member.group.is_some_and(|group| group != found.gid())).then_some("of another group")
}

fn same_content(content: &mut dyn Read, path: &Path, host: &Host) -> Result<bool, Failure> {
    let unreadable =
        |error: &io::Error| Failure::new(format!("{} could not be compared: {}.", path.display(), reason(error)));
    let mut file: File = way::open(path).map_err(|error| unreadable(&error))?;
    let (mut ours, mut theirs) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        host.check_cancelled()?;
        let count = fill(content, &mut ours).map_err(|error| unreadable(&error))?;
        let other = fill(&mut file, &mut theirs).map_err(|error| unreadable(&error))?;
        if ours.get(..count) != theirs.get(..other) {
            return Ok(false);
        }
        if count == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
