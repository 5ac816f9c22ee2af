//! Composite objects: descriptors whose members live at least as long as they do.
//!
//! A member is held once for each time that a composite names it. While it is held it can neither
//! be evicted nor deleted, and while a composite in memory holds it, it is in no list of least
//! recently used objects and is not spilled. The last composite lets it go when its own memory is
//! free, so a reader that pins the composite pins the members.
//!
//! A composite is spilled with the members that nothing else in memory holds. They follow it: the
//! outcome for the composite is known before they give their memory up, and a pin of it in the
//! meantime keeps them all. When it is read again, the composite comes back first, and each member
//! when it is read. Members with policy cache stay, and are deleted with the composite.
//!
//! An owned member that is in no composite when its creator disconnects is deleted then.
//!
//! Every object is held exactly as often as composites name it whose memory is not free. A member
//! that an earlier daemon lost, or has in a tier that cannot be read yet, is held in its absence:
//! what comes under its id is held from the start.
//!
//! Objects of a pool are not held: see `seat/composites.rs`.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::{Attributes, Code, ObjectId, ObjectState};

use crate::clients::Clients;
use crate::extras::Holds;
use crate::objects::Objects;
use crate::ports::{Directory, Entry};
use crate::records::{CACHE, SPILLING, UNATTACHED};
use crate::sessions::Sessions;
use crate::store::Store;
use crate::work::{PIECE, STEPS_MAX};

impl<D: Directory> Store<D> {
    /// Lets the members of composites go that are gone, a piece of them.
    pub(crate) fn let_members_go(&mut self) {
        let mut ended = Vec::new();
        let rest = self.objects.detached_members.len().saturating_sub(STEPS_MAX);
        for id in self.objects.detached_members.split_off(rest) {
            if id.is_pooled() {
                continue;
            }
            if let Some(entry) = self.objects.find(&id) {
                let now_ms = self.now_ms;
                let extras = self.objects.extras_mut(entry.record);
                extras.holders = extras.holders.saturating_sub(1);
                let expired = extras.expires_ms.is_some_and(|at_ms| at_ms <= now_ms);
                let held = extras.holders > 0;
                if !self.objects.records.get(entry.record).is(SPILLING) {
                    self.objects.enlist(entry.record);
                }
                if held {
                    continue;
                }
                if entry.meta.traits.owned || expired {
                    ended.push(entry);
                }
            } else if let Some(spilled) = self.objects.tier.get_mut(&id) {
                let extras = &mut spilled.extras;
                extras.holders = extras.holders.saturating_sub(1);
                let expired = extras.expires_ms.is_some_and(|at_ms| at_ms <= self.now_ms);
                if extras.holders == 0 && (spilled.meta.traits.owned || expired) {
                    self.drop_spilled(&id, ObjectState::Deleted);
                }
            } else {
                self.objects.let_absent_go(&id);
            }
        }
        self.hide_deleted(ended);
    }

    /// Ends followers. What was let go since there were `detached` members to let go names them,
    /// too.
    pub(crate) fn end_followers(&mut self, gone: &[(Entry, u32)], detached: usize) {
        if gone.is_empty() {
            return;
        }
        for (entry, _) in gone {
            self.announce_ended(entry, ObjectState::Deleted);
        }
        for (entry, pins) in gone {
            self.free_or_keep(entry, *pins);
        }
        let ids: BTreeSet<ObjectId> = gone.iter().map(|(entry, _)| entry.id).collect();
        let let_go = self.objects.detached_members.split_off(detached);
        self.objects.detached_members.extend(let_go.into_iter().filter(|id| !ids.contains(id)));
    }
}

impl Sessions {
    /// An owned object was published that nothing holds yet. Whether its creator is there to make
    /// a composite of it.
    pub(crate) fn await_composite(&mut self, owner: u32, (id, serial): (ObjectId, u64)) -> bool {
        let creator = self.clients.of_session_mut(owner);
        creator.map(|(_, client)| client.unattached.insert(id, serial)).is_some()
    }
}

