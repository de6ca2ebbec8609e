//! `key=value` arguments: they are split or refused, and text beside the options of `command` stays unchanged.

#![no_main]

#[path = "../checks/key_value.rs"]
mod key_value;

libfuzzer_sys::fuzz_target!(|data: &str| key_value::check(data));
