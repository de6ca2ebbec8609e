//! Statements that edit a task at the debugger's prompt.

use std::sync::Arc;

use windlass_template::{Value, Variable};
use windlass_yaml::{Key, Node};

use super::{Edited, span};
use crate::playbook::Task;

/// The part of a task that a statement changes.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Args,
    Vars,
}

/// An edit whose expressions are not evaluated yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    target: Target,
    change: Change<'a>,
}

#[derive(Debug, PartialEq, Eq)]
enum Change<'a> {
    /// `task.args = VALUE`
    Replace(&'a str),
    /// `task.args[KEY] = VALUE`
    Set(&'a str, &'a str),
    /// `task.args.update(VALUE)`
    Update(&'a str),
    /// `del task.args[KEY]`
    Delete(&'a str),
}

impl<'a> Statement<'a> {
    /// Parses the subset of Python statements that the debugger supports.
    pub(super) fn read(line: &'a str) -> Option<Statement<'a>> {
        let (line, deletes) = match line.strip_prefix("del ") {
            Some(rest) => (rest.trim(), true),
            None => (line.trim(), false),
        };
        let (target, rest) = match (line.strip_prefix("task.args"), line.strip_prefix("task_vars")) {
            (Some(rest), _) => (Target::Args, rest.trim_start()),
            (_, Some(rest)) => (Target::Vars, rest.trim_start()),
            _ => return None,
        };
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, rest) = inner.split_once(']')?;
            if deletes {
                return rest.trim().is_empty().then_some(Statement { target, change: Change::Delete(key) });
            }
            let value = rest.trim_start().strip_prefix('=')?;
            return Some(Statement { target, change: Change::Set(key, value.trim()) });
        }
        if let Some(inner) = rest.strip_prefix(".update(") {
            return Some(Statement { target, change: Change::Update(inner.trim_end().strip_suffix(')')?) });
        }
        let value = rest.strip_prefix('=').filter(|value| !value.starts_with('='))?;
        Some(Statement { target, change: Change::Replace(value.trim()) })
    }

    /// Evaluates the expressions and applies the edit.
    pub(super) fn apply(
        &self,
        edited: &mut Edited,
        evaluate: &dyn Fn(&str) -> Result<Value, String>,
    ) -> Result<(), String> {
        let entries = |value: &Value| -> Vec<(String, Value)> {
            let keys = value.try_iter().into_iter().flatten();
            keys.filter_map(|key| Some((windlass_template::text(&key), value.get_item(&key).ok()?))).collect()
        };
        let mut removed = Vec::new();
        let mut set = Vec::new();
        match self.change {
            Change::Replace(value) => {
                if self.target == Target::Vars {
                    return Err("task_vars cannot be replaced as a whole".to_owned());
                }
                removed = edited.task.args.keys().map(Key::to_text).collect();
                set = entries(&evaluate(value)?);
            }
            Change::Set(key, value) => set.push((windlass_template::text(&evaluate(key)?), evaluate(value)?)),
            Change::Update(value) => set = entries(&evaluate(value)?),
            Change::Delete(key) => removed.push(windlass_template::text(&evaluate(key)?)),
        }
        match self.target {
            Target::Args => {
                let mut task = Task::clone(&edited.task);
                let mut args = (*task.args).clone();
                removed.iter().for_each(|name| {
                    args.remove(name);
                });
                for (name, value) in set {
                    // The value may come from a host, so it is data even if it looks like a template.
                    args.insert_str(&name, Node::from_json(&windlass_template::to_json(&value), &span()));
                }
                task.args = Arc::new(args);
                edited.task = Arc::new(task);
            }
            Target::Vars => {
                for name in removed {
                    let missing = windlass_template::undefined(&*name);
                    edited.vars.insert(name.into(), Variable::Data(missing));
                }
                edited.vars.extend(set.into_iter().map(|(name, value)| (Arc::from(name), Variable::Data(value))));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_parsed_like_python() {
        let read = |line| Statement::read(line).map(|statement| (statement.target, statement.change));
        assert_eq!(read("task.args['x'] = 1"), Some((Target::Args, Change::Set("'x'", "1"))));
        assert_eq!(read("task_vars[\"y\"]='a=b'"), Some((Target::Vars, Change::Set("\"y\"", "'a=b'"))));
        assert_eq!(read("del task.args['x']"), Some((Target::Args, Change::Delete("'x'"))));
        assert_eq!(read("task.args = {'a': 1}"), Some((Target::Args, Change::Replace("{'a': 1}"))));
        assert_eq!(read("task.args == 1"), None);
        assert_eq!(read("result = 1"), None);
    }
}
