//! The journal and the ledgers of failed hosts, and of hosts that answer with more than can be read again.

use std::fs;

use crate::resume::{Project, handlers, head, until};

/// The tasks of the host fail before its handlers run.
#[test]
fn handler_that_ended_on_a_failed_host_is_not_pending() {
    let last = "  handlers:\n    - {name: plain, shell: echo plain >> FOLDER/log}\n    - {name: inc, include_tasks: inc.yml}\n";
    let tasks = "    - {shell: 'true', notify: [plain, inc]}\n    - shell: 'false'\n";
    for strategy in ["linear", "free"] {
        let play = head(&format!("  force_handlers: true\n  strategy: {strategy}\n"));
        let project = Project::new(&(play + tasks + last));
        project.write("hosts", "a ansible_connection=local\n");
        project.write("inc.yml", "- shell: echo inc >> FOLDER/log\n- debug: msg=end\n");
        project.play(&[]).ends(2);
        assert_eq!(project.lines("log"), ["plain", "inc"], "{strategy}");
        project.play(&["--check"]).lacks("have not run");
    }
}

#[test]
fn handler_that_ran_once_for_failed_hosts_is_pending_on_none() {
    let handler = "  handlers:\n    - {name: once, shell: echo once >> FOLDER/log, run_once: true}\n";
    let tasks = "    - {shell: 'true', notify: once}\n    - shell: 'false'\n";
    let project = Project::new(&(head("  force_handlers: true\n") + tasks + handler));
    project.play(&[]).ends(2);
    assert_eq!(project.lines("log"), ["once"]);
    project.play(&["--check"]).lacks("have not run");
}

/// Its tasks run on the first host only.
#[test]
fn included_handler_that_ran_once_for_failed_hosts_is_pending_on_none() {
    let tasks = "    - {shell: 'true', notify: once}\n    - shell: 'false'\n";
    for (more, file, ran) in [
        ("", "- shell: echo once >> FOLDER/log\n- debug: msg=end\n", "once"),
        (", loop: [1, 2]", "- shell: echo once >> FOLDER/log\n", "once once"),
        (", when: false", "- shell: echo once >> FOLDER/log\n", ""),
    ] {
        let handler = format!("  handlers:\n    - {{name: once, include_tasks: inc.yml, run_once: true{more}}}\n");
        let project = Project::new(&(head("  force_handlers: true\n") + tasks + &handler));
        project.write("inc.yml", file);
        project.play(&[]).ends(2);
        assert_eq!(project.lines("log").join(" "), ran, "{more}");
        project.play(&["--check"]).lacks("have not run");
    }
    let handler = "  handlers:\n    - {name: once, include_tasks: inc.yml, run_once: true}\n";
    let project = Project::new(&(head("  force_handlers: true\n") + tasks + handler));
    project.write("inc.yml", "- shell: 'false'\n");
    project.play(&[]).ends(2);
    project.play(&["--check"]).has("have not run").has("b: 'once'");
}

/// The handlers of a failed host run before the one that resumes it repeats the task that failed.
#[test]
fn handler_that_ran_on_a_failed_host_is_run_again_only_if_it_is_notified_again() {
    let handlers = "  handlers:\n    - {name: plain, shell: echo plain >> FOLDER/log}\n    - {name: inc, include_tasks: inc.yml}\n    \
                    - {name: good, shell: echo good >> FOLDER/log, listen: topic}\n    \
                    - {name: bad, shell: test -e FOLDER/mended && echo bad >> FOLDER/log, listen: topic}\n";
    let notifies = |names: &str| format!("    - {{shell: 'true', notify: [{names}]}}\n");
    let flushes = "    - block:\n        - {shell: 'true', notify: plain}\n        - command: test -e FOLDER/mended\n      always:\n        - meta: flush_handlers\n";
    let force = "  force_handlers: true\n";
    for (play, tasks, first, second) in [
        (force, notifies("plain, inc") + &until("mended"), "plain inc", ""),
        ("  force_handlers: true\n  strategy: free\n", notifies("plain, inc") + &until("mended"), "plain inc", ""),
        (force, notifies("plain, inc") + &until("mended") + &notifies("inc"), "plain inc", "inc"),
        (force, notifies("plain, topic") + &until("mended"), "plain good", "bad"),
        ("", flushes.to_owned(), "plain", ""),
    ] {
        let project = Project::new(&(head(play) + &tasks + handlers));
        project.write("hosts", "a ansible_connection=local\n");
        project.write("inc.yml", "- shell: echo inc >> FOLDER/log\n- debug: msg=end\n");
        project.play(&[]).ends(2);
        assert_eq!(project.lines("log").join(" "), first, "{play}{tasks}");
        project.write("mended", "");
        project.play(&["--resume"]).ends(0);
        assert_eq!(project.lines("log").join(" "), format!("{first} {second}").trim_end(), "{play}{tasks}");
        project.play(&["--check"]).lacks("have not run");
    }
}

