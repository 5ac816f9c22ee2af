//! How construction begins and is given up.

use plasmon_proto::extent::Range;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::{Level, Sizes, Traits};
use plasmon_proto::{Code, ObjectId, ObjectState};

use super::{CREATING_PER_CLIENT_MAX, Construction, CreateRequest, Stage};
use crate::asker::{Asker, PendingReply};
use crate::clients::Client;
use crate::event::ClientNo;
use crate::jobs::{Job, Purpose, Size};
use crate::memory::PlacedRange;
use crate::ports::Directory;
use crate::records::RECOVERED;
use crate::sessions::Sessions;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Where the object is that this client creates, and the sizes of its parts, once it has
    /// memory.
    pub fn creating(&self, client: ClientNo, id: &ObjectId) -> Option<(Range, Sizes)> {
        let creating = self
            .objects
            .pending_objects
            .get(id)
            .filter(|it| self.sessions.is_creator(client, it))?;
        Some((creating.range()?, creating.sizes))
    }

    pub(crate) fn announce(&mut self, client: ClientNo, id: ObjectId) -> Result<(), Code> {
        if self.was_published_before_restart(client, &id) {
            return Ok(());
        }
        if !self.objects.is_available(&id) || self.seat.withheld(&id).is_some() {
            return Err(Code::Exists);
        }
        let (sizes, traits) = (Sizes::default(), Traits::default());
        let wanted = CreateRequest { id, sizes, traits, strict: false, landing: None };
        self.begin(client, &wanted, Stage::Announced, 0)
    }

    /// Whether an earlier daemon published this object in memory of this client. Then the record is
    /// delivered a second time: the daemon died after it had applied it and before it had said so.
    fn was_published_before_restart(&self, client: ClientNo, id: &ObjectId) -> bool {
        self.objects.find(id).is_some_and(|entry| {
            self.objects.records.get(entry.record).is(RECOVERED)
                && self.space.is_writer(&self.sessions.clients, client, &entry.range)
        })
    }

    pub(crate) fn begin(
        &mut self,
        client: ClientNo,
        wanted: &CreateRequest,
        stage: Stage,
        charge: u64,
    ) -> Result<(), Code> {
        let serial = self.serial();
        let found = self.sessions.clients.get_mut(client).ok_or(Code::BadRequest)?;
        if found.creating.len() >= CREATING_PER_CLIENT_MAX {
            return Err(Code::LimitReached);
        }
        found.creating.insert(wanted.id);
        let (session, connection) = (found.session, found.connection);
        let creating = Construction {
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
            landing: wanted.landing,
        };
        self.sessions.clients.own(session, charge);
        self.objects.recent_ends.forget(&wanted.id);
        self.space.hold_content(&mut self.sessions.clients, creating.owner, &creating.sizes);
        self.objects.pending_objects.insert(wanted.id, creating);
        Ok(())
    }

    /// Forgets an object under construction; its memory and charge are the caller's.
    pub(crate) fn end_creating(&mut self, id: &ObjectId) -> Option<Construction> {
        let creating = self.objects.pending_objects.remove(id)?;
        self.space.drop_content(&mut self.sessions.clients, creating.owner, &creating.sizes);
        if let Some((_, client)) = self.sessions.clients.of_session_mut(creating.owner) {
            client.creating.remove(id);
        }
        Some(creating)
    }

    /// Gives up an object under construction with its memory.
    pub(crate) fn give_up(&mut self, id: &ObjectId) {
        let Some(creating) = self.end_creating(id) else { return };
        self.sessions.clients.uncharge(creating.owner, creating.charge);
        match (creating.range(), creating.growing) {
            (Some(range), Some(growing)) => self.give_up_growing(&creating, range, growing),
            (Some(range), None) => {
                self.space.memory.release(range, creating.charge, &mut self.out);
            }
            (None, _) => {}
        }
        if let Stage::Hardening { asked, .. } = creating.stage {
            let failure = Failure::of(Code::Cancelled).with_id(*id);
            self.answer_creator(&creating, asked, Reply::Failed(failure));
        }
        if id.is_pooled() && creating.landing.is_none() {
            self.seek_again(id);
        }
    }

    /// Answers a request about an object under construction, if its creator still waits for that.
    pub(crate) fn answer_creator(
        &mut self,
        creating: &Construction,
        asked: PendingReply,
        reply: Reply,
    ) {
        let Construction { client, owner: session, .. } = *creating;
        if self.sessions.clients.is_asking(Asker { client, session, connection: asked.connection })
        {
            self.reply(client, asked.request, reply);
        }
    }

    /// The same for a request that nothing came of.
    pub(crate) fn fail_asker(&mut self, asker: Asker, request: u64, failure: Failure) {
        if self.sessions.clients.is_asking(asker) {
            self.fail(asker.client, request, failure);
        }
    }

    /// Whether the client may create an object of this id. What it began of that id on an earlier
    /// connection makes room.
    pub(crate) fn clear_for(&mut self, client: ClientNo, id: &ObjectId) -> Result<(), Failure> {
        if self
            .objects
            .pending_objects
            .get(id)
            .is_some_and(|creating| self.sessions.is_left_over(client, creating))
        {
            self.give_up(id);
        }
        let is_free = self.objects.is_available(id) && self.seat.withheld(id).is_none();
        if is_free { Ok(()) } else { Err(Failure::of(Code::Exists)) }
    }

    pub(crate) fn abort(&mut self, client: ClientNo, id: &ObjectId) -> Result<(), Code> {
        let Some(creating) = self.objects.pending_objects.get(id) else {
            return Err(if self.objects.is_free(id) { Code::Absent } else { Code::AlreadySealed });
        };
        if !self.sessions.is_creator(client, creating) {
            return Err(Code::NotOwner);
        }
        if creating.is_logging() {
            return Err(Code::AlreadySealed);
        }
        self.give_up(id);
        Ok(())
    }

    /// A `Create` request: takes the id and looks for memory.
    pub(crate) fn create(&mut self, client: ClientNo, request: u64, wanted: CreateRequest) {
        match self.check_create(client, request, &wanted) {
            Ok(job) => self.start(job),
            Err(failure) => self.fail(client, request, failure.with_id(wanted.id)),
        }
    }

    fn check_create(
        &mut self,
        client: ClientNo,
        request: u64,
        wanted: &CreateRequest,
    ) -> Result<Job, Failure> {
        let (sizes, capacity) = (wanted.sizes, self.config.capacity_bytes);
        let content = sizes.data.saturating_add(sizes.metadata);
        let footprint = sizes
            .footprint()
            .filter(|_| content <= capacity)
            .ok_or_else(|| Failure::of(Code::TooLarge).with_amounts(content, capacity))?;
        self.clear_for(client, &wanted.id)?;
        let strict = wanted.strict || self.config.level == Level::Strict;
        let exact = strict || self.space.memory.is_exact(footprint);
        let charge = if exact { self.space.memory.exact_charge(&sizes) } else { footprint };
        let left = match wanted.landing {
            None => self.sessions.clients.quota_left(client),
            // The copies of a pool are no client's.
            Some(_) => u64::MAX,
        };
        if charge > left {
            return Err(Failure::of(Code::QuotaExceeded).with_amounts(charge, left));
        }
        self.keep_to_share(client, content)?;
        let wanted = CreateRequest { strict, ..wanted.clone() };
        self.begin(client, &wanted, Stage::Placing, charge).map_err(Failure::of)?;
        let creating = self.objects.pending_objects.get(&wanted.id).expect("it was just begun");
        let Construction { owner: session, connection, serial, .. } = *creating;
        let asker = Asker { client, session, connection };
        let purpose = Purpose::Create { asker, request, id: wanted.id, serial };
        let exact = exact.then_some(crate::jobs::Exact { charge, strict });
        Ok(Job::new(purpose, Size::exactly(footprint), exact))
    }

    /// Memory was found for a `Create`.
    pub(crate) fn created(&mut self, id: &ObjectId, placed: &PlacedRange) {
        if let Some(creating) = self.objects.pending_objects.get_mut(id) {
            creating.stage = Stage::Writing(placed.range);
            if creating.growing.is_some() {
                self.begun_growing(id, placed);
            }
        }
    }

    /// A creator is gone: what it did not seal will not come.
    pub(crate) fn creator_died(&mut self, id: &ObjectId) {
        let is_landing =
            self.objects.pending_objects.get(id).is_some_and(|it| it.landing.is_some());
        self.give_up(id);
        if is_landing {
            // A copy that did not arrive says nothing about the object.
            return;
        }
        self.objects.recent_ends.add(*id, ObjectState::CreatorDied);
        self.notify_waiters(id, ObjectState::CreatorDied);
    }
}

impl Sessions {
    /// Whether the client creates this: not another one that had its number before.
    pub(crate) fn is_creator(&self, client: ClientNo, creating: &Construction) -> bool {
        self.clients.get(client).is_some_and(|found| found.session == creating.owner)
    }

    /// A request of this client, as one that is answered later.
    pub(crate) fn asked(&self, client: ClientNo, request: u64) -> PendingReply {
        let connection = self.clients.get(client).map_or(0, |found| found.connection);
        PendingReply { connection, request }
    }

    /// Whether the client began this on an earlier connection and does not know of it: the answer
    /// was lost with that. It asks again.
    pub(crate) fn is_left_over(&self, client: ClientNo, creating: &Construction) -> bool {
        let since = |found: &Client| {
            found.session == creating.owner && found.connection != creating.connection
        };
        creating.stage != Stage::Announced
            && !creating.is_logging()
            && self.clients.get(client).is_some_and(since)
    }
}
