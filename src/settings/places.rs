//! Settings with an effect in Windlass, and their sources.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::base::{Setting, base};
use super::callbacks;
use super::plugins::of_plugins;

/// Environment variables, and sections and keys of ansible.cfg. Of several that are set the last one counts.
type Places = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// Base settings with an effect, by their key in ansible.cfg. The section is added where the key is ambiguous.
const EFFECTIVE: &[&str] = &[
    "action_plugins",
    "allow_broken_conditionals",
    "ansible_core",
    "any_errors_fatal",
    "any_unparsed_is_failed",
    "ask_pass",
    "ask_vault_pass",
    "become",
    "become_ask_pass",
    "become_exe",
    "become_flags",
    "become_method",
    "become_password_file",
    "become_user",
    "bin_ansible_callbacks",
    "cache_plugins",
    "callback_plugins",
    "callbacks_enabled",
    "compat",
    "connection_password_file",
    "deprecation_warnings",
    "diff.always",
    "diff.context",
    "display_args_to_stdout",
    "duplicate_dict_key",
    "enable_plugins",
    "enable_task_debugger",
    "error_on_missing_handler",
    "fact_caching",
    "fact_caching_connection",
    "fact_caching_prefix",
    "fact_caching_timeout",
    "filter_plugins",
    "force_color",
    "force_handlers",
    "force_valid_group_names",
    "forks",
    "gathering",
    "hash_behaviour",
    "host_pattern_mismatch",
    "ignore_extensions",
    "ignore_patterns",
    "inject_facts_as_vars",
    "interpreter_python",
    "inventory",
    "inventory.export",
    "jinja2_native",
    "library",
    "localhost_warning",
    "log_path",
    "log_verbosity",
    "lookup_plugins",
    "max_diff_size",
    "module_args",
    "module_name",
    "module_utils",
    "no_log",
    "nocolor",
    "playbook_dir",
    "plugin_filters_cfg",
    "poll_interval",
    "private_key_file",
    "private_role_vars",
    "python_module_rlimit_nofile",
    "remote_port",
    "remote_user",
    "retry_files_enabled",
    "retry_files_save_path",
    "roles_path",
    "stdout_callback",
    "strategy",
    "tags.run",
    "tags.skip",
    "task_debugger_ignore_errors",
    "task_timeout",
    "test_plugins",
    "transport",
    "unparsed_is_failed",
    "vault_encrypt_identity",
    "vault_encrypt_salt",
    "vault_id_match",
    "vault_identity",
    "vault_identity_list",
    "vars_plugins",
    "vars_plugins_enabled",
    "vault_password_file",
    "verbosity",
];

/// Plugin settings with an effect: for connections `ssh`'s, and the shell's.
const OF_PLUGINS: &[(&str, &[&str])] = &[
    ("ssh", &["host_key_checking", "reconnection_retries", "ssh_args", "ssh_common_args", "ssh_extra_args", "timeout"]),
    ("sh", &["async_dir", "remote_tmp"]),
];

