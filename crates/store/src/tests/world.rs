//! A store with a daemon that does what it is told, for stories in tests.

use std::collections::{BTreeMap, VecDeque};

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::{Access, Failure, Grant, Notice, Reply, Request};
use plasmon_proto::object::{ObjectInfo, Sizes, Traits};
use plasmon_proto::ring::{self, Completion, Submission};
use plasmon_proto::status::Status;
use plasmon_proto::{Attributes, Code, ObjectId, ObjectState, Policy};

use super::TestDirectory;
use super::log::TestLog;
use crate::event::{
    ClientNo, Event, LogFailure, Lsn, OpenedFile, Peer, ReadBack, RecordCheck, SealTarget, Ticket,
};
use crate::spill::Backing;
use crate::{Config, Effect, Store};

/// An id that is told by its number.
pub(crate) fn id(number: u64) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    ObjectId::new(bytes)
}

/// Sizes of an object that is all data.
pub(crate) fn sizes(data: u64) -> Sizes {
    Sizes { data, ..Sizes::default() }
}

/// A put in the making.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) id: ObjectId,
    pub(crate) sizes: Sizes,
    pub(crate) traits: Traits,
    pub(crate) attributes: Attributes,
}

impl Put {
    pub(crate) fn new(number: u64, data: u64) -> Self {
        let attributes = Attributes::default();
        Self { id: id(number), sizes: sizes(data), traits: Traits::default(), attributes }
    }

    pub(crate) fn cache(mut self) -> Self {
        self.traits.policy = Policy::Cache;
        self
    }

    pub(crate) fn owned(mut self) -> Self {
        self.traits.owned = true;
        self
    }

    pub(crate) fn with(mut self, attributes: Attributes) -> Self {
        self.sizes.attributes = attributes.encode().len() as u64;
        self.attributes = attributes;
        self
    }

    pub(crate) fn durable(self) -> Self {
        let attributes = Attributes { durable: true, ..self.attributes.clone() };
        self.with(attributes)
    }

    pub(crate) fn of(self, members: &[u64]) -> Self {
        let members = members.iter().map(|number| id(*number)).collect();
        self.with(Attributes { members, ..Attributes::default() })
    }
}

