//! Protects control planes from being stopped or restarted while the cluster needs them.

use std::{
    net::IpAddr,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    super::{
        etcd,
        quorum::{Change, Condition, Kind, Standing, Verdict, judge},
    },
    lock::Lease,
    node::{ADMIN, is_control_plane},
    tool::Tool,
};
use crate::{Args, Failure, Host, Plan};

/// Attempts to reach an API server: a load balancer may briefly still route to a stopped one.
const ATTEMPTS: u32 = 3;
/// Time in which a cluster recovers from the change of another control plane.
const SETTLED: Duration = Duration::from_secs(30);

/// A change of control planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The control planes stop permanently, with their stacked etcd members.
    Stop,
    /// The static pods of the control planes are replaced.
    Restart,
}

/// Control planes and stacked etcd members with their conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Planes {
    planes: Vec<Standing>,
    /// Empty if etcd does not run in pods of the control planes.
    etcd: Vec<Standing>,
}

/// `state: can_stop` and `state: can_restart`. Change nothing; fail if the remaining control planes would not serve.
pub(super) fn plan(tool: &Tool, args: &Args, purpose: Purpose, host: &Host) -> Result<Plan, Failure> {
    let verdict = Request::of(tool, args, purpose).verdict(false, host)?;
    let whole = verdict == Verdict::WholeCluster;
    verdict.apply(args.bool("allow_unsafe"), || Ok(Plan::unchanged().with("whole_cluster", whole)))
}

/// A change of the control planes that a task stops or restarts.
pub(super) struct Request {
    tool: Tool,
    admin: String,
    names: Vec<String>,
    known: Vec<(String, String)>,
    port: i64,
    purpose: Purpose,
    override_it: bool,
    /// Whether the change was judged and must not cost the majority.
    guarded: bool,
}

impl Request {
    /// The nodes of `names`, by default this one.
    pub(super) fn of(tool: &Tool, args: &Args, purpose: Purpose) -> Request {
        let names: Vec<String> = args.list("names").into_iter().map(str::to_owned).collect();
        Request {
            tool: tool.clone(),
            admin: args.str("kubeconfig").unwrap_or(ADMIN).to_owned(),
            names: if names.is_empty() { vec![tool.node.clone()] } else { names },
            known: known(args),
            port: args.int("api_port").unwrap_or(6443),
            purpose,
            override_it: args.bool("allow_unsafe"),
            guarded: false,
        }
    }

    /// Judges the change, which [`Request::alone`] then makes.
    pub(super) fn judge(&mut self, host: &Host) -> Result<Verdict, Failure> {
        let verdict = self.settled(false, host)?;
        // A cluster that goes as a whole has nothing to keep.
        self.guarded = verdict == Verdict::Allowed && !self.override_it;
        Ok(verdict)
    }

    /// Makes a change that was judged while no other task changes a control plane of the cluster, if it is allowed then
    /// too. With `allow_unsafe`, it neither waits nor is judged.
    pub(super) fn alone<T>(&self, host: &Host, change: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let api = self.api(host);
        // Without an API server, nobody has a control plane to lose, and there is no lock. Nobody else changes the only
        // control plane, whose API server would not keep the lock.
        let nodes = if self.guarded && Path::new(&self.admin).exists() { api.nodes()? } else { None };
        let Some(nodes) = nodes.filter(|nodes| nodes.len() > 1 || self.purpose == Purpose::Stop) else {
            return change();
        };
        let others = nodes.iter().filter(|node| node["metadata"]["name"] != self.tool.node.as_str());
        let lease = Lease::of(&self.tool, &self.admin, others.filter_map(|node| api.url(node)))?;
        lease.hold(host, |held| {
            let verdict = match self.settled(true, host)? {
                Verdict::WholeCluster => Verdict::Refused(format!(
                    "Refusing to stop control plane {}: the others have left the cluster since the task began. Run the task again.",
                    self.names.join(", ")
                )),
                verdict => verdict,
            };
            verdict.check(false)?;
            held.check()?;
            change()
        })
    }

