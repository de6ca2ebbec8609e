//! OpenStack: the controller of the cloud, and the driver of its volumes.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use crate::{SUM, applied, has, install, object};

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

fn with(mut variables: Value, more: Value) -> Value {
    variables.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    variables
}

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

/// A text in a Secret.
#[track_caller]
fn secret(objects: &[Value], name: &str, key: &str) -> String {
    let data = object(objects, "Secret", name)["data"][key].as_str().unwrap();
    String::from_utf8(BASE64_STANDARD.decode(data).unwrap()).unwrap()
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
        (json!({"external_openstack_auth_url": ""}), "needs external_openstack_auth_url. Set it"),
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
            "of the section Global has a line break or another control character",
        ),
        (json!({"external_openstack_cacert": "{here}/none"}), "there is no such file on the control machine"),
        (json!({"external_openstack_lbaas_monitor_delay": "5"}), "must be a time such as 5s or 1m30s"),
        (
            json!({"external_openstack_lbaas_enabled": false, "external_openstack_lbaas_subnet_id": "s"}),
            "external_openstack_lbaas_subnet_id has no effect",
        ),
        (json!({"external_openstack_cloud_controller_version": "8.8.8"}), "Take one of 9.9.9"),
    ] {
        let (code, text, _) = install("cloud_openstack", CONTROLLER, &controller(more));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
        assert!(!text.contains("s;s"), "the password is shown:\n{text}");
    }
}
