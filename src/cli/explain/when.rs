//! `windlass explain when`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use windlass_template::Context;

use super::steps::{Step, Steps};
use super::value::{self, MASK};
use super::var::UNSEEN;
use super::{Explainer, Explanation, Numbered, place};
use crate::error::Result;
use crate::journal::{Done, Journal};
use crate::report::split;
use crate::strategy::explain::{
    Entered, Group, Judged, Listed, Section, TaskConditions, Until, Verdict, all, is_grouping, outcome, recorded,
};
use crate::vars::TaskScope;

/// Explanation of one task.
#[derive(Default)]
struct Explained {
    lines: Vec<String>,
    json: serde_json::Map<String, Json>,
}

impl Explainer<'_> {
    /// Explains why tasks with a name would run on the host or be skipped.
    pub(super) fn when(&mut self, plays: Vec<Numbered>, task: &str) -> Result<Explanation> {
        let mut lines = Vec::new();
        let mut tasks = Vec::new();
        for (index, at, listed) in self.tasks_named(&plays, task)? {
            let Some((number, entered)) = plays.get(index) else { continue };
            let (before, rest) = listed.split_at(at);
            let Some(target) = rest.first() else { continue };
            let earlier = self.earlier(&plays, index, before);
            let explained = self.of_task(*number, entered.clone(), &earlier, target)?;
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.extend(explained.lines);
            tasks.push(Json::Object(explained.json));
        }
        let run = self.recorded.as_ref().map(|recorded| &recorded.journal.header.run);
        Ok(Explanation { lines, json: json!({"host": &*self.host, "run": run, "tasks": tasks}) })
    }

    fn of_task(&self, number: usize, mut entered: Entered, before: &[Listed], target: &Listed) -> Result<Explained> {
        let journal = self.recorded.as_ref().map(|recorded| &recorded.journal);
        let host = Arc::clone(&self.host);
        let task = &target.task;
        entered.assume(&host, before, Until::Task(target), journal)?;
        let conditions = entered.conditions(&host, task);
        let mut found = Explained::default();
        found.lines.push(format!("{} ({})", conditions.label, self.places.span(&task.span)));
        found.lines.push(format!(
            "  on {host}, play {number} '{}' ({})",
            entered.name,
            self.places.span(&entered.play.span)
        ));
        let reasons = reasons(&entered, target, &host);
        let mut chain = Vec::new();
        for include in &target.includes {
            chain.push((include, entered.conditions(&host, include)));
        }
        let own: Vec<Verdict> = conditions.groups.iter().map(Group::verdict).collect();
        let outer: Vec<Verdict> = chain.iter().flat_map(|(_, found)| found.groups.iter().map(Group::verdict)).collect();
        let (mut word, mut sentence) = result(&reasons, &outer, &own, conditions.loop_problem.as_ref());
        let recorded = journal.and_then(|journal| outcome(journal, task, &host));
        if let (Some(journal), None) = (journal, recorded)
            && is_recorded(target)
            && !matches!(word, "not_run")
            && !matches!(all(outer.iter()), Verdict::False)
        {
            (word, sentence) = ("not_reached", format!("not reached: {}", self.stop(journal, before)));
        }
        found.lines.push(format!("  result: {sentence}"));
        found.lines.extend(reasons.iter().map(|(_, reason)| format!("  {reason}")));
        let groupings: Vec<&Listed> = before.iter().filter(|listed| is_grouping(&listed.task)).collect();
        if !entered.has(&host) && journal.is_none() && !groupings.is_empty() {
            found.lines.push(format!("  {UNSEEN}"));
            found.lines.extend(groupings.iter().map(|listed| format!("    {}", self.grouping(&listed.task))));
        }
        match recorded {
            Some(done) => found.lines.push(format!("  in this run: {}", of_run(done))),
            None if journal.is_some() && matches!(target.section, Section::Rescue | Section::Handler) => {
                found.lines.push("  in this run: it did not run".to_owned());
            }
            None => {}
        }
        let mut includes = Vec::new();
        for (include, conditions) in &chain {
            let at = self.places.span(&include.span);
            found.lines.push(format!("  included by '{}' ({at})", conditions.label));
            let scope = entered.scope(&host, Some(include));
            let json = self.conditions(&scope, conditions, &mut found.lines);
            includes.push(json!({"task": conditions.label, "place": place::json(Some(&include.span)), "items": json}));
        }
        let scope = entered.scope(&host, Some(task));
        let items = self.conditions(&scope, &conditions, &mut found.lines);
        found.json.insert("task".to_owned(), conditions.label.clone().into());
        found.json.insert("place".to_owned(), place::json(Some(&task.span)));
        let play = json!({"number": number, "name": entered.name, "place": place::json(Some(&entered.play.span))});
        found.json.insert("play".to_owned(), play);
        found.json.insert("result".to_owned(), word.into());
        let reasons: Vec<Json> = reasons.iter().map(|(word, text)| json!({"kind": word, "text": text})).collect();
        found.json.insert("reasons".to_owned(), reasons.into());
        found.json.insert("included_by".to_owned(), includes.into());
        found.json.insert("items".to_owned(), items);
        let recorded = recorded.map(|done| {
            json!({
                "skipped": done.status.skipped,
                "failed": done.status.failed,
                "changed": done.status.changed,
                "false_condition": done.result.get("false_condition"),
            })
        });
        found.json.insert("recorded".to_owned(), recorded.unwrap_or_default());
        Ok(found)
    }

    /// Describes where a run stopped on the host before a task that it did not reach.
    fn stop(&self, journal: &Journal, before: &[Listed]) -> String {
        let host = &*self.host;
        let known: HashSet<String> = before.iter().map(|listed| recorded(&listed.task)).collect();
        let own: Vec<&Done> = journal.outcomes().into_iter().filter(|done| done.host == *host).collect();
        let is_before = |done: &&Done| known.contains(&*done.at.task) || done.action == "gather_facts";
        let at = |done: &Done| {
            let (name, place) = split(&done.at.task);
            let place = place.map(|place| format!(" ({})", self.places.path(Path::new(place)))).unwrap_or_default();
            format!("'{name}'{place}")
        };
        let last = own.iter().rposition(is_before);
        let next = last.map_or(0, |last| last + 1);
        match (last.and_then(|last| own.get(last)), own.get(next)) {
            (Some(last), Some(next)) => {
                format!("after {}, where {}, the run went on at {}", at(last), of_run(last), at(next))
            }
            (Some(last), None) => format!("the run ended at {} on {host}, where {}", at(last), of_run(last)),
            (None, Some(next)) => format!("the run began at {} on {host}", at(next)),
            (None, None) => match &journal.header.limit {
                Some(limit) => format!("the run has no task of {host}; its --limit was `{limit}`"),
                None => format!("the run has no task of {host}"),
            },
        }
    }

    /// Prints the conditions of a task, and returns them as JSON.
    fn conditions(&self, scope: &TaskScope, found: &TaskConditions, lines: &mut Vec<String>) -> Json {
        if let Some(problem) = &found.loop_problem {
            lines.push(format!("  loop: {}", verdict(problem)));
        }
        let mut groups = Vec::new();
        for group in &found.groups {
            let Group { items, conditions, context } = group;
            if !items.is_empty() {
                let shown: Vec<&str> = items.iter().take(10).map(String::as_str).collect();
                let more = if items.len() > 10 { format!(" and {} more", items.len() - 10) } else { String::new() };
                lines.push(format!("  item {}{more}: {}", shown.join(", "), of_item(&group.verdict())));
            }
            if conditions.is_empty() {
                lines.push("  no condition".to_owned());
            }
            let mut shown = Vec::new();
            for condition in conditions {
                let at = self.places.span(&condition.span);
                let owner = if condition.owner == "task" { "when" } else { condition.owner };
                let judged = &condition.judged;
                lines.push(format!("  {owner} at {at}: {}", verdict(&judged.verdict)));
                let steps = self.part(scope, context, judged, 2, lines);
                let is_secret = steps.iter().any(|step| step.secret.is_some());
                let mut json = part_json(judged, is_secret);
                if let Some(map) = json.as_object_mut() {
                    map.insert("place".to_owned(), place::json(Some(&condition.span)));
                    map.insert("owner".to_owned(), condition.owner.into());
                    map.insert("variables".to_owned(), steps.iter().map(Step::to_json).collect());
                }
                shown.push(json);
            }
            groups.push(json!({"items": items, "verdict": verdict_word(&group.verdict()), "conditions": shown}));
        }
        if found.left_out > 0 {
            lines.push(format!("  {} further items are not shown", found.left_out));
        }
        Json::Array(groups)
    }

    /// Prints a part of a condition with its operands and variables. Returns the variables of the whole.
    fn part(
        &self,
        scope: &TaskScope,
        context: &Context,
        judged: &Judged,
        indent: usize,
        lines: &mut Vec<String>,
    ) -> Vec<Step> {
        let margin = "  ".repeat(indent);
        let idle = if judged.is_idle { ", not needed" } else { "" };
        lines.push(format!("{margin}{}{idle}: {}", verdict_word(&judged.verdict), one_line(&judged.text)));
        let mut steps = Steps::new(scope, context).of_all(&judged.variables);
        let is_secret = steps.iter().any(|step| step.secret.is_some());
        for operand in judged.operands.iter().filter(|_| !judged.is_idle || judged.parts.is_empty()) {
            let is_variable = steps.iter().any(|step| step.name == operand.text);
            if is_variable {
                continue;
            }
            let shown = match &operand.value {
                Ok(_) if is_secret => MASK.to_owned(),
                Ok(value) => value::known(value).map_or_else(|| "unknown".to_owned(), |json| value::short(&json)),
                Err(reason) => reason.clone(),
            };
            lines.push(format!("{margin}  {} = {shown}", one_line(&operand.text)));
        }
        if judged.parts.is_empty() {
            self.variables(&steps, indent + 1, lines);
        }
        for part in &judged.parts {
            steps.extend(self.part(scope, context, part, indent + 1, lines));
        }
        steps.dedup_by(|one, other| one.name == other.name);
        steps
    }

    fn variables(&self, steps: &[Step], indent: usize, lines: &mut Vec<String>) {
        let margin = "  ".repeat(indent);
        for step in steps {
            let at = step.span.as_ref().map(|span| format!(", {}", self.places.span(span))).unwrap_or_default();
            let shown = match step.shown() {
                Ok(json) => value::short(&json),
                Err(reason) if step.is_unknown => format!("unknown: {reason}"),
                Err(reason) => reason,
            };
            lines.push(format!("{margin}{} = {shown}  ({}{at})", step.name, step.level.0));
        }
    }
}

