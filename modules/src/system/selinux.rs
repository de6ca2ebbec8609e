//! `selinux`: mode and policy of SELinux.

use std::path::Path;

use super::config_file;
use crate::{
    Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    process::{self, Command, reason},
};

/// The `selinux` module.
pub struct Selinux;

static SPEC: Spec = Spec {
    name: "selinux",
    collection: "ansible.posix",
    summary: "Manage the mode and policy of SELinux",
    description: &[
        "Sets mode and policy in the configuration file and switches between enforcing and permissive at once. \
         Changing to or from disabled takes a reboot, which `reboot_required` reports.",
    ],
    options: &[
        Opt::required("state", Kind::Str, "Mode of SELinux.").choices(&["enforcing", "permissive", "disabled"]),
        Opt::new(
            "policy",
            Kind::Str,
            "Name of the policy, such as `targeted`. Required unless the mode is `disabled`.",
        ),
        Opt::new("configfile", Kind::Str, "Path of the configuration file.")
            .aliases(&["conf", "file"])
            .default("\"/etc/selinux/config\""),
        Opt::new(
            "update_kernel_param",
            Kind::Bool,
            "Also set `selinux=0` or `selinux=1` on the kernel command line, with `grubby`.",
        )
        .default("false"),
    ],
    examples: "- name: Tell, but let it happen\n  ansible.posix.selinux:\n    policy: targeted\n    state: permissive\n",
    returns: &[
        Return { name: "msg", kind: "str", when: "always", doc: "Summary of the changes." },
        Return { name: "configfile", kind: "str", when: "always", doc: "Path of the configuration file." },
        Return { name: "policy", kind: "str", when: "always", doc: "Name of the policy." },
        Return { name: "state", kind: "str", when: "always", doc: "Mode of SELinux." },
        Return { name: "reboot_required", kind: "bool", when: "always", doc: "Whether the host must be rebooted." },
    ],
    ..Spec::EMPTY
}
.compiled();

const FILESYSTEM: &str = "/sys/fs/selinux";

impl Module for Selinux {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        args.str("configfile").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let file = args.required("configfile")?.to_owned();
        let state = args.required("state")?.to_owned();
        if !Path::new(&file).is_file() {
            let advice = "Please install SELinux-policy package, if this package is not installed previously.";
            return Err(Failure::new(format!("Unable to find file {file}")).with("details", advice));
        }
        let before = config_file::read(&file)?;
        let old = (setting(&before, "SELINUX"), setting(&before, "SELINUXTYPE"));
        let is_on = state != "disabled";
        let kernel = if args.bool("update_kernel_param") { Some(is_on_for_kernels(host)?) } else { None };
        let policy = args.filled("policy");
        if policy.is_none() && is_on {
            return Err(Failure::new("Policy is required if state is not 'disabled'"));
        }
        let policy = policy.or(old.1).map(str::to_owned);
        let running = running_mode();
        let mut after = before.clone();
        let mut messages = Vec::new();
        if let Some(policy) = policy.as_deref() {
            let running = running_policy();
            let is_other = policy != running || Some(policy) != old.1;
            // Check mode predicts no more for a change of policy.
            if is_other && host.check() {
                return Ok(Plan::change(|_, _| Ok(())));
            }
            if policy != running {
                messages.push(format!("Running SELinux policy changed from '{running}' to '{policy}'"));
            }
            if Some(policy) != old.1 {
                if !Path::new(&format!("/etc/selinux/{policy}/policy")).exists() {
                    return Err(Failure::new(format!("Policy {policy} does not exist in /etc/selinux/")));
                }
                after = with_setting(&after, "SELINUXTYPE", policy);
                let old = old.1.unwrap_or("None");
                let sentence = format!("SELinux policy configuration in '{file}' changed from '{old}' to '{policy}'");
                messages.push(sentence);
            }
        }
        let Transition { enforce, message, warning } = transition(running, &state);
        messages.extend(message);
        if old.0 != Some(state.as_str()) {
            after = with_setting(&after, "SELINUX", &state);
            messages.push(format!("Config SELinux state changed from '{}' to '{state}'", old.0.unwrap_or("None")));
        }
        let kernel = kernel.filter(|found| *found != Some(is_on));
        if let Some(found) = kernel {
            let named = |on| if on { "enabled" } else { "disabled" };
            let (found, wanted) = (found.map_or("<inconsistent>", named), named(is_on));
            messages.push(format!("Kernel SELinux state changed from '{found}' to '{wanted}'"));
        }
        let diff = (host.diff() && before != after).then(|| Diff::of(&file, before.clone(), after.as_str()));
        let plan = if messages.is_empty() && enforce.is_none() {
            Plan::unchanged()
        } else {
            let kernel = kernel.map(|_| is_on);
            let config = (before != after).then(|| (file.clone(), after));
            Plan::change(move |host, _| apply(kernel, enforce, config, host))
        };
        let plan = plan.with("msg", messages.join(", ")).with("configfile", file).with("policy", policy);
        let plan = plan.with("state", state).with("reboot_required", warning.is_some());
        let plan = warning.into_iter().fold(plan, Plan::with_warning);
        Ok(diff.into_iter().fold(plan, Plan::with_diff))
    }
}

