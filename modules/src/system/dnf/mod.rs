//! `dnf`: packages of RPM systems, through dnf 4, dnf 5 or yum.
//!
//! dnf itself plans each transaction with `--assumeno`. Check mode and the result list the transaction it shows.

mod list;
mod manager;
mod refusal;
mod steps;
mod transaction;

use manager::Manager;
use steps::Steps;

use super::lock;
use crate::{Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec};

/// The `dnf` module.
pub struct Dnf;

static SPEC: Spec = Spec {
    name: "dnf",
    aliases: &["dnf5", "yum"],
    summary: "Manage packages with dnf",
    description: &[
        "Installs, upgrades, removes and lists packages and groups. Downloads `http` and `https` URLs like `get_url`.",
    ],
    options: &[
        Opt::new(
            "name",
            Kind::List(&Kind::Str),
            "Packages: names, versions (`nginx-1.20`, `nginx >= 1.20`), wildcards, files, URLs, groups (`@web`).",
        )
        .address()
        .word()
        .aliases(&["pkg"])
        .default("[]"),
        Opt::new(
            "state",
            Kind::Str,
            "`present` and `installed` install, `latest` also upgrades, `absent` and `removed` remove. Default: \
             `present`, or `absent` with `autoremove`.",
        )
        .choices(&["absent", "installed", "latest", "present", "removed"]),
        Opt::new("list", Kind::Str, "Only list packages: `installed`, `available`, `updates`, `repos`, or a name."),
        Opt::new("update_cache", Kind::Bool, "Refresh the repository metadata first.")
            .aliases(&["expire-cache"])
            .default("false"),
        Opt::new("update_only", Kind::Bool, "With `latest`: upgrade installed packages only.").default("false"),
        Opt::new("autoremove", Kind::Bool, "Remove dependencies that are no longer needed.").default("false"),
        Opt::new("allow_downgrade", Kind::Bool, "Allow replacing a version with an older one.").default("false"),
        Opt::new("allowerasing", Kind::Bool, "Allow removing packages that conflict.").default("false"),
        Opt::new("best", Kind::Bool, "Fail if the newest version cannot be installed."),
        Opt::new("nobest", Kind::Bool, "Opposite of `best`."),
        Opt::new("bugfix", Kind::Bool, "With `latest`: apply only bug fixes.").default("false"),
        Opt::new("security", Kind::Bool, "With `latest`: apply only security updates.").default("false"),
        Opt::new("cacheonly", Kind::Bool, "Use only cached metadata and packages.").default("false"),
        Opt::new("conf_file", Kind::Str, "Path of an alternative configuration file."),
        Opt::new("disable_excludes", Kind::Str, "Ignore the exclusions of `all`, `main` or a repository."),
        Opt::new("disable_gpg_check", Kind::Bool, "Accept unsigned packages.").default("false"),
        Opt::new("disable_plugin", Kind::List(&Kind::Str), "Plugins to disable.").default("[]"),
        Opt::new("enable_plugin", Kind::List(&Kind::Str), "Plugins to enable.").default("[]"),
        Opt::new("disablerepo", Kind::List(&Kind::Str), "Repositories to disable.").default("[]"),
        Opt::new("enablerepo", Kind::List(&Kind::Str), "Additional repositories to enable.").default("[]"),
        Opt::new("exclude", Kind::List(&Kind::Str), "Packages to exclude.").default("[]"),
        Opt::new("download_only", Kind::Bool, "Download packages without installing them.").default("false"),
        Opt::new("download_dir", Kind::Str, "With `download_only`: directory to download to."),
        Opt::new("install_repoquery", Kind::Bool, "No effect; accepted for compatibility.").default("true"),
        Opt::new("install_weak_deps", Kind::Bool, "Install recommended packages too.").default("true"),
        Opt::new("installroot", Kind::Str, "Root directory to install into.").default("\"/\""),
        Opt::new("lock_timeout", Kind::Int, "Seconds to wait for another process that holds a lock of dnf or rpm.")
            .default("30"),
        Opt::new("releasever", Kind::Str, "Release to install packages from."),
        Opt::new("skip_broken", Kind::Bool, "Skip packages that cannot be installed.").default("false"),
        Opt::new("sslverify", Kind::Bool, "Verify the certificates of repository servers.").default("true"),
        Opt::new("validate_certs", Kind::Bool, "Verify the certificates of servers of packages given as URLs.")
            .default("true"),
        Opt::new("use_backend", Kind::Str, "Program to use. Default: detected.")
            .choices(&["auto", "dnf", "yum", "yum4", "dnf4", "dnf5"])
            .default("\"auto\""),
    ],
    mutually_exclusive: &[&["name", "list"], &["autoremove", "list"], &["best", "nobest"]],
    required_one_of: &[&["name", "list", "update_cache", "autoremove"]],
    examples: "- name: Install packages\n  ansible.builtin.dnf:\n    name: [socat, nginx]\n    state: present\n",
    returns: &[
        Return {
            name: "results",
            kind: "list",
            when: "always",
            doc: "Action that was (or would be) taken for each package, or the listed packages.",
        },
        Return { name: "rc", kind: "int", when: "always", doc: "0, or 1 after a failure." },
        Return { name: "msg", kind: "str", when: "always", doc: "Message about the outcome." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Dnf {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan(args, args.str("use_backend").unwrap_or("auto"), host)
    }
}

/// The plan of a task, with the chosen program.
fn plan(args: &Args, backend: &str, host: &Host) -> Result<Plan, Failure> {
    let manager = Manager::of(args, backend, host)?;
    if let Some(what) = args.str("list") {
        return list::plan(&manager, what, host);
    }
    if manager.root == "/" {
        lock::wait(lock::DNF, args.seconds("lock_timeout", 30), "dnf lockfile is held by another process", host)?;
    }
    // Accepts a list written as one text.
    let names: Vec<String> = args
        .list("name")
        .into_iter()
        .flat_map(|name| name.split(','))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    if names.is_empty() && args.bool("update_cache") {
        return Ok(cache_update(manager));
    }
    let steps = Steps::of(&manager, &names, args, host)?;
    let results = steps.results(&manager, args.bool("download_only"), host)?;
    if steps.commands.is_empty() {
        return Ok(Plan::unchanged().with("msg", "Nothing to do").with("rc", 0).with("results", results));
    }
    let message = if host.check() { "Check mode: No changes made, but would have if not in check mode" } else { "" };
    let mut options = vec!["-y".to_owned()];
    if args.bool("download_only") {
        options.push("--downloadonly".to_owned());
        options.extend(args.str("download_dir").map(|directory| format!("--destdir={directory}")));
    }
    let Steps { commands, fetched, .. } = steps;
    let apply = move |host: &Host, _: &mut Outcome| {
        commands.iter().try_for_each(|(words, transaction)| {
            let output = manager.command(&options).args(words).live().run(host)?;
            if output.success() { Ok(()) } else { Err(refusal::of(&output, words, Some(transaction))) }
        })?;
        drop(fetched);
        Ok(())
    };
    Ok(Plan::change(apply).with("msg", message).with("rc", 0).with("results", results))
}

/// A plan that refreshes the metadata, which does not count as a change.
fn cache_update(manager: Manager) -> Plan {
    let mut plan = Plan::change(move |host, outcome| {
        outcome.changed = false;
        let words = ["makecache".to_owned()];
        let output = manager.command(&words).run(host)?;
        if output.success() { Ok(()) } else { Err(refusal::of(&output, &words, None)) }
    });
    plan.outcome.changed = false;
    plan.with("msg", "Cache updated").with("rc", 0).with("results", Vec::<String>::new())
}
