//! Namespaces that a client has adopted: what is named in them goes when the client does.
//!
//! ```text
//! no owner ──adopt──► a client's ──its connection ends──► ended ──adopt──► a client's ...
//!                        │ all objects together may          everything in it is deleted,
//!                        │ be limited in bytes               and nothing more comes in
//! ```
//!
//! It is for programs of several processes, one of which knows when all is over: others may write
//! into the namespace as they like, and when that one is gone, however it went, nothing of the
//! program stays. A limit counts data and metadata of what is sealed in memory and in the spill
//! tier; it is looked at when an object is sealed, because only then its name is known.
//!
//! Adoptions are of a connection: a restarted daemon knows of none until the clients that come back
//! say so again.

mod lifetime;
mod pool;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plasmon_proto::message::Failure;
use plasmon_proto::object::Sizes;
use plasmon_proto::{Code, Name, ObjectId};

use self::pool::EndedInPool;
use crate::content::content_bytes;
use crate::event::ClientNo;

/// Namespaces that one client may adopt.
pub(crate) const ADOPTED_PER_CLIENT_MAX: usize = 16;

/// Ended namespaces that are remembered, so that a late writer leaves nothing in them.
pub(crate) const ENDED_MAX: usize = 1024;

/// A namespace that belongs to a client.
#[derive(Debug)]
pub(crate) struct AdoptedNamespace {
    parent: ClientNo,
    /// Not more than this, 0 for no limit.
    bytes_max: u64,
}

/// What is in a namespace.
#[derive(Debug, Default)]
pub(crate) struct Namespace {
    pub(crate) bytes: u64,
    pub(crate) ids: BTreeMap<ObjectId, u64>,
}

/// All adopted namespaces, and the last that ended.
#[derive(Debug, Default)]
pub(crate) struct Adoptions {
    adopted: BTreeMap<String, AdoptedNamespace>,
    /// What is in each namespace, adopted or not, so that no search is needed.
    spaces: BTreeMap<String, Namespace>,
    ended: BTreeSet<String>,
    /// In the order in which they ended.
    queue: VecDeque<String>,
    /// Those of a pool that have ended.
    pub(crate) pool: EndedInPool,
}

/// What is deleted after the parent of a namespace left.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    namespace: String,
    ids: BTreeMap<ObjectId, u64>,
    /// Those that a composite holds: they are tried again as long as any other goes.
    held: BTreeMap<ObjectId, u64>,
    any_went: bool,
}

impl Remains {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.held.is_empty()
    }
}

impl AdoptedNamespace {
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn parent(&self) -> ClientNo {
        self.parent
    }
}

impl Namespace {
    fn add(&mut self, id: ObjectId, bytes: u64) {
        if let Some(before) = self.ids.insert(id, bytes) {
            self.bytes = self.bytes.saturating_sub(before);
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Adoptions {
    /// Whether there is nothing to look at for any name.
    fn is_idle(&self) -> bool {
        self.adopted.is_empty() && self.ended.is_empty() && self.pool.is_empty()
    }

    /// An object of this name is there.
    pub(crate) fn add_object(&mut self, name: &Name, id: ObjectId, sizes: &Sizes) {
        if name.namespace.is_empty() {
            return;
        }
        if !self.spaces.contains_key(&name.namespace) {
            self.spaces.insert(name.namespace.clone(), Namespace::default());
        }
        self.pool.is_dirty |= self.pool.is_ended(&name.namespace);
        if let Some(space) = self.spaces.get_mut(&name.namespace) {
            space.add(id, content_bytes(sizes));
        }
    }

    /// An object of this name ended.
    pub(crate) fn remove_object(&mut self, name: &Name, id: &ObjectId) {
        let Some(space) = self.spaces.get_mut(&name.namespace) else { return };
        if let Some(bytes) = space.ids.remove(id) {
            space.bytes = space.bytes.saturating_sub(bytes);
        }
        if space.ids.is_empty() {
            self.spaces.remove(&name.namespace);
        }
    }

    /// The objects of a namespace, in the order of their ids.
    pub(crate) fn ids_in(&self, namespace: &str) -> Option<&BTreeMap<ObjectId, u64>> {
        self.spaces.get(namespace).map(|space| &space.ids)
    }

    /// Whether an object of this name and content may be sealed, in place of one of its id.
    fn admit(&self, name: &Name, id: &ObjectId, content: u64) -> Result<(), Code> {
        if self.ended.contains(&name.namespace) || self.pool.is_ended(&name.namespace) {
            return Err(Code::Cancelled);
        }
        let bytes = self
            .spaces
            .get(&name.namespace)
            .map_or(0, |space| space.bytes.saturating_sub(space.ids.get(id).copied().unwrap_or(0)));
        match self.adopted.get(&name.namespace) {
            Some(AdoptedNamespace { bytes_max, .. })
                if *bytes_max > 0 && bytes.saturating_add(content) > *bytes_max =>
            {
                Err(Code::QuotaExceeded)
            }
            _ => Ok(()),
        }
    }

    /// Ends what the client has adopted; what is in it.
    fn end_of(&mut self, client: ClientNo) -> Vec<Remains> {
        let of_client = |(_, adopted): &(&String, &AdoptedNamespace)| adopted.parent == client;
        let ended: Vec<String> =
            self.adopted.iter().filter(of_client).map(|(name, _)| name.clone()).collect();
        ended.into_iter().map(|namespace| self.end(namespace)).collect()
    }

    /// Ends one adoption; what is in the namespace.
    fn end(&mut self, namespace: String) -> Remains {
        self.adopted.remove(&namespace);
        let ids = self.spaces.remove(&namespace).unwrap_or_default().ids;
        let remains = Remains { namespace: namespace.clone(), ids, ..Remains::default() };
        if self.ended.insert(namespace.clone()) {
            self.queue.push_back(namespace);
        }
        while self.queue.len() > ENDED_MAX {
            if let Some(oldest) = self.queue.pop_front() {
                self.ended.remove(&oldest);
            }
        }
        remains
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &AdoptedNamespace)> {
        self.adopted.iter()
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn spaces(&self) -> &BTreeMap<String, Namespace> {
        &self.spaces
    }
}

/// The client has not adopted a namespace that it wants to end.
pub(crate) fn not_adopted() -> Failure {
    let detail = "this client has not adopted this namespace";
    Failure::of(Code::Absent).with_detail(detail)
}
