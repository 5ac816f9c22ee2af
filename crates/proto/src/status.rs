//! The figures of a store, and those of its log.

use serde::{Deserialize, Serialize};

/// The figures of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Its keeper's process id, 0 without one.
    pub keeper_pid: u32,
    /// How often the store's daemon was started.
    pub epoch: u64,
    /// Milliseconds since this daemon was started.
    pub uptime_ms: u64,
    /// The protection of sealed objects: [`crate::object::Level::key`].
    pub level: String,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Bytes of objects in memory, sealed and being created, with their padding.
    pub used_bytes: u64,
    /// Bytes leased to writers and not yet used.
    pub leased_bytes: u64,
    /// Bytes that are in memory and free.
    pub warm_bytes: u64,
    /// Bytes of objects in the spill tier.
    pub spilled_bytes: u64,
    /// Sealed objects in memory.
    pub objects: u64,
    /// Objects being created.
    pub creating: u64,
    /// Objects in the spill tier.
    pub spilled: u64,
    /// Deleted objects whose memory waits for its last reader.
    pub lingering: u64,
    /// Extents.
    pub extents: u64,
    /// Slots of the index table.
    pub index_slots: u64,
    /// Connected clients.
    pub clients: u64,
    /// Waiting requests.
    pub waits: u64,
    /// Objects ever sealed.
    pub sealed_total: u64,
    /// Objects ever deleted.
    pub deleted_total: u64,
    /// Objects ever evicted.
    pub evicted_total: u64,
    /// Objects ever spilled.
    pub spilled_total: u64,
    /// Objects ever brought back from the spill tier.
    pub restored_total: u64,
    /// Clients that were disconnected for breaking the protocol.
    pub expelled_total: u64,
    /// Whether there is a spill tier, so that objects may be more than the capacity.
    pub spills: bool,
    /// What the spill tier's file system refused last; empty when it works.
    pub spill_fault: String,
    /// What the daemon's control group allows it and its neighbours there, 0 for no limit.
    pub memory_limit_bytes: u64,
    /// Microseconds of the longest turn of the daemon's loop: for as long a client waited for
    /// others at most.
    pub longest_turn_us: u64,
    /// Bytes that nothing is in any more and that count all the same, because the kernel keeps them
    /// while a process has them mapped.
    pub retained_bytes: u64,
    /// Bytes that the machine has allocated for objects, apart from what the store counts.
    pub resident_bytes: u64,
    /// Bytes lent to clients whose connection broke and that may come back: leases, and objects
    /// that they create. They are part of the bytes in use and leased.
    pub away_bytes: u64,
    /// For how many milliseconds the daemon waits for another client after its last one, before it
    /// ends; `None` when it stays.
    pub linger_ms: Option<u64>,
    /// The process that started the store for itself and that it ends with; 0 for none.
    pub starter_pid: u32,
    /// Bytes of objects that are in memory and have a file in the spill tier as well.
    pub spill_kept_bytes: u64,
    /// Bytes of objects ever written to the spill tier.
    pub spill_written_bytes_total: u64,
    /// Bytes of objects ever read back from the spill tier into memory.
    pub spill_read_bytes_total: u64,
    /// The address of the pool that the store belongs to; empty without a pool.
    pub cluster: String,
    /// The name of this node in its pool; empty without a pool.
    pub node_name: String,
    /// The log of durable objects, where there is one.
    pub log: Option<LogFigures>,
}

/// The figures of the log of durable objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFigures {
    /// Its folder.
    pub folder: String,
    /// What it writes to: `file` or `dax`; empty while it is not open.
    pub device: String,
    /// Durable objects, in memory and out of it.
    pub objects: u64,
    /// Those of them that are in the log alone.
    pub objects_away: u64,
    /// Bytes that the log occupies.
    pub used_bytes: u64,
    /// Bytes of them that belong to objects that are there.
    pub live_bytes: u64,
    /// The most bytes that it may occupy; 0 for as many as the file system has.
    pub bytes_max: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes ever written since the daemon's start.
    pub written_bytes_total: u64,
    /// Bytes of objects ever put since then.
    pub put_bytes_total: u64,
    /// Damaged places that were found when the log was last read through, and since. Places at
    /// which nothing is any more do not count.
    pub damaged: u64,
    /// Puts and deletes that are not yet confirmed by the device.
    pub waiting: u64,
    /// Why nothing durable is accepted; empty when the log works.
    pub fault: String,
    /// Bytes ever read since the daemon's start to find damage.
    pub scrubbed_bytes_total: u64,
    /// How often the whole log was read through since then.
    pub scrubs_total: u64,
    /// Objects that are in the log alone and cannot be read.
    pub corrupt: u64,
    /// Records of objects ever found damaged since the daemon's start.
    pub damaged_total: u64,
    /// Records that were damaged and were ever written again from memory since then.
    pub repaired_total: u64,
}
