//! The writes of an endpoint: what waits, and what is under way.
//!
//! ```text
//!   write ──► unposted ──► pieces, each an operation of the provider ──► complete, or failed
//!                 ▲  the provider takes no more │
//!                 └─────────────────────────────┘
//! ```
//!
//! A write is divided into pieces that the provider takes as one operation each. The first error of
//! a piece is the write's; it is over once none of its pieces is under way. What a piece needs, its
//! context and the memory that it is read from, is kept until then.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr;

use crate::abi::FI_MR_LOCAL;
use crate::error::{Error, WRITES_MAX};
use crate::found::Traits;
use crate::objects::Remote;
use crate::sources::{Keep, Lent};

/// Bytes of a piece at most: one operation is to be over soon enough for others to have their turn.
pub(crate) const PIECE_BYTES_MAX: usize = 8 << 20;

/// Bytes of memory that is registered once, through which is sent what is not registered itself.
pub(crate) const BOUNCE_BYTES: usize = 1 << 20;

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number that it was given.
    pub token: u64,
    /// Whether all of it is in the window.
    pub result: Result<(), Error>,
}

/// Something to be written.
pub(crate) struct Write {
    pub(crate) token: u64,
    pub(crate) start: *const u8,
    pub(crate) bytes: usize,
    pub(crate) to: Remote,
    /// Held for the memory at `start`.
    pub(crate) keep: Box<dyn Keep>,
    /// The registration that the memory is in.
    pub(crate) lent: Option<Lent>,
}

/// A write that is over. What it has is let go when no lock is held.
pub(crate) struct Ended {
    pub(crate) write: Write,
    pub(crate) result: Result<(), Error>,
}

struct UnderWay {
    write: Write,
    posted: usize,
    pieces: usize,
    /// Whether it is among the unposted ones.
    is_queued: bool,
    error: Option<Error>,
}

/// An operation of the provider.
struct Piece {
    write: u64,
    context: *mut Context,
    bounce: Option<usize>,
}

/// An operation that is to be begun.
pub(crate) struct Posting {
    /// Where it reads from, and how much. The memory is kept, or is a bounce.
    pub(crate) from: (*const u8, usize),
    pub(crate) description: *mut c_void,
    pub(crate) to: Remote,
    pub(crate) context: *mut c_void,
}

/// What the provider uses while an operation is under way (`struct fi_context2`).
#[repr(C)]
struct Context([usize; 8]);

/// Registered memory through which is sent.
pub(crate) struct Bounce {
    /// Allocated as a boxed slice of [`BOUNCE_BYTES`].
    pub(crate) start: *mut u8,
    pub(crate) description: *mut c_void,
}

/// The writes of an endpoint, and what its thread is to know.
#[derive(Default)]
pub(crate) struct Queue {
    next_number: u64,
    writes: BTreeMap<u64, UnderWay>,
    unposted: VecDeque<u64>,
    /// By the address of the context.
    pieces: BTreeMap<usize, Piece>,
    bounces: Vec<Bounce>,
    free_bounces: Vec<usize>,
    /// Whether a thread begins an operation. The lock is not held meanwhile: a provider may wait
    /// for a peer that shares memory with it.
    is_posting: bool,
    /// Whether something was asked for since the last look.
    pub(crate) is_new: bool,
    /// Windows that are open.
    pub(crate) windows: usize,
    /// Whether the endpoint takes nothing any more.
    pub(crate) is_over: bool,
    /// Why its completions cannot be read any more.
    pub(crate) broken: Option<Error>,
}

