//! Inventories, each of which describes a cluster.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_inventory::Inventory;

use crate::error::Result;

/// Reads an inventory. Returns its warnings too.
pub type Reader = Box<dyn Fn() -> Result<(Inventory, Vec<String>)> + Send + Sync>;

/// Time after which an inventory is read again. Reading may run a script.
const FRESH: Duration = Duration::from_secs(30);

/// An inventory that is read when a page needs it.
pub struct Cluster {
    pub(super) name: String,
    /// Sources of the inventory, as `-i` names them.
    pub(super) sources: Vec<String>,
    /// Folders of its sources, where `playbooks/verify.yml` writes its report.
    pub(super) folders: Vec<PathBuf>,
    read: Reader,
    known: Mutex<Option<(Instant, Arc<Loaded>)>>,
}

/// An inventory at the time when it was read.
pub(super) struct Loaded {
    /// The inventory, or a sentence about why it cannot be read.
    pub(super) inventory: std::result::Result<Inventory, String>,
    pub(super) warnings: Vec<String>,
    /// Time in UTC.
    pub(super) at: String,
}

impl Cluster {
    /// A cluster with the name, the sources, their folders and the reader of its inventory.
    pub fn new(name: String, sources: Vec<String>, folders: Vec<PathBuf>, read: Reader) -> Cluster {
        Cluster { name, sources, folders, read, known: Mutex::default() }
    }

    /// The inventory, read again if that was some time ago.
    pub(super) fn loaded(&self) -> Arc<Loaded> {
        // Held while it is read, so that one request reads it for all.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, loaded)) = known.as_ref().filter(|(then, _)| then.elapsed() < FRESH) {
            return Arc::clone(loaded);
        }
        let at = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        let loaded = Arc::new(match (self.read)() {
            Ok((inventory, warnings)) => Loaded { inventory: Ok(inventory), warnings, at },
            Err(error) => Loaded { inventory: Err(error.to_string()), warnings: Vec::new(), at },
        });
        *known = Some((Instant::now(), Arc::clone(&loaded)));
        loaded
    }
}
