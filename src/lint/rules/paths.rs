//! Files and roles that a project names and does not have. Only names without a template are checked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_yaml::{Node, Span};

use super::roles::folder_of;
use crate::error::nearest;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::{MISSING_FILE, MISSING_ROLE, Severity};
use crate::lint::source::{Kind, SourceFile, is_template, place_of};
use crate::lint::walk::{Action, RoleUse, Task};
use crate::paths::without_parents;
use crate::playbook::On;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let places = Places::new(context);
    for entry in context.tree.entries.iter().filter(|entry| entry.file.is_chosen) {
        if let Some(node) = entry.imported().filter(|_| entry.on == On::Import) {
            places.of_import(entry.file, node, findings);
        }
        for node in entry.map.get("vars_files").and_then(Node::as_list).unwrap_or_default() {
            places.of_vars_files(entry.file, node, findings);
        }
    }
    for task in context.tree.tasks.iter().filter(|task| task.file.is_chosen) {
        if let Some(action) = &task.action {
            places.of_task(task, action, findings);
        }
    }
    for role in context.tree.roles.iter().filter(|role| role.file.is_chosen) {
        places.of_role(role, findings);
    }
}

/// Directories in which names are looked up.
struct Places<'p> {
    context: &'p Context<'p>,
    /// Directories of playbooks.
    playbooks: BTreeSet<PathBuf>,
}

/// A name of a file, and the way it is looked up.
struct Wanted<'a> {
    name: &'a str,
    span: &'a Span,
    /// Directory beside tasks, in roles and beside playbooks.
    folder: &'static str,
    severity: Severity,
}

impl Places<'_> {
    fn new<'p>(context: &'p Context<'p>) -> Places<'p> {
        Places { context, playbooks: of_playbooks(context.files) }
    }

    fn of_import(&self, file: &SourceFile, node: &Node, findings: &mut Vec<Finding>) {
        let Some(name) = node.as_str().and_then(static_name) else { return };
        // A playbook of a collection is named like a module.
        let is_of_collection = name.split('.').count() == 3 && !name.contains('/') && !name.ends_with(".yml");
        if !is_of_collection {
            let wanted = Wanted { name, span: &node.span, folder: "", severity: Severity::Error };
            self.report(file, &wanted, None, findings);
        }
    }

    fn of_vars_files(&self, file: &SourceFile, node: &Node, findings: &mut Vec<Finding>) {
        // Of a list, the first file that exists counts.
        let names = node.as_list().unwrap_or(std::slice::from_ref(node));
        let statics: Option<Vec<&str>> = names.iter().map(|name| name.as_str().and_then(static_name)).collect();
        let wanted = |name| Wanted { name, span: &node.span, folder: "vars", severity: Severity::Error };
        let Some(statics) = statics.filter(|names| !names.is_empty()) else { return };
        if !statics.iter().any(|name| self.has(file, &wanted(name))) {
            let first = statics.first().copied().unwrap_or_default();
            self.report(file, &wanted(first), None, findings);
        }
    }

    fn of_task(&self, task: &Task<'_>, action: &Action, findings: &mut Vec<Finding>) {
        let arg = |name: &str| action.args.get(name);
        let is_off = |name: &str| arg(name).is_none_or(|node| node.as_bool() == Some(false));
        let free = || arg("_raw_params");
        let (node, folder, severity) = match action.short() {
            "import_tasks" | "include_tasks" => (free().or_else(|| arg("file")), "tasks", Severity::Error),
            "include_vars" => (free().or_else(|| arg("file")), "vars", Severity::Error),
            "copy" if is_off("remote_src") => (arg("src"), "files", Severity::Warning),
            "template" => (arg("src"), "templates", Severity::Warning),
            "script" => (free().or_else(|| arg("cmd")), "files", Severity::Warning),
            _ => return,
        };
        let Some(node) = node else { return };
        let text = node.as_str().map(|text| match action.short() {
            "script" => text.split_whitespace().next().unwrap_or_default(),
            _ => text.trim(),
        });
        if node.as_str().is_some_and(is_template) {
            return;
        }
        if let Some(name) = text.and_then(static_name) {
            self.report(task.file, &Wanted { name, span: &node.span, folder, severity }, Some(task.line()), findings);
        }
    }

    fn report(&self, file: &SourceFile, wanted: &Wanted<'_>, line: Option<u32>, findings: &mut Vec<Finding>) {
        let is_here = wanted.span.source.name == file.source.name;
        if !is_here || self.has(file, wanted) {
            return;
        }
        let message = format!("the file `{}` is missing", wanted.name);
        let place = place_of(wanted.span);
        let finding =
            Finding::new(&MISSING_FILE, file, place, message).at(wanted.severity).help(self.hint(file, wanted));
        findings.push(Finding { task_line: line, ..finding });
    }

    /// Whether one of the directories has the file, on disk or in an editor.
    fn has(&self, file: &SourceFile, wanted: &Wanted<'_>) -> bool {
        let paths = || {
            let folders = directories(file, wanted.folder, &self.playbooks);
            folders.map(|folder| without_parents(&folder.join(wanted.name)))
        };
        let is_open = || {
            let paths: BTreeSet<PathBuf> = paths().collect();
            self.context.files.iter().any(|file| paths.contains(&crate::paths::absolute(&file.path)))
        };
        paths().any(|path| path.exists()) || is_open()
    }

    /// The file of a directory with a similar name.
    fn hint(&self, file: &SourceFile, wanted: &Wanted<'_>) -> Option<String> {
        let limit = (wanted.name.chars().count() / 4).clamp(1, 3);
        let mut folders = directories(file, wanted.folder, &self.playbooks).take(6);
        folders.find_map(|folder| {
            let entries = folder.read_dir().ok()?;
            let names: Vec<String> =
                entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
            nearest(wanted.name, limit, names.iter().map(String::as_str))
        })
    }

    fn of_role(&self, role: &RoleUse<'_>, findings: &mut Vec<Finding>) {
        let Some(name) = static_name(&role.name) else { return };
        let is_of_collection = name.split('.').count() >= 3 && !name.contains('/');
        let is_known = folder_of(self.context, name).is_some() || is_of_collection;
        if is_known || role.span.source.name != role.file.source.name || self.has_role(role.file, name) {
            return;
        }
        let known = self.context.roles.iter().filter_map(|folder| folder.file_name()?.to_str());
        let hint = nearest(name, (name.chars().count() / 4).clamp(1, 3), known);
        let message = format!("the role `{name}` is missing");
        let finding = Finding::new(&MISSING_ROLE, role.file, place_of(&role.span), message);
        let other = "`windlass galaxy install` installs roles that a requirements file lists".to_owned();
        findings.push(finding.help(hint.unwrap_or(other)));
    }

    /// Whether a role exists outside of the files that are checked, or is to be installed.
    fn has_role(&self, file: &SourceFile, name: &str) -> bool {
        let own = directory(file);
        let beside = file.role.as_ref().and_then(|role| crate::paths::absolute(role).parent().map(Path::to_owned));
        let beside_playbooks = self.playbooks.iter().flat_map(|folder| [folder.join("roles"), folder.clone()]);
        let installed = self.context.roles_path.iter().cloned();
        let mut folders = [own.join("roles"), own].into_iter().chain(beside).chain(beside_playbooks).chain(installed);
        let is_required = |file: &SourceFile| {
            file.path.file_name().is_some_and(|name| name == "requirements.yml") && file.text().contains(name)
        };
        folders.any(|folder| without_parents(&folder.join(name)).is_dir()) || self.context.files.iter().any(is_required)
    }
}

