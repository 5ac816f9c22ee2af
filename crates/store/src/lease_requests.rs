//! Leases: ranges that a client carves small objects from without asking.

use plasmon_proto::extent::ExtentId;
use plasmon_proto::limits::{LEASE_BYTES_MAX, OBJECT_ALIGN};
use plasmon_proto::message::{Failure, Grant};
use plasmon_proto::object::Level;
use plasmon_proto::ring::Completion;
use plasmon_proto::{Code, ObjectId};

use crate::asker::{Answer, Asker};
use crate::effect::Effect;
use crate::event::ClientNo;
use crate::jobs::{Job, Purpose, Size};
use crate::memory::{PlacedRange, aligned};
use crate::ports::Directory;
use crate::store::Store;

/// The part of the capacity that a lease grants at most beyond what its client must have. What one
/// client has leased and not used, no other can use.
const LEASES_PER_CAPACITY: u64 = 64;

impl<D: Directory> Store<D> {
    pub(crate) fn lease(&mut self, client: ClientNo, answer: Answer, size: Size) {
        match self.check_lease(client, answer, size) {
            Ok((asker, size)) => {
                // The best that it may get counts as owned until it is known what it gets.
                self.sessions.clients.own(asker.session, size.bytes_wanted);
                let held_bytes = size.bytes_wanted;
                let purpose = Purpose::Lease { asker, answer, held_bytes };
                self.start(Job::new(purpose, size, None));
            }
            Err(failure) => self.answer_lease_failure(client, answer, failure),
        }
    }

    fn check_lease(
        &mut self,
        client: ClientNo,
        answer: Answer,
        size: Size,
    ) -> Result<(Asker, Size), Failure> {
        let capacity = self.space.memory.capacity_bytes();
        let left = self.sessions.clients.quota_left(client);
        let asker = self.sessions.clients.asker(client).ok_or(Failure::of(Code::BadRequest))?;
        let found = self.sessions.clients.get_mut(client).ok_or(Failure::of(Code::BadRequest))?;
        if found.away {
            // It is about to say what it holds, and would not know of this lease.
            return Err(Failure::of(Code::Cancelled));
        }
        if self.config.level == Level::Strict {
            let detail = "a store of level strict leases no memory: create each object";
            return Err(Failure::of(Code::Unsupported).with_detail(detail));
        }
        if size.bytes_min > capacity {
            return Err(Failure::of(Code::TooLarge).with_amounts(size.bytes_min, capacity));
        }
        if !found.may_ask(answer) {
            let detail = "this client has not received its earlier leases yet";
            return Err(Failure::of(Code::LimitReached).with_detail(detail));
        }
        let bytes_min = aligned(size.bytes_min.max(OBJECT_ALIGN));
        if bytes_min > left {
            return Err(Failure::of(Code::QuotaExceeded).with_amounts(bytes_min, left));
        }
        let most = LEASE_BYTES_MAX.min(capacity / LEASES_PER_CAPACITY).min(left);
        let wanted = size.bytes_wanted.min(most) / OBJECT_ALIGN * OBJECT_ALIGN;
        found.note_lease(answer, true);
        Ok((asker, Size { bytes_min, bytes_wanted: wanted.max(bytes_min) }))
    }

    /// Memory was found for a lease.
    pub(crate) fn leased(
        &mut self,
        client: ClientNo,
        answer: Answer,
        held_bytes: u64,
        placed: &PlacedRange,
    ) {
        let Some(found) = self.sessions.clients.get_mut(client) else { return };
        found.note_lease(answer, false);
        found.leases.add(placed.range);
        let session = found.session;
        self.sessions.clients.uncharge(session, held_bytes);
        self.sessions.clients.own(session, placed.range.bytes);
        self.say_lent(client, placed.range.extent);
        self.out.push(Effect::Writer(placed.range.extent, Some(client)));
        self.out.push(match answer {
            Answer::Socket(request) => {
                let warm = placed.reservation.is_none();
                let PlacedRange { range, extent_bytes, .. } = *placed;
                Effect::Lease(client, request, Grant { range, extent_bytes, warm })
            }
            Answer::Ring(position) => {
                Effect::Complete(client, Completion::Lease { position, range: placed.range })
            }
        });
    }

    /// Has what of the extent is in the client's hands written down for a restart.
    pub(crate) fn say_lent(&mut self, client: ClientNo, extent: ExtentId) {
        if let Some(found) = self.sessions.clients.get(client) {
            self.out.push(Effect::Lent(self.space.memory.lent(found.leases.hull(extent))));
        }
    }

    pub(crate) fn answer_lease_failure(
        &mut self,
        client: ClientNo,
        answer: Answer,
        failure: Failure,
    ) {
        match answer {
            Answer::Socket(request) => self.fail(client, request, failure),
            Answer::Ring(position) => {
                self.refuse(client, position, failure.code, ObjectId::new([0; 20]));
            }
        }
    }
}
