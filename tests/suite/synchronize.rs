//! `synchronize` over a real sshd: rsync uses the connection of the run.

use std::fs;
use std::process::Command;

use crate::support::{Sshd, available};

/// Runs a playbook with these tasks and returns its output.
fn run(sshd: &Sshd, tasks: &str) -> String {
    let inventory = format!(
        "web1 ansible_host=127.0.0.1
web2 ansible_host=localhost
[all:vars]
ansible_port={}
ansible_user=root
ansible_ssh_private_key_file={}
there={}
ansible_ssh_common_args=-F none -o UserKnownHostsFile={} -o StrictHostKeyChecking=accept-new
ansible_remote_tmp={}
",
        sshd.port,
        sshd.path("id").display(),
        sshd.path("there").display(),
        sshd.path("known_hosts").display(),
        sshd.path("remote").display()
    );
    fs::write(sshd.path("hosts"), inventory).unwrap();
    fs::write(sshd.path("play.yml"), format!("- hosts: web1\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "play.yml"])
        .current_dir(sshd.directory.path())
        .env("NO_COLOR", "1")
        // Parallel tests reach the same machine.
        .env("WINDLASS_LOCK", "ignore")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[test]
fn synchronize_uses_connection_of_run() {
    if !available() || !windlass_testing::has("rsync") {
        return;
    }
    let sshd = Sshd::start("");
    fs::create_dir_all(sshd.path("site/sub")).unwrap();
    fs::write(sshd.path("site/sub/page"), "hello\n").unwrap();
    let printed = run(
        &sshd,
        r#"    - ansible.posix.synchronize: {src: site/, dest: "{{ there }}/"}
      register: first
    - ansible.posix.synchronize: {src: site/, dest: "{{ there }}/"}
      register: second
    - ansible.posix.synchronize: {mode: pull, src: "{{ there }}/sub", dest: back}
    - ansible.posix.synchronize: {src: site/, dest: "{{ there }}/more"}
      delegate_to: localhost
    - ansible.posix.synchronize: {src: "{{ there }}/sub/", dest: "{{ there }}/copy"}
      delegate_to: web1
    - ansible.posix.synchronize: {src: site/, dest: "{{ there }}/no/such/folder"}
      ignore_errors: true
      register: refused
    - assert: {that: [first is changed, second is not changed, "'sub/page' in first.msg", "'mkdir' in refused.msg"]}
"#,
    );
    assert!(printed.contains("failed=0"), "{printed}");
    for path in ["there/sub/page", "back/sub/page", "there/more/sub/page", "there/copy/page"] {
        assert_eq!(fs::read_to_string(sshd.path(path)).unwrap(), "hello\n", "{path}: {printed}");
    }
}

#[test]
fn rsync_between_two_hosts_has_deadlines_and_warns_of_an_unchecked_key() {
    if !available() || !windlass_testing::has("rsync") {
        return;
    }
    let sshd = Sshd::start("");
    fs::create_dir_all(sshd.path("site")).unwrap();
    fs::write(sshd.path("site/page"), "hello\n").unwrap();
    let printed = run(
        &sshd,
        &format!(
            r#"    - ansible.posix.synchronize:
        src: {}/
        dest: "{{{{ there }}}}"
        private_key: "{{{{ ansible_ssh_private_key_file }}}}"
      delegate_to: web2
      register: copied
    - assert:
        that: item in copied.cmd
      loop: [ConnectTimeout=10, ServerAliveInterval=15, ServerAliveCountMax=4]
"#,
            sshd.path("site").display()
        ),
    );
    assert!(printed.contains("failed=0"), "{printed}");
    assert_eq!(fs::read_to_string(sshd.path("there/page")).unwrap(), "hello\n", "{printed}");
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("synchronize on web2 does not verify the host key of web1"), "{printed}");
}
