//! Making objects: carved from a lease and announced through the ring, or created by name.
//!
//! ```text
//! small:  lock ─ reserve ─ (copy) ─ Put record ─ unlock            no system call, no answer
//! medium: lock ─ reserve ─ unlock ─ copy ─ lock ─ Put ─ unlock     others write meanwhile
//! large:  Create ─► memory of its own ─ copy ─► Seal               two round trips
//! ```

use std::io;
use std::sync::{Arc, MutexGuard};

use plasmon_proto::limits::SUBMISSIONS;
use plasmon_proto::message::{Creating, Range, Reply, Request};
use plasmon_proto::object::Level;
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::ring::Submission;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::edge;
use plasmon_shm::writer::{Span, WriteExtent};

use crate::error::{Error, Result};
use crate::leases::{Step, large_bytes};
use crate::mapping::MAPPING;
use crate::payload::{Payload, Plan};
use crate::process::Process;
use crate::session::{Session, Writing, put_range};
use crate::verdicts::{Ruling, Verdict};

const PUTTING: &str = "putting object";

/// Up to here a copy is so short that giving the lock away for it costs more.
const COPY_LOCKED_BYTES: u64 = 4 << 10;

/// From here on a copy is worth more than one thread.
const COPY_PARALLEL_BYTES: usize = 8 << 20;

/// How many submissions are waited for when the ring is full: half of it, so that writer and daemon
/// do not hand single records to each other.
const RING_HALF: u64 = SUBMISSIONS as u64 / 2;

/// Records that are submitted together at most.
const SUBMITTED_MAX: usize = 2;

/// One object and where its bytes go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) id: ObjectId,
    pub(crate) range: Range,
    pub(crate) sizes: Sizes,
    pub(crate) traits: Traits,
}

impl Placed {
    fn put(&self) -> Submission {
        let Range { extent, offset, .. } = self.range;
        Submission::Put { id: self.id, extent, offset, sizes: self.sizes, traits: self.traits }
    }
}

/// The memory of an object that the daemon created.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) span: Span,
    pub(crate) range: Range,
    /// Whether its pages are known to be in memory already.
    pub(crate) warm: bool,
}

impl Process {
    /// Whether an object is carved from a lease, or created through the socket.
    #[inline]
    pub(crate) fn is_carved(&self, session: &Session, plan: &Plan, strict: bool) -> bool {
        let strict = strict || session.welcome.level == Level::Strict;
        session.channel().is_some()
            && !strict
            && !plan.replace
            && !self.is_exact()
            && plan.footprint < large_bytes(session.welcome.capacity_bytes)
    }

    /// Copies an object into leased memory and submits it; its id and the position of its record.
    /// The verdict on an id that the caller chose is to be awaited.
    pub(crate) fn put_carved(
        &self,
        session: &Session,
        chosen: Option<ObjectId>,
        plan: &Plan,
        payload: Payload<'_>,
    ) -> Result<(ObjectId, u64)> {
        let mut writing = self.reserve(session, plan.footprint)?;
        writing.verdicts.take_refusals(PUTTING)?;
        let id = match chosen {
            Some(id) => {
                writing.check_unannounced(PUTTING, &id)?;
                id
            }
            None => writing.ids.next(),
        };
        let Some((extent, span)) = writing.leases.front() else {
            return Err(Error::unexpected(PUTTING));
        };
        let range = Range { extent, offset: span.offset(), bytes: plan.footprint };
        let placed = Placed { id, range, sizes: plan.sizes, traits: plan.traits };
        if plan.footprint <= COPY_LOCKED_BYTES {
            payload.pieces().for_each(|(at, piece)| span.fill(at, &[piece], 1));
            span.skip(plan.footprint as usize);
            // Where the next object goes, which is probably as large: its lines come while this one
            // is submitted.
            span.prefetch(plan.footprint as usize);
        } else {
            let part = span.take(plan.footprint as usize);
            writing.leases.opened(range);
            drop(writing);
            // There were so many bytes under the lock that was held until now.
            if let Some(mut part) = part {
                self.fill(&mut part, payload);
            }
            writing = session.writing();
            if !writing.leases.closed(&range) {
                return Err(Error::forgotten(PUTTING, id));
            }
        }
        let verdict = Verdict::awaited_if(chosen.is_some());
        let position = self.submit_put(session, writing, &placed, verdict)?;
        Ok((id, position))
    }

