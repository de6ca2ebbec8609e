//! Data model of playbooks, checked and with imports expanded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_yaml::{Mapping, Node, Span};

use super::keyword::Keywords;

/// One play.
#[derive(Debug)]
pub struct Play {
    /// Name of the play, or its host pattern.
    pub name: String,
    /// Host pattern.
    pub hosts: Node,
    /// Outermost frame of every task in the play.
    pub frame: Arc<Frame>,
    /// Files of variables in order. Of a nested list the first existing file counts.
    pub vars_files: Vec<Node>,
    /// Tasks that run before the roles.
    pub pre_tasks: Vec<Item>,
    /// Tasks of the roles, followed by the play's own.
    pub tasks: Vec<Item>,
    /// Tasks that run at the end.
    pub post_tasks: Vec<Item>,
    /// Handlers of the roles in order, then the play's own.
    pub handlers: Vec<Item>,
    /// Roles of the play in order, including those imported anywhere in it.
    pub roles: Vec<Arc<Role>>,
    /// Directory of the playbook file.
    pub dir: PathBuf,
    /// Position in the project's files.
    pub span: Span,
}

impl Play {
    /// All tasks and handlers written in the play.
    pub fn all_tasks(&self) -> Vec<&Arc<Task>> {
        let mut tasks = Vec::new();
        for items in [&self.pre_tasks, &self.tasks, &self.post_tasks, &self.handlers] {
            tasks_in(items, &mut tasks);
        }
        tasks
    }

    /// Whether a file name in `vars_files` depends on variables.
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
            Item::Task(task) => match &task.looped {
                Some(looped) => looped.block.tasks_into(tasks),
                None => tasks.push(task),
            },
            Item::Block(block) => block.tasks_into(tasks),
        }
    }
}

/// Something that tasks inherit from: a play, a role, a block or an include.
#[derive(Debug)]
pub struct Frame {
    /// Enclosing frame.
    pub parent: Option<Arc<Frame>>,
    /// Keywords written on it.
    pub keywords: Keywords,
    /// Variables of the frame.
    pub vars: Arc<Mapping>,
    /// Kind of the frame.
    pub kind: FrameKind,
    /// Tags of this and all enclosing frames.
    pub tags: Arc<[String]>,
}

/// Kind of a frame.
#[derive(Debug)]
pub enum FrameKind {
    /// The play.
    Play(BeforeHosts),
    /// A role, whose variables its tasks see.
    Role(Arc<Role>),
    /// The dependencies of a role, which see the role's variables too.
    Dependent(Arc<Dependent>),
    /// A block.
    Block,
    /// A dynamic include; its `vars` outrank facts and registered results.
    Include,
    /// An import; its `vars` have the precedence of a block's.
    Import,
}

/// Variables known before the hosts of a play, for imports and `hosts`.
#[derive(Debug, Default)]
pub struct BeforeHosts {
    /// Directory of the playbook file.
    pub dir: PathBuf,
    /// The `vars_files` whose names depend on no host, as read with the playbook.
    pub files: Vec<Arc<Mapping>>,
}

/// Parts of a role that its dependencies see.
#[derive(Debug)]
pub struct Dependent {
    /// Folder of the role.
    pub path: PathBuf,
    /// Parameters of the role's entry.
    pub params: Arc<Mapping>,
    /// `vars/`.
    pub vars: Arc<Mapping>,
    /// `defaults/`.
    pub defaults: Arc<Mapping>,
}

impl Frame {
    /// This frame and all enclosing ones, innermost first.
    pub fn chain(self: &Arc<Frame>) -> impl Iterator<Item = &Arc<Frame>> {
        std::iter::successors(Some(self), |frame| frame.parent.as_ref())
    }

    /// Variables of the enclosing play that are known before its hosts.
    pub fn before_hosts(self: &Arc<Frame>) -> Option<&BeforeHosts> {
        self.chain().find_map(|frame| match &frame.kind {
            FrameKind::Play(known) => Some(known),
            _ => None,
        })
    }

    /// Roles that contain the frame, innermost first.
    pub fn roles(self: &Arc<Frame>) -> impl Iterator<Item = &Arc<Role>> {
        self.chain().filter_map(|frame| match &frame.kind {
            FrameKind::Role(role) => Some(role),
            _ => None,
        })
    }

