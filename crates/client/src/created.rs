//! Objects with their own memory: created and sealed over the socket, and what is given up.

use std::io;

use plasmon_proto::extent::Range;
use plasmon_proto::message::{PendingObject, Reply, Request};
use plasmon_proto::ring::Submission;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::writer::Span;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::lease::ask_with_room;
use crate::mapping::map_created;
use crate::payload::{Payload, Plan};
use crate::session::Session;

/// From here on a copy is worth more than one thread.
const COPY_PARALLEL_BYTES: usize = 8 << 20;

/// The memory of an object that the daemon created.
#[derive(Debug)]
pub(crate) struct ObjectMemory {
    pub(crate) span: Span,
    pub(crate) range: Range,
    /// Whether its pages are known to be in memory already.
    pub(crate) warm: bool,
}

/// Has the daemon reserve an id and dedicated memory for it.
pub(crate) fn create_large(
    connection: &Connection,
    session: &Session,
    doing: &'static str,
    id: ObjectId,
    plan: &Plan,
    strict: bool,
) -> Result<ObjectMemory> {
    if plan.durable && !session.welcome.durable {
        let detail = "the store has no log for durable objects: start it with --durable-dir, or \
                      leave durable out";
        return Err(Error::new(Code::Unsupported, doing).with_detail(detail).about(id));
    }
    let (sizes, traits) = (plan.sizes, plan.traits);
    let request = Request::Create { id, sizes, traits, strict };
    let (granted, fd) = loop {
        let mut answer = ask_with_room(connection, session, doing, request.clone())
            .map_err(|error| error.about(id))?;
        let (Reply::Created(granted), Some(fd)) = (&answer.reply, answer.fds.pop()) else {
            return Err(Error::unexpected(doing));
        };
        let mut writing = session.writing();
        // A creation that the daemon was not told of when the connection was resumed has ended.
        if !writing.is_void(answer.link) {
            let range = granted.range;
            writing.set_creating(PendingObject { id, sizes, traits, range, strict });
            break (*granted, fd);
        }
    };
    let range = granted.range;
    let span = map_created(connection, session, &granted, fd, strict);
    match span {
        Ok(span) => Ok(ObjectMemory { span, range, warm: granted.warm }),
        Err(error) => {
            abandon(connection, session, id);
            Err(error.about(id))
        }
    }
}

/// Copies a whole object into memory that the daemon created for it.
pub(crate) fn write_created(
    created: &mut ObjectMemory,
    payload: Payload<'_>,
    threads: usize,
) -> Result<()> {
    if !created.warm {
        // These pages were never touched: writing through the descriptor spares the faults.
        match fill_untouched(&mut created.span, payload) {
            Ok(()) => return Ok(()),
            // The memory is closed to new writers already; the mapping was made before.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(Error::io("writing an object", error)),
        }
    }
    fill(&mut created.span, payload, threads);
    Ok(())
}

/// Seals an object that was created under `id` as `target`: the same, or one that it replaces.
pub(crate) fn seal(
    connection: &Connection,
    session: &Session,
    doing: &'static str,
    id: ObjectId,
    target: ObjectId,
) -> Result<()> {
    let number = begin_seal(connection, session, doing, id, target)?;
    end_seal(connection, session, doing, (id, target), number)
}

/// Asks for the seal of such an object; [`end_seal`] gives the outcome.
pub(crate) fn begin_seal(
    connection: &Connection,
    session: &Session,
    doing: &'static str,
    id: ObjectId,
    target: ObjectId,
) -> Result<u64> {
    if !connection.is_current(session) || !session.writing().is_creating(&id) {
        return Err(Error::forgotten(doing, target));
    }
    if let Some(channel) = session.channel() {
        channel.wake_waiters(&target);
    }
    let request = if id == target { Request::Seal { id } } else { Request::Replace { id, target } };
    let begun = connection.begin(doing, request);
    if begun.is_err() {
        session.writing().clear_creating(&id);
    }
    begun.map_err(|error| error.about(target))
}

/// The outcome of a seal.
pub(crate) fn end_seal(
    connection: &Connection,
    session: &Session,
    doing: &'static str,
    (id, target): (ObjectId, ObjectId),
    number: u64,
) -> Result<()> {
    let replaces = id != target;
    let sealed = connection.answer(doing, number, true);
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
        Ok((Reply::Failed(failure), true))
            if target.is_pooled() && failure.code == Code::Absent =>
        {
            Err(Error::perhaps_accepted(doing, target))
        }
        Ok((Reply::Failed(failure), _)) => {
            if !connection.is_current(session) {
                return Err(Error::forgotten(doing, target));
            }
            // It cannot be sealed any more; its id and its memory are free.
            abandon(connection, session, id);
            Err(Error::of_failure(doing, failure).about(target))
        }
        Ok(_) => Err(Error::unexpected(doing)),
        Err(error) => Err(error.about(target)),
    }
}

/// Gives a created object up without waiting for the answer.
pub(crate) fn abandon(connection: &Connection, session: &Session, id: ObjectId) {
    let mut writing = session.writing();
    writing.clear_creating(&id);
    let is_wanted = connection.is_ours() && connection.is_current(session) && writing.give_up(id);
    drop(writing);
    if is_wanted {
        connection.take_back(|requests| requests.abort(id));
    }
}

/// Gives an announced object up, and its memory back. Does not wait, also with a full ring.
pub(crate) fn abandon_carved(
    connection: &Connection,
    session: &Session,
    id: ObjectId,
    range: Range,
) {
    let mut writing = session.writing();
    let is_leased = writing.leases.closed(&range);
    writing.clear_announced(&id);
    let Some(channel) = session.channel().filter(|_| connection.is_current(session)) else {
        return;
    };
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
        connection.take_back(|requests| requests.abort(id));
    }
}

/// Copies the pieces of an object to where they belong.
pub(crate) fn fill(span: &mut Span, payload: Payload<'_>, threads: usize) {
    let threads = if span.len() < COPY_PARALLEL_BYTES { 1 } else { threads };
    if threads == 1 {
        payload.pieces().for_each(|(at, piece)| span.fill(at, &[piece], 1));
    } else {
        let pieces: Vec<_> = payload.pieces().map(|(_, piece)| piece).collect();
        span.fill(0, &pieces, threads);
    }
}

fn fill_untouched(span: &mut Span, payload: Payload<'_>) -> io::Result<()> {
    let pieces: Vec<_> = payload.pieces().map(|(_, piece)| piece).collect();
    span.write(0, &pieces)
}
