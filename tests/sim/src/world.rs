//! The simulated world: processes and their tasks, one clock, one seed.
//!
//! One real thread runs everything. A task runs until it pauses or blocks; then the seed decides
//! which one goes on. Time passes only when every task waits, except for the microsecond that each
//! look at the clock takes, so that code which looks at it in a loop comes to its end.
//!
//! Sockets, descriptors, memory and files are the kernel's own: within one thread they do the same
//! each time.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use plasmon_daemon::settings::Config;
use plasmon_daemon::simulated::{self as daemon, Start};
use plasmon_shm::Peer;
use plasmon_shm::edge::simulated::World as Edge;
use plasmon_shm::edge::{Attempt, Mutation, Point};
use plasmon_testkit::{Random, mix};
use rustix::event::{EventfdFlags, eventfd};

use crate::memory::Memory;
use crate::tasks::{Handle, SuspendReason, Task};

/// What each look at the clock takes.
const LOOK: Duration = Duration::from_micros(1);

/// The wall clock when a world begins, since 1970.
const BEGINNING: Duration = Duration::from_secs(1_800_000_000);

/// Processors, among which processes are divided.
const PROCESSORS: usize = 2;

/// The number of the first process.
const PID_FIRST: u32 = 1000;

/// Events of which a failed run tells.
const TRACE_MAX: usize = 120;

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The daemon.
    Daemon,
    /// The keeper.
    Keeper,
    /// A client, by its place.
    Client(usize),
    /// Another program in the place of a client that called `exec`.
    Stranger,
}

/// A process.
#[derive(Debug)]
struct Process {
    role: Role,
    parent: Option<u32>,
    /// Readable once it has ended.
    exit: OwnedFd,
    is_alive: bool,
    is_stopped: bool,
    /// The task whose end is the end of the process.
    main: u64,
    /// Asks a daemon to end.
    signals: Option<UnixStream>,
}

/// A task and what it waits for.
struct Entry {
    pid: u32,
    handle: Handle,
    /// Absent while it runs.
    task: Option<Task>,
    state: SuspendReason,
    /// The number of the last thing that had happened when it began to wait.
    seen: u64,
}

/// Rates of what goes wrong, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// A pause lets others run.
    pub(crate) pause: u64,
    /// One around the pins of a reader, where they are counted and where objects are hidden.
    pub(crate) pins: u64,
    /// The kernel has no memory.
    pub(crate) reserve: u64,
    /// A ring of completions is full.
    pub(crate) complete: u64,
    /// A disk has an error.
    pub(crate) disk: u64,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A task ran.
    Ran,
    /// Every task waits for something that no time brings.
    Stuck,
}

/// The world of one seed.
pub(crate) struct World {
    this: Weak<World>,
    base: Instant,
    now: Cell<Duration>,
    random: RefCell<Random>,
    mutation: Option<Mutation>,
    config: Config,
    pub(crate) rates: Cell<Rates>,
    processes: RefCell<BTreeMap<u32, Process>>,
    tasks: RefCell<BTreeMap<u64, Entry>>,
    running: Cell<Option<(u64, u32)>>,
    ending: Cell<Option<u32>>,
    kills: RefCell<Vec<u32>>,
    /// Counts what has happened: a task that waits looks again after each.
    happened: Cell<u64>,
    has_worked: Cell<bool>,
    names: Cell<u64>,
    sockets: RefCell<BTreeMap<Vec<u8>, u32>>,
    pub(crate) memory: Memory,
    trace: RefCell<VecDeque<String>>,
    violation: RefCell<Option<String>>,
    daemons_ended: Cell<u64>,
    /// How often a process was killed by another one: keepers, by the daemon that replaces them.
    killed_by_daemons: Cell<u64>,
    /// Of everything that happened, so that two runs can be compared.
    hash: Cell<u64>,
}

