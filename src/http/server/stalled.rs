//! A connection that fails once its client has not taken anything for some time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// Time that a client may leave an answer unread.
const SILENCE: Duration = Duration::from_secs(30);

/// A connection with a deadline for writes. Reads have none of their own: the head of a request has one, and while an
/// answer is sent, a client has nothing to say.
pub(super) struct Stalled {
    stream: TcpStream,
    silence: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Whether a write waits.
    waits: bool,
}

impl Stalled {
    pub(super) fn new(stream: TcpStream) -> Stalled {
        Stalled::within(stream, SILENCE)
    }

    /// A connection whose client may leave an answer unread for a time.
    fn within(stream: TcpStream, silence: Duration) -> Stalled {
        Stalled { stream, silence, deadline: Box::pin(tokio::time::sleep(silence)), waits: false }
    }

    /// Fails a write that has waited for too long.
    fn limited<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waits = false;
            return outcome;
        }
        if !self.waits {
            self.waits = true;
            let end = Instant::now() + self.silence;
            self.deadline.as_mut().reset(end);
        }
        self.deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stalled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stalled {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn client_that_reads_nothing_loses_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut stalled = Stalled::within(stream, Duration::from_millis(20));
        let error = loop {
            if let Err(error) = stalled.write_all(&[0; 1 << 20]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(client);
    }
}
