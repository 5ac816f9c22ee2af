//! Publishing objects, freeing them, and notifying waiting clients and subscribers.

use plasmon_proto::extent::ExtentId;
use plasmon_proto::message::Notice;
use plasmon_proto::object::{Level, Sizes};
use plasmon_proto::{Attributes, ObjectId, ObjectState, Policy};

use crate::clients::Clients;
use crate::content::content_bytes;
use crate::effect::Effect;
use crate::extras::Extras;
use crate::objects::Objects;
use crate::objects::{Announcement, NewObject};
use crate::ports::{Directory, Entry};
use crate::records::{CACHE, EXTRAS, HIDDEN, LOGGED, UNATTACHED};
use crate::space::Space;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Enters an object into the index, mostly visible. Its memory is charged already, its members
    /// are checked. Returns its record.
    pub(crate) fn publish(&mut self, object: NewObject) -> u32 {
        let NewObject { id, serial, range, meta, owner, mut extras, visible } = object;
        if let Some(holds) = self.objects.take_absent(&id) {
            extras.get_or_insert_default().take_holds(holds);
        }
        let own = meta.traits.policy;
        let policy = extras.as_ref().map_or(own, |extras| extras.policy(own));
        let durable = extras.as_ref().is_some_and(|extras| extras.attributes.durable);
        let mut flags = self.list_flag(policy, durable);
        if !visible {
            flags |= HIDDEN;
        }
        if extras.is_some() {
            flags |= EXTRAS;
        }
        self.space.hold_content(&mut self.sessions.clients, owner, &meta.sizes);
        let held = extras.as_ref().is_some_and(|extras| extras.holders > 0);
        let in_use = extras.as_ref().is_some_and(|extras| extras.is_in_use());
        if meta.traits.owned && !held && self.sessions.await_composite(owner, (id, serial)) {
            flags |= UNATTACHED;
        }
        let record = self.objects.records.allocate(owner, flags);
        let entry = Entry { serial, id, range, meta, record };
        let records = &mut self.objects.records;
        let mut moved = |moved, slot| records.get_mut(moved).slot = slot;
        let slot = if visible {
            self.objects.directory.insert(&entry, &mut moved)
        } else {
            self.objects.directory.insert_hidden(&entry, &mut moved)
        };
        self.objects.records.get_mut(record).slot = slot;
        self.objects.visible += u64::from(visible);
        if self.space.memory.publish_first(&range) && self.config.level == Level::Leased {
            self.out.push(Effect::Protect(range.extent));
        }
        if let Some(extras) = extras {
            if let Some(expires_ms) = extras.expires_ms {
                self.objects.expiries.insert((expires_ms, id, serial));
            }
            self.objects.extras.insert(record, extras);
        }
        if !in_use && visible {
            self.objects.enlist(record);
        }
        record
    }

    /// The flag of the list that such an object is in while it may leave the memory.
    pub(crate) fn list_flag(&self, policy: Policy, durable: bool) -> u16 {
        match durable {
            true if self.config.spill_bytes_max.is_none() => LOGGED,
            true => 0,
            false if self.is_evictable(policy) => CACHE,
            false => 0,
        }
    }

    /// Whether memory is made by dropping such objects.
    pub(crate) fn is_evictable(&self, policy: Policy) -> bool {
        policy == Policy::Cache && !self.spills_cache()
    }

    /// A new object was published: its members are held, and the world is told.
    pub(crate) fn announce_sealed(&mut self, id: ObjectId, sizes: Sizes, attributes: &Attributes) {
        self.totals.sealed += 1;
        self.objects.hold_members(&mut self.sessions.clients, &attributes.members);
        let name = attributes.name.as_ref();
        if let Some(name) = name {
            self.sessions.adoptions.add_object(name, id, content_bytes(&sizes));
        }
        self.notify(Announcement { id, state: ObjectState::Sealed, sizes, name });
    }

    /// Tells subscribers that an object that was withheld is there.
    pub(crate) fn notify_sealed(&mut self, id: &ObjectId) {
        let Some(entry) = self.objects.find(id) else { return };
        let extras = self.objects.extras_of(entry.record);
        let name = extras.and_then(|extras| extras.attributes.name.clone());
        let (state, sizes) = (ObjectState::Sealed, entry.meta.sizes);
        self.notify_subscribers(&Announcement { id: *id, state, sizes, name: name.as_ref() });
    }

    /// Tells subscribers and waiters about an object's new state.
    pub(crate) fn notify(&mut self, announcement: Announcement<'_>) {
        self.notify_subscribers(&announcement);
        self.notify_waiters(&announcement.id, announcement.state);
    }

    /// Tells subscribers alone.
    pub(crate) fn notify_subscribers(&mut self, announcement: &Announcement<'_>) {
        if self.sessions.clients.has_subscribers() {
            let notice = Notice {
                id: announcement.id,
                state: announcement.state,
                data_bytes: announcement.sizes.data,
                metadata_bytes: announcement.sizes.metadata,
            };
            for (client, filter) in self.sessions.clients.subscribers() {
                if crate::subscriptions::matches(filter, announcement.name) {
                    self.out.push(Effect::Notify(client, notice));
                }
            }
        }
    }

    /// Tells waiters about an object's new state.
    pub(crate) fn notify_waiters(&mut self, id: &ObjectId, state: ObjectState) {
        if !self.sessions.waits.is_empty() {
            for waiter in self.sessions.waits.note(id, state) {
                self.answer_waiter(waiter);
            }
        }
    }

    /// Notifies the subscribers that a hidden object ended, which is remembered already.
    pub(crate) fn announce_ended(&mut self, entry: &Entry, state: ObjectState) {
        match state {
            ObjectState::Evicted => self.totals.evicted += 1,
            _ => self.totals.deleted += 1,
        }
        self.objects.drop_file(entry.serial, &mut self.out);
        self.objects.drop_record(entry.serial, &mut self.out);
        let name =
            self.objects.extras_of(entry.record).and_then(|extras| extras.attributes.name.clone());
        if let Some(name) = &name {
            self.sessions.adoptions.remove_object(name, &entry.id);
        }
        if entry.id.is_pooled() {
            let extras = self.objects.extras_of(entry.record);
            let pool = extras.and_then(|extras| extras.attributes.pool);
            self.copy_ended(&entry.id, pool);
        }
        self.notify(Announcement {
            id: entry.id,
            state,
            sizes: entry.meta.sizes,
            name: name.as_ref(),
        });
    }

    /// The extent has no writer for a restarted daemon to wait for.
    pub(crate) fn no_writer(&mut self, extent: ExtentId) {
        self.out.push(Effect::Writer(extent, None));
    }
}

