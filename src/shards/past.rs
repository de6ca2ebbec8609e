//! Steps and outcomes of a run so far, for workers that come late.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::outcome::{Extent, SpillFile};

/// Number of messages that are read at once.
const AT_ONCE: usize = 64;

/// Messages in an encrypted file without a name, in their order.
#[derive(Debug)]
pub(super) struct Past {
    file: Arc<SpillFile>,
    messages: Vec<Arc<Extent>>,
}

impl Past {
    /// Creates the file on the disk of temporary files.
    pub(super) fn new() -> io::Result<Past> {
        let file = Arc::new(SpillFile::create(Path::new(&std::env::temp_dir()))?);
        Ok(Past { file, messages: Vec::new() })
    }

    /// Adds a message. Fails if the disk is almost full.
    pub(super) fn add(&mut self, message: &[u8]) -> io::Result<()> {
        self.messages.push(Arc::new(self.file.write(message.to_vec())?));
        Ok(())
    }

    /// Messages from a number on, to be read without holding a lock. Empty at the end.
    pub(super) fn from(&self, number: usize) -> Vec<Arc<Extent>> {
        self.messages.iter().skip(number).take(AT_ONCE).cloned().collect()
    }
}
