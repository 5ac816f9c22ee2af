//! Questions that are answered at once: states, descriptions, listings.

use plasmon_proto::id::POOLED_PREFIX;
use plasmon_proto::limits::{LIST_PAGE_MAX, REQUEST_IDS_MAX};
use plasmon_proto::message::{Failure, Filter, Reply};
use plasmon_proto::object::{Level, ObjectInfo, Traits};
use plasmon_proto::{Code, ObjectId, ObjectState};

use crate::construction::Construction;
use crate::deletes::too_many_ids;
use crate::extras::Extras;
use crate::ports::{Directory, Entry};
use crate::records::{EXTRAS, HIDDEN, LISTED};
use crate::seat::no_pool;
use crate::sessions::Sessions;
use crate::spill::SpilledObject;
use crate::store::Store;
use crate::subscriptions::matches;
use crate::work::EXAMINED_MAX;

/// Objects that one page looks at, so that a filter that nothing passes does not stop the daemon
/// for long; such a page may be empty without being the last.
const SCAN_MAX: usize = EXAMINED_MAX;

/// A cursor's stage stands in its top bits: objects in memory, under construction, spilled.
const STAGE_SHIFT: u32 = 62;
const CREATING: u64 = 1 << STAGE_SHIFT;
const SPILLED: u64 = 2 << STAGE_SHIFT;

impl<D: Directory> Store<D> {
    pub(crate) fn states(&self, ids: &[ObjectId]) -> Result<Reply, Failure> {
        if ids.len() > REQUEST_IDS_MAX {
            return Err(too_many_ids(ids.len()));
        }
        Ok(Reply::States(ids.iter().map(|id| self.state_of(id)).collect()))
    }

    pub(crate) fn touch(&mut self, ids: &[ObjectId]) -> Result<Reply, Failure> {
        if ids.len() > REQUEST_IDS_MAX {
            return Err(too_many_ids(ids.len()));
        }
        for id in ids {
            if let Some(entry) = self.objects.find(id)
                && self.objects.records.get(entry.record).is(LISTED)
            {
                self.objects.records.touch(entry.record);
            }
        }
        Ok(Reply::Done)
    }

    /// The first of these objects will be the first to leave the memory.
    pub(crate) fn demote(&mut self, ids: &[ObjectId]) -> Result<Reply, Failure> {
        if ids.len() > REQUEST_IDS_MAX {
            return Err(too_many_ids(ids.len()));
        }
        for id in ids.iter().rev() {
            if let Some(entry) = self.objects.find(id) {
                self.objects.records.demote(entry.record);
            }
        }
        Ok(Reply::Done)
    }

    pub(crate) fn stat(&mut self, id: &ObjectId) -> Option<ObjectInfo> {
        if let Some(entry) = self.objects.find(id) {
            let pins = self.look(&[entry.serial]).pins;
            if let Some((entry, pins)) =
                self.collect_unused_among(std::iter::once(entry).zip(pins)).first()
            {
                return Some(self.info(entry, *pins));
            }
        }
        if let Some(creating) = self.objects.pending_objects.get(id) {
            return Some(self.creating_info(id, creating));
        }
        if let Some(spilled) = self.objects.tier.get(id).filter(|it| !it.unpublished) {
            return Some(self.spilled_info(id, spilled));
        }
        let state = self.objects.recent_ends.state(id)?;
        Some(ObjectInfo { state, ..self.blank_info(id) })
    }

    /// What is known of a pooled object that was asked about elsewhere, without a look through the
    /// ledgers.
    pub(crate) fn describe(&self, id: &ObjectId) -> Option<ObjectInfo> {
        if let Some(entry) = self.objects.find(id) {
            return Some(self.info(&entry, 0));
        }
        match self.state_of(id) {
            ObjectState::Absent => None,
            state => Some(ObjectInfo { state, ..self.blank_info(id) }),
        }
    }

