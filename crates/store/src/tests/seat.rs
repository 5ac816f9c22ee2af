//! The seat of the pool daemon: what it is told, and what its answers do.

mod adopting;
mod composites;
mod describing;
mod homed;
mod listing;
mod logging;
mod quotas;
mod repair;

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::{Landing, Reply, Request};
use plasmon_proto::object::{Durability, ObjectMeta, PoolAttributes, Traits};
use plasmon_proto::pool::{Birth, Call, Class, Content, Fate, Origin, Refusal, Slot, Told};
use plasmon_proto::ring::Submission;
use plasmon_proto::{Attributes, Code, Name, ObjectId, ObjectState, Policy};

use super::{Put, World, id, sizes};
use crate::event::{ClientNo, Event, RecoveredExtent, RecoveredObject, SealLanded};
use crate::ports::Entry;
use crate::{Config, Effect, Store};

mod verification;

const MIB: u64 = 1 << 20;
const HERE: Origin = Origin { slot: Slot(1), boot: 9 };
const ELSEWHERE: Origin = Origin { slot: Slot(2), boot: 8 };
/// The serials of births: one that is made here, one that is made elsewhere.
const OURS: u64 = 77;
const THEIRS: u64 = 88;

use ObjectState::{
    Absent, Corrupt, Creating, CreatorDied, Deleted, Remote, Sealed, Spilled, Unreachable,
};

fn config() -> Config {
    Config { pool: true, ..Config::new(16 * MIB) }
}

fn name(text: &str) -> Name {
    Name::new("@prod", text).unwrap()
}

fn free(text: &str) -> ObjectId {
    name(text).id()
}

fn homed(number: u8) -> ObjectId {
    ObjectId::pooled([number; 12], Some(HERE.slot.0))
}

fn attributes(text: &str, origin: Option<Origin>) -> Attributes {
    let class = Durability::Memory;
    let serial = if origin.is_some() { THEIRS } else { OURS };
    let pool =
        PoolAttributes { copies: 2, copies_min: 1, class, origin, serial, ..PoolAttributes::ONE };
    Attributes { name: Some(name(text)), pool: Some(pool), ..Attributes::default() }
}

/// A put of a name of the pool.
fn put(text: &str, data: u64) -> Put {
    Put { id: free(text), ..Put::new(0, data) }.with(attributes(text, None))
}

fn ours() -> Birth {
    Birth { slot: HERE.slot, boot: HERE.boot, serial: OURS }
}

fn theirs() -> Birth {
    Birth { slot: ELSEWHERE.slot, boot: ELSEWHERE.boot, serial: THEIRS }
}

/// What the pool is told of a named object.
fn content(text: &str, data_bytes: u64, birth: Birth) -> Content {
    content_with(data_bytes, &attributes(text, None).of_copy(birth))
}

fn content_with(data_bytes: u64, attributes: &Attributes) -> Content {
    let attributes_bytes = attributes.encode().len() as u32;
    Content { data_bytes, attributes_bytes, ..Content::default() }
}

impl World {
    /// A client takes the seat.
    fn agent(&mut self, number: u32) -> ClientNo {
        let agent = self.connect(number);
        assert_eq!(self.take_seat(agent), Some(Reply::Done));
        agent
    }

    fn take_seat(&mut self, client: ClientNo) -> Option<Reply> {
        self.next_number += 1;
        let request = 1_000_000 + self.next_number;
        self.event(Event::Agent(client, request, HERE));
        self.answer_to(client, request)
    }

    /// What the agent was told since the last look, but for when the inventory ended.
    fn calls(&mut self) -> Vec<Call> {
        let calls = self.all_calls();
        calls.into_iter().filter(|call| *call != Call::InventoryEnd).collect()
    }

    /// What the agent was told since the last look.
    fn all_calls(&mut self) -> Vec<Call> {
        let mut calls = Vec::new();
        self.effects.retain(|effect| match effect {
            Effect::Call(_, call) => {
                calls.push(*call);
                false
            }
            _ => true,
        });
        calls
    }

    fn tell(&mut self, agent: ClientNo, told: Told) {
        assert_eq!(self.ask(agent, Request::Tell { told: vec![told] }), Reply::Done);
    }

    fn vouch(&mut self, agent: ClientNo) {
        self.tell(agent, Told::Vouch { ms: 60_000 });
    }

    fn begin_landing(&mut self, agent: ClientNo, text: &str, data: u64) -> Reply {
        let attributes = attributes(text, Some(ELSEWHERE)).encode().len() as u64;
        let sizes = plasmon_proto::object::Sizes { attributes, ..sizes(data) };
        let (id, traits) = (free(text), Traits::default());
        let landing = Landing { id, birth: theirs(), sizes, traits, growing: false };
        self.ask(agent, Request::Land(landing))
    }

    fn seal_landed(&mut self, agent: ClientNo, text: &str, visible: bool, keep: bool) -> Reply {
        let landed = SealLanded { id: free(text), birth: theirs(), visible, keep };
        self.next_number += 1;
        let number = 2_000_000 + self.next_number;
        let attributes = attributes(text, Some(ELSEWHERE));
        self.event(Event::SealLanded(agent, number, landed, Some(attributes)));
        self.answer_to(agent, number).expect("an answer at once")
    }

    /// Brings a copy here.
    fn bring(&mut self, agent: ClientNo, text: &str, visible: bool, keep: bool) {
        assert!(matches!(self.begin_landing(agent, text, 10), Reply::Created(_)));
        assert_eq!(self.seal_landed(agent, text, visible, keep), Reply::Done);
    }

    /// What clients are told that the store may do with an object.
    fn policy_of(&mut self, client: ClientNo, id: ObjectId) -> Policy {
        let Reply::Info(Some(info)) = self.ask(client, Request::Stat { id }) else {
            panic!("a description");
        };
        info.traits.policy
    }

