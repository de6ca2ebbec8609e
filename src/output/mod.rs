//! Events in, text out. This is the one place where a run becomes text, and where secrets are masked.

mod callbacks;
mod default;
mod diff;
mod document;
mod event;
mod json;
mod junit;
mod log;
mod minimal;
mod oneline;
mod palette;
mod printer;
mod profile;
mod screen;
mod shown;
mod timer;
mod timings;
mod trace;
mod tree;
mod verbose;

pub use callbacks::{CALLBACKS, Callback, CallbackOption, Outputs, Role, find_callback};
pub(crate) use event::place;
pub use event::{Event, JobState, Recap, ResultEvent, Spending, Stats, Status};
pub use json::{nice_json, python_json, python_json_as_is};
pub use palette::{Color, Palette};
pub use printer::{Printer, Secrets};
pub(crate) use verbose::tell_details;

/// Turns events into text.
pub trait Output: Send {
    /// Something happened.
    fn event(&mut self, event: &Event);
}
