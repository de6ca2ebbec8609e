//! `service_facts`: the services a host has.

use std::{collections::BTreeMap, time::Duration};

use super::{Root, probe};
use crate::{Args, Failure, Host, Map, Module, Plan, Return, Spec};

/// The `service_facts` module.
pub struct ServiceFacts;

static SPEC: Spec = Spec {
    name: "service_facts",
    summary: "Gather the services of a host as facts",
    description: &[
        "Lists the services of systemd, of OpenRC and of System V, with their state and whether they start with the host.",
    ],
    examples: "- name: Which services are there?\n  ansible.builtin.service_facts:\n\n- name: Does containerd run?\n  ansible.builtin.debug:\n    msg: \"{{ ansible_facts.services['containerd.service'].state | default('absent') }}\"\n",
    returns: &[Return {
        name: "ansible_facts",
        kind: "dict",
        when: "success",
        doc: "`services`: for every name its `name`, `source`, `state` (running, stopped, failed, inactive ...) and `status` (enabled, disabled, static ...).",
    }],
    ..Spec::EMPTY
};

/// How long the init system may take to answer.
const LIMIT: Duration = Duration::from_secs(60);

impl Module for ServiceFacts {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, _args: &Args, _host: &Host) -> Result<Plan, Failure> {
        let root = Root::host();
        let mut services: BTreeMap<String, Map> = BTreeMap::new();
        let ask = |program: &str, arguments: &[&str]| {
            let answer = probe::ask(&root.program(program)?, arguments, LIMIT)?;
            (answer.rc == 0).then_some(answer.stdout)
        };
        for name in root.names("/etc/init.d") {
            let script =
                std::fs::metadata(root.path("/etc/init.d").join(&name)).is_ok_and(|metadata| metadata.is_file());
            if script && super::systemd_runs(&root) {
                continue;
            }
            if script {
                services.insert(name.clone(), service(&name, "sysv", "unknown", None));
            }
        }
        if let Some(text) = ask("rc-status", &["-a", "-s", "-r"]) {
            services.extend(openrc(&text));
        }
        if super::systemd_runs(&root) {
            let units =
                ask("systemctl", &["list-units", "--no-pager", "--type", "service", "--all", "--plain", "--no-legend"]);
            let files = ask(
                "systemctl",
                &["list-unit-files", "--no-pager", "--type", "service", "--all", "--plain", "--no-legend"],
            );
            if let (Some(units), Some(files)) = (units, files) {
                services.extend(systemd(&units, &files));
            }
        }
        if services.is_empty() {
            let sentence = "No services were found. Perhaps the login may not ask the init system about them.";
            return Ok(Plan::skipped(sentence));
        }
        let services: Map = services.into_iter().map(|(name, map)| (name, map.into())).collect();
        let mut facts = Map::new();
        facts.insert("services".into(), services.into());
        Ok(Plan::unchanged().with("ansible_facts", facts))
    }
}

fn service(name: &str, source: &str, state: &str, status: Option<&str>) -> Map {
    let mut map = Map::new();
    map.insert("name".into(), name.into());
    map.insert("state".into(), state.into());
    if let Some(status) = status {
        map.insert("status".into(), status.into());
    }
    map.insert("source".into(), source.into());
    map
}

/// Running units say their state, unit files whether they are enabled; a name may be in one list only.
fn systemd(units: &str, files: &str) -> BTreeMap<String, Map> {
    let mut services = BTreeMap::new();
    for line in units.lines() {
        let words: Vec<&str> = line.trim_start_matches(['●', '*', ' ']).split_whitespace().collect();
        let &[name, load, active, sub, ..] = words.as_slice() else { continue };
        if !name.ends_with(".service") {
            continue;
        }
        let state = match (load, active, sub) {
            (_, "failed", _) => "failed",
            (_, _, "running") => "running",
            ("not-found", ..) => "stopped",
            _ => "stopped",
        };
        let status = if load == "not-found" { "not-found" } else { "unknown" };
        services.insert(
            name.to_owned(),
            service(name, "systemd", state, Some(if active == "failed" { "failed" } else { status })),
        );
    }
    for line in files.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(status)) = (words.next(), words.next()) else { continue };
        match services.get_mut(name) {
            Some(known) if known.get("status").and_then(serde_json::Value::as_str) != Some("failed") => {
                known.insert("status".into(), status.into());
            }
            Some(_) => {}
            None => {
                // A unit that is not loaded: a template never runs as it is, the others are at rest.
                let state = if name.ends_with("@.service") { "unknown" } else { "inactive" };
                services.insert(name.to_owned(), service(name, "systemd", state, Some(status)));
            }
        }
    }
    services
}

fn openrc(text: &str) -> BTreeMap<String, Map> {
    let mut services = BTreeMap::new();
    for line in text.lines() {
        let Some((name, state)) = line.split_once('[') else { continue };
        let state = match state.trim_end_matches(']').split_whitespace().next() {
            Some("started") => "running",
            Some("crashed") => "failed",
            _ => "stopped",
        };
        let name = name.trim();
        services.insert(name.to_owned(), service(name, "openrc", state, None));
    }
    services
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_unit_files_are_joined() {
        let units = "  cron.service loaded active running Regular background program processing daemon\n● broken.service loaded failed failed Broken\n  auditd.service not-found inactive dead auditd.service\n  setup.service loaded active exited Setup\n";
        let files = "cron.service enabled enabled\nbroken.service enabled enabled\nsetup.service static -\ngetty@.service enabled enabled\nhaproxy.service disabled enabled\n";
        let services = systemd(units, files);
        let field = |name: &str, key: &str| services[name][key].as_str().unwrap().to_owned();
        assert_eq!(
            (field("cron.service", "state"), field("cron.service", "status")),
            ("running".into(), "enabled".into())
        );
        assert_eq!(
            (field("broken.service", "state"), field("broken.service", "status")),
            ("failed".into(), "failed".into())
        );
        assert_eq!(
            (field("auditd.service", "state"), field("auditd.service", "status")),
            ("stopped".into(), "not-found".into())
        );
        assert_eq!(
            (field("setup.service", "state"), field("setup.service", "status")),
            ("stopped".into(), "static".into())
        );
        assert_eq!(
            (field("getty@.service", "state"), field("getty@.service", "status")),
            ("unknown".into(), "enabled".into())
        );
        assert_eq!(
            (field("haproxy.service", "state"), field("haproxy.service", "status")),
            ("inactive".into(), "disabled".into())
        );
    }
}
