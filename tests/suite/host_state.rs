//! State of a host outside of Kubernetes: what the roles prepare, and what they remove again.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::roles::{play, program};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Output of a script of a role, which finds stand-ins in a folder.
fn script(folder: &Path, name: &str, arguments: &[&str]) -> String {
    let output = Command::new("sh")
        .arg(Path::new(ROOT).join("roles").join(name))
        .args(arguments)
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A host that had kube-proxy in both modes. The stand-ins write what they change into `read`.
fn proxied(folder: &Path) {
    let rules = r#"case "$2" in
nat) cat <<'END'
*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-SEP-AAAA - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER
-A KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
-A KUBE-POSTROUTING -j MASQUERADE
COMMIT
END
;;
filter) cat <<'END'
*filter
:KUBE-SERVICES - [0:0]
:KUBE-IPVS-FILTER - [0:0]
-A INPUT -j KUBE-IPVS-FILTER
-A FORWARD -j KUBE-SERVICES
-A FORWARD -j ACCEPT
COMMIT
END
;;
'') printf ':KUBE-SEP-AAAA - [0:0]\n' ;;
esac"#;
    let at = folder.display();
    program(folder, "iptables-save", rules);
    program(folder, "ip6tables-save", ":");
    program(folder, "iptables-restore", &format!("cat >> {at}/read"));
    program(
        folder,
        "ip",
        &format!(
            "case \"$*\" in
'-o address show dev kube-ipvs0') echo '9: kube-ipvs0    inet 10.233.0.1/32 scope global kube-ipvs0'
    echo '9: kube-ipvs0    inet6 fd00::1/128 scope global' ;;
'link delete kube-ipvs0') echo deleted >> {at}/read ;; esac"
        ),
    );
    program(
        folder,
        "ipvsadm",
        &format!(
            "case \"$1\" in
-S) printf '%s\\n' '-A -t 10.233.0.1:443 -s rr' '-a -t 10.233.0.1:443 -r 10.0.0.1:6443 -m -w 1' '-A -u [fd00::1]:53 -s rr' \
                 '-A -t 10.0.0.1:30080 -s rr' '-A -t 192.0.2.1:80 -s rr' ;;
*) echo \"$@\" >> {at}/read ;; esac"
        ),
    );
    program(
        folder,
        "ipset",
        &format!(
            "case \"$*\" in
'list -n') printf '%s\\n' KUBE-CLUSTER-IP mine ;;
'list KUBE-NODE-PORT-TCP') printf '%s\\n' 'Name: KUBE-NODE-PORT-TCP' 'Size: 8300' 'Members:' 30080 ;;
'destroy '*) echo \"$@\" >> {at}/read ;; esac"
        ),
    );
    program(folder, "nft", &format!("echo nft >> {at}/read"));
    program(folder, "sleep", ":");
}

/// Addresses of services and virtual servers would answer on a host that left the cluster.
#[test]
fn kube_proxy_with_ipvs_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    proxied(folder.path());
    let printed = script(folder.path(), "kube_proxy/files/clean.sh", &[]);
    let wanted = "iptables filter\niptables nat\nkube-ipvs0\nipset KUBE-CLUSTER-IP\nipset KUBE-CLUSTER-IP\nnftables ip\nnftables ip6\n";
    assert_eq!(printed, wanted);
    let read = fs::read_to_string(folder.path().join("read")).unwrap();
    let expected = "*filter
:KUBE-SERVICES - [0:0]
:KUBE-IPVS-FILTER - [0:0]
-D INPUT -j KUBE-IPVS-FILTER
-D FORWARD -j KUBE-SERVICES
-X KUBE-SERVICES
-X KUBE-IPVS-FILTER
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-SEP-AAAA - [0:0]
-D PREROUTING -j KUBE-SERVICES
-D KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
-X KUBE-SERVICES
-X KUBE-LOAD-BALANCER
-X KUBE-SEP-AAAA
COMMIT
-D -t 10.233.0.1:443
-D -u [fd00::1]:53
-D -t 10.0.0.1:30080
deleted
destroy KUBE-CLUSTER-IP
destroy KUBE-CLUSTER-IP
nft
nft
";
    assert_eq!(read, expected);
    let reset = fs::read_to_string(Path::new(ROOT).join("roles/reset/tasks/main.yml")).unwrap();
    assert!(reset.contains("{{ cluster_roles_dir }}/kube_proxy/files/clean.sh"), "{reset}");
}

