//! Names of a project, and the places that define and use them, for an editor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use windlass_template::uses::UseKind;
use windlass_yaml::{Mapping, Node, Span};

use super::context::Parsed;
use super::finding::Place;
use super::source::{Kind, SourceFile, is_template, place_of};
use super::walk::Tree;
use crate::playbook::On;

/// Maximum length of a shown line, in characters.
const LONGEST_LINE: usize = 160;

/// A place that defines a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Line, counting from 0.
    pub line: u32,
    /// Start in the line, in UTF-16 units.
    pub start: u32,
    /// End in the line, in UTF-16 units.
    pub end: u32,
    /// The line, without its indentation.
    pub text: String,
}

/// Names of a project.
#[derive(Debug, Default)]
pub struct Index {
    /// Directories of roles by name.
    pub roles: BTreeMap<String, PathBuf>,
    /// Handlers, by their names and topics.
    pub handlers: BTreeMap<String, Vec<Spot>>,
    /// Places that notify handlers, by their names and topics.
    pub notified: BTreeMap<String, Vec<Spot>>,
    /// Variables.
    pub variables: BTreeMap<String, Vec<Spot>>,
    /// Places in templates and conditions that use variables.
    pub uses: BTreeMap<String, Vec<Spot>>,
    /// Files with texts that cannot be read, so that not all of their uses are known.
    pub unread: BTreeSet<PathBuf>,
    /// Tags.
    pub tags: BTreeSet<String>,
    /// Groups and hosts that plays and files of variables name.
    pub hosts: BTreeSet<String>,
    /// Playbooks and files of tasks and handlers.
    pub files: Vec<(PathBuf, Kind)>,
}

impl Index {
    /// Lists the names of files.
    pub(super) fn read(files: &[SourceFile], tree: &Tree<'_>, parsed: &[Parsed<'_>]) -> Index {
        let mut index = Index::default();
        for file in files {
            index.file(file);
        }
        parsed.iter().for_each(|text| index.used(text));
        // Templates with delimiters of their own are not parsed.
        let parsed: BTreeSet<usize> = parsed.iter().map(|text| text.file.index).collect();
        let other = |file: &&SourceFile| file.kind == Kind::Template && !parsed.contains(&file.index);
        index.unread.extend(files.iter().filter(other).map(|file| crate::paths::absolute(&file.path)));
        for entry in &tree.entries {
            index.keywords(entry.file, entry.map);
            index.loop_variables(entry.file, entry.map);
            if entry.on == On::Play {
                let terms = texts(entry.map.get("hosts")).flat_map(|(text, _)| windlass_inventory::split_pattern(text));
                let names = terms.filter(|term| term.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)));
                index.hosts.extend(names.filter(|name| !name.is_empty()));
            }
            for prompt in entry.map.get("vars_prompt").and_then(Node::as_list).unwrap_or_default() {
                index.named(entry.file, prompt.get("name"));
            }
        }
        for task in &tree.tasks {
            index.keywords(task.file, task.map);
            index.named(task.file, task.map.get("register"));
            index.loop_variables(task.file, task.map);
            for (name, node) in texts(task.map.get("notify")) {
                add(&mut index.notified, name, spot(task.file, &node.span, name));
            }
            if task.on == On::Handler {
                for (name, node) in texts(task.map.get("name")).chain(texts(task.map.get("listen"))) {
                    add(&mut index.handlers, name, spot(task.file, &node.span, name));
                }
            }
            if let Some(action) = task.action.as_ref().filter(|action| action.short() == "set_fact") {
                index.keys(task.file, &action.args);
            }
        }
        for role in &tree.roles {
            for (key, _) in &role.params {
                add(&mut index.variables, &key.to_text(), spot(role.file, &key.span, &key.to_text()));
            }
        }
        index
    }

    fn file(&mut self, file: &SourceFile) {
        let path = crate::paths::absolute(&file.path);
        if file.error.is_some() {
            self.unread.insert(path.clone());
        }
        if let Some(role) = &file.role {
            self.roles.insert(role_name(role), role.clone());
        }
        match file.kind {
            Kind::RoleVars | Kind::Vars => self.keys_of(file, &file.node),
            Kind::ArgumentSpecs => {
                let entries = file.node.get("argument_specs").and_then(Node::as_map);
                let options = entries.iter().flat_map(|map| map.values()).filter_map(|entry| entry.get("options"));
                options.for_each(|options| self.keys_of(file, options));
            }
            Kind::OtherYaml if is_in(&path, "vars") => self.keys_of(file, &file.node),
            Kind::Playbook | Kind::Tasks | Kind::Handlers => self.files.push((path.clone(), file.kind)),
            _ => {}
        }
        if let Some(name) = ["group_vars", "host_vars"].iter().find_map(|folder| name_below(&path, folder)) {
            self.hosts.insert(name);
        }
    }

    /// Adds the variables that a text uses, except those that it binds itself.
    fn used(&mut self, text: &Parsed<'_>) {
        let Ok(uses) = &*text.uses else {
            self.unread.insert(crate::paths::absolute(&text.file.path));
            return;
        };
        let names = uses.names.iter().filter(|found| found.kind == UseKind::Variable);
        for found in names.filter(|found| !uses.bound.contains(&found.name)) {
            let offset = text.offset_of(found.offset, found.name.len());
            let span = offset.map(|offset| text.file.place(offset));
            let spot = span.and_then(|place| spot_at(text.file, place, &found.name));
            if spot.is_none() {
                self.unread.insert(crate::paths::absolute(&text.file.path));
            }
            add(&mut self.uses, &found.name, spot);
        }
    }

    fn keys_of(&mut self, file: &SourceFile, node: &Node) {
        if let Some(map) = node.as_map() {
            self.keys(file, map);
        }
    }

    /// Adds the keys of a mapping as variables.
    fn keys(&mut self, file: &SourceFile, map: &Mapping) {
        for key in map.keys() {
            if let Some(name) = key.as_str().filter(|name| !is_template(name)) {
                add(&mut self.variables, name, spot(file, &key.span, name));
            }
        }
    }

    /// Variables that the loop of a task or block sets.
    fn loop_variables(&mut self, file: &SourceFile, map: &Mapping) {
        for name in ["loop_var", "index_var"] {
            self.named(file, map.get("loop_control").and_then(|control| control.get(name)));
        }
    }

    /// Adds a value as the name of a variable.
    fn named(&mut self, file: &SourceFile, node: Option<&Node>) {
        for (name, node) in texts(node) {
            add(&mut self.variables, name, spot(file, &node.span, name));
        }
    }

    /// Names in keywords of plays, blocks and tasks.
    fn keywords(&mut self, file: &SourceFile, map: &Mapping) {
        if let Some(vars) = map.get("vars").and_then(Node::as_map) {
            self.keys(file, vars);
        }
        let tags = texts(map.get("tags")).flat_map(|(text, _)| text.split(','));
        self.tags.extend(tags.map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()));
    }
}

