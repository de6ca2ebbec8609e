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
    assert!(refused["msg"].as_str().unwrap().contains("in separate tasks"), "{refused}");
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
                       -i https://me:p%40ss-word@c/ --extra-index-url https://token-0123456789-word@d/",
    });
    let words = run(&bench, "pip", &args);
    assert!(words.contains("install plain -r "), "{words}");
    assert_eq!(bench.read("packages"), format!("{package}\n"));
    let environment = bench.read("environment");
    assert!(!words.contains("token-") && environment.contains("PIP_EXTRA_INDEX_URL=https://token-0"), "{environment}");
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

/// A part of a script that keeps the file that is the last word, and the mode of its directory.
const KEEP: &str = "for last; do :; done; cp $last $ROOT/package; stat -c %a ${last%/*} > $ROOT/mode\n";

/// Package managers that record their command lines, and keep the package that they install. The package `there` is
/// installed.
fn managers() -> Bench {
    let plan = "Installing:\\n wl noarch 1.0-1 @commandline 6 k\\nTransaction Summary\\n";
    let summary = "<stream><install-summary><to-install><solvable type=\"package\" name=\"wl\" edition=\"1.0-1\" \
                   arch=\"noarch\"/></to-install></install-summary></stream>";
    let rpm = "for last; do :; done\ncase $last in there-*) ;; *) grep -qx there $last || exit 1;; esac; \
               echo there-1.0-1.noarch";
    let bench = Bench::new()
        .program("dnf", &format!("{RECORD}case $* in *--assumeno*) printf '{plan}'; exit 1;; esac; {KEEP}"))
        .program("rpm", &format!("{RECORD}{rpm}"))
        .program("zypper", &format!("{RECORD}echo '{summary}'; case $* in *--dry-run*) exit;; esac; {KEEP}"))
        .program("apt-get", &format!("{RECORD}case $1 in --simulate) echo Inst wl; exit;; esac; {KEEP}"))
        .program("dpkg-deb", &format!("{RECORD}echo 'Package: wl-none'; echo 'Version: 1.0'"));
    bench.write("words", "");
    bench
}

/// The directory of each file that a command line names.
fn directories(words: &str) -> Vec<&str> {
    let files = words.split_whitespace().filter(|word| word.contains("/.windlass-"));
    files.map(|file| file.rsplit_once('/').unwrap().0).collect()
}

#[test]
fn password_of_a_package_reaches_the_server_and_no_program() {
    for (module, manager, option, suffix) in [
        ("apt", None, "deb", "deb"),
        ("dnf", None, "name", "rpm"),
        ("package", Some("dnf"), "name", "rpm"),
        ("package", Some("apt"), "deb", "deb"),
        ("zypper", None, "name", "rpm"),
    ] {
        let bench = managers();
        let server = guarded("the package");
        let mut args = json!({option: with_password(&server, &format!("/a%20wl.{suffix}?x=1"))});
        if let Some(manager) = manager {
            args["use"] = manager.into();
        }
        let predicted = bench.run_as_it_is(module, &args, true);
        assert_eq!((predicted.get("failed"), &predicted["changed"]), (None, &true.into()), "{predicted}");
        assert!(!bench.path("package").exists(), "{module} installed in check mode");
        let words = run(&bench, module, &args);
        assert_eq!((bench.read("package").as_str(), bench.read("mode").trim()), ("the package", "700"), "{module}");
        assert!(words.contains(&format!("/a_20wl.{suffix}\n")) && !words.contains("://"), "{words}");
        let asked = server.asked();
        assert!(asked.iter().all(|asked| asked.path.ends_with("?x=1")) && asked.len() == 4, "{module}: {asked:?}");
        for directory in directories(&words) {
            assert!(!std::path::Path::new(directory).exists(), "{module} left {directory}");
        }
    }
}

#[test]
fn package_at_an_address_that_is_installed_changes_nothing() {
    let bench = managers();
    let server = guarded("there\n");
    let args = json!({"name": with_password(&server, "/wl.rpm")});
    let result = bench.run_as_it_is("dnf", &args, false);
    assert_eq!((result.get("failed"), &result["changed"]), (None, &false.into()), "{result}");
    let shown = server.url("/wl.rpm").replace("://", "://me:********@");
    assert_eq!(result["results"], json!([format!("Installed {shown}")]));
    assert!(!bench.read("words").contains("/dnf "), "{}", bench.read("words"));
}

#[test]
fn package_that_cannot_be_downloaded_changes_nothing() {
    let bench = managers();
    let name = format!("wl-{}.rpm", std::process::id());
    let server = Server::start(|_| Answer { broken: true, ..Answer::of(200, "half a package") });
    let url = with_password(&server, &format!("/{name}"));
    let other = guarded("");
    let wrong = with_password(&other, "/wl.rpm").replace("word", "w0rd");
    let ftp = "ftp://me:p%40ss-word@files.example.org/wl.rpm";
    for (module, url, reason) in [
        ("dnf", url.as_str(), "could not be brought onto the host"),
        ("zypper", url.as_str(), "could not be brought onto the host"),
        ("dnf", wrong.as_str(), "401"),
        ("dnf", ftp, "URLs of the kind ftp are not supported"),
        ("zypper", ftp, "URLs of the kind ftp are not supported"),
    ] {
        let result = bench.run_as_it_is(module, &json!({"name": url}), false);
        assert!(result["msg"].as_str().unwrap().contains(reason), "{result}");
        assert!(!result.to_string().contains("p%40ss") && !result.to_string().contains("p@ss"), "{result}");
    }
    assert_eq!(bench.read("words"), "");
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        assert!(!entry.path().join(&name).exists(), "{:?} was left", entry.path());
    }
}

