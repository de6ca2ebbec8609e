//! Settings with an effect in Windlass, and their sources.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::base::{Effect, Setting, base};
use super::callbacks;
use super::plugins::of_plugins;

/// Environment variables, and sections and keys of ansible.cfg. Of several that are set the last one counts.
type Places = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// Settings of plugins that have an effect: of the connection `ssh`, and of the shell.
const OF_PLUGINS: &[(&str, &[&str])] = &[
    ("ssh", &["host_key_checking", "reconnection_retries", "ssh_args", "ssh_common_args", "ssh_extra_args", "timeout"]),
    ("sh", &["async_dir", "remote_tmp"]),
];

/// Settings of ansible-core that have additional sources here.
const EXTENDED: &[(&str, Places)] = &[
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
    (
        "use_extra_vars",
        (
            &["ANSIBLE_INVENTORY_USE_EXTRA_VARS"],
            &[("inventory", "use_extra_vars"), ("inventory_plugins", "use_extra_vars")],
        ),
    ),
];

/// Keys of plugins and of older releases of ansible-core that are safe to ignore, like the base settings which the
/// table marks so: they concern Python, temporary files and processes that do not exist here.
const WITHOUT_MEANING: &[&str] =
    &["allow_world_readable_tmpfiles", "command_warnings", "control_path", "scp_if_ssh", "transfer_method", "usetty"];

/// Sources of the setting with this name.
pub(super) fn places(name: &str) -> Option<Places> {
    index().get(name).copied()
}

/// Whether a key of ansible.cfg has an effect.
pub(super) fn has_effect(section: &str, key: &str) -> bool {
    index().values().any(|(_, ini)| ini.contains(&(section, key)))
}

/// Whether a key of ansible.cfg is safe to ignore, in any section.
pub(super) fn is_without_meaning(key: &str) -> bool {
    let of_base = || {
        let ignored = base().iter().filter(|setting| setting.effect == Effect::Ignored);
        ignored.flat_map(|setting| &setting.ini).any(|(_, other)| *other == key)
    };
    WITHOUT_MEANING.contains(&key) || of_base()
}

/// Additional sections and keys of ansible.cfg for settings of ansible-core.
pub(crate) fn extended() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXTENDED.iter().flat_map(|(_, (_, ini))| ini.iter().copied())
}

/// Sections and keys of ansible.cfg with an effect, without the callbacks' own.
pub(super) fn with_effect() -> impl Iterator<Item = (&'static str, &'static str)> {
    index().values().flat_map(|(_, ini)| ini.iter().copied())
}

/// Sections of ansible.cfg that any setting names, with or without an effect.
pub(super) fn sections() -> HashSet<&'static str> {
    let base = base().iter().chain(of_plugins().iter().map(|entry| &entry.setting));
    let all = base.flat_map(|setting| setting.ini.iter().copied()).chain(extended()).chain(callbacks::keys());
    all.map(|(section, _)| section).collect()
}

/// Keys with an effect in a section of ansible.cfg.
pub(super) fn keys_with_effect(section: &str) -> impl Iterator<Item = &'static str> {
    with_effect().filter(move |(other, _)| *other == section).map(|(_, key)| key)
}

/// All settings with an effect: by their key in ansible.cfg, and by section and key with a dot between. Cached,
/// because every command reads most of them.
fn index() -> &'static HashMap<String, Places> {
    static INDEX: LazyLock<HashMap<String, Places>> = LazyLock::new(|| {
        let places = |setting: &'static Setting| -> Places { (&setting.env, &setting.ini) };
        let mut index = HashMap::new();
        for setting in base().iter().filter(|setting| setting.effect == Effect::Used) {
            for (section, key) in &setting.ini {
                index.insert((*key).to_owned(), places(setting));
                index.insert(format!("{section}.{key}"), places(setting));
            }
        }
        for entry in of_plugins() {
            let is_meant =
                |(plugin, names): &&(&str, &[&str])| *plugin == entry.plugin && names.contains(&entry.setting.name);
            if OF_PLUGINS.iter().any(|row| is_meant(&row)) {
                index.insert(entry.setting.name.to_owned(), places(&entry.setting));
            }
        }
        index.extend(EXTENDED.iter().map(|(name, places)| ((*name).to_owned(), *places)));
        index
    });
    &INDEX
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::base::own;
    use super::*;

    #[test]
    fn every_name_has_one_setting() {
        let used = base().iter().filter(|setting| setting.effect == Effect::Used);
        let keys = used.flat_map(|setting| &setting.ini).map(|(_, key)| *key).chain(plugins());
        let mut seen = HashSet::new();
        let twice: Vec<&str> = keys.filter(|key| !seen.insert(*key)).collect();
        assert_eq!(twice, Vec::<&str>::new(), "the key is not enough to name the setting");
        for name in plugins() {
            assert!(places(name).is_some_and(|(_, ini)| !ini.is_empty()), "{name}");
        }
        assert!(has_effect("defaults", "forks") && !has_effect("defaults", "nocows"));
        assert!(is_without_meaning("nocows") && is_without_meaning("scp_if_ssh") && !is_without_meaning("forks"));
    }

    fn plugins() -> impl Iterator<Item = &'static str> {
        OF_PLUGINS.iter().flat_map(|(_, names)| *names).copied()
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
        let mut missing: Vec<&String> = index()
            .iter()
            .filter(|(_, (_, ini))| !ini.is_empty() && !ini.iter().any(is_documented))
            .map(|(name, _)| name)
            .collect();
        missing.sort_unstable();
        assert_eq!(missing, Vec::<&String>::new(), "with an effect, but not documented");
    }

    /// A default as the page shows it: large sizes in GiB.
    fn shown(default: &Value) -> String {
        match default {
            Value::Number(number) if number.as_u64().is_some_and(|bytes| bytes >= 1 << 30) => {
                format!("{} GiB", number.as_u64().unwrap_or_default() >> 30)
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    #[test]
    fn page_of_own_settings_has_every_row_of_the_table() {
        let page = include_str!("../../docs/reference/settings.md");
        let mut documented = Vec::new();
        for row in page.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let (keys, variables) = (quoted(cells[0]), quoted(cells[1]));
            let defaults: Vec<&str> = cells[2].split(", ").map(|text| text.trim_matches('`')).collect();
            assert_eq!(keys.len(), variables.len(), "{row}");
            for (index, key) in keys.into_iter().enumerate() {
                let setting = own().find(|setting| setting.ini == [("windlass", key)]);
                let setting = setting.unwrap_or_else(|| panic!("`{key}` is in no row of windlass.tsv"));
                assert_eq!(setting.env, [variables[index]], "{key}");
                // The page names a path or describes a rule if the table has no default.
                let default = setting.written_default();
                assert!(default.is_null() || defaults[index] == shown(&default), "{key}: {defaults:?}, not {default}");
                documented.push(setting.name);
            }
        }
        let missing: Vec<&str> = own().map(|setting| setting.name).filter(|name| !documented.contains(name)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "in windlass.tsv, but not on the page");
    }
}
