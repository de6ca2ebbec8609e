//! A resumed run goes on with the variables of the run that stopped, or refuses.

use std::fs;
use std::process::Command;

use crate::ran::wrap;
use crate::resume::{Project, head, step, until};
use crate::screen::{Ended, Screen};

/// Tasks that write the value and the type of each variable to `FOLDER/NAME-HOST` before and after one that fails.
fn around_a_failure(names: &[&str]) -> String {
    let list = names.join("', '");
    let shown = format!(
        "{{% for name in ['{list}'] %}}{{{{ name }}}} {{{{ lookup('vars', name, default='none') | type_debug }}}} {{{{ [lookup('vars', name, default='none')] }}}}\n{{% endfor %}}"
    );
    let write = |name: &str| {
        format!("    - copy: {{dest: \"FOLDER/{name}-{{{{ inventory_hostname }}}}\", content: \"{shown}\"}}\n")
    };
    write("before") + &until("mended") + &write("after")
}

/// Runs a playbook that stops at its failing task, resumes it, and returns what its tasks wrote on a host before and
/// after.
fn stopped_and_resumed(project: &Project, words: &[&str]) -> [String; 2] {
    project.play(words).ends(2);
    project.write("mended", "");
    project.play(&[&["--resume"], words].concat()).ends(0);
    let read = |name: &str| fs::read_to_string(project.path(&format!("{name}-a"))).unwrap();
    ["before", "after"].map(read)
}

#[test]
fn variables_of_set_fact_with_templated_names_in_loops_and_of_other_hosts_are_restored() {
    let drawn = "\"{{ 1000000000 | random }}\"";
    let tasks = format!(
        "    - set_fact: {{\"drawn_{{{{ word }}}}\": {drawn}}}\n      vars: {{word: one}}\n\
         \x20   - set_fact: {{\"looped_{{{{ item }}}}\": {drawn}}}\n      loop: [x, y]\n\
         \x20   - set_fact: {{cached: {drawn}, cacheable: true}}\n\
         \x20   - set_fact: {{given: {drawn}}}\n      delegate_to: a\n      delegate_facts: true\n      when: inventory_hostname == 'b'\n\
         \x20   - set_fact:\n      args: \"{{{{ {{'whole': 1000000000 | random}} }}}}\"\n\
         \x20   - action: \"{{{{ 'set_' ~ 'fact' }}}}\"\n      args: {{named: {drawn}}}\n\
         \x20   - set_fact: {{of_fact: \"{{{{ ansible_facts.cached }}}}\"}}\n"
    );
    let names = ["drawn_one", "looped_x", "looped_y", "cached", "given", "whole", "named", "of_fact"];
    let project = Project::new(&(head("") + &tasks + &around_a_failure(&names)));
    let [before, after] = stopped_and_resumed(&project, &[]);
    assert_eq!(before, after);
    assert!(!project.journal().contains("\"exact\""), "{}", project.journal());
}

#[test]
fn values_that_json_lacks_are_restored_as_they_were() {
    let tasks = "    - set_fact:\n        keyed: \"{{ {1: 'one', '1': {2.5: none}, false: 'no'} }}\"\n        large: \"{{ 2 ** 70 }}\"\n        \
                 moment: \"{{ now() }}\"\n        day: 2001-12-14\n        zoned: 2001-12-14t21:59:43.10-05:00\n        \
                 span: \"{{ now() - ('2001-12-14' | to_datetime('%Y-%m-%d')) }}\"\n        bytes: !!binary aGk=\n        encoded: \"{{ 'h\u{e9}'.encode() }}\"\n        \
                 endless: \"{{ 'inf' | float }}\"\n        data: !unsafe '{{ large }}'\n        whole: 1.0\n        yes_word: 'yes'\n        \
                 nested: \"{{ ('[' * 110 ~ ']' * 110) | from_json }}\"\n\
                 \x20   - debug: {var: keyed}\n      register: shown\n\
                 \x20   - command: echo\n      loop: [{1: a}]\n      loop_control: {label: x}\n      register: looped\n";
    let mut names = vec![
        "keyed", "large", "moment", "day", "zoned", "span", "bytes", "encoded", "endless", "data", "whole", "yes_word",
    ];
    names.extend(["nested", "shown", "looped"]);
    for compat in ["2.18", "2.19"] {
        let project = Project::new(&(head("") + tasks + &around_a_failure(&names)));
        project.write("hosts", "a ansible_connection=local\n");
        let [before, after] = stopped_and_resumed(&project, &["--compat", compat]);
        assert_eq!(before, after, "{compat}");
        assert!(before.contains("1180591620717411303424"), "{before}");
        assert!(before.contains("'{{ large }}'"), "{before}");
    }
}

