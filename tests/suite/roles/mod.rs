//! Roles: hosts that they refuse, hosts that lie, and clusters that they change while these run.

mod addons;
mod addresses;
mod docker;
mod downloads;
mod etcd;
mod nodes;
mod recovery;
mod removal;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A playbook on `cp1` and `cp2`, which are this machine, optionally in check mode.
fn command(folder: &Path, hosts: &str, playbook: &str, more: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let groups = "[etcd]\ncp1\ncp2\n[kube_node]\ncp1\ncp2\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n";
    let variables = format!(
        "[all:vars]\nansible_connection=local\nkube_config_dir={0}\nartifacts_dir={0}/here\n",
        folder.display()
    );
    fs::write(folder.join("hosts"), format!("[kube_control_plane]\n{hosts}{groups}{variables}")).unwrap();
    fs::write(folder.join("play.yml"), playbook).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command
        .args(["playbook", "-i", "hosts", "play.yml"])
        .args(more)
        .current_dir(folder)
        .env("WINDLASS_FAILURES", "ansible")
        .env("ANSIBLE_ROLES_PATH", root.join("roles"))
        .env("NO_COLOR", "1");
    command
}

/// Exit code and output of a playbook.
pub(crate) fn play(folder: &Path, hosts: &str, playbook: &str, more: &[&str]) -> (Option<i32>, String) {
    let output = command(folder, hosts, playbook, more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

/// A program for `PATH` or a variable of a role.
pub(crate) fn program(folder: &Path, name: &str, script: &str) {
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn hostile_names_and_addresses_never_reach_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let lie = "a; touch b $(c) `d` | e & f > g \\\\ ' \\\" {{ 1 }}";
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  roles: [cluster]
  vars:
    kube_pod_range_lines: {{stdout_lines: ['cp1=10.0.0.0/24; touch x', cp2=10.0.1.0/24]}}
  tasks:
    - ansible.builtin.set_fact:
        ansible_default_ipv4: {{address: \"{lie}\"}}
        access_ip: !unsafe \"{lie}\"
        kube_override_hostname: !unsafe \"{lie}\"
        etcd_member_name: !unsafe \"{lie}\"
      delegate_to: cp2
      delegate_facts: true
    - ansible.builtin.copy:
        dest: {folder}/out
        content: \"{{{{ [kube_node_names, node_ips, node_access_ips, etcd_member_names, node_ips6, kube_pod_ranges] | to_json }}}}\"
",
        folder = folder.path().display(),
    );
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ansible_host=10.0.0.2\n", &playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
    let out = fs::read_to_string(folder.path().join("out")).unwrap();
    assert!(out.contains("10.0.0.1") && out.contains("atouchb"), "{out}");
    assert!(!out.contains([';', '$', '`', '|', '&', '>', '\\', '\'']), "{out}");
    assert!(out.contains(r#""cp1": ["10.0.0.0/24"]"#) && out.contains(r#""cp2": ["10.0.1.0/24"]"#), "{out}");
}

/// Control planes have the API server's port already.
#[test]
fn local_load_balancer_never_takes_the_port_of_the_api_server() {
    let folder = tempfile::tempdir().unwrap();
    for (port, taken) in [("6443", "8443"), ("7443", "7443")] {
        let playbook = format!(
            "- hosts: cp1\n  gather_facts: false\n  roles: [cluster]\n  tasks:\n    - ansible.builtin.assert:\n        \
             that: kube_apiserver_endpoint == '127.0.0.1:{taken}'\n"
        );
        let setting = format!("loadbalancer_apiserver_port={port}");
        let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n";
        let (code, text) = play(folder.path(), hosts, &playbook, &["-e", &setting]);
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn hostile_facts_do_not_override_cluster_variables() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("library")).unwrap();
    let facts =
        r#"{"first_kube_control_plane": "localhost", "cluster_hosts": ["x"], "node_ips": {}, "main_ip": "6.6.6.6"}"#;
    let module = format!("#!/bin/sh\n# WANT_JSON\necho '{{\"changed\": false, \"ansible_facts\": {facts}}}'\n");
    fs::write(folder.path().join("library/liar"), module).unwrap();
    let playbook = "- hosts: cp2\n  gather_facts: false\n  roles: [cluster]\n  tasks:\n    - liar:\n    - ansible.builtin.assert:\n        \
         that: [first_kube_control_plane == 'cp1', \"cluster_hosts == ['cp1', 'cp2']\", main_ip == '10.0.0.2']\n";
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &[]);
    assert_eq!(code, Some(0), "{text}");
}

/// In check mode, so that the resolver of this machine stays.
#[test]
fn resolver_of_a_host_configured_where_it_is_managed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  environment: {{PATH: '{at}:/usr/bin:/bin'}}
  vars: {{dns_mode: manual, manual_dns_server: 10.9.0.1, enable_nodelocaldns: false}}
  tasks:
    - ansible.builtin.import_role: {{name: resolver, tasks_from: validate}}
    - ansible.builtin.import_role: {{name: resolver}}
    - ansible.builtin.import_role: {{name: resolver, tasks_from: hosts}}
"
    );
    let changed = |manager: &str, mode: &str| {
        let active = format!("*is-active*{manager}.service*) exit 0 ;;");
        let shown = "*show*) printf 'LoadState=loaded\\nActiveState=active\\n' ;;";
        program(folder.path(), "systemctl", &format!("case \"$*\" in {active} {shown} *) exit 3 ;; esac"));
        let mode = format!("resolvconf_mode={mode}");
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2\n", &playbook, &["--check", "-e", &mode]);
        assert_eq!(code, Some(0), "{text}");
        let mut task = "";
        let mut changed = Vec::new();
        for line in text.lines() {
            match line.strip_prefix("TASK [resolver : ") {
                Some(name) => task = name.split(']').next().unwrap(),
                None if line.starts_with("changed: ") => changed.push(task.to_owned()),
                None => {}
            }
        }
        changed
    };
    let upstream = "Write the file of upstream DNS servers";
    for (manager, tasks) in [
        (
            "systemd-resolved",
            &[
                "Create the drop-in directory of systemd-resolved",
                "Write the settings of systemd-resolved",
                "Check whether systemd-resolved runs with older settings",
                "Restart systemd-resolved with its settings",
            ][..],
        ),
        ("NetworkManager", &["Write the settings of NetworkManager", "Reload NetworkManager"]),
        ("none", &["Back up the host's resolv.conf", "Write the host's resolv.conf"]),
    ] {
        let found = changed(manager, "host_resolvconf");
        assert_eq!(found, [&[upstream][..], tasks].concat(), "{manager}");
        assert!(changed(manager, "none").is_empty(), "{manager}");
    }
}

#[test]
fn unsuitable_host_refused() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster:etcd\n  gather_facts: false\n  tasks:\n    - ansible.builtin.import_role: {name: check, tasks_from: hosts}\n";
    let hosts = "cp1 ip=127.0.0.1\ncp2 ip=127.0.0.2\n";
    let servers = folder.path().join("resolv.conf");
    let resolv_conf = format!("resolv_conf={} etcd_data_dir={}", servers.display(), folder.path().display());
    let checked = |more: &[&str]| {
        let more: Vec<&str> = ["-e", resolv_conf.as_str(), "-e", "kube_version=1.36.4", "-e", "skip_downloads=true"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        play(folder.path(), hosts, playbook, &more)
    };
    let allowed = ["-e", "kube_cgroup_v1_allowed=true"];

    fs::write(&servers, "search example.com\n").unwrap();
    let (code, text) = checked(&allowed);
    assert!(code == Some(2) && text.contains("resolv.conf of cp1 has no name server"), "{text}");
    let (code, text) = checked(&["-e", "kube_cgroup_v1_allowed=true", "-e", "dns_mode=none"]);
    assert_eq!(code, Some(0), "{text}");

    fs::write(&servers, "nameserver 127.0.0.1\nnameserver ::1\n").unwrap();
    let (code, text) = checked(&allowed);
    let sentence = "resolv.conf of cp1 has only 127.0.0.1 and ::1 as name servers, where CoreDNS would query itself";
    assert!(code == Some(2) && text.contains(sentence) && text.contains("set upstream_dns_servers"), "{text}");
    let servers_set = "{kube_cgroup_v1_allowed: true, upstream_dns_servers: [192.0.2.53]}";
    assert_eq!(checked(&["-e", servers_set]).0, Some(0));

    fs::write(&servers, "nameserver 127.0.0.1\nnameserver 192.0.2.53\n").unwrap();
    let (code, text) = checked(&allowed);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("is not a directory"), "a new host has no records, without a warning: {text}");
    // The outcome depends on this machine's version of control groups.
    let (code, text) = checked(&[]);
    match Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        true => assert_eq!(code, Some(0), "{text}"),
        false => assert!(code == Some(2) && text.contains("cp1 has cgroup v1, with"), "{text}"),
    }
    let addresses = "{ansible_all_ipv4_addresses: [127.0.0.1], ansible_all_ipv6_addresses: []}";
    let (code, text) = checked(&[&allowed[..], &["-e", addresses]].concat());
    assert!(
        code == Some(2) && text.contains("No interface of cp2 has 127.0.0.2, the address of the inventory"),
        "{text}"
    );
    // kubeadm would refuse them half-way.
    let one = "cp1 has one processor, but kubeadm makes no control plane with fewer than two";
    let small = "cp1 has 1600 MiB of memory, but needs 1700";
    let old = "kube_proxy_mode is nftables, with which kube-proxy needs Linux 5.13 or later, but cp1 runs 5.10.0-8";
    for (facts, sentence) in [
        ("{ansible_processor_nproc: 1}", one),
        ("{ansible_memtotal_mb: 1600}", small),
        ("{kube_proxy_mode: nftables, ansible_kernel: 5.10.0-8-amd64}", old),
        ("{ansible_processor_nproc: 1, kubeadm_ignore_preflight_errors: [NumCPU]}", ""),
        ("{ansible_memtotal_mb: 1600, kubeadm_ignore_preflight_errors: [all]}", ""),
        ("{kube_proxy_mode: nftables, ansible_kernel: 5.13.0-1.el9}", ""),
    ] {
        let (code, text) = checked(&[&allowed[..], &["-e", facts]].concat());
        let expected = if sentence.is_empty() { Some(0) } else { Some(2) };
        assert!(code == expected && text.contains(sentence), "{facts}: {text}");
    }

    let swap = [&allowed[..], &["-e", "kubelet_fail_swap_on=false"]].concat();
    let (code, text) = checked(&swap);
    match Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        true => assert_eq!(code, Some(0), "{text}"),
        false => assert!(code == Some(2) && text.contains("Set kubelet_swap_behavior to NoSwap"), "{text}"),
    }
    for suitable in ["kubelet_swap_behavior=NoSwap", "kube_version=1.29.5"] {
        let (code, text) = checked(&[&swap[..], &["-e", suitable]].concat());
        assert_eq!(code, Some(0), "{text}");
    }

    fs::create_dir(folder.path().join("components")).unwrap();
    fs::write(folder.path().join("components/runtime-containerd"), "").unwrap();
    let (code, text) = checked(&allowed);
    assert_eq!(code, Some(0), "{text}");
    let other = ["-e", "kube_cgroup_v1_allowed=true", "-e", "container_manager=crio"];
    let (code, text) = checked(&other);
    assert!(code == Some(2) && text.contains("cp1 runs containerd, but container_manager is"), "{text}");
    let (code, text) = checked(&[&other[..], &["-e", "migrate_runtime=true"]].concat());
    assert_eq!(code, Some(0), "{text}");

    let applied = folder.path().join("kubeadm-config.applied.yaml");
    let established = folder.path().join("established");
    for (content, lost) in [("# Of somebody else\n", false), ("kubernetesVersion: v1.36.4\n", true)] {
        fs::write(&applied, content).unwrap();
        let (code, text) = checked(&allowed);
        let sentence = "cp1, cp2 ran a cluster, but no etcd member has its data in";
        assert!(lost == text.contains(sentence) && lost == (code == Some(2)), "{text}");
        assert!(!lost || text.contains("playbooks/recover.yml") && text.contains("playbooks/restore.yml"), "{text}");
    }
    fs::write(&established, "").unwrap();
    for (release, sentence) in [("v1.35.1", "cp1 runs Kubernetes 1.35.1, but kube_version is 1.36.4"), ("v1.36.4", "")]
    {
        fs::write(&applied, format!("kubernetesVersion: {release}\n")).unwrap();
        let (code, text) = checked(&allowed);
        let refused = code == Some(2) && text.contains(sentence) && text.contains("playbooks/upgrade.yml");
        assert!(refused != sentence.is_empty(), "{text}");
    }
    let marker = folder.path().join("upgrade");
    fs::write(&marker, "").unwrap();
    let (code, text) = checked(&allowed);
    assert!(code == Some(2) && text.contains("cp1 is in the middle of an upgrade"), "{text}");
    let (code, text) = checked(&[&allowed[..], &["-e", "upgrade_cluster_setup=true"]].concat());
    assert_eq!(code, Some(0), "{text}");
    fs::remove_file(&marker).unwrap();

    fs::create_dir(folder.path().join("manifests")).unwrap();
    fs::write(folder.path().join("manifests/etcd.yaml"), "").unwrap();
    let (code, text) = checked(&allowed);
    assert!(code == Some(2) && text.contains("shows that etcd runs in a pod on cp1"), "{text}");
}

