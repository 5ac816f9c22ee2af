//! The actions of random clients.

use plasmon_proto::extent::Range;
use plasmon_proto::message::{Access, Filter, PendingObject, Reply, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::ring::{self, Submission};
use plasmon_proto::{Attributes, Code, Name, ObjectState, Policy};

use super::{CLIENTS, IDS, Model, ModelObject, OBSERVER, id};
use crate::effect::Effect;
use crate::event::{ClientNo, Event, Peer, SealTarget};
use crate::memory::aligned;

impl Model {
    /// One random step.
    pub(super) fn act(&mut self) {
        // Every request first deletes what has no reader any more, which must not surprise a step.
        self.world.ask(OBSERVER, Request::Status);
        self.learn();
        let client = ClientNo(self.dice.below(u64::from(CLIENTS)) as u32);
        if !self.actors.contains_key(&client) {
            return self.connect(client);
        }
        match self.dice.below(100) {
            0..13 => self.put(client),
            13..17 => self.put_durable(client),
            17..25 => self.grow_something(client),
            25..29 => self.announce(client),
            29..36 => self.lease(client),
            36..44 => self.create(client),
            44..49 => self.seal(client),
            49..52 => self.abort(client),
            52..58 => self.delete(client),
            58..60 => self.delete_unused(client),
            60..66 => self.pin(client),
            66..70 => self.unpin(client),
            70..73 => self.get(client),
            73..75 => self.release(client),
            75..81 => self.wait(client),
            81..83 => self.question(client),
            83..85 => self.evict(client),
            85 => self.adopt(client),
            86..89 => self.pass(),
            89..97 => self.settle_some(),
            97 => self.return_lease(client),
            98 => self.disconnect(client),
            _ if self.dice.percent(30) => self.restart(),
            _ => self.nonsense(client),
        }
    }

    pub(super) fn connect(&mut self, client: ClientNo) {
        let name = String::new();
        let peer =
            Peer { pid: 1, uid: 1, name, access: Access::ReadWrite, channel: true, session: 1 };
        self.world.event(Event::Connect(client, peer));
        self.actors.insert(client, super::Actor::default());
        if self.dice.percent(30) && !self.memories.is_empty() {
            let lease = self.memories[self.dice.below(self.memories.len() as u64) as usize];
            self.resume(client, vec![lease], vec![]);
        }
    }

    /// Tells the store what a client held, and learns from the store what of it it got back: the
    /// model does not check which memory is free by now, but that no other client has it.
    pub(super) fn resume(
        &mut self,
        client: ClientNo,
        leases: Vec<Range>,
        creating: Vec<PendingObject>,
    ) {
        self.world.event(Event::Resume(client, leases, creating));
        let found = self.world.store.sessions.clients.get(client).expect("it is connected");
        let leased: Vec<Range> = found.leases.ranges().collect();
        let ids = found.creating.clone();
        if let Some(actor) = self.actors.get_mut(&client) {
            actor.leased = leased.iter().flat_map(units).collect();
        }
        for number in (0..IDS).filter(|number| ids.contains(&id(*number))) {
            let Some((range, _)) = self.world.store.creating(client, &id(number)) else { continue };
            self.begin(number, client);
            self.actor(client).writing.insert(number, range);
        }
    }

    pub(super) fn disconnect(&mut self, client: ClientNo) {
        let Some(actor) = self.actors.remove(&client) else { return };
        for (serial, _) in actor.pinned {
            self.world.unpin(serial);
        }
        self.memories
            .extend(self.world.store.sessions.clients.get(client).unwrap().leases.ranges());
        self.memories.truncate(100);
        self.orphan_logging(client);
        for known in self.objects.values_mut().filter(|known| known.creator == Some(client)) {
            (known.state, known.creator) = (ObjectState::CreatorDied, None);
        }
        self.world.disconnect(client);
        self.writers.retain(|_, writer| *writer != client);
    }

    pub(super) fn sizes(&mut self) -> (Sizes, Attributes) {
        let capacity = self.world.store.config.capacity_bytes;
        let data = match self.dice.below(20) {
            0 => self.dice.pick(&[0, 1, capacity, capacity + 1, 1 << 63, u64::MAX]),
            1..4 => self.dice.below(capacity),
            4..8 => self.dice.below(capacity / 4),
            _ => self.dice.below(2000),
        };
        let mut attributes = Attributes::default();
        if self.dice.percent(15) {
            attributes.ttl_ms = Some(self.dice.below(300));
        }
        if self.dice.percent(15) {
            attributes.name = Name::new("n", format!("{}", self.dice.below(10))).ok();
        }
        if self.dice.percent(15) {
            attributes.members =
                (0..self.dice.below(4)).map(|_| id(self.dice.below(IDS))).collect();
        }
        let durable = if self.world.store.config.durable { 20 } else { 2 };
        attributes.durable = self.dice.percent(durable);
        let encoded = attributes.encode().len() as u64;
        (Sizes { data, metadata: self.dice.below(50), attributes: encoded }, attributes)
    }

    pub(super) fn traits(&mut self) -> Traits {
        let policy = if self.dice.percent(60) { Policy::Cache } else { Policy::Keep };
        Traits { policy, tag: 0, owned: self.dice.percent(20) }
    }

    fn put(&mut self, client: ClientNo) {
        let number = self.dice.below(IDS);
        let (mut sizes, attributes) = self.sizes();
        if sizes.footprint().is_none() {
            sizes.data = 100;
        }
        let traits = self.traits();
        let footprint = sizes.footprint().expect("small sizes");
        let range = self.somewhere(client, footprint);
        let readable = self.dice.percent(97);
        let given = readable.then(|| attributes.clone());
        let placement = range.placement();
        let submission = Submission::Put(ring::Put { id: id(number), placement, sizes, traits });
        let expected = self.expect_put(client, number, range, sizes, given.as_ref());
        let found = self.world.submit_with(client, submission, given);
        assert_eq!(found, expected, "put of object {number} at {range:?}");
        if expected == Ok(()) && !self.is_readable(number) {
            self.sealed(number, traits, attributes);
        }
    }

    /// A range of the client's leases, mostly.
    pub(super) fn somewhere(&mut self, client: ClientNo, bytes: u64) -> Range {
        let leased: Vec<Range> =
            self.world.store.sessions.clients.get(client).unwrap().leases.ranges().collect();
        let fitting: Vec<Range> =
            leased.iter().copied().filter(|range| range.bytes >= bytes).collect();
        if fitting.is_empty() || self.dice.percent(4) {
            let known = [leased, self.memories.clone()].concat();
            let offset = self.dice.below(1 << 16) / 64 * 64;
            let extent = plasmon_proto::extent::ExtentId(self.dice.below(4));
            let anywhere = Range { extent, offset, bytes };
            let range = if known.is_empty() { anywhere } else { self.dice.pick(&known) };
            return Range { bytes, ..range };
        }
        let lease = self.dice.pick(&fitting);
        let room = (lease.bytes - bytes) / 64;
        let skip = if self.dice.percent(15) { self.dice.below(room + 1) * 64 } else { 0 };
        Range { offset: lease.offset + skip, bytes, ..lease }
    }

    fn announce(&mut self, client: ClientNo) {
        let number = self.dice.below(IDS);
        let expected = if self.is_available(number) { Ok(()) } else { Err(Code::Exists) };
        let found = self.world.submit(client, Submission::Announce { id: id(number) });
        if found.is_ok() && expected.is_err() {
            // A record of the time before a restart, which was applied already.
            let entry = self.world.store.objects.find(&id(number)).expect("it is there");
            let record = self.world.store.objects.records.get(entry.record);
            assert!(record.is(crate::records::RECOVERED));
            return;
        }
        assert_eq!(found, expected, "announcement of object {number}");
        if found.is_ok() {
            self.begin(number, client);
        }
    }

    fn lease(&mut self, client: ClientNo) {
        let capacity = self.world.store.config.capacity_bytes;
        let bytes_min = self.dice.pick(&[0, 64, 1000, 4096, capacity / 4, capacity, 1 << 63]);
        let bytes_wanted = bytes_min.saturating_mul(self.dice.below(5));
        if self.dice.percent(50) {
            self.request(client, Request::Lease { bytes_min, bytes_wanted });
            return;
        }
        let wanted = Submission::LeaseWanted { bytes_min, bytes_wanted };
        self.next_number += 1;
        let position = (1 << 32) + self.next_number;
        self.actor(client).leases_wanted.insert(position);
        self.world.event(Event::Submit(client, position, wanted, None));
    }

    fn return_lease(&mut self, client: ClientNo) {
        let bytes = self.dice.pick(&[0, 64, 1024]);
        let range = self.somewhere(client, bytes);
        let units: Vec<_> = units(&range).collect();
        let actor = self.actor(client);
        let leased = bytes > 0 && units.iter().all(|unit| actor.leased.contains(unit));
        let expected = if leased { Ok(()) } else { Err(Code::BadRequest) };
        actor.leased.retain(|unit| !leased || !units.contains(unit));
        assert_eq!(self.world.submit(client, Submission::LeaseReturn(range)), expected);
    }

    fn create(&mut self, client: ClientNo) {
        let number = self.dice.below(IDS);
        let (sizes, _) = self.sizes();
        let traits = self.traits();
        let strict = self.dice.percent(10);
        let free = self.is_available(number);
        let request = Request::Create { id: id(number), sizes, traits, strict };
        let asked = self.request(client, request);
        let capacity = self.world.store.config.capacity_bytes;
        let content = sizes.data.saturating_add(sizes.metadata);
        let refused = match self.world.answer_to(client, asked) {
            Some(Reply::Failed(failure)) => Some(failure.code),
            _ => None,
        };
        if content > capacity {
            assert_eq!(refused, Some(Code::TooLarge));
        } else if !free {
            assert_eq!(refused, Some(Code::Exists));
        } else if let Some(code) = refused {
            assert!(matches!(code, Code::StoreFull | Code::QuotaExceeded), "{code:?}");
            if code == Code::StoreFull {
                // It was being created for a moment, which ends what was told of an earlier one.
                self.objects.remove(&number);
            }
        } else {
            self.begin(number, client);
        }
    }

    fn seal(&mut self, client: ClientNo) {
        let own: Vec<u64> = self.actor(client).writing.keys().copied().collect();
        let number = match own.is_empty() || self.dice.percent(10) {
            true => self.dice.below(IDS),
            false => self.dice.pick(&own),
        };
        let target = if self.dice.percent(40) { self.dice.below(IDS) } else { number };
        let (_, attributes) = self.sizes();
        let given = self.dice.percent(95).then(|| attributes.clone());
        let expected = self.expect_seal(client, number, target, given.as_ref());
        self.next_number += 1;
        let asked = (1 << 32) + self.next_number;
        let sealing = SealTarget { id: id(number), target: id(target) };
        let SealTarget { id: made, target: object } = sealing;
        self.actor(client).asked.insert(asked, Request::Replace { id: made, target: object });
        let creating = self.world.store.objects.pending_objects.get(&id(number)).cloned();
        self.world.event(Event::Seal(client, asked, sealing, given));
        let found = match self.world.answer_to(client, asked) {
            Some(Reply::Done) => Ok(()),
            Some(Reply::Failed(failure)) => Err(failure.code),
            None if self.world.store.objects.durable.is_dying(&id(target))
                && !attributes.durable
                && !creating.as_ref().is_some_and(|it| it.strict) =>
            {
                // It is seen, and is answered when the one before it is dead.
                Ok(())
            }
            None => {
                // The kernel or the log is asked first; what is to become of it is known when it
                // answers.
                assert!(creating.expect("it is being created").strict || attributes.durable);
                assert_eq!(expected, Ok(()));
                return;
            }
            other => panic!("{other:?} is no answer to a seal"),
        };
        assert_eq!(found, expected, "seal of object {number} as {target}");
        if found.is_ok() {
            let traits = creating.expect("it was being created").traits;
            self.forget_creating(number);
            self.sealed(target, traits, attributes);
        }
    }

    fn abort(&mut self, client: ClientNo) {
        let number = self.dice.below(IDS);
        let expected = match self.objects.get(&number) {
            Some(known) if known.state == ObjectState::Creating => {
                match known.creator == Some(client) {
                    true if self.is_logging(number) => Err(Code::AlreadySealed),
                    true => Ok(()),
                    false => Err(Code::NotOwner),
                }
            }
            _ if self.is_free(number) => Err(Code::Absent),
            _ => Err(Code::AlreadySealed),
        };
        let found = self.world.submit(client, Submission::Abort { id: id(number) });
        assert_eq!(found, expected, "abort of object {number}");
        if found.is_ok() {
            self.forget_creating(number);
        }
    }

    fn delete(&mut self, client: ClientNo) {
        let number = self.dice.below(IDS);
        let expected = self.expect_delete(client, number);
        let creating = !self.is_readable(number) && !self.is_corrupt(number);
        let by_ring = self.dice.percent(50);
        if !by_ring && self.world.store.config.durable {
            return self.delete_and_wait(client, number, expected, creating);
        }
        let found = if by_ring {
            self.world.submit(client, Submission::Delete { id: id(number) })
        } else {
            self.world.delete(client, number).map_or(Ok(()), Err)
        };
        assert_eq!(found, expected, "delete of object {number}");
        if found.is_ok() && creating {
            self.forget_creating(number);
        }
    }

    fn delete_unused(&mut self, client: ClientNo) {
        let number = self.dice.below(IDS);
        let expected = match self.objects.get(&number).map(|known| known.state) {
            Some(ObjectState::Creating) => Err(Code::NotSealed),
            _ => self.expect_delete(client, number),
        };
        let asked = self.request(client, Request::DeleteUnused { ids: vec![id(number)] });
        let expected = Reply::Outcomes(vec![expected.err()]);
        match self.world.answer_to(client, asked) {
            Some(reply) => assert_eq!(reply, expected),
            None => assert!(self.world.store.objects.durable.is_dying(&id(number))),
        }
    }

    fn pin(&mut self, client: ClientNo) {
        let number = self.dice.below(IDS);
        if self.world.store.objects.find(&id(number)).is_some() {
            let serial = self.world.pin(number);
            self.actor(client).pinned.push((serial, number));
        }
    }

    fn unpin(&mut self, client: ClientNo) {
        if let Some((serial, _)) = self.actor(client).pinned.pop() {
            self.world.unpin(serial);
        }
    }

    fn get(&mut self, client: ClientNo) {
        if self.dice.percent(30) {
            let id = id(self.dice.below(IDS));
            self.request(client, Request::OpenSpilled { id });
            return;
        }
        let ids = (0..self.dice.below(4)).map(|_| id(self.dice.below(IDS))).collect();
        self.request(client, Request::Get { ids });
    }

    fn release(&mut self, client: ClientNo) {
        let serial = match self.actor(client).located.pop() {
            Some(serial) => serial,
            None => self.dice.below(1000),
        };
        let held =
            self.world.store.sessions.clients.get(client).unwrap().pins.contains_key(&serial);
        let reply = self.world.ask(client, Request::Release { serials: vec![serial] });
        assert_eq!(reply == Reply::Done, held);
    }

    fn wait(&mut self, client: ClientNo) {
        let waits: Vec<u64> = self.actor(client).waits.iter().copied().collect();
        if !waits.is_empty() && self.dice.percent(20) {
            let number = self.dice.pick(&waits);
            return self.cancel(client, number);
        }
        let ids: Vec<_> = (0..self.dice.below(5)).map(|_| id(self.dice.below(IDS))).collect();
        let count = self.dice.below(ids.len() as u64 + 1) as u32;
        let timeout_ms = self.dice.pick(&[None, Some(0), Some(50), Some(u64::MAX)]);
        let beyond_end = self.dice.percent(30);
        let asked = self.request(client, Request::Wait { ids, count, timeout_ms, beyond_end });
        if self.actor(client).asked.contains_key(&asked) {
            self.actor(client).waits.insert(asked);
        }
    }

    pub(super) fn cancel(&mut self, client: ClientNo, number: u64) {
        self.world.ask(client, Request::Cancel { request: number });
        self.learn();
        assert!(!self.actor(client).asked.contains_key(&number), "a cancelled wait is answered");
    }

    fn question(&mut self, client: ClientNo) {
        let ids = vec![id(self.dice.below(IDS)); 2];
        let filter = Filter { namespace: None, prefix: Some("1".to_owned()) };
        let cursor = self.dice.pick(&[0, 1, 1 << 20, 1 << 62, 2 << 62, 3 << 62, u64::MAX]);
        let limit = self.dice.below(200) as u32;
        for request in [
            Request::States { ids: ids.clone() },
            Request::Touch { ids: ids.clone() },
            Request::Demote { ids: ids.clone() },
            Request::Stat { id: ids[0] },
            Request::List { filter, cursor, limit },
            Request::Quota { bytes: 0 },
            Request::Share { bytes: 5000 },
            Request::Status,
        ] {
            self.world.ask(client, request);
        }
    }

    /// The names of [`Self::sizes`] are in this namespace.
    fn adopt(&mut self, client: ClientNo) {
        let bytes_max = self.dice.pick(&[0, 0, 1000, 20_000]);
        let foreign =
            self.world.store.sessions.adoptions.iter().any(|(_, it)| it.parent() != client);
        let request = Request::Adopt { namespace: "n".to_owned(), bytes_max };
        match self.world.ask(client, request) {
            Reply::Done => assert!(!foreign, "it has a parent"),
            Reply::Failed(failure) => {
                assert_eq!((failure.code, foreign), (Code::Exists, true));
            }
            other => panic!("{other:?} is no answer to an adoption"),
        }
    }

    fn evict(&mut self, client: ClientNo) {
        let bytes = self.dice.pick(&[0, 1, 5000, u64::MAX]);
        let (evicted, objects) = self.world.evict(client, bytes);
        if self.world.store.spills_cache() {
            return;
        }
        let from = self.seen;
        let reported = self.world.effects[from..].iter().filter_map(|effect| match effect {
            Effect::Notify(_, notice) if notice.state == ObjectState::Evicted => {
                Some(notice.data_bytes + notice.metadata_bytes)
            }
            _ => None,
        });
        let (sum, count) = reported.fold((0, 0), |(sum, count), bytes| (sum + bytes, count + 1));
        assert_eq!((evicted, objects), (sum, count));
    }

    fn pass(&mut self) {
        let ms = self.dice.pick(&[0, 1, 20, 60, 500]);
        self.world.pass(ms);
        // One event looks through the ledgers once, so what is due may take as many as there are
        // reasons to look.
        for _ in 0..4 {
            self.world.event(crate::Event::Tick);
        }
        let due = self.world.store.next_deadline();
        assert!(due.is_none_or(|at_ms| at_ms > self.world.now_ms), "time was not used");
    }

    fn settle_some(&mut self) {
        for _ in 0..self.dice.below(4) + 1 {
            if !self.world.open.is_empty() {
                let done = self.dice.percent(90);
                self.settle(done);
            }
        }
    }

    fn nonsense(&mut self, client: ClientNo) {
        let far = Range {
            extent: plasmon_proto::extent::ExtentId(self.dice.word()),
            offset: self.dice.word(),
            bytes: self.dice.word(),
        };
        assert_eq!(self.world.submit(client, Submission::LeaseReturn(far)), Err(Code::BadRequest));
        self.world.event(Event::Touched(self.dice.word() as u32));
        self.world.event(Event::Touched(self.dice.below(100) as u32));
        let failure = self.world.ask_for_failure(client, Request::Sync);
        assert_eq!(failure.code, Code::BadRequest);
    }

    /// Sends a request whose answer may come later.
    pub(super) fn request(&mut self, client: ClientNo, request: Request) -> u64 {
        self.next_number += 1;
        let number = (1 << 32) + self.next_number;
        self.actor(client).asked.insert(number, request.clone());
        self.world.event(Event::Request(client, number, request));
        self.learn();
        number
    }

    pub(super) fn begin(&mut self, number: u64, client: ClientNo) {
        let creator = Some(client);
        self.objects.insert(
            number,
            ModelObject {
                state: ObjectState::Creating,
                creator,
                cache: false,
                owned: false,
                attributes: Attributes::default(),
                sealed_ms: 0,
            },
        );
    }
}

/// The units of 64 bytes in a range.
pub(super) fn units(
    range: &Range,
) -> impl Iterator<Item = (plasmon_proto::extent::ExtentId, u64)> + use<> {
    let Range { extent, offset, bytes } = *range;
    (offset / 64..(offset + aligned(bytes)) / 64).map(move |unit| (extent, unit))
}
