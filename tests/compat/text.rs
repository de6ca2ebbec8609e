//! What is left out of a comparison: paths of this run, times, and each engine's own words about what went wrong.

use std::collections::HashSet;
use std::path::Path;

use regex::Regex;
use serde_json::Value as Json;

use crate::engine::Engine;

/// Keys of results that tell of a moment, of the machine, or of files in between.
const VOLATILE: &[&str] = &[
    "atime",
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

/// What is compared of a failure; the rest describes it, and each engine does so in its own words.
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

/// A registered result without what changes from run to run, and without the words about a failure.
pub(crate) fn steady(value: Json) -> Json {
    match value {
        Json::Object(map) => {
            let has_failed = map.get("failed").is_some_and(|failed| failed == true);
            let is_kept = |key: &str| !VOLATILE.contains(&key) && (!has_failed || OF_FAILURES.contains(&key));
            Json::Object(
                map.into_iter().filter(|(key, _)| is_kept(key)).map(|(key, value)| (key, steady(value))).collect(),
            )
        }
        Json::Array(items) => Json::Array(items.into_iter().map(steady).collect()),
        other => other,
    }
}

/// The text with the two folders of a run named the same for all.
pub(crate) fn without_paths(text: &str, case: &Path, scratch: &Path) -> String {
    text.replace(&case.display().to_string(), "CASE").replace(&scratch.display().to_string(), "SCRATCH")
}

/// Python writes numbers that JSON does not have.
pub(crate) fn without_infinity(json: &str) -> String {
    Regex::new(r"([\[:,] ?)(-?Infinity|NaN)").unwrap().replace_all(json, "$1\"$2\"").into_owned()
}

/// Printed text without times, without blocks that describe errors, with a banner that is shown once for each host kept once.
pub(crate) fn normalised(text: &str, engine: &Engine) -> String {
    let mut text = text.to_owned();
    for (pattern, replacement) in [
        (r#""(start|end)": "[^"]*""#, r#""$1": "TIME""#),
        (r#""delta": "[^"]*""#, r#""delta": "TIME""#),
        (r"(?m)^(\+\+\+ after: ).*/ansible-local-.*/", "${1}CASE/templates/"),
        (r"(?m)[ \t]+$", ""),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, replacement).into_owned();
    }
    let mut kept = String::new();
    let mut is_hidden = false;
    let mut banner = "";
    let mut blank = 0;
    for line in text.lines() {
        let is_error = line.starts_with("[ERROR]: ");
        is_hidden = is_error || (is_hidden && !line.starts_with("fatal: ") && !line.starts_with("failed: "));
        if is_hidden && (!is_error || engine.line == "2.18") {
            continue;
        }
        if line.is_empty() {
            blank += 1;
            continue;
        }
        let is_banner =
            ["TASK ", "RUNNING HANDLER ", "NO MORE HOSTS LEFT "].iter().any(|start| line.starts_with(start));
        if is_banner && line == banner {
            blank = 0;
            continue;
        }
        banner = if is_banner { line } else { "" };
        kept.push_str(&"\n".repeat(std::mem::take(&mut blank)));
        kept.push_str(&if is_error { "[ERROR]".to_owned() } else { without_reason(line, engine) });
        kept.push('\n');
    }
    kept
}

/// Sentences that real ansible-core says about its own errors are left out of a recording; ours stand in the same places.
fn without_reason(line: &str, engine: &Engine) -> String {
    let is_result = ["fatal: ", "failed: ", "skipping: ", "ok: "].iter().any(|start| line.starts_with(start));
    if engine.is_ours || !is_result {
        return line.to_owned();
    }
    let starts = "Task failed|The `loop` value|The lookup plugin|Conditional|Error while|Could not find or access|Unable to|Unexpected|Failed to|\
                  The task includes an option with an undefined variable|The conditional check|An unhandled exception|Invalid data passed to|\
                  The field '|template error|the field '|the filter plugin";
    let pattern = format!(r#""(msg|reason)": "({starts})([^"\\]|\\.)*""#);
    Regex::new(&pattern).unwrap().replace_all(line, r#""$1": "...""#).into_owned()
}

/// Our words in the places where the recording leaves out Ansible's.
pub(crate) fn own_words(printed: &str, expected: &str) -> String {
    let message = Regex::new(r#""(msg|reason)": "(?:[^"\\]|\\.)*""#).unwrap();
    let without: HashSet<&str> = expected.lines().filter(|line| line.contains(r#"": "...""#)).collect();
    let mut text = String::new();
    for line in printed.lines() {
        let hidden = message.replace_all(line, r#""$1": "...""#);
        text.push_str(if without.contains(&*hidden) { &hidden } else { line });
        text.push('\n');
    }
    text
}
