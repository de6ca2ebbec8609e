//! Compares the output and exit code of playbooks with those of ansible-core (`tests/playbooks/record`), line by line.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what differs"
)]

#[path = "common/printed.rs"]
mod printed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use similar::TextDiff;

/// Runs every case, or those named in `PLAYBOOK_CASES`.
#[test]
fn playbook_output_matches_ansible() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/playbooks");
    let wanted = std::env::var("PLAYBOOK_CASES").unwrap_or_default();
    let mut cases: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.txt").is_file())
        .filter(|path| wanted.is_empty() || wanted.split_whitespace().any(|name| path.ends_with(name)))
        .collect();
    cases.sort();
    let next = AtomicUsize::new(0);
    let differing = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(difference) = difference(case) {
                        differing.lock().unwrap().push((case.file_name().unwrap().to_owned(), difference));
                    }
                }
            });
        }
    });
    let differing = differing.into_inner().unwrap();
    for (case, difference) in &differing {
        eprintln!("==== {}\n{difference}", case.display());
    }
    assert!(differing.is_empty(), "{} of {} playbooks print something else", differing.len(), cases.len());
}

/// The differences in a case's output, if any.
fn difference(case: &Path) -> Option<String> {
    let expected = fs::read_to_string(case.join("expected.txt")).unwrap();
    let runs = fs::read_to_string(case.join("runs")).unwrap_or_else(|_| "-i inventory playbook.yml\n".to_owned());
    let scratch = tempfile::tempdir().unwrap();
    let mut printed = String::new();
    for arguments in runs.lines() {
        let words = shell_words::split(arguments).unwrap();
        // As in a shell, a run may begin with environment variables.
        let variables = words.iter().map_while(|word| {
            let (name, value) = word.split_once('=')?;
            name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_').then_some((name, value))
        });
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .arg("playbook")
            .args(words.iter().skip(variables.clone().count()))
            .current_dir(case)
            .env_remove("ANSIBLE_CONFIG")
            .env("SCRATCH", scratch.path())
            .env("WINDLASS_JOURNAL_DIR", scratch.path().join("journal"))
            .env("WINDLASS_PENDING_HANDLERS", "skip")
            .env("ANSIBLE_FORKS", "1")
            .env("NO_COLOR", "1")
            .stdin(fs::File::open(case.join("stdin")).map_or_else(|_| Stdio::null(), Stdio::from))
            .envs(variables)
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let code = output.status.code().map_or_else(|| output.status.to_string(), |code| code.to_string());
        printed.push_str(&format!("$ {arguments}\n{}\n[exit {code}]\n", stdout.trim_end_matches('\n')));
    }
    // `record` removes the same parts.
    let printed = printed::without_paths(&printed, case, scratch.path());
    let printed = printed::normalised(&printed, false, str::to_owned);
    let printed = printed::own_words(&printed, &expected);
    if printed == expected {
        return None;
    }
    Some(
        TextDiff::from_lines(&expected, &printed)
            .unified_diff()
            .header("ansible", "windlass")
            .context_radius(3)
            .to_string(),
    )
}
