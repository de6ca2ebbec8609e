//! Settings: the command line, environment and ansible.cfg resolved into one value.

mod base;
pub(crate) mod callbacks;
mod choice;
mod code;
mod config;
mod connect;
#[cfg(test)]
mod defaults;
mod engine;
mod facts;
mod inventory;
mod journal;
mod output;
mod palette;
mod places;
mod plugins;
mod rejected;
mod servers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_template::Compat;

pub(crate) use base::of_variable;
pub use base::{Setting, base, base_value, value_of};
pub use callbacks::CallbackOption;
pub use choice::{FailureForm, Live, OutputForm, PendingHandlers, Progress, Show};
pub use code::CodeSettings;
pub use config::{Config, Origin};
pub use connect::{BecomeSettings, ConnectSettings};
pub use engine::EngineSettings;
pub use facts::{FactCaching, FactSettings};
pub use inventory::{InventorySettings, VaultSettings};
pub use journal::{JournalSettings, LockSettings};
pub use output::{EventsTo, OutputSettings};
pub use palette::{Color, Palette};
pub(crate) use places::extended;
pub use plugins::{PluginSetting, of_plugins};
pub use rejected::Rejected;
pub use servers::{GalaxyServer, ServerOption, galaxy_servers};

use crate::error::{Error, Result};

/// All settings, resolved. The command line outranks the environment, which outranks ansible.cfg.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Path of the ansible.cfg in use.
    pub config_file: Option<PathBuf>,
    /// Directory of the playbook, or the current one.
    pub playbook_dir: PathBuf,
    /// The inventory.
    pub inventory: InventorySettings,
    /// Passwords and identities for what is encrypted.
    pub vault: VaultSettings,
    /// Roles, modules and plugins.
    pub code: CodeSettings,
    /// Connections.
    pub connect: ConnectSettings,
    /// `become`.
    pub r#become: BecomeSettings,
    /// Facts.
    pub facts: FactSettings,
    /// The journal.
    pub journal: JournalSettings,
    /// The host lock.
    pub lock: LockSettings,
    /// The output.
    pub output: OutputSettings,
    /// Release of Ansible whose behaviour is emulated.
    pub compat: Compat,
    /// Maximum number of hosts to work on in parallel.
    pub forks: usize,
    /// Level of detail (`-v`).
    pub verbosity: u8,
    /// Whether to predict changes only (`--check`).
    pub check: bool,
    /// Whether to show differences (`--diff`).
    pub diff: bool,
    /// Maximum size of a text to diff, in bytes; 0 means no limit.
    pub max_diff_size: u64,
    /// `--tags`; `all` if none are given.
    pub tags: Vec<String>,
    /// `--skip-tags`.
    pub skip_tags: Vec<String>,
    /// Whether to ask before every task (`--step`).
    pub step: bool,
    /// Name of the task to start at (`--start-at-task`).
    pub start_at_task: Option<String>,
    /// Whether values are only explained: positions are kept, and lookups that do more than read are not run.
    pub explains: bool,
    /// Whether the run only makes a plan: results that check mode cannot know are unknown, never placeholders.
    pub plans: bool,
    /// Subcommand and playbooks of this run, shown to runs that wait for its locks.
    pub run_name: String,
    /// Default strategy of plays.
    pub strategy: String,
    /// Whether tasks and items are sent ahead of earlier answers where they do not depend on them.
    pub stream: bool,
    /// Number of processes of a run; 0 and 1 are one.
    pub shards: u16,
    /// Number of pods that have led the run so far; 0 outside of a cluster.
    pub lead: u32,
    /// Runs in a cluster.
    pub engine: EngineSettings,
    /// Default time limit of tasks, in seconds; 0 means none.
    pub task_timeout: u64,
    /// Time limit for programs on the controller: lookups, inventory scripts and Python plugins. `None` means no limit.
    pub command_timeout: Option<Duration>,
    /// Interval in seconds at which jobs (`async`) are polled if the task has no `poll`.
    pub poll_interval: u64,
    /// Directory of job status files on hosts.
    pub async_dir: String,
    /// Limit for registered results on disk, in bytes.
    pub results_on_disk: u64,
    /// Whether failed tasks start the debugger.
    pub task_debugger: bool,
    /// Whether the debugger skips ignored failures.
    pub task_debugger_ignore_errors: bool,
    /// Whether handlers also run on failed hosts.
    pub force_handlers: bool,
    /// Whether notifying an unknown handler is an error.
    pub error_on_missing_handler: bool,
    /// Whether any failure ends the play for all hosts.
    pub any_errors_fatal: bool,
    /// Whether results and arguments of every task are hidden.
    pub no_log: bool,
    /// Before 2.19: whether templates yield typed values, and `set_fact` keeps texts like `yes`. 2.19 always does.
    pub jinja2_native: bool,
    /// Whether a condition may evaluate to something other than a boolean.
    pub allow_broken_conditionals: bool,
    /// Whether roles keep their variables private. If unset, only included roles do.
    pub private_role_vars: Option<bool>,
    /// Whether dictionaries of the same name are merged instead of replaced (`hash_behaviour`).
    pub merge_hashes: bool,
    /// Policy for duplicate keys in a mapping.
    pub duplicate_keys: windlass_yaml::DuplicateKeys,
    /// Value of `ansible_managed`.
    pub ansible_managed: String,
    /// Whether to warn about deprecated features.
    pub deprecation_warnings: bool,
    /// Warnings about files that settings name.
    pub warnings: Vec<String>,
    /// Settings that have no effect in Windlass, each with its source.
    pub unsupported: Vec<String>,
}

