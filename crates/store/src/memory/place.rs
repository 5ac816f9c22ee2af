//! Requests for memory, and the places that are found.

use plasmon_proto::extent::Range;

/// A range that was found and is charged from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedRange {
    /// The range.
    pub(crate) range: Range,
    /// The size of its extent.
    pub(crate) extent_bytes: u64,
    /// What was charged for it.
    pub(crate) charge: u64,
    /// What must be reserved before the range can be used, `None` when its pages are there.
    pub(crate) reservation: Option<Reservation>,
}

/// How cold memory is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// Whether more than needed is reserved, for the next small objects.
    pub(crate) chunk: bool,
    /// Whether warm memory may be given back for it.
    pub(crate) give_back: bool,
}

/// Pages that the machine must give first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// The pages, which begin with the placed range.
    pub(crate) range: Range,
    /// Whether the extent must be made first.
    pub(crate) new_extent: bool,
}

/// How long an extent is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// What is wanted.
    pub(crate) bytes: u64,
    /// What an idle one may have.
    pub(crate) most: u64,
}

/// What a request takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Bytes that count against the capacity.
    pub(super) charge: u64,
    /// Bytes of pages that the machine must give.
    pub(super) fresh_bytes: u64,
}
