//! Decodes the result of a module, of any JSON type. If a host answers with a list or a number, the error can name that
//! type instead of calling the whole frame invalid.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

/// The result of a module as its host sent it, not necessarily a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<V> {
    /// A mapping.
    Mapping(V),
    /// A value of another type, given with its article; it is not a valid result.
    Other(&'static str),
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Answer<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Kinds(PhantomData))
    }
}

struct Kinds<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Kinds<V> {
    type Value = Answer<V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the result of a module")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        V::deserialize(MapAccessDeserializer::new(map)).map(Answer::Mapping)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Answer::Other("a list"))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Answer::Other("a text"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Answer::Other("a boolean"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Answer::Other("a number"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Answer::Other("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Answer::Other("a number"))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Answer::Other("null"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_a_mapping_is_a_result() {
        let read = |text: &str| serde_json::from_str::<Answer<Value>>(text).unwrap();
        assert_eq!(read(r#"{"changed": [1]}"#), Answer::Mapping(json!({"changed": [1]})));
        let others = ["[{}]", "\"ok\"", "true", "1", "-1", "0.5", "null"].map(read);
        let kinds = ["a list", "a text", "a boolean", "a number", "a number", "a number", "null"];
        assert_eq!(others, kinds.map(Answer::Other));
    }
}
