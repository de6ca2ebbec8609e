//! Variables of Kubespray for the control planes, etcd and kubelet: each is in the file that it is meant for.

use serde_json::{Value, json};

use super::{KUBEADM, KUBELET, documents, has, render};

fn flag(cluster: &Value, component: &str, name: &str) -> Option<String> {
    let flags = cluster.pointer(component)?.as_array()?;
    let found = flags.iter().find(|flag| flag["name"] == name)?;
    found["value"].as_str().map(str::to_owned)
}

#[test]
fn name_of_load_balancer_is_in_certificates_and_nodes_keep_the_address() {
    let facts = ("facts.json", "{{ [kube_apiserver_endpoint, no_proxy.split(','), kubeadm_cert_names] | to_json }}");
    let mut settings = json!({
        "loadbalancer_apiserver": {"address": "192.0.2.9", "port": 8443},
        "apiserver_loadbalancer_domain_name": "api.example.com",
    });
    let rendered = render(&["control_plane"], &[KUBEADM, facts], &settings);
    let cluster = &documents(&rendered[0])[1];
    has(cluster, "/controlPlaneEndpoint", &json!("192.0.2.9:8443"));
    let names = cluster.pointer("/apiServer/certSANs").unwrap().as_array().unwrap();
    assert!(names.contains(&json!("api.example.com")) && names.contains(&json!("192.0.2.9")), "{names:?}");
    let facts: Value = serde_json::from_str(&rendered[1]).unwrap();
    assert!(facts[1].as_array().unwrap().contains(&json!("api.example.com")), "{facts}");

    // The kubeconfig on the control machine may have the address for logins.
    let login = json!({"ansible_host": "203.0.113.5", "kubeconfig_localhost_ansible_host": true});
    let files = [KUBEADM, ("address", "{{ kubeconfig_address }}")];
    let rendered = render(&["control_plane", "kubeconfig"], &files, &login);
    let names = documents(&rendered[0])[1].pointer("/apiServer/certSANs").unwrap().clone();
    assert!(names.as_array().unwrap().contains(&json!("203.0.113.5")), "{names}");
    assert_eq!(rendered[1], "203.0.113.5:6443");

    // Nodes keep their local load balancer, and the name is only in the certificates.
    settings.as_object_mut().unwrap().remove("loadbalancer_apiserver");
    let cluster = &documents(&render(&["control_plane"], &[KUBEADM], &settings)[0])[1];
    has(cluster, "/controlPlaneEndpoint", &json!("127.0.0.1:8443"));
    let names = cluster.pointer("/apiServer/certSANs").unwrap().as_array().unwrap();
    assert!(names.contains(&json!("api.example.com")), "{names:?}");
}

const ENVIRONMENT: (&str, &str) = ("etcd.env", "{{ lookup('template', '{root}/roles/etcd/templates/etcd.env.j2') }}");
const UNIT: (&str, &str) = ("etcd.service", "{{ lookup('template', '{root}/roles/etcd/templates/etcd.service.j2') }}");

fn etcd_settings() -> Value {
    json!({
        "etcd_log_level": "warn",
        "etcd_max_request_bytes": "10485760",
        "etcd_max_snapshots": 7,
        "etcd_max_wals": 0,
        "etcd_metrics": "extensive",
        "etcd_metrics_port": 2391,
        "etcd_experimental_initial_corrupt_check": true,
        "etcd_experimental_watch_progress_notify_interval": "6s",
        "etcd_experimental_enable_distributed_tracing": true,
        "etcd_experimental_distributed_tracing_address": "c.example.com:4317",
        "etcd_experimental_distributed_tracing_service_name": "store",
        "etcd_experimental_distributed_tracing_sample_rate": 10,
    })
}

