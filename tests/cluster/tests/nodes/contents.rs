//! The contents of copies, compared: damage in memory and on a disk is found and named.

use std::fs::{self, File, OpenOptions, Permissions};
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use plasmon_client::{
    Ack, ContentComparison, ContentDifference, NodeState, ObjectId, ObjectState, PartsOf, PoolNode,
    PutOptions,
};
use plasmon_testkit::{Etcd, Random, build, until};
use serde_json::Value;

use crate::node::{LONG, NOW, Node, nodes};

pub(crate) fn random_bytes(dice: &mut Random, bytes: usize) -> Vec<u8> {
    (0..bytes.div_ceil(8)).flat_map(|_| dice.word().to_le_bytes()).take(bytes).collect()
}

fn compare(node: &Node) -> ContentComparison {
    let mut last = 0.0;
    let found = node.client.pool_compare(Duration::from_secs(60), |progress| {
        assert!((last..=1.0).contains(&progress.part), "it goes on: {progress:?}");
        last = progress.part;
    });
    assert_eq!(last, 1.0);
    found.unwrap()
}

/// Changes a byte of these in a file, where they begin at a multiple of so many bytes; whether they
/// are there.
pub(crate) fn damage(file: &File, align: usize, content: &[u8]) -> bool {
    let mut all = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    let Ok(length) = file.read_at(&mut all, 0) else { return false };
    let mut places = (0..length.saturating_sub(content.len())).step_by(align);
    let Some(at) = places.find(|at| all[*at..].starts_with(&content[..64])) else { return false };
    let at = at + content.len() / 2;
    assert_eq!(all[at], content[content.len() / 2]);
    file.write_at(&[all[at] ^ 1], at as u64).unwrap();
    true
}

/// Changes a byte of an object in the memory of a store.
fn damage_memory(node: &Node, content: &[u8]) {
    let fds = format!("/proc/{}/fd", node.client.status().unwrap().pid);
    let found = fs::read_dir(fds).unwrap().flatten().any(|entry| {
        let is_memory = fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"));
        let open = || OpenOptions::new().read(true).write(true).open(entry.path()).ok();
        let file = if is_memory { open() } else { None };
        file.is_some_and(|file| damage(&file, 64, content))
    });
    assert!(found, "the object is in the memory of the store");
}

/// What `plasmon pool verify --deep` prints, what it says of an error, and whether it succeeds.
pub(crate) fn verify(node: &Node, more: &[&str]) -> (String, String, bool) {
    let mut command = Command::new(build(&["plasmon-cli"]).join("plasmon"));
    command.args(["pool", "verify", "--deep", "--socket"]).arg(node.client.socket());
    let out = command.args(more).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(out.stdout), text(out.stderr), out.status.success())
}

fn the_only(found: &ContentComparison) -> &ContentDifference {
    assert_eq!((found.differing, found.unreadable, found.differences.len()), (1, 0, 1));
    &found.differences[0]
}

