//! The content of an answer: bytes, a part of a file, or what a task sends while it lasts.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// Size of the pieces of a file, in bytes.
const PIECE: usize = 64 << 10;
/// Pieces of a file that are read ahead.
const AHEAD: usize = 4;

/// A part of a file.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) path: PathBuf,
    pub(crate) start: u64,
    pub(crate) size: u64,
}

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Vec<u8>),
    Extent(Extent),
    /// Pieces of unknown number. The client's end of the connection closes the channel.
    Stream(mpsc::Receiver<Vec<u8>>),
}

/// The content as hyper takes it.
pub(super) enum Body {
    Whole(Option<Bytes>),
    /// Pieces of a file, and the bytes that are still to come.
    File(Box<Reading>),
    Stream(mpsc::Receiver<Vec<u8>>),
}

/// A file that a thread reads once the first piece is wanted. A client that asks for the head reads none.
pub(super) struct Reading {
    extent: Option<Extent>,
    pieces: Option<mpsc::Receiver<io::Result<Vec<u8>>>>,
    left: u64,
}

impl Body {
    pub(super) fn of(content: Content) -> Body {
        match content {
            Content::Bytes(bytes) if bytes.is_empty() => Body::Whole(None),
            Content::Bytes(bytes) => Body::Whole(Some(bytes.into())),
            Content::Extent(extent) => {
                Body::File(Box::new(Reading { left: extent.size, extent: Some(extent), pieces: None }))
            }
            Content::Stream(pieces) => Body::Stream(pieces),
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::File(reading) => reading.poll(context),
            Body::Stream(pieces) => {
                pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_none(),
            Body::File(reading) => reading.left == 0,
            Body::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::File(reading) => SizeHint::with_exact(reading.left),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

impl Reading {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(extent) = self.extent.take() {
            let (sender, receiver) = mpsc::channel(AHEAD);
            self.pieces = Some(receiver);
            tokio::task::spawn_blocking(move || read(&extent, &sender));
        }
        let Some(pieces) = &mut self.pieces else { return Poll::Ready(None) };
        match pieces.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(piece))) => {
                self.left = self.left.saturating_sub(piece.len() as u64);
                Poll::Ready(Some(Ok(Frame::data(piece.into()))))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            // A client must not take a part of a file for the whole.
            Poll::Ready(None) if self.left > 0 => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            Poll::Ready(None) => Poll::Ready(None),
        }
    }
}

/// Reads a part of a file until it ends or nobody wants more.
fn read(extent: &Extent, sender: &mpsc::Sender<io::Result<Vec<u8>>>) {
    let opened = File::open(&extent.path).and_then(|mut file| {
        file.seek(SeekFrom::Start(extent.start))?;
        Ok(file.take(extent.size))
    });
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => {
            let _ = sender.blocking_send(Err(error));
            return;
        }
    };
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let read = file.by_ref().take(PIECE as u64).read_to_end(&mut piece);
        let piece = match read {
            Ok(0) => return,
            Ok(_) => Ok(piece),
            Err(error) => Err(error),
        };
        let is_last = piece.is_err();
        if sender.blocking_send(piece).is_err() || is_last {
            return;
        }
    }
}
