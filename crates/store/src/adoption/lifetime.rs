//! How a namespace is adopted, limited and ended.

use plasmon_proto::id::POOLED_PREFIX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::Sizes;
use plasmon_proto::{Attributes, Code, ObjectId, ObjectState};

use super::{ADOPTED_PER_CLIENT_MAX, AdoptedNamespace, Remains, not_adopted};
use crate::content::content_bytes;
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::sessions::Sessions;
use crate::store::Store;
use crate::work::{Leftover, PIECE};

impl<D: Directory> Store<D> {
    /// The client is gone, and with it the namespaces that it had adopted. What is in them goes in
    /// pieces.
    pub(crate) fn end_adoptions(&mut self, client: ClientNo) {
        for remains in self.sessions.adoptions.end_of(client) {
            self.work.leave(Leftover::Adopted(remains));
        }
    }

    /// An `Adopt` request.
    pub(crate) fn adopt(
        &mut self,
        client: ClientNo,
        request: u64,
        namespace: String,
        bytes_max: u64,
    ) {
        if namespace.starts_with(POOLED_PREFIX) {
            return self.adopt_pooled(client, request, namespace, bytes_max);
        }
        let reply = self.sessions.adopt(client, namespace, bytes_max);
        self.reply(client, request, reply.unwrap_or_else(Reply::Failed));
    }

    /// An `EndAdoption` request.
    pub(crate) fn end_adoption(&mut self, client: ClientNo, request: u64, namespace: String) {
        if namespace.starts_with(POOLED_PREFIX) {
            return self.end_pooled_adoption(client, request, namespace);
        }
        let adoptions = &mut self.sessions.adoptions;
        if adoptions.adopted.get(&namespace).is_none_or(|adopted| adopted.parent != client) {
            return self.fail(client, request, not_adopted());
        }
        let remains = adoptions.end(namespace);
        self.work.leave(Leftover::Adopted(remains));
        self.reply(client, request, Reply::Done);
    }

    /// Deletes a piece of what was in a namespace that ended. What a composite holds can go when
    /// the composite is gone.
    pub(crate) fn end_remains(&mut self, mut remains: Remains) -> Remains {
        if remains.ids.is_empty() {
            if self.work.collect || self.objects.deferred_frees.has_fresh() {
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
            let visible = self.objects.find(&id);
            let holders = match &visible {
                Some(entry) => self.objects.holders(entry.record),
                None => self.objects.tier.get(&id).map_or(0, |spilled| spilled.extras.holders),
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
        self.hide_deleted(batch);
        self.collect_fresh();
        remains
    }

    /// Whether this object was in the namespace when it ended: not one that came since.
    fn is_remainder(&self, namespace: &str, id: &ObjectId) -> bool {
        let attributes = match self.objects.find(id) {
            Some(entry) => self.objects.extras_of(entry.record).map(|extras| &extras.attributes),
            None => self.objects.tier.get(id).map(|spilled| &spilled.extras.attributes),
        };
        let name = attributes.and_then(|attributes| attributes.name.as_ref());
        let came_since = self
            .sessions
            .adoptions
            .spaces
            .get(namespace)
            .is_some_and(|space| space.ids.contains_key(id));
        name.is_some_and(|name| name.namespace == namespace) && !came_since
    }

    /// What composites outside of the namespace hold stays in it.
    fn put_back(&mut self, remains: Remains) -> Remains {
        for (id, bytes) in remains.held {
            if self.is_remainder(&remains.namespace, &id) {
                let space =
                    self.sessions.adoptions.spaces.entry(remains.namespace.clone()).or_default();
                space.add(id, bytes);
            }
        }
        Remains::default()
    }
}

impl Sessions {
    /// Makes the client the parent of a namespace, or changes the limit of one that it adopted.
    pub(crate) fn adopt(
        &mut self,
        client: ClientNo,
        namespace: String,
        bytes_max: u64,
    ) -> Result<Reply, Failure> {
        if namespace.is_empty() {
            let detail = "the empty namespace cannot be adopted";
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
                .with_detail("this client has adopted the maximum number of namespaces"));
        }
        let adopted = AdoptedNamespace { parent: client, bytes_max };
        if self.adoptions.ended.remove(&namespace) {
            self.adoptions.queue.retain(|ended| *ended != namespace);
        }
        self.adoptions.adopted.insert(namespace, adopted);
        Ok(Reply::Done)
    }

    /// Whether an object may be sealed under its name.
    pub(crate) fn check_name(
        &self,
        id: &ObjectId,
        attributes: &Attributes,
        sizes: &Sizes,
    ) -> Result<(), Code> {
        match &attributes.name {
            Some(name) if !self.adoptions.is_idle() => {
                self.adoptions.admit(name, id, content_bytes(sizes))
            }
            _ => Ok(()),
        }
    }
}
