//! Reads journals, as data that anybody may have written.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;

use super::lines::{Lines, Read};
use super::object::ObjectText;
use super::record::{Done, End, Header, Record, VERSION};
use crate::error::{Error, Result};

/// Maximum length of a line, in bytes.
pub(crate) const LINE: usize = 8 << 20;
/// Maximum size of a journal, in bytes.
pub(crate) const FILE: u64 = 1 << 30;

/// A journal that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    /// Its first record.
    pub header: Header,
    /// All records between header and end, in order.
    pub records: Vec<Record>,
    /// The last record, if the run finished.
    pub end: Option<End>,
    /// The last sign of life of the run, in milliseconds since 1970 in UTC.
    pub alive: Option<u64>,
}

impl Journal {
    /// The last sign of life of a run that did not end by itself, in milliseconds since 1970 in UTC.
    pub(super) fn killed_at(&self) -> Option<u64> {
        self.alive.or_else(|| millis(&self.header.started)).filter(|_| self.end.is_none())
    }

    /// Outcomes of tasks on hosts. A resumed run has copies of the earlier run's, and the debugger repeats tasks; of a
    /// task that ran again, only the last outcome counts.
    pub fn outcomes(&self) -> Vec<&Done> {
        let all = self.records.iter().filter_map(|record| match record {
            Record::Done(done) => Some(&**done),
            _ => None,
        });
        let last: IndexMap<_, _> = all.map(|done| ((&done.host, &done.at), done)).collect();
        last.into_values().collect()
    }
}

impl Header {
    /// Start of the first of the runs that have resumed each other, in milliseconds since 1970 in UTC.
    fn first_start(&self) -> Option<u64> {
        millis(&self.since).or_else(|| millis(&self.started))
    }
}

fn millis(time: &str) -> Option<u64> {
    u64::try_from(time.parse::<jiff::Timestamp>().ok()?.as_millisecond()).ok()
}

/// A line that is not a valid record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Line number, from 1.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

/// Reads a journal. Its last line may be truncated or damaged, because a killed run leaves it so.
pub fn read(bytes: &[u8]) -> std::result::Result<Journal, Damage> {
    collect(bytes, &|record| record)
}

/// Collects records. `keep` drops what is not needed of each, before the next one is read.
fn collect(reader: impl BufRead, keep: &dyn Fn(Record) -> Record) -> std::result::Result<Journal, Damage> {
    let mut header = None;
    let mut records = Vec::new();
    let mut texts = HashSet::new();
    let (mut end, mut alive, mut has_begun) = (None, None, false);
    let mut lines = Lines::new(reader, LINE);
    let mut damaged = None;
    loop {
        let number = lines.number() + 1;
        let damage = |message: String| Damage { line: number, message };
        let Some(line) = lines.next().map_err(|error| damage(error.to_string()))? else { break };
        if let Some(damaged) = damaged {
            return Err(damaged);
        }
        let line = match line {
            Read::Whole(line) => line,
            Read::Cut(_) => break,
            Read::TooLong => return Err(damage(format!("the line is longer than {LINE} bytes"))),
        };
        let record = match Record::read(line) {
            Ok(record) => shared(keep(record), &mut texts),
            Err(error) => {
                // The last line may be damaged.
                damaged = Some(damage(format!("the line is not a journal record: {error}")));
                continue;
            }
        };
        match (record, &header) {
            (Record::Run(read), None) if read.version == VERSION => header = Some(*read),
            (Record::Run(read), None) => {
                return Err(damage(format!(
                    "the journal has version {}, and this release reads version {VERSION}",
                    read.version
                )));
            }
            (Record::Run(_), Some(_)) => return Err(damage("the journal has a second header".to_owned())),
            (_, None) => return Err(damage("the journal does not begin with its header".to_owned())),
            (Record::End(read), Some(_)) => end = Some(read),
            (Record::Alive(read), Some(_)) => alive = Some(read.at),
            (Record::Sent(mut sent), Some(header)) => {
                // Before its first play, a run copies records of the run that it resumes.
                sent.since = sent.since.or(alive.filter(|_| has_begun)).or_else(|| header.first_start());
                records.push(Record::Sent(sent));
            }
            (record, Some(_)) => {
                has_begun |= matches!(record, Record::Play(_));
                records.push(record);
            }
        }
    }
    match header {
        Some(header) => Ok(Journal { header, records, end, alive }),
        None => Err(Damage { line: 1, message: "the journal has no header".to_owned() }),
    }
}

