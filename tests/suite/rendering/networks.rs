//! Objects of the network plugins and values of their charts.

use serde_json::{Value, json};

use super::{documents, has, render};

/// A manifest with the parts of Calico's that the role needs.
fn calico_manifest() -> Value {
    let pod = |name: &str, image: &str| {
        json!({"spec": {"template": {"spec": {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": name, "image": image, "env": [{"name": "KEPT", "value": "yes"}, {"name": "FELIX_IPV6SUPPORT", "value": "false"}]}]}}}})
    };
    let named = |kind: &str, name: &str, content: Value| {
        let mut object =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "kube-system"}});
        object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        object
    };
    let mut node = pod("calico-node", "upstream/node:1");
    let spec = &mut node["spec"]["template"]["spec"];
    spec["initContainers"] = json!([{"name": "upgrade-ipam", "image": "upstream/cni:1"}, {"name": "install-cni", "image": "upstream/cni:1"},
        {"name": "mount", "image": "upstream/node:1"}]);
    spec["volumes"] = json!([{"name": "kept"}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "kept", "mountPath": "/kept"}]);
    json!([
        named("CustomResourceDefinition", "ippools", json!({})),
        named(
            "ConfigMap",
            "calico-config",
            json!({"data": {"calico_backend": "bird", "cni_network_config":
            "{\"name\": \"n\", \"plugins\": [{\"type\": \"calico\", \"mtu\": __CNI_MTU__, \"log_file_path\": \"/l\"}, {\"type\": \"portmap\"}]}"}})
        ),
        named("DaemonSet", "calico-node", node),
        named("Deployment", "calico-kube-controllers", pod("calico-kube-controllers", "upstream/kube-controllers:1")),
        named("Service", "calico-typha", json!({})),
        named("Deployment", "calico-typha", pod("calico-typha", "upstream/typha:1")),
    ])
}

/// Calico's objects by kind and name, such as `IPPool default-pool`.
fn calico_objects(variables: &Value) -> impl Fn(&str) -> Value + use<> {
    let mut all = json!({"calico_manifest": calico_manifest()});
    all.as_object_mut().unwrap().extend(variables.as_object().unwrap().clone());
    let rendered = render(&["network/calico"], &[("objects.json", "{{ calico_objects | to_json }}")], &all);
    let objects: Vec<Value> = serde_json::from_str(&rendered[0]).unwrap();
    move |name: &str| {
        let is = |object: &&Value| {
            format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap()) == name
        };
        objects.iter().find(is).cloned().unwrap_or_default()
    }
}

