//! The core of the daemon: one thread, one loop, one store.
//!
//! ```text
//!  epoll ──► accept, greet          (handshake)     ┐
//!        ──► requests of clients    (requests)      ├─► Event ──► Store ──► Effect ──► (effects)
//!        ──► rings                  (submissions)   │                                     │
//!        ──► workers' results       (effects)       ┘          replies, descriptors, jobs ┘
//!        ──► processes that ended   (disconnect)
//!        ──► keeper gone            (supervision)
//!        ──► processes that go on as other programs (session_check)
//! ```
//!
//! What was in any ring when a socket message was read is applied before that is answered, so that
//! "absent" told over the socket is final (`rings`). A turn of the loop reads, applies, answers and
//! parts only so much; what is left has its turn after the next poll. A mistake of a
//! client ends that client alone.

mod disconnect;
mod durable;
pub(crate) mod durable_log;
mod effects;
mod extent_release;
mod growing_extents;
mod handshake;
mod inbox;
mod lifetime;
mod requests;
mod seat;
mod send;
mod send_queue;
pub(crate) mod session_check;
mod spill_tier;
mod spin_policy;
mod submissions;
mod supervision;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plasmon_proto::message::MissingClaims;
use plasmon_shm::dropped_extents::DroppedExtents;
use plasmon_shm::edge::Point;
use plasmon_shm::{Listener, edge};
use plasmon_spill::FolderLock;
use plasmon_store::{ClientNo, Effect, Event, Store, Ticket};
use rustix::process::{Resource, getrlimit};

use crate::acceptor::Acceptor;
use crate::clock::Clock;
use crate::closer::Closer;
use crate::descriptors_in_flight::DescriptorsInFlight;
use crate::directory::SharedTables;
use crate::extents::{Extents, Recipients};
use crate::outbox::Budget;
use crate::peers::Peers;
use crate::poll::{Poll, Ready, Source};
use crate::pool_daemon::PoolDaemon;
use crate::rings::{REST_EVERY_MS, Rings};
use crate::sessions::SessionNo;
use crate::settings::Config;
use crate::starter::Starter;
use crate::workers::Workers;

use self::disconnect::Departures;
use self::durable_log::Log;
use self::inbox::Inbox;
use self::lifetime::Lifetime;
use self::send_queue::SendQueue;
use self::session_check::Looks;
use self::spill_tier::Tier;
use self::spin_policy::SpinPolicy;
use self::submissions::{Passes, Reads};
use self::supervision::KeeperState;

/// How often reads are reported to the eviction clock while there is other work, in milliseconds.
const TOUCHES_EVERY_MS: u64 = 100;

/// What the loop starts with.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The checked settings.
    pub(crate) config: Config,
    /// The settings as flags, for the keeper.
    pub(crate) flags: Vec<String>,
    /// What spill files and the keeper know this store by.
    pub(crate) store_token: u64,
    /// The listening socket.
    pub(crate) listener: Listener,
    /// The workers.
    pub(crate) workers: Workers,
    /// The store over everything shared.
    pub(crate) store: Store<SharedTables>,
    /// The extents.
    pub(crate) extents: Extents,
    /// Readable when the process is asked to end.
    pub(crate) signals: UnixStream,
    /// The clock.
    pub(crate) clock: Clock,
    /// The lock on the spill folder, where there is one.
    pub(crate) spill_lock: Option<FolderLock>,
    /// Why the spill tier cannot be used; empty when it can.
    pub(crate) tier_fault: String,
    /// What the daemon's control group allows, 0 for no limit.
    pub(crate) memory_limit_bytes: u64,
}

/// The running daemon.
#[derive(Debug)]
pub(crate) struct Core {
    config: Config,
    owner_uid: u32,
    clock: Clock,
    poll: Poll,
    acceptor: Acceptor,
    signals: UnixStream,
    workers: Workers,
    store: Store<SharedTables>,
    extents: Extents,
    /// Extents that were dropped and that other processes have mapped.
    dropped_extents: DroppedExtents<Recipients>,
    tier: Tier,
    log: Log,
    memory_limit_bytes: u64,
    /// Fresh memory that the worker is asking the kernel for.
    reserving: BTreeMap<Ticket, u64>,
    peers: Peers,
    rings: Rings,
    rested_ms: u64,
    keeping: KeeperState,
    event_queue: EventQueue,
    unsent: SendQueue,
    departures: Departures,
    closer: Closer,
    /// What clients that come back are told next.
    lost: BTreeMap<ClientNo, MissingClaims>,
    /// Sessions whose processes are looked at.
    looks: Looks,
    /// Whether the kernel keeps descriptors out of the daemon's sockets.
    refuses_descriptors: bool,
    passes: Passes,
    reads: Reads,
    inbox: Inbox,
    /// The time that events are given to the store with: read when the loop wakes and for every
    /// batch of records, which is as exact as its milliseconds are.
    now_ms: u64,
    spinning: SpinPolicy,
    lifetime: Lifetime,
    /// The pool daemon, where the store belongs to a pool.
    pool_daemon: Option<PoolDaemon>,
    /// What may wait to be sent to all clients together.
    budget: Arc<Budget>,
    /// Descriptors that clients may not have received.
    passing: DescriptorsInFlight,
    /// From one wake-up to the next poll.
    longest_turn: Duration,
}

