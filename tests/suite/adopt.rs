//! The inventory that playbooks/adopt.yml makes of observations, also of hosts that lie.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Judges what was seen, without a host.
const PLAYBOOK: &str = "
- hosts: all
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - ansible.builtin.set_fact:
        adopt_seen: \"{{ (lookup('ansible.builtin.file', 'seen.json') | from_json)[inventory_hostname] }}\"
    - ansible.builtin.include_role: {name: adopt, tasks_from: judge}
";

/// A node as kubectl prints it for the probe: its name, and in JSON labels, taints, addresses and nodeInfo.
fn row(name: &str, address: &str, labels: &Value, taints: &Value, info: &Value) -> String {
    let addresses = json!([{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]);
    format!("{name}\t{labels}\t{taints}\t{addresses}\t{info}\n")
}

fn info() -> Value {
    json!({"kubeletVersion": "v1.33.1", "containerRuntimeVersion": "containerd://1.7"})
}

fn control_plane() -> String {
    let labels = json!({"kubernetes.io/os": "linux", "node-role.kubernetes.io/control-plane": ""});
    let taints = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
    row("cp1", "10.0.0.1", &labels, &taints, &info())
}

fn worker_with(labels: &Value, info: &Value) -> String {
    row("w1", "10.0.0.2", labels, &json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]), info)
}

fn worker() -> String {
    worker_with(&json!({"disk": "ssd"}), &info())
}

fn listing(rows: &[String]) -> String {
    rows.concat() + "List"
}

/// Members of etcd, by name and address.
fn members(members: &[(&str, &str)]) -> String {
    let members: Vec<Value> = members
        .iter()
        .map(|(name, address)| json!({"ID": 1, "name": name, "peerURLs": [format!("https://{address}:2380")]}))
        .collect();
    json!({"members": members}).to_string()
}

/// A control plane and a worker as a plain kubeadm makes them.
fn seen() -> Value {
    let pod = |flags: &str| {
        format!("spec:\n  containers:\n  - command: [program, {flags}]\n    image: example.org/etcd:3.5.1\n")
    };
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\ncgroupDriver: systemd\nclusterDNS: [10.96.0.10]\n\
                   syncFrequency: 0s\nmemorySwap: {}\nmaxPods: 60\nauthentication: {anonymous: {enabled: false}}\n";
    let node = |name: &str| {
        json!({"name": name, "kubelet_program": "/usr/bin/kubelet",
            "kubelet_arguments": "--v=3\n--own=1\n--container-runtime=remote",
            "kubelet_kubeadm": "KUBELET_KUBEADM_ARGS=\"--container-runtime=remote\"", "kubelet_config": kubelet,
            "containerd_config": "sandbox_image = \"registry.example/pause:3.9\"\n"})
    };
    let mut plane = node("cp1");
    let further = json!({
        "manifest_kube-apiserver": pod(
            "--event-ttl=2h, --max-requests-inflight=500, '--enable-admission-plugins=NodeRestriction,EventRateLimit'"
        ),
        "manifest_kube-controller-manager": pod("--node-cidr-mask-size=25"),
        "manifest_kube-scheduler": pod("--profiling=false"),
        "manifest_etcd": pod("--data-dir=/srv/etcd"),
        "certificate_names": "kubernetes\ncp1\n10.0.0.1\napi.example.org",
        "api_kubeadm": "kubernetesVersion: v1.33.1\ncertificatesDir: /etc/kubernetes/pki\nclusterName: theirs\n\
                        networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12, dnsDomain: their.domain}\n",
        "api_proxy": "mode: ipvs\nipvs: {strictARP: true}\n", "api_dns": "10.96.0.10",
        "api_members": members(&[("cp1", "10.0.0.1")]),
        "api_workloads": "kube-flannel/kube-flannel-ds \"example.org/flannel:v1\"", "network_files": "10-flannel.conflist",
        "api_nodes": listing(&[control_plane(), worker()]),
    });
    plane.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
    json!({"10.0.0.1": plane, "10.0.0.2": node("w1")})
}