    /// Sends a seal that is answered later.
    fn send_seal(&mut self, client: ClientNo, put: &Put) -> u64 {
        self.create(client, put).unwrap();
        self.next_number += 1;
        let number = 3_000_000 + self.next_number;
        let sealing = crate::event::SealTarget { id: put.id, target: put.id };
        self.event(Event::Seal(client, number, sealing, Some(put.attributes.clone())));
        number
    }
}

fn wait(ids: &[ObjectId], timeout_ms: Option<u64>) -> Request {
    Request::Wait { ids: ids.to_vec(), count: 0, timeout_ms, beyond_end: false }
}

fn states(states: &[ObjectState]) -> Option<Reply> {
    Some(Reply::States(states.to_vec()))
}

fn delete_of(id: ObjectId, number: u64) -> Call {
    Call::Delete { id, number }
}

fn seek_of(id: ObjectId, number: u64, class: Class) -> Call {
    Call::Seek { id, number, class }
}

#[test]
fn however_many_clients_ask_one_question_is_under_way_and_a_landing_answers_all() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let (one, two) = (world.connect(2), world.connect(3));
    let x = free("x");
    let first = world.send(one, wait(&[x], None));
    let second = world.send(two, wait(&[x], None));
    assert_eq!(world.calls(), [seek_of(x, 1, Class::Wait)]);
    assert_eq!((world.answer_to(one, first), world.answer_to(two, second)), (None, None));

    world.bring(agent, "x", true, false);
    assert_eq!(world.answer_to(one, first), states(&[Sealed]));
    assert_eq!(world.answer_to(two, second), states(&[Sealed]));
    assert_eq!(world.calls(), [Call::Unseek(x)]);
    assert_eq!(world.ask(one, Request::States { ids: vec![x] }), Reply::States(vec![Sealed]));
    assert_eq!(world.calls(), []);
}

#[test]
fn a_question_after_a_call_was_sent_needs_a_later_answer() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let x = free("x");
    let first = world.send(client, wait(&[x], Some(0)));
    let second = world.send(client, Request::States { ids: vec![x] });
    assert_eq!(world.calls(), [seek_of(x, 1, Class::Get)]);
    world.tell(agent, Told::Sought { id: x, number: 1, fate: Fate::Absent });
    assert_eq!(world.answer_to(client, first), states(&[Absent]));
    assert_eq!(world.answer_to(client, second), None, "it was asked after the call was sent");
    assert_eq!(world.calls(), [seek_of(x, 2, Class::Get)]);
    world.tell(agent, Told::Sought { id: x, number: 2, fate: Fate::Deleted });
    assert_eq!(world.answer_to(client, second), states(&[Deleted]));
    assert_eq!(world.calls(), [Call::Unseek(x)]);
}

/// The copy that a delete had ended here was told as the fate of its name, when the pool did not
/// answer in time: the name had been put again on another node.
#[test]
fn a_name_whose_copy_was_deleted_here_may_have_been_put_again() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.bring(agent, "x", true, false);
    let x = free("x");
    world.tell(agent, Told::Drop { id: x, birth: theirs() });
    let asked = world.send(client, wait(&[x], Some(200)));
    world.pass(201);
    assert_eq!(world.answer_to(client, asked), states(&[Unreachable]));
}

#[test]
fn a_more_urgent_question_is_sent_at_once() {
    let mut world = World::new(config());
    let _ = world.agent(1);
    let client = world.connect(2);
    let x = free("x");
    world.send(client, wait(&[x], None));
    world.send(client, wait(&[x], Some(0)));
    assert_eq!(world.calls(), [seek_of(x, 1, Class::Wait), seek_of(x, 2, Class::Get)]);
}

#[test]
fn each_fate_is_told_as_a_state_and_never_as_absent_unless_it_is() {
    let cases = [
        (Fate::Absent, Absent, false),
        (Fate::Deleted, Deleted, true),
        (Fate::Lost, Unreachable, true),
        (Fate::Unreachable, Unreachable, true),
        (Fate::NoRoom, Remote, true),
        (Fate::Damaged, Corrupt, true),
    ];
    for (fate, state, ends_a_wait) in cases {
        let mut world = World::new(config());
        let agent = world.agent(1);
        let client = world.connect(2);
        let x = free("x");
        let asked = world.send(client, wait(&[x], Some(0)));
        let got = world.send(client, Request::Get { ids: vec![x] });
        let described = world.send(client, Request::Stat { id: x });
        let waiting = world.send(client, wait(&[x], Some(1000)));
        for _ in 0..2 {
            let number = world.store.next_question() - 1;
            world.tell(agent, Told::Sought { id: x, number, fate });
        }
        assert_eq!(world.answer_to(client, asked), states(&[state]), "{fate:?}");
        assert_eq!(world.answer_to(client, got), Some(Reply::Located(vec![Err(state)])));
        let Some(Reply::Info(info)) = world.answer_to(client, described) else {
            panic!("{fate:?}")
        };
        assert_eq!(info.map(|info| info.state), (state != Absent).then_some(state), "{fate:?}");
        let answer = world.answer_to(client, waiting);
        assert_eq!(answer.is_some(), ends_a_wait, "{fate:?}");
        world.pass(1000);
        assert_eq!(world.answer_to(client, waiting), states(&[state]), "{fate:?}");
    }
}

