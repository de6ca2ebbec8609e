//! OpenStack: the controller of the cloud, and the driver of its volumes.

use serde_json::{Value, json};

use super::{SUM, applied, has, install, object, secret, with};

const CONTROLLER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: cloud-controller-manager, namespace: kube-system}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: openstack-cloud-controller-manager, namespace: kube-system}
spec:
  template:
    spec:
      containers:
        - {name: openstack-cloud-controller-manager, image: theirs, args: [--v=1, --bind-address=0.0.0.0], env: [{name: CLUSTER_NAME, value: theirs}],
           volumeMounts: [{name: ca-certs, mountPath: /etc/ssl/certs}]}
      volumes: [{name: ca-certs, hostPath: {path: /etc/ssl/certs}}]
";

fn controller(more: Value) -> Value {
    let own = json!({
        "external_openstack_cloud_controller_version": "9.9.9",
        "external_openstack_cloud_controller_manifest_url": "file://{here}",
        "external_openstack_cloud_controller_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
        "external_openstack_auth_url": "https://keystone.example.com/v3", "external_openstack_username": "kube",
        "external_openstack_password": "p\"a\\s;s", "external_openstack_region": "R1",
        "external_openstack_tenant_id": "t1", "external_openstack_tenant_name": "", "external_openstack_domain_id": "d1",
        "external_openstack_domain_name": "D", "external_openstack_application_credential_id": "",
        "external_openstack_application_credential_name": "", "external_openstack_application_credential_secret": "",
        "external_openstack_cacert": "",
    });
    with(own, more)
}

#[test]
fn controller_of_openstack_has_every_field() {
    let objects = applied(
        "cloud_openstack",
        CONTROLLER,
        &controller(json!({
            "external_openstack_cloud_controller_image_repo": "r.example.com/occm",
            "external_openstack_cloud_controller_image_tag": "v9",
            "external_openstack_cloud_controller_bind_address": "127.0.0.2",
            "external_openstack_cloud_controller_dns_policy": "Default",
            "external_openstack_cloud_controller_extra_args": {"v": "4"},
            "external_openstack_cacert": "{here}/manifest.yaml", "external_openstack_lbaas_enabled": true,
            "external_openstack_lbaas_provider": "ovn", "external_openstack_lbaas_method": "SOURCE_IP_PORT",
            "external_openstack_lbaas_floating_network_id": "fn", "external_openstack_lbaas_floating_subnet_id": "fs",
            "external_openstack_lbaas_subnet_id": "s", "external_openstack_lbaas_network_id": "n",
            "external_openstack_lbaas_manage_security_groups": true, "external_openstack_lbaas_internal_lb": true,
            "external_openstack_lbaas_create_monitor": true, "external_openstack_lbaas_monitor_delay": "7s",
            "external_openstack_lbaas_monitor_timeout": "6s", "external_openstack_lbaas_monitor_max_retries": 5,
            "external_openstack_enable_ingress_hostname": true, "external_openstack_ingress_hostname_suffix": "e.org",
            "external_openstack_max_shared_lb": 3, "external_openstack_network_ipv6_disabled": true,
            "external_openstack_network_internal_networks": ["a", "b"],
            "external_openstack_network_public_networks": ["c"],
            "external_openstack_metadata_search_order": "metadataService", "cluster_name": "here.example.com",
        })),
    );
    let wanted = "[Global]
auth-url = \"https://keystone.example.com/v3\"
username = \"kube\"
password = \"p\\\"a\\\\s;s\"
region = \"R1\"
tenant-id = \"t1\"
domain-name = \"D\"
ca-file = \"/etc/config/ca.cert\"
[LoadBalancer]
enabled = \"true\"
lb-provider = \"ovn\"
lb-method = \"SOURCE_IP_PORT\"
floating-network-id = \"fn\"
floating-subnet-id = \"fs\"
subnet-id = \"s\"
member-subnet-id = \"s\"
network-id = \"n\"
manage-security-groups = \"true\"
internal-lb = \"true\"
create-monitor = \"true\"
monitor-delay = \"7s\"
monitor-timeout = \"6s\"
monitor-max-retries = \"5\"
enable-ingress-hostname = \"true\"
ingress-hostname-suffix = \"e.org\"
max-shared-lb = \"3\"
[Networking]
ipv6-support-disabled = \"true\"
internal-network-name = \"a\"
internal-network-name = \"b\"
public-network-name = \"c\"
[Metadata]
search-order = \"metadataService\"
";
    let name = "external-openstack-cloud-config";
    assert_eq!(secret(&objects, name, "cloud.conf"), wanted);
    assert_eq!(secret(&objects, name, "ca.cert"), CONTROLLER);
    object(&objects, "ServiceAccount", "cloud-controller-manager");
    let set = object(&objects, "DaemonSet", "openstack-cloud-controller-manager");
    let container = "/spec/template/spec/containers/0";
    has(set, &format!("{container}/image"), &json!("r.example.com/occm:v9"));
    has(set, &format!("{container}/args"), &json!(["--bind-address=127.0.0.2", "--v=4"]));
    has(set, &format!("{container}/env"), &json!([{"name": "CLUSTER_NAME", "value": "here.example.com"}]));
    has(
        set,
        &format!("{container}/volumeMounts"),
        &json!([{"name": "cloud-config-volume", "mountPath": "/etc/config", "readOnly": true}]),
    );
    has(set, "/spec/template/spec/dnsPolicy", &json!("Default"));
    has(set, "/spec/template/spec/volumes", &json!([{"name": "cloud-config-volume", "secret": {"secretName": name}}]));
    assert!(set["spec"]["template"]["metadata"]["annotations"]["checksum/config"].is_string(), "{set:#}");
}

