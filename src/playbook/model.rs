//! What the user wrote, checked and with imports expanded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_yaml::{Mapping, Node, Span};

use super::keyword::Keywords;

/// One play.
#[derive(Debug)]
pub struct Play {
    /// Its name, or its host pattern.
    pub name: String,
    /// Who it runs on.
    pub hosts: Node,
    /// Its frame, the outermost of every task in it.
    pub frame: Arc<Frame>,
    /// Files of variables, in order; a list inside is searched for the first that exists.
    pub vars_files: Vec<Node>,
    /// What runs before the roles.
    pub pre_tasks: Vec<Item>,
    /// The roles and then the tasks.
    pub tasks: Vec<Item>,
    /// What runs at the end.
    pub post_tasks: Vec<Item>,
    /// Handlers: of the roles in order, then the play's own.
    pub handlers: Vec<Item>,
    /// Its roles and those that are imported anywhere in it, in order.
    pub roles: Vec<Arc<Role>>,
    /// The folder of the playbook file.
    pub dir: PathBuf,
    /// Where it is written.
    pub span: Span,
}

impl Play {
    /// Every task that is written in it, and every handler.
    pub fn all_tasks(&self) -> Vec<&Arc<Task>> {
        let mut tasks = Vec::new();
        for items in [&self.pre_tasks, &self.tasks, &self.post_tasks, &self.handlers] {
            tasks_in(items, &mut tasks);
        }
        tasks
    }

    /// Whether the name of a file in `vars_files` depends on variables.
    pub fn has_templated_files(&self) -> bool {
        let is_template = |node: &Node| node.as_str().is_some_and(|text| text.contains("{{") || text.contains("{%"));
        self.vars_files.iter().any(|node| match node.as_list() {
            Some(names) => names.iter().any(is_template),
            None => is_template(node),
        })
    }
}

fn tasks_in<'a>(items: &'a [Item], tasks: &mut Vec<&'a Arc<Task>>) {
    for item in items {
        match item {
            Item::Task(task) => tasks.push(task),
            Item::Block(block) => {
                for part in [&block.body, &block.rescue, &block.always] {
                    tasks_in(part, tasks);
                }
            }
        }
    }
}

/// What tasks inherit from: a play, a role, a block or an include.
#[derive(Debug)]
pub struct Frame {
    /// The frame around it.
    pub parent: Option<Arc<Frame>>,
    /// The keywords written on it.
    pub keywords: Keywords,
    /// Its variables.
    pub vars: Arc<Mapping>,
    /// What it is.
    pub kind: FrameKind,
    /// The tags of all frames down to here.
    pub tags: Arc<[String]>,
}

/// What a frame stands for.
#[derive(Debug)]
pub enum FrameKind {
    /// The play.
    Play(BeforeHosts),
    /// A role; its tasks see its variables.
    Role(Arc<Role>),
    /// What the dependencies of a role are in: they see its variables too.
    Dependent(Arc<Dependent>),
    /// A block.
    Block,
    /// A dynamic include: its `vars` rank above facts and registered results.
    Include,
    /// An import: its `vars` rank as those of a block.
    Import,
}

/// What a play knows before its hosts are known: imports and `hosts` may use it.
#[derive(Debug, Default)]
pub struct BeforeHosts {
    /// The folder of the playbook file.
    pub dir: PathBuf,
    /// Those of `vars_files` whose names depend on no host, as they were when the playbook was read.
    pub files: Vec<Arc<Mapping>>,
}

/// The variables of a role that the roles it depends on see.
#[derive(Debug)]
pub struct Dependent {
    /// Parameters of its entry.
    pub params: Arc<Mapping>,
    /// `vars/`.
    pub vars: Arc<Mapping>,
    /// `defaults/`.
    pub defaults: Arc<Mapping>,
}

impl Frame {
    /// This frame and all around it, innermost first.
    pub fn chain(self: &Arc<Frame>) -> impl Iterator<Item = &Arc<Frame>> {
        std::iter::successors(Some(self), |frame| frame.parent.as_ref())
    }

    /// What the play around it knows before its hosts are known.
    pub fn before_hosts(self: &Arc<Frame>) -> Option<&BeforeHosts> {
        self.chain().find_map(|frame| match &frame.kind {
            FrameKind::Play(known) => Some(known),
            _ => None,
        })
    }

    /// The role the frame belongs to, the innermost one.
    pub fn role(self: &Arc<Frame>) -> Option<&Arc<Role>> {
        self.chain().find_map(|frame| match &frame.kind {
            FrameKind::Role(role) => Some(role),
            _ => None,
        })
    }

    /// The nearest value of an inherited keyword.
    pub fn keyword(self: &Arc<Frame>, name: &str) -> Option<&Node> {
        self.chain().find_map(|frame| frame.keywords.get(name))
    }
}

/// A role as it is used at one place.
#[derive(Debug)]
pub struct Role {
    /// Its name as it was asked for.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// `defaults/`.
    pub defaults: Arc<Mapping>,
    /// `vars/`.
    pub vars: Arc<Mapping>,
    /// Parameters of the entry: keys that are no keywords.
    pub params: Arc<Mapping>,
    /// The roles it depends on, which have run before it.
    pub dependencies: Vec<Arc<Role>>,
    /// Roles inside which it was used, innermost first.
    pub parents: Vec<Arc<Role>>,
    /// Whether the whole play sees its defaults and variables.
    pub public: bool,
    /// Whether it may run again on a host it has completed on.
    pub allow_duplicates: bool,
    /// What makes two uses the same: name, place, parameters, conditions, tags.
    pub identity: String,
}

