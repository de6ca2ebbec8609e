//! `apk`: packages of Alpine Linux.

use std::sync::LazyLock;

use regex::Regex;

use super::lock;
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    process::{self, Command, Output},
};

/// The `apk` module.
pub struct Apk;

static SPEC: Spec = Spec {
    name: "apk",
    collection: "community.general",
    summary: "Manage packages with apk",
    description: &[
        "Installs, upgrades and removes packages. A package counts as installed if the world file lists it.",
    ],
    options: &[
        Opt::new("name", Kind::List(&Kind::Str), "Packages, with or without a version: `foo=1.0`, `foo<2`.").word(),
        Opt::new("state", Kind::Str, "`present` installs missing packages, `latest` also upgrades, `absent` removes.")
            .default("\"present\"")
            .choices(&["present", "installed", "absent", "removed", "latest"]),
        Opt::new("no_cache", Kind::Bool, "Do not keep a local copy of the repository indexes.").default("false"),
        Opt::new("repository", Kind::List(&Kind::Str), "Install from these repositories only."),
        Opt::new("update_cache", Kind::Bool, "Update the repository indexes first.").default("false"),
        Opt::new("upgrade", Kind::Bool, "Upgrade all installed packages.").default("false"),
        Opt::new(
            "available",
            Kind::Bool,
            "With `upgrade`, also replace or downgrade packages that the repositories no longer offer.",
        )
        .default("false"),
        Opt::new("world", Kind::Str, "Path of the world file, which lists the requested packages.")
            .default("\"/etc/apk/world\""),
    ],
    required_one_of: &[&["name", "update_cache", "upgrade"]],
    mutually_exclusive: &[&["name", "upgrade"]],
    examples: "- name: A package\n  community.general.apk:\n    name: nginx\n    update_cache: true\n\n\
               - name: One of the edge\n  community.general.apk:\n    name: foo\n    repository: http://dl-cdn.alpinelinux.org/alpine/edge/main\n",
    returns: &[Return {
        name: "packages",
        kind: "list",
        when: "packages changed",
        doc: "Packages that were (or would be) changed.",
    }],
    ..Spec::EMPTY
}
.compiled();

impl Module for Apk {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let args = args.clone();
        Plan::steps(host, move |host, outcome| run(&args, host, outcome))
    }
}

/// The program with the options common to all calls.
struct Task<'a> {
    args: &'a Args,
    host: &'a Host,
    options: Vec<String>,
}

fn run(args: &Args, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
    let names: Vec<String> = args.list("name").into_iter().map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err(Failure::new("Package name(s) cannot be empty or whitespace-only"));
    }
    let mut options: Vec<String> = args.bool("no_cache").then(|| "--no-cache".to_owned()).into_iter().collect();
    for repository in args.list("repository") {
        options.extend(["--repository", repository, "--repositories-file", "/dev/null"].map(str::to_owned));
    }
    let task = Task { args, host, options };
    let upgrade = args.bool("upgrade");
    if args.bool("update_cache") {
        // Updating the indexes changes only a cache, and apk cannot predict an installation without them.
        let output = task.command(&["update"]).live().run(host)?;
        if !output.success() {
            return Err(task.refused(&output, "could not update package db"));
        }
        if names.is_empty() && !upgrade {
            outcome.changed = true;
            outcome.set("msg", "updated repository indexes");
            task.record_output(&output, outcome);
            return Ok(());
        }
    }
    if upgrade {
        return task.upgrade(outcome);
    }
    match args.required("state")? {
        "absent" | "removed" => task.remove(&names, outcome),
        state => task.install(&names, state == "latest", outcome),
    }
}

