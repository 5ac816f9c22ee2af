//! Making objects: carved from a lease and announced through the ring, or created by name.
//!
//! ```text
//! small:  lock ─ reserve ─ (copy) ─ Put record ─ unlock            no system call, no answer
//! medium: lock ─ reserve ─ unlock ─ copy ─ lock ─ Put ─ unlock     others write meanwhile
//! large:  Create ─► dedicated memory ── copy ─► Seal               two round trips
//! small and durable: carved, copied, then PutDurable               one round trip
//! ```

use std::sync::Arc;

use plasmon_proto::extent::Range;
use plasmon_proto::message::Request;
use plasmon_proto::object::Level;
use plasmon_proto::ring::Submission;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::writer::Span;

use crate::acks::Verdict;
use crate::client::Client;
use crate::created::{abandon, abandon_carved, create_large, fill, seal, write_created};
use crate::error::{Error, Result};
use crate::few_nodes;
use crate::lease::reserve;
use crate::leases::large_bytes;
use crate::mapping::keep_writers_out;
use crate::options::PutOptions;
use crate::payload::{Payload, Plan};
use crate::process::Process;
use crate::session::Session;
use crate::settle::{home, settle_members, settle_put};
use crate::submit::{acknowledge, await_applied, submit, submit_put};
use crate::writer::{Origin, Writer};

pub(crate) const PUTTING: &str = "putting object";
const CREATING: &str = "creating object";
const FLUSHING: &str = "waiting until everything submitted is applied";

/// Up to here a copy is so short that giving the lock away for it costs more.
pub(crate) const COPY_LOCKED_BYTES: u64 = 4 << 10;

impl Process {
    pub(crate) fn put(&self, data: &[&[u8]], options: &PutOptions) -> Result<ObjectId> {
        self.put_whole(data, options).map_err(|error| error.naming(options.name.as_ref()))
    }

    fn put_whole(&self, data: &[&[u8]], options: &PutOptions) -> Result<ObjectId> {
        let bytes = data.iter().map(|part| part.len() as u64).sum();
        let plan = Plan::new(PUTTING, bytes, options)?;
        if plan.settles_members {
            settle_members(&self.connection, PUTTING, &options.members)?;
        }
        let put = self.put_planned(data, options, &plan);
        put.map_err(|error| self.explain(&plan, error))
    }

    /// Says of a refusal by the pool what it lacks.
    fn explain(&self, plan: &Plan, error: Error) -> Error {
        few_nodes::explain(self.connection.socket(), plan.copies_min, error)
    }

    fn put_planned(&self, data: &[&[u8]], options: &PutOptions, plan: &Plan) -> Result<ObjectId> {
        let payload = Payload { data, metadata: &options.metadata, attributes: &plan.attributes };
        let session = self.connection.session();
        let id = match self.put_once(session, plan, payload, options.strict) {
            Err(error)
                if error.code() == Code::Disconnected
                    && !error.is_outcome_unknown()
                    && !self.connection.is_current(session) =>
            {
                // Other nodes may have it by now. Put again, it would be refused, for itself.
                if let Some(id) = plan.chosen.filter(ObjectId::is_pooled) {
                    return Err(Error::perhaps_accepted(PUTTING, id));
                }
                // The daemon lost everything, but the bytes are still here: give them to the new
                // one.
                self.put_once(self.connection.session(), plan, payload, options.strict)
            }
            outcome => outcome,
        }?;
        if plan.settles {
            settle_put(&self.connection, PUTTING, &[id])?;
        }
        Ok(id)
    }

    fn put_once(
        &self,
        session: &Session,
        plan: &Plan,
        payload: Payload<'_>,
        strict: bool,
    ) -> Result<ObjectId> {
        if self.is_small_durable(session, plan, strict) {
            return self.put_small(session, plan, payload);
        }
        if !self.is_carved(session, plan, strict) {
            return self.put_created(session, plan.chosen, plan, payload, strict);
        }
        let (id, position) = self.put_carved(session, plan.chosen, plan, payload)?;
        if plan.chosen.is_some() || plan.settles {
            acknowledge(&self.connection, session, PUTTING, position, id)?;
        }
        Ok(id)
    }