fn add(names: &mut BTreeMap<String, Vec<Spot>>, name: &str, spot: Option<Spot>) {
    let Some(spot) = spot else { return };
    let spots = names.entry(name.to_owned()).or_default();
    if !spots.contains(&spot) {
        spots.push(spot);
    }
}

/// Texts of a value or list, without templates.
fn texts(node: Option<&Node>) -> impl Iterator<Item = (&str, &Node)> {
    let items = node.map(|node| node.as_list().unwrap_or(std::slice::from_ref(node))).unwrap_or_default();
    items.iter().filter_map(|item| Some((item.as_str()?, item))).filter(|(text, _)| !is_template(text))
}

/// Place of a name in a file; `None` if it is written elsewhere.
fn spot(file: &SourceFile, span: &Span, name: &str) -> Option<Spot> {
    let is_here = span.is_located() && span.source.name == file.source.name;
    is_here.then(|| spot_at(file, place_of(span), name)).flatten()
}

/// Place of a name at a line and column.
fn spot_at(file: &SourceFile, place: Place, name: &str) -> Option<Spot> {
    let line = file.line(place.line)?;
    let units = |text: &str| u32::try_from(text.encode_utf16().count()).unwrap_or(u32::MAX);
    let column = usize::try_from(place.column).ok()?.checked_sub(1)?;
    let at = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    let start = units(line.get(..at)?);
    let rest = line.get(at..)?;
    let written = if rest.starts_with(name) { name.len() } else { rest.trim_end().len() };
    Some(Spot {
        path: crate::paths::absolute(&file.path),
        line: place.line - 1,
        start,
        end: start + units(rest.get(..written)?),
        text: line.trim().chars().take(LONGEST_LINE).collect(),
    })
}

/// Name of a role: its path below a directory `roles`, or else the name of its own directory.
fn role_name(role: &Path) -> String {
    let parts: Vec<&str> = role.iter().filter_map(|part| part.to_str()).collect();
    let at = parts.iter().rposition(|part| *part == "roles").filter(|at| at + 1 < parts.len());
    let first = at.map_or(parts.len().saturating_sub(1), |at| at + 1);
    parts.get(first..).unwrap_or_default().join("/")
}

fn is_in(path: &Path, folder: &str) -> bool {
    path.parent().is_some_and(|parent| parent.file_name().is_some_and(|name| name == folder))
}

/// Name of the group or host whose variables a file below `group_vars` or `host_vars` holds.
pub(super) fn name_below(path: &Path, folder: &str) -> Option<String> {
    let mut parts = path.iter().skip_while(|part| *part != folder).skip(1);
    let name = parts.next()?.to_str()?;
    let stem = ["yml", "yaml", "json"].iter().find_map(|extension| name.strip_suffix(extension)?.strip_suffix('.'));
    Some(stem.unwrap_or(name).to_owned())
}
