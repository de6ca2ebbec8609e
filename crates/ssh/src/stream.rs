//! The byte stream below SSH, with its bytes counted: TCP, a ProxyCommand or a channel of a jump host.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use windlass_guard::{Process, Start, Watched};

use crate::Error;
use crate::config::AddressFamily;
use crate::resolved::Resolved;

/// Number of the server's first bytes that are kept for explaining a failure.
const HEAD: usize = 256;

/// A transport for SSH.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Bytes of one connection on the wire.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    sent: AtomicU64,
    received: AtomicU64,
    head: Mutex<Vec<u8>>,
}

impl Meter {
    /// Bytes sent and received.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    /// First bytes from the server.
    pub(crate) fn head(&self) -> String {
        String::from_utf8_lossy(&self.head.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Bytes per read, the usual size of a packet. russh reads a packet in two parts, its length and the rest.
const READ: usize = 4 << 10;

/// Counts the bytes of a transport.
pub(crate) struct Metered {
    inner: BufReader<Box<dyn Transport>>,
    meter: Arc<Meter>,
}

impl Metered {
    pub(crate) fn new(inner: Box<dyn Transport>, meter: Arc<Meter>) -> Self {
        Self { inner: BufReader::with_capacity(READ, inner), meter }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.inner).poll_read(context, buffer);
        let new = buffer.filled().get(before..).unwrap_or_default();
        let received = self.meter.received.fetch_add(new.len() as u64, Ordering::Relaxed);
        if received < HEAD as u64 && !new.is_empty() {
            let mut head = self.meter.head.lock().unwrap_or_else(PoisonError::into_inner);
            let room = HEAD.saturating_sub(head.len());
            head.extend(new.iter().take(room));
        }
        poll
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = &poll {
            self.meter.sent.fetch_add(*count as u64, Ordering::Relaxed);
        }
        poll
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// Addresses of the wanted family, at least one.
pub(crate) async fn addresses(resolved: &Resolved) -> Result<Vec<SocketAddr>, Error> {
    let unresolved = |reason: String| Error::Resolve { host: resolved.host.clone(), reason };
    let found =
        lookup_host((resolved.host.as_str(), resolved.port)).await.map_err(|error| unresolved(error.to_string()))?;
    let usable: Vec<SocketAddr> = found
        .filter(|address| match resolved.options.address_family.unwrap_or(AddressFamily::Any) {
            AddressFamily::Any => true,
            AddressFamily::V4 => address.is_ipv4(),
            AddressFamily::V6 => address.is_ipv6(),
        })
        .collect();
    if usable.is_empty() { Err(unresolved("it has no address of the wanted family".into())) } else { Ok(usable) }
}

/// Opens a TCP connection to the first address that accepts one.
pub(crate) async fn tcp(resolved: &Resolved, addresses: &[SocketAddr]) -> Result<TcpStream, Error> {
    let failed = |reason: String| Error::Tcp { peer: resolved.peer(), reason };
    let mut last = failed("it has no address".into());
    for address in addresses {
        let attempt = async {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            if let Some(source) = resolved.options.bind_address.as_deref().and_then(|text| text.parse().ok()) {
                socket.bind(SocketAddr::new(source, 0))?;
            }
            socket.connect(*address).await
        };
        match attempt.await {
            Ok(stream) => {
                // Set before the handshake: with Nagle's algorithm, each of its small packets waits 40 ms.
                stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
                return Ok(stream);
            }
            Err(error) => last = failed(error.to_string()),
        }
    }
    Err(last)
}

/// Time a ProxyCommand may take to exit once its input is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Standard input and output of a ProxyCommand; dropping it ends the command.
pub(crate) struct ProxyCommand {
    input: ChildStdin,
    output: ChildStdout,
    _alive: oneshot::Sender<()>,
}

impl ProxyCommand {
    /// Starts the command. The task ends after the command and returns its standard error.
    pub(crate) fn start(command: &str) -> io::Result<(Self, JoinHandle<String>)> {
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
        let start = windlass_guard::start();
        let child = Command::new(shell)
            .arg("-c")
            .arg(format!("exec {command}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut running = Running::of(child, start);
        let child = &mut running.child;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the command has no standard streams"));
        };
        let (_alive, mut gone) = oneshot::channel();
        let complaints = tokio::spawn(async move {
            let mut text = String::new();
            {
                let mut listening = std::pin::pin!(listen(errors, &mut text));
                // `gone` fails when the stream is dropped, which is the only event it signals.
                tokio::select! {
                    () = &mut listening => drop(gone.await),
                    _ = &mut gone => drop(timeout(LAST_WORDS, listening).await),
                }
            }
            running.kill_descendants();
            // An error means that it has already exited.
            let _ = running.child.kill().await;
            text
        });
        Ok((Self { input, output, _alive }, complaints))
    }
}

/// A running ProxyCommand. It is killed with its descendants when this is dropped, or by the guard of this program.
struct Running {
    child: Child,
    process: Option<Process>,
    _watched: Option<Watched>,
}

impl Running {
    fn of(child: Child, start: Start) -> Self {
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let process = id.and_then(|id| Process::of(id.as_raw_nonzero().get()));
        Self { child, process, _watched: id.map(|id| start.watch_tree(id)) }
    }

    fn kill_descendants(&self) {
        if let Some(process) = self.process {
            process.kill_descendants();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_descendants();
    }
}

async fn listen(mut errors: ChildStderr, text: &mut String) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        if text.len() < 4096 {
            text.push_str(&String::from_utf8_lossy(buffer.get(..count).unwrap_or_default()));
        }
    }
}

impl AsyncRead for ProxyCommand {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(context, buffer)
    }
}

impl AsyncWrite for ProxyCommand {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(context)
    }
}
