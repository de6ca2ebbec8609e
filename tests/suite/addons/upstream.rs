//! Addons of the cluster itself.

use serde_json::{Value, json};

use super::{SUM, applied, has, install, object};

const SERVER: &str = "
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: metrics-server, namespace: kube-system, creationTimestamp: null}
spec:
  template:
    spec:
      containers:
        - {name: metrics-server, image: theirs, args: [--cert-dir=/tmp, --secure-port=1, --metric-resolution=15s, --kubelet-insecure-tls]}
status: {replicas: 0}
";

fn server(more: Value) -> Value {
    let mut variables = json!({
        "metrics_server_version": "9.9.9",
        "metrics_server_manifest_url": "file://{here}",
        "metrics_server_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
    });
    variables.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    variables
}

#[test]
fn metrics_server_has_every_field() {
    let objects = applied(
        "metrics_server",
        SERVER,
        &server(json!({
            "metrics_server_image_repo": "r.example.com/m", "metrics_server_replicas": 2, "metrics_server_container_port": 4443,
            "metrics_server_host_network": true, "metrics_server_kubelet_insecure_tls": false, "kubelet_rotate_server_certificates": true,
            "metrics_server_metric_resolution": "30s", "metrics_server_limits_cpu": "1", "metrics_server_nodeselector": {"a": "b"},
            "metrics_server_extra_tolerations": [{"operator": "Exists"}],
        })),
    );
    let deployment = object(&objects, "Deployment", "metrics-server");
    let container = "/spec/template/spec/containers/0";
    for (pointer, wanted) in [
        ("/spec/replicas", json!(2)),
        ("/spec/selector/matchLabels/k8s-app", json!("metrics-server")),
        ("/spec/template/metadata/labels/k8s-app", json!("metrics-server")),
        ("/spec/template/spec/hostNetwork", json!(true)),
        ("/spec/template/spec/nodeSelector/a", json!("b")),
        ("/spec/template/spec/tolerations/2/operator", json!("Exists")),
    ] {
        has(deployment, pointer, &wanted);
    }
    has(deployment, &format!("{container}/image"), &json!("r.example.com/m:v9.9.9"));
    has(deployment, &format!("{container}/ports/0/containerPort"), &json!(4443));
    has(deployment, &format!("{container}/resources/limits/cpu"), &json!("1"));
    let args = json!([
        "--cert-dir=/tmp",
        "--secure-port=4443",
        "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
        "--metric-resolution=30s"
    ]);
    has(deployment, &format!("{container}/args"), &args);
    assert!(deployment.get("status").is_none() && deployment["metadata"].get("creationTimestamp").is_none());
    let service = object(&objects, "Service", "metrics-server");
    has(service, "/spec/ports/0/protocol", &json!("TCP"));
    has(service, "/spec/selector/k8s-app", &json!("metrics-server"));
}

#[test]
fn unexpected_manifest_refused() {
    let none = json!({});
    let wrong = json!({"metrics_server_manifest_checksums": {"9.9.9": {"manifest.yaml": format!("sha256:{}", "0".repeat(64))}}});
    let other = json!({"metrics_server_version": "8.8.8"});
    for (manifest, more, sentence) in [
        (SERVER, &wrong, "Nothing was applied."),
        (SERVER, &other, "There are no checksums for the manifests of metrics_server_version 8.8.8. Take one of 9.9.9"),
        (
            &*SERVER.replace("name: metrics-server, image", "name: other, image"),
            &none,
            "have no Deployment metrics-server",
        ),
    ] {
        let (code, text, _) = install("metrics_server", manifest, &server(more.clone()));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
    }
}

