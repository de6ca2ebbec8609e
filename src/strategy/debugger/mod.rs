//! The debugger: the user inspects a task's result, edits the task and repeats it.

mod pretty;
mod statement;

use std::sync::Arc;

use windlass_template::{Context, Value, Variable, Variables};
use windlass_yaml::{Node, Span};

use super::ask::{Echo, ask};
use super::execute::TaskOnHost;
use super::play::{Batch, Strategy};
use super::task::Started;
use crate::error::{Error, Result};
use crate::outcome::HostOutcome;
use crate::output::Event;
use crate::playbook::{Task, label};
use crate::vars::given;
use statement::Statement;

/// Next step after a debugger session.
enum Next {
    Continue,
    Redo,
    Quit,
}

/// Parts of a task that the user may edit before repeating it.
struct Edited {
    task: Arc<Task>,
    /// Changes to `task_vars`.
    vars: Variables,
}

impl Batch {
    /// Starts the debugger for results that ask for it. A repeated task's result replaces the first one.
    pub(super) async fn debugged(&self, started: &Started, outcomes: Vec<HostOutcome>) -> Result<Vec<HostOutcome>> {
        let task = &started.task;
        let enabled = self.shared.run.settings.task_debugger || self.strategy == Strategy::Debug;
        let is_alone = self.shared.shards.get().is_none();
        if !is_alone || !enabled && task.keyword("debugger").is_none() {
            return Ok(outcomes);
        }
        let mut last = Vec::with_capacity(outcomes.len());
        for mut outcome in outcomes {
            let mut edited = Edited { task: Arc::clone(task), vars: Variables::default() };
            while self.needs_debugger(task, &outcome, enabled)? {
                match self.debug(&mut edited, &outcome).await? {
                    Next::Continue => break,
                    Next::Quit => {
                        let _ = self.shared.events.send(Event::Notice("User interrupted execution".to_owned()));
                        return Err(Error::interrupted());
                    }
                    Next::Redo => {
                        let mut again = TaskOnHost::new(&self.shared, &self.world, &edited.task, &outcome.host);
                        again.vars = edited.vars.clone();
                        // The new outcome replaces the recorded one.
                        let at = self.hosts.get(&outcome.host).and_then(|run| run.at.as_ref());
                        again.place = at.and_then(|at| self.place_at(task, &outcome.host, at, started.once));
                        if outcome.result.failed() || outcome.result.is_unreachable() {
                            let host = Arc::clone(&outcome.host);
                            let _ = self.shared.events.send(Event::Rescued { host, task: task.id });
                        }
                        outcome = again.run().await;
                    }
                }
            }
            last.push(outcome);
        }
        Ok(last)
    }

    fn needs_debugger(&self, task: &Arc<Task>, outcome: &HostOutcome, enabled: bool) -> Result<bool> {
        let result = &outcome.result;
        let ignored = outcome.ignored && self.shared.run.settings.task_debugger_ignore_errors;
        let failed = result.failed() && !ignored;
        let by_setting = enabled && (failed || result.is_unreachable());
        let Some(node) = task.keyword("debugger") else { return Ok(by_setting) };
        let context = TaskOnHost::new(&self.shared, &self.world, task, &outcome.host).scope();
        let value = given(&context, node).map_err(|error| Error::parse(error.report(), &node.span))?;
        Ok(match value.map(|value| windlass_template::text(&value)).as_deref() {
            None => by_setting,
            Some("always") => true,
            Some("never") => false,
            Some("on_failed") => by_setting || failed,
            Some("on_unreachable") => by_setting || result.is_unreachable(),
            Some("on_skipped") => by_setting || result.is_skipped(),
            Some(other) => {
                return Err(Error::parse(format!("'{other}' is not a valid value for debugger"), &node.span)
                    .hint("use always, never, on_failed, on_unreachable or on_skipped")
                    .generic());
            }
        })
    }

