//! `kubeadm` checks for stopping control planes, and changes of their settings, with a kubectl that simulates their API
//! servers.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;

use std::{
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use case::Bench;
use serde_json::{Value, json};

/// Answers for API servers whose addresses are not in `$ROOT/dead`; without `--server`, for the load balancer. They
/// have one Lease. If `$ROOT/lost` exists, the answer to the next write of it is lost.
const KUBECTL: &str = r#"
server=balancer
for word; do case "$word" in --server=*) server=${word#--server=} ;; esac; done
! grep -qx "$server" "$ROOT/dead" || { echo 'connection refused' >&2; exit 1; }
config=${*#*--kubeconfig }
cat "${config%% *}" > /dev/null || exit 1
case "$*" in
*/leases*)
    cd "$ROOT" && lease=$(cat)
    until mkdir busy 2> /dev/null; do sleep 0.01; done
    trap 'rmdir busy' EXIT
    version=$(cat version)
    case "$*" in
    *" get "*) echo get >> calls; echo "{\"items\": [$(cat lease)]}"; exit ;;
    *" create "*) echo create >> calls; [ ! -s lease ] ;;
    *" replace "*) echo replace >> calls; case "$lease" in *"\"resourceVersion\":\"$version\""*) ;; *) false ;; esac ;;
    esac || { echo 'Error from server (Conflict): the object has been modified' >&2; exit 1; }
    version=$((version + 1))
    echo $version > version
    echo "$lease" | sed "s/\"resourceVersion\":\"[0-9]*\"/\"resourceVersion\":\"$version\"/" > lease
    cat lease >> leases
    [ ! -e lost ] || { rm lost; echo 'unexpected EOF' >&2; exit 1; }
    cat lease ;;
*readyz*) echo ok ;;
*"get nodes -l node-role.kubernetes.io/control-plane"*) cat "$ROOT/nodes.json" ;;
*"get pods"*) cat "$ROOT/pods.json" ;;
*) echo '{"items": []}' ;;
esac
"#;

struct Cluster(Bench);

