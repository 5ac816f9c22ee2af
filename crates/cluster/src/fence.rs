//! Which node has to go when nodes do not reach each other though all hold their leases.
//!
//! ```text
//!   nodes report whom      a pair does not         the fewest nodes        etcd: fenced/NODE
//!   they do not reach ───► reach each other, ────► that leave no such ───► the node stops to
//!                          confirmed               pair                    decide, ends its lease
//!                                                                            │
//!   live again ◄── no pair with a live node, settled ◄── held: a lease, ◄───┘ down, as after any
//!                                                         and not live         lease that ended
//! ```
//!
//! # Rules
//!
//! * A pair counts if either of the two reports the other. Both have to report at all: a node of
//!   an earlier build does not, and would not understand that it is fenced.
//! * The nodes to go are found one after the other: the one in most pairs; of several the one that
//!   does not lead the pool, then the one that has every record of the fewest groups, then the one
//!   in the highest slot. So a node that most others do not reach goes, and of two that only miss
//!   each other one.
//! * Never the last live node that has every record of a group.
//! * All of them go or none: if they are more than the brake leaves room for, nothing is won by
//!   some of them. The reports stay for operators to see.
//! * At most one decision in [`PAUSE_MS`], and each node that was fenced again and again is held
//!   for longer.
//!
//! # Why that is sound
//!
//! A fence promotes nothing. The node that leads writes `fenced/NODE` under the lease of that node;
//! the node stops to decide and ends its lease, or its lease ends by itself. Only then is it down
//! in the map, by the rules for every lease that ended, and only then are others promoted. With a
//! new lease it acts on the map that it reads then, which has it down; the leader does not count it
//! as present ([`Fences::step`]) until it may be live again.
//!
//! What is remembered here only adds patience. Another leader decides by the same reports.

use std::collections::{BTreeMap, BTreeSet};

use crate::map::Map;
use crate::node::Slot;
use crate::suspicion::Suspect;

/// A pair is decided about when it and all other pairs are so old: reports of one event come one
/// after the other.
pub const CONFIRM_MS: u64 = 1_000;

/// In any case when the oldest is so many times as old.
const CONFIRM_MAX: u64 = 3;

/// So long after a decision there is no other one. A node that has not stopped by then is asked
/// again.
pub const PAUSE_MS: u64 = 10_000;

/// So long a node that was fenced has to be reached before it is live again; twice as long after
/// each further time, up to the longest.
pub const SETTLE_MS: u64 = 2_000;

/// How often that time doubles.
const DOUBLINGS_MAX: u32 = 5;

/// These times, which simulations shorten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// [`CONFIRM_MS`].
    pub confirm_ms: u64,
    /// [`PAUSE_MS`].
    pub pause_ms: u64,
    /// [`SETTLE_MS`].
    pub settle_ms: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { confirm_ms: CONFIRM_MS, pause_ms: PAUSE_MS, settle_ms: SETTLE_MS }
    }
}

/// After so long without being fenced a node is as good as one that never was.
const FORGET_MS: u64 = 600_000;

/// The peers that one node does not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachReport {
    /// The node that reports; the map has the start of it that made the report.
    pub slot: Slot,
    /// What it does not reach.
    pub suspects: Vec<Suspect>,
}

/// What is known of which nodes reach each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach<'a> {
    /// The node that leads.
    pub leader: Option<Slot>,
    /// One report of each node that reports; with no suspects it reaches all peers.
    pub reports: &'a [ReachReport],
}

impl Reach<'_> {
    /// Pairs of nodes of the map that do not reach each other, the lower slot first. Both report,
    /// and hold a lease as their reports do.
    pub fn pairs(&self, map: &Map) -> BTreeSet<(Slot, Slot)> {
        let slots: BTreeSet<Slot> = self.reports.iter().map(|report| report.slot).collect();
        let is_meant = |suspect: &&Suspect| {
            let node = map.node(suspect.slot);
            let is_this_start =
                node.is_some_and(|node| node.member.incarnation == suspect.incarnation);
            is_this_start && slots.contains(&suspect.slot)
        };
        let mut pairs = BTreeSet::new();
        for report in self.reports {
            let others = report.suspects.iter().filter(is_meant).map(|suspect| suspect.slot);
            let others = others.filter(|other| *other != report.slot);
            pairs.extend(others.map(|other| (other.min(report.slot), other.max(report.slot))));
        }
        pairs
    }
}