#[test]
fn module_answer_that_looks_like_a_loops_is_restored_whole() {
    let answer = r#"{"changed": false, "results": [{"ansible_loop_var": "item", "item": 1, "word": "kept"}]}"#;
    let tasks =
        "    - own:\n      register: answer\n    - command: echo {{ item }}\n      loop: [x]\n      register: looped\n";
    let project = Project::new(&(head("") + tasks + &around_a_failure(&["answer", "looped"])));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("library/own", &format!("#!/bin/sh\n# WANT_JSON\necho '{answer}'\n"));
    let [before, after] = stopped_and_resumed(&project, &[]);
    assert!(before.contains("'word': 'kept'"), "{before}");
    assert_eq!(before, after);
}

#[test]
fn file_of_the_limit_with_other_hosts_is_refused() {
    let project = Project::new(&(head("") + &step("one") + &until("mended")));
    project.write("some", "a\n");
    let words = ["--limit", "@some"];
    project.play(&words).ends(2).has("a ").lacks("b ");
    project.write("mended", "");
    project.write("some", "a\nb\n");
    project.play(&[&["--resume"], &words[..]].concat()).ends(5).has("some has changed").has("--resume-anyway");
    project.write("some", "a\n");
    project.play(&[&["--resume"], &words[..]].concat()).ends(0);
    assert_eq!(project.lines("log"), ["one a"]);
}

#[test]
fn run_that_replaced_the_file_of_its_limit_by_its_failed_hosts_is_resumed_on_all_hosts() {
    let last = "    - command: test -e FOLDER/mended\n      when: inventory_hostname == 'b'\n";
    let project = Project::new(&(head("  serial: 1\n") + &step("one") + last + &step("two")));
    project.write("ansible.cfg", "[defaults]\nretry_files_enabled = true\n");
    project.write("play.retry", "a\nb\n");
    let words = ["--limit", "@play.retry"];
    let resume = ["--resume", "--limit", "@play.retry"];
    project.play(&words).ends(2);
    assert_eq!(fs::read_to_string(project.path("play.retry")).unwrap(), "b\n");
    // The user's own change counts.
    project.write("play.retry", "a\n");
    project.play(&resume).ends(5).has("play.retry has changed");
    project.write("play.retry", "b\n");
    project.play(&resume).ends(2);
    project.write("mended", "");
    project.play(&resume).ends(0);
    assert_eq!(project.lines("log"), ["one a", "two a", "one b", "two b"]);
}

/// Runs the playbook at a terminal of its own, and answers its prompt.
fn answered(project: &Project, prompt: &str, answer: &str, words: &[&str]) -> Ended {
    let program = project.command(&["playbook", "-i", "hosts", "play.yml"]);
    let mut command = Command::new("setsid");
    wrap(command.args(["--wait", "--ctty"]), &program);
    command.args(words).env("TERM", "xterm");
    let mut screen = Screen::start(command, 60, 400);
    screen.wait_for_last(prompt);
    screen.press(&format!("{answer}\r"));
    screen.end()
}

