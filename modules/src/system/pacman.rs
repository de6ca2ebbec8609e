//! `pacman`: packages of Arch Linux.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::lock;
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    process::{Command, Output},
};

/// The `pacman` module.
pub struct Pacman;

static SPEC: Spec = Spec {
    name: "pacman",
    collection: "community.general",
    summary: "Manage packages with pacman",
    description: &["Installs, upgrades and removes packages and groups, also from files and URLs."],
    options: &[
        Opt::new("name", Kind::List(&Kind::Str), "Packages, groups, files or URLs.")
            .address()
            .word()
            .aliases(&["pkg", "package"]),
        Opt::new("state", Kind::Str, "`present` installs missing packages, `latest` also upgrades, `absent` removes.")
            .default("\"present\"")
            .choices(&["present", "installed", "latest", "absent", "removed"]),
        Opt::new(
            "force",
            Kind::Bool,
            "Also remove packages that depend on the removed ones; with `update_cache`, download even current \
             databases.",
        )
        .default("false"),
        Opt::new("remove_nosave", Kind::Bool, "Do not keep copies of changed configuration files.").default("false"),
        Opt::new("executable", Kind::Str, "Program to run, such as yay.").default("\"pacman\""),
        Opt::new("extra_args", Kind::Str, "Additional options for installing and removing.").default("\"\""),
        Opt::new("upgrade", Kind::Bool, "Upgrade the whole system."),
        Opt::new("upgrade_extra_args", Kind::Str, "Additional options for `upgrade`.").default("\"\""),
        Opt::new("update_cache", Kind::Bool, "Update the package databases first."),
        Opt::new("update_cache_extra_args", Kind::Str, "Additional options for `update_cache`.").default("\"\""),
        Opt::new("reason", Kind::Str, "Install reason to record for the packages.")
            .choices(&["explicit", "dependency"]),
        Opt::new(
            "reason_for",
            Kind::Str,
            "`all` records `reason` for installed packages too, `new` only for new ones.",
        )
        .default("\"new\"")
        .choices(&["new", "all"]),
    ],
    required_one_of: &[&["name", "update_cache", "upgrade"]],
    mutually_exclusive: &[&["name", "upgrade"]],
    examples: "- name: A package\n  community.general.pacman:\n    name: nginx\n    update_cache: true\n\n\
               - name: All that is newer\n  community.general.pacman:\n    upgrade: true\n",
    returns: &[
        Return {
            name: "packages",
            kind: "list",
            when: "packages were examined",
            doc: "Packages that were (or would be) installed, upgraded or removed.",
        },
        Return {
            name: "cache_updated",
            kind: "bool",
            when: "update_cache is true",
            doc: "Whether the databases changed.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Pacman {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let args = args.clone();
        Plan::steps(host, move |host, outcome| run(&args, host, outcome))
    }
}

/// The program and its output so far.
struct Task<'a> {
    args: &'a Args,
    host: &'a Host,
    messages: Vec<String>,
    stdout: Vec<String>,
    stderr: Vec<String>,
}

/// A requested package.
#[derive(Clone)]
struct Package {
    name: String,
    /// The argument for pacman.
    source: String,
    /// The source is a file or URL, which only pacman can inspect.
    is_file: bool,
}

/// Installed and available packages.
struct Inventory {
    installed: BTreeMap<String, String>,
    available: BTreeSet<String>,
    groups: BTreeMap<String, BTreeSet<String>>,
    /// Name, current and new version, in pacman's order.
    upgradable: Vec<(String, String, String)>,
    reasons: BTreeMap<String, &'static str>,
}

fn run(args: &Args, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
    let mut task = Task { args, host, messages: Vec::new(), stdout: Vec::new(), stderr: Vec::new() };
    let done = task.go(outcome);
    outcome.set("msg", task.messages.join("\n"));
    for (key, texts) in [("stdout", &task.stdout), ("stderr", &task.stderr)] {
        if !texts.is_empty() {
            outcome.set(key, texts.join("\n"));
        }
    }
    done
}

fn extra(args: &Args, option: &str) -> Result<Vec<String>, Failure> {
    let text = args.str(option).unwrap_or_default();
    shell_words::split(text).map_err(|_| Failure::new(format!("{option} has a quote that is not closed: {text}")))
}

