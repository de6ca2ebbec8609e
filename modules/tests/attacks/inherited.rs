//! Files, links and directories that a user has prepared. A module that runs as root gives the user no rights through
//! them, runs nothing of the user's, and does not follow root's own links in the user's directory.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    time::Instant,
};

use serde_json::json;
use windlass_modules::accounts;

use crate::house::{House, RACE};

const ACL: &str = "system.posix_acl_access";

/// An ACL in the form of its extended attribute, by which `uid` may read and write.
fn list_for(uid: u32) -> Vec<u8> {
    let none = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [(1, 6, none), (2, 6, uid), (4, 0, none), (16, 6, none), (32, 0, none)];
    let entry = |(tag, permissions, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [&2u32.to_le_bytes()[..], &entries.map(entry).concat()].concat()
}

fn has_list(house: &House, path: &str) -> bool {
    rustix::fs::getxattr(house.bench.path(path), ACL, &mut [0; 256][..]).is_ok()
}

#[test]
fn difference_shows_no_secret_of_root_behind_a_link_of_the_user() {
    let Some(house) = House::new() else { return };
    house.link("bob/conf", "root/secret");
    let result = house.bench.run("copy", json!({ "content": "new", "dest": "@/bob/conf" }), false);
    assert_eq!((&result["diff"]["before"], &result["diff"]["after"]), (&json!(""), &json!("new")), "{result}");
    // A pipe, which nobody writes to, is not waited for.
    assert!(std::process::Command::new("mkfifo").arg(house.bench.path("bob/pipe")).status().unwrap().success());
    house.bench.run("copy", json!({ "content": "new", "dest": "@/bob/pipe" }), false);
}

#[test]
fn image_of_the_user_is_no_link_to_a_device_or_file_of_root() {
    let Some(house) = windlass_testing::has("mkswap").then(House::new).flatten() else { return };
    house.bench.write("root/disk", &"0".repeat(1 << 20));
    house.link("bob/swap", "root/disk");
    let args = json!({ "fstype": "swap", "dev": "@/bob/swap" });
    let result = house.bench.run("filesystem", args, false);
    assert!(
        result["failed"] == json!(true) && result["msg"].as_str().unwrap().contains("cannot be written"),
        "{result}"
    );
    assert_eq!(house.bench.read("root/disk"), "0".repeat(1 << 20));
}

#[test]
fn new_file_of_root_inherits_no_special_bit_of_the_user() {
    let Some(house) = House::new() else { return };
    for owned in
        [json!({ "owner": "root", "group": "root" }), json!({ "owner": "root", "group": "root", "mode": "a+x" })]
    {
        house.bench.write("bob/tool", "of bob");
        house.give("bob/tool");
        fs::set_permissions(house.bench.path("bob/tool"), fs::Permissions::from_mode(0o6755)).unwrap();
        let mut args = owned;
        args["content"] = "of root".into();
        args["dest"] = "@/bob/tool".into();
        let result = house.bench.run("copy", args.clone(), false);
        let found = house.bench.path("bob/tool").metadata().unwrap();
        assert_eq!((found.uid(), house.bench.mode("bob/tool")), (0, 0o755), "{result}");
        fs::remove_file(house.bench.path("bob/tool")).unwrap();
    }
    // The owner's own file keeps its bits.
    house.bench.write("bob/own", "old");
    house.give("bob/own");
    fs::set_permissions(house.bench.path("bob/own"), fs::Permissions::from_mode(0o4755)).unwrap();
    house.bench.run("copy", json!({ "content": "new", "dest": "@/bob/own" }), false);
    assert_eq!((house.bench.read("bob/own").as_str(), house.bench.mode("bob/own")), ("new", 0o4755));
}

#[test]
fn new_file_of_root_inherits_no_list_of_the_user() {
    let Some(house) = House::new() else { return };
    let set = |path: &str| {
        house.bench.write(path, "old");
        house.give(path);
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(house.bench.path(path), ACL, &list_for(house.user.uid), flags).is_ok()
    };
    if !set("bob/file") {
        return windlass_testing::lacks("acl");
    }
    let args = json!({ "content": "new", "dest": "@/bob/file", "owner": "root", "group": "root", "mode": "0640" });
    house.bench.run("copy", args, false);
    assert!(!has_list(&house, "bob/file"));
    assert_eq!(house.bench.mode("bob/file"), 0o640);
    // A file of the same owner keeps its ACL, within the permissions of the task.
    set("bob/own");
    house.bench.run("copy", json!({ "content": "new", "dest": "@/bob/own", "mode": "0600" }), false);
    assert!(has_list(&house, "bob/own"));
    assert_eq!(house.bench.mode("bob/own"), 0o600);
}

/// The command may execute what it reads, as `nginx -t` and a shell do.
#[test]
fn validated_file_is_out_of_reach_of_the_user() {
    let Some(house) = House::new() else { return };
    let check = "cat \"$1\" > $ROOT/content; dirname \"$1\" > $ROOT/folder; stat -c '%u %a' \"$(dirname \"$1\")\" > $ROOT/owner\n";
    let house = House { bench: house.bench.program("check", check), ..house };
    house.bench.write("bob/conf", "line\n");
    for (module, args) in [
        ("copy", json!({ "content": "line\nof root\n", "dest": "@/bob/new", "validate": "check %s" })),
        ("lineinfile", json!({ "path": "@/bob/conf", "line": "of root", "validate": "check %s" })),
    ] {
        let result = house.bench.run(module, args, false);
        assert_eq!(result["changed"], true, "{result}");
        assert_eq!(house.bench.read("content"), "line\nof root\n");
        assert!(!house.bench.read("folder").contains("/bob"), "{}", house.bench.read("folder"));
        assert_eq!(house.bench.read("owner").trim(), "0 700");
    }
}

/// The content is the secret of the file that was read; its owner must not become that of another file.
#[test]
fn edited_file_keeps_the_owner_of_the_file_that_was_read() {
    let Some(house) = House::new() else { return };
    let swap = "mv $ROOT/bob/conf $ROOT/bob/aside; echo x > $ROOT/bob/conf; chown nobody $ROOT/bob/conf; chmod 4777 $ROOT/bob/conf\n";
    let house = House { bench: house.bench.program("check", swap), ..house };
    house.bench.write("bob/conf", "secret\n");
    fs::set_permissions(house.bench.path("bob/conf"), fs::Permissions::from_mode(0o600)).unwrap();
    let args = json!({ "path": "@/bob/conf", "line": "more", "validate": "check %s" });
    let result = house.bench.run("lineinfile", args, false);
    assert_eq!(result["changed"], true, "{result}");
    assert_eq!(house.bench.read("bob/conf"), "secret\nmore\n");
    let found = house.bench.path("bob/conf").metadata().unwrap();
    assert_eq!((found.uid(), house.bench.mode("bob/conf")), (0, 0o600));
}

/// `xml` has no `validate`, so the file is exchanged as soon as the temporary file of the module appears.
#[test]
fn edited_document_keeps_the_owner_of_the_file_that_was_read() {
    let Some(house) = House::new() else { return };
    let (conf, user) = (house.bench.path("bob/conf"), house.user.uid);
    let end = Instant::now() + RACE;
    let padding = "secret ".repeat(200_000);
    for round in 0.. {
        if Instant::now() > end {
            break;
        }
        house.bench.write("bob/conf", &format!("<a><b>{padding}</b></a>"));
        fs::set_permissions(&conf, fs::Permissions::from_mode(0o600)).unwrap();
        std::thread::scope(|scope| {
            let swap = scope.spawn(|| {
                let is_staged = || fs::read_dir(house.bench.path("bob")).unwrap().count() > 1;
                while !is_staged() && Instant::now() < end {}
                let _ = fs::rename(&conf, house.bench.path("aside"));
                fs::write(&conf, "<a/>").unwrap();
                chown(&conf, Some(user), None).unwrap();
            });
            let args = json!({ "path": "@/bob/conf", "xpath": "/a/c", "value": round.to_string() });
            house.bench.run("xml", args, false);
            swap.join().unwrap();
        });
        for entry in fs::read_dir(house.bench.path("bob")).unwrap().map(|entry| entry.unwrap()) {
            let owner = entry.metadata().unwrap().uid();
            let is_secret = fs::read_to_string(entry.path()).unwrap().contains("secret");
            assert!(!is_secret || owner == 0, "the user got the content in round {round}");
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// The user may have moved root's link to any name in their own directory.
#[test]
fn link_of_root_in_a_directory_of_the_user_leads_to_no_file_of_root() {
    let Some(house) = House::new() else { return };
    symlink(house.bench.path("root/sub"), house.bench.path("bob/conf")).unwrap();
    symlink(house.bench.path("root/secret"), house.bench.path("bob/file")).unwrap();
    let user = house.user.name.clone();
    let refusal = "nobody controls the link";
    for (module, args, words) in [
        (
            "file",
            json!({ "path": "@/bob/conf", "state": "directory", "recurse": true, "owner": user }),
            "already exists as a link",
        ),
        ("file", json!({ "path": "@/bob/conf/file", "owner": user }), refusal),
        ("copy", json!({ "content": "x", "dest": "@/bob/conf/file" }), refusal),
        ("slurp", json!({ "src": "@/bob/file" }), refusal),
    ] {
        let result = house.bench.run(module, args, false);
        let message = result["msg"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{module}: {result}");
        house.is_untouched();
    }
    // The link may lead to a file of the user.
    house.bench.write("bob/releases/1/file", "of bob");
    chown(house.bench.path("bob/releases"), Some(house.user.uid), None).unwrap();
    chown(house.bench.path("bob/releases/1"), Some(house.user.uid), None).unwrap();
    symlink(house.bench.path("bob/releases/1"), house.bench.path("bob/current")).unwrap();
    let result = house.bench.run("copy", json!({ "content": "new", "dest": "@/bob/current/file" }), false);
    assert_eq!((&result["changed"], house.bench.read("bob/releases/1/file").as_str()), (&json!(true), "new"));
}

#[test]
fn pipe_in_place_of_a_file_is_not_waited_for() {
    let Some(house) = House::new() else { return };
    let pipe = house.bench.path("bob/pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for (module, args) in [("slurp", json!({ "src": pipe })), ("fetch", json!({ "src": pipe, "dest": "x" }))] {
        let result = house.bench.run(module, args, false);
        assert!(result["msg"].as_str().unwrap().contains("it is neither a file nor a directory"), "{result}");
    }
}

/// `python -m` runs modules from its working directory, and everybody may write to `/tmp`.
#[test]
fn pip_does_not_start_in_a_directory_of_others() {
    let Some(house) = House::new() else { return };
    let home = accounts::user_by_id(rustix::process::geteuid().as_raw()).unwrap().home;
    let house = House { bench: house.bench.program("python3", "pwd -P >> $ROOT/folders\n"), ..house };
    house.bench.run("pip", json!({ "name": "six" }), false);
    let folders = house.bench.read("folders");
    assert!(folders.lines().count() > 1, "{folders}");
    assert!(folders.lines().all(|folder| folder == "/" || folder == home.trim_end_matches('/')), "{folders}");
}

/// These programs resolve a path by themselves.
#[test]
fn programs_write_nowhere_behind_a_link_of_the_user() {
    let Some(house) = House::new() else { return };
    let record = "echo \"$0 $*\" >> $ROOT/ran\n";
    let bench = ["git", "npm", "gem", "python3"].iter().fold(house.bench, |bench, name| bench.program(name, record));
    let house = House { bench, ..house };
    house.link("bob/folder", "root/sub");
    house.link("bob/file", "root/conf");
    for (module, args) in [
        ("git_config", json!({ "name": "a.b", "value": "x", "scope": "file", "file": "@/bob/file" })),
        ("pip", json!({ "name": "six", "virtualenv": "@/bob/folder/venv", "virtualenv_command": "python3 -m venv" })),
        ("npm", json!({ "name": "x", "path": "@/bob/folder" })),
        ("gem", json!({ "name": "x", "user_install": false, "install_dir": "@/bob/folder/gems" })),
    ] {
        let result = house.bench.run(module, args, false);
        let message = result["msg"].as_str().unwrap_or_default();
        assert!(message.contains("nobody controls the link"), "{module}: {result}");
        assert!(!house.bench.path("ran").exists(), "{module}: {}", house.bench.read("ran"));
    }
    house.is_untouched();
}

#[test]
fn file_system_is_not_mounted_behind_a_link_of_the_user() {
    let Some(house) = House::new() else { return };
    let mount = "echo \"$*\" > $ROOT/words; pwd -P > $ROOT/folder\n";
    let house = House { bench: house.bench.program("mount", mount), ..house };
    house.link("bob/data", "root/sub");
    fs::create_dir(house.bench.path("bob/own")).unwrap();
    let args = |path: &str| json!({ "path": path, "src": "tmpfs", "fstype": "tmpfs", "state": "ephemeral" });
    let result = house.bench.run("mount", args("@/bob/data"), false);
    assert!(result["msg"].as_str().unwrap().contains("nobody controls the link"), "{result}");
    assert!(!house.bench.path("words").exists());
    let result = house.bench.run("mount", args("@/bob/own"), false);
    assert_eq!(result["changed"], true, "{result}");
    assert_eq!(house.bench.read("words").trim(), "--no-canonicalize -t tmpfs -o defaults tmpfs .");
    assert_eq!(house.bench.read("folder").trim(), house.bench.path("bob/own").to_str().unwrap());
    house.is_untouched();
}

#[test]
fn key_pair_in_a_swapped_directory_changes_no_root_file() {
    let Some(mut house) = windlass_testing::has("ssh-keygen").then(House::new).flatten() else { return };
    let key = |path: &str, comment: usize| json!({ "path": path, "type": "ed25519", "comment": comment.to_string() });
    house.bench.run("openssh_keypair", key("@/root/secret", 0), false);
    house.before = house.state();
    house.bench.run("openssh_keypair", key("@/bob/secret", 0), false);
    for path in ["bob/secret", "bob/secret.pub"] {
        house.give(path);
    }
    let _attacker = house.attacker("bob");
    let end = Instant::now() + RACE;
    let mut round = 0;
    while Instant::now() < end {
        round += 1;
        house.bench.run("openssh_keypair", key("@/bob/secret", round), false);
        house.is_untouched();
    }
}

#[test]
fn private_key_is_not_converted_behind_a_link_of_the_user() {
    let Some(mut house) = windlass_testing::has("openssl").then(House::new).flatten() else { return };
    let key = |path: &str, format: &str| json!({ "path": path, "type": "ECC", "curve": "secp256r1", "format": format, "format_mismatch": "convert" });
    let result = house.bench.run("openssl_privatekey", key("@/root/key", "pkcs1"), false);
    assert_eq!(result["changed"], true, "{result}");
    house.before = house.state();
    house.link("bob/key", "root/key");
    let result = house.bench.run("openssl_privatekey", key("@/bob/key", "pkcs8"), false);
    assert!(result["msg"].as_str().unwrap().contains("nobody controls the link"), "{result}");
    house.is_untouched();
    // Converts and keeps the owner.
    let result = house.bench.run("openssl_privatekey", key("@/root/key", "pkcs8"), false);
    assert_eq!((&result["changed"], house.bench.mode("root/key")), (&json!(true), 0o600), "{result}");
    assert!(house.bench.read("root/key").starts_with("-----BEGIN PRIVATE KEY-----"));
}
