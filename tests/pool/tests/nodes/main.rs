//! Whole nodes of a pool in virtual time: the real store, the real node of the pool, the real rules
//! of its leader, and one seed for everything.
//!
//! ```text
//!   clients ──► Store ◄── calls, answers ──► Node ◄── messages, segments ──► other machines
//!    (clients)   │  (stores)    (agents)      │          (network)
//!      memory, tier                          etcd: leases, maps (etcd)
//! ```
//!
//! A run is a seed (`seeds.rs`). Two to five machines have stores so small that copies compete for
//! room. Pool daemons, stores and machines die and come back, stop for a while, lose each other and
//! etcd. Then the faults stop, and everything has to be finished within 30 virtual seconds; in the
//! end everything is deleted, and no store may have a byte left.
//!
//! Between a store and its pool daemon lie two queues, as the socket is in real nodes: what one of
//! them says arrives later, in order, and what its end was not told is lost. `agents.rs` does what
//! `plasmon-poold` does: its core, without threads.

mod adopters;
mod adoption;
mod agents;
mod backlog;
mod checks;
mod clients;
mod etcd;
mod faults;
mod history;
mod logs;
mod machine;
mod memory;
#[path = "../../../../crates/pool/src/tests/network.rs"]
mod network;
mod parts;
#[path = "../../../../crates/pool/src/tests/pieces.rs"]
mod pieces;
mod places;
#[path = "../../../../crates/pool/src/tests/questions.rs"]
mod questions;
mod reads;
#[path = "../../../../crates/pool/src/tests/region_model.rs"]
mod region_model;
mod regions;
mod seeds;
mod serving;
mod stores;
mod world;

/// Where a file that is shared with the tests of `plasmon-pool` looks for it.
mod time {
    pub(crate) use plasmon_pool::Mono;
}
