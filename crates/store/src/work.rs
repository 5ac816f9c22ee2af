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
//! its memory is free; an eviction is answered after its last piece.

use std::collections::{BTreeMap, VecDeque};

use plasmon_proto::ObjectId;

use crate::adoption::Remains;
use crate::departure::Lent;
use crate::event::Ticket;
use crate::evict::Evicting;
use crate::ports::{Directory, Entry, Look};
use crate::records::UNHELD;
use crate::store::Store;
use crate::waits::WaiterNo;

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
    /// Evictions that clients asked for.
    pub(crate) evicting: VecDeque<Evicting>,
    /// Objects in memory that leave it, because the tier has them already.
    pub(crate) leaving: VecDeque<Ticket>,
    /// What goes with clients that left.
    left: VecDeque<Left>,
}

/// Something of a client that left.
#[derive(Debug)]
pub(crate) enum Left {
    /// Objects that a session was creating, which nobody will seal.
    Creating(u32, Vec<ObjectId>),
    /// Owned objects of which it made no composite, while they still are theirs.
    Unheld(Vec<ObjectId>),
    /// What is in a namespace that it had adopted.
    Adopted(Remains),
    /// Pins that the store counted.
    Pins(BTreeMap<u64, u32>),
    /// Requests that waited.
    Waits(Vec<WaiterNo>),
    /// Leases of one that is gone, or that it did not name when it came back.
    Leases(Lent),
    /// Extents of a session that is gone.
    Extents(u32),
    /// Objects that a session was creating on an earlier connection, while it has not named them on
    /// its present one.
    Unnamed(u32, Vec<ObjectId>),
}

impl Left {
    fn is_empty(&self) -> bool {
        match self {
            Self::Creating(_, ids) | Self::Unheld(ids) | Self::Unnamed(_, ids) => ids.is_empty(),
            Self::Leases(lent) => lent.leases.is_empty() && !lent.gone,
            Self::Extents(_) => false,
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
            || !self.evicting.is_empty()
            || !self.leaving.is_empty()
            || !self.left.is_empty()
    }

    /// Whether the event may still look through the ledgers.
    pub(crate) fn may_look(&self) -> bool {
        !self.looked
    }

    /// What is left of a client.
    pub(crate) fn leave(&mut self, left: Left) {
        if !left.is_empty() {
            self.left.push_back(left);
        }
    }
}

impl<D: Directory> Store<D> {
    /// Whether an [`crate::Event::Tick`] finds something to do at once.
    pub fn has_work(&self) -> bool {
        self.work.is_due()
    }

    /// Looks through all ledgers, which an event does once. All pins on these incarnations, also
    /// those that the store counts.
    pub(crate) fn look(&mut self, serials: &[u64]) -> Look {
        debug_assert!(self.work.may_look(), "an event looks through the ledgers once");
        self.work.looked = true;
        let mut look = self.directory.look(serials);
        if !self.pins.is_empty() {
            for (count, serial) in look.pins.iter_mut().zip(serials) {
                *count = count.saturating_add(self.pins.get(serial).copied().unwrap_or(0));
            }
        }
        look
    }

    /// Does a piece of what is left.
    pub(crate) fn go_on(&mut self) {
        self.go_on_leaving();
        if std::mem::take(&mut self.work.feed) {
            self.feed_starving();
        }
        if let Some(evicting) = self.work.evicting.pop_front() {
            self.go_on_evicting(evicting);
        }
        if let Some(left) = self.work.left.pop_front() {
            let rest = match left {
                Left::Creating(session, ids) => Some(self.end_creations(session, ids)),
                Left::Unheld(ids) => Some(self.end_unheld(ids)),
                Left::Adopted(remains) => Some(Left::Adopted(self.end_remains(remains))),
                Left::Pins(pins) => Some(self.end_pins(pins)),
                Left::Waits(waiters) => Some(self.end_waits(waiters)),
                Left::Leases(lent) => Some(self.end_leases(lent)),
                Left::Extents(session) => self.end_extents(session),
                Left::Unnamed(session, ids) => Some(self.end_unnamed(session, ids)),
            };
            rest.into_iter().for_each(|rest| self.work.leave(rest));
        }
        if self.work.collect {
            self.collect_fresh();
        }
    }

    fn end_creations(&mut self, session: u32, mut ids: Vec<ObjectId>) -> Left {
        let piece = ids.split_off(ids.len().saturating_sub(PIECE));
        for id in piece {
            let creating = self.creatings.get(&id);
            // Given up meanwhile, the id may belong to others by now.
            if creating.map_or(self.is_free(&id), |creating| creating.owner == session) {
                self.creator_died(&id);
            }
        }
        Left::Creating(session, ids)
    }

    fn end_unnamed(&mut self, session: u32, mut ids: Vec<ObjectId>) -> Left {
        let piece = ids.split_off(ids.len().saturating_sub(PIECE));
        for id in piece {
            let creating = self.creatings.get(&id).filter(|it| it.owner == session);
            if creating.is_some_and(|creating| self.is_left_over(creating.client, creating)) {
                self.creator_died(&id);
            }
        }
        Left::Unnamed(session, ids)
    }

    /// The creator of these owned objects left before it made a composite of them.
    fn end_unheld(&mut self, mut ids: Vec<ObjectId>) -> Left {
        let piece = ids.split_off(ids.len().saturating_sub(PIECE));
        let entries = piece.into_iter().filter_map(|id| self.find(&id));
        let unheld = |entry: &Entry| self.records.get(entry.record).is(UNHELD);
        let unheld: Vec<_> = entries.filter(unheld).collect();
        self.bury(unheld);
        self.collect_fresh();
        Left::Unheld(ids)
    }

    fn end_waits(&mut self, mut waiters: Vec<WaiterNo>) -> Left {
        let mut ids = 0;
        while ids < STEPS_MAX
            && let Some(no) = waiters.pop()
        {
            ids += 1 + self.waits.ids_of(no);
            self.waits.remove(no);
        }
        Left::Waits(waiters)
    }

    fn end_pins(&mut self, mut pins: BTreeMap<u64, u32>) -> Left {
        for _ in 0..STEPS_MAX {
            let Some((serial, count)) = pins.pop_first() else { break };
            self.unpin(serial, count);
            self.lingering.look_again(serial);
        }
        self.work.collect = true;
        Left::Pins(pins)
    }
}
