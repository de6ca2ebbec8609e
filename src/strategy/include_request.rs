//! `include_tasks` and `include_role`: loads what hosts request, once for all hosts that request the same.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::{IndexMap, IndexSet};
use windlass_template::{Context, Value, Variable, Variables};
use windlass_yaml::{Key, Mapping, Node};

use super::display::{CENSORED, Part};
use super::execute::{Shared, TaskOnHost};
use super::loop_items::Loop;
use super::loop_run;
use crate::action::Failure;
use crate::builtin::INCLUDE_TASKS;
use crate::error::{Error, Result, did_you_mean};
use crate::loader::{RoleRequest, TaskFile};
use crate::outcome::TaskResult;
use crate::output::Event;
use crate::playbook::{Block, Frame, FrameKind, Item, Keywords, LoopedBlock, On, Role, Task};
use crate::vars::unless_omitted;

/// Maximum nesting of frames; every include adds one or two.
const DEPTH_LIMIT: usize = 500;

/// One include request of a host: the arguments of one item.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) args: Vec<(String, Node)>,
    pub(super) vars: IndexMap<Arc<str>, Value>,
    pub(super) label: Option<String>,
}

impl Wanted {
    /// File or role as requested.
    pub(super) fn target(&self) -> String {
        let names = ["_raw_params", "file", "name", "role"];
        let found = self.args.iter().find(|(name, _)| names.contains(&name.as_str()));
        found.and_then(|(_, node)| node.scalar_text()).unwrap_or_default()
    }

    /// Result that `register` stores for one include.
    fn result(&self, is_role: bool) -> TaskResult {
        let args = self.args.iter().filter(|(name, _)| name != "_raw_params");
        let args = args.map(|(name, node)| (Value::from(name.as_str()), windlass_template::from_json(&node.to_json())));
        let result = TaskResult::new().with("include_args", Value::from_pairs(args));
        if is_role { result } else { result.with("include", self.target()) }
    }

    /// Key that is equal for requests of the same tasks, so hosts can share them.
    fn key(&self) -> String {
        let args: Vec<_> = self.args.iter().map(|(name, node)| (name, node.to_json())).collect();
        let vars: Vec<_> = self.vars.iter().map(|(name, value)| (name, windlass_template::to_json(value))).collect();
        serde_json::to_string(&(args, vars)).unwrap_or_default()
    }
}

/// A loaded include.
#[derive(Clone)]
pub(super) struct Included {
    pub(super) block: Arc<Block>,
    pub(super) handlers: Vec<Item>,
    /// The included role, and roles imported by the included tasks.
    pub(super) roles: Vec<Arc<Role>>,
    /// File or role as displayed.
    pub(super) what: String,
}

/// Includes loaded for the hosts of one step.
#[derive(Default)]
pub(super) struct Loaded(HashMap<String, Included>);

/// Include requests of one host, with the task's result.
pub(super) struct Asked {
    pub(super) wanted: Vec<Wanted>,
    /// Result that `register` stores.
    pub(super) result: TaskResult,
    pub(super) looped: bool,
}

impl TaskOnHost {
    /// Evaluates the task's loop and conditions into include requests.
    pub(super) fn wanted(&self) -> Asked {
        let context = self.scope();
        let nothing = |result| Asked { wanted: Vec::new(), result, looped: false };
        match self.open_loop(&context) {
            Err(failure) => match self.condition(&context) {
                Ok(Some(skipped)) => nothing(skipped),
                _ => nothing(self.without_loop(failure)),
            },
            Ok(None) => match self.want(&context, Variables::default(), None) {
                Ok(Ok(one)) => {
                    let result = self.included_result(&one).with("changed", false);
                    Asked { wanted: vec![one], result, looped: false }
                }
                Ok(Err(skipped)) => nothing(skipped),
                Err(failure) => nothing(self.not_asked(failure)),
            },
            Ok(Some(opened)) if opened.items.is_empty() => nothing(loop_run::none()),
            Ok(Some(opened)) => self.wanted_by_items(&context, &opened),
        }
    }

