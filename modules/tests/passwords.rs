//! Passwords in addresses: they reach the server or the program, and no command line.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;
mod server;

use base64::{Engine, prelude::BASE64_STANDARD};
use case::Bench;
use serde_json::{Value, json};
use server::{Answer, Server};

/// Records the command line of the program that a script replaces.
const RECORD: &str = "printf '%s\\n' \"$0 $*\" >> $ROOT/words\n";

/// A server that serves one content to user `me` with password `p@ss-word`.
fn guarded(content: &'static str) -> Server {
    let expected = format!("Basic {}", BASE64_STANDARD.encode("me:p@ss-word"));
    Server::start(move |asked| match asked.header("authorization") == expected {
        true => Answer::of(200, content),
        false => Answer::of(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
    })
}

/// An address of a server with the password.
fn with_password(server: &Server, path: &str) -> String {
    server.url(path).replace("://", "://me:p%40ss-word@")
}

/// Runs a module that changes something, and expects the password in neither its result nor the command lines.
fn run(bench: &Bench, module: &str, args: &Value) -> String {
    let result = bench.run_as_it_is(module, args, false);
    assert_eq!((result.get("failed"), &result["changed"]), (None, &true.into()), "{result}");
    let words = bench.read("words");
    for text in [&words, &result.to_string()] {
        assert!(!text.contains("p%40ss") && !text.contains("p@ss"), "{text}");
    }
    words
}

#[test]
fn password_of_a_gem_source_is_in_a_file_of_its_own() {
    let script = "case $1 in --version) echo 3.3.15;; list) ;; install) cat ${GEMRC##*:} > $ROOT/config;; esac";
    let bench = Bench::new().program("gem", &format!("{RECORD}{script}"));
    for norc in [true, false] {
        let args = json!({"name": "x", "source": "https://me:p%40ss-word@gems.example.org/", "norc": norc});
        let words = run(&bench, "gem", &args);
        assert!(words.contains("install") && !words.contains("--source") && !words.contains("--norc"), "{words}");
        assert_eq!(bench.read("config"), ":sources:\n- https://me:p%40ss-word@gems.example.org/\n");
    }
}

#[test]
fn password_of_a_repository_reaches_the_git_of_pip() {
    let git = "for word; do case $word in git+*) exec git ls-remote \"${word#git+}\" >&2;; esac; done";
    let bench = Bench::new().program("pip3", &format!("{RECORD}case $1 in install) {git}; esac; exit 0"));
    let server = guarded("0123456789012345678901234567890123456789\trefs/heads/main\n");
    let args = json!({"name": format!("git+{}", with_password(&server, "/app.git")), "executable": "pip3"});
    let result = bench.run_as_it_is("pip", &args, false);
    assert_eq!(result.get("failed"), None, "{result}");
    assert!(result["stderr"].as_str().unwrap().contains("refs/heads/main"), "{result}");
    let words = bench.read("words");
    assert!(words.contains(&server.url("/app.git")), "{words}");
    for text in [words, result.to_string()] {
        assert!(!text.contains("p%40ss") && !text.contains("p@ss"), "{text}");
    }
    let other = format!("git+{}", with_password(&server, "/b.git").replace("me:", "you:"));
    let both = json!({"name": [args["name"], other], "executable": "pip3"});
    let refused = bench.run_as_it_is("pip", &both, false);
    assert!(refused["msg"].as_str().unwrap().contains("one task each"), "{refused}");
}

#[test]
fn passwords_of_packages_and_indexes_reach_pip_beside_its_command_line() {
    let script = "[ $1 = install ] || exit 0\n\
                  env | grep ^PIP_ > $ROOT/environment\n\
                  while [ $# -gt 1 ]; do [ $1 = -r ] && cat $2 > $ROOT/packages; shift; done\n\
                  echo Successfully installed x\n";
    let bench = Bench::new().program("pip3", &format!("{RECORD}{script}"));
    let package = "https://me:p%40ss-word@files.example.org/x-1.whl";
    let args = json!({
        "name": ["plain", package],
        "executable": "pip3",
        "extra_args": "--find-links https://me:p%40ss-word@a/ --proxy=http://me:p%40ss-word@b:3128 \
                       -i https://me:p%40ss-word@c/",
    });
    let words = run(&bench, "pip", &args);
    assert!(words.contains("install plain -r "), "{words}");
    assert_eq!(bench.read("packages"), format!("{package}\n"));
    let environment = bench.read("environment");
    for name in ["PIP_FIND_LINKS=https", "PIP_PROXY=http", "PIP_INDEX_URL=https"] {
        assert!(environment.contains(&format!("{name}://me:p%40ss-word@")), "{environment}");
    }
}

#[test]
fn password_of_a_subversion_repository_is_on_standard_input() {
    let script = "case \" $* \" in *' checkout '*) cat > $ROOT/input; for d; do :; done; mkdir $d;; \
                  *) echo 'Revision: 3'; echo 'URL: https://svn.example.org/app';; esac";
    let bench = Bench::new().program("svn", &format!("{RECORD}{script}"));
    let repo = "https://me:p%40ss-word@svn.example.org/app";
    let words = run(&bench, "subversion", &json!({"repo": repo, "dest": bench.path("copy")}));
    assert!(words.contains("--username me --password-from-stdin checkout"), "{words}");
    assert!(words.contains(" https://svn.example.org/app "), "{words}");
    assert_eq!(bench.read("input"), "p@ss-word");
    let options = json!({"repo": repo, "dest": bench.path("other"), "username": "you", "password": "p@ss-2"});
    let words = run(&bench, "subversion", &options);
    assert!(words.contains("--username you"), "{words}");
    assert_eq!(bench.read("input"), "p@ss-2");
}
