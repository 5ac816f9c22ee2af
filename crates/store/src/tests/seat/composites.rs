//! Objects of the pool that consist of others: what may be a member, what becomes of the members,
//! and growing memory that is sealed as one.

use plasmon_proto::message::Grant;

use super::*;
use crate::event::GrownSeal;

fn birth() -> Birth {
    Birth { slot: HERE.slot, boot: HERE.boot, serial: 0 }
}

fn of(members: &[ObjectId], owns_members: bool, base: Attributes) -> Attributes {
    let pool = base.pool.map(|pool| PoolAttributes { owns_members, ..pool });
    Attributes { members: members.to_vec(), pool, ..base }
}

fn composite(text: &str, members: &[ObjectId], owns_members: bool) -> Put {
    Put { id: free(text), ..Put::new(0, 10) }.with(of(
        members,
        owns_members,
        attributes(text, None),
    ))
}

fn deleted(calls: &[Call]) -> Vec<ObjectId> {
    let delete = |call: &Call| match call {
        Call::Delete { id, .. } => Some(*id),
        _ => None,
    };
    calls.iter().filter_map(delete).collect()
}

impl World {
    fn put_member(&mut self, client: ClientNo, number: u8) -> ObjectId {
        self.put(client, Put { id: homed(number), ..Put::new(0, 100) }).unwrap();
        homed(number)
    }

    fn land_composite(&mut self, agent: ClientNo, attributes: &Attributes) -> Reply {
        let bytes = attributes.encode().len() as u64;
        let sizes = plasmon_proto::object::Sizes { attributes: bytes, ..sizes(10) };
        let (id, traits) = (free("x"), Traits::default());
        let landing = Landing { id, birth: theirs(), sizes, traits, growing: false };
        assert!(matches!(self.ask(agent, Request::Land(landing)), Reply::Created(_)));
        self.next_number += 1;
        let number = 4_000_000 + self.next_number;
        let landed = SealLanded { id, birth: theirs(), visible: true, keep: false };
        self.event(Event::SealLanded(agent, number, landed, Some(attributes.clone())));
        let reply = self.answer_to(agent, number).expect("an answer at once");
        if reply != Reply::Done {
            self.ask(agent, Request::Abort { id });
        }
        reply
    }

    fn begin_growing(&mut self, client: ClientNo, number: u64) -> Grant {
        let traits = Traits { owned: true, ..Traits::default() };
        let request =
            Request::CreateGrowing { id: id(number), traits, bytes: 100, open_ended: false };
        let Reply::Created(granted) = self.ask(client, request) else { panic!("no memory") };
        granted
    }

    fn seal_growing(
        &mut self,
        client: ClientNo,
        sealing: GrownSeal,
        attributes: Option<Attributes>,
    ) -> Result<(), Code> {
        self.next_number += 1;
        let number = 5_000_000 + self.next_number;
        self.event(Event::SealGrown(client, number, sealing, attributes));
        match self.answer_to(client, number) {
            Some(Reply::Done) => Ok(()),
            Some(Reply::Failed(failure)) => Err(failure.code),
            other => panic!("{other:?} is no answer to a seal"),
        }
    }
}

#[test]
fn members_are_objects_of_the_pool_that_are_here_and_have_a_home() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let member = world.put_member(client, 1);
    world.bring(agent, "named", true, false);
    world.put(client, Put::new(5, 10)).unwrap();
    let wrong =
        [(homed(2), Code::Absent), (free("named"), Code::Unsupported), (id(5), Code::Unsupported)];
    for (other, code) in wrong {
        let put = composite("x", &[member, other], false);
        world.create(client, &put).unwrap();
        assert_eq!(world.seal(client, &put), Err(code), "{other:?}");
        world.ask(client, Request::Abort { id: put.id });
    }
    let local = Put::new(6, 10).with(Attributes { members: vec![member], ..Default::default() });
    assert_eq!(world.put(client, local), Err(Code::Unsupported), "it is held by no local object");

    world.send_seal(client, &composite("x", &[member, member], false));
    world.tell(agent, Told::Committed { id: free("x"), serial: OURS, result: Ok(()) });
    let states = world.ask(client, Request::States { ids: vec![free("x"), member] });
    assert_eq!(states, Reply::States(vec![Sealed, Sealed]));
}

