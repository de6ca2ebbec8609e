//! Settings of components that the lab cannot run: variables appear in the rendered files.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use windlass_yaml::{Node, Options, Source, parse};

/// Renders a template of a role, with extra variables in YAML.
fn render(role: &str, template: &str, variables: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).display();
    let source = format!("{root}/roles/{role}/templates/{template}");
    written(role, &format!("ansible.builtin.template: {{src: {source}, dest: '{{{{ out }}}}'}}"), variables)
}

/// Writes a value that a role computes, as JSON, with extra variables in YAML.
fn computed(role: &str, expression: &str, variables: &str) -> String {
    let task = format!("ansible.builtin.copy: {{dest: '{{{{ out }}}}', content: '{{{{ {expression} | to_json }}}}'}}");
    written(role, &task, variables)
}

/// The file `out` after the task, which follows the validation of the role.
fn written(role: &str, task: &str, variables: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let inventory = "[kube_control_plane]\ncp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n[etcd]\ncp1\n[kube_node]\ncp1\n[k8s_cluster:children]\n\
                     kube_control_plane\nkube_node\n[all:vars]\nansible_connection=local\nansible_architecture=x86_64\n";
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {{name: {role}, tasks_from: validate}}
    - {task}
      vars:
        out: {folder}/out
        kube_vip_files: {{results: [{{stat: {{exists: false}}}}, {{stat: {{exists: false}}}}]}}
",
        folder = folder.path().display(),
    );
    fs::write(folder.path().join("hosts"), inventory).unwrap();
    fs::write(folder.path().join("play.yml"), playbook).unwrap();
    fs::write(folder.path().join("variables.yml"), variables).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "play.yml", "-e", "@variables.yml"])
        .current_dir(folder.path())
        .env("ANSIBLE_ROLES_PATH", root.join("roles"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    fs::read_to_string(folder.path().join("out")).unwrap()
}

fn yaml(text: &str) -> Node {
    let loaded = parse(Source::new("rendered", text.to_owned()), &Options::default());
    loaded.unwrap_or_else(|error| panic!("{error}\n{text}")).documents.remove(0)
}

/// `NAME=VALUE` in a container's environment, without values from fields.
fn environment(container: &Node) -> Vec<String> {
    let entries = container.get("env").and_then(Node::as_list).unwrap();
    let text = |entry: &Node, key: &str| entry.get(key).and_then(Node::as_str).map(str::to_owned);
    entries.iter().filter_map(|entry| Some(format!("{}={}", text(entry, "name")?, text(entry, "value")?))).collect()
}

#[test]
fn cluster_of_ipv6_only_names_no_ipv4_address_of_a_host() {
    let only = "{ipv4_stack: false, ipv6_stack: true, ip6: 'fd97::{{ inventory_hostname[2:] }}', kube_version: 1.20.2}";
    let config = render("control_plane", "kubeadm-config.yaml.j2", only);
    for line in [
        "advertiseAddress: fd97::1\n",
        "node-ip: \"fd97::1\"\n",
        "podSubnet: fd85:ee78:d8a6:8607::1:0000/112\n",
        "serviceSubnet: fd85:ee78:d8a6:8607::1000/116\n",
        "- https://[fd97::1]:2379\n",
        "- \"fd85:ee78:d8a6:8607::1001\"\n",
        "bind-address: \"::\"\n",
        "node-cidr-mask-size: \"120\"\n",
        "healthzBindAddress: '[::]:10256'\n",
    ] {
        assert!(config.contains(line), "{line}{config}");
    }
    assert!(!config.contains("10.") && !config.contains("IPv6DualStack"), "{config}");
    let balancer = render("load_balancer/haproxy", "haproxy.cfg.j2", only);
    assert!(balancer.contains("server cp2 [fd97::2]:6443\n"), "{balancer}");
    let values = "[kubelet_address, kubelet_bind_address, no_proxy, skydns_server, main_access_ip]";
    let kubelet = computed("kubelet", values, only);
    assert!(
        kubelet.starts_with("[\"fd97::1\", \"fd97::1\", ")
            && kubelet.contains("\"fd85:ee78:d8a6:8607::1003\", \"fd97::1\"]"),
        "{kubelet}"
    );
    assert!(
        kubelet.contains("fd85:ee78:d8a6:8607::1000/116,fd85:ee78:d8a6:8607::1:0000/112") && !kubelet.contains("10."),
        "{kubelet}"
    );
    let urls = "[etcd_endpoints, kube_control_plane_urls, etcd_peer_url]";
    let etcd = computed("etcd", urls, &format!("{}, etcd_cluster: {{peer_port: 2380}}}}", only.trim_end_matches('}')));
    assert!(etcd.contains("\"https://[fd97::1]:2379\"") && etcd.contains("\"https://[fd97::2]:6443\""), "{etcd}");
    assert!(etcd.contains("\"https://[fd97::1]:2380\""), "{etcd}");
    // The kernel prints the short form, and a link with another address is replaced.
    let vxlan =
        "{ipv4_stack: false, ipv6_stack: true, ip6: 'FD97:0::{{ inventory_hostname[2:] }}', bridge_routing: vxlan,
        kube_pod_range_lines: {stdout_lines: ['cp1=fd85::100/120', 'cp2=fd85::200/120']}}";
    let routes = render("network/bridge", "kube-pod-routes.j2", vxlan);
    assert!(routes.contains("in \"vxlan id 4096 local fd97::1 \" "), "{routes}");
}

