//! Sources of the inventory, and the secrets of vaults.

use std::path::PathBuf;

use windlass_inventory::GroupNames;

use super::Config;
use crate::error::Result;

/// Settings of the inventory.
#[derive(Debug, Clone)]
pub struct InventorySettings {
    /// Sources of the inventory.
    pub sources: Vec<String>,
    /// Whether the command line names them, so that one that does not exist is an error.
    pub is_named: bool,
    /// `--limit`.
    pub limit: Option<String>,
    /// Patterns that the files of `--limit` had in the run that is resumed.
    pub limit_patterns: Option<Vec<String>>,
    /// Plugins in the order they are tried; Ansible's list if empty.
    pub plugins: Vec<String>,
    /// Patterns for names of entries that are ignored in inventory directories.
    pub ignore_patterns: Vec<String>,
    /// File extensions ignored in inventory directories; Ansible's list if empty.
    pub ignore_extensions: Vec<String>,
    /// Whether an unreadable source is an error.
    pub any_unparsed_is_failed: bool,
    /// Whether a run fails if no source is readable.
    pub unparsed_is_failed: bool,
    /// Whether `constructed` inventories see extra variables.
    pub use_extra_vars: bool,
    /// Whether `windlass inventory` shows variables where they are set.
    pub export: bool,
    /// Policy for group names that are not valid variable names.
    pub group_names: GroupNames,
    /// Policy for host patterns without a match: `warning`, `error` or `ignore`.
    pub host_pattern_mismatch: String,
    /// Whether to warn that localhost is the only host.
    pub localhost_warning: bool,
}

impl InventorySettings {
    pub(super) fn from_config(config: &Config) -> Result<InventorySettings> {
        Ok(InventorySettings {
            sources: match config.get("inventory") {
                None => Vec::new(),
                Some(text) if text.contains(',') => vec![text],
                Some(_) => config.path_of("inventory").iter().map(|path| path.display().to_string()).collect(),
            },
            is_named: false,
            limit_patterns: None,
            limit: None,
            plugins: config.list("enable_plugins"),
            ignore_patterns: config.list("ignore_patterns"),
            ignore_extensions: config.list("ignore_extensions"),
            any_unparsed_is_failed: config.bool("any_unparsed_is_failed")?.unwrap_or(false),
            unparsed_is_failed: config.bool("unparsed_is_failed")?.unwrap_or(false),
            use_extra_vars: config.bool("use_extra_vars")?.unwrap_or(false),
            export: config.bool("inventory.export")?.unwrap_or(false),
            group_names: match config.get("force_valid_group_names").as_deref() {
                Some("always") => GroupNames::Always,
                Some("silently") => GroupNames::Silently,
                Some("ignore") => GroupNames::Ignore,
                _ => GroupNames::Never,
            },
            host_pattern_mismatch: config.get("host_pattern_mismatch").unwrap_or_else(|| "warning".to_owned()),
            localhost_warning: config.bool("localhost_warning")?.unwrap_or(true),
        })
    }
}

/// Settings of `ansible-vault` and age.
#[derive(Debug, Clone)]
pub struct VaultSettings {
    /// Sources of passwords in the form `label@source`.
    pub ids: Vec<String>,
    /// Whether only passwords with an envelope's own label are tried.
    pub id_match: bool,
    /// Label of the password to encrypt with.
    pub encrypt_identity: Option<String>,
    /// Fixed salt of all envelopes, instead of a random one.
    pub encrypt_salt: Option<String>,
    /// Whether to ask for the password if no other source is set.
    pub ask_pass: bool,
    /// Files with identities of age; `None` uses the places where sops looks.
    pub age_identities: Option<Vec<PathBuf>>,
}

impl VaultSettings {
    pub(super) fn from_config(config: &Config) -> Result<VaultSettings> {
        let mut ids = config.list("vault_identity_list");
        ids.extend(config.path_of("vault_password_file").map(|file| file.display().to_string()));
        Ok(VaultSettings {
            ids,
            id_match: config.bool("vault_id_match")?.unwrap_or(false),
            encrypt_identity: config.get("vault_encrypt_identity"),
            encrypt_salt: config.get("vault_encrypt_salt"),
            ask_pass: config.bool("ask_vault_pass")?.unwrap_or(false),
            age_identities: config.paths("age_identities"),
        })
    }
}