impl Settings {
    /// Resolves the environment and ansible.cfg. The command line is applied later.
    pub fn from_config(config: &Config) -> Result<Settings> {
        config.check()?;
        let mut warnings = Vec::new();
        let code = CodeSettings::from_config(config, &mut warnings)?;
        let tags = config.list("tags.run");
        Ok(Settings {
            config_file: config.file.clone(),
            playbook_dir: match config.get("playbook_dir").filter(|dir| !dir.is_empty()) {
                Some(dir) => expand_home(&dir),
                None => std::env::current_dir().unwrap_or_default(),
            },
            inventory: InventorySettings::from_config(config)?,
            vault: VaultSettings::from_config(config)?,
            code,
            connect: ConnectSettings::from_config(config)?,
            r#become: BecomeSettings::from_config(config)?,
            facts: FactSettings::from_config(config)?,
            journal: JournalSettings::from_config(config)?,
            lock: LockSettings::from_config(config)?,
            output: OutputSettings::from_config(config)?,
            compat: compat(config)?,
            forks: config.number("forks")?.unwrap_or(50),
            verbosity: config.number("verbosity")?.unwrap_or(0),
            check: false,
            diff: config.bool("diff.always")?.unwrap_or(false),
            max_diff_size: config.number("max_diff_size")?.unwrap_or(104_448),
            tags: if tags.is_empty() { vec!["all".to_owned()] } else { tags },
            skip_tags: config.list("tags.skip"),
            step: false,
            start_at_task: None,
            explains: false,
            plans: false,
            run_name: String::new(),
            strategy: config.get("strategy").unwrap_or_else(|| "linear".to_owned()),
            stream: config.bool("stream")?.unwrap_or(true),
            shards: config.number("shards")?.unwrap_or(1),
            lead: 0,
            engine: EngineSettings::from_config(config),
            task_timeout: config.number("task_timeout")?.unwrap_or(0),
            command_timeout: seconds(config, "command_timeout", windlass_bounds::child::DEADLINE)?,
            poll_interval: config.number("poll_interval")?.unwrap_or(15),
            async_dir: config.get("async_dir").unwrap_or_else(|| "~/.ansible_async".to_owned()),
            results_on_disk: config.number("results_on_disk")?.unwrap_or(32 << 30),
            task_debugger: config.bool("enable_task_debugger")?.unwrap_or(false),
            task_debugger_ignore_errors: config.bool("task_debugger_ignore_errors")?.unwrap_or(true),
            force_handlers: config.bool("force_handlers")?.unwrap_or(false),
            error_on_missing_handler: config.bool("error_on_missing_handler")?.unwrap_or(true),
            any_errors_fatal: config.bool("any_errors_fatal")?.unwrap_or(false),
            no_log: config.bool("no_log")?.unwrap_or(false),
            jinja2_native: config.bool("jinja2_native")?.unwrap_or(false),
            allow_broken_conditionals: config.bool("allow_broken_conditionals")?.unwrap_or(false),
            private_role_vars: config.bool("private_role_vars")?,
            merge_hashes: config.get("hash_behaviour").is_some_and(|word| word == "merge"),
            duplicate_keys: match config.get("duplicate_dict_key").as_deref() {
                Some("error") => windlass_yaml::DuplicateKeys::Error,
                Some("ignore") => windlass_yaml::DuplicateKeys::Ignore,
                _ => windlass_yaml::DuplicateKeys::Warn,
            },
            ansible_managed: config.get("ansible_managed").unwrap_or_else(|| "Ansible managed".to_owned()),
            deprecation_warnings: config.bool("deprecation_warnings")?.unwrap_or(true),
            unsupported: config.unsupported(),
            warnings,
        })
    }

    /// A path with `~` expanded.
    pub fn expand(&self, text: &str) -> PathBuf {
        expand_home(text)
    }
}

/// Release of Ansible to follow.
fn compat(config: &Config) -> Result<Compat> {
    let Some(name) = config.get("compat") else { return Ok(Compat::default()) };
    Compat::named(&name).ok_or_else(|| Error::usage(format!("compat must be 2.18 or 2.19, not '{name}'")))
}

/// Reads a setting in seconds; 0 means no limit.
fn seconds(config: &Config, name: &str, default: Duration) -> Result<Option<Duration>> {
    let given = config.number(name)?.map(Duration::from_secs);
    Ok(Some(given.unwrap_or(default)).filter(|time| !time.is_zero()))
}

/// Whether the text of a setting means true.
pub fn is_true(text: &str) -> bool {
    boolean(text) == Some(true)
}

/// Value of a word for true or false, where an empty text is false; `None` for any other word.
fn boolean(text: &str) -> Option<bool> {
    if text.trim().is_empty() { Some(false) } else { windlass_yaml::boolean::word(text) }
}

/// Expands a leading `~`.
pub fn expand_home(text: &str) -> PathBuf {
    match (text.strip_prefix('~'), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            Path::new(&home).join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(text),
    }
}
