//! Operations on one object, as requests to the server.

use serde_json::{Value, json};

use super::{
    super::{
        client::{Answer, ApiError, Format, Selection},
        discovery::Resource,
        objects::{exists, is_list, items},
    },
    Task, apply,
};
use crate::{Failure, Host};

impl Task {
    /// Query parameters of every changing request.
    fn query(&self, host: &Host) -> Vec<(&'static str, String)> {
        if host.check() { vec![("dryRun", "All".to_owned())] } else { Vec::new() }
    }

    pub(super) fn create(&self, resource: &Resource, definition: &Value, host: &Host) -> Result<Answer, Failure> {
        const TRIED: &str = "Failed to create object";
        let namespace = namespace(resource, definition).map_err(|why| failed(TRIED, &why))?;
        let path = resource.path(namespace.as_deref(), None);
        match self.client.send("POST", &path, &self.query(host), Some((Format::Json, definition)), host) {
            Ok(answer) => Ok(answer),
            // The created object may have a different kind than requested.
            Err(ApiError { status: 409, .. }) => {
                let name = definition["metadata"]["name"].as_str().unwrap_or_default();
                let warning = format!(
                    "{name} was not found, but creating it returned a 409 Conflict error. This can happen if the resource you are creating does not directly create a resource of the same kind."
                );
                Ok(Answer { value: json!({}), warnings: vec![warning] })
            }
            Err(error) => Err(error.failure(TRIED)),
        }
    }

    pub(super) fn replace(&self, resource: &Resource, definition: &Value, host: &Host) -> Result<Answer, Failure> {
        const TRIED: &str = "Failed to replace object";
        let path = path(resource, definition, "replace").map_err(|why| failed(TRIED, &why))?;
        let answer = self.client.send("PUT", &path, &self.query(host), Some((Format::Json, definition)), host);
        answer.map_err(|error| error.failure(TRIED))
    }

    /// Patches the object with the first patch type that the server accepts.
    pub(super) fn update(&self, resource: &Resource, definition: &Value, host: &Host) -> Result<Answer, Failure> {
        const TRIED: &str = "Failed to patch object";
        let path = path(resource, definition, "patch").map_err(|why| failed(TRIED, &why))?;
        let mut formats: Vec<Format> = self
            .merge_types
            .iter()
            .map(|name| if name == "merge" { Format::Merge } else { Format::StrategicMerge })
            .collect();
        if formats.is_empty() {
            formats = vec![Format::StrategicMerge, Format::Merge];
        }
        let mut refused = failed(TRIED, "merge_type is empty");
        for format in formats {
            match self.client.send("PATCH", &path, &self.query(host), Some((format, definition)), host) {
                Ok(answer) => return Ok(answer),
                Err(error) => refused = error.failure(TRIED),
            }
        }
        Err(refused)
    }

    /// Applies the object on the server, or compares it with the last applied definition.
    pub(super) fn applied(&self, resource: &Resource, definition: &Value, host: &Host) -> Result<Answer, Failure> {
        const TRIED: &str = "Failed to apply object";
        let path = path(resource, definition, "apply").map_err(|why| failed(TRIED, &why))?;
        let refused = |error: ApiError| error.failure(TRIED);
        let mut query = self.query(host);
        if let Some(server_side) = &self.server_side_apply {
            query.push(("fieldManager", server_side.manager.clone()));
            query.push(("force", server_side.force.to_string()));
            return self.client.send("PATCH", &path, &query, Some((Format::Apply, definition)), host).map_err(refused);
        }
        let actual = match self.client.get(&path, &[], host) {
            Ok(actual) => actual,
            Err(error) if error.is_missing() => {
                let parent = resource.path(definition["metadata"]["namespace"].as_str(), None);
                let made = apply::annotated(definition);
                return self.client.send("POST", &parent, &query, Some((Format::Json, &made)), host).map_err(refused);
            }
            Err(error) => return Err(refused(error)),
        };
        let patch = apply::patch(&actual, definition).map_err(|why| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, name) = (text(&definition["kind"]), text(&definition["metadata"]["name"]));
            failed(TRIED, &format!("Could not apply strategic merge to {kind}/{name}: {why}"))
        })?;
        match patch {
            None => Ok(Answer { value: actual, warnings: Vec::new() }),
            Some(patch) => {
                self.client.send("PATCH", &path, &query, Some((Format::Merge, &patch)), host).map_err(refused)
            }
        }
    }

    /// Deletes an existing object, or the objects of a list.
    pub(super) fn delete(
        &self,
        resource: &Resource,
        definition: &Value,
        existing: Option<&Value>,
        host: &Host,
    ) -> Result<Value, Failure> {
        let Some(found) = existing.filter(|object| exists(Some(object))) else { return Ok(json!({})) };
        if !is_list(found) {
            return self.delete_one(resource, definition, host);
        }
        items(found).iter().map(|item| self.delete_one(resource, item, host)).collect()
    }

    fn delete_one(&self, resource: &Resource, object: &Value, host: &Host) -> Result<Value, Failure> {
        let mut query = self.query(host);
        let which = Selection { labels: self.label_selectors.clone(), ..Selection::of(object) };
        query.extend(which.query());
        let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
        for (key, value) in &self.delete_options {
            options[key] = value.clone();
        }
        let body = (!self.delete_options.is_empty() && !host.check()).then_some((Format::Json, &options));
        let answer = self.client.send("DELETE", &which.path(resource), &query, body, host);
        answer.map(|answer| answer.value).map_err(|error| error.failure("Failed to delete object"))
    }
}

/// The namespace of a request; fails if a namespaced object does not name one.
fn namespace(resource: &Resource, definition: &Value) -> Result<Option<String>, String> {
    let namespace = definition["metadata"]["namespace"].as_str().filter(|name| !name.is_empty());
    match (resource.namespaced, namespace) {
        (true, None) => Err(format!("Namespace is required for {}.{}", resource.group_version, resource.kind)),
        (true, namespace) => Ok(namespace.map(str::to_owned)),
        (false, _) => Ok(None),
    }
}

fn path(resource: &Resource, definition: &Value, verb: &str) -> Result<String, String> {
    let name = definition["metadata"]["name"].as_str().filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| format!("name is required to {verb} {}.{}", resource.group_version, resource.kind))?;
    Ok(resource.path(namespace(resource, definition)?.as_deref(), Some(name)))
}

fn failed(tried: &str, why: &str) -> Failure {
    Failure::new(format!("{tried}: {why}"))
}
