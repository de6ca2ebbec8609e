//! No output of a run contains a secret in any encoding, and masking keeps the output's format.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::chance::Chance;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};

/// Secrets that defeat masking of quoted text.
const NASTY: &[&str] = &[
    "hunter2-plain",
    "quo\"te's\"inside'",
    "back\\slash\\n\\",
    "first line \"q\"\nsecond\\line\n  third line",
    "Grüße aus dem Süden",
    "per cent%20&<tag>?/+",
    "\": {\"a\": \"",
    "$HOME `id` $(id)",
    "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7cNlRq\nzU0s+/xyzABCdef==\n-----END KEY-----\n",
];

/// Generated secrets beside [`NASTY`].
const GENERATED: usize = 6;

/// All secrets: [`NASTY`], and texts of random characters that formats quote or escape. `WINDLASS_MASKING_SEED` is
/// a number that chooses others.
fn secrets() -> &'static [String] {
    static ALL: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| {
        let seed: u64 = std::env::var("WINDLASS_MASKING_SEED").map_or(20_261_126, |seed| seed.parse().unwrap());
        let mut chance = Chance::new(seed, 0);
        let mut random = |below: usize| usize::try_from(chance.below(below as u64)).unwrap();
        // Braces would make a template of a variable.
        let letters: Vec<char> = "abcXYZ0189\"'\\`$&<>%?/+=:;,#!@[]()|*~^ \tüßé漢\u{1f511}\n".chars().collect();
        let generated = (0..GENERATED).map(|number| {
            let middle: String = (0..8 + random(24)).map(|_| letters[random(letters.len())]).collect();
            format!("gen{number}x{middle}z")
        });
        NASTY.iter().map(|text| (*text).to_owned()).chain(generated).collect()
    })
}

/// Vaulted values that are not masked: masking them would hide nothing and break everything.
const TRIVIAL: &[&str] = &["false", "8080", "localhost", "ok"];

const PLAYBOOK: &str = r#"
- hosts: localhost
  gather_facts: false
  tasks:
    - name: A task on localhost
      debug: {msg: "{{ item }}"}
      loop: "{{ secrets }}"
    - debug: {var: secrets}
    - name: "Named after {{ inline }}"
      debug: {msg: "{{ inline }} {{ trivial }}"}
    - debug:
        msg:
          - "{{ item | b64encode }}"
          - "{{ ('x' ~ item) | b64encode }}"
          - "{{ ('xy' ~ item ~ 'z') | b64encode }}"
          - "{{ item | urlencode }}"
          - "{{ item | to_json }} {{ {'k': item} | to_json | to_json }}"
          - "{{ item | quote }}"
          - "{{ {item: 8080, 'port': 8080, 'flag': false} }}"
          - "{{ [item] | string }} {{ [item] | to_nice_yaml }}"
          - "{{ item | tojson }} {{ item | to_yaml }} {{ item | regex_escape }}"
      loop: "{{ secrets }}"
    - command: {argv: [printf, "%s", "{{ item }}"]}
      loop: "{{ secrets }}"
    - shell: "printf %s {{ item | quote }} >&2; exit 3"
      loop: "{{ secrets }}"
      ignore_errors: true
    - copy:
        content: "{{ secrets | join('\n') }}"
        dest: "{{ playbook_dir }}/written"
    - lineinfile: {path: "{{ playbook_dir }}/written", line: "and {{ inline }}"}
    - fail: {msg: "{{ secrets }}"}
      ignore_errors: true
    - debug: {msg: "{{ item | no_such_filter }}"}
      loop: "{{ secrets }}"
      ignore_errors: true
    - debug: {msg: "{{ dict(secrets) }} {{ inline + 1 }}"}
      ignore_errors: true
    - command: {argv: ["sh", "-c", "echo {{ inline }}; exit 1"]}
      register: tried
      until: tried is success
      retries: 1
      delay: 0
      ignore_errors: true
    - set_stats: {data: {kept: "{{ inline }}"}}
    - debug: {var: pin}
    - debug: {msg: "{{ pin }} {{ [pin] }}"}
    - debug: {msg: "https://ghp_0123456789abcdefWXYZ@example.org/x?access_token=t0ken-of-a-query&page=2"}
    - debug: {msg: "git clone https://me:passw0rd@example.org/x.git and {{ lookup('file', 'whole.key') }}"}
    - include_vars: {file: later.yml}
    - debug: {var: later}
    - include_tasks: "{{ 'more.yml' }}"
      vars: {passed: "{{ inline }}"}
    - name: Warn
      debug: {msg: "{{ passed_on }}", verbosity: 0}
      vars: {passed_on: "{{ inline }}"}
      when: inline
      ignore_errors: true
    - assert: {that: ["inline == 'no'"], fail_msg: "not {{ inline }}"}