#[test]
fn package_address_without_a_password_is_downloaded_as_by_ansible() {
    let bench = managers();
    let server = Server::start(|_| Answer::of(200, "the package"));
    let url = server.url("/wl.rpm");
    assert!(!run(&bench, "dnf", &json!({"name": url})).contains("://"));
    // Ansible's zypper passes an address on, to which the settings of zypper then apply.
    bench.run_as_it_is("zypper", &json!({"name": url}), true);
    assert!(bench.read("words").contains(&url));
    let absent = bench.run_as_it_is("dnf", &json!({"name": url, "state": "absent"}), false);
    assert_eq!(absent["msg"], "Cannot remove paths -- please specify package name.");
    assert_eq!(server.asked().len(), 1);
}

/// A helm with its plugin diff and a release, which records its command lines. It keeps a chart that is a file, and the
/// configuration of repositories.
fn helm() -> Bench {
    let update = "directory=${HELM_REPOSITORY_CONFIG%/*}; cat $HELM_REPOSITORY_CONFIG > $ROOT/config\n\
                  stat -c %a $directory > $ROOT/mode; [ -e $ROOT/refused ] && echo 401 Unauthorized && exit\n\
                  mkdir $HELM_REPOSITORY_CACHE; touch $HELM_REPOSITORY_CACHE/${directory##*/.}-index.yaml\n";
    let script = "case \" $* \" in\n\
                  *' list --output'*) echo '- {name: x, status: deployed, chart: x-1}';;\n\
                  *' plugin list '*) printf 'diff\\t3.9.12\\n';;\n\
                  *' diff upgrade '*) echo differs;;\n\
                  *' show chart '*|*' upgrade -i '*) for last; do :; done; [ ! -e $last ] || ";
    let script = format!("{RECORD}{script}{{ {KEEP}}}\necho 'name: x';;\n*' repo update '*) {update};;\nesac\n");
    let bench = Bench::new().program("helm", &script);
    bench.write("words", "");
    bench
}

#[test]
fn password_of_a_chart_reaches_the_server_and_no_program() {
    let bench = helm();
    let server = guarded("the chart");
    let args = json!({"name": "x", "namespace": "n", "chart_ref": with_password(&server, "/a%20b.tgz?x=1")});
    let predicted = bench.run_as_it_is("helm", &args, true);
    let shown = server.url("/a%20b.tgz?x=1").replace("://", "://me:********@");
    let program = bench.path("programs/helm");
    assert_eq!(predicted["command"], format!("{} upgrade -i --reset-values x '{shown}'", program.display()));
    let words = run(&bench, "helm", &args);
    assert_eq!((bench.read("package").as_str(), bench.read("mode").trim()), ("the chart", "700"));
    for command in [" show chart /", " diff upgrade x /", " upgrade -i --reset-values x /"] {
        assert!(words.contains(command) && !words.contains("://"), "{words}");
    }
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.path == "/a%20b.tgz?x=1") && asked.len() == 2, "{asked:?}");
    for directory in directories(&words) {
        assert!(!std::path::Path::new(directory).exists(), "{directory} was left");
    }
    let wrong = json!({"name": "x", "namespace": "n", "chart_ref": args["chart_ref"].as_str().unwrap().replace("word", "w0rd")});
    let refused = bench.run_as_it_is("helm", &wrong, false);
    assert!(refused["msg"].as_str().unwrap().contains("401") && !refused.to_string().contains("p%40ss"), "{refused}");
}

#[test]
fn password_of_a_chart_repository_reaches_helm_by_a_private_file() {
    let bench = helm();
    let url = "https://me:p%40ss-word@charts.example.org/";
    let args = json!({"name": "x", "namespace": "n", "chart_ref": "x", "chart_version": "1", "chart_repo_url": url});
    let predicted = bench.run_as_it_is("helm", &args, true);
    let program = bench.path("programs/helm").display().to_string();
    let options = "--version=1 --repo=https://me:********@charts.example.org/";
    assert_eq!(predicted["command"], format!("{program} {options} upgrade -i --reset-values x 'x'"));
    assert!(!bench.read("words").contains("upgrade -i"), "{}", bench.read("words"));
    let words = run(&bench, "helm", &args);
    let config: Value = serde_json::from_str(&bench.read("config")).unwrap();
    let repository = &config["repositories"][0];
    assert_eq!((&repository["url"], &repository["password"]), (&url.into(), &"p@ss-word".into()), "{config}");
    let name = repository["name"].as_str().unwrap();
    for command in ["--version=1 show chart ", "diff upgrade x ", "--version=1 upgrade -i --reset-values x "] {
        assert!(words.contains(&format!("{command}{name}/x")) && !words.contains("--repo"), "{words}");
    }
    assert_eq!(bench.read("mode").trim(), "700");
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains(name)));
    bench.write("refused", "").write("words", "");
    let refused = bench.run_as_it_is("helm", &args, false);
    assert!(refused["msg"].as_str().unwrap().contains("401 Unauthorized"), "{refused}");
    assert!(!bench.read("words").contains(" show chart "), "{}", bench.read("words"));
}
