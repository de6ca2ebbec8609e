//! From YAML to plays and tasks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_template::{Context, PluginKind};
use windlass_yaml::{Key, Mapping, Node, Span, Value};

use super::before_hosts::collection_playbook;
use super::keyword::{Keywords, On, is_keyword, unknown};
use super::model::{BeforeHosts, Block, Frame, FrameKind, Item, Play, Role, Task};
use super::source::{Files, folder_of};
use super::{arguments, checked};
use crate::error::{Error, Result, did_you_mean};
use crate::foreign::{Modules, Resolution};
use crate::vars::World;

/// Loads playbooks, task files and roles of one project.
#[derive(Debug)]
pub struct Loader {
    /// The project's files.
    pub files: Arc<Files>,
    /// The run before any play: what names of imports are evaluated with.
    pub world: Arc<World>,
    /// Where roles are searched, after those next to the playbook.
    pub roles_path: Vec<PathBuf>,
    /// Where collections are searched.
    pub collections_path: Vec<PathBuf>,
    /// Modules that are not ours.
    pub modules: Arc<Modules>,
    /// Whether roles keep their variables to themselves.
    pub private_role_vars: Option<bool>,
}

/// Where a list of tasks comes from.
pub struct TaskFile<'a> {
    /// What its tasks inherit.
    pub frame: &'a Arc<Frame>,
    /// Conditions of imports around it.
    pub when: &'a [Node],
    /// Whether they are handlers.
    pub handlers: bool,
    /// The folder of the playbook.
    pub playbook_dir: &'a Path,
    /// Takes what imported roles bring for the whole play.
    pub imported: &'a Mutex<Imported>,
    /// How many imports and roles are around it.
    pub depth: u32,
}

/// What roles that are imported anywhere bring for the whole play.
#[derive(Debug, Default)]
pub struct Imported {
    /// The roles, in the order in which they were read.
    pub roles: Vec<Arc<Role>>,
    /// Their handlers, and those of the roles they depend on.
    pub handlers: Vec<Item>,
}

impl TaskFile<'_> {
    /// One import further in; an error if that cannot come to an end.
    pub(super) fn deeper(&self, span: &Span) -> Result<u32> {
        // Far more than anyone nests on purpose, far less than the stack holds.
        const LIMIT: u32 = 50;
        if self.depth >= LIMIT {
            return Err(Error::parse(
                format!("imports are nested more than {LIMIT} deep: this one leads back to itself"),
                span,
            )
            .hint(
                "a file or role that needs itself takes include_tasks or include_role, with a condition that ends it",
            ));
        }
        Ok(self.depth + 1)
    }
}

impl Loader {
    /// All plays of a playbook, imported ones included.
    pub fn playbook(&self, path: &Path) -> Result<Vec<Play>> {
        let mut plays = Vec::new();
        self.playbook_into(path, &Keywords::default(), &mut plays, &mut vec![path.to_owned()])?;
        Ok(plays)
    }

    fn playbook_into(
        &self,
        path: &Path,
        inherited: &Keywords,
        plays: &mut Vec<Play>,
        chain: &mut Vec<PathBuf>,
    ) -> Result<()> {
        // An imported playbook may have a `library/` of its own.
        self.modules.add_folder(path.parent().unwrap_or(Path::new("")));
        let node = self.files.yaml(path)?;
        if node.as_list().is_some_and(<[Node]>::is_empty) {
            return Err(Error::parse("A playbook must contain at least one play", &node.span)
                .hint("a playbook starts with `- hosts: ...`"));
        }
        let Some(entries) = node.as_list() else {
            return Err(Error::parse(
                format!("{} must be a list of plays, not {}", path.display(), node.kind()),
                &node.span,
            )
            .hint("a playbook starts with `- hosts: ...`"));
        };
        let dir = path.parent().map(Path::to_path_buf).unwrap_or_default();
        for entry in entries {
            let Some(map) = entry.as_map() else {
                return Err(Error::parse(
                    format!("an entry of a playbook is a play or import_playbook, not {}", entry.kind()),
                    &entry.span,
                ));
            };
            let import = ["import_playbook", "ansible.builtin.import_playbook"].iter().find_map(|name| map.get(name));
            match import {
                Some(target) => self.import_playbook(target, map, &dir, inherited, plays, chain)?,
                None => plays.push(self.play(entry, map, &dir, inherited)?),
            }
        }
        Ok(())
    }

