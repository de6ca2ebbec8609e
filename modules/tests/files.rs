//! `file`, `copy`, `stat`, `slurp` and `fetch` on real files.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod case;

use case::Bench;
use serde_json::json;

#[test]
fn directory_created_with_parents() {
    let bench = Bench::new();
    let result = bench.converges("file", json!({ "path": "@/a/b/", "state": "directory", "mode": "0750" }));
    assert_eq!((bench.mode("a"), bench.mode("a/b")), (0o750, 0o750));
    assert_eq!((&result["state"], &result["mode"]), (&json!("directory"), &json!("0750")));
    assert_eq!(result["diff"]["before"]["state"], "absent");
    bench.converges("file", json!({ "path": "@/a/b", "mode": "u=rwx,go=" }));
    assert_eq!((bench.mode("a"), bench.mode("a/b")), (0o750, 0o700));
}

#[test]
fn directory_in_place_of_file_refused() {
    Bench::new().write("a", "x").refuses(
        "file",
        json!({ "path": "@/a", "state": "directory" }),
        "already exists as a file",
    );
}

#[test]
fn recurse_sets_attributes_of_whole_tree() {
    let bench = Bench::new();
    bench.write("d/e/f", "x").write("d/g", "x");
    bench.converges("file", json!({ "path": "@/d", "state": "directory", "recurse": true, "mode": "u=rwX,g=rX,o=" }));
    assert_eq!((bench.mode("d"), bench.mode("d/e"), bench.mode("d/e/f")), (0o750, 0o750, 0o640));
    bench.refuses(
        "file",
        json!({ "path": "@/d/g", "state": "file", "recurse": true }),
        "recurse option requires state",
    );
}

#[test]
fn file_and_directory_removed() {
    let bench = Bench::new();
    bench.write("d/e/f", "x").write("g", "x");
    bench.converges("file", json!({ "path": "@/d", "state": "absent" }));
    let result = bench.converges("file", json!({ "path": "@/g", "state": "absent" }));
    assert_eq!(result["state"], "absent");
    bench.rests("file", json!({ "path": "@/never/there", "state": "absent" }));
}

#[test]
fn link_created_and_retargeted() {
    let bench = Bench::new();
    bench.write("one", "1").write("two", "2");
    let result = bench.converges("file", json!({ "src": "one", "dest": "@/link", "state": "link" }));
    assert_eq!((&result["state"], &result["src"]), (&json!("link"), &json!("one")));
    bench.converges("file", json!({ "src": "@/two", "path": "@/link", "state": "link" }));
    assert_eq!(bench.read("link"), "2");
    bench.refuses("file", json!({ "src": "three", "path": "@/link", "state": "link" }), "src file does not exist");
    bench.refuses(
        "file",
        json!({ "src": "one", "path": "@/two", "state": "link" }),
        "refusing to convert from file to symlink",
    );
    bench.converges("file", json!({ "src": "three", "path": "@/two", "state": "link", "force": true }));
}

#[test]
fn link_attributes_set_on_target() {
    let bench = Bench::new();
    bench.write("one", "1");
    bench.converges("file", json!({ "src": "one", "dest": "@/link", "state": "link", "mode": "0600" }));
    assert_eq!(bench.mode("one"), 0o600);
    bench.converges("file", json!({ "path": "@/link", "mode": "0640" }));
    assert_eq!(bench.mode("one"), 0o640);
}

#[test]
fn hard_link_created() {
    let bench = Bench::new();
    bench.write("one", "1").write("two", "2");
    let result = bench.converges("file", json!({ "src": "@/one", "dest": "@/name", "state": "hard" }));
    assert_eq!(result["state"], "hard");
    bench.refuses("file", json!({ "src": "@/one", "dest": "@/two", "state": "hard" }), "Cannot link, file exists");
    bench.converges("file", json!({ "src": "@/one", "dest": "@/two", "state": "hard", "force": true }));
    bench.refuses("file", json!({ "src": "@/none", "dest": "@/x", "state": "hard" }), "src does not exist");
    bench.write("folder/other", "3");
    bench.converges("file", json!({ "src": "@/one", "dest": "@/folder", "state": "hard" }));
    assert_eq!(bench.read("folder/one"), "1");
}

