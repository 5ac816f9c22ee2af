//! One machine of a simulated pool: memory, a store, a pool daemon, clients, and a lease in a
//! double of etcd.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plasmon_cluster::{Member, NodeLog, NodeUuid, ProtocolRange, Slot};
use plasmon_pool::{Birth, Mono};
use plasmon_proto::extent::Range;
use plasmon_proto::{ObjectId, Policy};
use plasmon_store::effect::SpillOrder;
use plasmon_store::event::RecoveredObject;
use plasmon_store::ports::{Directory as _, Entry};
use plasmon_store::{ClientNo, Config, Event, Store};
use plasmon_testkit::directory::TestDirectory;

use super::agents::Agent;
use super::clients::Task;
use super::history::OperationNo;
use super::logs::Log;
use super::memory::{Memory, Token};

/// How long its store shows copies of free ids without a lease.
pub(crate) const ISOLATED_SERVE_MS: u64 = 2_000;

/// Serials of a store's life.
const SERIALS_PER_LIFE: u64 = 1 << 32;

/// A client's hold on an object that it reads.
#[derive(Clone, Debug)]
pub(crate) struct Pin {
    pub(crate) serial: u64,
    pub(crate) range: Range,
    pub(crate) token: Token,
}

/// An object in the spill tier.
#[derive(Clone, Debug)]
pub(crate) struct SpilledFile {
    pub(crate) order: SpillOrder,
    pub(crate) token: Token,
}

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) index: usize,
    pub(crate) config: Config,
    /// `None` while its daemon is not running.
    pub(crate) store: Option<Store<TestDirectory>>,
    /// The index and the ledgers while no daemon runs.
    pub(crate) left: TestDirectory,
    /// Counts the daemons.
    pub(crate) life: u64,
    pub(crate) memory: Memory,
    pub(crate) tier: BTreeMap<u64, SpilledFile>,
    /// Outlives the memory.
    pub(crate) log: Log,
    /// When the last work of the tier ends, and what was last said to the store.
    pub(crate) tier_last: Mono,
    pub(crate) to_store_last: Mono,
    pub(crate) to_agent_last: Mono,
    pub(crate) store_wake: Option<Mono>,
    pub(crate) store_paused: bool,
    pub(crate) store_backlog: VecDeque<Event>,
    /// Copies of which the store said that it keeps them, in this life.
    pub(crate) said_kept: BTreeSet<(ObjectId, Birth)>,
    /// `None` while its pool daemon is not running.
    pub(crate) agent: Option<Agent>,
    pub(crate) incarnation: u64,
    pub(crate) agents: u32,
    pub(crate) boot: u64,
    pub(crate) lease_expires: Option<Mono>,
    pub(crate) reaches_etcd: bool,
    pub(crate) maps_sent: usize,
    pub(crate) etcd_last: Mono,
    pub(crate) tasks: BTreeMap<OperationNo, Task>,
    pub(crate) asked: BTreeMap<(ClientNo, u64), OperationNo>,
    pub(crate) pins: BTreeMap<u64, Pin>,
    pub(crate) requests: u64,
    /// Processes that had each number of a client before.
    pub(crate) processes: BTreeMap<ClientNo, u64>,
    /// Changes of adopted namespaces that its pool daemon was told.
    pub(crate) changes_sent: usize,
}

impl Machine {
    pub(crate) fn new(index: usize, config: Config) -> Self {
        Self {
            index,
            config,
            store: None,
            left: TestDirectory::default(),
            life: 0,
            memory: Memory::default(),
            tier: BTreeMap::new(),
            log: Log::default(),
            tier_last: Mono(0),
            to_store_last: Mono(0),
            to_agent_last: Mono(0),
            store_wake: None,
            store_paused: false,
            store_backlog: VecDeque::new(),
            said_kept: BTreeSet::new(),
            agent: None,
            incarnation: 0,
            agents: 0,
            boot: 1,
            lease_expires: None,
            reaches_etcd: true,
            maps_sent: 0,
            etcd_last: Mono(0),
            tasks: BTreeMap::new(),
            asked: BTreeMap::new(),
            pins: BTreeMap::new(),
            requests: 0,
            processes: BTreeMap::new(),
            changes_sent: 0,
        }
    }

    /// The session of a client, which is the same for all daemons of the store.
    pub(crate) fn session_of(&self, client: ClientNo) -> u64 {
        u64::from(client.0) + 1000 * self.processes.get(&client).copied().unwrap_or_default()
    }

    pub(crate) fn slot(&self) -> Slot {
        Slot(self.index as u16)
    }

    pub(crate) fn next_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    pub(crate) fn member(&self) -> Member {
        Member {
            uuid: self.uuid(),
            name: format!("node-{}", self.index),
            incarnation: self.incarnation,
            boot: self.boot,
            addresses: vec![format!("10.0.0.{}:1", self.index + 1)],
            zone: String::new(),
            weight: 1,
            log: self.log_state(),
            protocol: ProtocolRange { min: 1, max: 1 },
        }
    }

    fn log_state(&self) -> NodeLog {
        if self.config.durable { NodeLog::Open } else { NodeLog::Absent }
    }

