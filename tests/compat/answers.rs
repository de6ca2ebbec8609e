//! Recorded answers, and their comparison with an engine's answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libtest_mimic::{Completion, Failed};
use serde_json::{Map, Value as Json, json};

use crate::differences;
use crate::engine::{Engine, LINES};

/// Text in the names of the cases to run; without it, all run.
static CHOSEN: OnceLock<Option<String>> = OnceLock::new();

/// Runs only the cases whose names contain the text.
pub(crate) fn choose(text: String) {
    CHOSEN.set(Some(text)).unwrap();
}

/// The chosen text: that of [`choose`], or else of `COMPAT_CASE`.
fn chosen() -> Option<&'static String> {
    CHOSEN.get_or_init(|| std::env::var("COMPAT_CASE").ok().filter(|text| !text.is_empty())).as_ref()
}

/// Whether only some cases run.
pub(crate) fn is_choosing() -> bool {
    chosen().is_some()
}

/// Whether a case runs.
pub(crate) fn is_chosen(case: &str) -> bool {
    chosen().is_none_or(|text| case.contains(text))
}

/// Answers of one engine: name of the case, and its answer.
pub(crate) type Answers = Vec<(String, Json)>;

/// Differences between the engines' answers and the recorded ones.
#[derive(Default)]
pub(crate) struct Report {
    compared: usize,
    problems: BTreeMap<String, String>,
}

impl Report {
    /// Whether there are no differences.
    pub(crate) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Keeps only the differences that `other` has too.
    pub(crate) fn keep_common(&mut self, other: &Report) {
        self.problems.retain(|name, _| other.problems.contains_key(name));
    }

    /// Result of the trial: fails with all differences, if there are any.
    pub(crate) fn finish(self) -> Result<Completion, Failed> {
        if self.is_clean() {
            return Ok(Completion::Completed);
        }
        let mut message = format!("{} of {} comparisons differ", self.problems.len(), self.compared);
        for (name, text) in &self.problems {
            message.push_str(&format!("\n==== {name}\n{text}"));
        }
        Err(message.into())
    }

    /// Compares the answers of all engines for `suite` with the file, or records them in it.
    pub(crate) fn settle(&mut self, suite: &str, file: &Path, answers: &[(&Engine, Answers)]) {
        if is_recording() {
            return write(file, answers);
        }
        let recorded = read(file);
        for (engine, answers) in answers {
            let known: BTreeMap<&str, &Json> = recorded
                .iter()
                .filter_map(|entry| Some((entry["case"].as_str()?, answer_of(entry, engine.line)?)))
                .collect();
            for (case, found) in answers.iter().filter(|(case, _)| is_chosen(case)) {
                let wanted = known.get(case.as_str()).copied();
                self.judge(suite, engine, case, found, wanted, &|found, wanted| {
                    format!("    answers {found}\n    not     {wanted}")
                });
            }
            if answers.len() != known.len() && !is_choosing() {
                self.problem(format!("{suite} [{}]", engine.line), "    the recorded cases are not these".to_owned());
            }
            self.expect_cases_of_differences(suite, engine, answers.iter().map(|(case, _)| case.as_str()));
        }
    }

    /// Compares one answer with the recorded one, or with ours if it is an accepted difference.
    pub(crate) fn judge(
        &mut self,
        suite: &str,
        engine: &Engine,
        case: &str,
        found: &Json,
        wanted: Option<&Json>,
        diff: &dyn Fn(&Json, &Json) -> String,
    ) {
        self.compared += 1;
        let name = format!("{suite} [{}] {case}", engine.line);
        if is_choosing() {
            eprintln!("case: {name}");
        }
        let Some(wanted) = wanted else {
            return self.problem(name, "    was never recorded".to_owned());
        };
        match differences::accepted(suite, case, engine, found) {
            Some(_) if found == wanted => {
                self.problem(name, "    is no longer different: take it from the list of differences".to_owned());
            }
            Some(ours) if ours != *found => {
                self.problem(name, format!("    differs from the list of differences\n{}", diff(found, &ours)));
            }
            None if found != wanted => {
                self.problem(name, format!("    differs from ansible-core\n{}", diff(found, wanted)))
            }
            _ => {}
        }
    }

    /// Reports accepted differences whose case does not exist.
    pub(crate) fn expect_cases_of_differences<'a>(
        &mut self,
        suite: &str,
        engine: &Engine,
        cases: impl Iterator<Item = &'a str>,
    ) {
        if is_choosing() {
            return;
        }
        for case in differences::without_case(suite, engine, cases) {
            self.problem(
                format!("{suite} [{}] {case}", engine.line),
                "    is in the list of differences but no case".to_owned(),
            );
        }
    }

    fn problem(&mut self, name: String, text: String) {
        self.problems.insert(name, text);
    }
}

/// Whether to record the answers of the real engines.
pub(crate) fn is_recording() -> bool {
    std::env::var_os("COMPAT_RECORD").is_some()
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
