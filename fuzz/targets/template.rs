//! Templates: they are rendered or refused.

#![no_main]

#[path = "../checks/template.rs"]
mod template;

libfuzzer_sys::fuzz_target!(|data: &str| template::check(data));
