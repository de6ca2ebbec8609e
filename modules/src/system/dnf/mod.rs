//! `dnf`: packages of RPM systems, by dnf 4, dnf 5 or yum.
//!
//! What is to be done is asked of dnf itself, with `--assumeno`: the transaction it shows is what check mode predicts and the result lists.

mod list;
mod manager;
mod refusal;
mod steps;
mod transaction;

use manager::Manager;
use steps::Steps;

use crate::{Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec};

/// The `dnf` module.
pub struct Dnf;

static SPEC: Spec = Spec {
    name: "dnf",
    aliases: &["dnf5", "yum"],
    summary: "Manage packages with dnf",
    description: &["Installs, upgrades and removes packages and groups, and lists them."],
    options: &[
        Opt::new("name", Kind::List(&Kind::Str), "Packages: names, with versions (`nginx-1.20`, `nginx >= 1.20`), with wildcards, files, URLs, groups (`@web`).").address().word()
            .aliases(&["pkg"])
            .default("[]"),
        Opt::new("state", Kind::Str, "`installed` and `removed` mean `present` and `absent`; without it `present`, or `absent` if `autoremove` is set.")
            .choices(&["absent", "installed", "latest", "present", "removed"]),
        Opt::new("list", Kind::Str, "Only tell: `installed`, `available`, `updates`, `repos`, or a package."),
        Opt::new("update_cache", Kind::Bool, "Read the repositories anew first.").aliases(&["expire-cache"]).default("false"),
        Opt::new("update_only", Kind::Bool, "With `latest`: install nothing that is not installed.").default("false"),
        Opt::new("autoremove", Kind::Bool, "Remove what came along and is not needed any more.").default("false"),
        Opt::new("allow_downgrade", Kind::Bool, "Install older versions over newer ones.").default("false"),
        Opt::new("allowerasing", Kind::Bool, "Remove what stands in the way.").default("false"),
        Opt::new("best", Kind::Bool, "Fail rather than install another version than the newest."),
        Opt::new("nobest", Kind::Bool, "The opposite of `best`."),
        Opt::new("bugfix", Kind::Bool, "With `latest`: only what fixes bugs.").default("false"),
        Opt::new("security", Kind::Bool, "With `latest`: only what closes security holes.").default("false"),
        Opt::new("cacheonly", Kind::Bool, "Use nothing but what has been fetched already.").default("false"),
        Opt::new("conf_file", Kind::Str, "Another configuration file."),
        Opt::new("disable_excludes", Kind::Str, "Ignore exclusions of `all`, `main` or a repository."),
        Opt::new("disable_gpg_check", Kind::Bool, "Accept packages that are not signed.").default("false"),
        Opt::new("disable_plugin", Kind::List(&Kind::Str), "Plugins to switch off.").default("[]"),
        Opt::new("enable_plugin", Kind::List(&Kind::Str), "Plugins to switch on.").default("[]"),
        Opt::new("disablerepo", Kind::List(&Kind::Str), "Repositories not to use.").default("[]"),
        Opt::new("enablerepo", Kind::List(&Kind::Str), "Repositories to use too.").default("[]"),
        Opt::new("exclude", Kind::List(&Kind::Str), "Packages to leave alone.").default("[]"),
        Opt::new("download_only", Kind::Bool, "Fetch packages and install none.").default("false"),
        Opt::new("download_dir", Kind::Str, "Where to, with `download_only`."),
        Opt::new("install_repoquery", Kind::Bool, "Accepted for old playbooks.").default("true"),
        Opt::new("install_weak_deps", Kind::Bool, "Whether recommended packages come along.").default("true"),
        Opt::new("installroot", Kind::Str, "The tree to install into.").default("\"/\""),
        Opt::new("lock_timeout", Kind::Int, "Accepted; dnf waits for its lock by itself.").default("30"),
        Opt::new("releasever", Kind::Str, "The release to take packages of."),
        Opt::new("skip_broken", Kind::Bool, "Leave out what cannot be installed.").default("false"),
        Opt::new("sslverify", Kind::Bool, "Whether servers of repositories have to prove who they are.").default("true"),
        Opt::new("validate_certs", Kind::Bool, "The same for packages named by URLs.").default("true"),
        Opt::new("use_backend", Kind::Str, "Which program, if it is not to be found out.")
            .choices(&["auto", "dnf", "yum", "yum4", "dnf4", "dnf5"])
            .default("\"auto\""),
    ],
    mutually_exclusive: &[&["name", "list"], &["autoremove", "list"], &["best", "nobest"]],
    required_one_of: &[&["name", "list", "update_cache", "autoremove"]],
    examples: "- name: Install packages\n  ansible.builtin.dnf:\n    name: [socat, nginx]\n    state: present\n",
    returns: &[
        Return { name: "results", kind: "list", when: "always", doc: "What was (or would be) done to which package, or the packages listed." },
        Return { name: "rc", kind: "int", when: "always", doc: "0, or 1 after a failure." },
        Return { name: "msg", kind: "str", when: "always", doc: "What is to be said." },
    ],
    ..Spec::EMPTY
};

impl Module for Dnf {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan(args, args.str("use_backend").unwrap_or("auto"), host)
    }
}

/// The plan for the options of `dnf`, or of `package`.
pub(super) fn plan(args: &Args, backend: &str, host: &Host) -> Result<Plan, Failure> {
    let manager = Manager::of(args, backend, host)?;
    if let Some(what) = args.str("list") {
        return list::plan(&manager, what, host);
    }
    // A list in one text is a list all the same.
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
    let apply = move |host: &Host, _: &mut Outcome| {
        steps.commands.iter().try_for_each(|(words, transaction)| {
            let output = manager.command(&options).args(words).live().run(host)?;
            if output.success() { Ok(()) } else { Err(refusal::of(&output, words, Some(transaction))) }
        })
    };
    Ok(Plan::change(apply).with("msg", message).with("rc", 0).with("results", results))
}

/// Reading the repositories anew is no change.
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