impl Task<'_> {
    fn go(&mut self, outcome: &mut Outcome) -> Result<(), Failure> {
        let names: Vec<&str> = self.args.list("name").into_iter().filter(|name| !name.is_empty()).collect();
        let upgrade = self.args.bool("upgrade");
        if self.args.bool("update_cache") {
            self.update_cache(outcome)?;
            if self.args.list("name").is_empty() && !upgrade {
                return Ok(());
            }
        }
        let inventory = self.inventory()?;
        if upgrade {
            return self.upgrade(&inventory, outcome);
        }
        if names.is_empty() && self.args.list("name").is_empty() {
            self.messages.push("Nothing to do".to_owned());
            return Ok(());
        }
        let absent = matches!(self.args.str("state"), Some("absent" | "removed"));
        let packages = self.packages(&names, &inventory, absent)?;
        if absent { self.remove(&packages, &inventory, outcome) } else { self.install(&packages, &inventory, outcome) }
    }

    fn command(&self, words: &[&str]) -> Command {
        let program = self.args.str("executable").unwrap_or("pacman");
        Command::new(program).variable("LC_ALL", "C").args(words.iter().copied())
    }

    /// Runs a query. pacman exits with 1 and prints nothing if the list is empty.
    fn query(&self, words: &[&str]) -> Result<String, Failure> {
        let command = self.command(words);
        let words = command.words();
        let output = command.run(self.host)?;
        let nothing = output.rc == 1 && output.stdout.is_empty() && output.stderr.is_empty();
        if output.success() || nothing { Ok(output.stdout_text()) } else { Err(output.failure(&words)) }
    }

    /// Runs a changing command; `why` is the failure message.
    fn change(&mut self, command: Command, why: &str) -> Result<(), Failure> {
        let words = command.words();
        let output = command.live().run(self.host)?;
        if !output.success() {
            return Err(refused(&output, words, why));
        }
        self.stdout.extend(Some(output.stdout_text()).filter(|text| !text.is_empty()));
        self.stderr.extend(Some(output.stderr_text()).filter(|text| !text.is_empty()));
        Ok(())
    }

    fn database(&self) -> Result<BTreeSet<String>, Failure> {
        Ok(self.query(&["--sync", "--list"])?.lines().map(str::to_owned).collect())
    }

    fn update_cache(&mut self, outcome: &mut Outcome) -> Result<(), Failure> {
        if self.host.check() {
            self.messages.push("Would have updated the package db".to_owned());
            outcome.set("cache_updated", true);
            outcome.changed = true;
            return Ok(());
        }
        let mut command = self.command(&["--sync", "--refresh"]).args(extra(self.args, "update_cache_extra_args")?);
        let force = self.args.bool("force");
        let before = if force { BTreeSet::new() } else { self.database()? };
        if force {
            command = command.arg("--refresh");
        }
        self.messages.push("Updated package db".to_owned());
        self.change(command, "could not update package db").inspect_err(|_| self.messages.clear())?;
        let updated = force || before != self.database()?;
        outcome.set("cache_updated", updated);
        outcome.changed = updated;
        Ok(())
    }

    fn inventory(&self) -> Result<Inventory, Failure> {
        let output = self.command(&["--query", "--upgrades"]).run(self.host)?;
        let text = output.stdout_text();
        let text: Vec<&str> = text.lines().filter(|line| !line.contains("Avoid running")).collect();
        let nothing = output.rc == 1 && text.is_empty();
        if !output.success() && !nothing {
            let mut failure = Failure::new("Couldn't get list of packages available for upgrade");
            failure.data = output.failure(&[]).data;
            return Err(failure);
        }
        let mut reasons = BTreeMap::new();
        for (option, reason) in [("--explicit", "explicit"), ("--deps", "dependency")] {
            let text = self.query(&["--query", option])?;
            reasons.extend(pairs(&text).map(|(name, _)| (name.to_owned(), reason)));
        }
        let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (group, name) in pairs(&self.query(&["--sync", "--groups", "--groups"])?) {
            groups.entry(group.to_owned()).or_default().insert(name.to_owned());
        }
        Ok(Inventory {
            installed: owned(&self.query(&["--query"])?),
            available: self
                .database()?
                .iter()
                .filter_map(|line| Some(line.split_whitespace().nth(1)?.to_owned()))
                .collect(),
            groups,
            upgradable: upgradable(&text)?,
            reasons,
        })
    }

    /// Resolves the requested names, package by package.
    fn packages(&self, names: &[&str], inventory: &Inventory, absent: bool) -> Result<Vec<Package>, Failure> {
        let mut packages = Vec::new();
        let plain = |name: &str| Package { name: name.to_owned(), source: name.to_owned(), is_file: false };
        for name in names {
            if let Some(members) = inventory.groups.get(*name) {
                packages.extend(members.iter().map(|member| plain(member)));
            } else if inventory.available.contains(*name) || inventory.installed.contains_key(*name) {
                packages.push(plain(name));
            } else {
                let known = self.command(&["--sync", "--print-format", "%n", name]).run(self.host)?;
                if known.success() {
                    packages.push(Package { name: known.stdout_text().trim().to_owned(), ..plain(name) });
                    continue;
                }
                let command = self.command(&["--upgrade", "--print-format", "%n", name]);
                let words = command.words();
                let file = command.run(self.host)?;
                if file.success() {
                    let text = file.stdout_text();
                    let own = text.lines().last().unwrap_or_default().trim().to_owned();
                    packages.push(Package { name: own, source: (*name).to_owned(), is_file: true });
                } else if !absent {
                    return Err(refused(&file, words, &format!("Failed to list package {name}")).with("rc", file.rc));
                }
            }
        }
        Ok(packages)
    }

    fn install(&mut self, packages: &[Package], inventory: &Inventory, outcome: &mut Outcome) -> Result<(), Failure> {
        let latest = self.args.str("state") == Some("latest");
        let reason = self.args.str("reason");
        let all = self.args.str("reason_for") == Some("all");
        let newer = |name: &str| inventory.upgradable.iter().any(|(known, _, _)| known == name);
        let reasoned: Vec<String> = packages
            .iter()
            .filter(|package| {
                let there = inventory.reasons.get(&package.name);
                reason.is_some_and(|reason| there.is_none_or(|there| all && *there != reason))
            })
            .map(|package| package.name.clone())
            .collect();
        let wanted = |package: &&Package| {
            !package.is_file && (!inventory.installed.contains_key(&package.name) || (latest && newer(&package.name)))
        };
        let sync: Vec<String> = packages.iter().filter(wanted).map(|package| package.source.clone()).collect();
        let files: Vec<String> =
            packages.iter().filter(|package| package.is_file).map(|package| package.source.clone()).collect();
        let base = |task: &Task<'_>| -> Result<Command, Failure> {
            Ok(task.command(&["--noconfirm", "--noprogressbar", "--needed"]).args(extra(task.args, "extra_args")?))
        };
        let (mut before, mut after, mut installed) = (Vec::new(), Vec::new(), Vec::new());
        for (verb, sources) in [("--sync", &sync), ("--upgrade", &files)] {
            if sources.is_empty() {
                continue;
            }
            let command = base(self)?.args([verb, "--print-format", "%n %v"]).args(sources.clone());
            let words = command.words();
            let output = command.run(self.host)?;
            if !output.success() {
                return Err(refused(&output, words, "Failed to list package(s) to install"));
            }
            for (name, version) in printed(&output.stdout_text()) {
                let there = inventory.reasons.get(&name).copied();
                if let Some(old) = inventory.installed.get(&name) {
                    before.push(format!("{name}-{old}-{}", there.unwrap_or_default()));
                }
                let then = reason.filter(|_| reasoned.contains(&name)).or(there);
                after.push(match then {
                    Some(reason) => format!("{name}-{version}-{reason}"),
                    None => format!("{name}-{version}"),
                });
                installed.push(name);
            }
        }
        let only_reason: Vec<String> = reasoned.iter().filter(|name| !installed.contains(name)).cloned().collect();
        let mut told: Vec<String> = installed.iter().chain(&only_reason).cloned().collect();
        told.sort();
        outcome.set("packages", told.clone());
        if installed.is_empty() && reasoned.is_empty() {
            self.messages.push("package(s) already installed".to_owned());
            return Ok(());
        }
        outcome.changed = true;
        outcome.set("diff", json!({ "before": sorted_lines(before), "after": sorted_lines(after) }));
        if self.host.check() {
            self.messages.push(format!("Would have installed {} packages", told.len()));
            return Ok(());
        }
        for (verb, sources) in [("--sync", sync), ("--upgrade", files)] {
            if !sources.is_empty() {
                let command = base(self)?.arg(verb).args(sources);
                self.change(command, "Failed to install package(s)")?;
            }
        }
        if !reasoned.is_empty() {
            let option = if reason == Some("dependency") { "--asdeps" } else { "--asexplicit" };
            let command = self.command(&["--noconfirm", "--database", option]).args(reasoned);
            self.change(command, "Failed to install package(s)")?;
        }
        self.messages.push(format!("Installed {} package(s)", told.len()));
        Ok(())
    }

    fn remove(&mut self, packages: &[Package], inventory: &Inventory, outcome: &mut Outcome) -> Result<(), Failure> {
        let there = packages.iter().filter(|package| inventory.installed.contains_key(&package.name));
        let names: Vec<String> = there.map(|package| package.name.clone()).collect();
        if names.is_empty() {
            outcome.set("packages", Vec::<String>::new());
            self.messages.push("package(s) already absent".to_owned());
            return Ok(());
        }
        let mut base =
            self.command(&["--remove", "--noconfirm", "--noprogressbar"]).args(extra(self.args, "extra_args")?);
        if self.args.bool("force") {
            base = base.args(["--nodeps", "--nodeps"]);
        }
        let command = base.clone().args(["--print-format", "%n-%v"]).args(names.clone());
        let words = command.words();
        let output = command.run(self.host)?;
        if !output.success() {
            return Err(refused(&output, words, "failed to list package(s) to remove"));
        }
        let removed: Vec<String> = output.stdout_text().split_whitespace().map(str::to_owned).collect();
        outcome.changed = true;
        outcome.set("packages", removed.clone());
        outcome.set("diff", json!({ "before": format!("{}\n", removed.join("\n")), "after": "" }));
        if self.host.check() {
            self.messages.push(format!("Would have removed {} packages", removed.len()));
            return Ok(());
        }
        if self.args.bool("remove_nosave") {
            base = base.arg("--nosave");
        }
        self.messages.push(format!("Removed {} package(s)", removed.len()));
        self.change(base.args(names), "failed to remove package(s)")
    }

    fn upgrade(&mut self, inventory: &Inventory, outcome: &mut Outcome) -> Result<(), Failure> {
        let all = &inventory.upgradable;
        if all.is_empty() {
            self.messages.push("Nothing to upgrade".to_owned());
            return Ok(());
        }
        outcome.changed = true;
        let before: String = all.iter().map(|(name, now, _)| format!("{name}-{now}\n")).collect();
        let after: String = all.iter().map(|(name, _, then)| format!("{name}-{then}\n")).collect();
        outcome.set("diff", json!({ "before": before, "after": after }));
        outcome.set("packages", all.iter().map(|(name, _, _)| name.clone()).collect::<Vec<_>>());
        if self.host.check() {
            self.messages.push(format!("{} packages would have been upgraded", all.len()));
            return Ok(());
        }
        let command = self.command(&["--sync", "--sysupgrade", "--quiet", "--noconfirm"]);
        let command = command.args(extra(self.args, "upgrade_extra_args")?);
        self.change(command, "Could not upgrade")?;
        self.messages.push("System upgraded".to_owned());
        Ok(())
    }
}