/// Events on their way into the store, and effects on their way out.
#[derive(Debug, Default)]
struct EventQueue {
    /// Room for the effects of one event.
    effects: Vec<Effect>,
    /// Events that came up while effects were applied.
    events: VecDeque<Event>,
    is_under_way: bool,
}

impl Core {
    /// A daemon that is ready to run.
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let poll = Poll::new()?;
        let Parts { config, flags, store_token, listener, workers, store, extents, .. } = parts;
        let Parts { signals, clock, spill_lock, tier_fault, memory_limit_bytes, .. } = parts;
        let acceptor = Acceptor::open(listener, &config.socket, config.socket_mode)?;
        poll.add(&acceptor, Source::Listener)?;
        poll.add(&workers, Source::Workers)?;
        poll.add(&signals, Source::Signals)?;
        let rings = Rings::new()?;
        poll.add(&rings, Source::Doorbells)?;
        let spinning = SpinPolicy::new(Duration::from_micros(u64::from(config.spin_us)));
        let users = 1 + config.admitted.len();
        let peers = Peers::new(users, config.connections_max);
        let open_files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let mut core = Self {
            lifetime: Lifetime::new(Starter::watch(config.starter, &poll)?),
            pool_daemon: PoolDaemon::of(&config, store_token, edge::now()),
            refuses_descriptors: acceptor.listener().refuse_descriptors(),
            log: Log::of(config.durable.as_ref().map(|durable| &durable.log)),
            config,
            owner_uid: rustix::process::geteuid().as_raw(),
            clock,
            poll,
            acceptor,
            signals,
            workers,
            store,
            extents,
            dropped_extents: DroppedExtents::default(),
            tier: Tier::new(spill_lock, tier_fault),
            memory_limit_bytes,
            reserving: BTreeMap::new(),
            peers,
            rings,
            rested_ms: 0,
            keeping: KeeperState::new(flags, store_token),
            event_queue: EventQueue::default(),
            unsent: SendQueue::default(),
            departures: Departures::default(),
            closer: Closer::default(),
            lost: BTreeMap::new(),
            looks: Looks::default(),
            passes: Passes::default(),
            reads: Reads::default(),
            inbox: Inbox::default(),
            now_ms: clock.now_ms(),
            spinning,
            budget: Arc::default(),
            passing: DescriptorsInFlight::new(open_files_max, users),
            longest_turn: Duration::ZERO,
        };
        core.watch_keeper()?;
        core.watch_processes();
        Ok(core)
    }

    /// Serves until the process is asked to end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let hang_timeout = self.config.hang_timeout;
        self.shared().keeper.serving(hang_timeout);
        self.workers.warm_up()?;
        self.arm_idle_exit();
        let mut ready = Vec::new();
        while !self.lifetime.is_stopping {
            self.turn(&mut ready)?;
        }
        self.end();
        Ok(())
    }

    /// Waits for something to happen and does all of it.
    fn turn(&mut self, ready: &mut Vec<Ready>) -> io::Result<()> {
        if self.has_more_to_do() {
            self.poll.wait(Some(Duration::ZERO), ready)?;
        } else if self.spinning.goes_on(edge::now()) {
            // On one core the client that the daemon waits for needs it. With work at hand,
            // yielding would queue that work after everything else on the machine.
            if !self.rings.have_work(&self.store.directory().sessions) {
                std::thread::yield_now();
            }
            self.poll.wait(Some(Duration::ZERO), ready)?;
        } else {
            self.shared().control.set_sleeping(true);
            // From here on clients ring; what they submitted before is found now.
            let busy = self.rings.have_work(&self.store.directory().sessions);
            let timeout = if busy { Some(Duration::ZERO) } else { self.timeout() };
            self.poll.wait(timeout, ready)?;
            self.shared().control.set_sleeping(false);
        }
        let begun = edge::now();
        self.serve(ready.drain(..));
        self.longest_turn = self.longest_turn.max(edge::since(begun));
        Ok(())
    }

    /// Does what these events ask for, and as much of the rest as a turn may.
    fn serve(&mut self, ready: impl Iterator<Item = Ready>) {
        self.now_ms = self.clock.now_ms();
        ready.for_each(|event| self.dispatch(event));
        self.read_requests();
        self.drain_rings();
        self.answer_questions();
        self.keep_time();
        self.flush_all();
        self.part_leaving();
        self.check_keeper(edge::now());
        self.check_pool_daemon(edge::now());
        // Answers that had to wait for the keeper may be due.
        self.flush_all();
    }

    /// Whether the last turn left something for this one.
    fn has_more_to_do(&self) -> bool {
        self.passes.is_under_way() || !self.inbox.is_empty() || !self.departures.is_empty()
    }

    fn dispatch(&mut self, ready: Ready) {
        match ready.source {
            Source::Listener => self.accept(),
            Source::Workers => self.collect_work(),
            Source::Signals => self.on_signal(),
            Source::Keeper => self.on_keeper(),
            Source::Peer(number) => {
                let client = ClientNo(number);
                if ready.writable {
                    self.unsent.insert(client);
                }
                if ready.readable {
                    self.queue(client);
                }
            }
            Source::Doorbells => self.passes.ring(),
            // Listed by a separate instance, in `rings`.
            Source::Doorbell(_) => {}
            Source::Process(number) => self.process_ended(SessionNo(number)),
            Source::Starter => self.starter_ended(),
            Source::PoolDaemon => self.pool_daemon_ended(),
        }
    }

    fn on_signal(&mut self) {
        // Its one byte stands for any number of signals; all of them mean the same.
        if let Err(error) = (&self.signals).read(&mut [0]) {
            tracing::warn!(%error, "the pipe of signals cannot be read");
        }
        tracing::info!("stopping after a signal");
        self.lifetime.is_stopping = true;
    }

    /// What is due by the clock.
    fn keep_time(&mut self) {
        let now_ms = self.clock.now_ms();
        self.now_ms = now_ms;
        if self.store.next_deadline().is_some_and(|at_ms| at_ms <= now_ms) {
            self.apply_event(Event::Tick);
        }
        if now_ms >= self.reads.touched_ms + TOUCHES_EVERY_MS {
            self.collect_touches(None);
        }
        if now_ms >= self.rested_ms + REST_EVERY_MS {
            self.rested_ms = now_ms;
            self.rings.rest_idle(&mut self.store.directory_mut().sessions);
        }
        let now = edge::now();
        self.unsent.retry(now);
        self.check_dropped_extents(now);
        self.drop_unidentified(now);
        self.look_at_processes(now);
        if self.acceptor.reopens(now)
            && let Err(error) = self.poll.add(&self.acceptor, Source::Listener)
        {
            tracing::error!(%error, "the listener cannot be watched");
            self.acceptor.pause();
        }
        if self.acceptor.finds_its_name_lost(now) {
            self.take_name_again();
        }
        if std::mem::take(&mut self.shared().grown)
            && let Err(error) = self.workers.table(self.store.directory().index.table.memfd())
        {
            tracing::info!(%error, "the index stays in small pages");
        }
        if self.lifetime.is_idle_for_too_long(now) {
            tracing::info!("the last client has disconnected");
            self.lifetime.is_stopping = true;
        }
    }

    fn timeout(&mut self) -> Option<Duration> {
        let now = edge::now();
        let left = |at: Instant| at.saturating_duration_since(now);
        let store = self.store.next_deadline().map(|at_ms| self.clock.until(at_ms));
        let handshake = self.peers.next_deadline().map(left);
        let acceptor = self.acceptor.paused_until().map(left);
        let idle = self.lifetime.idle_deadline.map(left);
        let name = Some(left(self.acceptor.look_at()));
        let keeper = self.store.directory().keeper.next_deadline().map(left);
        let sending = self.unsent.next_deadline().map(left);
        let dropped = self.dropped_extents.next_deadline().map(left);
        let looking = self.looks.next().map(left);
        let pool = self.pool_daemon.as_ref().and_then(PoolDaemon::next_deadline).map(left);
        let times = [store, handshake, acceptor, idle, keeper, sending, dropped, name, looking];
        let deadlines = times.into_iter().chain([pool]);
        deadlines.flatten().min()
    }

    /// Gives the store an event and carries out what it asks for. Events that come up on the way
    /// follow in order.
    #[inline]
    fn apply_event(&mut self, event: Event) {
        if self.event_queue.is_under_way {
            return self.event_queue.events.push_back(event);
        }
        let mut effects = std::mem::take(&mut self.event_queue.effects);
        self.store.step(self.now_ms, event, &mut effects);
        if !effects.is_empty() {
            self.carry_all_out(&mut effects);
        }
        self.event_queue.effects = effects;
    }

    fn carry_all_out(&mut self, effects: &mut Vec<Effect>) {
        self.event_queue.is_under_way = true;
        loop {
            for effect in effects.drain(..) {
                edge::pause(Point::Effect);
                self.apply_effect(effect);
            }
            let Some(event) = self.event_queue.events.pop_front() else { break };
            self.store.step(self.now_ms, event, effects);
        }
        self.event_queue.is_under_way = false;
    }

    fn shared(&mut self) -> &mut SharedTables {
        self.store.directory_mut()
    }

    /// The store is over: everything it made is removed.
    pub(crate) fn end(mut self) {
        self.flush_all();
        if let Some(pool_daemon) = &mut self.pool_daemon {
            pool_daemon.stop();
        }
        // Where the name was lost, what is there is another daemon's.
        if self.acceptor.has_its_name()
            && let Err(error) = std::fs::remove_file(&self.config.socket)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the socket cannot be removed");
        }
        self.workers.end();
        self.store.directory_mut().keeper.stop();
        if self.config.own_folder {
            self.acceptor.remove_folder();
        }
    }
}
