//! The executor process from the controller's point of view.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod common;

use std::{collections::BTreeMap, thread::sleep, time::Duration};

use common::{Session, assert_killed, request, shell};
use serde_json::json;
use windlass_protocol::{Content, Delivery, Event, OFFER, Reply, Stream, ToExecutor};

#[test]
fn executor_greets_answers_and_ends() {
    let mut session = Session::start();
    assert_eq!(session.hello.pid, session.child.id());
    assert!(!session.hello.boot_id.is_empty());
    let answer = session.run(request(7, "ansible.builtin.ping", json!({})));
    assert_eq!(answer.result, json!({ "ping": "pong", "changed": false }));
    assert_eq!(session.close(), 0);
}

#[test]
fn executor_reports_version() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_windlass-executor")).arg("--version").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("windlass-executor "));
}

#[test]
fn unknown_module_named_in_failure() {
    let answer = Session::start().run(request(1, "no_such", json!({})));
    assert!(answer.result["msg"].as_str().unwrap().contains("no_such"));
    assert_eq!(answer.result["failed"], true);
}

#[test]
fn requests_run_concurrently() {
    let directory = tempfile::tempdir().unwrap();
    let gate = directory.path().join("gate");
    let mut session = Session::start();
    session.send(&ToExecutor::Run(shell(1, &format!("until [ -e {} ]; do sleep 0.05; done", gate.display()))), &[]);
    session.send(&ToExecutor::Run(shell(2, &format!("touch {}", gate.display()))), &[]);
    let mut ended = [0; 2].map(|_| match session.next() {
        (Reply::Done { id, result, .. }, _) => (id, result["rc"].clone()),
        other => panic!("unexpected: {other:?}"),
    });
    // Both end at nearly the same time.
    ended.sort_by_key(|(id, _)| *id);
    assert_eq!(ended, [(1, json!(0)), (2, json!(0))]);
}

#[test]
fn processes_cannot_access_session() {
    let mut session = Session::start();
    let answer = session.run(shell(1, "cat; echo noise >&1; ls /proc/self/fd | wc -l"));
    assert!(answer.result["stdout"].as_str().unwrap().starts_with("noise\n"), "{}", answer.result);
    assert_eq!(session.run(request(2, "ping", json!({}))).result["ping"], "pong");
}

#[test]
fn output_streamed_live() {
    let mut session = Session::start();
    let mut request = shell(1, "echo one; echo two >&2");
    request.stream = true;
    let answer = session.run(request);
    let of = |wanted: Stream| -> Vec<u8> {
        let chosen =
            answer.events.iter().filter(|(event, _)| matches!(event, Event::Output { stream } if *stream == wanted));
        chosen.flat_map(|(_, blob)| blob.clone()).collect()
    };
    assert_eq!((of(Stream::Stdout), of(Stream::Stderr)), (b"one\n".to_vec(), b"two\n".to_vec()));
    assert_eq!(answer.result["stdout"], "one");
}

#[test]
fn task_environment_reaches_processes() {
    let mut request = shell(1, "echo $GREETING");
    request.environment = BTreeMap::from([("GREETING".into(), "hello".into())]);
    assert_eq!(Session::start().run(request).result["stdout"], "hello");
}

#[test]
fn timeout_stops_run_and_reports() {
    let mut request = shell(1, "sleep 600");
    request.timeout = 1;
    let answer = Session::start().run(request);
    assert_eq!(
        answer.result["msg"],
        "The shell action failed to execute in the expected time frame (1) and was terminated"
    );
    assert_eq!(answer.result["timedout"]["period"], 1);
}

#[test]
fn cancelled_request_answered_once() {
    let mut session = Session::start();
    session.send(&ToExecutor::Run(shell(1, "sleep 600")), &[]);
    session.send(&ToExecutor::Cancel { id: 1 }, &[]);
    assert_eq!(session.answer(1).result["failed"], true);
    session.send(&ToExecutor::Cancel { id: 1 }, &[]);
    let (reply, _) = {
        session.send(&ToExecutor::Run(request(2, "ping", json!({}))), &[]);
        session.next()
    };
    assert!(matches!(reply, Reply::Done { id: 2, .. }), "{reply:?}");
}

