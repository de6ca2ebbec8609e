//! Compares `docs/reference/deadlines.md` with the constants and settings of the code.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "common/sources.rs"]
mod sources;

use std::fs;
use std::path::Path;

use regex::Regex;
use sources::rust_files;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A documented wait, its deadline, and the places that set it: a source file, and the code in it.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const DOCUMENTED: &[Row] = &[
    (
        "TCP connection",
        "10 s",
        &[("crates/ssh/src/resolved.rs", "const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);")],
    ),
    ("SSH banner", "30 s", &[("crates/ssh/src/settings.rs", "handshake: Duration::from_secs(30)")]),
    ("SSH authentication", "60 s", &[("crates/ssh/src/settings.rs", "authentication: Duration::from_secs(60)")]),
    ("SSH channel", "30 s", &[("crates/ssh/src/settings.rs", "channel: Duration::from_secs(30)")]),
    (
        "SSH connection that carries nothing",
        "15 s between probes",
        &[("crates/ssh/src/connect.rs", "const ALIVE_INTERVAL: Duration = Duration::from_secs(15);")],
    ),
    (
        "`Match exec`",
        "10 s",
        &[("crates/ssh/src/config/reader.rs", "const EXEC_DEADLINE: Duration = Duration::from_secs(10);")],
    ),
    (
        "Start of the executor",
        "60 s",
        &[("src/executor/start.rs", "const START_DEADLINE: Duration = Duration::from_secs(60);")],
    ),
    (
        "A host that does not answer",
        "after 15 s, unreachable after 120 s",
        &[
            ("src/executor/heartbeat.rs", "Self::lost_after(Some(Duration::from_secs(120)))"),
            ("src/executor/heartbeat.rs", "let quiet = Duration::from_secs(15);"),
            ("src/settings.rs", "\"heartbeat_timeout\", Duration::from_secs(120)"),
        ],
    ),
    (
        "Arrival of one message",
        "120 s",
        &[("src/executor/live.rs", "const ARRIVAL: Duration = Duration::from_secs(120);")],
    ),
    ("Arrival of one message", "64 KiB/s", &[("src/executor/live.rs", "const SLOWEST_ARRIVAL: usize = 64 << 10;")]),
    (
        "End of a `raw` command",
        "3 s each",
        &[("src/connection/duplex.rs", "const GRACE: Duration = Duration::from_secs(3);")],
    ),
    ("Another run's lock", "1800 s", &[("src/settings.rs", "config.number(\"lock_timeout\")?.unwrap_or(1800)")]),
    (
        "Lock of an edited file",
        "300 s",
        &[("modules/src/host_lock/file.rs", "const DEADLINE: Duration = Duration::from_secs(300);")],
    ),
    ("Another run that rewrites the ledger", "10 s", &[("src/journal/ledger.rs", "const PATIENCE: u32 = 10;")]),
    (
        "Reconnection after a lost",
        "20 s",
        &[("src/executor/pool.rs", "const LOOK_DEADLINE: Duration = Duration::from_secs(20);")],
    ),
    (
        "Lookups that run programs",
        "600 s",
        &[("src/settings.rs", "\"command_timeout\", windlass_bounds::child::DEADLINE")],
    ),
    (
        "Password programs",
        "600 s",
        &[("crates/bounds/src/child.rs", "const DEADLINE: Duration = Duration::from_secs(600);")],
    ),
    (
        "End of the executor",
        "5 s",
        &[("src/executor/live.rs", "const END_DEADLINE: Duration = Duration::from_secs(5);")],
    ),
    (
        "End of an SSH connection",
        "5 s",
        &[("src/connection/ssh.rs", "const CLOSE_DEADLINE: Duration = Duration::from_secs(5);")],
    ),
    (
        "End of all connections after a signal",
        "10 s",
        &[("src/cli/session.rs", "const CLOSING: Duration = Duration::from_secs(10);")],
    ),
    (
        "Answer to the question about a host key",
        "300 s",
        &[("src/connection/host_keys.rs", "const ANSWER_DEADLINE: Duration = Duration::from_secs(300);")],
    ),
    (
        "Name lookup on a host",
        "30 s",
        &[("modules/src/net/resolve.rs", "const DEADLINE: Duration = Duration::from_secs(30);")],
    ),
    (
        "Processes of a stopped task",
        "3 s",
        &[("modules/src/process.rs", "const GRACE: Duration = Duration::from_secs(3);")],
    ),
];

#[test]
fn documented_deadlines_are_those_of_the_code() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/reference/deadlines.md")).unwrap();
    let mut wrong = Vec::new();
    for (wait, deadline, places) in DOCUMENTED {
        let row = page.lines().find(|line| line.starts_with(&format!("| {wait}")));
        let cell = row.and_then(|row| row.split('|').nth(2)).unwrap_or_default();
        if !cell.contains(deadline) {
            wrong.push(format!("the row `{wait}` does not have `{deadline}`"));
        }
        for (file, code) in *places {
            if !fs::read_to_string(Path::new(ROOT).join(file)).unwrap().contains(code) {
                wrong.push(format!("{file} no longer has `{code}`, on which the row `{wait}` depends"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn constant_that_names_a_deadline_is_documented() {
    let constant = Regex::new(r"const [A-Z_]*DEADLINE: (?:std::time::)?Duration = [^;]+;").unwrap();
    let mut missing = Vec::new();
    for file in rust_files(&["src", "crates", "modules/src"]) {
        let text = fs::read_to_string(&file).unwrap();
        let shown = file.strip_prefix(ROOT).unwrap().display().to_string();
        for found in constant.find_iter(&text).map(|found| found.as_str()) {
            // Output, not an answer, is awaited: the warning is dropped afterwards.
            let is_documented = found.contains("SHOWN_DEADLINE")
                || DOCUMENTED
                    .iter()
                    .flat_map(|(_, _, places)| *places)
                    .any(|(file, code)| *file == shown && *code == found);
            if !is_documented {
                missing.push(format!("{shown}: {found}"));
            }
        }
    }
    assert!(missing.is_empty(), "deadlines without a row in docs/reference/deadlines.md:\n{}", missing.join("\n"));
}