    fn import_playbook(
        &self,
        target: &Node,
        map: &Arc<Mapping>,
        dir: &Path,
        inherited: &Keywords,
        plays: &mut Vec<Play>,
        chain: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let mut keywords = Keywords::read(map, On::Import, |word, node| match word {
            "ansible.builtin.import_playbook" => Ok(()),
            _ => Err(unknown(word, On::Import, node)),
        })?;
        if target.is_null() {
            return Err(Error::parse("import_playbook needs the name of a file", &target.span));
        }
        let context = self.context(&[&self.world.run.extra_vars, &keywords.vars()?], dir, None);
        let name = context.render_to_string(target).map_err(|error| Error::parse(error.report(), &target.span))?;
        let path = collection_playbook(&name, &self.collections_path).unwrap_or_else(|| dir.join(&name));
        if chain.contains(&path) {
            return Err(Error::parse(format!("{name} imports itself"), &target.span));
        }
        if !path.is_file() {
            return Err(Error::parse(format!("could not find or access '{}'", path.display()), &target.span).generic());
        }
        keywords.inherit(inherited)?;
        chain.push(path.clone());
        self.playbook_into(&path, &keywords, plays, chain)?;
        chain.pop();
        Ok(())
    }

    /// Tells of variables whose names mean something else, too.
    pub fn tell_reserved(&self, vars: &Mapping) {
        self.tell_reserved_names(vars.keys());
    }