#[test]
fn kube_proxy_in_another_mode_loses_only_the_rules_of_the_former_one() {
    let folder = tempfile::tempdir().unwrap();
    proxied(folder.path());
    let read = || fs::read_to_string(folder.path().join("read")).unwrap_or_default();
    let clean = |mode: &str| script(folder.path(), "kube_proxy/files/clean.sh", &[mode, "127.0.0.1:10249"]);
    // The node's kube-proxy has not restarted, or does not answer.
    program(folder.path(), "curl", "echo ipvs");
    assert_eq!((clean("iptables"), read()), (String::new(), String::new()));
    program(folder.path(), "curl", "exit 7");
    assert_eq!((clean("ipvs"), read()), (String::new(), String::new()));

    program(folder.path(), "curl", "case $* in *http://127.0.0.1:10249/proxyMode*) echo iptables ;; esac");
    assert!(clean("iptables").contains("kube-ipvs0\n"));
    let changed = read();
    for kept in ["KUBE-SERVICES - ", "KUBE-SEP-AAAA", "-X KUBE-SERVICES", "nft", "-j KUBE-SERVICES"] {
        assert!(!changed.contains(kept), "{changed}");
    }
    for gone in ["-X KUBE-LOAD-BALANCER", "-X KUBE-IPVS-FILTER", "-D -t 10.0.0.1:30080", "deleted", "destroy"] {
        assert!(changed.contains(gone), "{gone}: {changed}");
    }
    fs::remove_file(folder.path().join("read")).unwrap();
    program(folder.path(), "curl", "echo ipvs");
    assert_eq!(clean("ipvs"), "iptables filter\niptables nat\n");
    let expected = "*filter\n:KUBE-SERVICES - [0:0]\n-D FORWARD -j KUBE-SERVICES\n-X KUBE-SERVICES\nCOMMIT\n\
                    *nat\n:KUBE-SEP-AAAA - [0:0]\n-X KUBE-SEP-AAAA\nCOMMIT\n";
    assert_eq!(read(), expected);
    assert_eq!(clean("nftables"), "");
}

#[test]
fn host_whose_kernel_has_no_virtual_servers_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ping", "ufw", "systemctl", "systemd-detect-virt", "getenforce"] {
        program(folder.path(), name, "exit 1");
    }
    let seen = |modprobe: &str| {
        program(folder.path(), "modprobe", modprobe);
        let output = Command::new("sh")
            .arg(Path::new(ROOT).join("roles/check/files/machine.sh"))
            .arg("0")
            .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
            .env("MODULES", "windlass_no_such_module")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().contains("module windlass_no_such_module\n")
    };
    assert!(seen("exit 1"));
    assert!(!seen("[ \"$*\" = '--dry-run --quiet windlass_no_such_module' ]"));
}

#[test]
fn servers_behind_the_stub_of_systemd_resolved_are_used_on_every_system() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = format!(
        "- hosts: cp1\n  gather_facts: false\n  roles: [cluster]\n  tasks:\n    \
         - ansible.builtin.copy: {{dest: {}/out, content: '{{{{ host_resolv_conf }}}}'}}\n",
        folder.path().display()
    );
    for (system, servers, file) in [
        ("Debian", "127.0.0.53", "/run/systemd/resolve/resolv.conf"),
        ("Debian", "192.0.2.53", "/etc/resolv.conf"),
        ("Rocky", "127.0.0.53, 192.0.2.53", "/etc/resolv.conf"),
        ("Ubuntu", "192.0.2.53", "/run/systemd/resolve/resolv.conf"),
    ] {
        let facts = format!("{{ansible_distribution: {system}, ansible_dns: {{nameservers: [{servers}]}}}}");
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &["-e", &facts]);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(fs::read_to_string(folder.path().join("out")).unwrap(), file, "{system} {servers}");
    }
}

