//! A memory of what was made of texts, which forgets what nobody asks for any more.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What was made of texts. A generation that is full becomes the old one, and what was not asked for by the time the next one is full
/// is forgotten: a loop that renders a new text each time does not fill the memory, and what a run uses again and again stays.
pub(crate) struct Recent<T> {
    generations: RwLock<Generations<T>>,
    room: usize,
}

struct Generations<T> {
    young: HashMap<Box<str>, T>,
    old: HashMap<Box<str>, T>,
    /// How much of its room the young one has filled.
    filled: usize,
}

/// How many bytes an entry takes: those of its text, and what was made of it, which is some times longer.
fn weight(text: &str) -> usize {
    1024 + 8 * text.len()
}

impl<T: Clone> Recent<T> {
    /// Room for the templates of a large project, several times.
    pub(crate) const ROOM: usize = 32 << 20;

    /// An empty memory; a generation has so many bytes.
    pub(crate) fn new(room: usize) -> Recent<T> {
        let generations = Generations { young: HashMap::new(), old: HashMap::new(), filled: 0 };
        Recent { generations: RwLock::new(generations), room }
    }

    /// What was made of a text.
    pub(crate) fn get(&self, text: &str) -> Option<T> {
        let generations = self.read();
        if let Some(found) = generations.young.get(text) {
            return Some(found.clone());
        }
        let found = generations.old.get(text)?.clone();
        drop(generations);
        Some(self.keep(text, found))
    }

    /// Keeps what was made of a text; the answer is what somebody else made of it in the meantime, if somebody has.
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
    fn what_is_asked_for_stays_and_the_rest_is_forgotten() {
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
    fn of_two_who_make_the_same_the_first_counts() {
        let memory = Recent::new(1 << 20);
        assert_eq!(memory.keep("text", 1), 1);
        assert_eq!(memory.keep("text", 2), 1);
    }
}
