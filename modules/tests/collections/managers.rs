//! zypper, pacman, dnf and apk, simulated by programs that answer like the real ones (zypper 1.14, pacman 7.0, dnf
//! 4.23, apk as documented) and record requested changes.

use serde_json::json;

use crate::case::Bench;

/// A zypper with one installed package, for which a newer version exists.
fn zypper() -> Bench {
    let bench = Bench::new().program(
        "zypper",
        r#"stream() { printf "<?xml version='1.0'?>\n<stream>\n%s\n</stream>\n" "$1"; }
summary() { stream "<install-summary download-size=\"6124\" need-reboot=\"0\"><$1>$2</$1></install-summary><prompt id=\"0\"><text>Continue?</text><option default=\"1\" value=\"y\" desc=\"Yes, go on.\"/></prompt>"; }
solvable() { printf '<solvable type="package" name="%s" edition="%s" arch="noarch" repository="local"%s summary="a &lt; b"><description>x > y</description></solvable>' "$@"; }
case " $* " in
*" search "*" hello "*) stream '<search-result version="0.0"><solvable-list><solvable status="installed" name="hello" kind="package" edition="1.0-1" arch="noarch" repository="(System Packages)"/></solvable-list></search-result>'; exit 0;;
*" search "*) stream '<message type="info">No matching items found.</message>'; exit 104;;
*none*) stream '<message type="error">No provider of &apos;+none&apos; found.</message>'; exit 104;;
*broken*) stream '<message type="error">Problem: nothing provides lib</message>'; exit 4;;
esac
case " $* " in *" --dry-run "*) ;; *) echo "$@" >> $ROOT/log;; esac
case " $* " in
*" remove "*) summary to-remove "$(solvable hello 1.0-1 '')";;
*" update "*|*"+hello"*) summary to-upgrade "$(solvable hello 2.0-1 ' edition-old="1.0-1"')";;
*" refresh "*) stream '<message type="info">All repositories have been refreshed.</message>';;
*) summary to-install "$(solvable app 1.0-1 '')$(solvable lib 1.0-1 '')";;
esac
"#,
    );
    bench.write("log", "");
    bench
}