    /// The verdict once the cluster has recovered from a change before: etcd elects a leader, an API server starts.
    fn settled(&self, locked: bool, host: &Host) -> Result<Verdict, Failure> {
        let deadline = Instant::now() + SETTLED;
        loop {
            let verdict = self.verdict(locked, host)?;
            if !matches!(verdict, Verdict::Refused(_)) || Instant::now() >= deadline {
                return Ok(verdict);
            }
            host.check_cancelled()?;
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Judges whether the nodes may be stopped or restarted. Under the lock, an API server has answered, so that none
    /// answers does not mean that nothing can be lost.
    fn verdict(&self, locked: bool, host: &Host) -> Result<Verdict, Failure> {
        // Without the administrator's file, the node is not a control plane, or no longer one.
        if !Path::new(&self.admin).exists() {
            return Ok(Verdict::Allowed);
        }
        let api = self.api(host);
        let planes = match api.nodes()? {
            Some(nodes) => api.planes(&nodes)?,
            None if locked => Planes::default(),
            None => Planes { planes: self.silent(), etcd: Vec::new() },
        };
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        if planes.planes.is_empty() {
            return Ok(Verdict::Refused(format!(
                "Refusing to {} control plane {}: no API server answers, so nobody knows whether others serve. Name all control planes \
                 with `control_planes`, or bring an API server back.",
                if self.purpose == Purpose::Stop { "stop" } else { "restart" },
                names.join(", ")
            )));
        }
        Ok(decide(&planes, &names, self.purpose))
    }

    /// Control planes from the caller.
    fn silent(&self) -> Vec<Standing> {
        let silent = |(name, _): &(String, String)| Standing { name: name.clone(), condition: Condition::Unhealthy };
        self.known.iter().map(silent).collect()
    }

    fn api<'a>(&'a self, host: &'a Host) -> Api<'a> {
        Api { tool: &self.tool, admin: &self.admin, known: &self.known, port: self.port, host }
    }
}

/// Control planes from the caller: names and addresses of their API servers.
fn known(args: &Args) -> Vec<(String, String)> {
    let Some(map) = args.value("control_planes").and_then(Value::as_object) else { return Vec::new() };
    map.iter().filter_map(|(name, url)| Some((name.clone(), url.as_str()?.to_owned()))).collect()
}

fn decide(planes: &Planes, names: &[&str], purpose: Purpose) -> Verdict {
    let positions = |members: &[Standing]| -> Vec<usize> {
        let known = members.iter().enumerate();
        known.filter(|(_, member)| names.contains(&member.name.as_str())).map(|(at, _)| at).collect()
    };
    let (planes_leaving, etcd_leaving) = (positions(&planes.planes), positions(&planes.etcd));
    let verdict = match purpose {
        Purpose::Stop => judge(Kind::ControlPlane, &planes.planes, Change::Stop(&planes_leaving)),
        Purpose::Restart => restart(Kind::ControlPlane, &planes.planes, &planes_leaving),
    };
    if verdict != Verdict::Allowed || etcd_leaving.is_empty() {
        return verdict;
    }
    match purpose {
        Purpose::Stop => judge(Kind::Etcd, &planes.etcd, Change::Remove(&etcd_leaving)),
        Purpose::Restart => restart(Kind::Etcd, &planes.etcd, &etcd_leaving),
    }
}

fn restart(kind: Kind, members: &[Standing], which: &[usize]) -> Verdict {
    let verdicts = which.iter().map(|member| judge(kind, members, Change::Restart(*member)));
    verdicts.into_iter().find(|verdict| *verdict != Verdict::Allowed).unwrap_or(Verdict::Allowed)
}

/// API servers of the cluster.
struct Api<'a> {
    tool: &'a Tool,
    admin: &'a str,
    known: &'a [(String, String)],
    port: i64,
    host: &'a Host,
}

impl Api<'_> {
    /// Conditions of control planes.
    fn planes(&self, nodes: &[Value]) -> Result<Planes, Failure> {
        let mut planes = Planes::default();
        for node in nodes {
            let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let serves = match self.url(node) {
                Some(url) => self.serves(&url)?,
                None => false,
            };
            let condition = if serves { Condition::Healthy } else { Condition::Unhealthy };
            planes.planes.push(Standing { name, condition });
        }
        let words = ["-n", "kube-system", "get", "pods", "-l", "tier=control-plane", "-o", "json"];
        if let Some(pods) = self.ask(None, &words)? {
            planes.etcd = self.members(&pods).unwrap_or_else(|| stacked(&pods, &planes.planes));
        }
        Ok(planes)
    }

