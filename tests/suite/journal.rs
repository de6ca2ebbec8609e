//! The journal and the ledgers of failed hosts, and of hosts that answer with more than can be read again.

use crate::resume::{Project, head};

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