impl World {
    /// A world in which nothing has happened. Its daemons have these settings.
    pub(crate) fn new(seed: u64, mutation: Option<Mutation>, config: Config) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            this: this.clone(),
            base: Instant::now(),
            now: Cell::default(),
            random: RefCell::new(Random::new(seed)),
            mutation,
            config,
            rates: Cell::default(),
            processes: RefCell::default(),
            tasks: RefCell::default(),
            running: Cell::default(),
            ending: Cell::default(),
            kills: RefCell::default(),
            happened: Cell::default(),
            has_worked: Cell::default(),
            names: Cell::default(),
            sockets: RefCell::default(),
            memory: Memory::default(),
            trace: RefCell::default(),
            violation: RefCell::default(),
            daemons_ended: Cell::default(),
            killed_by_daemons: Cell::default(),
            hash: Cell::default(),
        })
    }

    /// The time since the beginning, without a look at the clock.
    pub(crate) fn time(&self) -> Duration {
        self.now.get()
    }

    /// Lets time pass for all.
    pub(crate) fn jump(&self, time: Duration) {
        self.now.set(self.now.get() + time);
    }

    /// Writes down what happened, for the case that this run fails.
    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        let mut trace = self.trace.borrow_mut();
        if trace.len() == TRACE_MAX {
            trace.pop_front();
        }
        // An error names the socket, whose folder is another one in each run.
        let socket = self.config.socket.display().to_string();
        let what = what().replace(&socket, "SOCKET");
        let line = format!("{:>12.6} {what}", self.now.get().as_secs_f64());
        tracing::info!(target: "world", "{line}");
        line.bytes().for_each(|byte| self.mark(u64::from(byte)));
        trace.push_back(line);
    }

    /// Adds something that happened to the hash of all of it.
    fn mark(&self, what: u64) {
        self.hash.set(mix(self.hash.get() ^ what));
    }

    /// The hash of everything that happened.
    pub(crate) fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// The last things that happened.
    pub(crate) fn trace(&self) -> Vec<String> {
        self.trace.borrow().iter().cloned().collect()
    }

    /// Something is wrong. The first such thing counts.
    pub(crate) fn violate(&self, what: String) {
        self.note(|| format!("VIOLATION {what}"));
        self.violation.borrow_mut().get_or_insert(what);
    }

    /// Writes down what every task waits for.
    pub(crate) fn note_tasks(&self) {
        let processes = self.processes.borrow();
        for (number, entry) in self.tasks.borrow().iter() {
            let process = processes.get(&entry.pid);
            let (role, is_stopped) =
                process.map_or((None, false), |it| (Some(it.role), it.is_stopped));
            let state = match entry.state {
                SuspendReason::Paused => "can go on".to_owned(),
                SuspendReason::Blocked(None) => "waits".to_owned(),
                SuspendReason::Blocked(Some(until)) => {
                    format!("waits until {:.6}", (until - self.base).as_secs_f64())
                }
            };
            let (pid, stopped) = (entry.pid, if is_stopped { ", stopped" } else { "" });
            self.note(|| format!("task {number} of {role:?} {pid} {state}{stopped}"));
        }
    }

    /// What was wrong first.
    pub(crate) fn violation(&self) -> Option<String> {
        self.violation.borrow().clone()
    }

    /// Starts a process.
    pub(crate) fn spawn(
        &self,
        role: Role,
        signals: Option<UnixStream>,
        work: impl FnOnce() + 'static,
    ) -> u32 {
        let mut processes = self.processes.borrow_mut();
        let pid = PID_FIRST + processes.len() as u32;
        let exit = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let exit = exit.expect("there is a descriptor for a process");
        let main = self.add_task(pid, Box::new(work));
        let parent = self.running.get().map(|(_, pid)| pid);
        let (is_alive, is_stopped) = (true, false);
        processes.insert(pid, Process { role, parent, exit, is_alive, is_stopped, main, signals });
        drop(processes);
        self.note(|| format!("{role:?} starts as {pid}"));
        pid
    }

    fn add_task(&self, pid: u32, work: Box<dyn FnOnce()>) -> u64 {
        let mut tasks = self.tasks.borrow_mut();
        let number = self.names.replace(self.names.get() + 1);
        let task = Task::new(work);
        let (handle, state) = (task.handle(), SuspendReason::Paused);
        tasks.insert(number, Entry { pid, handle, task: Some(task), state, seen: 0 });
        self.has_worked.set(true);
        number
    }

    /// Starts a daemon: for a new store, or with the keeper of the one that it takes over.
    pub(crate) fn start_daemon(&self, keeper: Option<OwnedFd>) -> u32 {
        let (signals, pipe) = UnixStream::pair().expect("there is a descriptor for signals");
        let config = self.config.clone();
        let world = self.this.clone();
        self.spawn(Role::Daemon, Some(pipe), move || {
            let ended = daemon::serve(Start { config, signals, keeper });
            let Some(world) = world.upgrade() else { return };
            if let Err(error) = ended {
                world.note(|| format!("the daemon ends: {error}"));
                if error.contains("cannot be taken over") {
                    world.violate(format!("adoption: {error}"));
                }
            }
        })
    }

    /// The processes of a role that live.
    pub(crate) fn living(&self, wanted: impl Fn(Role) -> bool) -> Vec<u32> {
        let processes = self.processes.borrow();
        let living = processes.iter().filter(|(_, process)| process.is_alive);
        living.filter(|(_, process)| wanted(process.role)).map(|(pid, _)| *pid).collect()
    }

    /// How many daemons there have been.
    pub(crate) fn daemons(&self) -> u64 {
        let processes = self.processes.borrow();
        processes.values().filter(|process| process.role == Role::Daemon).count() as u64
    }

    /// How often a keeper was started, or killed by a daemon that replaces it.
    pub(crate) fn keeper_changes(&self) -> u64 {
        let processes = self.processes.borrow();
        let started = processes.values().filter(|process| process.role == Role::Keeper).count();
        started as u64 + self.killed_by_daemons.get()
    }

    /// How many daemons have ended.
    pub(crate) fn daemons_ended(&self) -> u64 {
        self.daemons_ended.get()
    }

    /// Asks a daemon to end.
    pub(crate) fn signal(&self, pid: u32) {
        use std::io::Write;

        if let Some(pipe) = self.processes.borrow().get(&pid).and_then(|it| it.signals.as_ref()) {
            // It takes one byte for sure.
            let _ = (&mut &*pipe).write(&[1]);
        }
        self.happened.set(self.happened.get() + 1);
    }

    /// Stops a process, or lets it go on.
    pub(crate) fn set_stopped(&self, pid: u32, is_stopped: bool) {
        if let Some(process) = self.processes.borrow_mut().get_mut(&pid) {
            process.is_stopped = is_stopped;
        }
    }

    /// Lets every process go on.
    pub(crate) fn wake_all(&self) {
        self.processes.borrow_mut().values_mut().for_each(|process| process.is_stopped = false);
        self.happened.set(self.happened.get() + 1);
    }

    /// Ends a process where it stands. What its destructors would still tell others is not told.
    pub(crate) fn end(&self, pid: u32) {
        self.unload(pid);
        let mut processes = self.processes.borrow_mut();
        let Some(process) = processes.get_mut(&pid) else { return };
        if !process.is_alive {
            return;
        }
        process.is_alive = false;
        process.signals = None;
        // The descriptor takes it: its counter is 0.
        let _ = rustix::io::write(&process.exit, &1u64.to_ne_bytes());
        let role = process.role;
        drop(processes);
        if role == Role::Daemon {
            self.daemons_ended.set(self.daemons_ended.get() + 1);
        }
        self.note(|| format!("{role:?} {pid} is gone"));
        self.happened.set(self.happened.get() + 1);
    }

    /// Another program takes the place of what a process runs: its memory and its descriptors go,
    /// the process stays.
    pub(crate) fn exec(&self, pid: u32) {
        self.unload(pid);
        if let Some(process) = self.processes.borrow_mut().get_mut(&pid) {
            process.role = Role::Stranger;
        }
        self.happened.set(self.happened.get() + 1);
    }

    /// Everything that a process has in memory goes.
    fn unload(&self, pid: u32) {
        let mut tasks = self.tasks.borrow_mut();
        let numbers: Vec<u64> =
            tasks.iter().filter(|(_, it)| it.pid == pid).map(|(number, _)| *number).collect();
        // The library's own threads first: they keep nothing locked that a client's thread needs.
        let gone: Vec<Entry> =
            numbers.iter().rev().filter_map(|number| tasks.remove(number)).collect();
        drop(tasks);
        let images = self.memory.channels_of(pid);
        let (running, ending) = (self.running.replace(None), self.ending.replace(Some(pid)));
        drop(gone);
        self.running.set(running);
        self.ending.set(ending);
        // Dying, it would not have written what its destructors wrote.
        images.into_iter().for_each(crate::memory::Image::restore);
        self.memory.leave(pid);
    }

    /// Ends everything.
    pub(crate) fn end_all(&self) {
        let all: Vec<u32> = self.processes.borrow().keys().copied().collect();
        all.into_iter().for_each(|pid| self.end(pid));
    }

    /// Runs one task, which the seed chooses, until it is suspended.
    pub(crate) fn step(&self) -> Step {
        self.carry_out_kills();
        let Some(number) = self.choose() else { return Step::Stuck };
        self.mark(number);
        self.mark(self.now.get().as_nanos() as u64);
        let mut tasks = self.tasks.borrow_mut();
        let Some(entry) = tasks.get_mut(&number) else { return Step::Ran };
        let (pid, happened) = (entry.pid, self.happened.get());
        let Some(mut task) = entry.task.take() else { return Step::Ran };
        let was_waiting = matches!(entry.state, SuspendReason::Blocked(_));
        drop(tasks);
        self.running.set(Some((number, pid)));
        self.has_worked.set(false);
        let resumed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.resume()));
        self.running.set(None);
        let suspended = match resumed {
            Ok(suspended) => suspended,
            Err(panic) => {
                self.panicked(pid, panic);
                None
            }
        };
        let has_waited_on = was_waiting && !self.has_worked.get();
        match suspended {
            Some(state @ SuspendReason::Blocked(_)) if has_waited_on => {
                self.put_back(number, task, state, happened);
            }
            Some(state) => {
                self.happened.set(happened + 1);
                self.put_back(number, task, state, happened);
            }
            None => {
                self.happened.set(happened + 1);
                drop(task);
                self.task_ended(number, pid);
            }
        }
        Step::Ran
    }

    fn put_back(&self, number: u64, task: Task, state: SuspendReason, seen: u64) {
        if let Some(entry) = self.tasks.borrow_mut().get_mut(&number) {
            (entry.task, entry.state, entry.seen) = (Some(task), state, seen);
        }
    }

    fn task_ended(&self, number: u64, pid: u32) {
        self.tasks.borrow_mut().remove(&number);
        let is_main = self.processes.borrow().get(&pid).is_some_and(|it| it.main == number);
        if is_main {
            self.end(pid);
        }
    }

    fn panicked(&self, pid: u32, panic: Box<dyn std::any::Any + Send>) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = text.unwrap_or_default();
        let role = self.processes.borrow().get(&pid).map(|process| process.role);
        let place = crate::report::last_panic();
        self.violate(format!("panic: {role:?} {pid}: {text} {place}"));
    }

    fn carry_out_kills(&self) {
        let kills = std::mem::take(&mut *self.kills.borrow_mut());
        kills.into_iter().for_each(|pid| self.end(pid));
    }

    /// A task that can go on. When all wait, time passes until the first need not wait any more.
    fn choose(&self) -> Option<u64> {
        let processes = self.processes.borrow();
        let tasks = self.tasks.borrow();
        let (now, happened) = (self.base + self.now.get(), self.happened.get());
        let goes = |entry: &Entry| processes.get(&entry.pid).is_some_and(|it| !it.is_stopped);
        let due = |entry: &Entry| match entry.state {
            SuspendReason::Paused => true,
            SuspendReason::Blocked(until) => {
                entry.seen < happened || until.is_some_and(|until| until <= now)
            }
        };
        let ready: Vec<u64> = tasks
            .iter()
            .filter(|(_, entry)| goes(entry) && due(entry))
            .map(|(number, _)| *number)
            .collect();
        if !ready.is_empty() {
            return Some(self.random.borrow_mut().pick(&ready));
        }
        let until = |entry: &Entry| match entry.state {
            SuspendReason::Paused => None,
            SuspendReason::Blocked(until) => until,
        };
        let waiting = tasks.iter().filter(|(_, entry)| goes(entry));
        let first = waiting.filter_map(|(number, entry)| Some((until(entry)?, *number))).min()?;
        self.now.set(self.now.get().max(first.0 - self.base));
        Some(first.1)
    }

    fn suspend(&self, why: SuspendReason) {
        let Some((number, _)) = self.running.get() else { return };
        let handle = self.tasks.borrow().get(&number).map(|entry| entry.handle.clone());
        if let Some(handle) = handle {
            handle.suspend(why);
        }
    }

    /// Whether this happens, at a rate in a thousand.
    fn happens(&self, rate: u64) -> bool {
        rate > 0 && self.random.borrow_mut().permille(rate)
    }
}

