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
    pub(crate) bytes: u64,
    pub(crate) ids: BTreeMap<ObjectId, u64>,
}

/// All adopted namespaces, and the last that ended.
#[derive(Debug, Default)]
pub(crate) struct Adoptions {
    adopted: BTreeMap<String, Adopted>,
    ended: BTreeSet<String>,
    /// In the order in which they ended.
    queue: VecDeque<String>,
}

impl Adopted {
    #[cfg(test)]
    pub(crate) fn parent(&self) -> ClientNo {
        self.parent
    }

    fn add(&mut self, id: ObjectId, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.ids.insert(id, bytes);
    }
}

impl Adoptions {
    /// Whether there is nothing to look at for any name.
    fn is_idle(&self) -> bool {
        self.adopted.is_empty() && self.ended.is_empty()
    }

    /// An object of this name was sealed.
    pub(crate) fn born(&mut self, name: &Name, id: ObjectId, sizes: &Sizes) {
        if let Some(adopted) = self.adopted.get_mut(&name.namespace) {
            adopted.add(id, content_bytes(sizes));
        }
    }

    /// An object of this name ended.
    pub(crate) fn died(&mut self, name: &Name, id: &ObjectId) {
        if let Some(adopted) = self.adopted.get_mut(&name.namespace)
            && let Some(bytes) = adopted.ids.remove(id)
        {
            adopted.bytes = adopted.bytes.saturating_sub(bytes);
        }
    }

    /// Whether an object of this name and content may be sealed.
    fn admit(&self, name: &Name, content: u64) -> Result<(), Code> {
        if self.ended.contains(&name.namespace) {
            return Err(Code::Cancelled);
        }
        match self.adopted.get(&name.namespace) {
            Some(Adopted { bytes_max, bytes, .. })
                if *bytes_max > 0 && bytes.saturating_add(content) > *bytes_max =>
            {
                Err(Code::QuotaExceeded)
            }
            _ => Ok(()),
        }
    }

    /// Ends what the client has adopted; what is in it.
    fn end_of(&mut self, client: ClientNo) -> Vec<ObjectId> {
        let adopted = std::mem::take(&mut self.adopted);
        let (ended, kept) = adopted.into_iter().partition(|(_, it)| it.parent == client);
        self.adopted = kept;
        let ended: BTreeMap<String, Adopted> = ended;
        let mut ids = Vec::new();
        for (namespace, adopted) in ended {
            ids.extend(adopted.ids.into_keys());
            if self.ended.insert(namespace.clone()) {
                self.queue.push_back(namespace);
            }
        }
        while self.queue.len() > ENDED_MAX {
            if let Some(oldest) = self.queue.pop_front() {
                self.ended.remove(&oldest);
            }
        }
        ids
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Adopted)> {
        self.adopted.iter()
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
        let mut adopted = Adopted { parent: client, bytes_max, bytes: 0, ids: BTreeMap::new() };
        self.fill_adopted(&namespace, &mut adopted);
        if self.adoptions.ended.remove(&namespace) {
            self.adoptions.queue.retain(|ended| *ended != namespace);
        }
        self.adoptions.adopted.insert(namespace, adopted);
        Ok(Reply::Done)
    }

    /// What is in the namespace already.
    fn fill_adopted(&self, namespace: &str, adopted: &mut Adopted) {
        let within = |name: Option<&Name>| name.is_some_and(|name| name.namespace == namespace);
        let mut cursor = 0;
        while let Some((entry, behind)) = self.directory.next(cursor) {
            cursor = behind;
            let rare = self.rare_of(entry.record);
            if within(rare.and_then(|rare| rare.attributes.name.as_ref())) {
                adopted.add(entry.id, content_bytes(&entry.sizes));
            }
        }
        for (id, spilled) in self.tier.from(0) {
            if within(spilled.rare.attributes.name.as_ref()) {
                adopted.add(*id, content_bytes(&spilled.sizes));
            }
        }
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

    /// The client is gone, and with it the namespaces that it had adopted.
    pub(crate) fn end_adoptions(&mut self, client: ClientNo) {
        let mut ids = self.adoptions.end_of(client);
        // What a composite holds can go when the composite is gone.
        while !ids.is_empty() {
            let before = ids.len();
            ids = self.delete_those_let_go(ids);
            if ids.len() == before {
                break;
            }
        }
    }

    /// Deletes objects; those stay that a composite holds.
    fn delete_those_let_go(&mut self, ids: Vec<ObjectId>) -> Vec<ObjectId> {
        let (mut batch, mut held) = (Vec::new(), Vec::new());
        for id in ids {
            if let Some(entry) = self.find(&id) {
                if self.holders(entry.record) == 0 {
                    batch.push(entry);
                } else {
                    held.push(id);
                }
            } else if let Some(spilled) = self.tier.get(&id) {
                if spilled.rare.holders == 0 {
                    self.drop_spilled(&id, ObjectState::Deleted);
                } else {
                    held.push(id);
                }
            }
        }
        self.bury(batch);
        self.collect_fresh();
        held
    }
}
