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
fn source_on_another_host_sends_no_links_out_devices_or_privileges() {
    if !has("rsync") {
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new().program("reach", "shift; exec \"$@\"");
    bench.write("src/tool", "one\n").write("src/near", "two\n");
    std::fs::set_permissions(bench.path("src/tool"), std::fs::Permissions::from_mode(0o6755)).unwrap();
    for (target, link) in [("/etc/shadow", "out"), ("../../other", "up"), ("near", "within")] {
        symlink(target, bench.path("src").join(link)).unwrap();
    }
    assert!(std::process::Command::new("mkfifo").arg(bench.path("src/pipe")).status().unwrap().success());
    let reach = format!("--rsh={}", bench.path("programs/reach").display());
    let src = format!("there:{}/", bench.path("src").display());
    let pulled = |dest: &str, more: &[&str], links: Option<bool>| {
        let options: Vec<&str> = [reach.as_str()].into_iter().chain(more.iter().copied()).collect();
        let mut args = json!({"mode": "pull", "src": src, "dest": format!("@/{dest}/"), "rsync_opts": options});
        args["links"] = json!(links.unwrap_or(true));
        if links.is_none() {
            args.as_object_mut().unwrap().remove("links");
        }
        let result = bench.run("synchronize", args, false);
        assert_eq!(result["rc"], 0, "{result}");
        let there = |name: &str| bench.path(dest).join(name).symlink_metadata().is_ok();
        (["out", "up", "within", "pipe"].map(there), bench.mode(&format!("{dest}/tool")) & 0o7777)
    };
    assert_eq!(pulled("safe", &[], None), ([false, false, true, false], 0o755));
    assert_eq!(pulled("stated", &["--specials", "--chmod=u+s"], Some(true)), ([true, true, true, true], 0o4755));
    assert_eq!(pulled("links", &["--links"], None), ([true, true, true, false], 0o755));
}

#[test]
fn path_on_another_host_is_no_command_of_its_shell() {
    if !has("rsync") {
        return;
    }
    // As rsync was before 3.2.4.
    let old = "PATH=${PATH#*:} RSYNC_OLD_ARGS=1; export PATH RSYNC_OLD_ARGS; exec rsync \"$@\"";
    let bench = Bench::new().program("rsync", old).program("reach", "shift; cd \"$ROOT\"; exec sh -c \"$*\"");
    let reach = format!("--rsh={}", bench.path("programs/reach").display());
    for (name, is_kept) in [("$(touch made)", true), ("*", false)] {
        bench.write(&format!("src/{name}/file"), "one\n");
        let src = format!("there:{}/{name}/", bench.path("src").display());
        let args = json!({"mode": "pull", "src": src, "dest": "@/dest/", "rsync_opts": [reach]});
        let result = bench.run("synchronize", args, false);
        assert_eq!(result["rc"], 0, "{result}");
        assert_eq!(result["cmd"].as_str().unwrap().contains("--protect-args"), is_kept, "{result}");
    }
    assert!(!bench.path("made").exists());
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
