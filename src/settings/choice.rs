//! Settings with a fixed choice of values.

use clap::ValueEnum;

use super::config::Config;
use crate::error::{Error, Result};

/// Form in which the progress of a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// A redrawn line at a terminal, elsewhere lines on standard error
    Auto,
    /// Lines on standard error, also at a terminal: for screen readers and recordings
    Lines,
    /// Nothing
    None,
}

/// Results that the default callback prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// All results
    All,
    /// Changes and failures
    Changed,
    /// Failures
    Failed,
}

/// Hosts whose running commands show their output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Live {
    /// All hosts
    All,
    /// The host that has worked longest
    Slowest,
    /// No host
    None,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// For a person at a terminal, elsewhere Ansible's
    Auto,
    /// Ansible's, also at a terminal
    Ansible,
}

/// Form in which failures are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureForm {
    /// As text, and in a list after the recap.
    Readable,
    /// As Ansible does, and in a list on standard error.
    Listed,
    /// As Ansible does.
    Ansible,
}

/// Policy for handlers that earlier runs notified but never ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PendingHandlers {
    /// Run them when their play runs its handlers
    Run,
    /// Discard them
    Skip,
    /// Ask on a terminal; elsewhere warn and keep them
    Ask,
}

/// Reads a setting with a fixed choice of values.
pub(super) fn chosen<T: ValueEnum>(config: &Config, name: &str, default: T) -> Result<T> {
    Ok(chosen_or_none(config, name)?.unwrap_or(default))
}

/// Like [`chosen`], without a default.
pub(super) fn chosen_or_none<T: ValueEnum>(config: &Config, name: &str) -> Result<Option<T>> {
    let Some(text) = config.get(name) else { return Ok(None) };
    T::from_str(text.trim(), true).map(Some).map_err(|_| {
        let values: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        let names = match names.split_last() {
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        };
        Error::usage(format!("{name} must be {names}, not '{text}'"))
    })
}
