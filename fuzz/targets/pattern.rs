//! Host patterns: they match each host at most once, or are refused.

#![no_main]

#[path = "../checks/pattern.rs"]
mod pattern;

libfuzzer_sys::fuzz_target!(|data: &str| pattern::check(data));
