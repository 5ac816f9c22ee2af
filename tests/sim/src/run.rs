//! One seed: a store and its clients, some hundred steps with faults, then quiet, then the end.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use plasmon_daemon::settings::{self, Config};
use plasmon_shm::edge::{Mutation, simulated};
use plasmon_testkit::Random;

use crate::audit::{self, Limit};
use crate::clients::{self, Habits, Shared, Sizes};
use crate::model::Model;
use crate::world::{Rates, Role, Step, World};

/// Steps in which things go wrong.
const STEPS: u64 = 1500;

/// Steps within which a new keeper is told everything.
const STEPS_HANDOVER: u64 = 500;

/// Steps in which everything must come to rest.
const STEPS_CALM_MAX: u64 = 60_000;

/// The time after which a client that waits is taken to wait forever.
const TIME_CALM_MAX: Duration = Duration::from_secs(1200);

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counter {
    Step,
    Operation,
    Check,
    DaemonKilled,
    KeeperKilled,
    StoreLost,
    ClientKilled,
    Exec,
    Stop,
}

impl Counter {
    pub(crate) const ALL: [Self; 9] = [
        Self::Step,
        Self::Operation,
        Self::Check,
        Self::DaemonKilled,
        Self::KeeperKilled,
        Self::StoreLost,
        Self::ClientKilled,
        Self::Exec,
        Self::Stop,
    ];

    /// The plural name in reports.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Step => "steps",
            Self::Operation => "operations",
            Self::Check => "checks",
            Self::DaemonKilled => "daemons killed",
            Self::KeeperKilled => "keepers killed",
            Self::StoreLost => "stores lost",
            Self::ClientKilled => "clients killed",
            Self::Exec => "execs",
            Self::Stop => "stops",
        }
    }
}

/// What one seed did, or many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally(pub(crate) [u64; Counter::ALL.len()]);

impl Tally {
    /// How many of these.
    pub(crate) fn of(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    fn count(&mut self, counter: Counter, more: u64) {
        self.0[counter as usize] += more;
    }
}

/// How one seed failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    pub(crate) violation: String,
    pub(crate) trace: Vec<String>,
}

/// What became of one seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    /// Of everything that happened.
    pub(crate) hash: u64,
    pub(crate) tally: Tally,
    pub(crate) failure: Option<Failure>,
}

/// Rates of faults, in ten thousand steps.
#[derive(Clone, Copy, Debug)]
struct Plan {
    daemon: u64,
    keeper: u64,
    both: u64,
    client: u64,
    exec: u64,
    stop: u64,
    jump: u64,
    rates: Rates,
}

impl Plan {
    /// What a rule is about must happen where clients live so that it matters.
    fn for_habits(mut self, habits: Habits) -> Self {
        let rates = &mut self.rates;
        if habits.exact {
            // Extents end all the time, and no client comes back to a new daemon, which would tell
            // it what is gone.
            rates.complete = rates.complete.max(300);
            (self.daemon, self.keeper, self.both) = (0, 0, 0);
            self.client /= 4;
        }
        if habits.crowd {
            rates.pins = rates.pins.max(400);
        }
        if habits.hasty || habits.brief {
            rates.pause = rates.pause.max(300);
        }
        self
    }
}

/// A run of one seed.
pub(crate) struct Run {
    world: Rc<World>,
    shared: Rc<Shared>,
    plan: Plan,
    random: Random,
    limit: Limit,
    stopped: Vec<u32>,
    /// Steps before which no daemon is killed: one that starts gets its chance now and then.
    spare_until: u64,
    /// Steps before which a store may end with its daemon: its keeper is gone or new.
    unkept_until: u64,
    steps: u64,
    /// Keepers that there have been.
    keeper_changes: u64,
    tally: Tally,
}

/// Leaves the world when the run is over, however it ends.
struct WorldGuard(Rc<World>);

impl Drop for WorldGuard {
    fn drop(&mut self) {
        self.0.end_all();
        simulated::enter(None);
    }
}