impl Cluster {
    /// Control planes `cp1` and so on, with API servers at `10.0.0.1` and so on.
    fn of(size: usize) -> Cluster {
        let bench = Bench::new().program("kubectl", KUBECTL);
        let node = |number: usize| {
            json!({
                "metadata": { "name": format!("cp{number}"), "labels": { "node-role.kubernetes.io/control-plane": "" } },
                "status": { "addresses": [{ "type": "InternalIP", "address": format!("10.0.0.{number}") }] },
            })
        };
        let nodes: Vec<Value> = (1..=size).map(node).collect();
        bench.write("nodes.json", &json!({ "items": nodes }).to_string());
        bench.write("pods.json", r#"{"items": []}"#).write("dead", "").write("admin.conf", "x");
        bench.write("version", "0").write("lease", "").write("leases", "").write("calls", "");
        Cluster(bench)
    }

    /// Stores the Lease of a holder on cp3 in a version.
    fn hold(&self, holder: &str, version: u32, seconds: u32) {
        let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": seconds });
        let lease = json!({ "metadata": { "resourceVersion": version.to_string() }, "spec": spec });
        self.0.write("version", &version.to_string()).write("lease.new", &lease.to_string());
        std::fs::rename(self.0.path("lease.new"), self.0.path("lease")).unwrap();
    }

    /// Holders of the Lease in the order in which tasks wrote it.
    fn holders(&self) -> Vec<String> {
        let holder = |line: &str| {
            let lease: Value = serde_json::from_str(line).unwrap();
            lease["spec"]["holderIdentity"].as_str().unwrap().split(' ').next().unwrap().to_owned()
        };
        self.0.read("leases").lines().map(holder).collect()
    }

    fn dead(&self, servers: &[&str]) {
        self.0.write("dead", &servers.iter().map(|server| format!("{server}\n")).collect::<String>());
    }

    fn ask(&self, state: &str, more: Value) -> Value {
        let mut args = json!({
            "state": state,
            "kubectl": self.0.path("programs/kubectl"),
            "kubeconfig": self.0.path("admin.conf"),
            "node_name": "cp1",
        });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.0.run("windlass.kubernetes.kubeadm", args, false)
    }

    #[track_caller]
    fn refused(&self, state: &str, more: Value, sentence: &str) {
        let answer = self.ask(state, more);
        assert!(answer["failed"] == true && answer["msg"].as_str().unwrap().contains(sentence), "{answer}");
    }

    #[track_caller]
    fn allowed(&self, state: &str, more: Value) -> Value {
        let answer = self.ask(state, more);
        assert!(answer["failed"] != true && answer["changed"] == false, "{answer}");
        answer
    }
}

#[test]
fn last_serving_control_plane_not_stopped() {
    let cluster = Cluster::of(2);
    cluster.allowed("can_stop", json!({}));
    cluster.dead(&["https://10.0.0.2:6443"]);
    let count = "1 of 2 control planes is healthy, and stopping it would leave 0 healthy of 1";
    cluster.refused("can_stop", json!({}), count);
    cluster.refused("can_restart", json!({}), "First repair or remove cp2 (does not answer)");
    cluster.allowed("can_stop", json!({ "names": ["cp2"] }));
    let answer = cluster.ask("can_stop", json!({ "allow_unsafe": true }));
    assert!(answer["warnings"][0].as_str().unwrap().contains(count), "{answer}");
}

#[test]
fn some_control_planes_judged_together_all_mean_whole_cluster() {
    let cluster = Cluster::of(3);
    cluster.allowed("can_stop", json!({ "names": ["cp1", "cp2", "worker"] }));
    cluster.dead(&["https://10.0.0.3:6443"]);
    cluster.refused("can_stop", json!({ "names": ["cp1", "cp2"] }), "would leave 0 healthy of 1");
    cluster.refused(
        "can_restart",
        json!({}),
        "2 of 3 control planes are healthy, and restarting it would leave 1 healthy of 2",
    );
    let whole = cluster.allowed("can_stop", json!({ "names": ["cp3", "cp2", "cp1"] }));
    assert_eq!(whole["whole_cluster"], true);
}

#[test]
fn needed_stacked_etcd_member_keeps_control_plane() {
    let cluster = Cluster::of(3);
    let pod = |node: &str, ready: &str| {
        json!({
            "metadata": { "labels": { "component": "etcd" } },
            "spec": { "nodeName": node },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        })
    };
    let pods = json!({ "items": [pod("cp1", "True"), pod("cp2", "True"), pod("cp3", "False")] });
    cluster.0.write("pods.json", &pods.to_string());
    for state in ["can_stop", "can_restart"] {
        cluster.refused(state, json!({}), "2 of 3 members are healthy");
        cluster.allowed(state, json!({ "names": ["cp3"] }));
    }
}

/// Answers for the members in `$ROOT/members.json`. The member of 10.0.0.4 is a learner, which refuses to list them.
const ETCDCTL: &str = r#"
case "$*" in
*10.0.0.4:2379*"member list"*) echo 'Error: etcdserver: rpc not supported for learner' >&2; exit 1 ;;
*"--cert=$ROOT/pki/etcd/healthcheck-client.crt"*"member list"*) cat "$ROOT/members.json" ;;
*"endpoint health"*) cat "$ROOT/health.json"; exit 1 ;;
*) exit 1 ;;
esac
"#;

