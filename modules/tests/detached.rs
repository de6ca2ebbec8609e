//! Jobs (`async`) of a real executor: they outlive it, record their progress in a file, and leave nothing behind.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{Session, assert_killed, request, shell};
use serde_json::{Value, json};
use windlass_protocol::{Detached, Request};

fn detached(text: &str, folder: &Path, limit: u64) -> Request<Value> {
    let directory = folder.join("jobs").display().to_string();
    Request { detached: Some(Detached { job: "j7".into(), directory, limit, lock: String::new() }), ..shell(1, text) }
}

fn status(session: &mut Session, job: &str, folder: &Path, mode: &str) -> Value {
    let directory = folder.join("jobs").display().to_string();
    session.run(request(2, "async_status", json!({ "jid": job, "mode": mode, "_async_dir": directory }))).result
}

/// Waits until a condition holds, with a generous time limit for slow machines.
fn until(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn job_outlives_its_executor() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let mut session = Session::start();
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done; echo through", gate.display());
    let answer = session.run(detached(&text, folder.path(), 60)).result;
    let job = answer["ansible_job_id"].as_str().unwrap().to_owned();
    assert_eq!((&answer["started"], &answer["finished"]), (&json!(true), &json!(false)));
    assert_eq!(status(&mut session, &job, folder.path(), "status")["finished"], json!(false));
    session.close();

    std::fs::write(&gate, "").unwrap();
    let file = answer["results_file"].as_str().unwrap().to_owned();
    until(|| std::fs::read_to_string(&file).unwrap().contains("through"));
    let mut session = Session::start();
    let done = status(&mut session, &job, folder.path(), "status");
    assert_eq!((&done["finished"], &done["stdout"], &done["rc"]), (&json!(true), &json!("through"), &json!(0)));
    assert_eq!(status(&mut session, &job, folder.path(), "cleanup")["erased"], json!(file));
    let gone = status(&mut session, &job, folder.path(), "status");
    assert_eq!((&gone["failed"], &gone["msg"]), (&json!(true), &json!("could not find job")));
}

#[test]
fn job_over_time_killed_with_children() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let mut session = Session::start();
    let text = format!("sleep 600 & echo $! > {0}; echo $$ >> {0}; wait", pids.display());
    let answer = session.run(detached(&text, folder.path(), 1)).result;
    let file = answer["results_file"].as_str().unwrap().to_owned();
    until(|| std::fs::read_to_string(&file).unwrap().contains("Timeout exceeded"));
    for pid in std::fs::read_to_string(&pids).unwrap().split_whitespace() {
        assert_killed(pid);
    }
    let job: u32 = answer["ansible_job_id"].as_str().unwrap().rsplit('.').next().unwrap().parse().unwrap();
    until(|| !Path::new(&format!("/proc/{job}")).exists());
}

/// A directory of another user, if this test runs as root.
fn of_other_user(folder: &Path) -> bool {
    std::fs::create_dir(folder.join("jobs")).unwrap();
    windlass_testing::has("root") && std::os::unix::fs::chown(folder.join("jobs"), Some(61_001), Some(61_001)).is_ok()
}

#[test]
fn job_directory_of_another_user_refused() {
    let folder = tempfile::tempdir().unwrap();
    if !of_other_user(folder.path()) {
        return;
    }
    let mut session = Session::start();
    let answer = session.run(detached("echo through", folder.path(), 60)).result;
    let message = answer["msg"].as_str().unwrap_or_default();
    assert!(message.contains("belongs to 61001"), "{answer}");
    assert_eq!(std::fs::read_dir(folder.path().join("jobs")).unwrap().count(), 0);
    // A result that somebody else wrote there is no result of a job.
    std::fs::write(folder.path().join("jobs/j7.1"), r#"{"rc": 0, "forged": true}"#).unwrap();
    let answer = status(&mut session, "j7.1", folder.path(), "status");
    assert_eq!((&answer["failed"], answer.get("forged")), (&json!(true), None), "{answer}");
    assert!(answer["msg"].as_str().unwrap().contains("belongs to 61001"), "{answer}");
}

#[test]
fn result_of_a_job_replaces_no_file_behind_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (gate, victim) = (folder.path().join("gate"), folder.path().join("victim"));
    std::fs::write(&victim, "kept").unwrap();
    let mut session = Session::start();
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done; echo through", gate.display());
    let answer = session.run(detached(&text, folder.path(), 60)).result;
    let file = answer["results_file"].as_str().unwrap().to_owned();
    std::os::unix::fs::symlink(&victim, format!("{file}.tmp")).unwrap();
    std::fs::write(&gate, "").unwrap();
    until(|| std::fs::read_to_string(&file).unwrap().contains("through"));
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
}
