//! Results that claim effects only the controller's own actions may have: hosts, groups, variables, facts, statistics,
//! censoring.

use serde_json::{Value, json};

use super::stage::{Case, tasks};

/// Runs a command on the liar, then shows the state of another host and tries to use it.
const TAKE_OVER: &str = "- hosts: liar\n  gather_facts: false\n  tasks:\n    - command: anything\n      register: r\n      failed_when: false\n    \
     - debug:\n        msg: \"connection={{ hostvars.good.ansible_connection | default('ssh') }}, hosts={{ groups.all | length }}, groups={{ groups | length }}\"\n\
     - hosts: all:!liar\n  gather_facts: false\n  ignore_unreachable: true\n  tasks:\n    - command: touch CANARY\n";

/// The liar's result of `command`, with the playbook above.
fn take_over(name: &'static str, result: Value) -> Case {
    Case {
        name,
        results: json!({"command": result}),
        playbook: TAKE_OVER.to_owned(),
        codes: &[0, 4],
        says: &["connection=ssh, hosts=2, groups=2"],
        ..Case::default()
    }
}

/// A result that would run the host's next command on the controller.
fn local() -> Value {
    json!({"ansible_connection": "local", "ansible_ssh_common_args": "-o ProxyCommand='touch CANARY'"})
}

/// Connection variables that would make the host's next task run a command on the controller.
fn hooks() -> Value {
    json!({
        "ansible_connection": "local",
        "ansible_ssh_common_args": "-o ProxyCommand='touch CANARY'",
        "ansible_ssh_extra_args": "-o ProxyCommand='touch CANARY'",
        "ansible_host": "evil.example",
        "ansible_ssh_args": "-o ProxyCommand='touch CANARY'",
        "ansible_python_interpreter": "touch CANARY;",
        "ansible_interpreter_python_fallback": ["touch CANARY;"],
        "ansible_doas_exe": "touch CANARY;",
        "ansible_sudo_exe": "touch CANARY;",
        "ansible_su_flags": "; touch CANARY;",
        "discovered_interpreter_python": "touch CANARY;",
        "ansible_shell_executable": "touch CANARY",
        "ansible_become": true,
        "ansible_become_exe": "touch CANARY;",
        "ansible_become_method": "su",
        "ansible_become_user": "{{ lookup('pipe', 'touch CANARY') }}",
        "ansible_remote_tmp": "$(touch CANARY)",
        "ansible_async_dir": "$(touch CANARY)",
        "ansible_delegated_vars": {"good": {"ansible_connection": "local"}}
    })
}

