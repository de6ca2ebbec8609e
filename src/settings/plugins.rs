//! Settings of ansible-core's own plugins except callbacks. `config validate` and the lookup `config` need to know
//! them; effects are implemented elsewhere.

use std::sync::OnceLock;

use super::base::{Setting, read};

/// One setting per line: its plugin as `KIND.NAME`, then the columns of `base.tsv` without the description.
const TABLE: &str = include_str!("plugins.tsv");

/// A setting of a plugin.
#[derive(Debug)]
pub struct PluginSetting {
    /// Kind of the plugin: `become`, `connection` and others.
    pub kind: &'static str,
    /// Name of the plugin.
    pub plugin: &'static str,
    /// Setting of the plugin.
    pub setting: Setting,
}

/// All settings of plugins, sorted.
pub fn of_plugins() -> &'static [PluginSetting] {
    static SETTINGS: OnceLock<Vec<PluginSetting>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let line = |line: &'static str| {
            let (owner, rest) = line.split_once('\t')?;
            let (kind, plugin) = owner.split_once('.')?;
            Some(PluginSetting { kind, plugin, setting: read(rest)? })
        };
        TABLE.lines().filter_map(line).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        assert_eq!(of_plugins().len(), TABLE.lines().count());
        let port = of_plugins().iter().find(|entry| (entry.plugin, entry.setting.name) == ("ssh", "port"));
        assert_eq!(port.map(|entry| entry.setting.vars.clone()), Some(vec!["ansible_port", "ansible_ssh_port"]));
    }
}
