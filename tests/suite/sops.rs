//! Variables that sops or age has encrypted, wherever variables are read.
//!
//! The files in `tests/sops` have the form of sops 3.9; `keys.txt` is an identity for these tests alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TASKS: &str = "
- hosts: all
  gather_facts: false
  tasks:
    - copy: {dest: '{{ playbook_dir }}/found', content: '{{ db_url }} {{ db_port + 1 }} {{ users[0].token }}'}
    - debug: {msg: 'the url is {{ db_url }}'}
    - debug: var=users
";

struct Project(tempfile::TempDir);

impl Project {
    /// A project whose group `all` has the encrypted variables.
    fn new() -> Project {
        let project = Project(tempfile::tempdir().unwrap());
        fs::create_dir(project.path("group_vars")).unwrap();
        fs::copy(fixture("all.sops.yml"), project.path("group_vars/all.sops.yml")).unwrap();
        project.write("hosts", "web1 ansible_connection=local\n");
        project.write("site.yml", TASKS);
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Exit code and output of a command, with an identity or without one.
    fn call(&self, words: &[&str], has_identity: bool) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(words).current_dir(self.0.path()).env("HOME", self.0.path()).env("NO_COLOR", "1");
        for name in ["SOPS_AGE_KEY", "SOPS_AGE_KEY_FILE", "XDG_CONFIG_HOME", "WINDLASS_AGE_IDENTITIES"] {
            command.env_remove(name);
        }
        command.env("WINDLASS_JOURNAL_DIR", self.path("state"));
        if has_identity {
            command.env("SOPS_AGE_KEY_FILE", fixture("keys.txt"));
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sops").join(name)
}

const FOUND: &str = "postgres://app:correct horse battery@db:5432 5433 tok-90210-xyz";

#[test]
fn group_vars_of_sops_decrypted_and_masked() {
    let project = Project::new();
    let (code, text) = project.call(&["playbook", "-i", "hosts", "site.yml", "--diff"], true);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(fs::read_to_string(project.path("found")).unwrap(), FOUND);
    assert!(text.contains("\"name_unencrypted\": \"app\""), "{text}");
    for secret in ["correct horse battery", "tok-90210-xyz"] {
        assert!(!text.contains(secret), "{text}");
        for entry in fs::read_dir(project.path("state/runs")).unwrap() {
            assert!(!fs::read_to_string(entry.unwrap().path()).unwrap().contains(secret));
        }
    }
    let (_, text) = project.call(&["explain", "var", "-i", "hosts", "web1", "db_password"], true);
    assert!(text.contains("all.sops.yml:1:1") && text.contains("yes") && !text.contains("horse"), "{text}");
}

#[test]
fn files_of_sops_and_age_read_wherever_variables_are() {
    let project = Project::new();
    fs::rename(project.path("group_vars/all.sops.yml"), project.path("db.yml")).unwrap();
    fs::copy(fixture("vars.yml.age"), project.path("vars.yml.age")).unwrap();
    project.write(
        "site.yml",
        "
- hosts: all
  gather_facts: false
  vars_files: [vars.yml.age]
  tasks:
    - include_vars: db.yml
    - copy: {dest: '{{ playbook_dir }}/found', content: '{{ api_key }} {{ db_port }}'}
    - copy: {src: vars.yml.age, dest: '{{ playbook_dir }}/copied'}
",
    );
    let (code, text) = project.call(&["playbook", "-i", "hosts", "site.yml"], true);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(fs::read_to_string(project.path("found")).unwrap(), "k-7731-opal 5432");
    // It may be a backup, or for another recipient.
    assert_eq!(fs::read(project.path("copied")).unwrap(), fs::read(fixture("vars.yml.age")).unwrap());
    let words = ["adhoc", "-i", "hosts", "all", "-m", "copy", "-a", "dest=found content={{db_port}}", "-e", "@db.yml"];
    let (code, text) = project.call(&words, true);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = project.call(&["vault", "view", "db.yml"], true);
    assert!(code == Some(0) && text.contains("db_port: 5432\n") && !text.contains("sops"), "{text}");
    assert_eq!(project.call(&["vault", "textconv", "db.yml"], true).1, text);
    assert!(project.call(&["vault", "textconv", "db.yml"], false).1.contains("ENC["));
    let (code, text) = project.call(&["vault", "view", "vars.yml.age"], true);
    assert_eq!((code, text.as_str()), (Some(0), "api_key: k-7731-opal\n"));
}

#[test]
fn inventory_of_sops_is_read() {
    let project = Project::new();
    fs::remove_file(project.path("group_vars/all.sops.yml")).unwrap();
    fs::copy(fixture("hosts.sops.yml"), project.path("hosts.yml")).unwrap();
    let words = ["adhoc", "-i", "hosts.yml", "web1", "-m", "copy", "-a", "dest=found content={{api_token}}", "--diff"];
    let (code, text) = project.call(&words, true);
    assert!(code == Some(0) && !text.contains("60417"), "{text}");
    assert_eq!(fs::read_to_string(project.path("found")).unwrap(), "tok-60417-uvw");
    let (_, text) = project.call(&words, false);
    assert!(text.contains("hosts.yml:7:3: sops has encrypted this file") && text.contains("age_identities"), "{text}");
}

#[test]
fn decrypt_asks_for_no_password_where_none_is_needed() {
    let project = Project::new();
    fs::copy(fixture("vars.yml.age"), project.path("vars.yml.age")).unwrap();
    let (code, text) = project.call(&["vault", "decrypt", "group_vars/all.sops.yml"], true);
    assert!(code == Some(1) && text.contains("encrypted by sops, and stays as it is"), "{text}");
    assert!(fs::read_to_string(project.path("group_vars/all.sops.yml")).unwrap().contains("ENC["));
    let (code, text) = project.call(&["vault", "decrypt", "vars.yml.age"], true);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(fs::read_to_string(project.path("vars.yml.age")).unwrap(), "api_key: k-7731-opal\n");
}

#[test]
fn identities_come_from_settings_or_where_sops_looks() {
    let project = Project::new();
    let words = ["inventory", "-i", "hosts", "--host", "web1"];
    project.write("ansible.cfg", &format!("[windlass]\nage_identities = {}\n", fixture("keys.txt").display()));
    assert_eq!(project.call(&words, false).0, Some(0));
    fs::remove_file(project.path("ansible.cfg")).unwrap();
    assert_ne!(project.call(&words, false).0, Some(0));
    fs::create_dir_all(project.path(".config/sops/age")).unwrap();
    fs::copy(fixture("keys.txt"), project.path(".config/sops/age/keys.txt")).unwrap();
    let (code, text) = project.call(&words, false);
    assert!(code == Some(0) && text.contains("\"db_port\": 5432"), "{text}");
}

#[test]
fn file_without_identity_or_changed_by_hand_refused_with_its_place() {
    let project = Project::new();
    let words = ["playbook", "-i", "hosts", "site.yml"];
    let (code, text) = project.call(&words, false);
    assert_ne!(code, Some(0));
    assert!(text.contains("sops has encrypted this file for age1") && text.contains("SOPS_AGE_KEY_FILE"), "{text}");
    assert!(text.contains("all.sops.yml:8:3"), "{text}");
    let file = project.path("group_vars/all.sops.yml");
    let changed = fs::read_to_string(&file).unwrap().replace("name_unencrypted: app", "name_unencrypted: root");
    fs::write(&file, changed).unwrap();
    let (code, text) = project.call(&words, true);
    assert_ne!(code, Some(0));
    assert!(text.contains("its MAC differs") && !project.path("found").exists(), "{text}");
}