    /// Address of the API server of a node.
    fn url(&self, node: &Value) -> Option<String> {
        let mut known = self.known.iter();
        let known = known.find(|(known, url)| node["metadata"]["name"] == known.as_str() && !url.is_empty());
        known.map(|(_, url)| url.clone()).or_else(|| address(node, self.port))
    }

    /// Members of an etcd in pods, as etcd lists them: with the members that have no vote, and with voters whose pods
    /// are gone. None if there are no such pods, or no member answers.
    fn members(&self, pods: &Value) -> Option<Vec<Standing>> {
        let nodes = etcd_addresses(pods);
        let endpoints: Vec<String> = nodes.iter().map(|(_, address)| url(address, 2379)).collect();
        let folder = format!("{}/etcd", self.tool.cert_dir);
        let members = etcd::stacked(&self.tool.etcdctl, &folder, &endpoints, self.host)?;
        Some(members.into_iter().map(|(peers, standing)| on_node(&peers, standing, &nodes)).collect())
    }

    /// Nodes that are control planes, from the first API server that answers.
    fn nodes(&self) -> Result<Option<Vec<Value>>, Failure> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                self.host.check_cancelled()?;
                std::thread::sleep(Duration::from_secs(1));
            }
            let known = self.known.iter().map(|(_, url)| url.as_str()).filter(|url| !url.is_empty());
            let servers = std::iter::once(None).chain(known.map(Some));
            for server in servers {
                let mut found = Vec::new();
                let mut answered = true;
                // Releases before 1.20 set only the second label.
                for label in ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"] {
                    match self.ask(server, &["get", "nodes", "-l", label, "-o", "json"])? {
                        Some(list) => found.extend(list["items"].as_array().cloned().unwrap_or_default()),
                        None => answered = false,
                    }
                    if !found.is_empty() || !answered {
                        break;
                    }
                }
                found.retain(is_control_plane);
                if answered && !found.is_empty() {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    fn ask(&self, server: Option<&str>, words: &[&str]) -> Result<Option<Value>, Failure> {
        let server = server.map(|url| format!("--server={url}"));
        let words: Vec<&str> = server.as_deref().into_iter().chain(words.iter().copied()).collect();
        let output = self.tool.ask(self.admin, &words, self.host)?;
        Ok(output.success().then(|| serde_json::from_slice(&output.stdout).ok()).flatten())
    }

    fn serves(&self, url: &str) -> Result<bool, Failure> {
        let server = format!("--server={url}");
        let output = self.tool.ask(self.admin, &[&server, "get", "--raw=/readyz"], self.host)?;
        Ok(output.success() && output.stdout_text().trim() == "ok")
    }
}

/// Address of a node's API server.
fn address(node: &Value, port: i64) -> Option<String> {
    let addresses = node["status"]["addresses"].as_array()?;
    let internal = addresses.iter().find(|address| address["type"] == "InternalIP")?["address"].as_str()?;
    Some(url(internal, port))
}

fn url(address: &str, port: i64) -> String {
    if address.contains(':') { format!("https://[{address}]:{port}") } else { format!("https://{address}:{port}") }
}

