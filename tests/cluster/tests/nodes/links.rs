//! Links that are bad: one direction blocked, a cable pulled out, and a slow one.

use std::thread;

use plasmon_client::{Code, Name, PutOptions};
use plasmon_testkit::{pattern, until};

use crate::machines::{Machines, check, code_of, put, put_in_time, wait_until_there};
use crate::node::{LONG, NOW};
use crate::operator::Operator;
use crate::stranger::Knowledge;

/// Bytes of an object that is on its way for a while.
const LARGE: usize = 32 << 20;

/// What a link lets through that makes a large get last for a second or more.
const MBIT_PER_S: u32 = 200;

#[test]
fn a_large_get_goes_on_from_another_holder_after_the_cable_of_one_is_pulled_out() {
    let Some(machines) = Machines::start(3) else { return };
    let (nodes, network) = (&machines.nodes, &machines.network);
    let object = machines.put_without(1, 0, LARGE);
    let holders = [machines.machine(1), machines.machine(2)];
    holders.iter().for_each(|machine| network.limit(*machine, MBIT_PER_S));
    let sent_before = holders.map(|machine| network.sent_bytes(machine));

    let source = thread::scope(|scope| {
        let getting = scope.spawn(|| check(&nodes[0], &object, "from the other holder"));
        let mut sent = [0; 2];
        until("a part of it was sent", || {
            sent = [0, 1].map(|at| network.sent_bytes(holders[at]) - sent_before[at]);
            sent.iter().max() > Some(&(LARGE as u64 / 8))
        });
        let source = holders[usize::from(sent[1] > sent[0])];
        network.unplug(source);
        getting.join().unwrap();
        source
    });
    network.plug(source);
    let node = &nodes[source - 1];
    let later = put_in_time(&nodes[0], "@prod:later", 1, 10_000);
    wait_until_there(node, &later);
    let own = put_in_time(node, "@prod:own", 1, 10_000);
    wait_until_there(&nodes[0], &own);
}

#[test]
#[ignore = "takes half a minute; scripts/test.py network"]
fn a_one_way_partition_of_two_nodes_leaves_nothing_waiting() {
    let Some(machines) = Machines::start(3) else { return };
    let (nodes, network) = (&machines.nodes, &machines.network);
    // Once the side that connects cannot send, once the side that accepts.
    for (from, to) in [(0, 1), (1, 0)] {
        let label = |text: &str| format!("@prod:{text}{from}");
        // The third node has it, and its records.
        let of_both = (0..)
            .map(|number| machines.put_without(1, 0, 100_000 + 100 * from + number))
            .find(|object| Knowledge::read(&machines.etcd).primary(&object.id) == 2)
            .unwrap();
        let alone: Vec<_> = (0..2)
            .map(|at| put(&nodes[at], &label(&format!("alone{at}.")), 1, 5_000).unwrap())
            .collect();

        thread::scope(|scope| {
            let block = network.block(machines.machine(from), machines.machine(to));
            // They wait until it is decided which of the two stops, or until the links are back.
            for at in [0, 1] {
                let (node, text) = (&nodes[at], label(&format!("while{at}.")));
                scope.spawn(move || match put(node, &text, 2, 20_000) {
                    Ok(object) => check(node, &object, "it was put"),
                    Err(error) => assert!(
                        matches!(error.code(), Code::Unreachable | Code::NotEnoughNodes),
                        "{error}"
                    ),
                });
            }
            thread::scope(|scope| {
                scope.spawn(|| check(&nodes[0], &of_both, "the third node has it, too"));
                for (node, object) in [(&nodes[0], &alone[1]), (&nodes[1], &alone[0])] {
                    scope.spawn(move || {
                        let got = code_of(node.client.get(&object.id, LONG));
                        assert!(matches!(got, None | Some(Code::Unreachable)), "{got:?}");
                    });
                }
                // What has nothing to do with these two nodes together goes on.
                scope.spawn(|| alone.iter().for_each(|object| check(&nodes[2], object, "third")));
            });
            drop(block);
        });

        wait_until_there(&nodes[0], &alone[1]);
        wait_until_there(&nodes[1], &alone[0]);
        put_everywhere(&machines, &label("healed"));
    }
}

