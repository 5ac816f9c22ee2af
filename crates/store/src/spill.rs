//! The spill tier: objects with policy keep that gave their memory up and come back when somebody
//! wants to read them.
//!
//! ```text
//!     sealed --(Spill)--> being written --(Spilled)--> hidden, unpinned --> spilled
//!        ^                     | refused, or pinned meanwhile                  |
//!        +---------------------+                                               |
//!        +------------------(Restored)-- being read <--(Restore)-- placed <----+
//! ```
//!
//! While it is written an object stays visible and readable; the store pins it. What comes back is
//! a new incarnation: a serial names bytes at one place. Its file is kept, and then it is not
//! written again, see [`crate::kept`]. A composite takes its members along, see
//! [`crate::composite`].
//!
//! An object is corrupt only when its bytes are certainly lost. What a file system refuses for
//! another reason fails the requests that wait for it; the object stays spilled, and the next
//! request tries again.

use std::collections::BTreeMap;

use plasmon_proto::message::{Failure, Range};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::{Code, ObjectId, ObjectState};

use crate::effect::{Effect, SpillOrder};
use crate::event::{ReadBack, Ticket};
use crate::jobs::{Exact, Job, Purpose};
use crate::leasing::Size;
use crate::memory::Placed;
use crate::objects::{Birth, News};
use crate::ports::{Directory, Entry};
use crate::rare::Rare;
use crate::records::{HIDDEN, SPILLING};
use crate::store::Store;

/// One object in the tier.
#[derive(Clone, Debug)]
pub(crate) struct Spilled {
    pub(crate) serial: u64,
    pub(crate) sizes: Sizes,
    pub(crate) traits: Traits,
    pub(crate) rare: Rare,
    pub(crate) created_ms: u64,
    /// The session of its creator.
    pub(crate) owner: u32,
    /// It could not be read back.
    pub(crate) corrupt: bool,
    /// It is on its way back.
    pub(crate) restoring: bool,
}

impl Spilled {
    pub(crate) fn state(&self) -> ObjectState {
        if self.corrupt { ObjectState::Corrupt } else { ObjectState::Spilled }
    }
}

/// An object that the daemon is writing to the tier.
#[derive(Clone, Copy, Debug)]
struct Writing {
    record: u32,
    id: ObjectId,
    serial: u64,
    bytes: u64,
    charge: u64,
}

/// A place that the daemon is reading an object into.
#[derive(Clone, Copy, Debug)]
struct Reading {
    id: ObjectId,
    serial: u64,
    range: Range,
    charge: u64,
}

/// All objects in the tier.
#[derive(Debug, Default)]
pub(crate) struct SpillTier {
    by_id: BTreeMap<ObjectId, Spilled>,
    by_serial: BTreeMap<u64, ObjectId>,
    bytes: u64,
    writing: BTreeMap<Ticket, Writing>,
    reading: BTreeMap<Ticket, Reading>,
}

impl SpillTier {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Bytes of all objects in the tier.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<&Spilled> {
        if self.by_id.is_empty() { None } else { self.by_id.get(id) }
    }

    pub(crate) fn get_mut(&mut self, id: &ObjectId) -> Option<&mut Spilled> {
        self.by_id.get_mut(id)
    }

    pub(crate) fn insert(&mut self, id: ObjectId, spilled: Spilled) {
        self.bytes = self.bytes.saturating_add(stored_bytes(&spilled.sizes));
        self.by_serial.insert(spilled.serial, id);
        self.by_id.insert(id, spilled);
    }

    /// The record of an object that leaves the memory without being written.
    pub(crate) fn leaving(&self, ticket: Ticket) -> Option<u32> {
        self.writing.get(&ticket).map(|writing| writing.record)
    }

    pub(crate) fn end_leaving(&mut self, ticket: Ticket) {
        self.writing.remove(&ticket);
    }

    fn remove(&mut self, id: &ObjectId) -> Option<Spilled> {
        let spilled = self.by_id.remove(id)?;
        self.by_serial.remove(&spilled.serial);
        self.bytes = self.bytes.saturating_sub(stored_bytes(&spilled.sizes));
        Some(spilled)
    }