/// Swap of zram-generator, of GPT partitions and of units is not in /etc/fstab.
#[test]
fn swap_stays_off_until_a_reset_and_a_mask_of_others_stays() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let systemctl = format!(
        "case \"$*\" in
'is-enabled swap.target') cat {at}/state ;;
'mask swap.target') [ -e {at}/swap.masked ] && echo masked > {at}/state ;;
'unmask swap.target') echo static > {at}/state ;;
*) exit 1 ;; esac"
    );
    program(folder.path(), "systemctl", &systemctl);
    let fstab = format!("host_fstab={at}/fstab");
    fs::write(folder.path().join("fstab"), "# none\n").unwrap();
    let played = |tasks: &str, more: &[&str]| {
        let playbook = format!(
            "- hosts: cp1\n  gather_facts: false\n  environment: {{PATH: '{at}:/usr/bin:/bin'}}\n  tasks:\n    \
             - ansible.builtin.import_role: {{name: host, tasks_from: {tasks}}}\n"
        );
        let more = [&["-e", &fstab], more].concat();
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &more);
        assert_eq!(code, Some(0), "{text}");
        let state = fs::read_to_string(folder.path().join("state")).unwrap().trim().to_owned();
        (state, text.contains("changed=1"))
    };
    let is = |state: &str, changed: bool| (state.to_owned(), changed);
    fs::write(folder.path().join("state"), "static\n").unwrap();
    assert_eq!(played("swap", &["--check"]), is("static", true));
    assert_eq!(played("swap", &[]), is("masked", true));
    assert_eq!(played("swap", &[]), is("masked", false));
    assert_eq!(played("remove", &["--check"]), is("masked", true));
    assert_eq!(played("remove", &[]), is("static", true));
    assert_eq!(played("remove", &[]), is("static", false));
    fs::write(folder.path().join("state"), "masked\n").unwrap();
    assert_eq!(played("swap", &[]), is("masked", false));
    assert_eq!(played("remove", &[]), is("masked", false));
    let reset = fs::read_to_string(Path::new(ROOT).join("roles/reset/tasks/main.yml")).unwrap();
    assert!(reset.contains("    name: host\n    tasks_from: remove\n"), "{reset}");
}

/// Exit code and output of the role host on `cp1`, with what other services of the system do.
fn prepared(folder: &Path, more: &[&str]) -> (Option<i32>, String) {
    let at = folder.display();
    let playbook = format!(
        "- hosts: cp1\n  gather_facts: false\n  environment: {{PATH: '{at}:/usr/bin:/bin'}}\n  tasks:\n    \
         - ansible.builtin.import_role: {{name: host, tasks_from: validate}}\n    \
         - ansible.builtin.import_role: {{name: host, tasks_from: system}}\n    \
         - ansible.builtin.meta: flush_handlers\n    \
         - ansible.builtin.include_role: {{name: host, tasks_from: remove}}\n      when: removed | default(false) | bool\n"
    );
    let places = format!(
        "{{host_selinux_file: {at}/selinux, host_manager_file: {at}/conf.d/kubernetes.conf, kubelet_fail_swap_on: false, \
         host_inotify_instances: 1, ansible_os_family: RedHat, sysctl_file_path: {at}/sysctl}}"
    );
    let more = [&["-e", &places], more].concat();
    play(folder, "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &more)
}

/// Both variables have an effect in Kubespray.
#[test]
fn mode_of_selinux_and_fapolicyd_follow_their_variables() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let systemctl = format!(
        "case \"$*\" in
'is-enabled fapolicyd.service') [ -e {at}/disabled ] || echo enabled ;;
'disable --now fapolicyd.service') touch {at}/disabled ;;
*) exit 3 ;; esac"
    );
    program(folder.path(), "systemctl", &systemctl);
    program(folder.path(), "getenforce", "echo Permissive");
    let selinux = folder.path().join("selinux");
    fs::write(&selinux, "# mine\nSELINUX=enforcing\nSELINUXTYPE=targeted\n").unwrap();
    let (code, text) = prepared(folder.path(), &["-e", "disable_fapolicyd=false"]);
    assert!(code == Some(0) && text.contains("changed=0"), "{text}");
    assert!(!folder.path().join("disabled").exists());
    let permissive = ["-e", "preinstall_selinux_state=permissive"];
    let (code, text) = prepared(folder.path(), &permissive);
    assert!(code == Some(0) && text.contains("changed=2"), "{text}");
    assert_eq!(fs::read_to_string(&selinux).unwrap(), "# mine\nSELINUX=permissive\nSELINUXTYPE=targeted\n");
    assert!(folder.path().join("disabled").exists());
    let (code, text) = prepared(folder.path(), &permissive);
    assert!(code == Some(0) && text.contains("changed=0"), "{text}");
    let (code, text) = prepared(folder.path(), &["-e", "preinstall_selinux_state=off"]);
    assert!(code == Some(2) && text.contains("preinstall_selinux_state"), "{text}");
    fs::remove_file(selinux).unwrap();
    let (code, text) = prepared(folder.path(), &permissive);
    assert!(code == Some(0) && text.contains("changed=0"), "a host without SELinux stays as it is: {text}");
}

