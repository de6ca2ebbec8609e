//! Choices that the lab cannot make: a key management service, a webhook for images, resolvers and runtimes.

use serde_json::{Value, json};

use super::{KUBEADM, documents, has, render};

const FILES: (&str, &str) = ("files.json", "{{ control_plane_apiserver_files | to_json }}");

/// The content of a file of the API server.
#[track_caller]
fn file(files: &Value, end: &str) -> Value {
    let found = files.as_array().unwrap().iter().find(|file| file["path"].as_str().unwrap().ends_with(end));
    found.unwrap_or_else(|| panic!("no {end} in {files:#}"))["content"].clone()
}

/// A flag of the API server in kubeadm's configuration.
fn flag(cluster: &Value, name: &str) -> Value {
    let flags = cluster["apiServer"]["extraArgs"].as_array().unwrap();
    flags.iter().find(|flag| flag["name"] == name).map_or(Value::Null, |flag| flag["value"].clone())
}

#[test]
fn key_management_service_encrypts_and_its_socket_is_in_the_pod() {
    let service =
        json!({"apiVersion": "v2", "name": "vault", "endpoint": "unix:///run/kms/socket.sock", "timeout": "3s"});
    let settings = |algorithm: &str| {
        json!({
            "kube_version": "1.36.3", "kube_encrypt_secret_data": true, "kube_encryption_algorithm": algorithm,
            "kube_encryption_kms": service, "kube_encrypt_token": "0123456789abcdef0123456789abcdef",
            "kube_encryption_resources": ["secrets", "configmaps"],
        })
    };
    let rendered = render(&["control_plane"], &[KUBEADM, FILES], &settings("kms"));
    let cluster = &documents(&rendered[0])[1];
    assert_eq!(flag(cluster, "encryption-provider-config"), "/etc/kubernetes/apiserver/encryption.yaml");
    let volumes = cluster["apiServer"]["extraVolumes"].as_array().unwrap();
    let socket = json!({
        "name": "kms", "hostPath": "/run/kms", "mountPath": "/run/kms", "readOnly": false, "pathType": "DirectoryOrCreate",
    });
    assert!(volumes.contains(&socket), "{volumes:#?}");
    let encryption = file(&serde_json::from_str(&rendered[1]).unwrap(), "/encryption.yaml");
    has(&encryption, "/resources/0/resources", &json!(["secrets", "configmaps"]));
    has(&encryption, "/resources/0/providers/0", &json!({"kms": service}));
    has(
        &encryption,
        "/resources/0/providers/1/secretbox/keys/0/secret",
        &json!("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
    );

    // Objects that the service encrypted stay readable after a change back.
    let rendered = render(&["control_plane"], &[FILES], &settings("secretbox"));
    let encryption = file(&serde_json::from_str(&rendered[0]).unwrap(), "/encryption.yaml");
    let providers = encryption["resources"][0]["providers"].as_array().unwrap();
    assert!(providers[0].get("secretbox").is_some(), "{providers:#?}");
    assert_eq!(providers.last().unwrap(), &json!({"kms": service}));
}

#[test]
fn webhook_for_images_has_every_field() {
    let settings = json!({
        "kube_version": "1.36.3", "kube_apiserver_admission_control_config_file": true,
        "kube_apiserver_enable_admission_plugins": ["ImagePolicyWebhook"],
        "kube_apiserver_admission_image_policy_webhook": {
            "server": "https://images.example.com/review", "certificate-authority-data": "QUFB",
            "allowTTL": 30, "denyTTL": 20, "retryBackoff": 400, "defaultAllow": true,
        },
    });
    let rendered = render(&["control_plane"], &[KUBEADM, FILES], &settings);
    let cluster = &documents(&rendered[0])[1];
    assert_eq!(flag(cluster, "enable-admission-plugins"), "NodeRestriction,ImagePolicyWebhook");
    assert_eq!(flag(cluster, "admission-control-config-file"), "/etc/kubernetes/apiserver/admission.yaml");
    let files = serde_json::from_str(&rendered[1]).unwrap();
    let policy = json!({
        "kubeConfigFile": "/etc/kubernetes/apiserver/image-policy-webhook.yaml", "allowTTL": 30, "denyTTL": 20,
        "retryBackoff": 400, "defaultAllow": true,
    });
    has(&file(&files, "/admission.yaml"), "/plugins/0/name", &json!("ImagePolicyWebhook"));
    has(&file(&files, "/admission.yaml"), "/plugins/0/configuration/imagePolicy", &policy);
    let server = json!({"server": "https://images.example.com/review", "certificate-authority-data": "QUFB"});
    has(&file(&files, "/image-policy-webhook.yaml"), "/clusters/0/cluster", &server);
}

#[test]
fn each_resolver_of_a_host_gets_the_servers_and_domains() {
    let template = |name: &str| format!("{{{{ lookup('template', '{{root}}/roles/resolver/templates/{name}.j2') }}}}");
    let names = ["resolved.conf", "NetworkManager.conf", "resolv.conf"];
    let texts = names.map(template);
    let files: Vec<(&str, &str)> = names.iter().copied().zip(texts.iter().map(String::as_str)).collect();
    let settings = json!({
        "resolvconf_mode": "host_resolvconf", "dns_mode": "manual", "manual_dns_server": "10.9.0.1",
        "enable_nodelocaldns": false, "dns_domain": "c.example", "upstream_dns_servers": ["192.0.2.1"], "nameservers": ["192.0.2.2"],
        "searchdomains": ["example.com"], "ndots": 3, "dns_timeout": 4, "dns_attempts": 5,
        "systemd_resolved_disable_stub_listener": true,
        "resolver_found": {"stdout_lines": ["127.0.0.53", "192.0.2.3", "x"]},
    });
    let rendered = render(&["resolver"], &files, &settings);
    assert_eq!(
        rendered[0],
        "[Resolve]\nDNS=10.9.0.1\nFallbackDNS=192.0.2.1 192.0.2.2\n\
         Domains=default.svc.c.example svc.c.example example.com\nDNSStubListener=no\n"
    );
    assert_eq!(
        rendered[1],
        "[global-dns]\nsearches=default.svc.c.example,svc.c.example,example.com\n\
         options=ndots:3,timeout:4,attempts:5\n\n\
         [global-dns-domain-*]\nservers=10.9.0.1,192.0.2.1,192.0.2.2\n"
    );
    assert_eq!(
        rendered[2],
        "search default.svc.c.example svc.c.example example.com\nnameserver 10.9.0.1\nnameserver 192.0.2.1\n\
         nameserver 192.0.2.2\noptions ndots:3 timeout:4 attempts:5\n"
    );
}

#[test]
fn manual_dns_reaches_pods_and_installs_no_server() {
    let derived = (
        "dns.json",
        "{{ {'kubelet': resolv_conf, 'servers': kube_dns_addresses, 'coredns': coredns_enabled} | to_json }}",
    );
    let settings =
        json!({"dns_mode": "manual", "manual_dns_server": "10.9.0.1, 10.9.0.2", "enable_nodelocaldns": false});
    let rendered = render(&["resolver"], &[derived], &settings);
    let wanted = json!({"kubelet": "/etc/resolv.conf", "servers": ["10.9.0.1", "10.9.0.2"], "coredns": false});
    assert_eq!(serde_json::from_str::<Value>(&rendered[0]).unwrap(), wanted);
    let rendered = render(&["kubelet"], &[super::KUBELET], &settings);
    has(&documents(&rendered[0])[0], "/clusterDNS", &json!(["10.9.0.1", "10.9.0.2"]));
}

#[test]
fn runtime_class_has_every_field() {
    let class =
        ("class.yaml", "{{ lookup('template', '{root}/roles/addon/runtime_classes/templates/runtime-class.yml.j2') }}");
    let tolerations = json!([{"key": "vm", "operator": "Exists"}]);
    let item = json!({
        "name": "kata", "handler": "kata-qemu", "overhead": {"cpu": "250m", "memory": "160Mi"},
        "node_selector": {"vm": "yes"}, "tolerations": tolerations,
    });
    let rendered = render(&["addon/runtime_classes"], &[class], &json!({"runtime_classes": [item], "item": item}));
    let wanted = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {
            "name": "kata",
            "labels": {"app.kubernetes.io/name": "kata", "app.kubernetes.io/part-of": "windlass-runtime-classes"},
        },
        "handler": "kata-qemu",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": tolerations},
    });
    assert_eq!(documents(&rendered[0])[0], wanted);
    let item = json!({"name": "crun", "handler": "crun"});
    let plain = render(&["addon/runtime_classes"], &[class], &json!({"runtime_classes": [item], "item": item}));
    let plain = &documents(&plain[0])[0];
    assert!(plain.get("overhead").is_none() && plain.get("scheduling").is_none(), "{plain:#}");
}
