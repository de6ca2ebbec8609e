//! The ad-hoc command.

use std::process::Command;

#[test]
fn an_adhoc_command_ends_when_its_hosts_are_done() {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["adhoc", "localhost", "-m", "command", "-a", "echo one two"])
        .env("ANSIBLE_CONFIG", "/nonexistent/ansible.cfg")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "localhost | CHANGED | rc=0 >>\none two\n");
    assert_eq!(output.status.code(), Some(0));
}