pub(crate) struct World {
    pub(crate) store: Store<TestDirectory>,
    pub(crate) now_ms: u64,
    /// What the machine and the tier do; `None` leaves a request for the test to answer.
    pub(crate) reserve: Option<bool>,
    pub(crate) spill: Option<bool>,
    pub(crate) restore: Option<bool>,
    pub(crate) harden: Option<bool>,
    /// What the log does.
    pub(crate) logs: Option<bool>,
    /// Whether processes let go of what was dropped.
    pub(crate) release: Option<bool>,
    /// Requests of the store that wait for the test.
    pub(crate) open: VecDeque<(Ticket, Effect)>,
    pub(crate) extents: BTreeMap<ExtentId, u64>,
    /// The first birth number of an extent that was never given.
    pub(crate) births: u64,
    /// Objects in the tier, by serial.
    pub(crate) tier: BTreeMap<u64, ObjectId>,
    /// What is durable.
    pub(crate) log: TestLog,
    pub(crate) effects: Vec<Effect>,
    events: u64,
    next_request: u64,
    next_position: u64,
    pub(crate) next_number: u64,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        let mut world = Self::over(Store::new(config, TestDirectory::default()));
        if config.durable {
            world.open_log();
        }
        world
    }

    pub(crate) fn with_capacity(bytes: u64) -> Self {
        Self::new(Config::new(bytes))
    }

    pub(crate) fn over(store: Store<TestDirectory>) -> Self {
        Self {
            store,
            now_ms: 1_000_000,
            reserve: Some(true),
            spill: Some(true),
            restore: Some(true),
            harden: Some(true),
            logs: Some(true),
            release: Some(true),
            open: VecDeque::new(),
            extents: BTreeMap::new(),
            births: 1,
            tier: BTreeMap::new(),
            log: TestLog::default(),
            effects: Vec::new(),
            events: 0,
            next_request: 0,
            next_position: 0,
            next_number: 0,
        }
    }

    /// The log is open: the store is told what is in it. Returns ids that have another object.
    pub(crate) fn open_log(&mut self) -> Vec<ObjectId> {
        let mut effects = Vec::new();
        let ended = self.store.adopt_log(self.now_ms, self.log.found(), &mut effects);
        self.do_all(effects);
        ended
    }

    /// Applies an event and does what the store asks for, until it asks nothing more.
    pub(crate) fn event(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let from = self.effects.len();
            let looks = self.store.directory().looks.get();
            self.store.step(self.now_ms, event, &mut self.effects);
            let looks = self.store.directory().looks.get() - looks;
            assert!(looks <= 1, "an event looks through the ledgers once, not {looks} times");
            let new = self.effects.split_off(from);
            for effect in &new {
                events.extend(self.apply_effect(effect));
            }
            self.effects.extend(new);
            if events.is_empty() && self.store.has_work() {
                events.push_back(Event::Tick);
            }
        }
        // Tests ask the store directly, too.
        self.store.work.begin_event();
        // Checking looks at everything, so a large store is checked now and then.
        self.events += 1;
        if self.store.objects.visible < 500 || self.events.is_multiple_of(1000) {
            self.store.check();
        }
    }

    /// Does what the store asked for outside of an event.
    pub(crate) fn do_all(&mut self, effects: Vec<Effect>) {
        let events: Vec<Event> =
            effects.iter().filter_map(|effect| self.apply_effect(effect)).collect();
        self.effects.extend(effects);
        events.into_iter().for_each(|event| self.event(event));
    }

    /// No extent has the identity of one before it, in no life of the store's daemon.
    fn extent_made(&mut self, extent: ExtentId) {
        assert!(extent.birth() >= self.births, "{extent:?} was given before");
        self.births = extent.birth() + 1;
    }

    fn apply_effect(&mut self, effect: &Effect) -> Option<Event> {
        match effect {
            Effect::Reserve { ticket, new_extent_bytes, range, .. } => {
                if new_extent_bytes.is_some() {
                    self.extent_made(range.extent);
                }
                if let Some(bytes) = new_extent_bytes
                    && self.reserve != Some(false)
                {
                    assert!(self.extents.insert(range.extent, *bytes).is_none());
                }
                self.answer(self.reserve, *ticket, effect, Event::Reserved)
            }
            Effect::Extend { ticket, new_extent, range } => {
                if *new_extent {
                    self.extent_made(range.extent);
                }
                if self.reserve != Some(false) {
                    let before = self.extents.insert(range.extent, range.offset + range.bytes);
                    assert_eq!(
                        before,
                        (!new_extent).then_some(range.offset),
                        "it grows at its end"
                    );
                }
                self.answer(self.reserve, *ticket, effect, Event::Reserved)
            }
            Effect::Settle { ticket, extent, bytes, .. } => {
                let before = self.extents.insert(*extent, *bytes);
                assert!(before.is_some_and(|before| before >= *bytes), "it is only cut short");
                self.answer(self.harden, *ticket, effect, Event::Hardened)
            }
            Effect::Spill(ticket, order) => {
                if self.spill == Some(true) {
                    self.tier.insert(order.serial, order.id);
                }
                self.answer(self.spill, *ticket, effect, Event::Spilled)
            }
            Effect::Restore(ticket, _, serial, _) => {
                assert!(self.tier.contains_key(serial), "only what is in the tier comes back");
                self.answer(self.restore, *ticket, effect, read_back)
            }
            Effect::Open(ticket, _, serial) => {
                assert!(self.tier.contains_key(serial), "only what is in the tier is opened");
                self.answer(self.restore, *ticket, effect, opened)
            }
            Effect::CheckFile(ticket, _, serial, _) => {
                assert!(self.tier.contains_key(serial), "only what is in the tier is read");
                self.answer(self.restore, *ticket, effect, checked)
            }
            Effect::Unspill(_, serial) => {
                self.tier.remove(serial);
                None
            }
            Effect::Log(ticket, _)
            | Effect::Note(ticket, _)
            | Effect::Relog(ticket, ..)
            | Effect::CheckLog(ticket, ..)
            | Effect::Unlog(ticket, ..)
            | Effect::ReadLog(ticket, ..) => self.give_log(*ticket, effect),
            Effect::Harden(ticket, _) => self.answer(self.harden, *ticket, effect, Event::Hardened),
            Effect::Drop(extent) => {
                self.extents.remove(extent);
                let bytes = self.store.space.memory.retained().bytes_of(*extent)?;
                let answered = |_, done| outcome_of_drop(*extent, bytes, done);
                self.answer(self.release, Ticket(bytes), effect, answered)
            }
            _ => None,
        }
    }

    /// The log is asked for something, and may answer at once.
    fn give_log(&mut self, ticket: Ticket, effect: &Effect) -> Option<Event> {
        let Some(done) = self.logs else {
            self.open.push_back((ticket, effect.clone()));
            return None;
        };
        Some(self.answer_of_log(ticket, effect, done))
    }

    /// Does something with the log, or does not: then it has no room.
    fn answer_of_log(&mut self, ticket: Ticket, effect: &Effect, done: bool) -> Event {
        let full = || LogFailure { code: Code::StoreFull, detail: "no room".to_owned() };
        match effect {
            Effect::Log(_, order) if done => Event::Logged(ticket, Ok(self.log.put(order))),
            Effect::Note(_, order) if done => Event::Logged(ticket, Ok(self.log.note(order))),
            Effect::Log(..) | Effect::Note(..) => Event::Logged(ticket, Err(full())),
            Effect::Relog(_, _, order) if done => Event::Logged(ticket, Ok(self.log.put(order))),
            Effect::Relog(..) => {
                let failure = LogFailure { code: Code::BadRequest, ..full() };
                Event::Logged(ticket, Err(failure))
            }
            Effect::CheckLog(..) => checked(ticket, done),
            Effect::Unlog(_, id, lsn) if done => {
                self.log.dead(id, *lsn);
                Event::Unlogged(ticket, Ok(()))
            }
            Effect::Unlog(..) => Event::Unlogged(ticket, Err(full())),
            Effect::ReadLog(_, id, lsn, _) => {
                // One that was superseded since is not there any more.
                let is_there = done && self.log.has(id, *lsn);
                assert!(is_there || !done || !self.wants(id, *lsn), "it reads what is there");
                read_back(ticket, is_there)
            }
            other => panic!("{other:?} is not for the log"),
        }
    }

    /// Whether the store holds a record of the log for an object out of memory.
    fn wants(&self, id: &ObjectId, lsn: Lsn) -> bool {
        self.store.objects.tier.get(id).is_some_and(|it| it.backing == Backing::Log(lsn))
    }

    fn answer(
        &mut self,
        done: Option<bool>,
        ticket: Ticket,
        effect: &Effect,
        event: impl Fn(Ticket, bool) -> Event,
    ) -> Option<Event> {
        match done {
            Some(done) => Some(event(ticket, done)),
            None => {
                self.open.push_back((ticket, effect.clone()));
                None
            }
        }
    }

    /// Answers the oldest request of the store that waits.
    pub(crate) fn settle(&mut self, done: bool) {
        self.settle_at(0, done);
    }

    /// Answers one of the requests of the store that wait.
    pub(crate) fn settle_at(&mut self, at: usize, done: bool) {
        let (ticket, effect) = self.open.remove(at).expect("the store asked for something");
        let event = match effect {
            Effect::Extend { new_extent: false, range, .. } if !done => {
                // Unless it was cut to its size in the meantime, it ends where it did.
                let end = self.extents.get_mut(&range.extent);
                if let Some(end) = end.filter(|end| **end == range.offset + range.bytes) {
                    *end = range.offset;
                }
                Event::Reserved(ticket, done)
            }
            Effect::Reserve { .. } | Effect::Extend { .. } => Event::Reserved(ticket, done),
            Effect::Spill(_, order) => {
                if done {
                    self.tier.insert(order.serial, order.id);
                }
                Event::Spilled(ticket, done)
            }
            Effect::Log(..)
            | Effect::Note(..)
            | Effect::Relog(..)
            | Effect::CheckLog(..)
            | Effect::Unlog(..)
            | Effect::ReadLog(..) => self.answer_of_log(ticket, &effect, done),
            Effect::Restore(..) => read_back(ticket, done),
            Effect::Open(..) => opened(ticket, done),
            Effect::CheckFile(..) => checked(ticket, done),
            Effect::Harden(..) | Effect::Settle { .. } => Event::Hardened(ticket, done),
            Effect::Drop(extent) => {
                if !done {
                    // It goes some time.
                    self.open.push_back((ticket, effect));
                }
                outcome_of_drop(extent, ticket.0, done)
            }
            other => panic!("{other:?} is not answered"),
        };
        self.event(event);
    }

    pub(crate) fn connect(&mut self, number: u32) -> ClientNo {
        self.connect_as(number, Access::ReadWrite)
    }

    pub(crate) fn connect_as(&mut self, number: u32, access: Access) -> ClientNo {
        let name = format!("client {number}");
        let peer =
            Peer { pid: 100 + number, uid: 1, name, access, channel: true, session: number.into() };
        self.event(Event::Connect(ClientNo(number), peer));
        ClientNo(number)
    }

    pub(crate) fn disconnect(&mut self, client: ClientNo) {
        self.event(Event::Disconnect(client));
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.event(Event::Tick);
    }

    /// Sends a request without expecting the answer now; returns its number.
    pub(crate) fn send(&mut self, client: ClientNo, request: Request) -> u64 {
        self.next_request += 1;
        self.event(Event::Request(client, self.next_request, request));
        self.next_request
    }

    /// The answer to a request, if there is one by now.
    pub(crate) fn answer_to(&self, client: ClientNo, number: u64) -> Option<Reply> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Reply(to, at, reply) if (*to, *at) == (client, number) => Some(reply.clone()),
            Effect::Lease(to, at, granted) if (*to, *at) == (client, number) => {
                Some(Reply::Lease(*granted))
            }
            Effect::Created(to, at, granted) if (*to, *at) == (client, number) => {
                Some(Reply::Created(*granted))
            }
            Effect::Opened(to, at, _, file) if (*to, *at) == (client, number) => {
                Some(Reply::SpillFile(*file))
            }
            _ => None,
        })
    }

    /// Asks and is answered at once.
    pub(crate) fn ask(&mut self, client: ClientNo, request: Request) -> Reply {
        let number = self.send(client, request);
        self.answer_to(client, number).expect("an answer at once")
    }

    pub(crate) fn ask_for_failure(&mut self, client: ClientNo, request: Request) -> Failure {
        match self.ask(client, request) {
            Reply::Failed(failure) => failure,
            other => panic!("{other:?} is no failure"),
        }
    }

    /// Submits a record and says how it was refused.
    pub(crate) fn submit(&mut self, client: ClientNo, submission: Submission) -> Result<(), Code> {
        self.submit_with(client, submission, Some(Attributes::default()))
    }

    pub(crate) fn submit_with(
        &mut self,
        client: ClientNo,
        submission: Submission,
        attributes: Option<Attributes>,
    ) -> Result<(), Code> {
        self.next_position += 1;
        let at = self.next_position;
        self.event(Event::Submit(client, at, submission, attributes));
        let refused = self.effects.iter().find_map(|effect| match effect {
            Effect::Complete(to, Completion::Refused { position, code, .. })
                if (*to, *position) == (client, at) =>
            {
                Some(*code)
            }
            _ => None,
        });
        refused.map_or(Ok(()), Err)
    }

    pub(crate) fn lease(&mut self, client: ClientNo, bytes: u64) -> Result<Grant, Failure> {
        match self.ask(client, Request::Lease { bytes_min: bytes, bytes_wanted: bytes }) {
            Reply::Lease(granted) => Ok(granted),
            Reply::Failed(failure) => Err(failure),
            other => panic!("{other:?} is no answer to a lease"),
        }
    }

    /// Leases exactly what the object needs and puts it there.
    pub(crate) fn put(&mut self, client: ClientNo, put: Put) -> Result<Range, Code> {
        let footprint = put.sizes.footprint().expect("sizes within their limits");
        let granted = self.lease(client, footprint).map_err(|failure| failure.code)?;
        self.put_at(client, put, granted.range)?;
        Ok(Range { bytes: footprint, ..granted.range })
    }

    pub(crate) fn put_at(&mut self, client: ClientNo, put: Put, at: Range) -> Result<(), Code> {
        let Put { id, sizes, traits, attributes } = put;
        let placement = at.placement();
        let submission = Submission::Put(ring::Put { id, placement, sizes, traits });
        self.submit_with(client, submission, Some(attributes))
    }

    pub(crate) fn create(&mut self, client: ClientNo, put: &Put) -> Result<Grant, Failure> {
        let Put { id, sizes, traits, .. } = *put;
        match self.ask(client, Request::Create { id, sizes, traits, strict: false }) {
            Reply::Created(granted) => Ok(granted),
            Reply::Failed(failure) => Err(failure),
            other => panic!("{other:?} is no answer to a create"),
        }
    }

    pub(crate) fn seal(&mut self, client: ClientNo, put: &Put) -> Result<(), Code> {
        self.seal_as(client, put, put.id).map_err(|failure| failure.code)
    }

    /// Seals what is being created under an id that another object may have.
    pub(crate) fn seal_as(
        &mut self,
        client: ClientNo,
        put: &Put,
        target: ObjectId,
    ) -> Result<(), Failure> {
        self.next_request += 1;
        let number = self.next_request;
        let sealing = SealTarget { id: put.id, target };
        self.event(Event::Seal(client, number, sealing, Some(put.attributes.clone())));
        match self.answer_to(client, number) {
            Some(Reply::Done) => Ok(()),
            Some(Reply::Failed(failure)) => Err(failure),
            other => panic!("{other:?} is no answer to a seal"),
        }
    }

    pub(crate) fn create_and_seal(&mut self, client: ClientNo, put: &Put) -> Result<(), Code> {
        self.create(client, put).map_err(|failure| failure.code)?;
        self.seal(client, put)
    }

    pub(crate) fn delete(&mut self, client: ClientNo, number: u64) -> Option<Code> {
        match self.ask(client, Request::Delete { ids: vec![id(number)] }) {
            Reply::Outcomes(outcomes) => outcomes[0],
            other => panic!("{other:?} is no answer to a delete"),
        }
    }

    pub(crate) fn evict(&mut self, client: ClientNo, bytes: u64) -> (u64, u64) {
        match self.ask(client, Request::Evict { bytes }) {
            Reply::Evicted { bytes, objects } => (bytes, objects),
            other => panic!("{other:?} is no answer to an evict"),
        }
    }

    pub(crate) fn state(&self, number: u64) -> ObjectState {
        self.store.objects.state(&id(number))
    }

    pub(crate) fn states(&self, numbers: &[u64]) -> Vec<ObjectState> {
        numbers.iter().map(|number| self.state(*number)).collect()
    }

    pub(crate) fn status(&self) -> Status {
        let mut status = Status::default();
        self.store.status_into(&mut status);
        status
    }

    pub(crate) fn stat(&mut self, client: ClientNo, number: u64) -> Option<ObjectInfo> {
        match self.ask(client, Request::Stat { id: id(number) }) {
            Reply::Info(info) => info,
            other => panic!("{other:?} is no answer to a stat"),
        }
    }

    /// Notices that the client was sent, as numbers of ids and states.
    pub(crate) fn notices(&self, client: ClientNo) -> Vec<(ObjectId, ObjectState)> {
        self.notices_in_full(client).into_iter().map(|notice| (notice.id, notice.state)).collect()
    }

    pub(crate) fn notices_in_full(&self, client: ClientNo) -> Vec<Notice> {
        let own = |effect: &Effect| match effect {
            Effect::Notify(to, notice) if *to == client => Some(*notice),
            _ => None,
        };
        self.effects.iter().filter_map(own).collect()
    }

    pub(crate) fn pin(&mut self, number: u64) -> u64 {
        self.store.directory_mut().pin(&id(number))
    }

    pub(crate) fn unpin(&mut self, serial: u64) {
        self.store.directory_mut().unpin(serial);
    }
}

fn outcome_of_drop(extent: ExtentId, bytes: u64, done: bool) -> Event {
    if done { Event::Released(extent) } else { Event::Retained(extent, bytes) }
}

/// A file that cannot be opened can be later.
fn checked(ticket: Ticket, done: bool) -> Event {
    Event::LogChecked(ticket, if done { RecordCheck::Right(7) } else { RecordCheck::Damaged })
}

fn opened(ticket: Ticket, done: bool) -> Event {
    Event::Opened(ticket, if done { OpenedFile::At(100) } else { OpenedFile::Failed })
}

/// What is not read back is lost here.
fn read_back(ticket: Ticket, done: bool) -> Event {
    Event::Restored(ticket, if done { ReadBack::Done } else { ReadBack::Corrupt })
}