#[test]
fn without_an_agent_questions_end_after_ten_seconds_as_unreachable() {
    let mut world = World::new(config());
    let client = world.connect(2);
    let x = free("x");
    let asked = world.send(client, wait(&[x], Some(0)));
    let waiting = world.send(client, wait(&[x], None));
    let deleted = world.send(client, Request::Delete { ids: vec![x] });
    assert_eq!(world.store.next_deadline(), Some(world.now_ms + 10_000));
    world.pass(9_999);
    assert_eq!(world.answer_to(client, asked), None);
    world.pass(1);
    assert_eq!(world.answer_to(client, asked), states(&[Unreachable]));
    assert_eq!(world.answer_to(client, waiting), states(&[Unreachable]));
    let unreachable = Some(Reply::Outcomes(vec![Some(Code::Unreachable)]));
    assert_eq!(world.answer_to(client, deleted), unreachable);
    assert_eq!(world.store.next_deadline(), None);
}

#[test]
fn an_agent_that_comes_in_time_is_told_what_waits() {
    let mut world = World::new(config());
    let client = world.connect(2);
    let (x, y) = (free("x"), free("y"));
    let asked = world.send(client, wait(&[x], Some(0)));
    world.send(client, Request::Delete { ids: vec![y] });
    let sealing = world.send_seal(client, &put("z", 10));
    world.pass(5_000);
    let agent = world.agent(1);
    let z = free("z");
    let commit = Call::Commit {
        id: z,
        serial: OURS,
        content: content("z", 10, ours()),
        copies: 2,
        copies_min: 1,
    };
    let content = content("z", 10, ours());
    let (visible, kept, logged) = (false, true, false);
    let has = Call::Has { id: z, birth: ours(), content, visible, kept, logged };
    let seek = seek_of(x, 1, Class::Get);
    let expected = [has, commit, seek, delete_of(y, 1), Call::InventoryEnd];
    assert_eq!(world.all_calls(), expected);
    world.pass(20_000);
    assert_eq!(world.answer_to(client, asked), None, "an agent ends its questions itself");
    world.disconnect(agent);
    world.pass(10_000);
    assert_eq!(world.answer_to(client, asked), states(&[Unreachable]));
    let Some(Reply::Failed(failure)) = world.answer_to(client, sealing) else { panic!() };
    assert_eq!((failure.code, failure.id), (Code::Unreachable, Some(z)));
}

#[test]
fn a_free_id_is_seen_when_the_pool_has_accepted_it() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let (client, other) = (world.connect(2), world.connect(3));
    world.ask(other, Request::Subscribe { filter: plasmon_proto::message::Filter::default() });
    let x = free("x");
    let number = world.send_seal(client, &put("x", 10));
    let commit = Call::Commit {
        id: x,
        serial: OURS,
        content: content("x", 10, ours()),
        copies: 2,
        copies_min: 1,
    };
    assert_eq!(world.calls(), [commit]);
    let waiting = world.send(other, wait(&[x], None));
    let states_of = Request::States { ids: vec![x] };
    assert_eq!(world.ask(other, states_of), Reply::States(vec![Creating]));
    assert_eq!(world.calls(), [], "it is being made here");
    // The agent reads what others do not see.
    let Reply::Located(located) = world.ask(agent, Request::Get { ids: vec![x] }) else { panic!() };
    assert_eq!(located[0].as_ref().unwrap().sizes.data, 10);
    assert_eq!(world.answer_to(client, number), None);

    world.tell(agent, Told::Committed { id: x, serial: OURS + 1, result: Ok(()) });
    assert_eq!(world.answer_to(client, number), None, "another incarnation");
    world.tell(agent, Told::Committed { id: x, serial: OURS, result: Ok(()) });
    assert_eq!(world.answer_to(client, number), Some(Reply::Done));
    assert_eq!(world.answer_to(other, waiting), states(&[Sealed]));
    assert_eq!(world.notices(other), [(x, Sealed)]);
}

/// While etcd was away, a primary that had just got its group back found an accepted object in the
/// inventory of its origin, hidden, and had it published. The store showed it and forgot that its
/// creator waited: the answer to the commit, which came later, found nothing to answer.
#[test]
fn the_creator_of_an_object_that_is_published_before_its_commit_is_answered_is_answered() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let (client, other) = (world.connect(2), world.connect(3));
    world.ask(other, Request::Subscribe { filter: plasmon_proto::message::Filter::default() });
    let x = free("x");
    let number = world.send_seal(client, &put("x", 10));
    let another = Birth { serial: OURS + 1, ..ours() };
    world.tell(agent, Told::Publish { id: x, birth: another });
    assert_eq!(world.answer_to(client, number), None, "another incarnation");
    world.tell(agent, Told::Publish { id: x, birth: ours() });
    assert_eq!(world.answer_to(client, number), Some(Reply::Done));
    assert_eq!(world.notices(other), [(x, Sealed)]);
    world.tell(agent, Told::Committed { id: x, serial: OURS, result: Ok(()) });
    assert_eq!(world.ask(other, wait(&[x], Some(0))), Reply::States(vec![Sealed]));
}

#[test]
fn a_refused_commit_ends_the_object_and_says_why() {
    let cases = [
        (Refusal::Exists, Code::Exists),
        (Refusal::NotEnoughNodes, Code::NotEnoughNodes),
        (Refusal::StoreFull, Code::StoreFull),
        (Refusal::InUse(Slot(3)), Code::InUse),
        (Refusal::Unreachable, Code::Unreachable),
    ];
    for (refusal, code) in cases {
        let mut world = World::new(config());
        let agent = world.agent(1);
        world.vouch(agent);
        let (client, other) = (world.connect(2), world.connect(3));
        let x = free("x");
        let number = world.send_seal(client, &put("x", 10));
        let waiting = world.send(other, wait(&[x], None));
        world.calls();
        world.tell(agent, Told::Committed { id: x, serial: OURS, result: Err(refusal) });
        let Some(Reply::Failed(failure)) = world.answer_to(client, number) else { panic!() };
        assert_eq!((failure.code, failure.id), (code, Some(x)));
        // Another node may have made it: that is what the waiting client is to see.
        let ended = Call::Ended { id: x, birth: ours() };
        assert_eq!(world.calls(), [ended, seek_of(x, 2, Class::Wait)]);
        assert_eq!(world.answer_to(other, waiting), None);
        assert_eq!(world.status().used_bytes, 0, "its memory is free");
    }
}

