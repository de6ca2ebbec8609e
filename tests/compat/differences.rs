//! Accepted differences: cases in which Windlass answers otherwise than ansible-core, with its own answer and the reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

use serde_json::{Value as Json, json};

use crate::engine::Engine;

/// Lines of `differences.jsonl`, in the order of the file.
static LISTED: LazyLock<Vec<Json>> = LazyLock::new(|| {
    let text = fs::read_to_string(file()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
});

/// Answers to be written into the file: by the number of the difference, and by the version of ansible-core.
static ACCEPTED: Mutex<BTreeMap<usize, BTreeMap<&'static str, Json>>> = Mutex::new(BTreeMap::new());

/// Whether the answers to listed cases are recorded as accepted (`COMPAT_ACCEPT=1`).
fn is_accepting() -> bool {
    std::env::var_os("COMPAT_ACCEPT").is_some()
}

fn file() -> PathBuf {
    crate::root().join("differences.jsonl")
}

fn is_of(entry: &Json, suite: &str, engine: &Engine) -> bool {
    engine.is_ours && entry["suite"] == suite && entry.get("line").is_none_or(|line| line == engine.line)
}

/// Our accepted answer to a case that differs. The real engines have none.
pub(crate) fn accepted(suite: &str, case: &str, engine: &Engine, found: &Json) -> Option<Json> {
    let listed = LISTED.iter().enumerate();
    let (number, entry) = listed.into_iter().find(|(_, entry)| is_of(entry, suite, engine) && entry["case"] == case)?;
    assert!(entry["why"].is_string(), "a difference without a reason: {}", entry["case"]);
    if is_accepting() {
        ACCEPTED.lock().unwrap().entry(number).or_default().insert(engine.line, found.clone());
        return Some(found.clone());
    }
    let ours = entry.get("ours");
    let ours = ours.unwrap_or_else(|| panic!("a difference without our answer (COMPAT_ACCEPT=1): {}", entry["case"]));
    Some(ours.clone())
}

/// Listed cases of the suite that it does not have.
pub(crate) fn without_case<'a>(suite: &str, engine: &Engine, cases: impl Iterator<Item = &'a str>) -> Vec<String> {
    let cases: Vec<&str> = cases.collect();
    let listed = LISTED.iter().filter(|entry| is_of(entry, suite, engine)).filter_map(|entry| entry["case"].as_str());
    listed.filter(|case| !cases.contains(case)).map(ToOwned::to_owned).collect()
}

/// Writes the accepted answers into the file; a difference becomes two if its answers depend on the version.
pub(crate) fn write_accepted() {
    let accepted = ACCEPTED.lock().unwrap();
    if accepted.is_empty() {
        return;
    }
    let mut text = String::new();
    for (number, entry) in LISTED.iter().enumerate() {
        let answers = accepted.get(&number).into_iter().flatten();
        let mut answers: Vec<_> = answers.map(|(line, ours)| (Some(json!(line)), Some(ours))).collect();
        if answers.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            let ours = answers.pop().map_or_else(|| entry.get("ours"), |(_, ours)| ours);
            answers = vec![(entry.get("line").cloned(), ours)];
        }
        for (line, ours) in answers {
            let mut written = json!({"suite": entry["suite"], "case": entry["case"]});
            for (key, value) in [("line", line.as_ref()), ("ours", ours), ("why", entry.get("why"))] {
                if let Some(value) = value {
                    written[key] = value.clone();
                }
            }
            text.push_str(&format!("{written}\n"));
        }
    }
    fs::write(file(), text).unwrap();
}
