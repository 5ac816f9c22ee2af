//! `plasmon pool forget`: gives up a node that will not come back.
//!
//! ```text
//!   the node has no lease ──► the order is in etcd ──► the map is without the node
//!                               │     └──► the node that leads refuses: its sentence
//!                               └─ time is over: the order is taken back
//! ```

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_etcd::{Condition, Operation};
use plasmon_membership::commands::{self, Entry, Order};
use plasmon_membership::{Key, Snapshot, View};
use plasmon_proto::pool::Slot;
use plasmon_proto::pool_admin::{NodeState, PoolNode};
use serde_json::json;

use super::reach::Reach;
use crate::arguments::PoolForget;
use crate::failure::usage;
use crate::output::Output;
use crate::target;

/// How often etcd is asked what became of the order.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Forgets a node.
pub(super) fn forget(pool: &mut Reach, order: &PoolForget, output: &Output) -> Result<()> {
    let within = target::seconds("--timeout", order.timeout)?;
    let found = pool.look()?;
    let node = one_of(&found.nodes(), &order.node)?;
    if matches!(node.state, NodeState::Up | NodeState::Draining) {
        bail!(
            "node {} is {}, and only a node that will not come back can be forgotten: stop it \
             first, with `plasmon stop` on its machine",
            node.name,
            node.state
        );
    }
    if found.leader.is_none() {
        output.progress("no node leads the pool now; the next one that does will take the order");
    }
    let revision = put(pool, node.slot)?;
    let is_done = !order.no_wait;
    if is_done {
        output.progress(&format!("waiting until the pool is without node {}", node.name));
        wait(pool, &node, revision, within)?;
    }
    let document = json!({ "node": node.name, "slot": node.slot, "forgotten": is_done });
    output.value(&document, || match is_done {
        true => format!("node {} (slot {}) is forgotten", node.name, node.slot),
        false => format!("the pool is asked to forget node {} (slot {})", node.name, node.slot),
    })
}

/// The node with this name, or in this slot.
fn one_of(nodes: &[PoolNode], wanted: &str) -> Result<PoolNode> {
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

/// Writes the order; the revision in which it is there.
fn put(pool: &mut Reach, slot: Slot) -> Result<i64> {
    let value = commands::encode(&Entry::Asked(Order::Forget));
    let put = Operation::Put(pool.keys.of(Key::Command(slot)), value, None);
    Ok(pool.etcd.transact(&[], &[put]).context("writing the order")?.revision)
}

/// Waits until the map shows that the order was carried out.
fn wait(pool: &mut Reach, node: &PoolNode, revision: i64, within: Duration) -> Result<()> {
    let start = Instant::now();
    let key = pool.keys.of(Key::Command(node.slot));
    loop {
        let listing = pool.etcd.list(pool.keys.prefix());
        let view = View::of(&pool.keys, listing.context("the order is in etcd, but then")?);
        let found = Snapshot::of(&view);
        match view.command(node.slot) {
            Some((at, Entry::Refused(reason))) => {
                let seen = [Condition::Written(key.clone(), *at)];
                pool.etcd.transact(&seen, &[Operation::Delete(key)])?;
                bail!("node {} is not forgotten: {reason}", node.name);
            }
            Some((at, Entry::Asked(_))) if *at == revision => {}
            Some(_) => bail!("another order about node {} replaced this one", node.name),
            None if !found.nodes().iter().any(|other| other.slot == node.slot) => return Ok(()),
            None => bail!("the order was taken back by another program"),
        }
        if start.elapsed() >= within {
            let own = [Condition::Written(key.clone(), revision)];
            if pool.etcd.transact(&own, &[Operation::Delete(key.clone())])?.is_done {
                let why = match &found.status().leader {
                    Some(leader) => format!("node {leader}, which leads the pool, did not take it"),
                    None => "no node leads the pool: start one, it then does".to_owned(),
                };
                bail!("the order is taken back after {within:?}: {why}");
            }
        }
        std::thread::sleep(ASK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(slot: u16, name: &str) -> PoolNode {
        PoolNode {
            slot: Slot(slot),
            name: name.to_owned(),
            state: NodeState::Out,
            since_epoch: 1,
            drain: false,
            leads: false,
            groups_led: 0,
            groups: 0,
            groups_complete: 0,
            zone: String::new(),
            weight: 1,
            addresses: Vec::new(),
        }
    }

    #[test]
    fn a_node_is_named_by_its_name_or_else_its_slot() {
        let nodes = [node(0, "a"), node(1, "0"), node(2, "b"), node(3, "b")];
        for (wanted, slot) in [("a", 0), ("0", 1), ("2", 2), ("3", 3)] {
            assert_eq!(one_of(&nodes, wanted).unwrap().slot, Slot(slot), "{wanted}");
        }
        let several = one_of(&nodes, "b").unwrap_err().to_string();
        assert!(several.contains("2, 3"), "{several}");
        for unknown in ["c", "4", "-1", ""] {
            let error = one_of(&nodes, unknown).unwrap_err().to_string();
            assert!(error.contains("its nodes are a, 0, b, b"), "{error}");
        }
    }
}
