//! `wait_for` on real ports and files.
#![allow(clippy::unwrap_used)]

mod cases;

use std::{
    fs,
    io::Write,
    net::{TcpListener, TcpStream},
    time::Duration,
};

use cases::{apply, changed, predict};
use serde_json::{Value, json};
use tempfile::tempdir;

fn message(args: Value) -> String {
    let result = apply("wait_for", args);
    assert_eq!(result["failed"], true, "{result}");
    assert!(result["elapsed"].is_u64(), "{result}");
    result["msg"].as_str().unwrap().to_owned()
}

#[test]
fn port_state_awaited() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let result = apply("wait_for", json!({ "port": port, "host": "localhost", "timeout": 5 }));
    assert_eq!((&result["state"], &result["port"], changed(&result)), (&json!("started"), &json!(port), false));
    assert_eq!((&result["path"], &result["match_groups"]), (&Value::Null, &json!([])));
    let text = message(json!({ "port": port, "state": "stopped", "timeout": 1 }));
    assert_eq!(text, format!("Timeout when waiting for 127.0.0.1:{port} to stop."));
    drop(listener);
    assert_eq!(apply("wait_for", json!({ "port": port, "state": "stopped", "timeout": 5 }))["state"], "stopped");
    assert_eq!(message(json!({ "port": port, "timeout": 1, "msg": "too late" })), "too late");
}

#[test]
fn port_data_matched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            stream.write_all(b"SSH-2.0-").unwrap();
            stream.flush().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            let _ = stream.write_all(b"OpenSSH_9.7\r\n");
        }
    });
    let result =
        apply("wait_for", json!({ "port": port, "search_regex": r"^SSH-(\S+?)-(?P<name>Open\w+)_", "timeout": 10 }));
    assert_eq!(
        (&result["match_groups"], &result["match_groupdict"]),
        (&json!(["2.0", "OpenSSH"]), &json!({ "name": "OpenSSH" }))
    );
    let text = message(json!({ "port": port, "search_regex": "dropbear", "timeout": 1 }));
    assert_eq!(text, format!("Timeout when waiting for search string dropbear in 127.0.0.1:{port}"));
}

#[test]
fn connections_drained() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let drained = |more: Value| {
        let mut args =
            json!({ "port": port, "state": "drained", "timeout": 1, "active_connection_states": ["ESTABLISHED"] });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (server, _) = listener.accept().unwrap();
    assert_eq!(message(drained(json!({}))), format!("Timeout when waiting for 127.0.0.1:{port} to drain"));
    message(drained(json!({ "host": "0.0.0.0" })));
    assert_eq!(apply("wait_for", drained(json!({ "exclude_hosts": ["127.0.0.1"] })))["state"], "drained");
    drop((client, server));
    assert_eq!(apply("wait_for", drained(json!({ "timeout": 10 })))["state"], "drained");
}

#[test]
fn file_state_awaited() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("log");
    assert_eq!(
        message(json!({ "path": path, "timeout": 1 })),
        format!("Timeout when waiting for file {}", path.display())
    );
    let later = path.clone();
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        fs::write(later, "begin\nfinished in 7s\n").unwrap();
    });
    let args = json!({ "path": path, "search_regex": r"^finished in (\d+)s$", "timeout": 20 });
    let result = apply("wait_for", args);
    writer.join().unwrap();
    assert_eq!((&result["match_groups"], &result["size"]), (&json!(["7"]), &json!(21)));
    let text = message(json!({ "path": path, "search_regex": "none", "timeout": 1 }));
    assert_eq!(text, format!("Timeout when waiting for search string none in {}", path.display()));
    let text = message(json!({ "path": path, "state": "absent", "timeout": 1 }));
    assert_eq!(text, format!("Timeout when waiting for {} to be absent.", path.display()));
    fs::remove_file(&path).unwrap();
    assert_eq!(apply("wait_for", json!({ "path": path, "state": "absent", "timeout": 5 }))["state"], "absent");
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    assert_eq!(apply("wait_for", json!({ "path": path, "state": "absent", "timeout": 5 }))["state"], "absent");
}

#[test]
fn wait_for_invalid_inputs_refused() {
    for (args, word) in [
        (json!({ "port": 1, "path": "/x" }), "can not both"),
        (json!({ "path": "/x", "state": "stopped" }), "state=stopped should only be used for checking a port"),
        (json!({ "path": "/x", "state": "drained" }), "state=drained should only be used for checking a port"),
        (json!({ "port": 1, "exclude_hosts": ["a"] }), "exclude_hosts should only be with state=drained"),
        (json!({ "port": 1, "active_connection_states": ["OPEN"] }), "unknown active_connection_state (OPEN)"),
        (json!({ "port": 1, "search_regex": "(" }), "Invalid regular expression"),
        (json!({ "port": 70000 }), "65535"),
        (json!({ "state": "drained" }), "needs a port"),
    ] {
        let text = message(args);
        assert!(text.contains(word), "{text} has no {word}");
    }
    assert_eq!(predict("wait_for", json!({ "port": 1 }))["skipped"], true);
    assert_eq!(apply("wait_for", json!({ "timeout": 0 }))["state"], "started");
}

#[test]
fn device_in_place_of_a_log_ends_with_the_timeout() {
    let result = apply("wait_for", json!({ "path": "/dev/zero", "search_regex": "x", "timeout": 1 }));
    assert_eq!(result["failed"], true, "{result}");
}
