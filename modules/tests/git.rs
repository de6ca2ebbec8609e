//! `git` on real repositories in temporary directories.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;
mod server;

use std::{path::Path, process::Command};

use base64::{Engine, prelude::BASE64_STANDARD};
use case::Bench;
use serde_json::{Value, json};
use server::{Answer, Server};

fn git(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always"])
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository with two commits on `main`, a tag on the first, and a branch `other`.
fn origin(bench: &Bench) -> std::path::PathBuf {
    let folder = bench.path("origin");
    std::fs::create_dir(&folder).unwrap();
    git(&folder, &["init", "-q", "-b", "main"]);
    for (text, more) in [("one", Some(["tag", "-a", "v1", "-m", "first"])), ("two", None)] {
        std::fs::write(folder.join("file"), text).unwrap();
        git(&folder, &["add", "file"]);
        git(&folder, &["commit", "-q", "-m", text]);
        if let Some(words) = more {
            git(&folder, &words);
        }
    }
    git(&folder, &["branch", "other", "v1^{commit}"]);
    folder
}

fn with_git(test: impl FnOnce(&Bench, &Path)) {
    if !windlass_testing::has("git") {
        return;
    }
    let bench = Bench::new();
    let folder = origin(&bench);
    test(&bench, &folder);
}

fn changed(result: &Value) -> bool {
    assert_eq!(result.get("failed"), None, "{result}");
    result["changed"].as_bool().unwrap()
}

#[test]
fn clone_predicted_created_and_kept() {
    with_git(|bench, folder| {
        let head = git(folder, &["rev-parse", "HEAD"]);
        let first = git(folder, &["rev-parse", "v1^{commit}"]);
        for (version, commit) in [("HEAD", &head), ("v1", &first), ("other", &first), (first.as_str(), &first)] {
            let args = json!({"repo": "@/origin", "dest": "@/clones/x", "version": version});
            let predicted = bench.run("git", args.clone(), true);
            assert!(changed(&predicted) && !bench.path("clones").exists());
            assert_eq!((&predicted["before"], &predicted["after"]), (&Value::Null, &json!(commit)));
            assert_eq!(predicted["diff"]["prepared"], format!(">> Newly checked out {commit}"));
            let result = bench.run("git", args.clone(), false);
            assert!(changed(&result));
            assert_eq!((&result["before"], &result["after"]), (&Value::Null, &json!(commit)));
            for check in [true, false] {
                let again = bench.run("git", args.clone(), check);
                assert!(!changed(&again), "{again}");
                assert_eq!((&again["before"], &again["after"]), (&json!(commit), &json!(commit)));
            }
            std::fs::remove_dir_all(bench.path("clones")).unwrap();
        }
    });
}

#[test]
fn new_commits_fetched_local_changes_kept_unless_forced() {
    with_git(|bench, folder| {
        let args = |more: Value| {
            let mut args = json!({"repo": "@/origin", "dest": "@/clone"});
            args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            args
        };
        let before = bench.run("git", args(json!({})), false)["after"].clone();
        std::fs::write(folder.join("file"), "three").unwrap();
        git(folder, &["commit", "-q", "-a", "-m", "three"]);
        let after = json!(git(folder, &["rev-parse", "HEAD"]));
        assert!(!changed(&bench.run("git", args(json!({"update": false})), false)));
        let predicted = bench.run("git", args(json!({})), true);
        assert_eq!((&predicted["before"], &predicted["after"], changed(&predicted)), (&before, &after, true));
        assert_eq!(bench.read("clone/file"), "two");
        let result = bench.run("git", args(json!({})), false);
        assert_eq!((&result["before"], &result["after"]), (&before, &after));
        assert!(result["diff"]["prepared"].as_str().unwrap().contains("+three"), "{result}");
        bench.write("clone/file", "mine");
        bench.refuses("git", args(json!({})), "Local modifications exist in the destination");
        let forced = bench.run("git", args(json!({"force": true})), false);
        assert!(changed(&forced) && bench.read("clone/file") == "three");
    });
}

#[test]
fn clone_with_depth_bare_archive_and_new_url() {
    with_git(|bench, folder| {
        let shallow = bench.run("git", json!({"repo": "@/origin", "dest": "@/shallow", "depth": 1}), false);
        assert!(changed(&shallow));
        assert_eq!(git(&bench.path("shallow"), &["rev-list", "--count", "HEAD"]), "1");
        let args = json!({"repo": "@/origin", "dest": "@/bare.git", "bare": true});
        assert!(changed(&bench.run("git", args.clone(), false)) && !changed(&bench.run("git", args, false)));
        let args = json!({"repo": "@/origin", "dest": "@/full", "archive": "@/out.tar.gz", "archive_prefix": "p/"});
        assert!(changed(&bench.run("git", args.clone(), false)) && bench.path("out.tar.gz").exists());
        assert!(!changed(&bench.run("git", args, false)));
        let copy = bench.path("copy");
        git(folder.parent().unwrap(), &["clone", "-q", "--bare", "origin", copy.to_str().unwrap()]);
        let moved = bench.run("git", json!({"repo": "@/copy", "dest": "@/full"}), false);
        assert_eq!((changed(&moved), &moved["remote_url_changed"]), (true, &json!(true)), "{moved}");
        let apart = json!({"repo": "@/origin", "dest": "@/files", "separate_git_dir": "@/repository"});
        assert!(changed(&bench.run("git", apart.clone(), false)) && bench.path("repository/config").exists());
        assert!(!changed(&bench.run("git", apart, false)));
    });
}

#[test]
fn submodules_updated() {
    with_git(|bench, folder| {
        let outer = bench.path("outer");
        std::fs::create_dir(&outer).unwrap();
        git(&outer, &["init", "-q", "-b", "main"]);
        git(&outer, &["submodule", "--quiet", "add", folder.to_str().unwrap(), "inner"]);
        git(&outer, &["commit", "-q", "-m", "with a submodule"]);
        let args = json!({"repo": "@/outer", "dest": "@/clone"});
        // git refuses submodules from local paths by default.
        let result = bench.run("git", args.clone(), false);
        if result.get("failed").is_some() {
            assert!(result["msg"].as_str().unwrap().contains("submodule"), "{result}");
            windlass_testing::lacks("protocol.file.allow");
            return;
        }
        assert_eq!((&result["submodules_changed"], bench.read("clone/inner/file").as_str()), (&json!(true), "two"));
        assert!(!changed(&bench.run("git", args, false)));
    });
}

#[test]
fn git_invalid_inputs_refused() {
    with_git(|bench, _| {
        for (args, word) in [
            (json!({"repo": "@/none", "dest": "@/x"}), "Failed to clone"),
            (json!({"repo": "@/origin"}), "the destination directory must be specified"),
            (json!({"repo": "@/origin", "dest": "@/x", "umask": 22}), "quoted octal"),
            (json!({"repo": "@/origin", "dest": "@/x", "umask": "999"}), "octal integer"),
            (json!({"repo": "@/origin", "dest": "@/x", "archive": "@/a.rar"}), "file extension"),
            (json!({"repo": "@/origin", "dest": "@/x", "bare": true, "separate_git_dir": "@/y"}), "mutually exclusive"),
            (
                json!({"repo": "@/origin", "dest": "@/x", "executable": "@/no-git"}),
                "Failed to find required executable",
            ),
        ] {
            bench.refuses("git", args, word);
        }
        let result = bench.run("git", json!({"repo": "@/origin", "dest": "@/x", "version": "nowhere"}), false);
        assert!(result["msg"].as_str().unwrap().contains("Failed to checkout nowhere"), "{result}");
        let told = bench.run("git", json!({"repo": "@/origin", "clone": false}), false);
        assert_eq!(told["after"].as_str().unwrap().len(), 40);
    });
}

#[test]
fn words_that_git_would_take_for_options_are_refused() {
    with_git(|bench, _| {
        let marker = bench.path("ran");
        let evil = format!("--upload-pack=touch {};", marker.display());
        let good = json!({"repo": "@/origin", "dest": "@/clone"});
        assert!(changed(&bench.run("git", good.clone(), false)));
        for (option, value) in [
            ("remote", evil.as_str()),
            ("remote", "x; touch @/ran"),
            ("version", &evil),
            ("refspec", &evil),
            ("reference", &evil),
            ("repo", &evil),
            ("repo", "ext::sh -c touch% @/ran"),
            ("repo", "ssh://-oProxyCommand=touch/x"),
            ("dest", "-c"),
        ] {
            for clone in ["@/clone", "@/new"] {
                let mut args = good.clone();
                args["dest"] = clone.into();
                args[option] = value.into();
                let result = bench.run("git", args, false);
                assert_eq!(result["failed"], true, "{option}={value}: {result}");
                assert!(result["msg"].as_str().unwrap().contains(option), "{option}={value}: {result}");
            }
        }
        assert!(!marker.exists() && !bench.path("new").exists());
    });
}

/// A server with the repository that accepts this user and password, by git's dumb HTTP protocol.
fn guarded(folder: std::path::PathBuf, login: &str) -> Server {
    git(&folder, &["update-server-info"]);
    let expected = format!("Basic {}", BASE64_STANDARD.encode(login));
    Server::start(move |asked| {
        if asked.header("authorization") != expected {
            return Answer::of(401, "").with("WWW-Authenticate", "Basic realm=\"git\"");
        }
        let path = asked.path.split('?').next().unwrap().trim_start_matches("/app.git/");
        match std::fs::read(folder.join(".git").join(path)) {
            Ok(bytes) => Answer::of(200, bytes),
            Err(_) => Answer::of(404, ""),
        }
    })
}

#[test]
fn password_in_an_address_reaches_the_server_and_nothing_else() {
    reaches_only_the_server("me:p%40ss-word", "me:p@ss-word", &["p%40ss", "p@ss"]);
}

#[test]
fn token_in_an_address_reaches_the_server_and_nothing_else() {
    reaches_only_the_server("glpat-word0123456789", "glpat-word0123456789:", &["glpat"]);
}

/// Clones by an address with credentials, and expects their secrets neither on command lines nor in files or results.
fn reaches_only_the_server(given: &str, login: &str, secrets: &[&str]) {
    if !windlass_testing::has("git") {
        return;
    }
    let real = Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout;
    let real = String::from_utf8(real).unwrap();
    let bench =
        Bench::new().program("git", &format!("printf '%s\\n' \"$*\" >> $ROOT/words; exec {} \"$@\"\n", real.trim()));
    let server = guarded(origin(&bench), login);
    let address = server.url("/app.git").replace("://", &format!("://{given}@"));
    let args = json!({"repo": address, "dest": bench.path("clone")});
    let result = bench.run_as_it_is("git", &args, false);
    assert!(changed(&result), "{result}");
    assert_eq!(bench.read("clone/file"), "two");
    assert!(!changed(&bench.run_as_it_is("git", &args, false)));
    // A clone from an earlier version also loses its password, and still counts as the same clone.
    git(&bench.path("clone"), &["remote", "set-url", "origin", &address]);
    assert!(!changed(&bench.run_as_it_is("git", &args, false)));
    let config = bench.read("clone/.git/config");
    assert!(config.contains(&server.url("/app.git")), "{config}");
    let bad = json!({"repo": address.replace("word", "w0rd"), "dest": bench.path("bad")});
    let bad = bench.run_as_it_is("git", &bad, false);
    assert_eq!(bad["failed"], true, "{bad}");
    for (name, text) in [
        ("words", bench.read("words")),
        ("config", config),
        ("result", result.to_string()),
        ("failure", bad.to_string()),
    ] {
        for secret in secrets {
            assert!(!text.contains(secret), "{name} has the password: {text}");
        }
    }
}
