//! YAML and JSON: a text is accepted or refused, positions lie inside it, and written values round-trip.

#![no_main]

#[path = "../checks/yaml.rs"]
mod yaml;

libfuzzer_sys::fuzz_target!(|data: &str| yaml::check(data));
