//! `systemd_service`: systemd units.

use serde_json::Value;

use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    facts::{Root, is_chroot},
    process::Command,
};

/// The `systemd_service` module, also called `systemd`.
pub struct Systemd;

pub(super) const STATE: Opt = Opt::new(
    "state",
    Kind::Str,
    "`started` and `stopped` change a unit only if necessary, `restarted` always restarts it, `reloaded` reloads it, \
     or starts it if it is not running.",
)
.choices(&["reloaded", "restarted", "started", "stopped"]);
pub(super) const ENABLED: Opt = Opt::new("enabled", Kind::Bool, "Start the unit at boot.");
pub(super) const DAEMON_RELOAD: Opt =
    Opt::new("daemon_reload", Kind::Bool, "Make systemd reload changed unit files first.")
        .aliases(&["daemon-reload"])
        .default("false");

static SPEC: Spec = Spec {
    name: "systemd_service",
    aliases: &["systemd"],
    summary: "Manage systemd units",
    description: &[
        "Starts, stops, enables and masks units. Units already in the requested state are left alone. The result \
         contains the properties that systemd reports.",
    ],
    options: &[
        Opt::new("name", Kind::Str, "Name of the unit; `.service` may be omitted.")
            .word()
            .aliases(&["service", "unit"]),
        STATE,
        ENABLED,
        Opt::new("masked", Kind::Bool, "Mask the unit, so that nothing can start it."),
        DAEMON_RELOAD,
        Opt::new("daemon_reexec", Kind::Bool, "Re-execute systemd itself first.")
            .aliases(&["daemon-reexec"])
            .default("false"),
        Opt::new("force", Kind::Bool, "Replace conflicting symbolic links."),
        Opt::new("no_block", Kind::Bool, "Do not wait until the unit is started or stopped.").default("false"),
        Opt::new(
            "scope",
            Kind::Str,
            "Manager to address: `system`, the `user`'s own, or `global` for the units of every user.",
        )
        .default("\"system\"")
        .choices(&["system", "user", "global"]),
    ],
    required_by: &[("state", &["name"]), ("enabled", &["name"]), ("masked", &["name"])],
    examples: "- name: Have containerd running, now and after a reboot\n  ansible.builtin.systemd_service:\n    name: containerd\n    state: started\n    enabled: true\n    daemon_reload: true\n",
    returns: &[
        Return { name: "name", kind: "str", when: "name was given", doc: "Name of the unit." },
        Return { name: "state", kind: "str", when: "state was given", doc: "`started` or `stopped`." },
        Return { name: "enabled", kind: "bool", when: "enabled was given", doc: "Whether the unit is enabled now." },
        Return { name: "status", kind: "dict", when: "name was given", doc: "Properties from `systemctl show`." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Systemd {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan(Request::of(args), host)
    }
}

/// A request to systemd.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    pub(super) name: Option<String>,
    state: Option<String>,
    enabled: Option<bool>,
    masked: Option<bool>,
    daemon_reload: bool,
    daemon_reexec: bool,
    force: bool,
    no_block: bool,
    scope: String,
}

impl Request {
    pub(super) fn of(args: &Args) -> Request {
        Request {
            name: args.str("name").map(str::to_owned),
            state: args.str("state").map(str::to_owned),
            enabled: args.maybe_bool("enabled"),
            masked: args.maybe_bool("masked"),
            daemon_reload: args.bool("daemon_reload"),
            daemon_reexec: args.bool("daemon_reexec"),
            force: args.bool("force"),
            no_block: args.bool("no_block"),
            scope: args.str("scope").unwrap_or("system").to_owned(),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("systemctl").plain_locale();
        if self.scope != "system" {
            command = command.arg(format!("--{}", self.scope));
        }
        if self.no_block {
            command = command.arg("--no-block");
        }
        if self.force {
            command = command.arg("--force");
        }
        // Without a login session, systemctl cannot find the user's manager by itself.
        if self.scope == "user" && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
            command = command.variable("XDG_RUNTIME_DIR", format!("/run/user/{}", rustix::process::geteuid().as_raw()));
        }
        command.args(words.iter().copied())
    }

    /// Makes systemd reload its files or re-execute itself. Does nothing if systemd is not running.
    fn reload_manager(&self, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        let asked = [("daemon-reload", self.daemon_reload), ("daemon-reexec", self.daemon_reexec)];
        for (verb, _) in asked.into_iter().filter(|(_, asked)| *asked && self.scope != "global") {
            let output = self.command(&[verb]).run(host)?;
            if output.success() {
                continue;
            }
            let said = output.stderr_text();
            if !is_offline(host) {
                return Err(Failure::new(format!("failure {} during {verb}: {}", output.rc, said.trim())));
            }
            outcome.warnings.push(format!(
                "{verb} failed, but target is a chroot or systemd is offline. Continuing. Error was: {} / {said}",
                output.rc
            ));
        }
        Ok(())
    }

    /// Whether the unit has to exist. A missing unit can be masked, so that a later package does not start it, and its
    /// status can be asked for.
    fn needs_unit(&self) -> bool {
        self.state.is_some() || self.enabled.is_some()
    }

    fn act(&self, verb: &str, unit: &str, host: &Host) -> Result<(), Failure> {
        let output = self.command(&[verb, unit]).run(host)?;
        if output.success() {
            return Ok(());
        }
        let said = output.stderr_text();
        let mut message = match verb {
            "mask" | "unmask" => format!("Failed to {verb} the service ({unit}): {}", said.trim()),
            _ => format!("Unable to {verb} service {unit}: {}", said.trim()),
        };
        if matches!(verb, "start" | "restart" | "reload") && self.scope == "system" {
            // systemd only names the place to look; the reason is in the journal.
            let journal = Command::new("journalctl")
                .plain_locale()
                .args(["-u", unit, "-n", "6", "-o", "cat", "--no-pager"])
                .run(host);
            let journal = journal.map(|output| output.stdout_text()).unwrap_or_default();
            if !journal.trim().is_empty() {
                message.push_str(&format!("\nThe end of its journal:\n{}", journal.trim()));
            }
        }
        Err(Failure::new(message))
    }
}

/// Warning on a host where states cannot change before the next boot.
const OFFLINE: &str = "Target is a chroot or systemd is offline. This can lead to false positives or prevent the init system tools from working.";

/// Whether the host is only a file tree in which nothing runs.
fn is_offline(host: &Host) -> bool {
    host.variable("SYSTEMD_OFFLINE").as_deref() == Some("1") || is_chroot(&Root::host())
}

/// The state of a unit as systemd reports it.
#[derive(Debug, Clone, Default)]
struct Unit {
    properties: Map,
    file_state: String,
    enabled: bool,
}

impl Unit {
    fn property(&self, name: &str) -> &str {
        self.properties.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn missing(&self) -> bool {
        match self.property("LoadState") {
            // systemd did not run and could not be queried; the unit files decide.
            "" => matches!(self.file_state.as_str(), "" | "not-found"),
            state => state == "not-found" && self.property("ActiveState") != "active",
        }
    }

    fn masked(&self) -> bool {
        self.property("LoadState") == "masked" || matches!(self.file_state.as_str(), "masked" | "masked-runtime")
    }

    fn running(&self) -> bool {
        matches!(self.property("ActiveState"), "active" | "activating" | "reloading")
    }
}

/// Parses the properties from `systemctl show`. A value in braces may span several lines.
fn properties(text: &str) -> Map {
    let mut map = Map::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        if let Some((key, value)) = open.take() {
            let value = format!("{value}\n{line}");
            if line.trim_end().ends_with('}') {
                map.insert(key, value.into());
            } else {
                open = Some((key, value));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        if key.starts_with("Exec") && value.trim_start().starts_with('{') && !value.trim_end().ends_with('}') {
            open = Some((key.to_owned(), value.to_owned()));
        } else {
            map.insert(key.to_owned(), value.into());
        }
    }
    map
}

/// Whether the output of `systemctl is-enabled -l` means that the unit starts at boot: a state, and the links that
/// cause it.
fn means_enabled(rc: i32, text: &str) -> bool {
    // An alias with its links is complete, and systemd refuses to enable it. A unit enabled by a generator has no links
    // and may change at the next boot.
    rc == 0 && !matches!(text.trim_end(), "indirect" | "alias" | "enabled-runtime")
}

fn look(request: &Request, name: &str, host: &Host) -> Result<Unit, Failure> {
    let shown = request.command(&["show", name]).run(host)?;
    let answer = request.command(&["is-enabled", name, "-l"]).run(host)?;
    let enabled = means_enabled(answer.rc, &answer.stdout_text());
    let file_state = answer.stdout_text().lines().next().unwrap_or_default().trim().to_owned();
    if !shown.success() && file_state.is_empty() {
        let said = shown.stderr_text();
        return Err(Failure::new(format!("systemd cannot be asked about {name}: {}", said.trim())).with("stderr", said));
    }
    Ok(Unit { properties: properties(&shown.stdout_text()), enabled, file_state })
}

/// The systemctl verbs that change a unit as requested.
fn verbs(request: &Request, unit: &Unit) -> Vec<&'static str> {
    let mut verbs = Vec::new();
    match request.masked {
        Some(true) if !unit.masked() => verbs.push("mask"),
        Some(false) if unit.masked() => verbs.push("unmask"),
        _ => {}
    }
    // Masking a unit also disables it.
    let enabled = unit.enabled && verbs.first() != Some(&"mask");
    match request.enabled {
        Some(true) if !enabled => verbs.push("enable"),
        Some(false) if enabled => verbs.push("disable"),
        _ => {}
    }
    match request.state.as_deref() {
        Some("started") if !unit.running() => verbs.push("start"),
        Some("stopped") if unit.running() || unit.property("ActiveState") == "deactivating" => verbs.push("stop"),
        Some("reloaded") => verbs.push(if unit.running() { "reload" } else { "start" }),
        Some("restarted") => verbs.push(if unit.running() { "restart" } else { "start" }),
        _ => {}
    }
    verbs
}

/// The plan for one unit, or for systemd itself if no unit is named.
pub(super) fn plan(mut request: Request, host: &Host) -> Result<Plan, Failure> {
    let Some(name) = request.name.clone().filter(|name| !name.is_empty()) else {
        let name = request.name.clone().map_or(Value::Null, Value::from);
        let plan = Plan::change(move |host, outcome| {
            outcome.changed = false;
            request.reload_manager(host, outcome)
        });
        return Ok(not_changed(plan).with("name", name).with("status", Map::new()));
    };
    if name.contains(['*', '?', '[']) {
        let pattern = name.chars().find(|letter| "*?[".contains(*letter)).unwrap_or_default();
        return Err(Failure::new(format!(
            "This module does not currently support using glob patterns, found '{pattern}' in service name: {name}"
        )));
    }
    let unit = look(&request, &name, host)?;
    if !unit.missing() && !unit.masked() && !unit.property("LoadError").is_empty() {
        let why = unit.property("LoadError");
        return Err(Failure::new(format!("Error loading unit file '{name}': {why}")));
    }
    // An offline file tree has no unit states. A running host without them has another init system.
    let idle = request.state.is_some() && unit.property("ActiveState").is_empty();
    if idle && !is_offline(host) {
        return Err(Failure::new(format!(
            "systemd is not the running init system of this host, so the state of {name} cannot be managed with it."
        )));
    }
    let needed = request.needs_unit();
    if needed && unit.missing() && (host.check() || !(request.daemon_reload || request.daemon_reexec)) {
        return absent(&name, host);
    }
    let state = request.state.clone();
    if idle {
        request.state = None;
    }
    let planned = verbs(&request, &unit);
    let changed = !planned.is_empty();
    let works = changed || request.daemon_reload || request.daemon_reexec;
    let enabled = request.enabled.map(|wanted| wanted || (unit.enabled && !changed));
    let status = unit.properties.clone();
    let shown = name.clone();
    let plan = if works {
        let apply = move |host: &Host, outcome: &mut Outcome| {
            request.reload_manager(host, outcome)?;
            // A reload may have changed the properties.
            let unit = if request.daemon_reload || request.daemon_reexec { look(&request, &name, host)? } else { unit };
            if needed && unit.missing() {
                return Err(not_found(&name));
            }
            let verbs = verbs(&request, &unit);
            outcome.changed = !verbs.is_empty();
            outcome.set("status", unit.properties.clone());
            for verb in verbs {
                request.act(verb, &name, host)?;
            }
            Ok(())
        };
        let plan = Plan::change(apply);
        if changed { plan } else { not_changed(plan) }
    } else {
        Plan::unchanged()
    };
    let plan = plan.with("name", shown).with("status", status);
    let plan = match enabled {
        Some(enabled) => plan.with("enabled", enabled),
        None => plan,
    };
    let plan = if idle { plan.with_warning(OFFLINE) } else { plan };
    Ok(match state.as_deref() {
        // A restarted or reloaded unit is running.
        Some(state) => plan.with("state", if state == "stopped" { state } else { "started" }),
        None => plan,
    })
}

/// A plan that runs but does not count as a change.
fn not_changed(mut plan: Plan) -> Plan {
    plan.outcome.changed = false;
    plan
}

fn not_found(name: &str) -> Failure {
    Failure::new(format!("Could not find the requested service {name}: host"))
}

/// Plan for a missing unit. In a dry run, an earlier task may be about to install it.
fn absent(name: &str, host: &Host) -> Result<Plan, Failure> {
    if host.dry_run() {
        let plan = Plan::change(|_, _| Ok(())).with("name", name);
        return Ok(
            plan.with_warning(format!("The unit {name} is not on this host yet; it is assumed that it will be."))
        );
    }
    Err(not_found(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(active: &str, load: &str, file_state: &str) -> Unit {
        let text = format!("Id=x.service\nLoadState={load}\nActiveState={active}\n");
        Unit {
            properties: properties(&text),
            enabled: means_enabled(i32::from(file_state != "enabled"), file_state),
            file_state: file_state.into(),
        }
    }

    fn wanted(state: Option<&str>, enabled: Option<bool>, masked: Option<bool>) -> Request {
        Request {
            name: Some("x".into()),
            state: state.map(str::to_owned),
            enabled,
            masked,
            scope: "system".into(),
            ..Request::default()
        }
    }

    #[test]
    fn unit_in_requested_state_needs_no_verb() {
        let running = unit("active", "loaded", "enabled");
        assert!(verbs(&wanted(Some("started"), Some(true), None), &running).is_empty());
        assert_eq!(verbs(&wanted(Some("stopped"), Some(false), None), &running), ["disable", "stop"]);
        assert_eq!(verbs(&wanted(Some("restarted"), None, None), &running), ["restart"]);
        assert_eq!(verbs(&wanted(Some("reloaded"), None, None), &running), ["reload"]);
        let stopped = unit("inactive", "loaded", "disabled");
        assert_eq!(verbs(&wanted(Some("started"), Some(true), None), &stopped), ["enable", "start"]);
        assert_eq!(verbs(&wanted(Some("reloaded"), None, None), &stopped), ["start"]);
        assert!(verbs(&wanted(Some("stopped"), Some(false), None), &stopped).is_empty());
        let masked = unit("inactive", "masked", "masked");
        assert_eq!(verbs(&wanted(Some("started"), None, Some(false)), &masked), ["unmask", "start"]);
        assert!(verbs(&wanted(None, None, Some(true)), &masked).is_empty());
        let missing = unit("inactive", "not-found", "");
        assert_eq!(verbs(&wanted(None, None, Some(true)), &missing), ["mask"]);
        assert!(!wanted(None, None, Some(true)).needs_unit());
        // A task that only asks for the status needs no unit.
        assert!(!wanted(None, None, None).needs_unit());
        assert!(wanted(Some("started"), None, Some(false)).needs_unit());
    }

    #[test]
    fn properties_spanning_lines_parsed() {
        let map = properties(
            "Id=cron.service\nExecStart={ path=/bin/sh ; argv[]=/bin/sh -c a\nb ; pid=1 }\nDescription=a=b\n",
        );
        assert_eq!(map["ExecStart"], "{ path=/bin/sh ; argv[]=/bin/sh -c a\nb ; pid=1 }");
        assert_eq!(map["Description"], "a=b");
        assert!(!means_enabled(0, "indirect\n") && !means_enabled(0, "enabled-runtime\n"));
        assert!(means_enabled(0, "static\n") && !means_enabled(1, "disabled\n"));
        assert!(means_enabled(0, "alias\n  /etc/systemd/system/chronyd.service\n") && !means_enabled(0, "alias\n"));
    }
}