#[test]
fn touch_creates_file_and_sets_times() {
    let bench = Bench::new();
    let preserved = json!({ "path": "@/a", "state": "touch", "access_time": "preserve", "modification_time": "preserve", "mode": "0600" });
    let result = bench.converges("file", preserved);
    assert_eq!(result["dest"], bench.path("a").display().to_string());
    assert_eq!(bench.run("file", json!({ "path": "@/a", "state": "touch" }), false)["changed"], true);
    bench.converges("file", json!({ "path": "@/a", "modification_time": "202001020304.05" }));
    bench.refuses("file", json!({ "path": "@/a", "access_time": "soon" }), "using format");
}

#[test]
fn file_invalid_requests_refused() {
    let bench = Bench::new();
    bench.write("a", "x");
    bench.refuses("file", json!({ "path": "@/none" }), "is absent, cannot continue");
    bench.refuses("file", json!({ "path": "@/a", "mode": "rwx" }), "octal or symbolic");
    bench.refuses("file", json!({ "path": "@/a", "owner": "no-such-user" }), "failed to look up user no-such-user");
    bench.refuses("file", json!({ "path": "@/a", "state": "present" }), "must be one of");
    bench.refuses("file", json!({ "path": "@/a", "src": "@/b" }), "src option requires state");
    let predicted = bench.run("file", json!({ "path": "@/a", "owner": "to-come" }), true);
    assert_eq!(predicted["changed"], true);
    assert!(predicted["warnings"][0].as_str().unwrap().contains("to-come"));
}

#[test]
fn copy_writes_text() {
    let bench = Bench::new();
    let result = bench.converges("copy", json!({ "content": "hello\n", "dest": "@/a", "mode": "0640" }));
    assert_eq!((bench.read("a").as_str(), bench.mode("a")), ("hello\n", 0o640));
    assert_eq!(result["checksum"], "f572d396fae9206628714fb2ce00f72e94f2258f");
    assert_eq!(result["md5sum"], "b1946ac92492d2347c6235b4d2611184");
    assert_eq!((&result["size"], &result["state"]), (&json!(6), &json!("file")));
    assert_eq!((&result["diff"]["before"], &result["diff"]["after"]), (&json!(""), &json!("hello\n")));
    bench.converges("copy", json!({ "content": "other\n", "dest": "@/a" }));
    assert_eq!(bench.mode("a"), 0o640);
    bench.refuses("copy", json!({ "content": "x", "dest": "@" }), "can not use content with a dir as dest");
    bench.refuses("copy", json!({ "content": "x", "dest": "@/no/such" }), "Destination directory");
}

#[test]
fn copy_writes_controller_file() {
    let bench = Bench::new().contents(&[("files/app.conf", "port = 1\n")]);
    let result = bench.converges("copy", json!({ "_content": 0, "dest": "@/app.conf", "mode": "preserve" }));
    assert_eq!((bench.read("app.conf").as_str(), bench.mode("app.conf")), ("port = 1\n", 0o751));
    assert_eq!(result["src"], "files/app.conf");
    assert_eq!(result["diff"]["after_header"], "files/app.conf");
    let below =
        bench.converges("copy", json!({ "_content": 0, "_original_basename": "app.conf", "dest": "@/etc/sub/" }));
    assert_eq!(bench.read("etc/sub/app.conf"), "port = 1\n");
    assert_eq!(below["dest"], bench.path("etc/sub/app.conf").display().to_string());
    bench.rests("copy", json!({ "_content": 0, "_original_basename": "app.conf", "dest": "@/etc/sub" }));
    bench.refuses(
        "copy",
        json!({ "_content": 0, "dest": "@/x", "checksum": "00" }),
        "does not match the expected checksum",
    );
}

#[test]
fn backups_of_one_second_keep_the_original() {
    let bench = Bench::new();
    bench.write("a", "original\n");
    let line = |line| json!({ "path": "@/a", "line": line, "backup": true });
    let backups = ["one", "two", "three"].map(|text| bench.run("lineinfile", line(text), false)["backup"].clone());
    let kept = backups.map(|backup| std::fs::read_to_string(backup.as_str().unwrap()).unwrap());
    assert_eq!(kept, ["original\n", "original\none\n", "original\none\ntwo\n"]);
}