#[test]
fn zypper_called_as_requested() {
    let install =
        "--non-interactive --xmlout --quiet install --type package --auto-agree-with-licenses --no-recommends";
    for (args, told, diff) in [
        (json!({"name": "app"}), format!("{install} -- +app\n"), "installed: app, lib\n"),
        (json!({"name": "hello", "state": "latest"}), format!("{install} -- +hello\n"), "upgraded: hello (1.0-1 => 2.0-1)\n"),
        (json!({"name": ["hello>=2.0"]}), format!("{install} --oldpackage -- +hello>=2.0\n"), "upgraded: hello (1.0-1 => 2.0-1)\n"),
        (json!({"name": ["-hello", "+app"]}), format!("{install} -- -hello +app\n"), "installed: app, lib\n"),
        (json!({"name": "http://x/app.rpm", "disable_gpg_check": true, "disable_recommends": false}),
            "--non-interactive --xmlout --quiet --no-gpg-checks install --type package --auto-agree-with-licenses -- http://x/app.rpm\n".to_owned(),
            "installed: app, lib\n"),
        (json!({"name": "app", "force": true, "force_resolution": true, "replacefiles": true, "auto_import_keys": true, "quiet": false, "extra_args": "--a --b", "extra_args_precommand": "--c"}),
            "--non-interactive --xmlout --c --gpg-auto-import-keys install --type package --auto-agree-with-licenses --no-recommends --force --force-resolution --replacefiles --a --b -- +app\n".to_owned(),
            "installed: app, lib\n"),
        (json!({"name": "hello", "state": "absent", "clean_deps": true}), "--non-interactive --xmlout --quiet remove --type package --clean-deps hello\n".to_owned(), "removed: hello\n"),
        (json!({"name": "*", "state": "latest"}), "--non-interactive --xmlout --quiet update --type package --auto-agree-with-licenses --no-recommends\n".to_owned(), "upgraded: hello (1.0-1 => 2.0-1)\n"),
        (json!({"name": "*", "state": "dist-upgrade", "allow_vendor_change": true}),
            "--non-interactive --xmlout --quiet dist-upgrade --auto-agree-with-licenses --no-recommends --allow-vendor-change\n".to_owned(), "installed: app, lib\n"),
        (json!({"name": "lib", "type": "pattern"}), "--non-interactive --xmlout --quiet install --type pattern --auto-agree-with-licenses --no-recommends -- +lib\n".to_owned(), "installed: app, lib\n"),
    ] {
        let bench = zypper();
        let predicted = bench.run("community.general.zypper", args.clone(), true);
        assert_eq!((&predicted["changed"], bench.read("log")), (&json!(true), String::new()), "{args}: {predicted}");
        let result = bench.run("zypper", args.clone(), false);
        assert_eq!((&result["changed"], bench.read("log")), (&json!(true), told), "{args}: {result}");
        assert_eq!(result["diff"]["prepared"], diff, "{args}");
    }
    let bench = zypper();
    for args in [json!({"name": "hello"}), json!({"name": ["app", "lib"], "state": "absent"}), json!({"name": [""]})] {
        bench.rests("zypper", args);
    }
    for (args, word) in [
        (json!({"name": "none"}), "No provider of '+none' found."),
        (json!({"name": "broken"}), "return code 4"),
        (json!({"name": "+a", "state": "absent"}), "Can not combine '+' prefix"),
        (json!({"name": "a.rpm", "state": "absent"}), "Can not remove via URL"),
        (json!({"name": "a", "state": "dist-upgrade"}), "Can not dist-upgrade specific packages"),
        (json!({}), "missing required arguments: name"),
    ] {
        bench.refuses("zypper", args, word);
    }
    let result = bench.run("zypper", json!({"name": "broken", "simple_errors": true}), false);
    assert_eq!(result["stdout"], "Problem: nothing provides lib");
    let result = bench.run("zypper", json!({"name": "hello", "update_cache": true}), false);
    assert_eq!(result["changed"], false, "{result}");
    assert_eq!(bench.read("log"), "--non-interactive --xmlout --quiet refresh\n");
}

/// A pacman with two packages, one of them newer in its repository.
fn pacman() -> Bench {
    let bench = Bench::new().program(
        "pacman",
        r#"case " $* " in *" --asdeps "*|*" --asexplicit "*) echo "$@" >> $ROOT/log; exit;; esac
print() { case "$1" in
hello) v=2.0-1;; app) echo "lib${2:+ 1.0-1}"; v=1.0-1;; */file*) set -- file "$2"; echo "loading packages..."; v=1.0-1;; *) v=1.0-1;; esac
echo "$1${2:+ $v}"; }
case "$*" in
"--query") printf 'base 1.0-1\nhello 1.0-1\n';;
"--query --upgrades") printf 'hello 1.0-1 -> 2.0-1\nbase 1.0-1 -> 3.0-1 [ignored]\n';;
"--query --explicit") printf 'hello 1.0-1\n';;
"--query --deps") printf 'base 1.0-1\n';;
"--sync --list") printf 'lab app 1.0-1\nlab base 1.0-1 [installed]\nlab g1 1.0-1\nlab g2 1.0-1\nlab hello 2.0-1 [installed: 1.0-1]\nlab lib 1.0-1\n';;
"--sync --groups --groups") printf 'grp g1\ngrp g2\n';;
"--sync --print-format %n "*/file*|*none*) echo "error: target not found: $4" >&2; exit 1;;
*"--remove"*"--print-format %n-%v "*) echo hello-1.0-1;;
*"--print-format %n %v "*) while [ "$1" != "%n %v" ]; do shift; done; shift; for p; do print "$p" v; done;;
*"--print-format %n "*) print "$4";;
*) echo "$@" >> $ROOT/log; echo done;;
esac
"#,
    );
    bench.write("log", "");
    bench
}

