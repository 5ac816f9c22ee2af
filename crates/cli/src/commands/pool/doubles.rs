//! Nodes as the tests of this folder need them.

use plasmon_proto::pool::Slot;
use plasmon_proto::pool_status::{NodeState, PoolNode};

/// A node that is up, has no copies and encrypts nothing.
pub(super) fn node(slot: u16, name: &str) -> PoolNode {
    PoolNode {
        slot: Slot(slot),
        name: name.to_owned(),
        state: NodeState::Up,
        since_epoch: 1,
        drain: false,
        leads: false,
        groups_led: 0,
        groups: 0,
        groups_complete: 0,
        zone: String::new(),
        weight: 1,
        addresses: Vec::new(),
        left: None,
        unreached: Vec::new(),
        encryption: None,
        fabric: None,
    }
}
