//! `windlass explain var`.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use windlass_template::Scope as _;
use windlass_yaml::{Mapping, Span};

use super::steps::{Step, Steps, TOO_LARGE};
use super::value::{self, MASK};
use super::when::of_run;
use super::{Explainer, Explanation, Numbered, place, table};
use crate::error::{Error, Result, did_you_mean};
use crate::journal::Journal;
use crate::playbook::Task;
use crate::strategy::explain::{
    Listed, Until, facts_unknown, includes_vars, is_grouping, outcome, set_in_run, setters,
};
use crate::vars::{Level, TaskScope, World};

/// Limit of an explanation without a recorded run.
pub(super) const UNSEEN: &str = "groups that a run makes are not seen; `--run RUN` takes them from a recorded run";

/// A value that the winner shadows.
struct Shadowed {
    level: (String, &'static str),
    span: Option<Span>,
    written: Option<Json>,
}

/// A task that may set a variable during a run.
struct Setter {
    task: Arc<Task>,
    /// `register` or `set_fact`.
    how: &'static str,
    /// The recorded run, if there is one.
    in_run: Option<InRun>,
}

/// Part of a setter in a recorded run.
struct InRun {
    /// Outcome of the task, as a sentence.
    outcome: String,
    /// Value that it set, masked; `None` if it set none, or if the journal leaves it out.
    value: Option<Json>,
}

/// Explanation of a variable in one scope.
struct Explained {
    winner: Step,
    shadowed: Vec<Shadowed>,
    /// Whether `hash_behaviour = merge` combines the values.
    is_merged: bool,
    /// Tasks that may set the variable during a run.
    setters: Vec<Setter>,
    /// Tasks that read variables from files during a run.
    readers: Vec<Arc<Task>>,
    /// Tasks that add groups or hosts before it, if no recorded run has them.
    groupings: Vec<Arc<Task>>,
}

/// Place of the scope in a playbook.
struct Title {
    plays: Vec<(usize, String, Span)>,
    task: Option<(String, Span)>,
}

impl Explainer<'_> {
    /// Explains a variable of the host, in each play or task that sees it.
    pub(super) fn var(
        &mut self,
        name: &str,
        plays: Vec<Numbered>,
        playbook: Option<&Path>,
        task: Option<&str>,
    ) -> Result<Explanation> {
        let host = Arc::clone(&self.host);
        let mut all: Vec<(Title, Explained)> = Vec::new();
        let mut known: Vec<Arc<str>> = Vec::new();
        let groupings = self.groupings(&plays);
        let until =
            |play: usize| groupings.iter().filter(|(at, _)| *at <= play).map(|(_, task)| Arc::clone(task)).collect();
        match (playbook, task) {
            (None, _) => {
                let mut world = self.run.world().successor();
                facts_unknown(&mut world);
                let scope = Arc::new(TaskScope::of_host(&Arc::new(world), &host));
                known.extend(scope.names());
                all.push((Title { plays: Vec::new(), task: None }, self.explained(name, scope, &[])));
            }
            (Some(_), Some(task)) => {
                for (index, at, mut tasks) in self.tasks_named(&plays, task)? {
                    let Some((number, entered)) = plays.get(index) else { continue };
                    let mut entered = entered.clone();
                    entered.without_facts();
                    let listed = tasks.split_off(at);
                    let Some(target) = listed.into_iter().next() else { continue };
                    if let Some(recorded) = &self.recorded {
                        let before = self.earlier(&plays, index, &tasks);
                        entered.assume(&host, &before, Until::Task(&target), Some(&recorded.journal))?;
                    }
                    let scope = entered.scope(&host, Some(&target.task));
                    known.extend(scope.names());
                    let label = crate::playbook::label::of_task(&target.task, None);
                    let title = Title {
                        plays: vec![(*number, entered.name.clone(), entered.play.span.clone())],
                        task: Some((label, target.task.span.clone())),
                    };
                    let explained = Explained { groupings: until(index), ..self.explained(name, scope, &tasks) };
                    all.push((title, explained));
                }
            }
            (Some(path), None) => {
                for (index, (number, entered)) in plays.iter().enumerate() {
                    if !entered.has(&host) {
                        continue;
                    }
                    let mut entered = entered.clone();
                    entered.without_facts();
                    self.at_end(&plays, index, &mut entered)?;
                    let scope = entered.scope(&host, None);
                    known.extend(scope.names());
                    let title =
                        Title { plays: vec![(*number, entered.name.clone(), entered.play.span.clone())], task: None };
                    let tasks = entered.tasks(&host);
                    let explained = Explained { groupings: until(index), ..self.explained(name, scope, &tasks) };
                    all.push((title, explained));
                }
                if all.is_empty() {
                    let message = format!("`{host}` is in no play of {}", path.display());
                    let hint = match groupings.first() {
                        None => "`windlass playbook --list-hosts` lists the hosts of plays".to_owned(),
                        Some((_, task)) => format!("{UNSEEN}, such as that of {}", self.grouping(task)),
                    };
                    return Err(Error::usage(message).hint(hint));
                }
            }
        }
        if all.iter().all(|(_, explained)| !explained.is_defined() && explained.setters.is_empty()) {
            let elsewhere = self.hosts_with(name);
            let error = Error::usage(format!("the variable `{name}` is undefined on {host}"));
            return Err(match elsewhere.as_slice() {
                [] => error.maybe_hint(did_you_mean(name, known.iter().map(|name| &**name))),
                hosts => error.hint(format!("the inventory sets it for {}", hosts.join(", "))),
            });
        }
        Ok(self.shown(name, together(all)))
    }

