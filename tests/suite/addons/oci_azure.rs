//! Oracle Cloud and Huawei Cloud: their controllers. Azure: the driver of its disks.

use serde_json::{Value, json};

use super::{SUM, applied, has, object, refused, secret, with};

/// The DaemonSet of a controller of a cloud, which mounts the host's folder of Kubernetes as upstream's do.
fn controller(name: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: {name}, namespace: kube-system}}\nspec:\n  template:\n    spec:\n      \
         nodeSelector: {{a: b}}\n      containers:\n        - {{name: {name}, image: theirs, args: [--v=5],\n           \
         volumeMounts: [{{name: kubernetes, mountPath: /etc/kubernetes}}]}}\n      \
         volumes: [{{name: kubernetes, hostPath: {{path: /etc/kubernetes}}}}]\n"
    )
}

const KEY: &str = "-----BEGIN RSA PRIVATE KEY-----\nabc: d\n-----END RSA PRIVATE KEY-----\n";

fn oracle(more: Value) -> Value {
    let own = json!({
        "external_oracle_cloud_controller_version": "9.9.9",
        "external_oracle_cloud_controller_manifest_url": "file://{here}",
        "external_oracle_cloud_controller_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
        "external_oracle_auth_region": "r1", "external_oracle_auth_tenancy": "t1", "external_oracle_auth_user": "u1",
        "external_oracle_auth_key": KEY, "external_oracle_auth_fingerprint": "8c:bf", "external_oracle_compartment": "c1",
        "external_oracle_vcn": "v1", "external_oracle_load_balancer_subnet1": "s1",
    });
    with(own, more)
}

#[test]
fn controller_of_oracle_cloud_has_every_field() {
    let objects = applied(
        "cloud_oci",
        &controller("oci-cloud-controller-manager"),
        &oracle(json!({
            "external_oracle_cloud_controller_image_repo": "r.example.com/oci",
            "external_oracle_cloud_controller_image_tag": "v9",
            "external_oracle_auth_passphrase": "p: \"q\"", "external_oracle_load_balancer_subnet2": "s2",
            "external_oracle_load_balancer_security_list_management_mode": "Frontend",
            "external_oracle_load_balancer_security_lists": {"s1": "l1"}, "external_oracle_ratelimiter_qps_read": 1.5,
            "external_oracle_ratelimiter_bucket_read": 2, "external_oracle_ratelimiter_qps_write": 3.5,
            "external_oracle_ratelimiter_bucket_write": 4,
        })),
    );
    let settings: Value =
        serde_json::from_str(&secret(&objects, "oci-cloud-controller-manager", "cloud-provider.yaml")).unwrap();
    let wanted = json!({
        "useInstancePrincipals": false,
        "auth": {"region": "r1", "tenancy": "t1", "user": "u1", "key": KEY,
            "passphrase": "p: \"q\"", "key_passphrase": "p: \"q\"", "fingerprint": "8c:bf"},
        "compartment": "c1", "vcn": "v1",
        "loadBalancer": {"subnet1": "s1", "subnet2": "s2", "securityListManagementMode": "Frontend", "securityLists": {"s1": "l1"}},
        "rateLimiter": {"rateLimitQPSRead": 1.5, "rateLimitBucketRead": 2, "rateLimitQPSWrite": 3.5, "rateLimitBucketWrite": 4},
    });
    assert_eq!(settings, wanted);
    let set = object(&objects, "DaemonSet", "oci-cloud-controller-manager");
    has(set, "/spec/template/spec/containers/0/image", &json!("r.example.com/oci:v9"));
    let mounts = json!([{"name": "cfg", "mountPath": "/etc/oci", "readOnly": true}]);
    has(set, "/spec/template/spec/containers/0/volumeMounts", &mounts);
    let volumes = json!([{"name": "cfg", "secret": {"secretName": "oci-cloud-controller-manager"}}]);
    has(set, "/spec/template/spec/volumes", &volumes);
}

#[test]
fn controller_of_oracle_cloud_with_instance_principals_needs_no_user() {
    let none = json!({"external_oracle_auth_use_instance_principals": true, "external_oracle_auth_user": "", "external_oracle_auth_key": ""});
    let objects = applied("cloud_oci", &controller("oci-cloud-controller-manager"), &oracle(none));
    let settings: Value =
        serde_json::from_str(&secret(&objects, "oci-cloud-controller-manager", "cloud-provider.yaml")).unwrap();
    has(&settings, "/useInstancePrincipals", &json!(true));
    has(&settings, "/auth", &json!({}));
}

