//! Walks over plays, blocks and tasks, and lists everything that rules look at.

use std::sync::Arc;

use windlass_template::uses::Form;
use windlass_yaml::{Key, Mapping, Node, Span};

use super::source::{Kind, SourceFile};
use crate::foreign::{Modules, Resolution};
use crate::loader::IMPORT_NAMES;
use crate::playbook::keyword::is_keyword;
use crate::playbook::{On, arguments, short_name};

/// A play, a block or an import of a playbook.
pub(super) struct Entry<'p> {
    pub(super) file: &'p SourceFile,
    pub(super) node: &'p Node,
    pub(super) map: &'p Arc<Mapping>,
    pub(super) on: On,
}

impl Entry<'_> {
    /// The name of the playbook that an import names.
    pub(super) fn imported(&self) -> Option<&Node> {
        imported(self.map)
    }
}

fn imported(map: &Mapping) -> Option<&Node> {
    IMPORT_NAMES.iter().find_map(|name| map.get(name))
}

/// A task or handler.
pub(super) struct Task<'p> {
    pub(super) file: &'p SourceFile,
    pub(super) node: &'p Node,
    pub(super) map: &'p Arc<Mapping>,
    pub(super) on: On,
    /// Enclosing plays and blocks, outermost first.
    pub(super) outer: Vec<&'p Arc<Mapping>>,
    /// Action of the task; `None` if it has none.
    pub(super) action: Option<Action>,
    /// Keys that are neither keywords nor the action.
    pub(super) others: Vec<&'p Key>,
}

/// The action of a task.
pub(super) struct Action {
    /// Name as written.
    pub(super) name: String,
    /// Position of the name.
    pub(super) span: Span,
    /// Arguments; free text is stored under `_raw_params`.
    pub(super) args: Mapping,
    /// Whether `args` is a template, which may add any option.
    pub(super) has_template: bool,
}

impl Action {
    /// Name without `ansible.builtin.`.
    pub(super) fn short(&self) -> &str {
        short_name(&self.name)
    }

    /// Name without any collection.
    pub(super) fn last_word(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

impl Task<'_> {
    /// Line where the task begins.
    pub(super) fn line(&self) -> u32 {
        self.node.span.line
    }
}

/// A use of a role: an entry of `roles`, a dependency, or an include.
pub(super) struct RoleUse<'p> {
    pub(super) file: &'p SourceFile,
    pub(super) span: Span,
    /// Name of the role.
    pub(super) name: String,
    /// Entry point.
    pub(super) tasks_from: String,
    /// Parameters.
    pub(super) params: Vec<(&'p Key, &'p Node)>,
}

/// A text that may be a template or a condition.
pub(super) struct Text<'p> {
    pub(super) file: &'p SourceFile,
    pub(super) node: &'p Node,
    pub(super) form: Form,
    /// First line of the task with the text.
    pub(super) task_line: Option<u32>,
}

/// Everything that rules look at.
#[derive(Default)]
pub(super) struct Tree<'p> {
    pub(super) entries: Vec<Entry<'p>>,
    pub(super) tasks: Vec<Task<'p>>,
    pub(super) roles: Vec<RoleUse<'p>>,
    pub(super) texts: Vec<Text<'p>>,
    /// Nodes that are not what their place needs, with the reason.
    pub(super) faults: Vec<(&'p SourceFile, Span, String)>,
}

/// Keywords of a task whose value is a condition.
const CONDITIONS: [&str; 4] = ["when", "changed_when", "failed_when", "until"];

/// Sections of plays and blocks that hold tasks.
pub(super) const SECTIONS: [&str; 7] = ["pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always"];

/// Place of a list of tasks.
#[derive(Clone)]
struct Around<'p> {
    file: &'p SourceFile,
    outer: Vec<&'p Arc<Mapping>>,
    handlers: bool,
}

/// Walks over all files.
pub(super) fn walk<'p>(files: &'p [SourceFile], modules: &Modules) -> Tree<'p> {
    let mut walk = Walk { tree: Tree::default(), modules };
    for file in files.iter().filter(|file| file.error.is_none()) {
        let around = Around { file, outer: Vec::new(), handlers: file.kind == Kind::Handlers };
        match file.kind {
            Kind::Playbook => walk.playbook(file),
            Kind::Tasks | Kind::Handlers => walk.tasks(&file.node, &around),
            Kind::Vars | Kind::RoleVars => {
                let is_mapping = file.node.is_null() || file.node.as_map().is_some();
                if !is_mapping {
                    let message = format!("a file of variables must hold a mapping, not {}", file.node.kind());
                    walk.fault(file, &file.node, message);
                }
                walk.texts(file, &file.node, Form::Text, None);
            }
            Kind::Meta => {
                for entry in file.node.get("dependencies").and_then(Node::as_list).unwrap_or_default() {
                    walk.role_entry(entry, file);
                }
            }
            Kind::ArgumentSpecs | Kind::Template | Kind::OtherYaml | Kind::Text => {}
        }
    }
    walk.tree
}

