//! Hints about runs: the journal, `--resume`, plans, and settings of a run.

use super::Case;

const fn case(fails: &'static str, says: &'static str, then: &'static [&'static str]) -> Case {
    Case { setup: FILES, fails, says, mended: &[], then }
}

/// `gate.yml` fails until the file `open` exists; `slow.yml` waits for it.
const FILES: &[(&str, &str)] = &[
    ("gate.yml", "- hosts: all\n  gather_facts: false\n  tasks:\n    - command: test -e open\n"),
    (
        "condition.yml",
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - fail:\n      when: lookup('pipe', 'ls') is not search('open')\n",
    ),
    (
        "slow.yml",
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - shell: 'test -e open || { touch began; exec sleep 600; }'\n",
    ),
    (
        "change.yml",
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - copy: {content: '{{ x | default(1) }}', dest: made}\n",
    ),
    (
        "notify.yml",
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - command: 'true'\n      notify: h\n  handlers:\n    - name: h\n      \
         debug:\n",
    ),
    ("free.yml", "- hosts: all\n  strategy: free\n  gather_facts: false\n  tasks: [{debug: }]\n"),
    (
        "asks.yml",
        "- hosts: all\n  gather_facts: false\n  vars_prompt: [{name: word}]\n  tasks: [{debug: {var: word}}]\n",
    ),
    (
        "start-slow",
        "env --default-signal=INT windlass playbook -i hosts slow.yml > slow.log 2>&1 &\necho $! > slow.pid\nuntil test -e began; \
         do sleep 0.1; done\n",
    ),
];

