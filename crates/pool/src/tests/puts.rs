//! That every put ends, whatever its node waits for.

use plasmon_cluster::{Map, Slot};
use plasmon_proto::ObjectId;

use crate::event::{Effect, Event, Fate, Refusal};
use crate::limits::{COMMIT_STUCK_MS, COMMIT_UNHEARD_MS};
use crate::message::{Envelope, HoldOutcome, Message};
use crate::record::{Birth, Content};
use crate::time::Mono;

use super::history::{Operation, OperationNo};
use super::network::Way;
use super::store::Outcome;
use super::world::World;

/// Beyond the limit of a wait: a lease, and what is asked again.
const SLACK_MS: u64 = 5_000;

/// A pool of three machines at rest.
fn world() -> World {
    world_of(3)
}

/// A pool of so many machines at rest.
fn world_of(machines: usize) -> World {
    let is_it = |seed: &u64| {
        let world = World::new(*seed, None, 0);
        !world.is_impatient && world.machines.len() == machines
    };
    let mut world = World::new((0..).find(is_it).unwrap(), None, 500);
    (world.slow_ms, world.bulk_loss) = (0, 0);
    world.start_all().unwrap();
    pass(&mut world, 3_000);
    world
}

fn pass(world: &mut World, ms: u64) {
    world.run_until(world.now.after_ms(ms), false).unwrap();
}

fn outcome(world: &World, no: OperationNo) -> Option<Outcome> {
    world.history.entries[&no].end.clone().map(|(_, outcome)| outcome)
}

fn put(world: &mut World, at: usize, number: u8, data_bytes: u64) -> OperationNo {
    let id = ObjectId::pooled([number; 12], None);
    if !world.ids.contains(&id) {
        world.ids.push(id);
    }
    let content = Content { data_bytes, ..Content::default() };
    world.begin(at, Operation::Put { id, content, copies: 2, copies_min: 1 }).unwrap()
}

/// Everything comes to rest, and what clients were told was right.
fn check_quiet(world: &mut World) {
    pass(world, 30_000);
    world.check_rest().unwrap();
    world.ask_places().unwrap();
    pass(world, 1_000);
    world.check_places().unwrap();
    world.history.check().unwrap();
}

/// A put whose records two nodes had to keep that did not reach each other, and that both held
/// their leases, waited until they did.
#[test]
fn every_put_ends_while_a_node_does_not_reach_another_one() {
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let mut world = world();
        let maps = world.maps.len();
        world.network.cut(Way { from, to });
        let mut puts = Vec::new();
        for number in 0..24 {
            let bytes = [0, 100, 1 << 20, 3_000_000][usize::from(number) % 4];
            puts.push(put(&mut world, usize::from(number) % 3, number, bytes));
            pass(&mut world, 50);
        }
        pass(&mut world, COMMIT_STUCK_MS + SLACK_MS);
        assert_eq!(world.maps.len(), maps, "all hold their leases");
        let outcomes: Vec<_> = puts.iter().map(|no| outcome(&world, *no)).collect();
        let unreachable = Some(Outcome::Put(Err(Refusal::Unreachable)));
        for outcome in &outcomes {
            let is_one = *outcome == Some(Outcome::Put(Ok(()))) || *outcome == unreachable;
            assert!(is_one, "{from} to {to}: {outcome:?}");
        }
        assert!(outcomes.contains(&unreachable), "{from} to {to}: the cut is not noticed");
        world.heal(Way { from, to }).unwrap();
        check_quiet(&mut world);
    }
}

/// While etcd is away no node decides.
#[test]
fn a_put_ends_soon_while_no_node_holds_its_lease() {
    let mut world = world();
    world.machines.iter_mut().for_each(|machine| machine.reaches_etcd = false);
    pass(&mut world, 1_000);
    for number in 0..24 {
        let no = put(&mut world, usize::from(number) % 3, number, 100);
        pass(&mut world, COMMIT_UNHEARD_MS + SLACK_MS);
        let outcome = outcome(&world, no);
        let is_early = number == 0 && outcome == Some(Outcome::Put(Ok(())));
        assert!(
            is_early || outcome == Some(Outcome::Put(Err(Refusal::Unreachable))),
            "{outcome:?}"
        );
    }
    world.machines.iter_mut().for_each(|machine| machine.reaches_etcd = true);
    check_quiet(&mut world);
}

