//! The journal of a run: typed records, or the line that is damaged.

use windlass::journal::{Ledger, Replay, read};

/// Feeds one file.
pub fn check(data: &[u8]) {
    match read(data) {
        Ok(journal) => drop(Replay::new(&journal)),
        Err(damage) => assert!(damage.line > 0 && !damage.message.is_empty()),
    }
    let _ = Ledger::read(data);
}
