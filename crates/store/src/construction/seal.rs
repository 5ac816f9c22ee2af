//! How an object under construction is sealed.

use plasmon_proto::extent::Range;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::{ObjectMeta, Sizes};
use plasmon_proto::{Attributes, Code, Name, ObjectId, Policy};

use super::{Construction, Stage};
use crate::asker::Asker;
use crate::clients::NO_OWNER;
use crate::content::content_bytes;
use crate::effect::Effect;
use crate::event::{ClientNo, Ticket};
use crate::extras::Extras;
use crate::memory::Kind;
use crate::objects::NewObject;
use crate::ports::Directory;
use crate::seat::Reason;
use crate::store::Store;

impl<D: Directory> Store<D> {
    pub(crate) fn seal(
        &mut self,
        client: ClientNo,
        request: u64,
        id: ObjectId,
        target: ObjectId,
        attributes: Option<Attributes>,
    ) {
        if self.seal_goes_on(client, request, &id) || self.commit_goes_on(client, request, &id) {
            return;
        }
        let name = attributes.as_ref().and_then(|attributes| attributes.name.clone());
        if let Some(durable) = attributes.as_ref().filter(|it| it.is_durable())
            && let Err(failure) = self.check_durable(client, &id, &target, durable)
        {
            return self.fail(client, request, failure);
        }
        match self.check_seal(client, &id, &target, attributes) {
            Ok((_, attributes, false)) if attributes.durable => {
                let asked = self.sessions.asked(client, request);
                self.begin_log(&id, &target, attributes, asked);
            }
            Ok((range, attributes, true)) => {
                let (ticket, asked) = (self.ticket(), self.sessions.asked(client, request));
                let Some(creating) = self.objects.pending_objects.get_mut(&id) else { return };
                let serial = creating.serial;
                let attributes = Box::new(attributes);
                creating.stage = Stage::Hardening { range, asked, target, attributes };
                self.objects.pending_objects.hardening.insert(ticket, (id, serial));
                self.out.push(Effect::Harden(ticket, range.extent));
            }
            Ok((_, attributes, false)) => {
                self.finish_seal(&id, &target, attributes);
                if self.awaits_commit(&target) {
                    let asker = self.sessions.clients.asker(client);
                    return self.begin_commit(&target, asker, request);
                }
                self.reply_after_log(client, request, &[target], Reply::Done);
            }
            Err(code) => {
                let creating = self.objects.pending_objects.get(&id);
                let sizes = creating.map(|creating| creating.sizes).unwrap_or_default();
                let failure = self.refusal(code, &target, name.as_ref(), &sizes);
                self.fail(client, request, failure);
            }
        }
    }

    /// Whether this asks again, on another connection, for a seal that is under way.
    pub(crate) fn seal_goes_on(&mut self, client: ClientNo, request: u64, id: &ObjectId) -> bool {
        let again = self.sessions.asked(client, request);
        let is_own = |it: &Construction| self.sessions.is_creator(client, it);
        if !self.objects.pending_objects.get(id).is_some_and(is_own) {
            return false;
        }
        match self.objects.pending_objects.get_mut(id).map(|creating| &mut creating.stage) {
            Some(Stage::Hardening { asked, .. } | Stage::Logging { asked, .. })
                if asked.connection != again.connection =>
            {
                *asked = again;
                true
            }
            _ => false,
        }
    }

    /// The range of the object to seal, its attributes, and whether the kernel is asked first.
    fn check_seal(
        &self,
        client: ClientNo,
        id: &ObjectId,
        target: &ObjectId,
        attributes: Option<Attributes>,
    ) -> Result<(Range, Attributes, bool), Code> {
        let Some(creating) = self.objects.pending_objects.get(id) else {
            let is_sealed = !self.objects.is_free(id) && self.may_have_sealed(client, id);
            return Err(if is_sealed { Code::AlreadySealed } else { Code::Absent });
        };
        if !self.sessions.is_creator(client, creating) {
            return Err(Code::NotOwner);
        }
        let range = match &creating.stage {
            _ if creating.landing.is_some() => return Err(Code::BadRequest),
            Stage::Writing(_) if creating.growing.is_some() => return Err(Code::BadRequest),
            Stage::Writing(range) => *range,
            Stage::Hardening { .. } | Stage::Logging { .. } => return Err(Code::AlreadySealed),
            Stage::Announced | Stage::Placing => return Err(Code::BadRequest),
        };
        let attributes =
            attributes.filter(|found| found.check().is_ok()).ok_or(Code::BadRequest)?;
        self.check_published(id, target, &attributes, &creating.sizes)?;
        Ok((range, attributes, creating.strict))
    }

