//! The expectations of the model, and what it learns from the store's effects.

use std::collections::BTreeMap;

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::{Filter, Reply, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::ring::Completion;
use plasmon_proto::{Attributes, Code, ObjectId, ObjectState, Policy};

use super::actor::units;
use super::durable::is_of_log;
use super::{Actor, IDS, Model, ModelObject, OBSERVER, id};
use crate::construction::Stage;
use crate::effect::Effect;
use crate::event::{ClientNo, Event, Peer};
use crate::memory::{Extent, Kind};

impl Model {
    /// Subscribes a client to everything.
    pub(super) fn watch(&mut self) {
        let access = plasmon_proto::message::Access::ReadWrite;
        let peer = Peer { pid: 1, uid: 1, name: String::new(), access, channel: false, session: 1 };
        self.world.event(Event::Connect(OBSERVER, peer));
        let filter = Filter::default();
        assert_eq!(self.world.ask(OBSERVER, Request::Subscribe { filter }), Reply::Done);
    }

    pub(super) fn actor(&mut self, client: ClientNo) -> &mut Actor {
        self.actors.get_mut(&client).expect("a connected client")
    }

    fn state(&self, number: u64) -> ObjectState {
        self.objects.get(&number).map_or(ObjectState::Absent, |known| known.state)
    }

    pub(super) fn is_readable(&self, number: u64) -> bool {
        self.state(number).is_readable()
    }

    pub(super) fn is_corrupt(&self, number: u64) -> bool {
        self.state(number) == ObjectState::Corrupt
            && self.world.store.objects.tier.get(&id(number)).is_some()
    }

    pub(super) fn is_free(&self, number: u64) -> bool {
        self.state(number) != ObjectState::Creating
            && !self.is_readable(number)
            && !self.is_corrupt(number)
    }

    /// Whether an object of this id can be begun.
    pub(super) fn is_available(&self, number: u64) -> bool {
        self.is_free(number) && !self.world.store.objects.durable.is_replacing(&id(number))
    }

    pub(super) fn members_are_there(&self, attributes: &Attributes) -> bool {
        let replacing = |member| self.world.store.objects.durable.is_replacing(member);
        let there = |member| self.is_readable(number_of(member)) && !replacing(member);
        attributes.members.iter().all(there)
    }

    pub(super) fn expect_put(
        &mut self,
        client: ClientNo,
        number: u64,
        range: Range,
        sizes: Sizes,
        attributes: Option<&Attributes>,
    ) -> Result<(), Code> {
        let placed = self.world.store.objects.find(&id(number));
        if placed.is_some_and(|entry| entry.range == range && entry.meta.sizes == sizes) {
            return Ok(());
        }
        let creating = self.world.store.objects.pending_objects.get(&id(number)).cloned();
        let own = creating.as_ref().is_some_and(|it| it.client == client);
        let has_memory = creating.as_ref().is_some_and(|it| {
            let plain = !it.strict && it.growing.is_none();
            own && it.stage == Stage::Writing(range) && it.sizes == sizes && plain
        });
        if !has_memory {
            let actor = self.actor(client);
            let units: Vec<_> = units(&range).collect();
            if !units.iter().all(|unit| actor.leased.contains(unit)) {
                return Err(Code::BadRequest);
            }
            for unit in &units {
                actor.leased.remove(unit);
            }
        }
        let announced = own && creating.is_some_and(|it| it.stage == Stage::Announced);
        if !self.is_available(number) && !announced && !has_memory {
            return Err(Code::Exists);
        }
        let outcome = match attributes {
            None => Err(Code::BadRequest),
            Some(attributes) if attributes.durable => Err(Code::Unsupported),
            Some(attributes) if self.members_are_there(attributes) => {
                self.world.store.sessions.check_name(&id(number), attributes, &sizes)
            }
            Some(_) => Err(Code::Absent),
        };
        if outcome.is_err() && !self.is_free(number) {
            self.forget_creating(number);
        }
        outcome
    }

    pub(super) fn expect_seal(
        &self,
        client: ClientNo,
        number: u64,
        target: u64,
        attributes: Option<&Attributes>,
    ) -> Result<(), Code> {
        if let Some(attributes) = attributes.filter(|it| it.durable) {
            self.expect_durable(number, attributes)?;
        }
        if self.is_free(number) {
            return Err(Code::Absent);
        }
        let Some(creating) = self.world.store.objects.pending_objects.get(&id(number)) else {
            return Err(Code::AlreadySealed);
        };
        match (&creating.stage, attributes) {
            _ if !self.world.store.sessions.is_creator(client, creating) => Err(Code::NotOwner),
            (Stage::Hardening { .. } | Stage::Logging { .. }, _) => Err(Code::AlreadySealed),
            _ if creating.growing.is_some() => Err(Code::BadRequest),
            (Stage::Announced | Stage::Placing, _) | (_, None) => Err(Code::BadRequest),
            (_, Some(attributes)) if !self.members_are_there(attributes) => Err(Code::Absent),
            (_, Some(attributes)) => {
                self.expect_replaced(number, target, attributes)?;
                let sessions = &self.world.store.sessions;
                sessions.check_name(&id(target), attributes, &creating.sizes)
            }
        }
    }

    pub(super) fn expect_replaced(
        &self,
        number: u64,
        target: u64,
        attributes: &Attributes,
    ) -> Result<(), Code> {
        match self.state(target) {
            _ if number == target => Ok(()),
            _ if attributes.members.contains(&id(target)) => Err(Code::BadRequest),
            ObjectState::Creating => Err(Code::Exists),
            _ if self.world.store.objects.durable.is_replacing(&id(target)) => Err(Code::Exists),
            _ if self.holders(target) > 0 => Err(Code::InUse),
            _ => Ok(()),
        }
    }

    pub(super) fn expect_delete(&self, client: ClientNo, number: u64) -> Result<(), Code> {
        match self.objects.get(&number) {
            Some(_) if self.is_logging(number) => Err(Code::NotSealed),
            Some(known) if known.state == ObjectState::Creating => {
                if known.creator == Some(client) { Ok(()) } else { Err(Code::NotOwner) }
            }
            _ if self.is_free(number) => Err(Code::Absent),
            _ if self.holders(number) > 0 => Err(Code::InUse),
            _ => Ok(()),
        }
    }

    fn holders(&self, number: u64) -> u32 {
        let store = &self.world.store;
        match store.objects.find(&id(number)) {
            Some(entry) => store.objects.holders(entry.record),
            None => store.objects.tier.get(&id(number)).map_or(0, |spilled| spilled.extras.holders),
        }
    }

    /// An object under construction is given up.
    pub(super) fn forget_creating(&mut self, number: u64) {
        if let Some(known) = self.objects.remove(&number)
            && let Some(actor) = known.creator.and_then(|creator| self.actors.get_mut(&creator))
        {
            actor.writing.remove(&number);
        }
    }

    pub(super) fn sealed(&mut self, number: u64, traits: Traits, attributes: Attributes) {
        self.forget_creating(number);
        self.objects.insert(
            number,
            ModelObject {
                state: ObjectState::Sealed,
                creator: None,
                cache: traits.policy == Policy::Cache,
                owned: traits.owned,
                attributes,
                sealed_ms: self.world.now_ms,
            },
        );
    }

    /// Answers one request of the store.
    pub(super) fn settle(&mut self, done: bool) {
        let chosen = self.dice.below(self.world.open.len() as u64) as usize;
        let at = self.first_of_its_kind(chosen);
        let (ticket, effect) = self.world.open[at].clone();
        if matches!(effect, Effect::Log(..) | Effect::Unlog(..)) {
            return self.settle_log(at, ticket, &effect, done);
        }
        let hardened = match &effect {
            Effect::Harden(_, extent) | Effect::Settle { extent, .. } => self.hardening(*extent),
            _ => None,
        };
        let restored_before = self.world.store.totals.restored;
        self.world.settle_at(at, done);
        match effect {
            Effect::Restore(_, object, ..) | Effect::ReadLog(_, object, ..) => {
                let number = number_of(&object);
                // It may have been spilled again in the same step, because its file was kept.
                let is_back = self.world.store.totals.restored > restored_before;
                let corrupt =
                    self.world.store.objects.tier.get(&object).is_some_and(|it| it.corrupt);
                let waited = self.state(number) == ObjectState::Spilled;
                if waited && done && is_back {
                    self.objects.get_mut(&number).expect("it is known").state = ObjectState::Sealed;
                } else if waited && !done && corrupt {
                    self.objects.get_mut(&number).expect("it is known").state =
                        ObjectState::Corrupt;
                }
            }
            Effect::Harden(..) | Effect::Settle { .. } => {
                // It may have been evicted again in the same step, for a blocked request.
                let was_sealed = |number| {
                    self.world.effects[self.seen..].iter().any(|effect| {
                        let Effect::Notify(_, notice) = effect else { return false };
                        (notice.id, notice.state) == (id(number), ObjectState::Sealed)
                    })
                };
                if let Some((number, target, traits, attributes)) = hardened
                    && done
                    && was_sealed(target)
                {
                    assert!(self.members_are_there(&attributes));
                    self.forget_creating(number);
                    self.sealed(target, traits, attributes);
                }
            }
            _ => {}
        }
        self.learn();
    }

    /// Work on an extent that grows is done in the order in which it was asked for, and so is all
    /// work of the log.
    fn first_of_its_kind(&self, chosen: usize) -> usize {
        if is_of_log(&self.world.open[chosen].1) {
            let first = self.world.open.iter().position(|(_, effect)| is_of_log(effect));
            return first.unwrap_or(chosen);
        }
        let extent_of = |effect: &Effect| match effect {
            Effect::Extend { range, .. } => Some(range.extent),
            Effect::Settle { extent, .. } => Some(*extent),
            _ => None,
        };
        let Some(extent) = extent_of(&self.world.open[chosen].1) else { return chosen };
        let same = |(_, effect): &(_, Effect)| extent_of(effect) == Some(extent);
        self.world.open.iter().position(same).unwrap_or(chosen)
    }

    /// The object that the kernel is asked about, and what it is sealed as.
    fn hardening(&self, extent: ExtentId) -> Option<(u64, u64, Traits, Attributes)> {
        self.world.store.objects.pending_objects.from(0).find_map(|(object, creating)| {
            match &creating.stage {
                Stage::Hardening { range, target, attributes, .. } if range.extent == extent => {
                    let (number, target) = (number_of(object), number_of(target));
                    Some((number, target, creating.traits, (**attributes).clone()))
                }
                _ => None,
            }
        })
    }

    /// Looks at the effects since the last time.
    pub(super) fn learn(&mut self) {
        let effects = self.world.effects.split_off(self.seen);
        let lasts: BTreeMap<ObjectId, usize> = effects
            .iter()
            .enumerate()
            .filter_map(|(at, effect)| match effect {
                Effect::Notify(_, notice) if notice.state == ObjectState::Sealed => {
                    Some((notice.id, at))
                }
                _ => None,
            })
            .collect();
        for (at, effect) in effects.into_iter().enumerate() {
            match &effect {
                Effect::Reply(client, number, reply) => self.answered(*client, *number, reply),
                Effect::Lease(client, number, granted) => {
                    self.granted(*client, granted.range);
                    self.answered(*client, *number, &Reply::Lease(*granted));
                }
                Effect::Created(client, number, granted) => {
                    let found =
                        self.world.store.objects.pending_objects.from(0).find(|(object, _)| {
                            let placed = self.world.store.creating(*client, object);
                            placed.is_some_and(|(range, _)| range == granted.range)
                        });
                    if let Some(number) = found.map(|(object, _)| number_of(object)) {
                        self.actor(*client).writing.insert(number, granted.range);
                    }
                    self.answered(*client, *number, &Reply::Created(*granted));
                }
                Effect::Opened(client, number, _, file) => {
                    self.answered(*client, *number, &Reply::SpillFile(*file));
                }
                Effect::Complete(client, completion) => self.completed(*client, completion),
                // An object that was replaced: the new one is known already.
                Effect::Notify(_, notice)
                    if notice.state == ObjectState::Deleted
                        && lasts.get(&notice.id).is_some_and(|sealed| at < *sealed) => {}
                Effect::Notify(_, notice) => self.noticed(&notice.id, notice.state),
                // Whose extent grows is not written down: no successor finds it.
                Effect::Writer(extent, Some(_)) if self.grows(*extent) => {}
                Effect::Lent(range) => drop(self.lents.insert(range.extent, *range)),
                Effect::Writer(extent, Some(client)) => {
                    self.writers.insert(*extent, *client);
                }
                Effect::Writer(extent, None) | Effect::Drop(extent) => {
                    self.writers.remove(extent);
                }
                Effect::Expel(client, why) => panic!("{client:?} was expelled: {why}"),
                _ => {}
            }
            self.world.effects.push(effect);
        }
        self.seen = self.world.effects.len();
    }

    fn grows(&self, extent: ExtentId) -> bool {
        let grows = |it: &Extent| it.id == extent && it.kind == Kind::Growing;
        self.world.store.space.memory.iter().any(grows)
    }

    fn answered(&mut self, client: ClientNo, number: u64, reply: &Reply) {
        self.delete_answered(client, number, reply);
        let Some(actor) = self.actors.get_mut(&client) else { return };
        // Questions of the world itself have small numbers.
        if number >> 32 != 0 {
            let Some(asked) = actor.asked.remove(&number) else {
                panic!("{number} was answered twice: {reply:?}");
            };
            actor.waits.remove(&number);
            if let (Request::Grow { id, bytes: wanted }, Reply::Grown { bytes }) = (asked, reply) {
                assert!(*bytes >= wanted, "{id:?} has {bytes} of {wanted} bytes");
                if let Some(range) = actor.writing.get_mut(&number_of(&id)) {
                    range.bytes = range.bytes.max(*bytes);
                }
            }
        }
        if let Reply::Located(found) = reply {
            actor.located.extend(found.iter().flatten().map(|location| location.serial));
        }
        if let Reply::Failed(failure) = reply
            && let Some(object) = failure.id
        {
            let number = number_of(&object);
            let gone = self.world.store.objects.pending_objects.get(&object).is_none();
            if gone && self.state(number) == ObjectState::Creating {
                // Its memory could not be had after all.
                self.forget_creating(number);
            }
        }
    }

    fn granted(&mut self, client: ClientNo, range: Range) {
        for (other, actor) in &mut self.actors {
            let taken = units(&range).any(|unit| actor.leased.contains(&unit));
            assert!(!taken, "{other:?} has a part of {range:?}");
        }
        self.actor(client).leased.extend(units(&range));
    }

    fn completed(&mut self, client: ClientNo, completion: &Completion) {
        match completion {
            Completion::Lease { position, range } => {
                self.granted(client, *range);
                assert!(self.actor(client).leases_wanted.remove(position));
            }
            Completion::Refused { position, .. } => {
                if let Some(actor) = self.actors.get_mut(&client) {
                    actor.leases_wanted.remove(position);
                }
            }
            Completion::ExtentGone(_) => panic!("the daemon's own"),
        }
    }

    fn noticed(&mut self, object: &ObjectId, state: ObjectState) {
        let number = number_of(object);
        if number >= IDS || state == ObjectState::Sealed {
            return;
        }
        let now_ms = self.world.now_ms;
        let Some(known) = self.objects.get_mut(&number) else {
            panic!("object {number} is {state:?} and was never known");
        };
        let ttl_ms = known.attributes.ttl_ms;
        let evictable =
            known.cache && !known.attributes.durable && !self.world.store.spills_cache();
        match state {
            ObjectState::Evicted => {
                assert!(evictable && known.state == ObjectState::Sealed, "{number}: {known:?}");
            }
            ObjectState::Spilled => {
                assert!(!evictable && known.state == ObjectState::Sealed, "{number}: {known:?}");
            }
            ObjectState::Deleted => {
                let expired = ttl_ms.is_some_and(|ttl_ms| known.sealed_ms + ttl_ms <= now_ms);
                let may_go = expired || known.owned || known.state != ObjectState::Absent;
                assert!(may_go, "{number}: {known:?}");
            }
            other => panic!("no notice tells of {other:?}"),
        }
        known.state = state;
    }
}

/// The number of an id.
pub(super) fn number_of(object: &ObjectId) -> u64 {
    let bytes = object.as_bytes();
    u64::from_le_bytes(std::array::from_fn(|at| bytes[at]))
}
