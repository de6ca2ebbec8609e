//! `zypper`: packages of SUSE.

mod xml;

use std::{collections::BTreeSet, path::Path};

use serde_json::json;

use self::xml::{Answer, Solvable};
use super::{
    fetched::{Fetched, has_login},
    lock,
};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    files::scratch::Scratch,
    process::{self, Command, Output, reason},
};

/// The `zypper` module.
pub struct Zypper;

static SPEC: Spec = Spec {
    name: "zypper",
    collection: "community.general",
    summary: "Manage packages with zypper",
    description: &[
        "Installs, upgrades and removes packages, patterns, patches and products. A name may include a version \
         (`foo=1.0`, `foo>=2`). With `present` and `latest`, `-foo` removes and `+foo` installs.",
        "The name `*` with `latest` or `dist-upgrade` means the whole system.",
        "Downloads URLs with a user or password like `get_url`; zypper downloads others.",
    ],
    options: &[
        Opt::required("name", Kind::List(&Kind::Str), "Names, files or URLs of packages.").address().aliases(&["pkg"]),
        Opt::new(
            "state",
            Kind::Str,
            "`present` and `installed` install missing packages, `latest` also upgrades, `absent` and `removed` \
             remove, `dist-upgrade` upgrades the distribution.",
        )
        .default("\"present\"")
        .choices(&["absent", "installed", "latest", "present", "removed", "dist-upgrade"]),
        Opt::new("type", Kind::Str, "Kind of objects that the names refer to.").default("\"package\"").choices(&[
            "package",
            "patch",
            "pattern",
            "product",
            "srcpackage",
            "application",
        ]),
        Opt::new("extra_args_precommand", Kind::Str, "Additional global options, before zypper's command."),
        Opt::new("disable_gpg_check", Kind::Bool, "Accept unsigned packages.").default("false"),
        Opt::new("auto_import_keys", Kind::Bool, "Import new repository keys automatically.").default("false"),
        Opt::new("disable_recommends", Kind::Bool, "Do not install recommended packages.").default("true"),
        Opt::new("force", Kind::Bool, "Reinstall existing packages, and allow older versions.").default("false"),
        Opt::new("force_resolution", Kind::Bool, "Resolve conflicts by removing packages.").default("false"),
        Opt::new("update_cache", Kind::Bool, "Refresh the repositories first.").aliases(&["refresh"]).default("false"),
        Opt::new("oldpackage", Kind::Bool, "Allow replacing a package with an older one.").default("false"),
        Opt::new("extra_args", Kind::Str, "Additional options of zypper's command."),
        Opt::new("allow_vendor_change", Kind::Bool, "With `dist-upgrade`, allow packages from other vendors.")
            .default("false"),
        Opt::new("replacefiles", Kind::Bool, "Overwrite files of other packages.").default("false"),
        Opt::new("clean_deps", Kind::Bool, "Remove dependencies that are no longer needed.").default("false"),
        Opt::new("simple_errors", Kind::Bool, "Show only zypper's messages.").default("false"),
        Opt::new("quiet", Kind::Bool, "Make zypper print less.").default("true"),
        Opt::new("skip_post_errors", Kind::Bool, "Continue if a package was installed but its script failed.")
            .default("false"),
    ],
    examples: "- name: A package\n  community.general.zypper:\n    name: nginx>=1.20\n    update_cache: true\n\n\
               - name: All that is newer\n  community.general.zypper:\n    name: '*'\n    state: latest\n\n\
               - name: One instead of another\n  community.general.zypper:\n    name: [-exim, +postfix]\n",
    returns: &[
        Return { name: "name", kind: "list", when: "always", doc: "Packages that the task names." },
        Return { name: "state", kind: "str", when: "always", doc: "State that the task asks for." },
        Return { name: "update_cache", kind: "bool", when: "always", doc: "Whether the task asks for fresh metadata." },
        Return { name: "rc", kind: "int", when: "always", doc: "Exit code of zypper, or 0 if it was not called." },
        Return { name: "cmd", kind: "list", when: "zypper was called", doc: "Its command line." },
        Return { name: "stdout", kind: "str", when: "packages changed, or zypper failed", doc: "Output of zypper." },
        Return { name: "stderr", kind: "str", when: "packages changed, or zypper failed", doc: "Errors of zypper." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Exit statuses that count as success: reboot needed, zypper updated itself, or a signature or a package script
/// failed.
const FINE: [i32; 5] = [0, 102, 103, 106, 107];
/// Exit status if another process holds the lock.
const LOCKED: i32 = 7;
/// Exit status if no package of the name was found.
const NOT_FOUND: i32 = 104;

impl Module for Zypper {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let args = args.clone();
        Plan::steps(host, move |host, outcome| run(&args, host, outcome))
    }
}

/// A requested package.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Package {
    remove: bool,
    name: String,
    /// Version with its operator: `>=1.0`.
    version: String,
}

/// The outcome of a zypper call.
#[derive(Default)]
struct Transaction {
    words: Vec<String>,
    solvables: Vec<Solvable>,
    output: Option<Output>,
}

struct Task<'a> {
    args: &'a Args,
    host: &'a Host,
    /// A version in a name also permits a downgrade.
    old_package: bool,
}

