//! Plans the calls of dnf that lead to the requested state.

use super::{
    super::fetched::{Fetched, is_remote},
    manager::Manager,
    refusal,
    transaction::{Action, Preview, Transaction},
};
use crate::{Args, Failure, Host, files::scratch::Scratch};

/// Calls to make, and messages for the result.
#[derive(Default)]
pub(super) struct Steps {
    /// The words of each call, and its transaction.
    pub(super) commands: Vec<(Vec<String>, Transaction)>,
    told: Vec<String>,
    /// Packages that the calls name by their files.
    pub(super) fetched: Vec<Fetched>,
}

impl Steps {
    pub(super) fn of(manager: &Manager, names: &[String], args: &Args, host: &Host) -> Result<Steps, Failure> {
        let autoremove = args.bool("autoremove");
        let mut steps = Steps::default();
        match args.str("state").unwrap_or(if autoremove { "absent" } else { "present" }) {
            "absent" | "removed" => steps.remove(manager, names, autoremove, host)?,
            _ if names.is_empty() => {}
            "latest" => steps.upgrade(manager, names, args, host)?,
            _ if args.bool("update_only") => steps.upgrade(manager, names, args, host)?,
            _ => steps.install(manager, names, args, host)?,
        }
        Ok(steps)
    }

    /// Result lines for all packages. A replaced package also shows the version that is removed.
    pub(super) fn results(&self, manager: &Manager, is_download: bool, host: &Host) -> Result<Vec<String>, Failure> {
        let mut results = Vec::new();
        for entry in self.commands.iter().flat_map(|(_, transaction)| transaction.entries()) {
            results.push(entry.result(is_download));
            if matches!(entry.action, Action::Upgrade | Action::Downgrade) {
                let old = manager.query(&[&entry.name], host)?;
                results.extend(old.iter().map(|package| format!("Removed: {package}")));
            }
        }
        results.sort();
        Ok(self.told.iter().cloned().chain(results).collect())
    }

    /// Adds one call, if it would change anything.
    fn call(&mut self, manager: &Manager, words: &[&str], names: &[String], host: &Host) -> Result<(), Failure> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).chain(names.iter().cloned()).collect();
        let preview = manager.preview(&words, host)?;
        self.add(words, preview, "installed");
        Ok(())
    }

    fn add(&mut self, words: Vec<String>, preview: Preview, done: &str) {
        let Preview { transaction, unknown } = preview;
        self.told.extend(unknown.iter().map(|name| refusal::sentence_of_unknown(name)));
        if !transaction.has_environments {
            let groups = words.iter().filter_map(|word| word.strip_prefix('@'));
            self.told.extend(groups.map(|group| format!("Group {group} {done}.")));
        }
        if !transaction.is_empty() {
            self.commands.push((words, transaction));
        }
    }

    fn install(&mut self, manager: &Manager, names: &[String], args: &Args, host: &Host) -> Result<(), Failure> {
        let downgrade = args.bool("allow_downgrade");
        self.told.extend(names.iter().filter(|name| is_file(name)).map(|file| format!("Installed {file}")));
        let mut missing = Vec::new();
        for name in names {
            let mut name = name.clone();
            if is_remote(&name) {
                let package = Fetched::of(&name, ".rpm", Scratch::new()?, args, host)?;
                name.clone_from(&package.path);
                self.fetched.push(package);
            }
            if manager.installed(&name, host)?.is_empty() {
                missing.push(name);
            }
        }
        while !missing.is_empty() {
            let words: Vec<String> = std::iter::once("install".to_owned()).chain(missing.iter().cloned()).collect();
            let preview = manager.preview(&words, host)?;
            let entries = preview.transaction.entries().filter(|entry| entry.action == Action::Downgrade);
            let older: Vec<&str> = entries.map(|entry| entry.name.as_str()).collect();
            if downgrade || older.is_empty() {
                self.add(words, preview, "installed");
                break;
            }
            // A newer version than the requested one satisfies the request.
            let before = missing.len();
            let mut kept = Vec::new();
            for word in missing {
                let mut is_older = false;
                for name in &older {
                    is_older |= manager.is_meant(&word, name, host)?;
                }
                if !is_older {
                    kept.push(word);
                }
            }
            missing = kept;
            if missing.len() == before {
                let sentence = "would have to be replaced by an older version, which allow_downgrade: true allows.";
                return Err(Failure::new(format!("{} {sentence}", older.join(", "))).with("rc", 1));
            }
        }
        Ok(())
    }

    fn upgrade(&mut self, manager: &Manager, names: &[String], args: &Args, host: &Host) -> Result<(), Failure> {
        let kinds: Vec<&str> = [("security", "--security"), ("bugfix", "--bugfix")]
            .into_iter()
            .filter_map(|(option, word)| args.bool(option).then_some(word))
            .collect();
        // An advisory asks for the version it names, not a later one.
        let verb = if kinds.is_empty() { "upgrade" } else { "upgrade-minimal" };
        let verb: Vec<&str> = std::iter::once(verb).chain(kinds).collect();
        if names.iter().any(|name| name == "*") {
            return self.call(manager, &verb, &[], host);
        }
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            if name.starts_with('@') {
                self.upgrade_group(manager, name, args.bool("update_only"), host)?;
            } else if is_file(name) {
                self.install(manager, std::slice::from_ref(name), args, host)?;
            } else if manager.installed(name, host)?.is_empty() {
                missing.push(name.clone());
            } else {
                there.push(name.clone());
            }
        }
        if !there.is_empty() {
            self.call(manager, &verb, &there, host)?;
        }
        if args.bool("update_only") {
            let sentence =
                |name: &String| format!("Packages providing {name} not installed due to update_only specified");
            self.told.extend(missing.iter().map(sentence));
        } else if !missing.is_empty() {
            self.call(manager, &["install"], &missing, host)?;
        }
        Ok(())
    }

    /// Upgrades an installed group and installs any other.
    fn upgrade_group(&mut self, manager: &Manager, name: &str, only: bool, host: &Host) -> Result<(), Failure> {
        let words = |verb: &str| vec![verb.to_owned(), name.to_owned()];
        match manager.preview(&words("upgrade"), host) {
            Ok(preview) if preview.transaction.has_groups => self.add(words("upgrade"), preview, "upgraded"),
            _ if only => {}
            _ => self.call(manager, &["install"], &[name.to_owned()], host)?,
        }
        Ok(())
    }

    /// Removes packages; a missing one is not a failure.
    fn remove(&mut self, manager: &Manager, names: &[String], autoremove: bool, host: &Host) -> Result<(), Failure> {
        if names.iter().any(|name| is_file(name)) {
            let failure = Failure::new("Cannot remove paths -- please specify package name.");
            return Err(failure.with("results", Vec::<String>::new()));
        }
        if names.is_empty() && autoremove {
            return self.call(manager, &["autoremove"], &[], host);
        }
        let mut there = Vec::new();
        for name in names {
            if name.starts_with('@') || !manager.installed(name, host)?.is_empty() {
                there.push(name.clone());
            } else {
                self.told.push(format!("No match for argument: {name}"));
            }
        }
        if !there.is_empty() {
            let words: Vec<String> = std::iter::once("remove".to_owned()).chain(there).collect();
            let transaction = manager.preview(&words, host)?.transaction;
            if !transaction.is_empty() {
                self.commands.push((words, transaction));
            }
        }
        Ok(())
    }
}

fn is_file(name: &str) -> bool {
    name.contains("://") || name.ends_with(".rpm")
}