fn judge(seen: &Value, given: &str) -> (TempDir, Output) {
    judge_with(seen, given, &[])
}

fn judge_with(seen: &Value, given: &str, options: &[&str]) -> (TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::write(folder.path().join("hosts"), given).unwrap();
    fs::write(folder.path().join("play.yml"), PLAYBOOK).unwrap();
    fs::write(folder.path().join("seen.json"), seen.to_string()).unwrap();
    let variables = json!({"adopt_directory": folder.path().join("made"), "adopt_check": false}).to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "play.yml", "-e", &variables])
        .args(options)
        .current_dir(folder.path())
        .env("ANSIBLE_ROLES_PATH", root.join("roles"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    (folder, output)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The written inventory as `windlass inventory` reads it.
fn inventory(folder: &TempDir) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["inventory", "-i", "made", "--list"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| json!(text(&output)))
}

#[test]
fn login_of_the_command_line_becomes_part_of_the_inventory() {
    let options = ["-u", "root", "--private-key", "id"];
    let variables = |given: &str| {
        let (folder, output) = judge_with(&seen(), given, &options);
        assert!(output.status.success(), "{}", text(&output));
        let mut made = inventory(&folder)["_meta"]["hostvars"]["cp1"].take();
        let key = made["ansible_ssh_private_key_file"].take();
        assert_eq!(key, folder.path().canonicalize().unwrap().join("id").display().to_string());
        made["ansible_user"].take()
    };
    assert_eq!(variables("10.0.0.1\n10.0.0.2\n"), "root");
    // As in the run, a variable of the inventory outranks the option.
    assert_eq!(variables("10.0.0.1 ansible_user=admin\n10.0.0.2 ansible_user=admin\n"), "admin");
}

#[test]
fn kubeadm_cluster_becomes_inventory() {
    let (folder, output) = judge(&seen(), "10.0.0.1\n10.0.0.2\n");
    assert!(output.status.success(), "{}", text(&output));
    let made = inventory(&folder);
    for (group, hosts) in [("kube_control_plane", "cp1"), ("etcd", "cp1"), ("kube_node", "w1")] {
        assert_eq!(made[group]["hosts"], json!([hosts]), "{made}");
    }
    let worker = &made["_meta"]["hostvars"]["w1"];
    for (name, value) in [
        ("ansible_host", json!("10.0.0.2")),
        ("node_labels", json!({"disk": "ssd"})),
        ("node_taints", json!(["dedicated=batch:NoSchedule"])),
        ("kube_version", json!("1.33.1")),
        ("cluster_name", json!("theirs")),
        ("dns_domain", json!("their.domain")),
        ("kube_cert_dir", json!("/etc/kubernetes/pki")),
        ("kube_network_plugin", json!("cni")),
        ("loadbalancer_apiserver_localhost", json!(false)),
        ("supplementary_addresses_in_ssl_keys", json!(["api.example.org"])),
        ("deploy_coredns", json!(false)),
        ("etcd_deployment_type", json!("kubeadm")),
        ("etcd_data_dir", json!("/srv/etcd")),
        ("etcd_image_repo", json!("example.org/etcd")),
        ("event_ttl_duration", json!("2h")),
        ("kube_apiserver_enable_admission_plugins", json!(["EventRateLimit"])),
        ("kube_kubeadm_apiserver_extra_args", json!({"max-requests-inflight": "500"})),
        ("kube_kubeadm_scheduler_extra_args", json!({"profiling": "false"})),
        ("kube_network_node_prefix", json!(25)),
        ("kube_proxy_mode", json!("ipvs")),
        ("kube_proxy_strict_arp", json!(true)),
        ("kubelet_custom_flags", json!(["--own=1"])),
        ("kube_log_level", json!(3)),
        // The role's own default would let pods swap.
        ("kubelet_swap_behavior", json!("NoSwap")),
        ("bin_dir", json!("/usr/local/bin")),
        ("pod_infra_image_tag", json!("3.9")),
    ] {
        assert_eq!(worker[name], value, "{name}");
    }
    assert_eq!(worker["kubelet_config_extra_args"]["maxPods"], 60);
    assert!(text(&output).contains("the network flannel, image example.org/flannel:v1"), "{}", text(&output));
}

#[test]
fn cluster_with_ipv6_alone_becomes_inventory() {
    let alone = |text: &str| {
        text.replace("10.244.0.0/16", "fd00:1::/64")
            .replace("10.96.0.0/12", "fd00:2::/112")
            .replace("10.0.0.", "fd97::")
            .replace("https://fd97::1:", "https://[fd97::1]:")
            .replace("mask-size=25", "mask-size=112")
    };
    let seen = serde_json::from_str(&alone(&seen().to_string())).unwrap();
    let (folder, output) = judge(&seen, "[all]\nfd97::1\nfd97::2\n");
    assert!(output.status.success(), "{}", text(&output));
    let made = inventory(&folder);
    let worker = &made["_meta"]["hostvars"]["w1"];
    for (name, value) in [
        ("ansible_host", json!("fd97::2")),
        ("ip", Value::Null),
        ("ip6", json!("fd97::2")),
        ("ipv4_stack", json!(false)),
        ("ipv6_stack", json!(true)),
        ("kube_service_addresses_ipv6", json!("fd00:2::/112")),
        ("kube_pods_subnet_ipv6", json!("fd00:1::/64")),
        ("kube_network_node_prefix_ipv6", json!(112)),
        ("kube_network_node_prefix", Value::Null),
        ("kube_service_addresses", Value::Null),
        ("kube_pods_subnet", Value::Null),
        ("loadbalancer_apiserver_localhost", json!(false)),
    ] {
        assert_eq!(worker[name], value, "{name}: {made}");
    }
}

#[test]
fn files_of_the_roles_behind_flags_become_notes() {
    let own = "/etc/kubernetes/apiserver";
    let command = |flags: &[String]| json!(format!("spec: {{containers: [{{command: {}}}]}}", json!(flags)));
    let mut tokens = seen();
    tokens["10.0.0.1"]["manifest_kube-apiserver"] = command(&[
        format!("--token-auth-file={own}/tokens.csv"),
        format!("--oidc-ca-file={own}/oidc-ca.pem"),
        "--max-requests-inflight=500".to_owned(),
    ]);
    let (folder, output) = judge(&tokens, "10.0.0.1\n10.0.0.2\n");
    let shown = text(&output);
    for note in [
        "--token-auth-file=/etc/kubernetes/apiserver/tokens.csv of kube-apiserver.",
        "set kube_token_auth and kube_token_auth_users, from that file before the next run of playbooks/cluster.yml",
        "set kube_oidc_auth, kube_oidc_ca_cert and the other variables of OpenID Connect before the next run",
    ] {
        assert!(shown.contains(note), "{note}: {shown}");
    }
    let arguments =
        |folder: &TempDir| inventory(folder)["_meta"]["hostvars"]["cp1"]["kube_kubeadm_apiserver_extra_args"].clone();
    assert_eq!(arguments(&folder), json!({"max-requests-inflight": "500"}), "{shown}");

    let theirs = "/etc/kubernetes/tokens/known_tokens.csv";
    tokens["10.0.0.1"]["manifest_kube-apiserver"] = command(&[format!("--token-auth-file={theirs}")]);
    let (folder, output) = judge(&tokens, "10.0.0.1\n10.0.0.2\n");
    assert_eq!(arguments(&folder), json!({"token-auth-file": theirs}));
    assert!(text(&output).contains("the file stays as it is; copy it to every control plane"), "{}", text(&output));
}

#[test]
fn settings_of_etcd_as_a_service_become_variables() {
    let environment = |prefix: &str, check: &str| {
        let renamed = [
            "WATCH_PROGRESS_NOTIFY_INTERVAL=5s",
            "ENABLE_DISTRIBUTED_TRACING=true",
            "DISTRIBUTED_TRACING_ADDRESS=c.example.com:4317",
            "DISTRIBUTED_TRACING_SERVICE_NAME=store",
            "DISTRIBUTED_TRACING_SAMPLING_RATE=10",
            "DISTRIBUTED_TRACING_INSTANCE_ID=cp1",
        ];
        let common = "ETCD_NAME=cp1\nETCD_LISTEN_METRICS_URLS=http://10.0.0.1:2391,http://127.0.0.1:2391\n\
                      ETCD_LOG_LEVEL=warn\nETCD_METRICS=extensive\nETCD_MAX_REQUEST_BYTES=10485760\n\
                      ETCD_MAX_SNAPSHOTS=7\nETCD_MAX_WALS=0\nETCD_EXPERIMENTAL_MAX_LEARNERS=2\n";
        renamed.iter().fold(format!("{common}{check}\n"), |text, line| format!("{text}{prefix}{line}\n"))
    };
    let mut service = seen();
    let plane = service["10.0.0.1"].as_object_mut().unwrap();
    plane.remove("manifest_etcd");
    let kubeadm = plane["api_kubeadm"].as_str().unwrap().to_owned()
        + "etcd: {external: {caFile: /etc/ssl/etcd/ssl/ca.pem, endpoints: ['https://10.0.0.1:2379']}}\n";
    plane.insert("api_kubeadm".to_owned(), json!(kubeadm));
    plane.insert("etcd_arguments".to_owned(), json!("/usr/local/bin/etcd"));
    plane.insert("etcd_limits".to_owned(), json!("MemoryMax=512M\nIOWeight=500\n"));
    plane.insert("kubelet_limits".to_owned(), json!("Slice=kube.slice\n"));

    let further = json!({"ETCD_EXPERIMENTAL_MAX_LEARNERS": "2"});
    let gates = "A=true,InitialCorruptCheck=true";
    for (prefix, check, written, rest) in [
        ("ETCD_EXPERIMENTAL_", "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=true".to_owned(), json!(true), further.clone()),
        ("ETCD_", "ETCD_FEATURE_GATES=InitialCorruptCheck=true".to_owned(), json!(true), further.clone()),
        (
            "ETCD_",
            format!("ETCD_FEATURE_GATES={gates}"),
            Value::Null,
            json!({"ETCD_EXPERIMENTAL_MAX_LEARNERS": "2", "ETCD_FEATURE_GATES": gates}),
        ),
    ] {
        service["10.0.0.1"]["etcd_environment"] = json!(environment(prefix, &check));
        let (folder, output) = judge(&service, "10.0.0.1\n10.0.0.2\n");
        let (made, shown) = (inventory(&folder), text(&output));
        for (name, value) in [
            ("etcd_deployment_type", json!("host")),
            // The address in the URLs is one member's own.
            ("etcd_metrics_port", json!(2391)),
            ("etcd_metrics_urls", Value::Null),
            ("etcd_log_level", json!("warn")),
            ("etcd_metrics", json!("extensive")),
            ("etcd_max_request_bytes", json!(10_485_760)),
            ("etcd_max_snapshots", json!(7)),
            ("etcd_max_wals", json!(0)),
            ("etcd_experimental_initial_corrupt_check", written),
            ("etcd_experimental_watch_progress_notify_interval", json!("5s")),
            ("etcd_experimental_enable_distributed_tracing", json!(true)),
            ("etcd_experimental_distributed_tracing_address", json!("c.example.com:4317")),
            ("etcd_experimental_distributed_tracing_service_name", json!("store")),
            ("etcd_experimental_distributed_tracing_sample_rate", json!(10)),
            ("etcd_extra_vars", rest),
        ] {
            assert_eq!(made["_meta"]["hostvars"]["cp1"][name], value, "{name}: {shown}");
        }
        for note in [
            "MemoryMax=512M, IOWeight=500 in the unit of etcd on 10.0.0.1",
            "Slice=kube.slice in the unit of kubelet on cp1",
        ] {
            assert!(shown.contains(&format!("Not represented: {note}")), "{note}: {shown}");
        }
    }
}

#[test]
fn flags_that_kubeadm_gives_etcd_stay_its_own() {
    let mut pods = seen();
    let flags = "--watch-progress-notify-interval=5s, '--feature-gates=InitialCorruptCheck=true', --max-wals=3";
    pods["10.0.0.1"]["manifest_etcd"] = json!(format!("spec: {{containers: [{{command: [etcd, {flags}]}}]}}"));
    let (folder, output) = judge(&pods, "10.0.0.1\n10.0.0.2\n");
    let made = inventory(&folder);
    for (name, value) in [
        ("etcd_experimental_watch_progress_notify_interval", Value::Null),
        ("etcd_experimental_initial_corrupt_check", json!(true)),
        ("etcd_max_wals", json!(3)),
        ("etcd_extra_vars", Value::Null),
    ] {
        assert_eq!(made["_meta"]["hostvars"]["cp1"][name], value, "{name}: {}", text(&output));
    }
}

#[test]
fn only_control_plane_given_names_the_others() {
    let (folder, output) = judge(&seen(), "10.0.0.1\n");
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("the host w1, which was not read: the API names it at 10.0.0.2"),
        "{}",
        text(&output)
    );
    assert_eq!(inventory(&folder)["_meta"]["hostvars"]["w1"]["ip"], "10.0.0.2");
}