    fn tell_reserved_names<'a>(&self, names: impl Iterator<Item = &'a Key>) {
        let compat = self.world.run.engine.options().compat;
        crate::vars::reserved::warnings(names, compat).for_each(|sentence| self.files.warn(sentence));
    }

    fn play(&self, entry: &Node, map: &Arc<Mapping>, dir: &Path, inherited: &Keywords) -> Result<Play> {
        let mut keywords = Keywords::read(map, On::Play, |word, node| Err(unknown(word, On::Play, node)))?;
        let Some(hosts) = keywords.get("hosts").cloned() else {
            return Err(Error::parse("a play needs `hosts`: the pattern of the hosts it runs on", &entry.span));
        };
        checked::hosts(&hosts)?;
        if let Some(user) = keywords.get("user").cloned() {
            if keywords.get("remote_user").is_some() {
                let message = "both 'user' and 'remote_user' are set for this play. The use of 'user' is deprecated, and should be removed";
                return Err(Error::parse(message, &user.span));
            }
            keywords.set("remote_user", user);
        }
        let own_vars = keywords.vars()?;
        self.tell_reserved(&own_vars);
        let import_vars = inherited.vars()?;
        let vars = if import_vars.is_empty() { own_vars } else { Arc::new(merged(&own_vars, &import_vars)) };
        let context = self.context(&[&self.world.run.extra_vars, &vars], dir, None);
        let tags = tags_of_play(&keywords, inherited, &context);
        let files = self.known_files(&keywords.list("vars_files"), dir, &context)?;
        let import_when = inherited.list("when");
        let mut own = keywords.clone();
        for name in [
            "become",
            "become_user",
            "become_method",
            "environment",
            "no_log",
            "any_errors_fatal",
            "check_mode",
            "diff",
        ] {
            if let (None, Some(node)) = (keywords.get(name), inherited.get(name)) {
                own.set(name, node.clone());
            }
        }
        // Short names are searched first in the collection that the playbook is in.
        if let Some(collection) = super::model::collection_with(&crate::vars::absolute(dir), "playbooks") {
            let span = &entry.span;
            let names = [Node::literal(collection, span.clone())].into_iter().chain(own.list("collections"));
            own.set("collections", Node::list(names.collect(), span.clone()));
        }
        let kind = FrameKind::Play(BeforeHosts { dir: dir.to_owned(), files });
        let frame = Arc::new(Frame { parent: None, keywords: own, vars, kind, tags: tags.into() });
        let imported = Mutex::default();
        let from = TaskFile {
            frame: &frame,
            when: &import_when,
            handlers: false,
            playbook_dir: dir,
            imported: &imported,
            depth: 0,
        };
        for name in ["tasks", "pre_tasks", "post_tasks", "handlers"] {
            let Some(node) = keywords.get(name).filter(|node| node.as_list().is_none() && !node.is_null()) else {
                continue;
            };
            let given = node.scalar_text().unwrap_or_else(|| node.kind().to_string());
            let message =
                format!("A malformed block was encountered while loading {name}: {given} should be a list or None");
            return Err(Error::parse(message, &node.span));
        }
        let section = |name: &str| self.items_of(keywords.get(name), &from);
        let mut tasks = Vec::new();
        let mut handlers = Vec::new();
        let mut roles = Vec::new();
        if let Some(node) = keywords.get("roles").filter(|node| node.as_list().is_none()) {
            return Err(Error::parse(
                format!(
                    "A malformed role declaration was encountered. `roles` is a list of roles, not {}",
                    node.kind()
                ),
                &node.span,
            ));
        }
        for entry in keywords.list("roles") {
            let request = self.role_entry(&entry, &frame, dir)?;
            let loaded = self.role(&request, &from)?;
            tasks.push(loaded.tasks);
            handlers.extend(loaded.handlers);
            roles.push(loaded.role);
        }
        for item in section("tasks")? {
            tasks.push(item);
        }
        let pre_tasks = section("pre_tasks")?;
        let post_tasks = section("post_tasks")?;
        handlers.extend(self.items_of(keywords.get("handlers"), &TaskFile { handlers: true, ..from })?);
        let imported = imported.into_inner().unwrap_or_else(PoisonError::into_inner);
        handlers.extend(imported.handlers);
        roles.extend(imported.roles);
        let name = match keywords.get("name").and_then(Node::scalar_text) {
            Some(name) => name,
            None => pattern_text(&hosts),
        };
        Ok(Play {
            name,
            hosts,
            vars_files: keywords.list("vars_files"),
            pre_tasks,
            tasks,
            post_tasks,
            handlers,
            roles,
            dir: crate::vars::absolute(dir),
            span: entry.span.clone(),
            frame,
        })
    }

    fn items_of(&self, list: Option<&Node>, from: &TaskFile<'_>) -> Result<Vec<Item>> {
        match list {
            None => Ok(Vec::new()),
            Some(node) => self.items(node, from),
        }
    }

    /// A list of tasks and blocks.
    pub fn items(&self, node: &Node, from: &TaskFile<'_>) -> Result<Vec<Item>> {
        if node.is_null() {
            return Ok(Vec::new());
        }
        let Some(entries) = node.as_list() else {
            return Err(Error::parse(format!("tasks must be a list, not {}", node.kind()), &node.span));
        };
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries.iter().filter(|entry| !entry.is_null()) {
            let Some(map) = entry.as_map() else {
                return Err(Error::parse(format!("a task must be a mapping, not {}", entry.kind()), &entry.span));
            };
            if map.contains_key("block") || map.contains_key("rescue") || map.contains_key("always") {
                if from.handlers && matches!(from.frame.kind, FrameKind::Block) {
                    return Err(Error::parse("Using a block as a handler is not supported.", &entry.span)
                        .hint("give each task of it a name, or let them `listen` to one topic"));
                }
                items.push(self.block(entry, map, from)?);
            } else {
                items.extend(self.task(entry, map, from)?);
            }
        }
        Ok(items)
    }

    /// The tasks of a file.
    pub fn task_file(&self, path: &Path, from: &TaskFile<'_>) -> Result<Vec<Item>> {
        let node = self.files.yaml(path)?;
        if node.is_null() {
            return Ok(Vec::new());
        }
        if node.as_list().is_none() {
            return Err(Error::parse(
                format!("{} must hold a list of tasks, not {}", path.display(), node.kind()),
                &node.span,
            ));
        }
        self.items(&node, from)
    }

    fn block(&self, entry: &Node, map: &Mapping, from: &TaskFile<'_>) -> Result<Item> {
        let keywords = Keywords::read(map, On::Block, |word, node| Err(unknown(word, On::Block, node)))?;
        if keywords.get("block").is_none() && !map.contains_key("block") {
            let part = if map.contains_key("rescue") { "rescue" } else { "always" };
            return Err(Error::parse(format!("`{part}` belongs to a `block`, and there is none"), &entry.span));
        }
        let vars = keywords.vars()?;
        self.tell_reserved(&vars);
        let tags = self.tags_under(&keywords, from.frame, &vars)?;
        let when: Vec<Node> = from.when.iter().cloned().chain(keywords.list("when")).collect();
        let (body, rescue, always) =
            (keywords.get("block").cloned(), keywords.get("rescue").cloned(), keywords.get("always").cloned());
        let frame =
            Arc::new(Frame { parent: Some(Arc::clone(from.frame)), keywords, vars, kind: FrameKind::Block, tags });
        let inner = TaskFile { frame: &frame, when: &when, ..*from };
        let mut block = Block {
            body: self.items_of(body.as_ref(), &inner)?,
            rescue: self.items_of(rescue.as_ref(), &inner)?,
            always: self.items_of(always.as_ref(), &inner)?,
            frame: Arc::clone(&frame),
            role: None,
        };
        // Handlers are notified one by one, so there is no block that could fail.
        if from.handlers && !(block.rescue.is_empty() && block.always.is_empty()) {
            self.files.warn(format!("`rescue` and `always` of a block of handlers are never run ({})", entry.span));
            block.rescue.clear();
            block.always.clear();
        }
        Ok(Item::Block(Arc::new(block)))
    }

    fn task(&self, entry: &Node, map: &Mapping, from: &TaskFile<'_>) -> Result<Vec<Item>> {
        let on = if from.handlers { On::Handler } else { On::Task };
        let mut actions: Vec<(String, Node)> = Vec::new();
        let mut with_lookup = None;
        let mut keywords = Keywords::read(map, on, |word, node| {
            if let Some(lookup) = word.strip_prefix("with_").filter(|lookup| !lookup.is_empty()) {
                let terms = map.get(word).cloned().unwrap_or_else(|| node.clone());
                self.check_lookup(lookup, on, node)?;
                if with_lookup.is_some() {
                    return Err(Error::parse(format!("duplicate loop in task: {lookup}"), &node.span)
                        .hint("a task has one `loop` or one `with_...`")
                        .generic());
                }
                if terms.is_null() {
                    return Err(
                        Error::parse(format!("you must specify a value when using {word}"), &node.span).generic()
                    );
                }
                with_lookup = Some((lookup.to_owned(), terms));
            } else {
                let value = map.get(word).cloned().unwrap_or_else(|| node.clone());
                actions.push((word.to_owned(), Node { span: node.span.clone(), ..value }));
            }
            Ok(())
        })?;
        for name in ["action", "local_action"] {
            if let Some(node) = keywords.get(name).cloned() {
                if name == "local_action" {
                    keywords.set("delegate_to", Node::string("localhost", node.span.clone()));
                }
                actions.push(split_action(&node)?);
            }
        }
        let collections = collections_of(&keywords, from.frame);
        let (action, value) = self.the_action(actions, on, entry, &collections)?;
        let mut args = arguments::of_node(&action, &value)?;
        let mut args_template = None;
        if let Some(extra) = keywords.get("args") {
            match &extra.value {
                Value::Map(map) => {
                    for (key, node) in map.iter() {
                        if args.get_key(key).is_none() {
                            args.insert(key.clone(), node.clone());
                        }
                    }
                }
                Value::String(_) => args_template = Some(extra.clone()),
                _ => return Err(Error::parse(format!("args must be a mapping, not {}", extra.kind()), &extra.span)),
            }
        }
        if let Some(reserved) = args.keys().find(|key| key.as_str().is_some_and(|key| key.starts_with("_ansible_"))) {
            return Err(Error::parse(
                format!("the argument '{}' is reserved for internal use only.", reserved.to_text()),
                &reserved.span,
            ));
        }
        let vars = keywords.vars()?;
        // Ansible leaves these two out of a task's variables.
        self.tell_reserved_names(vars.keys().filter(|key| !matches!(key.as_str(), Some("tags" | "when"))));
        let tags = self.tags_under(&keywords, from.frame, &vars)?;
        let when: Vec<Node> = from.when.iter().cloned().chain(keywords.list("when")).collect();
        let register = match keywords.get("register") {
            None => None,
            Some(node) => Some(variable_name(node)?),
        };
        let listen = keywords.list("listen").iter().filter_map(Node::scalar_text).collect();
        let task = Task {
            id: Task::next_id(),
            name: keywords.get("name").cloned(),
            action,
            args: Arc::new(args),
            args_template,
            vars,
            when: when.into(),
            tags,
            with_lookup,
            register,
            listen,
            frame: Arc::clone(from.frame),
            handler: from.handlers,
            span: entry.span.clone(),
            keywords,
        };
        let of_role = matches!(task.short_action(), "import_role" | "include_role");
        if from.handlers && of_role {
            let message = format!("Using '{}' as a handler is not supported.", task.action);
            return Err(Error::parse(message, &task.span).hint("put the tasks of the role among its own handlers"));
        }
        if task.short_action() == "meta" && task.args.get("_raw_params").and_then(Node::as_str) == Some("end_role") {
            let within = from.frame.chain().any(|frame| matches!(frame.kind, FrameKind::Role(_)));
            let refused = match (from.handlers, within) {
                (true, _) => Some("a handler"),
                (false, false) => Some("outside of a role"),
                (false, true) => None,
            };
            if let Some(place) = refused {
                return Err(Error::parse(format!("Cannot execute 'end_role' from {place}"), &task.span));
            }
        }
        match task.short_action() {
            "import_tasks" => self.import_tasks(&task, from).map(|item| vec![item]),
            "import_role" => self.import_role(&task, from),
            "include_tasks" | "include_role" => {
                check_include(&task)?;
                Ok(vec![Item::Task(Arc::new(task))])
            }
            _ => Ok(vec![Item::Task(Arc::new(task))]),
        }
    }

    /// Whether there is the lookup of a `with_...`. Those of collections are looked for when they are used.
    fn check_lookup(&self, lookup: &str, on: On, node: &Node) -> Result<()> {
        let short = super::model::short_name(lookup);
        let names = || windlass_template::lookups::LOOKUPS.iter().flat_map(|lookup| lookup.names()).copied();
        let is_ours = names().any(|name| name == short);
        let is_theirs = || match &self.world.run.engine.options().plugins {
            Some(plugins) => plugins.provides(PluginKind::Lookup, lookup, false).unwrap_or(true),
            None => false,
        };
        if short.contains('.') || is_ours || is_theirs() {
            return Ok(());
        }
        let hint = did_you_mean(short, names().filter(|name| !name.contains('.')));
        let message =
            format!("'with_{lookup}' is not a valid attribute for a {}: there is no lookup '{lookup}'", on.title());
        Err(Error::parse(message, &node.span).maybe_hint(hint))
    }

    /// The one key of a task that is no keyword.
    fn the_action(
        &self,
        mut actions: Vec<(String, Node)>,
        on: On,
        entry: &Node,
        collections: &[String],
    ) -> Result<(String, Node)> {
        let known = |name: &str| !matches!(self.modules.resolve(name, collections), Resolution::Unknown(_));
        let one_known = actions.len() > 1 && actions.iter().filter(|(name, _)| known(name)).count() == 1;
        if let Some((name, node)) = actions.iter().find(|(name, _)| one_known && !known(name)) {
            return Err(unknown(name, on, node));
        }
        if actions.len() > 1 {
            let names: Vec<_> = actions.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Error::parse(
                format!("a task has one module, this one names several: {}", names.join(", ")),
                &entry.span,
            ));
        }
        let Some((name, node)) = actions.pop() else {
            return Err(Error::parse(
                "this task names no module: besides keywords it needs one key, the module with its arguments",
                &entry.span,
            ));
        };
        if name.contains("{{") {
            return Ok((name, node));
        }
        if let Resolution::Unknown(reason) = self.modules.resolve(&name, collections) {
            if super::model::short_name(&name) == "include" {
                return Err(Error::parse("the action 'include' was removed from Ansible", &node.span)
                    .hint("import_tasks reads the file before the play runs, include_tasks while it does; a playbook is imported by import_playbook")
                    .generic());
            }
            let error = Error::parse(format!("there is no module or action '{name}'"), &node.span);
            let keyword = super::keyword::KEYWORDS.iter().map(|(word, _)| *word).filter(|word| is_keyword(word, on));
            return Err(error.maybe_hint(reason.or_else(|| self.modules.suggestion(&name, keyword))));
        }
        Ok((name, node))
    }

    fn import_tasks(&self, task: &Task, from: &TaskFile<'_>) -> Result<Item> {
        for keyword in ["loop"] {
            if task.keywords.get(keyword).is_some() || task.with_lookup.is_some() {
                return Err(Error::parse(
                    "import_tasks is read before any loop runs; include_tasks can be looped",
                    &task.span,
                ));
            }
        }
        let Some(file) = task.args.get("_raw_params").or_else(|| task.args.get("file")) else {
            return Err(Error::parse("No file specified for import_tasks", &task.span));
        };
        let name = self.static_text(file, &task.frame, &task.vars)?;
        let path = self.find_tasks(&name, task, from.playbook_dir).map_err(Error::generic)?;
        let frame = Arc::new(include_frame(task, from.frame));
        let inner = TaskFile { frame: &frame, when: &task.when, depth: from.deeper(&task.span)?, ..*from };
        let body = self.task_file(&path, &inner)?;
        Ok(Item::Block(Arc::new(Block {
            frame: Arc::clone(&frame),
            body,
            rescue: Vec::new(),
            always: Vec::new(),
            role: None,
        })))
    }

    fn import_role(&self, task: &Task, from: &TaskFile<'_>) -> Result<Vec<Item>> {
        if task.keywords.get("loop").is_some() || task.with_lookup.is_some() {
            return Err(Error::parse(
                "import_role is read before any loop runs; include_role can be looped",
                &task.span,
            ));
        }
        let frame = Arc::new(include_frame(task, from.frame));
        let mut texts = Vec::new();
        for (key, node) in task.args.string_entries() {
            let text = match node.value {
                Value::String(_) => Node::literal(self.static_text(node, &task.frame, &task.vars)?, node.span.clone()),
                _ => node.clone(),
            };
            texts.push((key.to_owned(), text));
        }
        let request = super::RoleRequest::of_arguments(&texts, &task.span, &frame, from.playbook_dir)?;
        let inner = TaskFile { frame: &frame, when: &task.when, ..*from };
        let loaded = self.role(&request, &inner)?;
        let mut imported = from.imported.lock().unwrap_or_else(PoisonError::into_inner);
        imported.handlers.extend(loaded.handlers);
        imported.roles.push(loaded.role);
        Ok(vec![loaded.tasks])
    }

    /// The file of an include or import: beside the file it is written in, in the role, beside the playbook.
    pub fn find_tasks(&self, name: &str, task: &Task, playbook_dir: &Path) -> Result<PathBuf> {
        let kind = if task.handler { "handlers" } else { "tasks" };
        let mut tried = Vec::new();
        let mut folders = vec![folder_of(&task.span)];
        if let Some(role) = task.frame.role() {
            folders.push(role.path.join(kind));
            folders.push(role.path.join("tasks"));
            folders.push(role.path.clone());
        }
        folders.push(playbook_dir.join(kind));
        folders.push(playbook_dir.to_owned());
        for folder in folders {
            let path = folder.join(name);
            if path.is_file() {
                return Ok(path);
            }
            let shown = path.display().to_string();
            if !tried.contains(&shown) {
                tried.push(shown);
            }
        }
        Err(Error::parse(format!("Could not find or access '{name}'"), &task.span)
            .generic()
            .hint(format!("searched in {}", tried.join(", "))))
    }

    /// The tags of something inside a frame.
    pub(super) fn tags_under(
        &self,
        keywords: &Keywords,
        frame: &Arc<Frame>,
        vars: &Arc<Mapping>,
    ) -> Result<Arc<[String]>> {
        let own = keywords.list("tags");
        if own.is_empty() {
            return Ok(Arc::clone(&frame.tags));
        }
        let mut tags = frame.tags.to_vec();
        for node in own {
            match node.as_str() {
                Some(text) if text.contains("{{") => add_tags_of(&self.static_value(&node, frame, vars)?, &mut tags),
                _ => add_tags(&node.scalar_text().unwrap_or_default(), &mut tags),
            }
        }
        Ok(tags.into())
    }
}