/// Runs a seed.
pub(crate) fn run(seed: u64, mutation: Option<Mutation>, folder: &Path) -> Report {
    let mut random = Random::new(seed);
    let config = config(&mut random, folder);
    let capacity_bytes = config.capacity_bytes;
    let places = 2 + random.below(4) as usize;
    let sizes = Sizes {
        small_max: random.pick(&[200, 2000, 20_000]),
        large_max: capacity_bytes / 12,
        large_rate: random.pick(&[0, 30, 200, 600]),
    };
    let plan = plan(&mut random);
    let exact = random.permille(250);
    let crowd = random.permille(if exact { 500 } else { 150 });
    let habits = Habits {
        strict: random.permille(300),
        sockets: !exact && random.permille(600),
        sleep: !exact && random.permille(500),
        crowd,
        brief: crowd && random.permille(500),
        exact,
        hasty: !exact && random.permille(200),
    };
    let plan = plan.for_habits(habits);
    let limit = Limit::of(&config, habits);
    let shared = Rc::new(Shared {
        model: RefCell::new(Model::default()),
        is_calm: Cell::new(false),
        is_anew: Cell::new(false),
        is_roused: Cell::new(false),
        is_over: Cell::new(false),
        busy: Cell::new(0),
        operations: Cell::new(0),
        socket: config.socket.clone(),
        places,
        sizes,
        habits,
        latest: Cell::default(),
    });
    let world = World::new(random.word(), mutation, config);
    let entered: Rc<dyn simulated::World> = Rc::clone(&world) as _;
    simulated::enter(Some(entered));
    let _leaving = WorldGuard(Rc::clone(&world));
    let (stopped, tally) = (Vec::new(), Tally::default());
    let (spare_until, unkept_until) = (0, STEPS_HANDOVER);
    let mut run = Run {
        world,
        shared,
        plan,
        random,
        limit,
        stopped,
        spare_until,
        unkept_until,
        steps: 0,
        keeper_changes: 0,
        tally,
    };
    run.live();
    run.tally.count(Counter::Step, run.steps);
    run.tally.count(Counter::Operation, run.shared.operations.get());
    run.tally.count(Counter::Check, run.shared.model.borrow().checks);
    let violation = run.world.violation();
    let failure = violation.map(|violation| Failure { violation, trace: run.world.trace() });
    Report { seed, hash: run.world.hash(), tally: run.tally, failure }
}

fn config(random: &mut Random, folder: &Path) -> Config {
    let socket = folder.join("s");
    let spill = folder.join("spill");
    // A store whose daemon and keeper are gone leaves its files.
    let _ = std::fs::remove_dir_all(&spill);
    let mut flags = vec![
        ("capacity_bytes", random.pick(&["4m", "8m", "16m"]).to_string()),
        ("level", random.pick(&["shared", "shared", "leased", "strict"]).to_string()),
        ("socket", socket.display().to_string()),
        ("warm_bytes_max", random.pick(&["4096", "64m"]).to_string()),
        ("spin_us", random.pick(&["0", "0", "20"]).to_string()),
    ];
    if random.permille(400) {
        flags.push(("spill_dir", spill.display().to_string()));
    }
    let loaded = settings::load(None, |_| None, &flags).expect("the settings are right");
    Config::new(&loaded.settings).expect("the settings make sense")
}

/// Not everything goes wrong in every seed: some faults are seen only where others are rare.
fn plan(random: &mut Random) -> Plan {
    let mut rate = |often: u64, most: u64| {
        if random.permille(often) { 1 + random.below(most) } else { 0 }
    };
    Plan {
        daemon: rate(700, 60),
        keeper: rate(400, 20),
        both: rate(100, 6),
        client: rate(700, 60),
        exec: rate(200, 20),
        stop: rate(500, 40),
        jump: rate(400, 20),
        rates: Rates {
            pause: 50 + rate(800, 400),
            pins: 50 + rate(300, 900),
            reserve: rate(250, 200),
            complete: rate(400, 300),
            disk: rate(150, 200),
        },
    }
}

impl Run {
    fn live(&mut self) {
        self.world.start_daemon(None);
        for place in 0..self.shared.places {
            self.start_client(place);
        }
        for _ in 0..2 {
            if !self.storm() || !self.calm() || !self.audit(false) {
                return;
            }
            self.shared.is_calm.set(false);
        }
        self.shared.is_over.set(true);
        if self.calm_until(|run| run.living_clients().is_empty()) {
            self.end_strangers();
            if self.audit(true) {
                self.stop();
            }
        }
    }

