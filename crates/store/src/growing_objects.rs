//! Objects that grow while they are written: their size is known when they are sealed.
//!
//! ```text
//! CreateGrowing ─► placing ─► writing ──────── SealGrown ─► hardening ─► sealed
//!                              │    ▲                        (the extent gets its final size)
//!                         Grow ▼    │ pages are there
//!                             growing at the end
//! ```
//!
//! Each lies from the first byte of its own extent, which ends where its memory ends. So what
//! is charged is what is there, a full store is an error before anything is written, and nothing
//! that was written ever moves. One growth is under way at a time; it may overlap with the seal.

use plasmon_proto::extent::Range;
use plasmon_proto::limits::OBJECT_BYTES_MAX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::{Level, Sizes, Traits};
use plasmon_proto::{Attributes, Code, ObjectId};

use crate::asker::Asker;
use crate::asker::PendingReply;
use crate::construction::{Construction, CreateRequest, GrowthState, Stage};
use crate::effect::Effect;
use crate::event::{ClientNo, GrownSeal};
use crate::jobs::{Growth, Job, Purpose};
use crate::memory::PlacedRange;
use crate::ports::Directory;
use crate::store::Store;

/// A request for a growing object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewGrowing {
    pub(crate) id: ObjectId,
    pub(crate) traits: Traits,
    pub(crate) bytes: u64,
    pub(crate) open_ended: bool,
}

impl<D: Directory> Store<D> {
    /// A `CreateGrowing` request: takes the id and looks for first memory.
    pub(crate) fn create_growing(&mut self, client: ClientNo, request: u64, beginning: NewGrowing) {
        match self.check_create_growing(client, request, beginning) {
            Ok(job) => self.start(job),
            Err(failure) => self.fail(client, request, failure.with_id(beginning.id)),
        }
    }

    fn check_create_growing(
        &mut self,
        client: ClientNo,
        request: u64,
        beginning: NewGrowing,
    ) -> Result<Job, Failure> {
        let NewGrowing { id, traits, bytes, open_ended } = beginning;
        let bytes = self.check_growth(client, bytes.max(1), 0)?;
        self.clear_for(client, &id)?;
        let strict = self.config.level == Level::Strict;
        let sizes = Sizes::default();
        let wanted = CreateRequest { id, sizes, traits, strict, landing: None };
        self.begin(client, &wanted, Stage::Placing, bytes).map_err(Failure::of)?;
        let creating = self.objects.pending_objects.get_mut(&wanted.id).expect("it was just begun");
        creating.growing = Some(GrowthState::default());
        let Construction { owner: session, connection, serial, .. } = *creating;
        let asker = Asker { client, session, connection };
        let purpose = Purpose::Create { asker, request, id: wanted.id, serial };
        Ok(Job::growing(purpose, bytes, Growth::First { open_ended }))
    }

    /// How many bytes, in whole pages, are to be added to `present` to make it `bytes`.
    fn check_growth(&self, client: ClientNo, bytes: u64, present: u64) -> Result<u64, Failure> {
        let most = self.space.memory.capacity_bytes().min(OBJECT_BYTES_MAX);
        let wanted = self.space.memory.pages(bytes);
        if wanted > most {
            return Err(Failure::of(Code::TooLarge).with_amounts(bytes, most));
        }
        let more = wanted.saturating_sub(present);
        let left = self.sessions.clients.quota_left(client);
        if more > left {
            return Err(Failure::of(Code::QuotaExceeded).with_amounts(more, left));
        }
        Ok(more)
    }

    /// First memory was found: it may be more or less than was asked for.
    pub(crate) fn begun_growing(&mut self, id: &ObjectId, placed: &PlacedRange) {
        let Some(creating) = self.objects.pending_objects.get_mut(id) else { return };
        let before = std::mem::replace(&mut creating.charge, placed.charge);
        let owner = creating.owner;
        self.sessions.clients.uncharge(owner, before);
        self.sessions.clients.own(owner, placed.charge);
        self.resize_content(id, data_alone(placed.range.bytes));
    }

    fn resize_content(&mut self, id: &ObjectId, sizes: Sizes) {
        let Some(creating) = self.objects.pending_objects.get_mut(id) else { return };
        let before = std::mem::replace(&mut creating.sizes, sizes);
        let owner = creating.owner;
        self.space.drop_content(&mut self.sessions.clients, owner, &before);
        self.space.hold_content(&mut self.sessions.clients, owner, &sizes);
    }