    /// Folders of the roles that contain the frame or depend on what it is in, innermost first.
    pub fn role_folders(self: &Arc<Frame>) -> impl Iterator<Item = &Path> {
        self.chain().filter_map(|frame| match &frame.kind {
            FrameKind::Role(role) => Some(role.path.as_path()),
            FrameKind::Dependent(role) => Some(role.path.as_path()),
            _ => None,
        })
    }

    /// Innermost role that contains the frame.
    pub fn role(self: &Arc<Frame>) -> Option<&Arc<Role>> {
        self.roles().next()
    }

    /// Nearest value of an inherited keyword.
    pub fn keyword(self: &Arc<Frame>, name: &str) -> Option<&Node> {
        self.chain().find_map(|frame| frame.keywords.get(name))
    }
}

/// One use of a role.
#[derive(Debug)]
pub struct Role {
    /// Name as requested.
    pub name: String,
    /// Directory of the role.
    pub path: PathBuf,
    /// `defaults/`.
    pub defaults: Arc<Mapping>,
    /// `vars/`.
    pub vars: Arc<Mapping>,
    /// Parameters of the entry: keys that are not keywords.
    pub params: Arc<Mapping>,
    /// Roles it depends on, which run before it.
    pub dependencies: Vec<Arc<Role>>,
    /// Enclosing roles, innermost first.
    pub parents: Vec<Arc<Role>>,
    /// Whether the whole play sees its defaults and variables.
    pub public: bool,
    /// Whether the role may run again on a host that has completed it.
    pub allow_duplicates: bool,
    /// Key that is equal for equal uses: name, position, parameters, conditions, tags.
    pub identity: String,
}

impl Role {
    /// Name without the collection.
    pub fn short_name(&self) -> &str {
        match self.collection() {
            Some(_) => self.name.rsplit('.').next().unwrap_or(&self.name),
            None => &self.name,
        }
    }

    /// Collection of the role, `namespace.name`.
    pub fn collection(&self) -> Option<String> {
        collection_of(&self.path)
    }
}

/// Collection that contains a role's directory, `namespace.name`.
pub(crate) fn collection_of(path: &Path) -> Option<String> {
    collection_with(path, "roles")
}

/// Collection with a directory `kind` (`roles`, `playbooks`) that contains the path, as `namespace.name`.
pub(crate) fn collection_with(path: &Path, kind: &str) -> Option<String> {
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
    /// A block, including the implicit one around a role or import.
    Block(Arc<Block>),
}

/// Tasks with `rescue` and `always` sections.
#[derive(Debug)]
pub struct Block {
    /// Frame from which its tasks inherit.
    pub frame: Arc<Frame>,
    /// Items that run first.
    pub body: Vec<Item>,
    /// Items that run after a failure in the body.
    pub rescue: Vec<Item>,
    /// Items that run in any case.
    pub always: Vec<Item>,
    /// Role that this block represents as a whole.
    pub role: Option<Arc<Role>>,
}

impl Block {
    /// A block without `rescue` and `always`.
    pub fn plain(frame: &Arc<Frame>, body: Vec<Item>) -> Block {
        Block { frame: Arc::clone(frame), body, rescue: Vec::new(), always: Vec::new(), role: None }
    }

    /// All tasks written in the block.
    pub fn tasks(&self) -> Vec<&Arc<Task>> {
        let mut tasks = Vec::new();
        self.tasks_into(&mut tasks);
        tasks
    }

    fn tasks_into<'a>(&'a self, tasks: &mut Vec<&'a Arc<Task>>) {
        for part in [&self.body, &self.rescue, &self.always] {
            tasks_in(part, tasks);
        }
    }
}

/// A block with a `loop`. Its tasks are built for each item, so that every item has variables and positions of its own.
#[derive(Debug)]
pub struct LoopedBlock {
    /// The block as written.
    pub entry: Node,
    /// Conditions of enclosing blocks and imports.
    pub when: Vec<Node>,
    /// The block without items, for lists of tasks and their tags.
    pub block: Arc<Block>,
}