fn run(args: &Args, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
    let names: Vec<&str> = args.list("name").into_iter().filter(|name| !name.is_empty()).collect();
    let state = args.required("state")?;
    let mut task = Task { args, host, old_package: args.bool("oldpackage") };
    if args.bool("update_cache") && !host.check() {
        task.call("refresh", Vec::new())?;
    }
    let everything = names == ["*"];
    let transaction = match state {
        "latest" | "dist-upgrade" if everything => {
            let patches = args.str("type") == Some("patch");
            let verb = if patches {
                "patch"
            } else if state == "latest" {
                "update"
            } else {
                "dist-upgrade"
            };
            task.call(verb, Vec::new())?
        }
        "dist-upgrade" => return Err(Failure::new("Can not dist-upgrade specific packages.")),
        "absent" | "removed" => task.remove(&names)?,
        _ => task.install(&names, state == "latest")?,
    };
    let rc = transaction.output.as_ref().map_or(0, |output| output.rc);
    outcome.changed = matches!(rc, 0 | 102) && !transaction.solvables.is_empty();
    outcome.set("name", names);
    outcome.set("state", state);
    outcome.set("update_cache", args.bool("update_cache"));
    outcome.set("rc", rc);
    if !transaction.words.is_empty() {
        outcome.set("cmd", transaction.words);
    }
    if host.diff() {
        outcome.set("diff", json!({ "prepared": summary(&transaction.solvables) }));
    }
    let shown = transaction.output.as_ref().map(|output| (task.shown(output), output.stderr_text()));
    if !matches!(rc, 0 | 102) {
        let (stdout, stderr) = shown.unwrap_or_default();
        return Err(Failure::new("Zypper run failed.").with("rc", rc).with("stdout", stdout).with("stderr", stderr));
    }
    if let Some((stdout, stderr)) = shown.filter(|_| outcome.changed) {
        outcome.set("stdout", stdout);
        outcome.set("stderr", stderr);
    }
    Ok(())
}

/// Answer of zypper to a call.
enum Answered {
    Done(Transaction),
    /// Nothing has the name. Contains the failure to report unless the caller permits this.
    NotFound(Failure),
}

