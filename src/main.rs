//! The `windlass` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Passwords are read here, and the hidden verbs are executors and channels of their own.
    windlass_modules::refuse_inspection();
    windlass::cli::main(std::env::args_os().collect())
}
