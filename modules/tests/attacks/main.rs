//! Races: a user changes a directory while root works below it, and must never obtain a file of root.
//!
//! The attacker is this program, started again as another user. It moves every new entry of its directory away for a
//! moment and puts a link to root's files in its place. The tests need root and the account `nobody`; without them they
//! pass without running.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

#[path = "../case/mod.rs"]
mod case;
mod house;
mod inherited;
mod mounts;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use house::{House, RACE};
use serde_json::{Value, json};

/// Code of the attacker, which the other tests run as another user.
#[test]
#[ignore = "started by the other tests"]
fn attacker_swaps_until_killed() {
    let Some(folder) = std::env::var_os("ATTACKED").map(PathBuf::from) else { return };
    let root = PathBuf::from(std::env::var_os("ATTACK_ROOT").unwrap());
    let stash = PathBuf::from(std::env::var_os("ATTACK_STASH").unwrap());
    let end = Instant::now() + RACE * 10;
    while Instant::now() < end {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, kept) = (entry.path(), stash.join(entry.file_name()));
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() {
                let _ = fs::remove_file(&path);
                continue;
            }
            if fs::rename(&path, &kept).is_err() {
                continue;
            }
            let own = root.join(entry.file_name());
            let target = match kind.is_dir() {
                true if own.is_dir() => own,
                true => root.join("sub"),
                false => root.join("secret"),
            };
            let _ = symlink(target, &path);
            std::thread::sleep(Duration::from_micros(50));
            let _ = fs::remove_file(&path);
            let _ = fs::rename(&kept, &path);
        }
    }
}

#[test]
fn copy_into_a_swapped_directory_changes_no_root_file() {
    let Some(house) = House::new() else { return };
    house.bench.write("bob/conf", "old");
    house.give("bob/conf");
    let _ = rustix::fs::setxattr(house.bench.path("bob/conf"), "user.note", b"bob", rustix::fs::XattrFlags::empty());
    let mut round = 0;
    let owner = house.user.name.clone();
    let _attacker = house.attacker("bob");
    let (end, mut succeeded) = (Instant::now() + RACE, 0);
    while Instant::now() < end {
        round += 1;
        let args = json!({ "content": format!("round {round}"), "dest": "@/bob/conf", "owner": owner, "mode": "0666", "backup": round % 10 == 0 });
        succeeded += usize::from(house.bench.run("copy", args, false)["failed"] != json!(true));
    }
    house.is_untouched();
    assert!(succeeded > 0, "no round succeeded");
}

#[test]
fn recursion_into_a_swapped_tree_changes_no_root_file() {
    let Some(house) = House::new() else { return };
    house.bench.write("bob/sub/file", "x").write("bob/sub/deep/file", "x").write("bob/conf", "x");
    let _attacker = house.attacker("bob");
    let (end, mut round, mut succeeded) = (Instant::now() + RACE, 0, 0);
    while Instant::now() < end {
        round += 1;
        let mode = if round % 2 == 0 { "u=rwX,go=rwX" } else { "u=rwX,go=rX" };
        let args =
            json!({ "path": "@/bob", "state": "directory", "recurse": true, "owner": house.user.name, "mode": mode });
        succeeded += usize::from(house.bench.run("file", args, false)["failed"] != json!(true));
    }
    house.is_untouched();
    assert!(succeeded > 0, "no round succeeded");
}

#[test]
fn recursion_leaves_links_of_the_user_to_root_files_alone() {
    let Some(house) = House::new() else { return };
    house.bench.write("bob/own", "x");
    house.link("bob/link", "root/secret");
    house.link("bob/folder", "root/sub");
    house.link("bob/mine", "bob/own");
    let args =
        json!({ "path": "@/bob", "state": "directory", "recurse": true, "owner": house.user.name, "mode": "a+rX" });
    let result = house.bench.run("file", args, false);
    house.is_untouched();
    assert_eq!(result["changed"], true, "{result}");
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("bob/link was left alone: nobody controls the link"), "{result}");
    assert!(warnings.contains("bob/folder was left alone"), "{result}");
    assert_eq!(house.bench.path("bob/own").metadata().unwrap().uid(), house.user.uid);
}

