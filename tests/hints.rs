//! Follows printed advice: runs the command that prints it, then the commands it names.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../crates/ssh/tests/support/mod.rs"]
mod support;

#[path = "common/sources.rs"]
mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use regex::Regex;
use sources::rust_files;
use support::{Sshd, available};

/// A command that fails with advice, and the commands of that advice.
struct Advice {
    fails: &'static str,
    says: &'static str,
    then: &'static [&'static str],
}

const fn advice(fails: &'static str, says: &'static str, then: &'static [&'static str]) -> Advice {
    Advice { fails, says, then }
}

/// Advice without a host. Commands are words for a shell; `hosts`, `secret.yml` and others are files of [`project`].
const LOCAL: &[Advice] = &[
    advice(
        "playbook -i hosts secret.yml",
        "ive one with --vault-password-file, --vault-id or --ask-vault-pass",
        &[
            "playbook -i hosts secret.yml --vault-password-file password",
            "playbook -i hosts secret.yml --vault-id password",
            // This one reads from a terminal.
            "playbook --ask-vault-pass --help",
        ],
    ),
    advice(
        "vault encrypt plain --vault-id a@password --vault-id b@password --output -",
        "choose one with --encrypt-vault-id",
        &["vault encrypt plain --vault-id a@password --vault-id b@password --encrypt-vault-id a --output -"],
    ),
    advice(
        "vault create fresh --vault-password-file password",
        "with --skip-tty-check the editor starts nevertheless",
        &["vault create fresh --vault-password-file password --skip-tty-check"],
    ),
    advice("doc", "use --list to see them all", &["doc --list"]),
    advice(
        "inventory -i hosts",
        "at least one of --host, --graph or --list",
        &["inventory -i hosts --list", "inventory -i hosts --graph", "inventory -i hosts --host here"],
    ),
    advice("inventory -i nulls.yml --list --toml", "as JSON or with --yaml", &["inventory -i nulls.yml --list --yaml"]),
    advice(
        "galaxy role init made --init-path .",
        "You can use --force",
        &["galaxy role init made --init-path . --force"],
    ),
    advice(
        "playbook -i hosts fails.yml",
        "to retry, use: --limit @",
        &["playbook -i hosts fails.yml --limit @fails.retry -e again=no"],
    ),
    advice("playbook -i hosts misspelt.yml", "did you mean `debug`?", &["playbook -i hosts right.yml"]),
];

/// Advice about a host with an unknown key. `ssh-hosts` names it.
const OVER_SSH: &[Advice] = &[
    advice(
        "playbook -i ssh-hosts ping.yml",
        "`--accept-new-host-keys`",
        &["playbook -i ssh-hosts ping.yml --accept-new-host-keys", "playbook -i ssh-hosts ping.yml"],
    ),
    advice(
        "adhoc -i ssh-hosts -m ping all",
        "`windlass hostkeys pin`",
        &["hostkeys pin -i ssh-hosts --yes", "hostkeys verify -i ssh-hosts", "adhoc -i ssh-hosts -m ping all"],
    ),
    advice(
        "hostkeys pin -i ssh-hosts",
        "run the same with --yes",
        &["hostkeys scan -i ssh-hosts", "hostkeys pin -i ssh-hosts --yes", "adhoc -i ssh-hosts -m ping all"],
    ),
    // Each way to accept new keys, with each verb that connects.
    advice(
        "hostkeys verify -i ssh-hosts",
        "`--accept-new-host-keys`",
        &["adhoc -i ssh-hosts -m ping all --accept-new-host-keys"],
    ),
    advice("hostkeys verify -i ssh-hosts", "is unknown", &["console -i ssh-hosts --accept-new-host-keys"]),
    advice(
        "hostkeys verify -i ssh-hosts",
        "is unknown",
        &["playbook -i ssh-hosts ping.yml -o StrictHostKeyChecking=accept-new", "playbook -i ssh-hosts ping.yml"],
    ),
    advice(
        "hostkeys verify -i ssh-hosts",
        "is unknown",
        &[
            "adhoc -i ssh-hosts -m ping all --ssh-option StrictHostKeyChecking=accept-new",
            "adhoc -i ssh-hosts -m ping all",
        ],
    ),
    advice(
        "hostkeys verify -i ssh-hosts",
        "is unknown",
        &[
            "adhoc -i ssh-hosts -m ping all --ssh-common-args '-o StrictHostKeyChecking=accept-new'",
            "adhoc -i ssh-hosts -m ping all",
        ],
    ),
    advice(
        "adhoc -i no-key-hosts -m ping all --accept-new-host-keys",
        "give a key (--private-key, ansible_ssh_private_key_file), an ssh-agent or a password (--ask-pass)",
        &[
            "adhoc -i no-key-hosts -m ping all --private-key id",
            "adhoc -i no-key-hosts -m ping all -e ansible_ssh_private_key_file=id",
            "adhoc --ask-pass --help",
        ],
    ),
];

