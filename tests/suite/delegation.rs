//! `delegate_to`: what a task takes from the other host.

use std::fs;
use std::process::Command;

use crate::ran::Ran;

#[test]
fn package_manager_is_that_of_the_host_to_which_a_block_delegates() {
    let folder = tempfile::tempdir().unwrap();
    // The machine of the test has another manager, so that of `a` shows.
    let play = "- hosts: a\n  gather_facts: false\n  module_defaults: {apt: {force: false}, dnf: {allowerasing: false}}\n  tasks:\n    \
                - set_fact: {ansible_pkg_mgr: dnf, cacheable: true}\n    - delegate_to: b\n      block:\n        \
                - package: {state: present}\n          ignore_errors: true\n";
    fs::write(folder.path().join("play.yml"), play).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["playbook", "-c", "local", "-i", "a,b,", "play.yml"]);
    crate::project::enter(&mut command, folder.path());
    Ran::of(&command.output().unwrap()).ends(0).lacks("This host has no dnf");
}
