//! Frames of both directions: bytes are read as frames or refused; both readers agree, and what was read is written and read again.

#![no_main]

#[path = "../checks/frames.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|data: &[u8]| frames::check(data));