    /// Reads commands until one of them ends the session.
    async fn debug(&self, edited: &mut Edited, outcome: &HostOutcome) -> Result<Next> {
        let kind = if edited.task.handler { "HANDLER" } else { "TASK" };
        let title = format!("{kind}: {}", label::of_task(&edited.task, None));
        let prompt = format!("[{}] {title} (debug)> ", outcome.host);
        let mut last = String::new();
        loop {
            let Some(line) = ask(&prompt, Echo::Shown, &self.shared).await? else { return Ok(Next::Quit) };
            // An empty line repeats the previous command.
            let line = if line.trim().is_empty() { last.clone() } else { line.trim().to_owned() };
            last.clone_from(&line);
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
            match word {
                "" => {}
                "c" | "continue" => return Ok(Next::Continue),
                "r" | "redo" => return Ok(Next::Redo),
                "q" | "quit" | "EOF" => return Ok(Next::Quit),
                "h" | "help" | "?" => self.say(HELP),
                "u" | "update_task" => edited.task = self.updated(edited, outcome),
                "p" | "pprint" => {
                    let shown = match rest.trim() {
                        "task" => title.clone(),
                        "host" => outcome.host.to_string(),
                        expression => match self.scope(edited, outcome).evaluate(&typed(expression)) {
                            Ok(value) => pretty::format(&value),
                            Err(error) => format!("*** {error}"),
                        },
                    };
                    self.say(&shown);
                }
                _ => {
                    if let Err(message) = self.carry_out(&line, edited, outcome) {
                        self.say(&format!("*** {message}"));
                    }
                }
            }
        }
    }

    fn say(&self, text: &str) {
        let _ = self.shared.events.send(Event::Notice(text.to_owned()));
    }

    /// Variables visible to expressions at the prompt.
    fn scope(&self, edited: &Edited, outcome: &HostOutcome) -> Context {
        let mut on_host = TaskOnHost::new(&self.shared, &self.world, &edited.task, &outcome.host);
        on_host.vars = edited.vars.clone();
        let context = on_host.scope();
        let task = &edited.task;
        let args = windlass_template::from_json(&Node::map(Arc::clone(&task.args), span()).to_json());
        let shown = Value::from_pairs([
            ("args", args),
            ("name", task.name.as_ref().and_then(Node::scalar_text).map_or(Value::from(()), Value::from)),
            ("action", Value::from(task.action.as_str())),
        ]);
        let result = outcome.result.to_value();
        let keys = context.names();
        let vars = Value::from_pairs(keys.iter().filter(|name| !HIDDEN.contains(&&***name)).filter_map(|name| {
            let value = context.variable(name).ok().flatten()?;
            Some((Value::from(&**name), value))
        }));
        let names = [
            ("task", shown),
            ("task_vars", vars),
            ("host", Value::from(&*outcome.host)),
            ("result", Value::from_pairs([("_result", result.clone()), ("result", result)])),
        ];
        let names = names.map(|(name, value)| (Arc::from(name), Variable::Data(value)));
        context.with(names.into_iter().collect())
    }

    /// Carries out an assignment such as `task.args[...] = ...`.
    fn carry_out(&self, line: &str, edited: &mut Edited, outcome: &HostOutcome) -> std::result::Result<(), String> {
        let statement = Statement::read(line).ok_or_else(|| {
            format!("'{line}' is neither a command nor a change of task.args or task_vars; use help for a list")
        })?;
        let context = self.scope(edited, outcome);
        let evaluate = |text: &str| context.evaluate(&typed(text)).map_err(|error| error.to_string());
        statement.apply(edited, &evaluate)
    }

    /// The task as written, with its arguments rendered from the current `task_vars`.
    fn updated(&self, edited: &Edited, outcome: &HostOutcome) -> Arc<Task> {
        let mut on_host = TaskOnHost::new(&self.shared, &self.world, &edited.task, &outcome.host);
        on_host.vars = edited.vars.clone();
        match on_host.arguments(&on_host.scope()) {
            Ok(args) => {
                let mut task = Task::clone(&edited.task);
                let node = Node::from_json(
                    &windlass_template::to_json(&Value::from_pairs(
                        args.iter().map(|(name, value)| (Value::from(&**name), value.clone())),
                    )),
                    &task.span,
                );
                if let Some(map) = node.into_literal().as_map() {
                    task.args = Arc::clone(map);
                    task.args_template = None;
                }
                Arc::new(task)
            }
            Err(failure) => {
                self.say(&format!(
                    "*** {}",
                    failure.into_result(self.shared.run.settings.compat).text("msg").unwrap_or_default()
                ));
                Arc::clone(&edited.task)
            }
        }
    }
}

/// Variables that only mirror all others, so listing them adds nothing.
const HIDDEN: &[&str] = &["hostvars", "vars"];

const HELP: &str = "p EXPRESSION        show a value: p task.args, p task_vars['x'], p result._result\n\
    task.args['x'] = V  change an argument\n\
    task_vars['x'] = V  change a variable\n\
    u, update_task      render the task again with the changed variables\n\
    r, redo             run the task again\n\
    c, continue         continue the run\n\
    q, quit             end the run";

/// Parses an expression typed at the prompt.
#[expect(clippy::disallowed_methods, reason = "the user typed it")]
fn typed(text: &str) -> Node {
    Node::of_project(text, span())
}

fn span() -> Span {
    Span::synthetic("debugger")
}
