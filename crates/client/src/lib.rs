//! The client library: what every door of Plasmon uses to reach the store.
//!
//! A [`Store`] is a connection to the node's daemon, shared by all threads of a process. Sealed
//! objects are found through the shared index, pinned in this client's own ledger and read in
//! place: [`Store::get_now`] makes no system call. Small objects are carved from a leased range and
//! announced through a ring; large ones, waits and everything rare go over the socket.
//!
//! ```text
//! Store ──► Session (one per process and channel)     ──► shared memory: index, ledger, ring
//!   │          writer: leases, ring, refusals
//!   └────► Calls (requests and their answers)          ──► the socket, reconnected when it breaks
//! ```
//!
//! Deliberately absent: any knowledge of what the bytes of an object mean.

#![forbid(unsafe_code)]

mod asking;
mod buffer;
mod calls;
mod chain;
mod error;
mod growing;
mod handshake;
mod housekeeping;
mod ids;
mod interrupt;
mod leases;
mod listing;
mod mapping;
mod options;
mod owner;
mod payload;
mod pending;
mod process;
mod putting;
mod ranges;
mod reading;
mod receiving;
mod region;
mod requests;
mod resuming;
mod session;
#[cfg(feature = "sim")]
mod simulated;
mod sleeping;
mod start;
mod store;
mod subscription;
mod suggesting;
mod verdicts;
mod waiting;
mod writer;
mod writing;

pub use buffer::{Buffer, Pinned};
pub use error::{Error, Result};
pub use growing::{Frozen, GrowOptions, Growing};
pub use interrupt::interruptible;
pub use listing::Listing;
pub use options::{ConnectOptions, PutOptions, REQUEST_TIMEOUT, StartOptions};
pub use pending::PendingWait;
pub use ranges::ObjectReader;
pub use region::Region;
pub use start::{StartedDaemon, default_socket, start, start_or_take_over};
pub use store::{PROTOCOL_VERSION, Store};
pub use subscription::{Notification, Subscription};
pub use suggesting::WeakStore;
pub use writer::{Mapping, Writer};

/// A number that is another one in a forked child: what was made under one number must not be used
/// under another.
pub fn fork_generation() -> u64 {
    plasmon_shm::fork::generation()
}

pub use plasmon_shm::deadline::Deadline;
pub use plasmon_shm::foreign;
pub use plasmon_shm::incarnation::Incarnation;

pub use plasmon_proto::message::{Access, ClientInfo, Filter, Notice, Status};
pub use plasmon_proto::object::{Level, ObjectInfo, ObjectState, Policy, Sizes, Traits, tag};
pub use plasmon_proto::{Code, Name, ObjectId};