/// A task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Unique in this process.
    pub id: u64,
    /// Name as written.
    pub name: Option<Node>,
    /// Name of the action as written.
    pub action: String,
    /// Arguments; free text is stored under `_raw_params`.
    pub args: Arc<Mapping>,
    /// `args: "{{ mapping }}"`, outranked by the arguments.
    pub args_template: Option<Node>,
    /// Keywords of the task itself.
    pub keywords: Keywords,
    /// Variables of the task itself.
    pub vars: Arc<Mapping>,
    /// Conditions, outermost first.
    pub when: Arc<[Node]>,
    /// Tags, including inherited ones.
    pub tags: Arc<[String]>,
    /// `with_LOOKUP`: the lookup and its terms.
    pub with_lookup: Option<(String, Node)>,
    /// Variable for its result.
    pub register: Option<Arc<str>>,
    /// Topics that the handler listens to.
    pub listen: Vec<String>,
    /// Frame from which it inherits.
    pub frame: Arc<Frame>,
    /// Whether the task is a handler.
    pub handler: bool,
    /// The block that the task repeats, of a block with a `loop`.
    pub looped: Option<Arc<LoopedBlock>>,
    /// Position in the project's files.
    pub span: Span,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Task {
    /// Returns the next unique id.
    pub fn next_id() -> u64 {
        NEXT_ID.fetch_add(1, Ordering::Relaxed)
    }

    /// A task that the engine adds itself, such as gathering facts.
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
            looped: None,
            span: Span::none(),
        }
    }

    /// Nearest value of a keyword: the task's own or an inherited one.
    pub fn keyword(&self, name: &str) -> Option<&Node> {
        self.keywords.get(name).or_else(|| self.frame.keyword(name))
    }

    /// Whether the task declares that it never changes anything: `changed_when: false`.
    pub fn changes_nothing(&self) -> bool {
        self.keywords.get("changed_when").and_then(Node::as_bool) == Some(false)
    }

    /// Whether the task's output is data for other tasks: it registers its result and never changes anything.
    pub fn only_reads(&self) -> bool {
        self.register.is_some() && self.changes_nothing()
    }

    /// Whether `no_log` hides its results; `default` is the setting of this name. A template that decides may also hide
    /// them.
    pub fn may_be_hidden(&self, default: bool) -> bool {
        self.keyword("no_log").map_or(default, |node| node.as_bool() != Some(false))
    }

    /// Whether the action is `setup` or `gather_facts`.
    pub fn gathers_facts(&self) -> bool {
        matches!(self.short_action(), "setup" | "gather_facts")
    }

    /// Collections in which its short name is searched.
    pub fn collections(&self) -> Vec<String> {
        collections_of(&self.keywords, &self.frame)
    }

    /// All values of a keyword: the task's own, then those it inherits, nearest first.
    pub fn keyword_values(&self, name: &str) -> impl Iterator<Item = &Node> {
        self.keywords.get(name).into_iter().chain(self.frame.chain().filter_map(move |frame| frame.keywords.get(name)))
    }

    /// Whether the task is an include or a block with a `loop`: a host that reaches it continues with tasks that are
    /// built then.
    pub fn is_include(&self) -> bool {
        self.looped.is_some() || matches!(self.short_action(), "include_tasks" | "include_role")
    }

    /// Short name of the action.
    pub fn short_action(&self) -> &str {
        short_name(&self.action)
    }

    /// Whether items of the task's loop may run in parallel on a host.
    pub(crate) fn has_parallel_items(&self) -> bool {
        self.keywords.get("loop_control").is_some_and(|control| control.get("parallel").is_some())
    }
}

/// Collections in which short names are searched: the role's own, then `collections`.
pub(crate) fn collections_of(keywords: &Keywords, frame: &Arc<Frame>) -> Vec<String> {
    let own = frame.role().and_then(|role| role.collection());
    let named = keywords.get("collections").or_else(|| frame.keyword("collections"));
    let named =
        named.map(|node| node.as_list().map_or_else(|| vec![node.clone()], <[Node]>::to_vec)).unwrap_or_default();
    own.into_iter().chain(named.iter().filter_map(Node::scalar_text)).collect()
}

/// Strips `ansible.builtin.` and `ansible.legacy.`; other collections keep their prefix.
pub fn short_name(action: &str) -> &str {
    action.strip_prefix("ansible.builtin.").or_else(|| action.strip_prefix("ansible.legacy.")).unwrap_or(action)
}
