//! The thread that reads what the store says.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use plasmon_pool::Call;
use plasmon_proto::Code;
use plasmon_proto::frame::{FromDaemon, decode_from_daemon};
use plasmon_proto::message::{Failure, Grant, Location, Push, Reply, Request};
use plasmon_shm::map::ReadMap;

use super::connection::{OpenRequest, Pin, Purpose, StoreConnection};
use super::copies::PinnedCopy;
use super::maps::LandedMemory;
use crate::core::Inbox;
use crate::memory::SharedSource;
use crate::store::{LandingRequest, StoreEvent};

/// The thread that reads.
pub(super) struct Reader {
    connection: Arc<StoreConnection>,
    inbox: Inbox,
}

impl Reader {
    pub(super) fn new(connection: Arc<StoreConnection>, inbox: Inbox) -> Self {
        Self { connection, inbox }
    }

    /// Reads until the connection ends.
    pub(super) fn run(&self) {
        let mut bytes = Vec::new();
        loop {
            let received = match self.connection.receive(&mut bytes) {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "the store is not heard any more");
                    break;
                }
            };
            match decode_from_daemon(bytes.get(..received.bytes).unwrap_or_default()) {
                Ok(FromDaemon::Push(Push::Calls(calls))) => {
                    calls.into_iter().for_each(|call| self.inbox.say(event_of(call)));
                }
                Ok(FromDaemon::Push(_)) => {}
                Ok(FromDaemon::Reply(number, reply)) => {
                    let Some(purpose) = self.connection.take_purpose(number) else { continue };
                    if !self.answered(purpose, reply, received.fds) {
                        break;
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "the store sends what is no message");
                    break;
                }
            }
        }
        self.connection.end();
    }

    /// An answer came. False when the connection is of no use any more.
    fn answered(&self, purpose: Purpose, reply: Reply, fds: Vec<OwnedFd>) -> bool {
        match (purpose, reply) {
            (Purpose::Land(request), Reply::Created(grant)) => self.landed(request, &grant, fds),
            (Purpose::Land(request), reply) => self.not_landed(request, &reply),
            (Purpose::Seal { id, birth }, Reply::Failed(failure)) => {
                tracing::error!(object = %id, "a copy cannot be sealed: {failure:?}");
                self.inbox.say(StoreEvent::Call(Call::Ended { id, birth }));
            }
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
            (Purpose::Map(open, pin, location), Reply::Extents(sizes)) => {
                let place = sizes.into_iter().next().flatten().zip(fds.into_iter().next());
                let map = place.and_then(|(bytes, fd)| {
                    let mapped = self.connection.maps().map(location.range.extent, fd, bytes);
                    let failed = |error: &_| tracing::warn!(%error, "an extent cannot be mapped");
                    mapped.inspect_err(failed).ok()
                });
                self.mapped(open, pin, location, map);
            }
            (Purpose::Open(open) | Purpose::Map(open, ..), _) => self.opened(open, None),
            (purpose, Reply::Failed(failure)) => {
                tracing::debug!("the store refuses {purpose:?}: {failure:?}");
            }
            (_, _) => {}
        }
        true
    }

    fn landed(&self, request: LandingRequest, grant: &Grant, fds: Vec<OwnedFd>) {
        let missing = || io::Error::other("no descriptor came with the memory");
        let fd = fds.into_iter().next().ok_or_else(missing);
        let level = self.connection.level();
        let lease = fd.and_then(|fd| self.connection.maps().lease(grant, fd, level));
        let content = request.content.bytes() as usize;
        let memory = lease.and_then(|mut span| {
            let short = || io::Error::other("the memory is shorter than the object");
            span.take(content).ok_or_else(short)
        });
        match memory {
            Ok(span) => {
                let memory = Box::new(LandedMemory(span));
                self.inbox.say(StoreEvent::Landed(request.ticket, Some(memory)));
            }
            Err(error) => {
                tracing::error!(object = %request.id, %error, "the memory of a copy is not there");
                self.connection.take_landing(request.ticket);
                self.connection.send(&Request::Abort { id: request.id }, Purpose::Abort);
                self.inbox.say(StoreEvent::Landed(request.ticket, None));
            }
        }
    }

    /// A copy is pinned.
    fn located(&self, open: OpenRequest, location: Location) {
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
    fn mapped(&self, open: OpenRequest, pin: Pin, location: Location, map: Option<Arc<ReadMap>>) {
        let copy = map.and_then(|map| PinnedCopy::new(map, location, pin, &open));
        self.opened(open, copy.map(|copy| Arc::new(copy) as SharedSource));
    }

    fn opened(&self, open: OpenRequest, source: Option<SharedSource>) {
        self.inbox.say(StoreEvent::Opened(open.number, source));
    }

    fn not_landed(&self, request: LandingRequest, reply: &Reply) {
        if !matches!(reply, Reply::Failed(failure) if failure.code == Code::StoreFull) {
            tracing::warn!(object = %request.id, "no memory for a copy: {reply:?}");
        }
        self.connection.take_landing(request.ticket);
        self.inbox.say(StoreEvent::Landed(request.ticket, None));
    }
}

/// What the store said, for the core.
fn event_of(call: Call) -> StoreEvent {
    match call {
        Call::InventoryEnd => StoreEvent::Ready,
        call => StoreEvent::Call(call),
    }
}
