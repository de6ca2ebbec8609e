//! Receives a content from another host.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use aead_stream::StreamPrimitive;
use sha2::{Digest, Sha256};
use windlass_protocol::{Content, Peer};

use super::{Cipher, PIECE, TAG, cipher, is_too_slow, next_piece, ticket};

/// Time for the connection to the sender.
const CONNECT: Duration = Duration::from_secs(3);
/// Time in which the sender must send some bytes.
const SILENCE: Duration = Duration::from_secs(10);
/// Interval at which a read looks for a cancelled request.
const TICK: Duration = Duration::from_secs(1);

/// A content that arrives from another host. Reading fails unless every byte is as the controller announced.
pub(in crate::serve) struct Taken {
    /// The sender.
    pub(in crate::serve) address: SocketAddr,
    stream: TcpStream,
    cipher: Cipher,
    position: u32,
    left: u64,
    /// The opened piece, and the bytes of it that were read.
    piece: Vec<u8>,
    read: usize,
    hasher: Sha256,
    sha256: String,
    began: Instant,
    cancelled: Arc<AtomicBool>,
}

impl Taken {
    /// Connects to the sender.
    pub(in crate::serve) fn connect(peer: &Peer, content: &Content, cancelled: Arc<AtomicBool>) -> io::Result<Taken> {
        let (ticket, cipher) = (ticket(&peer.ticket)?, cipher(&peer.key)?);
        let mut stream = TcpStream::connect_timeout(&peer.address, CONNECT)?;
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(SILENCE))?;
        stream.write_all(&ticket)?;
        Ok(Taken {
            address: peer.address,
            stream,
            cipher,
            position: 0,
            left: content.size,
            piece: Vec::with_capacity(PIECE + TAG),
            read: 0,
            hasher: Sha256::new(),
            sha256: content.sha256.clone().unwrap_or_default(),
            began: Instant::now(),
            cancelled,
        })
    }

    /// Receives and opens the next piece. After an error there is no piece, so nothing unverified is read.
    fn next(&mut self) -> io::Result<()> {
        let (length, is_last) = next_piece(self.left);
        let mut piece = std::mem::take(&mut self.piece);
        self.read = 0;
        piece.clear();
        piece.resize(length + TAG, 0);
        self.receive(&mut piece)?;
        self.cipher
            .decrypt_in_place(self.position, is_last, &[], &mut piece)
            .map_err(|_| invalid("what it sent was changed on the way"))?;
        self.hasher.update(&piece);
        if is_last && hex::encode(self.hasher.finalize_reset()) != self.sha256 {
            return Err(invalid("it has another content now"));
        }
        self.left -= length as u64;
        self.position += 1;
        self.piece = piece;
        Ok(())
    }

    /// Reads the bytes of an encrypted piece. Fails if the sender is silent, too slow, or the request is cancelled.
    fn receive(&mut self, piece: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        let mut heard = Instant::now();
        while let Some(rest) = piece.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(io::Error::other("the run was cancelled"));
            }
            match self.stream.read(rest) {
                Ok(0) => return Err(invalid("it closed the connection")),
                Ok(count) => {
                    filled += count;
                    heard = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if heard.elapsed() >= SILENCE {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "it sent nothing for 10 s"));
                    }
                }
                Err(error) => return Err(error),
            }
            let received = u64::from(self.position) * PIECE as u64 + filled as u64;
            if is_too_slow(self.began.elapsed(), received) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it sent less than 64 KiB a second"));
            }
        }
        Ok(())
    }
}

impl Read for Taken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            if self.left == 0 {
                return Ok(0);
            }
            self.next()?;
        }
        let piece = self.piece.get(self.read..).unwrap_or_default();
        let count = piece.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), piece.get(..count)) {
            to.copy_from_slice(from);
        }
        self.read += count;
        Ok(count)
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