    /// Whether the object that is here under this id can be what this client sealed, which asks
    /// for the seal again because it had no answer. In a pool that may have been refused, and the
    /// object of another node or client be here since: it has another birth, or another owner. Of
    /// what an earlier daemon left no owner is known; then it had the id when the client did.
    pub(crate) fn may_have_sealed(&self, client: ClientNo, id: &ObjectId) -> bool {
        if !id.is_pooled() {
            return true;
        }
        let (pool, owner) = match (self.objects.find(id), self.objects.tier.get(id)) {
            (Some(entry), _) => {
                let owner = self.objects.records.get(entry.record).owner;
                (self.pool_attributes(entry.record), owner)
            }
            (None, Some(spilled)) => (spilled.extras.attributes.pool, spilled.owner),
            (None, None) => return false,
        };
        let session = self.sessions.clients.get(client).map(|found| found.session);
        let is_made_here = pool.is_none_or(|pool| pool.origin.is_none());
        is_made_here && (owner == NO_OWNER || Some(owner) == session)
    }

    pub(crate) fn hardened(&mut self, ticket: Ticket, done: bool) {
        let Some((id, serial)) = self.objects.pending_objects.hardening.remove(&ticket) else {
            return;
        };
        let Some(creating) =
            self.objects.pending_objects.get_mut(&id).filter(|it| it.serial == serial)
        else {
            return;
        };
        let Stage::Hardening { range, asked, target, attributes } = creating.stage.clone() else {
            return;
        };
        creating.stage = Stage::Writing(range);
        let creating = creating.clone();
        if self.sessions.clients.of_session(creating.owner).is_none() {
            return self.creator_died(&id);
        }
        if creating.growing.is_some() {
            return self.settled(asked, (&id, &target), *attributes, done);
        }
        let sizes = creating.sizes;
        let allowed = match creating.landing {
            None => self.check_published(&id, &target, &attributes, &sizes),
            Some(_) => Ok(()),
        };
        let reply = if !done {
            let detail = "the object is still mapped for writing";
            Reply::Failed(Failure::of(Code::InUse).with_id(target).with_detail(detail))
        } else if let Err(code) = allowed {
            Reply::Failed(self.refusal(code, &target, attributes.name.as_ref(), &sizes))
        } else if attributes.durable {
            return self.begin_log(&id, &target, *attributes, asked);
        } else {
            self.finish_seal(&id, &target, *attributes);
            if self.awaits_commit(&target) {
                let Construction { client, owner: session, .. } = creating;
                let asker = Asker { client, session, connection: asked.connection };
                return self.begin_commit(&target, Some(asker), asked.request);
            }
            Reply::Done
        };
        self.answer_creator_after_log(&creating, asked, &target, reply);
    }

    /// Whether the object that was just sealed under this id is not to be seen before the pool has
    /// accepted it.
    fn awaits_commit(&self, id: &ObjectId) -> bool {
        let reason = self.seat.withheld(id).map(|withheld| withheld.reason);
        matches!(reason, Some(Reason::Committing { .. }))
    }

    /// Whether an object with these attributes may be published under `target`.
    fn check_published(
        &self,
        id: &ObjectId,
        target: &ObjectId,
        attributes: &Attributes,
        sizes: &Sizes,
    ) -> Result<(), Code> {
        self.objects.check_members(attributes)?;
        self.check_pooled(target, attributes)?;
        self.check_target(id, target, attributes)?;
        self.sessions.check_name(target, attributes, sizes)
    }

