//! Puts of durable objects that lie in memory leased to their client: one request for each.
//!
//! ```text
//!  leased ──(PutDurable)──► under construction ──► Log ──► Logged --> sealed
//!     ▲                            │  refused, no room, an error
//!     └─── never again             ▼
//!                                 free: the client gave this memory away with its request
//! ```
//!
//! A client whose connection broke before it was answered asks again. It names the object as one
//! that it creates when it comes back, so the memory stays its own, and a request that was taken is
//! gone on with. If the object is in memory already, in this very place, the first request put it.

use plasmon_proto::extent::Range;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::ring::Put;
use plasmon_proto::{Attributes, Code, ObjectId};

use crate::construction::{CreateRequest, Stage};
use crate::event::ClientNo;
use crate::objects::Objects;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Takes the object's memory out of the client's leases, and has it written to the log.
    pub(crate) fn put_durable(
        &mut self,
        client: ClientNo,
        request: u64,
        put: Put,
        target: ObjectId,
        attributes: Result<Attributes, Failure>,
    ) {
        let Some(range) = put.range() else {
            let failure = Failure::of(Code::TooLarge).with_amounts(put.sizes.data, 0);
            return self.fail(client, request, failure.with_id(target));
        };
        if self.seal_goes_on(client, request, &put.id) {
            return;
        }
        if self.objects.is_logged_at(&target, &put, &range) {
            return self.reply_after_log(client, request, &[target], Reply::Done);
        }
        if let Err(failure) = self.claim_leased(client, &put, range, &target) {
            return self.fail(client, request, failure.with_id(target));
        }
        match attributes {
            Ok(attributes) if attributes.durable => {
                self.seal(client, request, put.id, target, Some(attributes));
            }
            Ok(_) => {
                let detail = "its attributes do not say that it is durable";
                let failure = Failure::of(Code::BadRequest).with_detail(detail);
                self.fail(client, request, failure.with_id(target));
            }
            Err(failure) => self.fail(client, request, failure.with_id(target)),
        }
        let creating = self.objects.pending_objects.get(&put.id);
        if creating.is_some_and(|it| it.stage == Stage::Writing(range)) {
            // It was refused.
            self.give_up(&put.id);
        }
    }

    /// Makes the object one that the client creates, in memory that was leased to it. If it cannot
    /// be, the memory is free.
    fn claim_leased(
        &mut self,
        client: ClientNo,
        put: &Put,
        range: Range,
        target: &ObjectId,
    ) -> Result<(), Failure> {
        if self.is_claimed(client, put, range) {
            return Ok(());
        }
        let (id, sizes, traits) = (put.id, put.sizes, put.traits);
        let allowed = match id.is_pooled() || target.is_pooled() {
            true => {
                let detail = "an object of a pool is created by one request and sealed by another";
                Err(Failure::of(Code::Unsupported).with_detail(detail))
            }
            false => self.clear_for(client, &id),
        };
        if let Err(failure) = allowed {
            // What the client has not leased is not its own to give.
            let _ = self.return_lease(client, range);
            return Err(failure);
        }
        let session = self.carve(client, range).map_err(|code| {
            let detail = "its memory is not leased to the client that puts it";
            Failure::of(code).with_detail(detail)
        })?;
        self.sessions.clients.uncharge(session, range.bytes);
        let wanted = CreateRequest { id, sizes, traits, strict: false, landing: None };
        if let Err(code) = self.begin(client, &wanted, Stage::Writing(range), range.bytes) {
            self.space.memory.release(range, range.bytes, &mut self.out);
            return Err(Failure::of(code));
        }
        // A daemon that takes over keeps this memory until the client has said what it holds.
        if !self.space.memory.has_creations(range.extent) {
            self.space.memory.note_creation(range.extent);
            self.say_lent(client, range.extent);
        }
        Ok(())
    }

    /// Whether the client creates the object there already: it named it when it came back.
    fn is_claimed(&self, client: ClientNo, put: &Put, range: Range) -> bool {
        self.objects.pending_objects.get(&put.id).is_some_and(|it| {
            self.sessions.is_creator(client, it)
                && it.stage == Stage::Writing(range)
                && it.sizes == put.sizes
                && !it.strict
                && it.growing.is_none()
                && it.landing.is_none()
        })
    }
}

impl<D: Directory> Objects<D> {
    /// Whether the durable object of this id lies in this very memory: it was put from there.
    fn is_logged_at(&self, id: &ObjectId, put: &Put, range: &Range) -> bool {
        self.find(id).is_some_and(|entry| {
            entry.range == *range && entry.meta.sizes == put.sizes && self.is_durable(entry.record)
        })
    }
}
