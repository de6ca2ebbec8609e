//! Evaluates templates before any host is known: names of imports and roles, and tags.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_template::{Context, Value, text};
use windlass_yaml::{Mapping, Node};

use super::load::Loader;
use crate::error::{Error, Result};
use crate::paths::absolute;
use crate::playbook::{Frame, FrameKind, Role, VarsFile, is_variable_name};
use crate::vars::TaskScope;

impl Loader {
    /// Renders a template to text before any host is known.
    pub(super) fn static_text(&self, node: &Node, frame: &Arc<Frame>, vars: &Arc<Mapping>) -> Result<String> {
        self.static_value(node, frame, vars).map(|value| text(&value))
    }

    /// Renders a template to a value before any host is known.
    pub(super) fn static_value(&self, node: &Node, frame: &Arc<Frame>, vars: &Arc<Mapping>) -> Result<Value> {
        self.context_in(frame, vars).render(node).map_err(|error| {
            Error::new(error.report()).as_parse().hint(
                "imports are read before any host is known: only extra variables, variables of the play, its files, \
                 enclosing blocks and roles, and variables of the whole run are available; include_tasks and \
                 include_role can use all variables",
            )
        })
    }

    /// Variables known before any host is; `vars` is ordered from the highest precedence to the lowest.
    pub(super) fn context(&self, vars: &[&Arc<Mapping>], dir: &Path, role: Option<&Arc<Role>>) -> Context {
        self.world.run.engine.scope(Arc::new(TaskScope::before_import(&self.world, vars, dir, role)))
    }

    /// Variables known at a position inside a play.
    fn context_in(&self, frame: &Arc<Frame>, vars: &Arc<Mapping>) -> Context {
        let mut layers = vec![&self.world.run.extra_vars];
        layers.extend(frame.chain().filter_map(|frame| match &frame.kind {
            FrameKind::Role(role) => Some(&role.params),
            FrameKind::Dependent(role) => Some(&role.params),
            _ => None,
        }));
        layers.push(vars);
        for frame in frame.chain() {
            if let FrameKind::Play(known) = &frame.kind {
                layers.extend(known.files.iter().rev());
            }
            layers.push(&frame.vars);
            match &frame.kind {
                FrameKind::Role(role) => layers.push(&role.vars),
                FrameKind::Dependent(role) => layers.push(&role.vars),
                _ => {}
            }
        }
        layers.extend(frame.chain().filter_map(|frame| match &frame.kind {
            FrameKind::Role(role) => Some(&role.defaults),
            FrameKind::Dependent(role) => Some(&role.defaults),
            _ => None,
        }));
        let dir = frame.before_hosts().map(|known| known.dir.as_path()).unwrap_or(Path::new(""));
        self.context(&layers, dir, frame.role())
    }

    /// Loads the `vars_files` whose names are already known. Missing ones are reported when the play runs.
    pub(super) fn known_files(&self, entries: &[Node], dir: &Path, context: &Context) -> Result<Vec<Arc<Mapping>>> {
        let dir = absolute(dir);
        let mut files = Vec::new();
        for entry in entries {
            if let VarsFile::Found(path) = VarsFile::find(entry, &dir, context)? {
                files.push(self.files.variables_now(&path).map_err(|error| error.or_at(&entry.span))?);
            }
        }
        Ok(files)
    }
}

/// Path of the playbook with a qualified name (`namespace.name.playbook`, with directories as further parts), if it
/// exists.
pub fn collection_playbook(name: &str, collections_path: &[PathBuf]) -> Option<PathBuf> {
    let bare = name.strip_suffix(".yml").or_else(|| name.strip_suffix(".yaml")).unwrap_or(name);
    let parts: Vec<&str> = bare.split('.').collect();
    let [namespace, collection, inside @ ..] = parts.as_slice() else { return None };
    if inside.is_empty() || !parts.iter().all(|part| is_variable_name(part)) {
        return None;
    }
    let within: PathBuf = ["ansible_collections", *namespace, *collection, "playbooks"].iter().chain(inside).collect();
    let places = collections_path
        .iter()
        .flat_map(|folder| ["yml", "yaml", "json"].map(|extension| folder.join(&within).with_extension(extension)));
    places.into_iter().find(|path| path.is_file())
}
