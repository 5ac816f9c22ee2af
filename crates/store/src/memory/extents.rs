//! The extents by number, and which exact extents are idle.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::extent::ExtentId;
use plasmon_proto::limits::EXTENTS_MAX;

use super::domain::Domain;
use super::holes::Hole;

/// What an extent is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Small objects are carved from it.
    Arena,
    /// One object, from its first byte.
    Exact,
    /// One object that is being written and whose size is not known yet. Its pages are all there;
    /// more are added at its end. Sealed, it becomes an exact one.
    Growing,
}

/// One extent.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) id: ExtentId,
    /// Its size, a multiple of the page.
    pub(crate) bytes: u64,
    pub(crate) kind: Kind,
    pub(crate) domain: Domain,
    /// Whether an object was ever published in it.
    pub(crate) published: bool,
    /// Whether the kernel refuses every write to it; such an extent is never used again.
    pub(crate) strict: bool,
    /// Whether it was taken over from an earlier daemon while its writer could still come back.
    pub(super) quarantined: bool,
    /// Whether its writer was given memory in it other than by a lease: then what the writer has
    /// in its hands is not known from leases alone.
    pub(super) has_creations: bool,
    /// The free parts of an arena by offset.
    pub(super) holes: BTreeMap<u64, Hole>,
    /// Bytes in all holes.
    pub(super) free_bytes: u64,
    /// Bytes of an extent that was taken over which are there and in no part that is known to be.
    pub(super) surplus_bytes: u64,
    /// Whether pages are on their way to the end of this growing extent: no other client gets it
    /// before they are there or refused.
    pub(super) awaits_pages: bool,
    /// The key in the list of idle extents while this exact extent is idle.
    pub(super) idle: Option<u64>,
}

impl Extent {
    /// Whether nothing at all is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.free_bytes == self.bytes || self.idle.is_some()
    }

    /// The holes as offset, bytes and warmth.
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn holes(&self) -> impl Iterator<Item = (u64, u64, bool)> {
        self.holes.iter().map(|(offset, hole)| (*offset, hole.bytes, hole.warm))
    }
}

/// The extents of a store.
#[derive(Debug)]
pub(super) struct Extents {
    by_index: Vec<Option<Extent>>,
    /// Indices that are free.
    free: BTreeSet<u32>,
    /// The extents of each session that writes any.
    by_session: BTreeSet<(u32, ExtentId)>,
    /// The birth number of the next extent.
    next_birth: u64,
    count: usize,
    total_bytes: u64,
    surplus_bytes: u64,
    /// Idle exact extents, the longest idle first.
    idle: BTreeMap<u64, ExtentId>,
    idle_bytes: u64,
    next_idle: u64,
}

