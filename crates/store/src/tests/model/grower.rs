//! Random clients that make objects whose size they do not know yet.

use plasmon_proto::extent::Range;
use plasmon_proto::limits::OBJECT_BYTES_MAX;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::Sizes;
use plasmon_proto::ring::{self, Submission};
use plasmon_proto::{Attributes, Code};

use super::{IDS, Model, id};
use crate::construction::Stage;
use crate::event::ClientNo;

impl Model {
    /// One step of a client that builds something: begins it, lets it grow, seals it, or tries to
    /// pass it off as an object that was put.
    pub(super) fn grow_something(&mut self, client: ClientNo) {
        match self.dice.below(10) {
            0..3 => self.begin_growing(client),
            3..7 => self.grow(client),
            7..9 => self.seal_grown(client),
            _ => self.put_what_grows(client),
        }
    }

    /// How much memory: mostly some, at times none, all that there is, or more.
    fn bytes(&mut self) -> u64 {
        let capacity = self.world.store.config.capacity_bytes;
        match self.dice.below(12) {
            0 => self.dice.pick(&[0, 1, capacity, capacity + 1, 1 << 63, u64::MAX]),
            1..4 => self.dice.below(capacity),
            _ => self.dice.below(capacity / 8),
        }
    }

    /// Mostly an object that grows and is this client's, at times any.
    fn growing(&mut self, client: ClientNo) -> u64 {
        let store = &self.world.store;
        let grows = |number: &u64| {
            let creating = store.objects.pending_objects.get(&id(*number));
            creating.is_some_and(|it| it.client == client && it.growing.is_some())
        };
        let own: Vec<u64> = (0..IDS).filter(grows).collect();
        let any = own.is_empty() || self.dice.percent(10);
        if any { self.dice.below(IDS) } else { self.dice.pick(&own) }
    }

    fn failure(&self, client: ClientNo, asked: u64) -> Option<Code> {
        match self.world.answer_to(client, asked) {
            Some(Reply::Failed(failure)) => Some(failure.code),
            _ => None,
        }
    }

    fn is_too_large(&self, bytes: u64) -> bool {
        self.world.store.space.memory.pages(bytes.max(1))
            > self.world.store.space.memory.capacity_bytes().min(OBJECT_BYTES_MAX)
    }

    fn begin_growing(&mut self, client: ClientNo) {
        let number = self.dice.below(IDS);
        let (bytes, traits) = (self.bytes(), self.traits());
        let free = self.is_available(number);
        let open_ended = self.dice.percent(50);
        let request = Request::CreateGrowing { id: id(number), traits, bytes, open_ended };
        let asked = self.request(client, request);
        match self.failure(client, asked) {
            _ if self.is_too_large(bytes) => {
                assert_eq!(self.failure(client, asked), Some(Code::TooLarge));
            }
            Some(Code::QuotaExceeded) => {}
            refused if !free => assert_eq!(refused, Some(Code::Exists)),
            Some(code) => {
                assert_eq!(code, Code::StoreFull, "object {number} of {bytes} bytes");
                // It was being created for a moment, which ends what was told of an earlier one.
                self.objects.remove(&number);
            }
            None => self.begin(number, client),
        }
    }

    /// What a step on an object that grows must be answered with, if not with success.
    fn expect_growing(&self, client: ClientNo, number: u64) -> Result<Range, Code> {
        if self.is_free(number) {
            return Err(Code::Absent);
        }
        let Some(creating) = self.world.store.objects.pending_objects.get(&id(number)) else {
            return Err(Code::AlreadySealed);
        };
        match (&creating.stage, creating.growing) {
            _ if !self.world.store.sessions.is_creator(client, creating) => Err(Code::NotOwner),
            (Stage::Hardening { .. } | Stage::Logging { .. }, _) => Err(Code::AlreadySealed),
            (Stage::Writing(range), Some(_)) => Ok(*range),
            _ => Err(Code::BadRequest),
        }
    }

    fn grow(&mut self, client: ClientNo) {
        let number = self.growing(client);
        let bytes = self.bytes();
        let expected = self.expect_growing(client, number);
        let creating = self.world.store.objects.pending_objects.get(&id(number));
        let coming = creating.and_then(|it| it.growing).map_or(0, |it| it.coming_bytes);
        let asked = self.request(client, Request::Grow { id: id(number), bytes });
        let found = self.failure(client, asked);
        match expected {
            Err(code) => assert_eq!(found, Some(code), "growth of object {number}"),
            Ok(range) if bytes <= range.bytes => assert_eq!(found, None),
            Ok(_) if coming > 0 => assert_eq!(found, Some(Code::LimitReached)),
            Ok(_) if self.is_too_large(bytes) => assert_eq!(found, Some(Code::TooLarge)),
            Ok(range) => {
                assert!(matches!(found, None | Some(Code::StoreFull | Code::QuotaExceeded)));
                if found.is_some() {
                    // It is as long as it was.
                    let now = self.expect_growing(client, number);
                    assert_eq!(now, Ok(range), "growth of object {number}");
                }
            }
        }
    }

    fn seal_grown(&mut self, client: ClientNo) {
        let number = self.growing(client);
        let expected = self.expect_growing(client, number);
        let room = expected.map_or(0, |range| range.bytes);
        let data = self.dice.below(room + 1) + if self.dice.percent(10) { room + 1 } else { 0 };
        let asked = self.request(client, Request::SealGrown { id: id(number), data });
        let found = self.failure(client, asked);
        match expected {
            Err(code) => assert_eq!(found, Some(code), "seal of object {number}"),
            Ok(range) if data > range.bytes => assert_eq!(found, Some(Code::BadRequest)),
            // What is to become of it is known when its extent has its size.
            Ok(_) => assert_eq!(found, None),
        }
    }

    /// A client that submits the memory of what it lets grow as an object that is complete. Its
    /// extent would have no fixed size, and a reader that trusted it could be killed.
    fn put_what_grows(&mut self, client: ClientNo) {
        let number = self.growing(client);
        let Ok(range) = self.expect_growing(client, number) else { return };
        let sizes = Sizes { data: range.bytes, ..Sizes::default() };
        let traits = self.traits();
        let placement = range.placement();
        let put = Submission::Put(ring::Put { id: id(number), placement, sizes, traits });
        let found = self.world.submit_with(client, put, Some(Attributes::default()));
        assert_eq!(found, Err(Code::BadRequest), "object {number} is not complete");
        assert_eq!(self.expect_growing(client, number), Ok(range), "it is as it was");
    }
}
