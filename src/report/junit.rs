//! A report as a JUnit file: one case for each task on each host.

use std::path::Path;

use super::model::Report;
use super::outcome::{Kind, Outcome};
use crate::output::{JunitOutcome, TestCase, junit_xml};

/// The report as a JUnit file.
pub fn junit(report: &Report) -> String {
    let suite = report.playbooks.iter().map(|path| stem(path)).collect::<Vec<_>>().join(", ");
    let outcomes: Vec<JunitOutcome> = report.tasks.iter().map(outcome).collect();
    let cases = report.tasks.iter().zip(&outcomes).map(|(task, outcome)| TestCase {
        class: task.place.clone().unwrap_or_default(),
        name: format!("[{}] {}: {}", task.host, task.play, task.task),
        seconds: std::time::Duration::from_millis(task.took.unwrap_or_default()).as_secs_f64(),
        outcome,
    });
    junit_xml(&suite, cases)
}

fn stem(path: &str) -> String {
    Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn outcome(task: &Outcome) -> JunitOutcome {
    let message = task.message.clone().or_else(|| task.withheld.map(str::to_owned)).unwrap_or_default();
    match task.status {
        Kind::Failed | Kind::Unreachable => JunitOutcome::Failed { message, output: output(task) },
        Kind::Skipped => JunitOutcome::Skipped(if message.is_empty() { "skipped".to_owned() } else { message }),
        Kind::Rescued | Kind::Ignored | Kind::Changed | Kind::Ok => JunitOutcome::Passed(output(task)),
    }
}

/// All texts of an outcome, with its status.
fn output(task: &Outcome) -> String {
    let mut lines = vec![format!("status: {}", task.status.word())];
    lines.extend(task.message.clone());
    lines.extend(task.arguments.iter().map(|arguments| format!("arguments: {arguments}")));
    lines.extend(task.texts.iter().map(|text| format!("{}: {}", text.name, text.text)));
    for item in &task.items {
        lines.push(format!("item {}: {}", item.label, item.status.word()));
        lines.extend(item.message.clone());
        lines.extend(item.texts.iter().map(|text| format!("{}: {}", text.name, text.text)));
    }
    lines.extend(task.excerpt.clone());
    lines.extend(task.diff.clone());
    lines.join("\n")
}