/// A record whose place shares its texts with other records: all hosts have the same places.
fn shared(mut record: Record, texts: &mut HashSet<Arc<str>>) -> Record {
    let at = match &mut record {
        Record::Sent(sent) => &mut sent.at,
        Record::Item(item) => &mut item.at,
        Record::Done(done) => &mut done.at,
        _ => return record,
    };
    for text in [&mut at.path, &mut at.task] {
        match texts.get(text) {
            Some(known) => *text = Arc::clone(known),
            None => _ = texts.insert(Arc::clone(text)),
        }
    }
    record
}

/// Reads the journal in a file.
pub fn read_file(path: &Path) -> Result<Journal> {
    read_with(path, &|record| record)
}

/// Reads the journal in a file without arguments, and without results of tasks that went well. They are by far the
/// largest part.
pub(crate) fn read_outline(path: &Path) -> Result<Journal> {
    read_with(path, &|mut record| {
        match &mut record {
            Record::Sent(sent) => sent.args = ObjectText::default(),
            Record::Item(item) => {
                (item.effect, item.exact) = Default::default();
                item.origins.clear();
                if !item.status.failed && !item.status.unreachable {
                    item.result = ObjectText::default();
                }
            }
            Record::Done(done) => {
                (done.effect, done.exact) = Default::default();
                done.origins.clear();
                if !done.status.failed && !done.status.unreachable {
                    done.result = ObjectText::default();
                }
            }
            _ => {}
        }
        record
    })
}

fn read_with(path: &Path, keep: &dyn Fn(Record) -> Record) -> Result<Journal> {
    let fail = |why: String| Error::new(format!("the journal {} cannot be read: {why}", path.display()));
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    if file.metadata().map_err(|error| fail(error.to_string()))?.len() > FILE {
        return Err(fail(format!("it is larger than {FILE} bytes")));
    }
    collect(BufReader::new(file.take(FILE)), keep).map_err(|damage| {
        Error::new(format!("{}:{}: {}", path.display(), damage.line, damage.message))
            .hint("the journal is damaged: run the playbook without --resume")
    })
}

/// Reads only the header of the journal in a file; `None` if it has none.
pub fn read_header(path: &Path) -> Option<Header> {
    let mut line = Vec::new();
    BufReader::new(File::open(path).ok()?).take(LINE as u64).read_until(b'\n', &mut line).ok()?;
    match Record::read(&line).ok()? {
        Record::Run(header) if header.version == VERSION => Some(*header),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "{\"t\":\"run\",\"version\":1,\"run\":\"r\"}\n";

    #[test]
    fn truncated_or_damaged_last_line_skipped() {
        let record = "{\"t\":\"play\",\"play\":0,\"name\":\"p\"}\n";
        for tail in ["", "{\"t\":\"do", "\0\0\0\0", "garbage\n"] {
            let journal = read(format!("{HEADER}{record}{tail}").as_bytes()).unwrap();
            assert_eq!(journal.records.len(), 1, "{tail:?}");
        }
    }

    #[test]
    fn task_was_sent_after_the_last_sign_of_life_before_it() {
        let header =
            "{\"t\":\"run\",\"version\":1,\"started\":\"1970-01-01T00:00:05Z\",\"since\":\"1970-01-01T00:00:01Z\"}\n";
        let sent = |more: &str| {
            let at = "{\"play\":0,\"batch\":0,\"path\":\"\",\"task\":\"\"}";
            format!("{{\"t\":\"sent\",\"at\":{at},\"host\":\"a\"{more}}}\n")
        };
        let lines = [
            &sent(",\"since\":700"),
            "{\"t\":\"alive\",\"at\":6000}\n",
            &sent(""),
            "{\"t\":\"play\",\"play\":0,\"name\":\"p\"}\n",
            &sent(""),
        ];
        let journal = read(format!("{header}{}", lines.concat()).as_bytes()).unwrap();
        let since = |record: &Record| if let Record::Sent(sent) = record { sent.since } else { None };
        let since: Vec<_> = journal.records.iter().filter_map(since).collect();
        assert_eq!(since, [700, 1000, 6000], "a copy of an earlier release has the first start");
    }

    #[test]
    fn damaged_line_in_the_middle_fails_with_its_number() {
        let damage = read(format!("{HEADER}garbage\n{{\"t\":\"end\"}}\n").as_bytes()).unwrap_err();
        assert_eq!(damage.line, 2);
    }

    #[test]
    fn hostile_journals_are_refused() {
        let deep = format!("{HEADER}{{\"t\":\"x\",\"a\":{}\n{HEADER}", "[".repeat(100_000));
        for text in
            ["", "{}\n{}\n", "{\"t\":\"run\",\"version\":2}\n{\"t\":\"end\"}\n", &deep, &format!("{HEADER}{HEADER}x")]
        {
            assert!(read(text.as_bytes()).is_err(), "{}", &text[..text.len().min(80)]);
        }
    }
}