impl<D: Directory> Objects<D> {
    /// Holds the members of a composite that was published.
    pub(crate) fn hold_members(&mut self, clients: &mut Clients, members: &[ObjectId]) {
        for id in members {
            if id.is_pooled() {
                self.attach_member(clients, id);
            } else if let Some(entry) = self.find(id) {
                self.extras_mut(entry.record).holders += 1;
                if entry.meta.traits.owned {
                    let record = self.records.get_mut(entry.record);
                    record.flags &= !UNATTACHED;
                    let owner = record.owner;
                    if let Some((_, client)) = clients.of_session_mut(owner) {
                        client.unattached.remove(id);
                    }
                }
                self.records.unlist(entry.record);
            } else if let Some(spilled) = self.tier.get_mut(id) {
                spilled.extras.holders += 1;
            } else {
                self.absent_members.entry(*id).or_default().holders += 1;
            }
        }
    }

    /// How often composites name an object that comes to be now.
    pub(crate) fn take_absent(&mut self, id: &ObjectId) -> Option<Holds> {
        if self.absent_members.is_empty() { None } else { self.absent_members.remove(id) }
    }

    /// A composite is gone that named an object which is not there.
    fn let_absent_go(&mut self, id: &ObjectId) {
        if let Some(holds) = self.absent_members.get_mut(id) {
            holds.holders = holds.holders.saturating_sub(1);
            if holds.holders == 0 {
                self.absent_members.remove(id);
            }
        }
    }

    /// Every member must be there before a composite of them is.
    pub(crate) fn check_members(&self, composite: &Attributes) -> Result<(), Code> {
        let readable =
            |id: &ObjectId| self.state(id).is_readable() && !self.durable.is_replacing(id);
        if composite.durable && !composite.members.iter().all(|id| self.is_id_durable(id)) {
            return Err(Code::Unsupported);
        }
        if composite.members.iter().all(readable) { Ok(()) } else { Err(Code::Absent) }
    }

    /// A composite of these members went to the tier.
    pub(crate) fn cool_members(&mut self, members: &[ObjectId]) {
        for id in members.iter().filter(|id| !id.is_pooled()) {
            if let Some(entry) = self.find(id) {
                self.extras_mut(entry.record).holders_spilled += 1;
                if !self.records.get(entry.record).is(SPILLING) {
                    self.enlist(entry.record);
                }
            } else if let Some(spilled) = self.tier.get_mut(id) {
                spilled.extras.holders_spilled += 1;
            } else if let Some(holds) = self.absent_members.get_mut(id) {
                holds.spilled += 1;
            }
        }
    }

    /// A composite of these members is back in memory, or about to go from the tier for good.
    pub(crate) fn warm_members(&mut self, members: &[ObjectId]) {
        for id in members.iter().filter(|id| !id.is_pooled()) {
            if let Some(entry) = self.find(id) {
                let extras = self.extras_mut(entry.record);
                extras.holders_spilled = extras.holders_spilled.saturating_sub(1);
                self.records.unlist(entry.record);
            } else if let Some(spilled) = self.tier.get_mut(id) {
                let extras = &mut spilled.extras;
                extras.holders_spilled = extras.holders_spilled.saturating_sub(1);
            } else if let Some(holds) = self.absent_members.get_mut(id) {
                holds.spilled = holds.spilled.saturating_sub(1);
            }
        }
    }

    /// The members of a composite that may follow it to the tier, and theirs: no other composite in
    /// memory holds them. Without those that are on their way there.
    pub(crate) fn followers(&self, composite: &Entry) -> Vec<Entry> {
        let mut found: Vec<Entry> = Vec::new();
        let mut left = vec![*composite];
        while let Some(holder) = left.pop() {
            let members = self.extras_of(holder.record).map(|extras| &extras.attributes.members);
            let mut named: BTreeMap<ObjectId, u32> = BTreeMap::new();
            for id in members.into_iter().flatten() {
                *named.entry(*id).or_default() += 1;
            }
            for (id, count) in named {
                let Some(entry) = self.find(&id) else { continue };
                let Some(extras) = self.extras_of(entry.record) else { continue };
                let alone = extras.holders - extras.holders_spilled == count;
                let record = self.records.get(entry.record);
                if alone && !record.is(SPILLING) && !record.is(CACHE) {
                    found.push(entry);
                    left.push(entry);
                }
            }
        }
        found
    }

