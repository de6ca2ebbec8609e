//! Conditions of a task on a host, and their parts with their values.

use std::sync::Arc;

use windlass_template::{Context, ErrorKind, Part, PartKind, Value, Variable, Variables, parts, reading};
use windlass_yaml::{Node, Span};

use super::owner_of;
use crate::action::Failure;
use crate::playbook::Task;
use crate::strategy::execute::{Shared, TaskOnHost};
use crate::vars::World;

/// Maximum number of items of a loop to explain.
const ITEMS: usize = 100;

/// Truth of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Only a run can know the truth, for this reason.
    Unknown(String),
    /// The condition cannot be evaluated.
    Error(String),
}

/// An operand of a part.
#[derive(Debug, Clone)]
pub struct Operand {
    /// The operand as written.
    pub text: String,
    /// Value of the operand, or the reason why it has none.
    pub value: Result<Value, String>,
}

/// Part of a condition with its truth.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The part as written.
    pub text: String,
    /// Truth of the part.
    pub verdict: Verdict,
    /// Whether an earlier part decides, so that a run does not evaluate this one.
    pub is_idle: bool,
    /// `and`, `or`, `not`, or nothing.
    pub connective: &'static str,
    /// The parts that the connective joins.
    pub parts: Vec<Judged>,
    /// Operands of the part.
    pub operands: Vec<Operand>,
    /// Variables that it reads, directly or not.
    pub variables: Vec<Arc<str>>,
}

/// One condition of a task.
#[derive(Debug, Clone)]
pub struct Condition {
    /// Position of the condition.
    pub span: Span,
    /// Owner of the condition: `task`, `block`, `role` and so on.
    pub owner: &'static str,
    /// The condition with its parts.
    pub judged: Judged,
}

/// Conditions of a task on a host, for each item of its loop.
#[derive(Debug, Clone)]
pub struct TaskConditions {
    /// Label of the task.
    pub label: String,
    /// Conditions, once for all items with the same outcome.
    pub groups: Vec<Group>,
    /// Reason why the loop has no items.
    pub loop_problem: Option<Verdict>,
    /// Number of items that are not explained.
    pub left_out: usize,
}

/// Conditions of a task, or of items of its loop with the same outcome.
#[derive(Debug, Clone)]
pub struct Group {
    /// The items; none without a loop.
    pub items: Vec<String>,
    /// The conditions, with the values of the first item.
    pub conditions: Vec<Condition>,
    /// Variables of the task and the first item.
    pub context: Context,
}

impl Group {
    fn is_like(&self, other: &Group) -> bool {
        let verdicts =
            |group: &Group| group.conditions.iter().map(|one| one.judged.verdict.clone()).collect::<Vec<_>>();
        verdicts(self) == verdicts(other)
    }

    /// Truth of all conditions together.
    pub fn verdict(&self) -> Verdict {
        all(self.conditions.iter().map(|condition| &condition.judged.verdict))
    }
}

impl Judged {
    fn new(text: &str, verdict: Verdict) -> Judged {
        let (parts, operands, variables) = (Vec::new(), Vec::new(), Vec::new());
        Judged { text: text.to_owned(), verdict, is_idle: false, connective: "", parts, operands, variables }
    }
}

/// Truth of conditions that must all hold.
pub fn all<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Verdict {
    let mut whole = Verdict::True;
    for verdict in verdicts {
        match (verdict, &whole) {
            (Verdict::False, Verdict::True | Verdict::Unknown(_)) => return Verdict::False,
            (Verdict::Error(_), Verdict::True) => return verdict.clone(),
            (Verdict::Unknown(_), Verdict::True) => whole = verdict.clone(),
            _ => {}
        }
    }
    whole
}

/// Truth of conditions of which one must hold.
fn any<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Verdict {
    let mut whole = Verdict::False;
    for verdict in verdicts {
        match (verdict, &whole) {
            (Verdict::True, Verdict::False | Verdict::Unknown(_)) => return Verdict::True,
            (Verdict::Error(_), Verdict::False) => return verdict.clone(),
            (Verdict::Unknown(_), Verdict::False) => whole = verdict.clone(),
            _ => {}
        }
    }
    whole
}

/// Explains the conditions of a task.
pub(super) fn of_task(shared: &Arc<Shared>, world: &Arc<World>, host: &Arc<str>, task: &Arc<Task>) -> TaskConditions {
    let on_host = TaskOnHost::new(shared, world, task, host);
    let plain = on_host.scope();
    let label = super::label(task, &plain);
    let mut found = TaskConditions { label, groups: Vec::new(), loop_problem: None, left_out: 0 };
    let explain = |context: &Context| {
        let context = on_host.placement().with_connection(context, host);
        Group { items: Vec::new(), conditions: conditions(&context, task), context }
    };
    match on_host.open_loop(&plain) {
        Ok(None) => found.groups.push(explain(&plain)),
        Ok(Some(opened)) => {
            found.left_out = opened.items.len().saturating_sub(ITEMS);
            for (index, item) in opened.items.iter().enumerate().take(ITEMS) {
                let mut group = explain(&plain.with(opened.variables(index)));
                group.items.push(windlass_template::text(item));
                match found.groups.iter_mut().find(|other| other.is_like(&group)) {
                    Some(other) => other.items.append(&mut group.items),
                    None => found.groups.push(group),
                }
            }
        }
        Err(failure) => {
            let unknown = match &failure {
                Failure::Evaluation(error) => match error.kind() {
                    ErrorKind::Unknown { reason } => Some(reason.clone()),
                    _ => None,
                },
                _ => None,
            };
            let Some(reason) = unknown else {
                // A run evaluates the conditions without an item, and fails unless one of them is false.
                let result = failure.into_result(shared.run.settings.compat);
                let why = result.get("msg").map(windlass_template::text).unwrap_or_default();
                found.groups.push(explain(&plain));
                found.loop_problem = Some(Verdict::Error(why));
                return found;
            };
            let control = task.keywords.get("loop_control").and_then(|control| control.get("loop_var"));
            let name = control.and_then(Node::as_str).unwrap_or("item");
            let unknown = windlass_template::unknown(format!("`{name}`, an item of a loop that only a run knows"));
            let item = (Arc::from(name), Variable::Data(unknown));
            found.groups.push(explain(&plain.with(Variables::from_iter([item]))));
            found.loop_problem = Some(Verdict::Unknown(reason));
        }
    }
    found
}

