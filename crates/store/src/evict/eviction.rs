//! Eviction on request and for others, the least recently used first.

use plasmon_proto::message::Reply;
use plasmon_proto::{ObjectState, Policy};

use super::{EvictionRequest, EvictionScope, EvictionTotals, Measure};
use crate::event::ClientNo;
use crate::objects::Objects;
use crate::ports::{Directory, Entry};
use crate::records::{LISTED, List, SPILLING};
use crate::sessions::Sessions;
use crate::store::Store;
use crate::work::{EXAMINED_MAX, PIECE};

impl<D: Directory> Store<D> {
    /// Evicts for a request, which is answered when so much is free or nothing more can be.
    pub(crate) fn evict_on_request(&mut self, client: ClientNo, request: u64, bytes: u64) {
        let Some(asker) = self.sessions.clients.asker(client) else { return };
        let (left, next) = if self.spills_cache() {
            (self.objects.records.count(List::Keep), self.objects.records.oldest(List::Keep).next())
        } else {
            (self.objects.candidates_count(&self.sessions, EvictionScope::Anybodys), None)
        };
        let done = EvictionTotals::default();
        self.go_on_evicting(EvictionRequest { asker, request, bytes, done, left, next });
    }

    /// Does a piece of an eviction that a client asked for. Each object is tried once, so this ends
    /// however much is pinned.
    pub(crate) fn go_on_evicting(&mut self, mut evicting: EvictionRequest) {
        let EvictionRequest { asker, request, bytes, .. } = evicting;
        if !self.sessions.clients.is_asking(asker) {
            return;
        }
        if !self.work.may_look() {
            self.work.evicting.push_front(evicting);
            return;
        }
        let is_over = if self.spills_cache() {
            self.spill_piece(&mut evicting)
        } else {
            let more = bytes.saturating_sub(evicting.done.bytes);
            let count = evicting.left.min(PIECE);
            let (evicted, tried) =
                self.evict(more, Measure::Content, EvictionScope::Anybodys, count);
            evicting.done.bytes = evicting.done.bytes.saturating_add(evicted.bytes);
            evicting.done.objects += evicted.objects;
            evicting.left -= tried;
            tried == 0
        };
        if is_over || evicting.left == 0 || evicting.done.bytes >= bytes {
            let EvictionTotals { bytes, objects } = evicting.done;
            self.reply(asker.client, request, Reply::Evicted { bytes, objects });
        } else {
            self.work.evicting.push_back(evicting);
        }
    }

    /// Has objects with policy cache written to the tier, the least recently used first, until so
    /// many bytes of content are on their way. True at the end of the list.
    fn spill_piece(&mut self, evicting: &mut EvictionRequest) -> bool {
        let from = evicting.next.filter(|record| {
            self.objects.records.used(*record).is_some_and(|it| it.is(LISTED))
                && self.objects.records.list_of(*record) == List::Keep
        });
        let Some(from) = from else { return true };
        let piece: Vec<u32> =
            self.objects.records.newer(from).take(EXAMINED_MAX.min(evicting.left) + 1).collect();
        let (piece, next) = match piece.split_last() {
            Some((next, piece)) if piece.len() == EXAMINED_MAX => (piece.to_vec(), Some(*next)),
            _ => (piece, None),
        };
        evicting.left = evicting.left.saturating_sub(piece.len());
        evicting.next = next;
        let entries = piece.into_iter().map(|record| self.objects.entry(record));
        let entries: Vec<Entry> =
            entries.filter(|entry| entry.meta.traits.policy == Policy::Cache).collect();
        let serials: Vec<u64> = entries.iter().map(|entry| entry.serial).collect();
        let pins = self.look(&serials).pins;
        let bytes_max = self.config.spill_bytes_max.unwrap_or(0);
        for (entry, pins) in entries.iter().zip(pins) {
            if evicting.done.bytes >= evicting.bytes {
                break;
            }
            let busy = self.objects.records.get(entry.record).is(SPILLING);
            if pins > 0 || busy || !self.objects.fits_tier(entry, bytes_max, &mut self.out) {
                self.objects.records.touch(entry.record);
                continue;
            }
            let content = self.measured(entry, Measure::Content);
            evicting.done.bytes = evicting.done.bytes.saturating_add(content);
            evicting.done.objects += 1;
            self.start_spill(entry);
        }
        next.is_none()
    }

