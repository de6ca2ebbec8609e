//! Frames of both directions: the readers accept or refuse bytes, agree with each other, and round-trip frames.

#![no_main]

#[path = "../checks/frames.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|data: &[u8]| frames::check(data));