impl Extents {
    pub(super) fn new(first_birth: u64) -> Self {
        Self {
            by_index: Vec::new(),
            free: BTreeSet::new(),
            by_session: BTreeSet::new(),
            next_birth: first_birth,
            count: 0,
            total_bytes: 0,
            surplus_bytes: 0,
            idle: BTreeMap::new(),
            idle_bytes: 0,
            next_idle: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes that are there in extents that were taken over, beyond what is known to be.
    pub(super) fn surplus_bytes(&self) -> u64 {
        self.surplus_bytes
    }

    pub(super) fn idle_bytes(&self) -> u64 {
        self.idle_bytes
    }

    pub(super) fn idle_count(&self) -> usize {
        self.idle.len()
    }

    pub(super) fn get(&self, id: ExtentId) -> Option<&Extent> {
        self.by_index.get(id.index())?.as_ref().filter(|extent| extent.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ExtentId) -> Option<&mut Extent> {
        self.by_index.get_mut(id.index())?.as_mut().filter(|extent| extent.id == id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.by_index.iter().flatten()
    }

    /// An identity that no extent had before: the lowest free index, with the next birth number.
    /// `None` at the limit of extents, or of births.
    fn identity(&mut self) -> Option<ExtentId> {
        if self.next_birth > ExtentId::BIRTH_MAX {
            return None;
        }
        let index = match self.free.pop_first() {
            Some(index) => index,
            None if self.by_index.len() < EXTENTS_MAX => {
                self.by_index.push(None);
                (self.by_index.len() - 1) as u32
            }
            None => return None,
        };
        let birth = self.next_birth;
        self.next_birth += 1;
        Some(ExtentId::new(index, birth))
    }

    /// A new extent wholly in use, `None` at the limit of extents.
    pub(super) fn create(&mut self, bytes: u64, kind: Kind, domain: Domain) -> Option<ExtentId> {
        let id = self.identity()?;
        self.put(id, bytes, kind, domain);
        Some(id)
    }

    /// Takes over an extent of an earlier daemon; false when its index is taken.
    pub(super) fn adopt(&mut self, id: ExtentId, bytes: u64, kind: Kind, domain: Domain) -> bool {
        while self.by_index.len() <= id.index() {
            self.free.insert(self.by_index.len() as u32);
            self.by_index.push(None);
        }
        if !self.free.remove(&(id.index() as u32)) {
            return false;
        }
        self.next_birth = self.next_birth.max(id.birth() + 1);
        self.put(id, bytes, kind, domain);
        true
    }

    fn put(&mut self, id: ExtentId, bytes: u64, kind: Kind, domain: Domain) {
        self.count += 1;
        self.total_bytes += bytes;
        self.note_domain(id, None, Some(domain));
        self.by_index[id.index()] = Some(Extent {
            id,
            bytes,
            kind,
            domain,
            published: false,
            strict: false,
            quarantined: false,
            has_creations: false,
            holes: BTreeMap::new(),
            free_bytes: 0,
            surplus_bytes: 0,
            awaits_pages: false,
            idle: None,
        });
    }

    /// Forgets an extent whose holes were already taken out of the index of holes.
    pub(super) fn remove(&mut self, id: ExtentId) {
        self.wake(id);
        let Some(extent) = self.by_index.get_mut(id.index()).and_then(Option::take) else { return };
        self.count -= 1;
        self.total_bytes -= extent.bytes;
        self.surplus_bytes -= extent.surplus_bytes;
        self.note_domain(id, Some(extent.domain), None);
        self.free.insert(id.index() as u32);
    }

    /// So many bytes more, or fewer, are there beyond what is known to be.
    pub(super) fn change_surplus(&mut self, id: ExtentId, more: u64, fewer: u64) {
        let Some(extent) = self.get_mut(id) else { return };
        let before = extent.surplus_bytes;
        let after = before.saturating_add(more).saturating_sub(fewer).min(extent.bytes);
        extent.surplus_bytes = after;
        self.surplus_bytes = self.surplus_bytes - before + after;
    }

    /// The extent belongs to another domain from now on.
    pub(super) fn note_domain(
        &mut self,
        id: ExtentId,
        before: Option<Domain>,
        now: Option<Domain>,
    ) {
        if let Some(Domain::Client(session)) = before {
            self.by_session.remove(&(session, id));
        }
        if let Some(Domain::Client(session)) = now {
            self.by_session.insert((session, id));
        }
    }

    /// The extents that a session writes.
    pub(super) fn of_session(&self, session: u32) -> impl Iterator<Item = ExtentId> {
        let all = (session, ExtentId(0))..=(session, ExtentId(u64::MAX));
        self.by_session.range(all).map(|(_, extent)| *extent)
    }

    /// Makes a growing extent longer or shorter.
    pub(super) fn resize(&mut self, id: ExtentId, bytes: u64) {
        let Some(extent) = self.get_mut(id) else { return };
        let before = std::mem::replace(&mut extent.bytes, bytes);
        let idle = extent.idle.is_some();
        self.total_bytes = self.total_bytes - before + bytes;
        if idle {
            self.idle_bytes = self.idle_bytes - before + bytes;
        }
    }

    /// Makes an exact or growing extent idle.
    pub(super) fn rest(&mut self, id: ExtentId) {
        let key = self.next_idle;
        let Some(extent) = self.get_mut(id) else { return };
        if extent.idle.is_none() {
            extent.idle = Some(key);
            let bytes = extent.bytes;
            self.idle.insert(key, id);
            self.idle_bytes += bytes;
            self.next_idle += 1;
        }
    }

    /// Ends an exact extent's idleness.
    pub(super) fn wake(&mut self, id: ExtentId) {
        let Some(extent) = self.get_mut(id) else { return };
        if let Some(key) = extent.idle.take() {
            let bytes = extent.bytes;
            self.idle.remove(&key);
            self.idle_bytes -= bytes;
        }
    }

    /// The exact extent that is idle the longest.
    pub(super) fn longest_idle(&self) -> Option<ExtentId> {
        self.idle.first_key_value().map(|(_, id)| *id)
    }

    /// Idle extents, the longest idle first.
    pub(super) fn idle(&self) -> impl Iterator<Item = &Extent> {
        self.idle.values().filter_map(|id| self.get(*id))
    }
}
