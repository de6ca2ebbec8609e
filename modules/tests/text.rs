//! `lineinfile`, `blockinfile` and `replace` on real files.
#![allow(clippy::unwrap_used)]

mod cases;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use cases::{apply, changed, converges, fails, predict};
use serde_json::{Value, json};
use tempfile::tempdir;

/// Runs a module on a file with a text; returns the new text and the message.
fn edit(module: &str, before: &str, args: Value) -> (String, String) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, before).unwrap();
    let result = converges(module, with_path(args, &path), directory.path());
    (fs::read_to_string(&path).unwrap(), result["msg"].as_str().unwrap().to_owned())
}

fn with_path(mut args: Value, path: &Path) -> Value {
    args["path"] = json!(path);
    args
}

#[test]
fn lineinfile_lines_edited() {
    let (added, replaced) = ("line added", "line replaced");
    for (before, args, after, msg) in [
        ("a\n", json!({ "line": "b" }), "a\nb\n", added),
        ("a", json!({ "line": "b" }), "a\nb\n", added),
        ("", json!({ "line": "b" }), "b\n", added),
        ("a\nb\n", json!({ "line": "b" }), "a\nb\n", ""),
        ("a\nb", json!({ "line": "b" }), "a\nb\n", replaced),
        ("b\r\n", json!({ "line": "b" }), "b\n", replaced),
        ("x=1\nx=2\n", json!({ "regexp": "^x=", "line": "x=3" }), "x=1\nx=3\n", replaced),
        ("x=1\nx=2\n", json!({ "regexp": "^x=", "line": "x=3", "firstmatch": true }), "x=3\nx=2\n", replaced),
        ("x=1\n", json!({ "regexp": "^x=1$", "line": "x=1" }), "x=1\n", ""),
        ("y\n", json!({ "regexp": "^x=", "line": "x=3" }), "y\nx=3\n", added),
        ("a.b\naxb\n", json!({ "search_string": "a.b", "line": "c" }), "c\naxb\n", replaced),
        ("a\nb\nc\n", json!({ "line": "x", "insertafter": "^b" }), "a\nb\nx\nc\n", added),
        ("b1\nb2\n", json!({ "line": "x", "insertafter": "^b" }), "b1\nb2\nx\n", added),
        ("b1\nb2\n", json!({ "line": "x", "insertafter": "^b", "firstmatch": true }), "b1\nx\nb2\n", added),
        ("b1\nb2", json!({ "line": "x", "insertafter": "^b2" }), "b1\nb2\nx\n", added),
        ("a\nb\n", json!({ "line": "x", "insertafter": "EOF" }), "a\nb\nx\n", added),
        ("a\nb\n", json!({ "line": "x", "insertafter": "BOF" }), "x\na\nb\n", added),
        ("a\nb\n", json!({ "line": "x", "insertbefore": "BOF" }), "x\na\nb\n", added),
        ("a\nb\n", json!({ "line": "x", "insertbefore": "^b" }), "a\nx\nb\n", added),
        ("a\nb\n", json!({ "line": "x", "insertbefore": "^none" }), "a\nb\nx\n", added),
        ("a\nb\n", json!({ "line": "x", "insertafter": "^none" }), "a\nb\nx\n", added),
        (
            "k = 1\n",
            json!({ "regexp": r"^(?P<k>\w+) = \d+$", "line": r"\g<k> = 2", "backrefs": true }),
            "k = 2\n",
            replaced,
        ),
        ("k = 1\n", json!({ "regexp": r"^(k) = .*", "line": r"\1 = 2", "backrefs": true }), "k = 2\n", replaced),
        ("k = 1\n", json!({ "regexp": "^none", "line": "x", "backrefs": true }), "k = 1\n", ""),
        ("a\\1\n", json!({ "regexp": "^b", "line": r"b\1" }), "a\\1\nb\\1\n", added),
        ("a\nx\na\n", json!({ "state": "absent", "regexp": "^a" }), "x\n", "2 line(s) removed"),
        ("a\nx\n", json!({ "state": "absent", "line": "a" }), "x\n", "1 line(s) removed"),
        ("a.\nab\n", json!({ "state": "absent", "search_string": "a." }), "ab\n", "1 line(s) removed"),
        ("a\n", json!({ "state": "absent", "line": "b" }), "a\n", ""),
    ] {
        assert_eq!(
            edit("lineinfile", before, args.clone()),
            (after.to_owned(), msg.to_owned()),
            "{before:?} with {args}"
        );
    }
}

