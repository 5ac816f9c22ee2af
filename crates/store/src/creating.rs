//! Objects under construction.
//!
//! A client *announces* an object that it writes into memory leased to it, and completes it with a
//! put; or it *creates* one, and the store finds the memory and publishes it at the seal. Either
//! way the id is taken from then on, and waiters learn when its creator dies.

use std::collections::BTreeMap;

use plasmon_proto::message::{Failure, Range, Reply};
use plasmon_proto::object::{Level, Sizes, Traits};
use plasmon_proto::{Attributes, Code, ObjectId, ObjectState};

use crate::clients::{Asker, Client};
use crate::effect::Effect;
use crate::event::{ClientNo, Ticket};
use crate::jobs::{Job, Purpose};
use crate::memory::{Kind, Placed};
use crate::objects::Birth;
use crate::ports::Directory;
use crate::rare::Rare;
use crate::records::RECOVERED;
use crate::store::Store;

/// Objects that one client may be creating at once.
pub(crate) const CREATING_PER_CLIENT_MAX: usize = 1 << 16;

/// One object under construction.
#[derive(Clone, Debug)]
pub(crate) struct Creating {
    pub(crate) client: ClientNo,
    /// The session of its creator.
    pub(crate) owner: u32,
    /// The connection on which its creator began it, or named it when it came back.
    pub(crate) connection: u64,
    pub(crate) serial: u64,
    pub(crate) sizes: Sizes,
    pub(crate) traits: Traits,
    pub(crate) strict: bool,
    pub(crate) since_ms: u64,
    pub(crate) stage: Stage,
    /// What its creator owns for it.
    pub(crate) charge: u64,
    /// For an object that grows.
    pub(crate) growing: Option<Growing>,
}

/// What is special about an object whose size is not known before it is sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growing {
    /// How many bytes more are being looked for; its creator owns them already.
    pub(crate) coming_bytes: u64,
    /// Bytes of its data, once its creator has said so.
    pub(crate) data_bytes: Option<u64>,
    /// Which request is answered when they are found, and the connection that it came on.
    pub(crate) asked: Asked,
}

/// A request that is answered later, if the connection that it came on is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) connection: u64,
    pub(crate) request: u64,
}

/// How far the construction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its creator has the memory already.
    Announced,
    /// Memory is looked for.
    Placing,
    /// Its creator writes into this range.
    Writing(Range),
    /// The kernel is asked to refuse every further write; then the request is answered.
    Hardening { range: Range, asked: Asked, attributes: Box<Attributes> },
}

impl Creating {
    /// Whether it grew and has got all that it will get.
    pub(crate) fn is_settling(&self) -> bool {
        self.growing.is_some_and(|growing| growing.data_bytes.is_some())
    }

    pub(crate) fn range(&self) -> Option<Range> {
        match &self.stage {
            Stage::Announced | Stage::Placing => None,
            Stage::Writing(range) | Stage::Hardening { range, .. } => Some(*range),
        }
    }
}

/// What a client wants to create.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) id: ObjectId,
    pub(crate) sizes: Sizes,
    pub(crate) traits: Traits,
    pub(crate) strict: bool,
}

/// All objects under construction.
#[derive(Debug, Default)]
pub(crate) struct Creatings {
    by_id: BTreeMap<ObjectId, Creating>,
    by_serial: BTreeMap<u64, ObjectId>,
    /// Seals that wait for the kernel.
    pub(crate) hardening: BTreeMap<Ticket, (ObjectId, u64)>,
}

impl Creatings {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<&Creating> {
        self.by_id.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &ObjectId) -> Option<&mut Creating> {
        self.by_id.get_mut(id)
    }

    pub(crate) fn insert(&mut self, id: ObjectId, creating: Creating) {
        self.by_serial.insert(creating.serial, id);
        self.by_id.insert(id, creating);
    }

    pub(crate) fn remove(&mut self, id: &ObjectId) -> Option<Creating> {
        let creating = self.by_id.remove(id)?;
        self.by_serial.remove(&creating.serial);
        Some(creating)
    }

    /// Those from a serial on, in the order of their serials.
    pub(crate) fn from(&self, serial: u64) -> impl Iterator<Item = (&ObjectId, &Creating)> {
        self.by_serial.range(serial..).filter_map(|(_, id)| Some((id, self.by_id.get(id)?)))
    }
}

