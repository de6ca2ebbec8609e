//! Reads zip archives. Kind and permissions of a member come from its Unix mode; other systems provide none.

use std::{
    io::{BufReader, Read},
    path::Path,
};

use jiff::{civil, tz::TimeZone};
use zip::{ExtraField, ZipArchive, read::ZipFile};

use super::{
    budget::Budget,
    member::{Member, MemberKind, below, path_of},
    unarchive::{Task, Visit},
};
use crate::{Failure, files::way};

/// Maximum length of a link target.
const MAX_TARGET: u64 = 4096;

/// Visits the members of a zip archive in order.
pub(super) fn walk(path: &Path, task: &Task, visit: Visit<'_>) -> Result<(), Failure> {
    let broken = |error: String| Failure::new(format!("The archive {} cannot be read: {error}.", path.display()));
    let file = way::open(path).map_err(|error| broken(error.to_string()))?;
    let budget = Budget::of(file.metadata().map_err(|error| broken(error.to_string()))?.len());
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| broken(error.to_string()))?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| broken(error.to_string()))?;
        budget.member()?;
        // Some archivers write backslashes as separators.
        let name = entry.name().map_err(|error| broken(error.to_string()))?.replace('\\', "/");
        if !task.selection.takes(&name) {
            continue;
        }
        let inside =
            if task.extra.flat { name.trim_end_matches('/').rsplit('/').next().unwrap_or_default() } else { &name };
        let Some(path) = below(&path_of(inside.as_bytes()), task.extra.strip)? else { continue };
        let directory = name.ends_with('/');
        if task.extra.flat && directory {
            continue;
        }
        let mode = entry.unix_mode();
        let kind = match mode.unwrap_or(0) & 0o170_000 {
            0o120_000 => {
                let mut target = Vec::new();
                entry.by_ref().take(MAX_TARGET).read_to_end(&mut target).map_err(|error| broken(error.to_string()))?;
                MemberKind::Symlink(path_of(&target))
            }
            0 | 0o100_000 | 0o040_000 if directory => MemberKind::Directory,
            0 | 0o100_000 => MemberKind::File(entry.size()),
            _ => {
                return Err(Failure::new(format!(
                    "The archive has {name}, which is neither a file nor a directory nor a link."
                )));
            }
        };
        // Archives from other systems contain no useful permissions.
        let mode = mode.map(|mode| mode & 0o777).filter(|mode| *mode != 0);
        let member = Member { path, kind, mode, modified: modified(&entry), nanoseconds: 0, owner: None, group: None };
        visit(member, &mut budget.metered(entry) as &mut dyn Read)?;
    }
    Ok(())
}

/// Modification time of a member: exact if the archive contains it, otherwise the packer's local time.
fn modified<R: Read>(entry: &ZipFile<'_, R>) -> Option<i64> {
    let exact = entry.extra_data_fields().find_map(|field| match field {
        ExtraField::ExtendedTimestamp(stamp) => stamp.mod_time(),
        _ => None,
    });
    if let Some(seconds) = exact {
        return Some(i64::from(seconds));
    }
    let time = entry.last_modified()?;
    let small = |number: u8| i8::try_from(number).ok();
    let time = civil::DateTime::new(
        i16::try_from(time.year()).ok()?,
        small(time.month())?,
        small(time.day())?,
        small(time.hour())?,
        small(time.minute())?,
        small(time.second())?,
        0,
    );
    Some(time.ok()?.to_zoned(TimeZone::system()).ok()?.timestamp().as_second())
}
