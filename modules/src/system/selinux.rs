//! `selinux`: the mode and the policy of SELinux.

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
    summary: "Manage the mode of SELinux",
    description: &[
        "Sets mode and policy in the configuration and, between enforcing and permissive, at once. To or from disabled needs a restart of the \
         host, which `reboot_required` tells.",
    ],
    options: &[
        Opt::required("state", Kind::Str, "The mode.").choices(&["enforcing", "permissive", "disabled"]),
        Opt::new("policy", Kind::Str, "The policy, such as `targeted`; needed unless the mode is disabled."),
        Opt::new("configfile", Kind::Str, "The configuration.")
            .aliases(&["conf", "file"])
            .default("\"/etc/selinux/config\""),
        Opt::new("update_kernel_param", Kind::Bool, "Set `selinux=0` or `selinux=1` for the kernel too, by `grubby`.")
            .default("false"),
    ],
    examples: "- name: Tell, but let it happen\n  ansible.posix.selinux:\n    policy: targeted\n    state: permissive\n",
    returns: &[
        Return { name: "msg", kind: "str", when: "always", doc: "What was done." },
        Return { name: "configfile", kind: "str", when: "always", doc: "The configuration." },
        Return { name: "policy", kind: "str", when: "always", doc: "The policy." },
        Return { name: "state", kind: "str", when: "always", doc: "The mode." },
        Return { name: "reboot_required", kind: "bool", when: "always", doc: "The host must be restarted." },
    ],
    ..Spec::EMPTY
};

const FILESYSTEM: &str = "/sys/fs/selinux";

impl Module for Selinux {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let file = args.required("configfile")?.to_owned();
        let state = args.required("state")?.to_owned();
        if !Path::new(&file).is_file() {
            return Err(Failure::new(format!("Unable to find file {file}: SELinux is not installed on this host.")));
        }
        let before = config_file::read(&file)?;
        let old = (setting(&before, "SELINUX"), setting(&before, "SELINUXTYPE"));
        let policy = match args.str("policy").filter(|policy| !policy.is_empty()) {
            Some(policy) => policy.to_owned(),
            None if state == "disabled" => old.1.unwrap_or("targeted").to_owned(),
            None => return Err(Failure::new("Policy is required if state is not 'disabled'")),
        };
        if !Path::new(&format!("/etc/selinux/{policy}")).is_dir()
            && file == "/etc/selinux/config"
            && state != "disabled"
        {
            return Err(Failure::new(format!("Policy {policy} does not exist in /etc/selinux/")));
        }
        let mut after = with_setting(&before, "SELINUX", &state);
        if old.1 != Some(policy.as_str()) {
            after = with_setting(&after, "SELINUXTYPE", &policy);
        }
        let running = running_mode();
        let mut messages = Vec::new();
        let mut reboot = false;
        if old.1.is_some_and(|old| old != policy) {
            messages.push(format!(
                "SELinux policy configuration in '{file}' changed from '{}' to '{policy}'",
                old.1.unwrap_or_default()
            ));
        }
        let now = match (running, state.as_str()) {
            ("disabled", "disabled") => None,
            ("disabled", wanted) => {
                reboot = true;
                messages
                    .push(format!("SELinux state change from 'disabled' to '{wanted}' will take effect next reboot"));
                None
            }
            (running, "disabled") => {
                reboot = true;
                messages
                    .push(format!("SELinux state change from '{running}' to 'disabled' will take effect next reboot"));
                (running == "enforcing").then_some("0")
            }
            (running, wanted) if running != wanted => {
                messages.push(format!("SELinux state changed from '{running}' to '{wanted}'"));
                Some(if wanted == "enforcing" { "1" } else { "0" })
            }
            _ => None,
        };
        if old.0 != Some(state.as_str()) {
            messages.push(format!("Config SELinux state changed from '{}' to '{state}'", old.0.unwrap_or("none")));
        }
        let kernel = if args.bool("update_kernel_param") { kernel_change(&state, host)? } else { None };
        let changed = before != after || now.is_some() || kernel.is_some();
        let diff = (host.diff() && before != after).then(|| Diff::of(&file, before, after.as_str()));
        let target = file.clone();
        let plan = if changed {
            Plan::change(move |host, _| {
                if let Some(words) = kernel {
                    Command::new("grubby").plain_locale().args(words).check_run(host)?;
                }
                if let Some(value) = now {
                    let path = format!("{FILESYSTEM}/enforce");
                    std::fs::write(&path, value)
                        .map_err(|error| Failure::new(format!("{path} could not be written: {}.", reason(&error))))?;
                }
                config_file::replace(&target, &after, false).map(|_| ())
            })
        } else {
            Plan::unchanged()
        };
        let plan = plan.with("msg", messages.join(", ")).with("configfile", file).with("policy", policy);
        let plan = plan.with("state", state).with("reboot_required", reboot);
        Ok(match diff {
            Some(diff) => plan.with_diff(diff),
            None => plan,
        })
    }
}

fn running_mode() -> &'static str {
    match std::fs::read_to_string(format!("{FILESYSTEM}/enforce")).as_deref().map(str::trim) {
        Ok("1") => "enforcing",
        Ok(_) => "permissive",
        Err(_) => "disabled",
    }
}

/// The arguments of grubby, if the kernel's command line has to change.
fn kernel_change(state: &str, host: &Host) -> Result<Option<Vec<String>>, Failure> {
    if process::find(host, "grubby").is_none() {
        return Err(Failure::new("Failed to find required executable \"grubby\", which update_kernel_param needs."));
    }
    let text = Command::new("grubby").plain_locale().args(["--info=ALL"]).check_run(host)?.stdout_text();
    let mut kernels = text.lines().filter(|line| line.trim_start().starts_with("args="));
    let off = |line: &str| line.split([' ', '"']).any(|word| word == "selinux=0");
    let wanted = state == "disabled";
    if kernels.all(|line| off(line) == wanted) {
        return Ok(None);
    }
    let change = if wanted { "--args=selinux=0" } else { "--remove-args=selinux" };
    Ok(Some(vec!["--update-kernel=ALL".to_owned(), change.to_owned()]))
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
    fn the_configuration_is_changed_in_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, "# why\nSELINUX=enforcing\nSELINUXTYPE=targeted\n").unwrap();
        let run = |state: &str, check: bool| {
            let arguments = json!({"state": state, "policy": "targeted", "configfile": file});
            crate::run(&Selinux, &arguments, &Host::alone(check, true))
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
            assert_eq!(crate::run(&Selinux, &bad, &Host::alone(true, false))["failed"], true);
        }
    }
}