/// The tags of a play and of what imports it.
fn tags_of_play(keywords: &Keywords, inherited: &Keywords, context: &Context) -> Vec<String> {
    let mut tags = Vec::new();
    for node in inherited.list("tags").iter().chain(&keywords.list("tags")) {
        match context.render(node) {
            Ok(value) => add_tags_of(&value, &mut tags),
            Err(_) => add_tags(&context.render_tolerant(node), &mut tags),
        }
    }
    tags
}

/// A template may come to a list of tags.
fn add_tags_of(value: &windlass_template::Value, tags: &mut Vec<String>) {
    match value.kind() {
        minijinja::value::ValueKind::Seq => {
            value.try_iter().into_iter().flatten().for_each(|item| add_tags(&windlass_template::text(&item), tags));
        }
        _ => add_tags(&windlass_template::text(value), tags),
    }
}

fn add_tags(text: &str, tags: &mut Vec<String>) {
    for tag in text.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
}

/// The collections in which short names are searched: those of `collections`, after the one that the role is in.
pub(super) fn collections_of(keywords: &Keywords, frame: &Arc<Frame>) -> Vec<String> {
    let own = frame.role().and_then(|role| role.collection());
    let named = keywords.get("collections").or_else(|| frame.keyword("collections"));
    let named =
        named.map(|node| node.as_list().map_or_else(|| vec![node.clone()], <[Node]>::to_vec)).unwrap_or_default();
    own.into_iter().chain(named.iter().filter_map(Node::scalar_text)).collect()
}