#[test]
fn copy_keeps_backup() {
    let bench = Bench::new();
    bench.write("a", "old");
    let result = bench.converges("copy", json!({ "content": "new", "dest": "@/a", "backup": true }));
    assert_eq!(std::fs::read_to_string(result["backup_file"].as_str().unwrap()).unwrap(), "old");
}

#[test]
fn copy_without_force_keeps_existing_file() {
    let bench = Bench::new();
    bench.write("a", "mine");
    bench.rests("copy", json!({ "content": "theirs", "dest": "@/a", "force": false }));
    assert_eq!(bench.read("a"), "mine");
}

#[test]
fn copy_validates_before_replacing() {
    let bench = Bench::new();
    bench.write("a", "old");
    bench.refuses(
        "copy",
        json!({ "content": "new", "dest": "@/a", "validate": "grep -q good %s" }),
        "failed to validate",
    );
    bench.refuses("copy", json!({ "content": "new", "dest": "@/a", "validate": "true" }), "validate must contain %s");
    bench.converges("copy", json!({ "content": "good", "dest": "@/a", "validate": "grep -q good %s" }));
}

#[test]
fn copy_replaces_or_follows_links() {
    let bench = Bench::new();
    bench.write("target", "old");
    std::os::unix::fs::symlink("target", bench.path("link")).unwrap();
    bench.converges("copy", json!({ "content": "new", "dest": "@/link", "follow": true }));
    assert!(bench.path("link").is_symlink());
    assert_eq!(bench.read("target"), "new");
    bench.converges("copy", json!({ "content": "own", "dest": "@/link" }));
    assert!(!bench.path("link").is_symlink());
    assert_eq!((bench.read("target"), bench.read("link")), ("new".into(), "own".into()));
}

#[test]
fn copy_writes_controller_tree() {
    let bench = Bench::new().contents(&[("tree/a", "A"), ("tree/sub/b", "B")]);
    let entries = json!([
        { "path": "a", "kind": "file", "content": 0, "mode": "0644" },
        { "path": "sub", "kind": "directory", "mode": "0755" },
        { "path": "sub/b", "kind": "file", "content": 1, "mode": "0644" },
        { "path": "sub/c", "kind": "link", "target": "b" },
    ]);
    bench.converges(
        "copy",
        json!({ "dest": "@/new/place", "_entries": entries, "mode": "0600", "directory_mode": "0700" }),
    );
    assert_eq!(
        (bench.read("new/place/sub/c"), bench.mode("new/place/sub"), bench.mode("new/place/a")),
        ("B".into(), 0o700, 0o600)
    );
    let bad = json!([{ "path": "../x", "kind": "directory" }]);
    bench.refuses("copy", json!({ "dest": "@/new", "_entries": bad }), "leads out of the tree");
}

#[test]
fn copy_remote_files_and_trees() {
    let bench = Bench::new();
    bench.write("from/a", "A").write("from/sub/b", "B");
    bench.converges("copy", json!({ "src": "@/from/a", "dest": "@/a", "remote_src": true }));
    bench.converges("copy", json!({ "src": "@/from/", "dest": "@/inside", "remote_src": true }));
    assert_eq!(bench.read("inside/sub/b"), "B");
    bench.converges("copy", json!({ "src": "@/from", "dest": "@/whole", "remote_src": true }));
    assert_eq!(bench.read("whole/from/sub/b"), "B");
    bench.refuses("copy", json!({ "src": "@/none", "dest": "@/x", "remote_src": true }), "not found");
}

#[test]
fn diff_omits_binary_and_large_contents() {
    let bench = Bench::new();
    let result = bench.run("copy", json!({ "content": "a\u{0}b", "dest": "@/a" }), true);
    assert_eq!(result["diff"]["src_binary"], 1);
}