// SAFETY: the pointers are to memory that the queue keeps, and belong to no thread.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) fn with_bounces(bounces: Vec<Bounce>) -> Self {
        let free_bounces = (0..bounces.len()).collect();
        Self { bounces, free_bounces, ..Self::default() }
    }

    /// Whether nothing is to be done until something is asked for.
    pub(crate) fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.windows == 0
    }

    /// Takes a write, whose operations [`next`](Self::next) gives.
    pub(crate) fn put(&mut self, write: Write) -> Result<(), Error> {
        if self.is_over {
            return Err(Error::Closed);
        }
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        if self.writes.len() >= WRITES_MAX {
            return Err(Error::Busy);
        }
        let number = self.next_number;
        self.next_number += 1;
        self.is_new = true;
        let under_way = UnderWay { write, posted: 0, pieces: 0, is_queued: true, error: None };
        self.writes.insert(number, under_way);
        self.unposted.push_back(number);
        Ok(())
    }

    /// The next operation to be begun, which is known from now on; `None` when there is none, when
    /// as many are under way as may be, or while another thread begins one: that looks again.
    pub(crate) fn next(&mut self, traits: &Traits, done: &mut Vec<Ended>) -> Option<Posting> {
        self.is_new = false;
        while !self.is_posting && self.pieces.len() < traits.operations_max {
            let number = *self.unposted.front()?;
            let under_way = self.writes.get_mut(&number)?;
            let (posted, write) = (under_way.posted, &under_way.write);
            if under_way.error.is_some() || posted == write.bytes {
                under_way.is_queued = false;
                self.unposted.pop_front();
                self.finish(number, done);
                continue;
            }
            let is_bounced = traits.has(FI_MR_LOCAL) && write.lent.is_none();
            let limit = if is_bounced { BOUNCE_BYTES } else { PIECE_BYTES_MAX };
            let bytes = (write.bytes - posted).min(limit.min(traits.operation_bytes_max).max(1));
            let mut from = write.start.wrapping_add(posted);
            let mut description = write.lent.map_or(ptr::null_mut(), |lent| lent.description);
            let mut bounce = None;
            if is_bounced {
                let free = self.free_bounces.pop()?;
                let Bounce { start, description: of_bounce } = self.bounces[free];
                // SAFETY: the source has so many bytes from there on, the bounce as many, and no
                // operation uses one that is free.
                unsafe { ptr::copy_nonoverlapping(from, start, bytes) };
                (from, description, bounce) = (start.cast_const(), of_bounce, Some(free));
            }
            let context = Box::into_raw(Box::new(Context([0; 8])));
            let address = write.to.address.wrapping_add(posted as u64);
            let to = Remote { address, ..write.to };
            under_way.posted += bytes;
            under_way.pieces += 1;
            self.is_posting = true;
            self.pieces.insert(context.addr(), Piece { write: number, context, bounce });
            let from = (from, bytes);
            return Some(Posting { from, description, to, context: context.cast() });
        }
        None
    }

    /// An operation was begun, or was not; whether the next one may be.
    pub(crate) fn posted(&mut self, posting: &Posting, begun: Result<bool, Error>) -> bool {
        self.is_posting = false;
        if matches!(begun, Ok(true)) {
            return true;
        }
        let Some(piece) = self.pieces.remove(&posting.context.addr()) else { return false };
        // SAFETY: the provider has not taken it.
        drop(unsafe { Box::from_raw(piece.context) });
        self.free_bounces.extend(piece.bounce);
        if let Some(under_way) = self.writes.get_mut(&piece.write) {
            under_way.posted -= posting.from.1;
            under_way.pieces -= 1;
        }
        match begun {
            Ok(_) => false,
            Err(error) => {
                self.note_error(piece.write, error);
                true
            }
        }
    }

    /// An operation is complete, or failed.
    pub(crate) fn completed(
        &mut self,
        context: *mut c_void,
        result: Result<(), Error>,
        done: &mut Vec<Ended>,
    ) {
        // Of an operation that this side does not know there is nothing to end.
        let Some(piece) = self.pieces.remove(&context.addr()) else { return };
        // SAFETY: the provider does not use it after the completion.
        drop(unsafe { Box::from_raw(piece.context) });
        self.free_bounces.extend(piece.bounce);
        if let Some(under_way) = self.writes.get_mut(&piece.write) {
            under_way.pieces -= 1;
        }
        if let Err(error) = result {
            self.note_error(piece.write, error);
        }
        self.finish(piece.write, done);
    }

    fn note_error(&mut self, number: u64, error: Error) {
        if let Some(under_way) = self.writes.get_mut(&number) {
            under_way.error.get_or_insert(error);
        }
    }

    fn finish(&mut self, number: u64, done: &mut Vec<Ended>) {
        let is_over = |under_way: &UnderWay| !under_way.is_queued && under_way.pieces == 0;
        if !self.writes.get(&number).is_some_and(is_over) {
            return;
        }
        if let Some(UnderWay { write, error, .. }) = self.writes.remove(&number) {
            done.push(Ended { write, result: error.map_or(Ok(()), Err) });
        }
    }

    /// Completions cannot be read any more: everything fails, and what is under way is kept until
    /// the endpoint is closed.
    pub(crate) fn break_off(&mut self, error: &Error, done: &mut Vec<Ended>) {
        self.broken.get_or_insert_with(|| error.clone());
        for number in std::mem::take(&mut self.unposted) {
            if let Some(under_way) = self.writes.get_mut(&number) {
                under_way.is_queued = false;
            }
            self.note_error(number, error.clone());
            self.finish(number, done);
        }
    }

    /// The endpoint is closed: every write has ended. Where it could not be closed, the provider
    /// may still use what the writes have, and that is given up.
    pub(crate) fn end(&mut self, is_closed: bool, done: &mut Vec<Ended>) {
        self.is_over = true;
        self.unposted.clear();
        for piece in std::mem::take(&mut self.pieces).into_values() {
            if is_closed {
                // SAFETY: no operation is under way after the endpoint was closed.
                drop(unsafe { Box::from_raw(piece.context) });
            }
        }
        for UnderWay { mut write, error, .. } in std::mem::take(&mut self.writes).into_values() {
            if !is_closed {
                std::mem::forget(std::mem::replace(&mut write.keep, Box::new(())));
            }
            done.push(Ended { write, result: Err(error.unwrap_or(Error::Closed)) });
        }
        for bounce in std::mem::take(&mut self.bounces) {
            if is_closed {
                let memory = ptr::slice_from_raw_parts_mut(bounce.start, BOUNCE_BYTES);
                // SAFETY: it was allocated so, and is not registered any more.
                drop(unsafe { Box::from_raw(memory) });
            }
        }
        self.free_bounces.clear();
    }
}
