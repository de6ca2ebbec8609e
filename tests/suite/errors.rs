//! Errors as the user sees them: problem, place, remedy and exit code.

use std::fs;
use std::process::Command;

const LOCAL: &[&str] = &["-i", "localhost,", "-c", "local"];

/// A playbook without a task.
const NOTHING: (&str, &str) = ("p.yml", "- hosts: localhost\n  gather_facts: false\n");

/// Runs `p.yml` with these files. Returns the output without banners, and the exit code.
fn told(files: &[(&str, &str)], arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ANSIBLE")) {
        command.env_remove(name);
    }
    let command = command.arg("playbook").args(arguments).arg("p.yml").current_dir(&folder);
    // Without the list of failures, which repeats them after the recap.
    command.env("NO_COLOR", "1").env("WINDLASS_FAILURES", "ansible");
    let output = command.env("HOME", folder.path()).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let before_recap = stdout.split("PLAY RECAP").next().unwrap_or_default();
    let lines = before_recap.lines().filter(|line| !line.starts_with("PLAY ") && !line.starts_with("TASK "));
    let lines: Vec<&str> = lines.chain(stderr.lines()).map(str::trim_end).collect();
    let mut text = lines.join("\n").replace(&folder.path().display().to_string(), "DIR");
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    format!("{}\n[exit {}]", text.trim(), output.status.code().unwrap())
}

#[test]
fn unknown_keyword_reported_with_suggestion() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debug:
        msg: x
      deletgate_to: other
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: 'deletgate_to' is not a valid attribute for a Task
      at p.yml:6:7

    6 |       deletgate_to: other
      |       ^

    hint: did you mean `delegate_to`?
    [exit 4]
    "##);
}

#[test]
fn unknown_play_keyword_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  taskz: []
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: 'taskz' is not a valid attribute for a Play
      at p.yml:2:3

    2 |   taskz: []
      |   ^

    hint: did you mean `tasks`?
    [exit 4]
    "##);
}

#[test]
fn unknown_module_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debgu:
        msg: x
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: there is no module or action 'debgu'
      at p.yml:4:7

    4 |     - debgu:
      |       ^

    hint: did you mean `debug`?
    [exit 4]
    "##);
}

#[test]
fn undefined_variable_reported_with_position() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - name: greet
      debug:
        msg: "hello {{ user_nam }}"
      vars:
        user_name: x
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Task failed: 'user_nam' is undefined. Did you mean 'user_name'? While evaluating `user_nam` at p.yml:6:14.
    6 |         msg: "hello {{ user_nam }}"
      |              ^

    fatal: [localhost]: FAILED! => {"msg": "'user_nam' is undefined. Did you mean 'user_name'? While evaluating `user_nam` at p.yml:6:14."}
    [exit 2]
    "##);
}

#[test]
fn undefined_variable_in_condition_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debug:
        msg: x
      when: nothing_here == 1
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Task failed: 'nothing_here' is undefined. While evaluating `nothing_here == 1` at p.yml:6:13.
    6 |       when: nothing_here == 1
      |             ^

    fatal: [localhost]: FAILED! => {"msg": "'nothing_here' is undefined. While evaluating `nothing_here == 1` at p.yml:6:13."}
    [exit 2]
    "##);
}

#[test]
fn template_without_quotes_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debug:
        msg: {{ x }}
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: This is a mapping, and only a scalar can be the key of a mapping.
      at p.yml:5:15

    5 |         msg: {{ x }}
      |               ^

    hint: A value that begins with a template must be in quotes: msg: "{{ x }}"
    [exit 4]
    "##);
}

#[test]
fn missing_role_reported() {
    let files = [
        (
            "p.yml",
            r#"- hosts: localhost
  roles: [comon]
"#,
        ),
        (
            "roles/common/tasks/main.yml",
            r#"[]
"#,
        ),
    ];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: the role 'comon' was not found
      at p.yml:2:11

    2 |   roles: [comon]
      |           ^

    hint: did you mean `common`? searched in DIR/roles:DIR/.ansible/roles:/usr/share/ansible/roles:/etc/ansible/roles:DIR
    [exit 1]
    "##);
}