#[test]
fn handler_without_an_outcome_on_a_failed_host_runs_again() {
    let handler = "  handlers:\n    - name: slow\n      shell: 'echo slow >> FOLDER/log; if [ -e FOLDER/block ]; then touch FOLDER/reached; sleep 60; fi'\n";
    let play = head("  force_handlers: true\n") + "    - {shell: 'true', notify: slow}\n" + &until("mended") + handler;
    let project = Project::new(&play);
    project.write("hosts", "a ansible_connection=local\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    project.write("mended", "");
    project.play(&["--resume"]).ends(0);
    assert_eq!(project.lines("log"), ["slow", "slow"]);
}

/// The handler ran before a task that was stopped and may have changed something.
#[test]
fn doubtful_handler_that_ran_before_is_run_by_the_one_that_resumes() {
    let stops = "    - shell: 'if [ -e FOLDER/block ]; then touch FOLDER/reached; sleep 60; fi'\n      changed_when: false\n      notify: plain\n";
    let tasks = "    - {shell: 'true', notify: plain}\n    - meta: flush_handlers\n".to_owned() + stops;
    let handler = "  handlers:\n    - {name: plain, shell: echo plain >> FOLDER/log}\n";
    let project = Project::new(&(head("") + &tasks + handler));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    fs::remove_file(project.path("block")).unwrap();
    project.play(&["--resume"]).ends(0);
    assert_eq!(project.lines("log"), ["plain", "plain"]);
    project.play(&["--check"]).lacks("have not run");
}

/// A host chooses the names of the handlers to notify.
#[test]
fn names_in_notify_from_a_result_are_bounded_and_only_handlers_of_the_play_are_doubtful() {
    let chosen = "    - {shell: 'printf \"%05000d\\n\" 0; seq -f name-%g 5000; echo restart', register: out, changed_when: false}\n    \
                  - shell: 'if [ -e FOLDER/block ]; then touch FOLDER/reached; sleep 60; fi'\n      notify: \"{{ out.stdout_lines }}\"\n";
    let project = Project::new(&handlers(chosen, ""));
    project.write("hosts", "a ansible_connection=local\n");
    project.write("ansible.cfg", "[defaults]\nerror_on_missing_handler = false\n");
    project.write("block", "");
    project.killed_at("reached", "-KILL", &[]);
    let ledger = || {
        let mut entries = fs::read_dir(project.path("state/windlass/handlers")).unwrap();
        fs::read_to_string(entries.next().unwrap().unwrap().path()).unwrap()
    };
    assert_eq!(ledger().lines().count(), 1, "{}", ledger());
    assert!(ledger().contains("\"handler\":\"restart\""), "{}", ledger());
    fs::remove_file(project.path("block")).unwrap();
    let ran = project.play(&["--pending-handlers", "skip"]);
    ran.ends(0).has("000... (3976 bytes more)' was not found").has("has 4901 more names; they are left out");
    assert_eq!(project.lines("log"), ["blocks a", "restart a"]);
    assert!(ledger().lines().all(|line| line.len() < 2000), "{}", ledger());
    assert!(project.journal().len() < 300_000, "{}", project.journal().len());
}

/// The journal is small, although no text of the result is large.
#[test]
fn result_that_is_large_as_a_whole_is_withheld_and_its_task_runs_again() {
    let tasks = "    - set_fact: {big: \"{{ ['x' * 1000] * 2000 }}\", kept: \"{{ ['y' * 1000] * 500 }}\"}\n    \
                 - set_fact: {kept: \"{{ ['y' * 1000] * 500 }}\"}\n"
        .to_owned()
        + &until("mended")
        + "    - shell: echo {{ big | length }} {{ kept | length }} >> FOLDER/log\n";
    let project = Project::new(&(head("") + &tasks));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(2);
    let journal = project.journal();
    assert!((500_000..1_000_000).contains(&journal.len()), "{}", journal.len());
    assert_eq!(journal.matches("\"withheld\":\"size\"").count(), 1);
    project.write("mended", "");
    project.play(&["--resume"]).ends(0).has("runs again: its result is too large for the journal");
    assert_eq!(project.lines("log"), ["2000 500"]);
}

/// No reader of JSON accepts so many levels.
#[test]
fn result_and_arguments_that_nest_deeply_are_withheld_and_the_journal_stays_readable() {
    let nest = |levels: usize, inner: &str| format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels));
    let tasks = format!(
        "    - set_fact: {{half: \"{{{{ {} }}}}\"}}\n    - set_fact: {{deep: \"{{{{ {} }}}}\"}}\n    - debug: {{msg: \"{{{{ deep }}}}\"}}\n{}    \
         - shell: echo {{{{ deep | length }}}} >> FOLDER/log\n",
        nest(70, "1"),
        nest(70, "half"),
        until("mended"),
    );
    let project = Project::new(&(head("") + &tasks));
    project.write("hosts", "a ansible_connection=local\n");
    project.play(&[]).ends(2);
    assert!(project.journal().contains("\"withheld\":\"depth\""), "{}", project.journal());
    project.run(&["runs"]).ends(0).has("failed (2)").lacks("unreadable");
    project.run(&["runs", "show", "--host", "a"]).ends(0).has("its result nests too deeply for the journal");
    project.run(&["runs", "show", "--host", "nobody"]).ends(5).has("has no result of `nobody`");
    project.run(&["runs", "show", "--task", "nothing"]).ends(5).has("no task of the run");
    project.write("mended", "");
    project.play(&["--resume"]).ends(0).has("runs again: its result nests too deeply for the journal");
    assert_eq!(project.lines("log"), ["1"]);
}

