//! What etcd says of a pool at one moment, for people and their tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plasmon_cluster::{Map, NodeUuid};

/// A pool at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The newest map; `None` before the first.
    pub map: Option<Arc<Map>>,
    /// Why the map in etcd cannot be used.
    pub bad_map: Option<String>,
    /// The node that leads.
    pub leader: Option<NodeUuid>,
    /// Nodes that hold a lease.
    pub present: BTreeSet<NodeUuid>,
    /// Why nodes that hold a lease take no part.
    pub refused: BTreeMap<NodeUuid, String>,
}
