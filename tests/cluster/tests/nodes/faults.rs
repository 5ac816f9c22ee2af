//! Random faults under random work: nothing that was acknowledged is lost while a node has it, no
//! bytes are wrong, and nothing waits for ever.
//!
//! `PLASMON_CLUSTER_ROUNDS` and `PLASMON_CLUSTER_SEED` make it longer, and another one.

#![expect(clippy::print_stderr, reason = "what a run did is its report")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plasmon_client::{Code, Name, ObjectId, PutOptions};
use plasmon_testkit::{Etcd, Random, TEST_TIMEOUT, pattern, until};

use crate::node::{LONG, NOW, Node, nodes};

/// Rounds of the short run.
const ROUNDS: u64 = 4;

/// Without any progress for so long the test ends the process: something waits for ever.
const STUCK_AFTER: Duration = Duration::from_secs(100);

/// Nodes end so far apart at least.
const NODES_APART: Duration = Duration::from_secs(35);

/// Bytes of the largest object.
const BYTES_MAX: usize = 1 << 20;

/// What was acknowledged under an id.
#[derive(Clone, Copy, Debug)]
struct Content {
    seed: u64,
    bytes: usize,
}

struct Run {
    random: Random,
    etcd: Etcd,
    nodes: Vec<Node>,
    objects: BTreeMap<ObjectId, (String, Content)>,
    deleted: BTreeMap<ObjectId, String>,
    /// Calls about these ended without saying what became of them.
    unknown: BTreeSet<ObjectId>,
    made: u64,
    started: usize,
    /// When a node ended last.
    ended: Option<Instant>,
}

/// What the watchdog looks at.
static PROGRESS: AtomicU64 = AtomicU64::new(0);

fn progress() {
    PROGRESS.fetch_add(1, Ordering::Relaxed);
}

