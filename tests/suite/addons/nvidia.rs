//! The device plugin of NVIDIA.

use serde_json::{Value, json};

use super::{SUM, applied, has, object, refused, with};

const PLUGIN: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin-daemonset, namespace: kube-system}
spec: {template: {spec: {containers: [{name: nvidia-device-plugin-ctr, image: theirs}]}}}
";

fn plugin(more: Value) -> Value {
    let own = json!({
        "nvidia_gpu_device_plugin_version": "9.9.9", "nvidia_gpu_device_plugin_manifest_url": "file://{here}/manifest.yaml",
        "nvidia_gpu_device_plugin_manifest_checksums": {"9.9.9": SUM},
    });
    with(own, more)
}

/// The plugin fails on nodes without accelerators.
#[test]
fn plugin_of_nvidia_runs_on_nodes_with_accelerators() {
    let objects = applied("nvidia_device_plugin", PLUGIN, &plugin(json!({"nvidia_gpu_nodes": ["cp1"]})));
    let pod = &object(&objects, "DaemonSet", "nvidia-device-plugin-daemonset")["spec"]["template"]["spec"];
    let terms = json!([{"matchExpressions": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}]);
    has(pod, "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms", &terms);
    has(pod, "/containers/0/image", &json!("nvcr.io/nvidia/k8s-device-plugin:v9.9.9"));
    assert!(pod.get("runtimeClassName").is_none() && pod["containers"][0].get("resources").is_none(), "{pod:#}");
}

#[test]
fn plugin_of_nvidia_has_every_field() {
    let objects = applied(
        "nvidia_device_plugin",
        PLUGIN,
        &plugin(json!({
            "nvidia_gpu_device_plugin_container": "r.example.com:5000/plugin:v9", "nvidia_gpu_device_plugin_memory": "64Mi",
            "nvidia_device_plugin_runtime_class": "nvidia",
        })),
    );
    let pod = &object(&objects, "DaemonSet", "nvidia-device-plugin-daemonset")["spec"]["template"]["spec"];
    has(pod, "/containers/0/image", &json!("r.example.com:5000/plugin:v9"));
    has(pod, "/containers/0/resources", &json!({"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}));
    has(pod, "/runtimeClassName", &json!("nvidia"));
}

#[test]
fn settings_of_nvidia_that_fail_refused() {
    let other = "registry.k8s.io/nvidia-gpu-device-plugin@sha256:0842";
    for (more, sentence) in [
        (json!({"nvidia_gpu_device_plugin_container": other}), "Kubespray's, is another program"),
        (json!({"nvidia_gpu_device_plugin_container": "r.example.com:5000/plugin"}), "with a tag"),
        (
            json!({"nvidia_gpu_nodes": ["cp1", "gpu9"]}),
            "nvidia_gpu_nodes has gpu9, which are not in the group k8s_cluster",
        ),
        (json!({"nvidia_gpu_device_plugin_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        refused("nvidia_device_plugin", PLUGIN, &plugin(more), sentence);
    }
}
