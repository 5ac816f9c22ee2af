//! Durable objects in the model: the log is the truth about them.
//!
//! What the store shows is in the log, with the same attributes; what was acknowledged as deleted
//! is not; and a daemon that is killed leaves what the log has, whatever it was about to say.

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::{Attributes, Code, ObjectId, ObjectState, Policy};

use super::rules::number_of;
use super::{IDS, Model, ModelObject, id};
use crate::construction::Stage;
use crate::effect::{Effect, SpillOrder};
use crate::event::{ClientNo, Lsn, Ticket};

/// A delete that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingDelete {
    number: u64,
    /// The record that the object had, if it was durable.
    lsn: Option<Lsn>,
    expected: Option<Code>,
}

/// Whether the log does this.
pub(super) fn is_of_log(effect: &Effect) -> bool {
    matches!(effect, Effect::Log(..) | Effect::Unlog(..) | Effect::ReadLog(..))
}

impl Model {
    /// Whether an object is on its way to the log.
    pub(super) fn is_logging(&self, number: u64) -> bool {
        let creating = self.world.store.objects.pending_objects.get(&id(number));
        creating.is_some_and(|creating| creating.is_logging())
    }

    /// What a durable object must be to be sealed.
    pub(super) fn expect_durable(&self, number: u64, attributes: &Attributes) -> Result<(), Code> {
        let creating = self.world.store.objects.pending_objects.get(&id(number));
        self.expect_durable_as(creating.is_some_and(|it| it.traits.owned), attributes)
    }

    /// The same for an object that is owned, or is not.
    pub(super) fn expect_durable_as(
        &self,
        owned: bool,
        attributes: &Attributes,
    ) -> Result<(), Code> {
        let durable = |member: &ObjectId| {
            let known = self.objects.get(&number_of(member));
            known.is_some_and(|known| {
                let is_there = known.state.is_readable() || known.state == ObjectState::Corrupt;
                is_there && known.attributes.durable
            })
        };
        let may_be =
            self.world.store.config.durable && !owned && attributes.members.iter().all(durable);
        if may_be { Ok(()) } else { Err(Code::Unsupported) }
    }

    /// What a client that goes had sealed goes on, without it.
    pub(super) fn orphan_logging(&mut self, client: ClientNo) {
        for number in (0..IDS).filter(|number| self.is_logging(*number)).collect::<Vec<_>>() {
            let known = self.objects.get_mut(&number).expect("it is being created");
            if known.creator == Some(client) {
                known.creator = None;
            }
        }
    }

    /// Deletes by a request, which is answered when the log has it.
    pub(super) fn delete_and_wait(
        &mut self,
        client: ClientNo,
        number: u64,
        expected: Result<(), Code>,
        creating: bool,
    ) {
        let object = id(number);
        let store = &self.world.store;
        let is_durable = store.objects.is_id_durable(&object);
        let lsn = self.world.log.get(&object).map(|(lsn, _)| *lsn).filter(|_| is_durable);
        let was_dying = store.objects.durable.is_dying(&object);
        let delete = PendingDelete { number, lsn, expected: expected.err() };
        self.next_number += 1;
        let asked = (1 << 32) + self.next_number;
        let request = Request::Delete { ids: vec![object] };
        self.actor(client).asked.insert(asked, request.clone());
        self.deletes.insert((client, asked), delete);
        self.world.event(crate::Event::Request(client, asked, request));
        self.learn();
        let waits = self.actor(client).asked.contains_key(&asked);
        assert_eq!(waits, was_dying || lsn.is_some() && expected.is_ok(), "object {number}");
        if expected.is_ok() && creating {
            self.forget_creating(number);
        }
    }

    /// A delete was answered: what it was about is dead, whatever happens now.
    pub(super) fn delete_answered(&mut self, client: ClientNo, asked: u64, reply: &Reply) {
        let Some(delete) = self.deletes.remove(&(client, asked)) else { return };
        let PendingDelete { number, lsn, expected } = delete;
        let Reply::Outcomes(outcomes) = reply else { panic!("{reply:?} is no answer to a delete") };
        assert!(outcomes[0] == expected || outcomes[0] == Some(Code::StoreFull), "{outcomes:?}");
        if let Some(lsn) = lsn.filter(|_| outcomes[0].is_none()) {
            assert!(!self.world.log.has(&id(number), lsn), "object {number} is not dead");
        }
    }

