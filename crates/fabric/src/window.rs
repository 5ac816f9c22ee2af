//! Windows: memory of this process that one peer may write into, for as long as the window is open.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::shared::Shared;

/// What a peer has to know to write into a window. A process that knows it can write there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The address of the first byte: 0, or where the memory lies, as the provider wants it.
    pub base: u64,
    /// The key of the memory.
    pub key: u64,
    /// How many bytes there are.
    pub bytes: u64,
}

/// Memory that is open to be written by a peer.
///
/// The window has the memory: nothing else can use it before [`close`](Self::close) gives it back.
/// A window that is dropped while its endpoint is open keeps its memory for ever, because a peer
/// may write there still.
pub struct Window<M: ?Sized + Send + 'static> {
    shared: Arc<Shared>,
    number: u64,
    grant: Grant,
    /// From a box.
    memory: *mut M,
    start: *mut u8,
    is_left: bool,
}

// SAFETY: the window has the memory alone, as its box had, and `M` may be sent.
unsafe impl<M: ?Sized + Send + 'static> Send for Window<M> {}

impl<M: ?Sized + Send + 'static> std::fmt::Debug for Window<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("bytes", &self.grant.bytes).finish_non_exhaustive()
    }
}

impl<M: ?Sized + Send + 'static> Window<M> {
    /// Opens memory; `bytes` says where it lies in `M`. Where it cannot be opened, it comes back.
    pub(crate) fn open(
        shared: Arc<Shared>,
        memory: Box<M>,
        bytes: fn(&mut M) -> &mut [u8],
    ) -> Result<Self, (Box<M>, Error)> {
        let memory = Box::into_raw(memory);
        // SAFETY: it is from a box. The borrow lasts until the window is closed: `memory` is not
        // touched before, so the bytes stay where they are.
        let slice = bytes(unsafe { &mut *memory });
        let (start, length) = (slice.as_mut_ptr(), slice.len());
        // SAFETY: the borrow of the bytes is the window's alone, until the registration is closed
        // and the peer has said that it writes no more, or the endpoint is closed.
        let registered = unsafe { shared.begin_window((start, length)) };
        match registered {
            Ok(registered) => {
                let (number, base, key) = (registered.number, registered.base, registered.key);
                let grant = Grant { base, key, bytes: length as u64 };
                Ok(Self { shared, number, grant, memory, start, is_left: false })
            }
            Err(error) => {
                // SAFETY: it is from a box, and the borrow of its bytes is over.
                let memory = unsafe { Box::from_raw(memory) };
                Err((memory, error))
            }
        }
    }

    /// What the peer has to know.
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// Bytes of the window that the peer has said are written; `None` beyond its end.
    pub fn bytes(&self, range: Range<u64>) -> Option<&[u8]> {
        let is_within = range.start <= range.end && range.end <= self.grant.bytes;
        let length = range.end.checked_sub(range.start)?;
        let start = self.start.wrapping_add(range.start as usize).cast_const();
        if !is_within {
            return None;
        }
        // SAFETY: the range is within the memory, which lives as long as the window. A peer that
        // has said that it wrote these bytes does not write them again; what one that does is read
        // as, the checksum tells.
        Some(unsafe { std::slice::from_raw_parts(start, length as usize) })
    }

    /// Closes the window, and gives its memory back.
    ///
    /// This is for a window into which nothing is being written: the peer has said so, or the
    /// endpoint is closed ([`Endpoint::close`](crate::Endpoint::close)). A write that is under way
    /// could go on in the memory for a moment. After an error the memory is not given back, ever.
    pub fn close(mut self) -> Result<Box<M>, Error> {
        self.is_left = true;
        self.shared.end_window(self.number)?;
        // SAFETY: it is from a box, and nothing refers to its bytes any more: this value ends here.
        Ok(unsafe { Box::from_raw(self.memory) })
    }
}

impl<M: ?Sized + Send + 'static> Drop for Window<M> {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        self.shared.leave_window();
        if self.shared.is_closed() {
            // SAFETY: it is from a box, and no peer writes into its bytes any more.
            drop(unsafe { Box::from_raw(self.memory) });
        }
    }
}
