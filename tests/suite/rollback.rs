//! Scripts with which playbooks/rollback.yml, restore.yml and recover.yml replace the state of hosts, with stand-ins
//! for the programs of a host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// A folder with stand-ins for programs in `bin`. Services are stopped, and no process of the control plane runs.
fn host(programs: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let common = [("systemctl", "[ \"$1\" != is-active ]"), ("pgrep", "exit 1")];
    for (name, text) in common.iter().chain(programs) {
        write(&folder.path().join("bin").join(name), &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(folder.path().join("bin").join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs `roles/SCRIPT` in the folder, and returns its output.
#[track_caller]
fn run(folder: &Path, script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = outcome(folder, script, arguments, variables);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{script}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn outcome(folder: &Path, script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles").join(script);
    let path = format!("{}/bin:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.arg(program).args(arguments).current_dir(folder).env("PATH", path).envs(variables.iter().copied());
    command.output().unwrap()
}

#[test]
fn pods_of_docker_stop_although_crictl_answers() {
    let docker = "[ \"$1\" != ps ] || echo one\necho \"$*\" >>calls";
    let folder = host(&[("crictl", "exit 0"), ("docker", docker)]);
    run(folder.path(), "restore/files/stop.sh", &["kube-system"], &[]);
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    assert!(calls.contains("label=io.kubernetes.pod.namespace=kube-system"), "{calls}");
    assert!(calls.ends_with("stop --time 10 one\n"), "{calls}");
}

#[test]
fn pods_stop_by_crictl_without_docker_for_kubernetes() {
    let crictl = "[ \"$*\" != 'pods --quiet --state Ready --namespace kube-system' ] || echo pod\necho \"$*\" >>calls";
    let folder = host(&[("crictl", crictl), ("docker", "exit 1")]);
    run(folder.path(), "restore/files/stop.sh", &["kube-system"], &[]);
    assert!(fs::read_to_string(folder.path().join("calls")).unwrap().ends_with("stopp pod\n"));
}

#[test]
fn images_of_old_static_pods_are_looked_up_in_the_runtime() {
    let docker = "[ \"$*\" = info ] || [ \"$*\" = 'image inspect kept:1' ]";
    let crictl = "[ \"$*\" = info ] || [ \"$*\" = 'inspecti -q other:1' ]";
    let folder = host(&[("docker", docker), ("crictl", crictl)]);
    write(&folder.path().join("saved/record"), "time 1\n");
    for name in ["kept", "other"] {
        let manifest = folder.path().join(format!("saved/settings/manifests/{name}.yaml"));
        write(&manifest, &format!("    image: {name}:1\n"));
    }
    let look =
        |runtime, mode| run(folder.path(), "rollback/files/look.sh", &["saved", "/manifests", runtime, mode], &[]);
    assert_eq!(look("docker", "pull"), "image other:1\n");
    assert_eq!(look("containerd", "pull"), "image kept:1\n");
}

/// Check mode changes nothing on a host, and a pulled image would stay there.
#[test]
fn images_are_not_pulled_in_check_mode() {
    let docker = "echo \"$*\" >>calls; case $* in info | pull*) ;; *) exit 1 ;; esac";
    let folder = host(&[("docker", docker)]);
    write(&folder.path().join("saved/record"), "time 1\n");
    write(&folder.path().join("saved/settings/manifests/one.yaml"), "    image: one:1\n");
    let look = |mode| run(folder.path(), "rollback/files/look.sh", &["saved", "/manifests", "docker", mode], &[]);
    assert_eq!(look("ask"), "absent one:1\n");
    assert!(!fs::read_to_string(folder.path().join("saved/calls")).unwrap().contains("pull"));
    assert_eq!(look("pull"), "");
    assert!(fs::read_to_string(folder.path().join("saved/calls")).unwrap().contains("pull one:1"));
}

#[test]
fn restored_settings_are_newer_than_running_services() {
    let folder = host(&[]);
    let target = folder.path().join("etc/settings");
    let kept = folder.path().join("saved/settings").join(target.strip_prefix("/").unwrap());
    write(&target, "new\n");
    write(&kept, "old\n");
    write(&folder.path().join("saved/programs/kubelet"), "old\n");
    fs::create_dir(folder.path().join("programs")).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(86_400);
    fs::File::options().write(true).open(&kept).unwrap().set_modified(long_ago).unwrap();
    let paths = [folder.path().join("saved"), folder.path().join("programs")].map(|path| path.display().to_string());
    let put = || run(folder.path(), "upgrade/files/put.sh", &[&paths[0], &paths[1]], &[]);
    assert!(put().ends_with(&format!("{}\n", target.display())));
    assert_eq!(fs::read_to_string(&target).unwrap(), "old\n");
    let age = fs::metadata(&target).unwrap().modified().unwrap().elapsed().unwrap_or_default();
    assert!(age < Duration::from_secs(3_600), "{age:?}");
    assert_eq!(put(), "");
}

#[test]
fn former_data_of_etcd_stays_when_a_restore_runs_again() {
    let etcdutl = "mkdir -p .restoring/member; echo restored >.restoring/member/data";
    let folder = host(&[("etcdutl", etcdutl)]);
    write(&folder.path().join("etcd/member/data"), "former\n");
    let restore = |token| {
        let names = ["ETCD_UNIT", "ETCD_MEMBER", "ETCD_MEMBERS", "ETCD_PEER_URL"].map(|name| (name, "x"));
        let variables = [&names[..], &[("ETCD_TOKEN", token)]].concat();
        run(folder.path(), "etcd/files/restore.sh", &["etcd.db", "etcd"], &variables);
        let read = |name: &str| fs::read_to_string(folder.path().join("etcd").join(name).join("data")).unwrap();
        (read("member"), read("member.before-restore"))
    };
    let restored = || "restored\n".to_owned();
    assert_eq!(restore("one"), (restored(), "former\n".to_owned()));
    assert_eq!(restore("one"), (restored(), "former\n".to_owned()));
    assert_eq!(restore("two"), (restored(), restored()));
}

#[test]
fn data_that_a_member_of_etcd_uses_is_not_replaced() {
    let folder = host(&[("etcdutl", "exit 1")]);
    let database = folder.path().join("etcd/member/snap/db");
    write(&database, "running\n");
    let held = fs::File::open(&database).unwrap();
    held.lock().unwrap();
    let output = outcome(folder.path(), "etcd/files/restore.sh", &["etcd.db", "etcd"], &[("ETCD_UNIT", "x")]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("An etcd member uses etcd"), "{errors}");
    assert_eq!(fs::read_to_string(&database).unwrap(), "running\n");
}

#[test]
fn control_plane_gets_the_authority_of_etcd_in_pods() {
    let folder = host(&[]);
    let path = |name: &str| folder.path().join(name);
    for name in ["ca.crt", "ca.key", "etcd/ca.crt", "etcd/ca.key", "etcd/server.crt", "etcd/server.key"] {
        write(&path("content/pki").join(name), "archived\n");
    }
    for name in ["etcd/ca.crt", "etcd/server.crt", "etcd/server.key", "apiserver-etcd-client.crt"] {
        write(&path("pki").join(name), "former\n");
    }
    run(folder.path(), "control_plane/files/authorities.sh", &["content", "settings", "pki"], &[]);
    for name in ["ca.key", "etcd/ca.crt", "etcd/ca.key"] {
        assert_eq!(fs::read_to_string(path("pki").join(name)).unwrap(), "archived\n", "{name}");
    }
    // kubeadm makes them of the restored authority.
    for name in ["etcd/server.crt", "etcd/server.key", "apiserver-etcd-client.crt"] {
        assert!(!path("pki").join(name).exists(), "{name}");
    }
}

#[test]
fn data_of_a_member_in_a_pod_is_set_aside_once_the_pod_has_ended() {
    // The pod runs until kubelet has looked twice.
    let kubelet = "[ ! -e manifest ] || { echo 1; exit; }\necho >>looks\n[ $(wc -l <looks) -gt 2 ] || echo 1\n\
                   [ $(wc -l <looks) -le 2 ]";
    let folder = host(&[("pgrep", kubelet), ("sleep", "")]);
    let path = |name: &str| folder.path().join(name);
    write(&path("manifest"), "");
    write(&path("data/member/snap/db"), "kept\n");
    let script = |step| {
        let names = [("UNIT", "etcd"), ("DATA", "data"), ("KEPT", "kept"), ("MANIFEST", "manifest")];
        let variables = [&names[..], &[("POD_PROCESS", "^etcd")]].concat();
        outcome(folder.path(), "recover/files/survive.sh", &[step], &variables).status.success()
    };
    assert!(!script("leave") && path("data/member").exists());
    assert!(script("stop") && !path("manifest").exists());
    assert!(script("leave") && path("data/kept/snap/db").exists() && !path("data/member").exists());
}

/// Each try may take seconds, so a wait that counts tries would last many times as long.
#[test]
fn member_in_a_pod_is_restarted_only_if_it_does_not_serve_and_waited_for_by_the_clock() {
    // Half a minute passes at each look at the clock.
    let clock = "echo >>looks\necho $(($(wc -l <looks) * 30))";
    for (answers, expected, tries) in [("exit 0", "", 1), ("exit 1", "restarted\n", 2)] {
        let etcdctl = format!("echo >>tries\n{answers}");
        let programs = [("etcdctl", &*etcdctl), ("date", clock), ("sleep", ""), ("systemctl", "")];
        let folder = host(&programs);
        let variables = [("UNIT", "etcd"), ("MANIFEST", "manifest"), ("POD_PROCESS", "^etcd"), ("ETCDCTL", "etcdctl")];
        let variables = [&variables[..], &[("SECONDS_TO_WAIT", "180")]].concat();
        assert_eq!(run(folder.path(), "recover/files/survive.sh", &["reload"], &variables), expected);
        assert_eq!(fs::read_to_string(folder.path().join("tries")).unwrap().lines().count(), tries);
    }
}
