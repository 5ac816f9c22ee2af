//! Objects with a home: how many the agent is told of, how clients learn that they are accepted,
//! and what another daemon knows of them.

use plasmon_proto::limits::{COMMITS_TOLD_MAX, SETTLE_IDS_PER_CLIENT_MAX};
use plasmon_proto::object::Sizes;

use super::*;

fn homed_at(number: u32, home: u16) -> ObjectId {
    let mut identity = [0; 12];
    identity[..4].copy_from_slice(&number.to_be_bytes());
    ObjectId::pooled(identity, Some(home))
}

fn numbered(number: u32) -> ObjectId {
    homed_at(number, HERE.slot.0)
}

fn birth() -> Birth {
    Birth { slot: HERE.slot, boot: HERE.boot, serial: 0 }
}

fn commit(id: ObjectId, copies: u8) -> Call {
    let attributes = if copies == 1 { Attributes::default() } else { with_copies(copies) };
    let content = content_with(10, &attributes.of_copy(birth()));
    Call::CommitKept { id, serial: 0, content, copies, copies_min: 1 }
}

fn with_copies(copies: u8) -> Attributes {
    let class = Durability::Memory;
    let pool = PoolAttributes {
        copies,
        copies_min: 1,
        class,
        origin: None,
        serial: 0,
        ..PoolAttributes::ONE
    };
    Attributes { pool: Some(pool), ..Attributes::default() }
}

fn accepted(id: ObjectId) -> Told {
    Told::Committed { id, serial: 0, result: Ok(()) }
}

fn settle(ids: &[ObjectId], timeout_ms: Option<u64>) -> Request {
    Request::Settle { ids: ids.to_vec(), timeout_ms }
}

fn outcomes(outcomes: &[Option<Code>]) -> Option<Reply> {
    Some(Reply::Outcomes(outcomes.to_vec()))
}

impl World {
    /// One event alone, and what the agent is told by it.
    fn one_step(&mut self, event: Event) -> Vec<Call> {
        let mut effects = Vec::new();
        self.store.step(self.now_ms, event, &mut effects);
        let call = |effect| match effect {
            Effect::Call(_, call) => Some(call),
            _ => None,
        };
        effects.into_iter().filter_map(call).collect()
    }

    fn put_homed(&mut self, client: ClientNo, id: ObjectId) {
        self.put(client, Put { id, ..Put::new(0, 10) }).unwrap();
    }
}

#[test]
fn a_settle_waits_until_the_pool_has_answered_each_of_its_objects() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let ids: Vec<ObjectId> = (0..3).map(numbered).collect();
    ids.iter().for_each(|id| world.put_homed(client, *id));
    assert_eq!(world.calls(), ids.iter().map(|id| commit(*id, 1)).collect::<Vec<_>>());
    // An id may be there twice.
    let all = [ids[0], ids[1], ids[2], ids[0]];
    let waiting = world.send(client, settle(&all, None));
    let asked = world.send(client, settle(&all, Some(0)));
    assert_eq!(world.answer_to(client, asked), outcomes(&[Some(Code::TimedOut); 4]));
    world.tell(agent, accepted(ids[0]));
    world.tell(agent, accepted(ids[2]));
    assert_eq!(world.answer_to(client, waiting), None);
    world.tell(agent, accepted(ids[1]));
    assert_eq!(world.answer_to(client, waiting), outcomes(&[None; 4]));
    let again = world.send(client, settle(&all, None));
    assert_eq!(world.answer_to(client, again), outcomes(&[None; 4]));
    assert_eq!(Some(world.ask(client, settle(&[], None))), outcomes(&[]));
}

