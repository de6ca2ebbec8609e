//! `k8s_drain`: cordons, uncordons and drains nodes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    access::with_cluster,
    client::{ApiError, Client, Format},
    k8s_info::unanswered,
    objects::items,
    wait::pause,
};
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec};

/// The `k8s_drain` module.
pub struct K8sDrain;

/// Specification of `k8s_drain`.
pub static SPEC: Spec = Spec {
    name: "k8s_drain",
    collection: "kubernetes.core",
    summary: "Cordon, uncordon or drain a Kubernetes node",
    description: &[
        "`cordon` marks a node as unschedulable, `uncordon` reverts that. `drain` cordons the node and evicts its \
         pods, except static pods. Evicts nothing if pods without a controller or with local data exist, unless \
         `delete_options` allows it.",
    ],
    options: with_cluster![
        Opt::required("name", Kind::Str, "Name of the node."),
        Opt::new("state", Kind::Str, "Operation to perform.")
            .choices(&["cordon", "drain", "uncordon"])
            .default("\"drain\""),
        Opt::new("pod_selectors", Kind::List(&Kind::Str), "With `drain`: evict only pods with these labels.")
            .aliases(&["label_selectors"]),
        Opt::new("delete_options", Kind::Dict, "With `drain`: options for evicting pods.").default("{}").options(&[
            Opt::new(
                "terminate_grace_period",
                Kind::Int,
                "Seconds for a pod to terminate. Default: the pod's own grace period."
            ),
            Opt::new("force", Kind::Bool, "Also evict pods that no controller recreates.").default("false"),
            Opt::new("ignore_daemonsets", Kind::Bool, "Skip pods of DaemonSets, which would be recreated immediately.")
                .default("false"),
            Opt::new(
                "delete_emptydir_data",
                Kind::Bool,
                "Also evict pods that use emptyDir volumes, whose data is lost."
            )
            .default("false"),
            Opt::new(
                "disable_eviction",
                Kind::Bool,
                "Delete pods instead of evicting them, which ignores disruption budgets."
            )
            .default("false"),
            Opt::new("wait_timeout", Kind::Int, "Seconds to wait until the pods are gone; 0 waits forever."),
            Opt::new("wait_sleep", Kind::Int, "Seconds between two checks.").default("5"),
        ]),
    ],
    check: Check::None,
    examples: "- name: Nothing new on this node\n  kubernetes.core.k8s_drain:\n    name: worker1\n    state: cordon\n\n\
               - name: Empty the node\n  kubernetes.core.k8s_drain:\n    name: worker1\n    delete_options:\n      ignore_daemonsets: true\n      \
               delete_emptydir_data: true\n      wait_timeout: 300\n",
    returns: &[Return { name: "result", kind: "str", when: "success", doc: "Summary of the operation." }],
    ..Spec::EMPTY
}
.compiled();

impl Module for K8sDrain {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let node = Node { client: Client::of(args, host)?, name: args.required("name")?.to_owned() };
        let name = &node.name;
        let is_cordoned = node.is_cordoned(host)?;
        let word = |cordoned: bool| if cordoned { "unschedulable" } else { "schedulable" };
        match args.required("state")? {
            "drain" => {
                let drain = Drain::of(node, is_cordoned, args);
                Ok(Plan::change(move |host, outcome| drain.run(host, outcome)))
            }
            state => {
                let wanted = state == "cordon";
                if wanted == is_cordoned {
                    return Ok(
                        Plan::unchanged().with("result", format!("node {name} already marked {}.", word(wanted)))
                    );
                }
                let said = format!("node {name} marked {}.", word(wanted));
                Ok(Plan::change(move |host, _| node.set_unschedulable(wanted, host)).with("result", said))
            }
        }
    }
}

struct Node {
    client: Client,
    name: String,
}

impl Node {
    fn path(&self) -> String {
        format!("/api/v1/nodes/{}", crate::http::quoted(&self.name))
    }

    fn is_cordoned(&self, host: &Host) -> Result<bool, Failure> {
        match self.client.get(&self.path(), &[], host) {
            Ok(node) => Ok(node["spec"]["unschedulable"].as_bool().unwrap_or(false)),
            Err(error) if error.is_missing() => Err(Failure::new(format!("Node {} not found.", self.name))),
            Err(error) => Err(self.refused(&format!("Failed to retrieve node '{}'", self.name), &error)),
        }
    }

    fn set_unschedulable(&self, cordoned: bool, host: &Host) -> Result<(), Failure> {
        let body = json!({ "spec": { "unschedulable": cordoned } });
        let answer = self.client.send("PATCH", &self.path(), &[], Some((Format::StrategicMerge, &body)), host);
        answer.map(|_| ()).map_err(|error| self.refused("Failed to patch node", &error))
    }

    fn refused(&self, tried: &str, error: &ApiError) -> Failure {
        if error.is_connection() {
            return Failure::new(format!("{tried} due to: {}", error.sentence()));
        }
        Failure::new(format!("{tried} due to: {}", error.reason)).with("status", error.status)
    }
}

