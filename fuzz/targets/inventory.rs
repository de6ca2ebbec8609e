//! INI inventories: a file is accepted or refused with a sentence, and every host is in `all`.

#![no_main]

#[path = "../checks/inventory.rs"]
mod inventory;

libfuzzer_sys::fuzz_target!(|data: &str| inventory::check(data));
