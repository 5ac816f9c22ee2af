//! Objects in memory: publishing, hiding and freeing them, and telling everybody.

use plasmon_proto::message::{ExtentId, Notice, Range};
use plasmon_proto::object::{Level, Sizes, Traits};
use plasmon_proto::{Attributes, Name, ObjectId, ObjectState, Policy};

use crate::effect::Effect;
use crate::ports::{Directory, Entry};
use crate::rare::Rare;
use crate::records::{CACHE, HIDDEN, RARE, UNHELD};
use crate::store::Store;

/// An object that is complete and about to be seen.
#[derive(Debug)]
pub(crate) struct Birth {
    pub(crate) id: ObjectId,
    pub(crate) serial: u64,
    pub(crate) range: Range,
    pub(crate) sizes: Sizes,
    pub(crate) traits: Traits,
    pub(crate) created_ms: u64,
    /// The session of its creator.
    pub(crate) owner: u32,
    /// `None` for the many that have nothing of the kind.
    pub(crate) rare: Option<Box<Rare>>,
}

/// One end or beginning that others are told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News<'a> {
    pub(crate) id: ObjectId,
    pub(crate) state: ObjectState,
    pub(crate) sizes: Sizes,
    pub(crate) name: Option<&'a Name>,
}

impl<D: Directory> Store<D> {
    /// Makes an object visible. Its memory is charged already, its members are checked.
    pub(crate) fn publish(&mut self, birth: Birth) {
        let Birth { id, serial, range, sizes, traits, created_ms, owner, rare } = birth;
        let mut flags = if self.is_evictable(traits.policy) { CACHE } else { 0 };
        if rare.is_some() {
            flags |= RARE;
        }
        self.hold_content(owner, &sizes);
        let held = rare.as_ref().is_some_and(|rare| rare.holders > 0);
        let in_use = rare.as_ref().is_some_and(|rare| rare.is_in_use());
        if traits.owned && !held && self.await_composite(owner, id) {
            flags |= UNHELD;
        }
        let record = self.records.allocate(owner, flags);
        let construct_ms = rare.as_ref().map_or(0, |rare| rare.construct_ms);
        let entry = Entry { serial, id, range, sizes, traits, created_ms, construct_ms, record };
        let records = &mut self.records;
        let slot = self.directory.insert(&entry, &mut |moved, slot| {
            records.get_mut(moved).slot = slot;
        });
        self.records.get_mut(record).slot = slot;
        self.totals.visible += 1;
        if self.memory.publish_first(&range) && self.config.level == Level::Leased {
            self.out.push(Effect::Protect(range.extent));
        }
        if let Some(rare) = rare {
            if let Some(expires_ms) = rare.expires_ms {
                self.expiries.insert((expires_ms, id, serial));
            }
            self.rare.insert(record, rare);
        }
        if !in_use {
            self.enlist(record);
        }
    }

    /// Whether memory is made by dropping such objects.
    pub(crate) fn is_evictable(&self, policy: Policy) -> bool {
        policy == Policy::Cache && !self.spills_cache()
    }

    /// A new object was published: its members are held, and the world is told.
    pub(crate) fn celebrate(&mut self, id: ObjectId, sizes: Sizes, attributes: &Attributes) {
        self.totals.sealed += 1;
        self.hold_members(&attributes.members);
        let name = attributes.name.as_ref();
        if let Some(name) = name {
            self.adoptions.born(name, id, &sizes);
        }
        self.tell(News { id, state: ObjectState::Sealed, sizes, name });
    }

    /// Tells subscribers and waiters about an object's new state.
    pub(crate) fn tell(&mut self, news: News<'_>) {
        if self.clients.has_subscribers() {
            let notice = Notice {
                id: news.id,
                state: news.state,
                data_bytes: news.sizes.data,
                metadata_bytes: news.sizes.metadata,
            };
            for (client, filter) in self.clients.subscribers() {
                if crate::subscriptions::matches(filter, news.name) {
                    self.out.push(Effect::Notify(client, notice));
                }
            }
        }
        self.tell_waiters(&news.id, news.state);
    }

    /// Tells waiters about an object's new state.
    pub(crate) fn tell_waiters(&mut self, id: &ObjectId, state: ObjectState) {
        if !self.waits.is_empty() {
            for waiter in self.waits.note(id, state) {
                self.answer_waiter(waiter);
            }
        }
    }

