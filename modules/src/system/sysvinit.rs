//! `sysvinit`: service scripts in `/etc/init.d`.

use serde_json::{Value, json};

use super::service::{ask_status, processes, runs_by_output, starts_in, starts_with_rc};
use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    process::{self, Command, Output},
};

/// The `sysvinit` module.
pub struct SysVInit;

static SPEC: Spec = Spec {
    name: "sysvinit",
    summary: "Manage service scripts in /etc/init.d",
    description: &[
        "Calls the service script, and enables it with update-rc.d or chkconfig, even if the host also has another \
         service manager.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Name of the service.").word().aliases(&["service"]),
        Opt::new("state", Kind::Str, "State of the service.").choices(&["started", "stopped", "restarted", "reloaded"]),
        Opt::new("enabled", Kind::Bool, "Start the service at boot."),
        Opt::new("sleep", Kind::Int, "Seconds between stop and start of a restart.").default("1"),
        Opt::new("pattern", Kind::Str, "Text in the process list that shows that the service runs."),
        Opt::new("runlevels", Kind::List(&Kind::Str), "Runlevels that `enabled` applies to."),
        Opt::new("arguments", Kind::Str, "Additional arguments for the script.").aliases(&["args"]),
        Opt::new(
            "daemonize",
            Kind::Bool,
            "Run the script in its own session, for scripts that do not detach themselves.",
        )
        .default("false"),
    ],
    required_one_of: &[&["state", "enabled"]],
    required_by: &[("runlevels", &["enabled"])],
    examples: "- name: Have cron running\n  ansible.builtin.sysvinit:\n    name: cron\n    state: started\n    enabled: true\n    runlevels: [3, 5]\n",
    returns: &[
        Return { name: "name", kind: "str", when: "always", doc: "Name of the service." },
        Return { name: "status", kind: "dict", when: "always", doc: "Results for `enabled` and for the state." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// One half of a task: enabling, or a change of state.
struct Step {
    key: String,
    runlevels: Vec<String>,
    commands: Vec<Vec<String>>,
    service: String,
}

impl Module for SysVInit {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan(args, host)
    }
}

/// The plan of `sysvinit`, and of `service` on such hosts.
pub(super) fn plan(args: &Args, host: &Host) -> Result<Plan, Failure> {
    let name = args.required("name")?.to_owned();
    let script = if name.starts_with('/') { name.clone() } else { format!("/etc/init.d/{name}") };
    if !std::path::Path::new(&script).exists() {
        return Err(Failure::new(format!("Could not find the requested service {name}: ")));
    }
    let arguments = shell_words::split(args.str("arguments").unwrap_or_default())
        .map_err(|error| Failure::new(format!("arguments cannot be split into words: {error}.")))?;
    let mut steps = Vec::new();
    let runlevels: Vec<String> = args.list("runlevels").into_iter().map(str::to_owned).collect();
    if let Some(enabled) = args.maybe_bool("enabled") {
        let differs = if runlevels.is_empty() {
            starts_with_rc(&name) != enabled
        } else {
            runlevels.iter().any(|level| starts_in(&name, level) != enabled)
        };
        let commands = if differs { switch(&name, enabled, &runlevels, host)? } else { Vec::new() };
        steps.push(Step { key: "enabled".into(), runlevels, commands, service: name.clone() });
    }
    let key = args.str("state").unwrap_or("null").to_owned();
    if let Some(state) = args.str("state") {
        let verbs = verbs(state, runs(&name, &script, args, host)?);
        let command = |verb: &str| {
            let words = [script.clone(), verb.to_owned()];
            words.into_iter().chain(arguments.clone()).collect::<Vec<_>>()
        };
        let commands = verbs.iter().map(|verb| command(verb)).collect();
        steps.push(Step { key: state.to_owned(), runlevels: Vec::new(), commands, service: name.clone() });
    }
    let pause = args.int("sleep").and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(1);
    let session = args.bool("daemonize");
    let changes = steps.iter().any(|step| !step.commands.is_empty());
    // The result reports both halves, even one that was not requested.
    let mut status: Map = ["enabled".to_owned(), key].into_iter().map(|key| (key, status_of(false, None))).collect();
    status.extend(steps.iter().map(|step| (step.key.clone(), step.status(None))));
    let shown = status.clone();
    let plan = if !changes {
        Plan::unchanged()
    } else {
        Plan::change(move |host, outcome| {
            for step in steps {
                let output = step.run(pause, session, host)?;
                status.insert(step.key.clone(), step.status(output.as_ref()));
            }
            outcome.set("status", status);
            Ok(())
        })
    };
    Ok(plan.with("name", name).with("status", shown))
}

impl Step {
    fn run(&self, pause: u64, session: bool, host: &Host) -> Result<Option<Output>, Failure> {
        let mut last = None;
        for (index, words) in self.commands.iter().enumerate() {
            if index > 0 && self.key == "restarted" {
                std::thread::sleep(std::time::Duration::from_secs(pause));
            }
            let Some((program, rest)) = words.split_first() else { continue };
            let command = if session && self.key != "enabled" {
                Command::new("setsid").args(["--wait", program.as_str()])
            } else {
                Command::new(program)
            };
            let output = command.plain_locale().args(rest).run(host)?;
            if self.key == "enabled" {
                // The result reports a failure to enable; only an invalid runlevel is an error.
                if output.stderr_text().contains("illegal runlevel specified") {
                    let sentence = "Illegal runlevel specified for enable operation on service";
                    return Err(Failure::new(format!("{sentence} {}", self.service)));
                }
            } else if !output.success() {
                return Err(Failure::new(format!("Failed to {} service: {}", verb(&self.key), self.service))
                    .with("rc", output.rc)
                    .with("stdout", output.stdout_text())
                    .with("stderr", output.stderr_text()));
            }
            last = Some(output);
        }
        Ok(last)
    }

    fn status(&self, output: Option<&Output>) -> Value {
        let mut status = status_of(!self.commands.is_empty(), output);
        if let (Some(map), false) = (status.as_object_mut(), self.runlevels.is_empty()) {
            map.insert("runlevels".into(), json!(self.runlevels));
        }
        status
    }
}

/// The result of one half of the task.
fn status_of(changed: bool, output: Option<&Output>) -> Value {
    json!({
        "changed": changed,
        "rc": output.map(|output| output.rc),
        "stdout": output.map(Output::stdout_text),
        "stderr": output.map(Output::stderr_text),
    })
}

fn runs(name: &str, script: &str, args: &Args, host: &Host) -> Result<bool, Failure> {
    if let Some(pattern) = args.str("pattern") {
        return Ok(processes().iter().any(|line| line.contains(pattern)));
    }
    let output = ask_status(name, script, host).run(host)?;
    if let Some(runs) = runs_by_output(name, &output) {
        return Ok(runs);
    }
    // If the exit status is inconclusive, the process list decides.
    Ok(match output.rc {
        0 => true,
        1..=4 | 69 => false,
        _ => processes().iter().any(|line| line.contains(name)),
    })
}

/// The verb of a state.
fn verb(state: &str) -> &str {
    state.strip_suffix("ped").or_else(|| state.strip_suffix("ed")).unwrap_or(state)
}

/// The verbs to call the script with, in order.
fn verbs(state: &str, running: bool) -> &'static [&'static str] {
    match (state, running) {
        ("started", false) => &["start"],
        ("stopped", true) => &["stop"],
        ("restarted", _) => &["stop", "start"],
        ("reloaded", _) => &["reload"],
        _ => &[],
    }
}