    /// Those from a serial on, in the order of their serials.
    pub(crate) fn from(&self, serial: u64) -> impl Iterator<Item = (&ObjectId, &Spilled)> {
        self.by_serial.range(serial..).filter_map(|(_, id)| Some((id, self.by_id.get(id)?)))
    }

    /// Bytes in the tier once everything is written.
    fn bytes_coming(&self) -> u64 {
        self.writing.values().fold(self.bytes, |sum, it| sum.saturating_add(it.bytes))
    }

    /// Whether anything is being written.
    pub(crate) fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// What will be free once everything is written.
    fn charge_coming(&self) -> u64 {
        self.writing.values().map(|writing| writing.charge).sum()
    }

    /// Places that are being read into, with their charges.
    #[cfg(test)]
    pub(crate) fn reading(&self) -> impl Iterator<Item = (Range, u64)> {
        self.reading.values().map(|reading| (reading.range, reading.charge))
    }
}

fn stored_bytes(sizes: &Sizes) -> u64 {
    sizes.total().unwrap_or(u64::MAX)
}

impl<D: Directory> Store<D> {
    /// Has those of the objects that are not pinned written to the tier, until `shortage` bytes of
    /// memory will come free. Returns how many cannot go.
    pub(crate) fn spill_unpinned(
        &mut self,
        candidates: &[Entry],
        pins: &[u32],
        shortage: u64,
    ) -> usize {
        let Some(bytes_max) = self.config.spill_bytes_max else { return 0 };
        let mut stay = 0;
        for (entry, pins) in candidates.iter().zip(pins) {
            if self.tier.charge_coming() >= shortage {
                break;
            }
            let busy = self.records.get(entry.record).is(SPILLING);
            if *pins > 0 || busy || !self.fits_tier(entry, bytes_max) {
                self.records.touch(entry.record);
                stay += 1;
            } else {
                self.start_spill(entry);
                self.spill_followers(entry, shortage, bytes_max);
            }
        }
        stay
    }

    /// Whether the tier has an object, or room for it. Files of objects in memory make room.
    pub(crate) fn fits_tier(&mut self, entry: &Entry, bytes_max: u64) -> bool {
        if self.kept.contains(entry.serial) {
            return true;
        }
        let there = self.tier.bytes_coming().saturating_add(self.kept.bytes());
        let wanted = there.saturating_add(stored_bytes(&entry.sizes));
        wanted <= bytes_max || self.spare_files(wanted - bytes_max)
    }

    /// Has members of a composite that is being written written as well. Those that must stay
    /// keep nothing else from going.
    fn spill_followers(&mut self, composite: &Entry, shortage: u64, bytes_max: u64) {
        if self.rare_of(composite.record).is_none_or(|rare| rare.attributes.members.is_empty()) {
            return;
        }
        // Whether any is pinned is found out when it is to give its memory up.
        for entry in self.followers(composite) {
            if self.tier.charge_coming() >= shortage {
                break;
            }
            if self.fits_tier(&entry, bytes_max) {
                self.start_spill(&entry);
            }
        }
    }

    /// Whether objects that could be evicted are spilled instead.
    pub(crate) fn spills_cache(&self) -> bool {
        self.config.spill_cache && self.config.spill_bytes_max.is_some()
    }

    pub(crate) fn start_spill(&mut self, entry: &Entry) {
        let ticket = self.ticket();
        let Entry { id, serial, range, sizes, traits, created_ms, record, .. } = *entry;
        self.records.unlist(record);
        self.records.get_mut(record).flags |= SPILLING;
        let charge = self.memory.charge(&range, &sizes);
        let has_file = self.kept.contains(serial);
        let bytes = if has_file { 0 } else { stored_bytes(&sizes) };
        self.tier.writing.insert(ticket, Writing { record, id, serial, bytes, charge });
        if has_file {
            return self.start_leaving(ticket, entry);
        }
        self.directory.set_void(serial, false);
        let attributes =
            self.rare_of(record).map(|rare| rare.attributes.clone()).unwrap_or_default();
        let construct_ms = self.rare_of(record).map_or(0, |rare| rare.construct_ms);
        let order =
            SpillOrder { id, serial, range, sizes, traits, attributes, created_ms, construct_ms };
        self.out.push(Effect::Spill(ticket, order));
    }

