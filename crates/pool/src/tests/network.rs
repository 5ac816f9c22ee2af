//! The connections between the machines of a simulated pool.

use std::collections::BTreeMap;

use crate::time::Mono;

/// One direction of a connection.
#[derive(Debug, Default)]
struct Lane {
    /// Nothing arrives, and nothing says so.
    cut: bool,
    last_arrival: Mono,
    held: Vec<Vec<u8>>,
}

/// A connection between two machines.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) up: bool,
    /// What was sent over an earlier connection never arrives.
    pub(super) generation: u64,
    lanes: [Lane; 2],
}

/// Names one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Way {
    fn key(self) -> (usize, usize) {
        (self.from.min(self.to), self.from.max(self.to))
    }

    fn lane(self) -> usize {
        usize::from(self.from > self.to)
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Network {
    links: BTreeMap<(usize, usize), Link>,
}

impl Network {
    pub(super) fn link(&mut self, way: Way) -> &mut Link {
        self.links.entry(way.key()).or_default()
    }

    pub(super) fn is_cut(&mut self, way: Way) -> bool {
        self.link(way).lanes[way.lane()].cut
    }

    /// When something that is sent now arrives: after everything sent before.
    pub(super) fn arrival(&mut self, way: Way, at: Mono) -> Mono {
        let lane = &mut self.link(way).lanes[way.lane()];
        lane.last_arrival = at.max(Mono(lane.last_arrival.0 + 1));
        lane.last_arrival
    }

    pub(super) fn cut(&mut self, way: Way) {
        self.link(way).lanes[way.lane()].cut = true;
    }

    /// Keeps what arrives while the direction is cut.
    pub(super) fn hold(&mut self, way: Way, bytes: Vec<u8>) {
        self.link(way).lanes[way.lane()].held.push(bytes);
    }

    /// Ends a cut; what was held arrives now.
    pub(super) fn heal(&mut self, way: Way) -> Vec<Vec<u8>> {
        let lane = &mut self.link(way).lanes[way.lane()];
        lane.cut = false;
        std::mem::take(&mut lane.held)
    }

    /// Ends a connection with everything that is under way.
    pub(super) fn reset(&mut self, way: Way) {
        let link = self.link(way);
        link.up = false;
        link.generation += 1;
        for lane in &mut link.lanes {
            *lane = Lane { last_arrival: lane.last_arrival, ..Lane::default() };
        }
    }
}