#[test]
fn settings_of_etcd_reach_the_services_of_both_clusters() {
    let mut settings = etcd_settings();
    settings["etcd_memory_limit"] = json!("2Gi");
    settings["etcd_blkio_weight"] = json!(1000);
    let common = [
        "ETCD_LOG_LEVEL=warn",
        "ETCD_MAX_REQUEST_BYTES=10485760",
        "ETCD_MAX_SNAPSHOTS=7",
        "ETCD_MAX_WALS=0",
        "ETCD_METRICS=extensive",
    ];
    let renamed = [
        "WATCH_PROGRESS_NOTIFY_INTERVAL=6s",
        "ENABLE_DISTRIBUTED_TRACING=true",
        "DISTRIBUTED_TRACING_ADDRESS=c.example.com:4317",
        "DISTRIBUTED_TRACING_SERVICE_NAME=store",
        "DISTRIBUTED_TRACING_SAMPLING_RATE=10",
    ];
    for (version, prefix, check) in [
        ("3.5.26", "ETCD_EXPERIMENTAL_", "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=true"),
        ("3.6.6", "ETCD_", "ETCD_FEATURE_GATES=InitialCorruptCheck=true"),
    ] {
        settings["etcd_version"] = json!(version);
        for (cluster, member) in
            [("{{ etcd_known_clusters[0] }}", "cp1"), ("{{ etcd_known_clusters[1] }}", "cp1-events")]
        {
            settings["etcd_cluster"] = json!(cluster);
            let rendered = render(&["etcd"], &[ENVIRONMENT, UNIT], &settings);
            let lines: Vec<&str> = rendered[0].lines().collect();
            for line in common.iter().chain([&check]) {
                assert!(lines.contains(line), "{line} in\n{}", rendered[0]);
            }
            let instance = format!("DISTRIBUTED_TRACING_INSTANCE_ID={member}");
            for line in renamed.iter().chain([&instance.as_str()]) {
                assert!(lines.contains(&format!("{prefix}{line}").as_str()), "{prefix}{line} in\n{}", rendered[0]);
            }
            let urls = "ETCD_LISTEN_METRICS_URLS=http://10.0.0.1:2391,http://127.0.0.1:2391";
            assert_eq!(lines.contains(&urls), member == "cp1", "{}", rendered[0]);
            assert!(rendered[1].contains("\nMemoryMax=2G\nIOWeight=10000\n"), "{}", rendered[1]);
        }
    }
}

#[test]
fn settings_of_etcd_reach_its_pods() {
    let mut settings = etcd_settings();
    settings["etcd_kubeadm_enabled"] = json!(true);
    let flags = |settings: &Value| {
        let cluster = documents(&render(&["etcd", "control_plane"], &[KUBEADM], settings)[0])[1].clone();
        move |name: &str| flag(&cluster, "/etcd/local/extraArgs", name)
    };
    let current = flags(&settings);
    for (name, value) in [
        ("log-level", "warn"),
        ("max-request-bytes", "10485760"),
        ("max-wals", "0"),
        ("metrics", "extensive"),
        ("listen-metrics-urls", "http://0.0.0.0:2391"),
        ("watch-progress-notify-interval", "6s"),
        ("distributed-tracing-sampling-rate", "10"),
    ] {
        assert_eq!(current(name).as_deref(), Some(value), "{name}");
    }
    // kubeadm gives this itself.
    assert_eq!(current("feature-gates"), None);
    settings["kube_version"] = json!("1.33.5");
    settings["etcd_experimental_initial_corrupt_check"] = json!(false);
    let older = flags(&settings);
    assert_eq!(older("experimental-initial-corrupt-check").as_deref(), Some("false"));
    assert_eq!(older("experimental-watch-progress-notify-interval").as_deref(), Some("6s"));
}

#[test]
fn unset_settings_of_etcd_leave_its_files_as_they_were() {
    let cluster = json!({"etcd_cluster": "{{ etcd_known_clusters[0] }}"});
    let rendered = render(&["etcd"], &[ENVIRONMENT, UNIT], &cluster);
    for name in ["LOG_LEVEL", "MAX_", "ETCD_METRICS=", "FEATURE_GATES", "PROGRESS", "TRACING"] {
        assert!(!rendered[0].contains(name), "{}", rendered[0]);
    }
    assert!(!rendered[1].contains("MemoryMax") && !rendered[1].contains("IOWeight"), "{}", rendered[1]);
}

#[test]
fn metrics_of_etcd_get_a_service_with_its_labels() {
    let objects = ("objects.json", "{{ [etcd_metrics_objects, cluster_enabled_addons] | to_json }}");
    let settings = json!({"etcd_metrics_port": 2391, "etcd_metrics_service_labels": {"release": "prometheus"}});
    let rendered = render(&["addon/etcd_metrics"], &[objects], &settings);
    let found: Value = serde_json::from_str(&rendered[0]).unwrap();
    has(&found, "/0/0/metadata/labels/release", &json!("prometheus"));
    has(&found, "/0/0/spec/ports/0/port", &json!(2391));
    has(&found, "/0/1/subsets/0/addresses", &json!([{"ip": "10.0.0.1"}]));
    assert!(found[1].as_array().unwrap().contains(&json!("addon/etcd_metrics")), "{found}");
}

