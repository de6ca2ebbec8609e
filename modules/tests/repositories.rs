//! Modules for package repositories, with files in temporary directories and programs that only record their calls.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt};

use case::Bench;
use serde_json::{Value, json};
use windlass_modules::{Host, registry, run};

/// Installs a script that the host finds first.
fn program(bench: &Bench, name: &str, script: &str) {
    let name = format!("bin/{name}");
    let log = bench.path("log").display().to_string();
    bench.write(&name, &format!("#!/bin/sh\necho \"${{0##*/}} $*\" >> {log}\n{script}\n"));
    std::fs::set_permissions(bench.path(&name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn ask(bench: &Bench, module: &str, args: Value, check: bool) -> Value {
    let path = format!("{}:/usr/bin:/bin", bench.path("bin").display());
    let host =
        Host::alone().with_check(check).with_diff(true).with_environment(BTreeMap::from([("PATH".to_owned(), path)]));
    run(registry::find(module).unwrap(), &args, &host)
}

/// Calls of the programs since the last look, without the queries.
fn told(bench: &Bench, questions: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(bench.path("log")).unwrap_or_default();
    let _ = std::fs::remove_file(bench.path("log"));
    text.lines().filter(|line| !questions.iter().any(|question| line.contains(question))).map(str::to_owned).collect()
}

#[test]
fn yum_repository_written_as_section() {
    let bench = Bench::new();
    bench.write("repos/mine.repo", "# kept\n[other]\nname = Other\nbaseurl = http://o\n");
    let args = json!({"name": "epel", "description": "EPEL", "file": "mine", "reposdir": "@/repos", "baseurl": ["http://a", "http://b"], "gpgcheck": true, "exclude": ["x", "y"], "mode": "0640"});
    let result = bench.converges("yum_repository", args);
    assert_eq!((&result["repo"], &result["state"]), (&json!("epel"), &json!("present")));
    assert_eq!(
        bench.read("repos/mine.repo"),
        "# kept\n[other]\nname = Other\nbaseurl = http://o\n\n[epel]\nbaseurl = http://a\n\thttp://b\nexclude = x y\ngpgcheck = 1\nname = EPEL\n\n"
    );
    assert_eq!(bench.mode("repos/mine.repo"), 0o640);
    assert!(result["diff"]["after"].as_str().unwrap().contains("[epel]\nbaseurl = http://a\nhttp://b\n"), "{result}");
    let absent = |name: &str| json!({"name": name, "file": "mine", "reposdir": "@/repos", "state": "absent"});
    bench.converges("yum_repository", absent("epel"));
    bench.converges("yum_repository", absent("other"));
    assert!(!bench.path("repos/mine.repo").exists());
    for (args, word) in [
        (json!({"name": "x", "description": "X", "reposdir": "@/repos"}), "any of the following are missing: baseurl"),
        (json!({"name": "x", "baseurl": "http://a", "reposdir": "@/repos"}), "description"),
        (json!({"name": "x", "description": "X", "baseurl": "http://a", "reposdir": "@/none"}), "does not exist"),
        (json!({"name": "x", "description": "X", "baseurl": "http://a", "keepcache": "2"}), "must be one of"),
    ] {
        bench.refuses("yum_repository", args, word);
    }
}

#[test]
fn apt_repository_written_as_line() {
    if !windlass_testing::has("apt-config") {
        return;
    }
    let bench = Bench::new();
    let (list, parts) = (bench.path("sources.list"), bench.path("parts"));
    bench.write("sources.list", "deb http://a b c\n").write("parts/keep.list", "# nothing\n");
    program(
        &bench,
        "apt-config",
        &format!("echo \"list='{}'\"; echo \"parts='{}/'\"", list.display(), parts.display()),
    );
    program(&bench, "apt-get", "exit 0");
    let args = |repo: &str, state: &str| json!({"repo": repo, "state": state, "mode": "0600"});
    let added = bench.path("parts/example_org_debian.list");
    let repo = "deb [arch=amd64]  http://example.org/debian  stable main";
    let before = bench.snapshot();
    let predicted = ask(&bench, "apt_repository", args(repo, "present"), true);
    assert_eq!((&predicted["changed"], &predicted["sources_added"]), (&json!(true), &json!([added])), "{predicted}");
    told(&bench, &[]);
    assert_eq!(bench.snapshot(), before);
    assert_eq!(ask(&bench, "apt_repository", args(repo, "present"), false)["changed"], true);
    assert_eq!(bench.read("parts/example_org_debian.list"), "deb [arch=amd64] http://example.org/debian stable main\n");
    assert_eq!(bench.mode("parts/example_org_debian.list"), 0o600);
    assert_eq!(told(&bench, &["apt-config"]), ["apt-get update -q"]);
    assert_eq!(ask(&bench, "apt_repository", args(repo, "present"), false)["changed"], false);
    // A folded YAML text ends with a line break.
    assert_eq!(ask(&bench, "apt_repository", args(&format!("{repo}\n"), "present"), false)["changed"], false);
    let removed = ask(&bench, "apt_repository", args(repo, "absent"), false);
    assert_eq!((&removed["sources_removed"], added.exists()), (&json!([added]), false), "{removed}");
    // If the lists cannot be updated, the old sources are restored.
    program(&bench, "apt-get", "echo 'E: no such release' >&2; exit 100");
    let mut broken = args(repo, "present");
    broken["update_cache_retries"] = json!(1);
    let result = ask(&bench, "apt_repository", broken, false);
    assert!(result["msg"].as_str().unwrap().contains("E: no such release"), "{result}");
    assert!(!added.exists());
    for repo in ["", "nonsense", "#deb http://a b c"] {
        assert_eq!(ask(&bench, "apt_repository", args(repo, "present"), false)["failed"], true, "{repo}");
    }
}

#[test]
fn selections_answers_and_rules_set_only_if_different() {
    let bench = Bench::new();
    program(
        &bench,
        "dpkg",
        "case $1 in --get-selections) [ $2 = known ] && printf 'known\\t\\tinstall\\n';; *) cat > /dev/null;; esac; exit 0",
    );
    let hold = |name: &str| json!({"name": name, "selection": "hold"});
    let result = ask(&bench, "dpkg_selections", hold("known"), false);
    assert_eq!(
        (&result["changed"], &result["before"], &result["after"]),
        (&json!(true), &json!("install"), &json!("hold"))
    );
    assert_eq!(told(&bench, &["--get-selections"]), ["dpkg --set-selections"]);
    assert_eq!(
        ask(&bench, "dpkg_selections", json!({"name": "known", "selection": "install"}), false)["changed"],
        false
    );
    assert!(
        ask(&bench, "dpkg_selections", hold("new"), true)["msg"].as_str().unwrap().contains("Failed to find package")
    );

    program(&bench, "debconf-show", "echo '* tzdata/Areas: Etc'");
    program(&bench, "debconf-set-selections", "cat");
    let answer = |value: &str| json!({"name": "tzdata", "question": "tzdata/Areas", "vtype": "select", "value": value});
    told(&bench, &[]);
    assert_eq!(ask(&bench, "debconf", answer("Etc"), false)["changed"], false);
    let result = ask(&bench, "debconf", answer("Europe"), false);
    assert_eq!(
        (&result["msg"], &result["current"]),
        (&json!("tzdata tzdata/Areas select Europe"), &json!({"tzdata/Areas": "Europe"})),
        "{result}"
    );
    assert_eq!(result["previous"], json!({"tzdata/Areas": "Etc"}));
    assert_eq!(told(&bench, &["show"]), ["debconf-set-selections "]);

    program(
        &bench,
        "iptables",
        "case \"$*\" in *' -C '*) exit 1;; *' -L '*) echo 'Chain INPUT (policy ACCEPT)';; esac",
    );
    let rule = |more: Value| {
        let mut args = json!({"chain": "INPUT", "protocol": "tcp", "destination_port": "22", "jump": "ACCEPT"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    assert_eq!(ask(&bench, "iptables", rule(json!({})), true)["changed"], true);
    assert!(told(&bench, &[" -C "]).is_empty());
    let result = ask(&bench, "iptables", rule(json!({"action": "insert", "rule_num": "3"})), false);
    assert_eq!(result["rule"], "-p tcp -j ACCEPT --destination-port 22");
    assert_eq!(told(&bench, &[" -C "]), ["iptables -t filter -I INPUT 3 -p tcp -j ACCEPT --destination-port 22"]);
    assert_eq!(ask(&bench, "iptables", rule(json!({"state": "absent"})), false)["changed"], false);
    assert_eq!(ask(&bench, "iptables", json!({"chain": "INPUT", "policy": "ACCEPT"}), false)["changed"], false);
    assert_eq!(ask(&bench, "iptables", json!({"chain": "INPUT", "policy": "DROP"}), false)["changed"], true);
    assert_eq!(ask(&bench, "iptables", json!({"flush": true}), false)["changed"], true);
    assert_eq!(told(&bench, &[" -C ", " -L "]), ["iptables -t filter -P INPUT DROP", "iptables -t filter -F"]);
    for bad in [
        json!({}),
        json!({"chain": "INPUT", "log_prefix": "x", "jump": "DROP"}),
        json!({"chain": "INPUT", "jump": "TEE"}),
    ] {
        assert_eq!(ask(&bench, "iptables", bad, false)["failed"], true);
    }
}

#[test]
fn pip_packages_installed_with_requested_pip() {
    let bench = Bench::new();
    program(
        &bench,
        "mypip",
        "case $1 in list) printf 'Foo_Bar==1.5\\nother==2.0\\n';; install) echo 'Successfully installed x';; uninstall) echo 'WARNING: Skipping x as it is not installed.';; esac",
    );
    let pip = |more: Value| {
        let mut args = json!({"executable": bench.path("bin/mypip")});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    for (args, changes) in [
        (json!({"name": "foo-bar"}), false),
        (json!({"name": ["foo.bar>=1.4,<2", "other"]}), false),
        (json!({"name": "foo-bar", "version": "1.6"}), true),
        (json!({"name": "new"}), true),
        (json!({"name": "new", "state": "absent"}), false),
        (json!({"name": "other", "state": "absent"}), true),
        (json!({"name": "other", "state": "latest"}), true),
    ] {
        let result = ask(&bench, "pip", pip(args.clone()), true);
        assert_eq!(result["changed"], changes, "{args}: {result}");
    }
    assert!(told(&bench, &[" list "]).is_empty());
    let result =
        ask(&bench, "pip", pip(json!({"name": ["a", "b"], "extra_args": "-i 'http://x y'", "umask": "0077"})), false);
    assert_eq!(result["changed"], true, "{result}");
    assert_eq!(told(&bench, &[" list "]), ["mypip install -i http://x y a b"]);
    assert_eq!(ask(&bench, "pip", pip(json!({"name": "x", "state": "absent"})), false)["changed"], false);
    for (args, word) in [
        (json!({}), "one of the following is required"),
        (json!({"name": "a", "version": "1", "state": "latest"}), "incompatible"),
        (json!({"name": "a", "umask": "9"}), "octal"),
        (json!({"name": "a", "virtualenv": "/x"}), "mutually exclusive"),
    ] {
        let result = ask(&bench, "pip", pip(args), false);
        assert!(result["msg"].as_str().unwrap().contains(word), "{result}");
    }
    let result = ask(&bench, "pip", json!({"name": "a", "executable": "/no/pip"}), false);
    assert!(result["msg"].as_str().unwrap().contains("pip needs to be installed"), "{result}");
}

#[test]
fn limits_and_sudo_rules_written_as_lines() {
    let bench = Bench::new();
    bench.write("limits", "# mine\nstaff\thard\tnofile\t100\n*\tsoft\tcore\t0 # none\n").write("sudoers/other", "");
    let limit = |domain: &str, item: &str, value: &str, more: Value| {
        let mut args =
            json!({"domain": domain, "limit_type": "hard", "limit_item": item, "value": value, "dest": "@/limits"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    let result = bench.converges("pam_limits", limit("staff", "nofile", "200", json!({"comment": "more"})));
    assert_eq!(result["msg"], "staff\thard\tnofile\t200\t#more\n");
    bench.rests("pam_limits", limit("staff", "nofile", "150", json!({"use_max": true})));
    bench.converges("pam_limits", limit("app", "nproc", "unlimited", json!({})));
    assert!(bench.read("limits").ends_with("*\tsoft\tcore\t0 # none\napp\thard\tnproc\tunlimited\n"));
    for (args, word) in [
        (limit("a", "nofile", "many", json!({})), "must either be 'unlimited'"),
        (limit("a", "nofile", "1", json!({"use_max": true, "use_min": true})), "at the same time"),
        (limit("a", "nothing", "1", json!({})), "must be one of"),
    ] {
        bench.refuses("pam_limits", args, word);
    }

    let rule = |more: Value| {
        let mut args = json!({"name": "backup", "sudoers_path": "@/sudoers", "validation": "absent"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    bench.converges(
        "sudoers",
        rule(json!({"user": "ada", "commands": ["/bin/a", "/bin/b -x"], "runas": "root", "noexec": true})),
    );
    assert_eq!(bench.read("sudoers/backup"), "ada ALL=(root)NOEXEC:NOPASSWD: /bin/a, /bin/b -x\n");
    assert_eq!(bench.mode("sudoers/backup"), 0o440);
    bench.converges(
        "sudoers",
        rule(json!({"group": "ops", "commands": "ALL", "nopassword": false, "setenv": true, "host": "web"})),
    );
    assert_eq!(bench.read("sudoers/backup"), "%ops web=SETENV: ALL\n");
    bench.refuses("sudoers", rule(json!({"commands": "ALL"})), "one of user, group is required");
    bench.refuses("sudoers", rule(json!({"user": "a", "group": "b", "commands": "ALL"})), "mutually exclusive");
    bench.refuses("sudoers", rule(json!({"user": "a"})), "commands");
    bench.converges("sudoers", rule(json!({"state": "absent"})));

    program(&bench, "getcap", "echo \"$2 cap_chown,cap_net_raw=ep\"");
    program(&bench, "setcap", "");
    let capability = |text: &str, state: &str| json!({"path": "/bin/x", "capability": text, "state": state});
    assert_eq!(ask(&bench, "capabilities", capability("cap_net_raw+ep", "present"), false)["changed"], false);
    assert_eq!(ask(&bench, "capabilities", capability("cap_net_raw+p", "present"), false)["changed"], true);
    assert_eq!(ask(&bench, "capabilities", capability("cap_chown", "absent"), false)["changed"], true);
    assert_eq!(told(&bench, &["getcap"]), ["setcap cap_chown=ep cap_net_raw+p /bin/x", "setcap cap_net_raw=ep /bin/x"]);
    assert_eq!(ask(&bench, "capabilities", capability("cap_chown", "present"), true)["failed"], true);
}

#[test]
fn apt_lists_without_newer_ones_unchanged() {
    if !windlass_testing::has("apt-config") {
        return;
    }
    let bench = Bench::new();
    program(&bench, "apt-get", "exit 0");
    let args = json!({"update_cache": true});
    assert_eq!(ask(&bench, "apt", args.clone(), true)["changed"], true);
    let result = ask(&bench, "apt", args, false);
    assert_eq!((&result["changed"], &result["cache_updated"]), (&json!(false), &json!(false)), "{result}");
    assert_eq!(told(&bench, &["dpkg"]), ["apt-get update -q"]);
}
