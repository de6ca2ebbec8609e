//! Table of the keywords of plays, roles, blocks, tasks and handlers.

use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use windlass_yaml::{Mapping, Node};

use crate::error::{Error, Result, did_you_mean};

/// Object that a keyword may be written on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// A play.
    Play,
    /// An entry of `roles:` or a role dependency.
    Role,
    /// A block.
    Block,
    /// A task.
    Task,
    /// A handler.
    Handler,
    /// `import_playbook`.
    Import,
}

impl On {
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Ansible's name for the object in messages.
    pub fn title(self) -> &'static str {
        match self {
            On::Play => "Play",
            On::Role => "RoleInclude",
            On::Block => "Block",
            On::Task => "Task",
            On::Handler => "Handler",
            On::Import => "PlaybookInclude",
        }
    }
}

const P: u8 = 1;
const R: u8 = 2;
const B: u8 = 4;
const T: u8 = 8;
const H: u8 = 16;
const I: u8 = 32;
const ALL: u8 = P | R | B | T | H | I;
const TASKS: u8 = T | H;

/// Objects that accept a keyword, as named in documentation.
pub fn places(name: &str) -> Vec<&'static str> {
    let names = [(P, "Play"), (R, "Role"), (B, "Block"), (T, "Task"), (H, "Handler"), (I, "PlaybookInclude")];
    let bits = find(name).map_or(0, |(_, bits)| bits);
    names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, place)| *place).collect()
}

/// Keywords whose value is a boolean.
pub const BOOLEANS: &[&str] = &[
    "any_errors_fatal",
    "become",
    "check_mode",
    "delegate_facts",
    "diff",
    "force_handlers",
    "gather_facts",
    "ignore_errors",
    "ignore_unreachable",
    "no_log",
    "run_once",
];

/// Values of the keyword `debugger`.
pub const DEBUGGER: &[&str] = &["always", "never", "on_failed", "on_skipped", "on_unreachable"];

/// Values of the keyword `order`.
pub const ORDER: &[&str] = &["inventory", "reverse_inventory", "reverse_sorted", "shuffle", "sorted"];

/// Keywords of tasks whose value is true or false.
pub static TASK_BOOLEANS: LazyLock<Vec<&str>> =
    LazyLock::new(|| BOOLEANS.iter().copied().filter(|name| is_keyword(name, On::Task)).collect());

/// Every keyword with the objects that accept it, sorted.
pub const KEYWORDS: &[(&str, u8)] = &[
    ("action", TASKS),
    ("always", B),
    ("any_errors_fatal", ALL),
    ("args", TASKS),
    ("async", TASKS),
    ("become", ALL),
    ("become_exe", ALL),
    ("become_flags", ALL),
    ("become_method", ALL),
    ("become_user", ALL),
    ("block", B),
    ("changed_when", TASKS),
    ("check_mode", ALL),
    ("collections", P | R | B | TASKS),
    ("connection", ALL),
    ("debugger", ALL),
    ("delay", TASKS),
    ("delegate_facts", R | B | TASKS),
    ("delegate_to", R | B | TASKS),
    ("diff", ALL),
    ("environment", ALL),
    ("fact_path", P),
    ("failed_when", TASKS),
    ("force_handlers", P),
    ("gather_facts", P),
    ("gather_subset", P),
    ("gather_timeout", P),
    ("handlers", P),
    ("hosts", P),
    ("ignore_errors", ALL),
    ("ignore_unreachable", ALL),
    ("import_playbook", I),
    ("listen", H),
    ("local_action", TASKS),
    ("loop", B | TASKS),
    ("loop_control", B | TASKS),
    ("max_fail_percentage", P),
    ("module_defaults", ALL),
    ("name", ALL),
    ("no_log", ALL),
    ("notify", B | TASKS),
    ("order", P),
    ("poll", TASKS),
    ("port", ALL),
    ("post_tasks", P),
    ("pre_tasks", P),
    ("register", TASKS),
    ("remote_user", ALL),
    ("rescue", B),
    ("retries", TASKS),
    ("role", R),
    ("roles", P),
    ("run_once", ALL),
    ("serial", P),
    ("strategy", P),
    ("tags", ALL),
    ("tasks", P),
    ("throttle", ALL),
    ("timeout", ALL),
    ("until", TASKS),
    ("user", P),
    ("vars", ALL),
    ("vars_files", P),
    ("vars_prompt", P),
    ("when", R | B | TASKS | I),
];

/// Entry of the table for a word.
fn find(word: &str) -> Option<(&'static str, u8)> {
    let at = KEYWORDS.binary_search_by_key(&word, |(name, _)| *name).ok()?;
    KEYWORDS.get(at).copied()
}

