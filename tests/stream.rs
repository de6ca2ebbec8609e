//! What is sent ahead of earlier answers comes to the same as if each answer had been waited for, over a real sshd.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../crates/ssh/tests/support/mod.rs"]
mod support;

use std::fs;
use std::process::Command;

use regex::Regex;
use support::{Sshd, available};

/// Runs a playbook of these tasks; what it printed, what it left in its folder, and how often it waited for an answer.
fn outcome(tasks: &str, stream: &str) -> (String, Vec<(String, String)>, u64) {
    let sshd = Sshd::start("");
    let folder = sshd.path("work");
    fs::create_dir(&folder).unwrap();
    let inventory = format!(
        "web1 ansible_host=127.0.0.1 ansible_port={} ansible_user=root ansible_ssh_private_key_file={} folder={} \
         ansible_ssh_common_args='-F none -o UserKnownHostsFile={} -o StrictHostKeyChecking=accept-new' ansible_remote_tmp={}\n",
        sshd.port,
        sshd.path("id").display(),
        folder.display(),
        sshd.path("known_hosts").display(),
        sshd.path("remote").display()
    );
    fs::write(sshd.path("hosts"), inventory).unwrap();
    fs::write(sshd.path("play.yml"), format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "play.yml"])
        .current_dir(sshd.directory.path())
        .env("WINDLASS_STATISTICS", sshd.path("statistics"))
        .env("WINDLASS_STREAM", stream)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let mut left: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    left.sort();
    let statistics = fs::read_to_string(sshd.path("statistics")).unwrap();
    let trips = statistics.split("round_trips: ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    let times = Regex::new(r#""(delta|start|end)": "[^"]*""#).unwrap();
    let printed = printed.replace(&folder.display().to_string(), "FOLDER");
    (times.replace_all(&printed, "TIME").into_owned(), left, trips)
}

/// The round trips with and without sending ahead, after checking that nothing else differs.
fn compared(tasks: &str) -> (u64, u64) {
    let (printed, left, trips) = outcome(tasks, "true");
    let (expected, expected_left, all_trips) = outcome(tasks, "false");
    assert_eq!(printed, expected);
    assert_eq!(left, expected_left);
    (trips, all_trips)
}

#[test]
fn items_travel_together_and_in_order() {
    if !available() {
        return;
    }
    let (trips, all_trips) = compared(
        r#"    - lineinfile: {path: "{{ folder }}/list", line: "{{ item }}", create: true}
      loop: "{{ range(100) | list }}"
      register: lines
    - debug: {msg: "{{ lines.results | map(attribute='item') }}"}
"#,
    );
    assert_eq!((trips, all_trips), (1, 100));
}

#[test]
fn items_that_fail_or_are_skipped_do_not_stop_the_others() {
    if !available() {
        return;
    }
    compared(
        r#"    - shell: "echo {{ item }} >> {{ folder }}/log; exit {{ item % 3 }}"
      loop: "{{ range(9) | list }}"
      when: item != 4
      failed_when: rc.rc == 2
      changed_when: rc.rc == 0
      register: rc
      ignore_errors: true
    - debug: {msg: "{{ rc.results | map(attribute='rc', default='none') }}"}
"#,
    );
}

#[test]
fn an_item_that_reads_what_an_earlier_one_gave_waits_for_it() {
    if !available() {
        return;
    }
    let (_, left, _) = outcome(
        r#"    - shell: "echo {{ (before.stdout | default(0) | int) + item }} | tee -a {{ folder }}/sums"
      loop: [1, 2, 3, 4]
      register: before
    - shell: "echo {{ sum }} | tee -a {{ folder }}/sums"
      vars: {sum: "{{ (later.stdout | default(0) | int) + item }}"}
      loop: [1, 2, 3, 4]
      register: later
"#,
        "true",
    );
    assert_eq!(left, [("sums".to_owned(), "1\n3\n6\n10\n1\n3\n6\n10\n".to_owned())]);
}

#[test]
fn other_users_and_files_of_the_project_go_ahead_too() {
    if !available() {
        return;
    }
    let (trips, all_trips) = compared(
        r#"    - copy: {content: "{{ item }}", dest: "{{ folder }}/{{ item }}"}
      loop: "{{ range(20) | list }}"
    - command: "id -un"
      become: true
      become_user: nobody
      loop: "{{ range(20) | list }}"
"#,
    );
    assert_eq!((trips, all_trips), (2, 40));
}