impl Role {
    /// Its name without its collection.
    pub fn short_name(&self) -> &str {
        match self.collection() {
            Some(_) => self.name.rsplit('.').next().unwrap_or(&self.name),
            None => &self.name,
        }
    }

    /// The collection it is in, `namespace.name`.
    pub fn collection(&self) -> Option<String> {
        collection_of(&self.path)
    }
}

/// The collection that a role's folder is in, `namespace.name`.
pub(super) fn collection_of(path: &Path) -> Option<String> {
    collection_with(path, "roles")
}

/// The collection whose folder `kind` (`roles`, `playbooks`) a path is in, `namespace.name`.
pub(super) fn collection_with(path: &Path, kind: &str) -> Option<String> {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let start = parts.iter().rposition(|part| *part == "ansible_collections")?;
    match parts.get(start + 1..)? {
        [namespace, name, folder, ..] if *folder == kind => Some(format!("{namespace}.{name}")),
        _ => None,
    }
}

/// A task or a block.
#[derive(Debug, Clone)]
pub enum Item {
    /// A task.
    Task(Arc<Task>),
    /// A block, also the invisible one around a role or an import.
    Block(Arc<Block>),
}

/// Tasks with a rescue and an always part.
#[derive(Debug)]
pub struct Block {
    /// What its tasks inherit.
    pub frame: Arc<Frame>,
    /// What runs.
    pub body: Vec<Item>,
    /// What runs when something in the body fails.
    pub rescue: Vec<Item>,
    /// What runs in any case.
    pub always: Vec<Item>,
    /// The role this block is the whole of.
    pub role: Option<Arc<Role>>,
}

impl Block {
    /// Items in a row, with nothing that rescues them.
    pub fn plain(frame: &Arc<Frame>, body: Vec<Item>) -> Block {
        Block { frame: Arc::clone(frame), body, rescue: Vec::new(), always: Vec::new(), role: None }
    }
}

/// One task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Unique in this process.
    pub id: u64,
    /// Its name as written.
    pub name: Option<Node>,
    /// The action's name as written.
    pub action: String,
    /// Its arguments; free text is under `_raw_params`.
    pub args: Arc<Mapping>,
    /// `args: "{{ a mapping }}"`, which ranks below the arguments.
    pub args_template: Option<Node>,
    /// Its own keywords.
    pub keywords: Keywords,
    /// Its own variables.
    pub vars: Arc<Mapping>,
    /// All conditions, outermost first.
    pub when: Arc<[Node]>,
    /// All tags.
    pub tags: Arc<[String]>,
    /// `with_LOOKUP`: the lookup and its terms.
    pub with_lookup: Option<(String, Node)>,
    /// The variable for its result.
    pub register: Option<Arc<str>>,
    /// The topics a handler listens to.
    pub listen: Vec<String>,
    /// What it inherits from.
    pub frame: Arc<Frame>,
    /// Whether it is a handler.
    pub handler: bool,
    /// Where it is written.
    pub span: Span,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Task {
    /// The next unique id.
    pub fn next_id() -> u64 {
        NEXT_ID.fetch_add(1, Ordering::Relaxed)
    }

    /// A task the engine itself adds, such as gathering facts.
    pub fn internal(action: &str, args: Mapping, frame: &Arc<Frame>, tags: &[&str]) -> Task {
        Task {
            id: Task::next_id(),
            name: None,
            action: action.to_owned(),
            args: Arc::new(args),
            args_template: None,
            keywords: Keywords::default(),
            vars: Arc::default(),
            when: Arc::default(),
            tags: frame.tags.iter().cloned().chain(tags.iter().map(|tag| (*tag).to_owned())).collect(),
            with_lookup: None,
            register: None,
            listen: Vec::new(),
            frame: Arc::clone(frame),
            handler: false,
            span: Span::none(),
        }
    }

    /// The nearest value of a keyword: the task's own or an inherited one.
    pub fn keyword(&self, name: &str) -> Option<&Node> {
        self.keywords.get(name).or_else(|| self.frame.keyword(name))
    }

    /// The collections in which its short name is searched.
    pub fn collections(&self) -> Vec<String> {
        super::task::collections_of(&self.keywords, &self.frame)
    }

    /// All values of a keyword: the task's own, then those it inherits, nearest first.
    pub fn keyword_values(&self, name: &str) -> impl Iterator<Item = &Node> {
        self.keywords.get(name).into_iter().chain(self.frame.chain().filter_map(move |frame| frame.keywords.get(name)))
    }

    /// The action without its collection.
    pub fn short_action(&self) -> &str {
        short_name(&self.action)
    }
}

/// `copy` of `ansible.builtin.copy` and `ansible.legacy.copy`; other collections keep their names.
pub fn short_name(action: &str) -> &str {
    action.strip_prefix("ansible.builtin.").or_else(|| action.strip_prefix("ansible.legacy.")).unwrap_or(action)
}