    fn wanted_by_items(&self, context: &Context, opened: &Loop) -> Asked {
        let compat = self.shared.run.settings.compat;
        if self.task.looped.is_some() {
            self.warn_of_used_name(context, opened);
        }
        let (mut wanted, mut parts, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..opened.items.len() {
            let vars = opened.variables(index);
            let of_item: Vec<_> = data(&vars).collect();
            let item_context = context.with(vars.clone());
            let secret = self.display().no_log(&item_context).unwrap_or(true);
            let shown = match self.task.keywords.get("loop_control").and_then(|control| control.get("label")) {
                _ if secret => CENSORED.to_owned(),
                Some(node) if node.as_str() != Some("") => item_context.render_tolerant(node),
                _ => opened.items.get(index).map(windlass_template::text).unwrap_or_default(),
            };
            let not_included = match self.want(&item_context, vars, Some(shown.clone())) {
                Ok(Ok(one)) => {
                    wanted.push(one);
                    None
                }
                Ok(Err(skipped)) => Some(skipped),
                Err(failure) if compat.ends_loops_at_failing_items() => {
                    return Asked { wanted: Vec::new(), result: self.not_asked(failure), looped: false };
                }
                Err(failure) => Some(self.not_asked(failure)),
            };
            let result = match (&not_included, wanted.last()) {
                (None, Some(one)) => self.included_result(one),
                _ => not_included.clone().unwrap_or_default(),
            };
            let result = of_item.into_iter().fold(result, |result, (name, value)| result.with(&name, value));
            if not_included.is_some() {
                self.display().show(&result, self.shown(Part::Item(shown)));
            }
            let is_last = self.breaks_off(opened, &item_context, &result);
            results.push(result.to_value());
            parts.push((result, None));
            if is_last {
                break;
            }
        }
        Asked { wanted, result: loop_run::summary(&parts, results), looped: true }
    }

    /// Result when the include's arguments cannot be evaluated.
    fn not_asked(&self, failure: Failure) -> TaskResult {
        let failure = match self.unknown_part(failure, "an argument") {
            Ok(skipped) => return skipped,
            Err(failure) => failure,
        };
        let compat = self.shared.run.settings.compat;
        let mut result = self.failed(failure);
        if compat.lacks_changed_when_undefined() {
            result.remove("changed");
        }
        result
    }

    /// Result that `register` stores for one item's include.
    fn included_result(&self, wanted: &Wanted) -> TaskResult {
        if self.task.looped.is_some() {
            return TaskResult::new();
        }
        wanted.result(self.task.short_action() == "include_role")
    }

    fn want(
        &self,
        context: &Context,
        vars: Variables,
        label: Option<String>,
    ) -> Result<Result<Wanted, TaskResult>, Failure> {
        match self.condition(context) {
            // The tasks of a block have the condition too, and report what is unknown or cannot be evaluated.
            Ok(Some(skipped)) if self.task.looped.is_none() || skipped.unknown().is_none() => return Ok(Err(skipped)),
            Err(failure) if self.task.looped.is_none() => return Err(failure),
            _ => {}
        }
        let mut args = Vec::new();
        for (key, node) in self.task.args.iter() {
            let name = key.to_text();
            let node = match name.as_str() {
                "apply" => node.clone(),
                _ => {
                    let Some(value) = unless_omitted(context, node)? else { continue };
                    Node::from_json(&windlass_template::to_json(&value), &node.span).into_literal()
                }
            };
            args.push((name, node));
        }
        Ok(Ok(Wanted { args, vars: data(&vars).collect(), label }))
    }
}

/// Loop variables that are data, not templates.
fn data(vars: &Variables) -> impl Iterator<Item = (Arc<str>, Value)> {
    vars.iter().filter_map(|(name, variable)| match variable {
        Variable::Data(value) => Some((Arc::clone(name), value.clone())),
        Variable::Text(_) => None,
    })
}

impl Loaded {
    /// Returns the tasks of a request, and whether they were loaded by this call.
    pub(super) fn get(
        &mut self,
        wanted: &Wanted,
        task: &Arc<Task>,
        shared: &Shared,
        playbook_dir: &std::path::Path,
    ) -> Result<(Included, bool)> {
        let key = wanted.key();
        if let Some(included) = self.0.get(&key) {
            return Ok((included.clone(), false));
        }
        let included = load(wanted, task, shared, playbook_dir)?;
        self.0.insert(key, included.clone());
        Ok((included, true))
    }
}

pub(super) fn load(
    wanted: &Wanted,
    task: &Arc<Task>,
    shared: &Shared,
    playbook_dir: &std::path::Path,
) -> Result<Included> {
    if let Some(looped) = &task.looped {
        return item_of_block(wanted, (task, &**looped), shared, playbook_dir);
    }
    let frame = frame_of(wanted, task)?;
    shared.loader.modules.check_groups(frame.keywords.get("module_defaults"))?;
    let when: Vec<Node> = frame.keywords.list("when");
    let imported = Mutex::default();
    let from =
        TaskFile { frame: &frame, when: &when, handlers: task.handler, playbook_dir, imported: &imported, depth: 0 };
    if frame.chain().count() > DEPTH_LIMIT {
        return Err(Error::parse(format!("includes are nested more than {DEPTH_LIMIT} deep"), &task.span)
            .hint("a file that includes itself needs a condition that ends it"));
    }
    if task.short_action() == "include_role" {
        let mut request = RoleRequest::of_arguments(&wanted.args, &task.span, &frame, playbook_dir)?;
        request.public.get_or_insert(!shared.run.settings.private_role_vars.unwrap_or(true));
        let loaded = shared.loader.role(&request, &from)?;
        let Item::Block(block) = loaded.tasks else {
            return Err(Error::parse("a role has no tasks to include", &task.span));
        };
        let imported = imported.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut roles = imported.roles;
        roles.push(Arc::clone(&loaded.role));
        let handlers = loaded.handlers.into_iter().chain(imported.handlers).collect();
        return Ok(Included { block, handlers, roles, what: request.name });
    }
    let mut file = None;
    for (name, node) in &wanted.args {
        match name.as_str() {
            "_raw_params" | "file" => file = node.scalar_text(),
            "apply" => {}
            other => {
                return Err(Error::parse(format!("Invalid options for include_tasks: {other}"), &node.span)
                    .maybe_hint(did_you_mean(other, INCLUDE_TASKS.options.iter().map(|option| option.name))));
            }
        }
    }
    let Some(file) = file else { return Err(Error::parse("No file specified for include_tasks", &task.span)) };
    let path: PathBuf = shared.loader.find_tasks(&file, task, playbook_dir)?;
    let tasks = shared.files.yaml(&path)?;
    if tasks.as_list().is_none() && !tasks.is_null() {
        return Err(Error::new("included task files must contain a list of tasks").hint(format!(
            "{} holds a value of another kind: {}",
            path.display(),
            tasks.kind()
        )));
    }
    let body = shared.loader.task_file(&path, &from)?;
    let block = Arc::new(Block::plain(&frame, body));
    let imported = imported.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Included {
        block,
        handlers: imported.handlers,
        roles: imported.roles,
        what: crate::paths::absolute(&path).display().to_string(),
    })
}

