//! Values that would add options to a command or lines to a file.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod case;

use case::Bench;
use serde_json::json;

#[test]
fn words_resembling_options_refused() {
    let bench = Bench::new();
    for (module, args) in [
        ("apt", json!({ "name": ["bash", "-oDir=/x"] })),
        ("apt", json!({ "deb": "-oDir=/x" })),
        ("dnf", json!({ "name": "--setopt=x" })),
        ("apk", json!({ "name": "--root=/x" })),
        ("pacman", json!({ "name": "--root=/x" })),
        ("snap", json!({ "name": "--dangerous" })),
        ("pip", json!({ "name": "--index-url=http://evil/" })),
        ("npm", json!({ "name": "--prefix=/x" })),
        ("gem", json!({ "name": "--install-dir=/x" })),
        ("git_config", json!({ "name": "--file=/x", "value": "x" })),
        ("subversion", json!({ "repo": "--config-option=x", "dest": "@/x" })),
        ("user", json!({ "name": "--root=/x" })),
        ("group", json!({ "name": "--root=/x" })),
        ("service", json!({ "name": "--root=/x", "state": "started" })),
        ("systemd", json!({ "name": "--root=/x", "state": "started" })),
        ("hostname", json!({ "name": "--root=/x" })),
        ("timezone", json!({ "name": "--root=/x" })),
        ("modprobe", json!({ "name": "--dirname=/x" })),
        ("getent", json!({ "database": "passwd", "key": "--service=x" })),
        ("alternatives", json!({ "name": "--altdir=/x", "path": "/x" })),
        ("filesystem", json!({ "dev": "--x", "fstype": "ext4" })),
        ("lvg", json!({ "vg": "--config=x", "pvs": "/dev/null" })),
        ("helm", json!({ "name": "--x", "release_namespace": "x", "chart_ref": "x" })),
        ("helm_repository", json!({ "name": "x", "repo_url": "--x" })),
    ] {
        let result = bench.run(module, args.clone(), false);
        assert_eq!(result["failed"], true, "{module} {args}: {result}");
        let message = result["msg"].as_str().unwrap();
        assert!(message.contains("must not begin with '-'"), "{module} {args}: {message}");
    }
}

#[test]
fn values_that_would_be_further_lines_are_refused() {
    let bench = Bench::new();
    let jobs = |extra: serde_json::Value| {
        let mut args = json!({ "name": "x", "job": "/bin/x", "user": "root", "cron_file": "@/jobs" });
        args.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        args
    };
    for (module, args) in [
        ("cron", jobs(json!({ "name": "x\n* * * * * root evil" }))),
        ("cron", jobs(json!({ "job": "x\n* * * * * root evil" }))),
        ("cron", jobs(json!({ "minute": "0 * * * * root evil\n1" }))),
        ("cron", jobs(json!({ "user": "root\n* * * * * root evil" }))),
        ("user", json!({ "name": "x", "comment": "x\nroot::0:0::/:/bin/sh" })),
        ("user", json!({ "name": "x", "password": "$6$x\nroot:$6$y" })),
        ("hostname", json!({ "name": "a\nb" })),
        ("sysctl", json!({ "name": "a.b", "value": "1\nkernel.core_pattern=|/x", "sysctl_file": "@/sysctl" })),
        ("mount", json!({ "path": "/x\n/dev/x /etc ext4", "state": "absent", "fstab": "@/fstab" })),
        (
            "pam_limits",
            json!({ "domain": "x\n* hard core 1", "limit_type": "hard", "limit_item": "core", "value": "1", "dest": "@/limits" }),
        ),
        ("sudoers", json!({ "name": "x", "user": "bob\nALL ALL=(ALL) ALL", "commands": "/bin/x" })),
        (
            "authorized_key",
            json!({ "user": "root", "key": "ssh-ed25519 AAAA", "comment": "x\nssh-ed25519 EVIL", "path": "@/keys" }),
        ),
        (
            "authorized_key",
            json!({ "user": "root", "key": "ssh-ed25519 AAAA", "key_options": "no-pty\nssh-ed25519 EVIL", "path": "@/keys" }),
        ),
        ("known_hosts", json!({ "name": "h\nevil", "key": "h ssh-ed25519 AAAA", "path": "@/known" })),
        ("dpkg_selections", json!({ "name": "x\nlibc6 deinstall", "selection": "hold" })),
        ("debconf", json!({ "name": "x", "question": "q\ny", "vtype": "string", "value": "v" })),
        ("apt_repository", json!({ "repo": "deb http://x y z\ndeb http://evil y z" })),
    ] {
        let result = bench.run(module, args.clone(), false);
        assert_eq!(result["failed"], true, "{module} {args}: {result}");
        let message = result["msg"].as_str().unwrap();
        assert!(message.contains("must be one line"), "{module} {args}: {message}");
        assert!(!message.contains("$6$"), "{message}");
    }
    let spaced = bench.run("cron", jobs(json!({ "user": "root evil" })), false);
    assert!(spaced["msg"].as_str().unwrap().contains("must be one word"), "{spaced}");
    assert_eq!(bench.snapshot().len(), 0);
}

#[test]
fn helm_repository_password_passed_on_standard_input() {
    let bench = Bench::new().program(
        "helm",
        "case \"$2\" in list) echo 'Error: no repositories to show' >&2; exit 1;; esac\nprintf '%s\\n' \"$*\" > $ROOT/words; cat > $ROOT/input\n",
    );
    let args = json!({ "name": "r", "repo_url": "https://charts/", "username": "me", "password": "hunter22" });
    let result = bench.run_as_it_is("helm_repository", &args, false);
    assert_eq!(result["changed"], true, "{result}");
    assert_eq!(bench.read("input"), "hunter22\n");
    assert!(bench.read("words").contains("--username=me --password-stdin"), "{}", bench.read("words"));
    assert!(!bench.read("words").contains("hunter22") && !result.to_string().contains("hunter22"), "{result}");
    assert!(result["command"].as_str().unwrap().contains("--password=******"), "{result}");
    // Credentials in the URL are passed the same way.
    let args = json!({ "name": "r", "repo_url": "https://u:in-the-url@charts/" });
    let result = bench.run_as_it_is("helm_repository", &args, false);
    assert_eq!(bench.read("input"), "in-the-url\n");
    assert!(bench.read("words").contains("https://charts/ --username=u"), "{}", bench.read("words"));
    assert!(!result.to_string().contains("in-the-url"), "{result}");
}