/// The manifest and the settings of a load balancer's static pod.
fn api_pod(role: &str, variables: &str) -> (Node, String) {
    let role_path = format!("load_balancer/{role}");
    let variables = format!("{}, api_pod: '{{{{ {role} }}}}'}}", variables.trim_end_matches('}'));
    let source = format!("{}/roles/cluster/templates/api-pod.yml.j2", env!("CARGO_MANIFEST_DIR"));
    let task = format!("ansible.builtin.template: {{src: {source}, dest: '{{{{ out }}}}'}}");
    let manifest = written(&role_path, &task, &variables);
    let template = computed(&role_path, "lookup(\"template\", api_pod.template)", &variables);
    (yaml(&manifest), template.replace("\\n", "\n").replace("\\\"", "\""))
}

#[test]
fn static_pod_of_haproxy_has_every_field() {
    let variables = "{loadbalancer_apiserver_deployment_type: pod, loadbalancer_apiserver_port: 7443, haproxy_config_dir: /srv/proxy,
        loadbalancer_apiserver_healthcheck_port: 7081, loadbalancer_apiserver_keepalive_timeout: 5m, loadbalancer_apiserver_cpu_requests: 50m,
        loadbalancer_apiserver_memory_requests: 64M, haproxy_image_repo: r.example.com/haproxy, haproxy_image_tag: '9', loadbalancer_apiserver_pod_name: api}";
    let (pod, settings) = api_pod("haproxy_pod", variables);
    let json = pod.to_json();
    for (pointer, value) in [
        ("/metadata/name", "api"),
        ("/spec/priorityClassName", "system-node-critical"),
        ("/spec/containers/0/image", "r.example.com/haproxy:9"),
        ("/spec/containers/0/resources/requests/cpu", "50m"),
        ("/spec/containers/0/resources/requests/memory", "64M"),
        ("/spec/containers/0/livenessProbe/httpGet/host", "127.0.0.1"),
        ("/spec/containers/0/volumeMounts/0/mountPath", "/usr/local/etc/haproxy"),
        ("/spec/volumes/0/hostPath/path", "/srv/proxy"),
    ] {
        assert_eq!(json.pointer(pointer).and_then(Value::as_str), Some(value), "{pointer} of {json:#}");
    }
    for (pointer, value) in [("/spec/hostNetwork", true), ("/spec/containers/0/volumeMounts/0/readOnly", true)] {
        assert_eq!(json.pointer(pointer).and_then(Value::as_bool), Some(value), "{pointer} of {json:#}");
    }
    let port = json.pointer("/spec/containers/0/readinessProbe/httpGet/port").and_then(Value::as_i64);
    assert_eq!(port, Some(7081));
    let checksum = json.pointer("/metadata/annotations/windlass~1settings").and_then(Value::as_str).unwrap();
    let answer =
        format!("http-request return status 200 content-type text/plain string \"{checksum}\" if {{ path /settings }}");
    has(
        &settings,
        &["bind 127.0.0.1:7443", "bind 127.0.0.1:7081", "timeout client 5m", "server cp2 10.0.0.2:6443", &answer],
    );
    assert!(!settings.contains("user haproxy"), "{settings}");

    // Another value of the settings or of the manifest replaces the pod.
    for other in [variables.replace("5m,", "6m,"), variables.replace("64M", "65M")] {
        let changed = api_pod("haproxy_pod", &other).0.to_json();
        assert_ne!(changed.pointer("/metadata/annotations"), json.pointer("/metadata/annotations"), "{other}");
    }
    // The service has neither the answer nor the pod's log.
    let service = render("load_balancer/haproxy", "haproxy.cfg.j2", "{}");
    has(&service, &["log /dev/log local0 warning", "user haproxy", "timeout connect 2s", "option redispatch 1"]);
    assert!(!service.contains("/settings"), "{service}");
}

