//! What a restarted daemon does with what its predecessor left, and what clients say who come back.
//!
//! The index, the ledgers and the extents outlive a daemon. The store learns every object that was
//! sealed, deletes again what was being deleted, and finds the gaps between. A gap may be leased to
//! a writer that is still at work. Such an extent is *quarantined*: its gaps stay in doubt until
//! the daemon says whose it is ([`Store::writer_back`]). Then they count as leased to that client,
//! which is away like one whose connection broke ([`crate::disconnect`]), because records that it
//! submitted while there was no daemon may be about any of them, until it says what it really
//! holds. Only gaps within the range that was last in the writer's hands can be leased; the others
//! are free.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::{self, MissingClaims};
use plasmon_proto::object::Level;
use plasmon_proto::{ObjectId, ObjectState, Policy};

use crate::clients::Clients;
use crate::clients::NO_OWNER;
use crate::construction::{CreateRequest, Stage};
use crate::effect::Effect;
use crate::event::{ClientNo, RecoveredExtent, RecoveredObject};
use crate::extras::Extras;
use crate::memory::{Domain, Extent};
use crate::objects::Objects;
use crate::places::{self, Places};
use crate::ports::{Directory, Entry};
use crate::records::{EXTRAS, HIDDEN, RECOVERED};
use crate::space::Space;
use crate::spill::{Backing, SpilledObject};
use crate::store::Store;
use crate::work::{Leftover, ReturnedLeases};

/// Record numbers beyond the number of objects that are still believed.
const RECORDS_SPARE: u32 = 1 << 20;

/// No record has this number: it is beyond what [`RECORDS_SPARE`] admits.
const NO_RECORD: u32 = u32::MAX;

impl<D: Directory> Store<D> {
    /// Takes over extents and objects of an earlier daemon, once, before the first event. The
    /// directory holds the objects already. Returns the objects that could not be kept, because
    /// their entries contradict each other or are nowhere in the extents; they are corrupt.
    pub fn recover(
        &mut self,
        now_ms: u64,
        extents: &[RecoveredExtent],
        mut objects: Vec<RecoveredObject>,
        effects: &mut Vec<Effect>,
    ) -> Vec<ObjectId> {
        std::mem::swap(&mut self.out, effects);
        self.now_ms = now_ms;
        self.totals.recovered = true;
        let extents: Vec<_> =
            extents.iter().filter(|extent| self.space.memory.adopt(extent)).copied().collect();
        let newest = objects.iter().map(|object| object.serial).max().unwrap_or(0);
        self.next_serial = self.next_serial.max(newest.saturating_add(1));
        self.objects.show_leaving(&mut objects);
        self.objects.show_followers(&mut objects);
        let mut places = places::look_at(&objects, &extents, &self.space.memory);
        let broken: Vec<ObjectId> = places.broken.iter().map(|at| objects[*at].id).collect();
        let composites = self.adopt_objects(&mut objects, &places);
        let mut spilled: Vec<_> =
            objects.into_iter().filter(|object| object.range.is_none()).collect();
        spilled.sort_by_key(|object| object.serial);
        let in_tier = self.adopt_spilled(spilled);
        for members in composites.iter().chain(&in_tier) {
            self.objects.hold_members(&mut self.sessions.clients, members);
        }
        for members in in_tier {
            self.objects.cool_members(&members);
        }
        self.adopt_gaps(&extents, std::mem::take(&mut places.gaps));
        self.recover_copies();
        std::mem::swap(&mut self.out, effects);
        broken
    }

    /// Takes over the objects of a spill tier that could not be read when the store was taken over.
    /// What is known of an id by now counts more than an old file.
    pub fn adopt_tier(
        &mut self,
        now_ms: u64,
        objects: Vec<RecoveredObject>,
        effects: &mut Vec<Effect>,
    ) {
        std::mem::swap(&mut self.out, effects);
        self.now_ms = now_ms.max(self.now_ms);
        let newest = objects.iter().map(|object| object.serial).max().unwrap_or(0);
        self.next_serial = self.next_serial.max(newest.saturating_add(1));
        let (mut wanted, outdated): (Vec<_>, Vec<_>) = objects
            .into_iter()
            .partition(|object| self.objects.state(&object.id) == ObjectState::Absent);
        for object in outdated {
            self.objects.unspill(object.id, object.serial, &mut self.out);
        }
        wanted.sort_by_key(|object| object.serial);
        self.take_in(wanted);
        std::mem::swap(&mut self.out, effects);
    }

