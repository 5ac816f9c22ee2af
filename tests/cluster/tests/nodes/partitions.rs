//! Nodes that lose each other: both ways, one way, and by a cable that is pulled out.

use std::thread;
use std::time::{Duration, Instant};

use plasmon_client::{Code, ObjectState};
use plasmon_testkit::until;

use crate::machines::{
    Machines, check, code_of, has, put, put_in_time, wait_until_gone, wait_until_there,
};
use crate::node::{LONG, NOW};

/// A node is given up after it was away for so long, its lease included.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(12);

/// Bytes of an object whose way through the network is seen in the counters of its links.
const LARGE: usize = 4 << 20;

#[test]
fn the_majority_goes_on_without_a_node_that_is_cut_off_and_it_comes_back_as_it_was() {
    let Some(machines) = Machines::start(3) else { return };
    let (nodes, network) = (&machines.nodes, &machines.network);
    let cut = machines.machine(2);
    let here: Vec<_> =
        (0..3).map(|n| put(&nodes[2], &format!("@prod:here{n}"), 2, LARGE).unwrap()).collect();
    let alone = put(&nodes[2], "@prod:alone", 1, 10_000).unwrap();
    let doomed = put(&nodes[2], "@prod:doomed", 2, 10_000).unwrap();
    let elsewhere = machines.put_without(0, 2, 20_000);

    network.cut(cut);
    let since = Instant::now();
    // One of three names is recorded by the node that is cut off: these wait for its lease's end.
    let after: Vec<_> =
        (0..6).map(|n| put(&nodes[0], &format!("@prod:after{n}"), 2, 30_000).unwrap()).collect();
    assert_eq!(nodes[1].client.delete(&[doomed.id]).unwrap(), [None]);
    for object in &here {
        check(&nodes[0], object, "a copy is elsewhere");
        check(&nodes[2], object, "it is here");
    }
    let received = network.received_bytes(cut);
    network.join(cut);
    let away = since.elapsed();

    for object in after.iter().chain(&here).chain([&elsewhere]) {
        wait_until_there(&nodes[2], object);
    }
    wait_until_gone(&nodes[2], &doomed);
    wait_until_there(&nodes[0], &alone);
    until("nothing is left of what was deleted", || {
        !nodes.iter().any(|node| has(node, &doomed.id))
    });
    if away < GIVEN_UP_AFTER {
        assert!(here.iter().all(|object| nodes[2].keeps(&object.id)));
        let moved = network.received_bytes(cut) - received;
        assert!(moved < LARGE as u64, "{moved} bytes went to the node that came back");
    }
    let later = put_in_time(&nodes[2], "@prod:later", 2, 1_000);
    nodes.iter().for_each(|node| check(node, &later, "after all"));
}

#[test]
#[ignore = "takes half a minute; scripts/test.py network"]
fn a_node_that_is_cut_off_says_unreachable_and_never_absent() {
    let Some(machines) = Machines::start(3) else { return };
    let (nodes, network) = (&machines.nodes, &machines.network);
    let here = put(&nodes[2], "@prod:here", 2, LARGE).unwrap();
    let elsewhere = machines.put_without(0, 2, 20_000);
    let never = plasmon_client::Name::new("", "@prod:never").unwrap().id();
    let name = plasmon_client::Name::new("", "@prod:while-cut").unwrap();

    network.cut(machines.machine(2));
    thread::scope(|scope| {
        for id in [elsewhere.id, never] {
            for timeout in [NOW, LONG, None] {
                let node = &nodes[2];
                scope.spawn(move || {
                    let got = code_of(node.client.get(&id, timeout));
                    // A get that does not wait ends before it is known that nothing answers.
                    let is_timed_out = timeout == NOW && got == Some(Code::TimedOut);
                    assert!(is_timed_out || got == Some(Code::Unreachable), "{got:?}");
                });
            }
        }
        scope.spawn(|| {
            let states = nodes[2].client.states(&[elsewhere.id, never, here.id]).unwrap();
            let unreachable = ObjectState::Unreachable;
            assert_eq!(states[..2], [unreachable, unreachable]);
        });
        scope.spawn(|| check(&nodes[2], &here, "it is here"));
        scope.spawn(|| {
            let outcomes = nodes[2].client.delete(&[elsewhere.id]).unwrap();
            assert_eq!(outcomes, [Some(Code::Unreachable)]);
        });
        scope.spawn(|| {
            let error = put(&nodes[2], "@prod:while-cut", 1, 100).unwrap_err();
            assert_eq!(error.code(), Code::Unreachable, "{error}");
        });
    });
    // It is given up meanwhile, and its copies are made again.
    until("there are two copies without it", || nodes[..2].iter().all(|node| node.keeps(&here.id)));
    network.join(machines.machine(2));
    wait_until_there(&nodes[2], &elsewhere);
    until("it says again that there is no such object", || {
        code_of(nodes[2].client.get(&never, NOW)) == Some(Code::Absent)
    });
    // A put that ended as unreachable may have come through; all nodes say the same of it.
    let found: Vec<_> =
        nodes.iter().map(|node| code_of(node.client.get(&name.id(), NOW))).collect();
    assert!(found.iter().all(|code| *code == found[0]), "{found:?}");
    wait_until_there(&nodes[2], &here);
}