#[test]
fn modules_refuse_links_of_the_user_to_root_files() {
    let Some(house) = House::new() else { return };
    house.link("bob/file", "root/secret");
    house.link("bob/.ssh", "root/.ssh");
    house.link("bob/folder", "root/sub");
    let user = house.user.name.as_str();
    for (module, args) in [
        ("copy", json!({ "content": "x", "dest": "@/bob/file", "follow": true })),
        ("copy", json!({ "content": "x", "dest": "@/bob/folder/new" })),
        ("copy", json!({ "content": "x", "dest": "@/bob/folder/file", "backup": true })),
        ("file", json!({ "path": "@/bob/file", "mode": "0666" })),
        ("file", json!({ "path": "@/bob/folder/file", "state": "absent" })),
        ("file", json!({ "path": "@/bob/folder/new", "state": "touch" })),
        ("file", json!({ "path": "@/bob/folder/new/er", "state": "directory" })),
        ("file", json!({ "path": "@/bob/folder/new", "src": "/etc", "state": "link" })),
        ("file", json!({ "path": "@/bob/new", "src": "@/bob/file", "state": "hard" })),
        ("lineinfile", json!({ "path": "@/bob/file", "line": "x" })),
        ("blockinfile", json!({ "path": "@/bob/folder/file", "block": "x" })),
        ("replace", json!({ "path": "@/bob/file", "regexp": "secret", "replace": "x" })),
        ("known_hosts", json!({ "path": "@/bob/folder/known_hosts", "name": "h", "key": "h ssh-ed25519 AAAA" })),
        ("authorized_key", json!({ "user": user, "key": "ssh-ed25519 AAAA", "path": "@/bob/.ssh/authorized_keys" })),
        (
            "authorized_key",
            json!({ "user": user, "key": "ssh-ed25519 AAAA", "path": "@/bob/file", "follow": true, "manage_dir": false }),
        ),
        ("tempfile", json!({ "path": "@/bob/folder" })),
        (
            "acl",
            json!({ "path": "@/bob/file", "entity": user, "etype": "user", "permissions": "rw", "state": "present" }),
        ),
        ("assemble", json!({ "src": "@/root/sub", "dest": "@/bob/folder/new" })),
        ("ini_file", json!({ "path": "@/bob/file", "section": "s", "option": "o", "value": "v" })),
        ("cron", json!({ "name": "x", "job": "x", "user": "root", "cron_file": "@/bob/folder/jobs" })),
        ("copy", json!({ "src": "@/bob/file", "dest": "@/stolen", "remote_src": true })),
    ] {
        let result = house.bench.run(module, args.clone(), false);
        assert_eq!(result["failed"], true, "{module} {args}: {result}");
        let message = result["msg"].as_str().unwrap();
        assert!(message.contains("nobody controls the link"), "{module} {args}: {message}");
        house.is_untouched();
    }
    assert!(!house.bench.path("stolen").exists());
}

