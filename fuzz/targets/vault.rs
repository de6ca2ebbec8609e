//! Vault: anything is decrypted or refused; what was encrypted comes back, and not if a byte was changed.

#![no_main]

#[path = "../checks/vault.rs"]
mod vault;

libfuzzer_sys::fuzz_target!(|data: &[u8]| vault::check(data));
