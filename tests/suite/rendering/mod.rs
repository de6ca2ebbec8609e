//! Inventory settings in the files that Kubernetes reads, for releases that no host here runs.

mod choices;
mod kubespray;
mod networks;
mod systems;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use windlass_yaml::{Options, Source, parse};

/// The files that the tasks write for `cp1`, by name. `{root}` and `{folder}` mean the repository and the files'
/// folder.
fn render(roles: &[&str], files: &[(&str, &str)], variables: &Value) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let inventory = "[kube_control_plane]\ncp1 ip=10.0.0.1\n[etcd]\ncp1\n[kube_node]\nworker1 ip=10.0.0.2\n\
        [k8s_cluster:children]\nkube_control_plane\nkube_node\n[all:vars]\nansible_connection=local\n";
    fs::write(folder.path().join("hosts"), inventory).unwrap();
    fs::write(folder.path().join("variables.json"), variables.to_string()).unwrap();
    let mut play = String::from("- hosts: cp1\n  gather_facts: false\n  tasks:\n");
    for role in roles {
        play += &format!("    - include_role: {{name: {role}, tasks_from: validate, public: true}}\n");
    }
    for (name, content) in files {
        let content = content.replace("{root}", &root.display().to_string());
        play += &format!("    - copy: {{dest: {}/{name}, content: \"{content}\"}}\n", folder.path().display());
    }
    fs::write(folder.path().join("play.yml"), play).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "-e", "@variables.json", "play.yml"])
        .current_dir(folder.path())
        .env("ANSIBLE_ROLES_PATH", root.join("roles"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    files.iter().map(|(name, _)| fs::read_to_string(folder.path().join(name)).unwrap()).collect()
}

fn documents(text: &str) -> Vec<Value> {
    let loaded = parse(Source::new("rendered".to_owned(), text.to_owned()), &Options::default());
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(loaded.warnings.is_empty(), "{:?}\n{text}", loaded.warnings);
    loaded.documents.iter().map(|node| node.to_json()).collect()
}

#[track_caller]
fn has(document: &Value, pointer: &str, wanted: &Value) {
    assert_eq!(document.pointer(pointer), Some(wanted), "{pointer} of {document:#}");
}

const KUBEADM: (&str, &str) =
    ("kubeadm.yaml", "{{ lookup('template', '{root}/roles/control_plane/templates/kubeadm-config.yaml.j2') }}");
const KUBELET: (&str, &str) =
    ("kubelet.yaml", "{{ lookup('template', '{root}/roles/kubelet/templates/kubelet-config.yaml.j2') }}");

fn control_plane_settings(version: &str) -> Value {
    json!({
        "kube_version": version,
        "kube_encrypt_secret_data": true,
        "kube_encrypt_token": "0123456789abcdef0123456789abcdef",
        "kube_encrypt_further_tokens": ["fedcba9876543210fedcba9876543210"],
        "kubernetes_audit": true,
        "tls_min_version": "VersionTLS12",
        "tls_cipher_suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        "kube_apiserver_enable_admission_plugins": ["EventRateLimit", "PodSecurity"],
        "kube_apiserver_admission_control_config_file": true,
        "kube_apiserver_admission_event_rate_limits": {"one": {"type": "Server", "qps": 50, "burst": 100}},
        "kube_pod_security_use_default": true,
        "kube_apiserver_use_authorization_config_file": true,
        "kube_apiserver_use_authentication_config_file": true,
        "kube_api_anonymous_auth": version == "1.31.0",
        "kube_apiserver_feature_gates": ["One=true"],
        "kubeadm_feature_gates": ["Two=false"],
        "kubeadm_patches": [{"target": "kube-scheduler", "patch": {"metadata": {"labels": {"a": "b"}}}}],
        "kubelet_healthz_port": 10258,
        "kube_scheduler_profiles": [{"schedulerName": "default-scheduler"}],
        "kube_kubeadm_apiserver_extra_args": {"goaway-chance": "0.001"},
        "kube_cert_validity_period": "1000h",
    })
}

#[test]
fn kubeadm_configuration_of_current_releases_has_every_setting() {
    for version in ["1.31.0", "1.36.3"] {
        let files = [KUBEADM, ("files.json", "{{ control_plane_files | to_json }}")];
        let rendered = render(&["control_plane"], &files, &control_plane_settings(version));
        let all = documents(&rendered[0]);
        let kinds: Vec<&str> = all.iter().filter_map(|document| document["kind"].as_str()).collect();
        assert_eq!(
            kinds,
            ["InitConfiguration", "ClusterConfiguration", "KubeProxyConfiguration", "KubeletConfiguration"]
        );
        let (init, cluster) = (&all[0], &all[1]);
        has(init, "/apiVersion", &json!("kubeadm.k8s.io/v1beta4"));
        has(init, "/patches/directory", &json!("/etc/kubernetes/patches"));
        has(cluster, "/featureGates", &json!({"Two": false}));
        has(cluster, "/certificateValidityPeriod", &json!("1000h"));
        has(&all[2], "/nftables/masqueradeBit", &json!(14));
        has(&all[3], "/healthzPort", &json!(10258));
        let flag = |component: &str, name: &str| {
            let flags = cluster[component]["extraArgs"].as_array().unwrap();
            let found: Vec<_> = flags.iter().filter(|flag| flag["name"] == name).collect();
            assert!(found.len() < 2, "{component} has {name} twice");
            found.first().map(|flag| flag["value"].as_str().unwrap().to_owned())
        };
        for (name, value) in [
            ("encryption-provider-config", "/etc/kubernetes/apiserver/encryption.yaml"),
            ("audit-log-path", "/var/log/audit/kube-apiserver-audit.log"),
            ("admission-control-config-file", "/etc/kubernetes/apiserver/admission.yaml"),
            ("enable-admission-plugins", "NodeRestriction,EventRateLimit,PodSecurity"),
            ("authorization-config", "/etc/kubernetes/apiserver/authorization.yaml"),
            ("authentication-config", "/etc/kubernetes/apiserver/authentication.yaml"),
            ("feature-gates", "One=true"),
            ("tls-min-version", "VersionTLS12"),
            ("goaway-chance", "0.001"),
        ] {
            assert_eq!(flag("apiServer", name).as_deref(), Some(value), "{version}: {name}");
        }
        // kubeadm would refuse both together.
        assert_eq!(flag("apiServer", "authorization-mode"), None);
        assert_eq!(flag("apiServer", "oidc-issuer-url"), None);
        assert_eq!(flag("scheduler", "config").as_deref(), Some("/etc/kubernetes/scheduler/config.yaml"));
        assert_eq!(flag("controllerManager", "tls-min-version").as_deref(), Some("VersionTLS12"));

        let files: Value = serde_json::from_str(&rendered[1]).unwrap();
        let file = |end: &str| {
            let file = files.as_array().unwrap().iter().find(|file| file["path"].as_str().unwrap().ends_with(end));
            file.unwrap_or_else(|| panic!("no {end}"))["content"].clone()
        };
        let encryption = file("/encryption.yaml");
        has(&encryption, "/resources/0/resources", &json!(["secrets"]));
        has(
            &encryption,
            "/resources/0/providers/0/secretbox/keys/1/secret",
            &json!("ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="),
        );
        has(&encryption, "/resources/0/providers/3", &json!({"identity": {}}));
        let admission = file("/admission.yaml");
        has(&admission, "/plugins/0/configuration/limits", &json!([{"type": "Server", "qps": 50, "burst": 100}]));
        let minor = version.rsplit_once('.').unwrap().0;
        has(&admission, "/plugins/1/configuration/defaults/enforce-version", &json!(format!("v{minor}")));
        let anonymous = file("/authentication.yaml");
        match minor {
            "1.31" => has(&anonymous, "/apiVersion", &json!("apiserver.config.k8s.io/v1beta1")),
            _ => has(&anonymous, "/anonymous/conditions/1/path", &json!("/livez")),
        }
        has(&file("/scheduler/config.yaml"), "/apiVersion", &json!("kubescheduler.config.k8s.io/v1"));
    }
}

#[test]
fn changed_file_changes_manifest() {
    let volume = |limit: u32| {
        let mut settings = control_plane_settings("1.36.3");
        settings["kube_apiserver_admission_event_rate_limits"]["one"]["qps"] = json!(limit);
        documents(&render(&["control_plane"], &[KUBEADM], &settings)[0])[1]["apiServer"]["extraVolumes"][0]["name"]
            .clone()
    };
    assert_eq!(volume(10), volume(10));
    assert_ne!(volume(10), volume(11));
}

#[test]
fn kubelet_gets_only_fields_known_to_its_release() {
    let mut settings = json!({
        "kube_version": "1.36.3", "kubelet_fail_swap_on": false, "kubelet_seccomp_default": true,
        "kubelet_max_parallel_image_pulls": 4, "kube_reserved": true, "kubelet_tracing": true,
        "kubelet_enforce_node_allocatable": "pods,kube-reserved",
        "eviction_hard": {"memory.available": "100Mi", "nodefs.inodesFree": 1000},
        "kubelet_feature_gates": ["One=true"], "kubelet_topology_manager_policy": "best-effort",
        "kubelet_config_extra_args": {"evictionHard": {"nodefs.available": "5%"}},
    });
    let current = &documents(&render(&["kubelet"], &[KUBELET], &settings)[0])[0];
    for (pointer, wanted) in [
        ("/memorySwap/swapBehavior", json!("LimitedSwap")),
        ("/seccompDefault", json!(true)),
        ("/maxParallelImagePulls", json!(4)),
        ("/serializeImagePulls", json!(false)),
        ("/shutdownGracePeriod", json!("60s")),
        ("/kubeReservedCgroup", json!("/kube.slice")),
        ("/kubeReserved/memory", json!("256Mi")),
        ("/systemReserved/pid", json!("1000")),
        ("/enforceNodeAllocatable", json!(["pods", "kube-reserved"])),
        ("/evictionHard", json!({"memory.available": "100Mi", "nodefs.inodesFree": "1000", "nodefs.available": "5%"})),
        ("/featureGates", json!({"One": true})),
        ("/topologyManagerPolicy", json!("best-effort")),
        ("/tracing/samplingRatePerMillion", json!(100)),
        ("/clusterDNS", json!(["10.233.0.3"])),
    ] {
        has(current, pointer, &wanted);
    }
    for (name, value) in [
        ("kube_version", json!("1.20.2")),
        ("kubelet_seccomp_default", json!(false)),
        ("kubelet_max_parallel_image_pulls", json!(1)),
        ("kubelet_tracing", json!(false)),
        ("enable_nodelocaldns", json!(true)),
    ] {
        settings[name] = value;
    }
    let old = &documents(&render(&["kubelet"], &[KUBELET], &settings)[0])[0];
    for unknown in [
        "memorySwap",
        "seccompDefault",
        "maxParallelImagePulls",
        "shutdownGracePeriod",
        "containerRuntimeEndpoint",
        "tracing",
    ] {
        assert!(old.get(unknown).is_none(), "1.20.2 does not know {unknown}: {old:#}");
    }
    has(old, "/clusterDNS", &json!(["169.254.25.10"]));
}

const PLUGINS: [&str; 17] = [
    "bind",
    "cache",
    "errors",
    "forward",
    "health",
    "hosts",
    "k8s_external",
    "kubernetes",
    "log",
    "loadbalance",
    "loop",
    "prometheus",
    "ready",
    "reload",
    "rewrite",
    "whoami",
    "template",
];

/// Asserts that every block of a Corefile is closed, every zone has servers, and every plugin is known.
fn check_corefile(text: &str) {
    let mut depth = 0;
    let mut plugins: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (closes, opens) = (line == "}", line.ends_with(" {"));
        if closes {
            depth -= 1;
            assert!(depth >= 0, "a block is closed twice:\n{text}");
            if depth == 0 {
                assert!(plugins.iter().any(|name| name == "forward"), "a zone asks nobody:\n{text}");
                plugins.clear();
            }
        } else if depth == 0 {
            assert!(opens, "`{line}` is outside of every zone:\n{text}");
        } else if depth == 1 {
            let name = line.split_whitespace().next().unwrap();
            assert!(PLUGINS.contains(&name), "there is no plugin `{name}`:\n{text}");
            plugins.push(name.to_owned());
        }
        depth += i32::from(opens);
    }
    assert_eq!(depth, 0, "a block is not closed:\n{text}");
}