#[test]
fn settings_of_oracle_cloud_without_effect_refused() {
    let lists = json!({
        "external_oracle_load_balancer_security_list_management_mode": "None",
        "external_oracle_load_balancer_security_lists": {"s1": "l1"},
    });
    for (more, sentence) in [
        (json!({"external_oracle_auth_user": ""}), "needs external_oracle_auth_user"),
        (json!({"external_oracle_auth_key": "/root/key.pem"}), "must be the private key itself"),
        (json!({"external_oracle_vcn": ""}), "needs external_oracle_vcn"),
        (lists, "external_oracle_load_balancer_security_lists has no effect"),
        (json!({"external_oracle_cloud_controller_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        refused("cloud_oci", &controller("oci-cloud-controller-manager"), &oracle(more), sentence);
    }
}

fn huawei(more: Value) -> Value {
    let own = json!({
        "external_huawei_cloud_controller_version": "9.9.9",
        "external_huawei_cloud_controller_manifest_url": "file://{here}",
        "external_huawei_cloud_controller_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
        "external_huaweicloud_auth_url": "https://iam.example.com/v3", "external_huaweicloud_access_key": "a1",
        "external_huaweicloud_secret_key": "s\"x\\;y", "external_huaweicloud_region": "r1", "external_huaweicloud_project_id": "p1",
        "external_huaweicloud_cloud": "",
    });
    with(own, more)
}

#[test]
fn controller_of_huawei_cloud_has_every_field() {
    let objects = applied(
        "cloud_huaweicloud",
        &controller("huawei-cloud-controller-manager"),
        &huawei(json!({
            "external_huawei_cloud_controller_image_repo": "r.example.com", "external_huawei_cloud_controller_image_tag": "v9",
            "external_huawei_cloud_controller_extra_args": {"v": "4"}, "external_huaweicloud_cloud": "example.com",
            "external_huaweicloud_lbaas_network_id": "n1", "external_huaweicloud_lbaas_subnet_id": "n2",
            "external_huaweicloud_security_group_id": "g1",
        })),
    );
    let lines = [
        "[Global]",
        "auth-url = \"https://iam.example.com/v3\"",
        "access-key = \"a1\"",
        "secret-key = \"s\\\"x\\\\;y\"",
        "region = \"r1\"",
        "project-id = \"p1\"",
        "cloud = \"example.com\"",
        "[Vpc]",
        "id = \"n1\"",
        "subnet-id = \"n2\"",
        "security-group-id = \"g1\"",
    ];
    let text = secret(&objects, "external-huawei-cloud-config", "cloud-config");
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    let set = object(&objects, "DaemonSet", "huawei-cloud-controller-manager");
    let image = json!("r.example.com/k8s-cloudprovider/huawei-cloud-controller-manager:v9");
    has(set, "/spec/template/spec/containers/0/image", &image);
    has(set, "/spec/template/spec/containers/0/args", &json!(["--v=4"]));
    let nodes = json!({"a": "b", "node-role.kubernetes.io/control-plane": ""});
    has(set, "/spec/template/spec/nodeSelector", &nodes);
    for folder in ["/etc/kubernetes", "/etc/ssl"] {
        assert!(!set.to_string().contains(folder), "{folder} in {set:#}");
    }
}

#[test]
fn settings_of_huawei_cloud_that_fail_refused() {
    for (more, sentence) in [
        (
            json!({"external_huaweicloud_region": ""}),
            "needs external_huaweicloud_region. Set it, or export OS_REGION_NAME before the run",
        ),
        (json!({"external_huaweicloud_secret_key": "a\nregion=b"}), "has a line break or another control character"),
        (json!({"external_huawei_cloud_controller_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        refused("cloud_huaweicloud", &controller("huawei-cloud-controller-manager"), &huawei(more), sentence);
    }
}

const DISKS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: csi-azuredisk-controller, namespace: kube-system}
spec:
  template:
    spec:
      containers:
        - {name: csi-provisioner, image: theirs, args: [--v=2, '--feature-gates=Topology=true,VolumeAttributesClass=true']}
        - {name: csi-attacher, image: theirs}
        - {name: csi-snapshotter, image: theirs}
        - {name: csi-resizer, image: theirs, args: ['-feature-gates=RecoverVolumeExpansionFailure=true,VolumeAttributesClass=true']}
        - {name: liveness-probe, image: theirs}
        - {name: azuredisk, image: theirs}
      volumes: [{name: socket-dir, emptyDir: {}}, {name: azure-cred, hostPath: {path: /etc/kubernetes}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-azuredisk-node, namespace: kube-system}
spec:
  template:
    spec:
      containers:
        - {name: liveness-probe, image: theirs}
        - {name: node-driver-registrar, image: theirs}
        - {name: azuredisk, image: theirs}
";

fn azure(more: Value) -> Value {
    let own = json!({
        "azure_csi_plugin_version": "9.9.9", "azure_csi_manifest_url": "file://{here}",
        "azure_csi_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
        "azure_csi_tenant_id": "t1", "azure_csi_subscription_id": "s1", "azure_csi_aad_client_id": "c1",
        "azure_csi_aad_client_secret": "p\"q\\r", "azure_csi_resource_group": "g1", "azure_csi_location": "l1",
        "persistent_volumes_enabled": true,
    });
    with(own, more)
}

#[test]
fn driver_of_azure_has_every_field() {
    let affinity = json!({"podAntiAffinity": {"a": "b"}});
    let objects = applied(
        "csi_azuredisk",
        DISKS,
        &azure(json!({
            "azure_csi_image_repo": "r.example.com/csi", "azure_csi_plugin_image_repo": "r.example.com/own",
            "azure_csi_plugin_image_tag": "v9", "azure_csi_provisioner_image_tag": "v1", "azure_csi_attacher_image_tag": "v2",
            "azure_csi_snapshotter_image_tag": "v3", "azure_csi_resizer_image_tag": "v4", "azure_csi_livenessprobe_image_tag": "v5",
            "azure_csi_node_registrar_image_tag": "v6", "csi_snapshot_controller_enabled": true, "azure_csi_vnet_name": "n1",
            "azure_csi_vnet_resource_group": "n2", "azure_csi_subnet_name": "n3", "azure_csi_security_group_name": "n4",
            "azure_csi_use_instance_metadata": false, "azure_csi_controller_replicas": 1,
            "azure_csi_controller_affinity": affinity, "azure_csi_node_affinity": affinity,
            "storage_account_type": "Premium_LRS", "azure_csi_tags": "Owner=me",
        })),
    );
    let settings: Value = serde_json::from_str(&secret(&objects, "azure-cloud-provider", "cloud-config")).unwrap();
    let wanted = json!({
        "cloud": "AzurePublicCloud", "tenantId": "t1", "subscriptionId": "s1", "aadClientId": "c1", "aadClientSecret": "p\"q\\r",
        "location": "l1", "resourceGroup": "g1", "vnetName": "n1", "vnetResourceGroup": "n2", "subnetName": "n3",
        "securityGroupName": "n4", "useInstanceMetadata": false,
    });
    assert_eq!(settings, wanted);
    let deployment = object(&objects, "Deployment", "csi-azuredisk-controller");
    has(deployment, "/spec/replicas", &json!(1));
    let images = [
        "csi/csi-provisioner:v1",
        "csi/csi-attacher:v2",
        "csi/csi-snapshotter:v3",
        "csi/csi-resizer:v4",
        "csi/livenessprobe:v5",
        "own/azuredisk-csi:v9",
    ];
    for (number, image) in images.iter().enumerate() {
        has(
            deployment,
            &format!("/spec/template/spec/containers/{number}/image"),
            &json!(format!("r.example.com/{image}")),
        );
    }
    assert!(!deployment.to_string().contains("/etc/kubernetes"), "{deployment:#}");
    let set = object(&objects, "DaemonSet", "csi-azuredisk-node");
    for (number, image) in
        ["csi/livenessprobe:v5", "csi/csi-node-driver-registrar:v6", "own/azuredisk-csi:v9"].iter().enumerate()
    {
        has(set, &format!("/spec/template/spec/containers/{number}/image"), &json!(format!("r.example.com/{image}")));
    }
    for programs in [deployment, set] {
        has(programs, "/spec/template/spec/affinity", &affinity);
    }
    let class = object(&objects, "StorageClass", "disk.csi.azure.com");
    has(class, "/parameters", &json!({"skuname": "Premium_LRS", "tags": "Owner=me"}));
    has(class, "/volumeBindingMode", &json!("Immediate"));
    has(class, "/allowVolumeExpansion", &json!(true));
}

#[test]
fn driver_of_azure_without_snapshots_has_no_snapshotter() {
    let objects = applied("csi_azuredisk", DISKS, &azure(json!({})));
    let deployment = object(&objects, "Deployment", "csi-azuredisk-controller");
    has(deployment, "/spec/template/spec/containers/2/name", &json!("csi-resizer"));
}

/// The ports of a node have no room for a second controller, and an API server may lack VolumeAttributesClasses.
#[test]
fn controller_of_azure_makes_room_before_it_is_replaced() {
    let objects = applied("csi_azuredisk", DISKS, &azure(json!({"azure_csi_aad_client_secret": 123_456})));
    let deployment = object(&objects, "Deployment", "csi-azuredisk-controller");
    has(deployment, "/spec/strategy/rollingUpdate", &json!({"maxSurge": 0, "maxUnavailable": 1}));
    let arguments = json!(["--v=2", "--feature-gates=Topology=true"]);
    has(deployment, "/spec/template/spec/containers/0/args", &arguments);
    let arguments = json!(["--feature-gates=RecoverVolumeExpansionFailure=true"]);
    has(deployment, "/spec/template/spec/containers/2/args", &arguments);
    let settings: Value = serde_json::from_str(&secret(&objects, "azure-cloud-provider", "cloud-config")).unwrap();
    has(&settings, "/aadClientSecret", &json!("123456"));
}

#[test]
fn settings_of_azure_that_fail_refused() {
    for (more, sentence) in [
        (json!({"azure_csi_aad_client_secret": ""}), "needs azure_csi_aad_client_secret. Set it."),
        (json!({"azure_csi_controller_replicas": 0}), "at least 1, and at most 1, the number of nodes"),
        (json!({"azure_csi_controller_replicas": 2}), "at least 1, and at most 1, the number of nodes"),
        (json!({"azure_csi_plugin_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        refused("csi_azuredisk", DISKS, &azure(more), sentence);
    }
}