#[test]
fn static_pod_of_nginx_writes_to_its_scratch_only() {
    let variables =
        "{loadbalancer_apiserver_type: nginx, loadbalancer_apiserver_deployment_type: pod, nginx_max_fails: 3}";
    let (pod, settings) = api_pod("nginx_pod", variables);
    let json = pod.to_json();
    let spec = &json["spec"];
    assert_eq!(json["metadata"]["name"], "nginx-proxy");
    assert_eq!(spec["containers"][0]["volumeMounts"][1]["mountPath"], "/run/nginx");
    assert_eq!(spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);
    assert!(spec["volumes"][1]["emptyDir"].is_object(), "{spec:#}");
    has(
        &settings,
        &["server 10.0.0.2:6443 max_fails=3 fail_timeout=10s;", "listen 127.0.0.1:8443 so_keepalive=on reuseport;"],
    );
    // The project's image has the module built in.
    assert!(!settings.contains("load_module"), "{settings}");
}

#[test]
fn kube_vip_with_arp_has_every_field() {
    let pod = yaml(&render(
        "load_balancer/kube_vip",
        "kube-vip.yml.j2",
        "{kube_vip_enabled: true, kube_vip_address: 10.0.0.100, kube_vip_interface: ens3, kube_vip_cidr: 24, kube_vip_leasename: l1,
          kube_vip_leaseduration: 30, kube_vip_renewdeadline: 20, kube_vip_retryperiod: 4, kube_vip_dns_mode: ipv4, kube_vip_ddns_enabled: true,
          kube_vip_cp_detect: true, kube_vip_enable_node_labeling: true, kube_vip_services_enabled: true, kube_vip_services_interface: ens4,
          kube_vip_svc_leasename: l2, kube_vip_enableServicesElection: true, kube_vip_lb_enable: true, kube_vip_lb_fwdmethod: masquerade,
          kube_vip_metrics_enabled: true, kube_vip_metrics_port: 2113, kube_vip_image_repo: r.example.com/kube-vip, kube_vip_image_tag: v9}",
    ));
    let spec = pod.get("spec").unwrap();
    let container = &spec.get("containers").and_then(Node::as_list).unwrap()[0];
    let mut found = environment(container);
    found.sort();
    let expected = "address=10.0.0.100 cp_detect=true cp_enable=true cp_namespace=kube-system dns_mode=ipv4 enable_node_labeling=true \
                    lb_enable=true lb_fwdmethod=masquerade lb_port=6443 port=6443 prometheus_server=:2113 svc_election=true svc_enable=true \
                    svc_leasename=l2 vip_arp=true vip_ddns=true vip_interface=ens3 vip_leaderelection=true vip_leaseduration=30 vip_leasename=l1 \
                    vip_renewdeadline=20 vip_retryperiod=4 vip_servicesinterface=ens4 vip_subnet=24";
    assert_eq!(found.join(" "), expected);
    assert_eq!(container.get("image").and_then(Node::as_str), Some("r.example.com/kube-vip:v9"));
    let port = container.get("ports").and_then(Node::as_list).unwrap()[0].get("containerPort").and_then(Node::as_int);
    assert_eq!(port, Some(2113));
    let privileged = container.get("securityContext").and_then(|context| context.get("privileged"));
    assert_eq!(privileged.and_then(Node::as_bool), Some(true));
    // The first control plane of a new cluster of this release has no other kubeconfig that may take a lease.
    let volume = &spec.get("volumes").and_then(Node::as_list).unwrap()[0];
    let path = volume.get("hostPath").and_then(|volume| volume.get("path")).and_then(Node::as_str);
    assert_eq!(path, Some("/etc/kubernetes/super-admin.conf"));
}

