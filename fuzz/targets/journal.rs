//! Journals of runs: reading yields typed records, or the damaged line.

#![no_main]

#[path = "../checks/journal.rs"]
mod journal;

libfuzzer_sys::fuzz_target!(|data: &[u8]| journal::check(data));
