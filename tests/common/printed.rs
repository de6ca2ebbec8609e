//! Normalizes output for comparison with ansible-core: removes paths, times and the wording of errors.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use regex::Regex;

/// Replaces all matches of a pattern. Thousands of texts have the same few patterns, so each is compiled once.
pub(crate) fn replaced(text: &str, pattern: &'static str, replacement: &str) -> String {
    static COMPILED: LazyLock<Mutex<HashMap<&str, Arc<Regex>>>> = LazyLock::new(Mutex::default);
    let compile = || Arc::new(Regex::new(pattern).unwrap());
    let compiled = Arc::clone(COMPILED.lock().unwrap().entry(pattern).or_insert_with(compile));
    compiled.replace_all(text, replacement).into_owned()
}

/// Replaces the paths of a run's two folders.
pub(crate) fn without_paths(text: &str, case: &Path, scratch: &Path) -> String {
    text.replace(&case.display().to_string(), "CASE").replace(&scratch.display().to_string(), "SCRATCH")
}

/// Removes times and error blocks, and keeps repeated banners once. Each error block leaves a mark unless it
/// `is_hidden_whole`; `shown` converts every other line.
pub(crate) fn normalised(text: &str, is_hidden_whole: bool, shown: impl Fn(&str) -> String) -> String {
    let mut text = text.to_owned();
    for (pattern, replacement) in [
        (r#""(start|end)": "[^"]*""#, r#""$1": "TIME""#),
        (r#""delta": "[^"]*""#, r#""delta": "TIME""#),
        (r"\bj\d+\.\d+\b", "JOB"),
        (r#""child_pid": \d+"#, r#""child_pid": PID"#),
        (r"(?m)^(\+\+\+ after: ).*/ansible-local-.*/", "${1}CASE/templates/"),
        (r"(?m)[ \t]+$", ""),
    ] {
        text = replaced(&text, pattern, replacement);
    }
    let mut kept = String::new();
    let mut is_hidden = false;
    let mut banner = "";
    let mut blank = 0;
    for line in text.lines() {
        let is_error = line.starts_with("[ERROR]: ");
        let is_told = ["fatal: ", "failed: ", "task path: ", "$ "].iter().any(|start| line.starts_with(start))
            || [" | FAILED", " | UNREACHABLE"].iter().any(|word| line.contains(word));
        is_hidden = is_error || (is_hidden && !is_told);
        if is_hidden && (!is_error || is_hidden_whole) {
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
        kept.push_str(&if is_error { "[ERROR]".to_owned() } else { shown(line) });
        kept.push('\n');
    }
    kept
}

/// Removes our wording where the recording has removed Ansible's.
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
