//! `package`: packages, whatever package manager the host has.

use super::{apt, dnf};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    facts::{Root, os_family, package_manager_of},
    process::{self, Command},
};

/// The `package` module.
pub struct Package;

/// What the module takes and returns.
pub static SPEC: Spec = Spec {
    name: "package",
    summary: "Manage packages with the host's package manager",
    description: &[
        "On Debian and what is made of it this is `apt`. On other families the packages' database is asked first, and only what is missing \
         (or there) is installed (or removed) with dnf, yum, zypper, apk or pacman.",
    ],
    options: &[
        Opt::new("name", Kind::List(&Kind::Str), "Packages.").aliases(&["package", "pkg"]).default("[]"),
        Opt::new("state", Kind::Str, "`installed` and `removed` mean `present` and `absent`.")
            .default("\"present\"")
            .choices(&["present", "installed", "absent", "removed", "latest"]),
        Opt::new("use", Kind::Str, "The package manager, if it is not to be found out.")
            .aliases(&["use_backend"])
            .default("\"auto\""),
        Opt::new("update_cache", Kind::Bool, "Read the lists of packages anew first.").aliases(&["update-cache"]),
        Opt::new("cache_valid_time", Kind::Int, "apt: only if they are older than this many seconds.").default("0"),
        Opt::new("update_cache_retries", Kind::Int, "apt: how often to try.").default("5"),
        Opt::new("update_cache_retry_max_delay", Kind::Int, "apt: the longest pause between two tries.").default("12"),
        Opt::new("default_release", Kind::Str, "apt: the release to take packages from."),
        Opt::new("install_recommends", Kind::Bool, "apt: whether recommended packages come along."),
        Opt::new("purge", Kind::Bool, "apt: remove configuration files too.").default("false"),
        Opt::new("autoremove", Kind::Bool, "Remove packages that came along and are not needed any more.")
            .default("false"),
        Opt::new("lock_timeout", Kind::Int, "Seconds to wait for another process that holds a lock.").default("60"),
        Opt::new("dpkg_options", Kind::Str, "apt: options for dpkg.").default("\"force-confdef,force-confold\""),
        Opt::new("allow_downgrade", Kind::Bool, "Install older versions over newer ones.").default("false"),
        Opt::new("allow_unauthenticated", Kind::Bool, "apt: accept packages that are not signed.").default("false"),
        Opt::new("allow_change_held_packages", Kind::Bool, "apt: change packages that are on hold.").default("false"),
        Opt::new("force_apt_get", Kind::Bool, "Accepted for old playbooks.").default("false"),
        Opt::new("enablerepo", Kind::List(&Kind::Str), "dnf: repositories to use too.").default("[]"),
        Opt::new("disablerepo", Kind::List(&Kind::Str), "dnf: repositories not to use.").default("[]"),
        Opt::new("disable_gpg_check", Kind::Bool, "dnf: accept packages that are not signed.").default("false"),
    ],
    examples: "- name: Install packages\n  ansible.builtin.package:\n    name: [socat, conntrack]\n    state: present\n",
    returns: &[Return {
        name: "results",
        kind: "list",
        when: "other than apt",
        doc: "What was (or would be) done to which package.",
    }],
    ..Spec::EMPTY
};

impl Module for Package {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let wanted = args.str("use").unwrap_or("auto").trim_start_matches("ansible.builtin.");
        let root = Root::host();
        let found = if matches!(wanted, "auto" | "") { package_manager_of(&root, &os_family(&root)) } else { wanted };
        if found == "apt" {
            return apt::plan(args, host);
        }
        if matches!(found, "dnf" | "dnf4" | "dnf5" | "yum" | "yum4") {
            return dnf::plan(args, found, host);
        }
        let manager = MANAGERS.iter().find(|manager| manager.name == found).ok_or_else(|| {
            Failure::new(format!(
                "Could not find a matching action for the \"{found}\" package manager. Known are apt, dnf, dnf5, yum, zypper, apk and pacman."
            ))
        })?;
        other(manager, args, host)
    }
}