    /// A `Grow` request.
    pub(crate) fn grow(&mut self, client: ClientNo, request: u64, id: ObjectId, bytes: u64) {
        let (range, growing) = match self.check_grow(client, &id) {
            Ok(found) => found,
            Err(code) => return self.fail(client, request, Failure::of(code).with_id(id)),
        };
        if bytes <= range.bytes {
            return self.reply(client, request, Reply::Grown { bytes: range.bytes });
        }
        let asked = self.sessions.asked(client, request);
        if growing.coming_bytes > 0 && growing.asked.connection != asked.connection {
            // Asked again on another connection: what comes is told here.
            if let Some(creating) = self.objects.pending_objects.get_mut(&id) {
                creating.growing = Some(GrowthState { asked, ..growing });
            }
            return;
        }
        if growing.coming_bytes > 0 {
            let failure = Failure::of(Code::LimitReached).with_id(id);
            let detail = "its memory is already growing: wait for that answer, then ask again";
            return self.fail(client, request, failure.with_detail(detail));
        }
        let more = match self.check_growth(client, bytes, range.bytes) {
            Ok(more) => more,
            Err(failure) => return self.fail(client, request, failure.with_id(id)),
        };
        let Some(creating) = self.objects.pending_objects.get_mut(&id) else { return };
        creating.growing = Some(GrowthState { coming_bytes: more, asked, ..growing });
        let (session, serial) = (creating.owner, creating.serial);
        self.sessions.clients.own(session, more);
        let asker = Asker { client, session, connection: asked.connection };
        let purpose = Purpose::Grow { asker, request, id, serial };
        self.start(Job::growing(purpose, more, Growth::Extend(range.extent)));
    }

    /// What the client has of the object that it lets grow.
    fn check_grow(&self, client: ClientNo, id: &ObjectId) -> Result<(Range, GrowthState), Code> {
        let Some(creating) = self.objects.pending_objects.get(id) else {
            return Err(if self.objects.is_free(id) { Code::Absent } else { Code::AlreadySealed });
        };
        if !self.sessions.is_creator(client, creating) {
            return Err(Code::NotOwner);
        }
        match (&creating.stage, creating.growing) {
            (Stage::Writing(range), Some(growing)) => Ok((*range, growing)),
            (Stage::Hardening { .. } | Stage::Logging { .. }, _) => Err(Code::AlreadySealed),
            _ => Err(Code::BadRequest),
        }
    }

    /// More memory is there.
    pub(crate) fn grown(&mut self, id: &ObjectId, placed: &PlacedRange) {
        let Some(creating) = self.objects.pending_objects.get_mut(id) else { return };
        creating.charge += placed.charge;
        let Some(growing) = &mut creating.growing else { return };
        growing.coming_bytes = 0;
        let asked = growing.asked;
        if let Stage::Writing(range) = &mut creating.stage {
            range.bytes += placed.range.bytes;
            let bytes = range.bytes;
            let creating = creating.clone();
            self.resize_content(id, data_alone(bytes));
            self.answer_creator(&creating, asked, Reply::Grown { bytes });
        }
    }

    /// No more memory was found. False if the object is gone.
    pub(crate) fn not_grown(&mut self, id: &ObjectId, serial: u64, failure: &Failure) -> bool {
        let creating =
            self.objects.pending_objects.get_mut(id).filter(|creating| creating.serial == serial);
        let Some(creating) = creating else { return false };
        let Some(growing) = &mut creating.growing else { return false };
        let (coming, asked) = (std::mem::take(&mut growing.coming_bytes), growing.asked);
        let creating = creating.clone();
        self.sessions.clients.uncharge(creating.owner, coming);
        self.answer_creator(&creating, asked, Reply::Failed(failure.clone().with_id(*id)));
        true
    }

    /// A `SealGrown` request: its extent gets its final size first.
    pub(crate) fn seal_grown(&mut self, client: ClientNo, request: u64, id: ObjectId, data: u64) {
        let sealing = GrownSeal { id, target: id, data, attributes: 0 };
        self.seal_grown_as(client, request, sealing, Some(Attributes::default()));
    }

