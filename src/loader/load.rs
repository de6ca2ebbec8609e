//! Builds plays and tasks from YAML.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_yaml::{Key, Mapping, Node, Span};

use super::import;
use super::tags::tags_of_play;
use crate::error::{Error, Result};
use crate::foreign::Modules;
use crate::playbook::keyword::unknown;
use crate::playbook::{
    BeforeHosts, Block, Files, Frame, FrameKind, Item, Keywords, LoopedBlock, On, Play, Role, Task, checked,
};
use crate::vars::World;

/// Loads playbooks, task files and roles of one project.
#[derive(Debug)]
pub struct Loader {
    /// The project's files.
    pub files: Arc<Files>,
    /// State of the run before any play, used to evaluate names of imports.
    pub world: Arc<World>,
    /// Search path for collections.
    pub collections_path: Vec<PathBuf>,
    /// Finder of modules that are not built in.
    pub modules: Arc<Modules>,
}

/// Context of a list of tasks.
pub struct TaskFile<'a> {
    /// Frame from which its tasks inherit.
    pub frame: &'a Arc<Frame>,
    /// Conditions of enclosing imports.
    pub when: &'a [Node],
    /// Whether the tasks are handlers.
    pub handlers: bool,
    /// Directory of the playbook.
    pub playbook_dir: &'a Path,
    /// Collects contributions of imported roles to the whole play.
    pub imported: &'a Mutex<Imported>,
    /// Number of enclosing imports and roles.
    pub depth: u32,
}

/// Contributions of imported roles to the whole play.
#[derive(Debug, Default)]
pub struct Imported {
    /// The roles in the order they were read.
    pub roles: Vec<Arc<Role>>,
    /// Handlers of the roles, including their dependencies' handlers.
    pub handlers: Vec<Item>,
}

impl TaskFile<'_> {
    /// Depth of a nested import. Fails if imports appear to be endless.
    pub(super) fn deeper(&self, span: &Span) -> Result<u32> {
        // Far more than any project nests on purpose, and far less than the stack allows.
        const LIMIT: u32 = 50;
        if self.depth >= LIMIT {
            return Err(Error::parse(
                format!("imports are nested more than {LIMIT} deep: this one leads back to itself"),
                span,
            )
            .hint("for recursion use include_tasks or include_role, with a condition that ends it"));
        }
        Ok(self.depth + 1)
    }
}

/// A playbook that is read.
pub(super) struct Reading {
    plays: Vec<Play>,
    /// Playbooks that import each other, from the first to the current one.
    pub(super) chain: Vec<PathBuf>,
}

impl Loader {
    /// All plays of a playbook, including imported ones.
    pub fn playbook(&self, path: &Path) -> Result<Vec<Play>> {
        let mut reading = Reading { plays: Vec::new(), chain: vec![path.to_owned()] };
        self.playbook_into(path, &Keywords::default(), &mut reading)?;
        Ok(reading.plays)
    }

    pub(super) fn playbook_into(&self, path: &Path, inherited: &Keywords, reading: &mut Reading) -> Result<()> {
        // An imported playbook may have its own `library/`.
        self.modules.add_folder(path.parent().unwrap_or(Path::new("")));
        let node = self.files.yaml(path)?;
        if node.as_list().is_some_and(<[Node]>::is_empty) {
            return Err(Error::parse("A playbook must contain at least one play", &node.span)
                .hint("a playbook starts with `- hosts: ...`"));
        }
        let Some(entries) = node.as_list() else {
            let message = match node.is_null() {
                true => format!("{} is empty: a playbook is a list of plays", path.display()),
                false => format!("{} must be a list of plays, not {}", path.display(), node.kind()),
            };
            return Err(Error::parse(message, &node.span).hint("a playbook starts with `- hosts: ...`"));
        };
        let dir = path.parent().map(Path::to_path_buf).unwrap_or_default();
        for entry in entries {
            let Some(map) = entry.as_map() else {
                return Err(Error::parse(
                    format!("an entry of a playbook must be a play or import_playbook, not {}", entry.kind()),
                    &entry.span,
                ));
            };
            let import = import::NAMES.iter().find_map(|name| Some((*name, map.get(name)?)));
            if let Some(("include", target)) = import {
                self.warn_of_include("import_playbook", &target.span);
            }
            match import {
                Some((_, target)) => self.import_playbook(target, map, &dir, inherited, reading)?,
                None => reading.plays.push(self.play(entry, map, &dir, inherited)?),
            }
        }
        Ok(())
    }

    /// Warns about variables with reserved names.
    pub fn warn_of_reserved(&self, vars: &Mapping) {
        self.warn_of_reserved_names(vars.keys());
    }