#[test]
fn a_copy_that_is_damaged_in_memory_is_named_by_every_node() {
    let Some((_etcd, mut nodes)) = nodes(3, &[]) else { return };
    let mut dice = Random::new(11);
    let mut put = |number: usize, copies: u8, bytes: usize| {
        let content = random_bytes(&mut dice, bytes);
        let name = format!("@prod:{number}");
        let id = nodes[number % 3].client.put(&content, &crate::named(&name, copies)).unwrap();
        (id, content)
    };
    // Small ones are read at once, the others by a thread, and three nodes have the last.
    let sizes = [0, 1, 64 << 10, (64 << 10) + 1, 1 << 20, 3_000_001];
    let objects: Vec<_> =
        sizes.into_iter().enumerate().map(|(at, bytes)| put(at, 2, bytes)).collect();
    put(6, 1, 5);
    let (large, content) = put(7, 3, 5_000_000);
    let unnamed = PutOptions { pool: true, copies: 2, copies_min: 2, ..PutOptions::default() };
    let homed = nodes[1].client.put(&[7; 100], &unnamed).unwrap();
    let cached = nodes.iter().map(|node| node.client.get(&objects[5].0, LONG).unwrap());
    drop(cached.collect::<Vec<_>>());
    for node in &nodes {
        // A pool daemon hears of a cached copy a moment after its readers.
        until("the pool daemons know of every copy", || compare(node).copies >= 19);
        let found = compare(node);
        assert!(found.is_right(), "{found:?}");
        // Those with several copies, with the one without a name; of one there is one copy.
        assert_eq!((found.same, found.single), (8, 1), "{found:?}");
        assert_eq!(found.copies, 5 * 2 + 3 + 1 + 3 + 2);
    }
    let (text, said, is_right) = verify(&nodes[0], &[]);
    assert!(is_right && text.contains("8 objects with the same in all copies, 1 with"), "{said}");

    damage_memory(&nodes[1], &content);
    let found = compare(&nodes[0]);
    let difference = the_only(&found);
    assert_eq!(difference.id, large);
    assert_eq!(difference.name.as_ref().unwrap().text, "7");
    let metadata = b"what it is";
    let right = crc32c::crc32c(&[content.as_slice(), metadata].concat());
    let wrong: Vec<u16> = difference
        .copies
        .iter()
        .filter(|copy| copy.crc != Some(right))
        .map(|copy| copy.slot.0)
        .collect();
    let slots = nodes[0].client.pool_nodes().unwrap();
    let of_node1 = slots.iter().find(|node| node.name == "node1").unwrap().slot;
    assert_eq!((difference.copies.len(), wrong), (3, vec![of_node1.0]));
    assert_eq!(compare(&nodes[2]).differences, found.differences);
    let (text, said, is_right) = verify(&nodes[2], &["--json", "--no-repair"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    let contents = &document["contents"];
    assert!(!is_right && said.contains("1 object with copies that differ"), "{said}");
    assert_eq!((&document["whole"], &contents["right"]), (&true.into(), &false.into()));
    assert_eq!(contents["differences"][0]["name"], "@prod:7");
    assert_eq!(contents["differences"][0]["copies"].as_array().unwrap().len(), 3);
    let (text, _, _) = verify(&nodes[2], &["--no-repair"]);
    assert!(text.contains(&format!("@prod:7, {large}: ")) && text.contains("node1 "), "{text}");
    // Nothing was changed, and what is deleted is not found again.
    assert_eq!(nodes[0].client.delete(&[large, homed]).unwrap(), [None, None]);
    until("all is right again", || compare(&nodes[0]).is_right());

    // A node that is away is named, and the others are compared.
    let pid = nodes[2].stop_pool_daemon();
    let away = nodes.remove(2);
    let slot = slots.iter().find(|node| node.name == "node2").unwrap().slot;
    let is_down = |node: &PoolNode| node.slot == slot && node.state == NodeState::Down;
    until("the node is down", || nodes[0].client.pool_nodes().unwrap().iter().any(is_down));
    let found = compare(&nodes[0]);
    assert_eq!((found.unanswered, found.differing), (vec![slot], 0));
    plasmon_testkit::kill(pid, plasmon_testkit::Signal::CONT);
    drop(away);
}

#[test]
fn the_majority_of_copies_says_what_is_right_and_of_two_that_differ_nothing_does() {
    let Some((_etcd, nodes)) = nodes(3, &[]) else { return };
    let mut dice = Random::new(12);
    let mut put = |name: &str, copies| {
        let content = random_bytes(&mut dice, 3_000_001);
        (nodes[1].client.put(&content, &crate::named(name, copies)).unwrap(), content)
    };
    let (three, two) = (put("@prod:three", 3), put("@prod:two", 2));
    damage_memory(&nodes[1], &three.1);
    let (text, said, is_right) = verify(&nodes[2], &[]);
    assert!(is_right && text.contains("1 object repaired"), "{text}{said}");
    let found = compare(&nodes[0]);
    assert!(found.is_right() && found.same == 2, "{found:?}");
    for node in &nodes {
        assert!(node.client.get(&three.0, LONG).unwrap().data() == three.1);
    }
    damage_memory(&nodes[1], &two.1);
    for _ in 0..2 {
        let (text, said, is_right) = verify(&nodes[0], &[]);
        assert!(!is_right && text.contains("nothing says which copy is right"), "{text}{said}");
    }
}

#[test]
fn a_comparison_goes_on_when_pool_daemons_are_started_again() {
    let Some((_etcd, nodes)) = nodes(2, &[]) else { return };
    let unnamed = PutOptions { pool: true, copies: 2, copies_min: 2, ..PutOptions::default() };
    let unnamed = PutOptions { ack: Some(Ack::Local), ..unnamed };
    let ids: Vec<ObjectId> =
        (0..600).map(|at| nodes[at % 2].client.put(&[at as u8; 500], &unnamed).unwrap()).collect();
    for (at, node) in nodes.iter().enumerate() {
        let own: Vec<_> = ids.iter().skip(at).step_by(2).copied().collect();
        let settled = node.client.settle(&own, LONG).unwrap();
        assert!(settled.iter().all(Option::is_none), "{settled:?}");
    }
    let mut kills = nodes.iter().map(Node::kill_pool_daemon);
    let found = nodes[0].client.pool_compare(Duration::from_secs(60), |_| {
        kills.next();
    });
    let found = found.unwrap();
    assert!(found.is_right() && found.same == 600, "{found:?}");
}

/// Puts local objects until one is spilled.
fn fill(node: &Node, id: &ObjectId) {
    let filler = vec![3; 32 << 20];
    until("the object is spilled", || {
        node.client.put(&filler, &PutOptions::default()).unwrap();
        node.client.states(&[*id]).unwrap() == [ObjectState::Spilled]
    });
}

fn spill_file(folder: &Path, id: &ObjectId) -> PathBuf {
    let folders = fs::read_dir(folder).unwrap().flatten().filter(|it| it.path().is_dir());
    let files = folders.flat_map(|it| fs::read_dir(it.path()).unwrap().flatten());
    let is_its = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(&id.to_string()) && name.ends_with(".spill")
    };
    files.map(|entry| entry.path()).find(is_its).expect("its file")
}

#[test]
fn a_spilled_copy_is_read_in_its_file_and_stays_there() {
    let Some(etcd) = Etcd::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--spill-dir", folder.path().to_str().unwrap()];
    let nodes = [Node::start(&etcd, "node0", &flags), Node::start(&etcd, "node1", &[])];
    nodes.iter().for_each(Node::wait_until_joined);
    let content = random_bytes(&mut Random::new(3), 2_500_000);
    let id = nodes[1].client.put(&content, &crate::named("@prod:spilled", 2)).unwrap();
    fill(&nodes[0], &id);
    let is_spilled = || nodes[0].client.states(&[id]).unwrap() == [ObjectState::Spilled];
    for node in &nodes {
        let found = compare(node);
        assert!(found.is_right() && found.same == 1 && found.copies == 2, "{found:?}");
        assert!(is_spilled(), "it was not brought back");
    }
    let path = spill_file(folder.path(), &id);
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert!(damage(&file, 1, &content));
    let found = compare(&nodes[1]);
    assert_eq!((found.differing, found.unreadable, found.differences.len()), (0, 1, 1));
    assert_eq!(found.differences[0].copies.iter().filter(|copy| copy.crc.is_none()).count(), 1);
    assert!(is_spilled(), "it was not brought back");
    // The checksum of the file says which of the two is right.
    let (text, said, is_right) = verify(&nodes[1], &[]);
    assert!(is_right && text.contains("1 object repaired"), "{text}{said}");
    assert!(nodes[0].client.get(&id, LONG).unwrap().data() == content);

    // What a node finds by itself is repaired by itself: a file that is cut short.
    fill(&nodes[0], &id);
    let path = spill_file(folder.path(), &id);
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(1_000_000).unwrap();
    until("a copy is made again", || {
        nodes[0].client.get(&id, LONG).is_ok_and(|found| found.data() == content)
    });
    until("all is right again", || compare(&nodes[1]).is_right());
}

/// All of it was brought back in its holder for each part.
#[test]
fn parts_of_a_spilled_object_come_from_its_file() {
    let Some(etcd) = Etcd::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--spill-dir", folder.path().to_str().unwrap()];
    let nodes = [Node::start(&etcd, "node0", &flags), Node::start(&etcd, "node1", &[])];
    nodes.iter().for_each(Node::wait_until_joined);
    let content = random_bytes(&mut Random::new(4), 9_000_000);
    let id = nodes[0].client.put(&content, &crate::named("@prod:spilled", 1)).unwrap();
    fill(&nodes[0], &id);
    let part = |range: &Range<u64>| &content[range.start as usize..range.end as usize];
    // In a message, over a bulk lane, and many together.
    for ranges in [
        vec![3..20, 5_000_000..5_000_100],
        vec![0..4_000_000, 4_000_000..9_000_000],
        vec![1..3_000_000, 3_900_000..3_900_001, 4_000_000..8_999_999],
    ] {
        let pieces = nodes[1].client.pool_read(&id, &ranges, NOW).unwrap();
        for (piece, range) in pieces.iter().zip(&ranges) {
            assert!(**piece == *part(range), "{range:?}");
        }
    }
    let reads: Vec<PartsOf> = (0..50)
        .map(|at| PartsOf { id, ranges: vec![at * 1000..at * 1000 + 7, 8_000_000..8_003_000] })
        .collect();
    let found = nodes[1].client.pool_gather(reads.clone(), NOW);
    for (pieces, read) in found.zip(&reads) {
        let pieces = pieces.unwrap();
        assert!(pieces.iter().zip(&read.ranges).all(|(piece, range)| **piece == *part(range)));
    }
    let state = nodes[0].client.states(&[id]).unwrap();
    assert_eq!(state, [ObjectState::Spilled], "it was not brought back");
    // A copy is whole, so a get of it brings it back.
    assert!(nodes[1].client.get(&id, LONG).unwrap().data() == content);
}