/// An environment variable of a workload's container.
fn calico_env(workload: &Value, name: &str) -> Value {
    let env = workload["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let found: Vec<_> = env.iter().filter(|entry| entry["name"] == name).collect();
    assert!(found.len() < 2, "{name} is there twice");
    found.first().map(|entry| entry["value"].clone()).unwrap_or_default()
}

#[test]
fn calico_has_its_defaults() {
    let object = calico_objects(&json!({}));
    has(
        &object("IPPool default-pool"),
        "/spec",
        &json!({"cidr": "10.233.64.0/18", "blockSize": 26, "ipipMode": "Never", "vxlanMode": "Always",
        "natOutgoing": true, "nodeSelector": "all()", "allowedUses": ["Workload", "Tunnel"]}),
    );
    has(&object("ConfigMap calico-config"), "/data/calico_backend", &json!("vxlan"));
    has(&object("ConfigMap calico-config"), "/data/typha_service_name", &json!("none"));
    has(&object("ConfigMap kubernetes-services-endpoint"), "/data/KUBERNETES_SERVICE_HOST", &json!("127.0.0.1"));
    let node = object("DaemonSet calico-node");
    has(
        &node,
        "/spec/template/spec/containers/0/livenessProbe/exec/command",
        &json!(["/bin/calico-node", "-felix-live"]),
    );
    has(&node, "/spec/template/spec/initContainers/1/image", &json!("quay.io/calico/cni:v3.31.7"));
    has(&node, "/spec/template/spec/initContainers/2/image", &json!("quay.io/calico/node:v3.31.7"));
    assert_eq!(calico_env(&node, "KEPT"), "yes");
    assert_eq!(calico_env(&node, "FELIX_IPV6SUPPORT"), Value::Null);
    for absent in
        ["Deployment calico-typha", "Service calico-typha", "BGPConfiguration default", "IPPool default-pool-ipv6"]
    {
        assert_eq!(object(absent), Value::Null, "{absent}");
    }
}

#[test]
fn calico_with_bgp_has_every_field() {
    let object = calico_objects(&json!({
        "calico_network_backend": "bird", "calico_ipip_mode": "CrossSubnet", "calico_vxlan_mode": "Never", "calico_pool_name": "mine",
        "calico_pool_cidr": "10.233.64.0/20", "calico_pool_blocksize": 27, "calico_pool_node_selector": "zone == 'a'", "nat_outgoing": false,
        "calico_mtu": 1400, "calico_cni_name": "net", "calico_cni_log_file_path": false, "calico_allow_ip_forwarding": true,
        "calico_feature_control": {"floating_ips": true}, "calico_ipam_strictaffinity": true, "calico_ipam_maxblocksperhost": 3,
        "global_as_num": 65010, "calico_bgp_listen_port": 1790, "calico_advertise_cluster_ips": true,
        "calico_advertise_service_external_ips": ["198.51.100.0/24"], "calico_advertise_service_loadbalancer_ips": ["203.0.113.0/24"],
        "peer_with_router": true, "peers": [{"router_id": "192.0.2.1", "as": 65000, "filters": ["f"], "numallowedlocalasnumbers": 2},
            {"router_id": "192.0.2.2", "as": 65001, "scope": "global", "sourceaddress": "None", "name": "Edge"}],
        "calico_iptables_backend": "NFT", "calico_felix_chaininsertmode": "Append", "calico_endpoint_to_host_action": "ACCEPT",
        "calico_felix_prometheusmetricsenabled": true, "calico_felix_prometheusmetricsport": 9191, "calico_loglevel": "debug",
        "calico_wireguard_enabled": true, "calico_node_image_repo": "r.example.com/node", "calico_node_image_tag": "v9",
        "calico_node_cpu_limit": 1, "calico_node_memory_requests": "80M", "calico_node_livenessprobe_timeout": 15,
        "calico_node_extra_envs": {"FELIX_DEBUGPORT": 6060, "KEPT": "no"}, "calico_ip_auto_method": "interface=eth1",
        "calico_ds_nodeselector": {"calico": "yes"}, "calico_policy_controller_log_level": "debug",
        "policy_controller_extra_tolerations": [{"key": "k", "operator": "Exists"}]}));
    has(
        &object("IPPool mine"),
        "/spec",
        &json!({"cidr": "10.233.64.0/20", "blockSize": 27, "ipipMode": "CrossSubnet", "vxlanMode": "Never",
        "natOutgoing": false, "nodeSelector": "zone == 'a'", "allowedUses": ["Workload", "Tunnel"]}),
    );
    has(
        &object("IPAMConfig default"),
        "/spec",
        &json!({"autoAllocateBlocks": true, "strictAffinity": true, "maxBlocksPerHost": 3}),
    );
    let config = object("ConfigMap calico-config");
    has(&config, "/data/veth_mtu", &json!("1400"));
    let network: Value = serde_json::from_str(config["data"]["cni_network_config"].as_str().unwrap()).unwrap();
    has(
        &network,
        "",
        &json!({"name": "net", "plugins": [{"type": "calico", "mtu": 1400, "ipam": {"type": "calico-ipam", "assign_ipv4": "true",
        "assign_ipv6": "false"}, "container_settings": {"allow_ip_forwarding": true}, "feature_control": {"floating_ips": true}}, {"type": "portmap"}]}),
    );
    has(
        &object("BGPConfiguration default"),
        "/spec",
        &json!({"asNumber": 65010, "listenPort": 1790, "logSeverityScreen": "Info",
        "nodeToNodeMeshEnabled": false, "serviceClusterIPs": [{"cidr": "10.233.0.0/18"}], "serviceExternalIPs": [{"cidr": "198.51.100.0/24"}],
        "serviceLoadBalancerIPs": [{"cidr": "203.0.113.0/24"}]}),
    );
    has(
        &object("BGPPeer worker1-192.0.2.1"),
        "/spec",
        &json!({"node": "worker1", "peerIP": "192.0.2.1", "asNumber": 65000,
        "sourceAddress": "UseNodeIP", "filters": ["f"], "numAllowedLocalASNumbers": 2}),
    );
    has(
        &object("BGPPeer global-edge"),
        "/spec",
        &json!({"peerIP": "192.0.2.2", "asNumber": 65001, "sourceAddress": "None"}),
    );
    let felix = object("FelixConfiguration default");
    for (name, value) in [
        ("iptablesBackend", json!("NFT")),
        ("chainInsertMode", json!("Append")),
        ("defaultEndpointToHostAction", json!("Accept")),
        ("prometheusMetricsEnabled", json!(true)),
        ("prometheusMetricsPort", json!(9191)),
        ("logSeverityScreen", json!("Debug")),
        ("wireguardEnabled", json!(true)),
        ("wireguardEnabledV6", json!(false)),
    ] {
        has(&felix, &format!("/spec/{name}"), &value);
    }
    let node = object("DaemonSet calico-node");
    let container = &node["spec"]["template"]["spec"]["containers"][0];
    has(container, "/image", &json!("r.example.com/node:v9"));
    has(
        container,
        "/resources",
        &json!({"limits": {"cpu": "1", "memory": "500M"}, "requests": {"cpu": "150m", "memory": "80M"}}),
    );
    has(
        container,
        "/livenessProbe",
        &json!({"exec": {"command": ["/bin/calico-node", "-felix-live", "-bird-live"]}, "timeoutSeconds": 15}),
    );
    has(&node, "/spec/template/spec/nodeSelector/calico", &json!("yes"));
    has(&node, "/spec/template/metadata/annotations/prometheus.io~1port", &json!("9191"));
    assert_eq!(calico_env(&node, "FELIX_DEBUGPORT"), "6060");
    assert_eq!(calico_env(&node, "KEPT"), "no");
    assert_eq!(calico_env(&node, "IP_AUTODETECTION_METHOD"), "interface=eth1");
    let controllers = object("Deployment calico-kube-controllers");
    assert_eq!(calico_env(&controllers, "LOG_LEVEL"), "debug");
    has(&controllers, "/spec/template/spec/tolerations/1/key", &json!("k"));
}

#[test]
fn calico_restarts_the_nodes_whose_bgp_differs() {
    let pod = |name: &str, probes: Value| {
        let containers = json!([{"readinessProbe": {"exec": {"command": probes}}}]);
        json!({"metadata": {"name": name}, "spec": {"containers": containers}})
    };
    let pods = json!({"resources": [
        pod("with", json!(["/bin/calico-node", "-felix-ready", "-bird-ready"])),
        pod("without", json!(["/bin/calico-node", "-felix-ready"])),
    ]});
    let restarted = |variables: Value| {
        let rendered =
            render(&["network/calico"], &[("pods.json", "{{ calico_pods_to_restart | to_json }}")], &variables);
        serde_json::from_str::<Value>(&rendered[0]).unwrap()
    };
    assert_eq!(restarted(json!({"calico_node_pods": pods, "calico_network_backend": "bird"})), json!(["without"]));
    assert_eq!(restarted(json!({"calico_node_pods": pods})), json!(["with"]));
    assert_eq!(restarted(json!({"calico_network_backend": "bird"})), json!([]));
}

#[test]
fn calico_with_ebpf_typha_and_both_families_has_every_field() {
    let object = calico_objects(&json!({
        "kube_proxy_remove": true, "calico_bpf_enabled": true, "calico_bpf_service_mode": "DSR", "calico_bpf_log_level": "Debug",
        "calico_network_backend": "bird", "calico_vxlan_mode": "Never", "calico_vxlan_mode_ipv6": "Never", "calico_ipam_host_local": true,
        "ipv6_stack": true, "nat_outgoing_ipv6": true, "typha_enabled": true, "typha_replicas": 2, "typha_secure": true,
        "typha_max_connections_lower_limit": 50, "typha_prometheusmetricsenabled": true, "kube_apiserver_node_port_range": "31000-31999"}));
    let felix = object("FelixConfiguration default");
    for (name, value) in [
        ("bpfEnabled", json!(true)),
        ("bpfExternalServiceMode", json!("DSR")),
        ("bpfLogLevel", json!("Debug")),
        ("ipv6Support", json!(true)),
    ] {
        has(&felix, &format!("/spec/{name}"), &value);
    }
    let pool = object("IPPool default-pool-ipv6");
    has(&pool, "/spec/natOutgoing", &json!(true));
    has(&pool, "/spec/blockSize", &json!(122));
    let node = object("DaemonSet calico-node");
    assert_eq!(calico_env(&node, "IP6"), "autodetect");
    assert_eq!(calico_env(&node, "USE_POD_CIDR"), "true");
    assert_eq!(calico_env(&node, "FELIX_TYPHACN"), "typha-server");
    assert_eq!(calico_env(&node, "FELIX_KUBENODEPORTRANGES"), "31000:31999");
    has(&node, "/spec/template/spec/initContainers/0/name", &json!("install-cni"));
    has(
        &node,
        "/spec/template/spec/volumes/1",
        &json!({"name": "typha-tls", "secret": {"secretName": "calico-node-typha"}}),
    );
    has(&object("ConfigMap calico-config"), "/data/typha_service_name", &json!("calico-typha"));
    let typha = object("Deployment calico-typha");
    has(&typha, "/spec/replicas", &json!(2));
    assert_eq!(calico_env(&typha, "TYPHA_MAXCONNECTIONSLOWERLIMIT"), "50");
    assert_eq!(calico_env(&typha, "TYPHA_PROMETHEUSMETRICSPORT"), "9093");
    assert_eq!(calico_env(&typha, "TYPHA_CLIENTCN"), "typha-client");
    has(&typha, "/spec/template/spec/volumes/0/secret/secretName", &json!("calico-typha"));
}

#[test]
fn calico_with_ipv6_alone_has_no_pool_and_no_address_of_ipv4() {
    let object = calico_objects(&json!({"ipv4_stack": false, "ipv6_stack": true, "calico_wireguard_enabled": true}));
    assert_eq!(object("IPPool default-pool"), Value::Null);
    has(&object("IPPool default-pool-ipv6"), "/spec/vxlanMode", &json!("Always"));
    let node = object("DaemonSet calico-node");
    for (name, value) in [
        ("IP", json!("none")),
        ("IP6", json!("autodetect")),
        ("CALICO_ROUTER_ID", json!("hash")),
        ("IP_AUTODETECTION_METHOD", Value::Null),
    ] {
        assert_eq!(calico_env(&node, name), value, "{name}");
    }
    has(&object("FelixConfiguration default"), "/spec/wireguardEnabled", &json!(false));
    has(&object("FelixConfiguration default"), "/spec/wireguardEnabledV6", &json!(true));
    let config = object("ConfigMap calico-config")["data"]["cni_network_config"].as_str().unwrap().to_owned();
    let plugins: Value = serde_json::from_str(&config).unwrap();
    let wanted = json!({"type": "calico-ipam", "assign_ipv4": "false", "assign_ipv6": "true"});
    has(&plugins, "/plugins/0/ipam", &wanted);
}

/// The DaemonSet of an upstream manifest, with the containers that a role looks for.
fn daemonset(name: &str, containers: &[&str], init_containers: &[&str]) -> Value {
    let bare = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({"name": name, "image": "x", "args": [], "volumeMounts": []})).collect()
    };
    let (containers, init_containers) = (bare(containers), bare(init_containers));
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": containers, "initContainers": init_containers, "volumes": []}}},
    })
}