#[test]
fn name_of_a_host_that_is_too_long_for_the_journal_is_refused() {
    for (task, problem) in [
        ("add_host: {name: \"{{ 'h' * 2000 }}\"}", "the name of the new host has 2000 bytes, and 1024 are the most"),
        (
            "command: id\n      delegate_to: \"{{ 'h' * 2000 }}\"",
            "the name in delegate_to has 2000 bytes, and 1024 are the most",
        ),
    ] {
        let project = Project::new(&(head("") + "    - " + task + "\n"));
        project.write("hosts", "a ansible_connection=local\n");
        project.play(&[]).ends(2).has(problem);
        assert!(project.journal().lines().all(|line| line.len() < 8000), "{}", project.journal());
    }
}

/// Number of the first line of a trace, from another one on, that has all these words.
#[track_caller]
fn traced(trace: &str, from: usize, words: &[&str]) -> usize {
    let found = trace.lines().skip(from).position(|line| words.iter().all(|word| line.contains(word)));
    from + found.unwrap_or_else(|| panic!("no {words:?} from line {from} on:\n{trace}"))
}

/// Otherwise a crash of the machine loses the file with the notifications, whatever was flushed into it.
#[test]
fn folder_of_the_ledgers_is_flushed_before_a_new_ledger_has_a_notification() {
    if !windlass_testing::has_all(&["root", "strace"]) {
        return;
    }
    let handler = "  handlers:\n    - {name: restart, shell: 'true'}\n";
    let project = Project::new(&(head("") + "    - {shell: 'true', notify: restart}\n" + &until("mended") + handler));
    project.write("hosts", "a ansible_connection=local\n");
    let trace = || {
        let program = project.command(&["playbook", "-i", "hosts", "play.yml"]);
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "-qq", "-y", "-o", "trace", "-e", "trace=mkdir,openat,fsync,fdatasync,rename,write"]);
        crate::ran::wrap(command.args(["-s", "64"]).stdin(std::process::Stdio::null()), &program);
        crate::ran::Ran::of(&command.output().unwrap()).ends(2);
        fs::read_to_string(project.path("trace")).unwrap()
    };
    let first = trace();
    let folder = traced(&first, 0, &["mkdir(", "windlass/handlers\""]);
    traced(&first, folder, &["fsync(", "/windlass>"]);
    let ledger = traced(&first, folder, &["openat(", "windlass/handlers/", "O_CREAT"]);
    let flushed = traced(&first, ledger, &["fsync(", "windlass/handlers>"]);
    let noted = traced(&first, 0, &["write(", "windlass/handlers/", "notified"]);
    assert!(flushed < noted, "{flushed} {noted}\n{first}");
    // A damaged line has it replaced.
    let ledger = fs::read_dir(project.path("state/windlass/handlers")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&ledger).unwrap();
    fs::write(&ledger, text + "garbage\n").unwrap();
    let second = trace();
    let replaced = traced(&second, 0, &["rename(", "windlass/handlers/"]);
    let flushed = traced(&second, replaced, &["fsync(", "windlass/handlers>"]);
    assert!(flushed < traced(&second, replaced, &["write(", "windlass/handlers/", "notified"]), "{second}");
}
