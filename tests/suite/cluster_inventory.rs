//! Inventories that `playbooks/cluster.yml` must refuse with a message before it contacts any host.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const GROUPS: &str = "
[kube_control_plane]
cp1

[etcd]
cp1

[kube_node]
worker1

[k8s_cluster:children]
kube_control_plane
kube_node
";

#[test]
fn default_cluster_lists_fewer_than_150_tasks() {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "inventory/sample", "playbooks/cluster.yml", "--list-tasks"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let listing = String::from_utf8(output.stdout).unwrap();
    let tasks = listing.lines().filter(|line| line.contains("TAGS: ") && !line.contains("play #")).count();
    assert!((50..150).contains(&tasks), "{tasks} tasks:\n{listing}");
}

/// Exit status and output of a playbook for an inventory in a folder, whose hosts do not exist.
fn played(folder: &Path, playbook: &str, inventory: &str, variables: &str) -> (Option<i32>, String) {
    let file = folder.join("inventory");
    let nowhere = "[all:vars]\nansible_host=127.0.0.1\nansible_port=1\n";
    fs::write(&file, format!("{inventory}\n{nowhere}{variables}\n")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", playbook, "-i"])
        .arg(&file)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code(), text)
}

/// Output of `playbooks/cluster.yml` for an inventory that it refuses.
fn refusal(inventory: &str, variables: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (status, told) = played(folder.path(), "playbooks/cluster.yml", inventory, variables);
    assert_eq!(status, Some(2), "{told}");
    assert!(!told.contains("unreachable=1"), "a host was reached for:\n{told}");
    told
}

#[track_caller]
fn refused(inventory: &str, variables: &str, sentence: &str) {
    let told = refusal(inventory, variables);
    assert!(told.contains(sentence), "it does not say `{sentence}`:\n{told}");
}

#[test]
fn missing_groups_refused() {
    refused("[servers]\ncp1\n", "", "The inventory has no host in the group `kube_control_plane`.");
    // A group under a former or misspelt name.
    let former = "Put the hosts that run the API server into it. Its other groups are kube-master.";
    refused("[kube-master]\ncp1\n[etcd]\ncp1\n[kube_node]\ncp1\n", "", former);
}

#[test]
fn reset_that_leaves_workers_without_a_control_plane_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inventory");
    fs::write(&file, format!("{GROUPS}\n[all:vars]\nansible_host=127.0.0.1\nansible_port=1\n")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "playbooks/reset.yml", "--check", "--limit", "cp1", "-i"])
        .arg(&file)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let sentence = "Nothing was reset. worker1 would stay without any host of the group kube_control_plane.";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn folders_that_kubeadm_does_not_use_refused() {
    refused(GROUPS, "kube_config_dir=/srv/kubernetes", "kube_config_dir is /srv/kubernetes, but kubeadm writes");
    let own = "kube_manifest_dir=/srv/manifests";
    refused(
        GROUPS,
        own,
        "kube_manifest_dir is /srv/manifests, but kubeadm writes and reads its files in /etc/kubernetes/manifests",
    );
}

#[test]
fn run_without_hosts_of_a_cluster_refused() {
    let folder = tempfile::tempdir().unwrap();
    let playbooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("playbooks");
    let refused = |name: &str, options: &[&str], sentence: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .arg("playbook")
            .arg(playbooks.join(name).with_extension("yml"))
            .args(options)
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {text}");
        assert!(text.contains(sentence), "{name}: {text}");
    };
    for name in fs::read_dir(&playbooks).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        // Only playbooks/upgrade.yml imports this part.
        let Some(name) = name.strip_suffix(".yml").filter(|name| *name != "upgrade_step") else { continue };
        refused(name, &[], "No host is known: name the inventory with -i.");
        let sentence = match name {
            "adopt" => continue,
            "registry" => "has no host in the group `registry`. Put the hosts that serve",
            _ => "has no host in the group `kube_control_plane`. Put the hosts that run",
        };
        refused(name, &["-i", "web1,"], sentence);
    }
}

#[test]
fn even_number_of_etcd_members_refused() {
    let inventory = GROUPS.replace("[etcd]\ncp1", "[etcd]\ncp1\nworker1");
    refused(&inventory, "", "The group `etcd` has 2 hosts (cp1, worker1).");
    // `ignore_assert_errors` accepts it, for a cluster that has lost its third member and waits for another one.
    refused(
        &inventory,
        "ignore_assert_errors=true\nkube_version=v1.30",
        "kube_version is `v1.30`, but must be a release",
    );
}

#[test]
fn overlapping_service_and_pod_networks_refused() {
    refused(GROUPS, "kube_service_addresses=10.233.64.0/20", "overlap; choose separate networks.");
}

/// The API server or the controller manager would not start.
#[test]
fn ranges_that_kubernetes_does_not_take_refused() {
    refused(GROUPS, "kube_service_addresses=10.0.0.0/11\nkube_pods_subnet=10.64.0.0/16", "services of a /12 at most");
    let wide = "kube_pods_subnet=10.0.0.0/9\nkube_network_node_prefix=26\nkubelet_max_pods=50";
    refused(GROUPS, wide, "no more than 16 bits between");
}