    pub(crate) fn rare_of(&self, record: u32) -> Option<&Rare> {
        if !self.records.get(record).is(RARE) {
            return None;
        }
        self.rare.get(&record).map(|rare| &**rare)
    }

    /// The rarer properties, made if there were none.
    pub(crate) fn rare_mut(&mut self, record: u32) -> &mut Rare {
        self.records.get_mut(record).flags |= RARE;
        self.rare.entry(record).or_default()
    }

    /// The visible object of this id, as its entry.
    pub(crate) fn find(&self, id: &ObjectId) -> Option<Entry> {
        self.directory.find(id).map(|(_, entry)| entry)
    }

    /// The entry of a record.
    pub(crate) fn entry(&self, record: u32) -> Entry {
        self.directory.entry(self.records.get(record).slot)
    }

    /// How many composites hold the object.
    pub(crate) fn holders(&self, record: u32) -> u32 {
        self.rare_of(record).map_or(0, |rare| rare.holders)
    }

    /// Puts an object among those that may leave the memory, as the one used last, if it may: what
    /// a composite in memory holds may not, and what one in the tier holds may only follow it.
    pub(crate) fn enlist(&mut self, record: u32) {
        let (in_use, holders) =
            self.rare_of(record).map_or((false, 0), |rare| (rare.is_in_use(), rare.holders));
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
        self.totals.visible -= entries.len() as u64;
    }

    /// Makes a hidden object visible again, as one that is in use.
    pub(crate) fn show(&mut self, entry: &Entry) {
        self.show_unused(entry);
        self.enlist(entry.record);
    }

    /// Makes a hidden object visible again that nobody used meanwhile.
    pub(crate) fn show_unused(&mut self, entry: &Entry) {
        let record = self.records.get_mut(entry.record);
        record.flags &= !HIDDEN;
        self.directory.show(record.slot);
        self.totals.visible += 1;
    }

    /// Forgets a hidden object that nobody pins and frees its memory. Returns its rarer properties.
    pub(crate) fn free(&mut self, entry: &Entry) -> Rare {
        let record = *self.records.get(entry.record);
        let charge = self.memory.charge(&entry.range, &entry.sizes);
        self.drop_content(record.owner, &entry.sizes);
        self.directory.remove(record.slot);
        self.memory.release(entry.range, charge, &mut self.out);
        self.clients.disown(record.owner, charge);
        if record.is(UNHELD)
            && let Some((_, creator)) = self.clients.of_session_mut(record.owner)
        {
            creator.unheld.remove(&entry.id);
        }
        self.records.release(entry.record);
        if record.flags & RARE == 0 {
            return Rare::default();
        }
        let rare = self.rare.remove(&entry.record).map_or_else(Rare::default, |rare| *rare);
        if let Some(expires_ms) = rare.expires_ms {
            self.expiries.remove(&(expires_ms, entry.id, entry.serial));
        }
        rare
    }

    /// Frees an object that ended, and lets its members go.
    pub(crate) fn free_ended(&mut self, entry: &Entry) {
        let rare = self.free(entry);
        self.unheld.extend(rare.attributes.members);
    }

    /// Remembers how hidden objects ended: all of them, before anybody is told of one.
    pub(crate) fn remember_end(&mut self, entries: &[Entry], state: ObjectState) {
        for entry in entries {
            self.obituaries.add(entry.id, state);
        }
    }

    /// Tells everybody that a hidden object ended, which is remembered already.
    pub(crate) fn mourn(&mut self, entry: &Entry, state: ObjectState) {
        match state {
            ObjectState::Evicted => self.totals.evicted += 1,
            _ => self.totals.deleted += 1,
        }
        self.drop_file(entry.serial);
        let name = self.rare_of(entry.record).and_then(|rare| rare.attributes.name.clone());
        if let Some(name) = &name {
            self.adoptions.died(name, &entry.id);
        }
        self.tell(News { id: entry.id, state, sizes: entry.sizes, name: name.as_ref() });
    }

    /// The extent has no writer for a restarted daemon to wait for.
    pub(crate) fn no_writer(&mut self, extent: ExtentId) {
        self.out.push(Effect::Writer(extent, None));
    }
}
