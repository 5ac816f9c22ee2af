//! Three nodes of a pool in one process, each with its own threads: real TCP over 127.0.0.1, a real
//! etcd, and a store that is a few maps (`double.rs`). Without an etcd on the machine the tests say
//! so and pass.

#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod door;
mod double;
mod gather;
mod listing;
mod notices;
mod participation;
mod parts;
mod regions;
mod relay;

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use plasmon_cluster::{Map, NodeState, ProtocolRange, Slot};
use plasmon_etcd::{Client, Options};
use plasmon_fabric::Choice;
use plasmon_net::handshake::Token;
use plasmon_pool::{Fate, Refusal};
use plasmon_poold::core::{Pool, Settings};
use plasmon_poold::identity::Identity;
use plasmon_poold::membership;
use plasmon_proto::ObjectId;
use plasmon_testkit::{Etcd, pattern};
use tempfile::TempDir;

use self::double::{Double, eventually};
use self::relay::Relay;

/// A node with its store.
struct Node {
    pool: Pool,
    store: Double,
    name: String,
}

impl Node {
    /// Behind a relay, if there is one.
    fn start(etcd: &Etcd, folder: &Path, number: u64, relay: Option<&Relay>) -> Self {
        let name = format!("n{number}");
        let identity = Identity::open(folder, &name).unwrap();
        let watch_timeout = Duration::from_millis(300);
        let boot = 100 + number;
        let membership = membership::Settings {
            etcd: Options { watch_timeout, ..Options::new(etcd.endpoints()) },
            cluster: "test".to_owned(),
            ttl_ms: 2000,
            out_after_ms: 300,
            boot,
            addresses: relay.iter().map(|relay| relay.address().to_string()).collect(),
            zone: String::new(),
            weight: 1,
            log: plasmon_cluster::NodeLog::Absent,
            protocol: ProtocolRange { min: 1, max: 1 },
        };
        let settings = Settings {
            membership,
            listen: ([127, 0, 0, 1], 0).into(),
            token: Token::new(b"what all the nodes share").unwrap(),
            capacity_bytes: 1 << 30,
            movers: 2,
            suspect_ms: 3_000,
            certificates: None,
            fabric: fabric(),
        };
        let mut store = None;
        let pool = Pool::start(settings, identity, |inbox| {
            let double = Double::new(inbox, boot);
            store = Some(double.clone());
            Box::new(double)
        });
        let (pool, store) = (pool.unwrap(), store.unwrap());
        if let Some(relay) = relay {
            relay.set_target(pool.address());
        }
        Self { pool, store, name }
    }
}

/// The providers by which the nodes write into each other's memory: none, unless they are set, as
/// `net;shm`. All tests hold with every one of them.
fn fabric() -> Choice {
    std::env::var("PLASMON_TEST_FABRIC").map_or(Choice::Off, |text| text.parse().unwrap())
}

impl Node {
    /// Whether it knows so many live nodes, itself included, and is connected with them.
    fn reaches(&self, count: usize) -> bool {
        let (sender, answer) = sync_channel(1);
        let asker = self.pool.asker();
        asker.participation(sender);
        let found = answer.recv().unwrap();
        let seen = asker.pool().map.unwrap_or_default();
        let seen = seen.nodes().filter(|(_, node)| node.is_live()).count();
        found.reaches_all() && found.live as usize == count && seen == count
    }
}

/// The nodes, and what etcd says of them.
struct World {
    nodes: Vec<Node>,
    client: Client,
    _folders: Vec<TempDir>,
    // Ends last.
    etcd: Etcd,
}

impl World {
    /// So many nodes whose pool is complete.
    fn start(count: u64) -> Option<Self> {
        Self::start_behind((0..count).map(|_| None).collect())
    }

    /// A node for each of these, behind a relay where there is one.
    fn start_behind(relays: Vec<Option<&Relay>>) -> Option<Self> {
        let etcd = Etcd::start()?;
        let folders: Vec<TempDir> = relays.iter().map(|_| tempfile::tempdir().unwrap()).collect();
        let nodes = folders.iter().zip(relays).zip(0..);
        let nodes =
            nodes.map(|((folder, relay), number)| Node::start(&etcd, folder.path(), number, relay));
        let nodes = nodes.collect();
        let client = Client::new(Options::new(etcd.endpoints())).unwrap();
        let mut world = Self { nodes, client, _folders: folders, etcd };
        world.settle();
        Some(world)
    }

    fn map(&mut self) -> Map {
        let kv = self.client.get(b"/plasmon/test/map").unwrap();
        kv.map_or_else(Map::default, |kv| Map::decode(&kv.value).unwrap())
    }

    /// Waits until all nodes take part and every group has all of them that it can have.
    fn settle(&mut self) {
        let count = self.nodes.len();
        eventually("all nodes are up and all groups settled", || {
            let map = self.map();
            map.nodes().filter(|(_, node)| node.state == NodeState::Up).count() == count
                && map
                    .groups()
                    .all(|(_, group)| group.is_settled() && group.acting.len() == count.min(3))
        });
        // What is in etcd, a node knows a moment later.
        for node in &self.nodes {
            eventually("the node reaches all others", || node.reaches(count));
        }
    }

