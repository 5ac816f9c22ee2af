//! What the store says, message by message.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use plasmon_pool::Call;
use plasmon_pool::event::Description;
use plasmon_proto::Code;
use plasmon_proto::extent::ExtentId;
use plasmon_proto::frame::{FromDaemon, decode_from_daemon};
use plasmon_proto::message::{Failure, Grant, Location, LogCheck, Push, Reply, Request};
use plasmon_shm::counted_view::CountedView;
use plasmon_shm::map::ReadMap;

use super::connection::{OpenRequest, Pin, Purpose, StoreConnection};
use super::copies::{PinnedCopy, View};
use super::files::SpilledCopy;
use super::maps::LandedMemory;
use super::parts::tail_of;
use super::shown::Look;
use crate::memory::{BoxedLanding, SharedSource};
use crate::store::{LandingRequest, StoreEvent};

/// Messages that are read before others have their turn.
const MESSAGES_AT_ONCE: usize = 64;

/// Reads what the store says.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) connection: Arc<StoreConnection>,
    bytes: Vec<u8>,
    pub(super) events: Vec<StoreEvent>,
}

impl Reader {
    pub(super) fn new(connection: Arc<StoreConnection>) -> Self {
        Self { connection, bytes: Vec::new(), events: Vec::new() }
    }

    /// Reads what is there, without waiting; false when the connection has ended.
    pub(super) fn read(&mut self, events: &mut Vec<StoreEvent>) -> bool {
        let goes_on = (0..MESSAGES_AT_ONCE).try_for_each(|_| self.read_one());
        events.append(&mut self.events);
        let is_open = !matches!(goes_on, Err(Pause::Ended));
        if !is_open {
            self.connection.end();
        }
        is_open
    }

    fn read_one(&mut self) -> Result<(), Pause> {
        let received = match self.connection.receive(&mut self.bytes) {
            Ok(Some(received)) => received,
            Ok(None) => return Err(Pause::Ended),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(Pause::Empty),
            Err(error) => {
                tracing::debug!(%error, "the store is not heard any more");
                return Err(Pause::Ended);
            }
        };
        match decode_from_daemon(self.bytes.get(..received.bytes).unwrap_or_default()) {
            Ok(FromDaemon::Push(Push::Calls(calls))) => {
                self.events.extend(calls.into_iter().map(event_of));
            }
            Ok(FromDaemon::Push(Push::Adoption(call))) => {
                self.events.push(StoreEvent::Adoption(call));
            }
            Ok(FromDaemon::Push(_)) => {}
            Ok(FromDaemon::Reply(number, reply)) => {
                let purpose = self.connection.take_purpose(number);
                if purpose.is_some_and(|purpose| !self.answered(purpose, reply, received.fds)) {
                    return Err(Pause::Ended);
                }
            }
            Err(error) => {
                tracing::error!(%error, "the store sends what is no message");
                return Err(Pause::Ended);
            }
        }
        Ok(())
    }

