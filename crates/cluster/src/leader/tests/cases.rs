//! Joining, losing, draining and refusing, one case at a time.

use super::super::*;
use super::model::Pool;
use crate::admission::RefusalReason;
use crate::fixtures::{map_of, member, up};
use crate::limits::{GROUPS, NODES_MAX};
use crate::node::{NodeLog, NodeUuid, ProtocolRange};

fn decide(map: &Map, members: &[Member]) -> Decision {
    let observation = Observation {
        map,
        members,
        activations: &[],
        drained: &[],
        commands: &[],
        reach: Reach::default(),
    };
    Leader::new(OUT_AFTER_MS).step(0, &observation)
}

fn refused(map: &Map, members: &[Member]) -> Vec<RefusalReason> {
    decide(map, members).refusals.into_iter().map(|refusal| refusal.reason).collect()
}

#[test]
fn the_first_map_has_every_member_and_all_groups() {
    let members: Vec<Member> = (0..4).map(member).collect();
    let map = decide(&Map::default(), &members).proposal.unwrap();
    assert_eq!((map.epoch(), map.next_slot()), (Epoch(1), Slot(4)));
    assert!(map.nodes().all(|(_, node)| node.state == NodeState::Up));
    assert!(map.groups().all(|(_, group)| group.acting.len() == 3 && group.is_settled()));
    assert_eq!(
        decide(&map, &members),
        Decision {
            proposal: None,
            refusals: vec![],
            command_errors: vec![],
            alarm: None,
            fence: BTreeSet::new(),
            deadline_ms: None,
        }
    );
}

#[test]
fn a_node_keeps_its_slot_and_a_new_one_gets_the_next() {
    let mut pool = Pool::new(3, GROUPS);
    pool.lose(1);
    pool.settle(&[], &[]);
    pool.now_ms = OUT_AFTER_MS;
    pool.settle(&[], &[]);
    assert_eq!(pool.state(1), Some(NodeState::Out));
    pool.restart(1);
    pool.settle(&[], &[]);
    assert_eq!((pool.slot(1), pool.state(1)), (Some(Slot(1)), Some(NodeState::Up)));
    // Forgotten, it is a new node.
    pool.lose(1);
    pool.settle(&[], &[]);
    pool.settle(&[], &[Command::Forget(Slot(1))]);
    assert_eq!(pool.slot(1), None);
    pool.come_back(1);
    pool.settle(&[], &[]);
    assert_eq!(pool.slot(1), Some(Slot(3)));
}

#[test]
fn a_lost_node_is_replaced_after_a_while_and_not_before() {
    let mut pool = Pool::new(5, GROUPS);
    pool.lose(2);
    pool.settle(&[], &[]);
    assert_eq!(pool.state(2), Some(NodeState::Down));
    assert!(pool.map.groups().all(|(_, group)| !group.acting.contains(&Slot(2))));
    let short = pool.map.groups().filter(|(_, group)| group.acting.len() == 2).count();
    assert!(short > 400, "its groups have two nodes: {short}");
    pool.now_ms = OUT_AFTER_MS - 1;
    pool.settle(&[], &[]);
    assert_eq!(pool.state(2), Some(NodeState::Down));
    pool.now_ms = OUT_AFTER_MS;
    pool.settle(&[], &[]);
    assert_eq!(pool.state(2), Some(NodeState::Out));
    let joining = pool.map.groups().filter(|(_, group)| !group.joining().is_empty()).count();
    assert_eq!(joining, short, "they are filled up");
    assert!(pool.map.groups().all(|(_, group)| group.acting.len() == 3));
}

#[test]
fn a_step_says_when_to_step_again() {
    let map = map_of((0..4).map(member).collect(), &[0, 1]);
    let members: Vec<Member> = (0..3).map(member).collect();
    let observation = Observation {
        map: &map,
        members: &members,
        activations: &[],
        drained: &[],
        commands: &[],
        reach: Reach::default(),
    };
    let mut leader = Leader::new(4000);
    assert_eq!(leader.step(100, &observation).deadline_ms, Some(4100));
    let down = leader.step(200, &observation).proposal.unwrap();
    let observation = Observation { map: &down, ..observation };
    assert_eq!(leader.step(300, &observation).deadline_ms, Some(4100), "from the first time");
    let out = leader.step(4100, &observation);
    assert_eq!(out.deadline_ms, Some(300 + SILENT_AFTER_MS), "from the map that has it down");
    assert_eq!(out.proposal.unwrap().node(Slot(3)).unwrap().state, NodeState::Out);
}

