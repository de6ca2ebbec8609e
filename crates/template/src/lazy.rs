//! Lists and mappings of the project, rendered item by item on use.
//!
//! An undefined value in `a.b` therefore does not affect `a.c`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use windlass_yaml::{Key, Mapping, Node, Value as Yaml};

use crate::context::Inner;
use crate::error::{Error, ErrorKind};
use crate::mark;
use crate::python::number::big_integer;
use crate::python::time;
use crate::syntax::is_template;
use crate::tracker::{self, Dependencies};

/// Rendered items by the address of their nodes, with the variables they depend on.
#[derive(Debug, Default)]
struct Cache(Mutex<HashMap<usize, (Value, Arc<Dependencies>)>>);

impl Cache {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, (Value, Arc<Dependencies>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rendered item. Its container is shared, so the node's address is stable.
    fn get(&self, context: &Weak<Inner>, node: &Node) -> Value {
        if let Some(value) = scalar(&node.value)
            && node.as_str().is_none_or(|text| !matches!(node.value, Yaml::String(_)) || !is_template(text))
        {
            return value;
        }
        let address = std::ptr::from_ref(node).addr();
        let cached = self.lock().get(&address).cloned();
        if let Some((value, dependencies)) = cached {
            tracker::depends_on(&dependencies);
            return value;
        }
        let Some(context) = context.upgrade() else {
            return mark::failed(Error::new(ErrorKind::Filter, "The variable outlived the task it was read for."));
        };
        let (value, dependencies) =
            tracker::collect(|| context.lazy(node).unwrap_or_else(|error| mark::failed(error.with_span(&node.span))));
        tracker::depends_on(&dependencies);
        // Another thread may have finished first; both values are the same.
        self.lock().entry(address).or_insert((value, dependencies)).0.clone()
    }
}

/// A list whose items are rendered on use.
#[derive(Debug)]
pub(crate) struct LazyList {
    nodes: Arc<[Node]>,
    context: Weak<Inner>,
    cache: Cache,
}

impl LazyList {
    pub(crate) fn value(nodes: Arc<[Node]>, context: &Arc<Inner>) -> Value {
        Value::from_object(LazyList { nodes, context: Arc::downgrade(context), cache: Cache::default() })
    }

    fn at(&self, index: usize) -> Option<Value> {
        Some(self.cache.get(&self.context, self.nodes.get(index)?))
    }

    /// All items; failed ones are marks.
    pub(crate) fn items(&self) -> Vec<Value> {
        (0..self.nodes.len()).filter_map(|index| self.at(index)).collect()
    }

    /// Unrendered node of an item.
    pub(crate) fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)
    }
}

impl Object for LazyList {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.at(key.as_usize()?)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.nodes.len())
    }
}

/// A mapping whose values are rendered on use.
#[derive(Debug)]
pub(crate) struct LazyDict {
    mapping: Arc<Mapping>,
    context: Weak<Inner>,
    cache: Cache,
}

impl LazyDict {
    pub(crate) fn value(mapping: Arc<Mapping>, context: &Arc<Inner>) -> Value {
        Value::from_object(LazyDict { mapping, context: Arc::downgrade(context), cache: Cache::default() })
    }

    /// All entries; failed values are marks.
    pub(crate) fn entries(&self) -> Vec<(Value, Value)> {
        self.mapping.iter().map(|(key, node)| (key_value(key), self.cache.get(&self.context, node))).collect()
    }

    /// Unrendered node of a key's value.
    pub(crate) fn node(&self, key: &str) -> Option<&Node> {
        self.mapping.get(key)
    }
}

impl Object for LazyDict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str() {
            Some(name) => self.get_value_by_str(name),
            None => {
                let (_, node) = self.mapping.iter().find(|(own, _)| key_value(own) == *key)?;
                Some(self.cache.get(&self.context, node))
            }
        }
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        Some(self.cache.get(&self.context, self.mapping.get(key)?))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.mapping.keys().map(key_value).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.mapping.len())
    }
}

/// Converts a key to a value.
pub(crate) fn key_value(key: &Key) -> Value {
    scalar(&key.value).unwrap_or_default()
}

/// Converts a scalar that is not a template; `None` for ciphertext and containers.
pub(crate) fn scalar(value: &Yaml) -> Option<Value> {
    Some(match value {
        Yaml::Null => Value::from(()),
        Yaml::Bool(value) => Value::from(*value),
        Yaml::Int(value) => Value::from(*value),
        Yaml::BigInt(digits) => big_integer(digits),
        Yaml::Float(value) => Value::from(*value),
        Yaml::String(text) => Value::from(Arc::<str>::from(text.clone())),
        Yaml::Literal(text) => Value::from(text.clone()),
        Yaml::Timestamp(text) => time::parse_yaml(text).unwrap_or_else(|| Value::from(text.clone())),
        Yaml::Binary(bytes) => Value::from_bytes(bytes.to_vec()),
        Yaml::Vault(_) | Yaml::List(_) | Yaml::Map(_) => return None,
    })
}

/// Whether the value is rendered on use and therefore tied to one context.
pub(crate) fn is_lazy(value: &Value) -> bool {
    value.downcast_object_ref::<LazyDict>().is_some() || value.downcast_object_ref::<LazyList>().is_some()
}