#[test]
fn a_copy_of_a_composite_lands_without_its_members_and_names_ids_with_a_home_alone() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let there = ObjectId::pooled([3; 12], Some(ELSEWHERE.slot.0));
    let base = attributes("x", Some(ELSEWHERE));
    for wrong in [id(1), free("y")] {
        let reply = world.land_composite(agent, &of(&[there, wrong], false, base.clone()));
        assert!(matches!(reply, Reply::Failed(it) if it.code == Code::BadRequest), "{wrong:?}");
    }
    assert_eq!(world.land_composite(agent, &of(&[there], true, base)), Reply::Done);
    // What the other nodes are told of the copy counts its members.
    let attributes = of(&[there], true, attributes("x", Some(ELSEWHERE)));
    world.calls();
    world.disconnect(agent);
    let _ = world.agent(3);
    let content = content_with(10, &attributes);
    let (visible, kept, logged) = (true, false, false);
    let has = Call::Has { id: free("x"), birth: theirs(), content, visible, kept, logged };
    assert_eq!(world.calls(), [has]);
}

#[test]
fn nothing_is_held_a_member_can_be_deleted_and_evicted() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let member = world.put_member(client, 1);
    world.send_seal(client, &composite("x", &[member], false));
    world.tell(agent, Told::Committed { id: free("x"), serial: OURS, result: Ok(()) });
    world.calls();
    let request = world.send(client, Request::Delete { ids: vec![member] });
    let calls = world.calls();
    assert_eq!(deleted(&calls), [member], "the pool decides");
    world.tell(agent, Told::Drop { id: member, birth: birth() });
    world.tell(agent, Told::Deleted { id: member, number: 1 });
    assert_eq!(world.answer_to(client, request), Some(Reply::Outcomes(vec![None])));
    world.tell(agent, Told::Drop { id: free("x"), birth: ours() });
    assert_eq!(deleted(&world.calls()), [], "it does not own them");
    world.pass(20);
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn members_that_a_composite_owns_are_deleted_with_it_and_again_until_they_are() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let members = [world.put_member(client, 1), world.put_member(client, 2)];
    world.send_seal(client, &composite("x", &[members[0], members[1], members[0]], true));
    world.tell(agent, Told::Committed { id: free("x"), serial: OURS, result: Ok(()) });
    world.calls();
    // Another incarnation of the name is nothing to it.
    world.tell(agent, Told::Drop { id: free("x"), birth: theirs() });
    assert_eq!(deleted(&world.calls()), []);
    world.tell(agent, Told::Drop { id: free("x"), birth: ours() });
    assert_eq!(deleted(&world.calls()), members);
    world.tell(agent, Told::DeleteUnreachable { id: members[1], number: 2 });
    world.tell(agent, Told::Deleted { id: members[0], number: 1 });
    assert_eq!(deleted(&world.calls()), []);
    world.pass(1_000);
    assert_eq!(deleted(&world.calls()), [members[1]]);
    // A pool daemon that comes next is asked as well.
    world.disconnect(agent);
    let agent = world.agent(3);
    assert_eq!(deleted(&world.calls()), [members[1]]);
    world.tell(agent, Told::Deleted { id: members[1], number: 3 });
    world.pass(2_000);
    assert_eq!(deleted(&world.calls()), []);
}

#[test]
fn a_composite_that_is_refused_or_spilled_takes_its_members_along() {
    let mut world = World::new(Config { spill_bytes_max: Some(u64::MAX), ..config() });
    let agent = world.agent(1);
    world.vouch(agent);
    let client = world.connect(2);
    let refused = world.put_member(client, 1);
    world.send_seal(client, &composite("x", &[refused], true));
    let result = Err(Refusal::Exists);
    world.tell(agent, Told::Committed { id: free("x"), serial: OURS, result });
    assert_eq!(deleted(&world.calls()), [refused]);

    let spilled = world.put_member(client, 2);
    world.send_seal(client, &composite("y", &[spilled], true));
    world.tell(agent, Told::Committed { id: free("y"), serial: OURS, result: Ok(()) });
    world.calls();
    world.create_and_seal(client, &Put::new(1, 16 * MIB)).unwrap();
    let states = world.ask(client, Request::States { ids: vec![free("y"), spilled] });
    assert_eq!(states, Reply::States(vec![Spilled, Spilled]));
    world.tell(agent, Told::Drop { id: free("y"), birth: ours() });
    assert_eq!(deleted(&world.calls()), [spilled]);
}

