//! `plasmon pool nodes`: the nodes of a pool, one a line.

use anyhow::Result;
use plasmon_proto::pool_status::{NodeState, PoolNode};
use serde_json::json;

use super::drain::left_text;
use super::reach::Reach;
use crate::output::{Output, Paint};

/// Prints them.
pub(super) fn nodes(pool: &mut Reach, output: &Output) -> Result<()> {
    let nodes = pool.look()?.nodes();
    let document = json!({ "cluster": pool.address.to_string(), "nodes": nodes });
    output.value(&document, || table(&nodes, output))
}

fn table(nodes: &[PoolNode], output: &Output) -> String {
    const HEAD: [&str; 9] =
        ["slot", "name", "state", "since", "leads", "complete", "zone", "weight", "address"];
    let row = |node: &PoolNode| {
        let mark = if node.leads { " (leader)" } else { "" };
        vec![
            node.slot.to_string(),
            format!("{}{mark}", node.name),
            state_text(node),
            format!("map {}", node.since_epoch),
            node.groups_led.to_string(),
            format!("{} of {}", node.groups_complete, node.groups),
            if node.zone.is_empty() { "-".to_owned() } else { node.zone.clone() },
            node.weight.to_string(),
            node.addresses.join(", "),
        ]
    };
    let rows: Vec<Vec<String>> = nodes.iter().map(row).collect();
    let text = output.table(&HEAD, &rows, &[0, 4, 7]);
    let mut lines = text.lines();
    let head = lines.next().map(str::to_owned);
    // Whole lines, because a table counts the letters of its cells.
    let lines = lines.zip(nodes).map(|(line, node)| match node.state {
        NodeState::Up => line.to_owned(),
        NodeState::Draining | NodeState::Drained | NodeState::Out => {
            output.paint(Paint::Note, line)
        }
        NodeState::Down => output.paint(Paint::Bad, line),
    });
    head.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// The state, what is left of a node that drains, and what a node does not reach.
fn state_text(node: &PoolNode) -> String {
    match &node.left {
        Some(left) if node.state == NodeState::Draining => {
            format!("{}: {}", node.state, left_text(left))
        }
        _ if !node.unreached.is_empty() => {
            format!("{}: does not reach {}", node.state, node.unreached.join(", "))
        }
        _ => node.state.to_string(),
    }
}
