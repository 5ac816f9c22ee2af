//! Membership and the map of a pool of nodes, as pure rules.
//!
//! A pool is several machines whose stores work together. What all of them must agree on is small:
//! which nodes there are, and which of them keep the records of each group of ids. That is the
//! [`Map`]; etcd keeps it under one key, next to one key for each [`Member`] that lives as long as
//! the lease of its node. Where each object is, is not in etcd: the acting nodes of its group know.
//!
//! ```text
//!   etcd                      the node that leads                   every node
//!   members (leases) --------> Leader::step(now, seen)
//!   map, epoch 7 ------------>    |                            map, epoch 7: group_of, primary,
//!   map, epoch 8 <----------------+ proposal, by a              place; features by protocol()
//!        |                          compare-and-swap
//!        +--------------------------------------------------> map, epoch 8
//! ```
//!
//! * [`node`] and [`map`]: what there is, and which parts fit together; [`codec`]: as bytes.
//! * `rendezvous`: the nodes that a group should be on. `regroup`: how it gets there without
//!   losing records.
//! * [`suspicion`]: which peers a node does not reach. [`fence`]: which node goes when two that
//!   hold their leases do not reach each other.
//! * [`leader`]: the next map. `admission` refuses members; [`brake`] keeps a failure of many nodes
//!   from becoming a copy of everything; [`silence`] says which nodes show no copy any more.
//! * [`lease`]: until when a node may act. [`placement`]: where the copies of an object go.
//! * [`drain`]: how far a node is from being empty, as the primaries report.
//!
//! # Rules
//!
//! * A node acts for a group only while [`lease::LeaseClock`] holds and only in the newest epoch
//!   that it knows; nodes refuse messages of older ones.
//! * An object is recorded when all acting nodes of its group have recorded it, so any one that is
//!   in sync can lead. No other node is made primary while one that has the records could come
//!   back.
//! * A primary that was not the primary before first has an answer, in the new epoch, from
//!   [`Group::prior`] and from the other acting nodes; it reports when all of them have every
//!   record.
//! * A slot is never given to a second node.
//!
//! Deliberately absent: sockets, clocks, threads, randomness and etcd. They arrive as values, so
//! that a run can be replayed.
//!
//! # Example
//!
//! ```
//! use plasmon_cluster::fence::Reach;
//! use plasmon_cluster::leader::{Leader, OUT_AFTER_MS, Observation};
//! use plasmon_cluster::{Map, Member, NodeUuid, ProtocolRange};
//! use plasmon_proto::ObjectId;
//!
//! let member = |number: u8| Member {
//!     uuid: NodeUuid([number; 16]),
//!     name: format!("node-{number}"),
//!     incarnation: 1,
//!     boot: 1,
//!     addresses: vec![format!("10.0.0.{number}:7411")],
//!     zone: format!("rack-{number}"),
//!     weight: 64,
//!     log: plasmon_cluster::NodeLog::Absent,
//!     protocol: ProtocolRange { min: 1, max: 1 },
//! };
//! let mut members = vec![member(1), member(2), member(3)];
//! let mut leader = Leader::new(OUT_AFTER_MS);
//! let mut step = |now_ms, map: &Map, members: &[Member]| {
//!     let (activations, drained, commands) = (&[], &[], &[]);
//!     let reach = Reach::default();
//!     leader.step(now_ms, &Observation { map, members, activations, drained, commands, reach })
//! };
//! let map = step(0, &Map::default(), &members).proposal.expect("three nodes join");
//!
//! // The node that leads the group of an object is lost, and the next one takes over.
//! let group = Map::group_of(&ObjectId::new([7; 20]));
//! let (primary, next) = (map.acting(group)[0], map.acting(group)[1]);
//! let lost = map.node(primary).expect("it is in the map").member.uuid;
//! members.retain(|member| member.uuid != lost);
//! let map = step(500, &map, &members).proposal.expect("a node is down");
//! assert_eq!(map.primary(group), Some(next));
//! ```

#![forbid(unsafe_code)]

mod admission;
pub mod adoption;
pub mod brake;
pub mod codec;
pub mod drain;
pub mod fence;
#[cfg(test)]
mod fixtures;
pub mod leader;
pub mod lease;
pub mod limits;
pub mod map;
pub mod node;
pub mod placement;
mod regroup;
mod rendezvous;
pub mod silence;
pub mod suspicion;

pub use admission::{Refusal, RefusalReason};
pub use drain::{DrainReport, Left};
pub use fence::{Reach, ReachReport};
pub use leader::Leader;
pub use map::{Group, GroupNo, Map};
pub use node::{Epoch, Member, Node, NodeLog, NodeState, NodeUuid, ProtocolRange, Slot};
pub use suspicion::{Suspect, Suspicion};