/// A client that wanted an object at once was told that it is not sealed, though the pool had had
/// one for long: another client of the node had just sealed its own of the same name, which was
/// refused a moment later.
#[test]
fn a_client_that_wants_an_object_now_waits_for_what_becomes_of_one_that_is_being_committed() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let (client, other) = (world.connect(2), world.connect(3));
    let x = free("x");
    world.send_seal(client, &put("x", 10));
    let polling = world.send(other, wait(&[x], Some(0)));
    let getting = world.send(other, Request::Get { ids: vec![x] });
    world.calls();
    let refused = Err(Refusal::Exists);
    world.tell(agent, Told::Committed { id: x, serial: OURS, result: refused });
    assert!(world.calls().iter().any(|call| matches!(call, Call::Seek { id, .. } if *id == x)));
    assert_eq!(world.answer_to(other, polling), None);
    world.bring(agent, "x", true, false);
    assert_eq!(world.answer_to(other, polling), states(&[Sealed]));
    let Some(Reply::Located(located)) = world.answer_to(other, getting) else { panic!() };
    assert_eq!(located[0].as_ref().unwrap().sizes.data, 10);

    // One that is accepted is what it gets; without a decision it is told what there is.
    let y = free("y");
    world.send_seal(client, &put("y", 10));
    let polling = world.send(other, wait(&[y], Some(0)));
    world.tell(agent, Told::Committed { id: y, serial: OURS, result: Ok(()) });
    assert_eq!(world.answer_to(other, polling), states(&[Sealed]));
    let z = free("z");
    world.send_seal(client, &put("z", 10));
    let polling = world.send(other, wait(&[z], Some(0)));
    world.pass(9_999);
    assert_eq!(world.answer_to(other, polling), None);
    world.pass(1);
    assert_eq!(world.answer_to(other, polling), states(&[Creating]));
    // One that is only being written is not waited for: that can take any time.
    world.create(client, &put("w", 10)).unwrap();
    let polling = wait(&[free("w")], Some(0));
    assert_eq!(world.ask(other, polling), Reply::States(vec![Creating]));
}

#[test]
fn the_creator_of_an_object_that_is_dropped_before_it_is_accepted_does_not_wait_for_ever() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let number = world.send_seal(client, &put("x", 10));
    world.calls();
    world.tell(agent, Told::Drop { id: free("x"), birth: ours() });
    let Some(Reply::Failed(failure)) = world.answer_to(client, number) else { panic!() };
    assert_eq!((failure.code, failure.id), (Code::Unreachable, Some(free("x"))));
    assert_eq!(world.calls(), [Call::Ended { id: free("x"), birth: ours() }]);
}

#[test]
fn an_object_that_is_not_made_here_after_all_is_sought_elsewhere() {
    let mut world = World::new(config());
    let _ = world.agent(1);
    let (client, other) = (world.connect(2), world.connect(3));
    let x = free("x");
    world.create(client, &put("x", 10)).unwrap();
    let waiting = world.send(other, wait(&[x], None));
    assert_eq!(world.calls(), []);
    assert_eq!(world.ask(client, Request::Abort { id: x }), Reply::Done);
    assert_eq!(world.calls(), [seek_of(x, 2, Class::Wait)]);
    assert_eq!(world.answer_to(other, waiting), None);

    // That its creator died is said where it was made.
    world.create(client, &put("x", 10)).unwrap();
    world.disconnect(client);
    assert_eq!(world.answer_to(other, waiting), states(&[CreatorDied]));
}

#[test]
fn a_seal_that_is_asked_again_on_another_connection_is_answered_there() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let first = world.send_seal(client, &put("x", 10));
    world.event(Event::Part(client));
    world.event(Event::Resume(client, Vec::new(), Vec::new()));
    let sealing = crate::event::SealTarget { id: free("x"), target: free("x") };
    world.event(Event::Seal(client, 7, sealing, Some(attributes("x", None))));
    world.tell(agent, Told::Committed { id: free("x"), serial: OURS, result: Ok(()) });
    assert_eq!(world.answer_to(client, 7), Some(Reply::Done));
    assert_eq!(world.answer_to(client, first), None);
}

/// The answer to a seal was lost with its connection. When it was asked again, the object had been
/// refused and that of another node was here: the client was told that its object is sealed.
#[test]
fn a_seal_that_is_asked_again_does_not_take_an_object_of_another_node_for_its_own() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let (client, other) = (world.connect(2), world.connect(3));
    let seal_again = |world: &mut World, text: &str, number: u64| {
        let sealing = crate::event::SealTarget { id: free(text), target: free(text) };
        world.event(Event::Seal(client, number, sealing, None));
        let Some(Reply::Failed(failure)) = world.answer_to(client, number) else { panic!() };
        failure.code
    };
    let mut ends = |text: &str, result: Result<(), Refusal>| {
        world.send_seal(client, &put(text, 10));
        world.event(Event::Part(client));
        world.tell(agent, Told::Committed { id: free(text), serial: OURS, result });
        world.event(Event::Resume(client, Vec::new(), Vec::new()));
    };
    ends("x", Ok(()));
    ends("y", Err(Refusal::Exists));
    ends("z", Err(Refusal::Exists));
    assert_eq!(seal_again(&mut world, "x", 7), Code::AlreadySealed);
    assert_eq!(seal_again(&mut world, "y", 8), Code::Absent);
    world.bring(agent, "y", true, false);
    assert_eq!(seal_again(&mut world, "y", 9), Code::Absent);
    // Nor one that another client of this node made meanwhile.
    world.send_seal(other, &put("z", 10));
    world.tell(agent, Told::Committed { id: free("z"), serial: OURS, result: Ok(()) });
    assert_eq!(seal_again(&mut world, "z", 10), Code::Absent);
}

