//! Completion in a real bash, with candidates from the project.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Candidates that bash has for the last word of a command line.
fn candidates(folder: &Path, line: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let script = format!(
        "source <(windlass completion bash); COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9
         _clap_complete_windlass windlass \"${{COMP_WORDS[-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(folder).env("PATH", path).env("HOME", folder);
    let output = command.env("WINDLASS_JOURNAL_DIR", folder.join("state")).output().unwrap();
    assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_names_of_the_project() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (name, text) in [
        ("hosts", "[web]\nweb1\nweb2\n[db]\ndb1\n"),
        (
            "site.yml",
            "- hosts: localhost\n  gather_facts: false\n  tags: [setup]\n  tasks:\n    - debug:\n      tags: [deploy]\n",
        ),
        ("script.sh", "#!/bin/sh\ntouch ran\n"),
        ("note.txt", "x\n"),
    ] {
        fs::write(path.join(name), text).unwrap();
    }
    assert_eq!(candidates(path, "windlass pla"), ["playbook", "plan"]);
    assert_eq!(candidates(path, "windlass playbook s"), ["site.yml"]);
    assert_eq!(candidates(path, "windlass playbook -i hosts --limit w"), ["web", "web1", "web2"]);
    assert_eq!(candidates(path, "windlass adhoc -i hosts db,web1"), ["db,web1"]);
    assert_eq!(candidates(path, "windlass playbook --skip-tags ''"), ["deploy", "setup"]);
    assert_eq!(candidates(path, "windlass adhoc all -m lineinf"), ["lineinfile"]);
    assert_eq!(candidates(path, "windlass adhoc all -m ansible.builtin.lineinf"), ["ansible.builtin.lineinfile"]);
    assert_eq!(candidates(path, "windlass doc lineinf"), ["lineinfile"]);
    // No script runs for an inventory.
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(path.join("script.sh"), executable).unwrap();
    candidates(path, "windlass playbook -i script.sh -l w");
    assert!(!path.join("ran").exists());
    let mut run = Command::new(env!("CARGO_BIN_EXE_windlass"));
    run.args(["playbook", "-i", "localhost,", "-c", "local", "site.yml"]).current_dir(path);
    assert!(run.env("WINDLASS_JOURNAL_DIR", path.join("state")).output().unwrap().status.success());
    let runs = candidates(path, "windlass runs show 2");
    assert!(runs.len() == 1 && path.join("state/runs").read_dir().unwrap().count() == 1, "{runs:?}");
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = Command::new(env!("CARGO_BIN_EXE_windlass")).args(["completion", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("WINDLASS_COMPLETE"), "{shell}: {script}");
    }
}

#[test]
fn unknown_shell_never_runs_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["adhoc", "-i", "localhost,", "-c", "local", "all", "-a", "touch ran"]).current_dir(folder.path());
    let output = command.env("WINDLASS_COMPLETE", "1").output().unwrap();
    assert!(!output.status.success() && !output.stderr.is_empty() && !folder.path().join("ran").exists());
}
