//! Files that the controller reads whole and programs that it runs, each within limits: no file and no program can fill its memory or hold
//! it up for ever.

pub mod child;
mod file;

pub use file::{LARGEST_FILE, read, read_from, read_text, read_up_to};
