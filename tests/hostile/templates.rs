//! Data that looks like a template or an expression, in every place where a playbook may use data.

use serde_json::{Value, json};

use super::stage::{Case, EVIL, EVIL_EXPRESSION, tasks};

/// The liar's answer to everything: hostile text in every place of a result.
fn evil() -> Value {
    json!({
        "changed": true, "stdout": EVIL, "stderr": EVIL, "msg": EVIL, "cmd": EVIL, "rc": 0,
        "stdout_lines": [EVIL, EVIL_EXPRESSION], "expression": EVIL_EXPRESSION, "conditions": [EVIL_EXPRESSION, "true"],
        "name": format!("x'] ~ {EVIL_EXPRESSION} ~ hostvars['liar"), "map": {EVIL: EVIL}, "warnings": [EVIL], "deprecations": [{"msg": EVIL}],
        "ansible_facts": {"evil": EVIL, "expression": EVIL_EXPRESSION, "ansible_hostname": EVIL, "pkg_mgr": EVIL, "service_mgr": EVIL,
            "os_family": EVIL, "distribution": EVIL, "ansible_pkg_mgr": EVIL, "ansible_service_mgr": EVIL, "ansible_system": EVIL}
    })
}

/// A task after the one whose hostile result is `r`.
fn used(name: &'static str, task: &str) -> Case {
    Case {
        name,
        results: json!({"*": evil()}),
        playbook: tasks(&format!("    - command: anything\n      register: r\n{task}")),
        codes: &[0, 2],
        ..Case::default()
    }
}