/// A node in use keeps its range, so hosts are asked first.
#[test]
fn more_pods_than_addresses_refused() {
    let sentence =
        "kubelet_max_pods is 126, but the pod CIDR of cp1 (/25, kube_network_node_prefix) has only 125 addresses";
    let output = |variables: &str| {
        let folder = tempfile::tempdir().unwrap();
        let common = "kube_network_node_prefix=25\nkube_cgroup_v1_allowed=true\ndns_mode=none\n";
        refusals_of_machines(folder.path(), &format!("{common}{variables}\n"))
    };
    assert!(output("kubelet_max_pods=126").contains(sentence));
    // Not through a network with addresses of its own, and not with exactly as many.
    for accepted in ["kube_network_plugin=calico\nkubelet_max_pods=126", "kubelet_max_pods=125"] {
        let output = output(accepted);
        assert!(!output.contains("addresses for pods"), "{output}");
    }
}

/// With such an authority, kubeadm would fail half-way, or the cluster would stop working when it expires.
#[test]
fn own_authorities_that_cannot_sign_refused() {
    if !windlass_testing::has("openssl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, options: &str| {
        let command = format!("req -x509 -nodes -subj /CN={name} -keyout {name}.key -out {name}.crt {options}");
        let output = Command::new("openssl").args(command.split_whitespace()).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    make("good", "-newkey rsa:2048 -days 3650");
    make("server", "-newkey rsa:2048 -days 3650 -addext keyUsage=digitalSignature");
    make("short", "-newkey rsa:2048 -days 100");
    make("edwards", "-newkey ed25519 -days 3650");
    let at = folder.path().display();
    let given = |name: &str, certificate: &str, key: &str| {
        format!(
            "certificates_own_authorities={{'{name}': {{'certificate': '{at}/{certificate}.crt', 'key': '{at}/{key}.key'}}}}"
        )
    };
    for (variables, sentence) in [
        (given("ca", "server", "server"), "The key usage of `ca` is Digital Signature, which lacks Certificate Sign."),
        (given("etcd-ca", "short", "short"), "but those that it signs last a year."),
        (given("ca", "edwards", "edwards"), "The key of `ca` is Ed25519, but Kubernetes needs RSA"),
        (given("front-proxy-ca", "good", "short"), "The key of `front-proxy-ca` is not that of its certificate."),
        (given("ca", "good", "missing"), "`ca` is different."),
        (given("kubernetes", "good", "good"), "`kubernetes` is different."),
    ] {
        refused(GROUPS, &variables, sentence);
    }
    // Nothing else would keep these from the first host.
    let (_, output) = played(folder.path(), "playbooks/cluster.yml", GROUPS, &given("ca", "good", "good"));
    assert!(output.contains("unreachable=1"), "{output}");
}

/// Kubespray derives a ProxyCommand from this group. Here, its hosts would be unreachable without an explanation.
#[test]
fn bastion_that_nothing_leads_through_refused() {
    let inventory = GROUPS.replacen("cp1\n", "cp1\n[bastion]\njump ansible_host=192.0.2.1\n", 1);
    let sentence = "(jump), but nothing leads cp1, worker1 through it";
    refused(&inventory, "", sentence);
    refused(&GROUPS.replacen('\n', "\nbastion\n", 1), "", "(bastion), but nothing leads cp1, worker1 through it");
    let one =
        inventory.replace("[kube_node]\nworker1", "[kube_node]\nworker1 ansible_ssh_common_args='-J me@192.0.2.1'");
    refused(&one, "", "(jump), but nothing leads cp1 through it");
    for arguments in ["-J me@192.0.2.1", "-o ProxyCommand='ssh -W %h:%p jump'"] {
        let variables = format!("ansible_ssh_common_args={arguments:?}\nkube_version=v1.30");
        refused(&inventory, &variables, "kube_version is `v1.30`, but must be a release");
    }
}

#[test]
fn invalid_network_refused() {
    refused(GROUPS, "kube_pods_subnet=10.233.64.0", "kube_pods_subnet is `10.233.64.0`, which is not a network");
}

#[test]
fn host_address_in_pod_network_refused() {
    refused(
        &GROUPS.replacen("cp1", "cp1 ip=10.233.65.4", 1),
        "",
        "cp1 has the address 10.233.65.4, which lies in kube_pods_subnet",
    );
}

#[test]
fn unknown_network_plugin_refused() {
    let told = refusal(GROUPS, "kube_network_plugin=flanel");
    let sentence = "kube_network_plugin is `flanel`, but must be one of: bridge, calico, cilium, cni, custom_cni, flannel, \
                    kube-ovn, kube-router, macvlan, none. Did you mean `flannel`?";
    // At its place, as the host's result and in the list of failures, not again for each host.
    assert_eq!(told.matches(sentence).count(), 3, "{told}");
    refused(GROUPS, "kube_network_plugin=other", "macvlan, none.\"");
}

#[test]
fn unknown_runtime_refused_with_the_known_ones() {
    refused(GROUPS, "container_manager=podman", "container_manager is `podman`, but must be one of: ");
}

#[test]
fn unknown_load_balancer_refused_with_the_known_ones() {
    refused(
        GROUPS,
        "loadbalancer_apiserver_type=envoy",
        "kube_load_balancer is `envoy`, but must be one of: external, ",
    );
}

#[test]
fn static_pod_of_load_balancer_that_cannot_work_refused() {
    for (variables, sentence) in [
        ("loadbalancer_apiserver_port=443", "does not run as root and cannot listen below port 1024"),
        ("kubelet_rotate_certificates=false", "kubelet then starts no static pod before its node has joined"),
        ("loadbalancer_apiserver_keepalive_timeout=soon", "loadbalancer_apiserver_keepalive_timeout is `soon`"),
        ("loadbalancer_apiserver_pod_name=Proxy_1", "The name of a pod has lower-case letters"),
        ("loadbalancer_apiserver_memory_requests=little", "loadbalancer_apiserver_memory_requests is `little`"),
    ] {
        refused(GROUPS, &format!("loadbalancer_apiserver_deployment_type=pod\n{variables}"), sentence);
    }
    refused(
        GROUPS,
        "haproxy_image_tag=3.2",
        "haproxy is a service of the hosts, from the distribution's package, so haproxy_image_repo",
    );
    let nginx = "loadbalancer_apiserver_type=nginx\nnginx_image_tag=1.30";
    refused(GROUPS, nginx, "nginx is a service of the hosts, from the distribution's package");
}

#[test]
fn cloud_without_a_controller_refused_with_the_known_ones() {
    let text = refusal(GROUPS, "cloud_provider=external\nexternal_cloud_provider=opnestack");
    assert!(text.contains("external_cloud_provider is `opnestack`, but must be one of: "), "{text}");
    assert!(text.contains("manual"), "{text}");
    refused(
        GROUPS,
        "external_cloud_provider=manual",
        "external_cloud_provider has no effect without cloud_provider: external.",
    );
    refused(GROUPS, "cloud_provider=aws", "value of cloud_provider must be one of");
}

#[test]
fn storage_classes_without_a_driver_refused() {
    let sentence = "persistent_volumes_enabled is true, but no storage driver is enabled";
    refused(GROUPS, "persistent_volumes_enabled=true", sentence);
    let unknown = "persistent_volumes_enabled=true\ncinder_csi_enabled=true\nstorage_classes=[{'name': 'a', 'provisioner': 'disk.example.com'}]";
    refused(
        GROUPS,
        unknown,
        "The class a in storage_classes needs a name of its own, and as its provisioner the name of an enabled storage driver",
    );
}

#[test]
fn own_load_balancer_without_address_refused() {
    refused(GROUPS, "kube_load_balancer=external", "but loadbalancer_apiserver has no address");
}

#[test]
fn values_of_wrong_types_refused() {
    let sentence = "argument 'kubelet_max_pods' is of type str and we were unable to convert to int";
    refused(GROUPS, "kubelet_max_pods=many", sentence);
    refused(
        GROUPS,
        "dns_mode=bind",
        "value of dns_mode must be one of: coredns, coredns_dual, manual, none, got: bind",
    );
    refused(GROUPS, "containerd_debug_level=loud", "value of containerd_debug_level must be one of: ");
    refused(GROUPS, "etcd_peer_port=peer", "argument 'etcd_peer_port' is of type str");
    refused(
        GROUPS,
        "metallb_enabled=y\nmetrics_server_enabled=False\nhelm_enabled=On",
        "must be true or false, but have other values: metallb_enabled: y.",
    );
}

#[test]
fn port_of_two_components_refused() {
    refused(
        GROUPS,
        "loadbalancer_apiserver_port=10250",
        "On cp1, port 10250/tcp would be used by load_balancer/haproxy for the API (loadbalancer_apiserver_port) and by kubelet",
    );
    refused(
        GROUPS,
        "loadbalancer_apiserver_healthcheck_port=10248",
        "port 10248/tcp would be used by load_balancer/haproxy for its health (loadbalancer_apiserver_healthcheck_port) and by kubelet",
    );
}

#[test]
fn programs_too_old_for_the_release_refused() {
    refused(
        GROUPS,
        "kube_version=1.36.4\ncontainerd_version=1.7.28",
        "Kubernetes 1.36.4 needs containerd 2.0 or newer",
    );
    for release in ["1.34.9", "1.35.6", "1.36.4"] {
        let reason = format!("Kubernetes {release} needs etcd 3.5.24 or newer");
        refused(GROUPS, &format!("kube_version={release}\netcd_version=3.5.23"), &reason);
    }
}

#[test]
fn elections_shorter_than_heartbeats_refused() {
    refused(GROUPS, "etcd_election_timeout=1000", "is less than five times etcd_heartbeat_interval (250 ms)");
}

#[test]
fn unusable_events_etcd_refused() {
    refused(
        GROUPS,
        "etcd_events_cluster_enabled=true\netcd_events_cluster_setup=false",
        "etcd_events_cluster_enabled is true, but etcd_events_cluster_setup is false",
    );
    refused(
        GROUPS,
        "etcd_events_cluster_setup=true\netcd_events_data_dir=/var/lib/etcd",
        "Give the events' cluster its own directory.",
    );
}

#[test]
fn etcd_in_pods_with_settings_beyond_kubeadm_refused() {
    let separate = GROUPS.replace("[etcd]\ncp1", "[etcd]\nworker1");
    refused(&separate, "etcd_deployment_type=kubeadm", "Give both groups the same hosts");
    for (variables, sentence) in [
        ("etcd_events_cluster_setup=true", "kubeadm runs one cluster only"),
        ("etcd_client_port=2399", "kubeadm always takes the ports 2379 and 2380"),
        ("kube_version=1.36.4\netcd_version=3.5.33", "flags that only etcd 3.6 and newer have"),
        ("etcd_image_repo=quay.io/coreos/store", "Name a repository that ends with /etcd."),
    ] {
        refused(GROUPS, &format!("etcd_deployment_type=kubeadm\n{variables}"), sentence);
    }
    refused(GROUPS, "etcd_deployment_type=docker", "value of etcd_deployment_type must be one of: host, kubeadm");
}

#[test]
fn repository_of_docker_without_effect_or_trust_refused() {
    for (variables, sentence) in [
        ("docker_version=28", "in quotes"),
        ("docker_version=28.3.3\ndocker_packages=['docker.io']", "Set either the versions or docker_packages."),
        ("docker_rh_repo_gpgkey=http://m.example.com/k", "anybody on the network path could replace that key"),
        ("docker_debian_repo_repokey=abc", "40 hexadecimal digits"),
        ("docker_plugins=['--all']", "begin with a letter, a digit or `_`"),
        ("docker_version='28.3'\nsystem_upgrade=true", "system_upgrade is true, which installs the newest packages"),
        // Python's `$` matches before a line break at the end.
        ("docker_version=\"28.3\\n\"", "in quotes"),
        ("docker_plugins=[\"a\\n\"]", "begin with a letter, a digit or `_`"),
        (
            "cluster_packages_locking=true\ndocker_debian_repo_base_url=https://m.example.com/d",
            "Packages of a bundle come from",
        ),
    ] {
        refused(GROUPS, &format!("container_manager=docker\n{variables}"), sentence);
    }
}

/// The lock is read on hosts that may have no repository of Docker, and bundles have none.
#[test]
fn packages_of_docker_are_not_locked() {
    let folder = tempfile::tempdir().unwrap();
    let variables = "container_manager=docker\ndocker_version=28.3.3";
    let (_, text) = played(folder.path(), "playbooks/packages.yml", GROUPS, variables);
    assert!(text.contains("Packages of a bundle come from the distribution"), "{text}");
    assert!(!folder.path().join("packages.json").exists());
}

#[test]
fn different_drivers_of_control_groups_refused() {
    refused(GROUPS, "containerd_use_systemd_cgroup=false", "Set only kubelet_cgroup_driver");
}

#[test]
fn invalid_calico_settings_refused() {
    let refused = |variables: &str, sentence: &str| {
        refused(GROUPS, &format!("kube_network_plugin=calico\n{variables}"), sentence)
    };
    refused("calico_datastore=etcd", "calico_datastore is `etcd`, but only kdd is supported");
    refused("calico_version=3.20.0", "no checksum of the manifests of Calico 3.20.0");
    refused("calico_vxlan_mode=Never", "a pool without tunnels need BGP");
    refused("calico_network_backend=bird\ncalico_ipip_mode=Always", "has one kind of tunnel");
    refused("calico_ipam_host_local=true", "Calico's VXLAN needs Calico's own IPAM");
    refused("calico_pool_cidr=10.1.0.0/16", "must be networks within kube_pods_subnet");
    refused("calico_pool_blocksize=17", "in blocks of /17");
    refused("calico_bpf_enabled=true", "Set kube_proxy_remove to true");
    refused("calico_advertise_cluster_ips=true", "calico_advertise_cluster_ips needs BGP");
    refused("calico_network_backend=bird\npeer_with_calico_rr=true", "the group calico_rr has no host");
    refused("typha_enabled=true\ntypha_replicas=90", "each takes a port of its node");
}

#[test]
fn invalid_release_refused() {
    refused(GROUPS, "kube_version=v1.30", "kube_version is `v1.30`, but must be a release");
}

#[test]
fn invalid_network_settings_refused() {
    refused(GROUPS, "ipv4_stack=false", "Set ipv6_stack to true for a cluster of IPv6 only");
    refused(
        GROUPS,
        "ipv4_stack=false\nipv6_stack=true\nkube_network_plugin=macvlan",
        "network/macvlan is set up for IPv4 addresses",
    );
    refused(GROUPS, "ipv6_stack=true\nkube_pods_subnet_ipv6=fd85::/48", "kube_pods_subnet_ipv6 `fd85::/48`");
    refused(GROUPS, "bridge_routing=tunnel", "value of bridge_routing must be one of: routes, vxlan, bgp, got: tunnel");
    refused(GROUPS, "bridge_routing=vxlan\nbridge_vxlan_vni=0", "bridge_vxlan_vni is 0");
    let stranger = format!("{GROUPS}[route_reflector]\nstranger\n");
    refused(&stranger, "bridge_routing=bgp", "stranger, in the group route_reflector or calico_rr, is not a node");
    refused(GROUPS, "kube_network_plugin=macvlan\nmacvlan_interface=a;b", "macvlan_interface of cp1 is `a;b`");
    refused(GROUPS, "kube_network_plugin=custom_cni", "takes either manifests or a chart");
    refused(
        GROUPS,
        "kube_network_plugin=flannel\nflannel_version=0.99.0",
        "none for flannel_version 0.99.0: take one of",
    );
}

#[test]
fn invalid_kube_router_settings_refused() {
    for (variables, sentence) in [
        ("kube_router_version=9.9.9", "none for kube_router_version 9.9.9"),
        ("kube_proxy_remove=true", "either kube-router or kube-proxy has to answer for services"),
        ("kube_router_run_router=false", "only kube-router's router gives the nodes' bridges"),
        ("kube_router_cluster_asn=1", "kube-router takes only private autonomous systems"),
        ("kube_router_peer_router_ips=192.0.2.1", "Give addresses, and to each its autonomous system"),
        ("kube_router_nodes_full_mesh=false", "cp1 has no autonomous system"),
        ("kube_router_annotations_all=['a']", "are lists of KEY=VALUE"),
        ("kube_version=1.20.2", "network/kube_router needs Kubernetes 1.21 or newer, but"),
    ] {
        refused(GROUPS, &format!("kube_network_plugin=kube-router\n{variables}"), sentence);
    }
}

#[test]
fn invalid_multus_settings_refused() {
    for (variables, sentence) in [
        ("multus_version=9.9.9", "none for multus_version 9.9.9"),
        ("kube_network_plugin=none", "Multus only adds interfaces to a cluster's network"),
        ("multus_conf_file=/tmp/a.conf", "multus_conf_file is `/tmp/a.conf`, but must be `auto`"),
    ] {
        refused(GROUPS, &format!("kube_network_plugin_multus=true\n{variables}"), sentence);
    }
}

#[test]
fn invalid_cilium_settings_refused() {
    for (variables, sentence) in [
        ("cilium_tunnel_mode=disabled", "cilium_tunnel_mode: disabled needs cilium_native_routing_cidr"),
        ("cilium_encryption_enabled=true", "cilium_ipsec_key is not a key in base64"),
        ("cilium_enable_hubble_ui=true", "cilium_enable_hubble_ui needs cilium_enable_hubble"),
        ("cilium_l2announcements=true", "cilium_l2announcements needs cilium_kube_proxy_replacement"),
        ("kube_proxy_remove=true", "services would have neither Cilium nor kube-proxy"),
        ("cilium_version=1.17.4", "must be a release from 1.18.0 on"),
        ("cilium_version=1.99.0", "Set cilium_chart_checksum"),
        ("cilium_pool_cidr=10.1.0.0/24", "cilium_pool_cidr (10.1.0.0/24) has not enough pod CIDRs"),
        ("cilium_bgp_peering_policies=['a']", "CiliumBGPPeeringPolicy ended with Cilium 1.18"),
    ] {
        refused(GROUPS, &format!("kube_network_plugin=cilium\n{variables}"), sentence);
    }
}

#[test]
fn invalid_kube_ovn_settings_refused() {
    for (variables, sentence) in [
        ("kube_ovn_version=9.9.9", "none for kube_ovn_version 9.9.9"),
        ("kube_ovn_version=1.15.24\nkube_version=1.28.3", "whose chart needs Kubernetes 1.29"),
        ("kube_ovn_vpc_container_image_repo=quay.io/a/b", "The chart takes all of them from one registry"),
        ("kube_ovn_central_hosts=['cp9']", "Name hosts of the cluster"),
        ("kube_ovn_node_switch_cidr=10.233.64.0/18", "must be separate networks"),
        ("kube_ovn_network_type=vlan", "Name the interface of the nodes that has the pods' network"),
        ("kube_ovn_enable_ssl=true", "issues no certificates"),
        ("kube_ovn_version=1.14.41\nkube_ovn_dpdk_enabled=true", "which charts know until 1.13"),
        ("kube_ovn_mtu=1400", "Kube-OVN's chart has no value for it"),
    ] {
        refused(GROUPS, &format!("kube_network_plugin=kube-ovn\n{variables}"), sentence);
    }
}

#[test]
fn control_plane_settings_without_effect_refused() {
    for (variables, sentence) in [
        ("kube_oidc_auth=true", "kube_oidc_url or kube_oidc_client_id is missing"),
        ("kube_api_anonymous_auth=false", "check the API server's health without credentials"),
        (
            "kube_webhook_authorization=true\nkube_webhook_authorization_url=https://a",
            "add Webhook to authorization_modes",
        ),
        (
            "kube_apiserver_enable_admission_plugins=['EventRateLimit']",
            "needs both a place in kube_apiserver_enable_admission_plugins",
        ),
        ("kube_pod_security_use_default=true", "kube_apiserver_admission_control_config_file is false"),
        ("kube_encrypt_secret_data=true\nkube_encrypt_token=short", "must have 32 characters"),
        ("kube_encryption_algorithm=rot13", "value of kube_encryption_algorithm must be one of: secretbox"),
        ("tls_min_version=1.2", "value of tls_min_version must be one of: "),
        (
            "kube_feature_gates=['SidecarContainers']",
            "lists of NAME=true or NAME=false, but there is SidecarContainers.",
        ),
    ] {
        refused(GROUPS, &format!("kube_version=1.36.4\n{variables}"), sentence);
    }
}

#[test]
fn runtime_config_with_a_version_that_the_release_lacks_refused() {
    for (release, entry, gone) in [
        ("1.35.1", "autoscaling/v2beta2=true", ""),
        ("1.36.4", "autoscaling/v2beta2=false", "autoscaling/v2beta2"),
        (
            "1.36.4",
            "storagemigration.k8s.io/v1alpha1/storageversionmigrations=true",
            "storagemigration.k8s.io/v1alpha1",
        ),
        // Known and not served, or a setting for all of them.
        ("1.36.4", "policy/v1beta1=true", ""),
        ("1.36.4", "api/alpha=true", ""),
    ] {
        // The next rule refuses the others.
        let variables = format!("kube_version={release}\nkube_oidc_auth=true\nkube_api_runtime_config=['{entry}']");
        let sentence = match gone {
            "" => "kube_oidc_url or kube_oidc_client_id is missing".to_owned(),
            gone => format!("kube_api_runtime_config has {gone}, which Kubernetes {release} does not know any more"),
        };
        refused(GROUPS, &variables, &sentence);
    }
}

#[test]
fn settings_unknown_to_release_refused() {
    for (variables, sentence) in [
        ("kube_apiserver_use_authentication_config_file=true", "needs Kubernetes 1.30, but kube_version is 1.20.2"),
        ("kube_apiserver_tracing=true", "kube_apiserver_tracing needs Kubernetes 1.27"),
        ("kubelet_seccomp_default=true", "kubelet_seccomp_default needs Kubernetes 1.25"),
        ("kubelet_max_parallel_image_pulls=3", "kubelet_max_parallel_image_pulls needs Kubernetes 1.27"),
        ("kube_proxy_mode=nftables", "kube_proxy_mode is nftables, which needs Kubernetes 1.31"),
        ("kube_cert_validity_period=1000h", "need Kubernetes"),
    ] {
        refused(GROUPS, &format!("kube_version=1.20.2\n{variables}"), sentence);
    }
}

#[test]
fn hardened_kubelet_with_a_name_for_the_api_refused() {
    let variables = "kube_version=1.36.4\nkube_hardening=true\nloadbalancer_apiserver={'address': 'api.example.com'}";
    refused(GROUPS, variables, "the API has the name api.example.com, which systemd does not resolve");
}

#[test]
fn dns_without_servers_refused() {
    refused(GROUPS, "dns_mode=none\nenable_nodelocaldns=true", "have no server for the names of the cluster");
    refused(GROUPS, "dns_mode=none\nresolvconf_mode=host_resolvconf", "the hosts have no DNS of the cluster to query");
    refused(GROUPS, "coredns_external_zones=[{'zones': ['a']}]", "nameservers");
}

/// Output of the playbook in check mode for `cp1` and `worker1`, which are this machine. It goes on after a refusal,
/// and asks no server for files.
fn refusals_of_machines(folder: &Path, variables: &str) -> String {
    refusals_with(folder, variables, &["-e", "skip_downloads=true"])
}

fn refusals_with(folder: &Path, variables: &str, arguments: &[&str]) -> String {
    let file = folder.join("inventory");
    let groups = GROUPS.replacen("cp1", "cp1 ip=127.0.0.1", 1).replacen("\nworker1", "\nworker1 ip=127.0.0.2", 1);
    let common = format!(
        "[all:vars]\nansible_connection=local\nkube_config_dir={0}/kubernetes\netcd_config_dir={0}/etcd\nignore_assert_errors=true\n",
        folder.display()
    );
    fs::write(&file, groups + &common + variables).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "playbooks/cluster.yml", "--check", "--tags", "none", "-i"])
        .arg(&file)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PATH", format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap()))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[test]