#[test]
fn pacman_called_as_requested() {
    let sync = "--noconfirm --noprogressbar --needed";
    for (args, told, packages, diff) in [
        (json!({"name": "app"}), format!("{sync} --sync app\n"), json!(["app", "lib"]), ("", "app-1.0-1\nlib-1.0-1\n")),
        (
            json!({"name": "grp", "extra_args": "--overwrite '*'"}),
            format!("{sync} --overwrite * --sync g1 g2\n"),
            json!(["g1", "g2"]),
            ("", "g1-1.0-1\ng2-1.0-1\n"),
        ),
        (
            json!({"name": "hello", "state": "latest"}),
            format!("{sync} --sync hello\n"),
            json!(["hello"]),
            ("hello-1.0-1-explicit\n", "hello-2.0-1-explicit\n"),
        ),
        (
            json!({"name": "/srv/file.zst"}),
            format!("{sync} --upgrade /srv/file.zst\n"),
            json!(["file"]),
            ("", "file-1.0-1\n"),
        ),
        (
            json!({"name": "lib", "reason": "dependency"}),
            format!("{sync} --sync lib\n--noconfirm --database --asdeps lib\n"),
            json!(["lib"]),
            ("", "lib-1.0-1-dependency\n"),
        ),
        (
            json!({"name": "hello", "reason": "dependency", "reason_for": "all"}),
            "--noconfirm --database --asdeps hello\n".to_owned(),
            json!(["hello"]),
            ("", ""),
        ),
        (
            json!({"name": ["hello", "lib"], "state": "absent", "force": true, "remove_nosave": true}),
            "--remove --noconfirm --noprogressbar --nodeps --nodeps --nosave hello\n".to_owned(),
            json!(["hello-1.0-1"]),
            ("hello-1.0-1\n", ""),
        ),
        (
            json!({"upgrade": true, "upgrade_extra_args": "--quiet"}),
            "--sync --sysupgrade --quiet --noconfirm --quiet\n".to_owned(),
            json!(["hello"]),
            ("hello-1.0-1\n", "hello-2.0-1\n"),
        ),
    ] {
        let bench = pacman();
        for check in [true, false] {
            let result = bench.run("community.general.pacman", args.clone(), check);
            assert_eq!((&result["changed"], &result["packages"]), (&json!(true), &packages), "{args}: {result}");
            assert_eq!(result["diff"], json!({"before": diff.0, "after": diff.1}), "{args}");
            assert_eq!(bench.read("log"), if check { String::new() } else { told.clone() }, "{args}");
        }
    }
    let bench = pacman();
    for args in [
        json!({"name": "hello"}),
        json!({"name": ["lib", "none"], "state": "absent"}),
        json!({"name": "hello", "reason": "dependency"}),
        json!({"name": []}),
    ] {
        bench.rests("pacman", args);
    }
    for (args, word) in [
        (json!({"name": "none"}), "Failed to list package none"),
        (json!({"name": "a", "upgrade": true}), "mutually exclusive"),
        (json!({}), "one of the following is required"),
        (json!({"name": "a", "extra_args": "'"}), "quote"),
    ] {
        bench.refuses("pacman", args, word);
    }
    let result = bench.run("pacman", json!({"update_cache": true, "force": true}), false);
    assert_eq!(
        (&result["cache_updated"], bench.read("log")),
        (&json!(true), "--sync --refresh --refresh\n".to_owned())
    );
}

