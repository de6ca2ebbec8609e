//! SELinux contexts of files.

use std::{fs::File, io, path::Path};

use rustix::fs::{XattrFlags, getxattr, lgetxattr, setxattr};

use super::way;

/// Reads the SELinux context of a file; `None` without SELinux.
pub(super) fn context(path: &Path) -> Option<String> {
    read_context(|buffer| lgetxattr(path, "security.selinux", buffer))
}

/// Reads the SELinux context of an open file.
pub(crate) fn context_of(node: &File) -> Option<String> {
    read_context(|buffer| getxattr(way::handle(node), "security.selinux", buffer))
}

fn read_context(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> Option<String> {
    if !Path::new("/sys/fs/selinux/enforce").exists() {
        return None;
    }
    let mut buffer = vec![0; 1024];
    let length = read(&mut buffer[..]).ok()?;
    let bytes = buffer.get(..length)?;
    Some(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned())
}

/// Sets the context of an open file; does nothing without SELinux.
pub(crate) fn set_context(node: &File, context: &str) -> io::Result<()> {
    Ok(setxattr(way::handle(node), "security.selinux", format!("{context}\0").as_bytes(), XattrFlags::empty())?)
}
