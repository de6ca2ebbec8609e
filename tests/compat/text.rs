//! Normalizes answers: removes values that change from run to run, and each engine's wording of errors.

use regex::Regex;
use serde_json::Value as Json;

use crate::engine::Engine;
pub(crate) use crate::printed::{own_words, replaced, without_paths};

/// Keys of results about times, the machine or temporary files.
const VOLATILE: &[&str] = &[
    "atime",
    "cache_update_time",
    "ctime",
    "mtime",
    "inode",
    "dev",
    "delta",
    "start",
    "end",
    "pid",
    "ansible_job_id",
    "results_file",
    "backup_file",
    "invocation",
    "exception",
    "warnings",
    "deprecations",
    "module_stdout",
    "module_stderr",
    "discovered_interpreter_python",
    "_ansible_no_log",
    "uuid",
    "diff",
    "src",
    "failed_when_suppressed_exception",
];

/// The compared keys of a failure; the others describe it in each engine's own words.
const OF_FAILURES: &[&str] = &[
    "failed",
    "changed",
    "skipped",
    "unreachable",
    "rc",
    "stdout",
    "stderr",
    "results",
    "item",
    "attempts",
    "assertion",
    "evaluated_to",
];

/// Removes values that change from run to run, and the wording of failures.
pub(crate) fn steady(value: Json) -> Json {
    steady_with(value, &[])
}

/// Like [`steady`], but keeps the diff.
pub(crate) fn steady_with_diff(value: Json) -> Json {
    steady_with(value, &["diff"])
}

/// Like [`steady`], but keeps the given keys.
pub(crate) fn steady_with(value: Json, kept: &[&str]) -> Json {
    match value {
        Json::Object(map) => {
            let has_failed = map.get("failed").is_some_and(|failed| failed == true);
            let is_kept = |key: &str| {
                kept.contains(&key) || !VOLATILE.contains(&key) && (!has_failed || OF_FAILURES.contains(&key))
            };
            let entries = map.into_iter().filter(|(key, _)| is_kept(key));
            Json::Object(entries.map(|(key, value)| (key, steady_with(value, kept))).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(|item| steady_with(item, kept)).collect()),
        other => other,
    }
}

/// Python writes numbers that JSON lacks.
pub(crate) fn without_infinity(json: &str) -> String {
    replaced(json, r"([\[:,] ?)(-?Infinity|NaN)", "$1\"$2\"")
}

/// The placeholder of 2.18 for omitted values has another number in each run.
pub(crate) fn without_placeholders(json: &str) -> String {
    replaced(json, "__omit_place_holder__[0-9a-f]+", "__omit_place_holder__")
}

/// Normalizes output for comparison.
pub(crate) fn normalised(text: &str, engine: &Engine) -> String {
    crate::printed::normalised(text, engine.line == "2.18", |line| without_reason(line, engine))
}

/// Removes ansible-core's wording of its own errors, to compare with ours in the same places.
fn without_reason(line: &str, engine: &Engine) -> String {
    let is_result = ["fatal: ", "failed: ", "skipping: ", "ok: "].iter().any(|start| line.starts_with(start));
    if engine.is_ours || !is_result {
        return line.to_owned();
    }
    let starts = "Task failed|The `loop` value|The lookup plugin|Conditional|Error while|Could not find or access|Unable to|Unexpected|Failed to|\
                  The task includes an option with an undefined variable|The conditional check|An unhandled exception|Invalid data passed to|\
                  The field '|template error|the field '|the filter plugin|'[a-z]* object' has no attribute";
    let pattern = format!(r#""(msg|reason)": "({starts})([^"\\]|\\.)*""#);
    Regex::new(&pattern).unwrap().replace_all(line, r#""$1": "...""#).into_owned()
}
