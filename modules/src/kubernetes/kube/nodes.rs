//! `kube`: cordons, uncordons and drains nodes. A drain of a node without evictable pods changes nothing.

use std::time::Duration;

use serde_json::Value;

use super::{
    super::deadline::run_within,
    kubectl::{Kubectl, failure},
};
use crate::{Args, Failure, Host, Outcome, Plan};

fn node(client: &Kubectl, args: &Args, host: &Host) -> Result<(String, Value), Failure> {
    let Some(name) = args.filled("name") else {
        return Err(Failure::new("Name the node with `name`."));
    };
    let output = client.run(&["get", "node", name, "--ignore-not-found", "-o", "json"], host)?;
    let node =
        serde_json::from_slice(&output.stdout).map_err(|_| Failure::new(format!("The cluster has no node {name}.")))?;
    Ok((name.to_owned(), node))
}

fn is_cordoned(node: &Value) -> bool {
    node["spec"]["unschedulable"].as_bool().unwrap_or(false)
}

/// `cordoned` and `uncordoned`.
pub(super) fn plan_cordon(client: Kubectl, args: &Args, cordon: bool, host: &Host) -> Result<Plan, Failure> {
    let (name, node) = node(&client, args, host)?;
    if is_cordoned(&node) == cordon {
        return Ok(Plan::unchanged());
    }
    Ok(Plan::change(move |host: &Host, _: &mut Outcome| {
        client.run(&[if cordon { "cordon" } else { "uncordon" }, &name], host).map(|_| ())
    }))
}

/// `drained`.
pub(super) fn plan_drain(client: Kubectl, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let (name, node) = node(&client, args, host)?;
    let selector = format!("--field-selector=spec.nodeName={name}");
    let labels = args.filled("label_selector");
    let chosen = labels.map(|labels| format!("--selector={labels}"));
    let mut asked = vec!["get", "pods", "--all-namespaces", selector.as_str(), "-o", "json"];
    asked.extend(chosen.as_deref());
    let pods = client.run(&asked, host)?;
    let pods = super::objects::of_json(&pods.stdout_text())?;
    let leaving: Vec<String> =
        pods.iter().filter(|pod| !stays(pod, args.bool("ignore_daemonsets"))).map(full_name).collect();
    if is_cordoned(&node) && leaving.is_empty() {
        return Ok(Plan::unchanged().with("evicted", leaving));
    }
    let limit = args.seconds("timeout", 300);
    let mut words = vec!["drain".to_owned(), name.clone(), format!("--timeout={}s", limit.as_secs())];
    let mut add = |wanted: bool, word: &str| words.extend(wanted.then(|| word.to_owned()));
    add(args.bool("ignore_daemonsets"), "--ignore-daemonsets");
    add(args.bool("delete_emptydir_data"), "--delete-emptydir-data");
    add(args.bool("disable_eviction"), "--disable-eviction");
    add(args.bool("force"), "--force");
    words.extend(labels.map(|labels| format!("--pod-selector={labels}")));
    if let Some(seconds) = args.int("grace_period") {
        words.push(format!("--grace-period={seconds}"));
    }
    let apply = move |host: &Host, outcome: &mut Outcome| {
        let shown: Vec<&str> = words.iter().map(String::as_str).collect();
        // kubectl enforces the time limit itself; this one ends a kubectl that hangs.
        let output = run_within(client.command(&shown, host), host, limit + Duration::from_secs(60))?;
        if !output.success() {
            return Err(failure(&shown, &output));
        }
        outcome.set("stdout", output.stdout_text());
        Ok(())
    };
    Ok(Plan::change(apply).with("evicted", leaving))
}

/// Whether a drain skips the pod: static pods, finished pods and, if requested, pods of DaemonSets.
fn stays(pod: &Value, daemon_sets: bool) -> bool {
    let metadata = &pod["metadata"];
    let mirror = !metadata["annotations"]["kubernetes.io/config.mirror"].is_null();
    let done = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let owners = metadata["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    mirror || done || (daemon_sets && owners.iter().any(|owner| owner["kind"] == "DaemonSet"))
}

fn full_name(pod: &Value) -> String {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn drain_skips_pods_of_the_node() {
        let pod = |kind: &str, annotation: &str, phase: &str| {
            let mut pod = json!({ "metadata": { "namespace": "a", "name": "b", "ownerReferences": [{ "kind": kind }] }, "status": { "phase": phase } });
            pod["metadata"]["annotations"][annotation] = json!("x");
            pod
        };
        assert!(stays(&pod("Node", "kubernetes.io/config.mirror", "Running"), false));
        assert!(stays(&pod("DaemonSet", "y", "Running"), true) && !stays(&pod("DaemonSet", "y", "Running"), false));
        assert!(stays(&pod("Job", "y", "Succeeded"), true));
        assert!(!stays(&pod("ReplicaSet", "y", "Running"), true));
        assert_eq!(full_name(&pod("", "y", "")), "a/b");
    }
}
