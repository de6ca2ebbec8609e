//! Plugins that have moved out of a collection: `meta/runtime.yml`.

use std::path::Path;

use windlass_yaml::Node;

use crate::playbook::Files;

/// Entry for a name that a collection no longer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// The new qualified name.
    Redirect(String),
    /// The name was removed, for this reason.
    Removed(String),
}

/// Entry for a plugin of this kind (`modules`, `module_utils`), if the file has one.
pub(super) fn route(files: &Files, file: &Path, kind: &str, name: &str) -> Option<Route> {
    if !file.is_file() {
        return None;
    }
    let node = files.yaml(file).ok()?;
    let entry = node.get("plugin_routing")?.get(kind)?.get(name)?;
    let text = |node: &Node, key: &str| node.get(key).and_then(Node::scalar_text);
    if let Some(gone) = entry.get("tombstone") {
        let reason = text(gone, "warning_text").unwrap_or_default();
        return Some(Route::Removed(reason.trim().to_owned()));
    }
    text(entry, "redirect").map(Route::Redirect)
}