/// Settings of Windlass itself, and settings of ansible-core that have additional sources here.
const OTHERS: &[(&str, Places)] = &[
    ("accept_new_host_keys", (&["WINDLASS_ACCEPT_NEW_HOST_KEYS"], &[("windlass", "accept_new_host_keys")])),
    ("ansible_managed", (&["ANSIBLE_MANAGED"], &[("defaults", "ansible_managed")])),
    (
        "collections_path",
        (
            &["ANSIBLE_COLLECTIONS_PATHS", "ANSIBLE_COLLECTIONS_PATH"],
            &[("defaults", "collections_paths"), ("defaults", "collections_path")],
        ),
    ),
    (
        "interpreter_python_fallback",
        (&["ANSIBLE_INTERPRETER_PYTHON_FALLBACK"], &[("defaults", "interpreter_python_fallback")]),
    ),
    ("command_timeout", (&["WINDLASS_COMMAND_TIMEOUT"], &[("windlass", "command_timeout")])),
    ("engine_image", (&["WINDLASS_ENGINE_IMAGE"], &[("windlass", "engine_image")])),
    ("engine_namespace", (&["WINDLASS_ENGINE_NAMESPACE"], &[("windlass", "engine_namespace")])),
    ("failures", (&["WINDLASS_FAILURES"], &[("windlass", "failures")])),
    ("progress", (&["WINDLASS_PROGRESS"], &[("windlass", "progress")])),
    ("show", (&["WINDLASS_SHOW"], &[("windlass", "show")])),
    ("progress_interval", (&["WINDLASS_PROGRESS_INTERVAL"], &[("windlass", "progress_interval")])),
    ("heartbeat_timeout", (&["WINDLASS_HEARTBEAT_TIMEOUT"], &[("windlass", "heartbeat_timeout")])),
    ("peer_transfer", (&["WINDLASS_PEER_TRANSFER"], &[("windlass", "peer_transfer")])),
    ("peer_port", (&["WINDLASS_PEER_PORT"], &[("windlass", "peer_port")])),
    ("max_fetch_size", (&["WINDLASS_MAX_FETCH_SIZE"], &[("windlass", "max_fetch_size")])),
    ("age_identities", (&["WINDLASS_AGE_IDENTITIES"], &[("windlass", "age_identities")])),
    ("results_on_disk", (&["WINDLASS_RESULTS_ON_DISK"], &[("windlass", "results_on_disk")])),
    ("journal", (&["WINDLASS_JOURNAL"], &[("windlass", "journal")])),
    ("journal_days", (&["WINDLASS_JOURNAL_DAYS"], &[("windlass", "journal_days")])),
    ("journal_dir", (&["WINDLASS_JOURNAL_DIR"], &[("windlass", "journal_dir")])),
    ("journal_runs", (&["WINDLASS_JOURNAL_RUNS"], &[("windlass", "journal_runs")])),
    ("pending_handlers", (&["WINDLASS_PENDING_HANDLERS"], &[("windlass", "pending_handlers")])),
    ("otlp_endpoint", (&["OTEL_EXPORTER_OTLP_ENDPOINT"], &[("windlass", "otlp_endpoint")])),
    ("lock", (&["WINDLASS_LOCK"], &[("windlass", "lock")])),
    ("lock_timeout", (&["WINDLASS_LOCK_TIMEOUT"], &[("windlass", "lock_timeout")])),
    ("shards", (&["WINDLASS_SHARDS"], &[("windlass", "shards")])),
    ("stream", (&["WINDLASS_STREAM"], &[("windlass", "stream")])),
    (
        "use_extra_vars",
        (
            &["ANSIBLE_INVENTORY_USE_EXTRA_VARS"],
            &[("inventory", "use_extra_vars"), ("inventory_plugins", "use_extra_vars")],
        ),
    ),
];

/// Settings of ansible.cfg that are safe to ignore: they concern Python, temporary files and processes that do not
/// exist here.
pub(super) const WITHOUT_MEANING: &[&str] = &[
    "pipelining",
    "local_tmp",
    "control_path",
    "control_path_dir",
    "nocows",
    "system_warnings",
    "devel_warning",
    "action_warnings",
    "transfer_method",
    "scp_if_ssh",
    "keep_remote_files",
    "usetty",
    "command_warnings",
    "cow_selection",
    "allow_world_readable_tmpfiles",
    "become_allow_same_user",
    "agnostic_become_prompt",
    "cowpath",
    "cowsay_enabled_stencils",
    "display_traceback",
    "editor",
    "pager",
    "home",
    "internal_poll_interval",
    "module_compression",
    "no_target_syslog",
    "syslog_facility",
    "inventory_unparsed_warning",
    "use_persistent_connections",
    "old_plugin_cache_clear",
    "collections_scan_sys_path",
    "collections_on_ansible_version_mismatch",
    "module_ignore_exts",
    "log_filter",
    "validate_action_group_metadata",
    "win_async_startup_timeout",
    "yaml_valid_extensions",
    "docsite_root_url",
    "show_custom_stats",
    "allow_embedded_templates",
];

/// Sources of the setting with this name.
pub(super) fn places(name: &str) -> Option<Places> {
    index().get(name).copied()
}

/// Whether a key of ansible.cfg has an effect.
pub(super) fn has_effect(section: &str, key: &str) -> bool {
    index().values().any(|(_, ini)| ini.contains(&(section, key)))
}

/// Sections and keys of ansible.cfg that only Windlass has, or that ansible-core lists in no table.
pub(crate) fn others() -> impl Iterator<Item = (&'static str, &'static str)> {
    OTHERS.iter().flat_map(|(_, (_, ini))| ini.iter().copied())
}