    /// The same, perhaps under another id; the daemon read the attributes.
    pub(crate) fn seal_grown_as(
        &mut self,
        client: ClientNo,
        request: u64,
        sealing: GrownSeal,
        attributes: Option<Attributes>,
    ) {
        let GrownSeal { id, target, .. } = sealing;
        if self.seal_goes_on(client, request, &id) {
            return;
        }
        let (range, growing, attributes) = match self.check_grown(client, sealing, attributes) {
            Ok(found) => found,
            Err(failure) => return self.fail(client, request, failure),
        };
        let (ticket, asked) = (self.ticket(), self.sessions.asked(client, request));
        let Some(creating) = self.objects.pending_objects.get_mut(&id) else { return };
        let sizes = sealing.sizes();
        creating.growing = Some(GrowthState { sealing: Some(sizes), ..growing });
        creating.stage = Stage::Hardening { range, asked, target, attributes };
        let (serial, strict) = (creating.serial, creating.strict);
        self.objects.pending_objects.hardening.insert(ticket, (id, serial));
        let (extent, used) = (range.extent, sizes.data + sizes.attributes);
        let bytes = self.space.memory.pages(used.max(1));
        self.out.push(Effect::Settle { ticket, extent, bytes, strict });
    }

    fn check_grown(
        &self,
        client: ClientNo,
        sealing: GrownSeal,
        attributes: Option<Attributes>,
    ) -> Result<(Range, GrowthState, Box<Attributes>), Failure> {
        let GrownSeal { id, target, data, .. } = sealing;
        let failed = |code| Failure::of(code).with_id(id);
        let (range, growing) = self.check_grow(client, &id).map_err(|code| {
            let is_sealed = code == Code::Absent && self.may_have_sealed_as(client, &id, &target);
            failed(if is_sealed { Code::AlreadySealed } else { code })
        })?;
        let sizes = sealing.sizes();
        if sizes.total().is_none_or(|total| total > range.bytes) {
            let detail = "an object cannot be longer than the memory that it was given";
            return Err(failed(Code::BadRequest)
                .with_amounts(data, range.bytes)
                .with_detail(detail));
        }
        let attributes = attributes.ok_or_else(|| failed(Code::BadRequest))?;
        if id != target {
            self.check_grown_target(&target, &attributes, &sizes)?;
        }
        Ok((range, growing, Box::new(attributes)))
    }

    /// The extent of an object has its final size, or the creator did something to it.
    pub(crate) fn settled(
        &mut self,
        asked: PendingReply,
        (id, target): (&ObjectId, &ObjectId),
        attributes: Attributes,
        done: bool,
    ) {
        let Some(creator) = self.objects.pending_objects.get(id).cloned() else { return };
        let (Some(range), Some(growing)) = (creator.range(), creator.growing) else { return };
        let (owner, before) = (creator.owner, creator.charge);
        let sizes = growing.sealing.unwrap_or_default();
        let refused = if !done {
            let detail = "its memory could not be sealed: it is still mapped for writing, or was \
                          resized by its creator";
            Some(Failure::of(Code::InUse).with_id(*id).with_detail(detail))
        } else if id != target {
            self.check_grown_target(target, &attributes, &sizes).err()
        } else {
            None
        };
        if let Some(failure) = refused {
            self.give_up(id);
            return self.answer_creator(&creator, asked, Reply::Failed(failure));
        }
        let used = sizes.data + sizes.attributes;
        let charge = self.space.memory.settle(range.extent, before, used);
        self.sessions
            .clients
            .uncharge(owner, (before + growing.coming_bytes).saturating_sub(charge));
        self.resize_content(id, sizes);
        let Some(creating) = self.objects.pending_objects.get_mut(id) else { return };
        creating.charge = charge;
        creating.growing = None;
        let bytes = creating.sizes.footprint().unwrap_or(range.bytes);
        creating.stage = Stage::Writing(Range { bytes, ..range });
        self.finish_seal(id, target, attributes);
        self.answer_creator(&creator, asked, Reply::Done);
        // The trimmed memory may be enough for a waiting client.
        self.retry_waiting_for_room();
    }

    /// Takes back the memory of an object that will not be sealed.
    pub(crate) fn give_up_growing(
        &mut self,
        creating: &Construction,
        range: Range,
        growing: GrowthState,
    ) {
        self.sessions.clients.uncharge(creating.owner, growing.coming_bytes);
        let is_gone = self.sessions.clients.of_session(creating.owner).is_none();
        if growing.sealing.is_some() || is_gone {
            // It is being cut to its size, and cannot grow again; or its writer is not connected
            // any more. What that one wrote stays readable to it alone.
            self.space.memory.discard_growing(range, creating.charge, &mut self.out);
        } else {
            self.space.memory.release(range, creating.charge, &mut self.out);
        }
    }
}

fn data_alone(data: u64) -> Sizes {
    Sizes { data, ..Sizes::default() }
}
