//! Processes one object: reads it, changes it, and compares the states.

use serde_json::{Value, json};

use super::{
    super::{
        client::{Client, Selection},
        discovery::Resource,
        k8s_info::unanswered,
        objects::exists,
        wait::{Interrupted, wait},
    },
    Done, State, Task, difference, hash, labels,
};
use crate::{Failure, Host};

/// The resource of a kind; fails if the server does not serve it.
pub(super) fn resource(client: &Client, kind: &str, version: &str, host: &Host) -> Result<Resource, Failure> {
    let found = client.find(kind, version, host).map_err(|error| unanswered(&error))?;
    found.ok_or_else(|| {
        Failure::new(format!(
            "Failed to find exact match for {version}.{kind} by [kind, name, singularName, shortNames]"
        ))
    })
}

impl Task {
    pub(super) fn object(&self, mut definition: Value, host: &Host) -> Result<Done, Failure> {
        let text = |value: &Value| value.as_str().unwrap_or("None").to_owned();
        let resource = resource(&self.client, &text(&definition["kind"]), &text(&definition["apiVersion"]), host)?;
        definition["kind"] = resource.kind.as_str().into();
        definition["apiVersion"] = resource.group_version.as_str().into();
        let name = text(&definition["metadata"]["name"]);
        let existing = self.existing(&resource, &mut definition, host)?;
        if self.state == State::Absent {
            return self.absent(&resource, &definition, existing, &name, host);
        }
        let selectors: Vec<&str> = self.label_selectors.iter().map(String::as_str).collect();
        if !selectors.is_empty() && !labels::fit(&definition, &selectors) {
            let namespace = text(&definition["metadata"]["namespace"]);
            let message = format!(
                "resource 'kind={},name={name},namespace={namespace}' filtered by label_selectors.",
                resource.kind
            );
            return Ok(Done::default().with("result", json!({})).with("msg", message));
        }
        let (method, answer) = if self.apply {
            ("apply", self.applied(&resource, &definition, host)?)
        } else if existing.is_none() {
            if self.state == State::Patched {
                let mut done = Done::default().with("result", json!({}));
                done.warnings.push(format!(
                    "resource 'kind={},name={name}' was not found but will not be created as 'state' parameter has been set to 'patched'",
                    resource.kind
                ));
                return Ok(done);
            }
            ("create", self.create(&resource, &definition, host)?)
        } else if self.force {
            ("replace", self.replace(&resource, &definition, host)?)
        } else {
            ("update", self.update(&resource, &definition, host)?)
        };
        let done = Done { changed: method == "create", warnings: answer.warnings, ..Done::default() };
        let done = done.with("method", method).with("result", answer.value);
        self.present(&resource, existing, done, &name, host)
    }

    /// Reads the existing object. Appends the hash to the name in the definition, if requested.
    fn existing(&self, resource: &Resource, definition: &mut Value, host: &Host) -> Result<Option<Value>, Failure> {
        if self.append_hash
            && let Some(hash) = hash::of(definition)
        {
            let metadata = &mut definition["metadata"];
            let key =
                if metadata["name"].as_str().is_some_and(|name| !name.is_empty()) { "name" } else { "generateName" };
            if let Some(name) = metadata[key].as_str() {
                metadata[key] = format!("{name}-{hash}").into();
            }
        }
        let which = Selection { labels: self.label_selectors.clone(), ..Selection::of(definition) };
        if which.name.is_none() && which.labels.is_empty() {
            return Ok(None);
        }
        match self.client.read(resource, &which, host) {
            Ok(object) => Ok(Some(object)),
            Err(error) if matches!(error.status, 404 | 405) => Ok(None),
            Err(error) => Err(error.failure("Failed to retrieve requested object")),
        }
    }

    fn absent(
        &self,
        resource: &Resource,
        definition: &Value,
        existing: Option<Value>,
        name: &str,
        host: &Host,
    ) -> Result<Done, Failure> {
        let answer = self.delete(resource, definition, existing.as_ref(), host)?;
        let mut done = Done { changed: exists(existing.as_ref()), ..Done::default() };
        done = done.with("method", "delete").with("result", self.shown(&answer));
        let timeout = self.awaited(resource, definition, &mut done, name, host)?;
        done.ended(timeout)
    }

    /// Waits for an object that was sent, and compares it with the one before.
    fn present(
        &self,
        resource: &Resource,
        existing: Option<Value>,
        mut done: Done,
        name: &str,
        host: &Host,
    ) -> Result<Done, Failure> {
        let is_new = done.changed;
        let answer = done.data.get("result").cloned().unwrap_or_default();
        let timeout = self.awaited(resource, &answer, &mut done, name, host)?;
        let instance = done.data.get("result").cloned().unwrap_or_default();
        if !is_new {
            self.compare(&existing.unwrap_or_else(|| json!({})), &instance, &mut done, host)?;
        }
        done.with("result", self.shown(&instance)).ended(timeout)
    }

    /// Records whether the object changed, and the differences.
    fn compare(&self, before: &Value, after: &Value, done: &mut Done, host: &Host) -> Result<(), Failure> {
        // Hidden fields, such as the times in metadata.managedFields, do not count as changes.
        let differs = difference::between(before, after).map_err(Failure::new)?;
        let differs = differs.map(|(before, after)| (self.shown(&before), self.shown(&after)));
        let counted = differs.as_ref().is_some_and(|(before, after)| difference::is_only_counted(before, after));
        if counted {
            done.warnings.push("No meaningful diff was generated, but the API may not be idempotent (only metadata.generation or metadata.resourceVersion were changed)".into());
        }
        done.changed = differs.is_some() && !counted;
        if host.diff() {
            let shown = differs.map(|(before, after)| json!({ "before": before, "after": after }));
            let shown = shown.unwrap_or_else(|| json!({}));
            done.data.insert("diff".into(), shown);
        }
        Ok(())
    }

    /// Waits if requested, and returns a message after a timeout. After a deletion waits for the deleted object,
    /// otherwise for the current one.
    fn awaited(
        &self,
        resource: &Resource,
        object: &Value,
        done: &mut Done,
        name: &str,
        host: &Host,
    ) -> Result<Option<String>, Failure> {
        let Some(until) = self.until.as_ref().filter(|_| !host.check()) else { return Ok(None) };
        let which = Selection { labels: self.label_selectors.clone(), ..Selection::of(object) };
        let waited = wait(&self.client, resource, &which, until, self.patience, host).map_err(Interrupted::failure)?;
        done.data.insert("duration".into(), waited.seconds.into());
        if self.state != State::Absent {
            done.data.insert("result".into(), waited.object.unwrap_or_else(|| json!({})));
        }
        Ok((!waited.met).then(|| format!("\"{}\" \"{name}\": Timed out waiting on resource", resource.kind)))
    }
}

impl Done {
    fn with(mut self, key: &str, value: impl Into<Value>) -> Done {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// Fails after a timeout; the failure still contains the results so far.
    fn ended(self, timeout: Option<String>) -> Result<Done, Failure> {
        let Some(message) = timeout else { return Ok(self) };
        let mut failure = Failure::new(message).with("changed", self.changed);
        failure.data.extend(self.data);
        Err(failure)
    }
}
