//! Reads tar archives: ustar, pax and GNU headers. Devices, pipes and sparse files of pax are refused by name.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use tar::{Archive, EntryType};

use super::{
    format::{Packing, open},
    member::{Accounts, Member, MemberKind, below, path_of},
    unarchive::{Task, Visit},
};
use crate::Failure;

/// Visits the members of a tar archive in order.
pub(super) fn walk(path: &Path, packing: Packing, task: &Task, visit: Visit<'_>) -> Result<(), Failure> {
    let broken =
        |error: std::io::Error| Failure::new(format!("The archive {} cannot be read: {error}.", path.display()));
    let (reader, budget) = open(path, packing).map_err(broken)?;
    let mut archive = Archive::new(reader);
    let mut accounts = Accounts::default();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        budget.member()?;
        let original = path_of(&entry.path_bytes());
        let name = original.to_string_lossy().into_owned();
        if !task.selection.takes(&name) {
            continue;
        }
        if is_sparse_note(&mut entry) {
            return Err(Failure::new(format!(
                "The archive has {name} as a file with holes in the pax format, which is not supported. Pack it without --sparse, or with --format=gnu."
            )));
        }
        let Some(path) = below(&original, task.extra.strip)? else { continue };
        let header = entry.header().clone();
        let kind = match header.entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse if name.ends_with('/') => {
                MemberKind::Directory
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => MemberKind::File(entry.size()),
            EntryType::Directory => MemberKind::Directory,
            EntryType::Symlink => MemberKind::Symlink(link(entry.link_name_bytes().as_deref(), &name)?),
            EntryType::Link => {
                let target = link(entry.link_name_bytes().as_deref(), &name)?;
                let target = below(&target, task.extra.strip)?;
                MemberKind::HardLink(
                    target.ok_or_else(|| Failure::new(format!("The archive has the link {name} without a target.")))?,
                )
            }
            // Metadata entries are not members.
            EntryType::XGlobalHeader => continue,
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                return Err(Failure::new(format!(
                    "The archive contains {name}, which is a device or a pipe. Only files, directories and links are \
                     unpacked; use exclude to leave it out."
                )));
            }
            other => {
                let number = other.as_byte();
                return Err(Failure::new(format!("The archive has {name} of the unknown kind {number}.")));
            }
        };
        let owner = task.owner_from(header.username().ok().flatten(), header.uid().ok(), |name| accounts.user(name));
        let group = task.owner_from(header.groupname().ok().flatten(), header.gid().ok(), |name| accounts.group(name));
        let usual = header.mtime().ok().and_then(|seconds| i64::try_from(seconds).ok());
        let exact = exact_time(&mut entry);
        let member = Member {
            path,
            kind,
            mode: header.mode().ok().map(|mode| task.permissions(mode & 0o7777)),
            modified: exact.map(|(seconds, _)| seconds).or(usual),
            nanoseconds: exact.map_or(0, |(_, nanoseconds)| nanoseconds),
            owner,
            group,
        };
        visit(member, &mut entry as &mut dyn Read)?;
    }
    Ok(())
}

/// Whether extended headers mark the data as a sparse file's segments instead of its content.
fn is_sparse_note<R: Read>(entry: &mut tar::Entry<'_, R>) -> bool {
    let Ok(Some(notes)) = entry.pax_extensions() else { return false };
    notes.filter_map(Result::ok).any(|note| note.key_bytes().starts_with(b"GNU.sparse."))
}

/// Modification time from extended headers, in seconds and nanoseconds.
fn exact_time<R: Read>(entry: &mut tar::Entry<'_, R>) -> Option<(i64, u32)> {
    let notes = entry.pax_extensions().ok()??;
    let note = notes.filter_map(Result::ok).find(|note| note.key_bytes() == b"mtime")?;
    let (seconds, fraction) = note.value().ok()?.split_once('.').unwrap_or((note.value().ok()?, ""));
    let seconds: i64 = seconds.parse().ok().filter(|seconds| *seconds >= 0)?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    Some((seconds, digits.parse().ok()?))
}

fn link(bytes: Option<&[u8]>, name: &str) -> Result<PathBuf, Failure> {
    bytes.map(path_of).ok_or_else(|| Failure::new(format!("The archive has the link {name} without a target.")))
}