impl Task<'_> {
    fn install(&mut self, names: &[&str], latest: bool) -> Result<Transaction, Failure> {
        let (mut packages, mut files) = sorted_out(names, Sign::Plus);
        self.old_package |= packages.iter().any(|package| !package.version.is_empty());
        if !latest {
            // zypper itself compares packages with a version.
            let plain: Vec<&Package> = packages.iter().filter(|package| package.version.is_empty()).collect();
            let there = self.installed(&plain)?;
            packages.retain(|package| package.remove == there.contains(&package.name));
        }
        if packages.is_empty() && files.is_empty() {
            return Ok(Transaction::default());
        }
        // Keeps the files until zypper has ended.
        let mut fetched = Vec::new();
        for file in files.iter_mut().filter(|file| has_login(file)) {
            // The snapshot of a transaction has other temporary directories than the host.
            let scratch = if is_transactional() {
                let failed = |error: std::io::Error| format!("/var/cache is not writable: {}.", reason(&error));
                Scratch::inside(Path::new("/var/cache")).map_err(failed)?
            } else {
                Scratch::new()?
            };
            let package = Fetched::of(file, ".rpm", scratch, self.args, self.host)?;
            file.clone_from(&package.path);
            fetched.push(package);
        }
        let sign = |package: &Package| if package.remove { '-' } else { '+' };
        let named = packages.iter().map(|package| format!("{}{}{}", sign(package), package.name, package.version));
        let words = std::iter::once("--".to_owned()).chain(files).chain(named).collect();
        self.call("install", words)
    }

    fn remove(&self, names: &[&str]) -> Result<Transaction, Failure> {
        if names.iter().any(|name| name.starts_with('+')) {
            return Err(Failure::new("Can not combine '+' prefix with state=remove/absent."));
        }
        let (packages, files) = sorted_out(names, Sign::Minus);
        if !files.is_empty() {
            return Err(Failure::new("Can not remove via URL."));
        }
        if self.args.str("type") == Some("patch") {
            return Err(Failure::new("Can not remove patches."));
        }
        let there = self.installed(&packages.iter().collect::<Vec<_>>())?;
        let words: Vec<String> = packages
            .into_iter()
            .filter(|package| there.contains(&package.name))
            .map(|package| package.name + &package.version)
            .collect();
        if words.is_empty() { Ok(Transaction::default()) } else { self.call("remove", words) }
    }

    /// The given packages that are installed.
    fn installed(&self, packages: &[&Package]) -> Result<BTreeSet<String>, Failure> {
        if packages.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut words: Vec<String> = ["--match-exact", "--details", "--installed-only"].map(str::to_owned).into();
        words.extend(packages.iter().map(|package| package.name.clone()));
        let Answered::Done(found) = self.attempt("search", words)? else { return Ok(BTreeSet::new()) };
        Ok(found.solvables.into_iter().map(|solvable| solvable.name).collect())
    }

    /// Calls zypper and parses its answer. Repeats the call after status 103 and, if requested, after 107.
    fn call(&self, verb: &str, rest: Vec<String>) -> Result<Transaction, Failure> {
        match self.attempt(verb, rest)? {
            Answered::Done(transaction) => Ok(transaction),
            Answered::NotFound(failure) => Err(failure),
        }
    }

    /// Like [`Task::call`], for a search that may find nothing.
    fn attempt(&self, verb: &str, rest: Vec<String>) -> Result<Answered, Failure> {
        let command = self.command(verb).args(rest);
        let words = command.words();
        let (output, answer) = self.ask(command.clone(), &words)?;
        let mut solvables = answer.solvables;
        let again = output.rc == 103 || (output.rc == 107 && self.args.bool("skip_post_errors"));
        if output.rc == NOT_FOUND {
            let said =
                answer.messages.last().cloned().unwrap_or_else(|| "Zypper found nothing with that name.".to_owned());
            return Ok(Answered::NotFound(self.refused(&output, &words, said)));
        }
        let mut last = output;
        if again {
            let (output, answer) = self.ask(command, &words)?;
            solvables.retain(|known| answer.solvables.iter().all(|other| other.name != known.name));
            solvables.extend(answer.solvables);
            last = output;
        }
        if !FINE.contains(&last.rc) {
            return Err(self.refused(
                &last,
                &words,
                format!("Zypper run command failed with return code {}.", last.rc),
            ));
        }
        Ok(Answered::Done(Transaction { words, solvables, output: Some(last) }))
    }

    fn ask(&self, command: Command, words: &[String]) -> Result<(Output, Answer), Failure> {
        let output = command.live().run(self.host)?;
        let answer = xml::parse(&output.stdout_text()).ok_or_else(|| {
            let failure = Failure::new("Failed to parse zypper xml output: it is not a whole document.")
                .with("cmd", words.to_vec());
            failure.with("rc", output.rc).with("stdout", output.stdout_text()).with("stderr", output.stderr_text())
        })?;
        Ok((output, answer))
    }

    fn refused(&self, output: &Output, words: &[String], why: String) -> Failure {
        let failure = Failure::new(why);
        let failure = if output.rc == LOCKED { lock::explain(failure, lock::ZYPPER) } else { failure };
        failure
            .with("rc", output.rc)
            .with("cmd", words.to_vec())
            .with("stdout", self.shown(output))
            .with("stderr", output.stderr_text())
    }

    /// The output; only the messages with `simple_errors`.
    fn shown(&self, output: &Output) -> String {
        let text = output.stdout_text();
        if !self.args.bool("simple_errors") || output.rc == NOT_FOUND {
            return text;
        }
        let messages = xml::parse(&text).map(|answer| answer.messages.join(" \n")).unwrap_or_default();
        if messages.is_empty() { text } else { messages }
    }

    fn command(&self, verb: &str) -> Command {
        let args = self.args;
        let installs = matches!(verb, "install" | "update" | "patch" | "dist-upgrade");
        let refreshes = verb == "refresh";
        let mut words: Vec<String> = Vec::new();
        let mut switch = |on: bool, option: &str| words.extend(on.then(|| option.to_owned()));
        // The result contains the command with the path of the program, as in Ansible.
        let found =
            |name: &str| process::find(self.host, name).map_or_else(|| name.into(), |path| path.display().to_string());
        let mut program = found("zypper");
        if is_transactional() {
            for word in ["--continue", "--drop-if-no-change", "--quiet", "run", &program] {
                switch(true, word);
            }
            program = found("transactional-update");
        }
        switch(true, "--non-interactive");
        switch(true, "--xmlout");
        switch(args.bool("quiet"), "--quiet");
        for word in args.str("extra_args_precommand").unwrap_or_default().split_whitespace() {
            switch(true, word);
        }
        switch((installs || refreshes) && args.bool("disable_gpg_check"), "--no-gpg-checks");
        switch(installs && args.bool("auto_import_keys"), "--gpg-auto-import-keys");
        switch(verb == "search", "--disable-repositories");
        switch(true, verb);
        if !matches!(verb, "patch" | "dist-upgrade" | "refresh") {
            switch(true, "--type");
            switch(true, args.str("type").unwrap_or("package"));
        }
        switch(self.host.check() && verb != "search", "--dry-run");
        switch(installs, "--auto-agree-with-licenses");
        switch(installs && args.bool("disable_recommends"), "--no-recommends");
        switch(installs && args.bool("force"), "--force");
        switch(installs && args.bool("force_resolution"), "--force-resolution");
        switch(installs && self.old_package, "--oldpackage");
        switch(installs && args.bool("replacefiles"), "--replacefiles");
        switch(verb == "remove" && args.bool("clean_deps"), "--clean-deps");
        switch(verb == "dist-upgrade" && args.bool("allow_vendor_change"), "--allow-vendor-change");
        for word in args.str("extra_args").unwrap_or_default().split_whitespace() {
            switch(true, word);
        }
        Command::new(program).plain_locale().args(words)
    }
}

