//! Endless files and programs, and silent hosts, fail with an error.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::memory;
use rustix::process::{Pid, Signal, kill_process};

fn windlass(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.current_dir(directory).env("HOME", directory).env("ANSIBLE_NOCOLOR", "1").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        if text.starts_with("#!") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    directory
}

/// The whole output on one line, because messages are wrapped.
fn said(output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn run(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), said(&output))
}

#[test]
fn endless_file_refused() {
    let files = directory(&[("site.yml", "- hosts: all\n  tasks: []\n")]);
    let (_, said) = run(windlass(files.path()).args(["inventory", "-i", "/dev/zero", "--list"]));
    assert!(said.contains("/dev/zero") && said.contains("more than 64 MiB"), "{said}");
    for arguments in [&["/dev/zero"][..], &["site.yml", "-e", "@/dev/zero"]] {
        let (code, said) = run(windlass(files.path()).args(["playbook", "-i", "web1,"]).args(arguments));
        assert!(code != Some(0) && said.contains("/dev/zero") && said.contains("more than 64 MiB"), "{said}");
    }
    let (code, said) = run(windlass(files.path()).env("ANSIBLE_CONFIG", "/dev/zero").args(["inventory", "--list"]));
    assert!(code.is_some(), "{said}");
}

#[test]
fn endless_inventory_script_killed() {
    let files = directory(&[("hosts.sh", "#!/bin/sh\nexec yes\n")]);
    let (_, said) = run(windlass(files.path()).args(["inventory", "-i", "hosts.sh", "--list"]));
    assert!(said.contains("hosts.sh --list") && said.contains("it printed more than 64 MiB"), "{said}");
}

#[test]
fn endless_password_program_killed() {
    let files = directory(&[("password.sh", "#!/bin/sh\nexec yes\n"), ("site.yml", "- hosts: web1\n  tasks: []\n")]);
    let arguments = ["playbook", "-i", "web1,", "--vault-password-file", "password.sh", "site.yml"];
    let (code, said) = run(windlass(files.path()).args(arguments));
    assert!(
        code != Some(0) && said.contains("password.sh") && said.contains("wrote more than 1048576 bytes"),
        "{said}"
    );
}

fn playbook(tasks: &str) -> String {
    format!("- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n{tasks}")
}

#[test]
fn task_timeout_bounds_lookups() {
    let tasks = "    - debug:\n        msg: \"{{ lookup('pipe', 'sleep 600') }}\"\n      timeout: 1\n";
    let files = directory(&[("site.yml", &playbook(tasks))]);
    let (code, said) = run(windlass(files.path()).args(["playbook", "site.yml"]));
    assert!(code == Some(2) && said.contains("'sleep 600': it did not end within 1 s and was killed"), "{said}");
}

#[test]
fn task_timeout_bounds_templates() {
    let loops = "{% for i in range(100000) %}{% for j in range(100000) %}{% set k = j %}{% endfor %}{% endfor %}";
    let filters = "{% for i in range(100000) %}{% set k = range(100000) | map('string') | list %}{% endfor %}";
    for text in [loops, filters] {
        let tasks = format!("    - debug:\n        msg: \"{text}\"\n      timeout: 1\n");
        let files = directory(&[("site.yml", &playbook(&tasks))]);
        let (code, said) = run(windlass(files.path()).args(["playbook", "site.yml"]));
        assert!(code == Some(2) && said.contains("did not end within the `timeout` of its task"), "{said}");
    }
}

/// A loop that registers twenty results of 30 MB, and a task that reads them.
fn registering() -> tempfile::TempDir {
    let tasks = "    - debug:\n        msg: \"{{ 'x' * 30000000 }}\"\n      loop: '{{ range(20) | list }}'\n      no_log: true\n      register: big\n      \
                 ignore_errors: true\n    - debug:\n        msg: \"kept {% for r in big.results if r.msg | length > 9999 %}{{ loop.index }} \
                 {% endfor %}, {{ big.results[19].msg[:200] }}\"\n";
    directory(&[("site.yml", &playbook(tasks))])
}

#[test]
fn oversized_results_dropped_and_play_continues() {
    let files = registering();
    let (code, said) = run(windlass(files.path()).env("WINDLASS_RESULTS_ON_DISK", "0").args(["playbook", "site.yml"]));
    assert!(said.contains("what tasks registered and set for localhost would take"), "{said}");
    assert!(code == Some(0) && said.contains("kept 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 ,"), "{said}");
}

#[test]
fn variables_of_set_fact_count_like_registered_results() {
    let set = |name: &str, rest: &str| format!("    - {{set_fact: {{{name}: \"{{{{ 'x' * 90000000 }}}}\"}}{rest}}}\n");
    let six: String = (0..6).map(|number| set(&format!("x{number}"), "")).collect();
    // Each replaces the one before.
    let one_six_times = set("x", ", loop: '{{ range(6) | list }}'");
    for (tasks, fits) in [(one_six_times, true), (six, false)] {
        let files = directory(&[("site.yml", &playbook(&tasks))]);
        let (code, said) = run(windlass(files.path()).args(["playbook", "--no-journal", "site.yml"]));
        let is_refused = said.contains("what tasks registered and set for localhost would take");
        assert!((code == Some(0)) == fits && is_refused != fits, "{said}");
    }
}

