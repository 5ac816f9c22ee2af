//! What the world knows of a client.

use std::collections::BTreeMap;

use plasmon_proto::ObjectId;
use plasmon_proto::extent::Range;

/// A client.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Memory leased to it, without what it put there.
    pub(super) leases: Vec<Range>,
    /// Memory of objects that it creates by the socket.
    pub(super) creations: BTreeMap<ObjectId, Range>,
    /// Requests that are not answered yet, with the object that they are about.
    pub(super) requests: BTreeMap<u64, Option<ObjectId>>,
    /// How much memory was asked for by growths that are not answered yet.
    pub(super) growths: BTreeMap<u64, u64>,
    pub(super) pins: Vec<u64>,
    pub(super) serials: Vec<u64>,
    pub(super) position: u64,
}