/// Writes the files that the commands use.
fn project(folder: &Path) {
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("hosts", "here ansible_connection=local\n");
    write("password", "right horse\n");
    write("plain", "text\n");
    write("nulls.yml", "all: {hosts: {here: {nothing: null}}}\n");
    write("right.yml", "- hosts: all\n  gather_facts: false\n  tasks:\n    - debug: msg=x\n");
    write("misspelt.yml", "- hosts: all\n  gather_facts: false\n  tasks:\n    - debgu: msg=x\n");
    write(
        "fails.yml",
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - fail: msg=x\n      when: again | default('yes') == 'yes'\n",
    );
    write("ping.yml", "- hosts: all\n  gather_facts: false\n  tasks:\n    - ping:\n");
    write("ansible.cfg", "[defaults]\nretry_files_enabled = true\n");
    fs::create_dir(folder.join("made")).unwrap();
    let vault = run(folder, "vault encrypt_string --vault-password-file password --name secret hidden");
    assert_eq!(vault.0, Some(0), "{}", vault.1);
    let vars = vault.1.lines().filter(|line| !line.contains("successful")).map(|line| format!("    {line}\n"));
    let vars: String = vars.collect();
    write(
        "secret.yml",
        &format!("- hosts: all\n  gather_facts: false\n  vars:\n{vars}  tasks:\n    - debug: var=secret\n"),
    );
}

/// Runs the program without a terminal. Returns its exit code and output.
fn run(folder: &Path, command: &str) -> (Option<i32>, String) {
    let output = Command::new("setsid")
        .arg("--wait")
        .arg(env!("CARGO_BIN_EXE_windlass"))
        .args(shell_words::split(command).unwrap())
        .current_dir(folder)
        .env("HOME", folder)
        .env("EDITOR", "true")
        .env("NO_COLOR", "1")
        .env_remove("ANSIBLE_CONFIG")
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// The problem with the advice; `None` if it holds.
fn problem(folder: &Path, advice: &Advice) -> Option<String> {
    let (code, text) = run(folder, advice.fails);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if code == Some(0) || !flat.contains(advice.says) {
        return Some(format!("`{}` does not fail with {:?}: {code:?}\n{text}", advice.fails, advice.says));
    }
    advice.then.iter().find_map(|command| {
        let (code, text) = run(folder, command);
        (code != Some(0)).then(|| format!("`{}` advises `{command}`, which fails: {code:?}\n{text}", advice.fails))
    })
}

#[test]
fn advice_for_local_commands_followed_helps() {
    let folder = tempfile::tempdir().unwrap();
    project(folder.path());
    let problems: Vec<String> = LOCAL.iter().filter_map(|advice| problem(folder.path(), advice)).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[test]
fn advice_for_unknown_hosts_followed_helps() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel INFO");
    let folder = sshd.directory.path().to_owned();
    project(&folder);
    let host = format!(
        "web1 ansible_host=127.0.0.1 ansible_port={} ansible_user=root ansible_remote_tmp={home}/remote ansible_ssh_args='-F none -o \
         UserKnownHostsFile={home}/known_hosts -o IdentityAgent=none'",
        sshd.port,
        home = folder.display()
    );
    fs::write(folder.join("no-key-hosts"), format!("{host}\n")).unwrap();
    fs::write(folder.join("ssh-hosts"), format!("{host} ansible_ssh_private_key_file=id\n")).unwrap();
    let problems = OVER_SSH.iter().filter_map(|advice| {
        let _ = fs::remove_file(folder.join("known_hosts"));
        problem(&folder, advice)
    });
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Options of other programs that our messages and command lines name.
const OF_OTHERS: &[&str] = &["--no-install-recommends", "--no-legend", "--plain", "--server", "--state", "--wait"];

#[test]
fn option_named_in_message_exists() {
    let mut known: BTreeSet<String> = OF_OTHERS.iter().map(|option| (*option).to_owned()).collect();
    options(&windlass::cli::command(), &mut known);
    let (literal, option) =
        (Regex::new(r#""(?:[^"\\]|\\.)*""#).unwrap(), Regex::new(r"(?:^|[ (`'])(--[a-z][a-z-]+)").unwrap());
    let verb = Regex::new(r"`windlass ([a-z]+)").unwrap();
    let verbs: BTreeSet<String> =
        windlass::cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let mut wrong = Vec::new();
    let folders = ["src", "crates/ssh/src", "crates/inventory/src", "crates/lab/src", "crates/vault/src"];
    for path in rust_files(&folders) {
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for found in literal.find_iter(text) {
            let sentence = found.as_str();
            // Arguments of other programs are single words.
            if !sentence.contains(' ') {
                continue;
            }
            let options = option.captures_iter(sentence).map(|found| found[1].to_owned());
            wrong.extend(
                options
                    .filter(|name| !known.contains(name))
                    .map(|name| format!("{}: {name} in {sentence}", path.display())),
            );
            let named = verb.captures_iter(sentence).map(|found| found[1].to_owned());
            wrong.extend(
                named.filter(|name| !verbs.contains(name)).map(|name| format!("{}: windlass {name}", path.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "options that no verb has:\n{}", wrong.join("\n"));
}

fn options(command: &clap::Command, known: &mut BTreeSet<String>) {
    known.extend(["--help".to_owned(), "--version".to_owned()]);
    for argument in command.get_arguments() {
        known.extend(argument.get_long().map(|name| format!("--{name}")));
        known.extend(argument.get_all_aliases().unwrap_or_default().iter().map(|name| format!("--{name}")));
    }
    command.get_subcommands().for_each(|command| options(command, known));
}
