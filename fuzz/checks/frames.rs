//! Frames of both directions: the readers accept or refuse bytes, agree with each other, and round-trip frames.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use windlass_protocol::{FrameDecoder, Reply, ToExecutor, encode, read_frame};
use windlass_template::Value;

/// Feeds one input to the executor's reader and to the controller's.
pub fn check(data: &[u8]) {
    both::<ToExecutor<Json>>(data);
    both::<Reply<Json>>(data);
    both::<Reply<Value>>(data);
}

fn both<T: Serialize + DeserializeOwned>(data: &[u8]) {
    let read = one_by_one::<T>(data);
    // Pieces as a network delivers them; the input determines their size.
    let size = usize::from(data.first().copied().unwrap_or_default() ^ data.last().copied().unwrap_or_default()) + 1;
    assert_eq!(read, in_pieces::<T>(data, size), "pieces of {size} bytes");
    for (message, blob) in &read {
        let wire = encode(message, blob).unwrap();
        assert_eq!(one_by_one::<Json>(&wire), [(message.clone(), blob.clone())]);
    }
}

/// Frames before the first refused one.
fn one_by_one<T: Serialize + DeserializeOwned>(mut data: &[u8]) -> Vec<(Json, Vec<u8>)> {
    let mut frames = Vec::new();
    loop {
        match read_frame::<T>(&mut data) {
            Ok(Some((message, blob))) => frames.push((serde_json::to_value(message).unwrap(), blob)),
            Ok(None) => return frames,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return frames;
            }
        }
    }
}

fn in_pieces<T: Serialize + DeserializeOwned>(data: &[u8], size: usize) -> Vec<(Json, Vec<u8>)> {
    let mut decoder = FrameDecoder::default();
    let mut frames = Vec::new();
    for piece in data.chunks(size) {
        decoder.extend(piece);
        loop {
            match decoder.next_frame::<T>() {
                Ok(Some((message, blob))) => frames.push((serde_json::to_value(message).unwrap(), blob)),
                Ok(None) => break,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return frames;
                }
            }
        }
    }
    frames
}
