//! Imports and includes of a project: what each line leads to, and the lines that lead to a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_yaml::{Mapping, Node, Span};

use super::rules::{directories, folder_among, of_playbooks};
use super::source::{Kind, SourceFile, is_template};
use super::walk::{self, RoleUse, Task};
use super::workspace::Workspace;
use super::{discover, settings::Settings};
use crate::error::Result;
use crate::foreign::Modules;
use crate::paths::without_parents;
use crate::playbook::On;

/// Maximum number of ways to a line.
const WAYS: usize = 20;
/// Maximum length of a way.
const DEPTH: usize = 20;

/// A tag or condition, with its owner.
#[derive(Debug, Clone)]
pub struct Inherited {
    /// The tag or condition as written.
    pub text: String,
    /// `task`, `block`, `play` or `role`.
    pub owner: &'static str,
    /// Position of the tag or condition.
    pub span: Span,
}

/// A line that leads to another file or role.
#[derive(Debug, Clone)]
pub struct Lead {
    /// Keyword or action: `import_tasks`, `roles` and so on.
    pub kind: &'static str,
    /// Name of the file or role as written.
    pub name: String,
    /// Position of the task or entry.
    pub span: Span,
    /// Absolute path of the file with the line.
    pub file: PathBuf,
    /// Absolute paths of the files that it leads to; none if the name is a template or missing.
    pub targets: Vec<PathBuf>,
    /// Tags of the line and of what encloses it.
    pub tags: Vec<Inherited>,
    /// Conditions of the line and of what encloses it.
    pub conditions: Vec<Inherited>,
}

impl Lead {
    /// Whether every task of the target has the tags and conditions. Otherwise they apply only to the include itself.
    pub fn is_static(&self) -> bool {
        !self.kind.starts_with("include_")
    }
}

/// All lines of a project that lead to other files.
#[derive(Debug)]
pub struct Leads {
    leads: Vec<Lead>,
    playbooks: BTreeSet<PathBuf>,
}

impl Leads {
    /// Reads the project of a file.
    pub fn read(path: &Path, modules: &Modules) -> Result<Leads> {
        let root = discover::root_of(path);
        let settings = Settings::read(&root)?;
        let excluded = |path: &Path| settings.excludes(path.strip_prefix(&root).unwrap_or(path));
        let mut files = discover::read_all(&root, &excluded, &mut Workspace::default())?;
        discover::mark_handlers(&mut files);
        let tree = walk::walk(&files, modules);
        let roles: BTreeSet<&Path> = files.iter().filter_map(|file| file.role.as_deref()).collect();
        let search = Search { roles: roles.into_iter().collect(), folders: of_playbooks(&files) };
        let mut leads: Vec<Lead> = tree.tasks.iter().filter_map(|task| search.of_task(task)).collect();
        for entry in tree.entries.iter().filter(|entry| entry.on == On::Import) {
            let Some(name) = entry.imported().and_then(Node::as_str) else { continue };
            let owners = [("task", entry.map)];
            leads.push(search.lead(entry.file, ("import_playbook", name), &entry.node.span, &owners));
        }
        for role in &tree.roles {
            leads.extend(search.of_role(role));
        }
        let playbooks = files.iter().filter(|file| file.kind == Kind::Playbook);
        let playbooks = playbooks.map(|file| crate::paths::absolute(&file.path)).collect();
        Ok(Leads { leads, playbooks })
    }

    /// Lines of a file, given by its absolute path.
    pub fn of_file<'l>(&'l self, path: &'l Path) -> impl Iterator<Item = &'l Lead> {
        self.leads.iter().filter(move |lead| lead.file == path)
    }

    /// Ways from playbooks to a file, each as the lines on it, outermost first. A playbook is reached by itself.
    pub fn ways(&self, file: &Path) -> Vec<Vec<&Lead>> {
        let mut ways = Vec::new();
        self.collect(file, &mut Vec::new(), &mut ways);
        ways
    }

    fn collect<'l>(&'l self, file: &Path, way: &mut Vec<&'l Lead>, ways: &mut Vec<Vec<&'l Lead>>) {
        if self.playbooks.contains(file) {
            ways.push(way.iter().rev().copied().collect());
        }
        if way.len() >= DEPTH {
            return;
        }
        for lead in self.leads.iter().filter(|lead| lead.targets.iter().any(|target| target == file)) {
            let is_open = way.iter().any(|known| known.span == lead.span && known.file == lead.file);
            if ways.len() < WAYS && !is_open {
                way.push(lead);
                self.collect(&lead.file, way, ways);
                way.pop();
            }
        }
    }

    /// Lines whose name is a template, so that they may lead anywhere.
    pub fn open(&self) -> impl Iterator<Item = &Lead> {
        self.leads.iter().filter(|lead| is_template(&lead.name))
    }
}

