//! Lists and dictionaries that templates can change in place: `{% set _ = list.append(x) %}`.

use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};

/// A mutable list.
#[derive(Debug)]
pub(crate) struct MutableList(Mutex<Vec<Value>>);

impl MutableList {
    pub(crate) fn value(items: Vec<Value>) -> Value {
        Value::from_object(MutableList(Mutex::new(items)))
    }

    /// Runs `work` on the items. It must not access the list otherwise, because the lock is held.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Vec<Value>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn snapshot(&self) -> Vec<Value> {
        self.with(|items| items.clone())
    }
}

/// Drops nested lists and dictionaries iteratively, because recursion would need a stack as deep as the data.
impl Drop for MutableList {
    fn drop(&mut self) {
        take_apart(std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner)));
    }
}

impl Drop for MutableDict {
    fn drop(&mut self) {
        let entries = std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        take_apart(entries.into_values().collect());
    }
}

fn take_apart(mut pending: Vec<Value>) {
    while let Some(value) = pending.pop() {
        if let Some(list) = value.downcast_object::<MutableList>() {
            drop(value);
            if let Some(mut list) = Arc::into_inner(list) {
                pending.append(list.0.get_mut().unwrap_or_else(PoisonError::into_inner));
            }
        } else if let Some(dict) = value.downcast_object::<MutableDict>() {
            drop(value);
            if let Some(mut dict) = Arc::into_inner(dict) {
                let entries = std::mem::take(dict.0.get_mut().unwrap_or_else(PoisonError::into_inner));
                pending.extend(entries.into_values());
            }
        }
    }
}

impl Object for MutableList {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let index = key.as_usize()?;
        self.with(|items| items.get(index).cloned())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.snapshot())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.with(|items| items.len()))
    }
}

/// A mutable dictionary.
#[derive(Debug)]
pub(crate) struct MutableDict(Mutex<IndexMap<Value, Value>>);

impl MutableDict {
    pub(crate) fn value(entries: impl IntoIterator<Item = (Value, Value)>) -> Value {
        Value::from_object(MutableDict(Mutex::new(entries.into_iter().collect())))
    }

    /// Runs `work` on the entries. It must not access the dictionary otherwise, because the lock is held.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut IndexMap<Value, Value>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn snapshot(&self) -> Vec<(Value, Value)> {
        self.with(|map| map.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

impl Object for MutableDict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.with(|map| map.get(key).cloned())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.with(|map| map.keys().cloned().collect()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.with(|map| map.len()))
    }
}
