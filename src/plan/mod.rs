//! What a host does next: its cursor through the blocks of a play.

mod cursor;
mod tags;

pub use cursor::{Cursor, Position, Selection, Step};
pub use tags::{TagFilter, UNSELECTED};
