//! Ordered mappings with scalar keys.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::map::MutableKeys;
use indexmap::{Equivalent, IndexMap};

use crate::resolve::{Instant, instant};
use crate::{Node, Span, Value};

/// A mapping key: a scalar and its position.
///
/// Keys compare like a Python dict's keys: text equals text; `1`, `1.0` and `true` are one key; so are two spellings of
/// one timestamp.
#[derive(Clone, Debug)]
pub struct Key {
    /// Scalar value of the key.
    pub value: Value,
    /// Position of the scalar.
    pub span: Span,
}

impl Key {
    /// Creates a text key.
    pub fn string(text: impl Into<Arc<str>>, span: Span) -> Self {
        Self { value: Value::Literal(text.into()), span }
    }

    /// The text of a string key.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            Value::Literal(text) => Some(text),
            _ => None,
        }
    }

    /// The key as text, formatted as JSON would.
    pub fn to_text(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Vault(text) => text.to_string(),
            Value::Binary(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => self.as_node().scalar_text().unwrap_or_default(),
        }
    }

    /// The key as a node.
    pub fn as_node(&self) -> Node {
        Node { value: self.value.clone(), span: self.span.clone() }
    }

    fn identity(&self) -> Identity<'_> {
        match &self.value {
            Value::String(text) => Identity::Text(text),
            Value::Literal(text) => Identity::Text(text),
            Value::Bool(value) => Identity::Int(i64::from(*value)),
            Value::Int(value) => Identity::Int(*value),
            // In this range, every whole float equals exactly one integer.
            Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => Identity::Int(*value as i64),
            Value::Float(value) => Identity::Float(value.to_bits()),
            Value::BigInt(text) => Identity::Other(1, text.as_bytes()),
            Value::Vault(text) => Identity::Other(2, text.as_bytes()),
            Value::Timestamp(text) => match instant(text) {
                Some(instant) => Identity::Moment(instant),
                None => Identity::Other(3, text.as_bytes()),
            },
            Value::Binary(bytes) => Identity::Other(4, bytes),
            Value::Null | Value::List(_) | Value::Map(_) => Identity::Other(0, b""),
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
enum Identity<'a> {
    Text(&'a str),
    Int(i64),
    Float(u64),
    Moment(Instant),
    Other(u8, &'a [u8]),
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

struct Text<'a>(&'a str);

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Identity::Text(self.0).hash(state);
    }
}

impl Equivalent<Key> for Text<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        key.as_str() == Some(self.0)
    }
}

/// An ordered mapping from scalar keys to nodes. Looking up a variable searches many of them, so the hash is a fast one
/// with a random seed.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    entries: IndexMap<Key, Node, RandomState>,
}

impl Mapping {
    /// Creates an empty mapping.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value under a string key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.get(&Text(key))
    }

    /// The key as written, and the value, for a string key.
    pub fn get_entry(&self, key: &str) -> Option<(&Key, &Node)> {
        self.entries.get_key_value(&Text(key))
    }

    /// The key as written, and the value, for any key.
    pub fn get_key(&self, key: &Key) -> Option<(&Key, &Node)> {
        self.entries.get_key_value(key)
    }

    /// Whether a string key is present.
    pub fn contains_key(&self, key: &str) -> bool {
        self.entries.contains_key(&Text(key))
    }

    /// The entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &Node)> + ExactSizeIterator {
        self.entries.iter()
    }

    /// The keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Key> + ExactSizeIterator {
        self.entries.keys()
    }

    /// The values in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Node> + ExactSizeIterator {
        self.entries.values()
    }

    /// The entries whose keys are strings, in order.
    pub fn string_entries(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.entries.iter().filter_map(|(key, value)| Some((key.as_str()?, value)))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the mapping is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Inserts a value and returns the former one. An existing key keeps its place in the order but takes the new key's
    /// span.
    pub fn insert(&mut self, key: Key, value: Node) -> Option<Node> {
        let Some(index) = self.entries.get_index_of(&key) else {
            self.entries.insert(key, value);
            return None;
        };
        self.entries.get_index_mut2(index).map(|(former_key, former)| {
            *former_key = key;
            std::mem::replace(former, value)
        })
    }

    /// Inserts a value under a string key, which takes the value's position.
    pub fn insert_str(&mut self, key: &str, value: Node) -> Option<Node> {
        let key = Key::string(key, value.span.clone());
        self.insert(key, value)
    }

    /// Removes the value under a string key and keeps the order of the others.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        self.entries.shift_remove(&Text(key))
    }
}

impl PartialEq for Mapping {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl FromIterator<(Key, Node)> for Mapping {
    fn from_iter<I: IntoIterator<Item = (Key, Node)>>(entries: I) -> Self {
        let mut mapping = Self::new();
        mapping.extend(entries);
        mapping
    }
}

impl Extend<(Key, Node)> for Mapping {
    fn extend<I: IntoIterator<Item = (Key, Node)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl From<Vec<(Key, Node)>> for Mapping {
    fn from(entries: Vec<(Key, Node)>) -> Self {
        entries.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a Mapping {
    type Item = (&'a Key, &'a Node);
    type IntoIter = indexmap::map::Iter<'a, Key, Node>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i64) -> Node {
        Node::new(Value::Int(value), Span::none())
    }

    #[test]
    fn keys_compare_like_python() {
        let mut mapping = Mapping::new();
        mapping.insert(Key { value: Value::Int(1), span: Span::none() }, int(1));
        mapping.insert(Key { value: Value::Float(1.0), span: Span::none() }, int(2));
        mapping.insert(Key { value: Value::Bool(true), span: Span::none() }, int(3));
        mapping.insert(Key::string("1", Span::none()), int(4));
        mapping.insert(Key { value: Value::Literal("1".into()), span: Span::none() }, int(5));
        assert_eq!(mapping.len(), 2);
        assert_eq!(mapping.get("1"), Some(&int(5)));
    }

    #[test]
    fn a_replaced_key_keeps_its_place() {
        let mut mapping = Mapping::new();
        mapping.insert_str("a", int(1));
        mapping.insert_str("b", int(2));
        assert_eq!(mapping.insert_str("a", int(3)), Some(int(1)));
        let keys: Vec<_> = mapping.keys().filter_map(Key::as_str).collect();
        assert_eq!(keys, ["a", "b"]);
    }
}