/// All places.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        used("shown_by_debug_msg", "    - debug: msg=\"{{ r.stdout }} {{ r.map }} {{ r.stdout_lines }}\"\n"),
        used("shown_by_debug_var", "    - debug: var=r\n"),
        used("name_of_debug_var", "    - debug: var=\"{{ r.stdout }}\"\n"),
        used("expression_of_debug_var", "    - debug: var=\"{{ r.expression }}\"\n"),
        used("quoted_name_of_debug_var", "    - debug: var=\"hostvars['{{ r.name }}']\"\n"),
        used("key_of_hostvars", "    - debug: msg=\"{{ hostvars[r.stdout] | default('none') }}\"\n"),
        used("debug_var_in_arguments_as_a_whole", "    - debug: \"{{ {'var': r.expression} }}\"\n"),
        used(
            "variable_of_hostvars",
            "    - debug: msg=\"{{ hostvars.liar.r.stdout }} {{ hostvars['liar']['r']['msg'] }}\"\n",
        ),
        used("conditions_of_assert", "    - assert: {that: \"{{ r.stdout_lines }}\"}\n"),
        used("condition_of_assert", "    - assert: {that: [\"{{ r.expression }}\"]}\n"),
        used("message_of_assert", "    - assert: {that: [false], fail_msg: \"{{ r.stdout }}\"}\n"),
        used("when_as_a_template", "    - command: x\n      when: \"{{ r.expression }}\"\n"),
        used("when_as_a_variable", "    - command: x\n      when: r.expression\n"),
        used(
            "until_as_a_template",
            "    - command: x\n      until: \"{{ r.expression }}\"\n      retries: 1\n      delay: 0\n",
        ),
        used("changed_when_as_a_template", "    - command: x\n      changed_when: \"{{ r.conditions }}\"\n"),
        used("failed_when_as_a_template", "    - command: x\n      failed_when: \"{{ r.conditions }}\"\n"),
        used("loop", "    - debug: msg=\"{{ item }}\"\n      loop: \"{{ r.stdout_lines }}\"\n"),
        used("with_items", "    - debug: msg=\"{{ item }}\"\n      with_items: \"{{ r.stdout_lines }}\"\n"),
        used("with_dict", "    - debug: msg=\"{{ item.key }}{{ item.value }}\"\n      with_dict: \"{{ r.map }}\"\n"),
        used(
            "with_lines",
            "    - debug: msg=\"{{ item }}\"\n      with_lines: \"echo '{{ r.expression | replace(\\\"'\\\", '') }}'\"\n",
        ),
        used(
            "label_of_a_loop",
            "    - debug: msg=x\n      loop: [1]\n      loop_control: {label: \"{{ r.stdout }}\"}\n",
        ),
        used(
            "set_fact",
            "    - set_fact: {kept: \"{{ r.stdout }}\", \"k_{{ r.rc }}\": \"{{ r.map }}\"}\n    - debug: msg=\"{{ kept }} {{ k_0 }}\"\n",
        ),
        used(
            "set_fact_of_a_list",
            "    - set_fact: {kept: [\"{{ r.stdout }}\", \"x{{ r.stdout }}\"]}\n    - debug: msg=\"{{ kept | join(' ') }}\"\n",
        ),
        used(
            "vars",
            "    - debug: msg=\"{{ one }} {{ two }}\"\n      vars: {one: \"{{ r.stdout }}\", two: \"{{ one }}x\"}\n",
        ),
        used("include_tasks", "    - include_tasks: \"{{ r.stdout }}\"\n"),
        used("include_vars", "    - include_vars: \"{{ r.stdout }}\"\n"),
        used("include_role", "    - include_role: {name: \"{{ r.stdout }}\"}\n"),
        // As in ansible-core, an unknown handler ends the run.
        Case { codes: &[1], ..used("notify", "    - command: x\n      notify: \"{{ r.stdout }}\"\n") },
        used("name_of_a_task", "    - name: \"a task {{ r.stdout }}\"\n      debug: msg=x\n"),
        used(
            "delegate_to",
            "    - command: x\n      delegate_to: \"{{ r.stdout }}\"\n      ignore_unreachable: true\n",
        ),
        used("environment", "    - command: x\n      environment: {A: \"{{ r.stdout }}\"}\n"),
        used("become_user", "    - command: x\n      become: true\n      become_user: \"{{ r.stdout }}\"\n"),
        used("tags_and_timeout", "    - command: x\n      timeout: \"{{ r.stdout }}\"\n"),
        used(
            "arguments",
            "    - command: \"{{ r.stdout }}\"\n    - shell: \"{{ r.stdout }}\"\n      args: {chdir: \"{{ r.stdout }}\"}\n",
        ),
        used(
            "arguments_as_a_whole",
            "    - command: \"{{ r.map }}\"\n    - debug: \"{{ {'msg': r.stdout, 'var': r.expression} }}\"\n",
        ),
        used("copy_content", "    - copy: {content: \"{{ r.stdout }}\", dest: /tmp/never}\n"),
        used("template", "    - template: {src: page.j2, dest: /tmp/never}\n      vars: {page: \"{{ r.stdout }}\"}\n"),
        used(
            "lookup_of_data",
            "    - debug: msg=\"{{ lookup('vars', 'kept', default=r.stdout) }} {{ lookup('items', r.stdout_lines) }} {{ q('list', r.stdout) }}\"\n",
        ),
        used("lookup_template_of_data", "    - debug: msg=\"{{ lookup('template', r.stdout) }}\"\n"),
        used("lookup_named_by_data", "    - debug: msg=\"{{ lookup(r.stdout) }}\"\n"),
        used(
            "filters",
            "    - debug: msg=\"{{ [r, r] | map(attribute='stdout') | list }} {{ r.expression | from_yaml }} {{ r.map | dict2items }} {{ r | to_json | from_json }} {{ r.stdout_lines | map('upper') | list }} {{ r.stdout ~ r.stdout }} {{ '%s' | format(r.stdout) }}\"\n",
        ),
        used(
            "add_host",
            "    - add_host: {name: \"{{ r.stdout }}\", groups: \"{{ r.stdout }}\", x: \"{{ r.stdout }}\"}\n    - debug: msg=\"{{ hostvars.values() | map(attribute='x', default='') | list }}\"\n",
        ),
        used("group_by", "    - group_by: {key: \"{{ r.stdout }}\"}\n    - debug: msg=\"{{ groups }}\"\n"),
        used(
            "fail_and_rescue",
            "    - block:\n        - fail: {msg: \"{{ r.stdout }}\"}\n      rescue:\n        - debug: msg=\"{{ ansible_failed_result.msg }}\"\n",
        ),
        used("set_stats", "    - set_stats: {data: {kept: \"{{ r.stdout }}\"}}\n"),
        used("pause", "    - pause: {seconds: 0, prompt: \"{{ r.stdout }}\"}\n"),
        used("meta_and_action", "    - action: \"{{ r.stdout }}\"\n"),
        used(
            "vars_lookup",
            "    - debug: msg=\"{{ vars[r.stdout] | default('none') }}{{ lookup('vars', r.stdout, default='none') }}\"\n",
        ),
        used("package", "    - package: {name: x}\n"),
        used("service", "    - service: {name: x}\n"),
    ];
    cases.extend(
        [
            ("facts_in_templates", "- hosts: liar\n  tasks:\n    - debug: msg=\"{{ ansible_facts }} {{ ansible_hostname }} {{ ansible_facts.evil }}\"\n"),
            ("facts_in_play_vars", "- hosts: liar\n  vars: {one: \"{{ ansible_hostname }}\", two: \"{{ one }}\"}\n  tasks:\n    - debug: msg=\"{{ two }}\"\n    - debug: var=two\n"),
            ("facts_of_another_host", "- hosts: liar\n  tasks:\n    - ping:\n- hosts: localhost\n  gather_facts: false\n  tasks:\n    - debug: msg=\"{{ hostvars['liar'].ansible_facts.evil }} {{ hostvars.liar.ansible_hostname }}\"\n    - debug: var=\"hostvars.liar.ansible_hostname\"\n"),
        ]
        .map(|(name, playbook)| Case {
            name,
            results: json!({"*": evil()}),
            playbook: playbook.to_owned(),
            codes: &[0, 2],
            ..Case::default()
        }),
    );
    cases
}