#[test]
fn other_answer_to_a_prompt_is_refused_and_no_answer_is_in_the_journal() {
    let prompts = "  vars_prompt: [{name: first, private: true}]\n";
    let project = Project::new(&(head(prompts) + &step("one") + &until("mended")));
    project.write("hosts", "a ansible_connection=local\n");
    let shown = |ended: &Ended| ended.rows.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let stopped = answered(&project, "first:", "Quartz9Wombat", &[]);
    assert_eq!(stopped.status.code(), Some(2), "{}", stopped.bytes);
    assert!(!project.journal().contains("Quartz9Wombat"), "{}", project.journal());
    project.write("mended", "");
    let refused = shown(&answered(&project, "first:", "Other7Answer", &["--resume"]));
    assert!(refused.contains("cannot be resumed: the answer for `first` is another one"), "{refused}");
    assert!(refused.contains("--resume-anyway"), "{refused}");
    assert_eq!(project.lines("log"), ["one a"]);
    let anyway = shown(&answered(&project, "first:", "Other7Answer", &["--resume", "--resume-anyway"]));
    assert!(anyway.contains("although the answer for `first` is another one"), "{anyway}");
}

#[test]
fn default_of_a_prompt_that_has_changed_is_refused_without_a_terminal() {
    let prompts = "  vars_prompt: [{name: word, default: \"{{ lookup('pipe', 'cat FOLDER/word') }}\"}]\n";
    let project = Project::new(&(head(prompts) + &step("one") + &until("mended")));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("word", "Quartz9Wombat");
    project.play(&[]).ends(2);
    assert!(!project.journal().contains("Quartz9Wombat"), "{}", project.journal());
    project.write("mended", "");
    project.write("word", "Other7Answer");
    project.play(&["--resume"]).ends(5).has("the answer for `word` is another one").lacks("Other7Answer");
    project.write("word", "Quartz9Wombat");
    project.play(&["--resume"]).ends(0);
    assert_eq!(project.lines("log"), ["one a"]);
}

#[test]
fn encrypted_answer_to_a_prompt_has_the_same_salt_again() {
    for method in ["sha512_crypt, salt_size: 8", "sha256", "md5_crypt", "bcrypt"] {
        let prompts =
            format!("  vars_prompt: [{{name: word, default: Quartz9Wombat, private: false, encrypt: {method}}}]\n");
        let project = Project::new(&(head(&prompts) + &around_a_failure(&["word"])));
        let [before, after] = stopped_and_resumed(&project, &[]);
        assert!(before.contains('$') && !before.contains("Wombat"), "{before}");
        assert_eq!(before, after, "{method}");
    }
}

/// A project that sets variables from the output of a program, before a task that fails until `mended` exists.
fn evaluated_again(tasks: &str) -> Project {
    let word = "{{ lookup(\"pipe\", \"cat FOLDER/word\") }}";
    let project = Project::new(&(head("") + &tasks.replace("WORD", word) + &step("one") + &until("mended")));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("red.yml", "colour: red\n");
    project.write("blue.yml", "colour: blue\n");
    project
}

#[test]
fn variables_hosts_and_groups_that_come_out_differently_are_refused() {
    for tasks in [
        "    - set_fact: {kept: 'x WORD'}\n      no_log: true\n",
        "    - set_fact: {'kept_{{ item }}': 'x WORD'}\n      no_log: true\n      loop: [1, 2]\n",
        "    - add_host: {name: c, groups: [made], colour: 'WORD'}\n",
        "    - add_host: {name: '{{ item }}'}\n      loop: [c, 'WORD']\n",
        "    - group_by: {key: 'of_WORD'}\n",
        "    - include_vars: 'WORD.yml'\n",
    ] {
        let project = evaluated_again(tasks);
        project.write("word", "red");
        project.play(&[]).ends(2);
        project.write("mended", "");
        project.write("word", "blue");
        project
            .play(&["--resume"])
            .ends(5)
            .has("cannot be resumed: ")
            .has("on a gives other variables, hosts or groups than before")
            .has("--resume-anyway");
        project.write("word", "red");
        project.play(&["--resume"]).ends(0);
        assert_eq!(project.lines("log"), ["one a"], "{tasks}");
    }
    let project = evaluated_again("    - set_fact: {kept: 'x WORD'}\n      no_log: true\n");
    project.write("word", "red");
    project.play(&[]).ends(2);
    project.write("mended", "");
    project.write("word", "blue");
    let anyway = project.play(&["--resume", "--resume-anyway"]);
    anyway.ends(0).has("on a gives other variables, hosts or groups than before");
}

