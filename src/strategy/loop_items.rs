//! Loops of tasks: their items, and `loop_control`.

use std::sync::Arc;

use windlass_template::{Context, Value, Variable, Variables};
use windlass_yaml::Node;

use super::execute::TaskOnHost;
use crate::action::Failure;
use crate::outcome::{TaskResult, truth};
use crate::playbook::checked::{MOST_PARALLEL, is_parallel};
use crate::vars::{float, given, number};

/// A loop with its items and `loop_control` evaluated.
pub(super) struct Loop {
    pub(super) items: Vec<Value>,
    pub(super) loop_var: Arc<str>,
    pub(super) index_var: Option<Arc<str>>,
    pub(super) extended: bool,
    /// Whether `ansible_loop` contains all items.
    all_items: bool,
    pub(super) pause: f64,
    pub(super) break_when: Vec<Node>,
    /// Maximum number of items under way at the same time.
    pub(super) parallel: usize,
}

impl TaskOnHost {
    /// Evaluates the task's loop, if it has one.
    pub(super) fn open_loop(&self, context: &Context) -> Result<Option<Loop>, Failure> {
        let task = &self.task;
        let items = match (&task.with_lookup, task.keywords.get("loop")) {
            (None, None) => return Ok(None),
            (Some((lookup, terms)), _) => self.lookup_items(context, lookup, terms)?,
            (None, Some(node)) => {
                let value = crate::vars::render(context, node)?;
                if value.kind() != minijinja::value::ValueKind::Seq
                    && value.kind() != minijinja::value::ValueKind::Iterable
                {
                    return Err(Failure::Failed(format!(
                        "loop needs a list, but this is {}: {}",
                        windlass_template::type_name(&value),
                        windlass_template::text(&value)
                    )));
                }
                value.try_iter().into_iter().flatten().filter(|item| !windlass_template::is_omit(item)).collect()
            }
        };
        let control = task.keywords.get("loop_control");
        let field = |name: &str| -> Result<Option<Value>, Failure> {
            match control.and_then(|map| map.get(name)) {
                None => Ok(None),
                Some(node) => Ok(given(context, node)?),
            }
        };
        let parallel = field("parallel")?.map_or(Ok(1), |value| {
            let given = number(&value).and_then(|number| usize::try_from(number).ok());
            given.filter(|number| is_parallel(*number)).ok_or_else(|| {
                Failure::Failed(format!(
                    "`loop_control.parallel` must be a whole number from 1 to {MOST_PARALLEL}, not {}",
                    windlass_template::text(&value)
                ))
            })
        })?;
        Ok(Some(Loop {
            items,
            loop_var: field("loop_var")?
                .map(|value| Arc::from(windlass_template::text(&value)))
                .unwrap_or_else(|| Arc::from("item")),
            index_var: field("index_var")?.map(|value| Arc::from(windlass_template::text(&value))),
            extended: field("extended")?.is_some_and(|value| truth(&value)),
            all_items: field("extended_allitems")?.is_none_or(|value| truth(&value)),
            pause: field("pause")?.and_then(|value| float(&value)).unwrap_or(0.0),
            break_when: match control.and_then(|map| map.get("break_when")) {
                None => Vec::new(),
                Some(node) => node.as_list().map(<[Node]>::to_vec).unwrap_or_else(|| vec![node.clone()]),
            },
            parallel,
        }))
    }

    /// Warns if the variable of the loop hides another one.
    pub(super) fn warn_of_used_name(&self, context: &Context, opened: &Loop) {
        if !matches!(context.variable(&opened.loop_var), Ok(None)) {
            self.warn(format!(
                "The loop variable '{}' is already in use ({}). Give the loop another one with `loop_control: {{loop_var: ...}}`.",
                opened.loop_var, self.task.span
            ));
        }
    }

    /// Whether `break_when` ends the loop after this result.
    pub(super) fn breaks_off(&self, opened: &Loop, context: &Context, result: &TaskResult) -> bool {
        if opened.break_when.is_empty() {
            return false;
        }
        let seen = self.judge().with_registered(context, result);
        opened.break_when.iter().all(|condition| match seen.condition(condition) {
            Ok(holds) => holds,
            Err(error) => {
                self.warn(format!("break_when of the task at {} cannot be evaluated: {error}", self.task.span));
                false
            }
        })
    }

    fn lookup_items(&self, context: &Context, lookup: &str, terms: &Node) -> Result<Vec<Value>, Failure> {
        let short = crate::playbook::short_name(lookup);
        let loops_over_keys = short == "items" && self.shared.run.settings.compat.loops_over_keys();
        let rendered = match short {
            // `first_found` skips terms that are undefined, as it skips files that do not exist.
            "first_found" => context.render_defined(terms)?,
            _ => crate::vars::render(context, terms)?,
        };
        if short == "list" && rendered.kind() == minijinja::value::ValueKind::Map {
            return Err("with_list expects a list".into());
        }
        let terms: Vec<Value> = match rendered.kind() {
            minijinja::value::ValueKind::Seq => rendered.try_iter().into_iter().flatten().collect(),
            minijinja::value::ValueKind::Map if loops_over_keys => rendered.try_iter().into_iter().flatten().collect(),
            _ => vec![rendered],
        };
        let items = context.lookup(lookup, &terms, &windlass_template::LookupOptions::new())?;
        // Tasks receive a tuple as a list.
        let list = |item: Value| if item.is_tuple() { item.try_iter().into_iter().flatten().collect() } else { item };
        Ok(items.into_iter().map(list).collect())
    }
}

impl Loop {
    /// Loop variables of one item.
    pub(super) fn variables(&self, index: usize) -> Variables {
        let at = |index: usize| self.items.get(index).cloned();
        let mut vars = Variables::default();
        vars.insert(Arc::clone(&self.loop_var), Variable::Data(at(index).unwrap_or_default()));
        vars.insert(Arc::from("ansible_loop_var"), Variable::Data(Value::from(&*self.loop_var)));
        if let Some(name) = &self.index_var {
            vars.insert(Arc::clone(name), Variable::Data(Value::from(index)));
            vars.insert(Arc::from("ansible_index_var"), Variable::Data(Value::from(&**name)));
        }
        if self.extended {
            let length = self.items.len();
            let mut entries = Vec::new();
            if self.all_items {
                entries.push(("allitems", self.items.iter().cloned().collect::<Value>()));
            }
            entries.extend([
                ("index", Value::from(index + 1)),
                ("index0", Value::from(index)),
                ("first", Value::from(index == 0)),
                ("last", Value::from(index + 1 == length)),
                ("length", Value::from(length)),
                ("revindex", Value::from(length - index)),
                ("revindex0", Value::from(length - index - 1)),
            ]);
            if let Some(next) = at(index + 1) {
                entries.push(("nextitem", next));
            }
            if let Some(previous) = index.checked_sub(1).and_then(at) {
                entries.push(("previtem", previous));
            }
            vars.insert(Arc::from("ansible_loop"), Variable::Data(Value::from_pairs(entries)));
        }
        vars
    }
}
