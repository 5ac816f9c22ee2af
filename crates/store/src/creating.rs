//! Objects under construction.
//!
//! A client *announces* an object that it writes into memory leased to it, and completes it with a
//! put; or it *creates* one, and the store finds the memory and publishes it at the seal. Either
//! way the id is taken from then on, and waiters learn when its creator dies.

use std::collections::BTreeMap;

use plasmon_proto::message::{Failure, Range, Reply};
use plasmon_proto::object::{Level, Sizes, Traits};
use plasmon_proto::{Attributes, Code, ObjectId, ObjectState};

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
    Hardening { range: Range, request: u64, attributes: Box<Attributes> },
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
        let session = found.session;
        let creating = Creating {
            client,
            owner: session,
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
        if let Stage::Hardening { request, .. } = creating.stage
            && let Some((client, _)) = self.clients.of_session(creating.owner)
        {
            self.fail(client, request, Failure::of(Code::Cancelled).with_id(*id));
        }
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
        if !self.is_free(&wanted.id) {
            return Err(Failure::of(Code::Exists));
        }
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
        let (session, serial) = (creating.owner, creating.serial);
        let purpose = Purpose::Create { client, session, request, id: wanted.id, serial };
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
        match self.check_seal(client, &id, attributes) {
            Ok((range, attributes, true)) => {
                let ticket = self.ticket();
                let Some(creating) = self.creatings.get_mut(&id) else { return };
                let serial = creating.serial;
                let attributes = Box::new(attributes);
                creating.stage = Stage::Hardening { range, request, attributes };
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
        let Stage::Hardening { range, request, attributes } = creating.stage.clone() else {
            return;
        };
        let (client, owner) = (creating.client, creating.owner);
        creating.stage = Stage::Writing(range);
        if self.clients.of_session(owner).is_none() {
            return self.creator_died(&id);
        }
        let Some(creating) = self.creatings.get_mut(&id) else { return };
        if creating.growing.is_some() {
            return self.settled(request, &id, done);
        }
        let sizes = creating.sizes;
        let allowed = self
            .check_members(&attributes.members)
            .and_then(|()| self.check_name(&attributes, &sizes));
        if !done {
            let detail = "the object is still mapped for writing";
            self.fail(client, request, Failure::of(Code::InUse).with_id(id).with_detail(detail));
        } else if let Err(code) = allowed {
            self.fail(client, request, Failure::of(code).with_id(id));
        } else {
            self.finish_seal(&id, *attributes);
            self.reply(client, request, Reply::Done);
        }
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
