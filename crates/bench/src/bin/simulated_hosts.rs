//! Simulates thousands of hosts on one machine: a single SSH server answers on every address of 127.0.0.0/8. Each
//! connection starts an executor process of its own, as a real host does. An sshd needs two processes and several
//! megabytes for each login, which is too much for 5,000 of them.
//!
//!     simulated-hosts PORT HOST_KEY FOLDER
//!
//! /bin/sh runs the commands, as a login shell would, until FOLDER holds an executor (`.windlass-*/executor-*`). After
//! that the server starts the executor directly: all hosts share one disk, and the shell would hash the same file
//! thousands of times. Every login is accepted.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

use russh::keys::load_secret_key;
use russh::server::{Auth, ChannelOpenHandle, Config, Handle, Handler, Msg, Session, VerifiedPublicKey, run_stream};
use russh::{Channel, ChannelId};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::process::Command;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, key, folder] = arguments.as_slice() else {
        return failed(&"usage: simulated-hosts PORT HOST_KEY FOLDER".into());
    };
    match serve(port, key, folder).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

#[expect(clippy::print_stderr, reason = "a program says why it ends")]
fn failed(error: &Error) -> ExitCode {
    eprintln!("simulated-hosts: {error}");
    ExitCode::FAILURE
}

async fn serve(port: &str, key: &str, folder: &str) -> Result<(), Error> {
    let config = Arc::new(Config {
        keys: vec![load_secret_key(key, None)?],
        auth_rejection_time_initial: Some(std::time::Duration::ZERO),
        inactivity_timeout: None,
        nodelay: true,
        ..Config::default()
    });
    let folder: Arc<Path> = Path::new(folder).into();
    let listener = TcpListener::bind(("0.0.0.0", port.parse()?)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (config, host) = (config.clone(), Host { folder: folder.clone(), channel: None });
        tokio::spawn(async move {
            // An error means that the controller has disconnected; its executor then ends by itself.
            if let Ok(session) = run_stream(config, stream, host).await {
                let _ = session.await;
            }
        });
    }
}

struct Host {
    folder: Arc<Path>,
    channel: Option<Channel<Msg>>,
}

impl Handler for Host {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, _user: &str, _key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channel = Some(channel);
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(&mut self, id: ChannelId, command: &[u8], session: &mut Session) -> Result<(), Self::Error> {
        let Some(channel) = self.channel.take() else { return session.channel_failure(id) };
        let started = command_of(&String::from_utf8_lossy(command), &self.folder)
            .and_then(|command| start(channel, command, session.handle()));
        if started.is_ok() { session.channel_success(id) } else { session.channel_failure(id) }
    }
}

/// The command to start for a command line: the executor itself if it is known, otherwise the shell.
fn command_of(line: &str, folder: &Path) -> std::io::Result<Command> {
    // The random word the executor has to repeat comes after the script and the name of the shell.
    let word = line.split("' 'sh' '").nth(1).and_then(|rest| rest.split('\'').next());
    if let (Some(word), Some(executor)) = (word, executor(folder, line)?) {
        let mut command = Command::new(executor);
        command.args(["serve", word]);
        return Ok(command);
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]);
    Ok(command)
}

/// The executor whose hash the command line names.
fn executor(folder: &Path, line: &str) -> std::io::Result<Option<PathBuf>> {
    for place in folder.read_dir()? {
        for file in place?.path().read_dir()? {
            let path = file?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.strip_prefix("executor-").is_some_and(|hash| line.contains(hash)) {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

/// Runs a command on a channel. One socket instead of two pipes saves descriptors, since thousands of commands run.
fn start(channel: Channel<Msg>, mut command: Command, handle: Handle) -> std::io::Result<()> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut ours = UnixStream::from_std(ours)?;
    let input = OwnedFd::from(theirs.try_clone()?);
    let mut child =
        command.stdin(input).stdout(OwnedFd::from(theirs)).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
    // The command has the other end of the socket as long as it lives.
    drop(command);
    tokio::spawn(async move {
        let id = channel.id();
        // Errors mean that the connection is gone.
        let mut stream = channel.into_stream();
        let _ = copy_bidirectional(&mut stream, &mut ours).await;
        drop(ours);
        let status = child.wait().await.ok().and_then(|status| status.code()).unwrap_or(255);
        let _ = handle.exit_status_request(id, status.unsigned_abs()).await;
        let _ = handle.close(id).await;
    });
    Ok(())
}
