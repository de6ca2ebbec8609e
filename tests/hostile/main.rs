//! A lying host: its sshd starts an executor that speaks the protocol as an attacker would. Each case has an attack and
//! a playbook. It checks the exit code, the messages, that no command ran on the controller, and that memory stayed
//! bounded.
//!
//! This test program is also the liar (`WINDLASS_LIAR` names its script). `HOSTILE_CASE` selects cases by a part of
//! their names; `WINDLASS_BINARY` attacks another program than this build's.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and reports what holds"
)]

mod everywhere;
mod frames;
mod liar;
#[path = "../common/memory.rs"]
mod memory;
mod results;
mod stage;
#[path = "../../crates/ssh/tests/support/mod.rs"]
mod support;
mod templates;

/// Not a test: sshd runs the program with this name.
#[test]
fn liar() {
    if let Some(script) = std::env::var_os("WINDLASS_LIAR") {
        liar::serve(std::path::Path::new(&script));
        std::process::exit(0);
    }
}

#[test]
fn result_with_forged_effects_ignored() {
    stage::run(results::cases());
}

#[test]
fn template_in_data_is_never_evaluated() {
    stage::run(templates::cases());
}

#[test]
fn hostile_frame_fails_only_its_host() {
    stage::run(frames::cases());
}

#[test]
fn data_in_any_argument_of_any_action_is_never_rendered() {
    everywhere::actions();
}

#[test]
fn answers_to_a_restart_are_never_rendered() {
    everywhere::reboots();
}

#[test]
fn data_in_any_keyword_is_never_rendered() {
    everywhere::keywords();
}

#[test]
fn data_in_any_filter_test_and_lookup_is_never_rendered() {
    everywhere::expressions();
}
