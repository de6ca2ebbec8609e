//! Calls of dnf, and queries to it and to rpm.

use super::{
    refusal,
    transaction::{Preview, Transaction},
};
use crate::{
    Args, Failure, Host,
    process::{self, Command},
};

/// The program with the options common to all calls.
#[derive(Debug, Clone)]
pub(super) struct Manager {
    program: String,
    options: Vec<String>,
    pub(super) root: String,
}

impl Manager {
    pub(super) fn of(args: &Args, backend: &str, host: &Host) -> Result<Manager, Failure> {
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
        if let Some(file) = args.str("conf_file").filter(|file| std::fs::File::open(file).is_err()) {
            let failure = Failure::new("cannot read configuration file").with("conf_file", file);
            return Err(failure.with("results", Vec::<String>::new()));
        }
        let mut options = Vec::new();
        let mut add = |wanted: bool, option: &str| {
            if wanted {
                options.push(option.to_owned());
            }
        };
        add(args.bool("disable_gpg_check"), "--nogpgcheck");
        // Overrides the configuration, unless a repository has its own setting.
        add(!args.bool("disable_gpg_check"), "--setopt=gpgcheck=1");
        add(!args.bool("disable_gpg_check"), "--setopt=localpkg_gpgcheck=1");
        add(args.bool("allowerasing"), "--allowerasing");
        add(args.maybe_bool("best") == Some(true) || args.maybe_bool("nobest") == Some(false), "--best");
        add(args.maybe_bool("best") == Some(false) || args.maybe_bool("nobest") == Some(true), "--nobest");
        add(args.bool("cacheonly"), "--cacheonly");
        add(args.bool("skip_broken"), "--skip-broken");
        add(args.bool("update_cache"), "--refresh");
        add(args.maybe_bool("sslverify") == Some(false), "--setopt=sslverify=0");
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
            options.extend(args.filled(name).map(|value| format!("{option}={value}")));
        }
        let root = args.str("installroot").unwrap_or("/").to_owned();
        if root != "/" {
            options.push(format!("--installroot={root}"));
        }
        Ok(Manager { program: (*program).to_owned(), options, root })
    }

    /// A call with these words.
    pub(super) fn command(&self, words: &[String]) -> Command {
        Command::new(&self.program).plain_locale().args(&self.options).args(words)
    }

    /// Queries rpm for packages, one line each; empty if there are none.
    pub(super) fn query(&self, words: &[&str], host: &Host) -> Result<Vec<String>, Failure> {
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

    /// The installed packages that a word of `name` matches.
    pub(super) fn installed(&self, word: &str, host: &Host) -> Result<Vec<String>, Failure> {
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

    /// Whether a word of `name` matches the package of this name.
    pub(super) fn is_meant(&self, word: &str, name: &str, host: &Host) -> Result<bool, Failure> {
        if word.ends_with(".rpm") {
            return Ok(self.query(&["-p", "--queryformat", "%{NAME}\n", word], host)?.iter().any(|own| own == name));
        }
        Ok(word.strip_prefix(name).is_some_and(|rest| rest.starts_with(['-', ' ', '=', '<'])))
    }

    /// Simulates a call; `None` if it would change no package.
    pub(super) fn preview(&self, words: &[String], host: &Host) -> Result<Preview, Failure> {
        let output = self.command(&["--assumeno".to_owned()]).args(words).run(host)?;
        let transaction = Transaction::read(&output.stdout_text());
        // A transaction of groups alone lists no packages but is still valid.
        let is_refused = transaction.is_empty() && !output.success() && !transaction.has_groups;
        if is_refused {
            Err(refusal::of(&output, words, None))
        } else {
            Ok(Preview { transaction, unknown: refusal::unknown(&output) })
        }
    }
}