    /// An answer came. False when the connection is of no use any more.
    fn answered(&mut self, purpose: Purpose, reply: Reply, fds: Vec<OwnedFd>) -> bool {
        match (purpose, reply) {
            (Purpose::Land(request), Reply::Created(grant)) => self.landed(request, &grant, fds),
            (Purpose::Land(request), reply) => self.not_landed(request, &reply),
            (Purpose::Seal { id, birth }, Reply::Failed(failure)) => {
                tracing::error!(object = %id, "a copy cannot be sealed: {failure:?}");
                self.events.push(StoreEvent::Call(Call::Ended { id, birth }));
            }
            (Purpose::Seal { id, birth }, _) => {
                self.events.push(StoreEvent::CopySealed(id, birth));
            }
            (Purpose::SealParts(id), reply) => {
                let is_sealed = matches!(reply, Reply::Done);
                if !is_sealed {
                    tracing::warn!(object = %id, "parts cannot be sealed: {reply:?}");
                }
                self.events.push(StoreEvent::Sealed(id, is_sealed));
            }
            (Purpose::Allocate(request), reply) => self.allocated(&request, reply, fds),
            (Purpose::SealRegion { id, settles }, reply) => self.region_sealed(id, settles, &reply),
            (Purpose::Settle(id), reply) => self.region_settled(id, &reply),
            (Purpose::Seat, Reply::Failed(failure)) => {
                let Failure { code, detail, .. } = failure;
                tracing::error!("the store does not give its seat ({}): {detail}", code.key());
                return false;
            }
            (Purpose::Check(extent), Reply::Extents(sizes)) if sizes[..] == [None] => {
                self.connection.maps().forget(extent);
            }
            (Purpose::Open(open), Reply::Located(located)) => match located.into_iter().next() {
                Some(Ok(location)) => self.located(open, location),
                _ => self.opened(open, None),
            },
            (Purpose::OpenFile(open), reply) => self.file_opened(open, &reply, fds),
            (Purpose::Map(open, pin, location), Reply::Extents(sizes)) => {
                let place = sizes.into_iter().next().flatten().zip(fds.into_iter().next());
                let map = place.and_then(|(bytes, fd)| {
                    let mapped = self.connection.maps().map(location.range.extent, fd, bytes);
                    let failed = |error: &_| tracing::warn!(%error, "an extent cannot be mapped");
                    mapped.inspect_err(failed).ok()
                });
                self.mapped(open, pin, location, map);
            }
            (Purpose::MapShown(open, extent), Reply::Extents(sizes)) => {
                let place = sizes.into_iter().next().flatten().zip(fds.into_iter().next());
                self.shown_mapped(open, extent, place);
            }
            (Purpose::MapShown(open, _), _) => self.connection.ask_open(open),
            (Purpose::Index, Reply::Index(table)) => {
                if let (Some(shown), Some(fd)) = (self.connection.shown(), fds.into_iter().next())
                    && let Err(error) = shown.switch(table, fd)
                {
                    tracing::warn!(%error, "the index cannot be mapped");
                }
            }
            (Purpose::Open(open) | Purpose::Map(open, ..), _) => self.opened(open, None),
            (Purpose::List(number), Reply::Listed(page)) => {
                self.events.push(StoreEvent::Listed(number, Some(page)));
            }
            (Purpose::CheckLogged(number), reply) => self.log_checked(number, reply),
            (Purpose::Describe(number), reply) => self.described(number, reply),
            (Purpose::List(number), _) => self.events.push(StoreEvent::Listed(number, None)),
            (purpose, Reply::Failed(failure)) => {
                tracing::debug!("the store refuses {purpose:?}: {failure:?}");
            }
            (_, _) => {}
        }
        true
    }

    fn log_checked(&mut self, number: u64, reply: Reply) {
        let (check, name) = match reply {
            Reply::LogChecked(check, name) => (check, name),
            _ => (LogCheck::Unreadable, None),
        };
        self.events.push(StoreEvent::LogChecked(number, check, name));
    }

    fn described(&mut self, number: u64, reply: Reply) {
        self.events.push(StoreEvent::Described(number, description_of(reply)));
    }

    fn landed(&mut self, request: LandingRequest, grant: &Grant, fds: Vec<OwnedFd>) {
        let (content, tail) = (request.content.bytes(), tail_of(&request));
        match self.memory(grant, fds, content, &tail) {
            Ok(memory) => {
                self.events.push(StoreEvent::Landed(request.ticket, Some(memory)));
            }
            Err(error) => {
                tracing::error!(object = %request.id, %error, "the memory of a copy is not there");
                self.connection.take_landing(request.ticket);
                self.connection.send(&Request::Abort { id: request.id }, Purpose::Abort);
                self.events.push(StoreEvent::Landed(request.ticket, None));
            }
        }
    }

