//! Segments: numbered pieces of the output and the journal of a run, each a ConfigMap.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::cluster::{CONFIG_MAP, Namespace};
use super::seal::Seal;
use super::{END, JOURNAL, SEAL, name_of};
use crate::error::{Error, Result};
use crate::journal::looks_like_run;

/// Maximum size of each part of a segment, in bytes. The server admits 1 MiB for both.
pub(super) const PART: usize = 448 << 10;
/// Maximum size of what a run stores, in bytes.
pub(super) const TOTAL: u64 = 64 << 20;

const OUTPUT_KEY: &str = "output";
const JOURNAL_KEY: &str = "journal";

/// A piece of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Segment {
    /// Bytes that continue the output.
    pub(super) output: Vec<u8>,
    /// Bytes that continue a journal, and its file name.
    pub(super) journal: Option<(String, Vec<u8>)>,
    /// Exit code of the run, which ends with this piece.
    pub(super) end: Option<u8>,
}

impl Segment {
    /// Size in bytes.
    pub(super) fn size(&self) -> u64 {
        (self.output.len() + self.journal.as_ref().map_or(0, |(_, bytes)| bytes.len())) as u64
    }

    /// Name of the object with this number, from 1.
    pub(super) fn name(run: &str, number: u32) -> String {
        format!("{}-{number:06}", name_of(run))
    }

    pub(super) fn object(&self, namespace: &Namespace, run: &str, number: u32, seal: &Seal) -> Value {
        let mut data = json!({});
        let code = self.with_parts(run, number, |parts| seal.code(parts));
        let mut annotations = json!({ SEAL: code });
        if !self.output.is_empty() {
            data[OUTPUT_KEY] = BASE64_STANDARD.encode(&self.output).into();
        }
        if let Some((file, bytes)) = &self.journal {
            data[JOURNAL_KEY] = BASE64_STANDARD.encode(bytes).into();
            annotations[JOURNAL] = file.clone().into();
        }
        if let Some(code) = self.end {
            annotations[END] = code.to_string().into();
        }
        let rest = json!({ "immutable": true, "annotations": annotations, "binaryData": data });
        namespace.object(CONFIG_MAP, &Segment::name(run, number), run, rest)
    }

    /// Calls `work` with the parts that the authentication code of the segment with this number covers.
    fn with_parts<T>(&self, run: &str, number: u32, work: impl FnOnce(&[&[u8]]) -> T) -> T {
        let (file, bytes) = self.journal.as_ref().map_or(("", &[][..]), |(file, bytes)| (file, bytes));
        let end = self.end.map(|code| [code]);
        let end = end.as_ref().map_or(&[][..], |code| code);
        work(&[b"segment", run.as_bytes(), &number.to_be_bytes(), &self.output, file.as_bytes(), bytes, end])
    }

    /// Reads the object with this number; `None` if the run has not written it.
    pub(super) fn of(object: &Value, run: &str, number: u32, seal: &Seal) -> Option<Segment> {
        let segment = Segment::parse(object).ok()?;
        segment.with_parts(run, number, |parts| seal.is_on(object, parts)).then_some(segment)
    }

    /// Reads an object, as data that anybody in its namespace may have written.
    fn parse(object: &Value) -> Result<Segment> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let part = |key: &str| -> Result<Vec<u8>> {
            let text = object["binaryData"][key].as_str().unwrap_or_default();
            let bytes = BASE64_STANDARD.decode(text).ok().filter(|bytes| bytes.len() <= PART);
            bytes.ok_or_else(|| Error::new(format!("the ConfigMap {name} is not a segment of a run: {key}")))
        };
        let (output, bytes) = (part(OUTPUT_KEY)?, part(JOURNAL_KEY)?);
        let journal = match object["metadata"]["annotations"][JOURNAL].as_str() {
            None => None,
            Some(file) if is_journal(file) => Some((file.to_owned(), bytes)),
            Some(_) => return Err(Error::new(format!("the ConfigMap {name} names no journal"))),
        };
        let end = object["metadata"]["annotations"][END].as_str().and_then(|code| code.parse().ok());
        Ok(Segment { output, journal, end })
    }
}

/// Whether a file name is that of a journal: `RUN.PROJECT.jsonl`.
pub(super) fn is_journal(file: &str) -> bool {
    let parts = file.strip_suffix(".jsonl").and_then(|name| name.split_once('.'));
    parts.is_some_and(|(run, project)| {
        looks_like_run(run) && project.len() == 16 && project.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "20260131-235959-0a1b2c.0123456789abcdef.jsonl";

    const RUN: &str = "20260131-235959-0a1b2c";

    fn seal() -> Seal {
        Seal::of(&[7; 32]).unwrap()
    }

    #[test]
    fn segment_read_as_written() {
        let segment =
            Segment { output: b"ok: [a]\n".to_vec(), journal: Some((FILE.to_owned(), b"{}\n".to_vec())), end: None };
        let object = segment.object(&Namespace::new("n"), RUN, 7, &seal());
        assert_eq!(object["metadata"]["name"], "windlass-20260131-235959-0a1b2c-000007");
        assert_eq!(Segment::of(&object, RUN, 7, &seal()), Some(segment));
        // A piece of the run in another place, and one of another run.
        assert_eq!(Segment::of(&object, RUN, 8, &seal()), None);
        assert_eq!(Segment::of(&object, RUN, 7, &Seal::of(&[8; 32]).unwrap()), None);
    }

    #[test]
    fn forged_segment_refused() {
        let mut object = Segment::default().object(&Namespace::new("n"), RUN, 1, &seal());
        object["binaryData"] = json!({ OUTPUT_KEY: BASE64_STANDARD.encode("forged") });
        assert_eq!(Segment::of(&object, RUN, 1, &seal()), None);
        let mut end = Segment { end: Some(2), ..Segment::default() }.object(&Namespace::new("n"), RUN, 1, &seal());
        assert_eq!(Segment::of(&end, RUN, 1, &seal()).and_then(|segment| segment.end), Some(2));
        end["metadata"]["annotations"][END] = "0".into();
        assert_eq!(Segment::of(&end, RUN, 1, &seal()), None);
        object["metadata"]["annotations"] = json!({ JOURNAL: "../../.ssh/authorized_keys" });
        assert!(Segment::parse(&object).unwrap_err().message().contains("names no journal"));
        object["metadata"]["annotations"] = json!({});
        object["binaryData"] = json!({ OUTPUT_KEY: BASE64_STANDARD.encode(vec![0; PART + 1]) });
        assert!(Segment::parse(&object).unwrap_err().message().contains("not a segment"));
        assert!(is_journal(FILE) && !is_journal("20260131-235959-0a1b2c.x.jsonl"));
    }
}