impl Task<'_> {
    fn command(&self, words: &[&str]) -> Command {
        Command::new("apk").plain_locale().variable("LC_CTYPE", "C").args(&self.options).args(words.iter().copied())
    }

    fn record_output(&self, output: &Output, outcome: &mut Outcome) {
        outcome.set("stdout", output.stdout_text());
        outcome.set("stderr", output.stderr_text());
    }

    fn refused(&self, output: &Output, why: &str) -> Failure {
        let failure = Failure::new(why);
        let is_locked = output.stderr_text().contains("Unable to lock database");
        let failure = if is_locked { lock::explain(failure, lock::APK) } else { failure };
        failure
            .with("packages", named(&output.stdout_text()))
            .with("stdout", output.stdout_text())
            .with("stderr", output.stderr_text())
    }

    /// The words of a changing command; in check mode apk only simulates it.
    fn changing(&self, words: &[&str]) -> Command {
        let command = self.command(words);
        if self.host.check() { command.arg("--simulate") } else { command.live() }
    }

    fn upgrade(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let available = self.args.bool("available").then_some("--available");
        let output = self.changing(&["upgrade"]).args(available).run(self.host)?;
        if !output.success() {
            return Err(self.refused(&output, "failed to upgrade packages"));
        }
        let text = output.stdout_text();
        outcome.changed = !text.starts_with("OK");
        outcome.set("msg", if outcome.changed { "upgraded packages" } else { "packages already upgraded" });
        outcome.set("packages", named(&text));
        self.record_output(&output, outcome);
        Ok(())
    }

    fn install(&self, names: &[String], latest: bool, outcome: &mut Outcome) -> Result<(), Failure> {
        let path = self.args.str("world").unwrap_or("/etc/apk/world");
        let world = std::fs::read_to_string(path).map_err(|error| {
            Failure::new(format!("The world file {path} could not be read: {}.", process::reason(&error)))
        })?;
        let (mut missing, mut outdated) = (Vec::new(), Vec::new());
        for name in names {
            if self.is_virtual(name)? {
                for dependency in self.dependencies(name)? {
                    if latest && !self.is_latest(&dependency)? {
                        outdated.push(dependency);
                    }
                }
            } else if !is_asked_for(&world, name) {
                missing.push(name.clone());
            } else if latest && !self.is_latest(name)? {
                outdated.push(name.clone());
            }
        }
        if missing.is_empty() && outdated.is_empty() {
            outcome.set("msg", "package(s) already installed");
            return Ok(());
        }
        let words: &[&str] = if outdated.is_empty() { &["add"] } else { &["add", "--upgrade"] };
        let packages: Vec<String> = missing.into_iter().chain(outdated).collect();
        let output = self.changing(words).args(packages.clone()).run(self.host)?;
        if !output.success() {
            return Err(self.refused(&output, &format!("failed to install {}", shown(&packages))));
        }
        self.changed(&output, format!("installed {} package(s)", shown(&packages)), outcome);
        Ok(())
    }

    fn remove(&self, names: &[String], outcome: &mut Outcome) -> Result<(), Failure> {
        let mut there = Vec::new();
        for name in names {
            if self.is_installed(name)? {
                there.push(name.clone());
            }
        }
        if there.is_empty() {
            outcome.set("msg", "package(s) already removed");
            return Ok(());
        }
        let output = self.changing(&["del", "--purge"]).args(there.clone()).run(self.host)?;
        let mut gone = output.success();
        for name in there.iter().filter(|_| gone && !self.host.check()).cloned().collect::<Vec<_>>() {
            // The package stays if another one needs it.
            gone = !self.is_installed(&name)?;
            if !gone {
                break;
            }
        }
        if !gone {
            return Err(self.refused(&output, &format!("failed to remove {} package(s)", shown(&there))));
        }
        self.changed(&output, format!("removed {} package(s)", shown(&there)), outcome);
        Ok(())
    }

    fn changed(&self, output: &Output, message: String, outcome: &mut Outcome) {
        outcome.changed = true;
        outcome.set("msg", message);
        outcome.set("packages", named(&output.stdout_text()));
        self.record_output(output, outcome);
    }

    fn is_installed(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.command(&["-v", "info", "--installed", name]).run(self.host)?.success())
    }

    fn is_virtual(&self, name: &str) -> Result<bool, Failure> {
        let text = self.command(&["-v", "info", "--description", name]).run(self.host)?.stdout_text();
        Ok(text.starts_with(&format!("{name}: virtual meta package")))
    }

    /// The first line names the package whose dependencies follow.
    fn dependencies(&self, name: &str) -> Result<Vec<String>, Failure> {
        let text = self.command(&["-v", "info", "--depends", name]).run(self.host)?.stdout_text();
        Ok(text.split_whitespace().skip(1).map(str::to_owned).collect())
    }

    fn is_latest(&self, name: &str) -> Result<bool, Failure> {
        let text = self.command(&["version", name]).run(self.host)?.stdout_text();
        Ok(!is_outdated(&text, name))
    }
}

/// A list as Python prints it.
fn shown(names: &[String]) -> String {
    format!("[{}]", names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", "))
}

/// The packages of lines such as `(1/2) Installing foo (1.0-r0)`.
fn named(text: &str) -> Vec<String> {
    // The pattern is constant and the tests run it, so it compiles.
    #[expect(clippy::unwrap_used)]
    static STEP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\(\d+/\d+\)\s+\S+\s+(\S+)").unwrap());
    text.lines().filter_map(|line| Some(STEP.captures(line)?.get(1)?.as_str().to_owned())).collect()
}

/// Whether the world file lists a package, in any version or from any repository.
fn is_asked_for(world: &str, name: &str) -> bool {
    let is_it = |word: &str| {
        let rest = word.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || (rest.len() > 1 && rest.starts_with(['@', '=', '<', '>', '~'])))
    };
    world.split_whitespace().any(is_it)
}

/// Whether `apk version` shows a package as older than the available one: `foo-1.0-r0 < 1.1-r0`.
fn is_outdated(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        let rest = words.next().and_then(|word| word.strip_prefix(name)).and_then(|rest| rest.strip_prefix('-'));
        let is_version = rest.is_some_and(|rest| rest.starts_with(|character: char| character.is_ascii_digit()));
        is_version && words.next() == Some("<")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apk_output_parsed() {
        // Printed by apk-tools 2.14.
        let text = "(1/2) Installing ncurses-terminfo-base (6.4_p20231125-r0)\n(2/2) Installing bash (5.2.21-r0)\nExecuting bash-5.2.21-r0.post-install\nOK: 10 MiB in 17 packages\n";
        assert_eq!(named(text), ["ncurses-terminfo-base", "bash"]);
        let version = "Installed:                                Available:\nbash-5.2.15-r0                          < 5.2.21-r0 \nbash-doc-5.2.21-r0 = 5.2.21-r0\n";
        assert!(is_outdated(version, "bash") && !is_outdated(version, "bash-doc") && !is_outdated(version, "ba"));
    }

    #[test]
    fn world_file_matched() {
        let world = "alpine-base\nnginx=1.24.0-r15\nfoo@edge\n!bar\n";
        for there in ["alpine-base", "nginx", "foo"] {
            assert!(is_asked_for(world, there), "{there}");
        }
        assert!(!is_asked_for(world, "bar") && !is_asked_for(world, "alpine") && !is_asked_for(world, "nginx-mod"));
    }
}