#[test]
fn missing_task_file_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - import_tasks: none.yml
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Could not find or access 'DIR/none.yml' on the Ansible Controller.
      at p.yml:4:7

    4 |     - import_tasks: none.yml
      |       ^

    hint: searched in DIR/none.yml, DIR/tasks/none.yml
    [exit 1]
    "##);
}

#[test]
fn missing_include_file_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - include_tasks: none.yml
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Task failed: Could not find or access 'DIR/none.yml' on the Ansible Controller.
      at p.yml:4:7

    4 |     - include_tasks: none.yml
      |       ^

    hint: searched in DIR/none.yml, DIR/tasks/none.yml

    fatal: [localhost]: FAILED! => {"changed": false, "include": "none.yml", "reason": "Could not find or access 'DIR/none.yml' on the Ansible Controller."}
    [exit 2]
    "##);
}

#[test]
fn missing_copy_source_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - copy:
        src: none.txt
        dest: /nonexistent/x
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Task failed: Could not find or access 'none.txt'
    Searched in:
    	DIR/files/none.txt
    	DIR/none.txt on the Ansible Controller.
    If you are using a module and expect the file to exist on the remote, see the remote_src option
    Origin: p.yml:4:7

    4 |     - copy:
      |       ^

    fatal: [localhost]: FAILED! => {"changed": false, "msg": "Could not find or access 'none.txt'\nSearched in:\n\tDIR/files/none.txt\n\tDIR/none.txt on the Ansible Controller.\nIf you are using a module and expect the file to exist on the remote, see the remote_src option"}
    [exit 2]
    "##);
}

#[test]
fn loop_over_text_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debug:
        msg: x
      loop: text
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Task failed: loop needs a list, but this is str: text
    Origin: p.yml:4:7

    4 |     - debug:
      |       ^

    fatal: [localhost]: FAILED! => {"msg": "loop needs a list, but this is str: text"}
    [exit 2]
    "##);
}

#[test]
fn two_modules_in_one_task_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debug:
        msg: x
      command: ls
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: a task can have only one module, but this one has several: debug (line 4), command (line 6)
      at p.yml:6:7

    6 |       command: ls
      |       ^
    [exit 4]
    "##);
}

#[test]
fn task_without_module_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - name: x
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: this task has no module: add a key with the module's name and its arguments
      at p.yml:4:7

    4 |     - name: x
      |       ^
    [exit 4]
    "##);
}

#[test]
fn self_referencing_variable_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debug:
        msg: "{{ a }}"
      vars:
        a: "{{ b }}"
        b: "{{ a }}"
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Task failed: Recursive loop detected: the variable refers to itself: a -> b -> a. While evaluating `{{ a }}` at p.yml:7:12.
    7 |         a: "{{ b }}"
      |            ^

    used by `b` at p.yml:8:12
    8 |         b: "{{ a }}"
      |            ^

    used by the task at p.yml:4:7
    4 |     - debug:
      |       ^

    fatal: [localhost]: FAILED! => {"msg": "Recursive loop detected: the variable refers to itself: a -> b -> a. While evaluating `{{ a }}` at p.yml:7:12."}
    [exit 2]
    "##);
}

#[test]
fn nested_variable_reported_with_the_place_of_each_use() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  vars:
    inner: "{{ nope }}"
    outer: "{{ inner }}"
  tasks:
    - debug:
        msg: "{{ outer }}"
"#,
    )];
    let report = told(&files, LOCAL);
    let places = "for `inner` for `outer` at p.yml:4:12.
4 |     inner: \"{{ nope }}\"
  |            ^

used by `outer` at p.yml:5:12
5 |     outer: \"{{ inner }}\"
  |            ^

used by the task at p.yml:7:7
7 |     - debug:
  |       ^
";
    assert!(report.contains(places), "{report}");
    // The result of the task has the message alone.
    assert!(report.contains("for `outer` at p.yml:4:12.\"}"), "{report}");
}