const METALLB: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: metallb-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, namespace: metallb-system}
spec: {template: {spec: {containers: [{name: controller, image: theirs, args: [--port=7472]}]}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: speaker, namespace: metallb-system}
spec: {template: {spec: {containers: [{name: speaker, image: theirs, args: [--port=7472], env: [{name: A, value: a}]}]}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks: [{name: one, clientConfig: {service: {name: s, namespace: metallb-system}}, rules: [{operations: [CREATE]}]}]
";

#[test]
fn metallb_has_every_field() {
    let objects = applied(
        "metallb",
        METALLB,
        &json!({
            "metallb_version": "0.15.9", "metallb_manifest_url": "file://{here}",
            "metallb_manifest_checksums": {"0.15.9": {"manifest.yaml": SUM}},
            "metallb_namespace": "lb", "metallb_port": 7500, "metallb_memberlist_port": 7950, "metallb_loadbalancer_class": "example.com/lb",
            "metallb_config": {
                "speaker": {"nodeselector": {"a": "b"}},
                "address_pools": {"one": {"ip_range": ["192.0.2.0/28"]}, "two": {"ip_range": ["192.0.2.32/28"], "auto_assign": false}},
                "layer2": ["one"],
                "layer3": {
                    "defaults": {"peer_port": 1179}, "communities": {"own": "64512:1"},
                    "metallb_peers": {"peer": {"peer_address": "192.0.2.1", "peer_asn": 64512, "my_asn": 4_200_000_000_u32,
                        "communities": ["own"], "address_pool": ["two"], "aggregation_length": 28, "password": "word", "hold_time": "90s"}},
                },
            },
        }),
    );
    has(object(&objects, "Namespace", "lb"), "/apiVersion", &json!("v1"));
    let hook = object(&objects, "ValidatingWebhookConfiguration", "hook");
    has(hook, "/webhooks/0/clientConfig/service/namespace", &json!("lb"));
    has(hook, "/webhooks/0/rules/0/scope", &json!("*"));
    let speaker = object(&objects, "DaemonSet", "speaker");
    has(speaker, "/metadata/namespace", &json!("lb"));
    let args = json!(["--port=7500", "--log-level=info", "--lb-class=example.com/lb"]);
    has(speaker, "/spec/template/spec/containers/0/args", &args);
    has(speaker, "/spec/template/spec/containers/0/image", &json!("quay.io/metallb/speaker:v0.15.9"));
    let env = json!([{"name": "A", "value": "a"}, {"name": "METALLB_ML_BIND_PORT", "value": "7950"}]);
    has(speaker, "/spec/template/spec/containers/0/env", &env);
    has(speaker, "/spec/template/spec/nodeSelector", &json!({"kubernetes.io/os": "linux", "a": "b"}));
    has(object(&objects, "IPAddressPool", "two"), "/spec/autoAssign", &json!(false));
    has(object(&objects, "L2Advertisement", "one"), "/spec/ipAddressPools", &json!(["one"]));
    has(object(&objects, "Community", "own"), "/spec/communities/0/value", &json!("64512:1"));
    let outside = object(&objects, "BGPAdvertisement", "peer-external");
    has(outside, "/spec/aggregationLength", &json!(28));
    has(outside, "/spec/communities", &json!(["own"]));
    has(object(&objects, "BGPAdvertisement", "peer-local"), "/spec/aggregationLength", &json!(32));
    let peer = json!({"myASN": 4_200_000_000_u32, "peerASN": 64512, "peerAddress": "192.0.2.1", "peerPort": 1179, "password": "word", "holdTime": "90s"});
    has(object(&objects, "BGPPeer", "peer"), "/spec", &peer);
}

/// The manifest of cert-manager: its Deployments, Roles and webhooks.
fn cert_manager() -> String {
    let mut manifest = "kind: Namespace\napiVersion: v1\nmetadata: {name: cert-manager}\n".to_owned();
    for (name, container) in [("", "controller"), ("-cainjector", "cainjector"), ("-webhook", "webhook")] {
        manifest += &format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: cert-manager{name}, namespace: cert-manager}}\n\
             spec: {{template: {{spec: {{containers: [{{name: cert-manager-{container}, image: theirs, args: [--v=2]}}]}}}}}}\n"
        );
    }
    for kind in ["Role", "RoleBinding"] {
        for name in ["cert-manager", "cert-manager-cainjector"] {
            manifest += &format!(
                "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\n\
                 metadata: {{name: \"{name}:leaderelection\", namespace: kube-system}}\n"
            );
        }
    }
    for kind in ["Mutating", "Validating"] {
        manifest += &format!(
            "---\napiVersion: admissionregistration.k8s.io/v1\nkind: {kind}WebhookConfiguration\nmetadata:\n  \
             name: cert-manager-webhook\n  annotations:\n    \
             cert-manager.io/inject-ca-from-secret: cert-manager/cert-manager-webhook-ca\nwebhooks:\n  \
             - name: webhook.cert-manager.io\n    rules: [{{operations: [CREATE]}}]\n    \
             clientConfig: {{service: {{name: cert-manager-webhook, namespace: cert-manager}}}}\n"
        );
    }
    manifest
}

/// The API server would refuse every object of cert-manager if its webhook had an unknown authority.
#[test]
fn cert_manager_in_another_namespace_has_the_authority_of_its_webhook() {
    let variables = json!({
        "cert_manager_manifest_url": "file://{here}/manifest.yaml", "cert_manager_manifest_checksum": SUM,
        "cert_manager_namespace": "certs", "cert_manager_leader_election_namespace": "leases",
    });
    let objects = applied("cert_manager", &cert_manager(), &variables);
    object(&objects, "Namespace", "certs");
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let webhook = object(&objects, kind, "cert-manager-webhook");
        let secret = "/metadata/annotations/cert-manager.io~1inject-ca-from-secret";
        has(webhook, secret, &json!("certs/cert-manager-webhook-ca"));
        has(webhook, "/webhooks/0/clientConfig/service/namespace", &json!("certs"));
    }
    let deployment = object(&objects, "Deployment", "cert-manager");
    has(deployment, "/metadata/namespace", &json!("certs"));
    let args = json!(["--v=2", "--leader-election-namespace=leases"]);
    has(deployment, "/spec/template/spec/containers/0/args", &args);
    has(object(&objects, "Role", "cert-manager:leaderelection"), "/metadata/namespace", &json!("leases"));
}
