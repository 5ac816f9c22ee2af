//! Requests for memory, from the asking to the grant.
//!
//! ```text
//!               no room               room after a spill, or after others let memory go
//!     run ---------------------> starving -----------------------+
//!      | ^                          | nothing can be freed       |
//!      | +--------------------------|----------------------------+
//!      |                            v
//!      +--> reserving ---------> failed
//!      |        | pages are there
//!      +--------+----> granted
//! ```

use std::collections::{BTreeMap, VecDeque};

use plasmon_proto::message::{ExtentId, Failure, Granted};
use plasmon_proto::object::Level;
use plasmon_proto::{Code, ObjectId};

use crate::clients::Asker;
use crate::effect::Effect;
use crate::event::Ticket;
use crate::evict::Measure;
use crate::leasing::{Answer, Size};
use crate::memory::{Ask, Domain, Lengths, Placed, Reservation, aligned};
use crate::ports::Directory;
use crate::room::{Room, Search, Stuck};
use crate::store::Store;

/// How often the machine may refuse memory for one request before the request fails.
const REFUSALS_MAX: u8 = 2;

/// How many objects may fail to be spilled for one request before the request fails.
const SPILL_FAILURES_MAX: u8 = 3;

/// How often a request waits for memory that is leaving before it looks for other memory: what came
/// free each time others were faster to take.
const LEAVINGS_MAX: u16 = 256;

/// What memory is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A lease; `held_bytes` count as owned meanwhile.
    Lease { asker: Asker, answer: Answer, held_bytes: u64 },
    /// An object under construction.
    Create { asker: Asker, request: u64, id: ObjectId, serial: u64 },
    /// More memory for one that grows. While that is there, it knows which request is answered.
    Grow { asker: Asker, request: u64, id: ObjectId, serial: u64 },
    /// A spilled object that somebody wants to read.
    Restore { id: ObjectId, serial: u64 },
}

/// An extent of its own is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exact {
    pub(crate) charge: u64,
    pub(crate) strict: bool,
}

/// Memory for an object whose size is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Its first; open-ended when it may become much longer than that.
    First { open_ended: bool },
    /// More, at the end of this extent.
    Behind(ExtentId),
}

/// A request for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) purpose: Purpose,
    size: Size,
    exact: Option<Exact>,
    growth: Option<Growth>,
    refusals: u8,
    spill_failures: u8,
    /// How often memory that was leaving was waited for.
    leavings: u16,
    /// Whether something is evicted even if there seems to be room: the machine has none.
    evicts: bool,
    pub(crate) search: Search,
}

impl Job {
    pub(crate) fn new(purpose: Purpose, size: Size, exact: Option<Exact>) -> Self {
        Self {
            purpose,
            size,
            exact,
            growth: None,
            refusals: 0,
            spill_failures: 0,
            leavings: 0,
            evicts: false,
            search: Search::default(),
        }
    }

    /// A request for memory in an extent that grows.
    pub(crate) fn growing(purpose: Purpose, bytes: u64, growth: Growth) -> Self {
        Self { growth: Some(growth), ..Self::new(purpose, Size::exactly(bytes), None) }
    }

    /// Whether objects are spilled for it.
    pub(crate) fn may_spill(&self) -> bool {
        self.spill_failures < SPILL_FAILURES_MAX
    }

    /// What the least that helps is charged.
    pub(crate) fn charge(&self) -> u64 {
        self.exact.map_or(self.size.bytes_min, |exact| exact.charge)
    }
}

/// Requests for memory that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    reserving: BTreeMap<Ticket, (Job, Placed)>,
    /// Requests that wait for objects to be spilled or looked for, in their order.
    starving: VecDeque<Job>,
    /// When it was last found that nothing can go.
    pub(crate) stuck: Option<Stuck>,
}

impl Jobs {
    /// Every request that is parked.
    #[cfg(test)]
    pub(crate) fn parked(&self) -> impl Iterator<Item = &Job> {
        self.reserving.values().map(|(job, _)| job).chain(&self.starving)
    }

    /// The places that are being reserved.
    pub(crate) fn reserving(&self) -> impl Iterator<Item = (&Job, &Placed)> {
        self.reserving.values().map(|(job, placed)| (job, placed))
    }

    /// An object could not be spilled.
    pub(crate) fn spill_failed(&mut self) {
        for job in &mut self.starving {
            job.spill_failures = job.spill_failures.saturating_add(1);
        }
    }
}

impl<D: Directory> Store<D> {
    /// Takes a request for memory on.
    pub(crate) fn start(&mut self, job: Job) {
        self.run(job);
    }