/// What the pool refuses has been seen already. It ends, as a refused name does; a settle says why,
/// also when it is asked later.
#[test]
fn what_the_pool_refuses_ends_and_a_settle_says_why() {
    for (refusal, code) in [
        (Refusal::StoreFull, Code::StoreFull),
        (Refusal::NotEnoughNodes, Code::NotEnoughNodes),
        (Refusal::Exists, Code::Exists),
        (Refusal::InUse(Slot(3)), Code::InUse),
        (Refusal::Unreachable, Code::Unreachable),
    ] {
        let mut world = World::new(config());
        let agent = world.agent(1);
        let client = world.connect(2);
        let (x, y) = (numbered(1), numbered(2));
        world.put(client, Put { id: x, ..Put::new(0, 10) }.with(with_copies(2))).unwrap();
        world.put_homed(client, y);
        assert_eq!(world.calls(), [commit(x, 2), commit(y, 1)]);
        let waiting = world.send(client, settle(&[x, y], None));
        world.tell(agent, Told::Committed { id: x, serial: 0, result: Err(refusal) });
        assert_eq!(world.calls(), [Call::Ended { id: x, birth: birth() }]);
        assert_eq!(
            world.ask(client, Request::States { ids: vec![y] }),
            Reply::States(vec![Sealed])
        );
        world.tell(agent, accepted(y));
        assert_eq!(world.answer_to(client, waiting), outcomes(&[Some(code), None]), "{refusal:?}");
        let later = world.send(client, settle(&[x], None));
        assert_eq!(world.answer_to(client, later), outcomes(&[Some(code)]));
    }
}

#[test]
fn an_object_that_ends_before_it_is_accepted_is_settled_with_its_end() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let (x, y) = (numbered(1), numbered(2));
    let cache = Traits { policy: Policy::Cache, ..Traits::default() };
    world.put(client, Put { id: x, traits: cache, ..Put::new(0, 10) }).unwrap();
    world.put_homed(client, y);
    let waiting = world.send(client, settle(&[x, y], None));
    world.ask(client, Request::Evict { bytes: 1 });
    world.tell(agent, Told::Drop { id: y, birth: birth() });
    let expected = outcomes(&[Some(Code::Evicted), Some(Code::Deleted)]);
    assert_eq!(world.answer_to(client, waiting), expected);
}

#[test]
fn ids_that_no_settle_can_be_about() {
    let mut world = World::new(config());
    let _ = world.agent(1);
    let client = world.connect(2);
    world.put(client, Put::new(5, 10)).unwrap();
    let asked = [id(5), homed_at(1, HERE.slot.0 + 1), numbered(9), free("never")];
    let found = world.send(client, settle(&asked, None));
    let (bad, absent) = (Some(Code::BadRequest), Some(Code::Absent));
    assert_eq!(world.answer_to(client, found), outcomes(&[bad, bad, absent, absent]));

    let mut world = World::new(Config::new(16 * MIB));
    let client = world.connect(2);
    let failure = world.ask_for_failure(client, settle(&[numbered(1)], None));
    assert_eq!(failure.code, Code::Unsupported, "the store is in no pool");
}

#[test]
fn a_name_is_settled_with_its_commit() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    world.send_seal(client, &put("x", 10));
    world.send_seal(client, &put("y", 10));
    let waiting = world.send(client, settle(&[free("x"), free("y")], None));
    let told = |name, result| Told::Committed { id: free(name), serial: OURS, result };
    world.tell(agent, told("x", Ok(())));
    assert_eq!(world.answer_to(client, waiting), None);
    world.tell(agent, told("y", Err(Refusal::Exists)));
    assert_eq!(world.answer_to(client, waiting), outcomes(&[None, Some(Code::Exists)]));
    // It is made again.
    world.send_seal(client, &put("y", 10));
    world.tell(agent, told("y", Ok(())));
    assert_eq!(Some(world.ask(client, settle(&[free("y")], None))), outcomes(&[None]));
}

#[test]
fn a_settle_ends_with_its_time_its_connection_or_by_being_cancelled() {
    let mut world = World::new(config());
    let _ = world.agent(1);
    let (client, other) = (world.connect(2), world.connect(3));
    let (x, y) = (numbered(1), numbered(2));
    world.put_homed(client, x);
    world.put_homed(client, y);
    let timed = world.send(client, settle(&[x], Some(500)));
    let cancelled = world.send(client, settle(&[x, y], None));
    let left = world.send(other, settle(&[x], None));
    world.pass(499);
    assert_eq!(world.answer_to(client, timed), None);
    assert_eq!(world.ask(client, Request::Cancel { request: cancelled }), Reply::Done);
    assert_eq!(world.answer_to(client, cancelled), outcomes(&[Some(Code::TimedOut); 2]));
    world.disconnect(other);
    world.pass(1);
    assert_eq!(world.answer_to(client, timed), outcomes(&[Some(Code::TimedOut)]));
    assert_eq!(world.answer_to(other, left), None);
    assert!(world.store.seat.settles.is_empty());
}