#[test]
fn flannel_has_every_setting() {
    let mut variables = json!({
        "kube_network_plugin": "flannel", "kube_pods_subnet": "10.240.0.0/16", "ipv6_stack": true, "kube_pods_subnet_ipv6": "fd85:1::/56",
        "kube_proxy_mode": "nftables", "flannel_backend_type": "vxlan", "flannel_vxlan_vni": 7, "flannel_vxlan_port": 8473,
        "flannel_vxlan_direct_routing": true, "flannel_interface": "eth1", "flannel_interface_regexp": "eth[12]", "flannel_healthz_port": 8083,
        "flannel_memory_limit": "600M", "flannel_cpu_limit": "400m", "flannel_memory_requests": "70M", "flannel_cpu_requests": "160m",
        "flannel_image_repo": "r.example.com/flannel", "flannel_image_tag": "v9", "flannel_init_image_repo": "r.example.com/plugin",
        "flannel_init_image_tag": "v8",
    });
    let mut pods = daemonset("kube-flannel-ds", &["kube-flannel"], &["install-cni-plugin", "install-cni"]);
    pods["spec"]["template"]["spec"]["containers"][0]["args"] =
        json!(["--ip-masq", "--kube-subnet-mgr", "--iface=eth0"]);
    variables["cluster_manifest"] = json!([
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-flannel"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-flannel-cfg"}, "data": {"cni-conf.json": "{}", "net-conf.json": "{}"}},
        pods,
    ]);
    let rendered = |variables: &Value| -> Value {
        let files = [("objects", "{{ flannel_objects | to_json }}")];
        serde_json::from_str(&render(&["network/flannel"], &files, variables)[0]).unwrap()
    };
    let objects = rendered(&variables);
    has(&objects, "/0/kind", &json!("Namespace"));
    has(&objects, "/1/data/cni-conf.json", &json!("{}"));
    let network: Value = serde_json::from_str(objects[1]["data"]["net-conf.json"].as_str().unwrap()).unwrap();
    let expected = json!({
        "Network": "10.240.0.0/16", "EnableIPv4": true, "EnableIPv6": true, "IPv6Network": "fd85:1::/56", "EnableNFTables": true,
        "Backend": {"Type": "vxlan", "VNI": 7, "Port": 8473, "DirectRouting": true},
    });
    assert_eq!(network, expected);
    let pod = &objects[2]["spec"]["template"]["spec"];
    for (pointer, wanted) in [
        ("/containers/0/image", json!("r.example.com/flannel:v9")),
        (
            "/containers/0/args",
            json!(["--ip-masq", "--kube-subnet-mgr", "--healthz-port=8083", "--iface=eth1", "--iface-regex=eth[12]"]),
        ),
        ("/containers/0/ports/0/containerPort", json!(8083)),
        ("/containers/0/resources/requests", json!({"cpu": "160m", "memory": "70M"})),
        ("/containers/0/resources/limits", json!({"cpu": "400m", "memory": "600M"})),
        ("/initContainers/0/image", json!("r.example.com/plugin:v8")),
        ("/initContainers/1/image", json!("r.example.com/flannel:v9")),
    ] {
        has(pod, pointer, &wanted);
    }
    // Changed settings restart the pods; a backend without settings has none of VXLAN's.
    variables["flannel_backend_type"] = json!("host-gw");
    let changed = rendered(&variables);
    let settings = "/2/spec/template/metadata/annotations/windlass~1settings";
    assert_ne!(changed.pointer(settings), objects.pointer(settings));
    let network: Value = serde_json::from_str(changed[1]["data"]["net-conf.json"].as_str().unwrap()).unwrap();
    has(&network, "/Backend", &json!({"Type": "host-gw"}));
    variables["ipv4_stack"] = json!(false);
    let alone = rendered(&variables);
    let network: Value = serde_json::from_str(alone[1]["data"]["net-conf.json"].as_str().unwrap()).unwrap();
    has(&network, "/EnableIPv4", &json!(false));
    assert_eq!(network.get("Network"), None);
}

