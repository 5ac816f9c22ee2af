//! The memory worker: makes extents and allocates their pages before they are granted to a client.
//!
//! Allocating here is what turns a full machine into an error at `create` instead of a signal at
//! the first write, and what spares the first writer most of the cost of new pages. A few extents
//! can be kept ready ahead of their writers (`prefault_bytes`), on request in huge pages
//! (`collapse`).

use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::limits::LARGE_OBJECT_BYTES;
use plasmon_proto::object::Level;
use plasmon_shm::dropped_extents::Remains;
use plasmon_shm::edge;
use plasmon_shm::last_holder::is_alone;
use plasmon_shm::{GrowingMemfd, Memfd, Populate, WriteMap};
use plasmon_store::event::Ticket;
use rustix::io::Errno;

use super::{Done, NewMemory, Report, seals};
use plasmon_shm::cgroup::Headroom;

/// How an extent is called in `/proc/PID/maps`.
const EXTENT_NAME: &str = "plasmon-extent";

/// What the memory worker can do.
#[derive(Debug)]
pub(crate) enum MemoryJob {
    /// Make a new extent and allocate a range of it.
    Make {
        /// Names the work.
        ticket: Ticket,
        /// The size of the extent.
        extent_bytes: u64,
        /// The extent's number and the range.
        range: Range,
        /// Whether it will be sealed against writers later.
        sealable: bool,
    },
    /// Allocate a range of an extent that exists.
    Reserve {
        /// Names the work.
        ticket: Ticket,
        /// The extent.
        memfd: Arc<Memfd>,
        /// The range.
        range: Range,
    },
    /// Make a new extent that grows, with first memory.
    MakeGrowing {
        /// Names the work.
        ticket: Ticket,
        /// The extent's number and the range.
        range: Range,
    },
    /// Add memory at the end of an extent that grows.
    Extend {
        /// Names the work.
        ticket: Ticket,
        /// The extent.
        memfd: Arc<GrowingMemfd>,
        /// The range.
        range: Range,
    },
    /// Fix the size of an extent that grew.
    Settle {
        /// Names the work.
        ticket: Ticket,
        /// The extent's number.
        extent: ExtentId,
        /// The extent.
        memfd: Arc<GrowingMemfd>,
        /// Its final size.
        bytes: u64,
        /// What protects it from then on.
        level: Level,
        /// Whether every further write is refused.
        strict: bool,
    },
    /// Cut off what follows the first bytes of an extent that grows.
    TrimGrowing {
        /// The extent.
        memfd: Arc<GrowingMemfd>,
        /// What stays of it.
        bytes: u64,
    },
    /// Close an extent that grew.
    CloseGrowing {
        /// The extent's number.
        extent: ExtentId,
        /// The extent.
        memfd: Arc<GrowingMemfd>,
    },
    /// Give the pages of a range back.
    Punch {
        /// The extent.
        memfd: Arc<Memfd>,
        /// The range.
        range: Range,
    },
    /// Close an extent here: freeing a gigabyte takes a tenth of a second.
    Close {
        /// The extent's number.
        extent: ExtentId,
        /// The extent.
        memfd: Arc<Memfd>,
        /// Whether its memory is given back first, even if processes still have it mapped.
        punch: bool,
    },
    /// Make extents ready ahead.
    WarmUp,
}

impl MemoryJob {
    /// Whether this may take long: work on large extents and on those that grow. All jobs of one
    /// extent are alike, so they keep their order.
    pub(super) fn is_long(&self, arena_bytes: u64) -> bool {
        let is_large = |bytes: u64| bytes >= LARGE_OBJECT_BYTES && bytes != arena_bytes;
        match self {
            Self::Make { extent_bytes, .. } => is_large(*extent_bytes),
            Self::Reserve { memfd, .. } | Self::Punch { memfd, .. } | Self::Close { memfd, .. } => {
                is_large(memfd.bytes())
            }
            Self::MakeGrowing { .. }
            | Self::Extend { .. }
            | Self::Settle { .. }
            | Self::TrimGrowing { .. }
            | Self::CloseGrowing { .. } => true,
            Self::WarmUp => false,
        }
    }

    /// The fresh memory that this asks for, if any, by its ticket.
    pub(crate) fn fresh_memory(&self) -> Option<(Ticket, u64)> {
        match self {
            Self::Make { ticket, range, .. }
            | Self::Reserve { ticket, range, .. }
            | Self::MakeGrowing { ticket, range }
            | Self::Extend { ticket, range, .. } => Some((*ticket, range.bytes)),
            _ => None,
        }
    }
}

