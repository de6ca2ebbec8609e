# A repository that this machine fetches, and runs.
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c
export GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
git init --quiet --initial-branch=main repo
cat > repo/local.yml <<'END'
- hosts: localhost
  gather_facts: no
  tasks:
    - debug: msg="local {{ word | default('nothing') }} {{ ansible_check_mode }} {{ playbook_dir | basename }}"
      tags: one
    - debug: msg=two
      tags: two
END
echo '- {hosts: all, gather_facts: no, tasks: [{debug: {msg: "{{ inventory_hostname }} {{ from_file }}"}}]}' > repo/other.yml
printf '%s\n' 'machine ansible_connection=local from_file=here' > repo/hosts
echo '- {hosts: localhost, gather_facts: no, tasks: [{fail: {msg: no}}]}' > repo/failing.yml
git -C repo add . && git -C repo commit --quiet -m first && git -C repo tag v1
pull() { # without times, how things were called, this machine's name, and how errors are told
    show ansible-pull "$@" | sed 's/ | CHANGED .*/ | CHANGED/; s/quitting.*/quitting/' |
        grep -v -e '^Starting ' -e '^[^$]*ansible-pull ' -e '^\[WARNING\]: \(Could not match\|No host or\|No inventory\)' \
            -e '^\[ERROR\]: Task failed' -e '^Origin: ' -e "^{'action'" -e '^[0-9]* ' -e '^$' -e '\^ column' -e '^fatal: Could not' -e '^Please make' -e '^and the repo'
}
pull -U nowhere -d checkout | grep -v '^    "\|^}'
pull -U "file://$PWD/repo" -d checkout
pull -U "file://$PWD/repo" -d checkout -o
echo '- debug: msg=second' > repo/more.yml && git -C repo add . && git -C repo commit --quiet -m second
pull -U "file://$PWD/repo" -d checkout -o -t one -e word=given --check -C main
ls checkout/more.yml
pull -U "file://$PWD/repo" -d checkout -C v1 --skip-tags one --full
echo changed > checkout/hosts
pull -U "file://$PWD/repo" -d checkout | grep -v '^    "\|^}'
pull -U "file://$PWD/repo" -d checkout -f -t none | grep -v '^    "\|^}'
pull -U "file://$PWD/repo" -d checkout --clean -i hosts -l all other.yml
pull -U "file://$PWD/repo" -d checkout missing.yml
pull -U "file://$PWD/repo" -d checkout failing.yml
pull -U "file://$PWD/repo" -d checkout --purge local.yml -t two
ls
pull
pull -U x -m rsync
pull -U x -s soon
pull -U x -d repo/local.yml
