//! Observations of a cluster: the report of `verify.yml`, and what `cluster.yml` would change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::planned::{Document, Status};

/// Maximum size of a report, in bytes.
const SIZE: u64 = 64 << 20;
/// Checks whose failure means that the node itself is broken, not only a service on it.
const OF_NODES: &[&str] = &["host.reach", "node.kubelet"];
/// The check that finds a node not Ready, about a node of the result's `node`.
const NOT_READY: &str = "cluster.nodes";
/// Checks of the members that keep the majority.
const OF_MAJORITY: &[&str] = &["api.ready", "etcd.health"];

/// The part of `verify.yml`'s report that decisions depend on.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Health {
    /// Whether no check failed.
    pub healthy: bool,
    hosts: Vec<String>,
    not_reached: Vec<String>,
    /// Names of nodes in Kubernetes, by host of the inventory.
    #[serde(default)]
    nodes: BTreeMap<String, String>,
    checks: Vec<Check>,
}

#[derive(Debug, Clone, Deserialize)]
struct Check {
    id: String,
    status: String,
    results: Vec<Observed>,
}

#[derive(Debug, Clone, Deserialize)]
struct Observed {
    host: String,
    status: String,
    text: String,
    /// Name of a node in Kubernetes that a control plane reported the result about; otherwise empty.
    #[serde(default)]
    node: String,
}

/// Proof that a node is lost. One node cannot produce it about another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The control machine did not reach the host.
    Unreached,
    /// A control plane has the node as not Ready.
    NotReady,
}

/// A problem of the cluster or of one host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Id of the check: `node.kubelet`.
    pub check: String,
    /// Host of the inventory; empty for the cluster as a whole.
    pub host: String,
    /// The observed value.
    pub text: String,
}

impl Health {
    /// Reads a report, and removes it so that a later round cannot take it for its own.
    pub fn take(path: &Path) -> Result<Health> {
        let fail = |why: String| Error::new(format!("the report {} cannot be used: {why}", path.display()));
        let bytes = windlass_bounds::read_up_to(path, SIZE).map_err(|error| fail(error.to_string()))?;
        let _ = std::fs::remove_file(path);
        serde_json::from_slice(&bytes).map_err(|error| fail(error.to_string()))
    }

    /// Number of checks by status.
    pub fn totals(&self) -> BTreeMap<&str, usize> {
        let mut totals = BTreeMap::new();
        self.checks.iter().for_each(|check| *totals.entry(check.status.as_str()).or_default() += 1);
        totals
    }

    /// Results that count against health: failures, and checks that could not be made.
    pub fn findings(&self) -> Vec<Finding> {
        self.bad().map(|(check, one)| finding(check, one)).collect()
    }

    fn bad(&self) -> impl Iterator<Item = (&Check, &Observed)> {
        let results = self.checks.iter().flat_map(|check| check.results.iter().map(move |one| (check, one)));
        results.filter(|(_, one)| matches!(one.status.as_str(), "fail" | "unknown"))
    }

    /// Whether all hosts were reached.
    pub fn is_complete(&self) -> bool {
        self.not_reached.is_empty()
    }

    /// Hosts that are not reached, whose kubelet does not answer, or whose node is not Ready.
    pub fn unhealthy_nodes(&self) -> BTreeSet<&str> {
        let reported = self.bad().filter(|(check, _)| OF_NODES.contains(&check.id.as_str()));
        let hosts: BTreeSet<&str> = self.hosts.iter().map(String::as_str).collect();
        reported.map(|(_, one)| one.host.as_str()).chain(self.not_ready()).filter(|host| hosts.contains(host)).collect()
    }

    /// Proof that a host is lost.
    pub fn evidence(&self, host: &str) -> Option<Evidence> {
        if self.not_ready().any(|found| found == host) {
            return Some(Evidence::NotReady);
        }
        self.not_reached.iter().any(|found| found == host).then_some(Evidence::Unreached)
    }

    /// Hosts whose nodes are not Ready. Texts are free, so only the typed name counts.
    fn not_ready(&self) -> impl Iterator<Item = &str> {
        self.bad().filter(|(check, one)| check.id == NOT_READY && !one.node.is_empty()).filter_map(|(_, one)| {
            self.nodes.iter().find(|(_, name)| **name == one.node).map(|(host, _)| host.as_str())
        })
    }

    /// A finding on another host that forbids removing `host`, because the majority may depend on it.
    pub fn against_removal(&self, host: &str) -> Option<Finding> {
        let mut found = self.bad().filter(|(check, one)| OF_MAJORITY.contains(&check.id.as_str()) && one.host != host);
        found.next().map(|(check, one)| finding(check, one))
    }
}

fn finding(check: &Check, one: &Observed) -> Finding {
    Finding { check: check.id.clone(), host: one.host.clone(), text: one.text.clone() }
}

/// Changes that `cluster.yml` would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drift {
    /// These tasks, with their hosts; empty if hosts and inventory agree.
    Tasks(Vec<String>),
    /// The check run did not get to its end.
    Unknown(String),
}

impl Drift {
    /// Drift in a plan of `cluster.yml`. Tasks whose result only a run knows do not count.
    pub fn of(plan: &Document) -> Drift {
        let changing = plan.tasks.iter().filter(|task| task.parts.iter().any(|part| part.status == Status::Change));
        // The plan lists a task again for hosts on which its changes differ, such as in their paths.
        let mut hosts: IndexMap<(&str, &str), BTreeSet<&str>> = IndexMap::new();
        for task in changing {
            let known = hosts.entry((&task.place, &task.task)).or_default();
            known.extend(task.hosts.iter().map(String::as_str));
        }
        let names = |hosts: BTreeSet<&str>| hosts.into_iter().collect::<Vec<_>>().join(", ");
        Drift::Tasks(hosts.into_iter().map(|((_, task), hosts)| format!("{}: {task}", names(hosts))).collect())
    }

    /// Number of changes, if known.
    pub fn count(&self) -> Option<usize> {
        match self {
            Drift::Tasks(tasks) => Some(tasks.len()),
            Drift::Unknown(_) => None,
        }
    }
}
