//! Adds the task that checks a role's variables against its argument specification.

use std::path::Path;
use std::sync::Arc;

use windlass_yaml::{Mapping, Node};

use super::RoleRequest;
use crate::error::Result;
use crate::loader::load::Loader;
use crate::playbook::{Files, Frame, Task};

/// Argument specifications of a role by entry point, from their own file or from its metadata.
pub(crate) fn argument_specs(role: &Path, files: &Files) -> Result<Option<Node>> {
    for name in ["argument_specs.yml", "argument_specs.yaml", "argument_specs.json", "main.yml", "main.yaml"] {
        let path = role.join("meta").join(name);
        if !path.is_file() {
            continue;
        }
        if let Some(specs) = files.variables(&path)?.get("argument_specs").filter(|specs| specs.as_map().is_some()) {
            return Ok(Some(specs.clone()));
        }
    }
    Ok(None)
}

impl Loader {
    /// Builds the task that checks a role's variables; `None` if the role has no specification.
    pub(super) fn argument_validation(
        &self,
        request: &RoleRequest,
        meta: &Mapping,
        path: &Path,
        frame: &Arc<Frame>,
        when: &[Node],
    ) -> Result<Option<Task>> {
        if !request.validate {
            return Ok(None);
        }
        let own = ["argument_specs.yml", "argument_specs.yaml", "argument_specs.json"]
            .iter()
            .map(|name| path.join("meta").join(name))
            .find(|file| file.is_file());
        let specs = match own {
            Some(file) => self.files.variables(&file)?.get("argument_specs").cloned(),
            None => meta.get("argument_specs").cloned(),
        };
        let entry = request
            .tasks_from
            .as_deref()
            .map_or("main", |name| name.trim_end_matches(".yml").trim_end_matches(".yaml"));
        let Some(spec) = specs.as_ref().and_then(|specs| specs.get(entry)) else { return Ok(None) };
        let span = spec.span.clone();
        let options = spec.get("options").cloned().unwrap_or_else(|| Node::map(Mapping::new(), span.clone()));
        let mut args = Mapping::new();
        args.insert_str("argument_spec", options.into_literal());
        let mut described = Mapping::new();
        let folder = crate::paths::absolute(path).display().to_string();
        // Ansible reports a collection's role by its short name.
        let of_collection = path.components().any(|part| part.as_os_str() == "ansible_collections");
        let name = request.name.rsplit('.').next().filter(|_| of_collection).unwrap_or(&request.name);
        for (key, text) in [("type", "role"), ("name", name), ("argument_spec_name", entry), ("path", folder.as_str())]
        {
            described.insert_str(key, Node::literal(text, span.clone()));
        }
        args.insert_str("validate_args_context", Node::map(described, span.clone()));
        let summary =
            spec.get("short_description").and_then(Node::as_str).map(|text| format!(" - {text}")).unwrap_or_default();
        let mut task = Task::internal("ansible.builtin.validate_argument_spec", args, frame, &["always"]);
        task.name =
            Some(Node::literal(format!("Validating arguments against arg spec '{entry}'{summary}"), span.clone()));
        task.when = when.into();
        // Its failures concern the place that calls the role.
        task.span = if request.span.is_located() { request.span.clone() } else { span };
        Ok(Some(task))
    }
}