    /// Takes over objects out of memory, in the order of their serials, of whose ids nothing is
    /// known.
    pub(crate) fn take_in(&mut self, wanted: Vec<RecoveredObject>) {
        let ids: Vec<ObjectId> = wanted.iter().map(|object| object.id).collect();
        let composites = self.adopt_spilled(wanted);
        for members in &composites {
            self.objects.hold_members(&mut self.sessions.clients, members);
        }
        for members in composites {
            self.objects.cool_members(&members);
        }
        // Requests that waited for an object of which nothing was known.
        for id in ids {
            if self.sessions.waits.is_waited_for(&id) {
                self.start_restore(&id);
            }
        }
    }

    /// Gives every object in memory its record. Returns the members of the composites.
    fn adopt_objects(
        &mut self,
        objects: &mut [RecoveredObject],
        places: &Places,
    ) -> Vec<Vec<ObjectId>> {
        for at in &places.broken {
            self.objects.discard(&objects[*at]);
        }
        let mut is_broken = vec![false; objects.len()];
        places.broken.iter().for_each(|at| is_broken[*at] = true);
        let mut records = self.objects.claim_records(objects, &is_broken);
        // All without a record leave before the first comes back: growing names entries by records.
        let homeless = |at: &usize| records[*at] == NO_RECORD && !is_broken[*at];
        let homeless: Vec<usize> =
            (0..objects.len()).filter(|at| objects[*at].range.is_some()).filter(homeless).collect();
        for at in &homeless {
            if !objects[*at].hidden {
                self.objects.directory.hide(&[objects[*at].slot]);
            }
            self.objects.directory.remove(objects[*at].slot);
        }
        for at in homeless {
            records[at] = self.objects.rehouse(&objects[at]);
        }
        let (mut composites, mut visible) = (Vec::new(), Vec::with_capacity(objects.len()));
        for (at, object) in objects.iter_mut().enumerate() {
            let (Some(range), record) = (object.range, records[at]) else { continue };
            if is_broken[at] {
                continue;
            }
            self.space.memory.adopt_object(&range, &object.meta.sizes, places.alone[at]);
            self.adopt_object(record, object);
            if !object.hidden {
                visible.push((object.serial, record));
            }
            if !object.attributes.members.is_empty() {
                composites.push(std::mem::take(&mut object.attributes.members));
            }
        }
        // The oldest is the first to go.
        visible.sort_unstable();
        visible.into_iter().for_each(|(_, record)| self.objects.records.touch(record));
        composites
    }

    fn adopt_object(&mut self, record: u32, object: &RecoveredObject) {
        self.space.hold_content(&mut self.sessions.clients, NO_OWNER, &object.meta.sizes);
        let flag = self.list_flag(object.meta.traits.policy, object.attributes.durable);
        self.objects.records.get_mut(record).flags |= flag;
        if !object.attributes.is_empty() {
            let extras = recovered_extras(object);
            if let Some(expires_ms) = extras.expires_ms.filter(|_| !object.hidden) {
                self.objects.expiries.insert((expires_ms, object.id, object.serial));
            }
            self.objects.records.get_mut(record).flags |= EXTRAS;
            self.objects.extras.insert(record, Box::new(extras));
        }
        if object.hidden {
            if !self.recover_hidden(&object.id, object.serial, record) {
                self.objects.deferred_frees.adopt(object.serial, record, self.now_ms);
            }
        } else {
            self.recover_homed(&object.id, &object.attributes);
            self.objects.visible += 1;
            if let (Some(name), Some(extras)) =
                (&object.attributes.name, self.objects.extras_of(record))
            {
                let bytes = extras.counted_bytes(&object.meta);
                self.sessions.adoptions.add_object(name, object.id, bytes);
            }
        }
    }

