//! Hints of the verbs that reach no host.

use super::Case;

const fn case(fails: &'static str, says: &'static str, then: &'static [&'static str]) -> Case {
    Case { setup: FILES, fails, says, mended: &[], then }
}

const FILES: &[(&str, &str)] = &[
    ("plain", "text\n"),
    (
        "fails.yml",
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - fail: msg=x\n      when: again | default('yes') == 'yes'\n",
    ),
    // 30 tasks with similar names.
    (
        "make-many",
        "echo '- hosts: all'; echo '  tasks:'; for n in $(seq 30); do echo \"    - {name: task $n, debug: }\"; done",
    ),
    ("two", "one x=1\nother\n"),
    ("one.yml", "- hosts: one\n"),
    ("ansible.cfg", "[defaults]\nretry_files_enabled = true\n"),
    (
        "make-role",
        "mkdir -p role/meta role/tasks && echo 'galaxy_info: {author: x}' > role/meta/main.yml && echo '[]' > role/tasks/main.yml \
         && ln -sfn $1 role/link && tar czf role.tar.gz role\n",
    ),
];

/// Starts and ends a server with users.
const SERVES: &str = "windlass serve --listen 127.0.0.1:0 -i hosts --config serve.yml > out & pid=$!; \
                      until grep serving out; do sleep 0.1; done; kill $pid";

