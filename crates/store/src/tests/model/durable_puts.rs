//! Random puts of durable objects by one request.

use plasmon_proto::extent::Range;
use plasmon_proto::message::{Failure, Reply, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::{Attributes, Code, ObjectState, ring};

use super::actor::units;
use super::{IDS, Model, id};
use crate::construction::Stage;
use crate::event::{ClientNo, Event};

/// A put, and what the model has to know of it.
struct RandomPut {
    number: u64,
    target: u64,
    range: Range,
    sizes: Sizes,
    traits: Traits,
    attributes: Attributes,
}

/// What is to come of a put.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// It was done before.
    There,
    /// It is refused, and was never under construction.
    Refused(Code),
    /// It was under construction, and the log takes it or not.
    Begun(Result<(), Code>),
}

impl Model {
    pub(super) fn put_durable(&mut self, client: ClientNo) {
        let put = self.random_put(client);
        let is_readable = self.dice.percent(97);
        let expected = self.expect_put_durable(client, &put, is_readable);
        let RandomPut { number, target, range, sizes, traits, .. } = put;
        let given = match is_readable {
            true => Ok(put.attributes.clone()),
            false => Err(Failure::of(Code::BadRequest)),
        };
        self.next_number += 1;
        let asked = (1 << 32) + self.next_number;
        let placement = range.placement();
        let request =
            Request::PutDurable { id: id(number), target: id(target), placement, sizes, traits };
        self.actor(client).asked.insert(asked, request);
        let put = ring::Put { id: id(number), placement, sizes, traits };
        self.world.event(Event::PutDurable(client, asked, put, id(target), given));
        let found = self.world.answer_to(client, asked);
        match (&expected, found) {
            (Expected::There, Some(Reply::Done)) => {}
            (Expected::There, None) => {
                // It is answered when the one before it is dead.
                assert!(self.world.store.objects.durable.is_dying(&id(target)));
            }
            (Expected::Refused(code), Some(Reply::Failed(failure))) => {
                assert_eq!(failure.code, *code, "put of object {number} at {range:?}");
            }
            (Expected::Begun(Err(code)), Some(Reply::Failed(failure))) => {
                assert_eq!(failure.code, *code, "put of object {number} as {target}");
                // It was being created for a moment, which ends what was told of an earlier one.
                self.forget_creating(number);
            }
            (Expected::Begun(Ok(())), None) => {
                if self.objects.get(&number).is_none_or(|it| it.state != ObjectState::Creating) {
                    self.begin(number, client);
                }
            }
            (expected, found) => panic!("object {number} as {target}: {expected:?}, {found:?}"),
        }
        self.learn();
    }

    fn random_put(&mut self, client: ClientNo) -> RandomPut {
        let number = self.dice.below(IDS);
        let target = if self.dice.percent(30) { self.dice.below(IDS) } else { number };
        let (mut sizes, mut attributes) = self.sizes();
        attributes.durable = self.dice.percent(90);
        sizes.attributes = attributes.encode().len() as u64;
        if sizes.footprint().is_none() {
            sizes.data = 100;
        }
        let traits = self.traits();
        let footprint = sizes.footprint().expect("small sizes");
        let mut range = self.somewhere(client, footprint);
        range.bytes = footprint;
        RandomPut { number, target, range, sizes, traits, attributes }
    }

    fn expect_put_durable(
        &mut self,
        client: ClientNo,
        put: &RandomPut,
        is_readable: bool,
    ) -> Expected {
        let RandomPut { number, target, range, sizes, .. } = *put;
        let objects = &self.world.store.objects;
        let there = objects.find(&id(target)).is_some_and(|entry| {
            let is_same = entry.range == range && entry.meta.sizes == sizes;
            is_same && objects.is_durable(entry.record)
        });
        if there {
            return Expected::There;
        }
        let creating = objects.pending_objects.get(&id(number)).cloned();
        let claimed = creating.filter(|it| {
            let is_plain = !it.strict && it.growing.is_none();
            let is_own = self.world.store.sessions.is_creator(client, it);
            is_own && it.stage == Stage::Writing(range) && it.sizes == sizes && is_plain
        });
        if claimed.is_none() {
            let units: Vec<_> = units(&range).collect();
            let actor = self.actor(client);
            let is_leased = units.iter().all(|unit| actor.leased.contains(unit));
            actor.leased.retain(|unit| !is_leased || !units.contains(unit));
            if !self.is_available(number) {
                return Expected::Refused(Code::Exists);
            }
            if !is_leased {
                return Expected::Refused(Code::BadRequest);
            }
        }
        if !is_readable || !put.attributes.durable {
            return Expected::Begun(Err(Code::BadRequest));
        }
        let traits = claimed.map_or(put.traits, |it| it.traits);
        Expected::Begun(self.expect_begun(put, traits))
    }

    /// Whether the log is given it.
    fn expect_begun(&self, put: &RandomPut, traits: Traits) -> Result<(), Code> {
        let RandomPut { number, target, sizes, ref attributes, .. } = *put;
        self.expect_durable_as(traits.owned, attributes)?;
        if !self.members_are_there(attributes) {
            return Err(Code::Absent);
        }
        self.expect_replaced(number, target, attributes)?;
        self.world.store.sessions.check_name(&id(target), attributes, &sizes)
    }
}
