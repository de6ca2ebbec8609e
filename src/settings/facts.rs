//! Facts, and their cache.

use std::path::PathBuf;

use super::Config;
use crate::error::{Error, Result};

/// Settings of facts.
#[derive(Debug, Clone)]
pub struct FactSettings {
    /// Policy for gathering: `implicit`, `explicit` or `smart`.
    pub gathering: String,
    /// Whether facts are also top-level variables (`ansible_hostname` beside `ansible_facts.hostname`).
    pub inject: bool,
    /// Directory of facts cached between runs, in the format of `jsonfile`.
    pub cache: Option<PathBuf>,
    /// Prefix of file names in that cache.
    pub cache_prefix: String,
    /// Seconds after which cached facts expire; 0 means never.
    pub cache_timeout: u64,
}

impl FactSettings {
    pub(super) fn from_config(config: &Config) -> Result<FactSettings> {
        Ok(FactSettings {
            gathering: config.get("gathering").unwrap_or_else(|| "implicit".to_owned()),
            inject: config.bool("inject_facts_as_vars")?.unwrap_or(true),
            cache: cache(config)?,
            cache_prefix: config.get("fact_caching_prefix").unwrap_or_default(),
            cache_timeout: config.number("fact_caching_timeout")?.unwrap_or(86_400),
        })
    }
}

/// Directory of cached facts, if they are stored in files.
fn cache(config: &Config) -> Result<Option<PathBuf>> {
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