/// Directories of playbooks.
pub(in crate::lint) fn of_playbooks(files: &[SourceFile]) -> BTreeSet<PathBuf> {
    files.iter().filter(|file| file.kind == Kind::Playbook).map(directory).collect()
}

fn directory(file: &SourceFile) -> PathBuf {
    crate::paths::absolute(file.path.parent().unwrap_or(Path::new("")))
}

/// Directories in which a name in a file is looked up: beside the file, in its role, and beside playbooks. `kind` is
/// the directory for such files, or empty if only files beside this one count.
pub(in crate::lint) fn directories<'d>(
    file: &SourceFile,
    kind: &'d str,
    playbooks: &'d BTreeSet<PathBuf>,
) -> impl Iterator<Item = PathBuf> + 'd {
    let own = directory(file);
    let role = file.role.as_ref().filter(|_| !kind.is_empty()).map(|role| crate::paths::absolute(role));
    let playbooks = (!kind.is_empty()).then_some(playbooks);
    let beside = [Some(own.clone()), (!kind.is_empty()).then(|| own.join(kind))].into_iter().flatten();
    let in_role = role.into_iter().flat_map(move |role| [role.join(kind), role.join("tasks"), role]);
    let of_playbooks = playbooks.into_iter().flatten().flat_map(move |folder| [folder.join(kind), folder.clone()]);
    beside.chain(in_role).chain(of_playbooks)
}

/// A relative name without a template. Other files are not part of the project.
fn static_name(name: &str) -> Option<&str> {
    let is_relative = !name.is_empty() && !name.starts_with(['/', '~']);
    (is_relative && !is_template(name)).then_some(name)
}
