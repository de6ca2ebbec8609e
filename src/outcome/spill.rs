//! Large values of registered results, in a file instead of memory.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;
use minijinja::value::{Enumerator, Object, ValueKind};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustix::fs::FallocateFlags;
use windlass_template::{Value, data_of};
use zeroize::Zeroizing;

use super::lines::Lines;
use super::size::{Size, VALUE, size};

/// Bytes that stay free on the file's disk, because journals and other programs need them.
const RESERVE: u64 = 1 << 30;

/// A file without a name. Results may contain secrets, so the file is encrypted with a key that only this process
/// knows.
pub struct SpillFile {
    file: File,
    key: LessSafeKey,
    end: Mutex<End>,
    reserve: u64,
}

/// Place of the next value.
#[derive(Default)]
struct End {
    offset: u64,
    /// Number of values so far, which makes the nonces.
    count: u64,
}

impl std::fmt::Debug for SpillFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpillFile").finish_non_exhaustive()
    }
}

impl SpillFile {
    /// Creates the file on the disk of a directory, which is created if it is missing.
    pub fn create(directory: &Path) -> io::Result<SpillFile> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret).map_err(io::Error::other)?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &*secret).map_err(|_| io::Error::other("the key was refused"))?;
        let file = tempfile::tempfile_in(directory)?;
        Ok(SpillFile { file, key: LessSafeKey::new(key), end: Mutex::default(), reserve: RESERVE })
    }

    /// Writes a value. Fails if too little space would stay free.
    pub(crate) fn write(self: &Arc<Self>, mut bytes: Vec<u8>) -> io::Result<Extent> {
        let disk = rustix::fs::fstatvfs(&self.file)?;
        let needed = self.reserve.saturating_add(bytes.len() as u64);
        if disk.f_bavail.saturating_mul(disk.f_frsize) < needed {
            return Err(io::Error::other(format!(
                "less than {} MiB of disk space would stay free",
                self.reserve >> 20
            )));
        }
        let length = bytes.len() + CHACHA20_POLY1305.tag_len();
        let (offset, number) = {
            let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
            let place = (end.offset, end.count);
            *end = End { offset: end.offset + length as u64, count: end.count + 1 };
            place
        };
        // From here on, dropping the extent frees its space, also after a failure.
        let extent = Extent { file: Arc::clone(self), offset, length, number };
        self.key
            .seal_in_place_append_tag(nonce(number), Aad::empty(), &mut bytes)
            .map_err(|_| io::Error::other("the value could not be encrypted"))?;
        self.file.write_all_at(&bytes, offset)?;
        Ok(extent)
    }
}

/// No nonce is used twice, because each value of a file has a number of its own.
fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Place of a value in the file. Dropping it frees the space.
#[derive(Debug)]
pub(crate) struct Extent {
    file: Arc<SpillFile>,
    offset: u64,
    length: usize,
    number: u64,
}

impl Extent {
    /// Reads the value again.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.length];
        self.file.file.read_exact_at(&mut bytes, self.offset)?;
        let opened = self.file.key.open_in_place(nonce(self.number), Aad::empty(), &mut bytes);
        let length = opened.map_err(|_| io::Error::other("its content was changed"))?.len();
        bytes.truncate(length);
        Ok(bytes)
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system without holes frees the space at the end of the run.
        let _ = rustix::fs::fallocate(&self.file.file, hole, self.offset, self.length as u64);
    }
}

/// A registered result with its large values on disk. Each is read again whenever it is used.
#[derive(Debug)]
pub(super) struct Spilled(IndexMap<Value, Entry>);

#[derive(Debug)]
enum Entry {
    Memory(Value),
    Text(Extent),
    Json(Extent),
    /// Lines of the text under another key.
    Lines(&'static str),
}

impl Spilled {
    /// Moves the values above `least` bytes to disk. Values that JSON cannot represent stay in memory.
    pub(super) fn value<'a>(
        entries: impl Iterator<Item = (&'a Arc<str>, &'a Value)>,
        file: &Arc<SpillFile>,
        least: usize,
    ) -> io::Result<Value> {
        let mut spilled = IndexMap::new();
        for (key, value) in entries {
            let form = if size(value).memory > least { Form::of(key, value) } else { None };
            let entry = match form {
                Some(Form::Text(text)) => Entry::Text(file.write(text.as_bytes().to_vec())?),
                Some(Form::Lines(of)) => Entry::Lines(of),
                Some(Form::Json) => Entry::Json(file.write(serde_json::to_vec(&windlass_template::to_json(value))?)?),
                None => Entry::Memory(value.clone()),
            };
            spilled.insert(Value::from(&**key), entry);
        }
        Ok(windlass_template::data(Spilled(spilled)))
    }

    /// Sizes of all entries.
    pub(super) fn size(&self) -> Size {
        let entry = |(key, entry): (&Value, &Entry)| {
            let key = Size::in_memory(VALUE + key.as_str().map_or(0, str::len));
            key + match entry {
                Entry::Memory(value) => size(value),
                Entry::Text(extent) | Entry::Json(extent) => Size { memory: VALUE, disk: extent.length },
                Entry::Lines(_) => Size::in_memory(VALUE),
            }
        };
        self.0.iter().map(entry).sum()
    }

