//! Requests of the modules to an engine, and their handling of its answers.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::cases::{apply, predict};
use super::fake::{Answer, Asked, Fake};

const IMAGE: &str = "sha256:2c2a5aa160c545cdc063cef02de42f11938d2e21c15246279310248c39eabda4";

fn missing() -> Answer {
    (404, json!({ "message": "no such thing" }).to_string())
}

fn found(value: Value) -> Answer {
    (200, value.to_string())
}

/// A container as an engine describes it.
fn container() -> Value {
    json!({
        "Id": "c0ffee", "Name": "/web", "Image": IMAGE, "Platform": "linux",
        "State": { "Status": "running", "Running": true, "Paused": false },
        "Config": {
            "Image": "busy:2", "Env": ["B=2", "A=1", "PATH=/bin"], "Cmd": ["sleep", "1000"], "Labels": { "img": "two", "a": "b" },
            "ExposedPorts": { "8080/tcp": {} }, "Volumes": null, "Hostname": "c0ffee",
        },
        "HostConfig": {
            "Binds": ["/srv:/data:ro"], "Memory": 67108864, "CpuShares": 512, "NetworkMode": "bridge",
            "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 3 },
            "PortBindings": { "8080/tcp": [{ "HostIp": "0.0.0.0", "HostPort": "80" }] },
            "LogConfig": { "Type": "json-file", "Config": {} },
        },
        "NetworkSettings": { "Networks": { "bridge": { "NetworkID": "b1", "IPAMConfig": null, "Aliases": null } } },
    })
}

/// An engine with one image and one container, which records its changes.
fn engine() -> Fake {
    let (removed, stopped) = (AtomicBool::new(false), AtomicBool::new(false));
    Fake::start("1.45", move |asked: &Asked| {
        let path = asked.path.split('?').next().unwrap_or_default();
        match (asked.method.as_str(), path) {
            ("GET", "/containers/json") if removed.load(Ordering::SeqCst) => found(json!([])),
            ("GET", "/containers/json") => found(json!([{ "Id": "c0ffee", "Names": ["/web"] }])),
            ("GET", "/containers/c0ffee/json") if !removed.load(Ordering::SeqCst) => {
                let mut container = container();
                if stopped.load(Ordering::SeqCst) {
                    container["State"] = json!({ "Status": "exited", "Running": false });
                }
                found(container)
            }
            ("GET", "/images/json") if asked.path.contains("busy") => {
                found(json!([{ "Id": IMAGE, "RepoTags": ["busy:2"], "RepoDigests": [] }]))
            }
            ("GET", "/images/json") => found(json!([])),
            ("GET", path) if path.starts_with("/images/sha256") => found(json!({
                "Id": IMAGE, "Os": "linux", "Architecture": "amd64",
                "Config": { "Env": ["A=1", "PATH=/bin"], "Cmd": ["sleep", "1000"], "Labels": { "img": "two" }, "ExposedPorts": { "8080/tcp": {} } },
            })),
            ("GET", "/info") => found(json!({ "OSType": "linux", "Architecture": "x86_64" })),
            ("POST", "/images/create") => {
                (200, "{\"status\":\"Pulling from nowhere\"}\r\n{\"errorDetail\":{\"message\":\"manifest unknown\"},\"error\":\"manifest unknown\"}\r\n".into())
            }
            ("POST", "/containers/create") => (201, json!({ "Id": "beef", "Warnings": ["no swap"] }).to_string()),
            ("POST", "/containers/c0ffee/stop") => {
                stopped.store(true, Ordering::SeqCst);
                (204, String::new())
            }
            ("DELETE", "/containers/c0ffee") => {
                removed.store(true, Ordering::SeqCst);
                (204, String::new())
            }
            ("POST", _) => found(json!({})),
            _ => missing(),
        }
    })
}

fn args(engine: &Fake, more: Value) -> Value {
    let mut args = json!({ "name": "web", "docker_host": engine.host() });
    for (key, value) in more.as_object().unwrap() {
        args[key] = value.clone();
    }
    args
}

fn differing(result: &Value) -> Vec<String> {
    let differences = result["diff"]["differences"].as_array().into_iter().flatten();
    differences.flat_map(|entry| entry.as_object().unwrap().keys().cloned()).collect()
}

#[test]
fn matching_container_unchanged() {
    let engine = engine();
    for wanted in [
        json!({ "image": "busy:2" }),
        json!({ "image": "busy:2", "env": { "B": "2" }, "labels": { "a": "b" } }),
        json!({ "image": "busy:2", "command": "sleep 1000", "ports": ["80:8080"], "volumes": ["/srv:/data:ro"] }),
        json!({ "image": "busy:2", "memory": "64M", "restart_policy": "on-failure", "restart_retries": 3 }),
        json!({ "image": "busy:2", "env": { "B": "3" }, "comparisons": { "env": "ignore" } }),
        json!({ "image": "busy:2", "healthcheck": { "test": ["NONE"] }, "network_mode": "default" }),
        json!({ "state": "present", "image": "busy:2", "platform": "linux/amd64" }),
    ] {
        let result = apply("docker_container", args(&engine, wanted.clone()));
        assert_eq!(result["changed"], false, "{wanted}: {result}");
        assert_eq!(result["container"]["Id"], "c0ffee", "{wanted}: {result}");
    }
    assert_eq!(engine.changes(), Vec::<String>::new());
}

