//! The client library: what every binding of Plasmon uses to reach the store.
//!
//! A [`Client`] is a connection to the node's daemon, shared by all threads of a process. Sealed
//! objects are found through the shared index, pinned in this client's own ledger and read in
//! place: [`Client::get_now`] makes no system call. Small objects are carved from a leased range
//! and announced through a ring; large ones, waits and everything rare go over the socket.
//!
//! ```text
//! Client ──► Process ──► Connection ──► Session (one per channel) ──► shared memory:
//!            ids, copies     │            leases, ring, refusals       index, ledger, ring
//!                            └────────► Rpc (requests, answers)   ──► the socket, reconnected
//!                                                                     when it breaks
//! ```
//!
//! Deliberately absent: any knowledge of what the bytes of an object mean.
//!
//! # Rules
//!
//! 1. A buffer holds a ledger entry; release is one store. Thread-safe; ledger entries are claimed
//!    by compare-exchange.
//! 2. Own puts are visible to own gets: on a miss with undrained submissions, the socket question
//!    drains them.
//! 3. Ids that the client makes itself (20 random bytes, a counter mixed into the first eight) need
//!    no answer: `put` returns when the record is in the ring. So do those of objects of a pool
//!    without a name, which have the slot of this node, from the control page, and the mark of the
//!    pool; `settle` says whether the pool has accepted them. A user-chosen id or a name is
//!    announced and acknowledged: the client waits until the ring's head passes and looks for a
//!    refusal.
//! 4. Large objects (>= LARGE_OBJECT_BYTES), strict ones, and everything of a client without a
//!    channel go through `Create`/`Seal`.
//! 5. `fork`: a child never touches the parent's channel; it reconnects on first use. Its parent's
//!    extents are not mapped in it: their addresses are reserved without access (`shm::inherited`),
//!    so touching what was inherited ends the child and never shows other bytes.
//! 6. EOF from the daemon: reconnect with `resume` until `reconnect_timeout` (default 10 s); then
//!    `Disconnected`. Waits are asked again.
//! 7. A wait for one object sleeps on events where there is a wake page (`client::wait::futex`),
//!    everything else on the socket. It is asked over the socket in any case; a thread that finds
//!    the object first leaves the answer to the next reader.
//! 8. A client that has mapped memory which stays until it unmaps it (`Memfd::is_punchable`) has a
//!    thread that does so while the client idles (`client::idle`). It holds no handle of
//!    the store while it sleeps, and no lock while it unmaps.
//!
//! # How it works inside
//!
//! * `Client` -> one `Process` for each process (a forked child makes its own at first use) -> its
//!   `Connection` -> `Session`s, one for each channel. A session is never freed before the store:
//!   `get_now` borrows it without counting. A resumed connection keeps its session; one that is not
//!   resumed gets a new one, and everything unsealed of the old one fails with `Disconnected`.
//! * `Rpc`: a thread that waits for an answer reads the socket and delivers the answers of
//!   others. Unanswered requests are asked again on the next connection; `Answer::again` says so,
//!   because the first time may have worked. `start_wait` starts one thread that reads when no
//!   caller does.
//! * `Leases` is accounting under the session's lock; its `Step` names the system call that is
//!   missing, which is made without the lock. A lease doubles while it lasts less than 5 ms. The
//!   next one is asked for through the ring when half of the present one is left; after a refusal
//!   not before it is used up.
//! * Up to 4 KiB an object is copied under the lock; above, its range is *open* meanwhile. `Resume`
//!   reports current, waiting, mapping and open ranges; from then until the welcome everything
//!   rests (*suspended*).
//! * A `put` without id or name is fire and forget. Refusals after the call returned are kept
//!   (1,024, then counted) and told by `flush`, by the next call that writes, and by a `get` of
//!   that id. With an id or a name, `put` and `create` wait for the verdict.
//! * An error of the daemon's death is `Disconnected` after `reconnect_timeout`; a later call tries
//!   once more. Six connections that end within 100 ms without an answer count as a daemon that
//!   does not want this client.

#![forbid(unsafe_code)]

mod acks;
mod adoptions;
mod answer;
mod append_only_list;
mod buffer;
mod client;
mod connection;
mod created;
mod error;
mod few_nodes;
mod frame_reader;
mod get;
mod growing;
mod handshake;
mod idle;
mod ids;
mod interrupt;
mod lease;
mod leases;
mod listing;
mod mapping;
mod options;
mod owner;
mod parts;
mod payload;
mod pin;
mod pool;
mod pool_contents;
mod pool_delete;
mod pool_listing;
mod pool_regions;
mod pool_repair;
mod pool_subscription;
mod process;
mod put;
mod put_durable;
mod put_small;
mod queries;
mod ranges;
mod region;
mod requests;
mod rpc;
mod scope;
mod scopes;
mod session;
mod settle;
mod similar_name;
#[cfg(feature = "sim")]
mod simulated;
mod start;
mod submit;
mod subscription;
mod suspension;
mod wait;
mod writer;

pub use buffer::{Buffer, PinnedBuffer};
pub use client::{Client, PROTOCOL_VERSION};
pub use error::{Error, Result};
pub use growing::seal::ReadOnlyMemory;
pub use growing::{GrowOptions, GrowingObject};
pub use interrupt::interruptible;
pub use listing::Listing;
pub use options::{Ack, ConnectOptions, PutOptions, REQUEST_TIMEOUT, StartOptions};
pub use parts::{
    PartsGather, PartsInfo, PartsOf, PartsReader, PartsStream, Piece, STREAM_PIECE_BYTES,
    STREAM_WINDOW_MAX,
};
pub use pool_contents::{
    ContentComparison, ContentCopy, ContentDifference, ContentOutcome, ContentProgress,
    DIFFERENCES_MAX,
};
pub use pool_regions::RegionOptions;
pub use ranges::ObjectReader;
pub use region::Region;
pub use scope::Scope;
pub use similar_name::WeakClient;
pub use start::{
    StartedDaemon, daemon_program, default_socket, pool_daemon_program, start, start_or_take_over,
};
pub use subscription::{Notification, Subscription};
pub use wait::poll::PendingWait;
pub use writer::{Mapping, Writer};

/// A number that is another one in a forked child: what was made under one number must not be used
/// under another.
pub fn fork_generation() -> u64 {
    plasmon_shm::fork::generation()
}

/// The memory that the control groups of this process allow it and its neighbours there, which is
/// what a store that it starts can have at most; `None` without a limit.
pub fn memory_limit_bytes() -> Option<u64> {
    plasmon_shm::cgroup::Groups::of_this_process().limit().map(|(bytes, _)| bytes)
}

pub use plasmon_shm::c_allocator;
pub use plasmon_shm::deadline::Deadline;
pub use plasmon_shm::incarnation::Incarnation;

pub use plasmon_proto::message::{Access, ClientInfo, Filter, Notice};
pub use plasmon_proto::object::{
    CopyPlacement, Durability, Level, ObjectInfo, ObjectState, Policy, Sizes, Traits, tag,
};
pub use plasmon_proto::participation::Participation;
pub use plasmon_proto::pool::Slot;
pub use plasmon_proto::pool_admin::{
    ObjectPlace, ObjectRecord, Standing, Verification, VerifiedNode,
};
pub use plasmon_proto::pool_status::{DrainLeft, NodeState, PoolNode, PoolStatus};
pub use plasmon_proto::region::{Address, BadAddress};
pub use plasmon_proto::status::{LogFigures, Status};
pub use plasmon_proto::{Code, Name, ObjectId};
