//! Early ends of runs: by a signal, or because output cannot be written.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Sshd, available};

fn windlass(folder: &Path) -> Command {
    // A shell's background jobs ignore SIGINT, and so would a run started by them.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP,TERM,QUIT", env!("CARGO_BIN_EXE_windlass")]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ANSIBLE")) {
        command.env_remove(name);
    }
    command.current_dir(folder).env("HOME", folder).env("NO_COLOR", "1");
    command
}

fn playbook(folder: &Path, tasks: &str) -> Command {
    fs::write(folder.join("p.yml"), format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let mut command = windlass(folder);
    command.args(["playbook", "-i", "localhost,", "-c", "local", "p.yml"]);
    command
}

/// Waits for a condition, but never for ever.
fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never came to be");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn send(child: &Child, signal: rustix::process::Signal) {
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, signal).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn signal_ends_run_with_current_task_and_recap() {
    use rustix::process::Signal;
    for (signal, name, code) in
        [(Signal::INT, "SIGINT", 99), (Signal::TERM, "SIGTERM", 143), (Signal::HUP, "SIGHUP", 129)]
    {
        let folder = tempfile::tempdir().unwrap();
        let tasks = "    - debug: {msg: first}\n    - name: Take long\n      shell: touch begun; exec sleep 600\n";
        let mut run = playbook(folder.path(), tasks);
        let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until(|| folder.path().join("begun").exists());
        send(&child, signal);
        let output: Output = child.wait_with_output().unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(stderr.contains(&format!("{name}: the run ends here. Stopping:\n  localhost: Take long")), "{stderr}");
        assert!(stdout.contains("PLAY RECAP"), "{stdout}");
        assert!(stdout.contains("localhost                  : ok=1 "), "{stdout}");
        assert_eq!(output.status.code(), Some(code), "{name}");
    }
}