fn unfit_machines_refused_with_the_reason() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let variables =
        format!("kube_apiserver_port={port}\nminimal_node_memory_mb=99999999\nminimal_free_space_mb=99999999\n");
    let output = refusals_of_machines(folder.path(), &variables);
    for sentence in [
        "MiB of memory, but needs 99999999. Give it more, or set minimal_node_memory_mb.",
        "MiB of free space, but 99999999 are needed for /",
        &format!(
            "Something on cp1 already listens on {port}/tcp, which is the port of control_plane for the API server (kube_apiserver_port)."
        ),
        "cp1 and worker1 have the same /etc/machine-id",
    ] {
        assert!(output.contains(sentence), "it does not say `{sentence}`:\n{output}");
    }
    assert!(!output.contains("The clock of"), "both have the same clock:\n{output}");
}

#[test]
fn machines_with_different_clocks_refused() {
    let folder = tempfile::tempdir().unwrap();
    // Every second look at the clock, which is the other host's, is ahead by 100 seconds.
    let date = folder.path().join("bin/date");
    let script = format!(
        "#!/bin/sh\nnow=$(/bin/date +%s)\nif mkdir {0} 2>/dev/null; then echo $now; else rmdir {0}; echo $((now + 100)); fi\n",
        folder.path().join("seen").display()
    );
    fs::create_dir(date.parent().unwrap()).unwrap();
    fs::write(&date, script).unwrap();
    fs::set_permissions(&date, fs::Permissions::from_mode(0o755)).unwrap();
    let sentence = "so certificates of one would not be valid yet on the other";
    let output = refusals_of_machines(folder.path(), "");
    assert!(output.contains("The clock of") && output.contains(sentence), "{output}");
    let output = refusals_of_machines(folder.path(), "maximal_clock_difference=200\n");
    assert!(!output.contains("The clock"), "{output}");
    // Members of etcd need more, but that does not end the run.
    let output = refusals_of_machines(folder.path(), "maximal_clock_difference=200\n[etcd]\nworker1\n");
    assert!(output.contains("The clocks of the etcd members differ by 10"), "{output}");
}