/// The frame of an import: it hands every keyword and its variables down.
fn include_frame(task: &Task, parent: &Arc<Frame>) -> Frame {
    Frame {
        parent: Some(Arc::clone(parent)),
        keywords: task.keywords.clone(),
        vars: Arc::clone(&task.vars),
        kind: FrameKind::Import,
        tags: Arc::clone(&task.tags),
    }
}

/// What may stand on a dynamic include beside its arguments.
const INCLUDE_KEYWORDS: &[&str] = &[
    "action",
    "args",
    "collections",
    "debugger",
    "ignore_errors",
    "loop",
    "loop_control",
    "name",
    "no_log",
    "register",
    "run_once",
    "tags",
    "timeout",
    "vars",
    "when",
    "listen",
    "delegate_to",
    "notify",
];

fn check_include(task: &Task) -> Result<()> {
    for (word, _) in super::keyword::KEYWORDS {
        if let Some(node) = task.keywords.get(word)
            && !INCLUDE_KEYWORDS.contains(word)
        {
            return Err(Error::parse(format!("'{word}' is not a valid attribute for a TaskInclude"), &node.span)
                .hint(format!("put it under `apply:` of {} to give it to the included tasks", task.short_action())));
        }
    }
    Ok(())
}

/// `action: module arguments` or `action: {module: ..., ...}`.
fn split_action(node: &Node) -> Result<(String, Node)> {
    match &node.value {
        Value::String(text) | Value::Literal(text) => {
            let (name, rest) = split_name(text.trim());
            Ok((name.to_owned(), Node::string(rest.trim(), node.span.clone())))
        }
        Value::Map(map) => {
            let Some(name) = map.get("module").and_then(Node::as_str) else {
                return Err(Error::parse("an action given as a mapping needs the key 'module'", &node.span));
            };
            let mut args = (**map).clone();
            args.remove("module");
            let (name, rest) = split_name(name.trim());
            for (key, value) in arguments::parse(rest, arguments::takes_free_text(name), &node.span)?.iter() {
                args.insert(key.clone(), value.clone());
            }
            Ok((name.to_owned(), Node::map(args, node.span.clone())))
        }
        _ => Err(Error::parse(format!("an action must be a text or a mapping, not {}", node.kind()), &node.span)),
    }
}

