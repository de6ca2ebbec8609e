//! Early ends of runs: by a signal, or because output cannot be written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn windlass(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
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
        for callback in ["default", "minimal", "oneline", "yaml", "debug", "json"] {
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
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 99)] {
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
