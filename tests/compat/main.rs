//! Windlass beside ansible-core: cases whose answers were recorded from ansible-core 2.18 and 2.19, run with `--compat 2.18` and `2.19`.
//!
//! * `tables/KIND/NAME.txt`: many small cases that one playbook answers (`table.rs`); their answers are in `NAME.jsonl`.
//! * `tables/modules/NAME.txt`: what modules answer and leave behind (`modules.rs`).
//! * `precedence`: every pair of places where a variable can be set (`precedence.rs`).
//! * `matrices/NAME`: a project with open places, run with every combination of what can stand in them (`matrix.rs`).
//! * `projects/NAME`: a playbook, an inventory and what they print, leave behind and exit with (`project.rs`).
//! * `differences.jsonl`: what is different and stays so, with the reason.
//!
//! `COMPAT_ONLY` names the tables, matrices and projects to run, by a part of their names. `COMPAT_ENGINES=FOLDER` runs the real engines
//! instead (`make compat`), and with `COMPAT_RECORD=1` their answers are written down.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and says what differs"
)]

mod answers;
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

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use answers::Report;
use engine::Engine;

#[test]
fn tables_answer_as_ansible_does() {
    let report = Report::default();
    every(&table::all(), |table| table.run(&engines(), &report));
    report.finish("tables");
}

#[test]
fn modules_answer_and_do_as_ansibles_do() {
    if !modules::is_possible() {
        return;
    }
    let report = Report::default();
    every(&modules::all(), |table| table.run(&engines(), &report));
    report.finish("modules");
}

#[test]
fn variables_of_two_places_are_chosen_as_ansible_does() {
    let report = Report::default();
    precedence::run(&engines(), &report);
    report.finish("precedence");
}

#[test]
fn combinations_do_what_they_do_with_ansible() {
    let report = Report::default();
    matrix::all().iter().for_each(|matrix| matrix.run(&engines(), &report));
    report.finish("matrices");
}

#[test]
fn projects_do_what_they_do_with_ansible() {
    let report = Report::default();
    every(&project::all(), |project| project.run(&engines(), &report));
    report.finish("projects");
}

fn engines() -> Vec<Engine> {
    Engine::all()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat")
}

/// Whether the caller wants this table, matrix or project.
fn is_wanted(name: &str) -> bool {
    let wanted = std::env::var("COMPAT_ONLY").unwrap_or_default();
    wanted.is_empty() || wanted.split_whitespace().any(|part| name.contains(part))
}

/// Does something with each item, two at a time.
fn every<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}