#[test]
fn an_id_with_a_home_is_seen_at_once_and_committed_afterwards() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let x = homed(7);
    world.put(client, Put { id: x, ..Put::new(0, 10) }).unwrap();
    let birth = Birth { slot: HERE.slot, boot: HERE.boot, serial: 0 };
    let content = content_with(10, &Attributes::default().of_copy(birth));
    let commit = Call::CommitKept { id: x, serial: 0, content, copies: 1, copies_min: 1 };
    assert_eq!(world.calls(), [commit]);
    assert_eq!(world.ask(client, wait(&[x], Some(0))), Reply::States(vec![Sealed]));
    // An agent that did not say how it ended is told again.
    world.disconnect(agent);
    let agent = world.agent(3);
    assert_eq!(world.calls(), [commit]);
    world.tell(agent, Told::Committed { id: x, serial: 0, result: Ok(()) });
    world.disconnect(agent);
    let agent = world.agent(4);
    let has = Call::Has { id: x, birth, content, visible: true, kept: true, logged: false };
    assert_eq!(world.calls(), [has]);

    let y = homed(8);
    world.put(client, Put { id: y, ..Put::new(0, 10) }).unwrap();
    world.calls();
    world.tell(agent, Told::Committed { id: y, serial: 0, result: Err(Refusal::StoreFull) });
    assert_eq!(world.calls(), [Call::Ended { id: y, birth }]);
}

#[test]
fn ids_with_the_mark_are_made_by_the_makers_of_the_pool_alone() {
    let mut world = World::new(config());
    let client = world.connect(2);
    let code = |world: &mut World, put: &Put| world.create(client, put).unwrap_err().code;
    let of = |id| Put { id, ..Put::new(0, 10) };
    assert_eq!(code(&mut world, &of(homed(7))), Code::Unreachable, "no node is known yet");
    let _ = world.agent(1);
    let other = ObjectId::pooled([7; 12], Some(HERE.slot.0 + 1));
    assert_eq!(code(&mut world, &of(other)), Code::BadRequest);
    assert_eq!(code(&mut world, &of(free("x"))), Code::BadRequest, "it has no name");
    assert_eq!(code(&mut world, &put("x", 10).owned()), Code::BadRequest);
    let granted = world.lease(client, 64).unwrap();
    let on_the_ring = world.put_at(client, of(free("x")), granted.range);
    assert_eq!(on_the_ring, Err(Code::Unsupported));

    let plain = attributes("x", None);
    let mut foreign = plain.clone();
    foreign.pool = attributes("x", Some(ELSEWHERE)).pool;
    let wrong = [
        (Attributes { pool: None, ..plain.clone() }, Code::BadRequest),
        (Attributes { name: Some(name("y")), ..plain.clone() }, Code::BadRequest),
        (foreign, Code::BadRequest),
        (Attributes { ttl_ms: Some(1), ..plain }, Code::Unsupported),
    ];
    for (attributes, code) in wrong {
        let put = Put { id: free("x"), ..Put::new(0, 10) }.with(attributes);
        world.create(client, &put).unwrap();
        assert_eq!(world.seal(client, &put), Err(code), "{put:?}");
        world.ask(client, Request::Abort { id: put.id });
    }
    // What is local says nothing of a pool.
    let local = Put::new(1, 10).with(Attributes { name: None, ..attributes("x", None) });
    assert_eq!(world.put(client, local), Err(Code::BadRequest));
}

#[test]
fn what_a_pool_cannot_do_is_refused() {
    let mut world = World::new(config());
    let _ = world.agent(1);
    let client = world.connect(2);
    let (x, traits) = (free("x"), Traits::default());
    let requests = [
        Request::CreateGrowing { id: x, traits, bytes: 1, open_ended: false },
        Request::Replace { id: id(1), target: x },
        Request::DeleteUnused { ids: vec![x] },
        Request::Scope { scope: 1, ids: vec![x], again: false },
    ];
    for request in requests {
        assert_eq!(world.ask_for_failure(client, request.clone()).code, Code::Unsupported);
    }
}

#[test]
fn deletes_are_the_pools_and_are_answered_together() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let (one, two) = (world.connect(2), world.connect(3));
    world.put(one, Put::new(5, 10)).unwrap();
    world.bring(agent, "x", true, false);
    world.calls();
    let (x, y) = (free("x"), free("y"));
    let first = world.send(one, Request::Delete { ids: vec![y, id(5), x, id(6)] });
    let second = world.send(two, Request::Delete { ids: vec![x] });
    let mut calls = world.calls();
    calls.sort_by_key(|call| matches!(call, Call::Delete { id, .. } if *id == y));
    assert_eq!(calls, [delete_of(x, 1), delete_of(x, 2), delete_of(y, 1)]);
    assert_eq!(world.states(&[5]), [Deleted]);

    world.tell(agent, Told::Drop { id: x, birth: theirs() });
    assert_eq!(world.calls(), [Call::Ended { id: x, birth: theirs() }]);
    world.tell(agent, Told::Deleted { id: x, number: 1 });
    assert_eq!(world.answer_to(two, second), None, "that was the answer to an earlier call");
    world.tell(agent, Told::Deleted { id: x, number: 2 });
    assert_eq!(world.answer_to(two, second), Some(Reply::Outcomes(vec![None])));
    assert_eq!(world.answer_to(one, first), None);
    world.tell(agent, Told::DeleteUnreachable { id: y, number: 1 });
    let outcomes = vec![Some(Code::Unreachable), None, None, Some(Code::Absent)];
    assert_eq!(world.answer_to(one, first), Some(Reply::Outcomes(outcomes)));
    assert_eq!(world.status().used_bytes, 0);

    world.submit(one, Submission::Delete { id: y }).unwrap();
    assert_eq!(world.calls(), [delete_of(y, 3)]);
}