#[test]
fn learner_and_dead_voter_of_stacked_etcd_not_counted_as_healthy_voters() {
    let mut cluster = Cluster::of(4);
    cluster.0 = cluster.0.program("etcdctl", ETCDCTL);
    let pod = |number: u64| {
        json!({
            "metadata": { "labels": { "component": "etcd" } },
            "spec": { "nodeName": format!("cp{number}") },
            "status": { "hostIP": format!("10.0.0.{number}"), "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    };
    let url = |number: u64, port: u16| format!("https://10.0.0.{number}:{port}");
    // The address of a member is what binds it to its node: cp2 calls itself by another name.
    let member = |number: u64, learner: bool| {
        let name = if number == 2 { "other".to_owned() } else { format!("cp{number}") };
        json!({ "ID": number, "name": name, "peerURLs": [url(number, 2380)], "clientURLs": [url(number, 2379)], "isLearner": learner })
    };
    let health = |healthy: &[u64]| -> String {
        let one = |number| json!({ "endpoint": url(number, 2379), "health": healthy.contains(&number) });
        Value::from((1..=4).map(one).collect::<Vec<_>>()).to_string()
    };
    let paths = json!({ "etcdctl": cluster.0.path("programs/etcdctl"), "cert_dir": cluster.0.path("pki") });
    let with = |more: Value| {
        let mut all = paths.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    // The learner's pod is ready and listed first, but two of three voters remain only if both others stay.
    cluster.0.write("pods.json", &json!({ "items": [pod(4), pod(1), pod(2)] }).to_string());
    let members = json!({ "members": [member(1, false), member(2, false), member(3, false), member(4, true)] });
    cluster.0.write("members.json", &members.to_string()).write("health.json", &health(&[1, 2, 4]));
    for state in ["can_stop", "can_restart"] {
        cluster.refused(state, with(json!({})), "2 of 3 members are healthy");
        cluster.refused(state, with(json!({ "names": ["cp2"] })), "2 of 3 members are healthy");
        cluster.allowed(state, with(json!({ "names": ["cp3"] })));
        cluster.allowed(state, with(json!({ "names": ["cp4"] })));
    }
    cluster.0.write("health.json", &health(&[1, 2, 3, 4]));
    cluster.allowed("can_restart", with(json!({})));
}

#[test]
fn silent_api_servers_fall_back_to_callers_list() {
    let cluster = Cluster::of(2);
    let known = json!({ "cp1": "https://192.0.2.1:6443", "cp2": "https://192.0.2.2:6443" });
    // The load balancer is down, so another API server is queried.
    cluster.dead(&["balancer", "https://192.0.2.1:6443"]);
    cluster.refused(
        "can_stop",
        json!({ "names": ["cp2"], "control_planes": known }),
        "1 of 2 control planes is healthy",
    );
    cluster.allowed("can_stop", json!({ "control_planes": known }));

    cluster.dead(&["balancer", "https://192.0.2.1:6443", "https://192.0.2.2:6443"]);
    cluster.refused("can_stop", json!({ "control_planes": known }), "0 of 2 control planes are healthy");
    cluster.allowed("can_restart", json!({ "control_planes": known }));
    assert_eq!(
        cluster.allowed("can_stop", json!({ "names": ["cp1", "cp2"], "control_planes": known }))["whole_cluster"],
        true
    );
    cluster.refused("can_stop", json!({}), "no API server answers");
}

#[test]
fn node_without_admin_kubeconfig_may_stop() {
    let cluster = Cluster::of(1);
    cluster.dead(&["balancer"]);
    cluster.allowed("can_stop", json!({ "kubeconfig": cluster.0.path("none") }));
}

/// Writes the wanted manifests, certificates and configuration as kubeadm does, if `$ROOT/refuses` does not name the
/// phase.
const KUBEADM: &str = r#"
echo "$3 $4" >> "$ROOT/called"
! grep -q "$3" "$ROOT/refuses" || { echo 'error: no key' >&2; exit 1; }
case "$3" in
control-plane) cp "$ROOT"/wanted/*.yaml "$ROOT/manifests" ;;
certs) cp "$ROOT/new.crt" "$ROOT/pki/apiserver.crt" ;;
upload-config) cp "$6" "$ROOT/stored" ;;
esac
"#;

/// Answers for components whose manifest has no `--broken`, if asked without credentials, and for the objects of the
/// cluster. Copies the manifest that a change keeps. With a broken API server, the addresses in `$ROOT/fall` are dead.
const ANSWERS: &str = r#"
[ ! -e "$ROOT/kube-scheduler.former.yaml" ] || cp "$ROOT/kube-scheduler.former.yaml" "$ROOT/kept"
case "$*" in
*/dev/null*:6443*--raw=/readyz*)
    ! grep -q -- --broken "$ROOT/manifests/kube-apiserver.yaml" || { cat "$ROOT/fall" >> "$ROOT/cluster/dead"; exit 1; } ;;
*/dev/null*:10259*--raw=/healthz*) ! grep -q -- --broken "$ROOT/manifests/kube-scheduler.yaml" ;;
*kubeadm-config*) cat "$ROOT/stored" ;;
*cluster-info*) [ -e "$ROOT/lost" ] || { touch "$ROOT/lost"; echo 'unexpected EOF' >&2; exit 1; }; cat "$ROOT/info" ;;
*"replace -f"*) cat > "$ROOT/info" ;;
*) export ROOT="$ROOT/cluster" && exec "$ROOT/programs/kubectl" "$@" ;;
esac
"#;

/// A control plane with an API server and a scheduler, whose processes end with their manifests like kubelet's pods.
struct Plane {
    bench: Bench,
    number: usize,
    /// The cluster, if no other control plane has it.
    alone: Option<Cluster>,
    stop: Arc<AtomicBool>,
    kubelet: Option<JoinHandle<()>>,
}

