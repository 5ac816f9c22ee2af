//! Requests for memory, from the asking to the grant.
//!
//! ```text
//!               no room               room after a spill, or after others let memory go
//!     run ---------------------> blocked ------------------------+
//!      | ^                          | nothing can be freed       |
//!      | +--------------------------|----------------------------+
//!      |                            v
//!      +--> reserving ---------> failed
//!      |        | pages are there
//!      +--------+----> granted
//! ```

mod placement;

use std::collections::{BTreeMap, VecDeque};

use plasmon_proto::ObjectId;
use plasmon_proto::extent::ExtentId;

use crate::asker::{Answer, Asker};
use crate::event::Ticket;
use crate::memory::PlacedRange;
use crate::room::{Search, Stuck};

/// How often the machine may refuse memory for one request before the request fails.
const REFUSALS_MAX: u8 = 2;

/// How many objects may fail to be spilled for one request before the request fails.
const SPILL_FAILURES_MAX: u8 = 3;

/// How often a request waits for memory that is leaving before it looks for other memory: what came
/// free each time others were faster to take.
const LEAVINGS_MAX: u16 = 256;

/// What memory is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A lease; `held_bytes` count as owned meanwhile.
    Lease { asker: Asker, answer: Answer, held_bytes: u64 },
    /// An object under construction.
    Create { asker: Asker, request: u64, id: ObjectId, serial: u64 },
    /// More memory for one that grows. While that is there, it knows which request is answered.
    Grow { asker: Asker, request: u64, id: ObjectId, serial: u64 },
    /// A spilled object that a client wants to read.
    Restore { id: ObjectId, serial: u64 },
}

/// How much memory is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes_min: u64,
    pub(crate) bytes_wanted: u64,
}

impl Size {
    /// Neither more nor less.
    pub(crate) fn exactly(bytes: u64) -> Self {
        Self { bytes_min: bytes, bytes_wanted: bytes }
    }
}

/// A dedicated extent is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exact {
    pub(crate) charge: u64,
    pub(crate) strict: bool,
}

/// Memory for an object whose size is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Its first; open-ended when it may become much longer than that.
    First { open_ended: bool },
    /// More, at the end of this extent.
    Extend(ExtentId),
}

/// A request for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) purpose: Purpose,
    size: Size,
    exact: Option<Exact>,
    growth: Option<Growth>,
    refusals: u8,
    spill_failures: u8,
    /// How often memory that was leaving was waited for.
    leavings: u16,
    /// Whether something is evicted even if there seems to be room: the machine has none.
    evicts: bool,
    pub(crate) search: Search,
}

impl Job {
    pub(crate) fn new(purpose: Purpose, size: Size, exact: Option<Exact>) -> Self {
        Self {
            purpose,
            size,
            exact,
            growth: None,
            refusals: 0,
            spill_failures: 0,
            leavings: 0,
            evicts: false,
            search: Search::default(),
        }
    }

    /// A request for memory in an extent that grows.
    pub(crate) fn growing(purpose: Purpose, bytes: u64, growth: Growth) -> Self {
        Self { growth: Some(growth), ..Self::new(purpose, Size::exactly(bytes), None) }
    }

    /// Whether objects are spilled for it.
    pub(crate) fn may_spill(&self) -> bool {
        self.spill_failures < SPILL_FAILURES_MAX
    }

    /// What the least that helps is charged.
    pub(crate) fn charge(&self) -> u64 {
        self.exact.map_or(self.size.bytes_min, |exact| exact.charge)
    }
}

/// Requests for memory that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    reserving: BTreeMap<Ticket, (Job, PlacedRange)>,
    /// Requests that wait for objects to be spilled or looked for, in their order.
    waiting_for_room: VecDeque<Job>,
    /// When it was last found that nothing can go.
    pub(crate) stuck: Option<Stuck>,
}

impl Jobs {
    /// Every request that is parked.
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn parked(&self) -> impl Iterator<Item = &Job> {
        self.reserving.values().map(|(job, _)| job).chain(&self.waiting_for_room)
    }

    /// The places that are being reserved.
    pub(crate) fn reserving(&self) -> impl Iterator<Item = (&Job, &PlacedRange)> {
        self.reserving.values().map(|(job, placed)| (job, placed))
    }

    /// An object could not be spilled.
    pub(crate) fn spill_failed(&mut self) {
        for job in &mut self.waiting_for_room {
            job.spill_failures = job.spill_failures.saturating_add(1);
        }
    }
}
