//! Making room for a request for memory, one look through the ledgers at a time.
//!
//! ```text
//!             ┌── deleted objects that were pinned ─────────────────────┐
//!  a look at  ├── the oldest that may be evicted, hidden before it      ├─► memory is free
//!             └── the oldest that may be spilled ──► being written ─────┴─► memory is coming
//!                     all are pinned ──► the next event looks at others, until all were
//! ```
//!
//! That nothing at all can go is remembered: as long as neither the pins nor the objects have
//! changed, the next request is refused after its first look.

mod search;

use crate::ports::Entry;

/// How far a request has looked for room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Search {
    /// The serial from which on deleted objects are looked for, `None` when all were.
    older: Older,
    /// How many objects that may be evicted were looked at in vain, from the oldest on.
    cached: usize,
    /// Objects that may be spilled and were found pinned, busy or too large.
    kept: usize,
    /// Whether the oldest are looked for without being hidden: too many of them are pinned.
    examines: bool,
}

#[derive(Clone, Copy, Debug)]
enum Older {
    From(u64),
    Done,
}

impl Default for Older {
    fn default() -> Self {
        Self::From(0)
    }
}

/// When it was found that nothing can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// Of the pins at that time.
    digest: u64,
    /// How many objects had been listed by then.
    listings: u64,
}

/// What became of a piece of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Memory came free.
    Made,
    /// Objects are being spilled.
    Coming,
    /// The next event goes on.
    Later,
    /// There is no room and will be none.
    Nowhere,
}

/// What one look is to find out.
struct Candidates {
    /// Hidden, to be evicted.
    hidden: Vec<Entry>,
    /// Objects that may be evicted, in sight.
    examined: Vec<Entry>,
    /// Objects that may be spilled, in sight.
    spillable: Vec<Entry>,
}
