//! The memory that this client may write: leased ranges and their mappings.
//!
//! ```text
//!  daemon grants a range ──► waiting ──(mapped, faulted in)──► current ──(carved)──► objects
//!                               ▲                                 │
//!     LeaseWanted, sent while the current one still has room ─────┘  its tail ──► LeaseReturn
//! ```
//!
//! When the connection breaks, the leases are suspended: nothing is carved and no grant is taken
//! from the moment at which the client lists its leases to the daemon ([`Leases::suspend`]) until
//! the daemon has said which of them are lost ([`Leases::go_on`]).
//!
//! Everything here is accounting under the session's lock; the caller makes the system calls that
//! [`Step`] names, without the lock, and calls again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::limits::{
    ARENA_EXTENT_BYTES, LARGE_OBJECT_BYTES, LEASE_BYTES_MAX, OBJECT_ALIGN,
};
use plasmon_proto::object::Level;
use plasmon_shm::writer::{Span, WriteExtent};

/// What a client starts with: little, because most clients write little.
const LEASE_BYTES_FIRST: u64 = 256 << 10;

/// The share of the capacity that one client may have leased and not used.
const LEASE_SHARE: u64 = 64;

/// A lease used up faster than this makes the next one twice as large: the next one is asked for
/// while half of it is left, and an answer takes up to a tenth of that half. Larger leases would
/// gain nothing and cost the processor's caches.
const BUSY: Duration = Duration::from_millis(5);

/// A lease that lasted longer than this makes the next one as small as the first.
const QUIET: Duration = Duration::from_secs(5);

/// How much of a lease is faulted in at once: long enough to be cheaper than single faults, short
/// enough that no put waits for long.
const FAULT_BYTES: u64 = 1 << 20;

/// Writable mappings that are kept for extents that will be written again, where a mapping that was
/// given up can be made again.
const MAPS_MAX: usize = 128;

/// What must happen before an object can be carved.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Nothing: the current lease has room, and its memory is there.
    Ready,
    /// Map the extent of this granted range, then [`Leases::install`] it.
    Map(Range),
    /// Fault this part of the current lease in, then tell [`Leases::faulted`].
    Fault(ExtentId, Arc<WriteExtent>, u64, u64),
    /// Ask the daemon for a range.
    Ask { bytes_min: u64, bytes_wanted: u64 },
    /// Wait until the connection is back.
    Await,
}

/// A writable mapping and which of its parts are known to be faulted in here.
#[derive(Debug)]
struct LeaseMapping {
    map: Arc<WriteExtent>,
    faulted: Vec<bool>,
    used: u64,
}

/// The lease that objects are carved from.
#[derive(Debug)]
struct CurrentLease {
    extent: ExtentId,
    span: Span,
    /// Up to where in the extent the memory is known to be faulted in.
    ready_end: u64,
}

impl CurrentLease {
    fn range(&self) -> Option<Range> {
        let Self { extent, span, .. } = self;
        let range = Range { extent: *extent, offset: span.offset(), bytes: span.len() as u64 };
        (range.bytes > 0).then_some(range)
    }
}

/// The leases of one session.
#[derive(Debug)]
pub(crate) struct Leases {
    current: Option<CurrentLease>,
    waiting: VecDeque<Range>,
    /// Granted ranges on their way from `waiting` or an answer to `current`, while a thread maps
    /// them.
    mapping: Vec<Range>,
    maps: HashMap<ExtentId, LeaseMapping>,
    maps_max: usize,
    /// Ranges carved and not yet submitted: a resumed connection must know them.
    open: Vec<Range>,
    /// Whether the daemon is being told what is held.
    suspended: bool,
    asked: bool,
    bytes_next: u64,
    bytes_max: u64,
    installed: Option<Instant>,
    uses: u64,
}