#[test]
fn one_client_waits_for_so_many_ids_and_no_more() {
    let mut world = World::new(config());
    let _ = world.agent(1);
    let (client, other) = (world.connect(2), world.connect(3));
    let x = numbered(1);
    world.put_homed(client, x);
    let full = vec![x; 1024];
    for _ in 0..SETTLE_IDS_PER_CLIENT_MAX / 1024 {
        let number = world.send(client, settle(&full, None));
        assert_eq!(world.answer_to(client, number), None);
    }
    let failure = world.ask_for_failure(client, settle(&[x], None));
    assert_eq!(failure.code, Code::LimitReached);
    let number = world.send(other, settle(&[x], None));
    assert_eq!(world.answer_to(other, number), None);
}

#[test]
fn without_an_agent_a_settle_ends_after_ten_seconds_and_goes_on_with_the_next_one() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let x = numbered(1);
    world.put_homed(client, x);
    world.calls();
    world.disconnect(agent);
    let early = world.send(client, settle(&[x], None));
    world.pass(10_000);
    assert_eq!(world.answer_to(client, early), outcomes(&[Some(Code::Unreachable)]));
    let late = world.send(client, settle(&[x], None));
    world.pass(9_999);
    let agent = world.agent(3);
    assert_eq!(world.all_calls(), [commit(x, 1), Call::InventoryEnd]);
    world.pass(60_000);
    assert_eq!(world.answer_to(client, late), None);
    world.tell(agent, accepted(x));
    assert_eq!(world.answer_to(client, late), outcomes(&[None]));
}

#[test]
fn the_agent_is_told_of_so_many_commits_at_a_time() {
    let mut world = World::new(Config { pool: true, ..Config::new(64 * MIB) });
    let agent = world.agent(1);
    let client = world.connect(2);
    let most = COMMITS_TOLD_MAX as u32;
    (0..most + 4).for_each(|number| world.put_homed(client, numbered(number)));
    let told = world.calls();
    assert_eq!(told.len(), COMMITS_TOLD_MAX);
    assert_eq!(told.last(), Some(&commit(numbered(most - 1), 1)));
    let waiting = world.send(client, settle(&[numbered(most + 3)], None));

    // A delete is about an object that the agent knows.
    world.send(client, Request::Delete { ids: vec![numbered(most + 1)] });
    let expected = [commit(numbered(most + 1), 1), delete_of(numbered(most + 1), 1)];
    assert_eq!(world.calls(), expected);
    // And so is the answer to a question of another node.
    world.tell(agent, Told::Look { id: numbered(most + 2), number: 7 });
    let looked = Call::Looked { id: numbered(most + 2), number: 7 };
    assert_eq!(world.calls(), [commit(numbered(most + 2), 1), looked]);
    world.tell(agent, Told::Look { id: numbered(0), number: 8 });
    assert_eq!(world.calls(), [Call::Looked { id: numbered(0), number: 8 }]);

    (0..2).for_each(|number| world.tell(agent, accepted(numbered(number))));
    assert_eq!(world.calls(), [], "two were told out of turn");
    let last = Told::Committed { id: numbered(2), serial: 0, result: Err(Refusal::StoreFull) };
    world.tell(agent, last);
    let ended = Call::Ended { id: numbered(2), birth: birth() };
    assert_eq!(world.calls(), [ended, commit(numbered(most), 1)]);
    world.tell(agent, accepted(numbered(3)));
    assert_eq!(world.calls(), [commit(numbered(most + 3), 1)]);
    world.tell(agent, accepted(numbered(most + 3)));
    assert_eq!(world.answer_to(client, waiting), outcomes(&[None]));
}

/// A store with many copies told all of them at once to an agent that did not read so fast, which
/// was disconnected for that, and told all of them again.
#[test]
fn an_agent_that_is_behind_is_told_what_is_here_later() {
    let mut world = World::new(config());
    let client = world.connect(2);
    let first = world.agent(1);
    for number in 0..2000 {
        world.put_homed(client, numbered(number));
    }
    world.disconnect(first);
    world.calls();
    let agent = world.connect(3);
    assert_eq!(world.one_step(Event::Agent(agent, 77, HERE)), []);
    world.store.set_agent_behind(true);
    assert_eq!(world.one_step(Event::Tick), []);
    assert_ne!(world.store.next_deadline(), Some(world.now_ms), "nothing is due");
    world.store.set_agent_behind(false);
    let mut told = Vec::new();
    while world.store.next_deadline() == Some(world.now_ms) {
        told.extend(world.one_step(Event::Tick));
    }
    assert_eq!(told.len(), 2001);
    assert_eq!(told.last(), Some(&Call::InventoryEnd));
}

