use std::os::unix::fs::symlink;

use serde_json::json;

use crate::{case::Bench, has};

#[test]
fn directories_synchronized() {
    if !has("rsync") {
        return;
    }
    let bench = Bench::new();
    bench.write("src/a", "one\n").write("src/sub/b", "two\n").write("dest/old", "three\n");
    symlink("a", bench.path("src/link")).unwrap();
    let args = json!({"src": "@/src/", "dest": "@/dest/"});
    let result = bench.converges("ansible.posix.synchronize", args.clone());
    assert_eq!((bench.read("dest/a"), bench.read("dest/sub/b")), ("one\n".into(), "two\n".into()));
    assert_eq!(std::fs::read_link(bench.path("dest/link")).unwrap().to_str(), Some("a"));
    assert_eq!(
        (&result["rc"], &result["diff"]["prepared"], &result["stdout_lines"][0]),
        (&json!(0), &result["msg"], &json!(">f+++++++++ a"))
    );
    let mut deleting = args;
    deleting["delete"] = json!(true);
    let result = bench.converges("synchronize", deleting);
    assert!(result["msg"].as_str().unwrap().contains("*deleting   old\n"), "{result}");
    assert!(!bench.path("dest/old").exists());
}

#[test]
fn options_passed_to_rsync() {
    if !has("rsync") {
        return;
    }
    let bench = Bench::new();
    bench.write("src/a", "one\n").write("src/b", "two\n");
    let args = json!({"src": "@/src/", "dest": "@/dest", "archive": false, "recursive": true, "times": true, "compress": false,
        "delay_updates": false, "rsync_timeout": 30, "rsync_opts": ["--exclude='b'"], "partial": true});
    let result = bench.converges("synchronize", args);
    let words = shell_words::split(result["cmd"].as_str().unwrap()).unwrap();
    let options =
        ["--timeout=30", "--recursive", "--times", "--exclude=b", "--partial", "--out-format=<<CHANGED>>%i %n%L"];
    assert_eq!(words.get(1..words.len() - 2).unwrap(), options);
    assert!(!bench.path("dest/b").exists());
}

#[test]
fn synchronize_invalid_requests_refused() {
    if !has("rsync") {
        return;
    }
    let bench = Bench::new();
    bench.write("src/a", "one\n");
    for (args, word) in [
        (json!({"src": "@/src"}), "synchronize requires both src and dest parameters are set"),
        (json!({"src": "@/none", "dest": "@/dest"}), "No such file"),
        (json!({"src": "@/src", "dest": "@/dest", "mode": "sideways"}), "must be one of: pull, push"),
        (json!({"src": "rsync://a/b", "dest": "rsync://c/d"}), "either src or dest must be a localhost"),
        (json!({"src": "@/src", "dest": "@/src/sub", "link_dest": ["@/src"]}), "would cause recursion"),
    ] {
        bench.refuses("synchronize", args, word);
    }
}