/// Namespace and name of a pod.
type Pod = (String, String);

struct Drain {
    node: Node,
    was_cordoned: bool,
    selectors: Vec<String>,
    grace_period: Option<i64>,
    allowed: Allowed,
    disable_eviction: bool,
    /// Time limit and interval in seconds while waiting for the pods to end.
    wait: Option<(u64, u64)>,
}

/// Pods that may be evicted.
#[derive(Clone, Copy)]
struct Allowed {
    unmanaged: bool,
    daemon_sets_stay: bool,
    local_data: bool,
}

impl Drain {
    fn of(node: Node, was_cordoned: bool, args: &Args) -> Drain {
        let options = args.value("delete_options").cloned().unwrap_or_default();
        let flag = |name: &str| options[name].as_bool().unwrap_or(false);
        let seconds = |name: &str| options[name].as_i64().map(|seconds| u64::try_from(seconds).unwrap_or(0));
        Drain {
            node,
            was_cordoned,
            selectors: args.list("pod_selectors").into_iter().map(str::to_owned).collect(),
            grace_period: options["terminate_grace_period"].as_i64(),
            allowed: Allowed {
                unmanaged: flag("force"),
                daemon_sets_stay: flag("ignore_daemonsets"),
                local_data: flag("delete_emptydir_data"),
            },
            disable_eviction: flag("disable_eviction"),
            wait: seconds("wait_timeout").map(|timeout| (timeout, seconds("wait_sleep").unwrap_or(5))),
        }
    }

    fn run(self, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        outcome.changed = !self.was_cordoned;
        let mut said =
            format!("node {} {}marked unschedulable.", self.node.name, if self.was_cordoned { "already " } else { "" });
        if !self.was_cordoned {
            self.node.set_unschedulable(true, host)?;
        }
        let chosen = self.pods(host).and_then(|pods| chosen(&pods, self.allowed));
        let (pods, mut warnings) = match chosen {
            Ok(chosen) => chosen,
            Err(failure) => {
                // Nothing was evicted, so the node accepts pods again.
                if !self.was_cordoned {
                    self.node.set_unschedulable(false, host)?;
                }
                return Err(failure);
            }
        };
        for pod in &pods {
            host.check_cancelled()?;
            outcome.changed |= self.evict(pod, host)?;
        }
        if !pods.is_empty() {
            if let Some((timeout, sleep)) = self.wait
                && !self.are_gone(pods.clone(), timeout, sleep, host)?
            {
                warnings.push("timeout reached while pods were still running.".to_owned());
            }
            said.push_str(&format!(" {} Pod(s) deleted from node.", pods.len()));
        }
        outcome.set("result", said);
        outcome.warnings.extend(warnings);
        Ok(())
    }

    fn pods(&self, host: &Host) -> Result<Vec<Value>, Failure> {
        let mut query = vec![("fieldSelector", format!("spec.nodeName={}", self.node.name))];
        if !self.selectors.is_empty() {
            query.push(("labelSelector", self.selectors.join(",")));
        }
        let tried = format!("Failed to list pod from node {}", self.node.name);
        let list =
            self.node.client.get("/api/v1/pods", &query, host).map_err(|error| self.node.refused(&tried, &error))?;
        Ok(items(&list).to_vec())
    }

    /// Evicts or deletes a pod; false if the pod is already gone.
    fn evict(&self, (namespace, name): &Pod, host: &Host) -> Result<bool, Failure> {
        let client = &self.node.client;
        let path = format!("/api/v1/namespaces/{}/pods/{}", crate::http::quoted(namespace), crate::http::quoted(name));
        let grace = self.grace_period.map(|seconds| json!({ "gracePeriodSeconds": seconds }));
        let answer = if self.disable_eviction {
            let options = grace.map(|mut options| {
                options["apiVersion"] = "v1".into();
                options["kind"] = "DeleteOptions".into();
                options
            });
            client.send("DELETE", &path, &[], options.as_ref().map(|options| (Format::Json, options)), host)
        } else {
            // Releases before 1.22 use policy/v1beta1.
            let known = client.subresource("v1", "pods/eviction", host).map_err(|error| unanswered(&error))?;
            let version = known.and_then(|known| known.sent_as).unwrap_or_else(|| "policy/v1".to_owned());
            let mut eviction = json!({ "apiVersion": version, "kind": "Eviction", "metadata": { "name": name, "namespace": namespace } });
            if let Some(grace) = grace {
                eviction["deleteOptions"] = grace;
            }
            client.send("POST", &format!("{path}/eviction"), &[], Some((Format::Json, &eviction)), host)
        };
        match answer {
            Ok(_) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(self.node.refused(&format!("Failed to delete pod {namespace}/{name}"), &error)),
        }
    }