impl<D: Directory> Objects<D> {
    /// Forgets a hidden object without pins and frees its memory. Returns its rarer properties.
    pub(crate) fn free(
        &mut self,
        entry: &Entry,
        space: &mut Space,
        clients: &mut Clients,
        out: &mut Vec<Effect>,
    ) -> Extras {
        let record = *self.records.get(entry.record);
        let charge = space.memory.charge(&entry.range, &entry.meta.sizes);
        space.drop_content(clients, record.owner, &entry.meta.sizes);
        self.directory.remove(record.slot);
        space.memory.release(entry.range, charge, out);
        clients.uncharge(record.owner, charge);
        if record.is(UNATTACHED)
            && let Some((_, creator)) = clients.of_session_mut(record.owner)
            && creator.unattached.get(&entry.id) == Some(&entry.serial)
        {
            // An incarnation that was put since then is not this one.
            creator.unattached.remove(&entry.id);
        }
        self.records.release(entry.record);
        if record.flags & EXTRAS == 0 {
            return Extras::default();
        }
        let extras =
            self.extras.remove(&entry.record).map_or_else(Extras::default, |extras| *extras);
        if let Some(expires_ms) = extras.expires_ms {
            self.expiries.remove(&(expires_ms, entry.id, entry.serial));
        }
        extras
    }

    /// Frees an object that ended, and lets its members go.
    pub(crate) fn free_ended(
        &mut self,
        entry: &Entry,
        space: &mut Space,
        clients: &mut Clients,
        out: &mut Vec<Effect>,
    ) {
        let extras = self.free(entry, space, clients, out);
        self.detached_members.extend(extras.attributes.members);
    }
}