#[test]
fn kube_vip_for_services_leaves_the_api_to_another_load_balancer() {
    let only = "{kube_vip_enabled: true, kube_vip_controlplane_enabled: false, kube_vip_services_enabled: true, kube_vip_address: 10.0.0.100}";
    let pod = yaml(&render("load_balancer/kube_vip", "kube-vip.yml.j2", only));
    let container = &pod.get("spec").and_then(|spec| spec.get("containers")).and_then(Node::as_list).unwrap()[0];
    let mut found = environment(container);
    found.sort();
    let expected = "dns_mode=first port=6443 svc_enable=true svc_leasename=plndr-svcs-lock vip_arp=true vip_leaderelection=true \
                    vip_leaseduration=5 vip_leasename=plndr-cp-lock vip_renewdeadline=3 vip_retryperiod=1 vip_subnet=32";
    assert_eq!(found.join(" "), expected);
    let chosen =
        "[kube_apiserver_endpoint, cluster_selected | select(\"match\", \"load_balancer/\"), kubeadm_ignored_checks]";
    assert_eq!(
        computed("cluster", chosen, only),
        r#"["127.0.0.1:8443", ["load_balancer/haproxy", "load_balancer/kube_vip"], ["DirAvailable--etc-kubernetes-manifests"]]"#
    );
}

#[test]
fn kube_vip_with_bgp_has_every_field() {
    let pod = yaml(&render(
        "load_balancer/kube_vip",
        "kube-vip.yml.j2",
        "{kube_vip_enabled: true, kube_vip_address: 10.0.0.100, kube_vip_bgp_enabled: true, kube_vip_local_as: 65001, kube_version: 1.28.0,
          kube_vip_bgp_routerid: 10.0.0.1, kube_vip_bgp_peeraddress: 10.0.0.9, kube_vip_bgp_peeras: 65009, kube_vip_bgp_peerpass: secret,
          kube_vip_bgppeers: ['10.0.0.10:65000::false', '10.0.0.11:65000::false'], kube_vip_bgp_sourceip: 10.0.0.2}",
    ));
    let spec = pod.get("spec").unwrap();
    let mut found = environment(&spec.get("containers").and_then(Node::as_list).unwrap()[0]);
    found.sort();
    let expected = "address=10.0.0.100 bgp_as=65001 bgp_enable=true bgp_peeraddress=10.0.0.9 bgp_peeras=65009 bgp_peerpass=secret \
                    bgp_peers=10.0.0.10:65000::false,10.0.0.11:65000::false bgp_routerid=10.0.0.1 bgp_sourceip=10.0.0.2 cp_enable=true \
                    cp_namespace=kube-system dns_mode=first port=6443 vip_arp=false vip_subnet=32";
    assert_eq!(found.join(" "), expected);
    let volume = &spec.get("volumes").and_then(Node::as_list).unwrap()[0];
    let path = volume.get("hostPath").and_then(|volume| volume.get("path")).and_then(Node::as_str);
    assert_eq!(path, Some("/etc/kubernetes/admin.conf"));
}

/// Asserts that a rendered text contains each of these lines.
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found.trim() == *line), "no line `{line}` in\n{text}");
    }
}