#[test]
fn added_hosts_and_statistics_count_like_registered_results() {
    let text = "\"{{ 'x' * 90000000 }}\"";
    let host = |number: u32| format!("    - {{add_host: {{name: h{number}, text: {text}}}}}\n");
    let statistics = |number: u32| format!("    - {{set_stats: {{data: {{x{number}: {text}}}}}}}\n");
    for tasks in [(0..6).map(host).collect::<String>(), (0..6).map(statistics).collect()] {
        let files = directory(&[("site.yml", &playbook(&tasks))]);
        let (code, said) = run(windlass(files.path()).args(["playbook", "--no-journal", "site.yml"]));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("what tasks registered and set for localhost would take 5"), "{said}");
    }
}

#[test]
fn added_host_and_statistic_that_are_set_again_count_once() {
    let text = "\"{{ 'x' * 90000000 }}\"";
    let host = format!("    - {{add_host: {{name: h, text: {text}}}}}\n").repeat(6);
    let statistic = format!("    - {{set_stats: {{data: {{x: {text}}}, aggregate: false}}}}\n").repeat(6);
    for tasks in [host, statistic] {
        let files = directory(&[("site.yml", &playbook(&tasks))]);
        let (code, said) = run(windlass(files.path()).args(["playbook", "--no-journal", "site.yml"]));
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn oversized_results_go_to_disk_and_can_be_read() {
    let files = registering();
    let state = files.path().join("state");
    let (peak, code, said) =
        peak_of(windlass(files.path()).env("WINDLASS_JOURNAL_DIR", &state).args(["playbook", "site.yml"]));
    assert!(code == Some(0) && said.contains("19 20 , xxx"), "{said}");
    assert!(peak < 350, "600 MB of results took {peak} MiB of memory");
    let left: Vec<_> = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap()).collect();
    assert!(left.iter().all(|entry| entry.metadata().unwrap().is_dir()), "a file is left: {left:?}");
}

#[test]
fn large_results_that_nothing_reads_are_not_kept_until_all_hosts_are_done() {
    let tasks = "    - debug:\n        msg: \"{{ 'x' * 30000000 }}\"\n      no_log: true\n";
    let files = directory(&[("site.yml", &playbook(tasks).replace("localhost", "all"))]);
    let hosts: Vec<String> = (0..20).map(|number| format!("h{number},")).collect();
    let (peak, code, said) = peak_of(windlass(files.path()).args(["playbook", "-i", &hosts.concat(), "site.yml"]));
    assert_eq!(code, Some(0), "{said}");
    assert!(peak < 350, "20 results of 30 MB took {peak} MiB of memory");
}

#[test]
fn journal_of_long_lists_takes_about_its_size_of_memory() {
    let list = "{{ ('[' ~ (['1'] * 400000) | join(',') ~ ']') | from_json }}";
    let tasks = format!(
        "    - set_fact: {{list: \"{list}\"}}\n    - set_fact: {{\"list_{{{{ item }}}}\": \"{{{{ list }}}}\"}}\n      \
         loop: [1, 2, 3]\n    - command: test -e mended\n"
    );
    let files = directory(&[("site.yml", &playbook(&tasks))]);
    let state = files.path().join("state");
    let windlass = |words: &[&str]| {
        let mut command = windlass(files.path());
        peak_of(command.env("WINDLASS_JOURNAL_DIR", &state).args(words))
    };
    let (run, code, said) = windlass(&["playbook", "site.yml"]);
    assert_eq!(code, Some(2), "{said}");
    let (report, code, said) = windlass(&["report", "--format", "markdown"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(report < 150, "a report of 3.2 MB took {report} MiB of memory");
    fs::write(files.path().join("mended"), "").unwrap();
    let (resumed, code, said) = windlass(&["playbook", "site.yml", "--resume"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(resumed < run + 80, "the run took {run} MiB of memory, and {resumed} MiB when it was resumed");
}

/// Runs a command. Returns the peak of its resident memory in MiB, its exit code and its output.
fn peak_of(command: &mut Command) -> (u64, Option<i32>, String) {
    let mut child = command.spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(memory::peak(child.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert!(peak > 0, "no peak was read");
    (peak >> 10, output.status.code(), said(&output))
}

#[test]
fn the_setting_bounds_lookups_and_plugins() {
    let plugin = "import time\nclass FilterModule:\n    def filters(self):\n        return {'doze': lambda v: time.sleep(600)}\n";
    let lookup = playbook("    - debug:\n        msg: \"{{ lookup('pipe', 'sleep 600') }}\"\n");
    let filter = playbook("    - debug:\n        msg: \"{{ 1 | doze }}\"\n");
    let files = directory(&[("lookup.yml", &lookup), ("filter.yml", &filter), ("filter_plugins/doze.py", plugin)]);
    let bounded =
        |name: &str| run(windlass(files.path()).env("WINDLASS_COMMAND_TIMEOUT", "2").args(["playbook", name]));
    let (code, said) = bounded("lookup.yml");
    assert!(code == Some(2) && said.contains("did not end within 2 s") && said.contains("command_timeout"), "{said}");
    if Command::new("python3").arg("-V").output().is_ok() {
        let (code, said) = bounded("filter.yml");
        assert!(code == Some(2) && said.contains("did not end within 2 s"), "{said}");
    }
}

/// Descendants of this process that match.
fn below(root: u32, matches: impl Fn(&Path) -> bool) -> Vec<i32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let descends = |pid: u32| std::iter::successors(Some(pid), |pid| parent(*pid)).skip(1).any(|pid| pid == root);
    let found = pids.filter(|pid| descends(*pid) && matches(&PathBuf::from(format!("/proc/{pid}"))));
    found.map(u32::cast_signed).collect()
}

/// Stops the executor of a running playbook, waits for the playbook and returns its output.
fn stopped(playbook: Child, is_executor: impl Fn(&Path) -> bool + Copy, ready: &Path) -> (Option<i32>, String) {
    for _ in 0..600 {
        if ready.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let executors = below(playbook.id(), is_executor);
    assert_eq!(executors.len(), 1, "{executors:?}");
    let executor = Pid::from_raw(executors[0]).unwrap();
    kill_process(executor, Signal::STOP).unwrap();
    let output = playbook.wait_with_output().unwrap();
    // An error means that it was killed.
    let _ = kill_process(executor, Signal::KILL);
    (output.status.code(), said(&output))
}

fn runs(process: &Path, word: &str) -> bool {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|found| found == word.as_bytes())
}

#[test]
fn stopped_executor_makes_host_unreachable() {
    let tasks = "    - command: sh -c 'touch ready; sleep 600'\n      args:\n        chdir: DIR\n";
    let files = directory(&[]);
    let place = files.path().display().to_string();
    fs::write(files.path().join("site.yml"), playbook(&tasks.replace("DIR", &place))).unwrap();
    let started =
        windlass(files.path()).env("WINDLASS_HEARTBEAT_TIMEOUT", "4").args(["playbook", "site.yml"]).spawn().unwrap();
    let (code, said) = stopped(started, |process| runs(process, "__executor"), &files.path().join("ready"));
    assert!(said.contains("localhost: no answer for 2 s; command is in flight and is given up after 4 s"), "{said}");
    assert!(code == Some(4) && said.contains("did not answer for 4 s (`heartbeat_timeout`)"), "{said}");
}

#[test]
fn variables_that_contain_hosts_that_contain_them_fail() {
    let machines = "{{ groups['all'] | map('extract', hostvars) | list }}";
    let counts: String =
        (0..6).map(|n| format!("c{n}: \"{{{{ machines | map(attribute='c{}', default=1) }}}}\"\n", n + 1)).collect();
    let all = "all: \"{{ hostvars['web1'] | dict2items }}\"\n";
    let play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - debug: {var: machines}\n";
    let files = directory(&[
        ("group_vars/all.yml", &format!("machines: \"{machines}\"\n{counts}{all}")),
        ("hosts", "web1\nweb2\nweb3\n"),
        ("site.yml", play),
    ]);
    let (code, said) = run(windlass(files.path()).args(["playbook", "-i", "hosts", "site.yml"]));
    assert!(code == Some(2) && said.contains("The data contains itself"), "{said}");
}

#[test]
fn stopped_become_executor_detected() {
    if !windlass_testing::has_all(&["root", "sudo"]) {
        return;
    }
    let tasks = "    - shell: touch DIR/ready; sleep 600\n      become: true\n      become_user: nobody\n";
    let files = directory(&[]);
    fs::set_permissions(files.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let place = files.path().display().to_string();
    fs::write(files.path().join("site.yml"), playbook(&tasks.replace("DIR", &place))).unwrap();
    let nobody = String::from_utf8(sudo_id()).unwrap().trim().parse::<u32>().unwrap();
    let is_executor = move |process: &Path| {
        // If a process hides its memory, root owns its folder in /proc.
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok());
        uid == Some(nobody) && !["sudo", "sleep", "/bin/sh", "windlass-guard"].iter().any(|word| runs(process, word))
    };
    let started =
        windlass(files.path()).env("WINDLASS_HEARTBEAT_TIMEOUT", "4").args(["playbook", "site.yml"]).spawn().unwrap();
    let (code, said) = stopped(started, is_executor, &files.path().join("ready"));
    assert!(code == Some(4) && said.contains("did not answer for 4 s"), "{said}");
}

fn sudo_id() -> Vec<u8> {
    Command::new("sudo").args(["-n", "-u", "nobody", "id", "-u"]).output().unwrap().stdout
}
