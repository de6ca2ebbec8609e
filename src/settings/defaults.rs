//! Tests that the fields of `Settings` have the defaults of the tables.

use std::collections::HashMap;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};
use windlass_template::Compat;

use super::base::{base, own};
use super::{Config, Settings};
use crate::executor::LockPolicy;

/// Settings whose field depends on the terminal.
const OF_TERMINAL: &[&str] = &["WINDLASS_FAILURES", "WINDLASS_LIVE", "WINDLASS_SHOW"];

fn word(value: impl ValueEnum) -> Value {
    value.to_possible_value().map(|value| value.get_name().to_owned()).into()
}

fn seconds(time: Option<Duration>) -> Value {
    time.map_or(0, |time| time.as_secs()).into()
}

fn lock(policy: LockPolicy) -> Value {
    let name = match policy {
        LockPolicy::Wait => "wait",
        LockPolicy::Fail => "fail",
        LockPolicy::Shared => "shared",
        LockPolicy::Ignore => "ignore",
    };
    name.into()
}

/// Values of the fields for settings of Windlass.
fn own_fields(settings: &Settings) -> HashMap<&'static str, Value> {
    let Settings { connect, journal, output, engine, .. } = settings;
    HashMap::from([
        ("WINDLASS_ACCEPT_NEW_HOST_KEYS", json!(connect.accept_new_host_keys)),
        ("WINDLASS_AGE_IDENTITIES", json!(settings.vault.age_identities)),
        ("WINDLASS_ANSIBLE_CORE", json!(settings.code.ansible_core)),
        ("WINDLASS_COMMAND_TIMEOUT", seconds(settings.command_timeout)),
        ("WINDLASS_COMPAT", json!(["2.18", "2.19"].iter().find(|name| Compat::named(name) == Some(settings.compat)))),
        ("WINDLASS_ENGINE_IMAGE", json!(engine.image)),
        ("WINDLASS_ENGINE_NAMESPACE", json!(engine.namespace)),
        ("WINDLASS_HEARTBEAT_TIMEOUT", seconds(connect.heartbeat_timeout)),
        ("WINDLASS_JOURNAL", json!(journal.enabled)),
        ("WINDLASS_JOURNAL_DAYS", json!(journal.days)),
        ("WINDLASS_JOURNAL_DIR", json!(journal.dir)),
        ("WINDLASS_JOURNAL_REQUIRED", json!(journal.required)),
        ("WINDLASS_JOURNAL_RUNS", json!(journal.runs)),
        ("WINDLASS_LOCK", lock(settings.lock.policy)),
        ("WINDLASS_LOCK_TIMEOUT", json!(settings.lock.timeout)),
        ("WINDLASS_MAX_FETCH_SIZE", json!(connect.max_fetch_size)),
        ("WINDLASS_OTLP_ENDPOINT", json!(output.otlp_endpoint)),
        ("WINDLASS_OUTPUT", word(output.form)),
        ("WINDLASS_PEER_PORT", json!(connect.peer_port)),
        ("WINDLASS_PEER_TRANSFER", json!(connect.peer_transfer)),
        ("WINDLASS_PENDING_HANDLERS", word(journal.pending_handlers)),
        ("WINDLASS_PROGRESS", word(output.progress)),
        ("WINDLASS_PROGRESS_INTERVAL", seconds(output.progress_interval)),
        ("WINDLASS_RESULTS_ON_DISK", json!(settings.results_on_disk)),
        ("WINDLASS_SHARDS", json!(settings.shards)),
        ("WINDLASS_STREAM", json!(settings.stream)),
    ])
}

