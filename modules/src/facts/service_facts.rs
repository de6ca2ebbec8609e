//! `service_facts`: services of a host.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Root;
use crate::{
    Args, Failure, Host, Map, Module, Plan, Return, Spec,
    process::{self, Command, Output},
};

/// The `service_facts` module.
pub struct ServiceFacts;

static SPEC: Spec = Spec {
    name: "service_facts",
    summary: "Gather the services of a host as facts",
    description: &["Lists services of systemd, OpenRC and System V, with their state and whether they start at boot."],
    examples: "- name: Gather the services\n  ansible.builtin.service_facts:\n\n- name: Does containerd run?\n  ansible.builtin.debug:\n    msg: \"{{ ansible_facts.services['containerd.service'].state | default('absent') }}\"\n",
    returns: &[Return {
        name: "ansible_facts",
        kind: "dict",
        when: "success",
        doc: "Fact `services`: for each name its `name`, `source`, `state` (running, stopped, inactive, unknown) and \
             `status` (enabled, disabled, static, failed ...).",
    }],
    ..Spec::EMPTY
}
.compiled();

impl Module for ServiceFacts {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, _args: &Args, host: &Host) -> Result<Plan, Failure> {
        let mut services = scripts(host)?;
        if super::systemd_runs(&Root::host()) {
            let list =
                |what: &str| ask(host, "systemctl", &[what, "--no-pager", "--type", "service", "--all", "--plain"]);
            let units = list("list-units")?
                .and_then(|output| text_or_warning(host, "Could not list units from systemd", output));
            let files = list("list-unit-files")?;
            let files =
                files.and_then(|output| text_or_warning(host, "Could not get unit files data from systemd", output));
            services.extend(systemd(&units.unwrap_or_default(), &files.unwrap_or_default()));
        }
        if services.is_empty() {
            let sentence =
                "Failed to find any services. This can be due to privileges or some other configuration issue.";
            return Ok(Plan::skipped(sentence));
        }
        let services: Map = services.into_iter().map(|(name, map)| (name, map.into())).collect();
        let mut facts = Map::new();
        facts.insert("services".into(), services.into());
        Ok(Plan::unchanged().with("ansible_facts", facts))
    }
}

type Services = BTreeMap<String, Map>;

/// Runs a program; `None` if it is not installed.
fn ask(host: &Host, program: &str, arguments: &[&str]) -> Result<Option<Output>, Failure> {
    let Some(path) = process::find(host, program) else { return Ok(None) };
    Command::new(path).plain_locale().args(arguments.iter().copied()).run(host).map(Some)
}

/// The output if the program succeeded; otherwise warns and returns `None`.
fn text_or_warning(host: &Host, problem: &str, output: Output) -> Option<String> {
    if !output.success() {
        host.warn(format!("{problem}: {}", output.stderr_text()));
        return None;
    }
    Some(output.stdout_text())
}

/// Services that are scripts, as listed by `service`, Upstart, `chkconfig` or OpenRC.
fn scripts(host: &Host) -> Result<Services, Failure> {
    let has = |program: &str| process::find(host, program).is_some();
    let mut services = Services::new();
    if !has("chkconfig")
        && !has("rc-status")
        && let Some(output) = ask(host, "service", &["--status-all"])?
    {
        if !output.success() {
            host.warn(format!("Unable to query 'service' tool ({}): {}", output.rc, output.stderr_text()));
        }
        services.extend(listed(&output.stdout_text()));
    }
    if has("chkconfig") {
        services.extend(chkconfig(host)?);
    } else if let Some(output) = ask(host, "initctl", &["list"])? {
        let text = text_or_warning(host, "Unable to query upstart for service data", output);
        services.extend(upstart(&text.unwrap_or_default()));
    } else if let (Some(states), Some(levels)) =
        (ask(host, "rc-status", &["-a", "-s", "-m"])?, ask(host, "rc-update", &["show", "-v"])?)
    {
        services.extend(openrc(&states.stdout_text(), &levels.stdout_text(), host));
    }
    Ok(services)
}

fn service(name: &str, source: &str, state: impl Into<Value>, more: Option<(&str, Value)>) -> (String, Map) {
    let mut map = Map::new();
    map.insert("name".into(), name.into());
    map.insert("state".into(), state.into());
    if let Some((key, value)) = more {
        map.insert(key.into(), value);
    }
    map.insert("source".into(), source.into());
    (name.to_owned(), map)
}

/// Parses lines of `service --status-all`: ` [ + ]  cron`.
fn listed(text: &str) -> Services {
    let one = |line: &str| {
        let line = line.trim_start();
        let (state, name) = match line.strip_prefix("[ + ]") {
            Some(name) => ("running", name),
            None => ("stopped", line.strip_prefix("[ - ]")?),
        };
        Some(service(name.trim_start(), "sysv", state, None))
    };
    text.lines().filter_map(one).collect()
}