    /// The slot of a node.
    fn slot(&mut self, at: usize) -> Slot {
        let name = self.nodes[at].name.clone();
        let map = self.map();
        map.nodes().find(|(_, node)| node.member.name == name).unwrap().0
    }

    fn put(&mut self, at: usize, id: ObjectId, bytes: &[u8], copies: u8) -> Result<(), Refusal> {
        let slot = self.slot(at);
        self.nodes[at].store.put((id, slot), bytes.to_vec(), copies)
    }

    fn get(&self, at: usize, id: ObjectId) -> Result<Vec<u8>, Fate> {
        self.nodes[at].store.get(id).map(|bytes| bytes.to_vec())
    }
}

fn id(number: u8) -> ObjectId {
    ObjectId::pooled([number; 12], None)
}

#[test]
fn an_object_is_put_on_one_node_read_on_all_and_deleted() {
    let Some(mut world) = World::start(3) else { return };
    let contents = [
        (id(1), pattern(1, 1000)),
        (id(2), pattern(2, (5 << 20) + 7)),
        (id(3), Vec::new()),
        (id(4), pattern(3, 1 << 20)),
    ];
    for (id, bytes) in &contents {
        assert_eq!(world.put(0, *id, bytes, 1), Ok(()));
    }
    for (id, bytes) in &contents {
        for at in [1, 2, 0] {
            assert!(world.get(at, *id).as_ref() == Ok(bytes), "node {at} reads {id}");
        }
    }
    // An id has one object, wherever it is made.
    let (other, bytes) = (id(5), pattern(4, 10));
    assert_eq!(world.put(0, other, &bytes, 1), Ok(()));
    assert_eq!(world.put(1, other, b"another", 1), Err(Refusal::Exists));
    assert_eq!(world.get(1, other), Ok(bytes));
    // A delete on any node ends all copies, and then the id can be used again.
    assert!(world.nodes[2].store.delete(id(2)));
    for node in &world.nodes {
        node.store.wait_until_gone(id(2));
    }
    let gone = world.get(1, id(2));
    assert!(matches!(gone, Err(Fate::Deleted | Fate::Absent)), "{gone:?}");
    assert_eq!(world.put(1, id(2), b"again", 1), Ok(()));
    assert_eq!(world.get(0, id(2)), Ok(b"again".to_vec()));
    assert_eq!(world.get(0, id(99)), Err(Fate::Absent));
}

#[test]
fn copies_of_a_lost_node_are_made_again() {
    let Some(mut world) = World::start(3) else { return };
    let objects: Vec<_> =
        (1..=20).map(|number| (id(number), pattern(number.into(), 100_000))).collect();
    for (id, bytes) in &objects {
        assert_eq!(world.put(0, *id, bytes, 2), Ok(()));
    }
    let holders =
        |world: &World, id| world.nodes.iter().filter(|node| node.store.keeps(id)).count();
    // The second holder shows its copy a moment after the put was answered.
    for (id, _) in &objects {
        eventually("there are two copies", || holders(&world, *id) == 2);
    }
    // The node that made them is lost: no leave, the lease ends by itself.
    drop(world.nodes.remove(0));
    for (id, bytes) in &objects {
        for at in 0..2 {
            assert!(world.get(at, *id).as_ref() == Ok(bytes), "node {at} reads {id}");
        }
    }
    for (id, _) in &objects {
        world.nodes.iter().for_each(|node| node.store.wait_until_kept(*id));
    }
    // The two that are left go on as a pool.
    let last = id(77);
    assert_eq!(world.put(1, last, b"new", 2), Ok(()));
    assert_eq!(world.get(0, last), Ok(b"new".to_vec()));
}

#[test]
fn a_node_that_leaves_is_known_at_once() {
    let Some(mut world) = World::start(2) else { return };
    let slot = world.slot(0);
    let node = world.nodes.remove(0);
    assert!(!node.pool.is_over());
    node.pool.leave().unwrap();
    eventually("the node that left is not live", || !world.map().is_live(slot));
    assert_eq!(world.put(0, id(1), b"alone", 1), Ok(()));
}

#[test]
fn bulk_lanes_that_end_while_content_moves_are_made_again() {
    let relays = [Relay::start(4), Relay::start(4)];
    let Some(mut world) = World::start_behind(relays.iter().map(Some).collect()) else { return };
    // Numbers of transfers choose the lane: several of them use both.
    for number in 1..=6 {
        let bytes = pattern(number.into(), (8 << 20) + 1);
        let (from, to) = (usize::from(number % 2), usize::from((number + 1) % 2));
        assert_eq!(world.put(from, id(number), &bytes, 1), Ok(()));
        assert!(world.get(to, id(number)).as_ref() == Ok(&bytes), "object {number}");
    }
    if fabric() != Choice::Off {
        // Content does not come over the relays then.
        return;
    }
    // The node in the lower slot connects, through the other one's relay.
    let cut: Vec<usize> = relays.iter().map(|relay| 4 - relay.cuts_left()).collect();
    assert!(cut.contains(&0) && cut.iter().any(|cut| *cut > 1), "{cut:?} connections were cut");
}