    fn put_created(
        &self,
        session: &Session,
        chosen: Option<ObjectId>,
        plan: &Plan,
        payload: Payload<'_>,
        strict: bool,
    ) -> Result<ObjectId> {
        let (id, target) = self.write_created(session, chosen, plan, payload, strict)?;
        seal(&self.connection, session, PUTTING, id, target)?;
        Ok(target)
    }

    /// Writes an object into memory that the daemon created for it; the id that it has so far, and
    /// the one that it is to be sealed as.
    pub(crate) fn write_created(
        &self,
        session: &Session,
        chosen: Option<ObjectId>,
        plan: &Plan,
        payload: Payload<'_>,
        strict: bool,
    ) -> Result<(ObjectId, ObjectId)> {
        let (id, target) = self.ids_for(PUTTING, chosen, plan)?;
        session.drain();
        session.writing().verdicts.take_refusals(PUTTING)?;
        let strict = strict || session.welcome.level == Level::Strict;
        let created = create_large(&self.connection, session, PUTTING, id, plan, strict);
        let mut created = created.map_err(|error| error.with_id(target))?;
        if let Err(error) = write_created(&mut created, payload, self.copy_threads()) {
            abandon(&self.connection, session, id);
            return Err(error.with_id(target));
        }
        if let Err(error) = keep_writers_out(session, created.span.extent()) {
            abandon(&self.connection, session, id);
            return Err(error.with_id(target));
        }
        // The way to write the bytes goes before they are sealed; at level strict it must.
        drop(created);
        Ok((id, target))
    }

    /// The id that an object is created with, and the one that it is sealed as.
    fn ids_for(
        &self,
        doing: &'static str,
        chosen: Option<ObjectId>,
        plan: &Plan,
    ) -> Result<(ObjectId, ObjectId)> {
        match chosen {
            Some(target) if plan.replace => Ok((self.new_id(), target)),
            None if plan.replace => {
                let detail = "to replace an object, give its name or its id";
                Err(Error::new(Code::BadRequest, doing).with_detail(detail))
            }
            None if plan.needs_id => {
                let home = home(&self.connection, doing)?;
                let id = self.connection.session().writing().homed_ids.next(home);
                Ok((id, id))
            }
            chosen => {
                let id = chosen.unwrap_or_else(|| self.new_id());
                Ok((id, id))
            }
        }
    }

    /// Whether an object is carved from a lease, or created through the socket.
    #[inline]
    fn is_carved(&self, session: &Session, plan: &Plan, strict: bool) -> bool {
        self.is_leasable(session, plan, strict)
            && !plan.replace
            // It is seen after it was written to the log.
            && !plan.durable
            // The pool is asked before an object that any node may make is seen.
            && !plan.chosen.is_some_and(|id| id.is_pooled() && id.home().is_none())
    }

    /// Whether the memory of an object may be a part of a lease.
    #[inline]
    pub(crate) fn is_leasable(&self, session: &Session, plan: &Plan, strict: bool) -> bool {
        let strict = strict || session.welcome.level == Level::Strict;
        session.channel().is_some()
            && !strict
            && !self.connection.is_exact()
            && plan.footprint < large_bytes(session.welcome.capacity_bytes)
    }

