//! Imports resolved before the play runs: `import_playbook`, `import_tasks`, `import_role`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use windlass_yaml::{Mapping, Node, Span, Value};

use super::before_hosts::collection_playbook;
use super::load::{Loader, Reading, TaskFile};
use crate::error::{Error, Result};
use crate::playbook::keyword::unknown;
use crate::playbook::{Block, Frame, FrameKind, Item, Keywords, On, Task, folder_of};

/// Names of `import_playbook`; `include` is the one it had until Ansible 2.12.
pub(crate) const NAMES: [&str; 3] = ["import_playbook", "ansible.builtin.import_playbook", "include"];

impl Loader {
    pub(super) fn warn_of_include(&self, successor: &str, place: &Span) {
        self.files.warn(format!("`include` was removed from Ansible and runs as `{successor}` ({place})"));
    }

    pub(super) fn import_playbook(
        &self,
        target: &Node,
        map: &Arc<Mapping>,
        dir: &Path,
        inherited: &Keywords,
        reading: &mut Reading,
    ) -> Result<()> {
        let mut keywords = Keywords::read(map, On::Import, |word, node| match word {
            "ansible.builtin.import_playbook" | "include" => Ok(()),
            _ => Err(unknown(word, On::Import, node)),
        })?;
        if target.is_null() {
            return Err(Error::parse("import_playbook needs the name of a file", &target.span));
        }
        let context = self.context(&[&self.world.run.extra_vars, &keywords.vars()?], dir, None);
        let name = context.render_to_string(target).map_err(|error| Error::parse(error.report(), &target.span))?;
        let path = collection_playbook(&name, &self.collections_path).unwrap_or_else(|| dir.join(&name));
        if reading.chain.contains(&path) {
            return Err(Error::parse(format!("{name} imports itself"), &target.span));
        }
        if !path.is_file() {
            return Err(Error::parse(format!("could not find or access '{}'", path.display()), &target.span).generic());
        }
        keywords.inherit(inherited)?;
        reading.chain.push(path.clone());
        self.playbook_into(&path, &keywords, reading)?;
        reading.chain.pop();
        Ok(())
    }

    pub(super) fn import_tasks(&self, task: &Task, from: &TaskFile<'_>) -> Result<Item> {
        if is_looped(task) {
            return Err(Error::parse(
                "import_tasks is read before any loop runs; use include_tasks in loops",
                &task.span,
            ));
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

    pub(super) fn import_role(&self, task: &Task, from: &TaskFile<'_>) -> Result<Vec<Item>> {
        if is_looped(task) {
            return Err(Error::parse(
                "import_role is read before any loop runs; use include_role in loops",
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

    /// Finds the file of an include or import: beside the file with the task, in the role, or beside the playbook.
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
            let shown = crate::paths::absolute(&path).display().to_string();
            if !tried.contains(&shown) {
                tried.push(shown);
            }
        }
        let beside = crate::paths::absolute(&folder_of(&task.span).join(name));
        let message = format!("Could not find or access '{}' on the Ansible Controller.", beside.display());
        Err(Error::parse(message, &task.span).generic().hint(format!("searched in {}", tried.join(", "))))
    }
}

/// Whether a task has a loop. `loop: null` is none.
fn is_looped(task: &Task) -> bool {
    task.keywords.get("loop").is_some_and(|node| !node.is_null()) || task.with_lookup.is_some()
}

/// Frame of an import, which passes down its keywords and variables.
fn include_frame(task: &Task, parent: &Arc<Frame>) -> Frame {
    Frame {
        parent: Some(Arc::clone(parent)),
        keywords: task.keywords.clone(),
        vars: Arc::clone(&task.vars),
        kind: FrameKind::Import,
        tags: Arc::clone(&task.tags),
    }
}