/// The least footprint of an object that is not carved from a lease in a store of this capacity.
/// The daemon gives those their own extent, or a lease would be too large a share.
pub(crate) fn large_bytes(capacity_bytes: u64) -> u64 {
    let arena = (capacity_bytes / 16).clamp(1 << 20, ARENA_EXTENT_BYTES);
    LARGE_OBJECT_BYTES.min(arena / 4).min(capacity_bytes / LEASE_SHARE + 1)
}

/// The most that one client may have in one lease, in a store of this capacity.
fn lease_bytes_max(capacity_bytes: u64) -> u64 {
    let share = capacity_bytes / LEASE_SHARE / OBJECT_ALIGN * OBJECT_ALIGN;
    share.clamp(OBJECT_ALIGN, LEASE_BYTES_MAX)
}

/// The largest footprint of which a lease has two: the next one can be asked for in good time.
pub(crate) fn half_lease_bytes(capacity_bytes: u64) -> u64 {
    lease_bytes_max(capacity_bytes) / 2
}

impl Leases {
    /// The leases in a store of this capacity and level. At level leased no mapping makes room for
    /// another one: the kernel refuses to map memory for writing that is closed to new writers, and
    /// the daemon may lease more of it.
    pub(crate) fn new(capacity_bytes: u64, level: Level) -> Self {
        let bytes_max = lease_bytes_max(capacity_bytes);
        Self {
            current: None,
            waiting: VecDeque::new(),
            mapping: Vec::new(),
            maps: HashMap::new(),
            maps_max: if level == Level::Leased { usize::MAX } else { MAPS_MAX },
            open: Vec::new(),
            suspended: false,
            asked: false,
            bytes_next: LEASE_BYTES_FIRST.min(bytes_max),
            bytes_max,
            installed: None,
            uses: 0,
        }
    }

    /// What is missing for an object of this footprint.
    #[inline]
    pub(crate) fn step(&mut self, footprint: u64) -> Step {
        match &self.current {
            Some(current) if current.span.len() as u64 >= footprint => {
                let ready = current.span.offset() + footprint <= current.ready_end;
                if ready { Step::Ready } else { self.next_fault(footprint) }
            }
            _ => self.next_lease(footprint),
        }
    }

    /// The first part below the end of the next object that is not faulted in.
    #[cold]
    fn next_fault(&mut self, footprint: u64) -> Step {
        let Some(current) = &mut self.current else {
            return Step::Ready;
        };
        let page_bytes = rustix::param::page_size() as u64;
        let start = current.span.offset();
        let lease_end = start + current.span.len() as u64;
        let Some(mapped) = self.maps.get(&current.extent) else {
            // The mapping was dropped from the cache and lives on in the lease: fault as it comes.
            current.ready_end = lease_end;
            return Step::Ready;
        };
        for part in start / FAULT_BYTES..(start + footprint).div_ceil(FAULT_BYTES) {
            let end = ((part + 1) * FAULT_BYTES).min(lease_end);
            if !mapped.faulted[part as usize] {
                let from = (part * FAULT_BYTES).max(start / page_bytes * page_bytes);
                return Step::Fault(current.extent, Arc::clone(&mapped.map), from, end - from);
            }
            current.ready_end = end;
        }
        Step::Ready
    }

    #[cold]
    fn next_lease(&mut self, footprint: u64) -> Step {
        if self.suspended {
            return Step::Await;
        }
        let fitting = self.waiting.iter().position(|range| range.bytes >= footprint);
        if let Some(range) = fitting.and_then(|index| self.waiting.remove(index)) {
            self.mapping.push(range);
            return Step::Map(range);
        }
        let bytes_wanted = self.bytes_next.max(footprint);
        Step::Ask { bytes_min: footprint, bytes_wanted }
    }

    /// The current lease. Call it only after [`Step::Ready`].
    #[inline]
    pub(crate) fn front(&mut self) -> Option<(ExtentId, &mut Span)> {
        self.current.as_mut().map(|current| (current.extent, &mut current.span))
    }

