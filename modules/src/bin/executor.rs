//! The executor: the controller starts it on a host. It answers requests on standard input and leaves nothing running.

use std::{alloc::System, io::Write, process::ExitCode};

use zeroizing_alloc::ZeroAlloc;

/// Zeroes memory when it is freed. Secrets pass through frames, JSON and templates, which all leave copies.
#[global_allocator]
static MEMORY: ZeroAlloc<System> = ZeroAlloc(System);

fn main() -> ExitCode {
    windlass_modules::refuse_inspection();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", word] | ["serve", word, _] => match windlass_modules::serve(word, "guard") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&error.to_string()),
        },
        ["guard", owner] | ["guard", owner, _] => {
            windlass_guard::run(owner);
            ExitCode::SUCCESS
        }
        ["--version"] => {
            let line = format!("windlass-executor {}\n", env!("CARGO_PKG_VERSION"));
            match std::io::stdout().write_all(line.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        _ => complain(
            "This program is internal to Windlass; do not run it directly. \
             Usage: windlass-executor serve WORD | windlass-executor --version",
        ),
    }
}

fn complain(sentence: &str) -> ExitCode {
    // If this fails, nobody is left to receive the error.
    let _ = writeln!(std::io::stderr(), "{sentence}");
    ExitCode::FAILURE
}