/// How a running system gets to a mode.
#[derive(Default)]
struct Transition {
    /// Content for the kernel's file `enforce`.
    enforce: Option<&'static str>,
    message: Option<String>,
    /// Advice to reboot, where only that completes the change.
    warning: Option<String>,
}

fn transition(running: &str, wanted: &str) -> Transition {
    match (running, wanted) {
        (running, wanted) if running == wanted => Transition::default(),
        ("disabled", wanted) => Transition {
            warning: Some(format!("Reboot is required to set SELinux state to '{wanted}'")),
            ..Transition::default()
        },
        ("permissive", "disabled") => Transition {
            warning: Some("SELinux state change will take effect next reboot".to_owned()),
            ..Transition::default()
        },
        (running, "disabled") => Transition {
            enforce: Some("0"),
            warning: Some(format!(
                "SELinux state temporarily changed from '{running}' to 'permissive'. State change will take effect next reboot."
            )),
            ..Transition::default()
        },
        (running, wanted) => Transition {
            enforce: Some(if wanted == "enforcing" { "1" } else { "0" }),
            message: Some(format!("SELinux state changed from '{running}' to '{wanted}'")),
            ..Transition::default()
        },
    }
}

/// Changes the kernels' command lines, the running mode and the configuration file, as far as each is given.
fn apply(
    kernel: Option<bool>,
    enforce: Option<&str>,
    config: Option<(String, String)>,
    host: &Host,
) -> Result<(), Failure> {
    if let Some(is_on) = kernel {
        let change = if is_on { "--remove-args" } else { "--args" };
        let command = Command::new("grubby").plain_locale();
        command.args(["--update-kernel=ALL", change, "selinux=0"]).check_run(host)?;
    }
    if let Some(value) = enforce {
        let path = format!("{FILESYSTEM}/enforce");
        std::fs::write(&path, value)
            .map_err(|error| Failure::new(format!("{path} could not be written: {}.", reason(&error))))?;
    }
    config.map_or(Ok(()), |(file, text)| config_file::replace(&file, &text))
}

/// The loaded policy, which the system's own configuration names.
fn running_policy() -> String {
    let text = std::fs::read_to_string("/etc/selinux/config").unwrap_or_default();
    setting(&text, "SELINUXTYPE").unwrap_or("targeted").to_owned()
}

fn running_mode() -> &'static str {
    match std::fs::read_to_string(format!("{FILESYSTEM}/enforce")).as_deref().map(str::trim) {
        Ok("1") => "enforcing",
        Ok(_) => "permissive",
        Err(_) => "disabled",
    }
}

/// Whether the kernels boot with SELinux; `None` if they differ.
fn is_on_for_kernels(host: &Host) -> Result<Option<bool>, Failure> {
    if process::find(host, "grubby").is_none() {
        return Err(Failure::new("'grubby' command not found on host"));
    }
    let text = Command::new("grubby").plain_locale().args(["--info=ALL"]).check_run(host)?.stdout_text();
    let kernels = text.lines().filter(|line| line.starts_with("args=\""));
    let on: Vec<bool> = kernels.map(|line| !line.split([' ', '"']).any(|word| word == "selinux=0")).collect();
    let first = on.first().copied();
    Ok(first.filter(|first| on.iter().all(|other| other == first)))
}

fn setting<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::trim)
}

fn with_setting(text: &str, name: &str, value: &str) -> String {
    let mut found = false;
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')) {
            found = true;
            lines.push(format!("{name}={value}"));
        } else {
            lines.push(line.to_owned());
        }
    }
    if !found {
        lines.push(format!("{name}={value}"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn configuration_lines_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, "# why\nSELINUX=enforcing\nSELINUXTYPE=targeted\n").unwrap();
        let run = |state: &str, check: bool| {
            let arguments = json!({"state": state, "policy": "targeted", "configfile": file});
            crate::run(&Selinux, &arguments, &Host::alone().with_check(check).with_diff(true))
        };
        assert_eq!(run("disabled", true)["changed"], true);
        assert_eq!(run("disabled", false)["changed"], true);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "# why\nSELINUX=disabled\nSELINUXTYPE=targeted\n");
        assert_eq!(run("disabled", false)["changed"], false);
        for bad in [
            json!({"state": "permissive", "configfile": file}),
            json!({"state": "off"}),
            json!({"state": "disabled", "conf": "/none"}),
        ] {
            assert_eq!(crate::run(&Selinux, &bad, &Host::alone().with_check(true))["failed"], true);
        }
    }
}