fn refused(output: &Output, words: Vec<String>, why: &str) -> Failure {
    let failure = Failure::new(why);
    let is_locked = output.stderr_text().contains("unable to lock database");
    let failure = if is_locked { lock::explain(failure, lock::PACMAN) } else { failure };
    failure.with("cmd", words).with("stdout", output.stdout_text()).with("stderr", output.stderr_text())
}

fn sorted_lines(mut lines: Vec<String>) -> String {
    lines.sort();
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Parses lines of two words.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let pair = (words.next()?, words.next()?);
        words.next().is_none().then_some(pair)
    })
}

fn owned(text: &str) -> BTreeMap<String, String> {
    pairs(text).map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
}

/// Parses names and versions that pacman would install, and skips progress messages.
fn printed(text: &str) -> Vec<(String, String)> {
    let said = ["loading packages", "there is nothing to do", "Avoid running"];
    let lines: String = text
        .lines()
        .filter(|line| !said.iter().any(|words| line.contains(words)))
        .map(|line| format!("{line}\n"))
        .collect();
    pairs(&lines).map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
}

/// Parses lines such as `strace 5.14-1 -> 5.15-1`. Ignored packages are marked at the end of the line.
fn upgradable(lines: &[&str]) -> Result<Vec<(String, String, String)>, Failure> {
    let mut all = Vec::new();
    for line in lines.iter().filter(|line| !line.trim().is_empty() && !line.contains("[ignored]")) {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [name, now, "->", then] => all.push(((*name).to_owned(), (*now).to_owned(), (*then).to_owned())),
            _ => return Err(Failure::new(format!("Invalid line: {line}"))),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacman_output_parsed() {
        let lines = ["strace 5.14-1 -> 5.15-1", "systemd 249.7-1 -> 249.7-2 [ignored]", ""];
        assert_eq!(upgradable(&lines).unwrap(), [("strace".into(), "5.14-1".into(), "5.15-1".into())]);
        assert!(upgradable(&["strace 5.14-1"]).is_err());
        let text = "loading packages...\nhello 1.0-1\n there is nothing to do\n";
        assert_eq!(printed(text), [("hello".to_owned(), "1.0-1".to_owned())]);
    }
}
