//! Namespaces that a client has adopted: what is named in them goes when the client does.
//!
//! ```text
//! nobody's ──adopt──► a client's ──its connection ends──► ended ──adopt──► a client's ...
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

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::Sizes;
use plasmon_proto::{Attributes, Code, Name, ObjectId, ObjectState};

use crate::content::content_bytes;
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::store::Store;
use crate::work::{Left, PIECE};

/// Namespaces that one client may adopt.
pub(crate) const ADOPTED_PER_CLIENT_MAX: usize = 16;

/// Ended namespaces that are remembered, so that a late writer leaves nothing in them.
pub(crate) const ENDED_MAX: usize = 1024;

/// A namespace that belongs to a client.
#[derive(Debug)]
pub(crate) struct Adopted {
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
    adopted: BTreeMap<String, Adopted>,
    /// What is in each namespace, adopted or not, so that nobody has to look for it.
    spaces: BTreeMap<String, Namespace>,
    ended: BTreeSet<String>,
    /// In the order in which they ended.
    queue: VecDeque<String>,
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

impl Adopted {
    #[cfg(test)]
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
        self.adopted.is_empty() && self.ended.is_empty()
    }

    /// An object of this name is there.
    pub(crate) fn born(&mut self, name: &Name, id: ObjectId, sizes: &Sizes) {
        if name.namespace.is_empty() {
            return;
        }
        if !self.spaces.contains_key(&name.namespace) {
            self.spaces.insert(name.namespace.clone(), Namespace::default());
        }
        if let Some(space) = self.spaces.get_mut(&name.namespace) {
            space.add(id, content_bytes(sizes));
        }
    }

    /// An object of this name ended.
    pub(crate) fn died(&mut self, name: &Name, id: &ObjectId) {
        let Some(space) = self.spaces.get_mut(&name.namespace) else { return };
        if let Some(bytes) = space.ids.remove(id) {
            space.bytes = space.bytes.saturating_sub(bytes);
        }
        if space.ids.is_empty() {
            self.spaces.remove(&name.namespace);
        }
    }

    /// Whether an object of this name and content may be sealed.
    fn admit(&self, name: &Name, content: u64) -> Result<(), Code> {
        if self.ended.contains(&name.namespace) {
            return Err(Code::Cancelled);
        }
        let bytes = self.spaces.get(&name.namespace).map_or(0, |space| space.bytes);
        match self.adopted.get(&name.namespace) {
            Some(Adopted { bytes_max, .. })
                if *bytes_max > 0 && bytes.saturating_add(content) > *bytes_max =>
            {
                Err(Code::QuotaExceeded)
            }
            _ => Ok(()),
        }
    }

    /// Ends what the client has adopted; what is in it.
    fn end_of(&mut self, client: ClientNo) -> Vec<Remains> {
        let of_client = |(_, adopted): &(&String, &Adopted)| adopted.parent == client;
        let ended: Vec<String> =
            self.adopted.iter().filter(of_client).map(|(name, _)| name.clone()).collect();
        let mut remains = Vec::new();
        for namespace in ended {
            self.adopted.remove(&namespace);
            if let Some(space) = self.spaces.remove(&namespace) {
                let namespace = namespace.clone();
                remains.push(Remains { namespace, ids: space.ids, ..Remains::default() });
            }
            if self.ended.insert(namespace.clone()) {
                self.queue.push_back(namespace);
            }
        }
        while self.queue.len() > ENDED_MAX {
            if let Some(oldest) = self.queue.pop_front() {
                self.ended.remove(&oldest);
            }
        }
        remains
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Adopted)> {
        self.adopted.iter()
    }

    #[cfg(test)]
    pub(crate) fn spaces(&self) -> &BTreeMap<String, Namespace> {
        &self.spaces
    }
}

