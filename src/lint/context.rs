//! The data of a project that checks read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use windlass_inventory::{Inventory, Problem};
use windlass_template::uses::Form;
use windlass_yaml::Node;

use super::names::Names;
use super::source::SourceFile;
use super::walk::{Entry, Tree};
use super::workspace::Used;
use crate::foreign::Modules;
use crate::playbook::On;

/// A text with the names that it uses.
pub(super) struct Parsed<'p> {
    pub(super) file: &'p SourceFile,
    /// The value in a YAML file; `None` for a template file.
    pub(super) node: Option<&'p Node>,
    pub(super) form: Form,
    pub(super) task_line: Option<u32>,
    pub(super) uses: Used,
}

/// Everything that checks read.
pub(super) struct Context<'p> {
    pub(super) files: &'p [SourceFile],
    /// Directories of roles.
    pub(super) roles: &'p [&'p Path],
    pub(super) tree: &'p Tree<'p>,
    pub(super) names: &'p Names<'p>,
    pub(super) parsed: &'p [Parsed<'p>],
    pub(super) modules: &'p Modules,
    /// Directories of installed roles.
    pub(super) roles_path: &'p [PathBuf],
    pub(super) inventory: Option<&'p Inventory>,
    /// Problems of the inventory's files.
    pub(super) problems: &'p [Problem],
    /// Indexes of the inventory's files by absolute path.
    pub(super) inventory_files: &'p HashMap<PathBuf, usize>,
}

impl<'p> Context<'p> {
    /// Plays of the project, without imports of playbooks.
    pub(super) fn plays(&self) -> impl Iterator<Item = &'p Entry<'p>> {
        self.tree.entries.iter().filter(|entry| entry.on == On::Play)
    }
}
