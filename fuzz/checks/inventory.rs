//! INI inventories: a file is accepted or refused with a sentence, and every host is in `all`.

use std::cell::RefCell;
use std::path::PathBuf;

use windlass_inventory::{Inventory, LoadOptions};

thread_local! {
    static PLACE: RefCell<Option<(tempfile::TempDir, PathBuf, LoadOptions)>> = const { RefCell::new(None) };
}

/// Feeds one input.
pub fn check(text: &str) {
    PLACE.with_borrow_mut(|place| {
        let (_, path, options) = place.get_or_insert_with(|| {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let path = folder.path().join("hosts");
            let enabled = vec!["ini".to_owned()];
            (folder, path, LoadOptions { enabled, unparsed_is_error: true, ..LoadOptions::default() })
        });
        std::fs::write(&*path, text).unwrap();
        match Inventory::load(&[path.display().to_string()], options) {
            Ok((inventory, _)) => {
                for host in inventory.hosts() {
                    assert!(inventory.groups_of(host).iter().any(|group| &**group.name() == "all"), "{text:?}");
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}