#[test]
fn processes_end_with_the_controller() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let mut session = Session::start();
    let text = format!("trap '' TERM; sleep 600 & echo $! > {}; wait; wait", file.display());
    session.send(&ToExecutor::Run(shell(1, &text)), &[]);
    while std::fs::read_to_string(&file).unwrap_or_default().trim().is_empty() {
        sleep(Duration::from_millis(20));
    }
    assert_eq!(session.close(), 0);
    assert_killed(&std::fs::read_to_string(&file).unwrap());
}

#[test]
fn large_content_requested_only_if_different() {
    let directory = tempfile::tempdir().unwrap();
    let dest = directory.path().join("large");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| (number / 7) as u8).collect();
    let sum = {
        use sha1::Digest;
        hex::encode(sha1::Sha1::digest(&bytes))
    };
    let copy = |id| {
        let mut copy = request(id, "copy", json!({ "_content": 0, "dest": dest.display().to_string() }));
        let size = bytes.len() as u64;
        copy.contents = vec![Content {
            name: "large".into(),
            size,
            sha1: sum.clone(),
            sha256: None,
            mode: 0o644,
            delivery: Delivery::OnDemand,
        }];
        copy
    };
    let mut session = Session::start();
    session.send(&ToExecutor::Run(copy(1)), &[]);
    let (asked, _) = session.next();
    assert!(matches!(asked, Reply::Event { id: 1, event: Event::NeedContent { content: 0, .. } }), "{asked:?}");
    let mut pieces = bytes.chunks(400_000).peekable();
    while let Some(piece) = pieces.next() {
        session.send(&ToExecutor::Content { id: 1, content: 0, last: pieces.peek().is_none() }, piece);
    }
    let answer = session.answer(1);
    assert_eq!(answer.result["checksum"], sum, "{}", answer.result);
    assert!(std::fs::read(&dest).unwrap() == bytes);
    let again = session.run(copy(2));
    assert_eq!((again.events.len(), &again.result["changed"]), (0, &json!(false)));
}

#[test]
fn truncated_content_keeps_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let dest = directory.path().join("a");
    std::fs::write(&dest, "old").unwrap();
    let mut copy = request(1, "copy", json!({ "_content": 0, "dest": dest.display().to_string() }));
    copy.contents = vec![Content {
        name: "a".into(),
        size: 9,
        sha1: "0".repeat(40),
        sha256: None,
        mode: 0o644,
        delivery: Delivery::OnDemand,
    }];
    let mut session = Session::start();
    session.send(&ToExecutor::Run(copy), &[]);
    session.next();
    session.send(&ToExecutor::Content { id: 1, content: 0, last: true }, b"part");
    let answer = session.answer(1);
    assert!(answer.result["msg"].as_str().unwrap().contains("checksum"), "{}", answer.result);
    assert_eq!(std::fs::read_to_string(&dest).unwrap(), "old");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn content_with_wrong_checksum_is_not_passed_on() {
    use sha1::Digest;
    let directory = tempfile::tempdir().unwrap();
    let dest = directory.path().join("a");
    let mut copy = request(1, "copy", json!({ "_content": 0, "dest": dest.display().to_string() }));
    let sha256 = hex::encode(sha2::Sha256::digest(b"announced"));
    copy.contents = vec![Content {
        name: "a".into(),
        size: 9,
        sha1: hex::encode(sha1::Sha1::digest(b"announced")),
        sha256: Some(sha256.clone()),
        mode: 0o644,
        delivery: Delivery::OnDemand,
    }];
    let offer =
        json!({ "sha256": sha256, "address": "127.0.0.1:0", "ticket": "01".repeat(16), "key": "02".repeat(32) });
    let mut session = Session::start();
    for (id, bytes, is_kept) in [(1, b"different", false), (2, b"announced", true)] {
        copy.id = id;
        session.send(&ToExecutor::Run(copy.clone()), &[]);
        session.next();
        session.send(&ToExecutor::Content { id, content: 0, last: true }, bytes);
        session.answer(id);
        let answer = session.run(request(10 + id, OFFER, offer.clone()));
        assert_eq!(answer.result.get("port").is_some(), is_kept, "{}", answer.result);
    }
}

#[test]
fn unusable_become_reported_as_event_and_failure() {
    let mut request = request(1, "ping", json!({}));
    request.become_user = Some(common::become_user("sudo", "-magic"));
    let answer = Session::start().run(request);
    assert!(matches!(&answer.events[..], [(Event::BecomeFailed { .. }, _)]), "{:?}", answer.events);
    assert!(answer.result["msg"].as_str().unwrap().contains("magic"));
}
