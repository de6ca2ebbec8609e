//! Writing files in difficult places: on a full disk, on a mount point, as another owner.
//!
//! The executor mounts in its own mount namespace, which takes root and `unshare`. Without them these tests pass
//! without running.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod case;
mod common;

use std::{os::unix::fs::MetadataExt, process::Command};

use case::Bench;
use common::{Session, request};
use serde_json::json;

/// Starts an executor after these preparations in a directory `$D`.
fn session(directory: &tempfile::TempDir, preparations: &str) -> Option<Session> {
    let executor = env!("CARGO_BIN_EXE_windlass-executor");
    let script = format!("set -e; D={}; {preparations}; exec {executor} serve word", directory.path().display());
    windlass_testing::has_all(&["root", "namespaces"]).then(|| {
        Session::of(Command::new("unshare").args(["--mount", "--propagation", "private", "sh", "-c", &script]))
    })
}

#[test]
fn full_disk_keeps_old_file_and_reports_free_space() {
    let directory = tempfile::tempdir().unwrap();
    let prepare = "mkdir $D/small; mount -t tmpfs -o size=64k none $D/small; echo old > $D/small/a";
    let Some(mut session) = session(&directory, prepare) else { return };
    let dest = directory.path().join("small/a").display().to_string();
    let result = session.run(request(1, "copy", json!({ "content": "x".repeat(200_000), "dest": dest }))).result;
    let message = result["msg"].as_str().unwrap();
    assert!(message.contains("bytes free") && message.contains("small"), "{message}");
    let left = session.run(common::shell(2, &format!("cat {dest}; ls -A {}/small", directory.path().display()))).result;
    assert_eq!(left["stdout"], "old\na");
}

#[test]
fn lack_of_inodes_reported_instead_of_free_space() {
    let directory = tempfile::tempdir().unwrap();
    let prepare = "mkdir $D/small; mount -t tmpfs -o nr_inodes=3 none $D/small; touch $D/small/a $D/small/b";
    let Some(mut session) = session(&directory, prepare) else { return };
    let dest = directory.path().join("small/c").display().to_string();
    let result = session.run(request(1, "copy", json!({ "content": "x", "dest": dest }))).result;
    let message = result["msg"].as_str().unwrap();
    assert!(message.contains("small has no inodes left") && !message.contains("bytes free"), "{message}");
}

/// A small file system with one file, which every write above 64 KiB fills.
const SMALL: &str = "mkdir $D/small; mount -t tmpfs -o size=64k none $D/small; printf 'old\\n' > $D/small/a; \
                     head -c 200000 /dev/zero | tr '\\0' x > $D/big; tar -C $D -cf $D/big.tar big";

#[test]
fn full_disk_damages_nothing_for_every_module() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut session) = session(&directory, SMALL) else { return };
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (file, large) = (at("small/a"), "x".repeat(200_000));
    for (index, (module, args)) in [
        ("copy", json!({ "src": at("big"), "dest": file, "remote_src": true })),
        ("lineinfile", json!({ "path": file, "line": large })),
        ("blockinfile", json!({ "path": file, "block": large, "backup": true })),
        ("replace", json!({ "path": file, "regexp": "old", "replace": large })),
        ("ini_file", json!({ "path": file, "section": "s", "option": "o", "value": large })),
        ("get_url", json!({ "url": format!("file://{}", at("big")), "dest": file, "force": true })),
        ("unarchive", json!({ "src": at("big.tar"), "dest": at("small"), "remote_src": true })),
        ("archive", json!({ "path": at("big"), "dest": at("small/a.tar"), "format": "tar", "force_archive": true })),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u64::try_from(index).unwrap() * 2;
        let result = session.run(request(number + 1, module, args)).result;
        assert_eq!(result["failed"], true, "{module}: {result}");
        let message = result["msg"].as_str().unwrap();
        assert!(message.contains("bytes free") || message.contains("No space left"), "{module}: {message}");
        let left = session.run(common::shell(number + 2, &format!("cat {file}; ls -A {}", at("small")))).result;
        assert_eq!(left["stdout"], "old\na", "{module}: {result}");
    }
}

