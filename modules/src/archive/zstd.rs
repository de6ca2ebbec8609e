//! Decompresses zstd (RFC 8878). The library reads one frame, so consecutive and skippable frames are handled here.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Decompresses zstd data with any number of frames.
pub(super) struct ZstdReader<R: BufRead> {
    state: Option<State<R>>,
}

enum State<R: BufRead> {
    Between(R),
    Inside(Box<StreamingDecoder<R, FrameDecoder>>),
}

impl<R: BufRead> ZstdReader<R> {
    pub(super) fn new(source: R) -> ZstdReader<R> {
        ZstdReader { state: Some(State::Between(source)) }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state.take() {
                None => return Ok(0),
                Some(State::Between(mut source)) => {
                    if source.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    if let Some(length) = skippable(source.fill_buf()?) {
                        io::copy(&mut source.by_ref().take(length), &mut io::sink())?;
                        self.state = Some(State::Between(source));
                        continue;
                    }
                    let decoder = StreamingDecoder::new(source).map_err(io::Error::other)?;
                    self.state = Some(State::Inside(Box::new(decoder)));
                }
                Some(State::Inside(mut decoder)) => match decoder.read(buffer)? {
                    0 => self.state = Some(State::Between(decoder.into_inner())),
                    count => {
                        self.state = Some(State::Inside(decoder));
                        return Ok(count);
                    }
                },
            }
        }
    }
}

/// Length of a skippable frame, including its header.
fn skippable(bytes: &[u8]) -> Option<u64> {
    let magic = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let length = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    (magic & 0xffff_fff0 == 0x184d_2a50).then(|| u64::from(length) + 8)
}