#[test]
fn corefiles_are_well_formed() {
    let coredns = ("coredns", "{{ lookup('template', '{root}/roles/addon/coredns/templates/Corefile.j2') }}");
    let nodelocal = (
        "nodelocal",
        "{{ lookup('template', '{root}/roles/addon/nodelocaldns/templates/Corefile.j2', template_vars={'cache': {'health': 1, 'metrics': 2}}) }}",
    );
    let zones = json!([
        {"zones": ["example.com", "example.io:1053"], "nameservers": ["192.0.2.1"], "cache": 7, "rewrite": ["name a.tld b.tld"]},
        {"zones": ["https://mycompany.local:4453"], "nameservers": ["192.0.2.2"]},
    ]);
    let everything = json!({
        "enable_nodelocaldns": true,
        "coredns_external_zones": zones,
        "nodelocaldns_external_zones": zones,
        "upstream_dns_servers": ["192.0.2.53"],
        "dns_upstream_forward_extra_opts": {"policy": "sequential", "prefer_udp": ""},
        "dns_etchosts": "192.0.2.100 api.example.com\n",
        "old_dns_domains": ["old.local"],
        "coredns_rewrite_block": "rewrite stop {\n  name regex (.*)\\.my\\.domain {1}.svc.cluster.local\n  answer name (.*) {1}\n}\n",
        "coredns_additional_configs": "whoami\n",
        "coredns_additional_error_config": "consolidate 5m \".* i/o timeout$\" warning\n",
        "coredns_default_zone_cache_block": "cache 3600 {\n  success 3000\n}\n",
        "coredns_kubernetes_extra_opts": ["ttl 60"],
        "enable_coredns_k8s_external": true,
    });
    for variables in [json!({"enable_nodelocaldns": true}), everything] {
        let rendered = render(&["addon/coredns", "addon/nodelocaldns"], &[coredns, nodelocal], &variables);
        for text in &rendered {
            check_corefile(text);
        }
        if variables.get("old_dns_domains").is_some() {
            for line in [
                "    forward . 192.0.2.53 {",
                "        policy sequential",
                "    rewrite name suffix old.local cluster.local answer auto",
                "        consolidate 5m \".* i/o timeout$\" warning",
                "https://mycompany.local:4453 {",
                "        ttl 60",
            ] {
                assert!(rendered[0].lines().any(|found| found == line), "no `{line}` in\n{}", rendered[0]);
            }
            assert!(
                rendered[1].contains("cluster.local:53 old.local:53 {\n    health 169.254.25.10:1\n"),
                "{}",
                rendered[1]
            );
        }
    }
}

