//! A byte buffer that leaves no copy of its content in freed memory, which a `Vec` does when it grows.

use std::{
    fmt,
    io::{self, Read},
    ops::Deref,
};

use zeroize::optimization_barrier;

/// Bytes that may hold secrets, such as an encoded frame. They are zeroed when they are consumed, moved to a larger
/// buffer, or dropped, so that no copy of them stays in freed memory.
#[derive(Default)]
pub struct Wiped(Vec<u8>);

impl Wiped {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Appends bytes.
    #[inline]
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.extend_up_to(usize::MAX, bytes);
    }

    /// Appends bytes. The capacity grows with them, but to no more than `most` as long as that is enough.
    #[inline]
    pub(crate) fn extend_up_to(&mut self, most: usize, bytes: &[u8]) {
        let needed = self.0.len() + bytes.len();
        if needed > self.0.capacity() {
            self.move_to(needed.max(most.min(self.0.capacity() * 2)));
        }
        self.0.extend_from_slice(bytes);
    }

    /// Reads up to `wanted` bytes over the first ones, and returns their number, which is not 0.
    pub(crate) fn fill_from(&mut self, reader: &mut impl Read, wanted: usize) -> io::Result<usize> {
        let target = self.0.get_mut(..wanted).unwrap_or_default();
        loop {
            match reader.read(target) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    /// Overwrites bytes.
    pub(crate) fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(target) = self.0.get_mut(at..at + bytes.len()) {
            target.copy_from_slice(bytes);
        }
    }

    /// Zeroes the bytes between two positions.
    pub(crate) fn wipe(&mut self, from: usize, to: usize) {
        if let Some(bytes) = self.0.get_mut(from..to) {
            zero(bytes);
        }
    }

    /// Removes the first bytes. Memory beyond `spare` bytes is released if it is not needed.
    pub(crate) fn remove(&mut self, count: usize, spare: usize) {
        let left = self.0.len().saturating_sub(count);
        self.0.copy_within(count.., 0);
        self.wipe(left, self.0.len());
        self.0.truncate(left);
        if self.0.capacity() > spare.max(left) {
            self.move_to(spare.max(left));
        }
    }

    /// Moves the bytes to a buffer of this capacity. A `Vec` that grows by itself may leave a copy behind.
    fn move_to(&mut self, capacity: usize) {
        let mut other = Vec::with_capacity(capacity);
        other.extend_from_slice(&self.0);
        zero(&mut self.0);
        self.0 = other;
    }
}

/// Zeroes memory that is not read again; the compiler must not remove that.
fn zero(bytes: &mut [u8]) {
    bytes.fill(0);
    optimization_barrier(bytes);
}

impl Drop for Wiped {
    fn drop(&mut self) {
        // Memory beyond the length never holds earlier bytes.
        zero(&mut self.0);
    }
}

impl From<Vec<u8>> for Wiped {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Deref for Wiped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Wiped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Wiped({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wiped_bytes_are_zero_and_others_stay() {
        let mut wiped = Wiped::default();
        wiped.extend(b"secret, next");
        wiped.wipe(0, 8);
        assert_eq!(&*wiped, b"\0\0\0\0\0\0\0\0next");
        wiped.remove(8, 1024);
        assert_eq!(&*wiped, b"next");
        wiped.extend(&[b'x'; 5000]);
        assert!(wiped.starts_with(b"nextx") && wiped.len() == 5004);
        wiped.remove(5000, 16);
        assert_eq!((&*wiped, wiped.capacity()), (&b"xxxx"[..], 16));
    }
}
