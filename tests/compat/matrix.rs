//! Matrices: a small project with placeholders, run once for each combination of their values.
//!
//! The file `matrix` of a folder begins with the run: arguments of `ansible-playbook`, or a whole command. Then each
//! placeholder has a section `[NAME]` with a line `LABEL: TEXT` for each value. The text replaces `@NAME@` in all files
//! of the project and in the run. Further lines of a text follow its label, indented. A line that consists of a
//! placeholder is removed if its text is empty. Each line under `[without]` excludes the combinations that match all
//! its words, `NAME=LABEL,LABEL` or `NAME!=LABEL,LABEL`.
//!
//! The comparison covers the outcome of each task on each host in order, the exit code, and the files left in
//! `$SCRATCH`. Each key of `answers.json` is compared as a separate case. `NAME.jsonl` has the answers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::answers::{Answers, Report, is_chosen};
use crate::engine::{Engine, Run, copy_folder};
use crate::project::list_files;
use crate::text;

/// A project with placeholders.
pub(crate) struct Matrix {
    pub(crate) name: String,
    folder: PathBuf,
    run: String,
    places: Vec<Place>,
    without: Vec<Vec<String>>,
}

/// A placeholder, with labels and texts of its values.
struct Place {
    name: String,
    choices: Vec<(String, String)>,
}

/// All matrices.
pub(crate) fn all() -> Vec<Matrix> {
    let mut matrices = Vec::new();
    for entry in fs::read_dir(crate::root().join("matrices")).unwrap() {
        let folder = entry.unwrap().path();
        let name = format!("matrices/{}", folder.file_name().unwrap().display());
        if folder.is_dir() {
            let text = fs::read_to_string(folder.join("matrix")).unwrap();
            matrices.push(Matrix::read(name, folder, &text));
        }
    }
    matrices.sort_by(|a, b| a.name.cmp(&b.name));
    matrices
}

impl Matrix {
    fn read(name: String, folder: PathBuf, text: &str) -> Matrix {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let run = lines.next().unwrap().to_owned();
        let mut matrix = Matrix { name, folder, run, places: Vec::new(), without: Vec::new() };
        let mut is_without = false;
        for line in lines {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                is_without = name == "without";
                if !is_without {
                    matrix.places.push(Place { name: name.to_owned(), choices: Vec::new() });
                }
            } else if is_without {
                matrix.without.push(line.split_whitespace().map(ToOwned::to_owned).collect());
            } else if let Some(more) = line.strip_prefix("    ") {
                let text = &mut matrix.places.last_mut().unwrap().choices.last_mut().unwrap().1;
                text.push_str(if text.is_empty() { "" } else { "\n" });
                text.push_str(more);
            } else {
                let (label, text) = line.split_once(':').unwrap();
                matrix.places.last_mut().unwrap().choices.push((label.to_owned(), text.trim().to_owned()));
            }
        }
        matrix
    }

    /// Runs every engine and compares the answers.
    pub(crate) fn run(&self, engines: &[Engine], report: &mut Report) {
        let answers: Vec<(&Engine, Answers)> = engines.iter().map(|engine| (engine, self.ask(engine))).collect();
        report.settle(&self.name, &self.folder.with_extension("jsonl"), &answers);
    }

    fn ask(&self, engine: &Engine) -> Answers {
        self.combinations().iter().flat_map(|chosen| self.answer(engine, chosen)).collect()
    }

    /// The chosen value of each placeholder, for every combination to run.
    pub(crate) fn combinations(&self) -> Vec<Vec<usize>> {
        let mut all = vec![Vec::new()];
        for place in &self.places {
            let longer = |chosen: &Vec<usize>| {
                let chosen = chosen.clone();
                (0..place.choices.len()).map(move |choice| [chosen.as_slice(), &[choice]].concat())
            };
            all = all.iter().flat_map(longer).collect();
        }
        all.retain(|chosen| {
            let is_meant = |word: &String| {
                let (name, labels) = word.split_once('=').unwrap();
                let at = self.places.iter().position(|place| place.name == name.trim_end_matches('!')).unwrap();
                let is_listed = labels.split(',').any(|label| label == self.places[at].choices[chosen[at]].0);
                is_listed != name.ends_with('!')
            };
            !self.without.iter().any(|without| without.iter().all(is_meant)) && is_chosen(&self.case(chosen))
        });
        all
    }

    /// Name of a combination: `placeholder=label` for each.
    fn case(&self, chosen: &[usize]) -> String {
        let named = self.places.iter().zip(chosen);
        named
            .map(|(place, choice)| format!("{}={}", place.name, place.choices[*choice].0))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn answer(&self, engine: &Engine, chosen: &[usize]) -> Answers {
        let folder = tempfile::tempdir().unwrap();
        let (project, scratch) = (folder.path().join("case"), folder.path().join("scratch"));
        copy_folder(&self.folder, &project);
        fs::create_dir(&scratch).unwrap();
        fs::remove_file(project.join("matrix")).unwrap();
        self.fill_files(&project, chosen);
        let run = engine.run(&self.filled(&self.run, chosen), &project, &scratch);
        let case = self.case(chosen);
        if std::env::var_os("COMPAT_VERBOSE").is_some() {
            eprintln!("{} [{}] {case}\n{}{}", self.name, engine.line, run.stdout, run.stderr);
        }
        let mut files = Vec::new();
        list_files(&scratch, &scratch, &mut files);
        files.sort();
        let mut answers = Answers::new();
        let mut story = story(&run);
        for (name, content) in files {
            let content = text::without_paths(&content, &project, &scratch);
            if name == "answers.json" {
                let Json::Object(each) = serde_json::from_str(&content).unwrap() else { continue };
                answers.extend(
                    each.into_iter().map(|(key, result)| (format!("{case} {key}"), text::steady_with_diff(result))),
                );
            } else {
                story.push(format!("{name}: {content}"));
            }
        }
        answers.insert(0, (case, json!(story)));
        answers
    }

    fn fill_files(&self, folder: &Path, chosen: &[usize]) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.fill_files(&path, chosen);
            } else if let Ok(text) = fs::read_to_string(&path) {
                fs::write(&path, self.filled(&text, chosen)).unwrap();
            }
        }
    }

    fn filled(&self, text: &str, chosen: &[usize]) -> String {
        let mut text = text.to_owned();
        for (place, choice) in self.places.iter().zip(chosen) {
            let mark = format!("@{}@", place.name);
            let filling = &place.choices[*choice].1;
            let mut filled = String::new();
            for line in text.split_inclusive('\n') {
                if line.trim() == mark && filling.is_empty() {
                    continue;
                }
                // Align the following lines with the first.
                let column = line.find(&mark).unwrap_or_default();
                filled.push_str(&line.replace(&mark, &filling.replace('\n', &format!("\n{}", " ".repeat(column)))));
            }
            text = filled;
        }
        text
    }
}

