use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};
use zeroize::Zeroizing;

/// The largest JSON message that is accepted. Text that something else writes begins with bytes that are a larger number.
pub const MAX_MESSAGE: usize = 160 << 20;
/// The largest blob in one frame; larger contents travel in several frames.
pub const MAX_BLOB: usize = 16 << 20;

/// What can be wrong with a frame.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other side closed or broke the connection.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The length of a frame is over the limit: the stream is corrupt or hostile.
    #[error(
        "a frame of {length} bytes is over the limit of {limit}; something other than the executor wrote to the stream"
    )]
    TooLarge {
        /// The length the frame announces.
        length: usize,
        /// The limit it breaks.
        limit: usize,
    },
    /// The message is not the JSON that is expected here.
    #[error("a message could not be read: {0}")]
    Json(#[from] serde_json::Error),
}

/// Encodes one frame.
pub fn encode<T: Serialize>(message: &T, blob: &[u8]) -> Result<Vec<u8>, Error> {
    let mut written = Bounded { buffer: vec![0; 8], length: 0 };
    serde_json::to_writer(&mut written, message)?;
    let Bounded { mut buffer, length } = written;
    check(length, MAX_MESSAGE)?;
    check(blob.len(), MAX_BLOB)?;
    buffer[..4].copy_from_slice(&(length as u32).to_be_bytes());
    buffer[4..8].copy_from_slice(&(blob.len() as u32).to_be_bytes());
    buffer.extend_from_slice(blob);
    Ok(buffer)
}

/// Counts what is written, and keeps it as long as it may still be sent.
struct Bounded {
    buffer: Vec<u8>,
    length: usize,
}

impl Write for Bounded {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.length += bytes.len();
        if self.length <= MAX_MESSAGE {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    // JSON is written in very small pieces.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes).map(drop)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes one frame and flushes.
pub fn write_frame<T: Serialize>(writer: &mut impl Write, message: &T, blob: &[u8]) -> Result<(), Error> {
    writer.write_all(&encode(message, blob)?)?;
    writer.flush()?;
    Ok(())
}

/// Reads one frame; `None` at a clean end of the stream.
pub fn read_frame<T: DeserializeOwned>(reader: &mut impl Read) -> Result<Option<(T, Vec<u8>)>, Error> {
    let mut header = [0; 8];
    let mut filled = 0;
    while filled < header.len() {
        match reader.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (json, blob) = lengths(&header)?;
    // A request may carry a password.
    let mut message = Zeroizing::new(vec![0; json]);
    reader.read_exact(&mut message)?;
    let mut bytes = vec![0; blob];
    reader.read_exact(&mut bytes)?;
    Ok(Some((serde_json::from_slice(&message)?, bytes)))
}

/// Takes frames out of bytes that arrive in arbitrary pieces.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    start: usize,
    taken: u64,
}

impl FrameDecoder {
    /// Adds bytes that have arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The bytes of all frames that were taken out.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The next whole frame, if one has arrived.
    pub fn next_frame<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Vec<u8>)>, Error> {
        let pending = self.buffer.get(self.start..).unwrap_or_default();
        let Some(header) = pending.first_chunk::<8>() else { return Ok(None) };
        let (json, blob) = lengths(header)?;
        let Some(body) = pending.get(8..8 + json + blob) else { return Ok(None) };
        let (message, bytes) = body.split_at(json);
        let frame = (serde_json::from_slice(message)?, bytes.to_vec());
        self.start += 8 + json + blob;
        self.taken += (8 + json + blob) as u64;
        if self.start > 1 << 20 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        Ok(Some(frame))
    }
}

fn lengths(header: &[u8; 8]) -> Result<(usize, usize), Error> {
    let [a, b, c, d, e, f, g, h] = *header;
    let json = u32::from_be_bytes([a, b, c, d]) as usize;
    let blob = u32::from_be_bytes([e, f, g, h]) as usize;
    check(json, MAX_MESSAGE)?;
    check(blob, MAX_BLOB)?;
    Ok((json, blob))
}

fn check(length: usize, limit: usize) -> Result<(), Error> {
    if length > limit { Err(Error::TooLarge { length, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_arbitrary_pieces() {
        let mut wire = encode(&vec!["a", "b"], b"content").unwrap();
        wire.extend(encode(&vec!["c"], b"").unwrap());
        let mut decoder = FrameDecoder::default();
        let mut seen = Vec::new();
        for byte in wire {
            decoder.extend(&[byte]);
            while let Some((message, blob)) = decoder.next_frame::<Vec<String>>().unwrap() {
                seen.push((message, blob));
            }
        }
        assert_eq!(seen, [(vec!["a".into(), "b".into()], b"content".to_vec()), (vec!["c".into()], Vec::new())]);
    }

    #[test]
    fn login_noise_is_an_error_and_not_an_allocation() {
        let mut decoder = FrameDecoder::default();
        decoder.extend(b"Welcome to the machine");
        assert!(matches!(decoder.next_frame::<()>(), Err(Error::TooLarge { .. })));
    }
}