    pub(crate) fn finish_seal(&mut self, id: &ObjectId, target: &ObjectId, attributes: Attributes) {
        let Some(creating) = self.end_creating(id) else { return };
        let Some(range) = creating.range() else { return };
        let exact =
            self.space.memory.extent(&range).is_some_and(|extent| extent.kind == Kind::Exact);
        if exact {
            self.no_writer(range.extent);
        }
        if target.is_pooled() {
            return self.finish_pooled(&creating, range, target, attributes);
        }
        let meta = match creating.stage {
            // As it is in the log.
            Stage::Logging { meta, .. } => meta,
            _ => ObjectMeta {
                sizes: creating.sizes,
                traits: creating.traits,
                created_ms: creating.since_ms,
                construct_ms: self.now_ms.saturating_sub(creating.since_ms),
            },
        };
        let ttl_ms = attributes.ttl_ms;
        let sealed_ms = meta.sealed_ms();
        let extras = Extras {
            expires_ms: ttl_ms.map(|ttl_ms| sealed_ms.saturating_add(ttl_ms)),
            attributes: attributes.clone(),
            ..Extras::default()
        };
        let is_replacing = id != target;
        let hidden = if is_replacing { self.hide_replaced(target) } else { None };
        self.publish(NewObject {
            id: *target,
            serial: creating.serial,
            range,
            meta,
            owner: creating.owner,
            extras: extras.kept(),
            visible: true,
        });
        if is_replacing {
            self.end_replaced(target, hidden);
        }
        self.announce_sealed(*target, creating.sizes, &attributes);
        if is_replacing {
            self.collect_fresh();
        }
    }

    /// The same for an object of a pool, which may have to be withheld.
    fn finish_pooled(
        &mut self,
        creating: &Construction,
        range: Range,
        id: &ObjectId,
        attributes: Attributes,
    ) {
        let landed = creating.landing.and_then(|landing| landing.seal);
        let reason = match landed {
            Some(landed) if !landed.visible => Some(Reason::Unpublished),
            Some(_) if !self.is_vouched(id) => Some(Reason::Unvouched),
            None if id.home().is_none() => Some(Reason::Committing { asker: None, request: 0 }),
            _ => None,
        };
        let (sizes, since_ms) = (creating.sizes, creating.since_ms);
        let construct_ms = self.now_ms.saturating_sub(since_ms);
        let (traits, created_ms) = (creating.traits, since_ms);
        let pool_policy = landed.filter(|landed| landed.keep).map(|_| Policy::Keep);
        let extras = Extras { attributes: attributes.clone(), pool_policy, ..Extras::default() };
        let record = self.publish(NewObject {
            id: *id,
            serial: creating.serial,
            range,
            meta: ObjectMeta { sizes, traits, created_ms, construct_ms },
            owner: creating.owner,
            extras: extras.kept(),
            visible: reason.is_none(),
        });
        if landed.is_none() {
            // They go with it from now on, also if the pool does not accept it.
            self.objects.hold_members(&mut self.sessions.clients, &attributes.members);
        }
        match (reason, landed) {
            (Some(reason), _) => self.withhold_new(id, record, reason),
            (None, Some(_)) => self.announce_landed(id, record),
            (None, None) => {
                self.announce_sealed(*id, sizes, &attributes);
                self.commit_homed(id);
            }
        }
    }

    /// Why an object is not sealed.
    pub(crate) fn refusal(
        &self,
        code: Code,
        id: &ObjectId,
        name: Option<&Name>,
        sizes: &Sizes,
    ) -> Failure {
        let failure = Failure::of(code);
        let failure = match (code, name) {
            (Code::Cancelled, _) => failure.with_detail(
                "the program that had adopted its namespace has ended, and nothing is put there \
                 until a program adopts it again",
            ),
            (Code::QuotaExceeded, Some(name)) => {
                let adoptions = &self.sessions.adoptions;
                adoptions.over_limit(name, id, content_bytes(sizes)).unwrap_or(failure)
            }
            _ => failure,
        };
        failure.with_id(*id)
    }
}
