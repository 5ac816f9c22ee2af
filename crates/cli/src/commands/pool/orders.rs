//! What an operator has the node that leads do about another one.
//!
//! ```text
//!   the order is in etcd ──► the map shows it
//!     │     └──► the node that leads refuses: its sentence
//!     └─ time is over: the order is taken back
//! ```

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_etcd::{Condition, Operation};
use plasmon_membership::commands::{self, Entry, Order};
use plasmon_membership::{Key, Snapshot, View};
use plasmon_proto::pool::Slot;
use plasmon_proto::pool_status::PoolNode;

use super::reach::Reach;
use crate::failure::usage;
use crate::output::Output;

/// How often etcd is asked what became of the order.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(100);

/// An order that is in etcd.
pub(super) struct Placed {
    key: Vec<u8>,
    slot: Slot,
    name: String,
    order: Order,
    /// The revision in which it was written.
    revision: i64,
}

impl Placed {
    /// Writes an order about a node of the pool as it was found.
    pub(super) fn put(
        pool: &mut Reach,
        node: &PoolNode,
        order: Order,
        found: &Snapshot,
        output: &Output,
    ) -> Result<Self> {
        if found.leader.is_none() {
            output
                .progress("no node leads the pool now; the next one that does will take the order");
        }
        let key = pool.keys.of(Key::Command(node.slot));
        let put = Operation::Put(key.clone(), commands::encode(&Entry::Asked(order)), None);
        let revision = pool.etcd.transact(&[], &[put]).context("writing the order")?.revision;
        Ok(Self { key, slot: node.slot, name: node.name.clone(), order, revision })
    }

    /// Waits until the map shows that the order was carried out; the pool then.
    pub(super) fn wait(
        &self,
        pool: &mut Reach,
        within: Duration,
        is_done: impl Fn(&Snapshot) -> bool,
    ) -> Result<Snapshot> {
        let start = Instant::now();
        loop {
            let listing = pool.etcd.list(pool.keys.prefix());
            let view = View::of(&pool.keys, listing.context("the order is in etcd, but then")?);
            let found = Snapshot::of(&view);
            match view.command(self.slot) {
                Some((at, Entry::Refused(reason))) => {
                    let seen = [Condition::Written(self.key.clone(), *at)];
                    pool.etcd.transact(&seen, &[Operation::Delete(self.key.clone())])?;
                    bail!("node {} is not {}: {reason}", self.name, done(self.order));
                }
                Some((at, Entry::Asked(_))) if *at == self.revision => {}
                Some(_) => bail!("another order about node {} replaced this one", self.name),
                None if is_done(&found) => return Ok(found),
                None => bail!("the order was taken back by another program"),
            }
            if start.elapsed() >= within {
                let own = [Condition::Written(self.key.clone(), self.revision)];
                let delete = [Operation::Delete(self.key.clone())];
                if pool.etcd.transact(&own, &delete)?.is_done {
                    let why = match &found.status().leader {
                        Some(leader) => {
                            format!("node {leader}, which leads the pool, did not take it")
                        }
                        None => "no node leads the pool: start one, it then does".to_owned(),
                    };
                    bail!("the order is taken back after {within:?}: {why}");
                }
            }
            std::thread::sleep(ASK_EVERY);
        }
    }
}

fn done(order: Order) -> &'static str {
    match order {
        Order::Forget => "forgotten",
        Order::Drain => "drained",
        Order::Undrain => "taken back",
    }
}

/// Whether the map has a node in this slot.
pub(super) fn slot_is_there(found: &Snapshot, slot: Slot) -> bool {
    found.nodes().iter().any(|node| node.slot == slot)
}

/// The node with this name, or in this slot.
pub(super) fn node_of(nodes: &[PoolNode], wanted: &str) -> Result<PoolNode> {
    let named: Vec<&PoolNode> = nodes.iter().filter(|node| node.name == wanted).collect();
    match named.as_slice() {
        [node] => return Ok((*node).clone()),
        [] => {}
        several => {
            let slots: Vec<String> = several.iter().map(|node| node.slot.to_string()).collect();
            bail!(usage(format!(
                "several nodes were called {wanted}, in the slots {}: name one by its slot",
                slots.join(", ")
            )));
        }
    }
    let slot = wanted.parse().ok().map(Slot);
    if let Some(node) = nodes.iter().find(|node| Some(node.slot) == slot) {
        return Ok(node.clone());
    }
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    bail!("the pool has no node {wanted}; its nodes are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use plasmon_proto::pool_status::NodeState;

    use super::super::doubles;
    use super::*;

    fn node(slot: u16, name: &str) -> PoolNode {
        PoolNode { state: NodeState::Out, ..doubles::node(slot, name) }
    }

    #[test]
    fn a_node_is_named_by_its_name_or_else_its_slot() {
        let nodes = [node(0, "a"), node(1, "0"), node(2, "b"), node(3, "b")];
        for (wanted, slot) in [("a", 0), ("0", 1), ("2", 2), ("3", 3)] {
            assert_eq!(node_of(&nodes, wanted).unwrap().slot, Slot(slot), "{wanted}");
        }
        let several = node_of(&nodes, "b").unwrap_err().to_string();
        assert!(several.contains("2, 3"), "{several}");
        for unknown in ["c", "4", "-1", ""] {
            let error = node_of(&nodes, unknown).unwrap_err().to_string();
            assert!(error.contains("its nodes are a, 0, b, b"), "{error}");
        }
    }
}
