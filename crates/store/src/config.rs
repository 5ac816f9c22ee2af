//! The configuration of a store, fixed at its start.

use plasmon_proto::object::Level;
use plasmon_proto::pool::Origin;

/// The fixed properties of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How many bytes of objects the store holds; rounded up to pages.
    pub capacity_bytes: u64,
    /// Bytes of the machine's pages.
    pub page_bytes: u64,
    /// How sealed objects are protected.
    pub level: Level,
    /// How many bytes of free memory stay warm at most.
    pub warm_bytes_max: u64,
    /// How many bytes may be in the spill tier, `None` when there is no tier.
    pub spill_bytes_max: Option<u64>,
    /// Whether there is a log for durable objects.
    pub durable: bool,
    /// Whether objects with policy cache are spilled instead of evicted, where there is a tier.
    pub spill_cache: bool,
    /// Whether the capacity counts bytes of data and metadata alone, without any rounding.
    pub count_content: bool,
    /// The most bytes that one process may own over all of its connections, or all processes of a
    /// user who does not own the store; 0 for no limit.
    pub client_quota_bytes: u64,
    /// The store's own user; `None` if every process is charged by itself.
    pub owner_uid: Option<u32>,
    /// The serial of the first object; greater than every serial that was ever given.
    pub first_serial: u64,
    /// The birth number of the first extent; greater than every one that was ever given.
    pub first_birth: u64,
    /// Whether the store belongs to a pool of several nodes.
    pub pool: bool,
    /// Which node of the pool it is, as the pool daemon has said to an earlier daemon of the store.
    pub node: Option<Origin>,
}

impl Config {
    /// A fresh store of this capacity at level shared, without a spill tier or quotas, that keeps
    /// an eighth of its capacity warm.
    pub fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            page_bytes: 4096,
            level: Level::Shared,
            warm_bytes_max: capacity_bytes / 8,
            spill_bytes_max: None,
            durable: false,
            spill_cache: false,
            count_content: false,
            client_quota_bytes: 0,
            owner_uid: None,
            first_serial: 1,
            first_birth: 1,
            pool: false,
            node: None,
        }
    }
}