impl Plane {
    /// The only one of a cluster, which has no lock.
    fn new() -> Plane {
        let cluster = Cluster::of(1);
        let mut plane = Plane::of(&cluster, 1);
        plane.alone = Some(cluster);
        plane
    }

    fn of(cluster: &Cluster, number: usize) -> Plane {
        let bench = Bench::new().program("kubeadm", KUBEADM).program("kubectl", ANSWERS);
        for folder in ["manifests", "wanted"] {
            for (name, port, path) in [("kube-apiserver", 6443, "readyz"), ("kube-scheduler", 10259, "healthz")] {
                bench.write(&format!("{folder}/{name}.yaml"), &manifest(name, port, path, "--v=1"));
            }
        }
        let info = json!({ "data": { "kubeconfig": "clusters:\n- cluster:\n    server: https://old:6443\n" } });
        bench
            .write("admin.conf", "x")
            .write("refuses", "nothing\n")
            .write("fall", &format!("https://10.0.0.{number}:6443\n"))
            .write("stored", "")
            .write("info", &info.to_string());
        bench.write("pki/apiserver.crt", &certificate(&["DNS:cp1"]));
        let stop = Arc::new(AtomicBool::new(false));
        let kubelet = kubelet(&bench, &stop);
        std::os::unix::fs::symlink(cluster.0.path(""), bench.path("cluster")).unwrap();
        Plane { bench, number, alone: None, stop, kubelet: Some(kubelet) }
    }

    /// Wants other settings of the API server.
    fn want(&self, flag: &str) {
        self.bench.write("wanted/kube-apiserver.yaml", &manifest("kube-apiserver", 6443, "readyz", flag));
    }

    fn reconfigure(&self, more: Value, check: bool) -> Value {
        let config = "kind: ClusterConfiguration\napiServer:\n  certSANs: [cp1]\n";
        let mut args = json!({
            "state": "reconfigured", "config_content": config, "kubeadm": "@/programs/kubeadm", "cert_dir": "@/pki",
            "kubectl": "@/programs/kubectl", "kubeconfig": "@/admin.conf", "api_timeout": 3,
            "node_name": format!("cp{}", self.number),
        });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.bench.run("windlass.kubernetes.kubeadm", args, check)
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.kubelet.take().unwrap().join().unwrap();
    }
}

fn manifest(name: &str, port: u16, path: &str, flag: &str) -> String {
    format!(
        "metadata:\n  name: {name}\nspec:\n  containers:\n  - command:\n    - {name}\n    - {flag}\n    livenessProbe:\n      httpGet:\n        \
         path: /{path}\n        port: {port}\n        scheme: HTTPS\n"
    )
}

/// Runs a process for each manifest, under the name of its component, and another one when the manifest changes.
fn kubelet(bench: &Bench, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (folder, programs, stop) = (bench.path("manifests"), bench.path("programs"), stop.clone());
    let mut pods = ["kube-apiserver", "kube-scheduler"].map(|name| {
        std::os::unix::fs::symlink("/bin/sleep", programs.join(name)).unwrap();
        (name, String::new(), None::<Child>)
    });
    let end = |pod: &mut Child| {
        pod.kill().unwrap();
        pod.wait().unwrap();
    };
    let (ready, begun) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            for (name, text, pod) in &mut pods {
                let now = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
                if now != *text {
                    pod.iter_mut().for_each(end);
                    *pod = Some(Command::new(programs.join(*name)).arg("600").spawn().unwrap());
                    *text = now;
                }
            }
            let _ = ready.send(());
            std::thread::sleep(Duration::from_millis(50));
        }
        pods.iter_mut().filter_map(|(_, _, pod)| pod.as_mut()).for_each(end);
    });
    begun.recv().unwrap();
    thread
}

/// A certificate with these names.
fn certificate(names: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        "/CN=x",
    ]);
    command.args(["-keyout", "/dev/null", "-addext", &format!("subjectAltName={}", names.join(","))]);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Mounts need root, and the certificate openssl.
fn can_reconfigure() -> bool {
    windlass_testing::has_all(&["root", "namespaces", "openssl"])
}

