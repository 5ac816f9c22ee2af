//! Memory of the pool by address: written from several nodes, sealed, freed, and what becomes of it
//! when something ends.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use plasmon_client::{Address, Client, Code, Error, ObjectId, RegionOptions, Standing};
use plasmon_testkit::{Random, pattern, until};

use crate::node::{LONG, NOW, Node, nodes};

/// How long a read waits.
type Within = Option<Duration>;

const BYTES: usize = (3 << 20) + 77;

fn on(node: &str, copies: u8) -> RegionOptions {
    RegionOptions { copies, copies_min: copies, node: Some(node.to_owned()) }
}

/// Allocates as soon as the pool has the node.
fn allocate(client: &Client, bytes: usize, options: &RegionOptions) -> Address {
    let mut made = None;
    until("the node is known", || {
        made = client.pool_allocate(bytes as u64, options).ok();
        made.is_some()
    });
    made.unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
    result.unwrap_err().code()
}

/// Reads one range.
fn read(client: &Client, at: Address, range: Range<u64>, within: Within) -> Result<Vec<u8>, Error> {
    let pieces = client.pool_read_at(at, std::slice::from_ref(&range), within)?;
    Ok(pieces[0].to_vec())
}

/// Writes every second block of 50,000 bytes, and all of them once more in another order.
fn write_blocks(client: &Client, to: Address, data: &[u8], first: usize) {
    let mut dice = Random::new(first as u64);
    let mut blocks: Vec<_> = data.chunks(50_000).enumerate().skip(first).step_by(2).collect();
    for round in 0..2 {
        for at in (1..blocks.len()).rev() {
            blocks.swap(at, dice.size_below(at + 1));
        }
        for (number, block) in &blocks {
            let at = (number * 50_000) as u64;
            let end = if round == 0 { dice.size_below(block.len() + 1) } else { block.len() };
            client.pool_write(to.plus(at).unwrap(), &block[..end]).unwrap();
        }
    }
}

#[test]
fn a_region_is_written_from_two_nodes_and_sealed_by_a_third() {
    let Some((_etcd, nodes)) = nodes(3, &[]) else { return };
    let clients: Vec<&Client> = nodes.iter().map(|node| &node.client).collect();
    let data = pattern(5, BYTES);
    let at = allocate(clients[0], BYTES, &on("node1", 2));
    let home = nodes[1].client.pool_nodes().unwrap();
    let home = home.iter().find(|node| node.name == "node1").unwrap().slot;
    assert_eq!(at.id.home(), Some(home.0));
    assert_eq!(at.to_string().parse(), Ok(at));
    thread::scope(|scope| {
        for (first, client) in [clients[0], clients[2]].into_iter().enumerate() {
            let data = &data;
            scope.spawn(move || write_blocks(client, at, data, first));
        }
    });
    for client in &clients {
        assert_eq!(code(read(client, at, 0..1, NOW)), Code::NotSealed);
        let end = at.plus(BYTES as u64 - 1).unwrap();
        assert_eq!(code(client.pool_write(end, &[1, 2])), Code::BadRequest);
        assert_eq!(
            code(client.pool_write(Address { offset: u64::MAX, ..at }, &[1])),
            Code::BadRequest
        );
        client.pool_write(end, &data[BYTES - 1..]).unwrap();
    }
    // Of a write that ends beyond the region nothing is written.
    let beyond = at.plus((BYTES - 100_000) as u64).unwrap();
    assert_eq!(code(clients[0].pool_write(beyond, &vec![0; 100_001])), Code::BadRequest);
    clients[2].pool_seal(&at.id).unwrap();
    for client in &clients {
        assert!(client.get(&at.id, LONG).unwrap().data() == data);
        let pieces = client.pool_read_at(at.plus(1000).unwrap(), &[0..10, 50..60], NOW).unwrap();
        assert_eq!((&*pieces[0], &*pieces[1]), (&data[1000..1010], &data[1050..1060]));
        assert_eq!(code(client.pool_write(at, &[1])), Code::AlreadySealed);
        assert_eq!(code(client.pool_seal(&at.id)), Code::AlreadySealed);
    }
    let place = clients[0].pool_place(&at.id).unwrap();
    assert_eq!((place.standing, place.found.unwrap().holders.len()), (Standing::Live, 2));
    clients[0].pool_free(&at.id).unwrap();
    // A node reads the copies of others, which end one by one.
    until("it is gone", || clients.iter().all(|client| client.get_now(&at.id).is_none()));
    for client in &clients {
        assert!(matches!(code(read(client, at, 0..1, NOW)), Code::Deleted | Code::Absent));
    }
}

#[test]
fn a_reader_waits_for_the_seal() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    let at = allocate(&nodes[0].client, 100, &RegionOptions::default());
    nodes[1].client.pool_write(at, &[7; 100]).unwrap();
    thread::scope(|scope| {
        let read = scope.spawn(|| read(&nodes[1].client, at, 10..12, LONG));
        let got = scope.spawn(|| nodes[0].client.get(&at.id, LONG).map(|it| it.data().to_vec()));
        nodes[1].client.pool_seal(&at.id).unwrap();
        assert_eq!(read.join().unwrap().unwrap(), [7, 7]);
        assert_eq!(got.join().unwrap().unwrap(), [7; 100]);
    });
}