#[test]
fn dns_autoscaler_parameters_are_applied() {
    let variables = json!({
        "dns_mode": "coredns_dual", "dns_min_replicas": 3, "dns_nodes_per_replica": 8, "dns_cores_per_replica": 64, "coredns_corefile": "",
    });
    let template = "{{ lookup('template', '{root}/roles/addon/coredns/templates/coredns.yaml.j2') }}";
    let objects = documents(&render(&["addon/coredns"], &[("objects", template)], &variables)[0]);
    for name in ["dns-autoscaler", "dns-autoscaler-secondary"] {
        let named = |kind: &str| {
            let is = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
            objects.iter().find(is).cloned().unwrap_or_default()
        };
        let parameters: Value = serde_json::from_str(named("ConfigMap")["data"]["linear"].as_str().unwrap()).unwrap();
        let expected =
            json!({"coresPerReplica": 64, "min": 3, "nodesPerReplica": 8, "preventSinglePointFailure": true});
        assert_eq!(parameters, expected);
        // The autoscaler keeps parameters that it has from flags.
        let command = named("Deployment")["spec"]["template"]["spec"]["containers"][0]["command"].to_string();
        assert!(
            command.contains(&format!("--configmap={name}\"")) && !command.contains("--default-params"),
            "{command}"
        );
    }
}