    /// Objects of the spill tier. One that is also in memory was on its way there or back. Returns
    /// the members of the composites.
    fn adopt_spilled(&mut self, objects: Vec<RecoveredObject>) -> Vec<Vec<ObjectId>> {
        let (mut composites, void) = (Vec::new(), self.objects.directory.void());
        // The newest incarnation counts; they come in the order of their serials.
        for object in objects.into_iter().rev() {
            // One that was deleted while it was on its way there is hidden.
            // What is in the log was looked at before.
            let is_over = void.contains(&object.serial)
                || self.objects.deferred_frees.is_pinned(object.serial)
                || self.objects.find(&object.id).is_some()
                || self.objects.tier.get(&object.id).is_some();
            if is_over && object.lsn.is_none() {
                self.objects.unspill(object.id, object.serial, &mut self.out);
                continue;
            }
            let mut extras = recovered_extras(&object);
            if let Some(holds) = self.objects.take_absent(&object.id) {
                extras.take_holds(holds);
            }
            if let Some(expires_ms) = extras.expires_ms {
                self.objects.expiries.insert((expires_ms, object.id, object.serial));
            }
            composites.push(extras.attributes.members.clone());
            self.recover_homed(&object.id, &extras.attributes);
            // What a log has of a pool may have been deleted since.
            let unpublished = object.lsn.is_some() && object.id.is_pooled();
            if let Some(name) = extras.attributes.name.as_ref().filter(|_| !unpublished) {
                let bytes = extras.counted_bytes(&object.meta);
                self.sessions.adoptions.add_object(name, object.id, bytes);
            }
            if unpublished {
                extras.pool_policy = Some(Policy::Keep);
            }
            let spilled = SpilledObject {
                serial: object.serial,
                backing: object.lsn.map_or(Backing::File, Backing::Log),
                meta: object.meta,
                extras,
                owner: NO_OWNER,
                corrupt: false,
                restoring: false,
                unpublished,
            };
            self.objects.tier.insert(object.id, spilled);
        }
        composites
    }

    fn adopt_gaps(&mut self, extents: &[RecoveredExtent], gaps: Vec<Range>) {
        let quarantined: BTreeMap<ExtentId, Option<Range>> =
            extents.iter().filter(|it| it.quarantined).map(|it| (it.extent, it.lent)).collect();
        for gap in gaps {
            if self.space.memory.is_exact_extent(gap.extent) {
                continue;
            }
            let Some(lent) = quarantined.get(&gap.extent) else {
                self.space.memory.open_in_doubt(gap, &mut self.out);
                continue;
            };
            let [before, doubt, after] = parted(gap, lent.unwrap_or(gap));
            for free in [before, after].into_iter().filter(|part| part.bytes > 0) {
                self.space.memory.open_in_doubt(free, &mut self.out);
            }
            if doubt.bytes > 0 {
                self.space.memory.adopt_in_doubt(&doubt);
                self.space.in_doubt.entry(doubt.extent).or_default().push(doubt);
            }
        }
        for extent in extents {
            if !extent.quarantined {
                self.space.memory.open_extent(extent.extent, &mut self.out);
            }
        }
    }

    /// The writer of a quarantined extent is this client. What is free of the range that was in its
    /// hands counts as leased to it, until it resumes and says what it really holds, or is gone.
    pub fn writer_back(&mut self, extent: ExtentId, client: ClientNo) {
        let Some(found) = self.sessions.clients.get_mut(client) else { return };
        let gaps = self.space.in_doubt.remove(&extent).unwrap_or_default();
        if gaps.is_empty() && !self.space.memory.is_closed(extent) {
            return;
        }
        self.space.memory.set_domain(extent, Domain::Client(found.session));
        found.leases_unsure = true;
        let session = found.session;
        let bytes = gaps.iter().map(|gap| gap.bytes).sum();
        gaps.into_iter().for_each(|gap| found.leases.add(gap));
        self.sessions.clients.own(session, bytes);
    }

    /// Whether the client is the writer of an extent in which no object was published yet, at level
    /// leased: before one is, the kernel must refuse new writers, or the client is expelled.
    pub fn awaits_protection(&self, client: ClientNo, range: &Range) -> bool {
        let unpublished = |extent: &Extent| !extent.published;
        self.config.level == Level::Leased
            && self.space.memory.extent(range).is_some_and(unpublished)
            && self.space.is_writer(&self.sessions.clients, client, range)
    }

