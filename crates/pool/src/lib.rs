//! One node of a pool of stores as a pure state machine: an event and the time go in, effects come
//! out.
//!
//! There are no sockets, clocks, threads or random numbers here, so a seed replays any run. A pool
//! daemon on each machine carries the effects out and stands between the machine's store and the
//! other nodes. The reasons are in `docs/adr/0090`.
//!
//! ```text
//!            Commit              recorded by all acting nodes,          Delete, recorded
//!                                held by all holders                    by all acting nodes
//!   absent ---------> pending ---------------------------------> live ------------------> dead
//!      ^                |  |                                      | ^                       |
//!      |                |  | origin and holders gone    no copy   | | an inventory          |
//!      |  origin gave   |  +-------------------------> lost <-----+ | shows a copy          |
//!      |  it up, or no  |                               | +---------+                       |
//!      |  room for it   +-> withdrawn                   +------------ Delete -------------> |
//!      |                        |                                                           |
//!      +------------------------+------ every copy is confirmed to be gone -----------------+
//! ```
//!
//! An object has one record in the directory, on the acting nodes of its group of ids
//! (`directory.rs`). The first of them, the primary, decides while it holds its lease:
//!
//! * An id that any node may make (*free*) has one object at a time: of two commits one is refused.
//!   An id with a home is never made twice; its node shows the object before it is committed, and
//!   others open it there without the directory.
//! * *Absent* is told by a group that knows all its objects. A group that lost its records answers
//!   about what it finds, and about nothing else until every node has shown its copies.
//! * A record that an earlier primary left pending, or dead, is in doubt: nothing is answered about
//!   it until it is settled.
//!
//! What a node wants of others:
//!
//! * Questions for clients and deletes (`lookup.rs`): one for each id, however many clients ask.
//! * Commits and deletes (`origin.rs`), repeated until they are answered, known by their birth. One
//!   that takes too long ends as unreachable, which does not say whether it came through.
//! * Copies (`pull.rs`), and the other side of that (`serve.rs`). Bytes move by pull alone.
//! * Parts of objects, for programs that do not need a copy (`parts.rs`).
//! * What programs do with regions (`region_asks.rs`), and the other side of that (`regions.rs`).
//! * Parts of objects, for programs that do not need a copy (`parts.rs`), and of many objects in
//!   one request (`gather.rs`).
//!
//! An operator has the contents of the copies compared: each node reads its own (`checksums.rs`).
//!
//! A node without its lease decides nothing, and after some time its store hides the copies of free
//! ids (`vouch.rs`); it serves the bytes of a birth in any case, because they cannot be wrong.
//!
//! # How a daemon drives it
//!
//! One thread owns the node. Whatever happens becomes an [`Event`], given with the time of the
//! monotonic clock; the effects of a step are carried out in their order before the next event, and
//! [`Event::Time`] is given once [`Node::next_deadline`] is past. In particular:
//!
//! * *Connections.* An [`Effect::Send`] becomes one frame over the connection to that node, or is
//!   thrown away where there is none: everything that matters is sent again. Messages of one
//!   connection arrive in order or not at all, and those of an earlier connection never.
//!   [`Event::Link`] says when one was made or lost, in the order of its messages.
//! * *Maps and the lease.* Each map of a running node is told, in order. After a lost lease comes
//!   [`Event::LeaseLost`], then [`Event::Lease`] and the newest map. [`Event::Lease`] has the point
//!   until which the node may decide: when the keep-alive was *sent*, plus the time to live, less
//!   the fence. An incarnation is never used again, and the one in [`Config`] is the map's.
//! * *The store.* At the start each pooled copy that it has is told ([`Call::Has`]), before the
//!   first map; then what its clients wait for once more: commits, seeks and deletes that are not
//!   answered. What the store
//!   says arrives in the order in which it said it. It numbers seeks, deletes, and questions
//!   whether what is here exists; an answer ends all calls of the id up to its number. A seek lasts
//!   until [`Call::Unseek`].
//! * *Copies.* [`Effect::Land`] is answered with [`Event::Landed`]; there is room for one object of
//!   an id at most. One with an id of no pool is a local object, for parts. Segments are taken
//!   between [`Effect::Accept`] and [`Effect::Refuse`]; a transfer that was refused puts no byte
//!   into its landing any more. [`Effect::Seal`] or [`Effect::Abandon`] ends a landing.
//!   A sealed one is answered with [`Event::CopySealed`]: only then the node says that it has it.
//! * *The log.* Of a durable object a node that has a log, as its member says, holds a copy when
//!   [`Told::Log`] is answered with [`Call::Logged`]. [`Told::AddTombstone`] has the log note that
//!   an object has ended; its tombstones are told at the start, too ([`Call::TombstoneAdded`]).
//!   That a copy is gone ([`Call::Ended`]) is said when it is gone from the log.
//! * *Serving.* [`Effect::Serve`] pins the copy until [`Effect::EndServe`]. Of a copy that is not
//!   there any more [`Event::Fetched`] says so, and the receiver asks another node at once. Parts
//!   of many objects are put together ([`Effect::Gather`]), and pin nothing after that.
//!
//! Deliberately absent: names, which the stores alone know (a listing asks all of them,
//! `listing.rs`), bytes inside control messages, several sources for one transfer at a time.
//!
//! ```
//! use plasmon_cluster::Slot;
//! use plasmon_pool::event::Class;
//! use plasmon_pool::{Call, Config, Effect, Event, Fate, Mono, Node, Told};
//! use plasmon_proto::ObjectId;
//!
//! let mut node = Node::new(Config::new(Slot(0), 1, 1, 1 << 30));
//! let mut effects = Vec::new();
//! let id = ObjectId::pooled([7; 12], None);
//! let seek = Call::Seek { id, number: 1, class: Class::Get };
//! node.step(Mono(0), Event::Local(seek), &mut effects);
//! assert!(effects.is_empty());
//!
//! // Without a map there is nothing to ask. The client learns that, and never that it is absent.
//! while effects.is_empty() {
//!     let now = node.next_deadline().expect("the client waits");
//!     node.step(now, Event::Time, &mut effects);
//! }
//! let fate = Fate::Unreachable;
//! assert_eq!(effects, [Effect::Tell(Told::Sought { id, number: 1, fate })]);
//! ```

#![forbid(unsafe_code)]

mod checksums;
mod config;
mod copies;
mod creations;
mod directory;
pub mod event;
mod gather;
pub mod limits;
mod listing;
mod looks;
mod lookup;
pub mod message;
mod node;
mod notices;
pub mod object_parts;
mod origin;
mod outbox;
mod parts;
mod places;
mod pull;
pub mod record;
mod refusals;
mod region_asks;
mod regions;
mod serve;
mod survey;
pub mod tally;
#[cfg(test)]
mod tests;
mod time;
mod verify;
mod view;
mod vouch;

pub use config::Config;
pub use event::{Call, Effect, Event, Fate, Refusal, Ticket, Told};
pub use message::{Envelope, Message};
pub use node::Node;
pub use record::{Birth, Content};
pub use time::Mono;
