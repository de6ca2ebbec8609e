//! The objects of a run.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::client::Request;
use super::cluster::{
    CONFIG_MAP, JOB, Kind, LEASE, NETWORK_POLICY, Namespace, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT,
};
use super::project::Packed;
use super::seal::Seal;
use super::{COMMAND, INPUT, MANAGED, PROJECT, RUN, SEAL, STOP, WORK, name_of};

/// User of the image that `make dist` builds.
const USER: u32 = 65532;
/// Number of pods that may fail before the run is given up.
const PODS: u32 = 20;
/// Seconds that a pod of a lost node keeps its place.
const LOST_NODE: u32 = 30;
/// Seconds that a pod has to end: its run stops, and the rest of the output is stored.
const GRACE: u64 = STOP.as_secs() + 50;

/// All objects of a run, in the order in which they are created.
pub(super) fn of_run(namespace: &Namespace, run: &str, request: &Request, packed: &Packed) -> Vec<Value> {
    let name = name_of(run);
    let object = |kind: Kind, rest: Value| namespace.object(kind, &name, run, rest);
    let mut objects = vec![
        object(SERVICE_ACCOUNT, json!({})),
        // A rule cannot limit `create` to names. Secrets stay out of reach.
        object(
            ROLE,
            json!({ "rules": [
                { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"] },
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "resourceNames": [name],
                    "verbs": ["get", "patch"],
                },
            ] }),
        ),
        object(
            ROLE_BINDING,
            json!({
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
                "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace.name() }],
            }),
        ),
        // Nobody calls the pod. It must reach whatever its hosts are.
        object(
            NETWORK_POLICY,
            json!({ "spec": { "podSelector": { "matchLabels": { RUN: run } }, "policyTypes": ["Ingress"] } }),
        ),
    ];
    let secret = |name: String, data: Value| {
        namespace.object(SECRET, &name, run, json!({ "immutable": true, "type": "Opaque", "data": data }))
    };
    for (index, chunk) in packed.chunks.iter().enumerate() {
        objects.push(secret(chunk_name(&name, index), json!({ "chunk": BASE64_STANDARD.encode(chunk) })));
    }
    // Without a holder. It exists before any pod does, so that two pods cannot both create it.
    objects.push(object(LEASE, json!({ "spec": {} })));
    let inputs = packed.inputs.iter().map(|(name, bytes)| (name.clone(), BASE64_STANDARD.encode(bytes).into()));
    objects.push(secret(inputs_name(&name), Value::Object(inputs.collect())));
    objects.push(job(namespace, run, request, packed));
    objects
}

fn chunk_name(name: &str, index: usize) -> String {
    format!("{name}-project-{index:03}")
}

pub(super) fn inputs_name(name: &str) -> String {
    format!("{name}-inputs")
}

fn job(namespace: &Namespace, run: &str, request: &Request, packed: &Packed) -> Value {
    let name = name_of(run);
    let chunk = |index: usize| {
        json!({ "secret": {
            "name": chunk_name(&name, index),
            "items": [{ "key": "chunk", "path": format!("project/{index:03}") }],
        } })
    };
    let inputs = json!({ "secret": { "name": inputs_name(&name) } });
    let sources: Vec<Value> = (0..packed.chunks.len()).map(chunk).chain([inputs]).collect();
    let lost =
        |key: &str| json!({ "key": key, "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": LOST_NODE });
    let processes = u32::from(request.shards.max(1));
    let container = json!({
        "name": "windlass",
        "image": request.image,
        "args": ["__engine", run, namespace.name(), WORK, INPUT],
        "env": [{ "name": "HOME", "value": format!("{WORK}/home") }, { "name": "TMPDIR", "value": WORK }],
        "workingDir": WORK,
        "volumeMounts": [
            { "name": "input", "mountPath": INPUT, "readOnly": true },
            { "name": "work", "mountPath": WORK },
            { "name": "tmp", "mountPath": "/tmp" },
        ],
        "resources": { "requests": {
            "cpu": format!("{}m", 250 * processes),
            "memory": format!("{}Mi", 128 + 64 * processes),
        } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    let pod = json!({
        "containers": [container],
        "restartPolicy": "Never",
        "serviceAccountName": name,
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "terminationGracePeriodSeconds": GRACE,
        "tolerations": [lost("node.kubernetes.io/not-ready"), lost("node.kubernetes.io/unreachable")],
        "volumes": [
            { "name": "input", "projected": { "sources": sources, "defaultMode": 0o440 } },
            { "name": "work", "emptyDir": {} },
            { "name": "tmp", "emptyDir": {} },
        ],
    });
    let labels = json!({ MANAGED.0: MANAGED.1, RUN: run });
    let spec = json!({
        "backoffLimit": PODS,
        "template": { "metadata": { "labels": labels }, "spec": pod },
    });
    let annotations = json!({ COMMAND: request.shown, PROJECT: packed.digest() });
    namespace.object(JOB, &name, run, json!({ "annotations": annotations, "spec": spec }))
}

/// The object that ends a run, with its exit code and the number of its segments.
pub(super) fn end(namespace: &Namespace, run: &str, (code, segments): (u8, u32), seal: &Seal) -> Value {
    let data = json!({ "code": code.to_string(), "segments": segments.to_string() });
    let annotations = json!({ SEAL: seal.code(&[b"end", run.as_bytes(), &[code], &segments.to_be_bytes()]) });
    let rest = json!({ "immutable": true, "annotations": annotations, "data": data });
    namespace.object(CONFIG_MAP, &end_name(run), run, rest)
}

/// Exit code and number of segments of an ended run; `None` if the run has not written the object.
pub(super) fn read_end(object: &Value, run: &str, seal: &Seal) -> Option<(u8, u32)> {
    let number = |key: &str| object["data"][key].as_str().and_then(|text| text.parse::<u32>().ok());
    let (code, segments) = (u8::try_from(number("code")?).ok()?, number("segments")?);
    let is_sealed = seal.is_on(object, &[b"end", run.as_bytes(), &[code], &segments.to_be_bytes()]);
    is_sealed.then_some((code, segments))
}

pub(super) fn end_name(run: &str) -> String {
    format!("{}-end", name_of(run))
}

/// The object whose existence asks the pod to stop the run.
pub(super) fn cancel(namespace: &Namespace, run: &str, seal: &Seal) -> Value {
    let annotations = json!({ SEAL: seal.code(&[b"cancel", run.as_bytes()]) });
    namespace.object(CONFIG_MAP, &cancel_name(run), run, json!({ "annotations": annotations }))
}

/// Whether somebody who knows the run's key asks for that.
pub(super) fn is_cancel(object: &Value, run: &str, seal: &Seal) -> bool {
    seal.is_on(object, &[b"cancel", run.as_bytes()])
}

pub(super) fn cancel_name(run: &str) -> String {
    format!("{}-cancel", name_of(run))
}
