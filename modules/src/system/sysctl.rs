//! `sysctl`: kernel settings, now and after a reboot.

use super::config_file;
use crate::{Args, Diff, Failure, Host, Kind, Module, Opt, Outcome, Plan, Spec, process::reason};

/// The `sysctl` module.
pub struct Sysctl;

static SPEC: Spec = Spec {
    name: "sysctl",
    collection: "ansible.posix",
    summary: "Manage kernel settings",
    description: &[
        "Writes a setting to a file that is read at boot, and applies the settings of the file when it changes. \
         Values are written to /proc/sys directly, without a process.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Name of the setting, such as `net.ipv4.ip_forward`.")
            .line()
            .aliases(&["key"]),
        Opt::new("value", Kind::Str, "Value of the setting; yes and no become 1 and 0.").line().aliases(&["val"]),
        Opt::new("state", Kind::Str, "`present` writes the setting, `absent` removes it from the file.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("sysctl_file", Kind::Path, "Path of the file.").default("\"/etc/sysctl.conf\""),
        Opt::new(
            "sysctl_set",
            Kind::Bool,
            "Also compare with the running kernel, and set the value there if it differs.",
        )
        .default("false"),
        Opt::new("reload", Kind::Bool, "Apply the settings of the file when it changes.").default("true"),
        Opt::new("ignoreerrors", Kind::Bool, "Ignore settings that the kernel does not know or rejects.")
            .default("false"),
    ],
    required_if: &[("state", "present", &["value"])],
    examples: "- name: Forward packets\n  ansible.posix.sysctl:\n    name: net.ipv4.ip_forward\n    value: 1\n    sysctl_set: true\n    sysctl_file: /etc/sysctl.d/99-kubernetes.conf\n",
    ..Spec::EMPTY
}
.compiled();

impl Module for Sysctl {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        args.str("sysctl_file").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?.trim().to_owned();
        if name.is_empty() {
            return Err(Failure::new("name cannot be blank"));
        }
        if name.contains(['\n', '=', ' ']) {
            return Err(Failure::new(format!("{name:?} is not the name of a kernel setting.")));
        }
        let present = args.str("state") != Some("absent");
        let value = parse_value(args.str("value").unwrap_or_default());
        if present && value.is_empty() {
            return Err(Failure::new("value cannot be blank"));
        }
        let file = args.required("sysctl_file")?.to_owned();
        let ignore = args.bool("ignoreerrors");
        let reload = args.bool("reload");
        let before = config_file::read(&file)?;
        let after = if present { with_setting(&before, &name, &value) } else { without_setting(&before, &name) };
        let in_file = before != after;
        let live = read_live(&name);
        let set = present && args.bool("sysctl_set");
        if set && live.is_none() && !ignore && !host.check() {
            return Err(Failure::new(format!(
                "The kernel has no setting {name}: {} does not exist. Perhaps a module must be loaded first.",
                path_of(&name)
            )));
        }
        // A stored value that is not in force is applied; a setting unknown to the kernel is not.
        let apart = present && (set || reload) && live.as_deref() != Some(&value);
        if !in_file && !apart {
            return Ok(Plan::unchanged());
        }
        let in_kernel = set && apart && live.is_some();
        let diff = host.diff().then(|| Diff::of(&file, before, after.clone()));
        let plan = Plan::change(move |_: &Host, _: &mut Outcome| {
            if in_file {
                config_file::replace_making_folder(&file, &after)?;
            }
            if in_kernel {
                write_live(&name, &value).or_else(|failure| if ignore { Ok(()) } else { Err(failure) })?;
            }
            if reload {
                apply_all(&after, &file, ignore)?;
            }
            Ok(())
        });
        Ok(plan.with_diff(diff))
    }
}

/// Normalises a value like the kernel: single blanks, and numbers for yes and no.
fn parse_value(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "on" | "true" | "t" => "1".to_owned(),
        "n" | "no" | "off" | "false" | "f" => "0".to_owned(),
        _ => text,
    }
}

/// The setting in a line, without a leading `-`, which makes errors harmless.
fn setting_of(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    Some((name.trim().trim_start_matches('-'), value.trim()))
}

fn same_name(one: &str, other: &str) -> bool {
    one == other || path_of(one) == path_of(other)
}

fn with_setting(text: &str, name: &str, value: &str) -> String {
    let mut lines = Vec::new();
    let mut written = false;
    for line in text.lines() {
        match setting_of(line) {
            Some((found, old)) if same_name(found, name) => {
                // Keeps the first occurrence only; a later one would override it.
                if !written {
                    lines.push(if parse_value(old) == value { line.to_owned() } else { format!("{name}={value}") });
                }
                written = true;
            }
            _ => lines.push(line.to_owned()),
        }
    }
    if !written {
        lines.push(format!("{name}={value}"));
    }
    if written && lines.iter().map(String::as_str).eq(text.lines()) { text.to_owned() } else { lines.join("\n") + "\n" }
}

