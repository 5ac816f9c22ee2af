//! The mappings that this client writes to: made once, kept for the next object, and given up when
//! their extent is gone.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use plasmon_proto::Code;
use plasmon_proto::extent::ExtentId;
use plasmon_proto::message::{Grant, Reply, Request};
use plasmon_proto::object::Level;
use plasmon_shm::map::Populate;
use plasmon_shm::writer::{Span, WriteExtent};

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::idle::start_idle_thread;
use crate::session::Session;

pub(crate) const MAPPING: &str = "mapping memory to write to";
const PROTECTING: &str = "protecting memory against new writers";

/// The writable mapping of an extent that this client writes.
pub(crate) fn write_map(
    connection: &Connection,
    session: &Session,
    extent: ExtentId,
) -> Result<Arc<WriteExtent>> {
    let kept = session.writing().leases.map(extent);
    if let Some(map) = kept {
        // One that was made for an object which was given up is open to new writers still.
        keep_writers_out(session, &map)?;
        return Ok(map);
    }
    let request = Request::Extents { extents: vec![extent], write: true };
    let mut answer = connection.ask(MAPPING, request)?;
    if !connection.is_current(session) {
        // Another store's extent of this number is not what was leased.
        return Err(Error::new(Code::Disconnected, MAPPING));
    }
    match (&answer.reply, answer.fds.pop()) {
        (Reply::Extents(sizes), Some(fd)) if matches!(sizes[..], [Some(_)]) => {
            map_and_keep(connection, session, extent, fd)
        }
        _ => Err(Error::unexpected(MAPPING)),
    }
}

pub(crate) fn map_and_keep(
    connection: &Connection,
    session: &Session,
    extent: ExtentId,
    fd: OwnedFd,
) -> Result<Arc<WriteExtent>> {
    let one = session.mapping();
    let kept = session.writing().leases.map(extent);
    if let Some(map) = kept {
        // Another thread was faster, and the kernel may refuse a second mapping by now.
        drop(one);
        keep_writers_out(session, &map)?;
        return Ok(map);
    }
    let map = WriteExtent::new(fd, Populate::No).map_err(|error| Error::io(MAPPING, error))?;
    keep_writers_out(session, &map)?;
    let map = Arc::new(map);
    session.keep_map(extent, &map);
    drop(one);
    kept_writing(connection, session, &map)?;
    Ok(map)
}

/// A writable mapping is kept from now on: it goes when its extent is gone.
fn kept_writing(connection: &Connection, session: &Session, map: &WriteExtent) -> Result<()> {
    // At level leased what is still open to writers is closed before anything is published.
    let stays = session.welcome.level == Level::Leased
        || !map.memfd().is_punchable().map_err(|error| Error::io(MAPPING, error))?;
    if stays {
        start_idle_thread(connection);
    }
    if session.channel().is_none() {
        check_mappings(connection, session);
    }
    Ok(())
}

/// Asks about the mappings that were not used for longest, and unmaps those whose extents are
/// gone: two for each new one, so that what a client without a channel keeps does not grow.
/// What cannot be asked now is asked about the next time.
fn check_mappings(connection: &Connection, session: &Session) {
    for _ in 0..2 {
        let Some(extent) = session.writing().leases.next_to_check() else { return };
        let request = Request::Extents { extents: vec![extent], write: false };
        let Ok(answer) = connection.ask(MAPPING, request) else { return };
        let is_gone = matches!(&answer.reply, Reply::Extents(sizes) if sizes[..] == [None]);
        if is_gone && connection.is_current(session) {
            let unmapped = session.writing().leases.forget(extent);
            drop(unmapped);
        }
    }
}

/// A strict object's mapping must be gone when it is sealed, so it is not kept.
pub(crate) fn map_created(
    connection: &Connection,
    session: &Session,
    granted: &Grant,
    fd: OwnedFd,
    strict: bool,
) -> Result<Span> {
    let range = granted.range;
    // Pages that are there are mapped at once; those that are not are better written through the
    // descriptor, or faulted in by the thread that fills them in place.
    let exact = range.bytes == granted.extent_bytes;
    let populate = if granted.warm && exact { Populate::Yes } else { Populate::No };
    let mapped = || {
        let map = WriteExtent::new(fd, populate);
        map.map(Arc::new).map_err(|error| Error::io(MAPPING, error))
    };
    let map = if strict {
        mapped()?
    } else {
        let one = session.mapping();
        let kept = session.writing().leases.map(range.extent);
        match kept {
            Some(map) => map,
            None => {
                let map = mapped()?;
                session.keep_map(range.extent, &map);
                drop(one);
                kept_writing(connection, session, &map)?;
                map
            }
        }
    };
    map.lease(range.offset, range.bytes).ok_or_else(|| Error::unexpected(MAPPING))
}

/// At level leased: has the kernel refuse new writers, also by descriptor. The daemon publishes
/// nothing in memory that is open to them, and does not close it itself, because the kernel
/// makes it wait for every write that is under way.
pub(crate) fn keep_writers_out(session: &Session, map: &WriteExtent) -> Result<()> {
    if session.welcome.level != Level::Leased {
        return Ok(());
    }
    map.memfd().seal_future_write().map_err(|error| Error::io(PROTECTING, error))
}
