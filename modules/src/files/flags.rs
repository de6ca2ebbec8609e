//! Inode attributes with their letters from `chattr` and `lsattr`.

use std::{fs::File, path::Path};

use rustix::fs::{IFlags, ioctl_getflags};

use super::way::{self, Link, Place, Purpose};
use crate::Failure;

/// Attributes with their letters, in the order of `lsattr`.
pub(crate) const FLAGS: &[(char, IFlags, &str)] = &[
    ('s', IFlags::SECURE_REMOVAL, "secure-deletion"),
    ('u', IFlags::UNRM, "undelete"),
    ('S', IFlags::SYNC, "synchronous"),
    ('D', IFlags::DIRSYNC, "synchronous-directory"),
    ('i', IFlags::IMMUTABLE, "immutable"),
    ('a', IFlags::APPEND, "append-only"),
    ('d', IFlags::NODUMP, "nodump"),
    ('A', IFlags::NOATIME, "noatime"),
    ('c', IFlags::COMPRESSED, "compressed"),
    ('j', IFlags::JOURNALING, "journalled"),
    ('t', IFlags::NOTAIL, "notail"),
    ('T', IFlags::TOPDIR, "topdir"),
    ('e', IFlags::from_bits_retain(0x0008_0000), "extents"),
    ('C', IFlags::NOCOW, "nocow"),
    ('P', IFlags::PROJECT_INHERIT, "project-inherit"),
];

/// Reads the attributes of a file; `None` if its file system does not support them.
pub(crate) fn flags_of(path: &Path) -> Option<IFlags> {
    flags_of_node(Place::of(path, Link::NoFollow, Purpose::Read).ok()?.node()?)
}

pub(super) fn flags_of_node(node: &File) -> Option<IFlags> {
    let kind = node.metadata().ok()?.file_type();
    // Opening a device or a pipe may have side effects or block.
    if !kind.is_file() && !kind.is_dir() {
        return None;
    }
    ioctl_getflags(File::open(way::handle(node)).ok()?).ok()
}

/// The letters of the set attributes.
pub(crate) fn letters(flags: IFlags) -> String {
    FLAGS.iter().filter(|(_, flag, _)| flags.contains(*flag)).map(|(letter, ..)| letter).collect()
}

pub(super) fn new_flags(text: &str, current: IFlags) -> Result<IFlags, Failure> {
    let (operator, names) = match text.chars().next() {
        Some(operator @ ('+' | '-' | '=')) => (operator, text.get(1..).unwrap_or_default()),
        _ => ('=', text),
    };
    let mut asked = IFlags::empty();
    for letter in names.chars() {
        let found = FLAGS.iter().find(|(known, ..)| *known == letter);
        asked |= found.map(|(_, flag, _)| *flag).ok_or_else(|| {
            Failure::new(format!("chattr failed: '{letter}' in attributes '{text}' is not an attribute of files."))
        })?;
    }
    let all = FLAGS.iter().fold(IFlags::empty(), |all, (_, flag, _)| all | *flag);
    Ok(match operator {
        '+' => current | asked,
        '-' => current - asked,
        _ => (current - all) | asked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_added_removed_and_set() {
        let current = IFlags::from_bits_retain(0x0008_0000) | IFlags::NOATIME;
        assert_eq!(letters(new_flags("+i", current).unwrap()), "iAe");
        assert_eq!(letters(new_flags("-A", current).unwrap()), "e");
        assert_eq!(letters(new_flags("=ae", current).unwrap()), "ae");
        assert!(new_flags("+?", current).is_err());
    }
}
