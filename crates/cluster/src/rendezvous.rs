//! Weighted rendezvous hashing: which nodes a group should be on.
//!
//! Every pair of a group and a node has a cost that depends on nothing else, and a group belongs on
//! the nodes with the lowest costs. So a node that comes takes groups from others and moves none
//! between them; a node that goes leaves its own groups to others and moves nothing else. A cost is
//! `-log2(u) / weight` for a `u` between 0 and 1 from a hash: the share of a node is then its
//! weight among all weights.
//!
//! Zones come first: the nodes of a group are in as many zones as there are, and only what is left
//! over goes to second nodes of zones.
//!
//! Costs are integers, and equal ones are ordered by uuid. So all machines compute the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::{ACTING_MAX, GROUPS, WEIGHT_MAX};
use crate::map::{GroupNo, mix};
use crate::node::{Member, NodeUuid, Slot};

/// A node that groups may be given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its slot.
    pub(crate) slot: Slot,
    /// Its identity, which the hash is of: a node keeps its groups whatever its slot is.
    pub(crate) uuid: NodeUuid,
    /// What fails together with it.
    pub(crate) zone: Arc<str>,
    /// Its share; with 0 it gets no groups.
    pub(crate) weight: u32,
}

impl Candidate {
    /// The node in this slot.
    pub(crate) fn new(slot: Slot, member: &Member) -> Self {
        let zone = member.zone.as_str().into();
        Self { slot, uuid: member.uuid, zone, weight: member.weight }
    }
}

/// The best nodes for a group among those that were offered.
///
/// Nodes can be offered in any order, and the best ones of some nodes and those of all others give
/// the best ones of all: a node that is offered displaces one at most, and nodes that were
/// displaced never come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Choice {
    /// At most [`ACTING_MAX`], in the order of [`Self::rank`].
    best: Vec<(u64, Candidate)>,
}

impl Choice {
    fn of<'a>(group: GroupNo, candidates: impl IntoIterator<Item = &'a Candidate>) -> Self {
        let mut choice = Self::default();
        candidates.into_iter().for_each(|candidate| choice.offer(group, candidate));
        choice
    }

    fn offer(&mut self, group: GroupNo, candidate: &Candidate) {
        if candidate.weight == 0 {
            return;
        }
        let cost = cost(group, candidate.uuid, candidate.weight);
        let is_full = self.best.len() == ACTING_MAX;
        let is_worse = |other: &(u64, Candidate)| other.0 < cost;
        let in_zone = |other: &(u64, Candidate)| other.1.zone == candidate.zone;
        if is_full && self.best.iter().all(is_worse) && self.best.iter().any(in_zone) {
            return;
        }
        self.best.push((cost, candidate.clone()));
        let mut ranked: Vec<_> = self.best.iter().map(|entry| (self.rank(entry), entry)).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.truncate(ACTING_MAX);
        self.best = ranked.into_iter().map(|(_, entry)| entry.clone()).collect();
    }

    /// How many better nodes of its zone there are, then its cost; lower is better.
    fn rank(&self, (cost, candidate): &(u64, Candidate)) -> (usize, u64, NodeUuid) {
        let key = (*cost, candidate.uuid);
        let same_zone = self.best.iter().filter(|(_, other)| other.zone == candidate.zone);
        let better = same_zone.filter(|(cost, other)| (*cost, other.uuid) < key).count();
        (better, key.0, key.1)
    }

    fn slots(&self) -> Vec<Slot> {
        self.best.iter().map(|(_, candidate)| candidate.slot).collect()
    }
}

/// The nodes that the groups should be on, kept from one set of nodes to the next: only what a
/// change touches is computed again.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    candidates: BTreeMap<Slot, Candidate>,
    choices: Vec<Choice>,
}

impl Default for Targets {
    fn default() -> Self {
        Self::of_groups(GROUPS)
    }
}