/// A large put over a slow line goes on for as long as bytes of it move.
#[test]
fn a_put_whose_bytes_move_goes_on() {
    let mut world = world();
    // No segment ends, but bytes come.
    world.bulk_loss = 100;
    let no = put(&mut world, 0, 1, 9_000_000);
    for _ in 0..2 * COMMIT_STUCK_MS / 100 {
        pass(&mut world, 100);
        for at in 0..3 {
            let others = (0..3).filter(|other| *other != at);
            others
                .map(|other| Event::Moving(Slot(other)))
                .for_each(|event| world.give(usize::from(at), event).unwrap());
        }
    }
    assert_eq!(outcome(&world, no), None);
    pass(&mut world, COMMIT_STUCK_MS + SLACK_MS);
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Err(Refusal::Unreachable))));
    world.bulk_loss = 0;
    check_quiet(&mut world);
}

/// A name that was deleted while the pool daemon of a node with a copy was down was refused there
/// with *exists*: the store decided by itself, before the pool daemon had dropped the copy.
#[test]
fn a_deleted_name_is_not_refused_by_a_node_that_has_not_heard_of_it() {
    let mut world = world();
    let no = put(&mut world, 0, 1, 100);
    pass(&mut world, 1_000);
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Ok(()))));
    let id = world.ids[0];
    for at in 1..3 {
        let no = world.begin(at, Operation::Get { id, patient: false }).unwrap();
        pass(&mut world, 1_000);
        assert!(matches!(outcome(&world, no), Some(Outcome::Read(_))));
    }
    world.crash(2, false, 5_000).unwrap();
    let no = world.begin(0, Operation::Delete { id }).unwrap();
    pass(&mut world, 4_999);
    assert_eq!(outcome(&world, no), Some(Outcome::Deleted), "{}", world.trace());
    assert!(world.machines[2].store.objects[&id].visible);
    pass(&mut world, 1);
    let no = put(&mut world, 2, 1, 100);
    pass(&mut world, 5_000);
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Ok(()))), "{}", world.trace());
    check_quiet(&mut world);
}

/// What the origin of an incarnation answers a primary that asks whether it has the object.
fn says_of(world: &mut World, at: usize, id: ObjectId, birth: Birth) -> Option<HoldOutcome> {
    let (_, map) = world.maps.last().unwrap().clone();
    let from = map.primary(Map::group_of(&id)).unwrap();
    let (now, incarnation) = (world.now, world.machines[usize::from(from.0)].incarnation);
    let (content, sources) = (Content::default(), Vec::new());
    let messages = vec![Message::Hold { id, birth, content, sources, live: false }];
    let envelope = Envelope { epoch: map.epoch(), from, incarnation, messages };
    let mut effects = Vec::new();
    world.machines[at].node.as_mut().unwrap().step(now, Event::Peer(envelope), &mut effects);
    let sent = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send { to, envelope } if to == from => Some(envelope.messages),
        _ => None,
    });
    sent.flatten().find_map(|message| match message {
        Message::Held { id: of, birth: it, outcome } => {
            (of == id && it == birth).then_some(outcome)
        }
        _ => None,
    })
}

/// The number of an id whose group another node than 0 leads.
fn led_elsewhere(world: &World) -> (u8, usize) {
    let (_, map) = world.maps.last().unwrap().clone();
    let primary_of = |number: u8| {
        let id = ObjectId::pooled([number; 12], None);
        map.primary(Map::group_of(&id)).unwrap()
    };
    let number = (0..).find(|number| primary_of(*number) != Slot(0)).unwrap();
    (number, usize::from(primary_of(number).0))
}

