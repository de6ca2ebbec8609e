//! vSphere and AWS: the controller of vSphere, and the drivers of volumes.

use serde_json::{Value, json};

use super::{SUM, applied, has, install, object, secret, with};

const CONTROLLER: &str = "
apiVersion: v1
kind: Secret
metadata: {name: vsphere-cloud-secret, namespace: kube-system}
stringData: {10.0.0.1.username: example}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: vsphere-cloud-config, namespace: kube-system}
data: {vsphere.conf: example}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: vsphere-cloud-controller-manager, namespace: kube-system}
spec:
  template:
    spec:
      containers:
        - {name: vsphere-cloud-controller-manager, image: theirs, args: [--v=2, --cloud-config=/etc/cloud/vsphere.conf]}
      volumes: [{name: vsphere-config-volume, configMap: {name: vsphere-cloud-config}}]
";

fn vcenter() -> Value {
    json!({
        "external_vsphere_vcenter_ip": "vc.example.com", "external_vsphere_vcenter_port": "8443",
        "external_vsphere_insecure": "false", "external_vsphere_user": "EXAMPLE\\kube",
        "external_vsphere_password": "p\"a\\s;s", "external_vsphere_datacenter": "one, two",
    })
}

fn controller(more: Value) -> Value {
    let own = json!({
        "cloud_provider": "external", "external_cloud_provider": "vsphere", "cloud_vsphere_version": "9.9.9",
        "cloud_vsphere_manifest_url": "file://{here}",
        "cloud_vsphere_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
    });
    with(with(own, vcenter()), more)
}

#[test]
fn controller_of_vsphere_has_every_field() {
    let objects = applied(
        "cloud_vsphere",
        CONTROLLER,
        &controller(json!({
            "external_vsphere_cloud_controller_image_repo": "r.example.com/cpi",
            "external_vsphere_cloud_controller_image_tag": "v9", "ipv6_stack": true,
            "external_vsphere_cloud_controller_extra_args": {"v": "4", "concurrent-node-syncs": "3"},
        })),
    );
    let config = object(&objects, "ConfigMap", "cloud-config")["data"]["vsphere.conf"].as_str().unwrap();
    let config: Value = serde_json::from_str(config).unwrap();
    let wanted = json!({
        "global": {"port": 8443, "insecureFlag": false, "secretName": "cpi-global-secret",
            "secretNamespace": "kube-system"},
        "vcenter": {"vc.example.com": {
            "server": "vc.example.com", "datacenters": ["one", "two"], "ipFamily": ["ipv4", "ipv6"],
        }},
    });
    assert_eq!(config, wanted);
    assert_eq!(secret(&objects, "cpi-global-secret", "vc.example.com.username"), "EXAMPLE\\kube");
    assert_eq!(secret(&objects, "cpi-global-secret", "vc.example.com.password"), "p\"a\\s;s");
    let example = |object: &Value| object["metadata"]["name"].as_str().unwrap().starts_with("vsphere-cloud-conf");
    assert!(!objects.iter().any(example), "{objects:#?}");
    let set = object(&objects, "DaemonSet", "vsphere-cloud-controller-manager");
    let container = "/spec/template/spec/containers/0";
    has(set, &format!("{container}/image"), &json!("r.example.com/cpi:v9"));
    let args = json!(["--cloud-config=/etc/cloud/vsphere.conf", "--v=4", "--concurrent-node-syncs=3"]);
    has(set, &format!("{container}/args"), &args);
    has(set, &format!("{container}/env/0/name"), &json!("ENABLE_ALPHA_DUAL_STACK"));
    has(set, "/spec/template/spec/volumes/0/configMap/name", &json!("cloud-config"));
    assert!(set["spec"]["template"]["metadata"]["annotations"]["checksum/config"].is_string(), "{set:#}");
}

#[track_caller]
fn refused(addon: &str, manifest: &str, variables: &Value, sentence: &str) {
    let (code, text, _) = install(addon, manifest, variables);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
    assert!(!text.contains("s;s"), "the password is shown:\n{text}");
}