/// An apk with two packages in its world file, one of them outdated.
fn apk() -> Bench {
    let bench = Bench::new().program(
        "apk",
        r#"all="$*"
while case "$1" in --no-cache) true;; --repository|--repositories-file) shift;; *) false;; esac; do shift; done
case "$*" in
"-v info --description meta") echo "meta-1 description:"; printf 'meta: virtual meta package\n'; exit;;
"-v info --description "*) exit;;
"-v info --depends meta") printf 'meta depends on:\nhello\n'; exit;;
"-v info --installed hello"|"-v info --installed tool") [ ! -e $ROOT/gone ]; exit;;
"-v info --installed needed") exit 0;;
"-v info "*) exit 1;;
"version hello") printf 'Installed:                                Available:\nhello-1.0-r0                            < 1.1-r0 \n'; exit;;
"version "*) printf 'Installed:                                Available:\n'; exit;;
esac
case " $all " in *" --simulate "*) ;; *) echo "$all" >> $ROOT/log; case "$1" in del) touch $ROOT/gone;; esac;; esac
case "$*" in
*none*) echo 'ERROR: unable to select packages'; exit 1;;
upgrade*) [ -e $ROOT/newest ] || echo '(1/1) Upgrading hello (1.0-r0 -> 1.1-r0)';;
*) echo '(1/2) Installing lib (1.0-r0)'; echo '(2/2) Installing app (1.0-r0)';;
esac
echo 'OK: 10 MiB in 17 packages'
"#,
    );
    bench.write("log", "").write("world", "hello tool=1.0\n");
    bench
}

#[test]
fn apk_called_as_requested() {
    for (args, told) in [
        (json!({"name": "app", "world": "@/world"}), "add app\n"),
        (json!({"name": ["hello", "app"], "state": "latest", "world": "@/world"}), "add --upgrade app hello\n"),
        (
            json!({"name": "app", "no_cache": true, "repository": ["http://r"], "world": "@/world"}),
            "--no-cache --repository http://r --repositories-file /dev/null add app\n",
        ),
        (json!({"name": "hello", "state": "absent"}), "del --purge hello\n"),
        (json!({"upgrade": true, "available": true}), "upgrade --available\n"),
    ] {
        let bench = apk();
        assert_eq!(bench.run("community.general.apk", args.clone(), true)["changed"], true, "{args}");
        assert_eq!(bench.read("log"), "", "check mode of {args} changed something");
        let result = bench.run("apk", args.clone(), false);
        assert_eq!((&result["changed"], bench.read("log")), (&json!(true), told.to_owned()), "{args}: {result}");
        assert!(!result["packages"].as_array().unwrap().is_empty(), "{args}: {result}");
    }
    let bench = apk();
    for args in [
        json!({"name": ["hello", "tool"], "world": "@/world"}),
        json!({"name": "tool", "state": "latest", "world": "@/world"}),
        json!({"name": "app", "state": "absent"}),
    ] {
        bench.rests("apk", args);
    }
    for (args, word) in [
        (json!({"name": " "}), "cannot be empty"),
        (json!({"name": "a", "upgrade": true}), "mutually exclusive"),
        (json!({"name": "a", "world": "@/nowhere"}), "could not be read"),
    ] {
        bench.refuses("apk", args, word);
    }
    let result = bench.run("apk", json!({"name": "none", "world": "@/world"}), false);
    assert_eq!(result["msg"], "failed to install ['none']");
    let result = bench.run("apk", json!({"name": "needed", "state": "absent"}), false);
    assert_eq!(result["failed"], true, "what something else needs stays: {result}");
    bench.write("newest", "").write("log", "");
    let result = bench.run("apk", json!({"upgrade": true, "update_cache": true}), false);
    assert_eq!((&result["changed"], bench.read("log")), (&json!(false), "update\nupgrade\n".to_owned()), "{result}");
}

/// Output of dnf 4.23: transaction tables and refusals.
fn dnf_table(heading: &str, rows: &str) -> String {
    format!(
        "Last metadata expiration check: 0:00:07 ago on Sun Nov 22 02:46:52 2026.\nDependencies resolved.\n{line}\n Package           Architecture       Version             Repository       Size\n{line}\n{heading}:\n{rows}\nTransaction Summary\n{line}\nInstall  3 Packages\n\nTotal size: 18 k\nInstalled size: 12  \n",
        line = "=".repeat(80)
    )
}

