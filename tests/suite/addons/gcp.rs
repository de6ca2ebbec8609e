//! Google Cloud: the driver of its persistent disks.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::{SUM, applied, has, object, refused, with};

const PROGRAMS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: csi-gce-pd-controller}
spec:
  template:
    spec:
      containers:
        - {name: csi-provisioner, image: theirs, args: [--feature-gates=Topology=true, --v=5, --feature-gates=VolumeAttributesClass=true]}
        - {name: csi-attacher, image: theirs, args: [--v=5]}
        - {name: csi-resizer, image: theirs, args: [--v=5, --feature-gates=VolumeAttributesClass=true]}
        - {name: csi-snapshotter, image: theirs}
        - {name: gce-pd-driver, image: theirs}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-gce-pd-node}
spec: {template: {spec: {containers: [{name: csi-driver-registrar, image: theirs}, {name: gce-pd-driver, image: theirs}]}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: csi-gce-pd-controller-leaderelection-binding, namespace: gce-pd-csi-driver}
subjects: [{kind: ServiceAccount, name: csi-gce-pd-controller-sa}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: csi-gce-pd-node-sa-win}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: csi-gce-pd-node-deploy-win}
";

/// The base of the driver, in which bindings have no namespaces.
fn driver() -> String {
    let mut manifest = PROGRAMS.to_owned();
    for (name, account) in [
        ("controller", "controller"),
        ("controller-deploy", "controller"),
        ("controller-provisioner-binding", "controller"),
        ("controller-attacher-binding", "controller"),
        ("resizer-binding", "controller"),
        ("controller-snapshotter-binding", "controller"),
        ("node", "node"),
        ("node-win", "node"),
    ] {
        manifest += &format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: csi-gce-pd-{name}}}\n\
             subjects: [{{kind: ServiceAccount, name: csi-gce-pd-{account}-sa}}]\n"
        );
    }
    manifest
}

fn disks(more: Value) -> Value {
    let own = json!({
        "gcp_pd_csi_plugin_version": "9.9.9", "gcp_pd_csi_manifest_url": "file://{here}",
        "gcp_pd_csi_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
        "gcp_pd_csi_sa_cred_file": "{here}/manifest.yaml", "persistent_volumes_enabled": true,
    });
    with(own, more)
}

#[test]
fn driver_of_google_cloud_has_every_field() {
    let objects = applied(
        "csi_gcp_pd",
        &driver(),
        &disks(json!({
            "gcp_pd_csi_plugin_image_repo": "r.example.com/pd", "gcp_pd_csi_plugin_image_tag": "v9",
            "csi_provisioner_image_repo": "r.example.com/p", "csi_provisioner_image_tag": "v1",
            "csi_attacher_image_repo": "r.example.com/a", "csi_attacher_image_tag": "v2",
            "csi_resizer_image_repo": "r.example.com/r", "csi_resizer_image_tag": "v3",
            "csi_snapshotter_image_repo": "r.example.com/s", "csi_snapshotter_image_tag": "v4",
            "csi_node_driver_registrar_image_repo": "r.example.com/n", "csi_node_driver_registrar_image_tag": "v5",
            "csi_snapshot_controller_enabled": true, "gcp_pd_csi_controller_replicas": 1, "gcp_pd_csi_volume_type": "pd-ssd",
            "gcp_pd_regional_replication_enabled": true, "gcp_pd_restrict_zone_replication": true,
            "gcp_pd_restricted_zones": ["z1", "z2"],
        })),
    );
    let key = BASE64_STANDARD.encode(driver());
    has(object(&objects, "Secret", "cloud-sa"), "/data/cloud-sa.json", &json!(key));
    let deployment = object(&objects, "Deployment", "csi-gce-pd-controller");
    has(deployment, "/metadata/namespace", &json!("kube-system"));
    has(deployment, "/spec/replicas", &json!(1));
    for (number, image) in ["p:v1", "a:v2", "r:v3", "s:v4", "pd:v9"].iter().enumerate() {
        let pointer = format!("/spec/template/spec/containers/{number}/image");
        has(deployment, &pointer, &json!(format!("r.example.com/{image}")));
    }
    let args = json!(["--v=5", "--default-fstype=ext4", "--max-grpc-log-length=10000"]);
    has(deployment, "/spec/template/spec/containers/1/args", &args);
    has(deployment, "/spec/template/spec/containers/0/args", &json!(["--v=5", "--feature-gates=Topology=true"]));
    has(deployment, "/spec/template/spec/containers/2/args", &json!(["--v=5"]));
    has(deployment, "/spec/strategy/rollingUpdate", &json!({"maxSurge": 0, "maxUnavailable": 1}));
    let set = object(&objects, "DaemonSet", "csi-gce-pd-node");
    has(set, "/spec/template/spec/containers/0/image", &json!("r.example.com/n:v5"));
    has(set, "/spec/template/spec/containers/1/image", &json!("r.example.com/pd:v9"));
    let class = object(&objects, "StorageClass", "csi-gce-pd");
    has(class, "/provisioner", &json!("pd.csi.storage.gke.io"));
    has(class, "/parameters", &json!({"type": "pd-ssd", "replication-type": "regional-pd"}));
    has(class, "/allowedTopologies/0/matchLabelExpressions/0/values", &json!(["z1", "z2"]));
    let regional = object(&objects, "StorageClass", "csi-gce-pd-regional");
    has(regional, "/parameters/replication-type", &json!("regional-pd"));
}

/// The API server refuses bindings of accounts without a namespace.
#[test]
fn bindings_of_google_clouds_base_have_namespaces() {
    let objects = applied("csi_gcp_pd", &driver(), &disks(json!({})));
    let bindings = objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Binding"));
    assert_eq!(bindings.clone().count(), 8, "{objects:#?}");
    for binding in bindings {
        has(binding, "/subjects/0/namespace", &json!("kube-system"));
    }
    assert!(
        !objects.iter().any(|object| object["metadata"]["name"].as_str().unwrap().ends_with("-win")),
        "{objects:#?}"
    );
    let deployment = object(&objects, "Deployment", "csi-gce-pd-controller");
    has(deployment, "/spec/template/spec/containers/3/name", &json!("gce-pd-driver"));
}

#[test]
fn settings_of_google_cloud_without_effect_refused() {
    let one = json!({
        "gcp_pd_restrict_zone_replication": true, "gcp_pd_restricted_zones": ["z1"], "gcp_pd_regional_replication_enabled": true,
    });
    for (more, sentence) in [
        (json!({"gcp_pd_csi_sa_cred_file": "/none"}), "gcp_pd_csi_sa_cred_file is `/none`, but must be a file"),
        (json!({"gcp_pd_csi_controller_replicas": 0}), "at least 1, and at most 1, the number of workers"),
        (json!({"gcp_pd_csi_controller_replicas": 2}), "at least 1, and at most 1, the number of workers"),
        (json!({"gcp_pd_restricted_zones": ["z1"]}), "gcp_pd_restricted_zones has no effect"),
        (one, "makes disks in two zones, but gcp_pd_restricted_zones has 1"),
        (json!({"gcp_pd_csi_plugin_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        refused("csi_gcp_pd", &driver(), &disks(more), sentence);
    }
}
