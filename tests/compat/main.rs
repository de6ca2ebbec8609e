//! Compares Windlass with ansible-core: answers recorded from 2.18 and 2.19 must match `--compat 2.18` and `2.19`.
//!
//! * `tables/KIND/NAME.txt`: many small cases in one playbook (`table.rs`); `NAME.jsonl` has their answers.
//! * `tables/modules/NAME.txt`: results and effects of modules (`modules.rs`).
//! * `precedence`: every pair of places where a variable can be set (`precedence.rs`).
//! * `matrices/NAME`: a project with placeholders, run for every combination of their values (`matrix.rs`).
//! * `projects/NAME`: a playbook, an inventory, and their output, files and exit code (`project.rs`).
//! * `differences.jsonl`: accepted differences, with their reasons.
//!
//! `COMPAT_ONLY` selects tables, matrices and projects by a part of their names. `COMPAT_ENGINES=FOLDER` runs the real
//! engines instead (`make compat`), and `COMPAT_RECORD=1` also records their answers.

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
fn tables_match_ansible() {
    let report = Report::default();
    every(&table::all(), |table| table.run(&engines(), &report));
    report.finish("tables");
}

#[test]
fn modules_match_ansible() {
    if !modules::is_possible() {
        return;
    }
    let report = Report::default();
    every(&modules::all(), |table| table.run(&engines(), &report));
    report.finish("modules");
}

#[test]
fn variable_precedence_matches_ansible() {
    let report = Report::default();
    precedence::run(&engines(), &report);
    report.finish("precedence");
}

#[test]
fn matrices_match_ansible() {
    let report = Report::default();
    matrix::all().iter().for_each(|matrix| matrix.run(&engines(), &report));
    report.finish("matrices");
}

#[test]
fn projects_match_ansible() {
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

/// Whether the caller selected this table, matrix or project.
fn is_wanted(name: &str) -> bool {
    let wanted = std::env::var("COMPAT_ONLY").unwrap_or_default();
    wanted.is_empty() || wanted.split_whitespace().any(|part| name.contains(part))
}

/// Runs `work` on each item, two at a time.
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