#[test]
fn registry_servers_have_an_order_of_each_host() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = format!(
        "- hosts: k8s_cluster
  gather_facts: false
  roles: [cluster]
  tasks:
    - ansible.builtin.copy:
        dest: {}/{{{{ inventory_hostname }}}}
        content: \"{{{{ [registry_servers, registry_mirrors, registry_addresses] | to_json }}}}\"
",
        folder.path().display(),
    );
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n[registry]\nr1 access_ip=10.0.0.11 ip=10.1.0.11\n\
                 r2 ansible_host='fd00::2;x'\nr3 ip=10.0.0.13 registry_state=absent\n";
    let addresses = r#"["10.0.0.11", "fd00::2x"]"#;
    let (first, second) = (r#""10.0.0.11:5050""#, r#""[fd00::2x]:5050""#);
    let servers = format!("[{first}, {second}]");
    let cases = [
        ("{}", servers.as_str(), format!("[{second}, {first}]"), servers.clone(), addresses),
        ("{registry_state: absent}", "[]", "[]".to_owned(), "[]".to_owned(), "[]"),
    ];
    for (variables, servers, of_cp1, of_cp2, addresses) in cases {
        let (code, text) = play(folder.path(), hosts, &playbook, &["-e", variables]);
        assert_eq!(code, Some(0), "{text}");
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("cp1"), format!("[{servers}, {of_cp1}, {addresses}]"), "{variables}");
        assert_eq!(read("cp2"), format!("[{servers}, {of_cp2}, {addresses}]"), "{variables}");
    }
}

