# The colours of the settings.
unset ANSIBLE_NOCOLOR
export ANSIBLE_FORCE_COLOR=1
cat > playbook.yml <<'END'
- hosts: h1
  connection: local
  gather_facts: no
  tasks:
    - command: echo
    - debug: msg=x
      when: false
    - debug: msg=x
    - include_tasks: more.yml
    - set_fact: {a: 1}
END
echo '[]' > more.yml
colours() { ansible-playbook -i h1, "$@" playbook.yml | sed -e 's/  *$//' -e 's,/.*/more.yml,more.yml,' | cat -v; }
colours
printf '[colors]\nchanged = rgb520\nok = bright blue\nskip = gray3\nincluded = color7\n' > ansible.cfg
ANSIBLE_COLOR_OK=white colours
ANSIBLE_COLOR_VERBOSE=magenta colours -v | grep Using