    /// Tasks of plays that add groups or hosts, each with the index of its play. With a recorded run there are none,
    /// because its groups are known.
    fn groupings(&self, plays: &[Numbered]) -> Vec<(usize, Arc<Task>)> {
        if self.recorded.is_some() {
            return Vec::new();
        }
        let of_play = |(index, (_, play)): (usize, &Numbered)| {
            let tasks = play.tasks(&self.host).into_iter().map(|listed| listed.task);
            tasks.filter(|task| is_grouping(task)).map(|task| (index, task)).collect::<Vec<_>>()
        };
        plays.iter().enumerate().flat_map(of_play).collect()
    }

    /// Some hosts for which the inventory sets a variable.
    fn hosts_with(&self, name: &str) -> Vec<&str> {
        let world = self.run.world();
        let has = |host: &&windlass_inventory::Host| {
            world.given_to(host.name()).iter().any(|layer| layer.vars.contains_key(name))
        };
        world.inventory.hosts().filter(has).map(|host| &**host.name()).take(3).collect()
    }

    fn explained(&self, name: &str, scope: Arc<TaskScope>, tasks: &[Listed]) -> Explained {
        let context = self.session.shared.run.engine.scope(Arc::clone(&scope) as Arc<dyn windlass_template::Scope>);
        let winner = Steps::new(&scope, &context).of(name);
        let shadowed = self.shadowed(&scope, name, winner.span.as_ref());
        let is_merged = self.session.shared.run.settings.merge_hashes
            && winner.value.as_ref().is_ok_and(Json::is_object)
            && !shadowed.is_empty();
        let readers = tasks.iter().map(|listed| &listed.task).filter(|task| includes_vars(task));
        let readers = readers.cloned().collect();
        let is_secret = winner.secret.is_some();
        let setter = |(task, how): (Arc<Task>, &'static str)| {
            let in_run = self.recorded.as_ref().map(|recorded| self.in_run(&recorded.journal, (&task, how), name));
            let mask =
                |one: InRun| InRun { value: one.value.map(|value| if is_secret { MASK.into() } else { value }), ..one };
            Setter { in_run: in_run.map(mask), task, how }
        };
        let setters = setters(tasks, name).into_iter().map(setter).collect();
        Explained { winner, shadowed, is_merged, setters, readers, groupings: Vec::new() }
    }

    /// Part of a task that sets a variable in a recorded run.
    fn in_run(&self, journal: &Journal, setter: (&Arc<Task>, &str), name: &str) -> InRun {
        let done = outcome(journal, setter.0, &self.host);
        let value = set_in_run(journal, setter, &self.host, name);
        let outcome = match (done, &value) {
            (None, _) => "it did not run".to_owned(),
            (Some(done), None) => match done.withheld {
                Some(reason) => format!("{}; {}", of_run(done), reason.reason()),
                None => of_run(done),
            },
            (Some(done), Some(_)) => of_run(done),
        };
        InRun { outcome, value }
    }