/// Finds the targets of names.
struct Search<'p> {
    roles: Vec<&'p Path>,
    /// Directories of playbooks.
    folders: BTreeSet<PathBuf>,
}

impl Search<'_> {
    fn of_task(&self, task: &Task<'_>) -> Option<Lead> {
        let action = task.action.as_ref()?;
        let kind = match action.short() {
            "import_tasks" => "import_tasks",
            "include_tasks" => "include_tasks",
            "import_role" => "import_role",
            "include_role" => "include_role",
            _ => return None,
        };
        let text = |name: &str| action.args.get(name).and_then(Node::as_str).map(str::trim);
        let is_role = kind.ends_with("role");
        let name =
            if is_role { text("name").or_else(|| text("role")) } else { text("_raw_params").or_else(|| text("file")) };
        let mut owners = vec![("task", task.map)];
        let enclosing = task.outer.iter().rev();
        owners.extend(enclosing.map(|map| (if map.contains_key("hosts") { "play" } else { "block" }, *map)));
        let mut lead = self.lead(task.file, (kind, name?), &task.node.span, &owners);
        if is_role {
            lead.targets = self.role(name?, text("tasks_from").unwrap_or("main"));
        }
        Some(lead)
    }

    /// An entry of `roles` or of a role's dependencies. Roles of tasks are found with these.
    fn of_role(&self, role: &RoleUse<'_>) -> Option<Lead> {
        let plays = role.file.node.as_list().unwrap_or_default().iter().filter_map(Node::as_map);
        let mut owners: Vec<(&'static str, &Arc<Mapping>)> = Vec::new();
        let kind = if role.file.kind == Kind::Meta { "dependencies" } else { "roles" };
        let is_entry = |node: &&Node| node.span == role.span;
        let entry = match kind {
            "dependencies" => role.file.node.get("dependencies").and_then(Node::as_list)?.iter().find(is_entry)?,
            _ => {
                let of_play = |play: &&Arc<Mapping>| {
                    play.get("roles")
                        .and_then(Node::as_list)
                        .is_some_and(|roles| roles.iter().any(|role| is_entry(&role)))
                };
                let play = plays.into_iter().find(of_play)?;
                owners.push(("play", play));
                play.get("roles").and_then(Node::as_list)?.iter().find(is_entry)?
            }
        };
        if let Some(map) = entry.as_map() {
            owners.insert(0, ("role", map));
        }
        let mut lead = self.lead(role.file, (kind, &role.name), &role.span, &owners);
        lead.targets = self.role(&role.name, &role.tasks_from);
        Some(lead)
    }

    fn lead(
        &self,
        file: &SourceFile,
        (kind, name): (&'static str, &str),
        span: &Span,
        owners: &[(&'static str, &Arc<Mapping>)],
    ) -> Lead {
        let folder = if kind == "import_playbook" { "" } else { "tasks" };
        let is_known = |path: &PathBuf| path.is_file();
        let candidates = directories(file, folder, &self.folders).map(|folder| without_parents(&folder.join(name)));
        let targets = candidates.filter(|_| !is_template(name)).find(is_known).into_iter().collect();
        let collect = |keyword: &str| -> Vec<Inherited> {
            let of_owner = |(owner, map): &(&'static str, &Arc<Mapping>)| {
                let node = map.get(keyword).cloned();
                let items = node.map(|node| node.as_list().map_or_else(|| vec![node.clone()], <[Node]>::to_vec));
                let owner = *owner;
                let one = move |node: Node| {
                    let text = node.scalar_text().filter(|_| !node.is_null())?;
                    Some(Inherited { text, owner, span: node.span })
                };
                items.into_iter().flatten().filter_map(one).collect::<Vec<_>>()
            };
            owners.iter().flat_map(of_owner).collect()
        };
        Lead {
            kind,
            name: name.to_owned(),
            span: span.clone(),
            file: crate::paths::absolute(&file.path),
            targets,
            tags: collect("tags"),
            conditions: collect("when"),
        }
    }

    /// Files that a use of a role leads to: its entry point, and its dependencies.
    fn role(&self, name: &str, entry: &str) -> Vec<PathBuf> {
        let Some(folder) = folder_among(&self.roles, name).filter(|_| !is_template(name)) else { return Vec::new() };
        let folder = crate::paths::absolute(folder);
        let stem = entry.trim_end_matches(".yml").trim_end_matches(".yaml");
        let files = [format!("tasks/{stem}"), "handlers/main".to_owned(), "meta/main".to_owned()];
        let paths =
            files.iter().flat_map(|file| ["yml", "yaml"].map(|extension| folder.join(format!("{file}.{extension}"))));
        paths.filter(|path| path.is_file()).collect()
    }
}
