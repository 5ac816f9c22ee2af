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
//!
//! In a namespace of a pool the bytes on the other nodes count as well ([`quotas`]). A copy that
//! may be evicted because other nodes keep the object does not.

mod lifetime;
mod pool;
pub(crate) mod quotas;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plasmon_proto::message::Failure;
use plasmon_proto::{Code, Name, ObjectId};

use self::pool::EndedInPool;
use self::quotas::PoolQuotas;
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
    /// With the bytes that each counts.
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
    /// Those of a pool that are limited.
    pub(crate) quotas: PoolQuotas,
}

/// How full a namespace with a limit is, without an object that is to be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fill {
    bytes_max: u64,
    here_bytes: u64,
    elsewhere_bytes: u64,
}

impl Fill {
    fn used_bytes(&self) -> u64 {
        self.here_bytes.saturating_add(self.elsewhere_bytes)
    }

    fn is_exceeded_by(&self, content: u64) -> bool {
        self.used_bytes().saturating_add(content) > self.bytes_max
    }
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
        self.adopted.is_empty()
            && self.ended.is_empty()
            && self.pool.is_empty()
            && self.quotas.is_empty()
    }

    /// An object of this name is there, and counts so many bytes.
    pub(crate) fn add_object(&mut self, name: &Name, id: ObjectId, bytes: u64) {
        if name.namespace.is_empty() {
            return;
        }
        if !self.spaces.contains_key(&name.namespace) {
            self.spaces.insert(name.namespace.clone(), Namespace::default());
        }
        self.pool.is_dirty |= self.pool.is_ended(&name.namespace);
        if let Some(space) = self.spaces.get_mut(&name.namespace) {
            space.add(id, bytes);
        }
        self.quotas.note(&name.namespace);
    }

    /// An object of this name that is there counts so many bytes from now on.
    pub(crate) fn recount_object(&mut self, name: &Name, id: &ObjectId, bytes: u64) {
        if let Some(space) = self.spaces.get_mut(&name.namespace)
            && space.ids.contains_key(id)
        {
            space.add(*id, bytes);
            self.quotas.note(&name.namespace);
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
        self.quotas.note(&name.namespace);
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
        match self.fill(name, id) {
            Some(fill) if fill.is_exceeded_by(content) => Err(Code::QuotaExceeded),
            _ => Ok(()),
        }
    }

    /// How full a namespace is, without the object of this id; `None` without a limit.
    fn fill(&self, name: &Name, id: &ObjectId) -> Option<Fill> {
        let adopted = self.adopted.get(&name.namespace).filter(|adopted| adopted.bytes_max > 0);
        let (bytes_max, elsewhere_bytes) = match (adopted, self.quotas.get(&name.namespace)) {
            (Some(adopted), _) => (adopted.bytes_max, 0),
            (None, Some(quota)) => (quota.bytes_max, quota.elsewhere_bytes),
            (None, None) => return None,
        };
        let here_bytes = self
            .spaces
            .get(&name.namespace)
            .map_or(0, |space| space.bytes.saturating_sub(space.ids.get(id).copied().unwrap_or(0)));
        Some(Fill { bytes_max, here_bytes, elsewhere_bytes })
    }

    /// Why an object of this name and content exceeds the limit of its namespace.
    pub(crate) fn over_limit(&self, name: &Name, id: &ObjectId, content: u64) -> Option<Failure> {
        let fill = self.fill(name, id).filter(|fill| fill.is_exceeded_by(content))?;
        let Fill { bytes_max, here_bytes, elsewhere_bytes } = fill;
        let (namespace, used_bytes) = (&name.namespace, fill.used_bytes());
        let where_it_is = match name.is_pooled() {
            true => format!(
                ": {here_bytes} on this node, and {elsewhere_bytes} on other nodes, as they said \
                 last"
            ),
            false => String::new(),
        };
        let detail = format!(
            "the objects in the namespace {namespace} may have {bytes_max} bytes together, and \
             have {used_bytes}{where_it_is}"
        );
        let left_bytes = bytes_max.saturating_sub(used_bytes);
        let failure = Failure::of(Code::QuotaExceeded).with_amounts(content, left_bytes);
        Some(failure.with_detail(detail))
    }

    /// When the pool daemon is to be told what is in namespaces that are limited.
    pub(crate) fn usage_due_ms(&self) -> Option<u64> {
        self.quotas.due_ms()
    }

    /// What it is to be told now.
    pub(crate) fn take_usage(&mut self, now_ms: u64) -> Vec<(String, u64)> {
        let spaces = &self.spaces;
        self.quotas.take_news(now_ms, |name| spaces.get(name).map_or(0, |space| space.bytes))
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