    /// Has a file removed that counts for nothing any more. That is noted at once: before the file
    /// is gone the daemon may be, and what was deleted must not come back with the next one.
    pub(crate) fn unspill(&mut self, id: ObjectId, serial: u64) {
        self.directory.set_void(serial, true);
        self.out.push(Effect::Unspill(id, serial));
    }

    pub(crate) fn spilled(&mut self, ticket: Ticket, done: bool) {
        let Some(writing) = self.tier.writing.remove(&ticket) else { return };
        let Writing { record, id, serial, bytes, .. } = writing;
        if done {
            self.totals.spill_written_bytes += bytes;
        }
        // The record is still this object's: what is being written is never freed.
        self.records.get_mut(record).flags &= !SPILLING;
        let deleted = self.records.get(record).is(HIDDEN);
        let gone = deleted || (done && self.give_memory_up(record));
        let stays = !gone;
        if done && (deleted || stays) {
            self.unspill(id, serial);
        }
        if deleted {
            self.lingering.look_again(serial);
            self.collect_fresh();
        } else if stays {
            self.enlist(record);
        }
        // A tier without room for it may have had room but for the files of objects in memory.
        if !done && !self.drop_files(bytes) {
            self.jobs.spill_failed();
        }
        self.feed_starving();
    }

    /// An object was written: it gives its memory up unless it is in use. A daemon that ends while
    /// it is hidden leaves the note that it was not deleted: the next one shows it again, because
    /// which clients pin it is known to their ledgers alone.
    fn give_memory_up(&mut self, record: u32) -> bool {
        if self.rare_of(record).is_some_and(Rare::is_in_use) {
            return false;
        }
        let entry = self.entry(record);
        self.directory.set_leaving(Some(entry.serial));
        self.hide(&[entry]);
        if self.look(&[entry.serial]).pins != [0] {
            self.show(&entry);
            self.directory.set_leaving(None);
            return false;
        }
        self.enter_tier(&entry, entry.serial);
        true
    }

    /// A hidden object that nobody pins gives its memory up: it is in the tier, in the file of this
    /// incarnation.
    pub(crate) fn enter_tier(&mut self, entry: &Entry, file: u64) {
        let owner = self.records.get(entry.record).owner;
        let rare = self.free(entry);
        self.directory.set_leaving(None);
        if let Some(expires_ms) = rare.expires_ms {
            self.expiries.insert((expires_ms, entry.id, file));
        }
        let Entry { id, sizes, traits, created_ms, .. } = *entry;
        let name = rare.attributes.name.clone();
        let members = rare.attributes.members.clone();
        let spilled = Spilled {
            serial: file,
            sizes,
            traits,
            rare,
            created_ms,
            owner,
            corrupt: false,
            restoring: false,
        };
        self.tier.insert(id, spilled);
        self.doomed.renumber(entry.serial, file);
        self.totals.spilled += 1;
        self.tell(News { id, state: ObjectState::Spilled, sizes, name: name.as_ref() });
        self.cool_members(&members);
    }

    /// Brings an object back, unless it is on its way already.
    pub(crate) fn start_restore(&mut self, id: &ObjectId) {
        let Some(spilled) = self.tier.get_mut(id) else { return };
        if spilled.corrupt || spilled.restoring {
            return;
        }
        spilled.restoring = true;
        let (serial, sizes) = (spilled.serial, spilled.sizes);
        let purpose = Purpose::Restore { id: *id, serial };
        let Some(footprint) = sizes.footprint() else { return self.restore_failed(id, serial) };
        let exact = self.memory.is_exact(footprint);
        let exact =
            exact.then(|| Exact { charge: self.memory.exact_charge(&sizes), strict: false });
        self.start(Job::new(purpose, Size::exactly(footprint), exact));
    }