    pub(crate) fn uuid(&self) -> NodeUuid {
        NodeUuid([self.index as u8 + 1; 16])
    }

    /// The index that clients of this machine read, with or without a daemon.
    pub(crate) fn directory(&self) -> &TestDirectory {
        self.store.as_ref().map_or(&self.left, Store::directory)
    }

    pub(crate) fn directory_mut(&mut self) -> &mut TestDirectory {
        match &mut self.store {
            Some(store) => store.directory_mut(),
            None => &mut self.left,
        }
    }

    /// What clients find under an id.
    pub(crate) fn visible(&self, id: &ObjectId) -> Result<Option<(Entry, Token)>, String> {
        let Some((_, entry)) = self.directory().find(id) else { return Ok(None) };
        let token = self.token_of(&entry)?;
        Ok(Some((entry, token.clone())))
    }

    /// The object whose bytes an entry of the index is about.
    fn token_of(&self, entry: &Entry) -> Result<&Token, String> {
        let token = self.memory.read(&entry.range).filter(|token| token.id == entry.id);
        token.ok_or_else(|| format!("{} has the memory of another object: {entry:?}", self.index))
    }

    /// All copies in memory, seen by clients or not, those in the tier and those in the log.
    pub(crate) fn copies(&self) -> Vec<(ObjectId, Birth, Policy)> {
        let in_memory = self.directory().entries().filter_map(|(_, entry, _)| {
            let token = self.memory.read(&entry.range)?;
            Some((entry.id, token.birth, entry.meta.traits.policy))
        });
        let in_log = self.log.copies().map(|(id, birth)| (id, birth, Policy::Keep));
        let in_tier = self
            .tier
            .values()
            .map(|file| (file.order.id, file.token.birth, file.order.meta.traits.policy));
        in_memory.chain(in_tier).chain(in_log).collect()
    }

    pub(crate) fn has(&self, id: &ObjectId, birth: Birth) -> bool {
        self.copies().iter().any(|(other, of, _)| (other, *of) == (id, birth))
    }

    pub(crate) fn has_any(&self, id: &ObjectId) -> bool {
        self.copies().iter().any(|(other, ..)| other == id)
    }

    /// The copies in memory that clients do not see.
    pub(crate) fn hidden(&self) -> Vec<(ObjectId, Birth)> {
        let hidden = self.directory().entries().filter(|(_, _, visible)| !visible);
        hidden
            .filter_map(|(_, entry, _)| {
                self.memory.read(&entry.range).map(|token| (entry.id, token.birth))
            })
            .collect()
    }

    /// Whether it has a copy that it never evicts.
    pub(crate) fn keeps(&self, id: &ObjectId, birth: Birth) -> bool {
        let is_it = |(other, of, policy): &(ObjectId, Birth, Policy)| {
            let kept = *policy == Policy::Keep || self.said_kept.contains(&(*id, birth));
            (other, *of) == (id, birth) && kept
        };
        self.copies().iter().any(is_it)
    }

    /// Starts the daemon over what an earlier one left.
    pub(crate) fn start_store(
        &mut self,
        now_ms: u64,
        effects: &mut Vec<plasmon_store::Effect>,
    ) -> Result<(), String> {
        self.life += 1;
        let config = Config {
            first_serial: 1 + (self.life - 1) * SERIALS_PER_LIFE,
            first_birth: self.memory.births.max(1),
            ..self.config
        };
        let objects = self.left_objects()?;
        let mut store = Store::new(config, std::mem::take(&mut self.left));
        let is_first = objects.is_empty() && self.memory.left().is_empty();
        if !is_first {
            let broken = store.recover(now_ms, &self.memory.left(), objects, effects);
            if !broken.is_empty() {
                return Err(format!("{}: lost with the daemon: {broken:?}", self.index));
            }
        }
        if self.config.durable {
            let ended = store.adopt_log(now_ms, self.log.found(), effects);
            if !ended.is_empty() {
                return Err(format!("{}: others have the ids of {ended:?}", self.index));
            }
        }
        self.store = Some(store);
        Ok(())
    }

    fn left_objects(&self) -> Result<Vec<RecoveredObject>, String> {
        let mut objects = Vec::new();
        for (slot, entry, visible) in self.left.entries() {
            let attributes = self.token_of(entry)?.attributes.clone();
            objects.push(RecoveredObject::in_memory(slot, entry, visible, attributes));
        }
        for file in self.tier.values() {
            let SpillOrder { id, serial, meta, attributes, .. } = file.order.clone();
            objects.push(RecoveredObject::spilled(id, serial, meta, attributes));
        }
        Ok(objects)
    }

    /// Ends the daemon. Its memory, the index and the pins of its clients stay.
    pub(crate) fn end_store(&mut self) {
        if let Some(mut store) = self.store.take() {
            self.left = std::mem::take(store.directory_mut());
        }
        self.store_paused = false;
        self.store_backlog.clear();
        self.store_wake = None;
        self.said_kept.clear();
        self.tasks.clear();
        self.asked.clear();
    }

    /// Ends everything on the machine.
    pub(crate) fn lose_memory(&mut self) {
        self.boot += 1;
        self.left = TestDirectory::default();
        self.memory = Memory::default();
        self.tier.clear();
        self.pins.clear();
    }
}
