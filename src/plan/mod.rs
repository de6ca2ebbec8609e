//! Progress of hosts through the blocks of a play, and selection of tasks by tags.

mod cursor;
mod tags;

pub use cursor::{Cursor, Position, Selection, Step};
pub use tags::{TagFilter, UNSELECTED};
