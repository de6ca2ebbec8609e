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
use super::workers::Files;
use super::{COMMAND, INPUT, MANAGED, PART, PORT, PROJECT, RUN, SEAL, STOP, WORK, name_of};

/// User of the image that `make dist` builds.
const USER: u32 = 65532;
/// Number of pods that may fail before the run, or a worker, is given up.
pub(super) const PODS: u32 = 20;
/// Parts of pods in a run.
pub(super) const LEAD: &str = "lead";
pub(super) const WORKER: &str = "worker";
/// Seconds that a pod of a lost node keeps its place.
const LOST_NODE: u32 = 30;
/// Seconds that a pod has to end: its run stops, and the rest of the output is stored.
const GRACE: u64 = STOP.as_secs() + 50;

/// A run whose objects are made.
#[derive(Clone, Copy)]
pub(super) struct Pods<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) run: &'a str,
    pub(super) request: &'a Request,
    pub(super) packed: &'a Packed,
}

impl Pods<'_> {
    /// An object with the name of the run.
    fn object(&self, kind: Kind, rest: Value) -> Value {
        self.namespace.object(kind, &name_of(self.run), self.run, rest)
    }

    /// Whether the run has workers in pods of their own.
    fn has_workers(&self) -> bool {
        self.request.shards > 1
    }

    /// Labels of all pods, or of those with this part in the run.
    pub(super) fn labels(&self, part: Option<&str>) -> Value {
        let mut labels = json!({ MANAGED.0: MANAGED.1, RUN: self.run });
        if let Some(part) = part {
            labels[PART] = part.into();
        }
        labels
    }
}

/// Objects of a run but its keys and Jobs, in the order in which they are created.
pub(super) fn of_run(pods: &Pods<'_>) -> Vec<Value> {
    let name = name_of(pods.run);
    let mut objects = vec![
        pods.object(SERVICE_ACCOUNT, json!({})),
        // A rule cannot limit `create` to names. Secrets stay out of reach.
        pods.object(
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
        pods.object(
            ROLE_BINDING,
            json!({
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
                "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": pods.namespace.name() }],
            }),
        ),
        // Nothing connects to the pods, except workers to the lead. Connections from them are not limited, because
        // hosts can be anywhere.
        pods.object(
            NETWORK_POLICY,
            json!({ "spec": { "podSelector": { "matchLabels": { RUN: pods.run } }, "policyTypes": ["Ingress"] } }),
        ),
    ];
    for (index, chunk) in pods.packed.chunks.iter().enumerate() {
        let data = [("chunk".to_owned(), chunk.clone())].into();
        objects.push(secret(pods, &chunk_name(&name, index), &data));
    }
    // Without a holder. It exists before any pod does, so that two pods cannot both create it.
    objects.push(pods.object(LEASE, json!({ "spec": {} })));
    objects.push(secret(pods, &inputs_name(&name), &pods.packed.inputs));
    objects
}

/// A Secret of a run.
pub(super) fn secret(pods: &Pods<'_>, name: &str, data: &Files) -> Value {
    let data = data.iter().map(|(name, bytes)| (name.clone(), BASE64_STANDARD.encode(bytes).into()));
    let data = Value::Object(data.collect());
    let rest = json!({ "immutable": true, "type": "Opaque", "data": data });
    pods.namespace.object(SECRET, name, pods.run, rest)
}

fn chunk_name(name: &str, index: usize) -> String {
    format!("{name}-project-{index:03}")
}

/// Name of the Secret that all pods of a run mount.
fn inputs_name(name: &str) -> String {
    format!("{name}-inputs")
}

/// Name of the Secret that only the lead mounts.
pub(super) fn lead_name(name: &str) -> String {
    format!("{name}-lead")
}

/// The Job of the pod that leads, which is the only one of a run without workers.
pub(super) fn job(pods: &Pods<'_>) -> Value {
    let name = name_of(pods.run);
    let mut args = json!(["__engine", pods.run, pods.namespace.name(), WORK, INPUT]);
    let mut env = Vec::new();
    if pods.has_workers() {
        env.push(json!({ "name": "POD_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }));
        let listening = [json!("--listen"), json!("$(POD_IP)"), json!("--port"), json!(PORT.to_string())];
        args.as_array_mut().into_iter().for_each(|args| args.extend(listening.clone()));
    }
    let own = Own {
        part: LEAD,
        args,
        env,
        sources: vec![json!({ "secret": { "name": lead_name(&name) } })],
        pod: json!({ "serviceAccountName": name }),
        ..Own::default()
    };
    let annotations = json!({ COMMAND: pods.request.shown, PROJECT: pods.packed.digest() });
    let spec = json!({ "backoffLimit": PODS, "template": template(pods, own) });
    pods.object(JOB, json!({ "annotations": annotations, "spec": spec }))
}

/// Parts in which the pods of a run differ.
#[derive(Default)]
pub(super) struct Own {
    pub(super) part: &'static str,
    pub(super) args: Value,
    pub(super) env: Vec<Value>,
    /// Sources of the mounted input, in addition to the project and the inputs of all pods.
    pub(super) sources: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) mounts: Vec<Value>,
    /// Fields of the pod.
    pub(super) pod: Value,
}

/// The template of a pod.
pub(super) fn template(pods: &Pods<'_>, own: Own) -> Value {
    let name = name_of(pods.run);
    let chunk = |index: usize| {
        json!({ "secret": {
            "name": chunk_name(&name, index),
            "items": [{ "key": "chunk", "path": format!("project/{index:03}") }],
        } })
    };
    let inputs = json!({ "secret": { "name": inputs_name(&name) } });
    let chunks = (0..pods.packed.chunks.len()).map(chunk);
    let sources: Vec<Value> = chunks.chain([inputs]).chain(own.sources).collect();
    let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path });
    let mut mounts = vec![mount("work", WORK), mount("tmp", "/tmp")];
    mounts.push(json!({ "name": "input", "mountPath": INPUT, "readOnly": true }));
    mounts.extend(own.mounts);
    let mut env =
        vec![json!({ "name": "HOME", "value": format!("{WORK}/home") }), json!({ "name": "TMPDIR", "value": WORK })];
    env.extend(own.env);
    let mut volumes = vec![
        json!({ "name": "input", "projected": { "sources": sources, "defaultMode": 0o440 } }),
        json!({ "name": "work", "emptyDir": {} }),
        json!({ "name": "tmp", "emptyDir": {} }),
    ];
    volumes.extend(own.volumes);
    let container = json!({
        "name": "windlass",
        "image": pods.request.image,
        "args": own.args,
        "env": env,
        "workingDir": WORK,
        "volumeMounts": mounts,
        "resources": { "requests": { "cpu": "250m", "memory": "192Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    let lost =
        |key: &str| json!({ "key": key, "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": LOST_NODE });
    let mut pod = json!({
        "containers": [container],
        "restartPolicy": "Never",
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
        "volumes": volumes,
    });
    if pods.has_workers() {
        pod["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": { RUN: pods.run } },
        }]);
    }
    if let Value::Object(fields) = own.pod {
        fields.into_iter().for_each(|(key, value)| pod[&key] = value);
    }
    json!({ "metadata": { "labels": pods.labels(Some(own.part)) }, "spec": pod })
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

/// Whether an object asks to cancel the run, and its writer knew the run's key.
pub(super) fn is_cancel(object: &Value, run: &str, seal: &Seal) -> bool {
    seal.is_on(object, &[b"cancel", run.as_bytes()])
}

pub(super) fn cancel_name(run: &str) -> String {
    format!("{}-cancel", name_of(run))
}
