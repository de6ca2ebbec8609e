//! A killed or failed run resumes where it stopped, and pending handlers are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::ran::{Ran, wrap};

/// A project whose hosts are all this machine, with its own state directory.
pub(crate) struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    pub(crate) fn new(playbook: &str) -> Project {
        let project = Project { folder: tempfile::tempdir().unwrap() };
        project.write("hosts", "a\nb\n[all:vars]\nansible_connection=local\n");
        project.write("play.yml", playbook);
        project
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("FOLDER", &self.folder.path().display().to_string())).unwrap();
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(words)
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("NO_COLOR", "1")
            .env_remove("ANSIBLE_CONFIG")
            .env_remove("WINDLASS_JOURNAL_DIR")
            .env_remove("WINDLASS_PENDING_HANDLERS")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn play(&self, words: &[&str]) -> Ran {
        let mut all = vec!["playbook", "-i", "hosts"];
        all.extend(words);
        if !words.iter().any(|word| word.ends_with(".yml")) {
            all.push("play.yml");
        }
        self.run(&all)
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        let output = self.command(words).output().unwrap();
        Ran::of(&output)
    }

    /// Runs the playbook until a file appears, then kills it with a signal.
    pub(crate) fn killed_at(&self, file: &str, signal: &str, words: &[&str]) -> Ran {
        let mut all = vec!["playbook", "-i", "hosts", "play.yml"];
        all.extend(words);
        let child = self.command(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        self.wait_for(file, &child);
        let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        let output = child.wait_with_output().unwrap();
        Ran::of(&output)
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, file: &str, child: &Child) {
        let start = Instant::now();
        while !self.path(file).exists() {
            assert!(start.elapsed() < Duration::from_secs(120), "{file} does not appear (process {})", child.id());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Lines that tasks have appended to a file.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        fs::read_to_string(self.path(file)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub(crate) fn journal(&self) -> String {
        let mut files: Vec<_> =
            fs::read_dir(self.path("state/windlass/runs")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        fs::read_to_string(files.pop().unwrap()).unwrap()
    }

    pub(crate) fn run_id(&self) -> String {
        let journal = self.journal();
        let header: serde_json::Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
        header["run"].as_str().unwrap().to_owned()
    }
}

/// A task that appends the host's name to a file, and blocks while `block` exists.
pub(crate) fn step(name: &str) -> String {
    format!("    - name: {name}\n      shell: echo {name} {{{{ inventory_hostname }}}} >> FOLDER/log\n")
}

const BLOCK: &str = "    - name: blocks\n      shell: 'if [ -e FOLDER/block ]; then touch FOLDER/reached; sleep 60; fi; echo blocks {{ inventory_hostname }} >> FOLDER/log'\n";

pub(crate) fn head(more: &str) -> String {
    format!("- hosts: all\n  name: main\n  gather_facts: false\n{more}  tasks:\n")
}

#[test]
fn killed_run_resumed_continues_at_task_with_its_variables() {
    let tasks = "    - command: date +%s%N\n      register: stamp\n      when: inventory_hostname == 'a'\n    - set_fact:\n        drawn: \"{{ 1000000000 | random }}\"\n    - copy:\n        content: \"{{ stamp.stdout | default('none') }} {{ drawn }}\"\n        dest: FOLDER/before-{{ inventory_hostname }}\n";
    let after = "    - copy:\n        content: \"{{ stamp.stdout | default('none') }} {{ drawn }}\"\n        dest: FOLDER/after-{{ inventory_hostname }}\n";
    let project = Project::new(&(head("") + tasks + &step("one") + BLOCK + after));
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    let ran = project.play(&["--resume"]);
    ran.ends(0).has("resumed: ").has("may have run already").lacks("TASK [one]");
    for host in ["a", "b"] {
        let before = fs::read_to_string(project.path(&format!("before-{host}"))).unwrap();
        assert_eq!(before, fs::read_to_string(project.path(&format!("after-{host}"))).unwrap());
    }
    let log = project.lines("log");
    assert_eq!(log.iter().filter(|line| line.starts_with("one")).count(), 2, "{log:?}");
    assert_eq!(log.iter().filter(|line| line.starts_with("blocks")).count(), 2, "{log:?}");
    // A successful run leaves nothing to resume.
    project.play(&["--resume"]).has("succeeded");
}

#[test]
fn resumed_run_names_files_after_the_time_of_the_first() {
    let gather = "    - command: sleep 1.1\n    - setup:\n        gather_subset: [min]\n      register: later\n";
    let backup = "    - copy:\n        content: x\n        dest: FOLDER/backup-{{ ansible_date_time.epoch }}\n";
    let fails = "    - command: test -e FOLDER/mended\n";
    let restore = "    - command: test -e FOLDER/backup-{{ ansible_facts.date_time.epoch }}\n    - command: test -e FOLDER/backup-{{ later.ansible_facts.ansible_date_time.epoch }}\n";
    let project = Project::new(&(head("").replace("false", "true") + gather + backup + fails + restore));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(2);
    project.write("mended", "");
    std::thread::sleep(Duration::from_millis(1100));
    project.play(&["--resume"]).ends(0);
}

#[test]
fn failed_host_resumed_continues_at_its_task() {
    let fails = "    - name: fails\n      command: test -e FOLDER/mended\n      when: inventory_hostname == 'b'\n";
    for strategy in ["linear", "free"] {
        let more = format!("  strategy: {strategy}\n");
        let project = Project::new(&(head(&more) + &step("one") + fails + &step("two")));
        project.play(&[]).ends(2);
        assert_eq!(project.lines("log").len(), 3);
        project.write("mended", "");
        let ran = project.play(&["--resume", &project.run_id()]);
        ran.ends(0).lacks("TASK [one]");
        let mut log = project.lines("log");
        log.sort();
        assert_eq!(log, ["one a", "one b", "two a", "two b"]);
        // b: `fails` and `two` ran now, `one` before.
        let line = ran.text.lines().find(|line| line.starts_with("b ") && line.contains("ok=")).unwrap();
        assert!(line.contains("ok=3") && line.contains("changed=2"), "{line}");
    }
}

#[test]
fn interrupted_loop_resumed_continues_at_its_item() {
    let tasks = "    - name: items\n      shell: 'if [ {{ item }} = 3 ] && [ -e FOLDER/block ]; then touch FOLDER/reached; sleep 60; fi; echo {{ item }} >> FOLDER/log; date +%N'\n      loop: [1, 2, 3, 4]\n      register: looped\n    - debug:\n        msg: \"{{ looped.results | map(attribute='item') | join('-') }} {{ looped.results | map(attribute='changed') | join('-') }}\"\n";
    let project = Project::new(&(head("") + tasks));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    project
        .play(&["--resume"])
        .ends(0)
        .has("1-2-3-4 True-True-True-True")
        .lacks("(item=1)")
        .has("(item=3)")
        .has("It runs again from item 3 of its loop on.");
    assert_eq!(project.lines("log"), ["1", "2", "3", "4"]);
}

#[test]
fn includes_roles_and_dynamic_hosts_resumed_restored() {
    let tasks = "    - add_host:\n        name: c\n        groups: made\n        ansible_connection: local\n        colour: red\n    - group_by:\n        key: by_{{ inventory_hostname }}\n    - include_vars: more.yml\n    - include_tasks: inner.yml\n      loop: [x, y]\n      loop_control:\n        loop_var: outer\n    - include_role:\n        name: r\n- hosts: made\n  gather_facts: false\n  tasks:\n    - shell: echo made {{ colour }} >> FOLDER/log\n";
    let project = Project::new(&(head("") + tasks));
    project.write("more.yml", "from_file: \"{{ inventory_hostname }} templated\"\n");
    project.write(
        "inner.yml",
        "- shell: echo inner {{ outer }} {{ inventory_hostname }} >> FOLDER/log; echo {{ outer }}\n  register: inner\n",
    );
    project.write(
        "roles/r/tasks/main.yml",
        "- shell: echo role {{ inner.stdout }} {{ from_file }} >> FOLDER/log\n- command: test -e FOLDER/mended\n- shell: echo end {{ groups['by_b'] | join }} >> FOLDER/log\n",
    );
    project.play(&[]).ends(2);
    project.write("mended", "");
    project.play(&["--resume"]).ends(0).lacks("inner x");
    let mut log = project.lines("log");
    log.sort();
    let expected = [
        "end b",
        "end b",
        "inner x a",
        "inner x b",
        "inner y a",
        "inner y b",
        "made red",
        "role y a templated",
        "role y b templated",
    ];
    assert_eq!(log, expected);
}

#[test]
fn rescued_failure_resumed_stays_rescued_and_always_runs_again_after_a_failure() {
    let tasks = "    - block:\n        - command: \"false\"\n      rescue:\n        - shell: echo rescue {{ ansible_failed_result.rc }} {{ inventory_hostname }} >> FOLDER/log\n    - block:\n        - command: test -e FOLDER/mended\n        - shell: echo body {{ inventory_hostname }} >> FOLDER/log\n      always:\n        - shell: echo always {{ inventory_hostname }} >> FOLDER/log\n";
    let project = Project::new(&(head("") + tasks));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(2);
    assert_eq!(project.lines("log"), ["rescue 1 a", "always a"]);
    project.write("mended", "");
    project.play(&["--resume"]).ends(0);
    assert_eq!(project.lines("log"), ["rescue 1 a", "always a", "body a", "always a"]);
}

#[test]
fn serial_batches_and_run_once_resumed_are_not_repeated() {
    let tasks = "    - shell: echo once >> FOLDER/log; date +%N\n      run_once: true\n      register: drawn\n    - shell: echo {{ inventory_hostname }} {{ drawn.stdout | length > 0 }} >> FOLDER/log\n    - command: test -e FOLDER/mended\n      delegate_to: localhost\n      when: inventory_hostname == 'd'\n    - shell: echo end {{ inventory_hostname }} >> FOLDER/log\n";
    let project = Project::new(&(head("  serial: 2\n") + tasks));
    project.write("hosts", "a\nb\nc\nd\n[all:vars]\nansible_connection=local\n");
    project.play(&[]).ends(2);
    project.write("mended", "");
    project.play(&["--resume"]).ends(0);
    let mut log = project.lines("log");
    log.sort();
    let expected = ["a True", "b True", "c True", "d True", "end a", "end b", "end c", "end d", "once", "once"];
    assert_eq!(log, expected);
}

#[test]
fn changed_inputs_are_refused_by_name_unless_anyway() {
    let project =
        Project::new(&(head("  vars_files: [vars.yml]\n") + &step("one") + "    - command: test -e FOLDER/mended\n"));
    project.write("vars.yml", "x: 1\n");
    project.write("group_vars/all.yml", "y: 1\n");
    project.play(&["-e", "z=1"]).ends(2);
    project.write("mended", "");
    project.play(&["--resume", "-e", "z=2"]).has("the extra variable `z` has another value").has("--resume-anyway");
    project.play(&["--resume", "-e", "z=1", "--limit", "a"]).has("--limit was `none` and is `a`");
    for (file, text) in
        [("vars.yml", "x: 2\n"), ("group_vars/all.yml", "y: 2\n"), ("hosts", "a ansible_connection=local\n")]
    {
        let before = fs::read_to_string(project.path(file)).unwrap();
        project.write(file, text);
        project.play(&["--resume", "-e", "z=1"]).has(&format!("{file} has changed"));
        project.write(file, &before);
    }
    project.write("host_vars/a.yml", "w: 1\n");
    project.play(&["--resume", "-e", "z=1"]).has("host_vars/a.yml is new");
    let ran = project.play(&["--resume-anyway", "--resume", "-e", "z=1"]);
    ran.ends(0).has("Resuming the run").has("host_vars/a.yml is new").lacks("TASK [one]");
}

#[test]
fn every_input_that_differs_is_named_and_refused() {
    let tasks = "    - own:\n    - command: test -e FOLDER/mended\n";
    let project = Project::new(&(head("  roles: [web]\n") + tasks));
    project.write("hosts", "a ansible_connection=local\n");
    let role = [
        ("templates/conf.j2", "{% include 'part.j2' %}\n"),
        ("templates/part.j2", "one\n"),
        ("files/data", "one\n"),
        ("files/a.conf", "one\n"),
        ("files/note", "one\n"),
        ("files/usual", "one\n"),
        ("files/run.sh", "#!/bin/sh\n"),
        ("tasks/more.yml", "- debug: msg=more\n"),
        (
            "tasks/main.yml",
            "- template: {src: conf.j2, dest: FOLDER/conf}\n- copy: {src: data, dest: FOLDER/out}\n\
             - copy: {src: '{{ item }}', dest: FOLDER/globbed}\n  with_fileglob: ['*.conf']\n- debug: {msg: \"{{ lookup('file', 'note') }}\"}\n\
             - debug: {msg: \"{{ lookup('first_found', ['special', 'usual']) }}\"}\n\
             - debug: {msg: \"{{ lookup('password', 'FOLDER/stored length=8') }}\"}\n- script: run.sh\n- include_tasks: more.yml\n\
             - debug: msg=coloured\n  when: lookup('env', 'COLOUR') | length == 7\n",
        ),
    ];
    role.iter().for_each(|(name, text)| project.write(&format!("roles/web/{name}"), text));
    project.write("library/own", "#!/bin/sh\n# WANT_JSON\necho '{\"changed\": false}'\n");
    let run = |colour: &str, words: &[&str]| {
        let mut command = project.command(&["playbook", "-i", "hosts", "play.yml"]);
        Ran::of(&command.args(words).env("COLOUR", colour).output().unwrap())
    };
    run("scarlet", &[]).ends(2);
    assert!(!project.journal().contains("scarlet"), "{}", project.journal());
    project.write("mended", "");
    let resume = ["--resume"];
    for name in ["templates/conf.j2", "templates/part.j2", "files/data", "files/note", "files/run.sh", "tasks/more.yml"]
    {
        let name = format!("roles/web/{name}");
        let before = fs::read_to_string(project.path(&name)).unwrap();
        project.write(&name, &format!("{before}# other\n"));
        run("scarlet", &resume).ends(5).has(&format!("{name} has changed"));
        project.write(&name, &before);
    }
    let stored = fs::read_to_string(project.path("stored")).unwrap();
    project.write("stored", "otherone\n");
    run("scarlet", &resume).ends(5).has("stored has changed");
    project.write("stored", &stored);
    let module = fs::read_to_string(project.path("library/own")).unwrap();
    project.write("library/own", &format!("{module}# other\n"));
    run("scarlet", &resume).has("library/own has changed");
    project.write("library/own", &module);
    for (name, said) in [
        ("roles/web/files/b.conf", "roles/web/files/*.conf than before"),
        ("roles/web/files/special", "roles/web/files/special is new"),
        ("roles/web/defaults/main.yml", "roles/web/*/main* than before"),
        ("library/ping", "library/* than before"),
        ("ansible.cfg", "ansible.cfg was `none` and is "),
    ] {
        project.write(name, "\n");
        run("scarlet", &resume).has(said);
        fs::remove_file(project.path(name)).unwrap();
    }
    run("crimson", &resume).has("the environment variable COLOUR has another value").lacks("crimson");
    for (words, said) in [
        (&["-u", "deploy"][..], "-u was `none` and is `deploy`"),
        (&["-b"], "-b was `not set` and is `set`"),
        (&["--become-user", "games"], "--become-user was `root` and is `games`"),
        (&["-c", "local"], "and is `local`"),
        (&["--start-at-task", "own"], "--start-at-task was `none` and is `own`"),
        (&["-M", "other"], "-M was `none` and is `"),
        (&["--compat", "2.18"], "--compat was `2.19` and is `2.18`"),
    ] {
        run("scarlet", &[&resume[..], words].concat()).ends(5).has(said);
    }
    for (variable, value, said) in [
        ("ANSIBLE_ROLES_PATH", "/other/roles", "roles_path was `"),
        ("ANSIBLE_LIBRARY", "/other/modules", "library was `"),
        ("ANSIBLE_COLLECTIONS_PATH", "/other/collections", "collections_path was `"),
        ("ANSIBLE_FILTER_PLUGINS", "/other/filters", "filter_plugins was `"),
        ("ANSIBLE_MODULE_UTILS", "/other/utils", "module_utils was `"),
        ("ANSIBLE_HASH_BEHAVIOUR", "merge", "hash_behaviour was `replace` and is `merge`"),
        ("ANSIBLE_STRATEGY", "free", "strategy was `linear` and is `free`"),
        ("ANSIBLE_GATHERING", "smart", "gathering was `implicit` and is `smart`"),
        ("ANSIBLE_FORCE_HANDLERS", "1", "force_handlers was `false` and is `true`"),
    ] {
        let mut command = project.command(&["playbook", "-i", "hosts", "play.yml", "--resume"]);
        Ran::of(&command.env("COLOUR", "scarlet").env(variable, value).output().unwrap()).ends(5).has(said);
    }
    let ran = run("crimson", &["--resume", "--resume-anyway"]);
    ran.ends(0).has("although the environment variable COLOUR has another value").lacks("TASK [web : script]");
}

#[test]
fn end_of_a_large_source_that_changed_is_noticed() {
    let tasks = "    - copy: {src: big, dest: FOLDER/out}\n    - command: test -e FOLDER/mended\n";
    let project = Project::new(&(head("") + tasks));
    project.write("hosts", "a ansible_connection=local\n");
    // A file of this size is not hashed whole.
    let mut bytes = vec![0; 17 << 20];
    fs::write(project.path("big"), &bytes).unwrap();
    project.play(&[]).ends(2);
    bytes.push(1);
    fs::write(project.path("big"), &bytes).unwrap();
    project.play(&["--resume"]).ends(5).has("big has changed");
}

/// A task that fails until the project has this file.
pub(crate) fn until(file: &str) -> String {
    format!("    - command: test -e FOLDER/{file}\n")
}

#[test]
fn run_that_resumes_a_resumed_one_refuses_what_changed_since_the_first() {
    let copy = "    - copy: {src: data, dest: FOLDER/out}\n    - debug: msg=\"{{ lookup('env', 'COLOUR') }}\"\n";
    let project = Project::new(&(head("") + copy + &until("one") + &until("two")));
    project.write("files/data", "1");
    let run = |colour: &str, words: &[&str]| {
        let mut command = project.command(&["playbook", "-i", "hosts", "play.yml"]);
        Ran::of(&command.args(words).env("COLOUR", colour).output().unwrap())
    };
    run("scarlet", &[]).ends(2);
    project.write("one", "");
    run("scarlet", &["--resume"]).ends(2);
    project.write("two", "");
    project.write("files/data", "2");
    run("azure", &["--resume"])
        .ends(5)
        .has("files/data has changed")
        .has("the environment variable COLOUR has another value");
}

#[test]
fn inputs_that_a_run_makes_itself_do_not_keep_it_from_being_resumed() {
    let tasks = "    - debug: msg=\"{{ query('fileglob', 'FOLDER/made/*') }} {{ lookup('env', 'SSH_AUTH_SOCK') }}\"\n\
                 \x20   - debug: msg=\"{{ query('first_found', ['FOLDER/made/new', 'FOLDER/hosts']) }}\"\n\
                 \x20   - file: {path: FOLDER/made, state: directory}\n\
                 \x20   - shell: date +%N > FOLDER/made/new\n\
                 \x20   - copy: {src: FOLDER/made/, dest: FOLDER/copied}\n\
                 \x20   - shell: date +%N > FOLDER/made/new\n";
    let project = Project::new(&(head("") + tasks + &until("mended")));
    project.play(&[]).ends(2);
    project.write("mended", "");
    let mut command = project.command(&["playbook", "-i", "hosts", "play.yml", "--resume"]);
    Ran::of(&command.env("SSH_AUTH_SOCK", "/tmp/other").output().unwrap()).ends(0);
}

#[test]
fn new_file_in_a_copied_directory_is_noticed() {
    for new in ["tree/.hidden", "tree/below/new", "tree/below/another"] {
        let project = Project::new(&(head("") + "    - copy: {src: tree/, dest: FOLDER/out}\n" + &until("mended")));
        project.write("files/tree/first", "");
        if new != "tree/below/new" {
            project.write("files/tree/below/first", "");
        }
        project.play(&[]).ends(2);
        project.write("mended", "");
        project.write(&format!("files/{new}"), "");
        project.play(&["--resume"]).ends(5).has("has other entries than before");
    }
}

#[test]
fn input_with_a_secret_in_its_name_is_compared_and_its_name_is_in_no_journal() {
    let tasks = "    - debug: msg=\"{{ query('fileglob', 'FOLDER/searched/' ~ word ~ '*') }}\"\n\
                 \x20   - debug: msg=\"{{ lookup('file', 'FOLDER/files/' ~ word ~ '.txt') }}\"\n\
                 \x20   - debug: msg=\"{{ lookup('env', word) }}\"\n";
    let project = Project::new(&(head("  vars_prompt: [{name: word}]\n") + tasks + &until("mended")));
    project.write("searched/other", "");
    project.write("files/Zebra7Quantum.txt", "1");
    let run = |value: &str, words: &[&str]| {
        let mut command = project.command(&["playbook", "-i", "hosts", "play.yml", "-e", "word=Zebra7Quantum"]);
        Ran::of(&command.args(words).env("Zebra7Quantum", value).output().unwrap())
    };
    run("1", &[]).ends(2);
    assert!(!project.journal().contains("Zebra7Quantum"), "{}", project.journal());
    project.write("mended", "");
    run("2", &["--resume"]).ends(5).has("the environment variable ******** has another value");
    project.write("files/Zebra7Quantum.txt", "2");
    run("1", &["--resume"]).ends(5).has("/files/******** has changed");
    project.write("files/Zebra7Quantum.txt", "1");
    project.write("searched/Zebra7Quantum.d", "");
    run("1", &["--resume"]).ends(5).has("/searched has other entries than before");
    fs::remove_file(project.path("searched/Zebra7Quantum.d")).unwrap();
    run("1", &["--resume"]).ends(0);
}

#[test]
fn inputs_that_a_killed_run_makes_itself_do_not_keep_it_from_being_resumed() {
    let tasks = "    - debug: msg=\"{{ lookup('file', 'FOLDER/made/one') }} {{ query('fileglob', 'FOLDER/made/*') }}\"\n\
                 \x20   - debug: msg=\"{{ query('first_found', ['FOLDER/made/new', 'FOLDER/hosts']) }}\"\n\
                 \x20   - shell: date +%N > FOLDER/made/one\n\
                 \x20   - shell: date +%N > FOLDER/made/new\n";
    let killed = || {
        let project = Project::new(&(head("") + tasks + BLOCK));
        project.write("hosts", "a ansible_connection=local\n");
        project.write("made/one", "1");
        project.write("block", "");
        project.killed_at("reached", "-KILL", &[]);
        fs::remove_file(project.path("block")).unwrap();
        project
    };
    killed().play(&["--resume"]).ends(0).lacks("TASK [shell]").has("TASK [blocks]");
    let project = killed();
    std::thread::sleep(Duration::from_secs(6));
    project.write("made/one", "2");
    project.play(&["--resume"]).ends(5).has("made/one has changed").lacks("made/new");
}

#[test]
fn task_that_could_not_be_sent_ahead_is_recorded_once() {
    let tasks = "    - uri: {url: 'http://127.0.0.1:1/'}\n      ignore_errors: true\n    - command: echo one\n    - command: echo two\n";
    let project = Project::new(&(head("") + tasks));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(0);
    let journal = project.journal();
    assert_eq!(journal.lines().filter(|line| line.starts_with("{\"t\":\"sent\"")).count(), 3, "{journal}");
}

#[test]
fn arguments_of_each_task_are_recorded_once_and_shown() {
    let tasks = "    - name: write\n      copy: {content: hello, dest: FOLDER/made}\n    - name: say\n      command: echo {{ item }}\n      \
                 loop: [one, two]\n    - name: hide\n      command: echo hidden\n      no_log: true\n";
    let project = Project::new(&(head("") + tasks));
    project.play(&[]).ends(0);
    let journal = project.journal();
    let sent = |line: &&str| line.starts_with("{\"t\":\"sent\"") && line.contains("\"args\":{");
    assert_eq!(journal.lines().filter(sent).count(), 4, "{journal}");
    assert!(!journal.contains("echo hidden"), "{journal}");
    let shown = project.run(&["runs", "show", "--host", "a", "--task", "write"]);
    shown.ends(0).has("a: 'write' (").has("arguments  {").has("\"content\":\"hello\"").has("result     {");
    shown.lacks("b: ").lacks("'say'");
    project.run(&["runs", "show", "--task", "say"]).has("b: 'say'").has("item two  {").has("echo one");
    project.run(&["runs", "show", "--task", "hide"]).has("its result is hidden by no_log").lacks("arguments");
    for format in ["json", "html", "markdown", "junit"] {
        let report = project.run(&["report", "--format", format]);
        assert!(format == "markdown" || report.text.contains("made"), "{format}: {}", report.text);
    }
    project.run(&["report", "--format", "json"]).has("\"arguments\": \"{");
}

#[test]
fn undeclared_secrets_and_options_with_no_log_are_not_recorded_among_the_arguments() {
    let tasks = "    - uri:\n        url: http://127.0.0.1:9/\n        method: POST\n        body_format: json\n        headers:\n          \
                 Authorization: Bearer aaa1\n          X-Api-Key: aaa2\n          Cookie: id=aaa3\n        body:\n          \
                 psk: aaa4\n          tokens: [aaa5]\n          credentials: {name: aaa6}\n          shown: yes indeed\n      \
                 ignore_errors: true\n    - openssl_privatekey_info: {content: abc}\n      ignore_errors: true\n";
    let project = Project::new(&(head("") + tasks));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(0);
    let journal = project.journal();
    let sent: Vec<&str> = journal.lines().filter(|line| line.starts_with("{\"t\":\"sent\"")).collect();
    let [request, .., key] = sent.as_slice() else { panic!("{journal}") };
    assert!(request.contains("yes indeed"), "{request}");
    (1..=6).for_each(|number| assert!(!sent.concat().contains(&format!("aaa{number}")), "{sent:?}"));
    assert!(key.contains("\"content\":") && !key.contains("abc"), "{key}");
}

#[test]
fn options_of_a_mount_with_opts_no_log_are_in_no_output() {
    let tasks = "    - mount:\n        path: /mnt/absent\n        src: //server/share\n        fstype: cifs\n        fstab: FOLDER/fstab\n        \
                 state: present\n        boot: false\n        opts: username=deploy,password=zebra\n        opts_no_log: 'yes'\n      \
                 register: mounted\n    - fail: {msg: 'mounted with password=zebra'}\n";
    let project = Project::new(&(head("") + tasks));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("fstab", "");
    project.play(&["-vvv", "--diff"]).ends(2).has("/mnt/absent").lacks("password=zebra");
    assert!(!project.journal().contains("password=zebra"), "{}", project.journal());
    assert!(project.lines("fstab").iter().any(|line| line.contains("password=zebra")));
}

#[test]
fn changed_answer_of_an_inventory_script_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::new(&(head("") + &step("one") + "    - command: test -e FOLDER/mended\n"));
    let answer = |vars: &str, parent: &str| {
        let all = format!("{{\"hosts\": [\"a\"], \"vars\": {{\"ansible_connection\": \"local\", {vars}}}}}");
        let groups = ["one", "two"].map(|group| {
            let children = if group == parent { "\"web\"" } else { "" };
            format!("\"{group}\": {{\"children\": [{children}]}}")
        });
        project.write(
            "answer.json",
            &format!("{{\"all\": {all}, {}, \"web\": {{\"hosts\": [\"a\"]}}}}", groups.join(", ")),
        );
    };
    let script = |vars: &str| answer(vars, "one");
    project.write("hosts", &format!("#!/bin/sh\ncat {}\n", project.path("answer.json").display()));
    fs::set_permissions(project.path("hosts"), fs::Permissions::from_mode(0o755)).unwrap();
    script("\"x\": 1");
    project.play(&[]).ends(2);
    project.write("mended", "");
    script("\"x\": 2");
    project.play(&["--resume"]).has("a program of the inventory reports other hosts, groups or variables");
    answer("\"x\": 1", "two");
    project.play(&["--resume"]).has("a program of the inventory reports other hosts, groups or variables");
    script("\"x\": 1");
    project.play(&["--resume"]).ends(0);
}

#[test]
fn changed_answer_of_a_plugin_is_refused_however_its_file_is_written() {
    let value = "\"lookup('pipe', 'cat FOLDER/word')\"";
    let project = Project::new(&(head("") + &step("one") + &until("mended")));
    project.write("hosts", "a ansible_connection=local\n");
    for text in [
        format!("'plugin': constructed\ncompose: {{word: {value}}}\n"),
        format!("\"plugin\": constructed\ncompose: {{word: {value}}}\n"),
        format!("{{plugin: constructed, compose: {{word: {value}}}}}\n"),
    ] {
        let words = ["-i", "hosts", "-i", "made.yml", "play.yml"];
        project.write("made.yml", &text);
        project.write("word", "red");
        let _ = fs::remove_file(project.path("mended"));
        project.play(&words).ends(2);
        project.write("mended", "");
        project.write("word", "blue");
        let resume = [&["--resume"], &words[..]].concat();
        project.play(&resume).ends(5).has("a program of the inventory reports other hosts, groups or variables");
        project.write("word", "red");
        project.play(&resume).ends(0);
    }
}

#[test]
fn changed_source_that_another_source_includes_is_refused() {
    let project = Project::new(&(head("") + "    - command: test -e FOLDER/mended\n"));
    project.write("whole/site", "[some]\nc ansible_connection=local\n");
    project.write("more.yml", "plugin: windlass.group\ngroup: some\nsources: whole/site\n");
    project.play(&["-i", "more.yml", "play.yml"]).ends(2).has("c ");
    project.write("mended", "");
    project.write("whole/site", "[some]\nc ansible_connection=local\nd ansible_connection=local\n");
    project.play(&["-i", "more.yml", "--resume", "play.yml"]).has("whole/site has changed");
}

#[test]
fn no_log_results_run_again_no_log_commands_refused() {
    let last = "    - command: test -e FOLDER/mended\n    - debug:\n        msg: \"{{ secret.mode | default(secret.stdout) }}\"\n";
    let hidden = "    - file:\n        path: FOLDER/made\n        state: directory\n        mode: '0700'\n      no_log: true\n      register: secret\n";
    let project = Project::new(&(head("") + hidden + &step("one") + last));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(2);
    assert!(!project.journal().contains("\"mode\""), "{}", project.journal());
    project.write("mended", "");
    project
        .play(&["--resume"])
        .ends(0)
        .has("runs again: its result is hidden by no_log")
        .has("0700")
        .lacks("TASK [one]");

    let command = "    - command: echo hush\n      no_log: true\n      register: secret\n";
    let project = Project::new(&(head("") + command + last));
    project.play(&[]).ends(2);
    assert!(!project.journal().contains("hush\""), "{}", project.journal());
    project.write("mended", "");
    project.play(&["--resume"]).has("would have to run a second time: its result is hidden by no_log");
    project.play(&["--resume", "--resume-anyway"]).ends(0).has("hush");
}

#[test]
fn vaulted_value_in_a_result_is_neither_written_nor_restored_as_its_mask() {
    let tasks = "    - command: echo {{ password }}\n      register: secret\n    - command: test -e FOLDER/mended\n";
    let project = Project::new(&(head("  vars_files: [vault.yml]\n") + tasks));
    project.write("word", "vault password\n");
    project.write("vault.in", "S3cretWord");
    let encrypted =
        project.run(&["vault", "encrypt_string", "--vault-password-file", "word", "--name", "password", "S3cretWord"]);
    let start = encrypted.text.find("password:").unwrap();
    let end = encrypted.text.find("Encryption successful").unwrap_or(encrypted.text.len());
    project.write("vault.yml", encrypted.text.get(start..end).unwrap());
    project.play(&["--vault-password-file", "word"]).ends(2).lacks("S3cretWord");
    assert!(!project.journal().contains("S3cretWord"), "{}", project.journal());
    project.play(&["--vault-password-file", "word", "--resume"]).has("its result contains a secret");
}

pub(crate) fn handlers(notify: &str, before: &str) -> String {
    head("")
        + before
        + notify
        + BLOCK
        + "  handlers:\n    - name: restart\n      shell: echo restart {{ inventory_hostname }} >> FOLDER/log\n    - name: reload\n      shell: echo reload {{ inventory_hostname }} >> FOLDER/log\n      listen: topic\n"
}

const NOTIFY: &str = "    - copy:\n        content: new\n        dest: FOLDER/config-{{ inventory_hostname }}\n      notify: [restart, topic]\n";

#[test]
fn handlers_of_a_killed_run_are_reported_and_kept_until_they_ran() {
    let project = Project::new(&handlers(NOTIFY, ""));
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    let count = |word: &str| project.lines("log").iter().filter(|line| line.starts_with(word)).count();
    // Without a terminal, they are reported and kept.
    project.play(&[]).ends(0).has("a: 'restart' of play 'main'").has("b: 'topic'").has("--pending-handlers run");
    assert_eq!(count("restart"), 0);
    // A run without the host neither reports nor drops its handlers.
    project.play(&["--limit", "b"]).lacks("a: 'restart'");
    // A dry run neither runs nor drops them.
    project.play(&["--check", "--pending-handlers", "run"]).has("a: 'restart'");
    assert_eq!(count("restart"), 0);
    project.play(&["--pending-handlers", "run", "--limit", "a"]).ends(0);
    assert_eq!(project.lines("log").iter().filter(|line| *line == "restart a" || *line == "reload a").count(), 2);
    project.play(&[]).lacks("a: 'restart'").has("b: 'restart'");
    project.play(&["--pending-handlers", "skip"]).ends(0);
    project.play(&[]).lacks("have not run");
    assert_eq!((count("restart"), count("reload")), (1, 1));
}

#[test]
fn pending_handler_whose_play_is_not_reached_is_named_and_kept() {
    let project = Project::new(&handlers(NOTIFY, ""));
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    // A run without a journal can only report them.
    project.play(&["--no-journal"]).ends(0).has("a: 'restart' of play 'main'").has("A run without a journal");
    project.write("play.yml", &handlers(NOTIFY, "").replace("name: main", "name: renamed"));
    let named = "because the run reached no play on these hosts that has them:";
    project.play(&["--pending-handlers", "run"]).ends(0).has(named).has("a: 'restart', 'topic' of play 'main'");
    assert!(!project.lines("log").iter().any(|line| line.starts_with("restart")));
    project.play(&["--pending-handlers", "skip"]).ends(0);
    project.play(&["--pending-handlers", "run"]).ends(0).lacks(named);
}

#[test]
fn handler_that_another_run_took_over_keeps_its_origin() {
    let project = Project::new(&handlers(NOTIFY, ""));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    let first = project.run_id();
    fs::remove_file(project.path("reached")).unwrap();
    project.killed_at("reached", "-KILL", &["--pending-handlers", "run"]);
    assert_ne!(project.run_id(), first);
    fs::remove_file(project.path("block")).unwrap();
    project.play(&[]).has("a: 'restart' of play 'main'").has(&format!("run {first}, "));
}

#[test]
fn pending_handler_is_found_by_a_playbook_that_imports_its_own_and_with_another_inventory() {
    let project = Project::new(&handlers(NOTIFY, ""));
    project.write("site.yml", "- import_playbook: play.yml\n");
    project.write("other", "a ansible_connection=local\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    let run = project.run_id();
    fs::remove_file(project.path("block")).unwrap();
    let found = "a: 'restart' of play 'main'";
    project.play(&["site.yml"]).ends(0).has(found).has("b: 'restart'");
    project.run(&["playbook", "-i", "other", "site.yml"]).ends(0).has(found).lacks("b: 'restart'");
    project.run(&["runs", "show", &run]).has(found);
    project.run(&["playbook", "-i", "other", "site.yml", "--pending-handlers", "run"]).ends(0);
    assert!(project.lines("log").contains(&"restart a".to_owned()));
    project.play(&[]).ends(0).lacks(found).has("b: 'restart'");
}

#[test]
fn pending_handler_of_another_machine_of_the_same_name_is_neither_run_nor_forgotten() {
    let project = Project::new(&handlers(NOTIFY, ""));
    let at = |address: &str| format!("a ansible_connection=local ansible_host={address}\n");
    project.write("hosts", &at("10.0.0.1"));
    project.write("staging", &at("10.0.0.2"));
    project.write("local", "a ansible_connection=local\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    project.run(&["playbook", "-i", "staging", "play.yml", "--pending-handlers", "skip"]).ends(0).lacks("restart");
    project.play(&[]).ends(0).has("a (10.0.0.1): 'restart' of play 'main'");
    // An inventory that names no address means any machine of the name.
    project.run(&["playbook", "-i", "local", "play.yml"]).ends(0).has("a (10.0.0.1): 'restart' of play 'main'");
    project.run(&["playbook", "-i", "local", "play.yml", "--pending-handlers", "run"]).ends(0);
    assert!(project.lines("log").contains(&"restart a".to_owned()));
    project.play(&[]).ends(0).lacks("have not run");
}

#[test]
fn plays_of_the_same_name_in_two_files_have_their_own_pending_handlers() {
    let project = Project::new(&handlers(NOTIFY, ""));
    project.write("other.yml", &fs::read_to_string(project.path("play.yml")).unwrap().replace("config-", "other-"));
    project.write("site.yml", "- import_playbook: play.yml\n- import_playbook: other.yml\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    project.play(&["other.yml"]).ends(0).lacks("have not run");
    project.play(&[]).ends(0).has("a: 'restart' of play 'main'");
    let before = project.lines("log").iter().filter(|line| *line == "restart a").count();
    project.play(&["site.yml", "--pending-handlers", "run"]).ends(0);
    let after = project.lines("log").iter().filter(|line| *line == "restart a").count();
    assert_eq!(after - before, 1);
}

#[test]
fn pending_handlers_of_an_earlier_release_are_taken_over() {
    let project = Project::new(&handlers(NOTIFY, ""));
    project.write("site.yml", "- import_playbook: play.yml\n");
    project.play(&["site.yml"]).ends(0);
    let journal = fs::read_dir(project.path("state/windlass/runs")).unwrap().next().unwrap().unwrap().path();
    let name = journal.file_stem().unwrap().to_str().unwrap().split_once('.').unwrap().1.to_owned();
    let ledger = format!("state/windlass/handlers/{name}.jsonl");
    let line = "{\"e\":\"notified\",\"host\":\"a\",\"play\":\"main\",\"handler\":\"restart\",\"task\":\"copy (0)\",\
                \"run\":\"20260131-235959-0a1b2c\",\"when\":\"2026-01-31T23:59:59Z\"}\n";
    project.write(&ledger, line);
    let found = "a: 'restart' of play 'main', notified by copy, run 20260131-235959-0a1b2c";
    project.play(&["site.yml", "--no-journal"]).ends(0).has(found);
    project.play(&["site.yml"]).ends(0).has(found);
    assert!(!project.path(&ledger).exists());
    project.play(&["--pending-handlers", "skip"]).ends(0);
    project.play(&["site.yml"]).ends(0).lacks("have not run");
}

#[test]
fn handler_that_play_does_not_have_is_not_pending() {
    let notify = NOTIFY.replace("[restart, topic]", "[restart, absent]");
    let project = Project::new(&handlers(&notify, ""));
    project.play(&[]).ends(1).has("The requested handler 'absent' was not found");
    project.play(&[]).ends(0).has("a: 'restart'").has("b: 'restart'").lacks("'absent'");
    let changed = "    - command: echo\n      notify: absent\n";
    let tolerant = Project::new(&(head("") + changed));
    tolerant.write("ansible.cfg", "[defaults]\nerror_on_missing_handler = false\n");
    tolerant.play(&[]).ends(0).has("The requested handler 'absent' was not found");
    tolerant.play(&[]).ends(0).lacks("have not run");
}

#[test]
fn unknown_word_after_resume_is_called_no_run() {
    let project = Project::new(&(head("") + &step("one")));
    let ran = project.play(&["--resume", "nope"]);
    ran.ends(5).has("`nope` is neither the id of a run nor a playbook").has("`windlass runs --all` lists all runs");
}

#[test]
fn handler_of_unanswered_task_pending_as_doubtful() {
    let task = "    - shell: 'if [ -e FOLDER/block ]; then touch FOLDER/reached; sleep 60; fi; echo changed'\n      changed_when: false\n      notify: restart\n";
    let project = Project::new(&handlers(task, ""));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    // No change in this run does not prove that the earlier one changed nothing.
    project.play(&[]).has("perhaps notified by");
    project.play(&["--pending-handlers", "run"]).ends(0);
    assert!(project.lines("log").contains(&"restart a".to_owned()));
    project.play(&[]).lacks("perhaps notified by");
}

#[test]
fn handler_of_timed_out_task_pending_as_doubtful() {
    let task = "    - shell: 'touch FOLDER/made; if [ -e FOLDER/block ]; then sleep 60; fi'\n      args:\n        creates: FOLDER/made\n      timeout: 1\n      notify: restart\n";
    let project = Project::new(&handlers(task, ""));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("block", "");
    project.play(&[]).ends(2);
    fs::remove_file(project.path("block")).unwrap();
    project.play(&[]).ends(0).has("perhaps notified by");
    project.play(&["--pending-handlers", "run"]).ends(0);
    assert!(project.lines("log").contains(&"restart a".to_owned()));
}

#[test]
fn pending_handler_runs_after_tasks_that_repair_its_input() {
    let tasks = "    - copy:\n        content: \"{{ word }}\"\n        dest: FOLDER/config\n      notify: restart\n";
    let handler =
        "  handlers:\n    - name: restart\n      shell: grep -q good FOLDER/config && echo restart >> FOLDER/log\n";
    let project = Project::new(&(head("") + tasks + handler));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&["-e", "word=bad"]).ends(2);
    // The task repairs the file before the handler reads it.
    project.play(&["-e", "word=good", "--pending-handlers", "run"]).ends(0);
    assert_eq!(project.lines("log"), ["restart"]);
    project.play(&["-e", "word=good"]).ends(0).lacks("have not run");
}

#[test]
fn doubtful_handler_runs_after_its_unfinished_task() {
    let tasks = "    - shell: 'if [ -e FOLDER/block ]; then touch FOLDER/reached; sleep 60; fi; touch FOLDER/made'\n      args:\n        creates: FOLDER/made\n      notify: restart\n";
    let handler = "  handlers:\n    - name: restart\n      shell: cat FOLDER/made && echo restart >> FOLDER/log\n";
    let project = Project::new(&(head("") + tasks + handler));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    project.play(&["--pending-handlers", "run"]).ends(0);
    assert_eq!(project.lines("log"), ["restart"]);
    project.play(&[]).ends(0).lacks("have not run");
}

#[test]
fn handlers_of_a_failed_run_are_run_by_the_one_that_resumes_it() {
    let fails = "    - command: test -e FOLDER/mended\n";
    let project = Project::new(&handlers(&format!("{NOTIFY}{fails}"), ""));
    project.play(&[]).ends(2);
    project.write("mended", "");
    // The handler runs at its place in the play. If it ran first, no earlier result could be replayed.
    project.play(&["--resume"]).ends(0).lacks("have not run").has("resumed: 2 results of the earlier run");
    let restarts = project.lines("log").iter().filter(|line| line.starts_with("restart")).count();
    assert_eq!(restarts, 2);
    project.play(&[]).lacks("have not run");
}

#[test]
fn pending_handler_runs_in_the_second_of_two_plays_of_one_name() {
    let other = "- hosts: all\n  name: main\n  gather_facts: false\n  tasks: [{debug: {msg: x}}]\n  handlers: [{name: other, debug: }]\n";
    let project = Project::new(&(other.to_owned() + &handlers(&format!("{NOTIFY}{}", until("mended")), "")));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(2);
    project.write("mended", "");
    project.play(&["--pending-handlers", "run"]).ends(0).lacks("stay pending");
    assert!(project.lines("log").contains(&"restart a".to_owned()), "{:?}", project.lines("log"));
    project.play(&[]).ends(0).lacks("have not run");
}

#[test]
fn handler_that_ended_on_one_host_is_not_pending_there_while_it_runs_on_another() {
    let handler = "  handlers:\n    - name: restart\n      shell: 'if [ {{ inventory_hostname }} = b ]; then until [ -e FOLDER/ended ]; do sleep 0.1; done; \
                   sleep 1; touch FOLDER/reached; sleep 60; fi; touch FOLDER/ended'\n";
    let project = Project::new(&(head("") + "    - {shell: 'true', notify: restart}\n" + handler));
    project.killed_at("reached", "-KILL", &[]);
    project.play(&["--check"]).has("b: 'restart'").lacks("a: 'restart'");
}

/// A host stops between two notifications of one handler, and the resuming run before the second.
#[test]
fn killed_resume_neither_forgets_a_second_notification_nor_revives_a_handler_that_ran() {
    let tasks = format!(
        "    - {{shell: 'true', notify: early}}\n    - meta: flush_handlers\n    - {{shell: 'true', notify: late}}\n{}\
         \x20   - meta: flush_handlers\n    - {{shell: 'true', notify: early}}\n{}  handlers:\n",
        "    - shell: 'if [ -e FOLDER/block ]; then touch FOLDER/reached; sleep 60; fi; [ {{ inventory_hostname }} = a ] || test -e FOLDER/mended'\n",
        until("mended"),
    );
    let project = Project::new(&(head("") + &tasks + &step("early") + &step("late")));
    project.play(&[]).ends(2);
    project.write("block", "");
    project.killed_at("reached", "-KILL", &["--resume"]);
    fs::remove_file(project.path("block")).unwrap();
    project.play(&["--check"]).has("a: 'early'").lacks("a: 'late'").has("b: 'late'").lacks("b: 'early'");
    project.write("mended", "");
    project.play(&["--resume"]).ends(0).lacks("have not run");
    let mut log = project.lines("log");
    log.sort();
    assert_eq!(log, ["early a", "early a", "early b", "early b", "late a", "late b"]);
    project.play(&["--check"]).lacks("have not run");
}

/// A project whose handlers are `inc`, an include, and more. The task that notifies them precedes one that fails until
/// `mended` exists.
fn included_handlers(play: &str, notify: &str, more: &str) -> Project {
    let tasks = format!("    - {{shell: 'true', notify: [{notify}]}}\n");
    let include = "  handlers:\n    - {name: inc, include_tasks: inc.yml, listen: topic}\n";
    let project = Project::new(&(head(play) + &tasks + &until("mended") + include + more));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("inc.yml", "- shell: echo inc >> FOLDER/log\n- debug: msg=end\n");
    project
}

const PLAIN: &str = "    - {name: plain, shell: echo plain >> FOLDER/log, listen: topic}\n";

#[test]
fn included_handlers_of_a_failed_run_run_once_whichever_run_takes_them() {
    for (play, notify, words, expected) in [
        ("", "inc", "--resume", &["inc"][..]),
        ("", "topic", "--resume", &["inc", "plain"]),
        ("", "topic", "--pending-handlers=run", &["inc", "plain"]),
        ("  strategy: free\n", "topic", "--resume", &["inc", "plain"]),
    ] {
        let project = included_handlers(play, notify, PLAIN);
        project.play(&[]).ends(2);
        project.write("mended", "");
        project.play(&[words]).ends(0);
        assert_eq!(project.lines("log"), expected, "{play} {notify} {words}");
    }
}

#[test]
fn included_handler_that_ended_is_not_pending_when_a_later_one_fails() {
    let more = format!(
        "    - {{name: last, include_tasks: inc.yml, listen: topic}}\n    - {{name: bad, shell: test -e FOLDER/good, listen: topic}}\n{PLAIN}"
    );
    for (play, file) in [
        ("", "mended"),
        ("  strategy: free\n", "mended"),
        ("  force_handlers: true\n", "mended"),
        ("  force_handlers: true\n", "other"),
    ] {
        let project = included_handlers(play, "inc, last, bad", &more);
        project.write(file, "");
        project.play(&[]).ends(2);
        assert_eq!(project.lines("log"), ["inc", "inc"], "{play} {file}");
        project.play(&[]).has("a: 'bad'").lacks("a: 'inc'").lacks("a: 'last'");
    }
}

#[test]
fn included_handler_that_fails_stays_pending() {
    let project = included_handlers("", "inc", PLAIN);
    project.write("mended", "");
    project.write("inc.yml", "- shell: echo inc >> FOLDER/log\n- shell: test -e FOLDER/good\n");
    project.play(&[]).ends(2);
    project.write("good", "");
    project.play(&["--resume"]).ends(0);
    assert_eq!(project.lines("log"), ["inc"]);
    project.play(&[]).ends(0).lacks("have not run");
}

#[test]
fn handler_that_a_later_handler_notifies_is_pending_until_it_runs() {
    let project = Project::new(
        &(head("").replace("tasks:", "post_tasks:")
            + "    - {shell: test -e FOLDER/made || touch FOLDER/made, notify: second, changed_when: true}\n  handlers:\n"
            + "    - {name: first, shell: echo first >> FOLDER/log}\n"
            + "    - {name: second, shell: echo second >> FOLDER/log, notify: first}\n"),
    );
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(0);
    assert_eq!(project.lines("log"), ["second"]);
    project.play(&["--check"]).has("a: 'first'");
    project.write(
        "play.yml",
        &fs::read_to_string(project.path("play.yml")).unwrap().replace("changed_when: true", "changed_when: false"),
    );
    project.play(&["--pending-handlers", "run"]).ends(0);
    assert_eq!(project.lines("log"), ["second", "first"]);
    project.play(&[]).ends(0).lacks("have not run");
}

/// A project with an encrypted file of variables, whose values are all masked, and tasks that notify these handlers.
fn masked_handlers(notify: &str) -> Project {
    let notifies = NOTIFY.replace("[restart, topic]", notify);
    let handler = |name: &str| {
        format!("    - name: restart {name}\n      shell: echo {name} {{{{ inventory_hostname }}}} >> FOLDER/log\n")
    };
    let play = head("  vars_files: [vault.yml]\n")
        + &notifies
        + "    - command: test -e FOLDER/mended\n  handlers:\n"
        + &handler("billing")
        + &handler("shipping");
    let project = Project::new(&play);
    project.write("ansible.cfg", "[defaults]\nvault_password_file = word\nerror_on_missing_handler = false\n");
    project.write("word", "vault password\n");
    project.write("vault.yml", "app_name: billing\nother: shipping\nabsent: invoices\n");
    project.run(&["vault", "encrypt", "vault.yml"]).ends(0);
    project.play(&[]).ends(2);
    assert!(project.journal().contains("restart ********"), "{}", project.journal());
    project.write("mended", "");
    project
}

#[test]
fn handler_whose_name_contains_a_masked_value_is_not_lost() {
    for (notify, words) in [
        ("[restart billing]", ["--resume"].as_slice()),
        ("[restart billing]", &["--pending-handlers", "run"]),
        // The name of another handler looks the same in the journal.
        ("[restart shipping, restart billing]", &["--resume"]),
        // So does one that does not exist.
        ("[restart billing, restart invoices]", &["--pending-handlers", "run"]),
    ] {
        let project = masked_handlers(notify);
        project.play(words).ends(0).lacks("'restart ********' was not found");
        for line in ["billing a", "billing b"] {
            assert!(
                project.lines("log").iter().any(|run| run == line),
                "{notify} {words:?}: {:?}",
                project.lines("log")
            );
        }
        project.play(&[]).ends(0).lacks("a: 'restart");
    }
}

#[test]
fn interrupted_run_explains_resume_and_is_listed() {
    let project = Project::new(&(head("") + &step("one") + BLOCK));
    project.write("block", "");
    let ran = project.killed_at("reached", "-INT", &[]);
    let run = project.run_id();
    ran.ends(99).has(&format!("--resume {run}"));
    fs::remove_file(project.path("block")).unwrap();
    project.run(&["runs"]).ends(0).has(&run).has("interrupted").has("play.yml");
    project.run(&["runs", "show", &run]).ends(0).has("  HOST  OK  CHANGED  SKIPPED  FAILED").has("  a     1   1");
    project.run(&["playbook", "-i", "hosts", "--resume", &run]).ends(0).has("resumed: 2 results");
    project.run(&["runs"]).has("ok");
}

#[test]
fn resumed_run_shows_each_task_once() {
    let play = head("") + &step("one") + "    - command: test -e marker chdir={{ playbook_dir }}\n" + &step("two");
    let project = Project::new(&play);
    project.play(&[]).ends(2);
    let failed = project.run_id();
    project.run(&["runs", "show", &failed]).has("  a     1   1        0        1");
    project.write("marker", "");
    project.run(&["playbook", "-i", "hosts", "--resume", &failed]).ends(0);
    project.run(&["runs", "show", &project.run_id()]).has("  a     3   3        0        0").lacks("failures");
}

#[test]
fn resumed_run_that_is_killed_can_be_resumed_itself() {
    let again =
        BLOCK.replace("blocks", "again").replace("reached", "reached-again").replace("/block ", "/block-again ");
    let project = Project::new(&(head("") + &step("one") + BLOCK + &again + &step("two")));
    project.write("block", "");
    project.write("block-again", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    project.killed_at("reached-again", "-KILL", &["--resume"]);
    fs::remove_file(project.path("block-again")).unwrap();
    project.play(&["--resume"]).ends(0);
    let mut log = project.lines("log");
    log.sort();
    assert_eq!(log, ["again a", "again b", "blocks a", "blocks b", "one a", "one b", "two a", "two b"]);
}

#[test]
fn run_that_another_one_has_resumed_is_not_resumed_again() {
    let project = Project::new(&(head("") + &until("one") + &step("charge") + &until("two")));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(2);
    let first = project.run_id();
    project.write("one", "");
    project.play(&["--resume", &first]).ends(2);
    let second = project.run_id();
    project
        .play(&["--resume", &first])
        .ends(5)
        .has(&format!("the run {first} was resumed by the run {second}, which did not succeed"))
        .has(&format!("--resume {second}"));
    project.write("two", "");
    project.play(&["--resume", &second]).ends(0);
    let third = project.run_id();
    // Of several, the last one has gone furthest.
    let resumed = format!("the run {first} was resumed by the run {third}, which succeeded");
    project.play(&["--resume", &first]).ends(5).has(&resumed);
    assert_eq!(project.lines("log"), ["charge a"]);
    project
        .play(&["--resume", &first, "--resume-anyway"])
        .ends(0)
        .has(&format!("although the run {third} has resumed it"));
    assert_eq!(project.lines("log"), ["charge a", "charge a"]);
}

#[test]
fn run_that_two_processes_resume_at_once_is_resumed_once() {
    let waits = "    - shell: 'touch FOLDER/reached; until [ -e FOLDER/go ]; do sleep 0.1; done'\n";
    let project = Project::new(&(head("") + &until("mended") + &step("charge") + waits));
    project.write("hosts", "a ansible_connection=local\n");
    for is_named in [false, true] {
        project.play(&[]).ends(2);
        project.write("mended", "");
        let run = project.run_id();
        let mut command = vec!["playbook", "-i", "hosts", "play.yml", "--resume"];
        command.extend(is_named.then_some(&*run));
        let start = || project.command(&command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut both = [start(), start()];
        let begin = Instant::now();
        // The one that is refused ends by itself.
        while both.iter_mut().all(|child| child.try_wait().unwrap().is_none()) {
            assert!(begin.elapsed() < Duration::from_secs(120), "no process is refused");
            std::thread::sleep(Duration::from_millis(20));
        }
        both.iter().for_each(|child| project.wait_for("reached", child));
        project.write("go", "");
        let ended = both.map(|child| Ran::of(&child.wait_with_output().unwrap()));
        let refused = ended.iter().find(|ran| ran.code == Some(5)).unwrap();
        refused.has("active").has("wait for its end, or interrupt it");
        assert!(ended.iter().any(|ran| ran.code == Some(0)), "{}", ended[0].text);
        assert_eq!(project.lines("log"), ["charge a"], "{command:?}");
        for file in ["go", "reached", "log", "mended"] {
            fs::remove_file(project.path(file)).unwrap();
        }
    }
}

#[test]
fn run_killed_while_it_copied_the_journal_of_another_repeats_nothing() {
    let notify = NOTIFY.replace("[restart, topic]", "restart");
    let handler = "  handlers:\n    - {name: restart, shell: echo restart >> FOLDER/log}\n";
    let project = Project::new(&(head("") + &notify + &step("one") + &until("mended") + &step("two") + handler));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(2);
    let first = project.run_id();
    project.play(&["--resume"]).ends(2);
    let second = project.run_id();
    // The last lines that a killed run has written are copies.
    let journal = project.journal();
    let copied = journal.find("{\"t\":\"done\"").unwrap();
    let cut = journal.get(..copied).unwrap();
    let mut files: Vec<_> = fs::read_dir(project.path("state/windlass/runs")).unwrap().flatten().collect();
    files.sort_by_key(fs::DirEntry::path);
    fs::write(files.last().unwrap().path(), cut).unwrap();
    project.write("mended", "");
    project
        .play(&["--resume", &second])
        .ends(5)
        .has("was killed before its first task")
        .has(&format!("--resume {first}"));
    // The handler of the first run belongs to the killed one by now.
    project.play(&["--resume"]).ends(0).lacks("TASK [one]").lacks("have not run");
    assert_eq!(project.lines("log"), ["one a", "two a", "restart"]);
}

#[test]
fn state_is_private_and_can_be_switched_off() {
    use std::os::unix::fs::MetadataExt as _;
    let project = Project::new(&(head("") + &step("one")));
    project.play(&["--no-journal"]).ends(0);
    assert!(!project.path("state").exists());
    project.play(&[]).ends(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&project.path("state/windlass")), 0o700);
    for entry in fs::read_dir(project.path("state/windlass/runs")).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn damaged_journal_is_named_with_its_line() {
    let project = Project::new(&(head("") + &step("one") + "    - command: \"false\"\n"));
    project.play(&[]).ends(2);
    let file = fs::read_dir(project.path("state/windlass/runs")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("\n{\"t\":\"file\"", "\n{\"t\":\"what\"", 1)).unwrap();
    project.play(&["--resume"]).has(":2: the line is not a journal record");
}

#[test]
fn shown_run_counts_rescued_and_ignored_failures_as_its_recap() {
    let tasks = "    - block:\n        - command: \"false\"\n      rescue:\n        - debug: msg=rescue\n    - command: \"false\"\n      ignore_errors: true\n";
    let project = Project::new(&(head("") + tasks));
    project.play(&[]).ends(0).has("ok=2 ").has("changed=1 ").has("failed=0").has("rescued=1").has("ignored=1");
    let shown = project.run(&["runs", "show", &project.run_id()]);
    shown
        .has("  a     2   1        0        0")
        .has("(rescued): non-zero return code")
        .has("(ignored): non-zero return code");
}

#[test]
fn run_killed_before_its_journal_named_its_inventory_is_nothing_to_resume() {
    let project = Project::new(&(head("") + &step("one") + "    - command: \"false\"\n"));
    project.play(&[]).ends(2);
    let file = fs::read_dir(project.path("state/windlass/runs")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.split_inclusive('\n').next().unwrap()).unwrap();
    project.play(&["--resume"]).ends(5).has("nothing to resume: no run of this playbook");
    let run = file.file_name().unwrap().to_str().unwrap().split_once('.').unwrap().0.to_owned();
    project.play(&["--resume", &run]).has("was killed before its first task").has("run the playbook without --resume");
}

#[test]
fn run_killed_at_any_moment_and_resumed_converges_and_loses_no_handler() {
    let mut tasks = String::new();
    for n in 0..4 {
        tasks += &format!(
            "    - copy:\n        content: '{n}'\n        dest: FOLDER/file-{n}-{{{{ inventory_hostname }}}}\n      notify: handler {n}\n"
        );
    }
    tasks += "  handlers:\n";
    for n in 0..4 {
        tasks +=
            &format!("    - name: handler {n}\n      shell: echo {n} {{{{ inventory_hostname }}}} >> FOLDER/log\n");
    }
    for strategy in ["linear", "free"] {
        let mut delay = Duration::from_millis(30);
        // Kill later and later, until a run ends by itself.
        loop {
            let project = Project::new(&(head(&format!("  strategy: {strategy}\n")) + &tasks));
            let mut child = project
                .command(&["playbook", "-i", "hosts", "play.yml"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(delay);
            let has_ended = child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            child.wait().unwrap();
            let resumed = project.play(&["--resume"]);
            if resumed.text.contains("nothing to resume: no run") {
                project.play(&[]).ends(0);
            } else if !resumed.text.contains("succeeded") {
                resumed.ends(0);
            }
            for host in ["a", "b"] {
                for n in 0..4 {
                    let handled = format!("{n} {host}");
                    let log = project.lines("log");
                    assert!(
                        log.contains(&handled),
                        "after {delay:?}, {strategy}: {handled} is missing in {log:?}\n{}",
                        resumed.text
                    );
                    assert!(project.path(&format!("file-{n}-{host}")).exists());
                }
            }
            project.play(&[]).ends(0).lacks("changed:").lacks("have not run");
            if has_ended {
                break;
            }
            delay += Duration::from_millis(60);
        }
    }
}

#[test]
fn pending_handlers_setting_read_and_invalid_value_refused() {
    let project = Project::new(&handlers(NOTIFY, ""));
    project.write("block", "");
    project.killed_at("reached", "-TERM", &[]).ends(143).has("--resume");
    fs::remove_file(project.path("block")).unwrap();
    project.write("ansible.cfg", "[windlass]\npending_handlers = perhaps\n");
    project.play(&[]).has("pending_handlers must be run, skip or ask, not 'perhaps'");
    project.write("ansible.cfg", "[windlass]\npending_handlers = run\n");
    project.play(&[]).ends(0).lacks("--pending-handlers");
    assert!(project.lines("log").contains(&"restart a".to_owned()));
}

#[test]
fn journal_that_cannot_grow_names_the_handlers_that_no_later_run_knows() {
    let tasks = "    - copy: {content: x, dest: \"FOLDER/changed-{{ inventory_hostname }}\"}\n      notify: restart\n    - debug: {msg: \"{{ 'x' * 20000 }}\"}\n      \
                 register: large\n    - fail: {msg: broken}\n  handlers:\n    - name: restart\n      debug: {msg: restarted}\n";
    let project = Project::new(&(head("") + tasks));
    // The kernel refuses larger files, as a full disk would.
    let limited = "trap '' XFSZ; ulimit -f 16; exec \"$@\"";
    let program = project.command(&["playbook", "-i", "hosts", "play.yml"]);
    let mut command = Command::new("bash");
    wrap(command.args(["-c", limited, "bash"]), &program);
    command.env("WINDLASS_JOURNAL_DIR", project.path("state"));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let named = "These handlers were notified, have not run, and are not remembered, because the journal could not be \
                 written: 'restart' on a, 'restart' on b";
    assert!(unwrapped(&text).contains(named) && !text.contains("--resume"), "{text}");
}

fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn journal_that_cannot_grow_is_reported_at_once_and_ends_a_run_that_needs_it() {
    let large = "    - debug: {msg: \"{{ 'x' * 20000 }}\"}\n      register: large\n";
    for (strategy, required, code) in [("linear", "false", 0), ("linear", "true", 1), ("free", "true", 1)] {
        let project = Project::new(&(head(&format!("  strategy: {strategy}\n")) + large + &step("after")));
        project.write("hosts", "a ansible_connection=local\n");
        let limited = "trap '' XFSZ; ulimit -f 16; exec \"$@\" 2>&1";
        let program = project.command(&["playbook", "-i", "hosts", "play.yml"]);
        let mut command = Command::new("bash");
        wrap(command.args(["-c", limited, "bash"]), &program);
        command.env("WINDLASS_JOURNAL_DIR", project.path("state")).env("WINDLASS_JOURNAL_REQUIRED", required);
        let output = command.output().unwrap();
        let text = unwrapped(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(output.status.code(), Some(code), "{strategy}: {text}");
        let lost = "cannot be written: File too large (os error 27). From here on its report is incomplete, it cannot be \
                    resumed, and handlers that it notifies are not remembered";
        assert_eq!(text.matches(lost).count(), 1, "{strategy}: {text}");
        let next = text.find("TASK [after]");
        assert_eq!(next.is_some(), required == "false", "{strategy}: {text}");
        assert!(next.is_none_or(|next| text.find(lost).unwrap() < next), "{text}");
        let ends = text.contains("the setting journal_required ends the run");
        assert_eq!(ends, required == "true", "{strategy}: {text}");
    }
}

#[test]
fn run_that_needs_its_journal_does_not_start_without_one() {
    let project = Project::new(&(head("") + &step("one")));
    project.write("file", "");
    project.write("ansible.cfg", "[windlass]\njournal_required = true\njournal_dir = file\n");
    project.play(&[]).ends(1).has("file").lacks("TASK [one]");
}

#[test]
fn unwritable_journal_reported_and_run_continues() {
    let project = Project::new(&(head("") + &step("one")));
    project.write("file", "");
    let output = project
        .command(&["playbook", "-i", "hosts", "play.yml"])
        .env("WINDLASS_JOURNAL_DIR", project.path("file"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("The run has no journal"), "{text}");
}