/// What the rules need to see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The current map.
    pub(crate) map: &'a Map,
    /// The nodes of it that hold a lease in the incarnation that the map has.
    pub(crate) present: &'a BTreeSet<Slot>,
    pub(crate) reach: Reach<'a>,
    /// How many nodes may be lost, as far as the brake goes.
    pub(crate) room: usize,
}

impl Seen<'_> {
    fn is_live(&self, slot: Slot) -> bool {
        self.map.is_live(slot) && self.present.contains(&slot)
    }

    /// Whether every group has a live node with every record without these.
    fn may_go(&self, slots: &BTreeSet<Slot>) -> bool {
        self.map.groups().all(|(_, group)| {
            let in_sync = group.in_sync();
            let stays = |slot: &Slot| self.is_live(*slot) && !slots.contains(slot);
            !in_sync.iter().any(|slot| slots.contains(slot)) || in_sync.iter().any(stays)
        })
    }

    /// Whether a group waits for the records that a node has.
    fn is_awaited(&self, slot: Slot) -> bool {
        self.map.groups().any(|(_, group)| group.in_sync().contains(&slot))
    }

    fn records(&self, slot: Slot) -> usize {
        self.map.groups().filter(|(_, group)| group.in_sync().contains(&slot)).count()
    }
}

/// What comes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Nodes that hold a lease and are not to be live.
    pub(crate) held: BTreeSet<Slot>,
    /// Live nodes that have to stop.
    pub(crate) fence: BTreeSet<Slot>,
    /// When to look again without a change.
    pub(crate) deadline_ms: Option<u64>,
}

/// A node that was fenced.
#[derive(Clone, Debug)]
struct Fenced {
    last_ms: u64,
    times: u32,
    /// Since when it is in no pair with a live node.
    clear_ms: Option<u64>,
}

impl Fenced {
    /// How long it has to be reached, when that is so long for the first time.
    fn settle_ms(&self, first_ms: u64) -> u64 {
        first_ms << self.times.saturating_sub(1).min(DOUBLINGS_MAX)
    }
}

/// The pairs as they were seen, and the nodes that were fenced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    times: Times,
    since_ms: BTreeMap<(Slot, Slot), u64>,
    fenced: BTreeMap<Slot, Fenced>,
    /// Nodes that are to stop, each with the incarnation that is meant.
    pending: BTreeMap<Slot, u64>,
    /// Until when there is no other decision.
    pause_until_ms: u64,
}

impl Fences {
    pub(crate) fn new(times: Times) -> Self {
        Self { times, ..Self::default() }
    }

    /// Says which nodes have to go and which may not come back yet.
    pub(crate) fn step(&mut self, now_ms: u64, seen: &Seen<'_>) -> Outcome {
        let pairs = seen.reach.pairs(seen.map);
        self.fenced.retain(|_, fenced| fenced.last_ms.saturating_add(FORGET_MS) > now_ms);
        let mut deadlines = Vec::new();
        let held = self.hold(now_ms, seen, &pairs, &mut deadlines);
        let is_live = |pair: &&(Slot, Slot)| seen.is_live(pair.0) && seen.is_live(pair.1);
        let live: BTreeSet<(Slot, Slot)> = pairs.iter().filter(is_live).copied().collect();
        self.since_ms.retain(|pair, _| live.contains(pair));
        live.iter().for_each(|pair| _ = self.since_ms.entry(*pair).or_insert(now_ms));
        self.pending.retain(|slot, incarnation| {
            let is_asked = now_ms < self.pause_until_ms && seen.is_live(*slot);
            let node = seen.map.node(*slot).filter(|_| is_asked);
            node.is_some_and(|node| node.member.incarnation == *incarnation)
        });
        match self.decide_at_ms() {
            Some(at_ms) if at_ms <= now_ms => self.decide(now_ms, seen, &live),
            at_ms => deadlines.extend(at_ms),
        }
        let fence = self.pending.keys().copied().collect();
        Outcome { held, fence, deadline_ms: deadlines.into_iter().min() }
    }