/// A node that came back takes its groups again once it has their records, and leads them once the
/// node that led them meanwhile has stopped.
#[test]
fn a_node_that_comes_back_takes_its_groups_after_activation() {
    let mut pool = Pool::new(3, GROUPS);
    let led = |pool: &Pool, slot| {
        pool.map.groups().filter(|(_, group)| group.primary() == Some(slot)).count()
    };
    let before = led(&pool, Slot(0));
    pool.lose(0);
    pool.settle(&[], &[]);
    pool.come_back(0);
    pool.settle(&[], &[]);
    assert_eq!(pool.state(0), Some(NodeState::Up));
    assert_eq!(led(&pool, Slot(0)), 0);
    assert!(pool.map.groups().all(|(_, group)| group.joining() == [Slot(0)]));
    let activations = pool.activate(|_| true);
    pool.settle(&activations, &[]);
    assert_eq!(led(&pool, Slot(0)), before);
    let handed = pool.map.groups().filter(|(_, group)| group.prior.is_some()).count();
    assert_eq!(handed, before, "the node that led is named, so that it is asked");
    let activations = pool.activate(|_| true);
    pool.settle(&activations, &[]);
    assert!(pool.map.groups().all(|(_, group)| group.is_settled()));
}

/// A report that arrives after its group has changed says nothing of the nodes it has now.
#[test]
fn a_late_report_changes_nothing() {
    let mut pool = Pool::new(3, GROUPS);
    pool.lose(0);
    pool.settle(&[], &[]);
    pool.come_back(0);
    pool.settle(&[], &[]);
    let activations = pool.activate(|_| true);
    pool.restart(0);
    pool.settle(&[], &[]);
    let before = pool.map.clone();
    pool.settle(&activations, &[]);
    assert_eq!(pool.map, before);
    assert!(pool.map.groups().all(|(_, group)| group.joining() == [Slot(0)]));
}

/// A drained node that was stopped counted as lost: it was down for as long as others, and two of
/// them within half a minute kept every node from being given up.
#[test]
fn a_drained_node_that_leaves_is_out_at_once_and_drains_on_when_it_is_back() {
    let mut pool = Pool::new(4, GROUPS);
    pool.has_copies = true;
    pool.settle(&[], &[Command::Drain(Slot(2)), Command::Drain(Slot(3))]);
    for _ in 0..5 {
        let activations = pool.activate(|_| true);
        pool.settle(&activations, &[]);
    }
    let is_empty =
        |pool: &Pool, slot| pool.map.groups().all(|(_, group)| !group.acting.contains(&Slot(slot)));
    assert!(is_empty(&pool, 2) && is_empty(&pool, 3));
    assert_eq!(pool.state(3), Some(NodeState::Draining));
    pool.has_copies = false;
    pool.settle(&[], &[]);
    assert_eq!(pool.state(3), Some(NodeState::Draining), "it serves as long as it is there");
    pool.lose(2);
    pool.lose(3);
    pool.settle(&[], &[]);
    assert_eq!([pool.state(2), pool.state(3)], [Some(NodeState::Out); 2]);
    assert_eq!(pool.alarm, None);
    pool.restart(3);
    pool.settle(&[], &[]);
    assert_eq!(pool.state(3), Some(NodeState::Draining), "a restart does not fill it again");
    assert!(is_empty(&pool, 3));
    pool.settle(&[], &[Command::Undrain(Slot(3))]);
    assert_eq!(pool.state(3), Some(NodeState::Up));
}

#[test]
fn a_draining_node_that_was_lost_goes_on_draining() {
    let mut pool = Pool::new(4, GROUPS);
    pool.has_copies = true;
    pool.settle(&[], &[Command::Drain(Slot(3))]);
    pool.lose(3);
    pool.settle(&[], &[]);
    assert_eq!(pool.state(3), Some(NodeState::Down));
    pool.come_back(3);
    pool.settle(&[], &[]);
    assert_eq!(pool.state(3), Some(NodeState::Draining));
}