/// A client deleted an object of which a copy was just arriving, or which another client of its
/// node was about to put as well, and was told that it was not the owner.
#[test]
fn what_arrives_or_is_made_by_another_client_is_deleted_by_the_pool() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let (one, two) = (world.connect(2), world.connect(3));
    let (x, y) = (free("x"), free("y"));
    assert!(matches!(world.begin_landing(agent, "x", 10), Reply::Created(_)));
    world.create(two, &put("y", 10)).unwrap();
    world.calls();
    let deleting = world.send(one, Request::Delete { ids: vec![x, y] });
    assert_eq!(world.answer_to(one, deleting), None);
    let mut calls = world.calls();
    calls.sort_by_key(|call| matches!(call, Call::Delete { id, .. } if *id == y));
    assert_eq!(calls, [delete_of(x, 1), delete_of(y, 1)]);
    world.tell(agent, Told::Deleted { id: x, number: 1 });
    world.tell(agent, Told::Deleted { id: y, number: 1 });
    assert_eq!(world.answer_to(one, deleting), Some(Reply::Outcomes(vec![None, None])));
    // The creator itself gives up what it makes.
    let deleting = world.send(two, Request::Delete { ids: vec![y] });
    assert_eq!(world.answer_to(two, deleting), Some(Reply::Outcomes(vec![None])));
}

#[test]
fn only_the_named_incarnation_is_dropped_published_or_kept() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let x = free("x");
    world.bring(agent, "x", false, false);
    let other = Birth { serial: THEIRS + 1, ..theirs() };
    world.calls();
    world.tell(agent, Told::Publish { id: x, birth: other });
    world.tell(agent, Told::Keep { id: x, birth: other });
    world.tell(agent, Told::Release { id: x, birth: other });
    assert_eq!(world.calls(), []);
    world.tell(agent, Told::Drop { id: x, birth: other });
    assert_eq!(world.calls(), [Call::Ended { id: x, birth: other }], "it is not here");
    let waiting = world.send(client, wait(&[x], None));
    assert_eq!(world.calls(), [seek_of(x, 1, Class::Wait)]);

    world.tell(agent, Told::Publish { id: x, birth: theirs() });
    assert_eq!(world.answer_to(client, waiting), states(&[Sealed]));
    assert_eq!(world.calls(), [Call::Unseek(x)]);
    assert_eq!(world.policy_of(client, x), Policy::Cache);
    world.tell(agent, Told::Keep { id: x, birth: theirs() });
    assert_eq!(world.calls(), [Call::Kept { id: x, birth: theirs() }]);
    assert_eq!(world.policy_of(client, x), Policy::Keep);
    assert_eq!(world.evict(client, MIB), (0, 0), "it is kept");
    world.tell(agent, Told::Release { id: x, birth: theirs() });
    assert_eq!((world.policy_of(client, x), world.calls()), (Policy::Cache, vec![]));
    world.tell(agent, Told::Keep { id: x, birth: theirs() });
    assert_eq!(world.calls(), [Call::Kept { id: x, birth: theirs() }]);
    assert_eq!(world.evict(client, MIB), (0, 0), "it is kept again");
    world.tell(agent, Told::Drop { id: x, birth: theirs() });
    assert_eq!(world.calls(), [Call::Ended { id: x, birth: theirs() }]);
    assert_eq!(world.status().used_bytes, 0);
}

/// What a node made for its pool was kept for ever, also once other nodes kept it instead.
#[test]
fn an_own_object_that_the_pool_releases_is_evicted() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let x = free("x");
    world.send_seal(client, &put("x", 10));
    world.tell(agent, Told::Committed { id: x, serial: OURS, result: Ok(()) });
    world.calls();
    assert_eq!(world.evict(client, MIB), (0, 0), "it is kept");
    world.tell(agent, Told::Release { id: x, birth: ours() });
    assert_eq!(world.policy_of(client, x), Policy::Cache);
    assert_eq!(world.evict(client, MIB), (10, 1));
    assert_eq!(world.calls(), [Call::Ended { id: x, birth: ours() }]);
}

#[test]
fn an_agent_that_takes_the_seat_is_told_which_copies_may_be_evicted() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    world.bring(agent, "x", true, false);
    let again = |world: &mut World, agent, number| {
        world.disconnect(agent);
        world.calls();
        let agent = world.agent(number);
        let kept = world.calls().into_iter().map(|call| match call {
            Call::Has { kept, .. } => kept,
            other => panic!("{other:?}"),
        });
        (agent, kept.collect::<Vec<_>>())
    };
    let (agent, kept) = again(&mut world, agent, 2);
    assert_eq!(kept, [false]);
    world.tell(agent, Told::Keep { id: free("x"), birth: theirs() });
    let (_, kept) = again(&mut world, agent, 3);
    assert_eq!(kept, [true]);
}

