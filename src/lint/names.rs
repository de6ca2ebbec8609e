//! Names of variables in the project: where they are defined, and where they are mentioned.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use foldhash::fast::RandomState;
use windlass_inventory::Inventory;
use windlass_template::uses::{Form, UseKind, Uses};
use windlass_yaml::{Mapping, Node};

use super::source::{Kind, SourceFile};
use super::walk::Tree;
use crate::playbook::keyword::is_keyword_anywhere;

/// A set of words, with a fast hash: a check reads hundreds of thousands of words, and the size of its files is
/// limited.
type Words<'p> = HashSet<&'p str, RandomState>;

/// Variables of the project.
#[derive(Default)]
pub(super) struct Names<'p> {
    /// Names that something defines.
    pub(super) defined: Words<'p>,
    /// Names that are keys or words anywhere, and so may be defined in a way that the check does not recognise.
    pub(super) possible: Words<'p>,
    /// Names that some template accepts as undefined.
    pub(super) optional: HashSet<String>,
    /// Words of all files that are not the key of a definition.
    pub(super) mentioned: Words<'p>,
    /// Words that end or begin with `_`, from which names may be composed.
    pub(super) stems: Words<'p>,
    /// Words of Python files, which may define filters and tests.
    pub(super) python: Words<'p>,
    /// Whether a file of variables is encrypted.
    pub(super) has_hidden: bool,
}

impl<'p> Names<'p> {
    /// Reads the files, and the variables written in the inventory.
    /// `inventory_files` has the indexes of its files.
    pub(super) fn read(
        files: &'p [SourceFile],
        tree: &'p Tree<'p>,
        inventory: Option<&'p Inventory>,
        inventory_files: &HashMap<PathBuf, usize>,
    ) -> Names<'p> {
        let mut names = Names::default();
        if let Some(inventory) = inventory {
            let keys = inventory.variables().flat_map(|variables| variables.keys());
            names.defined.extend(keys.filter_map(|key| key.as_str()));
        }
        let in_inventory: HashSet<usize> = inventory_files.values().copied().collect();
        for file in files {
            names.words(file, in_inventory.contains(&file.index));
            names.file(file);
        }
        for task in &tree.tasks {
            names.task(task.map);
            if let Some(action) = &task.action
                && matches!(action.short(), "set_fact" | "add_host" | "include_vars" | "set_stats")
            {
                // These arguments are owned by the task, so the words of its text stand for them.
                names.of_arguments(task.node);
            }
        }
        for entry in &tree.entries {
            names.task(entry.map);
            for prompt in entry.map.get("vars_prompt").and_then(Node::as_list).unwrap_or_default() {
                names.defined.extend(prompt.get("name").and_then(Node::as_str));
            }
        }
        for role in &tree.roles {
            names.defined.extend(role.params.iter().filter_map(|(key, _)| key.as_str()));
        }
        names
    }

    /// Records names that templates bind or accept as undefined.
    pub(super) fn note(&mut self, uses: &Uses, form: Form) {
        let guarded = uses.names.iter().filter(|found| found.kind == UseKind::Variable && found.is_guarded);
        self.optional.extend(guarded.map(|found| found.name.clone()));
        // An included template sees the names of the one that includes it.
        if form == Form::File {
            self.optional.extend(uses.bound.iter().cloned());
        }
    }

    /// Whether a name is defined, or might be.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.defined.contains(name)
            || self.possible.contains(name)
            || self.optional.contains(name)
            || name.starts_with("ansible_")
            || crate::vars::magic::NAMES.contains(&name)
            || windlass_template::uses::is_global(name)
            || is_of_engine(name)
    }

    /// Whether a variable is mentioned, or might be composed from parts.
    pub(super) fn is_used(&self, name: &str) -> bool {
        let is_composed = |stem: &&str| {
            let is_part = stem.len() > 2 && *stem != name;
            let is_prefix = stem.ends_with('_') && name.starts_with(stem);
            is_part && (is_prefix || (stem.starts_with('_') && name.ends_with(stem)))
        };
        self.mentioned.contains(name) || self.stems.iter().any(is_composed)
    }

    fn file(&mut self, file: &'p SourceFile) {
        match file.kind {
            Kind::RoleVars | Kind::Vars => self.keys(&file.node),
            Kind::ArgumentSpecs | Kind::Meta => self.specification(&file.node),
            Kind::OtherYaml => self.keys(&file.node),
            _ => {}
        }
        self.possible_keys(&file.node);
        if file.kind == Kind::Text && windlass_vault::is_encrypted(file.text().as_bytes()) {
            self.has_hidden = true;
        }
    }

    fn keys(&mut self, node: &'p Node) {
        self.defined.extend(node.as_map().into_iter().flat_map(|map| map.keys()).filter_map(|key| key.as_str()));
    }

    fn possible_keys(&mut self, node: &'p Node) {
        for item in node.as_list().unwrap_or_default() {
            self.possible_keys(item);
        }
        for (key, value) in node.as_map().into_iter().flat_map(|map| map.iter()) {
            self.possible.extend(key.as_str());
            self.possible_keys(value);
        }
    }

    fn specification(&mut self, node: &'p Node) {
        let entries = node.get("argument_specs").and_then(Node::as_map).into_iter().flat_map(|map| map.iter());
        for (_, entry) in entries {
            if let Some(options) = entry.get("options") {
                self.keys(options);
            }
        }
    }

    /// Names that the keywords of a play, block or task define.
    fn task(&mut self, map: &'p Mapping) {
        if let Some(vars) = map.get("vars") {
            self.keys(vars);
        }
        self.defined.extend(map.get("register").and_then(Node::as_str));
        let control = map.get("loop_control");
        for name in ["loop_var", "index_var"] {
            self.defined.extend(control.and_then(|control| control.get(name)).and_then(Node::as_str));
        }
    }

    /// Keys of the arguments of an action that defines variables, and words before `=` in its free text.
    fn of_arguments(&mut self, node: &'p Node) {
        let Some(map) = node.as_map() else { return };
        for (key, value) in map.iter() {
            let is_action = key.as_str().is_some_and(|key| !is_keyword_anywhere(key) || key == "args");
            if !is_action && !matches!(key.as_str(), Some("action" | "local_action")) {
                continue;
            }
            self.keys(value);
            if let Some(data) = value.get("data") {
                self.keys(data);
            }
            self.defined.extend(value.get("name").and_then(Node::as_str));
            let text = value.as_str().unwrap_or_default();
            self.defined.extend(text.split_whitespace().filter_map(|word| Some(word.split_once('=')?.0)));
        }
    }

    fn mention(&mut self, word: &'p str) {
        self.mentioned.insert(word);
        if word.ends_with('_') || word.starts_with('_') {
            self.stems.insert(word);
        }
    }

    /// Reads the words of a file. In an inventory that is not YAML, only values mention variables.
    fn words(&mut self, file: &'p SourceFile, is_inventory: bool) {
        let has_assignments = is_inventory && file.kind == Kind::Text;
        let is_yaml = !matches!(file.kind, Kind::Template | Kind::Text);
        let is_python = file.path.extension().is_some_and(|extension| extension == "py");
        let is_prose = file.path.extension().is_some_and(|extension| extension == "md" || extension == "rst");
        for line in file.text().lines() {
            let is_comment = is_yaml && line.trim_start().starts_with('#');
            let start = line.trim_start_matches([' ', '-']);
            let is_key = |word: &str| start.strip_prefix(word).is_some_and(|rest| rest.starts_with(':'));
            for (at, word) in words_of(line).enumerate() {
                let is_definition = is_yaml && at == 0 && is_key(word);
                if file.kind == Kind::Text || is_comment {
                    self.possible.insert(word);
                }
                if is_python {
                    self.python.insert(word);
                }
                if !(is_definition || is_prose || is_comment || has_assignments) {
                    self.mention(word);
                }
            }
            if has_assignments {
                values_in(line).flat_map(words_of).for_each(|word| self.mention(word));
            }
        }
    }
}