#[test]
fn hardening_changes_defaults_but_not_explicit_settings() {
    let mut settings = json!({"kube_version": "1.36.3", "kube_hardening": true, "kube_encrypt_token": "0123456789abcdef0123456789abcdef"});
    let files = [KUBEADM, KUBELET, ("admission.json", "{{ control_plane_admission | to_json }}")];
    let rendered = render(&["control_plane", "kubelet"], &files, &settings);
    for wanted in [
        "{name: audit-log-maxage, value: \"30\"}",
        "{name: encryption-provider-config, value: \"/etc/kubernetes/apiserver/encryption.yaml\"}",
        "{name: kubelet-certificate-authority, value: \"/etc/kubernetes/ssl/ca.crt\"}",
        "{name: terminated-pod-gc-threshold, value: \"50\"}",
        "{name: bind-address, value: \"127.0.0.1\"}",
        "{name: tls-min-version, value: \"VersionTLS12\"}",
        ",AlwaysPullImages,",
    ] {
        assert!(rendered[0].contains(wanted), "{wanted} is not in {}", rendered[0]);
    }
    let kubelet = &documents(&rendered[1])[0];
    has(kubelet, "/seccompDefault", &json!(true));
    has(kubelet, "/serverTLSBootstrap", &json!(true));
    has(kubelet, "/eventRecordQPS", &json!(1));
    let admission: Value = serde_json::from_str(&rendered[2]).unwrap();
    has(&admission, "/0/configuration/limits/0/qps", &json!(50));
    has(&admission, "/3/configuration/defaults/enforce", &json!("restricted"));

    settings["kube_apiserver_enable_admission_plugins"] = json!(["PodNodeSelector"]);
    settings["kube_pod_security_default_enforce"] = json!("baseline");
    settings["kubelet_event_record_qps"] = json!(7);
    settings["kubernetes_audit"] = json!(false);
    let rendered = render(&["control_plane", "kubelet"], &files, &settings);
    assert!(rendered[0].contains("value: \"NodeRestriction,PodNodeSelector\""), "{}", rendered[0]);
    assert!(!rendered[0].contains("audit-log"), "{}", rendered[0]);
    has(&documents(&rendered[1])[0], "/eventRecordQPS", &json!(7));
    let admission: Value = serde_json::from_str(&rendered[2]).unwrap();
    has(&admission, "/1/configuration/defaults/enforce", &json!("baseline"));
}