impl<D: Directory> Store<D> {
    /// Makes the client the parent of a namespace, or changes the limit of one that it adopted.
    pub(crate) fn adopt(
        &mut self,
        client: ClientNo,
        namespace: String,
        bytes_max: u64,
    ) -> Result<Reply, Failure> {
        if namespace.is_empty() {
            let detail = "names without a namespace belong to everybody";
            return Err(Failure::of(Code::BadRequest).with_detail(detail));
        }
        if let Some(adopted) = self.adoptions.adopted.get_mut(&namespace) {
            if adopted.parent != client {
                let detail = "another client has adopted this namespace";
                return Err(Failure::of(Code::Exists).with_detail(detail));
            }
            adopted.bytes_max = bytes_max;
            return Ok(Reply::Done);
        }
        let count = self.adoptions.adopted.values().filter(|it| it.parent == client).count();
        if count >= ADOPTED_PER_CLIENT_MAX {
            return Err(Failure::of(Code::LimitReached)
                .with_amounts(count as u64 + 1, ADOPTED_PER_CLIENT_MAX as u64)
                .with_detail("a client may adopt only so many namespaces"));
        }
        let adopted = Adopted { parent: client, bytes_max };
        if self.adoptions.ended.remove(&namespace) {
            self.adoptions.queue.retain(|ended| *ended != namespace);
        }
        self.adoptions.adopted.insert(namespace, adopted);
        Ok(Reply::Done)
    }

    /// Whether an object may be sealed under its name.
    pub(crate) fn check_name(&self, attributes: &Attributes, sizes: &Sizes) -> Result<(), Code> {
        match &attributes.name {
            Some(name) if !self.adoptions.is_idle() => {
                self.adoptions.admit(name, content_bytes(sizes))
            }
            _ => Ok(()),
        }
    }

    /// The client is gone, and with it the namespaces that it had adopted. What is in them goes in
    /// pieces.
    pub(crate) fn end_adoptions(&mut self, client: ClientNo) {
        for remains in self.adoptions.end_of(client) {
            self.work.leave(Left::Adopted(remains));
        }
    }

    /// Deletes a piece of what was in a namespace that ended. What a composite holds can go when
    /// the composite is gone.
    pub(crate) fn end_remains(&mut self, mut remains: Remains) -> Remains {
        if remains.ids.is_empty() {
            if self.work.collect || self.lingering.has_fresh() {
                // Composites that went may still hold their members.
                return remains;
            }
            if !std::mem::take(&mut remains.any_went) {
                return self.put_back(remains);
            }
            remains.ids = std::mem::take(&mut remains.held);
        }
        let mut batch = Vec::new();
        for _ in 0..PIECE {
            let Some((id, bytes)) = remains.ids.pop_first() else { break };
            if !self.is_remainder(&remains.namespace, &id) {
                continue;
            }
            let visible = self.find(&id);
            let holders = match &visible {
                Some(entry) => self.holders(entry.record),
                None => self.tier.get(&id).map_or(0, |spilled| spilled.rare.holders),
            };
            if holders > 0 {
                remains.held.insert(id, bytes);
                continue;
            }
            remains.any_went = true;
            match visible {
                Some(entry) => batch.push(entry),
                None => self.drop_spilled(&id, ObjectState::Deleted),
            }
        }
        self.bury(batch);
        self.collect_fresh();
        remains
    }

    /// Whether this object was in the namespace when it ended: not one that came since.
    fn is_remainder(&self, namespace: &str, id: &ObjectId) -> bool {
        let attributes = match self.find(id) {
            Some(entry) => self.rare_of(entry.record).map(|rare| &rare.attributes),
            None => self.tier.get(id).map(|spilled| &spilled.rare.attributes),
        };
        let name = attributes.and_then(|attributes| attributes.name.as_ref());
        let came_since =
            self.adoptions.spaces.get(namespace).is_some_and(|space| space.ids.contains_key(id));
        name.is_some_and(|name| name.namespace == namespace) && !came_since
    }

    /// What composites outside of the namespace hold stays in it.
    fn put_back(&mut self, remains: Remains) -> Remains {
        for (id, bytes) in remains.held {
            if self.is_remainder(&remains.namespace, &id) {
                let space = self.adoptions.spaces.entry(remains.namespace.clone()).or_default();
                space.add(id, bytes);
            }
        }
        Remains::default()
    }
}
