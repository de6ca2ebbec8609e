//! `windlass plan` and `windlass apply`: what would change, what is unknown and why, and runs of exactly that.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::ran::wrap;
use crate::terminal::open_terminal;
use serde_json::{Value, json};
use tempfile::TempDir;

const INVENTORY: &str = "[all:vars]\nansible_connection=local\n[web]\nnode1\nnode2\nnode3\n";

/// A project in its own directory. `node/HOST` stands for the files of a host.
struct Project(TempDir);

impl Project {
    fn new(playbook: &str) -> Project {
        let project = Project(tempfile::tempdir().unwrap());
        project.write("hosts", INVENTORY);
        project.write("site.yml", playbook);
        for host in ["node1", "node2", "node3"] {
            fs::create_dir_all(project.path().join("node").join(host)).unwrap();
        }
        project
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path().join(path)).ok()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(words)
            .current_dir(self.path())
            .env("HOME", self.path())
            .env("WINDLASS_JOURNAL_DIR", self.path().join("journals"))
            .env("NO_COLOR", "1")
            .env_remove("ANSIBLE_CONFIG")
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null());
        command
    }

    fn windlass(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    /// Text of a plan that ends with this code.
    fn plan(&self, code: i32, words: &[&str]) -> String {
        let (status, stdout, stderr) = self.windlass(&[&["plan", "-i", "hosts", "site.yml"], words].concat());
        assert_eq!(status, Some(code), "{stdout}{stderr}");
        stdout
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.plan(0, &[&["--format", "json"], words].concat())).unwrap()
    }

    /// Standard error of a plan file that is refused. No host has changed.
    fn refused(&self, words: &[&str]) -> String {
        let (status, stdout, stderr) = self.windlass(&[&["apply"], words].concat());
        assert!(status.is_some_and(|code| code != 0), "{stdout}{stderr}");
        assert!(!stdout.contains("PLAY RECAP"), "{stdout}");
        stderr
    }
}

const FILES: &str = r#"
- name: files
  hosts: web
  gather_facts: false
  vars: {root: "{{ playbook_dir }}/node/{{ inventory_hostname }}"}
  tasks:
    - name: Directory
      file: {path: "{{ root }}/conf", state: directory, mode: "0750"}
    - name: Same file on all hosts
      copy: {dest: "{{ playbook_dir }}/shared", content: "one\ntwo\n"}
    - name: Mode
      file: {path: "{{ playbook_dir }}/site.yml", mode: "0600"}
    - name: Unchanged
      stat: {path: /}
"#;

#[test]
fn changes_listed_with_values_and_contents_and_grouped_by_hosts() {
    let project = Project::new(FILES);
    project.write("shared", "one\n");
    fs::set_permissions(project.path().join("site.yml"), fs::Permissions::from_mode(0o644)).unwrap();
    let text = project.plan(0, &[]);
    let shared = project.path().join("shared");
    let expected = format!(
        "\
Play: files
  ~ Directory  [node1, node2, node3]
      file at site.yml:7
      state: \"absent\" -> \"directory\"
  ~ Same file on all hosts  [node1, node2, node3]
      copy at site.yml:9
      {}
        @@ -1 +1,2 @@
         one
        +two
  ~ Mode  [node1, node2, node3]
      file at site.yml:11
      mode: \"0644\" -> \"0600\"

Plan: 3 hosts, 9 to change, 3 unchanged, 0 unknown, 0 failed.
  node1 : change=3 unchanged=1 unknown=0 failed=0 skipped=0
",
        shared.display()
    );
    // Directories of hosts differ, so that only the message groups them.
    assert!(text.starts_with(&expected), "{text}\n---\n{expected}");
    assert!(!project.path().join("node/node1/conf").exists());
    assert_eq!(project.read("shared").unwrap(), "one\n");
}

#[test]
fn new_file_listed_by_its_rendered_path() {
    let tasks = "
    - copy: {dest: '{{ root }}/copied', content: x}
    - lineinfile: {dest: '{{ root }}/line', line: x, create: true}
    - copy: {dest: '{{ root }}/{{ item }}', content: x}
      loop: [looped]
    - get_url: {url: 'file:///etc/hostname', dest: '{{ root }}/fetched'}
";
    let playbook = format!(
        "- hosts: node1\n  gather_facts: false\n  vars: {{root: \"{{{{ playbook_dir }}}}/node/node1\"}}\n  tasks:{tasks}"
    );
    let project = Project::new(&playbook);
    let root = project.path().join("node/node1");
    let text = project.plan(0, &[]);
    let (_, why, _) = project.windlass(&["playbook", "-i", "hosts", "site.yml", "--check", "--why"]);
    let (code, sharded, stderr) =
        project.windlass(&["playbook", "-i", "hosts", "site.yml", "--check", "--why", "--shards", "2"]);
    assert_eq!(code, Some(0), "{stderr}");
    let fetched = format!("with: url=file:///etc/hostname, dest={}\n", root.join("fetched").display());
    assert!([&text, &why, &sharded].iter().all(|shown| shown.contains(&fetched)), "{text}{why}{sharded}");
    for name in ["copied", "line", "looped"] {
        let path = root.join(name).display().to_string();
        assert!(text.contains(&format!("{path}\n")), "{text}");
        assert!(why.contains(&format!("    {path}: 1 line added\n")), "{why}");
        assert!(sharded.contains(&format!("    {path}: 1 line added\n")), "{sharded}");
    }
}

