//! Random clients against a simple model.
//!
//! A run is a seed. It makes a store of random shape and lets random clients do random things, sane
//! and hostile, while the machine refuses memory, the tier fails, clients die and the daemon is
//! killed. The model knows what each object must be: it predicts what is certain, and checks that
//! what the store may choose (evicting, spilling, granting) was allowed. After every step the sums
//! of the store are checked, too. `SEED=8317 cargo test -p plasmon-store model` replays one run.

mod actor;
mod durable;
mod durable_puts;
mod grower;
mod restart;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::Request;
use plasmon_proto::object::Level;
use plasmon_proto::{Attributes, ObjectState};
use plasmon_testkit::Random;

use self::durable::PendingDelete;
use super::{World, id};
use crate::Config;
use crate::event::ClientNo;

/// Runs of one test; each takes a fresh seed.
const RUNS: u64 = 30;

/// Steps of one run.
const STEPS: u64 = 1500;

/// Ids that clients quarrel about.
const IDS: u64 = 40;

/// Clients at once.
const CLIENTS: u32 = 4;

/// What the model knows of an object.
#[derive(Clone, Debug)]
struct ModelObject {
    state: ObjectState,
    /// The client that is creating it.
    creator: Option<ClientNo>,
    cache: bool,
    owned: bool,
    attributes: Attributes,
    sealed_ms: u64,
}

/// What the model knows of a client.
#[derive(Debug, Default)]
struct Actor {
    /// Units of 64 bytes that it may carve objects from.
    leased: BTreeSet<(ExtentId, u64)>,
    /// Requests without an answer.
    asked: BTreeMap<u64, Request>,
    /// Those of them that wait for as long as it takes.
    waits: BTreeSet<u64>,
    /// Records that will be answered with a lease or a refusal.
    leases_wanted: BTreeSet<u64>,
    /// Ledger entries by serial and id.
    pinned: Vec<(u64, u64)>,
    /// Pins that the store counts.
    located: Vec<u64>,
    /// Objects in memory that it asked for and must seal.
    writing: BTreeMap<u64, Range>,
}

struct Model {
    world: World,
    dice: Random,
    objects: BTreeMap<u64, ModelObject>,
    actors: BTreeMap<ClientNo, Actor>,
    /// What clients may have held that died, for those who come back.
    memories: Vec<Range>,
    writers: BTreeMap<ExtentId, ClientNo>,
    /// What of each extent the store said last to be in its writer's hands.
    lents: BTreeMap<ExtentId, Range>,
    /// Deletes of durable objects that were asked for: the record that is to be dead, and what the
    /// answer is to be.
    deletes: BTreeMap<(ClientNo, u64), PendingDelete>,
    /// Effects that were looked at.
    seen: usize,
    next_number: u64,
}

const OBSERVER: ClientNo = ClientNo(1000);

impl Model {
    fn new(seed: u64) -> Self {
        let mut dice = Random::new(seed);
        let capacity_bytes = dice.pick(&[10_000, 65_536, 1 << 20, 3 << 20]);
        let config = Config {
            page_bytes: dice.pick(&[4096, 4096, 1 << 16]),
            level: dice.pick(&[Level::Shared, Level::Shared, Level::Leased, Level::Strict]),
            warm_bytes_max: dice.pick(&[0, capacity_bytes / 8, capacity_bytes]),
            spill_bytes_max: dice.pick(&[None, Some(capacity_bytes), Some(u64::MAX)]),
            durable: dice.percent(60),
            spill_cache: dice.percent(20),
            count_content: dice.percent(15),
            client_quota_bytes: dice.pick(&[0, 0, capacity_bytes / 2]),
            ..Config::new(capacity_bytes)
        };
        let mut world = World::new(config);
        (world.reserve, world.spill, world.restore, world.harden) = (None, None, None, None);
        (world.release, world.logs) = (None, None);
        let mut model = Self {
            world,
            dice,
            objects: BTreeMap::new(),
            actors: BTreeMap::new(),
            memories: Vec::new(),
            writers: BTreeMap::new(),
            lents: BTreeMap::new(),
            deletes: BTreeMap::new(),
            seen: 0,
            next_number: 0,
        };
        model.watch();
        model
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.act();
            self.compare();
        }
        self.finish();
    }

    /// Everything that is asked is answered in the end, and everything can be taken apart.
    fn finish(&mut self) {
        while !self.world.open.is_empty() {
            self.settle(true);
        }
        let waits: Vec<_> = self
            .actors
            .iter()
            .flat_map(|(client, actor)| actor.waits.iter().map(|number| (*client, *number)))
            .collect();
        for (client, number) in waits {
            self.cancel(client, number);
        }
        for (client, actor) in &self.actors {
            assert!(actor.asked.is_empty(), "{client:?} was not answered: {:?}", actor.asked);
            assert!(actor.leases_wanted.is_empty(), "{client:?} was not given its lease");
        }
        let clients: Vec<_> = self.actors.keys().copied().collect();
        for client in clients {
            self.disconnect(client);
        }
        while !self.world.open.is_empty() {
            self.settle(true);
        }
        self.world.logs = Some(true);
        // Twice, because members can go only after their composites.
        for _ in 0..4 {
            for number in 0..IDS {
                let _outcome = self.world.delete(OBSERVER, number);
            }
            self.world.pass(1000);
        }
        while !self.world.open.is_empty() {
            self.world.settle(true);
        }
        self.world.pass(1000);
        let status = self.world.status();
        assert_eq!((status.used_bytes, status.leased_bytes), (0, 0), "memory leaked");
        assert_eq!(self.world.store.space.memory.retained().bytes(), 0, "all was let go");
        assert_eq!((status.objects, status.creating, status.spilled), (0, 0, 0));
        assert_eq!((status.lingering, status.waits), (0, 0));
        assert!(self.world.tier.is_empty(), "the tier leaked");
        assert!(self.world.log.is_empty(), "the log leaked");
    }

    /// The store and the model agree about every object.
    fn compare(&mut self) {
        self.learn();
        if !self.world.store.totals.recovered {
            self.world.store.check_capacity();
        }
        for number in 0..IDS {
            let expected =
                self.objects.get(&number).map_or(ObjectState::Absent, |known| known.state);
            assert_eq!(self.world.state(number), expected, "object {number}");
        }
        self.check_log();
    }
}

/// Prints how to run a failing seed again.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with: SEED={} cargo test -p plasmon-store model", self.0);
        }
    }
}

#[test]
fn random_clients_and_the_model_agree() {
    let seed = std::env::var("SEED").ok().map(|seed| seed.parse().expect("SEED is a number"));
    let runs: u64 =
        std::env::var("RUNS").map_or(RUNS, |runs| runs.parse().expect("RUNS is a number"));
    let seeds = seed.map_or(0..runs, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let _replay = Replay(seed);
        Model::new(seed).run();
    }
}