    /// The nodes that hold a lease, are not live and stay so. One that a group waits for is let in.
    fn hold(
        &mut self,
        now_ms: u64,
        seen: &Seen<'_>,
        pairs: &BTreeSet<(Slot, Slot)>,
        deadlines: &mut Vec<u64>,
    ) -> BTreeSet<Slot> {
        let mut live: BTreeSet<Slot> =
            seen.present.iter().copied().filter(|slot| seen.is_live(*slot)).collect();
        let mut held = BTreeSet::new();
        for slot in seen.present.iter().copied().filter(|slot| !seen.is_live(*slot)) {
            let is_missed = pairs
                .iter()
                .any(|(a, b)| (*a == slot && live.contains(b)) || (*b == slot && live.contains(a)));
            let settle_ms = self.times.settle_ms;
            let until_ms = self.fenced.get_mut(&slot).map(|fenced| {
                let clear_ms = fenced.clear_ms.filter(|_| !is_missed);
                fenced.clear_ms = (!is_missed).then(|| clear_ms.unwrap_or(now_ms));
                fenced
                    .clear_ms
                    .map_or(u64::MAX, |ms| ms.saturating_add(fenced.settle_ms(settle_ms)))
            });
            let is_settling = until_ms.is_some_and(|until_ms| until_ms > now_ms);
            if (is_missed || is_settling) && !seen.is_awaited(slot) {
                held.insert(slot);
                deadlines.extend(until_ms.filter(|until_ms| *until_ms < u64::MAX));
            } else {
                live.insert(slot);
            }
        }
        held
    }

    /// When the pairs are to be decided about.
    fn decide_at_ms(&self) -> Option<u64> {
        let oldest_ms = self.since_ms.values().min()?;
        let newest_ms = self.since_ms.values().max()?;
        let confirm_ms = self.times.confirm_ms;
        let confirmed_ms = newest_ms.saturating_add(confirm_ms);
        let at_ms = confirmed_ms.min(oldest_ms.saturating_add(CONFIRM_MAX * confirm_ms));
        Some(at_ms.max(self.pause_until_ms))
    }

    fn decide(&mut self, now_ms: u64, seen: &Seen<'_>, pairs: &BTreeSet<(Slot, Slot)>) {
        self.pending.clear();
        let Some(cover) = cover(seen, pairs) else { return };
        self.pause_until_ms = now_ms.saturating_add(self.times.pause_ms);
        for slot in cover {
            let Some(node) = seen.map.node(slot) else { continue };
            self.pending.insert(slot, node.member.incarnation);
            let new = Fenced { last_ms: now_ms, times: 0, clear_ms: None };
            let fenced = self.fenced.entry(slot).or_insert(new);
            (fenced.last_ms, fenced.clear_ms) = (now_ms, None);
            fenced.times = fenced.times.saturating_add(1);
        }
    }
}

/// The nodes without which no pair is left; `None` if they are too many or some of them cannot go.
fn cover(seen: &Seen<'_>, pairs: &BTreeSet<(Slot, Slot)>) -> Option<BTreeSet<Slot>> {
    let mut left = pairs.clone();
    let mut cover = BTreeSet::new();
    while !left.is_empty() {
        if cover.len() == seen.room {
            return None;
        }
        let mut degrees: BTreeMap<Slot, usize> = BTreeMap::new();
        for slot in left.iter().flat_map(|(a, b)| [*a, *b]) {
            *degrees.entry(slot).or_default() += 1;
        }
        let may_go = |slot: &Slot| {
            let mut with = cover.clone();
            with.insert(*slot);
            seen.may_go(&with)
        };
        let rank = |slot: &Slot| {
            let is_leader = seen.reach.leader == Some(*slot);
            let records = std::cmp::Reverse(seen.records(*slot));
            (degrees[slot], !is_leader, records, *slot)
        };
        let slot = degrees.keys().copied().filter(may_go).max_by_key(rank)?;
        cover.insert(slot);
        left.retain(|(a, b)| *a != slot && *b != slot);
    }
    Some(cover)
}

#[cfg(test)]
mod tests;