#[test]
fn values_with_templates_and_commands_never_written() {
    let mut lies = seen();
    let lie = "{{ lookup('pipe', 'touch evaluated') }}";
    let plane = lies["10.0.0.1"].as_object_mut().unwrap();
    plane["kubelet_program"] = json!("/opt/$(touch evaluated)/kubelet");
    plane["containerd_config"] = json!("root = \"/x;touch evaluated\"\nsandbox_image = \"x`id`:1\"\n");
    plane["kubelet_config"] =
        json!(format!("clusterDNS: [10.96.0.10]\nevictionHard: {{a: \"{lie}\"}}\nresolvConf: \"/a b\"\n"));
    plane["kubelet_arguments"] = json!("--own=$(id)");
    plane["manifest_kube-apiserver"] =
        json!(format!("spec: {{containers: [{{command: [a, \"--x={lie}\", \"--event-ttl={lie}\"]}}]}}"));
    let labels = json!({"a": lie, "node-role.kubernetes.io/control-plane": ""});
    plane["api_nodes"] = json!(listing(&[
        row(
            "cp1",
            "10.0.0.1",
            &labels,
            &json!([]),
            &json!({"kubeletVersion": lie, "containerRuntimeVersion": format!("containerd://{lie}")})
        ),
        row("all", "10.0.0.8", &json!({}), &json!([]), &json!({})),
    ]));
    let (folder, output) = judge(&lies, "10.0.0.1\n");
    let shown = text(&output);
    assert!(output.status.success(), "{shown}");
    for name in ["hosts.yml", "group_vars/all/adopted.yml"] {
        let written = fs::read_to_string(folder.path().join("made").join(name)).unwrap();
        assert!(!written.contains("{{") && !written.contains("evaluated") && !written.contains('$'), "{written}");
    }
    for what in [
        "bin_dir",
        "containerd_storage_dir",
        "pod_infra_image_repo",
        "kubelet_config_extra_args",
        "resolv_conf",
        "kubelet_custom_flags",
        "kube_kubeadm_apiserver_extra_args",
        "event_ttl_duration",
        "labels or taints of cp1",
        "the node `all`",
    ] {
        assert!(shown.contains(&format!("Not represented: {what}")), "{what}: {shown}");
    }
    let hosts = inventory(&folder)["_meta"]["hostvars"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(hosts, ["cp1"]);
    assert!(!folder.path().join("evaluated").exists());
}

#[test]
fn hosts_that_contradict_each_other_refused() {
    let mut twins = seen();
    twins["10.0.0.2"]["name"] = json!("cp1");
    let (folder, output) = judge(&twins, "10.0.0.1\n10.0.0.2\n");
    assert!(text(&output).contains("have the same host name"), "{}", text(&output));
    assert!(!folder.path().join("made").exists());

    // A worker that pretends to be a control plane of another cluster.
    let mut liar = seen();
    liar["10.0.0.2"]["api_nodes"] = liar["10.0.0.1"]["api_nodes"].clone();
    liar["10.0.0.2"]["api_kubeadm"] = json!("kubernetesVersion: v1.33.1\n");
    let (folder, output) = judge(&liar, "10.0.0.1\n10.0.0.2\n");
    assert!(text(&output).contains("belong to different clusters"), "{}", text(&output));
    assert!(!folder.path().join("made").exists());
    let (_folder, output) = judge(&liar, "[all]\n10.0.0.1\n[others]\n10.0.0.2\n[kube_control_plane]\n10.0.0.1\n");
    assert!(output.status.success(), "{}", text(&output));
}

/// A worker that was taken over answers like an API server, first in the inventory.
#[test]
fn worker_that_answers_like_a_control_plane_represents_no_cluster() {
    let hosts = "[all]\n10.0.0.2\n10.0.0.1\n";
    let mut liar = seen();
    let plane = liar["10.0.0.1"].clone();
    let worker = liar["10.0.0.2"].as_object_mut().unwrap();
    for (key, value) in plane.as_object().unwrap() {
        if key.starts_with("api_") || key.starts_with("manifest_") {
            worker.insert(key.clone(), value.clone());
        }
    }
    worker.insert("api_proxy".to_owned(), json!("mode: nftables\n"));
    let (folder, output) = judge(&liar, hosts);
    assert!(output.status.success(), "{}", text(&output));
    let made = inventory(&folder);
    assert_eq!(made["kube_control_plane"]["hosts"], json!(["cp1"]));
    assert_eq!(made["_meta"]["hostvars"]["cp1"]["kube_proxy_mode"], "ipvs");

    let label = json!({"node-role.kubernetes.io/control-plane": ""});
    liar["10.0.0.2"]["api_nodes"] = json!(listing(&[control_plane(), worker_with(&label, &info())]));
    let (folder, output) = judge(&liar, hosts);
    assert!(text(&output).contains("or list other nodes"), "{}", text(&output));
    assert!(!folder.path().join("made").exists());
}

/// Kubelets make mirror pods with any label and write any nodeInfo; hosts run processes with any name.
#[test]
fn worker_makes_itself_no_control_plane_and_no_member_of_etcd() {
    let mut lies = seen();
    let forged =
        "v1.33.1\ncp1\t{\"node-role.kubernetes.io/control-plane\":\"\"}\t\t[]\t{}\u{85}\u{2028}evil\t{}\t[]\t[]\t{}\n";
    let labels = json!({"component": "kube-apiserver", "tier": "control-plane"});
    let told = json!({"kubeletVersion": forged, "containerRuntimeVersion": forged});
    lies["10.0.0.1"]["api_nodes"] = json!(listing(&[control_plane(), worker_with(&labels, &told)]));
    lies["10.0.0.1"]["api_pods"] = json!("kube-apiserver w1\netcd w1");
    for (key, value) in [
        ("manifest_kube-apiserver", "spec: {containers: [{command: [a]}]}"),
        ("manifest_etcd", "spec: {containers: [{command: [a]}]}"),
        ("etcd_arguments", "etcd\n--name=cp1"),
        ("etcd_environment", "ETCD_NAME=cp1"),
        ("components", "network-calico addon-metallb addon-coredns load_balancer-kube_vip"),
    ] {
        lies["10.0.0.2"][key] = json!(value);
    }
    for kubeadm in ["", "etcd: {external: {caFile: /etc/ssl/etcd/ssl/ca.pem, endpoints: ['https://10.0.0.1:2379']}}\n"]
    {
        let mut lies = lies.clone();
        let text_before = lies["10.0.0.1"]["api_kubeadm"].as_str().unwrap().to_owned();
        lies["10.0.0.1"]["api_kubeadm"] = json!(text_before + kubeadm);
        let (folder, output) = judge(&lies, "10.0.0.1\n10.0.0.2\n");
        assert!(output.status.success(), "{}", text(&output));
        let made = inventory(&folder);
        for (group, hosts) in [("kube_control_plane", "cp1"), ("etcd", "cp1"), ("kube_node", "w1")] {
            assert_eq!(made[group]["hosts"], json!([hosts]), "{made}");
        }
        let variables = made["_meta"]["hostvars"].as_object().unwrap();
        assert_eq!(variables.keys().collect::<Vec<_>>(), ["cp1", "w1"]);
        for host in ["cp1", "w1"] {
            assert_eq!(variables[host]["kube_network_plugin"], "cni", "{made}");
            assert_eq!(variables[host]["deploy_coredns"], false, "{made}");
            assert_eq!(variables[host]["metallb_enabled"], Value::Null, "{made}");
        }
        assert_eq!(variables["w1"]["etcd_member_name"], Value::Null);
    }
}

/// NodeRestriction keeps kubelets from setting the label, but the host has to run an API server as well.
#[test]
fn labelled_node_without_api_server_is_no_control_plane() {
    let mut odd = seen();
    let label = json!({"node-role.kubernetes.io/control-plane": ""});
    odd["10.0.0.1"]["api_nodes"] = json!(listing(&[control_plane(), worker_with(&label, &info())]));
    let (folder, output) = judge(&odd, "10.0.0.1\n10.0.0.2\n");
    assert_eq!(inventory(&folder)["kube_control_plane"]["hosts"], json!(["cp1"]), "{}", text(&output));
    assert!(text(&output).contains("the label of a control plane and no API server"), "{}", text(&output));
}

#[test]
fn list_of_nodes_that_contradicts_itself_refused() {
    let none = json!({});
    let other = |name: &str, address: &str| row(name, address, &none, &json!([]), &info());
    for (rows, reason) in [
        (vec![control_plane(), worker(), other("w1", "10.0.0.3")], "`w1` is listed twice"),
        (vec![control_plane(), other("{{ 1 }}", "10.0.0.3")], "is no name of a node"),
        (vec![control_plane(), other("w2;id", "10.0.0.3")], "is no name of a node"),
        (vec![control_plane(), other("w2", "10.0.0.1")], "have the same address 10.0.0.1"),
        (vec![control_plane(), other("w2", "127.0.0.1")], "`w2` has the address 127.0.0.1"),
        (vec![control_plane(), other("w2", "fe80::1")], "`w2` has the address fe80::1"),
        (vec![control_plane(), "w2\t{}\t".to_owned()], "the list of nodes has no end"),
    ] {
        let mut seen = seen();
        let mut list = listing(&rows);
        if reason.contains("no end") {
            list.truncate(list.len() - "List".len());
        }
        seen["10.0.0.1"]["api_nodes"] = json!(list);
        let (folder, output) = judge(&seen, "10.0.0.1\n");
        assert!(text(&output).contains(reason), "{reason}: {}", text(&output));
        assert!(!folder.path().join("made").exists());
    }
    // The host that was given at the address of one node names another.
    let mut seen = seen();
    seen["10.0.0.1"]["api_nodes"] = json!(listing(&[control_plane(), worker(), other("cp2", "10.0.0.3")]));
    seen["10.0.0.2"]["name"] = json!("cp2");
    let (folder, output) = judge(&seen, "10.0.0.1\n10.0.0.2\n");
    assert!(text(&output).contains("its address is the one of the node `w1`"), "{}", text(&output));
    assert!(!folder.path().join("made").exists());
}

/// The roles write the variables of one host with its own values only.
#[test]
fn value_of_one_worker_is_no_variable_of_the_others() {
    let mut lies = seen();
    lies["10.0.0.1"].as_object_mut().unwrap().remove("containerd_config");
    lies["10.0.0.2"]["containerd_config"] =
        json!("root = \"/etc\"\nsnapshotter = \"evil\"\nsandbox_image = \"evil.example/pause:1\"\n");
    let (folder, output) = judge(&lies, "10.0.0.1\n10.0.0.2\n");
    let made = inventory(&folder);
    for (name, value) in [("containerd_storage_dir", "/etc"), ("pod_infra_image_repo", "evil.example/pause")] {
        assert_eq!(made["_meta"]["hostvars"]["w1"][name], value, "{}", text(&output));
        assert_eq!(made["_meta"]["hostvars"]["cp1"][name], Value::Null, "{}", text(&output));
    }
    // Both hosts report this value, so it becomes a variable of the cluster.
    assert_eq!(made["_meta"]["hostvars"]["cp1"]["kube_log_level"], 3);
}

/// Kubespray's members have names and may have addresses of their own. Dedicated hosts are known by the address that
/// was given, and never by what they report.
#[test]
fn members_of_etcd_are_known_by_addresses_that_were_given() {
    let mut service = seen();
    let kubeadm = service["10.0.0.1"]["api_kubeadm"].as_str().unwrap().to_owned()
        + "etcd: {external: {caFile: /etc/ssl/etcd/ssl/ca.pem, endpoints: ['https://10.1.0.1:2379']}}\n";
    service["10.0.0.1"]["api_kubeadm"] = json!(kubeadm);
    service["10.0.0.1"]["etcd_environment"] = json!("ETCD_NAME=etcd1\n");
    service["10.0.0.1"]["api_members"] =
        json!(members(&[("etcd1", "10.1.0.1"), ("etcd2", "10.0.0.5"), ("{{ 1 }}", "10.0.0.6"), ("etcd4", "10.0.0.7")]));
    for (host, name) in [("10.0.0.2", "w1"), ("10.0.0.5", "e2"), ("10.0.0.6", "e3"), ("10.0.0.8", "e4")] {
        service[host]["name"] = json!(name);
        service[host]["etcd_arguments"] = json!("/usr/local/bin/etcd");
        service[host]["etcd_environment"] = json!("ETCD_NAME=etcd4\n");
    }
    let (folder, output) = judge(&service, "10.0.0.1\n10.0.0.2\n10.0.0.5\n10.0.0.6\n10.0.0.8\n");
    let (made, shown) = (inventory(&folder), text(&output));
    assert_eq!(made["etcd"]["hosts"], json!(["cp1", "10.0.0.5", "10.0.0.6"]), "{shown}");
    let variables = &made["_meta"]["hostvars"];
    assert_eq!(variables["cp1"]["etcd_member_name"], "etcd1");
    assert_eq!(variables["10.0.0.5"]["etcd_member_name"], "etcd2");
    assert_eq!(variables["10.0.0.6"]["etcd_member_name"], Value::Null);
    assert!(shown.contains("Not represented: the member `etcd4` of etcd at 10.0.0.7"), "{shown}");
}

#[test]
fn cluster_whose_members_of_etcd_are_unknown_refused() {
    let mut silent = seen();
    silent["10.0.0.1"]["api_members"] = json!("");
    let (folder, output) = judge(&silent, "10.0.0.1\n10.0.0.2\n");
    assert!(text(&output).contains("10.0.0.1 does not list the etcd members"), "{}", text(&output));
    assert!(!folder.path().join("made").exists());
}
