//! That every put ends, whatever its node waits for.

use plasmon_cluster::{Map, Slot};
use plasmon_proto::ObjectId;

use crate::event::{Effect, Event, Refusal};
use crate::limits::{COMMIT_STUCK_MS, COMMIT_UNHEARD_MS};
use crate::message::{Envelope, HoldOutcome, Message};
use crate::record::{Birth, Content};

use super::history::{Operation, OperationNo};
use super::network::Way;
use super::store::Outcome;
use super::world::World;

/// Beyond the limit of a wait: a lease, and what is asked again.
const SLACK_MS: u64 = 5_000;

/// A pool of three machines at rest.
fn world() -> World {
    let three = |seed: &u64| *seed % 2 == 1 && World::new(*seed, None, 0).machines.len() == 3;
    let mut world = World::new((0..).find(three).unwrap(), None, 500);
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

/// An origin that had ended its commit without an answer told the next primary that it can never
/// have succeeded, though clients of other nodes had read the object: it was absent then.
#[test]
fn an_origin_that_ended_its_commit_without_an_answer_leaves_the_decision_to_the_holders() {
    let mut world = world();
    let (_, map) = world.maps.last().unwrap().clone();
    let primary_of = |number: &u8| {
        let id = ObjectId::pooled([*number; 12], None);
        map.primary(Map::group_of(&id)).unwrap()
    };
    let number = (0..).find(|number| primary_of(number) != Slot(0)).unwrap();
    let from = primary_of(&number);
    world.network.cut(Way { from: usize::from(from.0), to: 0 });
    let no = put(&mut world, 0, number, 100);
    pass(&mut world, COMMIT_UNHEARD_MS + SLACK_MS);
    assert_eq!(outcome(&world, no), Some(Outcome::Put(Err(Refusal::Unreachable))));

    let id = world.ids[0];
    let known = world.history.entries[&no].birth.unwrap();
    let unknown = Birth { serial: known.serial + 1, ..known };
    let (now, incarnation) = (world.now, world.machines[usize::from(from.0)].incarnation);
    let node = world.machines[0].node.as_mut().unwrap();
    for (birth, wanted) in [(known, HoldOutcome::Absent), (unknown, HoldOutcome::Withdrawn)] {
        let (content, sources) = (Content::default(), Vec::new());
        let messages = vec![Message::Hold { id, birth, content, sources, live: false }];
        let envelope = Envelope { epoch: map.epoch(), from, incarnation, messages };
        let mut effects = Vec::new();
        node.step(now, Event::Peer(envelope), &mut effects);
        let held = Message::Held { id, birth, outcome: wanted };
        let says = |effect: &Effect| match effect {
            Effect::Send { to, envelope } => *to == from && envelope.messages.contains(&held),
            _ => false,
        };
        assert!(effects.iter().any(says), "{wanted:?}: {effects:?}");
    }
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