fn read_back(name: &'static str, result: Value, says: &'static [&'static str]) -> Case {
    let playbook = tasks(
        "    - command: anything\n      register: r\n    - debug:\n        msg: \"owned={{ owned | default('nothing') }} read={{ read | default('nothing') }} \
         fact={{ ansible_facts.kept | default('nothing') }} connection={{ ansible_connection | default('ssh') }} \
         host={{ ansible_host }} r={{ r.kept | default('nothing') }}\"\n    - command: anything\n",
    );
    Case { name, results: json!({"command": result}), playbook, says, ..Case::default() }
}

fn facts(name: &'static str, module: &'static str, result: Value) -> Case {
    let playbook = format!(
        "- hosts: liar\n  gather_facts: {}\n  tasks:\n    - {}:\n      register: r\n    - debug:\n        msg: \"kept={{{{ ansible_facts.kept | default('nothing') }}}} \
         host={{{{ ansible_host }}}} connection={{{{ ansible_connection | default('ssh') }}}}\"\n    - command: anything\n      register: second\n    \
         - debug:\n        msg: \"again={{{{ second.changed }}}}\"\n",
        module == "setup",
        if module == "setup" { "ping" } else { module },
    );
    Case {
        name,
        results: json!({module: result, "*": {"changed": false}}),
        playbook,
        says: &["host=127.0.0.1 connection=ssh", "again=False"],
        ..Case::default()
    }
}

/// A host of `add_host` whose `variable` is the liar's output, reached with SSH arguments that put it into a command.
fn named_for_a_shell(name: &'static str, variable: &str, arguments: &str) -> Case {
    Case {
        name,
        results: json!({"command": {"changed": true, "stdout": "x`touch${IFS}CANARY`"}}),
        playbook: format!(
            "- hosts: liar\n  gather_facts: false\n  tasks:\n    - command: anything\n      register: r\n    - add_host:\n        \
             name: named\n        groups: [new]\n        {variable}: \"{{{{ r.stdout }}}}\"\n        \
             ansible_ssh_common_args: \"{arguments}\"\n- hosts: new\n  gather_facts: false\n  tasks:\n    - ping:\n"
        ),
        codes: &[4],
        says: &["is refused as the name of a"],
        ..Case::default()
    }
}

/// All attacks.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        take_over(
            "result_with_add_host_rewrites_another_host",
            json!({"changed": true, "add_host": {"host_name": "good", "groups": ["all"], "host_vars": local()}}),
        ),
        take_over(
            "result_with_add_host_adds_a_host",
            json!({"changed": true, "add_host": {"host_name": "third", "groups": ["webservers"], "host_vars": local()}}),
        ),
        take_over(
            "result_with_add_group_moves_hosts",
            json!({"changed": true, "add_group": "good", "parent_groups": ["all", "webservers"]}),
        ),
        take_over(
            "item_result_with_add_host",
            json!({"changed": true, "results": [{"add_host": {"host_name": "good", "host_vars": local()}}],
                   "add_host": {"host_name": "good", "host_vars": local()}}),
        ),
        take_over(
            "unreachable_result_with_add_host",
            json!({"unreachable": false, "failed": false, "add_host": {"host_name": "good", "host_vars": local()}}),
        ),
        read_back(
            "result_with_included_var_files_reads_templates",
            json!({"changed": true, "kept": "yes", "ansible_included_var_files": ["evil.yml"]}),
            &["owned=nothing read=nothing", "r=yes"],
        ),
        read_back(
            "result_with_include_vars_name_reads_files_of_the_controller",
            json!({"changed": true, "kept": "yes", "ansible_included_var_files": ["evil.yml", "/etc/passwd"], "_include_vars_name": "all"}),
            &["owned=nothing read=nothing", "r=yes"],
        ),
        read_back(
            "result_with_internal_keys",
            json!({"changed": true, "kept": "yes", "_windlass_origins": {"kept": "written"}, "_windlass_merge": true,
                   "_windlass_not_run": true, "_windlass_unknown": true, "_ansible_no_log": true, "_ansible_facts_cacheable": true,
                   "_ansible_item_label": "x", "_ansible_delegated_vars": {"ansible_host": "evil.example"}, "_ansible_parsed": false}),
            &["r=yes"],
        ),
        Case {
            name: "result_with_no_log_hides_itself",
            results: json!({"command": {"changed": true, "msg": "VISIBLE", "_ansible_no_log": true, "censored": "gone"}}),
            playbook: tasks("    - command: anything\n"),
            options: &["-v"],
            says: &["VISIBLE"],
            ..Case::default()
        },
        Case {
            name: "result_with_stats_writes_custom_stats",
            results: json!({"command": {"changed": true, "ansible_stats": {"data": {"FORGED": 1}, "per_host": false, "aggregate": true}}}),
            playbook: tasks("    - command: anything\n"),
            never_says: &["CUSTOM STATS", "RUN: {"],
            ..Case::default()
        },
        Case {
            name: "facts_choose_no_program_that_becomes_a_user",
            results: json!({"setup": {"ansible_facts": hooks()}}),
            playbook: "- hosts: liar\n  tasks:\n    - command: whoami\n      connection: local\n      become: true\n      \
                       become_method: doas\n      ignore_errors: true\n"
                .to_owned(),
            codes: &[0, 4],
            ..Case::default()
        },
        Case {
            name: "host_named_by_an_answer_fetches_into_its_own_folder",
            results: json!({"command": {"changed": true, "stdout": "CANARY"}, "fetch": {"failed": true, "msg": "not reached"}}),
            playbook: "- hosts: liar\n  gather_facts: false\n  tasks:\n    - command: anything\n      register: r\n    - add_host:\n        \
                       name: \"{{ r.stdout }}\"\n        groups: [new]\n- hosts: new\n  gather_facts: false\n  connection: local\n  tasks:\n    \
                       - fetch: {src: /etc/hostname, dest: kept}\n"
                .to_owned(),
            codes: &[2],
            says: &["cannot be the name of a folder below dest"],
            ..Case::default()
        },
        named_for_a_shell("host_named_by_an_answer_reaches_no_proxy_command", "ansible_host", "-F none -o ProxyCommand='cat %h %p'"),
        named_for_a_shell("host_named_by_an_answer_reaches_no_match_exec", "ansible_host", "-F {{ playbook_dir }}/ssh_config"),
        named_for_a_shell("user_named_by_an_answer_reaches_no_proxy_command", "ansible_user", "-F none -o ProxyCommand='cat %r %p'"),
        named_for_a_shell("user_named_by_an_answer_reaches_no_match_exec", "ansible_user", "-F {{ playbook_dir }}/ssh_config"),
        facts("gathered_facts_set_no_connection", "setup", json!({"ansible_facts": hooks()})),
        facts("facts_of_a_module_set_no_connection", "service_facts", json!({"ansible_facts": hooks()})),
        facts(
            "facts_within_facts_set_no_connection",
            "setup",
            json!({"ansible_facts": {"ansible_facts": hooks(), "kept": "yes", "ansible_local": {"x": hooks()}}}),
        ),
        Case {
            name: "connection_fact_of_a_local_name",
            results: json!({"setup": {"ansible_facts": {"ansible_hostname": "good", "ansible_fqdn": "localhost", "inventory_hostname": "good",
                "inventory_hostname_short": "good", "hostvars": {}, "groups": {"all": []}, "omit": "x", "playbook_dir": "/", "role_path": "/",
                "ansible_check_mode": true, "ansible_play_hosts": ["good"], "environment": ["x"], "vars": {}}}}),
            playbook: "- hosts: liar\n  tasks:\n    - debug:\n        msg: \"me={{ inventory_hostname }} all={{ groups.all | length }} check={{ ansible_check_mode }} \
                hosts={{ ansible_play_hosts | join(',') }} vars={{ hostvars | length }}\"\n"
                .to_owned(),
            says: &["me=liar all=2 check=False hosts=liar vars=2"],
            ..Case::default()
        },
        Case {
            name: "set_fact_of_a_result_with_connection_variables_is_refused_or_data",
            results: json!({"command": {"changed": true, "ansible_facts": {"ansible_connection": "local"}, "r": hooks()}}),
            playbook: tasks("    - command: anything\n      register: r\n    - command: touch CANARY\n"),
            ..Case::default()
        },
        Case {
            name: "job_status_with_effects",
            results: json!({
                "async_status": {"finished": 1, "started": 1, "changed": true, "add_host": {"host_name": "good", "host_vars": hooks()},
                    "ansible_included_var_files": ["evil.yml"], "ansible_facts": hooks(), "ansible_job_id": "{{ 1234 * 4321 }}", "results_file": "CANARY"},
                "command": {"started": 1, "finished": 0, "ansible_job_id": "../../{{ 1234 * 4321 }}", "results_file": "CANARY"}
            }),
            playbook: TAKE_OVER.replace("      register: r\n", "      register: r\n      async: 30\n      poll: 1\n"),
            // The result shows the job's id, which is data.
            says: &["connection=ssh, hosts=2, groups=2"],
            ..Case::default()
        },
    ];
    let shapes = [
        ("result_that_is_text", json!("ok")),
        ("result_that_is_a_list", json!([{"changed": true}])),
        ("result_that_is_a_number", json!(1)),
        ("result_that_is_true", json!(true)),
        ("result_that_is_null", Value::Null),
    ];
    cases.extend(shapes.map(|(name, result)| Case {
        name,
        results: json!({"*": result}),
        codes: &[2],
        says: &["failed=1"],
        ..Case::default()
    }));
    let strange = [
        (
            "flags_that_are_no_booleans",
            json!({"changed": {"a": 1}, "failed": [], "skipped": "{{ 1234 * 4321 }}", "rc": "x", "msg": {"a": ["b"]}, "warnings": 7}),
        ),
        (
            "warnings_of_every_shape",
            json!({"warnings": [1, null, {"a": "b"}, ["c"], "d"], "deprecations": "x", "exception": 5, "diff": "no diff", "invocation": []}),
        ),
        (
            "keys_of_every_shape",
            json!({"": 1, "\u{0}": 2, "a.b": 3, "__class__": 4, "results": "no list", "stdout": [1], "stdout_lines": "x", "stderr_lines": 5}),
        ),
        (
            "diff_of_every_shape",
            json!({"changed": true, "diff": [{"before": 1, "after": [2]}, {"before_header": {}, "after": null}, 5, "x"]}),
        ),
    ];
    cases.extend(strange.map(|(name, result)| Case {
        name,
        results: json!({"*": result}),
        playbook: tasks("    - command: anything\n      register: r\n    - debug: var=r\n    - command: anything\n      loop: [1, 2]\n"),
        options: &["-v", "--diff"],
        codes: &[0, 2],
        never_says: &["Traceback"],
        ..Case::default()
    }));
    cases
}
