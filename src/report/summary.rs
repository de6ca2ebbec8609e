//! Counts of a recorded run, read line by line without its results.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use indexmap::IndexMap;
use serde::Deserialize;

use super::model::HostRecap;
use super::outcome::Kind;
use crate::journal::{At, Header, Status, read_header};

/// Maximum length of a line and of a journal that is read, in bytes.
const LINE: u64 = 8 << 20;
const FILE: u64 = 1 << 30;
/// Maximum number of hosts.
const HOSTS: usize = 20_000;

/// Outcomes by host. Of a task that ran again in a resumed run, only the last outcome counts.
#[derive(Debug, Default)]
pub struct Tally {
    hosts: IndexMap<String, HostRecap>,
    /// Last outcomes, of a run that resumes another one.
    last: Option<HashMap<(String, At), Kind>>,
}

impl Tally {
    /// An empty tally of the run with this header.
    pub fn of(header: &Header) -> Tally {
        Tally { hosts: IndexMap::new(), last: header.resumes.is_some().then(HashMap::new) }
    }

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
        let former = self.last.as_mut().and_then(|last| last.insert((host.to_owned(), at.clone()), kind));
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
    /// Sentence about the line that is damaged; what follows it is not read.
    pub problem: Option<String>,
}

/// The parts of a record that are needed. All others are passed over without being built.
#[derive(Deserialize)]
struct Line {
    t: String,
    #[serde(default)]
    at: Option<At>,
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
}

impl Summary {
    /// Reads the journal in a file; `None` if it has no header. A damaged or truncated end leaves what precedes it.
    pub fn read(path: &Path) -> Option<Summary> {
        let header = read_header(path)?;
        let mut summary = Summary { tally: Tally::of(&header), header, end: None, problem: None };
        let mut file = BufReader::new(File::open(path).ok()?.take(FILE));
        let mut line = Vec::new();
        // A killed run leaves its last line truncated or damaged.
        let mut damaged = None;
        for number in 1_usize.. {
            line.clear();
            let count = (&mut file).take(LINE + 1).read_until(b'\n', &mut line).ok()?;
            if count == 0 {
                break;
            }
            if let Some(number) = damaged {
                summary.problem = Some(format!("line {number} of the journal is not a record"));
                break;
            }
            if line.last() != Some(&b'\n') {
                damaged = Some(number);
                continue;
            }
            match serde_json::from_slice::<Line>(&line) {
                Ok(read) => summary.add(read),
                Err(_) => damaged = Some(number),
            }
        }
        Some(summary)
    }

    fn add(&mut self, line: Line) {
        match (line.t.as_str(), &line.at) {
            ("done", Some(at)) => {
                self.tally.count(&line.host, at, Kind::of(line.status, line.rescuable));
            }
            ("end", _) => self.end = Some((line.ended, line.code)),
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
    fn last_outcome_of_resumed_run_counts() {
        let lines = done("\"failed\":true") + &done("\"changed\":true");
        let counted = read(",\"resumes\":\"q\"", &lines).unwrap();
        let recap = counted.tally.find("h").unwrap();
        assert_eq!((recap.failed, recap.ok, recap.changed), (0, 1, 1));
        let both = read("", &lines).unwrap();
        assert_eq!(both.tally.find("h").unwrap().worst(), Some(Kind::Failed));
    }

    #[test]
    fn damage_is_reported_only_before_the_end() {
        let end = "{\"t\":\"end\",\"code\":2,\"ended\":\"now\"}\n";
        for tail in ["", "{\"t\":\"do", "garbage\n"] {
            let summary = read("", &(done("") + end + tail)).unwrap();
            assert_eq!((summary.end, summary.problem), (Some(("now".to_owned(), 2)), None), "{tail:?}");
        }
        let damaged = read("", &(done("") + "garbage\n" + end)).unwrap();
        assert!(damaged.problem.unwrap().contains("line 3") && damaged.end.is_none());
        assert!(read("", "").is_some());
    }
}
