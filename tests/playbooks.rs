//! Compares the output and exit code of playbooks with ansible-core's (`tests/playbooks/record`), line by line.
//! Each folder of `tests/playbooks` is a test of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "common/printed.rs"]
mod printed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Trial};
use similar::TextDiff;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/playbooks");
    let mut cases: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.join("expected.txt").is_file());
    cases.sort();
    let trial = |case: PathBuf| {
        let name = case.file_name().unwrap().display().to_string();
        Trial::test(name, move || difference(&case).map_or(Ok(()), |difference| Err(difference.into())))
    };
    libtest_mimic::run(&Arguments::from_args(), cases.into_iter().map(trial).collect()).exit_code()
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
            .env("WINDLASS_FAILURES", "ansible")
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