#[test]
fn static_tokens_are_in_a_file_of_the_api_server() {
    let files = ("files.json", "{{ control_plane_files | to_json }}");
    let settings = json!({"kube_token_auth": true, "kube_token_auth_users": [
        {"token": "0123456789abcdef0123", "user": "ci", "uid": "1001", "groups": ["builders", "viewers"]},
        {"token": "0123456789abcdef0124", "user": "system:ci", "uid": "1002"},
    ]});
    let rendered = render(&["control_plane"], &[KUBEADM, files], &settings);
    let cluster = &documents(&rendered[0])[1];
    let path = "/etc/kubernetes/apiserver/tokens.csv";
    assert_eq!(flag(cluster, "/apiServer/extraArgs", "token-auth-file").as_deref(), Some(path));
    has(cluster, "/apiServer/extraVolumes/0/mountPath", &json!("/etc/kubernetes/apiserver"));
    let files: Value = serde_json::from_str(&rendered[1]).unwrap();
    let file = files.as_array().unwrap().iter().find(|file| file["path"] == path).unwrap();
    let lines = "0123456789abcdef0123,ci,1001,\"builders,viewers\"\n0123456789abcdef0124,system:ci,1002\n";
    assert_eq!(file["content"], lines);
}

#[test]
fn phases_and_timeouts_of_kubeadm_reach_it() {
    let template = |name: &str| format!("{{{{ lookup('template', '{{root}}/roles/{name}.yaml.j2') }}}}");
    let (join, worker) = (template("control_plane/templates/kubeadm-join"), template("worker/templates/kubeadm-join"));
    let upgrade = template("control_plane/templates/kubeadm-upgrade");
    let options =
        "{{ [kubeadm_skip_phases, kubeadm_upgrade_skip_phases, kubeadm_join_seconds, kube_proxy_remove] | to_json }}";
    let files =
        [("join", join.as_str()), ("worker", worker.as_str()), ("upgrade", upgrade.as_str()), ("options", options)];
    let mut settings = json!({
        "kubeadm_token": {"token": "t", "ca_cert_hash": "h"},
        "kubeadm_certificates": {"certificate_key": "k"},
        "kubeadm_init_phases_skip": ["addon/kube-proxy", "preflight"],
        "kubeadm_upgrade_node_phases_skip": ["kubelet-config"],
        "kubeadm_join_timeout": "2m",
        "discovery_timeout": "90s",
        "kubeadm_use_file_discovery": true,
        "kubeadm_upgrade_auto_cert_renewal": false,
    });
    let rendered = render(&["control_plane"], &files, &settings);
    for text in &rendered[..2] {
        let document = &documents(text)[0];
        has(document, "/discovery/file/kubeConfigPath", &json!("/etc/kubernetes/kubeadm-discovery.conf"));
        has(document, "/timeouts/discovery", &json!("90s"));
    }
    for step in ["apply", "node"] {
        has(&documents(&rendered[2])[0], &format!("/{step}/certificateRenewal"), &json!(false));
    }
    let skipped = json!(["addon/coredns", "addon/kube-proxy", "preflight"]);
    let upgraded = json!(["addon/coredns", "addon/kube-proxy", "kubelet-config"]);
    let options: Value = serde_json::from_str(&rendered[3]).unwrap();
    assert_eq!(options, json!([skipped, upgraded, 120, true]));

    settings["kube_version"] = json!("1.30.4");
    settings["kubeadm_upgrade_auto_cert_renewal"] = json!(true);
    let rendered = render(&["control_plane"], &files[..2], &settings);
    for text in &rendered {
        has(&documents(text)[0], "/discovery/timeout", &json!("90s"));
        assert!(documents(text)[0].pointer("/timeouts").is_none(), "{text}");
    }
}

const KUBELET_ENVIRONMENT: (&str, &str) =
    ("kubelet.env", "{{ lookup('template', '{root}/roles/kubelet/templates/kubelet.env.j2') }}");
const KUBELET_UNIT: (&str, &str) =
    ("kubelet.service", "{{ lookup('template', '{root}/roles/kubelet/templates/kubelet.service.j2') }}");

