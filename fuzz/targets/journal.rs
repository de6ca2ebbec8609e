//! The journal of a run: typed records, or the line that is damaged.

#![no_main]

#[path = "../checks/journal.rs"]
mod journal;

libfuzzer_sys::fuzz_target!(|data: &[u8]| journal::check(data));
