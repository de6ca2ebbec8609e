//! Options of apt-get(8) that the task sets for all its runs.

use crate::{Args, Failure};

/// Settings of apt-get runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) purge: bool,
    pub(super) only_upgrade: bool,
    pub(super) change_held: bool,
    pub(super) force: bool,
    pub(super) default_release: Option<String>,
    /// Exit status of `policy-rc.d` during the run; 101 forbids starts of services.
    pub(super) policy: Option<i64>,
    autoremove: bool,
    /// Fails rather than removes a package.
    keep_all: bool,
    recommends: Option<bool>,
    unauthenticated: bool,
    downgrade: bool,
    pub(super) dpkg_options: Vec<String>,
}

impl Settings {
    pub(super) fn of(args: &Args) -> Result<Settings, Failure> {
        let dpkg_options = args.str("dpkg_options").unwrap_or("force-confdef,force-confold");
        Ok(Settings {
            purge: args.bool("purge"),
            only_upgrade: args.bool("only_upgrade"),
            change_held: args.bool("allow_change_held_packages"),
            force: args.bool("force"),
            default_release: args.filled("default_release").map(str::to_owned),
            policy: args.int("policy_rc_d"),
            autoremove: args.bool("autoremove"),
            keep_all: args.bool("fail_on_autoremove"),
            recommends: args.maybe_bool("install_recommends"),
            unauthenticated: args.bool("allow_unauthenticated"),
            downgrade: args.bool("allow_downgrade"),
            dpkg_options: dpkg_options
                .split(',')
                .filter(|option| !option.is_empty())
                .map(|option| format!("--{option}"))
                .collect(),
        })
    }

    /// Words of the command line that every run has.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec!["-y".to_owned()];
        for option in &self.dpkg_options {
            words.extend(["-o".to_owned(), format!("Dpkg::Options::={option}")]);
        }
        let mut add = |wanted: bool, word: &str| {
            if wanted {
                words.push(word.to_owned());
            }
        };
        add(self.purge, "--purge");
        add(self.autoremove, "--auto-remove");
        add(self.keep_all, "--no-remove");
        add(self.only_upgrade, "--only-upgrade");
        add(self.unauthenticated, "--allow-unauthenticated");
        add(self.downgrade, "--allow-downgrades");
        add(self.change_held, "--allow-change-held-packages");
        // Replaces apt-get's former `--force-yes`.
        add(self.force, "--allow-downgrades");
        add(self.force, "--allow-remove-essential");
        add(self.force, "--allow-change-held-packages");
        add(self.recommends == Some(false), "--no-install-recommends");
        add(self.recommends == Some(true), "--install-recommends");
        if let Some(release) = &self.default_release {
            words.extend(["-t".to_owned(), release.clone()]);
        }
        words
    }
}