#[test]
fn blockinfile_blocks_edited() {
    let (begin, end) = ("# BEGIN ANSIBLE MANAGED BLOCK\n", "# END ANSIBLE MANAGED BLOCK\n");
    let block = format!("{begin}x\ny\n{end}");
    let inserted = "Block inserted";
    for (before, args, after, msg) in [
        ("a\n".to_owned(), json!({ "block": "x\ny" }), format!("a\n{block}"), inserted),
        ("a".to_owned(), json!({ "block": "x\ny\n" }), format!("a\n{block}"), inserted),
        (format!("a\n{begin}old\n{end}b\n"), json!({ "block": "x\ny" }), format!("a\n{block}b\n"), inserted),
        (format!("a\n{block}b\n"), json!({ "block": "x\ny" }), format!("a\n{block}b\n"), ""),
        (format!("a\n{block}b\n"), json!({ "state": "absent" }), "a\nb\n".to_owned(), "Block removed"),
        (format!("a\n{block}b\n"), json!({ "block": "" }), "a\nb\n".to_owned(), "Block removed"),
        ("a\n".to_owned(), json!({ "state": "absent", "block": "x" }), "a\n".to_owned(), ""),
        ("a\nb\n".to_owned(), json!({ "block": "x\ny", "insertbefore": "BOF" }), format!("{block}a\nb\n"), inserted),
        ("a\nb\n".to_owned(), json!({ "block": "x\ny", "insertafter": "^a" }), format!("a\n{block}b\n"), inserted),
        ("a\nb\n".to_owned(), json!({ "block": "x\ny", "insertbefore": "^b" }), format!("a\n{block}b\n"), inserted),
        ("a\nb\n".to_owned(), json!({ "block": "x\ny", "insertafter": "^none" }), format!("a\nb\n{block}"), inserted),
        (
            "a\nb\nc\n".to_owned(),
            json!({ "block": "x\ny", "insertafter": "(?m)^a\nb$" }),
            format!("a\nb\n{block}c\n"),
            inserted,
        ),
        (
            "a\nb\n".to_owned(),
            json!({ "block": "x\ny", "insertafter": "^a", "prepend_newline": true, "append_newline": true }),
            format!("a\n\n{block}\nb\n"),
            inserted,
        ),
        (
            "a\n".to_owned(),
            json!({ "block": "x", "marker": "<!-- {mark} -->", "marker_begin": "IN", "marker_end": "OUT" }),
            "a\n<!-- IN -->\nx\n<!-- OUT -->\n".to_owned(),
            inserted,
        ),
    ] {
        assert_eq!(edit("blockinfile", &before, args.clone()), (after, msg.to_owned()), "{before:?} with {args}");
    }
}

#[test]
fn replace_matches_replaced() {
    for (before, args, after, msg) in [
        ("a b a\n", json!({ "regexp": "a", "replace": "x" }), "x b x\n", "2 replacements made"),
        ("a b a\n", json!({ "regexp": "a" }), " b \n", "2 replacements made"),
        ("a\nb\n", json!({ "regexp": "^(.)$", "replace": r"[\1]" }), "[a]\n[b]\n", "2 replacements made"),
        ("a\n", json!({ "regexp": "none", "replace": "x" }), "a\n", ""),
        (
            "1 0 2 0 3\n",
            json!({ "after": "1", "before": "3", "regexp": "0", "replace": "-" }),
            "1 - 2 - 3\n",
            "2 replacements made",
        ),
        ("0 1 0\n", json!({ "after": "1", "regexp": "0", "replace": "-" }), "0 1 -\n", "1 replacements made"),
        ("0\n1 0\n", json!({ "before": "1", "regexp": "0", "replace": "-" }), "-\n1 0\n", "1 replacements made"),
        (
            "0\n",
            json!({ "after": "none", "regexp": "0", "replace": "-" }),
            "0\n",
            "Pattern for before/after params did not match the given file: none(?P<subsection>.*)",
        ),
    ] {
        // In general a second run may replace again; these patterns converge.
        let args_shown = args.to_string();
        if args["regexp"] == "^(.)$" {
            let directory = tempdir().unwrap();
            let path = directory.path().join("file");
            fs::write(&path, before).unwrap();
            assert_eq!(apply("replace", with_path(args, &path))["msg"], msg);
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
            continue;
        }
        assert_eq!(edit("replace", before, args), (after.to_owned(), msg.to_owned()), "{before:?} with {args_shown}");
    }
}

#[test]
fn missing_file_created_with_create() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("some/where/file");
    let result = converges(
        "lineinfile",
        with_path(json!({ "line": "a", "create": true, "mode": "0600" }), &path),
        directory.path(),
    );
    assert_eq!(result["msg"], "line added and ownership, perms or SE linux context changed");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let other = directory.path().join("else/where");
    let result = converges("blockinfile", with_path(json!({ "block": "a", "create": true }), &other), directory.path());
    assert_eq!(result["msg"], "File created");
    let gone = directory.path().join("gone");
    assert_eq!(
        apply("lineinfile", with_path(json!({ "line": "a", "state": "absent" }), &gone))["msg"],
        "file not present"
    );
    let absent = json!({ "state": "absent", "create": true });
    assert!(!changed(&converges("blockinfile", with_path(absent, &gone), directory.path())));
}