/// Sign of a package that is named without one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

/// Separates packages from files and URLs.
fn sorted_out(names: &[&str], default: Sign) -> (Vec<Package>, Vec<String>) {
    let (files, names): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| name.contains("://") || name.ends_with(".rpm"));
    let packages = names.into_iter().map(|name| package(name, default)).collect();
    (packages, files.into_iter().map(str::to_owned).collect())
}

/// Parses a name with its sign and version: `+foo>=1.0`.
fn package(text: &str, default: Sign) -> Package {
    let (remove, name) = match text.chars().next() {
        Some('-' | '~') => (true, text.get(1..).unwrap_or_default()),
        Some('+') => (false, text.get(1..).unwrap_or_default()),
        _ => (default == Sign::Minus, text),
    };
    let at = name.find(['<', '>', '=']).unwrap_or(name.len());
    let (bare, version) = name.split_at(at);
    let number = version.trim_start_matches(['<', '>', '=']);
    // The rest counts as a version only if it looks like one.
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    let (name, version) = if plain { (bare, version) } else { (name, "") };
    Package { remove, name: name.to_owned(), version: version.to_owned() }
}

/// The text shown as the difference.
fn summary(solvables: &[Solvable]) -> String {
    let of = |group: &'static str| solvables.iter().filter(move |solvable| solvable.group == group);
    let names = |group: &'static str| of(group).map(|solvable| solvable.name.clone()).collect::<Vec<_>>();
    let upgraded: Vec<String> = of("to-upgrade")
        .map(|solvable| format!("{} ({} => {})", solvable.name, solvable.old_version, solvable.version))
        .collect();
    let lines = [("installed", names("to-install")), ("removed", names("to-remove")), ("upgraded", upgraded)];
    lines
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}\n", names.join(", ")))
        .collect()
}

/// Whether updates go through snapshots, because the root is read-only.
fn is_transactional() -> bool {
    if !Path::new("/usr/sbin/transactional-update").exists() {
        return false;
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        matches!(fields.as_slice(), [_, "/", "btrfs", options, ..] if options.split(',').any(|option| option == "ro"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_signs_and_versions_parsed() {
        let shown = |text: &str| {
            let package = package(text, Sign::Plus);
            format!("{} {} {}", package.remove, package.name, package.version)
        };
        assert_eq!(shown("nginx"), "false nginx ");
        assert_eq!(shown("nginx>=1.20"), "false nginx >=1.20");
        assert_eq!(shown("~exim"), "true exim ");
        assert_eq!(shown("+postfix=3-1"), "false postfix =3-1");
        assert_eq!(shown("libstdc++6"), "false libstdc++6 ");
        let (packages, files) = sorted_out(&["a", "http://x/y", "./z.rpm"], Sign::Minus);
        assert_eq!((packages.len(), files.len(), packages[0].remove), (1, 2, true));
    }
}