fn git(folder: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=x", "-c", "user.email=x@y"]).args(words);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A house with a repository to clone, and a clone of root with local changes.
fn house_of_clones() -> Option<House> {
    let mut house = windlass_testing::has("git").then(House::new).flatten()?;
    let (origin, clone) = (house.bench.path("origin"), house.bench.path("root/clone"));
    house.bench.write("origin/file", "of the origin");
    git(&origin, &["init", "-q", "-b", "main"]);
    git(&origin, &["add", "file"]);
    git(&origin, &["commit", "-q", "-m", "one"]);
    git(Path::new("/"), &["clone", "-q", origin.to_str().unwrap(), clone.to_str().unwrap()]);
    house.bench.write("root/clone/file", "changed by root");
    house.before = house.state();
    Some(house)
}

#[test]
fn clone_of_root_behind_a_link_of_the_user_is_not_changed() {
    let Some(house) = house_of_clones() else { return };
    house.link("bob/clone", "root/clone");
    house.link("bob/folder", "root");
    fs::create_dir(house.bench.path("bob/tree")).unwrap();
    house.give("bob/tree");
    house.link("bob/tree/.git", "root/clone/.git");
    fs::create_dir(house.bench.path("bob/named")).unwrap();
    house.give("bob/named");
    house.bench.write("bob/named/.git", &format!("gitdir: {}\n", house.bench.path("root/clone/.git").display()));
    house.give("bob/named/.git");
    for (dest, words) in [
        ("@/bob/clone", "nobody controls the link"),
        ("@/bob/folder/clone", "nobody controls the link"),
        ("@/bob/folder/new", "nobody controls the link"),
        ("@/bob/tree", "nobody controls the link"),
        ("@/bob/named", "belongs to nobody and names"),
    ] {
        let git = json!({ "repo": "@/origin", "dest": dest, "force": true });
        let message = house.bench.run("git", git, false)["msg"].to_string();
        assert!(message.contains(words), "{dest}: {message}");
        house.is_untouched();
    }
    let svn = json!({ "repo": "file:///none", "dest": "@/bob/clone", "force": true });
    let message = house.bench.run("subversion", svn, false)["msg"].to_string();
    assert!(message.contains("nobody controls the link"), "{message}");
}

#[test]
fn clone_in_a_swapped_directory_changes_no_root_file() {
    let Some(house) = house_of_clones() else { return };
    let args = json!({ "repo": "@/origin", "dest": "@/bob/clone", "force": true });
    // New files inherit the group of such a directory.
    fs::set_permissions(house.bench.path("bob"), fs::Permissions::from_mode(0o2755)).unwrap();
    let result = house.bench.run("git", args.clone(), false);
    assert_eq!(result["changed"], true, "{result}");
    for path in ["bob/clone", "bob/clone/file", "bob/clone/.git/HEAD"] {
        let found = house.bench.path(path).metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), (0, house.user.gid), "{path}");
    }
    assert_eq!(house.bench.mode("bob/clone"), 0o2755);
    assert_eq!(house.bench.read("bob/clone/file"), "of the origin");
    assert_eq!(house.bench.run("git", args.clone(), false)["changed"], false);
    let names: Vec<_> = fs::read_dir(house.bench.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with(".windlass")), "{names:?}");
    house.race("bob", "git", &args, || {
        let _ = fs::remove_dir_all(house.bench.path("bob/clone"));
    });
    house.is_untouched();
}

#[test]
fn authorized_key_in_a_swapped_home_changes_no_root_file() {
    let Some(house) = House::new() else { return };
    let args = |round: usize| json!({ "user": house.user.name, "key": format!("ssh-ed25519 AAAA{round}"), "path": "@/bob/.ssh/authorized_keys" });
    house.bench.run("authorized_key", args(0), false);
    for folder in ["bob", "bob/.ssh"] {
        let _attacker = house.attacker(folder);
        let (end, mut round) = (Instant::now() + RACE, 0);
        while Instant::now() < end {
            round += 1;
            house.bench.run("authorized_key", args(round), false);
        }
        house.is_untouched();
    }
}

#[test]
fn removal_of_a_swapped_tree_removes_no_root_file() {
    let Some(house) = House::new() else { return };
    let args = json!({ "path": "@/bob/sub", "state": "absent" });
    // Runs the modules, which are under test too, because this process is root itself.
    let fill = || {
        house.bench.run("file", json!({ "path": "@/bob/sub/deep", "state": "directory" }), false);
        house.bench.run("copy", json!({ "dest": "@/bob/sub/deep/file", "content": "x" }), false);
    };
    fill();
    house.race("bob", "file", &args, fill);
    house.is_untouched();
}

#[test]
fn unpacking_into_a_swapped_directory_changes_no_root_file() {
    let Some(house) = House::new() else { return };
    let mut builder = tar::Builder::new(fs::File::create(house.bench.path("a.tar")).unwrap());
    for (name, directory) in [("sub/", true), ("sub/file", false), ("conf", false), ("secret", false)] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(if directory { tar::EntryType::Directory } else { tar::EntryType::Regular });
        header.set_mode(0o777);
        header.set_uid(house.user.uid.into());
        header.set_gid(house.user.gid.into());
        let content: &[u8] = if directory { b"" } else { b"of the archive" };
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, content).unwrap();
    }
    builder.finish().unwrap();
    let args = json!({ "src": "@/a.tar", "dest": "@/bob", "remote_src": true, "mode": "0777" });
    let clear = || {
        for path in ["bob/conf", "bob/secret"] {
            let _ = fs::remove_file(house.bench.path(path));
        }
    };
    house.race("bob", "unarchive", &args, clear);
    house.is_untouched();
}