fn without_setting(text: &str, name: &str) -> String {
    let has = text.lines().any(|line| setting_of(line).is_some_and(|(found, _)| same_name(found, name)));
    if !has {
        return text.to_owned();
    }
    let kept: Vec<&str> =
        text.lines().filter(|line| setting_of(line).is_none_or(|(found, _)| !same_name(found, name))).collect();
    if kept.is_empty() { String::new() } else { kept.join("\n") + "\n" }
}

/// Path of a setting. Dots separate parts unless a slash does, as in `net/ipv4/conf/eth0.1/forwarding`.
fn path_of(name: &str) -> String {
    let slash = name.find(['.', '/']).is_some_and(|at| name.as_bytes().get(at) == Some(&b'/'));
    let path: String = if slash {
        name.to_owned()
    } else {
        name.chars()
            .map(|letter| match letter {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect()
    };
    format!("/proc/sys/{path}")
}

fn read_live(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path_of(name)).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn write_live(name: &str, value: &str) -> Result<(), Failure> {
    let path = path_of(name);
    std::fs::write(&path, format!("{value}\n")).map_err(|error| {
        Failure::new(format!("The kernel setting {name} could not be set to {value:?} ({path}): {}.", reason(&error)))
    })
}

/// Applies every setting of the file, as a boot does.
fn apply_all(text: &str, file: &str, ignore: bool) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = setting_of(line) else { continue };
        let harmless = line.trim_start().starts_with('-');
        if read_live(name).is_some_and(|live| live == parse_value(value)) {
            continue;
        }
        if let Err(failure) = write_live(name, value)
            && !harmless
        {
            failures.push(failure.message);
        }
    }
    if failures.is_empty() || ignore {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{file} was written, but not every setting of it could be applied. {}",
        failures.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn setting_replaced_added_and_removed() {
        let text = "# network\nnet.ipv4.ip_forward = 0\nvm.swappiness=10\nnet/ipv4/ip_forward=0\n";
        assert_eq!(
            with_setting(text, "net.ipv4.ip_forward", "1"),
            "# network\nnet.ipv4.ip_forward=1\nvm.swappiness=10\n"
        );
        assert_eq!(with_setting("vm.swappiness = 10", "vm.swappiness", "10"), "vm.swappiness = 10");
        assert_eq!(with_setting("", "a.b", "1 2"), "a.b=1 2\n");
        assert_eq!(without_setting(text, "net.ipv4.ip_forward"), "# network\nvm.swappiness=10\n");
        assert_eq!(without_setting(text, "kernel.panic"), text);
    }

    #[test]
    fn names_with_dots_and_slashes_same_path() {
        assert_eq!(path_of("net.ipv4.ip_forward"), "/proc/sys/net/ipv4/ip_forward");
        assert_eq!(path_of("net/ipv4/conf/eth0.1/forwarding"), "/proc/sys/net/ipv4/conf/eth0.1/forwarding");
        assert_eq!(path_of("net.ipv4.conf.eth0/1.forwarding"), "/proc/sys/net/ipv4/conf/eth0.1/forwarding");
        assert_eq!(parse_value(" yes "), "1");
        assert_eq!(parse_value("4096\t131072   6291456"), "4096 131072 6291456");
    }

    #[test]
    fn setting_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("99-test.conf");
        let live = read_live("kernel.ostype").unwrap();
        let arguments = json!({ "name": "kernel.ostype", "value": live, "sysctl_file": file, "sysctl_set": true });
        let run = |check| crate::run(&Sysctl, &arguments, &Host::alone().with_check(check).with_diff(true));
        assert_eq!(run(true)["changed"], true);
        assert!(!file.exists());
        let first = run(false);
        assert_eq!(first["changed"], true, "{first}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kernel.ostype=Linux\n");
        assert_eq!(run(false)["changed"], false);
    }

    #[test]
    fn stored_value_not_in_force_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("99-test.conf");
        std::fs::write(&file, "kernel.ostype=Other\n").unwrap();
        let run = |reload| {
            let arguments = json!({ "name": "kernel.ostype", "value": "Other", "sysctl_file": file, "reload": reload, "ignoreerrors": true });
            crate::run(&Sysctl, &arguments, &Host::alone())["changed"].clone()
        };
        assert_eq!((run(true), run(false)), (json!(true), json!(false)));
    }

    #[test]
    fn unknown_setting_named_in_failure() {
        let arguments =
            json!({ "name": "net.nothing.here", "value": 1, "sysctl_set": true, "sysctl_file": "/tmp/none.conf" });
        let result = crate::run(&Sysctl, &arguments, &Host::alone());
        assert!(result["msg"].as_str().unwrap().contains("/proc/sys/net/nothing/here does not exist"), "{result}");
    }
}