pub(crate) const CASES: &[Case] = &[
    // Several processes.
    case(
        "WINDLASS_SHARDS=2 windlass playbook -i hosts free.yml",
        "run in one process with `--shards 1`",
        &["WINDLASS_SHARDS=2 windlass playbook -i hosts free.yml --shards 1"],
    ),
    case(
        "windlass playbook -i hosts asks.yml --shards 2",
        "give the answer with `-e word=...`",
        &["windlass playbook -i hosts asks.yml --shards 2 -e word=x"],
    ),
    // The journal.
    case(
        "windlass playbook -i hosts notify.yml; for file in .local/state/windlass/handlers/*.jsonl; do rm $file; mkdir $file; \
         done; windlass playbook -i hosts notify.yml",
        "set WINDLASS_JOURNAL_DIR to another directory, or use --no-journal",
        &[
            "WINDLASS_JOURNAL_DIR=$PWD/other windlass playbook -i hosts notify.yml",
            "windlass playbook -i hosts notify.yml --no-journal",
        ],
    ),
    case(
        "windlass playbook -i hosts notify.yml; flock --no-fork -x .local/state/windlass/handlers/*.jsonl sleep 100 & echo $! > \
         pid; sleep 1; windlass playbook -i hosts notify.yml",
        "try again once that run has started",
        &["kill $(cat pid); windlass playbook -i hosts notify.yml"],
    ),
    case(
        "env -u HOME -u XDG_STATE_HOME windlass playbook -i hosts right.yml",
        "set WINDLASS_JOURNAL_DIR, or use --no-journal",
        &[
            "env -u HOME -u XDG_STATE_HOME WINDLASS_JOURNAL_DIR=$PWD/other windlass playbook -i hosts right.yml",
            "env -u HOME -u XDG_STATE_HOME windlass playbook -i hosts right.yml --no-journal",
        ],
    ),
    case(
        "XDG_STATE_HOME=$PWD/right.yml windlass playbook -i hosts right.yml",
        "set WINDLASS_JOURNAL_DIR to a directory of yours, or use --no-journal",
        &[
            "XDG_STATE_HOME=$PWD/right.yml WINDLASS_JOURNAL_DIR=$PWD/other windlass playbook -i hosts right.yml",
            "XDG_STATE_HOME=$PWD/right.yml windlass playbook -i hosts right.yml --no-journal",
        ],
    ),
    case(
        "windlass playbook -i hosts gate.yml -e x=1; windlass report --html out.html",
        "write to a file with --output: `windlass report --output out.html`",
        &["windlass report --output out.html && grep -qi '<html' out.html"],
    ),
    case(
        "windlass playbook -i hosts gate.yml -e x=1; windlass report --output out.pdf",
        "end the name in .html, .md, .json or .xml, or give --format",
        &["windlass report --output out.html", "windlass report --output out.pdf --format html"],
    ),
    case("windlass runs show 20200101T000000-0000", "`windlass runs --all` lists all runs", &["windlass runs --all"]),
    case(
        "windlass explain when right.yml here debug -i hosts --run 20200101T000000-0000",
        "`windlass runs --all` lists all runs",
        &["windlass runs --all"],
    ),
    case(
        "windlass playbook -i hosts right.yml; windlass explain when ping.yml here ping -i hosts --run $(windlass runs | \
         sed -n 2p | cut -d' ' -f1)",
        "`windlass runs` lists the runs with their playbooks",
        &[
            "windlass runs | grep right.yml",
            "windlass explain when right.yml here debug -i hosts --run $(windlass runs | sed -n 2p | cut -d' ' -f1)",
        ],
    ),
    case(
        "windlass playbook -i hosts right.yml; windlass explain when right.yml other debug -i other, --run $(windlass runs | \
         sed -n 2p | cut -d' ' -f1)",
        "give the inventory of the run with -i",
        &["windlass explain when right.yml here debug -i hosts --run $(windlass runs | sed -n 2p | cut -d' ' -f1)"],
    ),
    case(
        "windlass explain when here right.yml debug -i hosts",
        "name the playbook before the host",
        &["windlass explain when right.yml here debug -i hosts"],
    ),
    case(
        "windlass explain when right.yml here 'Deploy it' -i hosts",
        "`windlass playbook PLAYBOOK --list-tasks` lists the tasks",
        &["windlass playbook -i hosts right.yml --list-tasks"],
    ),
    // Repeating.
    case(
        "windlass playbook -i hosts right.yml; mkdir other; cd other; windlass report --format markdown",
        "give the id of a run; `windlass runs --all` lists all runs",
        &[
            "cd other; windlass report --format markdown $(windlass runs --all | grep -o '[0-9]\\{8\\}-[0-9]\\{6\\}-[0-9a-f]*' | head -n 1)",
        ],
    ),
    case(
        "windlass playbook -i hosts gate.yml -e x=1; touch open; windlass runs rerun",
        "repeat the command with its values",
        &["windlass playbook -i hosts gate.yml -e x=1"],
    ),
    case(
        "sh start-slow; kill -9 $(cat slow.pid); touch open; windlass runs rerun --failed 2>&1 | tee said",
        "continue it with `windlass playbook -i hosts slow.yml --resume",
        &["$(grep -o 'windlass playbook .* --resume [0-9a-f-]*' said)"],
    ),
    case(
        "echo '<odd> ansible_connection=local' > odd; windlass playbook -i odd gate.yml; touch open; windlass runs rerun --failed",
        "repeat the command with a --limit of your own",
        &["windlass playbook -i odd gate.yml --limit '<odd>'"],
    ),
    case(
        "for i in $(seq 600); do printf '%0200d ansible_connection=local\\n' $i; done > many; windlass playbook -i many \
         condition.yml > log; touch open; windlass runs rerun --failed",
        "write their names to a file, and repeat the command with `--limit @FILE`",
        &["cut -d ' ' -f 1 many > names; windlass playbook -i many condition.yml --limit @names > log"],
    ),
    // Resuming.
    case("windlass playbook -i hosts --resume", "`windlass runs --all` lists all runs", &["windlass runs --all"]),
    case(
        "windlass playbook -i hosts gate.yml --resume",
        "`windlass runs --all` lists all runs",
        &["windlass runs --all"],
    ),
    case(
        "windlass playbook -i hosts gate.yml || true; sed -i '2s/.*/damaged/' .local/state/windlass/runs/*.jsonl; touch open; \
         windlass playbook -i hosts gate.yml --resume",
        "the journal is damaged: run the playbook without --resume",
        &["windlass playbook -i hosts gate.yml"],
    ),
    case(
        "sh start-slow; windlass playbook -i hosts slow.yml --resume",
        "wait for its end, or interrupt it",
        &[
            "kill -INT $(cat slow.pid); while kill -0 $(cat slow.pid); do sleep 0.1; done; touch open; windlass playbook -i \
           hosts slow.yml --resume",
        ],
    ),
    case(
        "windlass playbook -i hosts right.yml; windlass playbook -i hosts right.yml --resume",
        "run the playbook without --resume",
        &["windlass playbook -i hosts right.yml"],
    ),
    case(
        "windlass playbook -i hosts gate.yml || touch open; WINDLASS_JOURNAL=false windlass playbook -i hosts gate.yml --resume",
        "set WINDLASS_JOURNAL=true",
        &["WINDLASS_JOURNAL=true windlass playbook -i hosts gate.yml --resume"],
    ),
    case(
        "windlass playbook -i hosts gate.yml || touch open; echo '# changed' >> gate.yml; windlass playbook -i hosts gate.yml \
         --resume",
        "run the playbook without --resume, or add --resume-anyway to ignore the differences",
        &["windlass playbook -i hosts gate.yml --resume --resume-anyway", "windlass playbook -i hosts gate.yml"],
    ),
    case(
        "windlass playbook -i hosts gate.yml; windlass playbook -i hosts gate.yml --resume; touch open; windlass playbook -i hosts \
         gate.yml --resume $(ls .local/state/windlass/runs | head -n 1 | cut -d. -f1) 2>&1 | tee said",
        "use `--resume",
        &["windlass playbook -i hosts gate.yml $(grep -o -e '--resume [0-9a-f-]*' said)"],
    ),
    case(
        "windlass playbook -i hosts gate.yml || touch open; windlass playbook -i hosts gate.yml --resume-anyway",
        "add --resume, or leave --resume-anyway out",
        &["windlass playbook -i hosts gate.yml --resume --resume-anyway", "windlass playbook -i hosts gate.yml"],
    ),
    // Plans.
    case(
        "windlass plan -i hosts change.yml --ask",
        "write a plan with -o, and run it with `windlass apply`",
        &["windlass plan -i hosts change.yml -o plan.json && windlass apply plan.json"],
    ),
    case(
        "windlass plan -i hosts change.yml -o plan.json; echo 2 > made; windlass apply plan.json",
        "make a new plan with `windlass plan -o FILE`",
        &["windlass plan -i hosts change.yml -o plan.json && windlass apply plan.json"],
    ),
    case(
        "windlass plan -i hosts change.yml -o plan.json; mkdir other; cd other; windlass apply ../plan.json",
        "change to that directory: configuration and relative paths depend on it",
        &["windlass apply plan.json"],
    ),
    case(
        "windlass plan -i hosts change.yml --vault-password-file password -o plan.json; windlass apply plan.json",
        "repeat it: windlass apply plan.json --vault-password-file ...",
        &["windlass apply plan.json --vault-password-file password"],
    ),
    case(
        "windlass plan -i hosts change.yml -o plan.json; windlass apply plan.json --vault-password-file password",
        "make a new plan with `windlass plan -o FILE`",
        &["windlass plan -i hosts change.yml --vault-password-file password -o plan.json && windlass apply plan.json \
           --vault-password-file password"],
    ),
    case(
        "echo '{}' > plan.json; windlass apply plan.json",
        "write a new plan with `windlass plan -o FILE`",
        &["windlass plan -i hosts change.yml -o plan.json && windlass apply plan.json"],
    ),
    // Settings.
    case(
        "ANSIBLE_STDOUT_CALLBACK=defualt windlass playbook -i hosts right.yml",
        "did you mean `default`?",
        &["ANSIBLE_STDOUT_CALLBACK=default windlass playbook -i hosts right.yml"],
    ),
    case("windlass adhoc -i hosts -m pign all", "did you mean `ping`?", &["windlass adhoc -i hosts -m ping all"]),
    Case {
        setup: &[("library/queue.sh", "#!/bin/sh\necho '{\"changed\": false}'\n")],
        fails: "windlass adhoc -i hosts -m queue all",
        says: "this directory has it in `library`; add `-M library`",
        mended: &[],
        then: &["windlass adhoc -i hosts -M library -m queue all"],
    },
    case(
        "windlass adhoc -i hosts -m ping all --playbook-dir nowhere",
        "it is the directory that contains group_vars, host_vars, roles and plugins",
        &["windlass adhoc -i hosts -m ping all --playbook-dir ."],
    ),
    case(
        "windlass playbook -i hosts right.yml --events 9",
        "open it for the command, such as `9>events.jsonl`; a file is named ./9",
        &[
            "windlass playbook -i hosts right.yml --events 9 9>events.jsonl && test -s events.jsonl",
            "windlass playbook -i hosts right.yml --events ./9 && test -s 9",
        ],
    ),
    case(
        "bash -c 'windlass playbook -i hosts right.yml --events 9 9<>/dev/udp/127.0.0.1/9'",
        "pass the end of a pipe, or a file",
        &[
            "windlass playbook -i hosts right.yml --events 9 9>&1 > /dev/null | grep -q run",
            "windlass playbook -i hosts right.yml --events 9 9>events.jsonl && test -s events.jsonl",
        ],
    ),
    case(
        "mkfifo pipe; windlass playbook -i hosts right.yml --events pipe",
        "start the reader of the pipe first",
        &["cat pipe > read & sleep 1; windlass playbook -i hosts right.yml --events pipe && wait && test -s read"],
    ),
];