#[test]
fn control_groups_and_name_of_the_node_reach_kubelet() {
    let files = [KUBELET, KUBELET_ENVIRONMENT, KUBELET_UNIT];
    let settings = json!({"kube_service_cgroups": "podruntime.slice"});
    let rendered = render(&["kubelet"], &files, &settings);
    has(&documents(&rendered[0])[0], "/kubeletCgroups", &json!("/podruntime.slice/kubelet.service"));
    assert!(rendered[2].contains("\nSlice=podruntime.slice\n"), "{}", rendered[2]);

    let mut settings = json!({
        "kubelet_kubelet_cgroups_cgroupfs": "/system.slice/kubelet.service",
        "kubelet_runtime_cgroups_cgroupfs": "/system.slice/containerd.service",
    });
    let rendered = render(&["kubelet"], &files, &settings);
    assert!(documents(&rendered[0])[0].get("kubeletCgroups").is_none(), "{}", rendered[0]);
    assert!(!rendered[1].contains("--runtime-cgroups") && !rendered[2].contains("Slice="), "{rendered:?}");
    settings["kubelet_cgroup_driver"] = json!("cgroupfs");
    let rendered = render(&["kubelet"], &files, &settings);
    has(&documents(&rendered[0])[0], "/kubeletCgroups", &json!("/system.slice/kubelet.service"));
    assert!(rendered[1].contains(" --runtime-cgroups=/system.slice/containerd.service"), "{}", rendered[1]);

    let own = "{{ {'cp1': {'name': 'one'}}[inventory_hostname].name | default('') }}";
    let settings = json!({"kube_override_hostname": own});
    let rendered = render(&["control_plane", "kubelet"], &[KUBEADM, KUBELET_ENVIRONMENT], &settings);
    has(&documents(&rendered[0])[0], "/nodeRegistration/name", &json!("one"));
    assert!(rendered[1].contains(" --hostname-override=one "), "{}", rendered[1]);
}

#[test]
fn admission_plugins_and_key_sizes_follow_the_inventory() {
    let script = "{{ lookup('template', '{root}/roles/etcd/templates/issue-certificates.sh.j2') }}";
    let plugins = "{{ control_plane_admission | map(attribute='name') | list | to_json }}";
    let mut settings = json!({
        "certificates_key_size": 4096,
        "kube_apiserver_admission_control_config_file": true,
        "kube_apiserver_enable_admission_plugins": ["PodNodeSelector", "ResourceQuota"],
    });
    let rendered = render(&["etcd", "control_plane"], &[("issue", script), ("plugins", plugins)], &settings);
    assert!(rendered[0].matches("-newkey rsa:4096 ").count() == 2, "{}", rendered[0]);
    assert_eq!(rendered[1], "[\"PodNodeSelector\", \"ResourceQuota\"]");
    settings["kube_apiserver_admission_plugins_needs_configuration"] = json!(["PodNodeSelector"]);
    let rendered = render(&["control_plane"], &[("plugins", plugins)], &settings);
    assert_eq!(rendered[0], "[\"PodNodeSelector\"]");
}

#[test]
fn chart_of_aws_load_balancer_controller_has_every_value() {
    let settings = json!({
        "ansible_architecture": "x86_64", "cluster_name": "one", "dns_domain": "one.example",
        "alb_ingress_aws_region": "eu-west-1", "alb_ingress_aws_debug": true, "alb_ingress_vpc_id": "vpc-1",
        "alb_ingress_replicas": 1, "alb_ingress_image_repo": "r.example.com/alb", "alb_ingress_version": "3.4.3",
        "alb_ingress_controller_namespace": "aws", "alb_ingress_extra_values": {"enableShield": true},
    });
    let files = [("chart", "{{ alb_ingress_chart | to_json }}"), ("sums", "{{ alb_ingress_artifacts | to_json }}")];
    let rendered = render(&["addon/alb_ingress"], &files, &settings);
    let chart: Value = serde_json::from_str(&rendered[0]).unwrap();
    has(&chart, "/namespace", &json!("aws"));
    let wanted = json!({
        "clusterName": "one", "cluster": {"dnsDomain": "one.example"}, "region": "eu-west-1", "vpcId": "vpc-1",
        "replicaCount": 1, "logLevel": "debug", "image": {"repository": "r.example.com/alb", "tag": "v3.4.3"},
        "keepTLSSecret": true, "enableShield": true,
    });
    has(&chart, "/values", &wanted);
    assert!(
        rendered[1].contains("/aws-load-balancer-controller-3.4.3.tgz") && rendered[1].contains("sha256:6d4454a8"),
        "{}",
        rendered[1]
    );
}
