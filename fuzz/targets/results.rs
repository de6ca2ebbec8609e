//! Results of hosts: JSON becomes data of the controller, and only facts have an effect.

#![no_main]

#[path = "../checks/results.rs"]
mod results;

libfuzzer_sys::fuzz_target!(|data: &[u8]| results::check(data));
