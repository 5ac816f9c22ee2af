//! Hostile peers: what a program sends to the port of a pool daemon ends its own connection and
//! nothing else.

use std::net::SocketAddr;
use std::thread;

use plasmon_net::frame::{self, HEADER_BYTES, Kind};
use plasmon_net::handshake::{Cluster, Lane, Local, Refusal, Token};
use plasmon_net::{Error, UNAUTHENTICATED_MAX};
use plasmon_testkit::{Etcd, Random};

use crate::machines::{Put, check, put, put_in_time};
use crate::node::{Node, nodes};
use crate::stranger::{Knowledge, Stranger, frame_of, greet, message_of};

/// Strings of random bytes.
const RANDOM_STRINGS: usize = 20;

/// Two nodes, and what is not to change.
struct Pool {
    nodes: Vec<Node>,
    etcd: Etcd,
    pool_daemons: Vec<u32>,
    made: usize,
}

impl Pool {
    fn start() -> Option<Self> {
        let (etcd, nodes) = nodes(2, &[])?;
        let pool_daemons = nodes.iter().map(Node::pool_daemon).collect();
        Some(Self { nodes, etcd, pool_daemons, made: 0 })
    }

    /// The pool is as it was: the same processes, and objects go both ways.
    fn check(&mut self, what: &str) {
        for (from, to) in [(0, 1), (1, 0)] {
            self.made += 1;
            let object: Put =
                put(&self.nodes[from], &format!("@prod:{}", self.made), 1, 100_000).unwrap();
            check(&self.nodes[to], &object, what);
            assert_eq!(self.nodes[to].client.delete(&[object.id]).unwrap(), [None], "{what}");
        }
        let now: Vec<_> = self.nodes.iter().map(Node::pool_daemon).collect();
        assert_eq!(now, self.pool_daemons, "{what}: a pool daemon ended");
    }
}

/// A damaged `Hello`, with what is wrong with it.
fn bad_hellos(hello: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let changed = |at: usize, byte: u8| {
        let mut bytes = hello.to_vec();
        bytes[at] = byte;
        let checksum = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        bytes
    };
    let mut damaged = hello.to_vec();
    damaged[10] ^= 1;
    vec![
        ("the magic of another protocol", changed(0, b'X')),
        ("another version of the framing", changed(4, 9)),
        ("a kind that does not exist", changed(5, 99)),
        ("flags that do not exist", changed(7, 1)),
        ("a frame out of order", changed(8, 3)),
        ("a payload of 4 GiB", changed(19, 0xff)),
        ("a payload longer than a handshake's", changed(17, 0xff)),
        ("a damaged header", damaged),
        ("a message before the handshake", frame_of(Kind::Message, 0, b"hello")),
        ("a proof before the hello", frame_of(Kind::Proof, 0, &[0; 32])),
    ]
}

#[test]
fn what_is_no_handshake_ends_its_connection_alone() {
    let Some(mut pool) = Pool::start() else { return };
    let known = Knowledge::read(&pool.etcd);
    for slot in 0..2 {
        let to = known.address(slot);
        let mut random = Random::new(1 + slot as u64);
        for number in 0..RANDOM_STRINGS {
            // A few bytes alone could be the beginning of a frame.
            let bytes = HEADER_BYTES + random.size_below(100_000);
            let mut stranger = Stranger::connect(to);
            stranger.send(&plasmon_testkit::pattern(random.word(), bytes));
            stranger.wait_until_closed(&format!("random bytes {number}"));
        }
        let hello = hello_of(known.local(1 - slot));
        for (what, bytes) in bad_hellos(&hello) {
            let mut stranger = Stranger::connect(to);
            stranger.send(&bytes);
            stranger.wait_until_closed(what);
        }
        // One that goes away in the middle of a frame, at each of its bytes.
        for length in 0..hello.len() {
            Stranger::connect(to).send(&hello[..length]);
        }
    }
    pool.check("after what is no handshake");
}

/// The first frame of a node that connects.
fn hello_of(local: Local) -> Vec<u8> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut header = [0; HEADER_BYTES];
            std::io::Read::read_exact(&mut stream, &mut header).unwrap();
            let length = u32::from_le_bytes(header[16..20].try_into().unwrap());
            let mut payload = vec![0; length as usize];
            std::io::Read::read_exact(&mut stream, &mut payload).unwrap();
            [&header[..], &payload].concat()
        });
        assert!(greet(local, to, Lane::Control).is_err(), "the listener answers nothing");
        reading.join().unwrap()
    })
}