#[test]
fn deletes_of_many_members_are_asked_for_a_piece_at_a_time() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    world.vouch(agent);
    let mut asked = Vec::new();
    let delete = |call: &Call| match call {
        Call::Delete { id, number } => Some((*id, *number)),
        _ => None,
    };
    for text in 0..3 {
        let text = format!("x{text}");
        let members: Vec<ObjectId> = (0..1024_u32)
            .map(|number| {
                let mut identity = [text.as_bytes()[1]; 12];
                identity[..4].copy_from_slice(&number.to_be_bytes());
                ObjectId::pooled(identity, Some(ELSEWHERE.slot.0))
            })
            .collect();
        let attributes = of(&members, true, attributes(&text, Some(ELSEWHERE)));
        let bytes = attributes.encode().len() as u64;
        let sizes = plasmon_proto::object::Sizes { attributes: bytes, ..sizes(10) };
        let (id, traits) = (free(&text), Traits::default());
        let landing = Landing { id, birth: theirs(), sizes, traits, growing: false };
        assert!(matches!(world.ask(agent, Request::Land(landing)), Reply::Created(_)));
        let landed = SealLanded { id, birth: theirs(), visible: true, keep: false };
        world.event(Event::SealLanded(agent, 7, landed, Some(attributes)));
        world.tell(agent, Told::Drop { id, birth: theirs() });
        asked.extend(world.calls().iter().filter_map(delete));
    }
    loop {
        world.event(Event::Tick);
        asked.extend(world.calls().iter().filter_map(delete));
        assert!(asked.len() <= 1024, "{} are under way", asked.len());
        let Some((id, number)) = asked.pop() else { break };
        world.tell(agent, Told::Deleted { id, number });
    }
    assert_eq!(world.store.under_way(), None);
}

#[test]
fn growing_memory_is_sealed_as_an_object_of_the_pool() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let attributes = Attributes { name: None, ..attributes("x", None) };
    let bytes = attributes.encode().len() as u32;
    let good = GrownSeal { id: id(1), target: homed(1), data: 3000, attributes: bytes };
    world.begin_growing(client, 1);
    let elsewhere = ObjectId::pooled([1; 12], Some(ELSEWHERE.slot.0));
    world.put_member(client, 9);
    let member = Attributes { members: vec![homed(9)], ..attributes.clone() };
    let foreign =
        Attributes { pool: self::attributes("x", Some(ELSEWHERE)).pool, ..member.clone() };
    let wrong = [
        (GrownSeal { target: elsewhere, ..good }, Some(attributes.clone()), Code::BadRequest),
        (GrownSeal { target: free("x"), ..good }, Some(attributes.clone()), Code::BadRequest),
        (GrownSeal { target: id(2), ..good }, Some(attributes.clone()), Code::BadRequest),
        (GrownSeal { target: homed(9), ..good }, Some(attributes.clone()), Code::Exists),
        (GrownSeal { data: 5000, ..good }, Some(attributes.clone()), Code::BadRequest),
        (GrownSeal { data: u64::MAX, ..good }, Some(attributes.clone()), Code::BadRequest),
        (good, None, Code::BadRequest),
        (good, Some(member), Code::BadRequest),
        (good, Some(foreign), Code::BadRequest),
        (GrownSeal { id: id(3), ..good }, Some(attributes.clone()), Code::Absent),
    ];
    for (sealing, attributes, code) in wrong {
        assert_eq!(world.seal_growing(client, sealing, attributes), Err(code), "{sealing:?}");
    }
    world.calls();
    assert_eq!(world.seal_growing(client, good, Some(attributes.clone())), Ok(()));
    let birth = Birth { serial: OURS, ..birth() };
    let content = content_with(3000, &attributes.of_copy(birth));
    let (copies, copies_min) = (2, 1);
    let call = Call::CommitKept { id: homed(1), serial: OURS, content, copies, copies_min };
    assert_eq!(world.calls(), [call]);
    // Asked again after the answer was lost.
    assert_eq!(world.seal_growing(client, good, Some(attributes)), Err(Code::AlreadySealed));
    let found = world.store.stat(&homed(1)).unwrap();
    assert_eq!((found.state, found.sizes.data, found.traits.owned), (Sealed, 3000, true));

    // Without a composite it ends with its creator, on all nodes.
    world.begin_growing(client, 2);
    let plain = GrownSeal { id: id(2), target: homed(2), data: 10, attributes: 0 };
    assert_eq!(world.seal_growing(client, plain, Some(Attributes::default())), Ok(()));
    let put = composite("y", &[homed(2)], true);
    world.send_seal(client, &put);
    world.tell(agent, Told::Committed { id: free("y"), serial: OURS, result: Ok(()) });
    world.calls();
    world.disconnect(client);
    assert_eq!(deleted(&world.calls()), [homed(1)]);
}

