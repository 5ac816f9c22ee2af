//! What the nodes of a pool are called.

use std::collections::BTreeMap;

use plasmon_proto::pool::Slot;
use plasmon_proto::pool_status::PoolNode;

/// The names of nodes by their slots.
pub(super) struct Names(BTreeMap<Slot, String>);

impl Names {
    pub(super) fn of(nodes: &[PoolNode]) -> Self {
        Self(nodes.iter().map(|node| (node.slot, node.name.clone())).collect())
    }

    /// The name of a node, or the number of its slot.
    pub(super) fn name(&self, slot: Slot) -> String {
        self.0.get(&slot).cloned().unwrap_or_else(|| format!("slot {slot}"))
    }

    /// Nodes in these slots with these names.
    #[cfg(test)]
    pub(super) fn named(nodes: &[(u16, &str)]) -> Self {
        Self(nodes.iter().map(|(slot, name)| (Slot(*slot), (*name).to_owned())).collect())
    }
}
