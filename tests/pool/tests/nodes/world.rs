//! The pool: what happens when, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use plasmon_pool::record::Place;
use plasmon_pool::{Birth, Envelope, Event as NodeEvent, Mono};
use plasmon_proto::message::Reply;
use plasmon_proto::{Name, ObjectId};
use plasmon_store::{ClientNo, Config, Event as StoreEvent};
use plasmon_testkit::Random;

use super::adopters::Adoptions;
use super::agents::{Input, News, Said};
use super::etcd::Etcd;
use super::history::{History, OperationNo};
use super::machine::Machine;
use super::network::{Network, Way};
use super::reads::Reads;
use super::regions::RegionRuns;
use super::seeds::Mutation;
use super::serving::Sent;
use super::stores::{Message, TierWork};

/// The clock of the stores when a run begins, in milliseconds since 1970.
const BEGINNING_MS: u64 = 1_700_000_000_000;

/// In every so many runs the machines have logs.
const LOGS_EVERY: u64 = 4;

/// What happens at a point in time.
#[derive(Debug)]
pub(crate) enum What {
    /// Between machines.
    Deliver {
        way: Way,
        generation: u64,
        bytes: Vec<u8>,
    },
    Link {
        at: usize,
        peer: usize,
        up: bool,
        generation: u64,
    },
    Segment {
        at: usize,
        incarnation: u64,
        sent: Box<Sent>,
    },
    /// Within a machine.
    ToStore {
        at: usize,
        life: u64,
        message: Message,
    },
    ToAgent {
        at: usize,
        incarnation: u64,
        said: Said,
    },
    ToClient {
        at: usize,
        life: u64,
        client: ClientNo,
        request: u64,
        reply: Reply,
    },
    Worker {
        at: usize,
        life: u64,
        event: StoreEvent,
    },
    Tier {
        at: usize,
        life: u64,
        work: TierWork,
    },
    NodeWake {
        at: usize,
        incarnation: u64,
    },
    StoreWake {
        at: usize,
        life: u64,
    },
    /// Of etcd.
    News {
        at: usize,
        incarnation: u64,
        news: News,
    },
    KeepAlive {
        at: usize,
        incarnation: u64,
    },
    Etcd,
    Act(Act),
}

/// What the driver of a run, or a client, does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Client(usize),
    Written { at: usize, life: u64, no: OperationNo },
    Unpin { at: usize, boot: u64, pin: u64 },
    GiveUp(usize, OperationNo),
    EndRead(u64),
    Fault,
    StartMachine(usize),
    StartStore(usize),
    StartAgent(usize),
    EndAgent(usize, u64),
    Gone { at: usize, life: u64, client: ClientNo },
    ResumeStore(usize),
    ResumeAgent(usize),
    Connect(Way),
    Heal(Way),
    Etcd(usize),
}

/// A machine that kept a copy, with its boot and the life of its store.
pub(crate) type Holder = (usize, u64, u64);

/// The pool.
pub(crate) struct World {
    pub(crate) now: Mono,
    pub(crate) dice: Random,
    pub(crate) machines: Vec<Machine>,
    pub(crate) network: Network,
    pub(crate) etcd: Etcd,
    pub(crate) history: History,
    /// Machines that kept a copy, ever.
    pub(crate) kept: BTreeMap<(ObjectId, Birth), BTreeSet<usize>>,
    /// The machines that kept a copy when it was acknowledged, with their boots and lives.
    pub(crate) acknowledged: BTreeMap<(ObjectId, Birth), Vec<Holder>>,
    /// Copies of free ids that were hidden when their store's daemon died. A store that starts
    /// again does not know that one of them was published before it was hidden for want of a lease.
    pub(crate) forgotten: BTreeSet<(usize, ObjectId, Birth)>,
    /// Ids that any node may make.
    pub(crate) free: Vec<ObjectId>,
    /// All ids.
    pub(crate) ids: Vec<ObjectId>,
    pub(crate) names: BTreeMap<ObjectId, Name>,
    pub(crate) reads: Reads,
    pub(crate) region_runs: RegionRuns,
    pub(crate) adoptions: Adoptions,
    pub(crate) mutation: Option<Mutation>,
    /// When the faults stopped.
    pub(crate) quiet_at: Mono,
    /// Whether machines refuse memory, and tiers fail, now and then.
    pub(crate) has_faults: bool,
    pub(crate) slow_ms: u64,
    pub(crate) bulk_loss: u64,
    pub(crate) places: BTreeMap<u64, Place>,
    pub(crate) last_pin: u64,
    pub(crate) last_serial: u64,
    /// What was put as durable objects.
    pub(crate) durable_puts: BTreeSet<(ObjectId, Birth)>,
    queue: BinaryHeap<Reverse<(Mono, u64)>>,
    whats: BTreeMap<u64, What>,
    order: u64,
    trace: VecDeque<String>,
    trace_max: usize,
}

