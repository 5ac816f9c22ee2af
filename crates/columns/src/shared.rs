//! Buffers of arrow-rs in the store.
//!
//! A [`SharedBuffer`] is written like a `Vec<u8>` and becomes an [`arrow_buffer::Buffer`] where it
//! is, for arrays of any kind. [`SharedAllocator::put`] makes an object of record batches: buffers
//! that the allocator made become members in place, others are copied.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, SchemaRef};
use plasmon_client::{Client, GrowOptions, GrowingObject, PutOptions, ReadOnlyMemory};
use plasmon_proto::value::table_kind;

use crate::composite;
use crate::error::Result;
use crate::ipc_encode::StreamPieces;
use crate::pool::ShareOutcome;

/// The buffers that an allocator made and that are still in use, by address.
type Registry = Mutex<BTreeMap<usize, Weak<LentBuffer>>>;

/// Makes buffers in the store. Clones are the same allocator.
#[derive(Clone, Debug)]
pub struct SharedAllocator {
    store: Client,
    known: Arc<Registry>,
}

/// A buffer that was lent to arrays.
#[derive(Debug)]
struct LentBuffer {
    memory: ReadOnlyMemory,
    known: Arc<Registry>,
    /// Keeps the object that it is part of for as long as the arrays are in use here.
    pin: OnceLock<plasmon_client::Buffer>,
}

/// One reference to a lent buffer, for `bytes`.
struct Owner(Arc<LentBuffer>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.memory
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        let address = self.memory.as_ptr() as usize;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
    }
}

impl SharedAllocator {
    /// An allocator in this store. Not for stores of level strict.
    pub fn new(store: &Client) -> Self {
        Self { store: store.clone(), known: Arc::default() }
    }

    /// An empty buffer with memory for `capacity` bytes; it grows where it is.
    pub fn buffer(&self, capacity: usize) -> Result<SharedBuffer> {
        let bytes_hint = capacity as u64;
        let options = GrowOptions { bytes_hint, owned: true, ..GrowOptions::default() };
        let memory = self.store.grow(&options)?;
        Ok(SharedBuffer { memory, length: 0, known: Arc::clone(&self.known) })
    }

    /// A buffer with these values: one copy, here, and none later.
    pub fn copy_of<T: arrow_buffer::ArrowNativeType>(&self, values: &[T]) -> Result<Buffer> {
        use arrow_buffer::ToByteSlice;
        let bytes = values.to_byte_slice();
        let mut buffer = self.buffer(bytes.len())?;
        buffer.extend_from_slice(bytes)?;
        Ok(buffer.into_buffer())
    }

    /// Makes an object of the batches: buffers of this allocator stay where they are.
    pub fn put(
        &self,
        schema: &SchemaRef,
        batches: &[RecordBatch],
        options: &PutOptions,
    ) -> Result<ShareOutcome> {
        composite::check_free(&self.store, options)?;
        let rare = || ArrowError::NotYetImplemented("sharing a table of this schema".to_owned());
        let stream = StreamPieces::of(schema, batches)?.ok_or_else(rare)?;
        let mut used: Vec<Arc<LentBuffer>> = Vec::new();
        let mut numbers = BTreeMap::new();
        for buffer in stream.buffers() {
            if let Some(lent) = self.find(buffer) {
                lent.memory.seal()?;
                numbers.entry(lent.memory.as_ptr() as usize).or_insert_with(|| {
                    used.push(Arc::clone(&lent));
                    used.len() as u32 - 1
                });
            }
        }
        let made = composite::scatter(&stream, |piece| {
            let lent = self.find(piece)?;
            let start = lent.memory.as_ptr() as usize;
            let number = *numbers.get(&start)?;
            Some((number, (piece.as_ptr() as usize - start) as u64))
        });
        let members: Vec<_> = used.iter().map(|lent| lent.memory.id()).collect();
        let kind = (table_kind::TABLE, "");
        let id = composite::put(&self.store, &made.writer, &members, kind, options)?;
        let pin = self.store.get(&id, Some(Duration::ZERO))?;
        for lent in used {
            // One that is part of an earlier object is pinned with that one.
            let _ = lent.pin.set(pin.clone());
        }
        Ok(ShareOutcome { id, shared_bytes: made.shared_bytes, copied_bytes: made.copied_bytes })
    }

    /// The buffer in which these bytes lie.
    fn find(&self, bytes: &[u8]) -> Option<Arc<LentBuffer>> {
        let address = bytes.as_ptr() as usize;
        // The lock is gone before the buffer may be: a last reference takes it when it goes.
        let (start, lent) = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let (start, lent) = known.range(..=address).next_back()?;
            (*start, lent.upgrade())
        };
        let lent = lent?;
        (address + bytes.len() <= start + lent.memory.len()).then_some(lent)
    }
}

/// Bytes in the store that are being written: like a `Vec<u8>` that never moves.
#[derive(Debug)]
pub struct SharedBuffer {
    memory: GrowingObject,
    length: usize,
    known: Arc<Registry>,
}

impl SharedBuffer {
    /// Appends bytes. An error leaves everything as it is.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) -> Result<()> {
        let start = self.length;
        self.memory.ensure(start + bytes.len())?;
        self.memory.write(start, bytes);
        self.length = start + bytes.len();
        Ok(())
    }

    /// Sets the length; new bytes are zero. Others see all of it once it is put: memory that was
    /// used before must not show what it held.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        self.memory.ensure(bytes)?;
        let start = std::mem::replace(&mut self.length, bytes);
        if start < bytes {
            self.memory[start..bytes].fill(0);
        }
        Ok(())
    }

    /// The bytes as a buffer for arrays, where they are.
    pub fn into_buffer(self) -> Buffer {
        let Self { memory, length, known } = self;
        if length == 0 {
            return arrow_buffer::MutableBuffer::new(0).into();
        }
        let memory = memory.freeze(length);
        let address = memory.as_ptr() as usize;
        let lent = Arc::new(LentBuffer { memory, known, pin: OnceLock::new() });
        let mut known = lent.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(address, Arc::downgrade(&lent));
        drop(known);
        Buffer::from(bytes::Bytes::from_owner(Owner(lent)))
    }
}

impl Deref for SharedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl DerefMut for SharedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.length]
    }
}