    fn shown(&self, name: &str, all: Vec<(Title, Explained)>) -> Explanation {
        let mut lines = Vec::new();
        let mut explanations = Vec::new();
        for (title, explained) in &all {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(self.heading(name, title));
            explained.lines(self, &mut lines);
            let mut json = explained.to_json();
            if let Some(map) = json.as_object_mut() {
                let play = |(number, name, span): &(usize, String, Span)| json!({"number": number, "name": name, "place": place::json(Some(span))});
                map.insert("plays".to_owned(), title.plays.iter().map(play).collect());
                let task = title.task.as_ref();
                let task = task.map(|(label, span)| json!({"name": label, "place": place::json(Some(span))}));
                map.insert("task".to_owned(), task.unwrap_or_default());
            }
            explanations.push(json);
        }
        let json = json!({"host": &*self.host, "variable": name, "explanations": explanations});
        Explanation { lines, json }
    }

    fn heading(&self, name: &str, title: &Title) -> String {
        let mut text = format!("{name} on {}", self.host);
        match title.plays.as_slice() {
            [] => {}
            [(number, name, span)] => {
                text.push_str(&format!(", play {number} '{name}' ({})", self.places.span(span)));
            }
            plays => {
                let numbers: Vec<String> = plays.iter().map(|(number, ..)| number.to_string()).collect();
                text.push_str(&format!(", plays {}", numbers.join(", ")));
            }
        }
        if let Some((label, span)) = &title.task {
            text.push_str(&format!(", task '{label}' ({})", self.places.span(span)));
        }
        text
    }
}

/// Joins the plays with equal explanations.
fn together(all: Vec<(Title, Explained)>) -> Vec<(Title, Explained)> {
    let mut joined: Vec<(Title, Explained, Json)> = Vec::new();
    for (title, explained) in all {
        let json = explained.to_json();
        match joined.iter_mut().find(|(other, _, known)| other.task == title.task && *known == json) {
            Some((other, ..)) => other.plays.extend(title.plays),
            None => joined.push((title, explained, json)),
        }
    }
    joined.into_iter().map(|(title, explained, _)| (title, explained)).collect()
}

impl Explainer<'_> {
    /// All values but the first, highest precedence first, with those that later options and sources replaced.
    fn shadowed(&self, scope: &TaskScope, name: &str, winner: Option<&Span>) -> Vec<Shadowed> {
        let mut found = shadowed(scope, name, &self.extra_vars);
        // A file beside both inventory and playbook counts twice, and so do defaults of a role within itself.
        let mut seen: Vec<Span> = winner.cloned().into_iter().collect();
        found.retain(|one| match &one.span {
            Some(span) if span.is_located() && seen.contains(span) => false,
            Some(span) => {
                seen.push(span.clone());
                true
            }
            None => true,
        });
        found
    }
}

fn shadowed(scope: &TaskScope, name: &str, extra_vars: &[Arc<Mapping>]) -> Vec<Shadowed> {
    let (world, host): (&Arc<World>, _) = (scope.world(), scope.host());
    let mut found = Vec::new();
    let is_magic = scope.magic(name).is_some();
    for (index, definition) in scope.definitions(name).into_iter().enumerate() {
        let secret = value::secret(name, &definition.variable).is_some();
        let level = (place::level(definition.level, world, host), place::level_word(definition.level, world, host));
        if index > 0 || is_magic {
            let written = if secret { Some(Json::from(MASK)) } else { value::written(&definition.variable) };
            found.push(Shadowed { level: level.clone(), span: definition.span.clone(), written });
        }
        if definition.level == Level::Extra {
            for (key, node) in extra_vars.iter().rev().filter_map(|vars| vars.get_entry(name)).skip(1) {
                let variable = windlass_template::Variable::Text(node.clone());
                let secret = secret || value::secret(name, &variable).is_some();
                let written = if secret { Some(Json::from(MASK)) } else { value::written(&variable) };
                let level = (format!("{}, replaced by a later one", level.0), level.1);
                found.push(Shadowed { level, span: Some(key.span.clone()), written });
            }
        }
        let Level::Inventory(at) = definition.level else { continue };
        let layers = world.given_to(host);
        for replaced in
            layers.get(at).map(|layer| world.inventory.replaced(host, &layer.origin, name)).unwrap_or_default()
        {
            let variable = windlass_template::Variable::Text(replaced.value.clone());
            let secret = secret || value::secret(name, &variable).is_some();
            let written = if secret { Some(Json::from(MASK)) } else { value::written(&variable) };
            let level = (format!("{}, replaced by a later one", level.0), level.1);
            found.push(Shadowed { level, span: Some(replaced.key.span.clone()), written });
        }
    }
    found
}

impl Explained {
    fn is_defined(&self) -> bool {
        self.winner.is_defined()
    }