/// Names whose records need two nodes that do not reach each other could not be put for as long as
/// both held their leases: such puts ended as unreachable after a minute.
#[test]
#[ignore = "takes half a minute; scripts/test.py network"]
fn of_two_nodes_that_do_not_reach_each_other_one_stops_and_puts_go_on() {
    let Some(machines) = Machines::start(3) else { return };
    let (nodes, network) = (&machines.nodes, &machines.network);
    let operator = Operator::of(&machines.etcd);
    let live = || Knowledge::read(&machines.etcd).live();
    until("all groups are complete", || operator.status()["groups_settled"] == 1024);
    let put_on = |at: usize, text: &str| -> Vec<_> {
        (0..6).map(|n| put(&nodes[at], &format!("@prod:{text}{at}.{n}"), 2, 20_000)).collect()
    };
    let before: Vec<_> =
        (0..3).flat_map(|at| put_on(at, "before")).collect::<Result<_, _>>().unwrap();

    let blocks = [(1, 2), (2, 1)]
        .map(|(from, to)| network.block(machines.machine(from), machines.machine(to)));
    let during = put_on(0, "during");
    until("one of the two has stopped", || live().len() == 2);
    assert_eq!(live(), [0, 1], "the leader stays, and then the lower slot");
    let after: Vec<_> =
        [0, 1].into_iter().flat_map(|at| put_on(at, "after")).collect::<Result<_, _>>().unwrap();
    let objects = || before.iter().chain(&after).chain(during.iter().flatten());
    objects().for_each(|object| check(&nodes[0], object, "it was acknowledged"));
    until("an operator sees it", || {
        let found = operator.pool(&["nodes"]).unwrap();
        found["nodes"][2]["unreached"] == serde_json::json!(["node1"])
    });
    assert_eq!(operator.status()["unreached"], serde_json::json!([["node1", "node2"]]));
    check(&nodes[2], &before[12], "it is here");
    let error = put(&nodes[2], "@prod:stopped", 2, 100).unwrap_err();
    assert_eq!(error.code(), Code::Unreachable, "{error}");
    assert_eq!(live(), [0, 1], "it does not come back meanwhile");

    drop(blocks);
    until("it takes part again", || live().len() == 3);
    for object in objects() {
        nodes.iter().for_each(|node| wait_until_there(node, object));
    }
    put_everywhere(&machines, "@prod:healed");
    assert_eq!(live(), [0, 1, 2]);
}

/// A put whose records two nodes keep that do not reach each other waited for as long as both held
/// their leases. Where nodes do not report each other it ends.
#[test]
#[ignore = "takes more than a minute; scripts/test.py network"]
fn every_put_ends_while_two_nodes_do_not_reach_each_other() {
    let Some(machines) = Machines::start_with(3, &["--pool-suspect-ms", "0"]) else { return };
    let (nodes, network) = (&machines.nodes, &machines.network);
    let blocks = [(0, 1), (1, 0)]
        .map(|(from, to)| network.block(machines.machine(from), machines.machine(to)));
    let puts: Vec<_> = (0..18).map(|number| (number % 3, format!("@prod:cut{number}"))).collect();
    let outcomes = thread::scope(|scope| {
        let begin = |(at, text): &(usize, String)| {
            let client = nodes[*at].connect();
            let name = Some(Name::new("", text.as_str()).unwrap());
            let options = PutOptions { name, copies: 2, ..PutOptions::default() };
            scope.spawn(move || client.put(&pattern(3, 30_000), &options).map_err(|it| it.code()))
        };
        let putting: Vec<_> = puts.iter().map(begin).collect();
        putting.into_iter().map(|putting| putting.join().unwrap()).collect::<Vec<_>>()
    });
    let is_right = |outcome: &&Result<_, Code>| matches!(outcome, Ok(_) | Err(Code::Unreachable));
    assert!(outcomes.iter().all(|outcome| is_right(&outcome)), "{outcomes:?}");
    assert!(outcomes.iter().any(Result::is_ok), "one node reaches both");
    assert!(outcomes.contains(&Err(Code::Unreachable)), "the block is not noticed");
    drop(blocks);
    // Each name has one object, or can be put.
    for ((at, text), outcome) in puts.iter().zip(outcomes) {
        until("a name is decided about", || match put(&nodes[*at], text, 2, 1_000) {
            Ok(_) => outcome.is_err(),
            Err(error) => error.code() == Code::Exists,
        });
    }
    put_everywhere(&machines, "@prod:healed");
}

/// A get over a link that takes more than 300 ms for a segment of 1 MiB began again and again, and
/// ended as unreachable.
#[test]
#[ignore = "takes some seconds; scripts/test.py network"]
fn a_slow_link_delays_what_goes_over_it_and_nothing_else() {
    let Some(machines) = Machines::start(3) else { return };
    let (nodes, network) = (&machines.nodes, &machines.network);
    let of_slow = put(&nodes[2], "@prod:of-slow", 1, 8 << 20).unwrap();
    let of_both = machines.put_without(2, 0, 4 << 20);
    let of_quick: Vec<_> =
        (0..10).map(|n| put(&nodes[1], &format!("@prod:quick{n}"), 1, 100_000).unwrap()).collect();
    network.limit(machines.machine(2), 20);
    thread::scope(|scope| {
        // More than three seconds at best.
        let slow = scope.spawn(|| check(&nodes[0], &of_slow, "over the slow link"));
        // Some of these are asked about over the slow link, as it has the records of their names.
        of_quick.iter().for_each(|object| check(&nodes[0], object, "over quick links"));
        assert!(!slow.is_finished(), "what goes over quick links does not wait for it");
        slow.join().unwrap();
    });
    check(&nodes[0], &of_both, "one of its holders is slow");
    put_everywhere(&machines, "@prod:later");
}

/// An object with three copies is put on each node, and got on all.
fn put_everywhere(machines: &Machines, text: &str) {
    for (at, node) in machines.nodes.iter().enumerate() {
        let object = put_in_time(node, &format!("{text}.{at}"), 3, 10_000);
        machines.nodes.iter().for_each(|node| check(node, &object, text));
        assert_eq!(node.client.delete(&[object.id]).unwrap(), [None]);
        until("it is gone", || {
            let gone = |code| matches!(code, Some(Code::Absent | Code::Deleted));
            machines.nodes.iter().all(|node| gone(code_of(node.client.get(&object.id, NOW))))
        });
    }
}
