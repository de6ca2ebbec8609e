//! The second scheduler, with plugins.

use serde_json::{Value, json};

use super::{SUM, applied, has, object, refused, with};

const CONTROLLER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: scheduler-plugins}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: scheduler-plugins-controller, namespace: scheduler-plugins}
spec: {template: {spec: {containers: [{name: scheduler-plugins-controller, image: theirs}]}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: 'system:kube-scheduler:plugins'}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: 'system:kube-scheduler:plugins'}
";

fn plugins(more: Value) -> Value {
    let own = json!({
        "scheduler_plugins_version": "9.9.9", "scheduler_plugins_manifest_url": "file://{here}",
        "scheduler_plugins_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
    });
    with(own, more)
}

fn settings(objects: &[Value]) -> Value {
    let text = object(objects, "ConfigMap", "scheduler-config")["data"]["scheduler-config.yaml"].as_str().unwrap();
    serde_json::from_str(text).unwrap()
}

#[test]
fn scheduler_with_plugins_has_every_field() {
    let config = json!([{"name": "One", "args": {"text": "a: \"b\"", "number": 5}}]);
    let objects = applied(
        "scheduler_plugins",
        CONTROLLER,
        &plugins(json!({
            "scheduler_plugins_namespace": "second", "scheduler_plugins_controller_replicas": 2,
            "scheduler_plugins_scheduler_replicas": 3, "scheduler_plugins_scheduler_leader_elect": true,
            "scheduler_plugins_scheduler_image_repo": "r.example.com/s", "scheduler_plugins_scheduler_image_tag": "v1",
            "scheduler_plugins_controller_image_repo": "r.example.com/c", "scheduler_plugins_controller_image_tag": "v2",
            "scheduler_plugins_enabled_plugins": ["One"], "scheduler_plugins_disabled_plugins": ["Two"],
            "scheduler_plugins_plugin_config": config,
        })),
    );
    let settings = settings(&objects);
    let profile = "/profiles/0";
    has(&settings, &format!("{profile}/plugins/multiPoint/enabled"), &json!([{"name": "One"}]));
    has(&settings, &format!("{profile}/plugins/multiPoint/disabled"), &json!([{"name": "Two"}]));
    has(&settings, &format!("{profile}/pluginConfig"), &config);
    let scheduler = object(&objects, "Deployment", "scheduler-plugins-scheduler");
    has(scheduler, "/metadata/namespace", &json!("second"));
    has(scheduler, "/spec/replicas", &json!(3));
    has(scheduler, "/spec/template/spec/containers/0/image", &json!("r.example.com/s:v1"));
    let controller = object(&objects, "Deployment", "scheduler-plugins-controller");
    has(controller, "/metadata/namespace", &json!("second"));
    has(controller, "/spec/replicas", &json!(2));
    has(controller, "/spec/template/spec/containers/0/image", &json!("r.example.com/c:v2"));
    has(controller, "/spec/template/spec/containers/0/args", &json!(["--enableLeaderElection=true"]));
    assert!(
        !objects.iter().any(|object| object["metadata"]["name"] == "system:kube-scheduler:plugins"),
        "{objects:#?}"
    );
}

/// With the lease of the first scheduler, the second would wait for it forever.
#[test]
fn second_scheduler_has_a_lease_of_its_own() {
    let objects =
        applied("scheduler_plugins", CONTROLLER, &plugins(json!({"scheduler_plugins_scheduler_leader_elect": true})));
    let lease = json!({"leaderElect": true, "resourceName": "scheduler-plugins-scheduler", "resourceNamespace": "scheduler-plugins"});
    has(&settings(&objects), "/leaderElection", &lease);
    let role = object(&objects, "Role", "scheduler-plugins-scheduler-leases");
    has(role, "/metadata/namespace", &json!("scheduler-plugins"));
}

#[test]
fn settings_of_scheduler_plugins_that_fail_refused() {
    for (more, sentence) in [
        (json!({"scheduler_plugins_scheduler_replicas": 2}), "the schedulers would place the same pods"),
        (json!({"scheduler_plugins_scheduler_replicas": 0}), "is 0, but must be at least 1"),
        (json!({"scheduler_plugins_namespace": "a.b"}), "is not the name of a namespace"),
        (json!({"scheduler_plugins_enabled_plugins": []}), "scheduler_plugins_enabled_plugins is empty"),
        (json!({"scheduler_plugins_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        refused("scheduler_plugins", CONTROLLER, &plugins(more), sentence);
    }
}
