//! Runs that need more open files than a shell's soft limit.

use std::fs;
use std::process::Command;

/// Runs a task on this many local hosts, with a soft and hard limit.
fn run(hosts: usize, limits: &str) -> (String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let names: String = (0..hosts).map(|n| format!("h{n} ansible_connection=local\n")).collect();
    fs::write(folder.path().join("hosts"), names).unwrap();
    fs::write(folder.path().join("play.yml"), "- hosts: all\n  gather_facts: false\n  tasks: [{ping: }]\n").unwrap();
    let command = format!("{limits}; exec '{}' playbook -i hosts play.yml", env!("CARGO_BIN_EXE_windlass"));
    let output = Command::new("bash").args(["-c", &command]).current_dir(folder.path()).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (printed, output.status.success())
}

#[test]
fn low_open_files_limit_raised() {
    let (printed, well) = run(20, "ulimit -Sn 60");
    assert!(well, "{printed}");
}

#[test]
fn low_hard_limit_of_open_files_reported() {
    let (printed, _) = run(2, "ulimit -n 200");
    assert!(printed.contains("2 hosts need up to 262 open files at a time, and 200 are allowed here"), "{printed}");
}