/// Reasons other than conditions why a task runs or not; the first word is for programs.
fn reasons(entered: &Entered, target: &Listed, host: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if !entered.has(host) {
        found.push((
            "not_in_play",
            format!("the host is not in the play, whose hosts are `{}`", entered.patterns.join(",")),
        ));
    }
    if !entered.selects(&target.task) && !target.task.handler {
        let tags = target.task.tags.join(", ");
        let own = if tags.is_empty() { "it has no tags".to_owned() } else { format!("its tags are {tags}") };
        found.push(("tags", format!("the selected tags leave the task out: {own}")));
    }
    match target.section {
        Section::Rescue => found.push(("rescue", "it runs only after a failure in its block".to_owned())),
        Section::Handler => {
            found.push(("handler", "it is a handler and runs only if a changed task notifies it".to_owned()))
        }
        Section::Body | Section::Always => {}
    }
    if target.task.keyword("run_once").is_some_and(|node| node.as_bool() != Some(false)) {
        let first = entered.hosts.first().map(|first| &**first).unwrap_or_default();
        if first != host {
            found.push((
                "run_once",
                format!("`run_once`: `{first}` runs it for all hosts, if no `serial` splits the play"),
            ));
        }
    }
    found
}

/// Result for programs and for people.
fn result(
    reasons: &[(&'static str, String)],
    outer: &[Verdict],
    own: &[Verdict],
    loop_problem: Option<&Verdict>,
) -> (&'static str, String) {
    let stops = reasons.iter().any(|(kind, _)| matches!(*kind, "not_in_play" | "tags"));
    if stops {
        return ("not_run", "it does not run on this host".to_owned());
    }
    let outer = all(outer.iter());
    match (&outer, own) {
        (Verdict::False, _) => ("skipped", "skipped, because its include is skipped".to_owned()),
        (Verdict::Error(reason), _) => ("fails", format!("its include fails: {reason}")),
        (Verdict::Unknown(reason), _) => ("unknown", format!("unknown: {reason}")),
        (Verdict::True, []) => ("skipped", "skipped, because its loop has no items".to_owned()),
        (Verdict::True, [Verdict::True | Verdict::Unknown(_) | Verdict::Error(_)])
            if matches!(loop_problem, Some(Verdict::Error(_))) =>
        {
            ("fails", "it fails, because its loop does".to_owned())
        }
        (Verdict::True, [Verdict::True]) if loop_problem.is_some() => {
            ("unknown", "unknown: it depends on its loop".to_owned())
        }
        (Verdict::True, [one]) => match one {
            Verdict::True => ("runs", "it runs".to_owned()),
            Verdict::False => ("skipped", "skipped, because a condition is false".to_owned()),
            Verdict::Unknown(reason) => ("unknown", format!("unknown: {reason}")),
            Verdict::Error(reason) => ("fails", format!("it fails: {}", one_line(reason))),
        },
        (Verdict::True, _) => ("items", "it depends on the item of its loop".to_owned()),
    }
}

fn of_item(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::True => "runs",
        Verdict::False => "skipped",
        Verdict::Unknown(_) => "unknown",
        Verdict::Error(_) => "fails",
    }
}

fn verdict_word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::True => "true",
        Verdict::False => "false",
        Verdict::Unknown(_) => "unknown",
        Verdict::Error(_) => "error",
    }
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Unknown(reason) => format!("unknown: {reason}"),
        Verdict::Error(reason) => format!("error: {}", one_line(reason)),
        other => verdict_word(other).to_owned(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn part_json(judged: &Judged, is_secret: bool) -> Json {
    let operand = |operand: &crate::strategy::explain::Operand| {
        let known = operand.value.as_ref().ok().and_then(value::known);
        let known = known.map(|known| if is_secret { MASK.into() } else { known });
        json!({"text": operand.text, "value": known, "problem": operand.value.as_ref().err()})
    };
    let reason = match &judged.verdict {
        Verdict::Unknown(reason) | Verdict::Error(reason) => Some(reason),
        Verdict::True | Verdict::False => None,
    };
    json!({
        "text": judged.text,
        "verdict": verdict_word(&judged.verdict),
        "reason": reason,
        "needed": !judged.is_idle,
        "connective": if judged.connective.is_empty() { None } else { Some(judged.connective) },
        "operands": judged.operands.iter().map(operand).collect::<Vec<_>>(),
        "parts": judged.parts.iter().map(|part| part_json(part, is_secret)).collect::<Vec<_>>(),
    })
}

/// Whether the journal of a run has an outcome of this task wherever the run reached it. `meta` and includes leave
/// none, and tasks of `rescue` and handlers run only after a failure or a notification.
fn is_recorded(target: &Listed) -> bool {
    let is_step = target.task.is_include() || matches!(target.task.short_action(), "meta" | "import_role");
    !is_step && matches!(target.section, Section::Body | Section::Always)
}

/// Outcome of a task in a run.
pub(super) fn of_run(done: &Done) -> String {
    let status = done.status;
    let word = match () {
        () if status.unreachable => "the host was unreachable",
        () if status.failed => "it failed",
        () if status.skipped => "it was skipped",
        () if status.changed => "it ran and changed the host",
        () => "it ran and changed nothing",
    };
    let condition = done.result.get("false_condition");
    let condition = condition.map(|condition| condition.as_str().map_or_else(|| condition.to_string(), str::to_owned));
    match condition {
        Some(condition) => format!("{word}, because `{}` was false", one_line(&condition)),
        None => word.to_owned(),
    }
}