#[test]
fn certificates_settings_valid_on_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: certificates, tasks_from: validate}
    - ansible.builtin.debug: {var: auto_renew_certificates_systemd_calendar}
";
    // Only cp1 is a control plane.
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\n", playbook, &[]);
    assert!(code == Some(0) && text.matches(" 03:00:00").count() == 2, "{text}");
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &[]);
    assert!(code == Some(0) && text.contains(" 03:10:00"), "{text}");
}

/// A dead first control plane must neither keep a change from the others nor be the one they are changed through.
#[test]
fn running_cluster_is_changed_without_an_unreachable_first_control_plane() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: k8s_cluster
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - ansible.builtin.include_role: {name: cluster, tasks_from: find}
- hosts: reached
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: [through, \"{{ first_kube_control_plane | default('cp1') }}\", \"{{ first_etcd | default('cp1') }}\", without, \"{{ cluster_silent | default([]) | join }}\"]
";
    let programs = format!("bin_dir={}", folder.path().display());
    let found = |hosts: &str| {
        let (code, text) = play(folder.path(), hosts, playbook, &["-e", &programs]);
        (code, text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let gone = "ansible_connection=ssh ansible_port=1";
    let known = format!("cp1 {gone} ansible_host=127.0.0.1 ip=10.0.0.1\ncp2\n");

    let (code, text) = found(&known);
    let all = r#"[cp1] => { "msg": [ "through", "cp1", "cp1", "without", "" ] }"#;
    assert!(
        code == Some(0) && text.contains(all),
        "a cluster that nothing serves would be made without a host: {text}"
    );

    for program in ["kubectl", "etcdctl"] {
        let file = folder.path().join(program);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (code, text) = found(&known);
    let chosen = r#"[cp2] => { "msg": [ "through", "cp2", "cp2", "without", "cp1" ] }"#;
    assert!(code == Some(0) && text.contains(chosen) && !text.contains("[cp1] => {"), "{code:?} {text}");
    let (code, text) = found("cp1 ip=10.0.0.1\ncp2\n");
    assert!(
        code == Some(0) && text.contains(r#"[cp2] => { "msg": [ "through", "cp1", "cp1", "without", "" ] }"#),
        "{text}"
    );
    for unknown in ["", "ansible_host=127.0.0.1"] {
        let (code, text) = found(&format!("cp1 {gone} {unknown}\ncp2\n"));
        let refused = "the inventory does not have the address that the cluster uses. Set its variable ip,";
        assert!(code == Some(2) && text.contains(refused), "{text}");
    }

    // The only member of etcd that answers is new, and would begin another cluster.
    fs::write(folder.path().join("etcdctl"), "#!/bin/sh\nexit 1\n").unwrap();
    let (code, text) = found(&known);
    assert!(code == Some(0) && text.contains(all), "{text}");
}