#[test]
fn nodes_of_another_pool_and_without_the_token_are_told_so() {
    let Some(mut pool) = Pool::start() else { return };
    let known = Knowledge::read(&pool.etcd);
    let cluster = |name: &str, id| Cluster::new(name, id).unwrap();
    for slot in 0..2 {
        let to = known.address(slot);
        let right = || known.local(1 - slot);
        let other_name = Local { cluster: cluster("other", known.cluster_id), ..right() };
        let other_id = Local { cluster: cluster(&known.cluster, [1; 16]), ..right() };
        let wrong_token = Local { token: Token::new(&[0; 32]).unwrap(), ..right() };
        for (local, wanted) in [
            (other_name, Refusal::Cluster),
            (other_id, Refusal::Cluster),
            (wrong_token, Refusal::Token),
            // One that says that it is the node itself.
            (known.local(slot), Refusal::Node),
        ] {
            for lane in [Lane::Control, Lane::Bulk(0)] {
                let refused = greet(local.clone(), to, lane);
                let Err(Error::RefusedByPeer(found)) = refused else { panic!("{refused:?}") };
                assert_eq!(found, wanted);
            }
        }
    }
    pool.check("after strangers were refused");
}

/// It takes the place of the node that it says it is, until that one connects again.
#[test]
fn a_peer_with_the_token_that_sends_garbage_loses_its_link_alone() {
    let Some(mut pool) = Pool::start() else { return };
    let known = Knowledge::read(&pool.etcd);
    // The lower slot connects.
    let to = known.address(1);
    let long = frame_of(Kind::Message, 2, &[0; frame::MESSAGE_BYTES_MAX]);
    let mut oversized = long[..HEADER_BYTES].to_vec();
    oversized[19] = 0x7f;
    let checksum = crc32c::crc32c(&oversized[..HEADER_BYTES - 4]);
    oversized[HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    for (what, bytes) in [
        ("no frame", vec![0xaa; 100_000]),
        ("a message of no envelope", message_of(&[0xff; 1000])),
        ("an empty message", message_of(&[])),
        ("the largest message, of zeroes", long),
        ("a frame longer than any may be", oversized),
        ("a frame out of order", frame_of(Kind::Message, 9, b"hello")),
        ("a second hello", frame_of(Kind::Hello, 2, &[0; 100])),
    ] {
        let (mut stranger, _) = greet(known.local(0), to, Lane::Control).unwrap();
        stranger.send(&bytes);
        stranger.wait_until_closed(what);
        pool.check(what);
    }
    for bytes in [vec![0xaa; 100_000], vec![0; 4096]] {
        // A bulk lane is taken only while there is a control lane, which the real node has.
        let (mut stranger, _) = greet(known.local(0), to, Lane::Bulk(0)).unwrap();
        stranger.send(&bytes);
        stranger.wait_until_closed("garbage on a bulk lane");
        pool.check("garbage on a bulk lane");
    }
}

/// Connections that say nothing have the places of those that are not authenticated, for the time
/// that a handshake may take; then others have them.
#[test]
fn a_flood_of_silent_connections_ends_by_itself() {
    let Some(mut pool) = Pool::start() else { return };
    let known = Knowledge::read(&pool.etcd);
    let flood = |to: SocketAddr| -> Vec<Stranger> {
        (0..3 * UNAUTHENTICATED_MAX).map(|_| Stranger::connect(to)).collect()
    };
    let silent: Vec<_> = (0..2).flat_map(|slot| flood(known.address(slot))).collect();
    // Links that are there need no new connection.
    pool.check("while connections say nothing");
    silent.into_iter().for_each(|stranger| stranger.wait_until_closed("silence"));
    pool.check("after connections that said nothing");
    // Nor does it keep a node out that connects again.
    let _silent: Vec<_> = (0..2).flat_map(|slot| flood(known.address(slot))).collect();
    pool.nodes[0].kill_pool_daemon();
    pool.pool_daemons[0] = pool.nodes[0].pool_daemon();
    let object = put_in_time(&pool.nodes[0], "@prod:again", 2, 100_000);
    check(&pool.nodes[1], &object, "a node that connects again");
}