#[test]
fn kube_router_has_every_setting() {
    let mut variables: Value = serde_json::from_str(
        r#"{
        "kube_network_plugin": "kube-router", "kube_proxy_remove": true, "ipv6_stack": true, "loadbalancer_apiserver_port": 8444,
        "kube_router_run_service_proxy": true, "kube_router_run_firewall": false, "kube_router_enable_dsr": true,
        "kube_router_support_hairpin_mode": true, "kube_router_enable_overlay": false, "kube_router_overlay_type": "full",
        "kube_router_mtu": 1400, "kube_router_cluster_asn": 64513, "kube_router_enable_ibgp": false,
        "kube_router_nodes_full_mesh": false, "kube_router_bgp_graceful_restart": false,
        "kube_router_advertise_cluster_ip": true, "kube_router_advertise_external_ip": true,
        "kube_router_advertise_loadbalancer_ip": true, "kube_router_peer_router_ips": "192.0.2.1,192.0.2.2",
        "kube_router_peer_router_asns": "65001,65002", "kube_router_peer_router_ports": [1790, 1791],
        "kube_router_peer_router_passwords": ["word", ""], "kube_router_peer_router_multihop_ttl": 3,
        "kube_router_annotations_all": ["kube-router.io/node.asn=64600"], "kube_router_annotations_master": ["a.b/c=d=e"],
        "kube_router_enable_metrics": true, "kube_router_metrics_port": 9300, "kube_router_metrics_path": "/m",
        "kube_router_extra_args": ["--v=2"], "kube_router_dns_policy": "Default",
        "kube_router_tolerations": [{"key": "a", "operator": "Exists"}], "kube_router_image_repo": "r.example.com/kr",
        "kube_router_image_tag": "v9"
    }"#,
    )
    .unwrap();
    variables["cluster_manifest"] = json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-router-cfg", "namespace": "kube-system"}, "data": {}},
            daemonset("kube-router", &["kube-router"], &["install-cni"]),
    ]);
    let files = [
        ("objects", "{{ kube_router_objects | to_json }}"),
        ("secrets", "{{ kube_router_secrets | to_json }}"),
        ("annotations", "{{ kube_router_annotations | to_json }}"),
    ];
    let rendered: Vec<Value> = render(&["network/kube_router"], &files, &variables)
        .iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect();
    let (config, pod) = (&rendered[0][0]["data"], &rendered[0][1]["spec"]["template"]);
    for (pointer, wanted) in [
        ("/metadata/annotations/prometheus.io~1port", json!("9300")),
        ("/metadata/annotations/prometheus.io~1path", json!("/m")),
        ("/spec/dnsPolicy", json!("Default")),
        ("/spec/hostIPC", json!(true)),
        ("/spec/tolerations", json!([{"key": "a", "operator": "Exists"}])),
        ("/spec/containers/0/image", json!("r.example.com/kr:v9")),
        ("/spec/initContainers/0/image", json!("r.example.com/kr:v9")),
        ("/spec/containers/0/ports/0/containerPort", json!(9300)),
        ("/spec/volumes/0/secret/secretName", json!("kube-router-peers")),
        ("/spec/volumes/1/hostPath/path", json!("/run/containerd/containerd.sock")),
        ("/spec/containers/0/volumeMounts/0/mountPath", json!("/etc/kube-router-peers")),
    ] {
        has(pod, pointer, &wanted);
    }
    let expected = "--kubeconfig=/var/lib/kube-router/kubeconfig --run-router=true --run-firewall=false --run-service-proxy=true \
        --enable-ipv4=true --enable-ipv6=true --service-cluster-ip-range=10.233.0.0/18,fd85:ee78:d8a6:8607::1000/116 --enable-overlay=false --overlay-type=full \
        --auto-mtu=false --enable-ibgp=false --nodes-full-mesh=false --bgp-graceful-restart=false --advertise-cluster-ip=true \
        --advertise-external-ip=true --advertise-loadbalancer-ip=true --cluster-asn=64513 --peer-router-ips=192.0.2.1,192.0.2.2 \
        --peer-router-asns=65001,65002 --peer-router-ports=1790,1791 --peer-router-passwords-file=/etc/kube-router-peers/passwords \
        --peer-router-multihop-ttl=3 --metrics-path=/m --metrics-port=9300 --runtime-endpoint=unix:///run/containerd/containerd.sock --v=2";
    let flags: Vec<&str> = expected.split_whitespace().collect();
    has(pod, "/spec/containers/0/args", &json!(flags));
    let network: Value = serde_json::from_str(config["cni-conf.json"].as_str().unwrap()).unwrap();
    has(&network, "/plugins/0/hairpinMode", &json!(true));
    has(&network, "/plugins/0/mtu", &json!(1400));
    assert!(config["kubeconfig"].as_str().unwrap().contains("server: https://127.0.0.1:8444"), "{config}");
    // Both passwords in base64, then the file.
    has(&rendered[1], "/0/data/passwords", &json!("ZDI5eVpBPT0s"));
    assert_eq!(rendered[2], json!({"a.b/c": "d=e", "kube-router.io/node.asn": "64600"}));
    // kube-router reads annotations only when it starts.
    let settings = |variables: &Value| -> String {
        let text = "{{ (kube_router_objects | last).spec.template.metadata.annotations['windlass/settings'] }}";
        render(&["network/kube_router"], &[("settings", text)], variables).remove(0)
    };
    let mut changed = variables.clone();
    changed["kube_router_annotations_all"] = json!(["kube-router.io/node.asn=64601"]);
    assert_ne!(settings(&variables), settings(&changed));
    // Without an IPv4 address, a router has no number of its own.
    variables["ipv4_stack"] = json!(false);
    let files = [("args", "{{ kube_router_args | to_json }}")];
    let alone = render(&["network/kube_router"], &files, &variables).remove(0);
    for flag in
        ["--enable-ipv4=false", "--router-id=generate", "--service-cluster-ip-range=fd85:ee78:d8a6:8607::1000/116"]
    {
        assert!(alone.contains(&format!("\"{flag}\"")), "{flag} is not in {alone}");
    }
}