    /// What is known of an object that can be read here, without a look through the ledgers.
    pub(crate) fn describe_here(&self, id: &ObjectId) -> Option<ObjectInfo> {
        match self.objects.find(id) {
            Some(entry) => Some(self.info(&entry, 0)),
            None => {
                let spilled = self.objects.tier.get(id).filter(|it| !it.unpublished);
                spilled.map(|spilled| self.spilled_info(id, spilled))
            }
        }
    }

    pub(crate) fn list(
        &mut self,
        filter: &Filter,
        cursor: u64,
        limit: u32,
    ) -> Result<Reply, Failure> {
        let is_pooled = |namespace: &String| namespace.starts_with(POOLED_PREFIX);
        if !self.config.pool && filter.namespace.as_ref().is_some_and(is_pooled) {
            return Err(no_pool());
        }
        let limit = (limit as usize).clamp(1, LIST_PAGE_MAX);
        let mut page = Page { filter, limit, infos: Vec::new(), scanned: 0, is_cut: false };
        let mut cursor = cursor;
        loop {
            let next = match cursor & !(CREATING - 1) {
                0 => self.list_memory(&mut page, cursor).or(Some(CREATING)),
                CREATING => self.list_creating(&mut page, cursor - CREATING).or(Some(SPILLED)),
                SPILLED => self.list_spilled(&mut page, cursor - SPILLED),
                _ => return Err(Failure::of(Code::BadRequest).with_detail("not a cursor")),
            };
            match next {
                Some(next) if !page.is_full() => cursor = next,
                next => return Ok(Reply::Page(page.infos, next)),
            }
        }
    }

    /// Lists objects in memory from a record number on; returns where to go on, `None` at the end.
    /// Numbers stay while an object is there, whatever becomes of the index.
    fn list_memory(&mut self, page: &mut Page<'_>, cursor: u64) -> Option<u64> {
        let end = self.objects.records.capacity();
        let mut entries = Vec::new();
        let mut at = usize::try_from(cursor).unwrap_or(end).min(end);
        while at < end && page.scanned < SCAN_MAX && page.infos.len() + entries.len() < page.limit {
            let number = at as u32;
            page.scanned += 1;
            at += 1;
            let Some(record) = self.objects.records.used(number) else {
                // Numbers that were never used or are free again lie in runs.
                at = self.objects.records.next_used(number).map_or(end, |next| next as usize);
                continue;
            };
            // Without a name an object passes only a filter that lets everything pass.
            let nameless = !record.is(EXTRAS) && *page.filter != Filter::default();
            if record.is(HIDDEN) || nameless {
                continue;
            }
            let name =
                self.objects.extras_of(number).and_then(|extras| extras.attributes.name.as_ref());
            if matches(page.filter, name) {
                entries.push(self.objects.entry(number));
            }
        }
        if !entries.is_empty() {
            let serials: Vec<u64> = entries.iter().map(|entry| entry.serial).collect();
            let pins = self.look(&serials).pins;
            let there = self.collect_unused_among(entries.into_iter().zip(pins));
            page.infos.extend(there.iter().map(|(entry, pins)| self.info(entry, *pins)));
        }
        // Those that went when they were looked at make room on the page, and another look through
        // the ledgers is another event's.
        page.is_cut = at < end;
        page.is_cut.then_some(at as u64)
    }

    fn list_creating(&self, page: &mut Page<'_>, serial: u64) -> Option<u64> {
        for (id, creating) in self.objects.pending_objects.from(serial) {
            if page.is_full() {
                return Some(CREATING | creating.serial);
            }
            page.add(None, || self.creating_info(id, creating));
        }
        None
    }

    fn list_spilled(&self, page: &mut Page<'_>, serial: u64) -> Option<u64> {
        for (id, spilled) in self.objects.tier.from(serial) {
            if page.is_full() {
                return Some(SPILLED | spilled.serial);
            }
            if spilled.unpublished {
                continue;
            }
            let name = spilled.extras.attributes.name.as_ref();
            page.add(name, || self.spilled_info(id, spilled));
        }
        None
    }

