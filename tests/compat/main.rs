//! Compares Windlass with ansible-core: answers recorded from 2.18 and 2.19 must match `--compat 2.18` and `2.19`.
//!
//! * `tables/KIND/NAME.txt`: many small cases in one playbook (`table.rs`); `NAME.jsonl` has their answers.
//! * `tables/modules/NAME.txt`: results and effects of modules (`modules.rs`).
//! * `precedence`: every pair of places where a variable can be set (`precedence.rs`).
//! * `matrices/NAME`: a project with placeholders, run for every combination of their values (`matrix.rs`).
//! * `projects/NAME`: a playbook, an inventory, and their output, files and exit code (`project.rs`).
//! * `differences.jsonl`: accepted differences, with their reasons.
//!
//! Each table, matrix and project is a test of its own: `cargo test --test compat NAME` runs those whose names contain
//! NAME, and `COMPAT_CASE=TEXT` only the cases whose names contain TEXT. A NAME that no test contains is such a TEXT.
//! `COMPAT_ENGINES=FOLDER` runs the real engines instead (`make compat`), and `COMPAT_RECORD=1` also records their answers. `COMPAT_ACCEPT=1` records ours for the
//! cases listed in `differences.jsonl`. `COMPAT_SHARDS=3` shares the work of each run between three processes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and says what differs"
)]

mod answers;
mod differences;
mod engine;
mod matrix;
mod modules;
mod precedence;
#[path = "../common/printed.rs"]
mod printed;
mod project;
mod served;
mod table;
mod text;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use answers::Report;
use engine::Engine;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Tables with services mostly wait for them.
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    arguments.test_threads.get_or_insert(2 * cores);
    if let Some(name) = arguments.filter.take_if(|name| !names().iter().any(|test| test.contains(&**name))) {
        answers::choose(name);
    }
    if answers::is_choosing() && answers::is_recording() {
        eprintln!("COMPAT_RECORD records whole files; leave the choice of cases out");
        return ExitCode::FAILURE;
    }
    let engines = Arc::new(Engine::all());
    let any_chosen = |cases: &[String]| cases.iter().any(|case| answers::is_chosen(case));
    let mut trials = Vec::new();
    let mut add = |name: String, run: Box<dyn FnOnce(&[Engine]) -> Result<Completion, Failed> + Send>| {
        let engines = Arc::clone(&engines);
        trials.push(Trial::ignorable_test(name, move || run(&engines)));
    };
    for table in modules::all().into_iter().filter(|table| any_chosen(&table.cases)) {
        add(table.name.clone(), Box::new(move |engines| of_modules(&table, engines)));
    }
    for table in table::all().into_iter().filter(|table| any_chosen(&table.cases)) {
        add(format!("tables/{}", table.name), Box::new(move |engines| finished(|report| table.run(engines, report))));
    }
    add("precedence".to_owned(), Box::new(|engines| finished(|report| precedence::run(engines, report))));
    for matrix in matrix::all().into_iter().filter(|matrix| !matrix.combinations().is_empty()) {
        add(matrix.name.clone(), Box::new(move |engines| finished(|report| matrix.run(engines, report))));
    }
    for project in project::all().into_iter().filter(|project| any_chosen(&project.runs)) {
        add(project.name.clone(), Box::new(move |engines| finished(|report| project.run(engines, report))));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    differences::write_accepted();
    conclusion.exit_code()
}

/// Names of all tests.
fn names() -> Vec<String> {
    let mut names = vec!["precedence".to_owned()];
    names.extend(modules::all().into_iter().map(|table| table.name));
    names.extend(table::all().into_iter().map(|table| format!("tables/{}", table.name)));
    names.extend(matrix::all().into_iter().map(|matrix| matrix.name));
    names.extend(project::all().into_iter().map(|project| project.name));
    names
}

fn finished(run: impl FnOnce(&mut Report)) -> Result<Completion, Failed> {
    let mut report = Report::default();
    run(&mut report);
    report.finish()
}

/// Ignores a table of modules whose programs or rights are missing, unless `WINDLASS_REQUIRE` lists `tables`.
fn of_modules(table: &modules::Table, engines: &[Engine]) -> Result<Completion, Failed> {
    let report = if modules::is_possible() { table.run(engines) } else { Err("needs root and namespaces".to_owned()) };
    match report {
        Ok(report) => report.finish(),
        Err(missing) if windlass_testing::is_required("tables") => Err(missing.into()),
        Err(missing) => Ok(Completion::ignored_with(missing)),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat")
}
