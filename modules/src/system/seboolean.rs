//! `seboolean`: SELinux booleans.

use std::path::Path;

use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::Command};

/// The `seboolean` module.
pub struct SeBoolean;

static SPEC: Spec = Spec {
    name: "seboolean",
    collection: "ansible.posix",
    summary: "Set SELinux booleans",
    description: &["Sets a boolean with `setsebool`. With `persistent`, the value survives a reboot."],
    options: &[
        Opt::required("name", Kind::Str, "Name of the boolean.").word(),
        Opt::required("state", Kind::Bool, "Value to set."),
        Opt::new("persistent", Kind::Bool, "Keep the value across reboots.").default("false"),
        Opt::new("ignore_selinux_state", Kind::Bool, "Continue if SELinux is disabled, as when an image is built.")
            .default("false"),
    ],
    examples: "- name: The web server connects to the net\n  ansible.posix.seboolean:\n    name: httpd_can_network_connect\n    state: true\n    persistent: true\n",
    returns: &[Return { name: "name", kind: "str", when: "always", doc: "Name of the boolean." }],
    ..Spec::EMPTY
}
.compiled();

impl Module for SeBoolean {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?.to_owned();
        let (state, persistent) = (args.bool("state"), args.bool("persistent"));
        if !Path::new("/sys/fs/selinux/enforce").exists() && !args.bool("ignore_selinux_state") {
            return Err(Failure::new("SELinux is disabled on this host."));
        }
        let value = if state { "on" } else { "off" };
        let running = std::fs::read_to_string(format!("/sys/fs/selinux/booleans/{name}")).ok();
        let running = running.and_then(|text| text.split_whitespace().next().map(|now| now == "1"));
        let stored = if persistent { stored(&name, host)? } else { None };
        if running.is_none() && stored.is_none() {
            return Err(Failure::new(format!("SELinux boolean {name} does not exist.")));
        }
        let same = running.is_none_or(|running| running == state) && (!persistent || stored == Some(state));
        let plan = if same {
            Plan::unchanged()
        } else {
            let target = name.clone();
            Plan::change(move |host, _| {
                let command = Command::new("setsebool").plain_locale();
                let command = if persistent { command.arg("-P") } else { command };
                command.args([target.as_str(), value]).check_run(host).map(|_| ())
            })
        };
        Ok(plan.with("name", name).with("state", state).with("persistent", persistent))
    }
}

/// Parses the value after a reboot: `httpd_x  (off  ,  off)  Description`.
fn stored(name: &str, host: &Host) -> Result<Option<bool>, Failure> {
    let text = Command::new("semanage").plain_locale().args(["boolean", "-l", "-n"]).check_run(host)?.stdout_text();
    Ok(parse_stored(&text, name))
}

fn parse_stored(text: &str, name: &str) -> Option<bool> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    let inside = line.split_once('(')?.1.split_once(')')?.0;
    Some(inside.split_once(',')?.1.trim() == "on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persistent_value_parsed() {
        let text = "httpd_a    (on   ,  off)  Allow a\nhttpd_b    (off   ,   on)  Allow b\n";
        assert_eq!(
            (parse_stored(text, "httpd_a"), parse_stored(text, "httpd_b"), parse_stored(text, "x")),
            (Some(false), Some(true), None)
        );
    }
}
