//! `apt`: packages of Debian and its derivatives.

use std::time::Duration;

use super::{dpkg::Database, fetched::Fetched, lock};
use crate::{Args, Diff, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec, files::scratch::Scratch};

mod cache;
mod mark;
mod policy;
mod request;
mod run;
mod settings;

pub(crate) use cache::Cache;
use request::Wish;
use settings::Settings;

/// The `apt` module.
pub struct Apt;

static SPEC: Spec = Spec {
    name: "apt",
    summary: "Manage packages with apt",
    description: &[
        "Reads dpkg's database first. If the packages already match, apt is not started.",
        "Waits for a lock that another process holds (such as unattended-upgrades) and names the holder. Completes \
         an interrupted installation with `dpkg --configure -a` before other changes.",
    ],
    options: &[
        Opt::new(
            "package",
            Kind::List(&Kind::Str),
            "Names of packages. `name=version` (also `1.2*`) requests a version, `name*` all matching packages.",
        )
        .word()
        .aliases(&["name", "pkg"])
        .default("[]"),
        Opt::new(
            "state",
            Kind::Str,
            "`present` installs, `latest` also upgrades, `absent` removes, `build-dep` installs build dependencies, \
             `fixed` repairs broken dependencies.",
        )
        .default("\"present\"")
        .choices(&["absent", "build-dep", "fixed", "latest", "present"]),
        Opt::new("update_cache", Kind::Bool, "Update the package lists first.").aliases(&["update-cache"]),
        Opt::new(
            "cache_valid_time",
            Kind::Int,
            "Update only lists older than this many seconds; implies `update_cache`.",
        )
        .default("0"),
        Opt::new("update_cache_retries", Kind::Int, "Number of attempts to update the lists.").default("5"),
        Opt::new("update_cache_retry_max_delay", Kind::Int, "Longest pause between two attempts, in seconds.")
            .default("12"),
        Opt::new("deb", Kind::Str, "Package file on the host, or its URL, downloaded like `get_url`.").address().word(),
        Opt::new(
            "upgrade",
            Kind::Str,
            "Upgrade all packages: `yes` and `safe` keep installed packages, `dist` (`full`) may remove some.",
        )
        .default("\"no\"")
        .choices(&["dist", "full", "no", "safe", "yes"]),
        Opt::new("purge", Kind::Bool, "Remove configuration files too.").default("false"),
        Opt::new("autoremove", Kind::Bool, "Remove dependencies that are no longer needed.").default("false"),
        Opt::new("autoclean", Kind::Bool, "Delete downloaded package files that are no longer available.")
            .default("false"),
        Opt::new("clean", Kind::Bool, "Delete all downloaded package files.").default("false"),
        Opt::new("default_release", Kind::Str, "Release to install packages from.").aliases(&["default-release"]),
        Opt::new("install_recommends", Kind::Bool, "Install recommended packages too. Default: apt's own setting.")
            .aliases(&["install-recommends"]),
        Opt::new("only_upgrade", Kind::Bool, "Upgrade installed packages only; install no new ones.").default("false"),
        Opt::new("force", Kind::Bool, "Override apt's safety checks (dangerous).").default("false"),
        Opt::new("allow_unauthenticated", Kind::Bool, "Accept unsigned packages.")
            .aliases(&["allow-unauthenticated"])
            .default("false"),
        Opt::new("allow_downgrade", Kind::Bool, "Allow replacing a version with an older one.")
            .aliases(&["allow-downgrade", "allow_downgrades", "allow-downgrades"])
            .default("false"),
        Opt::new("allow_change_held_packages", Kind::Bool, "Change packages that are on hold.").default("false"),
        Opt::new("dpkg_options", Kind::Str, "Options for dpkg, separated by commas.")
            .default("\"force-confdef,force-confold\""),
        Opt::new("fail_on_autoremove", Kind::Bool, "Fail if apt would remove a package to satisfy the request.")
            .default("false"),
        Opt::new("force_apt_get", Kind::Bool, "No effect, because apt-get is always used; accepted for compatibility.")
            .default("false"),
        Opt::new(
            "policy_rc_d",
            Kind::Int,
            "Exit status of /usr/sbin/policy-rc.d during the task; 101 keeps packages from starting services.",
        ),
        Opt::new("lock_timeout", Kind::Int, "Seconds to wait for another process that holds the lock.").default("60"),
        Opt::new(
            "auto_install_module_deps",
            Kind::Bool,
            "No effect, because the module needs nothing on the host; accepted for compatibility.",
        )
        .default("true"),
    ],
    mutually_exclusive: &[&["deb", "package", "upgrade"]],
    required_one_of: &[&["autoremove", "deb", "package", "update_cache", "upgrade"]],
    examples: "- name: Install packages\n  ansible.builtin.apt:\n    name: [curl, socat=1.7*]\n    update_cache: true\n    cache_valid_time: 3600\n",
    returns: &[
        Return { name: "cache_updated", kind: "bool", when: "always", doc: "Whether the package lists were updated." },
        Return {
            name: "cache_update_time",
            kind: "int",
            when: "always",
            doc: "Time of the last update, in seconds since the epoch.",
        },
        Return { name: "stdout", kind: "str", when: "apt ran", doc: "Standard output of apt-get." },
        Return { name: "stderr", kind: "str", when: "apt ran", doc: "Standard error of apt-get." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Apt {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        plan(args, host)
    }
}

/// The work of a task, apart from the package lists.
#[derive(Debug, Clone)]
enum Work {
    Packages { wishes: Vec<Wish>, latest: bool },
    Removal { names: Vec<String> },
    BuildDependencies { names: Vec<String> },
    File { path: String },
    Upgrade { whole: bool },
    Repair,
    Autoremove,
    Autoclean,
    Clean,
    Nothing,
}

impl Work {
    /// The requested packages that apt would autoremove once nothing needs them.
    fn came_by_themselves(&self) -> Vec<String> {
        match self {
            Work::Packages { wishes, .. } => mark::came_by_themselves(wishes),
            _ => Vec::new(),
        }
    }
}

/// The plan of a task.
fn plan(args: &Args, host: &Host) -> Result<Plan, Failure> {
    let settings = Settings::of(args)?;
    let cache = Cache::of(args);
    let mut work = work_of(args)?;
    let mut fetched = None;
    if let Work::File { path } = &mut work
        && path.contains("://")
    {
        let package = Fetched::of(path, ".deb", Scratch::new()?, args, host)?;
        path.clone_from(&package.path);
        fetched = Some(package);
    }
    let refresh = cache.wanted().then_some(cache);
    let updated = cache::updated_at();
    let timeout = args.seconds("lock_timeout", 60);
    let commands = decide(&work, &settings, host)?;
    let only_lists = matches!(work, Work::Nothing);
    // Results of removals, files and upgrades have no keys for the lists.
    let tells_lists =
        matches!(work, Work::Packages { .. } | Work::BuildDependencies { .. } | Work::Repair | Work::Nothing);
    let marked = !host.check() && !work.came_by_themselves().is_empty();
    if commands.is_empty() && refresh.is_none() && !marked {
        return Ok(match work {
            _ if tells_lists => Plan::unchanged().with("cache_updated", false).with("cache_update_time", updated),
            Work::File { .. } => Plan::unchanged().with("stdout", "").with("stderr", ""),
            _ => Plan::unchanged(),
        });
    }
    let mut prediction = None;
    if host.check() && !commands.is_empty() {
        prediction = Some(run::simulate(&commands, &settings, refresh.is_some(), host)?);
    }
    let changed = only_lists || !commands.is_empty();
    let refreshes = refresh.is_some();
    let apply = move |host: &Host, outcome: &mut Outcome| {
        lock::wait(lock::APT, timeout, "Failed to lock apt for exclusive operation", host)?;
        let mut commands = commands;
        let mut renewed = false;
        if let Some(cache) = &refresh {
            cache.refresh(host)?;
            // If the mirror has no newer lists, the old ones keep their time.
            let now = cache::updated_at();
            renewed = now != updated;
            if tells_lists {
                outcome.set("cache_updated", renewed);
                outcome.set("cache_update_time", now);
            }
            // New lists may offer newer versions.
            commands = decide(&work, &settings, host)?;
        }
        outcome.changed = (only_lists && renewed) || !commands.is_empty();
        if !commands.is_empty() {
            carry_out(&commands, &work, &settings, timeout, outcome, host)?;
        }
        drop(fetched);
        mark::take_off(&work.came_by_themselves(), host)
    };
    let mut plan = Plan::change(apply);
    if tells_lists {
        plan = plan.with("cache_updated", refreshes).with("cache_update_time", updated);
    }
    plan.outcome.changed = changed;
    if let Some(prediction) = prediction {
        plan.outcome.changed = changed && prediction.changes;
        if host.diff() {
            plan = plan.with_diff(Diff { prepared: Some(run::announced(&prediction.stdout)), ..Diff::default() });
        }
        if let Some(warning) = prediction.warning {
            plan = plan.with_warning(warning);
        }
        plan = plan.with("stdout", prediction.stdout).with("stderr", prediction.stderr);
    }
    Ok(plan)
}

/// Runs the commands and records their output.
fn carry_out(
    commands: &[Vec<String>],
    work: &Work,
    settings: &Settings,
    lock: Duration,
    outcome: &mut Outcome,
    host: &Host,
) -> Result<(), Failure> {
    run::repair(settings, host)?;
    let _policy = policy::Policy::set(settings.policy)?;
    let (mut stdout, mut stderr) = (String::new(), String::new());
    for command in commands {
        let output = run::apt_get(command, settings, lock, host)?;
        stdout.push_str(&output.stdout_text());
        stderr.push_str(&output.stderr_text());
    }
    if host.diff() {
        outcome.diff.push(Diff { prepared: Some(run::announced(&stdout)), ..Diff::default() });
    }
    if matches!(work, Work::Autoremove | Work::Autoclean | Work::Repair | Work::Upgrade { .. }) {
        outcome.changed = run::did_something(&stdout);
    }
    outcome.set("stdout", stdout);
    outcome.set("stderr", stderr);
    Ok(())
}

fn work_of(args: &Args) -> Result<Work, Failure> {
    let names: Vec<String> = args
        .list("package")
        .into_iter()
        .chain(args.list("name"))
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    let state = args.str("state").unwrap_or("present");
    let upgrade = args.str("upgrade").unwrap_or("no");
    if let Some(path) = args.str("deb") {
        if state != "present" {
            return Err(Failure::new("deb only supports state=present"));
        }
        return Ok(Work::File { path: path.to_owned() });
    }
    if names == ["*"] && state == "latest" {
        return Ok(Work::Upgrade { whole: false });
    }
    match upgrade {
        "dist" | "full" => return Ok(Work::Upgrade { whole: true }),
        "safe" | "yes" => return Ok(Work::Upgrade { whole: false }),
        _ => {}
    }
    match state {
        "fixed" => return Ok(Work::Repair),
        "build-dep" if !names.is_empty() => return Ok(Work::BuildDependencies { names }),
        "absent" if !names.is_empty() => return Ok(Work::Removal { names }),
        "present" | "latest" if !names.is_empty() => {
            let wishes: Vec<Wish> = names.iter().map(|name| Wish::parse(name)).collect::<Result<_, _>>()?;
            if let Some(wish) = wishes.iter().find(|wish| state == "latest" && wish.version.is_some()) {
                return Err(Failure::new(format!("version number inconsistent with state=latest: {}", wish.written)));
            }
            return Ok(Work::Packages { wishes, latest: state == "latest" });
        }
        _ => {}
    }
    Ok(if args.bool("clean") {
        Work::Clean
    } else if args.bool("autoclean") {
        Work::Autoclean
    } else if args.bool("autoremove") {
        Work::Autoremove
    } else {
        Work::Nothing
    })
}

/// The apt-get commands that are needed; empty if everything matches. Reads only.
fn decide(work: &Work, settings: &Settings, host: &Host) -> Result<Vec<Vec<String>>, Failure> {
    let one = |verb: &str, names: Vec<String>| {
        if names.is_empty() {
            return Vec::new();
        }
        let mut words = vec![verb.to_owned()];
        words.extend(names);
        vec![words]
    };
    let database = Database::of_host();
    Ok(match work {
        Work::Nothing => Vec::new(),
        Work::Clean => vec![vec!["clean".to_owned()]],
        Work::Autoclean => simulated(&["autoclean"], settings, host)?,
        Work::Autoremove => simulated(&["autoremove"], settings, host)?,
        Work::Repair => simulated(&["--fix-broken", "install"], settings, host)?,
        Work::Upgrade { whole: true } => simulated(&["dist-upgrade"], settings, host)?,
        Work::Upgrade { whole: false } => simulated(&["upgrade", "--with-new-pkgs"], settings, host)?,
        Work::BuildDependencies { names } => {
            let mut words = vec!["build-dep"];
            words.extend(names.iter().map(String::as_str));
            simulated(&words, settings, host)?
        }
        Work::Removal { names } => one("remove", request::to_remove(names, &database, settings.purge)),
        Work::Packages { wishes, latest } => {
            one("install", request::to_install(wishes, *latest, settings, &database, host)?)
        }
        Work::File { path } => one("install", request::file_to_install(path, settings, &database, host)?),
    })
}

/// A command that decides itself what to do, if a simulation shows any work.
fn simulated(words: &[&str], settings: &Settings, host: &Host) -> Result<Vec<Vec<String>>, Failure> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let prediction = run::simulate(std::slice::from_ref(&words), settings, false, host)?;
    Ok(if prediction.changes { vec![words] } else { Vec::new() })
}
