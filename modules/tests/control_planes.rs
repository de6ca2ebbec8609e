//! `kubeadm` checks for stopping control planes, with a kubectl that simulates their API servers.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;

use case::Bench;
use serde_json::{Value, json};

/// Answers for API servers whose addresses are not in `$ROOT/dead`; without `--server`, for the load balancer.
const KUBECTL: &str = r#"
server=balancer
for word; do case "$word" in --server=*) server=${word#--server=} ;; esac; done
! grep -qx "$server" "$ROOT/dead" || { echo 'connection refused' >&2; exit 1; }
case "$*" in
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
        Cluster(bench)
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