#[test]
fn facts_are_there_after_the_task_that_stopped_a_run() {
    for gathering in ["  gather_facts: true\n  gather_subset: ['!all']\n", "  gather_facts: false\n"] {
        let play = head("").replace("  gather_facts: false\n", gathering);
        let setup =
            "    - setup: {gather_subset: ['!all'], filter: [ansible_user_id]}\n      when: ansible_facts == {}\n";
        let last =
            "    - debug: {msg: \"user {{ ansible_facts.user_id }} of {{ hostvars.b.ansible_facts.user_id }}\"}\n";
        let next = "- hosts: a\n  gather_facts: false\n  tasks:\n";
        let project = Project::new(&(play + setup + &step("one") + &until("mended") + last + next + last));
        project.play(&[]).ends(2).lacks("user ");
        project.write("mended", "");
        let ran = project.play(&["--resume"]);
        ran.ends(0).lacks("TASK [one]");
        let user = format!("\"msg\": \"user {0} of {0}\"", String::from_utf8_lossy(&whoami()).trim());
        assert_eq!(ran.text.matches(&user).count(), 3, "{}", ran.text);
    }
}

/// Name of the user that runs the tests.
fn whoami() -> Vec<u8> {
    Command::new("id").arg("-un").output().unwrap().stdout
}

/// A task that stops a run while `FOLDER/block-NUMBER` exists.
fn gate(number: usize, indent: &str) -> String {
    format!(
        "{indent}- name: gate {number}\n{indent}  shell: 'if [ -e FOLDER/block-{number} ]; then touch \
         FOLDER/reached-{number}; sleep 60; fi'\n"
    )
}

