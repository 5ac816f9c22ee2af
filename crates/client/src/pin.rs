//! Pinning objects: in the shared index, and for clients without a channel by the daemon.
//!
//! A pinned object may lie in memory, or be listed by a table, that this client has not mapped yet;
//! then it asks the daemon for the descriptor.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};

use plasmon_proto::extent::{Placement, Range};
use plasmon_proto::message::{Location, Reply, Request};
use plasmon_proto::object::ObjectState;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::ledger::TooManyPins;
use plasmon_shm::map::{Populate, ReadMap};
use plasmon_shm::memfd::Memfd;
use plasmon_shm::reader::{ReadOutcome, UnmappedPin, View};

use crate::buffer::{CountedPin, PinnedBuffer};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::idle::start_idle_thread;
use crate::session::{Channel, KeptMap, Session, SocketMemory};

pub(crate) const GETTING: &str = "getting object";
pub(crate) const MAPPING: &str = "mapping an object's memory";

/// Objects up to this size are mapped with all their pages; larger ones page by page, because a
/// reader may want little of them.
const POPULATE_BYTES_MAX: u64 = 4 << 20;

/// How often one get connects again because the daemon closed the connection.
pub(crate) const RECONNECTS_MAX: u32 = 3;

/// How often one get asks in which slot an object is, because the index moved meanwhile.
const STRAY_TRIES: u32 = 3;

/// Finds and pins an object in the shared index.
#[inline]
pub(crate) fn pin<'a>(
    connection: &Connection,
    session: &'a Session,
    channel: &'a Channel,
    id: &ObjectId,
) -> Result<Option<View<'a>>> {
    session.drain();
    match channel.reader.get(id) {
        Ok(ReadOutcome::Object(view)) => {
            channel.reader.touch(view.record());
            Ok(Some(view))
        }
        Ok(ReadOutcome::Missing) => Ok(None),
        other => pin_slowly(connection, channel, id, other),
    }
}

/// Pins an object whose extent, or the index table that lists it, may not be mapped here yet.
#[cold]
pub(crate) fn pin_unmapped<'a>(
    connection: &Connection,
    session: &'a Session,
    channel: &'a Channel,
    id: &ObjectId,
) -> Option<PinnedBuffer<'a>> {
    let view = pin(connection, session, channel, id).ok()??;
    Some(PinnedBuffer::new(view, connection.fork()))
}

#[cold]
fn pin_slowly<'a>(
    connection: &Connection,
    channel: &'a Channel,
    id: &ObjectId,
    mut found: Result<ReadOutcome<'a>, TooManyPins>,
) -> Result<Option<View<'a>>> {
    let mut disconnects = 0;
    loop {
        match found {
            Ok(ReadOutcome::Object(view)) => return Ok(Some(view)),
            Ok(ReadOutcome::Missing) => return Ok(None),
            Ok(ReadOutcome::TableChanged) => {
                if !switch_index(connection, channel)? {
                    return Ok(None);
                }
            }
            Ok(ReadOutcome::Parted) => {
                disconnects += 1;
                if !comes_back(connection, channel, disconnects)? {
                    return Ok(None);
                }
            }
            Ok(ReadOutcome::Unmapped(held)) => {
                if let Some(view) = map_held(connection, channel, held)? {
                    return Ok(Some(view));
                }
                // The index of a store that has ended would be asked forever.
                if !is_current_channel(connection, channel) {
                    return Ok(None);
                }
            }
            Err(TooManyPins { held }) => {
                return Err(Error::new(Code::TooManyPins, GETTING)
                    .with_id(*id)
                    .with_amounts(held as u64 + 1, held as u64));
            }
        }
        found = channel.reader.get(id);
    }
}