    fn to_json(&self) -> Json {
        let shadowed = |one: &Shadowed| {
            json!({
                "level": one.level.1,
                "description": one.level.0,
                "place": place::json(one.span.as_ref()),
                "written": one.written,
            })
        };
        let of_task = |task: &Arc<Task>, how: &str| json!({"by": how, "task": crate::playbook::label::of_task(task, None), "place": place::json(Some(&task.span))});
        let setter = |one: &Setter| {
            let mut json = of_task(&one.task, one.how);
            if let Some(in_run) = &one.in_run {
                json["outcome"] = in_run.outcome.as_str().into();
                json["value"] = in_run.value.clone().unwrap_or_default();
            }
            json
        };
        let mut json = self.winner.to_json();
        if let Some(map) = json.as_object_mut() {
            map.remove("name");
            map.insert("defined".to_owned(), self.is_defined().into());
            map.insert("merged".to_owned(), self.is_merged.into());
            map.insert("shadowed".to_owned(), self.shadowed.iter().map(shadowed).collect());
            map.insert("set_during_run".to_owned(), self.setters.iter().map(setter).collect());
            let grouping = |task: &Arc<Task>| of_task(task, task.short_action());
            map.insert("groups_during_run".to_owned(), self.groupings.iter().map(grouping).collect());
        }
        json
    }

    fn lines(&self, explainer: &Explainer<'_>, lines: &mut Vec<String>) {
        let winner = &self.winner;
        let places = &explainer.places;
        match winner.shown() {
            Ok(shown) => {
                let shown = value::lines(&shown);
                match shown.as_slice() {
                    [one] => lines.push(format!("  value     {one}")),
                    many => {
                        lines.push("  value".to_owned());
                        lines.extend(many.iter().map(|line| format!("    {line}")));
                    }
                }
            }
            Err(reason) if winner.is_unknown => lines.push(format!("  value     unknown: {reason}")),
            Err(reason) if reason == TOO_LARGE => lines.push(format!("  value     {reason}")),
            Err(reason) => lines.push(format!("  value     none: {reason}")),
        }
        if self.is_defined() {
            let at = winner.span.as_ref().map(|span| format!(", {}", places.span(span))).unwrap_or_default();
            lines.push(format!("  from      {}{at}", winner.level.0));
        }
        match &winner.secret {
            Some(reason) => lines.push(format!("  secret    yes: {reason}")),
            None => lines.push("  secret    no".to_owned()),
        }
        if self.is_merged {
            lines.push("  merged    `hash_behaviour = merge` combines the dictionaries below".to_owned());
        }
        if !self.shadowed.is_empty() {
            lines.push("  shadows, highest precedence first".to_owned());
            let row = |one: &Shadowed| {
                let written = one.written.as_ref().map_or_else(|| "unknown".to_owned(), value::short);
                vec![written, one.level.0.clone(), places.optional(one.span.as_ref())]
            };
            lines.extend(table(&self.shadowed.iter().map(row).collect::<Vec<_>>(), 4));
        }
        if !winner.uses.is_empty() {
            lines.push("  templating".to_owned());
            let written = winner.written.as_ref().map(value::short).unwrap_or_default();
            lines.push(format!("    {written}"));
            winner.lines(places, 3, lines);
        }
        if !self.setters.is_empty() {
            let is_recorded = self.setters.iter().any(|setter| setter.in_run.is_some());
            let verb = if is_recorded { "tasks that may set it in this run, which" } else { "a run may set it, which" };
            lines.push(format!("  {verb} outranks all but -e and parameters"));
            for Setter { task, how, in_run } in &self.setters {
                let label = crate::playbook::label::of_task(task, None);
                lines.push(format!("    {how} at {}, task '{label}'", places.span(&task.span)));
                match in_run {
                    Some(InRun { value: Some(value), .. }) => lines.push(format!("      set {}", value::short(value))),
                    Some(InRun { outcome, .. }) => lines.push(format!("      {outcome}")),
                    None => {}
                }
            }
        }
        if !self.groupings.is_empty() {
            lines.push(format!("  {UNSEEN}"));
            lines.extend(self.groupings.iter().map(|task| format!("    {}", explainer.grouping(task))));
        }
        if !self.readers.is_empty() {
            lines.push("  a run may read it from files, which are not read here".to_owned());
            for task in &self.readers {
                lines.push(format!("    include_vars at {}", places.span(&task.span)));
            }
        }
    }
}
