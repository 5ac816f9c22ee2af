//! Two nodes whose connections go through a relay of the test: slow, reset in the middle of a
//! frame, and half-open.

use std::thread;
use std::time::Duration;

use plasmon_client::Code;
use plasmon_testkit::until;

use crate::machines::{Machines, check, code_of, put, put_in_time, wait_until_there};
use crate::node::LONG;
use crate::relay::Relay;
use crate::stranger::Knowledge;

/// Bytes of an object that is many frames long.
const LARGE: usize = 16 << 20;

/// Three nodes, and a relay for what the first connects to the second.
fn start() -> Option<(Relay, Machines)> {
    let machines = Machines::start(3)?;
    let to = Knowledge::read(&machines.etcd).address(1);
    let relay = Relay::start(&machines, 0, to);
    let object = put_in_time(&machines.nodes[1], "@prod:first", 1, 100_000);
    wait_until_there(&machines.nodes[0], &object);
    // Links that were there before the relay have ended.
    let before = relay.bytes();
    let object = put_in_time(&machines.nodes[1], "@prod:second", 1, 100_000);
    wait_until_there(&machines.nodes[0], &object);
    assert!(relay.bytes() >= before + 100_000, "what the nodes say goes through the relay");
    Some((relay, machines))
}

#[test]
#[ignore = "takes some seconds; scripts/test.py network"]
fn a_delay_of_every_byte_delays_and_breaks_nothing() {
    let Some((relay, machines)) = start() else { return };
    let nodes = &machines.nodes;
    relay.delay(Duration::from_millis(150));
    let object = put(&nodes[1], "@prod:large", 1, LARGE).unwrap();
    check(&nodes[0], &object, "over the delayed link");
    for number in 0..5 {
        let object = put(&nodes[0], &format!("@prod:{number}"), 3, 1_000).unwrap();
        nodes.iter().for_each(|node| check(node, &object, "with copies over the delayed link"));
        assert_eq!(nodes[1].client.delete(&[object.id]).unwrap(), [None]);
    }
}

#[test]
#[ignore = "takes some seconds; scripts/test.py network"]
fn connections_that_are_reset_anywhere_lose_nothing() {
    let Some((relay, machines)) = start() else { return };
    let nodes = &machines.nodes;
    for (number, bytes) in [0, 1, 27, 28, 1_000, 100_001, 3 << 20, 7 << 20].into_iter().enumerate()
    {
        let alone = put(&nodes[1], &format!("@prod:alone{number}"), 1, LARGE).unwrap();
        relay.reset_after(bytes);
        let got = nodes[0].client.get(&alone.id, LONG).unwrap();
        assert!(got.data() == alone.data, "after {bytes} bytes");
        assert!(relay.has_reset(), "after {bytes} bytes");
        drop(got);
        let other = put_in_time(&nodes[0], &format!("@prod:other{number}"), 3, 10_000);
        nodes.iter().for_each(|node| check(node, &other, "after a reset"));
        assert_eq!(nodes[0].client.delete(&[alone.id, other.id]).unwrap(), [None, None]);
    }
}

/// Both nodes take the connection for alive, and hear nothing from each other.
#[test]
#[ignore = "takes half a minute; scripts/test.py network"]
fn connections_that_are_half_open_leave_nothing_waiting() {
    let Some((relay, machines)) = start() else { return };
    let nodes = &machines.nodes;
    let of_both = machines.put_without(1, 0, LARGE);
    let alone = put(&nodes[1], "@prod:alone", 1, 10_000).unwrap();
    // In the middle of a transfer.
    thread::scope(|scope| {
        let before = relay.bytes();
        let getting = scope.spawn(|| check(&nodes[0], &of_both, "the third node has it, too"));
        until("a part came, or all of it from the other one", || {
            relay.bytes() > before + 10_000 || getting.is_finished()
        });
        relay.hold(true);
        scope.spawn(|| {
            let got = code_of(nodes[0].client.get(&alone.id, LONG));
            assert!(matches!(got, None | Some(Code::Unreachable)), "{got:?}");
        });
        scope.spawn(|| match put(&nodes[0], "@prod:while", 2, 10_000) {
            Ok(object) => check(&nodes[0], &object, "it was put"),
            Err(error) => {
                let is_right = matches!(error.code(), Code::Unreachable | Code::NotEnoughNodes);
                assert!(is_right, "{error}");
            }
        });
    });
    relay.hold(false);
    wait_until_there(&nodes[0], &alone);
    let later = put_in_time(&nodes[0], "@prod:later", 3, 10_000);
    nodes.iter().for_each(|node| check(node, &later, "bytes flow again"));
}
