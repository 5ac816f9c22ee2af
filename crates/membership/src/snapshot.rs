//! What etcd says of a pool at one moment, for people and their tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plasmon_cluster::{Map, NodeUuid};
use plasmon_etcd::{Client, Error};

use crate::keys::Keys;
use crate::view::View;

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

/// What etcd says of a pool now.
pub fn snapshot(etcd: &mut Client, keys: &Keys) -> Result<Snapshot, Error> {
    Ok(Snapshot::of(&View::of(keys, etcd.list(keys.prefix())?)))
}

impl Snapshot {
    fn of(view: &View) -> Self {
        let refused = view.refusals().map(|(life, reason)| (life.uuid, reason.to_owned()));
        Self {
            map: view.map.as_ref().map(|seen| seen.map.clone()),
            bad_map: view.bad_map.clone(),
            leader: view.leading.map(|leading| leading.life.uuid),
            present: view.members().into_iter().map(|member| member.uuid).collect(),
            refused: refused.collect(),
        }
    }
}
