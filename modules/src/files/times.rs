//! File times: `modification_time` and `access_time`.

use std::{fs::Metadata, os::unix::fs::MetadataExt, path::Path};

use jiff::{civil::DateTime, tz::TimeZone};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};

use super::{
    attributes::Change,
    way::{self, Link, Place},
};
use crate::{Args, Failure};

/// A requested time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    Preserve,
    Now,
    /// Seconds since 1970.
    At(i64),
}

/// The requested times of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    modification: Time,
    access: Time,
}

impl Times {
    /// Parses the options; `usual` replaces a time that was not given.
    pub(super) fn of(args: &Args, usual: Time) -> Result<Times, Failure> {
        let time = |name: &str| match args.str(name) {
            None | Some("") => Ok(usual),
            Some("preserve") => Ok(Time::Preserve),
            Some("now") => Ok(Time::Now),
            Some(text) => parse(text, args.str(&format!("{name}_format")).unwrap_or("%Y%m%d%H%M.%S")),
        };
        Ok(Times { modification: time("modification_time")?, access: time("access_time")? })
    }

    /// Whether the times differ from the file's.
    pub(super) fn differ(&self, found: &Metadata) -> bool {
        !self.changes(found).is_empty()
    }

    /// The times that differ from the file's.
    pub(super) fn changes(&self, found: &Metadata) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut note = |name, time: Time, seconds: i64, nanos: i64| {
            let after = match time {
                Time::Preserve => return,
                Time::Now => jiff::Timestamp::now().as_second(),
                Time::At(at) if (at, 0) == (seconds, nanos) => return,
                Time::At(at) => at,
            };
            changes.push(Change { name, before: format!("{seconds}.{nanos:09}"), after: format!("{after}.0") });
        };
        note("mtime", self.modification, found.mtime(), found.mtime_nsec());
        note("atime", self.access, found.atime(), found.atime_nsec());
        changes
    }

    /// Sets the times of the file.
    pub(super) fn apply(&self, path: &Path, link: Link) -> Result<(), Failure> {
        if self.modification == Time::Preserve && self.access == Time::Preserve {
            return Ok(());
        }
        let spec = |time: Time| match time {
            Time::Preserve => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            Time::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            Time::At(seconds) => Timespec { tv_sec: seconds, tv_nsec: 0 },
        };
        let times = Timestamps { last_access: spec(self.access), last_modification: spec(self.modification) };
        let set = || {
            let place = Place::to_write(path, link)?;
            let node = place.existing()?;
            if node.metadata()?.is_symlink() {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                return Ok(utimensat(place.directory(), place.name(), &times, flags)?);
            }
            Ok(utimensat(CWD, way::handle(node), &times, AtFlags::empty())?)
        };
        set().map_err(|error: std::io::Error| {
            let reason = crate::process::reason(&error);
            Failure::new(format!("Error while updating modification or access time of {}: {reason}.", path.display()))
                .with("path", path.display().to_string())
        })
    }
}

fn parse(text: &str, format: &str) -> Result<Time, Failure> {
    let moment = DateTime::strptime(format, text).and_then(|civil| civil.to_zoned(TimeZone::system()));
    moment.map(|zoned| Time::At(zoned.timestamp().as_second())).map_err(|error| {
        Failure::new(format!("Error while obtaining timestamp for time {text} using format {format}: {error}."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_default_format_parsed() {
        assert!(matches!(parse("202402031405.06", "%Y%m%d%H%M.%S").unwrap(), Time::At(_)));
        assert!(parse("yesterday", "%Y%m%d%H%M.%S").is_err());
    }
}