/// Values in a line of an INI or TOML inventory: `name = value`, or `host name=value name=value`.
fn values_in(line: &str) -> impl Iterator<Item = &str> {
    let variable = line.split_once('=').filter(|(name, _)| !name.trim().contains(char::is_whitespace));
    let words = line.split_whitespace().filter(move |_| variable.is_none());
    let of_words = words.map(|word| word.split_once('=').map_or(word, |(_, value)| value));
    let has_values = line.contains('=');
    variable.map(|(_, value)| value).into_iter().chain(of_words.filter(move |_| has_values))
}

/// Identifiers in a text.
pub(super) fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            // A word has ASCII alone, so it begins and ends between characters.
            let start = rest.bytes().position(is_part)?;
            let word = rest.get(start..)?;
            let end = word.bytes().position(|byte| !is_part(byte)).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            rest = after;
            if !word.starts_with(|c: char| c.is_ascii_digit()) {
                return Some(word);
            }
        }
    })
}

/// Names that the engine or a module defines.
fn is_of_engine(name: &str) -> bool {
    const NAMES: [&str; 13] = [
        "item",
        "environment",
        "omit",
        "loop",
        "self",
        "caller",
        "varargs",
        "kwargs",
        "services",
        "packages",
        "ansible",
        "template_path",
        "template_fullpath",
    ];
    NAMES.contains(&name)
        || ["getent_", "template_", "discovered_interpreter", "mount_points"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}
