//! What `plasmon spark doctor` says of the pool as a whole, as the pool daemon of the running store
//! sees it.

use plasmon_client::{Client, Error};
use plasmon_proto::pool_status::{NodeState, PoolNode, PoolStatus};

use super::status::{groups_text, nodes_text, unreached_text};
use crate::commands::check::{Check, Verdict, check};

/// Whether the pool is whole, and which nodes are up.
pub(crate) fn whole_checks(store: &Client) -> Vec<Check> {
    let found = store.pool_status().and_then(|status| Ok((status, store.pool_nodes()?)));
    match found {
        Ok((status, nodes)) => vec![nodes_check(&status, &nodes), groups_check(&status)],
        Err(error) => vec![
            check("pool nodes", Verdict::Bad, error.to_string())
                .advise("the pool daemon of this store tells them: its log says what is wrong"),
        ],
    }
}

/// How many nodes take copies of new objects.
pub(crate) fn takers(store: &Client) -> Result<u32, Error> {
    let takes = |node: &&PoolNode| node.state == NodeState::Up && node.weight > 0;
    let count = store.pool_nodes()?.iter().filter(takes).count();
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn nodes_check(status: &PoolStatus, nodes: &[PoolNode]) -> Check {
    const WHAT: &str = "pool nodes";
    let live = nodes.iter().filter(|node| {
        matches!(node.state, NodeState::Up | NodeState::Draining | NodeState::Drained)
    });
    let mut names: Vec<&str> = live.map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    let found = format!("{} ({})", nodes_text(status), names.join(", "));
    if !status.unreached.is_empty() {
        return check(WHAT, Verdict::Bad, unreached_text(&status.unreached))
            .advise("look at the network between them; `plasmon doctor` tries their ports");
    }
    let verdict = if status.nodes_down > 0 { Verdict::Note } else { Verdict::Good };
    check(WHAT, verdict, found)
        .advise("start the nodes that are down again; `plasmon pool nodes` lists them")
}

fn groups_check(status: &PoolStatus) -> Check {
    const WHAT: &str = "pool groups";
    let found = groups_text(status);
    if let Some(problem) = &status.bad_map {
        return check(WHAT, Verdict::Bad, format!("the map cannot be used: {problem}"))
            .advise("`plasmon pool status` shows the pool");
    }
    if let Some(alarm) = &status.alarm {
        return check(WHAT, Verdict::Bad, format!("{found}; {alarm}"))
            .advise("start these nodes again, or give them up with `plasmon pool forget NODE`");
    }
    let verdict = match status {
        _ if status.groups_dead > 0 => Verdict::Bad,
        _ if status.leader.is_none() || status.groups_settled < status.groups => Verdict::Note,
        _ => Verdict::Good,
    };
    check(WHAT, verdict, found).advise(
        "after a node comes or goes the others copy records for some seconds; `plasmon pool \
         status` shows what the pool waits for",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn well() -> PoolStatus {
        PoolStatus {
            leader: Some("a".to_owned()),
            nodes_live: 2,
            groups: 1024,
            groups_settled: 1024,
            ..PoolStatus::default()
        }
    }

    fn told(check: Check) -> (String, String) {
        let told: Value = serde_json::to_value(check).unwrap();
        let word = |key: &str| told[key].as_str().unwrap().to_owned();
        (word("verdict"), word("found"))
    }

    #[test]
    fn a_pool_is_whole_when_all_groups_are() {
        assert_eq!(told(groups_check(&well())), ("good".into(), "1024 of 1024 complete".into()));
        let alarm = Some("2 nodes are lost".to_owned());
        for (status, verdict) in [
            (PoolStatus { groups_settled: 1000, ..well() }, "note"),
            (PoolStatus { leader: None, ..well() }, "note"),
            (PoolStatus { groups_dead: 1, ..well() }, "bad"),
            (PoolStatus { alarm, ..well() }, "bad"),
            (PoolStatus { bad_map: Some("odd".to_owned()), ..well() }, "bad"),
        ] {
            assert_eq!(told(groups_check(&status)).0, verdict, "{status:?}");
        }
    }

    #[test]
    fn nodes_that_are_down_are_noted() {
        assert_eq!(told(nodes_check(&well(), &[])), ("good".into(), "2 live ()".into()));
        let down = PoolStatus { nodes_down: 1, ..well() };
        assert_eq!(told(nodes_check(&down, &[])), ("note".into(), "2 live, 1 down ()".into()));
        let unreached = vec![("a".to_owned(), "b".to_owned())];
        let found = told(nodes_check(&PoolStatus { unreached, ..well() }, &[]));
        assert_eq!(found, ("bad".into(), "nodes do not reach each other: a and b".into()));
    }
}
