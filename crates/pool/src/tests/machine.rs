//! One machine of a simulated pool: a node, a store, and a lease in a double of etcd.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plasmon_cluster::{DrainReport, Member, NodeUuid, ProtocolRange, Slot};

use crate::config::{Config, Mutation};
use crate::event::{Event, Ticket};
use crate::message::TransferNo;
use crate::node::Node;
use crate::time::Mono;

use super::reach::Ears;
use super::store::Store;

/// The capacity of each store.
const CAPACITY_BYTES: u64 = 40 << 20;

/// How long its store shows copies of free ids without a lease.
pub(super) const ISOLATED_SERVE_MS: u64 = 2_000;

/// How soon impatient nodes end a commit as unreachable.
const UNHEARD_MS: u64 = 1_500;
const STUCK_MS: u64 = 2_500;

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) index: usize,
    /// `None` while its pool daemon is not running.
    pub(super) node: Option<Node>,
    pub(super) store: Store,
    pub(super) incarnation: u64,
    pub(super) boot: u64,
    pub(super) weight: u32,
    /// Until when etcd keeps its lease.
    pub(super) lease_expires: Option<Mono>,
    /// Whether etcd can be reached.
    pub(super) reaches_etcd: bool,
    /// How many maps it was sent.
    pub(super) maps_sent: usize,
    pub(super) etcd_last: Mono,
    pub(super) paused: bool,
    /// Whether its node was given a map.
    pub(super) has_map: bool,
    pub(super) backlog: VecDeque<Event>,
    /// Landings whose memory the node has not been told of: their segments wait.
    pub(super) expected: BTreeSet<Ticket>,
    /// Where the segments of transfers go.
    pub(super) accepts: BTreeMap<TransferNo, Ticket>,
    /// Transfers that it serves, as pins.
    pub(super) serves: BTreeMap<(Slot, TransferNo), u64>,
    pub(super) wake_at: Option<Mono>,
    /// What it reported last of draining nodes.
    pub(super) drains: Vec<DrainReport>,
    pub(super) ears: Ears,
}

impl Machine {
    pub(super) fn new(index: usize) -> Self {
        Self {
            index,
            node: None,
            store: Store::new(CAPACITY_BYTES),
            incarnation: 0,
            boot: 1,
            weight: 1,
            lease_expires: None,
            reaches_etcd: true,
            maps_sent: 0,
            etcd_last: Mono(0),
            paused: false,
            has_map: false,
            backlog: VecDeque::new(),
            expected: BTreeSet::new(),
            accepts: BTreeMap::new(),
            serves: BTreeMap::new(),
            wake_at: None,
            drains: Vec::new(),
            ears: Ears::default(),
        }
    }

    pub(super) fn slot(&self) -> Slot {
        Slot(self.index as u16)
    }

    /// Starts the pool daemon.
    pub(super) fn start(&mut self, mutation: Option<Mutation>, is_impatient: bool) {
        self.incarnation += 1;
        let mut config = Config::new(self.slot(), self.incarnation, self.boot, CAPACITY_BYTES);
        config.isolated_serve_ms = ISOLATED_SERVE_MS;
        config.mutation = mutation;
        if is_impatient {
            (config.commit_unheard_ms, config.commit_stuck_ms) = (UNHEARD_MS, STUCK_MS);
        }
        self.node = Some(Node::new(config));
        self.lease_expires = None;
    }

    /// Ends the pool daemon, and with the machine also the memory.
    pub(super) fn crash(&mut self, with_memory: bool) {
        self.node = None;
        self.backlog.clear();
        self.expected.clear();
        self.accepts.clear();
        self.serves.clear();
        self.store.landings.clear();
        self.store.locals.clear();
        self.paused = false;
        self.has_map = false;
        self.wake_at = None;
        self.drains.clear();
        self.ears = Ears::default();
        if with_memory {
            self.boot += 1;
            let store = std::mem::replace(&mut self.store, Store::new(CAPACITY_BYTES));
            self.store = store.after_loss_of_power();
        }
    }

    pub(super) fn member(&self) -> Member {
        Member {
            uuid: NodeUuid([self.index as u8 + 1; 16]),
            name: format!("node-{}", self.index),
            incarnation: self.incarnation,
            boot: self.boot,
            addresses: vec![format!("10.0.0.{}:1", self.index + 1)],
            zone: String::new(),
            weight: self.weight,
            log: self.store.log.state(),
            protocol: ProtocolRange { min: 1, max: 1 },
        }
    }
}