    /// Whether to ask for the lease after the current one now, and for how much.
    #[inline]
    pub(crate) fn ask_ahead(&mut self, footprint: u64) -> Option<(u64, u64)> {
        let left = self.current.as_ref().map_or(0, |current| current.span.len() as u64);
        if self.asked || left > self.bytes_next / 2 || !self.waiting.is_empty() || self.suspended {
            return None;
        }
        self.asked = true;
        Some((footprint.max(LEASE_BYTES_FIRST.min(self.bytes_max)), self.bytes_next.max(footprint)))
    }

    /// The daemon granted a range, asked for or not.
    pub(crate) fn granted(&mut self, range: Range) {
        self.asked = false;
        self.waiting.push_back(range);
    }

    /// A carved range was not used after all, and could not be returned: it is carved again.
    pub(crate) fn regain(&mut self, range: Range) {
        self.waiting.push_back(range);
    }

    /// The daemon granted a range that is going to be mapped at once.
    pub(crate) fn begin_mapping(&mut self, range: Range) {
        self.mapping.push(range);
    }

    /// The range is mapped, or could not be; whether it is still leased.
    pub(crate) fn end_mapping(&mut self, range: &Range) -> bool {
        let index = self.mapping.iter().position(|mapping| mapping == range);
        index.map(|index| self.mapping.swap_remove(index)).is_some()
    }

    /// Whatever was asked for may never be answered: the next put may ask again.
    ///
    /// A refusal does not lead here: a daemon that has no range to spare is not asked again before
    /// the current lease is used up, when a put asks on the socket and is told why.
    pub(crate) fn forget_asking(&mut self) {
        self.asked = false;
    }

    /// The mapping of an extent, if it is kept.
    pub(crate) fn map(&mut self, extent: ExtentId) -> Option<Arc<WriteExtent>> {
        self.uses += 1;
        let uses = self.uses;
        self.maps.get_mut(&extent).map(|mapped| {
            mapped.used = uses;
            Arc::clone(&mapped.map)
        })
    }

    /// Keeps a mapping; the one that was not used for longest makes room. Gives back what is to be
    /// unmapped without the lock.
    #[must_use]
    pub(crate) fn keep(
        &mut self,
        extent: ExtentId,
        map: Arc<WriteExtent>,
    ) -> Option<Arc<WriteExtent>> {
        self.uses += 1;
        let parts = map.bytes().div_ceil(FAULT_BYTES) as usize;
        let mapped = LeaseMapping { map, faulted: vec![false; parts], used: self.uses };
        if let Some(before) = self.maps.insert(extent, mapped) {
            return Some(before.map);
        }
        if self.maps.len() <= self.maps_max {
            return None;
        }
        let oldest = self.longest_unused()?;
        self.maps.remove(&oldest).map(|mapped| mapped.map)
    }

    /// The extent, other than that of the current lease, whose mapping was not used for longest.
    fn longest_unused(&self) -> Option<ExtentId> {
        let in_use = self.current.as_ref().map(|current| current.extent);
        let candidates = self.maps.iter().filter(|(extent, _)| Some(**extent) != in_use);
        candidates.min_by_key(|(_, mapped)| mapped.used).map(|(extent, _)| *extent)
    }

    /// An extent that may be gone without this client knowing: the one that was not used for
    /// longest, which counts as used from now on.
    pub(crate) fn next_to_check(&mut self) -> Option<ExtentId> {
        let oldest = self.longest_unused()?;
        self.map(oldest).map(|_| oldest)
    }

    /// An extent is gone. Gives back its mapping, to be unmapped without the lock.
    #[must_use]
    pub(crate) fn forget(&mut self, extent: ExtentId) -> Option<Arc<WriteExtent>> {
        self.maps.remove(&extent).map(|mapped| mapped.map)
    }