    /// A client that was away says what it holds, and is told what of that is not its own any more.
    /// What it does not name is free, except for objects that it announced: those it aborts itself.
    pub(crate) fn resume(
        &mut self,
        client: ClientNo,
        leases: &[Range],
        creating: Vec<message::PendingObject>,
    ) {
        let Some(found) = self.sessions.clients.come_back(client) else { return };
        let session = found.session;
        let mut lost = MissingClaims::default();
        for object in creating {
            let id = object.id;
            if !self.resume_creating(client, object) {
                lost.creating.push(id);
            }
        }
        let Some(found) = self.sessions.clients.get_mut(client) else { return };
        let unsure = std::mem::take(&mut found.leases_unsure);
        let mut rest = std::mem::take(&mut found.leases);
        let mut written = BTreeSet::new();
        for lease in leases {
            let held = rest.carve_within(*lease);
            if held.iter().map(|range| range.bytes).sum::<u64>() < lease.bytes {
                lost.leases.push(*lease);
            }
            written.extend(held.iter().map(|range| range.extent));
            held.into_iter().for_each(|range| found.leases.add(range));
        }
        let unnamed = found.creating.iter().copied().collect();
        for extent in written {
            self.say_lent(client, extent);
            self.out.push(Effect::Writer(extent, Some(client)));
        }
        self.work.leave(Leftover::Leases(ReturnedLeases {
            session,
            leases: rest,
            unsure,
            gone: false,
        }));
        self.work.leave(Leftover::Unnamed(session, unnamed));
        self.out.push(Effect::Resumed(client, lost));
    }

    /// Whether the client goes on creating this object.
    fn resume_creating(&mut self, client: ClientNo, object: message::PendingObject) -> bool {
        let message::PendingObject { id, sizes, traits, range, strict } = object;
        let Some(found) = self.sessions.clients.get_mut(client) else { return false };
        let (session, connection) = (found.session, found.connection);
        if let Some(known) = self.objects.pending_objects.get_mut(&id) {
            let fits = known.growing.is_some() || known.sizes == sizes;
            let same = known.range().is_some_and(|it| it.extent == range.extent) && fits;
            if known.owner != session || !same {
                return false;
            }
            known.connection = connection;
            return true;
        }
        // Of an earlier daemon: its memory counts as leased so far.
        let fits = sizes.footprint() == Some(range.bytes);
        if !fits || !self.objects.is_available(&id) {
            return false;
        }
        let Some(found) = self.sessions.clients.get_mut(client) else { return false };
        if found.leases.carve(range).is_err() {
            return false;
        }
        self.sessions.clients.uncharge(session, range.bytes);
        if strict {
            self.space.memory.set_strict(range.extent);
        }
        let wanted = CreateRequest { id, sizes, traits, strict, landing: None };
        if self.begin(client, &wanted, Stage::Writing(range), range.bytes).is_err() {
            self.space.memory.release(range, range.bytes, &mut self.out);
            return false;
        }
        self.space.memory.note_creation(range.extent);
        self.say_lent(client, range.extent);
        self.out.push(Effect::Writer(range.extent, Some(client)));
        true
    }
}

impl Space {
    /// Whether the client is the extent's writer.
    pub(crate) fn is_writer(&self, clients: &Clients, client: ClientNo, range: &Range) -> bool {
        let own = clients.get(client).map(|found| Domain::Client(found.session));
        own.is_some() && self.memory.extent(range).map(|extent| extent.domain) == own
    }
}

impl<D: Directory> Objects<D> {
    /// An object that the daemon before was about to give the memory of up was not deleted, nor was
    /// one that it was about to replace, unless the new one is there.
    fn show_leaving(&mut self, objects: &mut [RecoveredObject]) {
        let Some(leaving) = self.directory.leaving() else { return };
        let in_memory = |it: &RecoveredObject| it.range.is_some();
        let is_leaving = |it: &RecoveredObject| it.hidden && in_memory(it) && it.serial == leaving;
        if let Some(at) = objects.iter().position(is_leaving) {
            let id = objects[at].id;
            let is_replaced = objects.iter().any(|it| it.id == id && !it.hidden && in_memory(it));
            if !is_replaced {
                self.directory.show(objects[at].slot);
                objects[at].hidden = false;
            }
        }
        self.directory.set_leaving(None);
    }