/// An origin that had ended its commit without an answer told the next primary that it can never
/// have succeeded, though clients of other nodes had read the object: it was absent then. So did
/// one whose pool daemon had started again since, and had forgotten that.
#[test]
fn an_origin_that_ended_its_commit_without_an_answer_leaves_the_decision_to_the_holders() {
    let mut world = world();
    let (number, from) = led_elsewhere(&world);
    world.network.cut(Way { from, to: 0 });
    let no = put(&mut world, 0, number, 100);
    pass(&mut world, COMMIT_UNHEARD_MS + SLACK_MS);
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Err(Refusal::Unreachable))));

    let id = world.ids[0];
    let birth = world.history.entries[&no].birth.unwrap();
    assert_eq!(says_of(&mut world, 0, id, birth), Some(HoldOutcome::Absent));
    world.crash(0, false, 500).unwrap();
    pass(&mut world, 3_000);
    assert_eq!(says_of(&mut world, 0, id, birth), Some(HoldOutcome::Absent));
}

/// Of what was refused it says that it can never exist, whatever a primary finds of it.
#[test]
fn an_origin_whose_commit_was_refused_says_so() {
    let mut world = world();
    let (id, content) = (ObjectId::pooled([1; 12], None), Content::default());
    world.ids.push(id);
    let no = world.begin(1, Operation::Put { id, content, copies: 1, copies_min: 1 }).unwrap();
    pass(&mut world, 1_000);
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Ok(()))));
    let no = put(&mut world, 0, 1, 100);
    pass(&mut world, 1_000);
    let refused = Some(Outcome::Put(Err(Refusal::Exists)));
    assert_eq!(outcome(&world, no), refused, "{}", world.trace());
    let birth = world.history.entries[&no].birth.unwrap();
    assert_eq!(says_of(&mut world, 0, id, birth), Some(HoldOutcome::Withdrawn));
}

/// The whole story: a primary accepts an object and shows it to its clients, no other node hears of
/// that, the origin ends the commit, and both pool daemons start again. The next primary asks the
/// origin.
#[test]
fn an_object_that_clients_have_read_exists_after_its_origin_and_its_primary_started_again() {
    let mut world = world();
    let (number, primary) = led_elsewhere(&world);
    let third = 3 - primary;
    let no = put(&mut world, 0, number, 100);
    let id = world.ids[0];
    // All acting nodes have recorded that it is pending.
    let is_recorded = |world: &World| {
        let begins = |at: usize| {
            let start = format!("{at} <- Peer");
            world.trace().lines().any(|line| line.contains(&start) && line.contains("Pending"))
        };
        begins(0) && begins(third)
    };
    while !is_recorded(&world) {
        world.run_until(Mono(world.now.0 + 20), false).unwrap();
    }
    world.network.cut(Way { from: primary, to: third });
    // It fetches the object from the origin.
    while !world.trace().contains("Whole") {
        world.run_until(Mono(world.now.0 + 20), false).unwrap();
    }
    world.network.cut(Way { from: primary, to: 0 });
    pass(&mut world, 1_000);
    let read = world.begin(primary, Operation::Get { id, patient: false }).unwrap();
    pass(&mut world, 100);
    let birth = world.history.entries[&no].birth.unwrap();
    assert_eq!(outcome(&world, read), Some(Outcome::Read(birth)), "{}", world.trace());
    pass(&mut world, COMMIT_UNHEARD_MS + SLACK_MS);
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Err(Refusal::Unreachable))));
    world.crash(0, false, 200).unwrap();
    world.crash(primary, false, 500).unwrap();
    pass(&mut world, 5_000);
    for at in 0..3 {
        let read = world.begin(at, Operation::Get { id, patient: false }).unwrap();
        pass(&mut world, 2_000);
        assert_eq!(outcome(&world, read), Some(Outcome::Read(birth)), "{}", world.trace());
    }
    check_quiet(&mut world);
}

