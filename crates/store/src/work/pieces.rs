//! Doing one piece of what is left.

use std::collections::BTreeMap;

use plasmon_proto::ObjectId;

use super::{Leftover, PIECE, STEPS_MAX};
use crate::construction::Construction;
use crate::ports::{Directory, Entry, Look};
use crate::records::UNATTACHED;
use crate::store::Store;
use crate::wait_table::WaiterNo;

impl<D: Directory> Store<D> {
    /// Whether an [`crate::Event::Tick`] finds something to do at once.
    pub fn has_work(&self) -> bool {
        self.work.is_due() || (self.sessions.adoptions.pool.is_dirty && self.has_agent())
    }

    /// Looks through all ledgers, which an event does once. All pins on these incarnations, also
    /// those that the store counts.
    pub(crate) fn look(&mut self, serials: &[u64]) -> Look {
        debug_assert!(self.work.may_look(), "an event looks through the ledgers once");
        self.work.looked = true;
        let mut look = self.objects.directory.look(serials);
        if !self.sessions.pins.is_empty() {
            for (count, serial) in look.pins.iter_mut().zip(serials) {
                *count = count.saturating_add(self.sessions.pins.get(serial).copied().unwrap_or(0));
            }
        }
        look
    }

    /// Does a piece of what is left.
    pub(crate) fn go_on(&mut self) {
        self.go_on_leaving();
        if self.work.seat {
            self.go_on_with_inventory();
        }
        self.go_on_sweeping();
        self.go_on_deleting_members();
        if std::mem::take(&mut self.work.feed) {
            self.retry_waiting_for_room();
        }
        if let Some(evicting) = self.work.evicting.pop_front() {
            self.go_on_evicting(evicting);
        }
        if let Some(left) = self.work.left.pop_front() {
            let rest = match left {
                Leftover::Creating(session, ids) => Some(self.end_creations(session, ids)),
                Leftover::Unattached(objects) => Some(self.end_unattached(objects)),
                Leftover::Scope(unpublished) => {
                    Some(Leftover::Scope(self.delete_unpublished(unpublished)))
                }
                Leftover::Adopted(remains) => Some(Leftover::Adopted(self.end_remains(remains))),
                Leftover::Pins(pins) => Some(self.end_pins(pins)),
                Leftover::Waits(waiters) => Some(self.end_waits(waiters)),
                Leftover::Leases(lent) => Some(self.end_leases(lent)),
                Leftover::Extents(session) => self.end_extents(session),
                Leftover::Unnamed(session, ids) => Some(self.end_unnamed(session, ids)),
            };
            rest.into_iter().for_each(|rest| self.work.leave(rest));
        }
        if self.work.collect {
            self.collect_fresh();
        }
    }

    fn end_creations(&mut self, session: u32, mut ids: Vec<ObjectId>) -> Leftover {
        let piece = ids.split_off(ids.len().saturating_sub(PIECE));
        for id in piece {
            let creating = self.objects.pending_objects.get(&id);
            // Given up meanwhile, the id may belong to others by now.
            let is_ended =
                |creating: &Construction| creating.owner == session && !creating.is_logging();
            if creating.map_or(self.objects.is_free(&id), is_ended) {
                self.creator_died(&id);
            }
        }
        Leftover::Creating(session, ids)
    }

    fn end_unnamed(&mut self, session: u32, mut ids: Vec<ObjectId>) -> Leftover {
        let piece = ids.split_off(ids.len().saturating_sub(PIECE));
        for id in piece {
            let creating = self.objects.pending_objects.get(&id).filter(|it| it.owner == session);
            if creating
                .is_some_and(|creating| self.sessions.is_left_over(creating.client, creating))
            {
                self.creator_died(&id);
            }
        }
        Leftover::Unnamed(session, ids)
    }

    /// The creator of these owned objects left before it made a composite of them.
    fn end_unattached(&mut self, mut objects: Vec<(ObjectId, u64)>) -> Leftover {
        let piece = objects.split_off(objects.len().saturating_sub(PIECE));
        let found = |(id, serial): (ObjectId, u64)| {
            // Another client may have put an object under the id since then.
            self.objects.find(&id).filter(|entry| entry.serial == serial)
        };
        let unattached = |entry: &Entry| self.objects.records.get(entry.record).is(UNATTACHED);
        let unattached: Vec<_> = piece.into_iter().filter_map(found).filter(unattached).collect();
        let (pooled, unattached): (Vec<_>, Vec<_>) =
            unattached.into_iter().partition(|entry| entry.id.is_pooled());
        self.hide_deleted(unattached);
        // Other nodes may have copies of these.
        self.delete_members(pooled.iter().map(|entry| entry.id));
        self.collect_fresh();
        Leftover::Unattached(objects)
    }

    fn end_waits(&mut self, mut waiters: Vec<WaiterNo>) -> Leftover {
        let mut ids = 0;
        while ids < STEPS_MAX
            && let Some(no) = waiters.pop()
        {
            ids += 1 + self.sessions.waits.ids_of(no);
            if let Some(waiter) = self.sessions.waits.remove(no) {
                self.forget_seeks(&waiter.ids);
            }
        }
        Leftover::Waits(waiters)
    }

    fn end_pins(&mut self, mut pins: BTreeMap<u64, u32>) -> Leftover {
        for _ in 0..STEPS_MAX {
            let Some((serial, count)) = pins.pop_first() else { break };
            self.unpin(serial, count);
            self.objects.deferred_frees.look_again(serial);
        }
        self.work.collect = true;
        Leftover::Pins(pins)
    }
}
