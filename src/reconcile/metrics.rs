//! Metrics in Prometheus' text format, for the textfile collector of node_exporter.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Drift, Health, Memory, Policy};

/// Metrics of a round. `found` is what the round saw; none if it could not look.
pub fn text(policy: &Policy, memory: &Memory, found: Option<(&Health, &Drift)>, is_paused: bool, now: u64) -> String {
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, values: &[(String, usize)]| {
        let _ = writeln!(text, "# HELP windlass_reconcile_{name} {help}\n# TYPE windlass_reconcile_{name} gauge");
        for (labels, value) in values {
            let _ = writeln!(text, "windlass_reconcile_{name}{labels} {value}");
        }
    };
    let one = |value: usize| vec![(String::new(), value)];
    let seconds = usize::try_from(now).unwrap_or(usize::MAX);
    gauge("last_round_timestamp_seconds", "End of the last round.", &one(seconds));
    gauge("observed", "Whether the last round could observe the cluster.", &one(found.is_some().into()));
    if let Some((health, drift)) = found {
        gauge("healthy", "Whether no check of verify.yml failed.", &one(health.healthy.into()));
        let by_status = |(status, count): (&str, usize)| (format!("{{status=\"{status}\"}}"), count);
        let known = ["pass", "warn", "unknown", "fail"];
        let totals: Vec<_> =
            health.totals().into_iter().filter(|(status, _)| known.contains(status)).map(by_status).collect();
        gauge("checks", "Checks of verify.yml by status.", &totals);
        if let Some(count) = drift.count() {
            gauge("drift_tasks", "Tasks of cluster.yml that would change something.", &one(count));
        }
    }
    gauge("unhealthy_nodes", "Nodes that are unhealthy.", &one(memory.unhealthy()));
    gauge("paused", "Whether repairs are paused.", &one(is_paused.into()));
    let spent = memory.repairs_since(now.saturating_sub(policy.budget_period.as_secs()));
    gauge("budget_left", "Repairs that the budget still allows.", &one(policy.budget.saturating_sub(spent)));
    let mut repairs: BTreeMap<String, usize> = BTreeMap::new();
    for repair in memory.repairs() {
        let kind = repair.what.split(' ').next().unwrap_or_default();
        let result = if repair.code == Some(0) { "ok" } else { "failed" };
        *repairs.entry(format!("{{kind=\"{kind}\",result=\"{result}\"}}")).or_default() += 1;
    }
    gauge("repairs", "Remembered repairs by kind and result.", &repairs.into_iter().collect::<Vec<_>>());
    text
}

#[cfg(test)]
mod tests {
    use super::super::Repair;
    use super::*;

    #[test]
    fn metrics_have_names_types_and_labels() {
        let mut memory = Memory::default();
        memory.add(Repair { at: 90, what: "replace node1".to_owned(), code: Some(2) });
        let text = text(&Policy::default(), &memory, None, true, 100);
        for line in [
            "# TYPE windlass_reconcile_paused gauge",
            "windlass_reconcile_paused 1",
            "windlass_reconcile_observed 0",
            "windlass_reconcile_budget_left 2",
            "windlass_reconcile_repairs{kind=\"replace\",result=\"failed\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