    /// Waits until the pods are gone or run elsewhere; a timeout of 0 waits forever.
    fn are_gone(&self, mut pods: Vec<Pod>, timeout: u64, sleep: u64, host: &Host) -> Result<bool, Failure> {
        let started = Instant::now();
        while let Some((namespace, name)) = pods.last() {
            if timeout != 0 && started.elapsed() >= Duration::from_secs(timeout) {
                return Ok(false);
            }
            let path =
                format!("/api/v1/namespaces/{}/pods/{}", crate::http::quoted(namespace), crate::http::quoted(name));
            match self.node.client.get(&path, &[], host) {
                Ok(pod) if pod["spec"]["nodeName"] == self.node.name.as_str() => {
                    pause(Duration::from_secs(sleep), host)?
                }
                Ok(_) => _ = pods.pop(),
                Err(error) if error.is_missing() => _ = pods.pop(),
                // The server, or a balancer before it, may restart meanwhile.
                Err(error) if error.is_connection() && timeout != 0 => pause(Duration::from_secs(sleep), host)?,
                Err(error) => return Err(self.node.refused(&format!("Failed to read pod {namespace}/{name}"), &error)),
            }
        }
        Ok(true)
    }
}

/// The pods to evict, and warnings about the others. Fails if some pods must not be evicted.
fn chosen(pods: &[Value], allowed: Allowed) -> Result<(Vec<Pod>, Vec<String>), Failure> {
    let (mut going, mut unmanaged, mut mirrors, mut local, mut daemons) = (vec![], vec![], vec![], vec![], vec![]);
    for pod in pods {
        let metadata = &pod["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
        let owners = metadata["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
        let volumes = pod["spec"]["volumes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let list = if !metadata["annotations"]["kubernetes.io/config.mirror"].is_null() {
            &mut mirrors
        } else if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            &mut going
        } else if volumes.iter().any(|volume| volume["emptyDir"].is_object()) {
            &mut local
        } else if owners.is_empty() {
            &mut unmanaged
        } else if owners.iter().any(|owner| owner["kind"] == "DaemonSet") {
            &mut daemons
        } else {
            &mut going
        };
        list.push((text("namespace"), text("name")));
    }
    let names =
        |pods: &[Pod]| pods.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect::<Vec<_>>().join(",");
    let (mut warnings, mut errors) = (Vec::new(), Vec::new());
    if !unmanaged.is_empty() {
        const OWNERS: &str = "not managed by ReplicationController, ReplicaSet, Job, DaemonSet or StatefulSet";
        if allowed.unmanaged {
            warnings.push(format!("Deleting Pods {OWNERS}: {}.", names(&unmanaged)));
            going.extend(unmanaged);
        } else {
            errors.push(format!("cannot delete Pods {OWNERS} (use option force set to yes): {}.", names(&unmanaged)));
        }
    }
    if !mirrors.is_empty() {
        warnings.push(format!("cannot delete mirror Pods using API server: {}.", names(&mirrors)));
    }
    if !local.is_empty() {
        if allowed.local_data {
            warnings.push(format!("Deleting Pods with local storage: {}.", names(&local)));
            going.extend(local);
        } else {
            errors.push(format!("cannot delete Pods with local storage: {}.", names(&local)));
        }
    }
    if !daemons.is_empty() {
        if allowed.daemon_sets_stay {
            warnings.push(format!("Ignoring DaemonSet-managed Pods: {}.", names(&daemons)));
        } else {
            errors.push(format!(
                "cannot delete DaemonSet-managed Pods (use option ignore_daemonset set to yes): {}.",
                names(&daemons)
            ));
        }
    }
    if errors.is_empty() {
        Ok((going, warnings))
    } else {
        Err(Failure::new(format!("Pod deletion errors: {}", errors.join(" "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_without_controller_not_evicted_by_default() {
        let pod = |name: &str, more: Value| {
            let mut pod =
                json!({ "metadata": { "namespace": "a", "name": name }, "spec": {}, "status": { "phase": "Running" } });
            for (key, value) in more.as_object().unwrap() {
                pod[key].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
            }
            pod
        };
        let owned = |kind: &str| json!({ "metadata": { "ownerReferences": [{ "kind": kind }] } });
        let pods = [
            pod("web", owned("ReplicaSet")),
            pod("agent", owned("DaemonSet")),
            pod("alone", json!({})),
            pod("cache", json!({ "spec": { "volumes": [{ "name": "c", "emptyDir": {} }] } })),
            pod("etcd", json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } })),
            pod("done", json!({ "status": { "phase": "Succeeded" } })),
        ];
        let none = Allowed { unmanaged: false, daemon_sets_stay: false, local_data: false };
        let refused = chosen(&pods, none).unwrap_err().message;
        for name in ["a/agent.", "a/alone.", "a/cache."] {
            assert!(refused.contains(name), "{refused}");
        }
        let all = Allowed { unmanaged: true, daemon_sets_stay: true, local_data: true };
        let (going, warnings) = chosen(&pods, all).unwrap();
        let names: Vec<&str> = going.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!((names, warnings.len()), (vec!["web", "done", "alone", "cache"], 4));
    }
}