#[test]
fn read_only_file_system_named_in_failure() {
    let directory = tempfile::tempdir().unwrap();
    let prepare = format!("{SMALL}; mount -o remount,ro $D/small");
    let Some(mut session) = session(&directory, &prepare) else { return };
    let at = |name: &str| directory.path().join(name).display().to_string();
    let file = at("small/a");
    for (number, (module, args)) in (1..).zip([
        ("copy", json!({ "content": "new", "dest": file })),
        ("copy", json!({ "src": at("big.tar"), "dest": at("small/b"), "remote_src": true })),
        ("lineinfile", json!({ "path": file, "line": "new" })),
        ("blockinfile", json!({ "path": file, "block": "new" })),
        ("replace", json!({ "path": file, "regexp": "old", "replace": "new" })),
        ("ini_file", json!({ "path": file, "section": "s", "option": "o", "value": "v" })),
        ("file", json!({ "path": file, "state": "absent" })),
        ("file", json!({ "path": at("small/d"), "state": "directory" })),
        ("file", json!({ "path": at("small/l"), "src": "a", "state": "link" })),
        ("file", json!({ "path": file, "mode": "0600" })),
        ("get_url", json!({ "url": format!("file://{}", at("big")), "dest": file, "force": true })),
        ("unarchive", json!({ "src": at("big.tar"), "dest": at("small"), "remote_src": true })),
        ("tempfile", json!({ "path": at("small") })),
    ]) {
        let result = session.run(request(number, module, args)).result;
        assert_eq!(result["failed"], true, "{module}: {result}");
        let message = result["msg"].as_str().unwrap().to_lowercase();
        assert!(message.contains("read-only"), "{module}: {message}");
    }
    let left = session.run(common::shell(99, &format!("cat {file}; ls -A {}", at("small")))).result;
    assert_eq!(left["stdout"], "old\na");
}

#[test]
fn mounted_file_overwritten_only_with_unsafe_writes() {
    let directory = tempfile::tempdir().unwrap();
    let prepare = "echo outer > $D/outer; echo inner > $D/inner; mount --bind $D/outer $D/inner";
    let Some(mut session) = session(&directory, prepare) else { return };
    let dest = directory.path().join("inner").display().to_string();
    let refused = session.run(request(1, "copy", json!({ "content": "new\n", "dest": dest }))).result;
    assert!(refused["msg"].as_str().unwrap().contains("unsafe_writes"), "{refused}");
    let done =
        session.run(request(2, "copy", json!({ "content": "new\n", "dest": dest, "unsafe_writes": true }))).result;
    assert_eq!(done["changed"], true, "{done}");
    assert_eq!(std::fs::read_to_string(directory.path().join("outer")).unwrap(), "new\n");
    let mut by_environment = request(3, "copy", json!({ "content": "newer\n", "dest": dest }));
    by_environment.environment.insert("ANSIBLE_UNSAFE_WRITES".into(), "1".into());
    let done = session.run(by_environment).result;
    assert_eq!(done["changed"], true, "{done}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn owner_set_and_kept() {
    if !windlass_testing::has("root") {
        return;
    }
    let bench = Bench::new();
    let owned = |name: &str| {
        let found = bench.path(name).symlink_metadata().unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    let result = bench.converges(
        "copy",
        json!({ "content": "x", "dest": "@/a", "owner": "4242", "group": "daemon", "mode": "4750" }),
    );
    assert_eq!((&result["owner"], &result["group"], &result["uid"]), (&json!("4242"), &json!("daemon"), &json!(4242)));
    let gid = u32::try_from(result["gid"].as_u64().unwrap()).unwrap();
    assert_eq!(owned("a"), (4242, gid, 0o4750));
    bench.converges("copy", json!({ "content": "y", "dest": "@/a" }));
    assert_eq!(owned("a"), (4242, gid, 0o4750));
    bench.converges("file", json!({ "path": "@/a", "owner": "root", "mode": "4750" }));
    assert_eq!(owned("a"), (0, gid, 0o4750));
    bench.write("d/e", "x");
    std::os::unix::fs::symlink("nowhere", bench.path("d/link")).unwrap();
    bench.converges(
        "file",
        json!({ "path": "@/d", "state": "directory", "recurse": true, "owner": 4242, "follow": false }),
    );
    assert_eq!((owned("d").0, owned("d/e").0, owned("d/link").0), (4242, 4242, 4242));
    let before = bench.run("file", json!({ "path": "@/d", "owner": "root" }), true);
    assert_eq!(before["diff"]["before"]["owner"], 4242);
}

/// Remounts `/proc`, which is mounted everywhere, with programs that only record their calls and refuse to remount.
#[test]
fn file_system_not_unmounted_without_a_source_to_mount_again() {
    let record =
        |name: &str| format!("echo \"{name} $*\" >> \"$ROOT/called\"; case \"$*\" in *remount*) exit 1 ;; esac");
    let bench = Bench::new().program("mount", &record("mount")).program("umount", &record("umount"));
    let args = json!({ "path": "/proc", "state": "remounted", "fstab": "@/fstab" });
    bench.write("fstab", "/dev/sdb1 /mnt ext4 defaults 0 0\n");
    let answer = bench.run("mount", args.clone(), false);
    assert!(answer["msg"].as_str().unwrap().contains("so `src` and `fstype` are required"), "{answer}");
    assert_eq!(bench.read("called"), "mount -o remount,defaults /proc\n");

    bench.write("fstab", "proc /proc proc nosuid 0 0\n").write("called", "");
    assert_ne!(bench.run("mount", args, false)["failed"], true);
    assert_eq!(
        bench.read("called"),
        "mount -o remount,defaults /proc\numount /proc\nmount -t proc -o nosuid proc /proc\n"
    );
}