#[test]
fn access_to_vcenter_incomplete_or_malformed_refused() {
    for (more, sentence) in [
        (
            json!({"external_vsphere_user": "", "external_vsphere_datacenter": ""}),
            "external_cloud_provider is vsphere, but external_vsphere_user, external_vsphere_datacenter are empty.",
        ),
        (json!({"external_vsphere_vcenter_ip": "https://vc"}), "must be a host name or an IPv4 address"),
        (json!({"external_vsphere_vcenter_ip": "vc.example.com\n"}), "must be a host name or an IPv4 address"),
        (
            json!({"external_vsphere_cloud_controller_extra_args": {"cloud-config": "x"}}),
            "has cloud-config, which the role sets itself",
        ),
        (json!({"cloud_vsphere_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        refused("cloud_vsphere", CONTROLLER, &controller(more), sentence);
    }
}

/// The manifest of the driver of vSphere: its workloads.
fn vsphere_driver() -> String {
    let mut manifest = String::new();
    for (kind, name, containers) in [
        (
            "Deployment",
            "vsphere-csi-controller",
            "csi-attacher csi-resizer vsphere-csi-controller liveness-probe vsphere-syncer csi-provisioner \
             csi-snapshotter",
        ),
        ("DaemonSet", "vsphere-csi-node", "node-driver-registrar vsphere-csi-node liveness-probe"),
        ("DaemonSet", "vsphere-csi-node-windows", "vsphere-csi-node"),
    ] {
        manifest += &format!(
            "---\napiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: vmware-system-csi}}\n\
             spec:\n  template:\n    spec:\n      containers:\n"
        );
        for container in containers.split(' ') {
            manifest += &format!("        - {{name: {container}, image: theirs}}\n");
        }
    }
    manifest
}

fn vsphere_volumes(more: Value) -> Value {
    let own = json!({
        "csi_vsphere_version": "9.9.9", "csi_vsphere_manifest_url": "file://{here}", "vsphere_csi_enabled": true,
        "csi_vsphere_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
        "external_vsphere_kubernetes_cluster_id": "c1", "external_vsphere_version": "8.0u2",
    });
    with(with(own, vcenter()), more)
}

/// Names, images and limits of memory of the containers of a workload.
fn containers(workload: &Value) -> Vec<(&str, &str, &str)> {
    let list = workload["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let row = |one| {
        let text = |pointer| Value::pointer(one, pointer).and_then(Value::as_str).unwrap_or_default();
        (text("/name"), text("/image"), text("/resources/limits/memory"))
    };
    list.iter().map(row).collect()
}

#[test]
fn driver_of_vsphere_has_every_field() {
    let memory = |size: &str| json!({"limits": {"memory": size}});
    let affinity = json!({"nodeAffinity": {}});
    let objects = applied(
        "csi_vsphere",
        &vsphere_driver(),
        &vsphere_volumes(json!({
            "vsphere_csi_namespace": "volumes", "vsphere_csi_controller_replicas": 1, "kube_image_repo": "r",
            "vsphere_csi_block_volume_snapshot": true, "csi_snapshot_controller_enabled": true,
            "vsphere_csi_aggressive_node_drain": true, "vsphere_csi_aggressive_node_unreachable_timeout": 30,
            "vsphere_csi_aggressive_node_not_ready_timeout": 40, "vsphere_csi_node_affinity": affinity,
            "vsphere_csi_attacher_image_tag": "t1", "vsphere_csi_resizer_tag": "t2", "vsphere_csi_controller": "t3",
            "vsphere_csi_liveness_probe_image_tag": "t4", "vsphere_syncer_image_tag": "t5",
            "vsphere_csi_provisioner_image_tag": "t6", "vsphere_csi_snapshotter_image_tag": "t7",
            "vsphere_csi_node_driver_registrar_image_tag": "t8", "vsphere_csi_driver_image_tag": "t9",
            "vsphere_csi_attacher_resources": memory("1"), "vsphere_csi_resizer_resources": memory("2"),
            "vsphere_csi_resources": memory("3"), "vsphere_csi_liveness_probe_controller_resources": memory("4"),
            "vsphere_syncer_resources": memory("5"), "vsphere_csi_provisioner_resources": memory("6"),
            "vsphere_csi_snapshotter_resources": memory("7"),
            "vsphere_csi_node_driver_registrar_resources": memory("8"),
            "vsphere_csi_driver_resources": memory("9"), "vsphere_csi_liveness_probe_ds_resources": memory("10"),
            "persistent_volumes_enabled": true,
            "storage_classes": [{"name": "gold", "parameters": {"storagepolicyname": "Gold"}}],
        })),
    );
    let wanted = "[Global]
cluster-id = \"c1\"
[VirtualCenter \"vc.example.com\"]
insecure-flag = \"false\"
user = \"EXAMPLE\\\\kube\"
password = \"p\\\"a\\\\s;s\"
port = \"8443\"
datacenters = \"one,two\"
";
    assert_eq!(secret(&objects, "vsphere-config-secret", "csi-vsphere.conf"), wanted);
    let deployment = object(&objects, "Deployment", "vsphere-csi-controller");
    let wanted = [
        ("csi-attacher", "r/sig-storage/csi-attacher:t1", "1"),
        ("csi-resizer", "r/sig-storage/csi-resizer:t2", "2"),
        ("vsphere-csi-controller", "r/csi-vsphere/driver:t3", "3"),
        ("liveness-probe", "r/sig-storage/livenessprobe:t4", "4"),
        ("vsphere-syncer", "r/csi-vsphere/syncer:t5", "5"),
        ("csi-provisioner", "r/sig-storage/csi-provisioner:t6", "6"),
        ("csi-snapshotter", "r/sig-storage/csi-snapshotter:t7", "7"),
    ];
    assert_eq!(containers(deployment), wanted);
    has(deployment, "/metadata/namespace", &json!("volumes"));
    has(deployment, "/spec/replicas", &json!(1));
    has(deployment, "/spec/template/spec/tolerations/2/tolerationSeconds", &json!(40));
    has(deployment, "/spec/template/spec/tolerations/3/tolerationSeconds", &json!(30));
    assert!(deployment.pointer("/spec/template/spec/containers/6/drop").is_none(), "{deployment:#}");
    let set = object(&objects, "DaemonSet", "vsphere-csi-node");
    let wanted = [
        ("node-driver-registrar", "r/sig-storage/csi-node-driver-registrar:t8", "8"),
        ("vsphere-csi-node", "r/csi-vsphere/driver:t9", "9"),
        ("liveness-probe", "r/sig-storage/livenessprobe:t4", "10"),
    ];
    assert_eq!(containers(set), wanted);
    has(set, "/spec/template/spec/affinity", &affinity);
    has(object(&objects, "StorageClass", "gold"), "/parameters/storagepolicyname", &json!("Gold"));
    assert!(!objects.iter().any(|object| object["metadata"]["name"] == "vsphere-csi-node-windows"), "{objects:#?}");
    let objects = applied("csi_vsphere", &vsphere_driver(), &vsphere_volumes(json!({})));
    let names = containers(object(&objects, "Deployment", "vsphere-csi-controller"));
    assert!(!names.iter().any(|one| one.0 == "csi-snapshotter"), "{names:?}");
}

#[test]
fn settings_of_vsphere_volumes_without_effect_refused() {
    for (more, sentence) in [
        (
            json!({"external_vsphere_password": ""}),
            "vsphere_csi_enabled is true, but external_vsphere_password is empty.",
        ),
        (json!({"external_vsphere_user": "root"}), "accepts only user@domain and domain\\user"),
        (json!({"external_vsphere_password": "a\n[Global]"}), "has a line break or another control character"),
        (json!({"external_vsphere_kubernetes_cluster_id": ""}), "but must have 1 to 64"),
        (json!({"vsphere_csi_namespace": "Storage"}), "is not the name of a namespace"),
        (json!({"external_vsphere_version": "6.7u3"}), "works with vSphere 7.0 or newer"),
        (json!({"vsphere_csi_controller_replicas": 3}), "at most 1, the number of control planes"),
        (json!({"vsphere_csi_block_volume_snapshot": true}), "Set csi_snapshot_controller_enabled to true"),
        (
            json!({"vsphere_csi_aggressive_node_not_ready_timeout": 10}),
            "have no effect without vsphere_csi_aggressive_node_drain: true",
        ),
        (json!({"persistent_volumes_enabled": true}), "has no StorageClass of its own. Add one to storage_classes"),
        (json!({"csi_vsphere_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        refused("csi_vsphere", &vsphere_driver(), &vsphere_volumes(more), sentence);
    }
}

/// The manifests of the driver of AWS EBS, in one file.
fn ebs_driver() -> String {
    let mut manifest = "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: ebs.csi.aws.com}\n\
                        spec: {nodeAllocatableUpdatePeriodSeconds: 10}\n"
        .to_owned();
    for (kind, names) in [
        ("ClusterRole", "ebs-external-resizer-role ebs-external-snapshotter-role"),
        (
            "ClusterRoleBinding",
            "ebs-csi-attacher-binding ebs-csi-provisioner-binding ebs-csi-resizer-binding ebs-csi-snapshotter-binding \
             ebs-csi-node-getter-binding",
        ),
        ("RoleBinding", "ebs-csi-leases-rolebinding"),
    ] {
        for name in names.split(' ') {
            manifest += &format!(
                "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}}}\n\
                 subjects: [{{kind: ServiceAccount, name: theirs}}]\n"
            );
        }
    }
    for (kind, name, containers) in [
        (
            "Deployment",
            "ebs-csi-controller",
            "ebs-plugin csi-provisioner csi-attacher csi-snapshotter csi-resizer liveness-probe",
        ),
        ("DaemonSet", "ebs-csi-node", "ebs-plugin node-driver-registrar liveness-probe"),
    ] {
        manifest += &format!(
            "---\napiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {name}}}\n\
             spec:\n  template:\n    spec:\n      containers:\n"
        );
        for container in containers.split(' ') {
            manifest +=
                &format!("        - {{name: {container}, image: theirs, args: [--feature-gates=Other=true]}}\n");
        }
    }
    manifest
}

fn ebs_volumes(more: Value) -> Value {
    let own = json!({
        "aws_ebs_csi_plugin_version": "9.9.9", "aws_ebs_csi_plugin_manifest_url": "file://{here}",
        "aws_ebs_csi_enabled": true,
        "aws_ebs_csi_plugin_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
    });
    with(own, more)
}

#[test]
fn driver_of_aws_ebs_has_every_field() {
    let objects = applied(
        "csi_aws_ebs",
        &ebs_driver(),
        &ebs_volumes(json!({
            "aws_ebs_csi_controller_replicas": 2, "aws_ebs_csi_enable_volume_snapshot": true,
            "csi_snapshot_controller_enabled": true, "aws_ebs_csi_enable_volume_resizing": true,
            "aws_ebs_csi_extra_volume_tags": "Owner=me,Team=a b", "kube_image_repo": "r",
            "aws_ebs_csi_annotations": [{"key": "iam.amazonaws.com/role", "value": "storage"}],
            "aws_ebs_csi_plugin_image_repo": "r/ebs", "aws_ebs_csi_plugin_image_tag": "t0",
            "csi_provisioner_image_tag": "t1", "csi_attacher_image_tag": "t2", "csi_snapshotter_image_tag": "t3",
            "csi_resizer_image_tag": "t4", "csi_livenessprobe_image_tag": "t5",
            "csi_node_driver_registrar_image_tag": "t6",
            "persistent_volumes_enabled": true, "expand_persistent_volumes": true, "restrict_az_provisioning": true,
            "aws_ebs_availability_zones": ["eu-west-3a"],
        })),
    );
    let deployment = object(&objects, "Deployment", "ebs-csi-controller");
    let wanted = [
        ("ebs-plugin", "r/ebs:t0", ""),
        ("csi-provisioner", "r/sig-storage/csi-provisioner:t1", ""),
        ("csi-attacher", "r/sig-storage/csi-attacher:t2", ""),
        ("csi-snapshotter", "r/sig-storage/csi-snapshotter:t3", ""),
        ("csi-resizer", "r/sig-storage/csi-resizer:t4", ""),
        ("liveness-probe", "r/sig-storage/livenessprobe:t5", ""),
    ];
    assert_eq!(containers(deployment), wanted);
    has(deployment, "/spec/replicas", &json!(2));
    has(deployment, "/spec/template/metadata/annotations/iam.amazonaws.com~1role", &json!("storage"));
    has(deployment, "/spec/template/spec/containers/0/args/1", &json!("--extra-volume-tags=Owner=me,Team=a b"));
    has(deployment, "/spec/template/spec/containers/1/args", &json!(["--feature-gates=Topology=true"]));
    let set = object(&objects, "DaemonSet", "ebs-csi-node");
    let wanted = [
        ("ebs-plugin", "r/ebs:t0", ""),
        ("node-driver-registrar", "r/sig-storage/csi-node-driver-registrar:t6", ""),
        ("liveness-probe", "r/sig-storage/livenessprobe:t5", ""),
    ];
    assert_eq!(containers(set), wanted);
    let subjects = json!([{"kind": "ServiceAccount", "name": "ebs-csi-controller-sa", "namespace": "kube-system"}]);
    has(object(&objects, "ClusterRoleBinding", "ebs-csi-snapshotter-binding"), "/subjects", &subjects);
    let class = object(&objects, "StorageClass", "ebs-sc");
    has(class, "/allowVolumeExpansion", &json!(true));
    has(class, "/parameters", &json!({"csi.storage.k8s.io/fstype": "xfs", "type": "gp2"}));
    let zones = json!([{"key": "topology.ebs.csi.aws.com/zone", "values": ["eu-west-3a"]}]);
    has(class, "/allowedTopologies/0/matchLabelExpressions", &zones);
}

#[test]
fn driver_of_aws_ebs_without_snapshots_and_resizing_has_no_programs_for_them() {
    let variables = json!({"aws_ebs_csi_enable_volume_scheduling": false, "kube_version": "1.24.17"});
    let objects = applied("csi_aws_ebs", &ebs_driver(), &ebs_volumes(variables));
    let deployment = object(&objects, "Deployment", "ebs-csi-controller");
    let names: Vec<&str> = containers(deployment).iter().map(|one| one.0).collect();
    assert_eq!(names, ["ebs-plugin", "csi-provisioner", "csi-attacher", "liveness-probe"]);
    has(deployment, "/spec/template/spec/containers/1/args", &json!(["--feature-gates=Topology=false"]));
    let further = ["resizer", "snapshotter"];
    let of_those =
        |object: &Value| further.iter().any(|one| object["metadata"]["name"].as_str().unwrap().contains(one));
    assert!(!objects.iter().any(of_those), "{objects:#?}");
    has(object(&objects, "CSIDriver", "ebs.csi.aws.com"), "/spec", &json!({}));
}

#[test]
fn settings_of_aws_volumes_without_effect_refused() {
    for (more, sentence) in [
        (json!({"aws_ebs_csi_controller_replicas": 0}), "aws_ebs_csi_controller_replicas is 0"),
        (json!({"aws_ebs_csi_enable_volume_snapshot": true}), "Set csi_snapshot_controller_enabled to true"),
        (
            json!({"persistent_volumes_enabled": true, "expand_persistent_volumes": true}),
            "without aws_ebs_csi_enable_volume_resizing: true nothing makes volumes of AWS EBS larger",
        ),
        (
            json!({"persistent_volumes_enabled": true, "restrict_az_provisioning": true}),
            "with zones in aws_ebs_availability_zones",
        ),
        (json!({"aws_ebs_csi_extra_volume_tags": "Owner"}), "must be pairs with commas between them"),
        (json!({"aws_ebs_csi_plugin_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        refused("csi_aws_ebs", &ebs_driver(), &ebs_volumes(more), sentence);
    }
}