const CONTAINERD: &str = "{crun_enabled: true, gvisor_enabled: true, kata_containers_enabled: true, containerd_default_runtime: crun,
    containerd_registry_auth: [{registry: 'r.example.com:5000', username: user, password: 'p\"w'}], containerd_metrics_address: '127.0.0.1:1338',
    containerd_additional_runtimes: [{name: nv, type: io.containerd.runc.v2, options: {BinaryName: /usr/bin/nv, SystemdCgroup: 'true', Root: ''}}],
    containerd_extra_runtime_args: {device_ownership_from_security_context: true}, containerd_debug_level: debug, nri_enabled: true, enable_cdi: true,
    containerd_snapshotter: native, containerd_extra_args: '[plugins.x]'";

#[test]
fn containerd_2_has_every_field() {
    let text = render("runtime/containerd", "config.toml.j2", &format!("{CONTAINERD}, containerd_version: 2.3.4}}"));
    has(
        &text,
        &[
            "version = 3",
            "level = \"debug\"",
            "address = \"127.0.0.1:1338\"",
            "[plugins.\"io.containerd.cri.v1.images\".registry.configs.\"r.example.com:5000\".auth]",
            "username = \"user\"",
            "password = \"p\\\"w\"",
            "snapshotter = \"native\"",
            "bin_dirs = [\"/opt/cni/bin\"]",
            "default_runtime_name = \"crun\"",
            "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.crun.options]",
            "BinaryName = \"/usr/local/bin/crun\"",
            "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.nv]",
            "BinaryName = \"/usr/bin/nv\"",
            "runtime_type = \"io.containerd.runsc.v1\"",
            "runtime_path = \"/opt/kata/bin/containerd-shim-kata-v2\"",
            "device_ownership_from_security_context = true",
            "enable_cdi = true",
            "[plugins.\"io.containerd.nri.v1.nri\"]",
            "disable = false",
            "[plugins.x]",
        ],
    );
    assert!(!text.contains("Root = ") && !text.contains("discard_unpacked_layers"), "{text}");
}

#[test]
fn containerd_1_has_every_field() {
    let text = render(
        "runtime/containerd",
        "config.toml.j2",
        &format!("{CONTAINERD}, containerd_version: 1.7.29, kube_version: 1.33.1}}"),
    );
    has(
        &text,
        &[
            "version = 2",
            "[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"r.example.com:5000\".auth]",
            "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.crun.options]",
            "bin_dir = \"/opt/cni/bin\"",
            "discard_unpacked_layers = true",
            "disable = false",
        ],
    );
    assert!(!text.contains("io.containerd.cri.v1"), "{text}");
}

#[test]
fn runtimes_pull_from_registry_servers() {
    let variables =
        "{registry_servers: ['192.0.2.1:5050'], container_manager: crio, crio_registries: [{location: quay.io}]}";
    let text = render("runtime/crio", "registries.conf.j2", variables);
    has(
        &text,
        &["location = \"registry.k8s.io\"", "location = \"192.0.2.1:5050/registry.k8s.io\"", "insecure = false"],
    );
    assert!(!text.contains("192.0.2.1:5050/quay.io") && !text.contains("insecure = true"), "{text}");
    let plain = variables.replace("container_manager", "registry_tls: false, container_manager");
    has(&render("runtime/crio", "registries.conf.j2", &plain), &["insecure = true"]);

    let variables = "{registry_servers: ['192.0.2.1:5050'], registry_mirrored: [a.example.com, b.example.com],
        containerd_registries_mirrors: [{prefix: b.example.com, mirrors: []}], item: '{{ containerd_all_mirrors | last }}'}";
    let lacking = variables.replace("['192.0.2.1:5050']", "['192.0.2.1:5050', '192.0.2.2:5050']").replace(
        "registry_mirrored",
        "registry_trust_found: {results: [{stat: {exists: true}}, {stat: {exists: false}}]}, registry_mirrored",
    );
    let text = render("runtime/containerd", "hosts.toml.j2", &lacking);
    assert!(text.contains("192.0.2.1") && !text.contains("192.0.2.2"), "{text}");
    let text = render("runtime/containerd", "hosts.toml.j2", variables);
    has(
        &text,
        &[
            "[host.\"https://192.0.2.1:5050\"]",
            "capabilities = [\"pull\", \"resolve\"]",
            "skip_verify = false",
            "ca = \"/etc/containerd/registry/192.0.2.1:5050.crt\"",
            "dial_timeout = \"5s\"",
        ],
    );
    assert!(!text.contains("server ="), "{text}");
    let plain = variables.replace("registry_mirrored", "registry_tls: false, registry_mirrored");
    let text = render("runtime/containerd", "hosts.toml.j2", &plain);
    has(&text, &["[host.\"http://192.0.2.1:5050\"]"]);
    assert!(!text.contains("ca ="), "{text}");
}