    /// Brings a request as far as it goes now. Returns false when it starves.
    fn run(&mut self, mut job: Job) -> bool {
        if !self.is_wanted(&job) {
            self.job_failed(&job, Failure::of(Code::Cancelled));
            return true;
        }
        loop {
            if !job.evicts
                && self.content_shortage(&job) == 0
                && let Some(placed) = self.place(&job)
            {
                self.placed(job, placed);
                return true;
            }
            if job.leavings < LEAVINGS_MAX && self.memory.will_fit(job.charge()) {
                job.leavings += 1;
                self.jobs.starving.push_back(job);
                return false;
            }
            match self.make_room(&mut job) {
                Room::Made => job.evicts = false,
                Room::Nowhere if job.evicts => job.evicts = false,
                Room::Coming => {
                    self.jobs.starving.push_back(job);
                    return false;
                }
                Room::Later => {
                    self.jobs.starving.push_back(job);
                    self.work.feed = true;
                    return false;
                }
                Room::Nowhere => break,
            }
        }
        let left = self.memory.left_bytes();
        let mut failure = Failure::of(Code::StoreFull).with_amounts(job.charge(), left);
        let held = self.memory.retained().held_bytes();
        if held > 0 {
            failure = failure.with_detail(format!(
                "{held} bytes that were given up are still mapped by processes that do not let \
                 them go, such as one that is stopped (the daemon's log names them)"
            ));
        }
        self.job_failed(&job, failure);
        true
    }

    /// How much is to come free for a request, and how that is counted.
    pub(crate) fn shortage_of(&self, job: &Job) -> (u64, Measure) {
        if job.evicts {
            return (job.charge(), Measure::Charge);
        }
        match self.content_shortage(job) {
            // Room for all that is wanted, so that small objects do not starve one by one.
            0 => {
                let bytes = job.charge().max(job.size.bytes_wanted);
                (self.memory.shortage(bytes), Measure::Charge)
            }
            content => (content, Measure::Content),
        }
    }

    /// Whether somebody still waits for the outcome.
    fn is_wanted(&self, job: &Job) -> bool {
        match job.purpose {
            Purpose::Lease { asker, .. } => self.clients.is_asking(asker),
            Purpose::Create { asker, id, serial, .. } => {
                let creating = self.creatings.get(&id).filter(|it| it.serial == serial);
                creating.is_some() && self.clients.is_asking(asker)
            }
            Purpose::Grow { asker: Asker { session, .. }, id, serial, .. } => {
                let creating = self.creatings.get(&id).filter(|it| it.serial == serial);
                creating.is_some_and(|creating| !creating.is_settling())
                    && self.clients.of_session(session).is_some()
            }
            Purpose::Restore { id, serial } => {
                self.tier.get(&id).is_some_and(|spilled| spilled.serial == serial)
            }
        }
    }

    /// Whose arenas the memory comes from.
    fn domain(&self, job: &Job) -> Domain {
        match job.purpose {
            Purpose::Lease { asker, .. }
            | Purpose::Create { asker, .. }
            | Purpose::Grow { asker, .. } => Domain::Client(asker.session),
            Purpose::Restore { .. } if self.config.level == Level::Shared => Domain::Open,
            Purpose::Restore { .. } => Domain::Daemon,
        }
    }

    /// Finds memory without taking any from objects. Warm memory comes first, even if it is less
    /// than wanted; to give warm memory back for cold is the last resort.
    fn place(&mut self, job: &Job) -> Option<Placed> {
        let (domain, out) = (self.domain(job), &mut self.out);
        let Size { bytes_min, bytes_wanted } = job.size;
        match job.growth {
            Some(Growth::First { open_ended }) => {
                // Idle memory may be longer than what was asked for, but not than what is allowed.
                let asking = match domain {
                    Domain::Client(session) => self.clients.of_session(session),
                    _ => None,
                };
                let left = asking.map_or(0, |(client, _)| self.clients.quota_left(client));
                let lengths = Lengths { bytes: bytes_min, most: left.saturating_add(bytes_min) };
                return self.memory.place_growing(domain, lengths, open_ended, out);
            }
            Some(Growth::Behind(extent)) => {
                return self.memory.place_growth(extent, bytes_min, out);
            }
            None => {}
        }
        if let Some(Exact { charge, strict }) = job.exact {
            return self.memory.place_exact(domain, bytes_min, charge, strict, out);
        }
        let chunk = !matches!(job.purpose, Purpose::Lease { .. });
        let sizes = || {
            let half =
                |bytes: &u64| (*bytes > bytes_min).then(|| aligned(bytes / 2).max(bytes_min));
            std::iter::successors(Some(bytes_wanted), half)
        };
        if let Some(placed) = sizes().take(4).find_map(|it| self.memory.place_warm(domain, it)) {
            return Some(placed);
        }
        let ask = Ask { chunk, give_back: false };
        if let Some(placed) = self.memory.place_cold(domain, bytes_wanted, ask, out) {
            return Some(placed);
        }
        if let Some(placed) = sizes().find_map(|it| self.memory.place_warm(domain, it)) {
            return Some(placed);
        }
        let ask = Ask { chunk: false, give_back: true };
        sizes().find_map(|it| self.memory.place_cold(domain, it, ask, out))
    }