#[test]
fn the_agent_reads_what_is_here_and_asks_itself_nothing() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.bring(agent, "x", false, false);
    world.calls();
    let (x, y) = (free("x"), free("y"));
    let Reply::Located(located) = world.ask(agent, Request::Get { ids: vec![x, y] }) else {
        panic!("an answer at once");
    };
    let location = located[0].unwrap();
    assert_eq!((location.sizes.data, located[1]), (10, Err(Unreachable)));
    assert_eq!(world.calls(), []);
    // What it reads stays until it has done so.
    world.tell(agent, Told::Drop { id: x, birth: theirs() });
    assert!(world.status().used_bytes > 0);
    let release = Request::Release { serials: vec![location.serial] };
    assert_eq!(world.ask(agent, release), Reply::Done);
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn a_cached_copy_goes_before_others_and_the_pool_is_told() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.bring(agent, "x", true, false);
    world.bring(agent, "y", true, true);
    world.calls();
    assert_eq!(world.evict(client, MIB).1, 1);
    let x = free("x");
    assert_eq!(world.calls(), [Call::Ended { id: x, birth: theirs() }]);
    world.send(client, wait(&[x], Some(0)));
    assert_eq!(world.calls(), [seek_of(x, 1, Class::Get)], "it is sought again");
}

#[test]
fn a_copy_makes_no_notice_and_ends_with_the_agent_without_a_word_about_the_object() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.ask(client, Request::Subscribe { filter: plasmon_proto::message::Filter::default() });
    let x = free("x");
    let waiting = world.send(client, wait(&[x], None));
    assert!(matches!(world.begin_landing(agent, "x", 10), Reply::Created(_)));
    assert_eq!(world.calls(), [seek_of(x, 1, Class::Wait)]);
    world.send(client, wait(&[x], Some(0)));
    assert_eq!(world.calls(), [seek_of(x, 2, Class::Get)], "it is not being made here");

    world.disconnect(agent);
    assert_eq!(world.status().used_bytes, 0);
    assert_eq!(world.answer_to(client, waiting), None, "its creator did not die");
    let agent = world.agent(3);
    assert_eq!(world.calls(), [seek_of(x, 2, Class::Get)]);
    world.bring(agent, "x", true, false);
    assert_eq!(world.answer_to(client, waiting), states(&[Sealed]));
    assert_eq!(world.notices(client), []);
}

#[test]
fn a_copy_is_sealed_by_its_birth_and_its_attributes_say_the_same() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    assert!(matches!(world.begin_landing(agent, "x", 10), Reply::Created(_)));
    let id = free("x");
    let good = SealLanded { id, birth: theirs(), visible: true, keep: false };
    let other = SealLanded { birth: ours(), ..good };
    let right = attributes("x", Some(ELSEWHERE));
    let wrong = [
        (other, Some(right.clone()), Code::BadRequest),
        (good, None, Code::BadRequest),
        (good, Some(attributes("x", None)), Code::BadRequest),
        (good, Some(attributes("y", Some(ELSEWHERE))), Code::BadRequest),
        (SealLanded { id: free("y"), ..good }, Some(right.clone()), Code::Absent),
    ];
    for (at, (landed, attributes, code)) in wrong.into_iter().enumerate() {
        let number = 500 + at as u64;
        world.event(Event::SealLanded(agent, number, landed, attributes));
        let Some(Reply::Failed(failure)) = world.answer_to(agent, number) else { panic!("{at}") };
        assert_eq!(failure.code, code, "{at}");
    }
    // It is no object of the agent's own, which it could seal as any client does.
    world.event(Event::Seal(
        agent,
        600,
        crate::event::SealTarget { id, target: id },
        Some(right.clone()),
    ));
    assert!(matches!(world.answer_to(agent, 600), Some(Reply::Failed(_))));
    world.event(Event::SealLanded(agent, 601, good, Some(right)));
    assert_eq!(world.answer_to(agent, 601), Some(Reply::Done));
    assert!(matches!(world.begin_landing(agent, "x", 10), Reply::Failed(_)), "it is here");
}

#[test]
fn copies_of_free_ids_are_shown_only_while_they_are_vouched_for() {
    let mut world = World::new(Config { spill_bytes_max: Some(u64::MAX), ..config() });
    let agent = world.agent(1);
    let client = world.connect(2);
    let x = free("x");
    world.bring(agent, "x", true, false);
    world.calls();
    let early = world.send(client, wait(&[x], None));
    assert_eq!(world.calls(), [seek_of(x, 1, Class::Wait)], "it was never vouched for");
    world.vouch(agent);
    assert_eq!(world.answer_to(client, early), states(&[Sealed]));
    world.put(client, Put { id: homed(7), ..Put::new(0, 10) }).unwrap();
    world.put(client, Put::new(1, 10)).unwrap();

    world.pass(59_999);
    assert_eq!(world.ask(client, wait(&[x], Some(0))), Reply::States(vec![Sealed]));
    world.calls();
    world.pass(1);
    let others = Request::States { ids: vec![homed(7), id(1)] };
    assert_eq!(world.ask(client, others), Reply::States(vec![Sealed, Sealed]));
    let late = world.send(client, wait(&[x], Some(0)));
    assert_eq!(world.answer_to(client, late), None);
    world.vouch(agent);
    assert_eq!(world.answer_to(client, late), states(&[Sealed]));
    assert_eq!(world.store.next_deadline(), Some(world.now_ms + 60_000));
}

#[test]
fn a_copy_in_the_tier_is_shown_only_while_it_is_vouched_for() {
    let mut world = World::new(Config { spill_bytes_max: Some(u64::MAX), ..config() });
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let x = free("x");
    world.bring(agent, "x", true, true);
    world.create_and_seal(client, &Put::new(1, 16 * MIB)).unwrap();
    assert_eq!(world.store.state_of(&x), Spilled);
    world.pass(60_000);
    world.calls();
    let late = world.send(client, wait(&[x], None));
    assert_eq!(world.calls(), [seek_of(x, 1, Class::Wait)]);
    world.delete(client, 1);
    world.vouch(agent);
    assert_eq!(world.answer_to(client, late), states(&[Sealed]));
    assert_eq!(world.store.state_of(&x), Sealed);
    world.tell(agent, Told::Drop { id: x, birth: theirs() });
    assert!(world.calls().contains(&Call::Ended { id: x, birth: theirs() }));
}

