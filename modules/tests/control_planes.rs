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