/// Parses lines of `initctl list`: `tty1 start/running, process 1234`.
fn upstart(text: &str) -> Services {
    let one = |line: &str| {
        let line = line.trim();
        let line = line.split_once(", process").map_or(line, |(line, _)| line);
        let (name, state) = line.rsplit_once(' ')?;
        let (goal, state) = state.split_once('/')?;
        Some(service(name, "upstart", state, Some(("goal", goal.into()))))
    };
    text.lines().filter_map(one).collect()
}

/// Services from `chkconfig`, with the options of older systems as a fallback; queries the state of each service.
fn chkconfig(host: &Host) -> Result<Services, Failure> {
    let list = |options: &[&str]| ask(host, "chkconfig", options);
    let levels = |text: &str| text.lines().filter_map(runlevels).collect::<Vec<_>>();
    let Some(output) = list(&[])? else { return Ok(Services::new()) };
    let mut known = levels(&output.stdout_text());
    if known.is_empty() {
        let simple = |line: &str| line.split_whitespace().nth(1).is_some_and(|word| word == "on" || word == "off");
        let more = if output.stdout_text().lines().any(simple) {
            list(&["-l", "--allservices"])?
        } else if output.stderr_text().contains("--list") {
            list(&["--list"])?
        } else {
            None
        };
        known = more.map(|output| levels(&output.stdout_text())).unwrap_or_default();
    }
    let mut services = Services::new();
    for (name, is_enabled) in known {
        let status = ask(host, "service", &[&name, "status"])?;
        let state = match status {
            Some(output) if output.success() => "running".into(),
            Some(output) => {
                let text = output.stderr_text().to_lowercase();
                // Without permission to query, the exit status is reported.
                match ["root", "permission", "not in sudoers"].iter().any(|word| text.contains(word)) {
                    true => {
                        let sentence = "Insufficient permissions to query sysV service";
                        host.warn(format!("{sentence} \"{name}\" and their states"));
                        Value::from(output.rc)
                    }
                    false => "stopped".into(),
                }
            }
            None => "stopped".into(),
        };
        let enabled = if is_enabled { "enabled" } else { "disabled" };
        services.extend([service(&name, "sysv", state, Some(("status", enabled.into())))]);
    }
    Ok(services)
}

/// Parses `name 0:off 1:off ... 6:off`: the name, and whether it is on in runlevel 3.
fn runlevels(line: &str) -> Option<(String, bool)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, levels) = words.split_first()?;
    let states: Option<Vec<bool>> =
        levels.iter().map(|level| level.split_once(':').map(|(_, state)| state == "on")).collect();
    let states = states.filter(|states| states.len() == 7)?;
    Some(((*name).to_owned(), states.get(3).copied().unwrap_or_default()))
}

/// Combines states from `rc-status` with runlevels from `rc-update`.
fn openrc(states: &str, levels: &str, host: &Host) -> Services {
    let levels: BTreeMap<&str, Vec<&str>> = levels
        .lines()
        .filter_map(|line| line.split_once('|'))
        .map(|(name, levels)| (name.trim(), levels.split_whitespace().collect()))
        .collect();
    let one = |line: &str| {
        let line = line.replace(['[', ']'], "");
        let mut words = line.split_whitespace();
        let (name, state) = (words.next()?, words.next()?);
        let Some(levels) = levels.get(name) else {
            host.warn(format!("Service {name} not found in the service list"));
            return None;
        };
        let levels = if levels.is_empty() { Value::Null } else { levels.clone().into() };
        Some(service(name, "openrc", state, Some(("runlevels", levels))))
    };
    states.lines().filter(|line| line.starts_with(' ') && line.trim() != "*").filter_map(one).collect()
}

/// Combines units, which have states, with unit files, which may be enabled. A name may occur in one list only. Masked,
/// failed and missing units keep that status.
fn systemd(units: &str, files: &str) -> Services {
    const BAD: [&str; 3] = ["not-found", "masked", "failed"];
    let mut services = Services::new();
    for line in units.lines().filter(|line| line.contains(".service")) {
        let words: Vec<&str> = line.trim_start_matches(['●', '*', ' ']).split_whitespace().collect();
        let &[name, _, active, sub, ..] = words.as_slice() else { continue };
        // The last word belongs to the description.
        let columns = words.get(..words.len() - 1).unwrap_or_default();
        let status = BAD.into_iter().find(|bad| columns.contains(bad)).unwrap_or(active);
        let state = if sub == "running" { "running" } else { "stopped" };
        services.extend([service(name, "systemd", state, Some(("status", status.into())))]);
    }
    for line in files.lines().filter(|line| line.contains(".service")) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(status)) = (words.next(), words.next()) else { continue };
        match services.get_mut(name) {
            Some(known) => {
                if !known.get("status").and_then(Value::as_str).is_some_and(|status| BAD.contains(&status)) {
                    known.insert("status".into(), status.into());
                }
            }
            None => {
                // A unit that is not loaded: a template never runs itself, any other is inactive.
                let state = if name.ends_with("@.service") { "unknown" } else { "inactive" };
                services.extend([service(name, "systemd", state, Some(("status", status.into())))]);
            }
        }
    }
    services
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_units_and_unit_files_combined() {
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
            ("stopped".into(), "failed".into())
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
