//! Encodes and decodes frames: the lengths of message and blob as two big-endian `u32`, the message in JSON, the blob.
//!
//! Both sides are hostile to each other. A length over its limit is refused before memory is reserved for it, and a
//! message is weighed before it is decoded. Buffers are zeroed, because requests carry secrets.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

use crate::{weight::weigh, wiped::Wiped};

/// Largest accepted JSON message. Stray text on the stream decodes as a larger length.
pub const MAX_MESSAGE: usize = 160 << 20;
/// Largest blob in one frame; larger contents take several frames.
pub const MAX_BLOB: usize = 16 << 20;
/// Largest spare buffer that a decoder keeps between two frames, in bytes.
const KEPT: usize = 256 << 10;
/// Maximum number of bytes of a message in one read.
const PIECE: usize = 64 << 10;
/// Bytes that most messages fit into.
const USUAL: usize = 1 << 10;

/// Errors of reading and writing frames.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other side closed or broke the connection.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The frame's length is over the limit: the stream is corrupt or hostile.
    #[error(
        "a frame of {length} bytes is over the limit of {limit}; something other than the executor wrote to the stream"
    )]
    TooLarge {
        /// Announced length.
        length: usize,
        /// Largest accepted length.
        limit: usize,
    },
    /// The message nests lists and mappings too deep.
    #[error("a message nests lists and mappings deeper than {limit} levels")]
    TooDeep {
        /// Deepest accepted nesting.
        limit: usize,
    },
    /// The values of the message would need too much memory.
    #[error("a message has so many values that they would need more than {} MiB of memory", .limit >> 20)]
    TooHeavy {
        /// Largest accepted estimate, in bytes.
        limit: usize,
    },
    /// The message is not the expected JSON.
    #[error("a message could not be read: {0}")]
    Json(#[from] serde_json::Error),
}

/// Encodes one frame. It may carry a secret, so it is zeroed on drop. Fails if the message is over a limit that the
/// receiver enforces, so that nothing unreadable is sent.
pub fn encode<T: Serialize>(message: &T, blob: &[u8]) -> Result<Wiped, Error> {
    check(blob.len(), MAX_BLOB)?;
    let write = |room: usize| -> Result<Bounded, Error> {
        let mut written = Bounded { buffer: Wiped::with_capacity(8 + room + blob.len()), room, length: 0 };
        written.buffer.extend(&[0; 8]);
        serde_json::to_writer(&mut written, message)?;
        Ok(written)
    };
    let mut written = write(USUAL)?;
    if written.length > written.room {
        // A buffer that grows is copied and takes up to three times the message; now its length is known.
        check(written.length, MAX_MESSAGE)?;
        written = write(written.length)?;
    }
    let Bounded { mut buffer, length, room } = written;
    // The second run of a serializer may differ from the first.
    check(length, room)?;
    weigh(buffer.get(8..).unwrap_or_default())?;
    buffer.set(0, &(length as u32).to_be_bytes());
    buffer.set(4, &(blob.len() as u32).to_be_bytes());
    buffer.extend(blob);
    Ok(buffer)
}

/// Counts written bytes, and keeps them as long as there is room for them.
struct Bounded {
    buffer: Wiped,
    room: usize,
    length: usize,
}

impl Write for Bounded {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.length += bytes.len();
        if self.length <= self.room {
            self.buffer.extend(bytes);
        }
        Ok(bytes.len())
    }

    // Serde writes JSON in very small pieces.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes).map(drop)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes one frame and flushes. Fails like [`encode`], or if the other side has closed the stream.
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
    let message = read_message(reader, json)?;
    let bytes = read_whole(reader, blob)?;
    weigh(&message)?;
    Ok(Some((serde_json::from_slice(&message)?, bytes)))
}

/// Reads a message of `length` bytes, which may carry a secret.
fn read_message(reader: &mut impl Read, length: usize) -> Result<Wiped, Error> {
    let mut message = Wiped::with_capacity(length.min(KEPT));
    let mut piece = Wiped::from(vec![0; length.min(PIECE)]);
    while message.len() < length {
        let wanted = (length - message.len()).min(PIECE);
        let read = piece.fill_from(reader, wanted)?;
        message.extend_up_to(length, &piece[..read]);
    }
    Ok(message)
}

/// Reads `length` bytes. Memory grows with the bytes received, not with the length a header announces.
fn read_whole(reader: &mut impl Read, length: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(length.min(KEPT));
    let read = reader.take(length as u64).read_to_end(&mut bytes)?;
    if read < length { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) } else { Ok(bytes) }
}

/// Extracts frames from bytes that arrive in arbitrary pieces.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Wiped,
    start: usize,
}

/// A complete frame whose message has been weighed but not decoded.
#[derive(Debug)]
pub struct RawFrame {
    /// The frame as it arrived.
    bytes: Wiped,
    /// Bytes of the message, which follow the lengths.
    length: usize,
    blob: Vec<u8>,
    weight: usize,
}

impl RawFrame {
    /// Bytes of the frame on the wire.
    pub fn size(&self) -> usize {
        8 + self.length + self.blob.len()
    }

    /// Estimated bytes of memory for the decoded message and the blob.
    pub fn weight(&self) -> usize {
        self.weight + self.blob.len()
    }