#[test]
fn self_importing_file_reported() {
    let files = [
        (
            "p.yml",
            r#"- hosts: localhost
  gather_facts: false
  tasks:
    - import_tasks: self.yml
"#,
        ),
        (
            "self.yml",
            r#"- import_tasks: self.yml
"#,
        ),
    ];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: imports are nested more than 50 deep: this one leads back to itself
      at self.yml:1:3

    1 | - import_tasks: self.yml
      |   ^

    hint: for recursion use include_tasks or include_role, with a condition that ends it
    [exit 4]
    "##);
}

#[test]
fn unknown_handler_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debug:
        msg: x
      changed_when: true
      notify: hanlder
  handlers:
    - name: handler
      debug:
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    changed: [localhost] => {
        "msg": "x"
    }

    [WARNING]: no handler of the play has the name or topic `hanlder`, which the task at p.yml:7:15 notifies: did you mean `handler`?
    [ERROR]: The requested handler 'hanlder' was not found in either the main handlers list nor in the listening handlers list
      at p.yml:4:7

    4 |     - debug:
      |       ^

    hint: did you mean `handler`?
    [exit 1]
    "##);
}

#[test]
fn unclosed_quote_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - command: "echo 'x"
"#,
    )];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: a quote or a template is opened here and not closed: echo 'x
      at p.yml:4:7

    4 |     - command: "echo 'x"
      |       ^
    [exit 4]
    "##);
}

#[test]
fn single_equals_sign_in_condition_reported() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debug:
      when: inventory_hostname = 'localhost'
"#,
    )];
    let told = told(&files, LOCAL);
    assert!(told.contains("the end of the expression is expected here, not `=`; `==` compares"), "{told}");
}