/// Ends the process when nothing goes on.
fn watch() {
    thread::spawn(|| {
        let mut seen = (PROGRESS.load(Ordering::Relaxed), Instant::now());
        loop {
            thread::sleep(Duration::from_secs(1));
            let now = PROGRESS.load(Ordering::Relaxed);
            if now != seen.0 {
                seen = (now, Instant::now());
            } else if seen.1.elapsed() > STUCK_AFTER {
                eprintln!("nothing has gone on for {STUCK_AFTER:?}");
                std::process::abort();
            }
        }
    });
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[ignore = "takes half a minute, and the suite cluster does the like; scripts/test.py network"]
fn random_faults_lose_nothing() {
    let rounds = setting("PLASMON_CLUSTER_ROUNDS").unwrap_or(ROUNDS);
    let seed = setting("PLASMON_CLUSTER_SEED").unwrap_or(1);
    let Some((etcd, nodes)) = nodes(3, &[]) else { return };
    watch();
    let (objects, deleted, random) = (BTreeMap::new(), BTreeMap::new(), Random::new(seed));
    let started = nodes.len();
    let unknown = BTreeSet::new();
    let mut run =
        Run { random, etcd, nodes, objects, deleted, unknown, made: 0, started, ended: None };
    for round in 0..rounds {
        run.work();
        let fault = run.fault();
        eprintln!("seed {seed}, round {round}: {fault}");
        run.work();
        run.check(&format!("seed {seed}, round {round}, {fault}"));
    }
    run.end();
}

impl Run {
    /// Puts, and deletes now and then.
    fn work(&mut self) {
        for _ in 0..4 {
            self.put();
        }
        if self.random.percent(50) {
            self.delete();
        }
        if self.random.percent(50) {
            self.make_again();
        }
    }

    fn node(&mut self) -> usize {
        self.random.size_below(self.nodes.len())
    }

    fn put(&mut self) {
        self.made += 1;
        self.put_as(format!("@soak:{}", self.made));
    }

    fn put_as(&mut self, text: String) {
        let at = self.node();
        let content =
            Content { seed: self.random.word(), bytes: self.random.size_below(BYTES_MAX) };
        let name = Name::new("", text.clone()).unwrap();
        let id = name.id();
        let options = PutOptions {
            name: Some(name),
            // With two copies the loss of one node loses nothing.
            copies: 2 + self.random.below(2) as u8,
            copies_min: 2,
            ..PutOptions::default()
        };
        let data = pattern(content.seed, content.bytes);
        match self.nodes[at].client.put(&data, &options) {
            Ok(id) => {
                self.deleted.remove(&id);
                self.objects.insert(id, (text, content));
            }
            // Of one that was deleted there may be a copy still: it was not made.
            Err(error) if error.code() == Code::InUse => {}
            Err(error) => {
                assert!(is_passing(error.code()), "{text}: {error}");
                self.deleted.remove(&id);
                self.unknown.insert(id);
            }
        }
        progress();
    }

    fn delete(&mut self) {
        let Some(at) = self.random.index(self.objects.len()) else { return };
        let (id, (text, _)) =
            self.objects.iter().nth(at).map(|(id, it)| (*id, it.clone())).unwrap();
        let node = self.node();
        self.objects.remove(&id);
        match self.nodes[node].client.delete(&[id]) {
            Ok(outcomes) if outcomes == [None] => _ = self.deleted.insert(id, text),
            Ok(outcomes) => {
                assert_eq!(outcomes, [Some(Code::Unreachable)], "{text}");
                self.unknown.insert(id);
            }
            Err(error) => {
                assert!(is_passing(error.code()), "{text}: {error}");
                self.unknown.insert(id);
            }
        }
        progress();
    }

    /// Makes an object under the name of one that was deleted.
    fn make_again(&mut self) {
        let Some(text) = self.deleted.values().next().cloned() else { return };
        self.put_as(text);
    }

    /// Something ends, or stands still for a while; what it was.
    fn fault(&mut self) -> String {
        let at = self.node();
        // Of two nodes that end within half a minute neither is given up: it could be the network.
        let may_end = self.ended.is_none_or(|at| at.elapsed() > NODES_APART);
        match self.random.below(if may_end { 6 } else { 5 }) {
            0 => {
                self.nodes[at].kill_pool_daemon();
                format!("pool daemon {at} was killed")
            }
            1 => {
                self.nodes[at].kill_daemon();
                format!("daemon {at} was killed")
            }
            2 => {
                let time = Duration::from_millis(100 + self.random.below(5_000));
                self.nodes[at].pause_pool_daemon(time);
                format!("pool daemon {at} stood still for {time:?}")
            }
            3 => {
                self.etcd.kill(0);
                let time = Duration::from_millis(self.random.below(4_000));
                thread::sleep(time);
                self.etcd.restart(0);
                format!("etcd was away for {time:?}")
            }
            4 => {
                let time = Duration::from_millis(100 + self.random.below(4_000));
                self.etcd.pause(0);
                thread::sleep(time);
                self.etcd.resume(0);
                format!("etcd stood still for {time:?}")
            }
            _ => {
                self.nodes.remove(at).kill();
                self.ended = Some(Instant::now());
                self.started += 1;
                let name = format!("node{}", self.started);
                let node = Node::start(&self.etcd, &name, &[]);
                progress();
                node.wait_until_joined();
                self.nodes.push(node);
                format!("node {at} was killed, and {name} is new")
            }
        }
    }

    /// Everything that was acknowledged is got on every node; what was deleted is not.
    fn check(&self, when: &str) {
        let nodes = &self.nodes;
        thread::scope(|scope| {
            for (at, node) in nodes.iter().enumerate() {
                let check = move || {
                    for (id, (text, content)) in &self.objects {
                        let context = format!("{when}: {text} on node {at}");
                        check_object(node, id, *content, &context);
                        progress();
                    }
                    for (id, text) in &self.deleted {
                        until(&format!("{when}: {text} is gone on node {at}"), || {
                            let found = node.client.get(id, NOW).map(drop).map_err(|e| e.code());
                            matches!(found, Err(Code::Absent | Code::Deleted))
                        });
                        progress();
                    }
                };
                scope.spawn(check);
            }
        });
        // Each object has its copies again before the next node may end.
        for (id, (text, _)) in &self.objects {
            let mut kept = Vec::new();
            let deadline = Instant::now() + TEST_TIMEOUT;
            while kept.len() < 2 {
                kept = nodes.iter().enumerate().filter(|(_, node)| node.keeps(id)).collect();
                assert!(
                    Instant::now() < deadline,
                    "{when}: {id} {text} is kept by {} only",
                    names(&kept)
                );
                thread::sleep(Duration::from_millis(10));
            }
            progress();
        }
    }

    /// Everything is deleted, and nothing is left.
    fn end(self) {
        let ids: Vec<ObjectId> = self.objects.keys().copied().collect();
        for chunk in ids.chunks(100) {
            let outcomes = self.nodes[0].client.delete(chunk).unwrap();
            assert!(outcomes.iter().all(Option::is_none), "{outcomes:?}");
        }
        for id in &self.unknown {
            let outcomes = self.nodes[0].client.delete(&[*id]).unwrap();
            assert!(matches!(outcomes[..], [None | Some(Code::Absent)]), "{outcomes:?}");
        }
        for node in &self.nodes {
            until("the memory of every object is free", || {
                node.client.status().unwrap().used_bytes == 0
            });
        }
    }
}

fn names(nodes: &[(usize, &Node)]) -> String {
    format!("{:?}", nodes.iter().map(|(at, _)| at).collect::<Vec<_>>())
}

/// Whether a call may fail with this while something is away.
fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::Unreachable | Code::NotEnoughNodes | Code::InUse | Code::Exists | Code::Disconnected
    )
}

fn check_object(node: &Node, id: &ObjectId, content: Content, context: &str) {
    until(context, || match node.client.get(id, LONG) {
        Ok(found) => {
            assert!(found.data() == pattern(content.seed, content.bytes), "{context}");
            true
        }
        Err(error) => {
            assert!(is_passing(error.code()), "{context}: {error}");
            eprintln!("{context}: {error}");
            false
        }
    });
}
