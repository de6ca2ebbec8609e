//! Settings: the command line, environment and ansible.cfg resolved into one value.

mod base;
mod choice;
mod config;
mod lookup;
mod places;
mod plugins;
mod rejected;
mod servers;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use base::{Setting, base, base_value, value_of};
use choice::chosen;
pub use choice::{PendingHandlers, Progress, Show};
pub use config::{Config, Origin};
pub(crate) use lookup::BaseSettings;
pub use plugins::{PluginSetting, of_plugins};
pub use rejected::Rejected;
pub use servers::{GalaxyServer, ServerOption, galaxy_servers};

use crate::connection::Secret;
use crate::error::{Error, Result};

/// All settings, resolved. The command line outranks the environment, which outranks ansible.cfg.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Path of the ansible.cfg in use.
    pub config_file: Option<PathBuf>,
    /// Inventory sources.
    pub inventory: Vec<String>,
    /// `--limit`.
    pub limit: Option<String>,
    /// Maximum number of hosts to work on in parallel.
    pub forks: usize,
    /// Level of detail (`-v`).
    pub verbosity: u8,
    /// Whether to predict changes only (`--check`).
    pub check: bool,
    /// Whether to show differences (`--diff`).
    pub diff: bool,
    /// Whether the default callback explains changes in a few lines instead of showing differences (`--why`).
    pub why: bool,
    /// `--tags`; `all` if none are given.
    pub tags: Vec<String>,
    /// `--skip-tags`.
    pub skip_tags: Vec<String>,
    /// Search path for roles.
    pub roles_path: Vec<PathBuf>,
    /// Search path for collections.
    pub collections_path: Vec<PathBuf>,
    /// Search path for modules, after the project's own.
    pub library: Vec<PathBuf>,
    /// `--module-path`: searched for modules first.
    pub module_path: Vec<PathBuf>,
    /// Search path for `module_utils` of Python modules, after the project's own.
    pub module_utils: Vec<PathBuf>,
    /// Search paths for filters, tests and lookups in Python, after the project's own.
    pub plugins: HashMap<windlass_template::PluginKind, Vec<PathBuf>>,
    /// Path of Python on hosts, or `auto` to search for it.
    pub interpreter_python: String,
    /// Names of Python that `auto` searches for, in this order.
    pub interpreter_python_fallback: Vec<String>,
    /// Limit of open files for Python modules; 0 keeps the host's limit.
    pub python_module_rlimit_nofile: u64,
    /// Directory of ansible-core on this machine, if it is installed.
    pub ansible_core: Option<PathBuf>,
    /// Directory of the playbook, or the current one.
    pub playbook_dir: PathBuf,
    /// Default connection type of hosts.
    pub connection: String,
    /// Login user; `None` leaves it to ssh_config.
    pub remote_user: Option<String>,
    /// SSH port; `None` leaves it to ssh_config.
    pub remote_port: Option<u16>,
    /// Private key for the login.
    pub private_key_file: Option<PathBuf>,
    /// Login password (`--ask-pass`).
    pub connection_password: Option<Secret>,
    /// Time limit for connecting, in seconds.
    pub timeout: u64,
    /// Default time limit of tasks, in seconds; 0 means none.
    pub task_timeout: u64,
    /// Interval in seconds at which jobs (`async`) are polled if the task has no `poll`.
    pub poll_interval: u64,
    /// Directory of job status files on hosts.
    pub async_dir: String,
    /// Whether failures are shown for a person: as text, and in a list at the end.
    pub readable_failures: bool,
    /// Form in which the progress of a run is shown.
    pub progress: Progress,
    /// Silence after which a line names the running tasks, if there is no footer; `None` prints none.
    pub progress_interval: Option<Duration>,
    /// Whether the subcommand may draw a footer at the terminal.
    pub footer: bool,
    /// Whether durations follow the recap.
    pub shows_durations: bool,
    /// Results that the default callback prints.
    pub show: Show,
    /// Whether to ask before every task (`--step`).
    pub step: bool,
    /// Whether values are only explained: positions are kept, and lookups that do more than read are not run.
    pub explains: bool,
    /// Whether the run only makes a plan: results that check mode cannot know are unknown, never placeholders.
    pub plans: bool,
    /// Name of the task to start at (`--start-at-task`).
    pub start_at_task: Option<String>,
    /// Whether to print a breakdown of time at the end.
    pub timings: bool,
    /// Destination of events as JSON lines.
    pub events: Option<crate::output::EventsTo>,
    /// File for a trace of the run.
    pub trace: Option<PathBuf>,
    /// Default strategy of plays.
    pub strategy: String,
    /// Whether failed tasks start the debugger.
    pub task_debugger: bool,
    /// Whether the debugger skips ignored failures.
    pub task_debugger_ignore_errors: bool,
    /// Number of further attempts to connect.
    pub connection_retries: u32,
    /// `ssh_args` of ansible.cfg.
    pub ssh_args: Option<String>,
    /// `ssh_common_args`.
    pub ssh_common_args: Option<String>,
    /// `ssh_extra_args`.
    pub ssh_extra_args: Option<String>,
    /// Whether host keys are verified.
    pub host_key_checking: bool,
    /// Whether unknown host keys are accepted and added to known_hosts.
    pub accept_new_host_keys: bool,
    /// SSH options (`-o`) of the command line, which override all others.
    pub ssh_options: Vec<String>,
    /// Directory for the executor on hosts.
    pub remote_tmp: Option<String>,
    /// Whether to become another user (`--become`).
    pub r#become: bool,
    /// Default become method.
    pub become_method: String,
    /// Default become user.
    pub become_user: String,
    /// Program to use instead of the become method's own.
    pub become_exe: Option<String>,
    /// Flags to use instead of the become method's own.
    pub become_flags: Option<String>,
    /// Become password (`--ask-become-pass`).
    pub become_password: Option<Secret>,
    /// Policy for gathering facts: `implicit`, `explicit` or `smart`.
    pub gathering: String,
    /// Whether handlers also run on failed hosts.
    pub force_handlers: bool,
    /// Whether any failure ends the play for all hosts.
    pub any_errors_fatal: bool,
    /// Whether facts are also top-level variables (`ansible_hostname` beside `ansible_facts.hostname`).
    pub inject_facts: bool,
    /// Before 2.19: whether templates yield typed values, and `set_fact` keeps texts like `yes`. 2.19 always does.
    pub jinja2_native: bool,
    /// Whether roles keep their variables private. If unset, only included roles do.
    pub private_role_vars: Option<bool>,
    /// Modules that may not be used.
    pub rejected: Rejected,
    /// Whether dictionaries of the same name are merged instead of replaced (`hash_behaviour`).
    pub merge_hashes: bool,
    /// Directory of facts cached between runs, in the format of `jsonfile`.
    pub fact_cache: Option<PathBuf>,
    /// Prefix of file names in that cache.
    pub fact_cache_prefix: String,
    /// Seconds after which cached facts expire; 0 means never.
    pub fact_cache_timeout: u64,
    /// Whether a condition may evaluate to something other than a boolean.
    pub allow_broken_conditionals: bool,
    /// Whether to warn about deprecated features.
    pub deprecation_warnings: bool,
    /// Whether notifying an unknown handler is an error.
    pub error_on_missing_handler: bool,
    /// Value of `ansible_managed`.
    pub ansible_managed: String,
    /// Whether results and arguments of every task are hidden.
    pub no_log: bool,
    /// Lines of context around a change in diffs.
    pub diff_context: usize,
    /// Maximum size of a text to diff, in bytes; 0 means no limit.
    pub max_diff_size: u64,
    /// Policy for duplicate keys in a mapping.
    pub duplicate_keys: windlass_yaml::DuplicateKeys,
    /// Release of Ansible whose behaviour is emulated.
    pub compat: windlass_template::Compat,
    /// Whether tasks and items are sent ahead of earlier answers where they do not depend on them.
    pub stream: bool,
    /// Time limit for programs on the controller: lookups, inventory scripts and Python plugins. `None` means no limit.
    pub command_timeout: Option<Duration>,
    /// Silence after which a host counts as lost; `None` means never.
    pub heartbeat_timeout: Option<Duration>,
    /// Maximum size of a file that a host may send (`fetch`), in bytes.
    pub max_fetch_size: u64,
    /// Whether hosts pass large files on to each other.
    pub peer_transfer: bool,
    /// Port at which they listen for that; 0 is any free one.
    pub peer_port: u16,
    /// Files with identities of age; `None` uses the places where sops looks.
    pub age_identities: Option<Vec<PathBuf>>,
    /// Limit for registered results on disk, in bytes.
    pub results_on_disk: u64,
    /// Whether the run keeps a journal.
    pub journal: bool,
    /// Directory of journals and ledgers; `None` uses the default.
    pub journal_dir: Option<PathBuf>,
    /// Number of journals to keep; 0 means no limit.
    pub journal_runs: usize,
    /// Days to keep journals; 0 means no limit.
    pub journal_days: u64,
    /// Policy for handlers that earlier runs notified but never ran.
    pub pending_handlers: PendingHandlers,
    /// Policy for hosts locked by another run.
    pub lock: crate::executor::LockPolicy,
    /// Whether `lock` was set explicitly.
    pub lock_is_chosen: bool,
    /// Seconds to wait for a host locked by another run.
    pub lock_timeout: u64,
    /// Subcommand and playbooks of this run, shown to runs that wait for its locks.
    pub run_name: String,
    /// Name of the stdout callback.
    pub stdout_callback: String,
    /// Names of additional callbacks.
    pub callbacks_enabled: Vec<String>,
    /// Whether ad-hoc commands use these callbacks too.
    pub adhoc_callbacks: bool,
    /// Whether banners show the arguments of tasks.
    pub display_args_to_stdout: bool,
    /// Directory of the tree callback, if the command line sets one.
    pub tree: Option<PathBuf>,
    /// File that logs all output.
    pub log_path: Option<PathBuf>,
    /// Verbosity of the log; `None` follows the command line.
    pub log_verbosity: Option<u8>,
    /// Whether to write a file with the failed hosts.
    pub retry_files: bool,
    /// Directory of that file; `None` uses the playbook's.
    pub retry_folder: Option<PathBuf>,
    /// Whether to warn that localhost is the only host.
    pub localhost_warning: bool,
    /// Colours of the output.
    pub palette: crate::output::Palette,
    /// Whether to use colours.
    pub color: bool,
    /// Vault sources in the form `label@source`.
    pub vault_ids: Vec<String>,
    /// Whether only passwords with an envelope's own label are tried.
    pub vault_id_match: bool,
    /// Label of the password to encrypt with.
    pub vault_encrypt_identity: Option<String>,
    /// Fixed salt of all envelopes, instead of a random one.
    pub vault_encrypt_salt: Option<String>,
    /// Whether to ask for the vault password if no other source is set.
    pub ask_vault_pass: bool,
    /// Policy for host patterns without a match: `warning`, `error` or `ignore`.
    pub host_pattern_mismatch: String,
    /// Patterns for names of entries that are ignored in inventory directories.
    pub inventory_ignore_patterns: Vec<String>,
    /// File extensions ignored in inventory directories; Ansible's list if empty.
    pub inventory_ignore_extensions: Vec<String>,
    /// Whether an unreadable inventory source is an error.
    pub any_unparsed_is_failed: bool,
    /// Whether it is an error if no inventory source is readable.
    pub unparsed_is_failed: bool,
    /// Inventory plugins in the order they are tried; Ansible's list if empty.
    pub inventory_plugins: Vec<String>,
    /// Whether `constructed` inventories see extra variables.
    pub inventory_use_extra_vars: bool,
    /// Whether `windlass inventory` shows variables where they are set.
    pub inventory_export: bool,
    /// Policy for group names that are not valid variable names.
    pub group_names: windlass_inventory::GroupNames,
    /// Warnings about files that settings name.
    pub warnings: Vec<String>,
    /// Settings that have no effect in Windlass, each with its source.
    pub unsupported: Vec<String>,
}