/// Which extents are kept ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadyExtents {
    /// How many.
    pub(crate) extents: usize,
    /// How large each is.
    pub(crate) extent_bytes: u64,
    /// Whether they are collapsed into huge pages.
    pub(crate) collapse: bool,
    /// Whether they will be sealed against writers later.
    pub(crate) sealable: bool,
}

/// The worker's main loop: it ends when the last sender of jobs is gone.
pub(super) fn work(
    jobs: &Receiver<MemoryJob>,
    report: &Report,
    ahead: ReadyExtents,
    headroom: &Mutex<Headroom>,
) {
    let mut ready = Vec::new();
    let mut admit = |bytes| {
        let mut headroom = headroom.lock().unwrap_or_else(PoisonError::into_inner);
        headroom.take(bytes, edge::now()).map_err(|left| no_headroom(bytes, left))
    };
    while let Ok(job) = edge::receive(jobs) {
        match job {
            MemoryJob::Make { ticket, extent_bytes, range, sealable } => {
                let fits = extent_bytes == ahead.extent_bytes && sealable == ahead.sealable;
                let made = match if fits { ready.pop() } else { None } {
                    Some(memfd) => Ok(memfd),
                    None => admit(range.bytes).and_then(|()| make(extent_bytes, range, sealable)),
                };
                report.tell(Done::Reserved {
                    ticket,
                    extent: range.extent,
                    made: made.map(NewMemory::Extent),
                });
                refill(&mut ready, ahead, &mut admit);
            }
            MemoryJob::Reserve { ticket, memfd, range } => {
                let made = admit(range.bytes)
                    .and_then(|()| memfd.reserve(range.offset, range.bytes))
                    .map(|()| NewMemory::Nothing);
                report.tell(Done::Reserved { ticket, extent: range.extent, made });
            }
            MemoryJob::Punch { memfd, range } => {
                if let Err(error) = memfd.punch(range.offset, range.bytes) {
                    tracing::warn!(?range, %error, "memory cannot be given back");
                    report.tell(Done::Unpunched(range));
                }
            }
            MemoryJob::MakeGrowing { ticket, range } => {
                let made =
                    admit(range.bytes).and_then(|()| make_growing(range)).map(NewMemory::Growing);
                report.tell(Done::Reserved { ticket, extent: range.extent, made });
            }
            MemoryJob::Extend { ticket, memfd, range } => {
                let made = admit(range.bytes)
                    .and_then(|()| memfd.extend(range.offset, range.bytes))
                    .map(|()| NewMemory::Nothing);
                report.tell(Done::Reserved { ticket, extent: range.extent, made });
            }
            MemoryJob::Settle { ticket, extent, memfd, bytes, level, strict } => {
                let settled = settle(&memfd, bytes, level, strict);
                report.tell(Done::Settled { ticket, extent, settled });
            }
            MemoryJob::TrimGrowing { memfd, bytes } => {
                // A writer that sealed the size of its own memory keeps it until it unmaps it.
                if let Err(error) = memfd.trim(bytes) {
                    tracing::warn!(bytes, %error, "idle memory cannot be given back");
                }
            }
            MemoryJob::CloseGrowing { extent, memfd } => {
                report.tell(Done::Closed { extent, remains: close_growing(memfd) });
            }
            MemoryJob::Close { extent, memfd, punch } => {
                report.tell(Done::Closed { extent, remains: close(extent, memfd, punch) });
            }
            MemoryJob::WarmUp => refill(&mut ready, ahead, &mut admit),
        }
    }
}

/// Closes an extent. What is left of it has lost its pages, or they are still there and are given
/// back.
fn close(extent: ExtentId, memfd: Arc<Memfd>, punch: bool) -> Option<Remains> {
    match if punch { memfd.punch(0, memfd.bytes()) } else { Ok(()) } {
        Ok(()) => None,
        Err(error) => {
            // Such as when it was sealed at this very moment. It stays charged.
            tracing::info!(?extent, %error, "memory cannot be taken away");
            Some(Remains::Fixed(memfd))
        }
    }
}

/// Fixes the size of an extent that grew. A strict one that is still mapped to write to is tried
/// again, as [`seals`] does it.
fn settle(memfd: &GrowingMemfd, bytes: u64, level: Level, strict: bool) -> io::Result<Memfd> {
    let mut pause = seals::FIRST_PAUSE;
    loop {
        match memfd.settle(bytes, level, strict) {
            Err(error)
                if Errno::from_io_error(&error) == Some(Errno::BUSY) && pause < seals::BUSY_MAX =>
            {
                edge::sleep(pause);
                pause *= 2;
            }
            settled => return settled,
        }
    }
}