    pub(super) fn warn_of_reserved_names<'a>(&self, names: impl Iterator<Item = &'a Key>) {
        let compat = self.world.run.engine.options().compat;
        crate::vars::reserved::warnings(names, compat).for_each(|sentence| self.files.warn(sentence));
    }

    fn play(&self, entry: &Node, map: &Arc<Mapping>, dir: &Path, inherited: &Keywords) -> Result<Play> {
        let mut keywords = Keywords::read(map, On::Play, |word, node| Err(unknown(word, On::Play, node)))?;
        self.modules.check_groups(keywords.get("module_defaults"))?;
        let Some(hosts) = keywords.get("hosts").cloned() else {
            return Err(Error::parse("a play needs `hosts`: the pattern of the hosts it runs on", &entry.span));
        };
        checked::hosts(&hosts)?;
        checked::sections(&keywords)?;
        rename_user(&mut keywords)?;
        let own_vars = keywords.vars()?;
        self.warn_of_reserved(&own_vars);
        let import_vars = inherited.vars()?;
        let vars = if import_vars.is_empty() { own_vars } else { Arc::new(merged(&own_vars, &import_vars)) };
        let context = self.context(&[&self.world.run.extra_vars, &vars], dir, None);
        let tags = tags_of_play(&keywords, inherited, &context);
        let files = self.known_files(&keywords.list("vars_files"), dir, &context)?;
        let import_when = inherited.list("when");
        let own = with_inherited(&keywords, inherited, dir, &entry.span);
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
        let section = |name: &str| self.items_of(keywords.get(name), &from);
        let mut tasks = Vec::new();
        let mut handlers = Vec::new();
        let mut roles = Vec::new();
        for entry in keywords.list("roles") {
            let request = self.role_entry(&entry, &frame, dir)?;
            let loaded = self.role(&request, &from)?;
            tasks.push(loaded.tasks);
            handlers.extend(loaded.handlers);
            roles.push(loaded.role);
        }
        tasks.extend(section("tasks")?);
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
            dir: crate::paths::absolute(dir),
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

    /// Builds a list of tasks and blocks.
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

    /// Reads the tasks of a file.
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
        let block = self.block_of_item(entry, map, from)?;
        // `null` counts as absent.
        let Some(node) = map.get("loop").filter(|node| !node.is_null()) else { return Ok(Item::Block(block)) };
        if from.handlers {
            return Err(Error::parse("Using a loop on a block of handlers is not supported.", &node.span)
                .hint("handlers are notified one by one: put the loop on each of them"));
        }
        let keywords = Keywords::read(map, On::Block, |word, node| Err(unknown(word, On::Block, node)))?;
        Ok(Item::Task(Arc::new(Task {
            id: Task::next_id(),
            name: keywords.get("name").cloned(),
            action: "block".to_owned(),
            args: Arc::default(),
            args_template: None,
            vars: keywords.vars()?,
            when: from.when.iter().cloned().chain(keywords.list("when")).collect(),
            tags: Arc::clone(&block.frame.tags),
            with_lookup: None,
            register: None,
            listen: Vec::new(),
            frame: Arc::clone(from.frame),
            handler: false,
            span: entry.span.clone(),
            keywords: keywords.without(&["always", "block", "rescue"]),
            looped: Some(Arc::new(LoopedBlock { entry: entry.clone(), when: from.when.to_vec(), block })),
        })))
    }

    /// Builds a block for one item of its loop, or a block without a loop.
    pub fn block_of_item(&self, entry: &Node, map: &Mapping, from: &TaskFile<'_>) -> Result<Arc<Block>> {
        let keywords = Keywords::read(map, On::Block, |word, node| Err(unknown(word, On::Block, node)))?;
        let keywords = keywords.without(&["loop", "loop_control"]);
        self.modules.check_groups(keywords.get("module_defaults"))?;
        if keywords.get("block").is_none() && !map.contains_key("block") {
            let part = if map.contains_key("rescue") { "rescue" } else { "always" };
            return Err(Error::parse(format!("`{part}` needs a `block` beside it"), &entry.span));
        }
        let vars = keywords.vars()?;
        self.warn_of_reserved(&vars);
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
        Ok(Arc::new(block))
    }
}

/// Takes the older name `user` for `remote_user`.
fn rename_user(keywords: &mut Keywords) -> Result<()> {
    let Some(user) = keywords.get("user").cloned() else { return Ok(()) };
    if keywords.get("remote_user").is_some() {
        let message = "both 'user' and 'remote_user' are set for this play. The use of 'user' is deprecated, and should be removed";
        return Err(Error::parse(message, &user.span));
    }
    keywords.set("remote_user", user);
    Ok(())
}

/// Keywords of a play, with the keywords of `import_playbook` and the collection of the playbook.
fn with_inherited(keywords: &Keywords, inherited: &Keywords, dir: &Path, span: &Span) -> Keywords {
    let mut own = keywords.clone();
    for name in
        ["become", "become_user", "become_method", "environment", "no_log", "any_errors_fatal", "check_mode", "diff"]
    {
        if let (None, Some(node)) = (keywords.get(name), inherited.get(name)) {
            own.set(name, node.clone());
        }
    }
    // Short names are searched first in the collection that contains the playbook.
    if let Some(collection) = crate::playbook::collection_with(&crate::paths::absolute(dir), "playbooks") {
        let names = [Node::literal(collection, span.clone())].into_iter().chain(own.list("collections"));
        own.set("collections", Node::list(names.collect(), span.clone()));
    }
    own
}

fn merged(low: &Mapping, high: &Mapping) -> Mapping {
    let mut map = low.clone();
    for (key, node) in high.iter() {
        map.insert(Key::clone(key), node.clone());
    }
    map
}

/// A host pattern as text; the entries of a list are joined.
fn pattern_text(hosts: &Node) -> String {
    match hosts.as_list() {
        Some(items) => items.iter().filter_map(Node::scalar_text).collect::<Vec<_>>().join(","),
        None => hosts.scalar_text().unwrap_or_default(),
    }
}
