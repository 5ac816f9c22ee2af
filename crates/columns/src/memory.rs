//! Bytes and bits that grow in the store.
//!
//! A [`Bytes`] has no memory before something is appended to it; then it is a growing object of its
//! own. Its length is what counts: bytes after it are leftovers of appends that failed halfway and
//! were taken back.

use plasmon_client::{Client, Code, GrowOptions, GrowingObject};

use crate::error::{Error, Result};

/// Where memory comes from and how patiently.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) store: Client,
    pub(crate) options: GrowOptions,
    /// Of the process that it was made in.
    pub(crate) fork: u64,
}

impl Source {
    /// An error in a forked child, which shares the memory with its parent.
    #[inline]
    pub(crate) fn check_ours(&self) -> Result<()> {
        if self.fork == plasmon_client::fork_generation() { Ok(()) } else { Err(forked()) }
    }
}

#[cold]
fn forked() -> Error {
    let detail = "a forked child cannot use its parent's builder: make a new one";
    plasmon_client::Error::new(Code::Forked, "building a column").with_detail(detail).into()
}

/// A buffer of a column.
#[derive(Debug)]
pub(crate) struct Bytes {
    source: Source,
    memory: Option<GrowingObject>,
    length: usize,
    /// The bytes that the object has room for without a request.
    ready: usize,
}

/// How far memory is requested ahead of the bytes: appending value by value checks for memory
/// only once in this many bytes.
const READY_BYTES: usize = 32 << 10;

/// Memory that is requested and never filled. It is free again when the buffer is sealed, so that
/// in a full store there is room for the object that names the buffers.
const END_BYTES: usize = 8 << 10;

impl Bytes {
    pub(crate) fn new(source: &Source) -> Self {
        Self { source: source.clone(), memory: None, length: 0, ready: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The appended bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.memory.as_deref().map_or(&[], |memory| &memory[..self.length])
    }

    /// The appended bytes, writable.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Some(memory) => &mut memory[..self.length],
            None => &mut [],
        }
    }

    /// Makes sure that `bytes` more can be appended without a request.
    #[inline]
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<()> {
        if self.length + bytes <= self.ready { Ok(()) } else { self.reserve_slowly(bytes) }
    }

    #[cold]
    fn reserve_slowly(&mut self, bytes: usize) -> Result<()> {
        let wanted = self.length + bytes;
        let memory = match &mut self.memory {
            Some(memory) => memory,
            None => {
                let known = self.source.options.bytes_hint;
                let options = GrowOptions {
                    bytes_hint: known.max(wanted as u64) + END_BYTES as u64,
                    open_ended: known == 0,
                    ..self.source.options
                };
                self.memory.insert(self.source.store.grow(&options)?)
            }
        };
        memory.ensure(wanted + END_BYTES)?;
        self.ready = (memory.granted() - END_BYTES).min(wanted + READY_BYTES);
        Ok(())
    }

    /// Appends bytes. An error leaves everything as it is.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.reserve(bytes.len())?;
        if let Some(memory) = &mut self.memory {
            memory.write(self.length, bytes);
            self.length += bytes.len();
        }
        Ok(())
    }

    /// Appends `bytes` bytes that `fill` writes.
    #[inline]
    pub(crate) fn extend(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        self.reserve(bytes)?;
        if let Some(memory) = &mut self.memory {
            fill(&mut memory[self.length..self.length + bytes]);
            self.length += bytes;
        }
        Ok(())
    }

    /// Takes back what follows the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// The memory, if anything was appended.
    pub(crate) fn memory(&self) -> Option<&GrowingObject> {
        self.memory.as_ref().filter(|_| self.length > 0)
    }

    /// The memory with its length, if anything was appended.
    pub(crate) fn into_memory(self) -> Option<(GrowingObject, usize)> {
        self.memory.filter(|_| self.length > 0).map(|memory| (memory, self.length))
    }
}

/// A bitmap, least significant bits first.
#[derive(Debug)]
pub(crate) struct Bits {
    bytes: Bytes,
    length: usize,
}

impl Bits {
    pub(crate) fn new(source: &Source) -> Self {
        Self { bytes: Bytes::new(source), length: 0 }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
        self.bytes.truncate(self.length.div_ceil(8));
    }

    /// Appends `count` times the same bit.
    pub(crate) fn push_many(&mut self, bit: bool, count: usize) -> Result<()> {
        self.grow(count)?;
        let (bytes, start) = (self.bytes.as_mut_slice(), self.length);
        let end = start + count;
        let (first, last) = (start.next_multiple_of(8).min(end), end / 8 * 8);
        (start..first).for_each(|at| set(bytes, at, bit));
        if first < last {
            bytes[first / 8..last / 8].fill(if bit { 0xff } else { 0 });
        }
        (last.max(first)..end).for_each(|at| set(bytes, at, bit));
        self.length = end;
        Ok(())
    }

    /// Appends `count` bits of a bitmap from its bit `offset` on.
    pub(crate) fn push_bits(&mut self, bits: &[u8], offset: usize, count: usize) -> Result<()> {
        self.grow(count)?;
        let start = self.length;
        self.length += count;
        let bytes = self.bytes.as_mut_slice();
        arrow_buffer::bit_mask::set_bits(bytes, bits, start, offset, count);
        Ok(())
    }

    /// Makes room for `count` bits, which are zero.
    fn grow(&mut self, count: usize) -> Result<()> {
        let (used, wanted) = (self.length.div_ceil(8), (self.length + count).div_ceil(8));
        self.bytes.truncate(used);
        self.bytes.extend(wanted - used, |into| into.fill(0))?;
        // Leftovers of an append that was taken back.
        if let (rest @ 1..=7, Some(last)) =
            (self.length % 8, self.bytes.as_mut_slice().get_mut(self.length / 8))
        {
            *last &= (1 << rest) - 1;
        }
        Ok(())
    }
}

fn set(bytes: &mut [u8], at: usize, bit: bool) {
    if bit {
        bytes[at / 8] |= 1 << (at % 8);
    } else {
        bytes[at / 8] &= !(1 << (at % 8));
    }
}
