//! Memory that is zeroed when it is freed.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr, slice,
};

use zeroize::optimization_barrier;

/// The system's allocator, which zeroes memory before it frees it. A secret then stays in memory only as long as some
/// value holds it, whatever the type of that value, and however often it was copied on the way: decoded frames, JSON,
/// rendered templates, buffers that grow.
///
/// Programs that handle secrets make it their `#[global_allocator]`.
pub struct Zeroing;

// The only unsafe code of the workspace.
#[expect(unsafe_code, reason = "an allocator is an unsafe trait; all calls go to the system's allocator unchanged")]
// SAFETY: blocks come from and go to the system's allocator, with the caller's layout. `realloc` is the trait's own: a
// new block, a copy, and `dealloc`. The system's may leave the bytes of a block that it moves.
unsafe impl GlobalAlloc for Zeroing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the system's allocator needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block has this size, is no longer used by anybody else, and is initialised by the first line.
        unsafe {
            ptr::write_bytes(block, 0, layout.size());
            // Without it, the compiler may remove a write to memory that is freed next.
            optimization_barrier(slice::from_raw_parts(block, layout.size()));
            System.dealloc(block, layout);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, hint::black_box, os::unix::fs::FileExt};

    use super::*;

    #[global_allocator]
    static MEMORY: Zeroing = Zeroing;

    /// Bytes of a secret that its former block still has. The allocator's own data may be at its beginning.
    fn left_at(place: usize, memory: &File) -> usize {
        let mut bytes = [0; 4000];
        memory.read_exact_at(&mut bytes, place as u64).unwrap();
        bytes.iter().filter(|byte| **byte == 0xA5).count()
    }

    #[test]
    fn freed_block_holds_no_secret() {
        let memory = File::open("/proc/self/mem").unwrap();
        let secret = black_box(vec![0xA5_u8; 4000]);
        let place = secret.as_ptr().addr();
        assert_eq!(left_at(place, &memory), 4000);
        drop(secret);
        assert!(left_at(place, &memory) < 32);
    }

    #[test]
    fn grown_buffer_leaves_no_secret_behind() {
        let memory = File::open("/proc/self/mem").unwrap();
        let mut secret = black_box(vec![0xA5_u8; 4000]);
        let place = secret.as_ptr().addr();
        secret.reserve_exact(100_000);
        assert_ne!(secret.as_ptr().addr(), place);
        assert!(left_at(place, &memory) < 32);
        assert!(secret.iter().all(|byte| *byte == 0xA5));
    }
}