    /// The memory that the store gave for so many bytes, which `tail` follows.
    pub(super) fn memory(
        &self,
        grant: &Grant,
        fds: Vec<OwnedFd>,
        bytes: u64,
        tail: &[u8],
    ) -> io::Result<BoxedLanding> {
        let missing = || io::Error::other("no descriptor came with the memory");
        let fd = fds.into_iter().next().ok_or_else(missing)?;
        let mut span = self.connection.maps().lease(grant, fd, self.connection.level())?;
        let short = || io::Error::other("the memory is shorter than the object");
        let memory = span.take(bytes as usize).ok_or_else(short)?;
        span.take(tail.len()).ok_or_else(short)?.copy_from_slice(tail);
        Ok(Box::new(LandedMemory::new(memory)))
    }

    /// The extent of a copy that the index shows is here, if it is still there.
    fn shown_mapped(&mut self, open: OpenRequest, extent: ExtentId, place: Option<(u64, OwnedFd)>) {
        if let (Some(shown), Some((bytes, fd))) = (self.connection.shown(), place)
            && let Err(error) = shown.map(extent, fd, bytes)
        {
            tracing::warn!(%error, "an extent cannot be mapped");
        }
        match self.connection.look(&open) {
            Look::Pinned(view) => match PinnedCopy::new(View::Shown(view), &open) {
                Some(copy) => self.opened(open, Some(Arc::new(copy))),
                None => self.connection.ask_open(open),
            },
            _ => self.connection.ask_open(open),
        }
    }

    /// The file of a spilled copy is open. Any other answer says that the copy is in memory, has
    /// just been moved, is withheld, or cannot be opened now: then the store is asked for it.
    fn file_opened(&mut self, open: OpenRequest, reply: &Reply, fds: Vec<OwnedFd>) {
        match (reply, fds.into_iter().next()) {
            (Reply::SpillFile(about), Some(file)) => {
                let copy = SpilledCopy::new(file, *about, open);
                self.opened(open, Some(Arc::new(copy)));
            }
            _ => self.connection.ask_open(open),
        }
    }

    /// A copy is pinned.
    fn located(&mut self, open: OpenRequest, location: Location) {
        let pin = Pin::new(&self.connection, &location);
        let extent = location.range.extent;
        let map = self.connection.maps().find(extent);
        if map.is_some() {
            return self.mapped(open, pin, location, map);
        }
        let request = Request::Extents { extents: vec![extent], write: false };
        self.connection.send(&request, Purpose::Map(open, pin, location));
    }

    /// The memory of a pinned copy is mapped, if it could be.
    fn mapped(
        &mut self,
        open: OpenRequest,
        pin: Pin,
        location: Location,
        map: Option<Arc<ReadMap>>,
    ) {
        let view = map.and_then(|map| CountedView::new(map, location, pin));
        let copy = view.and_then(|view| PinnedCopy::new(View::Counted(view), &open));
        self.opened(open, copy.map(|copy| Arc::new(copy) as SharedSource));
    }

    fn opened(&mut self, open: OpenRequest, source: Option<SharedSource>) {
        self.events.push(StoreEvent::Opened(open.number, source));
    }

    fn not_landed(&mut self, request: LandingRequest, reply: &Reply) {
        if !matches!(reply, Reply::Failed(failure) if failure.code == Code::StoreFull) {
            tracing::warn!(object = %request.id, "no memory for a copy: {reply:?}");
        }
        self.connection.take_landing(request.ticket);
        self.events.push(StoreEvent::Landed(request.ticket, None));
    }
}

/// Why nothing more is read now.
enum Pause {
    /// Everything is read.
    Empty,
    /// The connection has ended, or is of no use any more.
    Ended,
}

/// What a description says of a named object.
fn description_of(reply: Reply) -> Option<Description> {
    let Reply::Info(Some(info)) = reply else { return None };
    let (data_bytes, metadata_bytes) = (info.sizes.data, info.sizes.metadata);
    Some(Description { name: info.name?, data_bytes, metadata_bytes })
}

/// What the store said, for the core.
fn event_of(call: Call) -> StoreEvent {
    match call {
        Call::InventoryEnd => StoreEvent::Ready,
        Call::LogFailed => StoreEvent::LogFailed,
        call => StoreEvent::Call(call),
    }
}
