//! Maps the kind of an object to its API path.

use serde_json::Value;

use super::client::{ApiError, Client};
use crate::Host;

/// A kind of object that the server serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resource {
    /// Group and version, such as `v1` or `apps/v1`.
    pub(super) group_version: String,
    pub(super) kind: String,
    /// Name in paths, such as `deployments`.
    name: String,
    pub(super) namespaced: bool,
    singular: String,
    short: Vec<String>,
    verbs: usize,
    /// Group and version of the request body, if different (for subresources such as `pods/eviction`).
    pub(super) sent_as: Option<String>,
}

impl Resource {
    /// The path of all objects, of a namespace's objects, or of one object.
    pub(super) fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let prefix = if self.group_version.contains('/') { "apis" } else { "api" };
        let mut path = format!("/{prefix}/{}", self.group_version);
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path.push_str(&format!("/namespaces/{}", crate::http::quoted(namespace)));
        }
        path.push('/');
        path.push_str(&self.name);
        if let Some(name) = name {
            path.push('/');
            path.push_str(&crate::http::quoted(name));
        }
        path
    }

    fn of(group_version: &str, listed: &Value) -> Option<Resource> {
        let text = |key: &str| listed[key].as_str().unwrap_or_default();
        let list = |key: &str| listed[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let name = text("name");
        let singular = match text("singularName") {
            "" => name.get(..name.len().checked_sub(1)?)?,
            singular => singular,
        };
        let sent_as = match (text("group"), text("version")) {
            (_, "") => None,
            ("", version) => Some(version.to_owned()),
            (group, version) => Some(format!("{group}/{version}")),
        };
        Some(Resource {
            group_version: group_version.to_owned(),
            kind: text("kind").to_owned(),
            name: name.to_owned(),
            namespaced: listed["namespaced"].as_bool().unwrap_or(false),
            singular: singular.to_owned(),
            short: list("shortNames").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            verbs: list("verbs").len(),
            sent_as,
        })
    }
}

impl Client {
    /// Finds a resource by kind (`Deployment`), plural, singular or short name. A version without a group (`v1`) means
    /// the core group first, otherwise the single group with such a kind.
    pub(super) fn find(&self, kind: &str, api_version: &str, host: &Host) -> Result<Option<Resource>, ApiError> {
        if api_version.contains('/') {
            return Ok(matching(&self.serves(api_version, host)?, kind));
        }
        if api_version == "v1"
            && let Some(found) = matching(&self.serves("v1", host)?, kind)
        {
            return Ok(Some(found));
        }
        let groups = self.get("/apis", &[], host)?;
        let mut all = Vec::new();
        for group in groups["groups"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let versions = group["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let wanted = versions.iter().find(|version| version["version"] == api_version);
            if let Some(name) = wanted.and_then(|version| version["groupVersion"].as_str()) {
                all.extend(self.serves(name, host)?);
            }
        }
        Ok(matching(&all, kind))
    }

    /// Finds a subresource, such as `pods/eviction`.
    pub(super) fn subresource(
        &self,
        group_version: &str,
        name: &str,
        host: &Host,
    ) -> Result<Option<Resource>, ApiError> {
        Ok(self.listed(group_version, host)?.into_iter().find(|resource| resource.name == name))
    }

    /// The resources of a group version, queried once. A missing group is not cached, because it may appear later.
    fn serves(&self, group_version: &str, host: &Host) -> Result<Vec<Resource>, ApiError> {
        if let Some(known) = self.known.borrow().get(group_version) {
            return Ok(known.clone());
        }
        let mut found = self.listed(group_version, host)?;
        found.retain(|resource| !resource.name.contains('/'));
        if !found.is_empty() {
            self.known.borrow_mut().insert(group_version.to_owned(), found.clone());
        }
        Ok(found)
    }

    fn listed(&self, group_version: &str, host: &Host) -> Result<Vec<Resource>, ApiError> {
        let prefix = if group_version.contains('/') { "apis" } else { "api" };
        let answer = match self.get(&format!("/{prefix}/{group_version}"), &[], host) {
            Ok(answer) => answer,
            // The server behind an aggregated API may be unavailable.
            Err(error) if matches!(error.status, 404 | 503) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let listed = answer["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(listed.iter().filter_map(|resource| Resource::of(group_version, resource)).collect())
    }
}

/// The single resource that a word names, preferring the best kind of match.
fn matching(resources: &[Resource], word: &str) -> Option<Resource> {
    let fits: [fn(&Resource, &str) -> bool; 4] = [
        |resource, word| resource.kind == word,
        |resource, word| resource.name == word,
        |resource, word| resource.singular == word,
        |resource, word| resource.short.iter().any(|short| short == word),
    ];
    fits.iter().find_map(|fits| {
        let found: Vec<&Resource> = resources.iter().filter(|resource| fits(resource, word)).collect();
        let first = found.first()?;
        // If several groups serve the same kind, takes the resource with the most verbs.
        let same = found.iter().all(|other| other.group_version == first.group_version && other.kind == first.kind);
        if same { found.into_iter().max_by_key(|resource| resource.verbs).cloned() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resources() -> Vec<Resource> {
        let deployment = json!({ "name": "deployments", "singularName": "", "namespaced": true, "kind": "Deployment", "shortNames": ["deploy"], "verbs": ["get"] });
        let events =
            json!({ "name": "events", "namespaced": true, "kind": "Event", "shortNames": ["ev"], "verbs": [] });
        vec![
            Resource::of("apps/v1", &deployment).unwrap(),
            Resource::of("events.k8s.io/v1", &events).unwrap(),
            Resource::of("other.example/v1", &events).unwrap(),
        ]
    }

    #[test]
    fn resource_found_by_every_name() {
        for word in ["Deployment", "deployments", "deployment", "deploy"] {
            assert_eq!(matching(&resources(), word).map(|found| found.kind).as_deref(), Some("Deployment"), "{word}");
        }
        assert_eq!(matching(&resources(), "Event"), None);
        assert_eq!(matching(&resources(), "Nothing"), None);
    }

    #[test]
    fn namespaced_path_contains_namespace() {
        let found = matching(&resources(), "deploy").unwrap();
        assert_eq!(found.path(Some("a"), Some("b")), "/apis/apps/v1/namespaces/a/deployments/b");
        assert_eq!(found.path(None, None), "/apis/apps/v1/deployments");
        let node = Resource { group_version: "v1".into(), name: "nodes".into(), ..Resource::default() };
        assert_eq!(node.path(Some("a"), Some("system:x")), "/api/v1/nodes/system%3Ax");
    }
}
