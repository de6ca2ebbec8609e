//! Pipelined tasks over a real sshd have the same outcome as tasks sent one at a time.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Sshd, available};
use regex::Regex;

/// Normalizes the parts of the output that differ between two equal runs.
fn normalised(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, replacement) in [
        (r#""(delta|start|end)": "[^"]*""#, "TIME"),
        (r"\bj\d+\.\d+\b", "JOB"),
        (r#""(child_pid|pid|atime|ctime|mtime|inode)": [\d.]+"#, "NUMBER"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, replacement).into_owned();
    }
    text
}

/// Runs a playbook with these tasks. Returns its output, the files in its folder, and the number of round trips.
fn outcome(tasks: &str, stream: &str) -> (String, Vec<(String, String)>, u64) {
    let sshd = Sshd::start("");
    let folder = sshd.path("work");
    fs::create_dir(&folder).unwrap();
    let inventory = format!(
        "web1 ansible_host=127.0.0.1 ansible_port={} ansible_user=root ansible_ssh_private_key_file={} folder={} \
         ansible_ssh_common_args='-F none -o UserKnownHostsFile={} -o StrictHostKeyChecking=accept-new' ansible_remote_tmp={}\n",
        sshd.port,
        sshd.path("id").display(),
        folder.display(),
        sshd.path("known_hosts").display(),
        sshd.path("remote").display()
    );
    fs::write(sshd.path("hosts"), inventory).unwrap();
    fs::write(sshd.path("play.yml"), format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["playbook", "-i", "hosts", "play.yml"])
        .current_dir(sshd.directory.path())
        .env("WINDLASS_STATISTICS", sshd.path("statistics"))
        .env("WINDLASS_STREAM", stream)
        .env("WINDLASS_LOCK", "ignore")
        .env("WINDLASS_FAILURES", "ansible")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let mut left: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    left.sort();
    let statistics = fs::read_to_string(sshd.path("statistics")).unwrap();
    let trips = statistics.split("round_trips: ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    let place = sshd.directory.path().display().to_string();
    let printed = printed.replace(&place, "PLACE");
    left.iter_mut().for_each(|(_, text)| *text = text.replace(&place, "PLACE"));
    (normalised(&printed), left, trips)
}

/// Round trips with and without pipelining, after checking that nothing else differs.
fn compared(tasks: &str) -> (u64, u64) {
    let (printed, left, trips) = outcome(tasks, "true");
    let (expected, expected_left, all_trips) = outcome(tasks, "false");
    assert_eq!(printed, expected);
    assert_eq!(left, expected_left);
    (trips, all_trips)
}

#[test]
fn loop_items_pipelined_in_order() {
    if !available() {
        return;
    }
    let (trips, all_trips) = compared(
        r#"    - lineinfile: {path: "{{ folder }}/list", line: "{{ item }}", create: true}
      loop: "{{ range(100) | list }}"
      register: lines
    - debug: {msg: "{{ lines.results | map(attribute='item') }}"}
"#,
    );
    // The first task opens the connection; the others share one wait.
    assert_eq!((trips, all_trips), (2, 100));
}

#[test]
fn failed_or_skipped_item_does_not_stop_others() {
    if !available() {
        return;
    }
    compared(
        r#"    - shell: "echo {{ item }} >> {{ folder }}/log; exit {{ item % 3 }}"
      loop: "{{ range(9) | list }}"
      when: item != 4
      failed_when: rc.rc == 2
      changed_when: rc.rc == 0
      register: rc
      ignore_errors: true
    - debug: {msg: "{{ rc.results | map(attribute='rc', default='none') }}"}
"#,
    );
}

#[test]
fn item_using_earlier_item_waits_for_it() {
    if !available() {
        return;
    }
    let (_, left, _) = outcome(
        r#"    - shell: "echo {{ (before.stdout | default(0) | int) + item }} | tee -a {{ folder }}/sums"
      loop: [1, 2, 3, 4]
      register: before
    - shell: "echo {{ sum }} | tee -a {{ folder }}/sums"
      vars: {sum: "{{ (later.stdout | default(0) | int) + item }}"}
      loop: [1, 2, 3, 4]
      register: later
"#,
        "true",
    );
    assert_eq!(left, [("sums".to_owned(), "1\n3\n6\n10\n1\n3\n6\n10\n".to_owned())]);
}

#[test]
fn become_and_project_files_pipelined() {
    if !available() {
        return;
    }
    let (trips, all_trips) = compared(
        r#"    - copy: {content: "{{ item }}", dest: "{{ folder }}/{{ item }}"}
      loop: "{{ range(20) | list }}"
    - command: "id -un"
      become: true
      become_user: nobody
      loop: "{{ range(20) | list }}"
"#,
    );
    assert_eq!((trips, all_trips), (4, 40));
}

/// Tasks that each create a file, so that completed ones are visible.
fn marks(from: u32, to: u32) -> String {
    (from..=to).map(|n| format!("    - command: touch {{{{ folder }}}}/{n:02}\n")).collect()
}

/// Output and files, which must not depend on pipelining, and the round trips with and without it.
fn checked(tasks: &str) -> (String, Vec<String>, (u64, u64)) {
    let (printed, left, trips) = outcome(tasks, "true");
    let (expected, expected_left, all_trips) = outcome(tasks, "false");
    assert_eq!(printed, expected);
    assert_eq!(left, expected_left);
    (printed, left.into_iter().map(|(name, _)| name).collect(), (trips, all_trips))
}

#[test]
fn independent_tasks_share_one_round_trip() {
    if !available() {
        return;
    }
    let tasks = format!(
        "{}    - copy: {{content: \"{{{{ folder }}}}\", dest: \"{{{{ folder }}}}/copy\"}}\n      register: copied\n    - debug: {{msg: here}}\n\
         \x20   - set_fact: {{a: 1}}\n    - stat: {{path: \"{{{{ folder }}}}\"}}\n      when: folder is defined\n{}",
        marks(1, 10),
        marks(11, 19)
    );
    let (_, left, trips) = checked(&tasks);
    assert_eq!(left.len(), 20);
    assert_eq!(trips, (2, 21));
}

#[test]
fn task_after_failed_task_not_run() {
    if !available() {
        return;
    }
    for failing in [
        "    - command: sh -c 'sleep 0.3; exit 3'\n",
        "    - file: {path: /proc/none, state: directory}\n",
        "    - shell: echo bad\n      register: out\n      failed_when: \"'bad' in out.stdout\"\n",
        "    - shell: echo bad\n      failed_when: true\n",
        "    - shell: echo bad\n      changed_when: nothing.here\n",
        "    - shell: echo bad\n      notify: nobody\n",
        "    - copy: {src: missing, dest: /tmp/x}\n",
        "    - command: echo {{ undefined }}\n",
        "    - debug: {msg: \"{{ undefined }}\"}\n",
        "    - assert: {that: 1 == 2}\n",
        "    - fail: {msg: no}\n",
    ] {
        let (printed, left, _) = checked(&(marks(1, 3) + failing + &marks(4, 9)));
        assert!(left.iter().all(|name| name.as_str() <= "03"), "{failing}: {left:?}\n{printed}");
    }
}

#[test]
fn task_skipped_by_ignored_failure_run_afterwards() {
    if !available() {
        return;
    }
    let tasks = marks(1, 3)
        + "    - command: sh -c 'exit 3'\n      ignore_errors: true\n"
        + &marks(4, 6)
        + "    - command: sh -c 'exit 4'\n      failed_when: false\n      register: last\n"
        + &marks(7, 9)
        + "    - debug: {var: last.rc}\n";
    assert_eq!(checked(&tasks).1.len(), 9);
}

#[test]
fn failure_leads_only_to_rescue_and_always() {
    if !available() {
        return;
    }
    let indented = |text: String| text.replace("    - ", "        - ");
    let tasks = format!(
        "{}    - block:\n{}        - command: sh -c 'exit 3'\n{}      rescue:\n{}        - debug: {{var: ansible_failed_result.rc}}\n      always:\n{}{}",
        marks(1, 2),
        indented(marks(3, 4)),
        indented(marks(5, 6)),
        indented(marks(7, 8)),
        indented(marks(9, 10)),
        marks(11, 12)
    );
    assert_eq!(checked(&tasks).1, ["01", "02", "03", "04", "07", "08", "09", "10", "11", "12"]);
}

#[test]
fn task_using_pending_result_waits_for_it() {
    if !available() {
        return;
    }
    let tasks = marks(1, 2)
        + r#"    - shell: "echo one >> {{ folder }}/log; cat {{ folder }}/log"
      register: first
    - shell: "echo two >> {{ folder }}/log"
    - shell: "echo {{ first.stdout }} three >> {{ folder }}/log"
    - set_fact: {said: "{{ first.stdout }} four"}
    - shell: "echo {{ said }} >> {{ folder }}/log"
      changed_when: false
    - command: touch {{ folder }}/never
      when: first is failed
    - shell: "echo {{ lookup('file', folder + '/log') | split | join(',') }} >> {{ folder }}/log"
    - copy: {src: "{{ folder }}/log", dest: "{{ folder }}/copy"}
    - command: "echo {{ hostvars[inventory_hostname].said }}"
      register: last
    - debug: {var: last.stdout}
"#;
    let (printed, left, _) = outcome(&tasks, "true");
    let log = "one\ntwo\none three\none four\none,two,one,three,one,four\n";
    assert_eq!(left.last().unwrap().1, log, "{printed}");
    assert_eq!(left.get(2).unwrap(), &("copy".to_owned(), log.to_owned()));
    checked(&tasks);
}

#[test]
fn become_handlers_and_no_log_stay_in_order() {
    if !available() {
        return;
    }
    checked(
        &(marks(1, 3)
            + r#"    - command: id -un
      become: true
      become_user: nobody
      register: who
    - command: id -un
      become: true
      become_user: nobody
    - command: id -un
    - debug: {var: who.stdout}
    - command: echo secret
      no_log: true
      register: hidden
    - command: echo shown
      notify: tell
    - meta: flush_handlers
    - command: echo {{ hidden.stdout }}
    - command: echo skipped
      when: false
      register: skipped
    - debug: {var: skipped.skipped}
    - command: echo last
      notify: tell
  handlers:
    - name: tell
      command: echo told
    - name: never
      command: echo never
"#),
    );
}

/// A deterministic sequence of pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Tasks of many kinds, in sequence and in blocks, some of which fail. Each completed task writes its number to a file.
fn some_tasks(numbers: &mut Numbers, next: &mut u32, depth: usize, indent: &str) -> String {
    let mut tasks = String::new();
    for _ in 0..numbers.below(6) + 2 {
        *next += 1;
        let n = *next;
        let before = numbers.below(u64::from(n)) + 1;
        let log = format!("echo {n} >> {{{{ folder }}}}/log");
        let command = match numbers.below(12) {
            0 if depth < 3 => {
                let inner = format!("{indent}    ");
                let mut block = format!("{indent}- block:\n{}", some_tasks(numbers, next, depth + 1, &inner));
                for part in ["rescue", "always"] {
                    if numbers.below(2) == 0 {
                        block += &format!("{indent}  {part}:\n{}", some_tasks(numbers, next, depth + 1, &inner));
                    }
                }
                tasks += &block;
                continue;
            }
            1 => format!("shell: \"{log}; exit 3\""),
            2 => format!("debug: {{msg: \"{{{{ r{before}.rc | default('none') }}}}\"}}"),
            3 => format!("set_fact: {{f{n}: \"{{{{ r{before} is defined }}}}\"}}"),
            4 => format!("shell: \"{log}; echo {{{{ f{before} | default(r{before}.stdout | default('nothing')) }}}}\""),
            5 => format!("lineinfile: {{path: \"{{{{ folder }}}}/lines\", line: \"{n}\", create: true}}"),
            6 => format!("copy: {{content: \"{n}\", dest: \"{{{{ folder }}}}/copy\"}}"),
            7 => format!("assert: {{that: r{before} is not failed, quiet: true}}"),
            _ => format!("shell: \"{log}; echo out{n}\""),
        };
        tasks += &format!("{indent}- {command}\n{indent}  register: r{n}\n");
        for (chance, keyword) in [
            (5, "ignore_errors: true".to_owned()),
            (6, format!("when: r{before} is not failed")),
            (8, "changed_when: false".to_owned()),
            (9, "failed_when: false".to_owned()),
            (20, format!("failed_when: \"'{n}' in r{n}.stdout | default('')\"")),
            (12, "become: true\n".to_owned() + indent + "  become_user: root"),
            (8, "notify: told".to_owned()),
            (12, "no_log: true".to_owned()),
            (14, "loop: [1, 2, 3]".to_owned()),
            (20, "until: true".to_owned()),
        ] {
            let is_twice =
                keyword.starts_with("failed_when") && tasks.rsplit("- ").next().unwrap().contains("failed_when");
            if numbers.below(chance) == 0 && !is_twice {
                tasks += &format!("{indent}  {keyword}\n");
            }
        }
    }
    tasks
}

#[test]
fn random_tasks_pipelined_have_same_outcome() {
    if !available() {
        return;
    }
    let count: u64 = std::env::var("STREAM_SEEDS").map_or(4, |count| count.parse().unwrap());
    let mut saved = 0;
    for seed in 0..count {
        let mut tasks = some_tasks(&mut Numbers(seed), &mut 0, 0, "    ");
        tasks += "  handlers:\n    - name: told\n      shell: \"echo told >> {{ folder }}/log\"\n";
        let (printed, left, trips) = outcome(&tasks, "true");
        let (expected, expected_left, all_trips) = outcome(&tasks, "false");
        assert!(
            printed == expected && left == expected_left,
            "{tasks}\n{printed}\n{left:?}\n---- and one by one:\n{expected}\n{expected_left:?}"
        );
        assert!(trips <= all_trips, "{tasks}");
        saved += all_trips - trips;
    }
    assert!(saved > 0, "nothing was sent ahead");
}

/// Runs recorded playbooks of `tests/playbooks.rs` over SSH; `STREAM_CASES` names others, or `all`.
#[test]
fn recorded_playbooks_pipelined_print_the_same() {
    if !available() {
        return;
    }
    let wanted = std::env::var("STREAM_CASES").unwrap_or_else(|_| "blocks handlers_failure no_log".to_owned());
    let sshd = Sshd::start("MaxStartups 100");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/playbooks");
    let mut differing = Vec::new();
    let (mut compared, mut saved) = (0, 0);
    for case in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        let name = case.file_name().unwrap().to_str().unwrap().to_owned();
        if !case.join("expected.txt").is_file()
            || (wanted != "all" && !wanted.split_whitespace().any(|wanted| wanted == name))
        {
            continue;
        }
        let runs = fs::read_to_string(case.join("runs")).unwrap_or_else(|_| "-i inventory playbook.yml".to_owned());
        for run in runs.lines() {
            let words = shell_words::split(run).unwrap();
            let mut runs = vec![words.clone()];
            if !words.iter().any(|word| word == "--limit" || word == "-l") {
                // Only hosts that are alone in their batch pipeline tasks.
                runs.push(words.into_iter().chain(["--limit".to_owned(), "all[0],localhost".to_owned()]).collect());
            }
            for words in runs {
                let (printed, trips) = over_ssh(&sshd, &case, &words, "true");
                let (expected, all_trips) = over_ssh(&sshd, &case, &words, "false");
                compared += 1;
                saved += all_trips - trips;
                if printed != expected {
                    differing.push(format!("{name}: {words:?}\n{printed}\n---- and one by one:\n{expected}"));
                }
            }
        }
    }
    assert!(differing.is_empty(), "{} of {compared} differ\n{}", differing.len(), differing.join("\n"));
    assert!(saved > 0 || wanted != "all", "nothing was sent ahead in {compared} runs");
}

/// Output of a recorded run with its hosts reached over SSH, and the round trips.
fn over_ssh(sshd: &Sshd, case: &Path, words: &[String], stream: &str) -> (String, u64) {
    let scratch = tempfile::tempdir().unwrap();
    let variables =
        words.iter().map_while(|word| word.split_once('=').filter(|(name, _)| *name == name.to_uppercase()));
    let reached = serde_json::json!({
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": sshd.port,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": sshd.path("id"),
        "ansible_ssh_common_args":
            format!("-F none -o UserKnownHostsFile={} -o StrictHostKeyChecking=accept-new", sshd.path("known_hosts").display()),
        "ansible_remote_tmp": sshd.path("remote"),
    });
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .arg("playbook")
        .args(words.iter().skip(variables.clone().count()))
        .args(["-e", &reached.to_string()])
        .current_dir(case)
        .env_remove("ANSIBLE_CONFIG")
        .env("WINDLASS_FAILURES", "ansible")
        .env("SCRATCH", scratch.path())
        .env("WINDLASS_JOURNAL_DIR", scratch.path().join("journal"))
        .env("WINDLASS_PENDING_HANDLERS", "skip")
        .env("WINDLASS_STATISTICS", scratch.path().join("statistics"))
        .env("WINDLASS_STREAM", stream)
        .env("WINDLASS_LOCK", "ignore")
        .env("ANSIBLE_FORKS", "1")
        .env("NO_COLOR", "1")
        .stdin(fs::File::open(case.join("stdin")).map_or_else(|_| Stdio::null(), Stdio::from))
        .envs(variables)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let printed = format!("{}\n{}", output.status, printed.replace(&scratch.path().display().to_string(), "SCRATCH"));
    let statistics = fs::read_to_string(scratch.path().join("statistics")).unwrap_or_default();
    let trips = statistics.split("round_trips: ").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok());
    (normalised(&printed), trips.unwrap_or_default())
}

#[test]
fn timings_show_one_round_trip_per_task() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let reached = format!(
        "ansible_host=127.0.0.1 ansible_port={} ansible_user=root ansible_ssh_private_key_file={} \
         ansible_ssh_common_args='-F none -o UserKnownHostsFile={} -o StrictHostKeyChecking=accept-new' ansible_remote_tmp={}",
        sshd.port,
        sshd.path("id").display(),
        sshd.path("known_hosts").display(),
        sshd.path("remote").display()
    );
    fs::write(sshd.path("hosts"), format!("web1 {reached}\n")).unwrap();
    let twenty = "    - command: \"true\"\n".repeat(20);
    let tasks = format!("{twenty}    - name: loop\n      command: \"true\"\n      loop: \"{{{{ range(50) }}}}\"\n");
    fs::write(sshd.path("play.yml"), format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let run = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["playbook", "-i", "hosts", "play.yml", "--timings", "--trace", "trace.json"])
            .args(more)
            .current_dir(sshd.directory.path())
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let table = printed.split("TIMINGS").nth(1).unwrap();
        let row = |name: &str| -> Vec<f64> {
            let line = table.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
            line.split_whitespace().take(9).map(|cell| cell.parse().unwrap()).collect()
        };
        (row("all tasks"), row("loop"))
    };
    let (all, looped) = run(&["--no-stream"]);
    assert_eq!((all[5], looped[5]), (70.0, 50.0));
    let (all, looped) = run(&[]);
    assert_eq!((all[5], looped[5]), (3.0 + 1.0, 2.0));
    assert!(all[6] < 70.0 * 400.0 && all[7] < 70.0 * 600.0, "{} bytes sent, {} received", all[6], all[7]);
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(sshd.path("trace.json")).unwrap()).unwrap();
    let events = trace.as_array().unwrap();
    let count = |phase: &str, category: &str| {
        events.iter().filter(|event| event["ph"] == phase && event["cat"] == category).count()
    };
    assert_eq!((count("X", "task"), count("b", "request"), count("e", "module")), (21, 70, 70));
    assert!(events.iter().all(|event| event["ts"].is_u64() || event["ph"] == "M"));
}