#[test]
fn multus_has_every_setting() {
    let variables = json!({
        "cluster_manifest": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "multus-cni-config", "namespace": "kube-system"}, "data": {}},
            daemonset("kube-multus-ds", &["kube-multus"], &["install-multus-binary"]),
        ],
        "kube_network_plugin": "flannel", "kube_network_plugin_multus": true, "container_manager": "crio",
        "multus_conf_file": "/h/conf/70-multus.conf", "multus_namespace_isolation": true, "multus_cni_conf_dir_host": "/etc/n",
        "multus_cni_bin_dir_host": "/opt/n", "multus_cni_run_dir_host": "/run/n", "multus_cni_conf_dir": "/h/conf",
        "multus_cni_bin_dir": "/h/bin", "multus_cni_run_dir": "/h/run", "multus_kubeconfig_file_host": "/etc/n/k",
        "multus_memory_limit": "1Gi", "multus_cpu_limit": "1", "multus_memory_requests": "2Gi", "multus_cpu_requests": "2",
        "multus_image_repo": "r.example.com/multus", "multus_image_tag": "v9",
    });
    let files = [("objects", "{{ multus_objects | to_json }}"), ("leftovers", "{{ multus_leftovers | to_json }}")];
    let rendered: Vec<Value> =
        render(&["addon/multus"], &files, &variables).iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let pod = &rendered[0][0]["spec"]["template"];
    for (pointer, wanted) in [
        ("/metadata/annotations/windlass~1network", json!("flannel")),
        ("/spec/volumes/0/hostPath/path", json!("/etc/n")),
        ("/spec/volumes/1/hostPath/path", json!("/opt/n")),
        ("/spec/volumes/2/hostPath/path", json!("/run/n")),
        ("/spec/containers/0/image", json!("r.example.com/multus:v9")),
        (
            "/spec/containers/0/resources",
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "2Gi"}}),
        ),
        ("/spec/containers/0/volumeMounts/0/mountPath", json!("/h/conf")),
        (
            "/spec/containers/0/volumeMounts/2",
            json!({"name": "run", "mountPath": "/h/run", "mountPropagation": "HostToContainer"}),
        ),
        ("/spec/initContainers/0/image", json!("r.example.com/multus:v9")),
        ("/spec/initContainers/0/args/3", json!("/h/bin")),
        ("/spec/initContainers/0/volumeMounts/0/mountPath", json!("/h/bin")),
    ] {
        has(pod, pointer, &wanted);
    }
    let expected = "--multus-conf-file=/h/conf/70-multus.conf --multus-autoconfig-dir=/h/conf --cni-conf-dir=/h/conf --cni-bin-dir=/h/bin \
        --multus-kubeconfig-file-host=/etc/n/k --namespace-isolation=true --cleanup-config-on-exit=true";
    let flags: Vec<&str> = expected.split_whitespace().collect();
    has(pod, "/spec/containers/0/args", &json!(flags));
    assert_eq!(rendered[0].as_array().unwrap().len(), 1, "{}", rendered[0]);
    for file in ["/etc/n/70-multus.conf", "/etc/n/00-multus.conf", "/etc/n/00-multus.conf.new"] {
        assert!(rendered[1].as_array().unwrap().contains(&json!(file)), "{file} in {}", rendered[1]);
    }
}