/// How a package manager is spoken to.
struct Manager {
    name: &'static str,
    /// Asks whether a package is installed.
    query: &'static [&'static str],
    install: &'static [&'static str],
    upgrade: &'static [&'static str],
    remove: &'static [&'static str],
    update: &'static [&'static str],
}

const RPM_QUERY: &[&str] = &["rpm", "-q", "--whatprovides"];

static MANAGERS: &[Manager] = &[
    Manager {
        name: "zypper",
        query: RPM_QUERY,
        install: &["zypper", "--non-interactive", "install", "--auto-agree-with-licenses"],
        upgrade: &["zypper", "--non-interactive", "install", "--auto-agree-with-licenses"],
        remove: &["zypper", "--non-interactive", "remove"],
        update: &["zypper", "--non-interactive", "refresh"],
    },
    Manager {
        name: "apk",
        query: &["apk", "info", "-e"],
        install: &["apk", "add"],
        upgrade: &["apk", "add", "--upgrade"],
        remove: &["apk", "del"],
        update: &["apk", "update"],
    },
    Manager {
        name: "pacman",
        query: &["pacman", "-Q"],
        install: &["pacman", "--noconfirm", "--needed", "-S"],
        upgrade: &["pacman", "--noconfirm", "--needed", "-S"],
        remove: &["pacman", "--noconfirm", "-Rs"],
        update: &["pacman", "--noconfirm", "-Sy"],
    },
];

fn command(words: &[&str]) -> Command {
    let (program, rest) = words.split_first().map_or(("", &[][..]), |(program, rest)| (*program, rest));
    Command::new(program).plain_locale().args(rest.iter().copied())
}

fn other(manager: &'static Manager, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let state = args.str("state").unwrap_or("present");
    let removal = matches!(state, "absent" | "removed");
    let latest = state == "latest";
    let update = args.bool("update_cache");
    let names: Vec<String> = args.list("name").into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let mut touched = Vec::new();
    for name in &names {
        let bare = name.split(['=', '<', '>']).next().unwrap_or(name).trim();
        let installed = command(manager.query).arg(bare).run(host)?.success();
        if installed == removal || (latest && !removal) {
            touched.push(name.clone());
        }
    }
    if touched.is_empty() && !(update && names.is_empty()) {
        return Ok(Plan::unchanged().with("results", Vec::<String>::new()));
    }
    let verb = if removal { "Removed" } else { "Installed" };
    let results: Vec<String> = touched.iter().map(|name| format!("{verb}: {name}")).collect();
    let apply = move |host: &Host, outcome: &mut Outcome| {
        if update {
            command(manager.update).live().check_run(host)?;
        }
        if touched.is_empty() {
            return Ok(());
        }
        let words = if removal {
            manager.remove
        } else if latest {
            manager.upgrade
        } else {
            manager.install
        };
        let output = command(words).args(touched.clone()).live().check_run(host)?;
        if latest {
            outcome.changed = !says_nothing_to_do(&output);
        }
        outcome.set("stdout", output.stdout_text());
        outcome.set("rc", output.rc);
        Ok(())
    };
    Ok(Plan::change(apply).with("results", results))
}

fn says_nothing_to_do(output: &process::Output) -> bool {
    let text = output.stdout_text();
    let lower = text.to_lowercase();
    let only_ok = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .all(|line| line.starts_with("OK:") || line.starts_with("fetch "));
    lower.contains("nothing to do") || lower.contains("there is nothing to do") || only_ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_say_when_there_was_nothing_to_do() {
        let output = |text: &str| process::Output {
            rc: 0,
            stdout: text.as_bytes().to_vec(),
            stderr: Vec::new(),
            overlong: None,
        };
        assert!(says_nothing_to_do(&output(
            "Last metadata expiration check\nDependencies resolved.\nNothing to do.\nComplete!\n"
        )));
        assert!(says_nothing_to_do(&output("OK: 12 MiB in 20 packages\n")));
        assert!(!says_nothing_to_do(&output("(1/1) Installing socat (1.7)\nOK: 12 MiB in 20 packages\n")));
    }
}