/// Tasks that set variables in every way, each followed by a gate, and a play that prints them all.
fn everything() -> (String, usize) {
    // The number of times that a value was computed on a host.
    let count = |name: &str| {
        let file = format!("FOLDER/count-{name}-{{{{ inventory_hostname }}}}");
        format!("{{{{ lookup('pipe', 'echo x >> {file}; wc -l < {file}') }}}}")
            .replace("{{ inventory_hostname }}", "' ~ inventory_hostname ~ '")
    };
    let tasks = [
        format!("    - set_fact: {{plain: \"{}\"}}\n", count("plain")),
        format!("    - set_fact: {{\"named_{{{{ word }}}}\": \"{}\"}}\n", count("named")),
        format!("    - set_fact: {{\"looped_{{{{ item }}}}\": \"{}\"}}\n      loop: [x, y]\n      register: loops\n", count("looped")),
        format!("    - set_fact: {{cached: \"{}\", cacheable: true}}\n", count("cached")),
        format!(
            "    - set_fact: {{given: \"{}\"}}\n      delegate_to: a\n      delegate_facts: true\n      when: inventory_hostname == 'b'\n",
            count("given")
        ),
        "    - set_fact: {kinds: \"{{ {1: 2 ** 70, 'day': '2001-12-14' | to_datetime('%Y-%m-%d'), none: 'inf' | float} }}\"}\n".to_owned(),
        "    - shell: echo x >> FOLDER/ran-{{ inventory_hostname }}; wc -l < FOLDER/ran-{{ inventory_hostname }}\n      register: shell\n".to_owned(),
        "    - shell: echo {{ item }} >> FOLDER/items-{{ inventory_hostname }}; wc -l < FOLDER/items-{{ inventory_hostname }}\n      loop: [1, 2]\n      register: items\n".to_owned(),
        "    - shell: echo x >> FOLDER/once; wc -l < FOLDER/once\n      run_once: true\n      register: once\n".to_owned(),
        "    - include_vars: more.yml\n".to_owned(),
        "    - add_host: {name: c, groups: [made], colour: red, ansible_connection: local}\n".to_owned(),
        "    - group_by: {key: \"of_{{ inventory_hostname }}\"}\n".to_owned(),
        "    - set_fact: {of_fact: \"{{ ansible_facts.user_id }}\"}\n".to_owned(),
    ];
    let mut play = head("  vars_prompt: [{name: word, default: prompted, private: false}]\n")
        .replace("  gather_facts: false\n", "  gather_facts: true\n  gather_subset: ['!all']\n");
    for (number, task) in tasks.iter().enumerate() {
        play += task;
        play += &gate(number, "    ");
    }
    let number = tasks.len();
    play += "    - block:\n        - command: 'false'\n      rescue:\n        - set_fact: {code: \"{{ ansible_failed_result.rc }}\"}\n";
    play += &gate(number, "        ");
    play += "        - set_fact: {failed: \"{{ ansible_failed_task.action ~ ansible_failed_result.rc ~ code }}\"}\n";
    play += "    - include_tasks: inner.yml\n      loop: [p, q]\n      loop_control: {loop_var: outer}\n";
    let names = [
        "plain",
        "named_prompted",
        "looped_x",
        "looped_y",
        "cached",
        "ansible_facts.cached",
        "hostvars.a.given",
        "kinds",
        "shell.stdout",
        "items.results | map(attribute='stdout')",
        "loops.results | map(attribute='item')",
        "once.stdout",
        "from_file",
        "hostvars.c.colour",
        "groups",
        "group_names",
        "of_fact",
        "failed",
        "inner_p",
        "inner_q",
        "ansible_facts.user_id",
        "word | default('none')",
    ];
    let printed: Vec<String> = names.iter().map(|name| format!("        - \"{name} {{{{ [{name}] }}}}\"\n")).collect();
    play += &format!(
        "    - name: printed\n      debug:\n        msg:\n{}",
        printed.concat().replace("        - ", "          - ")
    );
    play += "- hosts: made\n  gather_facts: false\n  tasks:\n    - name: printed\n      debug: {msg: \"{{ colour }} {{ hostvars.a.plain }} {{ hostvars.b.named_prompted }}\"}\n";
    (play, number + 2)
}

#[test]
fn run_killed_between_any_two_tasks_and_resumed_has_the_variables_of_one_that_was_not() {
    let (play, gates) = everything();
    let project = || {
        let project = Project::new(&play);
        project.write("more.yml", "from_file: \"{{ inventory_hostname }} templated\"\n");
        let count = "FOLDER/count-inner-{{ outer }}-{{ inventory_hostname }}";
        let inner = format!(
            "- shell: echo x >> {count}; wc -l < {count}\n  register: inner\n- set_fact: {{\"inner_{{{{ outer }}}}\": \"{{{{ inner.stdout }}}}\"}}\n"
        );
        project.write("inner.yml", &(inner + &gate(gates - 1, "")));
        project
    };
    let printed = |text: &str| {
        let parts = text.split("TASK [printed]").skip(1);
        let part = |part: &str| part.split("\n\n").next().unwrap_or_default().to_owned();
        parts.map(part).collect::<Vec<_>>()
    };
    let whole = project();
    let ran = whole.play(&[]);
    let expected = printed(&ran.ends(0).text);
    assert_eq!(expected.len(), 2, "{}", ran.text);
    for number in 0..gates {
        let project = project();
        project.write(&format!("block-{number}"), "");
        project.killed_at(&format!("reached-{number}"), "-KILL", &[]);
        fs::remove_file(project.path(&format!("block-{number}"))).unwrap();
        let resumed = project.play(&["--resume"]);
        assert_eq!(printed(&resumed.ends(0).text), expected, "killed at gate {number}");
    }
}