impl World {
    pub(crate) fn new(seed: u64, mutation: Option<Mutation>, trace_max: usize) -> Self {
        let mut dice = Random::new(seed);
        let count = 2 + dice.size_below(4);
        let slow_ms = dice.pick(&[0, 0, 5, 40]);
        let bulk_loss = dice.pick(&[0, 0, 5, 20]);
        let capacity_bytes = dice.pick(&[3 << 20, 6 << 20, 12 << 20]);
        let spill_bytes_max = dice.pick(&[None, None, None, Some(capacity_bytes)]);
        let warm_bytes_max = dice.pick(&[0, capacity_bytes / 8, capacity_bytes]);
        let durable = seed % LOGS_EVERY == LOGS_EVERY - 1;
        let config = Config {
            pool: true,
            durable,
            spill_bytes_max,
            warm_bytes_max,
            ..Config::new(capacity_bytes)
        };
        Self {
            now: Mono(1_000_000),
            dice,
            machines: (0..count).map(|at| Machine::new(at, config)).collect(),
            network: Network::default(),
            etcd: Etcd::new(),
            history: History::default(),
            kept: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            free: Vec::new(),
            ids: Vec::new(),
            names: BTreeMap::new(),
            reads: Reads::new(seed),
            region_runs: RegionRuns::new(seed),
            adoptions: Adoptions::new(seed),
            mutation,
            quiet_at: Mono(0),
            has_faults: true,
            slow_ms,
            bulk_loss,
            places: BTreeMap::new(),
            last_pin: 0,
            last_serial: 0,
            durable_puts: BTreeSet::new(),
            queue: BinaryHeap::new(),
            whats: BTreeMap::new(),
            order: 0,
            trace: VecDeque::new(),
            trace_max,
        }
    }

    /// Whether a rule is broken in this run.
    pub(crate) fn breaks(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }

    /// The clock of the stores.
    pub(crate) fn now_ms(&self) -> u64 {
        BEGINNING_MS + self.now.0 / 1000
    }

    /// A point on that clock.
    pub(crate) fn at_ms(&self, ms: u64) -> Mono {
        Mono(ms.saturating_sub(BEGINNING_MS).saturating_mul(1000))
    }