    fn read(&self, entry: &Entry) -> io::Result<Value> {
        Ok(match entry {
            Entry::Memory(value) => value.clone(),
            Entry::Text(extent) => Value::from(String::from_utf8(extent.read()?).map_err(io::Error::other)?),
            Entry::Json(extent) => windlass_template::from_json(&serde_json::from_slice(&extent.read()?)?),
            Entry::Lines(of) => {
                let text = self.0.get(&Value::from(*of)).map(|entry| self.read(entry)).transpose()?;
                Lines::value(&text.unwrap_or_default())
            }
        })
    }
}

impl Object for Spilled {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(self.read(self.0.get(key)?).unwrap_or_else(|error| {
            let sentence = format!("A registered result cannot be read back from disk: {error}.");
            windlass_template::failed(windlass_template::Error::filter(sentence))
        }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.keys().cloned().collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Form of a value on disk.
enum Form<'a> {
    Text(&'a str),
    Lines(&'static str),
    Json,
}

impl Form<'_> {
    fn of<'a>(key: &str, value: &'a Value) -> Option<Form<'a>> {
        if data_of::<Lines>(value).is_some() {
            return match key {
                "stdout_lines" => Some(Form::Lines("stdout")),
                "stderr_lines" => Some(Form::Lines("stderr")),
                _ => None,
            };
        }
        match value.as_str() {
            Some(text) => Some(Form::Text(text)),
            None => is_json(value).then_some(Form::Json),
        }
    }
}

/// Whether a value read back from JSON is the same.
fn is_json(value: &Value) -> bool {
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::String => true,
        ValueKind::Number => match value.is_integer() {
            true => value.as_i64().is_some(),
            false => f64::try_from(value.clone()).is_ok_and(f64::is_finite),
        },
        ValueKind::Seq => value.downcast_object_ref::<Vec<Value>>().is_some_and(|items| items.iter().all(is_json)),
        ValueKind::Map => value
            .downcast_object_ref::<IndexMap<Value, Value>>()
            .is_some_and(|map| map.iter().all(|(key, value)| key.as_str().is_some() && is_json(value))),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use serde_json::json;

    use super::*;
    use crate::outcome::TaskResult;

    fn file() -> (tempfile::TempDir, Arc<SpillFile>) {
        let directory = tempfile::tempdir().unwrap();
        let file = SpillFile { reserve: 0, ..SpillFile::create(&directory.path().join("state")).unwrap() };
        (directory, Arc::new(file))
    }

    fn result() -> TaskResult {
        let nested = windlass_template::from_json(&json!([{"a": ["größe ".repeat(1000), 1.5, -3, null, true]}]));
        let result = TaskResult::ok(true).with("stdout", "line\n".repeat(1000)).with("rc", 0).with("nested", nested);
        result.with("bytes", Value::from_bytes(vec![255; 5000])).with_lines()
    }

    #[test]
    fn values_on_disk_are_those_of_the_result() {
        let (_directory, file) = file();
        let mut result = result();
        let before = result.to_value();
        assert_eq!(result.registered_size(), size(&before));
        result.spill(&file, 100).unwrap();
        let after = result.to_value();
        assert_eq!(windlass_template::to_json(&after).to_string(), windlass_template::to_json(&before).to_string());
        assert_eq!(after.get_attr("stdout_lines").unwrap().len(), Some(1000));
        assert_eq!(result.registered_size(), size(&after));
        let (before, after) = (size(&before), size(&after));
        assert!(before.disk == 0 && after.disk > 10_000, "{after:?}");
        assert!(after.memory + 10_000 < before.memory, "{before:?} {after:?}");
    }

    #[test]
    fn dropped_values_free_their_space() {
        let (_directory, file) = file();
        let mut results = vec![result(), result()];
        results.iter_mut().for_each(|result| result.spill(&file, 100).unwrap());
        file.file.sync_all().unwrap();
        let blocks = || file.file.metadata().unwrap().blocks();
        let before = blocks();
        results.pop();
        assert!(before > 0 && blocks() < before, "{before} and {} blocks", blocks());
    }

    #[test]
    fn file_changed_by_somebody_else_is_an_error() {
        let (_directory, file) = file();
        let mut result = result();
        result.spill(&file, 100).unwrap();
        file.file.write_all_at(b"x", 10).unwrap();
        let value = result.to_value();
        let spilled = data_of::<Spilled>(&value).unwrap();
        let error = spilled.read(&spilled.0[&Value::from("stdout")]).unwrap_err();
        assert!(error.to_string().contains("its content was changed"), "{error}");
    }

    #[test]
    fn nothing_is_written_to_a_disk_that_is_almost_full() {
        let (_directory, file) = file();
        let file = Arc::new(SpillFile { reserve: u64::MAX, ..Arc::into_inner(file).unwrap() });
        let error = result().spill(&file, 100).unwrap_err();
        assert!(error.to_string().contains("of disk space would stay free"), "{error}");
    }

    #[test]
    fn file_holds_no_plain_text() {
        let (_directory, file) = file();
        let mut result = TaskResult::new().with("stdout", "secret ".repeat(100));
        result.spill(&file, 100).unwrap();
        let mut bytes = vec![0; usize::try_from(file.file.metadata().unwrap().len()).unwrap()];
        file.file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.len() > 700 && !bytes.windows(6).any(|part| part == b"secret"));
    }
}
