//! Steps of templating: the variables that a value is built from, each with those that it is built from itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use windlass_template::{Context, ErrorKind, Variable, reading};
use windlass_yaml::Span;

use super::place::{self, Places};
use super::value::{self, MASK};
use crate::strategy::explain::is_item_of_block;
use crate::vars::TaskScope;

/// Maximum nesting of variables to show.
const DEPTH: usize = 30;

/// Magic variables that are too large to show.
const LARGE: &[&str] = &["ansible_facts", "groups", "hostvars"];

/// Stands for a large value that is left out.
pub(super) const TOO_LARGE: &str = "(too large to show)";

/// A variable with its value, and the variables that the value is built from.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) span: Option<Span>,
    /// Level of the definition, for people and for programs.
    pub(super) level: (String, &'static str),
    /// The value as written; `None` if only a run knows it.
    pub(super) written: Option<Json>,
    /// The rendered value, or the reason why there is none.
    pub(super) value: Result<Json, String>,
    /// Whether only a run knows the value.
    pub(super) is_unknown: bool,
    /// Reason why the value is masked.
    pub(super) secret: Option<String>,
    pub(super) uses: Vec<Step>,
}

impl Step {
    /// The rendered value as it may be shown.
    pub(super) fn shown(&self) -> Result<Json, String> {
        match (&self.secret, &self.value) {
            (Some(_), Ok(_)) => Ok(Json::from(MASK)),
            (_, value) => value.clone(),
        }
    }

    pub(super) fn is_defined(&self) -> bool {
        self.level.1 != "undefined"
    }

    pub(super) fn to_json(&self) -> Json {
        let shown = self.shown();
        json!({
            "name": self.name,
            "level": self.level.1,
            "description": self.level.0,
            "place": place::json(self.span.as_ref()),
            "written": self.written,
            "value": shown.as_ref().ok(),
            "unknown": self.is_unknown.then(|| shown.as_ref().err()),
            "problem": (!self.is_unknown).then(|| shown.as_ref().err()).flatten(),
            "secret": self.secret.is_some(),
            "secret_reason": self.secret,
            "uses": self.uses.iter().map(Step::to_json).collect::<Vec<_>>(),
        })
    }

    /// Lines for the variables below this one, and the value that they result in.
    pub(super) fn lines(&self, places: &Places, indent: usize, lines: &mut Vec<String>) {
        let margin = "  ".repeat(indent);
        for used in &self.uses {
            let is_large = used.value.as_ref().is_err_and(|reason| reason == TOO_LARGE);
            let absent = match used.is_defined() {
                true if is_large => TOO_LARGE,
                true => "unknown",
                false => "undefined",
            };
            let written = used.written.as_ref().map_or_else(|| absent.to_owned(), value::short);
            let at = used.span.as_ref().map(|span| format!(", {}", places.span(span))).unwrap_or_default();
            lines.push(format!("{margin}{} = {written}  ({}{at})", used.name, used.level.0));
            used.lines(places, indent + 1, lines);
        }
        if self.uses.is_empty() && self.value.as_ref().is_err_and(|reason| reason == TOO_LARGE) {
            return;
        }
        let is_result = !self.uses.is_empty() || self.value.as_ref().ok() != self.written.as_ref();
        if is_result {
            lines.push(match self.shown() {
                Ok(shown) => format!("{margin}-> {}", value::short(&shown)),
                Err(reason) if self.is_unknown => format!("{margin}-> unknown: {reason}"),
                Err(reason) => format!("{margin}-> fails: {reason}"),
            });
        }
    }
}

/// Whether a name that was read is a variable, rather than a function or a file.
fn is_variable(context: &Context, name: &str) -> bool {
    let is_function = windlass_template::uses::is_global(name) && context.definition(name).is_none();
    !name.starts_with('(') && !is_function
}

