//! Frames of both directions: bytes are read or refused, both readers agree, and frames round-trip.

#![no_main]

#[path = "../checks/frames.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|data: &[u8]| frames::check(data));
