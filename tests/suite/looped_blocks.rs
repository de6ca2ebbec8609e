//! `loop` on a block: the block runs once for each item, and means what it means without the loop.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::parallel_loops::Project;

/// A task that writes a line.
fn logs(line: &str) -> String {
    format!("{{shell: 'echo {line} >> FOLDER/log'}}")
}

/// Lines in the order in which they were written.
fn log(project: &Project) -> Vec<String> {
    fs::read_to_string(project.path("log")).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn block_runs_whole_for_each_item_with_loop_variables() {
    let (first, second) = (logs("{{ entry.name }}-{{ number }}-{{ ansible_loop.last }}"), logs("{{ out.stdout }}"));
    let project = Project::new(&format!(
        "    - block:\n        - {first}\n        - {{command: 'echo {{{{ entry.name }}}}{{{{ own }}}}', register: out}}\n        - {second}\n      \
         vars: {{own: '!', all: [{{name: a}}, {{name: b}}]}}\n      loop: '{{{{ all }}}}'\n      \
         loop_control: {{loop_var: entry, index_var: number, extended: true, label: 'label {{{{ entry.name }}}}'}}\n    \
         - debug: {{msg: 'last {{{{ out.stdout }}}}, {{{{ entry is defined }}}}'}}\n"
    ));
    let ran = project.run(&["--output", "ansible"]);
    ran.ends(0).has("last b!, False").has("play.yml:4 for a => (item=label a)").has("(item=label b)");
    assert_eq!(log(&project), ["a-0-False", "a!", "b-1-True", "b!"]);
}

#[test]
fn each_item_is_rescued_by_itself() {
    let block = format!(
        "    - block:\n        - {}\n        - {{command: 'test {{{{ item }}}} != 2'}}\n        - {}\n      rescue: [{}]\n      always: [{}]\n      loop: [1, 2, 3]\n",
        logs("start-{{ item }}"),
        logs("done-{{ item }}"),
        logs("rescue-{{ item }}"),
        logs("always-{{ item }}")
    );
    let project = Project::new(&block);
    project.run(&[]).ends(0).has("rescued=1").has("failed=0");
    let all = ["start-1", "done-1", "always-1", "start-2", "rescue-2", "always-2", "start-3", "done-3", "always-3"];
    assert_eq!(log(&project), all);
    let project = Project::new(&block.replace("      rescue:", "      # rescue:"));
    project.run(&[]).ends(2).has("failed=1");
    assert_eq!(log(&project), ["start-1", "done-1", "always-1", "start-2", "always-2"], "no item follows a failed one");
}

#[test]
fn conditions_are_evaluated_for_each_item_and_by_each_task() {
    let project = Project::new(&format!(
        "    - block:\n        - {}\n        - {{set_fact: {{found: true}}}}\n        - {}\n      loop: [1, 2, 3]\n      when: item != 1 and found is not defined\n    \
         - block: [{}]\n      loop: '{{{{ missing }}}}'\n      when: missing is defined\n    - block: [{}]\n      loop: []\n",
        logs("first-{{ item }}"),
        logs("second-{{ item }}"),
        logs("never"),
        logs("none")
    ));
    project.run(&["--output", "ansible"]).ends(0).has("skipping: [a] => (item=1)").lacks("for a => (item=1)");
    assert_eq!(log(&project), ["first-2"]);
    let project = Project::new("    - block: [ping: ]\n      loop: '{{ missing }}'\n");
    project.run(&[]).ends(2).has("missing");
}

#[test]
fn loops_nest_with_variables_of_their_own() {
    let task = "{shell: 'echo {{ outer }}-{{ inner }}-{{ item }} >> FOLDER/log', loop: [x, y]}";
    let nested = format!("block: [{task}]\n          loop: [1, 2]\n          loop_control: {{loop_var: inner}}");
    let project = Project::new(&format!(
        "    - block:\n        - {nested}\n      loop: [a, b]\n      loop_control: {{loop_var: outer}}\n"
    ));
    project.run(&[]).ends(0).lacks("already in use");
    assert_eq!(log(&project), ["a-1-x", "a-1-y", "a-2-x", "a-2-y", "b-1-x", "b-1-y", "b-2-x", "b-2-y"]);
    let project = Project::new("    - block:\n        - block: [ping: ]\n          loop: [1]\n      loop: [2]\n");
    project.run(&[]).ends(0).has("The loop variable 'item' is already in use");
}

#[test]
fn included_tasks_see_the_item_and_handlers_are_notified() {
    let project = Project::new(
        "    - block:\n        - include_tasks: more.yml\n        - import_tasks: more.yml\n      loop: [1, 2]\n      notify: note\n  handlers:\n    - {name: note, debug: {msg: notified once}}\n",
    );
    project.write("more.yml", &format!("- {}\n", logs("{{ item }}")));
    let ran = project.run(&[]);
    ran.ends(0).has("notified once");
    assert_eq!(ran.text.matches("notified once").count(), 1);
    assert_eq!(log(&project), ["1", "1", "2", "2"]);
}

#[test]
fn tags_select_single_tasks_and_lists_have_them_once() {
    let project = Project::new(&format!(
        "    - block:\n        - {{name: One, shell: 'echo one >> FOLDER/log', tags: one}}\n        - {}\n      loop: [1, 2]\n      tags: both\n    - {{name: Two, ping: , tags: two}}\n",
        logs("two")
    ));
    project.run(&["--list-tasks"]).ends(0).has("      One\tTAGS: [both, one]\n").lacks("block");
    project.run(&["-t", "two"]).ends(0).lacks("item=").lacks("block");
    project.run(&["-t", "one"]).ends(0);
    assert_eq!(log(&project), ["one", "one"]);
    project.run(&["--skip-tags", "one"]).ends(0);
    assert_eq!(log(&project), ["one", "one", "two", "two"]);
}

#[test]
fn hosts_with_other_items_stay_in_step() {
    for words in [&[][..], &["--shards", "2"]] {
        let project = Project::new(&format!(
            "    - block: [{}]\n      loop: '{{{{ mine }}}}'\n    - {{ping: , run_once: true}}\n    - {}\n",
            logs("{{ inventory_hostname }}{{ item }}"),
            logs("after")
        ));
        project.write("hosts", "a mine=[1,2]\nb mine=[2,3]\nc mine=[]\n[all:vars]\nansible_connection=local\n");
        project.run(words).ends(0);
        let mut lines = log(&project);
        assert_eq!(lines.split_off(lines.len() - 3), ["after"; 3]);
        lines.sort();
        assert_eq!(lines, ["a1", "a2", "b2", "b3"]);
    }
    let project = Project::new(&format!("    - block: [{}]\n      loop: [1, 2]\n", logs("x")));
    project.write("hosts", "a\nb\n[all:vars]\nansible_connection=local\n");
    let play = fs::read_to_string(project.path("play.yml")).unwrap();
    project.write("play.yml", &play.replace("  gather_facts", "  strategy: free\n  gather_facts"));
    project.run(&[]).ends(0);
    assert_eq!(log(&project).len(), 4);
}

/// Starts the playbook and kills it when its second item waits.
fn kill_in_second_item(project: &Project, words: &[&str]) {
    project.write("block", "");
    let mut child = project.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while !project.path("at").exists() {
        assert!(Instant::now() < end, "{:?}", log(project));
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(project.path("block")).unwrap();
    fs::remove_file(project.path("at")).unwrap();
}

#[test]
fn resumed_run_continues_within_the_item() {
    let project = Project::new(&format!(
        "    - block:\n        - {}\n        - {{shell: 'if [ {{{{ item }}}} = 2 ] && [ -e FOLDER/block ]; then touch FOLDER/at; sleep 600; fi; echo second-{{{{ item }}}} >> FOLDER/log'}}\n      loop: '{{{{ lookup(\"file\", \"FOLDER/items\").split() }}}}'\n",
        logs("first-{{ item }}")
    ));
    project.write("items", "1 2 3");
    kill_in_second_item(&project, &[]);
    project.run(&["--resume"]).ends(0).has("resumed: 3 results");
    assert_eq!(log(&project), ["first-1", "second-1", "first-2", "second-2", "first-3", "second-3"]);
    fs::remove_file(project.path("log")).unwrap();
    kill_in_second_item(&project, &[]);
    project.write("items", "2 1 3");
    project.run(&["--resume", "--resume-anyway"]).ends(0).lacks("resumed:");
    assert_eq!(log(&project)[3..], ["first-2", "second-2", "first-1", "second-1", "first-3", "second-3"]);
}

#[test]
fn outcome_of_one_secret_item_never_counts_for_another() {
    // A program's answer is no input that a resumed run compares.
    let order = "lookup(\"pipe\", \"cat FOLDER/items\").split()";
    let secret = |word: &str| {
        let secret = windlass_vault::Secret::new("default", "sesame");
        windlass_vault::encrypt(word.as_bytes(), &secret).unwrap().trim().replace('\n', "\n  ")
    };
    for no_log in [true, false] {
        let items = if no_log { order.to_owned() } else { format!("{order} | map(\"extract\", words)") };
        let project = Project::new(&format!(
            "    - block:\n        - {}\n        - {{shell: 'if [ {{{{ item }}}} = word-2 ] && [ -e FOLDER/block ]; then touch FOLDER/at; sleep 600; fi; echo second-{{{{ item }}}} >> FOLDER/log'}}\n      loop: '{{{{ {items} }}}}'\n      no_log: {no_log}\n",
            logs("first-{{ item }}")
        ));
        project.write("password", "sesame\n");
        fs::create_dir(project.path("group_vars")).unwrap();
        let vars = [1, 2, 3].map(|number| format!("s{number}: !vault |\n  {}\n", secret(&format!("word-{number}"))));
        let words = "words: {n1: '{{ s1 }}', n2: '{{ s2 }}', n3: '{{ s3 }}'}\n";
        project.write("group_vars/all.yml", &(vars.concat() + words));
        let list = |numbers: [u8; 3]| {
            numbers.map(|number| format!("{}{number} ", if no_log { "word-" } else { "n" })).concat()
        };
        project.write("items", &list([1, 2, 3]));
        kill_in_second_item(&project, &["--vault-password-file", "password"]);
        project.write("items", &list([2, 1, 3]));
        project.run(&["--resume", "--vault-password-file", "password"]).ends(0);
        let lines = ["first-2", "second-2", "first-1", "second-1", "first-3", "second-3"];
        let lines = lines.map(|line| line.replace('-', "-word-"));
        assert_eq!(log(&project)[3..], lines, "no_log: {no_log}");
    }
}

#[test]
fn plan_has_each_item_and_unknown_items_are_named() {
    let project = Project::new(
        "    - {command: echo 1, register: out}\n    - block: [{file: {path: 'FOLDER/made-{{ item }}', state: directory}}]\n      loop: [1, 2]\n    \
         - {name: Each, block: [ping: ], loop: '{{ out.stdout_lines }}'}\n",
    );
    let command = project.command(&[]);
    let words: Vec<_> = command.get_args().skip(1).map(std::ffi::OsStr::to_os_string).collect();
    let mut plan = std::process::Command::new(command.get_program());
    plan.arg("plan").args(words);
    crate::project::enter(&mut plan, project.path("").as_path());
    let ran = crate::ran::Ran::of(&plan.output().unwrap());
    ran.ends(0).has("? Each").has("its loop depends on the result of").has("2 to change");
    assert_eq!(ran.text.matches("file at play.yml:5").count(), 2, "{}", ran.text);
    assert!(!project.path("made-1").exists());
}

#[test]
fn loops_that_a_block_cannot_have_are_refused_before_the_run() {
    for (tasks, says) in [
        ("    - block: [ping: ]\n      with_items: [1]\n", "'with_items' is not a valid attribute for a Block"),
        (
            "    - block: [ping: ]\n      loop: [1]\n      loop_control: {parallel: 2}\n",
            "`loop_control.parallel` is not possible on a block",
        ),
        (
            "    - block: [ping: ]\n      loop: [1]\n      loop_control: {break_when: true}\n",
            "`loop_control.break_when` is not possible on a block",
        ),
        ("    - block: [nothing: ]\n      loop: []\n", "there is no module or action 'nothing'"),
        ("    - ping:\n  handlers:\n    - block: [ping: ]\n      loop: [1]\n", "a loop on a block of handlers"),
    ] {
        Project::new(tasks).run(&[]).ends(4).has(says).has("play.yml:");
    }
}

#[test]
fn explanation_names_the_loop_of_the_block() {
    let project = Project::new(
        "    - name: Each\n      block: [{name: Inner, ping: , when: item == 1}]\n      loop: [1, 2]\n      when: mode is defined\n",
    );
    let mut explain = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
    explain.args(["explain", "when", "-i", "hosts", "play.yml", "a", "Inner"]);
    crate::project::enter(&mut explain, project.path("").as_path());
    let ran = crate::ran::Ran::of(&explain.output().unwrap());
    ran.ends(0).has("included by 'Each'").has("false: mode is defined").has("an item of the loop over the block at");
    ran.has("(item of the loop over a block)").lacks("set_fact or register");
}