/// Sections and keys of ansible.cfg with an effect, without the callbacks' own.
pub(super) fn with_effect() -> impl Iterator<Item = (&'static str, &'static str)> {
    index().values().flat_map(|(_, ini)| ini.iter().copied())
}

/// Sections of ansible.cfg that any setting names, with or without an effect.
pub(super) fn sections() -> HashSet<&'static str> {
    let base = base().iter().chain(of_plugins().iter().map(|entry| &entry.setting));
    let all = base.flat_map(|setting| setting.ini.iter().copied()).chain(others()).chain(callbacks::keys());
    all.map(|(section, _)| section).collect()
}

/// Keys with an effect in a section of ansible.cfg.
pub(super) fn keys_with_effect(section: &str) -> impl Iterator<Item = &'static str> {
    with_effect().filter(move |(other, _)| *other == section).map(|(_, key)| key)
}

/// All settings with an effect by name. Cached, because every command reads most of them.
fn index() -> &'static HashMap<&'static str, Places> {
    static INDEX: LazyLock<HashMap<&str, Places>> = LazyLock::new(|| {
        let mut by_key = HashMap::new();
        for setting in base() {
            for (section, key) in &setting.ini {
                by_key.entry((None, *key)).or_insert(setting);
                by_key.insert((Some(*section), *key), setting);
            }
        }
        let effective = EFFECTIVE.iter().filter_map(|name| {
            let place = name.split_once('.').map_or((None, *name), |(section, key)| (Some(section), key));
            Some((*name, *by_key.get(&place)?))
        });
        let of_plugins = of_plugins().iter().filter_map(|entry| {
            let is_meant =
                |(plugin, names): &&(&str, &[&str])| *plugin == entry.plugin && names.contains(&entry.setting.name);
            OF_PLUGINS.iter().find(is_meant).map(|_| (entry.setting.name, &entry.setting))
        });
        let places = |(name, setting): (_, &'static Setting)| (name, (&setting.env[..], &setting.ini[..]));
        effective.chain(of_plugins).map(places).chain(OTHERS.iter().copied()).collect()
    });
    &INDEX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_setting() {
        for name in EFFECTIVE {
            assert!(!OTHERS.iter().any(|(other, _)| other == name), "{name} is in both lists");
            let is_meant = |(section, key): &(&str, &str)| *name == *key || **name == format!("{section}.{key}");
            let meant = base().iter().filter(|setting| setting.ini.iter().any(is_meant));
            assert_eq!(meant.count(), 1, "{name}");
        }
        for name in OF_PLUGINS.iter().flat_map(|(_, names)| *names) {
            assert!(places(name).is_some_and(|(_, ini)| !ini.is_empty()), "{name}");
        }
        assert!(has_effect("defaults", "forks") && !has_effect("defaults", "nocows"));
    }

    /// Words between backticks.
    fn quoted(text: &str) -> Vec<&str> {
        text.split('`').skip(1).step_by(2).collect()
    }

    #[test]
    fn documented_settings_are_those_with_an_effect() {
        let page = include_str!("../../docs/compatibility/settings.md");
        let (_, table) = page.split_once("## With effect").unwrap();
        let rows = table.lines().skip_while(|line| !line.starts_with("| `[")).take_while(|line| line.starts_with('|'));
        let mut documented = Vec::new();
        for row in rows {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            for section in quoted(cells[1]) {
                let section = section.trim_matches(['[', ']']);
                match cells[2].starts_with("all") {
                    true => documented.push((section, "*")),
                    false => documented.extend(quoted(cells[2]).into_iter().map(|key| (section, key))),
                }
            }
        }
        let without: Vec<_> = documented
            .iter()
            .filter(|(section, key)| !key.contains('*') && !has_effect(section, key))
            .map(|(section, key)| format!("{section}.{key}"))
            .collect();
        assert_eq!(without, Vec::<String>::new(), "documented, but without effect");
        let is_documented = |(section, key): &(&str, &str)| {
            *section == "windlass" || documented.contains(&(section, key)) || documented.contains(&(section, "*"))
        };
        let mut missing: Vec<_> = index()
            .iter()
            .filter(|(_, (_, ini))| !ini.is_empty() && !ini.iter().any(is_documented))
            .map(|(name, _)| *name)
            .collect();
        missing.sort_unstable();
        assert_eq!(missing, Vec::<&str>::new(), "with an effect, but not documented");
    }
}
