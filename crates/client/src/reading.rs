//! Finding objects: in the shared index, and when they are not there, by waiting for them.
//!
//! ```text
//! index: found ─► pinned                        no system call
//!        missing ─► spin a little ─► Wait over the socket ─► index again
//!                                                              └ missing: ask for its slot
//! ```
//!
//! A miss in the index is never final: the daemon applies every ring before it answers, so what one
//! process put before it told another is found.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use plasmon_proto::message::{Location, Placement, Range, Reply, Request};
use plasmon_proto::object::ObjectState;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::counted::CountedView;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::ledger::TooManyPins;
use plasmon_shm::map::{Populate, ReadMap};
use plasmon_shm::memfd::Memfd;
use plasmon_shm::reader::{Found, Held, View};

use crate::buffer::{Buffer, CountedPin, Pinned};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::session::{Channel, KeptMap, Memory, Session, SocketMemory};
use crate::waiting::Until;

const GETTING: &str = "getting object";
const MAPPING: &str = "mapping an object's memory";

/// Objects up to this size are mapped with all their pages; larger ones page by page, because a
/// reader may want little of them.
const POPULATE_BYTES_MAX: u64 = 4 << 20;

/// For how long a get looks at the index before it asks the daemon to be woken.
const SPIN: Duration = Duration::from_micros(10);

/// How often one get connects again because the daemon parted from the connection.
const RECONNECTS_MAX: u32 = 3;

/// How often one get asks in which slot an object is, because the index moved meanwhile.
const STRAY_TRIES: u32 = 3;

/// How long restoring an object from a file may take, for any timeout of the caller: that one
/// limits the wait until the object is sealed, and a spilled object is sealed.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(60);