#[test]
fn a_target_that_is_taken_while_the_extent_is_cut_is_refused() {
    let mut world = World::new(config());
    let _ = world.agent(1);
    let client = world.connect(2);
    world.begin_growing(client, 1);
    world.harden = None;
    let sealing = GrownSeal { id: id(1), target: homed(1), data: 10, attributes: 0 };
    world.event(Event::SealGrown(client, 7, sealing, Some(Attributes::default())));
    assert_eq!(world.answer_to(client, 7), None);
    world.put_member(client, 1);
    let (ticket, _) = world.open.pop_front().unwrap();
    world.event(Event::Hardened(ticket, true));
    let Some(Reply::Failed(failure)) = world.answer_to(client, 7) else { panic!("a refusal") };
    assert_eq!(failure.code, Code::Exists);
    assert_eq!(world.state(1), Absent);
}

#[test]
fn a_composite_with_a_home_is_accepted_with_its_members_and_ends_with_one_that_is_refused() {
    let mut world = World::new(config());
    let agent = world.agent(1);
    let client = world.connect(2);
    let accepted = |id| Told::Committed { id, serial: 0, result: Ok(()) };
    let settle = |id| Request::Settle { ids: vec![id], timeout_ms: None };
    let outcome = |code| Some(Reply::Outcomes(vec![code]));
    for (first, is_refused) in [(1, false), (4, true)] {
        let members = [world.put_member(client, first), world.put_member(client, first + 1)];
        let whole = homed(first + 2);
        let attributes = Attributes { members: members.to_vec(), ..Attributes::default() };
        world.put(client, Put { id: whole, ..Put::new(0, 10) }.with(attributes)).unwrap();
        let early = world.send(client, settle(whole));
        world.tell(agent, accepted(members[0]));
        world.tell(agent, accepted(whole));
        let late = world.send(client, settle(whole));
        world.tell(agent, accepted(members[0]));
        assert_eq!((world.answer_to(client, early), world.answer_to(client, late)), (None, None));
        world.calls();
        let result = if is_refused { Err(Refusal::StoreFull) } else { Ok(()) };
        world.tell(agent, Told::Committed { id: members[1], serial: 0, result });
        let expected = outcome(is_refused.then_some(Code::StoreFull));
        assert_eq!(world.answer_to(client, early), expected);
        assert_eq!(world.answer_to(client, late), expected);
        let again = world.send(client, settle(whole));
        assert_eq!(world.answer_to(client, again), expected);
        let ends: &[ObjectId] = if is_refused { &[whole] } else { &[] };
        assert_eq!(deleted(&world.calls()), ends);
    }
    // Of members that are deleted meanwhile nothing is waited for.
    let member = world.put_member(client, 7);
    let attributes = Attributes { members: vec![member], ..Attributes::default() };
    world.put(client, Put { id: homed(8), ..Put::new(0, 10) }.with(attributes)).unwrap();
    world.tell(agent, accepted(homed(8)));
    let waiting = world.send(client, settle(homed(8)));
    assert_eq!(world.answer_to(client, waiting), None);
    world.tell(agent, Told::Drop { id: member, birth: birth() });
    assert_eq!(world.answer_to(client, waiting), outcome(None));

    // Nor of a composite that is.
    let member = world.put_member(client, 9);
    let attributes = Attributes { members: vec![member], ..Attributes::default() };
    world.put(client, Put { id: homed(10), ..Put::new(0, 10) }.with(attributes)).unwrap();
    world.tell(agent, accepted(homed(10)));
    let waiting = world.send(client, settle(homed(10)));
    world.tell(agent, Told::Drop { id: homed(10), birth: birth() });
    world.tell(agent, accepted(member));
    assert_eq!(world.answer_to(client, waiting), outcome(Some(Code::Deleted)));
}

/// A daemon shows hidden members of hidden composites again, because readers of a composite have no
/// pins on them. Those of a pool were deleted: shown again they would be put again.
#[test]
fn a_restarted_daemon_does_not_bring_deleted_members_back() {
    let left = |id, attributes, owned| {
        let traits = Traits { owned, ..Traits::default() };
        Remains { id, attributes, traits, visible: false }
    };
    let composite = of(&[homed(1)], true, attributes("x", None));
    let member = left(homed(1), Attributes::default(), true);
    let mut world = restarted(vec![member, left(free("x"), composite, false)]);
    let _ = world.agent(1);
    let told = world.calls();
    let is_commit = |call: &Call| matches!(call, Call::CommitKept { .. } | Call::Commit { .. });
    assert!(!told.iter().any(is_commit), "{told:?}");
    assert!(world.store.stat(&homed(1)).is_none());
}