/// Pins an object that the daemon says is readable, although the index does not show it: ids
/// can be chosen so that many belong in the same place, and the last of them lie elsewhere.
#[cold]
pub(crate) fn pin_stray<'a>(
    connection: &Connection,
    channel: &'a Channel,
    id: &ObjectId,
) -> Result<Option<View<'a>>> {
    for _ in 0..STRAY_TRIES {
        let Reply::Slot(place) = connection.ask(GETTING, Request::Slot { id: *id })?.reply else {
            return Err(Error::unexpected(GETTING));
        };
        let Some(place) = place.filter(|_| is_current_channel(connection, channel)) else {
            return Ok(None);
        };
        match channel.reader.get_at(place, id) {
            // The daemon's table may be newer than ours, or ours than its answer.
            Ok(ReadOutcome::TableChanged) if switch_index(connection, channel)? => {}
            Ok(ReadOutcome::TableChanged) => return Ok(None),
            found => return pin_slowly(connection, channel, id, found),
        }
    }
    Ok(None)
}

/// Connects again after the daemon closed this connection. False when this client has
/// another channel now, which the next look goes through.
fn comes_back(connection: &Connection, channel: &Channel, disconnects: u32) -> Result<bool> {
    // Whatever is asked shows that the connection is gone.
    connection.command(GETTING, Request::Sync)?;
    let is_current = connection.session().channel().is_some_and(|now| std::ptr::eq(now, channel));
    if is_current && disconnects >= RECONNECTS_MAX {
        return Err(Error::new(Code::Disconnected, GETTING)
            .with_detail("the daemon closed this connection several times in a row"));
    }
    Ok(is_current)
}

/// Whether the daemon that answers now is of the store that this channel belongs to. One that
/// was restarted has other objects under the same numbers of extents and tables.
fn is_current_channel(connection: &Connection, channel: &Channel) -> bool {
    connection.session().channel().is_some_and(|current| std::ptr::eq(current, channel))
}

/// Goes to the daemon's present table; `false` when its store is not the channel's any more.
fn switch_index(connection: &Connection, channel: &Channel) -> Result<bool> {
    const DOING: &str = "fetching the index";
    let mut answer = connection.ask(DOING, Request::Index)?;
    let (Reply::Index(table), Some(fd)) = (&answer.reply, answer.fds.pop()) else {
        return Err(Error::unexpected(DOING));
    };
    if !is_current_channel(connection, channel) {
        return Ok(false);
    }
    // Threads may fetch the same table twice; an older one must not follow a newer one.
    if table.number <= channel.reader.index().number() {
        return Ok(true);
    }
    let switched = channel.reader.index().switch(fd, table.number, table.slots);
    switched.map_err(|error| Error::io(DOING, error))?;
    Ok(true)
}

/// Maps the extent of a pinned object. `None` when the daemon does not know the extent, which a
/// pin excludes unless the daemon was restarted.
fn map_held<'a>(
    connection: &Connection,
    channel: &'a Channel,
    held: UnmappedPin<'a>,
) -> Result<Option<View<'a>>> {
    let image = held.image();
    let (Placement { extent, offset }, sizes) = (image.placement, image.meta.sizes);
    let bytes = sizes.data.saturating_add(sizes.metadata);
    let fetched = fetch_extent(connection, &Range { extent, offset, bytes })?;
    let Some((map, stays)) = fetched.filter(|_| is_current_channel(connection, channel)) else {
        return Ok(None);
    };
    if stays {
        start_idle_thread(connection);
    }
    let kept = channel.reader.map_extent(extent, map);
    kept.map_err(|error| Error::io(MAPPING, error))?;
    // It is mapped as the daemon has it, so an object that is not within it never will be.
    held.view().map(Some).map_err(|_| Error::unexpected(MAPPING))
}

/// Maps the extent of an object, which the caller has pinned there; `None` when it is gone.
/// Also says whether its memory stays while it is mapped.
fn fetch_extent(connection: &Connection, pinned: &Range) -> Result<Option<(ReadMap, bool)>> {
    let request = Request::Extents { extents: vec![pinned.extent], write: false };
    let mut answer = connection.ask(MAPPING, request)?;
    match (&answer.reply, answer.fds.pop()) {
        (Reply::Extents(sizes), Some(fd)) if matches!(sizes[..], [Some(_)]) => {
            map_extent(fd, pinned).map(Some)
        }
        (Reply::Extents(sizes), None) if matches!(sizes[..], [None]) => Ok(None),
        _ => Err(Error::unexpected(MAPPING)),
    }
}