impl Process {
    /// Finds and pins an object in the shared index.
    #[inline]
    pub(crate) fn pin<'a>(
        &self,
        session: &'a Session,
        channel: &'a Channel,
        id: &ObjectId,
    ) -> Result<Option<View<'a>>> {
        session.drain();
        match channel.reader.get(id) {
            Ok(Found::Object(view)) => {
                channel.reader.touch(view.record());
                Ok(Some(view))
            }
            Ok(Found::Missing) => Ok(None),
            other => self.pin_slowly(channel, id, other),
        }
    }

    /// Pins an object whose extent, or the index table that lists it, may not be mapped here yet.
    #[cold]
    pub(crate) fn pin_unmapped<'a>(
        &self,
        session: &'a Session,
        channel: &'a Channel,
        id: &ObjectId,
    ) -> Option<Pinned<'a>> {
        let view = self.pin(session, channel, id).ok()??;
        Some(Pinned::new(view, self.fork()))
    }

    #[cold]
    fn pin_slowly<'a>(
        &self,
        channel: &'a Channel,
        id: &ObjectId,
        mut found: Result<Found<'a>, TooManyPins>,
    ) -> Result<Option<View<'a>>> {
        let mut disconnects = 0;
        loop {
            match found {
                Ok(Found::Object(view)) => return Ok(Some(view)),
                Ok(Found::Missing) => return Ok(None),
                Ok(Found::TableChanged) => {
                    if !self.switch_index(channel)? {
                        return Ok(None);
                    }
                }
                Ok(Found::Parted) => {
                    disconnects += 1;
                    if !self.comes_back(channel, disconnects)? {
                        return Ok(None);
                    }
                }
                Ok(Found::Unmapped(held)) => {
                    if let Some(view) = self.map_held(channel, held)? {
                        return Ok(Some(view));
                    }
                    // The index of a store that has ended would be asked for ever.
                    if !self.is_current_channel(channel) {
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
    fn pin_stray<'a>(&self, channel: &'a Channel, id: &ObjectId) -> Result<Option<View<'a>>> {
        for _ in 0..STRAY_TRIES {
            let Reply::Slot(place) = self.ask(GETTING, Request::Slot { id: *id })?.reply else {
                return Err(Error::unexpected(GETTING));
            };
            let Some(place) = place.filter(|_| self.is_current_channel(channel)) else {
                return Ok(None);
            };
            match channel.reader.get_at(place, id) {
                // The daemon's table may be newer than ours, or ours than its answer.
                Ok(Found::TableChanged) if self.switch_index(channel)? => {}
                Ok(Found::TableChanged) => return Ok(None),
                found => return self.pin_slowly(channel, id, found),
            }
        }
        Ok(None)
    }

    /// Connects again after the daemon parted from this connection. False when this client has
    /// another channel now, which the next look goes through.
    fn comes_back(&self, channel: &Channel, disconnects: u32) -> Result<bool> {
        // Whatever is asked shows that the connection is gone.
        self.command(GETTING, Request::Sync)?;
        let is_current = self.session().channel().is_some_and(|now| std::ptr::eq(now, channel));
        if is_current && disconnects >= RECONNECTS_MAX {
            return Err(Error::new(Code::Disconnected, GETTING)
                .with_detail("the daemon closed this connection several times in a row"));
        }
        Ok(is_current)
    }

    /// Whether the daemon that answers now is of the store that this channel belongs to. One that
    /// was restarted has other objects under the same numbers of extents and tables.
    fn is_current_channel(&self, channel: &Channel) -> bool {
        self.session().channel().is_some_and(|current| std::ptr::eq(current, channel))
    }

    /// Goes to the daemon's present table; `false` when its store is not the channel's any more.
    fn switch_index(&self, channel: &Channel) -> Result<bool> {
        const DOING: &str = "fetching the index";
        let mut answer = self.ask(DOING, Request::Index)?;
        let (Reply::Index(table), Some(fd)) = (&answer.reply, answer.fds.pop()) else {
            return Err(Error::unexpected(DOING));
        };
        if !self.is_current_channel(channel) {
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
    fn map_held<'a>(&self, channel: &'a Channel, held: Held<'a>) -> Result<Option<View<'a>>> {
        let image = held.image();
        let (Placement { extent, offset }, sizes) = (image.placement, image.meta.sizes);
        let bytes = sizes.data.saturating_add(sizes.metadata);
        let fetched = self.fetch_extent(&Range { extent, offset, bytes })?;
        let Some((map, stays)) = fetched.filter(|_| self.is_current_channel(channel)) else {
            return Ok(None);
        };
        if stays {
            self.keep_house();
        }
        let kept = channel.reader.map_extent(extent, map);
        kept.map_err(|error| Error::io(MAPPING, error))?;
        // It is mapped as the daemon has it, so an object that is not within it never will be.
        held.view().map(Some).map_err(|_| Error::unexpected(MAPPING))
    }

    /// Maps the extent of an object, which the caller has pinned there; `None` when it is gone.
    /// Also says whether its memory stays while it is mapped.
    fn fetch_extent(&self, pinned: &Range) -> Result<Option<(ReadMap, bool)>> {
        let request = Request::Extents { extents: vec![pinned.extent], write: false };
        let mut answer = self.ask(MAPPING, request)?;
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
    fn locate(self: &Arc<Self>, ids: &[ObjectId]) -> Result<Option<Located>> {
        let answer = self.ask(GETTING, Request::Get { ids: ids.to_vec() })?;
        let Reply::Located(located) = answer.reply else {
            return Err(Error::unexpected(GETTING));
        };
        // The session first: while the answer's connection stands, there is no later one.
        let session = Arc::clone(self.session());
        if !self.calls().is_linked(answer.link) {
            return Ok(None);
        }
        let mut pinnings = Vec::with_capacity(located.len());
        for (id, located) in ids.iter().zip(located) {
            // From here on the guard ends the pin, whatever goes wrong.
            let pinning = located.map(|location| {
                let (process, serial) = (Arc::clone(self), location.serial);
                let guard = CountedPin { process, session: session.number, serial, id: *id };
                Pinning { location, guard }
            });
            pinnings.push(pinning);
        }
        Ok(Some(Located { session, pinnings }))
    }

    fn map_counted(
        &self,
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
        let fetched = self.fetch_extent(pinned)?;
        // Another store's extent of this number is kept by the session of that store.
        let Some((map, stays)) = fetched.filter(|_| self.is_current(session)) else {
            return Ok(None);
        };
        let map = Arc::new(map);
        let kept = match stays {
            true => KeptMap::Shared(Arc::downgrade(&map)),
            false => KeptMap::Kept(Arc::clone(&map)),
        };
        let mut maps = memory.maps.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody tells this client which extents are gone: those that nobody reads go now.
        maps.retain(|_, map| map.is_used());
        maps.insert(extent, kept);
        Ok(Some(map))
    }
}

/// What the daemon found, and the session that it pinned it for.
#[derive(Debug)]
struct Located {
    session: Arc<Session>,
    pinnings: Vec<Result<Pinning, ObjectState>>,
}

/// An object that the daemon pinned for this client.
#[derive(Debug)]
struct Pinning {
    location: Location,
    guard: CountedPin,
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

impl Client {
    /// The object, if it can be had now without waiting.
    pub(crate) fn try_get(&self, id: &ObjectId) -> Result<Option<Buffer>> {
        let process = self.here()?;
        let session = process.session();
        let Some(channel) = session.channel() else {
            return Ok(self.try_get_counted(&[*id])?.pop().and_then(Result::ok));
        };
        let Some(view) = process.pin(session, channel, id)? else {
            return Ok(None);
        };
        let view = view.into_owned(Arc::clone(&channel.reader));
        Ok(Some(Buffer::in_ledger(view, process, self.clone())))
    }

    /// The object, which the daemon said is readable.
    pub(crate) fn get_readable(&self, id: &ObjectId) -> Result<Option<Buffer>> {
        if let Some(buffer) = self.try_get(id)? {
            return Ok(Some(buffer));
        }
        let process = self.here()?;
        let Some(channel) = process.session().channel() else { return Ok(None) };
        let Some(view) = process.pin_stray(channel, id)? else { return Ok(None) };
        let view = view.into_owned(Arc::clone(&channel.reader));
        Ok(Some(Buffer::in_ledger(view, process, self.clone())))
    }

    fn try_get_counted(&self, ids: &[ObjectId]) -> Result<Vec<Result<Buffer, ObjectState>>> {
        let process = self.here()?;
        let mut buffers = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(plasmon_proto::limits::REQUEST_IDS_MAX) {
            let mut disconnects = 0;
            let found = loop {
                if let Some(found) = self.get_counted(process, chunk)? {
                    break found;
                }
                disconnects += 1;
                if disconnects > RECONNECTS_MAX {
                    return Err(Error::new(Code::Disconnected, GETTING)
                        .with_detail("the connection broke several times in a row"));
                }
            };
            buffers.extend(found);
        }
        Ok(buffers)
    }

    /// What the daemon pins for this client. `None` when the connection broke meanwhile: without a
    /// channel every connection is another session, with pins of its own and perhaps of another
    /// store, in which the same numbers of extents mean other memory.
    fn get_counted(
        &self,
        process: &Arc<Process>,
        ids: &[ObjectId],
    ) -> Result<Option<Vec<Result<Buffer, ObjectState>>>> {
        let mut buffers = Vec::with_capacity(ids.len());
        let Some(Located { session, pinnings }) = process.locate(ids)? else {
            return Ok(None);
        };
        let Memory::Socket(memory) = &session.memory else {
            return Err(Error::unexpected(GETTING));
        };
        for pinning in pinnings {
            let Pinning { location, guard } = match pinning {
                Ok(pinning) => pinning,
                Err(state) => {
                    buffers.push(Err(state));
                    continue;
                }
            };
            let map = process.map_counted(&session, memory, &location.range)?;
            if !process.is_current(&session) {
                return Ok(None);
            }
            let view = map.and_then(|map| CountedView::new(map, location, guard));
            let view = view.ok_or_else(|| Error::unexpected(MAPPING))?;
            buffers.push(Ok(Buffer::counted(view, process, self.clone())));
        }
        Ok(Some(buffers))
    }

    /// Looks for a moment, because the creator of the object may be about to seal it.
    fn spin_for(&self, id: &ObjectId, until: Until) -> Result<Option<Buffer>> {
        let process = self.here()?;
        let session = process.session();
        let Some(channel) = session.channel().filter(|_| !until.is_question()) else {
            return Ok(None);
        };
        let until = Deadline::after(until.left().min(SPIN));
        while !until.is_past() {
            if channel.reader.contains(id) != Some(false) {
                return self.try_get(id);
            }
            std::hint::spin_loop();
        }
        Ok(None)
    }

    pub(crate) fn get_one(&self, id: &ObjectId, given: Until) -> Result<Buffer> {
        if let Some(buffer) = self.try_get(id)? {
            return Ok(buffer);
        }
        self.check_refused(id)?;
        if let Some(buffer) = self.spin_for(id, given)? {
            return Ok(buffer);
        }
        let mut until = given;
        loop {
            let states = self.here()?.wait(&[*id], 1, until, false)?;
            let state = states.first().copied().unwrap_or(ObjectState::Absent);
            if state.is_readable()
                && let Some(buffer) = self.get_readable(id)?
            {
                return Ok(buffer);
            }
            until = go_on(id, state, until, given)?;
        }
    }

    pub(crate) fn get_all(&self, ids: &[ObjectId], until: Until) -> Result<Vec<Result<Buffer>>> {
        let mut buffers = self.try_get_all(ids)?;
        let missing = |buffers: &[Option<Buffer>]| -> Vec<usize> {
            (0..ids.len()).filter(|index| buffers[*index].is_none()).collect()
        };
        let first = missing(&buffers);
        if first.is_empty() {
            return Ok(buffers.into_iter().flatten().map(Ok).collect());
        }
        let wanted: Vec<ObjectId> = first.iter().map(|index| ids[*index]).collect();
        let states = self.here()?.wait(&wanted, 0, until, false)?;
        // What is readable now is taken together, the rest one by one: each has its own reason.
        let readable: Vec<usize> = (0..wanted.len())
            .filter(|index| states.get(*index).is_some_and(|state| state.is_readable()))
            .collect();
        let readable_ids: Vec<ObjectId> = readable.iter().map(|index| wanted[*index]).collect();
        for (index, buffer) in readable.iter().zip(self.try_get_all(&readable_ids)?) {
            buffers[first[*index]] = buffer;
        }
        let late = !until.is_question() && until.is_past();
        // What is spilled comes back, also when the time was used up.
        let rest = if late { Until::timeout(Some(Duration::ZERO)) } else { until };
        let complete = |(index, buffer): (usize, Option<Buffer>)| match buffer {
            Some(buffer) => Ok(buffer),
            None => self.get_one(&ids[index], rest).map_err(|error| match error.code() {
                // The time was used up together; alone it would read as if there had been none.
                Code::Absent | Code::NotSealed if late => {
                    Error::new(Code::TimedOut, GETTING).with_id(ids[index])
                }
                _ => error,
            }),
        };
        Ok(buffers.into_iter().enumerate().map(complete).collect())
    }

    pub(crate) fn try_get_all(&self, ids: &[ObjectId]) -> Result<Vec<Option<Buffer>>> {
        if self.here()?.session().channel().is_some() {
            return ids.iter().map(|id| self.try_get(id)).collect();
        }
        Ok(self.try_get_counted(ids)?.into_iter().map(Result::ok).collect())
    }
}

/// After a wait that did not end in a buffer: whether to wait again, and until when.
fn go_on(id: &ObjectId, state: ObjectState, until: Until, given: Until) -> Result<Until> {
    match state {
        // Evicted or deleted between the answer and the look: the next answer tells.
        ObjectState::Sealed => Ok(until),
        ObjectState::Spilled if until.is_question() => Ok(Until::timeout(Some(RESTORE_TIMEOUT))),
        ObjectState::Absent | ObjectState::Creating if !given.is_question() && !until.is_past() => {
            Ok(until)
        }
        ObjectState::Spilled => Err(why_not(*id, state, until.is_past())),
        _ => Err(why_not(*id, state, !given.is_question())),
    }
}

/// Why a wait for an object ended without it, in this state.
pub(crate) fn why_not(id: ObjectId, state: ObjectState, is_late: bool) -> Error {
    match state {
        ObjectState::Absent | ObjectState::Creating | ObjectState::Spilled if is_late => {
            late(id, state)
        }
        ObjectState::Spilled => Error::new(Code::StoreFull, GETTING)
            .with_id(id)
            .with_detail("there is no memory to restore the object from its spill file"),
        other => Error::of_state(GETTING, id, other),
    }
}

fn late(id: ObjectId, state: ObjectState) -> Error {
    let detail = match state {
        ObjectState::Creating => "the object is being created",
        ObjectState::Spilled => "the object is being restored from its spill file",
        _ => "the object has not been created",
    };
    Error::new(Code::TimedOut, GETTING).with_id(id).with_detail(detail)
}