#[test]
fn stat_reports_every_key() {
    let bench = Bench::new();
    bench.write("a", "hello\n");
    std::os::unix::fs::symlink("a", bench.path("link")).unwrap();
    let stat = bench.rests("stat", json!({ "path": "@/a" }))["stat"].clone();
    assert_eq!(stat["checksum"], "f572d396fae9206628714fb2ce00f72e94f2258f");
    for (key, value) in
        [("exists", true), ("isreg", true), ("isdir", false), ("rusr", true), ("xoth", false), ("readable", true)]
    {
        assert_eq!(stat[key], value, "{key}");
    }
    assert_eq!(stat["size"], 6);
    let link = bench.rests("stat", json!({ "path": "@/link" }))["stat"].clone();
    assert_eq!((&link["islnk"], &link["lnk_target"]), (&json!(true), &json!("a")));
    assert_eq!(link["lnk_source"], bench.path("a").canonicalize().unwrap().display().to_string());
    let followed =
        bench.rests("stat", json!({ "path": "@/link", "follow": true, "checksum_algorithm": "md5" }))["stat"].clone();
    assert_eq!(followed["checksum"], "b1946ac92492d2347c6235b4d2611184");
    assert_eq!(bench.rests("stat", json!({ "path": "@/none" }))["stat"], json!({ "exists": false }));
}

#[test]
fn endless_or_huge_file_not_read_completely() {
    let bench = Bench::new();
    bench.refuses("slurp", json!({ "src": "/dev/zero" }), "it is neither a file nor a directory");
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("sparse");
    std::fs::File::create(&path).unwrap().set_len(3 << 30).unwrap();
    bench.refuses("slurp", json!({ "src": path }), "too many for slurp");
    bench.refuses("lineinfile", json!({ "path": path, "line": "x" }), "too much to be read as a whole");
    let found = bench.rests("find", json!({ "paths": elsewhere.path(), "contains": "x" }));
    assert_eq!(found["matched"], 0);
}

#[test]
fn slurp_returns_content() {
    let bench = Bench::new();
    bench.write("a", "hello\n");
    let result = bench.rests("slurp", json!({ "src": "@/a" }));
    assert_eq!((&result["content"], &result["encoding"]), (&json!("aGVsbG8K"), &json!("base64")));
    bench.refuses("slurp", json!({ "src": "@/none" }), "File not found");
    bench.refuses("slurp", json!({ "src": "@" }), "Source is a directory");
}

#[test]
fn fetch_sends_what_the_controller_lacks() {
    let bench = Bench::new();
    bench.write("a", "hello\n");
    let sum = "f572d396fae9206628714fb2ce00f72e94f2258f";
    let same = bench.rests("fetch", json!({ "src": "@/a", "_checksum": sum }));
    assert_eq!((&same["checksum"], bench.fetched().is_empty()), (&json!(sum), true));
    let result = bench.run("fetch", json!({ "src": "@/a" }), false);
    assert_eq!((&result["checksum"], &result["size"], bench.fetched()), (&json!(sum), &json!(6), b"hello\n".to_vec()));
    bench.refuses("fetch", json!({ "src": "@/none" }), "the remote file does not exist");
    let missing = bench.rests("fetch", json!({ "src": "@/none", "fail_on_missing": false }));
    assert_eq!(missing["msg"], "the remote file does not exist, not transferring, ignored");
}

#[test]
fn controller_scripts_run() {
    let bench = Bench::new().contents(&[("hello.sh", "#!/bin/sh\necho \"$1 $2\"; echo x > \"$3\"\n")]);
    let args = json!({ "_raw_params": "'a b' c @/made", "creates": "@/made", "_original_basename": "hello.sh" });
    let result = bench.converges("script", args);
    assert_eq!((&result["stdout"], bench.read("made")), (&json!("a b c\n"), "x\n".into()));
    assert_eq!(result.get("cmd"), None);
}