    /// Remembers what happened, in a run whose report is wanted.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.trace_max == 0 {
            return;
        }
        if self.trace.len() == self.trace_max {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:>10} {}", self.now.0, line()));
    }

    pub(crate) fn trace(&self) -> String {
        self.trace.iter().cloned().collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn at(&mut self, at: Mono, what: What) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order)));
        self.whats.insert(self.order, what);
    }

    pub(crate) fn after_ms(&mut self, ms: u64, what: What) {
        self.at(self.now.after_ms(ms), what);
    }

    pub(crate) fn after_us(&mut self, us: u64, what: What) {
        self.at(Mono(self.now.0 + us), what);
    }

    /// What happens next, not after this point.
    pub(crate) fn pop(&mut self, until: Mono) -> Option<What> {
        let Reverse((at, order)) = *self.queue.peek()?;
        if at > until {
            return None;
        }
        self.queue.pop();
        self.now = self.now.max(at);
        self.whats.remove(&order)
    }

    /// How long something takes between machines.
    pub(crate) fn delay_us(&mut self) -> u64 {
        50 + self.dice.below(2_000) + self.dice.below(1 + self.slow_ms * 1000)
    }

    /// How long something takes within a machine.
    pub(crate) fn step_us(&mut self) -> u64 {
        10 + self.dice.below(150)
    }

    /// Carries out what happens.
    pub(crate) fn happen(&mut self, what: What) -> Result<(), String> {
        match what {
            What::Deliver { way, generation, bytes } => {
                if self.network.link(way).generation != generation {
                    return Ok(());
                }
                if self.network.is_cut(way) {
                    self.network.hold(way, bytes);
                    return Ok(());
                }
                let envelope = Envelope::decode(&bytes).map_err(|error| error.to_string())?;
                self.give(way.to, Input::Node(NodeEvent::Peer(envelope)))
            }
            What::Link { at, peer, up, generation } => {
                let link = self.network.link(Way { from: peer, to: at });
                if link.generation != generation || link.up != up {
                    return Ok(());
                }
                self.give(at, Input::Link { peer, up })
            }
            What::Segment { at, incarnation, sent } => self.arrive(at, incarnation, sent),
            What::ToStore { at, life, message } if self.machines[at].life == life => {
                self.hear_agent(at, message)
            }
            What::ToAgent { at, incarnation, said }
                if self.machines[at].incarnation == incarnation =>
            {
                self.give(at, Input::Said(said))
            }
            What::ToClient { at, life, client, request, reply }
                if self.machines[at].life == life =>
            {
                self.replied(at, client, request, reply)
            }
            What::Worker { at, life, event } if self.machines[at].life == life => {
                self.worked(at, event)
            }
            What::Tier { at, life, work } if self.machines[at].life == life => {
                self.tier_works(at, work)
            }
            What::NodeWake { at, incarnation } if self.machines[at].incarnation == incarnation => {
                if let Some(agent) = &mut self.machines[at].agent {
                    agent.wake_at = None;
                }
                self.give(at, Input::Node(NodeEvent::Time))
            }
            What::StoreWake { at, life } if self.machines[at].life == life => {
                self.machines[at].store_wake = None;
                self.feed(at, StoreEvent::Tick)
            }
            What::News { at, incarnation, news }
                if self.machines[at].incarnation == incarnation =>
            {
                self.give(at, Input::News(news))
            }
            What::KeepAlive { at, incarnation } if self.machines[at].incarnation == incarnation => {
                self.keep_alive(at)
            }
            What::Etcd => {
                self.elect();
                self.after_ms(100, What::Etcd);
                Ok(())
            }
            What::Act(_) => Err("the driver acts".into()),
            // Of a process that is gone.
            _ => Ok(()),
        }
    }

    pub(crate) fn run_until(&mut self, end: Mono, faults: bool) -> Result<(), String> {
        let mut count = 0u64;
        while let Some(what) = self.pop(end) {
            count += 1;
            if count > 3_000_000 {
                return Err("the pool never rests".into());
            }
            match what {
                What::Act(act) => self.act(act, faults)?,
                other => self.happen(other)?,
            }
        }
        self.now = end;
        Ok(())
    }

    fn act(&mut self, act: Act, faults: bool) -> Result<(), String> {
        match act {
            Act::Client(at) => {
                if !faults {
                    return Ok(());
                }
                let ms = 5 + self.dice.below(100);
                self.after_ms(ms, What::Act(Act::Client(at)));
                if self.machines[at].store.is_some() {
                    self.operate(at)?;
                    self.adopt_at_random(at)?;
                }
                self.read_at_random(at)?;
                self.use_region_at_random(at)
            }
            Act::Written { at, life, no } => self.written(at, life, no),
            Act::Unpin { at, boot, pin } => self.unpin(at, boot, pin),
            Act::GiveUp(at, no) => self.give_up(at, no),
            Act::EndRead(number) => self.end_read(number),
            Act::Fault => {
                if faults {
                    let ms = 100 + self.dice.below(1_500);
                    self.after_ms(ms, What::Act(Act::Fault));
                    self.fault()?;
                }
                Ok(())
            }
            Act::StartMachine(at) | Act::StartStore(at) => self.start_store(at),
            Act::StartAgent(at) => {
                self.start_agent(at);
                Ok(())
            }
            Act::EndAgent(at, incarnation) => {
                if self.machines[at].incarnation == incarnation {
                    self.end_agent(at, 50);
                }
                Ok(())
            }
            Act::Gone { at, life, client } => {
                if self.machines[at].life == life {
                    self.feed(at, StoreEvent::Disconnect(client))?;
                }
                Ok(())
            }
            Act::ResumeStore(at) => self.resume_store(at),
            Act::ResumeAgent(at) => self.resume_agent(at),
            Act::Connect(way) => {
                self.connect(way);
                Ok(())
            }
            Act::Heal(way) => self.heal(way),
            Act::Etcd(at) => {
                self.machines[at].reaches_etcd = true;
                Ok(())
            }
        }
    }
}
