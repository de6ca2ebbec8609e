//! Addons that a cluster may have besides: Argo CD, provisioners, discovery of features, and resources of Prometheus.

use serde_json::json;

use super::{SUM, applied, has, object, refused};

const ARGOCD: &str = "
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: argocd-server}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: argocd-server}
subjects: [{kind: ServiceAccount, name: argocd-server, namespace: argocd}]
";

#[test]
fn argocd_has_every_field() {
    let hash = "$2y$10$abcdefghijklmnopqrstuv";
    let variables = json!({
        "argocd_install_url": "file://{here}/manifest.yaml", "argocd_install_checksum": SUM, "argocd_namespace": "cd",
        "argocd_admin_password_hash": hash,
    });
    let objects = applied("argocd", ARGOCD, &variables);
    has(object(&objects, "Secret", "argocd-secret"), "/metadata/namespace", &json!("cd"));
    assert_eq!(super::secret(&objects, "argocd-secret", "admin.password"), hash);
    let binding = object(&objects, "ClusterRoleBinding", "argocd-server");
    has(binding, "/subjects/0/namespace", &json!("cd"));
    assert!(binding["metadata"].get("namespace").is_none());

    let variables = json!({"argocd_install_url": "file://{here}/manifest.yaml", "argocd_install_checksum": SUM});
    let objects = applied("argocd", ARGOCD, &variables);
    assert!(object(&objects, "Secret", "argocd-secret").get("data").is_none(), "Argo CD generates a password");
    refused("argocd", ARGOCD, &json!({"argocd_admin_password_hash": "word"}), "is not a bcrypt hash");
    refused(
        "argocd",
        ARGOCD,
        &json!({"argocd_version": "0.0.1"}),
        "There is no checksum for the manifest of argocd_version 0.0.1",
    );
}

