//! Finds uses of Python plugins in the texts of tasks, before a run.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use regex::Regex;
use windlass_template::PluginKind;
use windlass_yaml::{Node, Value};

use super::{KINDS, PythonPlugins, python_files};
use crate::playbook::{Play, Task};

static WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"['"]([A-Za-z_]\w*)['"]\s*:|\b([A-Za-z_]\w*)\s*=[^=]|^def ([A-Za-z_]\w*)"#)
        .expect("a constant expression")
});

/// Words of Python source that may be names of filters or tests.
pub(super) fn words_of(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        for captures in WORD.captures_iter(line) {
            found.extend(captures.iter().skip(1).flatten().map(|word| word.as_str().to_owned()));
        }
    }
    found
}

/// Warnings about Python plugins that cannot run: their files and the tasks that use them.
pub fn unusable(plugins: &PythonPlugins, plays: &[Play]) -> Vec<String> {
    let mut sentences = Vec::new();
    for (kind, _, _) in KINDS {
        let folders = plugins.modules.plugin_folders(kind);
        let files: Vec<PathBuf> = folders.iter().flat_map(|folder| python_files(folder)).collect();
        if files.is_empty() {
            continue;
        }
        // Checked only if plugins exist, because finding Python searches many folders.
        let Some(problem) = plugins.problem() else { return Vec::new() };
        let tasks: Vec<&Arc<Task>> = plays.iter().flat_map(Play::all_tasks).collect();
        for file in files {
            let names: HashSet<String> = match kind {
                PluginKind::Lookup => {
                    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).into_iter().collect()
                }
                _ => words_of(&windlass_bounds::read_text(&file).unwrap_or_default()).into_iter().collect(),
            };
            let mut users: Vec<String> = tasks
                .iter()
                .filter_map(|task| used_in(task, kind, &names).map(|name| format!("{name} at {}", task.span)))
                .collect();
            users.dedup();
            let users = if users.is_empty() {
                "no task uses it by name".to_owned()
            } else {
                format!("used: {}", users.join(", "))
            };
            sentences.push(format!(
                "the {} plugin {} is written in Python and cannot be used: {problem} ({users})",
                kind.word(),
                file.display()
            ));
        }
    }
    sentences
}

/// First of the names that the task's texts use.
fn used_in(task: &Task, kind: PluginKind, names: &HashSet<String>) -> Option<String> {
    static FILTER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\|\s*([A-Za-z_]\w*)").expect("a constant expression"));
    static TEST: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\bis\s+(?:not\s+)?([A-Za-z_]\w*)").expect("a constant expression"));
    static LOOKUP: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"\b(?:lookup|query|q)\(\s*['"]([A-Za-z_]\w*)"#).expect("a constant expression"));
    let expression = match kind {
        PluginKind::Filter => &FILTER,
        PluginKind::Test => &TEST,
        PluginKind::Lookup => &LOOKUP,
    };
    if let Some((lookup, _)) = &task.with_lookup
        && kind == PluginKind::Lookup
        && names.contains(lookup)
    {
        return Some(lookup.clone());
    }
    let mut texts = Vec::new();
    let own = task.args.iter().map(|(_, node)| node).chain(task.vars.iter().map(|(_, node)| node));
    let conditions = task.when.iter().chain(&task.name);
    own.chain(conditions).chain(task.keywords.get("loop")).for_each(|node| texts_in(node, &mut texts));
    texts.iter().find_map(|text| {
        let used = expression.captures_iter(text).filter_map(|captures| captures.get(1));
        used.map(|word| word.as_str()).find(|word| names.contains(*word)).map(str::to_owned)
    })
}

fn texts_in<'a>(node: &'a Node, texts: &mut Vec<&'a str>) {
    match &node.value {
        Value::String(text) => texts.push(text),
        Value::List(items) => items.iter().for_each(|item| texts_in(item, texts)),
        Value::Map(map) => map.iter().for_each(|(_, item)| texts_in(item, texts)),
        _ => {}
    }
}