#[test]
fn network_manager_leaves_the_interfaces_of_kubernetes_alone_until_a_reset() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    program(
        folder.path(),
        "systemctl",
        &format!("case \"$*\" in *NetworkManager*) echo >> {at}/reloads ;; *) exit 3 ;; esac"),
    );
    let file = folder.path().join("conf.d/kubernetes.conf");
    let (code, text) = prepared(folder.path(), &[]);
    assert!(code == Some(0) && text.contains("changed=0"), "{text}");
    fs::create_dir(folder.path().join("conf.d")).unwrap();
    let (code, text) = prepared(folder.path(), &[]);
    assert_eq!(code, Some(0), "{text}");
    let written = fs::read_to_string(&file).unwrap();
    let wanted = "unmanaged-devices+=interface-name:kube-ipvs0;interface-name:nodelocaldns;interface-name:cni0";
    assert!(written.contains(wanted), "{written}");
    let (code, text) = prepared(folder.path(), &[]);
    assert!(code == Some(0) && text.contains("changed=0"), "{text}");
    let (code, text) = prepared(folder.path(), &["-e", "removed=true"]);
    assert!(code == Some(0) && !file.exists(), "{text}");
    assert_eq!(fs::read_to_string(folder.path().join("reloads")).unwrap(), "\n\n");
}

/// In check mode, so that the limit of this machine stays.
#[test]
fn limit_of_inotify_is_raised_and_never_lowered() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "systemctl", "exit 3");
    let changed = |settings: &str| {
        let (code, text) = prepared(folder.path(), &["--check", "-e", settings]);
        assert_eq!(code, Some(0), "{text}");
        text.contains("changed=1")
    };
    assert!(changed("host_inotify_instances=2147483647"));
    assert!(!changed("host_inotify_instances=1") && !changed("host_inotify_instances=0"));
    let own =
        "{host_inotify_instances: 2147483647, additional_sysctl: [{name: fs.inotify.max_user_instances, value: 9}]}";
    assert!(!changed(own));
}

/// Somebody else has added a range of that user with other ids, so it stays.
#[test]
fn ids_for_user_namespaces_released_when_they_are_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let playbook = "- hosts: cp1\n  gather_facts: false\n  roles: [{role: runtime/crio, when: false}]\n  tasks:\n    \
                    - ansible.builtin.import_role: {name: runtime/crio, tasks_from: ids}\n";
    let file = folder.path().join("subuid");
    let played = |reserved: bool| {
        let files = format!("crio_id_files: [{{path: {at}/subuid, start: 2130706432, length: 16777216}}]");
        let settings = format!("{{crio_ids_reserved: {reserved}, {files}}}");
        let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &["-e", &settings]);
        assert_eq!(code, Some(0), "{text}");
        fs::read_to_string(&file).unwrap_or_default()
    };
    assert_eq!(played(false), "");
    assert_eq!(played(true), "containers:2130706432:16777216\n");
    fs::write(&file, "user:100000:65536\ncontainers:2130706432:16777216\n").unwrap();
    assert_eq!(played(false), "user:100000:65536\n");
    fs::write(&file, "containers:100000:65536\n").unwrap();
    assert_eq!(played(false), "containers:100000:65536\n");
    let tasks = Path::new(ROOT).join("roles/runtime/crio/tasks");
    for name in ["install.yml", "remove.yml"] {
        let text = fs::read_to_string(tasks.join(name)).unwrap();
        assert!(text.contains("import_tasks: ids.yml"), "{name}");
    }
}