#[test]
fn application_credential_replaces_the_password_of_openstack() {
    let objects = applied(
        "cloud_openstack",
        CONTROLLER,
        &controller(json!({
            "external_openstack_application_credential_id": "i", "external_openstack_application_credential_name": "n",
            "external_openstack_application_credential_secret": "s", "external_openstack_tenant_id": "",
            "external_openstack_domain_name": "",
        })),
    );
    let wanted = "[Global]
auth-url = \"https://keystone.example.com/v3\"
application-credential-id = \"i\"
application-credential-name = \"n\"
application-credential-secret = \"s\"
region = \"R1\"
domain-id = \"d1\"
[LoadBalancer]
";
    let text = secret(&objects, "external-openstack-cloud-config", "cloud.conf");
    assert!(text.starts_with(wanted), "{text}");
}

#[test]
fn account_of_openstack_incomplete_or_harmful_refused() {
    for (more, sentence) in [
        (json!({"external_openstack_auth_url": ""}), "needs external_openstack_auth_url. Set it,"),
        (json!({"external_openstack_region": ""}), "which sets OS_REGION_NAME"),
        (
            json!({"external_openstack_password": ""}),
            "needs external_openstack_username and external_openstack_password",
        ),
        (json!({"external_openstack_tenant_id": ""}), "external_openstack_tenant_id or external_openstack_tenant_name"),
        (
            json!({"external_openstack_domain_id": "", "external_openstack_domain_name": ""}),
            "external_openstack_domain_id or external_openstack_domain_name",
        ),
        (json!({"external_openstack_application_credential_name": "n"}), "the whole of an application credential"),
        (
            json!({"external_openstack_password": "a\n[LoadBalancer]"}),
            "of the section Global of the configuration, has a line break or another control character",
        ),
        (json!({"external_openstack_cacert": "{here}/none"}), "there is no such file on the control machine"),
        (json!({"external_openstack_lbaas_monitor_delay": "5"}), "must be a time such as 5s or 1m30s"),
        (
            json!({"external_openstack_lbaas_enabled": false, "external_openstack_lbaas_subnet_id": "s"}),
            "external_openstack_lbaas_subnet_id has no effect",
        ),
        (
            json!({"external_openstack_lbaas_enabled": false, "external_openstack_lbaas_member_subnet_id": "s"}),
            "external_openstack_lbaas_member_subnet_id has no effect",
        ),
        (json!({"external_openstack_cloud_controller_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        let (code, text, _) = install("cloud_openstack", CONTROLLER, &controller(more));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
        assert!(!text.contains("s;s"), "the password is shown:\n{text}");
    }
}

const DRIVER: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: csi-cinder-controllerplugin, namespace: kube-system}
spec:
  template:
    spec:
      containers:
        - {name: csi-attacher, image: theirs, args: [--timeout=3m]}
        - {name: csi-provisioner, image: theirs, args: [--timeout=3m]}
        - {name: csi-snapshotter, image: theirs, args: [--timeout=3m]}
        - {name: csi-resizer, image: theirs, args: [--timeout=3m]}
        - {name: liveness-probe, image: theirs}
        - {name: cinder-csi-plugin, image: theirs, args: [--v=1]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-cinder-nodeplugin, namespace: kube-system}
spec:
  template:
    spec:
      tolerations: [{operator: Exists}]
      containers:
        - {name: node-driver-registrar, image: theirs}
        - {name: liveness-probe, image: theirs}
        - {name: cinder-csi-plugin, image: theirs, args: [--v=1]}
";

fn cinder(more: Value) -> Value {
    let own = json!({
        "cinder_csi_enabled": true, "cinder_csi_plugin_version": "9.9.9", "cinder_csi_manifest_url": "file://{here}",
        "cinder_csi_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
        "cinder_auth_url": "https://keystone.example.com/v3", "cinder_username": "kube", "cinder_password": "p",
        "cinder_region": "R1", "cinder_tenant_id": "", "cinder_tenant_name": "T", "cinder_domain_id": "d1",
        "cinder_domain_name": "", "cinder_application_credential_id": "", "cinder_application_credential_name": "",
        "cinder_application_credential_secret": "", "cinder_cacert": "", "persistent_volumes_enabled": true,
    });
    with(own, more)
}

#[test]
fn driver_of_cinder_has_every_field() {
    let objects = applied(
        "csi_cinder",
        DRIVER,
        &cinder(json!({
            "cinder_csi_plugin_image_repo": "r.example.com/cinder", "cinder_csi_plugin_image_tag": "v9",
            "csi_attacher_image_repo": "r.example.com/a", "cinder_csi_attacher_image_tag": "v1",
            "csi_provisioner_image_repo": "r.example.com/p", "cinder_csi_provisioner_image_tag": "v2",
            "csi_snapshotter_image_repo": "r.example.com/s", "cinder_csi_snapshotter_image_tag": "v3",
            "csi_resizer_image_repo": "r.example.com/r", "cinder_csi_resizer_image_tag": "v4",
            "csi_livenessprobe_image_repo": "r.example.com/l", "cinder_csi_livenessprobe_image_tag": "v5",
            "csi_node_driver_registrar_image_repo": "r.example.com/n", "csi_node_driver_registrar_image_tag": "v6",
            "csi_snapshot_controller_enabled": true, "cinder_cacert": "{here}/manifest.yaml", "kube_version": "1.36.4",
            "cinder_csi_controller_replicas": 2, "cinder_tolerations": [{"key": "a", "operator": "Exists"}],
            "cinder_topology": true, "cinder_topology_zones": ["z1"], "volume_cross_zone_attachment": true,
            "node_volume_attach_limit": 25, "cinder_csi_rescan_on_resize": true, "cluster_name": "here.example.com",
            "cinder_csi_attacher_extra_args": {"timeout": "1m"}, "cinder_csi_provisioner_extra_args": {"timeout": "2m"},
            "cinder_csi_snapshotter_extra_args": {"timeout": "4m"}, "cinder_csi_resizer_extra_args": {"timeout": "5m"},
            "cinder_csi_plugin_extra_args": {"v": "4"}, "cinder_liveness_probe_extra_args": {"v": "6"},
        })),
    );
    let wanted = "[Global]
auth-url = \"https://keystone.example.com/v3\"
username = \"kube\"
password = \"p\"
region = \"R1\"
tenant-name = \"T\"
domain-id = \"d1\"
ca-file = \"/etc/config/ca.cert\"
[BlockStorage]
ignore-volume-az = \"true\"
node-volume-attach-limit = \"25\"
rescan-on-resize = \"true\"
";
    assert_eq!(secret(&objects, "cloud-config", "cloud.conf"), wanted);
    assert_eq!(secret(&objects, "cloud-config", "ca.cert"), DRIVER);
    let deployment = object(&objects, "Deployment", "csi-cinder-controllerplugin");
    has(deployment, "/spec/replicas", &json!(2));
    for (number, image, args) in [
        (0, "r.example.com/a:v1", json!(["--timeout=1m"])),
        (1, "r.example.com/p:v2", json!(["--timeout=2m"])),
        (2, "r.example.com/s:v3", json!(["--timeout=4m"])),
        (3, "r.example.com/r:v4", json!(["--timeout=5m"])),
        (4, "r.example.com/l:v5", json!(["--v=6"])),
        (5, "r.example.com/cinder:v9", json!(["--with-topology=true", "--v=4"])),
    ] {
        has(deployment, &format!("/spec/template/spec/containers/{number}/image"), &json!(image));
        has(deployment, &format!("/spec/template/spec/containers/{number}/args"), &args);
    }
    has(deployment, "/spec/template/spec/containers/5/env/0/value", &json!("here.example.com"));
    let set = object(&objects, "DaemonSet", "csi-cinder-nodeplugin");
    has(set, "/spec/template/spec/tolerations", &json!([{"key": "a", "operator": "Exists"}]));
    has(set, "/spec/template/spec/containers/0/image", &json!("r.example.com/n:v6"));
    has(set, "/spec/template/spec/containers/1/image", &json!("r.example.com/l:v5"));
    has(set, "/spec/template/spec/containers/2/args", &json!(["--v=1", "--with-topology=true"]));
    has(object(&objects, "PodDisruptionBudget", "cinder-csi-pdb"), "/apiVersion", &json!("policy/v1"));
    let class = object(&objects, "StorageClass", "cinder-csi");
    has(class, "/parameters", &json!({"availability": "nova"}));
    has(class, "/volumeBindingMode", &json!("WaitForFirstConsumer"));
    has(
        class,
        "/allowedTopologies",
        &json!([{"matchLabelExpressions": [{"key": "topology.cinder.csi.openstack.org/zone", "values": ["z1"]}]}]),
    );
}

#[test]
fn driver_of_cinder_without_snapshots_has_no_snapshotter() {
    let objects = applied("csi_cinder", DRIVER, &cinder(json!({"persistent_volumes_enabled": false})));
    let deployment = object(&objects, "Deployment", "csi-cinder-controllerplugin");
    let names: Vec<&str> = deployment["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["csi-attacher", "csi-provisioner", "csi-resizer", "liveness-probe", "cinder-csi-plugin"]);
    for kind in ["StorageClass", "PodDisruptionBudget"] {
        assert!(!objects.iter().any(|object| object["kind"] == kind), "{kind} in {objects:#?}");
    }
}

#[test]
fn storage_classes_have_every_field() {
    let objects = applied(
        "csi_cinder",
        DRIVER,
        &cinder(json!({
            "expand_persistent_volumes": true,
            "storage_classes": [
                {"name": "a", "is_default": true, "provisioner": "kubernetes.io/cinder", "parameters": {"type": "ssd", "x": true, "y": 3},
                 "mount_options": ["discard"], "reclaim_policy": "Retain", "volume_binding_mode": "Immediate",
                 "expand_persistent_volumes": false, "allowed_topologies": [{"matchLabelExpressions": []}]},
                {"name": "b"},
                {"name": "other", "provisioner": "disk.csi.example.com"},
            ],
        })),
    );
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "cinder.csi.openstack.org",
        "metadata": {"name": "a", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "parameters": {"type": "ssd", "x": "true", "y": "3"}, "mountOptions": ["discard"], "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate", "allowVolumeExpansion": false,
        "allowedTopologies": [{"matchLabelExpressions": []}],
    });
    assert_eq!(object(&objects, "StorageClass", "a"), &class);
    has(object(&objects, "StorageClass", "b"), "/allowVolumeExpansion", &json!(true));
    assert_eq!(objects.iter().filter(|object| object["kind"] == "StorageClass").count(), 2, "{objects:#?}");
}

#[test]
fn settings_of_cinder_without_effect_refused() {
    for (more, sentence) in [
        (json!({"cinder_region": ""}), "OpenStack needs cinder_region. Set it, or load the rc file"),
        (json!({"cinder_csi_controller_replicas": 0}), "cinder_csi_controller_replicas is 0, but must be at least 1"),
        (json!({"cinder_topology_zones": ["z"]}), "cinder_topology_zones has no effect without cinder_topology"),
        (json!({"cinder_csi_snapshotter_extra_args": {"v": "1"}}), "has no effect without snapshots"),
        (json!({"cinder_blockstorage_version": "v2"}), "value of cinder_blockstorage_version must be one of: v3"),
        (json!({"cinder_csi_plugin_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        let (code, text, _) = install("csi_cinder", DRIVER, &cinder(more));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
    }
}
