//! Waits until objects reach a state.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    client::{ApiError, Client, Selection},
    discovery::Resource,
    objects::exists,
};
use crate::{Args, Failure, Host, Kind, Opt, args::is_true};

/// Options for waiting: whether, how long, and for which condition.
pub(super) const OPTIONS: [Opt; 4] = [
    Opt::new(
        "wait",
        Kind::Bool,
        "Wait until the object is ready (Deployment, DaemonSet, StatefulSet, Pod, or as `wait_condition` says), \
         exists, or is gone.",
    )
    .default("false"),
    Opt::new("wait_sleep", Kind::Int, "Seconds between two checks.").default("5"),
    Opt::new("wait_timeout", Kind::Int, "Seconds to wait before failing.").default("120"),
    Opt::new("wait_condition", Kind::Dict, "Condition in the object's status to wait for.").options(&[
        Opt::new("type", Kind::Str, "Type of the condition, such as `Ready`."),
        Opt::new("status", Kind::Str, "Status of the condition.")
            .choices(&["True", "False", "Unknown"])
            .default("\"True\""),
        Opt::new("reason", Kind::Str, "Reason of the condition."),
    ]),
];

/// State to wait for.
#[derive(Debug, Clone)]
pub(super) enum Until {
    /// The object exists; a list is not empty.
    Exists,
    /// The object is gone.
    Absent,
    /// Kinds with a readiness check are ready, others exist.
    Ready,
    /// A condition in the object's status.
    Condition { kind: String, status: String, reason: Option<String> },
}

impl Until {
    /// The state to wait for, from the arguments of a task that creates objects.
    pub(super) fn of(args: &Args) -> Until {
        let condition = args.value("wait_condition");
        let text = |key: &str| condition.and_then(|condition| condition[key].as_str()).map(str::to_owned);
        match text("type").filter(|kind| !kind.is_empty()) {
            None => Until::Ready,
            Some(kind) => Until::Condition {
                kind,
                status: text("status").unwrap_or_else(|| "True".into()),
                reason: text("reason").filter(|reason| !reason.is_empty()),
            },
        }
    }

    fn met(&self, resource: &Resource, object: Option<&Value>) -> bool {
        match (self, object) {
            (Until::Absent, _) => !exists(object),
            (Until::Exists, _) => exists(object),
            (_, None) => false,
            (Until::Ready, Some(object)) => is_ready(&resource.kind, object),
            (Until::Condition { kind, status, reason }, Some(object)) => {
                let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
                let Some(found) = conditions.iter().find(|condition| condition["type"] == kind.as_str()) else {
                    return false;
                };
                let same = match found["status"].as_str() {
                    Some("Unknown") => status == "Unknown",
                    found => status != "Unknown" && (found == Some("True")) == is_true(&status.as_str().into()),
                };
                same && reason.as_ref().is_none_or(|reason| found["reason"] == reason.as_str())
            }
        }
    }
}

/// Time limit and interval of a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) timeout: Duration,
    pub(super) sleep: Duration,
}

impl Patience {
    pub(super) fn of(args: &Args) -> Patience {
        Patience { timeout: args.seconds("wait_timeout", 120), sleep: args.seconds("wait_sleep", 5) }
    }

    /// A single check.
    pub(super) const NONE: Patience = Patience { timeout: Duration::ZERO, sleep: Duration::ZERO };
}

/// Outcome of a wait.
#[derive(Debug)]
pub(super) struct Waited {
    pub(super) met: bool,
    /// The object as last seen.
    pub(super) object: Option<Value>,
    pub(super) seconds: u64,
}

/// Reasons to abort a wait.
#[derive(Debug)]
pub(super) enum Interrupted {
    Api(ApiError),
    Cancelled(Failure),
}

/// Checks repeatedly. A server that is temporarily unreachable is retried as well.
pub(super) fn wait(
    client: &Client,
    resource: &Resource,
    which: &Selection,
    until: &Until,
    patience: Patience,
    host: &Host,
) -> Result<Waited, Interrupted> {
    let started = Instant::now();
    let mut seconds = 0;
    loop {
        let answer = match client.read(resource, which, host) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) if error.is_connection() => Err(error),
            Err(error) => return Err(Interrupted::Api(error)),
        };
        let met = answer.as_ref().is_ok_and(|object| until.met(resource, object.as_ref()));
        if met || started.elapsed() >= patience.timeout {
            let object = answer.map_err(Interrupted::Api)?;
            return Ok(Waited { met, object, seconds });
        }
        pause(patience.sleep, host).map_err(Interrupted::Cancelled)?;
        seconds = started.elapsed().as_secs();
    }
}