impl<D: Directory> Store<D> {
    /// Where the object is that this client creates, and the sizes of its parts, once it has
    /// memory.
    pub fn creating(&self, client: ClientNo, id: &ObjectId) -> Option<(Range, Sizes)> {
        let creating = self.creatings.get(id).filter(|it| self.is_creator(client, it))?;
        Some((creating.range()?, creating.sizes))
    }

    /// Whether the client creates this: not another one that had its number before.
    pub(crate) fn is_creator(&self, client: ClientNo, creating: &Creating) -> bool {
        self.clients.get(client).is_some_and(|found| found.session == creating.owner)
    }

    /// Whether the id can be given to a new object.
    pub(crate) fn is_free(&self, id: &ObjectId) -> bool {
        self.find(id).is_none() && self.creatings.get(id).is_none() && self.tier.get(id).is_none()
    }

    pub(crate) fn announce(&mut self, client: ClientNo, id: ObjectId) -> Result<(), Code> {
        if self.was_published_before_restart(client, &id) {
            return Ok(());
        }
        if !self.is_free(&id) {
            return Err(Code::Exists);
        }
        let wanted =
            Wanted { id, sizes: Sizes::default(), traits: Traits::default(), strict: false };
        self.begin(client, &wanted, Stage::Announced, 0)
    }

    /// Whether an earlier daemon published this object in memory of this client. Then the record is
    /// delivered a second time: the daemon died after it had applied it and before it had said so.
    fn was_published_before_restart(&self, client: ClientNo, id: &ObjectId) -> bool {
        self.find(id).is_some_and(|entry| {
            self.records.get(entry.record).is(RECOVERED) && self.is_writer(client, &entry.range)
        })
    }

    pub(crate) fn begin(
        &mut self,
        client: ClientNo,
        wanted: &Wanted,
        stage: Stage,
        charge: u64,
    ) -> Result<(), Code> {
        let serial = self.serial();
        let found = self.clients.get_mut(client).ok_or(Code::BadRequest)?;
        if found.creating.len() >= CREATING_PER_CLIENT_MAX {
            return Err(Code::LimitReached);
        }
        found.creating.insert(wanted.id);
        let (session, connection) = (found.session, found.connection);
        let creating = Creating {
            client,
            owner: session,
            connection,
            serial,
            sizes: wanted.sizes,
            traits: wanted.traits,
            strict: wanted.strict,
            since_ms: self.now_ms,
            stage,
            charge,
            growing: None,
        };
        self.clients.own(session, charge);
        self.obituaries.forget(&wanted.id);
        self.hold_content(creating.owner, &creating.sizes);
        self.creatings.insert(wanted.id, creating);
        Ok(())
    }

    /// Forgets an object under construction; its memory and charge are the caller's.
    pub(crate) fn end_creating(&mut self, id: &ObjectId) -> Option<Creating> {
        let creating = self.creatings.remove(id)?;
        self.drop_content(creating.owner, &creating.sizes);
        if let Some((_, client)) = self.clients.of_session_mut(creating.owner) {
            client.creating.remove(id);
        }
        Some(creating)
    }

    /// Gives up an object under construction with its memory.
    pub(crate) fn give_up(&mut self, id: &ObjectId) {
        let Some(creating) = self.end_creating(id) else { return };
        self.clients.disown(creating.owner, creating.charge);
        match (creating.range(), creating.growing) {
            (Some(range), Some(growing)) => self.give_up_growing(&creating, range, growing),
            (Some(range), None) => {
                self.memory.release(range, creating.charge, &mut self.out);
            }
            (None, _) => {}
        }
        if let Stage::Hardening { asked, .. } = creating.stage {
            let failure = Failure::of(Code::Cancelled).with_id(*id);
            self.answer_creator(&creating, asked, Reply::Failed(failure));
        }
    }

    /// Answers a request about an object under construction, if its creator still waits for that.
    pub(crate) fn answer_creator(&mut self, creating: &Creating, asked: Asked, reply: Reply) {
        let Creating { client, owner: session, .. } = *creating;
        if self.clients.is_asking(Asker { client, session, connection: asked.connection }) {
            self.reply(client, asked.request, reply);
        }
    }

    /// The same for a request that nothing came of.
    pub(crate) fn fail_asker(&mut self, asker: Asker, request: u64, failure: Failure) {
        if self.clients.is_asking(asker) {
            self.fail(asker.client, request, failure);
        }
    }

