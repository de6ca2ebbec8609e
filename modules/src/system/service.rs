//! `service`: services on any init system.

use super::{
    systemd::{self, DAEMON_RELOAD, ENABLED, Request, STATE},
    sysvinit,
};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    facts::{Root, service_manager_of},
    process::{self, Command},
};

/// The `service` module.
pub struct Service;

static SPEC: Spec = Spec {
    name: "service",
    summary: "Manage services",
    description: &["Detects the host's init system (systemd, OpenRC, System V) and manages the service through it."],
    options: &[
        Opt::required("name", Kind::Str, "Name of the service.").word(),
        STATE,
        ENABLED,
        Opt::new("arguments", Kind::Str, "Additional arguments for the service script; not used with systemd.")
            .aliases(&["args"])
            .default("\"\""),
        Opt::new(
            "pattern",
            Kind::Str,
            "Text in the process list that shows that the service runs, for scripts without a status command.",
        ),
        Opt::new("runlevel", Kind::Str, "OpenRC: runlevel to enable the service in.").default("\"default\""),
        Opt::new(
            "sleep",
            Kind::Int,
            "Seconds between stop and start of a restart, for scripts that return before the service has stopped.",
        ),
        Opt::new("use", Kind::Str, "Init system to use. Default: detected.").default("\"auto\""),
        DAEMON_RELOAD,
        Opt::new("daemon_reexec", Kind::Bool, "systemd: re-execute systemd itself first.").default("false"),
        Opt::new("masked", Kind::Bool, "systemd: mask the unit."),
        Opt::new("scope", Kind::Str, "systemd: manager whose units are managed.")
            .default("\"system\"")
            .choices(&["system", "user", "global"]),
        Opt::new("no_block", Kind::Bool, "systemd: do not wait for the operation to finish.").default("false"),
        Opt::new("force", Kind::Bool, "systemd: replace conflicting symbolic links."),
    ],
    examples: "- name: Have cron running\n  ansible.builtin.service:\n    name: cron\n    state: started\n    enabled: true\n",
    returns: &[
        Return { name: "name", kind: "str", when: "always", doc: "Name of the service." },
        Return { name: "state", kind: "str", when: "state was given", doc: "Requested state." },
        Return { name: "status", kind: "dict", when: "systemd", doc: "Properties from `systemctl show`." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Service {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let wanted = args.str("use").unwrap_or("auto").trim_start_matches("ansible.builtin.");
        let manager = match wanted {
            "auto" => service_manager_of(&Root::host()),
            "systemd_service" => "systemd".to_owned(),
            other => other.to_owned(),
        };
        if manager == "systemd" {
            return systemd::plan(Request::of(args), host);
        }
        if wanted == "sysvinit" {
            return sysvinit::plan(args, host);
        }
        scripted(args, manager == "openrc", host)
    }
}

/// Plans for services that are scripts in `/etc/init.d`.
fn scripted(args: &Args, openrc: bool, host: &Host) -> Result<Plan, Failure> {
    if args.str("state").is_none() && args.maybe_bool("enabled").is_none() {
        return Err(Failure::new("one of the following is required: state, enabled"));
    }
    let name = args.required("name")?.to_owned();
    let script = format!("/etc/init.d/{name}");
    if !std::path::Path::new(&script).exists() {
        if host.dry_run() {
            let plan = Plan::change(|_, _| Ok(())).with("name", name.as_str());
            return Ok(plan
                .with_warning(format!("The service {name} is not on this host yet; it is assumed that it will be.")));
        }
        return Err(Failure::new(format!(
            "Could not find the requested service {name}: there is no unit of systemd and no {script}."
        )));
    }
    let arguments = shell_words::split(args.str("arguments").unwrap_or_default())
        .map_err(|error| Failure::new(format!("arguments cannot be split into words: {error}.")))?;
    let running = match args.str("pattern") {
        Some(pattern) => processes().iter().any(|line| line.contains(pattern)),
        None => says_running(&name, &ask_status(&name, &script, host).run(host)?),
    };
    let runlevel = args.str("runlevel").unwrap_or("default").to_owned();
    let starts = if openrc { starts_with_openrc(&name, &runlevel) } else { starts_with_rc(&name) };
    let verb = match args.str("state") {
        Some("started") if !running => Some("start"),
        Some("stopped") if running => Some("stop"),
        Some("restarted") => Some("restart"),
        Some("reloaded") => Some(if running { "reload" } else { "start" }),
        _ => None,
    };
    if host.check() && verb.is_some() {
        // The result of a state change has only these keys.
        return Ok(Plan::change(|_, _| Ok(())).with("msg", "service state changed"));
    }
    let enable = args.maybe_bool("enabled").filter(|wanted| *wanted != starts);
    let state = args.str("state").map(|state| if state == "stopped" { state } else { "started" }.to_owned());
    let shown = name.clone();
    let plan = if verb.is_none() && enable.is_none() {
        Plan::unchanged()
    } else {
        let pause = args.int("sleep").and_then(|seconds| u64::try_from(seconds).ok());
        Plan::change(move |host: &Host, _: &mut Outcome| {
            if let Some(enable) = enable {
                switch(&name, enable, openrc, &runlevel, host)?;
            }
            let run = |verb: &str| {
                let output = Command::new(&script).plain_locale().arg(verb).args(arguments.clone()).run(host)?;
                if output.success() { Ok(()) } else { Err(Failure::new(output.message())) }
            };
            match (verb, pause) {
                (Some("restart"), Some(seconds)) => {
                    run("stop")?;
                    std::thread::sleep(std::time::Duration::from_secs(seconds));
                    run("start")
                }
                (Some(verb), _) => run(verb),
                (None, _) => Ok(()),
            }
        })
    };
    let plan = plan.with("name", shown);
    let plan = match args.maybe_bool("enabled") {
        Some(enabled) => plan.with("enabled", enabled),
        None => plan,
    };
    Ok(match state {
        Some(state) => plan.with("state", state),
        None => plan,
    })
}

/// Interprets a script's answer to `status`. A failure means that nothing runs. After a success the text decides,
/// because some scripts always succeed.
fn says_running(name: &str, output: &process::Output) -> bool {
    if matches!(output.rc, 1..=4 | 69) {
        return false;
    }
    runs_by_output(name, output).unwrap_or_else(|| output.success())
}

/// Whether the one line of output says that a service runs. The service's own name is ignored.
pub(super) fn runs_by_output(name: &str, output: &process::Output) -> Option<bool> {
    let text = output.stdout_text();
    if text.trim_end().contains('\n') {
        return None;
    }
    let text = text.to_lowercase().replace(&name.to_lowercase(), "");
    let denies = ["stop", "is dead", "dead but ", "could not access pid file", "inactive"];
    if denies.iter().any(|words| text.contains(words)) {
        return Some(false);
    }
    let affirms = ["run", "start", "active"].iter().any(|words| text.contains(words));
    affirms.then(|| !text.contains("not "))
}

/// The command that queries a service script for its state.
pub(super) fn ask_status(name: &str, script: &str, host: &Host) -> Command {
    match process::find(host, "service") {
        Some(program) => Command::new(program).arg(name),
        None => Command::new(script),
    }
    .plain_locale()
    .arg("status")
}

pub(super) fn processes() -> Vec<String> {
    let root = Root::host();
    let numbers = root.names("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    numbers.filter_map(|number| Some(root.read(&format!("/proc/{number}/cmdline"))?.replace('\0', " "))).collect()
}

/// Whether any runlevel starts the service.
pub(super) fn starts_with_rc(name: &str) -> bool {
    ('0'..='9').chain(['S']).any(|level| starts_in(name, &level.to_string()))
}

/// Whether this runlevel starts the service.
pub(super) fn starts_in(name: &str, level: &str) -> bool {
    let root = Root::host();
    let folder = if root.exists("/etc/rc0.d") { "/etc" } else { "/etc/init.d" };
    let links = root.names(&format!("{folder}/rc{level}.d"));
    links.iter().any(|link| link.starts_with('S') && link.get(3..) == Some(name))
}

fn starts_with_openrc(name: &str, runlevel: &str) -> bool {
    std::path::Path::new(&format!("/etc/runlevels/{runlevel}/{name}")).symlink_metadata().is_ok()
}

fn switch(name: &str, enable: bool, openrc: bool, runlevel: &str, host: &Host) -> Result<(), Failure> {
    let verb = |on: &'static str, off: &'static str| if enable { on } else { off };
    let commands: Vec<Vec<&str>> = if openrc {
        vec![vec!["rc-update", verb("add", "del"), name, runlevel]]
    } else if process::find(host, "update-rc.d").is_some() {
        match enable {
            true => vec![vec!["update-rc.d", name, "defaults"], vec!["update-rc.d", name, "enable"]],
            false => vec![vec!["update-rc.d", name, "disable"]],
        }
    } else if process::find(host, "chkconfig").is_some() {
        vec![vec!["chkconfig", name, verb("on", "off")]]
    } else {
        return Err(Failure::new(format!(
            "{name} cannot be enabled or disabled: neither update-rc.d nor chkconfig is on this host."
        )));
    };
    for words in commands {
        let Some((program, rest)) = words.split_first() else { continue };
        Command::new(*program).plain_locale().args(rest.iter().copied()).check_run(host)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_state_parsed_from_words() {
        let output = |rc: i32, text: &str| process::Output {
            rc,
            stdout: text.as_bytes().to_vec(),
            stderr: Vec::new(),
            overlong: None,
        };
        assert!(says_running("cron", &output(0, "cron is running.\n")));
        assert!(!says_running("cron", &output(3, "")));
        assert!(!says_running("cron", &output(0, "cron is not running\n")));
        assert!(!says_running("cron", &output(0, " * status: stopped\n")));
        assert!(says_running("nonstop", &output(0, "nonstop is here\n")));
    }
}
