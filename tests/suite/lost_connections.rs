//! Tasks after a lost connection: they begin once nothing that the lost executor started runs any more.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass::connection::{HostKeyChecking, Kind, Target};
use windlass::executor::{Call, Error, Heartbeat, Limits, Pool, TaskEvent};
use windlass_protocol::{Become, BecomeMethod, Request};

use crate::network::Network;
use crate::support::{Sshd, available};

/// A host behind a network that can break.
struct Site {
    sshd: Sshd,
    network: Network,
    target: Arc<Target>,
    pool: Pool<Value>,
}

impl Site {
    fn new() -> Site {
        let sshd = Sshd::start("LogLevel INFO");
        let (network, settings) = (Network::to(sshd.port), sshd.settings());
        let target = Target {
            host: "127.0.0.1".into(),
            port: Some(network.port),
            user: Some("root".into()),
            private_key_file: settings.identity_file,
            ssh_arguments: [vec!["-F".into(), "none".into()], settings.arguments].concat(),
            host_key_checking: Some(HostKeyChecking::AcceptNew),
            remote_tmp: sshd.path("remote tmp").display().to_string(),
            ..Target::new("web1", Kind::Ssh)
        };
        let heartbeat = Heartbeat::lost_after(Some(Duration::from_secs(2)));
        let pool = Pool::new(Limits { heartbeat, ..Limits::default() });
        Site { sshd, network, target: Arc::new(target), pool }
    }

    async fn shell(&self, command: &str, user: Option<&Become>) -> Result<Value, Error> {
        let args = json!({ "_raw_params": command, "_uses_shell": true });
        let request = Request { become_user: user.cloned(), ..Request::new("command", args) };
        Ok(self.pool.run(&self.target, Call::new(request)).await?.result)
    }

    /// Breaks the network while nothing runs, and waits until that is noticed.
    async fn cut(&self) {
        self.network.cut();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// Runs a task that ends only by force, and breaks the network meanwhile. Returns the task's process.
    async fn lose(&self, user: Option<&Become>, breaks: impl Fn(&Network)) -> String {
        let file = self.sshd.path("pid").display().to_string();
        // Another user cannot create a file there.
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        fs::set_permissions(self.sshd.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let command = format!("trap '' TERM; echo $$ > {file}; while :; do sleep 0.2; done");
        let breaking = async {
            while !fs::read_to_string(&file).unwrap().ends_with('\n') {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            breaks(&self.network);
        };
        let (lost, ()) = tokio::join!(self.shell(&command, user), breaking);
        let error = lost.unwrap_err();
        assert!(matches!(error, Error::Indeterminate { rebooted: Some(false), .. }), "{error}");
        fs::read_to_string(&file).unwrap().trim().to_owned()
    }
}

/// A command that succeeds if a process runs. One that has ended may still wait for its parent.
fn runs(process: &str) -> String {
    format!("grep -q '^State:.[^Z]' /proc/{process}/status")
}

#[tokio::test]
async fn next_task_begins_after_the_end_of_the_lost_one() {
    if !available() {
        return;
    }
    // The server notices the first loss at once, and the second one never.
    for breaks in [Network::cut, Network::stall] {
        let site = Site::new();
        let process = site.lose(None, breaks).await;
        let next = site.shell(&runs(&process), None).await.unwrap();
        assert_ne!(next["rc"], 0, "the lost task runs: {next}");
        // Connections after that are not held up.
        site.cut().await;
        assert_eq!(site.shell("echo done", None).await.unwrap()["stdout"], "done");
        site.pool.close().await;
    }
}

#[tokio::test]
async fn next_task_begins_after_the_end_of_the_lost_one_of_another_user() {
    if !available() || !windlass_testing::has("sudo") {
        return;
    }
    let nobody = Become {
        method: BecomeMethod::Sudo,
        user: "nobody".into(),
        exe: None,
        flags: None,
        password: None,
        timeout: 60,
    };
    let site = Site::new();
    let process = site.lose(Some(&nobody), Network::stall).await;
    let next = site.shell(&runs(&process), None).await.unwrap();
    assert_ne!(next["rc"], 0, "the lost task runs: {next}");
    site.pool.close().await;
}

/// A process of a user that looks as if it belonged to the executor.
fn impostor(executor: u32, user: u32, program: &[&str]) -> Child {
    let line = fs::read_to_string(format!("/proc/{executor}/cmdline")).unwrap();
    let word = line.trim_end_matches('\0').rsplit('\0').next().unwrap().to_owned();
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(&word).current_dir(Path::new("/")).uid(user);
    command.process_group(0).stdin(Stdio::piped()).spawn().unwrap()
}

/// A shell that takes the word for an argument.
const SHELL: &[&str] = &["/bin/sh", "-c", "sleep 600; :", "sh"];

fn end(mut process: Child) {
    let group = rustix::process::Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    process.wait().unwrap();
}

#[tokio::test]
async fn task_is_refused_while_something_of_a_lost_executor_does_not_end() {
    if !available() {
        return;
    }
    let site = Site::new();
    let executor = site.pool.hello(&site.target).await.unwrap().pid;
    let process = impostor(executor, 0, SHELL);
    site.cut().await;
    for _ in 0..2 {
        let error = site.shell("touch /never", None).await.unwrap_err();
        let sentence = format!("Nothing was run: process {}, which a lost connection left on this host", process.id());
        assert!(matches!(error, Error::Unreachable { .. }) && error.to_string().contains(&sentence), "{error}");
    }
    end(process);
    assert_eq!(site.shell("echo done", None).await.unwrap()["stdout"], "done");
    site.pool.close().await;
}

#[tokio::test]
async fn process_of_another_user_that_looks_like_a_lost_one_prevents_no_task() {
    if !available() {
        return;
    }
    let site = Site::new();
    let executor = site.pool.hello(&site.target).await.unwrap().pid;
    // `su` waits for the password, as root.
    let processes = [SHELL, &["su", "-", "root"]].map(|program| impostor(executor, 65534, program));
    site.cut().await;
    let warnings = Arc::new(std::sync::Mutex::new(String::new()));
    let written = Arc::clone(&warnings);
    let mut call = Call::new(Request::new("ping", json!({})));
    call.listener = Some(Box::new(move |event| {
        if let TaskEvent::Warning(sentence) = event {
            written.lock().unwrap().push_str(&sentence);
        }
    }));
    site.pool.run(&site.target, call).await.unwrap();
    let sentences = processes.each_ref().map(|process| format!("Process {} of another user", process.id()));
    let warnings = warnings.lock().unwrap().clone();
    assert!(sentences.iter().any(|sentence| warnings.contains(sentence)), "{warnings}");
    processes.into_iter().for_each(end);
    site.pool.close().await;
}