/// Sleeps, and fails if the run is cancelled meanwhile.
pub(super) fn pause(long: Duration, host: &Host) -> Result<(), Failure> {
    let end = Instant::now() + long;
    loop {
        host.check_cancelled()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(Duration::from_millis(200)));
    }
}

/// Whether an object of a kind with a readiness check is ready.
fn is_ready(kind: &str, object: &Value) -> bool {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let seen = status["observedGeneration"] == object["metadata"]["generation"];
    match kind {
        "Deployment" => {
            status.is_object()
                && count(&spec["replicas"]) == count(&status["replicas"])
                && count(&status["availableReplicas"]) == count(&status["replicas"])
                && seen
                && count(&status["unavailableReplicas"]) == 0
        }
        "DaemonSet" => {
            status["desiredNumberScheduled"].is_number()
                && status["desiredNumberScheduled"] == status["numberReady"]
                && count(&status["updatedNumberScheduled"]) == count(&status["desiredNumberScheduled"])
                && seen
                && count(&status["numberUnavailable"]) == 0
        }
        "StatefulSet" => {
            let all = count(&status["replicas"]) == count(&spec["replicas"]);
            let updated = status["updateRevision"] == status["currentRevision"]
                && count(&status["updatedReplicas"]) == count(&spec["replicas"])
                && count(&status["readyReplicas"]) == count(&spec["replicas"]);
            status.is_object() && seen && all && (spec["updateStrategy"]["type"] == "OnDelete" || updated)
        }
        "Pod" => status["containerStatuses"]
            .as_array()
            .is_some_and(|containers| containers.iter().all(|container| container["ready"] == true)),
        "ClusterOperator" => {
            let is = |kind: &str, wanted: &str| {
                let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
                conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == wanted)
            };
            is("Available", "True") && is("Degraded", "False") && is("Progressing", "False")
        }
        _ => exists(Some(object)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn readiness_of_kinds_detected() {
        let deployment = |replicas: i64, available: i64, seen: i64| json!({ "metadata": { "generation": 2 }, "spec": { "replicas": 2 }, "status": { "replicas": replicas, "availableReplicas": available, "observedGeneration": seen } });
        assert!(is_ready("Deployment", &deployment(2, 2, 2)));
        assert!(!is_ready("Deployment", &deployment(2, 1, 2)) && !is_ready("Deployment", &deployment(2, 2, 1)));
        assert!(!is_ready("Deployment", &deployment(1, 1, 2)));
        let none = json!({ "metadata": { "generation": 1 }, "spec": { "replicas": 0 }, "status": { "observedGeneration": 1 } });
        assert!(is_ready("Deployment", &none));
        let pod = |ready: bool| json!({ "status": { "containerStatuses": [{ "ready": true }, { "ready": ready }] } });
        assert!(is_ready("Pod", &pod(true)) && !is_ready("Pod", &pod(false)) && !is_ready("Pod", &json!({})));
        assert!(is_ready("ConfigMap", &json!({ "kind": "ConfigMap" })));
    }

    #[test]
    fn condition_matched_by_status_and_reason() {
        let object = json!({ "status": { "conditions": [{ "type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused" }, { "type": "Ready", "status": "False" }] } });
        let met = |kind: &str, status: &str, reason: Option<&str>| {
            let until =
                Until::Condition { kind: kind.into(), status: status.into(), reason: reason.map(str::to_owned) };
            until.met(&Resource::default(), Some(&object))
        };
        assert!(met("Progressing", "Unknown", Some("DeploymentPaused")) && met("Progressing", "Unknown", None));
        assert!(!met("Progressing", "False", None) && !met("Progressing", "Unknown", Some("Other")));
        assert!(met("Ready", "False", None) && !met("Ready", "True", None) && !met("Other", "True", None));
    }
}
