//! A real sshd that starts the liar on every login, the real `windlass` before it, and the checks afterwards.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::Sshd;

/// Memory limit of the controller for most attacks, in KiB. An ordinary run of a development build needs some 60,000.
const MEMORY: u64 = 400_000;
/// Memory at which a run is killed to protect the machine, in KiB.
const FAR_TOO_MUCH: u64 = 1_000_000;
const DEADLINE: Duration = Duration::from_secs(75);
const KEPT_OUTPUT: u64 = 4 << 20;
/// Data that runs a command, or shows 5332114, if it is evaluated.
pub(crate) const EVIL: &str = "{{ lookup('pipe', 'touch CANARY') }}{{ 1234 * 4321 }}";
/// The same data as an expression.
pub(crate) const EVIL_EXPRESSION: &str = "lookup('pipe', 'touch CANARY') ~ (1234 * 4321)";

/// An attack.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Behaviour of the liar, besides its results.
    pub(crate) mode: &'static str,
    /// Results by module; `*` stands for any other.
    pub(crate) results: Value,
    pub(crate) playbook: String,
    pub(crate) options: &'static [&'static str],
    /// Accepted exit codes.
    pub(crate) codes: &'static [i32],
    /// Required output.
    pub(crate) says: &'static [&'static str],
    /// Forbidden output; `5332114` is always forbidden.
    pub(crate) never_says: &'static [&'static str],
    /// Memory limit of the controller, in KiB.
    pub(crate) memory: u64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            name: "",
            mode: "answer",
            results: json!({}),
            playbook: tasks("    - ping:\n"),
            options: &[],
            codes: &[0],
            says: &[],
            never_says: &[],
            memory: MEMORY,
        }
    }
}

/// A play with these tasks for the liar.
pub(crate) fn tasks(tasks: &str) -> String {
    format!("- hosts: liar\n  gather_facts: false\n  tasks:\n{tasks}")
}

/// Observations of a run.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    /// Peak resident memory, in KiB.
    memory: u64,
    took: Duration,
    /// Whether a command of the host ran on the controller.
    pub(crate) canary: bool,
}

