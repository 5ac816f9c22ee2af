//! Submitting records to the daemon through the ring, and what the daemon decides about them.

use std::sync::MutexGuard;

use plasmon_proto::extent::Range;
use plasmon_proto::limits::SUBMISSIONS;
use plasmon_proto::message::Request;
use plasmon_proto::ring::{Put, Submission};
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::deadline::Deadline;

use crate::acks::{Ack, Verdict};
use crate::connection::{ALIVE, Connection};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::session::{Session, WriteState, put_range};
use crate::suspension::await_resumption;

/// How many submissions are waited for when the ring is full: half of it, so that writer and daemon
/// do not hand single records to each other.
const RING_HALF: u64 = SUBMISSIONS as u64 / 2;

/// Records that are submitted together at most.
const SUBMITTED_MAX: usize = 2;

/// Submits an object whose bytes are complete, and asks for the next lease in good time.
pub(crate) fn submit_put<'a>(
    connection: &Connection,
    session: &'a Session,
    mut writing: MutexGuard<'a, WriteState>,
    put: &Put,
    verdict: Verdict,
) -> Result<u64> {
    // Its sizes are within their limits: its memory was carved from a lease.
    let bytes = put.sizes.footprint().unwrap_or_default();
    let put = Submission::Put(*put);
    match writing.leases.ask_ahead(bytes) {
        None => submit(connection, session, writing, &[put], verdict),
        Some((bytes_min, bytes_wanted)) => {
            let wanted = Submission::LeaseWanted { bytes_min, bytes_wanted };
            submit(connection, session, writing, &[put, wanted], verdict)
        }
    }
}

/// Puts records into the ring, waiting for room if need be; the position of the first. The lock
/// is given up before any system call.
pub(crate) fn submit<'a>(
    connection: &Connection,
    session: &'a Session,
    mut writing: MutexGuard<'a, WriteState>,
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
        writing = await_resumption(connection, session, writing, rest.iter().find_map(put_range))?;
    }
    loop {
        let submitted = channel.submit(rest);
        if submitted.count > 0 && first.is_none() {
            first = Some(submitted.position);
            // Under the same lock as the submission: no other thread can have drained the
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
            if let Submission::Put(put) = submission {
                channel.wake_waiters(&put.id);
            }
        }
        channel.ring_for(&submitted);
        if let (Some(first), []) = (first, rest) {
            return Ok(first);
        }
        let oldest = channel.reader.channel().tail().wrapping_sub(RING_HALF);
        let applied = await_applied(connection, session, oldest);
        writing = session.writing();
        if let Some(range) = unsubmitted {
            writing.close_again(range, applied.is_ok())?;
        }
        applied?;
        if writing.leases.is_suspended() {
            writing = await_resumption(connection, session, writing, unsubmitted)?;
        }
    }
}

/// Waits for the verdict on an awaited submission.
pub(crate) fn acknowledge(
    connection: &Connection,
    session: &Session,
    doing: &'static str,
    position: u64,
    id: ObjectId,
) -> Result<()> {
    let applied = await_applied(connection, session, position);
    session.drain_fully();
    let verdict = session.writing().verdicts.take_verdict(position);
    applied?;
    match verdict {
        Ack::Accepted => Ok(()),
        Ack::Refused(code) => Err(Error::new(code, doing).with_id(id)),
        Ack::Unknown => Err(Error::new(Code::LimitReached, doing).with_id(id).with_detail(
            "whether the put succeeded is not known: this client read its completions too \
             late; get the object to check",
        )),
    }
}

/// Sleeps until the daemon has applied the submission at this position, and makes sure that
/// there is a daemon. An error means that the submission is lost.
pub(crate) fn await_applied(
    connection: &Connection,
    session: &Session,
    position: u64,
) -> Result<()> {
    const APPLYING: &str = "waiting for the daemon to apply a submission";
    let Some(channel) = session.channel() else {
        return Ok(());
    };
    let channel = channel.reader.channel();
    loop {
        match channel.wait_applied(position, Deadline::after(ALIVE).instant()) {
            Ok(true) => return Ok(()),
            Ok(false) => interrupt::check(APPLYING)?,
            Err(error) => return Err(Error::io(APPLYING, error)),
        }
        if !connection.is_current(session) {
            return Err(Error::new(Code::Disconnected, APPLYING)
                .with_detail("the daemon restarted and does not know of earlier submissions"));
        }
        // Answered only by a live daemon, and only after everything submitted before.
        connection.ask(APPLYING, Request::Sync)?;
    }
}