    /// Memory was found for an object that comes back.
    pub(crate) fn restore_into(&mut self, id: ObjectId, serial: u64, placed: &Placed) {
        let ticket = self.ticket();
        let Placed { range, charge, .. } = *placed;
        self.tier.reading.insert(ticket, Reading { id, serial, range, charge });
        self.out.push(Effect::Restore(ticket, id, serial, range));
    }

    /// There is no memory for an object that should come back.
    pub(crate) fn restore_failed(&mut self, id: &ObjectId, serial: u64) {
        let Some(spilled) = self.tier.get_mut(id).filter(|it| it.serial == serial) else { return };
        spilled.restoring = false;
        for waiter in self.waits.give_up(id) {
            self.answer_waiter(waiter);
        }
    }

    /// An object that should come back cannot be read now. A request for it alone hears why; one
    /// for several hears that it is still spilled.
    fn read_failed(&mut self, id: &ObjectId) {
        for waiter in self.waits.give_up(id) {
            if self.waits.is_for_one(waiter) {
                let failure = Failure::of(Code::Io).with_id(*id).with_detail(
                    "the object's spill file cannot be read now; the object is not lost: try again",
                );
                self.fail_waiter(waiter, failure);
            } else {
                self.answer_waiter(waiter);
            }
        }
    }

    pub(crate) fn restored(&mut self, ticket: Ticket, outcome: ReadBack) {
        let Some(Reading { id, serial, range, charge }) = self.tier.reading.remove(&ticket) else {
            return;
        };
        let wanted = self.tier.get(&id).is_some_and(|spilled| spilled.serial == serial);
        if !(wanted && outcome == ReadBack::Done) {
            self.memory.release(range, charge, &mut self.out);
        }
        if wanted && outcome == ReadBack::Done {
            self.bring_back(id, range, charge);
        } else if wanted && let Some(spilled) = self.tier.get_mut(&id) {
            spilled.restoring = false;
            if outcome == ReadBack::Corrupt {
                spilled.corrupt = true;
                self.tell_waiters(&id, ObjectState::Corrupt);
            } else {
                self.read_failed(&id);
            }
        }
        self.feed_starving();
    }

    fn bring_back(&mut self, id: ObjectId, range: Range, charge: u64) {
        let Some(spilled) = self.tier.remove(&id) else { return };
        self.jobs.stuck = None;
        if let Some(expires_ms) = spilled.rare.expires_ms {
            self.expiries.remove(&(expires_ms, id, spilled.serial));
        }
        let serial = self.serial();
        let Spilled { sizes, traits, rare, created_ms, owner, .. } = spilled;
        self.clients.own(owner, charge);
        self.warm_members(&rare.attributes.members);
        let rare = rare.kept();
        self.publish(Birth { id, serial, range, sizes, traits, created_ms, owner, rare });
        self.totals.restored += 1;
        self.totals.spill_read_bytes += stored_bytes(&sizes);
        self.keep_file(serial, id, spilled.serial, stored_bytes(&sizes));
        self.tell_waiters(&id, ObjectState::Sealed);
    }

    /// A spilled object ends.
    pub(crate) fn drop_spilled(&mut self, id: &ObjectId, state: ObjectState) {
        let Some(spilled) = self.tier.remove(id) else { return };
        self.jobs.stuck = None;
        if let Some(expires_ms) = spilled.rare.expires_ms {
            self.expiries.remove(&(expires_ms, *id, spilled.serial));
        }
        // If it is being read just now, the tier removes it after that.
        self.unspill(*id, spilled.serial);
        self.totals.deleted += 1;
        self.obituaries.add(*id, state);
        let attributes = spilled.rare.attributes;
        let name = attributes.name.as_ref();
        if let Some(name) = name {
            self.adoptions.died(name, id);
        }
        self.warm_members(&attributes.members);
        self.tell(News { id: *id, state, sizes: spilled.sizes, name });
        self.unheld.extend(attributes.members);
    }
}
