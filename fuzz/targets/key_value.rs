//! `key=value` arguments: they are split or refused, and what is no option of `command` stays as it was.

#![no_main]

#[path = "../checks/key_value.rs"]
mod key_value;

libfuzzer_sys::fuzz_target!(|data: &str| key_value::check(data));
