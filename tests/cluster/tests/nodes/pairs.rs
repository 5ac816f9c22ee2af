//! Pairs of nodes that lose each other at random while all hold their leases: what was acknowledged
//! stays, nothing waits for ever, and in the end all nodes take part again.
//!
//! `PLASMON_CLUSTER_ROUNDS` and `PLASMON_CLUSTER_SEED` make it longer, and another one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plasmon_client::Code;
use plasmon_testkit::{Random, until};

use crate::machines::{Machines, Put, put, put_in_time, wait_until_there};
use crate::stranger::Knowledge;

/// Rounds of one run; each takes up to nine seconds.
const ROUNDS: u64 = 5;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[ignore = "takes a minute; scripts/test.py network"]
fn nothing_acknowledged_is_lost_when_pairs_of_nodes_lose_each_other() {
    let Some(machines) = Machines::start(3) else { return };
    let seed = setting("PLASMON_CLUSTER_SEED").unwrap_or(1);
    let rounds = setting("PLASMON_CLUSTER_ROUNDS").unwrap_or(ROUNDS);
    eprintln!("PLASMON_CLUSTER_SEED={seed}");
    let mut random = Random::new(seed);
    let (nodes, network) = (&machines.nodes, &machines.network);
    let live = || Knowledge::read(&machines.etcd).live().len();
    let (acknowledged, failed) = (Mutex::new(Vec::<Put>::new()), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let mut stopped = 0;
    thread::scope(|scope| {
        for (at, node) in nodes.iter().enumerate() {
            let (acknowledged, failed, is_over) = (&acknowledged, &failed, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    match put(node, &format!("@prod:pairs{at}.{number}"), 2, 5_000) {
                        Ok(object) => acknowledged.lock().unwrap().push(object),
                        Err(error) => {
                            let code = error.code();
                            let is_right = matches!(code, Code::Unreachable | Code::NotEnoughNodes);
                            assert!(is_right, "{error}");
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        for round in 0..rounds {
            let from = random.size_below(3);
            let to = (from + 1 + random.size_below(2)) % 3;
            let back = random.percent(60).then_some((to, from));
            let pairs: Vec<_> = [Some((from, to)), back].into_iter().flatten().collect();
            let ms = 1_000 + random.below(8_000);
            let blocks: Vec<_> = pairs
                .iter()
                .map(|(a, b)| network.block(machines.machine(*a), machines.machine(*b)))
                .collect();
            thread::sleep(Duration::from_millis(ms));
            let count = live();
            stopped += u64::from(count < 3);
            eprintln!("round {round}: {pairs:?} for {ms} ms, {count} nodes take part");
            drop(blocks);
            thread::sleep(Duration::from_millis(random.below(4_000)));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    until("all nodes take part", || live() == 3);
    let acknowledged = acknowledged.into_inner().unwrap();
    let failed = failed.into_inner();
    eprintln!("{} puts, {failed} ended without an answer, {stopped} stops", acknowledged.len());
    assert!(acknowledged.len() > 50);
    for object in &acknowledged {
        nodes.iter().for_each(|node| wait_until_there(node, object));
    }
    for (at, node) in nodes.iter().enumerate() {
        let object = put_in_time(node, &format!("@prod:later{at}"), 3, 10_000);
        nodes.iter().for_each(|node| wait_until_there(node, &object));
    }
}