/// The only node with records drains: it leads until another node has them.
#[test]
fn the_last_node_in_sync_is_not_let_go() {
    let mut pool = Pool::new(2, GROUPS);
    pool.lose(1);
    pool.settle(&[], &[]);
    pool.settle(&[], &[Command::Drain(Slot(0))]);
    pool.come_back(1);
    pool.settle(&[], &[]);
    assert!(pool.map.groups().all(|(_, group)| group.in_sync() == [Slot(0)]));
    let activations = pool.activate(|_| true);
    pool.settle(&activations, &[]);
    assert!(pool.map.groups().all(|(_, group)| group.acting == [Slot(1)]));
    assert!(pool.map.groups().all(|(_, group)| group.prior == Some(Slot(0))));
    let activations = pool.activate(|_| true);
    pool.settle(&activations, &[]);
    assert!(pool.map.groups().all(|(_, group)| group.prior.is_none()));
}

#[test]
fn when_many_are_lost_none_is_given_up() {
    let mut pool = Pool::new(8, GROUPS);
    (0..3).for_each(|number| pool.lose(number));
    pool.settle(&[], &[]);
    pool.now_ms += 100 * OUT_AFTER_MS;
    pool.settle(&[], &[]);
    let alarm = pool.alarm.clone().unwrap();
    assert_eq!((alarm.lost, alarm.lost_max), ([0, 1, 2].map(Slot).to_vec(), 2));
    assert!((0..3).all(|number| pool.state(number) == Some(NodeState::Down)));
    // One returns: the two others are borne, and go out when they have been down for long.
    pool.come_back(1);
    pool.settle(&[], &[]);
    assert_eq!((pool.alarm.clone(), pool.state(0)), (None, Some(NodeState::Down)));
    pool.now_ms += OUT_AFTER_MS;
    pool.settle(&[], &[]);
    assert_eq!(pool.state(0), Some(NodeState::Out));
}

/// etcd ended every lease at once. All nodes come back with what they had.
#[test]
fn a_mass_revocation_moves_nothing() {
    let mut pool = Pool::new(5, GROUPS);
    (0..5).for_each(|number| pool.lose(number));
    pool.settle(&[], &[]);
    assert_eq!(pool.alarm.as_ref().unwrap().dead_groups, GROUPS);
    let acting = |pool: &Pool| -> Vec<Vec<Slot>> {
        pool.map.groups().map(|(_, group)| group.acting.clone()).collect()
    };
    let before = acting(&pool);
    (0..5).for_each(|number| pool.come_back(number));
    pool.settle(&[], &[]);
    assert_eq!((pool.alarm.clone(), acting(&pool)), (None, before));
    assert!(pool.map.groups().all(|(_, group)| group.is_settled()));
}

/// The last node that had the records of a group is forgotten: others rebuild them.
#[test]
fn records_are_rebuilt_when_their_last_node_is_forgotten_or_restarts() {
    let mut pool = Pool::new(2, GROUPS);
    pool.lose(0);
    pool.settle(&[], &[]);
    pool.lose(1);
    pool.come_back(0);
    pool.settle(&[], &[]);
    assert!(pool.alarm.is_some(), "0 is not promoted: it has missed what 1 recorded");
    assert!(pool.map.groups().all(|(_, group)| group.acting == [Slot(1)] && group.in_sync == 1));
    let mut restarted = pool.clone();
    restarted.restart(1);
    restarted.settle(&[], &[]);
    assert!(restarted.map.groups().all(|(_, g)| g.acting == [Slot(1)] && g.in_sync == 0));
    pool.settle(&[], &[Command::Forget(Slot(1))]);
    assert!(pool.map.groups().all(|(_, g)| g.acting == [Slot(0)] && g.in_sync == 0));
    assert_eq!(pool.alarm, None);
}

#[test]
fn commands_that_cannot_be_carried_out_say_why() {
    let map = map_of((0..2).map(member).collect(), &[0, 1]);
    let members: Vec<Member> = (0..2).map(member).collect();
    let commands = [Command::Forget(Slot(0)), Command::Drain(Slot(9))];
    let observation = Observation {
        map: &map,
        members: &members,
        activations: &[],
        drained: &[],
        commands: &commands,
        reach: Reach::default(),
    };
    let errors = Leader::new(OUT_AFTER_MS).step(0, &observation).command_errors;
    assert_eq!(errors, [CommandError::HoldsLease(Slot(0)), CommandError::Unknown(Slot(9))]);
}

