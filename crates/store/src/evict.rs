//! Eviction of objects with policy cache, the least recently used first.

mod eviction;

use crate::asker::Asker;

/// An eviction that a client asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvictionRequest {
    asker: Asker,
    request: u64,
    bytes: u64,
    done: EvictionTotals,
    /// How many objects are still to be tried.
    left: usize,
    /// Where to go on among those that are spilled instead.
    next: Option<u32>,
}

/// What an eviction freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EvictionTotals {
    /// In the measure that the caller asked in.
    pub(crate) bytes: u64,
    pub(crate) objects: u64,
}

/// How the bytes of an eviction are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Data and metadata, as a client sees them.
    Content,
    /// What the capacity counts.
    Charge,
}

/// Whose objects may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionScope {
    /// Those of every client without a share.
    Anybodys,
    /// Those of the client of this session.
    Session(u32),
}
