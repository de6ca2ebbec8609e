//! Bounded reading of files and running of programs on the controller: neither can exhaust its memory or block it for
//! ever.

pub mod child;
mod file;

pub use file::{
    LARGEST_FILE, Source, interrupt, open, own, read, read_from, read_own, read_regular, read_text, read_up_to,
    regular, to_text, was_interrupted,
};