    /// A request of this client, as one that is answered later.
    pub(crate) fn asked(&self, client: ClientNo, request: u64) -> Asked {
        let connection = self.clients.get(client).map_or(0, |found| found.connection);
        Asked { connection, request }
    }

    /// Whether the client began this on an earlier connection and does not know of it: the answer
    /// was lost with that. It asks again.
    pub(crate) fn is_left_over(&self, client: ClientNo, creating: &Creating) -> bool {
        let since = |found: &Client| {
            found.session == creating.owner && found.connection != creating.connection
        };
        creating.stage != Stage::Announced && self.clients.get(client).is_some_and(since)
    }

    /// Whether the client may create an object of this id. What it began of that id on an earlier
    /// connection makes room.
    pub(crate) fn clear_for(&mut self, client: ClientNo, id: &ObjectId) -> Result<(), Failure> {
        if self.creatings.get(id).is_some_and(|creating| self.is_left_over(client, creating)) {
            self.give_up(id);
        }
        if self.is_free(id) { Ok(()) } else { Err(Failure::of(Code::Exists)) }
    }

    pub(crate) fn abort(&mut self, client: ClientNo, id: &ObjectId) -> Result<(), Code> {
        let Some(creating) = self.creatings.get(id) else {
            return Err(if self.is_free(id) { Code::Absent } else { Code::AlreadySealed });
        };
        if !self.is_creator(client, creating) {
            return Err(Code::NotOwner);
        }
        self.give_up(id);
        Ok(())
    }

    /// A `Create` request: takes the id and looks for memory.
    pub(crate) fn create(&mut self, client: ClientNo, request: u64, wanted: Wanted) {
        match self.check_create(client, request, &wanted) {
            Ok(job) => self.start(job),
            Err(failure) => self.fail(client, request, failure.with_id(wanted.id)),
        }
    }

    fn check_create(
        &mut self,
        client: ClientNo,
        request: u64,
        wanted: &Wanted,
    ) -> Result<Job, Failure> {
        let (sizes, capacity) = (wanted.sizes, self.config.capacity_bytes);
        let content = sizes.data.saturating_add(sizes.metadata);
        let footprint = sizes
            .footprint()
            .filter(|_| content <= capacity)
            .ok_or_else(|| Failure::of(Code::TooLarge).with_amounts(content, capacity))?;
        self.clear_for(client, &wanted.id)?;
        let strict = wanted.strict || self.config.level == Level::Strict;
        let exact = strict || self.memory.is_exact(footprint);
        let charge = if exact { self.memory.exact_charge(&sizes) } else { footprint };
        let left = self.clients.quota_left(client);
        if charge > left {
            return Err(Failure::of(Code::QuotaExceeded).with_amounts(charge, left));
        }
        self.keep_to_share(client, content)?;
        let wanted = Wanted { strict, ..wanted.clone() };
        self.begin(client, &wanted, Stage::Placing, charge).map_err(Failure::of)?;
        let creating = self.creatings.get(&wanted.id).expect("it was just begun");
        let Creating { owner: session, connection, serial, .. } = *creating;
        let asker = Asker { client, session, connection };
        let purpose = Purpose::Create { asker, request, id: wanted.id, serial };
        let exact = exact.then_some(crate::jobs::Exact { charge, strict });
        Ok(Job::new(purpose, crate::leasing::Size::exactly(footprint), exact))
    }

    /// Memory was found for a `Create`.
    pub(crate) fn created(&mut self, id: &ObjectId, placed: &Placed) {
        if let Some(creating) = self.creatings.get_mut(id) {
            creating.stage = Stage::Writing(placed.range);
            if creating.growing.is_some() {
                self.begun_growing(id, placed);
            }
        }
    }

    pub(crate) fn seal(
        &mut self,
        client: ClientNo,
        request: u64,
        id: ObjectId,
        attributes: Option<Attributes>,
    ) {
        if self.seal_goes_on(client, request, &id) {
            return;
        }
        match self.check_seal(client, &id, attributes) {
            Ok((range, attributes, true)) => {
                let (ticket, asked) = (self.ticket(), self.asked(client, request));
                let Some(creating) = self.creatings.get_mut(&id) else { return };
                let serial = creating.serial;
                let attributes = Box::new(attributes);
                creating.stage = Stage::Hardening { range, asked, attributes };
                self.creatings.hardening.insert(ticket, (id, serial));
                self.out.push(Effect::Harden(ticket, range.extent));
            }
            Ok((_, attributes, false)) => {
                self.finish_seal(&id, attributes);
                self.reply(client, request, Reply::Done);
            }
            Err(code) => self.fail(client, request, Failure::of(code).with_id(id)),
        }
    }