#[test]
fn exit_code_distinguishes_changes_failures_and_nothing() {
    let project = Project::new(FILES);
    assert_eq!(project.windlass(&["plan", "-i", "hosts", "site.yml", "--detailed-exitcode"]).0, Some(10));
    let (code, ..) = project.windlass(&["playbook", "-i", "hosts", "site.yml"]);
    assert_eq!(code, Some(0));
    let text = project.plan(0, &["--detailed-exitcode"]);
    assert!(text.starts_with("Nothing to change.\n\nPlan: 3 hosts, 0 to change, 12 unchanged, 0 unknown"), "{text}");

    let reading = "- hosts: node1\n  gather_facts: false\n  tasks:\n    - {name: Read, command: date, register: read, \
                   changed_when: false}\n";
    let text = Project::new(reading).plan(0, &["--detailed-exitcode"]);
    assert!(text.starts_with("Nothing to change.\n") && text.contains("Not run, changes nothing: 1."), "{text}");
    let needed = format!("{reading}    - {{name: Use, debug: {{msg: '{{{{ read.stdout }}}}'}}}}\n");
    let text = Project::new(&needed).plan(10, &["--detailed-exitcode"]);
    assert!(text.contains("? Use ") && text.contains("depends on the result of 'Read'"), "{text}");

    let failing = Project::new("- hosts: node1\n  gather_facts: false\n  tasks:\n    - fail: {msg: not here}\n");
    let (code, stdout, stderr) =
        failing.windlass(&["plan", "-i", "hosts", "site.yml", "--detailed-exitcode", "-o", "site.plan"]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("  ! fail  [node1]\n") && stdout.contains("      fails: not here\n"), "{stdout}");
    assert!(stderr.contains("site.plan is not written") && !failing.path().join("site.plan").exists(), "{stderr}");
    assert_eq!(failing.windlass(&["plan", "-i", "hosts", "missing.yml"]).0, Some(1));
}

