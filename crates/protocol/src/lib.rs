//! Frames between the controller and the executor.
//!
//! One frame is `u32 json_len, u32 blob_len` (big endian), then a JSON message and raw bytes. Module arguments are dynamic,
//! so the message is self-describing; file contents travel beside it as they are, never encoded.
//!
//! A session starts with the executor printing [`BEGIN_MARKER`] and a random word chosen by the controller, so that a noisy login shell
//! cannot be mistaken for a frame; everything before the marker is noise and kept for error messages only.

mod answer;
mod frame;
mod lock;
mod message;
mod weight;

pub use answer::Answer;
pub use frame::{Error, FrameDecoder, MAX_BLOB, MAX_MESSAGE, RawFrame, encode, read_frame, write_frame};
pub use lock::{Holder, LockTerms, Locking};
pub use message::{
    Become, BecomeMethod, Content, Delivery, Detached, Event, Hello, Reply, Request, Spent, Stream, ToExecutor, Turn,
};
pub use weight::{MAX_DEPTH, MAX_WEIGHT};
pub use windlass_secret::Secret;

/// Printed by the executor, followed by the controller's random word and a newline, before the first frame.
pub const BEGIN_MARKER: &str = "windlass-begin-";

/// Key of a result whose module ended without an answer of its own, so that it is unknown what it changed.
pub const INTERRUPTED: &str = "_windlass_interrupted";

/// Raised with every incompatible change of the messages.
pub const PROTOCOL_VERSION: u32 = 4;