    pub(crate) fn info(&self, entry: &Entry, pins: u32) -> ObjectInfo {
        let record = self.objects.records.get(entry.record);
        let extras = self.objects.extras_of(entry.record);
        let strict = self.space.memory.extent(&entry.range).is_some_and(|extent| extent.strict);
        ObjectInfo {
            state: ObjectState::Sealed,
            sizes: entry.meta.sizes,
            traits: traits_of(entry.meta.traits, extras),
            name: extras.and_then(|it| it.attributes.name.clone()),
            created_ms: entry.meta.created_ms,
            construct_ms: entry.meta.construct_ms,
            expires_ms: extras.and_then(|it| it.expires_ms),
            creator_pid: self.sessions.pid_of(record.owner),
            pins,
            holders: extras.map_or(0, |it| it.holders),
            durable: extras.is_some_and(|it| it.attributes.is_durable()),
            level: if strict { Level::Strict } else { self.config.level },
            ..self.blank_info(&entry.id)
        }
    }

    fn creating_info(&self, id: &ObjectId, creating: &Construction) -> ObjectInfo {
        ObjectInfo {
            state: ObjectState::Creating,
            sizes: creating.sizes,
            traits: creating.traits,
            created_ms: creating.since_ms,
            creator_pid: self.sessions.pid_of(creating.owner),
            level: if creating.strict { Level::Strict } else { self.config.level },
            ..self.blank_info(id)
        }
    }

    pub(crate) fn spilled_info(&self, id: &ObjectId, spilled: &SpilledObject) -> ObjectInfo {
        ObjectInfo {
            state: spilled.state(),
            sizes: spilled.meta.sizes,
            traits: traits_of(spilled.meta.traits, Some(&spilled.extras)),
            name: spilled.extras.attributes.name.clone(),
            created_ms: spilled.meta.created_ms,
            construct_ms: spilled.meta.construct_ms,
            expires_ms: spilled.extras.expires_ms,
            creator_pid: self.sessions.pid_of(spilled.owner),
            holders: spilled.extras.holders,
            durable: spilled.extras.attributes.is_durable(),
            ..self.blank_info(id)
        }
    }

    fn blank_info(&self, id: &ObjectId) -> ObjectInfo {
        ObjectInfo {
            id: *id,
            state: ObjectState::Absent,
            sizes: plasmon_proto::object::Sizes::default(),
            traits: plasmon_proto::object::Traits::default(),
            name: None,
            created_ms: 0,
            construct_ms: 0,
            expires_ms: None,
            creator_pid: 0,
            pins: 0,
            holders: 0,
            level: self.config.level,
            durable: false,
            copies: None,
        }
    }
}

impl Sessions {
    fn pid_of(&self, session: u32) -> u32 {
        self.clients.of_session(session).map_or(0, |(_, client)| client.peer.pid)
    }
}

/// A page of a listing while it fills.
struct Page<'a> {
    filter: &'a Filter,
    limit: usize,
    infos: Vec<ObjectInfo>,
    scanned: usize,
    /// Whether the page ends here, whatever would still fit.
    is_cut: bool,
}

impl Page<'_> {
    fn is_full(&self) -> bool {
        self.is_cut || self.infos.len() >= self.limit || self.scanned >= SCAN_MAX
    }

    fn add(&mut self, name: Option<&plasmon_proto::Name>, info: impl FnOnce() -> ObjectInfo) {
        self.scanned += 1;
        if matches(self.filter, name) {
            self.infos.push(info());
        }
    }
}

/// What its pool says of a copy goes before its own policy.
fn traits_of(traits: Traits, extras: Option<&Extras>) -> Traits {
    let policy = extras.map_or(traits.policy, |extras| extras.policy(traits.policy));
    Traits { policy, ..traits }
}