/// Whether a word is a keyword of this object.
pub fn is_keyword(word: &str, on: On) -> bool {
    find(word).is_some_and(|(_, places)| places & on.bit() != 0)
}

/// Whether a word is a keyword of any object.
pub fn is_keyword_anywhere(word: &str) -> bool {
    find(word).is_some()
}

/// Error for an unknown keyword, with a suggestion.
pub fn unknown(word: &str, on: On, node: &Node) -> Error {
    let names = KEYWORDS.iter().filter(|(_, places)| places & on.bit() != 0).map(|(name, _)| *name);
    let error = Error::parse(format!("'{word}' is not a valid attribute for a {}", on.title()), &node.span);
    match word {
        "sudo" | "su" => error.hint("use `become`"),
        "sudo_user" | "su_user" => error.hint("use `become_user`"),
        _ if matches!(on, On::Play) && crate::builtin::is_known(word) => {
            error.hint(format!("`{word}` is a module: put it into a task of the list `tasks`"))
        }
        _ => error.maybe_hint(did_you_mean(word, names)),
    }
}

/// Keywords of an object as written.
#[derive(Debug, Clone, Default)]
pub struct Keywords(IndexMap<&'static str, Node, RandomState>);

impl Keywords {
    /// Extracts the keywords of a mapping; every other key is passed to `other`.
    pub fn read(map: &Mapping, on: On, mut other: impl FnMut(&str, &Node) -> Result<()>) -> Result<Keywords> {
        let mut found = IndexMap::default();
        for (key, node) in map.iter() {
            let Some(word) = key.as_str() else {
                return Err(Error::parse(format!("{} is not a keyword: keywords are words", key.to_text()), &key.span));
            };
            match find(word).filter(|(_, places)| places & on.bit() != 0) {
                Some((name, _)) => {
                    found.insert(name, node.clone());
                }
                None => other(word, &Node { value: node.value.clone(), span: key.span.clone() })?,
            }
        }
        let keywords = Keywords(found);
        super::checked::check(&keywords, on)?;
        Ok(keywords)
    }

    /// Value of a keyword; `null` counts as absent.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.0.get(name).filter(|node| !node.is_null())
    }

    /// All keywords with a value, in the order in which they are written.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Node)> {
        self.0.iter().filter(|(_, node)| !node.is_null()).map(|(name, node)| (*name, node))
    }

    /// Sets a keyword from another source, such as `apply`.
    pub fn set(&mut self, name: &'static str, node: Node) {
        self.0.insert(name, node);
    }

    /// A copy without some of the keywords.
    pub fn without(&self, names: &[&str]) -> Keywords {
        Keywords(
            self.0.iter().filter(|(name, _)| !names.contains(name)).map(|(name, node)| (*name, node.clone())).collect(),
        )
    }

    /// Adds keywords of another set that are absent here.
    pub fn extend(&mut self, other: &Keywords) {
        for (name, node) in &other.0 {
            self.0.entry(name).or_insert_with(|| node.clone());
        }
    }

    /// Merges the keywords of an outer import. The outer import's variables win, its conditions come first, and the
    /// tags of both apply.
    pub fn inherit(&mut self, outer: &Keywords) -> Result<()> {
        for name in ["when", "tags"] {
            let all: Vec<Node> = outer.list(name).into_iter().chain(self.list(name)).collect();
            if let Some(first) = all.first() {
                let span = first.span.clone();
                self.set(name, Node::list(all, span));
            }
        }
        let (own, others) = (self.vars()?, outer.vars()?);
        if let Some(node) = outer.get("vars").filter(|_| !own.is_empty() && !others.is_empty()) {
            let all = own.iter().chain(others.iter()).map(|(key, value)| (key.clone(), value.clone()));
            self.set("vars", Node::map(all.collect::<Mapping>(), node.span.clone()));
        }
        self.extend(outer);
        Ok(())
    }

    /// Mapping under `vars`.
    pub fn vars(&self) -> Result<Arc<Mapping>> {
        match self.get("vars") {
            None => Ok(Arc::default()),
            Some(node) => node
                .as_map()
                .cloned()
                .ok_or_else(|| Error::parse(format!("vars must be a mapping, not {}", node.kind()), &node.span)),
        }
    }

    /// Value of a keyword as a list; a single value becomes a list of one.
    pub fn list(&self, name: &str) -> Vec<Node> {
        match self.get(name) {
            None => Vec::new(),
            Some(node) => match node.as_list() {
                Some(items) => items.to_vec(),
                None => vec![node.clone()],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted() {
        assert!(KEYWORDS.is_sorted());
        assert!(is_keyword("when", On::Task) && !is_keyword("when", On::Play));
    }
}
