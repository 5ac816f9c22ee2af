//! Until when copies of free ids are shown.
//!
//! A free id can be created again after its object was deleted, so a node that cannot hear of that
//! must not show its copy for ever. The pool daemon vouches again and again while it holds its
//! lease.

use plasmon_proto::ObjectId;

use super::{Reason, Withheld};
use crate::ports::{Directory, Entry};
use crate::records::HIDDEN;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Whether a copy of this id may be shown now.
    pub(crate) fn is_vouched(&self, id: &ObjectId) -> bool {
        id.home().is_some() || self.now_ms < self.seat.vouched_until_ms
    }

    /// Copies of free ids may be shown for so long from now on.
    pub(super) fn vouch(&mut self, ms: u64) {
        let is_shown = self.now_ms < self.seat.vouched_until_ms;
        let until_ms = self.now_ms.saturating_add(ms);
        self.seat.vouched_until_ms = self.seat.vouched_until_ms.max(until_ms);
        if is_shown {
            return;
        }
        let unvouched = |(_, it): &(&ObjectId, &Withheld)| it.reason == Reason::Unvouched;
        let ids: Vec<ObjectId> =
            self.seat.withheld.iter().filter(unvouched).map(|(id, _)| *id).collect();
        for id in ids {
            self.show_withheld(&id);
        }
        let asked: Vec<ObjectId> = self.seat.seeks.keys().copied().collect();
        for id in asked {
            // One that is in the tier can be brought back again.
            if self.objects.tier.get(&id).is_some_and(|spilled| !spilled.unpublished) {
                self.start_restore(&id);
            }
        }
    }

    /// Hides the copies of free ids when they have not been vouched for in time.
    pub(crate) fn end_vouching(&mut self) {
        let until_ms = self.seat.vouched_until_ms;
        if until_ms == 0 || self.now_ms < until_ms {
            return;
        }
        self.seat.vouched_until_ms = 0;
        let unvouched = self.free_copies();
        self.withhold(&unvouched, Reason::Unvouched);
    }

    /// The visible objects in memory with free ids. All of them have attributes.
    pub(super) fn free_copies(&self) -> Vec<Entry> {
        let is_visible = |record: &u32| !self.objects.records.get(*record).is(HIDDEN);
        let pooled = |record: &u32| self.pool_attributes(*record).is_some();
        let records = self.objects.extras.keys().copied();
        let entries =
            records.filter(is_visible).filter(pooled).map(|record| self.objects.entry(record));
        entries.filter(|entry| entry.id.is_pooled() && entry.id.home().is_none()).collect()
    }
}