/// Finds steps in the variables of one scope.
pub(super) struct Steps<'a> {
    scope: &'a TaskScope,
    context: &'a Context,
    read: HashMap<String, Arc<BTreeSet<String>>>,
    /// Variables that lead to the current one. They are not followed again, so that a cycle ends.
    above: Vec<String>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(scope: &'a TaskScope, context: &'a Context) -> Steps<'a> {
        Steps { scope, context, read: HashMap::new(), above: Vec::new() }
    }

    /// A variable with all steps below it.
    pub(super) fn of(&mut self, name: &str) -> Step {
        self.step(name)
    }

    /// Steps for the variables that an expression reads. A variable that another of them reads appears only below that
    /// one.
    pub(super) fn of_all(&mut self, names: &[Arc<str>]) -> Vec<Step> {
        let variables = names.iter().filter(|name| is_variable(self.context, name));
        let names: BTreeSet<String> = variables.map(ToString::to_string).collect();
        self.direct(&names).iter().map(|name| self.step(name)).collect()
    }

    /// Variables that a variable is built from, directly or not.
    fn reads(&mut self, name: &str) -> Arc<BTreeSet<String>> {
        if let Some(known) = self.read.get(name) {
            return Arc::clone(known);
        }
        let (_, read) = reading(|| self.context.variable(name));
        let names = read.iter().filter(|other| ***other != *name && is_variable(self.context, other));
        let names: Arc<BTreeSet<String>> = Arc::new(names.map(ToString::to_string).collect());
        self.read.insert(name.to_owned(), Arc::clone(&names));
        names
    }

    /// Names that none of the other names is built from. If all of them refer to each other, returns all.
    fn direct(&mut self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let below: Vec<Arc<BTreeSet<String>>> = names.iter().map(|name| self.reads(name)).collect();
        let kept: BTreeSet<String> =
            names.iter().filter(|name| !below.iter().any(|reads| reads.contains(*name))).cloned().collect();
        if kept.is_empty() { names.clone() } else { kept }
    }

    fn step(&mut self, name: &str) -> Step {
        let rendered = self.context.variable(name);
        let (mut is_unknown, value) = match rendered {
            Ok(Some(_)) if LARGE.contains(&name) => (false, Err(TOO_LARGE.to_owned())),
            Ok(Some(value)) => (false, Ok(windlass_template::to_json(&value))),
            Ok(None) => (false, Err("undefined".to_owned())),
            Err(error) => match error.kind() {
                ErrorKind::Unknown { reason } => (true, Err(reason.clone())),
                _ => (false, Err(error.to_string())),
            },
        };
        let mut step = Step {
            name: name.to_owned(),
            span: None,
            level: ("not defined".to_owned(), "undefined"),
            written: None,
            value,
            is_unknown,
            secret: None,
            uses: Vec::new(),
        };
        let definition = self.scope.definitions(name).into_iter().next();
        // Loops and connections add variables to a task, which outrank all others.
        let is_data = matches!(&definition, Some(found)
            if matches!(found.variable, Variable::Data(_)) && !is_item_of_block(&found.variable));
        let is_added = !is_data && matches!(self.context.definition(name), Some(Variable::Data(_)));
        if self.scope.magic(name).is_some() {
            step.level = match name {
                "ansible_facts" => ("facts of the host".to_owned(), "facts"),
                _ => ("set by the engine".to_owned(), "magic"),
            };
            step.written = step.value.as_ref().ok().cloned();
            return step;
        }
        let Some(definition) = definition.filter(|_| !is_added) else {
            if is_added {
                let of_block = self.context.definition(name).is_some_and(|variable| is_item_of_block(&variable));
                let of =
                    if of_block { "item of the loop over a block" } else { "set by the task's loop or connection" };
                step.level = (of.to_owned(), "task");
                step.written = step.value.as_ref().ok().cloned();
            }
            return step;
        };
        let (world, host) = (self.scope.world(), self.scope.host());
        step.level = (place::level(definition.level, world, host), place::level_word(definition.level, world, host));
        step.span = definition.span;
        step.written = value::written(&definition.variable);
        step.secret = value::secret(name, &definition.variable).map(str::to_owned);
        if step.secret.is_some() {
            step.written = Some(Json::from(MASK));
            // A password may be missing, but nobody needs it here.
            if step.value.is_err() {
                (step.value, is_unknown) = (Ok(Json::from(MASK)), false);
                step.is_unknown = is_unknown;
            }
            return step;
        }
        let is_template = matches!(&definition.variable, Variable::Text(node) if value::is_template(node));
        let is_open = self.above.iter().any(|above| above == name);
        if is_template && !is_open && self.above.len() < DEPTH {
            let names = self.reads(name);
            self.above.push(name.to_owned());
            step.uses = self.direct(&names).iter().map(|name| self.step(name)).collect();
            self.above.pop();
            let of = step.uses.iter().find(|used| used.secret.is_some());
            step.secret = of.map(|used| format!("built from `{}`", used.name));
        }
        step
    }
}