#[test]
fn docker_has_dns_of_its_own_containers() {
    let variables =
        "{container_manager: docker, docker_dns_search_domains: [a.example.com], docker_dns_options: ['ndots:2']}";
    let text = render("runtime/docker", "docker.service.j2", variables);
    has(&text, &["--dns-search=a.example.com \\", "--dns-opt=ndots:2 \\"]);
    let plain = render("runtime/docker", "docker.service.j2", "{container_manager: docker}");
    assert!(!plain.contains("--dns"), "{plain}");
}

#[test]
fn docker_comes_from_the_distribution_unless_a_variable_chooses_its_repository() {
    let debian = "container_manager: docker, ansible_distribution: Debian, ansible_os_family: Debian";
    let rocky = "container_manager: docker, ansible_distribution: Rocky, ansible_os_family: RedHat, ansible_distribution_major_version: '9'";
    let packages = |variables: String| computed("runtime/docker", "docker_packages", &variables);
    assert_eq!(packages(format!("{{{debian}}}")), r#"["docker.io"]"#);
    assert_eq!(
        packages(format!(
            "{{{debian}, docker_version: '28.3', docker_cli_version: 20.10.24, docker_containerd_version: 1.7.27}}"
        )),
        r#"["docker-ce=5:28.3.*", "docker-ce-cli=5:20.10.24~*", "containerd.io=1.7.27-*"]"#
    );
    assert_eq!(
        packages(format!("{{{rocky}, docker_version: '28.3'}}")),
        r#"["docker-ce-28.3.*", "docker-ce-cli-28.3.*", "containerd.io"]"#
    );
    let repository = |variables: String| {
        computed("runtime/docker", "[docker_packages, docker_repository_url, docker_repository_key]", &variables)
    };
    assert_eq!(
        repository(format!(
            "{{{debian}, docker_debian_repo_base_url: 'https://m.example.com/d', docker_debian_repo_gpgkey: 'https://m.example.com/k'}}"
        )),
        r#"[["docker-ce", "docker-ce-cli", "containerd.io"], "https://m.example.com/d", "https://m.example.com/k"]"#
    );
    assert_eq!(
        repository(format!("{{{rocky}, docker_rh_repo_gpgkey: 'https://m.example.com/k'}}")),
        r#"[["docker-ce", "docker-ce-cli", "containerd.io"], "https://download.docker.com/linux/rhel/9/$basearch/stable", "https://m.example.com/k"]"#
    );
    let centos = rocky.replace("Rocky", "CentOS");
    assert_eq!(
        computed("runtime/docker", "docker_repository_url", &format!("{{{centos}, docker_version: latest}}")),
        r#""https://download.docker.com/linux/centos/9/$basearch/stable""#
    );
}

#[test]
fn dnf_may_erase_for_docker_only_packages_that_variables_name() {
    let erased = |more: &str| {
        let variables = format!(
            "{{container_manager: docker, ansible_distribution: Rocky, ansible_os_family: RedHat, docker_version: latest, {more}
              docker_plan: {{results: ['Installed: containerd.io-1.7.27-1.el9.x86_64', 'Removed: runc-4:1.1-1.el9.x86_64',
                'Removed: docker-selinux-1.9-1.el9.noarch', 'Removed: docker-ce-3:27.0-1.el9.x86_64']}}}}"
        );
        computed("runtime/docker", "docker_erased", &variables)
    };
    assert_eq!(erased(""), r#"["runc"]"#);
    assert_eq!(erased("podman_remove_packages_yum: [podman, runc],"), "[]");
}