/// A dnf and an rpm on a host with the packages `app`, `lib` and `hello`, which has a newer and an older version.
fn dnf() -> Bench {
    let bench = Bench::new()
        .program(
            "dnf",
            r#"words=; for word; do case "$word" in --setopt=*) ;; *) words="$words${words:+ }$word";; esac; done
case "$words" in
"-y "*) echo "$words" >> $ROOT/log; echo 'Complete!'; exit 0;;
*none*) echo 'No match for argument: none'; echo 'Error: Unable to find a match: none' >&2; exit 1;;
"--assumeno upgrade hello"|"--assumeno upgrade") cat $ROOT/upgrade;;
"--assumeno install hello-0.9") cat $ROOT/downgrade;;
"--assumeno install new") cat $ROOT/install;;
"--assumeno remove lib") cat $ROOT/remove;;
*) printf 'Dependencies resolved.\nNothing to do.\nComplete!\n'; exit 0;;
esac
echo 'Operation aborted.' >&2; exit 1
"#,
        )
        .program(
            "rpm",
            r#"for word; do last=$word; done
case "$last" in
app|lib) echo $last-1.0-1.noarch;;
hello|hello-1.0) echo hello-1.0-1.noarch;;
*) echo "package $last is not installed"; exit 1;;
esac
"#,
        );
    let install = " new               noarch             1:1.0-1             lab             6.0 k\nInstalling dependencies:\n a-long-name-of-a-package-that-is-needed\n                   noarch             1.0-1               lab             6.0 k\n";
    let remove = " lib             noarch             1.0-1                @lab               4  \nRemoving dependent packages:\n app             noarch             1.0-1                @lab               4  \n";
    let hello = |version: &str| {
        format!(" hello             noarch             {version}-1               lab             6.0 k\n")
    };
    bench.write("log", "");
    bench.write("install", &dnf_table("Installing", install)).write("remove", &dnf_table("Removing", remove));
    bench.write("upgrade", &dnf_table("Upgrading", &hello("2.0")));
    bench.write("downgrade", &dnf_table("Downgrading", &hello("0.9")));
    bench
}

#[test]
fn dnf_simulated_before_change() {
    for (args, told, results) in [
        (
            json!({"name": "new"}),
            "-y install new\n",
            json!(["Installed: a-long-name-of-a-package-that-is-needed-1.0-1.noarch", "Installed: new-1:1.0-1.noarch"]),
        ),
        (
            json!({"name": "hello", "state": "latest"}),
            "-y upgrade hello\n",
            json!(["Installed: hello-2.0-1.noarch", "Removed: hello-1.0-1.noarch"]),
        ),
        (
            json!({"name": "*", "state": "latest"}),
            "-y upgrade\n",
            json!(["Installed: hello-2.0-1.noarch", "Removed: hello-1.0-1.noarch"]),
        ),
        (
            json!({"name": "hello-0.9", "allow_downgrade": true}),
            "-y install hello-0.9\n",
            json!(["Installed: hello-0.9-1.noarch", "Removed: hello-1.0-1.noarch"]),
        ),
        (
            json!({"name": ["lib", "none"], "state": "absent"}),
            "-y remove lib\n",
            json!(["No match for argument: none", "Removed: app-1.0-1.noarch", "Removed: lib-1.0-1.noarch"]),
        ),
    ] {
        let bench = dnf();
        for check in [true, false] {
            let result = bench.run("dnf", args.clone(), check);
            assert_eq!((&result["changed"], &result["results"]), (&json!(true), &results), "{args}: {result}");
            assert_eq!(bench.read("log"), if check { "" } else { told }, "{args}");
        }
    }
    let bench = dnf();
    for args in [
        json!({"name": ["app", "hello-1.0"]}),
        json!({"name": "hello-0.9"}),
        json!({"name": "app", "state": "latest"}),
        json!({"name": "none", "state": "absent"}),
    ] {
        bench.rests("dnf", args);
    }
    let result = bench.refuses("dnf", json!({"name": ["none"]}), "Failed to install some of the specified packages");
    assert_eq!(result["failures"], json!(["No package none available."]));
}
