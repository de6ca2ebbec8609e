//! `dnf`: packages of RPM systems, by dnf 4, dnf 5 or yum.
//!
//! What is to be done is asked of dnf itself, with `--assumeno`: the transaction it shows is what check mode predicts and the result lists.

mod transaction;

use transaction::{Action, Transaction};

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    process::{self, Command, Output},
};

/// The `dnf` module.
pub struct Dnf;

static SPEC: Spec = Spec {
    name: "dnf",
    aliases: &["dnf5", "yum"],
    summary: "Manage packages with dnf",
    description: &["Installs, upgrades and removes packages and groups, and lists them."],
    options: &[
        Opt::new("name", Kind::List(&Kind::Str), "Packages: names, with versions (`nginx-1.20`, `nginx >= 1.20`), with wildcards, files, URLs, groups (`@web`).")
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

/// The program and what every call of it gets.
#[derive(Debug, Clone)]
struct Manager {
    program: String,
    options: Vec<String>,
    root: String,
}

impl Manager {
    fn of(args: &Args, backend: &str, host: &Host) -> Result<Manager, Failure> {
        let candidates: &[&str] = match backend {
            "dnf5" => &["dnf5"],
            "dnf4" | "yum4" => &["dnf-3", "dnf4", "dnf"],
            "yum" => &["yum", "dnf"],
            _ => &["dnf", "dnf5", "yum"],
        };
        let Some(program) = candidates.iter().find(|program| process::find(host, program).is_some()) else {
            return Err(Failure::new(format!(
                "This host has no {}, so its packages cannot be managed with it.",
                candidates.join(", no ")
            )));
        };
        let mut options = Vec::new();
        let mut add = |wanted: bool, option: &str| {
            if wanted {
                options.push(option.to_owned());
            }
        };
        add(args.bool("disable_gpg_check"), "--nogpgcheck");
        add(args.bool("allowerasing"), "--allowerasing");
        add(args.maybe_bool("best") == Some(true) || args.maybe_bool("nobest") == Some(false), "--best");
        add(args.maybe_bool("best") == Some(false) || args.maybe_bool("nobest") == Some(true), "--nobest");
        add(args.bool("cacheonly"), "--cacheonly");
        add(args.bool("skip_broken"), "--skip-broken");
        add(args.bool("update_cache"), "--refresh");
        add(
            args.maybe_bool("sslverify") == Some(false) || args.maybe_bool("validate_certs") == Some(false),
            "--setopt=sslverify=0",
        );
        add(args.maybe_bool("install_weak_deps") == Some(false), "--setopt=install_weak_deps=0");
        add(!args.bool("autoremove"), "--setopt=clean_requirements_on_remove=0");
        for (name, option) in [
            ("disablerepo", "--disablerepo"),
            ("enablerepo", "--enablerepo"),
            ("exclude", "--exclude"),
            ("disable_plugin", "--disableplugin"),
            ("enable_plugin", "--enableplugin"),
        ] {
            options.extend(args.list(name).into_iter().map(|value| format!("{option}={value}")));
        }
        for (name, option) in
            [("conf_file", "--config"), ("disable_excludes", "--disableexcludes"), ("releasever", "--releasever")]
        {
            options.extend(args.str(name).filter(|value| !value.is_empty()).map(|value| format!("{option}={value}")));
        }
        let root = args.str("installroot").unwrap_or("/").to_owned();
        if root != "/" {
            options.push(format!("--installroot={root}"));
        }
        Ok(Manager { program: (*program).to_owned(), options, root })
    }

    fn run(&self, words: &[String], host: &Host) -> Result<Output, Failure> {
        Command::new(&self.program).plain_locale().args(self.options.clone()).args(words.iter().cloned()).run(host)
    }

    /// What rpm answers about packages, a line for each; nothing if there are none.
    fn query(&self, words: &[&str], host: &Host) -> Result<Vec<String>, Failure> {
        let output = Command::new("rpm")
            .plain_locale()
            .args([
                "--root",
                &self.root,
                "-q",
                "--queryformat",
                "%{NAME}-%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}.%{ARCH}\\n",
            ])
            .args(words.iter().copied())
            .run(host)?;
        Ok(if output.success() { output.stdout_text().lines().map(str::to_owned).collect() } else { Vec::new() })
    }

    /// The installed packages that a word of `name` means.
    fn installed(&self, word: &str, host: &Host) -> Result<Vec<String>, Failure> {
        if word.starts_with('@') || word.contains("://") {
            return Ok(Vec::new());
        }
        if word.ends_with(".rpm") {
            let inside = self.query(&["-p", word], host)?;
            return match inside.first() {
                Some(package) => self.query(&[package], host),
                None => Ok(Vec::new()),
            };
        }
        if word.contains(['*', '?', '[']) {
            return self.query(&["-a", word], host);
        }
        let named = self.query(&[word], host)?;
        if named.is_empty() { self.query(&["--whatprovides", word], host) } else { Ok(named) }
    }

    /// What dnf would do; `None` if there is nothing to do.
    fn preview(&self, words: &[String], host: &Host) -> Result<Option<Transaction>, Failure> {
        let mut all = vec!["--assumeno".to_owned()];
        all.extend_from_slice(words);
        let output = self.run(&all, host)?;
        let transaction = Transaction::read(&output.stdout_text());
        if !transaction.is_empty() {
            return Ok(Some(transaction));
        }
        if output.success() { Ok(None) } else { Err(refused(&output)) }
    }
}

/// dnf's refusal as Ansible words it.
fn refused(output: &Output) -> Failure {
    let said = format!("{}\n{}", output.stderr_text(), output.stdout_text());
    let missing: Vec<&str> = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("No match for argument: "))
        .map(|name| name.split(" (").next().unwrap_or(name).trim())
        .collect();
    let failure = if missing.is_empty() {
        let error = output.stderr_text();
        let error = error.trim().trim_start_matches("Error:").trim();
        match error.starts_with("Problem") {
            true => Failure::new(format!("Depsolve Error occurred: \n {error}")).with("failures", Vec::<String>::new()),
            false => Failure::new(error),
        }
    } else {
        let mut failures: Vec<String> = missing.iter().map(|name| format!("No package {name} available.")).collect();
        failures.dedup();
        Failure::new("Failed to install some of the specified packages").with("failures", failures)
    };
    failure.with("rc", 1).with("results", Vec::<String>::new())
}

/// What one call of dnf is to do.
struct Step {
    words: Vec<String>,
    transaction: Transaction,
}

/// The plan for the options of `dnf`, or of `package`.
pub(super) fn plan(args: &Args, backend: &str, host: &Host) -> Result<Plan, Failure> {
    let manager = Manager::of(args, backend, host)?;
    if let Some(what) = args.str("list") {
        return listed(&manager, what, host);
    }
    // A list in one text is a list all the same.
    let names: Vec<String> = args
        .list("name")
        .into_iter()
        .flat_map(|name| name.split(','))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    let autoremove = args.bool("autoremove");
    let usual = if autoremove { "absent" } else { "present" };
    let state = args.str("state").unwrap_or(usual);
    let mut told = Vec::new();
    let steps = match state {
        "absent" | "removed" => removal(&manager, &names, autoremove, &mut told, host)?,
        "latest" => upgrade(&manager, &names, args, host)?,
        _ => installation(&manager, &names, args.bool("allow_downgrade"), host)?,
    };
    if steps.is_empty() {
        let only_caches = names.is_empty() && args.bool("update_cache") && !autoremove;
        let message = if only_caches { "Cache updated" } else { "Nothing to do" };
        let plan = if args.bool("update_cache") && names.is_empty() {
            let plan = Plan::change(move |host, outcome| {
                outcome.changed = false;
                let output = manager.run(&["makecache".to_owned()], host)?;
                if output.success() { Ok(()) } else { Err(refused(&output)) }
            });
            not_changed(plan)
        } else {
            Plan::unchanged()
        };
        return Ok(plan.with("msg", message).with("rc", 0).with("results", told));
    }
    let results = results(&manager, &steps, host)?;
    let fetches = args.bool("download_only");
    told.extend(if fetches { downloaded(results) } else { results });
    let directory = args.str("download_dir").map(str::to_owned);
    let message = if host.check() { "Check mode: No changes made, but would have if not in check mode" } else { "" };
    let apply = move |host: &Host, _: &mut Outcome| {
        for step in steps {
            let mut words = vec!["-y".to_owned()];
            if fetches {
                words.push("--downloadonly".to_owned());
                words.extend(directory.as_ref().map(|directory| format!("--destdir={directory}")));
            }
            words.extend(step.words);
            let command = Command::new(&manager.program).plain_locale().args(manager.options.clone()).args(words);
            let output = command.live().run(host)?;
            if !output.success() {
                return Err(refused(&output).with("stdout", output.stdout_text()));
            }
        }
        Ok(())
    };
    Ok(Plan::change(apply).with("msg", message).with("rc", 0).with("results", told))
}

/// What happens to which package; of one that is replaced also the version that goes.
fn results(manager: &Manager, steps: &[Step], host: &Host) -> Result<Vec<String>, Failure> {
    let mut results = Vec::new();
    for entry in steps.iter().flat_map(|step| step.transaction.entries()) {
        results.push(entry.result());
        if matches!(entry.action, Action::Upgrade | Action::Downgrade) {
            let old = manager.query(&[&entry.name], host)?;
            results.extend(old.iter().map(|package| format!("Removed: {package}")));
        }
    }
    results.sort();
    Ok(results)
}

fn not_changed(mut plan: Plan) -> Plan {
    plan.outcome.changed = false;
    plan
}

fn downloaded(results: Vec<String>) -> Vec<String> {
    results.into_iter().map(|result| result.replacen("Installed:", "Downloaded:", 1)).collect()
}

/// One call, if it would do anything.
fn step(manager: &Manager, verb: &str, names: &[String], host: &Host) -> Result<Option<Step>, Failure> {
    let mut words = vec![verb.to_owned()];
    words.extend_from_slice(names);
    Ok(manager.preview(&words, host)?.map(|transaction| Step { words, transaction }))
}

fn installation(manager: &Manager, names: &[String], downgrade: bool, host: &Host) -> Result<Vec<Step>, Failure> {
    let mut missing = Vec::new();
    for name in names {
        if manager.installed(name, host)?.is_empty() {
            missing.push(name.clone());
        }
    }
    while !missing.is_empty() {
        let Some(found) = step(manager, "install", &missing, host)? else { break };
        let older: Vec<&str> = found
            .transaction
            .entries()
            .filter(|entry| entry.action == Action::Downgrade)
            .map(|entry| entry.name.as_str())
            .collect();
        if downgrade || older.is_empty() {
            return Ok(vec![found]);
        }
        // A newer version than the one that is named is good enough.
        let before = missing.len();
        missing.retain(|word| {
            !older.iter().any(|name| word.strip_prefix(name).is_some_and(|rest| rest.starts_with(['-', ' ', '=', '<'])))
        });
        if missing.len() == before {
            return Err(Failure::new(format!(
                "{} would have to be replaced by an older version, which allow_downgrade: true allows.",
                older.join(", ")
            ))
            .with("rc", 1));
        }
    }
    Ok(Vec::new())
}

fn upgrade(manager: &Manager, names: &[String], args: &Args, host: &Host) -> Result<Vec<Step>, Failure> {
    let mut verb = vec!["upgrade".to_owned()];
    verb.extend(["security", "bugfix"].iter().filter(|kind| args.bool(kind)).map(|kind| format!("--{kind}")));
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    let everything = names.iter().any(|name| name == "*");
    for name in names.iter().filter(|name| *name != "*") {
        let installed = !manager.installed(name, host)?.is_empty();
        if installed { there.push(name.clone()) } else { missing.push(name.clone()) }
    }
    let mut steps = Vec::new();
    if everything || !there.is_empty() {
        let mut words = verb.clone();
        words.extend(if everything { Vec::new() } else { there });
        let transaction = manager.preview(&words, host)?;
        steps.extend(transaction.map(|transaction| Step { words, transaction }));
    }
    if !missing.is_empty() && !args.bool("update_only") {
        steps.extend(step(manager, "install", &missing, host)?);
    }
    Ok(steps)
}

/// What is not there is no failure, and `told`.
fn removal(
    manager: &Manager,
    names: &[String],
    autoremove: bool,
    told: &mut Vec<String>,
    host: &Host,
) -> Result<Vec<Step>, Failure> {
    if names.iter().any(|name| name.contains("://") || name.ends_with(".rpm")) {
        let failure = Failure::new("Cannot remove paths -- please specify package name.");
        return Err(failure.with("results", Vec::<String>::new()));
    }
    let mut there = Vec::new();
    for name in names {
        if name.starts_with('@') || !manager.installed(name, host)?.is_empty() {
            there.push(name.clone());
        } else {
            told.push(format!("No match for argument: {name}"));
        }
    }
    if names.is_empty() && autoremove {
        return Ok(step(manager, "autoremove", &[], host)?.into_iter().collect());
    }
    if there.is_empty() {
        return Ok(Vec::new());
    }
    Ok(step(manager, "remove", &there, host)?.into_iter().collect())
}

/// The packages that `list` asks for.
fn listed(manager: &Manager, what: &str, host: &Host) -> Result<Plan, Failure> {
    const FORMAT: &str = "%{arch}|%{epoch}|%{name}|%{release}|%{reponame}|%{version}";
    let (installed, words): (bool, Vec<&str>) = match what {
        "installed" => (true, Vec::new()),
        "available" => (false, vec!["--available"]),
        "updates" | "upgrades" => (false, vec!["--upgrades"]),
        "repos" | "repositories" => {
            let output = manager.run(&["-q".to_owned(), "repolist".to_owned(), "--enabled".to_owned()], host)?;
            let text = output.stdout_text();
            let results: Vec<_> = text
                .lines()
                .skip(1)
                .filter_map(|line| line.split_whitespace().next())
                .map(|id| serde_json::json!({ "repoid": id, "state": "enabled" }))
                .collect();
            return Ok(Plan::unchanged().with("msg", "").with("results", results));
        }
        name => (true, vec![name]),
    };
    let mut results = Vec::new();
    if installed {
        let mut query = Command::new("rpm").plain_locale().args(["--root", &manager.root, "-q", "--queryformat"]);
        query = query.arg("%{ARCH}|%|EPOCH?{%{EPOCH}}:{0}||%{NAME}|%{RELEASE}|@System|%{VERSION}\n");
        query = if words.is_empty() { query.arg("-a") } else { query.args(words.iter().copied()) };
        let output = query.run(host)?;
        if output.success() {
            results.extend(output.stdout_text().lines().filter_map(|line| shown(line, "installed")));
        }
    }
    if what != "installed" {
        let mut query = vec!["-q".to_owned(), "repoquery".to_owned(), format!("--qf={FORMAT}\n")];
        query.extend(words.iter().map(|word| (*word).to_owned()));
        let output = manager.run(&query, host)?;
        if !output.success() {
            return Err(refused(&output));
        }
        results.extend(output.stdout_text().lines().filter_map(|line| shown(line, "available")));
    }
    Ok(Plan::unchanged().with("msg", "").with("results", results))
}

/// One listed package from its fields.
fn shown(line: &str, state: &str) -> Option<serde_json::Value> {
    let mut fields = line.split('|');
    let (arch, epoch, name) = (fields.next()?, fields.next()?, fields.next()?);
    let (release, repository, version) = (fields.next()?, fields.next()?, fields.next()?);
    Some(serde_json::json!({
        "arch": arch,
        "envra": format!("{epoch}:{name}-{version}-{release}.{arch}"),
        "epoch": epoch,
        "name": name,
        "nevra": format!("{name}-{epoch}:{version}-{release}.{arch}"),
        "release": release,
        "repo": repository,
        "version": version,
        "yumstate": state,
    }))
}
