//! The objects of a run's workers: their keys, their way to the lead, and their Jobs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cluster::{JOB, NETWORK_POLICY, SERVICE};
use super::objects::{LEAD, Own, PODS, Pods, WORKER, lead_name, secret, template};
use super::{INPUT, KEYS, PORT, WORK, name_of};

/// Contents of files, by their names.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Variable with the number of a worker, from 0. The controller of an Indexed Job sets it.
const INDEX: &str = "JOB_COMPLETION_INDEX";

/// Objects other than the Jobs. Each worker has files with its keys.
pub(super) fn around(pods: &Pods<'_>, files: Vec<Files>) -> Vec<Value> {
    let name = name_of(pods.run);
    let files = files.into_iter().enumerate();
    let keys =
        files.flat_map(|(index, files)| files.into_iter().map(move |(key, bytes)| (format!("{key}-{index}"), bytes)));
    let lead = pods.labels(Some(LEAD));
    let port = json!({ "port": PORT, "protocol": "TCP" });
    let policy = json!({
        "podSelector": { "matchLabels": lead },
        "policyTypes": ["Ingress"],
        "ingress": [{
            "from": [{ "podSelector": { "matchLabels": pods.labels(Some(WORKER)) } }],
            "ports": [port],
        }],
    });
    let service = json!({ "selector": lead, "ports": [port] });
    vec![
        secret(pods, &keys_name(&name), &keys.collect()),
        pods.namespace.object(NETWORK_POLICY, &lead_name(&name), pods.run, json!({ "spec": policy })),
        pods.namespace.object(SERVICE, &name, pods.run, json!({ "spec": service })),
    ]
}

fn keys_name(name: &str) -> String {
    format!("{name}-workers")
}

/// One Job for all workers.
pub(super) fn indexed(pods: &Pods<'_>, count: usize) -> Value {
    let spec = json!({
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "backoffLimitPerIndex": PODS,
        "template": template(pods, own(pods, count)),
    });
    pods.namespace.object(JOB, &keys_name(&name_of(pods.run)), pods.run, json!({ "spec": spec }))
}

/// A Job for each worker, for clusters that cannot limit the failures of each index.
pub(super) fn plain(pods: &Pods<'_>, count: usize) -> Vec<Value> {
    let job = |index: usize| {
        let mut own = own(pods, count);
        own.env.push(json!({ "name": INDEX, "value": index.to_string() }));
        let spec = json!({ "backoffLimit": PODS, "template": template(pods, own) });
        let name = format!("{}-worker-{}", name_of(pods.run), index + 1);
        pods.namespace.object(JOB, &name, pods.run, json!({ "spec": spec }))
    };
    (0..count).map(job).collect()
}

/// Parts that all workers have. A container sees its own keys alone, in a folder with its number.
fn own(pods: &Pods<'_>, count: usize) -> Own {
    let name = name_of(pods.run);
    let item = |index: usize, key: &str| json!({ "key": format!("{key}-{index}"), "path": format!("{index}/{key}") });
    let names = [crate::shards::OWN_KEY, crate::shards::OTHER_KEYS];
    let items: Vec<Value> = (0..count).flat_map(|index| names.map(|key| item(index, key))).collect();
    let keys = json!({ "secretName": keys_name(&name), "items": items, "defaultMode": 0o440 });
    let mount = json!({ "name": "keys", "mountPath": KEYS, "subPathExpr": format!("$({INDEX})"), "readOnly": true });
    Own {
        part: WORKER,
        args: json!(["__engine-worker", format!("{name}:{PORT}"), WORK, INPUT, KEYS]),
        volumes: vec![json!({ "name": "keys", "secret": keys })],
        mounts: vec![mount],
        // Workers ask nothing of the API server.
        pod: json!({ "automountServiceAccountToken": false }),
        ..Own::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::client::Request;
    use crate::engine::cluster::Namespace;
    use crate::engine::project::Packed;

    #[test]
    fn workers_have_equal_pods_in_both_forms_and_no_rights() {
        let namespace = Namespace::new("n");
        let (image, words, shown, inputs) = ("i".to_owned(), Vec::new(), String::new(), Vec::new());
        let request = Request { image, words, shown, shards: 3, inputs };
        let packed = Packed { chunks: vec![vec![1]], inputs: BTreeMap::new() };
        let pods = Pods { namespace: &namespace, run: "20260131-235959-0a1b2c", request: &request, packed: &packed };
        let indexed = indexed(&pods, 2);
        assert_eq!(indexed["spec"]["completions"], 2);
        for (index, mut job) in plain(&pods, 2).into_iter().enumerate() {
            assert_eq!(job["metadata"]["name"], format!("windlass-20260131-235959-0a1b2c-worker-{}", index + 1));
            let env = job["spec"]["template"]["spec"]["containers"][0]["env"].as_array_mut().unwrap();
            assert_eq!(env.pop().unwrap()["value"], index.to_string());
            assert_eq!(job["spec"]["template"], indexed["spec"]["template"]);
        }
        let pod = &indexed["spec"]["template"]["spec"];
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert!(!pod.to_string().contains("-lead"), "the lead's keys and the code of the run are not theirs: {pod}");
        assert_eq!(pod["topologySpreadConstraints"][0]["topologyKey"], "kubernetes.io/hostname");
    }
}
