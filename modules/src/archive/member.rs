//! A member of an archive, independent of the format. Its name stays below the destination: `..` is refused here.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use crate::{Failure, accounts};

/// A member of an archive.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// Path below the destination.
    pub(super) path: PathBuf,
    pub(super) kind: MemberKind,
    /// Permissions, if the archive contains them.
    pub(super) mode: Option<u32>,
    /// Modification time in seconds, if the archive contains it.
    pub(super) modified: Option<i64>,
    /// Nanoseconds of the time. Set but not compared, because not every file system keeps them.
    pub(super) nanoseconds: u32,
    pub(super) owner: Option<u32>,
    pub(super) group: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MemberKind {
    /// A file of this size.
    File(u64),
    Directory,
    /// A symbolic link with this target.
    Symlink(PathBuf),
    /// A hard link to the file with this path below the destination.
    HardLink(PathBuf),
}

impl Member {
    pub(super) fn is_directory(&self) -> bool {
        self.kind == MemberKind::Directory
    }
}

/// A path from the bytes in an archive.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// The path below the destination for a name in an archive, without its first `strip` parts; `None` if nothing remains.
pub(super) fn below(name: &Path, strip: usize) -> Result<Option<PathBuf>, Failure> {
    // Like tar, counts a leading dot as a part.
    let text = name.as_os_str().as_encoded_bytes();
    let parts = text.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).skip(strip);
    let mut path = PathBuf::new();
    for part in parts {
        match part {
            b"." => {}
            b".." => {
                return Err(Failure::new(format!(
                    "The archive has the path {}, which would leave the destination.",
                    name.display()
                )));
            }
            part => path.push(path_of(part)),
        }
    }
    Ok((!path.as_os_str().is_empty()).then_some(path))
}

/// Ids of the accounts in an archive, cached.
#[derive(Default)]
pub(super) struct Accounts {
    users: Vec<(String, Option<u32>)>,
    groups: Vec<(String, Option<u32>)>,
}

impl Accounts {
    /// Id of a user of the host; `None` if the name is unknown there.
    pub(super) fn user(&mut self, name: &str) -> Option<u32> {
        remembered(&mut self.users, name, |name| Some(accounts::user_by_name(name)?.uid))
    }

    /// Id of a group of the host; `None` if the name is unknown there.
    pub(super) fn group(&mut self, name: &str) -> Option<u32> {
        remembered(&mut self.groups, name, |name| Some(accounts::group_by_name(name)?.gid))
    }
}

fn remembered(known: &mut Vec<(String, Option<u32>)>, name: &str, find: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    if let Some((_, number)) = known.iter().find(|(known, _)| known == name) {
        return *number;
    }
    let number = find(name);
    known.push((name.to_owned(), number));
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_paths_stay_below_destination() {
        let path = |name: &str, strip| below(Path::new(name), strip).unwrap().map(|path| path.display().to_string());
        assert_eq!(path("./a//b/", 0).as_deref(), Some("a/b"));
        assert_eq!(path("/a/b", 0).as_deref(), Some("a/b"));
        assert_eq!(path("a/b/c", 2).as_deref(), Some("c"));
        assert_eq!(path("./a/b", 1).as_deref(), Some("a/b"));
        assert_eq!((path("a", 1), path("./", 0)), (None, None));
        assert!(below(Path::new("a/../../b"), 0).is_err());
    }
}
