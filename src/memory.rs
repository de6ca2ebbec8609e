//! Cache for values that every task of every host computes again.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bounded cache. When full, it drops everything: then the keys differ with every host, and no choice of entries would
/// be better.
pub(crate) struct Memory<K, V>(Mutex<BTreeMap<K, V>>);

const MOST: usize = 1000;

impl<K: Ord, V: Clone> Memory<K, V> {
    pub(crate) const fn new() -> Memory<K, V> {
        Memory(Mutex::new(BTreeMap::new()))
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, question: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.lock().get(question).cloned()
    }

    pub(crate) fn keep(&self, question: K, answer: V) {
        let mut known = self.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(question, answer);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
