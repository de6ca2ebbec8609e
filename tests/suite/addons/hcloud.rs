//! The controller of Hetzner Cloud.

use serde_json::{Value, json};

use super::{SUM, applied, has, install, object};

const CONTROLLER: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: hcloud-cloud-controller-manager, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: 'system:hcloud-cloud-controller-manager:restricted'}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:hcloud-cloud-controller-manager'}
subjects: [{kind: ServiceAccount, name: hcloud-cloud-controller-manager, namespace: kube-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hcloud-cloud-controller-manager, namespace: kube-system}
spec:
  template:
    spec:
      serviceAccountName: hcloud-cloud-controller-manager
      containers:
        - name: hcloud-cloud-controller-manager
          image: theirs
          args: [--cloud-provider=hcloud, --cluster-cidr=10.244.0.0/16]
          env: [{name: HCLOUD_TOKEN, valueFrom: {secretKeyRef: {name: hcloud, key: token}}}]
";

/// The manifest stands for both of the project's.
fn controller(options: Value) -> Value {
    json!({
        "external_hcloud_cloud_controller_version": "9.9.9",
        "external_hcloud_cloud_controller_manifest_url": "file://{here}",
        "external_hcloud_cloud_controller_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
        "cloud_hcloud_file": "manifest.yaml", "kube_pods_subnet": "10.1.0.0/16", "external_hcloud_cloud": options,
    })
}

#[test]
fn controller_of_hetzner_cloud_has_every_field() {
    let objects = applied(
        "cloud_hcloud",
        CONTROLLER,
        &controller(json!({
            "hcloud_api_token": "t", "token_secret_name": "s", "with_networks": true, "network_name": "n",
            "service_account_name": "a", "controller_image_tag": "v1", "controller_extra_args": {"v": "4"},
            "load_balancers_enabled": true, "load_balancers_location": "fsn1", "load_balancers_network_zone": null,
            "load_balancers_disable_private_ingress": true, "load_balancers_use_private_ip": true,
            "network_routes_enabled": false, "robot_enabled": true, "robot_user": "u", "robot_password": 1,
        })),
    );
    has(
        object(&objects, "Secret", "s"),
        "/data",
        &json!({"token": "dA==", "network": "bg==", "robot-user": "dQ==", "robot-password": "MQ=="}),
    );
    object(&objects, "ServiceAccount", "a");
    let binding = object(&objects, "ClusterRoleBinding", "system:hcloud-cloud-controller-manager:restricted");
    has(binding, "/subjects/0/name", &json!("a"));
    let deployment = object(&objects, "Deployment", "hcloud-cloud-controller-manager");
    has(deployment, "/spec/template/spec/serviceAccountName", &json!("a"));
    has(deployment, "/spec/strategy/rollingUpdate", &json!({"maxSurge": 0, "maxUnavailable": 1}));
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    has(container, "/image", &json!("docker.io/hetznercloud/hcloud-cloud-controller-manager:v1"));
    has(container, "/args", &json!(["--cloud-provider=hcloud", "--cluster-cidr=10.1.0.0/16", "--v=4"]));
    let environment = container["env"].as_array().unwrap();
    let variable = |name: &str| {
        environment.iter().find(|variable| variable["name"] == name).map(|variable| {
            variable.get("value").unwrap_or_else(|| &variable["valueFrom"]["secretKeyRef"]["key"]).as_str().unwrap()
        })
    };
    for (name, wanted) in [
        ("HCLOUD_TOKEN", Some("token")),
        ("HCLOUD_NETWORK", Some("network")),
        ("HCLOUD_LOAD_BALANCERS_ENABLED", Some("true")),
        ("HCLOUD_LOAD_BALANCERS_LOCATION", Some("fsn1")),
        ("HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", None),
        ("HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS", Some("true")),
        ("HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", Some("true")),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", Some("false")),
        ("ROBOT_ENABLED", Some("true")),
        ("ROBOT_USER", Some("robot-user")),
        ("ROBOT_PASSWORD", Some("robot-password")),
    ] {
        assert_eq!(variable(name), wanted, "{name} of {container:#}");
    }
}

#[test]
fn controller_of_hetzner_cloud_without_network_keeps_the_flags() {
    let options = json!({"hcloud_api_token": "t", "load_balancers_network_zone": "eu-central"});
    let objects = applied("cloud_hcloud", CONTROLLER, &controller(options));
    has(object(&objects, "Secret", "hcloud"), "/data", &json!({"token": "dA=="}));
    let container =
        &object(&objects, "Deployment", "hcloud-cloud-controller-manager")["spec"]["template"]["spec"]["containers"][0];
    has(container, "/image", &json!("docker.io/hetznercloud/hcloud-cloud-controller-manager:v9.9.9"));
    has(container, "/args", &json!(["--cloud-provider=hcloud", "--cluster-cidr=10.244.0.0/16"]));
}

#[test]
fn settings_of_hetzner_cloud_without_effect_refused() {
    for (options, sentence) in [
        (json!({}), "external_hcloud_cloud has no hcloud_api_token"),
        (json!({"controller_image_tag": "latest"}), "`latest`, which the project deleted"),
        (json!({"with_networks": true}), "Set network_name to the name or the number of the network"),
        (
            json!({"load_balancers_location": "a", "load_balancers_network_zone": "b"}),
            "exclude each other. Leave one of them out",
        ),
        (json!({"load_balancers_use_private_ip": true}), "but there is no network. Set network_name"),
        (json!({"network_routes_enabled": true}), "has no effect without with_networks"),
        (
            json!({"load_balancers_enabled": false, "load_balancers_location": "a"}),
            "so the other fields load_balancers_* have no effect",
        ),
        (json!({"load_balancer_location": "a"}), "load_balancer_location"),
        (json!({"robot_enabled": true, "robot_user": "u"}), "Set robot_user and robot_password, too"),
        (json!({"robot_user": "u"}), "have no effect without robot_enabled"),
        (
            json!({"robot_enabled": true, "robot_user": "u", "robot_password": "p", "network_name": "n"}),
            "makes no routes for dedicated machines",
        ),
        (json!({"token_secret_name": "a_b"}), "must be names of Kubernetes"),
        (json!({"service_account_name": "a\n"}), "must be names of Kubernetes"),
    ] {
        let mut all = json!({"hcloud_api_token": "a-secret-token"});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let variables = controller(if options == json!({}) { options } else { all });
        let (code, text, _) = install("cloud_hcloud", CONTROLLER, &variables);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(sentence), "it does not say `{sentence}`:\n{text}");
        assert!(!text.contains("a-secret-token"), "the token is shown:\n{text}");
    }
}
