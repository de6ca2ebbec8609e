//! Hints of errors in playbooks: the playbook that causes one, and the same as the hint advises.

use super::Case;

/// A playbook that is refused, and its correction.
macro_rules! mended {
    ($bad:expr, $says:expr, $good:expr $(,)?) => {
        Case {
            setup: &[("p.yml", $bad)],
            fails: "windlass playbook -i hosts p.yml",
            says: $says,
            mended: &[("p.yml", $good)],
            then: &["windlass playbook -i hosts p.yml"],
        }
    };
}

/// The same, inside the tasks of a play.
macro_rules! tasks {
    ($bad:literal, $says:literal, $good:literal) => {
        mended!(
            concat!("- hosts: all\n  gather_facts: false\n  tasks:\n", $bad),
            $says,
            concat!("- hosts: all\n  gather_facts: false\n  tasks:\n", $good),
        )
    };
}

/// The same, in the keywords of a play.
macro_rules! play {
    ($bad:literal, $says:literal, $good:literal) => {
        mended!(
            concat!("- hosts: all\n  gather_facts: false\n", $bad),
            $says,
            concat!("- hosts: all\n  gather_facts: false\n", $good),
        )
    };
}

pub(crate) const CASES: &[Case] = &[
    Case {
        setup: &[("playbooks/remove_node.yml", "- hosts: all\n  gather_facts: false\n")],
        fails: "windlass playbook -i hosts remove-node.yml",
        says: "is `playbooks/remove_node.yml` meant?",
        mended: &[],
        then: &["windlass playbook -i hosts playbooks/remove_node.yml"],
    },
    mended!(
        "- hosts: ''\n  tasks: []\n",
        "a play needs the pattern of the hosts it runs on",
        "- hosts: all\n  gather_facts: false\n",
    ),
    mended!("- hosts: [1]\n", "quote names that are numbers", "- hosts: ['1', all]\n  gather_facts: false\n"),
    mended!("[]\n", "a playbook starts with `- hosts: ...`", "- hosts: all\n  gather_facts: false\n"),
    mended!("hosts: all\n", "a playbook starts with `- hosts: ...`", "- hosts: all\n  gather_facts: false\n"),
    play!(
        "  vars: {1a: x}\n",
        "use letters, digits and `_`, with no digit first, and neither `not` nor a word for true, false or null",
        "  vars: {a1: x}\n"
    ),
    play!(
        "  module_defaults: '{{ x }}'\n",
        "only the arguments may be templates",
        "  vars: {x: y}\n  module_defaults: {debug: {msg: '{{ x }}'}}\n  tasks:\n    - debug:\n"
    ),
    tasks!(
        "    - debug: msg=x\n      loop: [1]\n      loop_control: '{{ x }}'\n",
        "only its values may be templates",
        "    - debug: msg=x\n      loop: [1]\n      loop_control: {label: '{{ item }}'}\n"
    ),
    tasks!(
        "    - include_tasks: t.yml\n      environment: {A: b}\n",
        "put it under `apply:` of include_tasks to give it to the included tasks",
        "    - include_tasks: {file: t.yml, apply: {environment: {A: b}}}\n"
    ),
    tasks!(
        "    - include_tasks: {file: t.yml, apply: 1}\n",
        "`apply` must be a mapping of keywords to values",
        "    - include_tasks: {file: t.yml, apply: {environment: {A: b}}}\n"
    ),
    tasks!(
        "    - import_tasks: {file: t.yml, apply: {environment: {A: b}}}\n",
        "keywords of an import apply to everything it imports; `apply` is for includes of tasks",
        "    - import_tasks: t.yml\n      environment: {A: b}\n"
    ),
    tasks!(
        "    - include_role: {name: r, tasks_from: [a]}\n",
        "it is the name of one file of the role",
        "    - include_role: {name: r, tasks_from: main}\n"
    ),
    tasks!(
        "    - import_tasks: endless-import.yml\n",
        "for recursion use include_tasks or include_role, with a condition that ends it",
        "    - include_tasks: recursion.yml\n"
    ),
    tasks!(
        "    - include_tasks: endless.yml\n",
        "a file that includes itself needs a condition that ends it",
        "    - include_tasks: recursion.yml\n"
    ),
    tasks!(
        "    - include_tasks: mapping.yml\n",
        "mapping.yml holds a value of another kind: a mapping",
        "    - include_tasks: t.yml\n"
    ),
    tasks!("    - import_tasks: nowhere.yml\n", "searched in /", "    - import_tasks: t.yml\n"),
    tasks!(
        "    - import_tasks: '{{ file_of_host }}'\n",
        "imports are read before any host is known: only extra variables, variables of the play, its files, enclosing \
         blocks and roles, and variables of the whole run are available; include_tasks and include_role can use all \
         variables",
        "    - include_tasks: '{{ file_of_host }}'\n    - include_role: {name: '{{ role_of_host }}'}\n"
    ),
    play!("  roles: [nowhere]\n", "searched in /", "  roles: [r]\n"),
    play!(
        "  roles: ['r,a=1']\n",
        "a role with parameters is a mapping: `role: NAME`, and its parameters as further keys",
        "  roles: [{role: r, a: 1}]\n"
    ),
    play!(
        "  handlers:\n    - block:\n        - block:\n            - debug: msg=x\n",
        "give each task of it a name, or let them `listen` to one topic",
        "  tasks:\n    - command: 'true'\n      notify: [topic, name]\n  handlers:\n    - name: name\n      debug: msg=x\n    \
         - listen: topic\n      debug: msg=x\n"
    ),
    play!(
        "  handlers:\n    - import_role: {name: r}\n",
        "put the tasks of the role among its own handlers",
        "  roles: [r]\n  tasks:\n    - command: 'true'\n      notify: handler of r\n"
    ),
    tasks!(
        "    - debug: msg=x\n      loop: [1]\n      with_items: [2]\n",
        "a task can have only one `loop` or `with_...`",
        "    - debug: msg=x\n      with_items: [2]\n"
    ),
    play!(
        "  order: up\n",
        "use inventory, reverse_inventory, sorted, reverse_sorted or shuffle",
        "  order: reverse_sorted\n  tasks: [debug: ]\n- {hosts: all, gather_facts: false, order: shuffle}\n- {hosts: all, \
         gather_facts: false, order: inventory}\n- {hosts: all, gather_facts: false, order: reverse_inventory}\n- {hosts: \
         all, gather_facts: false, order: sorted}\n"
    ),
    tasks!(
        "    - debug:\n      debugger: sometimes\n",
        "use always, never, on_failed, on_unreachable or on_skipped",
        "    - debug:\n      debugger: never\n    - debug:\n      debugger: on_failed\n    - debug:\n      debugger: \
         on_unreachable\n    - debug:\n      debugger: on_skipped\n"
    ),
    tasks!(
        "    - ping:\n      become: true\n      become_method: none\n",
        "there are sudo, su, doas",
        "    - debug:\n      become: true\n      become_method: su\n"
    ),
    play!(
        "  module_defaults: {'group/{{ x }}': {}}\n",
        "name a group of an installed collection as `group/NAMESPACE.COLLECTION.GROUP`; its name cannot be a template",
        "  module_defaults: {group/aws: {}}\n"
    ),
    tasks!(
        "    - debug: msg=x\n      when: \"'x'\"\n",
        "Compare the value, or convert it with the filter `bool`.",
        "    - debug: msg=x\n      when: \"'x' == 'x'\"\n    - debug: msg=x\n      when: \"'yes' | bool\"\n"
    ),
    // YAML.
    play!("  vars: {x: =}\n", "Put it in quotes: \"=\".", "  vars: {x: \"=\"}\n"),
    play!(
        "  vars: {x: !vault [a]}\n",
        "Write `!vault |` and the lines of ciphertext below it, indented.",
        "  vars:\n    x: !vault |\n      $ANSIBLE_VAULT;1.1;AES256\n      3031\n"
    ),
    play!("  vars: {x: !!int abc}\n", "If text is meant, put it in quotes.", "  vars: {x: \"abc\"}\n"),
    play!(
        "---\n- hosts: all\n",
        "Remove the extra `---` line or move what follows to a file of its own.",
        "- hosts: all\n  gather_facts: false\n"
    ),
    Case {
        setup: &[("v.json", "{\"a\": [1, 2}\n")],
        fails: "windlass playbook -i hosts right.yml -e @v.json",
        says: "It is not JSON either: expected `,` or `]` at line 1 column 12.",
        mended: &[("v.json", "{\"a\": [1, 2]}\n")],
        then: &["windlass playbook -i hosts right.yml -e @v.json"],
    },
    Case {
        setup: &[],
        fails: "windlass playbook -i hosts ping.yml -K",
        says: "give it in a file: --become-password-file",
        mended: &[],
        then: &["windlass playbook -i hosts ping.yml --become-password-file password"],
    },
    Case {
        setup: &[],
        fails: "windlass playbook -i hosts ping.yml -k",
        says: "give it in a file: --connection-password-file",
        mended: &[],
        then: &["windlass playbook -i hosts ping.yml --connection-password-file password"],
    },
    // Words at the wrong place, and words that Ansible replaced.
    tasks!(
        "    - debug:\n      msg: x\n",
        "`msg` is an option of `debug`: indent it below `debug:`",
        "    - debug:\n        msg: x\n"
    ),
    play!(
        "  debug: msg=x\n",
        "`debug` is a module: put it into a task of the list `tasks`",
        "  tasks:\n    - debug: msg=x\n"
    ),
    play!("  tasks:\n    debug: msg=x\n", "begin each task with `- `", "  tasks:\n    - debug: msg=x\n"),
    tasks!("    - ping:\n      sudo: true\n", "use `become`", "    - ping:\n      become: false\n"),
    tasks!("    - ping:\n      sudo_user: root\n", "use `become_user`", "    - ping:\n      become_user: root\n"),
    // The nearest name, for each kind of name.
    tasks!(
        "    - ansible.builtin.debgu: msg=x\n",
        "did you mean `ansible.builtin.debug`?",
        "    - ansible.builtin.debug: msg=x\n"
    ),
    tasks!("    - debgu: msg=x\n", "did you mean `debug`?", "    - debug: msg=x\n"),
    tasks!("    - debug: msg=x\n      wehn: true\n", "did you mean `when`?", "    - debug: msg=x\n      when: true\n"),
    tasks!(
        "    - file:\n        pth: /\n        state: directory\n",
        "did you mean `path`?",
        "    - file:\n        path: /\n        state: directory\n"
    ),
    tasks!("    - meta: nop\n", "did you mean `noop`?", "    - meta: noop\n"),
    tasks!("    - debug:\n      with_itmes: [1]\n", "did you mean `items`?", "    - debug:\n      with_items: [1]\n"),
    tasks!(
        "    - debug:\n      loop: [1]\n      loop_control: {lable: x}\n",
        "did you mean `label`?",
        "    - debug:\n      loop: [1]\n      loop_control: {label: x}\n"
    ),
    tasks!(
        "    - command: 'true'\n      notify: restrat\n  handlers:\n    - name: restart\n      debug:\n",
        "did you mean `restart`?",
        "    - command: 'true'\n      notify: restart\n  handlers:\n    - name: restart\n      debug:\n"
    ),
    tasks!(
        "    - ping:\n      loop: [1]\n      loop_control: {parallel: 2, pause: 1}\n",
        "leave out one of the two",
        "    - ping:\n      loop: [1]\n      loop_control: {parallel: 2}\n"
    ),
    tasks!(
        "    - debug:\n      loop: [1]\n      loop_control: {parallel: 2}\n",
        "`parallel` is for actions that work on a host; leave it out here",
        "    - debug:\n      loop: [1]\n"
    ),
    tasks!(
        "    - block: [debug: ]\n      loop: [1]\n      loop_control: {pause: 1}\n",
        "items of a block run one after the other; leave it out, or put it on a task of the block",
        "    - block: [debug: ]\n      loop: [1]\n"
    ),
    tasks!(
        "    - debug:\n  handlers:\n    - block: [{name: h, debug: }]\n      loop: [1]\n",
        "handlers are notified one by one: put the loop on each of them",
        "    - debug:\n  handlers:\n    - {name: h, debug: , loop: [1]}\n"
    ),
    tasks!(
        "    - include_tasks: {file: play.yml, apply: {loop: [1]}}\n",
        "put the loop on the include itself",
        "    - include_tasks: {file: \"{{ item }}\"}\n      loop: []\n"
    ),
    play!("  strategy: fre\n", "did you mean `free`?", "  strategy: free\n"),
    play!(
        "  vars_prompt: [{name: x, privat: false}]\n",
        "did you mean `private`?",
        "  vars_prompt: [{name: x, private: false, default: y}]\n"
    ),
];
