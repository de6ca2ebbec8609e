//! Vault: any input is decrypted or refused; encrypted text round-trips, and a changed byte is detected.

#![no_main]

#[path = "../checks/vault.rs"]
mod vault;

libfuzzer_sys::fuzz_target!(|data: &[u8]| vault::check(data));
