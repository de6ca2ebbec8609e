//! Recorded answers, accepted differences, and their comparison with an engine's answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Map, Value as Json, json};

use crate::engine::{Engine, LINES};

/// Answers of one engine: name of the case, and its answer.
pub(crate) type Answers = Vec<(String, Json)>;

/// Collects differences over all tables or projects.
#[derive(Default)]
pub(crate) struct Report {
    compared: Mutex<usize>,
    problems: Mutex<BTreeMap<String, String>>,
}

impl Report {
    /// Counts a comparison.
    pub(crate) fn compared(&self) {
        *self.compared.lock().unwrap() += 1;
    }

    /// Records a difference.
    pub(crate) fn problem(&self, name: String, text: String) {
        self.problems.lock().unwrap().insert(name, text);
    }

    /// Whether there are no differences.
    pub(crate) fn is_clean(&self) -> bool {
        self.problems.lock().unwrap().is_empty()
    }

    /// Keeps only the differences that `other` has too.
    pub(crate) fn keep_common(&self, other: &Report) {
        let others = other.problems.lock().unwrap();
        self.problems.lock().unwrap().retain(|name, _| others.contains_key(name));
    }

    /// Adds the results of another report.
    pub(crate) fn add(&self, other: Report) {
        *self.compared.lock().unwrap() += other.compared.into_inner().unwrap();
        self.problems.lock().unwrap().extend(other.problems.into_inner().unwrap());
    }

    /// Prints the differences, and fails if there are any.
    pub(crate) fn finish(self, what: &str) {
        let problems = self.problems.into_inner().unwrap();
        for (name, text) in &problems {
            eprintln!("==== {name}\n{text}");
        }
        let compared = self.compared.into_inner().unwrap();
        eprintln!("{what}: {compared} comparisons, {} different", problems.len());
        assert!(problems.is_empty(), "{} of {compared} comparisons in {what} differ", problems.len());
    }

    /// Compares the answers of all engines for `suite` with the file, or records them in it.
    pub(crate) fn settle(&self, suite: &str, file: &Path, answers: &[(&Engine, Answers)]) {
        if is_recording() {
            return write(file, answers);
        }
        let recorded = read(file);
        for (engine, answers) in answers {
            let known: BTreeMap<&str, &Json> = recorded
                .iter()
                .filter_map(|entry| Some((entry["case"].as_str()?, answer_of(entry, engine.line)?)))
                .collect();
            for (case, found) in answers {
                self.compared();
                let Some(wanted) = known.get(case.as_str()) else {
                    self.problem(format!("{suite} [{}] {case}", engine.line), "    was never recorded".to_owned());
                    continue;
                };
                self.judge(suite, engine, case, found, wanted);
            }
            if answers.len() != known.len() {
                self.problem(format!("{suite} [{}]", engine.line), "    the recorded cases are not these".to_owned());
            }
        }
    }

    /// Compares one answer with the recorded one and with the accepted differences.
    fn judge(&self, suite: &str, engine: &Engine, case: &str, found: &Json, wanted: &Json) {
        let name = format!("{suite} [{}] {case}", engine.line);
        let stays = Difference::of(suite, case, engine);
        match stays {
            Some(stays) if stays.ours.as_ref().is_some_and(|ours| ours != found) => {
                let ours = stays.ours.unwrap_or_default();
                self.problem(name, format!("    answers {found}\n    and the list of differences says {ours}"));
            }
            Some(_) if found == wanted => {
                self.problem(name, "    is no longer different: take it from the list of differences".to_owned());
            }
            None if found != wanted => {
                self.problem(name, format!("    answers {found}\n    ansible {wanted}"));
            }
            _ => {}
        }
    }
}

/// Whether to record the answers of the real engines.
pub(crate) fn is_recording() -> bool {
    std::env::var_os("COMPAT_RECORD").is_some()
}

/// A line of `differences.jsonl`.
pub(crate) struct Difference {
    ours: Option<Json>,
}

impl Difference {
    /// The accepted difference of a case. The real engines have none from themselves.
    pub(crate) fn of(suite: &str, case: &str, engine: &Engine) -> Option<Self> {
        if !engine.is_ours {
            return None;
        }
        let text = fs::read_to_string(crate::root().join("differences.jsonl")).unwrap();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let entry: Json = serde_json::from_str(line).unwrap();
            let is_this_line = entry.get("line").is_none_or(|line| line == engine.line);
            if entry["suite"] == suite && entry["case"] == case && is_this_line {
                assert!(entry["why"].is_string(), "a difference without a reason: {line}");
                return Some(Self { ours: entry.get("ours").cloned() });
            }
        }
        None
    }
}

fn answer_of<'a>(entry: &'a Json, line: &str) -> Option<&'a Json> {
    entry.get("answer").or_else(|| entry.get(line))
}

fn read(file: &Path) -> Vec<Json> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Writes one line per case, with a single answer if the engines agree or only one ran.
fn write(file: &Path, answers: &[(&Engine, Answers)]) {
    if let [(_, current)] = answers {
        let line = |(case, answer): &(String, Json)| format!("{}\n", json!({"case": case, "answer": answer}));
        fs::write(file, current.iter().map(line).collect::<String>()).unwrap();
        return;
    }
    assert_eq!(answers.iter().map(|(engine, _)| engine.line).collect::<Vec<_>>(), LINES);
    let [(_, classic), (_, current)] = answers else { return };
    let mut text = String::new();
    for ((case, old), (same_case, new)) in classic.iter().zip(current) {
        assert_eq!(case, same_case);
        let mut entry = Map::new();
        entry.insert("case".to_owned(), json!(case));
        if old == new {
            entry.insert("answer".to_owned(), new.clone());
        } else {
            entry.insert(LINES[0].to_owned(), old.clone());
            entry.insert(LINES[1].to_owned(), new.clone());
        }
        text.push_str(&Json::Object(entry).to_string());
        text.push('\n');
    }
    fs::write(file, text).unwrap();
}
