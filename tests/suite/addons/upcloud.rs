//! The driver of UpCloud's volumes.

use serde_json::{Value, json};

use super::{SUM, applied, has, install, object};

/// The programs and the objects of the project, of which some are not installed.
const DRIVER: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: csi-upcloud-node-driver-registrar-role, namespace: kube-system}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: upcloud-block-storage-maxiops}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: upcloud-block-storage-hdd}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: upcloud-block-storage-standard}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: upcloud-csi-snapshotclass}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: csi-upcloud-snapshot-controller, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: csi-upcloud-snapshot-controller-role}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: snapshot-controller-role-binding}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: csi-upcloud-snapshot-controller-leaderelection-role, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: snapshot-controller-leaderelection-binding, namespace: kube-system}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: csi-upcloud-controller, namespace: kube-system}
spec:
  template:
    spec:
      containers:
        - {name: csi-provisioner, image: theirs, imagePullPolicy: Always}
        - {name: csi-attacher, image: theirs}
        - {name: csi-resizer, image: theirs}
        - {name: csi-snapshotter, image: theirs, args: [--leader-election=false]}
        - {name: csi-upcloud-plugin, image: theirs}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-upcloud-node, namespace: kube-system}
spec:
  template:
    spec:
      containers:
        - {name: csi-node-driver-registrar, image: theirs}
        - {name: csi-upcloud-plugin, image: theirs}
";

fn driver(more: Value) -> Value {
    let mut variables = json!({
        "upcloud_csi_enabled": true, "upcloud_csi_plugin_version": "9.9.9", "upcloud_csi_manifest_url": "file://{here}",
        "upcloud_csi_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}}, "upcloud_username": "u",
        "upcloud_password": "p", "persistent_volumes_enabled": true,
    });
    variables.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    variables
}

fn names(objects: &[Value]) -> Vec<String> {
    let name = |object: &Value| {
        format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
    };
    objects.iter().map(name).collect()
}

#[test]
fn driver_of_upcloud_has_every_field() {
    let objects = applied(
        "csi_upcloud",
        DRIVER,
        &driver(json!({
            "upcloud_csi_controller_replicas": 2, "upcloud_tolerations": [{"operator": "Exists"}],
            "upcloud_csi_enable_volume_snapshot": true, "csi_snapshot_controller_enabled": true,
            "upcloud_csi_plugin_image_tag": "v1", "upcloud_csi_provisioner_image_tag": "v2",
            "upcloud_csi_attacher_image_tag": "v3", "upcloud_csi_resizer_image_tag": "v4",
            "upcloud_csi_snapshotter_image_tag": "v5", "upcloud_csi_node_image_tag": "v6",
            "kube_image_repo": "r.example.com", "github_image_repo": "g.example.com",
        })),
    );
    assert_eq!(
        names(&objects),
        [
            "ClusterRole/csi-upcloud-node-driver-registrar-role",
            "VolumeSnapshotClass/upcloud-csi-snapshotclass",
            "StatefulSet/csi-upcloud-controller",
            "DaemonSet/csi-upcloud-node",
            "Secret/upcloud",
            "StorageClass/standard",
            "StorageClass/hdd",
        ]
    );
    has(&objects[0], "/metadata", &json!({"name": "csi-upcloud-node-driver-registrar-role"}));
    has(object(&objects, "Secret", "upcloud"), "/data", &json!({"username": "dQ==", "password": "cA=="}));
    let controller = object(&objects, "StatefulSet", "csi-upcloud-controller");
    has(controller, "/spec/replicas", &json!(2));
    for (number, image) in [
        (0, "r.example.com/sig-storage/csi-provisioner:v2"),
        (1, "r.example.com/sig-storage/csi-attacher:v3"),
        (2, "r.example.com/sig-storage/csi-resizer:v4"),
        (3, "r.example.com/sig-storage/csi-snapshotter:v5"),
    ] {
        let container = format!("/spec/template/spec/containers/{number}");
        has(controller, &format!("{container}/image"), &json!(image));
        has(controller, &format!("{container}/args"), &json!(["--leader-election=true"]));
        has(controller, &format!("{container}/imagePullPolicy"), &json!("IfNotPresent"));
    }
    let image = json!("g.example.com/upcloudltd/upcloud-csi:v1");
    has(controller, "/spec/template/spec/containers/4/image", &image);
    let set = object(&objects, "DaemonSet", "csi-upcloud-node");
    let registrar = json!("r.example.com/sig-storage/csi-node-driver-registrar:v6");
    has(set, "/spec/template/spec/containers/0/image", &registrar);
    has(set, "/spec/template/spec/containers/1/image", &image);
    has(set, "/spec/template/spec/tolerations", &json!([{"operator": "Exists"}]));
    let class = object(&objects, "StorageClass", "standard");
    has(class, "/provisioner", &json!("storage.csi.upcloud.com"));
    has(class, "/parameters", &json!({"tier": "maxiops"}));
    has(class, "/metadata/annotations/storageclass.kubernetes.io~1is-default-class", &json!("true"));
    has(class, "/volumeBindingMode", &json!("Immediate"));
    has(class, "/allowVolumeExpansion", &json!(true));
}

#[test]
fn driver_of_upcloud_without_snapshots_has_no_snapshotter() {
    let objects = applied("csi_upcloud", DRIVER, &driver(json!({})));
    let controller = object(&objects, "StatefulSet", "csi-upcloud-controller");
    has(controller, "/spec/template/spec/containers/3/name", &json!("csi-upcloud-plugin"));
    has(controller, "/spec/template/spec/containers/0/args", &json!(["--leader-election=false"]));
    assert!(!names(&objects).contains(&"VolumeSnapshotClass/upcloud-csi-snapshotclass".to_owned()), "{objects:#?}");
}

/// Whoever may read pods sees the annotation, and could compare guessed passwords with it.
#[test]
fn checksum_of_a_secret_contains_a_key_of_the_cluster() {
    let checksum = |more: Value| {
        let objects = applied("csi_upcloud", DRIVER, &driver(more));
        let controller = object(&objects, "StatefulSet", "csi-upcloud-controller");
        controller["spec"]["template"]["metadata"]["annotations"]["checksum/config"].as_str().unwrap().to_owned()
    };
    let with_key = checksum(json!({"kube_cert_dir": "{here}"}));
    assert_eq!(checksum(json!({"kube_cert_dir": "{here}"})), with_key);
    assert_ne!(checksum(json!({})), with_key);
    assert_ne!(checksum(json!({"kube_cert_dir": "{here}", "upcloud_password": 123_456})), with_key);
}

#[test]
fn driver_of_upcloud_without_account_or_controller_of_snapshots_refused() {
    for (more, sentence) in [
        (json!({"upcloud_password": ""}), "needs upcloud_username and upcloud_password"),
        (json!({"upcloud_csi_controller_replicas": 0}), "upcloud_csi_controller_replicas is 0, but must be at least 1"),
        (json!({"upcloud_csi_enable_volume_snapshot": true}), "Set csi_snapshot_controller_enabled to true"),
        (json!({"upcloud_csi_plugin_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        let (code, text, _) = install("csi_upcloud", DRIVER, &driver(more));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
    }
}
