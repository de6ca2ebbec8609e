//! `windlass explain`: what it explains is what a run does.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A project in its own directory.
struct Project(TempDir);

impl Project {
    fn new(files: &[(&str, &str)]) -> Project {
        let project = Project(tempfile::tempdir().unwrap());
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn windlass(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(words)
            .current_dir(self.path())
            .env("HOME", self.path())
            .env("WINDLASS_JOURNAL_DIR", self.path().join("journals"))
            .env("NO_COLOR", "1")
            .env_remove("ANSIBLE_CONFIG")
            .env_remove("SSH_AUTH_SOCK")
            .output()
            .unwrap()
    }

    /// Standard output of a successful explanation.
    fn explain(&self, words: &[&str]) -> String {
        let output = self.windlass(&[&["explain"], words].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.explain(&[words, &["--format", "json"]].concat())).unwrap()
    }

    /// Standard error of a refused explanation.
    fn refused(&self, words: &[&str]) -> String {
        let output = self.windlass(&[&["explain"], words].concat());
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Files and options that set the variable `v` at one level each, highest precedence first. `{}` stands for the line.
struct Level {
    /// Level as the explanation names it.
    word: &'static str,
    file: &'static str,
    /// Text with the variable, and without it.
    with: &'static str,
    without: &'static str,
}

const fn level(word: &'static str, file: &'static str, with: &'static str, without: &'static str) -> Level {
    Level { word, file, with, without }
}

const LEVELS: &[Level] = &[
    level("extra_vars", "extra.yml", "v: l0\n", "{}\n"),
    level(
        "include_parameters",
        "roles/r/tasks/main.yml",
        "- include_tasks: inner.yml\n  vars: {v: l1}\n",
        "- include_tasks: inner.yml\n",
    ),
    level(
        "role_parameters",
        "site.yml",
        "- hosts: web\n  gather_facts: false\n  vars_files: [files.yml]\n  vars: {v: l9}\n  roles: [{role: r, v: l2, vars: {v: l5}}]\n",
        "- hosts: web\n  gather_facts: false\n  vars_files: [files.yml]\n  vars: {v: l9}\n  roles: [{role: r, vars: {v: l5}}]\n",
    ),
    level(
        "task_vars",
        "roles/r/tasks/inner.yml",
        "- block:\n    - name: Show\n      debug: {msg: 'v={{ v }}.'}\n      vars: {v: l3}\n  vars: {v: l4}\n",
        "- block:\n    - name: Show\n      debug: {msg: 'v={{ v }}.'}\n  vars: {v: l4}\n",
    ),
    level(
        "block_vars",
        "roles/r/tasks/inner.yml",
        "",
        "- block:\n    - name: Show\n      debug: {msg: 'v={{ v }}.'}\n",
    ),
    level(
        "role_entry_vars",
        "site.yml",
        "",
        "- hosts: web\n  gather_facts: false\n  vars_files: [files.yml]\n  vars: {v: l9}\n  roles: [r]\n",
    ),
    level("role_vars", "roles/r/vars/main.yml", "v: l6\n", "{}\n"),
    level("vars_files", "files.yml", "v: l7\n", "{}\n"),
    level(
        "play_vars",
        "site.yml",
        "",
        "- hosts: web\n  gather_facts: false\n  vars_files: [files.yml]\n  roles: [r]\n",
    ),
    level(
        "facts",
        "cache/s1_web1",
        "{\"__payload__\": \"{\\\"v\\\": \\\"l10\\\", \\\"_windlass_free\\\": []}\"}",
        "{\"__payload__\": \"{}\"}",
    ),
    level("host_vars", "host_vars/web1.yml", "v: l11\n", "{}\n"),
    level("host_vars", "inventory/host_vars/web1.yml", "v: l12\n", "{}\n"),
    level(
        "inventory_host",
        "inventory/hosts.yml",
        "all:\n  vars: {v: l19}\n  children:\n    web:\n      vars: {v: l18}\n      hosts: {web1: {ansible_connection: local, v: l13}}\n",
        "all:\n  vars: {v: l19}\n  children:\n    web:\n      vars: {v: l18}\n      hosts: {web1: {ansible_connection: local}}\n",
    ),
    level("group_vars", "group_vars/web.yml", "v: l14\n", "{}\n"),
    level("group_vars", "inventory/group_vars/web.yml", "v: l15\n", "{}\n"),
    level("group_vars", "group_vars/all.yml", "v: l16\n", "{}\n"),
    level("group_vars", "inventory/group_vars/all.yml", "v: l17\n", "{}\n"),
    level(
        "inventory_group",
        "inventory/hosts.yml",
        "",
        "all:\n  vars: {v: l19}\n  children:\n    web:\n      hosts: {web1: {ansible_connection: local}}\n",
    ),
    level(
        "inventory_group",
        "inventory/hosts.yml",
        "",
        "all:\n  children:\n    web:\n      hosts: {web1: {ansible_connection: local}}\n",
    ),
    level("role_defaults", "roles/r/defaults/main.yml", "v: l20\n", "{}\n"),
];

#[test]
fn every_level_explained_as_the_run_resolves_it() {
    let project = Project::new(&[(
        "ansible.cfg",
        "[defaults]\nfact_caching = jsonfile\nfact_caching_connection = cache\ngathering = explicit\n",
    )]);
    for level in LEVELS.iter().filter(|level| !level.with.is_empty()) {
        project.write(level.file, level.with);
    }
    let common = ["-i", "inventory/hosts.yml", "-e", "@extra.yml"];
    for (index, level) in LEVELS.iter().enumerate() {
        let words = ["var", "web1", "v", "--playbook", "site.yml", "--task", "Show"];
        let json = project.json(&[&words[..], &common].concat());
        let found = &json["explanations"][0];
        assert_eq!(found["level"], level.word, "level {index}: {found:#}");
        let value = found["value"].as_str().unwrap();
        let output = project.windlass(&[&["playbook", "site.yml"], &common[..]].concat());
        let output = String::from_utf8(output.stdout).unwrap();
        assert!(output.contains(&format!("\"v={value}.\"")), "level {index}, explained {value}: {output}");
        let shadowed: Vec<&str> =
            found["shadowed"].as_array().unwrap().iter().map(|one| one["level"].as_str().unwrap()).collect();
        let rest: Vec<&str> = LEVELS.iter().skip(index + 1).map(|level| level.word).collect();
        assert_eq!(shadowed, rest, "level {index}");
        if !matches!(level.word, "facts" | "extra_vars") {
            assert_eq!(found["place"]["line"].as_u64().map(|line| line > 0), Some(true), "level {index}: {found:#}");
        }
        project.write(level.file, level.without);
    }
    let error = project.refused(&["var", "web1", "v", "-i", "inventory/hosts.yml", "-e", "@extra.yml"]);
    assert!(error.contains("the variable `v` is undefined on web1"), "{error}");
}

const HOSTS: &str = "\
all:
  vars:
    domain: example.org
  children:
    europe:
      children:
        web:
          hosts:
            web1:
              ansible_host: 10.0.0.5
              http_port: 8080
            web2:
          vars:
            ansible_user: deploy
";

#[test]
fn templating_shown_step_by_step_with_places() {
    let project = Project::new(&[
        ("hosts.yml", HOSTS),
        (
            "group_vars/web.yml",
            "mirror: 'https://{{ registry }}/v2'\nregistry: '{{ short }}.{{ domain }}'\nshort: reg\n",
        ),
    ]);
    let text = project.explain(&["var", "-i", "hosts.yml", "web1", "mirror"]);
    let expected = "\
mirror on web1
  value     \"https://reg.example.org/v2\"
  from      group_vars of web beside the playbook, group_vars/web.yml:1:1
  secret    no
  templating
    \"https://{{ registry }}/v2\"
      registry = \"{{ short }}.{{ domain }}\"  (group_vars of web beside the playbook, group_vars/web.yml:2:1)
        domain = \"example.org\"  (group all in the inventory, hosts.yml:3:5)
        short = \"reg\"  (group_vars of web beside the playbook, group_vars/web.yml:3:1)
        -> \"reg.example.org\"
      -> \"https://reg.example.org/v2\"
";
    assert_eq!(text, expected);
}

#[test]
fn variable_that_refers_to_itself_explained_once() {
    let project = Project::new(&[("hosts", "web1 a='{{ b }}' b='{{ a }}'\n")]);
    let text = project.explain(&["var", "-i", "hosts", "web1", "a"]);
    assert!(text.contains("Recursive loop detected") && text.lines().count() < 12, "{text}");
}

#[test]
fn values_replaced_by_later_sources_and_options_are_listed() {
    let project = Project::new(&[("a.ini", "web1 v=first\n"), ("b.ini", "web1 v=second\n")]);
    let words = ["var", "web1", "v", "-i", "a.ini", "-i", "b.ini", "-e", "v=third", "-e", "v=fourth"];
    let json = project.json(&words);
    let found = &json["explanations"][0];
    assert_eq!(found["value"], "fourth");
    let shadowed: Vec<(&str, &Value)> = found["shadowed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["written"].as_str().unwrap(), &one["place"]["line"]))
        .collect();
    assert_eq!(shadowed, [("third", &Value::Null), ("second", &Value::from(1)), ("first", &Value::from(1))]);
}

#[test]
fn secret_masked_with_everything_built_from_it() {
    let project = Project::new(&[
        ("password", "open sesame\n"),
        ("plain.yml", "filed: hunter2-filed\n"),
        ("hosts", "web1 ansible_become_password=hunter2-become\n"),
    ]);
    let encrypt =
        ["vault", "encrypt_string", "--vault-password-file", "password", "hunter2-inline", "--name", "inline"];
    let output = project.windlass(&encrypt);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let inline = String::from_utf8(output.stdout).unwrap();
    project.write(
        "group_vars/all/vars.yml",
        &format!(
            "{inline}\ndsn: 'pg://{{{{ inline }}}}@{{{{ filed }}}}'\nlogin: '{{{{ ansible_become_password }}}}'\n"
        ),
    );
    let output = project.windlass(&["vault", "encrypt", "--vault-password-file", "password", "plain.yml"]);
    assert!(output.status.success());
    fs::rename(project.path().join("plain.yml"), project.path().join("group_vars/all/vault.yml")).unwrap();
    for (name, reason) in [
        ("inline", "encrypted in its file"),
        ("filed", "encrypted in its file"),
        ("dsn", "built from `filed`"),
        ("ansible_become_password", "a password"),
        ("login", "built from `ansible_become_password`"),
    ] {
        for format in ["text", "json"] {
            let words = ["var", "-i", "hosts", "web1", name, "--vault-password-file", "password", "--format", format];
            let text = project.explain(&words);
            assert!(text.contains(reason) && text.contains("********"), "{name}: {text}");
            assert!(!text.contains("hunter2"), "{name}: {text}");
        }
    }
    let text = project.explain(&["host", "-i", "hosts", "web1", "--become", "--vault-password-file", "password"]);
    assert!(text.contains("********") && !text.contains("hunter2"), "{text}");
    project.write(
        "site.yml",
        "- hosts: all\n  tasks:\n    - name: Guarded\n      debug: {msg: x}\n      when: login == 'x'\n",
    );
    let words = ["when", "-i", "hosts", "site.yml", "web1", "Guarded", "--vault-password-file", "password"];
    for format in ["text", "json"] {
        let text = project.explain(&[&words[..], &["--format", format]].concat());
        assert!(text.contains("********") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn misspelt_names_get_suggestions() {
    let project = Project::new(&[
        ("hosts.yml", HOSTS),
        ("site.yml", "- hosts: web\n  tasks:\n    - name: Install nginx\n      debug: {msg: x}\n"),
    ]);
    for (words, problem, hint) in [
        (&["var", "web1", "http_prt"][..], "the variable `http_prt` is undefined on web1", "did you mean `http_port`?"),
        (&["var", "wbe1", "http_port"], "there is no host `wbe1`", "did you mean `web1`?"),
        (&["host", "web"], "`web` is a group, not a host", ""),
        (&["when", "site.yml", "web1", "Instal ngnix"], "there is no task `Instal ngnix`", "`Install nginx`?"),
        (
            &["var", "web2", "http_port"],
            "the variable `http_port` is undefined on web2",
            "the inventory sets it for web1",
        ),
        (&["host", "wbe2"], "there is no host `wbe2`", "did you mean `web2`?"),
        (
            &["when", "site.yml", "web1", "Restart nginx service"],
            "there is no task `Restart nginx service`",
            "tasks with similar names: `Install nginx`",
        ),
    ] {
        let error = project.refused(&[words, &["-i", "hosts.yml"]].concat());
        assert!(error.contains(problem) && error.contains(hint), "{words:?}: {error}");
    }
    let explain = |words: [&str; 2]| project.explain(&[&["var", "-i", "hosts.yml"], &words[..]].concat());
    assert_eq!(explain(["http_port", "web1"]), explain(["web1", "http_port"]), "one word alone is a host");
}

#[test]
fn documentation_suggests_names_of_other_types() {
    let project = Project::new(&[]);
    for (words, hint) in [
        (&["when"][..], "see `windlass doc -t keyword when`"),
        (&["copi"], "did you mean `copy`?"),
        (&["-t", "filter", "combin"], "did you mean `combine`?"),
        (&["-t", "filter", "copy"], "see `windlass doc copy`"),
    ] {
        let output = project.windlass(&[&["doc"], words].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("was not found") && text.contains(hint), "{words:?}: {text}");
    }
}

#[test]
fn undefined_variable_in_template_is_not_unknown() {
    let project = Project::new(&[("hosts.yml", HOSTS), ("group_vars/web.yml", "shade: '{{ colour }}'\n")]);
    let text = project.explain(&["var", "-i", "hosts.yml", "web1", "shade"]);
    assert!(text.contains("      colour = undefined  (not defined)\n"), "{text}");
    assert!(!text.contains("unknown"), "{text}");
}

#[test]
fn task_found_by_any_of_its_lines() {
    let playbook = "\
- hosts: web
  tasks:
    - name: One
      debug:
        msg: |
          a

          b
      when: http_port is defined
    # About the other.
    - {name: Other,
       debug: }
    - block:
        -
          name: Inner
          debug:
      when: true
";
    let project = Project::new(&[("hosts.yml", HOSTS), ("site.yml", playbook)]);
    let found =
        |line: usize| ["when", "-i", "hosts.yml", "site.yml", "web1", &format!("site.yml:{line}")].map(str::to_owned);
    for (lines, name) in
        [(3..=9, "One (site.yml:3:"), (11..=12, "Other (site.yml:11:"), (15..=16, "Inner (site.yml:15:")]
    {
        for line in lines {
            let words = found(line);
            let text = project.explain(&words.each_ref().map(String::as_str));
            assert!(text.starts_with(name), "line {line}: {text}");
        }
    }
    for line in [1, 2, 13, 17, 18] {
        let error = project.refused(&found(line).each_ref().map(String::as_str));
        assert!(error.contains(&format!("there is no task `site.yml:{line}`")), "{error}");
    }
}

#[test]
fn host_explained_with_sources_of_groups_and_connection() {
    let project = Project::new(&[
        ("hosts.yml", HOSTS),
        ("group_vars/web.yml", "ansible_ssh_common_args: -o ProxyJump=me@bastion:2222\n"),
        ("ansible.cfg", "[defaults]\nprivate_key_file = keys/id\n[privilege_escalation]\nbecome_user = admin\n"),
        (".ssh/config", "Host 10.0.0.5\n  Port 2201\n"),
        ("site.yml", "- hosts: web\n  become: true\n  remote_user: ignored\n"),
    ]);
    let json = project.json(&["host", "-i", "hosts.yml", "web1", "--playbook", "site.yml", "--become-method", "su"]);
    let groups: Vec<(&str, &str, u64)> = json["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            let reason = &group["reasons"][0];
            let via = reason["via"].as_str().unwrap_or_default();
            (group["name"].as_str().unwrap(), via, reason["place"]["line"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(groups, [("all", "europe", 5), ("europe", "web", 7), ("web", "", 9)]);
    let connection = &json["connections"][0];
    let of = |section: &str, name: &str| {
        let found = connection[section].as_array().unwrap().iter().find(|one| one["name"] == name);
        let found = found.unwrap_or_else(|| panic!("{name}: {connection:#}"));
        let value = found["value"].as_str().map_or_else(|| found["value"].to_string(), str::to_owned);
        (value, found["source"].as_str().unwrap().to_owned(), found["place"]["line"].as_u64())
    };
    let pair = |value: &str, source: &str, line| (value.to_owned(), source.to_owned(), line);
    let in_host = "ansible_host, host in the inventory";
    assert_eq!(of("reached", "address"), pair("10.0.0.5", in_host, Some(10)));
    let in_group = "ansible_user, group web in the inventory";
    assert_eq!(of("reached", "user"), pair("deploy", in_group, Some(14)));
    assert_eq!(of("reached", "port"), pair("2201", "ssh_config", None));
    let (key, source, _) = of("reached", "key");
    assert!(key.ends_with("keys/id") && source == "setting private_key_file, ansible.cfg", "{key}: {source}");
    let args = "ansible_ssh_common_args, group_vars of web beside the playbook";
    assert_eq!(of("reached", "jump host"), pair("me@bastion:2222", args, Some(1)));
    assert_eq!(of("become", "become"), pair("true", "keyword become", Some(2)));
    assert_eq!(of("become", "method"), pair("su", "command line", None));
    assert_eq!(of("become", "user"), pair("admin", "setting become_user, ansible.cfg", None));
}

const CONDITIONS: &str = "\
- name: web servers
  hosts: web1
  gather_facts: true
  vars: {enabled: true, count: '5', password: open}
  tasks:
    - name: Probe
      command: 'true'
      register: probe
    - block:
        - name: Guarded
          debug: {msg: x}
          when:
            - count | int > 3 and (domain == 'example.com' or mode is defined)
            - ansible_facts.os_family == 'Debian'
      when: enabled
    - name: Known in a run
      debug: {msg: x}
      when: probe.rc != 0
    - name: Decided anyway
      debug: {msg: x}
      when: [probe.rc == 0, not enabled]
    - name: Items
      debug: {msg: x}
      loop: [1, 2, 3]
      when: item > 1
    - name: Broken loop
      debug: {msg: x}
      loop: '{{ nothing }}'
      when: enabled
      tags: broken
    - name: Later loop
      debug: {msg: x}
      loop: '{{ probe.stdout_lines }}'
      when: item == 'x'
    - name: Program
      debug: {msg: x}
      when: lookup('pipe', 'touch ran; echo yes') == 'yes'
    - include_tasks: inner.yml
      when: not enabled
    - name: Tagged
      debug: {msg: x}
      tags: [never]
  handlers:
    - name: Restart
      debug: {msg: x}
- name: others
  hosts: web2
  tasks:
    - name: Elsewhere
      debug: {msg: x}
";

fn conditions() -> Project {
    Project::new(&[
        ("hosts.yml", &HOSTS.replace("ansible_host: 10.0.0.5", "ansible_connection: local")),
        ("site.yml", CONDITIONS),
        ("inner.yml", "- name: Inner\n  debug: {msg: x}\n"),
    ])
}

#[test]
fn condition_explained_part_by_part() {
    let project = conditions();
    let text = project.explain(&["when", "-i", "hosts.yml", "site.yml", "web1", "Guarded"]);
    let expected = "\
Guarded (site.yml:10:11)
  on web1, play 1 'web servers' (site.yml:1:3)
  result: skipped, because a condition is false
  block at site.yml:15:13: true
    true: enabled
      enabled = true  (vars of the play, site.yml:4:10)
  when at site.yml:13:15: false
    false: count | int > 3 and (domain == 'example.com' or mode is defined)
      true: count | int > 3
        count | int = 5
        count = \"5\"  (vars of the play, site.yml:4:25)
      false: domain == 'example.com' or mode is defined
        false: domain == 'example.com'
          domain = \"example.org\"  (group all in the inventory, hosts.yml:3:5)
        false: mode is defined
          mode = undefined  (not defined)
  when at site.yml:14:15: unknown: facts, which a run gathers
    unknown: ansible_facts.os_family == 'Debian'
      ansible_facts.os_family = unknown: facts, which a run gathers
      ansible_facts = unknown: facts, which a run gathers  (facts of the host)
";
    assert_eq!(text, expected);
}

#[test]
fn large_magic_variable_is_left_out_without_an_error() {
    let tasks = "- name: Show\n      debug: {msg: '{{ members }}'}\n      when: groups.web | length > 0\n";
    let project = Project::new(&[
        ("hosts.yml", HOSTS),
        ("group_vars/web.yml", "members: '{{ groups.web }}'\n"),
        ("site.yml", &format!("- hosts: web\n  gather_facts: false\n  tasks:\n    {tasks}")),
    ]);
    let text = project.explain(&["when", "-i", "hosts.yml", "site.yml", "web1", "Show"]);
    assert!(text.contains("groups = (too large to show)  (set by the engine)\n"), "{text}");
    let text = project.explain(&["var", "-i", "hosts.yml", "web1", "members"]);
    assert!(text.contains("groups = (too large to show)  (set by the engine)\n") && !text.contains("fails"), "{text}");
    let text = project.explain(&["var", "-i", "hosts.yml", "web1", "groups"]);
    assert!(text.contains("  value     (too large to show)\n"), "{text}");
}

#[test]
fn result_of_each_kind_of_task() {
    let project = conditions();
    let result = |host: &str, task: &str, more: &[&str]| {
        let json = project.json(&[&["when", "-i", "hosts.yml", "site.yml", host, task], more].concat());
        let found = &json["tasks"][0];
        let kinds: Vec<String> = found["reasons"]
            .as_array()
            .unwrap()
            .iter()
            .map(|reason| reason["kind"].as_str().unwrap().to_owned())
            .collect();
        format!("{} {}", found["result"].as_str().unwrap(), kinds.join(","))
    };
    for (task, expected) in [
        ("Known in a run", "unknown "),
        ("Decided anyway", "skipped "),
        ("Items", "items "),
        ("Broken loop", "fails "),
        ("Later loop", "unknown "),
        ("Program", "unknown "),
        ("Inner", "skipped "),
        ("Tagged", "not_run tags"),
        ("Restart", "runs handler"),
        ("Elsewhere", "not_run not_in_play"),
        ("site.yml:16", "unknown "),
    ] {
        assert_eq!(result("web1", task, &[]), expected, "{task}");
    }
    assert_eq!(result("web1", "Tagged", &["--tags", "never"]), "runs ");
    assert_eq!(result("web2", "Elsewhere", &[]), "runs ");
    assert!(!project.path().join("ran").exists(), "an explanation runs no program");
}

#[test]
fn journal_of_a_run_makes_results_known() {
    let project = conditions();
    let output =
        project.windlass(&["playbook", "-i", "hosts.yml", "site.yml", "--limit", "web1", "--skip-tags", "broken"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let runs = String::from_utf8(project.windlass(&["runs"]).stdout).unwrap();
    let run = runs.lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let words = ["when", "-i", "hosts.yml", "site.yml", "web1", "Known in a run", "--run", &run];
    let text = project.explain(&words);
    assert!(text.contains("result: skipped, because a condition is false"), "{text}");
    assert!(text.contains("probe.rc = 0"), "{text}");
    assert!(text.contains("in this run: it was skipped, because `probe.rc != 0` was false"), "{text}");
    let error =
        project.refused(&["when", "-i", "hosts.yml", "site.yml", "web1", "Items", "--run", "20260131-235959-0a1b2c"]);
    assert!(error.contains("there is no journal of a run"), "{error}");
}

/// A role with a secret argument, keywords at every level, and a loop.
fn levels() -> Project {
    Project::new(&[
        ("hosts.yml", "all: {hosts: {web1: {port: 80}, web2: {port: 81}, web3: {port: 82}}}\n"),
        ("secrets.yml", "ansible_become_password: hunter2\n"),
        (
            "site.yml",
            "- name: Web servers\n  hosts: all\n  gather_facts: false\n  serial: [1, 5]\n  become: true\n  vars_files: [secrets.yml]\n  \
             roles: [nginx]\n  tasks:\n    - name: Last\n      debug: {msg: '{{ found.stdout }}'}\n",
        ),
        (
            "roles/nginx/tasks/main.yml",
            "- block:\n    - name: Write the configuration\n      copy:\n        dest: '/etc/{{ item }}/{{ port }}'\n        content: \
             '{{ ansible_become_password }}'\n        mode: '0600'\n      loop: [nginx, other]\n      when: port == 80\n      register: found\n  \
             become_user: www\n  tags: [configuration]\n",
        ),
    ])
}

#[test]
fn task_shows_arguments_and_owners_of_its_keywords() {
    let project = levels();
    let words = ["task", "-i", "hosts.yml", "site.yml", "web1", "Write the configuration"];
    let text = project.explain(&words);
    for line in
        ["action      copy", "role        nginx", "tags        configuration", "conditions  1", "item        nginx"]
    {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    let row =
        |name: &str| text.lines().find(|line| line.trim_start().starts_with(&format!("{name} "))).unwrap_or_default();
    assert!(row("dest").contains("\"/etc/nginx/80\"") && row("dest").contains("main.yml:4"), "{text}");
    assert!(row("content").contains("********") && !text.contains("hunter2"), "{text}");
    assert!(row("become").contains("true") && row("become").contains("play, site.yml:5"), "{text}");
    assert!(row("become_user").contains("\"www\"") && row("become_user").contains("block, "), "{text}");
    assert!(row("register").contains("\"found\"") && row("register").contains("task, "), "{text}");
    let json = project.json(&words);
    let task = &json["tasks"][0];
    assert_eq!(task["arguments"]["dest"]["value"], "/etc/nginx/80");
    assert_eq!(task["keywords"]["become_user"]["owner"], "block");
    assert!(!json.to_string().contains("hunter2"), "{json}");
}

#[test]
fn argument_that_only_a_run_knows_is_unknown() {
    let project = levels();
    let text = project.explain(&["task", "-i", "hosts.yml", "site.yml", "web1", "Last"]);
    assert!(text.contains("unknown: ") && text.contains("`found`"), "{text}");
}

#[test]
fn plays_show_their_hosts_batches_roles_and_keywords() {
    let project = levels();
    let text = project.explain(&["play", "-i", "hosts.yml", "site.yml"]);
    for line in
        ["play 1 'Web servers'", "hosts    web1, web2, web3", "batches  2 of 1, 2", "roles    nginx", "tasks    2"]
    {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    let json = project.json(&["play", "-i", "hosts.yml", "site.yml", "web"]);
    assert_eq!(json["plays"][0]["batches"], serde_json::json!([["web1"], ["web2", "web3"]]));
    assert_eq!(json["plays"][0]["keywords"]["become"]["written"], true);
    let refused = project.refused(&["play", "-i", "hosts.yml", "site.yml", "Wed servers"]);
    assert!(refused.contains("there is no play `Wed servers`") && refused.contains("Web servers"), "{refused}");
}

/// The last run of a project.
fn last_run(project: &Project) -> String {
    let runs = String::from_utf8(project.windlass(&["runs"]).stdout).unwrap();
    runs.lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
}

const STOPPED: &str = "\
- name: First
  hosts: all
  gather_facts: false
  tasks:
    - name: Before
      debug: {msg: x}
    - block:
        - name: Breaks
          command: 'false'
        - name: Left out
          debug: {msg: x}
      rescue:
        - name: Mends
          debug: {msg: x}
    - name: Goes on
      debug: {msg: x}
    - name: Ends
      command: 'false'
      tags: end
    - name: Never reached
      debug: {msg: x}
      tags: end
    - name: Tagged away
      debug: {msg: x}
      tags: [never]
  handlers:
    - name: Restart
      debug: {msg: x}
";

#[test]
fn task_that_a_run_did_not_reach_is_not_said_to_run() {
    let project = Project::new(&[
        ("hosts.yml", "all: {hosts: {web1: {ansible_connection: local}, web2: {ansible_connection: local}}}\n"),
        ("site.yml", STOPPED),
    ]);
    project.windlass(&["playbook", "-i", "hosts.yml", "site.yml", "--limit", "web1"]);
    let run = last_run(&project);
    let explain =
        |host: &str, task: &str| project.explain(&["when", "-i", "hosts.yml", "site.yml", host, task, "--run", &run]);
    let text = explain("web1", "Never reached");
    assert!(
        text.contains("result: not reached: the run ended at 'Ends' (site.yml:17) on web1, where it failed"),
        "{text}"
    );
    let text = explain("web1", "Left out");
    let expected =
        "not reached: after 'Breaks' (site.yml:8), where it failed, the run went on at 'Mends' (site.yml:13)";
    assert!(text.contains(expected), "{text}");
    let text = explain("web2", "Before");
    assert!(text.contains("not reached: the run has no task of web2; its --limit was `web1`"), "{text}");
    for (task, result) in
        [("Goes on", "it runs"), ("Mends", "it runs"), ("Tagged away", "it does not run on this host")]
    {
        let text = explain("web1", task);
        assert!(text.contains(&format!("result: {result}\n")), "{text}");
    }
    assert!(explain("web1", "Restart").contains("in this run: it did not run"));
    let words = ["when", "-i", "hosts.yml", "site.yml", "web1", "Never reached", "--run", &run];
    assert_eq!(project.json(&words)["tasks"][0]["result"], "not_reached");
}

#[test]
fn tags_of_a_run_count_for_its_explanation() {
    let project =
        Project::new(&[("hosts.yml", "all: {hosts: {web1: {ansible_connection: local}}}\n"), ("site.yml", STOPPED)]);
    project.windlass(&["playbook", "-i", "hosts.yml", "site.yml", "--tags", "end"]);
    let run = last_run(&project);
    let text = project.explain(&["when", "-i", "hosts.yml", "site.yml", "web1", "Before", "--run", &run]);
    assert!(text.contains("result: it does not run on this host\n  the selected tags leave the task out"), "{text}");
}

#[test]
fn run_of_another_playbook_or_inventory_refused() {
    let hosts = "all: {hosts: {web1: {ansible_connection: local}}}\n";
    let play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - name: Show\n      debug: {msg: x}\n";
    let project = Project::new(&[("hosts.yml", hosts), ("others.yml", hosts), ("site.yml", play), ("other.yml", play)]);
    project.windlass(&["playbook", "-i", "hosts.yml", "site.yml"]);
    let run = last_run(&project);
    let refused = |inventory: &str, playbook: &str| {
        project.refused(&["when", "-i", inventory, playbook, "web1", "Show", "--run", &run])
    };
    let error = refused("hosts.yml", "other.yml");
    assert!(error.contains(&format!("the run {run} is not of ")) && error.contains("/site.yml`"), "{error}");
    let error = refused("others.yml", "site.yml");
    assert!(
        error.contains("had another inventory") && error.contains("give the inventory of the run with -i"),
        "{error}"
    );
}

#[test]
fn gathered_facts_of_a_run_are_known() {
    let play = "- hosts: all\n  gather_facts: true\n  gather_subset: ['!all']\n  tasks:\n    \
                - name: On Linux\n      debug: {msg: x}\n      when: ansible_facts.system == 'Linux'\n    \
                - name: By environment\n      debug: {msg: x}\n      when: ansible_env.HOME == '/nowhere'\n";
    let project =
        Project::new(&[("hosts.yml", "all: {hosts: {web1: {ansible_connection: local}}}\n"), ("site.yml", play)]);
    let output = project.windlass(&["playbook", "-i", "hosts.yml", "site.yml"]);
    assert!(output.status.success(), "{output:?}");
    let run = last_run(&project);
    let explain = |task: &str| project.explain(&["when", "-i", "hosts.yml", "site.yml", "web1", task, "--run", &run]);
    let text = explain("On Linux");
    assert!(text.contains("result: it runs") && text.contains("ansible_facts.system = \"Linux\""), "{text}");
    let text = explain("By environment");
    assert!(text.contains("unknown: a fact that the journal of the run leaves out"), "{text}");
    let words = ["var", "-i", "hosts.yml", "web1", "ansible_system", "--playbook", "site.yml", "--run", &run];
    assert_eq!(project.json(&words)["explanations"][0]["value"], "Linux");
}

#[test]
fn groups_made_at_run_time_come_from_a_run_or_are_named() {
    let plays = "- name: Groups\n  hosts: all\n  gather_facts: false\n  tasks:\n    - name: Old names\n      \
                 group_by: {key: '{{ item }}', parents: made}\n      loop: [k8s_cluster]\n      \
                 when: inventory_hostname == 'node1'\n- name: Cluster\n  hosts: k8s_cluster\n  gather_facts: false\n  \
                 tasks:\n    - name: Show\n      debug: {msg: '{{ port }}'}\n";
    let project = Project::new(&[
        ("hosts.yml", "all: {hosts: {node1: {ansible_connection: local}, node2: {ansible_connection: local}}}\n"),
        ("group_vars/k8s_cluster.yml", "port: 6443\n"),
        ("group_vars/all.yml", "port: 1\n"),
        ("site.yml", plays),
    ]);
    let output = project.windlass(&["playbook", "-i", "hosts.yml", "site.yml"]);
    assert!(output.status.success(), "{output:?}");
    let run = last_run(&project);
    let words = ["var", "-i", "hosts.yml", "node1", "port", "--playbook", "site.yml"];
    let text = project.explain(&words);
    assert!(text.contains("value     1\n"), "{text}");
    assert!(text.contains("groups that a run makes are not seen"), "{text}");
    assert!(text.contains("group_by at site.yml:5:7, task 'Old names'"), "{text}");
    let known = [&words[..], &["--run", &run]].concat();
    let text = project.explain(&[&known[..], &["--task", "Show"]].concat());
    assert!(text.contains("value     6443\n") && text.contains("group_vars of k8s_cluster"), "{text}");
    assert!(!text.contains("not seen"), "{text}");
    let json = project.json(&known);
    let found: Vec<&Value> = json["explanations"].as_array().unwrap().iter().map(|one| &one["value"]).collect();
    assert_eq!(found, [&Value::from(6443)], "{json:#}");
    let text = project.explain(&["when", "-i", "hosts.yml", "site.yml", "node1", "Show"]);
    assert!(text.contains("the host is not in the play") && text.contains("group_by at site.yml:5:7"), "{text}");
    let text = project.explain(&["when", "-i", "hosts.yml", "site.yml", "node2", "Show", "--run", &run]);
    assert!(text.contains("result: it does not run on this host"), "{text}");
}

#[test]
fn import_line_explained_with_its_tags_conditions_and_ways() {
    let project = Project::new(&[
        ("ansible.cfg", "[defaults]\n"),
        ("all.yml", "- import_playbook: site.yml\n  when: everything\n"),
        (
            "site.yml",
            "- name: Web\n  hosts: all\n  tags: [web]\n  roles:\n    - {role: nginx, when: has_web, tags: [nginx]}\n",
        ),
        (
            "roles/nginx/tasks/main.yml",
            "- block:\n    - name: Install\n      import_tasks: install.yml\n      tags: [install]\n  when: not installed\n- \
             include_tasks: more.yml\n  when: more\n- include_tasks: '{{ which }}.yml'\n",
        ),
        ("roles/nginx/tasks/install.yml", "- ping:\n"),
        ("roles/nginx/tasks/more.yml", "- include_role:\n    name: other\n"),
        ("roles/other/tasks/main.yml", "- ping:\n"),
    ]);
    let text = project.explain(&["roles/nginx/tasks/main.yml:3"]);
    let expected = "\
import_tasks 'install.yml' (roles/nginx/tasks/main.yml:2:7)
  imports  roles/nginx/tasks/install.yml
  tags
    install  task  roles/nginx/tasks/main.yml:4:14
  conditions
    not installed  block  roles/nginx/tasks/main.yml:5:9
  every imported task has these tags and conditions
  reached from
    roles 'nginx' (site.yml:5:7, tags nginx, web, when has_web)
    import_playbook 'site.yml' (all.yml:1:3, when everything) > roles 'nginx' (site.yml:5:7, tags nginx, web, when has_web)
  a template names the file or role at roles/nginx/tasks/main.yml:8:3
";
    assert_eq!(text, expected);
    let text = project.explain(&["roles/nginx/tasks/main.yml:6"]);
    assert!(text.contains("includes  roles/nginx/tasks/more.yml"), "{text}");
    assert!(text.contains("these apply only to the include itself"), "{text}");
    let json = project.json(&["roles/nginx/tasks/more.yml:2"]);
    let line = &json["lines"][0];
    assert!(line["targets"][0].as_str().unwrap().ends_with("roles/other/tasks/main.yml"), "{json:#}");
    assert_eq!(line["reached_from"][0].as_array().unwrap().len(), 2, "{json:#}");
    let error = project.refused(&["roles/nginx/tasks/install.yml:1"]);
    assert!(error.contains("there is no import or include at roles/nginx/tasks/install.yml:1"), "{error}");
    let error = project.refused(&["vra"]);
    assert!(
        error.contains("`vra` is neither FILE:LINE nor one of") && error.contains("did you mean `var`?"),
        "{error}"
    );
}

#[test]
fn run_shows_values_that_its_tasks_set() {
    let project = Project::new(&[
        ("hosts.yml", "all:\n  hosts:\n    web1: {ansible_connection: local}\n"),
        (
            "site.yml",
            "- hosts: all\n  gather_facts: false\n  tasks:\n    - {name: Asks, command: echo b.example.org, register: asked, changed_when: false}\n    \
             - {name: Chooses, set_fact: {mirror: 'https://{{ asked.stdout }}'}}\n    - {name: Hides, set_fact: {ansible_become_password: 'hunter2-{{ asked.stdout }}'}}\n    \
             - {name: Items, set_fact: {last: '{{ item }}'}, loop: [1, 2]}\n    - {name: Skips, set_fact: {mirror: x}, when: false}\n    \
             - {name: Uses, command: 'echo {{ mirror }}', changed_when: false}\n- hosts: all\n  gather_facts: false\n  tasks:\n    - {name: Ends, set_fact: {mirror: later}}\n",
        ),
    ]);
    assert!(project.windlass(&["playbook", "-i", "hosts.yml", "site.yml"]).status.success());
    let run = last_run(&project);
    let var = |name: &str, more: &[&str]| {
        let words = ["var", "-i", "hosts.yml", "web1", name, "--playbook", "site.yml", "--run", &run];
        project.explain(&[&words[..], more].concat())
    };
    let text = var("mirror", &[]);
    assert!(text.contains("play 1") && text.contains("  value     \"https://b.example.org\"\n"), "{text}");
    assert!(text.contains("play 2") && text.contains("  value     \"later\"\n"), "{text}");
    assert!(text.contains("task 'Chooses'\n      set \"https://b.example.org\"\n"), "{text}");
    assert!(text.contains("task 'Skips'\n      it was skipped, because `false` was false\n"), "{text}");
    let text = var("last", &[]);
    assert!(text.contains("task 'Items'\n      set \"2\"\n") || text.contains("task 'Items'\n      set 2\n"), "{text}");
    let text = var("asked", &["--task", "Uses"]);
    assert!(
        text.contains("register at site.yml:4:7, task 'Asks'\n      set {") && text.contains("b.example.org"),
        "{text}"
    );
    let text = var("ansible_become_password", &[]);
    assert!(text.contains("task 'Hides'\n      set \"********\"\n") && !text.contains("hunter2"), "{text}");
    let json: Value = serde_json::from_str(&var("mirror", &["--format", "json"])).unwrap();
    let set = &json["explanations"][0]["set_during_run"];
    assert_eq!(set[0]["value"], "https://b.example.org", "{set:#}");
    assert!(set[1]["value"].is_null() && set[1]["outcome"].as_str().unwrap().contains("skipped"), "{set:#}");
    let text = project.explain(&["task", "-i", "hosts.yml", "site.yml", "web1", "Uses", "--run", &run]);
    assert!(text.contains("in this run  it ran and changed nothing\n"), "{text}");
    assert!(text.contains("\"echo https://b.example.org\""), "{text}");
    let text = project.explain(&["task", "-i", "hosts.yml", "site.yml", "web1", "Uses"]);
    assert!(text.contains("unknown: `mirror`, which set_fact at") && !text.contains("in this run"), "{text}");
}

#[test]
fn run_shows_hosts_and_groups_that_it_added() {
    let project = Project::new(&[
        ("hosts.yml", "all:\n  hosts:\n    web1: {ansible_connection: local}\n"),
        ("group_vars/fresh.yml", "ansible_connection: local\nansible_become: false\n"),
        (
            "site.yml",
            "- hosts: web1\n  gather_facts: false\n  tasks:\n    - add_host: {name: web9, groups: fresh}\n    - group_by: {key: by_run}\n    \
             - set_fact: {ansible_become: false}\n- hosts: fresh\n  gather_facts: false\n  tasks:\n    - {name: Works, command: 'true', changed_when: false}\n",
        ),
    ]);
    let ran = project.windlass(&["playbook", "-i", "hosts.yml", "site.yml"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    let run = last_run(&project);
    let host =
        |name: &str| ["host", "-i", "hosts.yml", name, "--playbook", "site.yml", "--run"].map(str::to_owned).to_vec();
    let explain = |name: &str| {
        let words = host(name);
        project.explain(&words.iter().map(String::as_str).chain([run.as_str()]).collect::<Vec<_>>())
    };
    let text = explain("web9");
    assert!(text.contains("group_vars of fresh  2 variables") && text.contains("in play 2 "), "{text}");
    let text = explain("web1");
    assert!(text.contains("by_run") && text.contains("ansible_become, set_fact or register"), "{text}");
    let error = project.refused(&["host", "-i", "hosts.yml", "web9", "--playbook", "site.yml"]);
    assert!(error.contains("there is no host `web9`"), "{error}");
    let error = project.refused(&["host", "-i", "hosts.yml", "web1", "--run", &run]);
    assert!(error.contains("--playbook"), "{error}");
}