/// A script that marks its run.
fn fact_program(house: &House, path: &str) {
    let ran = house.bench.path("ran");
    house.bench.write(path, &format!("#!/bin/sh\nid -u >> {}\necho 1\n", ran.display()));
    fs::set_permissions(house.bench.path(path), fs::Permissions::from_mode(0o755)).unwrap();
}

fn facts_below(house: &House, folder: &str) -> Value {
    let args = json!({ "fact_path": folder, "gather_subset": ["!all", "!min", "local"] });
    house.bench.run("setup", args, false)["ansible_facts"]["ansible_local"].clone()
}

#[test]
fn fact_program_chosen_by_a_link_of_the_user_is_not_run() {
    let Some(mut house) = House::new() else { return };
    fact_program(&house, "root/program");
    fact_program(&house, "root/facts/usual.fact");
    symlink("usual.fact", house.bench.path("root/facts/link.fact")).unwrap();
    symlink(house.bench.path("root/facts"), house.bench.path("bob/by-root")).unwrap();
    house.before = house.state();
    house.link("bob/link.fact", "root/program");
    house.link("bob/folder", "root/facts");
    symlink(house.bench.path("root/program"), house.bench.path("bob/of-root.fact")).unwrap();
    for (folder, name) in
        [("@/bob", "link"), ("@/bob", "of-root"), ("@/bob/folder", "usual"), ("@/bob/by-root", "usual")]
    {
        let facts = facts_below(&house, folder);
        let message = facts[name].as_str().unwrap_or_default();
        assert!(message.contains("belongs to nobody"), "{folder} {name}: {facts}");
    }
    assert!(!house.bench.path("ran").exists());
    let facts = facts_below(&house, "@/root/facts");
    assert_eq!((&facts["usual"], &facts["link"]), (&json!(1), &json!(1)), "{facts}");
    house.is_untouched();
}

#[test]
fn fact_program_of_the_user_in_a_swapped_link_is_not_run() {
    let Some(house) = House::new() else { return };
    fact_program(&house, "bob/own");
    house.give("bob/own");
    symlink("/bin/true", house.bench.path("bob/x.fact")).unwrap();
    symlink("own", house.bench.path("bob/other")).unwrap();
    let end = Instant::now() + RACE;
    let (one, other) = (house.bench.path("bob/x.fact"), house.bench.path("bob/other"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < end {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let _ = rustix::fs::renameat_with(rustix::fs::CWD, &one, rustix::fs::CWD, &other, flags);
            }
        });
        while Instant::now() < end {
            facts_below(&house, "@/bob");
        }
    });
    assert!(!house.bench.path("ran").exists(), "the user's program ran as root");
}