"#;

fn windlass(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ANSIBLE") || name.starts_with("JUNIT")) {
        command.env_remove(name);
    }
    command.current_dir(folder).env("HOME", folder).env("NO_COLOR", "1");
    command
}

fn encrypt(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
    fs::write(folder.join(name), text).unwrap();
    let vault = windlass(folder).args(["vault", "encrypt", "--vault-password-file", "pass", name]).output().unwrap();
    assert!(vault.status.success(), "{}", String::from_utf8_lossy(&vault.stderr));
}

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("pass"), "the-vault-password\n").unwrap();
    fs::write(path.join("p.yml"), PLAYBOOK).unwrap();
    fs::write(path.join("more.yml"), "- debug: {msg: \"included {{ passed }}\"}\n").unwrap();
    fs::write(path.join("hosts"), "localhost ansible_connection=local\n").unwrap();
    let json = serde_json::json!({"secrets": secrets(), "trivial": TRIVIAL, "nested": {"port": 8080, "flag": false}, "pin": 31_415_926_535_u64});
    encrypt(path, "group_vars/all/vault.yml", &json.to_string());
    encrypt(path, "later.yml", "later: [{password: secret-of-later}]\n");
    encrypt(path, "whole.key", "whole-file-secret");
    let inline = ["vault", "encrypt_string", "--vault-password-file", "pass", "-n", "inline", "inl1ne s'ecret"];
    let inline = windlass(path).args(inline).output().unwrap();
    fs::write(path.join("group_vars/all/plain.yml"), inline.stdout).unwrap();
    folder
}

/// Runs the playbook with a callback; every sink writes to `out`.
fn run(folder: &Path, callback: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = windlass(folder);
    command.args(["playbook", "-i", "hosts", "--vault-password-file", "pass", "--diff"]).args(arguments).arg("p.yml");
    command.envs(environment.iter().copied());
    // Timing callbacks would print after the document.
    let enabled = if callback == "json" { "junit,tree" } else { "junit,tree,profile_tasks,profile_roles,timer" };
    for (name, value) in [
        ("ANSIBLE_STDOUT_CALLBACK", callback),
        ("ANSIBLE_CALLBACKS_ENABLED", enabled),
        ("ANSIBLE_CALLBACK_TREE_DIR", "out/tree"),
        ("JUNIT_OUTPUT_DIR", "out/junit"),
        ("ANSIBLE_LOG_PATH", "out/log"),
        ("ANSIBLE_RETRY_FILES_ENABLED", "1"),
        ("ANSIBLE_RETRY_FILES_SAVE_PATH", "out/retry"),
        ("ANSIBLE_SHOW_CUSTOM_STATS", "1"),
    ] {
        command.env(name, value);
    }
    fs::create_dir_all(folder.join("out")).unwrap();
    command.env("WINDLASS_JOURNAL_DIR", folder.join("out/journal"));
    let output = command.args(["--trace", "out/trace", "--events", "out/events.jsonl"]).output().unwrap();
    for name in ["report.html", "report.md", "report.json", "report.xml"] {
        let mut report = windlass(folder);
        report
            .args(["report", "--output", &format!("out/{name}")])
            .env("WINDLASS_JOURNAL_DIR", folder.join("out/journal"));
        let reported = report.output().unwrap();
        assert!(reported.status.success(), "{}", String::from_utf8_lossy(&reported.stderr));
    }
    output
}

/// Output of a run, by sink.
fn sinks(folder: &Path, output: &Output) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut sinks = vec![("stdout".to_owned(), text(&output.stdout)), ("stderr".to_owned(), text(&output.stderr))];
    let mut folders = vec![folder.join("out")];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                sinks.push((entry.display().to_string(), text(&fs::read(&entry).unwrap())));
            }
        }
    }
    sinks
}

