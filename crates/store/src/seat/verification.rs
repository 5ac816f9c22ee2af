//! Creations of objects with free ids of which copies are here.
//!
//! A copy here may be one of an object that was deleted on another node, and whose id is free in
//! the pool: the pool daemon has not dropped it yet. Or it is one of an object whose put is not
//! decided, and may be refused: it is hidden, or on its way here, or was made by another client of
//! this node. So a client is not told that the object exists before the pool daemon says so.
//!
//! ```text
//!   create ──► Verify ──► Exists
//!                 ├─────► Verified: created, unless the next copy is not decided ──► Verify
//!                 └─────► the pool cannot be asked: unreachable
//! ```
//!
//! What another client of this node is still writing is refused at once, as in any store.

use plasmon_proto::message::Failure;
use plasmon_proto::pool::Call;
use plasmon_proto::{Code, ObjectId};

use super::Reason;
use super::creations::{CREATION_MS, Creation};
use crate::construction::CreateRequest;
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Whether a creation of this pooled id finds a copy here of which the pool may know better.
    pub(crate) fn has_copy_to_verify(&self, id: &ObjectId) -> bool {
        if id.home().is_some() || self.seat.creations.is_full() {
            return false;
        }
        match self.objects.pending_objects.get(id) {
            Some(creating) => creating.landing.is_some(),
            None => {
                self.objects.find(id).is_some()
                    || self.objects.tier.get(id).is_some()
                    || self.seat.withheld(id).is_some()
            }
        }
    }

    /// Whether it is not decided whether the object of a copy that is here, or comes here, exists.
    fn is_undecided(&self, id: &ObjectId) -> bool {
        let creating = self.objects.pending_objects.get(id);
        let reason = self.seat.withheld(id).map(|withheld| withheld.reason);
        creating.is_some_and(|creating| creating.landing.is_some())
            || self.objects.tier.get(id).is_some_and(|spilled| spilled.unpublished)
            || matches!(reason, Some(Reason::Committing { .. } | Reason::Unpublished))
    }

    /// Has a creation wait until the pool was asked.
    pub(crate) fn verify(&mut self, client: ClientNo, request: u64, wanted: CreateRequest) {
        let Some(asker) = self.sessions.clients.asker(client) else { return };
        let until_ms = self.now_ms.saturating_add(CREATION_MS);
        self.verify_creation(Creation { asker, request, wanted, until_ms });
    }

    fn verify_creation(&mut self, creation: Creation) {
        self.seat.await_agent(self.now_ms);
        let id = creation.wanted.id;
        let number = self.seat.creations.add(creation);
        self.call(Call::Verify { id, number });
    }

    /// Tells an agent that is new what waits for it.
    pub(super) fn call_verifications(&mut self) {
        for (id, number) in self.seat.creations.calls() {
            self.call(Call::Verify { id, number });
        }
    }

    /// No object of an id exists, or the pool could not be asked. A copy that is not right was
    /// dropped before.
    pub(super) fn verified(&mut self, id: &ObjectId, number: u64, known: bool) {
        for creation in self.seat.creations.take(id, number) {
            let Creation { asker, request, .. } = creation;
            if !self.sessions.clients.is_asking(asker) {
                continue;
            }
            let is_undecided = self.is_undecided(id);
            if known && !is_undecided {
                self.create(asker.client, request, creation.wanted);
            } else if known && self.now_ms < creation.until_ms {
                self.verify_creation(creation);
            } else {
                let detail = "the pool cannot say now whether an object of this name exists: try \
                              again later";
                let failure = Failure::of(Code::Unreachable).with_id(*id).with_detail(detail);
                self.fail(asker.client, request, failure);
            }
        }
    }

    /// An object of an id exists.
    pub(super) fn exists(&mut self, id: &ObjectId, number: u64) {
        for Creation { asker, request, .. } in self.seat.creations.take(id, number) {
            self.fail_asker(asker, request, Failure::of(Code::Exists).with_id(*id));
        }
    }

    /// No agent came in time.
    pub(super) fn end_verifications(&mut self) {
        for id in self.seat.creations.calls().into_keys() {
            self.verified(&id, u64::MAX, false);
        }
    }
}
