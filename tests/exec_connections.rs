//! Hosts behind a program such as `docker exec`, with stand-ins for these programs that run everything here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A program that notes its words up to the shell command, and runs the shell command.
const STAND_IN: &str = "#!/bin/sh\nwords=\"${0##*/}\"\nwhile [ \"$1\" != /bin/sh ]; do words=\"$words $1\"; shift; done\n\
                        echo \"$words\" >> \"$NOTES\"\nexec \"$@\"\n";

fn project(hosts: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    for name in ["docker", "podman", "kubectl", "oc", "chroot", "lxc", "incus"] {
        let path = folder.path().join("bin").join(name);
        fs::write(&path, STAND_IN).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(folder.path().join("hosts"), hosts).unwrap();
    folder
}

fn adhoc(folder: &Path, arguments: &[&str]) -> Output {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["adhoc", "-i", "hosts"])
        .args(arguments)
        .current_dir(folder)
        .env("PATH", path)
        .env("NOTES", folder.join("notes"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

#[test]
fn each_program_runs_modules_commands_and_copies() {
    for (variables, command) in [
        ("ansible_connection=docker", "docker exec -i web"),
        (
            "ansible_connection=community.docker.docker ansible_host=box ansible_user=app \
             ansible_docker_extra_args='-H tcp://d:2376' ansible_docker_working_dir=/srv",
            "docker -H tcp://d:2376 exec -i --user app --workdir /srv box",
        ),
        ("ansible_connection=containers.podman.podman ansible_podman_executable=podman", "podman exec -i web"),
        (
            "ansible_connection=kubernetes.core.kubectl ansible_kubectl_namespace=shop ansible_kubectl_pod=cart-0 \
             ansible_kubectl_container=app ansible_kubectl_context=test ansible_kubectl_kubeconfig=/k",
            "kubectl --kubeconfig /k --context test --namespace shop exec -i cart-0 --container app --",
        ),
        ("ansible_connection=community.okd.oc", "oc exec -i web --"),
        ("ansible_connection=chroot ansible_host=/mnt/new", "chroot /mnt/new"),
        ("ansible_connection=lxd ansible_lxd_remote=far ansible_lxd_project=p", "lxc --project p exec far:web --"),
        ("ansible_connection=community.general.incus", "incus exec web --"),
    ] {
        let folder = project(&format!("web {variables}\n"));
        let path = folder.path().join("there").display().to_string();
        let copied = adhoc(folder.path(), &["web", "-m", "copy", "-a", &format!("content=hello dest={path}")]);
        assert!(copied.status.success(), "{variables}: {copied:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello");
        let raw = adhoc(folder.path(), &["web", "-m", "raw", "-a", "echo raw"]);
        assert!(String::from_utf8_lossy(&raw.stdout).contains("raw"), "{variables}: {raw:?}");
        let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
        assert!(notes.lines().all(|line| line == command), "{variables}: {notes}");
    }
}

#[test]
fn executor_of_a_container_ends_with_the_run() {
    let folder = project("web ansible_connection=docker\n");
    let listed = adhoc(folder.path(), &["web", "-m", "command", "-a", "cat /proc/self/status"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let parent = text.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
    assert!(!Path::new("/proc").join(parent).exists(), "the executor {parent} goes on");
}

#[test]
fn program_that_fails_makes_the_host_unreachable_with_its_message() {
    let folder = project(
        "web ansible_connection=docker\npod ansible_connection=kubectl ansible_kubectl_token=t0k3n\n\
                          odd ansible_connection=docker ansible_host=--privileged\nfar ansible_connection=netconf\n",
    );
    let docker = folder.path().join("bin/docker");
    fs::write(&docker, "#!/bin/sh\necho 'Error response from daemon: No such container: web' >&2\nexit 1\n").unwrap();
    let output = adhoc(folder.path(), &["web", "-m", "ping"]);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("UNREACHABLE") && text.contains("No such container: web"), "{text}");
    for (host, reason) in [
        ("pod", "ansible_kubectl_token of pod is not supported, because every user of this machine could read it"),
        ("odd", "--privileged cannot be the name of the host odd: it begins with `-`"),
        ("far", "the connection plugin 'netconf' of far was not found; use ssh, local, docker, podman,"),
    ] {
        let output = adhoc(folder.path(), &[host, "-m", "ping"]);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(reason) && !text.contains("t0k3n"), "{text}");
    }
}

#[test]
fn facts_of_a_host_do_not_choose_its_container() {
    let folder = project("web ansible_connection=docker\n");
    fs::create_dir(folder.path().join("library")).unwrap();
    let facts = r#"{"ansible_docker_host": "other", "ansible_docker_extra_args": "-H tcp://evil:1"}"#;
    let module = format!("#!/bin/sh\n# WANT_JSON\necho '{{\"changed\": false, \"ansible_facts\": {facts}}}'\n");
    fs::write(folder.path().join("library/liar"), module).unwrap();
    let play = "- hosts: web\n  gather_facts: false\n  tasks:\n    - liar:\n    - ping:\n";
    fs::write(folder.path().join("play.yml"), play).unwrap();
    let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "play.yml"])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("NOTES", folder.path().join("notes"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
    assert!(notes.lines().all(|line| line == "docker exec -i web"), "{notes}");
}