#[test]
fn kata_gets_only_the_settings_of_the_inventory() {
    let text = render(
        "cluster",
        "kata.toml.j2",
        "{kata_containers_qemu_default_memory: 4096, kata_containers_qemu_debug: 'true', kata_containers_qemu_sandbox_cgroup_only: false,
          kata_containers_qemu_enable_mem_prealloc: 'false', kata_containers_virtio_fs_cache: always}",
    );
    assert_eq!(
        text,
        "[hypervisor.qemu]\nenable_debug = true\ndefault_memory = 4096\nenable_mem_prealloc = false\nvirtio_fs_cache = \"always\"\n\
         [agent.kata]\nenable_debug = true\n[runtime]\nenable_debug = true\nsandbox_cgroup_only = false\n"
    );
    assert_eq!(computed("cluster", "kata_settings", "{}"), "[]");
    let text = render("cluster", "kata.toml.j2", "{kata_containers_qemu_default_memory: 2048}");
    assert_eq!(text, "[hypervisor.qemu]\ndefault_memory = 2048\n");
}

#[test]
fn certificates_of_the_proxy_reach_downloads_and_the_runtime() {
    let settings = "{https_proxy: 'http://proxy.example.com:3128', https_proxy_cert_file: /etc/ssl/proxy.pem}";
    has(&render("cluster", "http-proxy.conf.j2", settings), &["Environment=\"SSL_CERT_FILE=/etc/ssl/proxy.pem\""]);
    let environment = computed("cluster", "cluster_proxy_environment.SSL_CERT_FILE", settings);
    assert_eq!(environment, "\"/etc/ssl/proxy.pem\"");
    let without = "{https_proxy: 'http://proxy.example.com:3128'}";
    assert!(!render("cluster", "http-proxy.conf.j2", without).contains("SSL_CERT_FILE"));
    assert_eq!(computed("cluster", "cluster_proxy_environment.SSL_CERT_FILE is defined", without), "false");
}

#[test]
fn crio_has_every_field() {
    let variables = "{container_manager: crio, youki_enabled: true, kata_containers_enabled: true, crio_default_runtime: youki, crio_log_level: debug,
        crio_enable_metrics: true, crio_metrics_port: 9191, crio_stream_port: '10011', crio_selinux: true, crio_storage_driver: vfs,
        crio_default_capabilities: [CHOWN, MKNOD], crio_pull_progress_timeout: 20s, crio_criu_support_enabled: true, nri_enabled: true,
        crio_signature_policy: /etc/p.json, crio_additional_mounts: ['/a:/b'], crio_insecure_registries: ['i.example.com:5000'],
        crio_registries: [{prefix: docker.io, location: registry-1.docker.io, unqualified: true, mirrors: [{location: 'm:5000', insecure: true}]}],
        crio_registry_auth: [{registry: r.example.com, username: user, password: word}]}";
    has(
        &render("runtime/crio", "crio.conf.j2", variables),
        &[
            "storage_driver = \"vfs\"",
            "default_runtime = \"youki\"",
            "default_capabilities = [\"CHOWN\", \"MKNOD\"]",
            "log_level = \"debug\"",
            "selinux = true",
            "enable_criu_support = true",
            "stream_port = \"10011\"",
            "enable_metrics = true",
            "metrics_port = 9191",
            "enable_nri = true",
            "signature_policy = \"/etc/p.json\"",
            "pull_progress_timeout = \"20s\"",
            "[crio.runtime.runtimes.youki]",
            "[crio.runtime.runtimes.kata-qemu]",
            "runtime_type = \"vm\"",
        ],
    );
    has(
        &render("runtime/crio", "registries.conf.j2", variables),
        &[
            "unqualified-search-registries = [\"registry-1.docker.io\"]",
            "prefix = \"docker.io\"",
            "location = \"m:5000\"",
            "location = \"i.example.com:5000\"",
        ],
    );
    has(&render("runtime/crio", "mounts.conf.j2", variables), &["/a:/b"]);
    has(&render("runtime/crio", "auth.json.j2", variables), &["\"r.example.com\": {\"auth\": \"dXNlcjp3b3Jk\"}"]);
}

