//! A cache by text that drops entries after a period without use.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A cache with two generations. When the young one is full it replaces the old one, so entries not used meanwhile are
/// dropped. A loop that renders a new text each time does not fill the memory, and texts in regular use stay.
pub(crate) struct Recent<T> {
    generations: RwLock<Generations<T>>,
    room: usize,
}

struct Generations<T> {
    young: HashMap<Box<str>, T>,
    old: HashMap<Box<str>, T>,
    /// Bytes used in the young generation.
    filled: usize,
}

/// Estimated bytes of an entry: its text, and its value, which is several times longer.
fn weight(text: &str) -> usize {
    1024 + 8 * text.len()
}

impl<T: Clone> Recent<T> {
    /// Bytes of a generation, several times the need of a large project.
    pub(crate) const ROOM: usize = 32 << 20;

    /// Creates an empty cache with `room` bytes for each generation.
    pub(crate) fn new(room: usize) -> Recent<T> {
        let generations = Generations { young: HashMap::new(), old: HashMap::new(), filled: 0 };
        Recent { generations: RwLock::new(generations), room }
    }

    /// Looks up an entry.
    pub(crate) fn get(&self, text: &str) -> Option<T> {
        let generations = self.read();
        if let Some(found) = generations.young.get(text) {
            return Some(found.clone());
        }
        let found = generations.old.get(text)?.clone();
        drop(generations);
        Some(self.keep(text, found))
    }

    /// Adds an entry; returns the existing one if another thread was faster.
    pub(crate) fn keep(&self, text: &str, made: T) -> T {
        let mut generations = self.write();
        if let Some(found) = generations.young.get(text) {
            return found.clone();
        }
        generations.filled += weight(text);
        if generations.filled > self.room {
            generations.old = std::mem::take(&mut generations.young);
            generations.filled = weight(text);
        }
        generations.young.insert(text.into(), made.clone());
        made
    }

    fn read(&self) -> RwLockReadGuard<'_, Generations<T>> {
        self.generations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Generations<T>> {
        self.generations.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_entries_kept_unused_dropped() {
        let memory = Recent::new(100 * weight("text-000"));
        memory.keep("text-usual", 0);
        for number in 1..1000 {
            memory.keep(&format!("text-{number:03}"), number);
            assert_eq!(memory.get("text-usual"), Some(0));
        }
        assert_eq!(memory.get("text-001"), None);
        assert_eq!(memory.get("text-999"), Some(999));
        let generations = memory.read();
        assert!(generations.young.len() + generations.old.len() <= 200);
    }

    #[test]
    fn concurrent_entry_first_one_wins() {
        let memory = Recent::new(1 << 20);
        assert_eq!(memory.keep("text", 1), 1);
        assert_eq!(memory.keep("text", 2), 1);
    }
}