#[test]
fn cilium_values_follow_every_variable() {
    let files = [
        ("values.json", "{{ cilium_values | to_json }}"),
        ("objects.yaml", "{{ lookup('template', '{root}/roles/network/cilium/templates/objects.yaml.j2') }}"),
        ("kubeadm.json", "{{ {'skip': kube_proxy_remove} | to_json }}"),
    ];
    let mut settings = json!({
        "kube_network_plugin": "cilium", "loadbalancer_apiserver": {"address": "fd00::9", "port": 7443},
        "loadbalancer_apiserver_localhost": false, "ipv6_stack": true, "enable_nodelocaldns": true,
        "cilium_tunnel_mode": "disabled", "cilium_auto_direct_node_routes": true, "cilium_native_routing_cidr": "10.0.0.0/8",
        "cilium_native_routing_cidr_ipv6": "fd00::/8", "cilium_mtu": "1400", "cilium_ipam_mode": "multi-pool",
        "cilium_pool_cidr": "10.240.0.0/16", "cilium_pool_mask_size": 25, "cilium_kube_proxy_replacement": true,
        "cilium_loadbalancer_mode": "dsr", "cilium_l2announcements": true, "cilium_enable_bpf_masquerade": true,
        "cilium_ip_masq_agent_enable": true, "cilium_ip_masq_resync_interval": "30s", "cilium_encryption_enabled": true,
        "cilium_encryption_type": "wireguard", "cilium_encryption_node_encryption": true, "cilium_enable_hubble": true,
        "cilium_hubble_metrics": ["dns"], "cilium_hubble_tls_generate": true, "cilium_hubble_event_buffer_capacity": 8191,
        "cilium_enable_bgp_control_plane": true, "cilium_image_tag": "v9", "cilium_cpu_limit": 1,
        "cilium_config_extra_vars": {"enable-endpoint-routes": true, "limit": 5},
        "cilium_extra_values": {"hubble": {"relay": {"replicas": 3}}, "devices": ["eth0"]},
        "cilium_loadbalancer_ip_pools": [{"name": "blue", "cidrs": ["192.0.2.0/24"], "ranges": [{"start": "198.51.100.7"}]}],
        "cilium_bgp_advertisements": [{"name": "pods", "labels": {"advertise": "bgp"}, "spec": {"advertisements": []}}],
        "cilium_pod_ip_pools": [{"name": "mars", "spec": {"ipv4": {"cidrs": ["10.20.0.0/16"], "maskSize": 27}}}],
    });
    let rendered = render(&["network/cilium"], &files, &settings);
    let values: Value = serde_json::from_str(&rendered[0]).unwrap();
    for (pointer, wanted) in [
        ("/k8sServiceHost", json!("fd00::9")),
        ("/k8sServicePort", json!(7443)),
        ("/routingMode", json!("native")),
        ("/tunnelProtocol", json!("")),
        ("/autoDirectNodeRoutes", json!(true)),
        ("/ipv4NativeRoutingCIDR", json!("10.0.0.0/8")),
        ("/ipv6NativeRoutingCIDR", json!("fd00::/8")),
        ("/ipv6/enabled", json!(true)),
        ("/MTU", json!(1400)),
        ("/ipam/mode", json!("multi-pool")),
        ("/ipam/operator/clusterPoolIPv4PodCIDRList", json!(["10.240.0.0/16"])),
        ("/ipam/operator/autoCreateCiliumPodIPPools/default/ipv4", json!({"cidrs": ["10.240.0.0/16"], "maskSize": 25})),
        ("/kubeProxyReplacement", json!(true)),
        ("/loadBalancer/mode", json!("dsr")),
        ("/l2announcements/enabled", json!(true)),
        ("/dnsProxy/enableTransparentMode", json!(false)),
        ("/ipMasqAgent/config/resyncInterval", json!("30s")),
        ("/encryption", json!({"enabled": true, "type": "wireguard", "nodeEncryption": true})),
        ("/hubble/relay/enabled", json!(true)),
        ("/hubble/relay/replicas", json!(3)),
        ("/hubble/ui/enabled", json!(true)),
        ("/hubble/metrics/enabled", json!(["dns"])),
        ("/hubble/tls/auto/method", json!("cronJob")),
        ("/hubble/eventBufferCapacity", json!(8191)),
        ("/bgpControlPlane/enabled", json!(true)),
        ("/extraConfig", json!({"enable-endpoint-routes": "true", "limit": "5"})),
        ("/devices", json!(["eth0"])),
        ("/resources/limits/cpu", json!("1")),
        // The chart's digest belongs to another image.
        ("/image/useDigest", json!(false)),
        ("/operator/image/useDigest", json!(true)),
    ] {
        has(&values, pointer, &wanted);
    }
    let objects = documents(&rendered[1]);
    let kinds: Vec<_> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    assert_eq!(kinds, ["CiliumPodIPPool", "CiliumLoadBalancerIPPool", "CiliumBGPAdvertisement"]);
    has(&objects[0], "/apiVersion", &json!("cilium.io/v2alpha1"));
    has(&objects[1], "/metadata", &json!({"name": "blue"}));
    has(
        &objects[1],
        "/spec/blocks",
        &json!([{"cidr": "192.0.2.0/24"}, {"start": "198.51.100.7", "stop": "198.51.100.7"}]),
    );
    has(&objects[2], "/metadata/labels", &json!({"advertise": "bgp"}));
    assert_eq!(rendered[2], "{\"skip\": true}");

    settings = json!({"kube_network_plugin": "cilium", "cilium_tunnel_mode": "geneve", "image_archives": [{"file": "a.tar", "names": []}]});
    let rendered = render(&["network/cilium"], &files, &settings);
    let values: Value = serde_json::from_str(&rendered[0]).unwrap();
    for (pointer, wanted) in [
        ("/k8sServiceHost", json!("127.0.0.1")),
        ("/routingMode", json!("tunnel")),
        ("/tunnelProtocol", json!("geneve")),
        ("/hubble/enabled", json!(false)),
        ("/operator/image/useDigest", json!(false)),
    ] {
        has(&values, pointer, &wanted);
    }
    assert!(documents(&rendered[1]).iter().all(Value::is_null), "{}", rendered[1]);
    assert_eq!(rendered[2], "{\"skip\": false}");

    settings["ipv4_stack"] = json!(false);
    settings["ipv6_stack"] = json!(true);
    let rendered = render(&["network/cilium"], &files, &settings);
    let values: Value = serde_json::from_str(&rendered[0]).unwrap();
    has(&values, "/ipv4/enabled", &json!(false));
    has(&values, "/underlayProtocol", &json!("ipv6"));
}

