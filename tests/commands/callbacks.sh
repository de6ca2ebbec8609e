# Callbacks of ansible.posix; what changes from run to run is left out.
mkdir -p roles/r/tasks
printf '%s\n' '[web]' 'a' 'b' '[all:vars]' 'ansible_connection=local' > hosts
cat > roles/r/tasks/main.yml <<'END'
- name: Of a role
  ansible.builtin.debug: {msg: "{{ role_name }}"}
END
cat > site.yml <<'END'
- name: Callbacks
  hosts: web
  gather_facts: false
  roles: [r]
  tasks:
    - name: A command
      ansible.builtin.command: printf 'one\ntwo\n'
      changed_when: inventory_hostname == 'a'
      tags: module
    - ansible.builtin.debug: {msg: [one, {two: 3, "wörd": null}]}
      when: inventory_hostname == 'a'
    - name: A loop
      ansible.builtin.set_fact: {fact: "{{ item }}"}
      loop: [1, {a: b}]
      when: item != 1 or inventory_hostname == 'a'
    - ansible.builtin.include_tasks: included.yml
    - name: Hidden
      ansible.builtin.debug: {msg: secret}
      no_log: true
    - name: Notifies
      ansible.builtin.set_fact: {other: 1}
      changed_when: true
      notify: A handler
    - name: Statistics
      ansible.builtin.set_stats: {data: {made: 1}}
    - name: Ignored
      ansible.builtin.fail: {msg: "no\nway"}
      ignore_errors: true
    - name: The end of one
      ansible.builtin.fail: {msg: "the <end>"}
      when: inventory_hostname == 'b'
  handlers:
    - name: A handler
      ansible.builtin.debug: {msg: handled}
- hosts: a
  gather_facts: false
  tasks:
    - ansible.builtin.ping:
      tags: module
END
echo '- ansible.builtin.debug: {msg: inside}' > included.yml
cat > free.yml <<'END'
- name: Free
  hosts: web
  gather_facts: false
  strategy: free
  tasks:
    - ansible.builtin.include_tasks: included.yml
      loop: [1, 2]
      when: item != 1 or inventory_hostname == 'a'
    - name: Notifies
      ansible.builtin.debug: {msg: "{{ inventory_hostname }}"}
      changed_when: true
      notify: A handler
  handlers:
    - name: A handler
      ansible.builtin.debug: {msg: handled}
- name: Batches
  hosts: web
  gather_facts: false
  serial: 1
  tasks:
    - name: In batches
      ansible.builtin.debug: {msg: "{{ inventory_hostname }}"}
END

steady() {
    sed -E -e 's/"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"/"ID"/' \
        -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z?/MOMENT/g' -e 's/\b0:00:0[0-9]\.[0-9]+/SPAN/g' \
        -e 's/^[A-Z][a-z]+day [0-9]+ [A-Z][a-z]+ [0-9]+ .*/NOW/' -e 's/[0-9]+ (days|hours|minutes|seconds)/N \1/g' -e 's/\r//' \
        -e 's/-+ +[0-9.]+s *$/- TIME/'
}
play() {
    echo "$ $*"
    env ANSIBLE_FORKS=1 ANSIBLE_DEPRECATION_WARNINGS=false "$@" ansible-playbook -i hosts "${playbook:-site.yml}" 2> /dev/null
    echo "rc=$?"
}
# The end of what is printed, from that banner on.
end() { sed -n "/^$1 RECAP/,\$p"; }

# Results of modules also say how they were called, which Windlass leaves out.
# So it does with what the engine notes for itself in items, and with tracebacks.
play ANSIBLE_STDOUT_CALLBACK=ansible.posix.json ANSIBLE_SKIP_TAGS=module | steady |
    sed -E -e '/"_ansible_item_label": \{/,/\}/d' -e '/"_ansible_item_label"|^ {36}"_ansible_no_log"|"exception"/d'
compact() { steady | sed -E -e 's/\{"_ansible_item_label":(\{[^}]*\}|[^,]*),"_ansible_no_log":false,/{/g' -e 's/"exception":"(\\.|[^"\\])*",//g'; }
play ANSIBLE_STDOUT_CALLBACK=ansible.posix.jsonl ANSIBLE_SKIP_TAGS=module | compact
play ANSIBLE_STDOUT_CALLBACK=ansible.posix.jsonl ANSIBLE_SHOW_CUSTOM_STATS=true ANSIBLE_JSON_INDENT=2 ANSIBLE_SKIP_TAGS=module | steady |
    sed -n '/v2_playbook_on_stats/,$p'
# The order of hosts is up to the engine.
playbook=free.yml play ANSIBLE_STDOUT_CALLBACK=ansible.posix.jsonl | compact | sort
playbook=free.yml play ANSIBLE_STDOUT_CALLBACK=ansible.posix.jsonl | grep -o '"id":"[^"]*"' | sort | uniq -c | sed 's/"id.*//' | sort
play ANSIBLE_STDOUT_CALLBACK=ansible.posix.debug | sed '/^\[ERROR\]/,/^fatal: /{/^fatal: /!d}' | steady
play ANSIBLE_CALLBACKS_ENABLED=ansible.posix.timer | end PLAY | steady
play ANSIBLE_CALLBACKS_ENABLED=ansible.posix.profile_tasks | sed '/^\[ERROR\]/,/^fatal: /{/^fatal: /!d}' | grep -v '^ok\|^changed\|^skipping\|^ \|^}' | sed '/^TASKS RECAP/q' | steady
play ANSIBLE_CALLBACKS_ENABLED=ansible.posix.profile_tasks PROFILE_TASKS_SORT_ORDER=none | end TASKS | steady
play ANSIBLE_CALLBACKS_ENABLED=ansible.posix.profile_tasks PROFILE_TASKS_SORT_ORDER=none PROFILE_TASKS_TASK_OUTPUT_LIMIT=2 PROFILE_TASKS_SUMMARY_ONLY=true | end TASKS | steady
play ANSIBLE_CALLBACKS_ENABLED=ansible.posix.profile_roles PROFILE_ROLES_SUMMARY_ONLY=true | end ROLES | steady | sort
play ANSIBLE_CALLBACKS_ENABLED=ansible.posix.timer,ansible.posix.profile_tasks,ansible.posix.profile_roles PROFILE_TASKS_SORT_ORDER=none | end PLAY | steady | grep -v -- '- TIME'