pub(crate) const CASES: &[Case] = &[
    case(
        "mkdir -p a/x b/x && cp hosts a/x && cp hosts b/x && windlass fleet -i a/x -i b/x inventory --list",
        "give one of them another name: `-i NAME=SOURCE`",
        &["windlass fleet -i a/x -i y=b/x inventory --list"],
    ),
    case(
        "cp hosts other; windlass fleet -i a=hosts -i other inventory --list",
        "keep each inventory in a folder of its own",
        &["mkdir a b && cp hosts a && mv other b && windlass fleet -i a -i b inventory --list"],
    ),
    case(
        "windlass fleet -i web1,web2 inventory --list",
        "give it a name: `-i NAME=SOURCE`",
        &["windlass fleet -i web=web1,web2 inventory --list"],
    ),
    case(
        "windlass fleet -i a=hosts windlass inventory --list",
        "write a command without `windlass`, such as `playbook playbooks/verify.yml`",
        &["windlass fleet -i a=hosts inventory --list"],
    ),
    case(
        "windlass playbook -i hosts secret.yml",
        "give one with --vault-password-file, --vault-id or --ask-vault-pass",
        &[
            "windlass playbook -i hosts secret.yml --vault-password-file password",
            "windlass playbook -i hosts secret.yml --vault-id password",
            // This one reads from a terminal.
            "windlass playbook --ask-vault-pass --help",
        ],
    ),
    case(
        "windlass vault encrypt plain --vault-id a@password --vault-id b@password --output -",
        "choose one with --encrypt-vault-id",
        &["windlass vault encrypt plain --vault-id a@password --vault-id b@password --encrypt-vault-id a --output -"],
    ),
    case(
        "windlass vault encrypt plain --output -",
        "give it in a file: --vault-password-file",
        &["windlass vault encrypt plain --vault-password-file password --output -"],
    ),
    case(
        "windlass vault encrypt plain --vault-password-file password --output sealed && windlass vault rekey sealed \
         --vault-password-file password",
        "give it in a file: --new-vault-password-file",
        &["windlass vault rekey sealed --vault-password-file password --new-vault-password-file plain"],
    ),
    case(
        "windlass vault encrypt_string --prompt --name x --vault-password-file password",
        "give it to the standard input: --stdin-name NAME",
        &["echo value | windlass vault encrypt_string --stdin-name x --vault-password-file password"],
    ),
    case(
        "windlass vault view secret.yml --vault-password-file password",
        "its `!vault` values are encrypted one by one; `windlass vault textconv` prints them decrypted",
        &["windlass vault textconv secret.yml --vault-password-file password | grep hidden"],
    ),
    case(
        "windlass vault create fresh --vault-password-file password",
        "with --skip-tty-check the editor starts nevertheless",
        &["windlass vault create fresh --vault-password-file password --skip-tty-check"],
    ),
    case("windlass doc", "use --list to see them all", &["windlass doc --list"]),
    case("windlass doc -t modul ping", "did you mean `module`?", &["windlass doc -t module ping"]),
    case(
        "windlass inventory -i hosts",
        "at least one of --host, --graph or --list",
        &[
            "windlass inventory -i hosts --list",
            "windlass inventory -i hosts --graph",
            "windlass inventory -i hosts --host here",
        ],
    ),
    case(
        "windlass galaxy role init made --init-path . && windlass galaxy role init made --init-path .",
        "You can use --force",
        &["windlass galaxy role init made --init-path . --force"],
    ),
    case(
        "sh make-role ../../outside && windlass galaxy role install -p roles file://$PWD/role.tar.gz",
        "links must stay inside of the role; nothing was installed",
        &["sh make-role tasks && windlass galaxy role install -p roles file://$PWD/role.tar.gz"],
    ),
    case(
        "windlass playbook -i hosts fails.yml",
        "to retry, use: --limit @",
        &["windlass playbook -i hosts fails.yml --limit @fails.retry -e again=no"],
    ),
    case(
        "windlass lint --rule zzzzqqqq right.yml",
        "`windlass lint --list-rules` shows them",
        &["windlass lint --list-rules"],
    ),
    case(
        "windlass config list -t nothing",
        "there are all, ",
        &["windlass config list -t all", "windlass config list -t callback"],
    ),
    case(
        "windlass init module Bad-Name",
        "use lower-case letters, digits and underscores, beginning with a letter",
        &["windlass init module good_name2"],
    ),
    case(
        "windlass init project made --host web1=127.0.0.1 && windlass init project made --host web1=127.0.0.1",
        "choose another directory, or move away what exists",
        &[
            "windlass init project other --host web1=127.0.0.1",
            "rm -r made; windlass init project made --host web1=127.0.0.1",
        ],
    ),
    case(
        "sh make-many > many.yml; windlass explain when many.yml here task -i hosts",
        "give the whole name of the task, or FILE:LINE",
        &[
            "windlass explain when many.yml here 'task 7' -i hosts",
            "windlass explain when many.yml here many.yml:3 -i hosts",
        ],
    ),
    case(
        "windlass explain host other --playbook one.yml -i two",
        "`windlass playbook --list-hosts` lists the hosts of plays",
        &[
            "windlass playbook --list-hosts -i two one.yml | grep one",
            "windlass explain host one --playbook one.yml -i two",
        ],
    ),
    case(
        "windlass explain var other x --playbook one.yml -i two",
        "`windlass playbook --list-hosts` lists the hosts of plays",
        &[
            "windlass playbook --list-hosts -i two one.yml | grep one",
            "windlass explain var one x --playbook one.yml -i two",
        ],
    ),
    case(
        "windlass explain var other x -i two",
        "the inventory sets it for one",
        &["windlass explain var one x -i two"],
    ),
    case(
        "windlass serve token ana > made; (echo users:; tail -n 1 made) > serve.yml; chmod 666 serve.yml; \
         windlass serve --listen 127.0.0.1:0 -i hosts --config serve.yml",
        "own it, and run `chmod go-w serve.yml`",
        &["chmod go-w serve.yml", SERVES],
    ),
    case(
        "echo 'users: []' > serve.yml; windlass serve --listen 127.0.0.1:0 -i hosts --config serve.yml",
        "`windlass serve token NAME` makes the line of a user",
        &["windlass serve token ana > made; (echo users:; tail -n 1 made) > serve.yml", SERVES],
    ),
    case(
        "echo 'users: [{name: ana, role: admin, token: x}]' > serve.yml; \
         windlass serve --listen 127.0.0.1:0 -i hosts --config serve.yml",
        "`windlass serve token ana` makes a token and its hash",
        &["windlass serve token ana > made; (echo users:; tail -n 1 made) > serve.yml", SERVES],
    ),
    case(
        "windlass serve token ana > made; (echo users:; tail -n 1 made) > serve.yml; \
         windlass serve --listen 127.0.0.1:0 -i hosts --config serve.yml --ask-vault-password",
        "give the password in a file, by --vault-password-file or --vault-id",
        &["windlass serve --listen 127.0.0.1:0 -i hosts --config serve.yml --vault-password-file password > out & \
           pid=$!; until grep serving out; do sleep 0.1; done; kill $pid"],
    ),
    // The servers.
    case(
        "windlass serve --listen 0.0.0.0:8470",
        "listen on 127.0.0.1, and reach it from elsewhere by `ssh -L 8470:127.0.0.1:8470 USER@MACHINE`",
        &["windlass serve --listen 127.0.0.1:0 > out & pid=$!; until grep serving out; do sleep 0.1; done; kill $pid"],
    ),
    case(
        "windlass serve --listen 127.0.0.1:0 > first & pid=$!; until grep -q serving first; do sleep 0.1; done; \
         windlass serve --listen $(sed -n 's,^serving at http://\\(.*\\)/.*,\\1,p' first); kill $pid",
        "take any free port with `--listen 127.0.0.1:0`",
        &["windlass serve --listen 127.0.0.1:0 > out & pid=$!; until grep serving out; do sleep 0.1; done; kill $pid"],
    ),
];
