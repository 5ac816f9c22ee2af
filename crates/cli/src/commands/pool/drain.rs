//! `plasmon pool drain` and `undrain`: a node is to be empty, or to take part again.
//!
//! ```text
//!   drain ──► the order is taken ──► the primaries report what is left ──► nothing: it is drained
//!                                      │  └─► nothing of it can be moved: why, and what to do
//!                                      └─ Ctrl-C, or time is over: the node goes on draining
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_membership::Snapshot;
use plasmon_membership::commands::Order;
use plasmon_proto::pool_status::{DrainLeft, NodeState, PoolNode};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::orders::{ASK_EVERY, Placed, node_of};
use super::reach::Reach;
use crate::arguments::{PoolDrain, PoolOrder};
use crate::output::{Output, bytes, count};
use crate::{progress, target};

/// The node that leads takes an order within so long, or has lost its place.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);

/// Objects for which there are too few nodes are waited for so long.
const FEW_NODES_FOR: Duration = Duration::from_secs(3);

/// Other objects that cannot be moved are waited for so long: nodes are asked for room again.
const STUCK_FOR: Duration = Duration::from_secs(25);

/// Drains a node.
pub(super) fn drain(pool: &mut Reach, order: &PoolDrain, output: &Output) -> Result<()> {
    let within = order.timeout.map(|timeout| target::seconds("--timeout", timeout)).transpose()?;
    let found = pool.look()?;
    let nodes = found.nodes();
    let node = node_of(&nodes, &order.node)?;
    check(&nodes, &node)?;
    let start = Instant::now();
    let mut wait = Wait { node: node.clone(), within, start, stop: stop_flag()?, stuck: None };
    if !node.drain {
        let placed = Placed::put(pool, &node, Order::Drain, &found, output)?;
        if !order.no_wait {
            let is_done = |found: &Snapshot| node_in(found, &node).is_some_and(|it| it.drain);
            placed.wait(pool, within.unwrap_or(TAKEN_WITHIN), is_done)?;
        }
    }
    if !order.no_wait {
        wait.until_drained(pool, output)?;
    }
    let is_done = !order.no_wait;
    let document = json!({ "node": node.name, "slot": node.slot, "drained": is_done });
    output.value(&document, || match is_done {
        true => format!(
            "node {} (slot {}) is drained: it can be stopped, with `plasmon stop` on its machine",
            node.name, node.slot
        ),
        false => format!(
            "the pool is asked to drain node {} (slot {}); `plasmon pool nodes` shows what is left",
            node.name, node.slot
        ),
    })
}

/// Has a node take part again.
pub(super) fn undrain(pool: &mut Reach, order: &PoolOrder, output: &Output) -> Result<()> {
    let within = target::seconds("--timeout", order.timeout)?;
    let found = pool.look()?;
    let node = node_of(&found.nodes(), &order.node)?;
    if node.drain {
        let placed = Placed::put(pool, &node, Order::Undrain, &found, output)?;
        if !order.no_wait {
            placed.wait(pool, within, |found| node_in(found, &node).is_some_and(|it| !it.drain))?;
        }
    }
    let is_done = !(order.no_wait && node.drain);
    let document = json!({ "node": node.name, "slot": node.slot, "undrained": is_done });
    output.value(&document, || match (node.drain, is_done) {
        (false, _) => format!("node {} (slot {}) was not to be drained", node.name, node.slot),
        (true, true) => format!("node {} (slot {}) takes part again", node.name, node.slot),
        (true, false) => format!("the pool is asked to take node {} back", node.name),
    })
}

/// Whether there is something to drain, and another node to take it.
fn check(nodes: &[PoolNode], node: &PoolNode) -> Result<()> {
    let name = &node.name;
    match node.state {
        NodeState::Up | NodeState::Draining | NodeState::Drained => {}
        NodeState::Down => bail!(
            "node {name} is down, and only a node that is there can be drained: start it, or give \
             it up with `plasmon pool forget {name}`"
        ),
        NodeState::Out => bail!(
            "node {name} is out: what it had is made again elsewhere, and there is nothing to \
             drain; `plasmon pool forget {name}` takes it out of the list"
        ),
    }
    let takes = |other: &&PoolNode| {
        other.slot != node.slot && other.state == NodeState::Up && other.weight > 0
    };
    if !nodes.iter().any(|other| takes(&other)) {
        bail!(
            "node {name} is the last one that takes copies, so there is no node to move them to: \
             start another one first"
        );
    }
    Ok(())
}

fn node_in(found: &Snapshot, node: &PoolNode) -> Option<PoolNode> {
    found.nodes().into_iter().find(|other| other.slot == node.slot)
}

/// Set by what would end this process.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let flag = flag.clone();
        signal_hook::flag::register(signal, flag).context("watching for signals")?;
    }
    Ok(flag)
}

/// A node that is waited for.
struct Wait {
    node: PoolNode,
    within: Option<Duration>,
    start: Instant,
    stop: Arc<AtomicBool>,
    /// What could not be moved, and since when.
    stuck: Option<(DrainLeft, Instant)>,
}