fn conditions(context: &Context, task: &Task) -> Vec<Condition> {
    let one = |node: &Node| Condition {
        span: node.span.clone(),
        owner: owner_of(task, &node.span),
        judged: condition(context, node),
    };
    task.when.iter().map(one).collect()
}

/// Truth of a whole condition as a run evaluates it, with its parts.
fn condition(context: &Context, node: &Node) -> Judged {
    let text = node.scalar_text().unwrap_or_default();
    let (verdict, variables) = reading(|| verdict_of(context.condition(node)));
    let mut judged = match parts(&text).filter(|_| node.as_str().is_some() && !text.contains("{{")) {
        Some(part) => judge(context, node, &part),
        None => Judged::new(&text, verdict.clone()),
    };
    judged.text = text.trim().to_owned();
    judged.variables = sorted(&variables);
    // A run stops at the first unknown part, although another one may decide.
    if !matches!(verdict, Verdict::Unknown(_)) {
        judged.verdict = verdict;
    }
    judged
}

/// Names of variables that were read, in order.
pub(crate) fn sorted(variables: &windlass_template::Dependencies) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = variables.iter().filter(|name| !name.starts_with('(')).cloned().collect();
    names.sort();
    names
}

fn verdict_of(truth: Result<bool, windlass_template::Error>) -> Verdict {
    match truth {
        Ok(true) => Verdict::True,
        Ok(false) => Verdict::False,
        Err(error) => match error.kind() {
            ErrorKind::Unknown { reason } => Verdict::Unknown(reason.clone()),
            _ => Verdict::Error(error.to_string()),
        },
    }
}

fn value_of(context: &Context, written: &Node, text: &str) -> Result<Value, Verdict> {
    context.evaluate(&written.reworded(text)).map_err(|error| verdict_of(Err(error)))
}

fn judge(context: &Context, written: &Node, part: &Part) -> Judged {
    let text = &part.text;
    match &part.kind {
        PartKind::Test(operands) => {
            let (value, variables) = reading(|| value_of(context, written, text));
            let verdict = match &value {
                Ok(value) if value.is_true() => Verdict::True,
                Ok(_) => Verdict::False,
                Err(verdict) => verdict.clone(),
            };
            let operand = |text: &String| Operand {
                text: text.clone(),
                value: value_of(context, written, text).map_err(|verdict| match verdict {
                    Verdict::Unknown(reason) => format!("unknown: {reason}"),
                    Verdict::Error(reason) => reason,
                    Verdict::True | Verdict::False => String::new(),
                }),
            };
            let mut judged = Judged::new(text, verdict);
            judged.operands = operands.iter().map(operand).collect();
            if let Ok(value) = value.as_ref().map_err(|_| ()).and_then(|value| match value.kind() {
                minijinja::value::ValueKind::Bool => Err(()),
                _ => Ok(value),
            }) {
                judged.operands.push(Operand { text: text.clone(), value: Ok(value.clone()) });
            }
            judged.variables = sorted(&variables);
            judged
        }
        PartKind::Not(inner) => {
            let inner = judge(context, written, inner);
            let verdict = match &inner.verdict {
                Verdict::True => Verdict::False,
                Verdict::False => Verdict::True,
                other => other.clone(),
            };
            Judged { connective: "not", parts: vec![inner], ..Judged::new(text, verdict) }
        }
        PartKind::And(parts) => joined(context, written, text, parts, ("and", Verdict::False)),
        PartKind::Or(parts) => joined(context, written, text, parts, ("or", Verdict::True)),
    }
}

/// Parts joined by a connective, of which the first with the verdict `decisive` decides.
fn joined(
    context: &Context,
    written: &Node,
    text: &str,
    parts: &[Part],
    (connective, decisive): (&'static str, Verdict),
) -> Judged {
    let mut parts: Vec<Judged> = parts.iter().map(|part| judge(context, written, part)).collect();
    let first = parts.iter().position(|part| part.verdict == decisive || matches!(part.verdict, Verdict::Error(_)));
    if let Some(first) = first {
        parts.iter_mut().skip(first + 1).for_each(|part| part.is_idle = true);
    }
    let verdicts = parts.iter().map(|part| &part.verdict);
    let verdict = if connective == "and" { all(verdicts) } else { any(verdicts) };
    Judged { connective, parts, ..Judged::new(text, verdict) }
}
