//! Contents that hosts pass on to each other, so that the controller sends each of them only once or twice.
//!
//! The controller decides which host sends a content to which, and gives both of them a ticket and a key for this one
//! transfer. The receiver connects and sends the ticket. The sender answers with the content in pieces of [`PIECE`]
//! bytes, each sealed with ChaCha20-Poly1305 in the STREAM construction, which detects pieces that are missing or out
//! of order. The receiver knows size and SHA-256 of the content from its request, so it need not trust the sender.

mod send;
mod take;
#[cfg(test)]
mod tests;

use std::{io, time::Duration};

use aead_stream::{NewStream, StreamBE32};
use chacha20poly1305::ChaCha20Poly1305;
use windlass_protocol::{Secret, TICKET};

pub(crate) use send::Kept;
pub(super) use take::Taken;

/// Bytes of the content in one sealed piece; the last one may have fewer.
const PIECE: usize = 64 << 10;
/// Slowest acceptable rate on average, in bytes per second, after [`MEASURED_AFTER`].
const SLOWEST: u64 = 64 << 10;
/// Time before the rate is judged.
const MEASURED_AFTER: Duration = Duration::from_secs(30);
/// Bytes that sealing adds to a piece.
const TAG: usize = 16;

type Cipher = StreamBE32<ChaCha20Poly1305>;

/// The cipher of one transfer. The nonce can be constant, because no key serves twice.
fn cipher(key: &Secret) -> io::Result<Cipher> {
    let key: [u8; 32] = bytes(key.expose())?;
    Ok(Cipher::new(&key.into(), &[0; 7].into()))
}

fn ticket(text: &str) -> io::Result<[u8; TICKET]> {
    bytes(text)
}

fn bytes<const LENGTH: usize>(text: &str) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "the controller sent no valid key for the transfer")
    })?;
    Ok(bytes)
}

/// Whether a transfer that has moved so many bytes in this time ends, because one side holds up the other.
fn is_too_slow(elapsed: Duration, bytes: u64) -> bool {
    elapsed > MEASURED_AFTER && bytes < SLOWEST * elapsed.as_secs()
}

/// Bytes of the piece that begins where `left` bytes remain, and whether it is the last one.
fn next_piece(left: u64) -> (usize, bool) {
    match usize::try_from(left) {
        Ok(left) if left <= PIECE => (left, true),
        _ => (PIECE, false),
    }
}