#[test]
fn hangup_does_not_end_a_run_under_nohup() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = "    - shell: touch begun; while [ ! -e go ]; do sleep 0.1; done\n    - debug: {msg: last}\n";
    fs::write(folder.path().join("p.yml"), format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_windlass")).args(["playbook", "-i", "localhost,", "-c", "local", "p.yml"]);
    command.current_dir(folder.path()).env("HOME", folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until(|| folder.path().join("begun").exists());
    send(&child, rustix::process::Signal::HUP);
    fs::write(folder.path().join("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(text(&output.stdout).contains("\"msg\": \"last\""), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

/// The clock of a host, or of the machine where a file comes from, may be wrong.
#[test]
fn files_are_compared_by_content_and_not_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("fetched")).unwrap();
    for (name, text) in [("source", "new"), ("same", "new"), ("other", "old"), ("fetched/same", "new"), ("t.j2", "new")]
    {
        fs::write(path.join(name), text).unwrap();
    }
    // In 2001 and in 2096.
    for (name, seconds) in [("source", 4_000_000_000), ("same", 1_000_000_000), ("other", 4_000_000_000)] {
        let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::options().write(true).open(path.join(name)).unwrap().set_modified(time).unwrap();
    }
    let here = path.display();
    let tasks = format!(
        "    - copy: {{src: {here}/source, dest: {here}/same}}\n      register: same\n    - template: {{src: {here}/t.j2, dest: {here}/same}}\n      \
         register: rendered\n    - fetch: {{src: {here}/same, dest: {here}/fetched/, flat: true}}\n      register: fetched\n    - copy: {{src: \
         {here}/source, dest: {here}/other}}\n      register: other\n    - assert: {{that: [same is not changed, rendered is not changed, fetched is \
         not changed, other is changed]}}\n"
    );
    let output = playbook(path, &tasks).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(fs::read_to_string(path.join("other")).unwrap(), "new");
}

#[test]
fn signal_ends_a_run_whose_templates_keep_all_threads_busy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let busy = "{% for a in range(10000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    let tasks = format!("    - command: touch begun-{{{{ inventory_hostname }}}}\n    - debug: {{msg: \"{busy}\"}}\n");
    fs::write(path.join("p.yml"), format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let threads = std::thread::available_parallelism().unwrap().get();
    let hosts: String = (0..=threads).map(|host| format!("h{host},")).collect();
    let mut command = windlass(path);
    command.args(["playbook", "-f", "100", "-i", &hosts, "-c", "local", "p.yml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(|| (0..=threads).all(|host| path.join(format!("begun-h{host}")).exists()));
    std::thread::sleep(Duration::from_secs(1));
    let sent = Instant::now();
    send(&child, rustix::process::Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert!(text(&output.stderr).contains("[ERROR]: SIGTERM: "), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(143));
    // The templates themselves would end after half a minute each.
    assert!(sent.elapsed() < Duration::from_secs(20), "{:?}", sent.elapsed());
}

/// Interrupts a run that waits for an inventory script, with the script, as Ctrl-C does.
fn interrupted_in_inventory(folder: &Path, words: &[&str]) -> Output {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    fs::write(folder.join("slow.sh"), "#!/bin/sh\ntouch begun\nexec sleep 600\n").unwrap();
    fs::set_permissions(folder.join("slow.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("hosts"), "here ansible_connection=local\n").unwrap();
    let mut run = windlass(folder);
    run.args(words);
    let child = run.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(|| folder.join("begun").exists());
    let group = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn interrupt_while_an_inventory_is_read_runs_no_task() {
    const WORK: &[&str] = &["all", "-m", "command", "-a", "touch ran"];
    for (words, work) in [
        (&["adhoc", "-i", "slow.sh", "-i", "hosts"][..], WORK),
        (&["adhoc", "-i", "slow.sh"], WORK),
        (&["inventory", "-i", "slow.sh"], &["--list"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = interrupted_in_inventory(folder.path(), &[words, work].concat());
        assert!(text(&output.stderr).contains("[ERROR]: SIGINT: "), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(99), "{words:?}");
        assert!(!folder.path().join("ran").exists());
    }
}

#[test]
fn interrupt_that_ends_the_inventory_script_first_is_still_named() {
    use std::os::unix::fs::PermissionsExt as _;
    // A helper signals windlass once the script has been waited for.
    const SCRIPT: &str = "#!/bin/sh\nwindlass=$PPID script=$$\n\
                          (while kill -0 $script; do :; done; kill -INT $windlass) > /dev/null 2>&1 &\n";
    for end in ["kill -INT $$", "exit 130"] {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("slow.sh");
        fs::write(&script, format!("{SCRIPT}{end}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut run = windlass(folder.path());
        let output = run.args(["inventory", "-i", "slow.sh", "--list"]).stdin(Stdio::null()).output().unwrap();
        assert!(text(&output.stderr).contains("[ERROR]: SIGINT: "), "{end}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(99), "{end}");
    }
}

/// Starts a command, waits until it reads a pipe without a writer, and interrupts it.
fn interrupted_at_a_pipe(folder: &Path, words: &[&str]) -> Output {
    let mut command = windlass(folder);
    command.args(words).args(["all", "-m", "command", "-a", "touch ran"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let open = || fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
    until(|| open().any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("pipe"))));
    send(&child, rustix::process::Signal::INT);
    child.wait_with_output().unwrap()
}

#[test]
fn interrupt_while_a_named_pipe_is_read_ends_the_run() {
    // Only root sees which files the run, which is not dumpable, has opened.
    if !windlass_testing::has("root") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert!(Command::new("mkfifo").arg(path.join("pipe")).status().unwrap().success());
    fs::write(path.join("hosts"), "here ansible_connection=local\n").unwrap();
    // The thread that reads and the one that got the signal end in either order.
    for _ in 0..5 {
        let output = interrupted_at_a_pipe(path, &["adhoc", "-i", "hosts", "-i", "pipe"]);
        let stderr = text(&output.stderr);
        assert!(stderr.contains("[ERROR]: SIGINT: "), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert_eq!(output.status.code(), Some(99), "{stderr}");
        assert!(!path.join("ran").exists());
    }
    // Before the run has begun, the default of the signal ends the program.
    for words in [["-e", "@pipe"], ["--vault-password-file", "pipe"]] {
        let output = interrupted_at_a_pipe(path, &["adhoc", "-i", "hosts", words[0], words[1]]);
        let ended = output.status.code() == Some(99)
            || std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(2);
        assert!(ended, "{words:?}: {output:?}");
    }
}

#[test]
fn pipe_that_nobody_named_is_refused_by_name() {
    for (place, fails) in [("host_vars/here", true), ("facts/s1_here", false), ("hosts/z.yml", false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("hosts")).unwrap();
        fs::write(path.join("hosts/a"), "here ansible_connection=local\n").unwrap();
        fs::create_dir_all(path.join(place).parent().unwrap()).unwrap();
        assert!(Command::new("mkfifo").arg(path.join(place)).status().unwrap().success());
        let mut command = windlass(path);
        fs::write(path.join("p.yml"), "- hosts: all\n  gather_facts: false\n  tasks: [{debug: {msg: done}}]\n")
            .unwrap();
        command.args(["playbook", "-i", "hosts", "p.yml"]);
        command.env("ANSIBLE_CACHE_PLUGIN", "jsonfile").env("ANSIBLE_CACHE_PLUGIN_CONNECTION", path.join("facts"));
        let output = command.output().unwrap();
        let stderr = text(&output.stderr);
        assert!(stderr.contains(place), "{place}: {stderr}");
        assert!(stderr.contains("it is a pipe, and only a regular file is read here"), "{place}: {stderr}");
        assert_eq!(output.status.success(), !fails, "{place}: {stderr}");
    }
}

#[test]
fn cached_facts_that_others_can_change_are_not_used() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let facts = path.join("facts");
    fs::create_dir(&facts).unwrap();
    fs::write(facts.join("s1_localhost"), "{\"__payload__\": \"{\\\"ansible_colour\\\": \\\"evil\\\"}\"}").unwrap();
    let task = "[{debug: {msg: \"colour={{ ansible_colour | default('none') }}\"}}]";
    fs::write(path.join("p.yml"), format!("- hosts: localhost\n  gather_facts: false\n  tasks: {task}\n")).unwrap();
    let not_used = [
        (facts.clone(), 0o777, "are not used: other users can write to it"),
        (facts.join("s1_localhost"), 0o666, "s1_localhost: other users can write to it"),
    ];
    for (what, mode, warning) in not_used {
        let before = what.metadata().unwrap().permissions();
        let seen = || {
            let mut command = windlass(path);
            command.args(["playbook", "p.yml"]);
            command.env("ANSIBLE_CACHE_PLUGIN", "jsonfile").env("ANSIBLE_CACHE_PLUGIN_CONNECTION", &facts);
            let output = command.output().unwrap();
            text(&output.stdout) + &text(&output.stderr)
        };
        assert!(seen().contains("colour=evil"));
        fs::set_permissions(&what, fs::Permissions::from_mode(mode)).unwrap();
        let refused = seen();
        assert!(refused.contains("colour=none") && refused.contains(warning), "{refused}");
        fs::set_permissions(&what, before).unwrap();
    }
}

#[test]
fn pipes_that_the_user_named_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let script = format!(
        "echo inventory-host ansible_connection=local | \"$1\" playbook -i /dev/stdin -e @<(echo 'word: from-a-pipe') \
         --vault-password-file <(echo password) -i <(echo 'second-host ansible_connection=local') {}",
        path.join("p.yml").display()
    );
    fs::write(path.join("p.yml"), "- hosts: all\n  gather_facts: false\n  tasks: [{debug: {var: word}}]\n").unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", &script, "bash", env!("CARGO_BIN_EXE_windlass")]).current_dir(path).env("HOME", path);
    let output = command.output().unwrap();
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", text(&output.stderr));
    assert!(stdout.contains("ok: [inventory-host]") && stdout.contains("ok: [second-host]"), "{stdout}");
    assert!(stdout.contains("from-a-pipe"), "{stdout}");
}

/// A process. Its id alone could soon belong to another one.
#[derive(Debug)]
struct Process {
    pid: i32,
    /// Start in clock ticks since the boot; `None` if it has ended already.
    start: Option<String>,
}

impl Process {
    fn runs(&self) -> bool {
        self.start.is_some() && start_of(self.pid) == self.start
    }
}

/// Start of a process that is not a zombie (`proc_pid_stat(5)`).
fn start_of(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    if rest.starts_with('Z') { None } else { rest.split(' ').nth(19).map(str::to_owned) }
}

/// The process whose id is in a file, once a task has written it.
fn process_in(file: &Path) -> Process {
    until(|| fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')));
    let pid = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    Process { pid, start: start_of(pid) }
}

/// The executor of a run on this machine.
fn executor_of(run: &Child) -> rustix::process::Pid {
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let is_executor = |pid: i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent(pid) == Some(run.id()) && words.split(|byte| *byte == 0).any(|word| word == b"__executor")
    };
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let found: Vec<i32> = pids.filter(|pid| is_executor(*pid)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    rustix::process::Pid::from_raw(found[0]).unwrap()
}

/// A task with a shell that waits for another process, whose id it writes to the file `inner`.
const ENDLESS: &str =
    "    - name: Take long\n      shell: echo $$ > outer; sh -c 'echo $$ > inner; exec sleep 600'; true\n";

/// Interrupts a run twice, and returns its output.
fn interrupted_twice(mut run: Child) -> Output {
    use rustix::process::Signal;
    send(&run, Signal::INT);
    let mut stderr = std::io::BufReader::new(run.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("the run ends here") {
        assert!(std::io::BufRead::read_line(&mut stderr, &mut said).unwrap() > 0, "{said}");
    }
    send(&run, Signal::INT);
    let mut output = run.wait_with_output().unwrap();
    output.stderr = said.into_bytes();
    stderr.read_to_end(&mut output.stderr).unwrap();
    output
}

/// A run of [`ENDLESS`] whose executor is suspended, so that the run cannot end in order.
fn suspended(folder: &Path) -> Child {
    let child = playbook(folder, ENDLESS).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    process_in(&folder.join("inner"));
    rustix::process::kill_process(executor_of(&child), rustix::process::Signal::STOP).unwrap();
    child
}

#[test]
fn second_interrupt_ends_program_at_once_and_says_what_that_means() {
    let folder = tempfile::tempdir().unwrap();
    let output = interrupted_twice(suspended(folder.path()));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(99), "{stderr}");
    let sentence = "[ERROR]: SIGINT: ended at once; hosts stop their tasks when they notice.\n";
    assert!(stderr.ends_with(sentence), "{stderr}");
}

#[test]
fn task_of_suspended_executor_ends_after_second_interrupt() {
    let folder = tempfile::tempdir().unwrap();
    interrupted_twice(suspended(folder.path()));
    for name in ["outer", "inner"] {
        let process = process_in(&folder.path().join(name));
        until(|| !process.runs());
    }
}

/// Commands of `raw` that write their process id to `outer`. The first one ignores SIGTERM; the second one handles it.
const RAW: [&str; 2] = [
    "trap '' TERM; echo $$ > DIR/outer; while :; do sleep 1; done",
    "trap 'touch DIR/handled; exit' TERM; echo $$ > DIR/outer; while :; do sleep 0.1; done",
];

#[test]
fn raw_command_on_this_machine_ends_after_second_interrupt() {
    let folder = tempfile::tempdir().unwrap();
    let command = RAW[0].replace("DIR", &folder.path().display().to_string());
    let mut run = playbook(folder.path(), &format!("    - raw: |\n        {command}\n"));
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = process_in(&folder.path().join("outer"));
    let output = interrupted_twice(child);
    assert_eq!(output.status.code(), Some(99), "{}", text(&output.stderr));
    assert!(text(&output.stderr).ends_with("hosts stop their tasks when they notice.\n"), "{}", text(&output.stderr));
    until(|| !process.runs());
}

#[test]
fn replaced_program_still_starts_its_executor() {
    let folder = tempfile::tempdir().unwrap();
    let (program, upgrade) = (folder.path().join("windlass"), folder.path().join("upgrade"));
    fs::copy(env!("CARGO_BIN_EXE_windlass"), &program).unwrap();
    fs::write(&upgrade, "no program\n").unwrap();
    let swap = format!("{{{{ lookup('pipe', 'mv {} {}') }}}}", upgrade.display(), program.display());
    let tasks = format!("    - debug:\n        msg: \"{swap}\"\n    - command: echo started\n");
    playbook(folder.path(), &tasks);
    let mut command = Command::new(&program);
    command.current_dir(folder.path()).env("HOME", folder.path()).env("NO_COLOR", "1");
    let output = command.args(["playbook", "-i", "localhost,", "-c", "local", "p.yml"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && printed.contains("changed=1"),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(fs::read_to_string(&program).unwrap(), "no program\n");
}

#[test]
fn interrupted_raw_command_gets_sigterm_then_sigkill() {
    if !available() {
        return;
    }
    for connection in ["ssh", "local"] {
        let sshd = Sshd::start("LogLevel INFO");
        let folder = sshd.directory.path();
        let home = folder.display();
        let host = format!(
            "web1 ansible_connection={connection} ansible_host=127.0.0.1 ansible_port={} ansible_user=root \
             ansible_ssh_private_key_file=id ansible_ssh_args='-F none -o UserKnownHostsFile={home}/known -o \
             IdentityAgent=none -o StrictHostKeyChecking=accept-new'\n",
            sshd.port
        );
        fs::write(folder.join("hosts"), host).unwrap();
        for command in RAW {
            let command = command.replace("DIR", &home.to_string());
            for name in ["outer", "handled"] {
                let _ = fs::remove_file(folder.join(name));
            }
            let play = format!("- hosts: all\n  gather_facts: false\n  tasks:\n    - raw: {command}\n");
            fs::write(folder.join("p.yml"), play).unwrap();
            let mut run = windlass(folder);
            run.args(["playbook", "-i", "hosts", "p.yml"]).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = run.spawn().unwrap();
            let process = process_in(&folder.join("outer"));
            send(&child, rustix::process::Signal::INT);
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(99), "{}", text(&output.stderr));
            until(|| !process.runs());
            assert_eq!(command.contains("handled"), folder.join("handled").exists(), "{connection}: {command}");
        }
    }
}

#[test]
fn killed_executor_ends_running_task_and_no_daemon() {
    use rustix::process::{Pid, Signal, kill_process};
    let folder = tempfile::tempdir().unwrap();
    let daemon = "    - shell: nohup sleep 600 > daemon.log 2>&1 & echo $! > daemon\n";
    let mut run = playbook(folder.path(), &format!("{daemon}{ENDLESS}"));
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let inner = process_in(&folder.path().join("inner"));
    kill_process(executor_of(&child), Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    until(|| !inner.runs());
    let daemon = process_in(&folder.path().join("daemon"));
    assert!(daemon.runs(), "a process that its task left running on purpose lives on");
    kill_process(Pid::from_raw(daemon.pid).unwrap(), Signal::KILL).unwrap();
}

/// A program that an interrupt at the terminal does not end, and that waits for another one.
const PROGRAM: &str =
    "#!/bin/sh\ntrap '' INT\ncd 'DIR'\necho $$ > outer\nsh -c 'echo $$ > inner; exec sleep 600'\ntrue\n";

/// A filter in Python that waits for another program.
const FILTER: &str = "import os, signal, subprocess\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n\ndef doze(value):\n    \
                      open('outer', 'w').write('%d\\n' % os.getpid())\n    \
                      subprocess.run(['sh', '-c', 'echo $$ > inner; exec sleep 600'])\n\n\
                      class FilterModule:\n    def filters(self):\n        return {'doze': doze}\n";

/// A run that waits for one of the controller's own programs, which it has started as one group of processes.
fn waiting_for(program: &str, folder: &Path) -> Child {
    use std::os::unix::{fs::PermissionsExt as _, process::CommandExt as _};
    let script = folder.join("program");
    fs::write(&script, PROGRAM.replace("DIR", &folder.display().to_string())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let tasks = match program {
        "lookup" => "    - debug: {msg: \"{{ lookup('pipe', './program') }}\"}\n",
        "filter" => "    - debug: {msg: \"{{ 1 | doze }}\"}\n",
        _ => "    - ping:\n",
    };
    fs::create_dir(folder.join("filter_plugins")).unwrap();
    fs::write(folder.join("filter_plugins/doze.py"), FILTER).unwrap();
    let host = if program == "proxy" { "web1," } else { "localhost," };
    fs::write(folder.join("p.yml"), format!("- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")).unwrap();
    let mut run = windlass(folder);
    run.args(["playbook", "-i", host, "p.yml"]);
    match program {
        "inventory" => _ = run.args(["-i", "program"]),
        "password" => _ = run.args(["--vault-password-file", "program"]),
        "proxy" => _ = run.arg(format!("--ssh-common-args=-o ProxyCommand={}", script.display())),
        _ => {}
    }
    run.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The processes of the program that a run waits for, once its guard knows them. A run that is killed before that
/// leaves them behind.
fn started_by(folder: &Path) -> [Process; 2] {
    let started = ["outer", "inner"].map(|name| process_in(&folder.join(name)));
    std::thread::sleep(Duration::from_secs(1));
    started
}

/// Whether a run still has its guard.
fn has_guard(run: u32) -> bool {
    let guard = format!("windlass-guard\0__guard\0{run}\0");
    fs::read_dir("/proc")
        .unwrap()
        .any(|entry| fs::read(entry.unwrap().path().join("cmdline")).is_ok_and(|words| words == guard.as_bytes()))
}

/// Programs that the controller starts itself. Without Python there are no filters of the project.
fn own_programs() -> impl Iterator<Item = &'static str> {
    let has_python = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    ["lookup", "inventory", "password", "proxy", "filter"].into_iter().filter(move |it| *it != "filter" || has_python)
}

/// Waits until the processes of a program have ended, and the guard of its run.
fn until_ended(program: &str, started: &[Process], run: u32) {
    let start = Instant::now();
    while started.iter().any(Process::runs) || has_guard(run) {
        assert!(start.elapsed() < Duration::from_secs(60), "{program}: {started:?}, guard {}", has_guard(run));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn programs_of_killed_controller_end() {
    for program in own_programs() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = waiting_for(program, folder.path());
        let started = started_by(folder.path());
        assert!(started.iter().all(Process::runs) && has_guard(run.id()), "{program}");
        run.kill().unwrap();
        run.wait().unwrap();
        until_ended(program, &started, run.id());
    }
}

#[test]
fn programs_of_controller_end_after_second_interrupt() {
    for program in own_programs() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = waiting_for(program, folder.path());
        let started = started_by(folder.path());
        let start = Instant::now();
        // Like a terminal, to the whole group. A signal that is still pending would be lost, so there may be more.
        while run.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "{program}: the run does not end");
            let group = rustix::process::Pid::from_child(&run);
            rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        until_ended(program, &started, run.id());
    }
}

#[test]
fn controller_shares_no_descriptor_with_its_programs_and_leaves_no_guard() {
    let folder = tempfile::tempdir().unwrap();
    let list = "ls /proc/self/fd > descriptors; echo done";
    let tasks = format!("    - debug: {{msg: \"{{{{ lookup('pipe', '{list}') }}}}\"}}\n").repeat(2);
    let mut child = playbook(folder.path(), &tasks).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let id = child.id();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!has_guard(id));
    let given = fs::read_to_string(folder.path().join("descriptors")).unwrap();
    // This test's own descriptors may be open in all its children.
    let own = Command::new("sh").args(["-c", list]).current_dir(folder.path()).stdout(Stdio::null()).status().unwrap();
    assert!(own.success());
    assert_eq!(given, fs::read_to_string(folder.path().join("descriptors")).unwrap());
}

#[test]
fn output_to_a_full_disk_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = playbook(folder.path(), "    - copy: {content: x, dest: done}\n").stdout(full).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.contains("[ERROR]: standard output cannot be written: No space left on device"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
    assert!(folder.path().join("done").exists(), "the run goes on");
}

#[test]
fn report_of_callback_on_a_full_disk_is_an_error_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // A limit on the size of files fails like a full disk, in the middle of a text.
    let long = "x".repeat(8 << 10);
    let run = playbook(path, &format!("    - debug: {{msg: {long}}}\n"));
    let (program, words) = (run.get_program().to_owned(), run.get_args().map(ToOwned::to_owned).collect::<Vec<_>>());
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh"]).arg(program).args(words);
    limited.current_dir(path).env("HOME", path).env("NO_COLOR", "1").env("WINDLASS_JOURNAL", "false");
    limited.env("JUNIT_OUTPUT_DIR", "junit").env("ANSIBLE_CALLBACK_TREE_DIR", "tree");
    for callback in ["junit", "tree"] {
        let output = limited.env("ANSIBLE_CALLBACKS_ENABLED", callback).stdout(Stdio::piped()).output().unwrap();
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains(&format!("[ERROR]: {}", if callback == "tree" { "tree/localhost" } else { "junit/p-" })),
            "{stderr}"
        );
        assert!(stderr.contains(" cannot be written: File too large"), "{stderr}");
        assert_eq!(output.status.code(), Some(1), "{callback}: {stderr}");
        assert!(text(&output.stdout).contains("PLAY RECAP"), "the run goes on");
        let left = fs::read_dir(path.join(callback)).unwrap().count();
        assert_eq!(left, 0, "{callback} left half a file");
    }
}

#[test]
fn help_on_a_full_disk_is_an_error() {
    for words in [&["--help"][..], &["--version"], &["playbook", "--help"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = Command::new(env!("CARGO_BIN_EXE_windlass")).args(words).stdout(full).status().unwrap();
        assert_eq!(status.code(), Some(1), "{words:?}");
    }
}

#[test]
fn closed_pipe_does_not_stop_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = playbook(folder.path(), "    - debug: {msg: x}\n    - copy: {content: x, dest: done}\n");
    let mut child = run.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(folder.path().join("done").exists());
}

#[test]
fn control_characters_from_host_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = "    - command: {argv: [printf, 'a\\033[2J\\rb\\342\\200\\256c\\302\\233d']}\n    - fail: {msg: \"a\\e[2J\\rb\\u202Ec\\x9bd\"}\n      ignore_errors: true\n";
    for arguments in [&["-vvv"][..], &[]] {
        for callback in ["default", "minimal", "oneline", "yaml", "debug", "json", "jsonl"] {
            let mut run = playbook(folder.path(), tasks);
            let output = run.args(arguments).env("ANSIBLE_STDOUT_CALLBACK", callback).output().unwrap();
            let printed = text(&output.stdout) + &text(&output.stderr);
            let is_wild = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
            assert!(!printed.contains(is_wild), "{callback}: {printed:?}");
            if callback == "json" && arguments.is_empty() {
                let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                let host = &document["plays"][0]["tasks"][0]["hosts"]["localhost"];
                assert_eq!(host["stdout"], "a\u{1b}[2J\rb\u{202e}c\u{9b}d");
            }
        }
    }
}

#[test]
fn paused_reader_delays_run_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    // Nine results of 4 MB, each shown twice, none of which a paused reader accepts.
    let tasks = "    - command: {argv: [sh, -c, 'touch at-{{ item }}; head -c 4000000 /dev/zero | tr \"\\\\0\" x']}\n      loop: \"{{ range(9) | list }}\"\n      loop_control: {label: \"{{ item }}\"}\n";
    let mut run = playbook(folder.path(), tasks);
    let mut child = run.arg("-v").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let at = |item: u32| folder.path().join(format!("at-{item}")).exists();
    until(|| at(2));
    std::thread::sleep(Duration::from_secs(3));
    assert!(!at(8), "the run waits for its reader");
    let mut printed = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut printed).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(printed.len() > 72_000_000, "every result is shown: {}", printed.len());
}

/// Files that windlass left in its private temporary places.
fn left_behind(folder: &Path) -> Vec<String> {
    let places = [folder.join("run"), folder.join("tmp")];
    let names = places.iter().flat_map(|place| fs::read_dir(place).unwrap());
    names.map(|entry| entry.unwrap().path().display().to_string()).collect()
}

#[test]
fn editing_a_vault_leaves_no_plaintext_behind_a_signal() {
    use rustix::process::Signal;
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::INT, 99)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        ["run", "tmp"].iter().for_each(|name| fs::create_dir(path.join(name)).unwrap());
        fs::write(path.join("pass"), "password\n").unwrap();
        fs::write(path.join("secret.yml"), "key: plaintext\n").unwrap();
        let vault = |verb: &str| {
            let mut command = windlass(path);
            command.args(["vault", verb, "--vault-password-file", "pass", "secret.yml"]);
            command.env("XDG_RUNTIME_DIR", path.join("run")).env("TMPDIR", path.join("tmp"));
            command
        };
        assert!(vault("encrypt").status().unwrap().success());
        let before = fs::read(path.join("secret.yml")).unwrap();
        // Like many editors, it keeps a copy beside the file. SIGINT ends it, as at a terminal.
        let editor =
            "#!/bin/sh\ncp \"$1\" \"$1~\"\necho \"$1\" > at.new\necho $$ > editor\nmv at.new at\nexec sleep 600\n";
        fs::write(path.join("editor.sh"), editor).unwrap();
        let mut child = vault("edit").env("EDITOR", "sh ./editor.sh").spawn().unwrap();
        until(|| path.join("at").exists());
        let file = fs::read_to_string(path.join("at")).unwrap();
        let directory = Path::new(file.trim()).parent().unwrap().to_owned();
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&directory).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
        send(&child, signal);
        if signal == Signal::INT {
            assert!(child.try_wait().unwrap().is_none(), "SIGINT is the editor's own");
            let editor: i32 = fs::read_to_string(path.join("editor")).unwrap().trim().parse().unwrap();
            rustix::process::kill_process(rustix::process::Pid::from_raw(editor).unwrap(), signal).unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert!(!directory.exists(), "{}", directory.display());
        assert_eq!(left_behind(path), Vec::<String>::new());
        assert_eq!(fs::read(path.join("secret.yml")).unwrap(), before);
    }
}

#[test]
fn plaintext_of_killed_edit_removed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ["run", "tmp"].iter().for_each(|name| fs::create_dir(path.join(name)).unwrap());
    fs::write(path.join("pass"), "password\n").unwrap();
    let edit = |editor: &str, name: &str| {
        let mut command = windlass(path);
        command
            .args(["vault", "create", "--skip-tty-check", "--vault-password-file", "pass", name])
            .env("EDITOR", editor);
        command.env("XDG_RUNTIME_DIR", path.join("run")).env("TMPDIR", path.join("tmp"));
        command
    };
    fs::write(
        path.join("slow.sh"),
        "echo plaintext > \"$1\"; echo \"$$ $1\" > \"$0.new\"; mv \"$0.new\" \"$0.began\"; exec sleep 600\n",
    )
    .unwrap();
    let slow = format!("sh {}/slow.sh", path.display());
    let mut killed = edit(&slow, "a.yml").spawn().unwrap();
    until(|| path.join("slow.sh.began").exists());
    let began = fs::read_to_string(path.join("slow.sh.began")).unwrap();
    let (editor, file) = began.trim().split_once(' ').unwrap();
    fs::write(path.join("quick.sh"), "echo text > \"$1\"\n").unwrap();
    let quick = format!("sh {}/quick.sh", path.display());
    // Another edit that runs is left alone.
    let is_made = edit(&quick, "b.yml").status().unwrap().success();
    let is_kept = Path::new(file).exists();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let editor = rustix::process::Pid::from_raw(editor.parse().unwrap()).unwrap();
    rustix::process::kill_process(editor, rustix::process::Signal::KILL).unwrap();
    assert!(is_made && is_kept);
    assert!(edit(&quick, "c.yml").status().unwrap().success());
    assert!(!Path::new(file).exists(), "{file}");
}

#[test]
fn text_typed_into_vault_create_or_edit_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("tmp")).unwrap();
    fs::write(path.join("pass"), "password\n").unwrap();
    fs::write(path.join("editor.sh"), "echo 'typed: text' > \"$1\"\n").unwrap();
    let vault = |verb: &str, file: &str| {
        let mut command = windlass(path);
        command.args(["vault", verb, "--vault-password-file", "pass", file]).env("EDITOR", "sh ./editor.sh");
        let output =
            command.args((verb == "create").then_some("--skip-tty-check")).env("TMPDIR", path.join("tmp")).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (made, said) = vault("create", "group_vars/all/secrets.yml");
    assert!(made && said.contains("group_vars/all does not exist, creating"), "{said}");
    assert_eq!(vault("view", "group_vars/all/secrets.yml").1, "typed: text\n");
    // The folder is lost while the text is typed.
    fs::write(path.join("editor.sh"), "echo 'more: text' > \"$1\"; rm -r group_vars\n").unwrap();
    let (written, said) = vault("edit", "group_vars/all/secrets.yml");
    let kept = said.trim().rsplit(' ').next().unwrap();
    assert!(!written && said.contains("The text is kept, encrypted, in"), "{said}");
    assert_eq!(vault("view", kept).1, "more: text\n");
}

#[test]
fn loop_continues_after_item_delegated_to_unreachable_host() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = "    - ping:\n      delegate_to: '{{ item }}'\n      ignore_unreachable: true\n      loop: [gone, localhost]\n      \
                 register: asked\n    - debug: {msg: \"{{ asked.results | map(attribute='ping', default='none') | join(' ') }}\"}\n";
    let mut run = playbook(folder.path(), tasks);
    let inventory = "localhost ansible_connection=local\n[others]\ngone ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1\n";
    fs::write(folder.path().join("hosts"), inventory).unwrap();
    let output = run.args(["-i", "hosts", "--limit", "localhost"]).env("ANSIBLE_STDOUT_CALLBACK", "json").output();
    let output = output.unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("\"none pong\""), "{shown}");
}
