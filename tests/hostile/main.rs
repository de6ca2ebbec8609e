//! A host that lies: its sshd starts an executor that speaks the protocol as an attacker would. Each case is an attack, the playbook it aims at,
//! and what must hold: the exit code, the words, no command on the controller, and bounded memory.
//!
//! This test program is the liar as well (`WINDLASS_LIAR` names its script). `HOSTILE_CASE` chooses cases by a part of their names;
//! `WINDLASS_BINARY` is another program to attack than the one of this build.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and reports what holds"
)]

mod everywhere;
mod frames;
mod liar;
mod results;
mod stage;
#[path = "../../crates/ssh/tests/support/mod.rs"]
mod support;
mod templates;

/// No test of its own: sshd runs the program with this name.
#[test]
fn liar() {
    if let Some(script) = std::env::var_os("WINDLASS_LIAR") {
        liar::serve(std::path::Path::new(&script));
        std::process::exit(0);
    }
}

#[test]
fn result_with_effects_changes_nothing_but_itself() {
    stage::run(results::cases());
}

#[test]
fn template_in_data_is_never_evaluated() {
    stage::run(templates::cases());
}

#[test]
fn frame_that_lies_fails_its_host_alone() {
    stage::run(frames::cases());
}

#[test]
fn data_in_any_argument_of_any_action_is_never_rendered() {
    everywhere::actions();
}

#[test]
fn data_in_any_keyword_is_never_rendered() {
    everywhere::keywords();
}

#[test]
fn data_in_any_filter_test_and_lookup_is_never_rendered() {
    everywhere::expressions();
}
