//! `uri` against a real server.
#![allow(clippy::unwrap_used)]

mod cases;
mod server;

use std::fs;

use cases::{apply, changed, predict};
use serde_json::{Value, json};
use server::{Answer, Server};
use tempfile::tempdir;

fn start() -> Server {
    Server::start(|asked| match asked.path.as_str() {
        "/json" => {
            Answer::of(200, r#"{"a": [1, "x"]}"#).with("Content-Type", "application/json").with("X-Two-Words", "here")
        }
        "/problem" => Answer::of(409, r#"{"why": "busy"}"#).with("Content-Type", "application/problem+json"),
        "/cookies" => Answer::of(200, "").with("Set-Cookie", "a=1; Path=/").with("Set-Cookie", "b=2"),
        "/moved" => Answer::of(302, "").with("Location", "/json"),
        "/away" => Answer::of(307, "").with("Location", "/echo"),
        "/secret" if asked.header("authorization") == "Basic bWU6cGFzcw==" => Answer::of(200, "in"),
        "/secret" => Answer::of(401, "out").with("WWW-Authenticate", "Basic realm=\"x\""),
        "/file" if asked.headers.contains_key("if-modified-since") => Answer::of(304, ""),
        "/file" => Answer::of(200, "file").with("Content-Disposition", "attachment; filename=named"),
        "/echo" => Answer::of(200, asked.body.clone())
            .with("X-Type", asked.header("content-type"))
            .with("X-Method", &asked.method),
        _ => Answer::of(404, "not here"),
    })
}

#[test]
fn response_returned() {
    let server = start();
    let result = apply("uri", json!({ "url": server.url("/json"), "return_content": true }));
    assert_eq!((&result["status"], &result["json"]["a"][1], changed(&result)), (&json!(200), &json!("x"), false));
    assert_eq!((&result["x_two_words"], &result["content_type"]), (&json!("here"), &json!("application/json")));
    assert_eq!((&result["content"], &result["msg"]), (&json!(r#"{"a": [1, "x"]}"#), &json!("OK (15 bytes)")));
    assert_eq!((&result["url"], &result["redirected"]), (&json!(server.url("/json")), &json!(false)));
    assert!(result["elapsed"].is_u64());
    let result = apply("uri", json!({ "url": server.url("/cookies") }));
    assert_eq!((&result["cookies"]["b"], &result["cookies_string"]), (&json!("2"), &json!("a=1; b=2")));
    assert_eq!(result.get("content"), None);
}

#[test]
fn status_outside_list_fails() {
    let server = start();
    let result = apply("uri", json!({ "url": server.url("/none"), "return_content": true }));
    assert_eq!(result["msg"], "Status code was 404 and not [200]: HTTP Error 404: Not Found");
    assert_eq!(
        (&result["failed"], &result["status"], &result["content"]),
        (&json!(true), &json!(404), &json!("not here"))
    );
    let result = apply("uri", json!({ "url": server.url("/problem") }));
    assert_eq!((&result["failed"], &result["json"]["why"]), (&json!(true), &json!("busy")));
    let result = apply("uri", json!({ "url": server.url("/none"), "status_code": "200, 404" }));
    assert_eq!((result.get("failed"), &result["status"]), (None, &json!(404)));
    let result = apply("uri", json!({ "url": "http://127.0.0.1:1/" }));
    assert_eq!((&result["failed"], &result["status"]), (&json!(true), &json!(-1)));
    assert!(
        result["msg"].as_str().unwrap().starts_with("Status code was -1 and not [200]: Request failed"),
        "{result}"
    );
    let result = apply("uri", json!({ "url": "http://127.0.0.1:1/", "status_code": [-1, 200] }));
    assert_eq!(result.get("failed"), None);
}

#[test]
fn body_formats_sent() {
    let server = start();
    let send = |args: Value| {
        let mut args = args;
        args["url"] = json!(server.url("/echo"));
        args["return_content"] = json!(true);
        args["method"] = json!("post");
        let result = apply("uri", args);
        assert_eq!(result["x_method"], "POST", "{result}");
        (result["content"].as_str().unwrap().to_owned(), result["x_type"].as_str().unwrap().to_owned())
    };
    assert_eq!(
        send(json!({ "body": { "a": 1 }, "body_format": "json" })),
        (r#"{"a":1}"#.into(), "application/json".into())
    );
    assert_eq!(send(json!({ "body": "{\"a\": 1}", "body_format": "json" })).0, r#"{"a": 1}"#);
    let form = send(json!({ "body": { "a": "b c" }, "body_format": "form-urlencoded" }));
    assert_eq!(form, ("a=b+c".into(), "application/x-www-form-urlencoded".into()));
    assert_eq!(send(json!({ "body": "plain" })), ("plain".into(), String::new()));
    assert_eq!(
        send(json!({ "body": "x", "headers": { "content-type": "text/x" }, "body_format": "json" })).1,
        "text/x"
    );
    assert!(
        send(json!({ "body": { "a": "1" }, "body_format": "form-multipart" }))
            .1
            .starts_with("multipart/form-data; boundary=")
    );
    let directory = tempdir().unwrap();
    let path = directory.path().join("body");
    fs::write(&path, "from a file").unwrap();
    assert_eq!(send(json!({ "src": path, "remote_src": true })).0, "from a file");
    let get = apply("uri", json!({ "url": server.url("/echo"), "body": "even so", "return_content": true }));
    assert_eq!((&get["content"], &get["x_method"]), (&json!("even so"), &json!("GET")));
}

#[test]
fn redirects_followed_by_policy() {
    let server = start();
    let ask = |path: &str, method: &str, follow: &str| {
        let args = json!({ "url": server.url(path), "method": method, "follow_redirects": follow, "body": "b", "status_code": [200, 302, 307] });
        apply("uri", args)
    };
    let followed = ask("/moved", "GET", "safe");
    assert_eq!(
        (&followed["status"], &followed["redirected"], &followed["url"]),
        (&json!(200), &json!(true), &json!(server.url("/json")))
    );
    let stayed = ask("/moved", "GET", "none");
    assert_eq!((&stayed["status"], &stayed["location"]), (&json!(302), &json!(server.url("/json"))));
    assert_eq!(ask("/moved", "POST", "safe")["status"], 302);
    assert_eq!(ask("/away", "POST", "all")["x_method"], "POST");
}

#[test]
fn header_of_a_task_reaches_no_other_server() {
    let other = start();
    let elsewhere = other.url("/echo");
    let server = Server::start(move |asked| match asked.path.as_str() {
        "/near" => Answer::of(302, "").with("Location", "/here"),
        "/far" => Answer::of(302, "").with("Location", &elsewhere),
        _ => Answer::of(200, ""),
    });
    let headers = json!({ "PRIVATE-TOKEN": "key", "Authorization": "Bearer key", "Accept": "text/x" });
    for path in ["/near", "/far"] {
        assert_eq!(apply("uri", json!({ "url": server.url(path), "headers": headers }))["status"], 200);
    }
    let known =
        |asked: &server::Asked| ["private-token", "authorization", "accept"].map(|name| asked.header(name).to_owned());
    let near: Vec<_> = server.asked().iter().map(known).collect();
    assert_eq!(near, vec![["key", "Bearer key", "text/x"].map(str::to_owned); 3]);
    assert_eq!(other.asked().iter().map(known).collect::<Vec<_>>(), [["", "", "text/x"].map(str::to_owned)]);
}

#[test]
fn header_named_like_the_state_of_a_task_is_not_returned() {
    let server = Server::start(|_| {
        let names = ["Changed", "Failed", "Skipped", "Unreachable", "Ansible-Facts", "Diff", "Warnings", "Results"];
        names.iter().fold(Answer::of(200, ""), |answer, name| answer.with(name, "yes")).with("Etag", "x")
    });
    let result = apply("uri", json!({ "url": server.url("/") }));
    for name in ["failed", "skipped", "unreachable", "ansible_facts", "diff", "warnings", "results"] {
        assert_eq!(result.get(name), None, "{result}");
    }
    assert_eq!((&result["changed"], &result["etag"]), (&json!(false), &json!("x")));
}

#[test]
fn response_beyond_the_limits_of_a_result_fails_and_changes_no_file() {
    let json = |body: Vec<u8>| Answer::of(200, body).with("Content-Type", "application/json");
    let server = Server::start(move |asked| match asked.path.as_str() {
        "/large" => json([b"\"", vec![b'x'; 64 << 20].as_slice(), b"\""].concat()),
        _ => json(["[", &"[],".repeat(3 << 20), "0]"].concat().into_bytes()),
    });
    let directory = tempdir().unwrap();
    let dest = directory.path().join("kept");
    fs::write(&dest, "old").unwrap();
    for (path, word) in [("/large", "more than 64 MiB"), ("/many", "so many values")] {
        let result = apply("uri", json!({ "url": server.url(path), "dest": dest }));
        assert!(result["failed"] == true && result["msg"].as_str().unwrap().contains(word), "{}", result["msg"]);
        assert_eq!(fs::read_to_string(&dest).unwrap(), "old");
    }
}

#[test]
fn credentials_sent() {
    let server = start();
    let login = |force: bool| json!({ "url": server.url("/secret"), "user": "me", "password": "pass", "force_basic_auth": force });
    assert_eq!(apply("uri", login(true))["status"], 200);
    assert_eq!(server.asked().len(), 1);
    assert_eq!(apply("uri", login(false))["status"], 200);
    assert_eq!(server.asked().len(), 2);
    assert_eq!(apply("uri", json!({ "url": server.url("/secret") }))["status"], 401);
}

#[test]
fn files_sent_and_written() {
    let server = start();
    let directory = tempdir().unwrap();
    let args = json!({ "url": server.url("/file"), "dest": directory.path(), "mode": "0600" });
    let result = apply("uri", args);
    assert!(changed(&result), "{result}");
    assert_eq!((&result["path"], &result["mode"]), (&json!(directory.path().join("named")), &json!("0600")));
    let args = json!({ "url": server.url("/file"), "dest": directory.path().join("named"), "status_code": [200, 304] });
    assert!(!changed(&apply("uri", args)));
    assert_eq!(fs::read_to_string(directory.path().join("named")).unwrap(), "file");
}

#[test]
fn skipped_requests_not_sent() {
    let server = start();
    let directory = tempdir().unwrap();
    let skipped = apply("uri", json!({ "url": server.url("/json"), "creates": directory.path() }));
    assert!(skipped["stdout"].as_str().unwrap().contains("exists"));
    let skipped = apply("uri", json!({ "url": server.url("/json"), "removes": directory.path().join("gone") }));
    assert!(skipped["stdout"].as_str().unwrap().contains("does not exist"));
    assert_eq!(predict("uri", json!({ "url": server.url("/json") }))["skipped"], true);
    for (args, word) in [
        (json!({ "url": server.url("/json"), "method": "GET IT" }), "single word"),
        (json!({ "url": server.url("/json"), "src": "/no/such/file" }), "Unable to open source file"),
        (json!({ "url": server.url("/json"), "body": [1], "body_format": "form-urlencoded" }), "form_urlencoded"),
        (json!({ "url": server.url("/json"), "ca_path": "/no/such/file" }), "/no/such/file"),
        (json!({ "url": server.url("/json"), "unix_socket": "/run/x" }), "unix_socket"),
        (json!({ "url": server.url("/json"), "client_cert": "/etc/hostname" }), "no certificate"),
        (json!({}), "missing required arguments: url"),
    ] {
        let result = apply("uri", args);
        assert!(result["failed"] == true && result["msg"].as_str().unwrap().contains(word), "{result} has no {word}");
    }
    assert!(server.asked().is_empty());
}

#[test]
fn service_listening_later_awaited() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let service = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let (mut stream, _) = std::net::TcpListener::bind(free).unwrap().accept().unwrap();
        let mut asked = [0; 1024];
        let _ = std::io::Read::read(&mut stream, &mut asked).unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup")
            .unwrap();
    });
    let result = apply("uri", json!({ "url": format!("http://{free}/"), "return_content": true }));
    assert_eq!((&result["status"], &result["content"]), (&json!(200), &json!("up")), "{result}");
    service.join().unwrap();
}