/// Outcome of each task on each host in order, and the exit code. The output of listing options is kept as it is.
fn story(run: &Run) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let mut title = String::new();
    if run.stdout.contains("\nplaybook: ") {
        told.extend(run.stdout.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()));
    } else {
        for line in run.stdout.lines() {
            if line.starts_with("PLAY RECAP ") {
                break;
            }
            if let Some((kind, rest)) = line.split_once(" [").filter(|(kind, _)| BANNERS.contains(kind)) {
                let name = rest.rsplit_once(']').map_or(rest, |(name, _)| name);
                title = format!("{} {name}", kind.to_lowercase());
                if kind == "PLAY" {
                    told.push(title.clone());
                }
            } else if line.starts_with("NO MORE HOSTS LEFT") {
                title = "no more hosts left".to_owned();
                told.push(title.clone());
            } else if line == "...ignoring" {
                told.last_mut().unwrap().push_str(" ignored");
            } else if let Some(message) = line.strip_prefix("    \"msg\": ") {
                told.last_mut().unwrap().push_str(&format!(" {message}"));
            } else if let Some(what) = result(line) {
                told.push(format!("{title}: {what}"));
            }
        }
        told.dedup_by(|line, before| *before == "no more hosts left" && line == before);
    }
    told.push(format!("exit {}", run.code));
    told
}

const BANNERS: [&str; 3] = ["PLAY", "TASK", "RUNNING HANDLER"];

/// Status and host in a line of the default output, such as `ok h1`, with the item of a loop.
fn result(line: &str) -> Option<String> {
    let (status, rest) = line.split_once(": ")?;
    if status == "included" {
        let hosts = rest.rsplit_once(" for ").map_or(rest, |(_, hosts)| hosts);
        return Some(format!("included {hosts}"));
    }
    if !["ok", "changed", "skipping", "fatal", "failed"].contains(&status) {
        return None;
    }
    let Some((host, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return Some(format!("{status} {rest}"));
    };
    let status = if after.contains("UNREACHABLE!") { "unreachable" } else { status };
    let item =
        after.split_once("(item=").and_then(|(_, rest)| rest.split_once(')')).map(|(item, _)| format!(" {item}"));
    Some(format!("{status} {host}{}", item.unwrap_or_default()))
}
