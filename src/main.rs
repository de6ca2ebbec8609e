//! The `windlass` program.

use std::alloc::System;
use std::process::ExitCode;

use zeroizing_alloc::ZeroAlloc;

/// Zeroes memory when it is freed. Secrets pass through frames, JSON and templates, which all leave copies.
#[global_allocator]
static MEMORY: ZeroAlloc<System> = ZeroAlloc(System);

fn main() -> ExitCode {
    // This process reads passwords, and its hidden subcommands are executors and relays with the same need for
    // protection.
    windlass_modules::refuse_inspection();
    windlass::cli::main(std::env::args_os().collect())
}