    fn placed(&mut self, job: Job, placed: Placed) {
        let Some(reservation) = placed.reservation else { return self.grant(&job, &placed) };
        let ticket = self.ticket();
        let Reservation { range, new_extent } = reservation;
        self.out.push(match job.growth {
            Some(_) => Effect::Extend { ticket, new_extent, range },
            None => {
                let new_extent_bytes = new_extent.then_some(placed.extent_bytes);
                let strict = job.exact.is_some_and(|exact| exact.strict);
                Effect::Reserve { ticket, new_extent_bytes, range, strict }
            }
        });
        self.jobs.reserving.insert(ticket, (job, placed));
    }

    pub(crate) fn reserved(&mut self, ticket: Ticket, done: bool) {
        let Some((mut job, placed)) = self.jobs.reserving.remove(&ticket) else { return };
        if done {
            self.memory.reserved(&placed);
            if self.is_wanted(&job) {
                self.grant(&job, &placed);
            } else {
                self.give_place_back(&job, &placed);
            }
            return;
        }
        self.memory.not_reserved(&placed, &mut self.out);
        job.refusals += 1;
        if job.refusals > REFUSALS_MAX {
            let detail = "the machine has no memory left";
            let failure = Failure::of(Code::StoreFull).with_amounts(job.charge(), 0);
            return self.job_failed(&job, failure.with_detail(detail));
        }
        job.evicts = job.refusals == REFUSALS_MAX;
        self.memory.give_back(u64::MAX, &mut self.out);
        self.run(job);
    }

    /// Nobody wants the place any more.
    fn give_place_back(&mut self, job: &Job, placed: &Placed) {
        match job.growth {
            Some(Growth::Behind(_)) => self.memory.forget_growth(placed.charge),
            _ => self.memory.release(placed.range, placed.charge, &mut self.out),
        }
        self.job_failed(job, Failure::of(Code::Cancelled));
        self.feed_starving();
    }

    fn grant(&mut self, job: &Job, placed: &Placed) {
        match job.purpose {
            Purpose::Lease { asker, answer, held_bytes } => {
                self.leased(asker.client, answer, held_bytes, placed);
            }
            Purpose::Grow { id, .. } => self.grown(&id, placed),
            Purpose::Create { asker: Asker { client, .. }, request, id, .. } => {
                self.created(&id, placed);
                let Placed { range, extent_bytes, .. } = *placed;
                let warm = placed.reservation.is_none();
                self.memory.note_creation(range.extent);
                self.say_lent(client, range.extent);
                self.out.push(Effect::Writer(range.extent, Some(client)));
                let granted = Granted { range, extent_bytes, warm };
                self.out.push(Effect::Created(client, request, granted));
            }
            Purpose::Restore { id, serial } => self.restore_into(id, serial, placed),
        }
    }

    fn job_failed(&mut self, job: &Job, failure: Failure) {
        match job.purpose {
            Purpose::Lease { asker, answer, held_bytes } => {
                self.clients.disown(asker.session, held_bytes);
                if !self.clients.is_asking(asker) {
                    return;
                }
                if let Some(found) = self.clients.get_mut(asker.client) {
                    found.note_lease(answer, false);
                }
                self.answer_lease_failure(asker.client, answer, failure);
            }
            Purpose::Create { asker, request, id, serial } => {
                if self.creatings.get(&id).is_some_and(|creating| creating.serial == serial) {
                    self.give_up(&id);
                }
                self.fail_asker(asker, request, failure.with_id(id));
            }
            Purpose::Grow { asker, request, id, serial } => {
                if !self.not_grown(&id, serial, &failure) {
                    self.fail_asker(asker, request, failure.with_id(id));
                }
            }
            Purpose::Restore { id, serial } => self.restore_failed(&id, serial),
        }
    }

    /// Memory may have come free: the requests that wait for it try again in their order.
    pub(crate) fn feed_starving(&mut self) {
        let mut waiting = std::mem::take(&mut self.jobs.starving);
        while let Some(job) = waiting.pop_front() {
            if !self.run(job) {
                break;
            }
        }
        self.jobs.starving.append(&mut waiting);
    }

    /// Bytes that are leased, or placed for a lease, and hold no object.
    pub(crate) fn leased_bytes(&self) -> u64 {
        let pending = self.jobs.reserving().filter_map(|(job, placed)| match job.purpose {
            Purpose::Lease { .. } => Some(placed.charge),
            _ => None,
        });
        self.clients.leased_bytes() + pending.sum::<u64>()
    }
}