struct Walk<'p, 'm> {
    tree: Tree<'p>,
    modules: &'m Modules,
}

impl<'p> Walk<'p, '_> {
    fn fault(&mut self, file: &'p SourceFile, node: &Node, message: impl Into<String>) {
        self.tree.faults.push((file, node.span.clone(), message.into()));
    }

    fn playbook(&mut self, file: &'p SourceFile) {
        for node in file.node.as_list().unwrap_or_default() {
            let Some(map) = node.as_map() else {
                self.fault(file, node, format!("an entry of a playbook must be a play, not {}", node.kind()));
                continue;
            };
            let on = if imported(map).is_some() { On::Import } else { On::Play };
            self.tree.entries.push(Entry { file, node, map, on });
            if on == On::Play && !map.contains_key("hosts") {
                self.fault(file, node, "a play needs `hosts`: the pattern of the hosts it runs on");
            }
            for entry in map.get("roles").and_then(Node::as_list).unwrap_or_default() {
                self.role_entry(entry, file);
            }
            for (key, value) in map.iter() {
                let word = key.as_str().unwrap_or_default();
                if SECTIONS.contains(&word) {
                    let handlers = word == "handlers";
                    self.tasks(value, &Around { file, outer: vec![map], handlers });
                } else if word != "roles" {
                    let form = if word == "when" { Form::Expression } else { Form::Text };
                    self.texts(file, value, form, None);
                }
            }
        }
    }

    fn tasks(&mut self, list: &'p Node, around: &Around<'p>) {
        if list.is_null() {
            return;
        }
        let Some(items) = list.as_list() else {
            self.fault(around.file, list, format!("tasks must be a list, not {}", list.kind()));
            return;
        };
        for node in items.iter().filter(|node| !node.is_null()) {
            let Some(map) = node.as_map() else {
                self.fault(around.file, node, format!("a task must be a mapping, not {}", node.kind()));
                continue;
            };
            match ["block", "rescue", "always"].iter().any(|key| map.contains_key(key)) {
                true => self.block(node, map, around),
                false => self.task(node, map, around),
            }
        }
    }

    fn block(&mut self, node: &'p Node, map: &'p Arc<Mapping>, around: &Around<'p>) {
        self.tree.entries.push(Entry { file: around.file, node, map, on: On::Block });
        let mut inner = around.clone();
        inner.outer.push(map);
        for (key, value) in map.iter() {
            match key.as_str().unwrap_or_default() {
                word if SECTIONS.contains(&word) => self.tasks(value, &inner),
                "when" => self.texts(around.file, value, Form::Expression, Some(node.span.line)),
                _ => self.texts(around.file, value, Form::Text, Some(node.span.line)),
            }
        }
    }

    fn task(&mut self, node: &'p Node, map: &'p Arc<Mapping>, around: &Around<'p>) {
        let on = if around.handlers { On::Handler } else { On::Task };
        let is_other =
            |key: &&Key| key.as_str().is_some_and(|word| !is_keyword(word, on) && !word.starts_with("with_"));
        let mut others: Vec<&Key> = map.keys().filter(is_other).collect();
        let action = self.action(map, &mut others);
        let file = around.file;
        let mut task = Task { file, node, map, on, outer: around.outer.clone(), action, others };
        if task.action.is_none() && task.others.is_empty() {
            let message = "this task has no module: add a key with the module's name and its arguments";
            self.fault(file, node, message);
        }
        let line = Some(node.span.line);
        let called = task.action.as_ref().map(|action| action.short().to_owned()).unwrap_or_default();
        for (key, value) in map.iter() {
            let word = key.as_str().unwrap_or_default();
            if CONDITIONS.contains(&word) {
                self.texts(file, value, Form::Expression, line);
            } else if word == "loop_control" {
                for (key, value) in value.as_map().into_iter().flat_map(|map| map.iter()) {
                    let is_condition = key.as_str() == Some("break_when");
                    self.texts(file, value, if is_condition { Form::Expression } else { Form::Text }, line);
                }
            } else if let Some(inner) =
                value.as_map().filter(|_| key.as_str().is_some_and(|key| short_name(key) == called))
            {
                for (key, value) in inner.iter() {
                    let is_expression = match (called.as_str(), key.as_str()) {
                        ("assert", Some("that")) => true,
                        ("debug", Some("var")) => value.as_str().is_some(),
                        _ => false,
                    };
                    self.texts(file, value, if is_expression { Form::Expression } else { Form::Text }, line);
                }
            } else {
                self.texts(file, value, Form::Text, line);
            }
        }
        self.included_role(&mut task);
        self.tree.tasks.push(task);
    }

    /// Takes the action out of the keys that are not keywords.
    fn action(&mut self, map: &'p Arc<Mapping>, others: &mut Vec<&'p Key>) -> Option<Action> {
        let (name, span, value) = match ["action", "local_action"].iter().find_map(|name| map.get_entry(name)) {
            Some((key, node)) => {
                let (name, value) = arguments::split_action(node).ok()?;
                (name, key.span.clone(), value)
            }
            None => {
                let known = |key: &&Key| {
                    let name = key.as_str().unwrap_or_default();
                    !matches!(self.modules.resolve(name, &[]), Resolution::Unknown(_))
                };
                let index = match others.as_slice() {
                    [_] => 0,
                    several => several.iter().position(known)?,
                };
                let key = others.remove(index);
                (key.as_str()?.to_owned(), key.span.clone(), map.get(key.as_str()?)?.clone())
            }
        };
        let mut args = arguments::of_node(&name, &value).unwrap_or_default();
        let extra = map.get("args");
        for (key, node) in extra.and_then(Node::as_map).into_iter().flat_map(|map| map.iter()) {
            if args.get_key(key).is_none() {
                args.insert(key.clone(), node.clone());
            }
        }
        let has_template = extra.is_some_and(|extra| extra.as_map().is_none() && !extra.is_null());
        Some(Action { name, span, args, has_template })
    }

    fn included_role(&mut self, task: &mut Task<'p>) {
        let Some(action) = task.action.as_ref() else { return };
        if !matches!(action.short(), "include_role" | "import_role") {
            return;
        }
        let text = |name: &str| action.args.get(name).and_then(Node::as_str).map(str::to_owned);
        let Some(name) = text("name").or_else(|| text("role")) else { return };
        let params = task.map.get("vars").and_then(Node::as_map);
        self.tree.roles.push(RoleUse {
            file: task.file,
            span: action.span.clone(),
            name,
            tasks_from: text("tasks_from").unwrap_or_else(|| "main".to_owned()),
            params: params.into_iter().flat_map(|map| map.iter()).collect(),
        });
    }

    fn role_entry(&mut self, entry: &'p Node, file: &'p SourceFile) {
        let map = entry.as_map();
        let name = match map {
            None => entry.as_str(),
            Some(map) => ["role", "name"].iter().find_map(|key| map.get(key)).and_then(Node::as_str),
        };
        let Some(name) = name else {
            let has_source = map.is_some_and(|map| map.contains_key("src"));
            if !has_source {
                self.fault(file, entry, "an entry of `roles` needs the name of a role");
            }
            return;
        };
        let mut params: Vec<_> = Vec::new();
        for (key, value) in map.into_iter().flat_map(|map| map.iter()) {
            let word = key.as_str().unwrap_or_default();
            match value.as_map().filter(|_| word == "vars") {
                Some(vars) => params.extend(vars.iter()),
                None if !is_keyword(word, On::Role) => params.push((key, value)),
                None => {}
            }
            self.texts(file, value, if word == "when" { Form::Expression } else { Form::Text }, None);
        }
        let span = entry.span.clone();
        self.tree.roles.push(RoleUse { file, span, name: name.to_owned(), tasks_from: "main".to_owned(), params });
    }

    /// Lists the texts in a value at any depth.
    fn texts(&mut self, file: &'p SourceFile, node: &'p Node, form: Form, task_line: Option<u32>) {
        use windlass_yaml::Value;
        match &node.value {
            Value::String(_) => {
                self.tree.texts.push(Text { file, node, form, task_line });
            }
            Value::List(items) => items.iter().for_each(|item| self.texts(file, item, form, task_line)),
            Value::Map(map) => map.iter().for_each(|(_, value)| self.texts(file, value, Form::Text, task_line)),
            _ => {}
        }
    }
}