/// A service runs since its files were written. A stand-in for systemctl reports it as active, with the process in the
/// file `pid`.
fn predicted(folder: &Path, content: &str, more: &[&str]) -> String {
    let systemctl = format!("case \"$*\" in *MainPID*) cat {}/pid ;; show*) date ;; esac", folder.display());
    program(folder, "systemctl", &systemctl);
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  roles: [cluster]
  tasks:
    - ansible.builtin.copy: {{dest: {at}/settings, content: {content}}}
      register: settings
    - ansible.builtin.shell: \"{{{{ service_newer_files }}}}\"
      vars:
        service_unit: some.service
        service_artifacts: [server]
        service_files: [{at}/settings]
        service_written: [\"{{{{ settings }}}}\"]
      environment: {{PATH: \"{at}:/usr/bin:/bin\"}}
      register: older
      changed_when: older.stdout | length > 0
      check_mode: false
      notify: Restart
  handlers:
    - name: Restart
      ansible.builtin.command: 'true'
",
        at = folder.display(),
    );
    let (code, text) = play(folder, "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, more);
    assert_eq!(code, Some(0), "{text}");
    text
}

/// Check mode writes no file, so the times of files show no restart.
#[test]
fn restart_for_changed_settings_is_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let restart = "RUNNING HANDLER [Restart]";
    predicted(folder.path(), "one", &[]);
    let same = predicted(folder.path(), "one", &["--check"]);
    assert!(!same.contains(restart), "{same}");
    let other = predicted(folder.path(), "two", &["--check"]);
    assert!(other.contains(restart), "{other}");
    assert_eq!(fs::read_to_string(folder.path().join("settings")).unwrap(), "one");
}

/// The old program runs until the service restarts, also if an earlier run has replaced the file.
#[test]
fn restart_for_a_replaced_program_is_found_and_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let restart = "RUNNING HANDLER [Restart]";
    let server = folder.path().join("server");
    fs::copy("/bin/sleep", &server).unwrap();
    let mut running = std::process::Command::new(&server).arg("600").spawn().unwrap();
    fs::write(folder.path().join("pid"), running.id().to_string()).unwrap();
    predicted(folder.path(), "one", &[]);
    let changed = |name: &str, more: &str| {
        format!(
            "\"artifacts_{name}\": {{\"results\": [{{\"changed\": true, \"item\": {{\"key\": \"server\"}}{more}}}]}}"
        )
    };
    let archive = changed("archives_fetched", "");
    for (facts, expected) in [
        (changed("unpacked", ""), true),
        (changed("unpacked", "").replace("server", "other"), false),
        (changed("binaries_fetched", ""), true),
        // Only its mode differs.
        (changed("binaries_fetched", ", \"diff\": {\"after\": {\"path\": \"/server\"}}"), false),
        (archive.clone(), true),
        // The files that were unpacked from it are still the same.
        (format!("{archive}, \"artifacts_intact\": {{\"stdout_lines\": [\"server\"]}}"), false),
    ] {
        let text = predicted(folder.path(), "one", &["--check", "-e", &format!("{{{facts}}}")]);
        assert_eq!(text.contains(restart), expected, "{facts}: {text}");
    }
    fs::remove_file(&server).unwrap();
    let text = predicted(folder.path(), "one", &[]);
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(text.contains(restart), "{text}");
}

/// A task file that compares times of files also passes the results of the tasks that write them, for check mode.
#[test]
fn comparisons_of_times_know_predicted_changes() {
    let mut folders = vec![Path::new(ROOT).join("roles")];
    let mut compared = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // Scripts put these files back: no task writes them.
            if path.extension().is_none_or(|extension| extension != "yml")
                || path.ends_with("upgrade/tasks/runtime_back.yml")
            {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let uses = text.matches("\"{{ service_newer_files }}\"").count();
            assert_eq!(uses, text.matches(" service_written: ").count(), "{}", path.display());
            compared += uses;
        }
    }
    assert!(compared > 15, "{compared}");
}

/// Existing files are not fetched again. A missing folder counts to the file system of the nearest one above it.
#[test]
fn room_needed_by_files_is_summed_for_each_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let df = "case $2 in /usr*) mount=/usr ;; *) mount=/ ;; esac\n\
              echo Filesystem 1024-blocks Used Available Capacity Mounted on\n\
              echo \"/dev/a 9 9 307200 99% $mount\"";
    program(folder.path(), "df", df);
    let entries =
        ["/usr/bin", "/var/none/at/all", "5242881:/usr/bin:/none", "99999999:/usr/bin:/dev/null", "1:/usr/lib:/none"];
    let output = script(folder.path(), "check/files/space.sh", &entries);
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["room 300 0 / /var/none/at/all", "room 300 6 /usr /usr/bin,/usr/lib"]);
}
