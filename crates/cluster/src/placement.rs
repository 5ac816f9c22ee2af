//! Where the copies of an object go.
//!
//! In this order: the node of the writer, where the bytes are already; the primary of the group,
//! which then knows the object without asking; the other acting nodes; then, of two nodes drawn at
//! random, the one with more free memory, so that full nodes are avoided and an empty one is not
//! chosen by every writer at once. A node whose zone has fewer of the copies goes before all of
//! these.

use std::collections::BTreeMap;

use crate::limits::HOLDERS_MAX;
use crate::map::{GroupNo, Map, mix};
use crate::node::Slot;

/// What copies are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The group of the object.
    pub group: GroupNo,
    /// How many copies there are to be, those in `held` included.
    pub copies: usize,
    /// The bytes of one.
    pub bytes: u64,
    /// The node of the writer; `None` where it shall keep no copy (placement *spread*), and for a
    /// repair.
    pub writer: Option<Slot>,
    /// Nodes that have a copy, in a repair.
    pub held: &'a [Slot],
    /// Nodes that were asked and refused.
    pub refused: &'a [Slot],
}

/// What was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The nodes that get a copy, in order, without those in [`Request::held`]. Fewer than wanted
    /// if there are no more.
    pub holders: Vec<Slot>,
    /// If there are too few: the nodes that have too little free memory.
    pub full: Vec<Slot>,
}

/// Chooses the nodes for the copies that are missing.
///
/// `free_bytes` is what each node can take, as last heard; a node that is not in it can take
/// nothing. The writer's node needs no room: the bytes are there. `random` decides which nodes are
/// compared.
pub fn place(
    map: &Map,
    free_bytes: &BTreeMap<Slot, u64>,
    request: &Request<'_>,
    random: u64,
) -> Placement {
    let mut search = Search { map, free_bytes, request, holders: request.held.to_vec() };
    let copies = request.copies.min(HOLDERS_MAX);
    let mut draw = random;
    while search.holders.len() < copies {
        draw = mix(draw);
        let Some(slot) = search.next(draw) else { break };
        search.holders.push(slot);
    }
    let holders = search.holders.split_off(request.held.len());
    let is_short = request.held.len() + holders.len() < copies;
    let full = if is_short { search.full(&holders) } else { Vec::new() };
    Placement { holders, full }
}

struct Search<'a> {
    map: &'a Map,
    free_bytes: &'a BTreeMap<Slot, u64>,
    request: &'a Request<'a>,
    holders: Vec<Slot>,
}

impl Search<'_> {
    fn next(&self, draw: u64) -> Option<Slot> {
        let preferred = self.request.writer.into_iter();
        let preferred = preferred.chain(self.map.acting(self.request.group).iter().copied());
        let preferred: Vec<Slot> = preferred.filter(|slot| self.is_possible(*slot)).collect();
        // A zone without a copy cannot be bettered; this is the way of almost every object.
        if let Some(slot) = preferred.iter().find(|slot| self.copies_near(**slot) == 0) {
            return Some(*slot);
        }
        let possible =
            self.map.nodes().map(|(slot, _)| slot).filter(|slot| self.is_possible(*slot));
        let counted: Vec<(usize, Slot)> =
            possible.map(|slot| (self.copies_near(slot), slot)).collect();
        let fewest = counted.iter().map(|(copies, _)| *copies).min()?;
        let best: Vec<Slot> = counted
            .into_iter()
            .filter(|(copies, _)| *copies == fewest)
            .map(|(_, slot)| slot)
            .collect();
        let known = preferred.into_iter().find(|slot| best.contains(slot));
        Some(known.unwrap_or_else(|| self.roomier(&best, draw)))
    }

    /// Of two different nodes drawn at random, the one with more free memory.
    fn roomier(&self, nodes: &[Slot], draw: u64) -> Slot {
        let count = nodes.len() as u64;
        let first = (draw >> 32) % count;
        let second = (first + 1 + (draw & 0xffff_ffff) % (count - 1).max(1)) % count;
        let [first, second] = [first, second].map(|at| nodes[at as usize]);
        if self.free(second) > self.free(first) { second } else { first }
    }

    fn free(&self, slot: Slot) -> u64 {
        self.free_bytes.get(&slot).copied().unwrap_or(0)
    }

    fn has_room(&self, slot: Slot) -> bool {
        self.request.writer == Some(slot) || self.free(slot) >= self.request.bytes
    }

    fn is_possible(&self, slot: Slot) -> bool {
        self.is_open(slot) && !self.holders.contains(&slot) && self.has_room(slot)
    }

    /// Whether a node may be given copies, if it has room.
    fn is_open(&self, slot: Slot) -> bool {
        let node = self.map.node(slot);
        node.is_some_and(|node| node.is_assignable()) && !self.request.refused.contains(&slot)
    }

    /// The copies in the zone of a node.
    fn copies_near(&self, slot: Slot) -> usize {
        let zone = |slot: Slot| self.map.node(slot).map(|node| node.member.zone.as_str());
        self.holders.iter().filter(|holder| zone(**holder) == zone(slot)).count()
    }

    /// The nodes that might have been chosen with more free memory.
    fn full(&self, holders: &[Slot]) -> Vec<Slot> {
        let slots = self.map.nodes().map(|(slot, _)| slot);
        slots
            .filter(|slot| self.is_open(*slot) && !self.has_room(*slot))
            .filter(|slot| !holders.contains(slot) && !self.request.held.contains(slot))
            .collect()
    }
}

#[cfg(test)]
mod tests;