/// The address of a region whose memory counts until it ends.
fn allocate_large(node: &Node, home: &Node, name: &str) -> (Client, Address) {
    let client = node.connect();
    let at = allocate(&client, 100 << 20, &on(name, 1));
    assert!(home.client.status().unwrap().used_bytes >= 100 << 20, "it counts at its home");
    (client, at)
}

fn wait_until_ended(node: &Node, home: &Node, at: Address, wanted: Code) {
    until("the region has ended", || match node.client.pool_write(at, &[1]) {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.code(), wanted, "{error}");
            true
        }
    });
    assert_eq!(code(node.client.pool_seal(&at.id)), wanted);
    assert_eq!(code(read(&node.client, at, 0..1, NOW)), wanted);
    until("its memory is free", || home.client.status().unwrap().used_bytes < 100 << 20);
}

#[test]
fn a_region_ends_with_what_allocated_it_and_with_the_pool_daemons() {
    let Some((_etcd, nodes)) = nodes(3, &[]) else { return };
    let (client, at) = allocate_large(&nodes[0], &nodes[1], "node1");
    let sealed = allocate(&client, 10, &on("node1", 1));
    client.pool_seal(&sealed.id).unwrap();
    nodes[2].client.pool_write(at, &[1]).unwrap();
    drop(client);
    wait_until_ended(&nodes[2], &nodes[1], at, Code::CreatorDied);
    assert_eq!(nodes[2].client.get(&sealed.id, LONG).unwrap().data().len(), 10);

    let (client, at) = allocate_large(&nodes[0], &nodes[1], "node1");
    assert_eq!(nodes[2].client.pool_free(&at.id).map_err(|error| error.code()), Ok(()));
    wait_until_ended(&nodes[2], &nodes[1], at, Code::Deleted);
    assert_eq!(code(client.pool_free(&at.id)), Code::Deleted);

    // The pool daemon of its allocator, which is connected to it.
    let (client, at) = allocate_large(&nodes[0], &nodes[1], "node1");
    nodes[0].kill_pool_daemon();
    wait_until_ended(&nodes[2], &nodes[1], at, Code::CreatorDied);
    // The client goes on, with another connection.
    let at = allocate(&client, 10, &on("node1", 1));
    client.pool_write(at, &[3; 10]).unwrap();
    client.pool_seal(&at.id).unwrap();
    assert_eq!(nodes[2].client.get(&at.id, LONG).unwrap().data(), [3; 10]);

    // The pool daemon of its home.
    let (_client, at) = allocate_large(&nodes[0], &nodes[1], "node1");
    nodes[1].kill_pool_daemon();
    wait_until_ended(&nodes[2], &nodes[1], at, Code::Absent);
}

#[test]
fn what_cannot_be_allocated_is_said() {
    let Some((_etcd, nodes)) = nodes(2, &["--capacity-bytes", "32m"]) else { return };
    let client = &nodes[0].client;
    allocate(client, 10, &on("node1", 1));
    assert_eq!(code(client.pool_allocate(10, &on("node7", 1))), Code::BadRequest);
    assert_eq!(code(client.pool_allocate(1 << 30, &on("node1", 1))), Code::TooLarge);
    let _first = allocate(client, 20 << 20, &on("node1", 1));
    assert_eq!(code(client.pool_allocate(20 << 20, &on("node1", 1))), Code::StoreFull);
    let at = client.pool_allocate(10, &RegionOptions { copies: 8, copies_min: 8, node: None });
    // There are fewer nodes than it needs.
    assert_eq!(code(client.pool_seal(&at.unwrap().id)), Code::NotEnoughNodes);
    let stray = ObjectId::pooled([1; 12], Some(1));
    assert_eq!(code(client.pool_seal(&stray)), Code::Absent);
    assert_eq!(code(client.pool_free(&stray)), Code::Absent);
    assert_eq!(
        code(client.pool_write(Address::new(ObjectId::pooled([1; 12], Some(77))), &[1])),
        Code::Absent
    );
}

/// Its node may come back at first, and then it is given up.
#[test]
#[ignore = "takes a quarter of a minute; scripts/test.py network"]
fn a_region_is_unreachable_and_then_gone_with_its_node() {
    let Some((_etcd, mut nodes)) = nodes(3, &[]) else { return };
    let at = allocate(&nodes[0].client, 10, &on("node1", 1));
    nodes[2].client.pool_write(at, &[1]).unwrap();
    nodes.remove(1).kill();
    assert_eq!(code(nodes[1].client.pool_write(at, &[1])), Code::Unreachable);
    until("its node is given up", || {
        let found = code(nodes[1].client.pool_seal(&at.id));
        assert!(matches!(found, Code::Unreachable | Code::Absent), "{found:?}");
        found == Code::Absent
    });
    for node in &nodes {
        assert_eq!(code(node.client.pool_write(at, &[1])), Code::Absent);
        assert_eq!(code(node.client.pool_free(&at.id)), Code::Absent);
        let read = code(read(&node.client, at, 0..1, NOW));
        assert!(matches!(read, Code::Absent), "{read:?}");
    }
}