    /// Decodes the message.
    pub fn decode<T: DeserializeOwned>(self) -> Result<(T, Vec<u8>), Error> {
        Ok((serde_json::from_slice(self.bytes.get(8..8 + self.length).unwrap_or_default())?, self.blob))
    }
}

impl FrameDecoder {
    /// Adds received bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        let frame = self.announced().ok().flatten().unwrap_or_default();
        if frame > KEPT && self.start > 0 {
            // A large frame gets a buffer of exactly its size, which is handed over without a copy.
            self.buffer.remove(self.start, KEPT);
            self.start = 0;
        }
        self.buffer.extend_up_to(self.start + frame, bytes);
    }

    /// Announced size of the next frame, in bytes; `None` until its header has arrived.
    pub fn announced(&self) -> Result<Option<usize>, Error> {
        let Some(header) = self.pending().first_chunk::<8>() else { return Ok(None) };
        let (json, blob) = lengths(header)?;
        Ok(Some(8 + json + blob))
    }

    /// The next complete frame, with its message not yet decoded; `None` until all of it has arrived.
    pub fn next_raw(&mut self) -> Result<Option<RawFrame>, Error> {
        let pending = self.pending();
        let Some(header) = pending.first_chunk::<8>() else { return Ok(None) };
        let (json, blob) = lengths(header)?;
        let Some(body) = pending.get(8..8 + json + blob) else { return Ok(None) };
        let (message, bytes) = body.split_at(json);
        let (weight, blob) = (weigh(message)?, bytes.to_vec());
        let end = self.start + 8 + json + blob.len();
        let bytes = if json > KEPT && self.start == 0 {
            // The buffer itself, because a copy of a large message is costly.
            let rest = Wiped::from(self.buffer.get(end..).unwrap_or_default().to_vec());
            std::mem::replace(&mut self.buffer, rest)
        } else {
            let bytes = Wiped::from(self.buffer.get(self.start..end - blob.len()).unwrap_or_default().to_vec());
            self.buffer.wipe(self.start, end);
            self.start = end;
            self.shrink();
            bytes
        };
        Ok(Some(RawFrame { bytes, length: json, blob, weight }))
    }

    /// The next complete frame; `None` until all of it has arrived.
    pub fn next_frame<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Vec<u8>)>, Error> {
        self.next_raw()?.map(RawFrame::decode).transpose()
    }

    fn pending(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Removes consumed bytes once they are many or all, and releases the memory of a large frame.
    fn shrink(&mut self) {
        if self.pending().is_empty() || self.start > 1 << 20 {
            self.buffer.remove(self.start, KEPT);
            self.start = 0;
        }
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
    fn frames_in_arbitrary_pieces_decoded() {
        let mut wire = encode(&vec!["a", "b"], b"content").unwrap().to_vec();
        wire.extend_from_slice(&encode(&vec!["c"], b"").unwrap());
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
    fn login_noise_refused_without_allocation() {
        let mut decoder = FrameDecoder::default();
        decoder.extend(b"Welcome to the machine");
        assert!(matches!(decoder.next_frame::<()>(), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn large_frame_memory_released() {
        let mut decoder = FrameDecoder::default();
        decoder.extend(&encode(&"x".repeat(8 << 20), b"").unwrap());
        decoder.next_frame::<String>().unwrap().unwrap();
        assert!(decoder.buffer.capacity() <= KEPT, "{}", decoder.buffer.capacity());
    }

    #[test]
    fn frames_around_a_large_one_stay_whole() {
        let large = "x\n".repeat(1 << 20);
        let texts = ["before", &large, "after", "last"];
        let wire: Vec<u8> = texts.iter().flat_map(|text| encode(text, b"blob").unwrap().to_vec()).collect();
        let mut decoder = FrameDecoder::default();
        let mut seen = Vec::new();
        for piece in wire.chunks(30_000) {
            decoder.extend(piece);
            while let Some((text, blob)) = decoder.next_frame::<String>().unwrap() {
                assert_eq!(blob, b"blob");
                seen.push(text);
            }
        }
        assert_eq!(seen, texts);
    }

    #[test]
    fn huge_announced_length_allocates_nothing() {
        let mut wire = (MAX_MESSAGE as u32).to_be_bytes().to_vec();
        wire.extend([0, 0, 0, 0, b'[']);
        let mut decoder = FrameDecoder::default();
        decoder.extend(&wire);
        assert!(decoder.next_frame::<()>().unwrap().is_none() && decoder.buffer.capacity() < 100);
        assert!(matches!(read_frame::<()>(&mut wire.as_slice()), Err(Error::Io(_))));
    }

    #[test]
    fn nested_lists_are_refused_before_values_are_built() {
        let lists = format!("[{}[]]", "[],".repeat(5_000_000));
        let mut wire = (lists.len() as u32).to_be_bytes().to_vec();
        wire.extend([0; 4]);
        wire.extend(lists.as_bytes());
        let mut decoder = FrameDecoder::default();
        decoder.extend(&wire);
        assert!(matches!(decoder.next_frame::<serde_json::Value>(), Err(Error::TooHeavy { .. })));
    }
}
