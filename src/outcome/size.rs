//! Estimated sizes of values, because hosts choose the size of their answers.

use std::ops::{Add, Sub};

use indexmap::IndexMap;
use minijinja::value::{ObjectRepr, ValueKind};
use serde_json::Value as Json;
use windlass_template::{Value, data_of};

use super::lines::Lines;
use super::spill::Spilled;

/// Estimated overhead of one value and its place in a list or mapping, in bytes.
pub(crate) const VALUE: usize = 64;

/// Estimated size of values in bytes. Sums saturate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Part in memory.
    pub memory: usize,
    /// Part in the spill file.
    pub disk: usize,
}

impl Size {
    /// A size in memory alone.
    pub(crate) fn in_memory(memory: usize) -> Size {
        Size { memory, disk: 0 }
    }
}

impl Add for Size {
    type Output = Size;

    fn add(self, other: Size) -> Size {
        Size { memory: self.memory.saturating_add(other.memory), disk: self.disk.saturating_add(other.disk) }
    }
}

impl Sub for Size {
    type Output = Size;

    fn sub(self, other: Size) -> Size {
        Size { memory: self.memory.saturating_sub(other.memory), disk: self.disk.saturating_sub(other.disk) }
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Size>>(sizes: I) -> Size {
        sizes.fold(Size::default(), Add::add)
    }
}

/// Estimated size of a value. Text shared by two values counts twice, except in lines of an output.
pub(crate) fn size(value: &Value) -> Size {
    let mut walk = Walk::default();
    walk.count(value);
    while let Some(container) = walk.containers.pop() {
        walk.members(&container);
    }
    walk.total
}

/// Estimated size of a value as JSON, in bytes.
pub(crate) fn size_of_json(value: &Json) -> usize {
    let members = match value {
        Json::String(text) => text.len(),
        Json::Array(members) => members.iter().map(size_of_json).sum(),
        Json::Object(members) => members.iter().map(|(name, value)| name.len() + size_of_json(value)).sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
    };
    VALUE + members
}

/// A walk through a value. Only lists and mappings wait in it: most values are scalars, and every result is measured.
#[derive(Default)]
struct Walk {
    total: Size,
    containers: Vec<Value>,
}

impl Walk {
    /// Counts a value without its members.
    fn count(&mut self, value: &Value) {
        let Some(object) = value.as_object() else {
            return self.add(Size::in_memory(value.as_bytes().map_or(0, <[u8]>::len)));
        };
        if let Some(spilled) = data_of::<Spilled>(value) {
            self.add(spilled.size());
        } else if let Some(lines) = data_of::<Lines>(value) {
            self.add(Size::in_memory(lines.memory()));
        } else {
            self.add(Size::default());
            if object.repr() != ObjectRepr::Plain {
                self.containers.push(value.clone());
            }
        }
    }

    /// Adds a value with these bytes of its own.
    fn add(&mut self, own: Size) {
        self.total = self.total + Size::in_memory(VALUE) + own;
    }

    /// Counts the members of a list, or keys and values of a mapping.
    fn members(&mut self, container: &Value) {
        // Answers of modules are such mappings and lists; the general way copies every member.
        if let Some(map) = container.downcast_object_ref::<IndexMap<Value, Value>>() {
            map.iter().for_each(|(key, value)| {
                self.count(key);
                self.count(value);
            });
        } else if let Some(list) = container.downcast_object_ref::<Vec<Value>>() {
            list.iter().for_each(|item| self.count(item));
        } else {
            let is_map = container.kind() == ValueKind::Map;
            for (key, value) in container.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten() {
                // The keys of a list are its indexes, not values.
                if is_map {
                    self.count(&key);
                }
                self.count(&value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_counts_keys_texts_and_members() {
        let value = windlass_template::from_json(&serde_json::json!({"stdout": "x".repeat(1000), "lines": ["y", "z"]}));
        assert_eq!(size(&value), Size::in_memory(1000 + "stdout".len() + "lines".len() + 2 + 7 * VALUE));
    }
}