/// Values of the fields for settings of ansible-core that have a literal default.
fn fields(settings: &Settings) -> HashMap<&'static str, Value> {
    let Settings { connect, r#become, output, inventory, .. } = settings;
    HashMap::from([
        ("ALLOW_BROKEN_CONDITIONALS", json!(settings.allow_broken_conditionals)),
        ("ANY_ERRORS_FATAL", json!(settings.any_errors_fatal)),
        ("DEFAULT_BECOME", json!(r#become.enabled)),
        ("DEFAULT_BECOME_METHOD", json!(r#become.method)),
        ("DEFAULT_BECOME_USER", json!(r#become.user)),
        ("DEFAULT_FORCE_HANDLERS", json!(settings.force_handlers)),
        ("DEFAULT_FORKS", json!(settings.forks)),
        ("DEFAULT_GATHERING", json!(settings.facts.gathering)),
        ("DEFAULT_LOAD_CALLBACK_PLUGINS", json!(output.adhoc_callbacks)),
        ("DEFAULT_MANAGED_STR", json!(settings.ansible_managed)),
        ("DEFAULT_NO_LOG", json!(settings.no_log)),
        ("DEFAULT_POLL_INTERVAL", json!(settings.poll_interval)),
        ("DEFAULT_REMOTE_PORT", json!(connect.remote_port)),
        ("DEFAULT_REMOTE_USER", json!(connect.remote_user)),
        ("DEFAULT_STDOUT_CALLBACK", json!(output.stdout_callback)),
        ("DEFAULT_STRATEGY", json!(settings.strategy)),
        ("DEFAULT_TRANSPORT", json!(connect.transport)),
        ("DEFAULT_VERBOSITY", json!(settings.verbosity)),
        ("DEPRECATION_WARNINGS", json!(settings.deprecation_warnings)),
        ("DIFF_ALWAYS", json!(settings.diff)),
        ("DIFF_CONTEXT", json!(output.diff_context)),
        ("DISPLAY_ARGS_TO_STDOUT", json!(output.display_args_to_stdout)),
        ("ENABLE_TASK_DEBUGGER", json!(settings.task_debugger)),
        ("ERROR_ON_MISSING_HANDLER", json!(settings.error_on_missing_handler)),
        ("HOST_PATTERN_MISMATCH", json!(inventory.host_pattern_mismatch)),
        ("INJECT_FACTS_AS_VARS", json!(settings.facts.inject)),
        ("INTERPRETER_PYTHON", json!(settings.code.interpreter_python)),
        ("INTERPRETER_PYTHON_FALLBACK", json!(settings.code.interpreter_python_fallback)),
        ("INVENTORY_ANY_UNPARSED_IS_FAILED", json!(inventory.any_unparsed_is_failed)),
        ("INVENTORY_EXPORT", json!(inventory.export)),
        ("INVENTORY_UNPARSED_IS_FAILED", json!(inventory.unparsed_is_failed)),
        ("LOCALHOST_WARNING", json!(inventory.localhost_warning)),
        ("LOG_VERBOSITY", json!(output.log_verbosity)),
        ("MAX_FILE_SIZE_FOR_DIFF", json!(settings.max_diff_size)),
        ("RETRY_FILES_ENABLED", json!(output.retry_files)),
        ("TAGS_SKIP", json!(settings.skip_tags)),
        ("TASK_DEBUGGER_IGNORE_ERRORS", json!(settings.task_debugger_ignore_errors)),
        ("TASK_TIMEOUT", json!(settings.task_timeout)),
    ])
}

#[test]
fn default_of_every_field_is_that_of_the_table() {
    let settings = Settings::from_config(&Config::empty()).unwrap();
    let own_fields = own_fields(&settings);
    for (name, value) in own_fields.iter().chain(&fields(&settings)) {
        let setting = base().iter().find(|setting| setting.name == *name).unwrap_or_else(|| panic!("no row {name}"));
        assert_eq!(*value, setting.default(), "{name}");
    }
    for setting in own() {
        let is_compared = own_fields.contains_key(setting.name) || OF_TERMINAL.contains(&setting.name);
        assert!(is_compared, "{} is not compared with its field", setting.name);
    }
}
