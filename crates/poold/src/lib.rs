//! The node of a pool on one machine: what `plasmon_pool` decides, carried out over real sockets
//! and a real etcd.
//!
//! ```text
//!     etcd                                                   the other nodes
//!      ▲                                                   control     bulk lanes
//!      │                                                      ▲            ▲
//!  Membership ── lease, map ──►  Core: one Node, one loop ──► Links        │
//!  (3 threads) ◄── reports ──   │      ▲                                Movers
//!                               ▼      │ calls, landings                   ▲
//!                              Store ──┘ ──── memory to send and receive ──┘
//! ```
//!
//! * [`core`]: the loop; [`core::Pool`] is a node that runs.
//! * [`door`]: the socket at which programs ask where objects are.
//! * [`membership`]: lease, map and turn to lead, in etcd. [`identity`]: what the node keeps on its
//!   disk.
//! * `links`: control lanes to the other nodes, and connecting again. `movers`: the threads that
//!   move content over bulk lanes. `fabric`: endpoints by which other nodes write into memory of
//!   this one instead.
//! * `checker`: the thread that reads copies for checksums. `loader`: the one that reads parts of
//!   spilled copies.
//! * [`store`] and [`memory`]: what is needed of the node's store, narrow, so that a double can
//!   stand for it. [`node_store`]: the real one, over the socket of `plasmond`.
//! * [`certificates`]: what the lanes are encrypted with, read again when it changes.
//! * `program` and `arguments`: the program that `plasmond` starts.
//! * [`clock`]: the one clock of all of them.
//!
//! Deliberately absent: decisions. Which copy moves where, which node leads and what a client is
//! told is decided by `plasmon_pool` and `plasmon_cluster`.

#![forbid(unsafe_code)]

mod arguments;
pub mod certificates;
mod checker;
pub mod clock;
pub mod core;
pub mod door;
mod fabric;
pub mod identity;
mod links;
mod loader;
pub mod membership;
pub mod memory;
mod movers;
pub mod node_store;
mod poll;
mod program;
mod random;
mod repeats;
mod spans;
pub mod store;

pub use program::run;
