//! Hostile frames: floods, oversized or unrequested answers, cut or endless streams, and terminal control sequences.

use serde_json::json;

use super::stage::{Case, tasks};

/// A mode that must fail its own host and nothing else.
fn fails(name: &'static str, mode: &'static str, codes: &'static [i32]) -> Case {
    Case { name, mode, codes, playbook: tasks("    - ping:\n    - ping:\n"), ..Case::default() }
}

/// A task with a content that the executor can request.
fn copy() -> String {
    tasks("    - copy: {src: large, dest: /tmp/never}\n")
}

/// All attacks.
pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            playbook: copy(),
            says: &["is excluded from this run", "asked for content 0 more often"],
            ..fails("200000_requests_for_content", "ask_for_content_200000_times", &[4])
        },
        Case { playbook: copy(), ..fails("content_that_is_not_there", "ask_for_content_that_is_not_there", &[2, 4]) },
        fails("content_of_a_task_without_any", "ask_for_content_that_is_not_there", &[2, 4]),
        fails("result_nested_50000_deep", "nested_lists", &[2, 4]),
        Case { says: &["more than 256 MiB of memory"], ..fails("frame_of_40_million_lists", "many_small_lists", &[4]) },
        Case {
            says: &["more warnings of this task are not shown"],
            ..fails("flood_of_warnings", "many_warnings", &[0])
        },
        Case {
            playbook: tasks("    - command: anything\n"),
            says: &["more warnings of this task are not shown"],
            ..fails("flood_of_waits_for_a_lock", "many_waits_for_a_lock", &[0])
        },
        Case {
            playbook: tasks("    - command: anything\n      timeout: 1\n"),
            options: &["--lock-timeout", "2"],
            says: &["in the expected time frame (1)"],
            ..fails("wait_for_a_lock_that_outlives_the_lock_timeout", "waits_for_a_lock_without_end", &[2])
        },
        Case {
            playbook: tasks(&"    - stat: {path: /}\n".repeat(25)),
            says: &["more warnings of this task are not shown"],
            ..fails("other_large_warnings_of_each_task", "another_large_warning", &[0])
        },
        Case {
            playbook: tasks(&"    - setup:\n".repeat(12)),
            memory: 800_000,
            says: &["what tasks registered and set for liar would take"],
            ..fails("other_large_facts_of_each_task", "another_large_fact", &[2])
        },
        Case {
            playbook: tasks(&format!(
                "{}    - debug: msg=\"{{% for name in range(20) %}}{{{{ lookup('vars', 'r' ~ name).stdout_lines | length }}}},{{% endfor %}}\"\n",
                (0..20).map(|name| format!("    - command: one\n      register: r{name}\n")).collect::<String>()
            )),
            // Up to 512 MiB wait for their tasks, beside what is registered.
            memory: 1_000_000,
            says: &["30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,30,"],
            ..fails("large_registered_output_of_each_task", "large_output", &[0])
        },
        Case {
            playbook: tasks("    - command: one\n    - command: two\n    - command: three\n    - command: four\n"),
            says: &["These came later and may have run too", "site.yml:6", "site.yml:7"],
            ..fails("end_before_the_answers_to_tasks_sent_ahead", "ends_after_three_sent_together", &[4])
        },
        fails("flood_of_output", "much_output", &[0, 2, 4]),
        Case { options: &["--live"], ..fails("flood_of_live_output", "much_output", &[0, 2, 4]) },
        Case {
            never_says: &["FORGED"],
            ..fails("answers_to_100000_requests_nobody_made", "answers_to_100000_others", &[0, 2, 4])
        },
        Case {
            never_says: &["FORGED"],
            options: &["-v"],
            ..fails("answers_before_the_question", "answers_ahead_of_the_question", &[0, 2, 4])
        },
        Case { never_says: &["FORGED"], options: &["-v"], ..fails("two_answers", "answers_twice", &[0, 2, 4]) },
        Case {
            playbook: tasks("    - ping:\n    - ping:\n    - ping:\n"),
            options: &["-v"],
            says: &["answer to"],
            ..fails("answers_under_each_others_ids", "swaps", &[0])
        },
        Case { never_says: &["was restarted"], ..fails("second_greeting_of_another_boot", "greets_again", &[0, 2, 4]) },
        Case { says: &["not asked for"], ..fails("file_nobody_asked_for", "sends_a_file", &[2, 4]) },
        Case {
            says: &["so nothing was written"],
            results: json!({"fetch": {"changed": true, "dest": "CANARY", "src": "/etc/shadow", "file": "CANARY", "path": "../../../CANARY",
                "source": "CANARY", "checksum": "0000000000000000000000000000000000000000", "size": 4}}),
            playbook: tasks("    - fetch: {src: /etc/hostname, dest: kept}\n"),
            ..fails("fetched_file_is_another", "sends_another_file", &[2])
        },
        Case {
            results: json!({"slurp": {"changed": false, "content": "AAAA====%%%", "encoding": "base65", "source": "CANARY"}}),
            playbook: tasks(
                "    - slurp: {src: /etc/hostname}\n      register: r\n    - debug: msg=\"{{ r.content | b64decode }}\"\n",
            ),
            ..fails("slurped_text_is_no_base64", "answer", &[0, 2])
        },
        Case {
            says: &["although none was sent before it"],
            ..fails("not_run_without_a_reason", "did_not_run_it", &[4])
        },
        Case {
            says: &["did not run a task that it has to run"],
            ..fails("refused_for_a_lost_executor_without_one", "refuses_for_a_lost_executor", &[4])
        },
        Case { never_says: &["\u{1b}[2J"], ..fails("become_failed_without_become", "did_not_become_anybody", &[2, 4]) },
        Case { says: &["over the limit"], ..fails("length_over_the_limit", "length_over_the_limit", &[4]) },
        fails("message_that_is_no_json", "no_json", &[4]),
        fails("message_that_is_no_text", "no_text", &[4]),
        fails("message_of_an_unknown_kind", "unknown_message", &[4]),
        Case { says: &["unreachable=1"], ..fails("end_within_a_frame", "ends_within_a_frame", &[4]) },
        Case { says: &["status 3"], ..fails("end_instead_of_an_answer", "ends", &[4]) },
        Case { says: &["was restarted while the task ran"], ..fails("restart_during_a_task", "restarts", &[4]) },
        Case {
            says: &["only git is allowed here", "status 128"],
            ..fails("forced_command_that_is_no_executor", "another_forced_command", &[4])
        },
        fails("begin_marker_of_a_login_shell", "fake_marker", &[0]),
        fails("64_mib_of_noise_of_a_login_shell", "endless_noise", &[0, 4]),
        fails("greeting_that_is_an_answer", "greets_with_an_answer", &[4]),
        fails("greeting_over_the_limit", "greets_with_a_giant", &[4]),
        Case {
            says: &["its greeting has an invalid size"],
            ..fails("greeting_of_100_mib", "greets_with_megabytes", &[4])
        },
        Case {
            playbook: tasks("    - ping:\n      timeout: 1\n"),
            ..fails("no_answer_to_a_task_with_a_timeout", "silence", &[2, 4])
        },
        Case { says: &["did not answer for 20 s"], ..fails("no_answer_at_all", "silence", &[4]) },
        Case {
            results: json!({"*": {"changed": false, "msg": "VISIBLE\u{1b}[2J\u{1b}]0;title\u{7}\rHIDDEN\u{202e}reversed\u{9b}31m\u{0}\u{8}\u{2066}",
                "stdout": "line\r\u{1b}[1A", "warnings": ["\u{1b}[2J\r\u{202e}"], "failed": false}}),
            playbook: tasks(
                "    - command: x\n      register: r\n    - debug: var=r\n    - debug: msg=\"{{ r.msg }}\"\n    - fail: msg=\"{{ r.msg }}\"\n",
            ),
            options: &["-v"],
            codes: &[2],
            says: &["VISIBLE"],
            never_says: &["\u{1b}", "\r", "\u{202e}", "\u{2066}", "\u{9b}", "\u{0}", "\u{8}"],
            ..fails("text_that_drives_the_terminal", "answer", &[2])
        },
    ]
}