impl Wait {
    fn until_drained(&mut self, pool: &mut Reach, output: &Output) -> Result<()> {
        let name = self.node.name.clone();
        let mut bar = None;
        loop {
            let found =
                pool.look().with_context(|| format!("node {name} goes on draining, but"))?;
            let node = node_in(&found, &self.node);
            let Some(node) = node else { bail!("node {name} was forgotten") };
            if !node.drain {
                bail!("node {name} takes part again: another program had it taken back");
            }
            match node.state {
                NodeState::Drained => return Ok(()),
                // It left when it was drained.
                NodeState::Out => return Ok(()),
                NodeState::Down => bail!(
                    "node {name} is down: what only it has waits there. Start it, and it goes on \
                     draining"
                ),
                NodeState::Up | NodeState::Draining => {}
            }
            let left = node.left.unwrap_or_default();
            let bar = bar.get_or_insert_with(|| {
                let text = left_text(&left);
                output.progress(&format!("waiting until node {name} is drained: {text}"));
                progress::bytes(left.bytes, "", output.is_json())
            });
            let total = bar.length().unwrap_or(0).max(left.bytes);
            bar.set_length(total);
            bar.set_position(total - left.bytes);
            bar.set_message(left_text(&left));
            self.check(left)?;
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// Whether to go on.
    fn check(&mut self, left: DrainLeft) -> Result<()> {
        let name = &self.node.name;
        let what = obstacles(&left).join("; ");
        let back = format!("`plasmon pool undrain {name}` takes it back");
        if self.stop.load(Ordering::Relaxed) {
            bail!(
                "interrupted: node {name} goes on draining ({}); `plasmon pool drain {name}` waits \
                 for it again, and {back}",
                left_text(&left)
            );
        }
        if self.within.is_some_and(|within| self.start.elapsed() >= within) {
            bail!(
                "node {name} is not drained in time, and goes on draining: {}{}{what}; {back}",
                left_text(&left),
                if what.is_empty() { "" } else { "; " },
            );
        }
        let stuck_objects = left.few_nodes + left.no_room + left.unreachable;
        if left.objects == 0 || stuck_objects < left.objects {
            self.stuck = None;
            return Ok(());
        }
        let (before, since) = *self.stuck.get_or_insert((left, Instant::now()));
        if before.objects != left.objects {
            self.stuck = None;
            return Ok(());
        }
        let patience = if left.few_nodes == left.objects { FEW_NODES_FOR } else { STUCK_FOR };
        if since.elapsed() >= patience {
            bail!("node {name} goes on draining, but cannot be emptied now: {what}; {back}");
        }
        Ok(())
    }
}

/// What is left of a node that drains.
pub(super) fn left_text(left: &DrainLeft) -> String {
    if left.objects > 0 {
        return format!("{} with {} left", count(left.objects, "object"), bytes(left.bytes));
    }
    if left.groups > 0 {
        return format!("records of {} left", count(u64::from(left.groups), "group"));
    }
    "waiting for the other nodes to report".to_owned()
}

/// Why what is left does not move, and what to do about it.
fn obstacles(left: &DrainLeft) -> Vec<String> {
    let are = |number: u64, what: &str| match number {
        1 => format!("1 object {what}"),
        number => format!("{number} objects {what}"),
    };
    let mut obstacles = Vec::new();
    let mut add = |number: u64, text: &dyn Fn(u64) -> String| {
        if number > 0 {
            obstacles.push(text(number));
        }
    };
    add(left.few_nodes, &|number| {
        let what = "cannot be moved, because the pool has too few other nodes for the copies that \
                    were asked for: start another node";
        are(number, what)
    });
    add(left.no_room, &|number| {
        let what = "cannot be moved, because no other node has room: make room there, or start \
                    another node";
        are(number, what)
    });
    add(left.unreachable, &|number| {
        are(number, "cannot be moved, because no node that has a copy is up: start those nodes")
    });
    add(left.last.min(left.objects), &|number| {
        format!("{number} of {} would be lost with the node", left.objects)
    });
    add(u64::from(left.groups_unled), &|number| {
        format!("{} without a live node: start the nodes that had them", count(number, "group"))
    });
    obstacles
}

#[cfg(test)]
mod tests {

    use super::super::doubles;
    use super::*;

    fn node(slot: u16, state: NodeState, weight: u32) -> PoolNode {
        PoolNode { state, weight, ..doubles::node(slot, &format!("n{slot}")) }
    }

    fn why(nodes: &[PoolNode]) -> Option<String> {
        check(nodes, &nodes[0]).err().map(|error| error.to_string())
    }

    #[test]
    fn a_node_is_drained_when_it_is_there_and_another_takes_its_copies() {
        use NodeState::{Down, Draining, Out, Up};
        assert_eq!(why(&[node(0, Up, 1), node(1, Up, 1)]), None);
        assert_eq!(why(&[node(0, Draining, 1), node(1, Up, 1)]), None);
        for (nodes, said) in [
            (vec![node(0, Down, 1), node(1, Up, 1)], "pool forget n0"),
            (vec![node(0, Out, 1), node(1, Up, 1)], "nothing to drain"),
            (vec![node(0, Up, 1)], "start another one first"),
            (vec![node(0, Up, 1), node(1, Up, 0)], "start another one first"),
            (vec![node(0, Up, 1), node(1, Draining, 1)], "start another one first"),
        ] {
            let why = why(&nodes).unwrap();
            assert!(why.contains("n0") && why.contains(said), "{why}");
        }
    }

    #[test]
    fn what_is_in_the_way_is_said_with_numbers() {
        let left =
            DrainLeft { objects: 5, few_nodes: 2, no_room: 1, last: 1, ..DrainLeft::default() };
        let said = obstacles(&left);
        assert_eq!(said.len(), 3);
        assert!(said[0].starts_with("2 objects cannot be moved, because the pool has too few"));
        assert!(said[1].starts_with("1 object cannot be moved, because no other node has room"));
        assert_eq!(said[2], "1 of 5 would be lost with the node");
        assert_eq!(obstacles(&DrainLeft::default()), Vec::<String>::new());
        assert_eq!(
            left_text(&DrainLeft { objects: 1, bytes: 0, ..left }),
            "1 object with 0 B left"
        );
    }
}
