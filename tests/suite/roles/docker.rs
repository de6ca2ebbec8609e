//! Docker as the runtime: releases, restarts, and systems without its packages.

use std::fs;
use std::process::Command;

use super::{play, program};

/// All nodes would lose their containers at the same time: `cluster.yml` changes them together.
#[test]
fn docker_below_running_containers_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    program(folder.path(), "docker", "echo 0123456789ab");
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  environment: {{PATH: '{at}:/usr/bin:/bin:/usr/sbin:/sbin'}}
  vars:
    container_manager: docker
    docker_bin_dir: {at}
    docker_packages: [windlass-no-such-package]
  tasks:
    - ansible.builtin.import_role: {{name: check, tasks_from: runtime}}
"
    );
    let checked = |systemctl: &str, markers: &str| {
        program(folder.path(), "systemctl", systemctl);
        let markers = format!("{{cluster_markers: {{files: {markers}}}}}");
        play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &["-e", &markers])
    };
    let marked = "[{path: /x/runtime-docker}]";
    let (code, text) = checked("exit 0", marked);
    assert!(code == Some(2) && text.contains("cp1 runs containers with Docker, which would stop"), "{text}");
    // Its node was drained and stopped.
    let (code, text) = checked("exit 3", marked);
    assert_eq!(code, Some(0), "{text}");
    // The host is not a node yet.
    let (code, text) = checked("exit 0", "[]");
    assert_eq!(code, Some(0), "{text}");
}

/// A restart ends all containers, and with them the API server of a control plane.
#[test]
fn docker_restarts_on_one_control_plane_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    program(folder.path(), "kubectl", &format!("echo ready >>{at}/log"));
    program(
        folder.path(),
        "systemctl",
        &format!(
            "case $1 in restart) echo restart >>{at}/log ;; esac; \
             echo LoadState=loaded; echo ActiveState=active; echo UnitFileState=enabled"
        ),
    );
    let playbook = format!(
        "- hosts: kube_control_plane
  gather_facts: false
  environment: {{PATH: '{at}:{{{{ lookup(\"env\", \"PATH\") }}}}'}}
  tasks:
    - ansible.builtin.command: echo changed
      register: docker_settings
    - ansible.builtin.include_role: {{name: runtime/docker, tasks_from: restart}}
      loop: [cp1, cp2]
      loop_control: {{loop_var: docker_turn}}
"
    );
    let place = format!("bin_dir={at}");
    let (code, text) = play(folder.path(), "cp1 ip=127.0.0.1\ncp2 ip=127.0.0.2\n", &playbook, &["-e", &place]);
    assert_eq!(code, Some(0), "{text}");
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let each = "ready restart ready ";
    assert_eq!(log.replace('\n', " "), each.repeat(2), "{text}");
}

/// Without the refusal, Docker's programs would be replaced on all hosts at the same time, and the running daemon would
/// use programs of another release.
#[test]
fn other_release_than_the_running_daemon_has_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    // GNU's sleep prints its release as daemons do.
    let mut daemon = Command::new("sleep").arg("300").spawn().unwrap();
    program(
        folder.path(),
        "systemctl",
        &format!("case \"$*\" in *containerd*) echo {} ;; *) echo 0 ;; esac", daemon.id()),
    );
    fs::write(folder.path().join("kubelet.conf"), "").unwrap();
    let playbook = format!(
        "- hosts: cp1
  gather_facts: false
  environment: {{PATH: '{at}:/usr/bin:/bin:/usr/sbin:/sbin'}}
  vars: {{kube_version: 1.33.1}}
  tasks:
    - ansible.builtin.import_role: {{name: check, tasks_from: running}}
"
    );
    let checked = |version: &str, markers: &str| {
        let variables = format!("{{containerd_version: '{version}', cluster_markers: {{files: {markers}}}}}");
        play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", &playbook, &["-e", &variables])
    };
    let printed = Command::new("sleep").arg("--version").output().unwrap().stdout;
    let line = String::from_utf8_lossy(&printed).lines().next().unwrap_or_default().to_owned();
    let release = line.rsplit(' ').next().unwrap().to_owned();
    let marked = "[{path: /x/runtime-containerd}]";
    let outcomes = [checked("99.1.2", marked), checked(&release, marked), checked("99.1.2", "[]")];
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let [(other, text), (same, _), (foreign, _)] = outcomes;
    let sentence = format!("cp1 runs containerd {release}, but containerd_version is 99.1.2");
    assert!(other == Some(2) && text.contains(&sentence) && text.contains("playbooks/upgrade.yml"), "{text}");
    assert_eq!((same, foreign), (Some(0), Some(0)), "only another release of the roles' containerd is refused");
}

#[test]
fn docker_refused_for_systems_without_its_packages() {
    let folder = tempfile::tempdir().unwrap();
    let playbook = "- hosts: cp1\n  gather_facts: false\n  vars: {container_manager: docker, docker_version: latest}\n  tasks:\n    \
         - ansible.builtin.import_role: {name: check, tasks_from: runtime}\n";
    let amazon = ["-e", "ansible_distribution=Amazon", "-e", "ansible_os_family=RedHat"];
    let (code, text) = play(folder.path(), "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\n", playbook, &amazon);
    assert!(code == Some(2) && text.contains("cp1 runs Amazon, but the repository of Docker has packages"), "{text}");
}
