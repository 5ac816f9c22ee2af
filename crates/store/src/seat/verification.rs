//! Creations of objects with free ids of which copies are here.
//!
//! A copy here may be one of an object that was deleted on another node, and whose id is free in
//! the pool: the pool daemon has not dropped it yet. So a client is not told that the object exists
//! before the pool daemon has asked the pool.
//!
//! ```text
//!   create ──► Verify ──► Verified ──► created, if the copy was dropped; else it exists
//!                 └─────► the pool cannot be asked: unreachable
//! ```

use plasmon_proto::message::Failure;
use plasmon_proto::pool::Call;
use plasmon_proto::{Code, ObjectId};

use super::creations::Creation;
use crate::construction::CreateRequest;
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Whether a creation of this pooled id finds a copy here which clients could see, and of which
    /// the pool may know better.
    pub(crate) fn has_copy_to_verify(&self, id: &ObjectId) -> bool {
        id.home().is_none()
            && !self.seat.creations.is_full()
            && self.objects.pending_objects.get(id).is_none()
            && (self.objects.find(id).is_some()
                || self.objects.tier.get(id).is_some()
                || self.waits_for_vouching(id))
    }

    /// Has a creation wait until the pool was asked.
    pub(crate) fn verify(&mut self, client: ClientNo, request: u64, wanted: CreateRequest) {
        let Some(asker) = self.sessions.clients.asker(client) else { return };
        self.seat.await_agent(self.now_ms);
        let id = wanted.id;
        let number = self.seat.creations.add(Creation { asker, request, wanted });
        self.call(Call::Verify { id, number });
    }

    /// Tells an agent that is new what waits for it.
    pub(super) fn call_verifications(&mut self) {
        for (id, number) in self.seat.creations.calls() {
            self.call(Call::Verify { id, number });
        }
    }

    /// The pool was asked, or could not be. A copy that is not right was dropped before.
    pub(super) fn verified(&mut self, id: &ObjectId, number: u64, known: bool) {
        for Creation { asker, request, wanted } in self.seat.creations.take(id, number) {
            if !self.sessions.clients.is_asking(asker) {
                continue;
            }
            if known {
                self.create(asker.client, request, wanted);
                continue;
            }
            let detail = "a copy of an object of this name is here, and the pool cannot be asked \
                          now whether it still exists: try again later";
            let failure = Failure::of(Code::Unreachable).with_id(*id).with_detail(detail);
            self.fail(asker.client, request, failure);
        }
    }

    /// No agent came in time.
    pub(super) fn end_verifications(&mut self) {
        for id in self.seat.creations.calls().into_keys() {
            self.verified(&id, u64::MAX, false);
        }
    }
}
