//! Client of the executor: uploads it, starts it, and multiplexes requests over one channel.
//!
//! A [`Pool`] keeps one connection per [`Target`](crate::connection::Target). [`Pool::run`] sends a request and waits
//! for its answer while other requests share the channel. [`Pool::raw`] runs a bare command without an executor.

mod bare_become;
mod budget;
mod call;
mod contents;
mod counters;
mod error;
mod expected;
mod flight;
mod heartbeat;
mod image;
mod live;
mod lock;
mod peers;
mod pool;
mod raw;
mod received;
mod routes;
mod script;
mod start;

pub use call::{Call, Completed, Cost, Departure, Listener, Source, TaskEvent};
pub use counters::Statistics;
pub use error::Error;
pub use flight::Flights;
pub(crate) use flight::{Part, Sender, TaskFlight, outlive_controller};
pub use heartbeat::Heartbeat;
pub use image::{Extent, Image};
pub use lock::{Lock, LockPolicy};
pub(crate) use pool::LARGEST_FILE;
pub use pool::{Limits, Pool};
pub(crate) use raw::is_under_way as raw_is_under_way;
pub use raw::{Opened, RawCommand, RawOutput};
pub use received::Received;
