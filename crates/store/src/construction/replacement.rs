//! Sealing an object under the id of another one, which it replaces (ADR 85).
//!
//! ```text
//! check ─► note the old one ─► hide it ─► publish the new one ─► clear the note ─► tell, collect
//! ```
//!
//! The new object is made under its own id, so the old one stays as it is until the seal,
//! also when the creator dies. A daemon that takes over with the note shows the old one again,
//! unless the new one is there. Readers of the old one keep its memory, as after a delete.

use plasmon_proto::{Attributes, Code, ObjectId, ObjectState};

use crate::objects::Announcement;
use crate::ports::{Directory, Entry};
use crate::spill::SpilledObject;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Whether an object with these attributes, made under `id`, may be sealed under `target`.
    pub(super) fn check_target(
        &self,
        id: &ObjectId,
        target: &ObjectId,
        attributes: &Attributes,
    ) -> Result<(), Code> {
        if id == target {
            return Ok(());
        }
        if attributes.members.contains(target) {
            return Err(Code::BadRequest);
        }
        if self.objects.pending_objects.get(target).is_some()
            || self.objects.durable.is_replacing(target)
        {
            return Err(Code::Exists);
        }
        if !attributes.durable {
            self.check_log_for(target)?;
        }
        let holders = match self.objects.find(target) {
            Some(entry) => self.objects.holders(entry.record),
            None => self.objects.tier.get(target).map_or(0, |spilled| spilled.extras.holders),
        };
        if holders > 0 { Err(Code::InUse) } else { Ok(()) }
    }

    /// Takes the object of this id out of sight, if it is in memory, until the new one is there.
    pub(super) fn hide_replaced(&mut self, target: &ObjectId) -> Option<Entry> {
        self.objects.recent_ends.forget(target);
        let entry = self.objects.find(target);
        let extras = match &entry {
            Some(entry) => self.objects.extras_of(entry.record),
            None => self.objects.tier.get(target).map(|spilled| &spilled.extras),
        };
        if let Some(name) = extras.and_then(|extras| extras.attributes.name.as_ref()) {
            self.sessions.adoptions.remove_object(name, target);
        }
        let entry = entry?;
        self.objects.directory.set_leaving(Some(entry.serial));
        self.objects.hide(&[entry]);
        self.objects.take_off_lists(&entry);
        Some(entry)
    }

    /// The new object of this id is published: the one before it ends. Its memory waits to be
    /// collected.
    pub(super) fn end_replaced(&mut self, target: &ObjectId, hidden: Option<Entry>) {
        let (id, state) = (*target, ObjectState::Deleted);
        if let Some(entry) = hidden {
            self.objects.directory.set_leaving(None);
            self.objects.deferred_frees.add(entry.record, self.now_ms);
            self.objects.drop_file(entry.serial, &mut self.out);
            self.objects.drop_record(entry.serial, &mut self.out);
            self.totals.deleted += 1;
            let extras = self.objects.extras_of(entry.record);
            let name = extras.and_then(|extras| extras.attributes.name.clone());
            let name = name.as_ref();
            self.notify_subscribers(&Announcement { id, state, sizes: entry.meta.sizes, name });
        } else if let Some(SpilledObject { meta, extras, .. }) = self.take_spilled(target) {
            let name = extras.attributes.name.as_ref();
            self.notify_subscribers(&Announcement { id, state, sizes: meta.sizes, name });
            self.objects.detached_members.extend(extras.attributes.members);
        }
    }
}
