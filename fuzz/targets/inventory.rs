//! INI inventories: a file is read or refused with a sentence; every host is in `all`.

#![no_main]

#[path = "../checks/inventory.rs"]
mod inventory;

libfuzzer_sys::fuzz_target!(|data: &str| inventory::check(data));