#[test]
fn only_changed_component_restarts_and_diff_names_its_flag() {
    if !can_reconfigure() {
        return;
    }
    let plane = Plane::new();
    let same = plane.reconfigure(json!({}), false);
    assert!(same["changed"] == false && same["failed"] != true, "{same}");
    plane.bench.write("wanted/kube-scheduler.yaml", &manifest("kube-scheduler", 10259, "healthz", "--v=2"));
    let before = plane.bench.read("manifests/kube-scheduler.yaml");
    for check in [true, false] {
        let answer = plane.reconfigure(json!({}), check);
        assert!(answer["changed"] == true && answer["components"] == json!(["kube-scheduler"]), "{answer}");
        assert!(answer["diff"]["after"].as_str().unwrap().contains("- --v=2\n"), "{answer}");
        assert_eq!(plane.bench.read("manifests/kube-scheduler.yaml") == before, check);
    }
    assert_eq!(plane.reconfigure(json!({}), false)["changed"], false);
    // Nobody else changes the only control plane, so a killed run does not block the next one.
    assert!(plane.alone.as_ref().unwrap().holders().is_empty());
}

#[test]
fn former_manifest_put_back_if_the_component_does_not_answer() {
    if !can_reconfigure() {
        return;
    }
    let plane = Plane::new();
    plane.bench.write("wanted/kube-apiserver.yaml", &manifest("kube-apiserver", 6443, "readyz", "--broken"));
    plane.bench.write("wanted/kube-scheduler.yaml", &manifest("kube-scheduler", 10259, "healthz", "--v=2"));
    plane.bench.write("kubeadm-config.applied.yaml", "old\n");
    let answer = plane.reconfigure(json!({}), false);
    let message = answer["msg"].as_str().unwrap();
    assert!(message.contains("kube-apiserver has not answered for 3 seconds"), "{answer}");
    assert!(message.ends_with("and it answers again. Changed settings: --broken"), "{answer}");
    for name in ["kube-apiserver", "kube-scheduler"] {
        assert!(plane.bench.read(&format!("manifests/{name}.yaml")).contains("--v=1"), "{answer}");
    }
    // So the next run does not take the record for its own settings.
    assert!(plane.bench.read("kubeadm-config.applied.yaml").starts_with("old\n# Interrupted"));

    // One that did not answer before may be repaired by the new settings.
    plane.bench.write("manifests/kube-apiserver.yaml", &manifest("kube-apiserver", 6443, "readyz", "--broken=1"));
    let answer = plane.reconfigure(json!({}), false);
    assert!(answer["msg"].as_str().unwrap().contains("so its new manifest stays"), "{answer}");
    assert!(plane.bench.read("manifests/kube-apiserver.yaml").contains("--broken\n"));
}

#[test]
fn interrupted_change_proven_or_undone_by_the_next_run() {
    if !can_reconfigure() {
        return;
    }
    let plane = Plane::new();
    let flag = |flag: &str| manifest("kube-scheduler", 10259, "healthz", flag);
    let former = plane.bench.path("kube-scheduler.former.yaml");
    for (wanted, works) in [("--broken", false), ("--v=2", true)] {
        plane.bench.write("wanted/kube-scheduler.yaml", &flag(wanted));
        assert_eq!(plane.reconfigure(json!({}), false)["failed"] == true, !works);
        assert!(!former.exists());
        // A run that was killed while it waited leaves both manifests.
        plane.bench.write("manifests/kube-scheduler.yaml", &flag(wanted));
        std::fs::copy(plane.bench.path("kept"), &former).unwrap();
        let answer = plane.reconfigure(json!({}), false);
        assert_eq!(answer["failed"] == true, !works, "{answer}");
        let left = if works { wanted } else { "--v=1" };
        assert_eq!(plane.bench.read("manifests/kube-scheduler.yaml"), flag(left), "{answer}");
        assert!(!former.exists());
    }
    // Somebody else has replaced the manifest since, as an upgrade does, so the kept one is outdated.
    std::fs::copy(plane.bench.path("kept"), &former).unwrap();
    for folder in ["wanted", "manifests"] {
        plane.bench.write(&format!("{folder}/kube-scheduler.yaml"), &flag("--broken"));
    }
    let answer = plane.reconfigure(json!({}), false);
    assert!(answer["msg"].as_str().unwrap().contains("kube-scheduler has not answered for 3 seconds"), "{answer}");
    assert_eq!(plane.bench.read("manifests/kube-scheduler.yaml"), flag("--broken"));
}

