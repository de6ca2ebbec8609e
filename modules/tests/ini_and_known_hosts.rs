//! `ini_file` and `known_hosts` on real files.
#![allow(clippy::unwrap_used)]

mod cases;

use std::fs;

use cases::{apply, changed, converges, fails};
use serde_json::{Value, json};
use tempfile::tempdir;

/// Runs a module on a file with a text; returns the new text and the result.
fn edit(module: &str, before: &str, mut args: Value) -> (String, Value) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, before).unwrap();
    args["path"] = json!(path);
    let result = converges(module, args, directory.path());
    (fs::read_to_string(&path).unwrap(), result)
}

#[test]
fn ini_settings_edited() {
    let (added, altered) = ("option added", "option changed");
    for (before, args, after, msg) in [
        ("[a]\nx = 1\n", json!({ "section": "a", "option": "x", "value": "2" }), "[a]\nx = 2\n", altered),
        ("[a]\nx = 1\n", json!({ "section": "a", "option": "x", "value": "1" }), "[a]\nx = 1\n", "OK"),
        ("[a]\nx=1\n", json!({ "section": "a", "option": "x", "value": "1" }), "[a]\nx = 1\n", altered),
        (
            "[a]\nx=1\n",
            json!({ "section": "a", "option": "x", "value": "1", "ignore_spaces": true }),
            "[a]\nx=1\n",
            "OK",
        ),
        ("[a]\n", json!({ "section": "a", "option": "x", "value": "1", "no_extra_spaces": true }), "[a]\nx=1\n", added),
        (
            "[a]\ny = 1\n\n# about b\n[b]\n",
            json!({ "section": "a", "option": "x", "value": "1" }),
            "[a]\ny = 1\nx = 1\n\n# about b\n[b]\n",
            added,
        ),
        ("[a]\n#x = 0\n", json!({ "section": "a", "option": "x", "value": "1" }), "[a]\nx = 1\n", altered),
        (
            "[a]\n#x = 0\n",
            json!({ "section": "a", "option": "x", "value": "1", "modify_inactive_option": false }),
            "[a]\nx = 1\n#x = 0\n",
            added,
        ),
        ("[a]\nxy = 1\n", json!({ "section": "a", "option": "x", "value": "1" }), "[a]\nxy = 1\nx = 1\n", added),
        ("", json!({ "section": "a", "option": "x", "value": "1" }), "\n[a]\nx = 1\n", "section and option added"),
        ("", json!({ "option": "x", "value": "1" }), "x = 1\n\n", added),
        ("", json!({ "option": "x", "state": "absent" }), "", "OK"),
        (
            "[a]\r\nx = 1\r\ny = 2\r\n",
            json!({ "section": "a", "option": "x", "value": "2" }),
            "[a]\nx = 2\ny = 2\n",
            altered,
        ),
        ("[a]\r\nx = 1\r\n", json!({ "section": "a", "option": "x", "value": "1" }), "[a]\r\nx = 1\r\n", "OK"),
        ("[b]\n", json!({ "section": "a", "allow_no_value": true }), "[b]\n[a]\n", "only section added"),
        ("[a]\nx = 1\n", json!({ "option": "top", "value": "1" }), "top = 1\n[a]\nx = 1\n", added),
        ("[a]\nx = 1\nx = 2\n", json!({ "section": "a", "option": "x", "value": "3" }), "[a]\nx = 3\n", altered),
        ("[a]\nx = 1\n", json!({ "section": "a", "option": "x", "values": ["1", "2"] }), "[a]\nx = 1\nx = 2\n", added),
        (
            "[a]\nx = 1\n",
            json!({ "section": "a", "option": "x", "value": "2", "exclusive": false }),
            "[a]\nx = 1\nx = 2\n",
            added,
        ),
        ("[a]\n", json!({ "section": "a", "option": "flag", "allow_no_value": true }), "[a]\nflag\n", added),
        (
            "[a]\nflag = 1\n",
            json!({ "section": "a", "option": "flag", "allow_no_value": true }),
            "[a]\nflag\n",
            altered,
        ),
        ("[a]\nx = 1\n#x = 2\n", json!({ "section": "a", "option": "x", "state": "absent" }), "[a]\n#x = 2\n", altered),
        (
            "[a]\nx = 1\nx = 2\n",
            json!({ "section": "a", "option": "x", "value": "1", "state": "absent", "exclusive": false }),
            "[a]\nx = 2\n",
            altered,
        ),
        ("[a]\nx = 1\n[b]\ny = 1\n", json!({ "section": "a", "state": "absent" }), "[b]\ny = 1\n", "section removed"),
        ("[b]\n", json!({ "section": "a", "state": "absent" }), "[b]\n", "OK"),
        (
            "[p]\nid = 1\n[p]\nid = 2\n",
            json!({ "section": "p", "option": "k", "value": "v", "section_has_values": [{ "option": "id", "value": "2" }] }),
            "[p]\nid = 1\n[p]\nid = 2\nk = v\n",
            added,
        ),
        (
            "[p]\nid = 1\n",
            json!({ "section": "p", "option": "k", "value": "v", "section_has": [{ "option": "id", "value": "3" }] }),
            "[p]\nid = 1\n[p]\nid = 3\nk = v\n",
            "section and option added",
        ),
    ] {
        let (text, result) = edit("ini_file", before, args.clone());
        assert_eq!((text.as_str(), &result["msg"]), (after, &json!(msg)), "{before:?} with {args}");
    }
}