#[test]
fn empty_playbook_reported() {
    let files = [("p.yml", r#""#)];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: p.yml is empty: a playbook is a list of plays
      at p.yml:1:1

    1 |
      | ^

    hint: a playbook starts with `- hosts: ...`
    [exit 4]
    "##);
}

#[test]
fn wrong_vault_password_reported() {
    let files = [
        (
            "p.yml",
            r#"- hosts: localhost
  gather_facts: false
  vars_files: [v.yml]
  tasks:
    - debug:
        var: a
"#,
        ),
        (
            "v.yml",
            r#"$ANSIBLE_VAULT;1.1;AES256
62616539343766333132366439383362623763343866366431636563383366383330646430353935
3831316636313033376535636638323336643139343435630a623432353035396262396235636164
34653261653232326139336236363434376562376662666462343438663737353535346162336262
3165346431376333370a376336613031313433313064343039653532316562396332366339653133
3264
"#,
        ),
        (
            "pw",
            r#"other
"#,
        ),
    ];
    insta::assert_snapshot!(told(&files, &["-i", "localhost,", "-c", "local", "--vault-password-file", "pw"]), @r##"
    [ERROR]: DIR/v.yml cannot be decrypted: Decryption failed: none of the vault passwords (default) decrypts the data.
      at p.yml:3:16

    3 |   vars_files: [v.yml]
      |                ^
    [exit 1]
    "##);
}

#[test]
fn missing_vault_password_reported() {
    let files = [
        (
            "p.yml",
            r#"- hosts: localhost
  gather_facts: false
  vars_files: [v.yml]
  tasks:
    - debug:
        var: a
"#,
        ),
        (
            "v.yml",
            r#"$ANSIBLE_VAULT;1.1;AES256
62616539343766333132366439383362623763343866366431636563383366383330646430353935
3831316636313033376535636638323336643139343435630a623432353035396262396235636164
34653261653232326139336236363434376562376662666462343438663737353535346162336262
3165346431376333370a376336613031313433313064343039653532316562396332366339653133
3264
"#,
        ),
    ];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: A vault password or secret must be specified to decrypt DIR/v.yml
      at p.yml:3:16

    3 |   vars_files: [v.yml]
      |                ^

    hint: give one with --vault-password-file, --vault-id or --ask-vault-pass
    [exit 1]
    "##);
}

/// Playbooks compare messages in results, so advice is printed separately.
#[test]
fn hint_excluded_from_result() {
    let files = [
        (
            "p.yml",
            r#"- hosts: localhost
  gather_facts: false
  tasks:
    - copy:
        src: tree/
        dest: /nonexistent/copy
      register: it
      ignore_errors: true
    - debug:
        var: it.msg
"#,
        ),
        ("tree/inner/first", "$ANSIBLE_VAULT;1.1;AES256\n6162\n"),
        (
            "tree/last",
            r#"$ANSIBLE_VAULT;1.1;AES256
62616539343766333132366439383362623763343866366431636563383366383330646430353935
3831316636313033376535636638323336643139343435630a623432353035396262396235636164
34653261653232326139336236363434376562376662666462343438663737353535346162336262
3165346431376333370a376336613031313433313064343039653532316562396332366339653133
3264
"#,
        ),
    ];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Task failed: A vault password or secret must be specified to decrypt DIR/tree/last
    Origin: p.yml:4:7

    4 |     - copy:
      |       ^

    hint: give one with --vault-password-file, --vault-id or --ask-vault-pass

    fatal: [localhost]: FAILED! => {"changed": false, "msg": "A vault password or secret must be specified to decrypt DIR/tree/last"}
    ...ignoring

    ok: [localhost] => {
        "it.msg": "A vault password or secret must be specified to decrypt DIR/tree/last"
    }
    [exit 0]
    "##);
}

#[test]
fn unreadable_inventory_reported() {
    let files = [
        (
            "p.yml",
            r#"- hosts: all
  tasks: []
"#,
        ),
        (
            "hosts.ini",
            r#"[web
x
"#,
        ),
    ];
    insta::assert_snapshot!(told(&files, &["-i", "hosts.ini"]), @r##"
    skipping: no hosts matched

    [WARNING]: Unable to parse DIR/hosts.ini as an inventory source.
    Failed to parse DIR/hosts.ini with ini: DIR/hosts.ini:1:1: The host pattern `[web` has a `[` without its `]`.
    1 | [web
      | ^
    [WARNING]: No inventory was parsed, only implicit localhost is available. It does not match `all`.
    [exit 0]
    "##);
}

#[test]
fn import_role_with_list_of_files_refused() {
    let files = [
        (
            "p.yml",
            r#"- hosts: localhost
  gather_facts: false
  tasks:
    - import_role:
        name: r
        vars_from: [a.yml]
"#,
        ),
        ("roles/r/tasks/main.yml", "[]\n"),
    ];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Expected a string for vars_from but got a list instead
      at p.yml:6:20

    6 |         vars_from: [a.yml]
      |                    ^

    hint: it is the name of one file of the role
    [exit 4]
    "##);
}

#[test]
fn include_role_with_unknown_word_for_public_refused() {
    let role = ("roles/r/tasks/main.yml", "- ping:\n");
    for (kind, word) in [("include", "maybe"), ("import", "maybe"), ("include", "2"), ("import", "[]")] {
        let playbook =
            format!("- hosts: localhost\n  gather_facts: false\n  tasks: [{kind}_role: {{name: r, public: {word}}}]\n");
        let told = told(&[("p.yml", &playbook), role], LOCAL);
        assert!(told.contains("`public` must be true or false"), "{told}");
    }
}

/// An unreachable host has not run the role, so the role's next occurrence is its first.
#[test]
fn role_run_again_for_unreachable_host() {
    let files = [
        (
            "p.yml",
            r#"- hosts: localhost
  gather_facts: false
  ignore_unreachable: true
  vars: {ansible_connection: ssh, ansible_host: host.invalid, ansible_ssh_retries: 0}
  roles: [r, r]
"#,
        ),
        ("roles/r/tasks/main.yml", "- ping:\n"),
    ];
    let told = told(&files, &["-i", "localhost,", "--compat", "2.18"]);
    assert_eq!(told.matches("UNREACHABLE!").count(), 2, "{told}");
}

/// Playbooks compare these messages.
#[test]
fn invalid_loop_fails_with_ansible_message() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - {debug: , with_sequence: start=1, ignore_errors: true}
    - {debug: , with_sequence: start=2 end=1, ignore_errors: true}
    - {debug: , with_sequence: start=1 end=2 stride=-1, ignore_errors: true}
    - {debug: , with_sequence: count=1 end=2, ignore_errors: true}
    - {debug: , with_indexed_items: {a: 1}, ignore_errors: true}
    - {debug: , with_list: {a: 1}, ignore_errors: true}
    - {debug: , with_nested: [], ignore_errors: true}
"#,
    )];
    insta::assert_snapshot!(told(&files, &["-i", "localhost,", "-c", "local", "--compat", "2.18"]).replace("...ignoring\n", ""), @r##"
    fatal: [localhost]: FAILED! => {"msg": "must specify count or end in with_sequence"}

    fatal: [localhost]: FAILED! => {"msg": "to count backwards make stride negative"}

    fatal: [localhost]: FAILED! => {"msg": "to count forward don't make stride negative"}

    fatal: [localhost]: FAILED! => {"msg": "can't specify both count and end in with_sequence"}

    fatal: [localhost]: FAILED! => {"msg": "with_indexed_items expects a list"}

    fatal: [localhost]: FAILED! => {"msg": "with_list expects a list"}

    fatal: [localhost]: FAILED! => {"msg": "with_nested requires at least one element in the nested list"}
    [exit 0]
    "##);
}

#[test]
fn handler_that_cannot_be_notified_warns() {
    let files = [(
        "p.yml",
        r#"- hosts: localhost
  gather_facts: false
  tasks:
    - debug:
      changed_when: true
      notify: usable
  handlers:
    - name: of {{ nowhere }}
      debug:
    - name: usable
      debug:
"#,
    )];
    let told = told(&files, LOCAL);
    assert!(
        told.contains("[WARNING]: Handler 'of {{ nowhere }}' is unusable because it has no listen topics"),
        "{told}"
    );
}

#[test]
fn include_role_as_handler_refused() {
    let files = [
        (
            "p.yml",
            r#"- hosts: localhost
  handlers:
    - name: h
      include_role: {name: r}
"#,
        ),
        ("roles/r/tasks/main.yml", "[]\n"),
    ];
    insta::assert_snapshot!(told(&files, LOCAL), @r##"
    [ERROR]: Using 'include_role' as a handler is not supported.
      at p.yml:3:7

    3 |     - name: h
      |       ^

    hint: put the tasks of the role among its own handlers
    [exit 4]
    "##);
}

#[test]
fn settings_of_world_writable_directory_ignored() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("ansible.cfg"), "[defaults]\nremote_user = somebody\n").unwrap();
    let answer = |mode, arguments: &[&str]| {
        fs::set_permissions(&project, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(arguments).current_dir(&project).env_remove("ANSIBLE_CONFIG").env("HOME", folder.path());
        let output = command.output().unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
    };
    let dump = &["config", "dump", "--only-changed"];
    assert!(answer(0o755, dump).contains("somebody"));
    assert!(!answer(0o777, dump).contains("somebody"));
    fs::write(project.join("p.yml"), "- hosts: all\n").unwrap();
    let warned = answer(0o777, &["playbook", "-i", "localhost,", "--list-hosts", "p.yml"]);
    assert!(warned.contains("run in a world writable directory"), "{warned}");
}

#[test]
fn every_setting_of_windlass_is_known_to_config_validate() {
    let folder = tempfile::tempdir().unwrap();
    let validate = |settings: &str| {
        fs::write(folder.path().join("ansible.cfg"), settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["config", "validate"]).current_dir(&folder).env_remove("ANSIBLE_CONFIG");
        let output = command.env("HOME", folder.path()).output().unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
    };
    let valid = validate("[windlass]\nlock = fail\njournal = false\nage_identities = keys.txt\ncompat = 2.18\n");
    assert!(valid.contains("All configurations seem valid!"), "{valid}");
    let refused = validate("[windlass]\nlokc = fail\n");
    assert!(refused.contains("Found unknown key 'lokc' in section 'windlass'"), "{refused}");
}

#[test]
fn misspelt_setting_gets_a_suggestion() {
    let settings =
        "[defaults]\nhost_key_cheking = false\n[windlass]\nlokc = fail\n[default]\nforks = 3\n[mine]\na = b\n";
    let files = [("ansible.cfg", settings), NOTHING];
    let told = told(&files, LOCAL);
    assert!(told.contains("host_key_cheking (did you mean `host_key_checking`?) has no effect here"), "{told}");
    assert!(told.contains("lokc (did you mean `lock`?) has no effect here"), "{told}");
    assert!(told.contains("[default] forks (did you mean `defaults`?) has no effect here"), "{told}");
    assert!(!told.contains("mine"), "{told}");
}

#[test]
fn misspelt_option_of_a_module_gets_a_suggestion() {
    for (task, hint) in [
        ("copy: {contents: a, dest: /tmp/x}", "`copy` has no option `contents`; did you mean `content`?"),
        ("ansible.builtin.file: {pth: /tmp/x}", "`file` has no option `pth`; did you mean `path`?"),
    ] {
        let play = format!("- hosts: localhost\n  gather_facts: false\n  tasks:\n    - {task}\n");
        let told = told(&[("p.yml", &play)], LOCAL);
        assert!(told.contains(&format!("hint: {hint}")), "{told}");
    }
}

#[test]
fn number_that_is_none_is_refused_in_words() {
    let told = told(&[NOTHING], &["-f", "x"]);
    assert!(told.contains("invalid value 'x' for '--forks <COUNT>': a whole number is needed"), "{told}");
}

#[test]
fn misspelt_boolean_in_settings_does_not_turn_off_host_keys() {
    let files = [("ansible.cfg", "[defaults]\nhost_key_checking = treu\n"), NOTHING];
    let told = told(&files, LOCAL);
    assert!(told.contains("the setting host_key_checking must be true or false, not 'treu'"), "{told}");
}

#[test]
fn word_that_is_no_boolean_fails_its_task() {
    for keyword in ["any_errors_fatal", "become", "check_mode", "diff", "ignore_unreachable", "no_log", "run_once"] {
        let playbook = format!(
            "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - command: echo shown\n      {keyword}: yess\n"
        );
        let told = told(&[("p.yml", &playbook)], LOCAL);
        assert!(told.ends_with("[exit 2]") && !told.contains("changed: "), "{keyword}: {told}");
        assert!(keyword == "no_log" || told.contains(&format!("'{keyword}' has an invalid value (yess)")), "{told}");
        assert!(keyword != "no_log" || told.contains("censored"), "{told}");
    }
}

#[test]
fn variable_that_is_no_boolean_neither_becomes_nor_trusts() {
    let playbook = ("p.yml", "- hosts: all\n  gather_facts: false\n  tasks:\n    - command: echo shown\n");
    for (name, field) in [("ansible_become", "become"), ("ansible_host_key_checking", "ansible_host_key_checking")] {
        let inventory = format!("here ansible_host=127.0.0.1 ansible_port=1 ansible_ssh_retries=0 {name}=treu\n");
        let told = told(&[playbook, ("hosts", &inventory)], &["-i", "hosts"]);
        assert!(told.contains(&format!("'{field}' has an invalid value (treu)")), "{told}");
    }
}

/// Text of `-e`, an error's sentence and place, and its exit code: that of ansible-core, which accepts `novalue`.
const EXTRA_VARS: &[(&str, &str, &str, &str)] = &[
    ("@missing.yml", "missing.yml cannot be read", "", "[exit 1]"),
    ("@vaulted.yml", "vaulted.yml cannot be decrypted", "", "[exit 1]"),
    ("{bad", "While parsing a flow mapping, did not find expected ',' or '}'.", "at command line:1:1", "[exit 4]"),
    ("@bad.yml", "While parsing a flow sequence", "at bad.yml:2:2", "[exit 4]"),
    ("@open.json", "While parsing a flow mapping", "at open.json:1:1\n\n1 | {\"a\": 1,", "[exit 4]"),
    ("@.", ". cannot be read", "", "[exit 4]"),
    ("a='x", "a quote or a template is opened here and not closed: a='x", "", "[exit 4]"),
    ("[1, 2]", "Invalid extra vars data supplied. '[1, 2]' could not be made into a dictionary", "", "[exit 5]"),
    ("@list.yml", "list.yml must hold a mapping of variables, not a list", "at list.yml:1:1", "[exit 5]"),
    ("@", "the `@` of extra variables needs the name of a file", "", "[exit 4]"),
    ("novalue", "extra variables must be `key=value`, YAML, JSON or @FILE, not 'novalue'", "", "[exit 5]"),
];

#[test]
fn invalid_extra_vars_reported_with_place_and_code() {
    let files = [
        NOTHING,
        ("bad.yml", "a: [1, 2\nb: 3\n"),
        ("open.json", "{\"a\": 1,\n \"b\": {\"c\": 1}\n"),
        ("list.yml", "- a\n"),
        ("vaulted.yml", "$ANSIBLE_VAULT;1.1;AES256\n6162\n"),
    ];
    for (text, sentence, place, code) in EXTRA_VARS {
        let shown = told(&files, &[LOCAL, &["-e", text]].concat());
        let all = [*sentence, *place, *code].iter().all(|part| shown.contains(part));
        assert!(all, "-e {text:?} does not print {sentence:?}, {place:?} and {code}:\n{shown}");
    }
}

#[test]
fn missing_password_file_and_inventory_reported_once() {
    let shown = told(&[NOTHING], &[LOCAL, &["--vault-password-file", "nope"]].concat());
    assert_eq!(shown, "[ERROR]: the vault password file nope was not found\n[exit 1]");
    let shown = told(&[NOTHING, ("ansible.cfg", "[defaults]\ninventory = nope\n")], &[]);
    assert_eq!(shown.matches("only implicit localhost is available").count(), 1, "{shown}");
    assert!(!shown.contains("provided hosts list is empty"), "{shown}");
}

#[test]
fn failed_argument_spec_points_at_caller_of_role() {
    let specs = "argument_specs:\n  main:\n    options:\n      port: {type: int, required: true}\n";
    let role = [("roles/spec/meta/argument_specs.yml", specs), ("roles/spec/tasks/main.yml", "- debug:\n")];
    for (body, place) in [
        ("  roles:\n    - role: spec\n", "p.yml:4:13"),
        ("  tasks:\n    - include_role: {name: spec}\n", "p.yml:4:7"),
        ("  tasks:\n    - import_role: {name: spec}\n", "p.yml:4:7"),
        ("  roles: [caller]\n", "roles/caller/meta/main.yml:1:16"),
    ] {
        let playbook = format!("- hosts: localhost\n  gather_facts: false\n{body}");
        let caller = [("roles/caller/meta/main.yml", "dependencies: [spec]\n"), ("p.yml", &playbook)];
        let shown = told(&[&role[..], &caller[..]].concat(), LOCAL);
        assert!(shown.contains(&format!("{place}\n")), "{body}: {shown}");
        let at_spec = "roles/spec/meta/argument_specs.yml:4:7 specifies the arguments";
        assert!(shown.contains(at_spec), "{body}: {shown}");
    }
}

#[test]
fn settings_of_windlass_are_listed_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ansible.cfg"), "[windlass]\nshards = 3\nshow = failed\n").unwrap();
    let config = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.arg("config").args(arguments).current_dir(&folder).env_remove("ANSIBLE_CONFIG");
        let output = command.env("HOME", folder.path()).env("NO_COLOR", "1").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let changed = config(&["dump", "--only-changed"]);
    assert!(changed.contains("WINDLASS_SHARDS(") && changed.contains("ansible.cfg) = 3\n"), "{changed}");
    assert!(changed.contains("WINDLASS_SHOW(") && !changed.contains("WINDLASS_STREAM"), "{changed}");
    let all = config(&["dump"]);
    assert!(all.contains("WINDLASS_STREAM(default) = True\n"), "{all}");
    let list = config(&["list"]);
    assert!(list.contains("WINDLASS_SHARDS:") && list.contains("WINDLASS_LOCK_TIMEOUT:"), "{list}");
}