impl Edge for World {
    fn now(&self) -> Instant {
        self.now.set(self.now.get() + LOOK);
        self.base + self.now.get()
    }

    fn unix_time(&self) -> Duration {
        BEGINNING + self.now.get()
    }

    fn random(&self, into: &mut [u8]) {
        let mut random = self.random.borrow_mut();
        for chunk in into.chunks_mut(8) {
            let word = random.word().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn process_id(&self) -> u32 {
        self.running.get().map_or(0, |(_, pid)| pid)
    }

    fn processor(&self) -> usize {
        self.process_id() as usize % PROCESSORS
    }

    fn parent_id(&self) -> Option<u32> {
        self.processes.borrow().get(&self.process_id())?.parent
    }

    fn open_process(&self, pid: u32) -> io::Result<OwnedFd> {
        let processes = self.processes.borrow();
        processes.get(&pid).ok_or(io::ErrorKind::NotFound)?.exit.try_clone()
    }

    fn peer(&self, pid: u32) -> Peer {
        let uid = rustix::process::geteuid().as_raw();
        Peer { pid, uid, gid: rustix::process::getegid().as_raw() }
    }

    fn is_ending(&self) -> bool {
        self.ending.get().is_some()
    }

    fn name_socket(&self) -> Vec<u8> {
        let number = self.names.replace(self.names.get() + 1);
        let here = std::thread::current().id();
        let name = format!("plasmon-sim-{}-{here:?}-{number}", std::process::id()).into_bytes();
        self.sockets.borrow_mut().insert(name.clone(), self.process_id());
        name
    }

    fn owner_of(&self, name: &[u8]) -> Option<u32> {
        self.sockets.borrow().get(name).copied()
    }

    fn block(&self, until: Option<Instant>) {
        if !self.is_ending() {
            self.suspend(SuspendReason::Blocked(until));
        }
    }

    fn pause(&self, at: Point) {
        self.has_worked.set(true);
        let rates = self.rates.get();
        let is_about_pins = matches!(at, Point::Index | Point::Pins | Point::Claim);
        let rate = if is_about_pins { rates.pins } else { rates.pause };
        if !self.is_ending() && self.happens(rate) {
            self.suspend(SuspendReason::Paused);
        }
    }

    fn refuses(&self, what: Attempt) -> Option<io::Error> {
        let rates = self.rates.get();
        let (rate, error) = match what {
            Attempt::Reserve => (rates.reserve, rustix::io::Errno::NOSPC),
            Attempt::Complete => (rates.complete, rustix::io::Errno::NOBUFS),
            Attempt::Disk => (rates.disk, rustix::io::Errno::IO),
        };
        let refused = !self.is_ending() && self.happens(rate);
        refused.then(|| {
            self.note(|| format!("{what:?} is refused"));
            error.into()
        })
    }

    fn mutation(&self) -> Option<Mutation> {
        self.mutation
    }

    fn start_thread(&self, _name: &str, work: Box<dyn FnOnce()>) {
        self.add_task(self.process_id(), work);
    }

    fn start_process(&self, role: &str, input: OwnedFd) -> io::Result<u32> {
        if role == "--role=keeper" {
            return Ok(self.spawn(Role::Keeper, None, move || daemon::keep(input)));
        }
        Ok(self.start_daemon(Some(input)))
    }

    fn kill_process(&self, pid: u32) {
        self.killed_by_daemons.update(|count| count + 1);
        self.kills.borrow_mut().push(pid);
    }

    fn wait_process(&self, pid: u32) {
        let lives = || self.processes.borrow().get(&pid).is_some_and(|it| it.is_alive);
        while lives() && !self.is_ending() {
            self.block(None);
        }
    }

    fn has_memfd(&self, name: &str, fd: BorrowedFd<'_>) {
        self.memory.watch(name, self.process_id(), fd);
    }
}
