//! Converts events to text. This is the only place where a run is rendered and secrets are masked. [`Masker`] masks
//! every event before a callback renders it; the [`Printer`] masks other text.

mod callbacks;
mod change;
mod default;
mod diff;
mod document;
mod durations;
mod event;
mod event_lines;
mod failures;
mod footer;
mod forecast;
mod hidden;
mod host_keys;
mod json;
mod json_lines;
mod junit;
mod junit_xml;
mod lines;
mod log;
mod masked;
mod minimal;
mod oneline;
mod printable;
mod printer;
mod profile;
mod python;
mod queue;
mod screen;
mod secrets;
mod shown;
mod table;
mod timer;
mod timings;
mod trace;
mod tree;
mod verbose;
mod why;

pub use callbacks::{CALLBACKS, Callback, Outputs, Role, find_callback};
pub(crate) use change::{Change, changes, command};
pub(crate) use diff::plain as plain_diff;
pub(crate) use event::place;
pub use event::{Event, JobState, Recap, ResultEvent, Spending, Stats, Status};
pub use event_lines::EVENTS_VERSION;
pub(crate) use failures::first_line;
pub(crate) use footer::terminal_columns;
pub use footer::{Question, end_footer, has_footer, until_continued};
pub use forecast::Forecast;
pub(crate) use hidden::Hidden;
pub(crate) use host_keys::AtTerminal;
pub(crate) use json::nice_json_as_is;
pub use json::{ascii, nice_json, python_json, python_json_as_is};
pub(crate) use junit_xml::{Outcome as JunitOutcome, TestCase, xml as junit_xml};
pub use masked::{Masked, Masker, Shown};
pub(crate) use printable::clipped;
pub use printable::printable;
pub use printer::{Printer, has_failed};
pub use queue::{EventQueue, Events, event_queue, held_events};
pub use secrets::Secrets;
pub(crate) use secrets::{MASK, WORDS, leaves};
pub(crate) use table::{aligned, table};
pub(crate) use verbose::print_details;

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::foreign::PythonPlugins;

/// Renders events as text.
pub trait Output: Send {
    /// Handles a masked event.
    fn event(&mut self, event: &Masked);

    /// Passes the plugins in Python, before the first event.
    fn plugins(&mut self, _plugins: &Arc<PythonPlugins>) -> Result<()> {
        Ok(())
    }

    /// Whether the output prints live output of commands, which is otherwise dropped.
    fn wants_live(&self) -> bool {
        false
    }

    /// Interval at which [`Output::tick`] is called; `None` if it is not needed.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// Called at intervals while no event arrives.
    fn tick(&mut self) {}
}