    /// Hides the members, and theirs, that would go if these hidden objects had no pins: as many
    /// as an event ends. So one look through the ledgers does for a whole chain of composites.
    /// Each comes after everything that holds it. [`Self::settle_followers`] must follow before
    /// any client is notified.
    pub(crate) fn hide_followers(&mut self, hidden: &[Entry], now_ms: u64) -> Vec<Entry> {
        let mut followers = Vec::new();
        let mut named = MentionCounts::default();
        for entry in hidden {
            self.follow(entry, now_ms, &mut named, &mut followers);
        }
        let mut next = 0;
        while next < followers.len() {
            let holder = followers[next];
            self.follow(&holder, now_ms, &mut named, &mut followers);
            next += 1;
        }
        if !followers.is_empty() {
            self.hide(&followers);
        }
        followers
    }

    fn follow(
        &self,
        holder: &Entry,
        now_ms: u64,
        named: &mut MentionCounts,
        followers: &mut Vec<Entry>,
    ) {
        let Some(extras) = self.extras_of(holder.record) else { return };
        for id in &extras.attributes.members {
            if followers.len() == PIECE {
                return;
            }
            let count = named.count(id);
            let Some(entry) = self.find(id) else { continue };
            let Some(extras) = self.extras_of(entry.record) else { continue };
            let expired = extras.expires_ms.is_some_and(|at_ms| at_ms <= now_ms);
            let goes = entry.meta.traits.owned || expired;
            if extras.holders == count && goes && !self.records.get(entry.record).is(SPILLING) {
                followers.push(entry);
            }
        }
    }

    /// Tells the followers that go with the hidden objects from the others, which are shown again.
    /// [`Self::end_followers`] follows.
    pub(crate) fn settle_followers(
        &mut self,
        hidden: &[Entry],
        pins: &[u32],
        followers: &[Entry],
        pins_of_followers: &[u32],
    ) -> Vec<(Entry, u32)> {
        if followers.is_empty() {
            return Vec::new();
        }
        let mut named = MentionCounts::default();
        for (entry, pins) in hidden.iter().zip(pins) {
            if self.is_free_of_pins(entry, *pins) {
                self.name_members(entry, &mut named);
            }
        }
        let (mut gone, mut staying) = (Vec::new(), Vec::new());
        for (entry, pins) in followers.iter().zip(pins_of_followers) {
            if self.holders(entry.record) == named.so_far(&entry.id) {
                gone.push((*entry, *pins));
                if *pins == 0 {
                    self.name_members(entry, &mut named);
                }
            } else {
                staying.push(*entry);
            }
        }
        for entry in &staying {
            self.show(entry);
        }
        for (entry, _) in &gone {
            self.take_off_lists(entry);
            self.extras_mut(entry.record).holders = 0;
            self.recent_ends.add(entry.id, ObjectState::Deleted);
        }
        gone
    }

    fn name_members(&self, holder: &Entry, named: &mut MentionCounts) {
        let extras = self.extras_of(holder.record);
        for id in extras.into_iter().flat_map(|extras| &extras.attributes.members) {
            named.count(id);
        }
    }
}

/// How often composites that go name each member.
#[derive(Debug, Default)]
struct MentionCounts(BTreeMap<ObjectId, u32>);

impl MentionCounts {
    fn count(&mut self, id: &ObjectId) -> u32 {
        let count = self.0.entry(*id).or_default();
        *count += 1;
        *count
    }

    fn so_far(&self, id: &ObjectId) -> u32 {
        self.0.get(id).copied().unwrap_or(0)
    }
}
