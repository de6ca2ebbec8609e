//! `windlass lint`: each rule finds its mistake at its place, and nothing in clean code.

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
        project.write("ansible.cfg", "[defaults]\n");
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

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    fn lint(&self, words: &[&str]) -> Output {
        lint_in(self.path(), words)
    }

    fn text(&self, words: &[&str]) -> String {
        String::from_utf8(self.lint(words).stdout).unwrap()
    }

    /// Findings of one rule as `file:line:column severity`.
    fn found(&self, rule: &str) -> Vec<String> {
        let output = self.lint(&["--rule", rule, "--format", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let shown = |finding: &Value| {
            assert_eq!(finding["rule"], rule);
            let text = |key: &str| finding[key].as_str().unwrap().to_owned();
            format!("{}:{}:{} {}", text("file"), finding["line"], finding["column"], text("severity"))
        };
        report["findings"].as_array().unwrap().iter().map(shown).collect()
    }
}

fn lint_in(path: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .arg("lint")
        .args(words)
        .current_dir(path)
        .env("HOME", std::env::temp_dir())
        .env("NO_COLOR", "1")
        .env_remove("ANSIBLE_CONFIG")
        .output()
        .unwrap()
}

/// A playbook with these tasks, which begin at line 4.
fn play(tasks: &str) -> String {
    format!("- name: Play\n  hosts: all\n  tasks:\n{tasks}")
}

/// Findings of a rule in tasks.
fn in_tasks(rule: &str, tasks: &str) -> Vec<String> {
    Project::new(&[("site.yml", &play(tasks))]).found(rule)
}

#[test]
fn every_rule_finds_its_mistake_at_its_place() {
    // Tasks begin at line 4, column 7.
    let cases = [
        ("module-option", "    - copy: {dets: /x, content: a, dest: /y}\n", "4:14 error"),
        ("module-option", "    - service: {name: x, state: runing}\n", "4:33 error"),
        ("module-option", "    - template: {src: a.j2}\n", "4:7 error"),
        ("module-option", "    - wait_for: {port: many}\n", "4:24 error"),
        ("module-option", "    - debug: hello\n", "4:14 error"),
        // An option of one package manager is one of `package`.
        ("module-option", "    - package: {deb: /a.deb, only_upgrade: true, lists: a, enablerepo: b}\n", "4:50 error"),
        ("unknown-module", "    - coppy: {src: a, dest: /b}\n", "4:7 error"),
        ("unknown-module", "    - some_module_of_others: {}\n", "4:7 warning"),
        ("missing-collection", "    - a.b.c: {}\n", "4:7 info"),
        ("unknown-keyword", "    - debug: {msg: a}\n      whenn: true\n", "5:7 error"),
        ("unknown-filter", "    - debug: {msg: a}\n      when: false and (x | bogus)\n", "5:28 error"),
        ("unknown-filter", "    - debug:\n        msg: |\n          a\n          {{ x | bogus }}\n", "7:18 error"),
        ("unknown-test", "    - assert: {that: x is definedd}\n", "4:27 error"),
        ("template-syntax", "    - debug: {msg: a}\n      when: x ==\n", "5:13 error"),
        ("template-syntax", "    - debug: {msg: '{{ x'}\n", "4:20 error"),
        ("undefined-variable", "    - debug: {msg: '{{ nowhere }}'}\n", "4:24 warning"),
        ("handler-unknown", "    - ping:\n      notify: Restart\n", "5:15 error"),
        ("plaintext-secret", "    - uri: {url: 'https://x', url_password: hunter2}\n", "4:45 warning"),
        ("no-log-missing", "    - command: createuser --password {{ db_password }}\n", "4:16 warning"),
        ("no-log-missing", "    - debug: {var: api_token}\n", "4:20 warning"),
        ("command-instead-of-module", "    - command: apt-get -y install nginx\n", "4:7 warning"),
        ("command-instead-of-shell", "    - shell: uptime -p\n", "4:7 warning"),
        ("no-changed-when", "    - command: uptime\n", "4:7 warning"),
        ("deprecated", "    - debug: {msg: a}\n      with_items: [1]\n", "5:7 info"),
        ("deprecated", "    - include: a.yml\n", "4:7 error"),
        ("risky-file-permissions", "    - copy: {content: a, dest: /y}\n", "4:7 warning"),
        ("risky-octal", "    - copy: {content: a, dest: /y, mode: 644}\n", "4:42 warning"),
        ("risky-octal", "    - copy: {content: a, dest: /y, mode: 0644}\n", "4:42 info"),
        ("yaml-truthy", "    - ping:\n      become: yes\n", "5:15 info"),
        ("jinja-spacing", "    - debug: {msg: 'a {{x}}'}\n", "4:25 info"),
        ("name-missing", "    - ping:\n", "4:7 info"),
        ("name-casing", "    - name: ping it\n      ping:\n", "4:13 info"),
        ("literal-compare", "    - ping:\n      when: a and x.y == true\n", "5:19 warning"),
        ("when-braces", "    - ping:\n      when: '{{ x }}'\n", "5:13 warning"),
        ("duplicate-key", "    - ping:\n      name: A\n      name: B\n", "6:7 warning"),
        ("syntax-error", "    - name: Nothing\n", "4:7 error"),
        ("syntax-error", "    - ping:\n      loop_control: {loopvar: x}\n", "5:22 error"),
        ("syntax-error", "    - ping:\n      become: yess\n", "5:15 error"),
        ("command-shell-syntax", "    - command: cat /etc/fstab | wc -l\n", "4:7 warning"),
        ("conditional-not-boolean", "    - ping:\n      when: a is defined and b | length\n", "5:30 warning"),
        ("conditional-not-boolean", "    - ping:\n      failed_when: \"'x'\"\n", "5:20 warning"),
        ("conditional-not-boolean", "    - assert: {that: a.stdout | regex_search('x')}\n", "4:22 warning"),
        ("keyword-value", "    - ping:\n      retries: lots\n", "5:16 error"),
        ("keyword-value", "    - ping:\n      debugger: sometimes\n", "5:17 error"),
        ("keyword-value", "    - ping:\n      connection: shh\n", "5:19 error"),
        ("missing-file", "    - import_tasks: nowhere.yml\n", "4:21 error"),
        ("missing-file", "    - include_vars: {file: nowhere.yml}\n", "4:28 error"),
        ("missing-file", "    - template: {src: nowhere.j2, dest: /x}\n", "4:23 warning"),
        ("missing-file", "    - script: nowhere.sh --all\n", "4:15 warning"),
        ("missing-role", "    - include_role: {name: nowhere}\n", "4:7 error"),
        ("misspelt-connection", "    - ping:\n      vars: {ansible_hots: 10.0.0.1}\n", "5:14 warning"),
        ("unknown-lookup", "    - debug: {msg: a}\n      when: false and lookup('fle', 'x') == ''\n", "5:23 error"),
        ("unknown-lookup", "    - ping:\n      with_itmes: [1]\n", "5:7 error"),
        ("yaml-number", "    - ping:\n      vars: {at: 12:30}\n", "5:18 warning"),
        ("yaml-number", "    - ping:\n      vars: {umask: 0022}\n", "5:21 warning"),
        ("yaml-number", "    - ping:\n      vars: {umask: 0o022}\n", "5:21 warning"),
        ("not-portable", "    - ping:\n      loop: [1]\n      loop_control: {parallel: 2}\n", "6:22 warning"),
        ("not-portable", "    - block: [ping: ]\n      loop: [1]\n", "5:7 warning"),
        ("syntax-error", "    - block: [ping: ]\n      loop: [1]\n      loop_control: {pause: 1}\n", "6:22 error"),
        ("syntax-error", "    - debug:\n      loop: [1]\n      loop_control: {parallel: 2}\n", "6:22 error"),
        ("syntax-error", "    - ping:\n      loop: [1]\n      loop_control: {parallel: 2, pause: 1}\n", "6:22 error"),
    ];
    let found = |rule, tasks| (rule, tasks, in_tasks(rule, tasks));
    let wrong = |(rule, tasks, place): &(&'static str, &'static str, &str)| {
        Some(found(*rule, *tasks)).filter(|(_, _, found)| *found != [format!("site.yml:{place}")])
    };
    assert_eq!(cases.iter().filter_map(wrong).collect::<Vec<_>>(), []);
}

#[test]
fn values_of_play_keywords_checked() {
    let play = "- name: Play\n  hosts: all\n  serial: [1, abc]\n  strategy: fre\n  order: inventry\n  \
                max_fail_percentage: many\n  roles: [nowhere]\n  vars_files: [nowhere.yml, [a.yml, here.yml]]\n";
    let good = "- name: Good\n  hosts: all\n  serial: [1, 30%, '{{ x }}']\n  strategy: ansible.builtin.free\n  \
                order: sorted\n  max_fail_percentage: 20%\n  port: '22'\n  become_method: my_own\n";
    let project = Project::new(&[("site.yml", play), ("good.yml", good), ("here.yml", "x: 1\n")]);
    let places = ["3:15", "4:13", "5:10", "6:24"].map(|place| format!("site.yml:{place} error"));
    assert_eq!(project.found("keyword-value"), places);
    assert_eq!(project.found("missing-role"), ["site.yml:7:11 error"]);
    assert_eq!(project.found("missing-file"), ["site.yml:8:16 error"]);
    let text = project.text(&["--rule", "keyword-value"]);
    assert!(text.contains("did you mean `free`?") && text.contains("did you mean `inventory`?"), "{text}");
}

#[test]
fn files_and_roles_that_a_run_finds_are_not_missing() {
    let tasks = "    - import_tasks: shared/a.yml\n    - include_role: {name: web, tasks_from: more}\n    \
                 - copy: {src: in_files, dest: /x, mode: \"0644\"}\n    \
                 - copy: {src: /etc/absent, dest: /x, mode: \"0644\"}\n    \
                 - copy: {src: on_host, remote_src: true, dest: /x, mode: \"0644\"}\n    \
                 - template: {src: '{{ name }}.j2', dest: /x, mode: \"0644\"}\n    \
                 - include_role: {name: a.b.c}\n    - include_role: {name: required}\n";
    let project = Project::new(&[
        ("site.yml", &play(tasks)),
        ("shared/a.yml", "- import_tasks: b.yml\n"),
        ("shared/b.yml", "- ping:\n"),
        ("files/in_files", ""),
        ("requirements.yml", "roles: [{name: required}]\n"),
        ("roles/web/tasks/main.yml", "- include_tasks: more.yml\n- template: {src: web.j2, dest: /x}\n"),
        ("roles/web/tasks/more.yml", "- script: run.sh\n- include_vars: os.yml\n"),
        ("roles/web/templates/web.j2", ""),
        ("roles/web/files/run.sh", ""),
        ("roles/web/vars/os.yml", "x: 1\n"),
        ("roles/web/molecule/default/verify.yml", "- hosts: all\n  roles: [../../../../web]\n"),
    ]);
    assert_eq!(project.found("missing-file"), Vec::<String>::new());
    assert_eq!(project.found("missing-role"), Vec::<String>::new());
}

#[test]
fn booleans_and_plain_commands_have_no_findings() {
    let tasks = "    - ping:\n      when: [a | bool, b | length > 0, not c | length, d, e is search('x'), \
                 f | default(false), 'g in [1]']\n    - command: sh -c 'a | b'\n    - command: {argv: [a, '|', b]}\n    \
                 - debug: {var: x | length}\n      vars: {ansible_host: a, ansible_winrm_scheme: b, \
                 ansible_os_family: c, time: '12:30', mode: \"0644\"}\n      delay: '{{ x }}'\n      \
                 with_dict: {a: 1}\n";
    let project = Project::new(&[("site.yml", &play(tasks))]);
    for rule in [
        "conditional-not-boolean",
        "command-shell-syntax",
        "misspelt-connection",
        "yaml-number",
        "keyword-value",
        "unknown-lookup",
    ] {
        assert_eq!(project.found(rule), Vec::<String>::new(), "{rule}");
    }
}

#[test]
fn misspelt_variable_of_a_connection_found_unless_a_template_reads_it() {
    let project = Project::new(&[
        ("hosts.ini", "web1 ansible_hots=10.0.0.1\n[all:vars]\nansible_usr=me\n"),
        ("group_vars/all.yml", "ansible_become_pas: x\nansible_ssh_portt: 22\n"),
        ("site.yml", &play("    - debug: {msg: '{{ ansible_ssh_portt }}'}\n")),
    ]);
    let text = project.text(&["-i", "hosts.ini", "--rule", "misspelt-connection"]);
    for (place, hint) in [
        ("group_vars/all.yml:1:1", "did you mean `ansible_become_pass`?"),
        ("hosts.ini:1:6", "did you mean `ansible_host`?"),
        ("hosts.ini:3:1", "did you mean `ansible_user`?"),
    ] {
        assert!(text.contains(place) && text.contains(hint), "{place}: {text}");
    }
    assert_eq!(text.matches("warning[misspelt-connection]").count(), 3, "{text}");
}

#[test]
fn files_of_variables_without_a_group_or_host_found() {
    let project = Project::new(&[
        ("inventory/hosts.ini", "[web]\nweb1\n"),
        ("inventory/group_vars/web.yml", "a: 1\n"),
        ("inventory/group_vars/database/main.yml", "a: 1\n"),
        ("inventory/host_vars/web2.yml", "a: 1\n"),
        ("group_vars/elsewhere.yml", "a: 1\n"),
        ("group_vars/wbe.yml", "a: 1\n"),
        ("inventory/group_vars/made.yml", "a: 1\n"),
        ("site.yml", &play("    - group_by: {key: made}\n")),
    ]);
    assert_eq!(project.found("orphan-vars"), Vec::<String>::new());
    let text = project.text(&["-i", "inventory", "--rule", "orphan-vars"]);
    let found: Vec<&str> = text.lines().filter_map(|line| line.split(": ").next()).collect();
    let expected =
        ["group_vars/wbe.yml:1:1", "inventory/group_vars/database/main.yml:1:1", "inventory/host_vars/web2.yml:1:1"];
    assert_eq!(found.iter().filter(|line| !line.contains("help")).copied().collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn suggestion_names_nearest_known_word() {
    let tasks = "    - copy: {dets: /x, content: a}\n    - debug: {msg: '{{ a | defalt(1) }}'}\n      retris: 3\n";
    let output = Project::new(&[("site.yml", &play(tasks))]).lint(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["`dest`", "`default`", "`retries`"] {
        assert!(text.contains(&format!("help: did you mean {word}?")), "{word}: {text}");
    }
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn clean_project_has_no_findings() {
    let project = Project::new(&[
        ("hosts.yml", "web:\n  hosts: {web1: {rack: a}}\n"),
        ("group_vars/all.yml", "port: 80\ndomain: example.org\n"),
        (
            "site.yml",
            "- name: Web\n  hosts: web\n  roles:\n    - {role: web, web_level: high}\n  tasks:\n    - name: Show it\n      \
             ansible.builtin.debug:\n        msg: \"{{ port }} {{ rack }} {{ extra | default('') }}\"\n      when:\n        \
             - inventory_hostname in groups['web']\n        - ansible_facts.os_family == 'Debian'\n    - name: Read it\n      \
             command: cat /etc/hostname\n      register: read\n      changed_when: false\n    - name: Show the lines\n      \
             debug: {msg: \"{{ line }}\"}\n      loop: \"{{ read.stdout_lines }}\"\n      loop_control: {loop_var: line}\n",
        ),
        (
            "roles/web/meta/argument_specs.yml",
            "argument_specs:\n  main:\n    options:\n      web_level: {type: str, required: true, choices: [low, high]}\n",
        ),
        ("roles/web/defaults/main.yml", "web_root: /srv\n"),
        (
            "roles/web/tasks/main.yml",
            "- name: Write the configuration\n  template: {src: web.j2, dest: \"{{ web_root }}/x\", mode: \"0644\"}\n  \
             notify: Restart web\n",
        ),
        ("roles/web/handlers/main.yml", "- name: Restart web\n  service: {name: web, state: restarted}\n"),
        (
            "roles/web/templates/web.j2",
            "{% for host in groups['web'] %}{% set name = host ~ '.' ~ domain %}{{ name }}{{ loop.index }}{% endfor %}\n\
             {{ web_level }}\n",
        ),
    ]);
    let output = project.lint(&["-i", "hosts.yml", "--severity", "info", "--strict"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((text.as_str(), output.status.code()), ("", Some(0)));
}

#[test]
fn role_parameter_compared_with_specification() {
    let specs =
        "argument_specs:\n  main:\n    options:\n      level: {choices: [low, high]}\n      size: {required: true}\n";
    let project = Project::new(&[
        ("site.yml", "- hosts: all\n  roles:\n    - role: web\n      level: hihg\n      levle: low\n"),
        ("roles/web/meta/argument_specs.yml", specs),
        ("roles/web/tasks/main.yml", "- debug: {msg: '{{ level }} {{ size }}'}\n"),
    ]);
    let found = project.found("role-argument");
    assert_eq!(found, ["site.yml:3:7 warning", "site.yml:4:14 error", "site.yml:5:7 warning"]);
}

#[test]
fn unmatched_host_pattern_found_with_inventory_only() {
    let project = Project::new(&[
        ("hosts.ini", "[kube_node]\nnode1\n[empty]\n"),
        (
            "site.yml",
            "- hosts: kube-node:!absent\n- hosts: localhost,node1,empty[0]\n- hosts: made\n  tasks:\n    - add_host: {name: x, groups: made}\n",
        ),
    ]);
    assert_eq!(project.found("unknown-group"), Vec::<String>::new());
    let text = project.text(&["-i", "hosts.ini", "--rule", "unknown-group"]);
    assert_eq!(
        text,
        "site.yml:1:10: warning[unknown-group]: `kube-node` is not a group or host of the inventory\n    \
         help: did you mean `kube_node`?\n"
    );
}

#[test]
fn unreadable_inventory_found_at_its_place() {
    for (name, text, place, message) in [
        (
            "hosts.ini",
            "[web]\nw1\n[all:children]\nweb\nwbe\n",
            "5:1",
            "should be a child of `all`, but there is no such",
        ),
        ("hosts.ini", "[web]\nw1 port 80\n", "2:4", "`port` is not of the form name=value"),
        ("hosts.ini", "[web:child]\n", "1:1", "The section [web:child] is of an unknown kind"),
        ("hosts", "w1\n[web:vars]\na=1\n", "2:1", "but there is no such group"),
        ("hosts.yml", "all:\n  hosts: [w1\n", "2:10", ""),
        ("hosts.yml", "all:\n  hosts: [w1]\n", "2:10", "`hosts` of the group `all` must be a mapping"),
    ] {
        let project = Project::new(&[(name, text), ("site.yml", "- name: Web\n  hosts: wbe\n  tasks: []\n")]);
        let output = project.lint(&["-i", name]);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.starts_with(&format!("{name}:{place}: error[inventory-syntax]: ")), "{printed}");
        assert!(printed.contains(message) && !printed.contains("unknown-group"), "{printed}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn ignored_part_of_an_inventory_found() {
    let text = "all:\n  host:\n    w1:\n  children:\n    web: {hosts: {w1: {a: 1, a: 2}}}\n";
    let project = Project::new(&[("hosts.yml", text)]);
    let printed = project.text(&["-i", "hosts.yml"]);
    assert!(
        printed.contains("hosts.yml:2:3: warning[inventory-syntax]: `host` in the group `all` is ignored"),
        "{printed}"
    );
    assert!(
        printed.contains("hosts.yml:5:30: warning[inventory-syntax]: The key `a` is at line 5 already"),
        "{printed}"
    );
    assert_eq!(project.text(&[]), "");
}

#[test]
fn unreadable_inventory_outside_of_the_project_ends_with_its_error() {
    let project = Project::new(&[("site.yml", "- name: Web\n  hosts: all\n  tasks: []\n")]);
    let outside = Project::new(&[("hosts.ini", "[all:children]\nweb\n")]);
    let output = project.lint(&["-i", outside.path().join("hosts.ini").to_str().unwrap()]);
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("The group `web` should be a child of `all`"), "{printed}");
    assert!(printed.contains("hosts.ini:2:1"), "{printed}");
    assert_eq!(output.status.code(), Some(1));
    project.write("hosts.ini", "[all:children]\nweb\n");
    assert_eq!(project.lint(&["-i", "hosts.ini", "site.yml"]).status.code(), Some(1));
    assert_eq!(project.lint(&["-i", "hosts.ini"]).status.code(), Some(2));
}

#[test]
fn host_listed_twice_in_a_group_found() {
    let project = Project::new(&[
        ("hosts.ini", "[web]\nw1\nw2\n[db]\nw1\n[web:hosts]\nw[1:2] rack=a\n"),
        ("more.ini", "[web]\nw1\n"),
    ]);
    let printed = project.text(&["-i", "hosts.ini", "-i", "more.ini"]);
    assert_eq!(
        printed,
        "hosts.ini:7:1: warning[duplicate-host]: the group `web` has the host `w1` at line 2 already\n"
    );
}

#[test]
fn misspelt_group_of_an_inventory_found() {
    let plays = "- name: Nodes\n  hosts: kube_node:&web2\n  tasks: []\n";
    let ini = "[kube-node]\nn1\n[etcd]\nn1\n[web1]\nn1\n[databases]\nn1\n";
    let yaml = "all:\n  children:\n    kube-node: {hosts: {n1: }}\n    databases: {hosts: {n1: }}\n";
    for (name, text, places) in [("hosts.ini", ini, ["1:2", "7:2"]), ("hosts.yml", yaml, ["3:5", "4:5"])] {
        let files = [(name, text), ("site.yml", plays), ("group_vars/database.yml", "port: 1\n")];
        let printed = Project::new(&files).text(&["-i", name, "--rule", "misspelt-group"]);
        let finding = |place, group, meant| {
            let message = format!("warning[misspelt-group]: nothing names the group `{group}`");
            format!("{name}:{place}: {message}\n    help: did you mean `{meant}`?\n")
        };
        let [first, second] = places;
        assert_eq!(printed, finding(first, "kube-node", "kube_node") + &finding(second, "databases", "database"));
    }
    let both = [("hosts.ini", "[kube-node]\nn1\n[kube_node]\nn1\n[web2]\nn1\n"), ("site.yml", plays)];
    assert_eq!(Project::new(&both).text(&["-i", "hosts.ini", "--rule", "misspelt-group"]), "");
}

#[test]
fn misspelt_variable_of_an_inventory_found() {
    let project = Project::new(&[
        ("roles/web/defaults/main.yml", "web_listen_port: 80\nweb_user: www\nweb_node_1: a\n"),
        ("roles/web/meta/argument_specs.yml", "argument_specs: {main: {options: {web_document_root: {type: path}}}}\n"),
        (
            "roles/web/tasks/main.yml",
            "- debug: {msg: \"{{ web_listen_port }} {{ web_user }} {{ lookup('vars', 'web_' ~ web_document_root) }}\"}\n",
        ),
        ("group_vars/web.yml", "web_lisen_port: 81\nunrelated: 1\nweb_users: [www]\nanswer: '{{ web_users }}'\n"),
        (
            "hosts.ini",
            "[web]\nw1 web_usr=x web_document_root=/srv web_node_2=b\nw2 web_usr=y\n[web:vars]\nweb_document_rot = web_usr2\n",
        ),
    ]);
    let rule = "misspelt-variable";
    assert_eq!(project.found(rule), ["group_vars/web.yml:1:1 warning"]);
    let printed = project.text(&["-i", "hosts.ini", "--rule", rule]);
    let found: Vec<&str> = printed.lines().filter(|line| !line.starts_with(' ')).collect();
    let message = |place: &str, name: &str| {
        format!("{place}: warning[misspelt-variable]: nothing in the project uses the variable `{name}`")
    };
    assert_eq!(
        found,
        [
            message("group_vars/web.yml:1:1", "web_lisen_port"),
            message("hosts.ini:2:4", "web_usr"),
            message("hosts.ini:5:1", "web_document_rot"),
        ]
    );
}

#[test]
fn second_module_of_a_task_found() {
    let tasks =
        "    - name: Two\n      copy: {content: a, dest: /tmp/a, mode: '600'}\n      template: {src: a, dest: /b}\n";
    let project = Project::new(&[("site.yml", &play(tasks))]);
    let text = project.text(&["--severity", "error"]);
    assert!(text.contains("several: copy (line 5), template (line 6)") && text.contains("site.yml:6:7:"), "{text}");
    assert!(!text.contains("unknown-keyword"), "{text}");
}

#[test]
fn misspelt_variable_of_a_play_or_a_role_found() {
    let project = Project::new(&[
        ("roles/web/meta/argument_specs.yml", "argument_specs: {main: {options: {web_port: {}, web_user: {}}}}\n"),
        ("roles/web/tasks/main.yml", "- debug: {msg: '{{ web_port }} {{ web_user }}'}\n"),
        (
            "site.yml",
            "- hosts: all\n  vars:\n    web_prot: 1\n    web_users: 2\n  roles:\n    - {role: web, web_por: 1}\n  tasks:\n    - debug: {msg: '{{ web_users }}'}\n",
        ),
    ]);
    assert_eq!(project.found("misspelt-variable"), ["site.yml:3:5 warning"]);
    // A part of the right name is another name.
    assert_eq!(project.found("role-argument"), ["site.yml:6:19 warning"]);
}

#[test]
fn variable_of_given_inventory_is_defined() {
    let project = Project::new(&[("site.yml", &play("    - debug: {msg: '{{ rack }}'}\n"))]);
    let outside = Project::new(&[("hosts.yml", "all:\n  hosts: {web1: {rack: a}}\n")]);
    let inventory = outside.path().join("hosts.yml");
    let text = project.text(&["-i", inventory.to_str().unwrap()]);
    assert_eq!(text, "");
    assert!(project.text(&[]).contains("[undefined-variable]"));
}

#[test]
fn task_of_an_action_plugin_alone_is_known() {
    let task = "- name: Hoist\n  hoist:\n    flag: 1\n";
    let project = Project::new(&[
        ("action_plugins/hoist.py", ""),
        ("roles/crew/action_plugins/heave.py", ""),
        ("tasks.yml", task),
        ("roles/crew/tasks/main.yml", &task.replace("hoist", "heave")),
    ]);
    assert_eq!(project.found("unknown-module"), [""; 0]);
}

#[test]
fn inventory_with_plugin_does_not_stop_checks() {
    let play = "- name: Web\n  hosts: env_prod\n  tasks:\n    - name: Reach\n      ansible.builtin.pnig:\n";
    let project = Project::new(&[
        ("site.yml", play),
        ("inventory/hosts.yml", "all: {hosts: {web1: }}\n"),
        ("inventory/cloud.yml", "plugin: amazon.aws.aws_ec2\n"),
    ]);
    let output = project.lint(&["-i", "inventory", "--format", "json"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("inventory/cloud.yml is not started, so groups and hosts are unknown"), "{said}");
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("pnig") && !report.contains("unknown-group"), "{report}");
}

#[test]
fn group_of_another_inventory_is_compared_unless_a_program_makes_it() {
    let project = Project::new(&[
        ("site.yml", "- name: Web\n  hosts: kube_nodes\n  tasks: []\n"),
        ("hosts.ini", "[eu]\ne1\n[kube_node]\ne1\n"),
        ("cloud.yml", "plugin: amazon.aws.aws_ec2\n"),
        ("eu/hosts.yml", "plugin: windlass.group\ngroup: eu\nsources: ../hosts.ini\n"),
        ("us/hosts.yml", "plugin: windlass.group\ngroup: us\nsources: [../hosts.ini, ../cloud.yml]\n"),
    ]);
    let report = String::from_utf8(project.lint(&["-i", "eu", "--format", "json"]).stdout).unwrap();
    assert!(report.contains("unknown-group"), "{report}");
    let output = project.lint(&["-i", "us", "--format", "json"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cloud.yml is not started, so groups and hosts are unknown"), "{said}");
}

#[test]
fn inventory_script_is_not_run() {
    let project = Project::new(&[("site.yml", "- hosts: all\n")]);
    project.write("inventory.sh", "#!/bin/sh\ntouch started\necho '{}'\n");
    let script = project.path().join("inventory.sh");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    project.lint(&["-i", "inventory.sh"]);
    assert!(!project.path().join("started").exists());
}

#[test]
fn unused_names_of_roles_found() {
    let project = Project::new(&[
        ("roles/a/defaults/main.yml", "used: 1\nunused_thing: 2\npart_one: 3\n"),
        ("roles/a/tasks/main.yml", "- debug: {msg: \"{{ used }} {{ lookup('vars', 'part_' ~ used) }}\"}\n"),
        ("roles/a/handlers/main.yml", "- name: Never\n  ping:\n- name: Heard\n  ping:\n  listen: topic\n"),
        ("site.yml", "- hosts: all\n  tasks:\n    - ping:\n      notify: [topic]\n"),
    ]);
    assert_eq!(project.found("unused-variable"), ["roles/a/defaults/main.yml:2:1 info"]);
    assert_eq!(project.found("handler-unused"), ["roles/a/handlers/main.yml:1:9 warning"]);
}

#[test]
fn file_included_by_handlers_has_handlers() {
    let project = Project::new(&[
        (
            "site.yml",
            "- hosts: all\n  handlers:\n    - include_tasks: more.yml\n  tasks:\n    - ping:\n      notify: [A, b]\n",
        ),
        ("more.yml", "- name: A\n  ping:\n  listen: b\n"),
    ]);
    let text = project.text(&[]);
    assert_eq!(text, "");
}

#[test]
fn broken_files_reported_and_the_rest_checked() {
    let project = Project::new(&[
        ("a.yml", "- name: A\n  hosts: [web\n"),
        ("b.yml", "- hosts: all\n  tasks:\n    - 5\n    - 5: 6\n    - action: 5\n    - copy: [1]\n"),
        ("roles/x/tasks/main.yml", "a: b\n"),
        ("roles/x/meta/argument_specs.yml", "argument_specs: [1]\n"),
        ("roles/x/templates/x.j2", "{% for %}{{ }}{% set %}{% macro %}"),
        ("notes.yml", "a: [b\n"),
    ]);
    let found = project.found("syntax-error");
    assert!(found.iter().any(|found| found.starts_with("a.yml:")), "{found:?}");
    assert!(found.contains(&"b.yml:3:7 error".to_owned()), "{found:?}");
    assert!(found.contains(&"roles/x/tasks/main.yml:1:1 error".to_owned()), "{found:?}");
    assert!(!found.iter().any(|found| found.starts_with("notes.yml")), "{found:?}");
}

#[test]
fn templates_of_roles_checked_with_lines() {
    let project = Project::new(&[
        ("roles/a/tasks/main.yml", "- ping:\n"),
        ("roles/a/templates/a.j2", "a\n{% if x | bogus %}\n{{ nowhere }}\n{% endif %}\n"),
        ("roles/a/templates/b.j2", "a\n{% if x %}\n"),
    ]);
    assert_eq!(project.found("unknown-filter"), ["roles/a/templates/a.j2:2:11 error"]);
    assert_eq!(
        project.found("undefined-variable"),
        ["roles/a/templates/a.j2:2:7 warning", "roles/a/templates/a.j2:3:4 warning"]
    );
    let broken = project.found("template-syntax");
    assert!(matches!(broken.as_slice(), [one] if one.starts_with("roles/a/templates/b.j2:")), "{broken:?}");
}

#[test]
fn comment_and_settings_suppress_findings() {
    let tasks = "    - command: a # noqa: no-changed-when\n    - command: b # lint: skip no-changed-when\n    \
                 - name: C # noqa no-changed-when\n      command: c\n    - command: d\n";
    let project = Project::new(&[("site.yml", &play(tasks)), ("old/site.yml", &play("    - command: a\n"))]);
    assert_eq!(project.found("no-changed-when"), ["old/site.yml:4:7 warning", "site.yml:8:7 warning"]);
    project.write(".windlass-lint.yml", "paths:\n  old: [no-changed-when]\n");
    assert_eq!(project.found("no-changed-when"), ["site.yml:8:7 warning"]);
    project.write(".windlass-lint.yml", "exclude: [old/]\nskip: [no-changed-when]\n");
    assert_eq!(project.found("no-changed-when"), Vec::<String>::new());
    project.write(".windlass-lint.yml", "skip: [no-changed-wen]\n");
    let output = project.lint(&[]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(".windlass-lint.yml:1:8") && error.contains("`no-changed-when`"), "{error}");
    assert_eq!(output.status.code(), Some(4));
}

const BEFORE: &str = "\
- name: Play   # a comment stays
  hosts: all
  become: yes
  tasks:
    - name: Copy
      copy: {content: \"{{a}}\",   dest: /y, mode: 644}
      when: \"{{ b }}\"
    - name: Ping
      ping:
      when: [c == true, (d.e != True) or f == false, \"{{ g }}\"]
      vars: {x: No, y: 'yes', z: \"{{- a }}\", umlaut: \"ü {{a}}\", octal: 0o17}
      failed_when: a is defined and (b | length)
";

const AFTER: &str = "\
- name: Play   # a comment stays
  hosts: all
  become: true
  tasks:
    - name: Copy
      copy: {content: \"{{ a }}\",   dest: /y, mode: \"0644\"}
      when: b
    - name: Ping
      ping:
      when: [c | bool, (not d.e | bool) or not f | bool, g]
      vars: {x: false, y: 'yes', z: \"{{- a }}\", umlaut: \"ü {{ a }}\", octal: \"0o17\"}
      failed_when: a is defined and (b | length > 0)
";

#[test]
fn corrections_change_only_their_places_and_nothing_twice() {
    let project = Project::new(&[("site.yml", BEFORE)]);
    project.lint(&["--fix"]);
    assert_eq!(project.read("site.yml"), AFTER);
    project.lint(&["--fix"]);
    assert_eq!(project.read("site.yml"), AFTER);
}

#[test]
fn chosen_file_reported_with_names_of_whole_project() {
    let project = Project::new(&[
        ("group_vars/all.yml", "known: 1\n"),
        ("a.yml", &play("    - debug: {msg: '{{ known }} {{ unheard }}'}\n")),
        ("b.yml", &play("    - debug: {msg: '{{ unheard_too }}'}\n")),
    ]);
    let text = project.text(&["a.yml"]);
    assert!(text.contains("a.yml:4:36: warning[undefined-variable]") && !text.contains("b.yml"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn exit_code_follows_severity() {
    let project = Project::new(&[("site.yml", &play("    - command: uptime\n"))]);
    let code = |words: &[&str]| project.lint(words).status.code();
    assert_eq!(code(&[]), Some(0));
    assert_eq!(code(&["--strict"]), Some(2));
    assert_eq!(code(&["absent.yml"]), Some(1));
    assert_eq!(code(&["--rule", "absent"]), Some(1));
}

#[test]
fn formats_are_valid() {
    let project = Project::new(&[("a b.yml", &play("    - coppy: {}\n    - command: uptime\n"))]);
    let sarif: Value = serde_json::from_str(&project.text(&["--format", "sarif"])).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        let rule = &run["tool"]["driver"]["rules"][usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
        assert_eq!(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "a%20b.yml");
    }
    let github = project.text(&["--format", "github"]);
    assert!(github.starts_with("::error file=a b.yml,line=4,col=7,title=unknown-module::"), "{github}");
}

#[test]
fn literal_host_or_group_that_resembles_one_of_the_inventory_reported() {
    let tasks = "    - ping:\n      delegate_to: wroker-node1\n    - debug: {msg: \"{{ groups['kube_nodes'] }}\"}\n    \
                 - debug: {msg: \"{{ hostvars['worker-nod1'].x.y }}\"}\n    - ping:\n      \
                 when: inventory_hostname in groups['kube_nodes']\n    - debug: {msg: \"{{ groups['kube_nodes'] | \
                 default([]) }}\"}\n    - debug: {msg: \"{{ groups['elsewhere'] }} {{ groups[name] }} {{ \
                 hostvars['worker-node1'] }}\"}\n    - ping:\n      delegate_to: bastion.example.org\n";
    let project =
        Project::new(&[("site.yml", &play(tasks)), ("hosts.ini", "[kube_node]\nworker-node1\nworker-node2\n")]);
    let text = project.text(&["-i", "hosts.ini", "--rule", "unknown-group"]);
    for (message, hint) in [
        ("`wroker-node1` is not a host of the inventory", "`worker-node1`"),
        ("`kube_nodes` is not a group of the inventory", "`kube_node`"),
        ("`worker-nod1` is not a host of the inventory", "`worker-node1`"),
    ] {
        assert!(text.contains(message) && text.contains(&format!("did you mean {hint}?")), "{message}: {text}");
    }
    assert_eq!(text.matches("warning[unknown-group]").count(), 4, "{text}");
}

#[test]
fn own_roles_and_playbooks_have_no_errors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = lint_in(root, &["--severity", "error"]);
    assert_eq!((String::from_utf8(output.stdout).unwrap().as_str(), output.status.code()), ("", Some(0)));
}

#[test]
fn documentation_lists_all_rules() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/lint-rules.md")).unwrap();
    let mut documented =
        page.lines().filter_map(|line| Some(line.strip_prefix("## `")?.trim_end_matches('`').to_owned()));
    for rule in windlass::lint::RULES {
        assert_eq!(documented.next().as_deref(), Some(rule.id));
        let fixable = if rule.fixable { "yes" } else { "no" };
        let row = format!("| [`{0}`](#{0}) | {1} | {fixable} | {2} |", rule.id, rule.severity.name(), rule.summary);
        assert!(page.lines().any(|line| line == row), "add the row {row}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert!(words(&page).contains(&words(rule.doc)), "the paragraph of {} differs", rule.id);
    }
    assert_eq!(documented.next(), None);
}

const OWN: &str = "\
rules:
  pinned:
    message: a package needs a version
    help: name it
    severity: error
    module: [apt, ansible.builtin.package]
    option: state
    when: value == 'latest' and role != 'free' and 'old' not in file
  no-become:
    message: become belongs to tasks
    kind: play
    keyword: become
    when: value
  one-mode:
    message: a mode needs an owner
    when: args.mode == '0600' and args.owner is not defined and inherited.become | default(false)
";

#[test]
fn own_rules_find_what_they_match_at_its_place() {
    let site = "- name: Play\n  hosts: all\n  become: true\n  tasks:\n    - package: {name: a, state: latest}\n    \
                - ansible.builtin.apt: name=a state=latest\n    - apt: {name: a, state: present}\n    - apt: {name: '{{ x }}'}\n    \
                - file: {path: /a, mode: '0600'}\n    - file: {path: /a, mode: '0600', owner: b}\n  handlers:\n    - {name: H, package: {name: a, state: latest}}\n";
    let tasks = "- package: {name: a, state: latest}\n";
    let project = Project::new(&[
        (".windlass-lint.yml", OWN),
        ("site.yml", site),
        ("old/site.yml", site),
        ("roles/free/tasks/main.yml", tasks),
    ]);
    assert_eq!(project.found("pinned"), ["site.yml:5:26 error", "site.yml:6:28 error", "site.yml:12:36 error"]);
    assert_eq!(project.found("no-become"), ["old/site.yml:3:3 warning", "site.yml:3:3 warning"]);
    assert_eq!(project.found("one-mode"), ["old/site.yml:9:7 warning", "site.yml:9:7 warning"]);
    let text = project.text(&["site.yml"]);
    assert!(text.contains("site.yml:5:26: error[pinned]: a package needs a version\n    help: name it\n"), "{text}");
    assert!(
        project.text(&["--list-rules"]).contains("pinned") && project.text(&["--explain", "pinned"]).contains("error")
    );
    let sarif: Value = serde_json::from_str(&project.text(&["site.yml", "--format", "sarif"])).unwrap();
    let run = &sarif["runs"][0];
    let result = run["results"].as_array().unwrap().iter().find(|result| result["ruleId"] == "pinned").unwrap();
    let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(run["tool"]["driver"]["rules"][index]["id"], "pinned");
    assert!(!project.text(&["--skip", "pinned", "site.yml"]).contains("[pinned]"));
    project.write(
        "site.yml",
        &site.replace("state: latest}\n    - ansible", "state: latest} # lint: skip pinned\n    - ansible"),
    );
    assert_eq!(project.found("pinned"), ["site.yml:6:28 error", "site.yml:12:36 error"]);
    project.write(".windlass-lint.yml", &format!("{OWN}skip: [pinned]\npaths:\n  old: [no-become]\n"));
    assert_eq!(project.found("pinned"), [""; 0]);
    assert_eq!(project.found("no-become"), ["site.yml:3:3 warning"]);
}

#[test]
fn include_of_a_playbook_is_an_import_with_a_successor() {
    let project = Project::new(&[("site.yml", "- include: other.yml\n- include: missing.yml\n- hosts: all\n")]);
    project.write("other.yml", &play("    - bogus_module: {}\n"));
    assert_eq!(project.found("deprecated"), ["site.yml:1:3 error", "site.yml:2:3 error"]);
    assert_eq!(project.found("missing-file"), ["site.yml:2:12 error"]);
    for rule in ["syntax-error", "unknown-keyword"] {
        assert_eq!(project.found(rule), [""; 0], "{rule}");
    }
    project.write("all.yml", "- include: other.yml\n");
    assert!(project.found("deprecated").contains(&"all.yml:1:3 error".to_owned()));
}

#[test]
fn own_rule_that_does_not_fit_a_value_is_a_finding_beside_the_others() {
    let tasks = "    - wait_for: {port: '{{ p }}'}\n    - wait_for: {port: 22}\n    - bogus_module: {}\n";
    let project = Project::new(&[("site.yml", &play(tasks))]);
    let rule = "rules:\n  low: {message: a low port, module: wait_for, option: port, when: value < 1024}\n";
    project.write(".windlass-lint.yml", rule);
    let text = project.text(&[]);
    for part in ["4:18: warning[low]: the rule cannot be evaluated here: ", "5:18: warning[low]: a low port", "bogus"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn rules_of_one_name_in_two_projects_are_chosen_together() {
    let tasks = play("    - ping:\n");
    let rule = |word: &str| format!("rules:\n  mine: {{message: {word}, module: ping}}\n");
    let (one, two) = (rule("one"), rule("two"));
    let project = Project::new(&[
        ("x/ansible.cfg", ""),
        ("x/site.yml", &tasks),
        ("x/.windlass-lint.yml", &one),
        ("y/ansible.cfg", ""),
        ("y/site.yml", &tasks),
        ("y/.windlass-lint.yml", &two),
    ]);
    assert_eq!(project.text(&["--rule", "mine", "x", "y"]).matches("[mine]").count(), 2);
    assert_eq!(project.text(&["--skip", "mine", "x", "y"]).matches("[mine]").count(), 0);
    let sarif = project.text(&["--format", "sarif", "x", "y"]);
    assert_eq!(sarif.matches("\"id\": \"mine\"").count(), 1, "{sarif}");
}

/// Expressions that would need more memory or time than a machine has.
const TOO_MUCH: [&str; 21] = [
    "(['b'*1000000]*1000000) | join == 2",
    "(['b'*1000000]*1000000) | string == 2",
    "(['b'*1000000]*1000000) | to_json == 2",
    "(['b'*1000]*10000) | to_json == 2",
    "'a'.join(['b'*1000000]*1000000) == 2",
    "('a'*1000000).join(['b']*10000) == 2",
    "([[0]*10000000]*10000000) | flatten == 2",
    "([[[0]*1000]*1000]*1000) | flatten == 2",
    "([[[0]*1000]*1000]*1000) == 2 or ([[[0]*1000]*1000]*1000) == ([[[0]*1000]*1000]*1000)",
    "([1]*1000) | product(repeat=1000) | join == 2",
    "([1]*10000) | combinations(9999) | join == 2",
    "([1]*1000) | product([1]*1000) | join == 2",
    "([['a'*1000]*1000]*1000) | map('map', 'upper') | join == 2",
    "('a'*1000000) | regex_findall('(?=(.*))') | join == 2",
    "('a'*1000000) | regex_findall('(a)?'*200) | join == 2",
    "('a'*1000000) | regex_replace('a', 'b'*1000000) | join == 2",
    "('%(a)s'*200000) | format(a='b'*1000000) == 2",
    "('www.a.com '*100000) | urlize(target='b'*1000000) == 2",
    "('a'*1000000) | wordwrap(1, wrapstring='b'*1000000) == 2",
    "([1]*10000) | to_json(separators=['b'*1000000, 'c']) == 2",
    "([[[[1]]]]*10000) | to_json(indent='b'*1000000) == 2",
];

#[test]
fn own_rule_is_bounded_whatever_its_expression() {
    let project = Project::new(&[("site.yml", &play("    - debug: {msg: a}\n"))]);
    for when in TOO_MUCH {
        project.write(".windlass-lint.yml", &format!("rules:\n  mine:\n    message: wrong\n    when: \"{when}\"\n"));
        let started = std::time::Instant::now();
        let limited = "ulimit -v 3000000; exec \"$0\" lint";
        let program = env!("CARGO_BIN_EXE_windlass");
        let output = Command::new("sh").args(["-c", limited, program]).current_dir(project.path()).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let is_refused = ["too ", "longer than", "did not end within"].iter().any(|part| said.contains(part));
        assert!(is_refused && output.status.code().is_some(), "{when}: {:?} {said}", output.status);
        assert!(started.elapsed().as_secs() < 30, "{when}: {said}");
    }
}

#[test]
fn own_rules_only_compute() {
    let project = Project::new(&[("site.yml", &play("    - debug: {msg: \"{{ lookup('pipe', 'touch ran') }}\"}\n"))]);
    for (rule, says) in [
        ("when: lookup('pipe', 'touch ran')", "`when` knows no `lookup`"),
        ("when: ansible_host == 'a'", "`when` knows no `ansible_host`: it sees args, file, "),
        ("when: file is exists", "the test `exists` is not possible in a rule"),
        ("when: \"'~' | expanduser == file\"", "the filter `expanduser` is not possible in a rule"),
        ("when: name is ansible.utils.resolvable", "the test `ansible.utils.resolvable` is not possible in a rule"),
        ("when: \"'{{ name }}'\"", "leave out `{{ }}`"),
        ("when: name ==", "`when` is not an expression"),
        ("when: [a]", "`when` must be an expression"),
        ("kind: play", "matches everything"),
        ("modul: apt", "did you mean `module`?"),
        ("severity: fatal\n    module: apt", "`severity` is info, warning or error"),
        ("kind: tasks\n    module: apt", "`kind` is a list of play, block, task and handler"),
    ] {
        project.write(".windlass-lint.yml", &format!("rules:\n  mine:\n    message: wrong\n    {rule}\n"));
        let output = project.lint(&[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{rule}: {error}");
        assert!(error.contains(says) && error.contains(".windlass-lint.yml:"), "{rule}: {error}");
    }
    // A name that is composed finds nothing either.
    for when in ["['/etc'] | select('ansible.utils.' ~ 'resolvable') | list", "['/etc'] | map('real' ~ 'path') | list"]
    {
        project.write(".windlass-lint.yml", &format!("rules:\n  mine:\n    message: wrong\n    when: \"{when}\"\n"));
        let text = project.text(&[]);
        assert!(text.contains("warning[mine]: the rule cannot be evaluated here: "), "{when}: {text}");
    }
    for (rule, says) in [
        ("name-missing: {message: x, module: y}", "`name-missing` is a rule of windlass lint"),
        ("Mine: {message: x, module: y}", "`Mine` is not the name of a rule"),
        ("mine: {module: y}", "needs a `message`"),
        ("mine: [a]", "a rule must be a mapping"),
    ] {
        project.write(".windlass-lint.yml", &format!("rules:\n  {rule}\n"));
        let error = String::from_utf8(project.lint(&[]).stderr).unwrap();
        assert!(error.contains(says), "{rule}: {error}");
    }
    assert!(!project.path().join("ran").exists());
}
