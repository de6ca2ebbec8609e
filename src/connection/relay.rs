//! Lets a program on this machine, such as rsync, use an open connection. The program starts Windlass as its `ssh`;
//! that process relays the command's streams through a socket to the run.
//!
//! The relay sends the command, preceded by its length, and then the input. The run answers with frames: a type byte, a
//! length of four bytes, and data.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream as Stream;
use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::{Duplex, Exit, Piece};
use crate::error::{Error, Result};

/// Hidden subcommand that runs the relay process.
const COMMAND: &str = "__relay";
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const EXIT: u8 = 3;
/// Maximum length of a command in bytes.
const LONGEST: u32 = 1 << 20;

/// Command line with which a program uses the connection behind a socket, quoted for the shell.
pub fn program(socket: &Path) -> std::io::Result<String> {
    let own = std::env::current_exe()?;
    Ok(shell_words::join([&*own.to_string_lossy(), COMMAND, &*socket.to_string_lossy()]))
}

/// Runs the relay process. `words` are the socket, followed by the arguments that the program passes to `ssh`.
pub fn run(words: &[String]) -> Result<u8> {
    let fail = |error: std::io::Error| Error::new(format!("the connection of the run cannot be used: {error}"));
    let (socket, rest) = words.split_first().ok_or_else(|| Error::new("there is no socket to connect to"))?;
    let command = command(rest);
    // rsync that gives up signals its `ssh` to end immediately. Ignoring the signal lets the host's error message still
    // arrive.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
    let _entered = runtime.enter();
    let _unheard = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1()).map_err(fail)?;
    let mut stream = Stream::connect(socket).map_err(fail)?;
    let length = u32::try_from(command.len()).map_err(|_| Error::new("the command is too long"))?;
    stream.write_all(&length.to_be_bytes()).and_then(|()| stream.write_all(command.as_bytes())).map_err(fail)?;
    let mut sending = stream.try_clone().map_err(fail)?;
    // The thread ends with the process; nothing waits for missing input.
    std::thread::spawn(move || {
        let copied = std::io::copy(&mut std::io::stdin().lock(), &mut sending);
        copied.and_then(|_| sending.shutdown(std::net::Shutdown::Write))
    });
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).map_err(fail)?;
        let [kind, length @ ..] = head;
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut bytes).map_err(fail)?;
        match kind {
            STDOUT => std::io::stdout().write_all(&bytes).and_then(|()| std::io::stdout().flush()).map_err(fail)?,
            STDERR => std::io::stderr().write_all(&bytes).map_err(fail)?,
            _ => return Ok(bytes.first().copied().unwrap_or(255)),
        }
    }
}

/// Extracts the command from `ssh` arguments by removing options and the host.
fn command(words: &[String]) -> String {
    let mut rest = words;
    while let [option, after @ ..] = rest
        && option.starts_with('-')
    {
        // rsync passes `-l user` and no other option with a value.
        rest = if option == "-l" { after.get(1..).unwrap_or_default() } else { after };
    }
    rest.get(1..).unwrap_or_default().join(" ")
}

/// Accepts the next program, and returns its command.
pub async fn accept(listener: &UnixListener) -> std::io::Result<(UnixStream, String)> {
    let (mut stream, _) = listener.accept().await?;
    let length = stream.read_u32().await?;
    if length > LONGEST {
        return Err(std::io::Error::other("the command is too long"));
    }
    let mut command = vec![0; length as usize];
    stream.read_exact(&mut command).await?;
    let command = String::from_utf8(command).map_err(std::io::Error::other)?;
    Ok((stream, command))
}

/// Reports to a program that its command cannot be run.
pub async fn refuse(mut stream: UnixStream, reason: &str) -> std::io::Result<()> {
    send(&mut stream, STDERR, format!("{reason}\n").as_bytes()).await?;
    send(&mut stream, EXIT, &[255]).await
}

/// Relays the streams until the command ends, and returns its exit status.
pub async fn pass(stream: UnixStream, duplex: Duplex, early: &[u8]) -> std::io::Result<u8> {
    let (mut from, mut to) = stream.into_split();
    let Duplex { mut input, mut output } = duplex;
    let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(4);
    let reading = tokio::spawn(async move {
        loop {
            let mut buffer = Vec::with_capacity(64 << 10);
            match from.read_buf(&mut buffer).await {
                Ok(1..) if sender.send(buffer).await.is_ok() => {}
                _ => return,
            }
        }
    });
    let feeding = tokio::spawn(async move {
        while let Some(bytes) = pieces.recv().await {
            if !input.send(bytes).await {
                return;
            }
        }
        input.finish().await;
    });
    send(&mut to, STDOUT, early).await?;
    let mut status = 255;
    while let Some(piece) = output.next().await {
        match piece {
            Piece::Stdout(bytes) => send(&mut to, STDOUT, &bytes).await?,
            Piece::Stderr(bytes) => send(&mut to, STDERR, &bytes).await?,
            Piece::Exit(Exit::Status(code)) => status = u8::try_from(code).unwrap_or(255),
            Piece::Exit(Exit::Signal(_)) => status = 128,
            Piece::Refused => send(&mut to, STDERR, b"the server refused to run a command\n").await?,
        }
    }
    reading.abort();
    feeding.abort();
    send(&mut to, EXIT, &[status]).await?;
    Ok(status)
}

async fn send(stream: &mut (impl tokio::io::AsyncWrite + Unpin), kind: u8, bytes: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    let mut piece = vec![kind];
    piece.extend(length.to_be_bytes());
    piece.extend(bytes);
    stream.write_all(&piece).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_excludes_options_and_host() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(command(&words("-l ada web1 rsync --server . /srv")), "rsync --server . /srv");
        assert_eq!(command(&words("web1 rsync --server . /srv")), "rsync --server . /srv");
        assert_eq!(command(&[]), "");
    }
}