/// Forms of a secret that must not appear, computed independently of the masking code.
fn forms(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    let lines = secret.lines().map(str::trim).filter(|line| line.len() >= 4 && !line.starts_with("-----"));
    for part in std::iter::once(secret.trim()).chain(lines) {
        let json = serde_json::to_string(part).unwrap();
        let json = json.trim_start_matches('"').to_owned();
        let json = json.strip_suffix('"').unwrap().to_owned();
        let percent: String = part
            .bytes()
            .map(|byte| match byte {
                byte if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        let in_html = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        forms.extend([in_html.replace('\'', "\\u0027"), in_html]);
        forms.extend([part.to_owned(), json, percent.to_lowercase(), percent, shell_words::quote(part).into_owned()]);
        forms.extend([STANDARD.encode(part), URL_SAFE.encode(part)]);
        let xml = part.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        forms.insert(xml);
        for before in ["x", "xy"] {
            let encoded = STANDARD_NO_PAD.encode(format!("{before}{part}"));
            forms.insert(encoded[4..encoded.len() - 3].to_owned());
        }
    }
    forms.retain(|form| form.len() >= 4);
    forms
}

fn assert_nothing_secret(sinks: &[(String, String)], about: &str) {
    let more = [
        "inl1ne s'ecret",
        "secret-of-later",
        "whole-file-secret",
        "passw0rd",
        "the-vault-password",
        "31415926535",
        "ghp_0123456789abcdefWXYZ",
        "t0ken-of-a-query",
    ];
    for secret in secrets().iter().map(String::as_str).chain(more) {
        for form in forms(secret) {
            for (name, text) in sinks {
                let at = text.find(&form);
                let around = at.map(|at| text.get(at.saturating_sub(60)..(at + 80).min(text.len())).unwrap_or(&form));
                assert!(at.is_none(), "{about}: {form:?} of {secret:?} is in {name}: {around:?}");
            }
        }
    }
}

fn assert_valid_xml(sinks: &[(String, String)]) {
    let reports: Vec<_> = sinks.iter().filter(|(name, _)| name.ends_with(".xml")).collect();
    assert!(!reports.is_empty());
    for (name, text) in reports {
        assert!(uppsala::parse(text).is_ok(), "{name} is no XML:\n{text}");
    }
}

#[test]
fn secret_in_any_encoding_reaches_no_sink() {
    for (callback, arguments, environment) in [
        ("default", &["-vvv"][..], &[][..]),
        ("default", &[], &[("ANSIBLE_CALLBACK_RESULT_FORMAT", "yaml")]),
        ("default", &["--live"], &[]),
        ("debug", &["-v"], &[]),
        ("yaml", &["-vvv"], &[]),
        ("minimal", &["-vvv"], &[]),
        ("oneline", &[], &[]),
        ("jsonl", &[], &[]),
        ("null", &["-v"], &[("ANSIBLE_COMPAT", "2.18")]),
    ] {
        let folder = project();
        let output = run(folder.path(), callback, arguments, environment);
        let sinks = sinks(folder.path(), &output);
        assert_eq!(output.status.code(), Some(2), "{sinks:?}");
        assert!(sinks.iter().any(|(_, text)| text.contains("********")), "{callback} shows that something is hidden");
        assert!(sinks.iter().any(|(name, text)| name.contains("journal/runs/") && text.contains("\"t\":\"done\"")));
        assert_nothing_secret(&sinks, callback);
        assert_valid_xml(&sinks);
        if callback == "default" {
            let stdout = &sinks[0].1;
            assert!(stdout.contains("TASK [A task on localhost]"), "{stdout}");
            assert!(stdout.contains("ok: [localhost]"), "{stdout}");
        }
    }
}

/// Tasks that show passwords of connections before any task uses one.
const BEFORE_BECOMING: &str = r#"
- hosts: all
  gather_facts: false
  connection: local
  vars_files: [asked.yml]
  tasks:
    - command: cat {{ playbook_dir }}/everything
      run_once: true
    - debug: {var: hostvars}
    - debug: {var: sudo_of_site}
    - copy: {src: everything, dest: "{{ playbook_dir }}/written.{{ inventory_hostname }}"}
    - fail: {msg: "{{ lookup('file', 'everything') }}"}
      ignore_errors: true
    - debug: {msg: "{{ ansible_kubectl_token }}"}
    - set_fact: {ansible_become_password: sEt-by-a-fact}
    - add_host: {name: later, ansible_ssh_pass: oF-an-added-host}
    - include_vars: {file: included.yml}
    - import_role: {name: r}
"#;

/// The passwords of [`BEFORE_BECOMING`].
const BEFORE: &[&str] = &[
    "oF-the-command-line",
    "oF-a-password-file",
    "oF-all-groups",
    "oF-one-host",
    "oF-another-host",
    "oF-the-second-inventory-file",
    "tHrough-another-variable",
    "iN-a-file-of-variables",
    "mAde-by-a-template",
    "sEt-by-a-fact",
    "oF-an-added-host",
    "iNcluded-later",
    "oF-a-role",
    "31415",
];

#[test]
fn password_shown_before_any_task_becomes_is_in_no_sink() {
    for (callback, arguments) in [("default", &["-vvv"][..]), ("json", &[]), ("minimal", &["-v", "--check"])] {
        let folder = project();
        let path = folder.path();
        fs::remove_dir_all(path.join("group_vars")).unwrap();
        for (name, text) in [
            ("p.yml", BEFORE_BECOMING),
            ("hosts/a.ini", "[web]\none ansible_password=oF-one-host\ntwo ansible_sudo_pass=oF-another-host\n"),
            ("hosts/b.yml", "all: {children: {web: {vars: {ansible_su_pass: oF-the-second-inventory-file}}}}\n"),
            ("group_vars/all.yml", "ansible_become_pass: oF-all-groups\nansible_doas_pass: 31415\n"),
            ("host_vars/two.yml", "ansible_ssh_pass: '{{ sudo_of_site }}'\nsudo_of_site: tHrough-another-variable\n"),
            ("host_vars/one.yml", "sudo_of_site: none-here\n"),
            (
                "asked.yml",
                "ansible_ssh_password: iN-a-file-of-variables\nansible_kubectl_token: \"{{ 'mAde-by' ~ '-a-template' }}\"\n",
            ),
            ("included.yml", "ansible_become_password: iNcluded-later\n"),
            ("roles/r/defaults/main.yml", "ansible_ssh_private_key_passphrase: oF-a-role\n"),
            ("roles/r/tasks/main.yml", "- debug: {msg: \"{{ ansible_ssh_private_key_passphrase }}\"}\n"),
        ] {
            let file = path.join(name);
            if name == "hosts/a.ini" {
                fs::remove_file(path.join("hosts")).unwrap();
            }
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        // Secrets of the inventory and the command line; the others become known by the tasks that follow.
        fs::write(path.join("everything"), BEFORE[..8].join("\n") + "\n31415\n").unwrap();
        fs::write(path.join("become"), "oF-a-password-file\n").unwrap();
        let more = ["-e", "ansible_become_password=oF-the-command-line", "--become-password-file", "become"];
        let output = run(path, callback, &[arguments, &more].concat(), &[]);
        let sinks = sinks(path, &output);
        assert_eq!(output.status.code(), Some(0), "{sinks:?}");
        assert!(sinks.iter().any(|(_, text)| text.contains("********")), "{callback} shows that something is hidden");
        for password in BEFORE {
            for (name, text) in &sinks {
                // A longer number, such as a time in a trace, may have the digits of the password by chance.
                let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
                let bytes = text.as_bytes();
                let at = text.match_indices(password).map(|(at, _)| at).find(|at| {
                    let (before, after) =
                        (at.checked_sub(1).and_then(|at| bytes.get(at)), bytes.get(at + password.len()));
                    !is_digit(before) && !is_digit(after)
                });
                let around = at.and_then(|at| text.get(at.saturating_sub(80)..(at + 80).min(text.len())));
                assert!(at.is_none(), "{callback}: {password} is in {name}: {around:?}");
            }
        }
    }
}

/// Names that a run takes from a vault: of hosts to delegate to and their addresses, of actions and of tasks.
const NAMED_BY_SECRETS: &str = r#"
- hosts: localhost
  gather_facts: false
  connection: local
  tasks:
    - command: 'true'
      delegate_to: "{{ delegate }}"
      register: once
      until: once is success
    - command: 'true'
      delegate_to: "{{ item }}"
      loop: ["{{ delegate }}", second]
    - command: 'true'
      delegate_to: "{{ known }}"
    - action: "{{ module }}"
    - local_action: {module: "{{ module }}"}
    - include_tasks: hidden.yml
    - command: 'false'
      delegate_to: "{{ delegate }}"
"#;

#[test]
fn names_of_delegates_actions_and_hidden_tasks_are_in_no_sink() {
    for (callback, arguments) in [("default", &["-vv"][..]), ("json", &[]), ("jsonl", &[]), ("minimal", &["-v"])] {
        let folder = project();
        let path = folder.path();
        fs::remove_file(path.join("group_vars/all/vault.yml")).unwrap();
        fs::write(path.join("p.yml"), NAMED_BY_SECRETS).unwrap();
        let hosts =
            "localhost ansible_connection=local\nsecond ansible_connection=local ansible_host='{{ address }}'\n";
        fs::write(path.join("hosts"), hosts).unwrap();
        fs::create_dir(path.join("library")).unwrap();
        fs::write(path.join("library/s3cret_module"), "#!/bin/sh\necho '{\"changed\": false}'\n").unwrap();
        let names =
            "delegate: s3cret-delegate.example.org\nmodule: s3cret_module\naddress: s3cret-address\nknown: second\n";
        encrypt(path, "group_vars/all/names.yml", names);
        encrypt(path, "hidden.yml", "- name: A s3cret title\n  ping:\n- debug: {msg: s3cret-words}\n");
        let output = run(path, callback, arguments, &[]);
        let sinks = sinks(path, &output);
        assert_eq!(output.status.code(), Some(2), "{sinks:?}");
        for (name, text) in &sinks {
            let at = text.find("s3cret");
            let around = at.and_then(|at| text.get(at.saturating_sub(80)..(at + 80).min(text.len())));
            assert!(at.is_none(), "{callback}: a name is in {name}: {around:?}");
        }
        let sink = |part: &str| &sinks.iter().find(|(name, _)| name.contains(part)).unwrap().1;
        if callback == "default" {
            for line in
                ["changed: [localhost -> ********]", "changed: [localhost -> second(********)]", "TASK [********]"]
            {
                assert!(sink("stdout").contains(line), "{}", sink("stdout"));
            }
        }
        // Names of hosts and of the modules that everybody knows are structure.
        assert!(sink("events").contains("\"label\": \"localhost -> second(********)\""), "{}", sink("events"));
        assert!(
            sink("events").contains("\"action\": \"command\"")
                && sink("journal/runs/").contains("\"delegate\":\"second\"")
        );
    }
}

/// Tasks of a file that is encrypted as a whole.
const HIDDEN_TASKS: &str = "
- debug: msg=l1teral-in-free-text
- debug: {msg: l1teral-in-a-mapping}
- set_fact: {of_task: l1teral-fact, of_task_too: 31415926535}
- action: debug msg=l1teral-of-an-action
- local_action: {module: debug, msg: l1teral-of-a-local-action}
- debug: {msg: '{{ item }} {{ passed }}'}
  loop: [l1teral-item]
  vars: {passed: l1teral-variable}
- shell: echo \"$TOKEN\"
  environment: {TOKEN: l1teral-in-the-environment}
  register: result_of_command
  tags: [tag_of_task]
- debug: {var: result_of_command.rc}
  when: result_of_command is success
- block:
    - fail: {msg: l1teral-failure}
  rescue:
    - debug: {msg: '{{ ansible_failed_result.msg }}'}
";

#[test]
fn values_of_encrypted_tasks_are_in_no_sink_and_their_names_stay() {
    for (callback, arguments) in [("default", &["-vvv"][..]), ("json", &[]), ("minimal", &["-v"])] {
        let folder = project();
        let path = folder.path();
        fs::remove_dir_all(path.join("group_vars")).unwrap();
        encrypt(path, "tasks.yml", HIDDEN_TASKS);
        encrypt(path, "roles/x/tasks/main.yml", HIDDEN_TASKS);
        let play = "- hosts: localhost\n  gather_facts: false\n  roles: [x]\n  tasks:\n    - include_tasks: tasks.yml\n    - debug: \
                    {msg: 'debug tag_of_task of_task result_of_command set_fact'}\n";
        fs::write(path.join("p.yml"), play).unwrap();
        let output = run(path, callback, arguments, &[]);
        let sinks = sinks(path, &output);
        assert_eq!(output.status.code(), Some(0), "{sinks:?}");
        for (name, text) in &sinks {
            for value in ["l1teral", "31415926535"] {
                let at = text.find(value);
                let around = at.and_then(|at| text.get(at.saturating_sub(80)..(at + 80).min(text.len())));
                assert!(at.is_none(), "{callback}: a value is in {name}: {around:?}");
            }
        }
        if callback == "default" {
            let stdout = &sinks[0].1;
            for words in [
                "\"debug tag_of_task of_task result_of_command set_fact\"",
                "\"result_of_command.rc\": ",
                "TASK [x : set_fact]",
            ] {
                assert!(stdout.contains(words), "{stdout}");
            }
        }
    }
}

#[test]
fn masked_json_stays_valid() {
    let folder = project();
    let output = run(folder.path(), "json", &[], &[]);
    let sinks = sinks(folder.path(), &output);
    assert_nothing_secret(&sinks, "json");
    // The name of the retry file precedes the document.
    let document = sinks[0].1.lines().skip_while(|line| *line != "{").collect::<Vec<_>>().join("\n");
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["stats"]["localhost"]["failures"], 1);
    let tasks = document["plays"][0]["tasks"].as_array().unwrap();
    let encoded = tasks[3]["hosts"]["localhost"]["results"][0]["msg"][6].as_object().unwrap();
    assert_eq!(encoded["port"], 8080);
    assert_eq!(encoded["flag"], false);
    assert_eq!(encoded["********"], 8080);
    for (name, text) in sinks.iter().filter(|(name, _)| name.ends_with("trace") || name.contains("/tree/")) {
        assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{name} is no JSON:\n{text}");
    }
}

#[test]
fn secret_of_a_task_is_in_no_list_of_processes() {
    // `su` asks all others for a password.
    if !windlass_testing::has("root") {
        return;
    }
    let folder = project();
    let path = folder.path();
    fs::create_dir_all(path.join("library")).unwrap();
    fs::create_dir_all(path.join("out")).unwrap();
    // Other tests pass the same secrets to programs, but in another session.
    let list = format!(
        "ps -ww -o args= -s \"$(ps -o sess= -p $$ | tr -d ' ')\" >> {0}/out/processes; tr '\\0' ' ' < /proc/$PPID/cmdline >> \
         {0}/out/processes",
        path.display()
    );
    fs::write(path.join("list"), &list).unwrap();
    let probe = format!("#!/bin/sh\n# WANT_JSON\n{list}\necho '{{\"changed\": false}}'\n");
    fs::write(path.join("library/probe"), probe).unwrap();
    let tasks = "- hosts: localhost\n  gather_facts: false\n  vars: {ansible_become_password: '{{ inline }}'}\n  tasks:\n    - probe: \
                 {password: '{{ item }}', key: '{{ inline }}'}\n      loop: '{{ secrets }}'\n    - shell: {cmd: sh list, stdin: '{{ item \
                 }}'}\n      environment: {TOKEN: '{{ item }}'}\n      loop: '{{ secrets }}'\n    - copy: {content: '{{ item }}', dest: \
                 copied, validate: 'sh list %s'}\n      loop: '{{ secrets }}'\n    - probe: {password: '{{ item }}'}\n      async: \
                 60\n      poll: 1\n      loop: '{{ secrets }}'\n    - shell: sh list\n      become: true\n      become_method: su\n";
    fs::write(path.join("p.yml"), tasks).unwrap();
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(env!("CARGO_BIN_EXE_windlass")).current_dir(path).env("HOME", path);
    let output = command.args(["playbook", "-i", "hosts", "--vault-password-file", "pass", "p.yml"]).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&printed));
    let listed = fs::read_to_string(path.join("out/processes")).unwrap();
    assert!(listed.contains("windlass playbook") && listed.contains("__executor"), "{listed}");
    assert_nothing_secret(&[("list of processes".to_owned(), listed)], "processes");
}