/// Nodes with a pod of etcd, and their addresses. The members that are ready come first.
fn etcd_addresses(pods: &Value) -> Vec<(String, String)> {
    let mut pods: Vec<&Value> = pods["items"].as_array().into_iter().flatten().filter(|pod| is(pod, "etcd")).collect();
    pods.sort_by_key(|pod| !ready(pod));
    let one = |pod: &Value| {
        let address = pod["status"]["hostIP"].as_str()?.parse::<IpAddr>().ok()?;
        Some((pod["spec"]["nodeName"].as_str()?.to_owned(), address.to_string()))
    };
    pods.into_iter().filter_map(one).collect()
}

/// A member under the name of its node, because one that has not started has no name of its own.
fn on_node(peers: &[String], standing: Standing, nodes: &[(String, String)]) -> Standing {
    let name = nodes.iter().find(|(_, address)| peers.contains(&url(address, 2380))).map(|(name, _)| name.clone());
    Standing { name: name.unwrap_or(standing.name), ..standing }
}

/// Members of an etcd in pods of the control planes, as their pods show them, named after their nodes. A pod that was
/// restarted may be reported as ready only a minute after its member works. So the member also counts as healthy if an
/// API server is ready that has no other member to ask.
fn stacked(pods: &Value, planes: &[Standing]) -> Vec<Standing> {
    let all = || pods["items"].as_array().into_iter().flatten();
    let depends = |node: &str| {
        let own = |pod: &&Value| is(pod, "kube-apiserver") && pod["spec"]["nodeName"] == node;
        all().filter(own).any(asks_only_its_own_member)
    };
    let one = |pod: &Value| {
        let name = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let serves = planes.iter().any(|plane| plane.name == name && plane.condition == Condition::Healthy);
        let is_healthy = ready(pod) || serves && depends(&name);
        Standing { name, condition: if is_healthy { Condition::Healthy } else { Condition::Unhealthy } }
    };
    all().filter(|pod| is(pod, "etcd")).map(one).collect()
}

fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

fn is(pod: &Value, component: &str) -> bool {
    pod["metadata"]["labels"]["component"] == component
}