#[test]
fn secret_behind_a_link_of_the_user_is_not_published() {
    let Some(house) = House::new() else { return };
    fs::create_dir(house.bench.path("bob/parts")).unwrap();
    house.give("bob/parts");
    house.bench.write("bob/parts/own", "of bob");
    house.give("bob/parts/own");
    house.link("bob/parts/part", "root/secret");
    house.link("bob/one", "root/secret");
    house.link("bob/folder", "root");
    for (module, args) in [
        ("assemble", json!({ "src": "@/bob/parts", "dest": "@/out" })),
        ("slurp", json!({ "src": "@/bob/one" })),
        ("fetch", json!({ "src": "@/bob/one", "dest": "out" })),
        ("archive", json!({ "path": "@/bob/one", "dest": "@/out", "format": "gz" })),
        ("get_url", json!({ "url": "file://@/bob/one", "dest": "@/out" })),
        ("archive", json!({ "path": ["@/bob/folder/secret", "@/bob/parts/own"], "dest": "@/out", "format": "tar" })),
        ("archive", json!({ "path": ["@/bob/folder/secret", "@/bob/parts/own"], "dest": "@/out", "format": "zip" })),
        ("archive", json!({ "path": "@/bob/folder/secret", "dest": "@/out", "format": "xz", "remove": true })),
    ] {
        let result = house.bench.run(module, args.clone(), false);
        let message = result["msg"].as_str().unwrap_or_default();
        assert!(message.contains("nobody controls the link"), "{module} {args}: {result}");
        assert!(!house.bench.path("out").exists(), "{module} {args}");
        house.is_untouched();
    }
    for format in ["tar", "zip"] {
        let out = house.bench.path(&format!("out.{format}"));
        house.bench.converges("archive", json!({ "path": "@/bob/parts", "dest": out, "format": format }));
        let bytes = fs::read(&out).unwrap();
        let holds = |text: &str| bytes.windows(text.len()).any(|found| found == text.as_bytes());
        assert!(holds(&house.bench.path("root/secret").display().to_string()), "{format}: the link is missing");
        assert_eq!(bytes.windows(6).filter(|found| found == b"secret").count(), 1, "{format}: it holds the secret");
    }
}

#[test]
fn tree_is_not_synchronized_through_a_link_of_the_user() {
    let Some(house) = House::new() else { return };
    let house = House { bench: house.bench.program("rsync", "for last; do :; done; touch $last/new\n"), ..house };
    house.link("bob/folder", "root");
    fs::create_dir(house.bench.path("bob/own")).unwrap();
    for (dest, refused) in [("@/bob/folder", true), ("@/bob/folder/new", true), ("@/bob/own", false)] {
        let result = house.bench.run("synchronize", json!({ "src": "@/root/sub/", "dest": dest }), false);
        assert_eq!(result["failed"] == true, refused, "{result}");
        assert_eq!(result["msg"].as_str().unwrap().contains("nobody controls the link"), refused, "{result}");
        house.is_untouched();
    }
}

#[test]
fn archive_of_a_swapped_directory_holds_no_secret() {
    let Some(house) = House::new() else { return };
    house.bench.write("bob/conf", "of bob").write("bob/sub/file", "of bob");
    fs::write(house.bench.path("root/secret"), "TOP").unwrap();
    fs::write(house.bench.path("root/sub/file"), "TOP").unwrap();
    for format in ["tar", "zip"] {
        let out = house.bench.path("out");
        let args = json!({ "path": "@/bob", "dest": "@/out", "format": format });
        house.race("bob", "archive", &args, || {
            let bytes = fs::read(&out).unwrap_or_default();
            assert!(!bytes.windows(3).any(|found| found == b"TOP"), "the archive holds the secret");
            let _ = fs::remove_file(&out);
        });
    }
}

/// Replacements for `setfacl` and `getfacl`, which follow links in the paths that they get, as those do.
fn with_acl_programs(house: House) -> House {
    let set = r#"case "$*" in *--test*) echo "x: u::rw-,*"; exit;; esac
for path; do case $path in /*) chmod o+rw "$path";; esac; done
"#;
    House { bench: house.bench.program("setfacl", set).program("getfacl", "echo user::rw-\n"), ..house }
}

#[test]
fn acl_of_a_swapped_file_changes_no_root_file() {
    let Some(house) = House::new() else { return };
    let house = with_acl_programs(house);
    house.bench.write("bob/file", "x").write("bob/sub/file", "x");
    for (path, recursive) in [("@/bob/file", false), ("@/bob", true)] {
        let args = json!({ "path": path, "entity": "nobody", "etype": "user", "permissions": "rw", "state": "present",
            "recursive": recursive });
        let result = house.bench.run("acl", args.clone(), false);
        assert_eq!(result["changed"], true, "{result}");
        let changed = if recursive { "bob/sub/file" } else { "bob/file" };
        assert_eq!(house.bench.mode(changed) & 0o006, 0o006);
        house.race("bob", "acl", &args, || {});
        house.is_untouched();
    }
}
