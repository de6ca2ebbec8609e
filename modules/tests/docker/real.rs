//! Tests against the engine at `DOCKER_HOST` or on this machine. Without one they are ignored. They start no
//! container, so they build the images they need.

use std::{fs::File, io::Write, path::Path};

use serde_json::{Value, json};

use super::cases::{apply, predict};

const NAME: &str = "windlass-test";

fn has_engine() -> bool {
    let found = match std::env::var("DOCKER_HOST") {
        Ok(host) => host.strip_prefix("unix://").is_none_or(|path| Path::new(path).exists()),
        Err(_) => Path::new("/var/run/docker.sock").exists(),
    };
    if !found {
        windlass_testing::lacks("docker");
    }
    found
}

/// Predicts a change, makes it, and expects no further change.
fn converges(module: &str, args: Value) -> Value {
    let predicted = predict(module, args.clone());
    assert_eq!(predicted["changed"], true, "{module} {args}: {predicted}");
    let result = apply(module, args.clone());
    assert_eq!(result["changed"], true, "{module} {args}: {result}");
    assert!(result.get("failed").is_none(), "{module} {args}: {result}");
    rests(module, args);
    result
}

fn rests(module: &str, args: Value) {
    for result in [apply(module, args.clone()), predict(module, args.clone())] {
        assert_eq!(result["changed"], false, "{module} {args} again: {result}");
    }
}

/// A tar file in the format of `docker save`, with an image of one empty layer.
fn archive(path: &Path) {
    let layer = {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        builder.append_data(&mut header, "empty", std::io::empty()).unwrap();
        builder.into_inner().unwrap()
    };
    let hash = |bytes: &[u8]| {
        use sha2::Digest as _;
        hex::encode(sha2::Sha256::digest(bytes))
    };
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": { "Cmd": ["/empty"], "Env": ["A=1"], "Labels": { "made": "here" } },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hash(&layer))] },
    })
    .to_string();
    let config_name = format!("{}.json", hash(config.as_bytes()));
    let manifest =
        json!([{ "Config": config_name, "RepoTags": [format!("{NAME}:1")], "Layers": ["layer.tar"] }]).to_string();
    let mut builder = tar::Builder::new(File::create(path).unwrap());
    for (name, content) in [
        ("layer.tar", layer.as_slice()),
        (config_name.as_str(), config.as_bytes()),
        ("manifest.json", manifest.as_bytes()),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content).unwrap();
    }
    builder.into_inner().unwrap().flush().unwrap();
}

fn clean() {
    for (module, name) in [("docker_container", NAME), ("docker_network", NAME), ("docker_volume", NAME)] {
        apply(module, json!({ "name": name, "state": "absent" }));
    }
    for tag in ["1", "2"] {
        apply("docker_image", json!({ "name": NAME, "tag": tag, "state": "absent", "force_absent": true }));
    }
}

#[test]
fn images_networks_volumes_and_containers_managed() {
    if !has_engine() {
        return;
    }
    clean();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.tar");
    archive(&path);
    let result = converges("docker_image", json!({ "name": format!("{NAME}:1"), "source": "load", "load_path": path }));
    assert_eq!(result["image"]["RepoTags"], json!([format!("{NAME}:1")]));
    converges(
        "docker_image",
        json!({ "name": format!("{NAME}:1"), "source": "local", "repository": format!("{NAME}:2") }),
    );
    let saved = folder.path().join("saved.tar");
    converges("docker_image", json!({ "name": format!("{NAME}:2"), "source": "local", "archive_path": saved }));

    converges("docker_volume", json!({ "name": NAME, "labels": { "a": "b" } }));
    converges("docker_volume", json!({ "name": NAME, "labels": { "a": "c" }, "recreate": "options-changed" }));
    let network = json!({ "name": NAME, "ipam_config": [{ "subnet": "10.253.17.0/24" }], "labels": { "a": "b" } });
    let result = converges("docker_network", network);
    assert_eq!(result["network"]["IPAM"]["Config"][0]["Subnet"], "10.253.17.0/24");

    let wanted = json!({
        "name": NAME, "image": format!("{NAME}:1"), "state": "present", "env": { "B": "2" }, "labels": { "c": "d" },
        "ports": ["127.0.0.1:18080:80"], "volumes": [format!("{NAME}:/data:ro"), "/nameless"], "memory": "64M",
        "restart_policy": "on-failure", "tmpfs": ["/t:size=1m"], "command": ["/empty", "word"], "init": true,
        "networks": [{ "name": NAME, "aliases": ["other"], "ipv4_address": "10.253.17.9" }],
        "healthcheck": { "test": "true", "interval": "5s" }, "etc_hosts": { "x": "10.0.0.1" }, "ulimits": ["nofile:64:128"],
        "mounts": [{ "target": "/m", "type": "tmpfs", "tmpfs_size": "1M" }],
    });
    let result = converges("docker_container", wanted.clone());
    assert_eq!(result["container"]["Config"]["Env"], json!(["B=2", "A=1"]));
    let changed = |key: &str, value: Value| {
        let mut args = wanted.clone();
        args[key] = value;
        args
    };
    converges("docker_container", changed("memory", json!("96M")));
    let result = converges("docker_container", changed("env", json!({ "B": "3" })));
    assert!(result["diff"]["differences"].to_string().contains("\"env\""), "{result}");
    converges("docker_container", changed("networks", json!([{ "name": NAME, "ipv4_address": "10.253.17.10" }])));
    converges("docker_container", json!({ "name": NAME, "state": "absent" }));
    converges("docker_network", json!({ "name": NAME, "state": "absent" }));
    converges("docker_volume", json!({ "name": NAME, "state": "absent" }));
    clean();
}