#[test]
fn commands_run_by_creates_and_removes() {
    let bench = Bench::new();
    let result =
        bench.converges("command", json!({ "_raw_params": "touch 'a b.flag'", "chdir": "@", "creates": "*.flag" }));
    assert_eq!(result["cmd"], json!(["touch", "a b.flag"]));
    let skipped = bench.rests("command", json!({ "cmd": "false", "creates": "@/*.flag" }));
    assert!(skipped["msg"].as_str().unwrap().starts_with("Did not run command since"));
    bench.converges("shell", json!({ "cmd": "rm *.flag", "chdir": "@", "removes": "@/*.flag" }));
    let failed =
        bench.refuses("shell", json!({ "_raw_params": "echo out; echo err >&2; exit 3" }), "non-zero return code");
    assert_eq!((&failed["rc"], &failed["stdout"], &failed["stderr"]), (&json!(3), &json!("out"), &json!("err")));
    assert_eq!(failed["changed"], true);
    let check = bench.run("command", json!({ "argv": ["rm", "-rf", "@"] }), true);
    assert_eq!((&check["skipped"], &check["changed"]), (&json!(true), &json!(false)));
    let input = bench.run("command", json!({ "cmd": "cat", "stdin": "text" }), false);
    assert_eq!(input["stdout"], "text");
    bench.refuses("command", json!({ "_raw_params": "" }), "no command given");
    bench.refuses("command", json!({ "cmd": "no-such-program-here" }), "Error executing command");
    bench.refuses("command", json!({ "cmd": "ls", "chdir": "@/none" }), "Unable to change directory");
}

#[test]
fn dangling_and_circular_links_handled() {
    let bench = Bench::new();
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, bench.path(name)).unwrap();
    link("none", "dangling");
    link("two", "one");
    link("one", "two");
    std::fs::create_dir(bench.path("tree")).unwrap();
    link("..", "tree/up");
    link("../none", "tree/nowhere");
    for path in ["@/dangling", "@/one"] {
        for (module, args) in [
            ("slurp", json!({ "src": path })),
            ("lineinfile", json!({ "path": path, "line": "x" })),
            ("file", json!({ "path": path, "state": "file", "mode": "0600", "follow": true })),
            ("unarchive", json!({ "src": path, "dest": "@", "remote_src": true })),
            ("copy", json!({ "src": path, "dest": "@/copied", "remote_src": true })),
        ] {
            bench.refuses(module, args, "");
        }
        let found = bench.rests("stat", json!({ "path": path }));
        assert_eq!((&found["stat"]["islnk"], &found["stat"]["exists"]), (&json!(true), &json!(true)));
    }
    let all = bench.rests("find", json!({ "paths": "@/tree", "recurse": true, "follow": true, "file_type": "any" }));
    assert!(all["examined"].as_u64().unwrap() < 20, "{all}");
    bench.converges("file", json!({ "path": "@/tree", "state": "directory", "recurse": true, "mode": "0750" }));
    bench.converges("archive", json!({ "path": "@/tree", "dest": "@/tree.tar", "format": "tar" }));
    bench.converges("file", json!({ "path": "@/tree", "state": "absent" }));
    bench.converges("copy", json!({ "content": "x", "dest": "@/one" }));
    assert!(!bench.path("one").is_symlink());
    for path in ["@/dangling", "@/two"] {
        bench.converges("file", json!({ "path": path, "state": "absent" }));
    }
}

#[test]
fn names_with_invalid_utf8_preserved() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let bench = Bench::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    std::fs::create_dir_all(bench.path("tree").join(name)).unwrap();
    std::fs::write(bench.path("tree").join(name).join(name), "x").unwrap();
    let found = bench.rests("find", json!({ "paths": "@/tree", "recurse": true }));
    assert_eq!(found["matched"], 1, "{found}");
    bench.converges("file", json!({ "path": "@/tree", "state": "directory", "recurse": true, "mode": "0750" }));
    bench.converges(
        "archive",
        json!({ "path": "@/tree", "dest": "@/tree.tar", "format": "tar", "force_archive": true }),
    );
    bench.converges("copy", json!({ "src": "@/tree/", "dest": "@/copy/", "remote_src": true }));
    std::fs::create_dir(bench.path("out")).unwrap();
    bench.converges("unarchive", json!({ "src": "@/tree.tar", "dest": "@/out", "remote_src": true }));
    for tree in ["copy", "out/tree"] {
        let path = bench.path(tree).join(name).join(name);
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), "x", "{}", path.display());
    }
    bench.converges("file", json!({ "path": "@/tree", "state": "absent" }));
}
