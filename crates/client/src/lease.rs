//! Asking for leases, and making them ready to be carved.

use std::sync::{Arc, MutexGuard};

use plasmon_proto::Code;
use plasmon_proto::extent::Range;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::ring::Submission;
use plasmon_shm::edge;
use plasmon_shm::writer::WriteExtent;

use crate::acks::Verdict;
use crate::answer::Answer;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::leases::Step;
use crate::mapping::{MAPPING, keep_writers_out, map_and_keep, write_map};
use crate::session::{Session, WriteState};
use crate::submit::submit;
use crate::suspension::await_resumption;

/// Leased memory for an object, faulted in, with the lock that it is to be carved under.
pub(crate) fn reserve<'a>(
    connection: &Connection,
    session: &'a Session,
    footprint: u64,
) -> Result<MutexGuard<'a, WriteState>> {
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
            Step::Await => drop(await_resumption(connection, session, writing, None)?),
            Step::Map(range) => {
                drop(writing);
                let map = write_map(connection, session, range.extent);
                install(connection, session, map, range, footprint)?;
            }
            Step::Ask { bytes_min, bytes_wanted } => {
                drop(writing);
                if take_strays(connection, session) {
                    continue;
                }
                if let Some((map, range)) = ask_lease(connection, session, bytes_min, bytes_wanted)?
                {
                    install(connection, session, map, range, footprint)?;
                }
            }
        }
    }
}

/// Takes memory that was granted to a caller that did not wait for it; whether there was any.
fn take_strays(connection: &Connection, session: &Session) -> bool {
    let strays = connection.rpc().take_strays();
    let mut writing = session.writing();
    let mut found = false;
    for (range, link) in strays {
        // On an earlier connection, or to another session: the daemon has it back.
        if connection.is_current(session) && !writing.is_void(link) {
            writing.leases.granted(range);
            found = true;
        }
    }
    found
}

/// Makes a mapped range the current lease, unless another thread was faster.
fn install(
    connection: &Connection,
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
        submit(connection, session, writing, &[Submission::LeaseReturn(tail)], Verdict::Kept)?;
    }
    Ok(())
}

/// A range that the daemon grants, and its mapping; `None` when the daemon has taken it back
/// before it was known here, because the connection broke meanwhile.
pub(crate) fn ask_lease(
    connection: &Connection,
    session: &Session,
    bytes_min: u64,
    bytes_wanted: u64,
) -> Result<Option<(Result<Arc<WriteExtent>>, Range)>> {
    const LEASING: &str = "reserving memory for objects";
    let request = Request::Lease { bytes_min, bytes_wanted };
    let mut answer = ask_with_room(connection, session, LEASING, request)?;
    let (Reply::Lease(granted), Some(fd)) = (&answer.reply, answer.fds.pop()) else {
        return Err(Error::unexpected(LEASING));
    };
    let range = granted.range;
    let mut writing = session.writing();
    if writing.is_void(answer.link) {
        return Ok(None);
    }
    if !connection.is_current(session) {
        drop(writing);
        // It was granted to the session that took this one's place.
        connection.session().writing().leases.granted(range);
        return Err(Error::new(Code::Disconnected, LEASING));
    }
    writing.leases.begin_mapping(range);
    let kept = writing.leases.map(range.extent);
    drop(writing);
    let map = match kept {
        Some(map) => keep_writers_out(session, &map).map(|()| map),
        None => map_and_keep(connection, session, range.extent, fd),
    };
    Ok(Some((map, range)))
}

/// Asks for memory. If there is none, this client's own unused leases go back first.
pub(crate) fn ask_with_room(
    connection: &Connection,
    session: &Session,
    doing: &'static str,
    request: Request,
) -> Result<Answer> {
    match connection.ask(doing, request.clone()) {
        Err(error) if error.code() == Code::StoreFull && session.return_leases() => {
            connection.ask(doing, request)
        }
        outcome => outcome,
    }
}