    /// Whether this asks again, on another connection, for a seal that is under way.
    pub(crate) fn seal_goes_on(&mut self, client: ClientNo, request: u64, id: &ObjectId) -> bool {
        let again = self.asked(client, request);
        let is_own = |it: &Creating| self.is_creator(client, it);
        if !self.creatings.get(id).is_some_and(is_own) {
            return false;
        }
        match self.creatings.get_mut(id).map(|creating| &mut creating.stage) {
            Some(Stage::Hardening { asked, .. }) if asked.connection != again.connection => {
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
        attributes: Option<Attributes>,
    ) -> Result<(Range, Attributes, bool), Code> {
        let Some(creating) = self.creatings.get(id) else {
            return Err(if self.is_free(id) { Code::Absent } else { Code::AlreadySealed });
        };
        if !self.is_creator(client, creating) {
            return Err(Code::NotOwner);
        }
        let range = match &creating.stage {
            Stage::Writing(_) if creating.growing.is_some() => return Err(Code::BadRequest),
            Stage::Writing(range) => *range,
            Stage::Hardening { .. } => return Err(Code::AlreadySealed),
            Stage::Announced | Stage::Placing => return Err(Code::BadRequest),
        };
        let attributes =
            attributes.filter(|found| found.check().is_ok()).ok_or(Code::BadRequest)?;
        self.check_members(&attributes.members)?;
        self.check_name(&attributes, &creating.sizes)?;
        Ok((range, attributes, creating.strict))
    }

    pub(crate) fn hardened(&mut self, ticket: Ticket, done: bool) {
        let Some((id, serial)) = self.creatings.hardening.remove(&ticket) else { return };
        let Some(creating) = self.creatings.get_mut(&id).filter(|it| it.serial == serial) else {
            return;
        };
        let Stage::Hardening { range, asked, attributes } = creating.stage.clone() else {
            return;
        };
        creating.stage = Stage::Writing(range);
        let creating = creating.clone();
        if self.clients.of_session(creating.owner).is_none() {
            return self.creator_died(&id);
        }
        if creating.growing.is_some() {
            return self.settled(asked, &id, done);
        }
        let sizes = creating.sizes;
        let allowed = self
            .check_members(&attributes.members)
            .and_then(|()| self.check_name(&attributes, &sizes));
        let reply = if !done {
            let detail = "the object is still mapped for writing";
            Reply::Failed(Failure::of(Code::InUse).with_id(id).with_detail(detail))
        } else if let Err(code) = allowed {
            Reply::Failed(Failure::of(code).with_id(id))
        } else {
            self.finish_seal(&id, *attributes);
            Reply::Done
        };
        self.answer_creator(&creating, asked, reply);
    }

    pub(crate) fn finish_seal(&mut self, id: &ObjectId, attributes: Attributes) {
        let Some(creating) = self.end_creating(id) else { return };
        let Some(range) = creating.range() else { return };
        let exact = self.memory.extent(&range).is_some_and(|extent| extent.kind == Kind::Exact);
        if exact {
            self.no_writer(range.extent);
        }
        let ttl_ms = attributes.ttl_ms;
        let rare = Rare {
            construct_ms: self.now_ms.saturating_sub(creating.since_ms),
            expires_ms: ttl_ms.map(|ttl_ms| self.now_ms.saturating_add(ttl_ms)),
            attributes: attributes.clone(),
            ..Rare::default()
        };
        self.publish(Birth {
            id: *id,
            serial: creating.serial,
            range,
            sizes: creating.sizes,
            traits: creating.traits,
            created_ms: creating.since_ms,
            owner: creating.owner,
            rare: rare.kept(),
        });
        self.celebrate(*id, creating.sizes, &attributes);
    }

    /// A creator is gone: what it did not seal will not come.
    pub(crate) fn creator_died(&mut self, id: &ObjectId) {
        self.give_up(id);
        self.obituaries.add(*id, ObjectState::CreatorDied);
        self.tell_waiters(id, ObjectState::CreatorDied);
    }
}
