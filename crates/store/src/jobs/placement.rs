//! How a request for memory is placed, reserved, granted or refused.

use plasmon_proto::Code;
use plasmon_proto::message::{Failure, Grant};
use plasmon_proto::object::Level;

use super::{Exact, Growth, Job, LEAVINGS_MAX, Purpose, REFUSALS_MAX, Size};
use crate::asker::Asker;
use crate::clients::Clients;
use crate::content::content_bytes;
use crate::effect::Effect;
use crate::event::Ticket;
use crate::evict::Measure;
use crate::memory::{Ask, Domain, Lengths, PlacedRange, Reservation, aligned};
use crate::ports::Directory;
use crate::room::Room;
use crate::space::Space;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Takes a request for memory on.
    pub(crate) fn start(&mut self, job: Job) {
        self.run(job);
    }

    /// Brings a request as far as it goes now. Returns false when it is blocked.
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
            if job.leavings < LEAVINGS_MAX && self.space.memory.will_fit(job.charge()) {
                job.leavings += 1;
                self.space.jobs.waiting_for_room.push_back(job);
                return false;
            }
            match self.make_room(&mut job) {
                Room::Made => job.evicts = false,
                Room::Nowhere if job.evicts => job.evicts = false,
                Room::Coming => {
                    self.space.jobs.waiting_for_room.push_back(job);
                    return false;
                }
                Room::Later => {
                    self.space.jobs.waiting_for_room.push_back(job);
                    self.work.feed = true;
                    return false;
                }
                Room::Nowhere => break,
            }
        }
        let left = self.space.memory.left_bytes();
        let mut failure = Failure::of(Code::StoreFull).with_amounts(job.charge(), left);
        let held = self.space.memory.retained().held_bytes();
        if held > 0 {
            failure = failure.with_detail(format!(
                "{held} bytes of deleted objects are still mapped by processes, such as one that \
                 is stopped (the daemon's log names them)"
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
                (self.space.memory.shortage(bytes), Measure::Charge)
            }
            content => (content, Measure::Content),
        }
    }

    /// How much content must go before that of the request fits; 0 where content is not counted.
    pub(crate) fn content_shortage(&self, job: &Job) -> u64 {
        if !self.config.count_content {
            return 0;
        }
        let coming = match job.purpose {
            // What is being created counts from its beginning.
            Purpose::Create { .. } => 0,
            Purpose::Grow { .. } => job.charge(),
            // It is unknown yet what a lease will hold.
            Purpose::Lease { .. } => return 0,
            Purpose::Restore { id, .. } => {
                self.objects.tier.get(&id).map_or(0, |spilled| content_bytes(&spilled.meta.sizes))
            }
        };
        self.space.content_bytes.saturating_add(coming).saturating_sub(self.config.capacity_bytes)
    }

    /// Whether a client still waits for the outcome.
    fn is_wanted(&self, job: &Job) -> bool {
        match job.purpose {
            Purpose::Lease { asker, .. } => self.sessions.clients.is_asking(asker),
            Purpose::Create { asker, id, serial, .. } => {
                let creating =
                    self.objects.pending_objects.get(&id).filter(|it| it.serial == serial);
                creating.is_some() && self.sessions.clients.is_asking(asker)
            }
            Purpose::Grow { asker: Asker { session, .. }, id, serial, .. } => {
                let creating =
                    self.objects.pending_objects.get(&id).filter(|it| it.serial == serial);
                creating.is_some_and(|creating| !creating.is_settling())
                    && self.sessions.clients.of_session(session).is_some()
            }
            Purpose::Restore { id, serial } => {
                self.objects.tier.get(&id).is_some_and(|spilled| spilled.serial == serial)
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
    fn place(&mut self, job: &Job) -> Option<PlacedRange> {
        let (domain, out) = (self.domain(job), &mut self.out);
        let Size { bytes_min, bytes_wanted } = job.size;
        match job.growth {
            Some(Growth::First { open_ended }) => {
                // Idle memory may be longer than what was asked for, but not than what is allowed.
                let asking = match domain {
                    Domain::Client(session) => self.sessions.clients.of_session(session),
                    _ => None,
                };
                let left = asking.map_or(0, |(client, _)| self.sessions.clients.quota_left(client));
                let lengths = Lengths { bytes: bytes_min, most: left.saturating_add(bytes_min) };
                return self.space.memory.place_growing(domain, lengths, open_ended, out);
            }
            Some(Growth::Extend(extent)) => {
                return self.space.memory.place_growth(extent, bytes_min, out);
            }
            None => {}
        }
        if let Some(Exact { charge, strict }) = job.exact {
            return self.space.memory.place_exact(domain, bytes_min, charge, strict, out);
        }
        let chunk = !matches!(job.purpose, Purpose::Lease { .. });
        let sizes = || {
            let half =
                |bytes: &u64| (*bytes > bytes_min).then(|| aligned(bytes / 2).max(bytes_min));
            std::iter::successors(Some(bytes_wanted), half)
        };
        if let Some(placed) =
            sizes().take(4).find_map(|it| self.space.memory.place_warm(domain, it))
        {
            return Some(placed);
        }
        let ask = Ask { chunk, give_back: false };
        if let Some(placed) = self.space.memory.place_cold(domain, bytes_wanted, ask, out) {
            return Some(placed);
        }
        if let Some(placed) = sizes().find_map(|it| self.space.memory.place_warm(domain, it)) {
            return Some(placed);
        }
        let ask = Ask { chunk: false, give_back: true };
        sizes().find_map(|it| self.space.memory.place_cold(domain, it, ask, out))
    }

    fn placed(&mut self, job: Job, placed: PlacedRange) {
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
        self.space.jobs.reserving.insert(ticket, (job, placed));
    }

    pub(crate) fn reserved(&mut self, ticket: Ticket, done: bool) {
        let Some((mut job, placed)) = self.space.jobs.reserving.remove(&ticket) else { return };
        if done {
            self.space.memory.reserved(&placed);
            if self.is_wanted(&job) {
                self.grant(&job, &placed);
            } else {
                self.give_place_back(&job, &placed);
            }
            return;
        }
        self.space.memory.not_reserved(&placed, &mut self.out);
        job.refusals += 1;
        if job.refusals > REFUSALS_MAX {
            let detail = "the machine has no memory left";
            let failure = Failure::of(Code::StoreFull).with_amounts(job.charge(), 0);
            return self.job_failed(&job, failure.with_detail(detail));
        }
        job.evicts = job.refusals == REFUSALS_MAX;
        self.space.memory.give_back(u64::MAX, &mut self.out);
        self.run(job);
    }

    /// The place is no longer wanted.
    fn give_place_back(&mut self, job: &Job, placed: &PlacedRange) {
        match job.growth {
            Some(Growth::Extend(_)) => self.space.memory.forget_growth(placed.charge),
            _ => self.space.memory.release(placed.range, placed.charge, &mut self.out),
        }
        self.job_failed(job, Failure::of(Code::Cancelled));
        self.retry_waiting_for_room();
    }

    fn grant(&mut self, job: &Job, placed: &PlacedRange) {
        match job.purpose {
            Purpose::Lease { asker, answer, held_bytes } => {
                self.leased(asker.client, answer, held_bytes, placed);
            }
            Purpose::Grow { id, .. } => self.grown(&id, placed),
            Purpose::Create { asker: Asker { client, .. }, request, id, .. } => {
                self.created(&id, placed);
                let PlacedRange { range, extent_bytes, .. } = *placed;
                let warm = placed.reservation.is_none();
                self.space.memory.note_creation(range.extent);
                self.say_lent(client, range.extent);
                self.out.push(Effect::Writer(range.extent, Some(client)));
                let granted = Grant { range, extent_bytes, warm };
                self.out.push(Effect::Created(client, request, granted));
            }
            Purpose::Restore { id, serial } => self.restore_into(id, serial, placed),
        }
    }

    fn job_failed(&mut self, job: &Job, failure: Failure) {
        match job.purpose {
            Purpose::Lease { asker, answer, held_bytes } => {
                self.sessions.clients.uncharge(asker.session, held_bytes);
                if !self.sessions.clients.is_asking(asker) {
                    return;
                }
                if let Some(found) = self.sessions.clients.get_mut(asker.client) {
                    found.note_lease(answer, false);
                }
                self.answer_lease_failure(asker.client, answer, failure);
            }
            Purpose::Create { asker, request, id, serial } => {
                if self
                    .objects
                    .pending_objects
                    .get(&id)
                    .is_some_and(|creating| creating.serial == serial)
                {
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
    pub(crate) fn retry_waiting_for_room(&mut self) {
        let mut waiting = std::mem::take(&mut self.space.jobs.waiting_for_room);
        while let Some(job) = waiting.pop_front() {
            if !self.run(job) {
                break;
            }
        }
        self.space.jobs.waiting_for_room.append(&mut waiting);
    }
}

impl Space {
    /// Bytes that are leased, or placed for a lease, and hold no object.
    pub(crate) fn leased_bytes(&self, clients: &Clients) -> u64 {
        let pending = self.jobs.reserving().filter_map(|(job, placed)| match job.purpose {
            Purpose::Lease { .. } => Some(placed.charge),
            _ => None,
        });
        clients.leased_bytes() + pending.sum::<u64>()
    }
}