#[test]
fn ini_file_created_and_kept() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("new/file.ini");
    let args = json!({ "path": path, "section": "a", "option": "x", "value": "1", "mode": "0600" });
    let result = converges("community.general.ini_file", args, directory.path());
    assert_eq!(result["msg"], "section and option added");
    let gone = directory.path().join("gone");
    assert!(!changed(&converges(
        "ini_file",
        json!({ "path": gone, "section": "a", "state": "absent" }),
        directory.path()
    )));
    let args = json!({ "path": gone, "section": "a", "option": "x", "value": "1", "create": false });
    assert!(fails("ini_file", args, directory.path()).contains("does not exist"));
    let message = fails("ini_file", json!({ "path": gone, "section": "a", "option": "x" }), directory.path());
    assert!(message.contains("must be defined if state=present"), "{message}");
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    apply("ini_file", json!({ "path": link, "section": "a", "option": "x", "value": "2", "follow": true }));
    assert!(link.is_symlink() && fs::read_to_string(&path).unwrap().contains("x = 2"));
    apply("ini_file", json!({ "path": link, "section": "a", "option": "x", "value": "3" }));
    assert!(!link.is_symlink() && fs::read_to_string(&path).unwrap().contains("x = 2"));
}

#[test]
fn host_keys_added_replaced_and_removed() {
    let (one, two) = ("h1 ssh-ed25519 AAAA1\n", "h1 ssh-rsa BBBB1\n");
    for (before, args, after) in [
        (
            "",
            json!({ "name": "h1", "key": "h1 ssh-ed25519 AAAA1 comment" }),
            "h1 ssh-ed25519 AAAA1 comment\n".to_owned(),
        ),
        (one, json!({ "name": "h1", "key": "h1 ssh-ed25519 AAAA1" }), one.to_owned()),
        (one, json!({ "name": "h1", "key": "h1 ssh-ed25519 AAAA2" }), "h1 ssh-ed25519 AAAA2\n".to_owned()),
        (one, json!({ "name": "h1", "key": "h1 ssh-rsa BBBB1" }), format!("{one}{two}")),
        (one, json!({ "name": "h2", "key": "h2 ssh-rsa B" }), format!("{one}h2 ssh-rsa B\n")),
        (
            "# note\nh1 ssh-rsa B",
            json!({ "name": "h2", "key": "h2 ssh-rsa B" }),
            "# note\nh1 ssh-rsa B\nh2 ssh-rsa B\n".to_owned(),
        ),
        (&format!("{one}{two}x ssh-rsa C\n"), json!({ "name": "h1", "state": "absent" }), "x ssh-rsa C\n".to_owned()),
        (&format!("{one}{two}"), json!({ "name": "H1", "key": "h1 ssh-rsa BBBB1", "state": "absent" }), one.to_owned()),
        (one, json!({ "name": "h1", "key": "h1 ssh-ed25519 other", "state": "absent" }), one.to_owned()),
        ("", json!({ "name": "[h]:2222", "key": "[h]:2222 ssh-rsa B" }), "[h]:2222 ssh-rsa B\n".to_owned()),
    ] {
        let (text, result) = edit("known_hosts", before, args.clone());
        assert_eq!(text, after, "{before:?} with {args}: {result}");
        assert_eq!(result["name"], args["name"]);
    }
}

#[test]
fn hashed_host_names_matched() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("known_hosts");
    let args = json!({ "name": "h1", "key": "h1 ssh-rsa B", "hash_host": true, "path": path });
    converges("known_hosts", args, directory.path());
    let text = fs::read_to_string(&path).unwrap();
    // The hash may have these letters too, but ends with `=`.
    assert!(text.starts_with("|1|") && !text.contains("h1 "), "{text}");
    // Checks the file with OpenSSH.
    if let Ok(output) = std::process::Command::new("ssh-keygen").args(["-F", "h1", "-f"]).arg(&path).output() {
        assert!(String::from_utf8_lossy(&output.stdout).contains("ssh-rsa"), "{output:?}");
    }
    converges("known_hosts", json!({ "name": "h1", "state": "absent", "path": path }), directory.path());
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
    let gone = directory.path().join("gone");
    assert!(!changed(&converges(
        "known_hosts",
        json!({ "name": "h1", "state": "absent", "path": gone }),
        directory.path()
    )));
    for (args, word) in [
        (json!({ "name": "h1", "path": path }), "No key specified"),
        (json!({ "name": "h1", "key": "h2 ssh-rsa B", "path": path }), "does not match"),
        (json!({ "name": "h1,h2", "key": "h1 ssh-rsa B", "path": path }), "Comma separated"),
        (json!({ "name": "h1", "key": "nonsense", "path": path }), "not a line of known hosts"),
    ] {
        assert!(fails("known_hosts", args, directory.path()).contains(word), "{word}");
    }
}
