//! Memory that a forked child must not see.
//!
//! A child inherits its parent's mappings, and no pin or lease of its own with them. When the
//! parent lets go, the daemon gives the memory to other objects, and the child would read those, or
//! write into them. It would also keep memory alive that the daemon has given back. So in a child
//! nothing can be touched where such a mapping was: the addresses stay taken, without memory. An
//! access ends the child with a segmentation fault. It never reads other bytes.
//!
//! ```text
//! parent   map ─► hide(range) ─► ... ─► shown again ─► unmap
//! child    every hidden range: inaccessible, before `fork` returns
//! ```
//!
//! A descriptor of such a memory would keep it alive as well, and lead to it. In a child its number
//! stays taken by a file without content, so that whatever closes it there closes nothing else.
//!
//! The list is read between `fork` and its return, where no lock may be taken: another thread of
//! the parent could have held it. So its entries are claimed and given back by single atomics, and
//! the list only ever grows.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// Ranges in one piece of the list.
const CHUNK: usize = 256;

/// What the first word of an entry says between being claimed and being filled.
const CLAIMED: usize = 1;

/// What the second word of an entry says that is a descriptor, whose number is in the first word
/// above [`FD_ABOVE`].
const IS_FD: usize = usize::MAX;
const FD_ABOVE: usize = CLAIMED + 1;

static FIRST: Chunk = Chunk::new();

#[derive(Debug)]
struct Entry {
    /// The first address; 0 when the entry is free.
    base: AtomicUsize,
    bytes: AtomicUsize,
}

#[derive(Debug)]
struct Chunk {
    entries: [Entry; CHUNK],
    next: AtomicPtr<Chunk>,
}

impl Chunk {
    const fn new() -> Self {
        let free =
            [const { Entry { base: AtomicUsize::new(0), bytes: AtomicUsize::new(0) } }; CHUNK];
        Self { entries: free, next: AtomicPtr::new(ptr::null_mut()) }
    }

    fn next(&self) -> Option<&'static Chunk> {
        // SAFETY: chunks are leaked when they are linked, and never unlinked.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// The chunk after this one, which is made if there is none.
    fn next_or_new(&self) -> &'static Chunk {
        if let Some(next) = self.next() {
            return next;
        }
        let made = Box::into_raw(Box::new(Self::new()));
        let (free, link) = (ptr::null_mut(), Ordering::AcqRel);
        match self.next.compare_exchange(free, made, link, Ordering::Acquire) {
            // SAFETY: it is linked now and lives as long as the process.
            Ok(_) => unsafe { &*made },
            Err(other) => {
                // SAFETY: made above and seen by no other thread.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: linked by another thread, as above.
                unsafe { &*other }
            }
        }
    }
}

/// A range that children do not see. It must be dropped before the range is unmapped.
#[derive(Debug)]
pub(crate) struct HiddenRange(&'static Entry);

impl Drop for HiddenRange {
    fn drop(&mut self) {
        self.0.base.store(0, Ordering::Release);
    }
}

/// Hides a range of this process, which is mapped, from children that are forked from now on.
pub(crate) fn hide(base: *const u8, bytes: usize) -> HiddenRange {
    list(base.addr(), bytes)
}

/// Hides an open descriptor of this process from children that are forked from now on.
pub(crate) fn hide_fd(fd: BorrowedFd<'_>) -> HiddenRange {
    list(fd.as_raw_fd() as usize + FD_ABOVE, IS_FD)
}

fn list(base: usize, bytes: usize) -> HiddenRange {
    let mut chunk = &FIRST;
    loop {
        for entry in &chunk.entries {
            let (free, relaxed) = (0, Ordering::Relaxed);
            if entry.base.load(relaxed) == free
                && entry.base.compare_exchange(free, CLAIMED, Ordering::Acquire, relaxed).is_ok()
            {
                entry.bytes.store(bytes, Ordering::Relaxed);
                // Pairs with the acquire in `close_all`.
                entry.base.store(base, Ordering::Release);
                return HiddenRange(entry);
            }
        }
        chunk = chunk.next_or_new();
    }
}

/// In a child, before `fork` returns: makes every hidden range inaccessible and gives its memory
/// back. Makes system calls only, as a child of a process with threads must.
pub(crate) fn close_all() {
    let mut chunk = Some(&FIRST);
    while let Some(here) = chunk {
        for entry in &here.entries {
            let base = entry.base.load(Ordering::Acquire);
            match entry.bytes.load(Ordering::Relaxed) {
                _ if base <= CLAIMED => {}
                IS_FD => replace(base - FD_ABOVE),
                bytes => close(base, bytes),
            }
        }
        chunk = here.next();
    }
}

/// Puts a file without content in the place of a descriptor.
fn replace(fd: usize) {
    let Ok(empty) = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC) else {
        // Without a descriptor to spare the memory stays until the child ends.
        return;
    };
    // SAFETY: the descriptor is one of this process's own, as every hidden one is, and open: it is
    // shown again before it is closed. Nothing is closed but what it referred to; `dup3` takes
    // numbers only. Where it fails, the memory stays until the child ends.
    let _ = unsafe { libc::dup3(empty.as_raw_fd(), fd as libc::c_int, libc::O_CLOEXEC) };
}

fn close(base: usize, bytes: usize) {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    let base = ptr::without_provenance_mut(base);
    // SAFETY: the range is one of this process's own mappings, as every hidden one is. What pointed
    // there belonged to the parent; using it is a fault from here on, which is what is wanted.
    let closed = unsafe { rustix::mm::mmap_anonymous(base, bytes, ProtFlags::empty(), flags) };
    if closed.is_err() {
        // The kernel has no room for one more mapping. The child may not go on with this memory.
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_used_again_and_never_run_out() {
        let memory = [0u8; 8];
        let first = hide(memory.as_ptr(), 8);
        let entry = ptr::from_ref(first.0);
        let many: Vec<HiddenRange> = (0..3 * CHUNK).map(|_| hide(memory.as_ptr(), 8)).collect();
        drop(first);
        let again = hide(memory.as_ptr(), 8);
        assert_eq!(ptr::from_ref(again.0), entry, "the lowest free one");
        assert!(many.iter().all(|hidden| !ptr::eq(hidden.0, again.0)));
    }
}
