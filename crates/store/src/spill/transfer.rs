//! How objects go to the spill tier and come back.

use plasmon_proto::extent::Range;
use plasmon_proto::message::Failure;
use plasmon_proto::{Code, ObjectId, ObjectState};

use super::{Backing, SpillRead, SpillWrite, SpilledObject, stored_bytes};
use crate::durable::LogRecord;
use crate::effect::{Effect, SpillOrder};
use crate::event::{ReadBack, Ticket};
use crate::extras::Extras;
use crate::jobs::{Exact, Job, Purpose, Size};
use crate::memory::PlacedRange;
use crate::objects::Objects;
use crate::objects::{Announcement, NewObject};
use crate::ports::{Directory, Entry};
use crate::records::{HIDDEN, SPILLING};
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Has those of the objects that are not pinned written to the tier, until `shortage` bytes of
    /// memory will come free. Returns how many cannot go.
    pub(crate) fn spill_unpinned(
        &mut self,
        candidates: &[Entry],
        pins: &[u32],
        shortage: u64,
    ) -> usize {
        if self.spillable().is_none() {
            return 0;
        }
        let bytes_max = self.config.spill_bytes_max.unwrap_or(0);
        let mut stay = 0;
        for (entry, pins) in candidates.iter().zip(pins) {
            if self.objects.tier.charge_coming() >= shortage {
                break;
            }
            let busy = self.objects.records.get(entry.record).is(SPILLING);
            if *pins > 0 || busy || !self.objects.fits_tier(entry, bytes_max, &mut self.out) {
                self.objects.records.touch(entry.record);
                stay += 1;
            } else {
                self.start_spill(entry);
                self.spill_followers(entry, shortage, bytes_max);
            }
        }
        stay
    }

    /// Has members of a composite that is being written written as well. Those that must stay
    /// keep nothing else from going.
    fn spill_followers(&mut self, composite: &Entry, shortage: u64, bytes_max: u64) {
        if self
            .objects
            .extras_of(composite.record)
            .is_none_or(|extras| extras.attributes.members.is_empty())
        {
            return;
        }
        // Whether any is pinned is found out when it is to give its memory up.
        for entry in self.objects.followers(composite) {
            if self.objects.tier.charge_coming() >= shortage {
                break;
            }
            if self.objects.fits_tier(&entry, bytes_max, &mut self.out) {
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
        let Entry { id, serial, range, meta, record } = *entry;
        self.objects.records.unlist(record);
        self.objects.records.get_mut(record).flags |= SPILLING;
        let charge = self.space.memory.charge(&range, &meta.sizes);
        let has_file = self.objects.kept.contains(serial) || self.objects.durable.has(serial);
        let bytes = if has_file { 0 } else { stored_bytes(&meta.sizes) };
        self.objects.tier.writing.insert(ticket, SpillWrite { record, id, serial, bytes, charge });
        if has_file {
            return self.start_leaving(ticket, entry);
        }
        self.objects.directory.set_void(serial, false);
        let attributes = self
            .objects
            .extras_of(record)
            .map(|extras| extras.attributes.clone())
            .unwrap_or_default();
        let order = SpillOrder { id, serial, range, meta, attributes };
        self.out.push(Effect::Spill(ticket, order));
    }

    pub(crate) fn spilled(&mut self, ticket: Ticket, done: bool) {
        let Some(writing) = self.objects.tier.writing.remove(&ticket) else { return };
        let SpillWrite { record, id, serial, bytes, .. } = writing;
        if done {
            self.totals.spill_written_bytes += bytes;
        }
        // The record is still this object's: what is being written is never freed.
        self.objects.records.get_mut(record).flags &= !SPILLING;
        let deleted = self.objects.records.get(record).is(HIDDEN);
        let gone = deleted || (done && self.give_memory_up(record));
        let stays = !gone;
        if done && (deleted || stays) {
            self.objects.unspill(id, serial, &mut self.out);
        }
        if deleted {
            self.objects.deferred_frees.look_again(serial);
            self.collect_fresh();
        } else if stays {
            self.objects.enlist(record);
        }
        // A tier without room for it may have had room if not for the files of objects in memory.
        if !done && !self.objects.drop_files(bytes, &mut self.out) {
            self.space.jobs.spill_failed();
        }
        self.retry_waiting_for_room();
    }

    /// An object was written: it gives its memory up unless it is in use. A daemon that ends while
    /// it is hidden leaves the note that it was not deleted: the next one shows it again, because
    /// which clients pin it is known to their ledgers alone.
    fn give_memory_up(&mut self, record: u32) -> bool {
        if self.objects.extras_of(record).is_some_and(Extras::is_in_use) {
            return false;
        }
        let entry = self.objects.entry(record);
        self.objects.directory.set_leaving(Some(entry.serial));
        self.objects.hide(&[entry]);
        if self.look(&[entry.serial]).pins != [0] {
            self.objects.show(&entry);
            self.objects.directory.set_leaving(None);
            return false;
        }
        self.enter_tier(&entry, entry.serial, Backing::File);
        true
    }

    /// A hidden object without pins gives its memory up: it is in the tier, in the file of this
    /// incarnation, or in the log.
    pub(crate) fn enter_tier(&mut self, entry: &Entry, file: u64, backing: Backing) {
        let owner = self.objects.records.get(entry.record).owner;
        let extras =
            self.objects.free(entry, &mut self.space, &mut self.sessions.clients, &mut self.out);
        self.objects.directory.set_leaving(None);
        if let Some(expires_ms) = extras.expires_ms {
            self.objects.expiries.insert((expires_ms, entry.id, file));
        }
        let Entry { id, meta, .. } = *entry;
        let (meta, extras) = match backing {
            Backing::Log(_) => self.as_logged(&id, meta, extras),
            Backing::File | Backing::Superseded => (meta, extras),
        };
        let name = extras.attributes.name.clone();
        let members = extras.attributes.members.clone();
        let (serial, corrupt, restoring, unpublished) = (file, false, false, false);
        let spilled =
            SpilledObject { serial, backing, meta, extras, owner, corrupt, restoring, unpublished };
        self.objects.tier.insert(id, spilled);
        self.objects.deferred_deletes.renumber(entry.serial, file);
        self.totals.spilled += 1;
        self.notify(Announcement {
            id,
            state: ObjectState::Spilled,
            sizes: meta.sizes,
            name: name.as_ref(),
        });
        self.objects.cool_members(&members);
    }

    /// Brings an object back, unless it is on its way already.
    pub(crate) fn start_restore(&mut self, id: &ObjectId) {
        let Some(spilled) = self.objects.tier.get_mut(id) else { return };
        if spilled.corrupt || spilled.restoring {
            return;
        }
        spilled.restoring = true;
        let (serial, sizes) = (spilled.serial, spilled.meta.sizes);
        let purpose = Purpose::Restore { id: *id, serial };
        let Some(footprint) = sizes.footprint() else { return self.restore_failed(id, serial) };
        let exact = self.space.memory.is_exact(footprint);
        let exact =
            exact.then(|| Exact { charge: self.space.memory.exact_charge(&sizes), strict: false });
        self.start(Job::new(purpose, Size::exactly(footprint), exact));
    }

    /// Memory was found for an object that comes back.
    pub(crate) fn restore_into(&mut self, id: ObjectId, serial: u64, placed: &PlacedRange) {
        let ticket = self.ticket();
        let PlacedRange { range, charge, .. } = *placed;
        self.objects.tier.reading.insert(ticket, SpillRead { id, serial, range, charge });
        let backing = self.objects.tier.get(&id).filter(|it| it.serial == serial);
        self.out.push(match backing.map(|it| it.backing) {
            Some(Backing::Log(lsn)) => Effect::ReadLog(ticket, id, lsn, range),
            _ => Effect::Restore(ticket, id, serial, range),
        });
    }

    /// There is no memory for an object that should come back.
    pub(crate) fn restore_failed(&mut self, id: &ObjectId, serial: u64) {
        let Some(spilled) = self.objects.tier.get_mut(id).filter(|it| it.serial == serial) else {
            return;
        };
        spilled.restoring = false;
        for waiter in self.sessions.waits.give_up(id) {
            self.answer_waiter(waiter);
        }
    }

    /// An object that should come back cannot be read now. A request for it alone is told why; one
    /// for several is told that it is still spilled.
    fn read_failed(&mut self, id: &ObjectId) {
        let detail = match self.objects.tier.get(id).map(|it| it.backing) {
            Some(Backing::File) | None => {
                "the object's spill file cannot be read now; the object is not lost: try again"
            }
            _ => "the log cannot be read now; the object is not lost: try again",
        };
        for waiter in self.sessions.waits.give_up(id) {
            if self.sessions.waits.is_for_one(waiter) {
                let failure = Failure::of(Code::Io).with_id(*id).with_detail(detail);
                self.fail_waiter(waiter, failure);
            } else {
                self.answer_waiter(waiter);
            }
        }
    }

    pub(crate) fn restored(&mut self, ticket: Ticket, outcome: ReadBack) {
        let Some(SpillRead { id, serial, range, charge }) =
            self.objects.tier.reading.remove(&ticket)
        else {
            return;
        };
        let wanted = self.objects.tier.get(&id).is_some_and(|spilled| spilled.serial == serial);
        if !(wanted && outcome == ReadBack::Done) {
            self.space.memory.release(range, charge, &mut self.out);
        }
        if wanted && outcome == ReadBack::Done {
            self.bring_back(id, range, charge);
        } else if wanted && let Some(spilled) = self.objects.tier.get_mut(&id) {
            spilled.restoring = false;
            if outcome == ReadBack::Corrupt {
                if let Backing::Log(lsn) = spilled.backing {
                    self.objects.durable.read_damaged(lsn);
                }
                self.objects.tier.mark_corrupt(&id);
                self.notify_waiters(&id, ObjectState::Corrupt);
                self.call_damaged(&id);
            } else {
                self.read_failed(&id);
            }
        }
        self.retry_waiting_for_room();
    }

    fn bring_back(&mut self, id: ObjectId, range: Range, charge: u64) {
        let Some(spilled) = self.objects.tier.remove(&id) else { return };
        self.space.jobs.stuck = None;
        if let Some(expires_ms) = spilled.extras.expires_ms {
            self.objects.expiries.remove(&(expires_ms, id, spilled.serial));
        }
        let serial = self.serial();
        let SpilledObject { meta, extras, owner, backing, unpublished, .. } = spilled;
        self.sessions.clients.own(owner, charge);
        self.objects.warm_members(&extras.attributes.members);
        let extras = extras.kept();
        let visible = !id.is_pooled() || (self.is_vouched(&id) && !unpublished);
        let record = self.publish(NewObject { id, serial, range, meta, owner, extras, visible });
        self.totals.restored += 1;
        if let Backing::Log(lsn) = backing {
            self.objects.durable.insert(serial, LogRecord { id, lsn });
            if id.is_pooled() {
                self.keep_logged(record);
            }
            match visible {
                true => self.notify_waiters(&id, ObjectState::Sealed),
                false => self.withhold_restored(&id, record, unpublished),
            }
            return self.relog_suspect(lsn, record);
        }
        self.totals.spill_read_bytes += stored_bytes(&meta.sizes);
        if !visible {
            self.objects.unspill(id, spilled.serial, &mut self.out);
            return self.withhold_restored(&id, record, unpublished);
        }
        self.keep_file(serial, id, spilled.serial, stored_bytes(&meta.sizes));
        self.notify_waiters(&id, ObjectState::Sealed);
    }

    /// A spilled object ends.
    pub(crate) fn drop_spilled(&mut self, id: &ObjectId, state: ObjectState) {
        let Some(spilled) = self.take_spilled(id) else { return };
        self.objects.recent_ends.add(*id, state);
        let attributes = spilled.extras.attributes;
        let name = attributes.name.as_ref();
        if let Some(name) = name {
            self.sessions.adoptions.remove_object(name, id);
        }
        if id.is_pooled() {
            self.copy_ended(id, attributes.pool);
        }
        self.notify(Announcement { id: *id, state, sizes: spilled.meta.sizes, name });
        self.objects.detached_members.extend(attributes.members);
    }

    /// Takes a spilled object out of the tier. No client is notified.
    pub(crate) fn take_spilled(&mut self, id: &ObjectId) -> Option<SpilledObject> {
        let spilled = self.objects.tier.remove(id)?;
        self.space.jobs.stuck = None;
        if let Some(expires_ms) = spilled.extras.expires_ms {
            self.objects.expiries.remove(&(expires_ms, *id, spilled.serial));
        }
        // If it is being read just now, the tier removes it after that.
        self.objects.drop_backing(*id, &spilled, &mut self.out);
        self.totals.deleted += 1;
        self.objects.warm_members(&spilled.extras.attributes.members);
        Some(spilled)
    }
}

impl<D: Directory> Objects<D> {
    /// Has a file removed that counts for nothing any more. That is noted at once: before the file
    /// is gone the daemon may be, and what was deleted must not come back with the next one.
    pub(crate) fn unspill(&mut self, id: ObjectId, serial: u64, out: &mut Vec<Effect>) {
        self.directory.set_void(serial, true);
        out.push(Effect::Unspill(id, serial));
    }

    /// Whether the tier has an object, or room for it. Files of objects in memory make room.
    pub(crate) fn fits_tier(
        &mut self,
        entry: &Entry,
        bytes_max: u64,
        out: &mut Vec<Effect>,
    ) -> bool {
        if self.kept.contains(entry.serial) || self.durable.has(entry.serial) {
            return true;
        }
        // Not known to be in the log yet. It is never in the tier.
        if self.is_durable(entry.record) {
            return false;
        }
        let there = self.tier.bytes_coming().saturating_add(self.kept.bytes());
        let wanted = there.saturating_add(stored_bytes(&entry.meta.sizes));
        wanted <= bytes_max || self.spare_files(wanted - bytes_max, out)
    }
}