    fn start_client(&mut self, place: usize) {
        let (world, shared) = (Rc::clone(&self.world), Rc::clone(&self.shared));
        let random = self.random.fork();
        self.world.spawn(Role::Client(place), None, move || {
            clients::live(world, shared, place, random);
        });
    }

    fn living_clients(&self) -> Vec<u32> {
        self.world.living(|role| matches!(role, Role::Client(_)))
    }

    fn is_fine(&self) -> bool {
        self.world.violation().is_none()
    }

    /// Everything may go wrong.
    fn storm(&mut self) -> bool {
        self.world.rates.set(self.plan.rates);
        for _ in 0..STEPS {
            self.steps += 1;
            if self.world.step() == Step::Stuck {
                self.world.wake_all();
            }
            self.mischief();
            self.revive();
            if !self.is_fine() {
                return false;
            }
        }
        true
    }

    fn happens(&mut self, rate: u64) -> bool {
        rate > 0 && self.random.below(10_000) < rate
    }

    fn mischief(&mut self) {
        let plan = self.plan;
        let spared = self.steps < self.spare_until;
        if !spared && self.happens(plan.daemon) {
            self.kill_daemons();
        }
        if !spared && self.happens(plan.keeper) {
            let ended = self.end(|role| role == Role::Keeper);
            self.tally.count(Counter::KeeperKilled, ended);
            self.unkept_until = self.steps + STEPS_HANDOVER;
        }
        if !spared && self.happens(plan.both) {
            self.end(|role| role == Role::Keeper);
            self.unkept_until = self.steps + STEPS_HANDOVER;
            self.kill_daemons();
        }
        if self.happens(plan.client) {
            self.kill_client();
        }
        if self.happens(plan.exec) {
            self.exec_client();
        }
        if self.happens(plan.stop) {
            self.stop_client();
        }
        if self.happens(plan.jump) {
            let time = self.random.pick(&[10, 300, 5000, 30_000]);
            self.world.jump(Duration::from_millis(time));
            self.world.note(|| format!("the clock jumps by {time} ms"));
        }
    }

    fn kill_daemons(&mut self) {
        let ended = self.end(|role| role == Role::Daemon);
        self.tally.count(Counter::DaemonKilled, ended);
        // A keeper gives up after some daemons that died before they served.
        let spare = if self.random.permille(150) { 0 } else { 150 };
        self.spare_until = self.steps + spare;
    }

    fn end(&mut self, which: impl Fn(Role) -> bool) -> u64 {
        let found = self.world.living(which);
        found.iter().for_each(|pid| self.world.end(*pid));
        found.len() as u64
    }

    /// A client and its place.
    fn any_client(&mut self) -> Option<(u32, usize)> {
        let place = self.random.below(self.shared.places as u64) as usize;
        let living = self.world.living(|role| role == Role::Client(place));
        living.first().map(|pid| (*pid, place))
    }

    fn kill_client(&mut self) {
        let Some((pid, place)) = self.any_client() else { return };
        self.tally.count(Counter::ClientKilled, 1);
        self.world.end(pid);
        self.orphan(place);
    }

    fn orphan(&self, place: usize) {
        self.shared.model.borrow_mut().orphan(clients::ids_of(place));
    }

    fn exec_client(&mut self) {
        let Some((pid, place)) = self.any_client() else { return };
        self.tally.count(Counter::Exec, 1);
        self.world.note(|| format!("client {pid} calls exec"));
        self.world.exec(pid);
        self.orphan(place);
    }

    /// A client stops, or one that was stopped goes on.
    fn stop_client(&mut self) {
        if !self.stopped.is_empty() && self.random.permille(600) {
            let pid = self.stopped.swap_remove(0);
            self.world.note(|| format!("client {pid} goes on"));
            return self.world.set_stopped(pid, false);
        }
        if let Some((pid, _)) = self.any_client() {
            self.tally.count(Counter::Stop, 1);
            self.world.note(|| format!("client {pid} stops"));
            self.world.set_stopped(pid, true);
            self.stopped.push(pid);
        }
    }