    /// Gives up the mappings of extents that are not `kept`, to be unmapped without the lock.
    #[must_use]
    pub(crate) fn retain(&mut self, kept: impl Fn(ExtentId) -> bool) -> Vec<Arc<WriteExtent>> {
        let gone = self.maps.extract_if(|extent, _| !kept(*extent));
        gone.map(|(_, mapped)| mapped.map).collect()
    }

    /// A part of the extent is faulted in.
    pub(crate) fn faulted(&mut self, extent: ExtentId, offset: u64) {
        if let Some(mapped) = self.maps.get_mut(&extent) {
            mapped.faulted[(offset / FAULT_BYTES) as usize] = true;
        }
    }

    /// Whether the current lease has room for an object of this footprint.
    pub(crate) fn has_room(&self, footprint: u64) -> bool {
        self.current.as_ref().is_some_and(|current| current.span.len() as u64 >= footprint)
    }

    /// Makes a lease the current one. Gives back the tail of the one before, to be returned.
    pub(crate) fn install(&mut self, extent: ExtentId, span: Span, now: Instant) -> Option<Range> {
        if let Some(before) = self.installed.replace(now) {
            let lasted = now.saturating_duration_since(before);
            if lasted < BUSY {
                self.bytes_next = (self.bytes_next * 2).min(self.bytes_max);
            } else if lasted > QUIET {
                self.bytes_next = LEASE_BYTES_FIRST.min(self.bytes_max);
            }
        }
        self.asked = false;
        let current = CurrentLease { extent, ready_end: span.offset(), span };
        self.current.replace(current)?.range()
    }

    /// A range was carved and will be submitted later.
    pub(crate) fn opened(&mut self, range: Range) {
        self.open.push(range);
    }

    /// It is submitted or given up; whether it is still leased.
    #[must_use]
    pub(crate) fn closed(&mut self, range: &Range) -> bool {
        let index = self.open.iter().position(|open| open == range);
        index.map(|index| self.open.swap_remove(index)).is_some()
    }

    /// Whether a range that was carved and not submitted is still leased.
    pub(crate) fn is_open(&self, range: &Range) -> bool {
        self.open.contains(range)
    }

    /// The daemon is going to be told what is held: nothing is carved from here on.
    pub(crate) fn suspend(&mut self) {
        self.waiting.extend(self.current.take().as_ref().and_then(CurrentLease::range));
        self.asked = false;
        self.suspended = true;
    }

    /// Whether nothing may be carved or submitted.
    #[inline]
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// The daemon does not have these ranges for this client: nothing more is written to them.
    pub(crate) fn lose(&mut self, lost: &[Range]) {
        let overlap = |one: &Range, other: &Range| {
            one.extent == other.extent
                && one.offset < other.offset + other.bytes
                && other.offset < one.offset + one.bytes
        };
        let is_kept = |range: &Range| !lost.iter().any(|lost| overlap(range, lost));
        self.waiting.retain(is_kept);
        self.mapping.retain(is_kept);
        self.open.retain(is_kept);
    }

    /// What is left is known: it may be carved again.
    pub(crate) fn go_on(&mut self) {
        self.suspended = false;
    }

    /// Everything that is leased and not submitted.
    pub(crate) fn ranges(&self) -> Vec<Range> {
        let current = self.current.as_ref().and_then(CurrentLease::range);
        current
            .into_iter()
            .chain(self.waiting.iter().copied())
            .chain(self.mapping.iter().copied())
            .chain(self.open.iter().copied())
            .collect()
    }

    /// Gives up what is leased and not carved, to be returned.
    pub(crate) fn give_up(&mut self) -> Vec<Range> {
        if self.suspended {
            return Vec::new();
        }
        let current = self.current.take().as_ref().and_then(CurrentLease::range);
        self.installed = None;
        self.bytes_next = LEASE_BYTES_FIRST.min(self.bytes_max);
        current.into_iter().chain(self.waiting.drain(..)).collect()
    }
}
