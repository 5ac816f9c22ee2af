//! Eviction of objects with policy cache, the least recently used first.

use plasmon_proto::ObjectState;
use plasmon_proto::message::Reply;

use crate::ports::{Directory, Entry};
use crate::records::List;
use crate::store::Store;

/// Objects that are hidden and looked for in the ledgers at a time.
const BATCH: usize = 1024;

/// What an eviction freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evicted {
    /// In the measure that the caller asked in.
    pub(crate) bytes: u64,
    pub(crate) objects: u64,
}

/// How the bytes of an eviction are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Data and metadata, as a client sees them.
    Content,
    /// What the capacity counts.
    Charge,
}

/// Whose objects may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of everybody without a share.
    Anybodys,
    /// Those of the client of this session.
    Session(u32),
}

impl<D: Directory> Store<D> {
    pub(crate) fn evict_on_request(&mut self, bytes: u64) -> Reply {
        let Evicted { bytes, objects } = if self.spills_cache() {
            self.spill_on_request(bytes)
        } else {
            self.evict(bytes, Measure::Content, Whose::Anybodys)
        };
        self.collect_fresh();
        Reply::Evicted { bytes, objects }
    }

    /// Evicts until at least `bytes` are freed or nothing more can be. An object that somebody pins
    /// counts as just used. Each is tried once, so this ends however much is pinned.
    pub(crate) fn evict(&mut self, bytes: u64, measure: Measure, whose: Whose) -> Evicted {
        let mut evicted = Evicted::default();
        let mut left = self.candidates_count(whose);
        while evicted.bytes < bytes && left > 0 {
            let count = left.min(BATCH);
            let batch = self.eviction_batch(bytes - evicted.bytes, count, measure, whose);
            if batch.is_empty() {
                break;
            }
            left -= batch.len();
            self.hide(&batch);
            let (free, pinned) = self.part_by_pins(batch);
            // First, so that nobody who is answered below misses what stays.
            for entry in &pinned {
                self.show(entry);
            }
            for entry in &free {
                evicted.bytes = evicted.bytes.saturating_add(self.measured(entry, measure));
                evicted.objects += 1;
                self.mourn(entry, ObjectState::Evicted);
                self.free_ended(entry);
            }
        }
        evicted
    }

    /// Whether an object of this session may be evicted.
    fn is_candidate(&self, owner: u32, whose: Whose) -> bool {
        match whose {
            Whose::Session(session) => owner == session,
            Whose::Anybodys => {
                let owner = self.clients.of_session(owner);
                owner.is_none_or(|(_, client)| client.share_bytes.is_none())
            }
        }
    }

    /// The objects that may be evicted, the least recently used first.
    pub(crate) fn candidates(&self, whose: Whose) -> impl Iterator<Item = u32> {
        // Most stores have no shares, and then there is nothing to look up.
        let all = whose == Whose::Anybodys && !self.clients.has_shares();
        let candidate =
            move |record: &u32| all || self.is_candidate(self.records.get(*record).owner, whose);
        self.records.oldest(List::Cache).filter(candidate)
    }

    fn candidates_count(&self, whose: Whose) -> usize {
        if whose == Whose::Anybodys && !self.clients.has_shares() {
            return self.records.count(List::Cache);
        }
        self.candidates(whose).count()
    }

    fn eviction_batch(
        &self,
        bytes: u64,
        count: usize,
        measure: Measure,
        whose: Whose,
    ) -> Vec<Entry> {
        let mut batch = Vec::new();
        let mut sum: u64 = 0;
        for record in self.candidates(whose).take(count) {
            if sum >= bytes {
                break;
            }
            let entry = self.entry(record);
            sum = sum.saturating_add(self.measured(&entry, measure));
            batch.push(entry);
        }
        batch
    }

    fn measured(&self, entry: &Entry, measure: Measure) -> u64 {
        match measure {
            Measure::Content => entry.sizes.data.saturating_add(entry.sizes.metadata),
            Measure::Charge => self.memory.charge(&entry.range, &entry.sizes),
        }
    }
}
