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
//!      +--------------------------+-------> (ended)            |                   |
//!      +---------------------------------------(ended)   ------+-------------------+
//!                                     delete, evict, time to live
//! ```
//!
//! A sealed object that is deleted while readers pin it is *hidden*: it is not found any more, its
//! id is free again, and its memory waits for the last pin.
//!
//! Where to look: `dispatch` says which event goes where. [`store`](Store) holds four groups:
//! `objects`, the `space` that they lie in, the `sessions` of the clients, and the `seat` of the
//! pool daemon; a method of a group
//! touches nothing else. A file such as `jobs.rs` is what is kept of one thing and imports no
//! decision; what the store decides about it is below, in `jobs/`. `creating`, `puts` and `deletes`
//! are the life of an object; `memory` knows extents, holes and leases, and `jobs` brings requests
//! for memory through shortage; `evict`, `spill` and `shares` make room; `waits` and `queries`
//! answer readers; `durable` has objects logged before they are seen; `seat` is what the store
//! asks the daemon of its pool, and what that brings here;
//! `composite` keeps members alive; `adoption` ends namespaces with a client,
//! `scopes` the objects that it did not publish;
//! `recovery` takes over what an earlier daemon left.
//!
//! # Rules
//!
//! `now_ms` is milliseconds since 1970 by a clock that never runs backwards.
//!
//! * Effects are carried out in order. The tier works in the order of `Spill`, `Restore`,
//!   `Unspill`: an `Unspill` may follow a `Restore` of the same object that is not answered yet. A
//!   `Drop` may name an extent that was never made. `Writer` comes before the grant that makes it
//!   so.
//! * The file of an object that came back is kept (`kept.rs`): such an object is spilled without an
//!   effect, at the next `Tick` after it was chosen, and is known in the tier by the file's serial
//!   again. Kept files count against `spill_bytes_max` and go first. `Open` is in the order of the
//!   tier's work, too; its answer is `Event::Opened`, then `Effect::Opened` with the ticket for
//!   which the daemon holds the descriptor.
//! * `Tick` as soon as `next_deadline()` has passed. Deletes that come through a ring are only
//!   hidden at first; their pins are looked for at the next tick (due at once), up to 1024 of them
//!   in one look at the ledgers.
//! * Two sums are kept within bounds: *charged* bytes (leases, objects, reservations, and what was
//!   dropped and is still there; the capacity, rounded up to pages) and *resident* pages (an eighth
//!   more, because pages may be partly used). `Effect::Drop` at levels `leased` and `strict`, and
//!   of strict objects, is answered with `Event::Released`, or with `Event::Retained` and later
//!   `Released`. An exact extent is charged the pages of data and metadata; its attributes are
//!   bookkeeping.
//! * A lease grants at most a sixty-fourth of the capacity beyond `bytes_min`. A client that is
//!   refused `StoreFull` should return its leases and ask again; an object above a quarter of the
//!   capacity is better created than put. Adjacent leases of a client are one.
//! * Nothing is placed in an extent before its first `Reserved`.
//! * A wait with timeout 0 brings nothing back from the tier. An object that is spilled while
//!   others of the same wait are missing stays decided, and the answer says `spilled`: ask again. A
//!   spilled object that finds no memory is answered as `spilled`, too. What comes back has a new
//!   serial and makes no notice.
//! * A restarted store knows objects, composites, names, times to live and the tier; it has
//!   forgotten ends, announced objects, owners and pins of clients without a channel.
//! * Capacity counts, page-rounded: live + hidden objects, leases, objects under construction. Free
//!   memory that is still physically there ("warm") is kept up to `warm_bytes_max` and given back
//!   (punch or drop) before the sum would exceed the capacity.
//! * Arena extents (ARENA_EXTENT_BYTES, or a sixteenth of the capacity, at least 1 MiB) have one
//!   writer at a time; leases are holes of them. An extent whose writer left is open to any writer
//!   at level shared; at level leased it is only dropped when empty. A large object's extent has
//!   exactly its pages.
//! * Memory for a request, in this order: a warm hole of the writer; a hole of an ownerless extent;
//!   a new extent; give back warm memory; evict `cache` objects, least recently used first; spill
//!   `keep` objects, least recently used first; `StoreFull`. Nothing that is pinned, held by a
//!   composite in memory or being spilled is touched.
//! * Recent ends (deleted, evicted, creator died) are remembered up to `RECENT_ENDS_MAX`.

#![forbid(unsafe_code)]

mod accounts;
mod adoption;
mod asker;
mod clients;
mod composite;
mod config;
mod construction;
mod content;
mod deferred_delete;
mod deletes;
mod disconnect;
mod dispatch;
#[cfg(any(test, feature = "doubles"))]
pub mod doubles;
mod durable;
pub mod effect;
pub mod event;
mod evict;
mod extras;
mod file_opening;
mod free_numbers;
mod growing_objects;
mod jobs;
mod lease_requests;
mod memory;
mod namespace_listing;
mod objects;
mod places;
pub mod ports;
mod publication;
mod puts;
mod queries;
mod recent_ends;
mod records;
mod recovery;
mod retained_files;
mod room;
mod scopes;
mod seat;
mod sessions;
mod shares;
mod space;
mod spill;
mod store;
mod subscriptions;
#[cfg(test)]
mod tests;
mod wait_requests;
mod wait_table;
mod work;

pub use config::Config;
pub use effect::Effect;
pub use event::{ClientNo, Event, Ticket};
pub use ports::Directory;
pub use store::Store;
