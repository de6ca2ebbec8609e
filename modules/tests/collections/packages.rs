use serde_json::json;

use crate::{case::Bench, has, with};

#[test]
fn npm_packages_installed_from_folder() {
    if !has("npm") {
        return;
    }
    let bench = Bench::new();
    bench.write("package/package.json", r#"{"name": "windlass-test", "version": "1.2.0"}"#);
    bench.write(
        "app/package.json",
        r#"{"name": "app", "version": "1.0.0", "dependencies": {"windlass-test": "file:../package"}}"#,
    );
    bench.write("app/.npmrc", "audit=false\nfund=false\noffline=true\nupdate-notifier=false\n");
    let args = json!({"path": "@/app"});
    assert_eq!(bench.run("community.general.npm", args.clone(), true), json!({"changed": true}));
    assert!(!bench.path("app/node_modules").exists());
    assert_eq!(bench.run("npm", args.clone(), false), json!({"changed": true}));
    assert!(bench.path("app/node_modules/windlass-test/package.json").exists());
    assert_eq!(bench.run("npm", args, false), json!({"changed": false}));
}

#[test]
fn npm_called_with_task_options() {
    let bench = Bench::new().program(
        "npm",
        r#"case "$1" in
list) cat $ROOT/list;;
outdated) cat $ROOT/outdated;;
*) echo "$@" >> $ROOT/log;;
esac
"#,
    );
    bench
        .write("list", r#"{"dependencies": {"a": {"version": "1.0.0"}, "b": {"missing": true}}}"#)
        .write("outdated", "");
    bench.write("log", "").write("app/x", "");
    for (args, told) in [
        (json!({"name": "c", "global": true}), "install --global c\n"),
        (
            json!({"name": "a", "version": "2.0.0", "path": "@/app", "production": true}),
            "install --production a@2.0.0\n",
        ),
        (json!({"path": "@/app", "ci": true, "ignore_scripts": true}), "ci --ignore-scripts\n"),
        (json!({"name": "a", "path": "@/app", "state": "absent"}), "uninstall a\n"),
        (
            json!({"name": "c", "path": "@/app", "registry": "http://r", "force": true}),
            "install c --registry http://r --force\n",
        ),
    ] {
        bench.write("log", "");
        assert_eq!(bench.run("npm", args.clone(), false), json!({"changed": true}), "{args}");
        assert_eq!(bench.read("log"), told);
    }
    bench
        .write("list", r#"{"dependencies": {"a": {"version": "1.0.0"}}}"#)
        .write("outdated", "a 1.0.0 2.0.0\n")
        .write("log", "");
    bench.rests("npm", json!({"name": "a", "version": "1.0.0", "path": "@/app"}));
    bench.run("npm", json!({"name": "a", "path": "@/app", "state": "latest"}), false);
    assert_eq!(bench.read("log"), "update a\n");
    for (args, word) in [
        (json!({"name": "a"}), "path must be specified when not using global"),
        (json!({"path": "@/app", "state": "absent"}), "missing: name"),
        (json!({"path": "@/log"}), "is not a directory"),
    ] {
        bench.refuses("npm", args, word);
    }
}

#[test]
fn gem_installed_from_file_and_removed() {
    if !has("gem") {
        return;
    }
    let bench = Bench::new();
    bench.write("t.gemspec", "Gem::Specification.new { |s| s.name = 'wltest'; s.version = '1.0.1'; s.summary = 'x'; s.authors = ['x']; s.files = [] }\n");
    let built =
        std::process::Command::new("gem").args(["build", "t.gemspec"]).current_dir(bench.path("")).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    let args =
        json!({"name": "wltest", "gem_source": "@/wltest-1.0.1.gem", "user_install": false, "install_dir": "@/gems"});
    let result = bench.converges("community.general.gem", args.clone());
    assert_eq!(result, json!({"changed": true, "name": "wltest", "state": "present"}));
    bench.converges("gem", with(&args, json!({"state": "absent"})));
    for (args, word) in [
        (json!({"state": "absent"}), "missing required arguments: name"),
        (json!({"name": "x", "version": "1", "state": "latest"}), "Cannot specify version when state=latest"),
        (json!({"name": "x", "install_dir": "@/gems"}), "install_dir requires user_install=false"),
        (json!({"name": "x", "gem_source": "y", "version": "1"}), "mutually exclusive"),
    ] {
        bench.refuses("gem", args, word);
    }
}

/// A snapd with one snap, which answers like the real one; changes are recorded.
fn snapd() -> Bench {
    let bench = Bench::new().program(
        "snap",
        r#"case "$1" in
version) printf 'snap    2.63\nsnapd   2.63\nseries  16\n';;
list) [ -z "$2" ] || [ "$2" = hello ] || { echo 'error: no matching snaps installed' >&2; exit 1; }
printf 'Name   Version  Rev  Tracking       Publisher  Notes\nhello  2.10     42   latest/stable  canonical  -\n';;
info) shift; for name; do case $name in none*) printf 'warning: no snap found for "%s"\n' $name;; *) printf 'name:      %s\nsummary: x\n---\n' $name;; esac; done;;
get) echo '{"a": {"b": 1}}';;
*) echo "$@" >> $ROOT/log;;
esac
"#,
    );
    bench.write("log", "");
    bench
}

#[test]
fn snap_managed_by_snapd_commands() {
    for (args, told) in [
        (json!({"name": "new"}), "install new\n"),
        (json!({"name": ["new", "other"]}), "install new other\n"),
        (json!({"name": ["new", "other"], "classic": true}), "install --classic new\ninstall --classic other\n"),
        (json!({"name": "hello", "channel": "edge"}), "refresh --channel edge hello\n"),
        (json!({"name": "hello", "revision": 7}), "refresh --revision 7 hello\nrefresh --hold hello\n"),
        (json!({"name": "hello", "options": ["a.b=2", "hello:c=3"]}), "set hello a.b=2 c=3\n"),
        (json!({"name": "system", "options": ["proxy.http=http://p"]}), "set system proxy.http=http://p\n"),
        (json!({"name": "hello", "state": "absent"}), "remove hello\n"),
        (json!({"name": "hello", "state": "disabled"}), "disable hello\n"),
    ] {
        let bench = snapd();
        let before = bench.snapshot();
        assert_eq!(bench.run("community.general.snap", args.clone(), true)["changed"], true, "{args}");
        assert_eq!(bench.snapshot(), before, "check mode changed something");
        let result = bench.run("snap", args.clone(), false);
        assert_eq!((&result["changed"], bench.read("log")), (&json!(true), told.to_owned()), "{args}: {result}");
        assert_eq!(result["version"], json!({"snap": "2.63", "snapd": "2.63", "series": "16"}));
    }
    let bench = snapd();
    for args in [
        json!({"name": "hello"}),
        json!({"name": "hello", "channel": "stable"}),
        json!({"name": "hello", "options": ["a.b=1"]}),
        json!({"name": "hello", "state": "enabled"}),
        json!({"name": "new", "state": "absent"}),
    ] {
        bench.rests("snap", args);
    }
    for (args, word) in [
        (json!({"name": "none"}), "Snaps not found: ['none']."),
        (json!({"name": "hello", "options": ["nothing"]}), "Cannot parse set option 'nothing'"),
        (json!({"name": "hello", "options": ["x:a=1"]}), "not in the list of snap names"),
        (json!({"name": "hello", "channel": "edge", "revision": 1}), "mutually exclusive"),
        (json!({"state": "present"}), "missing required arguments: name"),
    ] {
        bench.refuses("snap", args, word);
    }
}