/// The same for one that grew: its writer may keep it.
fn close_growing(memfd: Arc<GrowingMemfd>) -> Option<Remains> {
    let is_empty = matches!(memfd.resident_bytes(), Ok(0));
    let is_closed = is_empty || matches!(is_alone(&*memfd), Ok(true));
    (!is_closed).then_some(Remains::Growing(memfd))
}

/// The control group would have a process killed.
fn no_headroom(bytes: u64, left: u64) -> io::Error {
    let text = format!(
        "{bytes} bytes are more than the daemon's control group may take ({left} bytes are left)"
    );
    io::Error::new(io::ErrorKind::OutOfMemory, text)
}

/// An extent. At level shared no client can seal it and so keep others from its memory, or the
/// daemon from giving that back.
fn create(extent_bytes: u64, sealable: bool) -> io::Result<Memfd> {
    if sealable {
        Memfd::create_sealable(EXTENT_NAME, extent_bytes)
    } else {
        Memfd::create(EXTENT_NAME, extent_bytes)
    }
}

fn make(extent_bytes: u64, range: Range, sealable: bool) -> io::Result<Memfd> {
    let memfd = create(extent_bytes, sealable)?;
    memfd.reserve(range.offset, range.bytes)?;
    Ok(memfd)
}

fn make_growing(range: Range) -> io::Result<GrowingMemfd> {
    let memfd = GrowingMemfd::create(EXTENT_NAME)?;
    memfd.extend(range.offset, range.bytes)?;
    Ok(memfd)
}

/// Makes extents ready until there are enough. A machine without memory to spare is no error here.
fn refill(
    ready: &mut Vec<Memfd>,
    ahead: ReadyExtents,
    admit: &mut impl FnMut(u64) -> io::Result<()>,
) {
    while ready.len() < ahead.extents {
        match admit(ahead.extent_bytes).and_then(|()| make_ready(ahead)) {
            Ok(memfd) => ready.push(memfd),
            Err(error) => {
                tracing::info!(%error, "no extent could be made ready ahead");
                return;
            }
        }
    }
}

fn make_ready(ahead: ReadyExtents) -> io::Result<Memfd> {
    let memfd = create(ahead.extent_bytes, ahead.sealable)?;
    memfd.reserve(0, ahead.extent_bytes)?;
    if ahead.collapse {
        let map = WriteMap::new(&memfd, ahead.extent_bytes, Populate::No)?;
        let collapsed =
            map.populate(0, ahead.extent_bytes).and_then(|()| map.collapse(0, ahead.extent_bytes));
        if let Err(error) = collapsed {
            tracing::info!(%error, "memory stays in small pages");
        }
    }
    Ok(memfd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_apart_from_what_small_puts_wait_for() {
        // A put of three kilobytes waited for four seconds, because another client had asked for
        // four gigabytes before.
        const ARENA: u64 = 64 << 20;
        let range = |bytes| Range { extent: ExtentId::new(0, 1), offset: 0, bytes };
        let make = |extent_bytes, bytes| MemoryJob::Make {
            ticket: Ticket(1),
            extent_bytes,
            range: range(bytes),
            sealable: false,
        };
        let memfd = |bytes| Arc::new(Memfd::create("plasmon-test", bytes).unwrap());
        let reserve =
            |memfd: Arc<Memfd>| MemoryJob::Reserve { ticket: Ticket(1), memfd, range: range(64) };
        assert!(!make(ARENA, 4 << 20).is_long(ARENA));
        assert!(!make(LARGE_OBJECT_BYTES - 4096, 4096).is_long(ARENA));
        assert!(make(LARGE_OBJECT_BYTES, LARGE_OBJECT_BYTES).is_long(ARENA));
        assert!(make(4 << 30, 4 << 30).is_long(ARENA));
        for bytes in [ARENA, 4096] {
            let memfd = memfd(bytes);
            assert!(!reserve(Arc::clone(&memfd)).is_long(ARENA));
            let punch = MemoryJob::Punch { memfd: Arc::clone(&memfd), range: range(64) };
            assert!(!punch.is_long(ARENA), "in order with what reserves there");
            assert!(
                !MemoryJob::Close { extent: ExtentId::new(0, 1), memfd, punch: true }
                    .is_long(ARENA)
            );
        }
        assert!(reserve(memfd(4 << 30)).is_long(ARENA));
        assert!(
            MemoryJob::Close { extent: ExtentId::new(0, 1), memfd: memfd(4 << 30), punch: true }
                .is_long(ARENA)
        );
    }
}