    /// The log does something, or says that it has no room.
    pub(super) fn settle_log(&mut self, at: usize, ticket: Ticket, effect: &Effect, done: bool) {
        let Effect::Log(_, order) = effect else {
            // One that fails leaves a record that no store knows of any more.
            self.world.settle_at(at, true);
            return self.learn();
        };
        let object = self.world.store.objects.durable.logging(ticket);
        let object = object.expect("a seal that was taken goes on");
        let number = number_of(&object);
        let creating = self.world.store.objects.pending_objects.get(&object).cloned();
        let creating = creating.expect("it is being created");
        let is_orphan = self.world.store.sessions.clients.of_session(creating.owner).is_none();
        assert!(matches!(creating.stage, Stage::Logging { .. }));
        self.world.settle_at(at, done);
        self.forget_creating(number);
        if done {
            self.logged(order);
        } else if is_orphan {
            let known = ended(ObjectState::CreatorDied);
            self.objects.insert(number, known);
        }
        self.learn();
    }

    /// An object is durable, and is seen from now on.
    fn logged(&mut self, order: &SpillOrder) {
        let number = number_of(&order.id);
        self.forget_creating(number);
        self.objects.insert(number, known(order, ObjectState::Sealed));
    }

    /// What clients see of durable objects is in the log.
    pub(super) fn check_log(&self) {
        for (number, known) in self.objects.iter().filter(|(_, known)| known.attributes.durable) {
            let is_there = known.state.is_readable() || known.state == ObjectState::Corrupt;
            if !is_there {
                continue;
            }
            let (_, order) =
                self.world.log.get(&id(*number)).expect("an acknowledged object is in the log");
            assert_eq!(order.attributes, known.attributes, "object {number}");
        }
    }

    /// The daemon is killed: the log has done some of its work by then, in order.
    pub(super) fn lose_power_of_daemon(&mut self) {
        let open: Vec<Effect> =
            self.world.open.iter().map(|(_, effect)| effect.clone()).filter(is_of_log).collect();
        let done = self.dice.below(open.len() as u64 + 1) as usize;
        for effect in &open[..done] {
            match effect {
                Effect::Log(_, order) => drop(self.world.log.put(order)),
                Effect::Unlog(_, id, lsn) => self.world.log.dead(id, *lsn),
                _ => {}
            }
        }
        self.deletes.clear();
    }

    /// The next daemon shows what the log has: also what was on its way into it, and what was
    /// deleted and not acknowledged.
    pub(super) fn expect_logged(&mut self) {
        for (object, (_, order)) in self.world.log.iter() {
            let number = number_of(object);
            if !self.world.store.objects.is_id_durable(object) {
                // Another object has its id, and its record is to end.
                continue;
            }
            let is_in_memory = self.world.store.objects.find(object).is_some();
            let state = if is_in_memory { ObjectState::Sealed } else { ObjectState::Spilled };
            let is_known = self.objects.get(&number).is_some_and(|found| {
                found.state.is_readable() && found.attributes == order.attributes
            });
            if !is_known || !is_in_memory {
                self.objects.insert(number, known(order, state));
            }
        }
    }
}

fn known(order: &SpillOrder, state: ObjectState) -> ModelObject {
    ModelObject {
        state,
        creator: None,
        cache: order.meta.traits.policy == Policy::Cache,
        owned: order.meta.traits.owned,
        attributes: order.attributes.clone(),
        sealed_ms: order.meta.sealed_ms(),
    }
}

fn ended(state: ObjectState) -> ModelObject {
    ModelObject {
        state,
        creator: None,
        cache: false,
        owned: false,
        attributes: Attributes::default(),
        sealed_ms: 0,
    }
}