#[test]
fn edit_with_backup_validation_and_permissions() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "a\n").unwrap();
    let line = |more: Value| {
        let mut args = with_path(json!({ "line": "b" }), &path);
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    let message = fails("lineinfile", line(json!({ "validate": "grep -q none %s" })), directory.path());
    assert!(message.contains("failed to validate: rc:1"), "{message}");
    assert!(
        fails("lineinfile", line(json!({ "validate": "true" })), directory.path()).contains("validate must contain %s")
    );
    let result = converges("lineinfile", line(json!({ "validate": "grep -q b %s", "backup": true })), directory.path());
    assert_eq!(fs::read_to_string(result["backup"].as_str().unwrap()).unwrap(), "a\n");
    let result = converges("lineinfile", line(json!({ "mode": "0600" })), directory.path());
    assert_eq!(result["msg"], "ownership, perms or SE linux context changed");
    assert_eq!(apply("lineinfile", line(json!({})))["backup"], "");
    let replaced = apply("replace", with_path(json!({ "regexp": "b", "replace": "c", "backup": true }), &path));
    assert_eq!(fs::read_to_string(replaced["backup_file"].as_str().unwrap()).unwrap(), "a\nb\n");
}

#[test]
fn edit_reports_diff() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "a\n").unwrap();
    let predicted = predict("lineinfile", with_path(json!({ "line": "b" }), &path))["diff"][0].clone();
    assert_eq!(predicted["before"], "a\n");
    assert_eq!(predicted["after"], "a\nb\n");
    assert_eq!(predicted["after_header"], format!("{} (content)", path.display()));
    let both = predict("lineinfile", with_path(json!({ "line": "b", "mode": "0600" }), &path));
    assert_eq!(both["diff"][1]["after"]["mode"], "0600");
}

#[test]
fn edit_keeps_links_and_bytes() {
    let directory = tempdir().unwrap();
    let (path, link) = (directory.path().join("file"), directory.path().join("link"));
    fs::write(&path, b"caf\xe9\n").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    converges(
        "lineinfile",
        with_path(json!({ "regexp": "^caf", "insertafter": "^caf", "line": "über" }), &link),
        directory.path(),
    );
    assert!(link.is_symlink());
    assert_eq!(fs::read(&path).unwrap(), "über\n".as_bytes());
    fs::write(&path, b"caf\xe9\nx\n").unwrap();
    converges("replace", with_path(json!({ "regexp": "x", "replace": "y" }), &link), directory.path());
    assert_eq!(fs::read(&path).unwrap(), b"caf\xe9\ny\n");
}

#[test]
fn text_invalid_inputs_refused() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "a\n").unwrap();
    let gone = directory.path().join("gone");
    for (module, args, word) in [
        ("lineinfile", with_path(json!({ "line": "a" }), &gone), "does not exist"),
        ("lineinfile", with_path(json!({ "line": "a" }), directory.path()), "is a directory"),
        ("lineinfile", with_path(json!({}), &path), "line is required with state=present"),
        ("lineinfile", with_path(json!({ "state": "absent" }), &path), "one of line, search_string, or regexp"),
        ("lineinfile", with_path(json!({ "line": "a", "backrefs": true }), &path), "regexp is required with backrefs"),
        ("lineinfile", with_path(json!({ "line": "a", "regexp": "(" }), &path), "regular expression"),
        ("lineinfile", with_path(json!({ "line": r"\2", "regexp": "(a)", "backrefs": true }), &path), "no group 2"),
        (
            "lineinfile",
            with_path(json!({ "line": "a", "regexp": "a", "search_string": "a" }), &path),
            "mutually exclusive",
        ),
        ("blockinfile", with_path(json!({ "block": "a" }), &gone), "does not exist"),
        (
            "blockinfile",
            with_path(json!({ "block": "a", "insertbefore": "a", "insertafter": "b" }), &path),
            "mutually exclusive",
        ),
        ("replace", with_path(json!({ "regexp": "a" }), &gone), "does not exist"),
        ("replace", with_path(json!({ "regexp": "a", "replace": r"\1" }), &path), "no group 1"),
        ("replace", with_path(json!({ "regexp": "a", "encoding": "utf-7" }), &path), "utf-7"),
        ("replace", with_path(json!({}), &path), "missing required arguments: regexp"),
    ] {
        let message = fails(module, args, directory.path());
        assert!(message.contains(word), "{message} has no {word}");
    }
    let warned = apply("lineinfile", with_path(json!({ "line": "a", "regexp": "" }), &path));
    assert!(warned["warnings"][0].as_str().unwrap().contains("empty"), "{warned}");
    let marker = apply("blockinfile", with_path(json!({ "block": "x", "marker": "# mine" }), &path));
    assert!(marker["warnings"][0].as_str().unwrap().contains("{mark}"), "{marker}");
}