const LOCAL_PATH: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: local-path-storage}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: local-path-provisioner, namespace: local-path-storage}
spec: {template: {spec: {containers: [{name: local-path-provisioner, image: theirs, command: [theirs]}]}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-path}
provisioner: rancher.io/local-path
reclaimPolicy: Retain
---
apiVersion: v1
kind: ConfigMap
metadata: {name: local-path-config, namespace: local-path-storage}
data: {config.json: theirs, helperPod.yaml: theirs, setup: script}
";

#[test]
fn local_path_provisioner_has_every_field() {
    let variables = json!({
        "local_path_provisioner_version": "9.9.9", "local_path_provisioner_manifest_url": "file://{here}",
        "local_path_provisioner_manifest_checksums": {"9.9.9": {"manifest.yaml": SUM}},
        "local_path_provisioner_namespace": "paths", "local_path_provisioner_storage_class": "fast",
        "local_path_provisioner_is_default_storageclass": false, "local_path_provisioner_reclaim_policy": "Delete",
        "local_path_provisioner_claim_root": "/srv/volumes", "local_path_provisioner_debug": true,
        "local_path_provisioner_image_repo": "r.example.com/p",
        "local_path_provisioner_helper_image_repo": "r.example.com/b",
        "local_path_provisioner_helper_image_tag": "v1", "local_path_provisioner_resources": {"limits": {"cpu": "1"}},
        "k8s_image_pull_policy": "Always",
    });
    let objects = applied("local_path_provisioner", LOCAL_PATH, &variables);
    object(&objects, "Namespace", "paths");
    let class = object(&objects, "StorageClass", "fast");
    has(class, "/reclaimPolicy", &json!("Delete"));
    has(class, "/metadata/annotations/storageclass.kubernetes.io~1is-default-class", &json!("false"));
    let deployment = object(&objects, "Deployment", "local-path-provisioner");
    has(deployment, "/metadata/namespace", &json!("paths"));
    let container = "/spec/template/spec/containers/0";
    has(deployment, &format!("{container}/image"), &json!("r.example.com/p:v9.9.9"));
    let command = json!(["local-path-provisioner", "--debug", "start", "--config", "/etc/config/config.json"]);
    has(deployment, &format!("{container}/command"), &command);
    has(deployment, &format!("{container}/resources"), &json!({"limits": {"cpu": "1"}}));
    let map = object(&objects, "ConfigMap", "local-path-config");
    has(map, "/data/setup", &json!("script"));
    let read = |key: &str| serde_json::from_str::<serde_json::Value>(map["data"][key].as_str().unwrap()).unwrap();
    let nodes = json!([{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": ["/srv/volumes"]}]);
    assert_eq!(read("config.json")["nodePathMap"], nodes);
    let pod = read("helperPod.yaml");
    has(&pod, "/spec/containers/0/image", &json!("r.example.com/b:v1"));
    has(&pod, "/spec/containers/0/imagePullPolicy", &json!("Always"));
    let root = json!({"local_path_provisioner_claim_root": "volumes"});
    refused("local_path_provisioner", LOCAL_PATH, &root, "must be an absolute path other than /");
}

const FEATURES: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: nfd-worker, namespace: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nfd-gc, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: nfd-worker, namespace: default}
subjects: [{kind: ServiceAccount, name: nfd-worker, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nfd-gc}
subjects: [{kind: ServiceAccount, name: nfd-gc, namespace: default}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: nfd-master, namespace: default}
spec: {template: {spec: {containers: [{name: nfd-master, image: theirs}]}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nfd-worker, namespace: default}
spec: {template: {spec: {serviceAccount: nfd-worker, containers: [{name: nfd-worker, image: theirs}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: nfd-gc, namespace: default}
spec: {template: {spec: {serviceAccount: nfd-gc, containers: [{name: nfd-gc, image: theirs}]}}}
";

#[test]
fn node_feature_discovery_has_every_field() {
    let variables = |version: &str| {
        json!({
            "node_feature_discovery_version": version, "node_feature_discovery_manifest_url": "file://{here}",
            "node_feature_discovery_manifest_checksums": {version: {"manifest.yaml": SUM}},
            "node_feature_discovery_namespace": "nfd", "node_feature_discovery_enable_nodefeature_api": false,
            "node_feature_discovery_master_replicas": 2, "node_feature_discovery_master_crd_controller": true,
            "node_feature_discovery_master_instance": "own",
            "node_feature_discovery_master_config": {"noPublish": true},
            "node_feature_discovery_worker_config": {"core": {"sleepInterval": "9s"}},
            "node_feature_discovery_worker_tolerations": [{"operator": "Exists"}],
            "node_feature_discovery_worker_sa_create": false, "node_feature_discovery_worker_sa_name": "worker",
            "node_feature_discovery_gc_sa_name": "collector", "node_feature_discovery_gc_replicas": 3,
            "node_feature_discovery_gc_interval": "2h", "node_feature_discovery_image_repo": "r.example.com/n",
        })
    };
    let objects = applied("node_feature_discovery", FEATURES, &variables("0.16.9"));
    object(&objects, "ServiceAccount", "collector");
    assert_eq!(
        objects.iter().filter(|found| found["kind"] == "ServiceAccount").count(),
        1,
        "the worker's is the user's own"
    );
    let subject = |name: &str| json!([{"kind": "ServiceAccount", "name": name, "namespace": "nfd"}]);
    has(object(&objects, "RoleBinding", "nfd-worker"), "/subjects", &subject("worker"));
    has(object(&objects, "ClusterRoleBinding", "nfd-gc"), "/subjects", &subject("collector"));
    let container = "/spec/template/spec/containers/0";
    let master = object(&objects, "Deployment", "nfd-master");
    has(master, "/metadata/namespace", &json!("nfd"));
    has(master, "/spec/replicas", &json!(2));
    has(master, &format!("{container}/image"), &json!("r.example.com/n:v0.16.9"));
    has(
        master,
        &format!("{container}/args"),
        &json!(["--enable-nodefeature-api=false", "--crd-controller=true", "--instance=own"]),
    );
    let worker = object(&objects, "DaemonSet", "nfd-worker");
    has(worker, "/spec/template/spec/serviceAccountName", &json!("worker"));
    has(worker, "/spec/template/spec/tolerations", &json!([{"operator": "Exists"}]));
    has(worker, &format!("{container}/args"), &json!(["--enable-nodefeature-api=false"]));
    let collector = object(&objects, "Deployment", "nfd-gc");
    has(collector, "/spec/replicas", &json!(3));
    has(collector, "/spec/template/spec/serviceAccountName", &json!("collector"));
    has(collector, &format!("{container}/args"), &json!(["--gc-interval=2h"]));
    has(object(&objects, "ConfigMap", "nfd-master-conf"), "/data/nfd-master.conf", &json!("noPublish: true\n"));
    let sleep = "core:\n    sleepInterval: 9s\n";
    has(object(&objects, "ConfigMap", "nfd-worker-conf"), "/data/nfd-worker.conf", &json!(sleep));

    // Flags that releases from 0.17 on do not know.
    let objects = applied("node_feature_discovery", FEATURES, &variables("0.17.1"));
    has(object(&objects, "Deployment", "nfd-master"), &format!("{container}/args"), &json!(["--instance=own"]));
    assert!(
        object(&objects, "DaemonSet", "nfd-worker")
            .pointer(&format!("{container}/args"))
            .is_none_or(|args| *args == json!([]))
    );
}

#[test]
fn prometheus_operator_crds_are_those_of_the_version() {
    let manifest = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
                    metadata: {name: probes.monitoring.coreos.com}\n";
    let variables = json!({
        "prometheus_operator_crds_version": "9.9.9",
        "prometheus_operator_crds_download_url": "file://{here}/manifest.yaml",
        "prometheus_operator_crds_checksums": {"no_arch": {"9.9.9": SUM}},
    });
    let objects = applied("prometheus_operator_crds", manifest, &variables);
    object(&objects, "CustomResourceDefinition", "probes.monitoring.coreos.com");
    let unknown = json!({"prometheus_operator_crds_version": "0.0.1"});
    refused(
        "prometheus_operator_crds",
        manifest,
        &unknown,
        "There is no checksum for prometheus_operator_crds_version 0.0.1",
    );
}

#[test]
fn kubelet_csr_approver_without_requests_is_refused() {
    let variables = json!({"kubelet_csr_approver_enabled": true, "kubelet_rotate_server_certificates": false});
    refused("kubelet_csr_approver", "", &variables, "kubelets do not request serving certificates");
}