/// Runs the cases in sequence and panics with all violations.
pub(crate) fn run(cases: Vec<Case>) {
    if !super::support::available() {
        return;
    }
    let wanted = std::env::var("HOSTILE_CASE").unwrap_or_default();
    let mut broken = Vec::new();
    for case in cases.iter().filter(|case| case.name.contains(&wanted)) {
        let outcome = perform(case);
        let problems = problems(case, &outcome);
        let verdict = if problems.is_empty() {
            "holds".to_owned()
        } else {
            broken.push(format!("{}: {}\n{}", case.name, problems.join("; "), end_of(&outcome.text)));
            format!("BROKEN: {}", problems.join("; "))
        };
        let (memory, took) = (outcome.memory / 1024, outcome.took.as_secs_f32());
        eprintln!("hostile: {}: {verdict} (exit {:?}, {memory} MiB, {took:.1} s)", case.name, outcome.code);
        if !wanted.is_empty() {
            eprintln!("{}", end_of(&outcome.text));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}

fn problems(case: &Case, outcome: &Outcome) -> Vec<String> {
    let text = &outcome.text;
    let mut problems = Vec::new();
    if outcome.canary {
        problems.push("a command of the host ran on the controller".to_owned());
    }
    if !outcome.code.is_some_and(|code| case.codes.contains(&code)) {
        problems.push(format!("exit code {:?} and not one of {:?}", outcome.code, case.codes));
    }
    let missing = case.says.iter().filter(|words| !text.contains(**words));
    problems.extend(missing.map(|words| format!("{words:?} is not printed")));
    let wrong = case.never_says.iter().chain(&["5332114", "panicked"]).filter(|words| text.contains(**words));
    problems.extend(wrong.map(|words| format!("{words:?} is printed")));
    if outcome.memory > case.memory {
        problems.push(format!("it grew to {} MiB", outcome.memory / 1024));
    }
    if outcome.took > DEADLINE {
        problems.push("it did not end in time".to_owned());
    }
    problems
}

fn perform(case: &Case) -> Outcome {
    Stage::new(case.mode, &case.results).run(&case.playbook, case.options)
}

/// A project in its own folder, whose host `liar` is behind a real sshd.
pub(crate) struct Stage {
    directory: tempfile::TempDir,
    _sshd: Sshd,
}

impl Stage {
    pub(crate) fn new(mode: &str, results: &Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let liar = format!(
            "LogLevel INFO\nForceCommand WINDLASS_LIAR={} exec {} --exact liar --nocapture --test-threads=1",
            path.join("script.json").display(),
            std::env::current_exe().unwrap().display()
        );
        let sshd = Sshd::start(&liar);
        sshd.known_hosts(&format!("[127.0.0.1]:{} {}\n", sshd.port, sshd.host_public_key()));
        let inventory = format!(
            "[all]\nliar ansible_port={}\n# Nobody answers there.\ngood ansible_port=1\n[all:vars]\nansible_host=127.0.0.1\nansible_user=root\n\
             ansible_ssh_retries=0\nansible_ssh_private_key_file={}\n\
             ansible_ssh_common_args=-F none -o UserKnownHostsFile={} -o IdentityAgent=none\n",
            sshd.port,
            sshd.path("id").display(),
            sshd.path("known_hosts").display()
        );
        let stage = Self { directory, _sshd: sshd };
        stage.write("hosts", &inventory);
        stage.write("script.json", &json!({"mode": mode, "results": results}).to_string());
        stage.write("evil.yml", &format!("owned: \"{EVIL}\"\nread: LEAKED\n"));
        stage.write("ssh_config", "Match exec \"test -e /missing-%h-%r\"\n    Port 1\n");
        stage.write("large", &"l".repeat(1 << 20));
        fs::create_dir(stage.path("templates")).unwrap();
        stage.write("templates/page.j2", "{{ page }}{{ r.stdout }}{{ r.map }}");
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file, with `CANARY` replaced by the path of the file that must never appear.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text.replace("CANARY", &self.path("CANARY").display().to_string())).unwrap();
    }

    pub(crate) fn run(&self, playbook: &str, options: &[&str]) -> Outcome {
        self.write("site.yml", playbook);
        let began = Instant::now();
        let mut child = Command::new(program())
            .args(["playbook", "-i", "hosts", "site.yml"])
            .args(options)
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .env("ANSIBLE_CONFIG", "/dev/null")
            .env("NO_COLOR", "1")
            .env("ANSIBLE_SHOW_CUSTOM_STATS", "1")
            .env("WINDLASS_HEARTBEAT_TIMEOUT", "20")
            .envs(
                self.path("cache")
                    .exists()
                    .then_some([("ANSIBLE_CACHE_PLUGIN", "jsonfile"), ("ANSIBLE_CACHE_PLUGIN_CONNECTION", "cache")])
                    .into_iter()
                    .flatten(),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdout, stderr) = (drain(child.stdout.take().unwrap()), drain(child.stderr.take().unwrap()));
        let (code, memory) = watch(&mut child, began);
        let text = [stdout, stderr].map(|thread| thread.join().unwrap()).join("\n");
        Outcome { code, text, memory, took: began.elapsed(), canary: self.path("CANARY").exists() }
    }
}

/// The program under attack.
pub(crate) fn program() -> OsString {
    std::env::var_os("WINDLASS_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_windlass").into())
}

/// Reads a stream to its end and keeps the beginning.
fn drain(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = (&mut stream).take(KEPT_OUTPUT).read_to_end(&mut kept);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        String::from_utf8_lossy(&kept).into_owned()
    })
}

/// Waits for the end of the run and measures its memory.
fn watch(child: &mut Child, began: Instant) -> (Option<i32>, u64) {
    let mut memory = 0;
    loop {
        memory = memory.max(super::memory::peak(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            return (status.code(), memory);
        }
        if memory > FAR_TOO_MUCH || began.elapsed() > DEADLINE {
            child.kill().unwrap();
            child.wait().unwrap();
            return (None, memory);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn end_of(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| line.chars().take(300).collect()).collect();
    lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")
}
