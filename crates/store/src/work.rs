//! Work in pieces.
//!
//! No event does more than a bounded piece of work, whatever there is to do: it ends at most
//! [`PIECE`] objects and looks through the ledgers once. What is left waits for the next
//! [`crate::Event::Tick`], which is due at once, and requests of others have their turn between.
//!
//! A look tells the truth about objects that were hidden before it. So one event hides, looks, and
//! frees what it found unpinned; it hides more only for the next event to look for.
//!
//! What a request promises holds when it is answered: a deleted object is out of sight, whenever
//! its memory is free; an eviction, and the end of a scope, is answered after its last piece.

mod pieces;

use std::collections::{BTreeMap, VecDeque};

use plasmon_proto::ObjectId;

use crate::adoption::Remains;
use crate::event::Ticket;
use crate::evict::EvictionRequest;
use crate::memory::Leases;
use crate::scopes::UnpublishedObjects;
use crate::wait_table::WaiterNo;

/// Objects that one event hides, ends or frees.
pub(crate) const PIECE: usize = 512;

/// Objects whose pins one event looks for.
pub(crate) const EXAMINED_MAX: usize = 32 * PIECE;

/// Small steps (a set entry, a counter) that one event does.
pub(crate) const STEPS_MAX: usize = 16 * PIECE;

/// What is left to do.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Whether the event that runs has looked through the ledgers.
    looked: bool,
    /// Whether hidden objects wait to be looked for, or members to be let go.
    pub(crate) collect: bool,
    /// Whether requests for memory go on.
    pub(crate) feed: bool,
    /// Whether an agent is told what is here.
    pub(crate) seat: bool,
    /// Evictions that clients asked for.
    pub(crate) evicting: VecDeque<EvictionRequest>,
    /// Objects in memory that leave it, because the tier has them already.
    pub(crate) leaving: VecDeque<Ticket>,
    /// What is deleted with clients that left.
    left: VecDeque<Leftover>,
}

/// Something of a client that left.
#[derive(Debug)]
pub(crate) enum Leftover {
    /// Objects that a session was creating, which will never be sealed.
    Creating(u32, Vec<ObjectId>),
    /// Owned objects of which it made no composite: these incarnations, as others may have their
    /// ids by now.
    Unattached(Vec<(ObjectId, u64)>),
    /// What a session made in a scope that was not published.
    Scope(UnpublishedObjects),
    /// What is in a namespace that it had adopted.
    Adopted(Remains),
    /// Pins that the store counted.
    Pins(BTreeMap<u64, u32>),
    /// Requests that waited.
    Waits(Vec<WaiterNo>),
    /// Leases of one that is gone, or that it did not name when it came back.
    Leases(ReturnedLeases),
    /// Extents of a session that is gone.
    Extents(u32),
    /// Objects that a session was creating on an earlier connection, while it has not named them on
    /// its present one.
    Unnamed(u32, Vec<ObjectId>),
}

/// Leases that go back to the store.
#[derive(Debug)]
pub(crate) struct ReturnedLeases {
    /// To whom they were lent, and are charged.
    pub(crate) session: u32,
    pub(crate) leases: Leases,
    /// Whether there may be memory among them that was never reserved.
    pub(crate) unsure: bool,
    /// Whether the client is gone, and its extents are to go as well.
    pub(crate) gone: bool,
}

impl Leftover {
    fn is_empty(&self) -> bool {
        match self {
            Self::Creating(_, ids) | Self::Unnamed(_, ids) => ids.is_empty(),
            Self::Unattached(objects) => objects.is_empty(),
            Self::Leases(lent) => lent.leases.is_empty() && !lent.gone,
            Self::Extents(_) => false,
            Self::Scope(unpublished) => unpublished.is_empty(),
            Self::Adopted(remains) => remains.is_empty(),
            Self::Pins(pins) => pins.is_empty(),
            Self::Waits(waiters) => waiters.is_empty(),
        }
    }
}

impl Work {
    pub(crate) fn begin_event(&mut self) {
        self.looked = false;
    }

    /// Whether anything is to be done at once.
    pub(crate) fn is_due(&self) -> bool {
        self.collect
            || self.feed
            || self.seat
            || !self.evicting.is_empty()
            || !self.leaving.is_empty()
            || !self.left.is_empty()
    }

    /// Whether the event may still look through the ledgers.
    pub(crate) fn may_look(&self) -> bool {
        !self.looked
    }

    /// What is left of a client.
    pub(crate) fn leave(&mut self, left: Leftover) {
        if !left.is_empty() {
            self.left.push_back(left);
        }
    }
}