/// An agent that was being told what is here was not told when some of that ended meanwhile.
#[test]
fn what_ends_while_the_agent_is_told_what_is_here_is_told_too() {
    let mut world = World::new(config());
    let client = world.connect(2);
    let first = world.agent(1);
    let cache = Traits { policy: Policy::Cache, ..Traits::default() };
    let x = numbered(1);
    world.put(client, Put { id: x, traits: cache, ..Put::new(0, 10) }).unwrap();
    world.tell(first, accepted(x));
    for number in 2..2000 {
        world.put_homed(client, numbered(number));
    }
    world.disconnect(first);
    world.calls();
    let agent = world.connect(3);
    world.one_step(Event::Agent(agent, 77, HERE));
    let told = world.one_step(Event::Tick);
    assert!(matches!(told[0], Call::Has { id, .. } if id == x) && told.len() < 1999);
    world.ask(client, Request::Evict { bytes: 1 });
    assert!(world.all_calls().contains(&Call::Ended { id: x, birth: birth() }));
}

#[test]
fn an_object_that_is_kept_by_itself_needs_no_note_of_that() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let x = numbered(1);
    world.put_homed(client, x);
    world.tell(agent, accepted(x));
    world.calls();
    world.tell(agent, Told::Keep { id: x, birth: birth() });
    assert_eq!(world.calls(), [Call::Kept { id: x, birth: birth() }]);
    assert!(world.store.objects.extras.is_empty());
}

/// A daemon that was killed knew which node it was only once a pool daemon had said so again: until
/// then, puts of clients failed.
#[test]
fn another_daemon_knows_which_node_it_is() {
    let mut world = World::new(Config { node: Some(HERE), ..config() });
    let client = world.connect(2);
    world.put_homed(client, numbered(1));
    let other = homed_at(1, HERE.slot.0 + 1);
    let put = Put { id: other, ..Put::new(0, 10) };
    assert_eq!(world.create(client, &put).unwrap_err().code, Code::BadRequest);
    let _ = world.agent(1);
    assert_eq!(world.all_calls(), [commit(numbered(1), 1), Call::InventoryEnd]);
}

/// The pool daemon joins as another node after an operator had this one forgotten. What was made
/// under the old slot is of this node all the same.
#[test]
fn a_node_that_gets_another_slot_makes_ids_with_that() {
    let mut world = World::new(config());
    let first = world.agent(1);
    let client = world.connect(2);
    world.put_homed(client, numbered(1));
    world.tell(first, accepted(numbered(1)));
    world.disconnect(first);
    world.calls();
    let there = Origin { slot: Slot(HERE.slot.0 + 4), ..HERE };
    let agent = world.connect(3);
    world.event(Event::Agent(agent, 77, there));
    assert_eq!(world.answer_to(agent, 77), Some(Reply::Done));
    let moved = Birth { slot: there.slot, ..birth() };
    let told = world.calls();
    assert!(
        matches!(told[..], [Call::Has { id, birth, .. }] if (id, birth) == (numbered(1), moved)),
        "{told:?}"
    );
    let old = Put { id: numbered(2), ..Put::new(0, 10) };
    assert_eq!(world.put(client, old), Err(Code::BadRequest));
    world.put_homed(client, homed_at(2, there.slot.0));

    // The copy of such an object can be brought to another node.
    let attributes = Attributes::default().of_copy(Birth { slot: Slot(9), ..birth() });
    let sizes = Sizes { attributes: attributes.encode().len() as u64, ..sizes(10) };
    let traits = Traits::default();
    let birth = Birth { slot: Slot(9), ..birth() };
    let landing = Landing { id: homed_at(7, 5), birth, sizes, traits, growing: false };
    assert!(matches!(world.ask(agent, Request::Land(landing)), Reply::Created(_)));
}