#[test]
fn manifest_of_another_form_with_the_same_pod_kept() {
    if !can_reconfigure() {
        return;
    }
    let plane = Plane::new();
    let pod = manifest("kube-scheduler", 10259, "healthz", "--v=1");
    let (metadata, spec) = pod.split_once("spec:").unwrap();
    let other = format!("# by hand\nspec:{spec}{metadata}  creationTimestamp: null\n");
    plane.bench.write("manifests/kube-scheduler.yaml", &other);
    let answer = plane.reconfigure(json!({}), false);
    assert!(answer["changed"] == false && answer["failed"] != true, "{answer}");
    assert_eq!(plane.bench.read("manifests/kube-scheduler.yaml"), other);
}

#[test]
fn interrupted_issue_of_the_certificate_loses_and_leaves_no_key() {
    if !can_reconfigure() {
        return;
    }
    let plane = Plane::new();
    let key = "-----BEGIN RSA PRIVATE KEY-----\nx\n-----END RSA PRIVATE KEY-----\n";
    let good = plane.bench.read("pki/apiserver.crt");
    // A complete pair was issued, and the former key remains.
    plane.bench.write("pki/apiserver.key", key).write("pki/apiserver.key.former", "former");
    assert_eq!(plane.reconfigure(json!({}), false)["changed"], false);
    assert!(!plane.bench.path("pki/apiserver.key.former").exists());

    // kubeadm was killed while it wrote the key, and fails now.
    plane.bench.write("pki/apiserver.key.former", key).write("pki/apiserver.crt.former", &good);
    plane.bench.write("pki/apiserver.key", "-----BEGIN").write("refuses", "certs\n");
    std::fs::remove_file(plane.bench.path("pki/apiserver.crt")).unwrap();
    assert_eq!(plane.reconfigure(json!({}), false)["failed"], true);
    assert_eq!((plane.bench.read("pki/apiserver.key"), plane.bench.read("pki/apiserver.crt")), (key.to_owned(), good));
}

#[test]
fn certificate_issued_again_only_for_missing_names_and_kept_without_the_authority() {
    if !can_reconfigure() {
        return;
    }
    let plane = Plane::new();
    let config = json!({ "config_content": "kind: ClusterConfiguration\napiServer: {certSANs: [cp1, 'fd00:0::1']}\n" });
    let before = plane.bench.read("pki/apiserver.crt");
    plane.bench.write("new.crt", &certificate(&["DNS:cp1", "IP:fd00::1"])).write("refuses", "certs\n");
    assert_eq!(plane.reconfigure(config.clone(), false)["failed"], true);
    assert_eq!(plane.bench.read("pki/apiserver.crt"), before);
    plane.bench.write("refuses", "nothing\n");
    let answer = plane.reconfigure(config.clone(), true);
    assert!(answer["changed"] == true && answer["added_names"] == json!(["fd00:0::1"]), "{answer}");
    assert_eq!(plane.reconfigure(config.clone(), false)["changed"], true);
    assert_ne!(plane.bench.read("pki/apiserver.crt"), before);
    assert_eq!(plane.reconfigure(config, false)["changed"], false);
}

/// The first answer of the API server is lost, because the load balancer still routes to one that stops.
#[test]
fn configuration_and_address_published_by_the_first_control_plane() {
    if !can_reconfigure() {
        return;
    }
    let plane = Plane::new();
    let first = json!({ "first": true, "api_endpoint": "10.0.0.9:8443" });
    let answer = plane.reconfigure(first.clone(), false);
    assert!(answer["changed"] == true && answer["failed"] != true, "{answer}");
    assert!(plane.bench.read("stored").contains("ClusterConfiguration"));
    assert!(plane.bench.read("info").contains("server: https://10.0.0.9:8443"));
    assert_eq!(plane.reconfigure(first, false)["changed"], false);
}

