//! Journals of runs: reading yields typed records, or the damaged line.

use windlass::journal::{Ledger, Replay, read};

/// Feeds one file.
pub fn check(data: &[u8]) {
    match read(data) {
        Ok(journal) => drop(Replay::new(&journal)),
        Err(damage) => assert!(damage.line > 0 && !damage.message.is_empty()),
    }
    let _ = Ledger::read(data);
}