#[test]
fn members_that_cannot_join_are_told_why() {
    let map = map_of((0..2).map(member).collect(), &[0, 1]);
    let with = |other: Member| [member(0), other, member(1)];
    let own = ProtocolRange { min: 3, max: 4 };
    let table = [
        (Member { name: "n1".into(), ..member(2) }, RefusalReason::Name { slot: Slot(1) }),
        (Member { incarnation: 2, ..member(1) }, RefusalReason::Uuid),
        (
            Member { protocol: own, ..member(2) },
            RefusalReason::Protocol { own, pool_min: 1, pool_max: 2 },
        ),
    ];
    for (other, reason) in table {
        assert_eq!(refused(&map, &with(other)), [reason]);
    }
    let long = Member { name: "n".repeat(65), ..member(2) };
    assert!(matches!(refused(&map, &with(long))[..], [RefusalReason::Member(_)]));
    let mut used_up = map;
    used_up.next_slot = Slot::NONE;
    assert_eq!(refused(&used_up, &with(member(2))), [RefusalReason::Slots]);
}

/// A node that changes what it says, and says something wrong, still holds its lease: others must
/// not lead its groups.
#[test]
fn a_node_with_a_bad_change_stays_as_it_was() {
    let map = map_of((0..2).map(member).collect(), &[0, 1]);
    let heavy = Member { weight: u32::MAX, ..member(0) };
    let decision = decide(&map, &[heavy.clone(), member(1)]);
    assert_eq!(decision.refusals.len(), 1);
    let map = decision.proposal.unwrap_or(map);
    assert_eq!(map.node(Slot(0)).unwrap(), &up(member(0)));
    let restarted = Member { incarnation: 2, ..heavy };
    let map = decide(&map, &[restarted, member(1)]).proposal.unwrap();
    assert_eq!(map.node(Slot(0)).unwrap().state, NodeState::Down);
}

/// The copies there do not count from then on, and the node goes on.
#[test]
fn a_log_that_fails_is_in_the_next_map() {
    let map = map_of((0..2).map(member).collect(), &[0, 1]);
    let failed = Member { log: NodeLog::Failed, ..member(0) };
    let map = decide(&map, &[failed.clone(), member(1)]).proposal.unwrap();
    assert_eq!(map.node(Slot(0)).unwrap(), &up(failed));
}

#[test]
fn a_full_map_takes_no_node_before_one_is_forgotten() {
    let members: Vec<Member> = (0..=NODES_MAX as u16).map(member).collect();
    let map = map_of(members[..NODES_MAX].to_vec(), &[0, 1]);
    assert_eq!(refused(&map, &members), [RefusalReason::Nodes]);
    let commands = [Command::Forget(Slot(5))];
    let present: Vec<Member> = members.iter().filter(|m| m.name != "n5").cloned().collect();
    let observation = Observation {
        map: &map,
        members: &present,
        activations: &[],
        drained: &[],
        commands: &commands,
        reach: Reach::default(),
    };
    let map = Leader::new(OUT_AFTER_MS).step(0, &observation).proposal.unwrap();
    let map = decide(&map, &present).proposal.unwrap();
    assert_eq!(map.slot_of(members[NODES_MAX].uuid), Some(Slot(NODES_MAX as u16)));
}

/// Of two new members with one uuid the first stays, whatever their names; of two with one name,
/// too. A node that is in the map stays against both.
#[test]
fn of_two_with_one_uuid_or_name_the_first_stays() {
    let twins = [member(0), Member { name: "copy".into(), incarnation: 2, ..member(0) }];
    let decision = decide(&Map::default(), &twins);
    assert_eq!(decision.refusals.len(), 1);
    assert_eq!(decision.refusals[0].name, "copy");
    let map = decision.proposal.unwrap();
    let backwards = [twins[1].clone(), twins[0].clone()];
    assert_eq!(decide(&map, &backwards).refusals, decision.refusals);

    let same_name = [Member { name: "n0".into(), ..member(1) }, member(0)];
    let other = NodeUuid(member(0).uuid.0);
    assert_eq!(decide(&Map::default(), &same_name).refusals[0].uuid, other);
    assert_eq!(decide(&map, &same_name).refusals[0].uuid, member(1).uuid);
}

#[test]
fn a_name_can_be_taken_from_a_node_that_is_out() {
    let mut map = map_of((0..4).map(member).collect(), &[0, 1]);
    map.nodes.get_mut(&Slot(3)).unwrap().state = NodeState::Out;
    let mut members: Vec<Member> = (0..3).map(member).collect();
    members.push(Member { name: "n3".into(), ..member(9) });
    let decision = decide(&map, &members);
    assert_eq!(decision.refusals, []);
    let map = decision.proposal.unwrap();
    map.check().unwrap();
    members.push(member(3));
    assert_eq!(refused(&map, &members), [RefusalReason::Name { slot: Slot(4) }]);
}