    /// Evicts at most `count` objects until at least `bytes` are freed. An object that is pinned
    /// counts as just used. How many were tried comes back as well.
    pub(crate) fn evict(
        &mut self,
        bytes: u64,
        measure: Measure,
        whose: EvictionScope,
        count: usize,
    ) -> (EvictionTotals, usize) {
        let batch = self.hide_for_eviction(bytes, measure, whose, count);
        let serials: Vec<u64> = batch.iter().map(|entry| entry.serial).collect();
        if serials.is_empty() {
            return (EvictionTotals::default(), 0);
        }
        let pins = self.look(&serials).pins;
        let (evicted, free) = self.settle_eviction(batch, &pins, bytes, measure);
        self.finish_eviction(&free);
        (evicted, serials.len())
    }

    /// Hides the objects that would be evicted for this many bytes if none of them is pinned.
    pub(crate) fn hide_for_eviction(
        &mut self,
        bytes: u64,
        measure: Measure,
        whose: EvictionScope,
        count: usize,
    ) -> Vec<Entry> {
        let batch = self.eviction_batch(bytes, count, measure, whose);
        if !batch.is_empty() {
            self.objects.hide(&batch);
        }
        batch
    }

    /// Chooses those of the hidden objects that are not pinned, as many as are needed, and shows
    /// the others again. [`Self::finish_eviction`] follows; a client that is notified in between
    /// misses nothing that stays.
    pub(crate) fn settle_eviction(
        &mut self,
        batch: Vec<Entry>,
        pins: &[u32],
        bytes: u64,
        measure: Measure,
    ) -> (EvictionTotals, Vec<Entry>) {
        let mut evicted = EvictionTotals::default();
        let mut free = Vec::new();
        for (entry, pins) in batch.into_iter().zip(pins) {
            if *pins > 0 {
                self.objects.show(&entry);
            } else if evicted.bytes >= bytes {
                self.objects.show_unused(&entry);
            } else {
                evicted.bytes = evicted.bytes.saturating_add(self.measured(&entry, measure));
                evicted.objects += 1;
                free.push(entry);
            }
        }
        self.objects.remember_end(&free, ObjectState::Evicted);
        (evicted, free)
    }

    /// Ends the objects that were chosen.
    pub(crate) fn finish_eviction(&mut self, free: &[Entry]) {
        for entry in free {
            self.announce_ended(entry, ObjectState::Evicted);
        }
        for entry in free {
            self.objects.free_ended(
                entry,
                &mut self.space,
                &mut self.sessions.clients,
                &mut self.out,
            );
        }
    }

    fn eviction_batch(
        &self,
        bytes: u64,
        count: usize,
        measure: Measure,
        whose: EvictionScope,
    ) -> Vec<Entry> {
        let mut batch = Vec::new();
        let mut sum: u64 = 0;
        for record in self.objects.candidates(&self.sessions, whose).take(count) {
            if sum >= bytes {
                break;
            }
            let entry = self.objects.entry(record);
            sum = sum.saturating_add(self.measured(&entry, measure));
            batch.push(entry);
        }
        batch
    }

    fn measured(&self, entry: &Entry, measure: Measure) -> u64 {
        match measure {
            Measure::Content => entry.meta.sizes.data.saturating_add(entry.meta.sizes.metadata),
            Measure::Charge => self.space.memory.charge(&entry.range, &entry.meta.sizes),
        }
    }
}

impl<D: Directory> Objects<D> {
    /// The objects that may be evicted, the least recently used first.
    pub(crate) fn candidates(
        &self,
        sessions: &Sessions,
        whose: EvictionScope,
    ) -> impl Iterator<Item = u32> {
        // Most stores have no shares, and then there is nothing to look up.
        let all = whose == EvictionScope::Anybodys && !sessions.clients.has_shares();
        let candidate = move |record: &u32| {
            all || sessions.is_candidate(self.records.get(*record).owner, whose)
        };
        self.records.oldest(List::Cache).filter(candidate)
    }

    pub(crate) fn candidates_count(&self, sessions: &Sessions, whose: EvictionScope) -> usize {
        if whose == EvictionScope::Anybodys && !sessions.clients.has_shares() {
            return self.records.count(List::Cache);
        }
        self.candidates(sessions, whose).count()
    }
}

impl Sessions {
    /// Whether an object of this session may be evicted.
    fn is_candidate(&self, owner: u32, whose: EvictionScope) -> bool {
        match whose {
            EvictionScope::Session(session) => owner == session,
            EvictionScope::Anybodys => {
                let owner = self.clients.of_session(owner);
                owner.is_none_or(|(_, client)| client.share_bytes.is_none())
            }
        }
    }
}
