//! `windlass explain task`.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use windlass_template::{Context, ErrorKind, Variable, reading};
use windlass_yaml::Node;

use super::steps::Steps;
use super::value::{self, MASK};
use super::when::of_run;
use super::{Explainer, Explanation, Numbered, place, table};
use crate::error::Result;
use crate::journal::{Done, Journal, Record};
use crate::strategy::explain::{Entered, InForce, Listed, Section, Until, outcome, sorted};
use crate::vars::{TaskScope, unless_omitted};

/// Keywords that are shown in lines of their own, or by `explain when`.
const APART: &[&str] = &["args", "name", "tags", "vars", "when"];

/// A value as a task sees it.
struct Seen {
    text: String,
    json: Json,
}

impl Explainer<'_> {
    /// Explains the tasks with a name: their place, arguments and keywords on the host.
    pub(super) fn about_task(&mut self, plays: Vec<Numbered>, task: &str) -> Result<Explanation> {
        let mut lines = Vec::new();
        let mut tasks = Vec::new();
        for (index, at, listed) in self.tasks_named(&plays, task)? {
            let (Some((number, entered)), Some(target)) = (plays.get(index), listed.get(at)) else { continue };
            let mut entered = entered.clone();
            let before = self.earlier(&plays, index, listed.get(..at).unwrap_or_default());
            let journal = self.recorded.as_ref().map(|recorded| &recorded.journal);
            entered.assume(&self.host, &before, Until::Task(target), journal)?;
            if !lines.is_empty() {
                lines.push(String::new());
            }
            tasks.push(self.task(*number, &entered, target, &mut lines));
        }
        let run = self.recorded.as_ref().map(|recorded| &recorded.journal.header.run);
        Ok(Explanation { lines, json: json!({"host": &*self.host, "run": run, "tasks": tasks}) })
    }

    fn task(&self, number: usize, entered: &Entered, target: &Listed, lines: &mut Vec<String>) -> Json {
        let task = &target.task;
        let conditions = entered.conditions(&self.host, task);
        let scope = entered.scope(&self.host, Some(task));
        // The first item of a loop, so that arguments have values.
        let item = conditions.groups.first();
        let plain = self.session.shared.run.engine.scope(Arc::clone(&scope) as _);
        let context = item.map_or(&plain, |group| &group.context);
        let role = task.frame.role().map(|role| role.name.to_string());
        lines.push(format!("{} ({})", conditions.label, self.places.span(&task.span)));
        let mut facts = vec![
            ("play", format!("{number} '{}' ({})", entered.name, self.places.span(&entered.play.span))),
            ("role", role.clone().unwrap_or_default()),
            ("section", word(target.section).to_owned()),
            ("action", task.action.clone()),
            ("tags", task.tags.join(", ")),
            ("conditions", if task.when.is_empty() { String::new() } else { task.when.len().to_string() }),
            ("item", item.and_then(|group| group.items.first()).cloned().unwrap_or_default()),
        ];
        facts.extend(target.includes.iter().map(|include| {
            (
                "included at",
                format!("{} ({})", crate::playbook::label::of_task(include, None), self.places.span(&include.span)),
            )
        }));
        let journal = self.recorded.as_ref().map(|recorded| &recorded.journal);
        let recorded = journal.and_then(|journal| outcome(journal, task, &self.host));
        if journal.is_some() {
            facts.push(("in this run", recorded.map_or_else(|| "it did not run".to_owned(), of_run)));
        }
        let sent = journal.and_then(|journal| sent(journal, recorded?));
        let rows: Vec<Vec<String>> = facts
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| vec![name.to_owned(), text])
            .collect();
        lines.extend(table(&rows, 2));

        let mut arguments = Map::new();
        let mut rows = Vec::new();
        for (key, node) in task.args.iter() {
            let mut seen = self.seen(&scope, context, node);
            // The run knew what its journal cannot restore.
            if let (None, Some(value)) = (
                seen.json.get("value").filter(|value| !value.is_null()),
                sent.as_ref().and_then(|sent| sent.get(&key.to_text())),
            ) {
                seen.text = value::short(value);
                seen.json["value"] = value.clone();
                seen.json["problem"] = Json::Null;
            }
            rows.push(vec![key.to_text(), seen.text, self.places.span(&node.span)]);
            arguments.insert(key.to_text(), seen.json);
        }
        section("arguments", rows, lines);

        let mut keywords = Map::new();
        let mut rows = Vec::new();
        for InForce { name, node, owner } in entered.keywords(task).into_iter().filter(|one| !APART.contains(&one.name))
        {
            let seen = self.seen(&scope, context, &node);
            rows.push(vec![name.to_owned(), seen.text, format!("{owner}, {}", self.places.span(&node.span))]);
            let mut json = seen.json;
            if let Some(map) = json.as_object_mut() {
                map.insert("owner".to_owned(), owner.into());
            }
            keywords.insert(name.to_owned(), json);
        }
        section("keywords", rows, lines);

        json!({
            "task": conditions.label,
            "place": place::json(Some(&task.span)),
            "play": {"number": number, "name": entered.name, "place": place::json(Some(&entered.play.span))},
            "role": role,
            "section": word(target.section),
            "included_by": target.includes.iter().map(|include| place::json(Some(&include.span))).collect::<Vec<_>>(),
            "action": task.action,
            "tags": &*task.tags,
            "arguments": arguments,
            "keywords": keywords,
            "recorded": recorded.map(of_run),
        })
    }

    /// A value as written and as the task sees it; secrets are masked.
    fn seen(&self, scope: &TaskScope, context: &Context, node: &Node) -> Seen {
        let (found, variables) = reading(|| unless_omitted(context, node));
        let steps = Steps::new(scope, context).of_all(&sorted(&variables));
        let is_secret = steps.iter().any(|step| step.secret.is_some())
            || value::secret("", &Variable::Text(node.clone())).is_some();
        let (text, shown, problem) = match found {
            Ok(Some(_)) if is_secret => (MASK.to_owned(), Some(Json::from(MASK)), None),
            Ok(Some(value)) => match value::known(&value) {
                Some(json) => (value::short(&json), Some(json), None),
                None => {
                    let reason = windlass_template::unknown_reason(&value).unwrap_or_default().to_owned();
                    (format!("unknown: {reason}"), None, Some(reason))
                }
            },
            Ok(None) => ("omitted".to_owned(), None, None),
            // Names and expressions of keywords such as `until` have no value before the task has run.
            Err(error) => match error.kind() {
                ErrorKind::Unknown { reason } => (format!("unknown: {reason}"), None, Some(reason.clone())),
                _ => (value::short(&node.to_json()), None, Some(error.to_string())),
            },
        };
        let written = if is_secret && !value::is_template(node) { Json::from(MASK) } else { node.to_json() };
        let json = json!({
            "value": shown,
            "written": written,
            "problem": problem,
            "place": place::json(Some(&node.span)),
        });
        Seen { text, json }
    }
}

/// Arguments that a run sent to a host for a task, masked; of a loop, the first item's.
fn sent(journal: &Journal, done: &Done) -> Option<Map<String, Json>> {
    journal.records.iter().find_map(|record| match record {
        Record::Sent(sent) if sent.at == done.at && sent.host == done.host && !sent.args.is_empty() => {
            Some(sent.args.read())
        }
        _ => None,
    })
}

fn section(title: &str, rows: Vec<Vec<String>>, lines: &mut Vec<String>) {
    if !rows.is_empty() {
        lines.push(format!("  {title}"));
        lines.extend(table(&rows, 4));
    }
}

fn word(section: Section) -> &'static str {
    match section {
        Section::Body => "tasks",
        Section::Rescue => "rescue",
        Section::Always => "always",
        Section::Handler => "handlers",
    }
}