impl Targets {
    /// For so many groups, and no nodes.
    pub(crate) fn of_groups(count: usize) -> Self {
        Self { candidates: BTreeMap::new(), choices: vec![Choice::default(); count] }
    }

    /// The nodes that groups may be given to are now these.
    pub(crate) fn update(&mut self, candidates: BTreeMap<Slot, Candidate>) {
        let is_in = |set: &BTreeMap<Slot, Candidate>, candidate: &Candidate| {
            set.get(&candidate.slot) == Some(candidate)
        };
        let added: Vec<_> =
            candidates.values().filter(|new| !is_in(&self.candidates, new)).collect();
        for (group, choice) in GroupNo::all().zip(&mut self.choices) {
            if choice.best.iter().all(|(_, old)| is_in(&candidates, old)) {
                added.iter().for_each(|new| choice.offer(group, new));
            } else {
                *choice = Choice::of(group, candidates.values());
            }
        }
        self.candidates = candidates;
    }

    /// The nodes that a group should be on, up to three, the primary first.
    pub(crate) fn of(&self, group: GroupNo) -> Vec<Slot> {
        self.choices[group.index()].slots()
    }
}

/// What it costs to have this group on this node; lower is better. The weight is 1 to
/// [`WEIGHT_MAX`].
fn cost(group: GroupNo, uuid: NodeUuid, weight: u32) -> u64 {
    let [first, second] = words(uuid);
    let hash = mix(mix(first ^ mix(second)) ^ mix(u64::from(group.number())));
    // Below 2^38 times 2^20.
    negative_log2(hash) * u64::from(WEIGHT_MAX) / u64::from(weight)
}

fn words(uuid: NodeUuid) -> [u64; 2] {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b @ ..] = uuid.0;
    [u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]), u64::from_le_bytes(b)]
}

/// Bits after the point of a logarithm.
const FRACTION_BITS: u32 = 32;

/// Steps of the table of logarithms, as a power of two.
const STEP_BITS: u32 = 10;

/// `log2(1 + step / 1024)`.
static LOG2: [u64; (1 << STEP_BITS) + 1] = log2_table();

/// `-log2(hash / 2^64)`, for a hash of 0 as for 1: straight lines between the entries of the table.
fn negative_log2(hash: u64) -> u64 {
    let hash = hash.max(1);
    let exponent = u64::from(hash.ilog2());
    // The digits after the leading one, from the top.
    let mantissa = (hash << hash.leading_zeros()) << 1;
    let step = (mantissa >> (64 - STEP_BITS)) as usize;
    let within = (mantissa << STEP_BITS) >> (64 - FRACTION_BITS);
    let (from, to) = (LOG2[step], LOG2[step + 1]);
    let log = (exponent << FRACTION_BITS) + from + (((to - from) * within) >> FRACTION_BITS);
    (64 << FRACTION_BITS) - log
}

const fn log2_table() -> [u64; (1 << STEP_BITS) + 1] {
    let mut table = [0; (1 << STEP_BITS) + 1];
    let mut step = 0;
    while step < 1 << STEP_BITS {
        table[step] = log2((1 << STEP_BITS) + step as u64);
        step += 1;
    }
    table[step] = 1 << FRACTION_BITS;
    table
}

/// The logarithm of `mantissa / 1024`, which is at least 1 and below 2, digit by digit: the square
/// of a number has twice its logarithm, so it is at least 2 where the next digit is 1.
const fn log2(mantissa: u64) -> u64 {
    const POINT: u32 = 60;
    let mut x = (mantissa as u128) << (POINT - STEP_BITS);
    let mut log = 0;
    let mut digit = 0;
    while digit < FRACTION_BITS {
        x = (x * x) >> POINT;
        let is_one = x >> (POINT + 1) != 0;
        if is_one {
            x >>= 1;
        }
        log = log << 1 | is_one as u64;
        digit += 1;
    }
    log
}

#[cfg(test)]
mod tests;
