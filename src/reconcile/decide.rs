//! The rules: which repair, if any, a round makes.

use std::time::Duration;

use super::{Drift, Evidence, Health, Memory, Policy};

/// The moment of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Seconds since the Unix epoch.
    pub seconds: u64,
    /// Whether the operator has paused repairs.
    pub is_paused: bool,
}

/// Outcome of [`decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The cluster is healthy, and hosts and inventory agree.
    Rest,
    /// Something is wrong, and it is not repaired for this reason.
    Report(String),
    /// Run `cluster.yml`.
    Apply,
    /// Replace this node, for this reason.
    Replace(String, Evidence),
}

/// Decides what a round does. Remembers since when nodes are unhealthy.
pub fn decide(policy: &Policy, memory: &mut Memory, health: &Health, drift: &Drift, now: Now) -> Decision {
    let unhealthy = health.unhealthy_nodes();
    memory.observe(&unhealthy, now.seconds);
    if health.healthy && *drift == Drift::Tasks(Vec::new()) {
        return Decision::Rest;
    }
    let report = |why: &str| Decision::Report(why.to_owned());
    if !policy.repairs_drift && !policy.replaces_nodes {
        return report("the policy has no `repair`");
    }
    if now.is_paused {
        return report("repairs are paused");
    }
    let spent = memory.repairs_since(now.seconds.saturating_sub(policy.budget_period.as_secs()));
    if spent >= policy.budget {
        return Decision::Report(format!("the budget of {} is spent", count(policy.budget, "repair")));
    }
    if policy.replaces_nodes
        && let Some((node, since)) = memory.unhealthy_longest()
        && Duration::from_secs(now.seconds.saturating_sub(since)) >= policy.unhealthy_for
    {
        if unhealthy.len() > policy.max_unhealthy {
            return Decision::Report(format!(
                "{} are unhealthy at once, which may be a failure of the network",
                count(unhealthy.len(), "node")
            ));
        }
        return replacement(health, node);
    }
    if !policy.repairs_drift {
        return report("the policy does not repair this, or not yet");
    }
    if !health.is_complete() {
        return report("not all hosts are reached");
    }
    match drift {
        Drift::Unknown(why) => Decision::Report(format!("it is unknown what would change: {why}")),
        Drift::Tasks(tasks) if tasks.is_empty() => report("cluster.yml would change nothing about it"),
        Drift::Tasks(_) => Decision::Apply,
    }
}

/// Replaces a node unless the majority may need it, or only the host itself reports that it is unhealthy.
fn replacement(health: &Health, node: &str) -> Decision {
    if let Some(found) = health.against_removal(node) {
        let place = if found.host.is_empty() { "the cluster" } else { &found.host };
        return Decision::Report(format!("{node} must not leave while {} fails on {place}", found.check));
    }
    match health.evidence(node) {
        Some(evidence) => Decision::Replace(node.to_owned(), evidence),
        None => Decision::Report(format!("{node} calls itself unhealthy, but is reached and Ready in Kubernetes")),
    }
}

fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Repair;
    use super::*;

    /// Report of three control planes; each finding is a check, a host and a text, or a node for `cluster.nodes`.
    fn health(findings: &[(&str, &str, &str)]) -> Health {
        let result = |id: &str, host: &str, text: &str| match id {
            "cluster.nodes" => json!({"host": host, "status": "fail", "text": "is not Ready", "node": text}),
            _ => json!({"host": host, "status": "fail", "text": text}),
        };
        let checks: Vec<_> = findings
            .iter()
            .map(|(id, host, text)| json!({"id": id, "status": "fail", "results": [result(id, host, text)]}))
            .collect();
        let not_reached: Vec<_> =
            findings.iter().filter(|(id, ..)| *id == "host.reach").map(|(_, host, _)| host).collect();
        let names = ["node1", "node2", "node3"];
        let nodes: serde_json::Map<_, _> =
            names.iter().map(|name| ((*name).to_owned(), format!("{name}.example.com").into())).collect();
        serde_json::from_value(json!({
            "healthy": findings.is_empty(),
            "hosts": names,
            "not_reached": not_reached,
            "nodes": nodes,
            "checks": checks,
        }))
        .unwrap()
    }

    fn drift(tasks: &[&str]) -> Drift {
        Drift::Tasks(tasks.iter().map(|task| (*task).to_owned()).collect())
    }

    fn all() -> Policy {
        Policy { repairs_drift: true, replaces_nodes: true, ..Policy::default() }
    }

    const DEAD: &[(&str, &str, &str)] = &[("host.reach", "node2", "timed out")];

    fn at(seconds: u64) -> Now {
        Now { seconds, is_paused: false }
    }

    #[test]
    fn nothing_is_done_without_a_finding_or_a_policy() {
        let mut memory = Memory::default();
        assert_eq!(decide(&all(), &mut memory, &health(&[]), &drift(&[]), at(0)), Decision::Rest);
        let decision = decide(&Policy::default(), &mut memory, &health(DEAD), &drift(&["node1: kubelet"]), at(0));
        assert_eq!(decision, Decision::Report("the policy has no `repair`".to_owned()));
    }

    #[test]
    fn drift_is_repaired_if_all_hosts_are_reached() {
        let mut memory = Memory::default();
        let changes = drift(&["node1: Write the unit of kubelet"]);
        assert_eq!(decide(&all(), &mut memory, &health(&[]), &changes, at(0)), Decision::Apply);
        let decision = decide(&all(), &mut memory, &health(DEAD), &changes, at(0));
        assert_eq!(decision, Decision::Report("not all hosts are reached".to_owned()));
    }

    #[test]
    fn node_is_replaced_only_after_it_was_unhealthy_without_a_break() {
        let mut memory = Memory::default();
        let policy = all();
        let mut round =
            |findings: &[_], seconds| decide(&policy, &mut memory, &health(findings), &drift(&[]), at(seconds));
        assert!(matches!(round(DEAD, 0), Decision::Report(_)));
        assert!(matches!(round(DEAD, 800), Decision::Report(_)));
        assert_eq!(round(&[], 850), Decision::Rest);
        assert!(matches!(round(DEAD, 900), Decision::Report(_)));
        assert_eq!(round(DEAD, 1800), Decision::Replace("node2".to_owned(), Evidence::Unreached));
    }

    #[test]
    fn node_that_is_not_ready_is_known_by_its_name_in_kubernetes() {
        let mut memory = Memory::default();
        let findings = &[("cluster.nodes", "node1", "node3.example.com")];
        decide(&all(), &mut memory, &health(findings), &drift(&[]), at(0));
        let decision = decide(&all(), &mut memory, &health(findings), &drift(&[]), at(900));
        assert_eq!(decision, Decision::Replace("node3".to_owned(), Evidence::NotReady));
    }

    /// One host names another node in a sentence, and one host claims that it is unhealthy. Neither is evidence.
    #[test]
    fn node_is_not_replaced_by_what_hosts_say() {
        let mut memory = Memory::default();
        let forged: Health = serde_json::from_value(json!({
            "healthy": false, "hosts": ["node1", "node2"], "not_reached": [],
            "nodes": {"node1": "node1", "node2": "node2"},
            "checks": [{"id": "cluster.nodes", "status": "fail", "results": [
                {"host": "node2", "status": "fail", "text": "node1 is not Ready", "node": ""},
                {"host": "node2", "status": "fail", "text": "node1 is not Ready"}]}],
        }))
        .unwrap();
        decide(&all(), &mut memory, &forged, &drift(&[]), at(0));
        assert!(matches!(decide(&all(), &mut memory, &forged, &drift(&[]), at(900)), Decision::Report(_)));
        let alone = &[("node.kubelet", "node2", "no answer")];
        decide(&all(), &mut memory, &health(alone), &drift(&[]), at(1000));
        let decision = decide(&all(), &mut memory, &health(alone), &drift(&[]), at(2000));
        let why = "node2 calls itself unhealthy, but is reached and Ready in Kubernetes";
        assert_eq!(decision, Decision::Report(why.to_owned()));
    }

    #[test]
    fn never_two_nodes_and_never_against_the_majority() {
        let mut memory = Memory::default();
        let two = &[("host.reach", "node2", ""), ("node.kubelet", "node3", "")];
        decide(&all(), &mut memory, &health(two), &drift(&[]), at(0));
        let decision = decide(&all(), &mut memory, &health(two), &drift(&[]), at(900));
        let text = "2 nodes are unhealthy at once, which may be a failure of the network";
        assert_eq!(decision, Decision::Report(text.to_owned()));
        let weak = &[("host.reach", "node2", ""), ("etcd.health", "node3", "")];
        let decision = decide(&all(), &mut memory, &health(weak), &drift(&[]), at(1800));
        assert_eq!(decision, Decision::Report("node2 must not leave while etcd.health fails on node3".to_owned()));
    }

    #[test]
    fn pause_and_budget_stop_repairs() {
        let mut memory = Memory::default();
        let changes = drift(&["node1: kubelet"]);
        let paused = Now { seconds: 0, is_paused: true };
        let decision = decide(&all(), &mut memory, &health(&[]), &changes, paused);
        assert_eq!(decision, Decision::Report("repairs are paused".to_owned()));
        (0..3).for_each(|second| memory.add(Repair { at: second, what: "apply".to_owned(), code: Some(0) }));
        let decision = decide(&all(), &mut memory, &health(&[]), &changes, at(10));
        assert_eq!(decision, Decision::Report("the budget of 3 repairs is spent".to_owned()));
        assert_eq!(decide(&all(), &mut memory, &health(&[]), &changes, at(86_401)), Decision::Apply);
    }

    #[test]
    fn host_that_the_report_invents_is_no_node() {
        let mut memory = Memory::default();
        let findings = &[("node.kubelet", "all", ""), ("cluster.nodes", "node1", "other")];
        decide(&all(), &mut memory, &health(findings), &drift(&[]), at(0));
        let decision = decide(&all(), &mut memory, &health(findings), &drift(&[]), at(900));
        assert!(matches!(decision, Decision::Report(_)), "{decision:?}");
    }
}
