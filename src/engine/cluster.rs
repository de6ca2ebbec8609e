//! Objects of one namespace, by the modules `k8s` and `k8s_info`.

use serde_json::{Map, Value, json};
use windlass_modules::kubernetes::core::{k8s::K8s, k8s_info::K8sInfo};
use windlass_modules::{Host, Module};

use super::{MANAGED, REQUEST, RUN};
use crate::error::{Error, Result};

/// A kind of object, with its API version.
pub(super) type Kind = (&'static str, &'static str);

pub(super) const CONFIG_MAP: Kind = ("v1", "ConfigMap");
pub(super) const JOB: Kind = ("batch/v1", "Job");
pub(super) const LEASE: Kind = ("coordination.k8s.io/v1", "Lease");
pub(super) const NAMESPACE: Kind = ("v1", "Namespace");
pub(super) const NETWORK_POLICY: Kind = ("networking.k8s.io/v1", "NetworkPolicy");
pub(super) const POD: Kind = ("v1", "Pod");
pub(super) const ROLE: Kind = ("rbac.authorization.k8s.io/v1", "Role");
pub(super) const ROLE_BINDING: Kind = ("rbac.authorization.k8s.io/v1", "RoleBinding");
pub(super) const SECRET: Kind = ("v1", "Secret");
pub(super) const SERVICE: Kind = ("v1", "Service");
pub(super) const SERVICE_ACCOUNT: Kind = ("v1", "ServiceAccount");

/// Kinds that belong to a run, in the order of deletion. Jobs come first, so that they start no pods while the rest is
/// deleted.
const OF_RUNS: [Kind; 9] =
    [JOB, LEASE, SERVICE, SECRET, CONFIG_MAP, NETWORK_POLICY, ROLE_BINDING, ROLE, SERVICE_ACCOUNT];

/// A namespace of the cluster that the kubeconfig, or the service account of a pod, leads to.
#[derive(Debug, Clone)]
pub(super) struct Namespace(String);

impl Namespace {
    pub(super) fn new(name: &str) -> Namespace {
        Namespace(name.to_owned())
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// An object in this namespace with these labels; other parts are merged into it.
    pub(super) fn object(&self, (version, kind): Kind, name: &str, run: &str, rest: Value) -> Value {
        let mut object = json!({
            "apiVersion": version,
            "kind": kind,
            "metadata": { "name": name, "namespace": self.0, "labels": { MANAGED.0: MANAGED.1, RUN: run } },
        });
        let rest = if let Value::Object(rest) = rest { rest } else { Map::new() };
        for (key, value) in rest {
            match (key.as_str(), value) {
                ("annotations", value) => object["metadata"]["annotations"] = value,
                ("resourceVersion", value) => object["metadata"]["resourceVersion"] = value,
                (_, value) => object[&key] = value,
            }
        }
        object
    }

    /// Creates an object or changes it to this state, by server-side apply with Windlass as the manager of its fields.
    pub(super) fn apply(&self, object: &Value) -> Result<Value> {
        Ok(ask(&K8s, &applied(object))?["result"].clone())
    }

    /// The object that [`Namespace::apply`] would lead to, as the server predicts it. An older server leaves out fields
    /// that it does not know, or refuses the object.
    pub(super) fn predict(&self, object: &Value) -> Result<Value> {
        Ok(ask_on(&K8s, &applied(object), &Host::alone().with_check(true))?["result"].clone())
    }

    /// Creates an object. One that has the same content already, because an earlier answer was lost, is a success. With
    /// a `resourceVersion`, changes the object if it is still that version.
    pub(super) fn put(&self, object: &Value) -> Result<Value> {
        Ok(ask(&K8s, &json!({ "definition": object }))?["result"].clone())
    }

    /// The object with this name; `None` if it does not exist.
    pub(super) fn get(&self, (version, kind): Kind, name: &str) -> Result<Option<Value>> {
        let which = json!({ "api_version": version, "kind": kind, "name": name, "namespace": self.0 });
        Ok(found(&ask(&K8sInfo, &which)?).into_iter().next())
    }

    /// Objects with these labels.
    pub(super) fn list(&self, (version, kind): Kind, labels: &[String]) -> Result<Vec<Value>> {
        let which = json!({ "api_version": version, "kind": kind, "namespace": self.0, "label_selectors": labels });
        Ok(found(&ask(&K8sInfo, &which)?))
    }

    /// Deletes every object of a run.
    pub(super) fn delete_run(&self, run: &str) -> Result<()> {
        for (version, kind) in OF_RUNS {
            let labels = [format!("{}={}", MANAGED.0, MANAGED.1), format!("{RUN}={run}")];
            for object in self.list((version, kind), &labels)? {
                let name = &object["metadata"]["name"];
                let which = json!({
                    "state": "absent",
                    "api_version": version,
                    "kind": kind,
                    "name": name,
                    "namespace": self.0,
                    "delete_options": { "propagationPolicy": "Background" },
                });
                ask(&K8s, &which)?;
            }
        }
        Ok(())
    }

    /// Deletes the namespace itself.
    pub(super) fn delete(&self) -> Result<()> {
        let (version, kind) = NAMESPACE;
        ask(&K8s, &json!({ "state": "absent", "api_version": version, "kind": kind, "name": self.0 })).map(drop)
    }

    /// Makes a request without blocking the caller, within the time for one.
    pub(super) async fn request<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Namespace) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let namespace = self.clone();
        let work = tokio::task::spawn_blocking(move || work(&namespace));
        match tokio::time::timeout(REQUEST, work).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(Error::new(format!("a request to the API server ended: {error}"))),
            Err(_) => Err(Error::new(format!("the API server did not answer within {} s", REQUEST.as_secs()))),
        }
    }
}

fn found(answer: &Value) -> Vec<Value> {
    answer["resources"].as_array().cloned().unwrap_or_default()
}

/// Arguments of `k8s` for a server-side apply.
fn applied(object: &Value) -> Value {
    let ours = json!({ "field_manager": "windlass", "force_conflicts": true });
    json!({ "definition": object, "apply": true, "server_side_apply": ours })
}

/// Runs a module of the collection `kubernetes.core` in this process.
fn ask(module: &dyn Module, arguments: &Value) -> Result<Value> {
    ask_on(module, arguments, &Host::alone())
}

fn ask_on(module: &dyn Module, arguments: &Value, host: &Host) -> Result<Value> {
    let answer = windlass_modules::run(module, arguments, host);
    if answer["failed"] == true {
        let message = answer["msg"].as_str().unwrap_or("the request failed").trim_end_matches('.');
        return Err(Error::new(format!("Kubernetes: {message}"))
            .hint("KUBECONFIG and K8S_AUTH_CONTEXT select the cluster and the user"));
    }
    Ok(answer)
}