    /// Copies an object into leased memory and submits it; its id and the position of its record.
    /// The verdict on an id that the caller chose is to be awaited.
    fn put_carved(
        &self,
        session: &Session,
        chosen: Option<ObjectId>,
        plan: &Plan,
        payload: Payload<'_>,
    ) -> Result<(ObjectId, u64)> {
        let home = if plan.needs_id { Some(home(&self.connection, PUTTING)?) } else { None };
        let mut writing = reserve(&self.connection, session, plan.footprint)?;
        writing.verdicts.take_refusals(PUTTING)?;
        let id = match (chosen, home) {
            (Some(id), _) => {
                writing.check_unannounced(PUTTING, &id)?;
                id
            }
            (None, Some(home)) => writing.homed_ids.next(home),
            (None, None) => writing.ids.next(),
        };
        let Some((extent, span)) = writing.leases.front() else {
            return Err(Error::unexpected(PUTTING));
        };
        let range = Range { extent, offset: span.offset(), bytes: plan.footprint };
        let put = plan.put(id, range.placement());
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
            // This many bytes were copied under the lock that was held until now.
            if let Some(mut part) = part {
                fill(&mut part, payload, self.copy_threads());
            }
            writing = session.writing();
            if !writing.leases.closed(&range) {
                return Err(Error::forgotten(PUTTING, id));
            }
        }
        let verdict = Verdict::awaited_if(chosen.is_some() || plan.settles);
        let position = submit_put(&self.connection, session, writing, &put, verdict)?;
        Ok((id, position))
    }

    pub(crate) fn put_many(
        &self,
        objects: &[(Option<ObjectId>, &[u8])],
        options: &PutOptions,
    ) -> Result<Vec<ObjectId>> {
        if options.id.is_some() || options.name.is_some() {
            let detail = "several objects cannot share one id or name";
            return Err(Error::new(Code::BadRequest, PUTTING).with_detail(detail));
        }
        if options.pool && objects.iter().any(|(chosen, _)| chosen.is_some()) {
            let detail = "an object of a pool without a name has an id of the client's making";
            return Err(Error::new(Code::BadRequest, PUTTING).with_detail(detail));
        }
        let plan = Plan::new(PUTTING, 0, options)?;
        if plan.settles_members {
            settle_members(&self.connection, PUTTING, &options.members)?;
        }
        let session = Arc::clone(self.connection.session());
        if plan.durable {
            return self.put_many_durable(&session, objects, options);
        }
        let mut ids = Vec::with_capacity(objects.len());
        let mut awaited = Vec::new();
        let mut outcome = Ok(());
        for (chosen, data) in objects {
            let put = self.put_one_of_many(&session, *chosen, data, options);
            match put {
                Ok((id, position)) => {
                    ids.push(id);
                    awaited.extend(position.map(|position| (position, id)));
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        // Every verdict is taken, also after an error: one that is not taken would stay forever.
        for (position, id) in awaited {
            let verdict = acknowledge(&self.connection, &session, PUTTING, position, id);
            outcome = outcome.and(verdict);
        }
        if plan.settles {
            outcome = outcome.and(settle_put(&self.connection, PUTTING, &ids));
        }
        outcome.map(|()| ids).map_err(|error| self.explain(&plan, error))
    }

    fn put_one_of_many(
        &self,
        session: &Session,
        chosen: Option<ObjectId>,
        data: &[u8],
        options: &PutOptions,
    ) -> Result<(ObjectId, Option<u64>)> {
        let plan = Plan::new(PUTTING, data.len() as u64, options)?;
        let parts = [data];
        let payload =
            Payload { data: &parts, metadata: &options.metadata, attributes: &plan.attributes };
        if !self.is_carved(session, &plan, options.strict) {
            let id = self.put_created(session, chosen, &plan, payload, options.strict)?;
            return Ok((id, None));
        }
        let (id, position) = self.put_carved(session, chosen, &plan, payload)?;
        Ok((id, (chosen.is_some() || plan.settles).then_some(position)))
    }

    pub(crate) fn create(
        &self,
        store: &Client,
        data_bytes: u64,
        options: &PutOptions,
    ) -> Result<Writer> {
        let created = self.create_whole(store, data_bytes, options);
        created.map_err(|error| error.naming(options.name.as_ref()))
    }

    fn create_whole(
        &self,
        store: &Client,
        data_bytes: u64,
        options: &PutOptions,
    ) -> Result<Writer> {
        let plan = Plan::new(CREATING, data_bytes, options)?;
        if plan.settles_members {
            settle_members(&self.connection, CREATING, &options.members)?;
        }
        let session = Arc::clone(self.connection.session());
        if self.is_carved(&session, &plan, options.strict) {
            return self.create_carved(store, session, &plan, options);
        }
        session.drain();
        session.writing().verdicts.take_refusals(CREATING)?;
        self.create_for_writing(store, session, &plan, options)
    }

    fn create_carved(
        &self,
        store: &Client,
        session: Arc<Session>,
        plan: &Plan,
        options: &PutOptions,
    ) -> Result<Writer> {
        let awaited = plan.chosen.is_some() && !options.trusted || plan.settles;
        let home = if plan.needs_id { Some(home(&self.connection, CREATING)?) } else { None };
        let mut writing = reserve(&self.connection, &session, plan.footprint)?;
        writing.verdicts.take_refusals(CREATING)?;
        let id = match (plan.chosen, home) {
            (Some(id), _) => {
                writing.check_unannounced(CREATING, &id)?;
                id
            }
            (None, Some(home)) => writing.homed_ids.next(home),
            (None, None) => writing.ids.next(),
        };
        let carved = writing.leases.front().and_then(|(extent, span)| {
            let offset = span.offset();
            let range = Range { extent, offset, bytes: plan.footprint };
            span.take(plan.footprint as usize).map(|span| (range, span))
        });
        let Some((range, mut span)) = carved else {
            return Err(Error::unexpected(CREATING));
        };
        writing.leases.opened(range);
        writing.announce(id);
        let announce = Submission::Announce { id };
        let submitted =
            submit(&self.connection, &session, writing, &[announce], Verdict::awaited_if(awaited));
        let announced = submitted.and_then(|position| {
            if awaited {
                acknowledge(&self.connection, &session, CREATING, position, id)
            } else {
                Ok(())
            }
        });
        if let Err(error) = announced {
            drop(span);
            if matches!(error.code(), Code::TimedOut | Code::Cancelled) {
                // The daemon may still accept it.
                abandon_carved(&self.connection, &session, id, range);
                return Err(error.about(id));
            }
            let mut writing = session.writing();
            let is_leased = writing.leases.closed(&range);
            writing.clear_announced(&id);
            if is_leased && writing.leases.is_suspended() {
                writing.leases.regain(range);
            } else if is_leased && self.connection.is_current(&session) {
                // The error is on its way already; a range that cannot be returned stays leased.
                let _ = submit(
                    &self.connection,
                    &session,
                    writing,
                    &[Submission::LeaseReturn(range)],
                    Verdict::Kept,
                );
            }
            return Err(error);
        }
        fill_tail(&mut span, plan, options);
        let put = plan.put(id, range.placement());
        let origin = Origin::Carved { awaited, range };
        let writer = Writer::new(store.clone(), self, session, put, origin, span);
        Ok(writer.settling(plan.settles).needing(plan.copies_min))
    }

    fn create_for_writing(
        &self,
        store: &Client,
        session: Arc<Session>,
        plan: &Plan,
        options: &PutOptions,
    ) -> Result<Writer> {
        let (id, target) = self.ids_for(CREATING, plan.chosen, plan)?;
        let strict = options.strict || session.welcome.level == Level::Strict;
        let created = create_large(&self.connection, &session, CREATING, id, plan, strict);
        let mut created = created.map_err(|error| error.with_id(target))?;
        fill_tail(&mut created.span, plan, options);
        let put = plan.put(id, created.range.placement());
        let (span, origin) = (created.span, Origin::Created { warm: created.warm, target });
        let writer = Writer::new(store.clone(), self, session, put, origin, span);
        Ok(writer.settling(plan.settles).needing(plan.copies_min))
    }

    pub(crate) fn flush(&self) -> Result<()> {
        let session = Arc::clone(self.connection.session());
        let unread = self.connection.rpc().unread_returns();
        let mut is_replaced = false;
        match session.channel() {
            Some(channel) if unread.is_none() => {
                let last = channel.reader.channel().tail().wrapping_sub(1);
                match await_applied(&self.connection, &session, last) {
                    // What was lost with the old session is told by the new one, below.
                    Err(_) if !self.connection.is_current(&session) => is_replaced = true,
                    outcome => outcome?,
                }
            }
            // Answered after everything that was sent before, on the ring or on the socket.
            _ => {
                self.connection.command(FLUSHING, Request::Sync)?;
                unread.inspect(|returned| self.connection.rpc().returns_read(*returned));
            }
        }
        let now = self.connection.session();
        now.drain_fully();
        now.writing().verdicts.take_refusals(FLUSHING)?;
        match is_replaced && now.welcome.store != session.welcome.store {
            true => Err(self.connection.another_store()),
            false => Ok(()),
        }
    }
}

/// Writes what follows the data of an object that its caller fills: mostly nothing.
fn fill_tail(span: &mut Span, plan: &Plan, options: &PutOptions) {
    let payload = Payload { data: &[], metadata: &options.metadata, attributes: &plan.attributes };
    let data_bytes = plan.sizes.data as usize;
    payload.pieces().for_each(|(at, piece)| span.fill(data_bytes + at, &[piece], 1));
}
