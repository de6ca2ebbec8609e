//! Result keys that describe a file: owner, permissions, type, size.

use std::{
    fs::Metadata,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use crate::{Map, accounts};

/// The result keys of file modules; empty if the file does not exist.
pub fn describe(path: &Path) -> Map {
    let mut map = Map::new();
    let Ok(found) = path.symlink_metadata() else {
        map.insert("state".into(), "absent".into());
        return map;
    };
    map.insert("uid".into(), found.uid().into());
    map.insert("gid".into(), found.gid().into());
    map.insert("owner".into(), owner_name(found.uid()).into());
    map.insert("group".into(), group_name(found.gid()).into());
    map.insert("mode".into(), octal(found.mode()).into());
    map.insert("state".into(), state(&found).into());
    map.insert("size".into(), found.size().into());
    if let Some(context) = super::context::context(path) {
        map.insert("secontext".into(), context.into());
    }
    map
}

/// Type of a file: `file`, `hard` for a file with several names, `directory` or `link`.
pub fn state(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    if kind.is_symlink() {
        "link"
    } else if kind.is_dir() {
        "directory"
    } else if kind.is_file() && found.nlink() > 1 {
        "hard"
    } else if kind.is_block_device() || kind.is_char_device() || kind.is_fifo() || kind.is_socket() || kind.is_file() {
        "file"
    } else {
        "unknown"
    }
}

/// Permission bits in results: octal with a leading zero, such as `0644` and `01777`.
pub fn octal(mode: u32) -> String {
    format!("0{:03o}", mode & 0o7777)
}

/// Name of a user, or the id if no account has it.
pub fn owner_name(uid: u32) -> String {
    accounts::user_by_id(uid).map_or_else(|| uid.to_string(), |user| user.name)
}

/// Name of a group, or the id if no group has it.
pub fn group_name(gid: u32) -> String {
    accounts::group_by_id(gid).map_or_else(|| gid.to_string(), |group| group.name)
}
