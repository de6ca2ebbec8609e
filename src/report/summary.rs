//! Counts of a recorded run, read line by line without its results.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io::{BufReader, Read as _};
use std::path::Path;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use serde::Deserialize;

use super::model::HostRecap;
use super::outcome::Kind;
use crate::journal::{At, FILE, Header, LINE, Lines, Read, Status, read_header};

/// Maximum number of hosts.
const HOSTS: usize = 20_000;

/// Outcomes by host. Of a task that ran again, only the last outcome counts.
#[derive(Debug, Default)]
pub struct Tally {
    hosts: IndexMap<String, HostRecap>,
    /// Last outcomes by the number of their host and the hash of their place: a run that resumes another one and the
    /// debugger repeat tasks.
    last: HashMap<(usize, u64), Kind>,
    hasher: RandomState,
}

impl Tally {
    /// Number of a host, in the order of the first appearance. `None` beyond the limit of hosts.
    pub fn host(&mut self, host: &str) -> Option<usize> {
        if let Some(index) = self.hosts.get_index_of(host) {
            return Some(index);
        }
        let recap = HostRecap { host: host.to_owned(), ..HostRecap::default() };
        (self.hosts.len() < HOSTS).then(|| self.hosts.insert_full(host.to_owned(), recap).0)
    }

    /// Counts an outcome and returns the number of its host.
    pub fn count(&mut self, host: &str, at: &At, kind: Kind) -> Option<usize> {
        let index = self.host(host)?;
        let former = self.last.insert((index, self.hasher.hash_one(at)), kind);
        if let Some((_, recap)) = self.hosts.get_index_mut(index) {
            former.into_iter().for_each(|kind| recap.discount(kind));
            recap.count(kind);
        }
        Some(index)
    }

    /// Hosts in the order of their first appearance.
    pub fn recaps(&self) -> impl ExactSizeIterator<Item = &HostRecap> {
        self.hosts.values()
    }

    /// A host by its number.
    pub fn recap(&self, index: usize) -> Option<&HostRecap> {
        self.hosts.get_index(index).map(|(_, recap)| recap)
    }

    /// A host by its name.
    pub fn find(&self, host: &str) -> Option<&HostRecap> {
        self.hosts.get(host)
    }
}

/// A recorded run without its results.
#[derive(Debug)]
pub struct Summary {
    /// The first record.
    pub header: Header,
    /// Outcomes by host.
    pub tally: Tally,
    /// End in UTC, and exit code.
    pub end: Option<(String, u8)>,
    /// Hosts that the end names: they failed or were unreachable.
    pub failed: Vec<String>,
    /// Sentence about the line that is damaged; what follows it is not read.
    pub problem: Option<String>,
}

/// The parts of a record that are needed. All others are passed over without being built.
#[derive(Deserialize)]
struct Line {
    t: String,
    #[serde(default)]
    at: Option<Where>,
    #[serde(default)]
    host: String,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    rescuable: bool,
    #[serde(default)]
    ended: String,
    #[serde(default)]
    code: u8,
    #[serde(default)]
    failed: Vec<String>,
}

/// The `at` of a record: the place of a task, or the time of a sign of life.
#[derive(Deserialize)]
#[serde(untagged)]
enum Where {
    Place(At),
    Time(#[expect(dead_code, reason = "only places are counted")] u64),
}

impl Summary {
    /// Reads the journal in a file; `None` if it has no header. A damaged or truncated end leaves what precedes it.
    pub fn read(path: &Path) -> Option<Summary> {
        let header = read_header(path)?;
        let tally = Tally::default();
        let mut summary = Summary { tally, header, end: None, failed: Vec::new(), problem: None };
        let mut lines = Lines::new(BufReader::new(File::open(path).ok()?.take(FILE)), LINE);
        // A killed run leaves its last line truncated or damaged.
        let mut damaged = None;
        while let Some(line) = lines.next().ok()? {
            if let Some(number) = damaged {
                summary.problem = Some(format!("line {number} of the journal is not a record"));
                break;
            }
            let read = match line {
                Read::Whole(line) => serde_json::from_slice::<Line>(line).ok(),
                Read::Cut(_) | Read::TooLong => None,
            };
            match read {
                Some(read) => summary.add(read),
                None => damaged = Some(lines.number()),
            }
        }
        Some(summary)
    }

    /// Hosts that failed or were unreachable. A run that was interrupted names none at its end.
    pub fn failed_hosts(&self) -> BTreeSet<&str> {
        let counted = self.tally.recaps().filter(|recap| !recap.is_good()).map(|recap| recap.host.as_str());
        self.failed.iter().map(String::as_str).chain(counted).collect()
    }

    fn add(&mut self, line: Line) {
        match (line.t.as_str(), &line.at) {
            ("done", Some(Where::Place(at))) => {
                self.tally.count(&line.host, at, Kind::of(line.status, line.rescuable));
            }
            ("end", _) => {
                self.end = Some((line.ended, line.code));
                self.failed = line.failed;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "\"at\":{\"play\":0,\"batch\":0,\"path\":\"0\",\"task\":\"'t' (p:1)\"}";

    fn read(resumes: &str, lines: &str) -> Option<Summary> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let header = format!("{{\"t\":\"run\",\"version\":1,\"run\":\"r\"{resumes}}}\n");
        std::fs::write(file.path(), format!("{header}{lines}")).unwrap();
        Summary::read(file.path())
    }

    fn done(status: &str) -> String {
        format!("{{\"t\":\"done\",{AT},\"host\":\"h\",\"status\":{{{status}}},\"result\":{{\"a\":[1]}}}}\n")
    }

    #[test]
    fn last_outcome_of_a_repeated_task_counts() {
        let lines = done("\"failed\":true") + &done("\"changed\":true");
        let counted = read(",\"resumes\":\"q\"", &lines).unwrap();
        let recap = counted.tally.find("h").unwrap();
        assert_eq!((recap.failed, recap.ok, recap.changed), (0, 1, 1));
        let debugged = read("", &lines).unwrap();
        assert_eq!(debugged.tally.find("h").unwrap().worst(), Some(Kind::Changed));
    }

    #[test]
    fn damage_is_reported_only_before_the_end() {
        let end = "{\"t\":\"end\",\"code\":2,\"ended\":\"now\"}\n";
        for tail in ["", "{\"t\":\"do", "garbage\n"] {
            let summary = read("", &(done("") + end + tail)).unwrap();
            assert_eq!((summary.end, summary.problem), (Some(("now".to_owned(), 2)), None), "{tail:?}");
        }
        let alive = "{\"t\":\"alive\",\"at\":6000}\n";
        let lived = read("", &(done("") + alive + &done("") + end)).unwrap();
        assert!(lived.problem.is_none() && lived.end.is_some(), "{:?}", lived.problem);
        let damaged = read("", &(done("") + "garbage\n" + end)).unwrap();
        assert!(damaged.problem.unwrap().contains("line 3") && damaged.end.is_none());
        assert!(read("", "").is_some());
    }
}
