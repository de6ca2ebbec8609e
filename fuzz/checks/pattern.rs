//! Host patterns: they match each host at most once, or are refused.

use std::cell::LazyCell;
use std::collections::HashSet;

use windlass_inventory::{Inventory, LoadOptions, split_pattern};

thread_local! {
    static INVENTORY: LazyCell<Inventory> = LazyCell::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        std::fs::write(&path, "[web]\nweb[1:3]\n[db]\ndb1\n::1\n[both:children]\nweb\ndb\n").unwrap();
        Inventory::load(&[path.display().to_string()], &LoadOptions::default()).unwrap().0
    });
}

/// Feeds one input.
pub fn check(text: &str) {
    // `@` may name a file of patterns, which would be read from this machine.
    if text.contains('@') {
        return;
    }
    for part in split_pattern(text) {
        assert!(!part.is_empty(), "{text:?}");
    }
    INVENTORY.with(|inventory| match inventory.matching(text) {
        Ok(matches) => {
            let unique: HashSet<_> = matches.hosts.iter().collect();
            assert_eq!(unique.len(), matches.hosts.len(), "{text:?} gives a host twice");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    });
}
