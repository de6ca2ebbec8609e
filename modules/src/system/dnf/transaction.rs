//! Parses the transaction table that dnf prints.

/// The action for one package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Install,
    Upgrade,
    Downgrade,
    Remove,
}

/// One package in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) action: Action,
    pub(super) name: String,
    arch: String,
    version: String,
}

/// A complete transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Transaction {
    entries: Vec<Entry>,
    pub(super) has_groups: bool,
    pub(super) has_environments: bool,
}

/// A simulated transaction, and the names unknown to dnf.
pub(super) struct Preview {
    pub(super) transaction: Transaction,
    pub(super) unknown: Vec<String>,
}

impl Transaction {
    /// Parses the output of `dnf --assumeno`.
    pub(super) fn read(text: &str) -> Transaction {
        let mut transaction = Transaction::default();
        let mut action = None;
        let mut pending: Vec<&str> = Vec::new();
        for line in text.lines() {
            if line.starts_with("Transaction Summary") {
                break;
            }
            if !line.starts_with(' ') {
                let line = line.trim();
                transaction.has_groups |= line.ends_with(" Groups:");
                transaction.has_environments |= line.ends_with(" Environment Groups:");
                action = heading(line);
                pending.clear();
                continue;
            }
            let Some(action) = action else { continue };
            // A long name takes a line of its own, and its fields follow on the next. Replaced packages are not
            // entries.
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.first() == Some(&"replacing") {
                continue;
            }
            pending.extend(words);
            if let [name, arch, version, _repository, ..] = pending.as_slice() {
                let (name, arch, version) = ((*name).to_owned(), (*arch).to_owned(), (*version).to_owned());
                transaction.entries.push(Entry { action, name, arch, version });
                pending.clear();
            }
        }
        transaction
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The package whose file an error message names.
    pub(super) fn package_of(&self, sentence: &str) -> Option<String> {
        self.entries.iter().find(|entry| sentence.contains(&format!("{}-", entry.name))).map(Entry::package)
    }
}

impl Entry {
    /// The entry as a line of Ansible's result.
    pub(super) fn result(&self, is_download: bool) -> String {
        let what = match self.action {
            Action::Remove => "Removed",
            _ if is_download => "Downloaded",
            _ => "Installed",
        };
        format!("{what}: {}", self.package())
    }

    fn package(&self) -> String {
        format!("{}-{}.{}", self.name, self.version, self.arch)
    }
}

fn heading(line: &str) -> Option<Action> {
    let line = line.strip_suffix(':')?;
    Some(match line {
        _ if line.ends_with(" Groups") => return None,
        _ if line.starts_with("Installing") || line.starts_with("Reinstalling") => Action::Install,
        _ if line.starts_with("Upgrading") => Action::Upgrade,
        _ if line.starts_with("Downgrading") => Action::Downgrade,
        _ if line.starts_with("Removing") => Action::Remove,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Dependencies resolved.
================================================================================
 Package             Architecture   Version              Repository        Size
================================================================================
Installing:
 lab-service         noarch         1.0-1                lab              6.0 k
Installing dependencies:
 a-package-with-a-very-long-name-indeed
                     noarch         1:2.0-1              lab              6.0 k
Upgrading:
 lab-hello           noarch         2.0-1                lab              6.0 k
     replacing  lab-older.noarch 1.0-1
Removing:
 lab-extra           noarch         1.0-1                @System            4  \n
Transaction Summary
================================================================================
Install  2 Packages
";

    #[test]
    fn transaction_table_parsed() {
        let transaction = Transaction::read(TABLE);
        let expected = [
            "Installed: a-package-with-a-very-long-name-indeed-1:2.0-1.noarch",
            "Installed: lab-hello-2.0-1.noarch",
            "Installed: lab-service-1.0-1.noarch",
            "Removed: lab-extra-1.0-1.noarch",
        ];
        let mut results: Vec<String> = transaction.entries().map(|entry| entry.result(false)).collect();
        results.sort();
        assert_eq!(results, expected);
        assert_eq!(transaction.entries().filter(|entry| entry.action == Action::Upgrade).count(), 1);
        assert!(Transaction::read("Dependencies resolved.\nNothing to do.\nComplete!\n").is_empty());
    }
}
