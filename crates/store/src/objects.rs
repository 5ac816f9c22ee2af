//! The objects that there are, wherever they are: under construction, in memory or in the spill
//! tier; and those that ended.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::extent::Range;
use plasmon_proto::object::{ObjectMeta, Sizes};
use plasmon_proto::{Name, ObjectId, ObjectState};

use crate::construction::PendingObjects;
use crate::deferred_delete::DeferredDeletes;
use crate::deletes::DeferredFrees;
use crate::durable::Durable;
use crate::extras::{Extras, Holds};
use crate::ports::{Directory, Entry};
use crate::recent_ends::RecentEnds;
use crate::records::{CACHE, EXTRAS, HIDDEN, Records, SPILLING};
use crate::retained_files::KeptFiles;
use crate::spill::SpillTier;

/// All objects of a store.
#[derive(Debug)]
pub(crate) struct Objects<D> {
    /// What clients find.
    pub(crate) directory: D,
    /// Those in memory.
    pub(crate) records: Records,
    /// By record number.
    pub(crate) extras: BTreeMap<u32, Box<Extras>>,
    /// How many of them are visible.
    pub(crate) visible: u64,
    pub(crate) pending_objects: PendingObjects,
    pub(crate) tier: SpillTier,
    /// Files of objects that are in memory.
    pub(crate) kept: KeptFiles,
    /// What is in the log.
    pub(crate) durable: Durable,
    pub(crate) deferred_frees: DeferredFrees,
    pub(crate) deferred_deletes: DeferredDeletes,
    /// Objects with a time to live: when, which, which incarnation.
    pub(crate) expiries: BTreeSet<(u64, ObjectId, u64)>,
    /// Members whose composite is gone and which were not looked at since.
    pub(crate) detached_members: Vec<ObjectId>,
    /// Members that are not there, of composites of an earlier daemon.
    pub(crate) absent_members: BTreeMap<ObjectId, Holds>,
    pub(crate) recent_ends: RecentEnds,
}

/// An object that is complete and about to be seen.
#[derive(Debug)]
pub(crate) struct NewObject {
    pub(crate) id: ObjectId,
    pub(crate) serial: u64,
    pub(crate) range: Range,
    pub(crate) meta: ObjectMeta,
    /// The session of its creator.
    pub(crate) owner: u32,
    /// `None` for the many that have nothing of the kind.
    pub(crate) extras: Option<Box<Extras>>,
    /// Whether clients find it from now on.
    pub(crate) visible: bool,
}

/// One end or beginning that others are told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announcement<'a> {
    pub(crate) id: ObjectId,
    pub(crate) state: ObjectState,
    pub(crate) sizes: Sizes,
    pub(crate) name: Option<&'a Name>,
}

impl<D: Directory> Objects<D> {
    /// None yet.
    pub(crate) fn new(directory: D) -> Self {
        Self {
            directory,
            records: Records::default(),
            extras: BTreeMap::new(),
            visible: 0,
            pending_objects: PendingObjects::default(),
            tier: SpillTier::default(),
            kept: KeptFiles::default(),
            durable: Durable::default(),
            deferred_frees: DeferredFrees::default(),
            deferred_deletes: DeferredDeletes::default(),
            expiries: BTreeSet::new(),
            detached_members: Vec::new(),
            absent_members: BTreeMap::new(),
            recent_ends: RecentEnds::default(),
        }
    }

    /// Where an object is in its life.
    pub(crate) fn state(&self, id: &ObjectId) -> ObjectState {
        if self.find(id).is_some() {
            return ObjectState::Sealed;
        }
        if self.pending_objects.get(id).is_some() {
            return ObjectState::Creating;
        }
        if let Some(spilled) = self.tier.get(id) {
            return spilled.state();
        }
        self.recent_ends.state(id).unwrap_or(ObjectState::Absent)
    }

    /// Whether the id can be given to a new object.
    pub(crate) fn is_free(&self, id: &ObjectId) -> bool {
        self.find(id).is_none()
            && self.pending_objects.get(id).is_none()
            && self.tier.get(id).is_none()
    }

    /// The same, also not by one that is on its way to the log.
    pub(crate) fn is_available(&self, id: &ObjectId) -> bool {
        self.is_free(id) && !self.durable.is_replacing(id)
    }

    /// The visible object of this id, as its entry.
    pub(crate) fn find(&self, id: &ObjectId) -> Option<Entry> {
        self.directory.find(id).map(|(_, entry)| entry)
    }

    /// The entry of a record.
    pub(crate) fn entry(&self, record: u32) -> Entry {
        self.directory.entry(self.records.get(record).slot)
    }

    pub(crate) fn extras_of(&self, record: u32) -> Option<&Extras> {
        if !self.records.get(record).is(EXTRAS) {
            return None;
        }
        self.extras.get(&record).map(|extras| &**extras)
    }

    /// The rarer properties, made if there were none.
    pub(crate) fn extras_mut(&mut self, record: u32) -> &mut Extras {
        self.records.get_mut(record).flags |= EXTRAS;
        self.extras.entry(record).or_default()
    }

    /// How many composites hold the object.
    pub(crate) fn holders(&self, record: u32) -> u32 {
        self.extras_of(record).map_or(0, |extras| extras.holders)
    }

    /// Puts an object among those that may leave the memory, as the one used last, if it may: what
    /// a composite in memory holds may not, and what one in the tier holds may only follow it.
    pub(crate) fn enlist(&mut self, record: u32) {
        let (in_use, holders) = self
            .extras_of(record)
            .map_or((false, 0), |extras| (extras.is_in_use(), extras.holders));
        let evictable = self.records.get(record).is(CACHE);
        if !in_use && (holders == 0 || !evictable) {
            self.records.touch(record);
        }
    }

    /// Takes objects out of sight.
    pub(crate) fn hide(&mut self, entries: &[Entry]) {
        let slots: Vec<_> =
            entries.iter().map(|entry| self.records.get(entry.record).slot).collect();
        self.directory.hide(&slots);
        for entry in entries {
            self.records.get_mut(entry.record).flags |= HIDDEN;
        }
        self.visible -= entries.len() as u64;
    }

    /// Makes a hidden object visible again that was not used meanwhile.
    pub(crate) fn show_unused(&mut self, entry: &Entry) {
        let record = self.records.get_mut(entry.record);
        record.flags &= !HIDDEN;
        self.directory.show(record.slot);
        self.visible += 1;
    }

    /// Makes a hidden object visible again, as one that is in use.
    pub(crate) fn show(&mut self, entry: &Entry) {
        self.show_unused(entry);
        self.enlist(entry.record);
    }

    /// Remembers how hidden objects ended: all of them, before any client is notified of one.
    pub(crate) fn remember_end(&mut self, entries: &[Entry], state: ObjectState) {
        for entry in entries {
            self.recent_ends.add(entry.id, state);
        }
    }

    /// A hidden object neither leaves the memory for another one nor expires.
    pub(crate) fn take_off_lists(&mut self, entry: &Entry) {
        self.records.unlist(entry.record);
        let expires_ms = self.extras_of(entry.record).and_then(|extras| extras.expires_ms);
        if let Some(expires_ms) = expires_ms {
            self.expiries.remove(&(expires_ms, entry.id, entry.serial));
        }
    }

    /// Whether a hidden object has no readers. The store itself pins what is being written to the
    /// spill tier.
    pub(crate) fn is_free_of_pins(&self, entry: &Entry, pins: u32) -> bool {
        pins == 0 && !self.records.get(entry.record).is(SPILLING)
    }
}