/// Asks the daemon to pin objects for a client without a channel, and gives the session that
/// they are pinned in. `None` when its connection has ended already, and the pins with it.
pub(crate) fn locate(connection: &Arc<Connection>, ids: &[ObjectId]) -> Result<Option<Lookup>> {
    let answer = connection.ask(GETTING, Request::Get { ids: ids.to_vec() })?;
    let Reply::Located(located) = answer.reply else {
        return Err(Error::unexpected(GETTING));
    };
    // The session first: while the answer's connection stands, there is no later one.
    let session = Arc::clone(connection.session());
    if !connection.rpc().is_linked(answer.link) {
        return Ok(None);
    }
    let mut pinnings = Vec::with_capacity(located.len());
    for (id, located) in ids.iter().zip(located) {
        // From here on the guard ends the pin, whatever goes wrong.
        let pinning = located.map(|location| {
            let (connection, serial) = (Arc::clone(connection), location.serial);
            let guard = CountedPin { connection, session: session.number, serial, id: *id };
            DaemonPin { location, guard }
        });
        pinnings.push(pinning);
    }
    Ok(Some(Lookup { session, pinnings }))
}

pub(crate) fn map_counted(
    connection: &Connection,
    session: &Session,
    memory: &SocketMemory,
    pinned: &Range,
) -> Result<Option<Arc<ReadMap>>> {
    let extent = pinned.extent;
    let maps = memory.maps.lock().unwrap_or_else(PoisonError::into_inner);
    let known = maps.get(&extent).and_then(KeptMap::get);
    drop(maps);
    if known.is_some() {
        return Ok(known);
    }
    let fetched = fetch_extent(connection, pinned)?;
    // Another store's extent of this number is kept by the session of that store.
    let Some((map, stays)) = fetched.filter(|_| connection.is_current(session)) else {
        return Ok(None);
    };
    let map = Arc::new(map);
    let kept = match stays {
        true => KeptMap::Shared(Arc::downgrade(&map)),
        false => KeptMap::Kept(Arc::clone(&map)),
    };
    let mut maps = memory.maps.lock().unwrap_or_else(PoisonError::into_inner);
    // This client is not notified which extents are gone: those without readers go now.
    maps.retain(|_, map| map.is_used());
    maps.insert(extent, kept);
    Ok(Some(map))
}

/// What the daemon found, and the session that it pinned it for.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) session: Arc<Session>,
    pub(crate) pinnings: Vec<Result<DaemonPin, ObjectState>>,
}

/// An object that the daemon pinned for this client.
#[derive(Debug)]
pub(crate) struct DaemonPin {
    pub(crate) location: Location,
    pub(crate) guard: CountedPin,
}

/// Maps an extent, and the pages of the object in it that is pinned. No others: to touch a part of
/// a memfd that has no memory gives it some, also for a reader, and the store counts that part as
/// free. Also says whether its memory stays while it is mapped.
fn map_extent(fd: OwnedFd, pinned: &Range) -> Result<(ReadMap, bool)> {
    let failed = |error| Error::io(MAPPING, error);
    let memfd = Memfd::adopt(fd).map_err(failed)?;
    let mut map = ReadMap::new(&memfd, memfd.bytes(), Populate::No).map_err(failed)?;
    if pinned.bytes <= POPULATE_BYTES_MAX
        && let Err(error) = map.populate(pinned.offset, pinned.bytes)
    {
        // They are mapped as they are touched.
        tracing::debug!(%error, "an object's pages are not mapped at once");
    }
    // A child has no pin.
    map.hide_from_children();
    Ok((map, !memfd.is_punchable().map_err(failed)?))
}