    /// The daemon before may have ended in a look for the pins of deleted composites, for which it
    /// hid their members, too. Readers of a composite have no pins on these. So members stay until
    /// the memory of their composite is free, which then ends them. A later incarnation, in memory
    /// or in the tier, is the member instead.
    fn show_followers(&mut self, objects: &mut [RecoveredObject]) {
        let in_memory = |it: &RecoveredObject| it.range.is_some();
        let deleted = objects.iter().filter(|it| it.hidden && in_memory(it));
        // Those of a pool end by themselves.
        let held = |id: &ObjectId| !id.is_pooled();
        let named: BTreeSet<ObjectId> =
            deleted.flat_map(|it| &it.attributes.members).copied().filter(held).collect();
        let order = |it: &RecoveredObject| (!it.hidden && in_memory(it), it.serial);
        let mut last: BTreeMap<ObjectId, usize> = BTreeMap::new();
        for (at, object) in objects.iter().enumerate().filter(|(_, it)| named.contains(&it.id)) {
            let known = last.entry(object.id).or_insert(at);
            if order(&objects[*known]) < order(object) {
                *known = at;
            }
        }
        for at in last.into_values() {
            let object = &mut objects[at];
            let follows = object.meta.traits.owned || object.attributes.ttl_ms.is_some();
            if object.hidden && follows && object.range.is_some() {
                self.directory.show(object.slot);
                object.hidden = false;
            }
        }
    }

    fn discard(&mut self, object: &RecoveredObject) {
        if !object.hidden {
            self.directory.hide(&[object.slot]);
            self.recent_ends.add(object.id, ObjectState::Corrupt);
        }
        self.directory.remove(object.slot);
    }

    /// The records of the objects in memory, [`NO_RECORD`] for one whose number cannot be kept.
    fn claim_records(&mut self, objects: &[RecoveredObject], is_broken: &[bool]) -> Vec<u32> {
        let limit = RECORDS_SPARE.saturating_add(objects.len() as u32).saturating_mul(2);
        let claim = |(object, is_broken): (&RecoveredObject, &bool)| {
            let flags = RECOVERED | if object.hidden { HIDDEN } else { 0 };
            if object.range.is_none()
                || *is_broken
                || !self.records.claim(object.record, limit, flags)
            {
                return NO_RECORD;
            }
            self.records.get_mut(object.record).slot = object.slot;
            object.record
        };
        objects.iter().zip(is_broken).map(claim).collect()
    }

    /// Inserts an entry again whose record number cannot be kept.
    fn rehouse(&mut self, object: &RecoveredObject) -> u32 {
        let RecoveredObject { id, serial, meta, hidden, .. } = *object;
        let range = object.range.expect("objects in memory have a range");
        let record = self.records.allocate(NO_OWNER, RECOVERED);
        let entry = Entry { serial, id, range, meta, record };
        let records = &mut self.records;
        let slot = self.directory.insert(&entry, &mut |moved, slot| {
            records.get_mut(moved).slot = slot;
        });
        if hidden {
            self.directory.hide(&[slot]);
            self.records.get_mut(record).flags |= HIDDEN;
        }
        self.records.get_mut(record).slot = slot;
        record
    }
}

/// The parts of a range before another one, in it, and after it.
fn parted(range: Range, by: Range) -> [Range; 3] {
    let end = range.offset + range.bytes;
    let from = by.offset.clamp(range.offset, end);
    let until = by.offset.saturating_add(by.bytes).clamp(from, end);
    let part = |from, until| Range { offset: from, bytes: until - from, ..range };
    [part(range.offset, from), part(from, until), part(until, end)]
}

fn recovered_extras(object: &RecoveredObject) -> Extras {
    let attributes = object.attributes.clone();
    let sealed_ms = object.meta.sealed_ms();
    let expires_ms = attributes.ttl_ms.map(|ttl_ms| sealed_ms.saturating_add(ttl_ms));
    Extras { attributes, expires_ms, ..Extras::default() }
}