#[test]
fn interrupted_plan_names_its_task_and_has_neither_totals_nor_file() {
    let project = Project::new(
        "- hosts: node1\n  gather_facts: false\n  tasks:\n    - name: Wait long\n      \
         shell: touch {{ playbook_dir }}/begun; sleep 60\n      check_mode: false\n",
    );
    let mut command = project.command(&["plan", "-i", "hosts", "site.yml", "-o", "site.plan"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while project.read("begun").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(99), "{stdout}{stderr}");
    assert!(stderr.contains("Plan incomplete: interrupted at 'Wait long'; site.plan is not written"), "{stderr}");
    assert!(!stdout.contains("Plan:") && !stdout.contains("Nothing to change"), "{stdout}");
    assert_eq!(project.read("site.plan"), None);
}

const UNKNOWN: &str = r#"
- name: unknown
  hosts: node1
  gather_facts: false
  vars: {root: "{{ playbook_dir }}/node/{{ inventory_hostname }}"}
  tasks:
    - name: Ask
      command: cat /etc/hostname
      register: asked
      notify: Restart
    - name: Condition
      file: {path: "{{ root }}/a", state: touch}
      when: asked.rc == 0
    - name: Changed
      file: {path: "{{ root }}/b", state: touch}
      when: asked is changed
    - name: Set
      set_fact: {name: "{{ asked.stdout }}"}
    - name: Use
      copy: {dest: "{{ root }}/c", content: "{{ name }}"}
      register: used
    - name: Chain
      debug: {msg: "{{ used.checksum }}"}
    - name: Loop
      debug: {msg: "{{ item }}"}
      loop: "{{ asked.stdout_lines }}"
    - name: Ask each
      shell: "echo {{ item }}"
      loop: [x, y]
      register: each
    - name: Use each
      debug: {msg: "{{ item.stdout }}"}
      loop: "{{ each.results }}"
    - name: Default
      debug: {msg: "{{ asked.stdout | default('none') }}"}
    - name: Verdict
      stat: {path: /}
      failed_when: asked.stdout == 'x'
    - name: Included
      include_tasks: "{{ asked.stdout }}.yml"
    - name: Selected
      debug: {msg: "{{ [asked] | selectattr('changed') | list | length }}"}
    - name: Reader
      command: uptime
      changed_when: false
      register: reader
    - name: Never
      fail: {msg: a reader changes nothing}
      when: reader is changed
    - name: Known
      copy: {dest: "{{ root }}/d", content: "x"}
      when: asked is not skipped
  handlers:
    - name: Restart
      debug: {msg: restarted}
"#;

#[test]
fn unknown_results_named_with_the_task_that_causes_them() {
    let project = Project::new(UNKNOWN);
    let text = project.plan(0, &[]);
    let ask = "the result of 'Ask', which is not run in check mode";
    let chain = format!("a variable set by 'Set', which depends on {ask}");
    let expected = [
        (
            "Ask",
            "      runs: cat /etc/hostname\n      unknown: check mode does not run it\n      may notify: Restart\n"
                .to_owned(),
        ),
        ("Condition", format!("      unknown: its condition depends on {ask}\n")),
        ("Changed", format!("      unknown: its condition depends on {ask}\n")),
        ("Set", format!("      unknown: an argument depends on {ask}\n")),
        ("Use", format!("      unknown: an argument depends on {chain}\n")),
        ("Chain", format!("      unknown: an argument depends on the result of 'Use', which depends on {chain}\n")),
        ("Loop", format!("      unknown: its loop depends on {ask}\n")),
        ("Ask each", "      item x\n        runs: echo x\n        unknown: check mode does not run it\n".to_owned()),
        (
            "Use each",
            "      unknown: its loop depends on the result of 'Ask each', which is not run in check mode\n".to_owned(),
        ),
        ("Default", format!("      unknown: an argument depends on {ask}\n")),
        ("Verdict", format!("      unknown: its failed_when depends on {ask}\n")),
        ("Included", format!("      unknown: an argument depends on {ask}\n")),
    ];
    for (name, lines) in expected {
        let (_, rest) =
            text.split_once(&format!("  ? {name}  [node1]\n")).unwrap_or_else(|| panic!("no {name}: {text}"));
        let own = rest.split("\n  ?").next().unwrap();
        assert!(format!("{own}\n").contains(&lines), "{name}: {own}\n---\n{lines}");
    }
    assert!(text.contains("  ~ Known  [node1]\n"), "{text}");
    assert!(
        text.contains("Plan: 1 host, 1 to change, 0 unchanged, 13 unknown, 0 failed. Not run, changes nothing: 1.\n"),
        "{text}"
    );
    assert!(text.contains("unknown=13 failed=0 skipped=1 not_run=1\n") && !text.contains("Reader"), "{text}");

    // A dry run keeps Ansible's placeholders: the output of a command is empty.
    let words = ["playbook", "-i", "hosts", "site.yml", "--check", "--start-at-task", "Ask"];
    let (_, stdout, _) = project.windlass(&words);
    assert!(
        stdout.contains("TASK [Use]") && stdout.contains("changed: [node1]") && !stdout.contains("not known"),
        "{stdout}"
    );
}

#[test]
fn unknown_value_in_any_part_of_a_task_makes_it_unknown() {
    let project = Project::new(
        r#"
- hosts: node1
  gather_facts: false
  tasks:
    - {name: Ask, command: hostname, register: asked}
    - {name: Assert, assert: {that: asked.rc == 0}}
    - {name: Ignored, assert: {that: asked.rc == 0}, ignore_errors: true}
    - {name: Delegated, ping: , delegate_to: "{{ asked.stdout }}"}
    - {name: Become, ping: , become: true, become_user: "{{ asked.stdout }}"}
    - {name: Shown, debug: {var: asked.stdout}}
    - {name: Until, command: hostname, register: tried, until: tried.stdout == 'x', retries: 2, delay: 0}
    - {name: Last, ping: }
"#,
    );
    let text = project.plan(0, &[]);
    let asked = "depends on the result of 'Ask', which is not run in check mode";
    for (name, reason) in [
        ("Assert", format!("an argument {asked}")),
        ("Ignored", format!("an argument {asked}")),
        ("Delegated", format!("a keyword {asked}")),
        ("Become", format!("a keyword {asked}")),
        ("Shown", format!("an argument {asked}")),
        ("Until", "check mode does not run it".to_owned()),
    ] {
        let (_, own) =
            text.split_once(&format!("  ? {name}  [node1]\n")).unwrap_or_else(|| panic!("no {name}: {text}"));
        assert!(own.split("\n  ?").next().unwrap().contains(&format!("unknown: {reason}")[..]), "{name}: {own}");
    }
    assert!(text.contains("0 to change, 1 unchanged, 7 unknown, 0 failed."), "{text}");
}

#[test]
fn failure_after_a_planned_change_is_unknown_and_the_plan_goes_on() {
    let project = Project::new(
        r#"
- hosts: node1,node2
  gather_facts: false
  vars: {root: "{{ playbook_dir }}/node/{{ inventory_hostname }}"}
  tasks:
    - {name: Create, copy: {dest: "{{ root }}/conf", content: "x"}, when: inventory_hostname == 'node1'}
    - {name: Protect, file: {path: "{{ root }}/conf", mode: "0600"}, register: protected}
    - {name: Run, command: "cat {{ root }}/conf", check_mode: false}
    - {name: Use, debug: {msg: "{{ protected.mode }}"}}
    - {name: Wrong, fail: {msg: certain}}
    - {name: Never, ping: }
"#,
    );
    let text = project.plan(2, &[]);
    let early = "unknown: it fails on the host as it is, but earlier tasks would change the host: ";
    for (name, message) in [("Protect", "is absent, cannot continue"), ("Run", "No such file or directory")] {
        let (_, own) =
            text.split_once(&format!("  ? {name}  [node1]\n")).unwrap_or_else(|| panic!("no {name}: {text}"));
        let line = own.lines().find(|line| line.contains("unknown:")).unwrap();
        assert!(line.contains(early) && line.contains(message), "{own}");
    }
    assert!(text.contains("the result of 'Protect', which fails on the host as it is\n"), "{text}");
    // Nothing changes node2 before, and `fail` fails wherever it runs.
    assert!(text.contains("  ! Protect  [node2]\n") && text.contains("  ! Wrong  [node1]\n"), "{text}");
    assert!(text.contains("  node1 : change=1 unchanged=0 unknown=3 failed=1 skipped=0\n"), "{text}");
}

/// Types of fields, by the table in docs/how-to/plan.md.
fn check_schema(plan: &Value) {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(plan["schema"], "windlass.plan");
    assert_eq!(plan["version"], 1);
    let top = ["schema", "version", "windlass", "created", "request", "inputs", "facts", "totals", "hosts", "tasks"];
    assert_eq!(keys(plan), top);
    let docs = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/plan.md")).unwrap();
    let counts = ["change", "unchanged", "unknown", "failed", "skipped", "not_run"];
    assert_eq!(keys(&plan["totals"]), counts);
    assert!(plan["hosts"].as_object().unwrap().values().all(|host| keys(host) == counts));
    let task = ["play", "task", "place", "action", "hosts", "status", "ran", "notifies", "parts"];
    let part = ["item", "status", "reason", "command", "arguments", "attributes", "differences"];
    let statuses = ["change", "unknown", "failed"];
    for planned in plan["tasks"].as_array().unwrap() {
        assert_eq!(keys(planned), task);
        assert!(statuses.contains(&planned["status"].as_str().unwrap()));
        assert!(planned["hosts"].as_array().unwrap().iter().all(Value::is_string));
        for one in planned["parts"].as_array().unwrap() {
            assert_eq!(keys(one), part);
            let attributes = one["attributes"].as_array().unwrap();
            assert!(attributes.iter().all(|attribute| keys(attribute) == ["name", "from", "to"]));
            let differences = one["differences"].as_array().unwrap();
            assert!(differences.iter().all(|one| keys(one) == ["path", "text", "omitted", "sha256"]));
        }
    }
    for name in top.iter().chain(&counts).chain(&task).chain(&part) {
        assert!(docs.contains(&format!("`{name}`")), "docs/how-to/plan.md lacks `{name}`");
    }
}

#[test]
fn json_follows_the_documented_schema() {
    for playbook in [FILES, UNKNOWN] {
        check_schema(&Project::new(playbook).json(&[]));
    }
    let plan = Project::new(FILES).json(&["-l", "node1"]);
    let directory = &plan["tasks"][0];
    assert_eq!(directory["hosts"], json!(["node1"]));
    let attributes = json!([{"name": "state", "from": "absent", "to": "directory"}]);
    assert_eq!(directory["parts"][0]["attributes"], attributes);
    assert_eq!(plan["request"]["options"], json!({"limit": "node1"}));
}

#[test]
fn plan_file_applied_with_its_arguments() {
    let playbook = FILES.replace("one\\ntwo", "{{ greeting }} {{ number + 1 }}");
    let project = Project::new(&playbook);
    project.write("vars.yml", "greeting: hello\n");
    let vars = ["-e", "@vars.yml", "-e", "{number: 1}", "-l", "node1,node2"];
    let text = project.plan(0, &[&vars[..], &["-o", "site.plan"]].concat());
    assert!(text.ends_with("\nThe plan is in site.plan. Run it with `windlass apply site.plan`.\n"), "{text}");
    assert_eq!(fs::metadata(project.path().join("site.plan")).unwrap().mode() & 0o777, 0o600);
    check_schema(&serde_json::from_str(&project.read("site.plan").unwrap()).unwrap());
    assert_eq!(project.read("shared"), None);
    let (code, stdout, stderr) = project.windlass(&["apply", "site.plan"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let playbook = project.path().join("site.yml");
    assert!(stdout.contains(&format!("  playbooks: {}\n", playbook.display())), "{stdout}");
    assert!(stdout.contains("  limit: node1,node2\n") && stdout.contains("PLAY RECAP"), "{stdout}");
    assert_eq!(project.read("shared").unwrap(), "hello 2\n");
    assert!(project.path().join("node/node2/conf").exists() && !project.path().join("node/node3/conf").exists());
    // The plan has been carried out, so that it no longer holds.
    let error = project.refused(&["site.plan"]);
    assert!(error.contains("node1: 'Directory' was planned and is no longer needed"), "{error}");

    let words = ["playbook", "-i", "hosts", "site.yml", "--plan", "other.plan", "-e", "@vars.yml", "-e", "{number: 1}"];
    let (code, stdout, stderr) = project.windlass(&words);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("Plan: 3 hosts, 1 to change") && project.read("other.plan").is_some(), "{stdout}");
}

#[test]
fn plan_refused_after_an_input_has_changed() {
    let project = Project::new(FILES);
    project.plan(0, &["-o", "site.plan"]);
    project.write("site.yml", &FILES.replace("0750", "0700"));
    let error = project.refused(&["site.plan"]);
    assert!(error.contains("the plan no longer holds, and nothing was changed:\n"), "{error}");
    assert!(error.contains("site.yml has changed\n"), "{error}");
    project.write("site.yml", FILES);
    fs::create_dir(project.path().join("group_vars")).unwrap();
    project.write("group_vars/all.yml", "new: 1\n");
    assert!(project.refused(&["site.plan"]).contains("group_vars/all.yml is new"));
    fs::remove_file(project.path().join("group_vars/all.yml")).unwrap();
    project.write("hosts", &INVENTORY.replace("node3\n", ""));
    assert!(project.refused(&["site.plan"]).contains("hosts has changed"));
    // Also beside a source that another source includes.
    fs::create_dir_all(project.path().join("src/host_vars")).unwrap();
    project.write("src/hosts", INVENTORY);
    project.write("more.yml", "plugin: windlass.group\ngroup: all\nsources: src\n");
    let (code, stdout, stderr) = project.windlass(&["plan", "-i", "more.yml", "site.yml", "-o", "more.plan"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    project.write("src/host_vars/node1.yml", "new: 1\n");
    assert!(project.refused(&["more.plan"]).contains("host_vars/node1.yml is new"));
    assert!(!project.path().join("node/node1/conf").exists());
}

#[test]
fn plan_refused_after_a_host_has_changed() {
    let project = Project::new(FILES);
    project.write("shared", "one\n");
    project.plan(0, &["-o", "site.plan"]);
    project.write("shared", "one\nthree\n");
    let error = project.refused(&["site.plan"]);
    assert!(error.contains("node1: 'Same file on all hosts' would do something else than planned"), "{error}");
    fs::create_dir(project.path().join("node/node2/conf")).unwrap();
    project.write("shared", "one\n");
    let error = project.refused(&["site.plan"]);
    assert!(error.contains("node2: 'Directory'") && !error.contains("node1: 'Directory'"), "{error}");
    assert_eq!(project.read("shared").unwrap(), "one\n");
}

#[test]
fn refusal_shows_the_planned_and_the_present_change() {
    let project = Project::new(FILES);
    project.write("shared", "one\n");
    project.plan(0, &["-o", "site.plan"]);
    project.write("shared", "zero\n");
    let error = project.refused(&["site.plan"]);
    let (planned, now) = error.split_once("    now:\n").unwrap_or_else(|| panic!("{error}"));
    assert!(planned.contains("'Same file on all hosts' would do something else than planned"), "{error}");
    assert!(planned.contains("    planned:\n") && planned.contains("         one\n"), "{error}");
    assert!(now.contains("        -zero\n"), "{error}");
}

/// A project that gathers the fact `local`, which only a condition may read.
fn local_facts(condition: &str) -> Project {
    let project = Project::new(&format!(
        "- hosts: node1\n  gather_facts: false\n  tasks:\n    - name: Facts\n      setup: {{gather_subset: ['!all', '!min', local], \
         fact_path: \"{{{{ playbook_dir }}}}/facts\"}}\n    - name: Write\n      copy: {{dest: \"{{{{ playbook_dir }}}}/out\", content: x}}\n      \
         when: {condition}\n"
    ));
    fs::create_dir(project.path().join("facts")).unwrap();
    project.write("facts/rack.fact", "{\"row\": 1}");
    project.plan(0, &["-o", "site.plan"]);
    project.write("facts/rack.fact", "{\"row\": 2}");
    project
}

#[test]
fn plan_refused_after_a_fact_has_changed_that_a_task_reads() {
    for condition in [
        "ansible_local.rack.row > 0",
        "ansible_facts.local.rack.row > 0",
        "hostvars.node1.ansible_facts | string | length > 0",
    ] {
        let project = local_facts(condition);
        let error = project.refused(&["site.plan"]);
        assert!(error.contains("node1: the fact `ansible_local` has another value\n"), "{condition}: {error}");
        assert_eq!(project.read("out"), None);
        project.write("facts/rack.fact", "{\"row\": 1}");
        let (code, stdout, stderr) = project.windlass(&["apply", "site.plan"]);
        assert_eq!((code, project.read("out").as_deref()), (Some(0), Some("x")), "{stdout}{stderr}");
    }
}

#[test]
fn plan_holds_after_a_fact_has_changed_that_no_task_reads() {
    let project = local_facts("ansible_facts.other is not defined");
    let (code, stdout, stderr) = project.windlass(&["apply", "site.plan"]);
    assert_eq!((code, project.read("out").as_deref()), (Some(0), Some("x")), "{stdout}{stderr}");
}

#[test]
fn secrets_and_templates_stay_out_of_the_plan_file() {
    let project = Project::new(
        "- hosts: node1\n  gather_facts: false\n  tasks:\n    - name: Write\n      copy: {dest: \"{{ playbook_dir }}/out\", content: \"{{ db_password }}\"}\n",
    );
    let vars = ["-e", "db_password=hunter2!", "-e", "colour=blue"];
    let text = project.plan(0, &[&vars[..], &["-o", "site.plan"]].concat());
    let file = project.read("site.plan").unwrap();
    assert!(!text.contains("hunter2") && !file.contains("hunter2"), "{file}");
    assert!(file.contains("blue"), "{file}");
    let error = project.refused(&["site.plan"]);
    assert!(error.contains("the plan was made with --extra-vars, which a plan file does not carry"), "{error}");
    let error = project.refused(&["site.plan", "-e", "db_password=other"]);
    assert!(error.contains("the extra variable `db_password` differs"), "{error}");
    let (code, stdout, stderr) = project.windlass(&["apply", "site.plan", "-e", "db_password=hunter2!"]);
    assert_eq!((code, project.read("out").as_deref()), (Some(0), Some("hunter2!")), "{stdout}{stderr}");
    // Names are shown, and no value: a secret may have an ordinary name.
    assert!(stdout.contains("  extra-vars: colour\n") && !stdout.contains("blue"), "{stdout}");
    for name in ["dbpass", "adminpw", "root_pwd", "apiToken"] {
        fs::remove_file(project.path().join("out")).unwrap();
        let playbook = project.read("site.yml").unwrap();
        project.write("site.yml", &playbook.replace("{{ db_password }}", "{{ lookup('vars', chosen) }}"));
        let (value, named) = (format!("{name}=hunter2!"), format!("chosen={name}"));
        project.plan(0, &["-e", &value, "-e", &named, "-o", "site.plan"]);
        let file = project.read("site.plan").unwrap();
        assert!(!file.contains("hunter2") && file.contains("********"), "{name}: {file}");
        let (code, stdout, stderr) = project.windlass(&["apply", "site.plan", "-e", &value]);
        assert_eq!((code, project.read("out").as_deref()), (Some(0), Some("hunter2!")), "{stdout}{stderr}");
        project.write("site.yml", &playbook);
    }
}

#[test]
fn password_files_of_a_plan_are_repeated_by_any_of_their_names() {
    let project = Project::new(
        "- hosts: node1\n  gather_facts: false\n  tasks:\n    - copy: {dest: \"{{ playbook_dir }}/out\", content: x}\n",
    );
    project.write("password", "harbour-7\n");
    let files = ["--become-password-file", "password", "--connection-password-file", "password"];
    project.plan(0, &[&files[..], &["-o", "site.plan"]].concat());
    let error = project.refused(&["site.plan", "--become-pass-file", "password"]);
    assert!(error.contains("made with --connection-password-file"), "{error}");
    let words = ["apply", "site.plan", "--become-pass-file", "password", "--conn-pass-file", "password"];
    let (code, stdout, stderr) = project.windlass(&words);
    assert_eq!((code, project.read("out").as_deref()), (Some(0), Some("x")), "{stdout}{stderr}");
}

#[test]
fn hostile_plan_file_refused_before_anything_runs() {
    let project = Project::new(FILES);
    project.plan(0, &["-o", "good.plan"]);
    let good: Value = serde_json::from_str(&project.read("good.plan").unwrap()).unwrap();
    let file = |name: &str, text: &str| {
        let path = project.write(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        project.refused(&[name])
    };
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut plan = good.clone();
        edit(&mut plan);
        file("edited.plan", &plan.to_string())
    };
    for text in ["", "{}", "[1, 2", "null", &"[".repeat(100_000), &format!("{{\"schema\":{}", "{\"a\":".repeat(50_000))]
    {
        assert!(
            file("bad.plan", text).contains("bad.plan cannot be applied: it is not a plan of this version"),
            "{text:.40}"
        );
    }
    symlink("good.plan", project.path().join("link.plan")).unwrap();
    assert!(project.refused(&["link.plan"]).contains("it is a symbolic link"));
    assert!(project.refused(&["node"]).contains("it is not a regular file"));
    assert!(project.refused(&["/dev/zero"]).contains("it is not a regular file"));
    let large = fs::File::create(project.path().join("large.plan")).unwrap();
    large.set_len(1 << 30).unwrap();
    large.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    assert!(project.refused(&["large.plan"]).contains("it is larger than"));
    fs::set_permissions(project.path().join("good.plan"), fs::Permissions::from_mode(0o666)).unwrap();
    assert!(project.refused(&["good.plan"]).contains("other users can write to it"));

    let marker = project.path().join("marker");
    let touch = format!("touch {}", marker.display());
    let template = format!("{{{{ lookup('pipe', '{touch}') }}}}");
    let values = |name: &str, value: &str| json!([{"values": {name: value}}]);
    let cases: [(&dyn Fn(&mut Value), &str); 9] = [
        (
            &|plan| plan["request"]["options"] = json!({"ssh-common-args": format!("-o ProxyCommand={touch}")}),
            "cannot carry the option",
        ),
        (
            &|plan| plan["request"]["options"] = json!({"limit=x --become-password-file": touch}),
            "cannot carry the option",
        ),
        (&|plan| plan["request"]["flags"] = json!(["check --vault-password-file=x"]), "cannot carry the option"),
        (&|plan| plan["request"]["extra_vars"] = values("x", &template), "because it is a template"),
        (
            &|plan| plan["request"]["extra_vars"] = values("ansible_ssh_common_args", "x"),
            "cannot carry the extra variable",
        ),
        (&|plan| plan["request"]["command"] = json!(touch), "unknown field `command`"),
        (&|plan| plan["request"]["playbooks"] = json!([]), "it names no playbook"),
        (&|plan| plan["version"] = json!(99), "this release reads"),
        (&|plan| plan["windlass"] = json!("9.9.9"), "windlass 9.9.9 made it"),
    ];
    for (edit, expected) in cases {
        let error = edited(edit);
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let error = edited(&|plan| plan["inputs"] = json!([{"path": "/dev/zero", "sha256": ""}]));
    assert!(error.contains("/dev/zero was read and is missing"), "{error}");
    let error = edited(&|plan| plan["tasks"] = json!([]));
    assert!(error.contains("'Directory' is not part of the plan"), "{error}");
    assert!(!marker.exists() && !project.path().join("node/node1/conf").exists());
}

/// Plans at a terminal with `--ask`, answers, and returns the output.
fn asked(project: &Project, answer: &str) -> String {
    answered(project, &["plan", "-i", "hosts", "site.yml", "--ask"], &[("Apply these changes? yes/no", answer)])
}

/// Prints of a command at a terminal that answers each question once.
fn answered(project: &Project, words: &[&str], answers: &[(&str, &str)]) -> String {
    let (mut screen, side) = open_terminal();
    // Prompts for secrets open the terminal itself.
    let mut command = Command::new("setsid");
    wrap(command.args(["--wait", "--ctty"]), &project.command(words));
    command
        .stdin(Stdio::from(side.try_clone().unwrap()))
        .stdout(Stdio::from(side.try_clone().unwrap()))
        .stderr(Stdio::from(side));
    let mut child = command.spawn().unwrap();
    // The command holds copies of the terminal, which would keep it open.
    drop(command);
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    let mut left = answers.iter().peekable();
    // The terminal reports the program's end as an error.
    while let Ok(count) = screen.read(&mut buffer) {
        if count == 0 {
            break;
        }
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        while let Some((_, answer)) = left.next_if(|(question, _)| seen.contains(question)) {
            screen.write_all(answer.as_bytes()).unwrap();
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0), "{seen}");
    seen.replace('\r', "")
}

#[test]
fn missing_inventory_and_misspelt_names_found_before_a_run() {
    let project =
        Project::new(&FILES.replace("      stat: {path: /}\n", "      stat: {path: /}\n      tags: [config]\n"));
    for words in [
        &["plan", "site.yml"][..],
        &["playbook", "site.yml"],
        &["adhoc", "all", "-m", "ping"],
        &["inventory", "--list"],
    ] {
        let (code, _, stderr) = project.windlass(&[words, &["-i", "hosst"]].concat());
        assert!(
            code == Some(1) && stderr.contains("If `hosst` is a host, write a comma behind it"),
            "{words:?}: {stderr}"
        );
    }
    // A configured one that is missing causes a warning, as in Ansible: the playbook may need no hosts.
    project.write("ansible.cfg", "[defaults]\ninventory = hosst\n");
    let (code, _, stderr) = project.windlass(&["playbook", "site.yml"]);
    assert!(code == Some(0) && stderr.contains("hosst"), "{stderr}");
    fs::remove_file(project.path().join("ansible.cfg")).unwrap();
    let (code, _, stderr) = project.windlass(&["plan", "-i", "hosts", "site.yml", "-t", "confg"]);
    assert!(code == Some(0) && stderr.contains("no task has the tag `confg`: did you mean `config`?"), "{stderr}");
    project.write("short", "web1 ansible_connection=local\n");
    let (_, _, stderr) = project.windlass(&["playbook", "-i", "short", "site.yml", "-l", "wbe1"]);
    assert!(stderr.contains("did you mean `web1`?"), "{stderr}");
    let (_, _, stderr) = project.windlass(&["plan", "-i", "hosts", "site.yml", "-l", "node1,nodee2"]);
    assert!(stderr.contains("host pattern, ignoring: nodee2 (did you mean `node2`?)"), "{stderr}");
}

#[test]
fn variable_near_one_of_a_role_named_before_the_run() {
    let project = Project::new("- hosts: node1\n  gather_facts: false\n  roles: [app]\n");
    fs::create_dir_all(project.path().join("roles/app/defaults")).unwrap();
    fs::create_dir_all(project.path().join("roles/app/tasks")).unwrap();
    fs::create_dir_all(project.path().join("group_vars")).unwrap();
    project.write("roles/app/defaults/main.yml", "app_port: 80\napp_user: www\n");
    project.write("roles/app/tasks/main.yml", "- debug: {msg: '{{ app_port }} {{ app_users | default(1) }}'}\n");
    project.write("group_vars/all.yml", "app_users: 3\napp_prot: 8080\nothers: '{{ app_uses }}'\napp_uses: 1\n");
    let (_, _, stderr) = project.windlass(&["playbook", "-i", "hosts", "site.yml", "-e", "app_usre=x"]);
    for (name, hint) in [("app_prot", "app_port"), ("app_usre", "app_user")] {
        let text = format!("no role of the playbook has the variable `{name}`: did you mean `{hint}`?");
        assert!(stderr.contains(&text), "{stderr}");
    }
    // Something reads these.
    assert!(!stderr.contains("`app_users`") && !stderr.contains("`app_uses`"), "{stderr}");
    // An inventory beside the playbook defines its variables, and reads none.
    project.write("local.yml", "all:\n  hosts:\n    node1: {ansible_connection: local, app_usr: x}\n");
    let (_, _, stderr) = project.windlass(&["playbook", "-i", "local.yml", "site.yml"]);
    assert!(stderr.contains("has the variable `app_usr`: did you mean `app_user`?"), "{stderr}");
}

#[test]
fn questions_of_a_playbook_asked_once_for_plan_and_run() {
    let playbook = "- hosts: node1\n  gather_facts: false\n  vars_prompt:\n    - {name: pin, prompt: Which pin}\n    - {name: word, prompt: Which word, private: false}\n  tasks:\n    - pause: {prompt: Really}\n      register: really\n    - copy: {content: '{{ word }} {{ pin }}', dest: '{{ playbook_dir }}/out'}\n    - debug: {msg: 'said {{ really.user_input }}'}\n";
    let project = Project::new(playbook);
    // A plan waits for no `pause`, and asks for variables.
    let answers = [("Which pin:", "Quartz9Wombat\n"), ("Which word:", "blue\n")];
    let text = answered(&project, &["plan", "-i", "hosts", "site.yml", "-o", "site.plan"], &answers);
    assert!(text.contains("a plan does not wait for the `pause` at site.yml:7:7"), "{text}");
    assert!(!text.contains("Really:") && project.read("out").is_none(), "{text}");
    assert!(!project.read("site.plan").unwrap().contains("Quartz9Wombat"));
    let text = answered(&project, &["apply", "site.plan"], &[answers[0], answers[1], ("Really:", "yes\n")]);
    assert_eq!((text.matches("Which pin:").count(), text.matches("Really:").count()), (1, 1), "{text}");
    assert!(text.contains("said yes"), "{text}");
    assert_eq!(project.read("out").unwrap(), "blue Quartz9Wombat");
}

#[test]
fn misspelt_variable_of_a_playbook_named_before_the_run() {
    let playbook = "- hosts: node1\n  gather_facts: false\n  vars: {app_prot: 1, app_usres: 2}\n  roles:\n    - {role: app, app_usr: x}\n  tasks:\n    - include_tasks: tasks/more.yml\n    - import_role: {name: app}\n      vars: {app_pott: 1}\n    - include_role: {name: app}\n      vars: {app_portt: 1}\n";
    let project = Project::new(playbook);
    for folder in ["roles/app/meta", "roles/app/tasks", "tasks"] {
        fs::create_dir_all(project.path().join(folder)).unwrap();
    }
    project.write(
        "roles/app/meta/argument_specs.yml",
        "argument_specs: {main: {options: {app_port: {}, app_user: {}}}}\n",
    );
    project.write("roles/app/tasks/main.yml", "- debug: {msg: x}\n");
    project.write("tasks/more.yml", "- debug: {msg: '{{ app_usres }}'}\n");
    let (_, _, stderr) = project.windlass(&["playbook", "-i", "hosts", "site.yml", "--list-tasks"]);
    let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for (name, place, hint) in [
        ("app_prot", "3:10", "app_port"),
        ("app_usr", "5:19", "app_user"),
        ("app_pott", "9:14", "app_port"),
        ("app_portt", "11:14", "app_port"),
    ] {
        let text = format!("has the variable `{name}`, which site.yml:{place} sets: did you mean `{hint}`?");
        assert!(stderr.contains(&text), "{text}: {stderr}");
    }
    // An included file reads this one.
    assert!(!stderr.contains("`app_usres`"), "{stderr}");
}

#[test]
fn ask_runs_only_after_yes() {
    let project = Project::new(FILES);
    let text = asked(&project, "y\nno\n");
    assert!(text.contains("Answer `yes` or `no`.") && text.contains("Nothing was changed."), "{text}");
    assert_eq!(project.read("shared"), None);
    let text = asked(&project, "yes\n");
    assert!(text.find("Plan: 3 hosts") < text.find("PLAY RECAP") && text.contains("PLAY RECAP"), "{text}");
    assert_eq!(project.read("shared").unwrap(), "one\ntwo\n");
    let (code, _, stderr) = project.windlass(&["plan", "-i", "hosts", "site.yml", "--ask"]);
    assert!(code != Some(0) && stderr.contains("--ask needs a terminal"), "{stderr}");
}
