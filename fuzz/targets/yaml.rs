//! YAML and JSON: a text is read or refused; positions lie inside of it; what is written is read back as the same.

#![no_main]

#[path = "../checks/yaml.rs"]
mod yaml;

libfuzzer_sys::fuzz_target!(|data: &str| yaml::check(data));