#[test]
fn kubespray_local_volumes_converted_to_provisioner_names() {
    let text = render(
        "addon/local_volume_provisioner",
        "local_volume_provisioner.yaml.j2",
        "local_volume_provisioner_storage_classes: '{\"fast\": {\"host_dir\": \"/mnt/a\", \"mount_dir\": \"/mnt/b\", \"volume_mode\": \"Block\",
           \"reclaim_policy\": \"Retain\"}}'",
    );
    for part in ["hostDir: /mnt/a", "mountDir: /mnt/b", "volumeMode: Block"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    has(&text, &["metadata: {name: fast}", "reclaimPolicy: Retain", "- {name: class-1, hostPath: {path: \"/mnt/a\"}}"]);
}

#[test]
fn registry_has_every_field() {
    let text = render(
        "addon/registry",
        "registry.yaml.j2",
        "{registry_port: 5001, registry_replica_count: 2, registry_storage_class: nfs, registry_storage_access_mode: ReadWriteMany, registry_disk_size: 5Gi,
          registry_service_type: LoadBalancer, registry_service_loadbalancer_ip: 192.0.2.9, registry_service_annotations: {a: b}, registry_htpasswd: 'u:h',
          registry_tls_secret: pair, registry_ingress_host: r.example.com, registry_ingress_tls_secret: other, registry_image_repo: m.example.com/registry}",
    );
    has(
        &text,
        &[
            "replicas: 2",
            "accessModes: [ReadWriteMany]",
            "storageClassName: nfs",
            "resources: {requests: {storage: 5Gi}}",
            "type: LoadBalancer",
            "loadBalancerIP: \"192.0.2.9\"",
            "annotations: {\"a\": \"b\"}",
            "htpasswd: dTpo",
            "image: m.example.com/registry:2.8.1",
            "- {name: registry, containerPort: 5001, protocol: TCP}",
            "- {name: tls, secret: {secretName: pair}}",
            "persistentVolumeClaim: {claimName: registry-pvc}",
            "- {hosts: [r.example.com], secretName: other}",
        ],
    );
}

#[test]
fn keepalived_of_one_control_plane_has_no_empty_list_of_peers() {
    let text = |peers: &str| {
        render(
            "load_balancer/keepalived",
            "keepalived.conf.j2",
            &format!(
                "kube_load_balancer: keepalived\nkeepalived_vip: 10.0.0.100\nkeepalived_peers: {peers}\nkeepalived_own_interface: eth0\n"
            ),
        )
    };
    has(&text("[10.0.0.2]"), &["unicast_src_ip 10.0.0.1", "unicast_peer {", "10.0.0.2"]);
    assert!(!text("[]").contains("unicast"), "keepalived refuses an empty list");
}

#[test]
fn control_planes_that_join_or_upgrade_get_the_timeout_and_patches_of_the_first() {
    let variables = "kubeadm_init_timeout: 7m0s\nkubeadm_patches: [{target: kube-scheduler, patch: {}}]\n\
                     kubeadm_patches_dir: /etc/patches\nkubeadm_token: {token: t, ca_cert_hash: h}\n\
                     kubeadm_certificates: {certificate_key: k}\n";
    let timeout = "timeouts:\n  controlPlaneComponentHealthCheck: 7m0s\n";
    let join = render("control_plane", "kubeadm-join.yaml.j2", variables);
    let upgrade = render("control_plane", "kubeadm-upgrade.yaml.j2", variables);
    assert!(join.contains(timeout) && join.contains("patches:\n  directory: /etc/patches\n"), "{join}");
    assert!(upgrade.contains(timeout), "{upgrade}");
    for step in ["apply", "node"] {
        let patches = format!("{step}:\n  patches:\n    directory: /etc/patches\n");
        assert!(upgrade.contains(&patches), "{upgrade}");
    }
    yaml(&upgrade);
    let plain = render("control_plane", "kubeadm-upgrade.yaml.j2", "kubeadm_init_timeout: 7m0s\n");
    assert!(plain.contains(timeout) && !plain.contains("patches"), "{plain}");
}
