//! A real sshd on its own port, with its own keys and configuration, run by root for one test.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass_ssh::{ConfigFiles, Destination, HostKeyChecking, Output, Session, Settings};

pub const SSHD: &str = "/usr/sbin/sshd";

/// Whether these tests can run here: they need root and OpenSSH's server.
pub fn available() -> bool {
    windlass_testing::has_all(&["root", "sshd"])
}

pub struct Sshd {
    pub directory: tempfile::TempDir,
    pub port: u16,
    child: Child,
}

impl Sshd {
    pub fn start(extra: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), extra)
    }

    /// A server with an RSA host key of 2048 bits, `rsa` in its directory, besides its usual one.
    pub fn with_rsa_host_key() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("rsa");
        keygen_rsa(&key);
        Self::start_in(directory, &format!("HostKey {}", key.display()))
    }

    fn start_in(directory: tempfile::TempDir, extra: &str) -> Self {
        let path = directory.path();
        keygen(&path.join("host_key"), "");
        keygen(&path.join("id"), "");
        fs::copy(path.join("id.pub"), path.join("authorized_keys")).unwrap();
        fs::create_dir_all("/run/sshd").unwrap();
        fs::create_dir(path.join("home")).unwrap();
        // Another process can take the free port before the server has it.
        for _ in 0..3 {
            let port = free_port();
            let config = format!(
                "{extra}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {0}/host_key\nAuthorizedKeysFile {0}/authorized_keys\nPidFile none\n\
                 StrictModes no\nUsePAM no\nPermitRootLogin yes\nLogLevel DEBUG1\nSetEnv HOME={0}/home\n",
                path.display()
            );
            fs::write(path.join("sshd_config"), config).unwrap();
            if let Some(child) = serve(path, port) {
                return Self { directory, port, child };
            }
        }
        panic!("sshd does not listen: {}", fs::read_to_string(path.join("log")).unwrap());
    }

    /// Kills the listening server and starts another on its port. Open connections survive.
    pub fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = serve(self.directory.path(), self.port).expect("a server listens again");
    }

    /// The process id of the listening sshd.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    pub fn destination(&self) -> Destination {
        Destination { host: "127.0.0.1".into(), port: Some(self.port), user: Some("root".into()) }
    }

    /// Settings with the right key; the host is unknown and new keys are accepted.
    pub fn settings(&self) -> Settings {
        Settings {
            arguments: vec![
                "-o".into(),
                format!("UserKnownHostsFile={}", self.path("known_hosts").display()),
                "-oIdentityAgent=none".into(),
            ],
            identity_file: Some(self.path("id")),
            host_key_checking: Some(HostKeyChecking::AcceptNew),
            config_files: ConfigFiles::None,
            ..Settings::default()
        }
    }

    pub fn known_hosts(&self, text: &str) {
        fs::write(self.path("known_hosts"), text).unwrap();
    }

    pub fn host_public_key(&self) -> String {
        fs::read_to_string(self.path("host_key.pub")).unwrap().trim().to_owned()
    }
}

/// Starts a server with the configuration in this directory and waits until it listens; nothing if it ends instead.
fn serve(directory: &Path, port: u16) -> Option<Child> {
    let log = directory.join("log");
    let file = fs::File::options().create(true).append(true).open(&log).unwrap();
    let before = file.metadata().unwrap().len() as usize;
    let mut child = Command::new(SSHD)
        .args(["-D", "-e", "-f"])
        .arg(directory.join("sshd_config"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .unwrap();
    // A test connection might reach another server on the port, so only the log proves that this one listens.
    let listens = format!("Server listening on 127.0.0.1 port {port}.");
    while !fs::read_to_string(&log).unwrap()[before..].contains(&listens) {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(child)
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn keygen(path: &Path, passphrase: &str) {
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f"]).arg(path));
}

pub fn keygen_rsa(path: &Path) {
    run(Command::new("ssh-keygen").args(["-q", "-t", "rsa", "-b", "2048", "-N", "", "-f"]).arg(path));
}

pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// An ssh-agent with one key; dropping it ends the agent.
pub struct Agent {
    child: Child,
    pub socket: PathBuf,
}

impl Agent {
    pub fn with_key(directory: &Path, key: &Path) -> Self {
        let socket = directory.join("agent");
        let child = Command::new("ssh-agent").args(["-D", "-a"]).arg(&socket).stdout(Stdio::null()).spawn().unwrap();
        // The file exists before the agent listens on it.
        while UnixStream::connect(&socket).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
        run(Command::new("ssh-add").arg("-q").arg(key).env("SSH_AUTH_SOCK", &socket));
        Self { child, socket }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// All output of a command, and its exit.
pub async fn output(session: &Session, command: &str, input: &[u8]) -> (String, String, Option<windlass_ssh::Exit>) {
    let mut channel = session.exec(command, false).await.unwrap();
    assert!(channel.input.send(input.to_vec()).await);
    channel.input.finish().await;
    let (mut stdout, mut stderr, mut exit) = (Vec::new(), Vec::new(), None);
    while let Some(piece) = channel.output.next().await {
        match piece {
            Output::Stdout(bytes) => stdout.extend(bytes),
            Output::Stderr(bytes) => stderr.extend(bytes),
            Output::Exit(status) => exit = Some(status),
            Output::Refused => panic!("the command was refused"),
        }
    }
    // This sshd writes its own debug lines to the same stream.
    let stderr = String::from_utf8_lossy(&stderr);
    let stderr = stderr.split_inclusive('\n').filter(|line| !line.starts_with("debug1: ")).collect();
    (String::from_utf8_lossy(&stdout).into_owned(), stderr, exit)
}

/// A throwaway account with the password `right horse`.
pub struct User {
    pub name: String,
}

impl User {
    pub fn create() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("wl{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        run(Command::new("useradd").args(["--no-create-home", "--shell", "/bin/sh", &name]));
        let mut child = Command::new("chpasswd").stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{name}:right horse\n").as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        Self { name }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        run(Command::new("userdel").args(["--force", &self.name]));
    }
}
