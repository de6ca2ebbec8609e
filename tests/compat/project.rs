//! Projects: a folder with a playbook, an inventory and their files.
//!
//! Each line of the file `runs` is a run: arguments of `ansible-playbook`, or a whole command. Without the file, there
//! is one run of `-i inventory playbook.yml`. The comparison covers the exit code, the files left in `$SCRATCH`, and
//! the output unless the line starts with `@`. All runs of a project share `$SCRATCH`, which is emptied between them
//! unless the line starts with `+`. `$COLLECTIONS` is the real engines' folder of collections. `expected.txt` has the
//! answers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use similar::TextDiff;

use crate::answers::{Report, is_chosen, is_recording};
use crate::engine::{Engine, LINES, copy_folder};
use crate::text;

/// A folder with runs.
pub(crate) struct Project {
    pub(crate) name: String,
    folder: PathBuf,
    pub(crate) runs: Vec<String>,
}

/// All projects.
pub(crate) fn all() -> Vec<Project> {
    let mut projects = Vec::new();
    for entry in fs::read_dir(crate::root().join("projects")).unwrap() {
        let folder = entry.unwrap().path();
        let name = format!("projects/{}", folder.file_name().unwrap().display());
        let runs = fs::read_to_string(folder.join("runs")).unwrap_or_else(|_| "-i inventory playbook.yml\n".to_owned());
        let runs =
            runs.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(ToOwned::to_owned).collect();
        projects.push(Project { name, folder, runs });
    }
    projects.sort_by(|a, b| a.name.cmp(&b.name));
    projects
}

impl Project {
    /// Runs the project with every engine, and compares or records the answers.
    pub(crate) fn run(&self, engines: &[Engine], report: &mut Report) {
        let answers: Vec<Vec<String>> = engines.iter().map(|engine| self.ask(engine)).collect();
        let file = self.folder.join("expected.txt");
        if is_recording() {
            return fs::write(file, self.record(&answers)).unwrap();
        }
        let recorded = fs::read_to_string(file).unwrap_or_default();
        for (engine, answers) in engines.iter().zip(&answers) {
            for (run, found) in self.runs.iter().zip(answers).filter(|(run, _)| is_chosen(run)) {
                let wanted = recorded_run(&recorded, run, engine.line);
                let found = match &wanted {
                    Some(wanted) if engine.is_ours => text::own_words(found, wanted),
                    _ => found.clone(),
                };
                report.judge(&self.name, engine, run, &json!(found), wanted.map(Json::from).as_ref(), &diff);
            }
            report.expect_cases_of_differences(&self.name, engine, self.runs.iter().map(String::as_str));
        }
    }

    /// Output and files of each run, up to the last one that is chosen: later runs see what earlier ones leave.
    fn ask(&self, engine: &Engine) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let (case, scratch) = (folder.path().join("case"), folder.path().join("scratch"));
        copy_folder(&self.folder, &case);
        let mut answers = Vec::new();
        let count = self.runs.iter().rposition(|run| is_chosen(run)).map_or(0, |last| last + 1);
        for run in &self.runs[..count] {
            let (mark, line) = match run.split_at_checked(1) {
                Some((mark @ ("@" | "+"), line)) => (mark, line),
                _ => ("", run.as_str()),
            };
            if mark != "+" && scratch.exists() {
                fs::remove_dir_all(&scratch).unwrap();
            }
            fs::create_dir_all(&scratch).unwrap();
            let run = engine.run(line, &case, &scratch);
            let mut answer = String::new();
            if mark != "@" {
                let printed = text::without_paths(&run.stdout, &case, &scratch);
                answer = text::normalised(&printed, engine);
            }
            answer.push_str(&format!("[exit {}]\n", run.code));
            let mut files = Vec::new();
            list_files(&scratch, &scratch, &mut files);
            files.sort();
            for (name, content) in files {
                let content = text::without_paths(&content, &case, &scratch);
                answer.push_str(&format!("[file {name}]\n{}\n", content.trim_end_matches('\n')));
            }
            if std::env::var_os("COMPAT_VERBOSE").is_some() {
                eprintln!("{} [{}] {line}\n{}{}", self.name, engine.line, run.stdout, run.stderr);
            }
            answers.push(answer);
        }
        answers
    }

    /// The recording, with a single answer if the engines agree.
    fn record(&self, answers: &[Vec<String>]) -> String {
        let [classic, current] = answers else { panic!("two engines are recorded") };
        let mut text = String::new();
        for ((run, old), new) in self.runs.iter().zip(classic).zip(current) {
            if old == new {
                text.push_str(&format!("$ {run}\n{old}"));
            } else {
                text.push_str(&format!("${} {run}\n{old}${} {run}\n{new}", LINES[0], LINES[1]));
            }
        }
        text
    }
}

/// Differences between two answers to a run.
fn diff(found: &Json, wanted: &Json) -> String {
    let (found, wanted) = (found.as_str().unwrap_or_default(), wanted.as_str().unwrap_or_default());
    TextDiff::from_lines(wanted, found).unified_diff().header("wanted", "windlass").context_radius(3).to_string()
}

/// The recorded answer of one run.
fn recorded_run(recorded: &str, run: &str, line: &str) -> Option<String> {
    let heads = [format!("$ {run}"), format!("${line} {run}")];
    let is_head =
        |text: &str| text.starts_with("$ ") || LINES.iter().any(|line| text.starts_with(&format!("${line} ")));
    let mut lines = recorded.lines().skip_while(|text| !heads.iter().any(|head| head == text));
    lines.next()?;
    Some(lines.take_while(|text| !is_head(text)).map(|text| format!("{text}\n")).collect())
}

/// Names and texts of all files in a folder, except those whose names begin with a dot.
pub(crate) fn list_files(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            list_files(root, &path, files);
        } else {
            let content = fs::read(&path).unwrap_or_default();
            files.push((name, String::from_utf8_lossy(&content).into_owned()));
        }
    }
}