/// Whether an API server has one member of etcd, on its own host, as kubeadm sets it up.
fn asks_only_its_own_member(pod: &Value) -> bool {
    let words =
        pod["spec"]["containers"].as_array().into_iter().flatten().flat_map(|container| {
            ["command", "args"].into_iter().filter_map(|part| container[part].as_array()).flatten()
        });
    let mut servers = words.filter_map(|word| word.as_str()?.strip_prefix("--etcd-servers="));
    let own = pod["status"]["hostIP"].as_str().unwrap_or("127.0.0.1");
    match (servers.next().and_then(|url| url.strip_prefix("https://")), servers.next()) {
        (Some(address), None) => [own, "127.0.0.1", "[::1]", "localhost", &format!("[{own}]")]
            .iter()
            .any(|host| address.strip_prefix(host).is_some_and(|port| port == ":2379")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn standings(states: &[(&str, bool)]) -> Vec<Standing> {
        let one = |(name, healthy): &(&str, bool)| Standing {
            name: (*name).to_owned(),
            condition: if *healthy { Condition::Healthy } else { Condition::Unhealthy },
        };
        states.iter().map(one).collect()
    }

    #[test]
    fn control_plane_with_stacked_etcd_needs_both_majorities() {
        let all = [("a", true), ("b", true), ("c", true)];
        let healthy = Planes { planes: standings(&all), etcd: standings(&all) };
        assert_eq!(decide(&healthy, &["a"], Purpose::Stop), Verdict::Allowed);
        assert_eq!(decide(&healthy, &["a"], Purpose::Restart), Verdict::Allowed);
        assert_eq!(decide(&healthy, &["a", "b", "c"], Purpose::Stop), Verdict::WholeCluster);
        assert_eq!(decide(&healthy, &["worker"], Purpose::Stop), Verdict::Allowed);

        let etcd = Planes { etcd: standings(&[("a", true), ("b", true), ("c", false)]), ..healthy };
        for purpose in [Purpose::Stop, Purpose::Restart] {
            match decide(&etcd, &["a"], purpose) {
                Verdict::Refused(reason) => assert!(reason.contains("2 of 3 members are healthy"), "{reason}"),
                verdict => panic!("{verdict:?}"),
            }
            assert_eq!(decide(&etcd, &["c"], purpose), Verdict::Allowed);
        }
    }

    /// The API servers answer, but have no Leases.
    #[test]
    fn whole_cluster_stopped_without_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let node =
            |name| json!({ "metadata": { "name": name, "labels": { "node-role.kubernetes.io/control-plane": "" } } });
        let nodes = json!({ "items": [node("a"), node("b")] });
        let script =
            format!("#!/bin/sh\ncase \"$*\" in */leases*) exit 1 ;; *nodes*) echo '{nodes}' ;; *) echo ok ;; esac\n");
        std::fs::write(path("kubectl"), script).unwrap();
        std::fs::set_permissions(path("kubectl"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(path("admin.conf"), "").unwrap();
        let args = json!({ "names": ["a", "b"], "kubectl": path("kubectl"), "kubeconfig": path("admin.conf"),
            "node_name": "a", "control_planes": { "a": "https://a", "b": "https://b" }, "state": "reset" });
        let host = Host::alone();
        let args = Args::validate(&crate::kubernetes::kubeadm::SPEC, &args, &host).unwrap();
        let mut request = Request::of(&Tool::of(&args, &host).unwrap(), &args, Purpose::Stop);
        assert_eq!(request.judge(&host).unwrap(), Verdict::WholeCluster);
        assert_eq!(request.alone(&host, || Ok("reset")).unwrap(), "reset");
    }

    #[test]
    fn stacked_members_and_addresses_parsed_from_objects() {
        let member = |node: &str, ready: &str| {
            json!({ "metadata": { "labels": { "component": "etcd" } }, "spec": { "nodeName": node },
                    "status": { "conditions": [{ "type": "Ready", "status": ready }] } })
        };
        let server = |node: &str, servers: &str| {
            let command = json!(["kube-apiserver", format!("--etcd-servers={servers}")]);
            json!({ "metadata": { "labels": { "component": "kube-apiserver" } }, "status": { "hostIP": "10.0.0.2" },
                    "spec": { "nodeName": node, "containers": [{ "command": command }] } })
        };
        let own = "https://127.0.0.1:2379";
        let pods = |servers: &str| json!({ "items": [member("a", "True"), member("b", "False"), server("a", own), server("b", servers)] });
        let serving = standings(&[("a", true), ("b", true)]);
        let neither = standings(&[("a", false), ("b", false)]);
        assert_eq!(stacked(&pods(own), &neither), standings(&[("a", true), ("b", false)]));
        for servers in [own, "https://10.0.0.2:2379"] {
            assert_eq!(stacked(&pods(servers), &serving), standings(&[("a", true), ("b", true)]));
        }
        // Such an API server is ready although the member beside it is not.
        for servers in
            ["https://10.0.0.1:2379", "https://127.0.0.1:2379,https://10.0.0.1:2379", "https://127.0.0.1:23790"]
        {
            assert_eq!(stacked(&pods(servers), &serving), standings(&[("a", true), ("b", false)]));
        }
        let node = |ip: &str| json!({ "status": { "addresses": [{ "type": "Hostname", "address": "a" }, { "type": "InternalIP", "address": ip }] } });
        assert_eq!(address(&node("10.0.0.1"), 6443).as_deref(), Some("https://10.0.0.1:6443"));
        assert_eq!(address(&node("fd00::1"), 6443).as_deref(), Some("https://[fd00::1]:6443"));
    }
}
