//! `plasmon pool forget`: gives up a node that will not come back.

use anyhow::{Result, bail};
use plasmon_membership::commands::Order;
use plasmon_proto::pool_status::NodeState;
use serde_json::json;

use super::orders::{Placed, node_of, slot_is_there};
use super::reach::Reach;
use crate::arguments::PoolOrder;
use crate::output::Output;
use crate::target;

/// Forgets a node.
pub(super) fn forget(pool: &mut Reach, order: &PoolOrder, output: &Output) -> Result<()> {
    let within = target::seconds("--timeout", order.timeout)?;
    let found = pool.look()?;
    let node = node_of(&found.nodes(), &order.node)?;
    if !matches!(node.state, NodeState::Down | NodeState::Out) {
        bail!(
            "node {} is {}, and only a node that will not come back can be forgotten: stop it \
             first, with `plasmon stop` on its machine",
            node.name,
            node.state
        );
    }
    let placed = Placed::put(pool, &node, Order::Forget, &found, output)?;
    let is_done = !order.no_wait;
    if is_done {
        output.progress(&format!("waiting until the pool is without node {}", node.name));
        placed.wait(pool, within, |found| !slot_is_there(found, node.slot))?;
    }
    let document = json!({ "node": node.name, "slot": node.slot, "forgotten": is_done });
    output.value(&document, || match is_done {
        true => format!("node {} (slot {}) is forgotten", node.name, node.slot),
        false => format!("the pool is asked to forget node {} (slot {})", node.name, node.slot),
    })
}
