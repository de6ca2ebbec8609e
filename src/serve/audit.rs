//! The audit trail: who did what, from where, as JSON lines in the state directory.
//!
//! A record is on disk before its operation counts: a run whose start cannot be recorded does not start.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::error::{Error, Result};
use crate::journal::State;

/// Version of the format.
const VERSION: u32 = 1;
/// Maximum part of the file that a page reads, from its end, in bytes.
const READ: u64 = 1 << 20;

/// An operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// The server begins.
    #[default]
    Serving,
    SignedIn,
    /// A sign-in with a wrong token, or from another site.
    SignInRefused,
    SignedOut,
    /// A request of a user that was refused.
    Refused,
    /// A run is about to start.
    Started,
    /// The run has its journal.
    Recorded,
    Cancelled,
    /// The run has ended.
    Ended,
    /// The server ends, and the run goes on.
    GoesOn,
}

/// A record of the trail. Fields that do not apply are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    pub(super) version: u32,
    /// Time in UTC.
    pub(super) at: String,
    pub(super) event: Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
    /// Address and port of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    /// Id of the start, which connects its records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<String>,
    /// Name of the playbook in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) playbook: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inventory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tags: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check: Option<bool>,
    /// Variables by name. Secret ones are masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) variables: Option<Map<String, Json>>,
    /// Id of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// Number of operations that this record stands for, if there were too many for one each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<usize>,
}

impl Record {
    /// A record about an operation of a client.
    pub(super) fn of(event: Event, from: SocketAddr) -> Record {
        Record { event, from: Some(from.to_string()), ..Record::default() }
    }

    /// The record with its reason.
    pub(super) fn because(mut self, reason: impl Into<String>) -> Record {
        self.reason = Some(reason.into());
        self
    }
}

/// The trail of a state directory.
pub(super) struct Audit {
    path: PathBuf,
    writing: Mutex<()>,
}

impl Audit {
    pub(super) fn of(state: &State) -> Result<Audit> {
        Ok(Audit { path: state.folder("serve")?.join("audit.jsonl"), writing: Mutex::default() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record, which is on disk when this returns. The file is opened each time, so that it may be moved
    /// away.
    pub(super) fn add(&self, mut record: Record) -> Result<()> {
        record.version = VERSION;
        record.at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
        let fail = |why: &dyn std::fmt::Display| {
            Error::new(format!("the audit trail {} cannot be written: {why}", self.path.display()))
        };
        let mut line = serde_json::to_string(&record).map_err(|error| fail(&error))?;
        line.push('\n');
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !self.path.exists();
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
            // A full disk or a crash may have left a part of a line.
            let is_whole = ends_with_line(&mut file)?;
            file.write_all(format!("{}{line}", if is_whole { "" } else { "\n" }).as_bytes())?;
            file.sync_data()?;
            match self.path.parent().filter(|_| is_new) {
                Some(folder) => File::open(folder)?.sync_all(),
                None => Ok(()),
            }
        };
        write().map_err(|error| fail(&error))
    }

    /// The last records, newest first, and the number of lines that are not records.
    pub(super) fn last(&self, count: usize) -> Result<(Vec<Record>, usize)> {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&self.path)?;
            let size = file.metadata()?.len();
            let start = size.saturating_sub(READ);
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.take(READ).read_to_end(&mut bytes)?;
            // The first line of a part is not whole.
            let whole =
                if start == 0 { 0 } else { bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1) };
            Ok(bytes.split_off(whole))
        };
        let bytes = match read() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(Error::new(format!("the audit trail {} cannot be read: {error}", self.path.display())));
            }
        };
        let lines = bytes.split(|byte| *byte == b'\n').rev().filter(|line| !line.is_empty()).take(count);
        let (mut records, mut damaged) = (Vec::new(), 0);
        for line in lines {
            match serde_json::from_slice::<Record>(line) {
                Ok(record) if record.version == VERSION => records.push(record),
                _ => damaged += 1,
            }
        }
        Ok((records, damaged))
    }
}

/// Whether a file is empty or ends with a line break.
fn ends_with_line(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn records_are_lines_that_only_their_owner_reads() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::of(&State::at(folder.path())).unwrap();
        assert_eq!(audit.last(9).unwrap(), (Vec::new(), 0));
        let from = SocketAddr::from(([127, 0, 0, 1], 9));
        audit.add(Record::of(Event::SignedIn, from)).unwrap();
        audit.add(Record::of(Event::Refused, from).because("a\n{\"version\": 1}")).unwrap();
        assert_eq!(std::fs::metadata(audit.path()).unwrap().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(audit.path()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        let (records, damaged) = audit.last(9).unwrap();
        assert_eq!((records.len(), damaged, records[0].event), (2, 0, Event::Refused));
        assert_eq!(audit.last(1).unwrap().0.len(), 1);

        std::fs::write(audit.path(), format!("garbage\n{{\"version\": 2}}\n{text}half")).unwrap();
        let (records, damaged) = audit.last(9).unwrap();
        assert_eq!((records.len(), damaged), (2, 3));
        audit.add(Record::of(Event::SignedOut, from)).unwrap();
        assert_eq!(audit.last(1).unwrap().0[0].event, Event::SignedOut);
    }
}