/// Builds the tasks of a looped block for one item. Roles and handlers belong to the play already.
fn item_of_block(
    wanted: &Wanted,
    (task, looped): (&Arc<Task>, &LoopedBlock),
    shared: &Shared,
    playbook_dir: &std::path::Path,
) -> Result<Included> {
    let frame = frame_with(wanted, Mapping::new(), task);
    let imported = Mutex::default();
    let when = looped.when.as_slice();
    let from = TaskFile { frame: &frame, when, handlers: false, playbook_dir, imported: &imported, depth: 0 };
    let Some(map) = looped.entry.as_map() else {
        return Err(Error::parse("a block must be a mapping", &looped.entry.span));
    };
    let block = shared.loader.block_of_item(&looped.entry, map, &from)?;
    let file = crate::paths::absolute(std::path::Path::new(&task.span.source.name));
    let what = format!("block at {}:{}", file.display(), task.span.line);
    Ok(Included { block, handlers: Vec::new(), roles: Vec::new(), what })
}

/// Frame of an include with variables, and with the variables of the loop.
fn frame_with(wanted: &Wanted, mut vars: Mapping, task: &Arc<Task>) -> Arc<Frame> {
    for (name, value) in &wanted.vars {
        vars.insert(
            Key::string(&**name, task.span.clone()),
            Node::from_json(&windlass_template::to_json(value), &task.span).into_literal(),
        );
    }
    Arc::new(Frame {
        parent: Some(Arc::clone(&task.frame)),
        keywords: Keywords::default(),
        vars: Arc::new(vars),
        kind: FrameKind::Include,
        tags: Arc::clone(&task.frame.tags),
    })
}

/// Frame of an include. Its variables and the loop's become parameters; `apply` adds a block inside it.
fn frame_of(wanted: &Wanted, task: &Arc<Task>) -> Result<Arc<Frame>> {
    let include = frame_with(wanted, (*task.vars).clone(), task);
    let Some((_, apply)) = wanted.args.iter().find(|(name, _)| name == "apply") else { return Ok(include) };
    let Some(map) = apply.as_map() else {
        return Err(Error::parse("apply must be a mapping of keywords", &apply.span));
    };
    let keywords =
        Keywords::read(map, On::Block, |word, node| Err(crate::playbook::keyword::unknown(word, On::Block, node)))?;
    if let Some((key, _)) = map.get_entry("loop") {
        return Err(Error::parse("`apply` cannot have a `loop`", &key.span).hint("put the loop on the include itself"));
    }
    let mut tags = include.tags.to_vec();
    for tag in keywords
        .list("tags")
        .iter()
        .filter_map(Node::scalar_text)
        .flat_map(|text| text.split(',').map(|tag| tag.trim().to_owned()).collect::<Vec<_>>())
    {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    Ok(Arc::new(Frame {
        vars: keywords.vars()?,
        keywords,
        kind: FrameKind::Block,
        tags: tags.into(),
        parent: Some(include),
    }))
}

/// Reports which hosts included a file or role.
pub(super) fn announce(
    shared: &Shared,
    task: &Arc<Task>,
    what: &str,
    hosts: &IndexSet<Arc<str>>,
    item: Option<String>,
) {
    let hosts = hosts.iter().map(ToString::to_string).collect();
    let _ = shared.events.send(Event::Included { task: Arc::clone(task), what: what.to_owned(), hosts, item });
}
