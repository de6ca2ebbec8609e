//! Limits on the unpacked size of an archive.

use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

use rustix::fs::StatVfsMountFlags;

use crate::Failure;

/// Maximum number of members.
const MAX_MEMBERS: u64 = 5_000_000;
/// Largest ratio of unpacked to packed size. A tar archive of zeros, which gzip shrinks 1,000 times, stays below it.
const MAX_RATIO: u64 = 2_000;
/// Unpacked bytes that every archive may have, even a small one.
const ALWAYS: u64 = 4 << 30;

/// Budget of the bytes and members that one archive unpacks to.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    limit: u64,
    read: Rc<Cell<u64>>,
    members: Rc<Cell<u64>>,
}

impl Budget {
    /// The budget for an archive of this packed size.
    pub(super) fn of(packed: u64) -> Budget {
        Budget::with_limit(packed.saturating_mul(MAX_RATIO).max(ALWAYS))
    }

    fn with_limit(limit: u64) -> Budget {
        Budget { limit, read: Rc::default(), members: Rc::default() }
    }

    /// Counts a member.
    pub(super) fn member(&self) -> Result<(), Failure> {
        self.members.set(self.members.get() + 1);
        if self.members.get() <= MAX_MEMBERS {
            return Ok(());
        }
        Err(Failure::new(format!(
            "The archive has more than {MAX_MEMBERS} members. Unpack a part of it with include, or run the archive's own program with the command module."
        )))
    }

    /// Wraps a reader to count its bytes.
    pub(super) fn metered<R: Read>(&self, inner: R) -> Metered<R> {
        Metered { inner, budget: self.clone() }
    }
}

/// Reader that fails once its archive exceeds the budget.
pub(super) struct Metered<R> {
    inner: R,
    budget: Budget,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let read = &self.budget.read;
        read.set(read.get().saturating_add(count as u64));
        if read.get() <= self.budget.limit {
            return Ok(count);
        }
        Err(io::Error::other(format!(
            "it unpacks to more than {} bytes, {MAX_RATIO} times its own size, like archives that are made to fill a disk; if you trust it, unpack it with its own program, run by the command module",
            self.budget.limit
        )))
    }
}

/// Fails before anything is written if the destination lacks the space.
pub(super) fn check_room(needed: u64, dest: &std::path::Path) -> Result<(), Failure> {
    let Ok(found) = rustix::fs::statvfs(dest) else { return Ok(()) };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    // A read-only file system fails when the first file is written.
    if needed <= free || found.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "The archive needs {needed} bytes in {}, which has {free} bytes free. Nothing was unpacked.",
        dest.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_that_yields_too_much_fails_in_words() {
        let budget = Budget::with_limit(100);
        let mut bytes = Vec::new();
        budget.metered(&[0; 60][..]).read_to_end(&mut bytes).unwrap();
        let error = budget.metered(io::repeat(0)).read_to_end(&mut bytes).unwrap_err();
        assert!(error.to_string().contains("more than 100 bytes") && bytes.len() < 10_000, "{error}");
    }

    #[test]
    fn destination_without_space_named_in_failure() {
        let message = check_room(u64::MAX, std::path::Path::new("/")).unwrap_err().message;
        assert!(message.contains("bytes free. Nothing was unpacked."), "{message}");
        check_room(0, std::path::Path::new("/")).unwrap();
    }
}
