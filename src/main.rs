//! The `windlass` program.

use std::process::ExitCode;

#[global_allocator]
static MEMORY: windlass_secret::Zeroing = windlass_secret::Zeroing;

fn main() -> ExitCode {
    // This process reads passwords, and its hidden subcommands are executors and relays with the same need for
    // protection.
    windlass_modules::refuse_inspection();
    windlass::cli::main(std::env::args_os().collect())
}