    /// Submits an object whose bytes are complete, and asks for the next lease in good time.
    pub(crate) fn submit_put<'a>(
        &self,
        session: &'a Session,
        mut writing: MutexGuard<'a, Writing>,
        placed: &Placed,
        verdict: Verdict,
    ) -> Result<u64> {
        let put = placed.put();
        match writing.leases.ask_ahead(placed.range.bytes) {
            None => self.submit(session, writing, &[put], verdict),
            Some((bytes_min, bytes_wanted)) => {
                let wanted = Submission::LeaseWanted { bytes_min, bytes_wanted };
                self.submit(session, writing, &[put, wanted], verdict)
            }
        }
    }

    /// Puts records into the ring, waiting for room if need be; the position of the first. The lock
    /// is given up before any system call.
    pub(crate) fn submit<'a>(
        &self,
        session: &'a Session,
        mut writing: MutexGuard<'a, Writing>,
        submissions: &[Submission],
        verdict: Verdict,
    ) -> Result<u64> {
        const SUBMITTING: &str = "submitting to the daemon";
        let Some(channel) = session.channel() else {
            return Err(Error::new(Code::Unsupported, SUBMITTING));
        };
        let mut records = [[0; 8]; SUBMITTED_MAX];
        for (record, submission) in records.iter_mut().zip(submissions) {
            *record = submission.encode();
        }
        let mut rest = &records[..submissions.len()];
        let mut first = None;
        if writing.leases.is_suspended() {
            writing = self.await_resumption(session, writing, rest.iter().find_map(put_range))?;
        }
        loop {
            let submitted = channel.submit(rest);
            if submitted.count > 0 && first.is_none() {
                first = Some(submitted.position);
                // Under the same lock as the submission: nobody else can have drained the
                // completions in between and taken the verdict for a stray refusal.
                match verdict {
                    Verdict::Kept => {}
                    Verdict::Awaited => writing.verdicts.await_verdict(submitted.position),
                }
            }
            rest = &rest[submitted.count..];
            // Until it is in the ring, the memory of a put is known only here.
            let unsubmitted: Option<Range> = rest.iter().find_map(put_range);
            if let Some(range) = unsubmitted {
                writing.leases.opened(range);
            }
            drop(writing);
            for submission in &submissions[..submissions.len() - rest.len()] {
                if let Submission::Put { id, .. } = submission {
                    channel.wake_waiters(id);
                }
            }
            channel.ring_for(&submitted);
            if let (Some(first), []) = (first, rest) {
                return Ok(first);
            }
            let oldest = channel.reader.channel().tail().wrapping_sub(RING_HALF);
            let applied = self.await_applied(session, oldest);
            writing = session.writing();
            if let Some(range) = unsubmitted {
                writing.close_again(range, applied.is_ok())?;
            }
            applied?;
            if writing.leases.is_suspended() {
                writing = self.await_resumption(session, writing, unsubmitted)?;
            }
        }
    }

    /// Waits for the verdict on an awaited submission.
    pub(crate) fn acknowledge(
        &self,
        session: &Session,
        doing: &'static str,
        position: u64,
        id: ObjectId,
    ) -> Result<()> {
        let applied = self.await_applied(session, position);
        session.drain_fully();
        let verdict = session.writing().verdicts.take_verdict(position);
        applied?;
        match verdict {
            Ruling::Accepted => Ok(()),
            Ruling::Refused(code) => Err(Error::new(code, doing).with_id(id)),
            Ruling::Unknown => Err(Error::new(Code::LimitReached, doing).with_id(id).with_detail(
                "whether the put succeeded is not known: this client read its completions too \
                 late; get the object to check",
            )),
        }
    }

    /// Leased memory for an object, faulted in, with the lock that it is to be carved under.
    pub(crate) fn reserve<'a>(
        &self,
        session: &'a Session,
        footprint: u64,
    ) -> Result<MutexGuard<'a, Writing>> {
        session.drain();
        loop {
            let mut writing = session.writing();
            match writing.leases.step(footprint) {
                Step::Ready => return Ok(writing),
                Step::Fault(extent, map, offset, bytes) => {
                    drop(writing);
                    map.map().populate(offset, bytes).map_err(|error| Error::io(MAPPING, error))?;
                    session.writing().leases.faulted(extent, offset);
                }
                Step::Await => drop(self.await_resumption(session, writing, None)?),
                Step::Map(range) => {
                    drop(writing);
                    let map = self.write_map(session, range.extent);
                    self.install(session, map, range, footprint)?;
                }
                Step::Ask { bytes_min, bytes_wanted } => {
                    drop(writing);
                    if self.take_strays(session) {
                        continue;
                    }
                    if let Some((map, range)) = self.ask_lease(session, bytes_min, bytes_wanted)? {
                        self.install(session, map, range, footprint)?;
                    }
                }
            }
        }
    }

    /// Takes memory that was granted to a caller that did not wait for it; whether there was any.
    fn take_strays(&self, session: &Session) -> bool {
        let strays = self.calls().take_strays();
        let mut writing = session.writing();
        let mut found = false;
        for (range, link) in strays {
            // On an earlier connection, or to another session: the daemon has it back.
            if self.is_current(session) && !writing.is_void(link) {
                writing.leases.granted(range);
                found = true;
            }
        }
        found
    }

    /// Makes a mapped range the current lease, unless another thread was faster.
    fn install(
        &self,
        session: &Session,
        map: Result<Arc<WriteExtent>>,
        range: Range,
        footprint: u64,
    ) -> Result<()> {
        let lease = |map: Arc<WriteExtent>| map.lease(range.offset, range.bytes);
        let span = map.and_then(|map| lease(map).ok_or_else(|| Error::unexpected(MAPPING)));
        let mut writing = session.writing();
        if !writing.leases.end_mapping(&range) {
            return Ok(());
        }
        let span = span?;
        if writing.leases.has_room(footprint) || writing.leases.is_suspended() {
            writing.leases.granted(range);
            return Ok(());
        }
        if let Some(tail) = writing.leases.install(range.extent, span, edge::now()) {
            self.submit(session, writing, &[Submission::LeaseReturn(tail)], Verdict::Kept)?;
        }
        Ok(())
    }

    /// A range that the daemon grants, and its mapping; `None` when the daemon has taken it back
    /// before it was known here, because the connection broke meanwhile.
    pub(crate) fn ask_lease(
        &self,
        session: &Session,
        bytes_min: u64,
        bytes_wanted: u64,
    ) -> Result<Option<(Result<Arc<WriteExtent>>, Range)>> {
        const LEASING: &str = "reserving memory for objects";
        let request = Request::Lease { bytes_min, bytes_wanted };
        let mut answer = self.ask_with_room(session, LEASING, request)?;
        let (Reply::Lease(granted), Some(fd)) = (&answer.reply, answer.fds.pop()) else {
            return Err(Error::unexpected(LEASING));
        };
        let range = granted.range;
        let mut writing = session.writing();
        if writing.is_void(answer.link) {
            return Ok(None);
        }
        if !self.is_current(session) {
            drop(writing);
            // It was granted to the session that took this one's place.
            self.session().writing().leases.granted(range);
            return Err(Error::new(Code::Disconnected, LEASING));
        }
        writing.leases.begin_mapping(range);
        let kept = writing.leases.map(range.extent);
        drop(writing);
        let map = match kept {
            Some(map) => self.keep_writers_out(session, &map).map(|()| map),
            None => self.map_and_keep(session, range.extent, fd),
        };
        Ok(Some((map, range)))
    }

    /// Asks for memory. If there is none, this client's own unused leases go back first.
    pub(crate) fn ask_with_room(
        &self,
        session: &Session,
        doing: &'static str,
        request: Request,
    ) -> Result<crate::answer::Answer> {
        match self.ask(doing, request.clone()) {
            Err(error) if error.code() == Code::StoreFull && session.return_leases() => {
                self.ask(doing, request)
            }
            outcome => outcome,
        }
    }

    /// Has the daemon reserve an id and memory of its own for it.
    pub(crate) fn create_large(
        &self,
        session: &Session,
        doing: &'static str,
        id: ObjectId,
        plan: &Plan,
        strict: bool,
    ) -> Result<Created> {
        let (sizes, traits) = (plan.sizes, plan.traits);
        let request = Request::Create { id, sizes, traits, strict };
        let (granted, fd) = loop {
            let mut answer = self
                .ask_with_room(session, doing, request.clone())
                .map_err(|error| error.about(id))?;
            let (Reply::Created(granted), Some(fd)) = (&answer.reply, answer.fds.pop()) else {
                return Err(Error::unexpected(doing));
            };
            let mut writing = session.writing();
            // A creation that the daemon was not told of when the connection was resumed has ended.
            if !writing.is_void(answer.link) {
                let range = granted.range;
                writing.set_creating(Creating { id, sizes, traits, range, strict });
                break (*granted, fd);
            }
        };
        let range = granted.range;
        let span = self.map_created(session, &granted, fd, strict);
        match span {
            Ok(span) => Ok(Created { span, range, warm: granted.warm }),
            Err(error) => {
                self.abandon(session, id);
                Err(error.about(id))
            }
        }
    }

    /// Copies a whole object into memory that the daemon created for it.
    pub(crate) fn write_created(&self, created: &mut Created, payload: Payload<'_>) -> Result<()> {
        if !created.warm {
            // Nobody has touched these pages: writing through the descriptor spares the faults.
            match self.fill_untouched(&mut created.span, payload) {
                Ok(()) => return Ok(()),
                // The memory is closed to new writers already; the mapping was made before.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(Error::io("writing an object", error)),
            }
        }
        self.fill(&mut created.span, payload);
        Ok(())
    }

    /// Seals an object that was created under `id` as `target`: the same, or one that it replaces.
    pub(crate) fn seal(
        &self,
        session: &Session,
        doing: &'static str,
        id: ObjectId,
        target: ObjectId,
    ) -> Result<()> {
        if !self.is_current(session) || !session.writing().is_creating(&id) {
            return Err(Error::forgotten(doing, target));
        }
        if let Some(channel) = session.channel() {
            channel.wake_waiters(&target);
        }
        let replaces = id != target;
        let request = if replaces { Request::Replace { id, target } } else { Request::Seal { id } };
        let sealed = self.ask_again(doing, request);
        let sealed = sealed.map(|answer| (answer.reply, answer.again));
        session.writing().clear_creating(&id);
        match sealed {
            Ok((Reply::Done, _)) => Ok(()),
            // Asked twice because the connection broke: the first time did it.
            Ok((Reply::Failed(failure), true)) if failure.code == Code::AlreadySealed => Ok(()),
            Ok((Reply::Failed(failure), true)) if replaces && failure.code == Code::Absent => {
                let detail = "the daemon was restarted meanwhile; whether the object is replaced \
                              is not known: put it again";
                Err(Error::new(Code::Disconnected, doing).with_id(target).with_detail(detail))
            }
            Ok((Reply::Failed(failure), _)) => {
                if !self.is_current(session) {
                    return Err(Error::forgotten(doing, target));
                }
                // Nobody can seal it any more; its id and its memory are free.
                self.abandon(session, id);
                Err(Error::of_failure(doing, failure).about(target))
            }
            Ok(_) => Err(Error::unexpected(doing)),
            Err(error) => Err(error.about(target)),
        }
    }

    /// Gives a created object up without waiting for the answer.
    pub(crate) fn abandon(&self, session: &Session, id: ObjectId) {
        let mut writing = session.writing();
        writing.clear_creating(&id);
        let is_wanted = self.is_ours() && self.is_current(session) && writing.give_up(id);
        drop(writing);
        if is_wanted {
            self.take_back(|requests| requests.abort(id));
        }
    }

    /// Gives an announced object up, and its memory back. Does not wait, also with a full ring.
    pub(crate) fn abandon_carved(&self, session: &Session, id: ObjectId, range: Range) {
        let mut writing = session.writing();
        let is_leased = writing.leases.closed(&range);
        writing.clear_announced(&id);
        let Some(channel) = session.channel().filter(|_| self.is_current(session)) else { return };
        if !writing.give_up(id) {
            if is_leased {
                writing.leases.regain(range);
            }
            return;
        }
        let records = [Submission::Abort { id }, Submission::LeaseReturn(range)];
        let submitted = channel.submit(&records.map(|record| record.encode()));
        if submitted.count > 0 {
            writing.verdicts.mute(submitted.position, channel.reader.channel().head());
        }
        if submitted.count < records.len() {
            // For an object of this client's own: the daemon has leased the memory all the same.
            writing.leases.regain(range);
        }
        drop(writing);
        if submitted.must_ring {
            channel.ring();
        }
        if submitted.count == 0 {
            // The daemon reads what is in the ring first, and so also the announcement.
            self.take_back(|requests| requests.abort(id));
        }
    }

    /// Copies the pieces of an object to where they belong.
    pub(crate) fn fill(&self, span: &mut Span, payload: Payload<'_>) {
        let threads = if span.len() < COPY_PARALLEL_BYTES { 1 } else { self.copy_threads() };
        if threads == 1 {
            payload.pieces().for_each(|(at, piece)| span.fill(at, &[piece], 1));
        } else {
            let pieces: Vec<_> = payload.pieces().map(|(_, piece)| piece).collect();
            span.fill(0, &pieces, threads);
        }
    }

    fn fill_untouched(&self, span: &mut Span, payload: Payload<'_>) -> io::Result<()> {
        let pieces: Vec<_> = payload.pieces().map(|(_, piece)| piece).collect();
        span.write(0, &pieces)
    }

    pub(crate) fn is_current(&self, session: &Session) -> bool {
        std::ptr::eq(&raw const **self.session(), session)
    }
}
