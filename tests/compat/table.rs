//! Tables: many small cases in one playbook, which runs in a copy of the folder `tables/project`.
//!
//! A table's folder defines the kind of its cases. `templates` and `conditions` have one per line, and `patterns` are
//! host patterns. `tasks` are YAML separated by blank lines. `yaml` are variable files, and `playbooks` are checked for
//! syntax only; `====` separates both. Lines that start with `##` are comments.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::answers::{Answers, Report, is_chosen};
use crate::engine::{Engine, copy_folder};
use crate::text;

/// Kind of the cases of a table.
#[derive(Clone, Copy)]
enum Kind {
    Templates,
    Conditions,
    Tasks,
    Yaml,
    Patterns,
    Playbooks,
}

const KINDS: [(&str, Kind); 6] = [
    ("templates", Kind::Templates),
    ("conditions", Kind::Conditions),
    ("tasks", Kind::Tasks),
    ("yaml", Kind::Yaml),
    ("patterns", Kind::Patterns),
    ("playbooks", Kind::Playbooks),
];

/// A file of cases.
pub(crate) struct Table {
    kind: Kind,
    pub(crate) name: String,
    path: PathBuf,
    pub(crate) cases: Vec<String>,
}

/// All tables.
pub(crate) fn all() -> Vec<Table> {
    let mut tables = Vec::new();
    for (folder, kind) in KINDS {
        for entry in fs::read_dir(crate::root().join("tables").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "txt") {
                continue;
            }
            let name = format!("{folder}/{}", path.file_stem().unwrap().display());
            let cases = cases(kind, &fs::read_to_string(&path).unwrap());
            tables.push(Table { kind, name, path, cases });
        }
    }
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    tables
}

fn cases(kind: Kind, text: &str) -> Vec<String> {
    let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with("##")).collect();
    let separator = match kind {
        Kind::Tasks => "\n\n",
        Kind::Yaml | Kind::Playbooks => "\n====\n",
        Kind::Templates | Kind::Conditions | Kind::Patterns => "\n",
    };
    text.split(separator).map(|case| case.trim_matches('\n').to_owned()).filter(|case| !case.is_empty()).collect()
}

impl Table {
    /// Runs every engine and compares the answers.
    pub(crate) fn run(&self, engines: &[Engine], report: &mut Report) {
        let answers: Vec<(&Engine, Answers)> = engines.iter().map(|engine| (engine, self.ask(engine))).collect();
        report.settle(&self.name, &self.path.with_extension("jsonl"), &answers);
    }

    fn ask(&self, engine: &Engine) -> Answers {
        let folder = tempfile::tempdir().unwrap();
        let (case, scratch) = (folder.path().join("case"), folder.path().join("scratch"));
        copy_folder(&crate::root().join("tables/project"), &case);
        fs::create_dir(&scratch).unwrap();
        if matches!(self.kind, Kind::Playbooks) {
            return self.check(engine, &case, &scratch);
        }
        fs::write(case.join("playbook.yml"), self.playbook(&case)).unwrap();
        let run = engine.run("-i inventory playbook.yml", &case, &scratch);
        let Ok(written) = fs::read_to_string(scratch.join("answers.json")) else {
            panic!("{} [{}] wrote no answers:\n{}{}", self.name, engine.line, run.stdout, run.stderr)
        };
        let written = text::without_paths(&written, &case, &scratch);
        let written = text::without_placeholders(&text::without_infinity(&written));
        let results: Json =
            serde_json::from_str(&written).unwrap_or_else(|error| panic!("{}: {error}\n{written}", self.name));
        self.cases
            .iter()
            .enumerate()
            .filter(|(_, case)| is_chosen(case))
            .map(|(index, case)| (case.clone(), self.answer(results[format!("r{index}")].clone())))
            .collect()
    }

    /// Exit code of `--syntax-check` for each playbook.
    fn check(&self, engine: &Engine, folder: &Path, scratch: &Path) -> Answers {
        let mut answers = Answers::new();
        for case in self.cases.iter().filter(|case| is_chosen(case)) {
            fs::write(folder.join("playbook.yml"), format!("{case}\n")).unwrap();
            let run = engine.run("-i inventory --syntax-check playbook.yml", folder, scratch);
            answers.push((case.clone(), json!({"exit": run.code})));
        }
        answers
    }

    /// A playbook that registers the result of every case and writes them to a file.
    fn playbook(&self, folder: &Path) -> String {
        let mut text = String::new();
        if !matches!(self.kind, Kind::Patterns) {
            text.push_str("- hosts: localhost\n  gather_facts: false\n  tasks:\n");
        }
        for (index, case) in self.cases.iter().enumerate().filter(|(_, case)| is_chosen(case)) {
            let name = format!("r{index}");
            text.push_str(&match self.kind {
                Kind::Templates => task(&format!("- debug:\n    msg: {}", Json::from(case.as_str())), &name),
                Kind::Conditions => task(&format!("- debug:\n    msg: ran\n  when: {case}"), &name),
                Kind::Tasks => task(&case.replace("RESULT", &name), &name),
                Kind::Yaml => {
                    let file = format!("{name}.yml");
                    fs::write(folder.join(&file), format!("{case}\n")).unwrap();
                    task(&format!("- include_vars: {file}"), &name)
                }
                Kind::Playbooks => String::new(),
                Kind::Patterns => format!(
                    "- hosts: {}\n  gather_facts: false\n  tasks:\n    - set_fact:\n        {name}: \"{{{{ ansible_play_hosts_all }}}}\"\n      \
                     delegate_to: localhost\n      delegate_facts: true\n      run_once: true\n",
                    Json::from(case.as_str())
                ),
            });
        }
        if matches!(self.kind, Kind::Patterns) {
            text.push_str("- hosts: localhost\n  gather_facts: false\n  tasks:\n");
        }
        let all: Vec<String> =
            (0..self.cases.len()).map(|index| format!("'r{index}': r{index} | default([])")).collect();
        text.push_str(&format!(
            "    - copy:\n        dest: \"{{{{ scratch }}}}/answers.json\"\n        content: \"{{{{ {{{}}} | to_json }}}}\"\n",
            all.join(", ")
        ));
        text
    }

    /// The compared parts of a registered result.
    fn answer(&self, result: Json) -> Json {
        match self.kind {
            Kind::Templates if result["failed"] == true => json!({"fails": true}),
            Kind::Templates => json!({"value": result["msg"]}),
            Kind::Conditions if result["failed"] == true => json!("fails"),
            Kind::Conditions => json!(result["skipped"] != true),
            Kind::Yaml if result["failed"] == true => json!({"fails": true}),
            Kind::Yaml => result["ansible_facts"].clone(),
            Kind::Tasks => text::steady(result),
            Kind::Patterns | Kind::Playbooks => result,
        }
    }
}

/// Tasks of a case, with the last one registered. Its failure is part of the answer.
fn task(case: &str, register: &str) -> String {
    let mut text: String = case.lines().map(|line| format!("    {line}\n")).collect();
    text.push_str(&format!("      register: {register}\n"));
    if !case.lines().any(|line| line.starts_with("  ignore_errors:")) {
        text.push_str("      ignore_errors: true\n");
    }
    text
}
