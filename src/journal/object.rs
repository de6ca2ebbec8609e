//! Mappings of records, kept as the texts that they are in the journal: as trees they would take up to 75 times as
//! much memory, and most are never read.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// JSON text of a mapping, which [`ObjectText::read`] parses. Clones share it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObjectText(Option<Arc<str>>);

impl ObjectText {
    /// Whether the mapping has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The text, on one line.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("{}")
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.read().shift_remove(key)
    }

    /// The mapping as a tree.
    pub fn read(&self) -> Map<String, Value> {
        // Texts were checked when they were read, so none fails here.
        self.0.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

impl Serialize for ObjectText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(self.as_str()).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ObjectText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ObjectText, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let Entries(count) = serde_json::from_str(text).map_err(D::Error::custom)?;
        Ok(ObjectText((count > 0).then(|| text.into())))
    }
}

/// Number of entries of a mapping whose values can be read: they nest no deeper than readers take.
struct Entries(usize);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        struct Counted;
        impl<'de> Visitor<'de> for Counted {
            type Value = Entries;

            fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
                text.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut count = 0;
                while map.next_entry::<IgnoredAny, Readable>()?.is_some() {
                    count += 1;
                }
                Ok(Entries(count))
            }
        }
        deserializer.deserialize_map(Counted)
    }
}

/// Any value; unlike [`IgnoredAny`], it is parsed as a tree would be, with the same limit of depth.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Readable, D::Error> {
        deserializer.deserialize_any(Readable)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Readable;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_str<E>(self, _: &str) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Readable, A::Error> {
        while list.next_element::<Readable>()?.is_some() {}
        Ok(Readable)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Readable, A::Error> {
        while map.next_entry::<Readable, Readable>()?.is_some() {}
        Ok(Readable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> serde_json::Result<ObjectText> {
        serde_json::from_str(text)
    }

    #[test]
    fn text_is_kept_as_it_was_and_read_when_it_is_needed() {
        let text = "{\"b\":[1,2.50,null,true],\"a\":{\"c\":\"\\u001b\"}}";
        let object = read(text).unwrap();
        assert_eq!(object.as_str(), text);
        assert_eq!(serde_json::to_string(&object).unwrap(), text);
        assert_eq!(Value::Object(object.read()), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(read(&Value::Object(object.read()).to_string()).unwrap().read(), object.read());
        assert!(read("{ }").unwrap().is_empty());
    }

    #[test]
    fn text_that_no_tree_could_be_made_of_is_refused_at_once() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(130), "]".repeat(130));
        for text in ["[1]", "1", "{\"a\":1e999}", "{\"a\":\"\\ud800\"}", "{\"a\":[}", &deep] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