/// The name at the start of an action, which may be a template, and what follows it.
fn split_name(text: &str) -> (&str, &str) {
    let template = if text.starts_with("{{") { text.find("}}").map_or(0, |end| end + 2) } else { 0 };
    let end = text.get(template..).and_then(|rest| rest.find(char::is_whitespace)).map(|end| template + end);
    text.split_at_checked(end.unwrap_or(text.len())).unwrap_or((text, ""))
}

/// Words that no variable can have as its name: in an expression they are always something else.
const RESERVED: &[&str] = &["False", "None", "True", "false", "none", "not", "true"];

/// Whether a variable can have this name.
pub(super) fn is_variable_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !RESERVED.contains(&text)
}

/// Checks a name given to a variable.
pub(super) fn variable_name(node: &Node) -> Result<Arc<str>> {
    let text = node.scalar_text().unwrap_or_default();
    if is_variable_name(&text) {
        Ok(text.into())
    } else {
        Err(Error::parse(
            format!(
                "Invalid variable name in 'register': a variable's name has letters, digits and `_`, no digit first, and is not '{text}'"
            ),
            &node.span,
        ))
    }
}

fn merged(low: &Mapping, high: &Mapping) -> Mapping {
    let mut map = low.clone();
    for (key, node) in high.iter() {
        map.insert(Key::clone(key), node.clone());
    }
    map
}

/// A host pattern as text: a list is joined.
fn pattern_text(hosts: &Node) -> String {
    match hosts.as_list() {
        Some(items) => items.iter().filter_map(Node::scalar_text).collect::<Vec<_>>().join(","),
        None => hosts.scalar_text().unwrap_or_default(),
    }
}
