//! Memory that is written from is registered, for providers that send from such memory alone.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::sync::Arc;

use plasmon_fabric::{Place, Provider, SourceCounts, SourceMemory, Window};
use plasmon_testkit::pattern;

use crate::{Side, with_each};

/// Two endpoints of a provider, and a window of so many bytes.
struct Pair {
    target: Side,
    writer: Side,
    bytes: usize,
}

impl Pair {
    fn new(provider: Provider, bytes: usize) -> Self {
        let (target, writer) = (Side::open(provider).unwrap(), Side::open(provider).unwrap());
        Self { target, writer, bytes }
    }

    /// Writes all of a source in parts, several times, and says whether it arrived each time.
    fn write<S: Send + Sync + 'static>(
        &self,
        source: &Arc<S>,
        bytes: impl for<'a> Fn(&'a S) -> &'a [u8] + Copy,
    ) -> bool {
        let peer = self.writer.endpoint.peer(self.target.endpoint.name()).unwrap();
        (0..2).all(|_| {
            let window: Window<Vec<u8>> = self.target.window(vec![0; self.bytes]);
            let starts = (0..self.bytes).step_by(300_000);
            for start in starts.clone() {
                let to = Place { peer, window: window.grant(), offset: start as u64 };
                let part = start..self.bytes.min(start + 300_000);
                let endpoint = &self.writer.endpoint;
                endpoint.write(to, source.clone(), |source| &bytes(source)[part], 0).unwrap();
            }
            starts.for_each(|_| self.writer.next().result.unwrap());
            *window.close().unwrap() == *bytes(source)
        })
    }

    fn counts(&self) -> SourceCounts {
        self.writer.endpoint.source_counts()
    }

    fn hold(&self, source: &Arc<Vec<u8>>) -> Option<SourceMemory> {
        self.writer.endpoint.hold_source(source, Vec::as_slice)
    }
}

/// Whether sources are registered with a provider.
fn registers(provider: Provider) -> bool {
    provider == Provider::Verbs
}

#[test]
fn a_source_is_registered_once_and_closed_before_it_is_let_go() {
    with_each(|provider| {
        let pair = Pair::new(provider, (5 << 20) + 77);
        let source = Arc::new(pattern(31, pair.bytes));
        let (first, second) = (pair.hold(&source), pair.hold(&source));
        assert_eq!(first.is_some(), registers(provider), "{provider}");
        assert_eq!(pair.counts(), SourceCounts::default(), "nothing is written yet");
        assert!(pair.write(&source, Vec::as_slice), "{provider}");
        let one = usize::from(registers(provider));
        let counts = SourceCounts { registered: one as u64, refused: 0, open: one };
        assert_eq!(pair.counts(), counts, "{provider}");
        drop(first);
        assert_eq!(pair.counts(), counts, "{provider}: the other one holds it");
        drop(second);
        assert_eq!(pair.counts(), SourceCounts { open: 0, ..counts }, "{provider}");
        assert_eq!(Arc::strong_count(&source), 1, "{provider}");
        // What is not held is copied, and what is held again is registered again.
        assert!(pair.write(&source, Vec::as_slice), "{provider}");
        assert_eq!(pair.counts(), SourceCounts { open: 0, ..counts }, "{provider}");
        let held = pair.hold(&source);
        assert!(pair.write(&source, Vec::as_slice), "{provider}");
        assert_eq!(pair.counts().registered, 2 * one as u64, "{provider}");
        // The end of the endpoint closes it too.
        pair.writer.endpoint.close().unwrap();
        assert_eq!((pair.counts().open, Arc::strong_count(&source)), (0, 1), "{provider}");
        drop(held);
        assert!(pair.hold(&Arc::new(vec![0; 100])).is_none(), "to copy it is as fast");
    });
}

/// Memory that this process can only read, as the extents of a store are.
struct ReadOnly(*const u8, usize);

// SAFETY: the mapping belongs to no thread, and nothing writes to it.
unsafe impl Send for ReadOnly {}
// SAFETY: as above.
unsafe impl Sync for ReadOnly {}

impl ReadOnly {
    fn new(content: &[u8]) -> Self {
        // SAFETY: the name is a C string, and the descriptor is the file's alone.
        let mut file = unsafe {
            File::from_raw_fd(libc::memfd_create(c"plasmon-test".as_ptr(), libc::MFD_CLOEXEC))
        };
        file.write_all(content).unwrap();
        let (length, fd) = (content.len(), file.as_raw_fd());
        // SAFETY: the kernel chooses an unused place.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        Self(start.cast_const().cast(), length)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as this value.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        unsafe { libc::munmap(self.0.cast_mut().cast(), self.1) };
    }
}

/// Linux before 6.2 registers no shared memory that cannot be written: it is copied then, after one
/// try.
#[test]
fn what_can_only_be_read_is_registered_or_copied() {
    with_each(|provider| {
        let pair = Pair::new(provider, (3 << 20) + 5);
        let source = Arc::new(ReadOnly::new(&pattern(32, pair.bytes)));
        let held = pair.writer.endpoint.hold_source(&source, ReadOnly::bytes);
        assert!(pair.write(&source, ReadOnly::bytes), "{provider}");
        let SourceCounts { registered, refused, open } = pair.counts();
        eprintln!("{provider}: of memory that can only be read {registered} parts are registered");
        assert_eq!(registered + refused, u64::from(registers(provider)), "{provider}");
        assert_eq!(open as u64, registered, "{provider}");
        drop(held);
        assert_eq!((pair.counts().open, Arc::strong_count(&source)), (0, 1), "{provider}");
    });
}
