//! Frames between the controller and the executor.
//!
//! A frame is `u32 json_len, u32 blob_len` (big endian), followed by a JSON message and raw bytes. Module arguments are
//! dynamic, so the message is self-describing. File contents travel beside it unencoded.
//!
//! A session starts when the executor prints [`BEGIN_MARKER`] and a random word chosen by the controller. The output of
//! a noisy login shell can therefore not be mistaken for a frame: everything before the marker only serves error
//! messages.

mod answer;
mod frame;
mod lock;
mod message;
mod weight;
mod wiped;

pub use answer::Answer;
pub use frame::{Error, FrameDecoder, MAX_BLOB, MAX_MESSAGE, RawFrame, encode, read_frame, write_frame};
pub use lock::{Holder, LockTerms, Locking, Shard};
pub use message::{
    Become, BecomeMethod, Content, Delivery, Detached, Event, Flight, Former, Hello, OFFER, Offer, Peer, Reply,
    Request, Spent, Stream, TICKET, ToExecutor, Turn,
};
pub use weight::{MAX_DEPTH, MAX_WEIGHT, after_string, weigh};
pub use windlass_secret::Secret;
pub use wiped::Wiped;

/// Printed by the executor, followed by the controller's random word and a newline, before the first frame.
pub const BEGIN_MARKER: &str = "windlass-begin-";

/// Result key of a module that ended without an answer, so that its changes are unknown.
pub const INTERRUPTED: &str = "_windlass_interrupted";

/// Increased with every incompatible change of the messages.
pub const PROTOCOL_VERSION: u32 = 7;