#[test]
fn differing_container_predicted_to_be_recreated() {
    let engine = engine();
    for (wanted, names) in [
        (json!({ "env": { "B": "3" } }), vec!["env"]),
        (json!({ "labels": { "a": "c" }, "command": ["sleep", "9"] }), vec!["command", "labels"]),
        (json!({ "labels": { "a": "b" }, "comparisons": { "labels": "strict" } }), vec![]),
        (json!({ "env": { "B": "2" }, "volumes": [], "comparisons": { "*": "strict" } }), vec!["volume_binds"]),
        (json!({ "ports": ["127.0.0.1:80:8080"] }), vec!["published_ports"]),
        (json!({ "user": "nobody", "memory": "96M" }), vec!["user", "memory"]),
        (json!({ "recreate": true }), vec![]),
    ] {
        let mut wanted = wanted;
        wanted["image"] = "busy:2".into();
        let result = predict("docker_container", args(&engine, wanted.clone()));
        assert_eq!(result["changed"], !names.is_empty() || wanted["recreate"] == true, "{wanted}: {result}");
        assert_eq!(differing(&result), names, "{wanted}: {result}");
    }
    assert_eq!(engine.changes(), Vec::<String>::new(), "check mode changed something");
}

#[test]
fn limits_changed_in_place() {
    let engine = engine();
    let result =
        apply("docker_container", args(&engine, json!({ "image": "busy:2", "memory": "96M", "cpu_shares": 512 })));
    assert_eq!(result["changed"], true, "{result}");
    assert_eq!(engine.changes(), ["POST /containers/c0ffee/update"]);
    assert_eq!(engine.bodies("/containers/c0ffee/update"), [json!({ "Memory": 100663296, "CpuShares": 512 })]);
}

#[test]
fn container_removed_before_recreation() {
    let engine = engine();
    let wanted = json!({ "image": "busy:2", "env": { "B": "3" }, "state": "present", "platform": "linux/amd64", "keep_volumes": false });
    let result = apply("docker_container", args(&engine, wanted));
    assert_eq!(result["warnings"], json!(["Docker warning: no swap"]), "{result}");
    assert_eq!(
        engine.changes(),
        [
            "POST /containers/c0ffee/stop",
            "DELETE /containers/c0ffee?v=true&link=false&force=false",
            "POST /containers/create?name=web&platform=linux%2Famd64",
        ]
    );
    let body = engine.bodies("/containers/create").remove(0);
    assert_eq!((&body["Env"], &body["Image"]), (&json!(["B=3"]), &json!("busy:2")));
}

#[test]
fn invalid_arguments_refused() {
    let engine = engine();
    for (wanted, part) in [
        (json!({ "image": "busy:2", "comparisons": { "nothing": "strict" } }), "Unknown module option 'nothing'"),
        (json!({ "image": "busy:2", "comparisons": { "name": "strict" } }), "does not correspond"),
        (json!({ "image": "busy:2", "comparisons": { "image": "allow_more_present" } }), "is a value"),
        (json!({ "image": "busy:2", "env": { "A": 1 } }), "Non-string value found for env option"),
        (json!({ "image": "busy:2", "ports": ["name:1:2"] }), "must be IPv4 or IPv6 addresses"),
        (json!({ "image": "busy:2", "memory": "much" }), "Failed to convert memory to bytes"),
        (json!({ "image": "busy:2", "volumes": ["/a:/x", "/b:/x"] }), "appears twice in the volumes option"),
        (json!({ "image": "busy:2", "mounts": [{ "target": "/x", "type": "bind" }] }), "source must be specified"),
        (json!({ "image": "busy:2", "restart_retries": 1 }), "restart_policy"),
        (json!({ "image": "busy:2", "mounts": [{ "target": "/x", "type": "image" }] }), "1.47"),
        (json!({ "state": "present" }), "image"),
    ] {
        let result = apply("docker_container", args(&engine, wanted.clone()));
        assert_eq!(result["failed"], true, "{wanted}: {result}");
        assert!(result["msg"].as_str().unwrap().contains(part), "{wanted}: {result}");
    }
    assert_eq!(engine.changes(), Vec::<String>::new());
}

#[test]
fn error_during_pull_fails() {
    let engine = engine();
    let result = apply("docker_image", json!({ "name": "nowhere:1", "source": "pull", "docker_host": engine.host() }));
    assert_eq!(result["failed"], true, "{result}");
    assert!(result["msg"].as_str().unwrap().contains("manifest unknown"), "{result}");
    let result =
        predict("docker_image", json!({ "name": "nowhere:1", "source": "pull", "docker_host": engine.host() }));
    assert_eq!(result["actions"], json!(["Pulled image nowhere:1"]), "{result}");
}

#[test]
fn engine_refusal_reported() {
    let engine = Fake::start("1.41", |asked| match asked.path.as_str() {
        "/volumes" => found(json!({ "Volumes": [] })),
        "/networks" => found(json!([])),
        _ => (500, json!({ "message": "disk is full" }).to_string()),
    });
    let result = apply("docker_volume", json!({ "name": "v", "docker_host": engine.host() }));
    let message = result["msg"].as_str().unwrap();
    assert_eq!(
        message,
        "500 Server Error for http+docker://localhost/v1.41/volumes/create: Internal Server Error (\"disk is full\")"
    );
    let result = apply("docker_network", json!({ "name": "n", "enable_ipv4": true, "docker_host": engine.host() }));
    assert!(result["msg"].as_str().unwrap().contains("Minimum version required is 1.47"), "{result}");
}

#[test]
fn missing_engine_named_in_failure() {
    let folder = tempfile::tempdir().unwrap();
    let socket = format!("unix://{}/none/docker.sock", folder.path().display());
    for host in [&*socket, "tcp://127.0.0.1:1", "ssh://somewhere", "tcp://"] {
        let result = apply("docker_network", json!({ "name": "n", "docker_host": host }));
        assert_eq!(result["failed"], true, "{result}");
        let message = result["msg"].as_str().unwrap();
        assert!(message.starts_with("Error connecting") || message.starts_with("docker_host"), "{message}");
    }
}