/// Two runs give their control planes the same broken setting.
#[test]
fn control_planes_changed_at_once_second_refused_while_first_is_down() {
    if !can_reconfigure() {
        return;
    }
    let cluster = Cluster::of(3);
    let planes = [1, 2].map(|number| Plane::of(&cluster, number));
    planes.iter().for_each(|plane| plane.want("--broken"));
    let answers = std::thread::scope(|scope| {
        let begun = planes.each_ref().map(|plane| scope.spawn(|| plane.reconfigure(json!({}), false)));
        begun.map(|one| one.join().unwrap())
    });
    let has = |answer: &Value, text: &str| answer["msg"].as_str().unwrap().contains(text);
    let begun = answers.iter().position(|answer| has(answer, "kube-apiserver has not answered")).unwrap();
    let refusal = &answers[1 - begun];
    let count = "2 of 3 control planes are healthy, and restarting it would leave 1 healthy of 2";
    assert!(has(refusal, count) && refusal["refused"] == true, "{answers:#?}");
    assert!(planes[1 - begun].bench.read("manifests/kube-apiserver.yaml").contains("--v=1"));
    assert!(!cluster.0.read("dead").contains(&format!("https://10.0.0.{}:6443", 2 - begun)));
    assert_eq!(cluster.holders().last().unwrap(), "", "the lock is kept");
}

/// The API servers that are asked next refuse to create the Lease, which then looks like another task's.
#[test]
fn lock_whose_answer_was_lost_recognised_as_own() {
    if !can_reconfigure() {
        return;
    }
    let cluster = Cluster::of(3);
    let plane = Plane::of(&cluster, 1);
    plane.want("--v=2");
    cluster.0.write("lost", "");
    assert_eq!(plane.reconfigure(json!({}), false)["changed"], true);
    let calls = cluster.0.read("calls").replace('\n', " ");
    assert!(calls.starts_with("get create create create get replace "), "{calls}");
    assert_eq!(cluster.holders().last().unwrap(), "", "the lock is kept");
}

#[test]
fn lock_of_a_killed_holder_taken_after_its_time() {
    if !can_reconfigure() {
        return;
    }
    let cluster = Cluster::of(3);
    let plane = Plane::of(&cluster, 1);
    cluster.hold("cp3 killed", 7, 1);
    plane.want("--v=2");
    assert_eq!(plane.reconfigure(json!({}), false)["changed"], true);
    let holders = cluster.holders();
    assert!(holders[0] == "cp1" && holders.last().unwrap().is_empty(), "{holders:?}");

    // With `allow_unsafe`, a task neither waits for the lock nor takes it.
    cluster.hold("cp3 killed", 20, 3600);
    plane.want("--v=3");
    assert_eq!(plane.reconfigure(json!({ "allow_unsafe": true }), false)["changed"], true);
    assert_eq!(cluster.holders(), holders);
}

/// Its time passes several times meanwhile.
#[test]
fn lock_that_its_holder_renews_awaited() {
    if !can_reconfigure() {
        return;
    }
    let cluster = Cluster::of(3);
    let plane = Plane::of(&cluster, 1);
    plane.want("--v=2");
    cluster.hold("cp3 lives", 1, 5);
    std::thread::scope(|scope| {
        let task = scope.spawn(|| plane.reconfigure(json!({}), false));
        let mut version = 1;
        while cluster.0.read("calls").lines().count() < 13 {
            assert!(!task.is_finished(), "{}", task.join().unwrap());
            version += 1;
            cluster.hold("cp3 lives", version, 5);
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(cluster.holders().is_empty() && plane.bench.read("manifests/kube-apiserver.yaml").contains("--v=1"));
        cluster.hold("", version + 1, 5);
        assert_eq!(task.join().unwrap()["changed"], true);
    });
    assert_eq!(cluster.holders().first().unwrap(), "cp1");
}

/// The administrator's kubeconfig goes too, as with a reset.
#[test]
fn lock_renewed_and_released_while_its_own_api_server_is_down() {
    if !can_reconfigure() {
        return;
    }
    let cluster = Cluster::of(3);
    let plane = Plane::of(&cluster, 1);
    plane.want("--broken");
    plane.bench.write("fall", "balancer\nhttps://10.0.0.1:6443\nhttps://10.0.0.2:6443\n");
    std::thread::scope(|scope| {
        let task = scope.spawn(|| plane.reconfigure(json!({ "api_timeout": 15 }), false));
        while cluster.0.read("dead").is_empty() {
            assert!(!task.is_finished(), "{}", task.join().unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
        std::fs::remove_file(plane.bench.path("admin.conf")).unwrap();
        let answer = task.join().unwrap();
        assert!(answer["msg"].as_str().unwrap().contains("kube-apiserver has not answered for 15 seconds"), "{answer}");
    });
    let holders = cluster.holders();
    let (released, held) = holders.split_last().unwrap();
    assert!(released.is_empty() && held.len() > 1 && held.iter().all(|holder| holder == "cp1"), "{holders:?}");
}
