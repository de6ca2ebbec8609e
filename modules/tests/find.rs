//! `find`, `tempfile`, `assemble` and `getent` on real files.
#![allow(clippy::unwrap_used)]

mod cases;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::{Duration, SystemTime},
};

use cases::{apply, changed, converges, fails, predict};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

/// Tree with a.log (old, large), b.txt, .hidden, sub/c.log, sub/deep/d.log, and a link.
fn place() -> TempDir {
    let root = tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fs::create_dir_all(path("sub/deep")).unwrap();
    fs::write(path("a.log"), "x".repeat(5000)).unwrap();
    fs::write(path("b.txt"), "first\nsecond line\n").unwrap();
    fs::write(path(".hidden"), "").unwrap();
    fs::write(path("sub/c.log"), "").unwrap();
    fs::write(path("sub/deep/d.log"), "").unwrap();
    symlink("sub", path("link")).unwrap();
    fs::set_permissions(path("b.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(path("a.log"), fs::Permissions::from_mode(0o644)).unwrap();
    let old = SystemTime::now() - Duration::from_secs(10 * 86_400);
    fs::File::options().write(true).open(path("a.log")).unwrap().set_modified(old).unwrap();
    root
}

fn found(root: &Path, args: Value) -> Vec<String> {
    let mut args = args;
    args["paths"] = json!([root]);
    let result = predict("find", args.clone());
    // Reading a file changes its access time, so only `matched` is compared.
    assert_eq!(result["matched"], apply("find", args)["matched"]);
    assert!(!changed(&result));
    let files = result["files"].as_array().expect("a result of find lists files");
    assert_eq!(result["matched"], files.len());
    let name =
        |file: &Value| Path::new(file["path"].as_str().unwrap()).strip_prefix(root).unwrap().display().to_string();
    files.iter().map(name).collect()
}

#[test]
fn find_matches_every_criterion() {
    let root = place();
    for (args, expected) in [
        (json!({}), vec!["a.log", "b.txt"]),
        (json!({ "hidden": true }), vec![".hidden", "a.log", "b.txt"]),
        (json!({ "patterns": "*.log" }), vec!["a.log"]),
        (json!({ "patterns": "*.log,*.txt", "excludes": "b*" }), vec!["a.log"]),
        (json!({ "excludes": ["*.log"] }), vec!["b.txt"]),
        (json!({ "patterns": ["^.*og$", "zzz"], "use_regex": true }), vec!["a.log"]),
        (json!({ "patterns": ["log"], "use_regex": true }), vec![]),
        (json!({ "recurse": true, "patterns": "*.log" }), vec!["a.log", "sub/c.log", "sub/deep/d.log"]),
        (json!({ "recurse": true, "patterns": "*.log", "depth": 2 }), vec!["a.log", "sub/c.log"]),
        (json!({ "recurse": true, "patterns": "c.log", "follow": true }), vec!["link/c.log", "sub/c.log"]),
        (json!({ "recurse": true, "limit": 2 }), vec!["a.log", "b.txt"]),
        (json!({ "file_type": "directory", "recurse": true }), vec!["sub", "sub/deep"]),
        (json!({ "file_type": "link" }), vec!["link"]),
        (json!({ "file_type": "any" }), vec!["a.log", "b.txt", "link", "sub"]),
        (json!({ "age": "1w" }), vec!["a.log"]),
        (json!({ "age": "-1d" }), vec!["b.txt"]),
        (json!({ "size": "4k" }), vec!["a.log"]),
        (json!({ "size": "-1k" }), vec!["b.txt"]),
        (json!({ "contains": "second" }), vec!["b.txt"]),
        (json!({ "contains": "line" }), vec![]),
        (json!({ "contains": "first\nsec", "read_whole_file": true }), vec!["b.txt"]),
        (json!({ "mode": "0600" }), vec!["b.txt"]),
        (json!({ "mode": "u=rw,g=r,o=r" }), vec!["a.log"]),
        (json!({ "mode": "0004", "exact_mode": false }), vec!["a.log"]),
    ] {
        assert_eq!(found(root.path(), args.clone()), expected, "{args}");
    }
}

#[test]
fn stat_returns_every_key() {
    let root = place();
    let result =
        apply("find", json!({ "path": root.path(), "pattern": "b.txt", "get_checksum": true, "checksum_algo": "md5" }));
    let file = &result["files"][0];
    assert_eq!(
        (&file["mode"], &file["size"], &file["isreg"], &file["rusr"]),
        (&json!("0600"), &json!(18), &json!(true), &json!(true))
    );
    assert_eq!(file["checksum"].as_str().unwrap().len(), 32);
    assert!(file["pw_name"].is_string() && file["mtime"].is_f64() && file.get("exists").is_none());
    assert_eq!((&result["examined"], &result["msg"]), (&json!(5), &json!("All paths examined")));
    let missing = apply("find", json!({ "paths": ["/no/such/place", root.path()] }));
    assert_eq!(
        (&missing["matched"], &missing["skipped_paths"]["/no/such/place"]),
        (&json!(2), &json!("'/no/such/place' is not a directory"))
    );
    assert!(missing["warnings"][0].as_str().unwrap().contains("/no/such/place"));
    for (args, word) in [
        (json!({ "paths": "/tmp", "age": "old" }), "failed to process age"),
        (json!({ "paths": "/tmp", "size": "big" }), "failed to process size"),
        (json!({ "paths": "/tmp", "limit": 0 }), "limit cannot be 0"),
        (json!({ "paths": "/tmp", "mode": 420 }), "not a string"),
        (json!({ "paths": "/tmp", "patterns": "(", "use_regex": true }), "regular expression"),
        (json!({}), "missing required arguments: paths"),
    ] {
        assert!(fails("find", args, root.path()).contains(word), "{word}");
    }
}

#[test]
fn tempfile_created_with_options() {
    let root = tempdir().unwrap();
    let file = apply("tempfile", json!({ "path": root.path(), "prefix": "a.", "suffix": ".z" }));
    let path = Path::new(file["path"].as_str().unwrap());
    assert!(changed(&file) && path.is_file());
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("a.") && name.ends_with(".z") && name.len() == 12, "{name}");
    let directory = apply("tempfile", json!({ "path": root.path(), "state": "directory" }));
    let path = Path::new(directory["path"].as_str().unwrap());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(predict("tempfile", json!({ "path": root.path() }))["skipped"], true);
    assert!(fails("tempfile", json!({ "path": "/no/such/place" }), root.path()).contains("/no/such/place"));
    assert!(fails("tempfile", json!({ "path": root.path(), "prefix": "a/b" }), root.path()).contains("prefix"));
}

#[test]
fn assemble_joins_fragments() {
    let root = tempdir().unwrap();
    let src = root.path().join("parts");
    fs::create_dir(&src).unwrap();
    for (name, text) in [("20-b.conf", "two"), ("10-a.conf", "one\n"), (".hidden.conf", "never\n"), ("note", "no\n")] {
        fs::write(src.join(name), text).unwrap();
    }
    let dest = root.path().join("whole");
    let args = json!({ "src": src, "dest": dest, "regexp": r"\.conf$", "ignore_hidden": true, "delimiter": "\\n---", "mode": "0600" });
    let result = converges("assemble", args, root.path());
    assert_eq!(fs::read_to_string(&dest).unwrap(), "one\n\n---\ntwo");
    assert_eq!((&result["msg"], &result["mode"], &result["dest"]), (&json!("OK"), &json!("0600"), &json!(dest)));
    assert_eq!(result["md5sum"].as_str().unwrap().len(), 32);
    let all = converges("assemble", json!({ "src": src, "dest": dest, "backup": true }), root.path());
    assert_eq!(fs::read_to_string(&dest).unwrap(), "never\none\ntwo\nno\n");
    assert!(Path::new(all["backup_file"].as_str().unwrap()).is_file());
    for (args, word) in [
        (json!({ "src": "/no/such/place", "dest": dest }), "does not exist"),
        (json!({ "src": src.join("note"), "dest": dest }), "is not a directory"),
        (json!({ "src": src, "dest": dest, "regexp": "(" }), "Invalid Regexp"),
        (json!({ "src": src, "dest": dest, "regexp": "a", "validate": "grep none %s" }), "failed to validate"),
    ] {
        assert!(fails("assemble", args, root.path()).contains(word), "{word}");
    }
}

#[test]
fn getent_reads_name_services() {
    let result = apply("getent", json!({ "database": "passwd", "key": "root" }));
    assert_eq!(result["ansible_facts"]["getent_passwd"]["root"][1], "0");
    let missing = apply("getent", json!({ "database": "passwd", "key": "no-such-user", "fail_key": false }));
    assert_eq!(missing["ansible_facts"]["getent_passwd"]["no-such-user"], Value::Null);
    let failed = apply("getent", json!({ "database": "passwd", "key": "no-such-user" }));
    assert_eq!(failed["msg"], "One or more supplied key could not be found in the database.");
    assert_eq!(apply("getent", json!({ "database": "nonsense" }))["failed"], true);
}