fn switch(name: &str, enable: bool, runlevels: &[String], host: &Host) -> Result<Vec<Vec<String>>, Failure> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let all = runlevels.is_empty();
    let mut command = if process::find(host, "update-rc.d").is_some() {
        words(&[
            "update-rc.d",
            name,
            if enable && all {
                "defaults"
            } else if enable {
                "enable"
            } else {
                "disable"
            },
        ])
    } else if process::find(host, "chkconfig").is_some() {
        let state = if enable { "on" } else { "off" };
        return Ok(vec![if all {
            words(&["chkconfig", name, state])
        } else {
            words(&["chkconfig", "--level", &runlevels.concat(), name, state])
        }]);
    } else {
        return Err(Failure::new(format!(
            "{name} cannot be enabled or disabled: neither update-rc.d nor chkconfig is on this host."
        )));
    };
    command.extend(runlevels.iter().cloned());
    Ok(vec![command])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_called_with_missing_verbs() {
        assert_eq!(verbs("started", false), ["start"]);
        assert!(verbs("started", true).is_empty() && verbs("stopped", false).is_empty());
        assert_eq!(verbs("restarted", true), ["stop", "start"]);
    }

    #[test]
    fn service_without_script_named_in_failure() {
        let result = crate::run(&SysVInit, &json!({"name": "no-such", "state": "started"}), &Host::alone());
        assert!(result["msg"].as_str().unwrap().contains("Could not find the requested service no-such"), "{result}");
    }
}
