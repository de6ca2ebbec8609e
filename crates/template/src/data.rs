//! Plain data of the program that uses this library, read on use.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr};

/// An object without lazy, mutable or undefined members.
#[derive(Debug)]
pub(crate) struct Data(DynObject);

/// Wraps an object whose members are plain data but are read on use, such as a result on disk. Templates treat it as
/// any list or dict, and change only their own copy of it.
pub fn data(object: impl Object + 'static) -> Value {
    Value::from_object(Data(DynObject::new(Arc::new(object))))
}

/// The object that [`data`] wrapped; `None` if the value is another.
pub fn data_of<T: 'static>(value: &Value) -> Option<&T> {
    value.downcast_object_ref::<Data>()?.0.downcast_ref()
}

impl Data {
    /// Items of a list; `None` for a mapping.
    pub(crate) fn items(&self) -> Option<Vec<Value>> {
        matches!(self.0.repr(), ObjectRepr::Seq).then(|| self.0.try_iter().into_iter().flatten().collect())
    }

    /// Entries of a mapping.
    pub(crate) fn entries(&self) -> Vec<(Value, Value)> {
        self.0.try_iter_pairs().into_iter().flatten().collect()
    }
}

impl Object for Data {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.0.repr()
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get_value(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.enumerate()
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.0.enumerator_len()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use indexmap::IndexMap;
    use windlass_yaml::{Node, Span};

    use super::*;
    use crate::{Engine, LIBRARY, Options, Variable};

    #[derive(Debug)]
    struct Lines;

    impl Object for Lines {
        fn repr(self: &Arc<Self>) -> ObjectRepr {
            ObjectRepr::Seq
        }

        fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
            Some(Value::from(format!("line {}", key.as_usize()?)))
        }

        fn enumerate(self: &Arc<Self>) -> Enumerator {
            Enumerator::Seq(2)
        }
    }

    #[derive(Debug)]
    struct Result;

    impl Object for Result {
        fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
            (key.as_str()? == "lines").then(|| data(Lines))
        }

        fn enumerate(self: &Arc<Self>) -> Enumerator {
            Enumerator::Str(&["lines"])
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the template is the test's own")]
    fn rendered(template: &str) -> Value {
        let variables: IndexMap<Arc<str>, Variable> = IndexMap::from([("r".into(), Variable::Data(data(Result)))]);
        Engine::new(&LIBRARY, Options::default())
            .scope(Arc::new(variables))
            .render(&Node::of_project(template, Span::none()))
            .unwrap()
    }

    #[test]
    fn template_changes_its_own_copy_of_a_lazily_read_list_and_dict() {
        let text = |template| rendered(template).to_string();
        assert_eq!(text("{% set _ = r.lines.append('x') %}{{ r.lines | join(',') }}"), "line 0,line 1,x");
        assert_eq!(text("{% set _ = r.update({'a': 1}) %}{{ r.a }},{{ r.lines[1] }}"), "1,line 1");
        assert_eq!(
            text("{{ (r | combine({'a': 1})).keys() | list }} {{ r.lines | type_debug }}"),
            "['lines', 'a'] list"
        );
        assert!(data_of::<Result>(&rendered("{{ r }}")).is_some());
    }
}
