//! `timezone`: the host's time zone.

use std::path::Path;

use super::config_file;
use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    facts::{Root, systemd_runs},
    process::{self, Command, reason},
};

/// File in which Debian and Alpine store the zone name.
const FILE: &str = "/etc/timezone";

/// The `timezone` module.
pub struct Timezone;

static SPEC: Spec = Spec {
    name: "timezone",
    collection: "community.general",
    summary: "Manage the host's time zone",
    description: &["Points /etc/localtime to the zone, and writes its name where the distribution keeps it."],
    options: &[
        Opt::new("name", Kind::Str, "Name of the zone, such as `Europe/Berlin`.").word(),
        Opt::new("hwclock", Kind::Str, "Time kept by the hardware clock: `local` or `UTC`.")
            .aliases(&["rtc"])
            .choices(&["local", "UTC"]),
    ],
    required_one_of: &[&["hwclock", "name"]],
    examples: "- name: Universal time\n  community.general.timezone:\n    name: Etc/UTC\n",
    returns: &[Return {
        name: "msg",
        kind: "str",
        when: "the zone changed and the host has /etc/timezone",
        doc: "Summary of the change of that file.",
    }],
    ..Spec::EMPTY
}
.compiled();

const ZONES: &str = "/usr/share/zoneinfo";

/// The name of the current zone, from the target of the link or the file beside it.
fn current(root: &Root) -> String {
    let link = std::fs::read_link(root.path("/etc/localtime")).ok();
    let named = link.and_then(|target| Some(target.to_string_lossy().split_once("zoneinfo/")?.1.to_owned()));
    named.or_else(|| root.line("/etc/timezone")).unwrap_or_else(|| "n/a".to_owned())
}

impl Module for Timezone {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, _host: &Host) -> Result<Plan, Failure> {
        let root = Root::host();
        let before = current(&root);
        let name = args.str("name").map(str::to_owned);
        if let Some(name) = &name {
            let known = !name.contains("..") && !name.starts_with('/') && Path::new(ZONES).join(name).is_file();
            if !known {
                return Err(Failure::new(format!(
                    "The time zone {name} is not on this host: {ZONES}/{name} does not exist. Perhaps the package tzdata is missing."
                )));
            }
        }
        let clock_before = if root.read("/etc/adjtime").is_some_and(|text| text.lines().nth(2) == Some("LOCAL")) {
            "local"
        } else {
            "UTC"
        };
        let clock = args.str("hwclock").filter(|wanted| *wanted != clock_before).map(str::to_owned);
        let (mut shown_before, mut shown_after) = (Map::new(), Map::new());
        if let Some(name) = &name {
            shown_before.insert("name".to_owned(), before.clone().into());
            shown_after.insert("name".to_owned(), name.clone().into());
        }
        if let Some(wanted) = args.str("hwclock") {
            shown_before.insert("hwclock".to_owned(), clock_before.into());
            shown_after.insert("hwclock".to_owned(), wanted.into());
        }
        let zone = name.filter(|name| *name != before);
        let diff = Diff { before: shown_before.into(), after: shown_after.into(), ..Diff::default() };
        if zone.is_none() && clock.is_none() {
            return Ok(Plan::unchanged().with_diff(diff));
        }
        let plan = Plan::change(move |host: &Host, outcome: &mut Outcome| {
            if let Some(zone) = zone
                && let Some(done) = set(&zone)?
            {
                outcome.set("msg", done);
            }
            if let Some(clock) = clock {
                set_clock(clock == "local", host)?;
            }
            Ok(())
        });
        Ok(plan.with_diff(diff))
    }
}

/// Sets the zone, and returns the other file that was changed, if any.
fn set(zone: &str) -> Result<Option<String>, Failure> {
    let draft = "/etc/.localtime.windlass";
    let _ = std::fs::remove_file(draft);
    std::os::unix::fs::symlink(format!("..{ZONES}/{zone}"), draft)
        .and_then(|()| std::fs::rename(draft, "/etc/localtime"))
        .map_err(|error| Failure::new(format!("/etc/localtime could not be set to {zone}: {}.", reason(&error))))?;
    // Debian and Alpine store the name in a separate file as well.
    if !Path::new(FILE).exists() {
        return Ok(None);
    }
    let old = config_file::read(FILE)?.lines().filter(|line| !line.trim().is_empty()).count();
    config_file::replace(FILE, &format!("{zone}\n"))?;
    Ok(Some(format!("Added 1 line and deleted {old} line(s) on {FILE}")))
}

fn set_clock(local: bool, host: &Host) -> Result<(), Failure> {
    let command = if systemd_runs(&Root::host()) && process::find(host, "timedatectl").is_some() {
        Command::new("timedatectl").args(["set-local-rtc", if local { "1" } else { "0" }])
    } else {
        Command::new("hwclock").args(["--systohc", if local { "--localtime" } else { "--utc" }])
    };
    command.plain_locale().check_run(host).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn zone_read_from_link() {
        let (folder, root) = tree(&[("/etc/timezone", "Etc/UTC\n")]);
        assert_eq!(current(&root), "Etc/UTC");
        std::os::unix::fs::symlink("/usr/share/zoneinfo/Europe/Berlin", folder.path().join("etc/localtime")).unwrap();
        assert_eq!(current(&root), "Europe/Berlin");
    }

    #[test]
    fn unknown_zone_refused() {
        for name in ["Europe/Atlantis", "../../../etc/passwd"] {
            let result = crate::run(&Timezone, &serde_json::json!({ "name": name }), &Host::alone().with_check(true));
            assert!(result["msg"].as_str().unwrap().contains("is not on this host"), "{result}");
        }
    }
}