    /// Clients that are gone have successors, and so has a store without daemon and keeper.
    fn revive(&mut self) {
        // Also one that the daemon replaces because it did not read.
        let changes = self.world.keeper_changes();
        if changes != self.keeper_changes {
            self.keeper_changes = changes;
            self.unkept_until = self.steps + STEPS_HANDOVER;
        }
        let is_served = self.world.living(|it| matches!(it, Role::Daemon | Role::Keeper));
        if is_served.is_empty() {
            self.tally.count(Counter::StoreLost, 1);
            if self.steps > self.unkept_until {
                self.world.violate("lost: the store ended although its keeper lived".to_owned());
            }
            self.unkept_until = self.steps + STEPS_HANDOVER;
            self.shared.model.borrow_mut().begin_store();
            self.world.note(|| "the store is lost, and another one begins".to_owned());
            self.world.memory.begin_store();
            self.world.start_daemon(None);
            self.spare_until = self.steps + 150;
        }
        let is_quiet = self.shared.is_calm.get() || self.shared.is_over.get();
        if is_quiet || !self.steps.is_multiple_of(50) {
            return;
        }
        for place in 0..self.shared.places {
            if self.world.living(|role| role == Role::Client(place)).is_empty() {
                self.start_client(place);
            }
        }
    }

    fn calm(&mut self) -> bool {
        self.shared.is_calm.set(true);
        let is_calm = self.calm_until(|run| run.shared.busy.get() == 0);
        is_calm && self.rest()
    }

    /// Nothing goes wrong any more, until this holds.
    fn calm_until(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        self.world.rates.set(Rates { pause: 20, pins: 20, ..Rates::default() });
        self.world.wake_all();
        self.stopped.clear();
        let begun = self.world.time();
        for _ in 0..STEPS_CALM_MAX {
            if holds(self) {
                return true;
            }
            self.steps += 1;
            let step = self.world.step();
            self.revive();
            if !self.is_fine() {
                return false;
            }
            if step == Step::Stuck || self.world.time() - begun > TIME_CALM_MAX {
                break;
            }
        }
        if !holds(self) {
            self.world.note_tasks();
            let (busy, time) = (self.shared.busy.get(), self.world.time() - begun);
            self.world.violate(format!("hang: {busy} clients wait, for {time:?} by now"));
        }
        holds(self)
    }

    /// Lets what is under way come to its end.
    fn rest(&mut self) -> bool {
        let until = self.world.time() + Duration::from_secs(2);
        let rested = self.calm_until(|run| run.world.time() >= until);
        self.shared.model.borrow_mut().settle();
        rested
    }

    fn end_strangers(&mut self) {
        self.end(|role| role == Role::Stranger);
        self.rest();
    }

    /// A client of its own looks at everything.
    fn audit(&mut self, is_last: bool) -> bool {
        let done = Rc::new(Cell::new(false));
        let audit = audit::Audit {
            world: Rc::clone(&self.world),
            shared: Rc::clone(&self.shared),
            limit: self.limit,
            is_last,
            done: Rc::clone(&done),
        };
        self.world.spawn(Role::Client(usize::MAX), None, move || audit.run());
        self.calm_until(|_| done.get()) && self.is_fine()
    }

    /// The store ends in good order, and nothing of it stays.
    fn stop(&mut self) {
        self.rest();
        for pid in self.world.living(|role| role == Role::Daemon) {
            self.world.signal(pid);
        }
        let is_over = |run: &Self| run.world.living(|_| true).is_empty();
        if self.calm_until_without_revival(is_over) {
            let census = self.world.memory.census();
            if census != Default::default() {
                self.world.violate(format!("leak: after the end there is still {census:?}"));
            }
        }
    }

    fn calm_until_without_revival(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..STEPS_CALM_MAX {
            if holds(self) {
                return true;
            }
            if self.world.step() == Step::Stuck {
                break;
            }
        }
        if !holds(self) {
            self.world.note_tasks();
            let living = self.world.living(|_| true);
            self.world.violate(format!("hang: asked to end, these live: {living:?}"));
        }
        self.is_fine() && holds(self)
    }
}