/// Names of Python searched for on a host if none is set, in this order.
const INTERPRETER_PYTHON_FALLBACK: &[&str] =
    &["python3.13", "python3.12", "python3.11", "python3.10", "python3.9", "python3.8", "/usr/bin/python3", "python3"];

impl Settings {
    /// Whether the run measures times.
    pub fn takes_times(&self) -> bool {
        self.timings || self.trace.is_some()
    }

    /// Resolves the environment and ansible.cfg. The command line is applied later.
    pub fn from_config(config: &Config) -> Result<Settings> {
        config.check()?;
        let mut warnings = Vec::new();
        let home = std::env::var("ANSIBLE_HOME").unwrap_or_else(|_| "~/.ansible".to_owned());
        let below = |name: &str| {
            vec![
                expand_home(&format!("{home}/{name}")),
                PathBuf::from(format!("/usr/share/ansible/{name}")),
                PathBuf::from(format!("/etc/ansible/{name}")),
            ]
        };
        let plugins = |name: &str| {
            vec![
                expand_home(&format!("{home}/plugins/{name}")),
                PathBuf::from(format!("/usr/share/ansible/plugins/{name}")),
            ]
        };
        let list = |name: &str| -> Vec<String> {
            config
                .get(name)
                .map(|text| text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
                .unwrap_or_default()
        };
        let mut vault_ids = list("vault_identity_list");
        if let Some(file) = config.path_of("vault_password_file") {
            vault_ids.push(file.display().to_string());
        }
        let inventory = match config.get("inventory") {
            None => Vec::new(),
            Some(text) if text.contains(',') => vec![text],
            Some(_) => config.path_of("inventory").iter().map(|path| path.display().to_string()).collect(),
        };
        let interactive = std::io::IsTerminal::is_terminal(&std::io::stdout());
        // A setting of a person must not change what scripts read.
        let show = chosen(config, "show", Show::All)?;
        Ok(Settings {
            inventory,
            limit: None,
            forks: config.number("forks")?.unwrap_or(50),
            verbosity: config.number("verbosity")?.unwrap_or(0),
            check: false,
            diff: config.bool("diff.always").unwrap_or(false),
            why: false,
            tags: Some(list("tags.run")).filter(|tags| !tags.is_empty()).unwrap_or_else(|| vec!["all".to_owned()]),
            skip_tags: list("tags.skip"),
            roles_path: config.paths("roles_path").unwrap_or_else(|| below("roles")),
            collections_path: config
                .paths("collections_path")
                .unwrap_or_else(|| below("collections").into_iter().take(2).collect()),
            library: config.paths("library").unwrap_or_else(|| plugins("modules")),
            module_path: Vec::new(),
            module_utils: config.paths("module_utils").unwrap_or_else(|| plugins("module_utils")),
            plugins: [
                (windlass_template::PluginKind::Filter, "filter_plugins", "filter"),
                (windlass_template::PluginKind::Test, "test_plugins", "test"),
                (windlass_template::PluginKind::Lookup, "lookup_plugins", "lookup"),
            ]
            .map(|(kind, setting, folder)| (kind, config.paths(setting).unwrap_or_else(|| plugins(folder))))
            .into(),
            interpreter_python: config.get("interpreter_python").unwrap_or_else(|| "auto".to_owned()),
            interpreter_python_fallback: Some(list("interpreter_python_fallback"))
                .filter(|names| !names.is_empty())
                .unwrap_or_else(|| INTERPRETER_PYTHON_FALLBACK.iter().map(|name| (*name).to_owned()).collect()),
            python_module_rlimit_nofile: config.number("python_module_rlimit_nofile")?.unwrap_or(0),
            ansible_core: config.get("ansible_core").map(|place| config.path(&place)),
            playbook_dir: match config.get("playbook_dir").filter(|dir| !dir.is_empty()) {
                Some(dir) => expand_home(&dir),
                None => std::env::current_dir().unwrap_or_default(),
            },
            connection: config.get("transport").unwrap_or_else(|| "ssh".to_owned()),
            remote_user: config.get("remote_user"),
            remote_port: config.number("remote_port")?,
            private_key_file: config.get("private_key_file").map(|file| config.path(&file)),
            connection_password: None,
            timeout: config.number("timeout")?.unwrap_or(10),
            task_timeout: config.number("task_timeout")?.unwrap_or(0),
            poll_interval: config.number("poll_interval")?.unwrap_or(15),
            async_dir: config.get("async_dir").unwrap_or_else(|| "~/.ansible_async".to_owned()),
            step: false,
            explains: false,
            plans: false,
            start_at_task: None,
            timings: false,
            events: None,
            trace: None,
            strategy: config.get("strategy").unwrap_or_else(|| "linear".to_owned()),
            task_debugger: config.bool("enable_task_debugger").unwrap_or(false),
            task_debugger_ignore_errors: config.bool("task_debugger_ignore_errors").unwrap_or(true),
            connection_retries: config.number("reconnection_retries")?.unwrap_or(2),
            ssh_args: config.get("ssh_args"),
            ssh_common_args: config.get("ssh_common_args"),
            ssh_extra_args: config.get("ssh_extra_args"),
            host_key_checking: config.bool("host_key_checking").unwrap_or(true),
            accept_new_host_keys: config.bool("accept_new_host_keys").unwrap_or(false),
            ssh_options: Vec::new(),
            remote_tmp: config.get("remote_tmp"),
            r#become: config.bool("become").unwrap_or(false),
            become_method: config.get("become_method").unwrap_or_else(|| "sudo".to_owned()),
            become_user: config.get("become_user").unwrap_or_else(|| "root".to_owned()),
            become_exe: config.get("become_exe"),
            become_flags: config.get("become_flags"),
            become_password: None,
            gathering: config.get("gathering").unwrap_or_else(|| "implicit".to_owned()),
            force_handlers: config.bool("force_handlers").unwrap_or(false),
            any_errors_fatal: config.bool("any_errors_fatal").unwrap_or(false),
            jinja2_native: config.bool("jinja2_native").unwrap_or(false),
            merge_hashes: config.get("hash_behaviour").is_some_and(|word| word == "merge"),
            fact_cache: fact_cache(config)?,
            fact_cache_prefix: config.get("fact_caching_prefix").unwrap_or_default(),
            fact_cache_timeout: config.number("fact_caching_timeout")?.unwrap_or(86_400),
            private_role_vars: config.bool("private_role_vars"),
            rejected: Rejected::read(config, &mut warnings)?,
            inject_facts: config.bool("inject_facts_as_vars").unwrap_or(true),
            allow_broken_conditionals: config.bool("allow_broken_conditionals").unwrap_or(false),
            deprecation_warnings: config.bool("deprecation_warnings").unwrap_or(true),
            error_on_missing_handler: config.bool("error_on_missing_handler").unwrap_or(true),
            ansible_managed: config.get("ansible_managed").unwrap_or_else(|| "Ansible managed".to_owned()),
            no_log: config.bool("no_log").unwrap_or(false),
            diff_context: config.number("diff.context")?.unwrap_or(3),
            max_diff_size: config.number("max_diff_size")?.unwrap_or(104_448),
            duplicate_keys: match config.get("duplicate_dict_key").as_deref() {
                Some("error") => windlass_yaml::DuplicateKeys::Error,
                Some("ignore") => windlass_yaml::DuplicateKeys::Ignore,
                _ => windlass_yaml::DuplicateKeys::Warn,
            },
            compat: match config.get("compat").as_deref() {
                None | Some("2.19") => windlass_template::Compat::V2_19,
                Some("2.18") => windlass_template::Compat::V2_18,
                Some(other) => return Err(Error::usage(format!("compat must be 2.18 or 2.19, not '{other}'"))),
            },
            readable_failures: match config.get("failures").as_deref() {
                None | Some("auto") => interactive,
                Some("readable") => true,
                Some("ansible") => false,
                Some(other) => {
                    return Err(Error::usage(format!("failures must be auto, readable or ansible, not '{other}'")));
                }
            },
            progress: chosen(config, "progress", Progress::Auto)?,
            footer: false,
            shows_durations: interactive,
            show: if interactive { show } else { Show::All },
            progress_interval: seconds(config, "progress_interval", Duration::from_secs(30))?,
            stream: config.bool("stream").unwrap_or(true),
            command_timeout: seconds(config, "command_timeout", windlass_bounds::child::DEADLINE)?,
            heartbeat_timeout: seconds(config, "heartbeat_timeout", Duration::from_secs(120))?,
            max_fetch_size: config.number("max_fetch_size")?.unwrap_or(crate::executor::LARGEST_FILE),
            peer_transfer: config.bool("peer_transfer").unwrap_or(false),
            peer_port: config.number("peer_port")?.unwrap_or(0),
            age_identities: config.paths("age_identities"),
            results_on_disk: config.number("results_on_disk")?.unwrap_or(32 << 30),
            journal: config.bool("journal").unwrap_or(true),
            journal_dir: config.path_of("journal_dir").map(|path| crate::vars::absolute(&path)),
            journal_runs: config.number("journal_runs")?.unwrap_or(100),
            journal_days: config.number("journal_days")?.unwrap_or(90),
            pending_handlers: chosen(config, "pending_handlers", PendingHandlers::Ask)?,
            lock: match config.get("lock") {
                None => crate::executor::LockPolicy::Wait,
                Some(text) => text.parse().map_err(Error::usage)?,
            },
            lock_is_chosen: config.get("lock").is_some(),
            lock_timeout: config.number("lock_timeout")?.unwrap_or(1800),
            run_name: String::new(),
            stdout_callback: config.get("stdout_callback").unwrap_or_else(|| "default".to_owned()),
            callbacks_enabled: list("callbacks_enabled"),
            adhoc_callbacks: config.bool("bin_ansible_callbacks").unwrap_or(false),
            display_args_to_stdout: config.bool("display_args_to_stdout").unwrap_or(false),
            tree: None,
            localhost_warning: config.bool("localhost_warning").unwrap_or(true),
            retry_files: config.bool("retry_files_enabled").unwrap_or(false),
            retry_folder: config.path_of("retry_files_save_path"),
            log_path: config.get("log_path").filter(|path| !path.is_empty()).map(|path| config.path(&path)),
            log_verbosity: config.number("log_verbosity")?,
            palette: crate::output::Palette::of(config)?,
            color: config.bool("force_color").unwrap_or(false) || (interactive && config.get("nocolor").is_none()),
            vault_ids,
            vault_id_match: config.bool("vault_id_match").unwrap_or(false),
            vault_encrypt_identity: config.get("vault_encrypt_identity"),
            vault_encrypt_salt: config.get("vault_encrypt_salt"),
            ask_vault_pass: config.bool("ask_vault_pass").unwrap_or(false),
            host_pattern_mismatch: config.get("host_pattern_mismatch").unwrap_or_else(|| "warning".to_owned()),
            inventory_ignore_patterns: list("ignore_patterns"),
            inventory_ignore_extensions: list("ignore_extensions"),
            any_unparsed_is_failed: config.bool("any_unparsed_is_failed").unwrap_or(false),
            unparsed_is_failed: config.bool("unparsed_is_failed").unwrap_or(false),
            inventory_plugins: list("enable_plugins"),
            inventory_use_extra_vars: config.bool("use_extra_vars").unwrap_or(false),
            inventory_export: config.bool("inventory.export").unwrap_or(false),
            group_names: match config.get("force_valid_group_names").as_deref() {
                Some("always") => windlass_inventory::GroupNames::Always,
                Some("silently") => windlass_inventory::GroupNames::Silently,
                Some("ignore") => windlass_inventory::GroupNames::Ignore,
                _ => windlass_inventory::GroupNames::Never,
            },
            unsupported: config.unsupported(),
            warnings,
            config_file: config.file.clone(),
        })
    }

    /// A path with `~` expanded.
    pub fn expand(&self, text: &str) -> PathBuf {
        expand_home(text)
    }
}

/// Reads a setting in seconds; 0 means no limit.
fn seconds(config: &Config, name: &str, default: Duration) -> Result<Option<Duration>> {
    let given = config.number(name)?.map(Duration::from_secs);
    Ok(Some(given.unwrap_or(default)).filter(|time| !time.is_zero()))
}

/// Whether the text of a setting means true.
pub fn is_true(text: &str) -> bool {
    matches!(text.trim().to_lowercase().as_str(), "true" | "yes" | "on" | "1" | "1.0" | "t" | "y")
}

/// Directory of cached facts, if they are stored in files.
fn fact_cache(config: &Config) -> Result<Option<PathBuf>> {
    let plugin = config.get("fact_caching").unwrap_or_else(|| "memory".to_owned());
    match plugin.rsplit('.').next() {
        Some("memory") => Ok(None),
        Some("jsonfile") => match config.paths("fact_caching_connection").unwrap_or_default().into_iter().next() {
            Some(folder) => Ok(Some(folder)),
            None => {
                Err(Error::usage("fact_caching = jsonfile needs fact_caching_connection: the directory of the files"))
            }
        },
        _ => Err(Error::usage(format!("fact_caching '{plugin}' is not supported; use memory or jsonfile"))),
    }
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
