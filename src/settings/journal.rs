//! Traces that a run leaves behind, and hosts that it shares with other runs.

use std::path::PathBuf;

use super::choice::chosen;
use super::{Config, PendingHandlers};
use crate::error::{Error, Result};
use crate::executor::LockPolicy;

/// Settings of journals and ledgers.
#[derive(Debug, Clone)]
pub struct JournalSettings {
    /// Whether the run keeps a journal.
    pub enabled: bool,
    /// Whether a run ends that cannot write its journal.
    pub required: bool,
    /// Directory of journals and ledgers; `None` uses the default.
    pub dir: Option<PathBuf>,
    /// Number of journals to keep of each playbook and inventory; 0 means no limit.
    pub runs: usize,
    /// Days to keep journals; 0 means no limit.
    pub days: u64,
    /// Policy for handlers that earlier runs notified but never ran.
    pub pending_handlers: PendingHandlers,
}

impl JournalSettings {
    pub(super) fn from_config(config: &Config) -> Result<JournalSettings> {
        Ok(JournalSettings {
            enabled: config.bool("journal")?.unwrap_or(true),
            required: config.bool("journal_required")?.unwrap_or(false),
            dir: config.path_of("journal_dir").map(|path| crate::paths::absolute(&path)),
            runs: config.number("journal_runs")?.unwrap_or(100),
            days: config.number("journal_days")?.unwrap_or(90),
            pending_handlers: chosen(config, "pending_handlers", PendingHandlers::Ask)?,
        })
    }
}

/// Settings of the host lock.
#[derive(Debug, Clone)]
pub struct LockSettings {
    /// Policy for hosts locked by another run.
    pub policy: LockPolicy,
    /// Whether the policy was set explicitly.
    pub is_chosen: bool,
    /// Seconds to wait for a host locked by another run.
    pub timeout: u64,
}

impl LockSettings {
    pub(super) fn from_config(config: &Config) -> Result<LockSettings> {
        let policy = config.get("lock");
        Ok(LockSettings {
            is_chosen: policy.is_some(),
            policy: match policy {
                None => LockPolicy::Wait,
                Some(text) => text.parse().map_err(Error::usage)?,
            },
            timeout: config.number("lock_timeout")?.unwrap_or(1800),
        })
    }
}