#[test]
fn one_client_has_the_seat_and_others_may_not_speak_for_the_pool() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let other = world.connect(2);
    let Some(Reply::Failed(failure)) = world.take_seat(other) else { panic!() };
    assert_eq!(failure.code, Code::InUse);
    let tell = Request::Tell { told: vec![Told::Vouch { ms: 1 }] };
    assert_eq!(world.ask_for_failure(other, tell).code, Code::NotPermitted);
    let Reply::Failed(failure) = world.begin_landing(other, "x", 10) else { panic!() };
    assert_eq!(failure.code, Code::NotPermitted);
    world.event(Event::Part(agent));
    assert_eq!(world.take_seat(other), Some(Reply::Done), "a broken connection leaves it");

    let mut alone = World::with_capacity(MIB);
    let client = alone.connect(1);
    let Some(Reply::Failed(failure)) = alone.take_seat(client) else { panic!() };
    assert_eq!(failure.code, Code::Unsupported);
}

#[test]
fn an_agent_is_told_of_every_copy_however_many_there_are() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let count = 1500;
    let ids = (0..count).map(|number: u64| {
        let mut identity = [0; 12];
        identity[..8].copy_from_slice(&number.to_le_bytes());
        ObjectId::pooled(identity, Some(HERE.slot.0))
    });
    for id in ids {
        world.put(client, Put { id, ..Put::new(0, 10) }).unwrap();
        world.tell(agent, Told::Committed { id, serial: 0, result: Ok(()) });
    }
    world.calls();
    world.disconnect(agent);
    world.agent(3);
    let calls = world.calls();
    let told: std::collections::BTreeSet<ObjectId> = calls
        .iter()
        .map(|call| match call {
            Call::Has { id, visible: true, .. } => *id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((told.len(), calls.len()), (count as usize, count as usize));
}

/// What an earlier daemon left of an object in memory, and whether clients saw it.
struct Remains {
    id: ObjectId,
    attributes: Attributes,
    traits: Traits,
    visible: bool,
}

/// A world whose daemon has taken these over.
fn restarted(remains: Vec<Remains>) -> World {
    let (mut directory, mut objects) = (super::TestDirectory::default(), Vec::new());
    let extent = ExtentId(7);
    for (at, Remains { id, attributes, traits, visible }) in (0..).zip(remains) {
        let mut sizes = sizes(1000);
        sizes.attributes = attributes.encode().len() as u64;
        let range = Range { extent, offset: at * 8192, bytes: sizes.footprint().unwrap() };
        let meta = ObjectMeta { sizes, traits, ..ObjectMeta::default() };
        let entry = Entry { serial: 100 + at, id, range, meta, record: at as u32 };
        let slot = directory.leave(entry, visible);
        objects.push(RecoveredObject::in_memory(slot, &entry, visible, attributes));
    }
    let extents = [RecoveredExtent {
        extent,
        bytes: MIB,
        quarantined: false,
        lent: None,
        strict: false,
        resident_bytes: MIB,
    }];
    let mut world = World::over(Store::new(config(), directory));
    world.extents.insert(extent, MIB);
    let mut effects = Vec::new();
    world.store.recover(world.now_ms, &extents, objects, &mut effects);
    world.do_all(effects);
    world
}

#[test]
fn a_restarted_daemon_shows_no_free_copy_before_it_is_vouched_for_again() {
    // What is hidden may have been withheld or deleted: the pool knows.
    let left = |(text, visible)| {
        let (attributes, traits) = (attributes(text, Some(ELSEWHERE)), Traits::default());
        Remains { id: free(text), attributes, traits, visible }
    };
    let mut world = restarted([("shown", true), ("hidden", false)].map(left).into());

    let client = world.connect(2);
    let (shown, hidden) = (free("shown"), free("hidden"));
    let asked = world.send(client, wait(&[shown], Some(0)));
    let agent = world.agent(1);
    let has = |text, visible| {
        let content = content(text, 1000, theirs());
        let (kept, logged) = (true, false);
        Call::Has { id: free(text), birth: theirs(), content, visible, kept, logged }
    };
    let expected = [has("shown", true), has("hidden", false), seek_of(shown, 1, Class::Get)];
    assert_eq!(world.calls(), expected);
    world.vouch(agent);
    assert_eq!(world.answer_to(client, asked), states(&[Sealed]));
    world.calls();
    world.tell(agent, Told::Drop { id: hidden, birth: theirs() });
    assert_eq!(world.calls(), [Call::Ended { id: hidden, birth: theirs() }]);
}

/// A wait whose time was over said that an object had not been created that existed and was on its
/// way here: it told what was known at an earlier question.
#[test]
fn a_wait_that_ends_while_a_copy_comes_says_so() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let x = free("x");
    let number = world.send(client, wait(&[x], Some(300)));
    world.tell(agent, Told::Sought { id: x, number: 1, fate: Fate::Absent });
    world.pass(100);
    world.tell(agent, Told::Found { id: free("y"), number: 1 });
    world.tell(agent, Told::Found { id: x, number: 1 });
    assert_eq!(world.answer_to(client, number), None, "it is not here yet");
    assert!(matches!(world.begin_landing(agent, "x", 10), Reply::Created(_)));
    world.pass(200);
    assert_eq!(world.answer_to(client, number), states(&[Remote]));

    // The next answer counts more.
    let number = world.send(client, wait(&[x], Some(300)));
    world.tell(agent, Told::Found { id: x, number: 2 });
    world.tell(agent, Told::Sought { id: x, number: 2, fate: Fate::Absent });
    world.pass(300);
    assert_eq!(world.answer_to(client, number), states(&[Absent]));
}
