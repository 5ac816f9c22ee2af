//! Copies that the pool daemon brings here.

use plasmon_proto::message::{Failure, Landing, Reply};
use plasmon_proto::pool::Birth;
use plasmon_proto::{Attributes, Code, ObjectId, Policy};

use super::composites::are_members_of_a_pool;
use super::not_the_agent;
use crate::construction::{CreateRequest, LandedSeal, LandingState, Stage};
use crate::effect::Effect;
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// A `Land` request.
    pub(crate) fn land(&mut self, client: ClientNo, request: u64, landing: Landing) {
        let Landing { id, birth, sizes, traits, growing: _ } = landing;
        if let Err(failure) = self.check_landing(client, &landing) {
            return self.fail(client, request, failure.with_id(id));
        }
        let landing = Some(LandingState { birth, seal: None });
        self.create(client, request, CreateRequest { id, sizes, traits, strict: false, landing });
    }

    fn check_landing(&self, client: ClientNo, landing: &Landing) -> Result<(), Failure> {
        if !self.seat.is_agent(client) {
            return Err(not_the_agent());
        }
        let is_valid =
            landing.id.is_pooled() && !landing.traits.owned && landing.sizes.attributes > 0;
        if is_valid { Ok(()) } else { Err(Failure::of(Code::BadRequest)) }
    }

    /// A `SealLanded` request; the daemon read the attributes.
    pub(crate) fn seal_landed(
        &mut self,
        client: ClientNo,
        request: u64,
        (id, birth): (ObjectId, Birth),
        seal: LandedSeal,
        attributes: Option<Attributes>,
    ) {
        match self.check_seal_landed(client, &id, birth, attributes) {
            Ok(attributes) => {
                let Some(creating) = self.objects.pending_objects.get_mut(&id) else { return };
                creating.landing = Some(LandingState { birth, seal: Some(seal) });
                creating.traits.policy = if seal.keep { Policy::Keep } else { Policy::Cache };
                let (strict, serial) = (creating.strict, creating.serial);
                let Some(range) = creating.range() else { return };
                if !strict {
                    self.finish_seal(&id, &id, attributes);
                    return self.reply(client, request, Reply::Done);
                }
                let (ticket, asked) = (self.ticket(), self.sessions.asked(client, request));
                let attributes = Box::new(attributes);
                if let Some(creating) = self.objects.pending_objects.get_mut(&id) {
                    creating.stage = Stage::Hardening { range, asked, target: id, attributes };
                }
                self.objects.pending_objects.hardening.insert(ticket, (id, serial));
                self.out.push(Effect::Harden(ticket, range.extent));
            }
            Err(code) => self.fail(client, request, Failure::of(code).with_id(id)),
        }
    }

    fn check_seal_landed(
        &self,
        client: ClientNo,
        id: &ObjectId,
        birth: Birth,
        attributes: Option<Attributes>,
    ) -> Result<Attributes, Code> {
        let creating = self.objects.pending_objects.get(id).ok_or(Code::Absent)?;
        if !self.sessions.is_creator(client, creating) || !self.seat.is_agent(client) {
            return Err(Code::NotOwner);
        }
        let is_written = matches!(creating.stage, Stage::Writing(_));
        if !is_written || creating.landing.is_none_or(|landing| landing.birth != birth) {
            return Err(Code::BadRequest);
        }
        let attributes =
            attributes.filter(|found| found.check().is_ok()).ok_or(Code::BadRequest)?;
        let Attributes { name, ttl_ms, members, pool, durable: _ } = &attributes;
        let pool = pool.filter(|pool| pool.origin.is_some()).ok_or(Code::BadRequest)?;
        let here = self.seat.here.ok_or(Code::BadRequest)?;
        let is_named = name.as_ref().is_none_or(|name| name.is_of(id));
        let is_right = pool.birth(here) == birth && is_named && are_members_of_a_pool(members);
        if is_right && ttl_ms.is_none() { Ok(attributes) } else { Err(Code::BadRequest) }
    }
}