/// Programs in `bin`, which the playbook finds before others.
fn stand_ins(folder: &Path, programs: &[(&str, &str)]) {
    fs::create_dir(folder.join("bin")).unwrap();
    for (name, script) in programs {
        let file = folder.join("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Copies of a virtual machine, and networks that let only pings or short packets pass.
#[test]
fn copied_and_separated_machines_refused() {
    let folder = tempfile::tempdir().unwrap();
    stand_ins(
        folder.path(),
        &[
            ("systemd-detect-virt", "exit 1"),
            ("timeout", "case \"$*\" in */dev/tcp/*) exit 124 ;; *) exec /usr/bin/timeout \"$@\" ;; esac"),
            ("ip", "echo 192.0.2.1 dev $(ls /sys/class/net | grep -v '^lo$' | head -n 1)"),
            ("ping", "case \"$*\" in -V) echo ping from iputils ;; *'-M do'*) exit 1 ;; esac"),
        ],
    );
    let uuid = "ansible_product_uuid=4c4c4544-0051-3010-8052-b4c04f4d3432";
    let servers = ["-e", "dl_k8s_io_url=http://127.0.0.1:1", "-e", "github_url=http://127.0.0.1:1"];
    let output = refusals_with(folder.path(), "", &[&["-e", uuid][..], &servers[..]].concat());
    for sentence in [
        "cp1 has the same product UUID as worker1",
        "worker1 gets no answer from 127.0.0.1 port 6443, not even that nothing listens there",
        "gets no answer from http://127.0.0.1:1, from which it fetches programs: Request failed",
        "gets no packets of that length. Pods would lose theirs",
    ] {
        assert!(output.contains(sentence), "it does not say `{sentence}`:\n{output}");
    }
    // Some boards have no UUID.
    let none = ["-e", "ansible_product_uuid=00000000-0000-0000-0000-000000000000", "-e", "skip_downloads=true"];
    let output = refusals_with(folder.path(), "ping_access_ip=false\n", &none);
    for sentence in ["the same product UUID", "port 6443, not even", "from which it fetches", "packets of that length"]
    {
        assert!(!output.contains(sentence), "{output}");
    }
}

/// Pings pass a firewall and SELinux. Without this check, such hosts fail with timeouts in the middle of a run.
#[test]
fn firewalls_and_selinux_that_keep_hosts_from_each_other_refused() {
    let folder = tempfile::tempdir().unwrap();
    stand_ins(
        folder.path(),
        &[
            ("getenforce", "echo Enforcing"),
            ("getsebool", "echo $1 --\\> off"),
            ("systemctl", "case \"$*\" in *is-active*firewalld*) exit 0 ;; esac; exit 3"),
            ("ufw", "echo Status: active"),
        ],
    );
    let output = refusals_of_machines(folder.path(), "");
    for sentence in [
        "setsebool -P haproxy_connect_any=on",
        "The firewall of cp1 is active (firewalld, ufw)",
        "6443/tcp",
        "and set check_firewall to false",
    ] {
        assert!(output.contains(sentence), "it does not say `{sentence}`:\n{output}");
    }
    let output = refusals_of_machines(folder.path(), "check_firewall=false\nkube_load_balancer=none\n");
    assert!(!output.contains("setsebool") && !output.contains("is active"), "{output}");
}

/// Packages cannot be installed there. Without this check, a run fails after half of its changes.
#[test]
fn hosts_with_flatcar_are_refused_before_anything_changes() {
    let folder = tempfile::tempdir().unwrap();
    let facts = ["-e", "ansible_os_family=Flatcar", "-e", "ansible_distribution=Flatcar"];
    let output = refusals_with(folder.path(), "", &facts);
    let sentence = "runs Flatcar Container Linux, whose /usr is read-only and which has no packages";
    assert!(output.contains(sentence) && output.contains("Nothing was changed."), "{output}");
    assert!(!refusals_of_machines(folder.path(), "").contains("Flatcar"));
}

#[test]
fn settings_of_kubespray_without_effect_are_refused() {
    for (variables, sentence) in [
        ("apiserver_loadbalancer_domain_name=https://api", "which is not a name such as api.example.com"),
        ("apiserver_loadbalancer_domain_name=api.example.com:6443", "which is not a name such as api.example.com"),
        ("kubeadm_init_phases_skip=['certs']", "has certs, but only preflight, mark-control-plane"),
        ("kubeadm_join_phases_skip=['kubelet-start']", "without the others the node does not join"),
        ("kubeadm_upgrade_node_phases_skip=['control-plane']", "only preflight, kubelet-config, addon/kube-proxy"),
        ("kubeadm_join_timeout=5m0s", "must be a number with s, m or h, such as 120s"),
        ("discovery_timeout=5", "must be a duration such as 5m0s"),
        ("remove_anonymous_access=true\nkubeadm_use_file_discovery=false", "Leave the latter out."),
        ("kube_version=1.30.4\nkubeadm_upgrade_auto_cert_renewal=false", "needs Kubernetes 1.31, but kube_version"),
        ("kube_token_auth=true", "the roles make up no tokens"),
        ("etcd_kubeadm_enabled=true\netcd_deployment_type=host", "Leave etcd_kubeadm_enabled out"),
        ("etcd_metrics_service_labels={'a': 'b'}", "Set etcd_metrics_port to a free port"),
        ("etcd_metrics_port=2391\netcd_metrics_urls=http://127.0.0.1:2381", "has other ports. Leave out one of them."),
        ("etcd_memory_limit=lots", "must be 0, or a number of bytes such as 512M"),
        ("kube_override_hostname=one", "as would another host. Give each its own kube_override_hostname."),
        ("kube_override_hostname=Node_1", "names of nodes have lower-case letters, digits, - and . only"),
        ("kube_service_cgroups=a-b.slice", "must be a slice at the top, such as kube.slice"),
        ("kube_service_cgroups=b.slice\nkube_reserved=true", "Set kube_reserved_cgroups_for_service_slice instead."),
        (
            "kube_apiserver_admission_control_config_file=true\nkube_pod_security_use_default=true\n\
             kube_apiserver_admission_plugins_needs_configuration=['EventRateLimit']",
            "PodSecurity is configured, but not in kube_apiserver_admission_plugins_needs_configuration",
        ),
        ("certificates_key_size=1000", "value of certificates_key_size must be one of: 2048, 3072"),
        (
            "kube_network_plugin=custom_cni\ncustom_cni_chart_release_name=n\ncustom_cni_chart_ref=r/n\n\
             custom_cni_chart_repository_username=u",
            "A login needs both custom_cni_chart_repository_username and",
        ),
        ("etcd_blkio_weight=5", "must be 0, or from 10 to 1000"),
        ("etcd_memory_limit='2G\\n'", "must be 0, or a number of bytes such as 512M"),
        ("etcd_experimental_watch_progress_notify_interval='5s\\n'", "which is not a duration such as 5s"),
        ("etcd_experimental_distributed_tracing_address='a:1\\n'", "_tracing_address must be HOST:PORT"),
        ("etcd_experimental_distributed_tracing_service_name='a\\n'", "_service_name a word"),
        (
            "etcd_version=3.6.6\netcd_experimental_watch_progress_notify_interval=5s\n\
             etcd_extra_vars={'ETCD_EXPERIMENTAL_WATCH_PROGRESS_NOTIFY_INTERVAL': '6s'}",
            "sets watch_progress_notify_interval, and so does a variable of the role etcd. Set it in one place only.",
        ),
        (
            "etcd_version=3.6.6\netcd_experimental_initial_corrupt_check=true\n\
             etcd_extra_vars={'ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK': 'true'}",
            "sets initial_corrupt_check, and so does",
        ),
        (
            "etcd_version=3.6.6\netcd_experimental_initial_corrupt_check=true\n\
             etcd_extra_vars={'ETCD_FEATURE_GATES': 'A=true'}",
            "add InitialCorruptCheck=true to those in etcd_extra_vars",
        ),
        (
            "kube_version=1.36.4\netcd_deployment_type=kubeadm\n\
             etcd_extra_vars={'ETCD_EXPERIMENTAL_WATCH_PROGRESS_NOTIFY_INTERVAL': '6s'}",
            "sets experimental_watch_progress_notify_interval, and so does kubeadm or a variable",
        ),
        ("etcd_deployment_type=kubeadm\netcd_memory_limit=2G", "kubeadm has no limits for its pods"),
    ] {
        refused(GROUPS, variables, sentence);
    }
}

#[test]
fn inventory_of_kubespray_gets_the_groups_that_it_leaves_to_its_playbooks() {
    let folder = tempfile::tempdir().unwrap();
    let groups = folder.path().join("group_vars/k8s_cluster");
    fs::create_dir_all(&groups).unwrap();
    fs::write(groups.join("settings.yml"), "kubelet_max_pods: many\n").unwrap();
    let (before, _) = GROUPS.split_once("[k8s_cluster").unwrap();
    let (status, told) = played(folder.path(), "playbooks/cluster.yml", before, "");
    assert!(status == Some(2) && told.contains("argument 'kubelet_max_pods' is of type str"), "{told}");
    // With etcd in pods, its members are the control planes.
    fs::write(groups.join("settings.yml"), "kube_version: v1.30\n").unwrap();
    let without = before.replace("[etcd]\ncp1", "");
    refused(&without, "", "no host in the group `etcd`");
    let (_, told) = played(folder.path(), "playbooks/cluster.yml", &without, "etcd_deployment_type=kubeadm");
    assert!(told.contains("kube_version is `v1.30`, but must be a release"), "{told}");
}

/// Kubespray's load balancer has the API server's port, on workers only. Some variables of its inventory use names that
/// only its roles define.
#[test]
fn sample_inventory_of_kubespray_passes() {
    let folder = tempfile::tempdir().unwrap();
    let variables = folder.path().join("group_vars/all");
    fs::create_dir_all(&variables).unwrap();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubespray/sample.yml");
    fs::copy(sample, variables.join("sample.yml")).unwrap();
    let groups = "[kube_control_plane]\ncp1\n[etcd:children]\nkube_control_plane\n[kube_node]\nworker1\n";
    let (status, told) = played(folder.path(), "playbooks/cluster.yml", groups, "");
    // The hosts do not exist.
    assert_eq!(status, Some(4), "{told}");
    assert!(!told.contains("FAILED!") && told.contains("unreachable=1"), "{told}");
}
