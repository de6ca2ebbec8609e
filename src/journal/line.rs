//! Writes the record of a task as a line, field by field. Every task and item has one: building a record first, and its
//! result as a tree, would take most of the journal's time.

use serde::Serialize;

use super::limit;
use super::record::Withheld;

/// Bytes that the fields of most records fit into, without the result. A buffer that grows is copied, and all copies
/// are zeroed.
const USUAL: usize = 1 << 10;

/// A record on its way into a line, with the fields of [`super::Record`].
pub(super) struct Line(Vec<u8>);

impl Line {
    /// Begins the record of this kind for a task on a host. `at` is the JSON text of its position; `room` is the
    /// expected size of a result, in bytes.
    pub(super) fn new(kind: &str, at: &str, host: &str, room: usize) -> Line {
        let mut line = Line(Vec::with_capacity(USUAL + room));
        for part in ["{\"t\":\"", kind, "\",\"at\":", at] {
            line.0.extend_from_slice(part.as_bytes());
        }
        line.field("host", host);
        line
    }

    /// Adds a field, or nothing if JSON cannot represent the value.
    pub(super) fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        let before = self.0.len();
        self.begin(name);
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.0.truncate(before);
        }
    }

    /// Adds a field within the limits of [`limit::append`], and `most` bytes at most. Adds nothing beyond them.
    pub(super) fn limited(&mut self, name: &str, value: &impl Serialize, most: usize) -> Result<(), Withheld> {
        let before = self.0.len();
        self.begin(name);
        let written = limit::append(&mut self.0, value, most);
        if written.is_err() {
            self.0.truncate(before);
        }
        written
    }

    /// Adds a field whose JSON text is known, unless it is empty.
    pub(super) fn text(&mut self, name: &str, json: &str) {
        if !json.is_empty() {
            self.begin(name);
            self.0.extend_from_slice(json.as_bytes());
        }
    }

    /// Adds a field if it has a value.
    pub(super) fn option(&mut self, name: &str, value: Option<impl Serialize>) {
        value.iter().for_each(|value| self.field(name, value));
    }

    /// Adds a list, unless it is empty.
    pub(super) fn list(&mut self, name: &str, texts: &[String]) {
        self.option(name, Some(texts).filter(|texts| !texts.is_empty()));
    }

    /// Adds the flags that hold.
    pub(super) fn flags(&mut self, flags: &[(&str, bool)]) {
        for (name, _) in flags.iter().filter(|(_, holds)| *holds) {
            self.text(name, "true");
        }
    }

    /// The whole line.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }

    fn begin(&mut self, name: &str) {
        for part in [",\"", name, "\":"] {
            self.0.extend_from_slice(part.as_bytes());
        }
    }
}
