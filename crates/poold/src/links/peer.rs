//! What this node has to do with one peer.

use std::collections::BTreeMap;
use std::time::Duration;

use plasmon_cluster::{Node, Slot};
use plasmon_net::handshake::{Lane, NodeIdentity};

use super::control::Control;
use super::dial::Dial;

/// Bulk lanes of each two nodes.
pub(crate) const BULK_LANES: u8 = 2;

/// One start of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) uuid: [u8; 16],
    pub(super) incarnation: u64,
}

impl Start {
    pub(super) fn of(node: &NodeIdentity) -> Self {
        Self { uuid: node.uuid, incarnation: node.incarnation }
    }
}

/// A peer of the map.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) start: Start,
    pub(super) name: String,
    /// Whether it has refused bulk lanes that are not encrypted.
    pub(super) wants_encryption: bool,
    pub(super) addresses: Vec<String>,
    /// Whether it is to be connected: the map says that it is there, in a higher slot.
    pub(super) is_dialed: bool,
    pub(super) control: Option<Control>,
    /// The connections of the bulk lanes that are up.
    pub(super) bulk: BTreeMap<u8, u64>,
    /// Lanes that this node has connected or is connecting.
    pub(super) dials: BTreeMap<Lane, Dial>,
}

impl Peer {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            start: Self::start_of(node),
            name: String::new(),
            wants_encryption: false,
            addresses: Vec::new(),
            is_dialed: false,
            control: None,
            bulk: BTreeMap::new(),
            dials: BTreeMap::new(),
        }
    }

    /// The start of it that the map says.
    pub(super) fn start_of(node: &Node) -> Start {
        Start { uuid: node.member.uuid.0, incarnation: node.member.incarnation }
    }

    /// Whether a lane's other side is this start of this node.
    pub(super) fn is(&self, slot: Slot, node: &NodeIdentity) -> bool {
        slot.0 == node.slot && Start::of(node) == self.start
    }

    /// Takes what the map says of it. The numbers of handshakes that this ends.
    pub(super) fn update(&mut self, node: &Node, is_dialed: bool) -> Vec<u64> {
        let is_news = self.addresses != node.member.addresses || self.is_dialed != is_dialed;
        self.name.clone_from(&node.member.name);
        self.addresses.clone_from(&node.member.addresses);
        self.is_dialed = is_dialed;
        if is_news { self.dials.values_mut().filter_map(Dial::restart).collect() } else { vec![] }
    }

    /// The lanes that this node is to connect: the control lane first, then the others.
    pub(super) fn wanted_lanes(&self) -> impl Iterator<Item = Lane> + use<> {
        let (control, bulk) = match (self.is_dialed, &self.control) {
            (false, _) => (None, 0),
            (true, None) => (Some(Lane::Control), 0),
            (true, Some(_)) => (None, BULK_LANES),
        };
        control.into_iter().chain((0..bulk).map(Lane::Bulk))
    }

    pub(super) fn next_deadline(&self, now: Duration) -> Option<Duration> {
        let control = self.control.as_ref().and_then(|control| control.next_deadline(now));
        let dials = self.wanted_lanes().filter_map(|lane| match self.dials.get(&lane) {
            Some(dial) => dial.next_deadline(),
            None => Some(now),
        });
        dials.chain(control).min()
    }

    /// The control lane ended, and all bulk lanes with it. The numbers of handshakes that this
    /// ends.
    pub(super) fn ended(&mut self, now: Duration) -> Vec<u64> {
        self.bulk.clear();
        let mut numbers = Vec::new();
        self.dials.retain(|lane, dial| {
            let is_control = *lane == Lane::Control;
            if !is_control {
                numbers.extend(dial.greeting().map(|(number, _)| number));
            }
            is_control
        });
        self.dials.values_mut().for_each(|dial| dial.ended(now));
        numbers
    }
}
