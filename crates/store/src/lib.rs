//! One node's object store as a pure state machine: an event and the time go in, effects come out.
//!
//! There are no sockets, clocks, threads, files or randomness here, so a seed replays any run. The
//! daemon carries the effects out. Two things are asked and answered at once instead, through the
//! [`ports::Directory`]: the shared index and the pins that clients hold in their ledgers. The
//! daemon gives the real ones, tests give doubles.
//!
//! ```text
//!            announce, create                put, seal
//!   absent ------------------> creating -------------------> sealed <---------> spilled
//!      ^                          |                            |     spill,        |
//!      |          abort           |  creator died              |     restore       |
//!      +--------------------------+-------> (obituary)         |                   |
//!      +---------------------------------------(obituary)------+-------------------+
//!                                     delete, evict, time to live
//! ```
//!
//! A sealed object that is deleted while readers pin it is *hidden*: nobody finds it, its id is
//! free again, and its memory waits for the last pin.
//!
//! Where to look: [`store`](Store) takes the events apart; `creating`, `puts` and `deletes` are the
//! life of an object; `memory` knows extents, holes and leases, and `jobs` brings requests for
//! memory through shortage; `evict`, `spill` and `shares` make room; `waits` and `queries` answer
//! readers; `composite` keeps members alive; `adoption` ends namespaces with a client; `recovery`
//! takes over what an earlier daemon left.

#![forbid(unsafe_code)]

mod accounts;
mod adoption;
mod clients;
mod composite;
mod config;
mod content;
mod creating;
mod deletes;
mod departure;
pub mod effect;
pub mod event;
mod evict;
mod growing;
mod jobs;
mod kept;
mod leasing;
mod memory;
mod numbers;
mod obituaries;
mod objects;
mod opening;
mod places;
pub mod ports;
mod puts;
mod queries;
mod rare;
mod records;
mod recovery;
mod room;
mod shares;
mod spill;
mod store;
mod subscriptions;
#[cfg(test)]
mod tests;
mod unused;
mod waiting;
mod waits;
mod work;

pub use config::Config;
pub use effect::Effect;
pub use event::{ClientNo, Event, Ticket};
pub use ports::Directory;
pub use store::Store;