/// A primary refused an object and accepted it when the origin, which had not heard that, asked
/// again. The origin lost its lease, and the primary let the object exist without it, because
/// another node had a copy; then the origin heard the refusal, and told its client.
#[test]
fn what_its_origin_may_know_to_be_refused_does_not_come_to_exist_without_it() {
    let mut world = world_of(4);
    let (_, map) = world.maps.last().unwrap().clone();
    let group_of = |number: u8| map.group(Map::group_of(&ObjectId::pooled([number; 12], None)));
    let number = (0..).find(|number| !group_of(*number).acting.contains(&Slot(0))).unwrap();
    let acting: Vec<_> = group_of(number).acting.iter().map(|slot| usize::from(slot.0)).collect();
    let (primary, third) = (acting[0], acting[1]);
    let (id, content) = (ObjectId::pooled([number; 12], None), Content::default());
    world.ids.push(id);
    let first = Operation::Put { id, content, copies: 1, copies_min: 1 };
    world.begin(third, first).unwrap();
    pass(&mut world, 1_000);
    world.network.cut(Way { from: primary, to: 0 });
    let put = Operation::Put { id, content, copies: 4, copies_min: 1 };
    let no = world.begin(0, put).unwrap();
    pass(&mut world, 300);
    world.begin(third, Operation::Delete { id }).unwrap();
    pass(&mut world, 1_000);
    world.machines[0].reaches_etcd = false;
    pass(&mut world, 3_200);
    world.heal(Way { from: primary, to: 0 }).unwrap();
    pass(&mut world, 100);
    let refused = Some(Outcome::Put(Err(Refusal::Exists)));
    assert_eq!(outcome(&world, no), refused, "{}", world.trace());
    world.machines[0].reaches_etcd = true;
    check_quiet(&mut world);
    let get = world.begin(third, Operation::Get { id, patient: false }).unwrap();
    pass(&mut world, 1_000);
    let absent = Some(Outcome::Fate(Fate::Absent));
    assert_eq!(outcome(&world, get), absent, "{}", world.trace());
}

/// A put right after nodes had joined was acknowledged when they had its copies, and only the first
/// node its record. When that died the object was out of reach until an operator gave it up.
#[test]
fn what_is_acknowledged_while_nodes_join_outlives_the_first_one() {
    for pause_ms in [1, 2, 3, 5, 8, 20] {
        let three = |seed: &u64| World::new(*seed, None, 0).machines.len() == 3;
        let mut world = World::new((pause_ms..).find(three).unwrap(), None, 500);
        (world.slow_ms, world.bulk_loss) = (0, 0);
        world.start_all().unwrap();
        for at in 1..3 {
            world.crash(at, false, 1_000).unwrap();
        }
        pass(&mut world, 900);
        let mut puts = Vec::new();
        let done =
            |world: &World, no: &OperationNo| outcome(world, *no) == Some(Outcome::Put(Ok(())));
        while !puts.iter().any(|(_, no)| done(&world, no)) {
            let id = ObjectId::pooled([puts.len() as u8; 12], None);
            world.ids.push(id);
            let content = Content { data_bytes: 100, ..Content::default() };
            let put = Operation::Put { id, content, copies: 2, copies_min: 2 };
            puts.push((id, world.begin(0, put).unwrap()));
            pass(&mut world, pause_ms);
        }
        let acknowledged: Vec<_> = puts.iter().filter(|(_, no)| done(&world, no)).collect();
        world.crash(0, true, 60_000).unwrap();
        let get =
            |world: &mut World, id| world.begin(1, Operation::Get { id, patient: true }).unwrap();
        let gets: Vec<_> = acknowledged.iter().map(|(id, _)| get(&mut world, *id)).collect();
        pass(&mut world, 10_000);
        for no in gets {
            let outcome = outcome(&world, no);
            assert!(matches!(outcome, Some(Outcome::Read(_))), "{pause_ms}: {outcome:?}");
        }
    }
}

/// The store is told that an object has been found which it called absent, or which takes long to
/// bring: a client whose time is over meanwhile is not told that it does not exist.
#[test]
fn clients_are_told_of_an_object_that_is_on_its_way() {
    let mut world = world();
    world.bulk_loss = 100;
    let id = ObjectId::pooled([1; 12], None);
    world.ids.push(id);
    world.begin(1, Operation::Get { id, patient: true }).unwrap();
    pass(&mut world, 1_000);
    assert!(!world.trace().contains("tells Found"));
    let content = Content { data_bytes: 3_000_000, ..Content::default() };
    world.begin(0, Operation::Put { id, content, copies: 1, copies_min: 1 }).unwrap();
    pass(&mut world, 300);
    assert!(world.trace().contains("1 tells Found"), "{}", world.trace());
    world.bulk_loss = 0;
    check_quiet(&mut world);
}