#[test]
fn kube_ovn_has_every_setting() {
    let mut variables: Value = serde_json::from_str(
        r#"{
        "kube_network_plugin": "kube-ovn", "ipv6_stack": true, "enable_nodelocaldns": true, "kube_ovn_version": "1.13.15",
        "kube_ovn_container_image_repo": "r.example.com:5000/a/ovn", "kube_ovn_container_image_tag": "v9",
        "kube_ovn_vpc_container_image_repo": "r.example.com:5000/gateway", "kube_ovn_vpc_container_image_tag": "v9",
        "kube_ovn_dpdk_container_image_repo": "r.example.com:5000/dpdk", "kube_ovn_dpdk_container_image_tag": "20-v9",
        "kube_ovn_central_hosts": ["cp1", "worker1"], "kube_ovn_network_type": "vlan", "kube_ovn_tunnel_type": "vxlan",
        "kube_ovn_iface": "eth1", "kube_ovn_default_interface_name": "eth2", "kube_ovn_default_vlan_id": 7,
        "kube_ovn_vlan_name": "red", "kube_ovn_pod_nic_type": "internal_port", "kube_ovn_hw_offload": true,
        "kube_ovn_traffic_mirror": true, "kube_ovn_cni_config_priority": "05", "kube_ovn_default_gateway": "10.233.64.1,fd85::1",
        "kube_ovn_default_gateway_check": false, "kube_ovn_default_logical_gateway": true,
        "kube_ovn_default_exclude_ips": "10.233.64.2", "kube_ovn_u2o_interconnection": true,
        "kube_ovn_node_switch_cidr": "100.65.0.0/16", "kube_ovn_node_switch_cidr_ipv6": "fd00:1::/64",
        "kube_ovn_external_address": "192.0.2.1", "kube_ovn_external_address_ipv6": "2001:db8::1",
        "kube_ovn_external_dns": "example.com", "kube_ovn_enable_lb": false, "kube_ovn_enable_np": false,
        "kube_ovn_enable_external_vpc": false, "kube_ovn_eip_snat_enabled": false, "kube_ovn_ls_dnat_mod_dl_dst": false,
        "kube_ovn_keep_vm_ip": false, "kube_ovn_bind_local_ip_enabled": false, "kube_ovn_enable_ssl": true,
        "kube_ovn_ic_enable": true, "kube_ovn_ic_autoroute": false, "kube_ovn_ic_dbhost": "192.0.2.2", "kube_ovn_ic_zone": "z",
        "kube_ovn_dpdk_enabled": true, "kube_ovn_dpdk_tunnel_iface": "br9"
    }"#,
    )
    .unwrap();
    for (number, part) in
        ["dpdk_node", "db", "node", "cni_server", "controller", "pinger", "monitor"].iter().enumerate()
    {
        for resource in ["cpu", "memory"] {
            let request = format!("{}{resource}", number + 1);
            let limit = if *part == "dpdk_node" { request.clone() } else { format!("{}{resource}", number + 11) };
            variables[format!("kube_ovn_{part}_{resource}_request")] = json!(request);
            variables[format!("kube_ovn_{part}_{resource}_limit")] = json!(limit);
        }
    }
    let files = [("values", "{{ kube_ovn_values | to_json }}"), ("objects", "{{ kube_ovn_objects | to_json }}")];
    let rendered: Vec<Value> = render(&["network/kube_ovn"], &files, &variables)
        .iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect();
    let values = &rendered[0];
    for (pointer, wanted) in [
        ("/global/registry/address", json!("r.example.com:5000")),
        ("/global/images/kubeovn/repository", json!("a/ovn")),
        ("/global/images/kubeovn/tag", json!("v9")),
        ("/global/images/kubeovn/vpcRepository", json!("gateway")),
        ("/global/images/natgateway", json!({"repository": "gateway", "tag": "v9"})),
        ("/global/images/kubeovn/dpdkRepository", json!("dpdk")),
        ("/MASTER_NODES", json!("10.0.0.1,10.0.0.2")),
        ("/replicaCount", json!(2)),
        ("/networking/NET_STACK", json!("dual_stack")),
        ("/networking/ENABLE_SSL", json!(true)),
        ("/networking/NETWORK_TYPE", json!("vlan")),
        ("/networking/TUNNEL_TYPE", json!("vxlan")),
        ("/networking/IFACE", json!("eth1")),
        ("/networking/DPDK_TUNNEL_IFACE", json!("br9")),
        ("/networking/EXCLUDE_IPS", json!("10.233.64.2")),
        ("/networking/POD_NIC_TYPE", json!("internal-port")),
        ("/networking/ENABLE_EIP_SNAT", json!(false)),
        ("/networking/NODE_LOCAL_DNS_IP", json!("169.254.25.10")),
        ("/networking/vlan", json!({"VLAN_INTERFACE_NAME": "eth2", "VLAN_NAME": "red", "VLAN_ID": "7"})),
        ("/func/CHECK_GATEWAY", json!(false)),
        ("/func/LOGICAL_GATEWAY", json!(true)),
        ("/func/ENABLE_LB", json!(false)),
        ("/func/ENABLE_NP", json!(false)),
        ("/func/ENABLE_EXTERNAL_VPC", json!(false)),
        ("/func/HW_OFFLOAD", json!(true)),
        ("/func/ENABLE_KEEP_VM_IP", json!(false)),
        ("/func/ENABLE_IC", json!(true)),
        ("/func/LS_DNAT_MOD_DL_DST", json!(false)),
        ("/func/ENABLE_BIND_LOCAL_IP", json!(false)),
        ("/func/U2O_INTERCONNECTION", json!(true)),
        ("/ipv4", json!({})),
        ("/dual_stack/POD_CIDR", json!("10.233.64.0/18,fd85:ee78:d8a6:8607::1:0000/112")),
        ("/dual_stack/POD_GATEWAY", json!("10.233.64.1,fd85::1")),
        ("/dual_stack/SVC_CIDR", json!("10.233.0.0/18,fd85:ee78:d8a6:8607::1000/116")),
        ("/dual_stack/JOIN_CIDR", json!("100.65.0.0/16,fd00:1::/64")),
        ("/dual_stack/PINGER_EXTERNAL_ADDRESS", json!("192.0.2.1,2001:db8::1")),
        ("/dual_stack/PINGER_EXTERNAL_DOMAIN", json!("example.com")),
        ("/debug/ENABLE_MIRROR", json!(true)),
        ("/cni_conf", json!({"CHECK_GATEWAY": false, "LOGICAL_GATEWAY": true, "CNI_CONFIG_PRIORITY": "05"})),
        ("/DPDK", json!(true)),
        ("/DPDK_VERSION", json!("20")),
        ("/DPDK_CPU", json!("1cpu")),
        ("/DPDK_MEMORY", json!("1memory")),
        ("/ovn-central/requests", json!({"cpu": "2cpu", "memory": "2memory"})),
        ("/ovn-central/limits", json!({"cpu": "12cpu", "memory": "12memory"})),
        ("/ovs-ovn/requests/cpu", json!("3cpu")),
        ("/ovs-ovn/limits/memory", json!("13memory")),
        ("/kube-ovn-cni/requests/memory", json!("4memory")),
        ("/kube-ovn-cni/limits/cpu", json!("14cpu")),
        ("/kube-ovn-controller/requests/cpu", json!("5cpu")),
        ("/kube-ovn-controller/limits/memory", json!("15memory")),
        ("/kube-ovn-pinger/requests/memory", json!("6memory")),
        ("/kube-ovn-pinger/limits/cpu", json!("16cpu")),
        ("/kube-ovn-monitor/requests/cpu", json!("7cpu")),
        ("/kube-ovn-monitor/limits/memory", json!("17memory")),
    ] {
        has(values, pointer, &wanted);
    }
    let settings = json!({"enable-ic": "true", "az-name": "z", "ic-db-host": "192.0.2.2", "ic-nb-port": "6645", "ic-sb-port": "6646",
        "gw-nodes": "cp1,worker1", "auto-route": "false"});
    has(&rendered[1], "/0/data", &settings);
}
